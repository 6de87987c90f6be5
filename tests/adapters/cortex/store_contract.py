"""What every store of the cortex promises, as a suite that its own test inherits.

    class TestSqliteGraph(StoreContract):
        async def open_store(self, folder: Path, embedder: Embedder | None) -> Graph: ...

Times are those of `tests.backend_contract`; the embedder is the deterministic one, in which texts that share words are
near, so that the arithmetic can be shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.cortex.port import EntitySummary, Graph, Memory, State, View
from fusion.contract import Embedder, Entity, Event, Extraction, Fact, Hit, Moment, Place, Scope
from tests.backend_contract import NOW, event_id, make_event
from tests.fakes import FakeEmbedder

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
DAY = timedelta(days=1)

EVIL = (
    '"]->(n) DETACH DELETE n //',
    "`x` = 1 or 1=1",
    "'; drop table memory; --",
    "$id",
    "%",
    "?1",
    "\\",
    "x" * 10_000,
)


def memory(n: int, text: str, *facts: tuple[str, str, str], state: State | None = None, **fields: object) -> Memory:
    """A memory of Ada's with a fixed id and time; ``fields`` are further ones of its event."""
    event = make_event(n, text, **({"scope": ADA} | fields))  # type: ignore[arg-type]
    names = dict.fromkeys(name for fact in facts for name in (fact[0], fact[2]))
    known = Extraction(event.kind, tuple(Entity(name) for name in names), tuple(Fact(*fact) for fact in facts))
    return Memory(event, known, state or State())


def look(scope: Scope = ADA, **how: object) -> View:
    return View(scope, NOW, **how)  # type: ignore[arg-type]


def numbers(ids: object) -> list[int]:
    return [int(str(id_)[-12:], 16) for id_ in ids]  # type: ignore[attr-defined]


@pytest.mark.feature("Cortex: every store passes one suite over one port: records, views, links, pages")
class StoreContract(ABC):
    """Inherit and provide ``open_store``."""

    @abstractmethod
    async def open_store(self, folder: Path, embedder: Embedder | None) -> Graph:
        """A store on ``folder``, empty unless an earlier opening of the same folder left something there."""

    @pytest.fixture
    async def graph(self, tmp_path: Path) -> AsyncIterator[Graph]:
        store = await self.open_store(tmp_path / "store", FakeEmbedder())
        try:
            yield store
        finally:
            await store.close()

    async def visible(self, graph: Graph, text: str, view: View | None = None) -> list[int]:
        """Numbers of what words find, best first."""
        return numbers(id_ for id_, _ in (await graph.find(text, None, view or look(), 50)).words)

    # Records in, records out

    async def test_a_memory_comes_back_as_it_was(self, graph: Graph) -> None:
        """Every field of event, extraction and state, to the letter and the microsecond."""
        event = Event(
            event_id=event_id(1),
            text="Zoë wrote “naïve café” – 東京で会う 👍🏽\n\tthen a second line",
            recorded_at=NOW + timedelta(microseconds=7),
            scope=Scope("blue", "ada", "agent", "run", "session", "gateway", "private"),
            kind="decision",
            raw_kind="choice",
            speaker="Zoë Ünal",
            at=Moment(datetime(2025, 12, 24, 18, 30, 1, 2, tzinfo=UTC), "minute", "Asia/Tokyo"),
            place=Place("diary/2025-12", 4, 5, "line"),
            source="diary",
            revision="r2",
            trust="trusted",
            origin="agent",
            valid_from=NOW - DAY,
            valid_to=NOW + DAY,
            supersedes=event_id(99),
            derived_from=(event_id(98), event_id(97)),
        )
        learnt = Extraction(
            "decision", (Entity("Zoë", "person"),), (Fact("Zoë", "wrote", "Café"),), (Moment(NOW, "day", "UTC"),)
        )
        state = State(
            "ttl", 0.85, ("naïve", "東京"), 3, NOW - DAY, 2, NOW, "group", "active", event_id(96), None, NOW + DAY
        )  # fmt: skip
        whole = Memory(event, learnt, state)
        await graph.add([whole, memory(2, "plain")])
        assert await graph.get([event_id(1), event_id(2), event_id(3)]) == {
            event_id(1): whole,
            event_id(2): memory(2, "plain"),
        }

    async def test_adding_again_changes_nothing(self, graph: Graph) -> None:
        """An id that is there keeps its text and its state; within one batch the first one counts."""
        await graph.add([memory(1, "first", state=State(confidence=0.9)), memory(1, "twice in a batch")])
        await graph.add([memory(1, "another text")])
        known = (await graph.get([event_id(1)]))[event_id(1)]
        assert (known.event.text, known.state.confidence) == ("first", 0.9)
        assert (await graph.stats()).items == 1

    async def test_nothing_is_done_at_once(self, graph: Graph) -> None:
        """Empty calls and unknown ids are no errors."""
        await graph.add([])
        await graph.alter({event_id(9): {"confidence": 0.5}})
        await graph.use([event_id(9)], NOW)
        await graph.add([memory(1, "one")])
        assert await graph.delete([event_id(1)]) == {event_id(1)}
        assert await graph.delete([event_id(9)]) == frozenset()
        assert await graph.get([]) == {}
        assert await graph.versions(event_id(9)) == []
        assert await graph.page() == []
        assert (await graph.stats()).items == 0

    async def test_what_is_altered_and_what_is_not(self, graph: Graph) -> None:
        """Named fields are written, ``None`` too; the others stay."""
        await graph.add([memory(1, "one", state=State(tags=("a",), ended_at=NOW)), memory(2, "two")])
        await graph.alter({event_id(1): {"confidence": 0.4, "ended_at": None}, event_id(2): {"lifetime": "session"}})
        known = await graph.get([event_id(1), event_id(2)])
        assert known[event_id(1)].state == State(confidence=0.4, tags=("a",))
        assert known[event_id(2)].state == State(lifetime="session")

    @pytest.mark.feature("Cortex: a clock that jumps back reverts nothing")
    @pytest.mark.feature("a clock that jumps back: the latest use is kept, in every store", part="faults/cortex")
    async def test_use_is_counted(self, graph: Graph) -> None:
        """Two uses count 2, and the latest time is kept even if it comes first: a late clock reverts nothing."""
        await graph.add([memory(1, "one"), memory(2, "two")])
        await graph.use([event_id(1), event_id(9)], NOW)
        await graph.use([event_id(1)], NOW - DAY)
        known = await graph.get([event_id(1), event_id(2)])
        assert (known[event_id(1)].state.access_count, known[event_id(1)].state.last_accessed) == (2, NOW)
        assert (known[event_id(2)].state.access_count, known[event_id(2)].state.last_accessed) == (0, None)

    async def test_pages_have_everything_once(self, graph: Graph) -> None:
        """By id, from after the last one; of everyone, or of one scope."""
        await graph.add([memory(n, f"note {n}", scope=ADA if n % 2 else BEN) for n in range(1, 8)])
        first = await graph.page(limit=3)
        rest = await graph.page(after=first[-1].id, limit=100)
        assert [numbers(m.id for m in page) for page in (first, rest)] == [[1, 2, 3], [4, 5, 6, 7]]
        assert numbers(m.id for m in await graph.page(scope=BEN)) == [2, 4, 6]

    async def test_named_by_the_ends_of_an_id(self, graph: Graph) -> None:
        """By its beginning or end, within one scope, literally: nothing in it is a pattern."""
        await graph.add([memory(n, f"note {n}", scope=ADA if n < 3 else BEN) for n in range(1, 4)])
        whole = event_id(1)
        for part in (whole[-8:], whole):
            assert numbers(m.id for m in await graph.named(part, ADA, 9)) == [1]
            assert await graph.named(part, BEN, 9) == []
        assert numbers(m.id for m in await graph.named(whole[:8], ADA, 9)) == [1, 2]
        assert numbers(m.id for m in await graph.named(whole[:8], ADA, 1)) == [1]
        assert await graph.named("%" * 8, ADA, 9) == await graph.named(whole[1:-1], ADA, 9) == []

    async def test_holding(self, graph: Graph) -> None:
        """Counts all memories; every memory gets its vector."""
        await graph.add([memory(1, "one", kind="rule"), memory(2, "two"), memory(3, "three", state=State("session"))])
        await graph.settle()
        held = await graph.stats()
        assert (held.items, held.vectors, held.vectors_pending, held.faults) == (3, 3, 0, ())

    async def test_what_is_kept_survives_reopening(self, tmp_path: Path) -> None:
        """Closed and opened again: records, words and vectors are there."""
        embedder = FakeEmbedder()
        first = await self.open_store(tmp_path / "store", embedder)
        await first.add([memory(1, "the office is in Lisbon", ("Office", "in", "Lisbon"))])
        await first.settle()
        await first.close()
        await first.close()
        again = await self.open_store(tmp_path / "store", embedder)
        try:
            await again.settle()
            vector = (await embedder.embed(["office"]))[0]
            found = await again.find("office", vector, look(), 5)
            assert (numbers(i for i, _ in found.words), numbers(i for i, _ in found.vectors)) == ([1], [1])
            assert [link.path for link in await again.link("Lisbon", look(), [], 5)] == [("Office", "in", "Lisbon")]
        finally:
            await again.close()

    # Finding

    async def test_cosines(self, graph: Graph) -> None:
        """The cosine of a text with itself is 1, with one of other words far less; found and computed alike."""
        await graph.add([memory(1, "alpha beta"), memory(2, "gamma delta")])
        await graph.settle()
        vector = (await FakeEmbedder().embed(["alpha beta"]))[0]
        found = dict((await graph.find("", vector, look(), 5)).vectors)
        assert found[event_id(1)] == pytest.approx(1.0, abs=0.02)
        assert found[event_id(2)] < 0.6
        again = await graph.cosines(vector, [event_id(1), event_id(2), event_id(9)])
        assert again == pytest.approx(found, abs=0.001)
        known, cosines = await graph.complete([event_id(2), event_id(9)], vector, [event_id(1), event_id(9)])
        assert (known, cosines) == ({event_id(2): memory(2, "gamma delta")}, {event_id(1): again[event_id(1)]})

    async def test_the_limit_counts_what_is_seen(self, graph: Graph) -> None:
        """Other people's better matches, and what is superseded, do not use it up."""
        theirs = [memory(n, "alpha beta gamma", scope=BEN) for n in range(10, 30)]
        await graph.add([*theirs, memory(1, "alpha in a much longer text of other words"), memory(2, "nothing")])
        await graph.settle()
        vector = (await FakeEmbedder().embed(["alpha"]))[0]
        found = await graph.find("alpha", vector, look(), 1)
        assert (numbers(i for i, _ in found.words), numbers(i for i, _ in found.vectors)) == ([1], [1])

    @pytest.mark.parametrize("text", ["", " ", "the and of", '"', "AND OR NOT", "(", "*", "a\x00b", *EVIL])
    async def test_any_text_is_looked_for(self, graph: Graph, text: str) -> None:
        """Operators and injections are plain words: others are found with them, and nothing is harmed."""
        await graph.add([memory(1, "alpha", ("Alpha", "is", "Beta"))])
        await graph.find(text, None, look(), 5)
        for asked in (f"{text} alpha", f"{text} NOT alpha"):  # a parser of operators would exclude it by NOT
            assert numbers(i for i, _ in (await graph.find(asked, None, look(), 5)).words) == [1]
        await graph.link(text, look(), [event_id(1)], 5)
        assert await self.visible(graph, "alpha") == [1]

    @pytest.mark.feature("Cortex: hostile names are only text")
    @pytest.mark.feature(
        "a hostile entity name (Cypher, SQL, backticks, a label of 10 kB): only text, in every store",
        part="faults/cortex",
    )
    @pytest.mark.parametrize("evil", EVIL, ids=lambda evil: evil[:20])
    async def test_hostile_names_are_only_text(self, graph: Graph, evil: str) -> None:
        """A hostile name, label, relation, document or id is stored as it is, found, deleted, and crosses no scope."""
        mine = Scope(user_id=evil[:200], session_id=evil[:200])
        whole = memory(1, f"{evil} alpha", (f"Alpha {evil}", evil, "Beta"), ("Alpha", evil, evil), scope=mine)
        whole = replace(whole, event=replace(whole.event, place=Place(evil, 1, 1)))
        whole = replace(whole, state=State(tags=(evil,)))
        await graph.add([whole, memory(2, "alpha")])
        assert (await graph.get([event_id(1)]))[event_id(1)] == whole
        assert await self.visible(graph, "alpha", look(mine)) == [1]
        assert await self.visible(graph, "alpha", look(ADA)) == [2]
        await graph.link(f"Beta {evil}", look(mine), [], 5)
        assert await graph.get([evil]) == {}
        assert await graph.delete([evil]) == frozenset()
        assert (await graph.stats()).items == 2

    # What a view sees

    async def test_what_a_view_sees_of_these(self, graph: Graph) -> None:
        """Of the chosen memories, those that are current and in scope; unknown ids are left out."""
        await graph.add(
            [
                memory(1, "alpha"),
                memory(2, "beta", supersedes=event_id(1)),
                memory(3, "gamma", scope=BEN),
                memory(4, "delta", valid_to=NOW),
                memory(5, "epsilon"),
            ]
        )
        await graph.alter({event_id(2): {"confidence": 0.9}})
        seen = await graph.visible(look(), [event_id(n) for n in range(1, 7)])
        assert sorted(numbers(seen)) == [2, 5]
        assert (seen[event_id(2)].event.text, seen[event_id(2)].state.confidence) == ("beta", 0.9)
        assert sorted(numbers(await graph.visible(look(history=True), [event_id(n) for n in range(1, 5)]))) == [1, 2, 4]
        assert await graph.visible(look(), []) == {}

    async def test_superseded_is_history(self, graph: Graph) -> None:
        """Current: the new version. Before it: the old one. With history: both. Either may arrive first."""
        old = memory(1, "the office is in Paris", at=Moment(NOW - 100 * DAY))
        new = memory(2, "the office is in Lisbon", at=Moment(NOW - 10 * DAY), supersedes=event_id(1))
        await graph.add([new])
        await graph.add([old])
        assert await self.visible(graph, "office") == [2]
        assert await self.visible(graph, "office", look(as_of=NOW - 50 * DAY)) == [1]
        assert await self.visible(graph, "office", look(as_of=NOW - 200 * DAY)) == []
        assert sorted(await self.visible(graph, "office", look(history=True))) == [1, 2]
        assert numbers(m.id for m in await graph.versions(event_id(1))) == [1, 2]
        assert numbers(m.id for m in await graph.versions(event_id(2))) == [1, 2]
        await graph.delete([event_id(2)])
        assert await self.visible(graph, "office") == [1]

    async def test_nobody_supersedes_anothers_memory(self, graph: Graph) -> None:
        """Ben's memory that claims to supersede Ada's changes nothing for Ada, and is no version of it."""
        await graph.add([memory(1, "the office is in Paris")])
        await graph.add([memory(2, "the office is gone", scope=BEN, supersedes=event_id(1))])
        assert await self.visible(graph, "office") == [1]
        assert numbers(m.id for m in await graph.versions(event_id(1))) == [1]

    async def test_valid_while_it_is(self, graph: Graph) -> None:
        """From ``valid_from``, included, to ``valid_to``, not included."""
        february, march = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
        await graph.add([memory(1, "the canteen is closed", valid_from=february, valid_to=march)])
        second = timedelta(seconds=1)
        assert await self.visible(graph, "canteen", View(ADA, march - second)) == [1]
        assert await self.visible(graph, "canteen", View(ADA, march)) == []
        assert await self.visible(graph, "canteen", look(as_of=february)) == [1]
        assert await self.visible(graph, "canteen", look(as_of=february - second)) == []
        assert await self.visible(graph, "canteen", look(history=True)) == [1]

    async def test_known_at_is_what_was_recorded(self, graph: Graph) -> None:
        """Before the correction was recorded the old version is seen, after it the new one."""
        old, new = memory(1, "office Paris"), memory(2, "office Lisbon", supersedes=event_id(1))
        old = replace(old, event=replace(old.event, recorded_at=NOW - 20 * DAY))
        new = replace(new, event=replace(new.event, recorded_at=NOW - 5 * DAY))
        await graph.add([old, new])
        assert await self.visible(graph, "office", look(known_at=NOW - 10 * DAY)) == [1]
        assert await self.visible(graph, "office", look(known_at=NOW)) == [2]
        assert await self.visible(graph, "office", look(known_at=NOW - 30 * DAY)) == []

    async def test_ended_is_history(self, graph: Graph) -> None:
        """What ended yesterday is not seen today, but as of the day before, and with history."""
        await graph.add([memory(1, "office", at=Moment(NOW - 9 * DAY), state=State(ended_at=NOW - DAY))])
        assert await self.visible(graph, "office") == []
        assert await self.visible(graph, "office", look(as_of=NOW - 2 * DAY)) == [1]
        assert await self.visible(graph, "office", look(history=True)) == [1]

    async def test_merged_is_kept_and_not_found(self, graph: Graph) -> None:
        """What was merged into another is in no view; freed, it is found again by words and by meaning."""
        await graph.add([memory(1, "office"), memory(2, "office", state=State(merged_into=event_id(1)))])
        await graph.settle()
        assert await self.visible(graph, "office") == [1]
        assert await self.visible(graph, "office", look(history=True)) == [1]
        await graph.alter({event_id(2): {"merged_into": None}})
        await graph.settle()
        vector = (await FakeEmbedder().embed(["office"]))[0]
        found = await graph.find("office", vector, look(), 5)
        assert sorted(numbers(i for i, _ in found.words)) == sorted(numbers(i for i, _ in found.vectors)) == [1, 2]

    async def test_what_is_merged_supersedes_nothing(self, graph: Graph) -> None:
        """The newer version was merged into another memory: the older one is current."""
        merged = State(merged_into=event_id(3))
        await graph.add([memory(1, "office Paris"), memory(2, "office", supersedes=event_id(1), state=merged)])
        assert await self.visible(graph, "office") == [1]

    @pytest.mark.row("A005", "Cortex: a memory that lost a conflict is never recalled, as of now or with history")
    async def test_both_sides_of_a_conflict_are_seen_until_one_loses(self, graph: Graph) -> None:
        """Active: both. The older one lost: the newer. The newer one lost: the older is current again."""
        active = State(conflict_group="g", conflict_status="active")
        await graph.add(
            [
                memory(1, "office Paris", state=replace(active, contradicts=event_id(2))),
                memory(2, "office Lisbon", supersedes=event_id(1), state=replace(active, contradicts=event_id(1))),
            ]
        )
        assert sorted(await self.visible(graph, "office")) == [1, 2]
        await graph.alter({event_id(1): {"conflict_status": "resolved"}, event_id(2): {"conflict_status": None}})
        assert await self.visible(graph, "office") == [2]
        assert await self.visible(graph, "office", look(history=True)) == [2]
        await graph.alter({event_id(1): {"conflict_status": None}, event_id(2): {"conflict_status": "resolved"}})
        assert await self.visible(graph, "office") == [1]

    @pytest.mark.row(
        "A005",
        "… unless the winner is forgotten: then the best of the losers is current, in every store",
        of="Cortex: a memory that lost a",
    )
    async def test_the_best_loser_stands_in_for_a_winner_that_is_forgotten(self, graph: Graph) -> None:
        """The winner goes: of the losers the surer is seen again, and the other one only when that goes, too. Ben's of
        the same group stays as it was; forgetting a loser changes nothing."""
        lost = State(conflict_group="g", conflict_status="resolved", ended_at=NOW - DAY, contradicts=event_id(1))
        await graph.add(
            [
                memory(1, "office Paris", state=State(conflict_group="g")),
                memory(2, "office Lisbon", supersedes=event_id(1), state=replace(lost, confidence=0.6)),
                memory(3, "office Porto", supersedes=event_id(1), state=replace(lost, confidence=0.9)),
                memory(4, "office Rome", state=replace(lost, confidence=0.3)),
                memory(5, "office Oslo", scope=BEN, state=lost),
            ]
        )
        for forgotten, left in ((4, [1]), (1, [3]), (3, [2])):
            assert await graph.delete([event_id(forgotten)]) == {event_id(forgotten)}
            assert await self.visible(graph, "office") == left
        known = await graph.get([event_id(2), event_id(5)])
        assert known[event_id(2)].state == State(conflict_group="g", confidence=0.6)
        assert known[event_id(5)].state == lost

    async def test_whose_it_is(self, graph: Graph) -> None:
        """A named dimension sees only items with that value, a group nothing private, a tenant nothing of another."""
        scopes = [
            Scope(user_id="ada"),
            Scope(user_id="ben"),
            Scope(),
            Scope(user_id="ada", audience="private"),
            Scope("blue", user_id="ada"),
            Scope(user_id="ada", agent_id="a", run_id="r", session_id="s"),
        ]
        await graph.add([memory(n, "alpha", scope=scope) for n, scope in enumerate(scopes, start=1)])
        asked = [
            (Scope(user_id="ada"), [1, 6]),
            (Scope(user_id="ada", audience="private"), [1, 4, 6]),
            (Scope(session_id="s"), [6]),
            (Scope("blue"), [5]),
            (Scope(), [1, 2, 3, 6]),
        ]
        for scope, expected in asked:
            assert sorted(await self.visible(graph, "alpha", look(scope))) == expected

    async def test_the_quarantined_are_never_seen(self, graph: Graph) -> None:
        """Neither now, nor in history, nor does a link pass there."""
        await graph.add(
            [
                memory(1, "alpha", ("Alpha", "is", "Beta"), trust="quarantined"),
                memory(2, "beta", ("Beta", "is", "Gamma")),
            ]
        )
        assert await self.visible(graph, "alpha", look(history=True)) == []
        assert await graph.link("Alpha", look(), [], 5) == []

    # The walk

    async def test_what_is_found_is_as_it_stands(self, graph: Graph) -> None:
        """Memories that come with a finding are as ``complete`` gives them, also when one has changed."""
        await graph.add([memory(n, f"alpha {n}", ("Ada", "knows", "Ben")) for n in (1, 2)])
        for confidence in (0.5, 0.9):
            await graph.alter({event_id(2): {"confidence": confidence}})
            found = await graph.find("alpha", None, look(), 5)
            stored, _ = await graph.complete([event_id(1), event_id(2)], None, [])
            assert numbers(id_ for id_, _ in found.words) == [1, 2]
            assert stored[event_id(2)].state.confidence == confidence
            assert {**stored, **found.memories} == stored

    async def links(self, graph: Graph, text: str, similar: list[int] | None = None, limit: int = 50) -> list[object]:
        found = await graph.link(text, look(), [event_id(n) for n in similar or []], limit)
        return [(numbers([link.id])[0], link.hops, link.rank) for link in found]

    @pytest.mark.row("A040", "A016", "A019", "Cortex: hops are measured, and each has a path that justifies it")
    async def test_hops_are_measured(self, graph: Graph) -> None:
        """Alpha – Beta – Gamma – Delta: the first memory is 1 hop from Alpha, the second 2, the third out of reach."""
        names = ["Alpha", "Beta", "Gamma", "Delta"]
        await graph.add([memory(n, f"{n}", (names[n - 1], "precedes", names[n])) for n in (1, 2, 3)])
        assert await self.links(graph, "tell me about Alpha") == [(1, 1, 1), (2, 2, 2)]
        assert await self.links(graph, "nobody in particular") == []

    @pytest.mark.row("A019", "A040", "Cortex: shared key phrases link texts, without a model")
    async def test_concepts_link(self, graph: Graph) -> None:
        """A key phrase that two texts share leads to both, though nobody named it, and no further."""
        await graph.add(
            [
                memory(1, "I signed up for a pottery class", ("Ada", "knows", "Ben")),
                memory(2, "the Pottery Class was fun"),
                memory(3, "so was the museum with Ben", ("Ben", "likes", "museums")),
                memory(4, "a pottery class of Ben's", scope=BEN),
            ]
        )
        links = await graph.link("which pottery class?", look(), [], 9)
        found = {numbers([link.id])[0]: (link.hops, link.path[0]) for link in links}
        assert found == {1: (1, "pottery class"), 2: (1, "pottery class")}
        assert {e.name for e in await graph.entities(ADA)} == {"Ada", "Ben", "museums"}
        await graph.delete([event_id(1)])
        assert numbers(link.id for link in await graph.link("which pottery class?", look(), [], 9)) == [2]

    @pytest.mark.row(
        "A041",
        "Cortex: names with one normal form are one entity, and a stated alias leads to the other name, in every store",
    )
    async def test_an_alias_leads_to_the_other_name(self, graph: Graph) -> None:
        """A name in any case and spacing is one entity; "also known as" is a way, and what nobody told is none."""
        await graph.add(
            [
                memory(1, "x", ("European Union", "also known as", "EU")),
                memory(2, "y", ("EU", "has seat in", "Brussels")),
                memory(3, "z", ("european  union", "was founded in", "Maastricht")),
                memory(4, "w", ("Eurasian Union", "has seat in", "Moscow")),
            ]
        )
        links = await graph.link("What about the EUROPEAN UNION?", look(), [], 9)
        assert {numbers([link.id])[0]: link.hops for link in links} == {1: 1, 3: 1, 2: 2}

    @pytest.mark.row(
        "A019", "Cortex: a name that several people of a tenant use is followed to the memories of all, in every store"
    )
    async def test_a_name_that_two_people_have_leads_to_both(self, graph: Graph) -> None:
        """Asked for a whole tenant, "Alpha" is an entity of Ada's and one of Ben's; asked for one of them, one."""
        await graph.add([memory(n, f"x{n}", ("Alpha", "owns", f"Thing {n}"), scope=s) for n, s in ((1, ADA), (2, BEN))])
        for scope, expected in ((Scope(), [1, 2]), (ADA, [1]), (BEN, [2])):
            links = await graph.link("who owns Alpha?", look(scope), [], 9)
            assert sorted(numbers(link.id for link in links)) == expected

    async def test_a_named_entity_leads_to_whom_only_speaks_of_it(self, graph: Graph) -> None:
        """What is an entity in one memory and a phrase in another leads to both, with its spelling and its type."""
        await graph.add([memory(1, "the pottery class")])
        assert await graph.entities(ADA) == []
        await graph.add([memory(2, "x", ("Pottery Class", "is", "fun"))])
        assert ("Pottery Class", "concept") in [(e.name, e.type) for e in await graph.entities(ADA)]
        links = await graph.link("when is the pottery class?", look(), [], 9)
        assert sorted(numbers(link.id for link in links)) == [1, 2]

    async def test_the_share_is_of_the_strongest_as_far_away(self, graph: Graph) -> None:
        """Of one hop: 1 for both of Alpha's names, less for one of them; the best of two hops is 1 as well."""
        await graph.add(
            [
                memory(1, "x", ("Alpha", "is", "Omega")),
                memory(2, "y", ("Alpha", "owns", "Beta")),
                memory(3, "z", ("Beta", "is", "Gamma")),
            ]
        )
        found = {
            numbers([link.id])[0]: (link.hops, link.share) for link in await graph.link("Alpha Omega", look(), [], 9)
        }
        assert found[1] == (1, 1.0)
        assert found[2][0] == 1
        assert 0 < found[2][1] < 1
        assert found[3] == (2, 1.0)

    async def test_paths_justify(self, graph: Graph) -> None:
        """One relation reads as it was asserted; a chain starts at the query's entity and marks what it walks back."""
        await graph.add(
            [memory(1, "x", ("Julien", "corrected_by", "bug")), memory(2, "y", ("Release 4", "contains", "bug"))]
        )
        found = {numbers([link.id])[0]: link.path for link in await graph.link("what did julien do?", look(), [], 5)}
        assert found == {
            1: ("Julien", "corrected_by", "bug"),
            2: ("Julien", "corrected_by", "bug", "^contains", "Release 4"),
        }

    async def test_equals_share_a_rank_and_similar_ones_come_too(self, graph: Graph) -> None:
        """Three memories of one name are all third; at most one is asked for, and one of ``similar`` comes besides."""
        await graph.add([memory(n, f"{n}", ("Hub", "has", f"Spoke {n}")) for n in (1, 2, 3)])
        assert await self.links(graph, "Hub") == [(3, 1, 3), (2, 1, 3), (1, 1, 3)]
        assert await self.links(graph, "Hub", [1], limit=1) == [(1, 1, 3)]
        assert await self.links(graph, "Hub", [2, 1], limit=1) == [(2, 1, 3), (1, 1, 3)]

    async def test_nobody_walks_through_anothers_memory(self, graph: Graph) -> None:
        """Alpha and Beta are linked only by Ben: Ada's walk does not pass there."""
        await graph.add(
            [memory(1, "x", ("Alpha", "knows", "Beta"), scope=BEN), memory(2, "y", ("Beta", "is", "Gamma"))]
        )
        assert await self.links(graph, "Alpha") == []

    @pytest.mark.row(
        "A041",
        "Cortex: facts are bi-temporal: valid as long as the memory that states them, and as they were known then",
    )
    async def test_superseded_memories_carry_no_edges(self, graph: Graph) -> None:
        """What is no longer so leads nowhere; as of then it did."""
        await graph.add(
            [
                memory(1, "x", ("Alpha", "owns", "Beta"), at=Moment(NOW - 9 * DAY)),
                memory(2, "y", ("Beta", "is", "Gamma"), at=Moment(NOW - 9 * DAY)),
                memory(3, "z", supersedes=event_id(1), at=Moment(NOW - DAY)),
            ]
        )
        assert await self.links(graph, "Alpha") == []
        then = await graph.link("Alpha", look(as_of=NOW - 2 * DAY), [], 5)
        assert [(numbers([link.id])[0], link.hops) for link in then] == [(1, 1), (2, 2)]

    async def test_an_entity_goes_with_its_last_mention(self, graph: Graph) -> None:
        """Deleting leaves no orphan, and takes nothing that another memory says."""
        await graph.add([memory(1, "x", ("Alpha", "is", "Beta")), memory(2, "y", ("Alpha", "is", "Gamma"))])
        assert [(e.name, e.mentions) for e in await graph.entities(ADA)] == [("Alpha", 2), ("Beta", 1), ("Gamma", 1)]
        assert await graph.delete([event_id(1)]) == frozenset({event_id(1)})
        assert [(e.name, e.mentions) for e in await graph.entities(ADA)] == [("Alpha", 1), ("Gamma", 1)]
        assert await graph.entities(BEN) == []

    async def test_a_hub_is_neither_passed_nor_an_end(self, graph: Graph) -> None:
        """66 memories name the hub, more than the 64 of ``fan_out``: from Alpha nothing is reached through it, and of
        the hub itself, which is named, the 64 newest are."""
        spokes = [memory(n, f"note {n}", ("Hub", "has", f"Spoke {n}")) for n in range(2, 67)]
        await graph.add([memory(1, "x", ("Alpha", "knows", "Hub")), *spokes])
        assert await self.links(graph, "Alpha") == [(1, 1, 1)]
        found = await graph.link("Hub", look(), [], 100)
        assert sorted(numbers(link.id for link in found if link.hops == 1)) == list(range(3, 67))

    async def test_a_better_type_is_taken_over(self, graph: Graph) -> None:
        """An entity that was only a concept becomes the person that a later memory says it is; and stays one."""
        for n, type_ in enumerate(("concept", "person", "concept", "place"), start=1):
            known = memory(n, "x")
            await graph.add([replace(known, extraction=Extraction(entities=(Entity("Zoë", type_),)))])
        assert await graph.entities(ADA) == [EntitySummary("Zoë", "person", 4)]

    # Beside

    async def test_neighbours_are_of_the_same_document_and_scope(self, graph: Graph) -> None:
        """The current memories of the same user before and after it in its document, in order."""
        turns = [memory(n, f"turn {n}", place=Place("talk", n, n)) for n in range(1, 8)]
        others = [memory(9, "ben", scope=BEN, place=Place("talk", 4, 4)), memory(10, "new", supersedes=event_id(5))]
        await graph.add([*turns, *others])
        hit = Hit.of(turns[3].event)
        neighbours = await graph.neighbours([hit, Hit.of(others[1].event)], 2)
        assert [numbers(m.id for m in near) for near in neighbours] == [[2, 3, 6, 7], []]
