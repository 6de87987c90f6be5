"""One home that grows: what a memory, a question, a restart, a deletion and a backup cost at each size.

All four embedded stores hold every memory. Texts are made (`benchmarks.synthetic_text`) and so are the vectors, which
cost a search what real ones cost and ingest nothing: encoding is the embedder's cost, paid once a text.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import shake_128
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Self

from benchmarks.markdown_vault import RandomEmbedder
from benchmarks.progress import bar
from benchmarks.server_processes import Child, allow, serving
from benchmarks.synthetic_text import question, sentence
from fusion.errors import ModelMissing

if TYPE_CHECKING:
    from fusion.contract import Floats

BATCH = 100
"""memories of one request"""
SETTLE_EVERY = 5_000
"""memories after which the stores catch up, so that the outbox stays short"""
SETTLE_S = 600.0
WARM_UP = 20
QUESTIONS = 100
FORGOTTEN = 9
TURNS = 30
"""memories of one session"""
SETTINGS = """
log_level = "warning"
[embedder]
adapter = "benchmarks.scale_growth:MadeVectors"
[backends.markdown]
remember_turns = true
"""


class MadeVectors(RandomEmbedder):
    """A random unit vector for each text, the same in every process, and no token vectors."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Self:
        return cls()

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """By a hash of as many bytes as there are dimensions: a generator for each text would cost a fifth of what it
        costs to store one."""
        import numpy as np

        drawn = b"".join(shake_128(text.encode()).digest(self.dimensions) for text in texts)
        rows = np.frombuffer(drawn, np.uint8).reshape(len(texts), self.dimensions).astype(np.float32) - 127.5
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)

    async def query_tokens(self, text: str) -> Any:
        raise ModelMissing("made vectors have no tokens")


def run(sizes: Sequence[int], kept: Path | None = None) -> dict[str, Any]:
    """The figures at each of ``sizes``, in rising order, and the exponents of their growth.

    The home is in the folder ``kept``, and stays; it goes on with the memories that an earlier run has left there.
    Without one it is made and deleted.
    """
    with ExitStack() as stack:
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-")))
        home, held = folder / "home", _Held(folder / "held")
        if not home.exists():
            home.mkdir(mode=0o700, parents=True)
            (home / "fusion.toml").write_text(SETTINGS, encoding="utf-8")
        environment = allow(home, folder / "state")
        found: dict[int, dict[str, float]] = {}
        for size in sorted(sizes):
            found[size] = _grown(home, environment, held, size)
            print(json.dumps({size: found[size]}), file=sys.stderr, flush=True)  # a large size takes an hour
    return {
        "vectors": "made",
        "at": {f"{size:,}": figures for size, figures in found.items()},
        "exponent": {
            name: exponent({size: figures[name] for size, figures in found.items() if name in figures})
            for name in ("question_cpu_ms", "question_p50_ms", "rss_mb", "restart_s", "forget_ms", "memory_cpu_ms")
        },
    }


class _Held:
    """How many memories a home has been given, in a file next to it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.count = int(file.read_text(encoding="utf-8")) if file.exists() else 0

    def note(self, count: int) -> None:
        self.count = count
        self._file.write_text(str(count), encoding="utf-8")


def exponent(costs: Mapping[int, float]) -> float | None:
    """The slope of a line through the logarithms of size and cost: 1 grows as the work does, 0 not at all."""
    points = [(math.log(size), math.log(cost)) for size, cost in costs.items() if cost > 0]
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    spread: float = sum((x - mean_x) ** 2 for x, _ in points)
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return round(slope, 3)


def _grown(home: Path, environment: Mapping[str, str], held: _Held, size: int) -> dict[str, float]:
    """The figures of a home with ``held`` memories that gets more until it has ``size``.

    What a memory costs is not among them if the home has that many already.
    """
    ingest: dict[str, float] = {}
    if held.count < size:
        with _serving(home, environment) as server:
            ingest = _ingest(server, held, size)
    _read(home)
    began = time.perf_counter()
    with _serving(home, environment) as server, server.address.client(SETTLE_S) as client:
        client.fuse(question(Random(size)))
        restart_s = time.perf_counter() - began
        client.settle(SETTLE_S)
        asked = _ask(server, size)
        forgotten = _forget(server, size)
        memory = {"rss_mb": round(server.memory_mb()), "rss_mb_peak": round(server.memory_mb("VmHWM"))}
        backup_s, backup_mb = _backup(home, environment)
    _evict(home)
    began = time.perf_counter()
    with _serving(home, environment) as server, server.address.client(SETTLE_S) as client:
        client.fuse(question(Random(size)))
        cold_restart_s = time.perf_counter() - began
    return {
        **ingest,
        **asked,
        **memory,
        "restart_s": round(restart_s, 2),
        "cold_restart_s": round(cold_restart_s, 2),
        "forget_ms": forgotten,
        "backup_s": backup_s,
        "home_mb": backup_mb,
    }


@contextmanager
def _serving(home: Path, environment: Mapping[str, str]) -> Iterator[Child]:
    command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "3600", "--json"]
    with serving(command, environment) as server:
        yield server


def _read(home: Path) -> None:
    """Take the home's files into memory. A home that goes on is on the disk, and its first questions would wait."""
    for file in home.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                while opened.read(1 << 24):
                    pass


def _evict(home: Path) -> None:
    """Take the home's files out of memory, as a boot does; what has not reached the disk stays."""
    os.sync()
    for file in home.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _ingest(server: Child, held: _Held, size: int) -> dict[str, float]:
    first = held.count
    began, cpu_s = time.perf_counter(), server.cpu_s()
    with server.address.client(SETTLE_S) as client, bar(f"{size:,} memories", size - first) as advance:
        for start in range(first, size, BATCH):
            batch = [_turn(n) for n in range(start, min(size, start + BATCH))]
            client.remember(batch)
            advance(len(batch))
            if (start - first) % SETTLE_EVERY == 0:
                client.settle(SETTLE_S)
                held.note(start + len(batch))
        client.settle(SETTLE_S)
        held.note(size)
    count, took_s = size - first, time.perf_counter() - began
    return {
        "ingest_per_s": round(count / took_s, 1),
        "memory_cpu_ms": round((server.cpu_s() - cpu_s) * 1000 / count, 3),
    }


def _turn(n: int) -> dict[str, object]:
    """The same for the same number: one that a run was killed before it noted is a duplicate for the next."""
    draw = Random(n)
    said = datetime(2020, 1, 1, 8, tzinfo=UTC) + timedelta(minutes=3 * n)
    return {
        "text": sentence(draw, draw.randrange(40, 240)),
        "kind": "turn",
        "speaker": ("Mara", "Teo")[n % 2],
        "at": said.isoformat(),
        "document": f"session/{n // TURNS}",
        "position": n % TURNS,
        "source": "scale",
    }


def _ask(server: Child, size: int) -> dict[str, float]:
    draw = Random(-size)
    took: list[float] = []
    with server.address.client(SETTLE_S) as client:
        for _ in range(WARM_UP):
            client.fuse(question(draw))
        cpu_s = server.cpu_s()
        for _ in range(QUESTIONS):
            began = time.perf_counter()
            client.fuse(question(draw))
            took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return {
        "question_cpu_ms": round((server.cpu_s() - cpu_s) * 1000 / QUESTIONS, 2),
        "question_p50_ms": round(took[QUESTIONS // 2], 1),
        "question_p95_ms": round(took[QUESTIONS * 95 // 100], 1),
    }


def _forget(server: Child, size: int) -> float:
    """Milliseconds until one memory is forgotten in the journal: the median."""
    took = []
    with server.address.client(SETTLE_S) as client:
        refs = [one["ref"] for one in client.memories(limit=FORGOTTEN)["memories"]]
        for ref in refs:
            began = time.perf_counter()
            client.forget(ref=ref)
            took.append((time.perf_counter() - began) * 1000)
        client.settle(SETTLE_S)
    return round(sorted(took)[len(took) // 2], 1)


def _backup(home: Path, environment: Mapping[str, str]) -> tuple[float, int]:
    """Seconds of a backup of the running home, and its megabytes."""
    with tempfile.TemporaryDirectory(prefix="backup-") as folder:
        target = Path(folder) / "backup"
        command = [sys.executable, "-m", "fusion", "backup", str(target), "--home", str(home), "--json"]
        began = time.perf_counter()
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"fusion backup failed: {done.stderr[-500:]}")
        json.loads(done.stdout)
        files = [target] if target.is_file() else [one for one in target.rglob("*") if one.is_file()]
        return round(time.perf_counter() - began, 1), round(sum(one.stat().st_size for one in files) / 1e6)
