"""The results of memory_search and memory_get in the shapes of OpenClaw's memory tools, for HTTP and MCP.

A search never fails an agent: when no backend answers, the result is an empty list with the reason and what to do. The
text of a document that does not exist is empty, and so is that of every path outside the notes.
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
"""characters of one result; memory_get has the rest"""
NOTICE_CHARS = 600
"""maximum characters of a notice: a model's context has better uses"""
HEALTHY = frozenset({"ok", "empty", "skipped", "disabled"})
ACTION = "Answer without memory and say so; `fusion doctor` on the server's machine names what is wrong and its fix."


def search_result(
    fused: Fused, *, limit: int, min_score: float, citations: Citations, audience: Audience, embedder: str | None
) -> dict[str, Any]:
    """The result of a search that at least one backend answered, best first; ``embedder`` is the model's identity."""
    members = [member for memory in fused.memories for member in memory.members if member.score >= min_score]
    members.sort(key=lambda member: -member.score)
    signals = {row["ref"]: row["signals"] for row in (fused.explain or {}).get("candidates", ())}
    cited = citations == "on" or (citations == "auto" and audience == "private")
    provider, _, model = (embedder or "none/").rpartition("/")
    return {
        "results": [_search_item(member, signals.get(member.ref, {}), cited) for member in members[:limit]],
        "provider": provider or "local",
        "model": model.partition("@")[0] or None,
        "fallback": fallback(fused.backends),
        "degraded": fused.degraded,
        "notice": notice(fused),
    }


def _search_item(member: Member, signals: Mapping[str, float], cited: bool) -> dict[str, Any]:
    place = member.place
    path = place.document if place else member.ref
    start, end = (place.start, place.end) if place else (1, 1 + member.text.count("\n"))
    result = {
        "path": path,
        "startLine": start,
        "endLine": end,
        "score": member.score,
        "probability": member.probability,
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
    return {name: value for name, value in result.items() if value is not None}


def citation(path: str, start: int, end: int) -> str:
    """``notes/database.md#L12-L14``; for one line ``#L12``."""
    return f"{path}#L{start}" + (f"-L{end}" if end != start else "")


def fallback(backends: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """The first backend that failed, and why; None when none did."""
    failed = next((row for row in backends if row["status"] not in HEALTHY), None)
    return {"from": failed["name"], "reason": failed["status"]} if failed else None


def notice(fused: Fused) -> str | None:
    """One line about what did not answer, or about why nothing was found."""
    if problem := problems(fused.backends, fused.notes if fused.degraded else ()):
        return problem
    return f"Nothing was found: {fused.abstained}." if fused.abstained and not fused.memories else None


def problems(backends: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str | None:
    """One line of at most `NOTICE_CHARS` about the backends that failed, or else about what is degraded."""
    failed = [row for row in backends if row["status"] not in HEALTHY]
    if failed:
        return "Not all memories answered: " + ", ".join(f"{row['name']} ({row['status']})" for row in failed) + "."
    return clip("Not all is well: " + "; ".join(notes), NOTICE_CHARS) if notes else None


def unavailable_result(error: FusionError) -> dict[str, Any]:
    """The result of a search that no backend answered."""
    why = " ".join(str(error).split())
    return {
        "results": [],
        "disabled": True,
        "unavailable": True,
        "error": why,
        "warning": f"Memory is unavailable, so nothing was recalled: {why}",
        "action": ACTION,
    }


def page_result(page: Mapping[str, Any]) -> dict[str, Any]:
    """The result of memory_get for a page of a document."""
    more = {"truncated": True, "nextFrom": page["next_from"]} if page["truncated"] else {}
    return {"text": page["text"], "path": page["path"], "from": page["from"], "lines": page["lines"], **more}


def empty_result(path: str) -> dict[str, Any]:
    """The result of memory_get for a path that is no document of the caller."""
    return {"text": "", "path": path}
