"""Rows have one hash in SQLite and in PostgreSQL, and a table is made equal to another one that has other rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fusion.errors import StoreDamaged
from fusion.store import copies
from fusion.store.copies import SqliteTables, equalise
from fusion.store.tables import Sum, Table, hash_in_postgres, row_hash

psycopg = pytest.importorskip("psycopg")

from fusion.store.postgres import Server  # noqa: E402 – imported late, as its package is optional

TABLE = Table("t", {"a": "integer", "b": "text", "c": "blob", "d": "real"}, ("a", "b"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\U0010ffff"), max_size=6)
KEYS = st.tuples(st.integers(-(2**63), 2**63 - 1), TEXTS)
VALUES = st.tuples(st.none() | st.binary(max_size=5), st.none() | st.floats(allow_nan=False))
ROWS = st.dictionaries(KEYS, VALUES, max_size=12)
NEAR = st.dictionaries(st.tuples(st.integers(0, 2), st.sampled_from("ab")), VALUES)
"""rows of which two tables often have the same"""


@pytest.fixture(scope="module")
def connection(journal_server: Server) -> Iterator[Any]:
    with closing(journal_server.connect()) as raw:
        raw.execute('create temporary table t(a bigint, b text collate "C", c bytea, d double precision)')
        yield raw


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
@example({(0, "a\0b"): (b"", -0.0), (1, "1:x"): (None, 5e-324), (-1, "-"): (b"\0", float("inf"))})
def test_a_row_has_one_hash_in_both_databases(connection: Any, rows: dict[Any, Any]) -> None:
    connection.execute("truncate t")
    for key, values in rows.items():
        connection.execute("insert into t values(%s, %s, %s, %s)", (*key, *values))
    found = connection.execute(f"select {hash_in_postgres(TABLE)} from t").fetchall()
    assert sorted(one for (one,) in found) == sorted(row_hash((*key, *values)) for key, values in rows.items())


def test_rows_that_differ_have_different_hashes() -> None:
    rows: list[Sequence[object]] = [
        (None, None), (None, ""), ("", None), ("", ""), (0, None), ("-", None), ("1", "1"), ("11", ""), (b"", b"0"),
        ("1:1", ""), (0.0, 1), (-0.0, 1), (1, 0.0), ("a\0", "b"), ("a", "\0b"),
    ]  # fmt: skip
    assert len({row_hash(row) for row in rows}) == len(rows)
    assert Sum(2, -1).checksum == "f" * 16


class Memory(SqliteTables):
    """A table in memory with these rows; `forgetful`, it loses what it is sent."""

    def __init__(self, rows: dict[Any, Any], *, forgetful: bool = False) -> None:
        super().__init__(sqlite3.connect(":memory:", isolation_level=None))
        self.forgetful = forgetful
        self.db.execute("create table t(a integer, b text, c blob, d real unique, primary key(a, b)) without rowid")
        super().change(TABLE, (), [(*key, *values) for key, values in rows.items()])

    def change(self, table: Table, gone: Sequence[Any], rows: Sequence[Any]) -> None:
        super().change(table, gone, () if self.forgetful else rows)


@settings(max_examples=100)
@given(NEAR, NEAR, st.integers(1, 4))
def test_a_table_is_made_equal_to_another(wanted: dict[Any, Any], there: dict[Any, Any], batch: int) -> None:
    """A unique value may move from one row to another, so all that differs is deleted before a row is added."""
    of_source, of_target = (
        {key: (c, float(n)) for n, (key, (c, _)) in enumerate(rows.items())} for rows in (wanted, there)
    )
    whole, copies.BATCH_ROWS = copies.BATCH_ROWS, batch
    try:
        with closing(Memory(of_source).db) as a, closing(Memory(of_target).db) as b:
            source, target = SqliteTables(a), SqliteTables(b)
            equal, _ = equalise(TABLE, source, target, lambda rows: None)
            assert sorted(source.rows(TABLE)) == sorted(target.rows(TABLE))
            assert equal == source.sum(TABLE)
            assert equalise(TABLE, source, target, lambda rows: None) == (equal, 0)
    finally:
        copies.BATCH_ROWS = whole


def test_a_target_that_loses_rows_is_found_out() -> None:
    source, target = Memory({(1, "a"): (b"x", 1.0)}), Memory({}, forgetful=True)
    with pytest.raises(StoreDamaged, match="the copy of the table t is not equal: it has 0 rows"):
        equalise(TABLE, source, target, lambda rows: None)
    source.db.close()
    target.db.close()
