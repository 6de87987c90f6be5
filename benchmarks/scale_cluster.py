"""Three gateways on one PostgreSQL under a mixed load, while gateways are killed and the database is restarted.

Clients send each request to any gateway, as a balancer would, and again to another one until it is acknowledged: a
broken connection, 429 and 503 are tried again with the same Idempotency-Key. Then everything that was acknowledged is
looked for, in the journals and in the store.
"""

from __future__ import annotations

import random
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.scale_servers import TENANTS, Cluster, cluster
from benchmarks.synthetic_text import sentence

GATEWAYS = 3
CLIENTS = 6
KILL_EVERY_S = 20.0
PATIENCE_S = 120.0
"""seconds for which a client tries a request again"""
SETTLE_S = 300.0
PAGE = 100
REMEMBERS, ASKS = 0.4, 0.85
"""shares of the requests, added up: the rest forgets"""


@dataclass
class Ledger:
    """What the clients know. ``kept`` and ``forgotten`` have what was acknowledged, by token."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)
    """by token, the tenant and the ref"""
    forgotten: dict[str, float] = field(default_factory=dict)
    """by token, when that was acknowledged"""
    doomed: set[str] = field(default_factory=set)
    """tokens whose deletion was begun"""
    statuses: Counter[int] = field(default_factory=Counter)
    given_up: int = 0
    leaks: int = 0
    shown_after_forget: int = 0
    took_ms: list[float] = field(default_factory=list)

    def pick(self, tenant: str, draw: random.Random, *, doom: bool = False) -> tuple[str, str] | None:
        """A token of a tenant, and its ref, that nobody has begun to forget."""
        with self.lock:
            there = [(token, ref) for token, (whose, ref) in self.kept.items() if whose == tenant]
            free = [one for one in there if one[0] not in self.doomed]
            if not free:
                return None
            chosen = draw.choice(free)
            if doom:
                self.doomed.add(chosen[0])
            return chosen


class Client:
    """One client, in a thread of its own."""

    def __init__(self, servers: Cluster, ledger: Ledger, seed: int) -> None:
        self._servers, self._ledger, self._draw = servers, ledger, random.Random(seed)
        self._http = httpx.Client(timeout=20, trust_env=False)

    def run(self, until: float) -> None:
        with self._http:
            while time.monotonic() < until:
                tenant, chance = self._draw.choice(TENANTS), self._draw.random()
                if chance < REMEMBERS:
                    self._remember(tenant)
                elif chance < ASKS:
                    self._ask(tenant)
                else:
                    self._forget(tenant)

    def _remember(self, tenant: str) -> None:
        token = f"{tenant}{secrets.token_hex(6)}"
        body = {"text": f"{token} {sentence(self._draw, 100)}"}
        reply = self._sent(tenant, "POST", "/v1/memories", body, {"idempotency-key": token})
        if reply is not None:
            with self._ledger.lock:
                self._ledger.kept[token] = (tenant, reply.json()["memories"][0]["ref"])

    def _ask(self, tenant: str) -> None:
        chosen = self._ledger.pick(tenant, self._draw)
        with self._ledger.lock:
            gone = set(self._ledger.forgotten)
        began = time.monotonic()
        reply = self._sent(tenant, "POST", "/v1/fuse", {"query": f"what about {chosen[0] if chosen else 'nothing'}?"})
        if reply is None:
            return
        (other,) = {*TENANTS} - {tenant}
        block = reply.json()["block"]
        with self._ledger.lock:
            self._ledger.took_ms.append((time.monotonic() - began) * 1000)
            self._ledger.leaks += other in block
            self._ledger.shown_after_forget += any(token in block for token in gone)

    def _forget(self, tenant: str) -> None:
        chosen = self._ledger.pick(tenant, self._draw, doom=True)
        if chosen is None:
            return
        token, ref = chosen
        reply = self._sent(tenant, "DELETE", f"/v1/memories/{ref}", None, also=(404,))
        if reply is not None:  # 404: an earlier try, whose reply was lost, has done it
            with self._ledger.lock:
                self._ledger.forgotten[token] = time.monotonic()

    def _sent(
        self,
        tenant: str,
        method: str,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        also: Sequence[int] = (),
    ) -> httpx.Response | None:
        """The reply that acknowledges a request; None if nobody did in time."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            gateway = self._draw.choice(self._servers.gateways)
            sent = {**self._servers.headers(tenant), **(headers or {})}
            try:
                reply = self._http.request(method, gateway.url + path, json=body, headers=sent)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            with self._ledger.lock:
                self._ledger.statuses[reply.status_code] += 1
            if reply.is_success or reply.status_code in also:
                return reply
            if reply.status_code < 500 and reply.status_code != 429:
                raise RuntimeError(f"{method} {path}: {reply.status_code} {reply.text[:500]}")
            time.sleep(0.1)
        with self._ledger.lock:
            self._ledger.given_up += 1
        return None


def run(seconds: float, gateways: int = GATEWAYS) -> dict[str, Any]:
    """The figures of ``seconds`` of load: a gateway is killed every 20 s, and PostgreSQL is restarted twice."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder, cluster(Path(folder), gateways) as servers:
        ledger = Ledger()
        until = time.monotonic() + seconds
        clients = [Client(servers, ledger, seed) for seed in range(CLIENTS)]
        threads = [threading.Thread(target=client.run, args=(until,)) for client in clients]
        for thread in threads:
            thread.start()
        kills = _disturb(servers, seconds, until)
        for thread in threads:
            thread.join()
        found = _looked_for(servers, ledger)
    others = {status: n for status, n in ledger.statuses.items() if status >= 500 and status != 503}
    took = sorted(ledger.took_ms) or [0.0]
    return {
        "seconds": seconds,
        "gateways": gateways,
        "killed": kills,
        "database_restarted": 2,
        "acknowledged": len(ledger.kept),
        "forgotten": len(ledger.forgotten),
        "questions": len(ledger.took_ms),
        **found,
        "tenant_leaks": ledger.leaks,
        "shown_after_forget": ledger.shown_after_forget,
        "5xx_other_than_503": sum(others.values()),
        "503": ledger.statuses[503],
        "given_up": ledger.given_up,
        "question_p50_ms": round(took[len(took) // 2], 1),
    }


def _disturb(servers: Cluster, seconds: float, until: float) -> int:
    """Kill a gateway every 20 s, and restart the database after a third and two thirds of the time; the kills."""
    began, kills = time.monotonic(), 0
    restarts = [(began + seconds / 3, "stop"), (began + seconds * 2 / 3, "crash")]
    next_kill = began + min(KILL_EVERY_S, seconds / 4)
    while time.monotonic() < until:
        if restarts and time.monotonic() >= restarts[0][0]:
            _, how = restarts.pop(0)
            servers.postgres.command("stop" if how == "stop" else "crash")
            servers.postgres.command("start")
        if time.monotonic() >= next_kill:
            gateway = servers.gateways[kills % len(servers.gateways)]
            gateway.kill()
            gateway.start()
            kills += 1
            next_kill += KILL_EVERY_S
        time.sleep(0.1)
    return kills


def _looked_for(servers: Cluster, ledger: Ledger) -> dict[str, int]:
    """What of the acknowledged is missing or there twice, in the journals and in the store."""
    listed: Counter[str] = Counter()
    for tenant in TENANTS:
        with httpx.Client(timeout=SETTLE_S + 30, trust_env=False, headers=servers.headers(tenant)) as http:
            for gateway in servers.gateways:
                http.post(f"{gateway.url}/v1/settle", json={"timeout_s": SETTLE_S})
            listed.update(_listed(http, servers.gateways[0].url))
    stored = _stored(servers)
    live = set(ledger.kept) - ledger.doomed
    return {
        "lost": len(live - set(listed)),
        "undelivered": len(live - set(stored)),
        "twice_in_the_journal": sum(n > 1 for n in listed.values()),
        "delivered_twice": sum(n > 1 for n in stored.values()),
        "forgotten_and_still_listed": len(set(ledger.forgotten) & set(listed)),
        "forgotten_and_still_stored": len(set(ledger.forgotten) & set(stored)),
    }


def _listed(http: httpx.Client, url: str) -> list[str]:
    tokens, cursor = [], None
    while True:
        page = http.get(f"{url}/v1/memories", params={"limit": PAGE, **({"cursor": cursor} if cursor else {})}).json()
        tokens += [one["text"].split()[0] for one in page["memories"]]
        cursor = page.get("next_cursor")
        if not cursor:
            return tokens


def _stored(servers: Cluster) -> Counter[str]:
    """The tokens in the tables of `adapters.postgres`, in every schema."""
    import psycopg

    with psycopg.connect(servers.database) as connection:
        schemas = connection.execute(
            "select table_schema from information_schema.tables where table_name = 'memory' "
            "and table_schema like 'memory_fusion%'"
        ).fetchall()
        rows = [row for (schema,) in schemas for row in connection.execute(f"select text from {schema}.memory")]
    return Counter(text.split()[0] for (text,) in rows)
