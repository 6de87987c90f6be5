"""What memory_search and memory_get answer: the shapes of OpenClaw's memory tools (seed 001), over HTTP and MCP alike.

A search never fails an agent: where nobody answers it is an empty list that says so and what to do. A document that is
not there is an empty text, and so is every path that leads elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fusion.contract import Audience
from fusion.errors import FusionError
from fusion.lib.budget import clip
from fusion.recall.engine import Fused
from fusion.recall.pack import Member

Citations = Literal["auto", "on", "off"]

SNIPPET_CHARS = 700
"""of one result; memory_get has the rest"""
HEALTHY = frozenset({"ok", "empty", "skipped", "disabled"})
ACTION = "Answer without memory and say so; `fusion doctor` on the server's machine names what is wrong and its fix."


def searched(
    fused: Fused, *, limit: int, min_score: float, citations: Citations, audience: Audience, embedder: str | None
) -> dict[str, Any]:
    """The reply to a search that somebody answered, best first; ``embedder`` is the model's identity."""
    members = [member for memory in fused.memories for member in memory.members if member.score >= min_score]
    members.sort(key=lambda member: -member.score)
    signals = {row["ref"]: row["signals"] for row in (fused.explain or {}).get("candidates", ())}
    cited = citations == "on" or (citations == "auto" and audience == "private")
    provider, _, model = (embedder or "none/").rpartition("/")
    return {
        "results": [_result(member, signals.get(member.ref, {}), cited) for member in members[:limit]],
        "provider": provider or "local",
        "model": model.partition("@")[0] or None,
        "fallback": fallback(fused.backends),
        "degraded": fused.degraded,
        "notice": notice(fused),
    }


def _result(member: Member, signals: Mapping[str, float], cited: bool) -> dict[str, Any]:
    place = member.place
    path = place.document if place else member.ref
    start, end = (place.start, place.end) if place else (1, 1 + member.text.count("\n"))
    found = {
        "path": path,
        "startLine": start,
        "endLine": end,
        "score": member.score,
        "vectorScore": signals.get("dense"),
        "textScore": signals.get("bm25"),
        "snippet": clip(member.text, SNIPPET_CHARS),
        "source": "sessions" if member.kind == "turn" or (place and place.unit == "turn") else "memory",
        "citation": citation(path, start, end) if cited and place else path if cited else None,
        "ref": member.ref,
        "at": member.at,
        "speaker": member.speaker,
        "kind": member.kind,
        "trust": member.trust,
        "backends": member.backends,
    }
    return {name: value for name, value in found.items() if value is not None}


def citation(path: str, start: int, end: int) -> str:
    """``notes/database.md#L12-L14``; of one line ``#L12``."""
    return f"{path}#L{start}" + (f"-L{end}" if end != start else "")


def fallback(backends: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """The first memory system that did not answer, in whose stead the others did; None where all are well."""
    failed = next((row for row in backends if row["status"] not in HEALTHY), None)
    return {"from": failed["name"], "reason": failed["status"]} if failed else None


NOTICE_CHARS = 600
"""of what is wrong: a model's context has better uses"""


def notice(fused: Fused) -> str | None:
    """One line about what did not answer, or about why nothing was found."""
    silent = [row for row in fused.backends if row["status"] not in HEALTHY]
    if silent:
        return "Not all memories answered: " + ", ".join(f"{row['name']} ({row['status']})" for row in silent) + "."
    if fused.degraded and fused.notes:
        return clip("Not all is well: " + "; ".join(fused.notes), NOTICE_CHARS)
    return f"Nothing was found: {fused.abstained}." if fused.abstained and not fused.memories else None


def unavailable(error: FusionError) -> dict[str, Any]:
    """The reply to a search that nobody answered."""
    why = " ".join(str(error).split())
    return {
        "results": [],
        "disabled": True,
        "unavailable": True,
        "error": why,
        "warning": f"Memory is unavailable, so nothing was recalled: {why}",
        "action": ACTION,
    }


def read(page: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to memory_get for a page of a document."""
    more = {"truncated": True, "nextFrom": page["next_from"]} if page["truncated"] else {}
    return {"text": page["text"], "path": page["path"], "from": page["from"], "lines": page["lines"], **more}


def nothing(path: str) -> dict[str, Any]:
    """…and for everything that is no document of the caller's."""
    return {"text": "", "path": path}
