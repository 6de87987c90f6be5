"""The graph of entities in the shapes of openclaw-mem's graph tools: nodes, edges, and what asserts each edge.

There it is a graph of nodes that a refresh imports; here its nodes are the entities of memories and facts, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.records import lanes_of
from fusion.lib.listing import record_ref

MAX_ENTITIES = 100


def edges_of(found: Iterable[wire.GraphEntity]) -> list[dict[str, Any]]:
    """The edges of all paths, each once, in the order in which they are reached."""
    edges = {(step["subject"], step["predicate"], step["object"]): step for one in found for step in one["edges"]}
    return [_edge(step) for step in edges.values()]


def neighbors(node: str, direction: str, edges: list[dict[str, Any]]) -> dict[str, Any]:
    """The edges into a node and out of it, as the tool ``graph_neighbors`` returns them."""
    upstream = _side("upstream", node, [edge for edge in edges if _same(edge["dst"], node)])
    downstream = _side("downstream", node, [edge for edge in edges if _same(edge["src"], node)])
    if direction != "both":
        return upstream if direction == "upstream" else downstream
    return {
        "ok": True,
        "query": "neighbors",
        "node_id": node,
        "direction": direction,
        "count": upstream["count"] + downstream["count"],
        "upstream": upstream,
        "downstream": downstream,
    }


def subgraph(
    node: str, hops: int, direction: str, found: list[wire.GraphEntity], max_nodes: int, max_edges: int
) -> dict[str, Any]:
    """What is around a node, as the tool ``graph_path`` returns it: the nearest nodes, and the edges between them."""
    nodes = [{"id": node, "type": "entity"}, *({"id": one["name"], "type": one["kind"]} for one in found)]
    shown = nodes[:max_nodes]
    names = {one["id"].casefold() for one in shown}
    edges = [edge for edge in edges_of(found) if {edge["src"].casefold(), edge["dst"].casefold()} <= names]
    stopped = "max_nodes" if len(nodes) > max_nodes else "max_edges" if len(edges) > max_edges else None
    return {
        "ok": True,
        "query": "subgraph",
        "center_node_id": node,
        "hops": hops,
        "direction": direction,
        "bounds": {"max_nodes": max_nodes, "max_edges": max_edges},
        "node_count": len(shown),
        "edge_count": len(edges[:max_edges]),
        "stopped_reason": stopped,
        "nodes": shown,
        "edges": edges[:max_edges],
        "bundle_text": "\n".join(f"- {one['path']}" for one in found[:max_nodes]),
    }


def impact(path: str, found: list[wire.GraphEntity]) -> dict[str, Any]:
    """What depends on something, as the tool ``graph_impact`` returns it."""
    nodes = [{"id": one["name"], "type": one["kind"]} for one in found]
    edges = edges_of(found)
    return {
        "ok": True,
        "query": "impact",
        "path": path,
        "node_id": path,
        "node": {"id": path, "type": "entity"},
        "node_count": len(nodes),
        "edge_count": len(edges),
        "nodes": nodes,
        "edges": edges,
    }


def hybrid(query: str, limit: int, rows: list[dict[str, Any]], found: list[wire.GraphEntity]) -> dict[str, Any]:
    """A search with the graph: the rows, which the graph took part in ranking, and the entities beside the query's."""
    ranked = [
        {
            **row,
            "lane": "fused",
            "rank": rank,
            "hybrid_score": row["final_score"],
            "rank_components": {"lexical": row["final_score"], "vector": 0.0, "graph": 0.0},
        }
        for rank, row in enumerate(rows, 1)
    ]
    names = ["lexical", "vector", "graph"]
    ranking = {
        "kind": "fused",
        "components": names,
        "weights": dict.fromkeys(names, 1.0),
        "note": "one ranking of all backends: lexical has the whole score",
    }
    entities = [{"name": one["name"], "type": one["kind"], "path": one["path"], "refs": one["refs"]} for one in found]
    return {
        "kind": "openclaw-mem.search.hybrid.v0",
        "query": query,
        "limit": limit,
        "results": ranked,
        "ranking": ranking,
        "graph": {
            "enabled": True,
            "path": None,
            "count": len(entities),
            "entities": entities,
            "fallback_reason": "" if entities else "the graph has nothing on the query",
            "dropped": {},
        },
        "lexical": {"count": len(rows)},
        "query_lang": None,
        "lane_hits": rows[0]["lane_hits"] if rows else lanes_of([]),
        "fallback_triggered": False,
        "cross_lang_recovered": 0,
    }


def _side(query: str, node: str, edges: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": True, "query": query, "node_id": node, "count": len(edges), "edges": edges}


def _edge(step: wire.GraphStep) -> dict[str, Any]:
    refs = [record_ref(ref) for ref in step["refs"]]
    more: Mapping[str, Any] = {"relation": step["relation"], "refs": refs}
    return {
        "src": step["subject"],
        "dst": step["object"],
        "type": step["predicate"],
        "provenance": refs[0] if refs else None,
        "metadata": more,
    }


def _same(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()
