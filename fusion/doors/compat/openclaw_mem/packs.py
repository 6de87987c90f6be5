"""Context packs as openclaw-mem's command ``pack`` prints them, around the pack of `POST /v1/pack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.ids import record_id
from fusion.doors.compat.openclaw_mem.records import lanes_of
from fusion.lib.budget import estimate_tokens


def printed(pack: wire.PackReply) -> dict[str, Any]:
    """What the command prints: our reply, its items with their numbers, their citations, and the pack in its schema."""
    refs = [item["recordRef"] for item in pack["items"]]
    found: dict[str, Any] = {
        **pack,
        "items": [_item(item) for item in pack["items"]],
        "citations": [item["citations"] for item in pack["items"]],
        "context_pack": {name: pack[name] for name in _CONTEXT_PACK},  # type: ignore[literal-required]
        "vector_backend": FUSED,
        "vector_backend_selection": {"requested": "auto", "selected": FUSED, "fallback_reason": None, "hint": None},
        "scoring_profile": FUSED,
        "lane_hits": lanes_of([]) | {one["name"]: one["count"] for one in pack["receipt"]["backends"]},
        "query_lang": None,
        "fallback_triggered": False,
        "cross_lang_recovered": 0,
        "lifecycle_write": _use([ref for ref in refs if not ref.startswith("tail:")], pack["meta"]["ts"]),
    }
    if pack["trace"] is None:
        del found["trace"]
    return found


def graph_aware(pack: Mapping[str, Any]) -> dict[str, Any]:
    """What ``pack --graph-aware`` prints besides: the lines of the pack that the graph gave."""
    selected = [item for item in pack["items"] if item["type"] in GRAPH_TYPES]
    said = {
        "kind": "openclaw-mem.pack.graph-aware.v0",
        "enabled": True,
        "selected": selected,
        "writes_performed": False,
        "ranking_inputs": {
            "active_files": [],
            "recent_files": [],
            "searched_files": [],
            "symbol_neighborhood": False,
            "impact_radius": "paths of the entities that the question names",
            "memory_freshness": "facts that hold now",
            "provenance_quality": "every edge names what asserts it",
        },
        "fallback_reason": "" if selected else "the graph has nothing on the question",
    }
    return {"graph_aware_pack": said}


def shortened(pack: Mapping[str, Any]) -> dict[str, Any]:
    """What ``pack --pack-artifacts on`` prints besides: no artifact is stored, and refs lead to whole texts."""
    short = any(item["layer"] == "L0" for item in pack["items"])
    reason = "long memories are one line; get returns their texts" if short else "no memory is long"
    receipt = {
        "schema": "openclaw-mem.pack-receipt.v1",
        "decision": "packed" if short else "blocked",
        "reason": reason,
        "strategy": "layer-L0",
        "lossMode": "by-reference" if short else "pass-through",
        "artifactHash": None,
        "marker": None,
        "bytesAfter": len(pack["bundle_text"].encode()),
        "tokensAfter": estimate_tokens(pack["bundle_text"]),
    }
    said = {name: receipt[name] for name in ("decision", "reason", "strategy", "marker", "artifactHash")}
    artifact = {"schema": "openclaw-mem.pack-artifact.prompt.v1", **said, "storePath": None, "receipt": receipt}
    return {"bundle_text_packed": pack["bundle_text"], "pack_artifact": artifact}


GRAPH_TYPES = frozenset({"synthesis_card", "graph_path"})
"""the types of items that the graph gives to a pack"""
FUSED = "fused"
"""what stands where openclaw-mem names one of its own searches: all backends are asked, and their answers fused"""
_CONTEXT_PACK = ("schema", "meta", "bundle_text", "items", "notes")


_NO_MUTATIONS = (
    "writes_observations",
    "writes_embeddings",
    "auto_archive_applied",
    "auto_mutation_applied",
    "hard_delete_applied",
)
"""what a pack never does to a memory"""


def _item(item: wire.PackItem) -> dict[str, Any]:
    ref = item["recordRef"]
    return {
        **item,
        "id": record_id(ref.removeprefix("obs:")),
        "summary": item["text"],
        "kind": item["type"],
        "lang": None,
    }


def _use(refs: list[str], at: str) -> Mapping[str, Any]:
    """That the memories of a pack count as used."""
    return {
        "kind": "openclaw-mem.pack.lifecycle-write.v1",
        "mode": "selected_pack_records_only",
        "status": "updated" if refs else "no_observation_refs",
        "ts": at,
        "selection": {
            "pack_selected_refs": refs,
            "refreshed_record_refs": refs,
            "skipped_record_refs": [],
            "missing_record_refs": [],
        },
        "mutation": dict.fromkeys(_NO_MUTATIONS, 0) | {"memory_mutation": "none"},
    }
