"""Whether two statements whose vectors are near say the same.

Vectors distinguish neither who owes whom nor 30 from 90 days. So near statements are kept apart by what vectors miss: a
negation, number, date or name that only one of them has; opposites ("enabled", "disabled"); the same words in another
order ("trains over planes"); another object in the same fact; and one word in an otherwise identical sentence ("is
blue", "is green"). All other differences are wording. `fusion.lib.paraphrase` compares the words.

The vectors of texts in another script than the Latin one may all be near, because a model for English does not know
their words. There, each difference in words keeps apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import product

from fusion.contract import Event, Extraction, Fact
from fusion.lib.paraphrase import DATES, NEGATIONS, Kind, difference
from fusion.lib.word_forms import FUNCTION_WORDS, bases, canonical, names, opposed, same_word
from fusion.lib.words import mostly_latin, spoken

_OPPOSITES = frozenset(
    pair
    for listed in (
        "accept/reject/refuse/decline agree/refuse/disagree allow/forbid/deny/block/prohibit enable/disable "
        "increase/decrease/reduce rise/fall/drop raise/lower/cut open/closed/close/shut start/end/stop/finish "
        "begin/end/stop/finish buy/sell lend/borrow love/hate/dislike like/dislike/hate arrive/leave/depart "
        "include/exclude add/remove/delete win/lose succeed/fail pass/fail push/pull import/export "
        "upload/download encrypt/decrypt public/private single/double/multiple internal/external manual/automatic "
        "always/never required/optional left/right first/last hot/cold high/low long/short early/late hard/easy "
        "big/small old/new full/empty cheap/expensive minimum/maximum ascending/descending horizontal/vertical "
        "north/south/east/west on/off with/without before/after above/below inside/outside front/back "
        "upstairs/downstairs"
    ).split()
    for pair in product(listed.split("/"), repeat=2)
    if pair[0] != pair[1]
)
"""pairs of words that reverse a statement when one replaces the other; vectors place them close together"""

_NEGATIVE = NEGATIONS - {"only", "stopped", "quit", "former", "formerly"}
_QUANTITIES = frozenset(
    "half twice thrice dozen double triple couple hundred thousand million billion first second third fourth "
    "fifth sixth seventh eighth ninth tenth".split()
)
"""numbers that `fusion.lib.word_forms.canonical` does not write as digits"""
_ONCE = re.compile(r"\bonce\s+(?:an?|per|each|every)\b", re.IGNORECASE)
_PERIODS = {
    period: root
    for root, words in {
        "day": "day days daily",
        "week": "week weeks weekly",
        "month": "month months monthly",
        "quarter": "quarter quarters quarterly",
        "year": "year years yearly annually annual",
        "hour": "hour hours hourly",
        "minute": "minute minutes",
        "second": "seconds",
        "weekend": "weekend weekends",
        "pm": "pm",
        "am": "am",
    }.items()
    for period in words.split()
}
_BETWEEN = frozenset("over than to from of before after instead rather until into for".split())
"""words that relate their two sides: with the sides exchanged, the statement is another one"""
_MAX_SCOPE = 3
"""content words after a negation that it may negate"""


@dataclass(frozen=True)
class Statement:
    """A statement to compare: its text with the speaker, where it speaks of itself, and what was extracted from it."""

    text: str
    speaker: str | None = None
    extraction: Extraction = field(default_factory=Extraction)

    @classmethod
    def of(cls, event: Event, extraction: Extraction) -> Statement:
        return cls(event.text, event.speaker, extraction)

    @property
    def spoken(self) -> str:
        """The text with its speaker, as it is embedded."""
        return spoken(self.text, self.speaker)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return canonical(self.text)

    @cached_property
    def content(self) -> tuple[str, ...]:
        """The words that say what it is about, in order."""
        return tuple(w for w in self.words if w not in FUNCTION_WORDS and w not in _NEGATIVE and w not in DATES)

    @cached_property
    def names(self) -> frozenset[str]:
        """The words of names: capitalised ones, and the entities that capture found."""
        extracted = (
            word
            for entity in self.extraction.entities
            if not entity.name.islower()
            for word in canonical(entity.name)
            if word not in FUNCTION_WORDS
        )
        return (names(self.text) | frozenset(extracted) | _handles(self.text)) - DATES

    @cached_property
    def persons(self) -> frozenset[str]:
        """Whom "I" or "you" means: the speaker, if the text says either."""
        return frozenset(canonical(self.speaker or "")) if _PERSONAL.search(self.text) else frozenset()

    @cached_property
    def marks(self) -> frozenset[str]:
        """Its numbers, and the dates and periods that it names."""
        found = {w for w in self.words if w in _QUANTITIES or any(c.isdigit() for c in w)}
        for word in self.words:
            found |= {_PERIODS.get(word, "")} | ({word, *bases(word)} & DATES)
        if _ONCE.search(self.text):
            found.add("once")
        return frozenset(found - {""})


_PERSONAL = re.compile(r"\b(?:I|me|my|mine|we|us|our|you|your|yours)\b", re.IGNORECASE)
_HANDLE = re.compile(r"(?<![\w@])@(\w[\w.-]*)|[\"“]([^\"“”\n]{1,80})[\"”]|`([^`\n]{1,80})`")
_ROLES = frozenset({"user", "assistant", "human", "system"})


def _handles(text: str) -> frozenset[str]:
    """The words of handles, quoted titles and code."""
    return frozenset(
        word for match in _HANDLE.finditer(text) for part in match.groups() if part for word in canonical(part)
    )


def kept_apart_by(one: Statement, other: Statement) -> str | None:
    """Why two near statements do not say the same, in a word; None if only their wording differs."""
    found = difference(one.text, other.text)
    mine, theirs = _unmatched(one, other), _unmatched(other, one)
    if _negated_otherwise(one, other):
        return "negation"
    if one.marks != other.marks or found.kind in (Kind.DATE, Kind.NUMBER):
        return "number or date"
    if one.persons - _ROLES != other.persons - _ROLES or _other_names(one, other, mine, theirs):
        return "name"
    if _opposites(one, other, mine, theirs):
        return "opposite"
    if _other_order(one, other):
        return "order"
    if _other_object(one.extraction.facts, other.extraction.facts):
        return "fact"
    if _one_word_exchanged(one.words, other.words):
        return "word"
    return None if found.kind is Kind.ALIKE or (mostly_latin(one.text) and mostly_latin(other.text)) else "script"


def says_more(one: Statement, other: Statement) -> bool:
    """Whether ``one`` has every content word of ``other``, and more."""
    return not _unmatched(other, one) and bool(_unmatched(one, other))


def differs_in_one_place(one: str, other: str) -> bool:
    """Whether at most one run of words of a text is another in the other; words that one text lacks do not count.

    "60 euros for one hour" and "35 euros for half an hour" differ in two: they are about two things.
    """
    return sum(bool(mine) for mine, _ in _replaced(canonical(one), canonical(other))) <= 1


def _unmatched(one: Statement, other: Statement) -> tuple[str, ...]:
    """The content words of ``one`` that are no form of a word of ``other``."""
    return tuple(word for word in one.content if not any(same_word(word, its) for its in other.words))


def _negated_otherwise(one: Statement, other: Statement) -> bool:
    """Whether only one of them negates, or one negates what the other affirms: "use tabs, never spaces"."""
    counts = [sum(word in _NEGATIVE for word in each.words) for each in (one, other)]
    if bool(counts[0]) != bool(counts[1]) or counts[0] % 2 != counts[1] % 2:
        return True
    negated, denied = _negated(one), _negated(other)
    if not negated or not denied or not negated.isdisjoint(denied):
        return False
    exchanged = ((negated, other), (denied, one))
    return any(not words.isdisjoint(bases(word)) for words, its in exchanged for word in its.content)


def _negated(statement: Statement) -> frozenset[str]:
    """The content words right after its negations."""
    found: set[str] = set()
    for at, word in enumerate(statement.words):
        if word in _NEGATIVE:
            after = [w for w in statement.words[at + 1 :] if w in statement.content]
            found.update(base for w in after[:_MAX_SCOPE] for base in bases(w))
    return frozenset(found)


def _other_names(one: Statement, other: Statement, mine: Collection[str], theirs: Collection[str]) -> bool:
    """Whether a name is in only one of them; a capital alone makes no name of a word that both have."""
    return not {*one.names, *other.names}.isdisjoint((*mine, *theirs))


def _opposites(one: Statement, other: Statement, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    for a, b in product(mine, theirs):
        if opposed(a, b) or any(pair in _OPPOSITES for pair in product(bases(a), bases(b))):
            return True
    left = [w for w in one.words if w in FUNCTION_WORDS and w not in other.words]
    right = [w for w in other.words if w in FUNCTION_WORDS and w not in one.words]
    return any(pair in _OPPOSITES for pair in product(left, right))


def _other_order(one: Statement, other: Statement) -> bool:
    """Whether the words they share are in another order that matters: two names, two sides of "over", or all words."""
    named = {*one.names, *other.names}
    passive = ("by" in one.words) != ("by" in other.words)
    mine, theirs = (_firsts(each.words, named) for each in (one, other))
    shared = [name for name in mine if name in theirs]
    if len(shared) > 1 and not _joined(one, shared) and not _joined(other, shared):
        turned = shared != [name for name in theirs if name in shared]
        if turned != passive:
            return True
    sides = _sides(one)
    if any((right, left) in sides for left, right in _sides(other)):
        return True
    if passive or sorted(one.content) != sorted(other.content):
        return False
    return not _one_run_moved(one.content, other.content)


def _firsts(words: Sequence[str], named: Collection[str]) -> list[str]:
    return list(dict.fromkeys(word for word in words if word in named))


def _joined(statement: Statement, named: Sequence[str]) -> bool:
    """Whether names are listed with "and" or "or", which have no order."""
    at = [statement.words.index(name) for name in named]
    between = statement.words[min(at) : max(at)]
    return len(between) <= 2 * len(named) and ("and" in between or "or" in between)


def _sides(statement: Statement) -> set[tuple[str, str]]:
    """For each relating word, the nearest content words before and after it."""
    found = set()
    words = statement.words
    for at, word in enumerate(words):
        if word in _BETWEEN:
            before = next((w for w in reversed(words[:at]) if w in statement.content), None)
            after = next((w for w in words[at + 1 :] if w in statement.content), None)
            if before and after:
                found.add((min(bases(before)), min(bases(after))))
    return found


def _one_run_moved(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one sequence becomes the other by exchanging two neighbouring runs: a clause moved to the front."""
    start = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), None)
    if start is None:
        return True
    end = next(i for i, (a, b) in enumerate(zip(reversed(mine), reversed(theirs), strict=True)) if a != b)
    one, other = list(mine[start : len(mine) - end]), list(theirs[start : len(theirs) - end])
    return any(one[cut:] + one[:cut] == other for cut in range(1, len(one)))


def _other_object(mine: Sequence[Fact], theirs: Sequence[Fact]) -> bool:
    """Whether both state another object for one subject and predicate."""
    by_theirs = {_slot(fact): {*canonical(fact.object)} - FUNCTION_WORDS for fact in theirs}
    for fact in mine:
        stated = {*canonical(fact.object)} - FUNCTION_WORDS
        other = by_theirs.get(_slot(fact))
        if other and stated and not any(same_word(a, b) for a, b in product(stated, other)):
            return True
    return False


def share_fact(mine: Sequence[Fact], theirs: Sequence[Fact]) -> bool:
    """Whether both state one fact: one subject and predicate, and objects with a word in common."""
    objects = [(_slot(fact), {*canonical(fact.object)} - FUNCTION_WORDS) for fact in theirs]
    return any(
        _slot(fact) == slot and any(same_word(a, b) for a, b in product({*canonical(fact.object)}, its))
        for fact in mine
        for slot, its in objects
    )


def _slot(fact: Fact) -> tuple[tuple[str, ...], str]:
    return canonical(fact.subject), fact.predicate


def _one_word_exchanged(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether the sentences are identical but for one content word, which is no form of the other's."""
    runs = list(_replaced(mine, theirs))
    if len(runs) != 1 or not len(runs[0][0]) == len(runs[0][1]) == 1:
        return False
    (one,), (other,) = runs[0]
    return not same_word(one, other) and FUNCTION_WORDS.isdisjoint((one, other))


def _replaced(mine: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The runs of words that differ; a run that one lacks counts as two, since then the sentences are not identical."""
    for what, a, b, c, d in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if what == "replace":
            yield mine[a:b], theirs[c:d]
        elif what != "equal":
            yield (), ()
