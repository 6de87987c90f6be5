"""Child processes that serve, and what they cost. Linux: CPU and memory come from /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fusion.client import TIMEOUT_S, Client
from fusion.trust.token import home_token

STOP_S = 20.0


class Address(NamedTuple):
    """Where a gateway is, and what opens it."""

    url: str
    token: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def client(self, timeout_s: float = TIMEOUT_S) -> Client:
        return Client(self.url, api_key=self.token, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class Child:
    """A running process; ``said`` is the JSON object that it printed when it was ready."""

    pid: int
    said: Mapping[str, Any]

    @property
    def address(self) -> Address:
        """Of a gateway: where it is, and the token of its home."""
        return Address(self.said["url"], home_token(Path(self.said["home"])))

    def cpu_s(self) -> float:
        """User and system time so far, all threads, in seconds; the kernel counts in hundredths."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def files(self) -> int:
        """Descriptors that are open: files, sockets, pipes."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def memory_mb(self, name: str = "VmRSS") -> float:
        """Resident megabytes: ``VmRSS`` now, ``VmHWM`` at most so far."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) / 1024


def allow(home: Path, state: Path, variables: Sequence[str] = ()) -> Mapping[str, str]:
    """Allows a home that a benchmark made by hand; the environment of its server. The user's own records stay as they
    are: this one is in ``state``. ``variables`` are those of the environment that the settings name."""
    environment = {"XDG_STATE_HOME": str(state)}
    command = [sys.executable, "-m", "fusion", "allow", "--home", str(home), "--yes", "--json"]
    command += [part for name in variables for part in ("--variable", name)]
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
    return environment


@contextmanager
def serving(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Iterator[Child]:
    """Runs ``python *arguments`` from its first line of JSON until the block ends, however it ends.

    With ``folder`` it runs there, so that it imports the packages of that folder.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env={**os.environ, **(environment or {})},
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                raise RuntimeError(
                    f"{' '.join(arguments)} did not start:\n{log.read().decode(errors='replace')[-2000:]}"
                )
            yield Child(process.pid, json.loads(line))
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
