"""What stores say of one thing that only one value can hold of, and which of them said it last.

Two memories are compared by structure, never by their texts: two versions of one memory (a backend has another text of
an event, or two backends hold items with one UUID), or two values of an attribute that has one at a time
(`fusion.lib.single_valued`) of one subject of one owner. The last assertion holds, at any rank:

- Of two values the one that began to hold later (`Hit.began`), of two versions the one that was recorded later; where
  that is the same, the other of these times decides. A file's time of reading says nothing of when it was written.
- What is to hold later takes the place of nothing that holds now, and a record of later than now is of unknown time.
- One that is trusted less never takes the place of one that is trusted more: both stand, in dispute. So they do if
  neither is known to be later.
- An item that two backends hold has ended if one of them says so that is trusted as much. It has to be one item, of one
  UUID and one kind: a backend has it only if it reads the same graph, while any backend can return a triple. An equal
  triple that has ended in another store is in dispute. What the journal has ends in the journal alone.

What rules extracted from two texts of the journal is left to the journal's own decisions (`fusion.upkeep.contradict`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import combinations
from typing import Any, NamedTuple

from fusion.contract import Fact, Hit, Query
from fusion.lib.fact_lines import stated_in
from fusion.lib.ids import external_ref
from fusion.lib.moment import end_of
from fusion.lib.paraphrase import Kind
from fusion.lib.single_valued import attribute_among, plain, same_value
from fusion.lib.temporal_facts import ENTITY, Assertion, read
from fusion.lib.text_cache import text_cache
from fusion.lib.words import normalise, spoken
from fusion.recall.decision import Decision
from fusion.recall.dedup import Rival
from fusion.recall.dispute import newer_than
from fusion.recall.expand import Pooled
from fusion.recall.filter import JOURNAL, Admitted, Record, hidden, hidden_by_state, original_of
from fusion.recall.rerank import Scored, nothing_fits
from fusion.recipe import ContradictionSettings, RerankSettings

MAX_CLAIMS = 12
"""claims about one thing that are compared, the latest: 66 pairs"""
MAX_ROWS = 50
"""contradictions in a receipt"""
MAX_CHARS = 512
"""characters of a name or value that are compared"""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_VERSION, _VALUE = "version", "value"

Span = tuple[datetime, datetime]
"""the earliest and the latest moment at which something may have happened"""


class Decided(StrEnum):
    """What decides between two claims. The values are stored in receipts, so they never change."""

    NEWEST = "newest"
    LESS_TRUSTED = "less_trusted"
    SAME_TIME = "same_time"
    ENDED = "ended"
    JOURNAL = "journal"


SENTENCES: Mapping[str, str] = {
    Decided.NEWEST: "the first was asserted later",
    Decided.LESS_TRUSTED: "the first was asserted later and is trusted less: both stand",
    Decided.SAME_TIME: "neither is known to be later: both stand",
    Decided.ENDED: "the first says that it has ended",
    Decided.JOURNAL: "the journal has a later word",
}
"""the decisions in words"""


class Claim(NamedTuple):
    """What one store says: ``value`` holds of ``about``. ``ref`` cites the memory that says it.

    ``trust`` is 0 for untrusted claims and output of tools, 1 for unknown and 2 for trusted ones. ``sources`` are the
    refs of the memories that it was extracted from, if rules or a model did so.
    """

    ref: str
    store: str
    about: tuple[str, ...]
    value: str
    began: Span | None
    recorded: Span | None
    trust: int
    sources: tuple[str, ...] = ()
    extracted: bool = False

    @property
    def at(self) -> datetime | None:
        """When it was asserted."""
        first, second = self.times
        known = first or second
        return None if known is None else known[0]

    @property
    def times(self) -> tuple[Span | None, Span | None]:
        """Its times, the one that decides first."""
        return (self.recorded, self.began) if self.about[0] == _VERSION else (self.began, self.recorded)

    def is_later_than(self, other: Claim) -> bool:
        """Whether it is known to have been asserted after another claim."""
        for mine, theirs in zip(self.times, other.times, strict=True):
            if mine is None or theirs is None:
                continue
            if mine[0] > theirs[0] and mine[0] >= theirs[1]:
                return True
            if theirs[0] > mine[0] and theirs[0] >= mine[1]:
                return False
        return False

    def as_known(self, query: Query) -> Claim | None:
        """The claim without times that a question cannot know; None for a value that does not hold yet.

        Nothing was recorded after now: a backend that says so may say anything, and its claim has no time.
        """
        began, recorded = self.began, self.recorded
        if recorded is not None and recorded[0] > query.now:
            began, recorded = None if began == recorded else began, None
        if began is not None and began[0] > (query.as_of or query.now):
            if self.about[0] == _VALUE:
                return None
            began = None
        return self._replace(began=began, recorded=recorded)

    def agrees_with(self, other: Claim) -> bool:
        """Whether both have the same value."""
        return self.value == other.value if self.about[0] == _VERSION else same_value(self.value, other.value)

    def contradicts(self, other: Claim) -> bool:
        """Whether both cannot hold, and it is not for the journal to decide that."""
        decided = self.ref == other.ref or (self.extracted and other.extracted)
        return not decided and not self.agrees_with(other)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two claims that cannot both hold, and what decides. ``first`` was asserted later, or has the smaller ref."""

    decided: Decided
    first: Claim
    second: Claim

    @property
    def kind(self) -> Kind:
        return Kind.VERSION if self.first.about[0] == _VERSION else Kind.VALUE

    def row(self) -> dict[str, Any]:
        """It as a receipt has it: no text of a memory."""
        both = (self.first, self.second)
        return {
            "decision": self.decided.value,
            "on": self.first.about[0],
            "refs": [claim.ref for claim in both],
            "stores": [claim.store for claim in both],
            "at": [None if claim.at is None else claim.at.isoformat() for claim in both],
        }


def contradictions(
    admitted: Mapping[str, Sequence[Admitted]],
    answered: Iterable[tuple[str, Sequence[Hit]]],
    records: Mapping[str, Record],
    query: Query,
    single_valued: Collection[str] = (),
) -> list[Contradiction]:
    """All contradictions among what the query may see, and between that and what stores say has ended.

    ``answered`` has the hits of each backend, ``admitted`` those of them that may be shown. ``single_valued`` names
    more predicates with one object at a time.
    """
    more = frozenset(map(plain, single_valued))
    said = (
        one for name, items in admitted.items() for item in items for one in _claims(name, item, records, query, more)
    )
    claims = [one for claim in said if (one := claim.as_known(query)) is not None]
    kept = {(name, (item.found or item.hit).native_id) for name, items in admitted.items() for item in items}
    found = resolved(claims)
    for name, hits in answered:
        for hit in hits:
            shown = (name, hit.native_id) in kept
            if hit.version_of is not None or (hit.event_id is not None and not shown):
                found += _by_journal(name, hit, records, query)
            elif not shown and hit.valid_to is not None and claims:
                found += _ended(name, hit, claims, query, more)
    return found


def resolved(claims: Iterable[Claim]) -> list[Contradiction]:
    """The contradictions among claims; the order of these does not matter."""
    groups: dict[tuple[str, ...], dict[tuple[str, str], Claim]] = {}
    for claim in claims:
        group = groups.setdefault(claim.about, {})
        key = (claim.ref, claim.value)
        group[key] = min(group[key], claim, key=_claim_key) if key in group else claim
    return [one for _, group in sorted(groups.items()) if len(group) > 1 for one in _among([*group.values()])]


def _among(claims: Sequence[Claim]) -> list[Contradiction]:
    """The contradictions among claims about one thing: one for each claim that does not hold, and for those that may
    hold each pair."""
    latest = sorted(sorted(claims, key=_claim_key), key=_recency_key, reverse=True)[:MAX_CLAIMS]
    above = {one: [other for other in latest if _prevails(other, one)] for one in latest}
    # Times with different precisions can be later than each other in a circle: then none of them holds.
    standing = [one for one in latest if not above[one]] or latest
    found = []
    for one in latest:
        if one not in standing and not any(one.agrees_with(other) for other in standing):
            above_it = [other for other in above[one] if other in standing] or above[one]
            found.append(Contradiction(Decided.NEWEST, _last(above_it), one))
    for one, other in combinations(sorted(standing, key=_claim_key), 2):
        if not one.contradicts(other):
            continue
        if other.is_later_than(one):
            one, other = other, one
        decided = Decided.LESS_TRUSTED if one.is_later_than(other) else Decided.SAME_TIME
        found.append(Contradiction(decided, one, other))
    return found


def _prevails(one: Claim, other: Claim) -> bool:
    """Whether one claim takes the place of another."""
    return one.trust >= other.trust and one.is_later_than(other) and one.contradicts(other)


def _last(claims: Sequence[Claim]) -> Claim:
    """The claim that no other one is later than; of several the one with the smallest ref."""
    late = [claim for claim in claims if not any(other.is_later_than(claim) for other in claims)]
    return min(late or claims, key=_claim_key)


def _claim_key(claim: Claim) -> tuple[Any, ...]:
    """The order of claims, the same for every order of answers. A stated claim precedes an extracted one."""
    times = [*map(str, claim.times)]
    return claim.ref, claim.value, claim.extracted, -claim.trust, claim.store, times, claim.sources


def _recency_key(claim: Claim) -> float:
    return float("-inf") if claim.at is None else claim.at.timestamp()


# The claims of memories


def _claims(
    backend: str, item: Admitted, records: Mapping[str, Record], query: Query, more: Collection[str]
) -> Iterable[Claim]:
    """What one hit says."""
    hit = item.hit
    if hit.version_of is not None and (original := original_of(hit, records)) is not None:
        of_event = (_VERSION, original.event.event_id)
        yield _claim(item.ref, backend, of_event, hit, _text(hit))
        journalled = original.hit if original.said_at is None else _said_again(original)
        yield _claim(original.ref, JOURNAL, of_event, journalled, _text(original.hit))
    elif hit.external and not hit.derived_from and (named := _UUID.search(hit.native_id)):
        yield _claim(item.ref, backend, _item(named[0], hit), hit, _text(hit))
    fact = (item.found or hit).fact
    record = records.get(hit.event_id) if hit.event_id is not None and not hit.external else None
    about = None if fact is None else _about(fact, hit, more)
    if fact is not None and about is not None and (record is None or _states(record, fact)):
        origins = _sources(hit, records, query)
        stating = [one for one in origins if _states(one, fact)]
        sources = tuple(sorted(one.ref for one in stating))
        known = bool(origins) or record is not None
        store = backend if hit.external else JOURNAL
        claim = _claim(item.ref, store, about, hit, plain(fact.object[:MAX_CHARS]), sources, extracted=known)
        # A triple is as trusted as the best memory that names both its ends, though only its backend vouches for it.
        yield claim._replace(trust=max((_trust(one.hit) for one in stating), default=claim.trust))
    if record is not None and (record.event.stated or "act:" in hit.text or "ACT:" in hit.text):
        yield from _stated(item.ref, record, hit, more)


def _sources(hit: Hit, records: Mapping[str, Record], query: Query) -> list[Record]:
    """The memories that a hit was extracted from: those of its scope that the question may see. A backend can name the
    ids of any others as well."""
    named = (records[i] for i in dict.fromkeys(hit.derived_from) if i in records)
    return [record for record in named if record.event.scope == hit.scope and hidden(record, query) is None]


def _states(record: Record, fact: Fact) -> bool:
    """Whether a memory names the subject and the object of a fact. It supports no other fact."""
    text = _plain_text(spoken(record.event.text, record.event.speaker))
    ends = plain(fact.subject[:MAX_CHARS]), plain(fact.object[:MAX_CHARS])
    return all(end and f" {end} " in text for end in ends)


@text_cache(512)
def _plain_text(text: str) -> str:
    return f" {plain(text)} "


def _claim(
    ref: str,
    store: str,
    about: tuple[str, ...],
    hit: Hit,
    value: str,
    sources: tuple[str, ...] = (),
    *,
    extracted: bool = False,
) -> Claim:
    recorded = None if hit.recorded_at is None or _is_read(hit) else (hit.recorded_at, hit.recorded_at)
    return Claim(ref, store, about, value, _began(hit) or recorded, recorded, _trust(hit), sources, extracted)


def _stated(ref: str, record: Record, hit: Hit, more: Collection[str]) -> Iterable[Claim]:
    """What a memory of the journal asserts in so many words (`fusion.lib.temporal_facts`)."""
    event = record.event
    stated = [found for name, value in event.stated if isinstance(found := read(name, value), Assertion)]
    for one in (*stated, *stated_in(event.text)):
        fact = Fact(one.subject.removeprefix(ENTITY), one.predicate, one.object.text.removeprefix(ENTITY))
        if one.valid_to is not None or (about := _about(fact, hit, more)) is None:
            continue
        claim = _claim(ref, JOURNAL, about, hit, plain(fact.object[:MAX_CHARS]))
        since = one.valid_from
        claim = claim if since is None else claim._replace(began=(since, since))
        yield claim._replace(trust=0) if one.by == "tool" else claim


def _about(fact: Fact, hit: Hit, more: Collection[str]) -> tuple[str, ...] | None:
    """The attribute that a fact gives a value to, with its owner and subject; None if several values may hold."""
    attribute = attribute_among(fact.predicate[:MAX_CHARS], more)
    subject = plain(fact.subject[:MAX_CHARS])
    if attribute is None or not subject:
        return None
    return _VALUE, hit.scope.tenant, hit.scope.user_id or "", subject, attribute


def _item(uuid: str, hit: Hit) -> tuple[str, ...]:
    """The identity of an owner's item across backends. An edge and a note of a graph are two items."""
    return _VERSION, hit.scope.tenant, hit.scope.user_id or "", hit.kind, uuid.lower()


def _said_again(record: Record) -> Hit:
    hit = record.hit.found_as(record.hit)
    hit.recorded_at = record.said_at
    return hit


def _text(hit: Hit) -> str:
    return " ".join(normalise(hit.text).split())


def _is_read(hit: Hit) -> bool:
    return hit.place is not None and hit.place.unit == "line"


def _began(hit: Hit) -> Span | None:
    if hit.valid_from is not None:
        return hit.valid_from, hit.valid_from
    if hit.at is None:
        return None
    try:
        return hit.at.utc, end_of(hit.at)
    except (OverflowError, ValueError):  # the last day that there is, or a zone that is none
        return hit.at.utc, hit.at.utc


def _trust(hit: Hit) -> int:
    if hit.trust in ("untrusted", "quarantined") or hit.origin == "tool":
        return 0
    return 2 if hit.trust == "trusted" and not hit.external else 1


# What has ended


def _ended(
    backend: str, hit: Hit, claims: Sequence[Claim], query: Query, more: Collection[str]
) -> Iterable[Contradiction]:
    """The items and facts of other backends that a hit, which is no longer valid, says have ended."""
    end, hit = hit.valid_to, hit.external_to(backend)
    if end is None or end > (query.as_of or query.now) or not query.scope.admits(hit.scope):
        return
    says = _claim(external_ref(backend, hit.native_id), backend, (), hit, "")
    says = says._replace(began=(end, end), recorded=(end, end))
    found: dict[str, Contradiction] = {}
    for one in claims:
        theirs = one.store not in (backend, JOURNAL) and not one.extracted and _is_about(one, hit, more)
        if theirs and (decided := _decided_by_end(one, end, says.trust)) is not None:
            found.setdefault(one.ref, Contradiction(decided, says._replace(about=one.about), one))
    yield from found.values()


def _is_about(claim: Claim, hit: Hit, more: Collection[str]) -> bool:
    """Whether a claim is about the item that a hit is, or says the same fact."""
    if (named := _UUID.search(hit.native_id)) is not None and claim.about == _item(named[0], hit):
        return True
    fact = hit.fact
    return fact is not None and claim.value == plain(fact.object[:MAX_CHARS]) and claim.about == _about(fact, hit, more)


def _decided_by_end(claim: Claim, end: datetime, trust: int) -> Decided | None:
    """What the end of a claim's subject decides about the claim; None if it was asserted after that. It ends an item;
    another store's equal fact is in dispute."""
    since = claim.began or claim.recorded
    if since is None:
        return Decided.SAME_TIME
    if end <= since[0] or end < since[1]:
        return None
    if trust < claim.trust:
        return Decided.LESS_TRUSTED
    return Decided.ENDED if claim.about[0] == _VERSION else Decided.SAME_TIME


def _by_journal(backend: str, hit: Hit, records: Mapping[str, Record], query: Query) -> Iterable[Contradiction]:
    """That a backend still has a text which the journal says was replaced, or is no longer current."""
    record = original_of(hit, records) if hit.version_of is not None else records.get(hit.event_id or "")
    if (
        record is None
        or record.forgotten
        or record.trust == "quarantined"
        or not query.scope.admits(record.event.scope)
    ):
        return
    said_at = record.said_at or record.event.recorded_at
    if hit.version_of is not None:
        replaced = hit.recorded_at is not None and hit.recorded_at <= said_at
    else:
        replaced = record.superseded_by is not None
    if not (replaced or hidden_by_state(record.state, query)):
        return
    about = (_VERSION, record.event.event_id)
    newest = records.get(record.superseded_by or "", record)
    says = _claim(newest.ref, JOURNAL, about, newest.hit, "")
    if newest is record:
        ended = record.state.ended_at or said_at
        says = says._replace(recorded=(ended, ended))
    yield Contradiction(Decided.JOURNAL, says, _claim(record.ref, backend, about, hit, ""))


# In the pool


def by_trust_of_copies(
    found: Sequence[Contradiction], pool: Sequence[Pooled], admitted: Mapping[str, Sequence[Admitted]]
) -> Sequence[Contradiction]:
    """The contradictions, where nothing takes the place of a memory of which a copy is trusted more than what does so.

    A memory in the pool stands for its copies in all stores, so they would go with it.
    """
    if not found:
        return found
    trusts = {item.ref: _trust(item.hit) for items in admitted.values() for item in items}
    best: dict[str, int] = {}
    for entry in pool:
        copies = [hit.ref for hit in entry.candidate.source_hits]
        best |= dict.fromkeys(copies, max((trusts.get(ref, 0) for ref in copies), default=0))
    return [_decided_by_trust(one, best) for one in found]


def _decided_by_trust(one: Contradiction, trusts: Mapping[str, int]) -> Contradiction:
    if one.decided not in (Decided.NEWEST, Decided.ENDED):
        return one
    trust = max(trusts.get(ref, 0) for ref in (one.second.ref, *one.second.sources))
    return one if one.first.trust >= trust else replace(one, decided=Decided.LESS_TRUSTED)


def with_contradictions(pool: Sequence[Pooled], found: Sequence[Contradiction]) -> Sequence[Pooled]:
    """The pool, in which memories that contradict each other by structure are rivals, whatever their texts."""
    if not found:
        return pool
    refs = {hit.ref: entry.ref for entry in pool for hit in entry.candidate.source_hits}
    there = {entry.ref for entry in pool}
    rivals: dict[str, dict[str, Rival]] = {}
    for one in found:
        if one.decided in (Decided.ENDED, Decided.JOURNAL):
            continue
        for first in _shown_as(one.first, refs, there):
            for second in _shown_as(one.second, refs, there):
                newer = first if one.decided is Decided.NEWEST else None
                if first != second:
                    rivals.setdefault(first, {})[second] = Rival(second, one.kind, newer, one.first.at)
                    rivals.setdefault(second, {})[first] = Rival(first, one.kind, newer, one.first.at)
    return [_with_rivals(entry, rivals[entry.ref]) if entry.ref in rivals else entry for entry in pool]


def _shown_as(claim: Claim, refs: Mapping[str, str], there: Collection[str]) -> list[str]:
    """The refs in the pool of a claim: what it was extracted from, else the memory itself."""
    sources = [found for ref in claim.sources if (found := refs.get(ref, ref)) in there]
    own = refs.get(claim.ref, claim.ref)
    return sources or ([own] if own in there else [])


def _with_rivals(entry: Pooled, more: Mapping[str, Rival]) -> Pooled:
    others = (rival for rival in entry.candidate.rivals if rival.ref not in more)
    return entry._replace(candidate=entry.candidate._replace(rivals=(*others, *more.values())))


def with_newer_shown(order: Sequence[Scored], floors: RerankSettings) -> Sequence[Scored]:
    """The order in which the floors leave nothing out that took the place of a memory which they admit."""
    wanted = {ref for one in order if not one.is_below(floors) for ref in newer_than(one)}
    if not wanted or nothing_fits(order, floors):
        return order
    return [one._replace(asked_for=True) if one.ref in wanted else one for one in order]


def leave_out(
    order: Sequence[Scored], found: Sequence[Contradiction], numbers: ContradictionSettings
) -> dict[str, Decision]:
    """By key, the memories that are not shown: what has ended elsewhere in all its copies, and by recipe what another
    one took the place of. A memory from which rules extracted a fact may say more, and is shown."""
    ended = {one.second.ref for one in found if one.decided is Decided.ENDED}
    decisions = {
        one.pooled.key: Decision.ENDED_ELSEWHERE
        for one in order
        if one.ref in ended and all(hit.ref in ended for hit in one.pooled.candidate.source_hits)
    }
    if numbers.outdated == "leave_out":
        lost = {one.second.ref for one in found if one.decided is Decided.NEWEST and not one.second.sources}
        there = {one.ref for one in order}
        for one in order:
            if one.ref in lost and not newer_than(one).isdisjoint(there):
                decisions.setdefault(one.pooled.key, Decision.CONTRADICTED)
    return decisions


def explained(stored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a receipt with ``why`` in words."""
    return [{**row, "why": SENTENCES.get(row["decision"], row["decision"])} for row in stored]


def rows(found: Sequence[Contradiction]) -> list[dict[str, Any]]:
    """The contradictions as a receipt has them: those that decide about a block first, at most `MAX_ROWS`."""
    first = sorted(found, key=lambda one: one.decided is Decided.JOURNAL)
    return [one.row() for one in first[:MAX_ROWS]]
