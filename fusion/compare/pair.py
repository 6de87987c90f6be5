"""Compares two arms on one question over one recording, so that only the arms can cause a difference.

The input is read once for both: the union of their backends, the deeper pool, the wider neighbourhood, and one verdict
of the judge on the passages of either. Each arm is then replayed. It gets no more than it would have got alone: with a
smaller depth it sees the head of each backend's list, and with a shorter deadline a slow backend has timed out. No
memory is reported as used.
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
from fusion.recall.recording import Recorder, Recording, Replay
from fusion.recipe import DedupSettings, GatherSettings, Recipe, RerankSettings, mark


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison as `wire.CompareReply`, each arm's outcome, and the status of each backend.

    ``why`` has a row for each memory in either block, with its line of both receipts. ``took_ms`` is the total.
    """

    comparison: dict[str, Any]
    outcomes: tuple[Outcome, Outcome]
    backends: tuple[Mapping[str, Any], ...]


async def compare(request: FuseRequest, a: Arm, b: Arm, io: RecallIO) -> Compared:
    """Reads the input once and answers with both arms, whose backends and recipes replace those of the request.

    Raises BadInput for a query that cannot be asked, and NobodyAnswered when every backend of one arm failed: the
    outage would be the only difference.
    """
    started = time.perf_counter()
    both = tuple(dict.fromkeys((*a.backends, *b.backends)))
    depth = max(arm.recipe.gather.depth_for(len(io.asked(arm.backends))) for arm in (a, b))
    widest = _widest(a.recipe, b.recipe, depth, len(both))
    timeout_ms = request.timeout_ms or widest.gather.timeout_ms
    recorder = Recorder.of(io)
    gathered = await fuse(replace(request, backends=both, explain=False), widest, recorder)

    record = recorder.recording
    runs = tuple(_Run.of(side, arm, request, record, io, timeout_ms) for side, arm in (("a", a), ("b", b)))
    outcomes = [await run.play() for run in runs]
    shown = {text: passage for run in runs for text, passage in run.io.shown.items()}
    if shown:
        # One call scores the passages of both arms, so that the same passage has the same score.
        left_s = timeout_ms / 1000 - (time.perf_counter() - started) - JUDGE_MARGIN_S
        judged = next(run.io.judged for run in runs if run.io.shown)
        verdict = await io.verdict(judged, list(shown.values()), max(0.0, left_s))
        record.verdict = verdict
        record.verdicts = {text: verdict.scores.get(passage.id) for text, passage in shown.items()}
        outcomes = [await run.play() if run.io.shown else outcome for run, outcome in zip(runs, outcomes, strict=True)]

    same = {ref: row["ref"] for row in gathered.receipt.body["candidates"] for ref in _refs(row)}
    mine, other = (_ArmBlock.of(arm, outcome, same) for arm, outcome in zip((a, b), outcomes, strict=True))
    only_a, only_b = mine.lacking_in(other), other.lacking_in(mine)
    in_both = tuple(ref for ref in mine.packed if ref not in only_a)
    return Compared(
        {
            "a": _answer(a, request.query, outcomes[0].fused),
            "b": _answer(b, request.query, outcomes[1].fused),
            "only_a": only_a,
            "only_b": only_b,
            "both": in_both,
            "why": (
                *({"ref": ref, "a": mine.reason(ref), "b": other.reason_for(ref, mine)} for ref in (*only_a, *in_both)),
                *({"ref": ref, "a": mine.reason_for(ref, other), "b": other.reason(ref)} for ref in only_b),
            ),
            "took_ms": round((time.perf_counter() - started) * 1000, 2),
            "query_truncated": gathered.fused.query_truncated,
        },
        (outcomes[0], outcomes[1]),
        gathered.fused.backends,
    )


def _answer(arm: Arm, query: str, fused: Fused) -> dict[str, Any]:
    """One arm's answer, as `wire.ComparedArm`."""
    return {
        "arm": arm.text,
        "block": fused.block,
        "characters": len(fused.block),
        "memories": fused.memories,
        "coverage": fused.coverage,
        "degraded": fused.degraded,
        "backends": fused.backends,
        "rerank": fused.rerank,
        "recipe": fused.recipe,
        "receipt_id": fused.receipt_id,
        "waited_ms": max((row["took_ms"] for row in fused.backends), default=0.0),
        "took_ms": fused.took_ms,
        "abstained": fused.abstained,
        "tuned_on": mark(query) in arm.recipe.tuned_on,
    }


def _widest(a: Recipe, b: Recipe, depth: int, backends: int) -> Recipe:
    """A recipe that reads enough input for both. Of its result only the merging of hits is used."""
    return Recipe(
        name="compare",
        gather=GatherSettings(max(a.gather.timeout_ms, b.gather.timeout_ms), depth),
        dedup=DedupSettings(max_candidates=depth * backends),
        expand=replace(a.expand, span=max(a.expand.span, b.expand.span)),
        rerank=RerankSettings(judge="never", second_encoder=a.rerank.second_encoder or b.rerank.second_encoder),
    )


@dataclass(slots=True)
class _ArmReplay(Replay):
    """Replays the recording as one arm alone would have had it; collects the passages until there is a verdict."""

    id: str
    judge: bool
    hurried: bool
    shown: dict[str, Passage] = field(default_factory=dict)
    """by text, the passages that this arm sends to the judge"""
    said: list[str] = field(default_factory=list)

    def receipt_id(self) -> str:
        return self.id

    @property
    def has_judge(self) -> bool:
        return self.judge

    @property
    def judged(self) -> str:
        """The query for the judge."""
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
    """One arm over the recording; it is played again once there is a verdict."""

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
    """One arm's block, and its receipt's line on every candidate."""

    arm: Arm
    packed: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Any]]
    """by ref"""
    memories: Mapping[str, frozenset[str]]
    """by ref, the memories of a candidate; several if this arm's recipe merges them into one"""

    @classmethod
    def of(cls, arm: Arm, outcome: Outcome, same: Mapping[str, str]) -> _ArmBlock:
        """``same`` maps all refs of one memory to one of them, for any choice of backends."""
        rows = {row["ref"]: row for row in outcome.receipt.body["candidates"]}
        memories = {ref: frozenset(same.get(one, one) for one in _refs(row)) for ref, row in rows.items()}
        return cls(arm, tuple(m.ref for memory in outcome.fused.memories for m in memory.members), rows, memories)

    def lacking_in(self, other: _ArmBlock) -> tuple[str, ...]:
        """The refs in this block whose memory is not in the other block."""
        there = frozenset().union(*(other.memories[ref] for ref in other.packed))
        return tuple(ref for ref in self.packed if there.isdisjoint(self.memories[ref]))

    def reason(self, ref: str) -> Mapping[str, Any]:
        """The receipt's line on a candidate of this arm."""
        (row,) = explain({"candidates": [self.rows[ref]]})["candidates"]
        found_by = {source_hit["backend"]: source_hit["rank"] for source_hit in reversed(row["source_hits"])}
        return {**{name: row[name] for name in _ROW_FIELDS}, "found_by": found_by}

    def reason_for(self, ref: str, other: _ArmBlock) -> Mapping[str, Any]:
        """This arm's line on the memory that the other arm cites as ``ref``, or the reason why it has none."""
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
    """Every ref of a candidate: its own, and those of its source hits."""
    return [row["ref"], *(source_hit[1] for source_hit in row["source_hits"])]


_ROW_FIELDS = ("ref", "decision", "reason", "local", "probability", "judge", "rrf", "neighbour_of", "signals")
"""the fields of a receipt's row that a comparison repeats"""
