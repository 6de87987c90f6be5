"""The ledger of observations: their rows, the index of their words, their vectors, and how far sources were harvested.

It is filled from lines that are on the disk already, and can be made again from them. Its rows are evidence: no other
table refers to them, and no backend is sent one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.journal.rows import visible_to
from fusion.lib.ids import EPISODE, parse_episode_ref
from fusion.lib.observation import EpisodeType, Lane, Observation, searched_text, trust_of
from fusion.lib.words import stems
from fusion.store.database import VALUES, Connection, Row, listed, number_from, replacing
from fusion.store.rows import microseconds, storable, time_of

SCHEMA = """
create table observation(
    seq integer primary key autoincrement, key blob not null unique, event_id text not null, type text not null,
    lane text not null, ts integer not null, recorded_at integer not null,
    tenant text not null, user_id text, agent_id text, run_id text, session_id text, project text,
    audience text not null, tool text, summary text not null, payload text, refs text, source text, raw_kind text,
    origin text not null, truncated integer not null, redacted integer not null, importance text, by_hand text,
    pointer text
);
create index observation_time on observation(tenant, ts);
create index observation_session on observation(tenant, session_id, ts) where session_id is not null;
create index observation_age on observation(type, ts);
create virtual table observation_text using fts5(
    terms, tokenize = "unicode61 remove_diacritics 0 categories 'L* N* Co So Mn Mc'"
);
create table observation_vector(
    seq integer primary key references observation(seq), model text not null, text_hash text not null,
    vector blob not null
);
create table observation_forgotten(key blob primary key) without rowid;
create table harvested(source text primary key, place text not null) without rowid;
"""
"""``by_hand`` is JSON: the fields that a person set, which no harvest changes. ``place`` is where to read on"""
FEWER_INDEXES = "drop index observation_age;"
"""what is past its days is found by the index of times"""

Status = Literal["stored", "duplicate", "blocked"]


class Graded(NamedTuple):
    """An observation to store: the pointer of its line, and its importance as JSON, if it has one."""

    observation: Observation
    pointer: str
    importance: str | None = None


class Restored(NamedTuple):
    """An observation of an export, with its number there and when it was recorded."""

    graded: Graded
    seq: int
    recorded_at: datetime


class Entered(NamedTuple):
    """What became of an observation: its number in the ledger, 0 for one that was forgotten before."""

    seq: int
    status: Status


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which observations of a scope are wanted. Here ``scope.project`` filters, as the scope of openclaw-mem does."""

    scope: Scope
    types: tuple[EpisodeType, ...] = ()
    lanes: tuple[Lane, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    source: str | None = None
    recorded: bool = False
    """whether the times are those of the recording"""

    def terms(self) -> tuple[str, list[object]]:
        """The condition on a row ``o`` of ``observation``, and its parameters."""
        condition, values = visible_to(self.scope)
        terms = [condition]
        for name, value in (("project = ?", self.scope.project), ("source = ?", self.source)):
            if value is not None:
                terms.append(name)
                values.append(storable(value))
        for name, chosen in (("type", self.types), ("lane", self.lanes)):
            if chosen:
                terms.append(f"{name} in {VALUES}")
                values += listed(chosen)
        for sign, at in ((">=", self.after), ("<=", self.before)):
            if at is not None:
                terms.append(f"{'recorded_at' if self.recorded else 'ts'} {sign} ?")
                values.append(microseconds(at))
        return " and ".join(terms), values


class Match(NamedTuple):
    """A row that a search found. ``score`` is the share of the query's words that it has, or its cosine, 0 to 1."""

    row: Row
    score: float


# Harvest --------------------------------------------------------------------------------------------------------------


def enter(db: Connection, found: Sequence[Graded], source: str, place: str, now: datetime) -> list[Entered]:
    """Store what was harvested from a source up to ``place``, as `add` does."""
    entered = add(db, found, now)
    bookmark(db, source, place)
    return entered


def add(db: Connection, found: Sequence[Graded], now: datetime) -> list[Entered]:
    """Store observations in the caller's transaction; one entry for each.

    What is there already stays as it is, except that it gets a grade if it has none and no person set one.
    """
    gone = forgotten_among(db, [one.observation.key for one in found])
    return [_entered(db, one, gone, now) for one in found]


def _entered(db: Connection, one: Graded, gone: Collection[bytes], now: datetime) -> Entered:
    seen = one.observation
    if seen.key in gone:
        return Entered(0, "blocked")
    inserted = db.execute(_INSERT, _values(one, now)).fetchone()
    if inserted is None:
        known = db.execute("select seq, importance, by_hand from observation where key = ?", (seen.key,)).fetchone()
        if "importance" in by_hand_of(known):
            return Entered(known["seq"], "duplicate")
        if (set_by_hand := _importance_by_hand(seen)) is not None:
            by_hand = orjson.dumps({**by_hand_of(known), "importance": orjson.loads(set_by_hand)}).decode()
            values = (set_by_hand, by_hand, known["seq"])
            db.execute("update observation set importance = ?, by_hand = ? where seq = ?", values)
        elif known["importance"] is None and one.importance is not None:
            db.execute("update observation set importance = ? where seq = ?", (one.importance, known["seq"]))
        return Entered(known["seq"], "duplicate")
    index_text(db, inserted["seq"], seen.searched)
    return Entered(inserted["seq"], "stored")


def restore(db: Connection, given: Sequence[Restored]) -> list[Entered]:
    """Store observations of an export, each under its number there if that is beyond all numbers here."""
    gone = forgotten_among(db, [one.graded.observation.key for one in given])
    entered = []
    for one in given:
        number_from(db, "observation", one.seq - 1)  # a smaller number may be that of what was deleted
        entered.append(_entered(db, one.graded, gone, one.recorded_at))
    return entered


_BOOKMARK = replacing("harvested", "source", "place")

_COLUMNS = (
    *("key", "event_id", "type", "lane", "ts", "recorded_at", "tenant", "user_id", "agent_id", "run_id", "session_id"),
    *("project", "audience", "tool", "summary", "payload", "refs", "source", "raw_kind", "origin", "truncated"),
    *("redacted", "importance", "by_hand", "pointer"),
)


_INSERT = (
    f"insert into observation({', '.join(_COLUMNS)}) values({', '.join('?' * len(_COLUMNS))}) "
    "on conflict(key) do nothing returning seq"
)


def _values(one: Graded, now: datetime) -> tuple[object, ...]:
    seen, scope = one.observation, one.observation.scope
    ids = (scope.user_id or None, scope.agent_id, scope.run_id, scope.session_id, scope.project)
    named = tuple(None if name is None else storable(name) for name in ids)
    times = (microseconds(seen.ts), microseconds(now))
    texts = (seen.summary, seen.payload, seen.refs, seen.source, seen.raw_kind)
    return (
        *(seen.key, storable(seen.event_id), seen.type, seen.lane, *times, storable(scope.tenant), *named),
        *(scope.audience, None if seen.tool is None else storable(seen.tool)),
        *(None if text is None else storable(text) for text in texts),
        *(seen.origin, seen.truncated, seen.redacted),
        *(_importance_by_hand(seen) or one.importance, seen.by_hand, one.pointer),
    )


def _importance_by_hand(seen: Observation) -> str | None:
    """The importance that a person set, as JSON; None if nobody did."""
    given = None if seen.by_hand is None else orjson.loads(seen.by_hand).get("importance")
    return None if given is None else orjson.dumps(given).decode()


def without_log(db: Connection, log: str) -> None:
    """Take away the pointers of lines, and the bookmark of the source ``log``: there is no log any more.

    The pointers of users' own files stay.
    """
    db.execute("update observation set pointer = '' where pointer <> '' and pointer not like 'file:%'")
    db.execute("delete from harvested where source = ?", (log,))


def point_to(db: Connection, seq: int, pointer: str) -> None:
    """Let an observation have another line of the log."""
    db.execute("update observation set pointer = ? where seq = ?", (pointer, seq))


def grade_by_hand(db: Connection, ref: str, scope: Scope, importance: Mapping[str, Any]) -> Row:
    """Set the importance of an observation, which no harvest changes from then on. Returns its new row.

    What it had just before is in ``replaces`` of the importance. Raises NotFound, also for one out of scope.
    """
    row = find(db, ref, scope)
    before = None if row["importance"] is None else orjson.loads(row["importance"])
    if before is not None:
        before.pop("replaces", None)
    graded = {**importance, "replaces": before}
    by_hand = {**by_hand_of(row), "importance": graded}
    db.execute(
        "update observation set importance = ?, by_hand = ? where seq = ?",
        (orjson.dumps(graded).decode(), orjson.dumps(by_hand).decode(), row["seq"]),
    )
    return find(db, ref, scope)


def index_text(db: Connection, seq: int, text: str) -> None:
    """Add the words of an observation to the index."""
    db.execute("insert into observation_text(rowid, terms) values(?, ?)", (seq, " ".join(terms_of(text))))


def by_hand_of(row: Row) -> Mapping[str, Any]:
    """The fields of an observation that a person set."""
    return orjson.loads(row["by_hand"]) if row["by_hand"] is not None else {}


def bookmark(db: Connection, source: str, place: str) -> None:
    """Record where the next harvest of a source goes on."""
    db.execute(_BOOKMARK, (source, place))


def bookmark_of(db: Connection, source: str) -> str | None:
    """Where the next harvest of a source goes on; None at its beginning."""
    row = db.execute("select place from harvested where source = ?", (source,)).fetchone()
    return None if row is None else str(row["place"])


def known(db: Connection, keys: Sequence[bytes]) -> dict[bytes, Entered]:
    """Those of these keys that are stored, or were forgotten."""
    found = {key: Entered(0, "blocked") for key in forgotten_among(db, keys)}
    for key in keys:
        for row in db.execute("select seq from observation where key = ?", (key,)):
            found[key] = Entered(row["seq"], "duplicate")
    return found


def forgotten_among(db: Connection, keys: Iterable[bytes]) -> frozenset[bytes]:
    """Those of these keys that were forgotten, and do not come back."""
    if db.execute("select 1 from observation_forgotten limit 1").fetchone() is None:
        return frozenset()
    gone = "select 1 from observation_forgotten where key = ?"
    return frozenset(key for key in keys if db.execute(gone, (key,)).fetchone() is not None)


def pointers_of(db: Connection, seqs: Iterable[int]) -> dict[int, str | None]:
    """The pointers of observations by number."""
    rows = db.execute(f"select seq, pointer from observation where seq in {VALUES}", listed(seqs))
    return {row["seq"]: row["pointer"] for row in rows}


# Reading --------------------------------------------------------------------------------------------------------------


def page(
    db: Connection, wanted: Wanted, limit: int, *, beyond: int | None = None, newest_first: bool = False
) -> list[Row]:
    """Up to ``limit`` observations in the order of their times; ``beyond`` is the number of the last one before."""
    condition, values = wanted.terms()
    sign, order = ("<", "desc") if newest_first else (">", "asc")
    if beyond is not None:
        condition += f" and (ts, seq) {sign} (select ts, seq from observation where seq = ?)"
        values.append(beyond)
    return db.execute(
        f"select * from observation where {condition} order by ts {order}, seq {order} limit ?", (*values, limit)
    ).fetchall()


def find(db: Connection, ref: str, scope: Scope) -> Row:
    """The row of a ref. Raises NotFound, also for one out of scope."""
    seq = parse_episode_ref(ref)
    condition, values = Wanted(scope).terms()
    row = None
    if seq is not None:
        row = db.execute(f"select * from observation where seq = ? and {condition}", (seq, *values)).fetchone()
    if row is None:
        raise NotFound(f"there is no episode {ref!r} here")
    return row  # type: ignore[no-any-return]


def find_all(db: Connection, refs: Sequence[str], scope: Scope) -> list[Row]:
    """The rows of the refs that name an observation of this scope, each once."""
    seqs = [seq for ref in dict.fromkeys(refs) if (seq := parse_episode_ref(ref)) is not None]
    condition, values = Wanted(scope).terms()
    return db.execute(
        f"select * from observation where seq in {VALUES} and {condition} order by seq", (*listed(seqs), *values)
    ).fetchall()


def by_words(db: Connection, query: str, wanted: Wanted, limit: int) -> list[Match]:
    """The observations that share words with a query, best first (BM25)."""
    asked = set(terms_of(query))
    if not asked:
        return []
    condition, values = wanted.terms()
    anyone = " OR ".join('"' + term.replace('"', '""') + '"' for term in sorted(asked))
    rows = db.execute(
        "select o.*, t.terms from observation_text t join observation o on o.seq = t.rowid "
        f"where t.terms match ? and {condition} order by t.rank, o.seq desc limit ?",
        (anyone, *values, limit),
    ).fetchall()
    return [Match(row, len(asked.intersection(row["terms"].split())) / len(asked)) for row in rows]


def terms_of(text: str) -> list[str]:
    """The words of a text as they are indexed; each part of a name such as ``parse_importance`` is one."""
    return [part for term in stems(storable(text)) for part in term.split("_") if part]


def rows_of(db: Connection, seqs: Sequence[int]) -> dict[int, Row]:
    """Rows by number."""
    rows = db.execute(f"select * from observation where seq in {VALUES}", listed(seqs))
    return {row["seq"]: row for row in rows}


def counts(db: Connection, tenant: str) -> dict[str, int]:
    """The number of observations of a tenant by type."""
    rows = db.execute("select type, count(*) as n from observation where tenant = ? group by type", (tenant,))
    return {row["type"]: row["n"] for row in rows}


def scope_of(row: Row) -> Scope:
    """Whose an observation is."""
    named = {name: row[name] for name in ("user_id", "agent_id", "run_id", "session_id", "project", "audience")}
    return Scope(row["tenant"], **named)


def observation_of(row: Row) -> Observation:
    """The observation of a row."""
    importance = None if row["importance"] is None else orjson.loads(row["importance"]).get("score")
    names = ("event_id", "type", "lane", "summary", "tool", "payload", "refs", "source", "raw_kind", "redacted")
    return Observation(
        **{name: row[name] for name in names},
        ts=time_of(row["ts"]),
        scope=scope_of(row),
        truncated=bool(row["truncated"]),
        importance=importance,
        by_hand=row["by_hand"],
    )


def text_of(row: Row) -> str:
    """The text of a row that searches read."""
    return searched_text(row["summary"], row["tool"], row["payload"])


def shown(row: Row, *, include_payload: bool = False) -> dict[str, Any]:
    """A row as doors show it; what is long is there only on request."""
    importance = row["importance"]
    found = {
        "ref": f"{EPISODE}{row['seq']}",
        "event_id": row["event_id"],
        "type": row["type"],
        "lane": row["lane"],
        "ts": time_of(row["ts"]).isoformat(),
        "user_id": row["user_id"],
        "agent_id": row["agent_id"],
        "session_id": row["session_id"],
        "project": row["project"],
        "tool": row["tool"],
        "summary": row["summary"],
        "trust": trust_of(row["type"]),
        "origin": row["origin"],
        "truncated": bool(row["truncated"]),
        "redacted": bool(row["redacted"]),
        "importance": None if importance is None else orjson.loads(importance),
        "pointer": row["pointer"],
    }
    if include_payload:
        found["payload"] = None if row["payload"] is None else orjson.loads(row["payload"])
        found["refs"] = None if row["refs"] is None else orjson.loads(row["refs"])
    return found
