"""Writes a journal as the lines of an export (`fusion.journal.export_format`), from one snapshot.

What was forgotten is in it as hashes and ids only. Deliveries, document frequencies and the replies to repeated
requests are not in it: they belong to one home, and an import makes them anew. So are synthesis cards and stable
prefixes. Neither are the external items that were shown lately: their backends have them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import orjson

from fusion.journal import watermark
from fusion.journal.export_format import EVENT_TIMES
from fusion.journal.rows import BORN_FORGOTTEN, keys_of, record_of
from fusion.journal.tombstones import Tombstones, user_of_words
from fusion.lib.ids import EPISODE, parse_short_ref, short_ref
from fusion.store.database import Connection, Row
from fusion.store.rows import EVENT_NAMES, time_of

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the lines of one export need besides their rows."""

    tombstones: Tombstones
    forgotten_at: Mapping[str, int]
    """by event id, when it was forgotten"""
    user_id: str | None
    """the user whose memories are exported; None for all"""
    event_id_of: Callable[[str], str | None]
    """the event id of a short ref; None for an external item's"""
    changes_of: Callable[[int], list[Values]]
    """what a decision changed"""

    def is_asked_for(self, user_id: str | None) -> bool:
        return self.user_id is None or self.user_id == user_id


class Table(NamedTuple):
    """A table in an export: the type of its lines, its query, and the line of a row, or None to leave it out."""

    type: str
    query: str
    line: Callable[[Row, Snapshot], Values | None]


def write_rows(db: Connection, tenant: str, user_id: str | None, file: BinaryIO) -> Values:
    """Write a tenant's rows to a file; returns what the header says of them (`export_format.JournalPart`)."""
    mark = watermark.read(db)
    at = db.execute(
        "select e.event_id, min(a.at) from audit a join event e on e.seq = a.seq group by e.event_id"
    ).fetchall()

    def event_id_of(ref: str) -> str | None:
        row = db.execute("select event_id from event where seq = ?", (parse_short_ref(ref),)).fetchone()
        return None if row is None else str(row["event_id"])

    def changes_of(decision: int) -> list[Values]:
        rows = db.execute("select * from state_change where decision = ? order by item", (decision,)).fetchall()
        return [{"item": x["item"], "before": json.loads(x["before"]), "after": json.loads(x["after"])} for x in rows]

    snapshot = Snapshot(Tombstones.of(db), dict(map(tuple, at)), user_id, event_id_of, changes_of)
    counts: Counter[str] = Counter()
    file.write(_encoded({"type": "tenant", "tenant": tenant}))
    for table in TABLES:
        for row in db.execute(table.query, {"tenant": tenant}):
            line = table.line(row, snapshot)
            if line is not None:
                file.write(_encoded({"type": table.type, **line}))
                counts[table.type] += 1
    return {
        "tenant": tenant,
        "journal": mark.id,
        "commits": mark.commits,
        "events": mark.events,
        "seq": mark.seq,
        "counts": dict(counts),
    }


def _encoded(line: Values) -> bytes:
    return orjson.dumps(line) + b"\n"


def _tombstone(row: Row, snapshot: Snapshot) -> Values | None:
    words = row["words"] if row["words"] is not None else row["key"]
    if not snapshot.is_asked_for(user_of_words(words)):
        return None
    at = snapshot.forgotten_at.get(row["event_id"])
    return _given({"key": row["key"], "event_id": row["event_id"], "words": row["words"], "at": _iso(at)})


def _hidden(row: Row, snapshot: Snapshot) -> Values | None:
    return _columns(row, "document", "line", "words") if snapshot.is_asked_for(user_of_words(row["words"])) else None


_EVENT_COLUMNS = [name for name in EVENT_NAMES if name not in ("tenant", "derived_from", "text", *EVENT_TIMES)]


def _forgotten_observation(row: Row, snapshot: Snapshot) -> Values | None:
    return {"key": row["key"].hex()} if snapshot.user_id is None else None  # of a hash nobody knows whose it is


def _observation(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    names = ("event_id", "lane", "tool", "summary", "source", "audience", *_IDS)
    parsed = {name: row[name] and orjson.loads(row[name]) for name in ("payload", "refs", "importance", "by_hand")}
    more = {"kind": row["raw_kind"], "truncated": bool(row["truncated"]), "redacted": row["redacted"]}
    times = {"ts": _iso(row["ts"]), "recorded_at": _iso(row["recorded_at"])}
    return _given(
        {"ref": f"{EPISODE}{row['seq']}", "episode": row["type"], **_columns(row, *names), **times, **parsed, **more}
    )


_IDS = ("user_id", "agent_id", "run_id", "session_id", "project")


def _proposal(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    names = ("id", "state", "source", "reason", "proposed_by", "role", "decided_by", "why", "event_id", "audience")
    times = {"at": _iso(row["at"]), "decided_at": _iso(row["decided_at"])}
    evidence = json.loads(row["evidence"])
    return _given({**_columns(row, *names, *_IDS), **times, "draft": orjson.loads(row["draft"]), "evidence": evidence})


def _use(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    times = {name: _iso(row[name]) for name in ("last_included_at", "last_retrieved_at")}
    return _given({**_columns(row, "item", "included", "retrieved"), **times})


def _inclusion(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["owner"]):
        return None
    columns = _columns(row, "item", "receipt", "kind", "user_id", "place", "score", "probability")
    return {**columns, "at": _iso(row["at"]), "found_by": row["found_by"].split(",") if row["found_by"] else []}


def _event(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    record = snapshot.tombstones.visible_record(record_of(row))
    forgotten = bool(row["forgotten"]) or record is None or not record.event.text
    line = {"ref": short_ref(row["seq"]), **_columns(row, *_EVENT_COLUMNS, "superseded_by", "batch")}
    line |= {name: _iso(row[name]) for name in EVENT_TIMES}
    if (derived_from := json.loads(row["derived_from"])) != []:
        line["derived_from"] = derived_from
    if record is None or forgotten:
        at = snapshot.forgotten_at.get(row["event_id"])
        line |= {"forgotten": True, "forgotten_at": _iso(at), "speaker": None}
        if (row["natural"] or "").startswith(f'["{BORN_FORGOTTEN}"'):
            line["natural"] = row["natural"]
        return _given(line)
    event = record.event
    if event.place is not None:  # a piece of a file without its forgotten statements has fewer lines
        line |= {"place_start": event.place.start, "place_end": event.place.end}
    line |= {"text": event.text, "file": row["file"]}
    if row["natural"] != keys_of(event)[1]:
        line["natural"] = row["natural"] or ""
    if row["stated"] != "[]":
        line["stated"] = json.loads(row["stated"])
    if row["state"] is not None:
        line["state"] = json.loads(row["state"])
    if row["said"] != 1:
        line |= {"said": row["said"], "said_at": _iso(row["said_at"])}
    return _given(line)


def _extraction(row: Row, snapshot: Snapshot) -> Values | None:
    record = record_of(row)
    if not snapshot.is_asked_for(row["user_id"]) or snapshot.tombstones.visible_record(record) != record:
        return None  # it may name what was forgotten
    return {"event_id": row["event_id"], "extraction": json.loads(row["extraction"])}


def _distil(row: Row, snapshot: Snapshot) -> Values | None:
    return _columns(row, "event_id") if snapshot.is_asked_for(row["user_id"]) else None


def _external_state(row: Row, snapshot: Snapshot) -> Values | None:
    return {"ref": row["ref"], "state": json.loads(row["state"])} if snapshot.user_id is None else None


def _decision(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    columns = _columns(row, "id", "user_id", "who", "why", "run", "undoes", "undone_by")
    of_proposal = None
    if row["proposal"] is not None:
        of_proposal = {"id": row["proposal"], "before": row["before"], "after": row["after"]}
        of_proposal |= _columns(row, "event_id")
    changes = snapshot.changes_of(row["id"])
    return _given({**columns, "at": _iso(row["at"]), "changes": changes, "proposal": of_proposal})


def _audit(row: Row, snapshot: Snapshot) -> Values | None:
    if not snapshot.is_asked_for(row["user_id"]):
        return None
    return {**_columns(row, "event_id", "ref", "user_id", "by"), "at": _iso(row["at"])}


def _label(row: Row, snapshot: Snapshot) -> Values | None:
    scope = json.loads(row["scope"])
    if not snapshot.is_asked_for(scope.get("user_id")):
        return None
    more = {"useful": bool(row["useful"]), "at": _iso(row["at"]), "scope": scope, "body": json.loads(row["body"])}
    return _given({**_columns(row, "receipt_id", "ref"), "event_id": snapshot.event_id_of(row["ref"]), **more})


TABLES = (
    Table("tombstone", "select * from tombstone order by key", _tombstone),
    Table("hidden", "select * from hidden where tenant = :tenant order by document, line, words", _hidden),
    Table("forgotten_observation", "select key from observation_forgotten order by key", _forgotten_observation),
    Table("observation", "select * from observation where tenant = :tenant order by seq", _observation),
    Table("event", "select * from event where tenant = :tenant order by seq", _event),
    Table(
        "extraction",
        "select e.*, l.extraction from learnt l join event e using(event_id) "
        "where e.tenant = :tenant and e.forgotten = 0 order by e.seq",
        _extraction,
    ),
    Table(
        "distil",
        "select e.* from lesson l join event e using(seq) where l.given_up is null and e.tenant = :tenant order by seq",
        _distil,
    ),
    Table("external_state", "select * from external_state where tenant = :tenant order by ref", _external_state),
    Table(
        "proposal",
        "select p.*, (select json_group_array(event_id) from proposal_evidence where proposal = p.id) as evidence "
        "from proposal p where tenant = :tenant order by id",
        _proposal,
    ),
    Table(
        "decision",
        "select d.*, p.proposal, p.before, p.after, p.event_id from decision d "
        "left join proposal_decision p on p.decision = d.id where d.tenant = :tenant order by d.id",
        _decision,
    ),
    Table(
        "audit",
        "select a.*, e.event_id from audit a join event e using(seq) where a.tenant = :tenant order by a.id",
        _audit,
    ),
    Table("label", "select * from label where tenant = :tenant order by id", _label),
    Table(
        "use",
        "select i.item, u.included, u.last_included_at, r.retrieved, r.last_retrieved_at, e.user_id from "
        "(select item from use union select item from retrieval) i left join use u using(item) "
        "left join retrieval r using(item) left join event e on e.event_id = i.item "
        "where coalesce(e.tenant, :tenant) = :tenant and coalesce(e.forgotten, 0) = 0 order by i.item",
        _use,
    ),
    Table(
        "inclusion",
        "select n.*, coalesce(e.user_id, n.user_id) as owner from inclusion n "
        "left join event e on e.event_id = n.item "
        "where coalesce(e.tenant, :tenant) = :tenant and coalesce(e.forgotten, 0) = 0 order by n.id",
        _inclusion,
    ),
)
"""every table of an export, in the order of `export_format.ORDER`. A new one is an entry here, a type of line there,
and a function in `fusion.journal.merge`"""


def _columns(row: Row, *names: str) -> Values:
    """The columns of a row that have a value."""
    return {name: row[name] for name in names if row[name] is not None}


def _given(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}


def _iso(since_1970: int | None) -> str | None:
    return None if since_1970 is None else time_of(since_1970).isoformat().replace("+00:00", "Z")
