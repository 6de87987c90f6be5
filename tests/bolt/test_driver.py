"""The pool of Bolt connections against a server that misbehaves on order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.bolt.dialects import MEMGRAPH, NEO4J, Schema, TextIndex, VectorIndex
from adapters.bolt.driver import Bolt, Run
from adapters.bolt.options import Server
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from tests.bolt.stub import Asked, Failure, Garbage, Hang, Lost, Rows, Stub

LONG = 30.0
"""a deadline that no test depends on"""

CONFLICT = Failure("Memgraph.TransientError.MemgraphError.MemgraphError", "Cannot resolve conflicting transactions.")


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with Stub() as running:
        yield running


@pytest.fixture
async def bolt(stub: Stub) -> AsyncIterator[Bolt]:
    opened = Bolt(Server(stub.url, connect_ms=30_000), MEMGRAPH)
    yield opened
    await opened.close()


async def test_a_read_is_a_read_transaction(stub: Stub, bolt: Bolt) -> None:
    """Queries run where the server itself refuses to write; values are sent as parameters, not in the statement."""
    stub.otherwise = Rows(["id"], [["a"], ["b"]])
    rows = await bolt.read("MATCH (n {name: $name}) RETURN n.id AS id", {"name": '"]->(n) DETACH DELETE n //'}, LONG)
    assert rows == [{"id": "a"}, {"id": "b"}]
    asked = stub.asked[0]
    assert asked == Asked("MATCH (n {name: $name}) RETURN n.id AS id", {"name": '"]->(n) DETACH DELETE n //'}, "r")


async def test_a_write_is_a_write_transaction(stub: Stub, bolt: Bolt) -> None:
    """Several statements of one work share one transaction."""

    async def work(run: Run) -> None:
        await run("CREATE (:A)")
        await run("CREATE (:B)")

    await bolt.writing(work, LONG)
    assert [(asked.statement, asked.mode) for asked in stub.asked] == [("CREATE (:A)", "w"), ("CREATE (:B)", "w")]


@pytest.mark.feature("Bolt: an empty user and password mean no login", part="faults/backends")
@pytest.mark.feature("bolt (cortex, neo4j): `auth=None`", part="faults/adapters")
async def test_nobody_logs_on_with_two_empty_texts(stub: Stub, bolt: Bolt) -> None:
    """Older Memgraphs refuse a client that says nothing of itself."""
    await bolt.read("RETURN 1", {}, LONG)
    assert stub.log_ons == [("", "")]


async def test_two_writers_that_met_are_tried_again(stub: Stub, bolt: Bolt) -> None:
    """Memgraph's conflict is transient: the whole work runs again, until it goes through."""
    stub.schedule.extend([CONFLICT, CONFLICT, Rows(["n"], [[1]])])
    assert await bolt.write("MERGE (n) RETURN 1 AS n", {}, LONG) == [{"n": 1}]
    assert len(stub.asked) == 3


async def test_a_conflict_at_the_commit_is_tried_again(stub: Stub, bolt: Bolt) -> None:
    """Memgraph tells some conflicts only when it commits."""
    stub.commits.append(CONFLICT)
    await bolt.write("MERGE (n)", {}, LONG)
    assert len(stub.asked) == 2


async def test_what_stays_busy_ends_with_the_deadline(stub: Stub, bolt: Bolt) -> None:
    """Repeating has an end: the caller's deadline, and the error says what was in the way."""
    stub.otherwise = CONFLICT
    with pytest.raises(BackendTimeout, match="was busy until the end"):
        await bolt.write("MERGE (n)", {}, 0.2)
    assert len(stub.asked) > 1


@pytest.mark.feature("Bolt: a server that hangs is abandoned at the deadline", part="faults/backends")
@pytest.mark.feature("bolt (cortex, neo4j): hangs", part="faults/adapters")
async def test_the_deadline_covers_everything(stub: Stub, bolt: Bolt) -> None:
    """A server that hangs is left at the deadline; the pool serves the next question."""
    stub.schedule.append(Hang())
    with pytest.raises(BackendTimeout, match="no answer within 100 ms"):
        await bolt.read("RETURN 1", {}, 0.1)
    stub.otherwise = Rows(["n"], [[2]])
    assert await bolt.read("RETURN 2 AS n", {}, LONG) == [{"n": 2}]


@pytest.mark.feature(
    "Bolt: after a reset within a result, the query is repeated and nothing of the first part stays",
    part="faults/backends",
)
@pytest.mark.feature("bolt (cortex, neo4j): a reset in mid-result", part="faults/adapters")
async def test_a_reset_in_mid_result_is_asked_again(stub: Stub, bolt: Bolt) -> None:
    """Half a result is none: the query runs once more on a new connection, and nothing of the first half stays."""
    stub.schedule.extend([Lost(["n"], [[1], [2]]), Rows(["n"], [[1], [2], [3]])])
    assert await bolt.read("MATCH (n) RETURN n", {}, LONG) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert stub.connections == 2


@pytest.mark.feature("bolt (cortex, neo4j): resets again and again", part="faults/adapters")
async def test_a_server_that_keeps_resetting_is_unreachable(stub: Stub, bolt: Bolt) -> None:
    """One more try, not many: the next question is the breaker's to allow."""
    stub.otherwise = Lost(["n"], [[1]])
    with pytest.raises(BackendUnreachable, match="the connection was lost"):
        await bolt.read("MATCH (n) RETURN n", {}, LONG)
    assert len(stub.asked) == 2


@pytest.mark.feature("Bolt: a commit without a confirmation is not repeated")
async def test_a_commit_that_nobody_confirmed_is_not_repeated(stub: Stub, bolt: Bolt) -> None:
    """It may have happened: what counts something must not count twice."""
    stub.commits.append(Lost())
    with pytest.raises(BackendUnreachable, match="it may have happened"):
        await bolt.write("MATCH (n) SET n.count = n.count + 1", {}, LONG)
    assert len(stub.asked) == 1


@pytest.mark.feature("bolt (cortex, neo4j): a restart", part="faults/adapters")
async def test_the_pool_recovers_when_the_server_restarts(stub: Stub, bolt: Bolt) -> None:
    """Earlier connections are dead; the next caller does not notice."""
    await asyncio.gather(*(bolt.read("RETURN 1", {}, LONG) for _ in range(5)))
    await stub.stop()
    with pytest.raises(BackendUnreachable, match="refused"):
        await bolt.read("RETURN 1", {}, LONG)
    await stub.start()
    stub.otherwise = Rows(["n"], [[1]])
    assert await asyncio.gather(*(bolt.read("RETURN 1 AS n", {}, LONG) for _ in range(5))) == [[{"n": 1}]] * 5


async def test_a_restart_between_two_questions_goes_unnoticed(stub: Stub, bolt: Bolt) -> None:
    """The first dead connection empties the pool, and the question is asked again on a new one."""
    await asyncio.gather(*(bolt.read("RETURN 1", {}, LONG) for _ in range(5)))
    await stub.stop()
    await stub.start()
    stub.otherwise = Rows(["n"], [[1]])
    assert await bolt.read("RETURN 1 AS n", {}, LONG) == [{"n": 1}]


@pytest.mark.feature("Bolt: a read-only replica is reported as one, Neo4j's and Memgraph's", part="faults/backends")
@pytest.mark.feature(
    "bolt (cortex, neo4j): a read-only replica, and other failures by their codes", part="faults/adapters"
)
@pytest.mark.parametrize(
    ("failure", "error", "words"),
    [
        (Failure("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase"), BackendUnreachable, "replica that only reads"),
        (
            Failure("Memgraph.ClientError.MemgraphError.MemgraphError", "Write queries are forbidden on the replica…"),
            BackendUnreachable,
            "replica that only reads",
        ),
        (
            Failure("Memgraph.TransientError.MemgraphError.MemgraphError", "…because of transaction timeout."),
            BackendTimeout,
            "its own time limit",
        ),
        (Failure("Neo.ClientError.Transaction.TransactionTimedOut"), BackendTimeout, "its own time limit"),
        (Failure("Neo.ClientError.Security.Forbidden"), Unauthorized, "does not accept"),
        (Failure("Neo.ClientError.Database.DatabaseNotFound"), SettingsError, "option database"),
        (Failure("Neo.ClientError.Statement.SyntaxError", "near 'her secret'"), InvalidAnswer, "SyntaxError"),
        (Failure("Neo.ClientError.Schema.ConstraintValidationFailed"), InvalidAnswer, "Constraint"),
        (Failure("Neo.DatabaseError.General.UnknownError", "her secret"), InvalidAnswer, "UnknownError"),
        (Failure("nonsense"), InvalidAnswer, "nonsense"),
    ],
    ids=lambda value: value.code[-30:] if isinstance(value, Failure) else None,
)
async def test_failures_have_names(
    stub: Stub, bolt: Bolt, failure: Failure, error: type[Exception], words: str
) -> None:
    """Each is one of ours, asked once, and quotes nothing that the server said: it may be somebody's memory."""
    stub.otherwise = failure
    with pytest.raises(error, match=words) as caught:
        await bolt.write("MERGE (n)", {}, LONG)
    assert len(stub.asked) == 1
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.feature("bolt (cortex, neo4j): a refused password", part="faults/adapters")
async def test_a_refused_password_is_unauthorized(stub: Stub, tmp_path: Path) -> None:
    """Asked once, and the password is in no message."""
    (tmp_path / "password").write_text("open sesame")
    stub.refuses = Failure("Neo.ClientError.Security.Unauthorized", "bad open sesame")
    bolt = Bolt(Server(stub.url, user="ada", password_file=str(tmp_path / "password"), connect_ms=30_000), NEO4J)
    with pytest.raises(Unauthorized, match="does not accept user and password") as caught:
        await bolt.read("RETURN 1", {}, LONG)
    await bolt.close()
    assert stub.log_ons == [("ada", "open sesame")]
    assert "sesame" not in str(caught.value)


@pytest.mark.feature("bolt (cortex, neo4j): too many refused logins", part="faults/adapters")
async def test_too_many_refused_log_ons_ask_to_wait(stub: Stub, bolt: Bolt) -> None:
    """Neo4j locks a user out for a while."""
    stub.refuses = Failure("Neo.ClientError.Security.AuthenticationRateLimit")
    with pytest.raises(RateLimited):
        await bolt.read("RETURN 1", {}, LONG)


@pytest.mark.feature("bolt (cortex, neo4j): a renewed password", part="faults/adapters")
async def test_a_renewed_password_is_used_without_a_restart(stub: Stub, tmp_path: Path) -> None:
    """The file is read for each question; a connection of before logs on anew."""
    file = tmp_path / "password"
    file.write_text("old\n")
    bolt = Bolt(Server(stub.url, user="ada", password_file=str(file), connect_ms=30_000), NEO4J)
    await bolt.read("RETURN 1", {}, LONG)
    file.write_text("new\n")
    await bolt.read("RETURN 1", {}, LONG)
    file.unlink()
    with pytest.raises(Unauthorized, match="cannot read password_file"):
        await bolt.read("RETURN 1", {}, LONG)
    await bolt.close()
    assert stub.log_ons == [("ada", "old"), ("ada", "new")]


async def test_a_password_of_the_environment(stub: Stub) -> None:
    """Named by its variable; where that is missing the error says which."""
    bolt = Bolt(Server(stub.url, user="ada", password_env="BOLT_TEST_PASSWORD", connect_ms=30_000), NEO4J)
    with pytest.raises(Unauthorized, match="the environment has no BOLT_TEST_PASSWORD"):
        await bolt.read("RETURN 1", {}, LONG)
    os.environ["BOLT_TEST_PASSWORD"] = "secret"
    try:
        await bolt.read("RETURN 1", {}, LONG)
    finally:
        del os.environ["BOLT_TEST_PASSWORD"]
    await bolt.close()
    assert stub.log_ons == [("ada", "secret")]


@pytest.mark.feature("bolt (cortex, neo4j): unreachable", part="faults/adapters")
async def test_no_server_is_unreachable() -> None:
    """Refused at once, and named with its address."""
    async with Stub() as stub:
        url = stub.url
    bolt = Bolt(Server(url), MEMGRAPH)
    with pytest.raises(BackendUnreachable, match=rf"{url}: connection refused"):
        await bolt.read("RETURN 1", {}, LONG)
    await bolt.close()


@pytest.mark.feature("bolt (cortex, neo4j): no such host", part="faults/adapters")
async def test_no_such_host_is_unreachable() -> None:
    """Said as such: it is the first thing to check in a new configuration."""
    bolt = Bolt(Server("bolt://nowhere.invalid"), MEMGRAPH)
    with pytest.raises(BackendUnreachable, match=r"bolt://nowhere\.invalid:7687: no such host"):
        await bolt.read("RETURN 1", {}, LONG)
    await bolt.close()


@pytest.mark.feature("bolt (cortex, neo4j): a server that does not speak Bolt", part="faults/adapters")
@pytest.mark.parametrize(
    "greeting",
    [
        Garbage(),
        Garbage(b""),
        Garbage(b"\x00"),
        Garbage(b"\x00\x00\x00\x00"),
        Garbage(b"\xff" * 64),
        Garbage(b"SSH-2.0\n"),
    ],
    ids=repr,
)
async def test_a_server_without_bolt_is_distinguished_from_a_database(stub: Stub, bolt: Bolt, greeting: bytes) -> None:
    """Another server on that port costs only this backend's answer."""
    stub.greeting = Garbage(greeting)
    with pytest.raises((BackendUnreachable, InvalidAnswer)):
        await bolt.read("RETURN 1", {}, LONG)


@pytest.mark.feature("bolt (cortex, neo4j): garbage", part="faults/adapters")
@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\x01\xc0\x00\x00",  # a value that is no message
        b"\x00\x04\xb1\x70\xff\xff\x00\x00",  # SUCCESS without its map
        b"\x00\x02\xb0\x99\x00\x00",  # a message that does not exist
    ],
)
async def test_a_broken_message_is_an_invalid_answer(stub: Stub, bolt: Bolt, answer: bytes) -> None:
    """Bytes that are no message end this question only."""
    stub.schedule.extend([Garbage(answer), Garbage(answer)])
    with pytest.raises((BackendUnreachable, InvalidAnswer)):
        await bolt.read("RETURN 1", {}, LONG)
    stub.schedule.clear()
    await bolt.read("RETURN 1", {}, LONG)


async def test_a_value_that_bolt_cannot_carry(stub: Stub, bolt: Bolt) -> None:
    """A whole number of more than 64 bits."""
    with pytest.raises(InvalidAnswer):
        await bolt.read("RETURN $n", {"n": 2**70}, LONG)


async def test_closed_is_closed(bolt: Bolt) -> None:
    """Closing twice is harmless, and no question opens it again."""
    await bolt.close()
    await bolt.close()
    with pytest.raises(BackendUnreachable, match="closed"):
        await bolt.read("RETURN 1", {}, LONG)


SCHEMA = Schema(
    unique=[("Memory", "id")],
    indexed=[("Memory", "document")],
    related=[("RELATES", "memory")],
    vectors=[VectorIndex("memory_vector", "Memory", "embedding", 384)],
    texts=[TextIndex("memory_words", "Memory", "words")],
)


@pytest.mark.row("A003", "Bolt: Memgraph's schema and searches use its own dialect")
async def test_memgraphs_schema_in_its_own_words(stub: Stub, bolt: Bolt) -> None:
    """Its own syntax; each statement outside of a transaction that has data in it."""
    await bolt.define(SCHEMA, LONG)
    config = '{"dimension": 384, "capacity": 10000, "metric": "cos"}'
    assert [(asked.statement, asked.mode) for asked in stub.asked] == [
        ("SHOW VECTOR INDEX INFO", "auto"),
        ("SHOW INDEX INFO", "auto"),
        ("CREATE CONSTRAINT ON (n:Memory) ASSERT n.id IS UNIQUE", "auto"),
        ("CREATE INDEX ON :Memory(id)", "auto"),
        ("CREATE INDEX ON :Memory(document)", "auto"),
        ("CREATE EDGE INDEX ON :RELATES(memory)", "auto"),
        (f"CREATE VECTOR INDEX memory_vector ON :Memory(embedding) WITH CONFIG {config}", "auto"),
        ("CREATE TEXT INDEX memory_words ON :Memory(words)", "auto"),
    ]


async def test_memgraphs_indexes_are_made_once(stub: Stub, bolt: Bolt) -> None:
    """What SHOW lists, as Memgraph 3.6 prints it, is not made again: it knows no IF NOT EXISTS."""
    stub.answers["SHOW VECTOR INDEX INFO"] = Rows(
        ["capacity", "dimension", "index_name", "label", "property", "metric", "size", "scalar_kind", "index_type"],
        [[10000, 384, "memory_vector", "Memory", "embedding", "cos", 0, "f32", "label+property_vector"]],
    )
    stub.answers["SHOW INDEX INFO"] = Rows(
        ["index type", "label", "property", "count"],
        [["label+property", "Memory", ["id"], 0], ["label_text (name: memory_words)", "Memory", ["words"], 0]],
    )
    await bolt.define(SCHEMA, LONG)
    assert not [s for s in stub.statements if s.startswith(("CREATE VECTOR", "CREATE TEXT"))]


async def test_an_index_of_another_size_is_reported(stub: Stub, bolt: Bolt) -> None:
    """Vectors of two models are never mixed: the error says what to do."""
    stub.answers["SHOW VECTOR INDEX INFO"] = Rows(["index_name", "dimension"], [["memory_vector", 768]])
    with pytest.raises(SettingsError, match=r"memory_vector holds 768 dimensions.*has 384.*drop the index"):
        await bolt.define(SCHEMA, LONG)
    assert not [s for s in stub.statements if s.startswith("CREATE")]


async def test_memgraph_is_asked_in_its_own_words(stub: Stub, bolt: Bolt) -> None:
    """The search procedures of Memgraph; a distance of .25 is a cosine of .75, said by the query itself."""
    vector, text = SCHEMA.vectors[0], SCHEMA.texts[0]
    assert MEMGRAPH.nearest(vector) == (
        'CALL vector_search.search("memory_vector", $k, $vector) YIELD node, distance '
        "WITH node, 1 - distance AS similarity"
    )
    assert MEMGRAPH.matching(text) == (
        'CALL text_search.search_all("memory_words", $words, {limit: $k}) YIELD node, score WITH node, score'
    )
    assert (MEMGRAPH.drop(vector), MEMGRAPH.drop(text)) == (
        "DROP VECTOR INDEX memory_vector",
        "DROP TEXT INDEX memory_words",
    )
