"""LoCoMo through the gateway: every turn stored as a memory, every question asked, the packed blocks scored.

Each conversation has a home of its own, opened with the embedded backends, so that figures do not depend on how many
processes share the work. Nothing reaches into the engine: what is scored is what `Fusion.fuse` returns, and, for R@k
and nDCG, the order in its receipt.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from random import Random
from typing import Any
from uuid import UUID

from benchmarks.locomo import UNANSWERABLE, Conversation, Question, Turn, load
from benchmarks.metrics import duplicate_pairs, found
from benchmarks.progress import Advance, bar
from benchmarks.report import BACKENDS, BUDGETS, Asked, Run, Told, figures
from benchmarks.scatter import Copy, held_alone, scatter
from fusion import Fused, FuseRequest, Fusion
from fusion.contract import Captured, Event, Moment, Place, Remembers, Scope
from fusion.ingest.capture import capture
from fusion.ingest.intake import NewMemory
from fusion.lib.words import spoken
from fusion.recall.admit import foreign_ref
from fusion.recall.engine import fuse
from fusion.recall.receipt import Receipt
from fusion.settings import load as load_settings

BATCH = 100
"""memories a `remember`: what one POST may carry"""
TIMEOUT_MS = 60_000
"""figures must not depend on how busy the machine is; latency is reported beside them"""
RANKED = 50
"""ids of the ranking kept in a row"""


def run(options: Run) -> dict[str, Any]:
    """Everything, and one JSON-ready object of figures. Writes ``options.answers`` at the end."""
    conversations = [c for c in load(options.data) if not options.conversations or c.id in options.conversations]
    if not conversations:
        raise SystemExit(f"{options.data} has none of the conversations {', '.join(options.conversations)}")
    questions = sum(len(_questions(c, options)) for c in conversations)
    with bar("questions", questions) as advance:
        tell = _serially if options.jobs < 2 else _parallel
        told = list(tell(conversations, options, advance))
    if options.answers is not None:
        rows = (json.dumps(a.answer(), ensure_ascii=False) for t in told for a in t.asked)
        options.answers.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return figures(options, told)


def _questions(conversation: Conversation, options: Run) -> Sequence[Question]:
    """What is asked: all with a resolvable answer, and the unanswerable."""
    asked = [q for q in conversation.questions if q.answerable or q.category == UNANSWERABLE]
    return asked[: options.limit]


def _serially(conversations: Sequence[Conversation], options: Run, advance: Advance) -> Iterator[Told]:
    for conversation in conversations:
        yield asyncio.run(_tell(conversation, options, advance))


def _parallel(conversations: Sequence[Conversation], options: Run, advance: Advance) -> Iterator[Told]:
    context = multiprocessing.get_context("spawn")
    steps: Queue[int] = context.Queue()
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=_initialise, initargs=(steps,)) as pool:
        waiting = {pool.submit(_in_process, c, options): i for i, c in enumerate(conversations)}
        done: dict[int, Told] = {}
        while len(done) < len(waiting):
            try:
                advance(steps.get(timeout=0.5))
            except Empty:
                for future in [f for f in waiting if f.done() and waiting[f] not in done]:
                    done[waiting[future]] = future.result()
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
    yield from (done[i] for i in range(len(conversations)))


class _Worker:
    """What a process of the pool was given when it began."""

    steps: Queue[int]


def _initialise(steps: Queue[int]) -> None:
    _Worker.steps = steps


def _in_process(conversation: Conversation, options: Run) -> Told:
    return asyncio.run(_tell(conversation, options, _Worker.steps.put))


# One conversation ------------------------------------------------------------------------------------------------


async def _tell(conversation: Conversation, options: Run, advance: Advance) -> Told:
    if options.scattered:
        return await _scattered(conversation, options, advance)
    with _home(options, conversation.id) as home:
        fresh = not (home / "journal.sqlite").exists()
        async with _opened(home, options) as fusion:
            started = time.perf_counter()
            stored = await _store(fusion, conversation, options)
            await _settled(fusion)
            ingest_s = time.perf_counter() - started
            asker = _Asker(fusion, conversation, options, stored)
            asked: list[Asked] = []
            for question in _questions(conversation, options):
                asked += [await asker.ask(question, budget) for budget in BUDGETS]
                advance(1)
            recipe_hash = asker.recipe_hash
    return Told(tuple(asked), len(conversation.turns), ingest_s if fresh else None, recipe_hash)


async def _scattered(conversation: Conversation, options: Run, advance: Advance) -> Told:
    """The fusion over scattered stores, beside each store alone, all but one, and one store that holds everything."""
    copies = scatter(conversation.turns, options.backends, f"{options.seed}/{conversation.id}")
    arms: dict[str, list[tuple[bool, ...]]] = {}
    asked: list[Asked] = []
    with _home(options, f"{conversation.id}-scattered") as home, _home(options, f"{conversation.id}-one") as one:
        async with _opened(home, options) as fusion, _opened(one, options) as everything:
            started = time.perf_counter()
            fresh, stored = await _spread(fusion, conversation, copies, home / "scattered.json")
            await _settled(fusion)
            ingest_s = time.perf_counter() - started
            in_one = await _store(everything, conversation, options)
            await _settled(everything)
            asker = _Asker(fusion, conversation, options, stored, by_identity=True)
            reference = _Asker(everything, conversation, options, in_one, by_identity=True)
            for question in _questions(conversation, options):
                asked += [await asker.ask(question, budget) for budget in BUDGETS]
                if question.answerable:
                    for name in options.backends:
                        others = tuple(n for n in options.backends if n != name)
                        arms.setdefault(f"only {name}", []).append((await asker.ask(question, 6000, (name,))).found)
                        arms.setdefault(f"without {name}", []).append((await asker.ask(question, 6000, others)).found)
                        whole = await reference.ask(question, 6000, (name,))
                        arms.setdefault(f"all in {name}", []).append(whole.found)
                advance(1)
            recipe_hash = asker.recipe_hash
    alone = held_alone(copies)
    held = [alone[g] for q in _questions(conversation, options) if q.answerable for g in q.gold if g in alone]
    return Told(
        tuple(asked),
        len(copies),
        ingest_s if fresh else None,
        recipe_hash,
        {name: tuple(rows) for name, rows in arms.items()},
        {name: held.count(name) for name in options.backends},
    )


@contextmanager
def _home(options: Run, name: str) -> Iterator[Path]:
    if options.home is not None:
        yield options.home / name
        return
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        yield Path(folder) / "home"


@asynccontextmanager
async def _opened(home: Path, options: Run) -> AsyncIterator[Fusion]:
    """The embedded backends as they come, except that Markdown keeps turns too: there is nothing else to keep."""
    tables: dict[str, dict[str, object]] = {name: {"enabled": name in options.backends} for name in BACKENDS}
    tables["markdown"]["remember_turns"] = True
    for table in tables.values():
        table["deadline_ms"] = TIMEOUT_MS
    settings = load_settings(home=home, recipe=options.recipe, backends=tables)
    async with Fusion.open(settings) as fusion:
        yield fusion


async def _settled(fusion: Fusion) -> None:
    """Raises RuntimeError where a backend lacks something, for then the figures would mean nothing."""
    await fusion.settle()
    for state in await fusion.backends():
        if state.status != "disabled" and (state.backlog or state.vectors_pending or state.status != "ready"):
            raise RuntimeError(f"not everything is stored: {state}")


async def _store(fusion: Fusion, conversation: Conversation, options: Run) -> dict[str, Turn]:
    """Every turn through the gateway; by the ref that it got. What was stored before is acknowledged again."""
    stored: dict[str, Turn] = {}
    for start in range(0, len(conversation.turns), BATCH):
        batch = conversation.turns[start : start + BATCH]
        items = [_memory(turn, conversation.id, options) for turn in batch]
        for turn, kept in zip(batch, await fusion.remember(items), strict=True):
            stored[kept.ref] = turn
    return stored


def _memory(turn: Turn, user_id: str, options: Run) -> NewMemory:
    caption = f" [shares a photo: {turn.caption}]" if options.captions and turn.caption else ""
    return NewMemory(
        text=turn.text + caption,
        scope=Scope(user_id=user_id),
        kind="turn",
        speaker=turn.speaker,
        at=Moment(turn.at) if turn.at else None,
        place=Place(turn.session, turn.position, turn.position),
        source="locomo",
    )


async def _spread(
    fusion: Fusion, conversation: Conversation, copies: Sequence[Copy], ledger: Path
) -> tuple[bool, dict[str, Turn]]:
    """Each copy into its own store, past the journal, as foreign memories are; by the ref that such a memory has."""
    by_id = {turn.id: turn for turn in conversation.turns}
    if ledger.exists():
        return False, {ref: by_id[turn] for ref, turn in json.loads(ledger.read_text(encoding="utf-8")).items()}
    now = datetime.now(UTC)
    draw = Random(conversation.id)
    stored: dict[str, Turn] = {}
    for source in fusion.sources.values():
        if source.disabled is not None or not isinstance(source.backend, Remembers):
            continue
        mine = [copy for copy in copies if copy.store == source.name]
        batch = [
            Captured(event, capture(event))
            for event in (
                Event(
                    event_id=_event_id(draw),
                    text=copy.text,
                    recorded_at=now,
                    scope=Scope(user_id=conversation.id),
                    kind="turn",
                    speaker=copy.turn.speaker,
                    at=Moment(copy.turn.at) if copy.turn.at else None,
                    place=Place(copy.document, copy.turn.position, copy.turn.position),
                )
                for copy in mine
            )
        ]
        for copy, natives in zip(mine, await source.backend.remember(batch), strict=True):
            stored |= {foreign_ref(source.name, native): copy.turn for native in natives}
    ledger.write_text(json.dumps({ref: turn.id for ref, turn in stored.items()}), encoding="utf-8")
    return True, stored


def _event_id(draw: Random) -> str:
    """A UUIDv7 that is the same in every run: ties in a ranking go by ref, and a ref by the id."""
    milliseconds, first, second = draw.getrandbits(48), draw.getrandbits(12), draw.getrandbits(62)
    return str(UUID(int=milliseconds << 80 | 7 << 76 | first << 64 | 2 << 62 | second))


class _Asker:
    """Asks one conversation's questions and scores the answers.

    ``by_identity`` counts a gold turn as found when a copy of it is a member of the block, edited or not; without it
    the turn's own words must stand there.
    """

    def __init__(
        self,
        fusion: Fusion,
        conversation: Conversation,
        options: Run,
        stored: Mapping[str, Turn],
        *,
        by_identity: bool = False,
    ) -> None:
        self._fusion, self._conversation, self._options = fusion, conversation, options
        self._stored, self._by_identity = stored, by_identity
        self._turns = {turn.id: turn for turn in conversation.turns}
        self.recipe_hash = ""

    async def ask(self, question: Question, budget: int, backends: tuple[str, ...] | None = None) -> Asked:
        request = FuseRequest(
            question.text,
            Scope(user_id=self._conversation.id, audience="private"),
            budget_chars=budget,
            backends=backends,
            recipe=self._options.recipe,
            timeout_ms=TIMEOUT_MS,
        )
        cpu = time.process_time()
        # As `Fusion.fuse` does it, but nothing is marked as used: a measurement must not change what it measures.
        outcome = await fuse(request, self._fusion.recipes[self._options.recipe], self._fusion.live)
        self._fusion.receipts.keep(outcome.receipt)
        cpu_ms = (time.process_time() - cpu) * 1000
        fused = outcome.fused
        self.recipe_hash = fused.recipe["hash"]
        if fused.degraded:
            raise RuntimeError(f"the answer is degraded, its figures would mean nothing: {fused.backends}")
        members = tuple(tuple(self._id(member.ref) for member in memory.members) for memory in fused.memories)
        return Asked(
            conversation=self._conversation.id,
            question=question.index,
            category=question.category,
            budget=budget,
            block=fused.block,
            members=members,
            ranked=self._ranked(outcome.receipt),
            found=self._found(question, fused, members) if question.answerable else (),
            gold=question.gold if question.answerable else (),
            duplicates=duplicate_pairs([spoken(m.text, m.speaker) for x in fused.memories for m in x.members]),
            took_ms=fused.took_ms,
            cpu_ms=cpu_ms,
        )

    def _found(self, question: Question, fused: Fused, members: Sequence[Sequence[str]]) -> tuple[bool, ...]:
        if self._by_identity:
            inside = {turn for excerpt in members for turn in excerpt}
            return tuple(gold in inside for gold in question.gold)
        return tuple(found([self._turns[gold].spoken for gold in question.gold], fused.block))

    def _ranked(self, receipt: Receipt) -> tuple[str, ...]:
        """Turn ids in the receipt's order, each once."""
        return tuple(dict.fromkeys(self._id(row["ref"]) for row in receipt.body["candidates"]))[:RANKED]

    def _id(self, ref: str) -> str:
        """The turn that a ref means; a ref of something else, such as an extracted fact, stays as it is."""
        turn = self._stored.get(ref)
        return turn.id if turn else ref
