"""Curates MEMORY.md without a model: which facts it has, by importance, use and recency.

A person's lines are never changed, moved or dropped, and nothing is written into a protected section. Ours are below
headings by topic. What says the same is one line; of two facts that exclude each other the newer one stays, unless it
is trusted less. If there is no room for all, the most important go in first. All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from fusion.contract import Fact as Triple
from fusion.contract import Trust
from fusion.lib.jaccard import jaccard
from fusion.lib.loss import lost_lines
from fusion.lib.restatement import Statement, kept_apart_by, says_more
from fusion.lib.words import stems, words
from fusion.upkeep.contradict import Claim, contradiction
from fusion.upkeep.drift import Path, Section, sections

TITLE = "# Memory"
HEADINGS = {"rules": "Ways of working", "procedures": "Ways of working", "general": "Facts"}
"""headings of topics; those of others are their names. "Rules" is none of ours: a section of that name is protected."""
IMPORTANT = 0.75
"""importance from which a fact goes in before all others, and is never dropped for one that is less important"""
HALF_LIFE_DAYS = 90.0
"""days after which the recency of a fact counts half"""
SAME = 0.6
"""Jaccard of the stems of two lines from which they may say the same"""
CONTAINED = 0.9
"""share of a fact's stems that a person's line has, so that it need not be said again"""
MOST_COMPARED = 12
"""lines that share most words with a fact, with which it is compared"""
_TRUSTED: Mapping[Trust, int] = {"quarantined": 0, "untrusted": 1, "unknown": 2, "trusted": 3}
_REFS = re.compile(r" \[(m[0-9a-z]{1,12}(?:, m[0-9a-z]{1,12})*)\]$")


@dataclass(frozen=True)
class Fact:
    """One line of ours, and what decides whether it stays. ``refs`` are those of the memories that say it."""

    text: str
    at: datetime
    """when it was said last"""
    refs: tuple[str, ...] = ()
    topic: str = "general"
    importance: float = 0.5
    trust: Trust = "unknown"
    uses: int = 0
    triples: tuple[Triple, ...] = ()

    @property
    def line(self) -> str:
        return f"- {self.text}" + (f" [{', '.join(self.refs[-3:])}]" if self.refs else "")

    @property
    def heading(self) -> str:
        return HEADINGS.get(self.topic, self.topic.capitalize())


@dataclass(frozen=True)
class Curated:
    """The new text of the file, our lines in it, and what was done."""

    text: str
    facts: tuple[Fact, ...]
    added: tuple[Fact, ...]
    merged: int = 0
    outdated: tuple[tuple[str, str], ...] = ()
    """pairs of a line that went, and the newer one that excludes it"""
    disputed: tuple[tuple[str, str], ...] = ()
    """pairs of a person's line, and a newer fact that excludes it; both stay"""
    no_room: int = 0
    notes: tuple[str, ...] = field(default_factory=tuple)


def refs_of(line: str) -> tuple[str, ...]:
    """The refs at the end of one of our lines."""
    found = _REFS.search(line)
    return tuple(found[1].split(", ")) if found else ()


def text_of(line: str) -> str:
    """One of our lines without its marker and its refs."""
    return _REFS.sub("", line).removeprefix("- ")


def curated(
    text: str,
    ours: Mapping[str, Fact],
    candidates: Sequence[Fact],
    *,
    protected: Callable[[Path], bool],
    now: datetime,
    max_chars: int,
    max_loss: float,
    triples: Callable[[str], Sequence[Triple]] = lambda line: (),
) -> Curated:
    """The file with the best of our facts. ``ours`` are those that it has, by line; the ``candidates`` are new.

    ``triples`` returns what a person's line states.
    """
    notes = []
    if _ends_in_code(text):
        candidates = ()
        notes.append("a code block in the file is not closed, so nothing is added below it: close it")
    persons = [line for one in sections(text) for line in one.lines if line not in ours and line.strip()]
    there = [fact for line, fact in ours.items() if any(line in one.lines for one in sections(text))]
    distinct, merged, moved = _distinct([*there, *candidates])
    said = [(plain, words(plain)) for line in persons if (plain := text_of(line).lstrip("-*+ "))]
    current, outdated = _current([one for one in distinct if not _is_said(one, said)])
    kept_lines = {fact.line for fact in there}
    own = len(rendered(text, ours, [], {}, protected))
    may_go = int(0.8 * max_loss * sum(bool(line.strip()) for line in text.splitlines()))
    headings = {one.path[-1].casefold() for one in sections(text) if one.path and not protected(one.path)}
    chosen = _chosen(current, kept_lines, may_go, headings, max_chars - own, now)
    disputed = _disputed([one for one in chosen if one.line not in kept_lines], persons, triples)
    after = rendered(text, ours, chosen, moved, protected)
    if own > max_chars:
        notes.append(f"your own lines have {own:,} characters, more than {max_chars:,}: shorten them")
    return Curated(
        after,
        tuple(chosen),
        tuple(one for one in chosen if one.line not in kept_lines),
        merged,
        tuple(outdated),
        tuple(disputed),
        len(current) - len(chosen),
        tuple(notes),
    )


# What says the same, and what excludes what ----------------------------------------------------------------------


class _Near:
    """Finds the texts that share most words with another one."""

    def __init__(self) -> None:
        self._of_word: defaultdict[str, list[int]] = defaultdict(list)
        self._stems: list[frozenset[str]] = []

    def add(self, text: str) -> None:
        found = frozenset(stems(text))
        for word in found:
            self._of_word[word].append(len(self._stems))
        self._stems.append(found)

    def to(self, text: str) -> list[tuple[int, frozenset[str]]]:
        """The numbers and stems of those with most words in common."""
        common = Counter(number for word in set(stems(text)) for number in self._of_word.get(word, ()))
        return [(number, self._stems[number]) for number, _ in common.most_common(MOST_COMPARED)]


def _distinct(facts: Iterable[Fact]) -> tuple[list[Fact], int, dict[str, str]]:
    """The facts, each once, and how many were merged into another.

    The last value has, by the line of each fact that was in the file, the line that it became.
    """
    found: list[Fact] = []
    near = _Near()
    merged, moved = 0, dict[str, str]()
    began: list[list[str]] = []
    for fact in facts:
        same = next((number for number, its in near.to(fact.text) if _says_the_same(fact, found[number], its)), None)
        if same is None:
            near.add(fact.text)
            found.append(fact)
            began.append([fact.line])
        else:
            merged += fact.refs != found[same].refs or fact.text != found[same].text
            found[same] = joined(found[same], fact)
            began[same].append(fact.line)
    for fact, lines in zip(found, began, strict=True):
        moved.update(dict.fromkeys(lines, fact.line))
    return found, merged, moved


def _says_the_same(fact: Fact, other: Fact, stems_of_other: frozenset[str]) -> bool:
    if fact.text.casefold() == other.text.casefold() or _is_reworded(fact, other):
        return True
    if jaccard(frozenset(stems(fact.text)), stems_of_other) < SAME:
        return False
    return kept_apart_by(Statement(fact.text), Statement(other.text)) is None


def _is_reworded(fact: Fact, other: Fact) -> bool:
    """Whether a line that has one of a fact's refs says it in other words: a model had joined it with others."""
    return not set(fact.refs).isdisjoint(other.refs) and not lost_lines(fact.text, other.text)


def joined(one: Fact, other: Fact) -> Fact:
    """Two facts that say the same as one: the text that says more, else the newer; the best of the rest of both."""
    newer, older = (one, other) if one.at >= other.at else (other, one)
    if _is_reworded(other, one):
        newer = one
    elif newer.text == older.text or says_more(Statement(older.text), Statement(newer.text)):
        newer = older
    refs = tuple(dict.fromkeys((*one.refs, *other.refs)))
    return replace(
        newer,
        at=max(one.at, other.at),
        refs=refs,
        importance=max(one.importance, other.importance),
        trust=max(one.trust, other.trust, key=lambda trust: _TRUSTED[trust]),
        uses=one.uses + (other.uses if other.refs != one.refs else 0),
    )


def _is_said(fact: Fact, persons: Sequence[tuple[str, frozenset[str]]]) -> bool:
    """Whether a person's line says it already; the lines come with their words."""
    asked = words(fact.text)
    return any(
        len(asked & its) >= CONTAINED * len(asked) and kept_apart_by(Statement(fact.text), Statement(line)) is None
        for line, its in persons
    )


def _current(facts: Sequence[Fact]) -> tuple[list[Fact], list[tuple[str, str]]]:
    """The facts without those that another one excludes, and the pairs."""
    gone: set[int] = set()
    outdated: list[tuple[str, str]] = []
    near = _Near()
    for fact in facts:
        near.add(fact.text)
    for number, fact in sorted(enumerate(facts), key=lambda pair: pair[1].at):
        others = {one: facts[one] for one, _ in near.to(fact.text) if one != number and one not in gone}
        claims = [Claim(str(one), its.text, its.triples, its.at) for one, its in others.items() if its.at <= fact.at]
        found = contradiction(Claim(str(number), fact.text, fact.triples, fact.at), claims)
        if found is None:
            continue
        loser, winner = int(found.contradicted_id), number
        if _TRUSTED[fact.trust] < _TRUSTED[facts[loser].trust]:
            loser, winner = winner, loser
        gone.add(loser)
        outdated.append((facts[loser].text, facts[winner].text))
    return [fact for number, fact in enumerate(facts) if number not in gone], outdated


def _disputed(
    added: Sequence[Fact], persons: Sequence[str], triples: Callable[[str], Sequence[Triple]]
) -> list[tuple[str, str]]:
    """The pairs of a person's line and a new fact that excludes it. Both stay: only the person knows."""
    if not added:
        return []
    claims = [Claim(line, line.lstrip("-*+ "), tuple(triples(line.lstrip("-*+ ")))) for line in persons]
    found = ((contradiction(Claim("", fact.text, fact.triples), claims), fact) for fact in added)
    return [(one.contradicted_id, fact.text) for one, fact in found if one is not None]


# The choice ------------------------------------------------------------------------------------------------------


def value(fact: Fact, now: datetime) -> float:
    """How much a fact is worth, from 0 to 1: importance, then use, then recency."""
    days = max(0.0, (now - fact.at).total_seconds() / 86_400)
    recency = math.exp2(-days / HALF_LIFE_DAYS)
    said_again = 0.6 * (1 - math.exp2(-max(0, len(fact.refs) - 1)))
    use = max(said_again, 1 - math.exp2(-min(30, fact.uses)))
    trusted = 0.05 if fact.trust == "trusted" else 0.0
    return 0.55 * fact.importance + 0.25 * use + 0.15 * recency + trusted


def _order(fact: Fact, now: datetime) -> tuple[bool, float]:
    """The best first: what is important, then what is worth most for its length."""
    return fact.importance < IMPORTANT, -value(fact, now) / math.sqrt(len(fact.line) + 40)


def _chosen(
    facts: Sequence[Fact], kept_lines: set[str], may_go: int, headings: set[str], room: int, now: datetime
) -> list[Fact]:
    """The facts for which there is room, the best first; of those that the file has, ``may_go`` at most make room.

    ``headings`` are there already; another one takes room as well.
    """
    ranked = sorted(facts, key=lambda fact: _order(fact, now))
    incumbents = [fact for fact in ranked if _was_there(fact, kept_lines)]
    safe = {fact.line for fact in incumbents[: max(0, len(incumbents) - may_go)]}
    there = set(headings)
    chosen: list[Fact] = []
    for fact in [*(one for one in ranked if one.line in safe), *(one for one in ranked if one.line not in safe)]:
        heading = fact.heading.casefold()
        cost = len(fact.line) + 1 + (0 if heading in there else len(heading) + 6)
        if cost <= room:
            room -= cost
            there.add(heading)
            chosen.append(fact)
    return sorted(chosen, key=lambda fact: _order(fact, now))


def _was_there(fact: Fact, kept_lines: set[str]) -> bool:
    return fact.line in kept_lines or any(fact.text == text_of(line) for line in kept_lines)


def _ends_in_code(text: str) -> bool:
    """Whether a code block is open at the end, so that a heading there would be none."""
    probe = "## end"
    return sections(f"{text}\n{probe}")[-1].heading != probe


# The text --------------------------------------------------------------------------------------------------------


def rendered(
    text: str,
    ours: Mapping[str, Fact],
    chosen: Sequence[Fact],
    moved: Mapping[str, str],
    protected: Callable[[Path], bool],
) -> str:
    """The file with exactly the ``chosen`` lines of ours: those that it has in their places, new ones by heading."""
    end = "\r\n" if "\r\n" in text else "\n"
    left = {fact.line: fact for fact in chosen}
    result: list[Section] = []
    for section in sections(text):
        if protected(section.path):
            result.append(section)
            continue
        lines: list[str] = []
        for line in section.lines:
            if line not in ours:
                lines.append(line)
            elif (now := moved.get(line, line)) in left:
                lines.append(now)
                del left[now]
        result.append(Section(section.path, section.heading, tuple(lines)))
    for fact in left.values():
        _insert(result, fact, protected)
    if not text.strip() and result:
        result.insert(0, Section((), TITLE, ("",)))
    said = [line for one in result for line in ([one.heading] if one.heading else []) + list(one.lines)]
    return end.join([*said, ""]) if said else ""


def _insert(result: list[Section], fact: Fact, protected: Callable[[Path], bool]) -> None:
    """Add a fact's line at the end of the section of its heading, which is added if there is none."""
    wanted = fact.heading.casefold()
    for number, section in enumerate(result):
        if section.path and section.path[-1].casefold() == wanted and not protected(section.path):
            end = len(section.lines)
            while end and not section.lines[end - 1].strip():
                end -= 1
            lines = section.lines[:end] or ("",)
            result[number] = replace(section, lines=(*lines, fact.line, *section.lines[end:]))
            return
    if result and (not result[-1].lines or result[-1].lines[-1].strip()):
        result[-1] = replace(result[-1], lines=(*result[-1].lines, ""))
    result.append(Section((fact.heading,), f"## {fact.heading}", ("", fact.line)))
