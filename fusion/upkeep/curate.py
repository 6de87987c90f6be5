"""Chooses the facts of MEMORY.md by importance, use and recency, without a model.

A person's lines are never changed, moved or dropped, and nothing is written into a protected section. The facts that
this module adds are below a heading for their topic. Facts that say the same become one line. Of two facts that
contradict each other the newer one is kept, unless it is trusted less. If there is no room for all facts, the most
important ones are kept. All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import nsmallest
from itertools import chain

from fusion.contract import Fact as Triple
from fusion.contract import Trust
from fusion.lib.jaccard import jaccard
from fusion.lib.lasting import half_life_days, has_other_value
from fusion.lib.loss import lost_lines
from fusion.lib.restatement import Statement, kept_apart_by, says_more
from fusion.lib.words import stems, words
from fusion.upkeep.contradict import Claim, contradiction
from fusion.upkeep.drift import Path, Section, sections

TITLE = "# Memory"
HEADINGS = {"rules": "Ways of working", "procedures": "Ways of working", "general": "Facts"}
"""headings of some topics; the other topics have their name as heading. No heading is "Rules", because a section of
that name is protected."""
IMPORTANT = 0.75
"""least importance of a fact that is chosen before all others, and is never dropped for a less important one"""
PRIOR_DAYS = 180.0
"""days in which a new fact is expected to be needed once"""
REFS_SHOWN = 3
"""maximum refs of a line: those of the newest memories that say it"""
SAME = 0.6
"""least Jaccard similarity of the stems of two lines that may say the same"""
CONTAINED = 0.9
"""least share of a fact's words in a person's line that already says the fact"""
MOST_COMPARED = 12
"""maximum lines that a fact is compared with: those that share most words with it"""
_TRUSTED: Mapping[Trust, int] = {"quarantined": 0, "untrusted": 1, "unknown": 2, "trusted": 3}
_REFS = re.compile(r" \[(m[0-9a-z]{1,12}(?:, m[0-9a-z]{1,12})*)\]$")


@dataclass(frozen=True)
class Fact:
    """One line that we write, with what decides whether it is kept; ``refs`` name the memories that say it."""

    text: str
    at: datetime
    """when it was last said"""
    refs: tuple[str, ...] = ()
    topic: str = "general"
    importance: float = 0.5
    trust: Trust = "unknown"
    uses: int = 0
    triples: tuple[Triple, ...] = ()
    since: datetime | None = None
    """when the oldest of its memories was said; None if that is ``at``"""
    own_words: bool = False
    """whether it is of the agent's reflections: then it never replaces what was said"""

    @property
    def line(self) -> str:
        return f"- {self.text}" + (f" [{', '.join(self.refs[-REFS_SHOWN:])}]" if self.refs else "")

    @property
    def heading(self) -> str:
        return HEADINGS.get(self.topic, self.topic.capitalize())


@dataclass(frozen=True)
class Curated:
    """The new text of the file, the facts in it that are ours, and what changed."""

    text: str
    facts: tuple[Fact, ...]
    added: tuple[Fact, ...]
    merged: int = 0
    outdated: tuple[tuple[str, str], ...] = ()
    """pairs of a line that was dropped, and the newer one that contradicts it"""
    disputed: tuple[tuple[str, str], ...] = ()
    """pairs of a person's line, and a newer fact that contradicts it; both are kept"""
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
    """The file with the best facts. ``ours`` are the facts that we wrote into it, by line; ``candidates`` are new ones.

    ``triples`` returns the statements in a person's line.
    """
    notes = []
    if _ends_in_code(text):
        candidates = ()
        notes.append("a code block in the file is not closed, so nothing is added below it: close it")
    lines = [line for one in sections(text) for line in one.lines]
    persons = [line for line in lines if line not in ours and line.strip()]
    present = set(lines)
    there = [fact for line, fact in ours.items() if line in present]
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


# Restatements and contradictions ---------------------------------------------------------------------------------


class _Near:
    """Finds the texts that share most words with a given one."""

    def __init__(self) -> None:
        self._of_word: defaultdict[str, list[int]] = defaultdict(list)
        self._stems: list[frozenset[str]] = []

    def add(self, found: frozenset[str]) -> None:
        """Add a text by its stems."""
        for word in found:
            self._of_word[word].append(len(self._stems))
        self._stems.append(found)

    def to(self, own: frozenset[str]) -> list[tuple[int, frozenset[str]]]:
        """The numbers and stems of those with most of these stems in common."""
        common = Counter(chain.from_iterable(self._of_word.get(word, ()) for word in own))
        # Of equals the earliest: the order of a set differs from process to process, and the result must not.
        best = nsmallest(MOST_COMPARED, common.items(), key=lambda one: (-one[1], one[0]))
        return [(number, self._stems[number]) for number, _ in best]


def _distinct(facts: Iterable[Fact]) -> tuple[list[Fact], int, dict[str, str]]:
    """The facts without restatements, the number that were merged into another, and the new line of each old line."""
    found: list[Fact] = []
    near = _Near()
    merged, moved = 0, dict[str, str]()
    began: list[list[str]] = []
    for fact in facts:
        own = frozenset(stems(fact.text))
        same = next((at for at, its in near.to(own) if _says_the_same(fact, own, found[at], its)), None)
        if same is None:
            near.add(own)
            found.append(fact)
            began.append([fact.line])
        else:
            merged += fact.refs != found[same].refs or fact.text != found[same].text
            found[same] = joined(found[same], fact)
            began[same].append(fact.line)
    for fact, lines in zip(found, began, strict=True):
        moved.update(dict.fromkeys(lines, fact.line))
    return found, merged, moved


def _says_the_same(fact: Fact, own: frozenset[str], other: Fact, its: frozenset[str]) -> bool:
    """Whether two facts, which come with their stems, are one."""
    if fact.text.casefold() == other.text.casefold() or _is_reworded(fact, other):
        return True
    if jaccard(own, its) < SAME:
        return False
    return kept_apart_by(Statement(fact.text), Statement(other.text)) is None


def _is_reworded(fact: Fact, other: Fact) -> bool:
    """Whether a line with one of a fact's refs says it in other words, because a model joined it with other lines."""
    return not set(fact.refs).isdisjoint(other.refs) and not lost_lines(fact.text, other.text)


def joined(one: Fact, other: Fact) -> Fact:
    """One fact of two that say the same: the longer statement, else the newer one, with the higher values of both.

    A line of a reflection is not joined: what was said is kept without it, and of two reflections the newer one.
    """
    if one.own_words or other.own_words:
        return max(one, other, key=lambda fact: (not fact.own_words, fact.at))
    newer, older = (one, other) if one.at >= other.at else (other, one)
    if _is_reworded(other, one):
        newer = one
    elif newer.text == older.text or says_more(Statement(older.text), Statement(newer.text)):
        newer = older
    refs = tuple(dict.fromkeys((*one.refs, *other.refs)))
    return replace(
        newer,
        at=max(one.at, other.at),
        since=min(one.since or one.at, other.since or other.at),
        refs=refs,
        importance=max(one.importance, other.importance),
        trust=max(one.trust, other.trust, key=lambda trust: _TRUSTED[trust]),
        uses=one.uses + (other.uses if other.refs != one.refs else 0),
    )


def _is_said(fact: Fact, persons: Sequence[tuple[str, frozenset[str]]]) -> bool:
    """Whether a person's line already says a fact; ``persons`` are the lines with their words."""
    asked = words(fact.text)
    return any(
        len(asked & its) >= CONTAINED * len(asked) and kept_apart_by(Statement(fact.text), Statement(line)) is None
        for line, its in persons
    )


def _current(facts: Sequence[Fact]) -> tuple[list[Fact], list[tuple[str, str]]]:
    """The facts that no other one contradicts, and the pairs of an outdated text and the text that replaces it."""
    gone: set[int] = set()
    outdated: list[tuple[str, str]] = []
    near = _Near()
    its_stems = [frozenset(stems(fact.text)) for fact in facts]
    for own in its_stems:
        near.add(own)
    for number, fact in sorted(enumerate(facts), key=lambda pair: pair[1].at):
        others = {one: facts[one] for one, _ in near.to(its_stems[number]) if one != number and one not in gone}
        claims = [Claim(str(one), its.text, its.triples, its.at) for one, its in others.items() if its.at <= fact.at]
        found = contradiction(Claim(str(number), fact.text, fact.triples, fact.at), claims)
        replaced = [one for one, its in others.items() if its.at < fact.at and has_other_value(fact.text, its.text)]
        if found is None and not replaced:
            continue
        loser, winner = replaced[0] if found is None else int(found.contradicted_id), number
        if _weight(fact) < _weight(facts[loser]):
            loser, winner = winner, loser
        gone.add(loser)
        outdated.append((facts[loser].text, facts[winner].text))
    return [fact for number, fact in enumerate(facts) if number not in gone], outdated


def _weight(fact: Fact) -> tuple[bool, int]:
    """The sort key of facts that contradict each other: what was said before reflections, then the trusted ones."""
    return not fact.own_words, _TRUSTED[fact.trust]


def _disputed(
    added: Sequence[Fact], persons: Sequence[str], triples: Callable[[str], Sequence[Triple]]
) -> list[tuple[str, str]]:
    """The pairs of a person's line and a new fact that contradicts it. Both are kept: only the person can decide."""
    if not added:
        return []
    claims = [Claim(line, line.lstrip("-*+ "), tuple(triples(line.lstrip("-*+ ")))) for line in persons]
    found = ((contradiction(Claim("", fact.text, fact.triples), claims), fact) for fact in added)
    return [(one.contradicted_id, fact.text) for one, fact in found if one is not None]


# The choice ------------------------------------------------------------------------------------------------------


def value(fact: Fact, now: datetime) -> float:
    """How much a fact is worth: its importance, times how often it is likely to be needed from now on.

    That is the logarithm of how often it was said or used, per day since the oldest memory that its line names. A new
    fact counts as needed once in `PRIOR_DAYS`, so that it has time to show its worth. The worth halves with each
    half-life of the wording.
    """
    needed = max(1, len(fact.refs[-REFS_SHOWN:])) + fact.uses
    rate = (1 + math.log2(needed)) * PRIOR_DAYS / (PRIOR_DAYS + _days(fact.since or fact.at, now))
    lasts = math.exp2(-_days(fact.at, now) / half_life_days(fact.text))
    trusted = 1.1 if fact.trust == "trusted" else 1.0
    return fact.importance * rate * lasts * trusted


def _days(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds() / 86_400)


def _order(fact: Fact, now: datetime) -> tuple[bool, float]:
    """The sort key: important facts first, then the highest value for the length."""
    return fact.importance < IMPORTANT, -value(fact, now) / len(fact.line)


def _chosen(
    facts: Sequence[Fact], kept_lines: set[str], may_go: int, headings: set[str], room: int, now: datetime
) -> list[Fact]:
    """The facts that fit into ``room`` characters, the best first.

    At most ``may_go`` facts that the file has are dropped to make room. A heading that is not among ``headings`` takes
    room as well.
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
    """Whether a code block is open at the end, so that a heading there would be part of the code."""
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
    """The file with exactly the ``chosen`` facts: known ones in their places, new ones below their headings."""
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
    """Add a fact's line at the end of the section with its heading; add that section if it is missing."""
    wanted = fact.heading.casefold()
    for number, section in enumerate(result):
        if section.path and section.path[-1].casefold() == wanted and not protected(section.path):
            end = len(section.lines)
            while end and not section.lines[end - 1].strip():
                end -= 1
            lines = section.lines[:end] or ("",)
            end += not end and bool(section.lines)
            result[number] = replace(section, lines=(*lines, fact.line, *section.lines[end:]))
            return
    if result and (not result[-1].lines or result[-1].lines[-1].strip()):
        result[-1] = replace(result[-1], lines=(*result[-1].lines, ""))
    result.append(Section((fact.heading,), f"## {fact.heading}", ("", fact.line)))
