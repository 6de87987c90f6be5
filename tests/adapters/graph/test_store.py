"""The graph beneath `cortex` and `triples`: names, hops, hubs, paths, and whose memory it is."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from pathlib import Path
from typing import ClassVar

import pytest

from adapters.graph.names import key, named
from adapters.graph.options import WalkOptions
from adapters.graph.traversal import (
    LinkedMemory,
    ReachedEntity,
    by_strength,
    mention_pairs,
    merge,
    paths,
    query_entities,
    ranks,
    walk,
)
from adapters.index import Entry
from adapters.triples import Options, Triples
from fusion.contract import Fact, Opening, Query, Scope
from fusion.errors import SettingsError, StoreFull
from fusion.store.rows import visible
from fusion.store.sqlite import Connection, Database
from tests.backend_contract import event_id, make_event, make_extracted, make_query

NORMAL = WalkOptions()
ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")


# Names


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café Müller", "cafe muller"),
        ("bug_gateway", "Bug-Gateway"),
        (" “Julien” ", "JULIEN"),
        ("ＮＥＷ　ＹＯＲＫ", "New York"),
        ("Zoe\u0308", "Zoë"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    """Case, accents, width and punctuation make no difference."""
    assert key(one) == key(other) != ""


def test_what_is_no_name() -> None:
    """C++, C# and C are three languages; punctuation alone is nobody; a sentence is not a name."""
    assert len({key("C++"), key("C#"), key("C")}) == 3
    assert key("***") == ""
    assert key("word " * 40) == ""


def test_the_longest_name_counts() -> None:
    """Within "bug gateway", "gateway" is not named; elsewhere in the text it is."""
    known = {"gateway", "bug gateway", "julien"}
    assert named("Who fixed Julien's bug-gateway?", known) == ["bug gateway", "julien"]
    assert named("the bug gateway, then the gateway", known) == ["bug gateway", "gateway"]


def test_names_without_blanks_between() -> None:
    """Scripts written without blanks: a name is found inside a run, and with a particle glued on."""
    assert named("東京で太郎は何をした", {"太郎", "東京"}) == ["東京", "太郎"]
    assert named("민수는 어디에", {"민수"}) == ["민수"]


def test_stop_words_are_nobody() -> None:
    """An entity that is called like a stop word or a letter is not in every query."""
    assert named("what will I do", {"will", "i", "what", "a"}) == []


# RRF


def test_rrf_arithmetic() -> None:
    """Found by both: .6/(60+1) + .4/(60+2) = .016288; by one alone: .6/(60+2) = .009677, .4/(60+1) = .006557."""
    both, similar, linked = 1, 2, 3
    merged = merge([both, similar], [LinkedMemory(linked, 1, 0.9, 0), LinkedMemory(both, 1, 0.5, 0)], WalkOptions())
    assert [memory for memory, _ in merged] == [both, similar, linked]
    assert [score for _, score in merged] == pytest.approx(
        [0.6 / (60 + 1) + 0.4 / (60 + 2), 0.6 / (60 + 2), 0.4 / (60 + 1)]
    )


def test_similar_weight_and_graph_weight_set_what_each_list_counts() -> None:
    """With the weights exchanged, the memory that the graph alone has is before the one of text search alone."""
    similar, linked = 2, 3
    lists = [similar], [LinkedMemory(linked, 1, 0.9, 0)]
    assert [memory for memory, _ in merge(*lists, WalkOptions())] == [similar, linked]
    assert merge(*lists, WalkOptions(similar_weight=0.4, graph_weight=0.6)) == [
        (linked, pytest.approx(0.6 / (60 + 1))),
        (similar, pytest.approx(0.4 / (60 + 1))),
    ]


def test_equals_share_their_last_rank() -> None:
    """Three memories of one hub are all third, .4/(60+3): none of them is first for a link that all have."""
    equals = [LinkedMemory(memory, 1, 0.5, 0) for memory in (1, 2, 3)]
    assert ranks([LinkedMemory(4, 1, 0.9, 0), *equals]) == {4: 1, 1: 4, 2: 4, 3: 4}
    assert [score for _, score in merge([], equals, WalkOptions())] == pytest.approx([0.4 / (60 + 3)] * 3)


# The walk


@dataclass
class Graph:
    """A store without embedder, and one way to walk it."""

    store: Triples

    async def add(self, n: int, *facts: tuple[str, str, str], scope: Scope = ADA, **more: object) -> None:
        event = make_event(n, f"note number {n}", scope, **more)
        await self.store.remember([make_extracted(event, *(Fact(*fact) for fact in facts))])

    async def walk(
        self, text: str, scope: Scope = ADA, how: WalkOptions = NORMAL
    ) -> list[tuple[int, int, tuple[str, ...]]]:
        """(event number, hops, path) of what is linked, strongest first."""
        query = make_query(text, scope)

        def look(db: Connection) -> list[tuple[int, int, tuple[str, ...]]]:
            reached = reach(db, query, how)
            found = linked_memories(db, query, reached, (), how)
            why = paths(db, found, reached)
            return [(number(db, f), f.hops, why[f.memory]) for f in found]

        return await self.store._database.read(look)

    async def reached(self, text: str, scope: Scope = ADA, how: WalkOptions = NORMAL) -> dict[str, ReachedEntity]:
        query = make_query(text, scope)
        found = await self.store._database.read(lambda db: reach(db, query, how))
        return {reached.name: reached for reached in found.values()}


def linked_memories(
    db: Connection, query: Query, reached: dict[int, ReachedEntity], similar: Sequence[int], how: WalkOptions
) -> list[LinkedMemory]:
    return by_strength(mention_pairs(db, visible(query), reached, similar, how), reached, similar)


def reach(db: Connection, query: Query, how: WalkOptions) -> dict[int, ReachedEntity]:
    return walk(db, visible(query), list(query_entities(db, query.text, query.scope)), how)


def number(db: Connection, found: LinkedMemory) -> int:
    row = db.execute("select event_id from memory where id = ?", (found.memory,)).fetchone()
    return int(row[0][-12:], 16)


@pytest.fixture
async def graph(tmp_path: Path) -> AsyncIterator[Graph]:
    store = await Triples.open(Opening("triples", tmp_path / "triples"))
    try:
        yield Graph(store)
    finally:
        await store.close()


async def chain(graph: Graph, *names: str) -> None:
    """Memory n asserts that its name is followed by the next."""
    for n, ends in enumerate(pairwise(names), start=1):
        await graph.add(n, (ends[0], "precedes", ends[1]))


@pytest.mark.row("A019", "Cortex: two hops from the entities of the query, not three")
async def test_two_hops_are_found_three_are_not(graph: Graph) -> None:
    """Alpha – Beta – Gamma – Delta: from Alpha the first memory is 1 hop away, the second 2, the third out of reach."""
    await chain(graph, "Alpha", "Beta", "Gamma", "Delta")
    assert [(n, hops) for n, hops, _ in await graph.walk("tell me about Alpha")] == [(1, 1), (2, 2)]
    assert [(n, hops) for n, hops, _ in await graph.walk("Alpha", how=WalkOptions(hops=1))] == [(1, 1)]
    assert [(n, hops) for n, hops, _ in await graph.walk("Alpha", how=WalkOptions(hops=3))] == [(1, 1), (2, 2), (3, 3)]


async def test_a_cycle_ends(graph: Graph) -> None:
    """Walking round a ring reaches each memory once, by its shortest way."""
    await chain(graph, "Alpha", "Beta", "Gamma", "Alpha")
    assert sorted((n, hops) for n, hops, _ in await graph.walk("Alpha", how=WalkOptions(hops=3))) == [
        (1, 1),
        (2, 2),
        (3, 1),
    ]


async def test_activation_spreads(graph: Graph) -> None:
    """An entity of one mention says 1/log2(1+1) = 1, of three 1/log2(1+3) = .5; each hop passes half of it on."""
    await graph.add(1, ("Alpha", "likes", "Rare"))
    await graph.add(2, ("Alpha", "likes", "Common"))
    await graph.add(3, ("Other", "likes", "Common"))
    await graph.add(4, ("Another", "likes", "Common"))

    query = make_query("Alpha", ADA)

    def strengths(db: Connection) -> dict[int, float]:
        reached = reach(db, query, WalkOptions())
        return {number(db, f): f.strength for f in linked_memories(db, query, reached, (), WalkOptions())}

    found = await graph.store._database.read(strengths)
    alpha = 1 / log2(1 + 2)
    rare, common = 0.5 * alpha * 1.0, 0.5 * alpha * 0.5
    assert found == pytest.approx({1: alpha + rare, 2: alpha + common, 3: common, 4: common})


async def test_paths_justify(graph: Graph) -> None:
    """One relation reads as it was asserted, from whichever end; two are a chain from the query's entity."""
    await graph.add(1, ("Julien", "corrected_by", "bug gateway"))
    await graph.add(2, ("Release 4", "contains", "bug gateway"))
    asserted = ("Julien", "corrected_by", "bug gateway")
    assert (1, 1, asserted) in await graph.walk("what did julien do?")
    assert (1, 1, asserted) in await graph.walk("the Bug-Gateway?")
    assert (2, 2, (*asserted, "^contains", "Release 4")) in await graph.walk("julien")


async def test_a_common_mention_is_an_edge(graph: Graph) -> None:
    """Two names in one memory lead from one to the other; a relation, where there is one, is the better reason."""
    event = make_event(1, "Marta and Lisbon", ADA, speaker="Marta")
    await graph.store.remember([make_extracted(event, Fact("Lisbon", "has", "Trams"))])
    await graph.add(2, ("Trams", "are", "Yellow"))
    assert [(n, hops, path) for n, hops, path in await graph.walk("Marta") if n == 2] == [
        (2, 2, ("Marta", "mentioned with", "Trams", "are", "Yellow"))
    ]
    assert (await graph.reached("Lisbon"))["Trams"].predicate == "has"


async def test_a_hub_is_bounded(graph: Graph) -> None:
    """Fifty memories of one entity, fan-out 8: the 8 newest are walked; a hub that is reached is not walked from."""
    for n in range(1, 51):
        await graph.add(n, ("Hub", "has", f"Spoke {n}"))
    how = WalkOptions(fan_out=8)
    found = await graph.walk("Hub", how=how)
    assert sorted(n for n, _, _ in found) == list(range(43, 51))
    assert [n for n, _, _ in await graph.walk("spoke 3", how=how)] == [3]
    assert "Hub" not in await graph.reached("spoke 3", how=how)


async def test_of_a_hub_what_is_similar_comes_too(graph: Graph) -> None:
    """Old memories of a hub count where text search found them as well."""
    for n in range(1, 51):
        await graph.add(n, ("Hub", "has", f"Spoke {n}"))
    query = make_query("Hub", ADA)

    def look(db: Connection) -> list[int]:
        reached = reach(db, query, WalkOptions(fan_out=4))
        memory = db.execute("select id from memory where event_id = ?", (event_id(2),)).fetchone()[0]
        return [number(db, f) for f in linked_memories(db, query, reached, (memory,), WalkOptions(fan_out=4))]

    assert sorted(await graph.store._database.read(look)) == [2, 47, 48, 49, 50]


async def test_nobody_walks_through_anothers_memory(graph: Graph) -> None:
    """Ada's Alpha and Ben's Beta are linked only in Ben's memory: Ada's walk does not pass there."""
    await graph.add(1, ("Alpha", "precedes", "Omega"), scope=ADA)
    await graph.add(2, ("Alpha", "knows", "Beta"), scope=BEN)
    await graph.add(3, ("Beta", "precedes", "Gamma"), scope=ADA)
    assert [n for n, _, _ in await graph.walk("Alpha", ADA)] == [1]
    assert set(await graph.reached("Alpha", ADA)) == {"Alpha", "Omega"}


async def test_private_edges_are_not_walked_for_a_group(graph: Graph) -> None:
    """A path may not reveal a private memory: a group's query does not pass through it, a private one does."""
    private = Scope(user_id="ada", audience="private")
    await graph.add(1, ("Alpha", "secretly_is", "Beta"), scope=private)
    await graph.add(2, ("Beta", "lives_in", "Lisbon"), scope=ADA)
    assert await graph.walk("Alpha", ADA) == []
    assert sorted(n for n, _, _ in await graph.walk("Alpha", private)) == [1, 2]


async def test_quarantined_memories_carry_no_edges(graph: Graph) -> None:
    """What is quarantined is neither found nor passed."""
    await graph.add(1, ("Alpha", "is", "Beta"), trust="quarantined")
    await graph.add(2, ("Beta", "is", "Gamma"))
    assert await graph.walk("Alpha") == []


async def test_invisible_edges_do_not_use_up_the_fan_out(graph: Graph) -> None:
    """Of an entity, the cap counts edges that the query may see: newer ones of another session do not hide them."""
    await graph.add(1, ("Alpha", "likes", "Tea"), scope=Scope(user_id="ada", session_id="mine"))
    for n in range(2, 12):
        await graph.add(n, ("Alpha", "likes", f"Thing {n}"), scope=Scope(user_id="ada", session_id="other"))
    found = await graph.walk("Alpha", Scope(user_id="ada", session_id="mine"), WalkOptions(fan_out=4))
    assert [n for n, _, _ in found] == [1]


async def test_an_entity_goes_with_its_last_mention(graph: Graph) -> None:
    """Forgetting leaves no orphan: entities without mention are gone, others have one mention less."""
    await graph.add(1, ("Alpha", "is", "Beta"))
    await graph.add(2, ("Alpha", "is", "Gamma"))

    def mentions(db: Connection) -> dict[str, int]:
        return dict(db.execute("select name, mentions from entity"))

    assert await graph.store._database.read(mentions) == {"Alpha": 2, "Beta": 1, "Gamma": 1}
    await graph.store.forget(event_id(1), [])
    assert await graph.store._database.read(mentions) == {"Alpha": 1, "Gamma": 1}
    await graph.store.forget(event_id(2), [])
    assert await graph.store._database.read(mentions) == {}
    left = await graph.store._database.read(lambda db: db.execute("select count(*) from relation").fetchone()[0])
    assert left == 0


async def test_a_fact_about_itself_is_no_edge(graph: Graph) -> None:
    """Empty ends, an empty relation, or twice the same end make no edge."""
    await graph.add(1, ("Alpha", "is", "alpha"), ("", "is", "Beta"), ("Gamma", "…", "Delta"))
    assert await graph.store._database.read(lambda db: db.execute("select count(*) from relation").fetchone()[0]) == 0


# Options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hop": 2}, "hops, fan_out"),
        ({"hops": 0}, "from 1 to 3"),
        ({"hops": True}, "whole number"),
        ({"fan_out": "9"}, "'9'"),
    ],
)
async def test_wrong_options_are_named(tmp_path: Path, options: dict[str, object], says: str) -> None:
    """A misspelt or impossible option is refused at the start, with the allowed values."""
    with pytest.raises(SettingsError, match=says):
        await Triples.open(Opening("triples", tmp_path, options))


# The derived index


class Unwilling:
    """An index whose first ``put`` fails, as on a full disk."""

    size = vectors = pending = 0

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.failures = 1

    async def put(self, entries: Sequence[Entry]) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreFull("no space left for the index")
        self.keys.update(entry.key for entry in entries)

    async def drop(self, keys: Sequence[str]) -> None:
        self.keys.difference_update(keys)

    async def close(self) -> None:
        """Nothing to release."""


async def test_a_failed_index_is_made_up_for(tmp_path: Path) -> None:
    """The index fails after SQLite has the memory: the caller gets the error, and any later call indexes it."""
    database = await Database.open(tmp_path / "graph.sqlite", Triples.schema)
    index = Unwilling()
    store = Triples(database, index, Options())  # type: ignore[arg-type]
    try:
        with pytest.raises(StoreFull):
            await store.remember([make_extracted(make_event(1, "first"))])
        await store.remember([make_extracted(make_event(2, "second"))])
        assert index.keys == {event_id(1), event_id(2)}
        assert await store.forget(event_id(1), []) == "deleted"
        assert index.keys == {event_id(2)}
    finally:
        await store.close()


# What an opening reads


class Compared(Triples):
    """Counts how often all entries are read."""

    times: ClassVar[int] = 0

    @classmethod
    def _all_entries(cls, db: Connection) -> list[Entry]:
        Compared.times += 1
        return super()._all_entries(db)


async def reopened(folder: Path) -> tuple[bool, list[str]]:
    """Whether an opening of the store compares all texts, and the memories that it then finds about Lisbon."""
    before = Compared.times
    store = await Compared.open(Opening("triples", folder, {}, None))
    try:
        hits = await store.search(make_query("Lisbon"))
        return Compared.times > before, sorted(hit.event_id for hit in hits if hit.event_id)
    finally:
        await store.close()


@pytest.fixture
async def lisbon(tmp_path: Path) -> AsyncIterator[Triples]:
    """A store that was opened twice and has memory 1 about Lisbon, and changes since."""
    store = await Compared.open(Opening("triples", tmp_path / "store", {}, None))
    await store.remember([make_extracted(make_event(1, "Ada moved to Lisbon"))])
    await store.close()
    store = await Compared.open(Opening("triples", tmp_path / "store", {}, None))
    yield store
    await store.close()


@pytest.mark.feature("cortex and triples read no text at a start: their index says that it is as it was")
async def test_an_opening_reads_no_text_after_a_close(lisbon: Triples, tmp_path: Path) -> None:
    """After additions and deletions, too; the second opening compares no more than the first."""
    await lisbon.remember([make_extracted(make_event(2, "Ben visits Lisbon")), make_extracted(make_event(3, "Lisbon"))])
    assert await lisbon.forget(event_id(3), []) == "deleted"
    await lisbon.close()
    for _ in range(2):
        assert await reopened(tmp_path / "store") == (False, [event_id(1), event_id(2)])


@pytest.mark.feature(
    "… after a kill or any change without the index all texts are compared", of="cortex and triples read"
)
async def test_an_opening_compares_after_a_kill(lisbon: Triples, tmp_path: Path) -> None:
    """A change drops what says that the index is as it was, in the same transaction, also one of another program."""
    await lisbon.remember([make_extracted(make_event(2, "Ben visits Lisbon"))])
    shutil.copytree(tmp_path / "store", killed := tmp_path / "killed")
    assert await reopened(killed) == (True, [event_id(1), event_id(2)])
    await lisbon.close()
    with closing(sqlite3.connect(tmp_path / "store" / "graph.sqlite")) as db, db:
        db.execute("update memory set text = 'Ben visits Porto' where event_id = ?", (event_id(2),))
    assert await reopened(tmp_path / "store") == (True, [event_id(1)])
    assert await reopened(tmp_path / "store") == (False, [event_id(1)])


async def test_an_opening_compares_after_a_change_that_was_not_finished(tmp_path: Path) -> None:
    """SQLite has the memory, the index has not: closing does not say that they are in step."""
    store = await Compared.open(Opening("triples", tmp_path / "store", {}, None))
    index, store._index = store._index, Unwilling()  # type: ignore[assignment]
    with pytest.raises(StoreFull):
        await store.remember([make_extracted(make_event(1, "Ada moved to Lisbon"))])
    store._index = index
    await store.close()
    assert await reopened(tmp_path / "store") == (True, [event_id(1)])


async def test_an_opening_compares_with_another_index(lisbon: Triples, tmp_path: Path) -> None:
    """An index that was deleted, or is that of an earlier copy, is filled again."""
    shutil.copytree(tmp_path / "store" / "index", tmp_path / "earlier")
    await lisbon.remember([make_extracted(make_event(2, "Ben visits Lisbon"))])
    await lisbon.close()
    shutil.rmtree(tmp_path / "store" / "index")
    shutil.copytree(tmp_path / "earlier", tmp_path / "store" / "index")
    assert await reopened(tmp_path / "store") == (True, [event_id(1), event_id(2)])
    shutil.rmtree(tmp_path / "store" / "index")
    assert await reopened(tmp_path / "store") == (True, [event_id(1), event_id(2)])
