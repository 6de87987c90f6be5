"""What a dead server costs an agent at each door, by the clock: nothing else of a turn is in these figures.

A hook and the status line are processes, whose whole life counts; of `fusion mcp` one call of a tool counts, and of the
clients one recall.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.bad_servers import DEAD, Way, bad_server
from fusion.client import LOG, Client
from fusion.integrations.agent_memory import AgentMemory, Turn
from fusion.trust import allow

TRIES = 3
ASKED = "Which harbour did Mara name last week?"
TYPESCRIPT = Path(__file__).parents[1] / "integrations" / "typescript" / "home.js"
FAILED = "fusion: server.prot: Extra inputs are not permitted\n"
_NODE = """
const { homeClient } = await import(process.argv[1]);
const memory = homeClient(process.argv[2]);
const began = performance.now();
await memory.recall(process.argv[3]);
console.log(performance.now() - began);
process.exit(0);
"""

Door = Callable[[Path], float]
"""seconds that a door costs with a home whose server is dead"""


def dead_servers(folder: Path) -> dict[str, object]:
    """Milliseconds at each door: the median of some tries with the kind of dead server that costs most."""
    costs: dict[str, dict[str, float]] = {}
    for way, opened in _ways(folder).items():
        with opened() as home:
            for door, cost in DOORS.items():
                costs.setdefault(door, {})[way] = median(cost(home) for _ in range(TRIES)) * 1000
    missing = {} if shutil.which("node") else {"client of TypeScript": "node is not installed"}
    worst = {door: round(max(by_way.values())) for door, by_way in costs.items()}
    return {
        "dead_server_ms": {**worst, **missing},
        "dead_server_worst": {door: max(by_way, key=by_way.__getitem__) for door, by_way in costs.items()},
    }


def _ways(folder: Path) -> Mapping[str, Callable[[], AbstractContextManager[Path]]]:
    return {
        **{way: partial(_bad, folder, way) for way in DEAD if way != "stale"},
        "does not start": partial(_broken, folder),
    }


@contextmanager
def _bad(folder: Path, way: Way) -> Iterator[Path]:
    with bad_server(folder / way, way):
        yield folder / way


@contextmanager
def _broken(folder: Path) -> Iterator[Path]:
    """A home whose server cannot start, which was tried once."""
    home = folder / "broken"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    (home / LOG).write_text(FAILED, encoding="utf-8")
    allow(home)
    yield home


def _process(*words: str) -> Door:
    """The whole life of one of our commands, with the input of a hook."""

    def cost(home: Path) -> float:
        given = {"session_id": "s1", "prompt": ASKED, "source": "startup", "transcript_path": str(_transcript(home))}
        began = time.perf_counter()
        command = [sys.executable, "-m", "fusion", *words, "--home", str(home)]
        subprocess.run(command, input=json.dumps(given).encode(), capture_output=True, check=True, env=_defaults())
        return time.perf_counter() - began

    return cost


def _defaults() -> dict[str, str]:
    """The environment without settings of ours: the default limits count."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FUSION_")}


def _transcript(home: Path) -> Path:
    """A session with one turn that is not kept yet."""
    file = home.parent / f"{home.name}.jsonl"
    said = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": ASKED}}
    file.write_text(json.dumps({**said, "timestamp": "2026-05-01T10:00:00Z"}) + "\n", encoding="utf-8")
    return file


def _mcp(home: Path) -> float:
    """A call of a tool, after the handshake: a host is ready by then."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
    call = {"name": "memory_fuse", "arguments": {"query": ASKED}}
    command = [sys.executable, "-m", "fusion", "mcp", "--home", str(home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=_defaults()) as server:
        sent, replies = server.stdin, server.stdout
        if sent is None or replies is None:
            raise RuntimeError("fusion mcp has no pipes")

        def ask(number: int, method: str, params: Mapping[str, object]) -> None:
            sent.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            sent.flush()
            replies.readline()

        ask(1, "initialize", about)
        ask(2, "tools/call", call)  # a start of the server that is under way ends with this one
        began = time.perf_counter()
        ask(3, "tools/call", call)
        took = time.perf_counter() - began
        sent.close()
    return took


def _framework(home: Path) -> float:
    """What a turn of an agent of any framework waits for: recall before it, capture after it."""
    memory = AgentMemory(Client.of_home(home, start=False, timeout_s=1.0), session_id="s1")
    began = time.perf_counter()
    memory.recall(ASKED)
    memory.keep([Turn("user", ASKED)])
    took = time.perf_counter() - began
    memory.flush()
    return took


def _typescript(home: Path) -> float:
    node = shutil.which("node") or "node"
    command = [node, "--input-type=module", "-e", _NODE, TYPESCRIPT.as_uri(), str(home), ASKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
    return float(done.stdout) / 1000


DOORS: Mapping[str, Door] = {
    "hook user-prompt-submit": _process("hook", "user-prompt-submit"),
    "hook session-start": _process("hook", "session-start"),
    "hook stop": _process("hook", "stop"),
    "statusline": _process("statusline"),
    "tool of fusion mcp": _mcp,
    "framework": _framework,
    **({"client of TypeScript": _typescript} if shutil.which("node") else {}),
}
