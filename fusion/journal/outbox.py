"""The outbox: one row per backend and event, with the state of the delivery and the backend's native ids.

A row is written in the transaction that stores the event, so nothing is acknowledged that is not listed here. Its state
is ``pending``, then ``done``, ``declined`` or ``failed``. When its event is deleted the state is ``forget``, and then
what the backend did (`fusion.contract.Forgotten`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from fusion.contract import NEW, Event, Forgotten, Scope, State
from fusion.errors import FusionError
from fusion.journal.rows import BORN_FORGOTTEN, LIVE, delivered_event, row_of, state_of
from fusion.lib.ids import parse_short_ref
from fusion.store.database import VALUES, Connection, Database, Row, listed
from fusion.store.rows import microseconds, time_of
from fusion.store.sqlite import read_only

GivenUp = Literal["declined", "failed"]


@dataclass(frozen=True, slots=True)
class Due:
    """An open delivery or deletion of one backend."""

    seq: int
    event: Event
    attempts: int
    native_ids: tuple[str, ...] = ()
    state: State = NEW


@dataclass(frozen=True, slots=True)
class DueState:
    """A state that one backend has to store. ``decision`` is the last one that changed it.

    If it is sent once more because an older one may have reached the backend last, it is a number that no decision has.
    """

    seq: int
    event_id: str
    state: State
    decision: int


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Counts for one backend: ``waiting`` deliveries, those ``refused`` at least once, and those given up."""

    waiting: int = 0
    refused: int = 0
    failed: int = 0
    reason: str = ""
    """the error of one that was refused or failed"""

    def trouble(self) -> dict[str, Any]:
        """The counts that need attention, as `status` shows them."""
        return {"refused": self.refused, "failed": self.failed, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ClaimsOfOthers:
    """Whether deliveries claimed by other gateways are open: ``held`` under a lease, or ``ended`` with it."""

    held: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class Holding:
    """How many of the journal's events one backend holds: at least ``least`` and at most ``most``.

    They differ while deliveries and deletions are open. External items that were deleted count negatively.
    """

    least: int = 0
    most: int = 0


LONGEST_WAIT = timedelta(hours=3)
"""more than any delivery waits for its next try: one that is due later was postponed by a clock that went back since,
and is due now"""


LEASE_S = 30.0
"""seconds for which a gateway claims deliveries of a shared journal; it renews them while the backend works"""
REDELIVERED = 10_000
"""deliveries of a shared journal that are made due again at a time: other gateways wait for it"""
POLL_S = 5.0
"""seconds after which a gateway looks for deliveries that another one has left"""
MAX_MADE, MAX_MADE_CHARS = 2_000, 4_000_000
"""events in memory, so that each is made once and not once for each store"""
_OF_DELIVERY = ("d.attempts", "d.native_ids")
"""the columns of a delivery that are read behind those of its event"""
_LEASE = f"clock_us() + {int(LEASE_S * 1_000_000)}"


class Outbox:
    """The deliveries of one journal. ``stores`` are the backends that every new event is delivered to.

    Gateways that share a journal claim deliveries and deletions before they begin them, by the database's clock. What
    a gateway has claimed that died is due to the others once its lease ends. A gateway whose lease ended marks nothing
    as delivered; what it has stored may have to be deleted, so that is noted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.stores: tuple[str, ...] = ()
        self._owner = secrets.token_hex(8)
        self._made: dict[int, tuple[tuple[Any, ...], Event]] = {}
        """by number, the events made last, and the rows that they were made of"""
        self._made_chars = 0
        self._entered = 0
        """the number up to which events have a row for each of ``stores``, in a shared journal"""
        shared = database.shared
        self._mine = f" and claimed_by = '{self._owner}'" if shared else ""
        """the condition on a delivery that this gateway may mark"""
        self._release = ", claimed_by = '', claimed_until = 0" if shared else ""
        self._free = f" and (claimed_by in ('', '{self._owner}') or claimed_until <= clock_us())" if shared else ""
        """the condition on a delivery that no other gateway is making"""

    @property
    def poll_s(self) -> float | None:
        """Seconds after which to look for deliveries of others; None if there are no others."""
        return POLL_S if self._database.shared else None

    async def register(self, stores: Sequence[str]) -> None:
        """Deliver events to ``stores`` from now on. Events that they have not received become due.

        So do deliveries that were given up: a newer version of the program may succeed. What other gateways left out
        before is entered later: that looks at every event, and a tenant is opened for a caller who waits.
        """
        self.stores = tuple(stores)
        names = [(name,) for name in stores]

        def work(db: Connection) -> None:
            db.executemany(
                # A known store has a row for every event up to its last one.
                f"insert into delivery(seq, backend) select seq, ?1 from event where {LIVE} "
                # Events that were made to forget external items are not part of that sequence.
                "and seq > coalesce((select d.seq from delivery d join event e using(seq) where d.backend = ?1 "
                f"and (e.natural is null or e.natural not like '[\"{BORN_FORGOTTEN}\"%') "
                "order by d.seq desc limit 1), 0)",
                names,
            )
            db.executemany(
                "update delivery indexed by delivery_failed set state = 'pending', attempts = 0, next_at = 0 "
                "where backend = ? and state = 'failed'",
                names,
            )

        await self._database.write(work)
        self.look_at_all_events()

    def look_at_all_events(self) -> None:
        """Let `enter_left_out` begin with the first event again."""
        self._entered = 0

    async def enter_left_out(self) -> None:
        """Enter the deliveries to ``stores`` that other gateways left out of a shared journal.

        A gateway enters those to its own stores. It lacks a store that was added to the settings after its start, or
        that it could not open.
        """
        if not self._database.shared or not self.stores:
            return
        # By `not exists`, PostgreSQL reads all deliveries of the backend for each event while it lacks statistics.
        lacking = (
            f"select seq from event where seq > ? and seq <= ? and {LIVE} "
            "except select seq from delivery where backend = ? and seq > ? and seq <= ?"
        )

        def look(db: Connection) -> tuple[int, list[tuple[str, list[int]]]]:
            (last,) = db.execute("select coalesce(max(seq), 0) from event").fetchone() or (0,)
            if last <= self._entered:
                return last, []
            new = self._entered, last
            found = [(name, db.execute(lacking, (*new, name, *new)).fetchall()) for name in self.stores]
            return last, [(name, [row["seq"] for row in rows]) for name, rows in found if rows]

        last, left_out = await self._database.read(look)
        if left_out:
            enter = (
                f"insert into delivery(seq, backend) select seq, ? from event where {LIVE} and seq in {VALUES} "
                "on conflict(backend, seq) do nothing"
            )
            await self._database.execute_many(enter, [(name, json.dumps(seqs)) for name, seqs in left_out])
        self._entered = last

    async def has_delivered(self, backend: str) -> bool:
        """Whether anything was delivered to ``backend``."""
        done = "select 1 from delivery where backend = ? and state = 'done' limit 1"
        return bool(await self._database.rows(done, (backend,)))

    async def redeliver(self, stores: Sequence[str]) -> None:
        """Make every live event due again for ``stores``, which have lost what they held.

        Open deletions stay due, since a backend may keep data outside the folder that is gone. In a shared journal it
        is done in portions, as other gateways wait for each; one that is interrupted leaves the rest to the next look.
        """
        again = (
            "update delivery set state = 'pending', native_ids = '[]', attempts = 0, next_at = 0, sent = 1, "
            f"reason = null where backend = ? and seq in (select seq from event where {LIVE})"
        )
        if not self._database.shared:
            await self._database.execute_many(again, [(name,) for name in stores])
            return
        ((last,),) = [tuple(row) for row in await self._database.rows("select coalesce(max(seq), 0) from delivery")]
        portions = [(name, low, low + REDELIVERED) for name in stores for low in range(0, last, REDELIVERED)]
        for portion in portions:
            await self._database.execute_many(f"{again} and seq > ? and seq <= ?", [portion])

    async def due(self, backend: str, now: datetime, limit: int, *, urgent: bool = False) -> Sequence[Due]:
        """The deliveries to ``backend`` that are due by ``now``, oldest first; with ``urgent`` only urgent ones."""
        return await self._open(backend, "pending", now, limit, "and d.urgent = 1" if urgent else "")

    async def claim(self, backend: str, seqs: Sequence[int], state: str, *, sent: bool = False) -> set[int]:
        """Claim deliveries, or deletions, that are still in this state and that no other gateway is making.

        With ``sent`` they are marked as begun. Rows that a transaction of another gateway holds are passed over; only
        if it holds all of them does this wait for it, as it may be about to change their state.
        """
        if not self._database.shared:
            return set(seqs)
        claimable = f"where backend = ? and state = ? and seq in {VALUES}{self._free}"
        which = backend, state, *listed(seqs)
        # Two statements: for one, PostgreSQL may read all deliveries of the backend to join them with those locked.
        lock = f"select seq from delivery {claimable} for update skip locked"
        mark = (
            f"update delivery set claimed_by = ?, claimed_until = {_LEASE}{', sent = 1' if sent else ''} "
            f"where backend = ? and seq in {VALUES}"
        )

        def claim(db: Connection) -> set[int]:
            locked = {row["seq"] for row in db.execute(lock, which)}
            if locked:
                db.execute(mark, (self._owner, backend, *listed(sorted(locked))))
            return locked

        found = await self._database.write_unqueued(claim)
        if found or not await self._database.rows(f"select 1 from delivery {claimable} limit 1", which):
            return found  # what is missing was claimed by another gateway, or is due again in the next round
        return await self._database.write(claim)

    async def unclaimed(self, backends: Sequence[str]) -> Sequence[str]:
        """Those of these backends that have an open delivery or deletion that no gateway is making."""
        one = f"select 1 from delivery where backend = ? and state in ('pending', 'forget'){self._free} limit 1"
        return await self._database.read(lambda db: [name for name in backends if db.execute(one, (name,)).fetchone()])

    async def claims_of_others(self) -> ClaimsOfOthers:
        """What other gateways have claimed and not marked as delivered."""
        if not self._database.shared:
            return ClaimsOfOthers(held=False, ended=False)
        (row,) = await self._database.rows(
            "select count(case when claimed_until > clock_us() then 1 end) as held, "
            "count(case when claimed_until <= clock_us() then 1 end) as ended from delivery "
            "where state in ('pending', 'forget') and claimed_by not in ('', ?)",
            (self._owner,),
        )
        return ClaimsOfOthers(held=row["held"] > 0, ended=row["ended"] > 0)

    @asynccontextmanager
    async def renewing(self, backend: str) -> AsyncIterator[None]:
        """Renew this gateway's claims on deliveries to ``backend`` until the end of the block."""
        if not self._database.shared:
            yield
            return
        renewal = asyncio.create_task(self._renew(backend), name=f"renew claims of {backend}")
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)

    async def _renew(self, backend: str) -> None:
        # Of rows that another transaction holds, the claim is renewed the next time.
        lock = f"select seq from delivery where backend = ? and {_OPEN}{self._mine} for update skip locked"
        mark = f"update delivery set claimed_until = {_LEASE} where backend = ? and seq in {VALUES}"

        def renew(db: Connection) -> None:
            db.execute(mark, (backend, *listed(row["seq"] for row in db.execute(lock, (backend,)).fetchall())))

        while True:
            await asyncio.sleep(LEASE_S / 3)
            with suppress(FusionError):  # the next renewal, or the mark, will tell
                await self._database.write_unqueued(renew)

    async def mark_sent(self, backend: str, seqs: Sequence[int]) -> set[int]:
        """Mark deliveries as begun; returns those of ``seqs`` that are still pending, and claimed if others share."""
        if self._database.shared:
            return await self.claim(backend, seqs, "pending", sent=True)
        these = (backend, json.dumps(list(seqs)))
        which = f"where backend = ? and state = 'pending' and seq in {VALUES}"

        def work(db: Connection) -> set[int]:
            db.execute(f"update delivery set sent = 1 {which} and sent = 0", these)
            return {row["seq"] for row in db.execute(f"select seq from delivery {which}", these)}

        return await self._database.write(work)

    async def due_deletions(self, backend: str, now: datetime, limit: int) -> Sequence[Due]:
        """The deletions in ``backend`` that are due by ``now``."""
        return await self._open(backend, "forget", now, limit)

    async def next_due(self, backend: str, now: datetime) -> datetime | None:
        """When the next open delivery or deletion of ``backend`` is due; None when none is open."""
        (row,) = await self._database.rows(
            "select min(case when next_at <= ? then next_at else 0 end) as at from delivery indexed by delivery_open "
            f"where backend = ? and state in ('pending', 'forget'){self._free}",
            (microseconds(now + LONGEST_WAIT), backend),
        )
        return None if row["at"] is None else time_of(row["at"])

    async def _open(self, backend: str, state: str, now: datetime, limit: int, narrowed: str = "") -> Sequence[Due]:
        rows = await self._database.rows(
            f"select e.*, {', '.join(_OF_DELIVERY)} from delivery d indexed by delivery_open join event e using(seq) "
            f"where d.backend = ? and d.{_OPEN} and d.state = ? and d.next_at not between ? and ? "
            f"{narrowed}{self._free} order by d.seq limit ?",
            (backend, state, microseconds(now) + 1, microseconds(now + LONGEST_WAIT), limit),
        )
        return [
            Due(r["seq"], self._event_of(r), r["attempts"], tuple(json.loads(r["native_ids"])), state_of(r))
            for r in rows
        ]

    def _event_of(self, row: Row) -> Event:
        """The event of a row, made once for all stores as long as its row is the same."""
        key, columns = row["seq"], tuple(row)[: -len(_OF_DELIVERY)]
        made = self._made.get(key)
        if made is None or made[0] != columns:
            made = columns, delivered_event(row)
            self._drop_made(key)
            self._made[key] = made
            self._made_chars += len(made[1].text)
            while len(self._made) > MAX_MADE or self._made_chars > MAX_MADE_CHARS:
                self._drop_made(next(iter(self._made)))
        return made[1]

    def _drop_made(self, key: int) -> None:
        if (made := self._made.pop(key, None)) is not None:
            self._made_chars -= len(made[1].text)

    def drop_made(self) -> None:
        """Drop the events made last, once all stores have them: one that is forgotten stays in no memory."""
        self._made.clear()
        self._made_chars = 0

    async def due_states(self, backend: str, limit: int) -> Sequence[DueState]:
        """The states that ``backend`` has to store of memories that were delivered to it."""
        rows = await self._database.rows(
            "select e.seq, e.event_id, e.state, e.project, d.state_due "
            "from delivery d indexed by delivery_state_due join event e using(seq) "
            "where d.backend = ? and d.state_due > 0 and d.state = 'done' order by d.seq limit ?",
            (backend, limit),
        )
        return [DueState(r["seq"], r["event_id"], state_of(r), r["state_due"]) for r in rows]

    async def mark_states_stored(self, backend: str, stored: Sequence[DueState]) -> None:
        """Mark states as stored, except those that have changed again."""
        if self._database.shared:
            await self._mark_shared_states(backend, stored, are_stored=True)
            return
        await self._database.execute_many(
            "update delivery set state_due = 0 where backend = ? and seq = ? and state_due = ?",
            [(backend, one.seq, one.decision) for one in stored],
        )

    async def repeat_changed_states(self, backend: str, sent: Sequence[DueState]) -> None:
        """Make those of these states due again that have changed: the backend failed, and may have stored the old."""
        if self._database.shared:
            await self._mark_shared_states(backend, sent, are_stored=False)

    async def _mark_shared_states(self, backend: str, sent: Sequence[DueState], *, are_stored: bool) -> None:
        """Mark states as stored, or not; those that are no longer the ones that were sent become due again.

        Several gateways may send states of one memory at once, and one that stood still may send an old one last. No
        claim prevents that, since what is under way to the backend cannot be called back. So each gateway looks, after
        its state has reached the backend, whether that is still the journal's. Take the state that the backend got
        last, and the transaction of this method that follows it:

        - The journal had another state by then: the new number makes its state due again. No other gateway knows that
          number, so one that had sent the right state before this one arrived cannot mark it as stored afterwards.
          A gateway that reads the number sends a later state, so this one was not the last.
        - The journal had the same state by then. It is right, and if it changes later, the decision makes it due. Only
          a gateway that has read the decision can end that, and it has sent a later state.

        So the last state is the journal's. Only a state that was old makes one due again, so this ends. Two cases are
        left: a gateway that dies between the backend's answer and this transaction, and a call that reaches the backend
        after it has failed here.
        """
        ours = {one.seq: one for one in sent}
        present = (
            "select seq, d.state_due, e.state, e.project from delivery d join event e using(seq) "
            f"where d.backend = ? and seq in {VALUES}"
        )

        def work(db: Connection) -> None:
            changes: list[tuple[int, str, int]] = []
            for row in db.execute(present, (backend, *listed(ours))).fetchall():
                one = ours[row["seq"]]
                if state_of(row) != one.state:
                    changes.append((_new_number(), backend, one.seq))
                elif are_stored and row["state_due"] == one.decision:
                    changes.append((0, backend, one.seq))
            db.executemany("update delivery set state_due = ? where backend = ? and seq = ?", changes)

        await self._database.write(work)

    async def mark_delivered(self, backend: str, acknowledged: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Mark (seq, native ids) as delivered. Events that have been deleted become due for deletion.

        That also holds where this gateway's claim has ended: another one may have deleted the event before it was
        stored here. An event that is still current is left to the gateway that has claimed it since, and then has the
        native ids of both: a backend that makes its own holds it twice, and has to delete both.
        """
        stored = {seq: list(ids) for seq, ids in acknowledged}
        mark = (
            "update delivery set native_ids = ?, reason = null, next_at = 0, state = case when "
            f"(select {LIVE} from event e where e.seq = delivery.seq) then 'done' else 'forget' end{self._release} "
            "where backend = ? and seq = ?"
        )
        # Locked, since others claim without the tenant's lock.
        mine = f"select seq, native_ids from delivery where backend = ? and seq in {VALUES}{self._mine} for update"

        def work(db: Connection) -> None:
            claimed = stored
            if self._database.shared:
                rows = db.execute(mine, (backend, json.dumps(list(stored))))
                claimed = {row["seq"]: _joined(row["native_ids"], stored[row["seq"]]) for row in rows}
            db.executemany(mark, [(json.dumps(ids), backend, seq) for seq, ids in claimed.items()])
            for seq in stored.keys() - claimed.keys():
                self._note_late(db, backend, seq, stored[seq])

        await self._database.write(work)

    def _note_late(self, db: Connection, backend: str, seq: int, native_ids: Sequence[str]) -> None:
        """Keep the native ids of an event that was stored after the claim on it had ended.

        If the event was deleted meanwhile, its deletion becomes due. The claim of a gateway that is deleting it ends:
        it may have looked before the event was stored. Otherwise its state becomes due: another gateway may have sent a
        newer one before this event, with the old one, was stored.
        """
        row = db.execute(
            f"select native_ids, {LIVE} as live from delivery join event using(seq) where backend = ? and seq = ?",
            (backend, seq),
        ).fetchone()
        if row is not None:
            again = f", state = 'forget', attempts = 0, next_at = 0, reason = null{self._release}"
            if row["live"]:
                again = f", state_due = {_new_number()}"
            db.execute(
                f"update delivery set native_ids = ?{again} where backend = ? and seq = ?",
                (json.dumps(_joined(row["native_ids"], native_ids)), backend, seq),
            )

    async def give_up(self, backend: str, seqs: Sequence[int], state: GivenUp, reason: str | None = None) -> None:
        """End pending deliveries that the backend declined or failed; deletions stay due."""
        await self._database.execute_many(
            f"update delivery set state = ?, reason = ?{self._release} "
            f"where backend = ? and seq = ? and state = 'pending'{self._free}",
            [(state, reason, backend, seq) for seq in seqs],
        )

    async def mark_forgotten(self, backend: str, outcomes: Sequence[tuple[int, Forgotten]]) -> None:
        """Mark claimed deletions by event number with their outcomes, unless an event is to be delivered again."""
        await self._database.execute_many(
            f"update delivery set state = ?, native_ids = '[]', reason = null{self._release} "
            f"where backend = ? and seq = ? and state = 'forget'{self._mine}",
            [(outcome, backend, seq) for seq, outcome in outcomes],
        )

    async def deletion_outcomes(self, backend: str, seqs: Sequence[int]) -> Mapping[int, Forgotten | None]:
        """By event number, the outcomes of deletions: None while one is due, "absent" if the event is to be delivered
        instead."""
        rows = await self._database.rows(
            f"select seq, state from delivery where backend = ? and seq in {VALUES}",
            (backend, json.dumps(list(seqs))),
        )
        return {row["seq"]: _outcome(row["state"]) for row in rows}

    async def postpone(self, backend: str, seq: int, reason: str, next_at: datetime) -> None:
        """Count a failed try; the next is not before ``next_at``."""
        await self._database.execute_many(
            f"update delivery set attempts = attempts + 1, reason = ?, next_at = ?{self._release} "
            f"where backend = ? and seq = ?{self._free}",
            [(reason, microseconds(next_at), backend, seq)],
        )

    async def native_ids(self, backend: str, ref: str, scope: Scope) -> tuple[str, ...]:
        """The native ids of an event in ``backend``; none before its delivery. Raises NotFound, as `Journal.find`."""

        def work(db: Connection) -> tuple[str, ...]:
            asked = "select native_ids from delivery where backend = ? and seq = ?"
            row = db.execute(asked, (backend, row_of(db, ref, scope)["seq"])).fetchone()
            return tuple(json.loads(row["native_ids"])) if row else ()

        return await self._database.read(work)

    async def holders(self, refs: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """By ref, the backends that hold an event."""
        numbers = {seq: ref for ref in refs if (seq := parse_short_ref(ref)) is not None}
        rows = await self._database.rows(
            f"select seq, backend from delivery where {_OF_EVENTS} and state = 'done' order by backend",
            (json.dumps(list(numbers)),),
        )
        held: dict[str, list[str]] = {ref: [] for ref in refs}
        for seq, backend in rows:
            held[numbers[seq]].append(backend)
        return held

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries and deletions are open."""
        rows = await self._database.rows(
            "select backend, count(*) as n from delivery where state in ('pending', 'forget') group by backend"
        )
        return {row["backend"]: row["n"] for row in rows}

    async def holding(self, backend: str) -> Holding:
        """How many events a backend holds according to the states of its deliveries."""
        return await self._database.read(lambda db: holding(db, backend))


def holding(db: Connection, backend: str) -> Holding:
    """How many events a backend holds according to the states of its deliveries."""
    # Nearly all are done, and of the journal's own events: they are counted, and only the others are grouped.
    (done,) = db.execute(
        "select count(*) filter (where state = 'done') from delivery where backend = ?", (backend,)
    ).fetchone()
    held = Holding(done, done)
    for state, sent, external, n in db.execute(
        "select state, sent, seq in (select seq from event where natural >= ? and natural < ?) as external, "
        "count(*) as n from delivery where backend = ? and state <> 'done' group by 1, 2, 3",
        (f'["{BORN_FORGOTTEN}"', f'["{BORN_FORGOTTEN}#', backend),  # "#" follows the quote: a range of the index
    ):
        least, most = _held(state, bool(sent), bool(external))
        held = Holding(held.least + least * n, held.most + most * n)
    return held


def _held(state: str, sent: bool, external: bool) -> tuple[int, int]:
    """The least and most that a delivery in this state, which is not "done", adds to the number of events that its
    backend holds."""
    if external:  # it was there before; "absent" may be the answer to a second try of its deletion
        return {"deleted": (-1, -1), "hidden": (0, 0)}.get(state, (-1, 0))
    absent = state in ("declined", "deleted", "absent") or (state == "pending" and not sent)
    return (0, 0) if absent else (0, 1)


_OPEN = "state in ('pending', 'forget')"
"""the condition of the index ``delivery_open``, which queries name: without statistics SQLite would rather read all
of a store's deliveries in the order of their key"""
OPEN_DELIVERIES = "select 1 from delivery where state in ('pending', 'forget') union all select 1 from history limit 1"
"""the query that has a row if there are open deliveries or waiting histories"""


_LEFT = (
    "select 1 from delivery where state in ('pending', 'forget') and next_at <= clock_us() "
    "and claimed_until <= clock_us() union all "
    "select 1 from history where due_at <= clock_us() and leased_until <= clock_us() limit 1"
)


def has_left(db: Connection) -> bool:
    """Whether a shared journal has deliveries, or histories, that are due and that no gateway is working on."""
    return db.execute(_LEFT).fetchone() is not None


def has_open_deliveries(file: Path) -> bool:
    """Whether a closed journal has open deliveries or waiting histories, or cannot be read; never writes to it."""
    if not file.exists():
        return False
    try:
        with closing(read_only(file)) as db:
            return bool(db.execute(OPEN_DELIVERIES).fetchall())
    except sqlite3.Error:
        return True


def _new_number() -> int:
    """A number that no decision has, and that no other call returns."""
    return secrets.randbits(62) | 1 << 62


def _joined(known: str, more: Sequence[str]) -> list[str]:
    """The native ids of a row, and more."""
    return list(dict.fromkeys([*json.loads(known), *more]))


def _outcome(state: str) -> Forgotten | None:
    """The outcome of a deletion by the state of its row; None while it is due."""
    if state == "forget":
        return None
    return state if state in get_args(Forgotten) else "absent"  # type: ignore[return-value]


URGENT = """
alter table delivery add column urgent integer not null default 0;
create index delivery_urgent on delivery(backend, state, seq) where urgent = 1 and state = 'pending';
"""
"""a new memory must not wait for a folder of files that is being ingested"""


CLAIMED = """
alter table delivery add column claimed_by text not null default '';
alter table delivery add column claimed_until integer not null default 0;
"""
"""which of the gateways that share a journal is making a delivery, and until when; in microseconds"""


FAILED = "create index delivery_failed on delivery(backend) where state = 'failed';"
"""each start makes them due again, and read all deliveries to find none"""


SENT = "alter table delivery add column sent integer not null default 1"
"""0 while the delivery has never begun, so that the backend cannot hold the event"""


def enter(db: Connection, seq: int, stores: Sequence[str], *, urgent: bool = False, sent: bool = False) -> None:
    """Add the deliveries of an event to ``stores``; with ``sent`` they may hold it already."""
    rows = [(seq, name, urgent, sent) for name in stores]
    db.executemany("insert into delivery(seq, backend, urgent, sent) values(?, ?, ?, ?)", rows)


def enter_state(db: Connection, seqs: Sequence[int], decision: int) -> None:
    """Make the states of events due in every backend; those that store none never ask for them."""
    db.execute(f"update delivery set state_due = ? where {_OF_EVENTS}", (decision, json.dumps(list(seqs))))


def enter_again(db: Connection, seq: int, stores: Sequence[str]) -> None:
    """Make the deliveries of an event due again, except to backends that declined it.

    They are those to ``stores``, and to the backends of other gateways that had it.
    """
    db.execute(
        "update delivery set state = 'pending', native_ids = '[]', attempts = 0, next_at = 0, reason = null, sent = 1 "
        f"where {_OF_EVENTS} and state <> 'declined'",
        (json.dumps([seq]),),
    )
    db.executemany(
        "insert into delivery(seq, backend) values(?, ?) on conflict(backend, seq) do nothing",
        [(seq, name) for name in stores],
    )


_BACKENDS = (
    # One search of the index per backend; `select distinct` would read every row.
    "with recursive named(backend) as (select min(backend) from delivery union all "
    "select (select min(d.backend) from delivery d where d.backend > named.backend) from named "
    "where named.backend is not null) select backend from named where backend is not null"
)
_OF_EVENTS = f"backend in ({_BACKENDS}) and seq in {VALUES}"
"""the condition on deliveries of events; with the number alone SQLite would read the whole table"""


def withdraw(db: Connection, seqs: Sequence[int], *, drop_unsent: bool = False) -> None:
    """Make the deletion of events due in every backend that may hold them.

    With ``drop_unsent`` a delivery that has not begun is dropped; otherwise that backend is asked to delete, too.
    """
    state = "case when state = 'pending' and sent = 0 then 'absent' else 'forget' end" if drop_unsent else "'forget'"
    db.execute(
        f"update delivery set state = {state}, attempts = 0, next_at = 0 where {_OF_EVENTS} and state <> 'declined'",
        (json.dumps(list(seqs)),),
    )


def backends_to_forget(db: Connection, seq: int) -> dict[str, tuple[str, ...]]:
    """By backend with an open deletion of an event, its native ids there."""
    rows = db.execute(
        f"select backend, native_ids from delivery where {_OF_EVENTS} and state = 'forget'", (json.dumps([seq]),)
    )
    return {row["backend"]: tuple(json.loads(row["native_ids"])) for row in rows}


def outcomes(db: Connection, seqs: Sequence[int]) -> dict[int, dict[str, str]]:
    """By event number and backend, the outcome of each deletion; "pending" while it is due."""
    found: dict[int, dict[str, str]] = {}
    for seq, backend, state in db.execute(
        f"select seq, backend, state from delivery where {_OF_EVENTS} and state <> 'declined' order by backend, seq",
        (json.dumps(list(seqs)),),
    ):
        found.setdefault(seq, {})[backend] = "pending" if state == "forget" else state
    return found


def drop(db: Connection, seq: int) -> None:
    """Remove the deliveries of an event."""
    db.execute(f"delete from delivery where {_OF_EVENTS}", (json.dumps([seq]),))


def enter_to_forget(db: Connection, seq: int, backend: str, native_id: str) -> None:
    """Add the deletion of an external item."""
    db.execute(
        "insert into delivery(seq, backend, state, native_ids) values(?, ?, 'forget', ?)",
        (seq, backend, json.dumps([native_id])),
    )


def deliveries(db: Connection) -> dict[str, Deliveries]:
    """By backend, the counts of its open and failed deliveries."""
    rows = db.execute(
        "select backend, count(*) filter (where state <> 'failed'), "
        "count(*) filter (where state <> 'failed' and attempts > 0), count(*) filter (where state = 'failed'), "
        "coalesce(max(reason), '') from ("
        "select * from delivery indexed by delivery_open where state in ('pending', 'forget') union all "
        "select * from delivery indexed by delivery_failed where state = 'failed') as open group by backend"
    ).fetchall()
    return {backend: Deliveries(*numbers) for backend, *numbers in rows}
