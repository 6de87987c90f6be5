"""Export, import and migrate memories: as lines of JSON, or directly into another store.

Each may be interrupted anywhere and repeated: memories that are already there are skipped. Forgotten memories are never
transferred.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from adapters.cortex.conflict import free_orphans, restored
from adapters.cortex.lifecycle import pages
from adapters.cortex.port import Change, Graph, Memory
from adapters.cortex.records import line_of, memory_of
from fusion.contract import Scope
from fusion.errors import BadInput, StoreDamaged

ForgottenAmong = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Returns those of these ids that were forgotten: `fusion.extension.ScopedGateway.forgotten`."""


async def none_forgotten(ids: Collection[str]) -> frozenset[str]:
    """For transfers without a journal: nothing was forgotten."""
    return frozenset()


@dataclass(frozen=True, slots=True)
class Imported:
    """Counts of an import. ``known`` existed before and are unchanged; ``forgotten`` were forgotten since the export.

    ``freed`` were merged into, in conflict with, or had lost to a memory that is neither imported nor stored, or was
    forgotten. They are current again; otherwise no search would find them.
    """

    imported: int
    known: int
    forgotten: int = 0
    freed: int = 0


@dataclass(frozen=True, slots=True)
class Migrated:
    """Counts of a migration. ``memories`` and ``checksum`` (SHA-256 over their lines, by id) are equal in both stores;
    ``copied`` were written by this run, ``others`` exist only in the target, ``forgotten`` were deleted there."""

    memories: int
    copied: int
    others: int
    checksum: str
    forgotten: int = 0


async def export_lines(
    graph: Graph,
    scope: Scope,
    line: Callable[[str], Awaitable[None]],
    progress: Callable[[int, int | None], None],
    forgotten: ForgottenAmong = none_forgotten,
) -> int:
    """Send each memory that ``scope`` admits as a line, in the order of their ids. Returns their number."""
    count = 0
    async for page in _kept(graph, forgotten, scope):
        for memory in page:
            await line(line_of(memory))
        count += len(page)
        progress(count, None)
    return count


async def imported(
    graph: Graph, scope: Scope, lines: Sequence[str], forgotten: ForgottenAmong = none_forgotten
) -> Imported:
    """Import the lines of an export, all or none. Raises ``BadInput``, which names the line."""
    memories: dict[str, Memory] = {}
    for number, text in enumerate(lines, start=1):
        try:
            memory = memory_of(text)
        except BadInput as error:
            raise BadInput(f"line {number}: {error}") from None
        if not scope.admits(memory.event.scope):
            raise BadInput(f"line {number}: that memory belongs to another user; import it as that user")
        memories[memory.id] = memory
    named = {id_ for m in memories.values() for id_ in (m.state.merged_into, m.state.contradicts) if id_}
    gone, lost = await forgotten(memories), await forgotten(named)
    there = await graph.get([*memories, *named])
    known = (memories.keys() & there.keys()) - gone
    lost |= {i for i in named - memories.keys() if i not in there or not scope.admits(there[i].event.scope)}
    fresh = {id_: memory for id_, memory in memories.items() if id_ not in known | gone}
    reinstated = restored([memories[id_] for id_ in gone], [*fresh.values(), *(there[id_] for id_ in known)])
    new = [_without(memory, lost, reinstated.get(memory.id, {})) for memory in fresh.values()]
    await graph.add(new)
    await free_orphans(graph, {m.id: m.state.merged_into for m in new if m.state.merged_into})
    freed = sum(memory != fresh[memory.id] for memory in new)
    return Imported(len(new), len(known), len(gone), freed)


def _without(memory: Memory, gone: Collection[str], won: Change) -> Memory:
    """A memory in the state that `Graph.delete` of ``gone`` would leave; ``won`` is its reinstatement, if any."""
    state = replace(memory.state, **won)
    if state.merged_into in gone:
        state = replace(state, merged_into=None)
    if state.contradicts in gone and state.conflict_status == "active":
        state = replace(state, conflict_status=None, contradicts=None)
    return replace(memory, state=state)


async def migrate_all(
    source: Graph,
    target: Graph,
    progress: Callable[[int, int | None], None],
    forgotten: ForgottenAmong = none_forgotten,
) -> Migrated:
    """Copy every memory of ``source`` to ``target`` and verify it by counts and checksums.

    First deletes from the target what was ``forgotten`` since an earlier run; deletes nothing else. Raises ``BadInput``
    if the target has another memory with the same id, ``StoreDamaged`` if memories read back differ.
    """
    cleared = 0
    async for page in pages(target):
        if gone := await forgotten([memory.id for memory in page]):
            cleared += len(await target.delete(list(gone)))
    total = (await source.stats()).items
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
        raise StoreDamaged("the target returns other memories than were written: run migrate again, and read its log")
    others = (await target.stats()).items - done
    return Migrated(done, copied, others, here.hexdigest(), cleared)


async def _kept(graph: Graph, forgotten: ForgottenAmong, scope: Scope | None = None) -> AsyncIterator[Sequence[Memory]]:
    """The pages of a store without memories that were forgotten but are not deleted there yet."""
    async for page in pages(graph, scope):
        gone = await forgotten([memory.id for memory in page])
        yield [memory for memory in page if memory.id not in gone]


def _difference(memory: Memory, other: Memory) -> Change:
    """The change that gives ``other`` the state of ``memory``. Raises ``BadInput`` if their events differ."""
    if memory.event != other.event:
        raise BadInput(f"the target has another memory {memory.id}: migrate into an empty store")
    mine, its = asdict(memory.state), asdict(other.state)
    different: Change = {}
    different.update({name: value for name, value in mine.items() if value != its[name]})  # type: ignore[typeddict-item]
    return different
