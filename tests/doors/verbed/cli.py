"""What a `Verbed` can be told to do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fusion.contract import Event, Query
from fusion.errors import BadInput, StoreFull
from fusion.extension import Call, Lines


@dataclass(frozen=True)
class Count:
    """Count to a number."""

    to: Annotated[int, "How far."]
    twice: Annotated[bool, "Say everything twice."] = False
    fail_at: Annotated[int | None, "Where the disk is full."] = None

    def __post_init__(self) -> None:
        if self.to < 0:
            raise BadInput("to: count to 0 or more")

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        for number in range(self.to):
            if number == self.fail_at:
                raise StoreFull("no space left")
            call.progress(number, self.to)
            for _ in range(1 + self.twice):
                await call.line(f"{number} é")
        return {"counted": self.to}


@dataclass(frozen=True)
class Keep:
    """Remember each line."""

    lines: Annotated[Lines, "What to remember, one a line."]

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        drafts = [Event("", line, call.now) for line in self.lines]
        kept = await call.gateway.remember(drafts)
        await call.gateway.settle()
        return {"calls": 1, "kept": [event_id for event_id, _ in kept]}


@dataclass(frozen=True)
class Look:
    """What is there in the caller's scope."""

    query: str
    kinds: tuple[str, ...] = ()

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        hits = await backend.search(Query(self.query, call.scope, call.now))
        return {"found": [hit.text for hit in hits], "kinds": self.kinds}

    def render(self, result: Any) -> str:
        return " and ".join(result["found"]) or "nothing"


@dataclass(frozen=True)
class Drop:
    """Forget one memory."""

    ref: str

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        return dict(await call.gateway.forget(self.ref))


@dataclass(frozen=True)
class Sweep:
    """Work on all memories of all owners."""

    operates: ClassVar[Literal[True]] = True

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        return {"swept": True}


class Endless:
    """What is under way: ``begun`` and ``cancelled`` say how an endless verb fares."""

    begun = asyncio.Event()
    cancelled = asyncio.Event()


@dataclass(frozen=True)
class Wait:
    """Never end."""

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        call.progress(0, None)
        Endless.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            Endless.cancelled.set()
        return {}


@dataclass(frozen=True)
class Consult:
    """Ask all memories, this backend alone, and the language model."""

    asks: ClassVar[Literal[True]] = True

    query: str
    whom: Annotated[str | None, "The user to ask for, if the caller names none."] = None
    most: Annotated[int, "Results at most."] = 5

    async def __call__(self, backend: Any, call: Call) -> Mapping[str, object]:
        fused = await call.gateway.fuse(self.query, user_id=self.whom, max_results=self.most, timeout_ms=60_000)
        found = await call.gateway.search(self.query, user_id=self.whom, limit=self.most)
        return {
            "block": fused["block"],
            "members": [member["text"] for one in fused["memories"] for member in one["members"]],
            "receipt_id": fused["receipt_id"],
            "backends": [row["name"] for row in fused["backends"]],
            "found": [hit["text"] for hit in found["hits"]],
            "asked": found["backend"]["name"],
            "said": await call.gateway.complete("Answer in one word.", fused["block"], 100),
        }


VERBS = {"count": Count, "keep": Keep, "look": Look, "drop": Drop, "sweep": Sweep, "wait": Wait, "consult": Consult}
