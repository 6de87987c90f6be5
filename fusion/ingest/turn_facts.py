"""Extracts facts from turns of conversations by rules: topic, text, importance from 1 to 10, and source turns.

A fact is a sentence of a turn, in its speaker's words, that states something and can be understood by itself. A
sentence is rejected, with a reason, if a check of `fusion.lib.junk` applies or the rules recognise no statement in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fusion.contract import Event
from fusion.ingest.entities import is_common
from fusion.ingest.facts import facts
from fusion.lib.envelope import Speaker, said
from fusion.lib.grading import graded
from fusion.lib.junk import Duplicates, Junk, content_words, junk_of
from fusion.lib.pasted import prompt_parts
from fusion.lib.prompt_words import OWN
from fusion.lib.statements import sentences
from fusion.lib.times import find_time
from fusion.lib.words import accentless, find_words, normalise, spoken

MAX_TURN_CHARS = 20_000
"""characters that are read of a turn; longer turns are pastes"""
MAX_FACT_CHARS = 500
"""maximum characters of a fact"""
MAX_FACTS_OF_TURN = 12
Reason = Literal[Junk, "states nothing"]

_LEAD = re.compile(
    r"(?:(?:yes|yeah|yep|no|nope|well|oh|wow|hey|hi|hello|thanks|thank you|thx|ok|okay|sure|so|and|but|also|anyway|btw"
    r"|by the way|actually|honestly|guess what|haha|lol|aww?|congrats|congratulations|great|nice|cool|awesome)"
    r"(?:,?\s+[A-Z][\w'’-]+)?[,!.:;\s–—-]+)+",
    re.IGNORECASE,
)
"""interjections before a statement: "Yes, we moved in May" """
_FEELING = re.compile(
    r"\b(?:so|very|really|such|too|pretty|super)\s+\w+|\b(?:feel(?:s|ing)?|hope|wish|appreciate|grateful|thankful|glad|proud"
    r"|excited|amazing|awesome|great|wonderful|inspir\w+|incredible|beautiful|lovely|blast|fun)\b|!\s*$",
    re.IGNORECASE,
)
"""praise and feelings, which are seldom worth remembering"""
_ADDRESSES = re.compile(r"\b(?:you|your|yours|let['’]?s|u|ur)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w;:'’)\"-] )[A-ZÄÖÜÉÅ][\w'’.-]+")
"""a name inside a sentence, but not after a comma, where it addresses somebody"""
_STANDING = re.compile(
    r"^(?:always (?!here|there)|never|(?:do not|don['’]t) (?!forget|worry|let|be|stop|give)|rule\b|use\b.*\bfor me\b)"
    r"|\b(?:rule|must not|prefer|decided|because)\b"
    r"|\brather\b(?:(?!\brather\b).)*\bthan\b",
    re.IGNORECASE,
)
"""a rule, a preference, a decision or a reason"""
_DEFINITE = frozenset("the he she der die le la el il".split())
_VAGUE = frozenset(
    "it that this these those they there some people one what who making having being es das ce eso".split()
)
_SOME, _LONG = 3, 5
"""content words that count as some evidence of a statement, and as more"""
_MIN_EVIDENCE = 2


@dataclass(frozen=True, slots=True)
class TurnFact:
    """A fact, and the ids of the events that state it."""

    topic: str
    fact: str
    importance: int
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    """A sentence that is no fact, and why."""

    text: str
    turn: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """The facts and the rejected sentences of some turns."""

    facts: tuple[TurnFact, ...]
    rejects: tuple[Reject, ...]


def turn_facts(turns: Sequence[Event]) -> TurnFacts:
    """Extract the facts of consecutive turns, in order and without duplicates; never raises."""
    found: list[TurnFact] = []
    rejects: list[Reject] = []
    seen = Duplicates()
    for turn in turns:
        kept = 0
        for sentence in _sentences(turn):
            reason = _reject(sentence, turn.speaker) or (
                "duplicate" if seen.same_as(sentence, turn.speaker or "") else None
            )
            if reason is not None:
                rejects.append(Reject(sentence, turn.event_id, reason))
            elif kept < MAX_FACTS_OF_TURN:
                kept += 1
                grade = graded(sentence)
                said_by = spoken(sentence, turn.speaker)
                found.append(TurnFact(grade.topic, said_by, grade.importance, (turn.event_id,)))
    return TurnFacts(tuple(found), tuple(rejects))


def _sentences(turn: Event) -> Iterator[str]:
    """The sentences that a turn's speaker typed, without what was pasted or recalled."""
    role: Speaker = "assistant" if turn.origin == "agent" else "user"
    text = prompt_parts(said(turn.text[:MAX_TURN_CHARS], role).text).typed
    for start, end in sentences(text):
        if sentence := " ".join(text[start:end].split()).lstrip("-*•>#+ \t"):
            yield sentence


def _reject(sentence: str, speaker: str | None) -> Reason | None:
    if len(sentence) > MAX_FACT_CHARS:
        return "tool"
    if (junk := junk_of(sentence, speaker)) is not None:
        return junk
    lead = _LEAD.match(sentence)
    rest = sentence[lead.end() :] if lead else sentence
    if lead and (junk := junk_of(rest, speaker)) is not None:
        return junk
    return None if _states(rest, speaker) else "states nothing"


def _states(sentence: str, speaker: str | None) -> bool:
    """Whether enough evidence says that a sentence states something lasting."""
    words = find_words(normalise(sentence))
    first = accentless(words[0])
    own = first in OWN
    of_agent = (speaker or "").casefold() == "assistant"
    evidence = 2 * bool(facts(sentence, speaker or "somebody")) + 2 * bool(find_time(sentence))
    evidence += any(word[0].isdigit() for word in words) + bool(_NAME.search(sentence))
    evidence += own or first in _DEFINITE or (first not in _VAGUE and not is_common(first))
    content, feeling = len(content_words(sentence)), bool(_FEELING.search(sentence))
    evidence += (content >= _LONG) + (content >= _SOME and (own or first in _DEFINITE) and not feeling)
    evidence -= feeling + (first in _VAGUE or (first.endswith("ing") and not own))
    evidence += 2 * bool(_STANDING.search(sentence)) or (-2 if _ADDRESSES.search(sentence) and not of_agent else 0)
    return evidence >= _MIN_EVIDENCE
