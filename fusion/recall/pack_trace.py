"""The trace of a context pack (openclaw-mem.pack.trace.v1), a view of its receipt: which lanes were searched, and why
each candidate is in the pack or not. It has no text of a memory.

A receipt has the candidates, and under ``pack`` what else a trace needs: the limits, the lanes, and the layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fusion.lib.listing import record_ref
from fusion.recall.context_pack import Bundle, Graded
from fusion.recall.decision import Decision, decision_of, sentence
from fusion.recall.receipt import Receipt
from fusion.version import VERSION

KIND = "openclaw-mem.pack.trace.v1"
SCHEMA_VERSION = "v1"
_FULL = frozenset({Decision.EXCERPTS_FULL, Decision.ITEMS_FULL})


@dataclass(frozen=True, slots=True)
class Retriever:
    """How a lane was searched: a backend, its hits at most, and the constant of reciprocal rank fusion."""

    kind: str
    topK: int | None = None  # noqa: N815 - the name in the schema
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane and ``why`` it was searched or not.

    Hot is what the session has at hand, warm the memories and notes of all backends, cold episodes and the archive.
    """

    name: str
    source: str
    searched: bool
    retrievers: tuple[Retriever, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class PackNote:
    """What a receipt keeps of a pack in addition to its candidates."""

    budgets: Mapping[str, int]
    lanes: tuple[Lane, ...]
    scope: str | None
    items: tuple[str, ...]
    """the refs of the items in their order"""
    citations: Mapping[str, str]
    """the sources of the items that have one, by ref"""
    layers: Mapping[str, str]
    capped: tuple[str, ...]
    tail_left_out: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)
    """what the graph's gates decided, and the refs that it added"""
    methods: Mapping[str, str] = field(default_factory=dict)
    """what made the abstract or overview by which a memory is shown, by ref: a version of the rules, or a model"""
    evidence: tuple[tuple[str, str, str], ...] = ()
    """the ref, the lane and the trust of each observation in the pack"""


def noted(
    bundle: Bundle,
    budgets: Mapping[str, int],
    lanes: Sequence[Lane],
    scope: str | None,
    left: int,
    stages: Mapping[str, float],
) -> PackNote:
    """What the receipt of a pack keeps."""
    return PackNote(
        budgets,
        tuple(lanes),
        scope,
        tuple(item.recordRef for item in bundle.items),
        {item.recordRef: item.citations.url for item in bundle.items if item.citations.url is not None},
        dict(bundle.layers),
        tuple(sorted(bundle.capped)),
        left,
        stages,
        methods=dict(bundle.methods),
        evidence=tuple((one.ref, one.lane, one.trust) for one in bundle.evidence),
    )


def trace_of(receipt: Mapping[str, Any], query: str = "") -> dict[str, Any]:
    """The trace of a pack from its receipt, which has neither the question nor any text."""
    note = receipt["pack"]
    memories = [_candidate(row, note) for row in receipt["candidates"]]
    rows = [*memories, *(_observation(*one) for one in note.get("evidence", ()))]
    included = [row for row in rows if row["decision"]["included"]]
    tail = [ref for ref in note["items"] if ref.startswith("tail:")]
    return {
        "kind": KIND,
        "ts": receipt["at"],
        "version": {"openclaw_mem": f"memory-fusion {VERSION}", "schema": SCHEMA_VERSION},
        "query": {"text": query, "scope": note["scope"], "intent": None},
        "budgets": dict(note["budgets"]),
        "lanes": [{name: value for name, value in lane.items() if name != "why"} for lane in note["lanes"]],
        "candidates": rows,
        "output": {
            "includedCount": len(included),
            "excludedCount": len(rows) - len(included),
            "l2IncludedCount": sum(row["layer"] == "L2" for row in included),
            "citationsCount": len(note["items"]),
            "refreshedRecordRefs": [row["id"] for row in memories if row["decision"]["included"]],
            "coverage": {
                "rationaleMissingCount": sum(not row["decision"]["rationale"] for row in included),
                "citationMissingCount": sum(not row["citations"]["recordRef"] for row in included),
                "allIncludedHaveRationale": all(row["decision"]["rationale"] for row in included),
                "allIncludedHaveCitations": all(row["citations"]["recordRef"] for row in included),
            },
        },
        "timing": {"durationMs": receipt["took_ms"], "stages": dict(note["stages"])},
        "extensions": {
            "receipt_id": receipt["receipt_id"],
            "recipe": receipt["recipe"],
            "tail": tail,
            "tail_left_out": note["tail_left_out"],
            "graph": dict(note.get("graph", {})),
            "evidence": [ref for ref in note["items"] if ref.startswith("ep:")],
            "lanes": [{"source": lane["source"], "why": lane.get("why", "")} for lane in note["lanes"]],
            "layer_methods": {record_ref(ref): method for ref, method in note.get("methods", {}).items()},
            "raw_scores": {record_ref(row["ref"]): _raw_scores(row) for row in receipt["candidates"]},
        },
    }


def _candidate(row: Mapping[str, Any], note: Mapping[str, Any]) -> dict[str, Any]:
    ref, decision = row["ref"], decision_of(row["decision"])
    signals = row["signals"]
    cited = record_ref(ref)
    trust, importance = row.get("trust", "unknown"), row.get("importance", "unknown")
    return {
        "id": cited,
        "layer": note["layers"].get(ref, "L1"),
        "importance": importance,
        "trust": trust,
        "scores": {
            "rrf": round(row["rrf"], 5),
            "fts": round(signals.get("bm25", 0.0), 4),
            "semantic": round(signals.get("similarity", 0.0), 4),
        },
        "decision": {
            "included": decision == Decision.PACKED,
            "reason": [decision, f"trust_{trust}", f"importance_{importance}", *_standing(row)],
            "rationale": _rationale(row, decision),
            "caps": {
                "niceCapHit": decision in _FULL and importance == "nice_to_have",
                "l2CapHit": ref in note["capped"],
            },
        },
        "citations": {"url": note["citations"].get(cited), "recordRef": cited},
    }


def _observation(ref: str, lane: str, trust: str) -> dict[str, Any]:
    """The candidate of an observation in the pack. It has no rank among the memories, and the pack is no use of it."""
    found = "what the session did lately" if lane == "hot" else "an episode with the question's words"
    return {
        "id": ref,
        "layer": "L0",
        "importance": "unknown",
        "trust": trust,
        "scores": {"rrf": 0.0, "fts": 0.0, "semantic": 0.0},
        "decision": {
            "included": True,
            "reason": [Decision.PACKED, f"trust_{trust}", "importance_unknown", f"lane_{lane}"],
            "rationale": [sentence(Decision.PACKED), f"lane {lane}", found],
            "caps": {"niceCapHit": False, "l2CapHit": False},
        },
        "citations": {"url": None, "recordRef": ref},
    }


def _standing(row: Mapping[str, Any]) -> list[str]:
    """How recent a candidate is and whether it is of the project asked for, as far as either is known."""
    found = [f"recency_{row['day']}"] if row.get("day") else []
    project = row["signals"].get("project")
    return found if project is None else [*found, "scope_project" if project else "scope_other"]


def _raw_scores(row: Mapping[str, Any]) -> dict[str, Any]:
    """The best rank and the raw score of a candidate in each backend's own answer; no two backends' are comparable."""
    found: dict[str, Any] = {}
    for hit in row["source_hits"]:
        backend, _, _, rank, _, *score = hit.values() if isinstance(hit, Mapping) else hit
        if backend not in found or rank < found[backend]["rank"]:
            found[backend] = {"rank": rank, "score": score[0] if score else None}
    return found


def _rationale(row: Mapping[str, Any], decision: str) -> list[str]:
    """Why a candidate is in the pack or not, and what brought it in."""
    score = f"score {row['local']:.3f}"
    if row.get("probability") is not None:
        score += f", helps with probability {row['probability']:.3f}"
    found = sorted({hit[0] if not isinstance(hit, Mapping) else hit["backend"] for hit in row["source_hits"]})
    source = f"found by {', '.join(found)}" if found else "a neighbour of what was found"
    return [sentence(decision), score, source]


def with_note(receipt: Receipt, bundle: Bundle, note: PackNote) -> Receipt:
    """The receipt of a pack with what its trace needs."""
    graded = [bundle.graded.get(ref, Graded()) for ref in receipt.reasons["ref"]]
    columns = {name: [getattr(one, name) for one in graded] for name in ("trust", "importance", "day")}
    summary = {**receipt.summary, "pack": asdict(note), "characters": len(bundle.text)}
    return replace(receipt, summary=summary, reasons={**receipt.reasons, **columns})
