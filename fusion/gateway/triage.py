"""The calls on an open home about what needs a person: proposals, conflicts, doubtful memories, and what failed.

Each source returns its items with an urgency from 1 to 100. A source that has more is added to `SOURCES`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from fusion import wire
from fusion.contract import Scope, StateChange, Trust
from fusion.errors import BadInput, NotFound, StoreFull
from fusion.gateway import dead_letters
from fusion.gateway.decisions import StateRequest, set_state
from fusion.gateway.extracting import ExtractCalls
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.gateway.plans import status_of
from fusion.gateway.shepherding import open_incidents
from fusion.ingest.forget import shorten
from fusion.journal import proposals, triage
from fusion.journal.plans import plans
from fusion.journal.proposals import Decider, parse_name
from fusion.journal.rows import Record
from fusion.lib.words import spoken

CONFLICT = "conflict:"
"""the prefix of the id of a conflict's item, before its group"""
PER_SOURCE = 50
"""items of one source at most"""
URGENCY = {
    "incident": 90,
    "failed_delivery": 80,
    "low_trust": 70,
    "conflict": 60,
    "failed_job": 50,
    "overdue_plan": 45,
    "quarantined": 40,
    "dead_letters": 35,
    "proposal": 30,
}
"""the urgency of each kind: what changes answers wrongly now comes before what waits"""
_KEYS = {"approve": "a", "reject": "r", "trust": "t", "release": "e", "quarantine": "q", "archive": "x", "seen": "d"}
_TRUST_OF: dict[str, Trust] = {"trust": "trusted", "release": "unknown", "quarantine": "quarantined"}
_DOES = {
    "trust": "trust it: the owner alone may",
    "release": "let it be answered, with the trust unknown",
    "quarantine": "keep it out of every answer",
    "archive": "hide it as out of date",
}

Source = Callable[[TenantParts, Scope], Awaitable[Sequence[wire.TriageItem]]]
"""lists the items of one kind in a scope"""


class TriageCalls(ExtractCalls):
    """The calls of triage, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def triage(self, scope: Scope, limit: int = 20) -> wire.Triage:
        """What needs a person in a scope, the most urgent first, and of those the oldest."""
        found = [item for source in SOURCES for item in await source(self, scope)]
        found.sort(key=lambda item: (-item["urgency"], item["at"] or ""))
        counts = Counter(str(item["kind"]) for item in found)
        return {"items": found[:limit], "counts": dict(counts), "more": len(found) > limit}

    @in_tenant
    async def decide_triage(
        self, item: str, choice: str, scope: Scope, by: Decider, why: str = "", *, may_raise_trust: bool = True
    ) -> wire.TriageDecided:
        """Decide an item by one of its choices, as an entry of the log of decisions.

        Raises NotFound for an item that is not there, and BadInput for a choice that it does not have.
        """
        if parse_name(item) is not None:
            if choice not in ("approve", "reject"):
                raise _no_choice(item, choice, ("approve", "reject"))
            if choice == "reject":
                done = await self.reject(item, scope, by, why)
            else:
                done = await self.approve(item, scope, by, why=why)
            return _decided(item, choice, done["decision"], done["ref"], stored=done["writes_performed"])
        if item.startswith(CONFLICT):
            return await self._resolve(item, choice, scope, by, why)
        if item.startswith(dead_letters.PREFIX):
            return await self._set_aside(item, choice, scope, by, why)
        if choice not in _DOES:
            raise _no_choice(item, choice, tuple(_DOES))
        request = StateRequest(
            item,
            scope,
            archived=True if choice == "archive" else None,
            trust=_TRUST_OF.get(choice),
            why=why or f"triage: {choice}",
        )
        now = self.live.now()
        reply = await set_state(request, self.journal, self.deliverer, now, may_raise_trust=may_raise_trust, who=by.who)
        made = reply["decision"]
        return _decided(item, choice, None if made is None else made["id"], item, stored=False)

    async def _resolve(self, item: str, choice: str, scope: Scope, by: Decider, why: str) -> wire.TriageDecided:
        """Resolve a conflict: one side stays current, the others end as lost."""
        sides = await self.journal.read(triage.sides_of, scope, item.removeprefix(CONFLICT))
        if not sides:
            raise NotFound(f"there is no open conflict {item!r} here")
        ref = choice.removeprefix("keep:")
        winner = next((side for side in sides if side.ref == ref), None)
        if winner is None:
            raise _no_choice(item, choice, tuple(f"keep:{side.ref}" for side in sides))
        now = self.live.now()
        lost: StateChange = {"conflict_status": "resolved", "ended_at": now, "ended": "lost"}
        kept: StateChange = {"conflict_status": None}
        changes = {side.event.event_id: kept if side is winner else lost for side in sides}
        made = await self.journal.decide(changes, by.who, why or f"conflict resolved: {ref} holds", now=now)
        self.deliverer.wake()
        return _decided(item, choice, None if made is None else made.name, ref, stored=False)

    async def _set_aside(self, item: str, choice: str, scope: Scope, by: Decider, why: str) -> wire.TriageDecided:
        """Set the dead letters of an item aside: they stay in a file, and triage does not show them again."""
        if choice != "seen":
            raise _no_choice(item, choice, ("seen",))
        until = None if scope.named() else dead_letters.newest_of(item)
        if until is None:
            raise NotFound(f"there is no item {item!r} here")
        self.observations.require_writable()
        letters = self.observations.dead_letters
        try:
            moved = await asyncio.to_thread(letters.set_aside, until, by.who, why, self.live.now())
        except OSError as error:
            raise StoreFull(f"{letters.seen_file} cannot be written ({error.strerror}): make room there") from error
        kept_in = letters.seen_file.name if moved else None
        return {**_decided(item, choice, None, None, stored=False), "kept_in": kept_in}


def _no_choice(item: str, choice: str, there: Sequence[str]) -> BadInput:
    return BadInput(f"choice: {item} has no {choice[:64]!r}; there are {', '.join(there)}")


def _decided(item: str, choice: str, decision: str | None, ref: str | None, *, stored: bool) -> wire.TriageDecided:
    return {"id": item, "choice": choice, "decision": decision, "ref": ref, "writes_performed": stored, "kept_in": None}


# The sources


async def _proposals(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    found = await parts.journal.read(proposals.page, scope, PER_SOURCE)
    return [
        _item(
            one.name,
            "proposal",
            f"{one.proposed_by} proposes it"
            + (f": {shorten(one.reason)}" if one.reason else "")
            + ("; somebody forgot these words before" if one.forgotten_before else ""),
            shorten(one.text),
            one.at,
            choices=[
                _choice(one.name, "approve", "store it as a memory"),
                _choice(one.name, "reject", "store nothing"),
            ],
            command=f"fusion proposals {one.name}",
        )
        for one in found
    ]


async def _conflicts(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    found = await parts.journal.read(triage.open_conflicts, scope, PER_SOURCE)
    return [
        _item(
            f"{CONFLICT}{one.group}",
            "conflict",
            "memories contradict each other, and answers show both as disputed",
            " / ".join(_text(side) for side in one.sides[:2]),
            one.sides[0].event.recorded_at,
            sides=one.sides,
            choices=[
                _choice(f"{CONFLICT}{one.group}", f"keep:{side.ref}", f"{side.ref} holds, the others do not", str(n))
                for n, side in enumerate(one.sides[:9], start=1)
            ],
            command=f"fusion get {one.sides[0].ref}",
        )
        for one in found
    ]


async def _quarantined(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    found = await parts.journal.read(triage.quarantined, scope, PER_SOURCE)
    return [
        _doubtful(one, "quarantined", "it is quarantined, and no person decided that", ("release", "quarantine"))
        for one in found
    ]


async def _low_trust(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    found = await parts.journal.read(triage.untrusted_but_used, scope, PER_SOURCE)
    return [
        _doubtful(one, "low_trust", f"it is untrusted and was in {used:,} blocks", ("trust", "release", "quarantine"))
        for one, used in found
    ]


async def _overdue_plans(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    now = parts.live.now()
    found = await parts.journal.read(plans, scope, PER_SOURCE, by=now)
    why = "its time is over, and nobody archived it as done"
    return [_doubtful(one, "overdue_plan", why, ()) for one in found if status_of(one, now) == "overdue"]


async def _incidents(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    if parts.tenant != DEFAULT or scope.named():
        return []
    found = await asyncio.to_thread(open_incidents, parts.settings, parts.live.now())
    why = "MEMORY.md drifted from what a person approved"
    return [
        _item(f"incident:{n}", "incident", why, shorten(line), None, command="fusion shepherd diff")
        for n, line in enumerate(found, start=1)
    ]


async def _failed_deliveries(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    if scope.named():
        return []
    found = await parts.journal.deliveries()
    return [
        _item(
            f"backend:{name}",
            "failed_delivery",
            f"{one.failed:,} memories were given up for {name}, so it does not find them",
            shorten(one.reason or ""),
            None,
            command="fusion backends",
        )
        for name, one in found.items()
        if one.failed
    ]


async def _failed_jobs(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    if parts.tenant != DEFAULT or scope.named():
        return []
    _, failed = await parts.journal.upkeep()
    return [
        _item(
            f"job:{one['job']}",
            "failed_job",
            f"the last run of the job {one['job']} failed",
            shorten(one["why"]),
            None,
            command=f"fusion jobs log {one['job']}",
        )
        for one in failed
    ]


async def _dead_letters(parts: TenantParts, scope: Scope) -> Sequence[wire.TriageItem]:
    if scope.named():
        return []
    found = await asyncio.to_thread(parts.observations.dead_letters.listed)
    if not found:
        return []
    name, newest = dead_letters.item_of(found), max(one.at for one in found)
    return [
        _item(
            name,
            "dead_letters",
            f"the harvest of observations refused {len(found):,} records, the last on {newest:%Y-%m-%d at %H:%M}; "
            "the job episodes reads a file again that you mend",
            dead_letters.summary(found),
            newest,
            choices=[_choice(name, "seen", "set them aside; the list of them is kept")],
            command="fusion jobs run episodes",
        )
    ]


SOURCES: tuple[Source, ...] = (
    _incidents,
    _failed_deliveries,
    _low_trust,
    _conflicts,
    _failed_jobs,
    _overdue_plans,
    _quarantined,
    _dead_letters,
    _proposals,
)


def _doubtful(record: Record, kind: wire.TriageKind, why: str, names: Sequence[str]) -> wire.TriageItem:
    choices = [_choice(record.ref, name, _DOES[name]) for name in (*names, "archive")]
    event = record.event
    return _item(
        record.ref,
        kind,
        why,
        _text(record),
        event.recorded_at,
        sides=(record,),
        choices=choices,
        command=f"fusion get {record.ref}",
    )


def _item(
    name: str,
    kind: wire.TriageKind,
    why: str,
    text: str,
    at: datetime | None,
    *,
    sides: Sequence[Record] = (),
    choices: Sequence[wire.TriageChoice] = (),
    command: str,
) -> wire.TriageItem:
    return {
        "id": name,
        "kind": kind,
        "urgency": URGENCY[kind],
        "why": why,
        "text": text,
        "at": None if at is None else at.isoformat(),
        "sides": [
            {
                "ref": side.ref,
                "text": _text(side),
                "at": (side.said_at or side.event.recorded_at).isoformat(),
                "trust": side.trust,
            }
            for side in sides
        ],
        "choices": list(choices),
        "command": command,
    }


def _choice(item: str, name: str, does: str, key: str | None = None) -> wire.TriageChoice:
    return {"name": name, "key": key or _KEYS[name], "does": does, "command": f"fusion triage {item} {name}"}


def _text(record: Record) -> str:
    """A memory as one short line without secrets."""
    return shorten(spoken(record.event.text, record.event.speaker))
