"""Packs the best memories into a block that fits the prompt, as cited excerpts of their documents.

Of a long memory the best passages are packed, each by itself; in the block they are one item with gaps marked.

Memories are taken in order. A memory of a document that is in the block joins its excerpt, in reading order, with gaps
marked; another one begins an excerpt while there are fewer than `max_results`. A memory that does not fit is passed
over, and the receipt says so. The order does not depend on the budget: a larger block adds to the choice.
`block_format` has the formats.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from fusion.contract import Hit, Place, document_of
from fusion.lib.budget import EMPTY, Budget, Size
from fusion.lib.passages import Span
from fusion.recall.block_format import FORMATS, GAP, Fence
from fusion.recall.decision import BY_LIMIT, Decision
from fusion.recall.dispute import Dispute, dispute, newer_than, rivals_of
from fusion.recall.filter import Record
from fusion.recall.mask import shown as without_secrets
from fusion.recall.reading_order import current_first
from fusion.recall.rerank import Scored, nothing_fits
from fusion.recall.shown_before import was_shown
from fusion.recipe import PackSettings, RerankSettings

MEMBER_CHARS = 4000
"""maximum characters of one memory in a block, so that a flood cannot fill it"""
_NO_DATE = datetime.max.replace(tzinfo=UTC)
"""the place of what has no date among excerpts in the order of their dates: last"""
MAX_SPACE = 4
"""characters between two passages up to which there is only white space between them"""


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
    passages: tuple[Span, ...] = ()
    """of a long memory the shown parts, in characters of its text; ``text`` has only these"""
    probability: float | None = None
    """that it helps to answer the question; None where no calibration fits the model and the recipe"""


@dataclass(slots=True)
class Excerpt:
    """An excerpt of a document. ``ref`` and ``score`` are its best member's; members are in reading order."""

    ref: str
    document: str | None
    at: str | None
    score: float
    members: tuple[Member, ...]


class ExcerptLine(NamedTuple):
    """An excerpt as the block shows it, and the ref of the memory that began it."""

    ref: str
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """The packed block: ``text`` for the prompt, which may be empty, and the decision on every ref."""

    text: str
    memories: tuple[Excerpt, ...]
    decisions: Mapping[str, Decision]
    disputes: tuple[Dispute, ...] = ()
    """the packed memories that contradict each other; ``text`` has a line on each pair"""
    packed: tuple[Scored, ...] = ()
    """the memories, and passages of long ones, that the block shows"""
    lines: tuple[ExcerptLine, ...] = ()
    """each excerpt in ``memories`` as ``text`` shows it"""


@dataclass
class _Line:
    start: int
    ref: str
    end: int
    text: str
    scored: Scored
    hit: Hit
    """without secrets"""
    parts: tuple[Scored, ...]
    """the memory, or the passages that are shown of a long one, in reading order"""

    def __lt__(self, other: _Line) -> bool:
        return (self.start, self.ref) < (other.start, other.ref)


@dataclass
class _OpenExcerpt:
    """An excerpt in the making: the memory that began it, its heading, its lines so far and their size."""

    ref: str
    heading: str
    layout: Fence
    lines: list[_Line] = field(default_factory=list)
    size: Size = EMPTY

    def text_with(self, line: _Line) -> str:
        return self.text(self._lines_with(line))

    def add(self, line: _Line) -> None:
        self.lines = self._lines_with(line)

    def parts_of(self, ref: str) -> tuple[Scored, ...]:
        """The passages that are shown of this memory."""
        return next((line.parts for line in self.lines if line.ref == ref), ())

    def chars_of(self, ref: str) -> int:
        """The characters that are shown of this memory, with a mark of what is left out before another passage."""
        return next((len(line.hit.text) + len(GAP) + 2 for line in self.lines if line.ref == ref), 0)

    def _lines_with(self, line: _Line) -> list[_Line]:
        """The lines with this one, which replaces the line that has fewer passages of the same memory."""
        lines = [other for other in self.lines if other.ref != line.ref]
        insort(lines, line)
        return lines

    def text(self, lines: Sequence[_Line]) -> str:
        parts = [self.heading]
        last: int | None = None
        for line in lines:
            if last is not None:
                parts.append(self.layout.gap if line.start > last + 1 else self.layout.between)
            parts.append(line.text)
            last = max(line.end, last or 0)
        return "".join([*parts, self.layout.ends_excerpt])


@dataclass
class _Space:
    """The budget of a block, what its frame and memories take of it, and the format."""

    budget: Budget
    format: Fence
    taken: Size = EMPTY

    def size(self, text: str) -> Size:
        """The size of a text; its words are counted only where tokens are limited."""
        return Size(len(text)) if self.budget.tokens is None else Size.of(text)

    @property
    def chars(self) -> int:
        """Characters that are free."""
        return self.budget.chars - self.taken.chars

    def exceeded_by(self, more: Size) -> Decision | None:
        """The decision on a memory that takes ``more``; None if it fits."""
        limit = self.budget.exceeded_by(self.taken.plus(more))
        return None if limit is None else BY_LIMIT[f"budget_{limit}"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was ranked for a question, and what limits the block that is made of it, as `pack` takes it."""

    question: str
    order: Sequence[Scored]
    numbers: PackSettings
    floors: RerankSettings
    nonce: str
    shown: Set[str] = frozenset()
    left_out: Mapping[str, Decision] = field(default_factory=dict)
    chronological: bool = False
    records: Mapping[str, Record] = field(default_factory=dict)
    """the journal's records of what was found, by event id"""

    def block(self) -> Block:
        """The block of it."""
        return pack(
            self.order,
            self.numbers,
            self.floors,
            self.nonce,
            self.shown,
            left_out=self.left_out,
            chronological=self.chronological,
        )


def pack(
    order: Sequence[Scored],
    numbers: PackSettings,
    floors: RerankSettings,
    nonce: str,
    shown: Set[str] = frozenset(),
    *,
    left_out: Mapping[str, Decision] = MappingProxyType({}),
    chronological: bool = False,
) -> Block:
    """The block of the best memories, within all limits of ``numbers``, its frame included.

    It lacks those that are ``left_out``, by key, and those whose keys are in ``shown``. The latter are left out at the
    end, so that nothing weaker takes their place: they are still in the reader's context. With ``chronological`` the
    excerpts are read in the order of their dates.
    """
    if nothing_fits(order, floors):
        return Block("", (), dict.fromkeys((scored.ref for scored in order), Decision.BEST_BELOW_FLOOR))
    layout = FORMATS[numbers.format]
    begins, ends = layout.opening(nonce), layout.closing(nonce)
    space = _Space(numbers.budget, layout)
    space.taken = space.size(begins).plus(space.size(ends))
    limit = numbers.snippet_chars or MEMBER_CHARS
    excerpts: dict[object, _OpenExcerpt] = {}
    decisions: dict[str, Decision] = {}
    events: set[str | None] = set()
    rivals = rivals_of(order)
    there_are = {scored.ref for scored in order} if rivals else frozenset[str]()
    packed: dict[str, Scored] = {}
    disputes: list[Dispute] = []
    apart = rivals if layout.rivals_apart else {}
    sources = (_document_key(scored, numbers, apart) for scored in order if not scored.is_below(floors))
    first = next(sources, None)
    share = space.budget.share(numbers.source_share) if any(s != first for s in sources) else space.budget
    for scored in order:
        hit = scored.pooled.candidate.hit
        out = _too_weak(scored, floors) or left_out.get(scored.pooled.key)
        if out is None and hit.derived_from:
            events = events or {other.pooled.candidate.hit.event_id for other in order}
            if not events.isdisjoint(hit.derived_from):
                out = Decision.SAID_BY_SOURCE
        if out is None and len(packed) >= numbers.max_items > 0 and scored.ref not in packed:
            out = Decision.ITEMS_FULL
        if out is not None:
            decisions.setdefault(scored.ref, out)
            continue
        newer = newer_than(scored) & there_are if scored.ref in rivals else None
        if newer and newer.isdisjoint(packed):
            decisions.setdefault(scored.ref, Decision.CONTRADICTED)
            continue
        visible = layout.shown(hit)
        if visible is None:
            decisions.setdefault(scored.ref, Decision.STATES_NOTHING)
            continue
        hit = visible
        document = _document_key(scored, numbers, apart)
        excerpt = excerpts.get(document)
        if excerpt is None and len(excerpts) >= numbers.max_results:
            decisions.setdefault(scored.ref, Decision.EXCERPTS_FULL)
            continue
        if excerpt is not None and excerpt.chars_of(scored.ref) + len(hit.text) > limit and scored.ref in packed:
            decisions.setdefault(scored.ref, Decision.NO_ROOM)
            continue
        if excerpts and min(len(hit.text), numbers.snippet_chars or len(hit.text)) > space.chars:
            decisions.setdefault(scored.ref, Decision.NO_ROOM)
            continue
        excerpt = excerpt or _OpenExcerpt(scored.ref, layout.heading(scored.ref, hit), layout)
        # In an empty block a part of the best memory is better than none.
        fit = _sized if excerpts else _cut_to_fit
        line, size = fit(scored, excerpt, space, limit)
        opponents = rivals.get(scored.ref, {}) if scored.ref not in packed else {}
        new = [dispute(packed[ref], scored, kind) for ref, kind in opponents.items() if ref in packed]
        more = size.minus(excerpt.size).plus(space.size("".join(layout.added_by(one) for one in new)))
        out = space.exceeded_by(more) or (Decision.SHARE_TAKEN if share.exceeded_by(size) else None)
        if out is not None:
            decisions.setdefault(scored.ref, out)
            continue
        excerpt.add(line)
        excerpts[document] = excerpt
        space.taken = space.taken.plus(more)
        excerpt.size = size
        packed.setdefault(scored.ref, scored)
        disputes += new
        decisions[scored.ref] = Decision.PACKED
    if shown:
        for excerpt in excerpts.values():
            lines = (_unshown(line, shown, layout, limit) for line in excerpt.lines)
            excerpt.lines = [line for line in lines if line is not None]
        excerpts = {document: excerpt for document, excerpt in excerpts.items() if excerpt.lines}
        repeated = packed.keys() - {line.ref for excerpt in excerpts.values() for line in excerpt.lines}
        decisions.update(dict.fromkeys(repeated, Decision.SHOWN_BEFORE))
        disputes = [one for one in disputes if not repeated.issuperset(one.refs)]
    if not excerpts:
        return Block("", (), decisions)
    _annotate(excerpts.values(), layout, disputes)
    read = [e.text(e.lines) for e in _as_read(excerpts.values(), chronological)]
    text = begins + layout.body(read, disputes) + ends
    there = {part.pooled.key for excerpt in excerpts.values() for line in excerpt.lines for part in line.parts}
    shown_parts = tuple(scored for scored in order if scored.pooled.key in there)
    memories = tuple(_memory(e) for e in excerpts.values())
    as_shown = tuple(ExcerptLine(e.ref, e.text(e.lines)) for e in excerpts.values())
    return Block(text, memories, decisions, tuple(disputes), shown_parts, as_shown)


def _annotate(excerpts: Iterable[_OpenExcerpt], layout: Fence, disputes: Sequence[Dispute]) -> None:
    """Adds to each memory's line which others contradict or outdate it."""
    annotations = layout.annotations(disputes)
    for line in (line for excerpt in excerpts for line in excerpt.lines if line.ref in annotations):
        line.text = layout.annotated(line.text, annotations[line.ref])


def _sized(scored: Scored, excerpt: _OpenExcerpt, space: _Space, limit: int) -> tuple[_Line, Size]:
    """The memory's line with at most ``limit`` characters of its text, and the excerpt's size with it."""
    parts = sorted((*excerpt.parts_of(scored.ref), scored), key=_reading_key)
    line = _line(parts, space.format, limit)
    return line, space.size(excerpt.text_with(line))


def _cut_to_fit(scored: Scored, excerpt: _OpenExcerpt, space: _Space, limit: int) -> tuple[_Line, Size]:
    """As `_sized`, with a line that is cut to what is free. A single character may still be too much."""
    line, size = _sized(scored, excerpt, space, limit)
    while size.chars > space.chars and limit > 0:
        shown = len(line.text) - 1  # without its line end
        limit -= max(1, min(limit, shown) - max(0, space.chars - (size.chars - shown)))
        line, size = _sized(scored, excerpt, space, limit)
    if space.exceeded_by(size) is None:
        return line, size
    fits, too_long = 0, limit  # tokens: found by halving, since words differ in length
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if space.exceeded_by(_sized(scored, excerpt, space, middle)[1]):
            too_long = middle
        else:
            fits = middle
    return _sized(scored, excerpt, space, fits) if fits else (line, size)


def _as_read(excerpts: Iterable[_OpenExcerpt], chronological: bool) -> list[_OpenExcerpt]:
    """The excerpts in reading order: without a heading first, current statements before those they replaced.

    An excerpt without a heading would otherwise be read under the heading before it.
    """
    if chronological:
        excerpts = sorted(excerpts, key=lambda excerpt: _excerpt_date(excerpt) or _NO_DATE)
    groups: tuple[list[_OpenExcerpt], list[_OpenExcerpt]] = [], []
    for excerpt in excerpts:
        groups[bool(excerpt.heading)].append(excerpt)
    if chronological:
        return [*groups[0], *groups[1]]
    return [excerpt for group in groups for excerpt in current_first(group, _excerpt_text, _excerpt_date)]


def _excerpt_text(excerpt: _OpenExcerpt) -> str:
    return "\n".join(line.hit.text for line in excerpt.lines)


def _excerpt_date(excerpt: _OpenExcerpt) -> datetime | None:
    return next((at.utc for line in excerpt.lines if (at := line.hit.at)), None)


def _too_weak(scored: Scored, floors: RerankSettings) -> Decision | None:
    if not scored.asked_for and scored.decided_by_judge and (scored.judge or 0.0) < floors.judge_floor:
        return Decision.BELOW_JUDGE_FLOOR
    return Decision.BELOW_FLOOR if scored.is_below(floors) else None


def _document_key(scored: Scored, numbers: PackSettings, apart: Container[str]) -> object:
    merged = numbers.excerpts and scored.ref not in apart
    document = document_of(scored.pooled.candidate.hit) if merged else None
    return document if document is not None else scored.ref


def _line(parts: Sequence[Scored], layout: Fence, limit: int) -> _Line:
    """The line of a memory, or of these passages of a long one, in reading order."""
    best = max(parts, key=lambda part: part.local)
    hit = best.pooled.candidate.hit
    if len(parts) > 1:
        hit = hit.cut(_joined(parts))
    hit = without_secrets(hit)  # before a part of it is left out: half a key is not recognised
    hit = layout.shown(hit) or hit
    start, end = (hit.place.start, hit.place.end) if hit.place else (0, 0)
    return _Line(start, best.ref, end, layout.item(best.ref, hit, limit), best, hit, tuple(parts))


def _reading_key(part: Scored) -> int:
    return part.pooled.passage.start if part.pooled.passage else 0


def _joined(parts: Sequence[Scored]) -> str:
    """The passages of a memory as one text, with what is left out between them marked."""
    text = ""
    last: Span | None = None
    for part in parts:
        span = part.pooled.passage
        if last is not None and span is not None:
            text += "\n" if span.start - last.end <= MAX_SPACE else f"\n{GAP}\n"
        text += part.pooled.candidate.hit.text
        last = span
    return text


def _unshown(line: _Line, shown: Set[str], layout: Fence, limit: int) -> _Line | None:
    """The line without what ``shown`` has, or None if that is all of it."""
    parts = [part for part in line.parts if not was_shown(part.pooled.candidate, shown)]
    if len(parts) == len(line.parts):
        return line
    return _line(parts, layout, limit) if parts else None


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
        passages=tuple(part.pooled.passage for part in line.parts if part.pooled.passage is not None),
        probability=None if scored.probability is None else round(scored.probability, 4),
    )
