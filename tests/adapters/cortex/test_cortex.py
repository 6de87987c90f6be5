"""The cortex: similar and linked memories merged by RRF; time, versions, use; whose memory it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.cortex import Cortex
from adapters.cortex.cortex import hit_of
from adapters.cortex.options import Options
from adapters.cortex.port import Graph, Link, Matches, Memory, View
from adapters.cortex.rank import Ranked, Weights
from adapters.cortex.recall import walk_timeout_s
from fusion.contract import Backend, Fact, Hit, Moment, Opening, Scope
from fusion.errors import SettingsError, StoreDamaged
from tests.backend_contract import (
    NOW,
    BackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
    opening,
)
from tests.fakes import FakeEmbedder

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TestCortex(BackendContract):
    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await Cortex.open(opening(folder))


@asynccontextmanager
async def wordy(folder: Path, **options: object) -> AsyncIterator[Cortex]:
    """A cortex without an embedder: what is similar is what shares words, so that the arithmetic can be shown."""
    cortex = await Cortex.open(Opening("cortex", folder, options))
    try:
        yield cortex
    finally:
        await cortex.close()


@pytest.fixture
async def cortex(tmp_path: Path) -> AsyncIterator[Cortex]:
    async with wordy(tmp_path / "cortex") as opened:
        yield opened


def ids(hits: Iterator[Hit] | list[Hit] | tuple[Hit, ...]) -> list[int]:
    return [int(str(hit.event_id)[-12:], 16) for hit in hits]


async def found(cortex: Cortex, text: str, scope: Scope = Scope(), **when: datetime) -> list[Hit]:  # noqa: B008 – frozen
    return list(await cortex.search(replace(make_query(text, scope), **when)))


# Fusion and ranking

REST = 0.08 * 0.1 + 0.10 / 1.5 + 0.08 / 1.5 + 0.07 * 0.7
"""what a permanent note that was said and never used scores besides similarity and graph"""


@pytest.mark.row("A001", "A020", "Cortex: similar and linked memories are merged by rank")
async def test_both_lists_count(cortex: Cortex) -> None:
    """Similar and one hop away: .45 · 1 + .05 · 1. Two hops away only: .45 · (.4/62)/(1/61), its fused score as a share
    of the best possible, + .05 · .5."""
    await cortex.remember(
        [
            make_extracted(make_event(1, "it timed out"), Fact("Julien", "corrected_by", "bug gateway")),
            make_extracted(make_event(2, "shipped in spring"), Fact("bug gateway", "in", "Release 4")),
            make_extracted(make_event(3, "unrelated"), Fact("Marta", "drinks", "Tea")),
        ]
    )
    hits = await found(cortex, "when did Julien see that it timed out?")
    assert ids(hits) == [1, 2]
    assert [hit.score for hit in hits] == pytest.approx(
        [0.45 + 0.05 + REST, 0.45 * (0.4 / 62) / (1 / 61) + 0.05 * 0.5 + REST]
    )
    assert hits[0].path == ("Julien", "corrected_by", "bug gateway")
    assert hits[1].path == ("Julien", "corrected_by", "bug gateway", "in", "Release 4")


def test_hit_of_a_memory_with_one_fact_has_it() -> None:
    """A graph on a server reads facts with its memories; of several none says what the whole memory states."""
    said = make_extracted(make_event(1, "it timed out"), Fact("Julien", "corrected_by", "bug gateway"))
    both = make_extracted(make_event(2, "both"), Fact("Julien", "drinks", "Tea"), Fact("Marta", "drinks", "Tea"))
    hits = [hit_of(Ranked(Memory(one.event, one.extraction), 1.0, Weights())) for one in (said, both)]
    assert [hit.fact for hit in hits] == [Fact("Julien", "corrected_by", "bug gateway"), None]


async def test_weights_are_options(tmp_path: Path) -> None:
    """Where similarity counts .9 the words' first is best, where the graph does, the graph's."""
    for share, expected in ((0.9, [1, 2]), (0.1, [2, 1])):
        nothing = dict.fromkeys(("recency", "frequency", "type", "scope", "confidence", "reinforcement", "tags"), 0.0)
        weights = {**nothing, "similarity": share, "graph": 1 - share}
        async with wordy(tmp_path / str(share), weights=weights) as cortex:
            await cortex.remember(
                [
                    make_extracted(make_event(1, "hello hello")),
                    make_extracted(make_event(2, "nothing shared"), Fact("Alpha", "is", "Delta")),
                ]
            )
            assert ids(await found(cortex, "hello Alpha")) == expected


async def test_wrong_options_are_named(tmp_path: Path) -> None:
    """Weights that do not add up, and an option that there is not, are refused with the table's name."""
    with pytest.raises(SettingsError, match=r"\[backends.cortex\] weights add up to 1.55"):
        await Cortex.open(Opening("cortex", tmp_path, {"weights": {"similarity": 1.0}}))
    with pytest.raises(SettingsError, match="no option 'hop'"):
        await Cortex.open(Opening("cortex", tmp_path, {"hop": 2}))


@pytest.mark.row("A164", "Cortex: a limit only truncates: the pool of 50 is ranked as a whole")
async def test_a_limit_only_cuts(cortex: Cortex) -> None:
    """The best one is the same whether one is asked for or a hundred."""
    await cortex.remember(make_samples())
    query = make_query("Who corrected the bug in Gateway, Julien or Marta?")
    everything = list(await cortex.search(query))
    for limit in (1, 2, 5):
        assert list(await cortex.search(replace(query, limit=limit))) == everything[:limit]


@pytest.mark.row("A004", "A017", "Cortex: history is recalled on request")
async def test_history_is_recalled_when_it_is_asked_for(cortex: Cortex) -> None:
    """The old version comes after the new one then, at three tenths of its own score."""
    await cortex.remember([make_extracted(make_event(1, "the office is in Paris"))])
    (alone,) = await cortex.recall(make_query("where is the office?"))
    await cortex.remember([make_extracted(make_event(2, "the office is in Lisbon", supersedes=event_id(1)))])
    current = await cortex.recall(make_query("where is the office?"))
    both = await cortex.recall(make_query("where is the office?"), history=True)
    assert [r.memory.event.text[-6:] for r in current] == ["Lisbon"]
    assert [(r.memory.event.text[-6:], r.penalty) for r in both] == [("Lisbon", 1.0), (" Paris", 0.3)]
    assert both[1].score == pytest.approx(0.3 * alone.score, rel=0.1)


class CountedGraph:
    """A store that notes how many candidates it is asked for; all else is the one it wraps."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.limits: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._graph, name)

    async def find(self, text: str, vector: NDArray[np.float32] | None, view: View, limit: int) -> Matches:
        self.limits.append(limit)
        return await self._graph.find(text, vector, view, limit)


@pytest.mark.row("A003", "Cortex: 50 candidates are ranked, whatever the limit")
@pytest.mark.parametrize("limit", [1, 8, 50])
async def test_fifty_candidates_are_ranked_however_few_are_asked_for(cortex: Cortex, limit: int) -> None:
    """The seed's number, by default."""
    await cortex.remember(make_samples())
    counted = CountedGraph(cortex.graph)
    await Cortex(cast("Graph", counted), Options()).search(replace(make_query("Julien"), limit=limit))
    assert counted.limits == [50]


class SlowGraph:
    """A store whose walk takes longer than anybody waits; all else is the one behind it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> object:
        return getattr(self._graph, name)

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        await asyncio.Event().wait()
        return []


@pytest.mark.parametrize(("deadline_s", "walk_s"), [(0.2, 0.05), (0.8, 0.2), (2.0, 0.5)])
def test_walk_timeout_is_a_quarter_of_the_deadline(deadline_s: float, walk_s: float) -> None:
    """openclaw-cortex's 50 ms of a hook's 200, 200 of 800 and 500 of 2,000."""
    assert walk_timeout_s(replace(make_query("x"), deadline_s=deadline_s)) == pytest.approx(walk_s)


@pytest.mark.row(
    "A021",
    "Cortex: a graph walk gets a quarter of the query's time (50 ms of a hook's 200); after that only "
    "similar memories count",
)
async def test_a_walk_that_takes_too_long_is_left_out(cortex: Cortex) -> None:
    """A quarter of the query's time is the graph's; then what is similar is ranked without it."""
    await cortex.remember(make_samples())
    slow = Cortex(cast("Graph", SlowGraph(cortex.graph)), Options())
    hits = await slow.search(replace(make_query("Julien corrected Gateway"), deadline_s=0.04))
    assert (ids(list(hits))[0], hits[0].path) == (1, ())


class Broken(FakeEmbedder):
    """An embedder whose vectors are of the wrong size, or are no numbers."""

    def __init__(self, value: float, dimensions: int) -> None:
        super().__init__()
        self.shape = (1, dimensions)
        self.value = value

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        return np.full((len(texts), self.shape[1]), self.value, np.float32)


@pytest.mark.feature("Cortex: vectors of the wrong size, or with NaN, are not indexed")
@pytest.mark.feature(
    "an embedding of the wrong size, or with NaN or infinity, is dropped; the memory is found by "
    "words, and the description says so",
    part="faults/cortex",
)
@pytest.mark.parametrize(("value", "dimensions"), [(0.5, 31), (0.5, 1), (np.nan, 32), (np.inf, 32)])
async def test_vectors_that_are_none_leave_words_and_graph(tmp_path: Path, value: float, dimensions: int) -> None:
    """A wrong size, NaN or infinity reaches no index: what was kept is found by words, and the description says why."""
    cortex = await Cortex.open(Opening("cortex", tmp_path, {}, Broken(value, dimensions)))
    try:
        await cortex.remember(make_samples())
        assert ids(await found(cortex, "Julien corrected"))[0] == 1
        described = await cortex.describe()
        assert (described.vectors, described.degraded) == (0, True)
        assert any("fake@1 gave vectors" in note for note in described.notes)
    finally:
        await cortex.close()


async def test_who_said_it_is_an_entity(cortex: Cortex) -> None:
    """A memory is linked to its speaker, without a word of the query in it."""
    await cortex.remember([make_extracted(make_event(1, "nothing shared", speaker="Zoë Ünal"))])
    hits = await found(cortex, "what was zoe unal's answer?")
    assert (ids(hits), hits[0].path) == ([1], ("Zoë Ünal",))


# Time


@pytest.mark.row("A004", "Cortex: only current versions are recalled, unless another time is asked for")
async def test_only_current_versions(cortex: Cortex) -> None:
    """A superseded memory is not recalled; ``as_of`` a time before its successor it is, and the successor is not."""
    old = make_event(1, "the office is in Paris", at=Moment(NOW - timedelta(days=100)))
    new = make_event(2, "the office is in Lisbon", at=Moment(NOW - timedelta(days=10)), supersedes=event_id(1))
    for batch in ([new], [old]):  # whichever comes first
        await cortex.remember([make_extracted(event) for event in batch])
    assert ids(await found(cortex, "where is the office")) == [2]
    assert ids(await found(cortex, "where is the office", as_of=NOW - timedelta(days=50))) == [1]
    assert ids(await found(cortex, "where is the office", as_of=NOW - timedelta(days=5))) == [2]
    assert ids(await found(cortex, "where is the office", as_of=NOW - timedelta(days=200))) == []


async def test_forgetting_the_successor_brings_the_old_back(cortex: Cortex) -> None:
    """Being superseded is not written into the old version: it holds as long as the new one is there."""
    await cortex.remember([make_extracted(make_event(1, "the office is in Paris"))])
    await cortex.remember([make_extracted(make_event(2, "the office is in Lisbon", supersedes=event_id(1)))])
    assert ids(await found(cortex, "office")) == [2]
    await cortex.forget(event_id(2), [])
    assert ids(await found(cortex, "office")) == [1]


async def test_nobody_supersedes_anothers_memory(cortex: Cortex) -> None:
    """Ben's event that claims to supersede Ada's changes nothing for Ada."""
    ada, ben = Scope(user_id="ada"), Scope(user_id="ben")
    await cortex.remember([make_extracted(make_event(1, "the office is in Paris", ada))])
    await cortex.remember([make_extracted(make_event(2, "the office is gone", ben, supersedes=event_id(1)))])
    assert ids(await found(cortex, "office", ada)) == [1]


async def test_valid_from_and_to(cortex: Cortex) -> None:
    """Valid in February only: found as of then (from included, to not), not before and not after."""
    february, march = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
    await cortex.remember([make_extracted(make_event(1, "the canteen is closed", valid_from=february, valid_to=march))])
    second = timedelta(seconds=1)
    assert ids(await found(cortex, "canteen", now=march - second)) == [1]
    assert ids(await found(cortex, "canteen", now=march)) == []
    assert ids(await found(cortex, "canteen", as_of=february)) == [1]
    assert ids(await found(cortex, "canteen", as_of=february - second)) == []
    assert ids(await found(cortex, "canteen", as_of=march)) == []


async def test_known_at_is_what_was_recorded(cortex: Cortex) -> None:
    """``known_at`` before the correction was recorded shows the old version, after it the new one."""
    old = replace(make_event(1, "the office is in Paris"), recorded_at=NOW - timedelta(days=20))
    new = replace(make_event(2, "the office is in Lisbon", supersedes=event_id(1)), recorded_at=NOW - timedelta(days=5))
    await cortex.remember([make_extracted(old), make_extracted(new)])
    assert ids(await found(cortex, "office", known_at=NOW - timedelta(days=10))) == [1]
    assert ids(await found(cortex, "office", known_at=NOW)) == [2]
    assert ids(await found(cortex, "office", known_at=NOW - timedelta(days=30))) == []


# Use


@pytest.mark.row("A001", "Cortex: use is counted separately from searching")
async def test_use_is_counted_apart_from_searching(cortex: Cortex) -> None:
    """Searching counts nothing; ``used`` twice is 2, and the latest time stays even if told late."""
    await cortex.remember(make_samples())
    await found(cortex, "Julien")
    await cortex.used([event_id(1), "unknown"], NOW)
    await cortex.used([event_id(1)], NOW - timedelta(days=1))

    known = await cortex.graph.get([event_id(1), event_id(2)])
    states = [(id_, known[id_].state.access_count, known[id_].state.last_accessed) for id_ in sorted(known)]
    assert states == [(event_id(1), 2, NOW), (event_id(2), 0, None)]


@pytest.mark.row("A145", "Cortex: frequent use does not raise a memory's trust")
async def test_use_does_not_promote(cortex: Cortex) -> None:
    """Used a hundred times, an untrusted memory stays untrusted, in the store and in the hits."""
    await cortex.remember([make_extracted(make_event(1, "Julien pays by invoice", trust="untrusted"))])
    for _ in range(100):
        await cortex.used([event_id(1)], NOW)
    memory = (await cortex.graph.get([event_id(1)]))[event_id(1)]
    assert (memory.state.access_count, memory.event.trust) == (100, "untrusted")
    assert [hit.trust for hit in await found(cortex, "Julien")] == ["untrusted"]


# Faults


async def test_without_an_embedder_it_says_so(cortex: Cortex) -> None:
    """Lexical and graph search work without a model, and the description says what is missing."""
    await cortex.remember(make_samples())
    assert ids(await found(cortex, "Julien corrected"))[0] == 1
    assert "no embedding model" in (await cortex.describe()).notes[0]


async def test_the_index_is_derived(tmp_path: Path) -> None:
    """Deleting the index folder loses nothing: it is rebuilt from SQLite."""
    folder = tmp_path / "cortex"
    async with wordy(folder) as cortex:
        await cortex.remember(make_samples())
    for path in sorted((folder / "index").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    async with wordy(folder) as cortex:
        assert ids(await found(cortex, "Biscuit the greyhound"))[0] == 4


async def test_damage_is_named(tmp_path: Path) -> None:
    """A corrupt truth is never silently empty: the error names the file and the fix."""
    async with wordy(tmp_path) as cortex:
        await cortex.remember(make_samples())
    (tmp_path / "graph.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreDamaged, match=r"graph\.sqlite is damaged.*backup"):
        await Cortex.open(Opening("cortex", tmp_path))


@pytest.mark.feature("SQL, Cypher, full-text and filter syntax", part="faults/clients")
@pytest.mark.parametrize(
    "evil", ["'; drop table memory; --", '"]->(n) DETACH DELETE n //', "`x` = 1 or 1=1", "%", "?1"]
)
async def test_injection_is_only_text(cortex: Cortex, evil: str) -> None:
    """SQL in every field is stored and found like any other text, and crosses no scope."""
    mine = Scope(user_id=evil, session_id=evil)
    event = make_event(1, f"{evil} Alpha", mine, speaker=evil, source=evil)
    await cortex.remember([make_extracted(event, Fact(f"Alpha {evil}", evil, f"Beta {evil}"))])
    await cortex.remember([make_extracted(make_event(2, "Alpha", Scope(user_id="ada")))])
    assert [hit.text for hit in await found(cortex, f"Alpha {evil}", mine)] == [event.text]
    assert ids(await found(cortex, f"Alpha {evil}", Scope(user_id="ada"))) == [2]
    assert await cortex.forget(evil, [evil]) == "absent"
    assert (await cortex.describe()).items == 2


# Scope


async def test_a_name_that_two_people_have_is_found_of_both(tmp_path: Path) -> None:
    """Asked for a whole tenant: "Alpha" is an entity of Ada's and one of Ben's, and the graph leads to either memory,
    whose texts do not have the name."""
    ada, ben = (Scope(tenant="blue", user_id=user) for user in ("ada", "ben"))
    batch = [
        make_extracted(make_event(n, f"note {n}", scope), Fact("Alpha", "owns", f"Thing {n}"))
        for n, scope in enumerate((ada, ben), start=1)
    ]
    async with wordy(tmp_path) as cortex:
        await cortex.remember(batch)
        assert sorted(ids(await found(cortex, "Alpha", Scope(tenant="blue")))) == [1, 2]


who = st.sampled_from([None, "ada", "ben"])
scopes = st.builds(
    Scope, st.sampled_from(["blue", "red"]), who, session_id=st.sampled_from([None, "s"]),
    audience=st.sampled_from(["private", "group"]),
)  # fmt: skip
names = st.sampled_from(["Alpha", "Beta", "Gamma", "Delta"])
memories = st.lists(st.tuples(scopes, names, names), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(memories, scopes, names)
async def test_nothing_crosses_a_scope(stored: list[tuple[Scope, str, str]], asking: Scope, name: str) -> None:
    """Whatever is stored for whom: each hit is admitted, each admitted mention of the name is found, and a path is made
    of what admitted memories say."""
    batch = [
        make_extracted(make_event(n, f"note {n}", scope), Fact(one, f"r{n}", other))
        for n, (scope, one, other) in enumerate(stored, start=1)
    ]
    with TemporaryDirectory() as folder:
        async with wordy(Path(folder)) as cortex:
            await cortex.remember(batch)
            hits = await found(cortex, name, asking)
    assert all(asking.admits(hit.scope) for hit in hits)
    admitted = {n: (one, other) for n, (scope, one, other) in enumerate(stored, start=1) if asking.admits(scope)}
    assert {n for n, ends in admitted.items() if name in ends} <= set(ids(hits)) <= set(admitted)
    said = {f"r{n}" for n in admitted} | {"mentioned with"} | {end for ends in admitted.values() for end in ends}
    assert {part.removeprefix("^") for hit in hits for part in hit.path} <= said
