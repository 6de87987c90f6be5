"""`fusion ingest`: files → memories → the gateway, in batches, with a bar; what is known already is a no-op.

Nothing is written down here about how far it got: each memory has a natural key (its file and its place in it), so a
run that was broken off is resumed by running it again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from typing_extensions import TypedDict

from fusion.errors import Overloaded, StoreBusy

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.contract import Place
    from fusion.ingest.intake import NewMemory

BATCH = 100
BATCH_BYTES = 200_000
"""of a request's body; the server takes 262,144 unless told otherwise"""
SETTLE_S = 2.0
"""between two looks at how far the backends are"""
ATTEMPTS = 8


class Summary(TypedDict):
    """What came of the files. ``skipped`` counts by reason; ``settled`` is None when nobody waited."""

    dry_run: bool
    files: int
    read: int
    stored: int
    superseded: int
    duplicates: int
    redacted: int
    skipped: dict[str, int]
    settled: bool | None


class Advance(Protocol):
    """Tells a bar how far the work is."""

    def __call__(self, completed: int, total: int | None = None) -> None: ...


async def send(
    client: AsyncClient, memories: Sequence[NewMemory], scope: Mapping[str, str], advance: Advance
) -> Counter[str]:
    """Hands memories to the gateway, in their order; how many became what, by status."""
    told: Counter[str] = Counter()
    for batch in batches([wire_form(memory, scope) for memory in memories]):
        reply = await _patiently(client, batch)
        told.update(row["status"] for row in reply)
        told["redacted"] += sum(row["redacted"] for row in reply)
        advance(sum(told[status] for status in _STATUSES))
    return told


_STATUSES = ("stored", "superseded", "duplicate", "blocked", "skipped")


async def _patiently(client: AsyncClient, batch: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Sends one batch; a server that is busy is asked again when it says. Sending twice is safe: keys are natural."""
    for _ in range(ATTEMPTS):
        try:
            return (await client.remember(batch))["memories"]
        except (Overloaded, StoreBusy) as busy:
            await asyncio.sleep(busy.retry_after_s)
    return (await client.remember(batch))["memories"]


async def settle(client: AsyncClient, advance: Advance) -> bool:
    """Waits until every backend has everything and the vectors are there; what is left can only shrink."""
    most = 0
    while True:
        reply = await client.settle(SETTLE_S)
        left = max((state["backlog"] + state["vectors_pending"] for state in reply["backends"]), default=0)
        most = max(most, left)
        advance(most - left, most)
        if reply["settled"]:
            return True


def batches(items: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Runs of at most `BATCH` items and `BATCH_BYTES` bytes of JSON; an item larger than that goes alone."""
    batch: list[dict[str, Any]] = []
    size = 0
    for item in items:
        grown = len(orjson.dumps(item)) + 1
        if batch and (len(batch) == BATCH or size + grown > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += grown
    if batch:
        yield batch


def wire_form(memory: NewMemory, scope: Mapping[str, str]) -> dict[str, Any]:
    """A memory as `POST /v1/memories` takes it; ``scope`` wins over what its file says."""
    found = {
        "text": memory.text,
        **memory.scope.named(),
        "project": memory.scope.project,
        "audience": memory.scope.audience,
        "kind": memory.kind,
        "raw_kind": memory.raw_kind,
        "speaker": memory.speaker,
        "at": None if memory.at is None else asdict(memory.at),
        "source": memory.source,
        "revision": memory.revision or None,
        "origin": memory.origin,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "supersedes": memory.supersedes,
        **_where(memory.place),
    }
    return {name: value for name, value in (found | dict(scope)).items() if value is not None}


def _where(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {"document": place.document, "position": place.start, "end": place.end, "unit": place.unit}
