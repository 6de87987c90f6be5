"""Memories as text for a prompt, within a budget of tokens: seed 000's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapters.cortex.port import Memory
from fusion.lib.budget import estimate_tokens
from fusion.lib.listing import CORTEX as HEADER
from fusion.lib.listing import SEPARATOR, context_item

BUDGET = 2000
"""tokens of a context: the seed's default"""
BETWEEN = f"\n{SEPARATOR}\n"
SEPARATOR_TOKENS = estimate_tokens(BETWEEN)


@dataclass(frozen=True, slots=True)
class Context:
    """The text, the memories in it and their estimated tokens."""

    text: str = ""
    memories: tuple[Memory, ...] = ()
    tokens: int = 0


def packed(memories: Sequence[Memory], budget: int = BUDGET) -> Context:
    """The memories that fit into ``budget`` tokens, in their order; skips too long ones and exact repetitions."""
    rivals = conflicts(memories)
    lines: list[str] = []
    fit: dict[str, Memory] = {}
    spent = estimate_tokens(HEADER)
    for memory in memories:
        if (says := line_of(memory)) in fit:
            continue
        line = line_of(memory, rivals.get(memory.id, ()))
        cost = estimate_tokens(line) + SEPARATOR_TOKENS * bool(lines)
        if spent + cost > budget:
            continue
        lines.append(line)
        fit[says] = memory
        spent += cost
    if not lines:
        return Context()
    return Context(f"{HEADER}\n{BETWEEN.join(lines)}", tuple(fit.values()), spent)


def line_of(memory: Memory, rivals: Sequence[str] = ()) -> str:
    who = f"{memory.event.speaker}: " if memory.event.speaker else ""
    return context_item(memory.kind, f"{who}{memory.event.text}", [short(rival) for rival in rivals])


def conflicts(memories: Sequence[Memory]) -> Mapping[str, Sequence[str]]:
    """For each memory in an open conflict, its opponents' ids: the one it names, and the others of its group here."""
    open_ = [memory for memory in memories if memory.state.conflict_status == "active" and memory.state.conflict_group]
    found: dict[str, Sequence[str]] = {}
    for memory in open_:
        named = [memory.state.contradicts] if memory.state.contradicts else []
        group = [
            one.id for one in open_ if one.state.conflict_group == memory.state.conflict_group and one is not memory
        ]
        found[memory.id] = list(dict.fromkeys((*named, *group)))
    return found


def short(id: str) -> str:
    """The last eight characters of an id; its first ones are the time, which neighbours share."""
    return id[-8:]
