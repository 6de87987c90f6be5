"""The asynchronous backend of mem0, over its library in process or on a Qdrant server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from typing import ParamSpec, Self, TypeVar

from adapters.index.backfill import Backfill
from adapters.index.encode import BestEffortEmbedding, memory_vectors
from adapters.mem0.embedded import EmbeddedMem0
from adapters.mem0.options import Options
from adapters.mem0.replies import Change
from adapters.mem0.shared_qdrant import Plain
from adapters.options import EMBEDDED_FEATURES, FULL_FEATURES, read, verified
from adapters.qdrant.collection import note
from fusion.contract import Description, Embedder, Event, Extracted, Forgotten, Hit, Opening, Query, Scope
from fusion.errors import BackendError, PackageMissing, SettingsError

BATCH = 32
"""memories embedded and stored at a time; in between, searches run on the thread"""

P = ParamSpec("P")
T = TypeVar("T")


THREADS = 8
"""threads that query a server in parallel; a local folder uses one"""


class Mem0:
    """Remembers events in mem0. The native id of a memory is its event's id, unless mem0 derived the memory."""

    def __init__(
        self, shelf: EmbeddedMem0 | Plain, worker: ThreadPoolExecutor, embedder: Embedder | None, options: Options
    ) -> None:
        shared = replace(FULL_FEATURES, tenants=False, tenant=options.tenant, no_user=False)
        self.features = shared if options.url else EMBEDDED_FEATURES
        self._options = options
        self._shelf = shelf
        self._worker = worker
        self._embedder = embedder
        self._backfill = Backfill("mem0", self._fill_some)
        self._embedding = BestEffortEmbedding("mem0")
        self._closed = False

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str | None:
        """Check that it is installed, its options are valid, and its key exists."""
        for package in ("mem0", "qdrant_client"):
            if find_spec(package) is None:
                raise PackageMissing(f"the mem0 backend needs {package}: pip install '/path/to/checkout[mem0]'")
        chosen = verified(Options, options).resolved(options)
        if not chosen.url:
            return None
        return f"the library, at {chosen.url}, {'with' if chosen.headers() else 'without'} a key"

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreBusy`` when another process has the folder.

        A Qdrant server is not asked yet: one that is down now may be up at the first question.
        """
        options = read(Options, opening).resolved(opening.options)
        shelf, threads = _shelf(opening, options)
        self = cls(shelf, ThreadPoolExecutor(threads, f"{opening.name}-mem0"), opening.embedder, options)
        try:
            await self._run(shelf.open)
        except BaseException:
            self._worker.submit(shelf.close)  # after the opening, if that still runs: it must not keep the lock
            self._worker.shutdown(wait=False)
            raise
        self._fill()
        return self

    async def search(self, query: Query) -> Sequence[Hit]:
        if not query.text.strip() or query.limit < 1:
            return []
        vector = await self._embedding.query_vector(self._embedder, query.text)
        return await self._run(self._shelf.search, query, vector)

    def accepts(self, event: Event) -> bool:
        """Refuse blank events, which mem0 never finds, and those of other tenants if tenants are not separated."""
        ours = self.features.tenants or event.scope.tenant == self.features.tenant
        return ours and bool(event.text.strip())

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        events = [extracted.event for extracted in batch]
        if self._options.infer and isinstance(self._shelf, Plain):
            return [await self._run(self._shelf.infer, event) for event in events]
        for start in range(0, len(events), BATCH):
            new = await self._run(self._shelf.missing, events[start : start + BATCH])
            if new:
                vectors = await self._embedding.vectors(self._embedder, [(e.text, e.speaker) for e in new])
                await self._run(self._shelf.store, new, vectors)
        self._fill()
        return [(event.event_id,) for event in events]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        return "deleted" if await self._run(self._shelf.delete, {event_id, *native_ids}) else "absent"

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        """Only for a local folder; a server also has memories of other programs."""
        return await self._run(self._shelf.held, after, limit)

    async def count(self) -> int | None:
        return await self._run(self._shelf.count)

    @property
    def has_files(self) -> bool:
        return False

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        gone = await self._run(self._shelf.delete_all, [{event_id, *native_ids} for event_id, native_ids in items])
        return ["deleted" if one else "absent" for one in gone]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        return await self._run(self._shelf.neighbours, [hit.native_id for hit in hits], span)

    async def history(self, native_id: str, scope: Scope) -> tuple[Sequence[Change], str | None]:
        """A memory's changes, oldest first, and the event that it took the place of. Raises NotFound."""
        return await self._run(self._shelf.history, native_id, scope)

    async def describe(self) -> Description:
        try:
            items, pending = await self._run(self._shelf.counts)
        except BackendError as error:
            return Description(notes=(note(error, self._options.url),), degraded=True)
        fault = self._embedding.fault or (pending and self._backfill.error)
        notes = []
        if isinstance(self._shelf, EmbeddedMem0) and self._shelf.refused:
            notes.append(
                f"Points of an earlier version were not read, because they are damaged or no points: see "
                f"{', '.join(self._shelf.refused)} in mem0's folder. The journal has filled mem0 again; what did not "
                "come through the journal is in there alone. Fix: move the folder away when you do not need it"
            )
        if self._embedder is None:
            notes.append(
                "No embedding model: mem0 is searched by words only, and what is stored now gets its vectors "
                "when the model is there. Fix: configure [embedder]."
            )
        elif pending and fault:
            notes.append(f"{pending} memories wait for their vectors and are found by their words only: {fault}")
        return Description(items, items - pending, pending, tuple(notes), bool(fault))

    async def check(self) -> str | None:
        """Read every memory of a local folder. Raises StoreDamaged with the fix."""
        if isinstance(self._shelf, EmbeddedMem0):
            await asyncio.to_thread(self._shelf.require_sound)
            after: int | None = 0
            while after is not None:
                after = await self._run(self._shelf.check_some, after)
        return None

    async def settle(self) -> None:
        """Raises the error that prevents computing the vectors."""
        if self._embedder is not None and self._shelf.pending:
            await self._backfill.settle()
        if self._backfill.error is not None:
            raise self._backfill.error

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._backfill.close()
        await self._run(self._shelf.close)
        self._worker.shutdown(wait=False)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` on mem0's thread. Cancelled while waiting, it never runs; later, it runs to its end."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: work(*args, **kwargs))

    def _fill(self) -> None:
        """Start to compute missing vectors."""
        if self._embedder is not None and self._shelf.pending:
            self._backfill.start()

    async def _fill_some(self) -> bool:
        waiting = await self._run(self._shelf.waiting, BATCH)
        if self._embedder is None or not waiting:
            return False
        vectors = await memory_vectors(self._embedder, [(hit.text, hit.speaker) for hit in waiting])
        self._embedding.fault = None
        await self._run(self._shelf.move, [hit.native_id for hit in waiting], vectors)
        return True


def _shelf(opening: Opening, options: Options) -> tuple[EmbeddedMem0 | Plain, int]:
    """The store of the memories, and the number of its threads. Raises SettingsError if something is missing."""
    where, loop, embedder = f"[backends.{opening.name}]", asyncio.get_running_loop(), opening.embedder
    if not options.url and not options.infer:
        return EmbeddedMem0(opening.folder, options.collection, embedder, loop), 1
    if embedder is None:
        raise SettingsError(f"{where} mem0 on a server, or with infer, needs an embedding model: configure [embedder]")
    if options.infer and opening.model is None:
        raise SettingsError(f"{where} infer = true needs a language model: configure [model], or leave infer out")
    if options.dimensions and embedder.dimensions != options.dimensions:
        raise SettingsError(
            f"{where} wants {options.dimensions:,} dimensions, and [embedder] makes {embedder.dimensions:,}: configure "
            "the model that the collection was made with (OpenClaw's is OpenAI's text-embedding-3-small)"
        )
    return Plain(opening, options, embedder, loop), THREADS if options.url else 1
