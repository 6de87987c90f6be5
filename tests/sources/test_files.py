"""Files are opened where they were found: no link in their path is followed."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fusion.contract import Scope
from fusion.sources.files import File, Skip, Unreadable, files, opened
from fusion.sources.readers import markdown, read_session
from fusion.sources.sessions import session_of

TURN = {
    "type": "user",
    "uuid": "u1",
    "timestamp": "2026-05-01T10:00:00Z",
    "sessionId": "0b8f6b1e-5c0f-4a51-9a1e-2f4f6a1d3c11",
    "message": {"role": "user", "content": "The bike is blue."},
}


@pytest.fixture
def swapped(tmp_path: Path) -> tuple[File, File]:
    """A note and a transcript whose folder became a link to a folder of the same names after the walk."""
    for folder, text in (("notes/sub", "mine"), ("outside", "secret")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.md").write_text(text)
        (tmp_path / folder / "b.jsonl").write_bytes(orjson.dumps(TURN) + b"\n")
    note, talk = files([tmp_path / "notes"])
    assert isinstance(note, File)
    assert isinstance(talk, File)
    (tmp_path / "notes/sub").rename(tmp_path / "notes/before")
    (tmp_path / "notes/sub").symlink_to(tmp_path / "outside")
    return note, talk


@pytest.mark.feature("`fusion ingest` and the watchers do not follow a folder that a link replaces after the walk")
def test_parent_swapped_for_a_link_after_the_walk_is_not_followed(swapped: tuple[File, File]) -> None:
    note, talk = swapped
    for file in swapped:
        with pytest.raises(Unreadable), opened(file.path):
            pass
    [skip] = markdown(note, Scope(), lambda source, revisions, mark: None)
    assert isinstance(skip, Skip)
    assert session_of(talk.path, Scope()) is None


def test_named_transcript_is_read_through_a_linked_folder(tmp_path: Path) -> None:
    """The agent's own folder may be a link, as ``~/.claude`` of a user who keeps it elsewhere."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real/b.jsonl").write_bytes(orjson.dumps(TURN) + b"\n")
    (tmp_path / "agent").symlink_to(tmp_path / "real")
    turns = list(read_session(tmp_path / "agent/b.jsonl", Scope()))
    assert [turn.text for turn in turns if not isinstance(turn, Skip)] == ["The bike is blue."]


def test_file_below_a_folder_that_cannot_be_listed_is_opened(tmp_path: Path) -> None:
    (tmp_path / "passage/notes").mkdir(parents=True)
    (tmp_path / "passage/notes/a.md").write_text("mine")
    (tmp_path / "passage").chmod(0o311)
    try:
        with opened(tmp_path / "passage/notes/a.md") as file:
            assert file.read() == b"mine"
    finally:
        (tmp_path / "passage").chmod(0o700)
