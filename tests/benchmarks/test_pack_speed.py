"""The benchmark of the speed of packs runs, and prints both times and their ratio."""

from __future__ import annotations

import pytest

from benchmarks.pack_speed import pack_speed


@pytest.mark.feature("`python -m benchmarks pack --only speed` prints the time of a pack beside that of /fuse")
async def test_pack_speed_prints_both_times_and_their_ratio() -> None:
    found = await pack_speed(memories=30, questions=2)
    assert found.keys() == {"memories", "questions", "pack_p50_ms", "fuse_p50_ms", "ratio_of_p50", "median_ratio"}
    assert found["pack_p50_ms"] > 0
    assert found["fuse_p50_ms"] > 0
