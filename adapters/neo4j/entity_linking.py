"""Finds the entities of a graph that a query names. Pure functions.

A full-text index proposes entities, and those that are named to the letter come first, by the rules of
`adapters.graph.names`: the longest name, regardless of case, accents and punctuation. Without an index, names are
looked up in their usual spellings, because a database compares them exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from adapters.graph.names import key, named, spans
from adapters.neo4j.rows import Node
from fusion.lib.words import STOP_WORDS, stems, word_list
from fusion.store.rows import storable

MAX_QUERY_ENTITIES = 10
"""maximum entities of a question from which a walk starts: seed 000's bound on its entity search"""

SPELLINGS = 2000
"""maximum spellings of names that are looked up for one question"""

UNITS, LONGEST = 64, 8
"""words of a question that are searched for names as they are written, and words of the longest name"""

AT_LEAST = 0.5
"""minimum share of a name's words that a question must have if it does not have the whole name"""


def significant_words(text: str) -> str:
    """A question for a full-text index: without the words that say nothing, unless it has no others."""
    words = word_list(text)
    return " ".join([word for word in words if word not in STOP_WORDS] or words)


def spellings(text: str) -> list[str]:
    """All possible names in ``text``, as written there and in the usual spellings of names."""
    return list(islice(dict.fromkeys(map(storable, _spellings(text))), SPELLINGS))


def _spellings(text: str) -> Iterator[str]:
    units = [unit for raw in text.split()[:UNITS] if (unit := raw.strip(".,;:!?¿¡\"'“”‘’«»()[]{}…、。！？"))]
    for start in range(len(units)):
        for end in range(start + 1, min(start + LONGEST, len(units)) + 1):
            name = " ".join(units[start:end])
            if key(name) not in STOP_WORDS:
                yield name
                if name.endswith(("'s", "’s")):
                    yield name[:-2]
    for _, _, name in spans(text):
        yield from (name, name.title(), name[0].upper() + name[1:], name.upper())


def linked(text: str, candidates: Sequence[tuple[Node, Sequence[str]]]) -> list[tuple[Node, float]]:
    """The entities that ``text`` names, with how surely: 1 for a whole name, less where some of its words are missing.

    ``candidates`` are entities with all of their names, best first.
    """
    if not candidates:
        return []
    keys = {node.native_id: {key(name) for name in names} - {""} for node, names in candidates}
    named_at = {name: place for place, name in enumerate(named(text, {k for some in keys.values() for k in some}))}
    there = {name for _, _, name in spans(text)}
    asked = frozenset(stems(text))
    found: dict[str, tuple[float, int, Node]] = {}
    for rank, (node, _) in enumerate(candidates):
        mine = keys[node.native_id]
        if node.native_id in found:
            continue
        if places := [named_at[name] for name in mine if name in named_at]:
            found[node.native_id] = 1.0, min(places), node
        elif mine.isdisjoint(there):  # a name within a longer one does not count
            share = max((_share(name, asked) for name in mine), default=0.0)
            if share >= AT_LEAST:
                found[node.native_id] = share / 2, rank, node
    best = sorted(found.values(), key=lambda one: (-one[0], one[1], one[2].native_id))
    return [(node, weight) for weight, _, node in best[:MAX_QUERY_ENTITIES]]


def _share(name: str, asked: frozenset[str]) -> float:
    mine = frozenset(stems(name))
    return len(mine & asked) / len(mine) if mine else 0.0
