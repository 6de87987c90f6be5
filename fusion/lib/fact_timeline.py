"""The view of temporal facts: what the assertions about a subject make of each other, and what their sources allow.

It is a pure function of the assertions and of the state of their sources, so a rebuilt view cannot differ from one that
grew. Of a predicate with one object, an assertion ends the one before it. An assertion, or an end, by a less trusted
memory changes nothing about a fact of a more trusted one, nor does an assertion that only untrusted sources support:
both stand, and `fusion.lib.fact_lint` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fusion.contract import Trust
from fusion.lib.temporal_facts import (
    RULES,
    TIERS,
    Assertion,
    Ending,
    FactStatus,
    Source,
    TemporalFact,
    Tier,
)

_RANK: dict[Trust, int] = {"quarantined": 0, "untrusted": 1, "unknown": 2, "trusted": 3}


@dataclass(frozen=True, slots=True)
class Asserted:
    """An assertion, or an end, as the journal has it. Quarantined memories assert nothing: leave them out.

    ``gone_at`` is when the memory was replaced (``gone`` "replaced") or its note lost the line ("retired"). ``ended``
    is why the memory itself is not current any more: archived, expired and so on.
    """

    id: str
    ref: str
    owner: str
    what: Assertion | Ending
    recorded_at: datetime
    trust: Trust = "unknown"
    sources: tuple[Source, ...] = ()
    gone: str | None = None
    gone_at: datetime | None = None
    ended: str | None = None
    is_line: bool = False
    """whether it is a line of the memory's text"""


def view(asserted: Sequence[Asserted], now: datetime, max_age: timedelta | None = None) -> list[TemporalFact]:
    """The facts that these assertions make, by owner, subject, predicate and time.

    Give all assertions about a subject. Facts whose sources are all older than ``max_age`` are stale.
    """
    facts = [_fact(one, one.what) for one in asserted if isinstance(one.what, Assertion)]
    facts.sort(key=_order)
    facts = _succeeded(facts, {one.id: one for one in asserted})
    facts = _ended(facts, asserted)
    return [_judged(fact, now, max_age) for fact in facts]


def _order(fact: TemporalFact) -> tuple[str, str, str, datetime, datetime, str]:
    return fact.owner, fact.subject, fact.assertion.predicate, fact.valid_from, fact.recorded_at, fact.id


def _fact(one: Asserted, what: Assertion) -> TemporalFact:
    reasons = [f"its source {source.ref} is {source.status}" for source in one.sources if source.status != "ok"]
    reasons = reasons if all(source.status != "ok" for source in one.sources) else []
    if one.ended not in (None, "retired"):  # a memory is retired when its validity ends, as the fact's does
        reasons.append(f"the memory that asserts it is {one.ended}")
    status: FactStatus = "active"
    valid_to = what.valid_to
    if one.gone is not None and one.gone_at is not None:
        status = "superseded" if one.gone == "replaced" else "retracted"
        valid_to = one.gone_at if valid_to is None else min(valid_to, one.gone_at)
    return TemporalFact(
        one.id,
        one.ref,
        what,
        one.owner,
        one.trust,
        one.recorded_at,
        what.valid_from or one.recorded_at,
        valid_to,
        status,
        _tier(one, what),
        one.sources,
        reasons=tuple(reasons),
    )


def _tier(one: Asserted, what: Assertion) -> Tier:
    """The confidence that the author claims, or by default what the sources allow; never more than that."""
    good = [source for source in one.sources if source.status == "ok" and _RANK[source.trust] >= _RANK["unknown"]]
    cap: Tier = "low"
    if good and _RANK[one.trust] >= _RANK["unknown"]:
        cap = "corroborated" if len({source.ref for source in good}) > 1 else "source_capped"
        if what.by == "operator" and any(source.trust == "trusted" for source in good):
            cap = "operator_asserted"
    return cap if what.tier is None else min(what.tier, cap, key=TIERS.index)


def _succeeded(facts: Sequence[TemporalFact], known: dict[str, Asserted]) -> list[TemporalFact]:
    """The facts with those superseded that later ones take the place of; ``facts`` are in `_order`."""
    by_id = {fact.id: fact for fact in facts}
    earlier: dict[tuple[str, str, str], list[str]] = {}
    for one in facts:
        group = earlier.setdefault((one.owner, one.subject, one.assertion.predicate), [])
        if known[one.id].gone is None:
            named = [old for old in one.assertion.supersedes if old in by_id and _is_alike(by_id[old], one)]
            holding = group if RULES[one.assertion.predicate].single else []
            for old in dict.fromkeys((*named, *(old for old in holding if _holds(by_id[old], one.valid_from)))):
                by_id[old], by_id[one.id] = _one_supersedes(by_id[old], by_id[one.id])
        group.append(one.id)
    return [by_id[fact.id] for fact in facts]


def _is_alike(old: TemporalFact, new: TemporalFact) -> bool:
    return old.id != new.id and (old.owner, old.subject) == (new.owner, new.subject)


def _holds(fact: TemporalFact, at: datetime) -> bool:
    return fact.status != "retracted" and (fact.valid_to is None or fact.valid_to > at)


def _one_supersedes(old: TemporalFact, new: TemporalFact) -> tuple[TemporalFact, TemporalFact]:
    """Both facts after the new one took the place of the old one, or was not trusted enough to."""
    if _RANK[new.trust] < _RANK[old.trust]:
        if new.assertion.object == old.assertion.object:
            return old, new
        return old, replace(new, reasons=(*new.reasons, f"{old.id}, of a more trusted memory, says otherwise"))
    if _is_unsupported(new) and not _is_unsupported(old):  # else a tool's output would end what holds
        return old, new
    began = max(new.valid_from, old.valid_from)
    ends = began if old.valid_to is None else min(old.valid_to, began)
    by = tuple(dict.fromkeys((*old.superseded_by, new.id)))
    return replace(old, status="superseded", valid_to=ends, superseded_by=by), new


def _is_unsupported(fact: TemporalFact) -> bool:
    """Whether a fact has sources that are there, none of which can be trusted."""
    there = [_RANK[source.trust] for source in fact.sources if source.status == "ok"]
    return bool(there) and max(there) < _RANK["unknown"]


def _ended(facts: Sequence[TemporalFact], asserted: Sequence[Asserted]) -> list[TemporalFact]:
    """The facts with those ended that a later act ended, in the order of these acts."""
    ends: dict[str, list[tuple[Asserted, Ending]]] = {}
    for one in sorted(asserted, key=lambda one: (one.recorded_at, one.id)):
        if isinstance(one.what, Ending) and one.gone is None and one.ended is None:
            ends.setdefault(one.what.fact, []).append((one, one.what))
    found = []
    for fact in facts:
        for one, end in ends.get(fact.id, ()):
            if one.owner == fact.owner and _RANK[one.trust] >= _RANK[fact.trust]:
                fact = _after_end(fact, end, end.at or one.recorded_at)
        found.append(fact)
    return found


def _after_end(fact: TemporalFact, end: Ending, at: datetime) -> TemporalFact:
    if end.how == "retracted":
        return replace(fact, status="retracted", valid_to=fact.valid_from)
    at = max(at, fact.valid_from)
    return replace(fact, status="invalidated", valid_to=at if fact.valid_to is None else min(fact.valid_to, at))


def _judged(fact: TemporalFact, now: datetime, max_age: timedelta | None) -> TemporalFact:
    """The fact as stale if it is active, and its sources or its age do not let it be told as current truth."""
    reasons = list(fact.reasons)
    if not fact.sources:
        reasons.append("it has no source")
    said = [fact.recorded_at, *(source.at for source in fact.sources if source.status == "ok" and source.at)]
    if max_age is not None and now - max(said) > max_age:
        reasons.append(f"nothing has confirmed it for more than {max_age.days} days")
    if not reasons and fact.tier == "low":
        reasons.append("no source of it can be trusted")
    status = "stale" if reasons and fact.status == "active" else fact.status
    return replace(fact, status=status, reasons=tuple(reasons))
