"""Gives the jobs of the owner's workspace the calls of the gateway that they need, as functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Protocol

from fusion.contract import STATEMENT_KINDS, Event, Fact, LanguageModel, Reindexes, Scope, TakesFiles, Where
from fusion.errors import FusionError
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import DEFAULT
from fusion.ingest.facts import facts
from fusion.ingest.turn_facts import turn_facts
from fusion.journal import Journal, use
from fusion.journal.rows import Record
from fusion.recall.gather import GuardedBackend
from fusion.settings import Settings
from fusion.sources.session_watcher import SessionWatcher
from fusion.upkeep import distill, extract, feed, reflect
from fusion.upkeep.drift import protects

MAX_TURNS = 20_000
"""maximum turns that one run reads"""
MAX_STATEMENTS = 5_000
"""maximum explicitly remembered statements that one run reads, the newest first"""
TRUSTED_ORIGINS = ("owner", "agent")


class WorkspaceCalls(Protocol):
    """The parts of a gateway that the jobs of the workspace need."""

    @property
    def settings(self) -> Settings: ...
    @property
    def guarded(self) -> Mapping[str, GuardedBackend]: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def model(self) -> LanguageModel | None: ...
    @property
    def session_watcher(self) -> SessionWatcher | None: ...


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
        return [ref for ref, record in found.items() if _is_current(record)]

    return extract.Sources(take_in, turns, known, _states, partial(_home, gateway), partial(reindexed, gateway.guarded))


def distill_sources(gateway: WorkspaceCalls) -> distill.Sources:
    """The calls of the job `distill`."""

    async def used(records: Sequence[Record]) -> Mapping[str, distill.Known]:
        counts = await gateway.journal.read(use.of, [one.event.event_id for one in records])
        uses = {event_id: count.included for event_id, count in counts.items()}
        return {one.ref: distill.Known(one, uses.get(one.event.event_id, 0)) for one in records}

    async def stated() -> Sequence[distill.Known]:
        where = Where(kind=tuple(sorted(STATEMENT_KINDS)))
        found = await gateway.journal.fitting(await owner_of(gateway), where, MAX_STATEMENTS, history=False)
        return [*(await used([one for one in found if _is_durable(one)])).values()]

    async def known(refs: Sequence[str]) -> Mapping[str, distill.Known]:
        found = await gateway.journal.find_all([*dict.fromkeys(refs)], await owner_of(gateway))
        return await used([one for one in found.values() if _is_current(one)])

    def said(turn: Event) -> Sequence[str]:
        return [one.fact for one in turn_facts([turn]).facts]

    def triples(text: str) -> Sequence[Fact]:
        speaker, colon, rest = text.partition(": ")
        return facts(rest, speaker) if colon and speaker and " " not in speaker else facts(text, None)

    chosen = gateway.settings.jobs.distill
    model = gateway.model if chosen.use_model else None
    home, reindex = partial(_home, gateway), partial(reindexed, gateway.guarded)
    return distill.Sources(stated, known, said, triples, home, reindex, model)


def distill_limits(settings: Settings) -> distill.Limits:
    """The limits of MEMORY.md and its protected sections, from the settings."""
    chosen = settings.jobs.distill
    protected = protects(settings.jobs.shepherd.protected)
    return distill.Limits(
        chosen.max_chars,
        chosen.max_loss,
        protected,
        chosen.budget_tokens,
        chosen.dollars_per_million_in,
        chosen.dollars_per_million_out,
        chosen.reflections,
    )


async def _home(gateway: WorkspaceCalls) -> str:
    """A short id of the home."""
    mark = await gateway.journal.watermark()
    return blake2b(mark.id.encode(), digest_size=3).hexdigest()


def _is_current(record: Record) -> bool:
    return not record.forgotten and record.superseded_by is None and record.state.ended_at is None


def _is_durable(record: Record) -> bool:
    """Whether a memory was stated as permanent by the owner or an agent, and is still current."""
    event = record.event
    return (
        _is_current(record)
        and record.state.merged_into is None
        and event.origin in TRUSTED_ORIGINS
        and record.trust in ("trusted", "unknown")
        and event.valid_to is None
        and record.state.lifetime == "permanent"
        and event.place is None
    )


def reflect_sources(gateway: WorkspaceCalls) -> reflect.Sources:
    """The calls of the job `reflect`."""
    found = extract_sources(gateway)
    model = gateway.model if gateway.settings.jobs.reflect.model else None
    return reflect.Sources(found.turns, found.known, found.reindex, model)


def feed_sources(gateway: WorkspaceCalls) -> feed.Sources:
    """What the job `feed` works with."""
    takers = {
        name: one.backend
        for name, one in gateway.guarded.items()
        if one.disabled is None and isinstance(one.backend, TakesFiles)
    }
    return feed.Sources(takers, partial(_home, gateway), gateway.settings.jobs.feed.files)


def _states(sentence: Event) -> bool:
    return bool(turn_facts([sentence]).facts)


async def reindexed(guarded: Mapping[str, GuardedBackend]) -> Mapping[str, str]:
    """Let each backend that searches files read the changed ones; returns each one's report, by name."""
    said = {}
    for name, one in guarded.items():
        if one.disabled is None and isinstance(one.backend, Reindexes):
            try:
                said[name] = await one.backend.reindex()
            except (FusionError, OSError) as error:
                said[name] = f"not indexed: {error}"
    return said
