"""Events that give a question its time, and the memories that date them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fusion.contract import Hit, Moment, Place
from fusion.recall.event_dates import dated_by, event_in
from fusion.recall.filter import Admitted
from tests.recall.helpers import at, query


def said(ref: str, text: str, when: Moment | None, **more: object) -> Admitted:
    return Admitted(ref, Hit(ref, text, at=when, **more), 1)  # type: ignore[arg-type]


def days(question: str, *found: Admitted) -> tuple[str, str, str] | None:
    """The days that a question asks for by its event, and the memory that dates it."""
    event = event_in(query(question))
    assert event is not None
    time = dated_by(event, found, query(question))
    return None if time is None else (str(time.first), str(time.last), time.ref)


@pytest.mark.parametrize(
    ("question", "event", "side"),
    [
        ("what did I pay before we moved?", "we moved", "before"),
        ("After the wedding, who wrote?", "the wedding", "after"),
        ("whom did I meet since I changed jobs", "I changed jobs", "since"),
        ("what was the rent until Ada moved out?", "Ada moved out", "until"),
        ("till the harvest: what did we eat", "the harvest", "until"),
        ("what comes before lunch?", None, None),
        ("what did I do after 3 March 2026?", None, None),
        ("what did I do before the trip in May?", None, None),
        ("since when do we rent?", None, None),
        ("before that", None, None),
        ("what did I say after all that we know and all that we have heard and seen", None, None),
    ],
)
def test_event_of_a_question(question: str, event: str | None, side: str | None) -> None:
    found = event_in(query(question))
    assert (found and found.words, found and found.side) == (event, side)


MOVED = said("m1", "We moved to the mill today. Boxes everywhere.", at("2026-02-10"))
BEFORE = "what did I pay before we moved?"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (BEFORE, ("1970-01-01", "2026-02-09", "m1")),
        ("what did I pay until we moved?", ("1970-01-01", "2026-02-10", "m1")),
        ("what did I pay since we moved?", ("2026-02-10", "2026-03-01", "m1")),
        ("what did I pay after we moved?", ("2026-02-11", "2026-03-01", "m1")),
    ],
)
def test_days_of_each_side_of_an_event(question: str, expected: tuple[str, str, str]) -> None:
    assert days(question, MOVED) == expected


def test_day_that_the_sentence_names_counts_before_that_of_the_memory() -> None:
    later = said("m2", "The rent is 900. We moved on 14 January 2026.", at("2026-02-20"))
    assert days(BEFORE, later) == ("1970-01-01", "2026-01-13", "m2")


def test_memories_that_agree_date_an_event_and_those_that_disagree_do_not() -> None:
    assert days(BEFORE, MOVED, said("m2", "Still tired, we moved yesterday.", at("2026-02-11"))) is not None
    assert days(BEFORE, MOVED, said("m2", "We moved the piano.", at("2026-02-25"))) is None


@pytest.mark.parametrize(
    "found",
    [
        said("m2", "Will we have moved by then?", at("2026-02-25")),
        said("m2", "We moved? Not yet.", at("2026-02-25")),
        said("m2", "Thought about the years before we moved.", at("2026-02-25")),
        said("m2", "The cat slept.", at("2026-02-25")),
        said("m2", "We moved.", None),
        said("m2", "We moved.", Moment(datetime(2026, 1, 1, tzinfo=UTC), "month")),
        said("m2", "We moved.", at("2026-02-25"), trust="untrusted"),
        said("m2", "We moved.", at("2026-02-25"), origin="tool"),
    ],
    ids=lambda item: item.hit.text,
)
def test_memory_that_does_not_say_when_it_happened_dates_nothing(found: Admitted) -> None:
    assert days(BEFORE, found) is None
    assert days(BEFORE, MOVED, found) == ("1970-01-01", "2026-02-09", "m1")


def test_daily_note_dates_what_it_says_by_its_name() -> None:
    note = said("n1", "Changed jobs today!", None, place=Place("diary/2026-02-03.md", 1, 2, "line"))
    assert days("whom did I meet since I changed jobs?", note) == ("2026-02-03", "2026-03-01", "n1")


def test_event_to_come_gives_no_time_after_it() -> None:
    assert days("what happened after we moved?", said("m1", "We moved.", at("2026-04-10"))) is None


HOSTILE = ["", "before " * 600, "before the " + "a " * 2000, "before the" + " " * 3900, "🙂 since"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_question_has_an_event_or_none(text: str) -> None:
    found = event_in(query(text))
    assert found is None or dated_by(found, [MOVED], query(text)) is None


def test_note_about_an_event_does_not_date_it() -> None:
    """What came of an incident is in its own note, which the words of the event find."""
    line = said("m1", "We moved to the mill today.", at("2026-02-10"))
    note = said("m2", "# 2026-02-10 We moved to the mill\n\nThe deposit went up to 900.", at("2026-02-10"))
    assert days(BEFORE, line) is not None
    assert days(BEFORE, line, note) is None
