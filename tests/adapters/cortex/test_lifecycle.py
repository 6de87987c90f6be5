"""Upkeep of the cortex: each rule by itself, the phases together, what a kill leaves, and how much memory it takes."""

from __future__ import annotations

import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from adapters.cortex.lifecycle import Report, Rules, ending, pages, settled, tend
from adapters.cortex.port import Change, Graph, Memory, State, View
from adapters.cortex.sqlite import SqliteGraph
from adapters.graph.options import WalkOptions
from fusion.contract import Opening, Place, Scope
from fusion.errors import BackendUnreachable
from fusion.lib.conflict import best
from tests.adapters.cortex import store_contract
from tests.adapters.cortex.store_contract import ADA, BEN, numbers
from tests.backend_contract import NOW, event_id, make_event
from tests.fakes import FakeEmbedder

if TYPE_CHECKING:
    from fusion.contract import Floats

HOUR = timedelta(hours=1)
JUST = timedelta(microseconds=1)


def memory(n: int, text: str, state: State | None = None, **fields: object) -> Memory:
    """A statement of Ada's, a minute later than the one before."""
    return store_contract.memory(n, text, state=state, **{"kind": "fact"} | fields)  # type: ignore[arg-type]


def recorded(n: int, ago: timedelta, text: str = "Tea is ready.", **state: object) -> Memory:
    """A memory of Ada's that was recorded so long ago."""
    plain = memory(n, text, state=State(**state))  # type: ignore[arg-type]
    return replace(plain, event=replace(plain.event, recorded_at=NOW - ago))


class TestEnding:
    @pytest.mark.row(
        "A045",
        "A048",
        "… a `ttl` memory expires 720 hours after it was recorded",
        of="Cortex: upkeep runs in the seed's",
    )
    @pytest.mark.parametrize(("age", "over"), [(720 * HOUR - JUST, False), (720 * HOUR, True)])
    def test_a_ttl_memory_expires_after_720_hours(self, age: timedelta, over: bool) -> None:
        """30 days after it was recorded, to the microsecond; however often it was used."""
        old = recorded(1, age, lifetime="ttl", last_accessed=NOW)
        assert ending(old, NOW, Rules()) == (("expired", old.event.recorded_at + 720 * HOUR) if over else None)

    @pytest.mark.row(
        "A045",
        "A048",
        "… a `session` memory decays after 24 hours without use",
        of="Cortex: upkeep runs in the seed's",
    )
    @pytest.mark.parametrize(("idle", "over"), [(24 * HOUR - JUST, False), (24 * HOUR, True)])
    def test_a_session_memory_decays_after_24_hours_without_use(self, idle: timedelta, over: bool) -> None:
        """From its last use, or from when it was recorded where it was never used."""
        used = recorded(1, 99 * HOUR, lifetime="session", last_accessed=NOW - idle)
        unused = recorded(2, idle, lifetime="session")
        for one in (used, unused):
            assert ending(one, NOW, Rules()) == (("decayed", NOW - idle + 24 * HOUR) if over else None)

    def test_what_is_valid_until_then_is_retired_then(self) -> None:
        """At its own time, not at the time of the run; `permanent` and `project` ones end in no other way."""
        for lifetime in ("permanent", "project"):
            one = recorded(1, 9999 * HOUR, lifetime=lifetime)
            assert ending(one, NOW, Rules()) is None
            until = replace(one, event=replace(one.event, valid_to=NOW - HOUR))
            assert ending(until, NOW, Rules()) == ("retired", NOW - HOUR)
            assert ending(until, NOW - HOUR - JUST, Rules()) is None

    def test_a_clock_that_jumps_back_ends_nothing(self) -> None:
        """What lies in the future has not been idle for long."""
        one = recorded(1, -100 * HOUR, lifetime="session")
        assert ending(one, NOW, Rules()) is None
        assert ending(recorded(1, -100 * HOUR, lifetime="ttl"), NOW, Rules()) is None


class TestBest:
    def test_confidence_first_and_within_a_hundredth_the_newest(self) -> None:
        """.95 beats .93; .94 is within .01 of .95, so the newer of the two wins, and .93 does not come into it."""
        sure, close, less = (recorded(n, (9 - n) * HOUR, confidence=c) for n, c in ((1, 0.95), (2, 0.94), (3, 0.93)))
        assert best([sure, less]) is sure
        assert best([sure, close, less]) is close

    def test_the_winner_of_a_conflict_is_not_marked(self) -> None:
        """All but one are resolved and ended; the winner continues as if there had been no conflict."""
        group = [recorded(n, n * HOUR, confidence=n / 10) for n in (1, 2, 3)]
        lost: Change = {"conflict_status": "resolved", "ended_at": NOW}
        assert settled(group, NOW) == {
            event_id(1): lost,
            event_id(2): lost,
            event_id(3): {"conflict_status": None},
        }


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[Graph]:
    store = await SqliteGraph.open(Opening("cortex", tmp_path / "store", {}, FakeEmbedder()), WalkOptions())
    try:
        yield store
    finally:
        await store.close()


class Racing(SqliteGraph):
    """Somebody forgets one memory ``before`` something is changed, or ``after``."""

    before = after = ""

    async def alter(self, changes: Mapping[str, Change]) -> None:
        before, self.before = self.before, ""
        await self.delete([before])
        await super().alter(changes)
        after, self.after = self.after, ""
        await self.delete([after])


@pytest.fixture
async def racing(tmp_path: Path) -> AsyncIterator[Racing]:
    store = await Racing.open(Opening("cortex", tmp_path / "racing", {}, FakeEmbedder()), WalkOptions())
    try:
        yield store
    finally:
        await store.close()


async def states(graph: Graph) -> Mapping[int, State]:
    return {numbers([m.id])[0]: m.state async for page in pages(graph) for m in page}


async def told(graph: Graph, *memories: Memory, dry_run: bool = False, scope: Scope | None = None) -> Report:
    """The report of a run over these, with their vectors there."""
    await graph.add(memories)
    await graph.settle()
    return await tend(graph, FakeEmbedder(), NOW, dry_run=dry_run, scope=scope)


async def found(graph: Graph, text: str, **how: object) -> set[int]:
    view = View(ADA, NOW, **how)  # type: ignore[arg-type]
    return set(numbers(id_ for id_, _ in (await graph.find(text, None, view, 50)).words))


class TestTend:
    @pytest.mark.row(
        "A045",
        "A047",
        "Cortex: upkeep runs in the seed's order and counts each phase: expire, decay, retire, consolidate, resolve",
    )
    async def test_all_phases_are_counted(self, graph: Graph) -> None:
        """One of each: {expired 1, decayed 1, consolidated 1, retired 1, conflicts_resolved 1}."""
        conflict = {"conflict_group": "g", "conflict_status": "active"}
        report = await told(
            graph,
            recorded(1, 800 * HOUR, "Lunch is at one.", lifetime="ttl"),
            recorded(2, 30 * HOUR, "We talk about ferries.", lifetime="session"),
            memory(3, "The stall is open.", valid_to=NOW - HOUR),
            memory(4, "Marta prefers peppermint infusions to espresso."),
            memory(5, "Marta prefers peppermint infusions to espresso"),
            memory(6, "The office is in Lisbon.", state=State(**conflict, confidence=0.9)),  # type: ignore[arg-type]
            memory(7, "The office is in Porto.", state=State(**conflict, confidence=0.6)),  # type: ignore[arg-type]
            memory(8, "Falcon forbids force pushes."),
        )
        assert report == Report(1, 1, 1, 1, 1, scanned=8)
        after = await states(graph)
        assert {n for n, s in after.items() if s.ended_at is not None} == {1, 2, 3, 7}
        assert after[4].merged_into == event_id(5)
        assert await tend(graph, FakeEmbedder(), NOW) == Report(scanned=8)

    @pytest.mark.row(
        "A047", "… `--dry-run` counts the same and changes nothing", of="Cortex: upkeep runs in the seed's"
    )
    async def test_a_dry_run_counts_and_changes_nothing(self, graph: Graph) -> None:
        """The same numbers, the same store."""
        memories = [
            recorded(1, 800 * HOUR, lifetime="ttl"),
            memory(4, "Marta prefers peppermint."),
            memory(5, "Marta prefers peppermint!"),
        ]
        dry = await told(graph, *memories, dry_run=True)
        assert await states(graph) == {1: memories[0].state, 4: State(), 5: State()}
        assert replace(dry, dry_run=False) == await tend(graph, FakeEmbedder(), NOW) == Report(1, 0, 1, 0, 0, 3)

    @pytest.mark.feature("… upkeep reverts nothing, and ends nothing twice", of="a clock that jumps back: the")
    async def test_a_clock_that_jumps_back_takes_nothing_back(self, graph: Graph) -> None:
        """What ended stays so, and nothing ends before its time; when the clock is right again, nothing ends twice."""
        report = await told(
            graph,
            recorded(1, 30 * HOUR, "We talk about ferries.", lifetime="session"),
            recorded(2, 2 * HOUR, "We talk about trains.", lifetime="session"),
        )
        assert report == Report(decayed=1, scanned=2)
        before = await states(graph)
        for now in (NOW - 1000 * HOUR, NOW):
            assert await tend(graph, FakeEmbedder(), now) == Report(scanned=2)
            assert await states(graph) == before

    @pytest.mark.row(
        "A046",
        "… the winner of a conflict stays recallable; of two within .01 the newest wins",
        of="Cortex: upkeep runs in the seed's",
    )
    async def test_the_winner_of_a_conflict_stays_recallable(self, graph: Graph) -> None:
        """The older, surer one wins: it is found, the newer is not; history and questions about the past have both."""
        old = memory(1, "The office is in Lisbon.", state=_in_conflict(0.9, 2))
        new = memory(2, "The office is in Porto.", state=_in_conflict(0.6, 1), supersedes=event_id(1))
        report = await told(graph, old, new)
        assert report.conflicts_resolved == 1
        assert await found(graph, "office") == {1}
        assert [numbers([m.id])[0] for m in await graph.versions(event_id(1))] == [1, 2]
        assert await found(graph, "office", as_of=NOW - HOUR) == {1, 2}

    async def test_of_three_in_a_conflict_one_goes_on(self, graph: Graph) -> None:
        """The newest of those that are equally sure."""
        group = [
            memory(n, f"The office is in {c}.", state=_in_conflict(0.9, 1)) for n, c in ((1, "X"), (2, "Y"), (3, "Z"))
        ]
        assert (await told(graph, *group)).conflicts_resolved == 2
        assert await found(graph, "office") == {3}

    @pytest.mark.row(
        "A045",
        "… the more confident of two near-duplicates is kept; texts that differ in a number, "
        "negation, owner or version are no duplicates",
        of="Cortex: upkeep runs in the seed's",
    )
    @pytest.mark.parametrize(
        "other",
        [
            memory(2, "Marta likes tea at 10 in the quiet kitchen upstairs"),
            memory(2, "Marta never likes tea at 9 in the quiet kitchen upstairs"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", scope=BEN),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", scope=replace(ADA, project="house")),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", speaker="Ben"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", state=State(lifetime="session")),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", supersedes=event_id(1)),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", trust="trusted"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", trust="quarantined"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", valid_to=NOW + HOUR),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", valid_from=NOW),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", kind="turn"),
            memory(2, "Marta likes tea at 9 in the quiet kitchen upstairs", place=Place("tea.md", 1, 2, "line")),
        ],
        ids=[
            *("number", "negation", "user", "project", "speaker", "lifetime", "version"),
            *("trusted", "quarantined", "until", "from", "turn", "place"),
        ],
    )
    async def test_what_is_not_the_same_is_not_merged(self, graph: Graph, other: Memory) -> None:
        """However many words it shares: another number, a negation, another owner, speaker, lifetime, a new version,
        trusted otherwise, valid at other times, or something that happened where it stands."""
        recent = replace(other, event=replace(other.event, recorded_at=NOW))
        report = await told(graph, memory(1, "Marta likes tea at 9 in the quiet kitchen upstairs"), recent)
        assert report.consolidated == 0

    @pytest.mark.feature(
        "… nor are statements of another trust or time; two turns of one text are two",
        of="Cortex: upkeep runs in the seed's",
    )
    async def test_two_turns_of_one_text_are_two(self, graph: Graph) -> None:
        """Saying it twice is two events, to upkeep as on the way in."""
        report = await told(graph, *(memory(n, "See you at the harbour tomorrow then", kind="turn") for n in (1, 2)))
        assert (report.consolidated, await found(graph, "harbour")) == (0, {1, 2})

    @pytest.mark.feature(
        "… nor are statements of another trust or time; two turns of one text are two",
        of="Cortex: upkeep runs in the seed's",
    )
    async def test_the_quarantined_and_the_brief_swallow_nothing(self, graph: Graph) -> None:
        """Surer than the rest, and of the same words: what is quarantined, and what holds until tomorrow."""
        said = "Marta prefers peppermint infusions"
        report = await told(
            graph,
            memory(1, said, trust="quarantined", state=State(confidence=1.0)),
            memory(2, said, valid_to=NOW + 24 * HOUR, state=State(confidence=0.9)),
            memory(3, said),
        )
        assert (report.consolidated, await found(graph, "peppermint")) == (0, {2, 3})
        assert (await tend(graph, FakeEmbedder(), NOW + 24 * HOUR)).retired == 1
        assert numbers((await graph.visible(View(ADA, NOW + 24 * HOUR), [event_id(n) for n in (1, 2, 3)])).keys()) == [
            3
        ]

    async def test_the_surer_one_is_kept(self, graph: Graph) -> None:
        """Whichever came first; what was merged is found again when that is forgotten."""
        report = await told(
            graph,
            memory(1, "Marta prefers peppermint infusions", state=State(confidence=0.9)),
            memory(2, "Marta prefers peppermint infusions!", state=State(confidence=0.7)),
            memory(3, "marta prefers Peppermint infusions", state=State(confidence=0.8)),
        )
        assert report.consolidated == 2
        assert await found(graph, "peppermint") == {1}
        await graph.alter({event_id(2): {"merged_into": None}})
        assert await found(graph, "peppermint") == {1, 2}

    @pytest.mark.feature(
        "… also if the winner is forgotten during a merge or a resolution: its duplicate or the next best is found",
        of="Cortex: a memory that lost a",
    )
    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_what_is_merged_into_one_that_is_forgotten_in_that_moment_is_found(
        self, racing: Racing, when: str
    ) -> None:
        """Before the merging is written, or just after: the other one says the same, and the forgotten one is gone."""
        said = "Marta prefers peppermint infusions"
        await racing.add([memory(1, said, state=State(confidence=0.9)), memory(2, f"{said}!")])
        setattr(racing, when, event_id(1))
        assert (await tend(racing, None, NOW)).consolidated == 1
        assert (await found(racing, "peppermint"), [*await states(racing)]) == ({2}, [2])

    @pytest.mark.feature(
        "… also if the winner is forgotten during a merge or a resolution: its duplicate or the next best is found",
        of="Cortex: a memory that lost a",
    )
    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_a_winner_that_is_forgotten_in_that_moment_leaves_the_next_best(
        self, racing: Racing, when: str
    ) -> None:
        """Of three that contradict each other the surest wins, and is forgotten: the second surest goes on, the third
        has lost."""
        lost = {n: replace(_in_conflict(1 - n / 10, 1), conflict_group="tea") for n in (1, 2, 3)}
        await racing.add([memory(n, f"Tea is at {n} sharp.", state=state) for n, state in lost.items()])
        setattr(racing, when, event_id(1))
        await tend(racing, None, NOW)
        after = await states(racing)
        assert {n: (state.conflict_status, state.ended_at) for n, state in after.items()} == {
            2: (None, None),
            3: ("resolved", NOW),
        }

    @pytest.mark.feature(
        "… upkeep restores a statement that outlasts the one it was merged into",
        of="a reworded statement is answered once",
    )
    async def test_what_outlasts_what_it_was_merged_into_is_found_again(self, graph: Graph) -> None:
        """Said for a session, again later in it, and for good: the first is over, the other two stand for themselves.
        What is over by itself, or says the same as who lost a conflict, does not come back; a dry run frees nothing."""
        into, lost = State(lifetime="session", merged_into=event_id(1)), State(merged_into=event_id(6))
        await graph.add(
            [
                recorded(1, 30 * HOUR, "Ferries leave at nine.", lifetime="session"),
                replace(recorded(2, 29 * HOUR, "Ferries leave at nine."), state=into),
                replace(recorded(3, 8 * HOUR, "Ferries leave at nine."), state=into),
                replace(recorded(4, 7 * HOUR, "Ferries leave at nine."), state=replace(into, lifetime="permanent")),
                memory(5, "Ferries leave at ten.", state=_in_conflict(0.9, 6)),
                memory(6, "Ferries leave at eight.", state=_in_conflict(0.6, 5)),
                replace(memory(7, "Ferries leave at eight."), state=lost),
            ]
        )
        await tend(graph, None, NOW, dry_run=True)
        assert await found(graph, "ferries") == {1, 5, 6}
        for _ in range(2):
            await tend(graph, None, NOW)
            assert await found(graph, "ferries") == {3, 4, 5}

    async def test_without_a_model_the_words_decide(self, graph: Graph) -> None:
        """The same words in another case are one memory; one word of twelve less is a Jaccard of 11/12 = .917 < .92."""
        said = "the old harbour office keeps its blue ledgers behind many tall shelves"
        await graph.add([memory(1, said), memory(2, said.upper()), memory(3, said.rpartition(" ")[0])])
        assert (await tend(graph, None, NOW)).consolidated == 1

    @pytest.mark.feature(
        "… without the embedder, upkeep compares by words only, and a note says so",
        of="Cortex: upkeep runs in the seed's",
    )
    @pytest.mark.parametrize("fault", ["away", "nan"])
    async def test_an_embedder_that_is_away_costs_the_cosines_alone(self, graph: Graph, fault: str) -> None:
        """What is over ends all the same, shared words tell twins, the embedder is asked once, and a note says so."""
        long = "the old harbour office keeps its blue ledgers behind many tall shelves near the northern quay of town"
        pairs = [(f"{name} says that {long}", f"{name} often says that {long}") for name in ("Marta", "Ola")]
        texts = [text for pair in pairs for text in pair]
        await graph.add([recorded(9, 800 * HOUR, lifetime="ttl"), *(memory(n, t) for n, t in enumerate(texts, 1))])
        await graph.settle()
        embedder = Away(fault)
        report = await tend(graph, embedder, NOW)
        assert (report.expired, report.consolidated, embedder.calls, len(report.notes)) == (1, 2, 1, 1)
        assert "the embedder failed" in report.notes[0]
        assert (await states(graph))[9].ended_at is not None

    @pytest.mark.feature(
        "… above 50,000 memories, a note says that not all pairs were compared",
        of="Cortex: upkeep runs in the seed's",
    )
    async def test_report_notes_near_duplicates_beyond_the_window(self, graph: Graph) -> None:
        """A window of two: the fourth meets nothing of the first, and the notes say so; of ten, they are one."""
        texts = ["Tea is ready.", "Falcon forbids pushes.", "The stall is open.", "Tea is ready."]
        await graph.add([memory(n, text) for n, text in enumerate(texts, 1)])
        narrow = await tend(graph, None, NOW, window=2, dry_run=True)
        assert (narrow.consolidated, len(narrow.notes)) == (0, 1)
        assert "among 2 memories at a time" in narrow.notes[0]
        assert await tend(graph, None, NOW, window=10) == Report(consolidated=1, scanned=4)

    async def test_a_scope_tends_its_own(self, graph: Graph) -> None:
        """Ada's run leaves Ben's memories alone."""
        mine, his = (recorded(n, 800 * HOUR, lifetime="ttl") for n in (1, 2))
        his = replace(his, event=replace(his.event, scope=BEN))
        assert await told(graph, mine, his, scope=ADA) == Report(expired=1, scanned=1)
        assert (await states(graph))[2].ended_at is None


class Away(FakeEmbedder):
    """Cannot be reached, or answers what is no vector; counts how often it is asked."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self.calls = 0

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        self.calls += 1
        if self._fault == "away":
            raise BackendUnreachable("the model is away")
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[:] = float("nan")
        return vectors


def _in_conflict(confidence: float, with_: int) -> State:
    return State(confidence=confidence, conflict_group="g", conflict_status="active", contradicts=event_id(with_))


class Killed(BaseException):
    """Simulates the end of the process."""


class Mortal:
    """A store whose process dies at the n-th write, before it or after it."""

    def __init__(self, graph: Graph, at: int, *, after: bool) -> None:
        self._graph = graph
        self._left = at
        self._after = after

    async def alter(self, changes: Mapping[str, Change]) -> None:
        await self._write(self._graph.alter, changes)

    async def add(self, memories: Sequence[Memory]) -> None:
        if memories:
            await self._write(self._graph.add, memories)

    async def _write(self, write: Callable[[Any], Awaitable[None]], what: Any) -> None:
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Killed
        await write(what)
        if self._left < 0:
            raise Killed

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        return await self._graph.page(after, min(limit, 5), scope)  # small pages are many points to die at

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        return await self._graph.get(ids)

    async def cosines(self, vector: object, ids: Sequence[str]) -> Mapping[str, float]:
        return await self._graph.cosines(vector, ids)  # type: ignore[arg-type]


def various(random: Random) -> list[Memory]:
    """Thirty memories, of which many end, are said twice or contradict one another."""
    made = []
    for n in range(1, 31):
        state = random.choice(
            [
                State(lifetime="ttl"),
                State(lifetime="session"),
                State(confidence=random.random()),
                State(conflict_group=f"g{n % 3}", conflict_status="active", confidence=random.random()),
            ]
        )
        text = random.choice(["Marta prefers tea.", "The office is in Lisbon.", f"Thing {n} is here."])
        made.append(replace(memory(n, text, state=state)))
    return made


@pytest.mark.feature(
    "… after a kill at any write, the next run ends as if nothing had happened", of="Cortex: upkeep runs in the seed's"
)
@pytest.mark.parametrize("seed", range(5))
async def test_killed_anywhere_and_run_again_it_is_as_if_it_had_run_once(tmp_path: Path, seed: int) -> None:
    """Before and after each of its writes, ten points and more in each of 5 stores: nothing is lost, the end is one."""
    random = Random(seed)
    memories = various(random)

    async def opened(name: str) -> Graph:
        store = await SqliteGraph.open(Opening("cortex", tmp_path / name, {}, None), WalkOptions())
        await store.add(memories)
        return store

    once = await opened("once")
    counted = Mortal(once, 10**6, after=False)
    await tend(counted, None, NOW)  # type: ignore[arg-type]  # as much of a store as upkeep needs
    expected = await states(once)
    await once.close()
    writes = 10**6 - counted._left
    assert writes >= 5
    for point in range(writes):
        for after in (False, True):
            store = await opened(f"{point}{after}")
            with pytest.raises(Killed):
                await tend(Mortal(store, point, after=after), None, NOW)  # type: ignore[arg-type]
            assert (await store.stats()).items == len(memories)
            await tend(Mortal(store, 10**6, after=False), None, NOW)  # type: ignore[arg-type]
            assert await states(store) == expected
            await store.close()


class Many:
    """A store of ``n`` memories that takes no room: each is made when its page is read. Of a hundred one is a twin."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.merged: dict[str, Change] = {}
        self._words = [f"{a}{b}" for a in "bcdfghjklmnpqrstvwxz" for b in "aeiou"]

    def memory(self, i: int) -> Memory:
        random = Random(i - i % 2 if i % 100 < 2 else i)
        return Memory(
            make_event(i + 1, " ".join("".join(random.choices(self._words, k=3)) for _ in range(12)), kind="fact")
        )

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        first = int(after[-12:], 16) if after else 0
        return [self.memory(i) for i in range(first, min(self.n, first + limit))]

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        return {id_: self.memory(int(id_[-12:], 16) - 1) for id_ in ids}

    async def alter(self, changes: Mapping[str, Change]) -> None:
        self.merged |= changes


async def test_pages_reads_500_memories_at_a_time() -> None:
    """1,200 memories are pages of 500, 500 and 200."""
    many = Many(1200)
    assert [len(page) async for page in pages(cast("Graph", many))] == [500, 500, 200]


@pytest.mark.row(
    "A047",
    "… it reads pages of 500; 50,000 memories fit in bounded memory, by MinHash-LSH",
    of="Cortex: upkeep runs in the seed's",
)
@pytest.mark.slow
async def test_50_000_memories_in_bounded_memory() -> None:
    """Each of 500 pairs is found among 50,000, in less than 250 MB more than before."""
    unit = 1024 if sys.platform != "darwin" else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    store = Many(50_000)
    report = await tend(store, None, NOW)  # type: ignore[arg-type]
    assert (report.consolidated, report.scanned, len(store.merged)) == (500, 50_000, 500)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before < 250_000_000
