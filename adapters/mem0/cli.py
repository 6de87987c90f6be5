"""What mem0 can be told to do: ``fusion mem0 …`` and POST /v1/backends/mem0/…"""

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
"""that are followed back: a chain of them ends, and one that somebody else made may not"""


@dataclass(frozen=True)
class History:
    """Everything that became of a memory, oldest first: what it said, since when, and what it said before."""

    ref: Annotated[str, "As a block cites it; or an id of mem0's own."]

    async def __call__(self, mem0: Mem0 | Mem0Server, call: Call, /) -> Mapping[str, object]:
        ids = await self._ids(call, self.ref) or (self.ref,)
        told = [change for native_id in ids for change in await self._followed(mem0, call, native_id)]
        return {"ids": list(ids), "changes": told}

    async def _followed(self, mem0: Mem0 | Mem0Server, call: Call, native_id: str) -> list[dict[str, object]]:
        """The changes of a memory, behind those of what it took the place of, as far as that is still there."""
        changes, before = await mem0.history(native_id, call.scope)
        told = [{"id": native_id, **asdict(change)} for change in changes]
        seen = {native_id}
        while before is not None and before not in seen and len(seen) < MAX_VERSIONS:
            seen.add(before)
            if not (ids := await self._ids(call, before)):
                break
            try:
                changes, next_before = await mem0.history(ids[0], call.scope)
            except NotFound:
                break
            if told[0]["event"] == "ADD":
                told[0] |= {"event": "UPDATE", "was": changes[-1].memory}
            told[:0] = [{"id": ids[0], **asdict(change)} for change in changes]
            before = next_before
        return told

    async def _ids(self, call: Call, ref: str) -> tuple[str, ...]:
        """mem0's ids of a memory that the gateway knows; none where it does not."""
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
