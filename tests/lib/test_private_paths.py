"""Paths without home folders and user names."""

from __future__ import annotations

import pytest

from fusion.lib.private_paths import public_path, without_private_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see /home/ada/x.md", "see ~/x.md"),
        ("file:///Users/ada/x.md", "~/x.md"),
        (r"C:\Users\ada\x.md", r"~\x.md"),
        ("/root/.ssh/id", "~/.ssh/id"),
        ("/Users/Shared/x", "/Users/Shared/x"),
        ("https://example.org/home/ada", "https://example.org/home/ada"),
        ("either/or", "either/or"),
    ],
)
def test_a_text_has_no_home_folder(text: str, shown: str) -> None:
    assert without_private_paths(text) == shown


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ("/home/ada/vault/notes/x.md", "notes/x.md"),
        ("notes/x.md", "notes/x.md"),
        ("/srv/a/b/c.md", "b/c.md"),
        ("https://example.org/a/b", "https://example.org/a/b"),
    ],
)
def test_a_document_has_no_folder_of_the_machine(document: str, shown: str) -> None:
    assert public_path(document) == shown
