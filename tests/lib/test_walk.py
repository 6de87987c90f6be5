"""Listing the files below a folder, without following links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fusion.lib.ignore import ALWAYS, matcher
from fusion.lib.walk import Entry, Unlisted, is_listed, leads_out, open_folder, open_parent, walk


def listed(folder: Path, *patterns: str) -> list[str]:
    return [entry.path for entry in walk(folder, matcher(patterns))]


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")


def test_walk_lists_the_files_of_a_folder_before_its_folders(tmp_path: Path) -> None:
    write(tmp_path, "b/two.md", "b/c/three.md", "a.md", "z.md", "b/a.md", "a/one.md")
    assert listed(tmp_path) == ["a.md", "z.md", "a/one.md", "b/a.md", "b/two.md", "b/c/three.md"]


@pytest.mark.feature(
    "notes and the Markdown backend list files by one walk: no link is followed, ignored folders are not entered"
)
def test_walk_follows_no_link_and_enters_no_ignored_folder(tmp_path: Path) -> None:
    write(tmp_path, "notes/one.md", "notes/.git/config", "notes/drafts/two.md", "outside/secret.md")
    (tmp_path / "notes/out").symlink_to(tmp_path / "outside")
    (tmp_path / "notes/in").symlink_to(tmp_path / "notes/drafts")
    notes = tmp_path / "notes"
    assert listed(notes, *ALWAYS, "drafts/") == ["in", "one.md", "out"]
    assert [leads_out(notes, path) for path in ("in", "out")] == [False, True]


def test_walk_reaches_a_folder_that_is_deeper_than_a_path_may_be_long(tmp_path: Path) -> None:
    """No recursion and no folder held open: 300 levels of 20 characters each."""
    steps, here = ["n" * 20] * 300, os.open(tmp_path, os.O_RDONLY)
    for step in steps:
        os.mkdir(step, dir_fd=here)
        below = os.open(step, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert listed(tmp_path) == ["/".join([*steps, "deep.md"])]


def test_walk_reports_a_folder_that_became_a_link_meanwhile(tmp_path: Path) -> None:
    """It is opened without following the link, so nothing of where it leads is listed."""
    write(tmp_path, "notes/a.md", "notes/sub/b.md", "outside/secret.md")
    found = walk(tmp_path / "notes", matcher(()))
    first = next(found)
    (tmp_path / "notes/sub").rename(tmp_path / "away")
    (tmp_path / "notes/sub").symlink_to(tmp_path / "outside")
    [last] = found
    assert isinstance(first, Entry)
    assert isinstance(last, Unlisted)
    assert (first.path, last.path) == ("a.md", "sub")


def test_walk_reports_a_root_that_is_missing(tmp_path: Path) -> None:
    [missing] = walk(tmp_path / "none", matcher(()))
    assert isinstance(missing, Unlisted)
    assert (missing.path, type(missing.error)) == ("", FileNotFoundError)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("a.md", True), (".hidden.md", False), ("x/.git/a.md", False), ("drafts/a.md", False), ("x/drafts.md", True)],
)
def test_is_listed_agrees_with_walk(tmp_path: Path, path: str, expected: bool) -> None:
    write(tmp_path, path)
    patterns = (*ALWAYS, "drafts/")
    assert is_listed(path, matcher(patterns)) is expected
    assert (path in listed(tmp_path, *patterns)) is expected


def test_open_parent_and_open_folder_follow_no_link(tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.md", "notes/a.md")
    (tmp_path / "notes/out").symlink_to(tmp_path / "outside")
    with (
        pytest.raises(OSError, match=r"(?i)not a directory|symbolic"),
        open_parent(tmp_path / "notes", "out/secret.md"),
    ):
        pass
    with pytest.raises(OSError, match=r"(?i)not a directory|symbolic"), open_folder(tmp_path / "notes", ["out"]):
        pass
