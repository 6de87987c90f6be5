"""The protected tail of a context pack: the last turns of the conversation, in the caller's own words.

The tail is text from outside: it is redacted, escaped, one line an entry, and bounded in entries and tokens. Of a tail
that is too long the last entries stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusion.errors import BadInput
from fusion.lib.budget import clip, estimate_tokens
from fusion.lib.fence import quoted
from fusion.lib.listing import one_line, without_annotations, without_frames
from fusion.lib.private_paths import without_private_paths
from fusion.lib.redact import redact

MAX_ITEMS = 4
BUDGET_TOKENS = 240
ENTRY_CHARS = 280
"""characters of one entry"""
MAX_TEXT_CHARS = 64_000
"""characters of a tail that are read: the last of them"""


@dataclass(frozen=True, slots=True)
class TailEntry:
    """One turn of the tail: its ref in the pack (``tail:1`` is the oldest), and its line there."""

    ref: str
    line: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The entries of a tail in reading order, and how many more there were."""

    entries: tuple[TailEntry, ...] = ()
    left_out: int = 0


NO_TAIL = Tail()


def turns_of(text: str) -> list[str]:
    """The turns in a tail: one for each line, which is plain text or a JSON object with role and content or text."""
    lines = (line.strip() for line in text[-MAX_TEXT_CHARS:].splitlines())
    return [turn for line in lines if line and (turn := _turn(line))]


def _turn(line: str) -> str:
    if not (line.startswith("{") and line.endswith("}")):
        return line
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return line
    content = said.get("content", said.get("text"))
    if not isinstance(content, str):
        return ""
    role = said.get("role") or said.get("speaker")
    return f"{role}: {content}" if isinstance(role, str) and role else content


def protected(turns: Sequence[str], room: int, *, max_items: int = MAX_ITEMS, budget_tokens: int | None = None) -> Tail:
    """The last turns that fit in a pack with ``room`` for so many tokens of lines.

    ``budget_tokens`` None is `BUDGET_TOKENS`, and in a small pack half of its room. Raises BadInput for a tail that
    would leave no room for a memory.
    """
    if budget_tokens is None:
        budget_tokens = min(BUDGET_TOKENS, room // 2)
    elif turns and budget_tokens >= room:
        raise BadInput(
            f"tail_budget_tokens: {budget_tokens} leaves no room for a memory: the lines of this pack have {room} "
            "tokens; lower it, or raise budget_tokens"
        )
    kept: list[str] = []
    used = 0
    for turn in reversed(turns):
        said = safe_line(turn)
        if not said:
            continue
        tokens = estimate_tokens(f"- [tail:{max_items}] {said}")
        if len(kept) >= max_items or used + tokens > budget_tokens:
            break
        kept.append(said)
        used += tokens
    entries = _numbered(reversed(kept))
    return Tail(tuple(entries), len(turns) - len(kept))


def _numbered(said: Iterable[str]) -> Iterable[TailEntry]:
    for number, text in enumerate(said, start=1):
        yield TailEntry(f"tail:{number}", f"- [tail:{number}] {text}\n")


def safe_line(turn: str) -> str:
    """A text as one line without secrets, which imitates no citation, annotation, frame or tag."""
    said = one_line(clip(redact(turn)[0], ENTRY_CHARS))
    return without_frames(without_private_paths(without_annotations(one_line(quoted(said)))))
