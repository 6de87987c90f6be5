"""QMD itself, as `make test-hosts` installs it: its commands and its HTTP server, for one user."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

TOOLS = Path(os.environ["QMD"]) if os.environ.get("QMD") else None
"""the folder of the command `qmd`, which `make test-hosts` names"""
OLDEST_NODE = 22
RUN_S = 300.0


def node() -> Path | None:
    """The folder of a Node that is new enough for QMD, which ends with a fault of memory on an older one: the user's,
    or the one that comes with OpenClaw; None if there is none."""
    for folder in (None, os.environ.get("OPENCLAW")):
        if found := shutil.which("node", path=folder):
            done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=RUN_S)
            version = re.match(r"v(\d+)", done.stdout)
            if version is not None and int(version[1]) >= OLDEST_NODE:
                return Path(found).parent
    return None


@dataclass(frozen=True, slots=True)
class Index:
    """QMD's index for one user. Without its models, which cannot be fetched in a test, it finds by words alone."""

    user: Path
    node: Path

    @property
    def environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("QMD", "XDG_"))}
        return {**kept, "HOME": str(self.user), "PATH": f"{self.node}{os.pathsep}{kept['PATH']}", "NO_COLOR": "1"}

    def run(self, *words: str) -> str:
        """What a command of QMD prints."""
        done = subprocess.run(
            [self.command, *words], env=self.environment, capture_output=True, text=True, check=False, timeout=RUN_S
        )
        assert not done.returncode, done.stderr
        return done.stdout

    @property
    def command(self) -> str:
        assert TOOLS is not None
        return str(TOOLS / "qmd")

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of its HTTP server, while it runs."""
        port = _free_port()
        server = subprocess.Popen(
            [self.command, "mcp", "--http", "--port", str(port)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            assert server.stderr is not None
            assert any("listening on" in line for line in server.stderr), "QMD's server has ended"
            yield f"http://localhost:{port}"
        finally:
            os.killpg(server.pid, SIGTERM)  # the command is a launcher of QMD's own process
            server.communicate(timeout=RUN_S)


def _free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
