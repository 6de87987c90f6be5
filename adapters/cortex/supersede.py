"""Keep a conflict open when one side gets a new version: the new version takes the old one's place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from adapters.cortex.port import Change, Graph, Memory


async def carry_conflicts_over(graph: Graph, memories: Sequence[Memory]) -> tuple[list[Memory], Mapping[str, Change]]:
    """The memories with the conflicts that they inherit, and the changes to their predecessors and opponents.

    Apply the changes after the memories are stored. Idempotent.
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
        # The old version keeps its group: members of one group do not supersede each other, so the rival stays visible.
        changes[old.id] = {"conflict_status": "resolved"}
        if other is not None and other in rivals and rivals[other].state.contradicts == old.id:
            changes[other] = {"contradicts": memory.id}
    return found, changes
