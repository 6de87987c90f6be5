"""The contract tests of every backend; the test class of an adapter inherits them.

    class TestInMemory(BackendContract):
        durable = False  # a property that the backend does not have; a comment gives the reason

        async def open_backend(self, folder: Path) -> Backend:
            return await InMemory.open(opening(folder))

A backend that cannot be filled through its own port (a server, a folder of files) overrides ``fill``. Tests of an
optional capability that the backend lacks are skipped with that reason. Servers inherit ``RemoteBackendContract``.
"""

from __future__ import annotations

import asyncio
import re
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from fusion.contract import (
    DIMENSIONS,
    NO_USER,
    Backend,
    Describes,
    Dimension,
    Entity,
    Event,
    Extracted,
    Extraction,
    Fact,
    FindsNeighbours,
    Forgets,
    ForgetsMany,
    Hit,
    Kind,
    Moment,
    Opening,
    Place,
    Query,
    Remembers,
    Scope,
    Settles,
    TimeRange,
    TracksUse,
    Where,
)
from fusion.errors import BackendUnreachable, InvalidAnswer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ANYONE = Scope()

# Twelve memories without common content words, so that every sensible ranking has the quoted one first.
SAMPLES: tuple[tuple[str, Fact], ...] = (
    ("Julien corrected the timezone bug in Gateway.", Fact("Julien", "corrected", "Gateway")),
    ("Marta prefers peppermint infusions to espresso.", Fact("Marta", "prefers", "Peppermint")),
    ("Orchard stores invoices inside PostgreSQL.", Fact("Orchard", "stores invoices inside", "PostgreSQL")),
    ("Quentin adopted a greyhound called Biscuit.", Fact("Quentin", "adopted", "Biscuit")),
    ("Lighthouse deploys every Thursday through Jenkins.", Fact("Lighthouse", "deploys through", "Jenkins")),
    ("Yasmin teaches pottery near Lisbon.", Fact("Yasmin", "teaches pottery near", "Lisbon")),
    ("Kestrel encrypts backups using Argon.", Fact("Kestrel", "encrypts backups using", "Argon")),
    ("Dmitri broke his wrist while climbing Matterhorn.", Fact("Dmitri", "climbed", "Matterhorn")),
    ("Nightingale replaced Redis for caching sessions.", Fact("Nightingale", "replaced", "Redis")),
    ("Ottilie borrowed a telescope from Henrik.", Fact("Ottilie", "borrowed a telescope from", "Henrik")),
    ("Falcon forbids force pushes onto main.", Fact("Falcon", "forbids", "Force pushes")),
    ("Priya booked ferry tickets towards Santorini.", Fact("Priya", "booked tickets towards", "Santorini")),
)

HOSTILE_QUERIES = (
    "",
    " \t\n ",
    "the and of",
    '"',
    '"""unbalanced',
    "AND OR NOT",
    "(",
    ")(",
    "col:value title:",
    "*",
    "NEAR(a b, 5)",
    "[a TO b} {",
    "+ - ~ ^2 /regex/",
    "\\",
    "'; DROP TABLE memories; --",
    "%_%",
    "}) DETACH DELETE n //",
    "a\x00b",
    "$where {{7*7}} ${jndi:x}",
    "東京 🤷‍♂️ é é ﷽",
    "word " * 800,
    "x" * 4000,
)


def event_id(n: int) -> str:
    """The ``n``-th fixed id, in the format of a UUIDv7."""
    return f"01890000-0000-7000-8000-{n:012x}"


def make_event(n: int, text: str, scope: Scope = ANYONE, **fields: object) -> Event:
    """An event with a fixed id and time; ``fields`` are further fields of `Event`."""
    plain = Event(event_id=event_id(n), text=text, recorded_at=NOW - timedelta(days=30) + timedelta(minutes=n))
    return replace(plain, scope=scope, **fields)  # type: ignore[arg-type]


def make_extracted(event: Event, *facts: Fact) -> Extracted:
    """An event with an extraction: the facts, with their subjects and objects as entities."""
    names = dict.fromkeys(name for fact in facts for name in (fact.subject, fact.object))
    return Extracted(event, Extraction(event.kind, tuple(Entity(name) for name in names), tuple(facts)))


def make_samples(scope: Scope = ANYONE, kind: Kind = "note", first: int = 1) -> list[Extracted]:
    """The twelve samples as extracted events with ids from ``first``."""
    return [
        make_extracted(make_event(n, text, scope, kind=kind), fact)
        for n, (text, fact) in enumerate(SAMPLES, start=first)
    ]


def make_query(text: str, scope: Scope = ANYONE, limit: int = 100, deadline_s: float = 3600.0) -> Query:
    """A query at a fixed time, with a deadline so long that no test depends on speed."""
    return Query(text=text, scope=scope, now=NOW, limit=limit, deadline_s=deadline_s)


def opening(folder: Path, name: str = "subject", **options: object) -> Opening:
    """The arguments for opening a backend in tests: a folder, and a deterministic embedder."""
    from tests.fakes import FakeEmbedder

    return Opening(name, folder, options, FakeEmbedder())


class BackendContract(ABC):
    """The contract; a subclass provides ``open_backend`` and sets the attributes for properties that it lacks."""

    durable: ClassVar[bool] = True
    """stored memories survive closing and opening again"""

    echoed: ClassVar[tuple[str, ...]] = ("text", "scope", "speaker", "at", "place", "kind", "trust", "origin")
    """fields of an event that its hit has unchanged"""

    expires: ClassVar[bool] = True
    """the end of a memory's validity is stored"""

    filters: ClassVar[bool] = False
    """a query's ``where`` is applied by time, folder and speaker before the limit"""

    @abstractmethod
    async def open_backend(self, folder: Path) -> Backend:
        """Open a backend on its own ``folder``, which may have data of an earlier opening."""

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        """Store events in the backend, and wait until they can be found in every way that it supports."""
        if not isinstance(backend, Remembers):
            pytest.skip("this backend does not remember, and its test has no other way to fill it")
        if not all(backend.accepts(extracted.event) for extracted in batch):
            pytest.skip("this backend does not accept such events")
        await backend.remember(batch)
        await self.settled(backend)

    # Fixtures and helpers

    @pytest.fixture
    async def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "backend"

    @pytest.fixture
    async def backend(self, folder: Path) -> AsyncIterator[Backend]:
        opened = await self.open_backend(folder)
        try:
            yield opened
        finally:
            await opened.close()

    @staticmethod
    async def settled(backend: Backend) -> None:
        if isinstance(backend, Settles):
            await backend.settle()

    @staticmethod
    def scope(backend: Backend, **fields: str) -> Scope:
        """A scope that the backend supports: its tenant and bound dimensions, and then ``fields``."""
        values: dict[str, str] = {"tenant": backend.features.tenant}
        values.update({str(dimension): value for dimension, value in backend.features.bound.items()})
        return Scope(**(values | fields))  # type: ignore[arg-type]

    @staticmethod
    def kind(backend: Backend) -> Kind:
        """A kind of memory that the backend stores, preferably a note."""
        kinds = backend.features.kinds
        return "note" if not kinds or "note" in kinds else min(kinds)

    def samples(self, backend: Backend, first: int = 1, **scope: str) -> list[Extracted]:
        return make_samples(self.scope(backend, **scope), self.kind(backend), first)

    async def ask(self, backend: Backend, text: str, limit: int = 100, **scope: str) -> Sequence[Hit]:
        return await self.found(backend, make_query(text, self.scope(backend, **scope), limit))

    async def found(self, backend: Backend, query: Query) -> Sequence[Hit]:
        """The backend's hits. A test of a backend that does not know event ids sets them here."""
        return await backend.search(query)

    def require(self, backend: Backend, port: type) -> None:
        if not isinstance(backend, port):
            pytest.skip(f"{type(backend).__name__} is not {port.__name__}: an optional port")

    def require_durable(self) -> None:
        if not self.durable:
            pytest.skip("this backend keeps nothing beyond its own life")

    # Searching

    async def test_empty_store_answers_with_nothing(self, backend: Backend) -> None:
        """Nothing found is an empty list, not an error."""
        assert list(await self.ask(backend, "anything at all")) == []

    @pytest.mark.feature("… at most `limit` hits", of="the contract suite: what was")
    async def test_at_most_limit_hits(self, backend: Backend) -> None:
        """``limit`` is an upper bound."""
        await self.fill(backend, self.samples(backend))
        everything = " ".join(text for text, _ in SAMPLES)
        for limit in (1, 3, 5, 100):
            assert len(await self.ask(backend, everything, limit)) <= limit

    async def test_quoted_memory_comes_first(self, backend: Backend) -> None:
        """The first hit for a query that quotes a memory is that memory."""
        batch = self.samples(backend)
        await self.fill(backend, batch)
        for extracted in batch:
            hits = await self.ask(backend, extracted.event.text)
            assert hits, f"nothing found for {extracted.event.text!r}"
            assert hits[0].event_id == extracted.event.event_id

    async def test_times_that_a_query_names_filter_nothing(self, backend: Backend) -> None:
        """A backend may add what is of these times; what the words find stays first."""
        batch = self.samples(backend)
        await self.fill(backend, batch)
        event = batch[0].event
        then = datetime(2001, 1, 1, tzinfo=UTC)
        query = make_query(event.text, self.scope(backend))
        hits = await self.found(backend, replace(query, times=(TimeRange(then, then + timedelta(days=1)),), zone="UTC"))
        assert hits[0].event_id == event.event_id

    async def test_best_first(self, backend: Backend) -> None:
        """Scores, if there are any, never increase from hit to hit."""
        await self.fill(backend, self.samples(backend))
        for query in ("Who corrected the bug in Gateway?", "Orchard PostgreSQL Redis Nightingale sessions"):
            scores = [hit.score for hit in await self.ask(backend, query) if hit.score is not None]
            assert scores == sorted(scores, reverse=True)

    async def test_a_hit_has_one_identity(self, backend: Backend) -> None:
        """No native id twice in one answer; ids and texts are non-empty strings."""
        await self.fill(backend, self.samples(backend))
        hits = await self.ask(backend, "Julien Marta Orchard Quentin Gateway")
        ids = [hit.native_id for hit in hits]
        assert len(set(ids)) == len(ids)
        assert all(isinstance(hit.native_id, str) and hit.native_id and hit.text for hit in hits)

    async def test_refs_are_stable(self, backend: Backend) -> None:
        """A memory has the same ids for every query."""
        await self.fill(backend, self.samples(backend))
        by_quote = (await self.ask(backend, SAMPLES[0][0]))[0]
        by_words = {hit.event_id: hit for hit in await self.ask(backend, "Julien timezone bug")}
        assert by_words[by_quote.event_id].native_id == by_quote.native_id

    async def test_refs_survive_reopening(self, folder: Path) -> None:
        """A memory has the same ids after closing and opening again."""
        self.require_durable()
        first = await self.open_backend(folder)
        try:
            await self.fill(first, self.samples(first))
            before = [(hit.native_id, hit.event_id, hit.text) for hit in await self.ask(first, SAMPLES[4][0])]
        finally:
            await first.close()
        second = await self.open_backend(folder)
        try:
            await self.settled(second)
            after = [(hit.native_id, hit.event_id, hit.text) for hit in await self.ask(second, SAMPLES[4][0])]
        finally:
            await second.close()
        assert after[0] == before[0]
        assert sorted(map(str, after)) == sorted(map(str, before))

    @pytest.mark.feature("… a search changes nothing", of="the contract suite: what was")
    async def test_search_changes_nothing(self, backend: Backend) -> None:
        """The same question twice has the same answer, and the contents stay the same."""
        await self.fill(backend, self.samples(backend))
        before = await backend.describe() if isinstance(backend, Describes) else None
        first = list(await self.ask(backend, "Kestrel backups and Lighthouse deploys"))
        second = list(await self.ask(backend, "Kestrel backups and Lighthouse deploys"))
        after = await backend.describe() if isinstance(backend, Describes) else None
        assert first == second
        assert before == after

    async def test_many_searches_at_once(self, backend: Backend) -> None:
        """Many tasks may search at once, each with the answer that it would get alone."""
        batch = self.samples(backend)
        await self.fill(backend, batch)
        answers = await asyncio.gather(*(self.ask(backend, extracted.event.text, 3) for extracted in batch))
        assert [hits[0].event_id for hits in answers] == [extracted.event.event_id for extracted in batch]

    @pytest.mark.parametrize("query", HOSTILE_QUERIES, ids=lambda query: ascii(query[:20]))
    async def test_any_string_is_a_query(self, backend: Backend, query: str) -> None:
        """Operators, quotes, injections, NUL and very long texts are only words to search for."""
        batch = self.samples(backend)[:3]
        await self.fill(backend, batch)
        hits = list(await self.ask(backend, query, 5))
        assert len(hits) <= 5
        assert (await self.ask(backend, batch[0].event.text))[0].event_id == batch[0].event.event_id

    # Scope

    @pytest.mark.row("A120", "A156", "… scopes are honoured, tenants are separate", of="the contract suite: what was")
    @pytest.mark.parametrize("dimension", DIMENSIONS)
    async def test_scope_is_honoured(self, backend: Backend, dimension: Dimension) -> None:
        """A query that names a value finds only items with that value, and none without a value."""
        if dimension not in backend.features.filters:
            pytest.skip(f"it does not filter by {dimension}: the gateway skips it with that reason")
        text, fact = SAMPLES[2]
        mine, theirs = self.scope(backend, **{dimension: "ada"}), self.scope(backend, **{dimension: "ben"})
        nobodys = self.scope(backend)
        events = [make_event(n, text, s, kind=self.kind(backend)) for n, s in enumerate((mine, theirs, nobodys), 1)]
        await self.fill(backend, [make_extracted(event, fact) for event in events])
        seen_by_ada = {hit.event_id for hit in await backend.search(make_query(text, mine))}
        seen_by_ben = {hit.event_id for hit in await backend.search(make_query(text, theirs))}
        seen_by_carl = await backend.search(make_query(text, self.scope(backend, **{dimension: "carl"})))
        seen_by_all = {hit.event_id for hit in await backend.search(make_query(text, nobodys))}
        assert (seen_by_ada, seen_by_ben) == ({event_id(1)}, {event_id(2)})
        assert list(seen_by_carl) == []
        assert seen_by_all == {event_id(1), event_id(2), event_id(3)}

    async def test_query_for_no_user_finds_what_belongs_to_no_user(self, backend: Backend) -> None:
        """And only that, however many memories of users match; an agent's memories without a user are among them."""
        if not backend.features.no_user:
            pytest.skip("it does not search the memories without a user: the gateway skips it with that reason")
        (text, fact), kind = SAMPLES[2], self.kind(backend)
        users = [make_event(n, text, self.scope(backend, user_id="ada"), kind=kind) for n in range(10, 30)]
        nobodys = make_event(1, f"{text} Also pears, plums and quinces.", self.scope(backend), kind=kind)
        agents = make_event(2, f"{text} Also figs.", self.scope(backend, agent_id="main"), kind=kind)
        await self.fill(backend, [make_extracted(event, fact) for event in (*users, nobodys, agents)])
        found = await self.ask(backend, text, 5, user_id=NO_USER)
        assert {hit.event_id for hit in found if hit.event_id} == {event_id(1), event_id(2)}
        assert {hit.scope.user_id for hit in found} == {None}

    async def test_scope_does_not_use_up_the_limit(self, backend: Backend) -> None:
        """The filter applies before the limit: better matches of other users do not displace one's own."""
        if "user_id" not in backend.features.filters:
            pytest.skip("it does not filter by user_id")
        text, fact = SAMPLES[2]
        kind = self.kind(backend)
        theirs = [make_event(n, text, self.scope(backend, user_id="ben"), kind=kind) for n in range(10, 40)]
        mine = make_event(1, f"{text} Also pears, plums and quinces.", self.scope(backend, user_id="ada"), kind=kind)
        await self.fill(backend, [make_extracted(event, fact) for event in (*theirs, mine)])
        assert [hit.event_id for hit in await self.ask(backend, text, 2, user_id="ada")] == [event_id(1)]

    async def test_expired_memories_do_not_use_up_the_limit(self, backend: Backend) -> None:
        """A memory that has ended is no hit: a limit of 2 applies to valid memories."""
        if not self.expires:
            pytest.skip("it does not know until when a memory holds: the gateway filters its hits")
        (text, fact), scope, kind = SAMPLES[2], self.scope(backend), self.kind(backend)
        ended = [
            make_event(n, text, scope, kind=kind, valid_to=NOW - timedelta(days=1) + timedelta(minutes=n))
            for n in range(10, 40)
        ]
        lasting = make_event(1, f"{text} Also pears, plums and quinces.", scope, kind=kind)
        await self.fill(backend, [make_extracted(event, fact) for event in (*ended, lasting)])
        assert [hit.event_id for hit in await self.ask(backend, text, 2)] == [event_id(1)]

    @pytest.mark.feature("a question of a part of the memories: a store that knows it leaves the rest out by itself")
    async def test_what_does_not_fit_the_filter_does_not_use_up_the_limit(self, backend: Backend) -> None:
        """A limit of 2 applies to memories of that time, folder or speaker."""
        if not self.filters:
            pytest.skip("it does not filter: the gateway filters its hits")
        (text, fact), scope, kind = SAMPLES[2], self.scope(backend), self.kind(backend)
        others = [
            make_event(
                n,
                text,
                scope,
                kind=kind,
                at=Moment(NOW - timedelta(days=20)),
                place=Place("letters/all.md", n, n, "line"),
                speaker="Ben",
            )
            for n in range(10, 40)
        ]
        own = make_event(
            1,
            f"{text} Also pears, plums and quinces.",
            scope,
            kind=kind,
            at=Moment(NOW - timedelta(days=1)),
            place=Place("customers/harbour.md", 1, 1, "line"),
            speaker="Ada Ito",
        )
        await self.fill(backend, [make_extracted(event, fact) for event in (*others, own)])
        for where in (
            Where(after=NOW - timedelta(days=2)),
            Where(folder=("Customers",)),
            Where(speaker=("ada",)),
            Where(after=NOW - timedelta(days=2), before=NOW, folder=("customers",), speaker=("Ada Ito",)),
        ):
            found = await self.found(backend, replace(make_query(text, scope, 2), where=where))
            assert [hit.event_id for hit in found if hit.event_id] == [event_id(1)], where
        assert not await self.found(backend, replace(make_query(text, scope), where=Where(folder=("elsewhere",))))

    async def test_tenants_are_apart(self, backend: Backend) -> None:
        """No tenant finds another's memories."""
        if not backend.features.tenants:
            pytest.skip("it serves one tenant: the gateway skips it for the others")
        await self.fill(backend, [*self.samples(backend, tenant="blue"), *self.samples(backend, 101, tenant="red")])
        hits = await self.ask(backend, SAMPLES[1][0], tenant="red")
        assert hits[0].event_id == event_id(102)
        assert {hit.scope.tenant for hit in hits} == {"red"}
        assert list(await self.ask(backend, SAMPLES[1][0], tenant="green")) == []

    async def test_private_items_stay_private(self, backend: Backend) -> None:
        """A group's query does not find private items; a private query finds both."""
        (secret, fact), (public, other) = SAMPLES[5], SAMPLES[6]
        kind = self.kind(backend)
        private = make_event(1, secret, self.scope(backend, audience="private"), kind=kind)
        shared = make_event(2, public, self.scope(backend, audience="group"), kind=kind)
        await self.fill(backend, [make_extracted(private, fact), make_extracted(shared, other)])
        both = f"{secret} {public}"
        assert {hit.event_id for hit in await self.ask(backend, both, audience="group")} == {event_id(2)}
        assert {hit.event_id for hit in await self.ask(backend, both, audience="private")} == {event_id(1), event_id(2)}

    # What comes back

    async def test_hits_echo_their_event(self, backend: Backend) -> None:
        """A hit has its event's id, exact text, scope, speaker, time, place, kind, trust and origin."""
        event = make_event(
            7,
            "Zoë wrote “naïve café” – 東京で会う 👍🏽\n\tthen a second line; cafe\u0301 is not café.",
            self.scope(backend, **dict.fromkeys(sorted(backend.features.filters - set(backend.features.bound)), "ada")),
            kind=self.kind(backend),
            speaker="Zoë Ünal",
            at=Moment(datetime(2025, 12, 24, 18, 30, tzinfo=UTC), "minute", "Asia/Tokyo"),
            place=Place("diary/2025-12", 4, 4, "turn"),
            source="diary",
            trust="trusted",
            origin="agent",
        )
        await self.fill(backend, [make_extracted(event, Fact("Zoë", "wrote", "Café"))])
        hits = await self.found(backend, make_query("Zoë wrote naïve café 東京で会う", event.scope))
        assert [hit.event_id for hit in hits] == [event.event_id]
        assert {name: getattr(hits[0], name) for name in self.echoed} == {
            name: getattr(event, name) for name in self.echoed
        }

    # Remembering and forgetting

    @pytest.mark.feature("the contract suite: what was remembered is found")
    async def test_remember_then_recall(self, backend: Backend) -> None:
        """A stored event is found, and its hit has one of its native ids."""
        self.require(backend, Remembers)
        assert isinstance(backend, Remembers)
        batch = [extracted for extracted in self.samples(backend) if backend.accepts(extracted.event)]
        native = await backend.remember(batch)
        await self.settled(backend)
        assert len(native) == len(batch)
        assert all(ids and all(isinstance(i, str) and i for i in ids) for ids in native)
        for extracted, ids in zip(batch, native, strict=True):
            assert (await self.ask(backend, extracted.event.text))[0].native_id in ids

    async def test_remembering_nothing(self, backend: Backend) -> None:
        """An empty batch has an empty result."""
        self.require(backend, Remembers)
        assert isinstance(backend, Remembers)
        assert list(await backend.remember([])) == []

    async def test_remembering_again_changes_nothing(self, backend: Backend) -> None:
        """A repeated delivery changes nothing: the same native ids, one hit."""
        self.require(backend, Remembers)
        assert isinstance(backend, Remembers)
        batch = self.samples(backend)[:4]
        first = [tuple(ids) for ids in await backend.remember(batch)]
        await self.settled(backend)
        before = list(await self.ask(backend, SAMPLES[0][0]))
        again = [tuple(ids) for ids in await backend.remember(batch[:2])]
        await self.settled(backend)
        assert again == first[:2]
        assert list(await self.ask(backend, SAMPLES[0][0])) == before

    async def test_same_text_twice_is_two_memories(self, backend: Backend) -> None:
        """Two events with equal texts are two memories."""
        self.require(backend, Remembers)
        text, fact = SAMPLES[3]
        events = [make_event(n, text, self.scope(backend), kind=self.kind(backend)) for n in (1, 2)]
        await self.fill(backend, [make_extracted(event, fact) for event in events])
        assert {hit.event_id for hit in await self.ask(backend, text)} == {event_id(1), event_id(2)}

    async def test_remembering_at_once(self, backend: Backend) -> None:
        """Concurrent deliveries are all stored."""
        self.require(backend, Remembers)
        batch = self.samples(backend)
        await asyncio.gather(*(self.fill(backend, [extracted]) for extracted in batch))
        found = [(await self.ask(backend, extracted.event.text))[0].event_id for extracted in batch]
        assert found == [extracted.event.event_id for extracted in batch]

    async def test_remembered_survives_reopening(self, folder: Path) -> None:
        """``remember`` is durable when it returns: closing and opening loses nothing."""
        self.require_durable()
        first = await self.open_backend(folder)
        try:
            self.require(first, Remembers)
            batch = self.samples(first)
            await self.fill(first, batch)
        finally:
            await first.close()
        second = await self.open_backend(folder)
        try:
            await self.settled(second)
            found = [(await self.ask(second, extracted.event.text))[0].event_id for extracted in batch]
        finally:
            await second.close()
        assert found == [extracted.event.event_id for extracted in batch]

    @pytest.mark.feature("… what was forgotten is gone", of="the contract suite: what was")
    async def test_forget_then_gone(self, folder: Path) -> None:
        """A forgotten memory is in no answer, also after reopening; others stay; forgetting it again is ``absent``."""
        backend = await self.open_backend(folder)
        try:
            self.require(backend, Remembers)
            self.require(backend, Forgets)
            assert isinstance(backend, Remembers)
            assert isinstance(backend, Forgets)
            batch = self.samples(backend)
            native = await backend.remember(batch)
            await self.settled(backend)
            victim, kept = batch[8].event, batch[9].event
            assert await backend.forget(victim.event_id, native[8]) == "deleted"
            await self.settled(backend)
            assert victim.event_id not in {hit.event_id for hit in await self.ask(backend, victim.text)}
            assert (await self.ask(backend, kept.text))[0].event_id == kept.event_id
            assert await backend.forget(victim.event_id, native[8]) == "absent"
        finally:
            await backend.close()
        if not self.durable:
            return
        again = await self.open_backend(folder)
        try:
            await self.settled(again)
            assert victim.event_id not in {hit.event_id for hit in await self.ask(again, victim.text)}
            assert (await self.ask(again, kept.text))[0].event_id == kept.event_id
        finally:
            await again.close()

    async def test_forget_all_forgets_each_of_many(self, folder: Path) -> None:
        """Stored memories are ``deleted``, unknown ones ``absent``, and others stay, also after reopening."""
        backend = await self.open_backend(folder)
        try:
            if not isinstance(backend, ForgetsMany):
                pytest.skip("it forgets one at a time")
            batch = self.samples(backend)
            assert isinstance(backend, Remembers)
            native = await backend.remember(batch)
            await self.settled(backend)
            victims = [(extracted.event.event_id, ids) for extracted, ids in zip(batch[6:9], native[6:9], strict=True)]
            asked = [*victims, (event_id(999), [])]
            assert await backend.forget_all(asked) == ["deleted", "deleted", "deleted", "absent"]
            assert await backend.forget_all(asked) == ["absent"] * 4
            await self.settled(backend)
            await self._only_these_are_gone(backend, batch)
        finally:
            await backend.close()
        if self.durable:
            again = await self.open_backend(folder)
            try:
                await self.settled(again)
                await self._only_these_are_gone(again, batch)
            finally:
                await again.close()

    async def _only_these_are_gone(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        gone = {extracted.event.event_id for extracted in batch[6:9]}
        for extracted in batch[6:10]:
            found = [hit.event_id for hit in await self.ask(backend, extracted.event.text)]
            assert gone.isdisjoint(found)
        assert found[0] == batch[9].event.event_id

    async def test_forgetting_what_was_never_there(self, backend: Backend) -> None:
        """An unknown event is ``absent``, and nothing is lost."""
        self.require(backend, Forgets)
        assert isinstance(backend, Forgets)
        await self.fill(backend, self.samples(backend))
        assert await backend.forget(event_id(999), []) == "absent"
        assert (await self.ask(backend, SAMPLES[0][0]))[0].event_id == event_id(1)

    async def test_forgotten_may_be_remembered_again(self, backend: Backend) -> None:
        """A forgotten memory that is stored again is found again."""
        self.require(backend, Remembers)
        self.require(backend, Forgets)
        assert isinstance(backend, Remembers)
        assert isinstance(backend, Forgets)
        batch = self.samples(backend)
        native = await backend.remember(batch)
        await backend.forget(batch[1].event.event_id, native[1])
        await self.fill(backend, [batch[1]])
        assert (await self.ask(backend, batch[1].event.text))[0].event_id == batch[1].event.event_id

    # Optional ports

    async def test_neighbours_are_around_the_hit(self, backend: Backend) -> None:
        """For each hit, up to ``span`` hits before and after it in its document, in order, without it."""
        self.require(backend, FindsNeighbours)
        assert isinstance(backend, FindsNeighbours)
        kind = self.kind(backend)
        await self.fill(
            backend,
            [
                make_extracted(make_event(n, text, self.scope(backend), kind=kind, place=Place("talk", n, n)), fact)
                for n, (text, fact) in enumerate(SAMPLES, start=1)
            ],
        )
        hit = (await self.ask(backend, SAMPLES[5][0]))[0]
        around = await backend.neighbours([hit, hit], 2)
        if not any(around):
            pytest.skip("it knows no order among these events")
        assert [[near.event_id for near in nears] for nears in around] == [[event_id(n) for n in (4, 5, 7, 8)]] * 2
        assert await backend.neighbours([], 2) == []

    async def test_use_may_be_reported(self, backend: Backend) -> None:
        """``used`` accepts known and unknown ids, and the memories are still found."""
        self.require(backend, TracksUse)
        assert isinstance(backend, TracksUse)
        await self.fill(backend, self.samples(backend))
        hit = (await self.ask(backend, SAMPLES[0][0]))[0]
        await backend.used([hit.native_id, "unknown"], NOW)
        assert (await self.ask(backend, SAMPLES[0][0]))[0].native_id == hit.native_id

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """An empty backend has no items, a filled one has some, and nothing is pending after settling."""
        self.require(backend, Describes)
        assert isinstance(backend, Describes)
        assert (await backend.describe()).items == 0
        await self.fill(backend, self.samples(backend))
        description = await backend.describe()
        assert description.items > 0
        assert description.vectors_pending == 0

    async def test_close_is_idempotent(self, backend: Backend) -> None:
        """``close`` may be called twice, also after work."""
        await self.ask(backend, "anything")
        assert await asyncio.gather(backend.close(), return_exceptions=True) == [None]
        assert await asyncio.gather(backend.close(), return_exceptions=True) == [None]


class RemoteBackendContract(BackendContract):
    """The additional tests of a backend that uses a server."""

    @abstractmethod
    async def open_at(self, folder: Path, url: str) -> Backend:
        """Open the backend with its server's ``url``; opening must not need a running server."""

    async def test_refused_connection_is_unreachable(self, folder: Path) -> None:
        """A refused connection is ``BackendUnreachable``."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound, never listening: the port stays ours, and refuses
            backend = await self.open_at(folder, f"http://127.0.0.1:{taken.getsockname()[1]}")
            try:
                with pytest.raises(BackendUnreachable):
                    await self.ask(backend, "anything")
            finally:
                await backend.close()

    @pytest.mark.feature("… a wrong reply is a named error", of="the contract suite: what was")
    @pytest.mark.parametrize(
        "body", [b"<html>It works!</html>", b'{"hits": [{"native_id": "1", "te', b"[[1]]", b'"hits"', b"", b"\xff\xfe"]
    )
    async def test_wrong_reply_is_an_invalid_answer(self, folder: Path, body: bytes) -> None:
        """HTML, a cut or empty body, JSON of another shape: ``InvalidAnswer``, never another error."""

        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # Closing with unread bytes would reset the connection before its reply is read.
            asked = await reader.readuntil(b"\r\n\r\n")
            if length := re.search(rb"(?i)content-length: *(\d+)", asked):
                await reader.readexactly(int(length[1]))
            head = (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            )
            writer.write(head % len(body) + body)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        try:
            backend = await self.open_at(folder, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            try:
                with pytest.raises(InvalidAnswer):
                    await self.ask(backend, "anything")
            finally:
                await backend.close()
        finally:
            server.close()
