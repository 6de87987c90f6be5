"""What a new statement does: it repeats an earlier one, contradicts it, or neither; what is never merged."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from fusion.contract import KINDS, LIFETIMES, Entity, Extraction, Fact, Lifetime, Place, Scope, State, StateChange
from fusion.upkeep.consolidate import Known, Near, Verdict, decide, is_statement, outlasts
from tests.backend_contract import NOW, event_id, make_event
from tests.fakes import FakeModel

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
DAY = timedelta(days=1)
DARK = "Ada prefers dark mode in every single editor"


def statement(n: int, text: str, *facts: tuple[str, str, str], scope: Scope = ADA, **fields: object) -> Known:
    """An independent fact, a minute later than the one before."""
    event = make_event(n, text, scope, **({"kind": "fact"} | fields))
    names = dict.fromkeys(name for fact in facts for name in (fact[0], fact[2]))
    extraction = Extraction(event.kind, tuple(Entity(x) for x in names), tuple(Fact(*f) for f in facts))
    return Known(event, extraction, State(), f"m{n}")


async def decided(new: Known, *near: Near, apart: tuple[tuple[str, str], ...] = ()) -> Verdict:
    return await decide(new, near, apart, None)


def change(verdict: Verdict, known: Known) -> StateChange:
    """How a verdict changes the state of one statement."""
    wanted = verdict.changes[known.id]
    return wanted(known.state) if callable(wanted) else wanted


# Which memories are compared


@pytest.mark.parametrize("kind", KINDS)
def test_statements_are_compared(kind: str) -> None:
    """Rules, procedures, facts, preferences, decisions and plans; not what happened, and no part of a document."""
    plain = statement(1, "x", kind=kind)
    expected = kind in {"rule", "procedure", "fact", "preference", "decision", "plan"}
    assert is_statement(plain.event, plain.extraction) == expected
    placed = statement(1, "x", kind=kind, place=Place("talk", 1, 1))
    assert not is_statement(placed.event, placed.extraction)


def test_note_has_the_kind_that_was_extracted() -> None:
    note = make_event(1, "x", kind="note")
    assert is_statement(note, Extraction("fact"))
    assert not is_statement(note, Extraction("note"))


def test_short_turn_that_states_a_fact_is_compared() -> None:
    """In a conversation too; not "yes", and not a long turn, which says several things."""
    place = Place("talk", 1, 1)
    lives = ("Ada", "lives in", "Rome")
    for text, facts, expected in (("I live in Rome", [lives], True), ("yes", [], False), ("x " * 400, [lives], False)):
        turn = statement(1, text, *facts, kind="turn", place=place)
        assert is_statement(turn.event, turn.extraction) is expected


@pytest.mark.parametrize(
    ("text", "speaker", "expected"),
    [
        ("My favourite editor is Helix.", "user", True),
        ("My favourite editor is Helix.", "assistant", False),
        ("Is my favourite editor Helix?", "user", False),
        ("Thanks.", "user", False),
        ("I use Helix. The tests run in CI.", "user", False),
    ],
)
def test_turn_of_one_sentence_is_compared_without_a_fact(text: str, speaker: str, expected: bool) -> None:
    """Rules find no fact in most sentences; a question, thanks and what an assistant repeats state nothing new."""
    turn = statement(1, text, kind="turn", speaker=speaker, place=Place("talk", 1, 1))
    assert is_statement(turn.event, turn.extraction) is expected


# Repetition


@pytest.mark.row("A033", "a statement with a cosine of .92 to an earlier one is a duplicate of it: counted, and hidden")
@pytest.mark.row("A034", "from a cosine of .80 a statement reinforces: .05 more confidence up to 1, one more, and when")
@pytest.mark.parametrize(
    ("cosine", "expected"),
    [(1.0, "duplicate"), (0.92, "duplicate"), (0.9199, "reinforced"), (0.80, "reinforced"), (0.7999, "stored")],
)
async def test_thresholds_of_repetition(cosine: float, expected: str) -> None:
    old, new = statement(1, DARK), statement(2, DARK)
    verdict = await decided(new, Near(old, cosine))
    assert verdict.outcome == expected
    if expected == "stored":
        assert not verdict.changes
    else:
        assert change(verdict, new) == {"merged_into": old.id}
        assert change(verdict, old) == {
            "confidence": 0.75 if expected == "reinforced" else 0.7,
            "reinforced_count": 1,
            "reinforced_at": new.event.recorded_at,
        }
        sure = replace(old, state=State(confidence=0.98, reinforced_count=4))
        again = change(await decided(new, Near(sure, cosine)), sure)
        assert (again["confidence"], again["reinforced_count"]) == (1.0 if expected == "reinforced" else 0.98, 5)


async def test_longer_statement_takes_the_place_of_the_earlier_one() -> None:
    """It says all of that, and more; the confidence and the count continue."""
    old = replace(statement(1, "Ada prefers dark mode"), state=State(confidence=0.8, reinforced_count=2))
    new = statement(2, "Ada strongly prefers dark mode, especially at work")
    verdict = await decided(new, Near(old, 0.85))
    assert change(verdict, old) == {"merged_into": new.id}
    assert change(verdict, new) == {
        "confidence": 0.85,
        "reinforced_count": 3,
        "reinforced_at": new.event.recorded_at,
    }


@pytest.mark.parametrize(
    "other",
    [
        statement(1, DARK, scope=BEN),
        statement(1, DARK, scope=replace(ADA, agent_id="bot")),
        statement(1, DARK, scope=replace(ADA, audience="private")),
        statement(1, DARK, trust="untrusted"),
        replace(statement(1, DARK), state=State(trust="trusted")),
    ],
)
async def test_statements_of_others_or_of_other_trust_are_not_touched(other: Known) -> None:
    assert await decided(statement(2, DARK), Near(other, 1.0)) == Verdict()


async def test_statement_of_another_session_is_reinforced_and_none_is_hidden() -> None:
    """A question of either session still finds its own."""
    old, new = statement(1, DARK, scope=replace(ADA, session_id="s")), statement(2, DARK)
    verdict = await decided(new, Near(old, 1.0))
    assert verdict.changes.keys() == {old.id}


@pytest.mark.feature("a turn that repeats a statement reinforces it, and is itself never hidden")
async def test_turn_reinforces_and_is_never_hidden() -> None:
    lives = ("Ada", "lives in", "Rome")
    fact = statement(1, "Ada lives in Rome", lives)
    first, again = (statement(n, "I live in Rome", lives, kind="turn", speaker="Ada") for n in (2, 3))
    assert (await decided(again, Near(first, 1.0))).changes.keys() == {first.id}
    chatter = statement(4, "I live in Rome", ("Ada", "likes", "tea"), kind="turn", speaker="Ada")
    assert not (await decided(chatter, Near(first, 0.95))).changes, "they share no fact"
    told = statement(5, "Ada lives in Rome", lives)
    assert (await decided(told, Near(first, 1.0), Near(fact, 0.99))).other == fact.id, "hidden behind no turn"


@pytest.mark.row("A034", "a turn of one sentence reinforces another one that says the same, without a fact in either")
async def test_turn_without_facts_reinforces_one_of_the_same_speaker() -> None:
    first = statement(1, "My favourite editor is Helix", kind="turn", speaker="user")
    again = statement(2, "Helix is my favourite editor", kind="turn", speaker="user")
    assert (await decided(again, Near(first, 0.95))).changes.keys() == {first.id}
    assert change(await decided(again, Near(first, 0.85)), first)["confidence"] == pytest.approx(0.75)
    bo = statement(3, "Helix is my favourite editor", kind="turn", speaker="Bo")
    assert not (await decided(bo, Near(first, 0.95))).changes, "his editor is another one"
    denied = statement(4, "Helix is not my favourite editor", kind="turn", speaker="user")
    assert not (await decided(denied, Near(first, 0.95))).changes


async def test_source_of_a_distilled_memory_is_no_repetition_of_it() -> None:
    turn = statement(1, "Ada lives in Rome", ("Ada", "lives in", "Rome"), kind="turn")
    made = statement(2, "Ada lives in Rome", ("Ada", "lives in", "Rome"), derived_from=(turn.id,))
    assert await decided(made, Near(turn, 1.0)) == Verdict()
    assert await decided(turn, Near(made, 1.0)) == Verdict()


@pytest.mark.feature("a merge that was undone is never made again")
async def test_merge_that_was_undone_is_not_made_again() -> None:
    old, new = statement(1, DARK), statement(2, DARK)
    for pair in ((new.id, old.id), (old.id, new.id)):
        assert await decided(new, Near(old, 1.0), apart=(pair,)) == Verdict()


@pytest.mark.row("A048", "a permanent statement is not hidden behind one that ends before it or begins after it")
@pytest.mark.parametrize("new", LIFETIMES)
@pytest.mark.parametrize("old", LIFETIMES)
async def test_survivor_lasts_at_least_as_long(old: Lifetime, new: Lifetime) -> None:
    """permanent ≥ project ≥ ttl ≥ session: the one that stays is the earlier, unless the new one lasts longer."""
    order = ["session", "ttl", "project", "permanent"]
    first, second = (replace(statement(n, DARK), state=State(one)) for n, one in ((1, old), (2, new)))
    verdict = await decided(second, Near(first, 1.0))
    goes = second if order.index(old) >= order.index(new) else first
    assert "merged_into" in change(verdict, goes)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"valid_to": NOW}, {}, False),
        ({"valid_to": NOW}, {"valid_to": NOW + DAY}, False),
        ({"valid_to": NOW}, {"valid_to": NOW}, True),
        ({}, {"valid_to": NOW}, True),
        ({"valid_from": NOW + DAY}, {"valid_from": NOW}, False),
        ({"valid_from": NOW + DAY}, {}, False),
        ({"valid_from": NOW - DAY}, {"valid_from": NOW}, True),
    ],
)
def test_survivor_is_valid_all_the_while(old: dict[str, datetime], new: dict[str, datetime], expected: bool) -> None:
    """It begins no later and ends no earlier than what is merged into it."""
    assert outlasts(statement(1, DARK, **old), statement(2, DARK, **new)) is expected


# Contradictions

ROME = statement(1, "Ada lives in Rome", ("Ada", "lives in", "Rome"))
OSLO = statement(2, "Ada lives in Oslo", ("Ada", "lives in", "Oslo"))


@pytest.mark.row("A035", "repetition is looked for before contradiction")
@pytest.mark.row("A037", "both sides of a contradiction are active in one group and name each other")
async def test_sides_of_a_contradiction_share_a_group() -> None:
    verdict = await decided(OSLO, Near(ROME, 0.85))
    assert (verdict.outcome, verdict.other) == ("contradicts", ROME.id)
    old, new = change(verdict, ROME), change(verdict, OSLO)
    assert old["conflict_group"] == new["conflict_group"] is not None
    assert (old["conflict_status"], old["contradicts"]) == ("active", OSLO.id)
    assert (new["conflict_status"], new["contradicts"]) == ("active", ROME.id)
    repeats = statement(3, "Ada lives in Rome now", ("Ada", "lives in", "Rome"))
    assert (await decided(repeats, Near(OSLO, 0.9), Near(ROME, 0.85))).outcome == "reinforced"


async def test_third_side_joins_the_conflict() -> None:
    disputed = replace(ROME, state=State(conflict_group="g", conflict_status="active", contradicts=OSLO.id))
    lima = statement(3, "Ada lives in Lima", ("Ada", "lives in", "Lima"))
    assert change(await decided(lima, Near(disputed, 0.85)), lima)["conflict_group"] == "g"


async def test_late_arrival_contradicts_nothing_later() -> None:
    """A clock that went back, or an old event delivered late, does not dispute what was said after it."""
    late = replace(ROME, event=replace(ROME.event, recorded_at=OSLO.event.recorded_at - 9 * DAY))
    assert await decided(late, Near(OSLO, 0.85)) == Verdict()


async def test_turn_contradicts_nothing() -> None:
    turn = replace(OSLO, event=replace(OSLO.event, kind="turn"))
    assert await decided(turn, Near(ROME, 0.85)) == Verdict()
    assert await decided(OSLO, Near(replace(ROME, event=replace(ROME.event, kind="turn")), 0.85)) == Verdict()


@pytest.mark.row("A036", "a model judges contradictions among the nearest; if its answer is nonsense, the rules decide")
@pytest.mark.feature(
    "… about a contradiction, also with an unknown id: the rules' answer is kept", of="a model that answers with prose"
)
@pytest.mark.parametrize(
    "answer",
    [
        "I think they do contradict each other.",
        '{"contradicts": true, "contradicted_id": "99", "reason": "not shown"}',
        '{"contradicts": tr',
        '["yes"]',
    ],
)
async def test_rules_decide_when_the_model_answers_nonsense(answer: str) -> None:
    """Prose, an unknown id, truncated JSON, another shape."""
    verdict = await decide(OSLO, [Near(ROME, 0.85)], (), FakeModel(answer))
    assert (verdict.outcome, verdict.other) == ("contradicts", ROME.id)


async def test_model_finds_what_rules_do_not() -> None:
    model = FakeModel('{"contradicts": true, "contradicted_id": "1", "reason": "one of them is wrong"}')
    old, new = statement(1, "the gateway never sleeps"), statement(2, "the gateway naps at night")
    verdict = await decide(new, [Near(old, 0.7)], (), model)
    assert verdict.other == event_id(1)
    assert verdict.why == "m2 contradicts m1: one of them is wrong"
