"""The arithmetic of deployments on paper, and the queues."""

from __future__ import annotations

import math
from statistics import mean

import pytest

from benchmarks.scale_plan import CORES, LOAD, Law, deployment, simulated


def test_a_power_goes_through_its_points() -> None:
    """3 · n ^ 1/2 at three sizes gives that law again, and twice the size costs √2 as much."""
    law = Law.power({n: 3 * math.sqrt(n) for n in (100, 400, 1600)})
    assert (law.factor, law.exponent, law.fixed) == pytest.approx((3, 0.5, 0))
    assert law.at(3200) / law.at(1600) == pytest.approx(math.sqrt(2))


def test_a_line_goes_through_its_points() -> None:
    """1,000 bytes, and 50 for each memory."""
    law = Law.line({n: 1000 + 50 * n for n in (100, 400, 1600)})
    assert (law.factor, law.exponent, law.fixed) == pytest.approx((50, 1, 1000))
    assert law.at(10_000) == pytest.approx(501_000)


def test_a_deployment_is_the_sum_of_its_parts() -> None:
    """Ten gateways with two cores at 70 %, ten milliseconds a question and none a memory: 1,400 questions a second."""
    laws = {name: Law(0.0, 0.0) for name in ("memory_gateway_cpu_ms", "memory_postgresql_cpu_ms", "gateway_mb")}
    laws |= {"question_gateway_cpu_ms": Law(10, 0), "question_postgresql_cpu_ms": Law(5, 0)}
    laws |= {"vectors_bytes": Law(2000, 1), "journal_bytes": Law(1000, 1), "store_bytes": Law(3000, 1)}
    laws |= {"question_blocks": Law(100, 0), "memory_commits": Law(1, 0), "memory_wal_bytes": Law(8192, 0)}
    found = deployment(laws, 2.0, gateways=10, memories=10**9)
    assert found["databases"] == 10, "10,000 tenants of 100,000 memories"
    assert found["questions_per_s"] == 10 * CORES * LOAD * 1000 / 10
    assert found["postgresql_cores"] == 1400 * 0.005 / LOAD
    assert found["model_cores"] == round(1400 * 1.1 * 0.002 / LOAD, 1)
    assert found["memory_gb"] == 2 * (2000 + 0.25 * 4000)
    assert found["disk_gb"] == 2 * 1.5 * 6000
    assert found["reads_per_s"] == 1400
    assert found["writes_per_s"] == 140 * 2
    cores = 10 * CORES + 2 * found["postgresql_cores"] + found["model_cores"]
    assert found["usd_a_month"] == round(25 * cores + 3 * found["memory_gb"] + 0.1 * found["disk_gb"])


def test_one_queue_waits_as_the_formula_says() -> None:
    """M/M/1 at a load of .5: a mean of 1 / (μ − λ) = 20 ms for work of 10 ms."""
    times = simulated([(1, 0.010)], rate=50.0, questions=200_000)
    assert mean(times) == pytest.approx(1 / (100 - 50), rel=0.05)
    assert times == sorted(times)
