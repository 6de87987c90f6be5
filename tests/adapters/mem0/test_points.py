"""Local points without pickles: what a planted one does, what is brought over, and what a point keeps."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient
from qdrant_client import models as shapes

from adapters.mem0 import Mem0, payload_of
from adapters.mem0.embedded import collection_of
from adapters.mem0.local import FILE, LOCK, SCHEMA, Points, open_client, opened
from adapters.mem0.unpickle import OLD, Refused, brought_over, point_of
from fusion.contract import Hit, Opening, Scope
from fusion.errors import StoreBusy, StoreDamaged
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.backend_contract import make_query, make_samples
from tests.fakes import FakeEmbedder
from tests.patience import load

QUESTIONS = ("Quentin adopted a greyhound called Biscuit.", "greyhound", "who moved to Lisbon?", "payments database")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mem0"
    folder.mkdir(mode=0o700)
    return folder


async def mem0(folder: Path) -> Mem0:
    return await Mem0.open(Opening("mem0", folder, {}, FakeEmbedder()))


async def answers(folder: Path) -> list[list[Hit]]:
    """The hits of all questions, in their order, with all they carry."""
    backend = await mem0(folder)
    found = [list(await backend.search(make_query(question, limit=20))) for question in QUESTIONS]
    await backend.close()
    return found


def old_client(folder: Path) -> QdrantClient:
    return QdrantClient(path=str(folder / OLD))


async def old_home(folder: Path) -> None:
    """The samples as earlier versions stored them: by mem0's collection in qdrant-client's own format."""
    embedder = FakeEmbedder()
    events = [extracted.event for extracted in make_samples(Scope(user_id="ada", session_id="s1"))]
    texts = [event.text if event.speaker is None else f"{event.speaker}: {event.text}" for event in events]
    vectors = (await embedder.embed(texts)).tolist()
    client = old_client(folder)
    client.create_collection(
        collection_of("memories", embedder),
        vectors_config=shapes.VectorParams(size=len(vectors[0]), distance=shapes.Distance.COSINE, on_disk=True),
        sparse_vectors_config={"bm25": shapes.SparseVectorParams(modifier=shapes.Modifier.IDF)},
    )
    points = [
        shapes.PointStruct(id=event.event_id, vector={"": vector}, payload=dict(payload_of(event)))
        for event, vector in zip(events, vectors, strict=True)
    ]
    client.upsert(collection_of("memories", embedder), points)
    client.close()


class Bomb:
    """What a pickle runs when it is read, wherever it is."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, int]]:
        return os.mkdir, (str(self.marker), 0o700)


def plant(folder: Path, value: bytes) -> None:
    """Puts a pickle next to the points of an old home."""
    [file] = (folder / OLD / "collection").glob("*/storage.sqlite")
    with closing(sqlite3.connect(file)) as db, db:
        key = base64.b64encode(pickle.dumps("00000000-0000-0000-0000-000000000001", 4)).decode()
        db.execute("insert into points values (?, ?)", (key, value))


# A planted pickle


@pytest.mark.feature("mem0's local points are stored without pickles: a planted pickle does nothing")
async def test_a_planted_pickle_in_an_old_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    """qdrant-client itself would run it. The folder is set aside whole, by a name that says so; the store is empty."""
    await old_home(folder)
    marker = tmp_path / "marker"
    plant(folder, pickle.dumps(Bomb(marker)))
    shutil.copytree(folder, copy := tmp_path / "copy")
    with pytest.raises(AttributeError):
        old_client(copy)
    marker.rmdir()  # so the pickle does what it is here to do
    backend = await mem0(folder)
    assert (await backend.describe()).items == 0
    await backend.close()
    assert not marker.exists()
    assert sorted(path.name for path in folder.iterdir() if OLD in path.name) == ["qdrant.refused"]
    backend = await mem0(folder)  # and no later start reads it
    await backend.close()
    assert not marker.exists()


@pytest.mark.feature("… refused points are filled again from the journal", of="mem0's local points are stored")
async def test_what_was_refused_is_filled_again_from_the_journal(home: Path, tmp_path: Path) -> None:
    """Memories of a home whose mem0 folder was tampered with are there after the start, and status says what was not
    read."""
    settings = load(
        home=home, backends_only=True, embedder={"adapter": ""}, backends={"mem0": {"adapter": "adapters.mem0:Mem0"}}
    )
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory("The harbour crane is green")])
        await gateway.settle()
    [file] = home.rglob(FILE)
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
        file.with_name(name).unlink(missing_ok=True)
    await old_home(file.parent)
    plant(file.parent, pickle.dumps(Bomb(tmp_path / "marker")))
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        [row] = await gateway.backends()
        assert row["items"] == 1
        [row] = (await gateway.status())["backends"]
        assert "qdrant.refused" in row["notes"][0]
        assert not row["degraded"]
    assert not (tmp_path / "marker").exists()


async def test_a_pickle_in_the_new_file_is_no_vector(folder: Path, tmp_path: Path) -> None:
    """Where a vector or a payload should be there is a pickle: the store is damaged, and nothing is run."""
    backend = await mem0(folder)
    await backend.remember(make_samples())
    await backend.close()
    bomb = pickle.dumps(Bomb(tmp_path / "marker"))
    for column, value in (("vector", bomb), ("payload", bomb), ("named", bomb), ("named", '{"bm25": []}'), ("id", "x")):
        shutil.copytree(folder, planted := tmp_path / f"planted-{column}-{len(value)}")
        with closing(sqlite3.connect(planted / FILE)) as db, db:
            db.execute(f"update point set {column} = ? where number = 3", (value,))
        backend = await mem0(planted)
        with pytest.raises(StoreDamaged, match="move it away"):
            await backend.check()
        if column != "id":
            with pytest.raises(StoreDamaged, match="move it away"):
                await backend.search(make_query(QUESTIONS[0], limit=20))
        await backend.close()
    assert not (tmp_path / "marker").exists()


def gadgets() -> Iterator[Any]:
    """Pickles that reach a function in different ways."""
    yield b"cos\nmkdir\n(S'%s'\ntR."
    yield b'cbuiltins\neval\n(S\'__import__("os").mkdir("%s")\'\ntR.'
    yield b"(S'%s'\nios\nmkdir\n."
    yield b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93\x8c%c%s\x85R."
    yield b"cqdrant_client.http.models.models\nPointStruct\n(S'%s'\ntR."
    yield b"cqdrant_client.http.models.models\nSparseVector.__init__.__globals__\n."
    yield b"Pfile\n."
    yield b"\x82\x01."
    yield b"cqdrant_client.local.persistence\npickle.loads\n(S'%s'\ntR."


@pytest.mark.parametrize("gadget", [*gadgets()])
def test_no_pickle_reaches_a_function(gadget: bytes, tmp_path: Path) -> None:
    path = str(tmp_path / "m").encode()
    value = gadget.replace(b"%c", bytes([len(path)])).replace(b"%s", path)
    with pytest.raises(Refused):
        point_of(value)
    assert not (tmp_path / "m").exists()


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_a_point(value: bytes) -> None:
    """Never another error: what cannot be read is refused by name."""
    with suppress(Refused):
        assert type(point_of(value)) is shapes.PointStruct


def test_a_pickle_of_a_few_bytes_takes_no_gigabytes() -> None:
    """LONG_BINPUT 2^29: the memo of the unpickler would get room for as many pointers, 4 GB."""
    memo = pickle.NONE + pickle.LONG_BINPUT + (1 << 29).to_bytes(4, "little") + pickle.STOP
    with pytest.raises(Refused, match="more objects than it has bytes"):
        point_of(memo)


def test_a_point_that_unfolds_without_end_is_refused() -> None:
    """Forty lists that each hold the one before twice are a terabyte as JSON."""
    deep: list[Any] = []
    for _ in range(40):
        deep = [deep, deep]
    point = shapes.PointStruct.model_construct(id=1, vector=[1.0], payload={"a": deep})
    with pytest.raises(Refused, match="too large"):
        point_of(pickle.dumps(point))


# Nothing leads outside


@pytest.mark.feature("… no path in it leads outside", of="mem0's local points are stored")
async def test_an_old_folder_leads_nowhere_else(folder: Path, tmp_path: Path) -> None:
    """Links in place of its parts, and names in meta.json that climb out: set aside, and what is outside untouched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    await old_home(outside)
    name = collection_of("memories", FakeEmbedder())
    before = sorted(path.name for path in outside.rglob("*"))

    def linked(part: str) -> Callable[[Path], None]:
        def link(old: Path) -> None:
            path = old / part
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(outside / OLD / part)

        return link

    def climbing(old: Path) -> None:
        meta = json.loads((old / "meta.json").read_text())
        meta["collections"] = {f"../../../outside/{OLD}/collection/{name}": meta["collections"][name]}
        (old / "meta.json").write_text(json.dumps(meta))

    tampered = [linked("meta.json"), linked("collection"), linked(f"collection/{name}/storage.sqlite"), climbing]
    for number, tamper in enumerate(tampered):
        here = folder / str(number)
        shutil.copytree(outside, here)
        tamper(here / OLD)
        brought_over(here)
        assert not (here / FILE).exists()
        assert (here / "qdrant.refused").exists()
    here = folder / "whole"
    here.mkdir()
    (here / OLD).symlink_to(outside / OLD)
    brought_over(here)
    assert sorted(path.name for path in outside.rglob("*")) == before


async def test_links_in_place_of_the_new_files_are_refused(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (folder / FILE).symlink_to(target)
    with pytest.raises(StoreDamaged, match="is a link"):
        await mem0(folder)
    (folder / FILE).unlink()
    (folder / LOCK).unlink(missing_ok=True)
    (folder / LOCK).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        await mem0(folder)
    assert not target.exists()


async def test_a_second_opener_gets_an_error_that_the_folder_is_in_use(folder: Path) -> None:
    backend = await mem0(folder)
    with pytest.raises(StoreBusy, match="another process"):
        await mem0(folder)
    await backend.close()


# Brought over


@pytest.mark.feature(
    "… a folder of an earlier version is migrated and answers as before", of="mem0's local points are stored"
)
async def test_an_old_home_answers_as_before(folder: Path, tmp_path: Path) -> None:
    """The same ids, payloads, scores and order as the library gives on the old folder; which is gone then."""
    await old_home(folder)
    name = collection_of("memories", FakeEmbedder())
    client = old_client(folder)
    vectors = (await FakeEmbedder().embed(QUESTIONS)).tolist()
    before = [client.query_points(name, query=vector, limit=20).points for vector in vectors]
    client.close()
    brought_over(folder)
    assert not (folder / OLD).exists()
    assert (folder / FILE).stat().st_mode & 0o077 == 0
    client = open_client(folder)
    after = [client.query_points(name, query=vector, limit=20).points for vector in vectors]
    client.close()
    assert [[(p.id, p.payload) for p in points] for points in after] == [
        [(p.id, p.payload) for p in points] for points in before
    ]
    scores = [[p.score for p in points] for points in after]
    assert np.allclose([s for one in scores for s in one], [p.score for one in before for p in one], atol=1e-6)
    first = await answers(folder)
    assert [len(hits) > 0 for hits in first] == [True] * len(QUESTIONS)
    assert await answers(folder) == first


@pytest.mark.feature("… an interrupted migration continues", of="mem0's local points are stored")
@pytest.mark.parametrize("state", ["half a copy", "copied, not removed", "half removed"])
async def test_cut_off_it_goes_on(folder: Path, tmp_path: Path, state: str) -> None:
    """The states that a kill can leave: each start ends with the same points and no old folder."""
    await old_home(folder)
    shutil.copytree(folder, whole := tmp_path / "whole")
    expected = await answers(whole)
    if state == "half a copy":
        with closing(opened(folder / f"{FILE}.new")) as db:
            db.execute("insert into collection values ('half', '{')")
        (folder / f"{FILE}.new-wal").write_bytes(b"junk")
    else:
        shutil.copy(whole / FILE, folder / FILE)
        if state == "half removed":
            (folder / OLD / "meta.json").unlink()
    assert await answers(folder) == expected
    assert not (folder / OLD).exists()
    assert not (folder / f"{FILE}.new").exists()


# What a point keeps

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
SURROGATES = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.uuids().map(str) | st.integers(0, 2**63 - 1),
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
    st.dictionaries(SURROGATES, JSON, max_size=4),
)
def test_a_point_comes_back_as_it_was(point_id: str | int, vector: list[float], payload: dict[str, Any]) -> None:
    """Id, vector and payload; put again under its id, it is one point; deleted, it is none."""
    config = shapes.CreateCollection(vectors=shapes.VectorParams(size=4, distance=shapes.Distance.COSINE))
    with closing(memory()) as db:
        points = Points(db, "c", config)
        sparse = shapes.SparseVector(indices=[1, 5], values=[0.5, 2.0])
        for _ in range(2):
            points.persist(shapes.PointStruct(id=point_id, vector={"": vector, "bm25": sparse}, payload=payload))
        [found] = points.load()
        assert (found.id, found.payload) == (point_id, payload)
        assert isinstance(found.vector, dict)
        assert found.vector["bm25"] == sparse
        assert np.array_equal(np.asarray(found.vector[""]), np.asarray(vector, dtype=np.float32))
        points.delete(point_id)
        assert list(points.load()) == []


def memory() -> sqlite3.Connection:

    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(SCHEMA)
    return db


async def test_mem0_writes_its_own_file_through_no_link(folder: Path, tmp_path: Path) -> None:
    (folder / "mem0").symlink_to(tmp_path)
    with pytest.raises(StoreDamaged, match="is a link"):
        await mem0(folder)
    assert not (tmp_path / "config.json").exists()


def test_changes_are_all_or_none_in_the_engine_and_in_the_file(folder: Path) -> None:
    """A block that fails leaves what was there, in answers and after the next start; so do the collections."""
    client = open_client(folder)
    client.create_collection("c", vectors_config=shapes.VectorParams(size=1, distance=shapes.Distance.DOT))
    client.upsert("c", [shapes.PointStruct(id=n, vector=[1.0], payload={"n": n}) for n in (1, 2)])

    def fail() -> None:
        with client.engine.together():
            client.delete("c", points_selector=[1])
            client.upsert("c", [shapes.PointStruct(id=3, vector=[1.0], payload={})])
            raise sqlite3.OperationalError("database or disk is full")

    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError):
            fail()
        assert [point.id for point in client.scroll("c")[0]] == [1, 2]
        client.close()
        client = open_client(folder)
    assert [point.id for point in client.scroll("c")[0]] == [1, 2]
    client.delete_collection("c")
    client.close()
    client = open_client(folder)
    assert client.get_collections().collections == []
    client.close()


async def test_a_deleted_text_is_in_no_file_while_the_store_is_open(folder: Path) -> None:
    """Neither in the file nor in its write-ahead log, also where a point of another collection stays."""
    backend = await mem0(folder)
    secret, kept = make_samples()[:2]
    natives = await backend.remember((secret, kept))
    assert secret.event.text.encode() in content(folder)
    assert await backend.forget(secret.event.event_id, natives[0]) == "deleted"
    assert secret.event.text.encode() not in content(folder)
    assert kept.event.text.encode() in content(folder)
    await backend.close()


def content(folder: Path) -> bytes:
    """All bytes of the files of a store."""
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file())
