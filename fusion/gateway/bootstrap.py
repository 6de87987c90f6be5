"""Settings → an open home: the only place where real things are built, each closed again in the opposite order."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from fusion.contract import (
    Backend,
    Describes,
    Embedder,
    Features,
    HasLocalModel,
    Hit,
    Judge,
    LanguageModel,
    ListsEvents,
    Opening,
    Query,
    Scope,
    TracksUse,
)
from fusion.errors import (
    BackendUnreachable,
    FusionError,
    ModelMissing,
    PackageMissing,
    SettingsError,
    StoreDamaged,
    StoreFull,
)
from fusion.gateway.admission import Admission
from fusion.gateway.embedders import Embedders
from fusion.gateway.health import Health, only_read
from fusion.gateway.import_class import resolve, why
from fusion.gateway.llm_budget import BudgetedModel
from fusion.gateway.tenants import move_tenants, moved
from fusion.home import HomeLock, tenant_folder
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Intake
from fusion.ingest.verify import Ask
from fusion.journal import Journal, rebuild, store_watermarks
from fusion.journal.external_refs import ExternalRefs
from fusion.journal.readonly import ReadOnlyJournal
from fusion.lib.breaker import Breaker
from fusion.lib.ids import UuidSource
from fusion.recall.gather import Bulkhead, Source, gather
from fusion.recall.io import JournalReads, Live
from fusion.recall.rank_features import CONTEXT
from fusion.recall.receipt import Receipts
from fusion.recall.signals import SIGNALS
from fusion.recipe import Learned, Recipe
from fusion.settings import BackendSettings, EmbedderSettings, NoteSettings, SessionSettings, Settings, recipes
from fusion.sources.files import Limits
from fusion.sources.note_watcher import NoteWatcher
from fusion.sources.session_watcher import Delta, SessionWatcher
from fusion.trust.token import make_private

log = logging.getLogger(__name__)

OPEN_S = 120.0
"""for one backend at start: a large index may be rebuilt, but one that hangs must not keep the others from opening"""

DEFAULT = Scope().tenant
"""the tenant of the home's owner, whose folder is the home itself"""

NOT_OPENED = "it could not be opened"
"""how the reason begins why a backend is disabled that nobody switched off"""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What the tenants of one home have in common: models with their budgets, and the queue of questions.

    Nothing of it says anything of a memory but by how long it takes.
    """

    settings: Settings
    recipes: Mapping[str, Recipe]
    embedders: Embedders
    judge: Judge | None
    model: LanguageModel | None
    turns: Admission
    notes: tuple[str, ...] = ()
    """what is degraded for everybody, in words with the fix"""
    unwritable: str = ""
    """why nothing is written, where the home cannot be"""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What an open home is made of, for one tenant: nothing in it holds, counts or numbers another tenant's memories.

    ``settings.home`` is the tenant's own folder; that of `DEFAULT` is the home itself.
    """

    tenant: str
    settings: Settings
    recipes: Mapping[str, Recipe]
    sources: Mapping[str, Source]
    journal: Journal
    intake: Intake
    deliverer: Deliverer
    forgetter: Forgetter
    noting: ExternalRefs
    receipts: Receipts
    live: Live
    health: Health
    users: Mapping[str, TracksUse]
    """the backends that want to know what reached a prompt; looked for once, for to look is slow"""
    embedders: Embedders
    turns: Admission
    distiller: Distiller | None = None
    notes: tuple[str, ...] = ()
    """what is degraded for the whole home, in words with the fix"""
    following: SessionWatcher | None = None
    """what reads agents' sessions on behind; None where nobody asked for that"""
    notes_follower: NoteWatcher | None = None
    """what keeps up with folders of notes; None where none is named"""


P = TypeVar("P", bound=Parts)


@asynccontextmanager
async def shared(settings: Settings, unwritable: str = "") -> AsyncIterator[Shared]:
    """What the tenants of a home share; the home is owned until the end of the block. Raises as `Gateway.open`.

    ``unwritable`` says why the home is a private copy that nobody else can have.
    """
    known = checked(recipes(settings))
    async with AsyncExitStack() as stack:
        if not unwritable:
            stack.enter_context(HomeLock.take(settings.home))
            make_private(settings.home)
        stack.callback(os.umask, os.umask(0o077))  # tantivy's and Qdrant's files are their owner's only, too
        embedders, notes = await _embedders(settings)
        stack.push_async_callback(embedders.close)
        judge = await _judge(settings)
        if judge is not None:
            stack.push_async_callback(judge.close)
        model, missing = _model(settings)
        if model is not None:
            stack.push_async_callback(model.close)
        turns = Admission(settings.server.max_in_flight)
        yield Shared(settings, known, embedders, judge, model, turns, (*notes, *missing), unwritable)


@asynccontextmanager
async def opened(kind: type[P], common: Shared, tenant: str = DEFAULT) -> AsyncIterator[P]:
    """The parts of a home for one tenant, as a ``kind`` of `Parts`. Raises as `Gateway.open`."""
    settings = of_tenant(common.settings, tenant)
    embedders, embedder = common.embedders, common.embedders.configured
    async with AsyncExitStack() as stack:
        keys_kept_s = settings.journal.idempotency_keep_days * 86_400
        await asyncio.to_thread(rebuild.finish_exchange, settings.home)
        journal, damaged = await _journal(
            settings.home / "journal.sqlite", keys_kept_s, int(settings.journal.wal_mb * 1_000_000)
        )
        stack.push_async_callback(journal.close)
        if common.unwritable and not damaged:
            journal.refuse_writes(common.unwritable, StoreFull)
            damaged = {"home": common.unwritable}
        places = store_watermarks.places_of(settings.home, settings.backends)
        if not damaged and (what := store_watermarks.lost(await journal.watermark(), places)):
            damaged = only_read(journal, what, settings.home)
        if tenant == DEFAULT and not damaged:
            await move_tenants(journal, settings.home, places)
        receipts = Receipts(
            settings.home / "receipts.sqlite", settings.receipts.keep_days, settings.receipts.max_mb * 1_000_000
        )
        stack.push_async_callback(receipts.close)
        # A folder that is not there was moved away to fix a damaged store, or never was: it holds nothing.
        folders = {name: settings.home / "backends" / name for name in settings.backends}
        if not damaged:
            elsewhere, note = ([], _nothing) if tenant == DEFAULT else moved(settings, settings.home)
            empty = [name for name, folder in folders.items() if name in elsewhere or not folder.exists()]
            await _refill(journal, empty, places)
            note()
        sources = await open_sources(settings, common, tenant, stack)
        stores = {name: s.backend for name, s in sources.items() if s.disabled is None}
        if not damaged and (what := await _unknown_to(journal, stores)):
            damaged = only_read(journal, what, settings.home)
        # What cannot be marked as delivered is not delivered.
        noted = partial(_noted, journal, places)
        deliverer = Deliverer(journal, {} if damaged else stores, ask=_asking(sources), on_change=noted)
        if not damaged:
            await noted(*places)
            await _refill(journal, [name for name in stores if await _emptied(journal, sources[name])], places)
            await deliverer.start()
        stack.push_async_callback(deliverer.close)
        ids = UuidSource()  # ids of one millisecond are counted: they must not count what other tenants write
        distiller = None
        if common.model is not None and not damaged:
            distiller = Distiller(journal, deliverer, common.model, quiet_s=settings.model.quiet_s, ids=ids)
            distiller.start()
            stack.push_async_callback(distiller.close)
        live = Live(
            sources=sources,
            journal=JournalReads(journal.records, journal.neighbours, journal.frequencies, journal.without_forgotten),
            embedder=_at_hand(embedder),
            judge=common.judge,
            judge_timeout_s=settings.judge.timeout_ms / 1000,
            lexical=settings.embedder.none or (embedder is not None and _at_hand(embedder) is None),
        )
        noting = ExternalRefs(lambda items: journal.keep_external_items(items, datetime.now(UTC)))
        stack.push_async_callback(noting.close)
        intake = Intake(journal, deliverer, distiller=distiller, ids=ids)
        yield kind(
            tenant=tenant,
            settings=settings,
            recipes=common.recipes,
            sources=sources,
            journal=journal,
            intake=intake,
            distiller=distiller,
            deliverer=deliverer,
            noting=noting,
            forgetter=Forgetter(journal, deliverer, embedders.forget),
            receipts=receipts,
            live=live,
            users={n: b for n, b in stores.items() if isinstance(b, TracksUse)},
            embedders=embedders,
            turns=common.turns,
            notes=common.notes,
            following=None if damaged else _following(settings, intake),
            notes_follower=None if damaged else _notes_follower(settings, intake),
            health=Health(settings, sources, journal, deliverer, damaged),
        )


def of_tenant(settings: Settings, tenant: str) -> Settings:
    """The settings of a tenant's part of a home: its own folder, and nothing that is read in for the owner alone."""
    if tenant == DEFAULT:
        return settings
    changes = {"home": tenant_folder(settings.home, tenant), "notes": NoteSettings(), "sessions": SessionSettings()}
    return settings.model_copy(update=changes)


RENAMED = {"alone": "it is called similarity now: write similarity = …"}
"""signals of the first versions, which a recipe must name anew; see also `fusion.recipe.EARLIER_SIGNALS`"""


def checked(found: Mapping[str, Recipe]) -> Mapping[str, Recipe]:
    """Recipes whose signals exist. Raises SettingsError for a misspelt one: it would silently weigh nothing."""
    for recipe in found.values():
        for name in recipe.rerank.signals:
            if name not in SIGNALS:
                fix = RENAMED.get(name) or f"there are {', '.join(SIGNALS)}"
                raise SettingsError(f"recipe {recipe.name}: no signal is called {name!r}; {fix}")
    return {name: _with_a_model_of_todays_signals(recipe) for name, recipe in found.items()}


def _with_a_model_of_todays_signals(recipe: Recipe) -> Recipe:
    """A recipe whose model was learned of other signals goes by its weights, and says so: they would all be missing."""
    model = recipe.rerank.model
    strange = [] if model is None or model.trees is None else sorted({*model.trees.names} - {*SIGNALS, *CONTEXT})
    if model is None or not strange:
        return recipe
    why = f"{model.file} cannot be used, so the weights score: no signal is called {strange[0]!r}; learn it anew"
    return replace(recipe, rerank=replace(recipe.rerank, model=Learned(model.file, model.hash, None, why)))


async def _journal(file: Path, keys_kept_s: float, wal_bytes: int) -> tuple[Journal, dict[str, str]]:
    """The journal, and what is wrong with it."""
    try:
        return await Journal.open(file, keys_kept_s=keys_kept_s, wal_bytes=wal_bytes), {}
    except StoreDamaged as error:
        try:
            salvaged = await ReadOnlyJournal.salvage(file)
        except StoreDamaged:
            raise error from None
        log.error("the journal is only read, nothing is remembered or forgotten: %s", error)
        return salvaged, {"journal": f"journal: {error}; until then it is only read"}


async def _refill(journal: Journal, names: Sequence[str], places: Mapping[str, Path]) -> None:
    """Has everything delivered to these stores again, which hold nothing any more and are counted anew."""
    for name in names:
        await asyncio.to_thread(store_watermarks.remove_count, places[name])
    await journal.outbox.redeliver(names)


async def _unknown_to(journal: Journal, stores: Mapping[str, Backend]) -> str | None:
    """What an empty journal without a mark in any store has lost: one of them keeps events."""
    if (await journal.watermark()).events:
        return None
    for name, store in stores.items():
        if isinstance(store, ListsEvents):
            try:
                if await store.events("", 1):
                    return f"it is empty, and {name} keeps memories that came through a journal"
            except (FusionError, OSError) as error:
                log.warning("backend %s does not say which events it keeps: %s", name, type(error).__name__)
    return None


async def _noted(journal: Journal, places: Mapping[str, Path], *names: str) -> None:
    """Writes the journal's mark into the home and next to these stores.

    A journal that lost events writes none, so that the last one says what it had.
    """
    if await journal.deleted_externally() > 0:
        return
    mark = await journal.watermark()
    for name in {store_watermarks.HOME, *names}:
        await asyncio.to_thread(store_watermarks.write_mark, places[name], mark)


async def _embedders(settings: Settings) -> tuple[Embedders, tuple[str, ...]]:
    embedder, notes = await _embedder(settings)
    adapter = settings.embedder.adapter or EmbedderSettings().adapter

    async def another(changed: Mapping[str, object]) -> Embedder:
        try:
            options = EmbedderSettings.model_validate(changed).options
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise SettingsError(f"[embedder] {wrong}") from None
        opened: Embedder = await resolve(adapter, "embedder.adapter").open(
            settings.home / "embeddings", {**options, "alone": True}
        )
        return opened

    following = settings.embedder.next.model_dump() if settings.embedder.next.provider else None
    return Embedders(embedder, settings.embedder.options, another, following), notes


async def _embedder(settings: Settings) -> tuple[Embedder | None, tuple[str, ...]]:
    if settings.embedder.none:
        return None, ("no embedding model is configured: everything is found by its words only",)
    options = settings.embedder.options
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
    if isinstance(embedder, HasLocalModel):
        return embedder.local
    return embedder


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
    metered = BudgetedModel(
        opened, calls_per_minute=chosen.calls_per_minute, tokens_per_minute=chosen.tokens_per_minute
    )
    return metered, ()


async def open_sources(settings: Settings, common: Shared, tenant: str, stack: AsyncExitStack) -> dict[str, Source]:
    """Every backend, opened at once and closed by ``stack``, also when the settings of another one are wrong."""
    opened = await asyncio.gather(
        *(_source(name, chosen, settings, common, tenant) for name, chosen in settings.backends.items()),
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


async def _source(name: str, chosen: BackendSettings, settings: Settings, common: Shared, tenant: str) -> Source:
    """The backend of that name, open; or one that is disabled and says why.

    One that nobody asked for, and whose optional package is not installed, is as good as switched off.
    """
    backend: Backend
    disabled: str | None = None
    if not chosen.enabled:
        backend, disabled = Absent("disabled"), "disabled in the configuration"
        broken = False
    else:
        broken = True
        folder = settings.home / "backends" / name
        try:
            kind = resolve(chosen.adapter, f"backends.{name}.adapter")
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Where a backend was moved to another embedder, it was for all tenants.
            embedder = await common.embedders.of(common.settings.home / "backends" / name)
            opening = Opening(name, folder, chosen.options, embedder, common.model, tenant, settings.notes.folders)
            async with asyncio.timeout(OPEN_S):
                backend = await kind.open(opening)
            broken = False
            if not backend.features.tenants and backend.features.tenant != tenant:
                await backend.close()
                backend = Absent("it serves another tenant", backend.features)
        except SettingsError as error:
            if name in settings.asked_for or not isinstance(error, PackageMissing):
                raise
            backend, disabled, broken = Absent(str(error)), str(error), False
            log.warning("backend %s is left out: %s", name, error)
        except Exception as error:  # noqa: BLE001 — whatever is wrong with one backend, the others are there
            reason = why(error)
            backend, disabled = Absent(reason), f"{NOT_OPENED}: {reason}"
            log.error("backend %s could not be opened: %s", name, reason)
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


class Absent:
    """Stands where a backend could not be opened, so that it has a name and a reason in every answer."""

    def __init__(self, reason: str, features: Features | None = None) -> None:
        self.reason, self.features = reason, features or Features()

    @classmethod
    async def open(cls, opening: Opening) -> Absent:
        return cls(f"{opening.name} was not opened")

    async def search(self, query: Query) -> Sequence[Hit]:
        raise BackendUnreachable(self.reason)

    async def close(self) -> None:
        """Nothing is open."""


async def _emptied(journal: Journal, source: Source) -> bool:
    """Whether a backend that was told of memories holds nothing: its files were emptied, or it keeps none."""
    if not isinstance(source.backend, Describes) or not await journal.outbox.has_delivered(source.name):
        return False
    try:
        async with asyncio.timeout(source.deadline_s):
            described = await source.backend.describe()
            return described.items == 0 and not described.degraded  # one that is down says 0, too
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


def _nothing() -> None:
    """There is nothing to note."""


def _following(settings: Settings, intake: Intake) -> SessionWatcher | None:
    chosen = settings.sessions
    if not chosen.paths:
        return None
    return SessionWatcher(
        paths=[path.expanduser() for path in chosen.paths],
        whose=Scope(user_id=chosen.user_id or None),
        home=settings.home,
        remember=intake.remember,
        delta=Delta(chosen.delta_bytes, chosen.delta_lines, chosen.idle_s),
        limits=Limits.of(settings.ingest, settings.sessions),
    )


def _notes_follower(settings: Settings, intake: Intake) -> NoteWatcher | None:
    notes = settings.notes.folders
    if not notes.paths:
        return None
    limits = Limits.of(settings.ingest, settings.sessions)
    return NoteWatcher(notes.paths, notes.scope, settings.home, intake, notes.ignore, notes.every_s, limits)
