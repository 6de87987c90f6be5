"""The calls on an open home that answer questions: fuse, compare, search, and the recall of Memory Cortex."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fusion import wire
from fusion.compare.arms import ArmReader
from fusion.compare.pair import compare
from fusion.contract import EVERYTHING, Asker, Query, Scope, SyncsWithSessions, Where
from fusion.errors import BadInput, FusionError, NobodyAnswered, NotFound
from fusion.gateway import memory_cortex
from fusion.gateway.forget_by_query import external_items
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.next_synthesis import Cited, NextSyntheses, within_budget
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.gateway.prepared_answers import Basis, PreparedAnswer, PreparedAnswers
from fusion.gateway.recordings import Recorded
from fusion.gateway.synthesis import synthesise
from fusion.gateway.tenants import Tenants
from fusion.journal import histories
from fusion.journal.external_refs import ExternalItem
from fusion.journal.inclusions import Inclusion, Kind
from fusion.journal.sessions import Session, SessionKey
from fusion.lib import trace
from fusion.lib.did_you_mean import hint
from fusion.lib.ids import external_ref
from fusion.lib.listing import summary_alone, summary_item, with_summary
from fusion.lib.moment import local_zone
from fusion.lib.words import content_hash
from fusion.recall.engine import Fused, FuseRequest, Outcome, Packer, dated_event, fuse, list_all, whole_query
from fusion.recall.event_dates import EventTime
from fusion.recall.filter import admit, records_of
from fusion.recall.gather import Answer, Answered, GuardedBackend
from fusion.recall.io import Live
from fusion.recall.mask import shown
from fusion.recall.query_dates import dates
from fusion.recall.query_structure import Structure, fits_all, read
from fusion.recall.receipt_row import row_of
from fusion.recall.recording import Recorder, Recording
from fusion.recall.shown_before import NOTHING, InContext
from fusion.recall.wants_memory import SILENT
from fusion.recipe import Recipe

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""seconds until a failed question may succeed, if no breaker knows better"""
RETRY_DISABLED_S = 60.0
"""the same in seconds if all backends asked are disabled: the configuration has to be fixed first"""
LOOK_UP_SHARE = 0.2
"""share of a request's time for looking up whether its words name a part of the memories, or an event"""
NO_MEMORIES = "no memory is here yet"
"""why an answer is empty if nothing was ever stored: the home is new, or the wrong one"""
FIRST_HEALTH_WAIT_S = 0.25
"""maximum seconds that the first answer waits for the state of the backends; the next answer reports a slow one"""
DELIVERY_WAIT_S = 10.0
"""maximum seconds that a prepared answer waits for the delivery of what was captured"""


class Packing(NamedTuple):
    """Another way to make the block of an answer: what packs it, and what adds to its receipt."""

    packer: Packer
    noted: Callable[[Outcome], Outcome]


@dataclass(frozen=True, slots=True, eq=False)
class Answering(TenantParts):
    """The calls of an open home that answer questions, for one tenant."""

    tenants: Tenants[Any] | None = None
    """the gateways of the other tenants of the home; None in the gateway of such a tenant"""
    prepared: PreparedAnswers = field(default_factory=PreparedAnswers)
    syntheses: NextSyntheses = field(default_factory=NextSyntheses)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    @in_tenant
    async def fuse(self, request: FuseRequest | str, **fields: Any) -> Fused:
        """Ask every backend and pack one block; ``fields`` are the fields of `FuseRequest` for a plain query.

        Stores the receipt and the cited external items, refreshes the backends' health, and reports in the background
        which memories were used. Raises BadInput, NobodyAnswered if every backend failed, Overloaded if no slot was
        free within the question's own time limit, and NobodyNamed for a question that names neither user nor agent
        where several have memories (`fusion.gateway.owners`).
        """
        asked = FuseRequest(request, **fields) if isinstance(request, str) else replace(request, **fields)
        return (await self._answered(asked))[0]

    async def _answered(
        self, asked: FuseRequest, packing: Packing | None = None, *, answered: Answered | None = None
    ) -> tuple[Fused, Outcome]:
        """Do `fuse`, and return the outcome, too. ``packing`` makes another block, which is never a prepared one.

        ``answered`` is called with each backend's answer at once.
        """
        self.require_home()
        await require_owner(self.journal, asked.scope, asked.all_users)
        session = await self.asking_sessions.of(asked.scope, asked.asker, self.live.now())
        if session and asked.asker and (asked.asker.new_context or session[1].turn == 0):
            self._sync_with_session()
        summary, limited = await self._summary(asked, session) if session else ((), asked)
        may_be_prepared = packing is None and answered is None and not asked.record
        outcome = await self._prepared_outcome(limited, session) if session and may_be_prepared else None
        if outcome is None:
            try:
                packer = packing.packer if packing is not None else None
                outcome = await self._outcome(limited, session, packer, answered)
            except NobodyAnswered as error:
                error.retry_after_s = self.retry_after_s(asked.backends)
                self.measures.failed(error.details["backends"])
                raise
            self.measures.answered(outcome, self.tenant)
            for stage in outcome.stages:
                trace.record(f"fuse {stage.name}", stage.began_s, stage.ended_s)
            self.health.judged[outcome.fused.rerank["status"]] += 1
        if outcome.fused.abstained in SILENT:
            self.health.silent[outcome.fused.abstained] += 1
        if session:
            self.asking_sessions.take_turn(*session, outcome.shown, len(outcome.included), self.live.now())
            if packing is None:
                self.prepared.asked(session[0], asked)
            if self._takes_summary(asked):
                fused = outcome.fused
                turn = self._shared_turn(session[1])
                self.syntheses.start(session[0], asked.query, lambda: self._next_summary(asked, fused), turn)
            await self.asking_sessions.written()
        if packing is not None:
            outcome = packing.noted(outcome)
        self._keep_receipt(outcome, asked.query, asked.scope, asked.asker)
        await self._refresh_health()
        for row in outcome.fused.backends:
            self.health.count_leaks(row["name"], row.get("refused", {}))
        self.use.note(outcome.included, self.live.now(), outcome.retrieved)
        self.inclusions.note(_inclusions_of(outcome, "block" if packing is None else "pack", asked.scope.user_id))
        used = {name: ids for name, ids in outcome.used.items() if name in self.use_trackers}
        if used:
            self._in_background(self._report_use(used))
        fused = self._under_summary(outcome.fused, summary)
        fused = replace(
            fused,
            abstained=await self._abstained(fused, asked.scope.tenant),
            notes=(*self._notes, *self.health.failing),
            coverage=self.health.coverage(outcome.fused.coverage),
            degraded=outcome.fused.degraded or self.health.degraded,
        )
        return fused, outcome

    def _sync_with_session(self) -> None:
        """Let the backends look for changes of their sources, because a session starts."""
        for guarded in self.guarded.values():
            if guarded.disabled is None and isinstance(guarded.backend, SyncsWithSessions):
                guarded.backend.session_started()

    async def _outcome(
        self,
        asked: FuseRequest,
        session: tuple[SessionKey, Session] | None,
        packer: Packer | None = None,
        answered: Answered | None = None,
    ) -> Outcome:
        """The answer to a question, without what its session was shown lately; recorded if the question says so."""
        io, recipe = self._live_for(asked), self._recipe(asked)
        context = _context_of(session, asked.asker, recipe)
        async with self.admission.slot(_max_wait_s(asked, recipe), self.tenant):
            asked, listed = await self._as_said(self._in_zone(asked), recipe)
            if listed is not None and packer is None:
                return await list_all(asked, recipe, listed, io)
            event = await self._event(asked, recipe, io)
            watched = io if answered is None else replace(io, answered=answered)
            if not asked.record:
                return await fuse(asked, recipe, watched, context, event, packer)
            recorder = Recorder.of(watched)
            outcome = await fuse(asked, recipe, recorder, context, event, packer)
            self.recordings.keep(Recorded(asked, recipe, context, event, recorder.recording))
            return outcome

    async def _event(self, asked: FuseRequest, recipe: Recipe, io: Live) -> EventTime | None:
        """The time that a question gives by an event, as "before we moved" does."""
        most_s = (asked.timeout_ms or recipe.gather.timeout_ms) / 1000 * LOOK_UP_SHARE
        return await dated_event(asked, recipe, io, most_s)

    async def _prepared_outcome(self, asked: FuseRequest, session: tuple[SessionKey, Session]) -> Outcome | None:
        """The answer that was prepared for a question like this one, under a receipt of its own."""
        started, now = time.perf_counter(), self.live.now()
        key, state = session
        found = await self.prepared.take(key, asked, lambda: self._basis(state), now, self.live.embedder)
        if found is None:
            return None
        took_ms = round((time.perf_counter() - started) * 1000, 2)
        receipt_id = self.live.receipt_id()
        renewed = {"receipt_id": receipt_id, "at": now.isoformat(), "took_ms": took_ms, "prepared": True}
        receipt = replace(
            found.receipt, receipt_id=receipt_id, at=now.timestamp(), summary={**found.receipt.summary, **renewed}
        )
        explained = None if found.fused.explain is None else {**found.fused.explain, **renewed}
        fused = replace(found.fused, receipt_id=receipt_id, took_ms=took_ms, explain=explained, prepared=True)
        return replace(found, fused=fused, receipt=receipt)

    def _takes_summary(self, asked: FuseRequest) -> bool:
        """Whether a question is that of auto-recall, whose block begins with a synthesis of the turn before."""
        chosen = asked.format or self._recipe(asked).pack.format
        return chosen == "long-term" and self.settings.memory_cortex.synthesis

    async def _summary(
        self, asked: FuseRequest, session: tuple[SessionKey, Session]
    ) -> tuple[Sequence[str], FuseRequest]:
        """The synthesis for a question of a session, and the question with what is left of its budget.

        A sentence stays only as long as every memory that says it is current and visible to this question.
        """
        if not self._takes_summary(asked):
            return (), asked
        found = await self.syntheses.take(session[0], asked.query, self.live.embedder, self._shared_turn(session[1]))
        return await self._within_budget(found, asked)

    def _under_summary(self, fused: Fused, items: Sequence[str]) -> Fused:
        """An answer with the items of a synthesis above its memories; alone if "and why?" found none."""
        if fused.block or not items or fused.abstained in SILENT:
            return replace(fused, block=with_summary(fused.block, items))
        return replace(fused, block=summary_alone(items, self.live.nonce()), abstained=None)

    async def _within_budget(self, lines: Sequence[Cited], asked: FuseRequest) -> tuple[Sequence[str], FuseRequest]:
        """What a synthesis still says within a third of a question's budget, and the question with the rest of it."""
        items = [summary_item(one.text, [*one.texts]) for one in await self._still_said(lines, asked.scope)]
        return within_budget(items, asked, self._recipe(asked).pack) if items else ((), asked)

    async def _still_said(self, lines: Sequence[Cited], scope: Scope) -> list[Cited]:
        """Those of these sentences of which every memory that says it is current and visible to a scope."""
        still = {ref: text for one in lines for ref, text in (await self._texts(one.texts, scope)).items()}
        return [one for one in lines if one.texts.items() <= still.items()]

    async def _next_summary(self, asked: FuseRequest, fused: Fused) -> Sequence[Cited]:
        """The synthesis of what was recalled for a question; of memories that only another system has there is none."""
        made = await synthesise(asked.query, memory_cortex.remembered(fused), self.model)
        texts = await self._texts(made.refs, asked.scope)
        cited = (Cited(one.text, {ref: texts[ref] for ref in one.refs if ref in texts}) for one in made.sentences)
        return [one for one, sentence in zip(cited, made.sentences, strict=True) if {*one.texts} == {*sentence.refs}]

    async def _texts(self, refs: Iterable[str], scope: Scope) -> dict[str, str]:
        """The hashes of the texts of those of these memories that are current and visible to a scope."""
        found = {}
        for ref in refs:
            with suppress(NotFound):
                record = await self.journal.find(ref, scope)
                if not record.forgotten and not record.superseded_by and record.state.ended_at is None:
                    found[ref] = content_hash(record.event.text)
        return found

    def _shared_turn(self, session: Session) -> int:
        """The last turn of a session that other gateways may answer, too; 0 for one of this gateway alone."""
        return session.turn if self.journal.shared else 0

    def _basis(self, session: Session) -> Basis:
        return Basis(self.journal.changes, session.turn)

    async def _prepare(self, key: SessionKey, request: FuseRequest) -> PreparedAnswer | None:
        """The next answer to the last question of a session, once its captured turns are delivered.

        It leaves room for the synthesis that waits for the next question. None if it would cost a call of the judge, if
        a backend failed, or if the memories or the session changed while it was made.
        """
        session = await self.asking_sessions.of(request.scope, request.asker)
        if session is None or (self.live.has_judge and self._recipe(request).rerank.judge != "never"):
            return None
        async with asyncio.timeout(DELIVERY_WAIT_S):
            await self.deliverer.settle()
            await self.syntheses.settle()
        if self._takes_summary(request) and (waiting := self.syntheses.waiting(key)) is not None:
            _, request = await self._within_budget(waiting[1], request)
        basis = self._basis(session[1])
        outcome = await self._outcome(request, session)
        ends = await self._first_end(outcome)
        if outcome.fused.degraded or self._basis(session[1]) != basis:
            return None
        return PreparedAnswer(request, outcome, basis, ends)

    async def _first_end(self, outcome: Outcome) -> datetime | None:
        """The first time at which a hit of an answer is no longer valid; None if none ends."""
        hits = [hit for _, found in outcome.hits for hit in found]
        records = (await self.journal.records([hit.event_id for hit in hits if hit.event_id])).values()
        ends = [hit.valid_to for hit in hits]
        ends += [end for record in records for end in (record.event.valid_to, record.state.ended_at)]
        now = self.live.now()
        return min((end for end in ends if end is not None and end > now), default=None)

    async def _abstained(self, fused: Fused, tenant: str) -> str | None:
        """Why nothing was recalled; `NO_MEMORIES` if nothing was ever stored for the tenant."""
        if fused.abstained is None or self.health.items != 0 or any(row["count"] for row in fused.backends):
            return fused.abstained
        return fused.abstained if (await self.journal.counts(tenant))["current"] else NO_MEMORIES

    def _keep_receipt(self, outcome: Outcome, query: str, scope: Scope, asker: Asker | None = None) -> None:
        """Keep the receipt of an answer, its question in memory, and the external memories that it cites by ref."""
        asks = {} if asker is None else {"asker": {k: value for k, value in asdict(asker).items() if value}}
        summary = {**outcome.receipt.summary, "user_id": scope.user_id, **asks}
        fused = outcome.fused
        row = row_of(
            summary,
            [(member.ref, member.backends) for excerpt in fused.memories for member in excerpt.members],
            scope,
            asker,
            degraded=fused.degraded or self.health.degraded,
            abstained=fused.abstained,
        )
        self.receipts.keep(replace(outcome.receipt, summary=summary, row=row))
        self.questions.note(outcome.receipt.receipt_id, query)
        cited = self.external_refs.unknown((m.ref for x in outcome.fused.memories for m in x.members), scope)
        if cited:
            self.external_refs.note(external_items(outcome, scope, cited))

    async def _refresh_health(self) -> None:
        """Refresh the state of the backends in the background if it is due.

        The first answer waits `FIRST_HEALTH_WAIT_S` for it, since it could not say otherwise whether it is degraded.
        """
        if self.health.is_due():
            refresh = self._in_background(self.health.look())
            if not self.health.has_looked:
                await asyncio.wait([refresh], timeout=FIRST_HEALTH_WAIT_S)

    @in_tenant
    async def worth_asking_s(self, names: Sequence[str] | None, tenant: str) -> float:
        """`retry_after_s` for a tenant."""
        return self.retry_after_s(names)

    def retry_after_s(self, names: Sequence[str] | None = None) -> float:
        """Seconds until one of these backends, which all failed, may be asked again: the shortest wait of a breaker."""
        asked = [self.guarded[name] for name in names or self.guarded]
        return max(RETRY_S, min((s.breaker.wait_s for s in asked if s.disabled is None), default=RETRY_DISABLED_S))

    @in_tenant
    async def record(self, request: FuseRequest) -> tuple[Fused, Recording]:
        """Do `fuse` and record all I/O, so that any recipe and any subset of backends can be replayed.

        Nothing is marked as used: a measurement must not change the result.
        """
        recorder = Recorder.of(self._live_for(request))
        outcome = await fuse(request, self._recipe(request), recorder)
        return outcome.fused, recorder.recording

    @in_tenant
    async def compare(self, request: FuseRequest, a: str, b: str) -> dict[str, Any]:
        """Answer one question with two arms over one gather, as `wire.CompareReply`; see `fusion.compare.arms`.

        Both receipts are kept, and nothing is marked as used. Raises BadInput for an invalid arm and for two equal
        arms, NobodyAnswered if every backend of one arm failed, and Overloaded and NobodyNamed as `fuse` does.
        """
        await require_owner(self.journal, request.scope, request.all_users)
        request = self._in_zone(request)
        arms = ArmReader(self.recipes, tuple(self.guarded), self.settings.recipe).arms(a, b)
        try:
            async with self.admission.slot(max(_max_wait_s(request, arm.recipe) for arm in arms), self.tenant):
                compared = await compare(request, *arms, self.live)
        except NobodyAnswered as error:
            error.retry_after_s = self.retry_after_s([name for arm in arms for name in arm.backends])
            raise
        for outcome in compared.outcomes:
            self._keep_receipt(outcome, request.query, request.scope)
        for row in compared.backends:
            self.health.count_leaks(row["name"], row.get("refused", {}))
        await self._refresh_health()
        answers = {side: self._as_home(compared.comparison[side]) for side in ("a", "b")}
        return {**compared.comparison, **answers, "notes": (*self._notes, *self.health.failing)}

    def _as_home(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """An arm's answer with the faults of the whole home, as in `fuse`."""
        degraded = answer["degraded"] or self.health.degraded
        return {**answer, "coverage": self.health.coverage(answer["coverage"]), "degraded": degraded}

    @in_tenant
    async def session_state(self, scope: Scope, asker: Asker) -> wire.SessionState:
        """What is kept of a session: when it was taken in and asked last, how many memories its last block had, and
        the synthesis that waits for its next question."""
        named = replace(scope, agent_id=asker.agent_id, session_id=asker.session_id)
        taken = await self.journal.read(histories.taken, histories.HistoryKey.of(named))
        found = await self.asking_sessions.of(scope, asker)
        key, state = found if found is not None else (None, Session())
        waiting = self.syntheses.waiting(key) if key is not None else None
        lines = await self._still_said(waiting[1], scope) if waiting is not None else []
        return memory_cortex.session_state(
            asker.session_id or "", taken.ingested_at, state, waiting, [one.text for one in lines], self.live.now()
        )

    @in_tenant
    async def hybrid_search(
        self, query: str, scope: Scope, limit: int = 10, *, all_users: bool = False
    ) -> wire.CortexResults:
        """The best memories of all backends by words and vectors, as Memory Cortex scores them. Raises as `fuse`.

        Nothing is found while ``[memory_cortex] enabled`` is off.
        """
        self.require_home()
        if not self.settings.memory_cortex.enabled:
            return {"results": [], "count": 0}
        await require_owner(self.journal, scope, all_users)
        asked = self._in_zone(FuseRequest(query, scope, gate=False))
        recipe = memory_cortex.recipe_for(self.recipes["seed002"], self._recipe(asked), limit)
        async with self.admission.slot(_max_wait_s(asked, recipe), self.tenant):
            outcome = await fuse(asked, recipe, self.live)
        self._keep_receipt(outcome, query, scope)
        records = await self.journal.records(memory_cortex.found_ids(outcome))
        found = memory_cortex.results(outcome, records, limit)
        return {"results": found, "count": len(found)}

    @in_tenant
    async def synthesis(self, query: str, scope: Scope, *, all_users: bool = False) -> wire.CortexRecall:
        """An answer in sentences over what `fuse` finds, by the language model or by rules. Raises as `fuse`.

        It has none while ``[memory_cortex] enabled`` is off.
        """
        if not self.settings.memory_cortex.enabled:
            return {"response": "", "memories_searched": 0, "memories_used": 0, "synthesis": "rules", "refs": []}
        fused = await self.fuse(FuseRequest(query, scope, all_users=all_users, gate=False, explain=True))
        made = await synthesise(query, memory_cortex.remembered(fused), self.model)
        return {
            "response": made.text,
            "memories_searched": len((fused.explain or {}).get("candidates", ())),
            "memories_used": len(made.refs),
            "synthesis": made.by,
            "refs": list(made.refs),
        }

    @in_tenant
    async def search(
        self,
        backend: str,
        query: str,
        scope: Scope,
        limit: int = 10,
        *,
        all_users: bool = False,
        where: Where = EVERYTHING,
    ) -> Answer:
        """One backend's answer in its own order, after the filter.

        Raises BadInput (unknown name), and Overloaded and NobodyNamed as `fuse` does.
        """
        await require_owner(self.journal, scope, all_users)
        guarded = self._backend_named(backend)
        now, zone = self.live.now(), self.settings.flush.zone or local_zone()
        times = dates(query, now, zone).times
        asked = Query(query, scope, now, limit, guarded.deadline_s, times=times, zone=zone, where=where)
        async with self.admission.slot(guarded.deadline_s, self.tenant):
            (answer,) = await self.live.answers(asked, [backend], guarded.deadline_s)
        records = await records_of(answer.hits, self.journal.records)
        kept, refused = admit(backend, answer.hits, asked, records)
        self.health.count_leaks(backend, refused)
        fresh = self.external_refs.unknown((item.ref for item in kept), scope)
        self.external_refs.note(
            [ExternalItem(item.ref, backend, item.hit, scope) for item in kept if item.ref in fresh]
        )
        hits = (item.hit.found_as(item.found) if item.found else item.hit for item in kept)
        return replace(answer, hits=tuple(map(shown, hits)))

    @in_tenant
    async def refs(self, answer: Answer, tenant: str = DEFAULT) -> Sequence[str]:
        """The refs of one backend's hits, as `memory` and `forget` take them."""
        records = await self.journal.records([hit.event_id for hit in answer.hits if hit.event_id])
        known = (records.get(hit.event_id) if hit.event_id else None for hit in answer.hits)
        return [
            record.ref if record else external_ref(answer.backend, hit.native_id)
            for hit, record in zip(answer.hits, known, strict=True)
        ]

    def require_home(self) -> None:
        """Raise HomeGone if the home or its journal is no longer at its path; takes some microseconds."""
        self.journal.require_reachable()

    @property
    def _notes(self) -> tuple[str, ...]:
        failing = self.distiller.fault if self.distiller is not None else ""
        waiting = (f"conversations wait to be distilled, the language model fails: {failing}",) if failing else ()
        notes = self.note_watcher.faults if self.note_watcher is not None else ()
        return (*self.notes, *self.health.broken, *waiting, *notes)

    def _recipe(self, request: FuseRequest) -> Recipe:
        name = request.recipe or self.settings.recipe
        if name not in self.recipes:
            raise BadInput(f"recipe {name!r}: there are {', '.join(sorted(self.recipes))}{hint(name, self.recipes)}")
        return self.recipes[name]

    async def _as_said(self, request: FuseRequest, recipe: Recipe) -> tuple[FuseRequest, Sequence[Answer] | None]:
        """A request with the filter that its words say, if anything fits; and all that fits if they ask for it."""
        said = read(request.query) if recipe.rerank.episode_boost else Structure()
        if not said.candidates:
            return request, None
        most_s = (request.timeout_ms or recipe.gather.timeout_ms) / 1000 * LOOK_UP_SHARE
        try:
            async with asyncio.timeout(most_s):
                for where in said.candidates:
                    asked = replace(request, where=fits_all(where, request.where))
                    answers = await self.live.fitting(whole_query(asked, self.live.now(), most_s), asked.backends)
                    if any(answer.hits for answer in answers):
                        return asked, answers if said.whole else None
        except TimeoutError:
            log.info("no time was left to look up what a question says of the memories that it wants")
        return request, None

    def _in_zone(self, request: FuseRequest) -> FuseRequest:
        """A request with a time zone: if it names none, that of the daily log, or of this machine."""
        if request.timezone is not None:
            return request
        return replace(request, timezone=self.settings.flush.zone or local_zone())

    def _live_for(self, request: FuseRequest) -> Live:
        """The live input of a request. Raises BadInput if the request names a backend that does not exist."""
        for name in request.backends or ():
            self._backend_named(name)
        return self.live

    def _backend_named(self, name: str) -> GuardedBackend:
        if name not in self.guarded:
            raise BadInput(f"backend {name!r}: there are {', '.join(sorted(self.guarded))}{hint(name, self.guarded)}")
        return self.guarded[name]

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that the reply does not wait for; `settle` and closing do."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _report_use(self, used: Mapping[str, Sequence[str]]) -> None:
        """Report to the backends which of their memories reached the prompt; a failure is only logged."""
        now = self.live.now()
        for name, native_ids in used.items():
            try:
                await self.use_trackers[name].used(native_ids, now)
            except (FusionError, OSError) as error:
                log.warning("backend %s did not note what was used: %s", name, type(error).__name__)

    async def _finish_background(self) -> None:
        if self._background:
            await asyncio.wait(self._background)


def _context_of(session: tuple[SessionKey, Session] | None, asker: Asker | None, recipe: Recipe) -> InContext:
    """What a session has in its context, where the recipe does not repeat that."""
    turns = recipe.pack.repeat_after_turns
    if session is None or not turns:
        return NOTHING
    key, state = session
    shown = state.within(turns) if asker is None or asker.keeps_blocks else frozenset[str]()
    return InContext(shown, key.session_id, state.began)


def _inclusions_of(outcome: Outcome, kind: Kind, user_id: str | None) -> list[Inclusion]:
    """What an answer's block or pack had, the best first."""
    if outcome.block is None:
        return []
    best = {part.ref: part for part in reversed(outcome.block.packed)}
    at = datetime.fromtimestamp(outcome.receipt.at, UTC)
    found = []
    for place, part in enumerate(reversed(best.values()), start=1):
        candidate = part.pooled.candidate
        found.append(
            Inclusion(
                candidate.hit.event_id or candidate.ref,
                outcome.receipt.receipt_id,
                at,
                kind,
                user_id,
                place,
                part.local,
                part.probability,
                tuple(sorted({hit.backend for hit in candidate.source_hits})),
            )
        )
    return found


def _max_wait_s(request: FuseRequest, recipe: Recipe) -> float:
    """Seconds that a question waits for a slot: as long as its answer may take."""
    return (request.timeout_ms or recipe.gather.timeout_ms) / 1000
