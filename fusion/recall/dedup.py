"""Answers → Candidates: one memory, many sightings.

Two hits are the same memory, in this order: same event → one span and its text contain the other → same content →
word-set Jaccard at 0.6, guarded (`fusion.recall.paraphrase`: a content word, name, negation, number or date that
differs, or another order, keeps them apart) → else they are distinct. Two that the guard keeps apart are rivals.
The survivor is the verbatim one, then the one that came through the gateway (it alone can be forgotten by its ref),
then the one whose document holds most of what was found, then the better ranked, then the one with the smaller ref;
every sighting is kept.
A fact and the event it was derived from are never the same memory.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fusion.contract import Hit, Place
from fusion.lib.jaccard import jaccard
from fusion.lib.words import normalise, spoken, word_list
from fusion.recall.candidate_pairs import possible_pairs
from fusion.recall.filter import Admitted
from fusion.recall.paraphrase import Difference, Kind, difference
from fusion.recipe import DedupSettings


class SourceHit(NamedTuple):
    """Where a memory was seen: ``rank`` starts at 1; ``reason`` says why it is the same memory; ``graph`` is how
    strongly the backend's graph leads to it, where it has one."""

    backend: str
    ref: str
    native_id: str
    rank: int
    score: float | None
    reason: str
    graph_score: float | None = None


class Rival(NamedTuple):
    """Another memory that shares most words with one and states something else. ``kind`` says in what they differ."""

    ref: str
    kind: Kind


class Candidate(NamedTuple):
    """One memory, and everyone who found it. ``hit`` is the survivor's; a pair of rivals stands with either of them."""

    ref: str
    hit: Hit
    source_hits: tuple[SourceHit, ...]
    rivals: tuple[Rival, ...] = ()
    last: datetime | None = None
    """when its latest copy was said, of a memory with copies; see `_last_said`"""


Texts = tuple[str, str]
"""two texts as they were said"""


def dedup(
    answers: Mapping[str, Sequence[Admitted]], rules: DedupSettings, reworded: Collection[Texts] = ()
) -> tuple[Candidate, ...]:
    """Distinct memories of all ``answers``, best rank first; at most ``rules.max_candidates``.

    ``reworded`` are the pairs, of those in `AnsweredHits.doubtful`, that say the same in other words.
    """
    return AnsweredHits(answers, rules).candidates(reworded)


class AnsweredHits:
    """All hits of all answers, in the order in which they are compared."""

    def __init__(self, answers: Mapping[str, Sequence[Admitted]], rules: DedupSettings) -> None:
        seen = [(backend, item) for backend, items in answers.items() for item in items]
        seen.sort(key=lambda s: (bool(s[1].hit.derived_from), not _in_journal(s[1].hit), s[1].rank, s[1].ref))
        self._seen = seen
        self._most = rules.max_candidates
        self._known = DistinctHits(rules, [item.hit for _, item in seen])

    def doubtful(self) -> list[Texts]:
        """The pairs of texts of which only a model can tell whether they say the same."""
        return self._known.doubtful()

    def candidates(self, reworded: Collection[Texts] = ()) -> tuple[Candidate, ...]:
        """The distinct memories among the hits, best rank first."""
        known = self._known
        known.reworded = reworded
        kept: dict[int, list[tuple[Hit, SourceHit]]] = {}
        for i, (backend, item) in enumerate(self._seen):
            first, reason = known.find(i) or (i, "first seen")
            if first == i:
                if len(kept) >= self._most:
                    continue
                known.add(i)
                kept[i] = []
            found = item.found or item.hit
            graph_score = None if item.hit.external else found.graph_score
            source_hit = SourceHit(backend, item.ref, found.native_id, item.rank, found.score, reason, graph_score)
            kept[first].append((item.hit, source_hit))
        same = dict(zip(kept, _in_their_fullest_document(list(kept.values())), strict=True))
        disputed = any(known.rivals(i) for i in same)
        candidates = (
            Candidate(
                found[0][1].ref,
                found[0][0],
                tuple(source_hit for _, source_hit in found),
                tuple(Rival(same[j][0][1].ref, kind) for j, kind in known.rivals(i)),
                _last_said(found) if disputed and len(found) > 1 else None,
            )
            for i, found in same.items()
        )
        return tuple(sorted(candidates, key=lambda c: (min(s.rank for s in c.source_hits), c.ref)))


def _in_their_fullest_document(same: list[list[tuple[Hit, SourceHit]]]) -> list[list[tuple[Hit, SourceHit]]]:
    """Each memory's sightings, the survivor's first: of equals that one whose document holds most of what was found.

    There stands what belongs to it. A copy that lies alone in another file or store has lost its neighbours.
    """
    if all(_in_one_document(source_hits[0][0], hit) for source_hits in same for hit, _ in source_hits[1:]):
        return same
    found = Counter(shelf for source_hits in same for shelf in {_document_key(hit) for hit, _ in source_hits})

    def worse(one: tuple[Hit, SourceHit]) -> tuple[bool, bool, int]:
        hit = one[0]
        return bool(hit.derived_from), not _in_journal(hit), -found[_document_key(hit)] if hit.place is not None else 0

    return [
        sorted(source_hits, key=worse) for source_hits in same
    ]  # stable: then the better rank, then the smaller ref


def _last_said(found: Sequence[tuple[Hit, SourceHit]]) -> datetime | None:
    """When the latest copy of a memory was said: of the journal's copies that are no tool's and not untrusted.

    Dates of what happened are compared with each other, and so are those of when something was remembered; a file that
    was read in today says nothing of when it was written.
    """
    survivor = found[0][0]
    ours = [hit for hit, _ in found if _in_journal(hit) and hit.trust != "untrusted" and hit.origin != "tool"]
    if survivor.at is not None:
        return max((hit.at.utc for hit in ours if hit.at is not None), default=None)
    if survivor.place is not None:
        return None
    times = (hit.recorded_at for hit in ours if hit.at is None and hit.place is None)
    return max((time for time in times if time is not None), default=None)


def _in_one_document(hit: Hit, other: Hit) -> bool:
    """Whether both have the same `_document_key`, without making two."""
    if hit.place is None or other.place is None:
        return hit.place is other.place
    return (
        hit.place.document == other.place.document
        and hit.place.unit == other.place.unit
        and hit.stated_by == other.stated_by
        and hit.scope.tenant == other.scope.tenant
        and hit.scope.user_id == other.scope.user_id
    )


def _in_journal(hit: Hit) -> bool:
    """Whether the journal has it: then it can be forgotten by its ref."""
    return hit.event_id is not None and not hit.external


def _document_key(hit: Hit) -> tuple[object, ...] | None:
    return _document(hit, hit.place) if hit.place is not None else None


def join(
    candidates: Sequence[Candidate], others: Iterable[tuple[str, Hit]], rules: DedupSettings
) -> tuple[Candidate, ...]:
    """Those of ``others`` (ref, hit) that are neither among ``candidates`` nor each other, as candidates."""
    waiting = list(others)
    if not waiting:
        return ()
    known = DistinctHits(rules, [*(c.hit for c in candidates), *(hit for _, hit in waiting)], since=len(candidates))
    for i in range(len(candidates)):
        known.add(i)
    new = []
    refs = {i: candidate.ref for i, candidate in enumerate(candidates)}
    for i, (ref, hit) in enumerate(waiting, start=len(candidates)):
        if known.find(i) is None:
            known.add(i)
            refs[i] = ref
            new.append(Candidate(ref, hit, (), tuple(Rival(refs[j], kind) for j, kind in known.rivals(i))))
    return tuple(new)


class DistinctHits:
    """The distinct memories among ``hits``, by index; looks a hit up by its event, its place or its words.

    The similarity is exact Jaccard; `possible_pairs` only excludes pairs that cannot reach the threshold. Hits before
    ``since`` are distinct already and are not looked up.
    """

    def __init__(self, rules: DedupSettings, hits: Sequence[Hit], since: int = 0) -> None:
        self._rules = rules
        self._hits = hits
        self._listed: dict[int, tuple[list[str], frozenset[str]]] = {}
        self.reworded: Collection[Texts] = ()
        """pairs that say the same in other words"""
        self._rivals: dict[int, list[tuple[int, Kind]]] = {}
        self._differences: dict[tuple[int, int], Difference] = {}
        self._room = MAX_COMPARED_CHARS
        self._in: set[int] = set()
        self._events: dict[str, int] = {}
        # Nearly all turns fill one place each, and of hundreds in a talk only those in the same one need be looked at.
        self._places: dict[tuple[object, ...], dict[int, list[int]]] = defaultdict(dict)
        self._spans: dict[tuple[object, ...], list[int]] = defaultdict(list)
        # A second sighting of an event is known by it, whatever its words are.
        first = {hit.event_id or i: i for i, hit in reversed([*enumerate(hits)])}
        these = sorted(first.values())
        self._said = {i: spoken(hits[i].text, hits[i].speaker) for i in these}
        like = possible_pairs([*self._said.values()], rules.jaccard, bisect_left(these, since))
        self._possible = {these[i]: [these[j] for j in others] for i, others in like.items()}

    def add(self, i: int) -> None:
        hit = self._hits[i]
        self._in.add(i)
        if hit.event_id:
            self._events[hit.event_id] = i
        if hit.place is not None:
            document = _document(hit, hit.place)
            if hit.place.start == hit.place.end:
                self._places[document].setdefault(hit.place.start, []).append(i)
            else:
                self._spans[document].append(i)

    def find(self, i: int) -> tuple[int, str] | None:
        """The index of the memory that ``hits[i]`` is, and why; None if it is a new one."""
        hit = self._hits[i]
        if hit.event_id and (same := self._events.get(hit.event_id)) is not None:
            return same, "same event"
        found = self._in_its_place(i, hit.place) if hit.place is not None else None
        if found is None and i in self._possible:
            found = self._like(i)
        if found is not None and hit.event_id:
            self._events[hit.event_id] = found[0]
        return found

    def rivals(self, i: int) -> Sequence[tuple[int, Kind]]:
        """The distinct ones before ``hits[i]`` that it disputes, once it was looked for, with what they differ in."""
        return self._rivals.get(i, ())[:MAX_RIVALS]

    def doubtful(self) -> list[Texts]:
        """The pairs of texts of which only a model can tell whether they say the same; at most `MAX_DOUBTFUL_PAIRS`."""
        if not self._rules.guarded:
            return []
        found: list[Texts] = []
        for i, others in self._possible.items():
            for j in others:
                if self._room <= 0:
                    return found
                one, other = self._compared(i, j)
                if one == other or jaccard(self._words(i)[1], self._words(j)[1]) < self._rules.jaccard:
                    continue
                if self._difference(i, j).doubtful:
                    found.append((one, other))
                    if len(found) == MAX_DOUBTFUL_PAIRS:
                        return found
        return found

    def _in_its_place(self, i: int, place: Place) -> tuple[int, str] | None:
        hit = self._hits[i]
        document = _document(hit, place)
        if place.start == place.end:
            met = self._places[document].get(place.start, ())
        else:
            met = [
                j for there, these in self._places[document].items() if place.start <= there <= place.end for j in these
            ]
        wider = self._spans.get(document)
        for j in sorted((*met, *wider)) if wider else met:
            other = self._hits[j]
            if _nested(place, other.place) and other.derived_from == hit.derived_from and _within(hit, other):
                return j, "same span"
        return None

    def _like(self, i: int) -> tuple[int, str] | None:
        met = [j for j in self._possible.get(i, ()) if j in self._in and not _related(self._hits[i], self._hits[j])]
        if not met:
            return None
        mine, distinct = self._words(i)
        rivals: list[tuple[int, Kind]] = []
        best: tuple[float, int] | None = None
        for j in met:
            if self._said[i] == self._said[j]:
                return j, "same content"
            if self._room <= 0 and (i, j) not in self._differences:
                continue
            theirs, others = self._words(j)
            likeness = jaccard(distinct, others)
            if likeness < self._rules.jaccard or (best is not None and likeness <= best[0]):
                continue
            if self._rules.guarded:
                texts = self._compared(i, j)
                differs = self._difference(i, j)
                if differs.kind is not Kind.ALIKE and not self._is_reworded(*texts):
                    if differs.disputes and not _are_read_in_order(self._hits[i], self._hits[j]):
                        rivals.append((j, differs.kind))
                    continue
                if _by_two_people(self._hits[i], self._hits[j]):
                    continue
            if mine == theirs:
                return j, "same content"
            best = (likeness, j)
        if best is None:
            self._rivals[i] = rivals
        return (best[1], f"Jaccard {best[0]:.2f}") if best else None

    def _words(self, i: int) -> tuple[list[str], frozenset[str]]:
        """The words of a text in order, and as a set."""
        found = self._listed.get(i)
        if found is None:
            listed = _listed(self._said[i])
            found = self._listed[i] = listed, frozenset(listed)
        return found

    def _compared(self, i: int, j: int) -> Texts:
        """Two texts as the guard compares them: who said it is no word of what was said."""
        one, other = self._hits[i], self._hits[j]
        return (self._said[i], self._said[j]) if one.speaker == other.speaker else (one.text, other.text)

    def _difference(self, i: int, j: int) -> Difference:
        """In what two texts differ; each pair is compared once, and takes of the room that a question has for it."""
        found = self._differences.get((i, j))
        if found is None:
            one, other = self._compared(i, j)
            self._room -= len(one) + len(other)
            found = self._differences[i, j] = difference(one, other)
        return found

    def _is_reworded(self, one: str, other: str) -> bool:
        return bool(self.reworded) and ((one, other) in self.reworded or (other, one) in self.reworded)


MAX_RIVALS = 4
"""of one memory that are told apart; a flood of versions is shown by its first ones"""
MAX_COMPARED_CHARS = 400_000
"""characters of one question's pairs that are compared word by word, some 50 ms; of a larger flood only equal texts are
taken for one: 200 versions of one sentence took a second"""
MAX_DOUBTFUL_PAIRS = 32
"""pairs of one question that a model is asked about: each takes some 30 µs"""


def _by_two_people(one: Hit, other: Hit) -> bool:
    """Whether two people said the same: no dispute, and two memories all the same."""
    return bool(one.speaker and other.speaker) and normalise(one.speaker or "") != normalise(other.speaker or "")


def _listed(said: str) -> list[str]:
    # What has no words at all (an emoji) is compared by its characters.
    return word_list(said) or [*said]


_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


def _are_read_in_order(hit: Hit, other: Hit) -> bool:
    """Whether both stand in one document, or in two daily notes of ours: each says what held at its time."""
    if hit.place is None or other.place is None:
        return False
    if _in_one_document(hit, other):
        return True
    if hit.external or other.external:
        return False
    days = _DAY.search(hit.place.document), _DAY.search(other.place.document)
    return days[0] is not None and days[1] is not None and days[0][0] != days[1][0]


def _nested(place: Place, other: Place | None) -> bool:
    """Whether one of two places of a document lies within the other."""
    return other is not None and (
        (other.start <= place.start and place.end <= other.end)
        or (place.start <= other.start and other.end <= place.end)
    )


def _within(hit: Hit, other: Hit) -> bool:
    """Whether one text has the other's words in a row: lines of a file may say something else by now."""
    if hit.text == other.text:
        return True
    one, two = (" ".join(word_list(h.text)) for h in (hit, other))
    return one in two or two in one


def _document(hit: Hit, place: Place) -> tuple[object, ...]:
    return (hit.scope.tenant, hit.scope.user_id, place.document, place.unit, hit.stated_by)


def _related(hit: Hit, other: Hit) -> bool:
    """Whether one of the two was derived from the other: they support each other, and are two memories."""
    return (other.event_id is not None and other.event_id in hit.derived_from) or (
        hit.event_id is not None and hit.event_id in other.derived_from
    )
