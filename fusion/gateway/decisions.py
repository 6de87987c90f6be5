"""What users decide about a memory: its state, the log of decisions, and their undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from fusion import wire
from fusion.contract import (
    ImportanceGrade,
    Lifetime,
    Moment,
    Priority,
    Provenance,
    Scope,
    State,
    StateChange,
    Trust,
)
from fusion.errors import BadInput
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal, state
from fusion.journal.external_refs import is_external
from fusion.journal.rows import Record
from fusion.journal.state import BY_HAND, Decision
from fusion.lib.importance import BY_HAND as BY_HAND_GRADE

_OF_EVENTS_ONLY = ("lifetime", "confidence", "importance", "provenance", "priority", "due", "project", "tags")


@dataclass(frozen=True, slots=True)
class StateRequest:
    """What to change about the memory ``ref``; fields that are None stay. ``archived`` False makes it current again."""

    ref: str
    scope: Scope
    archived: bool | None = None
    trust: Trust | None = None
    lifetime: Lifetime | None = None
    confidence: float | None = None
    importance: float | Literal["unknown"] | None = None
    provenance: Provenance | None = None
    priority: Priority | None = None
    due: Moment | None = None
    project: str | None = None
    tags: tuple[str, ...] | None = None
    why: str = ""

    def change(self, now: datetime) -> StateChange:
        """The fields of the state to change. Raises BadInput for none, and for those that an external item lacks."""
        names = ("trust", *_OF_EVENTS_ONLY)
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.archived is not None:
            given |= {"ended_at": now, "ended": "archived"} if self.archived else {"ended_at": None, "ended": None}
        if not given:
            raise BadInput(f"say what to change: archived, {', '.join(names[:-1])} or {names[-1]}")
        if is_external(self.ref) and (wrong := [name for name in _OF_EVENTS_ONLY if name in given]):
            raise BadInput(f"{wrong[0]}: {self.ref} is kept by its backend alone; set archived or trust")
        if self.importance is not None:
            given["importance"] = None if self.importance == "unknown" else self.importance
            given["grade"] = ImportanceGrade(BY_HAND_GRADE, now, self.why)
        return cast(StateChange, given)


async def set_state(
    request: StateRequest,
    journal: Journal,
    deliverer: Deliverer,
    now: datetime,
    *,
    may_raise_trust: bool,
    who: str = BY_HAND,
) -> wire.StateReply:
    """Change the state of one memory, as a decision of ``who``. Raises BadInput, and NotFound for an unknown ref."""
    change = request.change(now)
    why = request.why or "set by hand"
    if is_external(request.ref):
        decision = await journal.decide_external(
            request.ref, request.scope, change, who, why, may_raise_trust=may_raise_trust
        )
    else:
        record = await journal.find(request.ref, request.scope)
        changes = {record.event.event_id: _change_of(record, change, revives=request.archived is False)}
        decision = await journal.decide(changes, who, why, may_raise_trust=may_raise_trust)
        deliverer.wake()
    return {"decision": None if decision is None else shown(decision)}


@dataclass(frozen=True, slots=True)
class StatesRequest:
    """What to change about several memories of one owner; ``change`` names the first of them.

    With ``dry_run`` it is only shown what would change.
    """

    refs: tuple[str, ...]
    change: StateRequest
    dry_run: bool = False

    @property
    def scope(self) -> Scope:
        return self.change.scope


async def set_states(
    request: StatesRequest,
    journal: Journal,
    deliverer: Deliverer,
    now: datetime,
    *,
    may_raise_trust: bool,
    who: str = BY_HAND,
) -> wire.StatesReply:
    """Change the state of several memories of one owner, as one decision of ``who``, or show that. Raises BadInput."""
    if external := [ref for ref in request.refs if is_external(ref)]:
        raise BadInput(f"refs: {external[0]} is kept by its backend alone; change it by POST /v1/state")
    change = request.change.change(now)
    records = await journal.find_all(request.refs, request.scope)
    if len({record.event.scope.user_id for record in records.values()}) > 1:
        raise BadInput("refs: they belong to several users; one decision is on the memories of one. Name a user_id")
    revives = request.change.archived is False
    decision = await journal.decide(
        {one.event.event_id: _change_of(one, change, revives=revives) for one in records.values()},
        who,
        request.change.why or "set by hand",
        may_raise_trust=may_raise_trust,
        dry_run=request.dry_run,
    )
    if decision is not None and not request.dry_run:
        deliverer.wake()
    made = None if decision is None else shown(decision)
    changes = [] if made is None else made["changes"]
    changed = {one["ref"] for one in changes}
    return {
        "dry_run": request.dry_run,
        "decision": None if request.dry_run else made,
        "changes": changes,
        "unchanged": list(dict.fromkeys(one.ref for one in records.values() if one.ref not in changed)),
        "missing": [ref for ref in dict.fromkeys(request.refs) if ref not in records],
    }


def _change_of(record: Record, change: StateChange, *, revives: bool) -> StateChange:
    """A change as it applies to one memory; one that lost a conflict and is current again has lost it no more."""
    if revives and record.state.ended == "lost":
        change = {**change, "conflict_status": None}
    return _without_same_grade(change, record.state)


def _without_same_grade(change: StateChange, known: State) -> StateChange:
    """A change without an importance that a person gave already: its time alone is no change."""
    by_hand = known.grade is None or known.grade.method == BY_HAND_GRADE
    if "grade" not in change or not by_hand or change["importance"] != known.importance:
        return change
    if known.importance is None and known.grade is None:  # nobody had said that it is unknown
        return change
    return cast(StateChange, {name: value for name, value in change.items() if name not in ("importance", "grade")})


async def undo(
    name: str, scope: Scope, journal: Journal, deliverer: Deliverer, *, may_raise_trust: bool, who: str = BY_HAND
) -> wire.DecisionUndone:
    """Take a decision back, as a decision of ``who``. Raises as `Journal.undo_decision`."""
    decision = await journal.undo_decision(name, scope, who, may_raise_trust=may_raise_trust)
    deliverer.wake()
    return {"decision": shown(decision), "undone": 1}


async def undo_run(
    run: str, scope: Scope, journal: Journal, deliverer: Deliverer, *, may_raise_trust: bool, who: str = BY_HAND
) -> wire.DecisionUndone:
    """Take back what a run of a job decided, as decisions of ``who``. Raises as `Journal.undo_run`."""
    made = await journal.undo_run(run, scope, who, may_raise_trust=may_raise_trust)
    deliverer.wake()
    return {"decision": None, "undone": len(made)}


def shown(decision: Decision) -> wire.Decision:
    """A decision as doors show it."""
    entry: wire.Decision = {
        "id": decision.name,
        "at": decision.at.isoformat(),
        "who": decision.who,
        "why": decision.why,
        "changes": [
            {"ref": one.ref, "before": cast(dict[str, Any], one.before), "after": cast(dict[str, Any], one.after)}
            for one in decision.changes
        ],
        "run": decision.run,
        "undoes": None if decision.undoes is None else f"d{decision.undoes}",
        "undone_by": None if decision.undone_by is None else f"d{decision.undone_by}",
    }
    if decision.proposal is not None:
        entry["proposal"] = decision.proposal
    return entry


def shown_state(found: State, default: State) -> Mapping[str, Any]:
    """The fields of a state that differ from a new memory's."""
    names = State.__dataclass_fields__
    return {name: value for name in names if (value := getattr(found, name)) != getattr(default, name)}


def position(name: str | None) -> int | None:
    """The number of the decision that a page of the log ends before. Raises BadInput for another text."""
    number = None if name is None else state.parse_name(name)
    if name is not None and number is None:
        raise BadInput("cursor: it is invalid; send a page's next_cursor unchanged, or no cursor for the first page")
    return number
