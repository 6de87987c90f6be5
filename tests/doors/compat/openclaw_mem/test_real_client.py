"""openclaw-mem itself, version 2.0.0 of the package openclaw-context-pack, against our gateway."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusion.client import ensure_server
from fusion.doors.cli import app
from fusion.trust import allow
from tests.doors.compat.openclaw_mem.client import key_of
from tests.doors.fakes import SMALL, server_stopped

pytest.importorskip("openclaw_mem", reason="make setup installs openclaw-context-pack, which is openclaw-mem")


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """The address of a home's gateway for clients of openclaw-mem; a writer and a proposer have keys."""
    port = free_port()
    keys = [
        f'[[server.keys]]\nname = "{role}"\nsha256 = "{sha256(key_of(role).encode()).hexdigest()}"\nrole = "{role}"\n'
        for role in ("reader", "proposer", "writer")
    ]
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(f"{SMALL}[openclaw_mem]\nport = {port}\n{''.join(keys)}")
    allow(home)
    with server_stopped(home):
        ensure_server(home)
        yield f"http://127.0.0.1:{port}"


def openclaw_mem(folder: Path, *arguments: str, token: str) -> Any:
    """What a command of openclaw-mem prints; its own files are below ``folder``."""
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "HOME": str(folder), "CODEX_HOME": str(folder), "OPENCLAW_MEM_GATEWAY_TOKEN": token}
    made = subprocess.run(
        [sys.executable, "-m", "openclaw_mem", *arguments, "--json"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(made.stdout)


@pytest.mark.slow
@pytest.mark.feature("openclaw-mem's own client finds our gateway healthy, with the role of its token")
@pytest.mark.parametrize(("role", "called"), [("proposer", "write"), ("reader", "read")])
def test_its_doctor_finds_our_gateway_healthy(url: str, tmp_path: Path, role: Any, called: str) -> None:
    """It asks /health, /v1/status and /v1/pack, and checks the service's name and the role of the token."""
    folder = tmp_path / "codex"
    openclaw_mem(folder, "codex", "install", "--gateway-url", url, "--yes", token=key_of(role))
    asked = ("--gateway-url", url, "--expected-role", called, "--timeout", "60", "--pack")
    found = openclaw_mem(folder, "codex", "doctor", *asked, token=key_of(role))
    assert found["problems"] == []
    assert found["ok"] is True
    assert found["checks"]["status"]["role"] == called
    assert found["checks"]["pack"] == {"status": 200, "ok": True}


@pytest.mark.slow
def test_its_doctor_reports_a_token_that_we_refuse(url: str, tmp_path: Path) -> None:
    found = openclaw_mem(tmp_path / "codex", "codex", "doctor", "--gateway-url", url, token="a wrong token")
    assert found["checks"]["status"]["status"] == 401
    assert "gateway status failed with provided token" in found["problems"]


@pytest.mark.slow
def test_it_verifies_our_canonical_export(home: Path, tmp_path: Path) -> None:
    """It finds each file as the manifest says, and the manifest in a schema that it knows."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    shared = ["--home", str(home), "--direct", "--json"]
    CliRunner().invoke(app, ["mem", "store", "Aurora uses PostgreSQL 16.", *shared], catch_exceptions=False)
    made = CliRunner().invoke(app, ["mem", "capsule", "export-canonical", "--to", str(tmp_path / "out"), *shared])
    folder = tmp_path / "out" / json.loads(made.stdout)["artifact_dir"]
    inspected = openclaw_mem(tmp_path / "codex", "capsule", "inspect", str(folder), token="")
    assert inspected["ok"] is True
    assert all(check["ok"] for check in inspected["verify"]["checks"])
    assert inspected["manifest"]["schema"] == "openclaw-mem.canonical-capsule.v1"
    assert "Aurora uses PostgreSQL 16." in inspected["observations_preview"][0]
