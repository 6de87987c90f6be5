"""CPU of `fusion --help`, and memory of a server with some thousand memories."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.figures import commit
from benchmarks.progress import bar
from benchmarks.server_processes import serving
from benchmarks.synthetic_text import question, sentence

BATCH = 100
QUESTIONS = 50
SETTLE_S = 600.0
HELPS = 7


def run(memories: int) -> dict[str, Any]:
    """Figures of a fresh home with ``memories`` turns of 40 to 240 characters in all four backends."""
    help_cpu_s = help_cpu()
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text("[backends.markdown]\nremember_turns = true\n", encoding="utf-8")
        command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "120", "--json"]
        with serving(command) as server, server.address.client(SETTLE_S) as client:
            empty_mb = server.memory_mb()
            draw = Random(0)
            with bar("memories", memories) as advance:
                for start in range(0, memories, BATCH):
                    client.remember([_turn(n, draw) for n in range(start, min(memories, start + BATCH))])
                    advance(BATCH)
            settled = client.settle(SETTLE_S)
            filled_mb = server.memory_mb()
            answers = [client.fuse(question(draw)) for _ in range(QUESTIONS)]
            held = {backend["name"]: backend for backend in client.backends()["backends"]}
            return {
                "memories": memories,
                "questions": QUESTIONS,
                "commit": commit(),
                "date": datetime.now(UTC).date().isoformat(),
                "backends": [backend["name"] for backend in answers[-1]["backends"]],
                "degraded": sum(answer["degraded"] for answer in answers),
                "settled": settled["settled"],
                "items": {name: backend.get("items") for name, backend in held.items()},
                "help_cpu_s": help_cpu_s,
                "rss_mb_empty": round(empty_mb),
                "rss_mb_filled": round(filled_mb),
                "rss_mb": round(server.memory_mb()),
                "rss_mb_peak": round(server.memory_mb("VmHWM")),
            }


def help_cpu() -> float:
    """Seconds of CPU of `fusion --help`: the median of some runs, after one that warms the disk's cache."""
    spent = []
    for _ in range(HELPS + 1):
        process = subprocess.Popen([sys.executable, "-m", "fusion", "--help"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError("fusion --help failed")
        spent.append(usage.ru_utime + usage.ru_stime)
    return round(sorted(spent[1:])[HELPS // 2], 3)


def _turn(n: int, draw: Random) -> dict[str, object]:
    said = datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(minutes=17 * n)
    return {
        "text": sentence(draw, draw.randrange(40, 240)),
        "kind": "turn",
        "speaker": ("Mara", "Teo")[n % 2],
        "at": said.isoformat(),
        "document": f"session/{n // 30}",
        "position": n % 30,
        "source": "footprint",
    }
