"""Translates the SQL that modules write for both databases into PostgreSQL's, and a SQLite schema into one of its own.

Where PostgreSQL has no word for something, the schema of each tenant defines a function, or a table, of the same name
(`FUNCTIONS` and `JSON_FUNCTIONS`). What needs another form is rewritten here, once per statement.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

from fusion.store.database import Values

SAFE_PATH = "search_path to pg_catalog, pg_temp"
"""Where a statement of no tenant looks. In ``public`` others may create a function or an operator that takes the types
of a statement more exactly than PostgreSQL's own does; it would be preferred, and run as the gateways' role."""

FUNCTIONS = """
create table sqlite_sequence(name text collate "C" primary key, seq bigint not null);
create function next_number(text) returns bigint language sql as $$
    insert into sqlite_sequence(name, seq) values($1, 1)
    on conflict(name) do update set seq = sqlite_sequence.seq + 1 returning seq
$$;
create function clock_us() returns bigint language sql as $$
    select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)
$$;
create function instr(text, text) returns integer immutable parallel safe language sql as $$ select strpos($1, $2) $$;
create function substr(text, bigint, bigint) returns text immutable parallel safe language sql as $$
    select substr($1, cast($2 as integer), cast($3 as integer))
$$;
create function max(bigint, bigint) returns bigint immutable parallel safe language sql as $$
    select greatest($1, $2)
$$;
create function lexemes(text) returns tsvector immutable parallel safe language sql as $$
    select array_to_tsvector(array(
        select word from unnest(string_to_array($1, ' ')) word where length(word) between 1 and 500
    ))
$$;
create function refuse() returns trigger language plpgsql as $$ begin raise exception '%', tg_argv[0]; end $$;
"""
"""what SQLite has and PostgreSQL lacks; numbers come from a table, so that a rollback takes them back as SQLite does"""

JSON_FUNCTIONS = r"""
create or replace function json_of(text) returns text immutable parallel safe language sql as $$
    select case when strpos($1, E'\\u0000') = 0 then $1
    else replace(replace($1, E'\\\\', E'\\u005c'), E'\\u0000', E'\\udbff\\udfff') end
$$;
create or replace function json_extract(text, text) returns text immutable parallel safe language sql as $$
    select cast(json_of($1) as json) #>> string_to_array(substr($2, 3), '.')
$$;
create or replace function json_type(text, text) returns text immutable parallel safe language sql as $$
    select json_typeof(cast(json_of($1) as json) #> string_to_array(substr($2, 3), '.'))
$$;
create or replace function json_each(text, text) returns table(value text) immutable parallel safe language sql as $$
    select json_array_elements_text(cast(json_of($1) as json) #> string_to_array(substr($2, 3), '.'))
$$;
"""
"""What reads a value of JSON. PostgreSQL reads nothing of a text that has the escape of a NUL, wherever it is, so that
one such row fails each query that looks at it. `json_of` writes the stand-in for a NUL in its place. First it writes
each escaped backslash as a number: what is left of ``\\u0000`` then is a NUL, and not the text behind a backslash.

A schema of a version before has no `json_of`, and other functions of these names."""

FEED = """
create table change(commits bigint not null, kind text collate "C" not null, item text collate "C" not null);
create index change_commits on change(commits);
create function note() returns trigger language plpgsql as $$
declare
    kind text := tg_table_name;
    item text := '';
begin
    if tg_table_name = 'event' then item := new.event_id;
    elsif tg_table_name = 'external_state' then kind := 'external';
    elsif tg_op = 'DELETE' then kind := 'lifted';
    elsif tg_table_name = 'tombstone' then item := new.key;
    else item := json_build_array(new.tenant, new.document, new.line, new.words);
    end if;
    insert into change select commits + 1, kind, item from mark;
    return null;
end $$;
create trigger event_noted after insert or update on event for each row execute function note();
create trigger tombstone_noted after insert or delete on tombstone for each row execute function note();
create trigger hidden_noted after insert or delete on hidden for each row execute function note();
create trigger external_noted after insert or update or delete on external_state for each row execute function note();
"""
"""the changes that the caches of other gateways must learn of, each with the number of its commit"""
RECEIPTS = """
create table receipt(
    seq bigint not null, receipt_id text collate "C" primary key, tenant text collate "C" not null,
    at double precision not null, user_id text collate "C", agent_id text collate "C", session_id text collate "C",
    row text collate "C", body bytea not null
);
create index receipt_seq on receipt(tenant, seq);
create index receipt_at on receipt(at);
"""
"""those of a home are in a file of their own"""

SHARED = {
    "lease": """create table lease(
        name text collate "C" primary key, owner text collate "C" not null, token bigint not null, until bigint not null
    )""",
    "model_call": """create table model_call(
        id bigint generated always as identity primary key, at bigint not null, tokens bigint not null
    )""",
    "request_count": """create table request_count(
        tenant text collate "C" not null, minute bigint not null, requests bigint not null, primary key(tenant, minute)
    )""",
}
"""Tables for gateways that share a database; a home has one process. Which one does a piece of work alone, and until
when, in microseconds. In the schema of the home's owner, the calls of the language model in the last minute, and
the requests of each tenant in this minute and the one before."""

HISTORY = (
    "case when pg_is_in_recovery() then 'replica' else substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) end"
)
"""the timeline of the server's log; a replica that is promoted begins another"""
LAST_CHANGE = f"select (select coalesce(max(commits), 0) from change) || ' ' || {HISTORY} || ' ' || oldest from version"
"""the last commit that other gateways must learn of, its history, and the oldest program that may use the schema"""
CHANGED = "select exists(select 1 from change join mark on change.commits = mark.commits)"
"""whether the transaction that was just counted changed anything of these"""

_REWRITTEN = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"not in \(select value from json_each\(\?\)\)", "<> all(?[])"),
        (r"in \(select value from json_each\(\?\)\)", "= any(?[])"),
        (r"\bterms match \?", "lexemes @@ cast(?~ as tsquery)"),
        (r"\bt\.rank\b", "-ts_rank(t.lexemes, cast(?~ as tsquery))"),
        (r"\((trust = 'untrusted' or origin = 'tool')\)", r"(cast((\1) as integer))"),  # compared with a number
        (r"\blimit \?", "limit ?^"),
        (r" indexed by \w+", ""),
        (r"\bnatural\b", '"natural"'),  # a reserved word
        (r"\bchar\((\d+)\)", r"chr(\1)"),
        (r"\blike\b", "ilike"),  # with the collation "C" it ignores the case of ASCII letters only, as SQLite does
        (r"json_group_array\((\w+)\)", r"cast(coalesce(json_agg(\1), '[]') as text)"),
        (r"lower\(\?\)", 'lower(? collate "C")'),
        (r"\bis not (?=')", "is distinct from "),
        (r"\bis (?='|\w+\.)", "is not distinct from "),
    )
)
_PLACEHOLDER = re.compile(r"'(?:[^']|'')*'|(?P<is>\bis (?:not )?)?(?P<name>\?(?:\[\]|~|\^|\d+)?|:\w+)")
_ONLY_SQLITE = re.compile(r"insert into (\w+)\(\1\) values\('optimize'\)")
"""the upkeep of a full-text index"""
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class Statement:
    """A statement with its parameters: `bind` returns the text and the values that PostgreSQL takes."""

    def __init__(self, sql: str) -> None:
        self.skipped = _ONLY_SQLITE.fullmatch(sql) is not None
        for pattern, replacement in _REWRITTEN:
            sql = pattern.sub(replacement, sql)
        self._parts: list[str] = []
        self._slots: list[tuple[str, str, int | str]] = []
        """of each parameter: ``is`` before it, its kind, and its number or name in the values"""
        end = position = 0
        for found in _PLACEHOLDER.finditer(sql):
            name = found["name"]
            if name is None:
                continue
            self._parts.append(sql[end : found.start()])
            end = found.end()
            kind = name[1:] if name in ("?[]", "?~", "?^") else ""
            if name.startswith(":"):
                key: int | str = name[1:]
            elif name[1:].isdecimal():
                key = int(name[1:]) - 1
            elif kind == "~" and any(slot[1] == "~" for slot in self._slots):
                key = next(slot[2] for slot in self._slots if slot[1] == "~")  # the rank of the same match
            else:
                key, position = position, position + 1
            self._slots.append((found["is"] or "", kind, key))
        self._parts.append(sql[end:])
        self._tests = [key for test, _, key in self._slots if test]
        self._made: dict[tuple[bool, ...], tuple[str, list[tuple[str, int | str]]]] = {}

    @property
    def is_fixed(self) -> bool:
        """Whether its text is the same for all values."""
        return not self._tests

    def bind(self, values: Values) -> tuple[str, list[Any]]:
        """The text and the values in the order of its parameters.

        PostgreSQL finds nothing by an index for ``is not distinct from``, so ``is ?`` becomes ``=`` or ``is null``.
        """
        given: Any = values
        nulls = tuple([given[key] is None for key in self._tests])
        made = self._made.get(nulls)
        if made is None:
            made = self._made[nulls] = self._text(dict(zip(self._tests, nulls, strict=True)))
        text, order = made
        return text, [given[key] if not kind else _READ[kind](given[key]) for kind, key in order]

    def _text(self, nulls: Mapping[int | str, bool]) -> tuple[str, list[tuple[str, int | str]]]:
        text, order = [self._parts[0]], list[tuple[str, int | str]]()
        for (test, kind, key), part in zip(self._slots, self._parts[1:], strict=True):
            if test and nulls[key]:
                text += (f"{test}null", part)
                continue
            if (kind, key) not in order:
                order.append((kind, key))
            sign = {"": "", "is ": "= ", "is not ": "is distinct from "}[test]
            text += (f"{sign}${order.index((kind, key)) + 1}", part)
        return "".join(text), order


@lru_cache(4096)
def statement(sql: str) -> Statement:
    """The statement of a text, translated once."""
    return Statement(sql)


def _lexemes(query: str) -> str:
    """A query of FTS5 with quoted words, joined by OR or by spaces, as PostgreSQL's."""
    words = ["'" + word.replace('""', '"').replace("\\", "\\\\").replace("'", "''") + "'" for word in _words(query)]
    return (" | " if " OR " in query else " & ").join(words)


def _words(query: str) -> list[str]:
    """The words of a query without those that are too long to be found, as in the function ``lexemes``."""
    return [found[1] for found in _QUOTED.finditer(query) if len(found[1]) <= 500]


_READ: Mapping[str, Callable[[Any], Any]] = {
    "[]": json.loads,
    "~": _lexemes,
    "^": lambda most: most if most >= 0 else None,
}
"""how a parameter of a kind is read: a list in JSON, a search for words, a limit"""

# Schema ---------------------------------------------------------------------------------------------------------------

_TYPES = {"integer": "bigint", "text": 'text collate "C"', "blob": "bytea", "real": "double precision"}
_COLUMN = re.compile(r"\b(\w+) (integer|text|blob|real)\b")
_TABLE = re.compile(r'create table "?(\w+)"?', re.IGNORECASE)
_TRIGGER = re.compile(
    r"create trigger (\w+) before (\w+) on (\w+) begin select raise\(abort, ('[^']*')\); end", re.IGNORECASE
)
_FULL_TEXT = re.compile(r"create virtual table (\w+) using fts5\(\s*terms\b.*\)", re.IGNORECASE | re.DOTALL)
_WITHOUT_ROWID = re.compile(r"\bwithout rowid\s*$", re.IGNORECASE)
_INDEX = re.compile(r"create index", re.IGNORECASE)


def whole_schema(steps: Sequence[str]) -> list[str]:
    """The statements that make the tables to which SQLite's migrations lead, in an empty schema."""
    with closing(sqlite3.connect(":memory:")) as db:
        for step in steps:
            db.executescript(step)
        made = db.execute(
            "select sql from sqlite_master where sql is not null and name not like 'sqlite%' "
            "and name not in (select name || suffix from sqlite_master, (select '_data' as suffix union select '_idx' "
            "union select '_content' union select '_docsize' union select '_config') where sql like '%using fts5%') "
            "order by rowid"
        ).fetchall()
    return [definition(sql) for (sql,) in made]


def step_statements(step: str) -> list[str]:
    """The statements of a migration of SQLite, each in PostgreSQL's words."""
    found, begun = list[str](), ""
    for part in f"{step};".split(";"):
        begun += part + ";"
        if sqlite3.complete_statement(begun):
            found.append(begun)
            begun = ""
    return [definition(one) for one in found if one.strip("; \n")]


def definition(sql: str) -> str:
    """A statement that defines a table, a column, an index or a trigger, in PostgreSQL's words."""
    sql = sql.strip().removesuffix(";").replace("x''", "''")
    if (trigger := _TRIGGER.fullmatch(sql)) is not None:
        name, change, table, why = trigger.groups()
        return f"create trigger {name} before {change} on {table} for each row execute function refuse({why})"
    if (words := _FULL_TEXT.fullmatch(sql)) is not None:
        return (
            f'create table {words[1]}(rowid bigint primary key, terms text collate "C" not null, lexemes tsvector '
            "generated always as (lexemes(terms)) stored); "
            f"create index {words[1]}_lexemes on {words[1]} using gin(lexemes)"
        )
    sql = _WITHOUT_ROWID.sub("", sql)
    if _INDEX.match(sql) is None:
        sql = _COLUMN.sub(lambda found: f"{found[1]} {_TYPES[found[2]]}", sql)
    if (table := _TABLE.match(sql)) is not None:
        number = f"bigint primary key default next_number('{table[1]}')"
        sql = re.sub(r"bigint primary key( autoincrement)?", number, sql)
    text, values = Statement(sql).bind(())
    assert not values  # noqa: S101 — a definition has no parameters
    return text
