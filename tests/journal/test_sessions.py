"""What a session was shown: in memory for its next question, and in the journal for the next start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusion.contract import Asker, Scope
from fusion.errors import StoreBusy, StoreFull
from fusion.journal import Journal, sessions
from fusion.journal.sessions import MAX_SESSIONS, MAX_SHOWN, AskingSessions, Session, SessionKey
from tests.journal.conftest import Journals

if TYPE_CHECKING:
    from fusion.store.postgres import Server

ADA = Scope(user_id="ada")
ASKER = Asker(session_id="s1")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Shelf:
    """Keeps sessions in a dictionary and counts its writes; refuses while ``full``."""

    def __init__(self) -> None:
        self.kept: dict[SessionKey, Session] = {}
        self.writes = 0
        self.full = False

    async def read(self, key: SessionKey) -> Session | None:
        return self.kept.get(key)

    async def keep(self, changed: Sequence[tuple[SessionKey, Session]]) -> None:
        if self.full:
            raise StoreFull("no space")
        self.writes += 1
        self.kept.update((key, replace(session, shown=dict(session.shown))) for key, session in changed)

    def sessions(self) -> AskingSessions:
        return AskingSessions(self.read, self.keep)


def key(session_id: str = "s1", agent_id: str | None = None, user_id: str | None = "ada") -> SessionKey:
    found = SessionKey.of(Scope(user_id=user_id), Asker(agent_id, session_id))
    assert found is not None
    return found


def test_session_window_counts_turns() -> None:
    """What was shown in the last two turns; a turn without a memory counts, too."""
    session = Session()
    session.take_turn(["m1"])
    session.take_turn([])
    assert session.within(1) == frozenset()
    assert session.within(2) == {"m1"}
    assert session.within(0) == frozenset()
    session.take_turn(["m2"])
    assert session.within(2) == {"m2"}
    session.take_turn(["m1"])
    assert (session.within(2), session.within(1)) == ({"m1", "m2"}, {"m1"})


def test_session_keeps_a_bounded_number_of_keys() -> None:
    """The oldest go first, also where one was shown again since."""
    session = Session()
    session.take_turn(["m0", "m1"])
    session.take_turn(["m0"])
    session.take_turn([f"n{i}" for i in range(MAX_SHOWN - 1)])
    assert len(session.shown) == MAX_SHOWN
    assert "m0" in session.shown
    assert "m1" not in session.shown


def test_asker_without_a_session_has_none() -> None:
    assert SessionKey.of(ADA, None) is None
    assert SessionKey.of(ADA, Asker("coder")) is None
    assert key("s\ud800") == key("s?")


async def test_session_is_seen_at_once_and_written_later() -> None:
    """Two turns, one write; each user and agent has sessions of its own."""
    shelf = Shelf()
    asking = shelf.sessions()
    for ref in ("m1", "m2"):
        found = await asking.of(ADA, ASKER)
        assert found is not None
        asking.take_turn(*found, [ref])
    again = await asking.of(ADA, ASKER)
    assert again is not None
    assert again[1].within(2) == {"m1", "m2"}
    assert shelf.writes == 0
    for scope, asker in ((Scope(user_id="bo"), ASKER), (ADA, Asker("coder", "s1")), (ADA, Asker(session_id="s2"))):
        other = await asking.of(scope, asker)
        assert other is not None
        assert other[1] == Session()
    await asking.close()
    assert (shelf.writes, shelf.kept[key()].turn) == (1, 2)
    reopened = await shelf.sessions().of(ADA, ASKER)
    assert reopened is not None
    assert reopened[1].within(2) == {"m1", "m2"}


async def test_session_with_a_new_context_was_shown_nothing() -> None:
    """From then on, also after the next start."""
    shelf = Shelf()
    asking = shelf.sessions()
    found = await asking.of(ADA, ASKER)
    assert found is not None
    asking.take_turn(*found, ["m1"])
    again = await asking.of(ADA, replace(ASKER, new_context=True))
    assert again is not None
    assert again[1].within(9) == frozenset()
    await asking.close()
    assert shelf.kept[key()].shown == {}


async def test_session_survives_a_journal_that_cannot_be_written() -> None:
    """It is written with its next turn."""
    shelf = Shelf()
    shelf.full = True
    asking = shelf.sessions()
    for n in (1, 2):
        found = await asking.of(ADA, ASKER)
        assert found is not None
        asking.take_turn(*found, [f"m{n}"])
        await asking.flush()
        shelf.full = False
    assert shelf.kept[key()].shown == {"m1": 1, "m2": 2}
    await asking.close()


@pytest.fixture
async def pair(
    journal_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[SharedSessions, SharedSessions]]:
    """The sessions of two gateways that share a journal; they write when a test says so."""
    monkeypatch.setattr(AskingSessions, "LINGER_S", 3600.0)
    journals = Journals(tmp_path, journal_server)
    both = SharedSessions(await journals.open()), SharedSessions(await journals.open())
    yield both
    for one in both:
        await one.close()
    await journals.close()


class SharedSessions(AskingSessions):
    """Of a journal that others share, and that refuses one write while ``is_busy``."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(partial(journal.read, sessions.stored), self._store, shared=True)
        self._journal = journal
        self.is_busy = False

    async def _store(self, changed: Sequence[tuple[SessionKey, Session]]) -> None:
        if self.is_busy:
            self.is_busy = False
            raise StoreBusy("another gateway is writing")
        await self._journal.write(sessions.store, changed, NOW)


async def ask(at: AskingSessions, *, anew: bool = False, now: datetime | None = None) -> tuple[SessionKey, Session]:
    found = await at.of(ADA, replace(ASKER, new_context=anew), now)
    assert found is not None
    return found


@pytest.mark.feature("two questions of one session at once, at two gateways, both count as turns")
@pytest.mark.parametrize("places", [(0, 1), (0, 0)])
async def test_two_questions_of_a_session_at_once_are_two_turns(
    pair: tuple[AskingSessions, AskingSessions], places: tuple[int, int]
) -> None:
    """At two gateways, or at one; the session had a turn before."""
    first, second = (pair[place] for place in places)
    first.take_turn(*await ask(first), ["m0"])
    await first.written()
    one, two = await ask(first), await ask(second)
    first.take_turn(*one, ["m1"], 1)
    second.take_turn(*two, ["m2", "m0"], 2)
    await first.written()
    await second.written()
    for at in pair:
        _, session = await ask(at)
        assert (session.turn, session.injected) == (3, 2)
        assert session.shown == {"m1": 2, "m2": 3, "m0": 3}
    first.take_turn(*await ask(first), [])
    await first.written()
    assert (await ask(second))[1].turn == 4


async def test_a_context_that_begins_anew_at_one_gateway_drops_what_another_one_showed(
    pair: tuple[SharedSessions, SharedSessions],
) -> None:
    """Also what it showed at the same time: it is shown again rather than left out."""
    first, second = pair
    one = await ask(first)
    two = await ask(second, anew=True, now=NOW)
    first.take_turn(*one, ["m1"])
    await first.written()
    await second.flush()
    second.take_turn(*two, ["m2"])
    await second.written()
    _, session = await ask(first)
    assert (session.turn, session.shown, session.began) == (2, {"m2": 2}, NOW)
    first.take_turn(*await ask(first), ["m3"])
    await first.written()
    second.take_turn(*two, ["m4"])  # it began anew before that, and not since
    await second.written()
    assert (await ask(first))[1].shown == {"m2": 2, "m3": 3, "m4": 4}


async def test_what_could_not_be_stored_is_stored_with_the_next_turn(
    pair: tuple[SharedSessions, SharedSessions],
) -> None:
    """That its context began anew, and a turn: the next write of the same question has both."""
    first, second = pair
    first.take_turn(*await ask(first), ["m1"])
    await first.written()
    asked = await ask(first, anew=True, now=NOW)
    first.is_busy = True
    await first.flush()
    first.take_turn(*asked, ["m2"])
    first.is_busy = True
    await first.written()
    first.take_turn(*asked, ["m3"])
    await first.written()
    _, session = await ask(second)
    assert (session.turn, session.shown, session.began) == (3, {"m2": 2, "m3": 3}, NOW)


@pytest.mark.feature("what a session was shown is kept for a week, of at most 1,000 sessions")
async def test_journal_keeps_a_bounded_number_of_sessions(journal: Journal) -> None:
    """The youngest of them; a session in another tenant is another one."""
    for n in range(3):
        at = NOW + timedelta(minutes=n)
        await journal.write(sessions.store, [(key(f"s{n}"), Session(n, {"m1": n}, injected=n))], at)
    assert await journal.read(sessions.stored, key("s2")) == Session(2, {"m1": 2}, 2, NOW + timedelta(minutes=2))
    assert await journal.read(sessions.stored, key("s2")._replace(tenant="acme")) is None
    many = [(key(f"t{n}"), Session()) for n in range(MAX_SESSIONS - 1)]
    await journal.write(sessions.store, many, NOW + timedelta(hours=1))
    assert await journal.read(sessions.stored, key("s1")) is None
    assert await journal.read(sessions.stored, key("s2")) is not None
    await journal.write(sessions.store, [(key("u"), Session())], NOW + timedelta(days=7, minutes=3))
    assert await journal.read(sessions.stored, key("s2")) is None
    assert await journal.read(sessions.stored, key("t1")) is not None
