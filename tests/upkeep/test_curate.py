"""The rules that curate MEMORY.md: whose lines stay, what is merged, what is outdated, and what there is room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Fact as Triple
from fusion.lib.loss import loss
from fusion.upkeep.curate import MOST_COMPARED, Curated, Fact, _Near, curated, refs_of, rendered, text_of, value
from fusion.upkeep.drift import protects, sections

NOW = datetime(2026, 11, 23, tzinfo=UTC)
PERSONS = """# Max

Some words about Max.

## Identity

I am Max.

## Rules

- Never deploy on a Friday.

## Preferences

* Ada likes short answers.

```
## no heading
- no line of ours
```
"""


def fact(text: str, *refs: str, days: float = 0, **fields: Any) -> Fact:
    return Fact(text, NOW - timedelta(days=days), refs or ("m1",), **fields)


def run(text: str, candidates: Sequence[Fact], ours: Mapping[str, Fact] | None = None, **limits: Any) -> Curated:
    given = {"protected": protects(["identity", "rules"]), "now": NOW, "max_chars": 25_000, "max_loss": 0.25, **limits}
    return curated(text, ours or {}, candidates, **given)


def again(before: Curated, candidates: Sequence[Fact], **limits: Any) -> Curated:
    """A second run on what the first one wrote."""
    return run(before.text, candidates, {one.line: one for one in before.facts}, **limits)


def persons_lines(text: str, ours: Sequence[Fact]) -> list[str]:
    lines = {one.line for one in ours}
    return [line for line in text.splitlines() if line.strip() and line not in lines]


def test_facts_go_below_the_heading_of_their_topic() -> None:
    """Into a person's section of that name, else a new one; never into a protected one, whatever its topic."""
    found = run(
        PERSONS,
        [
            fact("Ada prefers tea.", "m2", topic="preferences"),
            fact("Mia is allergic to peanuts.", "m3", topic="health"),
            fact("Always use tabs in Makefiles.", "m4", topic="rules"),
        ],
    )
    assert found.text == PERSONS.removesuffix("\n") + (
        "\n- Ada prefers tea. [m2]\n"
        "\n## Health\n\n- Mia is allergic to peanuts. [m3]\n"
        "\n## Ways of working\n\n- Always use tabs in Makefiles. [m4]\n"
    )
    assert again(found, []).text == found.text


def test_a_new_file_has_a_title() -> None:
    assert run("", [fact("Ada prefers tea.")]).text == "# Memory\n\n## Facts\n\n- Ada prefers tea. [m1]\n"
    assert run("", []).text == ""


@pytest.mark.feature("… facts that say the same become one line with the refs of both", of="the job `distill` rewrites")
def test_what_says_the_same_is_one_line() -> None:
    """In the words that say more, at the place of the first; what a person wrote is not said again."""
    before = run(PERSONS, [fact("My daughter Mia is allergic to peanuts.", "m1", topic="health", days=3)])
    found = again(
        before,
        [
            fact("My daughter Mia is allergic to peanuts.", "m7", topic="health"),
            fact("My daughter Mia is very allergic to peanuts.", "m8", topic="health"),
            fact("Ada likes short answers.", "m9", topic="preferences"),
        ],
    )
    [one] = found.facts
    assert one.refs == ("m1", "m7", "m8")
    assert "allergic to peanuts. [m1, m7, m8]" in one.line
    assert (refs_of(one.line), text_of(one.line)) == (one.refs, one.text)


@pytest.mark.feature("… of two facts that contradict each other the newer is kept", of="the job `distill` rewrites")
def test_of_two_facts_that_exclude_each_other_the_newer_stays_unless_it_is_trusted_less() -> None:
    rome = fact("Ada lives in Rome.", "m1", days=30, triples=(Triple("Ada", "lives in", "Rome"),))
    oslo = fact("Ada lives in Oslo.", "m2", triples=(Triple("Ada", "lives in", "Oslo"),))
    for order in ([rome, oslo], [oslo, rome]):
        found = run("", order)
        assert [one.text for one in found.facts] == ["Ada lives in Oslo."]
        assert found.outdated == (("Ada lives in Rome.", "Ada lives in Oslo."),)
    found = run("", [replace(rome, trust="trusted"), oslo])
    assert [one.text for one in found.facts] == ["Ada lives in Rome."]


@pytest.mark.feature(
    "… a newer number or date of the same thing replaces the older one", of="the job `distill` rewrites"
)
def test_a_reflection_never_replaces_what_was_said() -> None:
    """Whether it is newer, says the same at greater length, or excludes it; of two reflections the newer one stays."""
    said = fact("The server kedjan listens on port 5432.", "m1", days=9)
    other = fact("The server kedjan listens on port 6000.", "m2", own_words=True)
    same = fact("Corrected: The server kedjan listens on port 5432.", "m1", own_words=True)
    for reflected in (other, same):
        for order in ([said, reflected], [reflected, said]):
            (kept,) = run("", order).facts
            assert (kept.text, kept.refs, kept.own_words) == (said.text, ("m1",), False)
    older = replace(other, refs=("m3",), at=other.at - timedelta(days=3))
    (kept,) = run("", [older, other]).facts
    assert kept.refs == ("m2",)


def test_a_newer_number_or_date_of_the_same_thing_replaces_the_older_one() -> None:
    """Unless it is trusted less; two events that both happened stay."""
    old = fact("The server kedjan listens on port 5432.", "m1", days=30)
    new = fact("The server kedjan listens on port 6000.", "m2")
    events = [fact("The taxi took 20 minutes.", "m3", days=3), fact("The taxi took 30 minutes.", "m4")]
    found = run("", [old, new, *events])
    assert {one.text for one in found.facts} == {new.text, *(one.text for one in events)}
    assert found.outdated == ((old.text, new.text),)
    found = run("", [replace(old, trust="trusted"), new])
    assert [one.text for one in found.facts] == [old.text]


def test_a_persons_line_stays_though_a_newer_fact_excludes_it() -> None:
    """Both are in the file, and the run reports them."""
    oslo = fact("Ada lives in Oslo.", "m2", triples=(Triple("Ada", "lives in", "Oslo"),))
    found = run(
        "- Ada lives in Rome.\n",
        [oslo],
        triples=lambda line: [Triple("Ada", "lives in", "Rome")] if "Rome" in line else [],
    )
    assert found.disputed == (("- Ada lives in Rome.", "Ada lives in Oslo."),)
    assert "- Ada lives in Rome.\n" in found.text
    assert oslo.line in found.text


def many(count: int, **fields: Any) -> list[Fact]:
    return [fact(f"Project number {n} has the code word zebra{n * 7919}.", f"m{n}", **fields) for n in range(count)]


@pytest.mark.feature("… important and used facts are chosen first", of="the job `distill` rewrites")
def test_the_most_important_have_room_first() -> None:
    """Then what was used, then what is new. The limit holds, and what had no room is counted."""
    important = fact("Mia is allergic to peanuts.", "m900", importance=0.9, days=300)
    used = fact("The gateway of the office listens on port 7777.", "m901", uses=9, days=300)
    found = run(PERSONS, [*many(100, days=10), important, used], max_chars=3000)
    assert len(found.text) <= 3000
    assert {important.line, used.line} <= set(found.text.splitlines())
    assert found.no_room == 102 - len(found.facts)
    assert persons_lines(found.text, found.facts) == [*persons_lines(PERSONS, ()), "## Facts"]
    assert value(replace(used, uses=0), NOW) < value(replace(used, at=NOW, uses=0), NOW) < value(used, NOW)


def test_what_is_said_often_and_what_lasts_are_worth_more() -> None:
    """Than what is as new, but passes; and than what was said once, long ago. A new fact has time to show its worth."""
    often = fact("The gateway listens on port 7777.", "m1", "m2", "m3", since=NOW - timedelta(days=20))
    once = fact("The gateway listens on port 7777.", "m1")
    old = replace(once, at=NOW - timedelta(days=200))
    event = replace(once, text="The gateway failed at port 7777.", at=NOW - timedelta(days=20))
    assert value(often, NOW) > value(once, NOW) > value(event, NOW) > 0
    assert value(once, NOW) > value(old, NOW)
    assert value(replace(event, text=once.text), NOW) > value(event, NOW)


def test_no_blank_lines_gather_where_a_section_is_emptied_and_filled_again() -> None:
    found = run("", [fact("Ada prefers tea.", "m1"), fact("Ben lives in Oslo.", "m2")])
    before = found.text
    for turn in range(5):
        kept = [one for one in found.facts if "Oslo" in one.text]
        emptied = rendered(found.text, {one.line: one for one in found.facts}, [], {}, protects([]))
        found = run(emptied, [*kept, fact("Ada prefers tea.", f"m{turn + 5}")])
    assert len(found.text.splitlines()) == len(before.splitlines())


def test_no_run_drops_more_of_the_file_than_the_loss_gate_allows() -> None:
    """A flood of important facts replaces the file over several runs."""
    before = run("", many(60), max_chars=3000)
    flood = [
        fact(f"Customer {n} is allergic to ingredient yak{n * 31}.", f"m{500 + n}", importance=0.9) for n in range(80)
    ]
    found, losses = before, []
    for _ in range(12):
        after = again(found, flood, max_chars=3000)
        losses.append(loss(found.text, after.text))
        assert len(after.text) <= 3000
        found = after
    assert 0 < max(losses) <= 0.25
    assert losses[-1] == 0
    assert all("Customer" in one.text for one in found.facts)


def test_nothing_is_added_below_an_open_code_block() -> None:
    found = run("# A\n\n```\ncode\n", [fact("Ada prefers tea.")])
    assert found.text == "# A\n\n```\ncode\n"
    assert "not closed" in found.notes[0]


def test_a_person_with_more_than_the_limit_is_told_so() -> None:
    """Nothing of theirs goes, and nothing of ours is added."""
    text = "".join(f"- line {n} by hand\n" for n in range(100))
    found = run(text, [fact("Ada prefers tea.")], max_chars=1000)
    assert found.text == text
    assert found.notes == ("your own lines have 1,790 characters, more than 1,000: shorten them",)


def test_line_ends_of_the_file_stay() -> None:
    text = PERSONS.replace("\n", "\r\n")
    found = run(text, [fact("Ada prefers tea.", topic="preferences")])
    assert found.text == text + "- Ada prefers tea. [m1]\r\n"


LINES = "# A|## Rules|### Tea|## Preferences||- Ada sails.|text|```|* x [m1]|- Tea is fine. [m1]".split("|")
LINE = st.sampled_from(LINES)


@given(st.lists(LINE, max_size=12), st.lists(st.sampled_from(["tea", "rye", "oats"]), max_size=3))
def test_no_line_of_a_person_is_changed_moved_or_dropped(lines: list[str], wanted: list[str]) -> None:
    """Whatever the file; and a protected section is the same to the letter."""
    text = "".join(f"{line}\n" for line in lines)
    found = run(text, [fact(f"Ada prefers {one}.", f"m{n}", topic="preferences") for n, one in enumerate(wanted, 5)])
    left = iter(found.text.splitlines())
    assert all(line in left for line in lines)
    before, after = (run_sections(one) for one in (text, found.text))
    assert [one for one in before if one[0]] == [one for one in after if one[0]]


def run_sections(text: str) -> list[tuple[bool, tuple[str, ...]]]:
    """Whether each section is protected, and its lines that say something."""
    protected = protects(["identity", "rules"])
    said = [(one.path, [line for line in (one.heading, *one.lines) if line.strip()]) for one in sections(text)]
    return [(protected(path), tuple(lines)) for path, lines in said]


def test_of_texts_that_share_equally_many_words_the_earliest_are_compared() -> None:
    """Python orders a set of words differently in each process; what is merged must not depend on that."""
    near = _Near()
    words = [f"word{number}" for number in range(3 * MOST_COMPARED)]
    for word in words:
        near.add(frozenset({word}))
    assert [number for number, _ in near.to(frozenset(words))] == list(range(MOST_COMPARED))
