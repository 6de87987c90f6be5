"""Decides what a new statement does: nothing, repeat an earlier one, or contradict it.

From a cosine of .80 a statement that says the same as an earlier one reinforces it, by .05 of confidence up to 1; from
.92 it is a duplicate (seed 000). Both are counted at the one that stays, as said again, and hide the other as merged
into it. A duplicate adds no confidence: a client that sends something twice is no further evidence. A merged memory is
kept, and found again when the other is gone. The earlier one stays, unless the new one says more or outlasts it.

Only *statements* are compared: rules, procedures, facts, preferences, decisions and plans that hold on their own. A
turn that states a fact, or is one sentence that states something, reinforces what it repeats, and is never hidden: it
is part of a conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal
from uuid import NAMESPACE_OID, uuid5

from fusion.contract import STATEMENT_KINDS, Event, Extraction, Kind, LanguageModel, State, StateChange, Trust
from fusion.journal.state import Change
from fusion.lib.restatement import Statement, kept_apart_by, says_more, share_fact
from fusion.lib.statements import sentences
from fusion.lib.words import stems
from fusion.upkeep.contradict import Claim, contradicted

SAME = 0.92
"""cosine from which a statement is a duplicate of another"""
REINFORCES = 0.80
"""cosine from which it reinforces another"""
ABOUT = 0.40
"""cosine from which it may contradict another: "lives in Rome" and "moved to Oslo" have about that"""
MORE_CONFIDENT = 0.05
"""what one reinforcement adds to the confidence"""
MAX_TURN_CHARS = 400
"""maximum characters of a turn that is compared; a longer one says several things"""

MIN_CONTENT_WORDS = 2
"""content words of a single sentence that states something"""
ASSISTANTS = frozenset({"assistant", "ai"})
"""speakers whose sentences are compared only if they state a fact"""

_LIFETIMES = ("session", "ttl", "project", "permanent")

Outcome = Literal["stored", "duplicate", "reinforced", "contradicts"]


@dataclass(frozen=True)
class Known:
    """A stored statement with what was extracted from it, and its state."""

    event: Event
    extraction: Extraction
    state: State
    ref: str = ""

    @property
    def id(self) -> str:
        return self.event.event_id

    @property
    def is_turn(self) -> bool:
        return self.event.kind == "turn"

    @property
    def trust(self) -> Trust:
        return self.state.trust or self.event.trust

    @cached_property
    def statement(self) -> Statement:
        return Statement.of(self.event, self.extraction)


@dataclass(frozen=True, slots=True)
class Near:
    """A stored statement, and its cosine with the new one."""

    known: Known
    cosine: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a new statement does: the changes of states, of which ``other`` is the id of the one it is about."""

    outcome: Outcome = "stored"
    other: str | None = None
    changes: dict[str, Change] = field(default_factory=dict)
    why: str = ""


def is_statement(event: Event, extraction: Extraction) -> bool:
    """Whether an event is compared with others: a statement in no document, or a short turn that states something."""
    if event.kind == "turn":
        return len(event.text) <= MAX_TURN_CHARS and (bool(extraction.facts) or _is_one_statement(event))
    kind: Kind = extraction.kind if event.kind == "note" else event.kind
    return event.place is None and kind in STATEMENT_KINDS


def _is_one_statement(turn: Event) -> bool:
    """Whether a turn is a single sentence that states something: no question, and more than "thank you".

    An assistant that repeats what it was told is no evidence for it.
    """
    if "?" in turn.text or (turn.speaker or "").casefold() in ASSISTANTS:
        return False
    return len(list(sentences(turn.text))) == 1 and len(set(stems(turn.text))) >= MIN_CONTENT_WORDS


async def decide(
    new: Known,
    near: Sequence[Near],
    apart: Collection[tuple[str, str]],
    model: LanguageModel | None,
) -> Verdict:
    """What ``new`` does. ``apart`` are pairs whose merge was undone; they are never merged again.

    Repetition is looked for first (seed 000), among the nearest first.
    """
    of_owner = [one for one in sorted(near, key=lambda n: (-n.cosine, n.known.id)) if _same_owner(one.known, new)]
    repeated = [one for one in of_owner if one.cosine >= REINFORCES and _says_the_same(new, one.known)]
    merging = [one for one in repeated if {(new.id, one.known.id), (one.known.id, new.id)}.isdisjoint(apart)]
    for one in merging:
        if (survivor := _survivor(new, one.known)) is not None:
            return _merged(new, one, survivor)
    for one in merging:
        if new.is_turn or one.known.is_turn or one.known.event.scope != new.event.scope:
            return Verdict(_outcome(one), one.known.id, {one.known.id: partial(_said_again, new, one)}, _why(new, one))
    return Verdict() if new.is_turn or repeated else await _contradiction(new, of_owner, model)


def _same_owner(old: Known, new: Known) -> bool:
    """Whether both belong to one user and agent and are trusted alike; a source of the other is no repetition of it."""
    mine, other = new.event.scope, old.event.scope
    return (
        (mine.tenant, mine.user_id, mine.agent_id, mine.audience)
        == (other.tenant, other.user_id, other.agent_id, other.audience)
        and old.trust == new.trust
        and old.id not in new.event.derived_from
        and new.id not in old.event.derived_from
    )


def _says_the_same(new: Known, old: Known) -> bool:
    """Whether one repeats the other.

    A turn says more than its fact, so it must state a fact of the other. Where no fact was found in either, both are
    single statements, and of the same speaker: "my editor" is another one for each.
    """
    if new.is_turn or old.is_turn:
        if new.extraction.facts or old.extraction.facts:
            if not share_fact(new.extraction.facts, old.extraction.facts):
                return False
        elif len({new.event.speaker, old.event.speaker} - {None}) > 1:
            return False
    return kept_apart_by(new.statement, old.statement) is None


def _survivor(new: Known, old: Known) -> Known | None:
    """The one of two that stays visible: the earlier, unless the new one says more; it must outlast the other.

    None if neither may be hidden: a turn, or one that other questions see.
    """
    if new.is_turn or old.is_turn or new.event.scope != old.event.scope:
        return None
    longer = says_more(new.statement, old.statement) and old.state.conflict_group is None
    for stays, goes in ((new, old), (old, new)) if longer else ((old, new), (new, old)):
        if outlasts(stays, goes) and (goes is new or old.state.conflict_group is None):
            return stays
    return None


def outlasts(one: Known, other: Known) -> bool:
    """Whether ``one`` is valid whenever ``other`` is: its lifetime is at least as long, and its validity includes that
    of the other."""
    mine, its = one.event, other.event
    return (
        _LIFETIMES.index(one.state.lifetime) >= _LIFETIMES.index(other.state.lifetime)
        and (mine.valid_from is None or mine.valid_from <= its.began)
        and (mine.valid_to is None or (its.valid_to is not None and mine.valid_to >= its.valid_to))
    )


def _outcome(near: Near) -> Outcome:
    return "duplicate" if near.cosine >= SAME else "reinforced"


def _why(new: Known, near: Near) -> str:
    return f"{new.ref} says the same as {near.known.ref} (cosine {near.cosine:.2f})"


def _merged(new: Known, near: Near, survivor: Known) -> Verdict:
    old = near.known
    if survivor is old:
        changes: dict[str, Change] = {
            new.id: {"merged_into": old.id},
            old.id: partial(_said_again, new, near),
        }
    else:
        best = replace(old.state, confidence=max(old.state.confidence, new.state.confidence))
        changes = {old.id: {"merged_into": new.id}, new.id: _said_again(new, near, best)}
    return Verdict(_outcome(near), old.id, changes, _why(new, near))


def _said_again(new: Known, near: Near, state: State) -> StateChange:
    """How the one that stays changes: a duplicate is only counted."""
    at = new.event.recorded_at
    more = MORE_CONFIDENT if near.cosine < SAME else 0.0
    return {
        "confidence": round(min(1.0, state.confidence + more), 6),
        "reinforced_count": state.reinforced_count + 1,
        "reinforced_at": at if state.reinforced_at is None else max(at, state.reinforced_at),
    }


async def _contradiction(new: Known, near: Sequence[Near], model: LanguageModel | None) -> Verdict:
    """Both sides of a contradiction stay current, as the two sides of one conflict."""
    about = {
        n.known.id: n.known
        for n in near
        if n.cosine >= ABOUT and not n.known.is_turn and n.known.event.scope == new.event.scope
    }
    found = await contradicted(_claim(new), [_claim(old) for old in about.values()], model)
    if found is None:
        return Verdict()
    old = about[found.contradicted_id]
    group = old.state.conflict_group or str(uuid5(NAMESPACE_OID, f"{old.id} {new.id}"))
    changes: dict[str, Change] = {
        new.id: {"conflict_group": group, "conflict_status": "active", "contradicts": old.id},
        old.id: {"conflict_group": group, "conflict_status": "active", "contradicts": new.id},
    }
    why = f"{new.ref} contradicts {old.ref}"
    return Verdict("contradicts", old.id, changes, f"{why}: {found.reason}" if found.reason else why)


def _claim(known: Known) -> Claim:
    return Claim(known.id, known.statement.spoken, known.extraction.facts, known.event.began)
