"""Answers → Candidates: one memory, many sightings.

Two hits are the same memory, in this order: same event → one span contains the other → same content → word-set
Jaccard at 0.6, guarded (a negation, number or date that differs keeps them apart) → else they are distinct.
The survivor is the verbatim one, then the better ranked, then the one with the smaller ref; every sighting is kept.
A fact and the event it was derived from are never the same memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from fusion.contract import Hit, Place
from fusion.lib.jaccard import jaccard, telling
from fusion.lib.words import spoken, word_list
from fusion.recall.admit import Admitted
from fusion.recipe import Dedup


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a memory was seen: ``rank`` starts at 1; ``reason`` says why it is the same memory."""

    backend: str
    ref: str
    native_id: str
    rank: int
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory, and everyone who found it. ``hit`` is the survivor's."""

    ref: str
    hit: Hit
    sightings: tuple[Sighting, ...]


def dedup(answers: Mapping[str, Sequence[Admitted]], rules: Dedup) -> tuple[Candidate, ...]:
    """Distinct memories of all ``answers``, best rank first; at most ``rules.max_candidates``."""
    seen = [(backend, item) for backend, items in answers.items() for item in items]
    seen.sort(key=lambda s: (bool(s[1].hit.derived_from), s[1].rank, s[1].ref))
    known = Known(rules, (item.hit for _, item in seen))
    kept: dict[str, list[Sighting]] = {}
    survivors: dict[str, Hit] = {}
    for backend, item in seen:
        match = known.find(item.hit)
        ref, reason = match or (item.ref, "first seen")
        if match is None:
            if len(survivors) >= rules.max_candidates:
                continue
            known.add(item.ref, item.hit)
            survivors[item.ref] = item.hit
            kept[item.ref] = []
        kept[ref].append(Sighting(backend, item.ref, item.hit.native_id, item.rank, item.hit.score, reason))
    candidates = (Candidate(ref, hit, tuple(kept[ref])) for ref, hit in survivors.items())
    return tuple(sorted(candidates, key=lambda c: (min(s.rank for s in c.sightings), c.ref)))


def join(candidates: Sequence[Candidate], others: Iterable[tuple[str, Hit]], rules: Dedup) -> tuple[Candidate, ...]:
    """Those of ``others`` (ref, hit) that are neither among ``candidates`` nor each other, as candidates."""
    waiting = list(others)
    if not waiting:
        return ()
    known = Known(rules, [*(c.hit for c in candidates), *(hit for _, hit in waiting)])
    for candidate in candidates:
        known.add(candidate.ref, candidate.hit)
    new = []
    for ref, hit in waiting:
        if known.find(hit) is None:
            known.add(ref, hit)
            new.append(Candidate(ref, hit, ()))
    return tuple(new)


@dataclass(frozen=True, slots=True)
class _Print:
    """What two texts are compared by."""

    content: str
    words: frozenset[str]


@lru_cache(maxsize=8192)
def _print(said: str) -> _Print:
    """Remembered, because the same memories come back query after query."""
    listed = word_list(said)
    return _Print(" ".join(listed), frozenset(listed))


def _print_of(hit: Hit) -> _Print:
    return _print(spoken(hit.text, hit.speaker))


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    ref: str
    print: _Print
    derived: tuple[str, ...]
    event_id: str | None


class Known:
    """The distinct memories so far, found again by event, span, content or likeness.

    Likeness is exact Jaccard, not an estimate. With threshold t, two sets of n and m words can only reach it if the
    first n - ⌈t·n⌉ + 1 and m - ⌈t·m⌉ + 1 words of theirs, in any one order of all words, have one in common (prefix
    filter: Bayardo, Ma, Srikant, "Scaling up all pairs similarity search", WWW 2007). The order puts first what is rare
    among ``hits``, all that will be added or looked for: rare words meet seldom by chance.
    """

    def __init__(self, rules: Dedup, hits: Iterable[Hit]) -> None:
        self._rules = rules
        self._events: dict[str, str] = {}
        self._contents: dict[str, _Text] = {}
        self._places: dict[tuple[object, ...], list[tuple[Place, str, tuple[str, ...]]]] = defaultdict(list)
        self._prefixes: dict[str, list[_Text]] = defaultdict(list)
        counts = Counter(word for hit in hits for word in _print_of(hit).words)
        self._order = {word: i for i, word in enumerate(sorted(sorted(counts), key=counts.__getitem__))}

    def add(self, ref: str, hit: Hit) -> None:
        text = _Text(ref, _print_of(hit), hit.derived_from, hit.event_id)
        if hit.event_id:
            self._events[hit.event_id] = ref
        self._contents.setdefault(text.print.content, text)
        if hit.place is not None:
            self._places[_document(hit, hit.place)].append((hit.place, ref, hit.derived_from))
        for word in self._prefix(text.print):
            self._prefixes[word].append(text)

    def find(self, hit: Hit) -> tuple[str, str] | None:
        """The ref of the memory that ``hit`` is, and why; None if it is a new one."""
        if hit.event_id and (same := self._events.get(hit.event_id)):
            return same, "same event"
        if hit.place is not None:
            for place, other, derived in self._places[_document(hit, hit.place)]:
                if derived == hit.derived_from and (place.contains(hit.place) or hit.place.contains(place)):
                    return other, "same span"
        mine = _print_of(hit)
        text = self._contents.get(mine.content)
        if text is not None and not _related(text, hit):
            return text.ref, "same content"
        return self._like(mine, hit)

    def _like(self, mine: _Print, hit: Hit) -> tuple[str, str] | None:
        met = {other for word in self._prefix(mine) for other in self._prefixes.get(word, ())}
        threshold = self._rules.jaccard
        best: tuple[float, str] | None = None
        for other in met:
            likeness = jaccard(mine.words, other.print.words)
            if likeness < threshold or _related(other, hit):
                continue
            if self._rules.guarded and telling(mine.words ^ other.print.words):
                continue
            if best is None or (-likeness, other.ref) < (-best[0], best[1]):
                best = (likeness, other.ref)
        return (best[1], f"Jaccard {best[0]:.2f}") if best else None

    def _prefix(self, text: _Print) -> list[str]:
        size = len(text.words)
        # ⌈t·n⌉ with a hair taken off: 0.6 × 15 must not become 9.000000000000002 and ten.
        shared = ceil(self._rules.jaccard * size - 1e-9)
        return sorted(text.words, key=self._order.__getitem__)[: size - shared + 1]


def _document(hit: Hit, place: Place) -> tuple[object, ...]:
    return (hit.scope.tenant, hit.scope.user_id, place.document, place.unit)


def _related(text: _Text, hit: Hit) -> bool:
    """Whether one of the two was derived from the other: they support each other, and are two memories."""
    return (text.event_id is not None and text.event_id in hit.derived_from) or (
        hit.event_id is not None and hit.event_id in text.derived
    )
