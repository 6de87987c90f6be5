"""Memories out of a store and into one: as lines of JSON, or straight into another store.

Either may be broken off anywhere and done again: what is there already is left alone, so a second run goes on. What
was forgotten meanwhile goes neither way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from adapters.cortex.conflict import restored
from adapters.cortex.consolidate import free_orphans
from adapters.cortex.lifecycle import pages
from adapters.cortex.port import Change, Graph, Memory
from adapters.cortex.records import line_of, memory_of
from fusion.contract import Scope
from fusion.errors import BadInput, StoreDamaged

Which = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Those of these ids that were forgotten: `fusion.extension.Gateway.forgotten`."""


async def none_of(ids: Collection[str]) -> frozenset[str]:
    """Where there is no journal that anything could be forgotten in: between two stores by themselves."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class Imported:
    """``known`` were there before, and stay as they were; ``forgotten`` were so since the export, and stay it.

    ``freed`` of those imported were merged into, or disputed by, a memory of which there is no line and which the store
    does not have, or which was forgotten; or had lost to one that was. They stand for themselves now: else nobody would
    find them.
    """

    imported: int
    known: int
    forgotten: int = 0
    freed: int = 0


@dataclass(frozen=True, slots=True)
class Migrated:
    """``memories`` and ``checksum`` (SHA-256 over their lines, by id) are the same in both stores; ``copied`` of them
    were written by this run. ``others`` are in the target alone; ``forgotten`` were, and are deleted there now."""

    memories: int
    copied: int
    others: int
    checksum: str
    forgotten: int = 0


async def exported(
    graph: Graph,
    scope: Scope,
    line: Callable[[str], Awaitable[None]],
    progress: Callable[[int, int | None], None],
    forgotten: Which = none_of,
) -> int:
    """Sends each memory that ``scope`` admits as a line, in the order of their ids; how many they were."""
    count = 0
    async for page in _kept(graph, forgotten, scope):
        for memory in page:
            await line(line_of(memory))
        count += len(page)
        progress(count, None)
    return count


async def imported(graph: Graph, scope: Scope, lines: Sequence[str], forgotten: Which = none_of) -> Imported:
    """Takes lines of an export in, all of them or none. Raises ``BadInput``, which names the line."""
    memories: dict[str, Memory] = {}
    for number, text in enumerate(lines, start=1):
        try:
            memory = memory_of(text)
        except BadInput as error:
            raise BadInput(f"line {number}: {error}") from None
        if not scope.admits(memory.event.scope):
            raise BadInput(f"line {number}: that memory is somebody else's; import it as whose it is")
        memories[memory.id] = memory
    named = {id_ for m in memories.values() for id_ in (m.state.merged_into, m.state.contradicts) if id_}
    gone, lost = await forgotten(memories), await forgotten(named)
    there = await graph.get([*memories, *named])
    known = (memories.keys() & there.keys()) - gone
    lost |= {i for i in named - memories.keys() if i not in there or not scope.admits(there[i].event.scope)}
    told = {id_: memory for id_, memory in memories.items() if id_ not in known | gone}
    again = restored([memories[id_] for id_ in gone], [*told.values(), *(there[id_] for id_ in known)])
    new = [_without(memory, lost, again.get(memory.id, {})) for memory in told.values()]
    await graph.add(new)
    await free_orphans(graph, {m.id: m.state.merged_into for m in new if m.state.merged_into})
    freed = sum(memory != told[memory.id] for memory in new)
    return Imported(len(new), len(known), len(gone), freed)


def _without(memory: Memory, gone: Collection[str], won: Change) -> Memory:
    """A memory as it stands once these are deleted, as `Graph.delete` leaves it: what they said too, it says now, and
    what it ``won`` by it."""
    state = replace(memory.state, **won)
    if state.merged_into in gone:
        state = replace(state, merged_into=None)
    if state.contradicts in gone and state.conflict_status == "active":
        state = replace(state, conflict_status=None, contradicts=None)
    return replace(memory, state=state)


async def migrated(
    source: Graph, target: Graph, progress: Callable[[int, int | None], None], forgotten: Which = none_of
) -> Migrated:
    """Makes ``target`` have what ``source`` has, and verifies it by counts and checksums; what was ``forgotten`` since
    an earlier run is deleted there first.

    Raises ``BadInput`` where the target has another memory under one's id, ``StoreDamaged`` where what was written
    does not come back as it was. Nothing else is removed from either.
    """
    cleared = 0
    async for page in pages(target):
        if gone := await forgotten([memory.id for memory in page]):
            cleared += len(await target.delete(list(gone)))
    total = (await source.holding()).items
    copied = done = 0
    here, there = sha256(), sha256()
    async for page in _kept(source, forgotten):
        known = await target.get([memory.id for memory in page])
        new = [memory for memory in page if memory.id not in known]
        await target.add(new)
        changes = {memory.id: _difference(memory, known[memory.id]) for memory in page if memory.id in known}
        changes = {id_: change for id_, change in changes.items() if change}
        if changes:
            await target.alter(changes)
        kept = await target.get([memory.id for memory in page])
        for memory in page:
            here.update(line_of(memory).encode() + b"\n")
            there.update(line_of(kept[memory.id]).encode() + b"\n" if memory.id in kept else b"")
        copied += len(new) + len(changes)
        done += len(page)
        progress(done, max(total, done))
    if here.digest() != there.digest():
        raise StoreDamaged("the target does not give back what was written: run migrate again, and look at its log")
    others = (await target.holding()).items - done
    return Migrated(done, copied, others, here.hexdigest(), cleared)


async def _kept(graph: Graph, forgotten: Which, scope: Scope | None = None) -> AsyncIterator[Sequence[Memory]]:
    """The pages of a store without what was forgotten, and not deleted there yet."""
    async for page in pages(graph, scope):
        gone = await forgotten([memory.id for memory in page])
        yield [memory for memory in page if memory.id not in gone]


def _difference(memory: Memory, other: Memory) -> Change:
    """What must change for ``other`` to be ``memory``."""
    if memory.event != other.event:
        raise BadInput(f"the target has another memory {memory.id}: migrate into a store of its own")
    mine, its = asdict(memory.state), asdict(other.state)
    different: Change = {}
    different.update({name: value for name, value in mine.items() if value != its[name]})  # type: ignore[typeddict-item]
    return different
