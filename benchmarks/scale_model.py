"""What a deployment needs: costs measured at three sizes, laws through them, and a check at twice the largest.

Texts and vectors are made. One gateway has its journal and its memories in one PostgreSQL; the laws are of one tenant,
because a question reads no other tenant's memories. `benchmarks.scale_plan` computes deployments from them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from adapters.embedders.local import LocalEmbedder
from benchmarks.scale_gateways import ask, fill
from benchmarks.scale_plan import Law, deployments, waiting
from benchmarks.scale_servers import Cluster, cluster
from benchmarks.server_processes import Child
from benchmarks.synthetic_text import question, sentence

SIZES = (4_000, 8_000, 16_000)
QUESTIONS = 200
WARM_UP = 20
ENCODED = 200
STORED = ("vectors_bytes", "journal_bytes", "store_bytes")
FLUSH_S = 11.0
"""An idle connection of PostgreSQL adds its counts to the statistics within ten seconds."""
BYTES = """
select coalesce(sum(size) filter (where method = 'hnsw'), 0)::bigint as vectors,
    coalesce(sum(size) filter (where of_journal), 0)::bigint as journal,
    coalesce(sum(size) filter (where not of_journal and method <> 'hnsw'), 0)::bigint as store
from (select pg_relation_size(c.oid) as size, coalesce(m.amname, '') as method,
    n.nspname = 'fusion' or n.nspname in (select schema from fusion.tenant) as of_journal
from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_am m on m.oid = c.relam
where n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema') as relation
"""
COUNTS = (
    "select blks_hit + blks_read, xact_commit, pg_current_wal_insert_lsn() - '0/0'::pg_lsn from pg_stat_database "
    "where datname = current_database()"
)


def run(sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """The costs at ``sizes``, the laws through them, what they predict for twice the largest, and what that cost."""
    at: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="model-") as folder, cluster(Path(folder), 1) as servers:
        held = 0
        for size in (*sizes, 2 * sizes[-1]):
            at[size] = _costs(servers, held, size)
            held = size
    laws = {name: _law(name, {size: at[size][name] for size in sizes}) for name in at[held]}
    encoding = asyncio.run(_encoding())
    checked = {
        name: {"predicted": round(law.at(held), 3), "measured": cost, "off": round(law.at(held) / cost - 1, 3)}
        for name, law in laws.items()
        if (cost := at[held][name])
    }
    return {
        "at": {f"{size:,}": costs for size, costs in at.items()},
        "laws": {name: asdict(law) for name, law in laws.items()},
        "encoding_cpu_ms": encoding,
        "twice": {"memories": held, "off_at_most": max(abs(one["off"]) for one in checked.values()), **checked},
        "deployments": deployments(laws, encoding["question"]),
        "waiting": waiting(laws),
    }


def _law(name: str, costs: Mapping[int, float]) -> Law:
    """What is stored has a fixed part and as much for each memory; all else is a power."""
    return Law.line(costs) if name in STORED else Law.power(costs)


def _costs(servers: Cluster, held: int, size: int) -> dict[str, float]:
    """What memories ``held`` to ``size`` cost, and then a question."""
    (gateway,) = servers.gateways
    assert gateway.process is not None
    before, gateway_s, postgres_s = _counts(servers), gateway.cpu_s(), servers.postgres_cpu_s()
    fill(servers, gateway, size, held)
    after = _counts(servers)
    new = size - held
    written = {
        "memory_gateway_cpu_ms": (gateway.cpu_s() - gateway_s) * 1000 / new,
        "memory_postgresql_cpu_ms": (servers.postgres_cpu_s() - postgres_s) * 1000 / new,
        "memory_commits": (after["commits"] - before["commits"]) / new,
        "memory_wal_bytes": (after["wal"] - before["wal"]) / new,
    }
    ask(servers, gateway, WARM_UP, Random(size))
    before, gateway_s, postgres_s = _counts(servers), gateway.cpu_s(), servers.postgres_cpu_s()
    ask(servers, gateway, QUESTIONS, Random(size + 1))
    asked = {
        "question_gateway_cpu_ms": (gateway.cpu_s() - gateway_s) * 1000 / QUESTIONS,
        "question_postgresql_cpu_ms": (servers.postgres_cpu_s() - postgres_s) * 1000 / QUESTIONS,
        "question_blocks": (_counts(servers)["blocks"] - before["blocks"]) / QUESTIONS,
        "gateway_mb": Child(gateway.process.pid, {}).memory_mb(),
    }
    with psycopg.connect(servers.database) as connection:
        sizes = dict(zip(STORED, connection.execute(BYTES).fetchone() or (0, 0, 0), strict=True))
    return {name: round(float(value), 3) for name, value in {**written, **asked, **sizes}.items()}


def _counts(servers: Cluster) -> Mapping[str, float]:
    """Blocks of 8 KiB read from cache or disk, transactions, and bytes of the log, since the server's start."""
    time.sleep(FLUSH_S)
    with psycopg.connect(servers.database) as connection:
        blocks, commits, wal = connection.execute(COUNTS).fetchone() or (0, 0, 0)
    return {"blocks": float(blocks), "commits": float(commits), "wal": float(wal)}


async def _encoding() -> dict[str, float]:
    """Milliseconds of CPU that the local model takes for a memory and for a question."""
    draw = Random(ENCODED)
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        embedder = await LocalEmbedder.open(Path(folder), {})
        try:
            texts = [sentence(draw, draw.randrange(40, 240)) for _ in range(ENCODED)]
            await embedder.embed([sentence(draw, 100)], keep=False)
            began = time.process_time()
            await embedder.embed(texts, keep=False)
            memory = (time.process_time() - began) * 1000 / ENCODED
            began = time.process_time()
            for _ in range(ENCODED):
                await embedder.embed([question(draw)], keep=False)
            asked = (time.process_time() - began) * 1000 / ENCODED
        finally:
            await embedder.close()
    return {"memory": round(memory, 2), "question": round(asked, 2)}
