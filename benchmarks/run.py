"""Any data set through the gateway: every memory stored, every question asked, the packed blocks scored.

Each corpus has a home of its own, opened with the embedded backends, so that figures do not depend on how many
processes share the work. The first arm is asked live, once for each budget; the others are replayed from recordings.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

from adapters.embedders.minilm import MiniLM
from benchmarks import baselines, figures, peers, recorded
from benchmarks.arms import BASELINES, Arm, ablations, known, parse
from benchmarks.datasets import UNANSWERABLE, Corpus, DataError, Question
from benchmarks.joined import joined
from benchmarks.metrics import mean
from benchmarks.progress import Advance, bar
from benchmarks.recorded import BUDGETS, Recorded, scope_of
from benchmarks.rows import Row, Scorer, write, write_rows
from benchmarks.scatter import held_alone
from benchmarks.statistics import loss_beyond_own
from benchmarks.store import BACKENDS, TIMEOUT_MS, Stored, content_of, home_of, opened, scattered, spread, store
from fusion import FuseRequest, Fusion
from fusion.recall.engine import fuse
from fusion.recipe import Recipe, mark
from fusion.settings import load as load_settings
from fusion.settings import recipes as load_recipes

TIMED = 20
"""questions of each corpus that are asked live with each backend left out, for the latency of doing without"""


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured, and how."""

    dataset: str
    corpora: tuple[Corpus, ...]
    recipe: str = "default"
    backends: tuple[str, ...] = BACKENDS
    arms: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    against: str | None = None
    ablate: bool = False
    """the main recipe with one thing left out at a time, too"""
    recipes_folder: Path | None = None
    recordings: Path | None = None
    cache: bool = False
    """whether ``recordings`` are the program's own: what was recorded otherwise is then recorded again, not refused"""
    captions: bool = False
    scattered: bool = False
    joined: int = 1
    """answerable questions of a corpus that are asked in one sentence"""
    conversations: tuple[str, ...] = ()
    limit: int | None = None
    """questions of each corpus, from its first"""
    jobs: int = 1
    answers: Path | None = None
    rows: Path | None = None
    home: Path | None = None
    """kept between runs, so that a second one with another recipe need not store again"""
    seed: int = 0

    @property
    def setup(self) -> str:
        """What figures are of, as every row has it: the data set, and how it was stored and is asked."""
        how = ["captions"] * self.captions + ["scattered"] * self.scattered
        return " ".join([self.dataset, *how, *[f"joined {self.joined}"] * (self.joined > 1)])


@dataclass(frozen=True, slots=True)
class Told:
    """What one corpus gave: rows of every arm, the first arm's first."""

    rows: tuple[Row, ...]
    copies: int
    ingest_s: float | None
    """None where the home had the memories already"""
    alone: Mapping[str, str] = field(default_factory=dict)
    """by item, the store that alone has it (scattered only)"""
    recorded_by: tuple[str | None, ...] = ()
    """the commits whose answers are replayed; none where they were asked live"""


def run(options: Run) -> dict[str, Any]:
    """Everything, and one JSON-ready object of figures. Writes ``answers`` and ``rows`` at the end.

    Raises DataError before anything is stored where what is asked for does not exist.
    """
    options, arms = checked(options)
    with bar("memories and questions", steps(options, arms)) as advance:
        told = list(each(options, partial(tell, options=options, arms=arms), advance))
    rows = [row for t in told for row in t.rows]
    main = [row for row in rows if row.arm == arms[0].name]
    if options.answers is not None:
        write(options.answers, (row.answer() for row in main))
    if options.rows is not None:
        write_rows(options.rows, rows)
    ingested = [t for t in told if t.ingest_s]
    out = {
        **heading(options, arms[0].recipe, [one for t in told for one in t.recorded_by]),
        **figures.quality(main),
        **figures.cost(main),
        "ingest_per_s": round(sum(t.copies for t in ingested) / sum(t.ingest_s or 0.0 for t in ingested), 1)
        if ingested
        else None,
    }
    if options.scattered:
        out |= _scattered_figures(options, told, main)
    if len({row.arm for row in rows}) > 1:
        out["arms"] = figures.arms(rows, options.against, seed=options.seed)
    return out


def steps(options: Run, arms: Sequence[Arm]) -> int:
    """How often a bar moves: for a memory stored, a question asked or recorded, its replay, and as baselines say."""
    memories = sum(len(corpus.memories) for corpus in options.corpora)
    asked = [question for corpus in options.corpora for question in corpus.asked(options.limit)]
    if options.scattered:
        return 2 * memories + 3 * len(asked) + 2 * sum(question.answerable for question in asked)
    beside = baselines.steps(options.baselines, memories, len(asked))
    return memories + len(asked) * (2 if _is_replayed(options, arms) else 1) + beside


def checked(options: Run) -> tuple[Run, tuple[Arm, ...]]:
    """The run with its defaults filled in, and its arms, the main one first. Raises DataError."""
    known(options.backends, BACKENDS, "backend")
    if options.scattered and len(options.backends) < 2:
        raise DataError("memories are scattered over two backends or more")
    peers.require(known(options.baselines, BASELINES, "baseline"))
    for name in options.conversations:
        known((name,), [c.id for c in options.corpora], "conversation")
    chosen = tuple(c for c in options.corpora if not options.conversations or c.id in options.conversations)
    alone = options.joined == 1
    corpora = chosen if alone else tuple(joined(c, options.joined, options.seed) for c in chosen)
    corpora = tuple(c for c in corpora if c.asked(options.limit))
    if not corpora and not alone:
        raise DataError(f"no corpus of {options.dataset} has {options.joined} answerable questions to join")
    if not corpora:
        lost = sum(len(q.unresolved) for c in chosen for q in c.questions)
        why = f": {lost} of its evidence ids name nothing that is there" if lost else ""
        raise DataError(f"{options.dataset} has no question that can be scored{why}")
    if options.scattered:
        answerable(options.dataset, corpora, options.limit)
    arms = parse((options.recipe, *options.arms), all_recipes(options.recipes_folder), options.backends)
    for arm in arms:
        unbiased(arm.recipe, chosen, options.limit if alone else None)
    if options.ablate:
        arms = (*arms, *ablations(arms[0].recipe, options.backends))
        options = replace(options, against=options.against or arms[0].name)
    if options.scattered and options.baselines:
        raise DataError("--scattered: the baselines know one store only; leave out --baselines")
    names = [*(arm.name for arm in arms), *options.baselines]
    if options.scattered:
        names += [arm.name for arm in (*_parts(arms[0], options.backends), *_whole(arms[0], options.backends))]
    against = options.against or next(iter(options.baselines[::-1]), arms[0].name)
    if "handset" in options.baselines and options.against is None:
        against = "handset"
    known((against,), names, "arm")
    for file in (options.answers, options.rows):
        if file is not None and not file.absolute().parent.is_dir():
            raise DataError(f"{file} cannot be written: there is no folder {file.parent}")
        if file is not None and file.is_dir():
            raise DataError(f"{file} cannot be written: it is a folder")
    for folder in (options.recordings, options.home):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is no folder")
    return replace(options, corpora=corpora, against=against), arms


def answerable(dataset: str, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError where nothing that is asked has an answer: no store could be told from another."""
    if not any(question.answerable for corpus in corpora for question in corpus.asked(limit)):
        raise DataError(f"{dataset} has no question with evidence: stores are told apart by what they find of it")


def unbiased(recipe: Recipe, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError for a recipe that was tuned on questions of these: its figures there would flatter it."""
    known = frozenset(recipe.tuned_on)
    seen = [c.id for c in corpora if any(mark(question.text) in known for question in c.asked(limit))]
    if known and seen:
        raise DataError(
            f"recipe {recipe.name!r} was tuned on questions of {', '.join(seen)}: what it finds there would flatter "
            "it. Its file says what it finds where it had not looked; ask others (--conversations), or another recipe"
        )


def all_recipes(folder: Path | None) -> Mapping[str, Recipe]:
    """The shipped recipes, and those of ``folder``."""
    if folder is not None and not folder.is_dir():
        raise DataError(f"there is no folder of recipes {folder}")
    return load_recipes(load_settings(home=Path("/nonexistent"), recipes_folder=folder))


def heading(options: Run, recipe: Recipe, recorded_by: Iterable[str | None] = ()) -> dict[str, Any]:
    """By what figures were made: every object that is printed begins with it.

    ``commit`` ranked and packed; where answers were replayed, ``recorded_by`` are the commits that gave them.
    """
    recorders = sorted({one for one in recorded_by if one})
    return {
        "dataset": options.setup,
        "recipe": recipe.name,
        "recipe_hash": recipe.hash,
        "commit": figures.commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "backends": list(options.backends),
        **_unresolved(options.corpora),
        **({"recorded_by": recorders} if recorders else {}),
    }


def _unresolved(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """How many evidence ids name nothing that is there, and how many questions have no other, so that nobody asks them;
    nothing where the key is whole."""
    broken = [q for corpus in corpora for q in corpus.questions if q.unresolved and q.category != UNANSWERABLE]
    if not broken:
        return {}
    lost = {"ids": sum(len(q.unresolved) for q in broken), "questions_not_asked": sum(not q.gold for q in broken)}
    return {"evidence_unresolved": lost}


# Sharing the work ------------------------------------------------------------------------------------------------

Work = Callable[[Corpus, Advance], Any]


def each(options: Run, work: Work, advance: Advance) -> Iterator[Any]:
    """``work`` of every corpus, in their order, in ``options.jobs`` processes."""
    if options.jobs < 2:
        yield from (work(corpus, advance) for corpus in options.corpora)
        return
    context = multiprocessing.get_context("spawn")
    steps: Queue[int] = context.Queue()
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=_initialise, initargs=(steps,)) as pool:
        waiting = {pool.submit(_in_process, work, corpus): i for i, corpus in enumerate(options.corpora)}
        done: dict[int, Any] = {}
        while len(done) < len(waiting):
            try:
                advance(steps.get(timeout=0.5))
            except Empty:
                for future in [f for f in waiting if f.done() and waiting[f] not in done]:
                    done[waiting[future]] = future.result()
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
    yield from (done[i] for i in range(len(options.corpora)))


class _Worker:
    """What a process of the pool was given when it began."""

    steps: Queue[int]


def _initialise(steps: Queue[int]) -> None:
    _Worker.steps = steps


def _in_process(work: Work, corpus: Corpus) -> Any:
    return work(corpus, _Worker.steps.put)


# One corpus ------------------------------------------------------------------------------------------------------


def tell(corpus: Corpus, advance: Advance, *, options: Run, arms: tuple[Arm, ...]) -> Told:
    """One corpus stored and asked, under every arm."""
    if options.scattered:
        return _scattered(corpus, options, arms, advance)
    if not _is_replayed(options, arms):
        live, ranked, stored = asyncio.run(_live(corpus, options, arms[0], advance))
        rows = live + baselines.rows(options.setup, corpus, ranked, BUDGETS)
        return Told(tuple(rows), stored.copies, stored.seconds)
    one, fresh = recording(corpus, options, arms, advance)
    asked = replace(corpus, questions=tuple(corpus.asked(options.limit)))
    indexes = {question.index for question in asked.questions}
    wanted = {
        name: {i: ranking for i, ranking in one.rankings[name].items() if i in indexes} for name in options.baselines
    }
    rows = recorded.replay([one], [asked], arms, dataset=options.setup, advance=advance)
    rows += baselines.rows(options.setup, asked, wanted, BUDGETS)
    return Told(
        tuple(rows),
        fresh.copies if fresh else 0,
        fresh.seconds if fresh else None,
        recorded_by=(one.made.get("commit"),),
    )


def _is_replayed(options: Run, arms: Sequence[Arm]) -> bool:
    """Whether figures come from recordings; a single arm is asked live, which gives its true latency."""
    return len(arms) > 1 or options.recordings is not None


async def _live(
    corpus: Corpus, options: Run, arm: Arm, advance: Advance
) -> tuple[list[Row], dict[str, dict[int, peers.Ranking]], Stored]:
    """The first arm asked live, and the baselines over the same memories."""
    with home_of(options.home, corpus.id, _filled(corpus, options)) as home:
        async with opened(home, options.backends) as fusion:
            stored = await store(fusion, corpus, captions=options.captions, advance=advance)
            asker = Asker(fusion, corpus, options.setup, stored)
            rows: list[Row] = []
            for question in corpus.asked(options.limit):
                rows += [await asker.ask(question, arm, budget) for budget in BUDGETS]
                advance(1)
            return rows, await _rankings(fusion, corpus, options, advance), stored


def _filled(corpus: Corpus, options: Run) -> dict[str, str]:
    """What the stores of a corpus depend on: backends only where it is scattered, for else each has all of it."""
    captions = "with" if options.captions else "without"
    over = f"{options.seed} over {'+'.join(options.backends)}" if options.scattered else "not"
    return {"content": content_of(corpus), "captions": captions, "scattered": over}


async def _rankings(
    fusion: Fusion, corpus: Corpus, options: Run, advance: Advance
) -> dict[str, dict[int, peers.Ranking]]:
    if not options.baselines:
        return {}
    if fusion.live.embedder is None:
        raise DataError("the baselines need the embedding model; --baselines none does without")
    questions = corpus.asked(options.limit)
    return await baselines.rankings(options.baselines, corpus, questions, fusion.live.embedder, advance)


class Asker:
    """Asks one corpus's questions live and scores the answers."""

    def __init__(self, fusion: Fusion, corpus: Corpus, dataset: str, stored: Stored) -> None:
        self._fusion, self._corpus = fusion, corpus
        self._scorer = Scorer(dataset, corpus, stored.items)

    async def ask(self, question: Question, arm: Arm, budget: int) -> Row:
        request = FuseRequest(
            question.text,
            scope_of(self._corpus),
            budget_chars=budget,
            backends=arm.backends,
            timeout_ms=TIMEOUT_MS,
        )
        cpu = time.process_time()
        # As `Fusion.fuse` does it, but nothing is marked as used: a measurement must not change what it measures.
        outcome = await fuse(request, arm.recipe, self._fusion.live)
        self._fusion.receipts.keep(outcome.receipt)
        cpu_ms = (time.process_time() - cpu) * 1000
        if outcome.fused.degraded:
            raise RuntimeError(f"the answer is degraded, its figures would mean nothing: {outcome.fused.backends}")
        return self._scorer.row(question, arm, budget, outcome, outcome.fused.took_ms, cpu_ms)


def recording(
    corpus: Corpus, options: Run, arms: Sequence[Arm], advance: Advance, *, timed: bool = False
) -> tuple[Recorded, Stored | None]:
    """The recording of a corpus: that of ``options.recordings``, or a new one, which is then kept there."""
    recipe = recorded.widest([arm.recipe for arm in arms])
    how = " ".join(
        [f"scattered {options.seed}"] * options.scattered
        + ["captions"] * options.captions
        + [f"joined {options.joined} {options.seed}"] * (options.joined > 1)
    )
    made = recorded.made_by(corpus, options.backends, recipe, MiniLM.identity, how=how)
    questions = corpus.asked(options.limit)
    if options.recordings is not None:
        one = _kept(options.recordings, made, questions, cache=options.cache)
        if one is not None and set(options.baselines) <= set(one.rankings) and (one.timed or not timed):
            asked, memories = len(questions), len(corpus.memories)
            advance(memories + asked + baselines.steps(options.baselines, memories, asked))
            return one, None
    one, stored = asyncio.run(_record(corpus, options, recipe, made, advance, timed=timed))
    if options.recordings is not None:
        recorded.save(one, options.recordings)
    return one, stored


def _kept(folder: Path, made: Mapping[str, Any], questions: Sequence[Question], *, cache: bool) -> Recorded | None:
    try:
        return recorded.load(folder, made, questions)
    except DataError:
        if not cache:
            raise
        return None


async def _record(
    corpus: Corpus, options: Run, recipe: Recipe, made: Mapping[str, Any], advance: Advance, *, timed: bool
) -> tuple[Recorded, Stored]:
    name = f"{corpus.id}-scattered" if options.scattered else corpus.id
    with home_of(options.home, name, _filled(corpus, options)) as home:
        async with opened(home, options.backends) as fusion:
            if options.scattered:
                copies = scattered(corpus, options.backends, options.seed)
                stored = await spread(fusion, corpus, copies, home / "scattered.json", advance=advance)
            else:
                stored = await store(fusion, corpus, captions=options.captions, advance=advance)
            recordings, costs = {}, {}
            questions = corpus.asked(options.limit)
            for question in questions:
                recordings[question.index], costs[question.index] = await recorded.record(
                    fusion.live, scope_of(corpus), question, recipe, options.backends
                )
                advance(1)
            times = await _timed(fusion, corpus, questions[:TIMED], recipe, options.backends) if timed else {}
            one = Recorded(
                made={**made, "commit": figures.commit()},
                asked={question.index: question.text for question in questions},
                recordings=recordings,
                stored={ref: item.id for ref, item in stored.items.items()},
                costs=costs,
                rankings=await _rankings(fusion, corpus, options, advance),
                timed=times,
            )
    return one, stored


async def _timed(
    fusion: Fusion, corpus: Corpus, questions: Sequence[Question], recipe: Recipe, backends: Sequence[str]
) -> dict[str, list[float]]:
    """Milliseconds of each question of all backends (under "") and of all but one, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in ("", *backends)} if len(backends) > 1 else {"": []}
    for question in questions:
        for left_out, taken in times.items():
            asked = tuple(name for name in backends if name != left_out)
            request = FuseRequest(question.text, scope_of(corpus), backends=asked, timeout_ms=TIMEOUT_MS)
            started = time.perf_counter()
            await fuse(request, recipe, fusion.live)
            taken.append(round((time.perf_counter() - started) * 1000, 3))
    return times


# Scattered -------------------------------------------------------------------------------------------------------


def _scattered(corpus: Corpus, options: Run, arms: Sequence[Arm], advance: Advance) -> Told:
    """The fusion over scattered stores, beside each store alone, all but one, and one store that holds everything.

    All of it is replayed from two recordings: of the scattered stores, and of stores that have everything each.
    """
    one, fresh = recording(corpus, options, arms, advance)
    whole, _ = recording(corpus, replace(options, scattered=False), arms, advance)
    asked = replace(as_scattered(corpus), questions=tuple(corpus.asked(options.limit)))
    scored = replace(asked, questions=tuple(q for q in asked.questions if q.answerable))

    replayed = partial(recorded.replay, dataset=options.setup, advance=advance)
    rows = replayed([one], [asked], arms)
    rows += replayed([one], [scored], _parts(arms[0], options.backends), budgets=BUDGETS[:1])
    rows += replayed([whole], [scored], _whole(arms[0], options.backends), budgets=BUDGETS[:1])
    copies = scattered(corpus, options.backends, options.seed)
    return Told(
        tuple(rows),
        fresh.copies if fresh else 0,
        fresh.seconds if fresh else None,
        held_alone(copies, by_document=corpus.match == "document"),
        (one.made.get("commit"), whole.made.get("commit")),
    )


def _parts(main: Arm, backends: Sequence[str]) -> list[Arm]:
    """Of the scattered stores each alone, and all but each."""
    alone = [Arm(f"only {name}", main.recipe, (name,)) for name in backends]
    return alone + [Arm(f"without {name}", main.recipe, tuple(n for n in backends if n != name)) for name in backends]


def _whole(main: Arm, backends: Sequence[str]) -> list[Arm]:
    """Each store with everything in it."""
    return [Arm(f"all in {name}", main.recipe, (name,)) for name in backends]


def as_scattered(corpus: Corpus) -> Corpus:
    """The corpus, where an edited copy of a memory is that memory, too."""
    return corpus if corpus.match == "document" else replace(corpus, match="item")


def _scattered_figures(options: Run, told: Sequence[Told], main: Sequence[Row]) -> dict[str, Any]:
    rows = {name: _of(told, name) for name in {row.arm for t in told for row in t.rows}}
    eib = {name: mean(row.eib for row in found.values() if row.eib is not None) or 0.0 for name, found in rows.items()}
    single = {name: eib[f"only {name}"] for name in options.backends}
    one = {name: eib[f"all in {name}"] for name in options.backends}
    full = {row.key: row for row in main if row.budget == BUDGETS[0] and row.eib is not None}
    alone = {t.rows[0].corpus: t.alone for t in told}
    held = [alone[row.corpus].get(g) for row in full.values() for g in row.gold]
    best = max(single.values())
    fused = mean(row.eib for row in full.values() if row.eib is not None) or 0.0
    beyond = {name: _beyond_own(name, full, rows[f"without {name}"], alone) for name in options.backends}
    return {
        "one_store_eib_frac": max(one.values()),
        "best_single_eib_frac": best,
        "over_best_single": round(fused / best, 3) if best else None,
        "eib_frac_of_one": single,
        "eib_frac_of_one_with_everything": one,
        "eib_one_down": {name: eib[f"without {name}"] for name in options.backends},
        "gold_held_by_one_alone": {name: round(held.count(name) / len(held), 4) for name in options.backends},
        "one_down_loss_beyond_own": max(beyond.values()),
        "one_down_loss_beyond_own_of": beyond,
        "told_twice": sum(
            len(ids) - len(set(ids)) for ids in ([i for m in r.members for i in m] for r in full.values())
        ),
    }


def _of(told: Sequence[Told], arm: str) -> dict[tuple[str, int], Row]:
    return {row.key: row for t in told for row in t.rows if row.arm == arm and row.budget == BUDGETS[0]}


def _beyond_own(
    name: str,
    full: Mapping[tuple[str, int], Row],
    without: Mapping[tuple[str, int], Row],
    alone: Mapping[str, Mapping[str, str]],
) -> float:
    """What is lost with one store down beside what it alone held; an item is named with its corpus."""
    own = {f"{corpus}\0{item}" for corpus, held in alone.items() for item, store in held.items() if store == name}
    gold = [([f"{row.corpus}\0{g}" for g in row.gold], row.found, without[key].found) for key, row in full.items()]
    return round(loss_beyond_own(gold, own), 4)
