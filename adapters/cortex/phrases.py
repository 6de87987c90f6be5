"""The concepts of memories in SQLite: which memories speak of a phrase, as one thin table of numbers.

They are not entities there: a text has some twenty phrases, most of them in no other text, and nodes for all of them
would be nine tenths of the graph. A phrase leads to its memories and no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from json import dumps

from adapters.cortex.concepts import concepts
from adapters.graph import LINKED, MANY, SCANNED, Reached, Seen, telling
from fusion.contract import Scope
from fusion.store.rows import storable
from fusion.store.sqlite import Connection, tuples

SCHEMA = """
create table phrase (
    hash integer not null, owner integer not null, memory integer not null, primary key (hash, owner, memory)
) without rowid;
"""

VERSION = 1
"""of what a text's concepts are; memories that were kept under another get theirs again when the store is opened"""

COUNTED = 4096
"""memories of a phrase that are counted: whoever has more says no less"""


def keep(db: Connection, memories: Iterable[tuple[int, Scope, str]]) -> None:
    """Records what these memories (id, scope, text) speak of."""
    db.executemany("insert or ignore into phrase values (?, ?, ?)", sorted(_rows(memories)))


def drop(db: Connection, memories: Iterable[tuple[int, Scope, str]]) -> None:
    """…and no more."""
    db.executemany("delete from phrase where hash = ? and owner = ? and memory = ?", _rows(memories))


def speaking(
    db: Connection, view: Seen, text: str, scope: Scope, similar: Sequence[int], fan_out: int, named: Mapping[int, str]
) -> tuple[dict[int, Reached], set[tuple[int, int]]]:
    """What the concepts of ``text`` lead to, the ten rarest: these as nodes below zero, but for those that are
    ``named`` entities (with their keys), and pairs of a node and a memory. Of a hub, its newest memories and those
    ``similar``.
    """
    mine = "" if scope.user_id is None else "and owner = :owner"
    phrases = {_hash(phrase): phrase for phrase in concepts(text)}
    counts = db.execute(
        "select h.value, (select count(*) from (select 1 from phrase where hash = h.value "
        f"{mine} limit :counted)) as n from json_each(:hashes) h where n > 0 order by n, h.key limit :linked",
        {"hashes": dumps(list(phrases)), "owner": _owner(scope), "counted": COUNTED, "linked": LINKED},
    ).fetchall()
    entities = {key: entity for entity, key in [*named.items()][::-1]}  # of several owners, the rarest
    seen, values = view
    nodes: dict[int, Reached] = {}
    pairs: set[tuple[int, int]] = set()
    for place, (of, count) in enumerate(counts, start=1):
        phrase = phrases[of]
        node = entities.get(phrase, -place)
        if node < 0:
            nodes[node] = Reached(node, phrase, 0, telling(count))
        newest = tuples(
            db,
            f"select m.id from (select memory from phrase where hash = :hash {mine} "
            "order by memory desc limit :scanned) p "
            f"join memory m on m.id = p.memory where {seen} limit :fan_out",
            {**values, "hash": of, "owner": _owner(scope), "scanned": fan_out * SCANNED, "fan_out": fan_out},
        )
        pairs.update((node, row[0]) for row in newest)
        if count > fan_out:
            besides = tuples(
                db,
                f"select memory from phrase where hash = :hash {mine} and memory in {MANY.replace('?', ':similar')}",
                {"hash": of, "owner": _owner(scope), "similar": dumps(list(similar))},
            )
            pairs.update((node, row[0]) for row in besides)
    return nodes, pairs


def _rows(memories: Iterable[tuple[int, Scope, str]]) -> Iterator[tuple[int, int, int]]:
    for id_, scope, text in memories:
        owner = _owner(scope)
        yield from ((_hash(phrase), owner, id_) for phrase in concepts(text))


def _hash(phrase: str) -> int:
    """48 bits: of a million phrases, two share one with a chance of a thousandth."""
    return int.from_bytes(blake2b(storable(phrase).encode(), digest_size=6).digest(), "big")


def _owner(scope: Scope) -> int:
    """A number for the user of a tenant; SQL filters by the names themselves."""
    whose = dumps([storable(scope.tenant), storable(scope.user_id or "")])
    return int.from_bytes(blake2b(whose.encode(), digest_size=4).digest(), "big")
