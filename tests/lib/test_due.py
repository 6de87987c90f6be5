"""When a plan is due, by the words of its text."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from fusion.contract import Event, Kind, Moment
from fusion.lib.due import due_end, due_of

SAID = datetime(2026, 1, 14, 15, 30, tzinfo=UTC)  # a Wednesday


def event(text: str, kind: Kind = "plan", at: Moment | None = None) -> Event:
    return Event("0199", text, SAID, kind=kind, at=at)


def day(written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=UTC)


@pytest.mark.row("A146", "a plan is due at the time that its words name, counted from when it was said")
@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Remind me in March to renew the passport", "2026-03-01", "2026-04-01"),
        ("Call the tailor next Tuesday", "2026-01-20", "2026-01-21"),
        ("Send the form by Friday", "2026-01-16", "2026-01-17"),
        ("Repaint the shed on January 3", "2027-01-03", "2027-01-04"),
        ("Pay the rent on 2026-02-01", "2026-02-01", "2026-02-02"),
        ("Water the ferns tomorrow", "2026-01-15", "2026-01-16"),
        ("Visit Ana in two weeks", "2026-01-28", "2026-01-29"),
        ("We met in 2019; renew the lease in May 2026", "2026-05-01", "2026-06-01"),
        ("Erinnere mich am 20. Februar an die Steuer", "2026-02-20", "2026-02-21"),
    ],
)
def test_words_say_when_a_plan_is_due(text: str, start: str, end: str) -> None:
    due = due_of(event(text))
    assert due is not None
    assert (due.utc, due_end(due)) == (day(start), day(end))


def test_time_of_the_memory_counts_not_that_of_storing() -> None:
    due = due_of(event("Remind me in March", at=Moment(day("2024-05-02"), "day")))
    assert due is not None
    assert due.utc == day("2025-03-01")


@pytest.mark.parametrize("text", ["Some day, repaint the shed", "The shed was painted in 2019", "", "by the way"])
def test_plan_without_a_time_to_come_is_not_due(text: str) -> None:
    assert due_of(event(text)) is None


@pytest.mark.row("A146", "a note is due if it asks to be reminded; what is said about a time to come is no plan")
def test_only_what_asks_to_be_reminded_is_due() -> None:
    assert due_of(event("Remind me next Tuesday to call", "note")) is not None
    assert due_of(event("TODO: call the tailor by Friday", "note")) is not None
    assert due_of(event("The fair is next Tuesday", "note")) is None
    assert due_of(event("Remind me next Tuesday", "turn")) is None
    assert due_of(event("Remind me next Tuesday", "fact")) is None


@pytest.mark.parametrize("text", ["in March " * 200_000, "31st of June " * 100_000, "9999-12-31", "in 9999 years"])
def test_hostile_plan_takes_bounded_time(text: str) -> None:
    began = time.process_time()
    due_of(event(text))
    assert time.process_time() - began < 0.5
