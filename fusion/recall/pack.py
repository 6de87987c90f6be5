"""Packs the best memories into a block that fits the prompt, as cited excerpts of their documents.

Memories are taken in order. A memory of a document that is in the block joins its excerpt, in reading order, with gaps
marked; another one begins an excerpt while there are fewer than `max_results`. A memory that does not fit is passed
over, and the receipt says so. The order does not depend on the budget: a larger block adds to the choice.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fusion.contract import BACKEND_PREFIX, FILE_PREFIX, Hit, Place, document_of
from fusion.lib.budget import clip
from fusion.lib.words import spoken
from fusion.recall.decision import Decision
from fusion.recall.dispute import Dispute, dispute, rivals_of
from fusion.recall.fence import cited, closing, escape, opening
from fusion.recall.mask import shown
from fusion.recall.reading_order import current_first
from fusion.recall.rerank import Scored
from fusion.recipe import PackSettings, RerankSettings

GAP = "[…]"
MEMBER_CHARS = 4000
"""maximum characters of one memory in a block, so that a flood cannot fill it"""


@dataclass(slots=True)
class Member:
    """A memory in an excerpt; its ref can be cited, forgotten and voted on."""

    ref: str
    text: str
    speaker: str | None
    at: str | None
    kind: str
    trust: str
    backends: tuple[str, ...]
    score: float
    place: Place | None = None
    path: tuple[str, ...] = ()


@dataclass(slots=True)
class Excerpt:
    """An excerpt of a document. ``ref`` and ``score`` are its best member's; members are in reading order."""

    ref: str
    document: str | None
    at: str | None
    score: float
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The packed block: ``text`` for the prompt, which may be empty, and the decision on every ref."""

    text: str
    memories: tuple[Excerpt, ...]
    decisions: Mapping[str, Decision]
    disputes: tuple[Dispute, ...] = ()
    """the packed memories that contradict each other; ``text`` has a line on each pair"""


@dataclass
class _Line:
    start: int
    ref: str
    end: int
    text: str
    scored: Scored
    hit: Hit
    """without secrets"""

    def __lt__(self, other: _Line) -> bool:
        return (self.start, self.ref) < (other.start, other.ref)


@dataclass
class _OpenExcerpt:
    """An excerpt in the making: its lines so far and their size in characters."""

    header: str
    lines: list[_Line] = field(default_factory=list)
    size: int = 0

    def size_with(self, line: _Line) -> int:
        lines = [*self.lines]
        insort(lines, line)
        return len(_render(self.header, lines))


def pack(order: Sequence[Scored], numbers: PackSettings, floors: RerankSettings, nonce: str) -> Block:
    """At most ``numbers.max_results`` excerpts in ``numbers.budget_chars`` characters, fence included."""
    best = max((scored.local for scored in order), default=0.0)
    if best < floors.abstain and all(scored.complete for scored in order):
        return Block("", (), dict.fromkeys((scored.ref for scored in order), Decision.BEST_BELOW_FLOOR))
    begins, ends = opening(nonce), closing(nonce)
    room = numbers.budget_chars - len(begins) - len(ends)
    excerpts: dict[object, _OpenExcerpt] = {}
    decisions: dict[str, Decision] = {}
    events: set[str | None] = set()
    rivals = rivals_of(order)
    packed: dict[str, Scored] = {}
    disputes: list[Dispute] = []
    sources = (_document_key(scored, numbers) for scored in order if scored.local >= floors.floor)
    first = next(sources, None)
    share = numbers.budget_chars * numbers.source_share if any(s != first for s in sources) else numbers.budget_chars
    for scored in order:
        hit = scored.pooled.candidate.hit
        out = _too_weak(scored, floors)
        if out is None and hit.derived_from:
            events = events or {other.pooled.candidate.hit.event_id for other in order}
            if not events.isdisjoint(hit.derived_from):
                out = Decision.SAID_BY_SOURCE
        if out is not None:
            decisions[scored.ref] = out
            continue
        document = _document_key(scored, numbers)
        excerpt = excerpts.get(document)
        if excerpt is None and len(excerpts) >= numbers.max_results:
            decisions[scored.ref] = Decision.EXCERPTS_FULL
            continue
        if excerpts and len(hit.text) > room:
            decisions[scored.ref] = Decision.NO_ROOM
            continue
        excerpt = excerpt or _OpenExcerpt(_header(hit))
        # In an empty block a part of the best memory is better than none.
        line, size = _fitted(scored, excerpt, room, cut=not excerpts)
        new = [dispute(packed[ref], scored, kind) for ref, kind in rivals.get(scored.ref, {}).items() if ref in packed]
        said = sum(len(one.line) for one in new)
        if size - excerpt.size + said > room:
            decisions[scored.ref] = Decision.NO_ROOM
            continue
        if size > share:
            decisions[scored.ref] = Decision.SHARE_TAKEN
            continue
        insort(excerpt.lines, line)
        excerpts[document] = excerpt
        room -= size - excerpt.size + said
        excerpt.size = size
        packed[scored.ref] = scored
        disputes += new
        decisions[scored.ref] = Decision.PACKED
    if not excerpts:
        return Block("", (), decisions)
    body = "".join(
        [*(one.line for one in disputes), *(_render(e.header, e.lines) for e in _as_read(excerpts.values()))]
    )
    return Block(begins + body + ends, tuple(_memory(e) for e in excerpts.values()), decisions, tuple(disputes))


def _fitted(scored: Scored, excerpt: _OpenExcerpt, room: int, *, cut: bool) -> tuple[_Line, int]:
    """The memory's line and the excerpt's size with it; with ``cut`` the line is shortened to the room."""
    limit = MEMBER_CHARS
    line = _line(scored, limit)
    size = excerpt.size_with(line)
    while cut and size > room and limit > 0:
        limit -= max(1, min(limit, len(line.text)) - max(0, room - (size - len(line.text))))
        line = _line(scored, limit)
        size = excerpt.size_with(line)
    return line, size


def _as_read(excerpts: Iterable[_OpenExcerpt]) -> list[_OpenExcerpt]:
    """The excerpts in reading order: without a heading first, current statements before those they replaced.

    An excerpt without a heading would otherwise be read under the heading before it.
    """
    groups: tuple[list[_OpenExcerpt], list[_OpenExcerpt]] = [], []
    for excerpt in excerpts:
        groups[bool(excerpt.header)].append(excerpt)
    return [excerpt for group in groups for excerpt in current_first(group, _excerpt_text, _excerpt_date)]


def _excerpt_text(excerpt: _OpenExcerpt) -> str:
    return "\n".join(line.hit.text for line in excerpt.lines)


def _excerpt_date(excerpt: _OpenExcerpt) -> datetime | None:
    return next((line.hit.at.utc for line in excerpt.lines if line.hit.at), None)


def _too_weak(scored: Scored, floors: RerankSettings) -> Decision | None:
    if scored.judge is not None and scored.judge < floors.judge_floor:
        return Decision.BELOW_JUDGE_FLOOR
    if scored.complete and scored.local < floors.floor:
        return Decision.BELOW_FLOOR
    return None


def _document_key(scored: Scored, numbers: PackSettings) -> object:
    document = document_of(scored.pooled.candidate.hit) if numbers.excerpts else None
    return document if document is not None else scored.ref


def _header(hit: Hit) -> str:
    document = _document(hit) if hit.place else ""
    parts = [hit.at.utc.date().isoformat() if hit.at else "", document]
    return " ".join(["#", *(p for p in parts if p)]) + "\n" if any(parts) else ""


def _document(hit: Hit) -> str:
    """The document's name; for a file that was not read by the gateway, with the sender of the claim."""
    assert hit.place is not None  # noqa: S101 — the caller checks it
    name = " ".join(escape(hit.place.document).split())
    if hit.external:
        return f"{name} (by {claimed_by(hit)})"
    return f"{name} (remembered)" if hit.place.unit == "line" and not _was_read(hit) else name


def claimed_by(hit: Hit) -> str:
    """The name of the only backend that vouches for a hit."""
    return " ".join(escape((hit.stated_by or "").removeprefix(BACKEND_PREFIX)).split())


def _was_read(hit: Hit) -> bool:
    return (hit.stated_by or "").startswith(FILE_PREFIX)


def _line(scored: Scored, limit: int) -> _Line:
    hit = shown(scored.pooled.candidate.hit)
    said = spoken(hit.text, hit.speaker)
    if hit.speaker and hit.external and hit.place is None:  # only the backend vouches for the speaker
        said = f"(by {claimed_by(hit)}) {said}"
    text = cited(scored.ref, clip(said, limit))
    start, end = (hit.place.start, hit.place.end) if hit.place else (0, 0)
    return _Line(start, scored.ref, end, text, scored, hit)


def _render(header: str, lines: Sequence[_Line]) -> str:
    parts = [header]
    last: int | None = None
    for line in lines:
        if last is not None and line.start > last + 1:
            parts.append(GAP + "\n")
        parts.append(line.text + "\n")
        last = max(line.end, last or 0)
    return "".join(parts)


def _memory(excerpt: _OpenExcerpt) -> Excerpt:
    members = tuple(_member(line) for line in excerpt.lines)
    best = max(members, key=lambda m: m.score)
    hit = excerpt.lines[0].hit
    return Excerpt(
        ref=best.ref,
        document=hit.place.document if hit.place else None,
        at=next((m.at for m in members if m.at), None),
        score=best.score,
        members=members,
    )


def _member(line: _Line) -> Member:
    scored, hit = line.scored, line.hit
    return Member(
        ref=scored.ref,
        text=hit.text,
        speaker=hit.speaker,
        at=hit.at.utc.isoformat() if hit.at else None,
        kind=hit.kind,
        trust=hit.trust,
        backends=tuple(sorted({s.backend for s in scored.pooled.candidate.source_hits})),
        score=round(scored.local, 4),
        place=hit.place,
        path=hit.path,
    )
