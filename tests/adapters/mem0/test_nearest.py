"""The nearest points: the answers of qdrant-client's local mode, and what they read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as shapes

from adapters.mem0.local import SPARE, Client, Engine, open_client
from adapters.mem0.nearest import Near

NAME = "memories"
SIZE = 8
POINTS = 300


def fill(client: QdrantClient) -> None:
    """Vectors of any length, some of them alike, of the users u0 (every second one) to u3; a tenth is deleted."""
    draw = Random(4)
    client.create_collection(
        NAME, vectors_config=shapes.VectorParams(size=SIZE, distance=shapes.Distance.COSINE), sparse_vectors_config={}
    )
    points = []
    for number in range(POINTS):
        vector = [draw.gauss(0, 3) for _ in range(SIZE)]
        user = f"u{0 if number % 2 else number % 4}"
        points.append(shapes.PointStruct(id=number, vector=vector, payload={"user_id": user, "text": str(number)}))
    client.upsert(NAME, points)
    client.delete(NAME, points_selector=list(range(0, POINTS, 10)))


def of_user(user: str) -> shapes.Filter:
    return shapes.Filter(must=[shapes.FieldCondition(key="user_id", match=shapes.MatchValue(value=user))])


def ask(client: QdrantClient, seed: int, limit: int, among: shapes.Filter | None = None) -> list[tuple[Any, float]]:
    vector = np.array([Random(seed).gauss(0, 1) for _ in range(SIZE)])
    query = shapes.NearestQuery.model_construct(nearest=vector)
    found = client.query_points(NAME, query=query, query_filter=among, limit=limit, with_payload=False)
    return [(point.id, round(point.score, 4)) for point in found.points]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A store that was filled, closed and opened again."""
    first = open_client(tmp_path)
    fill(first)
    first.close()
    opened = open_client(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("among", [None, of_user("u0"), of_user("u2"), of_user("nobody")])
@pytest.mark.parametrize("limit", [1, 20, POINTS])
def test_the_nearest_are_those_of_the_local_mode(client: Client, among: shapes.Filter | None, limit: int) -> None:
    """Ids, scores and order, with deletions, any filter, and vectors that are added after the opening."""
    theirs = QdrantClient(":memory:")
    fill(theirs)
    for each in (client, theirs):
        each.upsert(NAME, [shapes.PointStruct(id=999, vector=[2.0] * SIZE, payload={"user_id": "u0"})])
    for seed in range(5):
        assert ask(client, seed, limit, among) == ask(theirs, seed, limit, among)
    theirs.close()


@pytest.mark.feature("mem0's local search reads only the points that it may answer with, and no start reads them all")
def test_a_search_reads_few_points_and_a_start_none(client: Client) -> None:
    """The local mode itself has every vector and payload in memory."""
    client.engine.ready(NAME)
    assert client.engine.points_in_memory == 0
    assert len(ask(client, 1, 5)) == 5
    assert len(ask(client, 1, 5, of_user("u0"))) == 5
    assert 0 < client.engine.points_in_memory <= 2 * (5 + SPARE)


def test_a_query_with_nan_is_refused(client: Client) -> None:
    query = shapes.NearestQuery.model_construct(nearest=np.array([float("nan")] * SIZE))
    with pytest.raises(ValueError, match="NaN"):
        client.query_points(NAME, query=query, limit=5, with_payload=False)


class NeverWhole(Engine):
    """One that reads no collection as a whole."""

    def _get_collection(self, collection_name: str) -> Any:
        raise AssertionError(f"all of {collection_name} was read")


def test_what_the_gateway_asks_reads_no_collection_as_a_whole(tmp_path: Path) -> None:
    """Storing, reading by id, finding and deleting, as qdrant-client hands the calls on."""
    client = Client(NeverWhole(tmp_path))
    fill(client)
    assert [one.payload["text"] for one in client.retrieve(NAME, ids=[7, 8]) if one.payload] == ["7", "8"]
    assert len(ask(client, 1, 5, of_user("u2"))) == 5
    client.close()


def answers(client: Client) -> list[list[tuple[Any, float]]]:
    return [ask(client, seed, 20, among) for seed in range(5) for among in (None, of_user("u2"))]


@pytest.mark.parametrize("loss", ["deleted", "damaged", "damaged rows"])
def test_lost_rounded_vectors_are_written_again(client: Client, tmp_path: Path, loss: str) -> None:
    """They are made from the points: if their folder is lost or damaged, the next start answers as before."""
    expected = answers(client)
    client.close()
    [folder] = tmp_path.glob("near-*")
    if loss == "deleted":
        shutil.rmtree(folder)
    elif loss == "damaged":
        (folder / "vectors.sqlite").write_bytes(b"no database" * 1000)
    else:
        [rows] = folder.glob("*.i8")
        rows.write_bytes(bytes(rows.stat().st_size))
    again = open_client(tmp_path)
    if loss == "damaged rows":
        again.engine.ready(NAME)
        again.engine.check_near()
    assert answers(again) == expected
    again.close()


@pytest.mark.feature("… after a kill they have what was stored", of="mem0's local search reads only")
def test_a_change_that_was_not_followed_is_followed_at_the_next_start(client: Client, tmp_path: Path) -> None:
    """The process ends between the commit and the rounded vectors: points that are new, replaced and deleted."""
    expected = answers(client)
    client.close()
    shutil.copytree(tmp_path, killed := tmp_path / "killed")
    changed = open_client(tmp_path)
    replaced = [ident for ident, _ in expected[0][:3]]
    new = [shapes.PointStruct(id=1000 + n, vector=[1.0 + n] * SIZE, payload={"user_id": "u2"}) for n in range(3)]
    old = [shapes.PointStruct(id=ident, vector=[-2.0] * SIZE, payload={"user_id": "u2"}) for ident in replaced]
    changed.upsert(NAME, [*new, *old])
    changed.delete(NAME, points_selector=[expected[1][0][0]])
    expected = answers(changed)
    for file in tmp_path.glob("points.sqlite*"):
        shutil.copy(file, killed)
    changed.close()
    near = Near(killed, NAME, SIZE)  # what a replacement does before its commit
    near.drop(replaced)
    near.close()
    again = open_client(killed)
    assert answers(again) == expected
    again.close()


def test_a_change_that_fails_leaves_the_old_vectors(client: Client) -> None:
    """Replaced points are dropped before the commit, and there again if it fails."""
    expected = answers(client)
    ids = [ident for ident, _ in expected[0][:3]]

    def fail() -> None:
        with client.engine.together():
            client.upsert(NAME, [shapes.PointStruct(id=ident, vector=[9.0] * SIZE, payload={}) for ident in ids])
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError):
        fail()
    assert answers(client) == expected


def test_what_mem0_itself_changes_is_found(client: Client) -> None:
    """Vectors and payloads that are changed by the calls of the local mode, one by one and by a filter."""
    client.update_vectors(NAME, [shapes.PointVectors(id=1, vector=[3.0] * SIZE)])
    client.set_payload(NAME, {"user_id": "u9"}, points=[1, 2])
    query = shapes.NearestQuery.model_construct(nearest=np.array([1.0] * SIZE))
    found = client.query_points(NAME, query=query, query_filter=of_user("u9"), limit=5, with_payload=False)
    assert [point.id for point in found.points] == [1, 2]
    client.delete(NAME, points_selector=shapes.FilterSelector(filter=of_user("u9")))
    assert ask(client, 1, 5, of_user("u9")) == []
    assert client.count(NAME).count == POINTS - POINTS // 10 - 2
