"""What grows by itself is bounded in bytes: receipts, caches, write-ahead logs, the server's log."""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from adapters.embedders.cache import VectorStore
from adapters.embedders.encoder import DIMENSIONS, Encoded
from adapters.embedders.http_embedder import HttpEmbedder
from adapters.embedders.openai import OPENAI
from adapters.embedders.options import Options
from fusion.contract import TokenVectors
from fusion.doors.http.serve import Server, bound_log
from fusion.errors import NotFound
from fusion.gateway.gateway import Gateway
from fusion.journal import Journal
from fusion.recall.receipt import Receipt
from fusion.recall.receipt_store import ReceiptFile, ReceiptStore
from fusion.settings import EmbedderSettings
from fusion.store.sqlite import WAL_BYTES, connect
from tests.adapters.embedders.helpers import token_bytes
from tests.doors.fakes import FakeFusion, app_over
from tests.gateway.helpers import small
from tests.ingest.helpers import event
from tests.patience import load

MB = 1 << 20


def receipt(number: int) -> Receipt:
    draw = random.Random(number)
    noise = [draw.random() for _ in range(2000)]
    return Receipt(f"r{number}", "default", time.time() - 1000 + number, {"user_id": None, "noise": noise}, {})


@pytest.mark.feature("receipts stay within their bound in bytes: the oldest are deleted and the file shrinks")
async def test_receipts_keep_to_their_bytes_and_the_oldest_go(tmp_path: Path) -> None:
    """The file shrinks, the newest stay, also in a file that was made without a bound."""
    file = tmp_path / "receipts.sqlite"
    free = ReceiptStore(ReceiptFile(file), keep_days=7)
    for number in range(60):
        free.keep(receipt(number))
        await free.flush()
    await free.close()
    before = file.stat().st_size
    assert before > 600_000
    bound = ReceiptStore(ReceiptFile(file, max_bytes=300_000), keep_days=7)
    for number in range(60, 70):
        bound.keep(receipt(number))
        await bound.flush()
    assert (await bound.read("r69", "default"))["noise"]
    with pytest.raises(NotFound):
        await bound.read("r0", "default")
    await bound.close()
    assert file.stat().st_size <= 320_000
    assert file.with_name("receipts.sqlite-wal").exists() is False


async def test_receipts_max_mb_limits_the_receipts_of_a_home(home: Path) -> None:
    """The gateway's receipts keep to the bound of the settings."""
    settings = small(home)
    settings = settings.model_copy(update={"receipts": settings.receipts.model_copy(update={"max_mb": 0.3})})
    async with Gateway.open(settings) as gateway:
        for number in range(60):
            gateway.receipts.keep(receipt(number))
            await gateway.receipts.flush()
    assert (home / "receipts.sqlite").stat().st_size <= 320_000


@pytest.mark.feature("the journal's write-ahead log is truncated to its bound")
async def test_the_journals_log_is_cut_back(tmp_path: Path) -> None:
    """A burst of writes lets it grow; once it is in the file, it has its bound again."""
    file = tmp_path / "journal.sqlite"
    journal = await Journal.open(file, wal_bytes=200_000)
    log = file.with_name("journal.sqlite-wal")
    await journal.append([event(f"turn {n} " + "word " * 500, n) for n in range(3000)])
    grown = log.stat().st_size
    assert grown > 5_000_000
    for n in range(3):
        await journal.append([event(f"late {n}", 10_000 + n)])
    assert log.stat().st_size <= 200_000
    await journal.close()


@pytest.mark.feature("`[server] log_mb` sets the size at which the server's log is rotated")
@pytest.mark.parametrize("log_mb", [0.001, 8.0])
def test_log_mb_sets_the_size_of_a_full_log(tmp_path: Path, log_mb: float) -> None:
    settings = load(home=tmp_path, server={"log_mb": log_mb})
    log, full = tmp_path / "server.log", int(log_mb * 1_000_000)
    server = Server(app_over(FakeFusion(), settings), settings)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"a" * full)
        bound_log(log, server.log_bytes, descriptor)
        assert log.stat().st_size == full
        os.write(descriptor, b"b")
        bound_log(log, server.log_bytes, descriptor)
        assert log.stat().st_size == 0
    finally:
        os.close(descriptor)


@pytest.mark.feature("a full server log is rotated, and one is kept")
def test_a_full_log_is_kept_once_and_begun_anew(tmp_path: Path) -> None:
    """Only the file that the process writes to, and only when it is full."""
    log = tmp_path / "server.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"a" * 500)
        bound_log(log, 1000, descriptor)
        assert log.stat().st_size == 500
        os.write(descriptor, b"b" * 600)
        bound_log(tmp_path / "another.log", 1000, descriptor)
        assert log.stat().st_size == 1100
        bound_log(log, 1000, descriptor)
        os.write(descriptor, b"next")
        assert log.read_bytes() == b"next"
        assert (tmp_path / "server.log.1").read_bytes() == b"a" * 500 + b"b" * 600
    finally:
        os.close(descriptor)


@pytest.mark.feature("the cache of vectors stays within its bound on disk, and the latest stay")
@pytest.mark.parametrize("dimensions", [384, 1536, 3072])
def test_vectors_of_texts_keep_to_their_bytes_on_the_disk(tmp_path: Path, dimensions: int) -> None:
    """Some 12 MB of vectors go into a cache of 4 MB, a few at a time; a restart counts what is there."""
    file = tmp_path / "model.sqlite"
    vector = np.ones(dimensions, np.float32)
    texts = [f"text {n}" for n in range(12 * MB // (4 * dimensions))]
    half = len(texts) // 2
    for part in (texts[:half], texts[half:]):
        store = VectorStore(file, dimensions, 0, 4 * MB)
        for first in range(0, len(part), 50):
            store.put_dense(dict.fromkeys(part[first : first + 50], vector))
        last = store.dense(part[-50:])
        store.close()
        assert len(last) == 50
    assert file.stat().st_size <= 4.5 * MB
    with_all = VectorStore(file, dimensions, 0, 4 * MB)
    kept = with_all.dense(texts)
    with_all.close()
    assert len(kept) * 4 * dimensions > 2 * MB
    assert texts[0] not in kept


def test_vectors_of_tokens_go_with_their_texts(tmp_path: Path) -> None:
    """Where the bound of texts is reached first, no token vectors are left of what went."""
    file = tmp_path / "model.sqlite"
    store = VectorStore(file, DIMENSIONS, 64 * MB, MB)
    tokens = TokenVectors(np.ones((4, DIMENSIONS), np.int8), 0.01)
    one = Encoded(np.ones(DIMENSIONS, np.float32), tokens)
    texts = [f"text {n}" for n in range(2000)]
    for first in range(0, len(texts), 50):
        store.put(dict.fromkeys(texts[first : first + 50], one))
    kept = store.tokens(texts)
    assert token_bytes(file) == len(kept) * tokens.vectors.nbytes
    assert texts[0] not in kept
    assert texts[-1] in kept
    store.close()


def test_the_log_of_a_cache_and_of_a_store_is_cut_back(tmp_path: Path) -> None:
    """A burst of writes lets it grow beyond the bound; the writes after it cut it back."""
    store = VectorStore(tmp_path / "model.sqlite", DIMENSIONS, 0, 256 * MB)
    vector = np.ones(DIMENSIONS, np.float32)
    store.put_dense({f"text {n}": vector for n in range(20_000)})
    log = tmp_path / "model.sqlite-wal"
    assert log.stat().st_size > WAL_BYTES
    for n in range(3):
        store.put_dense({f"late {n}": vector})
    assert log.stat().st_size <= WAL_BYTES
    store.close()
    with closing(connect(tmp_path / "store.sqlite")) as db:
        db.execute("create table item(body blob)")
        db.execute("begin")
        db.executemany("insert into item values(?)", [(b"x" * 100_000,)] * 300)
        db.execute("commit")
        assert (tmp_path / "store.sqlite-wal").stat().st_size > WAL_BYTES
        for _ in range(3):
            db.execute("insert into item values('late')")
        assert (tmp_path / "store.sqlite-wal").stat().st_size <= WAL_BYTES


async def test_the_settings_bound_the_cache_of_a_provider_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    """`[embedder] dense_cache_mb` and `dense_store_mb`, as they stand in the settings."""
    chosen = EmbedderSettings(provider="openai", dense_cache_mb=3, dense_store_mb=5)
    embedder = await HttpEmbedder.open(OPENAI, tmp_path, Options.of(chosen.options))
    vector = np.ones(embedder.dimensions, np.float32)
    for n in range(1000):
        embedder._hold(embedder._dense, f"text {n}", vector)
    assert 2 * MB < embedder._dense.bytes <= 3 * MB
    for n in range(20):
        embedder._store.put_dense({f"text {n}-{m}": vector for m in range(100)})
    await embedder.close()
    (file,) = tmp_path.glob("*.sqlite")
    assert file.stat().st_size <= 5.5 * MB
