"""Context packs as openclaw-mem's command ``pack`` prints them, around the pack of `POST /v1/pack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.ids import record_id


def printed(pack: wire.PackReply) -> dict[str, Any]:
    """What the command prints: our reply, its items with their numbers, their citations, and the pack in its schema."""
    refs = [item["recordRef"] for item in pack["items"]]
    found: dict[str, Any] = {
        **pack,
        "items": [_item(item) for item in pack["items"]],
        "citations": [item["citations"] for item in pack["items"]],
        "context_pack": {name: pack[name] for name in _CONTEXT_PACK},  # type: ignore[literal-required]
        "query_lang": None,
        "fallback_triggered": False,
        "cross_lang_recovered": 0,
        "lifecycle_write": _use([ref for ref in refs if not ref.startswith("tail:")], pack["meta"]["ts"]),
    }
    if pack["trace"] is None:
        del found["trace"]
    return found


_CONTEXT_PACK = ("schema", "meta", "bundle_text", "items", "notes")


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
    }
