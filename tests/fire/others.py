"""Attempts of other users of this computer: every route, method and port of a server, and every file of a home."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fusion.client import Client
from fusion.doors.http.middleware import is_public
from fusion.doors.http.openapi import document
from fusion.trust.token import home_token

NOBODY = 65534
"""a user that every system has, and that owns nothing"""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
SECRET = "zephyrquartz"
"""a word of the one memory that is there"""
BACKEND = "strongroom"
"""a backend's name"""

_MORE = (
    "/mcp",
    "/docs",
    "/redoc",
    "/",
    "//fuse",
    "/fuse/",
    "/healthz/../fuse",
    "/healthz%2f..%2ffuse",
    "/healthz?x=/fuse",
    "/readyz?explain=true",
    "/v1/memories?limit=5",
    "/v1/backends/strongroom/list",
    "/compat/strongroom/healthz",
    "/compat/strongroom/v1/stats",
    "/compat/strongroom/v1/recall",
    "/compat/strongroom/v1/memories/1",
    "/compat/none/healthz",
    "/v1/stats",
    "/v1/recall",
    "/v1/search",
    "/v1/remember",
)
_CREDENTIALS: tuple[Mapping[str, str], ...] = (
    {},
    {"authorization": "Bearer wrong"},
    {"authorization": "Bearer"},
    {"authorization": "Basic OnRva2Vu"},
    {"authorization": "Token wrong"},
    {"x-api-key": "wrong"},
    {"cookie": "token=wrong"},
)
_BODY = json.dumps({"query": SECRET, "message": SECRET, "text": SECRET, "lines": [SECRET]})


class Served(NamedTuple):
    """A server of a home in a folder that everyone may list, as /home often is; ``ports`` are all it listens on."""

    home: Path
    ports: Sequence[int]


class Attempts(NamedTuple):
    """The number of attempts, and those that read something."""

    attempts: int
    reads: Sequence[str]


@contextmanager
def served(*arguments: str) -> Iterator[Served]:
    """A server over a home with one memory, whose files were open to everybody before it started."""
    with tempfile.TemporaryDirectory(prefix="fire-others-") as folder:
        home = Path(folder) / "home"
        (home / "backends" / BACKEND).mkdir(parents=True)
        (home / "backends" / "old.sqlite").write_text(SECRET)
        with closing(socket.create_server(("127.0.0.1", 0))) as door:
            port = door.getsockname()[1]
        (home / "fusion.toml").write_text(
            f'backends_only = true\n[embedder]\nadapter = ""\n'
            f'[backends.{BACKEND}]\nadapter = "adapters.cortex:Cortex"\ncompat_port = {port}\n'
        )
        environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        allow = [sys.executable, "-m", "fusion", "allow", "--home", str(home), "--yes", "--json"]
        subprocess.run(allow, env=environment, check=True, stdout=subprocess.DEVNULL)
        for path in (Path(folder), *home.rglob("*"), home):
            path.chmod(0o755 if path.is_dir() else 0o644)
        command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json", *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, umask=0
        ) as process:
            try:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["url"]
                with Client(url, api_key=home_token(home)) as client:
                    client.remember([{"text": f"The {SECRET} is in the cellar."}])
                    client.settle(60)
                yield Served(home, (int(url.rpartition(":")[2]), port))
            finally:
                process.terminate()
                process.wait(60)


def attempt(there: Served, uid: int | None, *, full: bool = True) -> Attempts:
    """Try every route without the token, and as another user ``uid`` every file. None is this user, the owner."""
    requests: list[tuple[int, str, str, Mapping[str, str], str]] = []
    for port in there.ports:
        for path in paths():
            for method in METHODS:
                for credential in _CREDENTIALS if full else _CREDENTIALS[:2]:
                    body = _BODY if method in ("POST", "PUT", "PATCH") else ""
                    requests.append((port, method, path, {"content-type": "application/json", **credential}, body))
    files = [] if uid is None else [str(path) for path in (there.home, *there.home.rglob("*"))]
    tried: dict[str, Any] = {"uid": uid, "requests": requests, "files": files}
    probe = [sys.executable, "-I", str(Path(__file__).with_name("probe.py"))]
    done = subprocess.run(probe, check=False, input=json.dumps(tried), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr)
    results = json.loads(done.stdout)
    reads = [f"{path} was opened" for path in results["read"]]
    for (port, method, path, credential, _), (status, body) in zip(requests, results["replies"], strict=True):
        if not refused(there, path, status, body):
            reads.append(f"{method} {path} on port {port} with {dict(credential)}: {status} {body[:200]}")
    return Attempts(len(requests) + len(files), reads)


def refused(there: Served, path: str, status: int, body: str) -> bool:
    """Whether a reply reveals nothing: a 401, or a public route without a word of the home."""
    words = [SECRET + " is", BACKEND, str(there.home)]
    if path != "/docs":  # the page on the API is the same for every home, and names fields such as vectors_pending
        words += ["pending", "sqlite"]
    return not any(word in body for word in words) and (status == 401 or is_public(path.partition("?")[0]))


def paths() -> Sequence[str]:
    """Every documented route, and others that could lead to one."""
    named = (path.replace("{ref}", "1").replace("{receipt_id}", "1") for path in document()["paths"])
    filled = (path.replace("{backend}", BACKEND).replace("{verb}", "stats") for path in named)
    return (*filled, *_MORE)


def can_be_another() -> bool:
    """Whether this process may become another user."""
    return os.geteuid() == 0
