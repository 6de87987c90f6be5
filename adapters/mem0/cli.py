"""The verbs of mem0: ``fusion mem0 …`` and POST /v1/backends/mem0/…"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fusion.errors import NotFound
from fusion.extension import Call

if TYPE_CHECKING:
    from adapters.mem0.backend import Mem0
    from adapters.mem0.server import Mem0Server

MAX_VERSIONS = 1000
"""maximum predecessors that are followed; a chain made by another program may be circular"""


@dataclass(frozen=True)
class History:
    """All changes of a memory, oldest first: its text, the time, and its text before."""

    ref: Annotated[str, "As a block cites it; or an id of mem0's own."]

    async def __call__(self, mem0: Mem0 | Mem0Server, call: Call, /) -> Mapping[str, object]:
        ids = await self._ids(call, self.ref) or (self.ref,)
        found = [change for native_id in ids for change in await self._followed(mem0, call, native_id)]
        return {"ids": list(ids), "changes": found}

    async def _followed(self, mem0: Mem0 | Mem0Server, call: Call, native_id: str) -> list[dict[str, object]]:
        """The changes of a memory, after those of the memories that it superseded, as far as these still exist."""
        changes, before = await mem0.history(native_id, call.scope)
        found = [{"id": native_id, **asdict(change)} for change in changes]
        seen = {native_id}
        while before is not None and before not in seen and len(seen) < MAX_VERSIONS:
            seen.add(before)
            if not (ids := await self._ids(call, before)):
                break
            try:
                changes, next_before = await mem0.history(ids[0], call.scope)
            except NotFound:
                break
            if found[0]["event"] == "ADD":
                found[0] |= {"event": "UPDATE", "was": changes[-1].memory}
            found[:0] = [{"id": ids[0], **asdict(change)} for change in changes]
            before = next_before
        return found

    async def _ids(self, call: Call, ref: str) -> tuple[str, ...]:
        """mem0's ids of a memory of the gateway; empty for any other."""
        try:
            return tuple(await call.gateway.ids(ref))
        except NotFound:
            return ()

    def render(self, result: Any) -> str:
        return "\n".join(map(_line, result["changes"])) or "nothing"


def _line(change: Mapping[str, Any]) -> str:
    text = "(not known)" if change["memory"] is None else change["memory"]
    was = f"   (was: {change['was']})" if change["was"] else ""
    return f"{change['at'] or 'at no known time'}  {change['event']:<6}  {text}{was}"


VERBS = {"history": History}
