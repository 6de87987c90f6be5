"""Near duplicates among many hits: pairs of texts that say the same, and pairs that contradict each other."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Sequence

from fusion.contract import Hit
from fusion.lib.jaccard import jaccard
from fusion.lib.paraphrase import Difference, Kind, difference
from fusion.lib.words import normalise, spoken, word_list
from fusion.recall.candidate_pairs import possible_pairs
from fusion.recall.document_place import in_one_document
from fusion.recipe import DedupSettings

MAX_RIVALS = 4
"""maximum rivals of one memory; of a flood of versions the first ones are shown"""
MAX_COMPARED_CHARS = 400_000
"""characters of one query's pairs that are compared word by word, some 50 ms; beyond it only equal texts are merged:
200 versions of one sentence took a second"""
MAX_DOUBTFUL_PAIRS = 32
"""pairs of one query that a model is asked about, some 30 µs each"""

Texts = tuple[str, str]
"""two texts with their speakers"""


class NearDuplicates:
    """Compares hits by their words; hits are given as indices into ``hits``.

    The similarity is exact Jaccard; `possible_pairs` only excludes pairs that cannot reach the threshold. Each hit is
    compared with those before it; hits before ``since`` are not looked up.
    """

    def __init__(self, rules: DedupSettings, hits: Sequence[Hit], since: int = 0) -> None:
        self._rules = rules
        self._hits = hits
        self.reworded: Collection[Texts] = ()
        """pairs that say the same in other words"""
        self._words_of: dict[int, tuple[list[str], frozenset[str]]] = {}
        self._rivals: dict[int, list[tuple[int, Kind]]] = {}
        self._differences: dict[tuple[int, int], Difference] = {}
        self._chars_left = MAX_COMPARED_CHARS
        # Of several hits of one event the first is compared: the others are found by their event.
        first = {hit.event_id or i: i for i, hit in reversed([*enumerate(hits)])}
        indices = sorted(first.values())
        self._texts = {i: spoken(hits[i].text, hits[i].speaker) for i in indices}
        similar = possible_pairs([*self._texts.values()], rules.jaccard, bisect_left(indices, since))
        self._possible = {indices[i]: [indices[j] for j in others] for i, others in similar.items()}

    def find(self, i: int, among: Container[int]) -> tuple[int, str] | None:
        """The most similar hit ``among`` these that says the same as ``hits[i]``, and the reason. Notes its rivals."""
        if i not in self._possible:
            return None
        others = [j for j in self._possible[i] if j in among and not _derived(self._hits[i], self._hits[j])]
        if not others:
            return None
        words, word_set = self._words(i)
        rivals: list[tuple[int, Kind]] = []
        best: tuple[float, int] | None = None
        for j in others:
            if self._texts[i] == self._texts[j]:
                return j, "same content"
            if self._chars_left <= 0 and (i, j) not in self._differences:
                continue
            other_words, other_set = self._words(j)
            similarity = jaccard(word_set, other_set)
            if similarity < self._rules.jaccard or (best is not None and similarity <= best[0]):
                continue
            if self._rules.guarded and not self._says_the_same(i, j, rivals):
                continue
            if words == other_words:
                return j, "same content"
            best = (similarity, j)
        if best is None:
            self._rivals[i] = rivals
        return (best[1], f"Jaccard {best[0]:.2f}") if best else None

    def rivals(self, i: int) -> Sequence[tuple[int, Kind]]:
        """The hits that `find` found to contradict ``hits[i]``, with the kind of difference."""
        return self._rivals.get(i, ())[:MAX_RIVALS]

    def doubtful(self) -> list[Texts]:
        """The pairs of texts that only a model can compare; at most `MAX_DOUBTFUL_PAIRS`."""
        if not self._rules.guarded:
            return []
        found: list[Texts] = []
        for i, others in self._possible.items():
            for j in others:
                if self._chars_left <= 0:
                    return found
                one, other = self._compared(i, j)
                if one == other or jaccard(self._words(i)[1], self._words(j)[1]) < self._rules.jaccard:
                    continue
                if self._difference(i, j).doubtful:
                    found.append((one, other))
                    if len(found) == MAX_DOUBTFUL_PAIRS:
                        return found
        return found

    def _says_the_same(self, i: int, j: int, rivals: list[tuple[int, Kind]]) -> bool:
        """Whether the guard lets two similar texts be one memory; a pair that contradicts goes into ``rivals``."""
        differs = self._difference(i, j)
        if differs.kind is not Kind.ALIKE and not self._is_reworded(*self._compared(i, j)):
            if differs.disputes and not _read_in_order(self._hits[i], self._hits[j]):
                rivals.append((j, differs.kind))
            return False
        return not _by_two_speakers(self._hits[i], self._hits[j])

    def _words(self, i: int) -> tuple[list[str], frozenset[str]]:
        """The words of a text in order, and as a set."""
        found = self._words_of.get(i)
        if found is None:
            # A text without words (an emoji) is compared by its characters.
            words = word_list(self._texts[i]) or [*self._texts[i]]
            found = self._words_of[i] = words, frozenset(words)
        return found

    def _compared(self, i: int, j: int) -> Texts:
        """Two texts as the guard compares them: with the speaker only if both have the same one."""
        one, other = self._hits[i], self._hits[j]
        return (self._texts[i], self._texts[j]) if one.speaker == other.speaker else (one.text, other.text)

    def _difference(self, i: int, j: int) -> Difference:
        """The difference of two texts; each pair is compared once and uses up characters of the query's bound."""
        found = self._differences.get((i, j))
        if found is None:
            one, other = self._compared(i, j)
            self._chars_left -= len(one) + len(other)
            found = self._differences[i, j] = difference(one, other)
        return found

    def _is_reworded(self, one: str, other: str) -> bool:
        return bool(self.reworded) and ((one, other) in self.reworded or (other, one) in self.reworded)


def _by_two_speakers(one: Hit, other: Hit) -> bool:
    """Whether two different speakers said the same: two memories that do not contradict each other."""
    return bool(one.speaker and other.speaker) and normalise(one.speaker or "") != normalise(other.speaker or "")


_DAY = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


def _read_in_order(hit: Hit, other: Hit) -> bool:
    """Whether both are in one document, or in the user's daily notes of two days: each was true at its time."""
    if hit.place is None or other.place is None:
        return False
    if in_one_document(hit, other):
        return True
    if hit.external or other.external:
        return False
    days = _DAY.search(hit.place.document), _DAY.search(other.place.document)
    return days[0] is not None and days[1] is not None and days[0][0] != days[1][0]


def _derived(hit: Hit, other: Hit) -> bool:
    """Whether one of the two was derived from the other: they support each other and stay two memories."""
    return (other.event_id is not None and other.event_id in hit.derived_from) or (
        hit.event_id is not None and hit.event_id in other.derived_from
    )
