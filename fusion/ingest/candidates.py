"""Extraction for review: candidates for memories in a text or in stored memories. Nothing is stored.

By rules, a candidate is a sentence in its speaker's words (`fusion.ingest.turn_facts`). With a language model it is a
sentence that the model wrote and that was checked (`fusion.ingest.distil_prompt`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex

from fusion.contract import Event, Kind, LanguageModel, Trust
from fusion.ingest.distil_prompt import MAX_ANSWER_TOKENS, SYSTEM, ask, read
from fusion.ingest.extract import classify
from fusion.ingest.turn_facts import turn_facts
from fusion.journal.state import TRUST_FROM_LEAST
from fusion.lib.grading import MAX_IMPORTANCE

MAX_PROMPT_CHARS = 24_000
"""characters of the events in one call of the model"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A statement that could become a memory: what it says, how much it matters, and the events that state it."""

    text: str
    kind: Kind
    topic: str
    importance: float
    confidence: float
    trust: Trust
    """the least of the events that state it"""
    sources: tuple[str, ...]
    """ids of these events, in their order"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of some events, and how many sentences were left out for each reason."""

    found: tuple[Candidate, ...]
    rejected: Mapping[str, int]


def by_rules(events: Sequence[Event]) -> Candidates:
    """The candidates by the rules; never raises."""
    trust = _trust_of(events)
    facts = turn_facts(events)
    found = tuple(
        Candidate(
            one.fact, classify(one.fact), one.topic, one.importance / MAX_IMPORTANCE, 1.0, trust(one.turns), one.turns
        )
        for one in facts.facts
    )
    return Candidates(found, Counter(one.reason for one in facts.rejects))


async def by_model(events: Sequence[Event], model: LanguageModel) -> Candidates:
    """The candidates by the language model. Raises BackendError; InvalidAnswer for an answer in another form."""
    trust = _trust_of(events)
    found: list[Candidate] = []
    for part in _parts(events):
        answer = await model.complete(SYSTEM, ask(part, (), token_hex(8)), MAX_ANSWER_TOKENS)
        for one in read(answer, part):
            sources = tuple(part[n].event_id for n in one.sources)
            grade, extraction = one.grade, one.extraction
            share = grade.importance / MAX_IMPORTANCE
            found.append(
                Candidate(one.text, extraction.kind, grade.topic, share, extraction.confidence, trust(sources), sources)
            )
    return Candidates(tuple(found), {})


def _parts(events: Sequence[Event]) -> list[list[Event]]:
    """The events in parts that fit one prompt each."""
    parts: list[list[Event]] = []
    size = MAX_PROMPT_CHARS
    for event in events:
        if size + len(event.text) > MAX_PROMPT_CHARS:
            parts.append([])
            size = 0
        parts[-1].append(event)
        size += len(event.text)
    return parts


def _trust_of(events: Sequence[Event]) -> Callable[[Sequence[str]], Trust]:
    """A function from ids of events to the least trust among them; what follows from a trusted one is unknown."""
    by_id = {event.event_id: event for event in events}

    def least(sources: Sequence[str]) -> Trust:
        stated = [by_id[source].trust for source in sources]
        doubtful: list[Trust] = ["untrusted" for source in sources if by_id[source].doubtful]
        return min([*stated, *doubtful, "unknown"], key=TRUST_FROM_LEAST.index)

    return least
