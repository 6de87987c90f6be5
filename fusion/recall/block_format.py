"""The formats of a block: how it begins and ends, and how it shows headings, memories and disputes.

``fence`` shows excerpts of documents between two tags. The others show one memory a line, as systems do that
memory-fusion takes the place of: ``long-term`` (Memory Cortex), ``context-pack`` (openclaw-mem) and ``cortex``
(OpenClaw Cortex). No text of a memory can imitate what a format prints, and capture recognises each format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.contract import BACKEND_PREFIX, FILE_PREFIX, BlockFormat, Hit
from fusion.lib.budget import clip
from fusion.lib.escape import escape
from fusion.lib.listing import (
    CONTEXT_PACK,
    CORTEX,
    LONG_TERM,
    SEPARATOR,
    conflicts_with,
    context_item,
    end,
    one_line,
    without_frames,
)
from fusion.lib.words import spoken
from fusion.recall.dispute import Dispute
from fusion.recall.fence import cited, closing, opening

GAP = "[…]"


class Item(NamedTuple):
    """A memory in the block."""

    ref: str
    text: str


class Fence:
    """Excerpts with headings between two tags with a nonce."""

    gap = f"{GAP}\n"
    """the line between two memories of an excerpt that are not adjacent"""

    def opening(self, nonce: str) -> str:
        return opening(nonce)

    def closing(self, nonce: str) -> str:
        return closing(nonce)

    def heading(self, hit: Hit) -> str:
        """The heading of an excerpt, which begins with this memory; "" for none."""
        document = _document(hit) if hit.place else ""
        parts = [hit.at.utc.date().isoformat() if hit.at else "", document]
        return " ".join(["#", *(p for p in parts if p)]) + "\n" if any(parts) else ""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        """A memory, of whose text at most ``limit`` characters are shown."""
        said = _said(hit) if hit.place is None else spoken(hit.text, hit.speaker)  # a heading names its backend
        return f"{cited(ref, clip(said, limit))}\n"

    def dispute(self, dispute: Dispute) -> str:
        """What a dispute adds to the block."""
        return dispute.line

    def body(self, excerpts: Sequence[tuple[str, Sequence[Item]]], disputes: Sequence[Dispute]) -> str:
        """The block between opening and closing. Excerpts are rendered, with their items."""
        return "".join([*(self.dispute(one) for one in disputes), *(text for text, _ in excerpts)])


class Listing(Fence):
    """One memory a line, with its ref and day, below a header."""

    gap = ""

    def __init__(self, header: str) -> None:
        self.header = header

    def opening(self, nonce: str) -> str:
        return self.header

    def closing(self, nonce: str) -> str:
        return end(nonce)

    def heading(self, hit: Hit) -> str:
        return ""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        day = f"({hit.at.utc.date().isoformat()}) " if hit.at else ""
        return f"- {without_frames(cited(ref, day + one_line(clip(_said(hit), limit))))}\n"

    def dispute(self, dispute: Dispute) -> str:
        return f"- {without_frames(dispute.line)}"


class CortexContext(Listing):
    """One memory a line, with its kind; a dispute is an annotation of both memories."""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        return f"{SEPARATOR}\n{context_item(hit.kind, clip(_said(hit), limit))}\n"

    def dispute(self, dispute: Dispute) -> str:
        return "".join(conflicts_with([ref]) for ref in dispute.refs)

    def body(self, excerpts: Sequence[tuple[str, Sequence[Item]]], disputes: Sequence[Dispute]) -> str:
        rivals: dict[str, list[str]] = {}
        for one, other in (dispute.refs for dispute in disputes):
            rivals.setdefault(one, []).append(other)
            rivals.setdefault(other, []).append(one)
        items = (item for _, items in excerpts for item in items)
        lines = (f"{item.text.removesuffix(chr(10))}{conflicts_with(rivals.get(item.ref, ()))}\n" for item in items)
        return "".join(lines).removeprefix(f"{SEPARATOR}\n")


FORMATS: Mapping[BlockFormat, Fence] = {
    "fence": Fence(),
    "long-term": Listing(f"{LONG_TERM}\n\n"),
    "context-pack": Listing(f"{CONTEXT_PACK}\n"),
    "cortex": CortexContext(f"{CORTEX}\n"),
}


def claimed_by(hit: Hit) -> str:
    """The name of the only backend that vouches for a hit."""
    return " ".join(escape((hit.stated_by or "").removeprefix(BACKEND_PREFIX)).split())


def _said(hit: Hit) -> str:
    """The text with its speaker, and the backend if only that vouches for the speaker or place."""
    said = spoken(hit.text, hit.speaker)
    return f"(by {claimed_by(hit)}) {said}" if hit.external and (hit.speaker or hit.place) else said


def _document(hit: Hit) -> str:
    """The document's name; for a file that was not read by the gateway, with the sender of the claim."""
    assert hit.place is not None  # noqa: S101 — the caller checks it
    name = " ".join(escape(hit.place.document).split())
    if hit.external:
        return f"{name} (by {claimed_by(hit)})"
    return f"{name} (remembered)" if hit.place.unit == "line" and not _was_read(hit) else name


def _was_read(hit: Hit) -> bool:
    return (hit.stated_by or "").startswith(FILE_PREFIX)
