"""Builds a search request for Qdrant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.qdrant.sparse import Sparse

Condition = Mapping[str, Any]


def matching(key: str, value: str) -> Condition:
    return {"key": key, "match": {"value": value}}


def question(
    vector: tuple[str, list[float]] | None,
    words: tuple[str, Sparse] | None,
    where: Sequence[Condition],
    limit: int,
    merge: str = "rrf",
) -> dict[str, Any] | None:
    """The body of POST /points/query; ``None`` where there is nothing to ask by.

    ``vector`` and ``words`` come with the names of their vectors. The filter is in each of the merged searches,
    so filtered points take no place in them.
    """
    searches = [
        {
            "query": asked,
            "limit": limit,
            **({"using": name} if name else {}),
            **({"filter": where_all(where)} if where else {}),
        }
        for name, asked in (one for one in (vector, words) if one is not None)
    ]
    if not searches:
        return None
    if len(searches) == 1:
        return {**searches[0], "with_payload": True}
    return {"prefetch": searches, "query": {"fusion": merge}, "limit": limit, "with_payload": True}


def where_all(conditions: Sequence[Condition]) -> Condition:
    return {"must": list(conditions)}
