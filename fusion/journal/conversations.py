"""Conversations: which sources and files may add turns to one, and whose line has a natural key.

Turns that callers write: if the first two turns come from one source, only that source may add turns. If each turn has
its own source (message ids), any source of that kind may, but not at a taken place.

Lines of JSONL: a file may add to a conversation that is empty or that it began, or whose first long turn it has word
for word, as a file that was moved or exported again has. No file takes a natural key under which another file, or a
caller, said something else; and by a short ref it replaces only its own lines.

Any other event is stored as a claim (`fusion.contract.CLAIMED_PREFIX`), which is part of no conversation but that of
its own source. By the row that has an event's natural key:

    event    row                                                              outcome
    line     forgotten, and a tombstone blocks the event                      not stored
    line     current, same text; no file, the same file, or the same fields   duplicate
    line     current, same text; another file and other fields                claim
    line     not forgotten, other text; another file, or no file nor place    claim
    line     none, or any other                                               stored if it may join and replace
    caller   none                                                             stored if it may join
    caller   of a file, with another text or other fields                     claim
    caller   any other                                                        stored, or a duplicate
"""

from __future__ import annotations

from dataclasses import replace

from fusion.contract import CLAIMED_PREFIX, READER_KINDS, Event, document_key
from fusion.journal.rows import Keys, keys_of, row_of
from fusion.journal.tombstones import is_blocked
from fusion.lib.ids import parse_short_ref
from fusion.store.database import Connection, Row
from fusion.store.rows import EVENT_NAMES, event_row, storable

LONG_TURN_CHARS = 20
"""characters of a turn that no stranger guesses"""
GREETINGS = 20
"""the first turns of a conversation among which such a turn is looked for"""

_KIND = "coalesce(substr(source, 1, instr(source, ':')), '')"
"""SQL for the kind of a source with its colon; empty without one"""
_PARTY = f"(case when {_KIND} = '{CLAIMED_PREFIX}' then source else {_KIND} end)"
"""SQL for what the sources of one conversation have in common: their kind, or the whole of a claimed source"""
_DOUBTFUL = "(trust = 'untrusted' or origin = 'tool')"
SCHEMA = f"""
create index event_turn on event(
    tenant, user_id, document, place_unit, agent_id, run_id, {_PARTY}, {_DOUBTFUL}, place_start
) where document is not null and forgotten = 0 and superseded_by is null;
"""
"""finds the first turns of a conversation without reading those of another party at the same places"""
_PLACED = (
    "from event indexed by event_turn where tenant = ? and user_id is ? and agent_id is ? and run_id is ? "
    "and document = ? and place_unit = ? and forgotten = 0 and superseded_by is null"
)
_TURNS = f"select source {_PLACED} and {_DOUBTFUL} = 0 and {_PARTY} = ?"


def claim_if_uninvited(db: Connection, event: Event, keys: Keys) -> Event:
    """The event, as a claim if it may not join the conversation at its place, or not have its natural key.

    A claim of a file replaces nothing. A file that has a conversation's first turn becomes the file of that turn.
    """
    # This ends: each claim has a longer source, and one that no row has yet has an empty conversation.
    while not _is_invited(db, event, keys):
        event = replace(event, source=_claimed_source(event), supersedes=None if event.file else event.supersedes)
        keys = keys_of(event)
    return event


def _claimed_source(event: Event) -> str:
    of_file = f"{CLAIMED_PREFIX}jsonl:{event.file}"
    if event.file is not None and not (event.source or "").endswith(of_file):
        return of_file
    return CLAIMED_PREFIX + (event.source or "no source")


def _is_invited(db: Connection, event: Event, keys: Keys) -> bool:
    known = db.execute("select * from event where natural = ?", (keys[1],)).fetchone()
    if event.file is not None:
        return _line_is_invited(db, event, keys, known)
    if known is not None:
        return known["file"] is None or _states(known, event)
    return _caller_is_invited(db, event)


# Files -----------------------------------------------------------------------------------------------------------


def _line_is_invited(db: Connection, event: Event, keys: Keys, known: Row | None) -> bool:
    """Whether a line of JSONL may be stored as it is; ``known`` is the event that has its natural key."""
    if known is not None and known["forgotten"] and is_blocked(db, event, keys):
        return True  # it is not stored at all
    member = event.place is None or _file_is_invited(db, event)
    if known is not None and _is_current(known) and _says(known, event):  # a duplicate, which changes nothing
        if known["file"] not in {None, event.file} and not _states(known, event):
            return False
        if member and known["file"] is None and (event.place is not None or _is_of_readers(event)):
            _set_file(db, known, event)
        return True
    return member and not _is_of_another_file(known, event) and _may_replace(db, event)


def _is_of_readers(event: Event) -> bool:
    """Whether an event has a source that only the gateway's readers may name."""
    kind, colon, _ = (event.source or "").partition(":")
    return bool(colon) and kind in READER_KINDS


def _is_of_another_file(known: Row | None, event: Event) -> bool:
    """Whether an event with the same natural key is of another file that said something else.

    An event of an earlier version has no file; at a place it is of the file that has the conversation.
    """
    if known is None or known["forgotten"] or known["file"] == event.file or _says(known, event):
        return False
    return known["file"] is not None or event.place is None


def _may_replace(db: Connection, event: Event) -> bool:
    """Whether a line may replace what it names: anything by its id; by a short ref, which is guessed, its own lines."""
    if event.supersedes is None or parse_short_ref(event.supersedes) is None:
        return True
    replaced = row_of(db, event.supersedes, replace(event.scope, audience="private"))
    return bool(replaced["file"] == event.file)


def _file_is_invited(db: Connection, event: Event) -> bool:
    """As `may_join`; and a file that has the first long turn becomes the file of the conversation."""
    if not may_join(db, event):
        return False
    began = _first_turns(db, event, 1)
    if began and began[0]["file"] != event.file:
        _set_file(db, began[0], event)
    return True


def may_join(db: Connection, event: Event) -> bool:
    """Whether a line of a file would join the conversation at its place; true of an event that no file has."""
    if event.file is None or event.place is None:
        return True
    began = _first_turns(db, event, 1)
    if not began or began[0]["file"] == event.file:
        return True
    long = (turn for turn in _first_turns(db, event, GREETINGS) if len(turn["text"]) >= LONG_TURN_CHARS)
    proof = next(long, None)
    return proof is not None and _says(proof, event)


def _set_file(db: Connection, row: Row, event: Event) -> None:
    db.execute("update event set file = ? where seq = ?", (event.file, row["seq"]))


def adopt(db: Connection, event: Event) -> None:
    """Give a conversation of an earlier version, whose turns have no file, to the file that has a long turn of it.

    Any of the first turns counts, because the very first may have been edited since.
    """
    if event.file is None or event.place is None or len(event.text) < LONG_TURN_CHARS or not _is_of_readers(event):
        return
    began = _first_turns(db, event, 1)
    if began and began[0]["file"] is None and any(_says(turn, event) for turn in _first_turns(db, event, GREETINGS)):
        _set_file(db, began[0], event)


def _first_turns(db: Connection, event: Event, limit: int) -> list[Row]:
    """The first current turns of the conversation that an event would join."""
    source = storable(event.source or "")
    kind, colon, _ = source.partition(":")
    party = source if source.startswith(CLAIMED_PREFIX) else kind + colon if colon else ""
    doubtful = event.trust == "untrusted" or event.origin == "tool"
    return db.execute(
        f"select seq, text, file {_PLACED} and {_PARTY} = ? and {_DOUBTFUL} = ? order by place_start, seq limit ?",
        (*_place_values(event), party, doubtful, limit),
    ).fetchall()


def _says(row: Row, event: Event) -> bool:
    return bool(row["text"] == storable(event.text))


def _states(row: Row, event: Event) -> bool:
    """Whether a row of another file says the same in all that decides who sees it, when, and how far it is believed.

    Else a file could keep a line of another out by the same words, with an end in the past.
    """
    fields = dict(zip(EVENT_NAMES, event_row(event), strict=True))
    compared = ("text", "valid_from", "valid_to", "origin", "trust", "audience")
    who = () if event.place is not None else ("speaker",)  # a conversation exported again may name its speakers
    return all(row[name] == fields[name] for name in (*compared, *who))


def _is_current(row: Row) -> bool:
    return not row["forgotten"] and row["superseded_by"] is None


# Callers ---------------------------------------------------------------------------------------------------------


def _caller_is_invited(db: Connection, event: Event) -> bool:
    """Whether an event that no file has may join the conversation at its place. Sources of readers always may."""
    source = event.source or ""
    kind, colon, _ = source.partition(":")
    if event.place is None or _is_of_readers(event):
        return True
    if source.startswith(CLAIMED_PREFIX):
        first = _first_turns(db, event, 1)
        return not first or first[0]["file"] is None
    if event.place.unit != "turn" or event.trust == "untrusted" or event.origin == "tool":
        return True  # it is never shown as a neighbour
    values = (*_place_values(event), kind + colon if colon else "")
    source_or_none = event.source and storable(event.source)
    taken = db.execute(
        f"{_TURNS} and place_start between ? and ? and source is not ? limit 1",
        (*values, event.place.start, event.place.end, source_or_none),
    ).fetchone()
    first = [row["source"] for row in db.execute(f"{_TURNS} order by place_start, seq limit 2", values)]
    begun_by_one = len(first) == 2 and first[0] == first[1] and first[0] != source_or_none
    return taken is None and not begun_by_one


def _place_values(event: Event) -> list[str | None]:
    """The values of ``_PLACED``."""
    *values, _ = document_key(event)
    return [value and storable(value) for value in values]
