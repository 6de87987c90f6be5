"""Which memories a question means, where it asks to forget them; and what stands behind refs that are no event's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from fusion.contract import Scope
from fusion.ingest.forget import Forgetter, Preview, external_preview
from fusion.journal import Journal
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.recall.decision import TOO_WEAK
from fusion.recall.engine import FuseRequest, Outcome, fuse
from fusion.recall.io import Live
from fusion.recipe import Recipe

MEANT = 0.8
"""of the best score: what a question finds below that is recalled with the best, and not forgotten with it"""


async def meant_by(
    query: str, scope: Scope, recipe: Recipe, *, live: Live, journal: Journal, forgetter: Forgetter
) -> list[Preview]:
    """What a question finds, the likeliest first: every sighting of it, nothing that only stands beside it.

    Nor what has none of its words: to be of like meaning is enough to be recalled, and too little to be deleted.
    Nor is it lifted by what a graph leads to: that belongs to what is meant, and is not it. The judge is not asked:
    what is to be forgotten is sent to nobody first.
    """
    io, without_boost = replace(live, judge=None), replace(recipe, rerank=replace(recipe.rerank, graph_boost=0.0))
    outcome = await fuse(FuseRequest(query, scope), without_boost, io)
    rows = [
        row
        for row in outcome.receipt.body["candidates"]
        if not row["neighbour_of"] and row["signals"]["bm25"] > 0 and row["decision"] not in TOO_WEAK
    ]
    least = MEANT * max((row["local"] for row in rows), default=0.0)
    rows = [row for row in rows if row["local"] >= least]
    refs = list(dict.fromkeys(ref for row in rows for _, ref, *_ in row["source_hits"]))
    foreign = {item.ref: item for item in foreign_items(outcome, scope, frozenset(filter(is_external, refs)))}
    # A fact goes with the memories that it was learnt from.
    sources = await journal.records([i for item in foreign.values() for i in item.hit.derived_from])
    meant = {event_id for event_id, record in sources.items() if record.ref in refs}
    foreign = {r: i for r, i in foreign.items() if not i.hit.derived_from or not meant.issuperset(i.hit.derived_from)}
    await journal.keep_external_items(list(foreign.values()), datetime.now(UTC))
    found = await forgetter.previews([ref for ref in refs if not is_external(ref)], scope)
    ours = {one.ref: one for one in found}
    return [
        ours[ref] if ref in ours else external_preview(foreign[ref]) for ref in refs if ref in ours or ref in foreign
    ]


def foreign_items(outcome: Outcome, scope: Scope, refs: Collection[str]) -> list[ExternalItem]:
    """What stands behind refs of an answer that cite no event of ours."""
    where = {
        ref: (backend, native_id)
        for source_hits in outcome.receipt.reasons["source_hits"]
        for backend, ref, native_id, *_ in source_hits
        if ref in refs
    }
    wanted: dict[str, set[str]] = {}
    for backend, native_id in where.values():
        wanted.setdefault(backend, set()).add(native_id)
    items = outcome.found(wanted)
    return [ExternalItem(ref, at[0], items[at], scope) for ref, at in where.items() if at in items]
