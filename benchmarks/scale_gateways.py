"""What a question costs on PostgreSQL: with one, two and three gateways, and next to a journal in SQLite.

Gateways answer at the same time, each a client of its own, one question after the other; CPU of the gateways and of
PostgreSQL is counted apart.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import httpx

from benchmarks.progress import bar
from benchmarks.scale_servers import TENANTS, Cluster, Gateway, cluster
from benchmarks.synthetic_text import question, sentence

MEMORIES = 2_000
LARGE = 10_000
REQUEST = 100
QUESTIONS = 100
ROUNDS = 5
WARM_UP = 20
SETTLE_S = 600.0
TENANT = TENANTS[0]


def side_by_side(most: int = 3) -> dict[str, Any]:
    """Questions a second and milliseconds of CPU a question, by the number of gateways."""
    found: dict[int, dict[str, float]] = {}
    for count in range(1, most + 1):
        with tempfile.TemporaryDirectory(prefix="gateways-") as folder, cluster(Path(folder), count) as servers:
            fill(servers, servers.gateways[0], MEMORIES)
            found[count] = _asked_by_all(servers)
    costs = [figures["gateway_cpu_ms"] for figures in found.values()]
    return {
        "memories": MEMORIES,
        "by_gateways": {str(count): figures for count, figures in found.items()},
        "cpu_of_most_over_one": round(costs[-1] / costs[0], 3),
    }


def against_sqlite(size: int = LARGE) -> dict[str, Any]:
    """A question with the journal in PostgreSQL and one with it in SQLite, by turns; both have the same store."""
    with (
        tempfile.TemporaryDirectory(prefix="journal-") as folder,
        cluster(Path(folder) / "a", 1) as shared,
        cluster(Path(folder) / "b", 1, shared=False) as own,
    ):
        sides = {"postgresql": shared, "sqlite": own}
        for servers in sides.values():
            fill(servers, servers.gateways[0], size)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for servers in sides.values():
            ask(servers, servers.gateways[0], WARM_UP, Random(0))
        for turn in range(ROUNDS):
            for name in sorted(sides, reverse=bool(turn % 2)):
                rounds[name].append(_round(sides[name], turn))
    names = ("gateway_cpu_ms", "postgresql_cpu_ms", "p50_ms")
    figures = {
        side: {name: round(median(one[name] for one in all_), 2) for name in names} for side, all_ in rounds.items()
    }
    one, other = figures["postgresql"], figures["sqlite"]
    return {
        "memories": size,
        **figures,
        "cpu_ratio": round(one["gateway_cpu_ms"] / other["gateway_cpu_ms"], 3),
        "cpu_ratio_with_the_server": round(_whole(one) / _whole(other), 3),
        "p50_ratio": round(one["p50_ms"] / other["p50_ms"], 3),
    }


def fill(servers: Cluster, gateway: Gateway, count: int, held: int = 0) -> None:
    """Remember made texts until there are ``count`` of them, and wait until the store has them."""
    draw = Random(count)
    with (
        httpx.Client(
            base_url=gateway.url, headers=servers.headers(TENANT), timeout=SETTLE_S + 30, trust_env=False
        ) as http,
        bar(f"{count:,} memories", count - held) as advance,
    ):
        for start in range(held, count, REQUEST):
            body = [{"text": f"{n} {sentence(draw, draw.randrange(40, 240))}"} for n in range(start, start + REQUEST)]
            http.post("/v1/memories", json=body).raise_for_status()
            advance(REQUEST)
        http.post("/v1/settle", json={"timeout_s": SETTLE_S}).raise_for_status()


def _asked_by_all(servers: Cluster) -> dict[str, float]:
    for gateway in servers.gateways:
        ask(servers, gateway, WARM_UP, Random(1))
    took: list[list[float]] = [[] for _ in servers.gateways]

    def ask_one(number: int) -> None:
        took[number] = ask(servers, servers.gateways[number], QUESTIONS, Random(number + 2))

    threads = [threading.Thread(target=ask_one, args=(number,)) for number in range(len(servers.gateways))]
    began = time.perf_counter()
    gateways_s, postgres_s = sum(one.cpu_s() for one in servers.gateways), servers.postgres_cpu_s()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = QUESTIONS * len(servers.gateways)
    return {
        "questions_per_s": round(asked / (time.perf_counter() - began), 1),
        "gateway_cpu_ms": round((sum(one.cpu_s() for one in servers.gateways) - gateways_s) * 1000 / asked, 2),
        "postgresql_cpu_ms": round((servers.postgres_cpu_s() - postgres_s) * 1000 / asked, 2),
        "p50_ms": round(median(ms for times in took for ms in times), 1),
    }


def _round(servers: Cluster, turn: int) -> dict[str, float]:
    gateway = servers.gateways[0]
    gateway_s, postgres_s = gateway.cpu_s(), servers.postgres_cpu_s()
    took = ask(servers, gateway, QUESTIONS, Random(turn))
    return {
        "gateway_cpu_ms": (gateway.cpu_s() - gateway_s) * 1000 / QUESTIONS,
        "postgresql_cpu_ms": (servers.postgres_cpu_s() - postgres_s) * 1000 / QUESTIONS,
        "p50_ms": median(took),
    }


def _whole(figures: dict[str, float]) -> float:
    return figures["gateway_cpu_ms"] + figures["postgresql_cpu_ms"]


def ask(servers: Cluster, gateway: Gateway, times: int, draw: Random) -> list[float]:
    """Milliseconds of each question."""
    took = []
    with httpx.Client(base_url=gateway.url, headers=servers.headers(TENANT), timeout=60, trust_env=False) as http:
        for _ in range(times):
            began = time.perf_counter()
            http.post("/v1/fuse", json={"query": question(draw), "timeout_ms": 30_000}).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
    return took
