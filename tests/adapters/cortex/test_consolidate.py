"""What becomes of a new memory: duplicates, reinforcement, contradictions; what is never merged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from adapters.cortex import Cortex
from adapters.cortex.consolidate import Kept, Near, adds_nothing, comparable, is_statement, keep, outlasts, repeated
from adapters.cortex.lifecycle import tend
from adapters.cortex.options import Options
from adapters.cortex.port import LIFETIMES, Effect, Lifetime, Memory, State
from adapters.cortex.sqlite import SqliteGraph
from fusion.contract import KINDS, Entity, Extracted, Extraction, Fact, Opening, Place, Scope
from fusion.contract import State as JournalState
from tests.backend_contract import NOW, event_id, make_event, make_extracted, make_query
from tests.fakes import FakeEmbedder, FakeModel

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
DAY = timedelta(days=1)

DARK = "Ada prefers dark mode in every single editor"


def statement(n: int, text: str, *facts: tuple[str, str, str], scope: Scope = ADA, **fields: object) -> Memory:
    """An independent fact, a minute later than the one before."""
    event = make_event(n, text, scope, **({"kind": "fact"} | fields))
    names = dict.fromkeys(name for fact in facts for name in (fact[0], fact[2]))
    return Memory(event, Extraction(event.kind, tuple(Entity(x) for x in names), tuple(Fact(*f) for f in facts)))


@pytest.fixture
async def cortex(tmp_path: Path) -> AsyncIterator[Cortex]:
    """With so many dimensions that the cosine of two texts is the share of words that they have in common."""
    opened = await opened_at(tmp_path)
    try:
        yield opened
    finally:
        await opened.close()


async def opened_at(folder: Path, model: FakeModel | None = None, **options: object) -> Cortex:
    embedder = FakeEmbedder(dimensions=2048)
    graph = await SqliteGraph.open(Opening("cortex", folder, {}, embedder), Options())
    return Cortex(graph, Options(**options), model, clock=lambda: NOW)  # type: ignore[arg-type]


async def told(cortex: Cortex, *memories: Memory) -> list[tuple[str, str | None]]:
    return [(kept.outcome, kept.other) for kept in await cortex.store(memories)]


async def recalled(cortex: Cortex, text: str, scope: Scope = ADA) -> list[str]:
    return [ranked.memory.event.text for ranked in await cortex.recall(make_query(text, scope))]


async def state(cortex: Cortex, n: int) -> State:
    return (await cortex.graph.get([event_id(n)]))[event_id(n)].state


# Which memories are held against others


@pytest.mark.parametrize("kind", KINDS)
def test_statements_are_what_holds(kind: str) -> None:
    """Rules, procedures, facts, preferences, decisions and plans; not what happened, and nothing in its place."""
    plain = statement(1, "x", kind=kind)
    assert is_statement(plain) == (kind in {"rule", "procedure", "fact", "preference", "decision", "plan"})
    assert not is_statement(statement(1, "x", kind=kind, place=Place("talk", 1, 1)))
    assert not is_statement(statement(1, "x", kind=kind, supersedes=event_id(9)))


@pytest.mark.feature('… two turns that say "yes" stay two', of="Cortex: a repeated statement")
@pytest.mark.parametrize(
    ("kind", "place"), [("turn", None), ("note", None), ("episode", None), ("fact", Place("a.md", 1, 2, "line"))]
)
async def test_two_events_of_one_text_are_two(cortex: Cortex, kind: str, place: Place | None) -> None:
    """Two turns that say yes, two notes, two happenings, two passages: both are found, and contradict nothing."""
    both = [statement(n, DARK, ("Ada", "lives in", f"City {n}"), kind=kind, place=place) for n in (1, 2)]
    assert await told(cortex, *both) == [("stored", None)] * 2
    assert await recalled(cortex, DARK) == [DARK] * 2


def test_a_note_is_what_capture_takes_it_for() -> None:
    """A plain note that states a fact is held against others; one of which capture knows no better is not."""
    note = make_event(1, "x", kind="note")
    assert is_statement(Memory(note, Extraction("fact")))
    assert not is_statement(Memory(note, Extraction("note")))


# Dedup and reinforcement


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [(1.0, "duplicate"), (0.92, "duplicate"), (0.9199, "reinforced"), (0.80, "reinforced"), (0.7999, None)],
)
def test_the_two_thresholds(cosine: float, expected: str | None) -> None:
    """From .92 it is there already, from .80 it reinforces, below neither."""
    old = statement(1, DARK)
    found = repeated(statement(2, DARK), [Near(old, cosine)], Options())
    assert found == (None if expected is None else (expected, old))


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("Ada prefers tea", "Ada prefers the green tea at breakfast", True),
        ("ADA prefers teas", "Ada prefers tea.", True),
        ("Ada prefers coffee at breakfast", "Ada prefers tea at breakfast", False),
        ("Ada does not prefer tea", "Ada prefers tea", False),
        ("Ada prefers tea", "Ada does not prefer tea", False),
        ("the standup is at 9", "the standup is at 10", False),
        ("the release is on Monday", "the release is on Friday", False),
        ("the release is ready", "the release is ready on Friday", False),
        ("Ben owes Ada money", "Ada owes Ben money", False),
        ("the server is on", "the server is off", False),
    ],
)
def test_what_says_nothing_new(new: str, old: str, expected: bool) -> None:
    """It has the same words in the same order, and the same negations, numbers and dates."""
    assert adds_nothing(statement(2, new), statement(1, old)) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [("coffee", "tea to coffee", False), ("tea", "tea to coffee", True), ("te", "tea", False), ("tea", "tea", True)],
)
def test_facts_are_stated_by_the_other_too(new: str, old: str, expected: bool) -> None:
    """Who prefers tea to coffee does not prefer coffee, though all the words are there."""
    both = [statement(n, f"Ada prefers {it}", ("Ada", "prefers", it)) for n, it in ((2, new), (1, old))]
    assert adds_nothing(*both) == expected


def test_unguarded_is_the_seed_to_the_letter() -> None:
    """With ``guarded = false`` a cosine of .9 makes coffee reinforce tea."""
    tea, coffee = statement(1, "Ada prefers tea"), statement(2, "Ada prefers coffee")
    assert repeated(coffee, [Near(tea, 0.9)], Options()) is None
    assert repeated(coffee, [Near(tea, 0.9)], Options(guarded=False)) == ("reinforced", tea)


@pytest.mark.parametrize(
    "other",
    [
        statement(1, DARK, scope=BEN),
        statement(1, DARK, scope=replace(ADA, session_id="s")),
        statement(1, DARK, scope=replace(ADA, audience="private")),
        statement(1, DARK, trust="untrusted"),
        statement(1, DARK, kind="turn"),
        replace(statement(1, DARK), state=State(merged_into=event_id(9))),
    ],
)
def test_only_ones_own_of_equal_trust_are_compared(other: Memory) -> None:
    """Not another's, another session's, a private one, an untrusted one, a turn, or one that is merged itself."""
    assert comparable(statement(2, DARK), [Near(other, 1.0)]) == []


@pytest.mark.row(
    "A048",
    "… a permanent statement is not merged into one that ends before it or begins after it",
    of="Cortex: a repeated statement",
)
@pytest.mark.parametrize("new", LIFETIMES)
@pytest.mark.parametrize("old", LIFETIMES)
def test_only_into_what_lasts_as_long(old: Lifetime, new: Lifetime) -> None:
    """permanent ≥ project ≥ ttl ≥ session: of the 16 pairs, the 10 in which the older one lasts at least as long."""
    order = ["session", "ttl", "project", "permanent"]
    both = [replace(statement(n, DARK), state=State(lifetime)) for n, lifetime in ((1, old), (2, new))]
    assert outlasts(*both) == (order.index(old) >= order.index(new))
    assert (repeated(both[1], [Near(both[0], 1.0)], Options()) is not None) == outlasts(*both)


@pytest.mark.feature(
    "… a permanent statement is not merged into one that ends before it or begins after it",
    of="Cortex: a repeated statement",
)
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
def test_only_into_what_is_valid_all_the_while(
    old: dict[str, datetime], new: dict[str, datetime], expected: bool
) -> None:
    """It begins no later and ends no earlier than what would be merged into it."""
    assert outlasts(statement(1, DARK, **old), statement(2, DARK, **new)) is expected


async def test_a_nearer_one_that_ends_does_not_hide_one_that_stays(cortex: Cortex) -> None:
    """Kept for a session, then for good, then for a session: the third repeats the second, which is found at any time,
    upkeep or not."""
    brief, lasting, again = (
        replace(statement(n, DARK), state=State(lifetime))
        for n, lifetime in ((1, "session"), (2, "permanent"), (3, "session"))  # type: ignore[arg-type]
    )
    assert await told(cortex, brief) == [("stored", None)]
    assert await told(cortex, lasting) == [("stored", None)]
    await tend(cortex.graph, None, NOW + 9 * DAY)
    assert (await state(cortex, 1)).ended_at is not None
    assert await told(cortex, again) == [("duplicate", event_id(2))]
    assert await recalled(cortex, DARK) == [DARK]


@pytest.mark.row("A033", "Cortex: a repeated statement (.92) is stored and not found twice")
async def test_said_again_is_kept_once_and_nothing_is_lost(cortex: Cortex) -> None:
    """The same statement again, in another batch or the same: one is found, all are kept; a retry changes nothing."""
    assert await told(cortex, statement(1, DARK)) == [("stored", None)]
    again = [statement(2, DARK), statement(3, DARK.upper())]
    assert await told(cortex, *again) == [("duplicate", event_id(1))] * 2
    assert await told(cortex, *again) == [("known", event_id(1))] * 2
    assert await recalled(cortex, DARK) == [DARK]
    assert (await cortex.describe()).items == 3
    assert (await state(cortex, 1)).reinforced_count == 0


@pytest.mark.row(
    "A033",
    "A034",
    "… a similar statement (.80) reinforces once, however often it is retried",
    of="Cortex: a repeated statement",
)
async def test_nearly_again_reinforces_once(cortex: Cortex) -> None:
    """Seven of eight words, cosine 7/√(8·7) = .935: a duplicate; six, 6/√(8·6) = .866: reinforced, .7 + .05; told again
    after a crash, still .75 and 1."""
    await told(cortex, statement(1, DARK))
    assert await told(cortex, statement(2, "Ada prefers dark mode every single editor")) == [("duplicate", event_id(1))]
    six = statement(3, "Ada prefers dark mode every editor")
    assert await told(cortex, six) == [("reinforced", event_id(1))]
    assert await told(cortex, six) == [("known", event_id(1))]
    after = await state(cortex, 1)
    assert (after.confidence, after.reinforced_count, after.reinforced_at) == (pytest.approx(0.75), 1, NOW)
    assert await recalled(cortex, DARK) == [DARK]


async def test_in_one_batch_as_in_many(cortex: Cortex) -> None:
    """A batch sees its own earlier statements: the second is a duplicate of the first, the third reinforces it."""
    batch = [statement(1, DARK), statement(2, DARK), statement(3, "Ada prefers dark mode every editor")]
    assert await told(cortex, *batch) == [("stored", None), ("duplicate", event_id(1)), ("reinforced", event_id(1))]
    assert (await state(cortex, 1)).reinforced_count == 1


@pytest.mark.feature(
    "… a merged statement is current again when the other is forgotten", of="Cortex: a repeated statement"
)
async def test_what_was_merged_comes_back_when_the_other_is_forgotten(cortex: Cortex) -> None:
    """Forgetting the one that was found frees the one that says the same: it was acknowledged, so it is kept."""
    await told(cortex, statement(1, DARK), statement(2, DARK))
    assert await cortex.forget(event_id(1), [event_id(1)]) == "deleted"
    assert [r.memory.id for r in await cortex.recall(make_query(DARK, ADA))] == [event_id(2)]
    assert await cortex.forget(event_id(2), [event_id(2)]) == "deleted"
    assert await recalled(cortex, DARK) == []


@pytest.mark.feature(
    "… also if the winner is forgotten during a merge or a resolution: its duplicate or the next best is found",
    of="Cortex: a memory that lost a",
)
async def test_what_is_said_again_while_the_other_is_forgotten_is_found(tmp_path: Path) -> None:
    """The other is deleted between the check and the write: the acknowledged memory is kept by itself."""
    graph = await Interrupted.open(Opening("cortex", tmp_path, {}, FakeEmbedder(dimensions=2048)), Options())
    cortex = Cortex(graph, Options(), None, clock=lambda: NOW)
    try:
        await told(cortex, statement(1, DARK))
        graph.forgets = event_id(1)
        assert await told(cortex, statement(2, DARK)) == [("duplicate", event_id(1))]
        assert [r.memory.id for r in await cortex.recall(make_query(DARK, ADA))] == [event_id(2)]
    finally:
        await cortex.close()


class Interrupted(SqliteGraph):
    """Somebody forgets one memory just before others are written."""

    forgets = ""

    async def add(self, memories: Sequence[Memory], effects: Mapping[str, Effect] | None = None) -> None:
        await self.delete([self.forgets])
        await super().add(memories, effects)


async def test_a_merged_memory_may_be_forgotten_itself(cortex: Cortex) -> None:
    """…and leaves the other one where it is."""
    await told(cortex, statement(1, DARK), statement(2, DARK))
    assert await cortex.forget(event_id(2), []) == "deleted"
    assert await recalled(cortex, DARK) == [DARK]


async def test_without_a_working_embedder_all_is_kept(tmp_path: Path) -> None:
    """An embedder that fails costs the merging, not the memories; the description says so."""
    embedder = FakeEmbedder(failing=True)
    cortex = await Cortex.open(Opening("cortex", tmp_path, {}, embedder))
    try:
        assert await told(cortex, statement(1, DARK), statement(2, DARK)) == [("stored", None)] * 2
        assert await recalled(cortex, DARK) == [DARK, DARK]
        assert (await cortex.describe()).degraded
    finally:
        await cortex.close()


async def test_remember_merges_what_capture_extracted(cortex: Cortex) -> None:
    """Through the backend's own port: with the journal's state; native ids are the events' own, merged or not."""
    events = [make_event(n, DARK, ADA, kind="note") for n in (1, 2)]
    batch = [Extracted(event, Extraction("preference"), JournalState(confidence=0.6)) for event in events]
    assert await cortex.remember(batch) == [(event_id(1),), (event_id(2),)]
    assert (await state(cortex, 1)).confidence == 0.6
    assert await recalled(cortex, DARK) == [DARK]
    of_project = make_extracted(make_event(3, "the gateway must never sleep", replace(ADA, project="gate")))
    await cortex.remember([replace(of_project, state=JournalState("project"))])
    assert (await state(cortex, 3)).lifetime == "project"


# Contradictions

ROME = statement(1, "Ada lives in Rome", ("Ada", "lives in", "Rome"))
OSLO = statement(2, "Ada lives in Oslo", ("Ada", "lives in", "Oslo"))
LIMA = statement(3, "Ada lives in Lima", ("Ada", "lives in", "Lima"))


@pytest.mark.row(
    "A035",
    "A037",
    "… repetition is checked first; a contradiction is a new version that supersedes",
    of="Cortex: a repeated statement",
)
async def test_a_contradiction_is_a_new_version_in_a_conflict(cortex: Cortex) -> None:
    """Both are active in one group and name each other; the new one supersedes; both are recalled, the new one first:
    it scores four fifths, the old one .8 · .3."""
    assert await told(cortex, ROME, OSLO) == [("stored", None), ("contradicts", event_id(1))]
    old, new = await state(cortex, 1), await state(cortex, 2)
    assert old.conflict_group == new.conflict_group is not None
    assert (old.conflict_status, old.contradicts) == ("active", event_id(2))
    assert (new.conflict_status, new.contradicts) == ("active", event_id(1))
    ranked = await cortex.recall(make_query("where does Ada live?", ADA))
    assert [(r.memory.event.text[-4:], r.penalty) for r in ranked] == [("Oslo", 0.8), ("Rome", pytest.approx(0.24))]
    assert [m.event.text[-4:] for m in await cortex.graph.versions(event_id(1))] == ["Rome", "Oslo"]


async def test_a_third_joins_the_conflict(cortex: Cortex) -> None:
    """In a group of three, only the winner is recalled, even if it is the first."""
    await told(cortex, ROME)
    await told(cortex, OSLO)
    assert (await told(cortex, LIMA))[0][0] == "contradicts"
    groups = {(await state(cortex, n)).conflict_group for n in (1, 2, 3)}
    assert len(groups) == 1
    await cortex.graph.alter(
        {
            event_id(1): {"conflict_status": None},
            event_id(2): {"conflict_status": "resolved", "ended_at": NOW},
            event_id(3): {"conflict_status": "resolved", "ended_at": NOW},
        }
    )
    assert await recalled(cortex, "where does Ada live?") == ["Ada lives in Rome"]


async def test_a_repeated_delivery_after_a_crash_gives_the_same_conflict(cortex: Cortex) -> None:
    """A retried delivery finds the memory known, and changes neither side."""
    await told(cortex, ROME, OSLO)
    before = [await state(cortex, n) for n in (1, 2)]
    assert await told(cortex, ROME, OSLO) == [("known", event_id(2)), ("known", event_id(1))]
    assert [await state(cortex, n) for n in (1, 2)] == before


async def test_forgetting_one_side_ends_the_conflict(cortex: Cortex) -> None:
    """What is left is in no conflict, and counts in full."""
    await told(cortex, ROME, OSLO)
    await cortex.forget(event_id(2), [])
    after = await state(cortex, 1)
    assert (after.conflict_status, after.contradicts) == (None, None)
    assert [r.penalty for r in await cortex.recall(make_query("where does Ada live?", ADA))] == [1.0]


async def test_what_comes_late_contradicts_nothing_later(cortex: Cortex) -> None:
    """A clock that went back, or an old event delivered late, does not undo what was said after it."""
    late = replace(ROME, event=replace(ROME.event, recorded_at=OSLO.event.recorded_at - timedelta(days=9)))
    await told(cortex, OSLO)
    assert await told(cortex, late) == [("stored", None)]
    assert (await state(cortex, 2)).conflict_status is None


async def test_nobody_contradicts_another(cortex: Cortex) -> None:
    """Ben's Rome says nothing about Ada's."""
    theirs = replace(OSLO, event=replace(OSLO.event, scope=BEN))
    assert await told(cortex, ROME, theirs) == [("stored", None)] * 2


@pytest.mark.row(
    "A036",
    "… a model judges contradictions among the nearest; if its answer is nonsense, the rules decide",
    of="Cortex: a repeated statement",
)
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
async def test_a_model_that_answers_nonsense_leaves_it_to_the_rules(tmp_path: Path, answer: str) -> None:
    """Prose, an unknown id, truncated JSON, another shape: the rules' answer is kept, and nothing is lost."""
    cortex = await opened_at(tmp_path, FakeModel(answer, answer))
    try:
        assert await told(cortex, ROME) == [("stored", None)]
        assert await told(cortex, OSLO) == [("contradicts", event_id(1))]
    finally:
        await cortex.close()


async def test_a_model_sees_what_rules_do_not(tmp_path: Path) -> None:
    """Its candidates are numbered for the call; the reason is what it gave."""
    model = FakeModel('{"contradicts": true, "contradicted_id": "1", "reason": "one of them is wrong"}')
    cortex = await opened_at(tmp_path, model)
    try:
        await cortex.store([statement(1, "the gateway never sleeps at night")])
        (kept,) = await cortex.store([statement(2, "the gateway sleeps at night")])
        assert kept == Kept(event_id(2), "contradicts", event_id(1), "one of them is wrong")
    finally:
        await cortex.close()


async def test_many_at_once_see_each_other(cortex: Cortex) -> None:
    """Ten callers at once that say the same: one is stored, nine are duplicates of it."""
    import asyncio

    kept = await asyncio.gather(*(cortex.store([statement(n, DARK)]) for n in range(1, 11)))
    outcomes = [one.outcome for (one,) in kept]
    assert sorted(outcomes) == ["duplicate"] * 9 + ["stored"]


class Recording:
    """Encodes as the fake does, and counts."""

    def __init__(self) -> None:
        self.embedder = FakeEmbedder()
        self.calls = 0

    async def __call__(self, texts: Sequence[str]) -> object:
        self.calls += 1
        return await self.embedder.embed(texts)


async def test_turns_cost_no_encoding(tmp_path: Path) -> None:
    """What is not held against others is not encoded on the way in: vectors come behind."""
    graph = await SqliteGraph.open(Opening("cortex", tmp_path, {}, None), Options())
    encode = Recording()
    try:
        await keep(graph, [statement(1, "yes", kind="turn")], encode, None, Options(), NOW)  # type: ignore[arg-type]
        assert encode.calls == 0
    finally:
        await graph.close()
