"""Proposals: memories that somebody asks to store. Each waits in a queue until a person or a policy decides on it.

An open proposal is a row here and nothing else: it is no event, so no backend, no answer and no pack has anything of
it. An approval is written in the transaction that stores the memory, so a crash leaves both or neither. Decisions on
proposals are entries of the log of `fusion.journal.state`, and are undone by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import orjson

from fusion.contract import Event, Hit, Role, Scope
from fusion.errors import AlreadyDecided, BadInput, NotFound, Overloaded
from fusion.journal import audit, idempotency, state
from fusion.journal.append import Stored
from fusion.journal.rows import forgotten, row_of, visible_to, words_key
from fusion.journal.state import Decision
from fusion.journal.tombstones import is_forgotten, lift, store_tombstones
from fusion.lib.ids import short_ref, uuid7
from fusion.lib.junk import content_words
from fusion.store.database import VALUES, Connection, Row, listed
from fusion.store.rows import microseconds, scope_of, storable, time_of

SCHEMA = """
create table proposal(
    id integer primary key autoincrement, at integer not null, tenant text not null, user_id text, agent_id text,
    run_id text, session_id text, project text, audience text not null, state text not null default 'open',
    words text not null, source text, draft text not null, reason text not null, proposed_by text not null,
    role text not null, decided_at integer, decided_by text, why text not null default '', event_id text
);
create index proposal_state on proposal(tenant, state, id);
create index proposal_words on proposal(tenant, words);
create index proposal_event on proposal(event_id) where event_id is not null;
create table proposal_evidence(
    event_id text not null, proposal integer not null references proposal(id), primary key(event_id, proposal)
) without rowid;
create table proposal_decision(
    decision integer primary key references decision(id), proposal integer not null, before text not null,
    after text not null, event_id text
);
create index proposal_decided on proposal_decision(proposal, decision);
"""
"""``draft`` is the JSON of a memory as `fusion.ingest.proposals` writes it; ``words`` is its words key. ``event_id`` is
the memory that an approval stored, or found stored already. Of a decision, ``before`` and ``after`` are the states of
its proposal, and ``event_id`` is the memory that it stored or took back."""

ProposalState = Literal["open", "approved", "rejected", "expired"]
LEAST_SHARE = 0.6
"""share of the words of a query that a proposal must have to be forgotten by it"""
NO_EVENT = 0
"""the number in the audit of what never was an event"""
RETRY_S = 600.0
"""seconds after which a proposer may try again when the queue is full"""


@dataclass(frozen=True, slots=True)
class Decider:
    """Who proposes or decides: the name of an API key, "owner" with the home's token, and its role."""

    name: str
    role: Role = "operator"

    @property
    def who(self) -> str:
        """Its name in the log of decisions."""
        return self.name if self.name == state.BY_HAND else f"key {self.name}"


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A proposal to enter: the checked draft of a memory, its words, and why its proposer would keep it."""

    draft: Mapping[str, Any]
    words: str
    scope: Scope
    source: str | None = None
    evidence: tuple[str, ...] = ()
    """refs of the memories that it follows from"""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many proposals may be open at once, in a tenant and of one key."""

    max_open: int = 1000
    max_open_per_key: int = 200


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposal with its state. ``ref`` is the memory that it became, ``decision`` the last one on it.

    ``forgotten_before`` says that somebody forgot these words earlier.
    """

    id: int
    at: datetime
    scope: Scope
    state: ProposalState
    draft: Mapping[str, Any]
    reason: str
    proposed_by: str
    role: str
    evidence: tuple[str, ...] = ()
    decided_at: datetime | None = None
    decided_by: str | None = None
    why: str = ""
    event_id: str | None = None
    ref: str | None = None
    decision: str | None = None
    forgotten_before: bool = False

    @property
    def name(self) -> str:
        """Its name for users: ``p`` and its number."""
        return f"p{self.id}"

    @property
    def stated_at(self) -> datetime:
        """When what it says happened, if that is known, else when it was proposed."""
        at = self.draft.get("at")
        return self.at if at is None else datetime.fromisoformat(at["utc"])

    @property
    def text(self) -> str:
        """What the memory would say."""
        return str(self.draft["text"])


def parse_name(name: str) -> int | None:
    """The number of a proposal by its name; None for another text."""
    return int(name[1:]) if name[:1] == "p" and name[1:].isdecimal() and len(name) < 20 else None


# Proposing


def propose(
    db: Connection,
    given: Sequence[NewProposal],
    by: Decider,
    limits: Limits,
    now: datetime,
    guard: idempotency.Guard | None = None,
) -> list[tuple[int, bool]]:
    """Enter proposals, or none: the number of each, and whether it is new.

    One in the words of an open proposal of the same owner is that proposal. A repeated request of a ``guard``'s key
    enters nothing and returns the first one's numbers. Raises NotFound for evidence that is not in the proposal's
    scope, Overloaded when the queue is full, and KeyReused.
    """
    if guard is not None and (known := idempotency.replayed(db, guard)) is not None:
        return [(int(number), bool(new)) for number, new in orjson.loads(known)]
    entered = [_enter(db, one, by, now) for one in given]
    if any(new for _, new in entered):
        _require_room(db, given[0].scope.tenant, by, limits)
    if guard is not None:
        idempotency.keep(db, guard, entered, int(now.timestamp()))
    return entered


def _enter(db: Connection, one: NewProposal, by: Decider, now: datetime) -> tuple[int, bool]:
    scope, words = one.scope, storable(one.words)
    there = _open_in_words(db, scope.tenant, words)
    if there is not None:
        return int(there["id"]), False
    evidence = [row_of(db, ref, scope)["event_id"] for ref in dict.fromkeys(one.evidence)]
    owner = (scope.tenant, scope.user_id, scope.agent_id, scope.run_id, scope.session_id, scope.project, scope.audience)
    columns = "at, tenant, user_id, agent_id, run_id, session_id, project, audience, words, source, draft, reason, "
    inserted = db.execute(
        f"insert into proposal({columns} proposed_by, role) values({', '.join('?' * 14)}) returning id",
        (
            microseconds(now),
            *(value and storable(value) for value in owner),
            words,
            one.source and storable(one.source),
            storable(orjson.dumps(one.draft).decode()),
            storable(one.reason),
            storable(by.name),
            by.role,
        ),
    )
    number = int(inserted.fetchone()["id"])
    db.executemany("insert into proposal_evidence values(?, ?)", [(item, number) for item in evidence])
    return number, True


def _open_in_words(db: Connection, tenant: str, words: str) -> Row | None:
    found: Row | None = db.execute(
        "select * from proposal where tenant = ? and words = ? and state = 'open'", (tenant, words)
    ).fetchone()
    return found


def _require_room(db: Connection, tenant: str, by: Decider, limits: Limits) -> None:
    """Raise Overloaded if more proposals are open than may be; the transaction then enters none."""
    is_open = "select count(*) from proposal where tenant = ? and state = 'open'"
    if db.execute(is_open, (tenant,)).fetchone()[0] > limits.max_open:
        raise Overloaded(
            f"{limits.max_open} proposals are open, the most that [proposals] max_open allows. Somebody has to decide "
            "on them first: fusion proposals",
            RETRY_S,
        )
    if db.execute(f"{is_open} and proposed_by = ?", (tenant, storable(by.name))).fetchone()[0] > (
        limits.max_open_per_key
    ):
        raise Overloaded(
            f"{limits.max_open_per_key} proposals of the key {by.name} are open, the most that [proposals] "
            "max_open_per_key allows. Somebody has to decide on them first: fusion proposals",
            RETRY_S,
        )


# Reading


def find(db: Connection, name: str, scope: Scope, *, by: str | None = None) -> Proposal:
    """The proposal of a name, of the proposer ``by`` if one is given. Raises NotFound, also for another owner's."""
    return _read(db, _row(db, name, scope, by))


def page(
    db: Connection,
    scope: Scope,
    limit: int,
    *,
    in_state: ProposalState | None = "open",
    before: int | None = None,
    by: str | None = None,
) -> list[Proposal]:
    """The latest proposals of a scope in a state (None: in any), newest first, those before the number ``before``."""
    terms, values = visible_to(scope)
    conditions = [terms, "id < ?"]
    values.append(before if before is not None else 1 << 62)
    for column, value in (("state", in_state), ("proposed_by", by)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(storable(value))
    rows = db.execute(
        f"select * from proposal where {' and '.join(conditions)} order by id desc limit ?", (*values, limit)
    ).fetchall()
    return [_read(db, row) for row in rows]


def open_of_tenant(db: Connection, tenant: str, limit: int, after: int = 0) -> list[Proposal]:
    """The open proposals of a tenant, the oldest first, those after the number ``after``."""
    rows = db.execute(
        "select * from proposal where tenant = ? and state = 'open' and id > ? order by id limit ?",
        (tenant, after, limit),
    ).fetchall()
    return [_read(db, row) for row in rows]


def counts(db: Connection, scope: Scope, *, by: str | None = None) -> dict[str, int]:
    """How many proposals a scope has, by state; with ``by``, those of this proposer."""
    terms, values = visible_to(scope)
    if by is not None:
        terms, values = f"{terms} and proposed_by = ?", [*values, storable(by)]
    rows = db.execute(f"select state, count(*) as n from proposal where {terms} group by state", values)
    return {row["state"]: row["n"] for row in rows}


def _row(db: Connection, name: str, scope: Scope, by: str | None = None) -> Row:
    number = parse_name(name)
    row = None if number is None else db.execute("select * from proposal where id = ?", (number,)).fetchone()
    if row is None or not scope.admits(scope_of(row)) or by not in (None, row["proposed_by"]):
        raise NotFound(f"there is no proposal {name!r} here")
    found: Row = row
    return found


def _read(db: Connection, row: Row) -> Proposal:
    evidence = db.execute(
        "select e.seq from proposal_evidence p join event e using(event_id) "
        "where p.proposal = ? and e.forgotten = 0 order by e.seq",
        (row["id"],),
    ).fetchall()
    stored = db.execute("select seq from event where event_id = ? and forgotten = 0", (row["event_id"],)).fetchone()
    last = db.execute("select max(decision) from proposal_decision where proposal = ?", (row["id"],)).fetchone()[0]
    return Proposal(
        row["id"],
        time_of(row["at"]),
        scope_of(row),
        row["state"],
        orjson.loads(row["draft"]),
        row["reason"],
        row["proposed_by"],
        row["role"],
        tuple(short_ref(one["seq"]) for one in evidence),
        None if row["decided_at"] is None else time_of(row["decided_at"]),
        row["decided_by"],
        row["why"],
        row["event_id"],
        None if stored is None else short_ref(stored["seq"]),
        None if last is None else f"d{last}",
        row["state"] == "open" and is_forgotten(db, row["words"]),
    )


def evidence_of(db: Connection, proposal: int) -> tuple[str, ...]:
    """The ids of the events that a proposal follows from and that are not forgotten."""
    rows = db.execute("select event_id from proposal_evidence where proposal = ?", (proposal,)).fetchall()
    ids = [row["event_id"] for row in rows]
    gone = forgotten(db, ids)
    return tuple(item for item in ids if item not in gone)


# Deciding


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision on a proposal: who made it, when and why. ``run`` is the run of the job that made it."""

    who: str
    why: str
    at: datetime
    run: str | None = None


def approving(proposal: Proposal, verdict: Verdict) -> Callable[[Connection], Callable[[Sequence[Stored]], None]]:
    """What `Journal.append` does in the transaction that stores the memory of a proposal, before and after that.

    Raises AlreadyDecided if the proposal is not open any more; then nothing is stored.
    """

    def before(db: Connection) -> Callable[[Sequence[Stored]], None]:
        row = _require_open(db, proposal.id)
        lift(db, row["words"])

        def after(stored: Sequence[Stored]) -> None:
            kept = next((one for one in stored if one.state != "blocked"), None)
            if kept is None:
                raise BadInput(
                    f"{proposal.name} has nothing left to store: edit its text, or reject it: fusion reject "
                    f"{proposal.name}"
                )
            new = kept.event.event_id if kept.state in ("stored", "superseded") else None
            _settle(db, row, "approved", verdict, kept.event.event_id, new)

        return after

    return before


def reject(db: Connection, number: int, verdict: Verdict, to: ProposalState = "rejected") -> None:
    """Reject an open proposal, or let it expire. Raises AlreadyDecided."""
    _settle(db, _require_open(db, number), to, verdict, None, None)


def _require_open(db: Connection, number: int) -> Row:
    row = db.execute("select * from proposal where id = ?", (number,)).fetchone()
    if row is None:
        raise NotFound(f"there is no proposal 'p{number}' here")
    if row["state"] != "open":
        raise AlreadyDecided(
            f"p{number} is {row['state']} already, by {row['decided_by']}. To decide anew, undo that first: "
            f"fusion undo {_last(db, number)}"
        )
    found: Row = row
    return found


def _last(db: Connection, number: int) -> str:
    found = db.execute("select max(decision) from proposal_decision where proposal = ?", (number,)).fetchone()[0]
    return f"d{found}"


def _settle(
    db: Connection, row: Row, to: ProposalState, verdict: Verdict, event_id: str | None, new: str | None
) -> None:
    """Set the state of a proposal, as a decision. ``new`` is the memory that the decision stored."""
    why = f"{to} p{row['id']}" + (f": {verdict.why}" if verdict.why else "")
    decision = state.enter(db, row, verdict.who, why, verdict.at, run=verdict.run)
    _note(db, decision, row, to, new)
    db.execute(
        "update proposal set state = ?, decided_at = ?, decided_by = ?, why = ?, event_id = ? where id = ?",
        (to, microseconds(verdict.at), storable(verdict.who), storable(verdict.why), event_id, row["id"]),
    )


def _note(db: Connection, decision: int, row: Row, to: ProposalState, event_id: str | None) -> None:
    values = (decision, row["id"], row["state"], to, event_id)
    db.execute("insert into proposal_decision values(?, ?, ?, ?, ?)", values)


# Undoing


def is_about_proposal(db: Connection, name: str) -> bool:
    """Whether a decision by its name is one on a proposal."""
    number = state.parse_name(name)
    return (
        number is not None
        and db.execute("select 1 from proposal_decision where decision = ?", (number,)).fetchone() is not None
    )


def undo(db: Connection, name: str, scope: Scope, who: str, now: datetime) -> Decision:
    """Take a decision on a proposal back: the proposal is as it was before, and a memory that it stored is archived.

    To undo that undo makes the memory current again. Raises as `state.undo`, and BadInput if an open proposal says the
    same by now.
    """
    row = state.undoable(db, name, scope)
    about = db.execute("select * from proposal_decision where decision = ?", (row["id"],)).fetchone()
    proposal = db.execute("select * from proposal where id = ?", (about["proposal"],)).fetchone()
    if proposal is None:
        raise BadInput(f"{name} cannot be undone: p{about['proposal']} was forgotten or deleted since")
    if (last := _last(db, proposal["id"])) != name:
        raise BadInput(f"{name} cannot be undone: {last} changed p{proposal['id']} since. Undo {last} first")
    if about["before"] == "open" and (other := _open_in_words(db, proposal["tenant"], proposal["words"])) is not None:
        raise BadInput(f"{name} cannot be undone: p{other['id']} is open and says the same; decide on that")
    made = _undone_states(db, row, about, who, now)
    _note(db, made, proposal, about["before"], about["event_id"])
    back_to_open = about["before"] == "open"
    db.execute(
        "update proposal set state = ?, decided_at = ?, decided_by = ?, why = '', event_id = ? where id = ?",
        (
            about["before"],
            None if back_to_open else microseconds(now),
            None if back_to_open else storable(who),
            about["event_id"] if about["before"] == "approved" else None,
            proposal["id"],
        ),
    )
    return state.decision_of(db, made)


def _undone_states(db: Connection, row: Row, about: Row, who: str, now: datetime) -> int:
    """Enter the decision that takes another back, with the states of the memory that go with it; its number."""
    why = f"undo of d{row['id']}"
    reverted = state.revert(db, row, who, now)  # what an undo had archived is current again
    if reverted is not None:
        return reverted.id
    made: Decision | None = None
    if about["after"] == "approved" and about["event_id"] is not None:
        changes: dict[str, state.Change] = {about["event_id"]: {"ended_at": now, "ended": "archived"}}
        made = state.decide(db, changes, who, why, now, undoes=row["id"])
    number = state.enter(db, row, who, why, now, undoes=row["id"]) if made is None else made.id
    state.link_undo(db, row, number)
    return number


# Forgetting and expiring


def drop_with(db: Connection, event: Event) -> None:
    """Delete the proposals that say what a forgotten event said: those that became it, in its words, or from it alone.

    ``event`` is still in the journal; its text is about to go.
    """
    words = words_key(event.text, event.speaker, event.scope)
    numbers = {
        row["id"]
        for row in db.execute(
            "select id from proposal where event_id = ? or (tenant = ? and words = ?)",
            (event.event_id, event.scope.tenant, storable(words)),
        )
    }
    for row in db.execute("select proposal from proposal_evidence where event_id = ?", (event.event_id,)).fetchall():
        if set(evidence_of(db, row["proposal"])) <= {event.event_id}:
            numbers.add(row["proposal"])
    delete(db, sorted(numbers))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which proposals to forget: those that meet every condition; None does not filter. ``words`` are stems."""

    source: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    words: frozenset[str] | None = None


def to_forget(db: Connection, scope: Scope, wanted: Wanted, limit: int) -> list[Proposal]:
    """The proposals of a scope in any state that are wanted, oldest first; not those whose memory is still there.

    Their time is that of their statement, else when they were proposed.
    """
    terms, values = visible_to(scope)
    rows = db.execute(f"select * from proposal where {terms} order by id", values)
    found = (one for one in (_read(db, row) for row in rows) if one.ref is None and _is_wanted(one, wanted))
    return list(islice(found, limit))


def _is_wanted(proposal: Proposal, wanted: Wanted) -> bool:
    at = proposal.stated_at
    return (
        (wanted.source is None or proposal.draft["source"] == wanted.source)
        and (wanted.after is None or at >= wanted.after)
        and (wanted.before is None or at < wanted.before)
        and (wanted.words is None or _shares(wanted.words, content_words(proposal.text)))
    )


def _shares(wanted: frozenset[str], there: frozenset[str]) -> bool:
    return bool(wanted) and len(wanted & there) >= LEAST_SHARE * len(wanted)


def forget(db: Connection, name: str, scope: Scope, by: str, now: datetime) -> Event:
    """Delete a proposal and keep its words out, as those of a forgotten memory; returns what it said.

    ``by`` names the criteria for the audit. Raises NotFound.
    """
    proposal = find(db, name, scope)
    speaker = proposal.draft.get("speaker")
    said = Event(str(uuid7()), proposal.text, now, proposal.scope, kind=proposal.draft["kind"], speaker=speaker)
    store_tombstones(db, said.event_id, words_key(said.text, speaker, said.scope), (), Hit.of(said))
    delete(db, [proposal.id])
    audit.put(db, said.scope, name, NO_EVENT, by, now)
    return said


def delete(db: Connection, numbers: Sequence[int]) -> None:
    """Delete proposals with their texts, and the reasons of their decisions, which may quote them."""
    if not numbers:
        return
    chosen = listed(numbers)
    db.execute(
        f"update decision set why = '' where id in (select decision from proposal_decision where proposal in {VALUES})",
        chosen,
    )
    for table, column in (("proposal_evidence", "proposal"), ("proposal_decision", "proposal"), ("proposal", "id")):
        db.execute(f"delete from {table} where {column} in {VALUES}", chosen)


def delete_decided(db: Connection, tenant: str, before: datetime, *, dry_run: bool = False) -> int:
    """Delete the proposals of a tenant that were decided before a time; returns their number."""
    rows = db.execute(
        "select id from proposal where tenant = ? and state <> 'open' and decided_at < ?",
        (tenant, microseconds(before)),
    ).fetchall()
    if not dry_run:
        delete(db, [row["id"] for row in rows])
    return len(rows)
