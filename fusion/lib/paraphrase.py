"""Whether two texts that share most of their words say the same: the guard of the Jaccard comparison.

Two texts differ if each has a content word that the other lacks; if a number, date, negation or name is in only one;
or if their words are in another order ("Ada pays Bo", "Bo pays Ada"). Spellings, inflections, contractions and listed
synonyms count as the same word (`fusion.lib.word_forms`). Synonyms that are not listed, and misspellings, need a
model: `Difference.doubtful` marks pairs for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from fusion.lib.text_cache import text_cache
from fusion.lib.word_forms import FUNCTION_WORDS, canonical, names, same_word


class Kind(StrEnum):
    """The kinds of difference between two texts."""

    ALIKE = "alike"
    DATE = "date"
    NUMBER = "number"
    NEGATION = "negation"
    NAME = "name"
    ORDER = "order"
    WORD = "word"
    CONFLICT = "conflict"
    """two statements that were found to contradict each other when they were stored"""
    DISSENT = "dissent"
    """two statements that answer the question of a context pack differently"""
    SUPERSEDED = "superseded"
    """two statements of which the later one names the value of the earlier one as past"""
    VERSION = "version"
    """two versions of one memory that two stores have"""
    VALUE = "value"
    """two values that stores have of an attribute with one value at a time"""


STRUCTURAL = frozenset({Kind.VERSION, Kind.VALUE})
"""the kinds of what stores contradict each other in, which no text decides (`fusion.recall.contradictions`)"""


class Difference(NamedTuple):
    """The difference of one text from another, with the words that only the one and only the other has."""

    kind: Kind
    mine: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether a model should compare the words that differ: they may mean the same."""
        few = self.kind is Kind.WORD and 0 < len(self.mine) == len(self.theirs) <= MAX_DOUBTFUL_WORDS
        return few and not any((a, b) in _OPPOSED for a in self.mine for b in self.theirs)

    @property
    def disputes(self) -> bool:
        """Whether the texts contradict each other. Other dates and many other words do not."""
        if not self.mine or not self.theirs:
            return self.kind in (Kind.NEGATION, Kind.ORDER)
        return self.kind not in (Kind.ALIKE, Kind.DATE) and max(len(self.mine), len(self.theirs)) <= MAX_DISPUTED_WORDS


MAX_DOUBTFUL_WORDS = 2
"""words on each side that a model compares; among more it would always find a match"""
MAX_DISPUTED_WORDS = 3
"""words on each side up to which two texts contradict; with more they are about different things"""

NEGATIONS = frozenset(
    "no not never none nobody nothing neither nor without cannot stopped quit refuse refused false "
    "hardly barely scarcely except unless formerly former only".split()
)
DATES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december yesterday today tomorrow tonight morning afternoon evening night noon "
    "midnight spring summer autumn fall winter last next".split()
)
_OPPOSED = frozenset(
    pair
    for one, other in (
        pair.split("/")
        for pair in "on/off in/out for/against to/from up/down over/under before/after before/behind above/below "
        "more/less "
        "more/fewer most/least most/few all/some all/few must/may must/can may/should he/she "
        "his/her him/her himself/herself "
        "right/left right/wrong with/without inside/outside yes/no before/during after/during both/either until/from "
        "until/after until/since before/since".split()
    )
    for pair in ((one, other), (other, one))
)
"""pairs of function words that reverse a statement when one replaces the other"""


class _Pair(NamedTuple):
    """Two texts as they are compared: all words of each, those that the other lacks, and the names in both."""

    mine: tuple[str, ...]
    theirs: tuple[str, ...]
    left: list[str]
    right: list[str]
    named: frozenset[str]


@text_cache(16_384)
def difference(one: str, other: str) -> Difference:
    """The first difference of two texts that share most of their words, in the order of `_CHECKS`."""
    mine, theirs = canonical(one), canonical(other)
    if mine == theirs:
        return _ALIKE
    left, right = _without(mine, theirs), _without(theirs, mine)
    if "".join(left) == "".join(right):  # "follow-up", "followup"
        left = right = []
    named = names(one) | names(other)
    pair = _Pair(mine, theirs, *_unmatched(left, right, named), named)
    return next((found for check in _CHECKS if (found := check(pair)) is not None), _ALIKE)


_ALIKE = Difference(Kind.ALIKE)


def _negation_date_or_number(pair: _Pair) -> Difference | None:
    """A negation, a date or a number that only one text has."""
    for kind, is_marked in ((Kind.NEGATION, _negates), (Kind.DATE, _dates), (Kind.NUMBER, _counts)):
        mine, theirs = tuple(filter(is_marked, pair.left)), tuple(filter(is_marked, pair.right))
        if mine or theirs:
            return Difference(kind, mine, theirs)
    return None


def _unit(pair: _Pair) -> Difference | None:
    """Another unit after a number: "5 minutes", "5 hours"."""
    mine, theirs = _after_numbers(pair.mine, pair.left), _after_numbers(pair.theirs, pair.right)
    return Difference(Kind.NUMBER, mine, theirs) if mine and theirs else None


def _opposed_function_words(pair: _Pair) -> Difference | None:
    """Function words of opposite meaning: "before", "after"."""
    mine, theirs = _more_often(pair.mine, pair.theirs), _more_often(pair.theirs, pair.mine)
    opposed = any((a, b) in _OPPOSED for a in mine for b in theirs)
    return Difference(Kind.WORD, mine, theirs) if opposed else None


def _content_words(pair: _Pair) -> Difference | None:
    """Content words on both sides, or a name on one."""
    mine, theirs = _content(pair.left, pair.named), _content(pair.right, pair.named)
    if mine and theirs:
        return Difference(Kind.WORD, mine, theirs)
    extra = tuple(word for word in (*mine, *theirs) if word in pair.named)
    return Difference(Kind.NAME, extra if mine else (), () if mine else extra) if extra else None


def _order(pair: _Pair) -> Difference | None:
    """The same words in another order."""
    moved_once = _moved_at_most_once(pair.mine, pair.theirs, pair.named)
    return None if moved_once else Difference(Kind.ORDER)


_CHECKS: tuple[Callable[[_Pair], Difference | None], ...] = (
    _negation_date_or_number,
    _unit,
    _opposed_function_words,
    _content_words,
    _order,
)


def _negates(word: str) -> bool:
    return word in NEGATIONS


def _dates(word: str) -> bool:
    return word in DATES


@text_cache(65_536)
def _counts(word: str) -> bool:
    return any(c.isdigit() for c in word)


def _after_numbers(words: Sequence[str], left: Sequence[str]) -> tuple[str, ...]:
    """The words of ``left`` that follow a number."""
    return tuple(word for before, word in pairwise(words) if word in left and _counts(before)) if left else ()


def _content(words: Iterable[str], named: frozenset[str]) -> tuple[str, ...]:
    return tuple(w for w in words if w in named or (w not in FUNCTION_WORDS and (len(w) > 1 or not w.isascii())))


def _without(words: Sequence[str], others: Sequence[str]) -> list[str]:
    known = frozenset(others)
    return [word for word in dict.fromkeys(words) if word not in known]


def _more_often(words: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The words that occur more often in one text than in another."""
    return tuple(Counter(words) - Counter(others))


MAX_PAIRED_WORDS = 64
"""words of one text that the other lacks; with more on both sides the texts say different things, and comparing each
with each took 2 s for two texts of 4,000 characters"""


def _unmatched(mine: list[str], theirs: list[str], named: frozenset[str]) -> tuple[list[str], list[str]]:
    """The words of both that are no form of a word of the other; all of them if both have very many."""
    if min(len(mine), len(theirs)) > MAX_PAIRED_WORDS:
        return mine, theirs
    left = []
    others = list(theirs)
    for word in mine:
        match = next((other for other in others if same_word(word, other, word in named or other in named)), None)
        if match is None:
            left.append(word)
        else:
            others.remove(match)
    return left, others


def _moved_at_most_once(mine: Sequence[str], theirs: Sequence[str], named: frozenset[str]) -> bool:
    """Whether one text becomes the other by moving one run of words: "In May we moved", "We moved in May".

    Two names that change places count as a difference. Words joined by "and" or "or" have no order.
    """
    one, other = _numbered(_in_order([*mine]), theirs), _numbered(_in_order([*theirs]), mine)
    at = {word: i for i, word in enumerate(other)}
    order = [at[word] for word in one]
    # Runs of words that follow each other in both: moving one run leaves three breaks at most.
    breaks = [i for i, (a, b) in enumerate(zip([-1, *order], [*order, len(order)], strict=True)) if b != a + 1]
    if len(breaks) == 3 and breaks[2] == breaks[0] + 2:
        return not named.issuperset(word for word, _ in one[breaks[0] : breaks[2]])
    return len(breaks) <= 3


def _numbered(words: Sequence[str], others: Sequence[str]) -> list[tuple[str, int]]:
    """The words that both texts have, numbered among equal ones; function words only if each text has it once."""
    mine, theirs = Counter(words), Counter(others)
    seen: Counter[str] = Counter()
    found = []
    for word in words:
        seen[word] += 1
        if seen[word] <= theirs[word] and (word not in FUNCTION_WORDS or mine[word] == theirs[word] == 1):
            found.append((word, seen[word]))
    return found


def _in_order(words: list[str]) -> list[str]:
    for i in range(1, len(words) - 1):
        if words[i] in ("and", "or") and words[i - 1] > words[i + 1]:
            words[i - 1], words[i + 1] = words[i + 1], words[i - 1]
    return words
