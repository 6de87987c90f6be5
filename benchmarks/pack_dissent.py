"""Whether a context pack shows both sides of a contradiction, each marked, and marks nothing where none is.

Two sets of small histories with a question each (``benchmarks/data/README.md``): ``dissent.jsonl`` is reported; of
``dissent_dev.jsonl`` one half was for fitting and the other is reported as well. All histories of a set are in one
home, each of a user of its own.

By default a pack looks for contradictions of statements that share most words; ``by_rules`` are the figures with
``[packs] dissent_by_rules``. ``marked_if_told`` is the share that a pack marks if a language model that is never wrong
names the pair: what is missing there is due to search and packing.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.datasets import DataError
from benchmarks.fill_stores import BACKENDS, BATCH, TIMEOUT_MS, open_home, wait_until_stored
from benchmarks.metrics import mean
from benchmarks.pack import Data
from benchmarks.replay import until_encoded
from fusion.contract import Moment, Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.packing import ContextPack, PackRequest
from fusion.ingest.intake import NewMemory
from fusion.lib.languages import OTHER
from fusion.lib.listing import record_ref
from fusion.lib.words import spoken, word_list

FOLDER = Path(__file__).parent / "data"
REPORTED, DEVELOPMENT = FOLDER / "dissent.jsonl", FOLDER / "dissent_dev.jsonl"
_MARK = re.compile(r"^- \[(obs:[^\]\s]+)\] .*\[conflicts with: ([^\]]+)\]$", re.MULTILINE)
"""a line of a pack with its ref and the refs that it conflicts with"""
_MEMORY = re.compile(r'<memory-\w+ number="(\d+)"[^>]*>\n(.*?)\n</memory-', re.DOTALL)
"""a memory in the prompt of a model"""


@dataclass(frozen=True, slots=True)
class Case:
    """A history with a question. ``sides`` are the indexes of the memories on either side of its contradiction."""

    id: str
    question: str
    memories: tuple[NewMemory, ...]
    sides: tuple[frozenset[int], ...] = ()

    @property
    def scope(self) -> Scope:
        """The scope of the history: a user of its own."""
        return Scope(user_id=self.id, audience="private")

    @property
    def form(self) -> str:
        """Whether its memories are notes or statements of a speaker."""
        return "speech" if any(memory.speaker for memory in self.memories) else "note"

    @property
    def language(self) -> str:
        """English or another language, by the frequent words of some languages."""
        words = [word for memory in self.memories for word in word_list(memory.text)]
        return "other" if sum(word in OTHER for word in words) > len(words) / 10 else "english"


@dataclass(frozen=True, slots=True)
class Marks:
    """What a pack shows of a case: both sides of its contradiction, marks on them, and other marked pairs."""

    held: bool
    right: bool
    others: frozenset[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    """What the packs of a case show, by default and with the rules."""

    case: Case
    marks: Marks
    by_rules: Marks
    told: bool = False
    """marked if a model that is never wrong names the pair"""
    took_ms: float = 0.0


class RightModel:
    """A language model that knows which memories of the cases contradict each other."""

    name = "right"

    def __init__(self, cases: Sequence[Case]) -> None:
        self._side_of = {
            spoken(case.memories[i].text, case.memories[i].speaker): (case.id, number)
            for case in cases
            for number, side in enumerate(case.sides)
            for i in side
        }

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        found = {}
        for number, text in _MEMORY.findall(user):
            if (side := self._side_of.get(unescape(text))) is not None:
                found[side] = int(number)
        pairs = [[number, found[case, 1]] for (case, side), number in found.items() if not side and (case, 1) in found]
        return json.dumps({"pairs": pairs})

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """A home with the histories of all cases: the ref of each memory, by case."""

    gateway: Gateway
    ruled: Gateway
    """the same with the rules"""
    told: Gateway
    """the same with a model that is never wrong"""
    refs: Mapping[str, Sequence[str]] = field(default_factory=dict)


def measure(data: Data) -> dict[str, Any]:
    """The figures of the reported set, and of the half of the development set that nothing was fitted on."""
    return {
        "reported": figures(results(read(REPORTED))),
        "development, test half": figures(results(halves(read(DEVELOPMENT))[1])),
    }


def read(file: Path) -> list[Case]:
    """The cases of a file. Raises DataError for a line that is none."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found.append(case_of(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file}:{number}: this is no case of dissent: {error!r}") from error
    return found


def case_of(row: Mapping[str, Any]) -> Case:
    scope = Scope(user_id=row["id"], audience="private")
    memories = tuple(
        NewMemory(one["text"], scope, speaker=one.get("speaker"), at=Moment(datetime.fromisoformat(one["at"]), "day"))
        for one in row["memories"]
    )
    return Case(row["id"], row["question"], memories, tuple(map(frozenset, row.get("sides", ()))))


def halves(cases: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """The half for fitting and the half for testing. The cases of one question are in one half."""
    questions = {question: n for n, question in enumerate(dict.fromkeys(case.question for case in cases))}
    fitting, testing = ([case for case in cases if questions[case.question] % 2 == half] for half in (0, 1))
    return fitting, testing


def results(cases: Sequence[Case]) -> list[Result]:
    """What the packs of these cases show."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        return asyncio.run(_results(cases, Path(folder) / "home"))


async def _results(cases: Sequence[Case], home: Path) -> list[Result]:
    async with open_home(home, BACKENDS) as gateway:
        filled = await _fill(gateway, cases)
        return [await _result(filled, case) for case in cases]


async def _fill(gateway: Gateway, cases: Sequence[Case]) -> _Filled:
    memories = [memory for case in cases for memory in case.memories]
    refs: list[str] = []
    for begin in range(0, len(memories), BATCH):
        refs += [kept.ref for kept in await gateway.remember(memories[begin : begin + BATCH])]
    await wait_until_stored(gateway, len(memories))
    rest = iter(refs)
    settings = gateway.settings
    model = settings.model.model_copy(update={"dissent_ms": TIMEOUT_MS})
    told = replace(gateway, model=RightModel(cases), settings=settings.model_copy(update={"model": model}))
    packs = settings.packs.model_copy(update={"dissent_by_rules": True})
    ruled = replace(gateway, settings=settings.model_copy(update={"packs": packs}))
    return _Filled(gateway, ruled, told, {case.id: [next(rest) for _ in case.memories] for case in cases})


async def _result(filled: _Filled, case: Case) -> Result:
    async def ask() -> tuple[ContextPack, float]:
        began = time.perf_counter()
        pack = await filled.gateway.pack(PackRequest(case.question, case.scope, timeout_ms=TIMEOUT_MS))
        return pack, (time.perf_counter() - began) * 1000

    pack, took_ms = await until_encoded(filled.gateway.live, ask)
    refs = {record_ref(ref): n for n, ref in enumerate(filled.refs[case.id])}
    ruled = await filled.ruled.pack(PackRequest(case.question, case.scope, timeout_ms=TIMEOUT_MS))
    told = await filled.told.pack(PackRequest(case.question, case.scope, timeout_ms=TIMEOUT_MS)) if case.sides else pack
    is_told = any(_is_right(pair, case) for pair in _marked(told, refs))
    return Result(case, _marks(pack, case, refs), _marks(ruled, case, refs), is_told, took_ms)


def _marks(pack: ContextPack, case: Case, refs: Mapping[str, int]) -> Marks:
    shown = {n for ref, n in refs.items() if f"- [{ref}] " in pack.bundle_text}
    held = bool(case.sides) and not any(shown.isdisjoint(side) for side in case.sides)
    marked = _marked(pack, refs)
    right = {pair for pair in marked if _is_right(pair, case)}
    return Marks(held, bool(right), frozenset(marked - right))


def _marked(pack: ContextPack, refs: Mapping[str, int]) -> set[frozenset[int]]:
    """The pairs that a pack marks, as indexes of a case's memories."""
    return {
        frozenset((refs[ref], refs[rival]))
        for ref, rivals in _MARK.findall(pack.bundle_text)
        for rival in rivals.split(", ")
    }


def _is_right(pair: frozenset[int], case: Case) -> bool:
    """Whether a pair is the contradiction of a case."""
    return bool(case.sides) and not any(pair.isdisjoint(side) for side in case.sides)


def figures(found: Sequence[Result]) -> dict[str, Any]:
    """The figures of some results: of all, by language and by form."""
    return {
        **_shares(found),
        "by language": _by(found, lambda result: result.case.language),
        "by form": _by(found, lambda result: result.case.form),
        "pack p50 ms": round(median(result.took_ms for result in found), 1) if found else None,
    }


def _by(found: Sequence[Result], group: Callable[[Result], str]) -> dict[str, Any]:
    groups = sorted({group(result) for result in found})
    return {name: _shares([result for result in found if group(result) == name]) for name in groups}


def _shares(found: Sequence[Result]) -> dict[str, Any]:
    contradicted = [result for result in found if result.case.sides]
    others = [result for result in found if not result.case.sides]
    return {
        "contradicted": len(contradicted),
        "without": len(others),
        **_of_marks([result.marks for result in contradicted], [result.marks for result in others]),
        "by_rules": _of_marks([result.by_rules for result in contradicted], [result.by_rules for result in others]),
        "marked_if_told": mean([result.told for result in contradicted]),
    }


def _of_marks(contradicted: Sequence[Marks], others: Sequence[Marks]) -> dict[str, Any]:
    return {
        "both_sides_held": mean([marks.held for marks in contradicted]),
        "marked": mean([marks.held and marks.right for marks in contradicted]),
        "other_pair_marked": mean([bool(marks.others) for marks in contradicted]),
        "false_dissent": mean([bool(marks.others) for marks in others]),
    }
