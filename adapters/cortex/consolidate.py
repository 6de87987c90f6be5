"""What becomes of a new memory: merged, taken for a contradiction, or simply kept. Nothing that was told is dropped.

Seed 000 drops what is said again (cosine ≥ .92) or nearly again (≥ .80, which reinforces), and marks what contradicts.
Here only *statements* are held against others: a rule, procedure, fact, preference, decision or plan that stands by
itself. A turn, an episode, a note or a piece of a document happened where it stands, and saying "yes" twice is two
events. And what is merged is kept with its event, unseen, until the memory that says the same is forgotten.

Vectors alone do not tell who owes whom, nor Paris from Lisbon, so a statement is merged only if it says nothing new:
the other one has its words in their order, its facts, and the same negations, numbers and dates. ``guarded = false``
is the seed to the letter. And either way only into one that `outlasts` it: what is for good is not merged into what
ends.
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
from adapters.cortex.port import Change, Effect, Graph, Lifetime, Memory, State, View
from adapters.cortex.retention import stated
from adapters.graph.names import key
from fusion.contract import Captured, Fact, Kind, LanguageModel
from fusion.lib.jaccard import telling
from fusion.lib.words import spoken, stem, word_list, words

if TYPE_CHECKING:
    from fusion.contract import Floats

STATEMENTS: frozenset[Kind] = frozenset({"rule", "procedure", "fact", "preference", "decision", "plan"})

SAME = 0.92
"""cosine from which a statement is one that is there already"""

NEARLY = 0.80
"""cosine from which it reinforces one that is there"""

ABOUT = 0.40
"""cosine from which it may contradict one: "lives in Rome" and "moved to Oslo" are no nearer"""

LOOKED_AT = 20
"""memories, by words and by meaning each, that a statement is held against"""

_LASTS: Mapping[Lifetime, int] = {"session": 0, "ttl": 1, "project": 2, "permanent": 3}

Outcome = Literal["stored", "duplicate", "reinforced", "contradicts", "known"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a memory; ``other`` is the one that it repeats or contradicts, and ``reason`` says why."""

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
    """Whether it holds by itself, whenever and wherever it was said."""
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
    """Keeps a batch, in one transaction. Without vectors nothing is merged, and nothing contradicts.

    Whoever calls lets one batch follow the other, so that each sees what was kept before it.
    """
    known = await graph.get([memory.id for memory in memories])
    new = list({memory.id: memory for memory in reversed(memories) if memory.id not in known}.values())[::-1]
    outcomes = {id_: Kept(id_, "known", m.state.merged_into or m.state.contradicts) for id_, m in known.items()}
    outcomes |= {memory.id: Kept(memory.id) for memory in new}
    added = {memory.id: memory for memory in new}
    effects: dict[str, Effect] = {}
    statements = [memory for memory in new if is_statement(memory)]
    vectors = await encode([_said(memory) for memory in statements]) if statements else None
    if vectors is not None:
        stored = await asyncio.gather(
            *(_stored(graph, m, vector, encode, now) for m, vector in zip(statements, vectors, strict=True))
        )
        for n, statement in enumerate(statements):
            beside = [Near(added[m.id], float(vectors[n] @ vectors[i])) for i, m in enumerate(statements[:n])]
            near = comparable(statement, [*stored[n], *beside])
            kept, memory, effect = await _decided(statement, near, model, options, now)
            outcomes[kept.id], added[kept.id], effects[kept.id] = kept, memory, effect
            _carry_over(effect, added)
    await graph.add(list(added.values()), effects)
    await free_orphans(graph, {m.id: m.state.merged_into for m in added.values() if m.state.merged_into})
    return [outcomes[memory.id] for memory in memories]


async def free_orphans(graph: Graph, into: Mapping[str, str]) -> None:
    """What was merged, by id, into a memory that somebody forgot in that moment stands for itself again. To be done
    once it is written: whoever forgets the other one from then on frees it."""
    there = await graph.get(list(set(into.values()))) if into else {}
    orphans: dict[str, Change] = {id_: {"merged_into": None} for id_, one in into.items() if one not in there}
    if orphans:
        await graph.alter(orphans)


def comparable(statement: Memory, near: Sequence[Near]) -> list[Near]:
    """Those of exactly the same owner and trust that are not merged themselves, the nearest first.

    The untrusted never reinforces the trusted, nor is it taken for it.
    """
    event = statement.event
    fit = [
        n
        for n in near
        if is_alike_in_kind(n.memory)
        and n.memory.event.scope == event.scope
        and n.memory.event.trust == event.trust
        and n.memory.state.merged_into is None
    ]
    return sorted(fit, key=lambda n: (-n.cosine, n.memory.id))


def is_alike_in_kind(memory: Memory) -> bool:
    """Whether a statement may be held against it: a statement too, be it a newer version of one."""
    return memory.kind in STATEMENTS and memory.event.place is None


def repeated(statement: Memory, near: Sequence[Near], options: Options) -> tuple[Outcome, Memory] | None:
    """The memory that it says again, and whether that is a duplicate (≥ .92) or reinforced (≥ .80)."""
    for n in near:
        if n.cosine < NEARLY:
            break
        if not outlasts(n.memory, statement):
            continue
        if not options.guarded or adds_nothing(statement, n.memory):
            return ("duplicate" if n.cosine >= SAME else "reinforced"), n.memory
    return None


def outlasts(old: Memory, new: Memory) -> bool:
    """Whether ``old`` is there whenever ``new`` would be: of a lifetime as long (permanent, project, ttl, session), and
    stated to be valid from no later and until no earlier."""
    known, event = old.event, new.event
    return (
        _LASTS[old.state.lifetime] >= _LASTS[new.state.lifetime]
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
        and telling(words(text)) == telling(words(known))
        and all(any(_states(stated, fact) for stated in old.extraction.facts) for fact in new.extraction.facts)
    )


def _words(text: str) -> list[str]:
    """Stems; small words too, but for the articles: "on" and "off" is all the difference."""
    return [stem(word) for word in word_list(text) if word not in _ARTICLES]


def _states(stated: Fact, fact: Fact) -> bool:
    same = key(stated.subject) == key(fact.subject) and key(stated.predicate) == key(fact.predicate)
    return same and f"{key(stated.object)} ".startswith(f"{key(fact.object)} ")


_ARTICLES = frozenset({"a", "an", "the"})


async def _decided(
    statement: Memory, near: Sequence[Near], model: LanguageModel | None, options: Options, now: datetime
) -> tuple[Kept, Memory, Effect]:
    """Its outcome, itself as it is to be kept, what it does to others. Repetition is looked for first (seed 000)."""
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
    """What an effect changes of a memory of the same batch, which the next one is held against."""
    for id_, change in effect.changes.items():
        if id_ in added:
            added[id_] = replace(added[id_], state=replace(added[id_].state, **change))


async def _stored(graph: Graph, statement: Memory, vector: Floats, encode: Encode, now: datetime) -> list[Near]:
    """What the store has that is like it. Cosines that its vectors lack still are computed here: what came a moment ago
    must not be missed."""
    event = statement.event
    view = View(replace(event.scope, audience="private"), now)
    found = await graph.find(_said(statement), vector, view, LOOKED_AT)
    cosines = dict(found.vectors)
    others = [id_ for id_, _ in found.words if id_ not in cosines]
    memories = await graph.get([*cosines, *others])
    cosines |= await graph.cosines(vector, others)
    missing = [m for id_, m in memories.items() if id_ not in cosines]
    theirs = await encode([_said(m) for m in missing]) if missing else None
    if theirs is not None:
        cosines |= {m.id: float(one @ vector) for m, one in zip(missing, theirs, strict=True)}
    return [Near(memory, cosines[id_]) for id_, memory in memories.items() if id_ in cosines]


def _said(memory: Memory) -> str:
    return spoken(memory.event.text, memory.event.speaker)


def _claim(memory: Memory) -> Claim:
    return Claim(memory.id, _said(memory), memory.extraction.facts, memory.event.began)


def initial(captured: Captured) -> State:
    """How a memory begins: as was stated of it, else of its project where it has one, and as sure as capture is."""
    event = captured.event
    state = State("project" if event.scope.project else "permanent", captured.extraction.confidence)
    return replace(state, **stated(event))
