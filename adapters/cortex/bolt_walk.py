"""The walk over entities and relations in a graph database, by the rules of `adapters.graph.traversal`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from adapters.bolt.driver import Row, Run
from adapters.cortex import cypher
from adapters.cortex.key_phrases import PHRASE, key_phrases
from adapters.cortex.port import Link, View
from adapters.graph.names import named, spans
from adapters.graph.options import WalkOptions
from adapters.graph.traversal import (
    HUB_SCAN_FACTOR,
    MAX_QUERY_ENTITIES,
    MAX_VISITED,
    MENTIONED_WITH,
    Asserted,
    LinkedMemory,
    ReachedEntity,
    by_strength,
    chains,
    ranks,
    reached_entities,
    shares,
)
from fusion.store.rows import storable


class BoltWalk:
    """A walk from the entities that a text names, level by level."""

    def __init__(self, run: Run, view: View, options: WalkOptions) -> None:
        self._run, self._view, self._options = run, view, options
        self._numbers: dict[str, int] = {}

    async def links(self, text: str, similar: Sequence[str], limit: int) -> list[Link]:
        reached = reached_entities(await self._best_paths(await self._named(text)))
        if not reached:
            return []
        near = await self._visible(similar)
        pairs = await self._pairs(reached, near)
        order = sorted({memory for _, memory in pairs} | set(near))  # newer ids are higher
        at = {memory: number for number, memory in enumerate(order)}
        found = by_strength({(self._number(e), at[m]) for e, m in pairs}, reached, [at[memory] for memory in near])
        rank = ranks(found)
        wanted = {at[memory] for memory in near}
        found = [f for place, f in enumerate(found) if place < limit or f.memory in wanted]
        why, share = await self._paths(found, order, reached), shares(found)
        return [Link(order[f.memory], f.hops, rank[f.memory], share[f.memory], why[f.memory]) for f in found]

    def _number(self, entity: str) -> int:
        return self._numbers.setdefault(entity, len(self._numbers))

    async def _named(self, text: str) -> list[Row]:
        """The entities and concepts that ``text`` names, rarest first."""
        phrases = set(key_phrases(text))
        keys = list({name for _, _, name in spans(text)} | phrases)
        if not keys:
            return []
        scope = self._view.scope
        mine = "" if scope.user_id is None else "AND e.owner = $owner"
        values = {"keys": keys, "tenant": storable(scope.tenant), "owner": cypher.owner(scope)}
        rows = await self._run(cypher.NAMED.format(mine=mine), values)
        matched = {*named(text, {row["key"] for row in rows}), *phrases}
        return [row for row in rows if row["key"] in matched][:MAX_QUERY_ENTITIES]

    async def _best_paths(self, seeds: Sequence[Row]) -> list[tuple[int, int, int | None, str | None, int, str, int]]:
        """The best path to each reachable entity: the shortest, preferring relations and rare neighbours."""
        best: dict[str, tuple[tuple[int, int, int, str], tuple[int, int, int | None, str | None, int, str, int]]] = {}
        mentions: dict[str, int] = {}

        def visit(row: Row, depth: int, from_id: str | None, predicate: str | None, inverse: bool) -> None:
            count, is_co_mention = row["mentions"], predicate == MENTIONED_WITH
            way = (depth * 2 + is_co_mention, mentions.get(from_id, 0) if from_id else 0, count, row["id"])
            mentions[row["id"]] = count
            if depth and count > self._options.fan_out:
                return  # a walk may start at a hub, not pass it or end there
            if row["id"] not in best or way < best[row["id"]][0]:
                from_ = self._number(from_id) if from_id else None
                best[row["id"]] = way, (self._number(row["id"]), depth, from_, predicate, inverse, row["name"], count)

        for seed in seeds:
            visit(seed, 0, None, None, False)
        level = [
            seed["id"] for seed in seeds if seed["type"] != PHRASE
        ]  # a phrase leads to its memories and no further
        for depth in range(1, self._options.hops):
            start = [id_ for id_ in level if depth == 1 or mentions[id_] <= self._options.fan_out]
            before = set(best)
            for edge, inverse in (("-[r:RELATES]->", False), ("<-[r:RELATES]-", True)):
                for row in await self._edges(edge, start):
                    visit(row, depth, row["origin"], row["predicate"], inverse)
            for row in await self._together([id_ for id_ in start if mentions[id_] <= self._options.fan_out]):
                visit(row, depth, row["origin"], MENTIONED_WITH, False)
            level = [id_ for id_ in best if id_ not in before]
        return [entity for _, entity in sorted(best.values(), key=lambda b: b[0])][:MAX_VISITED]

    async def _edges(self, edge: str, entities: Sequence[str]) -> list[Row]:
        """The newest visible relations of each entity in one direction."""
        if not entities:
            return []
        condition, values = cypher.visible(self._view, "e", "edge")
        values |= {"entities": entities, "scanned": self._options.fan_out * HUB_SCAN_FACTOR}
        rows = await self._run(cypher.EDGES.format(edge=edge, visible=condition), values)
        return _first(rows, "origin", self._options.fan_out)

    async def _together(self, entities: Sequence[str]) -> list[Row]:
        if not entities:
            return []
        condition, values = cypher.visible(self._view, "e")
        return await self._run(
            cypher.MENTIONED_WITH.format(visible=condition), {**values, "entities": entities, "phrase": PHRASE}
        )

    async def _visible(self, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        condition, values = cypher.visible(self._view)
        statement = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN m.event_id AS id"
        admitted = {row["id"] for row in await self._run(statement, {**values, "ids": list(ids)})}
        return [id_ for id_ in ids if id_ in admitted]

    async def _pairs(self, reached: Mapping[int, ReachedEntity], near: Sequence[str]) -> set[tuple[str, str]]:
        """Pairs of an entity and a memory that mentions it: the newest visible ones of each, and all of ``near``."""
        entities = [entity for entity, number in self._numbers.items() if number in reached]
        entities.sort(key=lambda entity: list(reached).index(self._numbers[entity]))
        condition, values = cypher.visible(self._view, "e")
        values |= {
            "entities": entities[: -(-MAX_VISITED // self._options.fan_out)],
            "scanned": self._options.fan_out * HUB_SCAN_FACTOR,
        }
        rows = await self._run(cypher.MENTIONING.format(visible=condition), values)
        pairs = {(row["entity"], row["memory"]) for row in _first(rows, "entity", self._options.fan_out)}
        wanted = set(entities)
        besides = await self._run(cypher.MENTIONED, {"ids": list(near)}) if near else []
        return pairs | {(row["entity"], row["memory"]) for row in besides if row["entity"] in wanted}

    async def _paths(
        self, found: Sequence[LinkedMemory], order: Sequence[str], reached: Mapping[int, ReachedEntity]
    ) -> dict[int, tuple[str, ...]]:
        rows = await self._run(cypher.ASSERTED, {"ids": [order[f.memory] for f in found]})
        memories = {order[f.memory]: f.memory for f in found}
        asserted: defaultdict[int, list[Asserted]] = defaultdict(list)
        for row in rows:
            ends = self._number(row["subject"]), self._number(row["object"])
            asserted[memories[row["memory"]]].append(
                (ends[0], row["predicate"], ends[1], row["subject_name"], row["object_name"])
            )
        return chains(found, reached, asserted)


def _first(rows: Sequence[Row], by: str, many: int) -> list[Row]:
    """The first ``many`` rows of each value of ``by``."""
    counted: defaultdict[str, int] = defaultdict(int)
    first = []
    for row in rows:
        counted[row[by]] += 1
        if counted[row[by]] <= many:
            first.append(row)
    return first
