"""The calls on an open home about synthesis cards, and the graph as pages of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusion import wire
from fusion.contract import Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway.card_by_model import worded_card
from fusion.gateway.graph import GraphCalls
from fusion.gateway.in_tenant import in_tenant
from fusion.journal import cards, temporal_facts
from fusion.journal.cards import StoredCard
from fusion.lib.cards import Card, CardLine, compile_card, differences
from fusion.lib.graph_pages import PageFact, pages_of
from fusion.lib.layers import layers_of
from fusion.lib.listing import RECORD, record_ref
from fusion.lib.temporal_facts import ENTITY, TemporalFact, entity_ref

MAX_CARDS = 1000
"""cards of an owner that one lint compares"""
MAX_SUBJECTS = 5000
"""subjects that one export has pages for"""


@dataclass(frozen=True, slots=True)
class ReadCard:
    """A stored card and whether a new one would say the same; ``reasons`` say why not."""

    stored: StoredCard
    reasons: tuple[str, ...] = ()

    @property
    def fresh(self) -> bool:
        """Whether it may be told."""
        return not self.reasons


class CardCalls(GraphCalls):
    """The calls of an open home about synthesis cards, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def refresh_card(self, scope: Scope, subject: str) -> wire.SynthesisCard:
        """Compile the card of a subject from what holds now, and store it. Raises BadInput and NotFound.

        With ``[facts] cards_by_model`` the language model words it, or the rules' lines stay.
        """
        ref = entity_ref(subject)
        scope = await self._card_scope(scope, ref)
        card = await self._required_compiled(scope, ref)
        model = self.model if self.settings.facts.cards_by_model else None
        worded = None if model is None else await worded_card(card, model)
        if not await self.journal.write(cards.put, scope, card, self.live.now(), worded):
            card = await self._required_compiled(scope, ref)  # a source was forgotten while the model answered
            await self.journal.write(cards.put, scope, card, self.live.now())
        return _shown(await self._required(scope, ref))

    @in_tenant
    async def card(self, scope: Scope, subject: str) -> wire.SynthesisCard:
        """The card of a subject, and whether it is fresh; a stale one shows no lines. Raises BadInput and NotFound."""
        ref = entity_ref(subject)
        return _shown(await self._required(await self._card_scope(scope, ref), ref))

    @in_tenant
    async def lint_cards(self, scope: Scope) -> wire.CardLint:
        """The cards of an owner that are stale, each with the reasons; `refresh_card` renews one."""
        found = await self.journal.read(cards.listed, scope, MAX_CARDS)
        read = [await self._compared(scope, one) for one in found]
        stale: list[wire.StaleCard] = [
            {"subject": one.stored.subject, "reasons": list(one.reasons)} for one in read if not one.fresh
        ]
        return {"ok": not stale, "cards": len(read), "stale": stale}

    async def card_of(self, scope: Scope, subject: str) -> ReadCard | None:
        """The card of a subject, by its ref, compared with what holds now; None if there is none."""
        stored = await self.journal.read(cards.find, scope, subject)
        return None if stored is None else await self._compared(scope, stored)

    @in_tenant
    async def export_graph(self, scope: Scope) -> wire.GraphPages:
        """Pages of Markdown: one for each subject of facts with its history, and an index. Equal input, equal pages."""
        subjects = await self.journal.read(temporal_facts.subjects, scope, MAX_SUBJECTS)
        facts = await self._facts(scope, subjects)
        now = self.live.now()
        shown = [_page_fact(fact, current=fact.authoritative and fact.holds_at(now)) for fact in facts]
        return {"pages": pages_of(shown)}

    async def _required(self, scope: Scope, ref: str) -> ReadCard:
        found = await self.card_of(scope, ref)
        if found is None:
            raise NotFound(f"there is no card of {ref}: fusion mem graph card refresh {ref.removeprefix(ENTITY)}")
        return found

    async def _card_scope(self, scope: Scope, ref: str) -> Scope:
        """The scope of one owner: the one that is named, else the only one with facts about the subject."""
        scope = replace(scope, agent_id=None, run_id=None, session_id=None)
        if scope.user_id is not None:
            return scope
        owners = {fact.owner for fact in await self._facts(scope, [ref])}
        if len(owners) > 1:
            raise BadInput(f"user_id: several users have facts about {ref}; name one, a card is of one owner")
        return replace(scope, user_id=next(iter(owners), ""))

    async def _compared(self, scope: Scope, stored: StoredCard) -> ReadCard:
        card = await self._compiled(scope, stored.subject)
        if card.digest == stored.digest:
            return ReadCard(stored)
        return ReadCard(stored, tuple(differences(stored.compiled, card.lines)))

    async def _required_compiled(self, scope: Scope, ref: str) -> Card:
        card = await self._compiled(scope, ref)
        if not card.lines:
            raise NotFound(f"nothing holds about {ref}, so there is nothing to summarise: assert a fact about it first")
        return card

    async def _compiled(self, scope: Scope, ref: str) -> Card:
        """The card of a subject as it would be made now."""
        now = self.live.now()
        facts = [one for one in await self._facts(scope, [ref]) if one.authoritative and one.holds_at(now)]
        facts.sort(key=lambda one: (one.assertion.predicate, -one.valid_from.timestamp(), one.id))
        edges = await self.edges([ref.removeprefix(ENTITY).replace("-", " "), *_labels(facts)], scope)
        lines = [
            CardLine(edge.refs[0], f"{edge.subject} → {edge.predicate.replace('_', ' ')} → {edge.object}")
            for edge in edges
            if edge.refs[0].startswith(RECORD)
        ]
        named = [source.ref for fact in facts for source in fact.sources if source.status == "ok"]
        cited = [*named, *(record_ref(fact.ref) for fact in facts), *(line.ref for line in lines)]
        records = await self.journal.find_all([one.removeprefix(RECORD) for one in dict.fromkeys(cited)], scope)
        said = [
            CardLine(record_ref(name), layers_of(records[name].event.text).abstract)
            for name in dict.fromkeys(one.removeprefix(RECORD) for one in named)
            if name in records
        ]
        sources = [record.event.event_id for record in records.values()]
        return compile_card(ref, [CardLine(one.id, one.assertion.sentence) for one in facts], lines, said, sources)


def _labels(facts: Sequence[TemporalFact]) -> list[str]:
    return list(dict.fromkeys(fact.assertion.subject for fact in facts))


def _shown(card: ReadCard) -> wire.SynthesisCard:
    return {
        "subject": card.stored.subject,
        "fresh": card.fresh,
        "reasons": list(card.reasons),
        "lines": [_shown_line(line) for line in card.stored.lines] if card.fresh else [],
        "digest": card.stored.digest,
        "method": card.stored.method,
        "made_at": card.stored.made_at.isoformat(),
    }


def _shown_line(line: CardLine) -> wire.CardText:
    return {"ref": line.ref, "refs": list(line.refs), "text": line.text}


def _page_fact(fact: TemporalFact, *, current: bool) -> PageFact:
    sources = tuple(one.ref if one.status == "ok" else f"{one.ref} ({one.status})" for one in fact.sources)
    what = fact.assertion
    return PageFact(
        fact.subject,
        what.subject,
        what.predicate,
        what.object.text,
        fact.valid_from.date().isoformat(),
        None if fact.valid_to is None else fact.valid_to.date().isoformat(),
        fact.status,
        sources,
        current,
    )
