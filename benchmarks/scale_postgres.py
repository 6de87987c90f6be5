"""The gateway's memories in PostgreSQL: CPU compared with statements written by hand, recall of HNSW, evidence found.

The server is the one of the tests, started for the run. CPU is that of this process and of PostgreSQL's together. Texts
and vectors are made; both sides get a question's vector, because encoding costs both the same.
By hand means: one table with `tsvector` and `vector` columns, the indexes and settings that pgvector's manual gives, a
statement for vectors and one for words, and reciprocal rank fusion of the two.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from adapters.postgres import Postgres
from adapters.postgres import query as sql
from benchmarks.datasets import locomo
from benchmarks.markdown_vault import RandomEmbedder, random_vectors
from benchmarks.options import Run
from benchmarks.run_dataset import run as run_dataset
from benchmarks.synthetic_text import question, sentence
from fusion.contract import Event, Extracted, Moment, Opening, Query, Scope, Where
from fusion.lib.rank_fusion import rank_fusion, ranked
from fusion.lib.words import words

if TYPE_CHECKING:
    from fusion.contract import Floats

Found = dict[str, Any]

DEADLINE_MS = 60_000
CHARACTERS, BATCH, USERS = 160, 500, 20
QUESTIONS, ROUNDS, WARM_UP = 60, 5, 10
NEAREST = 20
PLACES = 100
"""that both sides are asked for: what the gateway asks each backend for"""
SEED = 20261
NOW = datetime(2026, 3, 1, tzinfo=UTC)
FRACTIONS = ("eib_frac", "eib_3000_frac", "eib_1500_frac")


@contextmanager
def database() -> Iterator[tuple[Any, Mapping[str, object]]]:
    """A database of the tests, and the options of the backend in it."""
    from tests.postgres.servers import PostgreSQL

    with (
        tempfile.TemporaryDirectory(prefix="postgres-") as folder,
        PostgreSQL(Path(folder) / "log") as server,
        server.database() as made,
    ):
        password = str(urlsplit(made.url).password)
        file = Path(folder) / "password"
        file.write_text(password, encoding="utf-8")
        url = made.url.replace(f":{password}@", "@")
        yield made, {"url": url, "password_file": str(file), "connect_ms": DEADLINE_MS}


def evidence(data: Path) -> dict[str, Any]:
    """Evidence in the block of LoCoMo's questions with PostgreSQL as the only store, a schema for each conversation."""
    found = []
    with database() as (_, options):
        for number, corpus in enumerate(locomo.load(data)):
            table = {"adapter": "adapters.postgres:Postgres", "schema": f"conversation_{number}", **options}
            found.append(run_dataset(Run("locomo", (corpus,), backends=("postgres",), others={"postgres": table})))
    asked = sum(one["n"] for one in found)
    return {
        "n": asked,
        **{name: round(sum(one[name] * one["n"] for one in found) / asked, 4) for name in FRACTIONS},
    }


def run(sizes: Sequence[int]) -> dict[str, Any]:
    """The figures at each of ``sizes``."""
    return {"at": {f"{size:,}": asyncio.run(_measured(size)) for size in sizes}}


class MadeVectors(RandomEmbedder):
    """A vector for each text: the sum of random ones for its words, so that texts with words in common are near."""

    identity = "words@1"

    def __init__(self) -> None:
        self._texts: dict[str, Floats] = {}

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        import numpy as np

        for text in texts:
            if text not in self._texts:
                total = random_vectors(sorted(words(text))).sum(axis=0)
                self._texts[text] = np.asarray(total / np.linalg.norm(total), np.float32)
        return np.stack([self._texts[text] for text in texts])


async def _measured(size: int) -> dict[str, Any]:
    draw = Random(SEED)
    texts = [sentence(draw, CHARACTERS) for _ in range(size)]
    asked = [question(draw) for _ in range(QUESTIONS)]
    known = MadeVectors()
    with database() as (made, options):
        opening = Opening("postgres", Path(), {**options, "connections": 1}, known)
        backend = await Postgres.open(opening)
        try:
            events = [_event(number, text) for number, text in enumerate(texts)]
            began = time.perf_counter()
            for start in range(0, size, BATCH):
                await backend.remember([Extracted(event) for event in events[start : start + BATCH]])
            stored_s = time.perf_counter() - began
            with psycopg.connect(made.url, autocommit=True) as hand:
                _fill_by_hand(hand, events, await known.embed(texts))
                hand.execute("VACUUM ANALYZE")
                cpu = await _cpu(backend, hand, asked, known)
            return {"stored_per_s": round(size / stored_s), **cpu, **await _recall(backend, asked, known)}
        finally:
            await backend.close()


def _event(number: int, text: str) -> Event:
    at = NOW - timedelta(hours=number % 5000)
    return Event(
        event_id=str(UUID(int=(number + 1) << 80 | 7 << 76 | 2 << 62)),
        text=text,
        recorded_at=at,
        scope=Scope(user_id=f"user{number % USERS}"),
        kind="fact" if number % 4 == 0 else "turn",
        at=Moment(at),
    )


# CPU ------------------------------------------------------------------------------------------------------------------

_BY_HAND = """
CREATE TABLE by_hand (
    id text PRIMARY KEY, user_id text NOT NULL, text text NOT NULL,
    words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED, embedding vector({dimensions}) NOT NULL
);
CREATE INDEX ON by_hand (user_id);
CREATE INDEX ON by_hand USING gin (words);
CREATE INDEX ON by_hand USING hnsw (embedding vector_cosine_ops);
SET hnsw.ef_search = 100;
SET hnsw.iterative_scan = relaxed_order;
SET max_parallel_workers_per_gather = 0;
"""
_NEAREST = "SELECT id, text FROM by_hand {where} ORDER BY embedding <=> %(vector)s::vector LIMIT %(limit)s"
_MATCHING = (
    "SELECT id, text FROM by_hand, to_tsquery('english', %(words)s) q WHERE words @@ q {also} "
    "ORDER BY ts_rank_cd(words, q) DESC LIMIT %(limit)s"
)


def _fill_by_hand(hand: psycopg.Connection[Any], events: Sequence[Event], vectors: Floats) -> None:
    for statement in filter(str.strip, _BY_HAND.format(dimensions=vectors.shape[1]).split(";")):
        hand.execute(statement)
    rows = [(e.event_id, e.scope.user_id, e.text, _written(v)) for e, v in zip(events, vectors, strict=True)]
    with hand.cursor() as cursor:
        cursor.executemany("INSERT INTO by_hand (id, user_id, text, embedding) VALUES (%s, %s, %s, %s)", rows)


def _written(vector: Floats) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


def _asked_by_hand(hand: psycopg.Connection[Any], text: str, vector: str, user: str | None) -> list[tuple[str, str]]:
    either = " | ".join(text.removesuffix("?").split())
    values = {"vector": vector, "words": either, "limit": PLACES, "user": user}
    where, also = ("WHERE user_id = %(user)s", "AND user_id = %(user)s") if user else ("", "")
    lists = [
        hand.execute(statement, values).fetchall()
        for statement in (_NEAREST.format(where=where), _MATCHING.format(also=also))
    ]
    texts = {id_: text for found in lists for id_, text in found}
    scores = rank_fusion(ranked(id_ for id_, _ in found) for found in lists)
    return [(id_, texts[id_]) for id_ in sorted(scores, key=scores.__getitem__, reverse=True)[:PLACES]]


async def _cpu(
    backend: Postgres, hand: psycopg.Connection[Any], asked: Sequence[str], known: MadeVectors
) -> dict[str, Any]:
    """Milliseconds of CPU a question, and their ratio: the median of rounds in which the two sides take turns."""
    [(ours,)] = await backend._connections.run(lambda c: c.rows("SELECT pg_backend_pid()"), 60.0)
    theirs = hand.info.backend_pid
    vectors = {text: _written((await known.embed([text]))[0]) for text in asked}
    found: dict[str, Any] = {}
    for name, user in (("all", None), ("of_a_user", "user7")):

        async def by_us(text: str, user: str | None = user) -> None:
            await backend.search(Query(text, Scope(user_id=user), NOW, limit=PLACES, deadline_s=60.0))

        async def by_hand(text: str, user: str | None = user) -> None:
            _asked_by_hand(hand, text, vectors[text], user)

        spent: dict[str, list[float]] = {"ours": [], "by_hand": []}
        for _ in range(ROUNDS):
            for side, ask, pid in (("ours", by_us, ours), ("by_hand", by_hand, theirs)):
                for text in asked[:WARM_UP]:
                    await ask(text)
                spent[side].append(await _cpu_ms(ask, asked, pid))
        ratios = [mine / other for mine, other in zip(spent["ours"], spent["by_hand"], strict=True)]
        found[name] = {
            **{f"{side}_cpu_ms": round(median(each), 2) for side, each in spent.items()},
            "ratio": round(median(ratios), 3),
        }
    return found


async def _cpu_ms(ask: Callable[[str], Awaitable[None]], asked: Sequence[str], pid: int) -> float:
    began = time.process_time() + _cpu_s_of(pid)
    for text in asked:
        await ask(text)
    return (time.process_time() + _cpu_s_of(pid) - began) / len(asked) * 1000


def _cpu_s_of(pid: int) -> float:
    """Seconds of CPU that another process has used; Linux counts them to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9


# Recall ---------------------------------------------------------------------------------------------------------------


async def _recall(backend: Postgres, asked: Sequence[str], known: MadeVectors) -> dict[str, Any]:
    """The share of the 20 nearest that a search by vectors finds, without a filter and with several."""
    week = Where(after=NOW - timedelta(days=7))
    filters: Mapping[str, tuple[Scope, Where]] = {
        "everything": (Scope(), Where()),
        "user": (Scope(user_id="user7"), Where()),
        "kind": (Scope(), Where(kind=("fact",))),
        "week": (Scope(), week),
        "user_and_week": (Scope(user_id="user7"), week),
    }
    found = {}
    for name, (scope, where) in filters.items():
        shares = []
        for text in asked:
            query = replace(Query(text, scope, NOW, limit=PLACES), where=where)
            vector = (await known.embed([text]))[0]
            near, exact = [await _nearest(backend, query, vector, exact=exact) for exact in (False, True)]
            shares.append(len(set(near) & set(exact)) / len(exact) if exact else 1.0)
        found[name] = round(mean(shares), 4)
    return {f"recall_at_{NEAREST}": found}


async def _nearest(backend: Postgres, query: Query, vector: Floats, *, exact: bool) -> list[int]:
    asked = sql.Asked((), vector)
    statement = sql.search(
        query, asked, sql.Statistics(), backend._vectors, PLACES, pgvector=backend._pgvector, exact=exact
    )
    assert statement is not None
    rows = await backend._connections.run(lambda c: c.rows(*statement), 60.0)
    return [number for _, number, *_ in sorted(rows, key=lambda row: -row[3])[:NEAREST]]
