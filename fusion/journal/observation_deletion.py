"""Deletes observations from the ledger: their rows, the index of their words, and their vectors.

What a person forgets leaves its key, so that no harvest brings it back; what is past its time leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from fusion.contract import Scope
from fusion.journal import audit, observation_vectors
from fusion.journal.observations import Wanted, index_text, scope_of, terms_of, text_of
from fusion.lib.ids import EPISODE
from fusion.lib.observation import EpisodeType
from fusion.lib.words import word_list
from fusion.store.database import Connection, Row
from fusion.store.rows import microseconds

MIN_QUOTED_WORDS = 5
"""words from which a text is a quote of another; a forgotten "yes" must not take every "yes" with it"""
MAX_QUOTE_TERMS = 40
"""different words of a text by which its quotes are looked up, before their words are compared in order"""


def forget(db: Connection, rows: Sequence[Row], by: str, now: datetime) -> None:
    """Delete these rows for good; ``by`` names the criteria for the audit."""
    for row in rows:
        db.execute("insert into observation_forgotten values(?) on conflict do nothing", (row["key"],))
        audit.put(db, scope_of(row), f"{EPISODE}{row['seq']}", 0, by, now)
    drop(db, [row["seq"] for row in rows])


def drop(db: Connection, seqs: Sequence[int]) -> None:
    """Delete rows by number. The index of words is written anew without theirs."""
    if not seqs:
        return
    observation_vectors.drop(db, seqs)
    for table, column in (("observation_text", "rowid"), ("observation", "seq")):
        db.executemany(f"delete from {table} where {column} = ?", [(seq,) for seq in seqs])
    db.execute("insert into observation_text(observation_text) values('optimize')")


def too_old(db: Connection, days: Mapping[EpisodeType, float], tenant: str, now: datetime, limit: int) -> list[Row]:
    """Up to ``limit`` observations that are older than their type is kept; one without days is kept for ever."""
    rows: list[Row] = []
    for each, kept in days.items():
        before = microseconds(now - timedelta(days=kept))
        rows += db.execute(
            "select * from observation where type = ? and tenant = ? and ts < ? order by ts limit ?",
            (each, tenant, before, limit - len(rows)),
        ).fetchall()
    return rows


def quoting(db: Connection, texts: Iterable[str], owner: Scope) -> list[Row]:
    """The observations of an owner that have one of these texts in them, word for word."""
    found: dict[int, Row] = {}
    condition, values = Wanted(owner).terms()
    for text in texts:
        words = word_list(text)
        terms = sorted(set(terms_of(text)), key=len, reverse=True)[:MAX_QUOTE_TERMS]
        if len(words) < MIN_QUOTED_WORDS or not terms:
            continue
        every = " AND ".join(f'"{term.replace(chr(34), chr(34) * 2)}"' for term in terms)
        rows = db.execute(
            "select o.* from observation_text t join observation o on o.seq = t.rowid "
            f"where t.terms match ? and {condition}",
            (every, *values),
        )
        quoted = f" {' '.join(words)} "
        found |= {row["seq"]: row for row in rows if quoted in f" {' '.join(word_list(text_of(row)))} "}
    return list(found.values())


def redact(db: Connection, row: Row, summary: str, by_hand: str) -> None:
    """Replace all that was said in one observation by ``summary``; no harvest brings it back."""
    db.execute(
        "update observation set summary = ?, payload = null, refs = null, redacted = redacted + 1, by_hand = ? "
        "where seq = ?",
        (summary, by_hand, row["seq"]),
    )
    observation_vectors.drop(db, [row["seq"]])
    db.execute("delete from observation_text where rowid = ?", (row["seq"],))
    index_text(db, row["seq"], summary)
    db.execute("insert into observation_text(observation_text) values('optimize')")
