"""The small fallback store: it keeps the suite's promises, and its scores are 70 % vector and 30 % words."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from adapters.vector_sqlite import SCHEMA, Options, VectorSqlite, merged
from fusion.contract import Backend, Extracted, Opening, Scope
from fusion.errors import SettingsError, StoreDamaged
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.passages import spoken_passages
from fusion.store.rows import INSERT_EVENT, event_row
from fusion.store.sqlite import Connection, Database
from tests.backend_contract import BackendContract, event_id, make_event, make_extracted, make_query, opening
from tests.fakes import FakeEmbedder
from tests.patience import load


class TestVectorSqlite(BackendContract):
    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await VectorSqlite.open(opening(folder))


class TestWithoutAModel(BackendContract):
    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await VectorSqlite.open(Opening("vector_sqlite", folder))


@asynccontextmanager
async def store(folder: Path, embedder: FakeEmbedder | None = None, **options: object) -> AsyncIterator[VectorSqlite]:
    opened = await VectorSqlite.open(Opening("vector_sqlite", folder, options, embedder))
    try:
        yield opened
    finally:
        await opened.close()


def told(*texts: str) -> list[Extracted]:
    return [make_extracted(make_event(n, text)) for n, text in enumerate(texts, start=1)]


# The arithmetic


@pytest.mark.row("A110", "`vector_sqlite`: one small file, 70 % vector and 30 % words")
def test_seventy_of_a_hundred_are_the_vectors() -> None:
    """.7·.9 + .3·.5 = .78; found by one side only: .7·.8 = .56 and .3·.6 = .18."""
    found = merged({1: 0.9, 2: 0.8}, {1: 0.5, 3: 0.6}, Options(), has_vectors=True)
    assert {memory: round(score, 9) for memory, score in found.items()} == {1: 0.78, 2: 0.56, 3: 0.18}


def test_weights_are_a_proportion_and_words_alone_have_all_of_it() -> None:
    """.35 and .15 are .7 and .3; without vectors a score of words is the score."""
    halved = Options(vector_weight=0.35, text_weight=0.15)
    assert merged({1: 0.9}, {1: 0.5}, halved, has_vectors=True) == pytest.approx({1: 0.78})
    assert merged({}, {1: 0.5}, Options(), has_vectors=False) == {1: 0.5}


async def test_the_score_of_a_hit_is_that_sum(tmp_path: Path) -> None:
    """The same words: cosine 1, so .7 of it is the vector's, and the rest, below .3, the words'."""
    async with store(tmp_path, FakeEmbedder()) as backend:
        await backend.remember(told("Ada likes tea", "Ben likes coffee", "The harbour is cold"))
        await backend.settle()
        best = (await backend.search(make_query("Ada likes tea")))[0]
        assert best.event_id == event_id(1)
        assert best.score is not None
        assert 0.7 < best.score < 1.0
        by_words = (await backend.search(make_query("Ada likes tea", limit=1)))[0]
        assert by_words == best
    async with store(tmp_path) as backend:  # the same file without a model: words have all the weight
        alone = (await backend.search(make_query("Ada likes tea")))[0]
    assert alone.score is not None
    assert best.score == pytest.approx(0.7 * 1.0 + 0.3 * alone.score, abs=1e-5)


# Vectors


async def test_what_has_none_of_the_words_is_found_by_meaning(tmp_path: Path) -> None:
    """A synonym finds it once its vector is there; at once, words find everything else."""
    embedder = FakeEmbedder(synonyms={"automobile": "car"}, gate=asyncio.Event())
    async with store(tmp_path, embedder) as backend:
        await backend.remember(told("the car is red", "the harbour is cold"))
        assert [hit.event_id for hit in await backend.search(make_query("harbour"))] == [event_id(2)]
        pending = await backend.describe()
        assert (pending.items, pending.vectors, pending.vectors_pending) == (2, 0, 2)
        assert embedder.gate is not None
        embedder.gate.set()
        await backend.settle()
        assert (await backend.search(make_query("automobile")))[0].event_id == event_id(1)
        assert (await backend.describe()).vectors == 2


@pytest.mark.row(
    "A110",
    "… with the configured embedder: the seed's text-embedding-3-small has 1,536 dimensions, ours "
    "384, and they are never mixed",
    of="`vector_sqlite`: one small file",
)
async def test_vectors_of_another_model_are_made_anew(tmp_path: Path) -> None:
    """They are never compared with the new model's, and words are found meanwhile."""
    async with store(tmp_path, FakeEmbedder(dimensions=32)) as backend:
        await backend.remember(told("Ada likes tea"))
        await backend.settle()
    other = FakeEmbedder(dimensions=8, identity="other@2", gate=asyncio.Event())
    async with store(tmp_path, other) as backend:
        assert (await backend.describe()).vectors == 0
        assert [hit.event_id for hit in await backend.search(make_query("tea"))] == [event_id(1)]
        assert other.gate is not None
        other.gate.set()
        await backend.settle()
        assert ((await backend.describe()).vectors, other.encoded["Ada likes tea"]) == (1, 1)
    async with store(tmp_path, FakeEmbedder(dimensions=8, identity="other@2")) as backend:
        assert (await backend.describe()).vectors == 1  # kept, and not embedded again


async def test_a_model_that_fails_costs_the_vectors_only(tmp_path: Path) -> None:
    """Told in the description, as degraded; when it is well again the vectors come."""
    embedder = FakeEmbedder(failing=True)
    async with store(tmp_path, embedder) as backend:
        await backend.remember(told("Ada likes tea"))
        await backend.settle()
        described = await backend.describe()
        assert (described.degraded, described.vectors_pending) == (True, 1)
        assert "set to fail" in described.notes[0]
        assert [hit.event_id for hit in await backend.search(make_query("tea"))] == [event_id(1)]
        embedder.failing = False
        await backend.settle()
        described = await backend.describe()
        assert (described.degraded, described.vectors_pending) == (False, 0)


async def test_a_question_goes_on_without_a_model_that_fails(tmp_path: Path) -> None:
    """What is there by words is found; nothing is raised."""
    embedder = FakeEmbedder()
    async with store(tmp_path, embedder) as backend:
        await backend.remember(told("Ada likes tea"))
        await backend.settle()
        embedder.failing = True
        assert [hit.event_id for hit in await backend.search(make_query("tea"))] == [event_id(1)]


async def test_what_others_have_does_not_crowd_out_ones_own(tmp_path: Path) -> None:
    """Two hundred nearer vectors of somebody else's: one's own is found all the same."""
    async with store(tmp_path, FakeEmbedder(synonyms={"brew": "tea"})) as backend:
        mine = make_extracted(make_event(1, "tea with cardamom and a biscuit", Scope(user_id="ada")))
        theirs = [make_extracted(make_event(n, "tea", Scope(user_id="ben"))) for n in range(2, 202)]
        await backend.remember([mine, *theirs])
        await backend.settle()
        hits = await backend.search(make_query("brew", Scope(user_id="ada"), limit=1))
        assert [hit.event_id for hit in hits] == [event_id(1)]


# Forgetting, damage, options


async def test_nothing_is_left_in_the_file_of_what_was_forgotten(tmp_path: Path) -> None:
    """Neither the text nor its words, in the file or its log, once the backend says deleted."""
    async with store(tmp_path, FakeEmbedder()) as backend:
        await backend.remember(told("the passphrase is zyzzyvaquux", "Ada likes tea"))
        await backend.settle()
        assert await backend.forget(event_id(1), [event_id(1)]) == "deleted"
        assert await backend.forget(event_id(1), [event_id(1)]) == "absent"
        assert (await backend.describe()).vectors == 1
    left = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"zyzzyva" not in left
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite")) as db:
        assert db.execute("select count(*) from vector").fetchone() == (1,)


async def test_an_older_file_keeps_the_vectors_of_short_texts(tmp_path: Path) -> None:
    """It had one vector for each text; those of long texts are made again, a vector for each passage."""
    long = "\n\n".join(f"Paragraph{n} " + "of many words " * 30 for n in range(3))
    old = await Database.open(tmp_path / "vectors.sqlite", (SCHEMA,), events="memory")

    def write(db: Connection) -> None:
        for n, text in enumerate(["Ada likes tea", long], start=1):
            memory = db.execute(INSERT_EVENT, event_row(make_event(n, text))).lastrowid
            vector = FakeEmbedder()._dense(text).tobytes()
            db.execute("insert into vector values (?, ?, ?)", (memory, FakeEmbedder().identity, vector))

    await old.write(write)
    await old.close()
    async with store(tmp_path, embedder := FakeEmbedder()) as backend:
        await backend.settle()
        assert set(embedder.encoded) == set(spoken_passages(long, None))
        described = await backend.describe()
        assert (described.items, described.vectors, described.vectors_pending) == (2, 2, 0)
        assert [hit.event_id for hit in await backend.search(make_query("Paragraph2", limit=1))] == [event_id(2)]
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite")) as db:
        assert db.execute("select memory, count(*) from vector group by memory").fetchall() == [(1, 1), (2, 3)]


async def test_it_is_one_small_file(tmp_path: Path) -> None:
    """A hundred memories of 32 dimensions: one file besides SQLite's own, readable by its owner alone."""
    async with store(tmp_path, FakeEmbedder()) as backend:
        await backend.remember([make_extracted(make_event(n, f"memory number {n}")) for n in range(1, 101)])
        await backend.settle()
    (file,) = tmp_path.iterdir()
    assert file.name == "vectors.sqlite"
    assert file.stat().st_size < 300_000
    assert file.stat().st_mode & 0o077 == 0


async def test_a_damaged_file_is_reported_with_the_fix(tmp_path: Path) -> None:
    """It is never replaced by an empty one; moved away, the journal fills another."""
    (tmp_path / "vectors.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreDamaged, match="journal"):
        await VectorSqlite.open(Opening("vector_sqlite", tmp_path))


@pytest.mark.parametrize(
    "options", [{"weight": 1}, {"vector_weight": "much"}, {"text_weight": 2}, {"vector_weight": 0, "text_weight": 0}]
)
async def test_an_option_that_makes_no_sense_is_named(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"\[backends.vector_sqlite\].*weight"):
        await VectorSqlite.open(Opening("vector_sqlite", tmp_path, options))


# As the fallback of the others


@pytest.mark.row(
    "A119", "… it is asked when the others fail, or always, by setting", of="`vector_sqlite`: one small file"
)
async def test_it_is_asked_when_the_others_fail_or_always_by_setting(tmp_path: Path) -> None:
    """Both stores hold the memory: the fallback is left alone while the other answers, and asked once it does not."""
    stores: dict[str, dict[str, Any]] = {
        "memory": {"adapter": "adapters.inmemory:InMemory"},
        "vector_sqlite": {"adapter": "adapters.vector_sqlite:VectorSqlite", "fallback_for": ["memory"]},
    }

    async def asked(gateway: Gateway) -> dict[str, str]:
        fused = await gateway.fuse("Does Ada like tea?", timeout_ms=60_000)
        assert "Ada likes tea." in fused.block
        return {row["name"]: row["status"] for row in fused.backends}

    plain = {"backends_only": True, "embedder": {"adapter": ""}}
    async with Gateway.open(load(home=tmp_path, backends=stores, **plain)) as gateway:
        await gateway.remember([NewMemory(text="Ada likes tea.")])
        await gateway.settle()
        assert await asked(gateway) == {"memory": "ok", "vector_sqlite": "skipped"}
    stores["memory"]["enabled"] = False
    async with Gateway.open(load(home=tmp_path, backends=stores, **plain)) as gateway:
        assert await asked(gateway) == {"memory": "disabled", "vector_sqlite": "ok"}
    stores["memory"]["enabled"] = True
    del stores["vector_sqlite"]["fallback_for"]
    async with Gateway.open(load(home=tmp_path, backends=stores, **plain)) as gateway:
        await gateway.settle()
        assert (await asked(gateway))["vector_sqlite"] == "ok"
