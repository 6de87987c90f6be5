"""Whether a commit costs more CPU than another one: both run by turns, so that a busy machine slows both alike.

Each side is a folder with the files of its commit. Its own `fusion serve` stores the same memories and is asked the
same questions, and its own `benchmarks.stage_cpu` measures the stages of the read path. A figure has grown if its
median ratio is above the limit in the first run and in a second one, which measures what stood out once more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.progress import bar
from benchmarks.server_processes import Child, allow, serving
from fusion.errors import BadInput, FusionError

ROOT = Path(__file__).parents[1]
LIMIT = 0.10
"""share by which a figure may grow"""
LEAST_MS = 0.05
"""milliseconds of growth that are too few to name"""
CONFIRMED_BY = 2
"""the second run has so many times the rounds of the first"""
MEMORIES = 200
REQUEST = 10
"""memories of one request"""
QUESTIONS = 150
STAGE_REQUESTS = 20
"""requests of which each stage's milliseconds are the median"""
_STAGES = "import json; from benchmarks.stage_cpu import stage_cpu_ms; print(json.dumps(stage_cpu_ms({requests})))"

Costs = Mapping[str, float]
"""milliseconds of CPU by figure"""
Round = Callable[[], Costs]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: milliseconds of CPU on both sides, and the median ratio of the rounds."""

    before_ms: float
    after_ms: float
    ratio: float

    @property
    def has_grown(self) -> bool:
        return self.ratio > 1 + LIMIT and self.after_ms - self.before_ms > LEAST_MS


def run(base: str, rounds: int) -> dict[str, Any]:
    """Compare the files of this checkout with those of the commit ``base``. Raises BadInput if that cannot run."""
    before = _commit_of(base)
    try:
        first, second = _measured_twice(before, rounds)
    except (RuntimeError, FusionError, subprocess.CalledProcessError) as error:
        raise BadInput(f"{base} cannot be compared with the packages that are installed: {error}") from error
    return {"base": before, "rounds": rounds, **report(first, second)}


def _measured_twice(commit: str, rounds: int) -> tuple[dict[str, Compared], dict[str, Compared]]:
    """What the first run found; and the second, which is the same if nothing stood out."""
    with tempfile.TemporaryDirectory(prefix="gate-") as folder, ExitStack() as stack:
        trees = {"before": Path(folder) / "before", "after": ROOT}
        _unpack(commit, trees["before"])
        sides = {name: stack.enter_context(_side(tree, Path(folder) / f"home-{name}")) for name, tree in trees.items()}
        first = measure(sides, rounds)
        stands_out = any(one.has_grown for one in first.values())
        return first, measure(sides, CONFIRMED_BY * rounds) if stands_out else first


def report(first: Mapping[str, Compared], second: Mapping[str, Compared]) -> dict[str, Any]:
    """The figures of the gate; what has ``grown`` in both runs, as sentences."""
    grown = sorted(name for name, one in first.items() if one.has_grown and second[name].has_grown)
    return {
        "cpu_ms": {name: {"before": one.before_ms, "after": one.after_ms} for name, one in second.items()},
        "ratio": {name: one.ratio for name, one in second.items()},
        "grown": [
            f"{name}: {second[name].before_ms} → {second[name].after_ms} ms of CPU, {second[name].ratio - 1:+.0%}"
            for name in grown
        ],
    }


def measure(sides: Mapping[str, Round], rounds: int) -> dict[str, Compared]:
    """Run both sides ``rounds`` times by turns, with the other one first each time; what both have is compared."""
    spent: dict[str, list[Costs]] = {name: [] for name in sides}
    with bar("rounds", rounds * len(sides)) as advance:
        for turn in range(rounds):
            for name in sorted(sides, reverse=bool(turn % 2)):
                spent[name].append(sides[name]())
                advance(1)
    return compare(spent["before"], spent["after"])


def compare(before: Sequence[Costs], after: Sequence[Costs]) -> dict[str, Compared]:
    """By figure, the medians of both sides and the median of the ratios of their rounds."""
    names = [name for name in before[0] if name in after[0]]
    return {name: _compared([one[name] for one in before], [one[name] for one in after]) for name in names}


def _compared(before: Sequence[float], after: Sequence[float]) -> Compared:
    ratios = [new / max(old, 1e-6) for old, new in zip(before, after, strict=True)]
    return Compared(round(median(before), 3), round(median(after), 3), round(median(ratios), 3))


@contextmanager
def _side(tree: Path, home: Path) -> Iterator[Round]:
    """A function that measures one round of the program in ``tree``: a question, a memory, and each stage."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text('log_level = "warning"\n', encoding="utf-8")
    environment = allow(home, home.with_name(f"{home.name}-state"))
    command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "600", "--json"]
    with serving(command, environment, tree) as child:
        yield _round(tree, child)


def _round(tree: Path, child: Child) -> Round:
    turn = 0

    def measured() -> Costs:
        nonlocal turn
        turn += 1
        with child.address.client() as client:
            began = child.cpu_s()
            for n in range(0, MEMORIES, REQUEST):
                client.remember([{"text": _text(turn, m)} for m in range(n, n + REQUEST)])
            client.settle()
            stored = child.cpu_s()
            for n in range(QUESTIONS):
                client.fuse(_question(turn, n))
            asked = child.cpu_s()
        return {
            "a memory": (stored - began) * 1000 / MEMORIES,
            "a question": (asked - stored) * 1000 / QUESTIONS,
            **_stages(tree),
        }

    return measured


def _text(turn: int, n: int) -> str:
    return f"On day {n} of round {turn} the mill {n % 7} at harbour {n % 11} was closed by the miller {n % 5}."


def _question(turn: int, n: int) -> str:
    return f"which mill was closed on day {n} of round {turn}?"


def _stages(tree: Path) -> Costs:
    """Milliseconds of CPU of each stage; none if that commit cannot measure them."""
    code = _STAGES.format(requests=STAGE_REQUESTS)
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=False)
    found: dict[str, float] = json.loads(done.stdout) if done.returncode == 0 else {}
    found.pop("total", None)
    return {f"stage {name}": ms for name, ms in found.items()}


def _commit_of(name: str) -> str:
    done = subprocess.run(
        ["git", "-C", os.fspath(ROOT), "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BadInput(f"there is no commit {name!r} in {ROOT}: name another one with --base")
    return done.stdout.strip()


def _unpack(commit: str, folder: Path) -> None:
    """Write the files of a commit to ``folder``."""
    packed = subprocess.run(["git", "-C", os.fspath(ROOT), "archive", commit], capture_output=True, check=True)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", os.fspath(folder)], input=packed.stdout, check=True)
