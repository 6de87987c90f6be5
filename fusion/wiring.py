"""Settings → open backends → engine and intake: the only place where real things are built.

async with Fusion.open() as fusion:
    print((await fusion.fuse("what did we decide about the database?")).block)
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import fusion as package
from fusion.compare.arms import ALL, Choice
from fusion.compare.pair import Comparison, Side, compare
from fusion.contract import (
    DIMENSIONS,
    Backend,
    Call,
    Checks,
    Delegates,
    Describes,
    Description,
    Embedder,
    Event,
    Features,
    Hit,
    Judge,
    LanguageModel,
    Logs,
    Opening,
    Operates,
    Query,
    Reads,
    Route,
    Scope,
    Settles,
    Used,
    Verb,
)
from fusion.embedders import Embedders
from fusion.errors import (
    BackendUnreachable,
    BadInput,
    FusionError,
    ModelMissing,
    NobodyAnswered,
    NotFound,
    SettingsError,
    StoreDamaged,
)
from fusion.home import HomeLock, sizes
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.flush import local
from fusion.ingest.follow import Delta, Follower
from fusion.ingest.forget import ForgetReceipt, ForgetRequest, Forgetter, Forgetting, Found, preview_of
from fusion.ingest.intake import Acknowledged, Intake, NewMemory
from fusion.ingest.journal import Journal
from fusion.ingest.journal.foreign import Noting, Shown, is_foreign
from fusion.ingest.journal.labels import labelled
from fusion.ingest.journal.outbox import Deliveries
from fusion.ingest.journal.retire import SourceCount, Whole
from fusion.ingest.salvage import Salvaged
from fusion.ingest.verify import PROBE_CHARS, Ask
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.ids import parse_cursor
from fusion.lib.metered import Metered
from fusion.lib.words import spoken
from fusion.mounts import routes_of, verbs_of
from fusion.recall.admit import admit
from fusion.recall.breaker import Breaker
from fusion.recall.document import MAX_LINES, PAGE_LINES, lines_of_file, lines_of_memories, page
from fusion.recall.engine import Fused, FuseRequest, Outcome, explain, fuse
from fusion.recall.gather import Answer, Bulkhead, Source, gather, unable
from fusion.recall.receipt import Receipts
from fusion.recall.show import shown
from fusion.recall.signals import SIGNALS
from fusion.recall.world import Known, Live, Recorder, Recording, Witness
from fusion.recipe import Recipe
from fusion.settings import BackendSettings, EmbedderSettings, Settings, load, recipes

log = logging.getLogger(__name__)
security = logging.getLogger("fusion.security")
"""what somebody should look into: a memory system that shows one user's memories to another"""

OPEN_S = 120.0
"""for one backend at start: a large index may be rebuilt, but one that hangs must not keep the others from opening"""
RETRY_S = 1.0
"""before a failed question is worth asking again, where no breaker says more"""
RETRY_DISABLED_S = 60.0
"""…where all that was asked are disabled: somebody has to mend the configuration first"""
MEANT = 0.8
"""of the best score: what a question finds below that is recalled with the best, and not forgotten with it"""
LOOK_S = 1.0
"""how old the count of missing vectors in an answer's coverage may be"""


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend as it is now, for `/v1/backends`."""

    name: str
    adapter: str
    status: str
    """ready, disabled, half_open (it will be asked once), closed (it fails, but is the last), or why it is left alone:
    open, rate_limited, unauthorized"""
    detail: str = ""
    items: int = 0
    vectors: int = 0
    vectors_pending: int = 0
    backlog: int = 0
    """deliveries that it has not acknowledged yet"""
    leaked: int = 0
    """memories of somebody else's that it answered with, and that were dropped, since the start"""
    notes: tuple[str, ...] = ()
    degraded: bool = False
    """whether something fails that is configured to work; ``notes`` say what"""


class Absent:
    """Stands where a backend could not be opened, so that it has a name and a reason in every answer."""

    features = Features()

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @classmethod
    async def open(cls, opening: Opening) -> Absent:
        return cls(f"{opening.name} was not opened")

    async def search(self, query: Query) -> Sequence[Hit]:
        raise BackendUnreachable(self.reason)

    async def close(self) -> None:
        """Nothing is open."""


Line = Callable[[str], Awaitable[None]]
Progress = Callable[[int, int | None], None]
"""how a verb sends a line of its answer, and how far it is, as `fusion.contract.Call` has them"""


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """An open home: everything that a door may ask for. Build it with `Fusion.open`."""

    settings: Settings
    recipes: Mapping[str, Recipe]
    sources: Mapping[str, Source]
    journal: Journal
    intake: Intake
    deliverer: Deliverer
    forgetter: Forgetter
    noting: Noting
    receipts: Receipts
    live: Live
    users: Mapping[str, Used]
    """the backends that want to know what reached a prompt"""
    describing: Mapping[str, Describes]
    """the backends that say what they hold; both are looked for once, for to look is slow"""
    embedders: Embedders
    distiller: Distiller | None = None
    notes: tuple[str, ...] = ()
    """what is degraded for the whole home, in words with the mend"""
    following: Follower | None = None
    """what reads agents' sessions on behind; None where nobody asked for that"""
    _opened: float = field(default_factory=time.monotonic)
    _after: set[asyncio.Task[None]] = field(default_factory=set)
    _looked: dict[str, float] = field(default_factory=dict)
    _leaked: Counter[str] = field(default_factory=Counter)
    _damaged: dict[str, str] = field(default_factory=dict)
    """by store, what the last check found and could not mend"""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: Settings | Path | str | None = None, *, home: Path | None = None
    ) -> AsyncIterator[Fusion]:
        """Opens a home, owns it until the end of the block, and closes everything then.

        Raises SettingsError, HomeLocked, and StoreDamaged when nothing can be read of the journal. Where it is damaged
        and can be read in part, questions are answered, degraded, and nothing is remembered or forgotten. A backend
        that cannot be opened costs its own answers only.
        """
        settings = config if isinstance(config, Settings) else load(Path(config) if config else None, home=home)
        known = _checked(recipes(settings))
        async with AsyncExitStack() as stack:
            stack.enter_context(HomeLock.take(settings.home))
            stack.callback(os.umask, os.umask(0o077))  # tantivy's and Qdrant's files are their owner's only, too
            embedders, notes = await _embedders(settings)
            stack.push_async_callback(embedders.close)
            embedder = embedders.configured
            keys_kept_s = settings.journal.idempotency_keep_days * 86_400
            journal, damaged = await _journal(settings.home / "journal.sqlite", keys_kept_s)
            stack.push_async_callback(journal.close)
            judge = await _judge(settings)
            if judge is not None:
                stack.push_async_callback(judge.close)
            model, missing = _model(settings)
            if model is not None:
                stack.push_async_callback(model.close)
            receipts = Receipts(settings.home / "receipts.sqlite", settings.receipts.keep_days)
            stack.push_async_callback(receipts.close)
            # A folder that is not there was moved away to mend a damaged store, or never was: it holds nothing.
            folders = {name: settings.home / "backends" / name for name in settings.backends}
            if not damaged:
                await journal.outbox.refill([name for name, folder in folders.items() if not folder.exists()])
            sources = await _sources(settings, embedders, model, stack)
            stores = {name: s.backend for name, s in sources.items() if s.disabled is None}
            # What cannot be marked as delivered is not delivered.
            deliverer = Deliverer(journal, {} if damaged else stores, ask=_asking(sources))
            if not damaged:
                await journal.outbox.refill([name for name in stores if await _emptied(journal, sources[name])])
                await deliverer.start()
            stack.push_async_callback(deliverer.close)
            distiller = None
            if model is not None and not damaged:
                distiller = Distiller(journal, deliverer, model, quiet_s=settings.model.quiet_s)
                distiller.start()
                stack.push_async_callback(distiller.close)
            live = Live(
                sources=sources,
                known=Known(journal.records, journal.neighbours, journal.frequencies, journal.hides),
                embedder=_at_hand(embedder),
                judge=judge,
                judge_timeout_s=settings.judge.timeout_ms / 1000,
                lexical=settings.embedder.none or (embedder is not None and _at_hand(embedder) is None),
            )
            noting = Noting(lambda items: journal.note_shown(items, datetime.now(UTC)))
            stack.push_async_callback(noting.close)
            intake = Intake(journal, deliverer, distiller=distiller)
            fusion = cls(
                settings=settings,
                recipes=known,
                sources=sources,
                journal=journal,
                intake=intake,
                distiller=distiller,
                deliverer=deliverer,
                noting=noting,
                forgetter=Forgetter(journal, deliverer, embedders.forget),
                receipts=receipts,
                live=live,
                users={n: b for n, b in stores.items() if isinstance(b, Used)},
                describing={n: b for n, b in stores.items() if isinstance(b, Describes)},
                embedders=embedders,
                notes=(*notes, *missing),
                following=None if damaged else _following(settings, intake),
                _damaged=damaged,
            )
            stack.push_async_callback(fusion._finish)
            stack.push_async_callback(_ended, asyncio.create_task(fusion._check_now_and_then()))
            if fusion.following is not None:
                every_s = settings.sessions.every_s
                stack.push_async_callback(_ended, asyncio.create_task(fusion.following.run(every_s)))
            yield fusion

    async def fuse(self, request: FuseRequest | str, **fields: Any) -> Fused:
        """Asks every backend and packs one block; ``fields`` are those of `FuseRequest` beside a plain query.

        Raises BadInput, and NobodyAnswered when every backend failed.
        """
        asked = FuseRequest(request, **fields) if isinstance(request, str) else replace(request, **fields)
        world = Witness(self._world(asked))
        try:
            outcome = await fuse(asked, self._recipe(asked), world)
        except NobodyAnswered as error:
            error.retry_after_s = self.retry_after_s(asked.backends)
            raise
        self._keep(outcome, world, asked.scope)
        for row in outcome.fused.backends:
            self._count_leaks(row["name"], row.get("refused", {}))
        told = {name: ids for name, ids in outcome.used.items() if name in self.users}
        if told:
            self._behind(self._tell_used(told))
        return replace(
            outcome.fused,
            notes=self._notes,
            coverage=self._with_vectors(outcome.fused.coverage),
            degraded=outcome.fused.degraded or bool(self._looked.get("degraded") or self._damaged),
        )

    def _keep(self, outcome: Outcome, world: Witness, scope: Scope) -> None:
        """Keeps the receipt of an answer, and what stands behind the refs that it cites of other people's memories."""
        self.receipts.keep(outcome.receipt)
        cited = self.noting.unknown((m.ref for x in outcome.fused.memories for m in x.members), scope)
        if cited:
            self.noting.note(_foreign(outcome, world, scope, cited))

    def _with_vectors(self, coverage: Mapping[str, Any]) -> Mapping[str, Any]:
        """The coverage with how many vectors are still missing, as of the last look; looks again, behind, when due."""
        if not self.describing:
            return coverage
        now = time.monotonic()
        if now - self._looked.get("at", -LOOK_S) >= LOOK_S:
            self._looked["at"] = now
            self._behind(self._look())
        return {**coverage, "vectors_pending": int(self._looked.get("pending", 0))}

    async def _look(self) -> None:
        states = await self.backends()
        self._looked["pending"] = sum(state.vectors_pending for state in states)
        self._looked["degraded"] = any(state.degraded for state in states)

    def retry_after_s(self, names: Sequence[str] | None = None) -> float:
        """When it is worth asking these backends again after they all failed: as soon as a breaker lets one through."""
        asked = [self.sources[name] for name in names or self.sources]
        return max(RETRY_S, min((s.breaker.wait_s for s in asked if s.disabled is None), default=RETRY_DISABLED_S))

    async def record(self, request: FuseRequest) -> tuple[Fused, Recording]:
        """As `fuse`, with all I/O written down, so that any recipe or subset of backends can be replayed.

        Nothing is marked as used: a measurement must not change what it measures.
        """
        recorder = Recorder.of(self._world(request))
        outcome = await fuse(request, self._recipe(request), recorder)
        return outcome.fused, recorder.recording

    async def compare(self, request: FuseRequest, a: str = ALL, b: str = ALL) -> Comparison:
        """One question to two arms (`fusion.compare.arms` says how they are written) over one gather.

        Both receipts are kept, and nothing is marked as used. Raises BadInput for an arm that cannot be, and
        NobodyAnswered when every backend of one of them failed.
        """
        choice = Choice(self.recipes, tuple(self.sources), self.settings.recipe)
        arms = choice.arm("a", a), choice.arm("b", b)
        world = Witness(self.live)
        try:
            compared = await compare(request, *arms, world)
        except NobodyAnswered as error:
            error.retry_after_s = self.retry_after_s([name for arm in arms for name in arm.backends])
            raise
        for outcome in compared.outcomes:
            self._keep(outcome, world, request.scope)
        for row in compared.backends:
            self._count_leaks(row["name"], row.get("refused", {}))
        found = compared.comparison
        return replace(found, a=self._as_home(found.a), b=self._as_home(found.b), notes=self._notes)

    def _as_home(self, side: Side) -> Side:
        """An arm's answer with what ails the home as a whole, as `fuse` tells it."""
        degraded = side.degraded or bool(self._looked.get("degraded") or self._damaged)
        return replace(side, coverage=self._with_vectors(side.coverage), degraded=degraded)

    async def search(self, backend: str, query: str, scope: Scope, limit: int = 10) -> Answer:
        """One backend's own answer, filtered but not ranked by us. Raises BadInput for an unknown name."""
        source = self._source(backend)
        asked = Query(query, scope, datetime.now(UTC), limit, source.deadline_s)
        (answer,) = await self.live.answers(asked, [backend], source.deadline_s)
        sources = [i for h in answer.hits for i in (h.event_id, *h.derived_from) if i]
        kept, refused = admit(backend, answer.hits, asked, await self.journal.records(sources))
        self._count_leaks(backend, refused)
        fresh = self.noting.unknown((item.ref for item in kept), scope)
        self.noting.note([Shown(item.ref, backend, item.hit, scope) for item in kept if item.ref in fresh])
        return replace(answer, hits=tuple(shown(item.hit) for item in kept))

    async def remember(
        self, items: Sequence[NewMemory], *, idempotency_key: str | None = None, tenant: str = "default"
    ) -> Sequence[Acknowledged]:
        """Journals events and returns; they are delivered behind. What is acknowledged is kept, whatever happens."""
        return await self.intake.remember(items, tenant=tenant, idempotency_key=idempotency_key)

    @property
    def embedding_model(self) -> str | None:
        """The identity of the model that texts are compared by."""
        return None if (configured := self.embedders.configured) is None else configured.identity

    async def append(self, text: str, scope: Scope) -> Mapping[str, Any]:
        """Keeps lines in today's log: the user's own where a backend keeps one for that scope, else as a note of ours.

        The day is that of the user's zone (``[flush] zone``), as in the plan of a flush. Raises BadInput, StoreFull.
        """
        note = NewMemory(text=text, scope=scope, kind="note", origin="agent")
        event, redacted = self.intake.prepared(note, scope.tenant)
        if event is None:
            return {"path": None, "ref": None, "status": "skipped", "redacted": 0}
        day = local(event.recorded_at, self.settings.flush.zone).date()
        asked = Query("", scope, event.recorded_at)
        for source in self.sources.values():
            log_of = source.backend
            if source.disabled is None and isinstance(log_of, Logs) and not unable(asked, log_of.features):
                place = await log_of.append(event.text, scope, day)
                if place is not None:
                    lines = {"startLine": place.start, "endLine": place.end}
                    return {"path": place.document, **lines, "ref": None, "status": "appended", "redacted": redacted}
        (kept,) = await self.intake.remember([note], tenant=scope.tenant)
        return {"path": kept.ref, "ref": kept.ref, "status": kept.status, "redacted": kept.redacted}

    async def memory(self, ref: str, scope: Scope) -> Mapping[str, Any]:
        """One event as the journal has it, or one item of a backend's own, as that has it now.

        Raises NotFound, also for another's and for a forgotten one; NobodyAnswered where the item's backend is down.
        """
        if not is_foreign(ref):
            record = await self.journal.find(ref, scope)
            return {"ref": record.ref, **_public(record.event)}
        await self.noting.flush()
        item = await self.journal.shown(ref, scope)
        if item.backend not in self.sources:
            raise NotFound(f"there is no memory {ref!r} here: its backend {item.backend} is not configured any more")
        answer = await self.search(item.backend, spoken(item.hit.text, item.hit.speaker)[:PROBE_CHARS], scope, 100)
        if answer.status not in ("ok", "empty"):
            raise NobodyAnswered(f"{ref} is a memory of {item.backend}, which does not answer ({answer.status})", {})
        for hit in answer.hits:
            if hit.native_id == item.hit.native_id:
                return {"ref": item.ref, "backend": item.backend, **_public_hit(hit)}
        raise NotFound(f"there is no memory {ref!r} here: {item.backend} has it no more")

    async def memories(
        self,
        scope: Scope,
        limit: int = 20,
        *,
        cursor: str | None = None,
        document: str | None = None,
        source: str | None = None,
    ) -> Mapping[str, Any]:
        """A page of what the journal keeps in a scope, newest first, and the ``cursor`` of the next one, or None.

        Raises BadInput for a cursor that no page had.
        """
        before = None if cursor is None else parse_cursor(cursor)
        if cursor is not None and before is None:
            raise BadInput("cursor: no page had it; give next_cursor of a page as it is, or none for the first page")
        page = await self.journal.page(scope, limit, before=before, document=document, source=source)
        return {
            "memories": [{"ref": record.ref, **_public(record.event)} for record in page.records],
            "next_cursor": None if page.next is None else cursor_of(page.next),
        }

    async def document(self, path: str, scope: Scope, *, start: int = 1, lines: int = PAGE_LINES) -> Mapping[str, Any]:
        """A page of a document that a hit named: from its file where a backend reads it, else from the journal.

        Raises NotFound, the same for every path that is not one of this scope's documents, whatever it looks like.
        """
        there_is_none = NotFound("There is no such document here.")
        if not _encodable(path):
            raise there_is_none
        failed: list[str] = []
        for source in self.sources.values():
            reader = source.backend
            if not isinstance(reader, Reads) or unable(Query("", scope, datetime.now(UTC)), reader.features):
                continue
            try:
                async with asyncio.timeout(source.deadline_s):
                    reading = await reader.read(path)
            except (FusionError, OSError, TimeoutError) as error:
                log.warning("backend %s did not read a document: %s", source.name, type(error).__name__)
                failed.append(source.name)
                continue
            if reading is not None and scope.admits(reading.scope):
                forgotten = partial(self.journal.forgotten_lines, reading.scope, path)
                return page(path, "line", await asyncio.to_thread(lines_of_file, reading.text, forgotten), start, lines)
        events = [record.event for record in await self.journal.document(path, scope, start, MAX_LINES + 1)]
        places = [(event.place, spoken(event.text, event.speaker)) for event in events if event.place is not None]
        if places:
            return page(path, places[0][0].unit, lines_of_memories(places), start, lines)
        if failed:
            raise NobodyAnswered(f"{', '.join(failed)} could not look for that document.", {})
        raise there_is_none

    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Deletes a memory everywhere, and says of each backend what became of it there. Raises NotFound."""
        await self.noting.flush()
        try:
            return await self.forgetter.forget(ref, scope)
        finally:
            self.noting.forget()

    async def forget_many(self, request: ForgetRequest) -> Forgetting:
        """Deletes what a request means, or shows what it would delete. Raises BadInput, which says what to change."""
        await self.noting.flush()
        try:
            return await self.forgetter.request(request, self._recall)
        finally:
            self.noting.forget()

    async def forgotten(self, scope: Scope, limit: int = 20, *, cursor: str | None = None) -> Mapping[str, Any]:
        """The audit of a scope's user, newest first: what was forgotten when, and what became of it where."""
        before = None if cursor is None else parse_cursor(cursor)
        if cursor is not None and before is None:
            raise BadInput("cursor: no page had it; give next_cursor of a page as it is, or none for the first page")
        entries = await self.journal.audit(scope, limit + 1, before)
        return {
            "forgotten": [entry for _, entry in entries[:limit]],
            "next_cursor": cursor_of(entries[limit - 1][0]) if len(entries) > limit else None,
        }

    def verb(self, backend: str, name: str) -> type[Verb]:
        """What a backend can be told to do under that name. Raises NotFound, which names what there is."""
        if backend not in self.sources:
            raise NotFound(f"There is no backend {backend!r}: there are {', '.join(sorted(self.sources))}.")
        verbs = verbs_of(self.settings.backends[backend].adapter)
        if name not in verbs:
            known = f"there are {', '.join(verbs)}" if verbs else "it has none"
            raise NotFound(f"{backend} has no verb {name!r}: {known}.")
        return verbs[name]

    def routes(self) -> Mapping[str, Sequence[Route]]:
        """The drop-in routes of each backend that has some."""
        found = {name: routes_of(chosen.adapter) for name, chosen in self.settings.backends.items()}
        return {name: routes for name, routes in found.items() if routes}

    async def do(self, backend: str, verb: Verb, scope: Scope, line: Line, progress: Progress) -> object:
        """Tells a backend to do what one of its verbs says. Raises BadInput, and BackendUnreachable where it is not."""
        if isinstance(verb, Operates) and scope.tenant != Scope().tenant:
            raise BadInput("That works on the whole store: it wants a key of the tenant default.")
        return await verb(self._open(backend), self._call(backend, scope, line, progress))

    async def serve(
        self, backend: str, route: Route, scope: Scope, request: Mapping[str, object], line: Line, progress: Progress
    ) -> object:
        """A drop-in route's reply; raises as `do`."""
        return await route.handle(self._open(backend), self._call(backend, scope, line, progress), request)

    def _open(self, backend: str) -> Backend:
        source = self._source(backend)
        if source.disabled is not None:
            raise BackendUnreachable(f"{backend} cannot do that: {source.disabled}")
        return source.backend

    def _call(self, backend: str, scope: Scope, line: Line, progress: Progress) -> Call:
        return Call(scope, datetime.now(UTC), Within(self, backend, scope), line, progress)

    async def retire(self, scope: Scope, files: Sequence[Whole], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retires what files do not have any more; by source, how many memories that are."""
        retired = await self.journal.retire(scope, files, dry_run=dry_run)
        if retired and not dry_run:
            self.deliverer.wake()
        return retired

    async def origins(self, scope: Scope, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[SourceCount]:
        """The sources of a scope's memories that begin with ``prefix``, by name, after the one named."""
        return await self.journal.sources(scope, prefix, after, limit)

    async def _recall(self, query: str, scope: Scope) -> list[Found]:
        """What a question finds, the likeliest first: every sighting of it, nothing that only stands beside it.

        Nor what has none of its words: to be of like meaning is enough to be recalled, and too little to be deleted.
        Nor is it lifted by what a graph leads to: that belongs to what is meant, and is not it. The judge is not asked:
        what is to be forgotten is sent to nobody first.
        """
        request = FuseRequest(query, scope)
        recipe = self._recipe(request)
        world = Witness(replace(self.live, judge=None))
        outcome = await fuse(request, replace(recipe, rerank=replace(recipe.rerank, lift=0.0)), world)
        rows = [
            row
            for row in outcome.receipt.body["candidates"]
            if not row["beside"]
            and row["signals"]["bm25"] > 0
            and not row["decision"].startswith(("under", "the best is under"))
        ]
        least = MEANT * max((row["local"] for row in rows), default=0.0)
        rows = [row for row in rows if row["local"] >= least]
        refs = list(dict.fromkeys(ref for row in rows for _, ref, *_ in row["sightings"]))
        foreign = {item.ref: item for item in _foreign(outcome, world, scope, frozenset(filter(is_foreign, refs)))}
        # A fact goes with the memories that it was learnt from.
        sources = await self.journal.records([i for item in foreign.values() for i in item.hit.derived_from])
        meant = {event_id for event_id, record in sources.items() if record.ref in refs}
        foreign = {
            r: i for r, i in foreign.items() if not i.hit.derived_from or not meant.issuperset(i.hit.derived_from)
        }
        await self.journal.note_shown(list(foreign.values()), datetime.now(UTC))
        found = await self.forgetter.previews([ref for ref in refs if not is_foreign(ref)], scope)
        ours = {one.ref: one for one in found}
        return [ours[ref] if ref in ours else preview_of(foreign[ref]) for ref in refs if ref in ours or ref in foreign]

    def _behind(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something after the reply."""
        task = asyncio.create_task(work)
        self._after.add(task)
        task.add_done_callback(self._after.discard)

    async def backends(self) -> list[BackendState]:
        """Every configured backend as it is now."""
        backlog = await self.deliverer.backlog()
        return list(await asyncio.gather(*(self._state(s, backlog.get(s.name, 0)) for s in self.sources.values())))

    async def status(self, tenant: str = "default") -> dict[str, Any]:
        """The home at a glance, as `wire.Status` has it; memories and receipts are counted for ``tenant`` alone."""
        states, deliveries, counts, kept, parts = await asyncio.gather(
            self.backends(),
            self.journal.deliveries(),
            self.journal.counts(tenant),
            self.receipts.kept(tenant),
            asyncio.to_thread(sizes, self.settings.home),
        )
        return {
            "version": package.__version__,
            "uptime_s": round(time.monotonic() - self._opened, 1),
            "backends": [
                {
                    **asdict(state),
                    **deliveries.get(state.name, Deliveries()).trouble(),
                    **_breaker(self.sources[state.name].breaker),
                }
                for state in states
            ],
            "memories": asdict(counts),
            "receipts": {"kept": kept, "keep_days": self.settings.receipts.keep_days},
            "embedder": self.embedding_model,
            "judge": None if self.live.judge is None else self.live.judge.name,
            "bytes": parts,
            "notes": list(self._notes),
        }

    async def receipt(self, receipt_id: str, tenant: str = "default") -> Mapping[str, Any]:
        """Why each candidate of an earlier answer was in or out. Raises NotFound."""
        return explain(await self.receipts.read(receipt_id, tenant))

    async def feedback(
        self, receipt_id: str, scope: Scope, *, useful: Sequence[str] = (), useless: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Keeps which memories of an answer were of use, in place of what was said of it before; durable.

        With neither, what was said is taken back. Raises NotFound for a receipt that is not this tenant's, and
        BadInput, which names the ref, for one that does not stand in it, was forgotten since, or is both.
        """
        body = await self.receipts.read(receipt_id, scope.tenant)
        votes = labelled(body, useful, useless)
        await self.journal.label(scope, receipt_id, votes)
        return {
            "receipt_id": receipt_id,
            "useful": [vote.ref for vote in votes if vote.useful],
            "useless": [vote.ref for vote in votes if not vote.useful],
        }

    async def labels(self, tenant: str, limit: int = 100, *, cursor: str | None = None) -> Mapping[str, Any]:
        """A page of a tenant's feedback, oldest first, as labels for the benchmarks; raises BadInput as `memories`."""
        after = None if cursor is None else parse_cursor(cursor)
        if cursor is not None and after is None:
            raise BadInput("cursor: no page had it; give next_cursor of a page as it is, or none for the first page")
        page = await self.journal.labels(tenant, limit, after=after or 0)
        return {"labels": page.labels, "next_cursor": None if page.next is None else cursor_of(page.next)}

    async def settle(self) -> None:
        """Returns when everything acknowledged is delivered and searchable in every way, or failed for good.

        With a model, what it has to distil by now is distilled; the last turns of a conversation still wait for more.
        """
        if self.distiller is not None:
            await self.distiller.settle()
        await self.deliverer.settle()
        waiting = {n: s.backend for n, s in self.sources.items() if isinstance(s.backend, Settles) and not s.disabled}
        ends = await asyncio.gather(*(backend.settle() for backend in waiting.values()), return_exceptions=True)
        for name, end in zip(waiting, ends, strict=True):
            if isinstance(end, Exception):
                log.warning("backend %s could not finish what it works at behind: %s", name, type(end).__name__)

    async def ready(self) -> dict[str, Any]:
        """Whether questions can be answered: at least one backend is open. With what is degraded."""
        states = {name: _status(source) for name, source in self.sources.items()}
        usable = [name for name, status in states.items() if status in ("ready", "half_open")]
        return {"ready": bool(usable), "backends": states, "notes": list(self._notes)}

    @property
    def _notes(self) -> tuple[str, ...]:
        failing = self.distiller.fault if self.distiller is not None else ""
        waiting = (f"conversations wait to be distilled, the language model fails: {failing}",) if failing else ()
        return (*self.notes, *self._damaged.values(), *waiting)

    async def check(self) -> Mapping[str, str]:
        """Looks for damage in the journal and in every backend that can be looked through. By store, what was found.

        What is derived is written again by then; what is not stands in the notes, and answers are degraded.
        """
        looks: dict[str, Callable[[], Awaitable[str | None]]] = {"journal": self.journal.check}
        for name, source in self.sources.items():
            if source.disabled is None and isinstance(source.backend, Checks):
                looks[name] = source.backend.check
        found: dict[str, str] = {}
        for name, look in looks.items():  # one after the other: nobody waits for it, and others want the disk
            self._damaged.pop(name, None)
            try:
                fault = await look()
            except Exception as error:  # noqa: BLE001 — whatever ails one store, the others are looked at
                fault = self._damaged[name] = f"{name}: {_why(error)}"
                log.error("%s is damaged: %s", name, _why(error))
            if fault is not None:
                found[name] = fault
        return found

    async def _check_now_and_then(self) -> None:
        while (pause_s := self.settings.checks.every_hours * 3600) > 0:
            await asyncio.sleep(pause_s)
            await self.check()

    def _recipe(self, request: FuseRequest) -> Recipe:
        name = request.recipe or self.settings.recipe
        if name not in self.recipes:
            raise BadInput(f"recipe {name!r}: there are {', '.join(sorted(self.recipes))}")
        return self.recipes[name]

    def _world(self, request: FuseRequest) -> Live:
        for name in request.backends or ():
            self._source(name)
        return self.live

    def _count_leaks(self, backend: str, refused: Mapping[str, int]) -> None:
        """A backend was asked for one scope and answered with another's: not shown, but somebody must mend it."""
        if leaked := refused.get("scope", 0):
            self._leaked[backend] += leaked
            security.warning(
                "backend %s answered with %d memories of another scope; they were dropped (%d so far)",
                backend,
                leaked,
                self._leaked[backend],
            )

    def _source(self, name: str) -> Source:
        if name not in self.sources:
            raise BadInput(f"backend {name!r}: there are {', '.join(sorted(self.sources))}")
        return self.sources[name]

    async def _state(self, source: Source, backlog: int) -> BackendState:
        adapter = self.settings.backends[source.name].adapter
        described = Description()
        detail = source.disabled or self.deliverer.faults.get(source.name, "")
        if source.name in self.describing:
            try:
                async with asyncio.timeout(source.deadline_s):
                    described = await self.describing[source.name].describe()
            except Exception as error:  # noqa: BLE001 — one that cannot describe itself costs its own line only
                detail = f"{type(error).__name__}: {error}"
        return BackendState(
            name=source.name,
            adapter=adapter,
            status=_status(source),
            detail=detail,
            items=described.items,
            vectors=described.vectors,
            vectors_pending=described.vectors_pending,
            backlog=backlog,
            leaked=self._leaked[source.name],
            notes=described.notes,
            degraded=described.degraded or source.name in self._damaged,
        )

    async def _tell_used(self, used: Mapping[str, Sequence[str]]) -> None:
        """After the reply: a backend that wants to know learns what reached the prompt. Its failure costs nothing."""
        now = datetime.now(UTC)
        for name, native_ids in used.items():
            try:
                await self.users[name].used(native_ids, now)
            except (FusionError, OSError) as error:
                log.warning("backend %s did not note what was used: %s", name, type(error).__name__)

    async def _finish(self) -> None:
        if self._after:
            await asyncio.wait(self._after)


@dataclass(frozen=True, slots=True)
class Within:
    """The gateway as a verb gets it: nothing it is asked leaves the scope of who called."""

    fusion: Fusion
    backend: str
    scope: Scope

    async def remember(self, events: Sequence[Event]) -> Sequence[tuple[str, str]]:
        drafts = [replace(event, scope=self._scope_of(event)) for event in events]
        memories = [
            NewMemory(**{field.name: getattr(draft, field.name) for field in fields(NewMemory)}) for draft in drafts
        ]
        kept = await self.fusion.remember(memories, tenant=self.scope.tenant)
        return [(one.event_id, one.status) for one in kept]

    async def forget(self, ref: str) -> Mapping[str, str]:
        return (await self.fusion.forget(ref, self.scope)).backends

    async def ids(self, ref: str) -> Sequence[str]:
        if not is_foreign(ref):
            return await self.fusion.journal.outbox.ids(self.backend, ref, self.scope)
        await self.fusion.noting.flush()
        item = await self.fusion.journal.shown(ref, self.scope)
        if item.backend != self.backend:
            raise NotFound(f"{ref} is a memory of {item.backend}, not of {self.backend}")
        return (item.hit.native_id,)

    async def settle(self) -> None:
        await self.fusion.settle()

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        return await self.fusion.embedders.other(changes)

    async def settle_on(self, changes: Mapping[str, object]) -> None:
        folder = self.fusion.settings.home / "backends" / self.backend
        await asyncio.to_thread(self.fusion.embedders.settle, folder, changes)

    def _scope_of(self, event: Event) -> Scope:
        """The caller's own dimensions, and where the caller named none, those of the draft."""
        own = {name: getattr(self.scope, name) or getattr(event.scope, name) for name in (*DIMENSIONS, "project")}
        return replace(event.scope, tenant=self.scope.tenant, **own)


def _following(settings: Settings, intake: Intake) -> Follower | None:
    chosen = settings.sessions
    if not chosen.paths:
        return None
    return Follower(
        paths=[path.expanduser() for path in chosen.paths],
        whose=Scope(user_id=chosen.user_id or None),
        home=settings.home,
        remember=intake.remember,
        delta=Delta(chosen.delta_bytes, chosen.delta_lines, chosen.idle_s),
    )


def _encodable(name: str) -> bool:
    """Whether a name can be that of anything stored: a lone surrogate is in no database and in no cited document."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _emptied(journal: Journal, source: Source) -> bool:
    """Whether a backend that was told of memories holds nothing: its files were emptied, or it keeps none."""
    if not isinstance(source.backend, Describes) or not await journal.outbox.has_told(source.name):
        return False
    try:
        async with asyncio.timeout(source.deadline_s):
            return (await source.backend.describe()).items == 0
    except Exception as error:  # noqa: BLE001 — one that cannot say what it holds is told only what is new
        log.warning("backend %s does not say what it holds: %s", source.name, type(error).__name__)
        return False


def _asking(sources: Mapping[str, Source]) -> Ask:
    """One backend's answer as the read path gets it, before any filter; raises BackendUnreachable for none."""

    async def ask(name: str, query: Query) -> Sequence[Hit]:
        source = sources[name]
        (answer,) = await gather(query, [source], source.deadline_s)
        if answer.status not in ("ok", "empty"):
            raise BackendUnreachable(f"{name} does not answer ({answer.status}) {answer.detail}".rstrip())
        return answer.hits

    return ask


def _status(source: Source) -> str:
    if source.disabled is not None:
        return "disabled"
    breaker = source.breaker
    if breaker.healthy:
        return "ready"
    return breaker.reason if breaker.state == "open" else breaker.state


def _breaker(breaker: Breaker) -> dict[str, Any]:
    return {"breaker": breaker.state, "wait_s": round(breaker.wait_s, 1)}


def _checked(found: Mapping[str, Recipe]) -> Mapping[str, Recipe]:
    """Recipes whose signals exist. Raises SettingsError for a misspelt one: it would silently weigh nothing."""
    for recipe in found.values():
        for name in recipe.rerank.signals:
            if name not in SIGNALS:
                raise SettingsError(
                    f"recipe {recipe.name}: no signal is called {name!r}; there are {', '.join(SIGNALS)}"
                )
    return found


def resolve(path: str, key: str) -> Any:
    """The class that a setting names, `package.module:Class`. Raises SettingsError, which names the setting."""
    module, _, name = path.partition(":")
    if module.partition(".")[0] == "adapters":
        _require_our_adapters()
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            beside = Path(__file__).resolve().parent.parent / "adapters"
            raise SettingsError(f"{key} = {path!r}: there is no module {error.name}; ours are in {beside}") from None
        raise SettingsError(f"{key} = {path!r} needs the package {error.name}: {_mend(str(error.name))}") from None
    except (AttributeError, ValueError):
        raise SettingsError(f"{key} = {path!r}: write package.module:Class") from None


def _require_our_adapters() -> None:
    """Raises SettingsError when another package called adapters stands in the way: the name is a common one."""
    ours = Path(__file__).resolve().parent.parent
    spec = importlib.util.find_spec("adapters")
    found = Path(spec.origin).resolve().parent.parent if spec and spec.origin else ours
    if found != ours:
        raise SettingsError(
            f"another package called adapters is installed in {found}, before ours in {ours}: "
            "memory-fusion is an application and wants an environment of its own"
        )


_EXTRAS = {"mem0": "mem0", "qdrant_client": "mem0", "anthropic": "anthropic", "json_repair": "anthropic"}


def _mend(package: str) -> str:
    extra = _EXTRAS.get(package.partition(".")[0])
    return f'pip install "memory-fusion[{extra}]"' if extra else f"pip install {package}"


async def _embedders(settings: Settings) -> tuple[Embedders, tuple[str, ...]]:
    embedder, notes = await _embedder(settings)
    adapter = settings.embedder.adapter or EmbedderSettings().adapter

    async def another(changed: Mapping[str, object]) -> Embedder:
        try:
            options = EmbedderSettings.model_validate(changed).model_dump(exclude={"adapter"})
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise SettingsError(f"[embedder] {wrong}") from None
        opened: Embedder = await resolve(adapter, "embedder.adapter").open(
            settings.home / "embeddings", {**options, "alone": True}
        )
        return opened

    return Embedders(embedder, settings.embedder.model_dump(exclude={"adapter"}), another), notes


async def _embedder(settings: Settings) -> tuple[Embedder | None, tuple[str, ...]]:
    if settings.embedder.none:
        return None, ("no embedding model is configured: everything is found by its words only",)
    options = settings.embedder.model_dump(exclude={"adapter"})
    try:
        kind = resolve(settings.embedder.adapter, "embedder.adapter")
        opened: Embedder = await kind.open(settings.home / "embeddings", options)
    except ModelMissing as error:
        note = f"without the embedding model everything is found by its words only: {error}"
        log.error("%s", note)
        return None, (note,)
    if _at_hand(opened) is None:
        return opened, ("without the local model a question and what was found are compared by their words only",)
    return opened, ()


def _at_hand(embedder: Embedder | None) -> Embedder | None:
    """The model that compares a question with what was found: a provider's server is too far for that."""
    if isinstance(embedder, Delegates):
        return embedder.local
    return embedder


async def _journal(file: Path, keys_kept_s: float) -> tuple[Journal, dict[str, str]]:
    """The journal, and what is wrong with it."""
    try:
        return await Journal.open(file, keys_kept_s=keys_kept_s), {}
    except StoreDamaged as error:
        try:
            salvaged = await Salvaged.salvage(file)
        except StoreDamaged:
            raise error from None
        log.error("the journal is only read, nothing is remembered or forgotten: %s", error)
        return salvaged, {"journal": f"journal: {error}; until then it is only read"}


async def _judge(settings: Settings) -> Judge | None:
    if not settings.judge.adapter:
        return None
    judge: Judge = resolve(settings.judge.adapter, "judge.adapter").open(settings.judge.model_dump(exclude={"adapter"}))
    return judge


def _model(settings: Settings) -> tuple[LanguageModel | None, tuple[str, ...]]:
    """The language model within its budget, and what is degraded without it where one is configured."""
    chosen = settings.model
    if not chosen.adapter:
        return None, ()
    try:
        opened: LanguageModel = resolve(chosen.adapter, "model.adapter").open(chosen.model_dump(exclude={"adapter"}))
    except ModelMissing as error:
        note = f"without the language model everything is learnt by rules: {error}"
        log.error("%s", note)
        return None, (note,)
    metered = Metered(opened, calls_per_minute=chosen.calls_per_minute, tokens_per_minute=chosen.tokens_per_minute)
    return metered, ()


async def _sources(
    settings: Settings, embedders: Embedders, model: LanguageModel | None, stack: AsyncExitStack
) -> dict[str, Source]:
    """Every backend, opened at once and closed by ``stack``, also when the settings of another one are wrong."""
    opened = await asyncio.gather(
        *(_source(name, chosen, settings.home, embedders, model) for name, chosen in settings.backends.items()),
        return_exceptions=True,
    )
    sources = [one for one in opened if isinstance(one, Source)]
    for source in sources:
        stack.push_async_callback(source.backend.close)
    for one in opened:
        if isinstance(one, BaseException):
            raise one
    if not sources:
        raise SettingsError("no backend is configured: add a [backends.NAME] table")
    return {source.name: source for source in sources}


async def _source(
    name: str, chosen: BackendSettings, home: Path, embedders: Embedders, model: LanguageModel | None
) -> Source:
    """The backend of that name, open; or one that is disabled and says why."""
    backend: Backend
    disabled: str | None = None
    if not chosen.enabled:
        backend, disabled = Absent("disabled"), "disabled in the configuration"
        broken = False
    else:
        broken = True
        kind = resolve(chosen.adapter, f"backends.{name}.adapter")
        folder = home / "backends" / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            opening = Opening(name, folder, chosen.options, await embedders.of(folder), model)
            async with asyncio.timeout(OPEN_S):
                backend = await kind.open(opening)
            broken = False
        except SettingsError:
            raise
        except Exception as error:  # noqa: BLE001 — whatever is wrong with one backend, the others are there
            why = _why(error)
            backend, disabled = Absent(why), f"it could not be opened: {why}"
            log.error("backend %s could not be opened: %s", name, why)
    return Source(
        name=name,
        backend=backend,
        deadline_s=chosen.deadline_ms / 1000,
        breaker=Breaker(),
        bulkhead=Bulkhead(chosen.max_concurrent),
        fallback_for=chosen.fallback_for,
        disabled=disabled,
        broken=broken,
    )


def _why(error: Exception) -> str:
    """What went wrong, with the mend where we know it; a fault of the adapter itself is told with its type."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _mend(error.name)
    return str(error) if isinstance(error, FusionError | OSError) else f"{type(error).__name__}: {error}"


def _foreign(outcome: Outcome, world: Witness, scope: Scope, refs: Collection[str]) -> list[Shown]:
    """What stands behind refs of an answer that cite no event of ours."""
    where = {
        ref: (backend, native_id)
        for row in outcome.receipt.body["candidates"]
        for backend, ref, native_id, *_ in row["sightings"]
        if ref in refs
    }
    wanted: dict[str, set[str]] = {}
    for backend, native_id in where.values():
        wanted.setdefault(backend, set()).add(native_id)
    items = world.items(wanted)
    return [Shown(ref, at[0], items[at], scope) for ref, at in where.items() if at in items]


def _public_hit(hit: Hit) -> dict[str, Any]:
    """A backend's own item for a door, as `_public` has it for an event."""
    return {
        "event_id": hit.event_id,
        "text": hit.text,
        "kind": hit.kind,
        "speaker": hit.speaker,
        "at": hit.at.utc if hit.at else None,
        "recorded_at": hit.recorded_at,
        "document": hit.place.document if hit.place else None,
        "position": hit.place.start if hit.place else None,
        "source": None,
        "trust": hit.trust,
        "origin": hit.origin,
        "scope": hit.scope.named(),
    }


def _public(event: Any) -> dict[str, Any]:
    """An event for a door: what its owner may know of it."""
    return {
        "event_id": event.event_id,
        "text": event.text,
        "kind": event.kind,
        "speaker": event.speaker,
        "at": event.at.utc if event.at else None,
        "recorded_at": event.recorded_at,
        "document": event.place.document if event.place else None,
        "position": event.place.start if event.place else None,
        "source": event.source,
        "trust": event.trust,
        "origin": event.origin,
        "scope": event.scope.named(),
    }


__all__ = ["BackendState", "Fusion", "NotFound", "resolve"]
