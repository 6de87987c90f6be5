"""Memories as text for a prompt, within a budget of tokens: seed 000's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from adapters.cortex.port import Memory
from adapters.cortex.shapes import type_of

BUDGET = 2000
"""tokens of a context: the seed's default"""
HEADER = "--- Relevant Memories ---"
SEPARATOR = "\n---\n"
SEPARATOR_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Context:
    """What fits: its text, which memories are in it, and the estimate of its tokens."""

    text: str = ""
    memories: tuple[Memory, ...] = ()
    tokens: int = 0


def tokens(text: str) -> int:
    """About how many tokens a text has, rather too many: max(1.25 a word, 1 for 3.5 characters) · 1.1, rounded up."""
    return ceil(max(len(text.split()) * 1.25, len(text) / 3.5) * 1.1 - 1e-9)


def packed(memories: Sequence[Memory], budget: int = BUDGET) -> Context:
    """The memories that fit, in their order, best first, past one that is too long; none says what one above it says
    word for word."""
    rivals = conflicts(memories)
    lines: list[str] = []
    fit: dict[str, Memory] = {}
    spent = tokens(HEADER)
    for memory in memories:
        if (says := line_of(memory)) in fit:
            continue
        line = line_of(memory, rivals.get(memory.id, ()))
        cost = tokens(line) + SEPARATOR_TOKENS * bool(lines)
        if spent + cost > budget:
            continue
        lines.append(line)
        fit[says] = memory
        spent += cost
    if not lines:
        return Context()
    return Context(f"{HEADER}\n{SEPARATOR.join(lines)}", tuple(fit.values()), spent)


def line_of(memory: Memory, rivals: Sequence[str] = ()) -> str:
    who = f"{memory.event.speaker}: " if memory.event.speaker else ""
    against = f" [conflicts with: {', '.join(map(short, rivals))}]" if rivals else ""
    return f"[{type_of(memory)}] {who}{memory.event.text}{against}"


def conflicts(memories: Sequence[Memory]) -> Mapping[str, Sequence[str]]:
    """By memory in an open conflict, the ids of those that it contradicts: the one it names, and who else is shown."""
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
    """Eight characters of an id, from its end: an event's begins with the time, which neighbours share."""
    return id[-8:]
