"""The sessions that ask: what was shown in the last turns of each, so that it is not shown again.

A session's state is changed in memory, so that its next question sees it at once, and written in the background. The
table is bounded in sessions, in what a session keeps, and in age.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
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
    last began anew; None: it has all of the session. ``known`` is the last turn that the journal had when the session
    was read, or was written since; None if no other gateway writes it. ``anew`` is how often its context began anew
    since.
    """

    turn: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    injected: int = 0
    asked_at: datetime | None = None
    began: datetime | None = None
    known: int | None = field(default=None, compare=False)
    anew: int = field(default=0, compare=False)

    def within(self, turns: int) -> frozenset[str]:
        """The keys of what was shown in the last ``turns`` turns."""
        return frozenset(key for key, turn in self.shown.items() if turn > self.turn - turns)

    def take_turn(self, shown: Iterable[str], injected: int = 0, now: datetime | None = None) -> None:
        """Count a turn in which these memories were shown, so many in all."""
        self.turn += 1
        self.injected, self.asked_at = injected, now
        self._show(shown, self.turn)

    def begin_anew(self, now: datetime | None) -> None:
        """The asker's context has nothing of the session any longer."""
        self.shown.clear()
        self.began = now or self.began
        self.anew += 1

    def copy(self) -> Session:
        """The session as it is now, to be written."""
        return replace(self, shown=dict(self.shown))

    def was_written(self, copy: Session) -> None:
        """Note that the journal has what the session was; it may have changed since."""
        if self.known is not None:
            self.known = copy.turn
        self.anew -= copy.anew

    def merged_with(self, stored: Session) -> Session:
        """This session after the turns that other gateways have stored since it was read.

        Its own turns follow theirs, so that each counts. If its context began anew, what they showed is not in it.
        """
        known = self.turn if self.known is None else self.known
        others = max(stored.turn - known, 0)
        began, shown = (self.began, {}) if self.anew else (stored.began, dict(stored.shown))
        injected = stored.injected if self.turn == known else self.injected
        merged = replace(self, turn=self.turn + others, shown=shown, injected=injected, began=began)
        for turn in range(known + 1, self.turn + 1):
            merged._show((key for key, last in self.shown.items() if last == turn), turn + others)
        return merged

    def _show(self, keys: Iterable[str], turn: int) -> None:
        for key in keys:
            self.shown.pop(key, None)  # so that the order is that of the turns
            self.shown[key] = turn
        while len(self.shown) > MAX_SHOWN:
            del self.shown[next(iter(self.shown))]


class AskingSessions(BackgroundWriter):
    """The sessions of one home that asked lately; ``read`` and ``keep`` are `stored` and `store` over its journal.

    What ``keep`` fails to write is written with the next turn of its session. With a ``shared`` journal another gateway
    may have answered the session's last question: its state is read for each question, and `written` before the answer.
    Two of its questions at once each have a state of their own, which `store` brings together.
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
        self._changed: dict[SessionKey, list[Session]] = {}

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
            session.begin_anew(now)
            self._change(key, session)
        return key, session

    async def _stored(self, key: SessionKey) -> Session:
        if key in self._changed:
            return self._changed[key][-1]
        try:
            session = await self._read(key) or Session()
        except FusionError as error:
            log.warning("what a session was shown could not be read: %s", error)
            session = Session()
        session.known = session.turn if self._shared else None
        return session

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
        waiting = self._changed.setdefault(key, [])
        if not any(one is session for one in waiting):
            waiting.append(session)
        self._write_soon()

    async def _write_waiting(self) -> None:
        changed, self._changed = self._changed, {}
        if changed:
            writing = [(key, one, one.copy()) for key, waiting in changed.items() for one in waiting]
            try:
                await self._keep([(key, copy) for key, _, copy in writing])
            except FusionError as error:
                log.warning("what a session was shown could not be stored: %s", error)
                return
            for _, one, copy in writing:
                one.was_written(copy)


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
    """Store the state of sessions, with what other gateways have stored since it was read, and delete the oldest."""
    at = microseconds(now)
    for key, session in sessions:
        before = None if session.known is None else stored(db, key)
        one = session if before is None else session.merged_with(before)
        began = one.began and microseconds(one.began)
        db.execute(_STORE, (*key, one.turn, orjson.dumps(one.shown).decode(), at, one.injected, began))
    db.execute("delete from asking_session where at < ?", (microseconds(now - timedelta(days=KEPT_DAYS)),))
    db.execute(
        "delete from asking_session where at < (select at from asking_session order by at desc limit 1 offset ?)",
        (MAX_SESSIONS - 1,),
    )
