"""Temporal facts as openclaw-mem's commands ``graph fact …`` print them: our replies with its fields added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.ledger import envelope
from fusion.lib.ids import EPISODE
from fusion.lib.temporal_facts import RULES, SCHEMA, Assertion, entity_ref


def registry() -> dict[str, Any]:
    """What ``registry`` prints: the nine predicates and what each takes."""
    predicates = {
        name: {
            "cardinality": "single" if rule.single else "multi",
            "object_types": list(rule.objects),
            "aliases": list(rule.aliases),
            "conflict_behavior": "supersede_or_conflict" if rule.single else "append",
            "source_tier_floor": None,
        }
        for name, rule in sorted(RULES.items())
    }
    return {"schema": "openclaw-mem.graph.fact.predicate-registry.v0", "predicates": predicates}


def asserted(written: wire.FactWritten) -> dict[str, Any]:
    """What ``assert`` prints: the fact, and what became of each of its sources."""
    fact = _fact(written["fact"])
    return {**written, **_receipt("assert", fact=fact, source_resolutions=_resolutions(fact))}


def invalidated(written: wire.FactWritten) -> dict[str, Any]:
    """What ``invalidate`` prints: the fact as it is now, and what says that it ended."""
    fact = _fact(written["fact"])
    ended = {
        "assertion_ref": {"kind": "memory", "ref": written["memory"]},
        "source_resolutions": _resolutions(fact),
    }
    return {**written, **_receipt("invalidate", fact=fact, invalidation=ended)}


def stale(found: wire.FactLint) -> dict[str, Any]:
    """What ``stale`` prints. A fact is judged when it is read, so that there is nothing to write."""
    facts = [
        {
            "fact_id": one["id"],
            "subject": one["subject"]["ref"],
            "predicate": one["predicate"],
            "reasons": one["reasons"],
        }
        for one in found["stale"]
    ]
    return _receipt("stale", writes_performed=False, count=found["counts"]["stale"], facts=facts)


def proposals(found: Sequence[Assertion], sources: Sequence[str]) -> dict[str, Any]:
    """What ``propose`` prints: candidates for ``assert``, of which nothing is stored."""
    refs = [{"kind": _kind(ref), "ref": ref, "locator": None} for ref in sources]
    shown = [
        {
            "schema": SCHEMA,
            "subject": {"ref": entity_ref(one.subject), "label": one.subject},
            "predicate": one.predicate,
            "object": {"type": one.object.type, "value": one.object.value},
            "valid_from": None if one.valid_from is None else one.valid_from.isoformat(),
            "valid_to": None if one.valid_to is None else one.valid_to.isoformat(),
            "status": "proposed",
            "confidence_tier": "source_capped",
            "source_refs": refs,
            "writes_performed": False,
        }
        for one in found
    ]
    said = _receipt("proposal", writes_performed=False, proposal_count=len(shown), proposals=shown)
    return {**said, "kind": "openclaw-mem.graph.fact.extraction-proposal.v0", "review_required": True}


def routed(query: str, subject: str, packed: dict[str, Any]) -> dict[str, Any]:
    """What ``route`` prints for a question about a subject with current facts."""
    receipt = {"fact_view_used": True, "visible_context_pack_receipt": True}
    return _receipt("route", query=query, subject=subject, fact_view_used=True, pack=packed, receipt=receipt)


def not_routed(query: str, subject: str | None) -> dict[str, Any]:
    """What ``route`` prints where the facts have no answer; a search or a pack of all memories may have one."""
    named = {} if subject is None else {"subject": subject}
    reason = "no_subject_detected" if subject is None else "unknown_subject_or_no_current_facts"
    fallback = "fusion mem pack --query"
    return _receipt("route", query=query, **named, fact_view_used=False, reason=reason, fallback=fallback)


def _resolutions(fact: dict[str, Any]) -> list[dict[str, Any]]:
    """What became of each source of a fact."""
    return [
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
