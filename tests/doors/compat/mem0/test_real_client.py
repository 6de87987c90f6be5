"""mem0's own client, version 2.2.1 of the package mem0ai, against our routes over loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fusion.client import ensure_server
from fusion.trust import allow
from tests.doors.compat.openclaw_mem.client import key_of
from tests.doors.compat.openclaw_mem.test_real_client import free_port
from tests.doors.fakes import SMALL, server_stopped

pytestmark = pytest.mark.skipif(find_spec("mem0") is None, reason="make setup installs mem0ai")


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """The address of a home's port for mem0's clients; a writer has a key, which may ask for all users."""
    port = free_port()
    digest = sha256(key_of("writer").encode()).hexdigest()
    key = f'[[server.keys]]\nname = "writer"\nsha256 = "{digest}"\nrole = "writer"\nall_users = true\n'
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(f"{SMALL}[mem0]\nport = {port}\n{key}")
    allow(home)
    with server_stopped(home):
        ensure_server(home)
        yield f"http://127.0.0.1:{port}"


def day_of(url: str, folder: Path) -> Any:
    """What mem0's client returned; its own files are below ``folder``, and it sends nothing elsewhere."""
    script = Path(__file__).with_name("day.py")
    env = {**os.environ, "HOME": str(folder), "MEM0_DIR": str(folder), "MEM0_TELEMETRY": "False"}
    arguments = [sys.executable, "-I", str(script), url, key_of("writer")]
    made = subprocess.run(arguments, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.feature("mem0's own client (mem0ai 2.2.1) adds, finds, reads, updates and deletes memories at our routes")
def test_a_day_of_its_client(url: str, tmp_path: Path) -> None:
    said = day_of(url, tmp_path)
    (added,) = said["add"]["results"]
    assert (added["memory"], added["event"]) == ("Ada keeps three bees.", "ADD")
    assert said["search"][0]["id"] == added["id"]
    assert said["search"][0]["metadata"] == {"topic": "bees"}
    assert not [one for one in said["other"] if "bees" in one["memory"]]
    assert (said["get"]["memory"], said["get"]["user_id"]) == ("Ada keeps three bees.", "ada")
    assert (said["get_all"]["count"], [one["id"] for one in said["get_all"]["results"]]) == (1, [added["id"]])
    assert said["update"]["id"] == said["updated"]["id"] == added["id"]
    assert said["updated"]["memory"] == "Ada keeps four bees."
    assert [one["event"] for one in said["history"]] == ["ADD", "UPDATE"]
    assert "message" in said["delete"]
    assert said["get deleted"] == "MemoryNotFoundError"
    assert {(one["type"], one["name"]): one["total_memories"] for one in said["users"]["results"]} == {
        ("user", "ada"): 2,
        ("user", "bob"): 1,
    }
    assert said["batch_update"] == {"message": "Successfully updated 2 memories"}
    assert said["batch updated"] == [True, True]
    assert said["feedback"]["feedback"] == "POSITIVE"
    assert said["batch_delete"] == {"message": "Successfully deleted 2 memories"}
    assert said["batch deleted"] == []
    assert said["delete_users"] == {"message": "Entity deleted successfully."}
    assert [one["name"] for one in said["users then"]["results"]] == ["bob"]
    assert said["delete_users of nobody"] == "MemoryNotFoundError"
    assert set(said["refused"].values()) == {"AuthenticationError"}
    assert said["delete_all of nobody"] == "ValidationError"
    assert said["left"] == []
    assert said["wrong key"] == "ValueError"
