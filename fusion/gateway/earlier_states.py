"""Takes over into the journal what a backend of an earlier version decided alone: merges, endings, conflicts.

It is done once for each backend, before the journal's own states are sent there. What the journal decided about a
memory wins, also if that was undone, so an interrupted run goes on where it was. All decisions of one backend are one
run. At its end the backend has the state of the journal, also where that does not have what the backend decided.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from fusion.contract import NEW, Backend, ListsStates, State, StateChange, StoresState
from fusion.journal import Journal, state
from fusion.journal.rows import Record
from fusion.journal.state import Planned
from fusion.lib.ids import uuid7

log = logging.getLogger(__name__)

PAGE = 500
_CONFLICT = ("conflict_group", "conflict_status", "contradicts")


@dataclass(frozen=True, slots=True)
class _Decided:
    """A current memory on which a backend decided, and the fields that the journal does not have."""

    record: Record
    change: StateChange

    @property
    def id(self) -> str:
        return self.record.event.event_id

    @property
    def owner(self) -> tuple[str, str | None]:
        return self.record.event.scope.tenant, self.record.event.scope.user_id


async def take_over(journal: Journal, stores: Mapping[str, Backend]) -> None:
    """Take over the states of those of these backends that were not asked before; one that fails is asked next time."""
    for name, store in stores.items():
        if not isinstance(store, ListsStates) or await journal.read(state.is_taken_over, name):
            continue
        try:
            if (await journal.watermark()).events:
                await _take_over(journal, name, store)
            await journal.write(state.mark_taken_over, name)
        except Exception as error:  # noqa: BLE001 — no fault of a backend keeps a home closed
            log.warning("what %s decided is taken over at the next start: %s", name, error)


async def _take_over(journal: Journal, name: str, store: ListsStates) -> None:
    run, taken, after = str(uuid7()), 0, ""
    different: list[str] = []
    groups: defaultdict[tuple[object, ...], list[_Decided]] = defaultdict(list)
    while page := await store.states(after, PAGE):
        after = page[-1][0]
        records = await _current(journal, page)
        different += [id_ for id_, theirs in page if id_ in records and theirs != records[id_].state]
        found = await _decided(journal, page, records)
        alone = [one for one in found if "conflict_group" not in one.change]
        for one in found:
            if group := one.change.get("conflict_group"):
                groups[*one.owner, group].append(one)
        taken += len(await journal.decide_all(_plans(name, alone), name, run=run))
    plans = [plan for members in groups.values() for plan in _conflict(name, members)]
    taken += len(await journal.decide_all(plans, name, run=run))
    if isinstance(store, StoresState):
        for first in range(0, len(different), PAGE):
            own = await journal.records(different[first : first + PAGE])
            await store.set_states({id_: record.state for id_, record in own.items()})
    if taken:
        log.info("%s decided on memories alone: the journal took over %d decisions as run %s", name, taken, run)


async def _current(journal: Journal, page: Sequence[tuple[str, State]]) -> dict[str, Record]:
    """The current memories of a page, and those that they are merged into."""
    merged_into = [theirs.merged_into for _, theirs in page if theirs.merged_into is not None]
    records = await journal.records([*(id_ for id_, _ in page), *merged_into])
    return {id_: record for id_, record in records.items() if not record.forgotten and record.superseded_by is None}


async def _decided(
    journal: Journal, page: Sequence[tuple[str, State]], current: Mapping[str, Record]
) -> list[_Decided]:
    """The memories of a page whose states are not in the journal and on which it did not decide."""
    known = await journal.read(state.decided_on, [id_ for id_, _ in page])
    found = []
    for id_, theirs in page:
        if id_ not in current or id_ in known:
            continue
        own = current[id_].state
        change = {
            field: value
            for field in StateChange.__annotations__
            if (value := getattr(theirs, field)) not in (getattr(NEW, field), getattr(own, field))
        }
        one = _Decided(current[id_], cast(StateChange, change))
        target = current.get(theirs.merged_into or "")
        if "merged_into" in change and (target is None or _Decided(target, {}).owner != one.owner):
            del change["merged_into"]
        if change:
            found.append(one)
    return found


def _plans(name: str, found: Sequence[_Decided]) -> list[Planned]:
    """A decision for each merge, and one for each owner and reason of the others."""
    groups: defaultdict[tuple[object, ...], list[_Decided]] = defaultdict(list)
    for one in found:
        if into := one.change.get("merged_into"):
            groups[*one.owner, f"consolidated by {name}: another memory says the same", into, one.id].append(one)
        elif ended := one.change.get("ended"):
            groups[*one.owner, f"{ended}, as {name} decided"].append(one)
        else:
            groups[*one.owner, f"as {name} has it"].append(one)
    return [_plan(mine, str(key[2])) for key, mine in groups.items()]


def _conflict(name: str, members: Sequence[_Decided]) -> list[Planned]:
    """The decision on a conflict; an open one that has no second side here is none."""
    sides = [one.id for one in members if one.change.get("conflict_status") == "active"]
    if len(sides) == 1:
        without = [_without_conflict(one) if one.id in sides else one for one in members]
        return _plans(name, [one for one in without if one.change])
    for one in members:
        if one.id in sides and one.change.get("contradicts") not in sides:
            one.change["contradicts"] = next(id_ for id_ in sides if id_ != one.id)
    return [_plan(members, f"a conflict, as {name} decided")]


def _without_conflict(one: _Decided) -> _Decided:
    kept = {field: value for field, value in one.change.items() if field not in _CONFLICT}
    return _Decided(one.record, cast(StateChange, kept))


def _plan(found: Sequence[_Decided], why: str) -> Planned:
    changes = {one.id: one.change for one in found}
    return Planned(changes, why, {one.id: one.record.state for one in found}, whole=False)
