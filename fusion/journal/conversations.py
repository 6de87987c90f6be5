"""Conversations that callers write turn by turn: which sources may add turns to one.

If the first two turns come from one source, only that source may add turns. If each turn has its own source (message
ids), any source of that kind may, but not at a taken place. Any other turn is stored as a claim
(`fusion.contract.CLAIMED_PREFIX`), which is part of no conversation.
"""

from __future__ import annotations

from dataclasses import replace

from fusion.contract import CLAIMED_PREFIX, READER_KINDS, Event
from fusion.store.rows import storable
from fusion.store.sqlite import Connection

_KIND = "coalesce(substr(source, 1, instr(source, ':')), '')"
"""SQL for the kind of a source with its colon; empty without one"""
_TURNS = (
    "select source from event indexed by event_document where tenant = ? and user_id is ? and document = ? "
    "and place_unit = 'turn' and agent_id is ? and run_id is ? and forgotten = 0 and superseded_by is null "
    f"and trust <> 'untrusted' and origin <> 'tool' and {_KIND} = ?"
)


def claim_if_uninvited(db: Connection, event: Event) -> Event:
    """The event, as a claim if its source may not add turns to that conversation. Sources of readers always may."""
    kind, colon, _ = (event.source or "").partition(":")
    place = event.place
    if place is None or place.unit != "turn" or (colon and (kind in READER_KINDS or kind + colon == CLAIMED_PREFIX)):
        return event
    if event.trust == "untrusted" or event.origin == "tool":
        return event  # it is never shown as a neighbour
    scope = event.scope
    owner = (scope.tenant, scope.user_id, place.document, scope.agent_id, scope.run_id)
    values = [value and storable(value) for value in (*owner, kind + colon if colon else "")]
    source = None if event.source is None else storable(event.source)
    taken = db.execute(
        f"{_TURNS} and place_start between ? and ? and source is not ? limit 1",
        (*values, place.start, place.end, source),
    ).fetchone()
    first = [row["source"] for row in db.execute(f"{_TURNS} order by place_start, seq limit 2", values)]
    begun_by_one = len(first) == 2 and first[0] == first[1] and first[0] != source
    if taken is None and not begun_by_one:
        return event
    return replace(event, source=CLAIMED_PREFIX + (event.source or "no source"))
