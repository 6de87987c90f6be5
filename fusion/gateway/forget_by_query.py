"""Selects the memories that a query asks to forget, and looks up the external memories that an answer cites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fusion.contract import Scope
from fusion.ingest.forget import Forgetter, Preview, external_preview
from fusion.journal import Journal, external_refs
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.recall.decision import TOO_WEAK
from fusion.recall.engine import FuseRequest, Outcome, fuse
from fusion.recall.io import Live
from fusion.recipe import Recipe

LEAST_SHARE_OF_BEST = 0.8
"""share of the best local score below which a candidate is recalled with the best one, but not forgotten with it"""


async def memories_to_forget(
    query: str, scope: Scope, recipe: Recipe, live: Live, journal: Journal, forgetter: Forgetter
) -> list[Preview]:
    """The memories that a query asks to forget, the most relevant first, with all their copies in the backends.

    Stricter than recall: a candidate must share a word with the query (a similar meaning is not enough to delete it), a
    neighbour of a hit is left out, and neither a graph nor a named time or title raises scores. The judge is not asked,
    so that a memory that is to be forgotten is not sent anywhere.
    """
    rerank = replace(recipe.rerank, graph_boost=0.0, episode_boost=0.0, named_boost=0.0)
    rerank = replace(rerank, floor_probability=0.0, abstain_probability=0.0)
    io, without_boost = replace(live, judge=None), replace(recipe, rerank=rerank)
    outcome = await fuse(FuseRequest(query, scope), without_boost, io)
    rows = [
        row
        for row in outcome.receipt.body["candidates"]
        if not row["neighbour_of"] and row["signals"]["bm25"] > 0 and row["decision"] not in TOO_WEAK
    ]
    least = LEAST_SHARE_OF_BEST * max((row["local"] for row in rows), default=0.0)
    rows = [row for row in rows if row["local"] >= least]
    refs = list(dict.fromkeys(ref for row in rows for _, ref, *_ in row["source_hits"]))
    external = {item.ref: item for item in external_items(outcome, scope, frozenset(filter(is_external, refs)))}
    # A fact is deleted with the memories that it was derived from.
    sources = await journal.records([i for item in external.values() for i in item.hit.derived_from])
    selected = {event_id for event_id, record in sources.items() if record.ref in refs}
    external = {
        ref: item
        for ref, item in external.items()
        if not item.hit.derived_from or not selected.issuperset(item.hit.derived_from)
    }
    await journal.write(external_refs.store_items, list(external.values()), live.now())
    previews = {one.ref: one for one in await forgetter.previews([r for r in refs if not is_external(r)], scope)}
    previews |= {ref: external_preview(item) for ref, item in external.items()}
    return [previews[ref] for ref in refs if ref in previews]


def external_items(outcome: Outcome, scope: Scope, refs: Collection[str]) -> list[ExternalItem]:
    """The external memories of an answer that have these refs."""
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
