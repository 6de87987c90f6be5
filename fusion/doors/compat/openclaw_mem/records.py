"""Memories as the records of openclaw-mem: full rows, rows of a search, and observations of its MCP tools.

A record's ``kind`` is the category that its caller stored it with; its ``tool_name`` says what wrote it. Both are in
the memory's metadata, because the gateway has other kinds. A memory that came in by another door has its own kind, and
its source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from fusion import wire
from fusion.contract import Kind
from fusion.doors.compat.openclaw_mem.ids import record_id
from fusion.doors.schemas.proposals import KIND_OF, Category
from fusion.lib.budget import clip
from fusion.lib.importance import label_of
from fusion.lib.listing import record_ref

SNIPPET_CHARS = 240
"""characters of a text in a list of results"""
ABOUT = "openclaw_mem"
"""the member of a memory's metadata that has what its caller said in the words of openclaw-mem"""


def kind_named(word: str) -> Kind:
    """The kind of a memory for a category or another word of a caller; a note for one that is unknown."""
    if word in KIND_OF:
        return KIND_OF[cast("Category", word)]
    return cast("Kind", word) if word in get_args(Kind) else "note"


def about(**said: object) -> dict[str, Any]:
    """The metadata of a memory with what its caller said: category, tool_name, text_en, lang, …"""
    return {ABOUT: {name: value for name, value in said.items() if value is not None}}


def full_row(memory: wire.StoredMemory) -> dict[str, Any]:
    """A record as ``get`` and ``timeline`` print it; ``detail_json`` is a text, as the column of a database is."""
    return {**_head(memory), "detail_json": json.dumps(detail_of(memory), ensure_ascii=False)}


def observation(memory: wire.StoredMemory, *, max_chars: int | None = None) -> dict[str, Any]:
    """A record as the MCP tools return it; its text is cut after ``max_chars``."""
    head = _head(memory)
    if max_chars is not None:
        head["summary"] = clip(head["summary"], max_chars)
    return {**head, "detail": detail_of(memory)}


def search_row(item: wire.ToolSearchItem, memory: wire.StoredMemory | None, lanes: Mapping[str, int]) -> dict[str, Any]:
    """A row of a search. ``score`` is negative, because lower is better there; ``final_score`` is not."""
    said = _said(memory)
    importance, used = (None, 0) if memory is None else (_importance(memory), memory.get("included", 0))
    score = round(item["score"], 6)
    return {
        "id": record_id(item["ref"]),
        "recordRef": record_ref(item["ref"]),
        "ts": _when(memory) if memory is not None else item.get("at"),
        "kind": said.get("category") or item["kind"],
        "tool_name": _tool(memory),
        "summary": clip(item["snippet"], SNIPPET_CHARS),
        "summary_en": said.get("text_en"),
        "lang": said.get("lang"),
        "snippet": clip(item["snippet"], SNIPPET_CHARS),
        "snippet_en": said.get("text_en") or "",
        "score": -score,
        "lanes_used": item["backends"],
        "score_components": {
            "relevance": score,
            "importance_label": label_of(importance),
            "used_count": used,
            "state": "active",
            "final": score,
        },
        "final_score": score,
        "query_lang": None,
        "lane_hits": dict(lanes),
        "fallback_triggered": False,
        "cross_lang_recovered": 0,
    }


def lanes_of(items: Sequence[wire.ToolSearchItem]) -> dict[str, int]:
    """How many results words found, and how many vectors, under openclaw-mem's names of its lanes."""
    words = sum(item.get("textScore", 0.0) > 0 for item in items)
    vectors = sum(item.get("vectorScore", 0.0) > 0 for item in items)
    return {"fts_original": words, "fts_en": 0, "cjk_like": 0, "trigram": 0, "vector": vectors, "vector_en": 0}


def kind_of(memory: wire.StoredMemory) -> str:
    """The kind of a record: the category that its caller said, else the memory's kind."""
    return str(_said(memory).get("category") or memory["kind"])


def detail_of(memory: wire.StoredMemory) -> dict[str, Any]:
    """What is known of a record besides: its importance, use, trust and source, and what its caller said."""
    detail: dict[str, Any] = {name: value for name, value in _said(memory).items() if name not in _COLUMNS}
    if graded := memory.get("grade"):
        detail["importance"] = dict(graded)
    if used := memory.get("included", 0):
        detail["lifecycle"] = {"last_used_at": memory.get("last_included_at"), "used_count": used}
    detail["trust"] = memory["trust"]
    if stated := memory.get("provenance"):
        detail["provenance"] = dict(stated)
    if memory["document"]:
        detail["document"] = memory["document"]
    return detail


_COLUMNS = frozenset({"category", "tool_name", "text_en", "lang"})
"""what a caller said that has a column of its own"""


def _head(memory: wire.StoredMemory) -> dict[str, Any]:
    said = _said(memory)
    return {
        "id": record_id(memory["ref"]),
        "recordRef": record_ref(memory["ref"]),
        "ts": _when(memory),
        "kind": kind_of(memory),
        "summary": memory["text"],
        "summary_en": said.get("text_en"),
        "lang": said.get("lang"),
        "tool_name": _tool(memory),
    }


def _said(memory: wire.StoredMemory | None) -> Mapping[str, Any]:
    """What the caller of a memory said in the words of openclaw-mem. Its metadata may have anything under this name."""
    found = {} if memory is None else memory.get("metadata", {}).get(ABOUT, {})
    return found if isinstance(found, Mapping) else {}


def _tool(memory: wire.StoredMemory | None) -> str | None:
    if memory is None:
        return None
    return _said(memory).get("tool_name") or memory["source"] or memory["origin"]


def _when(memory: wire.StoredMemory) -> str | None:
    return memory["at"] or memory["recorded_at"]


def _importance(memory: wire.StoredMemory) -> float | None:
    score: float | None = memory.get("state", {}).get("importance")
    return score
