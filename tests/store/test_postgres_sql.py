"""One SQL for two databases: what PostgreSQL is sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from fusion.store.database import VALUES, replacing
from fusion.store.postgres_sql import statement, step_statements


@pytest.mark.parametrize(
    ("written", "given", "sent", "values"),
    [
        ("select ? , '?', ?", (1, 2), "select $1 , '?', $2", [1, 2]),
        ("select ?1, ?2, ?1", ("a", "b"), "select $1, $2, $1", ["a", "b"]),
        ("select :b, :a, :b, ':c'", {"a": 1, "b": 2}, "select $1, $2, $1, ':c'", [2, 1]),
        (f"a in {VALUES} and b not in {VALUES}", ("[1]", "[]"), "a = any($1) and b <> all($2)", [[1], []]),
        ("a is ? and b is ?", (None, 2), "a is null and b = $1", [2]),
        ("a is not ? and b is not ?", (None, 2), "a is not null and b is distinct from $1", [2]),
        ("a is not 'x' and d is null", (), "a is distinct from 'x' and d is null", []),
        ("a limit ?", (-1,), "a limit $1", [None]),
        ("a is m.a and b is not null", (), "a is not distinct from m.a and b is not null", []),
        ("f(natural) like 'a%' indexed by i", (), "f(\"natural\") ilike 'a%'", []),
    ],
)
def test_a_statement_is_translated(
    written: str, given: Sequence[Any] | Mapping[str, Any], sent: str, values: list[Any]
) -> None:
    assert statement(written).bind(given) == (sent, values)


def test_is_finds_by_an_index_in_postgresql() -> None:
    """``is not distinct from`` reads the whole table, so the text depends on whether the value is null."""
    one = statement("a is ?")
    assert [one.bind((value,))[0] for value in (1, None, 2)] == ["a = $1", "a is null", "a = $1"]


def test_a_search_for_words_is_one_for_lexemes() -> None:
    text, values = statement("select * from t where t.terms match ? order by t.rank limit ?").bind(
        ('"it\'s" OR "a ""b"""', 3)
    )
    assert text == (
        "select * from t where t.lexemes @@ cast($1 as tsquery) "
        "order by -ts_rank(t.lexemes, cast($1 as tsquery)) limit $2"
    )
    assert values == ["'it''s' | 'a \"b\"'", 3]
    assert statement("insert into words(words) values('optimize')").skipped


def test_a_row_replaces_one_with_its_key() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table t(a, b, c, primary key(a, b))")
        put = replacing("t", "a, b", "c")
        db.executemany(put, [(1, 2, "old"), (1, 3, "other"), (1, 2, "new")])
        assert db.execute("select * from t order by b").fetchall() == [(1, 2, "new"), (1, 3, "other")]


def test_a_migration_of_sqlite_is_one_of_postgresql() -> None:
    step = """
    alter table card add column n integer not null default 1;
    create trigger t before delete on card begin select raise(abort, 'no; never'); end;
    insert into card select seq, 'a;b' from event;
    """
    assert step_statements(step) == [
        "alter table card add column n bigint not null default 1",
        "create trigger t before delete on card for each row execute function refuse('no; never')",
        "insert into card select seq, 'a;b' from event",
    ]
