"""Functions and operators of another role that PostgreSQL prefers to its own where a statement lets it choose.

They take the types of a statement exactly, where PostgreSQL's own need a conversion. Who may create in a schema that a
session looks into can set them, and they run as the role of that session. CREATE on `public` is everybody's by default
up to PostgreSQL 14, and stays so after an update.
"""

from __future__ import annotations

from itertools import product

import psycopg

from tests.postgres.servers import Database

_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "float8")
_OTHERS = (
    ("oid", "regclass"),
    ("oid", "regnamespace"),
    ("name", "text"),
    ("text", "name"),
    ("text", "varchar"),
    ("text", "integer"),
    ("information_schema.sql_identifier", "information_schema.sql_identifier"),
)
_COMPARE = ("=", "<>", "<", "<=", ">", ">=")
_FUNCTIONS = (
    "ln(integer)", "ln(bigint)", "ln(numeric)", "strpos(text, varchar)", "quote_ident(name)", "pg_relation_size(oid)",
    "pg_total_relation_size(oid)", "pg_advisory_xact_lock(integer)", "pg_try_advisory_lock(integer)",
    "json_array_elements_text(text)", "to_regnamespace(name)", "array_to_tsvector(varchar[])",
)  # fmt: skip


def set_traps(database: Database, schema: str = "public") -> None:
    """Let a role that may only create in ``schema`` set traps there. `sprung` says whether one was called."""
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute("do $$ begin create role trapper; exception when duplicate_object then end $$")
        admin.execute(f"grant usage, create on schema {schema} to trapper")
        admin.execute("create schema watch; create sequence watch.sprung; grant usage on schema watch to public")
        admin.execute("grant usage on sequence watch.sprung to public")
        admin.execute(f"set role trapper; set search_path to {schema}; {';'.join(_statements())}")


def _statements() -> list[str]:
    spring = "language plpgsql as $$ begin perform nextval('watch.sprung'); return null; end $$"
    made = [f"create function {one} returns text {spring}" for one in _FUNCTIONS]
    pairs = [(pair, ("+", "-", "*", "/")) for pair in product(_NUMBERS, repeat=2)]
    pairs += [(pair, ()) for pair in _OTHERS]
    for number, ((left, right), computes) in enumerate(pairs):
        for kind, signs in (("float8", computes), ("boolean", _COMPARE)):
            function = f"trap_{kind}_{number}"
            made.append(f"create function {function}({left}, {right}) returns {kind} {spring}")
            made += [
                f"create operator {sign} (leftarg = {left}, rightarg = {right}, function = {function})"
                for sign in signs
            ]
    return made


def sprung(database: Database) -> bool:
    """Whether a trap was called, also in a transaction that was taken back."""
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        return bool((admin.execute("select is_called from watch.sprung").fetchone() or (True,))[0])


def step_into_a_trap(database: Database) -> None:
    """Call one, as a session does that looks into ``public``."""
    with psycopg.connect(database.url, autocommit=True) as db:
        db.execute("select cast(1 as integer) / cast(2 as float8)")
