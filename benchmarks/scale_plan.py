"""Deployments on paper: cores, memory, disk, operations and money for gateways and memories; waits by simulation.

Every number that was not measured is a constant here, with its reason.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Self

TENANT = 100_000
"""memories of one tenant at most: a question's cost grows with its tenant, not with the deployment"""
TENANTS = 1_000
"""of one PostgreSQL at most: each has some sixty tables"""
GATEWAYS = (1, 10, 100)
MEMORIES = (10**6, 10**7, 10**8, 10**9)
CORES = 2
"""of a gateway"""
LOAD = 0.7
"""share of its cores that a machine is planned for: above it waits grow fast (`waiting`)"""
LARGEST = 64
"""cores of the largest PostgreSQL; beyond it, tenants are spread over several"""
COPIES = 2
"""the primary and a replica"""
FREE_DISK = 1.5
"""disk for a byte of data: room for the log, for dead rows until they are vacuumed, and for growth"""
WORKING_SET = 0.25
"""share of tables and other indexes that is in memory, next to all of the vectors' index"""
MISSES = 0.01
"""share of the blocks of a question that are read from disk, when the working set is in memory"""
WRITES = 0.1
"""memories for each question"""
BLOCK = 8192
PRICES = {"core": 25.0, "memory_gb": 3.0, "disk_gb": 0.1}
"""of a month, in USD, as large clouds rent them for a year; not measured"""


@dataclass(frozen=True)
class Law:
    """cost = fixed + factor · memories ^ exponent"""

    factor: float
    exponent: float
    fixed: float = 0.0

    @classmethod
    def power(cls, costs: Mapping[int, float]) -> Self:
        """Without a fixed part, by least squares of logarithms. At least two ``costs``, by memories, all above 0."""
        slope, middle = _line([(math.log(size), math.log(cost)) for size, cost in costs.items()])
        return cls(math.exp(middle), slope)

    @classmethod
    def line(cls, costs: Mapping[int, float]) -> Self:
        """With an exponent of 1, by least squares. At least two ``costs``, by memories."""
        slope, fixed = _line(list(costs.items()))
        return cls(slope, 1.0, fixed)

    def at(self, memories: float) -> float:
        return self.fixed + self.factor * math.pow(memories, self.exponent)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of the line through ``points``, and where it crosses 0."""
    middle_x, middle_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    slope: float = sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)
    return slope, middle_y - slope * middle_x


def deployments(laws: Mapping[str, Law], encoding_ms: float) -> list[dict[str, Any]]:
    """What each number of gateways and memories needs. ``encoding_ms``: CPU of the model for a question."""
    return [deployment(laws, encoding_ms, gateways, memories) for gateways in GATEWAYS for memories in MEMORIES]


def deployment(laws: Mapping[str, Law], encoding_ms: float, gateways: int, memories: int) -> dict[str, Any]:
    """Of gateways with `CORES` cores each at `LOAD`, and the servers that keep up with them."""
    tenant = min(memories, TENANT)
    tenants = memories / tenant

    def total_gb(*names: str) -> float:
        return tenants * sum(laws[name].at(tenant) for name in names) / 1e9

    # A question takes its own time, and that of the memories which are written meanwhile.
    gateway_ms = _ms(laws, "gateway", tenant)
    postgresql_ms = _ms(laws, "postgresql", tenant)
    questions_per_s = gateways * CORES * LOAD * 1000 / gateway_ms
    postgresql_cores = questions_per_s * postgresql_ms / 1000 / LOAD
    model_cores = questions_per_s * (1 + WRITES) * encoding_ms / 1000 / LOAD
    vectors_gb, other_gb = total_gb("vectors_bytes"), total_gb("journal_bytes", "store_bytes")
    memory_gb = COPIES * (vectors_gb + WORKING_SET * other_gb) + gateways * laws["gateway_mb"].at(tenant) / 1000
    disk_gb = COPIES * FREE_DISK * (vectors_gb + other_gb)
    written = questions_per_s * WRITES
    return {
        "gateways": gateways,
        "memories": memories,
        "questions_per_s": round(questions_per_s),
        "postgresql_cores": round(postgresql_cores, 1),
        "databases": math.ceil(max(postgresql_cores / LARGEST, tenants / TENANTS)),
        "model_cores": round(model_cores, 1),
        "memory_gb": round(memory_gb, 1),
        "disk_gb": round(disk_gb),
        "reads_per_s": round(questions_per_s * laws["question_blocks"].at(tenant) * MISSES),
        "writes_per_s": round(
            written * (laws["memory_commits"].at(tenant) + laws["memory_wal_bytes"].at(tenant) / BLOCK)
        ),
        "usd_a_month": round(
            # A replica has the cores of its primary, since it may have to take its place.
            PRICES["core"] * (gateways * CORES + COPIES * postgresql_cores + model_cores)
            + PRICES["memory_gb"] * memory_gb
            + PRICES["disk_gb"] * disk_gb
        ),
    }


def _ms(laws: Mapping[str, Law], part: str, tenant: int) -> float:
    return laws[f"question_{part}_cpu_ms"].at(tenant) + WRITES * laws[f"memory_{part}_cpu_ms"].at(tenant)


def waiting(laws: Mapping[str, Law], loads: Sequence[float] = (0.5, 0.7, 0.9), questions: int = 20_000) -> list[Any]:
    """Milliseconds from a question to its answer, simulated for each number of gateways and load of their cores."""
    gateway_s, postgresql_s = (_ms(laws, part, TENANT) / 1000 for part in ("gateway", "postgresql"))
    found = []
    for gateways in GATEWAYS:
        cores = gateways * CORES
        database_cores = max(1, math.ceil(cores * postgresql_s / gateway_s))
        for load in loads:
            rate = load * cores / gateway_s
            times = simulated([(cores, gateway_s), (database_cores, postgresql_s)], rate, questions)
            p50, p99 = (round(times[int(len(times) * share)] * 1000, 1) for share in (0.5, 0.99))
            found.append({"gateways": gateways, "load": load, "p50_ms": p50, "p99_ms": p99})
    return found


def simulated(stages: Sequence[tuple[int, float]], rate: float, questions: int, seed: int = 0) -> list[float]:
    """Seconds that each question is in a system of queues, in rising order.

    A stage is its number of cores and its mean seconds of work; arrivals and work are exponential, as in M/M/c. A
    question takes the first free core of each stage, in the order of arrival there.
    """
    draw = Random(seed)
    now = 0.0
    arrivals: list[tuple[float, float]] = []
    for _ in range(questions):
        now += draw.expovariate(rate)
        arrivals.append((now, now))
    for cores, mean_s in stages:
        free = [0.0] * cores
        done = []
        for at, arrived in arrivals:
            end = max(at, heapq.heappop(free)) + draw.expovariate(1 / mean_s)
            heapq.heappush(free, end)
            done.append((end, arrived))
        arrivals = sorted(done)
    return sorted(end - arrived for end, arrived in arrivals)
