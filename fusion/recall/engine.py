"""The read path: `fuse` turns a request into a block, and into a receipt that gives the reasons.

All input comes through `RecallIO`: the backends' answers, neighbours, journal records, scores of the model and the
judge, the time and the nonce. With a recording as its `RecallIO`, `fuse` gives the same block again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Protocol

from fusion.calibration import UNABLE, Calibration
from fusion.contract import EVERYTHING, Asker, BlockFormat, Hit, Passage, Query, Scope, Verdict, Where
from fusion.errors import BadInput, NobodyAnswered, TooLarge
from fusion.lib.bm25 import Frequencies, terms
from fusion.lib.budget import estimate_tokens
from fusion.lib.pasted import prompt_parts
from fusion.lib.words import spoken
from fusion.recall.asked_section import AskedSections
from fusion.recall.calibration import calibration_of, missing, sort_of, with_probabilities
from fusion.recall.contradictions import (
    by_trust_of_copies,
    contradictions,
    explained,
    leave_out,
    rows,
    with_contradictions,
    with_newer_shown,
)
from fusion.recall.course_of_talks import asks_for_course, person_first
from fusion.recall.cut import cut
from fusion.recall.decision import BY_LIMIT, OUT_OF_ROOM, Decision, decision_of, sentence
from fusion.recall.dedup import AnsweredHits, Candidate, SourceHit
from fusion.recall.dispute import Dispute, next_to_rivals
from fusion.recall.event_dates import SEARCHED, EventTime, dated_by, event_in
from fusion.recall.expand import Pooled
from fusion.recall.filter import JOURNAL, Admitted, Record, admit, admit_one, records_of
from fusion.recall.gather import Answer
from fusion.recall.list_all import MAX_LINES, one_each, pack_lines
from fusion.recall.long_memories import best_of_each_first, best_parts, in_parts, parts_of
from fusion.recall.neighbours import BackendHits, Neighbours, expanded
from fusion.recall.pack import Block, Excerpt, Ranking
from fusion.recall.query_dates import Dates, dates
from fusion.recall.receipt import Receipt
from fusion.recall.rerank import (
    Scored,
    by_best_sub_question,
    by_local_score,
    by_verdict,
    nothing_fits,
    of_that_time,
    passages,
    signals_of,
    wants_judge,
)
from fusion.recall.rrf import ceiling, rrf
from fusion.recall.shown_before import NOTHING, InContext, shown_keys
from fusion.recall.signals import Likeness, contexts_of, local_signals
from fusion.recall.split_query import split_query
from fusion.recall.stages import Stage, Stages
from fusion.recall.standing import STANDING, USE, Use, standings_of, with_conflicts
from fusion.recall.wants_memory import GateResult, arranges, gate, needs_no_search
from fusion.recipe import GateSettings, PackSettings, Recipe, RerankSettings

QUERY_CHARS = 4000
"""characters of a query that are searched: of a longer one, half of them from its beginning and half from its end"""
QUERY_LIMIT = 32_000
"""maximum characters of a query; a longer one is refused"""
BACKENDS_SHARE = 0.8
"""share of a request's time that the backends get; the rest is for ranking and packing"""
WHERE_DEPTH = 4
"""how many times as many hits are asked for if some of them will be left out"""
MAX_DAYS = 100
"""excerpts of an answer to a question that asks for nothing but a time"""
RETRIEVED = 50
"""best candidates of a question that count as retrieved"""
JUDGE_MARGIN_S = 0.03
"""seconds left for packing after the judge"""


@dataclass(frozen=True, slots=True)
class FuseRequest:
    """A request. What is ``None`` comes from the recipe; a ``recipe`` that is ``None`` from the settings.

    ``budget_chars`` and ``budget_tokens`` include the block's frame; if one of them is given, the recipe's other one
    does not hold. ``max_results`` counts excerpts, ``max_items`` the single memories in them. ``backends`` limits the
    search to these. With ``all_users`` a question without user and agent searches those of all.
    """

    query: str
    scope: Scope = field(default_factory=lambda: Scope(audience="private"))
    as_of: datetime | None = None
    known_at: datetime | None = None
    budget_chars: int | None = None
    budget_tokens: int | None = None
    max_results: int | None = None
    max_items: int | None = None
    format: BlockFormat | None = None
    backends: tuple[str, ...] | None = None
    recipe: str | None = None
    timeout_ms: int | None = None
    explain: bool = False
    fill: bool | None = None
    """whether to fill the block up to its limits, also with what adds little"""
    gate: bool | None = None
    """False: the answer is wanted whatever the prompt is, so the recipe's gate does not hold"""
    asker: Asker | None = None
    """who asks; the scope says whose memories are searched"""
    all_users: bool = False
    timezone: str | None = None
    """the IANA name of the time zone in which the question's days count; UTC if None"""
    now: datetime | None = None
    """when the question is asked: what "yesterday" counts from; the present time if None"""
    where: Where = EVERYTHING
    """what a memory must be like to be in the answer"""
    archived: bool = False
    """whether memories that were archived may be in the answer, as far as a backend finds them"""
    record: bool = False
    """whether the input of the answer is kept in memory for a while, for replays with other numbers"""


@dataclass(frozen=True, slots=True)
class Fused:
    """The answer. When ``block`` is empty, ``abstained`` gives the reason."""

    block: str
    memories: tuple[Excerpt, ...]
    coverage: Mapping[str, Any]
    degraded: bool
    backends: tuple[Mapping[str, Any], ...]
    rerank: Mapping[str, Any]
    recipe: Mapping[str, str]
    receipt_id: str
    took_ms: float
    abstained: str | None = None
    query_truncated: bool = False
    explain: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    """degradations of the whole home, in words, with the fix"""
    disputed: tuple[Dispute, ...] = ()
    """pairs of memories in the block that contradict each other"""
    prepared: bool = False
    """whether it was prepared after the session's last turn"""


class RecallIO(Protocol):
    """All input of a request. An exception ends the request, so faults of backends and models are values."""

    def now(self) -> datetime:
        """The time at which the question is asked."""
        ...

    def nonce(self) -> str:
        """Random digits for the fence of the block."""
        ...

    def receipt_id(self) -> str:
        """A new id for the receipt."""
        ...

    def asked(self, names: Sequence[str] | None) -> Collection[str]:
        """Which of these backends, or of all, a search asks, without those that wait for others to fail."""
        ...

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        """Search these backends, or all; one `Answer` each."""
        ...

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """The journal's record of each event id; ids that it lacks are external."""
        ...

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]:
        """The neighbours up to ``span`` before and after each find (ref, backend, hit), by its ref."""
        ...

    async def uses(self, event_ids: Sequence[str]) -> Mapping[str, Use]:
        """How often each of these memories was in a block, and when last; without those that never were."""
        ...

    async def happened(self, query: Query, named: Dates) -> Sequence[Hit]:
        """The memories of what happened in the times that the query names, best first."""
        ...

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        """The document frequencies of these terms in the scope."""
        ...

    async def cosines(self, query: str, texts: Sequence[str]) -> Mapping[str, float]:
        """The cosine of the query with each text that has a vector already; empty when the model fails."""
        ...

    async def likeness(
        self, query: str, texts: Sequence[str], contexts: Mapping[str, str] | None = None
    ) -> Likeness | None:
        """The model's scores of the texts that have vectors, the others as pending; None when no model is configured.

        It encodes the query and nothing else. With ``contexts``, they are the second encoder's if there is one; a text
        that is among them is read in its context (`fusion.lib.in_context`).
        """
        ...

    async def reworded(self, pairs: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """The pairs of texts that say the same in other words, by the vectors that are there."""
        ...

    @property
    def has_judge(self) -> bool:
        """Whether a judge is configured."""
        ...

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        """The judge's scores; call it only if `has_judge`."""
        ...


Packer = Callable[[Ranking], Awaitable[Block]]
"""makes the block of what was ranked"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer, its receipt, the native ids in the block by backend, and all hits.

    ``included`` are the memories in the block: event ids, and refs of external items; ``retrieved`` likewise the best
    `RETRIEVED` candidates, in the block or not.
    """

    fused: Fused
    receipt: Receipt
    used: Mapping[str, tuple[str, ...]]
    included: tuple[str, ...]
    retrieved: tuple[str, ...]
    hits: Sequence[BackendHits]
    """the backends' answers, then the neighbours that were read of these hits, admitted or not"""
    shown: tuple[str, ...] = ()
    """the keys of the memories in the block, by which a session recognises them later"""
    block: Block | None = None
    """the block as it was packed"""
    stages: Sequence[Stage] = ()
    """how long each stage took; none for an answer that was prepared"""

    def found(self, wanted: Mapping[str, Collection[str]]) -> dict[tuple[str, str], Hit]:
        """The hits with these native ids of these backends, by backend and native id."""
        return {
            (backend, hit.native_id): hit
            for backend, hits in self.hits
            if (ids := wanted.get(backend))
            for hit in hits
            if hit.native_id in ids
        }


async def fuse(
    request: FuseRequest,
    recipe: Recipe,
    io: RecallIO,
    context: InContext = NOTHING,
    event: EventTime | None = None,
    packer: Packer | None = None,
) -> Outcome:
    """Searches the backends, merges, expands, ranks and packs the hits.

    ``context`` is what the asker has already; the block leaves it out. ``event`` is the time
    that the question gives by an event. ``packer`` makes another block of what was ranked.
    Raises BadInput for a query that cannot be asked, and NobodyAnswered when every backend failed.
    """
    started = time.perf_counter()
    ended = Stages(started)
    query, truncated = _query(request, recipe, io)
    named = _dates(query, recipe, event)
    if event is not None:  # its words would find the event, not what is asked for
        query = replace(query, text=event.left_out(query.text), times=named.times)

    def left_s() -> float:
        return query.deadline_s - (time.perf_counter() - started)

    asks_for_time = named.nothing_else and not arranges(named.rest)
    is_open = request.gate is False or asks_for_time or query.where
    gates = GateSettings() if is_open else recipe.gate
    silent = needs_no_search(query.text, named) if gates.wants_memory else None
    asked = terms(query.text)
    answers: Sequence[Answer] = ()
    frequencies = Frequencies()
    if (asked or named.nothing_else or query.where) and not silent:
        counting = asyncio.ensure_future(io.frequencies(query.scope, sorted(set(asked))))  # in parallel to the backends
        try:
            answers = await io.answers(query, request.backends, query.deadline_s * BACKENDS_SHARE)
            frequencies = await counting
        finally:
            counting.cancel()
    ended("gather")
    _require_one(answers)
    admitted, refused, records = await _admitted(answers, query, io)
    answered = AnsweredHits(admitted, recipe.dedup)
    doubtful = answered.doubtful()
    reworded = await io.reworded(doubtful) if doubtful else ()
    candidates = answered.candidates(reworded)
    ranked = rrf(candidates, recipe.fuse)
    ended("merge")
    happened, then = ([], {}) if silent else await _admitted_happenings(query, named, io)
    neighbours = Neighbours(ranked, query, io, left_s, recipe.expand.span)
    pool: Sequence[Pooled] = await expanded(ranked, neighbours, recipe.expand, recipe.dedup, happened)
    known = {**then, **neighbours.records, **records}
    weighed = recipe.rerank.weighed & STANDING
    uses = await io.uses(list(known)) if weighed & USE else {}
    standings = standings_of(known, weighed, uses)
    pool = with_conflicts(pool, standings)
    answered_hits = [(answer.backend, answer.hits) for answer in answers]
    said = contradictions(admitted, answered_hits, records, query, recipe.contradictions.single_valued)
    contradicting = by_trust_of_copies(said, pool, admitted)
    pool = with_contradictions(pool, contradicting)
    pool = await _in_passages(query, pool, known, frequencies, recipe, io)
    ended("expand")
    texts = [spoken(p.candidate.hit.text, p.candidate.hit.speaker) for p in pool]
    contexts = contexts_of(pool) if recipe.rerank.second_encoder else None
    likeness = await io.likeness(query.text, texts, contexts) if pool else None
    ended("compare")
    compared = likeness is not None and bool(likeness.words or likeness.dense)
    numbers = recipe.rerank if compared else recipe.rerank.by_words
    best = ceiling([a.backend for a in answers if a.status == "ok"], recipe.fuse)
    orders = [
        by_local_score(
            pool,
            local_signals(part, pool, best, frequencies, seen, standings, numbers.weighed, named if event else None),
            numbers,
            part.text,
        )
        for part, seen in split_query(query, likeness or Likeness(), numbers.sub_questions)
    ]
    order: Sequence[Scored] = by_best_sub_question(orders, numbers) if len(orders) > 1 else orders[0]
    encoders = (likeness.model or UNABLE, likeness.second) if likeness is not None else ("", "")
    models = ("", "") if encoders[0] == UNABLE else encoders
    calibration = calibration_of(numbers, *models)
    uncalibrated = {"uncalibrated": missing(numbers, *models)} if order and calibration is None else {}
    if calibration is not None:
        order = with_probabilities(order, calibration)
    gated, gate_ms = None, 0.0
    if order and gates.wants_memory:
        began_s = time.thread_time()
        gated = gate(order, query.text, frequencies, named, gates)
        gate_ms = (time.thread_time() - began_s) * 1000
    silent = gated.silent if gated is not None else silent
    ended("rank")
    if not silent:
        order, rerank = await _ask_judge(order, query, recipe, io, left_s() - JUDGE_MARGIN_S)
    else:
        rerank = {"status": "not_needed" if io.has_judge else "off"}
    ended("judge")
    order = with_newer_shown(next_to_rivals(AskedSections(query.text).first(order)), recipe.rerank)
    if named.nothing_else:
        order = of_that_time(order, named)
    rerank |= uncalibrated
    if len(orders) > 1:
        rerank["sub_questions"] = len(orders)
    if likeness is not None and (pending := likeness.pending.intersection(texts)):
        rerank["without_vectors"] = sum(text in pending for text in texts)
    if recipe.rerank.second_encoder and likeness is not None and not likeness.second:
        rerank["second_encoder"] = "missing"
    model = recipe.rerank.model
    if model is not None:
        rerank["learned"] = {"file": model.file, **({"fault": model.fault} if model.trees is None else {})}
    packing = _packing(request, recipe, named)
    left_out = leave_out(order, contradicting, recipe.contradictions) | _left_out(order, gated)
    spread = best_of_each_first(order)
    first = _packed_first(spread, query, numbers)
    if model is None or model.trees is None:  # the scores of trees have another scale
        visible = [scored for scored in first if scored.pooled.key not in left_out]
        left_out |= dict.fromkeys(cut(visible, query.text, named, packing, numbers), Decision.ADDS_TOO_LITTLE)
    by_date = named.nothing_else or first is not spread
    shown = context.keys_among((scored.pooled.candidate for scored in first), request.query)
    ranking = Ranking(query.text, first, packing, numbers, io.nonce(), shown, left_out, by_date, known)
    block = await packer(ranking) if packer is not None else ranking.block()
    ended("pack")

    gate_report: Mapping[str, Any] | None = None
    if gates.wants_memory:
        gate_report = {**gated.report(), "cpu_ms": round(gate_ms, 3)} if gated is not None else {"silent": silent}
    was_asked = bool(asked) or named.nothing_else or bool(query.where)
    return _outcome(
        _Packed(
            request,
            recipe,
            query,
            truncated,
            answers,
            refused,
            order,
            block,
            packing,
            rerank,
            encoders,
            numbers.signals,
            calibration if order else None,
            rows(contradicting),
        ),
        io.receipt_id(),
        started,
        without_model=(likeness is not None and not likeness.words) or (model is not None and model.trees is None),
        abstained=None if block.memories else silent or _abstained(block, pool, query, was_asked),
        neighbour_hits=neighbours.hits,
        gate_report=gate_report,
        event=event,
        stages=ended.ended,
    )


def whole_query(request: FuseRequest, now: datetime, deadline_s: float) -> Query:
    """The query for all that fits a request's filter."""
    return Query(
        request.query,
        request.scope,
        request.now or now,
        MAX_LINES,
        deadline_s,
        request.as_of,
        request.known_at,
        zone=request.timezone,
        where=request.where,
    )


async def list_all(request: FuseRequest, recipe: Recipe, answers: Sequence[Answer], io: RecallIO) -> Outcome:
    """Packs all that fits the request's filter, as ``answers`` have it: one line for each note or memory."""
    started = time.perf_counter()
    query, truncated = _query(request, recipe, io)
    admitted, refused, _ = await _admitted(answers, query, io)
    order = one_each(admitted)
    packing = replace(_packing(request, recipe, Dates()), max_results=request.max_results or MAX_LINES)
    more = any(len(answer.hits) >= MAX_LINES for answer in answers)
    block = pack_lines(order, packing, recipe.rerank, io.nonce(), more)
    packed = _Packed(request, recipe, query, truncated, answers, refused, order, block, packing, {"status": "off"})
    abstained = _abstained(block, [one.pooled for one in order], query, asked=True)
    return _outcome(packed, io.receipt_id(), started, abstained=abstained)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A request, what was found for it and what was packed of that."""

    request: FuseRequest
    recipe: Recipe
    query: Query
    truncated: bool
    answers: Sequence[Answer]
    refused: Mapping[str, Mapping[str, int]]
    order: Sequence[Scored]
    block: Block
    packing: PackSettings
    rerank: Mapping[str, Any]
    encoders: tuple[str, str] = ("", "")
    """the identities of the embedder and of the second encoder that compared what was found"""
    weights: Mapping[str, float] = field(default_factory=dict)
    """of the signals in the scores"""
    calibration: Calibration | None = None
    """what made probabilities of the scores"""
    contradictions: Sequence[Mapping[str, Any]] = ()
    """what stores contradict each other in, and what decided"""


def _outcome(
    packed: _Packed,
    receipt_id: str,
    started: float,
    *,
    abstained: str | None,
    without_model: bool = False,
    neighbour_hits: Sequence[BackendHits] = (),
    gate_report: Mapping[str, Any] | None = None,
    event: EventTime | None = None,
    stages: Sequence[Stage] = (),
) -> Outcome:
    """The answer with its receipt."""
    answers, block, recipe = packed.answers, packed.block, packed.recipe
    took_ms = (time.perf_counter() - started) * 1000
    receipt = _receipt(receipt_id, packed, took_ms)
    if gate_report is not None:
        receipt = replace(receipt, summary={**receipt.summary, "gate": gate_report})
    if event is not None:
        receipt = replace(receipt, summary={**receipt.summary, "event": event.report()})
    fused = Fused(
        block=block.text,
        memories=block.memories,
        coverage=coverage(answers),
        degraded=any(a.status not in _FINE for a in answers) or without_model,
        backends=tuple(_summary(a, packed.refused.get(a.backend, {})) for a in answers),
        rerank=packed.rerank,
        recipe={"name": recipe.name, "hash": recipe.hash},
        receipt_id=receipt.receipt_id,
        took_ms=round(took_ms, 2),
        abstained=abstained,
        query_truncated=packed.truncated,
        explain=explain(receipt.body) if packed.request.explain else None,
        disputed=block.disputes,
    )
    hits = [*((answer.backend, answer.hits) for answer in answers), *neighbour_hits]
    shown = {part.ref: part.pooled.candidate for part in block.packed}.values()
    included = tuple(candidate.hit.event_id or candidate.ref for candidate in shown)
    keys = tuple(
        key
        for part in block.packed
        for key in shown_keys(part.pooled.candidate, passage=part.pooled.passage is not None)
    )
    best = (scored.pooled.candidate for scored in packed.order[:RETRIEVED])
    retrieved = tuple(dict.fromkeys(candidate.hit.event_id or candidate.ref for candidate in best))
    return Outcome(fused, receipt, _used(shown), included, retrieved, hits, keys, block, stages)


_FINE = frozenset({"ok", "empty", "skipped", "disabled"})


def _query(request: FuseRequest, recipe: Recipe, io: RecallIO) -> tuple[Query, bool]:
    text = request.query
    if not text.strip():
        raise BadInput("query is empty: say what to recall")
    if len(text) > QUERY_LIMIT:
        raise TooLarge(f"query has {len(text)} characters; at most {QUERY_LIMIT} are taken")
    text = prompt_parts(text).cut(QUERY_CHARS)
    truncated = len(request.query) > QUERY_CHARS
    if len(text) > QUERY_CHARS:
        text = text[: QUERY_CHARS // 2] + "\n" + text[-QUERY_CHARS // 2 :]
    deadline_s = (request.timeout_ms or recipe.gather.timeout_ms) / 1000
    now = request.now or io.now()
    query = Query(
        text=text,
        scope=request.scope,
        now=now,
        limit=recipe.gather.depth_for(len(io.asked(request.backends))) * (WHERE_DEPTH if request.where else 1),
        deadline_s=deadline_s,
        as_of=request.as_of,
        known_at=request.known_at,
        zone=request.timezone,
        where=request.where,
        archived=request.archived,
    )
    return replace(query, times=_dates(query, recipe).times), truncated


async def dated_event(request: FuseRequest, recipe: Recipe, io: RecallIO, deadline_s: float) -> EventTime | None:
    """The time that a question gives by an event, if it names one and the memories of it are clear."""
    if not recipe.rerank.episode_boost or not request.query.strip() or len(request.query) > QUERY_CHARS:
        return None
    query, _ = _query(request, recipe, io)
    event = event_in(query)
    if event is None:
        return None
    search = replace(query, text=event.words, limit=SEARCHED, deadline_s=deadline_s)
    answers = await io.answers(search, request.backends, deadline_s)
    admitted, _, _ = await _admitted(answers, search, io)
    return dated_by(event, [item for items in admitted.values() for item in items], query)


def _dates(query: Query, recipe: Recipe, event: EventTime | None = None) -> Dates:
    """The times that a query names, if the recipe asks for what happened then; those of a pasted log are not."""
    if not recipe.rerank.episode_boost:
        return Dates()
    if event is not None:
        return dates(event.in_place(query.text), query.now, query.zone)
    return dates(prompt_parts(query.text).typed, query.now, query.zone)


def _packing(request: FuseRequest, recipe: Recipe, named: Dates) -> PackSettings:
    """The recipe's numbers with the request's. A budget of the request replaces both budgets of the recipe.

    The days of a month are shown as far as the budget goes, unless the request limits the excerpts.
    """
    pack = replace(recipe.pack, max_results=MAX_DAYS) if named.nothing_else else recipe.pack
    if request.budget_chars or request.budget_tokens:
        pack = replace(pack, budget_chars=request.budget_chars or 0, budget_tokens=request.budget_tokens or 0)
    return replace(
        pack,
        max_results=request.max_results or pack.max_results,
        max_items=request.max_items or pack.max_items,
        format=request.format or pack.format,
        fill=pack.fill if request.fill is None else request.fill,
    )


def _require_one(answers: Sequence[Answer]) -> None:
    failed = any(a.status not in _FINE for a in answers) or (answers and all(a.status == "disabled" for a in answers))
    if failed and not any(a.status in ("ok", "empty") for a in answers):
        details = {"coverage": coverage(answers), "backends": [_summary(a, {}) for a in answers], "degraded": True}
        raise NobodyAnswered("no backend answered; `fusion backends` says what is wrong with each", details)


async def _admitted(
    answers: Sequence[Answer], query: Query, io: RecallIO
) -> tuple[dict[str, tuple[Admitted, ...]], dict[str, Mapping[str, int]], Mapping[str, Record]]:
    """What the query may see of each answer, what was refused by reason, and the journal's records of the hits."""
    records = await records_of([hit for answer in answers for hit in answer.hits], io.records)
    admitted, refused = {}, {}
    for answer in answers:
        admitted[answer.backend], refused[answer.backend] = admit(answer.backend, answer.hits, query, records)
    return admitted, refused, records


async def _admitted_happenings(query: Query, named: Dates, io: RecallIO) -> tuple[list[Admitted], Mapping[str, Record]]:
    """What happened in the times that the query names: the memories that may be shown, and the records by event id."""
    if not named.windows and not query.where:
        return [], {}
    hits = await io.happened(query, named)
    records = await io.records([hit.event_id for hit in hits if hit.event_id]) if hits else {}
    items = (admit_one(JOURNAL, hit, rank, query, records) for rank, hit in enumerate(hits, start=1))
    return [item for item in items if isinstance(item, Admitted)], records


async def _in_passages(
    query: Query,
    pool: Sequence[Pooled],
    records: Mapping[str, Record],
    frequencies: Frequencies,
    recipe: Recipe,
    io: RecallIO,
) -> Sequence[Pooled]:
    """The pool with the best passages of long memories in their place."""
    parts = parts_of(pool, records) if recipe.rerank.passages else []
    if not parts:
        return pool
    cosines = await io.cosines(query.text, [part.said for part in parts])
    return in_parts(pool, best_parts(query, parts, cosines, frequencies, recipe.rerank.passages))


def _packed_first(order: Sequence[Scored], query: Query, numbers: RerankSettings) -> Sequence[Scored]:
    """The order in which memories are packed: another one if the question asks for the course of talks."""
    if not numbers.signals.get("role") or not asks_for_course(query.text) or nothing_fits(order, numbers):
        return order
    return person_first(order)


async def _ask_judge(
    order: Sequence[Scored], query: Query, recipe: Recipe, io: RecallIO, deadline_s: float
) -> tuple[Sequence[Scored], dict[str, Any]]:
    if not io.has_judge or recipe.rerank.judge == "never":
        return order, {"status": "off"}
    if not wants_judge(order, recipe.rerank):
        return order, {"status": "not_needed"}
    shown = passages(order, recipe.rerank)
    if recipe.rerank.judge_timeout_ms:
        deadline_s = min(deadline_s, recipe.rerank.judge_timeout_ms / 1000)
    verdict = await io.verdict(query.text, list(shown.values()), deadline_s)
    report = {
        "status": verdict.status,
        "fault": verdict.fault,
        "model": verdict.model,
        "scored": len(verdict.scores),
        "shown": len(shown),
        "ignored": verdict.ignored,
        "input_tokens": verdict.input_tokens,
        "output_tokens": verdict.output_tokens,
        "orders_only": verdict.orders_only or None,
    }
    return by_verdict(order, shown, verdict, recipe.rerank), {k: v for k, v in report.items() if v is not None}


def coverage(answers: Sequence[Answer]) -> dict[str, Any]:
    """How many backends answered. ``ratio`` is the share of those that were not skipped; 1 when all were."""
    skipped = sum(a.status in ("skipped", "disabled") for a in answers)
    good = sum(a.status in ("ok", "empty") for a in answers)
    asked = len(answers) - skipped
    return {
        "total": len(answers),
        "ok": good,
        "failed": asked - good,
        "skipped": skipped,
        "ratio": round(good / asked, 4) if asked else 1.0,
    }


def _summary(answer: Answer, refused: Mapping[str, int]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": answer.backend,
        "status": answer.status,
        "took_ms": round(answer.took_ms, 2),
        "count": len(answer.hits),
        "error_code": answer.error_code,
    }
    if answer.detail:
        row["detail"] = answer.detail
    if answer.dropped:
        row["dropped"] = dict(answer.dropped)
    if refused:
        row["refused"] = dict(refused)
    return row


def _used(packed: Iterable[Candidate]) -> dict[str, tuple[str, ...]]:
    used: dict[str, tuple[str, ...]] = {}
    for candidate in packed:
        for source_hit in candidate.source_hits:
            used[source_hit.backend] = (*used.get(source_hit.backend, ()), source_hit.native_id)
    return used


def _left_out(order: Sequence[Scored], gated: GateResult | None) -> dict[str, Decision]:
    """The memories that the gate leaves out, by key: all of them for a prompt that wants none."""
    if gated is None:
        return {}
    if gated.silent:
        return dict.fromkeys((scored.pooled.key for scored in order), Decision.NOT_WANTED)
    return dict.fromkeys((one.pooled.key for one in order if one.ref in gated.private), Decision.PRIVATE)


def _abstained(block: Block, pool: Sequence[Pooled], query: Query, asked: bool) -> str | None:
    if block.memories:
        return None
    if not asked:
        return "the query has only stop words"
    if Decision.SHOWN_BEFORE in block.decisions.values():
        return "this session has all of it already"
    if not OUT_OF_ROOM.isdisjoint(block.decisions.values()):
        return "nothing fits the budget"
    if Decision.STATES_NOTHING in block.decisions.values():
        return "only questions and small talk were found"
    if pool:
        return "nothing cleared the floor"
    return "nothing fits the filter" if query.where else "nothing was found"


def _receipt(receipt_id: str, packed: _Packed, took_ms: float) -> Receipt:
    query, recipe, block = packed.query, packed.recipe, packed.block
    summary = {
        "receipt_id": receipt_id,
        "at": query.now.isoformat(),
        "recipe": {"name": recipe.name, "hash": recipe.hash},
        "took_ms": round(took_ms, 2),
        "characters": len(block.text),
        "candidate_tokens": _tokens_in_full(packed.order),
        "budget": _budget(packed.packing, block),
        "rerank": packed.rerank,
        "backends": [_summary(a, packed.refused.get(a.backend, {})) for a in packed.answers],
        "weights": dict(packed.weights),
        "encoders": list(packed.encoders),
        "calibration": _calibration(packed.calibration),
    }
    if packed.contradictions:
        summary["contradictions"] = list(packed.contradictions)
    return Receipt(receipt_id, query.scope.tenant, query.now.timestamp(), summary, _reasons(packed.order, block))


def _tokens_in_full(order: Sequence[Scored]) -> int:
    """The estimated tokens of all candidates in full, each once: what an agent would read without a block."""
    texts = {scored.ref: scored.pooled.candidate.hit.text for scored in order}
    return sum(map(estimate_tokens, texts.values()))


def _calibration(used: Calibration | None) -> dict[str, Any] | None:
    """Which calibration made the probabilities, None without one."""
    if used is None:
        return None
    return {"scores_by": used.of_scores_by, "hash": used.digest, "of_home": used.of_home}


def _budget(packing: PackSettings, block: Block) -> dict[str, Any]:
    """The limits of the block, its estimated tokens, and which limits left memories out."""
    decisions = set(block.decisions.values())
    return {
        "chars": packing.budget.chars,
        "tokens": packing.budget.tokens,
        "max_results": packing.max_results,
        "max_items": packing.max_items or None,
        "format": packing.format,
        "used_tokens": estimate_tokens(block.text),
        "bound_by": [limit for limit, decision in BY_LIMIT.items() if decision in decisions],
    }


def _reasons(order: Sequence[Scored], block: Block) -> dict[str, Any]:
    """The decision on each candidate with its numbers, by column; of a long memory those of its best passage."""
    best: dict[str, Scored] = {}
    for scored in order:
        best.setdefault(scored.ref, scored)
    order = list(best.values())
    found = [scored.pooled for scored in order]
    refs = [pooled.candidate.ref for pooled in found]
    return {
        "ref": refs,
        "decision": [block.decisions[ref] for ref in refs],
        "local": [scored.local for scored in order],
        "probability": [scored.probability for scored in order],
        "sort": [sort_of(scored) for scored in order],
        "judge": [scored.judge for scored in order],
        "rrf": [pooled.rrf for pooled in found],
        "neighbour_of": [pooled.neighbour_of for pooled in found],
        "rivals": [[*map(list, pooled.candidate.rivals)] for pooled in found],
        "source_hits": [[*map(_source_hit_row, pooled.candidate.source_hits)] for pooled in found],
        "signals": {name: column.tolist() for name, column in signals_of(order).columns.items()},
    }


_SOURCE_HIT_FIELDS = ("backend", "ref", "native_id", "rank", "reason", "score")
_source_hit_row = itemgetter(*(SourceHit._fields.index(name) for name in _SOURCE_HIT_FIELDS))


def explain(body: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt for people: rounded numbers, source hits with field names, and a ``reason`` in words.

    Source hits in receipts of earlier versions have no score.
    """
    candidates = [
        {
            **row,
            "decision": decision_of(row["decision"]),
            "reason": sentence(row["decision"]),
            "local": round(row["local"], 4),
            "probability": None if row.get("probability") is None else round(row["probability"], 4),
            "rrf": round(row["rrf"], 5),
            "signals": {name: round(value, 3) for name, value in row["signals"].items()},
            "source_hits": [dict(zip(_SOURCE_HIT_FIELDS, s, strict=False)) for s in row["source_hits"]],
        }
        for row in body["candidates"]
    ]
    contradicting = body.get("contradictions")
    said = {"contradictions": explained(contradicting)} if contradicting else {}
    return {**body, **said, "candidates": candidates}
