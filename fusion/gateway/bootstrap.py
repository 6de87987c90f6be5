"""Settings → an open home: everything is built here, in order, and closed in the opposite order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fusion.contract import LanguageModel, Scope, TracksUse
from fusion.errors import SettingsError
from fusion.gateway.admission import Admission
from fusion.gateway.backend_log import BackendLog
from fusion.gateway.earlier_states import take_over
from fusion.gateway.health import Health, only_read
from fusion.gateway.hw_monitor import while_gpu_is_free
from fusion.gateway.llm_budget import BudgetedModel, CountedModel
from fusion.gateway.open_backends import open_backends, search_function, was_emptied
from fusion.gateway.open_journal import events_lost, open_journal, open_server, refill, write_marks
from fusion.gateway.open_models import local_model, open_embedders, open_judge, open_language_model
from fusion.gateway.parts import DEFAULT, SharedParts, TenantParts
from fusion.gateway.prefix_windows import Marks, PrefixWindows
from fusion.gateway.recent_questions import RecentQuestions
from fusion.gateway.recordings import Recordings
from fusion.gateway.size_log import SizeLog
from fusion.gateway.tenants import changed_backends, move_tenants, write_opened
from fusion.gateway.transfer import remove_dry_runs
from fusion.home import HomeLock, tenant_folder
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.extract import classify
from fusion.ingest.forget import Forgetter
from fusion.ingest.forget_observations import ObservationForgetter
from fusion.ingest.harvest import graded_by_rules
from fusion.ingest.intake import Intake
from fusion.ingest.observe import ObservationIntake
from fusion.ingest.observe_shared import SharedObservationIntake
from fusion.ingest.read_in_context import read_in_context
from fusion.journal import Journal, access_log, inclusions, layers, sessions, store_watermarks, use
from fusion.journal.external_refs import ExternalRefs, store_items
from fusion.journal.inclusions import InclusionLog
from fusion.journal.layers import LayerLog
from fusion.journal.sessions import AskingSessions
from fusion.journal.use import UseLog
from fusion.lib.clock import Clock, utc_now
from fusion.lib.ids import UuidSource
from fusion.lib.observation import Observation
from fusion.lib.request_rate import RequestCounts, RequestRates
from fusion.recall.io import JournalReads, Live
from fusion.recall.rank_features import CONTEXT
from fusion.recall.receipt_store import ReceiptFile, ReceiptStore, ReceiptTable
from fusion.recall.shared_receipts import SharedReceipts
from fusion.recall.signals import SIGNALS
from fusion.recipe import Learned, Recipe
from fusion.recipe_files import recipes
from fusion.settings import NoteSettings, SessionSettings, Settings, WorkspaceSettings
from fusion.sources.files import Limits
from fusion.sources.histories import Histories
from fusion.sources.histories import Rules as HistoryRules
from fusion.sources.note_watcher import NoteWatcher
from fusion.sources.observation_files import ObservationFiles
from fusion.sources.session_watcher import Delta, SessionWatcher
from fusion.store.shared_clock import SharedClock
from fusion.trust.token import make_private
from fusion.upkeep.consolidator import Consolidator
from fusion.upkeep.grade import Grader, GradeRules
from fusion.upkeep.lifecycle import Lifecycle, Rules

if TYPE_CHECKING:
    from fusion.store.postgres import Server

P = TypeVar("P", bound=TenantParts)


@asynccontextmanager
async def open_shared(settings: Settings, unwritable: str = "", clock: Clock = utc_now) -> AsyncIterator[SharedParts]:
    """Lock a home until the end of the block, and open what its tenants share. Raises as `Gateway.open`.

    ``unwritable`` is the reason why the home is a private copy, which needs no lock.
    """
    known = checked(recipes(settings))
    async with AsyncExitStack() as stack:
        if not unwritable:
            stack.enter_context(HomeLock.take(settings.home))
            make_private(settings.home)
            remove_dry_runs(settings.home)
        server = await asyncio.to_thread(open_server, settings)
        if server is not None:
            stack.push_async_callback(asyncio.to_thread, server.close)
            listening = asyncio.create_task(server.notifications.listen(), name="listen to other gateways")
            stack.push_async_callback(_cancelled, listening)
            clock = await stack.enter_async_context(_clock_of(server, clock))
        stack.callback(os.umask, os.umask(0o077))  # the files of tantivy and Qdrant are private, too
        embedders, embedder_notes = await open_embedders(settings)
        stack.push_async_callback(embedders.close)
        model, model_notes = open_language_model(settings, server)
        if model is not None:
            stack.push_async_callback(model.close)
        judge = open_judge(settings, model)
        if judge is not None:
            stack.push_async_callback(judge.close)
        admission = Admission(settings.server.max_in_flight)
        notes = (*embedder_notes, *model_notes)
        rates = _request_rates(settings, server)
        if rates is not None:
            stack.push_async_callback(rates.close)
        yield SharedParts(
            settings, known, embedders, judge, model, admission, notes, unwritable, clock, server, rates=rates
        )


def _request_rates(settings: Settings, server: Server | None) -> RequestRates | None:
    """What limits the requests of each tenant; gateways that share a ``server`` share the counts."""
    most = settings.server.requests_per_minute
    if not most:
        return None
    if server is None:
        return RequestRates(most, RequestCounts().exchange)
    from fusion.store.shared_rates import SharedRates

    return RequestRates(most, SharedRates(server, DEFAULT).exchange)


@asynccontextmanager
async def open_tenant(kind: type[P], shared: SharedParts, tenant: str = DEFAULT) -> AsyncIterator[P]:
    """Open the parts of one tenant as a ``kind`` of `TenantParts`. Raises as `Gateway.open`.

    With a damaged journal, questions are answered, and nothing is stored, delivered or deleted.
    """
    settings = of_tenant(shared.settings, tenant)
    shared = replace(shared, model=_counted(shared, tenant))
    embedders, embedder = shared.embedders, shared.embedders.configured
    places = store_watermarks.places_of(settings.home, settings.backends)
    async with AsyncExitStack() as stack:
        journal, damaged = await open_journal(settings, shared.unwritable, places, shared.clock, shared.server, tenant)
        stack.push_async_callback(journal.close)
        if tenant == DEFAULT and not damaged and not journal.shared:
            await move_tenants(journal, settings.home, places)
        receipts = await asyncio.to_thread(_open_receipts, settings, shared, tenant)
        stack.push_async_callback(receipts.close)
        audit = settings.audit
        accesses = access_log.AccessLog(
            settings.home / access_log.NAME, audit.keep_days, audit.max_entries, fault=shared.unwritable
        )
        stack.push_async_callback(accesses.close)
        if not damaged and not journal.shared:
            # A folder that is missing is new or was moved away to fix a damaged store: the store is empty.
            missing = [name for name in settings.backends if not (settings.home / "backends" / name).exists()]
            changed = [] if tenant == DEFAULT else changed_backends(settings)
            await refill(journal, [name for name in settings.backends if name in {*missing, *changed}], places)
            if tenant != DEFAULT:
                write_opened(settings)
        guarded = await open_backends(settings, shared, tenant, stack)
        stores = {name: s.backend for name, s in guarded.items() if s.disabled is None}
        if not damaged and (lost := await events_lost(journal, stores)):
            damaged = only_read(journal, lost, None if journal.shared else settings.home)
        # A delivery that cannot be marked as done must not be made.
        mark_stores = partial(write_marks, journal, places)
        consolidator: Consolidator | None = None

        async def delivered(name: str) -> None:
            await mark_stores(name)
            if consolidator is not None:
                consolidator.wake()

        deliverer = Deliverer(
            journal,
            {} if damaged else stores,
            ask=search_function(guarded),
            clock=shared.clock,
            on_change=delivered,
        )
        if not damaged:
            await mark_stores(*places)
            await refill(journal, [name for name in stores if await was_emptied(journal, guarded[name])], places)
            await take_over(journal, stores)
            await deliverer.start()
        stack.push_async_callback(deliverer.close)
        ids = UuidSource()  # one for each tenant: ids count within a millisecond, which would reveal others' writes
        if embedder is not None and not damaged:
            consolidator = Consolidator(
                journal, embedder, deliverer.extraction, model=shared.model, on_decision=deliverer.wake
            )
            consolidator.start()
            stack.push_async_callback(consolidator.close)
        distiller = None
        if shared.model is not None and not damaged:
            distiller = Distiller(
                journal,
                deliverer,
                while_gpu_is_free(shared.model, settings.memory_cortex),
                quiet_s=settings.model.quiet_s,
                clock=shared.clock,
                ids=ids,
            )
            distiller.start()
            stack.push_async_callback(distiller.close)

        recordings = Recordings()
        stack.callback(recordings.clear)

        async def forget_texts(texts: Sequence[str]) -> None:
            recordings.clear()
            if consolidator is not None:
                consolidator.forget_vectors()
            await embedders.forget(texts)

        live = Live(
            guarded=guarded,
            journal=JournalReads(
                journal.records,
                journal.neighbours,
                journal.frequencies,
                journal.without_forgotten,
                lambda event_ids: journal.read(use.of, event_ids),
                journal.happened,
                journal.fitting,
            ),
            embedder=local_model(embedder),
            judge=shared.judge,
            judge_timeout_s=settings.judge.timeout_ms / 1000,
            lexical=settings.embedder.none or (embedder is not None and local_model(embedder) is None),
            clock=shared.clock,
            second=embedders.second,
        )
        external_refs = ExternalRefs(lambda items: journal.write(store_items, items, shared.clock()))
        stack.push_async_callback(external_refs.close)
        asking_sessions = AskingSessions(
            lambda key: journal.read(sessions.stored, key),
            lambda changed: journal.write(sessions.store, changed, shared.clock()),
            shared=journal.shared,
        )
        stack.push_async_callback(asking_sessions.close)
        use_log = UseLog(
            lambda uses, retrievals: journal.write(use.keep, uses, retrievals),
            lambda item: journal.read(use.written, item),
        )
        stack.push_async_callback(use_log.close)
        inclusion_log = InclusionLog(lambda included: journal.write(inclusions.add, included))
        stack.push_async_callback(inclusion_log.close)
        layer_log = LayerLog(lambda made: journal.write(layers.put, made, "rules", shared.clock()))
        stack.push_async_callback(layer_log.close)
        prefixes = PrefixWindows(
            journal,
            Marks.of(settings.prefix.model_dump()),
            shared.model if settings.prefix.use_model else None,
            shared.clock,
        )
        stack.push_async_callback(prefixes.close)
        refusal = "; ".join(damaged.values())
        score = partial(_graded, shared.clock) if settings.episodes.grade else None
        entry = SharedObservationIntake if journal.shared else ObservationIntake
        kept_days = settings.episodes.kept_days
        observations = entry(journal, tenant, settings.home, shared.clock, ids, score, refusal, kept_days)
        if not damaged:
            observations.start()
        stack.push_async_callback(observations.close)
        observation_forgetter = ObservationForgetter(journal, observations, tenant, shared.clock)
        forgetter = Forgetter(journal, deliverer, forget_texts, observation_forgetter.forget_quotes)
        read = None if embedders.second is None else partial(read_in_context, journal, embedders.second)
        intake = Intake(journal, deliverer, shared.clock, distiller, ids, read, settings.trust.sources)
        histories = Histories(journal, intake, tenant, _history_rules(settings), clock=shared.clock)
        if not damaged:
            histories.start()
        stack.push_async_callback(histories.close)
        yield kind(
            tenant=tenant,
            settings=settings,
            recipes=shared.recipes,
            guarded=guarded,
            journal=journal,
            intake=intake,
            distiller=distiller,
            consolidator=consolidator,
            deliverer=deliverer,
            external_refs=external_refs,
            asking_sessions=asking_sessions,
            forgetter=forgetter,
            use=use_log,
            inclusions=inclusion_log,
            layers=layer_log,
            histories=histories,
            observations=observations,
            observation_forgetter=observation_forgetter,
            observation_files=_observation_files(settings, tenant, observations, journal, shared.clock),
            prefixes=prefixes,
            lifecycle=Lifecycle(
                journal,
                embedder,
                partial(_deliver, deliverer),
                forgetter.delete_expired,
                use_log.flush,
                classify,
                deliverer.extraction,
                Rules.of(settings.lifecycle.model_dump()),
            ),
            grader=Grader(
                journal, deliverer.wake, GradeRules(settings.jobs.grade.scorer, settings.jobs.grade.skip_kinds)
            ),
            receipts=receipts,
            access_log=accesses,
            size_log=SizeLog(settings.home, shared.unwritable),
            backend_log=BackendLog(settings.home, shared.unwritable),
            recordings=recordings,
            questions=RecentQuestions(remembers=settings.receipts.remember_questions),
            live=live,
            use_trackers={n: b for n, b in stores.items() if isinstance(b, TracksUse)},
            embedders=embedders,
            admission=shared.admission,
            measures=shared.measures,
            model=shared.model,
            notes=shared.notes,
            session_watcher=None if damaged else _session_watcher(settings, intake, observations),
            note_watcher=None if damaged else _note_watcher(settings, intake),
            health=Health(settings, guarded, journal, deliverer, damaged),
        )


def _counted(shared: SharedParts, tenant: str) -> LanguageModel | None:
    """The language model whose calls are counted for a tenant, or None. The judge, which all share, has its own."""
    if not isinstance(shared.model, BudgetedModel):
        return shared.model
    return CountedModel(shared.model, shared.measures.model[tenant])


@asynccontextmanager
async def _clock_of(server: Server, clock: Clock) -> AsyncIterator[Clock]:
    """The clock of a database, for a machine whose own is ``clock``."""
    shared = SharedClock(clock, server.time)
    await shared.compare()
    following = asyncio.create_task(shared.follow(), name="compare the clocks")
    try:
        yield shared
    finally:
        await _cancelled(following)


async def _cancelled(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _open_receipts(settings: Settings, shared: SharedParts, tenant: str) -> ReceiptStore:
    max_bytes = settings.receipts.max_mb * 1_000_000
    if shared.server is None:
        table: ReceiptTable = ReceiptFile(settings.home / "receipts.sqlite", max_bytes)
    else:
        table = SharedReceipts(shared.server, tenant, max_bytes)
    return ReceiptStore(table, settings.receipts.keep_days, shared.clock)


def _history_rules(settings: Settings) -> HistoryRules:
    chosen = settings.memory_cortex
    return HistoryRules(
        timedelta(seconds=chosen.debounce_s), int(chosen.max_waiting_mb * 1_000_000), chosen.skip_heartbeat
    )


async def _deliver(deliverer: Deliverer) -> None:
    """Send the backends what was decided, and wait for it."""
    deliverer.wake()
    await deliverer.settle()


def of_tenant(settings: Settings, tenant: str) -> Settings:
    """The settings for one tenant: its own folder; notes and sessions are read for the home's owner only."""
    if tenant == DEFAULT:
        return settings
    changes = {"home": tenant_folder(settings.home, tenant), "notes": NoteSettings(), "sessions": SessionSettings()}
    episodes = settings.episodes.model_copy(update={"paths": ()})
    return settings.model_copy(update={**changes, "workspace": WorkspaceSettings(), "episodes": episodes})


RENAMED = {"alone": "it is called similarity now: write similarity = …"}
"""signals of the first versions, which a recipe must rename; see also `fusion.recipe.EARLIER_SIGNALS`"""


def checked(found: Mapping[str, Recipe]) -> Mapping[str, Recipe]:
    """Recipes whose signals exist. Raises SettingsError for a misspelt one, which would have no effect."""
    for recipe in found.values():
        numbers = recipe.rerank
        for name in (*numbers.signals, *numbers.signals_without_model, *numbers.factors):
            if name not in SIGNALS:
                fix = RENAMED.get(name) or f"there are {', '.join(SIGNALS)}"
                raise SettingsError(f"recipe {recipe.name}: no signal is called {name!r}; {fix}")
    return {name: _without_outdated_model(recipe) for name, recipe in found.items()}


def _without_outdated_model(recipe: Recipe) -> Recipe:
    """The recipe; without its model if that was trained on other signals, which would all be missing."""
    model = recipe.rerank.model
    unknown = [] if model is None or model.trees is None else sorted({*model.trees.names} - {*SIGNALS, *CONTEXT})
    if model is None or not unknown:
        return recipe
    why = f"{model.file} cannot be used, so the weights score: no signal is called {unknown[0]!r}; train it again"
    return replace(recipe, rerank=replace(recipe.rerank, model=Learned(model.file, model.hash, None, why)))


def _session_watcher(settings: Settings, intake: Intake, observations: ObservationIntake) -> SessionWatcher | None:
    chosen = settings.sessions
    if not chosen.paths:
        return None
    return SessionWatcher(
        paths=[path.expanduser() for path in chosen.paths],
        owner=Scope(user_id=chosen.user_id or None),
        home=settings.home,
        remember=intake.remember,
        delta=Delta(chosen.delta_bytes, chosen.delta_lines, chosen.idle_s),
        limits=Limits.of(settings.ingest, settings.sessions),
        observe=observations.append if settings.episodes.capture_tools else None,
    )


def _graded(clock: Clock, found: Observation) -> Mapping[str, Any]:
    return graded_by_rules(found, clock())


def _observation_files(
    settings: Settings, tenant: str, intake: ObservationIntake, journal: Journal, clock: Clock
) -> ObservationFiles:
    chosen = settings.episodes
    owner = Scope(tenant, chosen.user_id or None, audience="private")
    return ObservationFiles(chosen.paths, owner, intake, journal, clock)


def _note_watcher(settings: Settings, intake: Intake) -> NoteWatcher | None:
    notes = settings.notes.folders
    if not notes.paths:
        return None
    limits = Limits.of(settings.ingest, settings.sessions)
    return NoteWatcher(notes.paths, notes.scope, settings.home, intake, notes.ignore, notes.every_s, limits)
