"""Decide whether a new memory is stored, merged into one that says the same, or marked as a contradiction.

Seed 000 drops a repetition (cosine ≥ .92), drops and reinforces a near one (≥ .80), and marks contradictions. Here only
*statements* are compared: a rule, procedure, fact, preference, decision or plan that is valid on its own. Turns,
episodes, notes and parts of documents are events; saying "yes" twice is two of them. A merged memory is kept, hidden,
until the memory that says the same is forgotten.

Vectors distinguish neither who owes whom nor Paris from Lisbon. So a statement is merged only if it adds nothing: the
other one has its words in their order, its facts, and the same negations, numbers and dates. ``guarded = false``
switches that check off, as in the seed. In both cases the other one must outlast it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import NAMESPACE_OID, uuid5

from adapters.cortex.contradict import Claim, contradicted
from adapters.cortex.options import Options
from adapters.cortex.port import Change, Effect, Graph, Lifetime, Memory, State, View, stored_fields
from adapters.graph.names import key
from fusion.contract import Extracted, Fact, Kind, LanguageModel
from fusion.lib.jaccard import guard_words
from fusion.lib.words import stem, word_list, words

if TYPE_CHECKING:
    from fusion.contract import Floats

STATEMENTS: frozenset[Kind] = frozenset({"rule", "procedure", "fact", "preference", "decision", "plan"})

SAME = 0.92
"""cosine from which a statement is a duplicate of a stored one"""

REINFORCE_COSINE = 0.80
"""cosine from which it reinforces a stored one"""

ABOUT = 0.40
"""cosine from which it may contradict a stored one: "lives in Rome" and "moved to Oslo" have about that"""

NEAR_LIMIT = 20
"""memories from words and from vectors each that a statement is compared with"""

_LIFETIME_ORDER: Mapping[Lifetime, int] = {"session": 0, "ttl": 1, "project": 2, "permanent": 3}

Outcome = Literal["stored", "duplicate", "reinforced", "contradicts", "known"]


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome for one memory; ``other`` is the id that it repeats or contradicts."""

    id: str
    outcome: Outcome = "stored"
    other: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Near:
    """A statement of the same scope, and its cosine with the new one."""

    memory: Memory
    cosine: float


def is_statement(memory: Memory) -> bool:
    """Whether a memory is valid on its own, independent of where and when it was said."""
    event = memory.event
    return memory.kind in STATEMENTS and event.place is None and event.supersedes is None


Encode = Callable[[Sequence[str]], Awaitable["Floats | None"]]
"""A vector each, or ``None`` where there is no embedder, or it does not work now."""


async def keep(
    graph: Graph,
    memories: Sequence[Memory],
    encode: Encode,
    model: LanguageModel | None,
    options: Options,
    now: datetime,
) -> list[Kept]:
    """Store a batch in one transaction. Without vectors nothing is merged and nothing contradicts.

    Call it for one batch at a time, so that each batch sees the ones before it.
    """
    known = await graph.get([memory.id for memory in memories])
    new = list({memory.id: memory for memory in reversed(memories) if memory.id not in known}.values())[::-1]
    outcomes = {id_: Kept(id_, "known", m.state.merged_into or m.state.contradicts) for id_, m in known.items()}
    outcomes |= {memory.id: Kept(memory.id) for memory in new}
    added = {memory.id: memory for memory in new}
    effects: dict[str, Effect] = {}
    statements = [memory for memory in new if is_statement(memory)]
    vectors = await encode([memory.spoken for memory in statements]) if statements else None
    if vectors is not None:
        stored = await asyncio.gather(
            *(_near_in_store(graph, m, vector, encode, now) for m, vector in zip(statements, vectors, strict=True))
        )
        for n, statement in enumerate(statements):
            in_batch = [Near(added[m.id], float(vectors[n] @ vectors[i])) for i, m in enumerate(statements[:n])]
            near = comparable(statement, [*stored[n], *in_batch])
            kept, memory, effect = await _decide(statement, near, model, options, now)
            outcomes[kept.id], added[kept.id], effects[kept.id] = kept, memory, effect
            _carry_over(effect, added)
    await graph.add(list(added.values()), effects)
    await free_orphans(graph, {m.id: m.state.merged_into for m in added.values() if m.state.merged_into})
    return [outcomes[memory.id] for memory in memories]


async def free_orphans(graph: Graph, into: Mapping[str, str]) -> None:
    """Unmerge memories whose target was deleted meanwhile. ``into`` maps the merged id to its target's.

    Call it after the merge is written: deletions from then on unmerge by themselves.
    """
    there = await graph.get(list(set(into.values()))) if into else {}
    orphans: dict[str, Change] = {id_: {"merged_into": None} for id_, one in into.items() if one not in there}
    if orphans:
        await graph.alter(orphans)


def comparable(statement: Memory, near: Sequence[Near]) -> list[Near]:
    """The memories that ``statement`` may repeat or contradict, nearest first: same scope, same trust, not merged.

    So an untrusted memory never reinforces a trusted one.
    """
    event = statement.event
    fit = [
        n
        for n in near
        if is_comparable_kind(n.memory)
        and n.memory.event.scope == event.scope
        and n.memory.event.trust == event.trust
        and n.memory.state.merged_into is None
    ]
    return sorted(fit, key=lambda n: (-n.cosine, n.memory.id))


def is_comparable_kind(memory: Memory) -> bool:
    """Whether a statement may be compared with it: it is a statement, or a newer version of one."""
    return memory.kind in STATEMENTS and memory.event.place is None


def repeated(statement: Memory, near: Sequence[Near], options: Options) -> tuple[Outcome, Memory] | None:
    """The memory that ``statement`` repeats, as "duplicate" (cosine ≥ .92) or "reinforced" (≥ .80)."""
    for n in near:
        if n.cosine < REINFORCE_COSINE:
            break
        if not outlasts(n.memory, statement):
            continue
        if not options.guarded or adds_nothing(statement, n.memory):
            return ("duplicate" if n.cosine >= SAME else "reinforced"), n.memory
    return None


def outlasts(old: Memory, new: Memory) -> bool:
    """Whether ``old`` is valid whenever ``new`` is: its lifetime (permanent > project > ttl > session) is at least as
    long, and its validity includes that of ``new``."""
    known, event = old.event, new.event
    return (
        _LIFETIME_ORDER[old.state.lifetime] >= _LIFETIME_ORDER[new.state.lifetime]
        and (known.valid_from is None or known.valid_from <= new.event.began)
        and (known.valid_to is None or (event.valid_to is not None and known.valid_to >= event.valid_to))
    )


def adds_nothing(new: Memory, old: Memory) -> bool:
    """Whether ``old`` says all that ``new`` does: its words in their order, its negations, numbers and dates and no
    others, and each of its facts, be it with more after it ("likes tea": "likes tea with milk")."""
    text, known = new.event.text, old.event.text
    rest = iter(_words(known))
    return (
        all(word in rest for word in _words(text))
        and guard_words(words(text)) == guard_words(words(known))
        and all(any(_states(stated, fact) for stated in old.extraction.facts) for fact in new.extraction.facts)
    )


def _words(text: str) -> list[str]:
    """Stems of all words but articles; stop words count, as "on" and "off" make a difference."""
    return [stem(word) for word in word_list(text) if word not in _ARTICLES]


def _states(stated: Fact, fact: Fact) -> bool:
    same = key(stated.subject) == key(fact.subject) and key(stated.predicate) == key(fact.predicate)
    return same and f"{key(stated.object)} ".startswith(f"{key(fact.object)} ")


_ARTICLES = frozenset({"a", "an", "the"})


async def _decide(
    statement: Memory, near: Sequence[Near], model: LanguageModel | None, options: Options, now: datetime
) -> tuple[Kept, Memory, Effect]:
    """The outcome, the memory to store, and its effect on others. Repetition is checked first (seed 000)."""
    if (again := repeated(statement, near, options)) is not None:
        outcome, other = again
        merged = replace(statement, state=replace(statement.state, merged_into=other.id))
        effect = Effect(other.id, now) if outcome == "reinforced" else Effect()
        return Kept(statement.id, outcome, other.id), merged, effect
    claims = {n.memory.id: n.memory for n in near if n.cosine >= ABOUT}
    found = await contradicted(_claim(statement), [_claim(m) for m in claims.values()], model)
    if found is None:
        return Kept(statement.id), statement, Effect()
    old = claims[found.contradicted_id]
    group = old.state.conflict_group or str(uuid5(NAMESPACE_OID, f"{old.id} {statement.id}"))
    new = Memory(
        replace(statement.event, supersedes=old.id),
        statement.extraction,
        replace(statement.state, conflict_group=group, conflict_status="active", contradicts=old.id),
    )
    change = Effect(
        changes={old.id: {"conflict_group": group, "conflict_status": "active", "contradicts": statement.id}}
    )
    return Kept(statement.id, "contradicts", old.id, found.reason), new, change


def _carry_over(effect: Effect, added: dict[str, Memory]) -> None:
    """Apply an effect to memories of the same batch, which later ones are compared with."""
    for id_, change in effect.changes.items():
        if id_ in added:
            added[id_] = replace(added[id_], state=replace(added[id_].state, **change))


async def _near_in_store(graph: Graph, statement: Memory, vector: Floats, encode: Encode, now: datetime) -> list[Near]:
    """Stored memories near ``statement``. Computes the cosine of those without a stored vector, so that one stored a
    moment ago is not missed."""
    event = statement.event
    view = View(replace(event.scope, audience="private"), now)
    found = await graph.find(statement.spoken, vector, view, NEAR_LIMIT)
    cosines = dict(found.vectors)
    others = [id_ for id_, _ in found.words if id_ not in cosines]
    memories = await graph.get([*cosines, *others])
    cosines |= await graph.cosines(vector, others)
    missing = [m for id_, m in memories.items() if id_ not in cosines]
    theirs = await encode([m.spoken for m in missing]) if missing else None
    if theirs is not None:
        cosines |= {m.id: float(one @ vector) for m, one in zip(missing, theirs, strict=True)}
    return [Near(memory, cosines[id_]) for id_, memory in memories.items() if id_ in cosines]


def _claim(memory: Memory) -> Claim:
    return Claim(memory.id, memory.spoken, memory.extraction.facts, memory.event.began)


def initial(extracted: Extracted) -> State:
    """A new memory's state, as the journal has it."""
    return State(**stored_fields(extracted.state))
