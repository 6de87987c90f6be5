"""Merges what an export has beside memories and states: forgotten observations, proposals, counts of use, inclusions.

As in `fusion.journal.merge`, a step that is repeated changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import orjson

from fusion.journal.export_format import ForgottenObservationLine, InclusionLine, ProposalLine, UseLine
from fusion.journal.external_refs import is_external
from fusion.journal.observations import forgotten_among
from fusion.journal.tombstones import is_forgotten
from fusion.store.database import Connection, Row, number_from
from fusion.store.rows import microseconds, storable

Live = Callable[[str], Row | None]
"""the row here of a memory of the export; None if it is not here, or was forgotten"""


def forgotten_observations(db: Connection, lines: Iterable[ForgottenObservationLine]) -> list[Row]:
    """Keep out what the other home forgot; returns the observations of this home that it forgets, too."""
    keys = [bytes.fromhex(line.key) for line in lines]
    new = [key for key in keys if key not in forgotten_among(db, keys)]
    db.executemany("insert into observation_forgotten values(?) on conflict do nothing", [(key,) for key in new])
    rows = (db.execute("select * from observation where key = ?", (key,)).fetchone() for key in new)
    return [row for row in rows if row is not None]


def proposal(
    db: Connection, line: ProposalLine, words: str, tenant: str, live: Live, is_theirs: Callable[[str], bool]
) -> tuple[int | None, bool]:
    """Add a proposal that is not here: its number, and whether it is new.

    None for one whose memory, or whose words, this home forgot. ``is_theirs`` says whether the export has the
    tombstone of words, too: then they were proposed again after that.
    """
    words = storable(words)
    owner = (line.user_id, line.agent_id, line.run_id, line.session_id, line.project)
    named = tuple(value and storable(value) for value in owner)
    at = microseconds(line.at)
    known = db.execute(
        "select id from proposal where tenant = ? and words = ? and at = ? and proposed_by = ?",
        (tenant, words, at, storable(line.proposed_by)),
    ).fetchone()
    if known is not None:
        return int(known["id"]), False
    event = None if line.event_id is None else live(line.event_id)
    gone = event is None if line.event_id is not None else is_forgotten(db, words) and not is_theirs(words)
    twice = (
        line.state == "open"
        and db.execute(
            "select id from proposal where tenant = ? and words = ? and state = 'open'", (tenant, words)
        ).fetchone()
    )
    if gone or twice:
        return (int(twice["id"]) if twice else None), False
    columns = (
        "at, tenant, user_id, agent_id, run_id, session_id, project, audience, state, words, source, draft, reason, "
        "proposed_by, role, decided_at, decided_by, why, event_id"
    )
    values = (
        *(at, tenant, *named, line.audience, line.state, words, line.source and storable(line.source)),
        *(storable(orjson.dumps(line.draft).decode()), storable(line.reason), storable(line.proposed_by), line.role),
        *(line.decided_at and microseconds(line.decided_at), line.decided_by and storable(line.decided_by)),
        *(storable(line.why), None if event is None else event["event_id"]),
    )
    last = db.execute("select max(seq) from sqlite_sequence where name = 'proposal'").fetchone()[0] or 0
    number = line.id if line.id > last else last + 1
    db.execute(f"insert into proposal(id, {columns}) values({', '.join('?' * (len(values) + 1))})", (number, *values))
    number_from(db, "proposal", number)
    evidence = [row["event_id"] for one in line.evidence if (row := live(one)) is not None]
    db.executemany(
        "insert into proposal_evidence values(?, ?) on conflict do nothing", [(item, number) for item in evidence]
    )
    return number, True


def use(db: Connection, lines: Sequence[UseLine], live: Live) -> None:
    """Take over counts of use and of retrievals; of two counts of a memory the larger one holds."""
    for line in lines:
        item = _item(line.item, live)
        if item is None:
            continue
        if line.last_included_at is not None:
            db.execute(
                "insert into use values(?, ?, ?) on conflict(item) do update set "
                "included = max(use.included, excluded.included), "
                "last_included_at = max(use.last_included_at, excluded.last_included_at)",
                (item, line.included, microseconds(line.last_included_at)),
            )
        if line.last_retrieved_at is not None:
            db.execute(
                "insert into retrieval values(?, ?, ?) on conflict(item) do update set "
                "retrieved = max(retrieval.retrieved, excluded.retrieved), "
                "last_retrieved_at = max(retrieval.last_retrieved_at, excluded.last_retrieved_at)",
                (item, line.retrieved, microseconds(line.last_retrieved_at)),
            )


def inclusions(db: Connection, lines: Sequence[InclusionLine], live: Live) -> None:
    """Add entries that are not here on the blocks and packs that memories were in."""
    for line in lines:
        item = _item(line.item, live)
        known = (
            item is not None
            and db.execute(
                "select 1 from inclusion where item = ? and receipt = ? and place = ? and kind = ?",
                (item, storable(line.receipt), line.place, line.kind),
            ).fetchone()
        )
        if item is None or known:
            continue
        user = line.user_id and storable(line.user_id)
        db.execute(
            "insert into inclusion(item, receipt, at, kind, user_id, place, score, probability, found_by) "
            "values(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(item, storable(line.receipt), microseconds(line.at), line.kind, user, line.place, line.score),
                *(line.probability, storable(",".join(line.found_by))),
            ),
        )


def _item(item: str, live: Live) -> str | None:
    """The id here of a memory, or an external item's ref; None for what is not here."""
    if is_external(item):
        return item
    row = live(item)
    return None if row is None else str(row["event_id"])
