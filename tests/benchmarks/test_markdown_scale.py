"""Markdown at scale in the benchmarks, on a vault of sixty chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import markdown_scale
from benchmarks.markdown_vault import write_vault


@pytest.mark.feature("figures: Markdown at scale (search, start, change, scan), a million chunks, MuSiQue as a vault")
async def test_a_vault_is_built_followed_and_asked(tmp_path: Path) -> None:
    """Six files of ten sections: every figure is there, and 20 of 60 are ranked as by unrounded vectors."""
    home, vault = tmp_path / "home", tmp_path / "vault"
    write_vault(vault, 60)
    assert (await markdown_scale.build(home, vault))["index_chunks_per_s"] > 0
    followed = await markdown_scale.follow(home, vault)
    assert followed.keys() == {"noop_sync_ms", "noop_sync_cpu_ms", "touch_visible_ms", "touch_cpu_ms"}
    started = await markdown_scale.start(home, vault, False)
    assert started["cpu_s"] > 0
    asked = await markdown_scale.ask(home, vault, True)
    assert asked.keys() >= {"hybrid_cpu_ms", "bare_cpu_ms", "ratio_to_bare", "rss_mb"}
    assert asked["vs_exact"] > 0.9


def test_the_figures_of_a_size_have_its_name() -> None:
    """Of 100,000 chunks those of the index too; of a million its memory instead of the bare engines."""
    asked = {"hybrid_cpu_ms": 2.0, "bare_cpu_ms": 1.0, "ratio_to_bare": 2.0, "vs_exact": 1.0}
    asked |= {"rss_mb": 3, "rss_peak_mb": 4}
    built = {"index_chunks_per_s": 5}
    small, large, million = (
        markdown_scale.of_size(chunks, built, asked)
        for chunks in (markdown_scale.SMALL, markdown_scale.LARGE, markdown_scale.MILLION)
    )
    assert small == {"hybrid_cpu_ms_10k": 2.0, "bare_cpu_ms_10k": 1.0, "ratio_to_bare_10k": 2.0, "vs_exact_10k": 1.0}
    assert large.keys() >= {"hybrid_cpu_ms_100k", "ratio_to_bare_100k", "index_chunks_per_s"}
    assert (million["million_rss_mb"], million["million_cpu_ms"], million["million_vs_exact"]) == (3, 2.0, 1.0)
