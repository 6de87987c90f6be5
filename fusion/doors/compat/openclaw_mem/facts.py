"""Temporal facts as openclaw-mem's commands ``graph fact …`` print them: our replies, with its fields beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.ledger import envelope
from fusion.lib.ids import EPISODE

SCHEMA = "openclaw-mem.graph.fact.v0"


def asserted(written: wire.FactWritten) -> dict[str, Any]:
    """What ``assert`` prints: the fact, and what became of each of its sources."""
    fact = _fact(written["fact"])
    resolutions = [
        {
            "source": {name: source[name] for name in ("kind", "ref", "locator")},
            "resolved": source["status"] == "ok",
            "reason": source["status"],
            "digest": None,
            "locator": None,
            "meta": {"resolver": "memory-fusion"},
        }
        for source in fact["source_refs"]
    ]
    return {**written, **_receipt("assert", fact=fact, source_resolutions=resolutions)}


def current(found: wire.CurrentFacts, *, include_stale: bool) -> dict[str, Any]:
    """What ``current`` prints."""
    facts = [_fact(one) for one in found["facts"]]
    said = _receipt("current", as_of=found["at"], include_stale=include_stale, count=len(facts), facts=facts)
    return {**found, **said}


def timeline(found: wire.FactTimeline, predicate: str | None) -> dict[str, Any]:
    """What ``timeline`` prints: the facts as its events."""
    facts = [_fact(one) for one in found["facts"]]
    return {**found, **_receipt("timeline", predicate=predicate, count=len(facts), facts=facts, events=facts)}


def lint(found: wire.FactLint) -> dict[str, Any]:
    """What ``lint`` prints."""
    counts = {**found["counts"], "staleFacts": found["counts"]["stale"]}
    return {**found, **_receipt("lint", counts=counts)}


def pack(found: wire.FactPackReply, facts: Sequence[wire.TemporalFact], *, include_stale: bool) -> dict[str, Any]:
    """What ``pack`` prints: the pack, and those of its subject's ``facts`` that are in it."""
    by_id = {one["id"]: _fact(one) for one in facts}
    whole = found["context_pack"]
    items = [{**item, **_evidence(by_id.get(item["recordRef"]))} for item in whole["items"]]
    return {
        **_receipt("pack"),
        "context_pack": {**whole, "items": items},
        "items": [by_id[one] for one in found["trace"]["includedFactIds"] if one in by_id],
        "trace": {**found["trace"], "include_stale": include_stale},
        "bundle_text": whole["bundle_text"],
    }


def _receipt(command: str, **members: Any) -> dict[str, Any]:
    return envelope(f"graph.fact.{command}", "v0", schema=SCHEMA, **members)


def _fact(fact: wire.TemporalFact) -> dict[str, Any]:
    """A fact with openclaw-mem's fields. A source here has no place within it, which is a locator there."""
    sources = [{**one, "kind": _kind(one["ref"]), "locator": None} for one in fact["source_refs"]]
    return {**fact, "stored_status": fact["status"], "source_refs": sources}


def _evidence(fact: dict[str, Any] | None) -> dict[str, Any]:
    if fact is None:
        return {}
    return {"assertionRef": fact["assertion_ref"], "evidenceSourceRefs": fact["source_refs"]}


def _kind(ref: str) -> str:
    return "episode" if ref.startswith(EPISODE) else "memory"
