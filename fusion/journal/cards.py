"""The table of synthesis cards, one for each owner, audience and subject; a card goes with the memories it quotes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fusion.contract import Scope
from fusion.journal import rows
from fusion.lib.cards import METHOD, Card, CardLine, read_lines, written_lines
from fusion.store.database import Connection, Row
from fusion.store.rows import microseconds, storable, time_of

SCHEMA = """
create table card(
    id integer primary key, tenant text not null, user_id text not null, audience text not null, subject text not null,
    at integer not null, digest text not null, body text not null,
    unique(tenant, user_id, audience, subject)
);
create table card_source(
    event_id text not null, card integer not null references card(id) on delete cascade, primary key(event_id, card)
) without rowid;
create index card_source_card on card_source(card);
"""
WORDED = f"""
alter table card add column method text not null default '{METHOD}';
alter table card add column worded text;
"""
"""``body`` is what rules compiled; ``worded`` is what a language model made of it, if one did"""


@dataclass(frozen=True, slots=True)
class StoredCard:
    """A card as it was made, and when. ``lines`` are shown; ``compiled`` are those of the rules that they come from.

    ``method`` made the lines: a version of the rules, or the name of a language model.
    """

    subject: str
    lines: tuple[CardLine, ...]
    compiled: tuple[CardLine, ...]
    method: str
    digest: str
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Worded:
    """The lines that a language model made of a card, and its name."""

    lines: tuple[CardLine, ...]
    method: str


def put(db: Connection, scope: Scope, card: Card, now: datetime, worded: Worded | None = None) -> bool:
    """Store a card in the place of an earlier one of its subject, and what a model made of it.

    Returns False, and stores nothing, if one of its sources was forgotten meanwhile.
    """
    if rows.forgotten(db, card.sources):
        return False
    owner = _owner(scope)
    _delete(db, "tenant = ? and user_id = ? and audience = ? and subject = ?", (*owner, card.subject))
    made = db.execute(
        "insert into card(tenant, user_id, audience, subject, at, digest, body, method, worded) "
        "values(?, ?, ?, ?, ?, ?, ?, ?, ?) returning id",
        (
            *owner,
            card.subject,
            microseconds(now),
            card.digest,
            storable(card.body),
            METHOD if worded is None else storable(worded.method),
            None if worded is None else storable(written_lines(worded.lines)),
        ),
    )
    number = made.fetchone()["id"]
    sources = [(event_id, number) for event_id in card.sources]
    db.executemany("insert into card_source values(?, ?) on conflict do nothing", sources)
    return True


def find(db: Connection, scope: Scope, subject: str) -> StoredCard | None:
    """The card of a subject for exactly this owner and audience."""
    row = db.execute(
        "select * from card where tenant = ? and user_id = ? and audience = ? and subject = ?",
        (*_owner(scope), subject),
    ).fetchone()
    return None if row is None else _stored(row)


def listed(db: Connection, scope: Scope, limit: int) -> list[StoredCard]:
    """The cards of an owner and audience, by subject."""
    found = db.execute(
        "select * from card where tenant = ? and user_id = ? and audience = ? order by subject limit ?",
        (*_owner(scope), limit),
    )
    return [_stored(row) for row in found]


def drop(db: Connection, event_id: str) -> None:
    """Delete the cards that are made of a memory which is forgotten: they quote it."""
    _delete(db, "id in (select card from card_source where event_id = ?)", (event_id,))


def _delete(db: Connection, condition: str, values: tuple[object, ...]) -> None:
    gone = [row["id"] for row in db.execute(f"select id from card where {condition}", values)]
    for card in gone:
        db.execute("delete from card_source where card = ?", (card,))
        db.execute("delete from card where id = ?", (card,))


def _owner(scope: Scope) -> tuple[str, str, str]:
    return storable(scope.tenant), storable(scope.user_id or ""), scope.audience


def _stored(row: Row) -> StoredCard:
    compiled = read_lines(row["body"])
    lines = compiled if row["worded"] is None else read_lines(row["worded"])
    return StoredCard(row["subject"], lines, compiled, row["method"], row["digest"], time_of(row["at"]))
