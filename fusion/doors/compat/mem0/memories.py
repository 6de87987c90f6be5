"""What mem0's calls do, over the fused memory, and what they return."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion import wire
from fusion.client import AsyncClient
from fusion.doors.compat.mem0 import records
from fusion.doors.compat.mem0.records import Versions
from fusion.doors.compat.mem0.requests import USEFUL, Filter, filter_of, owner_of
from fusion.doors.quarantine import is_quarantined
from fusion.errors import BadInput, FusionError, NobodyAnswered, NotFound

PAGE = 100
"""memories that a list reads at once"""
MAX_LISTED = 10_000
"""the newest memories that a list goes through and counts"""
MAX_RESULTS = 50
"""results of a search at most"""
MAX_VERSIONS = 100
"""versions of one memory that are followed; older ones are not shown"""
BEGINNING = "1970-01-01T00:00:00Z"
"""before every memory was recorded"""
EVENTS: Mapping[str, str] = {"stored": "ADD", "superseded": "UPDATE", "duplicate": "NONE"}
"""mem0's word for what became of a message; one that is blocked or has no text left is not in the reply"""
NO_ANSWER = (
    "Feedback here is on a memory of an answer, and no answer that is still known had this one; search for it first"
)
NO_OWNER = "Say whose memories to delete: user_id, agent_id or run_id. All of a home's are not deleted at this door"


@dataclass(frozen=True, slots=True)
class Memories:
    """The memory as mem0's clients see it, through a client of the gateway."""

    client: AsyncClient

    async def add(self, drafts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Remember messages; the results say what became of each that was kept."""
        kept = await self.client.remember(drafts) if drafts else {"memories": []}
        results = []
        for draft, outcome in zip(drafts, kept["memories"], strict=True):
            if outcome["status"] in EVENTS:
                id_ = outcome["ref"] if outcome["status"] == "stored" else await self._id(outcome["ref"])
                event = EVENTS[outcome["status"]]
                results.append({"id": id_, "memory": draft["text"], "event": event, "actor_id": draft["speaker"]})
        return {"results": results}

    async def search(self, query: str, which: Filter, *, limit: int, threshold: float) -> dict[str, Any]:
        """The best memories of all backends for a query, best first. Raises NobodyAnswered."""
        wanted = min(limit, MAX_RESULTS)
        found = await self.client.memory_search(
            query,
            max_results=MAX_RESULTS if which.metadata else wanted,
            min_score=threshold,
            all_users=which.any_owner or None,
            **which.owners,
        )
        if "error" in found:
            raise NobodyAnswered(found["error"], {})
        results = await asyncio.gather(*(self._found(item, which) for item in found["results"]))
        return {"results": [one for one in results if one is not None][:wanted]}

    async def all(self, which: Filter, *, page: int, size: int) -> dict[str, Any]:
        """A page of the memories of owners, newest first, and how many there are."""
        listed = [memory async for memory in self._listed(which)]
        shown = listed[(page - 1) * size : page * size]
        rows = await asyncio.gather(*(self._record(memory["ref"]) for memory in shown))
        return {"count": len(listed), "results": [row for row in rows if row is not None]}

    async def get(self, id_: str) -> dict[str, Any]:
        """A memory by the id of any of its versions. Raises NotFound, also for one that is quarantined."""
        return records.record(await self._readable(id_))

    async def update(self, id_: str, **changes: Any) -> dict[str, Any]:
        """Replace a memory by a new version, which keeps its id. Raises NotFound and BadInput."""
        now = (await self._readable(id_))[-1]
        await self.client.update(now["ref"], **changes)
        return {**await self.get(id_), "message": "Memory updated successfully!"}

    async def delete(self, id_: str) -> dict[str, Any]:
        """Forget a memory with its earlier versions, in every backend. Raises NotFound."""
        versions = await self._versions(id_)
        await self.client.forget(versions[-1]["ref"])
        return {"message": "Memory deleted successfully!"}

    async def delete_all(self, which: Filter) -> dict[str, Any]:
        """Forget all memories of the named owners, and of nobody else. Raises BadInput without an owner."""
        if not which.owners or which.any_owner:
            raise BadInput(NO_OWNER)
        if which.metadata:
            raise BadInput("delete_all takes owners alone; delete by id what has certain metadata")
        more = True
        while more:
            reply = await self.client.forget_many(after=BEGINNING, time="recorded", **which.owners)
            more = reply["more"]
        return {"message": "Memories deleted successfully!"}

    async def update_each(self, changes: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
        """Replace memories by new versions, by id: all, or none. Raises NotFound, and BadInput for a refused change."""
        refs = [(await self._readable(id_))[-1]["ref"] for id_, _ in changes]
        if len(set(refs)) < len(refs):
            raise BadInput("memories: the same memory is there twice, by two of its ids")
        batches: list[str | None] = []
        try:
            for ref, (_, change) in zip(refs, changes, strict=True):
                batches.append((await self.client.update(ref, **change))["batch"])
        except (FusionError, asyncio.CancelledError):
            await self._undo(batches)
            raise
        return {"message": f"Successfully updated {len(changes)} memories"}

    async def _undo(self, batches: Sequence[str | None]) -> None:
        """Take updates back, the last one first; None is one that changed nothing."""
        for batch in reversed(batches):
            if batch is not None:
                await self.client.undo(batch)

    async def delete_each(self, ids: Sequence[str]) -> dict[str, Any]:
        """Forget memories with their earlier versions, by id. Raises NotFound before any is forgotten."""
        refs = dict.fromkeys([(await self._versions(id_))[-1]["ref"] for id_ in ids])
        for ref in refs:
            await self.client.forget(ref)
        return {"message": f"Successfully deleted {len(refs)} memories"}

    async def entities(self) -> dict[str, Any]:
        """The users, agents and runs that have memories, with how many, the latest first."""
        return records.entities([memory async for memory in self._listed(Filter())])

    async def delete_entity(self, kind: str, name: str) -> dict[str, Any]:
        """Forget all memories of one user, agent or run. Raises BadInput, and NotFound if none has that name."""
        which = filter_of({owner_of(kind): name})
        if which.any_owner:
            raise BadInput(NO_OWNER)
        if not [memory async for memory in self._listed(which)]:
            raise NotFound(f"there is no {kind} {name!r} with memories here")
        await self.delete_all(which)
        return {"message": "Entity deleted successfully!"}

    async def history(self, id_: str) -> list[dict[str, Any]]:
        """The changes of a memory, the oldest first. Raises NotFound."""
        return records.history(await self._versions(id_))

    async def feedback(self, id_: str, verdict: str) -> dict[str, Any]:
        """Keep whether a memory was useful in the last answer with it. Raises NotFound, and BadInput without one."""
        versions = await self._readable(id_)
        for version in reversed(versions):
            inclusions = (await self.client.why(version["ref"], limit=1))["inclusions"]
            if inclusions:
                useful, useless = ([version["ref"]], []) if verdict == USEFUL else ([], [version["ref"]])
                await self.client.feedback(inclusions[0]["receipt_id"], useful=useful, useless=useless, merge=True)
                return {"id": records.id_of(versions), "feedback": verdict, "feedback_reason": None}
        raise BadInput(NO_ANSWER)

    async def _found(self, item: wire.ToolSearchItem, which: Filter) -> dict[str, Any] | None:
        """A result of a search; None if its metadata does not fit, or if it is not there any more."""
        try:
            versions = await self._readable(item["ref"])
        except NotFound:
            return None
        except NobodyAnswered:
            return None if which.metadata else records.bare_record(item)
        return records.found_record(versions, item) if which.fits(records.metadata_of(versions[-1])) else None

    async def _record(self, ref: str) -> dict[str, Any] | None:
        """A memory of a list; None if it was forgotten meanwhile."""
        try:
            return await self.get(ref)
        except NotFound:
            return None

    async def _listed(self, which: Filter) -> AsyncIterator[wire.StoredMemory]:
        """The current memories that fit a filter, newest first."""
        cursor, seen = None, 0
        while seen < MAX_LISTED:
            page = await self.client.memories(limit=PAGE, cursor=cursor, **which.owners)
            for memory in page["memories"]:
                if not is_quarantined(memory) and which.fits(records.metadata_of(memory)):
                    yield memory
            seen, cursor = seen + PAGE, page["next_cursor"]
            if cursor is None:
                return

    async def _id(self, ref: str) -> str:
        return records.id_of(await self._versions(ref))

    async def _readable(self, id_: str) -> Versions:
        """The versions of a memory that may be shown. Raises NotFound."""
        versions = await self._versions(id_)
        if is_quarantined(versions[-1]):
            raise NotFound(f"there is no memory {id_!r} here")
        return versions

    async def _versions(self, id_: str) -> Versions:
        """All versions of a memory, the oldest first, by the id of any; the last is current. Raises NotFound."""
        now = await self.client.memory(id_)
        for _ in range(MAX_VERSIONS):
            if now.get("current", True):
                break
            newer = (await self.client.why(now["ref"], limit=1))["superseded_by"]
            if newer is None:
                raise NotFound(f"there is no memory {id_!r} here: its file has it no more")
            now = await self.client.memory(newer)
        versions = [now]
        while (older := versions[0].get("supersedes")) and len(versions) < MAX_VERSIONS:
            try:
                versions.insert(0, await self.client.memory(older))
            except NotFound:
                break
        return versions
