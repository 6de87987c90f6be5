"""A new version of one side of an open conflict takes its place in it: an update settles nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.cortex.port import Change, Graph, Memory


async def succeeding(graph: Graph, memories: Sequence[Memory]) -> tuple[list[Memory], Mapping[str, Change]]:
    """The memories as they are to be kept, and what is to change of those that they succeed, and of whom these
    contradict. To be done after they are kept; told twice, it is the same.
    """
    before = await graph.get([memory.event.supersedes for memory in memories if memory.event.supersedes])
    sides = {id_: old for id_, old in before.items() if old.state.conflict_status == "active"}
    rivals = await graph.get([old.state.contradicts for old in sides.values() if old.state.contradicts])
    found: list[Memory] = []
    changes: dict[str, Change] = {}
    for memory in memories:
        old = sides.get(memory.event.supersedes or "")
        if old is None:
            found.append(memory)
            continue
        disputed, other = old.state, old.state.contradicts
        state = replace(
            memory.state, conflict_group=disputed.conflict_group, conflict_status="active", contradicts=other
        )
        found.append(replace(memory, state=state))
        # It keeps its group: a member supersedes no other, so the rival stays in sight.
        changes[old.id] = {"conflict_status": "resolved"}
        if other is not None and other in rivals and rivals[other].state.contradicts == old.id:
            changes[other] = {"contradicts": memory.id}
    return found, changes
