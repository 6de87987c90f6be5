"""The objects that make up an open home: those that all tenants share, and those of one tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fusion.contract import Judge, LanguageModel, Scope, TracksUse
from fusion.gateway.admission import Admission
from fusion.gateway.backend_log import BackendLog
from fusion.gateway.embedders import Embedders
from fusion.gateway.health import Health
from fusion.gateway.measures import Measures
from fusion.gateway.prefix_windows import PrefixWindows
from fusion.gateway.recent_questions import RecentQuestions
from fusion.gateway.recordings import Recordings
from fusion.gateway.size_log import SizeLog
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.forget import Forgetter
from fusion.ingest.forget_observations import ObservationForgetter
from fusion.ingest.intake import Intake
from fusion.ingest.observe import ObservationIntake
from fusion.journal import Journal
from fusion.journal.access_log import AccessLog
from fusion.journal.external_refs import ExternalRefs
from fusion.journal.inclusions import InclusionLog
from fusion.journal.layers import LayerLog
from fusion.journal.sessions import AskingSessions
from fusion.journal.use import UseLog
from fusion.lib.clock import Clock, utc_now
from fusion.lib.request_rate import RequestRates
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import Live
from fusion.recall.receipt_store import ReceiptStore
from fusion.recipe import Recipe
from fusion.settings import Settings
from fusion.sources.histories import Histories
from fusion.sources.note_watcher import NoteWatcher
from fusion.sources.observation_files import ObservationFiles
from fusion.sources.session_watcher import SessionWatcher
from fusion.upkeep.consolidator import Consolidator
from fusion.upkeep.grade import Grader
from fusion.upkeep.lifecycle import Lifecycle

if TYPE_CHECKING:
    from fusion.store.postgres import Server

DEFAULT = Scope().tenant
"""the tenant of the home's owner; its folder is the home itself"""


@dataclass(frozen=True, slots=True, eq=False)
class SharedParts:
    """The parts that all tenants of a home share: models with their budgets, and the admission of questions.

    They hold no memories; one tenant can affect another only by the time that a call takes.
    """

    settings: Settings
    recipes: Mapping[str, Recipe]
    embedders: Embedders
    judge: Judge | None
    model: LanguageModel | None
    admission: Admission
    notes: tuple[str, ...] = ()
    """limitations for all tenants, in words with the fix"""
    unwritable: str = ""
    """why the home cannot be written to; empty if it can"""
    clock: Clock = utc_now
    server: Server | None = None
    """the PostgreSQL database of the journals; None if they are files of the home"""
    measures: Measures = field(default_factory=Measures)
    rates: RequestRates | None = None
    """the requests of each tenant in a minute; None without a limit"""


@dataclass(frozen=True, slots=True, eq=False)
class TenantParts:
    """The parts of an open home for one tenant; none of them holds, counts or numbers another tenant's memories.

    ``settings.home`` is the tenant's own folder; for `DEFAULT` it is the home itself.
    """

    tenant: str
    settings: Settings
    recipes: Mapping[str, Recipe]
    guarded: Mapping[str, GuardedBackend]
    journal: Journal
    intake: Intake
    deliverer: Deliverer
    forgetter: Forgetter
    external_refs: ExternalRefs
    asking_sessions: AskingSessions
    receipts: ReceiptStore
    access_log: AccessLog
    size_log: SizeLog
    backend_log: BackendLog
    questions: RecentQuestions
    recordings: Recordings
    live: Live
    health: Health
    use: UseLog
    inclusions: InclusionLog
    layers: LayerLog
    lifecycle: Lifecycle
    grader: Grader
    histories: Histories
    observations: ObservationIntake
    prefixes: PrefixWindows
    observation_forgetter: ObservationForgetter
    observation_files: ObservationFiles
    use_trackers: Mapping[str, TracksUse]
    """the backends that record use, by name; found once, since the check of a protocol is slow"""
    embedders: Embedders
    admission: Admission
    model: LanguageModel | None = None
    """the language model of ``[model]`` with its budget; None if none is configured or it is missing"""
    distiller: Distiller | None = None
    consolidator: Consolidator | None = None
    """None without an embedder"""
    notes: tuple[str, ...] = ()
    """limitations for all tenants, in words with the fix"""
    session_watcher: SessionWatcher | None = None
    """None if no sessions are configured"""
    note_watcher: NoteWatcher | None = None
    """None if no folder of notes is configured"""
    measures: Measures = field(default_factory=Measures)
    """counts of all tenants, for the home's operator"""
