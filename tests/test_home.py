"""A home: which one is meant, who owns it, where its server is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.errors import HomeLocked
from fusion.home import (
    HomeLock,
    Owner,
    ServerRecord,
    command_line,
    find_home,
    owner,
    read_record,
    remove_record,
    write_record,
)

HOLDER = """
import sys
from pathlib import Path
from fusion.home import HomeLock
with HomeLock.take(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


class TestFindHome:
    def test_the_order(self, tmp_path: Path) -> None:
        """Named → FUSION_HOME → the nearest .fusion upwards → XDG_DATA_HOME → ~/.local/share."""
        project = tmp_path / "project"
        deep = project / "a" / "b"
        deep.mkdir(parents=True)
        (project / ".fusion").mkdir()
        environ = {"FUSION_HOME": str(tmp_path / "env")}
        xdg = {"XDG_DATA_HOME": str(tmp_path / "xdg")}
        assert find_home(tmp_path / "named", environ=environ, cwd=deep) == tmp_path / "named"
        assert find_home(Path("named"), environ=environ, cwd=deep) == deep / "named"
        assert find_home(environ=environ, cwd=deep) == tmp_path / "env"
        assert find_home(environ=xdg, cwd=deep) == project / ".fusion"
        assert find_home(environ=xdg, cwd=tmp_path) == tmp_path / "xdg" / "memory-fusion"
        assert find_home(environ={}, cwd=tmp_path) == Path.home() / ".local" / "share" / "memory-fusion"


@pytest.fixture
def holder(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the home."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home), "fusion ingest notes --direct"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


class TestHomeLock:
    @pytest.mark.feature("a second process that opens a home is told which process has it")
    def test_a_second_opener_gets_the_name_of_the_first(self, home: Path, holder: subprocess.Popen[str]) -> None:
        """Process id, command, and what to do about it."""
        with pytest.raises(HomeLocked) as caught:
            HomeLock.take(home)
        message = str(caught.value)
        assert str(home) in message
        assert f"process {holder.pid} (fusion ingest notes --direct)" in message
        assert f"kill {holder.pid}" in message
        assert owner(home) == Owner(holder.pid, "fusion ingest notes --direct")

    def test_the_lock_dies_with_its_process(self, home: Path, holder: subprocess.Popen[str]) -> None:
        """After kill -9 nobody owns the home, whatever stands in the file."""
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert owner(home) is None
        with HomeLock.take(home):
            pass

    def test_one_process_cannot_take_it_twice(self, home: Path) -> None:
        """Two openings in one process would damage the stores as well."""
        with (
            HomeLock.take(home, "fusion serve"),
            pytest.raises(HomeLocked, match=r"this process \(fusion serve\).*leave out --direct"),
        ):
            HomeLock.take(home)
        with HomeLock.take(home):
            pass

    def test_it_is_private_and_released_once(self, home: Path) -> None:
        """Folder 0700, file 0600; a second release is nothing; the file stays, for others may wait on it."""
        lock = HomeLock.take(home)
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "lock").stat().st_mode) == 0o600
        lock.release()
        lock.release()
        assert (home / "lock").exists()
        assert owner(home) is None

    def test_asking_who_owns_a_home_makes_nothing(self, home: Path) -> None:
        """A question does not create a home."""
        assert owner(home) is None
        assert not home.exists()

    def test_only_a_server_serves(self) -> None:
        """Who finds a home taken waits for a server, and for nobody else."""
        assert Owner(1, "fusion serve --home x").serves
        assert not Owner(1, "fusion ingest --direct").serves
        assert command_line()


class TestServerRecord:
    def test_it_comes_back_as_written_and_is_private(self, home: Path) -> None:
        """Who can read the token can read the home: 0600; nothing else is left in the folder."""
        home.mkdir()
        record = ServerRecord(os.getpid(), "http://127.0.0.1:8765", "2026-01-31T09:30:00+00:00", "token")
        write_record(home, record)
        assert read_record(home) == record
        assert stat.S_IMODE((home / "server.json").stat().st_mode) == 0o600
        assert [path.name for path in home.iterdir()] == ["server.json"]
        remove_record(home)
        assert read_record(home) is None

    def test_another_processes_record_is_left_alone(self, home: Path) -> None:
        """A server that stops late does not take its successor's record away."""
        home.mkdir()
        write_record(home, ServerRecord(os.getpid() + 1, "http://127.0.0.1:1", "now"))
        remove_record(home)
        assert read_record(home) is not None

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": "x", "url": "u", "started": "s"}'])
    def test_rubbish_is_no_record(self, home: Path, content: str) -> None:
        """A torn or foreign file is as good as none."""
        home.mkdir()
        (home / "server.json").write_text(content)
        assert read_record(home) is None
