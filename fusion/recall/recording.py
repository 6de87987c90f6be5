"""Recordings of the input of a request, and their replay (`fusion.recall.engine.RecallIO`).

A recording has, for every hit of every backend, its journal record, its neighbours, and the scores of the model and the
judge. Any recipe and any subset of the backends replays from it exactly; input that it lacks raises ReplayGap. What the
second encoder says is in it only if the recorded recipe asks for it; it reads turns between the neighbours that the
recorded backends found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from fusion.contract import Hit, Passage, Query, Scope, Verdict
from fusion.errors import ReplayGap
from fusion.lib.bm25 import Frequencies
from fusion.lib.passages import spoken_passages
from fusion.lib.words import spoken
from fusion.recall.engine import RecallIO
from fusion.recall.filter import Record, records_of
from fusion.recall.gather import Answer
from fusion.recall.near_duplicates import Texts
from fusion.recall.query_dates import Dates, dates
from fusion.recall.signals import Likeness
from fusion.recall.standing import Use

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Recording:
    """All input of one request. Keys: ``neighbours`` (backend, event id or else native id); ``verdicts`` passages."""

    now: datetime
    nonce: str = ""
    receipt_id: str = ""
    span: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    """the backends that were asked, whether or not they answered"""
    records: dict[str, Record] = field(default_factory=dict)
    uses: dict[str, Use] = field(default_factory=dict)
    neighbours: dict[tuple[str, str], Sequence[Hit]] = field(default_factory=dict)
    happened: Sequence[Hit] = ()
    """what happened in the times that the query names"""
    documents: int = 0
    average_length: float = 1.0
    counts: dict[str, int] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    matches: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    dense: dict[str, float] = field(default_factory=dict)
    reworded: set[Texts] = field(default_factory=set)
    """pairs of texts that say the same in other words"""
    unseen: set[str] = field(default_factory=set)
    """texts that were not encoded in time, or all of them without a model"""
    model: str = ""
    """the identity of the model that compared them"""
    lexical: bool = False
    asked_second: bool = False
    """whether the second encoder was asked, if there is one"""
    second: Likeness | None = None
    """what it says; None if it was not asked, is missing or failed"""
    has_judge: bool = False
    verdicts: dict[str, float | None] = field(default_factory=dict)
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Recorder:
    """Passes on the input of ``io`` and records it, with more than this request needs."""

    io: RecallIO
    recording: Recording

    @classmethod
    def of(cls, io: RecallIO) -> Recorder:
        return cls(io, Recording(now=io.now()))

    def now(self) -> datetime:
        return self.recording.now

    def nonce(self) -> str:
        self.recording.nonce = self.io.nonce()
        return self.recording.nonce

    def receipt_id(self) -> str:
        self.recording.receipt_id = self.io.receipt_id()
        return self.recording.receipt_id

    def asked(self, names: Sequence[str] | None) -> Collection[str]:
        found = self.io.asked(names)
        self.recording.asked |= frozenset(found)
        return found

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        answers = await self.io.answers(query, names, deadline_s)
        self.recording.answers.update({a.backend: a for a in answers})
        if (named := dates(query.text, query.now, query.zone)).windows:  # another recipe may want it
            self.recording.happened = await self.io.happened(query, named)
            await self.records([h.event_id for h in self.recording.happened if h.event_id])
        return answers

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        found = await self.io.records(event_ids)
        self.recording.records.update(found)
        self.recording.uses.update(await self.io.uses(list(found)))  # another recipe may weigh them
        return found

    async def uses(self, event_ids: Sequence[str]) -> Mapping[str, Use]:
        return {i: self.recording.uses[i] for i in event_ids if i in self.recording.uses}

    async def happened(self, query: Query, named: Dates) -> Sequence[Hit]:
        del query, named
        return self.recording.happened

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        found = await self.io.frequencies(scope, terms)
        self.recording.documents, self.recording.average_length = found.documents, found.average_length
        self.recording.counts.update({term: found.counts.get(term, 0) for term in terms})
        return found

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]:
        """Records the neighbours of every hit, because in another subset of backends another hit may be shown."""
        self.recording.span = span
        every = {(a.backend, h.native_id): h for a in self.recording.answers.values() for h in a.hits}
        wanted = [
            (f"{name}\0{native_id}", name, hit)
            for (name, native_id), hit in every.items()
            if (name, _id(hit)) not in self.recording.neighbours  # the stage asks for a portion at a time
        ]
        found = await self.io.neighbours(wanted, span, deadline_s)
        for ref, name, hit in wanted:
            self.recording.neighbours[name, _id(hit)] = found.get(ref, ())
        await records_of([h for hits in found.values() for h in hits], self.records)
        return {ref: self.recording.neighbours[name, _id(hit)] for ref, name, hit in finds}

    async def cosines(self, query: str, texts: Sequence[str]) -> Mapping[str, float]:
        found = await self.io.cosines(query, texts)
        self.recording.dense.update(found)
        return found

    async def likeness(
        self, query: str, texts: Sequence[str], contexts: Mapping[str, str] | None = None
    ) -> Likeness | None:
        hits = [h for a in self.recording.answers.values() for h in a.hits]
        hits += [h for neighbours in self.recording.neighbours.values() for h in neighbours]
        hits += self.recording.happened
        events = [record.event for record in self.recording.records.values()]
        parts = [part for event in events for part in spoken_passages(event.text, event.speaker)]
        every = list(dict.fromkeys([*texts, *(spoken(h.text, h.speaker) for h in hits), *parts]))
        if contexts is not None:
            self.recording.asked_second = True
            read = await self.io.likeness(query, every, contexts)
            self.recording.second = read if read is not None and read.second else None
        seen = await self.io.likeness(query, every)  # another recipe ranks by the first encoder
        if seen is None:
            self.recording.lexical = True
        else:
            self.recording.words, self.recording.model = seen.words, seen.model
            self.recording.matches.update(seen.matches)
            self.recording.dense.update(seen.dense)
            self.recording.unseen.update(text for text in every if text not in seen.matches)
        used = self.recording.second if contexts is not None and self.recording.second is not None else seen
        return None if used is None else _of(used, texts)

    async def reworded(self, pairs: Sequence[Texts]) -> Collection[Texts]:
        found = await self.io.reworded(pairs)
        self.recording.reworded.update(found)
        return found

    @property
    def has_judge(self) -> bool:
        self.recording.has_judge = self.io.has_judge
        return self.recording.has_judge

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        verdict = self.recording.verdict = await self.io.verdict(query, passages, deadline_s)
        self.recording.verdicts.update({p.text: verdict.scores.get(p.id) for p in passages})
        return verdict


@dataclass(slots=True)
class Replay:
    """Input from a recording. Raises ReplayGap for input that the recording lacks."""

    recording: Recording

    def now(self) -> datetime:
        return self.recording.now

    def nonce(self) -> str:
        return self.recording.nonce

    def receipt_id(self) -> str:
        return self.recording.receipt_id

    def asked(self, names: Sequence[str] | None) -> Collection[str]:
        return self.recording.asked if names is None else self.recording.asked.intersection(names)

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        del query, deadline_s
        return [self._have(self.recording.answers, name, "answer") for name in names or self.recording.answers]

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        return {i: self.recording.records[i] for i in event_ids if i in self.recording.records}

    async def uses(self, event_ids: Sequence[str]) -> Mapping[str, Use]:
        return {i: self.recording.uses[i] for i in event_ids if i in self.recording.uses}

    async def happened(self, query: Query, named: Dates) -> Sequence[Hit]:
        del query, named
        return self.recording.happened

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        del scope
        counts = {term: self._have(self.recording.counts, term, "document frequency") for term in terms}
        return Frequencies(self.recording.documents, self.recording.average_length, counts)

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]:
        del deadline_s
        if span > self.recording.span:
            raise ReplayGap(f"recorded {self.recording.span} neighbours a side; the recipe wants {span}")
        found = {}
        for ref, name, hit in finds:
            neighbours = self._have(self.recording.neighbours, (name, _id(hit)), "neighbours")
            if span < self.recording.span:
                neighbours = [h for h in neighbours if _distance(hit, h) <= span]
            found[ref] = neighbours
        return found

    async def cosines(self, query: str, texts: Sequence[str]) -> Mapping[str, float]:
        del query
        return {text: self.recording.dense[text] for text in texts if text in self.recording.dense}

    async def likeness(
        self, query: str, texts: Sequence[str], contexts: Mapping[str, str] | None = None
    ) -> Likeness | None:
        del query
        if contexts is not None and not self.recording.asked_second:
            raise ReplayGap("the second encoder was not asked when this was recorded")
        used = self.recording.second if contexts is not None else None
        if used is None and self.recording.lexical:
            return None
        used = used or self._of_first()
        if any(text not in used.matches and text not in used.pending for text in texts):
            raise ReplayGap("the recording has no likeness of a text in the pool")
        return _of(used, texts)

    def _of_first(self) -> Likeness:
        one = self.recording
        return Likeness(one.words, one.matches, one.dense, frozenset(one.unseen), one.model)

    async def reworded(self, pairs: Sequence[Texts]) -> Collection[Texts]:
        return {
            (one, other) for one, other in pairs if not self.recording.reworded.isdisjoint([(one, other), (other, one)])
        }

    @property
    def has_judge(self) -> bool:
        return self.recording.has_judge

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        del query, deadline_s
        if self.recording.verdict is None:
            raise ReplayGap("the judge was not asked when this was recorded")
        scores = {p.id: self._have(self.recording.verdicts, p.text, "verdict") for p in passages}
        return replace(self.recording.verdict, scores={i: s for i, s in scores.items() if s is not None})

    @staticmethod
    def _have(recorded: Mapping[K, V], key: K, what: str) -> V:
        try:
            return recorded[key]
        except KeyError:
            raise ReplayGap(f"the recording has no {what} for {key!r}") from None


def _of(likeness: Likeness, texts: Sequence[str]) -> Likeness:
    """The likeness of ``texts`` only."""
    return Likeness(
        likeness.words,
        {text: likeness.matches[text] for text in texts if text in likeness.matches},
        {text: likeness.dense[text] for text in texts if text in likeness.dense},
        likeness.pending.intersection(texts),
        likeness.model,
        likeness.second,
    )


def _id(hit: Hit) -> str:
    """The id of a hit in a recording: its event id, or else its native id."""
    return hit.event_id or hit.native_id


def _distance(hit: Hit, other: Hit) -> int:
    return abs(hit.place.start - other.place.start) if hit.place and other.place else 0
