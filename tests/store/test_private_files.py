"""The user's state folder: private, ours, never through a link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.errors import SettingsError
from fusion.store.private_files import read_regular, read_state, state_folder, user_key, write_state

ASK = "from fusion.store.private_files import user_key; print(user_key().hex())"


def ask(home: Path, *, count: int = 1) -> list[str]:
    """The key as so many processes of a user with this home folder print it, all at once."""
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    answers = [process.communicate(timeout=60) for process in started]
    return [out.strip() or err.strip().splitlines()[-1] for out, err in answers]


@pytest.mark.feature("the user's state folder is private and outside every home; its random key is made once")
def test_the_users_key_is_random_and_stays(tmp_path: Path) -> None:
    """32 bytes, the same for all processes that ask at once, different for another user; 0700 and 0600."""
    (tmp_path / "ada").mkdir()
    (tmp_path / "bo").mkdir()
    ada = ask(tmp_path / "ada", count=4)
    assert len(set(ada)) == 1
    assert len(bytes.fromhex(ada[0])) == 32
    assert ask(tmp_path / "ada") == ada[:1]
    assert ask(tmp_path / "bo") != ada[:1]
    folder = tmp_path / "ada" / ".local" / "state" / "memory-fusion"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {"key": 0o600}


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
    assert len(user_key()) == 32
