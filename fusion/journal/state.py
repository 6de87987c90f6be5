"""The state of each memory, and the log of its changes.

A state is a column in the row of its event; external items have theirs by ref. Changes that belong together
(a merge and the reinforcement that it brings, both sides of a conflict) are one decision: one transaction, one entry of
the log with who made it and why, and one undo. Backends with the capability `fusion.contract.StoresState` are sent the
new states by the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import orjson

from fusion.contract import Event, Scope, State, StateChange, Trust
from fusion.errors import BadInput, NotFound
from fusion.journal import outbox
from fusion.journal.external_refs import is_external
from fusion.journal.rows import default_state, read_state, row_of, state_of, written_state
from fusion.lib.caller import OWNER
from fusion.lib.conflict import ConflictMember, without_opponents
from fusion.lib.due import due_of
from fusion.lib.ids import short_ref
from fusion.lib.stated_fields import from_stated
from fusion.store.database import VALUES, Connection, Row, listed, replacing
from fusion.store.rows import event_of, microseconds, storable, time_of

SCHEMA = """
alter table event add column state text;
alter table event add column merged_into text;
alter table event add column conflict_group text;
create index event_merged on event(merged_into) where merged_into is not null;
create index event_conflict on event(conflict_group) where conflict_group is not null;
create table external_state(
    tenant text not null, ref text not null, state text not null, primary key(tenant, ref)
) without rowid;
create table decision(
    id integer primary key autoincrement, at integer not null, tenant text not null, user_id text, who text not null,
    why text not null, run text, undoes integer, undone_by integer
);
create index decision_run on decision(run, id) where run is not null;
create table state_change(
    decision integer not null references decision(id), item text not null, before text not null, after text not null,
    primary key(decision, item)
) without rowid;
create index state_change_item on state_change(item, decision);
alter table delivery add column state_due integer not null default 0;
create index delivery_state_due on delivery(backend, seq) where state_due > 0;
"""
"""``state`` is JSON with the fields that differ from a new memory's, null if none does. Two fields are columns as well,
since SQLite refuses JSON functions in an index of a schema that is not trusted. ``state_due`` is the last decision on
the memory that the backend has not stored yet."""

TAKEN_OVER = "create table states_taken_over(backend text primary key) without rowid;"
"""the backends whose own states of earlier versions are in the journal"""

BY_HAND = OWNER
"""who decided, for what came through a door"""
A_PERSON_DECIDED = f"(d.who = '{BY_HAND}' or d.who like 'key %')"
"""the condition on a decision ``d`` of the owner or of an API key, and not of a job"""

Change = StateChange | Callable[[State], StateChange]
"""the fields to change, or a function that returns them for the current state"""


@dataclass(frozen=True, slots=True)
class Altered:
    """One memory that a decision changed: its ref, and the changed fields before and after."""

    ref: str
    item: str
    before: StateChange
    after: StateChange


@dataclass(frozen=True, slots=True)
class Decision:
    """One entry of the log: who changed what, when and why. ``undone_by`` is the decision that took it back."""

    id: int
    at: datetime
    who: str
    why: str
    changes: tuple[Altered, ...]
    run: str | None = None
    undoes: int | None = None
    undone_by: int | None = None
    proposal: str | None = None
    """the name of the proposal that it decided on"""

    @property
    def name(self) -> str:
        """Its name for users: ``d`` and its number."""
        return f"d{self.id}"


TRUST_FROM_LEAST: tuple[Trust, ...] = ("quarantined", "untrusted", "unknown", "trusted")


def refuse_more_trust(db: Connection, decisions: Iterable[Decision]) -> None:
    """Raise BadInput if one of these decisions raises the trust of a memory.

    A change to None gives the trust back that was stated with the memory. What a backend states of an external item is
    not in the journal: at most unknown, and perhaps less.
    """
    for one in (change for decision in decisions for change in decision.changes if "trust" in change.after):
        row = db.execute("select trust from event where event_id = ?", (one.item,)).fetchone()
        before = one.before["trust"] or ("untrusted" if row is None else row["trust"])
        after = one.after["trust"] or ("unknown" if row is None else row["trust"])
        if TRUST_FROM_LEAST.index(after) > TRUST_FROM_LEAST.index(before):
            raise BadInput(
                f"trust: only the owner can raise that of {one.ref} from {before} to {after}: with the home's token, "
                "or an API key with all_users = true in [[server.keys]]"
            )


def parse_name(name: str) -> int | None:
    """The number of a decision by its name; None for another text."""
    return int(name[1:]) if name[:1] == "d" and name[1:].isdecimal() and len(name) < 20 else None


def initial(event: Event) -> State:
    """The state of a new memory: what its event states; else lifetime "project" if it has a project.

    The words of a plan say when it is due.
    """
    change = from_stated(event)
    if "due" not in change and (due := due_of(event)) is not None:
        change["due"] = due
    return replace(default_state(event.scope.project), **change)


def set_confidence(db: Connection, event: Event, confidence: float) -> None:
    """Set the first confidence of a new memory that a model distilled."""
    written = written_state(replace(initial(event), confidence=confidence), event.scope.project)
    db.execute("update event set state = ? where event_id = ?", (written, event.event_id))


def decide(
    db: Connection,
    changes: Mapping[str, Change],
    who: str,
    why: str,
    now: datetime,
    *,
    run: str | None = None,
    undoes: int | None = None,
) -> Decision | None:
    """Change the states of memories of one owner by event id, as one decision; None if nothing differs.

    Events that are unknown or forgotten are skipped. Raises ValueError for memories of several owners.
    """
    rows = db.execute(f"select * from event where forgotten = 0 and event_id in {VALUES}", listed(changes)).fetchall()
    if len({(row["tenant"], row["user_id"]) for row in rows}) > 1:
        raise ValueError("one decision changes memories of one owner")
    altered = []
    for row in rows:
        state = state_of(row)
        asked = changes[row["event_id"]]
        change = asked(state) if callable(asked) else asked
        before, after = _difference(state, change)
        if not after:
            continue
        altered.append((row, before, after, replace(state, **after)))
    if not altered:
        return None
    number = enter(db, altered[0][0], who, why, now, run, undoes)
    for row, before, after, state in altered:
        _put(db, number, row["event_id"], before, after)
        db.execute(
            "update event set state = ?, merged_into = ?, conflict_group = ? where seq = ?",
            (written_state(state, row["project"]), state.merged_into, state.conflict_group, row["seq"]),
        )
    outbox.enter_state(db, [row["seq"] for row, *_ in altered], number)
    found = tuple(Altered(short_ref(row["seq"]), row["event_id"], before, after) for row, before, after, _ in altered)
    return Decision(number, now, who, why, found, run, undoes)


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision over states that were read before, which is made only of what did not change since.

    ``seen`` are those states, also of memories that it depends on and leaves as they are. ``whole``: if one of them
    changed, nothing is decided; otherwise the others are.
    """

    changes: Mapping[str, StateChange]
    why: str
    seen: Mapping[str, State]
    whole: bool = True


def decide_all(
    db: Connection, planned: Sequence[Planned], who: str, now: datetime, *, run: str | None = None
) -> list[Decision]:
    """Make several decisions in one transaction; each can be undone alone."""
    made = []
    for one in planned:
        same = _unchanged(db, one.seen)
        if one.whole and len(same) < len(one.seen):
            continue
        changes: dict[str, Change] = {item: change for item, change in one.changes.items() if item in same}
        decision = decide(db, changes, who, one.why, now, run=run)
        made += [] if decision is None else [decision]
    return made


def _unchanged(db: Connection, seen: Mapping[str, State]) -> set[str]:
    """Those of these current memories whose state is still the same."""
    rows = db.execute(
        f"select * from event where forgotten = 0 and superseded_by is null and event_id in {VALUES}", listed(seen)
    )
    return {row["event_id"] for row in rows if state_of(row) == seen[row["event_id"]]}


def decide_external(
    db: Connection, tenant: str, user_id: str | None, ref: str, change: StateChange, who: str, why: str, now: datetime
) -> Decision | None:
    """Change the state of an external item by its ref; None if nothing differs."""
    state = externals(db).get(ref, State())
    before, after = _difference(state, change)
    if not after:
        return None
    number = enter(db, {"tenant": tenant, "user_id": user_id}, who, why, now, None, None)
    _put(db, number, ref, before, after)
    _store_external(db, tenant, ref, replace(state, **after))
    return Decision(number, now, who, why, (Altered(ref, ref, before, after),))


def externals(db: Connection) -> dict[str, State]:
    """By ref, the states of external items that differ from a new memory's."""
    rows = db.execute("select * from external_state")
    return {row["ref"]: state_of({"state": row["state"], "project": None}) for row in rows}


def undo(db: Connection, name: str, scope: Scope, who: str, now: datetime) -> Decision:
    """Take a decision back by its name, as a new decision: each field that it changed has its earlier value again.

    A memory that was repeated again since keeps what the later repetitions added to it.
    Raises NotFound for an unknown decision or another owner's, and BadInput for one that was undone already or whose
    memories were changed since; the error names the later decision, which is to be undone first.
    """
    undone = revert(db, undoable(db, name, scope), who, now)
    if undone is None:
        raise BadInput(f"{name} cannot be undone: its memories were forgotten since")
    return undone


def undoable(db: Connection, name: str, scope: Scope) -> Row:
    """The row of a decision by its name. Raises NotFound, and BadInput if it was undone already."""
    row = _visible_row(db, name, scope)
    if row["undone_by"] is not None:
        raise BadInput(f"{name} was undone by d{row['undone_by']}. To have it again: undo d{row['undone_by']}")
    return row


def undo_run(db: Connection, run: str, scope: Scope, who: str, now: datetime) -> list[Decision]:
    """Take back what a run of a job decided about a scope's memories and was not undone yet, the latest first.

    All or nothing, in one transaction. Raises NotFound for an unknown run, BadInput for one that was undone already or
    whose memories were changed since; the error names the later decision.
    """
    rows = of_run(db, run, scope)
    if not rows:
        raise NotFound(f"no run {run!r} decided anything here")
    left = [row for row in rows if row["undone_by"] is None]
    undone = [decision for row in left if (decision := revert(db, row, who, now)) is not None]
    if not undone:
        what = "its memories were forgotten since" if left else "each of its decisions was undone already"
        raise BadInput(f"the run {run} cannot be undone: {what}")
    return undone


def revert(db: Connection, row: Row, who: str, now: datetime) -> Decision | None:
    """Take back what the decision of a row changed about memories; None if nothing of it is left.

    Raises BadInput if a later decision changed the same.
    """
    name = f"d{row['id']}"
    changes: dict[str, Change] = {}
    external: list[tuple[str, StateChange]] = []
    for one in db.execute("select * from state_change where decision = ? order by item", (row["id"],)).fetchall():
        before, after = _read_change(one["before"]), _read_change(one["after"])
        there = db.execute("select * from event where event_id = ?", (one["item"],)).fetchone()
        if there is None:
            state = externals(db).get(one["item"], State())
            external.append((one["item"], before))
        elif there["forgotten"]:
            continue
        else:
            state = state_of(there)
            before, after = _without_repetition(db, one, state, before, after)
            changes[one["item"]] = before
        if any(getattr(state, field) != value for field, value in after.items()):
            later = db.execute(
                "select max(decision) from state_change where item = ? and decision > ?", (one["item"], row["id"])
            ).fetchone()[0]
            ref = one["item"] if there is None else short_ref(there["seq"])
            raise BadInput(f"{name} cannot be undone: d{later} changed {ref} since. Undo d{later} first")
    undone = decide(db, changes, who, f"undo of {name}", now, undoes=row["id"])
    for ref, before in external:
        undone = decide_external(db, row["tenant"], row["user_id"], ref, before, who, f"undo of {name}", now) or undone
    if undone is None:
        return None
    link_undo(db, row, undone.id)
    return replace(undone, undoes=row["id"])


def link_undo(db: Connection, row: Row, undone_by: int) -> None:
    """Note that one decision took the decision of a row back."""
    db.execute("update decision set undoes = ? where id = ?", (row["id"], undone_by))
    db.execute("update decision set undone_by = ? where id = ?", (undone_by, row["id"]))
    if row["undoes"] is not None:  # what this had taken back holds again, and may be undone again
        db.execute("update decision set undone_by = null where id = ?", (row["undoes"],))


def _without_repetition(
    db: Connection, changed: Row, state: State, before: StateChange, after: StateChange
) -> tuple[StateChange, StateChange]:
    """The values that take one repetition back from a memory that was repeated again since, and those to compare.

    Repetitions add up, so each can be taken back alone. A confidence that something else has set since is kept.
    """
    if "reinforced_count" not in after or state.reinforced_count == after["reinforced_count"]:
        return before, after
    count = _minus(state.reinforced_count, before, after, "reinforced_count")
    kept: dict[str, Any] = {name: getattr(state, name) for name in ("confidence", "reinforced_at") if name in after}
    restored = {**before, **kept, "reinforced_count": count}
    if "confidence" in after and not _set_since(db, changed["item"], changed["decision"]):
        restored["confidence"] = round(_minus(state.confidence, before, after, "confidence"), 6)
    now = {**after, **kept, "reinforced_count": state.reinforced_count}
    return cast(StateChange, restored), cast(StateChange, now)


def _minus(now: float, before: StateChange, after: StateChange, name: str) -> Any:
    """A number without what a change added to it."""
    return max(0, now - (cast(Any, after)[name] - cast(Any, before)[name]))


def _set_since(db: Connection, item: str, decision: int) -> bool:
    """Whether a later decision than this one has set a memory's confidence, other than by a repetition."""
    later = db.execute(
        "select 1 from state_change where item = ? and decision > ? "
        "and json_type(after, '$.confidence') is not null and json_type(after, '$.reinforced_count') is null",
        (item, decision),
    )
    return later.fetchone() is not None


def log(
    db: Connection, scope: Scope, limit: int, *, ref: str | None = None, before: int | None = None
) -> list[Decision]:
    """The latest decisions on a scope's memories, newest first, those before the number ``before``.

    ``ref`` names one memory. Raises NotFound for an unknown one.
    """
    terms, values = _of_owner(scope)
    if ref is not None:
        item = ref if is_external(ref) else row_of(db, ref, scope)["event_id"]
        terms.append("id in (select decision from state_change where item = ?)")
        values.append(storable(item))
    rows = db.execute(
        f"select * from decision where {' and '.join(terms)} and id < ? order by id desc limit ?",
        (*values, before if before is not None else 1 << 62, limit),
    ).fetchall()
    return [_decision(db, row) for row in rows]


def counts(db: Connection) -> dict[tuple[str, str], int]:
    """The number of decisions, by who made them (job, caller) and what they do (decide, undo)."""
    rows = db.execute(
        "select run is not null as job, undoes is not null as undo, count(*) as n from decision group by 1, 2"
    )
    return {("job" if row["job"] else "caller", "undo" if row["undo"] else "decide"): row["n"] for row in rows}


def of_run(db: Connection, run: str, scope: Scope) -> list[Row]:
    """The rows of the decisions of one run of a job on a scope's memories, the latest first."""
    terms, values = _of_owner(scope)
    return db.execute(
        f"select * from decision where run = ? and {' and '.join(terms)} order by id desc", (storable(run), *values)
    ).fetchall()


def _of_owner(scope: Scope) -> tuple[list[str], list[str]]:
    """The SQL conditions on decisions about a scope's memories, and their values."""
    if scope.user_id is None:
        return ["tenant = ?"], [scope.tenant]
    return ["tenant = ?", "coalesce(user_id, '') = ?"], [scope.tenant, storable(scope.user_id)]


def decided_on(db: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those of these memories on which something was ever decided."""
    rows = db.execute(f"select distinct item from state_change where item in {VALUES}", listed(event_ids))
    return {row["item"] for row in rows}


def is_taken_over(db: Connection, backend: str) -> bool:
    """Whether the states that a backend decided alone in earlier versions are in the journal."""
    return db.execute("select 1 from states_taken_over where backend = ?", (backend,)).fetchone() is not None


def mark_taken_over(db: Connection, backend: str) -> None:
    """Note that they are."""
    db.execute("insert into states_taken_over values(?) on conflict do nothing", (backend,))


def kept_apart(db: Connection, event_ids: Sequence[str]) -> set[tuple[str, str]]:
    """The pairs (memory, memory that it was merged into) whose merge was undone: no job may merge them again."""
    rows = db.execute(
        "select c.item, json_extract(c.after, '$.merged_into') as other from state_change c "
        f"join decision d on d.id = c.decision where c.item in {VALUES} and d.undone_by is not null "
        "and json_extract(c.after, '$.merged_into') is not null",
        listed(event_ids),
    )
    return {(row["item"], row["other"]) for row in rows}


def endings_reverted(db: Connection, event_ids: Sequence[str]) -> set[tuple[str, str]]:
    """The memories that somebody made current again, each with the reason for which it had ended.

    No job may end them again for that reason. What the gateway released by itself does not count.
    """
    rows = db.execute(
        "select c.item, json_extract(c.before, '$.ended') as why from state_change c "
        f"join decision d on d.id = c.decision where c.item in {VALUES} and d.undone_by is null "
        "and d.who <> 'gateway' and json_type(c.after, '$.ended') = 'null' "
        "and json_extract(c.before, '$.ended') is not null",
        listed(event_ids),
    )
    return {(row["item"], row["why"]) for row in rows}


def carry_conflict_over(db: Connection, old_id: str, new_id: str, now: datetime) -> None:
    """Let a new version of a memory take its place in an open conflict.

    The earlier version keeps its group: it is part of the history of the conflict.
    """
    row = db.execute("select * from event where event_id = ?", (old_id,)).fetchone()
    old = state_of(row)
    if old.conflict_status != "active":
        return
    changes: dict[str, Change] = {
        old_id: {"conflict_status": "resolved"},
        new_id: {
            "conflict_group": old.conflict_group,
            "conflict_status": "active",
            "contradicts": old.contradicts,
        },
    }
    if old.contradicts is not None:
        changes[old.contradicts] = lambda state: {"contradicts": new_id} if state.contradicts == old_id else {}
    decide(db, changes, "gateway", "the new version takes the place of the earlier one in a conflict", now)


_SET_BY_HAND = (
    *("lifetime", "confidence", "importance", "grade", "trust", "provenance", "priority", "due", "project", "tags"),
    *("ended_at", "ended"),
)
"""fields of a state that a person can set"""


def carry_settings_over(db: Connection, old_id: str, new_id: str, now: datetime) -> None:
    """Let a new version of a memory have what a person set about the earlier one, as a decision of that person.

    What jobs decided about the earlier text (a merge, a conflict, that it expired, how often it was said) stays there.
    """
    rows = db.execute(
        "select c.after from state_change c join decision d on d.id = c.decision "
        f"where c.item = ? and {A_PERSON_DECIDED} and d.undoes is null and d.undone_by is null order by d.id",
        (old_id,),
    )
    given: dict[str, Any] = {}
    for row in rows:
        given |= {name: value for name, value in _read_change(row["after"]).items() if name in _SET_BY_HAND}
    old = db.execute("select * from event where event_id = ?", (old_id,)).fetchone()
    if state_of(old).ended != given.get("ended"):
        given = {name: value for name, value in given.items() if name not in ("ended_at", "ended")}
    if given:
        decide(db, {new_id: cast(StateChange, given)}, BY_HAND, f"as set on {short_ref(old['seq'])}", now)


def release(db: Connection, event_ids: Sequence[str], why: str, now: datetime) -> list[str]:
    """Free what depended on memories that are gone: merged ones, and opponents in a conflict. Returns their ids.

    Memories that were merged into them can be found again. A conflict with one member left is over; where only losers
    are left, the best of them is current again.
    """
    gone = set(event_ids)
    merged = db.execute(f"select event_id from event where merged_into in {VALUES} and forgotten = 0", listed(gone))
    freed: list[dict[str, Change]] = [{row["event_id"]: {"merged_into": None}} for row in merged.fetchall()]
    groups = db.execute(
        f"select distinct conflict_group, tenant, user_id from event where event_id in {VALUES} "
        "and conflict_group is not null",
        listed(gone),
    ).fetchall()
    for group in groups:
        rows = db.execute(
            "select * from event where conflict_group = ? and tenant = ? and user_id is ? and forgotten = 0",
            tuple(group),
        ).fetchall()
        left = [ConflictMember(event_of(row), state_of(row)) for row in rows if row["event_id"] not in gone]
        if over := without_opponents(left):
            freed.append(dict(over))
    for changes in freed:
        decide(db, changes, "gateway", why, now)
    return [event_id for changes in freed for event_id in changes]


def changed_since(db: Connection, decision: int) -> tuple[int, list[str]]:
    """The number of the latest decision, and what the decisions after ``decision`` changed: event ids and refs."""
    items = db.execute(
        "select distinct item from state_change where decision > ? order by item", (decision,)
    ).fetchall()
    last = db.execute("select coalesce(max(id), 0) from decision").fetchone()[0]
    return max(last, decision), [row["item"] for row in items]


def changes_trust(db: Connection, items: Sequence[str]) -> bool:
    """Whether a decision ever changed the trust of one of these memories."""
    asked = f"select 1 from state_change where item in {VALUES} and (after like ? or before like ?) limit 1"
    return db.execute(asked, (*listed(items), '%"trust"%', '%"trust"%')).fetchone() is not None


def drop(db: Connection, event_id: str) -> None:
    """Remove the state of a forgotten memory and its entries of the log: reasons may quote it."""
    mine = [row["decision"] for row in db.execute("select decision from state_change where item = ?", (event_id,))]
    db.execute("delete from state_change where item = ?", (event_id,))
    db.execute(
        "update event set state = null, merged_into = null, conflict_group = null where event_id = ?", (event_id,)
    )
    db.execute(f"update decision set why = '' where id in {VALUES}", listed(mine))
    db.execute(
        f"delete from decision where id in {VALUES} and id not in (select decision from state_change)", listed(mine)
    )


def _difference(state: State, change: StateChange) -> tuple[StateChange, StateChange]:
    """The fields that a change alters, before and after it."""
    after = {name: value for name, value in change.items() if getattr(state, name) != value}
    before = {name: getattr(state, name) for name in after}
    return cast(StateChange, before), cast(StateChange, after)


def enter(
    db: Connection,
    owner: Row | Mapping[str, Any],
    who: str,
    why: str,
    now: datetime,
    run: str | None = None,
    undoes: int | None = None,
) -> int:
    """Enter a decision about something of an owner into the log, without its changes; returns its number."""
    entered = db.execute(
        "insert into decision(at, tenant, user_id, who, why, run, undoes) values(?, ?, ?, ?, ?, ?, ?) returning id",
        (microseconds(now), owner["tenant"], owner["user_id"], storable(who), storable(why), run, undoes),
    )
    return int(entered.fetchone()["id"])


def _put(db: Connection, decision: int, item: str, before: StateChange, after: StateChange) -> None:
    values = (decision, item, orjson.dumps(before).decode(), orjson.dumps(after).decode())
    db.execute("insert into state_change values(?, ?, ?, ?)", values)


def _read_change(written: str) -> StateChange:
    state = read_state(written)
    return cast(StateChange, {name: getattr(state, name) for name in orjson.loads(written)})


_PUT_EXTERNAL = replacing("external_state", "tenant, ref", "state")


def _store_external(db: Connection, tenant: str, ref: str, state: State) -> None:
    written = written_state(state, None)
    if written is None:
        db.execute("delete from external_state where tenant = ? and ref = ?", (tenant, ref))
    else:
        db.execute(_PUT_EXTERNAL, (tenant, ref, written))


def _visible_row(db: Connection, name: str, scope: Scope) -> Row:
    number = parse_name(name)
    row = None if number is None else db.execute("select * from decision where id = ?", (number,)).fetchone()
    if row is None or row["tenant"] != scope.tenant or scope.user_id not in (None, row["user_id"]):
        raise NotFound(f"there is no decision {name!r} here")
    found: Row = row
    return found


def decision_of(db: Connection, number: int) -> Decision:
    """The decision of a number."""
    return _decision(db, db.execute("select * from decision where id = ?", (number,)).fetchone())


def _decision(db: Connection, row: Row) -> Decision:
    about = db.execute("select proposal from proposal_decision where decision = ?", (row["id"],)).fetchone()
    changes = db.execute(
        "select c.*, e.seq from state_change c left join event e on e.event_id = c.item where c.decision = ? "
        "order by c.item",
        (row["id"],),
    )
    altered = tuple(
        Altered(
            one["item"] if one["seq"] is None else short_ref(one["seq"]),
            one["item"],
            _read_change(one["before"]),
            _read_change(one["after"]),
        )
        for one in changes
    )
    more = (row["run"], row["undoes"], row["undone_by"], None if about is None else f"p{about['proposal']}")
    return Decision(row["id"], time_of(row["at"]), row["who"], row["why"], altered, *more)
