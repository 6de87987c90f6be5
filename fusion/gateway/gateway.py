"""The calls that doors may make on an open home; each delegates to the engine, the intake, the journal or a backend.

async with Gateway.open() as gateway:
    print((await gateway.fuse("what did we decide about the database?")).block)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from fusion import wire
from fusion.contract import Backend, Embedder, EncodesLater, MayBeDisabled, Scope, Settles
from fusion.errors import BackendUnreachable, BadInput, HomeGone, NobodyAnswered, NotFound
from fusion.extension import Asks, Call, Operates, Route, Verb
from fusion.gateway import decisions, transfer
from fusion.gateway.accesses import noted
from fusion.gateway.audit import AuditCalls
from fusion.gateway.background import Background, cancelled
from fusion.gateway.bootstrap import open_shared, open_tenant
from fusion.gateway.comparisons import ComparisonCalls
from fusion.gateway.daily_log import append_to_log, recent_logs
from fusion.gateway.decision_calls import DecisionCalls
from fusion.gateway.episodes import EpisodeCalls
from fusion.gateway.extensions import routes_of, verbs_of
from fusion.gateway.forget_by_query import memories_to_forget
from fusion.gateway.forget_episodes import forget_episodes, forget_one, is_episode, joined, of_memories
from fusion.gateway.grading import GradeCalls
from fusion.gateway.graph_overview import GraphOverview
from fusion.gateway.health import breaker_of, status_of
from fusion.gateway.home_jobs import jobs_of
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.items import ItemCalls
from fusion.gateway.next_synthesis import NextSyntheses
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import DEFAULT, SharedParts, TenantParts
from fusion.gateway.plans import PlanCalls
from fusion.gateway.prefix import PrefixCalls
from fusion.gateway.progressive import ProgressiveRecall, RecordsRequest, full_records, record_of_episode
from fusion.gateway.read_only import writable_home
from fusion.gateway.readings import ReadingCalls
from fusion.gateway.receipts import ReceiptCalls
from fusion.gateway.replaying import ReplayCalls
from fusion.gateway.scoped import CallerGateway
from fusion.gateway.shepherding import open_incidents
from fusion.gateway.summaries import By, with_sections
from fusion.gateway.tenants import Tenants
from fusion.gateway.transfer import Export, ImportOptions, ImportReport, Moved
from fusion.gateway.triage import TriageCalls
from fusion.gateway.trust_report import TrustCalls
from fusion.gateway.views import document, earlier_versions, listed, position_of, public, standing
from fusion.gateway.why import WhyCalls
from fusion.home import locate_home, sizes
from fusion.ingest.forget import ForgetReceipt, ForgetRequest, ForgetResult, Preview, UndoResult
from fusion.ingest.intake import Acknowledged, NewMemory
from fusion.ingest.read_in_context import Portion, read_portion
from fusion.ingest.update import Change, update
from fusion.ingest.verify import PROBE_CHARS
from fusion.journal import (
    audit,
    batches,
    external_refs,
    feedback,
    histories,
    owners,
    proposals,
    rows,
    statements,
    tombstones,
)
from fusion.journal.batches import Batch
from fusion.journal.browsing import Browse
from fusion.journal.external_refs import is_external
from fusion.journal.feedback import labelled
from fusion.journal.outbox import Deliveries
from fusion.journal.retire import CompleteFile, SourceCount
from fusion.lib.budget import DAILY_LOG_CHARS
from fusion.lib.clock import Clock, utc_now
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.request_rate import RequestRates
from fusion.lib.words import spoken
from fusion.recall.document import PAGE_LINES
from fusion.recall.engine import FuseRequest
from fusion.settings import Settings, load
from fusion.sources.histories import of_program
from fusion.trust import require
from fusion.upkeep.lifecycle import LifecycleRequest, Report, no_progress
from fusion.upkeep.runner import Runner
from fusion.version import VERSION

log = logging.getLogger(__name__)

Line = Callable[[str], Awaitable[None]]
"""sends one line of a verb's answer, as `fusion.extension.Call.line`"""

Progress = Callable[[int, int | None], None]
"""reports how many items are done, of how many, as `fusion.extension.Call.progress`"""


@dataclass(frozen=True, slots=True, eq=False)
class Gateway(
    AuditCalls,
    Background,
    ComparisonCalls,
    DecisionCalls,
    EpisodeCalls,
    GradeCalls,
    GraphOverview,
    ItemCalls,
    PlanCalls,
    PrefixCalls,
    ProgressiveRecall,
    ReadingCalls,
    ReceiptCalls,
    ReplayCalls,
    TriageCalls,
    TrustCalls,
    WhyCalls,
):
    """An open home, for one tenant; `Gateway.open` builds it.

    The gateway of the home's owner passes calls for other tenants on to their gateways.
    """

    runner: Runner | None = None
    """the jobs of the home; None in the gateway of another tenant"""
    rates: RequestRates | None = None
    """the requests of each tenant in a minute; None without a limit, and in the gateway of another tenant"""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: Settings | Path | str | None = None, *, home: Path | None = None, clock: Clock = utc_now
    ) -> AsyncIterator[Gateway]:
        """Open a home, lock it until the end of the block, and close everything then.

        Raises SettingsError, HomeLocked, and StoreDamaged if nothing of the journal can be read. If it can be read in
        part, questions are answered as degraded, and nothing is remembered or forgotten. A backend that cannot be
        opened is missing from answers; the others are not affected. ``clock`` is the time of day.
        """
        settings = _allowed_settings(config, home)
        async with (
            writable_home(settings) as opened,
            open_shared(opened.settings, opened.reason, clock) as shared,
            AsyncExitStack() as stack,
        ):
            settings = opened.settings
            most_open = settings.server.max_open_tenants
            tenants: Tenants[Gateway] = Tenants(
                settings.home, partial(cls._open_tenant, shared), most_open, shared.server
            )
            gateway = await stack.enter_async_context(cls._open_tenant(shared, DEFAULT, tenants))
            stack.push_async_callback(tenants.close)
            tenants.refusal = gateway.health.damaged.get("journal", "")
            stack.push_async_callback(cancelled, asyncio.create_task(tenants.deliver()))
            runner = jobs_of(gateway, tenants.names)
            stack.push_async_callback(runner.close)
            if not (opened.reason or gateway.health.damaged):
                regularly = runner.run_regularly(settings.jobs.start_after_s)
                stack.push_async_callback(cancelled, asyncio.create_task(regularly))
            yield replace(gateway, runner=runner, rates=shared.rates)

    @classmethod
    @asynccontextmanager
    async def _open_tenant(
        cls, shared: SharedParts, tenant: str, tenants: Tenants[Gateway] | None = None
    ) -> AsyncIterator[Gateway]:
        """The gateway of one tenant, with its background tasks running until the end of the block."""
        async with open_tenant(cls, shared, tenant) as parts, AsyncExitStack() as stack:
            syntheses = NextSyntheses(kept_s=shared.settings.memory_cortex.synthesis_ttl_s)
            gateway = replace(parts, tenants=tenants, syntheses=syntheses)
            gateway.histories.on_change = gateway._history_taken_in
            stack.push_async_callback(gateway._finish_background)
            stack.push_async_callback(gateway.prepared.close)
            stack.push_async_callback(gateway.syntheses.close)
            await stack.enter_async_context(gateway._running_tasks())
            yield gateway

    @in_tenant
    async def remember(
        self,
        items: Sequence[NewMemory],
        *,
        idempotency_key: str | None = None,
        tenant: str = "default",
        batch: str | None = None,
        apart: bool = False,
    ) -> Sequence[Acknowledged]:
        """Store events durably in the journal; they are delivered to the backends in the background."""
        kept = await self.intake.remember(
            items, tenant=tenant, idempotency_key=idempotency_key, batch=batch, apart=apart
        )
        turns = [item.scope for item in items if item.kind == "turn" and item.scope.session_id is not None]
        if turns:
            captured = {(tenant, scope.user_id or "", str(scope.session_id)) for scope in turns}
            self.prepared.prepare(captured, self._prepare)
        return kept

    def _history_taken_in(self, key: histories.HistoryKey) -> None:
        """Prepare the next answer of a session whose history has changed the memories."""
        self.prepared.prepare({(self.tenant, key.user_id, key.session_id)}, self._prepare)

    @in_tenant
    async def ingest_history(
        self, scope: Scope, body: bytes, *, channel: str = "", debounce: bool = True
    ) -> wire.HistoryKept:
        """Store the body of a call with the whole history of the session ``scope``, which is taken in later.

        Raises BadInput, Overloaded, StoreFull and StoreBusy; nothing is stored then.
        """
        self.require_home()
        chosen = self.settings.memory_cortex
        session = scope.session_id or ""
        if not (chosen.enabled and chosen.auto_ingest):
            return {"status": "skipped", "session_id": session, "due_at": None, "reason": "[memory_cortex] is off"}
        if chosen.skip_heartbeat and of_program(session, channel):
            return {"status": "skipped", "session_id": session, "due_at": None, "reason": "a session of a program"}
        due = await self.histories.put(scope, channel, body, debounce=debounce)
        return {"status": "accepted", "session_id": session, "due_at": due.isoformat(), "reason": ""}

    @in_tenant
    async def update(
        self,
        ref: str,
        change: Change,
        scope: Scope,
        *,
        idempotency_key: str | None = None,
        may_raise_trust: bool = True,
    ) -> Sequence[Acknowledged]:
        """Store a new version of a memory, which takes its place; one acknowledgement, as of `remember`.

        Raises as `fusion.ingest.update.update`, and BadInput for an external memory.
        """
        if is_external(ref):
            await self.external_refs.flush()
            item = await self.journal.read(external_refs.resolve, ref, scope)
            raise BadInput(
                f"{item.ref} is a memory that only {item.backend} has, and the gateway does not change it there. "
                f"Remember what holds now, and forget {item.ref}"
            )
        return await update(
            self.journal, self.intake, ref, change, scope, idempotency_key, may_raise_trust=may_raise_trust
        )

    @property
    def embedder(self) -> Embedder | None:
        """The embedding model of the settings, or None."""
        return self.embedders.configured

    @property
    def embedding_model(self) -> str | None:
        """The identity of the embedding model, or None."""
        return None if (configured := self.embedders.configured) is None else configured.identity

    @in_tenant
    async def append_to_log(self, text: str, scope: Scope) -> wire.Appended:
        """Append lines to today's log file if a backend keeps one for the scope; otherwise store them as a note.

        The day is the current one in the user's time zone (``[flush] zone``). Raises BadInput and StoreFull.
        """
        return await append_to_log(
            text, scope, zone=self.settings.flush.zone, backends=self.guarded.values(), intake=self.intake
        )

    @in_tenant
    async def daily_logs(
        self, scope: Scope, *, zone: str | None = None, budget_chars: int = DAILY_LOG_CHARS, all_users: bool = False
    ) -> wire.DailyLogs:
        """Today's and yesterday's logs for the start of a session; ``zone`` replaces that of `[flush]`.

        Raises BadInput for an unknown zone, and NobodyNamed as `fuse` does.
        """
        self.require_home()
        await require_owner(self.journal, scope, all_users)
        return await recent_logs(
            scope,
            self.live.now(),
            zone=self.settings.flush.zone if zone is None else zone,
            budget_chars=budget_chars,
            backends=[*self.guarded.values()],
            journal=self.journal,
        )

    @in_tenant
    async def memory(self, ref: str, scope: Scope) -> Mapping[str, Any]:
        """One event from the journal, or one external memory as its backend returns it now.

        Raises NotFound, also for a memory out of scope and for a forgotten one; NobodyAnswered if the backend of an
        external memory is down.
        """
        if not is_external(ref):
            record = await self.journal.find(ref, scope)
            held = await self.journal.outbox.holders([record.ref])
            current = record.superseded_by is None
            more = {
                "backends": held[record.ref],
                "supersedes": record.event.supersedes,
                "current": current,
                "state": decisions.shown_state(record.state, rows.default_state(record.event.scope.project)),
            }
            times = await self.journal.read(rows.times_remembered, ref, scope)
            said = {"said": times, "said_at": record.said_at, **await self.use_of(record.event.event_id)}
            shown = {**public(record.event), "trust": record.trust, **standing(record)}
            return {"ref": record.ref, **shown, **more, **said}
        await self.external_refs.flush()
        item = await self.journal.read(external_refs.resolve, ref, scope)
        if item.backend not in self.guarded:
            raise NotFound(f"there is no memory {ref!r} here: its backend {item.backend} is not configured any more")
        probe = spoken(item.hit.text, item.hit.speaker)[:PROBE_CHARS]
        answer = await self.search(item.backend, probe, scope, 100, all_users=True)  # the ref names it
        if answer.status not in ("ok", "empty"):
            raise NobodyAnswered(f"{ref} is a memory of {item.backend}, which does not answer ({answer.status})", {})
        for hit in answer.hits:
            if hit.native_id == item.hit.native_id:
                more = {"backends": [item.backend], **await self.use_of(item.ref)}
                return {"ref": item.ref, "backend": item.backend, **public(hit), **more}
        raise NotFound(f"there is no memory {ref!r} here: {item.backend} has it no more")

    @in_tenant
    async def records(self, request: RecordsRequest) -> wire.RecordsReply:
        """Memories and observations in full, within a budget of tokens; what is not there is reported as missing."""

        async def read(ref: str, scope: Scope) -> Mapping[str, Any]:
            if ref.startswith("ep:"):
                return record_of_episode(await self.episode(ref, scope))
            return await self.memory(ref, scope)

        return await full_records(request, read)

    @in_tenant
    async def memories(self, scope: Scope, limit: int = 20, **filters: Any) -> Mapping[str, Any]:
        """A page of a scope's memories in the journal that fit, and the cursor of the next page, or None.

        ``filters`` and the order are those of `Browse`. Raises BadInput for an invalid cursor.
        """
        page = await self.journal.browse(Browse(scope, limit, **filters))
        now = self.live.now()
        return {"memories": [listed(record, now) for record in page.records], "next_cursor": page.next}

    @in_tenant
    async def document(
        self,
        path: str,
        scope: Scope,
        *,
        start: int = 1,
        lines: int = PAGE_LINES,
        summaries: By | None = None,
        versions: int = 0,
    ) -> Mapping[str, Any]:
        """A page of a document that a hit names: from its file if a backend reads it, else from the journal.

        With ``summaries`` it lists its sections, each summarised by the rules or by the language model; with
        ``versions`` so many earlier versions of its file. Raises NotFound, with the same text for every path that is
        not a document of this scope.
        """
        page = await document(path, scope, start, lines, backends=self.guarded.values(), journal=self.journal)
        if versions:
            found = await earlier_versions(path, scope, versions, self.guarded.values(), self.journal)
            page = {**page, "versions": found}
        return page if summaries is None else await with_sections(page, summaries, self.model)

    @in_tenant
    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Delete a memory or an observation everywhere; the outcome for each backend. Raises NotFound."""
        if is_episode(ref):
            return await forget_one(self.observation_forgetter, ref, scope)
        await self.external_refs.flush()
        try:
            return await self.forgetter.forget(ref, scope)
        finally:
            self.external_refs.forget()
            self.recordings.clear()

    @in_tenant
    async def forget_many(self, request: ForgetRequest) -> ForgetResult:
        """Delete the memories and observations that a request selects, or only list them.

        Raises BadInput, and for a query NobodyNamed as `fuse` does.
        """
        if request.query is not None:
            await require_owner(self.journal, request.scope, request.all_users)
        request.names()  # a wrong request forgets nothing
        await self.external_refs.flush()
        episodes = await forget_episodes(self.observation_forgetter, request)
        of_these = of_memories(request)
        try:
            if of_these is None:
                return episodes
            return joined(await self.forgetter.request(of_these, self._preview_forget), episodes)
        finally:
            self.external_refs.forget()
            self.recordings.clear()

    @in_tenant
    async def undo(
        self, scope: Scope, batch: str | None = None, *, limit: int = 1000, dry_run: bool = False
    ) -> UndoResult:
        """Delete the memories that one run of an ingest added, by default the last run. Raises NotFound."""
        self.require_home()
        return await self.forgetter.undo(scope, batch, limit=limit, dry_run=dry_run)

    @in_tenant
    async def batches(self, scope: Scope, limit: int = 20) -> Sequence[Batch]:
        """The ingest runs that added memories to a scope, the latest first."""
        return await self.journal.read(batches.batches, scope, limit)

    @in_tenant
    async def forgotten(self, scope: Scope, limit: int = 20, *, cursor: str | None = None) -> Mapping[str, Any]:
        """A page of the audit of a scope's deletions, newest first: time, and outcome by backend."""
        entries = await self.journal.read(audit.page, scope, limit + 1, position_of(cursor))
        return {
            "forgotten": [entry for _, entry in entries[:limit]],
            "next_cursor": cursor_of(entries[limit - 1][0]) if len(entries) > limit else None,
        }

    @in_tenant
    async def run_lifecycle(self, request: LifecycleRequest, progress: Progress = no_progress) -> Report:
        """Run the lifecycle over the memories of a scope, as `Lifecycle.run`. Raises BadInput."""
        self.require_home()
        return await self.lifecycle.run(request, self.live.now(), progress)

    def verb(self, backend: str, name: str) -> type[Verb]:
        """A backend's verb of that name. Raises NotFound, which lists the verbs that exist."""
        if backend not in self.guarded:
            raise NotFound(f"There is no backend {backend!r}: there are {', '.join(sorted(self.guarded))}.")
        verbs = verbs_of(self.settings.backends[backend].adapter)
        if name not in verbs:
            known = f"there are {', '.join(verbs)}" if verbs else "it has none"
            raise NotFound(f"{backend} has no verb {name!r}: {known}.")
        return verbs[name]

    def routes(self) -> Mapping[str, Sequence[Route]]:
        """The drop-in routes, by backend."""
        by_backend = {name: routes_of(chosen.adapter) for name, chosen in self.settings.backends.items()}
        return {name: routes for name, routes in by_backend.items() if routes}

    @in_tenant
    async def do(
        self, backend: str, verb: Verb, scope: Scope, line: Line, progress: Progress, *, all_users: bool = False
    ) -> object:
        """Run a verb of a backend.

        Raises BadInput, BackendUnreachable if the backend is disabled, and for a verb that asks NobodyNamed as `fuse`.
        """
        if isinstance(verb, Asks):
            await require_owner(self.journal, scope, all_users)
        if isinstance(verb, Operates) and scope.tenant != Scope().tenant:
            raise BadInput("This verb works on the whole store: it needs a key of the tenant default.")
        await self.health.losses.forget(backend)
        try:
            # A route of verbs is for operators, who read what is quarantined.
            caller = CallerGateway(self, self, backend, scope, all_users, reads_quarantined=True)
            call = Call(scope, self.live.now(), caller, line, progress)
            return await verb(self._opened_backend(backend), call)
        finally:
            await self.health.losses.forget(backend)
            if isinstance(verb, Operates) and self.tenants is not None:
                await self.tenants.reopen()  # a change of the whole home applies to the other tenants, too

    @in_tenant
    async def serve(
        self,
        backend: str,
        route: Route,
        scope: Scope,
        request: Mapping[str, object],
        line: Line,
        progress: Progress,
        *,
        all_users: bool = False,
        reads_quarantined: bool = False,
    ) -> object:
        """The reply of a drop-in route. Raises as `do`."""
        if route.asks:
            await require_owner(self.journal, scope, all_users)
        caller = CallerGateway(self, self, backend, scope, all_users, reads_quarantined)
        call = Call(scope, self.live.now(), caller, line, progress)
        return await route.handle(self._opened_backend(backend), call, request)

    def _opened_backend(self, backend: str) -> Backend:
        guarded = self._backend_named(backend)
        if guarded.disabled is not None:
            raise BackendUnreachable(f"{backend} cannot do that: {guarded.disabled}")
        return guarded.backend

    @in_tenant
    async def retire(self, scope: Scope, files: Sequence[CompleteFile], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retire the memories that their files no longer contain; returns their number by source."""
        return await self.intake.retire(scope, files, dry_run=dry_run)

    @in_tenant
    async def origins(self, scope: Scope, prefix: str = "", after: str = "", limit: int = 100) -> Sequence[SourceCount]:
        """The next ``limit`` sources of a scope's memories after ``after`` that begin with ``prefix``, by name."""
        return await self.intake.sources(scope, prefix, after, limit)

    async def _preview_forget(self, query: str, scope: Scope) -> list[Preview]:
        recipe = self._recipe(FuseRequest(query, scope))
        return await memories_to_forget(
            query, scope, recipe, live=self.live, journal=self.journal, forgetter=self.forgetter
        )

    @in_tenant
    async def backends(self, tenant: str = DEFAULT) -> list[wire.BackendState]:
        """The state of every configured backend, for a tenant."""
        return await self.health.backends()

    @in_tenant
    async def status(
        self, tenant: str = DEFAULT, scope: Scope | None = None, *, operates: bool = True
    ) -> dict[str, Any]:
        """The state of the home for one tenant, as `wire.Status`; with ``scope``, the counts of its memories alone.

        For `DEFAULT`, the home's owner, the bytes include the folders of all tenants, and the use of models is that of
        all tenants unless the caller does not operate the home.
        """
        states, deliveries, counts, kept, parts, held = await asyncio.gather(
            self.backends(),
            self.journal.deliveries(),
            self.journal.counts(self.tenant) if scope is None else self.journal.counts_of_scope(scope),
            self.receipts.kept(self.tenant),
            asyncio.to_thread(sizes, self.settings.home),
            self.journal.read(tombstones.withheld_documents, self.tenant),
        )
        waiting, failed = await self.journal.upkeep()
        histories = await self.histories.backlog()
        fault = self.consolidator.fault if self.consolidator is not None else ""
        late = [f"statements wait to be compared, the embedder fails: {fault}"] if fault else []
        judge = self.live.judge
        if isinstance(judge, MayBeDisabled) and judge.disabled:
            late.append(f"the judge {judge.name} is disabled, and the local order is used: {judge.disabled}")
        return {
            "version": VERSION,
            "uptime_s": self.health.uptime_s,
            "backends": [
                {
                    **state,
                    **deliveries.get(state["name"], Deliveries()).trouble(),
                    **breaker_of(self.guarded[state["name"]].breaker),
                }
                for state in states
            ],
            "memories": counts,
            "receipts": {"kept": kept, "keep_days": self.settings.receipts.keep_days},
            "embedder": self.embedding_model,
            "judge": None if judge is None else judge.name,
            "judged": dict(self.health.judged),
            "silent": dict(self.health.silent),
            "bytes": parts,
            "notes": [*self._notes, *late],
            "held_back": held,
            "links": dict(self.note_watcher.linked) if self.note_watcher is not None else {},
            "statements": {"waiting": waiting, "fault": fault},
            "histories": {"waiting": histories.waiting, "fault": histories.fault},
            "failed_jobs": failed,
            "agents": {} if scope is not None else await self.journal.read(owners.by_agent, self.tenant),
            **({} if scope is not None else {"prefixes": await self.prefix_counts()}),
            **({"models": self.models_used(of_all=operates and tenant == DEFAULT)} if scope is None else {}),
            "incidents": await asyncio.to_thread(open_incidents, self.settings, self.live.now()),
            "proposals": await self.journal.read(proposals.counts, scope or Scope(self.tenant, audience="private")),
        }

    @in_tenant
    async def feedback(
        self,
        receipt_id: str,
        scope: Scope,
        *,
        useful: Sequence[str] = (),
        useless: Sequence[str] = (),
        merge: bool = False,
    ) -> Mapping[str, Any]:
        """Store durably which memories of an answer were useful; earlier feedback on the answer is replaced, or with
        ``merge`` that on the same memories alone.

        Without refs, the earlier feedback is removed. Raises NotFound for a receipt of another tenant or user, and
        BadInput, which names the ref, for a ref that is not in the receipt, was forgotten since, or is in both lists.
        """
        body = await self._receipt(receipt_id, scope.tenant, scope.user_id)
        votes = labelled(body, useful, useless)
        kept = await self.journal.write(feedback.put, scope, receipt_id, votes, self.live.now(), merge=merge)
        return {
            "receipt_id": receipt_id,
            "useful": [ref for ref, useful in kept.items() if useful],
            "useless": [ref for ref, useful in kept.items() if not useful],
        }

    @in_tenant
    async def labels(self, tenant: str, limit: int = 100, *, cursor: str | None = None) -> Mapping[str, Any]:
        """A page of a tenant's feedback as labels for `fusion tune`, oldest first. Raises BadInput as `memories`."""
        page = await self.journal.read(feedback.page, tenant, limit, after=position_of(cursor) or 0)
        return {"labels": page.labels, "next_cursor": None if page.next is None else cursor_of(page.next)}

    async def export(self, caller: str, *, tenant: str | None = None, user_id: str | None = None) -> Export:
        """The export of the whole home for its owner, or of the tenant of another caller. Raises BadInput, NotFound."""
        self.require_home()
        opened = self._noting("export")
        home = self.settings.home
        if self.journal.shared and self.tenants is not None:
            others = await self.tenants.names()
        else:
            others = await asyncio.to_thread(transfer.tenants_of, home)
        return await transfer.exported(home, others, opened, caller, tenant=tenant, user_id=user_id)

    def _noting(self, call: str) -> Callable[[str], AbstractAsyncContextManager[TenantParts]]:
        """`_opened`, with the call in the access log of each tenant that it opens."""

        @asynccontextmanager
        async def opened(tenant: str) -> AsyncIterator[TenantParts]:
            async with self._opened(tenant) as one:
                with noted(one.access_log, call, {}):
                    yield one

        return opened

    @asynccontextmanager
    async def _opened(self, tenant: str) -> AsyncIterator[TenantParts]:
        """The parts of a tenant of this home."""
        if tenant == self.tenant or self.tenants is None:
            yield self
            return
        async with self.tenants.at(tenant) as one:
            yield one

    def spool(self) -> BinaryIO:
        """A temporary file for an export that is received."""
        return transfer.spool(self.settings.home)

    async def import_export(
        self, caller: str, file: BinaryIO, options: ImportOptions, moved: Moved, progress: Progress
    ) -> ImportReport:
        """Import an export, or only count what that would do. Raises BadInput."""
        self.require_home()
        return await transfer.imported(self, self._noting("import_export"), caller, file, options, moved, progress)

    @in_tenant
    async def settle(self, tenant: str = DEFAULT) -> None:
        """Return once all memories of a tenant are delivered and searchable in every way, or have failed permanently.

        Histories that are due are taken in. With a language model, distillation that is due is done; the last turns of
        a conversation still wait for more.
        """
        await self._finish_background()
        await self.use.flush()
        await self.histories.settle()
        await self.prefixes.settle()
        await self.prepared.settle()
        await self.syntheses.settle()
        if self.distiller is not None:
            await self.distiller.settle()
        await self.deliverer.settle()
        if self.consolidator is not None:
            await self.consolidator.settle()
            await self.deliverer.settle()  # the states that it decided
        waiting = {n: s.backend for n, s in self.guarded.items() if isinstance(s.backend, Settles) and not s.disabled}
        ends = await asyncio.gather(*(backend.settle() for backend in waiting.values()), return_exceptions=True)
        for name, end in zip(waiting, ends, strict=True):
            if isinstance(end, Exception):
                log.warning("backend %s could not finish its background work: %s", name, type(end).__name__)
        for encoder in (self.live.embedder, self.live.second):
            if isinstance(encoder, EncodesLater):
                await encoder.settle()

    @in_tenant
    async def ready(self, tenant: str = DEFAULT) -> dict[str, Any]:
        """Whether questions can be answered (the home exists and a backend is open), with notes on faults."""
        try:
            await self.look_at_home()
        except HomeGone as error:
            return {"ready": False, "reason": str(error), "backends": {}, "notes": [str(error)]}
        states = {name: status_of(guarded) for name, guarded in self.guarded.items()}
        usable = [name for name, status in states.items() if status in ("ready", "half_open")]
        return {"ready": bool(usable), "backends": states, "notes": list(self._notes)}

    async def look_at_home(self) -> None:
        """Do `require_home`, and check the journal's files if another process wrote to them."""
        self.require_home()
        await self.journal.compare_with_files()

    def jobs(self, tenant: str = DEFAULT) -> Runner:
        """The jobs of the home, which work on all tenants. Raises BadInput for a tenant that is not the owner."""
        if tenant != DEFAULT or self.runner is None:
            raise BadInput("Jobs work on the whole home: they need a key of the tenant default.")
        return self.runner

    @in_tenant
    async def statements_waiting(self, tenant: str = DEFAULT) -> int:
        """How many statements of a tenant were never compared with earlier ones."""
        return await self.journal.read(statements.uncompared)

    @in_tenant
    async def compare_statements(self, tenant: str = DEFAULT) -> int:
        """Compare some of them; returns how many are left. Raises BackendUnreachable if the embedder fails."""
        if self.consolidator is None:
            return await self.statements_waiting(tenant)
        return await self.consolidator.catch_up()

    @in_tenant
    async def read_by_second(
        self, tenant: str = DEFAULT, before: int | None = None, *, dry_run: bool = False
    ) -> Portion | None:
        """Have the second encoder read the next stored memories, newest first; None if there is no such encoder."""
        if self.embedders.second is None:
            return None
        whole = Scope(tenant, audience="private")
        return await read_portion(self.journal, self.embedders.second, whole, before, dry_run=dry_run)

    @in_tenant
    async def prune_receipts(self, tenant: str = DEFAULT, *, dry_run: bool = False) -> int:
        """Delete the receipts and entries of the access log of a tenant that are too old, and return their number."""
        return await self.receipts.prune(dry_run=dry_run) + await self.access_log.prune(dry_run=dry_run)

    @in_tenant
    async def check(self, tenant: str = DEFAULT) -> Mapping[str, str]:
        """Look for damage in the journal and in every backend that can check itself; returns the faults by store.

        Derived data is repaired; other damage is listed in the notes, and answers are degraded.
        """
        return await self.health.check()


def _allowed_settings(config: Settings | Path | str | None, home: Path | None) -> Settings:
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
