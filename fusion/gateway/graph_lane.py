"""The graph's part of a context pack: current facts about what the question names, then edges at it as paths.

It is optional and bounded: it has a quarter of the pack's tokens and a third of its items at most. Three gates decide,
and the trace says how: the mode, the scope, and the time that it takes. A pack never waits for it longer than the hard
limit, and goes without it then, as it does if the graph fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import Any, Literal, NamedTuple

from fusion.contract import Scope
from fusion.gateway.cards import CardCalls
from fusion.gateway.graph import MAX_NAMES
from fusion.journal import temporal_facts
from fusion.journal.cards import StoredCard
from fusion.lib.budget import estimate_tokens
from fusion.lib.escape import escape
from fusion.lib.graph_paths import Edge, asks_for_relations
from fusion.lib.listing import RECORD, one_line, without_annotations, without_frames
from fusion.lib.temporal_facts import ENTITY, TemporalFact
from fusion.recall.context_pack import Citation, PackItem
from fusion.recall.decision import Decision
from fusion.recall.fact_pack import item_of
from fusion.recall.pack import Ranking

log = logging.getLogger(__name__)

GraphMode = Literal["off", "auto", "on"]
SOFT_MS, HARD_MS = 50, 500
"""milliseconds after which paths are left out, and after which facts are, too; seed 000 gives its graph 50 ms in a hook
and 500 ms on the command line"""
MAX_SUBJECTS = 2000
"""subjects of facts that a question is compared with"""
SHARE_OF_TOKENS, SHARE_OF_ITEMS = 4, 3


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """What a pack asks the graph. ``narrowed``: by a filter or by backends, which facts and edges do not know."""

    query: str
    scope: Scope
    mode: GraphMode
    at: datetime | None = None
    budget_tokens: int = 1200
    max_items: int = 12
    soft_ms: int = SOFT_MS
    hard_ms: int = HARD_MS
    all_users: bool = False
    narrowed: bool = False


class Doubt(NamedTuple):
    """The sentence of a fact, and why it is no current truth."""

    sentence: str
    why: str


@dataclass(frozen=True, slots=True)
class GraphLane:
    """The items of the graph in their order, and what its gates decided.

    ``said`` has what the items say word for word, by the refs of the memories that say nothing else. ``doubts`` has by
    ref why the fact is no current truth that is all a memory asserts.
    """

    items: tuple[PackItem, ...] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, Doubt] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        """Whether the gates let it search."""
        return bool(self.trace.get("searched"))


NO_GRAPH = GraphLane()


async def graph_lane(calls: CardCalls, question: GraphQuestion) -> GraphLane:
    """What the graph adds to a pack; it never raises."""
    if question.mode == "off":
        return NO_GRAPH
    if question.all_users or question.narrowed:
        why = "all users are asked" if question.all_users else "the question is narrowed by a filter"
        return GraphLane((), _trace(question, "skip", why, 0.0, scope="skip"))
    began = perf_counter()
    try:
        async with asyncio.timeout(question.hard_ms / 1000):
            return await _asked(calls, question, began)
    except TimeoutError:
        return GraphLane((), _trace(question, "skip", "over the hard limit", _ms(began)))
    except Exception as error:  # noqa: BLE001 - the pack is answered without it
        log.warning("the graph of a pack failed: %s", type(error).__name__)
        return GraphLane((), _trace(question, "skip", f"failed: {type(error).__name__}", _ms(began)))


async def _asked(calls: CardCalls, question: GraphQuestion, began: float) -> GraphLane:
    names = await calls.named_in(question.query, question.scope)
    known = await calls.journal.read(temporal_facts.subjects, question.scope, MAX_SUBJECTS)
    subjects = named_subjects(question.query, known)
    if not names and not subjects:
        return GraphLane((), _trace(question, "skip", "it names no entity", _ms(began)))
    if question.mode == "auto" and not subjects and not asks_for_relations(question.query):
        return GraphLane((), _trace(question, "skip", "it asks for no relation", _ms(began)))
    at = question.at or calls.live.now()
    facts = await calls.facts_about([*subjects, *names], question.scope)
    cards, stale = ([], []) if question.at is not None else await _cards(calls, question.scope, facts)
    covered = {ref for card in cards for line in card.lines for ref in line.refs}
    items = [*map(_card_item, cards), *(item_of(fact) for fact in _current(facts, at) if fact.id not in covered)]
    decision, why = "allow", ""
    if question.at is not None:
        decision, why = "degrade", "edges have no time"
    elif _ms(began) > question.soft_ms:
        decision, why = "degrade", "over the soft limit"
    else:
        said = {item.recordRef for item in items} | covered
        edges = await calls.edges(names, question.scope) if names else []
        items += [_path_item(edge) for edge in edges if said.isdisjoint(edge.refs)]
    fitting = _within(items, question)
    of_cards = {"stale_cards": stale, "card_methods": {card.subject: card.method for card in cards}}
    trace = {**_trace(question, decision, why, _ms(began), fitting), **of_cards}
    return GraphLane(fitting, trace, _said(fitting, facts, cards), _doubts(facts, at))


def without_repetition(ranking: Ranking, lane: GraphLane) -> Ranking:
    """The ranking without memories of which the graph's items say all, and with doubts about what others assert."""
    if not lane.said and not lane.doubts:
        return ranking
    out: dict[str, Decision] = {}
    order = []
    for one in ranking.order:
        hit = one.pooled.candidate.hit
        doubt = lane.doubts.get(one.ref)
        if (said := lane.said.get(one.ref)) is not None and _same(said, hit.text):
            out[one.pooled.key] = Decision.SAID_BY_GRAPH
        elif doubt is not None and _same(doubt.sentence, hit.text):
            marked = hit.cut(f"{hit.text} (not certain: {doubt.why})")
            candidate = one.pooled.candidate._replace(hit=marked)
            one = one._replace(pooled=one.pooled._replace(candidate=candidate))
        order.append(one)
    return replace(ranking, order=order, left_out={**ranking.left_out, **out})


def _said(items: Sequence[PackItem], facts: Sequence[TemporalFact], cards: Sequence[StoredCard]) -> dict[str, str]:
    """What these items say, by the refs of the memories that may say just that."""
    shown = {item.recordRef for item in items}
    by_id = {fact.id: fact for fact in facts}
    lines = [line for card in cards if card.lines[0].ref in shown for line in card.lines]
    said = {ref.removeprefix(RECORD): line.text for line in lines for ref in line.refs if ref.startswith(RECORD)}
    told = [*shown, *(ref for line in lines for ref in line.refs)]
    return said | {by_id[ref].ref: by_id[ref].assertion.sentence for ref in told if ref in by_id}


def _doubts(facts: Sequence[TemporalFact], at: datetime) -> dict[str, Doubt]:
    """By the memory that asserts it, what is wrong with each fact that does not hold, or that no source supports."""
    return {
        fact.ref: Doubt(fact.assertion.sentence, "; ".join(fact.reasons) or fact.status)
        for fact in facts
        if not (fact.authoritative and fact.holds_at(at))
    }


def _same(sentence: str, text: str) -> bool:
    return _plain(sentence) == _plain(text)


async def _cards(calls: CardCalls, scope: Scope, facts: Sequence[TemporalFact]) -> tuple[list[StoredCard], list[str]]:
    """The fresh cards of these facts' subjects, and the subjects of those that are stale and left out."""
    fresh: list[StoredCard] = []
    stale: list[str] = []
    for owner, subject in dict.fromkeys((fact.owner, fact.subject) for fact in facts):
        card = await calls.card_of(replace(scope, user_id=owner, agent_id=None, session_id=None), subject)
        if card is not None and card.fresh:
            fresh.append(card.stored)
        elif card is not None:
            stale.append(subject)
    return fresh, stale


def named_subjects(question: str, subjects: Iterable[str]) -> list[str]:
    """Those subjects of facts that a question names as whole words, the longest first, some ten at most."""
    asked = f" {_plain(question)} "
    found = [one for one in subjects if f" {_plain(one.removeprefix(ENTITY))} " in asked]
    return sorted(found, key=lambda one: (-len(one), one))[:MAX_NAMES]


def _plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _current(facts: Sequence[TemporalFact], at: datetime) -> list[TemporalFact]:
    found = [fact for fact in facts if fact.authoritative and fact.holds_at(at)]
    return sorted(found, key=lambda fact: (-fact.valid_from.timestamp(), fact.id))


def _card_item(card: StoredCard) -> PackItem:
    """The item of a card, which cites each of its lines."""
    said = one_line(escape("; ".join(f"{line.text} ({', '.join(line.refs)})" for line in card.lines)))
    text = without_frames(without_annotations(said))
    ref = card.lines[0].ref
    return PackItem(ref, "L1", "synthesis_card", "unknown", "unknown", text, Citation(None, ref))


def _path_item(edge: Edge) -> PackItem:
    """The item of an edge: the path that justifies it, with the first memory that asserts it."""
    path = f"{edge.subject} → {edge.predicate.replace('_', ' ')} → {edge.object}"
    text = without_frames(without_annotations(one_line(escape(path))))
    return PackItem(edge.refs[0], "L0", "graph_path", "unknown", "unknown", text, Citation(None, edge.refs[0]))


def _within(items: Sequence[PackItem], question: GraphQuestion) -> tuple[PackItem, ...]:
    """The first items that the graph's share of the pack has room for."""
    room = question.budget_tokens // SHARE_OF_TOKENS
    kept: list[PackItem] = []
    for item in items[: question.max_items // SHARE_OF_ITEMS]:
        room -= estimate_tokens(f"- [{item.recordRef}] {item.text}\n")
        if room < 0:
            break
        kept.append(item)
    return tuple(kept)


def _trace(
    question: GraphQuestion,
    decision: str,
    why: str,
    took_ms: float,
    items: Sequence[PackItem] = (),
    scope: str = "allow",
) -> dict[str, Any]:
    return {
        "mode": question.mode,
        "searched": decision != "skip",
        "scope": {"decision": scope},
        "latency": {
            "soft_ms": question.soft_ms,
            "hard_ms": question.hard_ms,
            "took_ms": round(took_ms, 1),
            "decision": decision,
        },
        "why": why,
        "refs": [item.recordRef for item in items],
    }


def _ms(began: float) -> float:
    return (perf_counter() - began) * 1000
