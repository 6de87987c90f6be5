"""What is wrong with a view of temporal facts, in words with the fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from fusion.errors import BadInput
from fusion.lib.temporal_facts import RULES, TIERS, TemporalFact, entity_ref


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding about a fact. An error makes the view contradict itself; a warning only makes a fact weaker."""

    code: str
    severity: Literal["error", "warning"]
    fact: str
    message: str
    other: str | None = None
    """the other fact of a pair"""


def issues_of(facts: Sequence[TemporalFact]) -> list[Issue]:
    """The findings, in the order of the facts. Give whole subjects."""
    found = [issue for fact in facts for issue in _of_one(fact, {one.id for one in facts})]
    return [*found, *_pairs(facts), *_unknown_subjects(facts), *_cycles(facts)]


def _of_one(fact: TemporalFact, known: set[str]) -> Iterator[Issue]:
    alive = [source for source in fact.sources if source.status == "ok"]
    if not alive:
        why = "; ".join(fact.reasons) or "it has no source"
        yield Issue("sourceless", "error", fact.id, f"{why}. Assert it again from a source that is there")
    elif len(alive) < len(fact.sources):
        lost = ", ".join(f"{one.ref} ({one.status})" for one in fact.sources if one.status != "ok")
        yield Issue("dangling_source_ref", "warning", fact.id, f"it has lost a source: {lost}")
    if alive and fact.status == "stale":
        yield Issue("stale", "warning", fact.id, f"{'; '.join(fact.reasons)}. Assert it again if it still holds")
    if fact.assertion.valid_from and fact.assertion.valid_to and fact.assertion.valid_to < fact.assertion.valid_from:
        yield Issue("interval_invalid", "error", fact.id, "it ends before it begins")
    for old in fact.assertion.supersedes:
        if old not in known:
            yield Issue("unresolved_supersedes", "warning", fact.id, f"{old}, which it supersedes, is not there", old)
    claimed = fact.assertion.tier
    if claimed is not None and TIERS.index(claimed) > TIERS.index(fact.tier):
        what = f"it claims {claimed}, and its sources allow {fact.tier}"
        yield Issue("confidence_exceeds_source_cap", "warning", fact.id, what)


def _pairs(facts: Sequence[TemporalFact]) -> Iterator[Issue]:
    """Pairs of facts of a predicate with one object whose intervals overlap: neither supersedes the other."""
    groups: dict[tuple[str, str, str], list[TemporalFact]] = {}
    for fact in facts:
        if RULES[fact.assertion.predicate].single and fact.status in ("active", "stale"):
            groups.setdefault((fact.owner, fact.subject, fact.assertion.predicate), []).append(fact)
    for group in groups.values():
        for one, other in combinations(group, 2):
            if not _overlap(one, other):
                continue
            same = one.assertion.object == other.assertion.object
            code = "overlapping_validity" if same else "contradictory_active"
            what = f"{other.id} says {'the same' if same else 'another thing'} about the same time"
            fix = "the less trusted one cannot supersede: retract one, or raise the trust of its memory"
            yield Issue(code, "warning" if same else "error", one.id, f"{what}; {fix}", other.id)


def _overlap(one: TemporalFact, other: TemporalFact) -> bool:
    ends_later = one.valid_to is None or other.valid_from < one.valid_to
    return ends_later and (other.valid_to is None or one.valid_from < other.valid_to)


def _unknown_subjects(facts: Sequence[TemporalFact]) -> Iterator[Issue]:
    """Facts whose object is an entity about which nothing is asserted."""
    subjects = {(fact.owner, fact.subject) for fact in facts}
    for fact in facts:
        if fact.assertion.object.type == "entity_ref" and (fact.owner, fact.assertion.object.text) not in subjects:
            what = f"nothing is asserted about its object {fact.assertion.object.text}"
            yield Issue("unknown_entity", "warning", fact.id, what)


def _cycles(facts: Sequence[TemporalFact]) -> Iterator[Issue]:
    """Facts by which a thing replaces, perhaps over others, itself."""
    edges: dict[tuple[str, str], list[tuple[tuple[str, str], str]]] = {}
    for fact in facts:
        if fact.assertion.predicate == "replaces" and fact.status == "active":
            at, to = (fact.owner, fact.subject), (fact.owner, _entity(fact))
            edges.setdefault(at, []).append((to, fact.id))
    reported: set[str] = set()
    for start, out in edges.items():
        for to, name in out:
            if name not in reported and (loop := _way_back(edges, to, start)) is not None:
                reported.update((name, *loop))
                yield Issue("replaces_cycle", "error", name, "it replaces what replaces it: retract one of them")


def _entity(fact: TemporalFact) -> str:
    try:
        return entity_ref(fact.assertion.object.text)
    except BadInput:
        return fact.assertion.object.text


def _way_back(
    edges: Mapping[tuple[str, str], Iterable[tuple[tuple[str, str], str]]], at: tuple[str, str], goal: tuple[str, str]
) -> list[str] | None:
    """The facts on a way from one entity to another; None if there is none."""
    stack, seen = [(at, list[str]())], {at}
    while stack:
        here, way = stack.pop()
        if here == goal:
            return way
        for to, fact in edges.get(here, ()):
            if to not in seen or to == goal:
                seen.add(to)
                stack.append((to, [*way, fact]))
    return None
