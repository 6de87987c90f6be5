"""The folder of an exported graph: nothing of anybody else's is written over or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.doors.cli.mem.graph_folder import MARK, write_pages
from fusion.errors import BadInput

PAGES = {"index.md": "# Index\n", "shop.md": "# shop\n"}


def test_an_export_replaces_the_pages_of_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    assert write_pages(folder, PAGES)["written"] == ["index.md", "shop.md"]
    report = write_pages(folder, {"index.md": "# New\n"})
    assert (report["deleted"], sorted(one.name for one in folder.iterdir())) == (["shop.md"], [MARK, "index.md"])
    assert (folder / "index.md").read_text() == "# New\n"


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    report = write_pages(tmp_path / "graph", PAGES, dry_run=True)
    assert (report["written"], (tmp_path / "graph").exists()) == (["index.md", "shop.md"], False)


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "diary.md").write_text("mine")
    with pytest.raises(BadInput, match=r"diary\.md"):
        write_pages(tmp_path, PAGES)
    assert [one.name for one in tmp_path.iterdir()] == ["diary.md"]


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(BadInput, match="link"):
        write_pages(tmp_path / "link", PAGES)
    folder = tmp_path / "graph"
    write_pages(folder, PAGES)
    (folder / "shop.md").unlink()
    (folder / "shop.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"shop\.md"):
        write_pages(folder, PAGES)
    assert not (tmp_path / "elsewhere").exists()


def test_a_mark_cannot_name_a_file_elsewhere(tmp_path: Path) -> None:
    folder, other = tmp_path / "graph", tmp_path / "other.md"
    other.write_text("mine")
    write_pages(folder, PAGES)
    (folder / MARK).write_text("../other.md\nindex.md\nshop.md\n")
    write_pages(folder, {"index.md": "# New\n"})
    assert other.read_text() == "mine"
