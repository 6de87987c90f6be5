"""Reads the settings of a home and of the environment into frozen values.

Each source overrides the one before: the defaults here (`config/fusion.toml` shows each with its unit and reason) →
`fusion.toml` in the home, or the named file → environment variables, `FUSION_SERVER__PORT=9000` for `[server] port` →
arguments. Relative paths in a file are relative to that file. Nothing else reads the file or these variables.
"""

from __future__ import annotations

import os
import re
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from fusion.contract import BlockFormat, Kind, NoteFolders, Role, Scope
from fusion.errors import BadInput, SettingsError
from fusion.home import find_home
from fusion.lib.budget import DAILY_LOG_CHARS, MAX_BUDGET_CHARS, MAX_BUDGET_TOKENS
from fusion.lib.did_you_mean import hint
from fusion.lib.ignore import matcher
from fusion.lib.observation import EpisodeType
from fusion.settings_errors import explain
from fusion.settings_table import with_database
from fusion.upkeep.schedule import parse

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?/?")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _known_zone(zone: str) -> str:
    if zone not in ("", "UTC"):
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("there is no such time zone; write an IANA name such as Europe/Berlin") from None
    return zone


def _schedule(text: str) -> str:
    try:
        parse(text)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return text


Zone = Annotated[str, AfterValidator(_known_zone)]
"""an IANA time zone; empty: this machine's"""
ScheduleText = Annotated[str, AfterValidator(_schedule)]
"""a schedule as `fusion.upkeep.schedule.parse` reads it"""


def _exact_origin(text: str) -> str:
    """An origin as browsers send it. Raises ValueError for a pattern, a path, or `null`: any sandboxed page has it."""
    if not _ORIGIN.fullmatch(text):
        raise ValueError('write an exact origin, such as "https://notes.example" or "http://localhost:3000"')
    return text.lower().rstrip("/")


NonNegative = Annotated[float, Field(ge=0)]
Origin = Annotated[str, AfterValidator(_exact_origin)]
"""scheme, host and port of a web page's server"""


class KeySettings(_Part):
    name: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    tenant: str = "default"
    all_users: bool = False
    role: Role = "operator"


class ServerSettings(_Part):
    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[Origin, ...] = ()
    max_body_bytes: int = Field(default=262_144, gt=0)
    max_import_mb: float = Field(default=4096.0, gt=0)
    max_in_flight: int = Field(default=64, gt=0)
    max_queued: int = Field(default=128, ge=0)
    requests_per_minute: int = Field(default=0, ge=0)
    max_connections: int = Field(default=2048, gt=0)
    max_open_tenants: int = Field(default=8, ge=1)
    idle_exit_s: float = Field(default=0.0, ge=0)
    notice_s: float = Field(default=0.2, ge=0)
    drain_s: float = Field(default=10.0, ge=0)
    log_mb: float = Field(default=8.0, gt=0)
    log_format: Literal["text", "json"] = "text"
    open_to_local_users: bool = False
    keys: tuple[KeySettings, ...] = ()


class TelemetrySettings(_Part):
    traces: bool = False
    prices: dict[str, tuple[NonNegative, NonNegative]] = Field(default_factory=dict)


class NextEmbedderSettings(_Part):
    """The embedder that `fusion <backend> reindex` moves to; none without a provider."""

    provider: str = ""
    model: str = ""
    url: str = ""
    dimensions: int = Field(default=0, ge=0)
    api_key_env: str = ""
    api_key_file: str = ""


class EmbedderSettings(NextEmbedderSettings):
    """The embedder of all backends, and of questions."""

    adapter: str = "adapters.embedders.providers:Providers"
    provider: str = "local"
    connect_ms: int = Field(default=3000, ge=1, le=60_000)
    timeout_s: float = Field(default=30.0, gt=0)
    query_timeout_ms: int = Field(default=800, gt=0)
    requests_per_minute: int = Field(default=0, ge=0)
    tokens_per_minute: int = Field(default=0, ge=0)
    token_cache_mb: int = Field(default=64, ge=1)
    token_store_mb: int = Field(default=1024, ge=1)
    dense_cache_mb: int = Field(default=16, ge=1)
    dense_store_mb: int = Field(default=1024, ge=1)
    second: str = ""
    next: NextEmbedderSettings = NextEmbedderSettings()

    @property
    def options(self) -> dict[str, object]:
        """The options of the adapter."""
        return self.model_dump(exclude={"adapter", "next", "second"})

    @property
    def none(self) -> bool:
        """Whether search is by words only."""
        return not self.adapter or self.provider == "none"


JUDGES = {
    "haiku": "adapters.judges.haiku:Haiku",
    "model": "adapters.judges.model:ModelJudge",
    "local": "adapters.judges.local:LocalJudge",
}
"""the adapter of each provider of `[judge]`"""
JUDGE_PATHS = frozenset({("judge", "file"), ("judge", "tokenizer")})
"""the table and key of each setting of the judge that is a path"""


class JudgeSettings(_Part):
    """The judge; none without a provider and an adapter."""

    provider: Literal["", "haiku", "model", "local"] = ""
    adapter: str = ""
    model: str = ""
    file: str = ""
    sha256: str = ""
    tokenizer: str = ""
    api_key_env: str = "ANTHROPIC_API_KEY"
    base_url: str = ""
    calls_per_minute: int = Field(default=30, ge=0)
    tokens_per_minute: int = Field(default=60_000, ge=0)
    max_tokens: int = Field(default=1024, gt=0)
    timeout_ms: int = Field(default=2500, gt=0)

    @property
    def judged_by(self) -> str:
        """The adapter that is used, or "" without a judge. An adapter that is named goes before the provider's."""
        return self.adapter or JUDGES.get(self.provider, "")

    @property
    def options(self) -> dict[str, object]:
        """The options of the adapter; a model that is not named is the adapter's own choice."""
        return self.model_dump(exclude={"provider", "adapter"} | ({"model"} if not self.model else set()))


class ModelSettings(_Part):
    adapter: str = ""
    model: str = "claude-haiku-4-5-20251001"
    api_key_env: str = ""
    base_url: str = ""
    calls_per_minute: int = Field(default=20, gt=0)
    tokens_per_minute: int = Field(default=60_000, ge=10_000)
    connect_ms: int = Field(default=5000, ge=1, le=60_000)
    timeout_ms: int = Field(default=60_000, gt=0)
    quiet_s: float = Field(default=30.0, ge=0)
    dissent_ms: int = Field(default=0, ge=0, le=30_000)


class JournalSettings(_Part):
    idempotency_keep_days: float = Field(default=7.0, ge=0)
    wal_mb: float = Field(default=16.0, gt=0)


class DatabaseSettings(_Part):
    url: SecretStr = SecretStr("")
    url_env: str = ""
    connections: int = Field(default=10, ge=2)

    @property
    def in_use(self) -> bool:
        """Whether the journals are in a database server."""
        return bool(self.url.get_secret_value() or self.url_env)

    def resolved(self) -> str:
        """The URL; empty if the journals are in the home. Raises SettingsError if ``url_env`` names no variable."""
        url = self.url.get_secret_value() or (self.url_env and os.environ.get(self.url_env, ""))
        if self.url_env and not url:
            raise SettingsError(
                f"[database] url_env names {self.url_env}, which the environment does not have: set it to the URL of "
                "the database, postgresql://user:password@host:5432/name"
            )
        return url


class ReceiptSettings(_Part):
    keep_days: float = Field(default=7.0, ge=0)
    max_mb: float = Field(default=64.0, gt=0)
    remember_questions: bool = True


class AuditSettings(_Part):
    keep_days: float = Field(default=90.0, ge=0)
    max_entries: int = Field(default=200_000, ge=1)


class FlushSettings(_Part):
    enabled: bool = True
    reserve_floor_tokens: int = Field(default=20_000, ge=0)
    soft_threshold_tokens: int = Field(default=4_000, ge=0)
    force_transcript_bytes: int = Field(default=0, ge=0)
    zone: Zone = ""
    prompt: str = ""
    system_prompt: str = ""


class FactSettings(_Part):
    """Temporal facts: the view of what was explicitly asserted."""

    stale_after_days: int = Field(default=365, ge=0, le=36_500)
    cards_by_model: bool = False


class IngestSettings(_Part):
    max_file_mb: float = Field(default=16.0, gt=0)
    ask_sections: int = Field(default=10_000, ge=0)
    ask_mb: float = Field(default=50.0, ge=0)


class NoteSettings(_Part):
    paths: tuple[Path, ...] = ()
    ignore: tuple[str, ...] = ()
    user_id: str = ""
    every_s: float = Field(default=300.0, gt=0)

    @field_validator("ignore")
    @classmethod
    def _sensible(cls, ignore: tuple[str, ...]) -> tuple[str, ...]:
        try:
            matcher(ignore)
        except re.error as error:
            raise ValueError(f"a pattern is not valid: {error}") from None
        return ignore

    @property
    def folders(self) -> NoteFolders:
        """The value that the note watcher and every backend are opened with."""
        paths = tuple(path.expanduser() for path in self.paths)
        return NoteFolders(paths, self.ignore, Scope(user_id=self.user_id or None), self.every_s)


class WorkspaceSettings(_Part):
    write: bool = False
    root_folder: str = ""
    user_id: str = ""
    agent_id: str = ""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.write and not self.root_folder:
            raise ValueError("write = true needs root_folder, the folder that may be written to")
        return self

    @property
    def writable(self) -> Path | None:
        """The folder that may be written to; None if the user allows none."""
        return self.folder if self.write else None

    @property
    def folder(self) -> Path | None:
        """The folder that may be read; None if the user names none."""
        return Path(self.root_folder).expanduser() if self.root_folder else None


class SessionSettings(_Part):
    paths: tuple[Path, ...] = ()
    user_id: str = ""
    delta_bytes: int = Field(default=100_000, gt=0)
    delta_lines: int = Field(default=50, gt=0)
    idle_s: float = Field(default=600.0, ge=0)
    every_s: float = Field(default=30.0, gt=0)
    max_file_mb: float = Field(default=1024.0, gt=0)


class PrefixSettings(_Part):
    """The sizes of the stable prefix, for every agent and session."""

    buffer_high_tokens: int = Field(default=8_000, ge=200, le=MAX_BUDGET_TOKENS)
    buffer_low_tokens: int = Field(default=2_000, ge=50, le=MAX_BUDGET_TOKENS)
    observations_tokens: int = Field(default=4_000, ge=200, le=MAX_BUDGET_TOKENS)
    turn_chars: int = Field(default=4_000, ge=200, le=MAX_BUDGET_CHARS)
    tool_chars: int = Field(default=1_500, ge=200, le=MAX_BUDGET_CHARS)
    use_model: bool = True

    @model_validator(mode="after")
    def _low_is_below_high(self) -> Self:
        if 2 * self.buffer_low_tokens > self.buffer_high_tokens:
            raise ValueError("buffer_low_tokens is at most half of buffer_high_tokens; else it is compressed too often")
        return self


class MemoryCortexSettings(_Part):
    """The routes of Memory Cortex (seed 002): /ingest, /hybrid-search and /recall."""

    enabled: bool = True
    port: int = Field(default=0, ge=0, le=65535)
    open_to_local_users: bool = False
    auto_ingest: bool = True
    auto_recall: bool = True
    skip_heartbeat: bool = True
    synthesis: bool = True
    synthesis_ttl_s: float = Field(default=300.0, ge=0, le=86_400)
    debounce_s: float = Field(default=30.0, ge=0, le=3600)
    max_history_mb: float = Field(default=16.0, gt=0, le=256)
    max_waiting_mb: float = Field(default=256.0, gt=0)
    hw_monitor_url: str = ""
    hw_monitor_busy_percent: float = Field(default=80.0, gt=0, le=100)


class OpenclawMemSettings(_Part):
    """The gateway of openclaw-mem (seed 004): its routes below /openclaw-mem, and on a port of their own."""

    port: int = Field(default=0, ge=0, le=65535)
    direct_store: bool = False
    export_folder: str = ""


class Mem0Settings(_Part):
    """mem0's routes below /mem0, and on a port of their own."""

    port: int = Field(default=0, ge=0, le=65535)


class QmdSettings(_Part):
    """QMD's routes below /qmd, and on a port of their own."""

    port: int = Field(default=0, ge=0, le=65535)


class ToolSettings(_Part):
    citations: Literal["auto", "on", "off"] = "auto"


class PackSettings(_Part):
    """`[packs]`: context packs."""

    dissent_by_rules: bool = False
    layers_by_model: bool = False


class HookSettings(_Part):
    start_wait_ms: int = Field(default=2000, ge=0, le=60_000)
    recall_timeout_ms: int = Field(default=200, ge=20, le=15_000)
    hello_timeout_ms: int = Field(default=250, ge=1, le=60_000)
    budget_chars: int = Field(default=0, ge=0, le=MAX_BUDGET_CHARS)
    budget_tokens: int = Field(default=0, ge=0, le=MAX_BUDGET_TOKENS)
    max_results: int = Field(default=0, ge=0, le=100)
    max_items: int = Field(default=0, ge=0, le=1000)
    format: BlockFormat | Literal[""] = ""
    daily_log_chars: int = Field(default=DAILY_LOG_CHARS, ge=0, le=MAX_BUDGET_CHARS)
    gate: bool = True


class ChecksSettings(_Part):
    every_hours: float = Field(default=6.0, ge=0)
    compare_s: float = Field(default=60.0, ge=0)


class JobSettings(_Part):
    """When one job runs, and how long."""

    schedule: ScheduleText = "off"
    budget_s: float = Field(default=600.0, gt=0)
    budget_tokens: int = Field(default=0, ge=0)
    catch_up: bool = True
    dry_run: bool = False


class ChecksJobSettings(JobSettings):
    schedule: Annotated[str, AfterValidator(lambda text: text and _schedule(text))] = ""


class ConsolidationJobSettings(JobSettings):
    schedule: ScheduleText = "30 2 * * *"


class DistillJobSettings(JobSettings):
    schedule: ScheduleText = "15 6,18 * * *"
    max_chars: int = Field(default=25_000, ge=1_000, le=1_000_000)
    max_loss: float = Field(default=0.25, ge=0, le=1)
    reflections: bool = False
    use_model: bool = True
    dollars_per_million_in: float = Field(default=3.0, ge=0)
    dollars_per_million_out: float = Field(default=15.0, ge=0)


class ExtractJobSettings(JobSettings):
    schedule: ScheduleText = "every 1 hour"
    raw_days: int = Field(default=4, ge=1, le=366)
    max_chars: int = Field(default=40_000, ge=1_000, le=1_000_000)


class FeedJobSettings(JobSettings):
    schedule: ScheduleText = "30 6,18 * * *"
    files: tuple[str, ...] = ("/MEMORY.md", "/memory.md", "/memory/**")


class ObserveJobSettings(JobSettings):
    schedule: ScheduleText = "every 1 hour"


class ProposalsJobSettings(JobSettings):
    schedule: ScheduleText = "every 1 hour"


class ReceiptsJobSettings(JobSettings):
    schedule: ScheduleText = "30 3 * * *"


class GradeJobSettings(JobSettings):
    scorer: Literal["heuristic-v1", "off"] = "heuristic-v1"
    skip_kinds: tuple[Kind, ...] = ("turn",)


class EpisodesJobSettings(JobSettings):
    schedule: ScheduleText = "every 1 hour"


class LayersJobSettings(JobSettings):
    schedule: ScheduleText = "every 15 minutes"
    budget_s: float = Field(default=120.0, gt=0)
    budget_tokens: int = Field(default=50_000, ge=0)


class LifecycleJobSettings(JobSettings):
    schedule: ScheduleText = "0 3 * * *"


class ReflectJobSettings(JobSettings):
    schedule: ScheduleText = "45 11,23 * * *"
    model: bool = True


class ReflectPrefixJobSettings(JobSettings):
    schedule: ScheduleText = "40 3 * * *"


class ShepherdJobSettings(JobSettings):
    schedule: ScheduleText = "every 3 hours"
    max_lines: float = Field(default=0.25, ge=0, le=1)
    max_meaning: float = Field(default=0.3, ge=0, le=1)
    protected: tuple[str, ...] = ("identity", "persona", "rules", "who i am")
    restore_edits: Literal["never", "protected", "always"] = "never"
    scratch: tuple[str, ...] = ("scratch/", "scratch*.md", "*.scratch.md")
    scratch_days: float = Field(default=7.0, ge=1)


class VectorsJobSettings(JobSettings):
    schedule: ScheduleText = "0 4 * * *"


class JobsSettings(_Part):
    zone: Zone = ""
    start_after_s: float = Field(default=60.0, ge=0)
    lease_s: float = Field(default=60.0, ge=1)
    servers: dict[str, str] = Field(default_factory=dict)
    checks: ChecksJobSettings = ChecksJobSettings()
    consolidation: ConsolidationJobSettings = ConsolidationJobSettings()
    distill: DistillJobSettings = DistillJobSettings()
    episodes: EpisodesJobSettings = EpisodesJobSettings()
    extract: ExtractJobSettings = ExtractJobSettings()
    feed: FeedJobSettings = FeedJobSettings()
    grade: GradeJobSettings = GradeJobSettings()
    layers: LayersJobSettings = LayersJobSettings()
    lifecycle: LifecycleJobSettings = LifecycleJobSettings()
    observe: ObserveJobSettings = ObserveJobSettings()
    proposals: ProposalsJobSettings = ProposalsJobSettings()
    receipts: ReceiptsJobSettings = ReceiptsJobSettings()
    reflect: ReflectJobSettings = ReflectJobSettings()
    reflect_prefix: ReflectPrefixJobSettings = ReflectPrefixJobSettings()
    shepherd: ShepherdJobSettings = ShepherdJobSettings()
    vectors: VectorsJobSettings = VectorsJobSettings()

    def of(self, name: str) -> JobSettings:
        """The settings of a job by its name, in which a hyphen is an underscore here."""
        found: JobSettings = getattr(self, name.replace("-", "_"))
        return found


class ProposalRule(_Part):
    """One rule by which proposals are decided without a person."""

    name: str = Field(min_length=1, max_length=64)
    action: Literal["approve", "reject"]
    kinds: tuple[Kind, ...] = ()
    sources: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    trust: tuple[Literal["unknown", "untrusted", "quarantined"], ...] = ()
    min_importance: float | None = Field(default=None, ge=0, le=1)
    max_importance: float | None = Field(default=None, ge=0, le=1)
    min_age_hours: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _narrow(self) -> Self:
        conditions = (self.kinds, self.sources, self.keys, self.trust, self.min_importance, self.max_importance)
        if self.action == "approve" and not any(conditions):
            raise ValueError(f"the rule {self.name!r} would approve everything: say for which kinds, sources or keys")
        return self


class ProposalSettings(_Part):
    """What may be proposed, and who decides on it."""

    decided_by: Literal["writer", "operator"] = "operator"
    max_chars: int = Field(default=8000, ge=1, le=100_000)
    max_open: int = Field(default=1000, ge=1, le=100_000)
    max_open_per_key: int = Field(default=200, ge=1, le=100_000)
    expire_days: float = Field(default=30.0, ge=0)
    keep_days: float = Field(default=90.0, ge=0)
    rules: tuple[ProposalRule, ...] = ()


class EpisodeSettings(_Part):
    """What is kept of the observations of sessions, and how long; 0 days: for ever."""

    capture_tools: bool = False
    grade: bool = False
    paths: tuple[Path, ...] = ()
    user_id: str = ""
    user_days: float = Field(default=60.0, ge=0, le=36_500)
    assistant_days: float = Field(default=90.0, ge=0, le=36_500)
    tool_days: float = Field(default=30.0, ge=0, le=36_500)
    decision_days: float = Field(default=0.0, ge=0, le=36_500)
    alert_days: float = Field(default=90.0, ge=0, le=36_500)

    @property
    def kept_days(self) -> dict[EpisodeType, float]:
        """By type, the days that an observation is kept; a type that is kept for ever is not in it."""
        days: dict[EpisodeType, float] = {
            "conversation.user": self.user_days,
            "conversation.assistant": self.assistant_days,
            "tool.call": self.tool_days,
            "tool.result": self.tool_days,
            "ops.decision": self.decision_days,
            "ops.alert": self.alert_days,
            "ops.observation": self.alert_days,
        }
        return {each: kept for each, kept in days.items() if kept}


class LifecycleSettings(_Part):
    """When memories end, for every run of the lifecycle."""

    ttl_hours: float = Field(default=720.0, gt=0, le=1e6)
    idle_hours: float = Field(default=24.0, gt=0, le=1e6)
    delete_expired: bool = False
    archive_unused: bool = False
    p1_days: float = Field(default=90.0, gt=0, le=36_500)
    p2_days: float = Field(default=30.0, gt=0, le=36_500)


class TrustSettings(_Part):
    """How far memories are trusted by their sources."""

    sources: dict[str, Literal["unknown", "untrusted", "quarantined"]] = Field(default_factory=dict)


class BackendSettings(BaseModel):
    """The gateway's settings of a backend; every other key of its table is an option of the adapter."""

    model_config = ConfigDict(frozen=True, extra="allow")

    adapter: str
    enabled: bool = True
    deadline_ms: int = Field(default=1000, gt=0)
    max_concurrent: int = Field(default=64, gt=0)
    compat_port: int = Field(default=0, ge=0, le=65535)
    fallback_for: Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)] = ()

    @property
    def options(self) -> dict[str, object]:
        return dict(self.model_extra or {})


def built_in_backends() -> dict[str, BackendSettings]:
    return {
        "markdown": BackendSettings.model_validate(
            {
                "adapter": "adapters.markdown:Markdown",
                "paths": [],
                "ignore": [],
                "merge": "convex",
                "mention_lift": 0.3,
                "half_life_days": 0,
                "mmr_lambda": 1,
                "watch": True,
                "remember_turns": False,
            }
        ),
        "cortex": BackendSettings(adapter="adapters.cortex:Cortex"),
        "mem0": BackendSettings(adapter="adapters.mem0:Mem0"),
        "triples": BackendSettings(adapter="adapters.triples:Triples"),
    }


class Settings(BaseSettings):
    """All settings, validated."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="FUSION_", env_nested_delimiter="__")

    home: Path = Path(".fusion")
    recipe: str = "default"
    backends_only: bool = False
    server: ServerSettings = ServerSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    judge: JudgeSettings = JudgeSettings()
    model: ModelSettings = ModelSettings()
    journal: JournalSettings = JournalSettings()
    database: DatabaseSettings = DatabaseSettings()
    receipts: ReceiptSettings = ReceiptSettings()
    audit: AuditSettings = AuditSettings()
    facts: FactSettings = FactSettings()
    flush: FlushSettings = FlushSettings()
    tools: ToolSettings = ToolSettings()
    memory_cortex: MemoryCortexSettings = MemoryCortexSettings()
    openclaw_mem: OpenclawMemSettings = OpenclawMemSettings()
    mem0: Mem0Settings = Mem0Settings()
    qmd: QmdSettings = QmdSettings()
    prefix: PrefixSettings = PrefixSettings()
    ingest: IngestSettings = IngestSettings()
    notes: NoteSettings = NoteSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    sessions: SessionSettings = SessionSettings()
    hooks: HookSettings = HookSettings()
    checks: ChecksSettings = ChecksSettings()
    packs: PackSettings = PackSettings()
    jobs: JobsSettings = JobsSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    trust: TrustSettings = TrustSettings()
    proposals: ProposalSettings = ProposalSettings()
    episodes: EpisodeSettings = EpisodeSettings()
    backends: dict[str, BackendSettings] = Field(default_factory=built_in_backends)
    recipes_folder: Path | None = None
    api_key: SecretStr | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    _asked_for: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def asked_for(self) -> frozenset[str]:
        """The backends that the user configured; the others are on by default."""
        return self._asked_for

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Takes only the arguments: `load` merges file, environment and caller."""
        return (init_settings,)

    @model_validator(mode="after")
    def _guarded(self) -> Settings:
        if self.server.host not in LOOPBACK and not self.keys:
            raise ValueError(
                f"server.host = {self.server.host!r} is reachable from other machines: set FUSION_API_KEY "
                "or add [[server.keys]] first, or bind 127.0.0.1"
            )
        if self.server.open_to_local_users and self.keys:
            raise ValueError("server.open_to_local_users lets everyone in without a key: leave it or the keys out")
        if self.memory_cortex.open_to_local_users:
            if not self.memory_cortex.port:
                raise ValueError(
                    "memory_cortex.open_to_local_users opens memory_cortex.port: set that, or leave it out"
                )
            if self.keys or self.server.host not in LOOPBACK:
                raise ValueError(
                    "memory_cortex.open_to_local_users lets programs in without a key: it needs a loopback server.host "
                    "and no API keys"
                )
        for name, backend in self.backends.items():
            for other in backend.fallback_for:
                if other not in self.backends:
                    raise ValueError(f"backends.{name}.fallback_for = {other!r}: there is no such backend")
            if name in self._fallbacks_of(name):
                raise ValueError(f"backends.{name}.fallback_for: it would be a fallback for itself")
        return self

    def _fallbacks_of(self, name: str) -> set[str]:
        """The backends that one is a fallback for, directly or through others."""
        found: set[str] = set()
        left = [name]
        while left:
            new = set(self.backends[left.pop()].fallback_for) & self.backends.keys() - found
            found |= new
            left += new
        return found

    @property
    def keys(self) -> tuple[KeySettings, ...]:
        """All API keys of the server: those of the file and that of the environment."""
        if self.api_key is None:
            return self.server.keys
        digest = sha256(self.api_key.get_secret_value().encode()).hexdigest()
        return (*self.server.keys, KeySettings(name="environment", sha256=digest))


def load(config: Path | None = None, *, home: Path | None = None, **overrides: Any) -> Settings:
    """Loads the settings of a home: the one named here, by FUSION_HOME or by the file, else as `find_home` finds it.

    ``config`` is a file; without it, `fusion.toml` in the home is read if it exists. A `home` in that file is ignored:
    its settings would take effect in a home where nobody allowed them.
    Raises SettingsError, which names the key and the file or the variable.
    """
    chosen = find_home(home) if home or os.environ.get("FUSION_HOME") else None
    file = config or (chosen or find_home()) / "fusion.toml"
    if config is not None and not config.is_file():
        raise SettingsError(f"there is no configuration file {config}")
    table = _read(file) if file.is_file() else {}
    table = _merge(_merge(with_database(table), _environment()), overrides)
    named = table.get("backends", {})
    table = _with_defaults(table)
    table["home"] = chosen or (table.get("home") if config is not None else None) or find_home()
    try:
        settings = Settings(**table)
    except ValidationError as error:
        raise SettingsError(explain(error, Settings, file if file.is_file() else None, built_in_backends())) from None
    settings._asked_for = frozenset(name for name, options in named.items() if options)
    return settings.model_copy(update={"home": settings.home.expanduser().absolute()})


def _environment() -> dict[str, Any]:
    for variable in os.environ:
        key, nested, _ = variable.lower().removeprefix("fusion_").partition("__")
        if variable.lower().startswith("fusion_") and nested and key not in Settings.model_fields:
            raise SettingsError(f"{variable}: there is no table [{key}]{hint(key, Settings.model_fields)}")
    try:
        return EnvSettingsSource(Settings)()
    except UnreadableVariable as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        raise SettingsError(f"a FUSION_ variable is not JSON, {error}{cause}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}") from None
    return _rooted(table, file.parent.absolute())


_YES = frozenset({"true", "yes", "on", "1", "t", "y"})
"""the texts that pydantic reads as true"""


def _with_defaults(table: dict[str, Any]) -> dict[str, Any]:
    """Adds the default backends and their default options, so that one option can be set alone."""
    backends = table.get("backends", {})
    if not isinstance(backends, dict) or str(table.get("backends_only")).lower() in _YES:
        return {**table, "backends": backends}
    merged: dict[str, Any] = {name: value.model_dump() for name, value in built_in_backends().items()}
    for name, options in backends.items():
        merged[name] = {**merged.get(name, {}), **options} if isinstance(options, dict) else options
    return {**table, "backends": merged}


def _rooted(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Makes the paths of a file absolute, relative to its folder.

    They are the keys `home`, `paths`, `*_folder` and `*_file`, and two of the judge.
    """

    def rooted(key: str, value: Any, table: str = "") -> Any:
        if isinstance(value, dict):
            return {k: rooted(k, v, key) for k, v in value.items()}
        if key == "paths" and isinstance(value, list):
            return [rooted("home", v) for v in value]
        named = key == "home" or key.endswith(("_folder", "_file"))
        if (named or (table, key) in JUDGE_PATHS) and isinstance(value, str) and value:
            return str((folder / Path(value).expanduser()).resolve())
        return value

    return {key: rooted(key, value) for key, value in table.items()}


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
