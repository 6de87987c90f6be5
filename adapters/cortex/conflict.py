"""What becomes of memories that depended on one that is gone; for all stores of the cortex."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from adapters.cortex.port import Change, Graph, Memory
from fusion.lib.conflict import best


def restored(gone: Sequence[Memory], left: Sequence[Memory]) -> Mapping[str, Change]:
    """The changes to ``left``, the other members of the conflicts of the deleted ``gone``: where only losers are left,
    the best of them is reinstated. A group belongs to one user, even if another's memories have the same group id."""
    deleted = {memory.id for memory in gone}
    groups: defaultdict[tuple[str, str | None, str | None], list[Memory]] = defaultdict(list)
    for memory in left:
        if memory.id not in deleted:
            groups[_group(memory)].append(memory)
    changes: dict[str, Change] = {}
    for group in {_group(memory) for memory in gone if memory.state.conflict_group is not None}:
        members = groups.get(group, [])
        if members and all(member.state.conflict_status == "resolved" for member in members):
            changes[best(members).id] = {"conflict_status": None, "ended_at": None, "contradicts": None}
    return changes


def _group(memory: Memory) -> tuple[str, str | None, str | None]:
    scope = memory.event.scope
    return scope.tenant, scope.user_id, memory.state.conflict_group


async def free_orphans(graph: Graph, into: Mapping[str, str]) -> None:
    """Unmerge memories whose target has been deleted. ``into`` maps the merged id to its target's.

    Call it after the merge is written: deletions from then on unmerge by themselves.
    """
    there = await graph.get(list(set(into.values()))) if into else {}
    orphans: dict[str, Change] = {id_: {"merged_into": None} for id_, one in into.items() if one not in there}
    if orphans:
        await graph.alter(orphans)
