"""Temporal facts (openclaw-mem.graph.fact.v0): what somebody explicitly asserted about a subject, from when to when.

An assertion is part of an event of the journal: a pair of `Event.stated` if it came through a door, else a line of the
text (`fusion.lib.fact_lines`). Nothing else is an assertion, so no fact is ever inferred.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, get_args

from fusion.contract import Trust
from fusion.errors import BadInput

SCHEMA = "openclaw-mem.graph.fact.v0"
Predicate = Literal[
    "owns",
    "uses",
    "depends_on",
    "replaces",
    "status",
    "configured_as",
    "decision",
    "source_of_truth",
    "retired_by",
]
PREDICATES: tuple[Predicate, ...] = get_args(Predicate)
ObjectType = Literal["literal", "entity_ref", "json"]
FactStatus = Literal["active", "superseded", "invalidated", "retracted", "stale"]
Tier = Literal["low", "source_capped", "corroborated", "operator_asserted"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""from the least confident to the most"""
By = Literal["operator", "agent", "tool", "import"]
How = Literal["invalidated", "retracted"]

STATED, ENDED = "fact", "fact_end"
"""names of the pairs of `Event.stated` that have an assertion, and the end of one"""
MAX_NAME_CHARS = 200
MAX_OBJECT_CHARS = 2000
ENTITY, FACT = "entity:", "fact:"


@dataclass(frozen=True, slots=True)
class PredicateRule:
    """What a predicate takes: ``single`` allows one current object a subject, so that a new one supersedes it."""

    single: bool
    objects: tuple[ObjectType, ...]
    aliases: tuple[str, ...] = ()


RULES: Mapping[Predicate, PredicateRule] = {
    "owns": PredicateRule(False, ("entity_ref", "literal"), ("owner_of",)),
    "uses": PredicateRule(False, ("entity_ref", "literal"), ("runs_on", "uses_tool")),
    "depends_on": PredicateRule(False, ("entity_ref", "literal"), ("requires", "depends")),
    "replaces": PredicateRule(False, ("entity_ref", "literal"), ("supersedes",)),
    "status": PredicateRule(True, ("literal",), ("state",)),
    "configured_as": PredicateRule(True, ("literal", "json"), ("config", "configuration")),
    "decision": PredicateRule(False, ("literal", "json"), ("decides",)),
    "source_of_truth": PredicateRule(True, ("literal", "entity_ref"), ("truth_owner", "canonical_source")),
    "retired_by": PredicateRule(True, ("entity_ref", "literal"), ("deprecated_by",)),
}
NAMES: Mapping[str, Predicate] = {
    name: predicate for predicate, rule in RULES.items() for name in (predicate, *rule.aliases)
}
"""the predicates by their names and aliases"""


@dataclass(frozen=True, slots=True)
class FactObject:
    """The object of a fact: some text, the ref of an entity (``entity:postgres-16``), or a JSON value as text."""

    type: ObjectType
    text: str

    @property
    def value(self) -> Any:
        """The value as readers of the schema expect it."""
        return json.loads(self.text) if self.type == "json" else self.text


@dataclass(frozen=True, slots=True)
class Assertion:
    """What was asserted. ``sources`` are event ids or refs of episodes; empty for a line, whose memory is its source.

    Without ``valid_from`` it holds from when it was recorded. ``supersedes`` names facts that it takes the place of,
    beside the one that a predicate with a single object always supersedes.
    """

    subject: str
    predicate: Predicate
    object: FactObject
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    sources: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    tier: Tier | None = None
    """the confidence that its author claims; its sources cap it"""
    by: By = "agent"

    @property
    def sentence(self) -> str:
        """The assertion as a sentence without a period."""
        shown = self.object.text.removeprefix(ENTITY) if self.object.type == "entity_ref" else self.object.text
        verb = {"status": "has the status", "source_of_truth": "has as its source of truth", "decision": "decided"}
        return f"{self.subject} {verb.get(self.predicate, self.predicate.replace('_', ' '))} {shown}"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a fact by a later act: ``invalidated`` from ``at`` on, or ``retracted``, as it never held."""

    fact: str
    subject: str
    how: How
    at: datetime | None = None
    sources: tuple[str, ...] = ()
    by: By = "agent"


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a fact as it is now: its ref for readers, its trust, and ``ok`` or what is wrong with it."""

    ref: str
    status: str = "ok"
    trust: Trust = "unknown"
    at: datetime | None = None
    """when it was last said"""


@dataclass(frozen=True, slots=True)
class TemporalFact:
    """A fact of the view: an assertion with what later ones and its sources make of it.

    It is ``authoritative`` while it is active and has a source that can be trusted; ``reasons`` say why it is not.
    """

    id: str
    ref: str
    """the memory that asserts it"""
    assertion: Assertion
    owner: str
    trust: Trust
    recorded_at: datetime
    valid_from: datetime
    valid_to: datetime | None
    status: FactStatus
    tier: Tier
    sources: tuple[Source, ...]
    superseded_by: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The ref of the subject."""
        return entity_ref(self.assertion.subject)

    @property
    def authoritative(self) -> bool:
        """Whether it may be told as current truth in its time."""
        return self.status in ("active", "superseded", "invalidated") and not self.reasons and self.tier != "low"

    def holds_at(self, at: datetime) -> bool:
        """Whether ``at`` is in its interval; a retracted fact never held."""
        began = self.status != "retracted" and self.valid_from <= at
        return began and (self.valid_to is None or at < self.valid_to)


def fact_id(event_id: str, number: int) -> str:
    """The id of the assertion with this number in an event; the same after every rebuild, export and import."""
    return FACT + blake2b(f"{event_id}\0{number}".encode(), digest_size=8).hexdigest()


def entity_ref(name: str) -> str:
    """The ref of an entity by its name: ``entity:postgres-16`` for "Postgres 16". Raises BadInput for no name."""
    plain = unicodedata.normalize("NFKC", name).strip().removeprefix(ENTITY).casefold()
    slug = "-".join(re.findall(r"[\w.:/]+", plain))
    if not slug or len(slug) > MAX_NAME_CHARS:
        raise BadInput(f"subject: give a name of 1 to {MAX_NAME_CHARS} characters: api-gateway")
    return ENTITY + slug


def predicate_of(name: str) -> Predicate:
    """The predicate of a name or alias. Raises BadInput that lists the nine."""
    found = NAMES.get("_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split()))
    if found is None:
        raise BadInput(f"predicate: {name[:64]!r} is none of {', '.join(PREDICATES)}")
    return found


def object_of(predicate: Predicate, kind: ObjectType, text: str) -> FactObject:
    """The object of a fact. Raises BadInput if the predicate does not take it."""
    rule = RULES[predicate]
    if kind not in rule.objects:
        raise BadInput(f"object_type: {predicate} takes {' or '.join(rule.objects)}, not {kind}")
    text = text.strip()
    if not text or len(text) > MAX_OBJECT_CHARS:
        raise BadInput(f"object: give 1 to {MAX_OBJECT_CHARS} characters")
    if kind == "entity_ref":
        return FactObject(kind, entity_ref(text))
    if kind == "json":
        try:
            text = json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False, allow_nan=False)
        except (ValueError, RecursionError):
            raise BadInput('object: it is not JSON; write {"replicas": 3}, or use object_type literal') from None
    return FactObject(kind, text)


def written(one: Assertion | Ending) -> tuple[str, str]:
    """The pair of `Event.stated` for an assertion or an end."""
    if isinstance(one, Ending):
        values: dict[str, Any] = {"fact": one.fact, "subject": one.subject, "how": one.how, "at": _iso(one.at)}
    else:
        values = {
            "subject": one.subject,
            "predicate": one.predicate,
            "object": [one.object.type, one.object.text],
            "valid_from": _iso(one.valid_from),
            "valid_to": _iso(one.valid_to),
            "supersedes": list(one.supersedes),
            "tier": one.tier,
        }
    given = {name: value for name, value in (values | {"sources": list(one.sources), "by": one.by}).items() if value}
    return ENDED if isinstance(one, Ending) else STATED, json.dumps(given, sort_keys=True, ensure_ascii=False)


def with_episodes(stated: tuple[tuple[str, str], ...], moved: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` whose assertions and ends name other refs of observations, by the earlier ones."""

    def changed(name: str, value: str) -> tuple[str, str]:
        one = read(name, value)
        if one is None or not any(source in moved for source in one.sources):
            return name, value
        return written(replace(one, sources=tuple(moved.get(source, source) for source in one.sources)))

    return tuple(changed(name, value) for name, value in stated)


def read(name: str, value: str) -> Assertion | Ending | None:
    """The assertion or end of a pair of `Event.stated`; None for another pair and for one that cannot be read.

    An imported file may have any value here, so each is checked as if a caller had sent it.
    """
    if name not in (STATED, ENDED):
        return None
    try:
        given = json.loads(value)
        by = given.get("by", "agent")
        sources = tuple(map(str, given.get("sources", ())))
        if by not in get_args(By):
            return None
        if name == ENDED:
            how = given["how"]
            known = how in get_args(How) and isinstance(given["fact"], str)
            return Ending(given["fact"], str(given["subject"]), how, _time(given, "at"), sources, by) if known else None
        predicate = predicate_of(str(given["predicate"]))
        kind, text = given["object"]
        tier = given.get("tier")
        entity_ref(given["subject"])
        return Assertion(
            given["subject"],
            predicate,
            object_of(predicate, kind, text),
            _time(given, "valid_from"),
            _time(given, "valid_to"),
            sources,
            tuple(map(str, given.get("supersedes", ()))),
            tier if tier in TIERS else None,
            by,
        )
    except (BadInput, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _time(given: Mapping[str, Any], name: str) -> datetime | None:
    value = given.get(name)
    if value is None:
        return None
    at = datetime.fromisoformat(value)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
