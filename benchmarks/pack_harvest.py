"""Observations a second: harvested from the log into the ledger, and captured one request at a time."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.pack import Data
from benchmarks.synthetic_text import sentence
from benchmarks.tool_noise import TOOLS, batches
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.lib.clock import utc_now
from fusion.lib.ids import UuidSource
from fusion.lib.observation import NewObservation, line_of, observed
from fusion.settings import load

OBSERVATIONS = 20_000
CAPTURED = 2_000
CHARACTERS = 300
SCOPE = Scope(user_id="ada", session_id="s1", audience="private")


def measure(data: Data) -> dict[str, Any]:
    """Harvested and captured observations a second, and the bytes on the disk for each."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, Any]:
    draw = Random("observations")
    new = [_new(draw) for _ in range(OBSERVATIONS + CAPTURED)]
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        settings = load(home=Path(folder) / "home", backends_only=True, embedder={"adapter": ""}, backends=backends)
        async with Gateway.open(settings) as gateway:
            await _fill_log(gateway, new[:OBSERVATIONS])
            began, cpu = time.perf_counter(), time.process_time()
            done = await gateway.observations.harvest()
            took, cpu_took = time.perf_counter() - began, time.process_time() - cpu
            began = time.perf_counter()
            for batch in batches(new[OBSERVATIONS:]):
                await gateway.append_episodes(batch)
            captured = time.perf_counter() - began
            log = await gateway.observations.log()
            on_disk = sum(file.stat().st_size for file in log.folder.iterdir())
    return {
        "harvested": done.stored,
        "harvested_per_s": round(done.stored / took),
        "harvested_per_cpu_s": round(done.stored / cpu_took),
        "captured_per_s": round(CAPTURED / captured),
        "log_bytes_each": round(on_disk / len(new)),
    }


async def _fill_log(gateway: Gateway, new: Sequence[NewObservation]) -> None:
    """Write lines to the log as a capture does, without harvesting them."""
    log, ids, now = await gateway.observations.log(), UuidSource(), utc_now()
    for batch in batches(new, 1_000):
        found = (observed(one, now, ids).observation for one in batch)
        log.append([line_of(one) for one in found if one is not None])


def _new(draw: Random) -> NewObservation:
    payload = {"stdout": sentence(draw, CHARACTERS), "exit_code": draw.randrange(2)}
    return NewObservation("tool.result", SCOPE, payload=payload, tool=draw.choice(TOOLS))
