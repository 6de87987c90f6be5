"""What a request costs over the bare minimum: CPU of the server, latency over its slowest backend, each stage.

Four backends answer over loopback HTTP, 60 candidates of 500 characters in all, other ones for each question until
their 5,200 texts come round again. The gateway asks them, ranks, packs and keeps its receipt; a bare FastAPI handler
fetches and parses the same four answers and does nothing with them. Both are measured in turns in one run, so that a
busy machine slows both. The gateway has no model here: encoding a text is the embedder's cost, paid once a text.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import orjson

from benchmarks.figures import commit
from benchmarks.overhead_servers import BACKENDS, CHARACTERS, HITS
from benchmarks.progress import bar
from benchmarks.server_processes import Child, allow, serving
from benchmarks.stage_cpu import CANDIDATES, stage_cpu_ms
from benchmarks.synthetic_text import question

WARM_UP = 50
SLOW_S = 0.050
SLOW_REQUESTS = 60


def run(requests: int, rounds: int) -> dict[str, Any]:
    """Figures of ``rounds`` rounds of ``requests`` on each side, one request at a time."""
    return asyncio.run(_run(requests, rounds))


async def _run(requests: int, rounds: int) -> dict[str, Any]:
    with (
        serving(["-m", "benchmarks.overhead_servers", "backends"]) as backends,
        serving(["-m", "benchmarks.overhead_servers", "bare", *backends.said["urls"]]) as bare,
        _gateway(backends.said["urls"]) as gateway,
        bar("requests", (WARM_UP + requests * rounds + SLOW_REQUESTS) * 2) as advance,
    ):
        # The bare server looks at no header: both are sent the same.
        async with aiohttp.ClientSession(headers=gateway.address.headers) as session:
            sides = {"bare": _Side(session, bare), "fuse": _Side(session, gateway)}
            for side in sides.values():
                await side.ask(WARM_UP)
                advance(WARM_UP)
            cpu_s = dict.fromkeys(sides, 0.0)
            took: dict[str, list[float]] = {name: [] for name in sides}
            for _ in range(rounds):
                for name, side in sides.items():
                    before = side.child.cpu_s()
                    took[name] += await side.ask(requests)
                    cpu_s[name] += side.child.cpu_s() - before
                    advance(requests)
            receipt_stored = await sides["fuse"].receipt_is_kept()
            slowest = backends.said["urls"][0]
            await session.post(f"{slowest}/delay", json={"backend": 0, "seconds": SLOW_S})
            alone: list[float] = []
            over: list[float] = []
            for _ in range(SLOW_REQUESTS):
                alone += await _ask(session, f"{slowest}/v1/search")
                over += await sides["fuse"].ask(1)
                advance(2)
            alone_ms, over_ms = _median(alone), _median(over)
            answer = orjson.loads(sides["fuse"].last)
    if answer["degraded"] or sum(b["count"] for b in answer["backends"]) != BACKENDS * HITS:
        raise RuntimeError(f"not all backends answered: {answer['backends']}")
    each = {name: total * 1000 / (requests * rounds) for name, total in cpu_s.items()}
    return {
        "backends": BACKENDS,
        "candidates": BACKENDS * HITS,
        "candidate_chars": CHARACTERS,
        "requests": requests * rounds,
        "recipe": answer["recipe"]["name"],
        "recipe_hash": answer["recipe"]["hash"],
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "receipt_stored": receipt_stored,
        "cpu_ms_bare": round(each["bare"], 3),
        "cpu_ms_fuse": round(each["fuse"], 3),
        "ratio_to_bare_gather": round(each["fuse"] / each["bare"], 2),
        "p50_ms_bare": round(_median(took["bare"]), 2),
        "p50_ms_fuse": round(_median(took["fuse"]), 2),
        "slowest_backend_ms": round(alone_ms, 2),
        "p50_over_slowest": round(over_ms / alone_ms - 1, 4),
        "p50_over_its_sleep": round(over_ms / (SLOW_S * 1000) - 1, 4),
        "stage_candidates": CANDIDATES,
        "stage_cpu_ms": stage_cpu_ms(),
    }


async def _ask(session: aiohttp.ClientSession, url: str) -> list[float]:
    """Milliseconds that a backend takes when it is asked directly."""
    started = time.perf_counter()
    async with session.post(url, json={"query": "what is slow?", "limit": 100}) as response:
        orjson.loads(await response.read())
    return [(time.perf_counter() - started) * 1000]


class _Side:
    """One of the two servers, asked one question after the other."""

    def __init__(self, session: aiohttp.ClientSession, child: Child) -> None:
        self.child = child
        self._session, self._url = session, child.said["url"]
        self._draw = Random(1)
        self.last = b""

    async def ask(self, times: int) -> list[float]:
        """Milliseconds that each request took."""
        took = []
        for _ in range(times):
            started = time.perf_counter()
            async with self._session.post(f"{self._url}/fuse", json={"query": question(self._draw)}) as response:
                if response.status != 200:
                    raise RuntimeError(await response.text())
                reply = await response.read()
            took.append((time.perf_counter() - started) * 1000)
            self.last = reply
        return took

    async def receipt_is_kept(self) -> bool:
        """Whether the last answer's receipt can be read back."""
        async with self._session.get(f"{self._url}/v1/receipts/{orjson.loads(self.last)['receipt_id']}") as response:
            return response.status == 200


@contextmanager
def _gateway(urls: list[str]) -> Iterator[Child]:
    """`fusion serve` as a user runs it, over remote backends only."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        tables = "".join(
            f'\n[backends.remote{n}]\nadapter = "adapters.remote:Remote"\nurl = "{url}"\n' for n, url in enumerate(urls)
        )
        settings = f'backends_only = true\nlog_level = "warning"\n[embedder]\nadapter = ""\n{tables}'
        (home / "fusion.toml").write_text(settings, encoding="utf-8")
        with serving(
            ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "120", "--json"],
            allow(home, Path(folder) / "state"),
        ) as child:
            yield child


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
