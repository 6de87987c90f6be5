"""The real hosts of agents: what their models are shown of one block, and whether the first turn has the tools.

They are those that `make hosts` installs, with the scripted model of their tests, which records what it was shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusion.client import Client, stop_server
from fusion.trust import allow
from tests.doors.fakes import SMALL
from tests.hosts.hosts import FUSE, HOSTS, World, fusion_command, inspector, is_installed
from tests.hosts.scripted_model import Reply, ScriptedModel, Shown, ToolCall
from tests.hosts.test_hosts import ANSWER, ASKED, BLOCK

NOT_INSTALLED = "not installed: make hosts, and HOSTS= the folder of its commands"
STARTS = 5
BUSY = 8
"""processes that keep a core busy each"""
BUSY_S = 600.0
"""seconds after which they end by themselves"""
WAITS_FOR_TOOLS = ("Claude Code", "Codex")
"""hosts that have started a turn without tools"""
SETTINGS = f"{SMALL}[hooks]\nhello_timeout_ms = 15000\n"
MEMORIES = 8
FRAMEWORKS = Path(__file__).parents[1] / "tests" / "frameworks"
_SPIN = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"


def hosts() -> dict[str, object]:
    """The figures, with a word in place of those of a host that is not installed."""
    shown = {name: _shown(name) if is_installed(name) else NOT_INSTALLED for name in HOSTS}
    installed = any(is_installed(name) for name in HOSTS)
    shown["MCP Inspector"] = _shown_by_inspector() if installed else NOT_INSTALLED
    frameworks = sorted(file.stem.removeprefix("test_") for file in _framework_tests())
    ran = [name for name, figure in shown.items() if isinstance(figure, float)]
    return {
        "shown_over_block": shown,
        f"first_turn_with_tools_at_load_{BUSY}": {
            name: _first_turns(name) if is_installed(name) else NOT_INSTALLED for name in WAITS_FOR_TOOLS
        },
        "hosts_that_ran": len(ran),
        "frameworks_with_a_real_test": len(frameworks),
    }


def _framework_tests() -> Iterator[Path]:
    """The test modules that run against a real package, one for each framework and for Hermes."""
    for file in FRAMEWORKS.glob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if "pytestmark = pytest.mark.frameworks" in text and "EXAMPLES" not in text:
            yield file


@contextmanager
def _world() -> Iterator[World]:
    """A user with a project, and a home whose block is as long as one of a home that is in use."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-hosts-", ignore_cleanup_errors=True) as folder:
        user = Path(folder) / "ada"
        world = World(user, user / "hjul", user / "memories", fusion_command(Path(folder)))
        world.project.mkdir(parents=True)
        world.home.mkdir(mode=0o700)
        (world.home / "fusion.toml").write_text(SETTINGS, encoding="utf-8")
        allow(world.home)
        words = [str(world.command), "allow", "--yes", "--home", str(world.home)]
        subprocess.run(words, env=world.environment(), check=True, capture_output=True)
        try:
            with Client.of_home(world.home) as client:
                client.remember([{"text": _text(number)} for number in range(MEMORIES)])
                client.settle(60)
            yield world
        finally:
            stop_server(world.home)


def _text(number: int) -> str:
    """Some 500 characters, which differ from those of the others."""
    parts = [f"part {number}-{one} of the stock was lost and entered again by hand" for one in range(8)]
    return f"We left SQLite because the database was locked on day {number}: {', '.join(parts)}."


def _shown(name: str) -> float:
    """Characters that a host shows its model of one `memory_fuse`, over those of the block."""
    with _world() as world, ScriptedModel(_AsksOnce()) as model:
        done = HOSTS[name](world, model, ASKED, [])
    shown = model.main[-1].of_role("tool")
    if ANSWER not in done.stdout or len(BLOCK.findall(shown)) != 1:
        raise RuntimeError(f"{name} did not show the block once: {done.stderr[-500:]}")
    return _ratio(shown)


def _shown_by_inspector() -> float:
    call = ["--method", "tools/call", "--tool-name", "memory_fuse", "--tool-arg", f"query={ASKED}"]
    with _world() as world:
        [content] = json.loads(inspector(world, *call).stdout)["content"]
    return _ratio(content["text"])


def _ratio(text: str) -> float:
    found = BLOCK.search(text)
    if found is None:
        raise RuntimeError("no block was shown")
    return round(len(text) / len(found.group()), 3)


def _first_turns(name: str) -> str:
    """In how many of some starts the first turn had the tools, on a busy machine; the home's server runs."""
    with _world() as world, _busy():
        had = sum(_had_tools(name, world) for _ in range(STARTS))
    return f"{had} of {STARTS}"


def _had_tools(name: str, world: World) -> bool:
    asks = _AsksOnce()
    with ScriptedModel(asks) as model:
        HOSTS[name](world, model, ASKED, [])
    return asks.called


class _AsksOnce:
    """A model that calls the memory once if it is offered the tool, in Claude Code after it has looked for it."""

    def __init__(self) -> None:
        self.called = self._searched = False

    def __call__(self, shown: Shown) -> Reply:
        if not shown.tools:
            return "ok"
        if not self.called and shown.offered("memory_fuse"):
            self.called = True
            return ToolCall("memory_fuse", {"query": ASKED})
        if not self.called and not self._searched and "ToolSearch" in shown.tools:
            self._searched = True
            return ToolCall("ToolSearch", {"query": f"select:{FUSE}"})
        return ANSWER


@contextmanager
def _busy() -> Iterator[None]:
    """A machine with some more busy processes; they end with the block, and by themselves if that fails."""
    command = [sys.executable, "-c", _SPIN, str(BUSY_S)]
    spinning = [subprocess.Popen(command) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()
