"""The user's state folder is private and is never reached through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fusion.errors import SettingsError
from fusion.store.private_files import read_regular, read_state, state_folder, write_state


@pytest.mark.feature("the user's state folder is private and outside every home")
def test_the_state_folder_and_its_files_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder has mode 0700 and each file 0600, regardless of the umask."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    write_state("one", b"content")
    folder = tmp_path / "memory-fusion"
    assert state_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {"one": 0o600}


def test_a_state_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    """The records there decide which homes are opened."""
    folder = state_folder({"XDG_STATE_HOME": str(tmp_path)})
    folder.chmod(0o777)
    with pytest.raises(SettingsError, match="chmod go-w"):
        state_folder({"XDG_STATE_HOME": str(tmp_path)})


def test_a_state_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Links are refused for the folder, and for each file in it."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "memory-fusion").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="is a link"):
        state_folder({"XDG_STATE_HOME": str(tmp_path)})


def test_a_relative_state_home_is_ignored() -> None:
    """As the XDG specification wants it: else the current folder decides."""
    assert state_folder({"XDG_STATE_HOME": "repo"}) == Path.home() / ".local" / "state" / "memory-fusion"


def test_a_state_file_comes_back_and_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    """What is written is private; a planted link is neither read nor written through."""
    write_state("tests/one", b"content")
    assert read_state("tests/one") == b"content"
    assert read_state("tests/none") is None
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    planted = state_folder() / "tests" / "planted"
    planted.symlink_to(victim)
    with pytest.raises(SettingsError, match="cannot be used"):
        read_state("tests/planted")
    write_state("tests/planted", b"new")
    assert victim.read_bytes() == b"mine"
    assert read_state("tests/planted") == b"new"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A FIFO does not block, a folder and a device are refused, and so is what is too large."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * 11)
    for name in ("fifo", "large", "."):
        with pytest.raises(OSError, match=r"regular|more than"):
            read_regular(tmp_path / name, 10)
    with pytest.raises(OSError, match="regular"):
        read_regular(Path("/dev/zero"), 10)
