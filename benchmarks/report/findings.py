"""Computes the values of a report from rows: drawing modules compute nothing, and this one draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.datasets import UNANSWERABLE, DataError
from benchmarks.metrics import mean, percentile
from benchmarks.progress import Advance
from benchmarks.scored_rows import Row
from fusion.compare.reliability import Group, groups
from fusion.compare.verdict import TIE_WITHIN, Paired, interval, paired

MAX_WRONGLY_EMPTY = 0.02
"""the share of answerable questions that may be left empty wrongly: what an abstaining floor is chosen by"""
MAX_CASES = 1500
"""questions listed one by one: 1,500 blocks of 6,000 characters are a page of 9 MB, which a phone still opens"""
OVERALL = "all questions"

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Share:
    """A mean over questions, of 1, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds at the 5th, 50th and 95th percentile of the answers."""

    p5: float
    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class Floor:
    """One point of an abstention curve: how many of each kind of question stay empty under a floor."""

    answerable: float
    unanswerable: float


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm's figures. ``eib`` and ``whole`` are by budget, with the interval of their mean; shares are of 1."""

    name: str
    recipe: str
    recipe_hash: str
    backends: tuple[str, ...]
    questions: int
    eib: Mapping[int, Share]
    whole: float | None
    latency: Latency | None
    over: Mapping[str, Paired]
    """over the baseline: of all questions under `OVERALL`, and by category; empty for the baseline itself"""
    now: Floor | None
    """what it leaves empty as it is; None where no question was unanswerable"""
    curve: tuple[Floor, ...]
    """… and under every floor there could be, the lowest first"""
    characters: Mapping[int, float]
    """of the block on average, by budget"""
    reliability: tuple[Group, ...]
    """the ranked memories in groups of like probability; empty for an arm without probabilities"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of a question. ``rank`` counts from 1, before packing; None beyond the kept ranks."""

    id: str
    text: str
    found: bool
    baseline: bool | None
    rank: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """One question on which an arm missed evidence, or differed from the baseline."""

    dataset: str
    corpus: str
    question: int
    query: str
    category: str
    arm: str
    eib: float
    over: float | None
    """… how much more it has than the baseline; None where that was not asked, or for the baseline itself"""
    block: str
    baseline_block: str | None
    evidence: tuple[Evidence, ...]

    @property
    def outcome(self) -> str:
        if self.over is None:
            return ""
        return "even" if abs(self.over) <= TIE_WITHIN else "won" if self.over > 0 else "lost"


@dataclass(frozen=True, slots=True)
class Findings:
    """All of one data set. ``budgets`` ascend; the largest is the one that categories and cases are of.

    ``main`` is the arm that all is about: a run's first, or of two runs with it that of the later, which is measured
    by the other.
    """

    dataset: str
    budgets: tuple[int, ...]
    baseline: str | None
    main: str
    arms: tuple[Arm, ...]
    cases: tuple[Case, ...]
    alike: bool = True
    """whether all arms were asked the same questions: otherwise their means are of different things"""

    @property
    def full(self) -> int:
        return self.budgets[-1]

    @property
    def scored(self) -> tuple[Arm, ...]:
        """The arms with a question that counts for recall, the best first."""
        able = [arm for arm in self.arms if self.full in arm.eib]
        return tuple(sorted(able, key=lambda arm: -arm.eib[self.full].mean))

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(sorted({name for arm in self.arms for name in arm.over if name != OVERALL}))


def findings(
    rows: Sequence[Row], baseline: str | None, advance: Advance, runs: Sequence[str] = ()
) -> tuple[Findings, ...]:
    """Of each data set, in the rows' order; ``runs`` are the run names that are appended to arms.

    Advances by one an arm. Raises DataError for an unknown baseline.
    """
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        by_dataset.setdefault(row.dataset, []).append(row)
    names = list(dict.fromkeys(row.arm for row in rows))
    if baseline is not None and baseline not in names:
        raise DataError(f"no arm is called {baseline!r}; there are {', '.join(names)}")
    return tuple(_of_one(name, own, baseline, advance, runs) for name, own in by_dataset.items())


def arms_of(rows: Iterable[Row]) -> int:
    """How often `findings` advances."""
    return len({(row.dataset, row.arm) for row in rows})


def _of_one(dataset: str, rows: Sequence[Row], wanted: str | None, advance: Advance, runs: Sequence[str]) -> Findings:
    budgets = tuple(sorted({row.budget for row in rows}))
    by_arm: dict[str, list[Row]] = {}
    for row in rows:
        by_arm.setdefault(row.arm, []).append(row)
    own = {name: _without_run(name, runs) for name in by_arm}
    baseline = (wanted if wanted in by_arm else None) if wanted else _usual(by_arm, own)
    against = _full(by_arm[baseline], budgets[-1]) if baseline else {}
    arms, cases = [], []
    for name, mine in by_arm.items():
        full = _full(mine, budgets[-1])
        others = against if name != baseline else {}
        arms.append(_arm(name, mine, budgets, full, others))
        cases += [case for key, row in full.items() if (case := _case(row, others.get(key))) is not None]
        advance(1)
    cases.sort(key=lambda c: (c.over if c.over is not None else 0.0, c.eib, c.corpus, c.question, c.arm))
    scored = (frozenset(row.key for row in mine if row.eib is not None) for mine in by_arm.values())
    alike = len(set(scored)) < 2
    return Findings(dataset, budgets, baseline, _main(own, baseline), tuple(arms), tuple(cases), alike)


def _without_run(name: str, runs: Sequence[str]) -> str:
    return next((name.removesuffix(f" ({run})") for run in runs if name.endswith(f" ({run})")), name)


def _main(own: Mapping[str, str], baseline: str | None) -> str:
    """The first arm; where that is the baseline, the same arm of another run, or the only other.

    ``own`` has each arm's name without its run, by the whole one.
    """
    first, *others = own
    if first != baseline:
        return first
    same = [name for name in others if own[name] == own[first]]
    return next(iter(same or (others if len(others) == 1 else [])), first)


def _usual(by_arm: Mapping[str, Sequence[Row]], own: Mapping[str, str]) -> str | None:
    """The first arm where another run has it, too: what changed between the two is the question.

    Else as the benchmarks themselves choose: the hand-set prototype, or the last plain baseline, or the first arm.
    """
    if len(by_arm) < 2:
        return None
    first = next(iter(by_arm))
    if list(own.values()).count(own[first]) > 1:
        return first
    plain = [name for name, rows in by_arm.items() if not rows[0].recipe_hash]
    return next((name for name in plain if own[name] == "handset"), plain[-1] if plain else first)


def _full(rows: Iterable[Row], budget: int) -> dict[Key, Row]:
    return {row.key: row for row in rows if row.budget == budget}


def _arm(
    name: str, rows: Sequence[Row], budgets: Sequence[int], full: Mapping[Key, Row], against: Mapping[Key, Row]
) -> Arm:
    first = rows[0]
    scored = [row for row in full.values() if row.eib is not None]
    shares = {budget: [r.eib for r in rows if r.budget == budget and r.eib is not None] for budget in budgets}
    timed = [row.took_ms for row in full.values()] if first.recipe_hash and any(r.took_ms for r in rows) else []
    now, curve = _abstention(list(full.values()))
    blocks = {budget: [len(r.block) for r in rows if r.budget == budget and r.eib is not None] for budget in budgets}
    return Arm(
        name=name,
        recipe=first.recipe,
        recipe_hash=first.recipe_hash,
        backends=first.backends,
        questions=len(scored),
        eib={budget: Share(sum(own) / len(own), *interval(own)) for budget, own in shares.items() if own},
        whole=mean(float(all(row.found)) for row in scored),
        latency=Latency(*(percentile(share, timed) or 0.0 for share in (0.05, 0.5, 0.95))) if timed else None,
        over=_over(scored, against),
        now=now,
        curve=curve,
        characters={budget: sum(lengths) / len(lengths) for budget, lengths in blocks.items() if lengths},
        reliability=groups(pair for row in scored for pair in row.judged),
    )


def _over(ours: Sequence[Row], theirs: Mapping[Key, Row]) -> dict[str, Paired]:
    """Question by question, of those that both were asked and that count."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in ours:
        other = theirs.get(row.key)
        if row.eib is not None and other is not None and other.eib is not None:
            for group in (OVERALL, row.category):
                groups.setdefault(group, []).append((row.eib, other.eib))
    return {name: paired([b for _, b in pairs], [a for a, _ in pairs]) for name, pairs in groups.items()}


def _abstention(rows: Sequence[Row]) -> tuple[Floor | None, tuple[Floor, ...]]:
    """What is left empty now, and the curve: a floor of f leaves empty each answer whose best candidate is below f."""
    able = [row for row in rows if row.eib is not None]
    unable = [row for row in rows if row.category == UNANSWERABLE]
    if not able or not unable:
        return None, ()
    now = Floor(_share(row.abstained for row in able), _share(row.abstained for row in unable))
    of_able = [row.best for row in able if row.best is not None]
    of_unable = [row.best for row in unable if row.best is not None]
    if len(of_able) < len(able) or len(of_unable) < len(unable):
        return now, ()
    floors = [*sorted({*of_able, *of_unable}), float("inf")]
    return now, tuple(Floor(_share(b < f for b in of_able), _share(b < f for b in of_unable)) for f in floors)


def best_allowed_floor(curve: Sequence[Floor]) -> Floor | None:
    """The point that leaves most of the unanswerable empty, at no more than `MAX_WRONGLY_EMPTY` of the answerable."""
    return max((p for p in curve if p.answerable <= MAX_WRONGLY_EMPTY), key=lambda p: p.unanswerable, default=None)


def _share(values: Iterable[bool]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _case(row: Row, other: Row | None) -> Case | None:
    if row.eib is None:
        return None
    over = row.eib - other.eib if other is not None and other.eib is not None else None
    if row.eib >= 1 and not over:
        return None
    theirs = other.found if other is not None and len(other.found) == len(row.gold) else None
    texts = row.evidence if len(row.evidence) == len(row.gold) else ("",) * len(row.gold)
    ranks = {name: rank for rank, name in reversed(list(enumerate(row.ranked, start=1)))}
    return Case(
        dataset=row.dataset,
        corpus=row.corpus,
        question=row.question,
        query=row.query,
        category=row.category,
        arm=row.arm,
        eib=row.eib,
        over=over,
        block=row.block,
        baseline_block=other.block if other is not None else None,
        evidence=tuple(
            Evidence(gold, texts[i], row.found[i], theirs[i] if theirs else None, ranks.get(gold))
            for i, gold in enumerate(row.gold)
        ),
    )


# In words --------------------------------------------------------------------------------------------------------


def headline(found: Findings) -> str:
    """The one sentence that is worth knowing: what the main arm finds, and by how much it differs from the baseline."""
    main = next((arm for arm in found.scored if arm.name == found.main), None)
    if not found.scored:
        return "No question of these rows counts for recall: none has evidence that could be found."
    if main is None:
        return f"No question that {found.main} was asked counts for recall."
    if not found.alike:
        return _headline_of_shared(found, main)
    share = main.eib[found.full]
    text = f"{main.name} finds {percent(share.mean)} of the evidence in {found.full:,} characters"
    if OVERALL in main.over:
        return f"{text}, {_beside(main.over[OVERALL], found.baseline)}."
    questions = f"{main.questions:,} question{'s' * (main.questions != 1)}"
    return f"{text} (95 % interval {100 * share.low:.1f} to {percent(share.high)}, {questions})."


def _headline_of_shared(found: Findings, main: Arm) -> str:
    """Of arms that were not asked the same questions: only what two of them were both asked can be compared."""
    differ = "The arms were not all asked the same questions"
    if found.baseline is None:
        return f"{differ}, and none of them is the baseline: nothing is compared."
    if main.name == found.baseline:
        return f"{differ}: the others are compared with {main.name} on those that both were."
    if OVERALL not in main.over:
        return f"{differ}: {main.name} shares none that counts with the baseline {found.baseline}."
    over = main.over[OVERALL]
    return f"{differ}. Of the {over.n:,} that both were asked, {main.name} finds {_beside(over, found.baseline)}."


def _beside(over: Paired, baseline: str | None) -> str:
    if not over.win and not over.loss:
        return f"as much as {baseline}, question by question"
    points = f"{abs(100 * over.difference):.1f} points {'more' if over.difference >= 0 else 'fewer'} than {baseline}"
    chance = ", so it may be chance" if over.low <= 0 <= over.high else ""
    return (
        f"{points} (95 % interval {signed(over.low)} to {signed(over.high)}{chance}; "
        f"better on {over.win:,} questions, worse on {over.loss:,}, even on {over.tie:,})"
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """Points, which are hundredths of a share, with their sign."""
    points = f"{100 * share:+.1f}"
    return "0.0" if points in {"+0.0", "-0.0"} else points.replace("-", "−")
