"""A day's log in a user's folder: appended to under a lock, whole or not at all, and nothing else is reached."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.markdown import Markdown
from adapters.markdown.log import append
from fusion.contract import Opening
from fusion.errors import BadInput, SettingsError, StoreFull

DAY = "2026-03-04.md"


def test_lines_go_to_the_end_and_what_stands_there_stays(tmp_path: Path) -> None:
    """A new file, then more; a last line that an editor left open is closed first. Lines count from 1."""
    assert append(tmp_path, DAY, "one\ntwo\n") == (1, 2)
    assert append(tmp_path, DAY, "\nthree") == (3, 3)
    with (tmp_path / DAY).open("a") as file:
        file.write("typed by hand")
    assert append(tmp_path, DAY, "four\n\nfive") == (5, 7)
    assert (tmp_path / DAY).read_text() == "one\ntwo\nthree\ntyped by hand\nfour\n\nfive\n"
    assert (tmp_path / DAY).stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("… under a lock that also holds between processes", of="`memory_append` writes to today's log")
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux shows who waits for a lock")
def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    """The holder of the file's lock writes first: an append in another process waits until it is released."""
    append(tmp_path, DAY, "before")
    code = "import sys; from pathlib import Path; from adapters.markdown.log import append; "
    code += "append(Path(sys.argv[1]), sys.argv[2], 'after')"
    with (tmp_path / DAY).open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), DAY], env={**os.environ})
        while not _waits(other.pid):
            assert other.poll() is None, "it did not wait"
        assert (tmp_path / DAY).read_text() == "before\n"
        fcntl.flock(held, fcntl.LOCK_UN)
        assert other.wait(timeout=60) == 0
    assert (tmp_path / DAY).read_text() == "before\nafter\n"


def _waits(pid: int) -> bool:
    """Whether a process waits for another's lock, as the system lists it."""
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any("->" in line and f" {pid} " in line for line in lines)


@pytest.mark.parametrize("what", ["link", "linked folder", "pipe", "folder", "gone"])
def test_nothing_else_is_written_to(tmp_path: Path, what: str) -> None:
    """A link to a secret, a folder that is one, a pipe that nobody reads, a folder: refused, at once, with its name."""
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    (logs / "memory").mkdir(parents=True)
    secret.mkdir()
    (secret / DAY).write_text("secret")
    match what:
        case "link":
            (logs / "memory" / DAY).symlink_to(secret / DAY)
        case "linked folder":
            (logs / "memory").rmdir()
            (logs / "memory").symlink_to(secret)
        case "pipe":
            os.mkfifo(logs / "memory" / DAY)
        case "folder":
            (logs / "memory" / DAY).mkdir()
        case "gone":
            (logs / "memory").rmdir()
    with pytest.raises(BadInput, match="2026-03-04"):
        append(logs, f"memory/{DAY}", "mine")
    assert (secret / DAY).read_text() == "secret"


FULL = """
import resource, signal, sys
from pathlib import Path
from adapters.markdown.log import append
from fusion.errors import FusionError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    append(Path(sys.argv[1]), sys.argv[2], "x" * 30_000)
except FusionError as error:
    print(type(error).__name__)
"""


def test_without_space_nothing_is_left_of_it(tmp_path: Path) -> None:
    """A truncated write (here by a limit on the file's size) is undone; the file has its earlier text."""
    append(tmp_path, DAY, "before")
    command = [sys.executable, "-c", FULL, str(tmp_path), DAY]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() in (StoreFull.__name__, BadInput.__name__), done.stderr
    assert (tmp_path / DAY).read_text() == "before\n"
    assert append(tmp_path, DAY, "after") == (2, 2)


@pytest.mark.parametrize("folder", ["elsewhere", "workspace/missing"])
async def test_a_folder_that_is_not_searched_is_refused(tmp_path: Path, folder: str) -> None:
    """What is appended is to be found: the folder is there, and lies in one of the paths."""
    for name in ("workspace", "elsewhere"):
        (tmp_path / name).mkdir()
    options = {"paths": [str(tmp_path / "workspace")], "log_folder": str(tmp_path / folder)}
    with pytest.raises(SettingsError, match="log_folder"):
        await Markdown.open(Opening("markdown", tmp_path / "home", options))
