"""The TypeScript client as a user has it: packed by npm, installed in an empty folder, and called in a process."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

PACKAGE = Path(__file__).parents[2] / "integrations" / "typescript"
DRIVER = Path(__file__).parent / "typescript_driver.mjs"
NODE, NPM = shutil.which("node"), shutil.which("npm")


def npm(*arguments: str, cwd: Path, timeout_s: float = 60) -> str:
    """What npm prints. Raises CalledProcessError."""
    assert NPM is not None
    done = subprocess.run([NPM, *arguments], cwd=cwd, check=True, capture_output=True, text=True, timeout=timeout_s)
    return done.stdout


@dataclass(frozen=True, slots=True)
class Installed:
    """A folder that has the package and nothing else; ``files`` are those of the package."""

    folder: Path
    files: frozenset[str]

    @classmethod
    def into(cls, folder: Path) -> Self:
        packed = json.loads(npm("pack", "--json", "--pack-destination", str(folder), cwd=PACKAGE))
        found = packed[0] if isinstance(packed, list) else next(iter(packed.values()))  # npm 12 names the package
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        npm("install", "--offline", "--no-audit", "--no-fund", f"./{found['filename']}", cwd=folder)
        shutil.copy(DRIVER, folder / "driver.mjs")
        return cls(folder, frozenset(one["path"] for one in found["files"]))


@dataclass
class Driver:
    """A process of Node, or of another ``runtime``, with a client in it."""

    folder: Path
    config: Mapping[str, Any]
    runtime: tuple[str, ...] = (NODE or "node",)

    def __enter__(self) -> Self:
        command = [*self.runtime, "driver.mjs", json.dumps(self.config)]
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *exc: object) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                assert self.process.wait(timeout=60) == 0
            finally:
                self.process.kill()

    def send(self, method: str, *args: Any, **more: Any) -> dict[str, Any]:
        """What became of a call: its ``result``, or its ``error``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"method": method, "args": args, **more}) + "\n")
        self.process.stdin.flush()
        outcome: dict[str, Any] = json.loads(self.process.stdout.readline())
        return outcome

    def call(self, method: str, *args: Any) -> Any:
        """The result of a call that succeeds."""
        outcome = self.send(method, *args)
        assert "error" not in outcome, outcome
        return outcome["result"]

    def error(self, method: str, *args: Any, **more: Any) -> dict[str, Any]:
        """The error of a call that fails."""
        outcome = self.send(method, *args, **more)
        assert "result" not in outcome, outcome
        error: dict[str, Any] = outcome["error"]
        return error


class Listener:
    """A program that answers every request with 200 and an empty object, and keeps what it gets."""

    received = b""

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.received += connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-fusion-proof: 00\r\n\r\n{}")
