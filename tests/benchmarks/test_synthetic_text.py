"""The made-up texts and backends that costs are measured with."""

from __future__ import annotations

from collections import Counter
from random import Random

import orjson
import pytest

from benchmarks.overhead_servers import BACKENDS, CHARACTERS, HITS, SHARED, VARIANTS, replies
from benchmarks.synthetic_text import question, sentence


@pytest.mark.parametrize("characters", [1, 40, 500])
def test_a_synthetic_text_has_the_requested_length(characters: int) -> None:
    """Costs are stated for so many characters, so they are so many."""
    assert len(sentence(Random(1), characters)) == characters


def test_the_same_seed_writes_the_same() -> None:
    """Two runs measure the same work."""
    assert sentence(Random("a"), 200) == sentence(Random("a"), 200) != sentence(Random("b"), 200)
    assert question(Random(1)) == question(Random(1))


def test_texts_have_common_and_rare_words() -> None:
    """Of some thousand words most kinds occur once or twice, as in any language, so dedup and BM25 do real work."""
    counts = Counter(sentence(Random(1), 20_000).split())
    once = sum(count <= 2 for count in counts.values())
    assert once > len(counts) / 2
    assert max(counts.values()) > 20


def test_four_backends_have_sixty_candidates_of_which_neighbours_share_some() -> None:
    """15 a backend, 500 characters each; the last 2 of each are the first 2 of the next: 60 - 4 * 2 distinct texts."""
    bodies = [[orjson.loads(body)["hits"] for body in replies(backend)] for backend in range(BACKENDS)]
    assert {len(hits) for backend in bodies for hits in backend} == {HITS}
    assert {len(hit["text"]) for backend in bodies for hits in backend for hit in hits} == {CHARACTERS}
    distinct = {hit["text"] for backend in bodies for hit in backend[0]}
    assert len(distinct) == BACKENDS * (HITS - SHARED)
    assert len({hits[0]["text"] for hits in bodies[0]}) == VARIANTS
