"""MuSiQue as a vault of Markdown, in the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import markdown_musique
from benchmarks.datasets import Corpus, Item
from tests.benchmarks.helpers import HOPS


def test_a_paragraph_is_a_file_named_by_its_title(tmp_path: Path) -> None:
    """Two of one title get different names, and characters that a file name cannot have are left out."""
    items = [Item("P0", "Lyon/Rhône. A city."), Item("P1", "Lyon/Rhône. Once more."), Item("P2", ". Nothing.")]
    files = markdown_musique.write_paragraphs(tmp_path / "v", Corpus("c", tuple(items), ()))
    assert files == {"v/Lyon Rhône.md": "P0", "v/Lyon Rhône 2.md": "P1", "v/note.md": "P2"}
    assert (tmp_path / "v" / "Lyon Rhône 2.md").read_text() == "Lyon/Rhône. Once more.\n"


def test_the_files_of_chunks() -> None:
    """Each once, in the order of its best chunk."""
    assert markdown_musique.documents(["v/a.md#L1-L2", "v/b#1.md#L1-L1@0f", "v/a.md#L9-L9"]) == ["v/a.md", "v/b#1.md"]


@pytest.mark.model
@pytest.mark.slow
async def test_musique_is_measured_as_a_vault(tmp_path: Path) -> None:
    """Recall at five of both rankings and both halves, with the paired intervals."""
    data = tmp_path / "hops.json"
    data.write_text(json.dumps(HOPS), encoding="utf-8")
    figures = await markdown_musique.musique(tmp_path, markdown_musique.read_musique(data))
    arms = ("hybrid", "unlinked", "rrf", "bm25", "dense")
    assert all(0 <= figures[f"musique_{arm}_r5"] <= 1 for arm in arms)
    assert figures["musique_hybrid_over_dense"]["n"] == len(HOPS)
