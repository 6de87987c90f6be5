"""What a session was shown: in memory for its next question, and in the journal for the next start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fusion.contract import Asker, Scope
from fusion.errors import StoreFull
from fusion.journal import Journal, sessions
from fusion.journal.sessions import MAX_SESSIONS, MAX_SHOWN, AskingSessions, Session, SessionKey

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
