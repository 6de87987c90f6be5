"""One question, two arms, one gather: what differs between the answers is the arms' doing, and nothing else's.

Everything that comes from outside is asked once, for both: the union of their backends, the deeper pool, the wider
neighbourhood, and one verdict of the judge on whatever either would show it. Then each arm is played over that record.
An arm still gets no more than it would have got alone: a shallower one sees the head of each backend's list, and one
in more of a hurry counts a backend that took too long as late. Nothing is marked as used.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusion.compare.arms import Arm
from fusion.contract import Passage, Query, Verdict
from fusion.errors import NobodyAnswered
from fusion.recall.decision import Decision, sentence
from fusion.recall.engine import JUDGE_MARGIN_S, Fused, FuseRequest, Outcome, RecallIO, explain, fuse
from fusion.recall.gather import Answer
from fusion.recall.io import Recorder, Recording, Replay
from fusion.recall.pack import Excerpt
from fusion.recipe import DedupSettings, GatherSettings, Recipe, RerankSettings, mark


@dataclass(frozen=True, slots=True)
class Side:
    """One arm's answer; the fields are those of `Fused`.

    ``waited_ms`` is how long the slowest of its own backends took; ``took_ms`` its ranking and packing alone.
    """

    arm: str
    block: str
    characters: int
    memories: tuple[Excerpt, ...]
    coverage: Mapping[str, Any]
    degraded: bool
    backends: tuple[Mapping[str, Any], ...]
    rerank: Mapping[str, Any]
    recipe: Mapping[str, str]
    receipt_id: str
    waited_ms: float
    took_ms: float
    abstained: str | None
    tuned_on: bool
    """whether this very question chose numbers of the arm's recipe: then what it finds does not speak for it"""

    @classmethod
    def of(cls, arm: Arm, query: str, fused: Fused) -> Side:
        return cls(
            arm=arm.text,
            block=fused.block,
            characters=len(fused.block),
            memories=fused.memories,
            coverage=fused.coverage,
            degraded=fused.degraded,
            backends=fused.backends,
            rerank=fused.rerank,
            recipe=fused.recipe,
            receipt_id=fused.receipt_id,
            waited_ms=max((row["took_ms"] for row in fused.backends), default=0.0),
            took_ms=fused.took_ms,
            abstained=fused.abstained,
            tuned_on=mark(query) in arm.recipe.tuned_on,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers to one question, and what only one of them has in its block, by ref.

    ``why`` has a row for each memory in either block: what each arm's receipt says of it. ``took_ms`` is for all of it.
    """

    a: Side
    b: Side
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    both: tuple[str, ...]
    """by the ref that a cites it by"""
    why: tuple[Mapping[str, Any], ...]
    took_ms: float
    query_truncated: bool = False
    notes: tuple[str, ...] = ()
    """what is degraded for the whole home, in words with the fix"""


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison, what came of each arm, and how each backend that was asked did."""

    comparison: Comparison
    outcomes: tuple[Outcome, Outcome]
    backends: tuple[Mapping[str, Any], ...]


async def compare(request: FuseRequest, a: Arm, b: Arm, io: RecallIO) -> Compared:
    """Asks once, answers twice. The request's own ``backends`` and ``recipe`` give way to those of the arms.

    Raises BadInput for a query that cannot be asked, and NobodyAnswered when every backend of one arm failed: what
    then differs would be the outage.
    """
    started = time.perf_counter()
    both = tuple(dict.fromkeys((*a.backends, *b.backends)))
    widest = _widest(a.recipe, b.recipe, len(both))
    timeout_ms = request.timeout_ms or widest.gather.timeout_ms
    recorder = Recorder.of(io)
    gathered = await fuse(replace(request, backends=both, explain=False), widest, recorder)

    record = recorder.recording
    runs = tuple(_Run.of(side, arm, request, record, io, timeout_ms) for side, arm in (("a", a), ("b", b)))
    outcomes = [await run.play() for run in runs]
    shown = {text: passage for run in runs for text, passage in run.io.shown.items()}
    if shown:
        # One call scores whatever either shows: the same passage has the same score in both.
        left_s = timeout_ms / 1000 - (time.perf_counter() - started) - JUDGE_MARGIN_S
        asked = next(run.io.asked for run in runs if run.io.shown)
        verdict = await io.verdict(asked, list(shown.values()), max(0.0, left_s))
        record.verdict = verdict
        record.verdicts = {text: verdict.scores.get(passage.id) for text, passage in shown.items()}
        outcomes = [await run.play() if run.io.shown else outcome for run, outcome in zip(runs, outcomes, strict=True)]

    same = {ref: row["ref"] for row in gathered.receipt.body["candidates"] for ref in _refs(row)}
    mine, other = (_ArmBlock.of(arm, outcome, same) for arm, outcome in zip((a, b), outcomes, strict=True))
    only_a, only_b = mine.lacking_in(other), other.lacking_in(mine)
    in_both = tuple(ref for ref in mine.packed if ref not in only_a)
    return Compared(
        Comparison(
            a=Side.of(a, request.query, outcomes[0].fused),
            b=Side.of(b, request.query, outcomes[1].fused),
            only_a=only_a,
            only_b=only_b,
            both=in_both,
            why=(
                *({"ref": ref, "a": mine.reason(ref), "b": other.reason_for(ref, mine)} for ref in (*only_a, *in_both)),
                *({"ref": ref, "a": mine.reason_for(ref, other), "b": other.reason(ref)} for ref in only_b),
            ),
            took_ms=round((time.perf_counter() - started) * 1000, 2),
            query_truncated=gathered.fused.query_truncated,
        ),
        (outcomes[0], outcomes[1]),
        gathered.fused.backends,
    )


def _widest(a: Recipe, b: Recipe, backends: int) -> Recipe:
    """A recipe whose I/O is enough for both. Of what it makes of it only that is used: which hits are one memory."""
    depth = max(a.gather.depth, b.gather.depth)
    return Recipe(
        name="compare",
        gather=GatherSettings(max(a.gather.timeout_ms, b.gather.timeout_ms), depth),
        dedup=DedupSettings(max_candidates=depth * backends),
        expand=replace(a.expand, span=max(a.expand.span, b.expand.span)),
        rerank=RerankSettings(judge="never"),
    )


@dataclass(slots=True)
class _ArmReplay(Replay):
    """The record as one arm alone would have had it. Before there is a verdict it notes what a judge would be shown."""

    id: str
    judge: bool
    hurried: bool
    shown: dict[str, Passage] = field(default_factory=dict)
    """by their texts, the passages that this arm wants judged"""
    said: list[str] = field(default_factory=list)

    def receipt_id(self) -> str:
        return self.id

    @property
    def has_judge(self) -> bool:
        return self.judge

    @property
    def asked(self) -> str:
        """The question as the judge is to read it."""
        return self.said[0]

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        found = await Replay.answers(self, query, names, deadline_s)
        return [self._alone(answer, query.limit, deadline_s * 1000) for answer in found]

    def _alone(self, answer: Answer, limit: int, deadline_ms: float) -> Answer:
        if self.hurried and answer.hits and answer.took_ms > deadline_ms:
            detail = f"no answer within {deadline_ms:.0f} ms"
            return Answer(answer.backend, "timeout", (), deadline_ms, "BackendTimeout", detail)
        return answer if len(answer.hits) <= limit else replace(answer, hits=answer.hits[:limit])

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.recording.verdict is not None:
            return await Replay.verdict(self, query, passages, deadline_s)
        self.said.append(query)
        self.shown.update({passage.text: passage for passage in passages})
        return Verdict("disabled")


@dataclass(frozen=True, slots=True)
class _Run:
    """One arm over the record; it can be played again when the verdict is there."""

    side: str
    arm: Arm
    request: FuseRequest
    io: _ArmReplay

    @classmethod
    def of(cls, side: str, arm: Arm, request: FuseRequest, record: Recording, io: RecallIO, timeout_ms: int) -> _Run:
        own_ms = request.timeout_ms or arm.recipe.gather.timeout_ms
        replay = _ArmReplay(record, io.receipt_id(), io.has_judge, hurried=own_ms < timeout_ms)
        return cls(side, arm, replace(request, backends=arm.backends, explain=False), replay)

    async def play(self) -> Outcome:
        try:
            return await fuse(self.request, self.arm.recipe, self.io)
        except NobodyAnswered as error:
            raise NobodyAnswered(f"arm {self.side} ({self.arm.text}): {error}", error.details) from None


@dataclass(frozen=True, slots=True)
class _ArmBlock:
    """What stands in one arm's block, and what its receipt says of every candidate."""

    arm: Arm
    packed: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Any]]
    """by the ref that cites it"""
    memories: Mapping[str, frozenset[str]]
    """by ref, which memories a candidate is; several where this arm's recipe takes for one what are two"""

    @classmethod
    def of(cls, arm: Arm, outcome: Outcome, same: Mapping[str, str]) -> _ArmBlock:
        """``same`` has one ref for all that cite one memory, whichever backends are asked."""
        rows = {row["ref"]: row for row in outcome.receipt.body["candidates"]}
        memories = {ref: frozenset(same.get(one, one) for one in _refs(row)) for ref, row in rows.items()}
        return cls(arm, tuple(m.ref for memory in outcome.fused.memories for m in memory.members), rows, memories)

    def lacking_in(self, other: _ArmBlock) -> tuple[str, ...]:
        """The refs in this block whose memory is in no form in the other one."""
        there = frozenset().union(*(other.memories[ref] for ref in other.packed))
        return tuple(ref for ref in self.packed if there.isdisjoint(self.memories[ref]))

    def reason(self, ref: str) -> Mapping[str, Any]:
        """What the receipt says of a candidate of this arm."""
        (row,) = explain({"candidates": [self.rows[ref]]})["candidates"]
        found_by = {source_hit["backend"]: source_hit["rank"] for source_hit in reversed(row["source_hits"])}
        return {**{name: row[name] for name in _ROW_FIELDS}, "found_by": found_by}

    def reason_for(self, ref: str, other: _ArmBlock) -> Mapping[str, Any]:
        """…of the memory that the other arm cites as ``ref``; or why this arm has it not."""
        met = [mine for mine, memories in self.memories.items() if not memories.isdisjoint(other.memories[ref])]
        if met:
            return self.reason(max(met, key=lambda mine: (mine in self.packed, mine == ref)))
        finders = {source_hit[0] for source_hit in other.rows[ref]["source_hits"]}
        unasked = finders and finders.isdisjoint(self.arm.backends)
        why = Decision.NOT_ASKED if unasked else Decision.NO_CANDIDATE
        return {
            "ref": None,
            "decision": why,
            "reason": sentence(why),
            **dict.fromkeys(_ROW_FIELDS[3:]),
            "signals": {},
            "found_by": {},
        }


def _refs(row: Mapping[str, Any]) -> list[str]:
    """Every ref that may cite a candidate: its own, and those of its sightings."""
    return [row["ref"], *(source_hit[1] for source_hit in row["source_hits"])]


_ROW_FIELDS = ("ref", "decision", "reason", "local", "judge", "rrf", "neighbour_of", "signals")
"""of a receipt's row, what a comparison repeats"""
