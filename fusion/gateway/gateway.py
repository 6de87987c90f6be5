"""What the doors may ask of an open home: each method hands values to the engine, the intake, the journal or a backend.

async with Fusion.open() as fusion:
    print((await fusion.fuse("what did we decide about the database?")).block)
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import fusion as package
from fusion.compare.arms import ArmReader
from fusion.compare.pair import Comparison, Side, compare
from fusion.contract import Backend, KeepsDailyLog, Query, Scope, Settles
from fusion.errors import (
    BackendUnreachable,
    BadInput,
    FusionError,
    HomeGone,
    NobodyAnswered,
    NotFound,
)
from fusion.extension import Call, Operates, Route, Verb
from fusion.gateway.bootstrap import DEFAULT, Parts, Shared, opened, shared
from fusion.gateway.extensions import routes_of, verbs_of
from fusion.gateway.forget_by_query import foreign_items, meant_by
from fusion.gateway.health import BackendState, breaker_of, status_of
from fusion.gateway.memory_flush import local
from fusion.gateway.read_only import readable
from fusion.gateway.scoped import Scoped
from fusion.gateway.tenants import Tenants
from fusion.gateway.views import beginning, document, public
from fusion.home import locate_home, sizes
from fusion.ingest.forget import ForgetReceipt, ForgetRequest, ForgetResult, Preview, UndoResult
from fusion.ingest.intake import Acknowledged, NewMemory
from fusion.ingest.verify import PROBE_CHARS
from fusion.journal.batches import Batch
from fusion.journal.external_refs import ExternalItem, is_external
from fusion.journal.feedback import labelled
from fusion.journal.outbox import Deliveries
from fusion.journal.retire import SourceCount, Whole
from fusion.lib.did_you_mean import hint
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.words import spoken
from fusion.recall.document import PAGE_LINES
from fusion.recall.engine import Fused, FuseRequest, Outcome, explain, fuse
from fusion.recall.filter import admit, external_ref
from fusion.recall.gather import Answer, Source, unable
from fusion.recall.io import Live, Recorder, Recording
from fusion.recall.mask import shown
from fusion.recipe import Recipe
from fusion.settings import Settings, load
from fusion.trust import require

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""before a failed question is worth asking again, where no breaker says more"""
RETRY_DISABLED_S = 60.0
"""…where all that was asked are disabled: somebody has to fix the configuration first"""
NO_MEMORIES = "no memory is here yet"
"""why an answer is empty where nothing was ever brought: the wrong home, or a new one"""
NOTES_S = 1.0
"""that an opening home waits for the first look at its notes: its first answer is to know what was edited meanwhile"""
FIRST_LOOK_S = 0.25
"""that the first answer waits for what backends say of themselves: one that is slow to say is told of by the next"""

Line = Callable[[str], Awaitable[None]]
Progress = Callable[[int, int | None], None]
"""how a verb sends a line of its answer, and how far it is, as `fusion.extension.Call` has them"""

M = TypeVar("M", bound=Callable[..., Awaitable[Any]])


def in_its_tenant(method: M) -> M:
    """Has a call answered by the parts of the tenant that its ``tenant``, or the scope of what it asks, names."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    async def answer(fusion: Gateway, *args: Any, **given: Any) -> Any:
        tenant = _tenant(signature.bind(fusion, *args, **given).arguments)
        if tenant in (None, fusion.tenant):
            return await method(fusion, *args, **given)
        if fusion.tenants is None:
            raise BadInput("these are the parts of another tenant")
        async with fusion.tenants.at(tenant) as parts:
            return await method(parts, *args, **given)

    return cast("M", answer)


def _tenant(arguments: Mapping[str, Any]) -> str | None:
    """The tenant that a call's arguments name, or else that of the scope in them; None where they say nothing."""
    if "tenant" in arguments:
        return str(arguments["tenant"])
    scopes = (arguments.get("scope"), arguments.get("fields", {}).get("scope"), arguments.get("request"))
    found = next((s for s in (getattr(one, "scope", one) for one in scopes) if isinstance(s, Scope)), None)
    return None if found is None else found.tenant


@dataclass(frozen=True, slots=True, eq=False)
class Gateway(Parts):
    """An open home: everything that a door may ask for. Build it with `Gateway.open`."""

    tenants: Tenants[Gateway] | None = None
    """the other tenants of the home; None in their own parts"""
    _after: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: Settings | Path | str | None = None, *, home: Path | None = None
    ) -> AsyncIterator[Gateway]:
        """Opens a home, owns it until the end of the block, and closes everything then.

        Raises SettingsError, HomeLocked, and StoreDamaged when nothing can be read of the journal. Where it is damaged
        and can be read in part, questions are answered, degraded, and nothing is remembered or forgotten. A backend
        that cannot be opened costs its own answers only.
        """
        settings = _allowed(config, home)
        async with (
            readable(settings) as there,
            shared(there.settings, there.reason) as common,
            AsyncExitStack() as stack,
        ):
            settings = there.settings
            most_open = settings.server.max_open_tenants
            tenants: Tenants[Gateway] = Tenants(settings.home, partial(cls._of, common), most_open)
            fusion = await stack.enter_async_context(cls._of(common, DEFAULT, tenants))
            stack.push_async_callback(tenants.close)
            tenants.refusal = fusion.health.damaged.get("journal", "")
            stack.push_async_callback(_ended, asyncio.create_task(tenants.deliver()))
            yield fusion

    @classmethod
    @asynccontextmanager
    async def _of(cls, common: Shared, tenant: str, tenants: Tenants[Gateway] | None = None) -> AsyncIterator[Gateway]:
        """A tenant's parts, at work until the end of the block."""
        async with opened(cls, common, tenant) as parts, AsyncExitStack() as stack:
            fusion = replace(parts, tenants=tenants)
            stack.push_async_callback(fusion._finish)
            stack.push_async_callback(_ended, asyncio.create_task(fusion._check_now_and_then()))
            stack.push_async_callback(_ended, asyncio.create_task(fusion._compare_now_and_then()))
            if fusion.following is not None:
                every_s = fusion.settings.sessions.every_s
                stack.push_async_callback(_ended, asyncio.create_task(fusion.following.run(every_s)))
            if fusion.notes_follower is not None:
                stack.push_async_callback(_ended, asyncio.create_task(fusion.notes_follower.run()))
                with suppress(TimeoutError):
                    async with asyncio.timeout(NOTES_S):
                        await fusion.notes_follower.looked.wait()
            yield fusion

    @in_its_tenant
    async def fuse(self, request: FuseRequest | str, **fields: Any) -> Fused:
        """Asks every backend and packs one block; ``fields`` are those of `FuseRequest` beside a plain query.

        Raises BadInput, NobodyAnswered when every backend failed, and Overloaded when so much was asked at once that
        its turn did not come within the time that it may take.
        """
        asked = FuseRequest(request, **fields) if isinstance(request, str) else replace(request, **fields)
        self.require_home()
        io, recipe = self._io(asked), self._recipe(asked)
        try:
            async with self.turns.one(_patience_s(asked, recipe)):
                outcome = await fuse(asked, recipe, io)
        except NobodyAnswered as error:
            error.retry_after_s = self.retry_after_s(asked.backends)
            raise
        self._keep(outcome, asked.scope)
        await self._look()
        for row in outcome.fused.backends:
            self.health.count_leaks(row["name"], row.get("refused", {}))
        told = {name: ids for name, ids in outcome.used.items() if name in self.users}
        if told:
            self._behind(self._tell_used(told))
        return replace(
            outcome.fused,
            abstained=await self._abstained(outcome.fused, asked.scope.tenant),
            notes=(*self._notes, *self.health.failing),
            coverage=self.health.coverage(outcome.fused.coverage),
            degraded=outcome.fused.degraded or self.health.degraded,
        )

    async def _abstained(self, fused: Fused, tenant: str) -> str | None:
        """Why nothing was recalled; where nothing was ever brought here, that: the wrong home, or a new one."""
        if fused.block or self.health.items != 0 or any(row["count"] for row in fused.backends):
            return fused.abstained
        return fused.abstained if (await self.journal.counts(tenant)).current else NO_MEMORIES

    def _keep(self, outcome: Outcome, scope: Scope) -> None:
        """Keeps the receipt of an answer, and what stands behind the refs that it cites of other people's memories."""
        summary = {**outcome.receipt.summary, "user_id": scope.user_id}
        self.receipts.keep(replace(outcome.receipt, summary=summary))
        cited = self.noting.unknown((m.ref for x in outcome.fused.memories for m in x.members), scope)
        if cited:
            self.noting.note(foreign_items(outcome, scope, cited))

    async def _look(self) -> None:
        """Has the backends asked how they are, behind, when it is time. The first answers wait for it a little: else
        they would not say that they are degraded."""
        if self.health.is_due():
            looking = self._behind(self.health.look())
            if not self.health.has_looked:
                await asyncio.wait([looking], timeout=FIRST_LOOK_S)

    @in_its_tenant
    async def worth_asking_s(self, names: Sequence[str] | None, tenant: str) -> float:
        """As `retry_after_s`, for a tenant."""
        return self.retry_after_s(names)

    def retry_after_s(self, names: Sequence[str] | None = None) -> float:
        """When it is worth asking these backends again after they all failed: as soon as a breaker lets one through."""
        asked = [self.sources[name] for name in names or self.sources]
        return max(RETRY_S, min((s.breaker.wait_s for s in asked if s.disabled is None), default=RETRY_DISABLED_S))

    @in_its_tenant
    async def record(self, request: FuseRequest) -> tuple[Fused, Recording]:
        """As `fuse`, with all I/O written down, so that any recipe or subset of backends can be replayed.

        Nothing is marked as used: a measurement must not change what it measures.
        """
        recorder = Recorder.of(self._io(request))
        outcome = await fuse(request, self._recipe(request), recorder)
        return outcome.fused, recorder.recording

    @in_its_tenant
    async def compare(self, request: FuseRequest, a: str, b: str) -> Comparison:
        """One question to two arms (`fusion.compare.arms` says how they are written) over one gather.

        Both receipts are kept, and nothing is marked as used. Raises BadInput for an arm that cannot be, and for one
        arm given twice; NobodyAnswered when every backend of one of them failed; Overloaded as `fuse`.
        """
        arms = ArmReader(self.recipes, tuple(self.sources), self.settings.recipe).arms(a, b)
        try:
            async with self.turns.one(max(_patience_s(request, arm.recipe) for arm in arms)):
                compared = await compare(request, *arms, self.live)
        except NobodyAnswered as error:
            error.retry_after_s = self.retry_after_s([name for arm in arms for name in arm.backends])
            raise
        for outcome in compared.outcomes:
            self._keep(outcome, request.scope)
        for row in compared.backends:
            self.health.count_leaks(row["name"], row.get("refused", {}))
        await self._look()
        found = compared.comparison
        notes = (*self._notes, *self.health.failing)
        return replace(found, a=self._as_home(found.a), b=self._as_home(found.b), notes=notes)

    def _as_home(self, side: Side) -> Side:
        """An arm's answer with what ails the home as a whole, as `fuse` tells it."""
        degraded = side.degraded or self.health.degraded
        return replace(side, coverage=self.health.coverage(side.coverage), degraded=degraded)

    @in_its_tenant
    async def search(self, backend: str, query: str, scope: Scope, limit: int = 10) -> Answer:
        """One backend's own answer, filtered but not ranked by us.

        Raises BadInput for an unknown name, Overloaded as `fuse`.
        """
        source = self._source(backend)
        asked = Query(query, scope, datetime.now(UTC), limit, source.deadline_s)
        async with self.turns.one(source.deadline_s):
            (answer,) = await self.live.answers(asked, [backend], source.deadline_s)
        sources = [i for h in answer.hits for i in (h.event_id, *h.derived_from) if i]
        kept, refused = admit(backend, answer.hits, asked, await self.journal.records(sources))
        self.health.count_leaks(backend, refused)
        fresh = self.noting.unknown((item.ref for item in kept), scope)
        self.noting.note([ExternalItem(item.ref, backend, item.hit, scope) for item in kept if item.ref in fresh])
        hits = (item.hit.found_as(item.found) if item.found else item.hit for item in kept)
        return replace(answer, hits=tuple(map(shown, hits)))

    @in_its_tenant
    async def refs(self, answer: Answer, tenant: str = DEFAULT) -> Sequence[str]:
        """The ref of each hit of one backend's answer, which `memory` and `forget` take."""
        records = await self.journal.records([hit.event_id for hit in answer.hits if hit.event_id])
        known = (records.get(hit.event_id) if hit.event_id else None for hit in answer.hits)
        return [
            record.ref if record else external_ref(answer.backend, hit.native_id)
            for hit, record in zip(answer.hits, known, strict=True)
        ]

    @in_its_tenant
    async def remember(
        self,
        items: Sequence[NewMemory],
        *,
        idempotency_key: str | None = None,
        tenant: str = "default",
        batch: str | None = None,
        apart: bool = False,
    ) -> Sequence[Acknowledged]:
        """Journals events and returns; they are delivered behind. What is acknowledged is kept, whatever happens."""
        return await self.intake.remember(
            items, tenant=tenant, idempotency_key=idempotency_key, batch=batch, apart=apart
        )

    @property
    def embedding_model(self) -> str | None:
        """The identity of the model that texts are compared by."""
        return None if (configured := self.embedders.configured) is None else configured.identity

    @in_its_tenant
    async def append(self, text: str, scope: Scope) -> Mapping[str, Any]:
        """Keeps lines in today's log: the user's own where a backend keeps one for that scope, else as a note of ours.

        The day is that of the user's zone (``[flush] zone``), as in the plan of a flush. Raises BadInput, StoreFull.
        """
        note = NewMemory(text=text, scope=scope, kind="note", origin="agent")
        prepared = self.intake.prepared(note, scope.tenant)
        event, redacted, reason = prepared.event, prepared.redacted, prepared.changes
        if event is None:
            return {"path": None, "ref": None, "status": "skipped", "redacted": 0, "reason": reason}
        day = local(event.recorded_at, self.settings.flush.zone).date()
        asked = Query("", scope, event.recorded_at)
        for source in self.sources.values():
            log_of = source.backend
            if source.disabled is None and isinstance(log_of, KeepsDailyLog) and not unable(asked, log_of.features):
                place = await log_of.append(event.text, scope, day)
                if place is not None:
                    lines = {"startLine": place.start, "endLine": place.end}
                    kept_as = {"status": "appended", "redacted": redacted, "reason": reason}
                    return {"path": place.document, **lines, "ref": None, **kept_as}
        (kept,) = await self.intake.remember([note], tenant=scope.tenant)
        told = {"status": kept.status, "redacted": kept.redacted, "reason": kept.reason}
        return {"path": kept.ref, "ref": kept.ref, **told}

    @in_its_tenant
    async def memory(self, ref: str, scope: Scope) -> Mapping[str, Any]:
        """One event as the journal has it, or one item of a backend's own, as that has it now.

        Raises NotFound, also for another's and for a forgotten one; NobodyAnswered where the item's backend is down.
        """
        if not is_external(ref):
            record = await self.journal.find(ref, scope)
            held = await self.journal.outbox.holders([record.ref])
            current = record.superseded_by is None
            more = {"backends": held[record.ref], "supersedes": record.event.supersedes, "current": current}
            said = await self.journal.times_remembered(ref, scope)
            return {"ref": record.ref, **public(record.event), **more, "said": said, "said_at": record.said_at}
        await self.noting.flush()
        item = await self.journal.external_item(ref, scope)
        if item.backend not in self.sources:
            raise NotFound(f"there is no memory {ref!r} here: its backend {item.backend} is not configured any more")
        answer = await self.search(item.backend, spoken(item.hit.text, item.hit.speaker)[:PROBE_CHARS], scope, 100)
        if answer.status not in ("ok", "empty"):
            raise NobodyAnswered(f"{ref} is a memory of {item.backend}, which does not answer ({answer.status})", {})
        for hit in answer.hits:
            if hit.native_id == item.hit.native_id:
                return {"ref": item.ref, "backend": item.backend, **public(hit), "backends": [item.backend]}
        raise NotFound(f"there is no memory {ref!r} here: {item.backend} has it no more")

    @in_its_tenant
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
        page = await self.journal.page(scope, limit, before=beginning(cursor), document=document, source=source)
        return {
            "memories": [{"ref": record.ref, **public(record.event)} for record in page.records],
            "next_cursor": None if page.next is None else cursor_of(page.next),
        }

    @in_its_tenant
    async def document(self, path: str, scope: Scope, *, start: int = 1, lines: int = PAGE_LINES) -> Mapping[str, Any]:
        """A page of a document that a hit named: from its file where a backend reads it, else from the journal.

        Raises NotFound, the same for every path that is not one of this scope's documents, whatever it looks like.
        """
        return await document(path, scope, start, lines, sources=self.sources.values(), journal=self.journal)

    @in_its_tenant
    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Deletes a memory everywhere, and says of each backend what became of it there. Raises NotFound."""
        await self.noting.flush()
        try:
            return await self.forgetter.forget(ref, scope)
        finally:
            self.noting.forget()

    @in_its_tenant
    async def forget_many(self, request: ForgetRequest) -> ForgetResult:
        """Deletes what a request means, or shows what it would delete. Raises BadInput, which says what to change."""
        await self.noting.flush()
        try:
            return await self.forgetter.request(request, self._recall)
        finally:
            self.noting.forget()

    @in_its_tenant
    async def undo(
        self, scope: Scope, batch: str | None = None, *, limit: int = 1000, dry_run: bool = False
    ) -> UndoResult:
        """Takes back what a run of an ingest added, by default the last run; raises NotFound as `Forgetter.undo`."""
        self.require_home()
        return await self.forgetter.undo(scope, batch, limit=limit, dry_run=dry_run)

    @in_its_tenant
    async def batches(self, scope: Scope, limit: int = 20) -> Sequence[Batch]:
        """The runs of an ingest of which a scope has memories, the latest first."""
        return await self.journal.batches(scope, limit)

    @in_its_tenant
    async def forgotten(self, scope: Scope, limit: int = 20, *, cursor: str | None = None) -> Mapping[str, Any]:
        """The audit of a scope's user, newest first: what was forgotten when, and what became of it where."""
        entries = await self.journal.audit(scope, limit + 1, beginning(cursor))
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

    @in_its_tenant
    async def do(self, backend: str, verb: Verb, scope: Scope, line: Line, progress: Progress) -> object:
        """Tells a backend to do what one of its verbs says. Raises BadInput, and BackendUnreachable where it is not."""
        if isinstance(verb, Operates) and scope.tenant != Scope().tenant:
            raise BadInput("That works on the whole store: it wants a key of the tenant default.")
        await self.health.losses.forget(backend)
        try:
            return await verb(self._open(backend), self._call(backend, scope, line, progress))
        finally:
            await self.health.losses.forget(backend)
            if isinstance(verb, Operates) and self.tenants is not None:
                await self.tenants.reopen()  # what was changed for the whole home holds for the other tenants, too

    @in_its_tenant
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
        return Call(scope, datetime.now(UTC), Scoped(self, backend, scope), line, progress)

    @in_its_tenant
    async def retire(self, scope: Scope, files: Sequence[Whole], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retires what files do not have any more; by source, how many memories that are."""
        return await self.intake.retire(scope, files, dry_run=dry_run)

    @in_its_tenant
    async def origins(self, scope: Scope, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[SourceCount]:
        """The sources of a scope's memories that begin with ``prefix``, by name, after the one named."""
        return await self.intake.sources(scope, prefix, after, limit)

    async def _recall(self, query: str, scope: Scope) -> list[Preview]:
        recipe = self._recipe(FuseRequest(query, scope))
        return await meant_by(query, scope, recipe, live=self.live, journal=self.journal, forgetter=self.forgetter)

    def _behind(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Does something after the reply."""
        task = asyncio.create_task(work)
        self._after.add(task)
        task.add_done_callback(self._after.discard)
        return task

    @in_its_tenant
    async def backends(self, tenant: str = DEFAULT) -> list[BackendState]:
        """Every configured backend as it is now, for a tenant."""
        return await self.health.backends()

    @in_its_tenant
    async def status(self, tenant: str = DEFAULT) -> dict[str, Any]:
        """The home at a glance, as `wire.Status` has it, for ``tenant`` alone.

        The bytes of `DEFAULT` are those of the whole home, with every tenant's: that is the owner's.
        """
        states, deliveries, counts, kept, parts, held = await asyncio.gather(
            self.backends(),
            self.journal.deliveries(),
            self.journal.counts(self.tenant),
            self.receipts.kept(self.tenant),
            asyncio.to_thread(sizes, self.settings.home),
            self.journal.withheld(self.tenant),
        )
        return {
            "version": package.__version__,
            "uptime_s": self.health.uptime_s,
            "backends": [
                {
                    **asdict(state),
                    **deliveries.get(state.name, Deliveries()).trouble(),
                    **breaker_of(self.sources[state.name].breaker),
                }
                for state in states
            ],
            "memories": asdict(counts),
            "receipts": {"kept": kept, "keep_days": self.settings.receipts.keep_days},
            "embedder": self.embedding_model,
            "judge": None if self.live.judge is None else self.live.judge.name,
            "bytes": parts,
            "notes": list(self._notes),
            "held_back": [asdict(one) for one in held],
            "links": dict(self.notes_follower.linked) if self.notes_follower is not None else {},
        }

    @in_its_tenant
    async def receipt(
        self, receipt_id: str, tenant: str = "default", *, user_id: str | None = None
    ) -> Mapping[str, Any]:
        """Why each candidate of an earlier answer was in or out. Raises NotFound, also where ``user_id`` is named and
        the question was not asked for that user."""
        return explain(await self._receipt(receipt_id, tenant, user_id))

    async def _receipt(self, receipt_id: str, tenant: str, user_id: str | None) -> Mapping[str, Any]:
        body = await self.receipts.read(receipt_id, tenant)
        # As with memories: who names a user gets that user's, and not what belongs to nobody in particular.
        if user_id is not None and body.get("user_id") != user_id:
            # In the words of one that never was: that it is there is nobody else's business.
            raise NotFound(
                f"there is no receipt {receipt_id}; receipts are kept for {self.settings.receipts.keep_days:g} days"
            )
        return body

    @in_its_tenant
    async def feedback(
        self, receipt_id: str, scope: Scope, *, useful: Sequence[str] = (), useless: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Keeps which memories of an answer were of use, in place of what was said of it before; durable.

        With neither, what was said is taken back. Raises NotFound for a receipt that is not this tenant's and user's,
        and BadInput, which names the ref, for one that does not stand in it, was forgotten since, or is both.
        """
        body = await self._receipt(receipt_id, scope.tenant, scope.user_id)
        votes = labelled(body, useful, useless)
        await self.journal.label(scope, receipt_id, votes)
        return {
            "receipt_id": receipt_id,
            "useful": [vote.ref for vote in votes if vote.useful],
            "useless": [vote.ref for vote in votes if not vote.useful],
        }

    @in_its_tenant
    async def labels(self, tenant: str, limit: int = 100, *, cursor: str | None = None) -> Mapping[str, Any]:
        """A page of a tenant's feedback, oldest first, as labels for `fusion tune`; raises BadInput as `memories`."""
        page = await self.journal.labels(tenant, limit, after=beginning(cursor) or 0)
        return {"labels": page.labels, "next_cursor": None if page.next is None else cursor_of(page.next)}

    @in_its_tenant
    async def settle(self, tenant: str = DEFAULT) -> None:
        """Returns when all that a tenant has is delivered and searchable in every way, or failed for good.

        With a model, what it has to distil by now is distilled; the last turns of a conversation still wait for more.
        """
        await self._finish()
        if self.distiller is not None:
            await self.distiller.settle()
        await self.deliverer.settle()
        waiting = {n: s.backend for n, s in self.sources.items() if isinstance(s.backend, Settles) and not s.disabled}
        ends = await asyncio.gather(*(backend.settle() for backend in waiting.values()), return_exceptions=True)
        for name, end in zip(waiting, ends, strict=True):
            if isinstance(end, Exception):
                log.warning("backend %s could not finish what it works at behind: %s", name, type(end).__name__)

    @in_its_tenant
    async def ready(self, tenant: str = DEFAULT) -> dict[str, Any]:
        """Whether questions can be answered: the home is there, a backend is open. With what is degraded."""
        try:
            await self.look_at_home()
        except HomeGone as error:
            return {"ready": False, "reason": str(error), "backends": {}, "notes": [str(error)]}
        states = {name: status_of(source) for name, source in self.sources.items()}
        usable = [name for name, status in states.items() if status in ("ready", "half_open")]
        return {"ready": bool(usable), "backends": states, "notes": list(self._notes)}

    def require_home(self) -> None:
        """Raises HomeGone when the home or its journal is not at its path any more; some microseconds."""
        self.journal.require_reachable()

    async def look_at_home(self) -> None:
        """As `require_home`, and looks into the journal's files where another process wrote to them."""
        self.require_home()
        await self.journal.compare_with_files()

    @property
    def _notes(self) -> tuple[str, ...]:
        failing = self.distiller.fault if self.distiller is not None else ""
        waiting = (f"conversations wait to be distilled, the language model fails: {failing}",) if failing else ()
        notes = self.notes_follower.faults if self.notes_follower is not None else ()
        return (*self.notes, *self.health.broken, *waiting, *notes)

    async def check(self) -> Mapping[str, str]:
        """Looks for damage in the journal and in every backend that can be looked through. By store, what was found.

        What is derived is written again by then; what is not stands in the notes, and answers are degraded.
        """
        return await self.health.check()

    async def _compare_now_and_then(self) -> None:
        """Compares the counts of journal and stores from the start on. The first comparison finds what was lost since
        the last run."""
        while (pause_s := self.settings.checks.compare_s) > 0:
            await self.health.compare()
            await asyncio.sleep(pause_s)

    async def _check_now_and_then(self) -> None:
        while (pause_s := self.settings.checks.every_hours * 3600) > 0:
            await asyncio.sleep(pause_s)
            await self.check()

    def _recipe(self, request: FuseRequest) -> Recipe:
        name = request.recipe or self.settings.recipe
        if name not in self.recipes:
            raise BadInput(f"recipe {name!r}: there are {', '.join(sorted(self.recipes))}{hint(name, self.recipes)}")
        return self.recipes[name]

    def _io(self, request: FuseRequest) -> Live:
        for name in request.backends or ():
            self._source(name)
        return self.live

    def _source(self, name: str) -> Source:
        if name not in self.sources:
            raise BadInput(f"backend {name!r}: there are {', '.join(sorted(self.sources))}{hint(name, self.sources)}")
        return self.sources[name]

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


def _allowed(config: Settings | Path | str | None, home: Path | None) -> Settings:
    """The settings of a home that may be opened. Raises HomeNotAllowed.

    Settings that a program built are its own decision, so only their home is examined.
    """
    if isinstance(config, Settings):
        require(config.home, named="home" in config.model_fields_set)
        return config
    file = Path(config) if config else None
    located = locate_home(home)
    settings = load(file, home=home)
    require(settings.home, named=located.named or settings.home != located.path, config=file)
    return settings


def _patience_s(request: FuseRequest, recipe: Recipe) -> float:
    """How long a question waits for its turn: as long as it may take then, for nobody waits for later ones."""
    return (request.timeout_ms or recipe.gather.timeout_ms) / 1000


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
