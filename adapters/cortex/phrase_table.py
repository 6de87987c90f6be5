"""The key phrases of memories in SQLite, as one narrow table of numbers: phrase hash, owner, memory.

They are not entities here: a text has some twenty phrases, most of them unique, and their nodes would be nine tenths of
the graph. A phrase leads to its memories and no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from json import dumps

from adapters.cortex.key_phrases import key_phrases
from adapters.graph.traversal import HUB_SCAN_FACTOR, MAX_QUERY_ENTITIES, Condition, ReachedEntity, rarity
from fusion.contract import Scope
from fusion.store.database import VALUES
from fusion.store.rows import storable
from fusion.store.sqlite import Connection, tuples

SCHEMA = """
create table phrase (
    hash integer not null, owner integer not null, memory integer not null, primary key (hash, owner, memory)
) without rowid;
"""

VERSION = 1
"""version of the extraction; memories stored under another one are extracted again when the store is opened"""

COUNTED = 4096
"""maximum memories of a phrase that are counted; more make no difference"""


def keep(db: Connection, memories: Iterable[tuple[int, Scope, str]]) -> None:
    """Record the phrases of these memories (id, scope, text)."""
    db.executemany("insert or ignore into phrase values (?, ?, ?)", sorted(_rows(memories)))


def drop(db: Connection, memories: Iterable[tuple[int, Scope, str]]) -> None:
    """Delete the phrases of these memories."""
    db.executemany("delete from phrase where hash = ? and owner = ? and memory = ?", _rows(memories))


def phrase_links(
    db: Connection,
    view: Condition,
    text: str,
    scope: Scope,
    similar: Sequence[int],
    fan_out: int,
    named: Mapping[int, str],
) -> tuple[dict[int, ReachedEntity], set[tuple[int, int]]]:
    """The ten rarest phrases of ``text`` as nodes, and pairs of a node and a memory that has the phrase.

    A phrase's node id is below zero, unless it is the key of an entity in ``named``: then it is that entity. Of a
    frequent phrase only the newest memories and those in ``similar`` are paired.
    """
    mine = "" if scope.user_id is None else "and owner = :owner"
    phrases = {_hash(phrase): phrase for phrase in key_phrases(text)}
    counts = db.execute(
        "select h.value, (select count(*) from (select 1 from phrase where hash = h.value "
        f"{mine} limit :counted)) as n from json_each(:hashes) h where n > 0 order by n, h.key limit :linked",
        {"hashes": dumps(list(phrases)), "owner": _owner(scope), "counted": COUNTED, "linked": MAX_QUERY_ENTITIES},
    ).fetchall()
    entities = {key: entity for entity, key in [*named.items()][::-1]}  # if several owners have the key, the rarest
    seen, values = view
    nodes: dict[int, ReachedEntity] = {}
    pairs: set[tuple[int, int]] = set()
    for place, (of, count) in enumerate(counts, start=1):
        phrase = phrases[of]
        node = entities.get(phrase, -place)
        if node < 0:
            nodes[node] = ReachedEntity(node, phrase, 0, rarity(count))
        newest = tuples(
            db,
            f"select m.id from (select memory from phrase where hash = :hash {mine} "
            "order by memory desc limit :scanned) p "
            f"join memory m on m.id = p.memory where {seen} limit :fan_out",
            {**values, "hash": of, "owner": _owner(scope), "scanned": fan_out * HUB_SCAN_FACTOR, "fan_out": fan_out},
        )
        pairs.update((node, row[0]) for row in newest)
        if count > fan_out:
            besides = tuples(
                db,
                f"select memory from phrase where hash = :hash {mine} and memory in {VALUES.replace('?', ':similar')}",
                {"hash": of, "owner": _owner(scope), "similar": dumps(list(similar))},
            )
            pairs.update((node, row[0]) for row in besides)
    return nodes, pairs


def _rows(memories: Iterable[tuple[int, Scope, str]]) -> Iterator[tuple[int, int, int]]:
    for id_, scope, text in memories:
        owner = _owner(scope)
        yield from ((_hash(phrase), owner, id_) for phrase in key_phrases(text))


def _hash(phrase: str) -> int:
    """A 48-bit hash: among a million phrases, two collide with a probability of a thousandth."""
    return int.from_bytes(blake2b(storable(phrase).encode(), digest_size=6).digest(), "big")


def _owner(scope: Scope) -> int:
    """A number for the user of a tenant, to narrow the index; SQL filters by the names themselves."""
    whose = dumps([storable(scope.tenant), storable(scope.user_id or "")])
    return int.from_bytes(blake2b(whose.encode(), digest_size=4).digest(), "big")
