"""The text of the stable prefix: OBSERVATIONS, which rarely changes, and below it the RAW BUFFER, which grows.

What changes last comes last, so that two prompts in a row begin with the same text. An observation is one line with the
ref of its turn, its time, its label and score of importance, and what was said. A turn of the raw buffer is one line
with its ref, its time and its whole text, up to a limit. No text can imitate a line of the frame: every entry is on one
line, and citations, annotations, headers and the end mark in it are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from struct import Struct

from fusion.lib.budget import EMPTY, Size, clip
from fusion.lib.fence import quoted
from fusion.lib.importance import label_of
from fusion.lib.listing import (
    OBSERVATIONS,
    RAW_BUFFER,
    STABLE_PREFIX,
    end,
    one_line,
    record_ref,
    without_annotations,
    without_frames,
)
from fusion.lib.private_paths import without_private_paths
from fusion.lib.redact import redact

DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class Served:
    """One line of a text that was sent: a digest of it, and its size. It has no words of the line."""

    digest: bytes
    tokens: int


@dataclass(frozen=True)
class PrefixText:
    """The text of a window: its observations and turns, a line each, and the ``nonce`` of its last line.

    It is "" without observations and turns.
    """

    observations: tuple[str, ...] = ()
    raw_buffer: tuple[str, ...] = ()
    nonce: str = ""

    @cached_property
    def stable(self) -> str:
        """The part that only the observer and the reflector change: up to the last observation."""
        return f"{STABLE_PREFIX}\n{OBSERVATIONS}\n{''.join(self.observations)}" if self.observations else ""

    @cached_property
    def text(self) -> str:
        """What goes into the prompt."""
        if not (self.observations or self.raw_buffer):
            return ""
        head = self.stable or f"{STABLE_PREFIX}\n"
        raw = f"{RAW_BUFFER}\n{''.join(self.raw_buffer)}" if self.raw_buffer else ""
        return f"{head}{raw}{end(self.nonce)}"

    @property
    def hash(self) -> str:
        """A hash of the stable part."""
        return blake2b(self.stable.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()

    @cached_property
    def served(self) -> tuple[Served, ...]:
        """The lines of the text as `hit_rate` compares them."""
        found, before = [], EMPTY
        for line in self.text.splitlines(keepends=True):
            size = before.plus(Size.of(line))
            digest = blake2b(line.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
            found.append(Served(digest, size.tokens - before.tokens))
            before = size
        return tuple(found)


def hit_rate(before: Sequence[Served], now: Sequence[Served]) -> float:
    """The share of a text's tokens that a provider's prompt cache has from the text of the turn before: 0 to 1.

    It is the tokens of the leading lines that both texts have, divided by the tokens of the text; 0 for the first text.
    `prefix_hit_rate` is its mean over the turns of a window. Assumed is a cache that finds the longest prefix which it
    has seen, as those of OpenAI, Anthropic, DeepSeek and vLLM do in blocks of 16 to 128 tokens; that the text comes at
    the same place behind equal instructions; and that the entry has not expired, which takes them 5 to 60 minutes
    without a question. A line that begins alike counts as different, so the figure is slightly low. Tokens are those of
    `fusion.lib.budget`.
    """
    tokens = sum(line.tokens for line in now)
    same = 0
    for one, other in zip(before, now, strict=False):
        if one.digest != other.digest:
            break
        same += other.tokens
    return same / tokens if tokens else 0.0


def observation_line(ref: str, at: datetime, importance: float | None, text: str) -> str:
    """The line of an observation: ``- [obs:m1z] 2026-11-28T09:14Z must_remember 0.86 Anna: …``."""
    score = "-" if importance is None else f"{importance:.2f}"
    return f"- [{record_ref(ref)}] {_minute(at)} {label_of(importance)} {score} {_safe(text)}\n"


def raw_line(ref: str, at: datetime, text: str, max_chars: int) -> str:
    """The line of a turn: ``- [obs:m1z] 2026-11-28T09:14Z Anna: …``, at most ``max_chars`` of its text."""
    return f"- [{record_ref(ref)}] {_minute(at)} {_safe(clip(redact(text)[0], max_chars))}\n"


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def _safe(text: str) -> str:
    """A text on one line that imitates no citation, annotation, frame or tag, without paths to a user's files."""
    return without_frames(without_private_paths(without_annotations(one_line(quoted(one_line(text))))))


_SERVED = Struct(f">{DIGEST_BYTES}sI")


def packed(served: Sequence[Served]) -> bytes:
    """The lines of a text as bytes, without any of its words."""
    return b"".join(_SERVED.pack(line.digest, line.tokens) for line in served)


def unpacked(stored: bytes) -> tuple[Served, ...]:
    """What `packed` made; nothing of bytes that it did not make."""
    if len(stored) % _SERVED.size:
        return ()
    return tuple(Served(digest, tokens) for digest, tokens in _SERVED.iter_unpack(stored))
