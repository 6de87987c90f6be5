"""What openclaw-mem's commands do, over the fused memory, and what they print with ``--json``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fusion import wire
from fusion.client import AsyncClient
from fusion.doors.compat.openclaw_mem import canonical, records
from fusion.doors.compat.openclaw_mem.ids import record_id, ref_of
from fusion.doors.compat.openclaw_mem.records import KINDS, Category
from fusion.errors import BadInput, NobodyAnswered, NotFound
from fusion.lib.envelope import is_private
from fusion.lib.listing import record_ref
from fusion.version import VERSION

PAGE = 100
"""memories that an export reads at once"""
MAX_RESULTS = 50
"""results of a search at most"""
KEPT = frozenset({"stored", "superseded", "duplicate"})


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory to store, in the words of openclaw-mem."""

    text: str
    category: Category = "fact"
    importance: float | None = None
    text_en: str | None = None
    lang: str | None = None
    tool_name: str = "memory_store"

    def draft(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """The request of `remember`."""
        said = records.about(category=self.category, tool_name=self.tool_name, text_en=self.text_en, lang=self.lang)
        draft = {
            "audience": "group",
            **scope,
            "text": self.text,
            "kind": KINDS[self.category],
            "raw_kind": self.category,
            "origin": "agent",
            "metadata": said,
        }
        return draft if self.importance is None else {**draft, "importance": self.importance}


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a search; it is degraded if a backend did not answer."""

    rows: list[dict[str, Any]]
    degraded: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The memory as openclaw-mem's clients see it, through a client of the gateway.

    ``scope`` has the fields that the door fixes, such as ``user_id``; ``all_users`` asks for everybody's memories.
    """

    client: AsyncClient
    scope: Mapping[str, Any]
    all_users: bool = False

    async def search(self, query: str, limit: int) -> Found:
        """The best memories of all backends, best first."""
        found = await self.client.memory_search(
            query, max_results=min(limit, MAX_RESULTS), all_users=self.all_users or None, **self.scope
        )
        if "error" in found:
            raise NobodyAnswered(found["error"], {})
        items = found["results"]
        memories = await asyncio.gather(*(self._known(item["ref"]) for item in items))
        lanes = records.lanes_of(items)
        rows = [records.search_row(item, memory, lanes) for item, memory in zip(items, memories, strict=True)]
        return Found(rows, found.get("degraded", False))

    async def get(self, ids: Sequence[str | int]) -> list[dict[str, Any]]:
        """The full rows of some records, by id; there is none for an id that names nothing."""
        return sorted(map(records.full_row, await self._found(ids)), key=lambda row: (row["id"] or 0, row["recordRef"]))

    async def observation(self, named: str | int) -> dict[str, Any] | None:
        """A record as the MCP tools return it."""
        found = await self._found([named])
        return records.observation(found[0]) if found else None

    async def store(self, memory: Stored) -> dict[str, Any]:
        """Keep a memory. The receipt says why if nothing was kept."""
        if not memory.text.strip():
            raise BadInput("empty text: say what to remember")
        if is_private(memory.text):
            return {"ok": False, "skipped": True, "reason": "private_marker"}
        [kept] = (await self.client.remember(memory.draft(self.scope)))["memories"]
        if kept["status"] not in KEPT:
            return {"ok": False, "skipped": True, "reason": kept["reason"] or kept["status"]}
        return {
            "ok": True,
            "id": record_id(kept["ref"]),
            "recordRef": record_ref(kept["ref"]),
            "file": None,
            "markdownPath": None,
            "markdownWriteStatus": "skipped:no_file_write",
            "embedded": False,
            "embedding_model": None,
            "embedding_provider": None,
            "kind": memory.category,
            "status": kept["status"],
        }

    async def plan_export(self) -> dict[str, Any]:
        """The receipt of a canonical export that writes nothing."""
        now = datetime.now(UTC)
        counts = (await self.client.status(**self.scope))["memories"]
        newest = (await self.client.memories(limit=1, **self.scope))["memories"]
        summary = canonical.Summary()
        for memory in newest:
            summary.add(records.full_row(memory))
        summary.count = counts["current"]
        return canonical.planned(summary, canonical.name_of(now), now)

    async def export(self, folder: Path) -> dict[str, Any]:
        """Write a canonical export of the current memories into a new folder below ``folder``."""
        return await canonical.written(self._rows(), folder, datetime.now(UTC))

    async def _rows(self) -> AsyncIterator[dict[str, Any]]:
        """The full rows of all current memories, newest first."""
        cursor = None
        while True:
            page = await self.client.memories(limit=PAGE, cursor=cursor, **self.scope)
            for memory in page["memories"]:
                yield records.full_row(memory)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def _found(self, ids: Sequence[str | int]) -> list[wire.StoredMemory]:
        found = await asyncio.gather(*(self._memory(ref) for ref in dict.fromkeys(map(ref_of, ids))))
        return [memory for memory in found if memory is not None]

    async def _known(self, ref: str) -> wire.StoredMemory | None:
        """What is known of a result; None while its external system does not answer."""
        try:
            return await self._memory(ref)
        except NobodyAnswered:
            return None

    async def _memory(self, ref: str) -> wire.StoredMemory | None:
        """A memory, or None if there is none."""
        try:
            return await self.client.memory(ref, **self.scope)
        except NotFound:
            return None


def envelope(kind: str, version: str, **members: Any) -> dict[str, Any]:
    """A receipt of a command: what it is, when, of which program."""
    named = {"openclaw_mem": f"memory-fusion {VERSION}", "schema": version}
    return {"kind": f"openclaw-mem.{kind}.{version}", "ts": datetime.now(UTC).isoformat(), "version": named, **members}
