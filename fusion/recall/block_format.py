"""The formats of a block: how it begins and ends, and how it shows headings, memories and disputes.

``fence`` shows excerpts of documents between two tags. The others show one memory a line, as systems do that
memory-fusion takes the place of: ``long-term`` (Memory Cortex), ``context-pack`` (openclaw-mem; one excerpt a line) and
``cortex`` (OpenClaw Cortex). No text of a memory can imitate what a format prints, and capture recognises each format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fusion.contract import BACKEND_PREFIX, FILE_PREFIX, BlockFormat, Hit
from fusion.lib.budget import clip
from fusion.lib.escape import escape
from fusion.lib.fence import cited, closing, opening, quoted
from fusion.lib.junk import stated
from fusion.lib.listing import (
    CONFLICTS,
    CONTEXT_PACK,
    CORTEX,
    LONG_TERM,
    SEPARATOR,
    SUPERSEDED,
    SUPERSEDES,
    annotation,
    context_item,
    end,
    one_line,
    record_ref,
    without_annotations,
    without_frames,
)
from fusion.lib.paraphrase import STRUCTURAL, Kind
from fusion.lib.private_paths import without_private_paths
from fusion.lib.words import spoken
from fusion.recall.dispute import Dispute

GAP = "[…]"
UNTRUSTED = "(untrusted)"
"""before a memory that is not trusted, in a context pack"""
MEMORY_MARK = "·"
"""between two memories on one line"""
_MARK = re.compile(r"(?<!\w)[\u00b7\u0387]|[\u00b7\u0387](?!\w)")
"""the mark in a text, also as a character that a reader normalises to it; within a word it stays"""
_ESCAPED_MARK = f"&#{ord(MEMORY_MARK)};"


class Fence:
    """Excerpts with headings between two tags with a nonce."""

    between = ""
    """the text between two adjacent memories of an excerpt"""
    gap = f"{GAP}\n"
    """the text between two memories of an excerpt that are not adjacent"""
    ends_excerpt = ""
    """the text after the last memory of an excerpt"""
    rivals_apart = False
    """whether a memory that others contradict is an excerpt by itself, since a citation stands for a whole excerpt"""

    def opening(self, nonce: str) -> str:
        return opening(nonce)

    def closing(self, nonce: str) -> str:
        return closing(nonce)

    def shown(self, hit: Hit) -> Hit | None:
        """The part of a memory that this format shows; None if it does not show it."""
        return hit

    def heading(self, ref: str, hit: Hit) -> str:
        """The heading of an excerpt, which begins with this memory; "" for none."""
        document = _document(hit) if hit.place else ""
        parts = [hit.at.utc.date().isoformat() if hit.at else "", document]
        return " ".join(["#", *(p for p in parts if p)]) + "\n" if any(parts) else ""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        """A memory, of whose text at most ``limit`` characters are shown."""
        said = _said(hit) if hit.place is None else spoken(hit.text, hit.speaker)  # a heading names its backend
        return f"{without_annotations(cited(ref, clip(said, limit)))}\n"

    def dispute(self, dispute: Dispute) -> str:
        """The line on a dispute above the memories; "" if the format has none."""
        return dispute.line

    def annotates(self, dispute: Dispute) -> bool:
        """Whether the two memories of a dispute are annotated: those that the journal has in an open conflict are."""
        return dispute.kind is Kind.CONFLICT

    def added_by(self, dispute: Dispute) -> str:
        """All that a dispute adds to the block, for its size."""
        return "".join([self.dispute(dispute), *self.annotations([dispute]).values()])

    def annotated(self, item: str, annotations: str) -> str:
        """An item with its annotations at its end."""
        return f"{item.removesuffix(chr(10))}{annotations}\n"

    def annotations(self, disputes: Sequence[Dispute]) -> Mapping[str, str]:
        """By ref, the annotations of its item: which memories contradict it, and which it outdates."""
        found: dict[str, dict[str, list[str]]] = {}
        for dispute in filter(self.annotates, disputes):
            one, other = dispute.refs
            for ref, named in ((one, other), (other, one)):
                found.setdefault(ref, {}).setdefault(self.mark(dispute, ref), []).append(self.named(named))
        return {ref: "".join(annotation(mark, refs) for mark, refs in marks.items()) for ref, marks in found.items()}

    def mark(self, dispute: Dispute, ref: str) -> str:
        """What the annotation of this memory says of the other one of a dispute."""
        return CONFLICTS

    def named(self, ref: str) -> str:
        """A ref as an annotation names it."""
        return ref

    def body(self, excerpts: Sequence[str], disputes: Sequence[Dispute]) -> str:
        """The block between opening and closing. Excerpts are rendered."""
        return "".join([*(self.dispute(one) for one in disputes), *excerpts])


class Listing(Fence):
    """One memory a line, with its ref and day, below a header."""

    gap = ""

    def __init__(self, header: str) -> None:
        self.header = header

    def opening(self, nonce: str) -> str:
        return self.header

    def closing(self, nonce: str) -> str:
        return end(nonce)

    def heading(self, ref: str, hit: Hit) -> str:
        return ""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        day = f"({hit.at.utc.date().isoformat()}) " if hit.at else ""
        text = without_annotations(cited(ref, day + one_line(clip(_said(hit), limit))))
        return f"- {without_frames(text)}\n"

    def dispute(self, dispute: Dispute) -> str:
        return f"- {without_frames(dispute.line)}"


class Facts(Listing):
    """One memory a line, and of turns of conversations what they state, without questions and small talk."""

    def shown(self, hit: Hit) -> Hit | None:
        if hit.kind != "turn":
            return hit
        said = stated(hit.text, hit.speaker)
        return hit.cut(said) if said else None


class ContextBundle(Listing):
    """One excerpt a line, cited by the ref of its best memory, with a mark between two memories.

    A memory that others contradict has a line by itself, and says which do.
    """

    between = f" {MEMORY_MARK} "
    gap = f" {GAP} "
    ends_excerpt = "\n"
    rivals_apart = True

    def heading(self, ref: str, hit: Hit) -> str:
        day = f"({hit.at.utc.date().isoformat()}) " if hit.at else ""
        return f"- [{record_ref(ref)}] {day}"

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        said = one_line(without_annotations(quoted(clip(_said(hit), limit))))
        if hit.trust == "untrusted":
            said = f"{UNTRUSTED} {said}"
        return without_frames(without_private_paths(_MARK.sub(_ESCAPED_MARK, said)))

    def dispute(self, dispute: Dispute) -> str:
        return ""

    def annotates(self, dispute: Dispute) -> bool:
        return True

    def annotated(self, item: str, annotations: str) -> str:
        return f"{item}{annotations}"

    def mark(self, dispute: Dispute, ref: str) -> str:
        if dispute.kind is not Kind.SUPERSEDED and (dispute.kind not in STRUCTURAL or dispute.newer is None):
            return CONFLICTS
        return SUPERSEDES if ref == dispute.newer else SUPERSEDED

    def named(self, ref: str) -> str:
        return record_ref(ref)


class CortexContext(Listing):
    """One memory a line, with its kind; every dispute is an annotation of both memories."""

    def item(self, ref: str, hit: Hit, limit: int) -> str:
        return f"{SEPARATOR}\n{context_item(hit.kind, clip(_said(hit), limit))}\n"

    def dispute(self, dispute: Dispute) -> str:
        return ""

    def annotates(self, dispute: Dispute) -> bool:
        return True

    def body(self, excerpts: Sequence[str], disputes: Sequence[Dispute]) -> str:
        return super().body(excerpts, disputes).removeprefix(f"{SEPARATOR}\n")


FORMATS: Mapping[BlockFormat, Fence] = {
    "fence": Fence(),
    "long-term": Facts(f"{LONG_TERM}\n\n"),
    "context-pack": ContextBundle(f"{CONTEXT_PACK}\n"),
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
