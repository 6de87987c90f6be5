"""`python -m benchmarks markdown`, on a vault of sixty chunks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import markdown
from benchmarks.__main__ import main
from benchmarks.datasets import Corpus, Item
from tests.benchmarks.helpers import HOPS


@pytest.mark.feature("figures: Markdown at scale (search, start, change, scan), a million chunks, MuSiQue as a vault")
async def test_a_vault_is_built_followed_and_asked(tmp_path: Path) -> None:
    """Six files of ten sections: every figure is there, and 20 of 60 are told apart as by unrounded vectors."""
    home, vault = tmp_path / "home", tmp_path / "vault"
    markdown.write_vault(vault, 60)
    assert (await markdown.build(home, vault))["index_chunks_per_s"] > 0
    followed = await markdown.follow(home, vault)
    assert followed.keys() == {"noop_sync_ms", "noop_sync_cpu_ms", "touch_visible_ms", "touch_cpu_ms"}
    started = await markdown.start(home, vault, False)
    assert started["cpu_s"] > 0
    asked = await markdown.ask(home, vault, True)
    assert asked.keys() >= {"hybrid_cpu_ms", "bare_cpu_ms", "ratio_to_bare", "rss_mb"}
    assert asked["vs_exact"] > 0.9


def test_the_figures_of_a_size_have_its_name() -> None:
    """Of 100,000 chunks those of the index too; of a million its memory instead of the bare engines."""
    asked = {"hybrid_cpu_ms": 2.0, "bare_cpu_ms": 1.0, "ratio_to_bare": 2.0, "vs_exact": 1.0}
    asked |= {"rss_mb": 3, "rss_peak_mb": 4}
    built = {"index_chunks_per_s": 5}
    small, large, million = (
        markdown.of_size(chunks, built, asked) for chunks in (markdown.SMALL, markdown.LARGE, markdown.MILLION)
    )
    assert small == {"hybrid_cpu_ms_10k": 2.0, "bare_cpu_ms_10k": 1.0, "ratio_to_bare_10k": 2.0, "vs_exact_10k": 1.0}
    assert large.keys() >= {"hybrid_cpu_ms_100k", "ratio_to_bare_100k", "index_chunks_per_s"}
    assert (million["million_rss_mb"], million["million_cpu_ms"], million["million_vs_exact"]) == (3, 2.0, 1.0)


def test_a_paragraph_is_a_file_called_by_its_title(tmp_path: Path) -> None:
    """Two of one title are told apart, and what no file may be called by is left out."""
    items = [Item("P0", "Lyon/Rhône. A city."), Item("P1", "Lyon/Rhône. Once more."), Item("P2", ". Nothing.")]
    files = markdown.write_paragraphs(tmp_path / "v", Corpus("c", tuple(items), ()))
    assert files == {"v/Lyon Rhône.md": "P0", "v/Lyon Rhône 2.md": "P1", "v/note.md": "P2"}
    assert (tmp_path / "v" / "Lyon Rhône 2.md").read_text() == "Lyon/Rhône. Once more.\n"


def test_the_files_of_chunks() -> None:
    """Each once, in the order of its best chunk."""
    assert markdown.documents(["v/a.md#L1-L2", "v/b#1.md#L1-L1@0f", "v/a.md#L9-L9"]) == ["v/a.md", "v/b#1.md"]


@pytest.mark.model
@pytest.mark.slow
async def test_musique_is_measured_as_a_vault(tmp_path: Path) -> None:
    """Recall at five of both rankings and both halves, with the paired intervals."""
    data = tmp_path / "hops.json"
    data.write_text(json.dumps(HOPS), encoding="utf-8")
    figures = await markdown.musique(tmp_path, markdown.read_musique(data))
    arms = ("hybrid", "unlinked", "rrf", "bm25", "dense")
    assert all(0 <= figures[f"musique_{arm}_r5"] <= 1 for arm in arms)
    assert figures["musique_hybrid_over_dense"]["n"] == len(HOPS)


def test_markdown_names_data_that_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is built."""
    assert main(["markdown", "--json", "--data", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
