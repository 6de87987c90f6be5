"""The comparison of statements' vectors finds what comparing all of them in full finds."""

from __future__ import annotations

import numpy as np
import pytest

from fusion.contract import CosineScale
from fusion.upkeep.consolidate import ABOUT, REINFORCES
from fusion.upkeep.consolidator import NEAR_LIMIT, _before, _cosine_for, _Vectors


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@pytest.mark.feature("new statements are compared by the heads of their vectors first, and lose no neighbour")
@pytest.mark.parametrize("dimensions", [3, 128, 384])
def test_nearest_finds_what_comparing_everything_finds(dimensions: int) -> None:
    draw = np.random.default_rng(dimensions)
    held = _unit(draw.standard_normal((500, dimensions)))
    noise = draw.standard_normal((40, dimensions)) / np.sqrt(dimensions)
    asked = _unit(held[:40] + noise * np.linspace(0, 1.2, 40)[:, None])  # cosines from 1 down to .6
    least = [REINFORCES, ABOUT] * 20
    index = _Vectors(dimensions)
    for start in range(0, 500, 50):
        index.add([str(n) for n in range(start, start + 50)], held[start : start + 50])

    found = index.nearest(asked, least)

    cosines = asked @ held.T
    for n, wanted in enumerate(least):
        near = [int(i) for i in np.argsort(-cosines[n]) if cosines[n, i] >= wanted][:NEAR_LIMIT]
        assert [id_ for id_, _ in found[n]] == [str(i) for i in near]
        assert [cosine for _, cosine in found[n]] == pytest.approx([float(cosines[n, i]) for i in near], abs=1e-5)
    assert any(found[n] for n in range(0, 40, 2))


@pytest.mark.feature("new statements are compared with those before them in their batch")
def test_before_gives_each_row_the_similar_ones_that_came_before_it() -> None:
    rows = _unit(np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]], np.float32))
    assert {n: [i for i, _ in near] for n, near in _before(rows).items()} == {2: [0], 3: [1]}


def test_the_least_cosine_is_on_the_scale_of_the_embedder() -> None:
    scale = CosineScale(2.0, -1.0)
    assert scale.of(_cosine_for(scale, REINFORCES)) == pytest.approx(REINFORCES)
    assert _cosine_for(CosineScale(), ABOUT) == ABOUT
    assert _cosine_for(CosineScale(0.1, 0.7), REINFORCES) == pytest.approx(1.0)
    assert _cosine_for(CosineScale(1.0, 0.9), REINFORCES) == ABOUT
