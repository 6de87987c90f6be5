"""What the jobs of the owner's workspace work with: calls of the home's gateway, as functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

from fusion.contract import Event, LanguageModel, Reindexes, Scope, Where
from fusion.errors import FusionError
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import DEFAULT
from fusion.ingest.turn_facts import turn_facts
from fusion.journal import Journal
from fusion.journal.rows import Record
from fusion.recall.gather import GuardedBackend
from fusion.settings import Settings
from fusion.sources.session_watcher import SessionWatcher
from fusion.upkeep import extract, reflect

MAX_TURNS = 20_000
"""maximum turns of some days that are read"""


class WorkspaceCalls(Protocol):
    """The parts of a gateway that the jobs of the workspace need."""

    @property
    def settings(self) -> Settings: ...
    @property
    def guarded(self) -> Mapping[str, GuardedBackend]: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def session_watcher(self) -> SessionWatcher | None: ...
    @property
    def model(self) -> LanguageModel | None: ...


async def owner_of(gateway: WorkspaceCalls) -> Scope:
    """The scope of the workspace's owner. Raises NobodyNamed where several have memories and the settings name none."""
    chosen = gateway.settings.workspace
    user = chosen.user_id or gateway.settings.sessions.user_id or gateway.settings.notes.user_id
    scope = Scope(DEFAULT, user or None, chosen.agent_id or None, audience="private")
    await require_owner(gateway.journal, scope, all_users=False)
    return scope


def extract_sources(gateway: WorkspaceCalls) -> extract.Sources:
    """The calls of the job `extract`."""

    async def take_in() -> int:
        return 0 if gateway.session_watcher is None else await gateway.session_watcher.read_all()

    async def turns(after: datetime) -> Sequence[Record]:
        where = Where(kind=("turn",), after=after)
        return await gateway.journal.fitting(await owner_of(gateway), where, MAX_TURNS, history=False)

    async def known(refs: Sequence[str]) -> Collection[str]:
        found = await gateway.journal.find_all(refs, await owner_of(gateway))
        return [ref for ref, record in found.items() if not record.forgotten and record.superseded_by is None]

    async def home() -> str:
        mark = await gateway.journal.watermark()
        return blake2b(mark.id.encode(), digest_size=3).hexdigest()

    async def reindex() -> Mapping[str, str]:
        return await reindexed(gateway.guarded)

    return extract.Sources(take_in, turns, known, _states, home, reindex)


def reflect_sources(gateway: WorkspaceCalls) -> reflect.Sources:
    """The calls of the job `reflect`."""
    found = extract_sources(gateway)
    model = gateway.model if gateway.settings.jobs.reflect.model else None
    return reflect.Sources(found.turns, found.known, found.reindex, model)


def _states(sentence: Event) -> bool:
    return bool(turn_facts([sentence]).facts)


async def reindexed(guarded: Mapping[str, GuardedBackend]) -> Mapping[str, str]:
    """Let each backend that searches files read those that changed; returns what each says, by name."""
    said = {}
    for name, one in guarded.items():
        if one.disabled is None and isinstance(one.backend, Reindexes):
            try:
                said[name] = await one.backend.reindex()
            except (FusionError, OSError) as error:
                said[name] = f"not indexed: {error}"
    return said
