"""A home on a full or read-only disk: questions are answered, degraded with the reason; nothing is written."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client

from fusion.gateway.gateway import Gateway
from fusion.gateway.read_only import PREFIX, writable_home
from fusion.ingest.intake import NewMemory
from fusion.store.writable import unwritable
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.faults.home import settings_of
from tests.faults.test_stores import NADIA, NAMESPACE, QUESTION, ROOT, body

BACKENDS = {
    "cortex": "adapters.cortex:Cortex",
    "triples": "adapters.triples:Triples",
    "mem0": "adapters.mem0:Mem0",
    "markdown": "adapters.markdown:Markdown",
}
TOML = 'backends_only = true\n[embedder]\nadapter = ""\n' + "".join(
    f'[backends.{name}]\nadapter = "{adapter}"\n' for name, adapter in BACKENDS.items()
)
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
FULL = (
    'mount -t tmpfs -o size=8m,mode=0700 none "$1" && cp -a "$2"/. "$1" && "$3" -m fusion allow --yes --home "$1" >&2 '
    '&& (cp -a "$2"/token "$1" 2>/dev/null || true) '
    '&& (cat /dev/zero >"$1/ballast" 2>/dev/null || true) && shift 2 && exec "$@"'
)
"""the home is a disk of 8 MB with not a byte left; a token that it has is put back, for `fusion allow` removes it"""


RUN = """
import json, subprocess, sys
done = [subprocess.run([sys.executable, "-m", "fusion", *one], capture_output=True, text=True)
        for one in json.loads(sys.argv[1])]
print(json.dumps([[one.returncode, one.stdout, one.stderr] for one in done]))
"""
"""runs commands one after the other on one such disk, each a process of its own"""


async def filled(home: Path) -> str:
    async with Gateway.open(settings_of(home, **BACKENDS)) as gateway:
        (kept,) = await gateway.remember([NewMemory("The harbour is in Lyon", scope=NADIA, kind="note")])
        await gateway.settle()
    return kept.ref


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home with a memory, which is filled once and copied for each test; and the memory's ref."""
    home = tmp_path_factory.mktemp("prepared") / "home"
    return home, asyncio.run(filled(home))


@pytest.fixture
def ref(prepared: tuple[Path, str], home: Path) -> str:
    """The ref of the one memory of ``home``."""
    shutil.copytree(prepared[0], home)
    allow(home)  # a copy is not the home that its user made
    return prepared[1]


def ask(script: str, arguments: list[str], commands: list[list[str]]) -> list[subprocess.CompletedProcess[str]]:
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", script, "sh", *arguments, sys.executable, "-c", RUN, json.dumps(commands)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return [subprocess.CompletedProcess([], *one) for one in json.loads(done.stdout)]


@pytest.mark.feature("a home on a full or read-only disk answers `fuse`, `search` and `get`, degraded with the reason")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
@pytest.mark.parametrize("disk", ["read-only", "full"])
def test_the_command_line_answers_from_a_home_that_cannot_be_written(home: Path, ref: str, disk: str) -> None:
    """`fusion fuse`, `search` and `get` answer and say what is wrong; `remember` says what to do; nothing is left."""
    config = home.parent / "fusion.toml"
    config.write_text(TOML)
    place = home if disk == "read-only" else home.parent / "small"
    place.mkdir(exist_ok=True)
    script, arguments = (READ_ONLY, [str(home)]) if disk == "read-only" else (FULL, [str(place), str(home)])
    common = ["--home", str(place), "--config", str(config), "--user", "nadia", "--json"]
    fused, found, got, refused = ask(
        script,
        arguments,
        [
            ["fuse", "which harbour is it?", *common],
            ["search", "cortex", "harbour", *common],
            ["get", ref, *common],
            ["remember", "The lighthouse is in Brest", *common],
        ],
    )
    assert fused.returncode == 0, fused.stderr
    answer = json.loads(fused.stdout)
    assert "The harbour is in Lyon" in answer["block"]
    assert answer["degraded"]
    assert any("cannot be written to" in note for note in answer["notes"])
    assert "The harbour is in Lyon" in found.stdout, found.stderr
    assert "The harbour is in Lyon" in got.stdout, got.stderr
    assert refused.returncode != 0
    assert "cannot be written to" in refused.stderr


@pytest.mark.feature("a server starts for reading on a full or read-only disk; writing is 507 with what to do")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
@pytest.mark.parametrize("disk", ["read-only", "full"])
@pytest.mark.usefixtures("ref")
def test_a_server_starts_for_reading_on_such_a_disk(home: Path, disk: str) -> None:
    """`/readyz` says why, questions are answered, writing is 507 with what to do."""
    token = home_token(home)
    config = home.parent / "fusion.toml"
    config.write_text(TOML)
    place = home if disk == "read-only" else home.parent / "small"
    place.mkdir(exist_ok=True)
    script, arguments = (READ_ONLY, [str(home)]) if disk == "read-only" else (FULL, [str(place), str(home)])
    copies = home.parent / "copies"  # of this test alone: others have theirs in the system's folder meanwhile
    copies.mkdir()
    served = ["serve", "--home", str(place), "--config", str(config), "--port", "0", "--json"]
    process = subprocess.Popen(
        [*NAMESPACE, "sh", "-c", script, "sh", *arguments, sys.executable, "-m", "fusion", *served],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(copies)},
    )
    with process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            key = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, timeout=60, headers=key) as client:
                ready = client.get("/readyz").json()
                fused = client.post("/fuse", json=QUESTION).json()
                refused = client.post("/v1/memories", json=body("The lighthouse is in Brest"))
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert any("cannot be written to" in note for note in ready["notes"])
    assert "The harbour is in Lyon" in fused["block"]
    assert fused["degraded"]
    assert refused.status_code == 507
    assert "Make room or make it writable" in refused.json()["detail"]
    assert not list(copies.glob(f"{PREFIX}*"))


def on_disk(home: Path, disk: str) -> tuple[Path, list[str]]:
    """The home that a command names, and what puts that on such a disk before the command."""
    place = home if disk == "read-only" else home.parent / "small"
    place.mkdir(exist_ok=True)
    script, arguments = (READ_ONLY, [str(home)]) if disk == "read-only" else (FULL, [str(place), str(home)])
    if disk == "full":
        arguments.append(sys.executable)
        script = script.replace("shift 2", "shift 3")
    return place, [*NAMESPACE, "sh", "-c", script, "sh", *arguments]


@pytest.mark.feature("on a full or read-only disk a hook prints its JSON, says what to do, and exits with 0")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
@pytest.mark.parametrize("disk", ["read-only", "full"])
@pytest.mark.parametrize("hook", ["user-prompt-submit", "session-start", "stop", "pre-compact"])
@pytest.mark.usefixtures("ref")
def test_a_hook_on_such_a_disk_says_what_to_do_and_holds_up_nobody(home: Path, disk: str, hook: str) -> None:
    (home / "fusion.toml").write_text(TOML)
    allow(home)
    place, disk_before = on_disk(home, disk)
    told = {"prompt": "which harbour is it?", "cwd": "/", "session_id": "s", "last_assistant_message": "In Lyon."}
    transcript = home.parent / "session.jsonl"
    transcript.write_text(
        '{"type": "user", "sessionId": "s", "message": {"role": "user", "content": "Where is it?"}}\n'
    )
    done = subprocess.run(
        [*disk_before, sys.executable, "-m", "fusion", "hook", hook, "--home", str(place)],
        input=json.dumps({**told, "transcript_path": str(transcript)}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert "cannot be written to" in done.stderr
    assert "Make room or make it writable" in done.stderr
    assert ("cannot be written to" in answer.get("systemMessage", "")) == (hook == "session-start")


@pytest.mark.feature("on a full or read-only disk the MCP tools answer, degraded, and writing says what to do")
@pytest.mark.skipif(not NAMESPACE, reason="this machine lets nobody mount a tmpfs")
@pytest.mark.parametrize("disk", ["read-only", "full"])
async def test_mcp_answers_from_such_a_disk(home: Path, ref: str, disk: str) -> None:
    (home / "fusion.toml").write_text(TOML)
    allow(home)
    place, disk_before = on_disk(home, disk)
    command = [*disk_before, sys.executable, "-m", "fusion", "mcp", "--user", "nadia", "--home", str(place)]
    server = StdioServerParameters(command=command[0], args=command[1:], env={**os.environ, "PYTHONPATH": str(ROOT)})
    async with McpClient(stdio_client(server)) as client:
        fused = await client.call_tool("memory_fuse", {"query": "which harbour is it?"})
        got = await client.call_tool("memory_get", {"ref": ref})
        refused = await client.call_tool("memory_store", {"text": "The lighthouse is in Brest"})
    assert "The harbour is in Lyon" in str(fused.content)
    assert "cannot be written to" in str(fused.content)
    assert fused.meta is not None
    assert fused.meta["memory-fusion/result"]["degraded"]
    assert "The harbour is in Lyon" in str(got.content)
    assert "Make room or make it writable" in str(refused.content)


@pytest.mark.usefixtures("ref")
async def test_a_home_with_room_is_opened_itself(home: Path) -> None:
    assert unwritable(home) == ""
    async with writable_home(settings_of(home, **BACKENDS)) as there:
        assert there.settings.home == home
        assert not there.reason
    assert not list(home.glob(".probe*"))
