"""Searches episodes by words, by meaning, or both; their vectors come from the home's embedder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusion.contract import Embedder
from fusion.errors import BadInput, FusionError
from fusion.journal import Journal, observation_vectors, observations
from fusion.journal.observations import Match, Wanted
from fusion.lib.ids import EPISODE
from fusion.lib.observation import SearchMode
from fusion.lib.rank_fusion import highest, rank_fusion, ranked

EMBED_BATCH = 32
"""texts that the embedder gets at once"""
OFF = "off: [embedder] names no model"


@dataclass(frozen=True, slots=True)
class Found:
    """Matches, best first; ``vectors`` says whether vectors took part, and ``lists`` are the rankings behind it."""

    matches: Sequence[Match]
    vectors: str = "not asked"
    lists: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)

    def trace(self) -> Mapping[str, Any]:
        """By ranking, the rank and the score of each episode, without text."""
        every = {**self.lists, "fused": [(one.row["seq"], one.score) for one in self.matches]}
        return {
            name: [
                {"ref": f"{EPISODE}{seq}", "rank": rank, "score": round(score, 4)}
                for (seq, score), rank in ranked(found)
            ]
            for name, found in every.items()
        }


async def search(
    journal: Journal, embedder: Embedder | None, query: str, wanted: Wanted, mode: SearchMode, limit: int
) -> Found:
    """The episodes that fit a query.

    Without vectors a hybrid search is one by words, and says why; one by vectors raises BadInput.
    """
    words = [] if mode == "vector" else await journal.read(observations.by_words, query, wanted, limit)
    if mode == "lexical":
        return Found(words)
    by_vector, status = await _by_vector(journal, embedder, query, wanted, limit)
    if mode == "vector":
        if not by_vector and status != "ok":
            raise BadInput(f"mode: there is nothing to search by vectors, {status}")
        lists = {"vector": by_vector}
        scores = dict(by_vector)
    else:
        lists = {"lexical": [(one.row["seq"], one.score) for one in words], "vector": by_vector}
        fused = rank_fusion([ranked([seq for seq, _ in found]) for found in lists.values()])
        best = highest([1.0] * len(lists))
        scores = {seq: score / best for seq, score in sorted(fused.items(), key=lambda one: (-one[1], -one[0]))}
    rows = await journal.read(observations.rows_of, list(scores)[:limit])
    return Found([Match(rows[seq], score) for seq, score in scores.items() if seq in rows][:limit], status, lists)


async def _by_vector(
    journal: Journal, embedder: Embedder | None, query: str, wanted: Wanted, limit: int
) -> tuple[list[tuple[int, float]], str]:
    """The nearest episodes with their cosines, and "ok" or what is wrong with the vectors."""
    if embedder is None:
        return [], OFF
    stored = await journal.read(observation_vectors.of, wanted, embedder.identity)
    missing = await journal.read(observation_vectors.count_without, wanted, embedder.identity)
    makes = "`fusion mem episodes embed`, POST /v1/episodes/embed, makes them"
    lacks = f"{missing:,} episodes have no vectors of {embedder.identity}: {makes}"
    if not stored:
        return [], lacks if missing else "ok"
    try:
        (asked,) = await embedder.embed([query], keep=False)
    except FusionError as error:
        return [], f"off: {error}"
    matrix = np.frombuffer(b"".join(one.vector for one in stored), dtype=np.float32).reshape(len(stored), -1)
    cosines = matrix @ asked
    best = np.argsort(-cosines, kind="stable")[:limit]
    return [(stored[i].seq, max(0.0, float(cosines[i]))) for i in best], lacks if missing else "ok"


async def embed(journal: Journal, embedder: Embedder, wanted: Wanted, limit: int) -> tuple[int, int]:
    """Make vectors of up to ``limit`` episodes that have none of this model; how many were made, and are left.

    The texts are not kept in the embedder's caches, which forgetting would have to reach.
    """
    made = 0
    rows = await journal.read(observation_vectors.without_vector, wanted, embedder.identity, limit)
    for start in range(0, len(rows), EMBED_BATCH):
        batch = rows[start : start + EMBED_BATCH]
        vectors = await embedder.embed([observations.text_of(row) for row in batch], keep=False)
        packed = [np.ascontiguousarray(one, dtype=np.float32).tobytes() for one in vectors]
        made += await journal.write(observation_vectors.put, embedder.identity, batch, packed)
    return made, await journal.read(observation_vectors.count_without, wanted, embedder.identity)
