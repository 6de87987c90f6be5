"""The sessions that ask: what was shown in the last turns of each, so that it is not shown again.

A session's state is changed in memory, so that its next question sees it at once, and written in the background. The
table is bounded in sessions, in what a session keeps, and in age.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import orjson

from fusion.contract import Asker, Scope
from fusion.errors import FusionError
from fusion.lib.background_writer import BackgroundWriter
from fusion.store.database import Connection, replacing
from fusion.store.rows import microseconds, storable, time_of

log = logging.getLogger(__name__)

SCHEMA = """
create table asking_session(
    tenant text not null, user_id text not null, agent_id text not null, session_id text not null,
    turn integer not null, shown text not null, at integer not null,
    primary key(tenant, user_id, agent_id, session_id)
) without rowid;
create index asking_session_at on asking_session(at);
"""
"""``shown`` is JSON: by key of a memory, the last turn in which it was shown"""
INJECTED = "alter table asking_session add column injected integer not null default 0"
BEGAN = "alter table asking_session add column began integer"

MAX_SESSIONS = 1000
"""maximum sessions that are kept; with 1,000 keys each, 25 MB"""
MAX_SHOWN = 1000
"""maximum keys that a session keeps, those of its last turns"""
KEPT_DAYS = 7
"""maximum age of a session since its last question"""


class SessionKey(NamedTuple):
    """What identifies a session: whose memories it reads, and which agent it is of. A part that is not named is ""."""

    tenant: str
    user_id: str
    agent_id: str
    session_id: str

    @classmethod
    def of(cls, scope: Scope, asker: Asker | None) -> SessionKey | None:
        """The key of the session that asks; None if none is named."""
        if asker is None or asker.session_id is None:
            return None
        named = (scope.user_id or "", asker.agent_id or "", asker.session_id)
        return cls(scope.tenant, *(storable(name) for name in named))


@dataclass(slots=True)
class Session:
    """The number of a session's last turn, and by key of a memory the last turn in which it was shown.

    ``injected`` is how many memories that turn's block had, ``asked_at`` when it was. ``began`` is when its context
    last began anew; None: it has all of the session.
    """

    turn: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    injected: int = 0
    asked_at: datetime | None = None
    began: datetime | None = None

    def within(self, turns: int) -> frozenset[str]:
        """The keys of what was shown in the last ``turns`` turns."""
        return frozenset(key for key, turn in self.shown.items() if turn > self.turn - turns)

    def take_turn(self, shown: Iterable[str], injected: int = 0, now: datetime | None = None) -> None:
        """Count a turn in which these memories were shown, so many in all."""
        self.turn += 1
        self.injected, self.asked_at = injected, now
        for key in shown:
            self.shown.pop(key, None)  # so that the order is that of the turns
            self.shown[key] = self.turn
        while len(self.shown) > MAX_SHOWN:
            del self.shown[next(iter(self.shown))]


class AskingSessions(BackgroundWriter):
    """The sessions of one home that asked lately; ``read`` and ``keep`` are `stored` and `store` over its journal.

    What ``keep`` fails to write is written with the next turn of its session. With a ``shared`` journal another gateway
    may have answered the session's last question: its state is read for each question, and `written` before the answer.
    """

    LINGER_S = 0.25

    def __init__(
        self,
        read: Callable[[SessionKey], Awaitable[Session | None]],
        keep: Callable[[Sequence[tuple[SessionKey, Session]]], Awaitable[None]],
        *,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self._read, self._keep, self._shared = read, keep, shared
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._changed: dict[SessionKey, Session] = {}

    async def of(
        self, scope: Scope, asker: Asker | None, now: datetime | None = None
    ) -> tuple[SessionKey, Session] | None:
        """The session that asks and its state, of which nothing is left if its context begins anew, ``now``.

        None if none is named.
        """
        key = SessionKey.of(scope, asker)
        if key is None or asker is None:
            return None
        if self._shared:
            if key in self._changed:
                await self.flush()
            self._sessions[key] = await self._stored(key)
        elif key not in self._sessions:
            stored = await self._stored(key)
            self._sessions.setdefault(key, stored)  # another question of the session may have read it first
        session = self._sessions[key]
        self._sessions.move_to_end(key)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        if asker.new_context:
            session.shown.clear()
            session.began = now or session.began
            self._change(key, session)
        return key, session

    async def _stored(self, key: SessionKey) -> Session:
        if key in self._changed:
            return self._changed[key]
        try:
            return await self._read(key) or Session()
        except FusionError as error:
            log.warning("what a session was shown could not be read: %s", error)
            return Session()

    def take_turn(
        self, key: SessionKey, session: Session, shown: Iterable[str], injected: int = 0, now: datetime | None = None
    ) -> None:
        """Count a turn of a session in which these memories were shown; returns at once."""
        session.take_turn(shown, injected, now)
        self._change(key, session)

    async def written(self) -> None:
        """Return once the other gateways of a shared journal can read what was changed."""
        if self._shared:
            await self.flush()

    def _change(self, key: SessionKey, session: Session) -> None:
        self._changed[key] = session
        self._write_soon()

    async def _write_waiting(self) -> None:
        changed, self._changed = self._changed, {}
        if changed:
            try:
                await self._keep([*changed.items()])
            except FusionError as error:
                log.warning("what a session was shown could not be stored: %s", error)


def stored(db: Connection, key: SessionKey) -> Session | None:
    """The stored state of a session."""
    row = db.execute(
        "select turn, shown, injected, at, began from asking_session "
        "where tenant = ? and user_id = ? and agent_id = ? and session_id = ?",
        key,
    ).fetchone()
    if row is None:
        return None
    began = None if row["began"] is None else time_of(row["began"])
    return Session(row["turn"], orjson.loads(row["shown"]), row["injected"], time_of(row["at"]), began)


_STORE = replacing("asking_session", "tenant, user_id, agent_id, session_id", "turn, shown, at, injected, began")


def store(db: Connection, sessions: Sequence[tuple[SessionKey, Session]], now: datetime) -> None:
    """Store the state of sessions, and delete the oldest."""
    at = microseconds(now)
    rows = [
        (*key, one.turn, orjson.dumps(one.shown).decode(), at, one.injected, one.began and microseconds(one.began))
        for key, one in sessions
    ]
    db.executemany(_STORE, rows)
    db.execute("delete from asking_session where at < ?", (microseconds(now - timedelta(days=KEPT_DAYS)),))
    db.execute(
        "delete from asking_session where at < (select at from asking_session order by at desc limit 1 offset ?)",
        (MAX_SESSIONS - 1,),
    )
