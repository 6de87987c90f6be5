"""Verifies deletions: the backend is searched for the deleted memory and must not return it.

The search is the read path's, by the text and in the scope of the memory, and its hits are checked before tombstones
filter them. If the text is unknown (after a restart) or has no searchable word, the backend is asked to delete the ids
again, which must find nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fusion.contract import DIMENSIONS, Backend, Event, Features, Forgets, ForgetsMany, Forgotten, Hit, Query, Scope
from fusion.errors import BackendError, StillThere
from fusion.journal.outbox import Due
from fusion.journal.rows import Record
from fusion.journal.tombstones import Tombstones
from fusion.lib.bm25 import terms
from fusion.lib.words import spoken

PROBE_CHARS = 1000
"""characters of the text that are searched for, enough to rank it first"""
PROBE_LIMIT = 100
SEARCHED = 5
"""memories of a batch that are searched for after their deletion"""

Ask = Callable[[str, Query], Awaitable[Sequence[Hit]]]
"""searches one backend by its name and returns its raw hits, or raises"""


@dataclass(frozen=True, slots=True)
class Verifier:
    """Deletes events in a backend, and checks that a search no longer returns them."""

    ask: Ask
    records: Callable[[Sequence[str]], Awaitable[Mapping[str, Record]]]
    clock: Callable[[], datetime]

    async def delete(self, name: str, store: Backend, due: Sequence[Due]) -> list[Forgotten | StillThere]:
        """Delete one event, or many in a backend that `ForgetsMany`; the outcomes in the same order.

        One is searched for. Many are verified by deleting their ids again, which must find nothing. If the backend has
        a user's own files, which may say the same, each is also searched for; otherwise only `SEARCHED` of them, spread
        evenly. "hidden" if a user's own file says the same, StillThere if the backend still has the event.
        """
        if isinstance(store, ForgetsMany) and len(due) > 1:
            return await self._delete_many(name, store, due)
        assert isinstance(store, Forgets)  # noqa: S101 — checked by the caller
        (one,) = due
        outcome = await store.forget(one.event.event_id, one.native_ids)
        return [outcome if outcome == "hidden" else await self._search_for(name, store, one, outcome)]

    async def _delete_many(self, name: str, store: Backend, due: Sequence[Due]) -> list[Forgotten | StillThere]:
        assert isinstance(store, ForgetsMany)  # noqa: S101 — checked by the caller
        ids = [(one.event.event_id, one.native_ids) for one in due]
        first, again = await store.forget_all(ids), await store.forget_all(ids)
        every = 1 if store.has_files else -(-len(due) // SEARCHED)
        found: list[Forgotten | StillThere] = []
        for number, (one, outcome, second) in enumerate(zip(due, first, again, strict=True)):
            if second == "deleted":
                found.append(StillThere(f"{name} had to delete it twice"))
            elif outcome == "hidden" or number % every or not terms(_probe(one.event)):
                found.append(outcome)
            else:
                try:
                    found.append(await self._search_for(name, store, one, outcome))
                except BackendError:
                    if store.has_files:
                        raise
                    found.append(outcome)  # the search failed, but the ids are verified
        return found

    async def _search_for(self, name: str, store: Backend, one: Due, outcome: Forgotten) -> Forgotten | StillThere:
        """The outcome of a deletion after a search for the deleted event."""
        event = one.event
        probe = _probe(event)
        if not terms(probe):
            if isinstance(store, Forgets) and await store.forget(event.event_id, one.native_ids) == "deleted":
                return StillThere(f"{name} had to delete it twice")
            return outcome
        hits = await self.ask(name, _question(probe, event, store.features, self.clock()))
        known = await self.records([i for hit in hits for i in hit.derived_from])
        own = Tombstones()
        own.add(Hit.of(event))
        for hit in hits:
            itself = event.event_id in (hit.event_id, hit.version_of)
            itself = itself or (hit.event_id is None and hit.native_id in one.native_ids)
            if hit.event_id is None and any(_is_kept(i, event, known) for i in hit.derived_from):
                # A fact that other memories also state is deleted with the last of them.
                outcome = "hidden" if itself else outcome
            elif itself or (hit.event_id is None and event.event_id in hit.derived_from):
                return StillThere(f"{name} says that it is {outcome}, and still returns it")
            elif hit.event_id is None and own.affects(name, hit):
                outcome = "hidden"
        return outcome


def _probe(event: Event) -> str:
    return spoken(event.text, event.speaker)[:PROBE_CHARS]


def _is_kept(event_id: str, forgotten: Event, known: Mapping[str, Record]) -> bool:
    """Whether a fact's source still exists; an id unknown to the journal may be another gateway's."""
    return event_id != forgotten.event_id and (event_id not in known or known[event_id].live)


def _question(probe: str, event: Event, features: Features, now: datetime) -> Query:
    """The query that must find the event if it is there: in its scope, and before it expired."""
    named = {d: features.bound.get(d, getattr(event.scope, d) if d in features.filters else None) for d in DIMENSIONS}
    tenant = event.scope.tenant if features.tenants else features.tenant
    if event.valid_to is not None:
        now = min(now, event.valid_to - timedelta(microseconds=1))
    return Query(probe, Scope(tenant, **named, audience="private"), now, PROBE_LIMIT)
