"""The answer to a question for the whole of a set ("list our customers"): a line for each note or memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from fusion.contract import Hit
from fusion.lib.words import normalise
from fusion.recall.block_format import FORMATS
from fusion.recall.dedup import Candidate, SourceHit
from fusion.recall.expand import Pooled
from fusion.recall.filter import Admitted
from fusion.recall.pack import Block, Excerpt, pack
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recipe import PackSettings, RerankSettings

LINE_CHARS = 160
"""characters of a line"""
MAX_LINES = 1000
"""lines that are looked up; of a larger set the block says that there are more"""
ROOM_FOR_MORE = 40
"""characters of the budget for the line that says how many more there are"""
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def one_each(admitted: Mapping[str, Sequence[Admitted]]) -> tuple[Scored, ...]:
    """One entry for each note, by name, then one for each text of other memories."""
    notes: dict[str, tuple[str, Admitted]] = {}
    others: dict[str, tuple[str, Admitted]] = {}
    for backend, items in admitted.items():
        for item in items:
            place = item.hit.place
            if place is not None and place.unit == "line":
                note = f"{place.document}\0{item.hit.stated_by}"
                first = notes[note][1].hit.place if note in notes else None
                if first is None or place.start < first.start:
                    notes[note] = backend, item
            else:
                others.setdefault(normalise(item.hit.text), (backend, item))
    ordered = [notes[name] for name in sorted(notes, key=str.casefold)] + list(others.values())
    table = SignalTable(len(ordered), {})
    return tuple(
        Scored(Pooled(_candidate(backend, item), 0.0, {}), table, row, 1.0, asked_for=True)
        for row, (backend, item) in enumerate(ordered)
    )


def _candidate(backend: str, item: Admitted) -> Candidate:
    found = item.found or item.hit
    source_hit = SourceHit(backend, item.ref, found.native_id, item.rank, found.score, "fits the filter")
    return Candidate(item.ref, item.hit, (source_hit,))


def pack_lines(
    order: Sequence[Scored], numbers: PackSettings, floors: RerankSettings, nonce: str, more: bool = False
) -> Block:
    """The block of one line each, as many as fit, and a last line that says how many more there are.

    ``more``: there are more than those of ``order``.
    """
    budget = numbers.budget
    chars = max(1, budget.chars - ROOM_FOR_MORE)
    tokens = None if budget.tokens is None else max(1, budget.tokens - ROOM_FOR_MORE // 4)
    lines = [one._replace(pooled=_with_line(one.pooled)) for one in order]
    wanted = replace(
        numbers,
        budget_chars=chars,
        budget_tokens=tokens or 0,
        snippet_chars=LINE_CHARS,
        excerpts=False,
        source_share=1.0,
    )
    block = pack(lines, wanted, floors, nonce)
    hits = {one.ref: one.pooled.candidate.hit for one in order}
    block = replace(block, memories=tuple(_at_its_place(one, hits[one.ref]) for one in block.memories))
    left = len(order) - len(block.memories)
    if not block.text or not (left or more):
        return block
    closing = FORMATS[numbers.format].closing(nonce)
    line = f"… and {left or ''}{'+' if more and left else ''} more\n".replace("  ", " ")
    return replace(block, text=block.text.removesuffix(closing) + line + closing)


def _at_its_place(excerpt: Excerpt, hit: Hit) -> Excerpt:
    """An entry of the block with the document and place of its note."""
    if hit.place is None:
        return excerpt
    members = tuple(replace(member, place=hit.place) for member in excerpt.members)
    return replace(excerpt, document=hit.place.document, members=members)


def _with_line(pooled: Pooled) -> Pooled:
    hit = pooled.candidate.hit
    if hit.place is None or hit.place.unit != "line":
        return pooled
    shown = replace(hit, text=f"{_title(hit)} ({hit.place.document})", place=None, at=None)
    return pooled._replace(candidate=pooled.candidate._replace(hit=shown))


def _title(hit: Hit) -> str:
    """The title of a note by its first section: of the front matter, its first heading, or the name of its file."""
    assert hit.place is not None  # noqa: S101 — the caller checks it
    title = next((value for name, value in hit.properties if name == "title"), None)
    heading = _HEADING.search(_FRONT_MATTER.sub("", hit.text))
    return title or (heading[1].strip() if heading else PurePosixPath(hit.place.document).stem)
