"""Builds the statements of a search.

One statement searches by words and by vectors, each with all filters in it. Of a scope with few memories it reads them
once for both, and compares all their vectors. The words' score is BM25 in SQL, which has
only `ts_rank`, that does not know how rare a word is: the rows that have one of the terms are read once, counted by
term, and scored. So the frequencies are those of what the question may see, and no other user changes an order. How
often a memory repeats a term is left out: memories are short.

Operands are cast to types that an operator of PostgreSQL takes exactly. Of mixed types, one that another role has made
for just these would be preferred, if it were ever found; see `adapters.postgres.connections`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adapters.index.lexical import query_terms
from adapters.postgres.values import HalfVector, escaped, lexeme
from fusion.contract import Hit, Query, Scope
from fusion.lib.bm25 import K1, B
from fusion.store.rows import EVENT_NAMES, admission, visible

if TYPE_CHECKING:
    from fusion.contract import Floats

MOST_TERMS = 48
"""of a question that are searched for; a question that quotes a page has its first ones"""
COMMON = 5_000
"""memories that the rarest terms find together; the others only score these, as in Lucene's CommonTermsQuery. Of 961
questions to 2,773 turns, ten times as many as are wanted had .9998 of the best hundred"""
FEW = 1000
"""memories of a scope up to which reading them all costs less than two searches in indexes of all memories"""
COLUMNS = ", ".join(f"m.{name}" for name in ("escaped", *EVENT_NAMES))
_NAME = re.compile(r":(\w+)")
_CONTAINS = re.compile(r"instr\((lower\(m\.\w+\), %\(\w+\)s)\)")

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statistics:
    """The number of memories in a scope and their average length, and the share of all memories that have a common
    term."""

    memories: int = 1
    average_length: float = 1.0
    common: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The terms and the vector to search for."""

    terms: Sequence[str]
    vector: Floats | None

    @classmethod
    def of(cls, text: str, vector: Floats | None) -> Asked:
        return cls(list(dict.fromkeys(query_terms(text)))[:MOST_TERMS], vector)


def seen(query: Query) -> tuple[str, Values]:
    """The condition on a memory ``m`` under which ``query`` may see it, and its values."""
    condition, values = visible(query)
    condition = _NAME.sub(r"%(\1)s", condition)
    condition = _CONTAINS.sub(r"strpos(\1) > 0", condition.replace(" is m.", " IS NOT DISTINCT FROM m."))
    # As a join it would read all memories; so it is looked up for the few that meet the rest.
    rest, _, successor = condition.rpartition(" and not exists ")
    condition = f"{rest} AND CASE WHEN EXISTS {successor} THEN false ELSE true END"
    return f"{condition} AND {_state(query)}", {k: escaped(v) if isinstance(v, str) else v for k, v in values.items()}


def _state(query: Query) -> str:
    """The condition under which a memory's state does not hide it; see `fusion.recall.filter.hidden_by_state`."""
    current = ["m.ended_at IS NULL"]
    if query.archived:
        current.append("m.ended = 'archived'")
    if query.as_of is not None:
        current.append("m.ended_at > %(as_of)s")
    now = query.as_of is None and query.known_at is None
    return f"({' OR '.join(current)})" + (" AND m.merged_into IS NULL" if now else "")


def owned(scope: Scope) -> tuple[str, Values]:
    """The condition on a memory ``m`` under which it is in a scope, and its values."""
    conditions, values = admission(scope, "%(")
    named = [re.sub(r"%\((\w+)", r"%(\1)s", one) for one in conditions]
    return " AND ".join(named), {k: escaped(v) if isinstance(v, str) else v for k, v in values.items()}


def search(
    query: Query, asked: Asked, known: Statistics, vectors: str, limit: int, *, pgvector: str, exact: bool = False
) -> tuple[str, Values] | None:
    """The statement whose rows are (0 for words or 1 for vectors, a memory's number, its event's id, its score), best
    first in each.

    ``vectors`` is the name of the model's table, and ``pgvector`` the schema of that extension. ``exact`` compares all
    vectors, without the index. None if there is nothing to search for.
    """
    condition, values = seen(query)
    parts = []
    if asked.terms and asked.vector is not None and known.memories <= FEW and not known.common:
        values |= {"vector": HalfVector(asked.vector), "limit": limit}
        return _by_both(asked.terms, known, vectors, pgvector, condition, values), values
    if asked.terms:
        parts.append(_by_words(asked.terms, known, condition, values))
    if asked.vector is not None:
        values["vector"] = HalfVector(asked.vector)
        parts.append(_by_vectors(vectors, pgvector, condition, exact=exact))
    if not parts:
        return None
    values["limit"] = limit
    return " UNION ALL ".join(parts), values


def _by_words(asked: Sequence[str], known: Statistics, condition: str, values: Values) -> str:
    rare = _rarest(asked, known)
    # Of common terms alone all are asked for: any of them would be half of a large store.
    matching = " | ".join(lexeme(term) for term in asked if term in rare) if rare else " & ".join(map(lexeme, asked))
    values["any"] = matching
    counted = ", ".join(
        f"count(*) FILTER (WHERE t{n}) AS n{n}"
        if term in rare or not rare
        else f"{known.common[term] * known.memories:.0f} AS n{n}"
        for n, term in enumerate(asked)
    )
    read, scored = _weighed(asked, f"m.terms @@ %(any)s::tsquery AND {condition}", counted, known, values)
    return f"(WITH {read} {scored} ORDER BY score DESC, id LIMIT %(limit)s)"


def _rarest(asked: Sequence[str], known: Statistics) -> frozenset[str]:
    """The terms that find at most `COMMON` memories together, the rarest first; none if even the rarest finds more."""
    found, rare = 0.0, set()
    for term in sorted(asked, key=lambda term: known.common.get(term, 0.0)):
        found += known.common.get(term, 0.0) * known.memories
        if found > COMMON:
            break
        rare.add(term)
    return frozenset(rare)


def _by_both(
    asked: Sequence[str], known: Statistics, vectors: str, pgvector: str, condition: str, values: Values
) -> str:
    distance = _distance(pgvector)
    counted = ", ".join(f"count(*) FILTER (WHERE t{n}) AS n{n}" for n in range(len(asked)))
    read, scored = _weighed(asked, condition, counted, known, values)
    found = " OR ".join(f"t{n}" for n in range(len(asked)))
    return (
        f"WITH {read} ({scored} WHERE {found} ORDER BY score DESC, id LIMIT %(limit)s) UNION ALL "
        f"(SELECT 1, id, event_id, -({distance}) AS score FROM hit JOIN {vectors} v ON v.memory = id "
        f"ORDER BY ({distance}) + 0::float8 LIMIT %(limit)s)"
    )


def _weighed(asked: Sequence[str], condition: str, counted: str, known: Statistics, values: Values) -> tuple[str, str]:
    """The tables of a statement that reads ``hit`` and weighs the terms, and the query of its scores."""
    values |= {"total": known.memories, "average": max(known.average_length, 1.0)}
    values |= {f"term{n}": lexeme(term) for n, term in enumerate(asked)}
    there = ", ".join(f"m.terms @@ %(term{n})s::tsquery AS t{n}" for n in range(len(asked)))
    rarity = ", ".join(
        f"ln(1::float8 + (greatest(%(total)s::bigint - n{n}::bigint, 0)::float8 + 0.5::float8) "
        f"/ (n{n}::float8 + 0.5::float8)) AS w{n}"
        for n in range(len(asked))
    )
    total = " + ".join(f"CASE WHEN t{n} THEN w{n} ELSE 0::float8 END" for n in range(len(asked)))
    read = (
        f"hit AS MATERIALIZED (SELECT m.id, m.event_id, m.length, {there} FROM memory m WHERE {condition}), "
        f"counted AS (SELECT {counted} FROM hit), weights AS MATERIALIZED (SELECT {rarity} FROM counted)"
    )
    share = f"{B}::float8 * length::float8 / %(average)s::float8"
    score = f"({total}) * {K1 + 1}::float8 / (1::float8 + {K1}::float8 * ({1 - B}::float8 + {share}))"
    return read, f"SELECT 0, id, event_id, {score} AS score FROM hit, weights"


def _distance(pgvector: str) -> str:
    return f"v.embedding OPERATOR({pgvector}.<#>) %(vector)b::{pgvector}.halfvec"


def _by_vectors(vectors: str, pgvector: str, condition: str, *, exact: bool) -> str:
    distance = _distance(pgvector)
    order = f"({distance}) + 0::float8" if exact else distance
    return (
        f"(SELECT 1, m.id, m.event_id, -({distance}) AS score FROM {vectors} v JOIN memory m ON m.id = v.memory "
        f"WHERE {condition} ORDER BY {order} LIMIT %(limit)s)"
    )


READ = f"SELECT m.id, {COLUMNS} FROM memory m WHERE m.id = ANY(%s::bigint[])"

_SAME = " AND ".join(
    ["m.document = a.document", "m.place_unit = a.unit", "m.tenant = a.tenant", "m.audience = a.audience"]
    + [f"m.{name} IS NOT DISTINCT FROM a.{name}" for name in ("user_id", "agent_id", "run_id", "session_id")]
    + ["m.event_id <> a.event_id"]
)
_NEAR = {"document": "text", "unit": "text", "start": "bigint", "tenant": "text", "audience": "text"}
_NEAR |= dict.fromkeys(("user_id", "agent_id", "run_id", "session_id", "event_id"), "text")
NEIGHBOURS = (
    f"SELECT a.number, {COLUMNS} FROM unnest("
    + ", ".join(f"%({name})s::{kind}[]" for name, kind in _NEAR.items())
    + f") WITH ORDINALITY AS a({', '.join(_NEAR)}, number) CROSS JOIN LATERAL ("
    f"(SELECT * FROM memory m WHERE {_SAME} AND m.place_start <= a.start ORDER BY m.place_start DESC LIMIT %(span)s) "
    f"UNION (SELECT * FROM memory m WHERE {_SAME} AND m.place_start >= a.start ORDER BY m.place_start LIMIT %(span)s)"
    ") m"
)
"""the rows around each of several places, with the number of the place; what begins where the hit does may be twice"""


def around(hits: Sequence[Hit], span: int) -> Values:
    """The values of `NEIGHBOURS` for hits with a place."""
    columns: dict[str, list[Any]] = {name: [] for name in _NEAR}
    for hit in hits:
        place, scope = hit.place, hit.scope
        if place is None:
            raise ValueError("a hit without a place has no neighbours")
        row = {"document": place.document, "unit": place.unit, "start": place.start, "event_id": hit.native_id}
        row |= {name: getattr(scope, name) for name in _NEAR if name not in row}
        for name, value in row.items():
            columns[name].append(escaped(value) if isinstance(value, str) else value)
    return {**columns, "span": span}
