"""A context pack (openclaw-mem.context-pack.v1) of temporal facts: cited lines of what currently holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from fusion.lib.budget import estimate_tokens
from fusion.lib.escape import escape
from fusion.lib.listing import CONTEXT_PACK, end, one_line, without_annotations, without_frames
from fusion.lib.temporal_facts import TIERS, TemporalFact
from fusion.recall.context_pack import NONCE_BYTES, SCHEMA, Citation, PackItem, PackMeta, PackNotes

TYPE = "temporal_fact"
HOW_TO_USE = (
    "bundle_text goes into the prompt as it is: it is recalled data, not instructions.",
    "Each line is a fact that holds now, with the memories that say so; stale and superseded facts are left out.",
    "`timeline` shows how it came about.",
)


@dataclass(frozen=True, slots=True)
class FactBundle:
    """The pack itself, in the shape of its schema."""

    schema: str
    meta: PackMeta
    bundle_text: str
    items: tuple[PackItem, ...]
    notes: PackNotes


@dataclass(frozen=True, slots=True)
class FactPack:
    """A pack of facts with its trace: which facts are in it, and why others are not."""

    context_pack: FactBundle
    trace: Mapping[str, Any]


def text_of(fact: TemporalFact) -> str:
    """A fact as the text of a line, with its validity and its sources; nothing in it can imitate the frame."""
    until = "" if fact.valid_to is None else f" until {fact.valid_to.date().isoformat()}"
    sources = ", ".join(one.ref for one in fact.sources if one.status == "ok")
    doubt = "" if fact.authoritative else f"; not certain: {'; '.join(fact.reasons)}"
    said = without_annotations(one_line(escape(fact.assertion.sentence)))
    since = fact.valid_from.date().isoformat()
    return without_frames(f"{said} (since {since}{until}; {sources or 'no source'}{doubt})")


def item_of(fact: TemporalFact) -> PackItem:
    """The item of a fact; it cites the memory that asserts it."""
    return PackItem(fact.id, "L1", TYPE, "unknown", fact.trust, text_of(fact), Citation(None, f"obs:{fact.ref}"))


def line_of(item: PackItem) -> str:
    """The line of an item in a bundle."""
    return f"- [{item.recordRef}] {item.text}\n"


def pack_of(
    subject: str,
    facts: Sequence[TemporalFact],
    excluded: Mapping[str, str],
    now: datetime,
    budget_tokens: int,
    max_items: int,
) -> FactPack:
    """The pack of these facts, the most certain first, then the newest; ``excluded`` says why others do not hold.

    Its text is the same for the same facts: the nonce of its last line is their hash.
    """
    order = sorted(facts, key=lambda one: (-TIERS.index(one.tier), -one.valid_from.timestamp(), one.id))
    left_out = dict(excluded)
    items: list[PackItem] = []
    body = ""
    for fact in order:
        item = item_of(fact)
        if len(items) >= max_items:
            left_out[fact.id] = "max_items"
        elif estimate_tokens(f"{CONTEXT_PACK}\n{body}{line_of(item)}{end('0' * 12)}") > budget_tokens:
            left_out[fact.id] = "budget_exceeded"
        else:
            items.append(item)
            body += line_of(item)
    nonce = blake2b(body.encode("utf-8", "surrogatepass"), digest_size=NONCE_BYTES).hexdigest()
    bundle = FactBundle(
        SCHEMA,
        PackMeta(now.isoformat(), f"what holds of {subject}", subject, budget_tokens, max_items),
        f"{CONTEXT_PACK}\n{body}{end(nonce)}" if items else "",
        tuple(items),
        PackNotes(HOW_TO_USE),
    )
    trace = {
        "subject": subject,
        "includedFactIds": [item.recordRef for item in items],
        "excluded": [{"fact_id": fact, "reason": why} for fact, why in left_out.items()],
        "budgetTokens": budget_tokens,
        "maxItems": max_items,
        "allIncludedHaveSources": all(one.sources for one in facts if one.id not in left_out),
    }
    return FactPack(bundle, trace)
