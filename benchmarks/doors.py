"""Cost of the doors: a hook, an MCP client's start, a thousand questions at once, ten thousand in a row.

One server, run as a user runs it, with the four embedded backends and some hundreds of turns of several users.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client

from benchmarks.dead_servers import dead_servers
from benchmarks.figures import commit
from benchmarks.hosts import hosts
from benchmarks.metrics import percentile
from benchmarks.progress import bar
from benchmarks.server_processes import Address, Child, serving
from benchmarks.synthetic_text import question, sentence

BATCH = 100
USERS = tuple(f"user-{n}" for n in range(8))
SETTLE_S = 600.0
HOOKS = 15
STARTS = 5
AT_ONCE = 4
"""questions under way while ten thousand are asked: enough to keep two cores busy"""
WARM_UP = 500
"""questions before memory and files are looked at, as many at once as the server works on: then every thread runs"""
PLACES = 64
"""what the server works on at once, by default"""
QUIET_S = 5.0
"""seconds without a question in which a server closes what its clients have closed"""
_MCP = ("-m", "fusion", "mcp")
FILES = 4096
"""descriptors that this process needs for a thousand connections"""


def run(memories: int, concurrent: int, requests: int) -> dict[str, Any]:
    """Figures of a home with ``memories`` turns, under ``concurrent`` questions at once and ``requests`` in a row."""
    _allow_files(FILES)
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        settings = 'log_level = "warning"\n[backends.markdown]\nremember_turns = true\n'
        (home / "fusion.toml").write_text(settings, encoding="utf-8")
        command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--idle-exit", "120", "--json"]
        with serving(command) as server:
            door = server.address
            _fill(door, memories)
            figures = _hook(home, door) | _mcp(home)
            _ask(door, _questions(min(WARM_UP, requests), seed=2), PLACES, "warm-up")
            files = _idle_files(server)
            figures |= _load(door, concurrent)
            with door.client() as client:
                after_load = client.fuse(question(Random(3)), all_users=True)
                figures |= _endurance(server, door, requests)
                at_the_end = client.fuse(question(Random(3)), all_users=True)
            return {
                "memories": memories,
                "users": len(USERS),
                "commit": commit(),
                "date": datetime.now(UTC).date().isoformat(),
                **figures,
                **dead_servers(Path(folder)),
                **hosts(),
                "fds_leaked": max(0, _idle_files(server, files) - files),
                "degraded_after_load": after_load["degraded"],
                "degraded_at_the_end": at_the_end["degraded"],
            }


def _fill(door: Address, memories: int) -> None:
    """Turns of 40 to 240 characters, in sessions of thirty, of each user in turn."""
    draw = Random(0)
    turns = [
        {
            "text": sentence(draw, draw.randrange(40, 240)),
            "kind": "turn",
            "speaker": ("Mara", "Teo")[n % 2],
            "user_id": USERS[n // 30 % len(USERS)],
            "document": f"session/{n // 30}",
            "position": n % 30,
            "source": "doors",
        }
        for n in range(memories)
    ]
    with door.client(SETTLE_S) as client, bar("memories", memories) as advance:
        for start in range(0, memories, BATCH):
            client.remember(turns[start : start + BATCH])
            advance(BATCH)
        if not client.settle(SETTLE_S)["settled"]:
            raise RuntimeError("the memories were not settled in time")


# A hook ----------------------------------------------------------------------------------------------------------


def _hook(home: Path, door: Address) -> dict[str, Any]:
    """The command's wall time beyond the server's own for the same question, as its Server-Timing has it.

    The server is asked again for that, when it has seen the question once: what it saves then counts as the hook's.
    """
    draw = Random(1)
    took: list[float] = []
    own: list[float] = []
    cpu: list[float] = []
    said = ""
    for _ in range(10 * (HOOKS + 1)):  # a busy machine cuts some at their deadline
        prompt = question(draw)
        started = time.perf_counter()
        used = _children_cpu_s()
        done = subprocess.run(
            [sys.executable, "-m", "fusion", "hook", "user-prompt-submit", "--home", str(home), "--user", USERS[0]],
            input=json.dumps({"prompt": prompt, "cwd": str(home.parent), "hook_event_name": "UserPromptSubmit"}),
            capture_output=True,
            text=True,
            check=True,
            env=_compiled(home),
        )
        hook_ms = (time.perf_counter() - started) * 1000
        cpu_ms = (_children_cpu_s() - used) * 1000
        if not json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]:
            said = done.stderr
        elif (server_ms := _server_ms(door, {"query": prompt, "recipe": "hook", "user_id": USERS[0]})) is not None:
            took.append(hook_ms)
            own.append(server_ms)
            cpu.append(cpu_ms)
            if len(took) == HOOKS + 1:  # the first one warms the disk's cache
                break
    else:
        raise RuntimeError(f"the hook recalled next to nothing: {said}")
    overhead = [one - server for one, server in zip(took[1:], own[1:], strict=True)]
    return {
        "hook_overhead_ms": round(_median(overhead), 1),
        "hook_cpu_ms": round(_median(cpu[1:]), 1),
        "hook_ms": round(_median(took[1:]), 1),
        "hook_server_ms": round(_median(own[1:]), 1),
    }


def _server_ms(door: Address, body: dict[str, str]) -> float | None:
    """The time that the server reports for a question, from its first byte to the reply's; None if all were late."""

    async def ask() -> str | None:
        async with (
            aiohttp.ClientSession(headers=door.headers) as session,
            session.post(f"{door.url}/v1/fuse", json=body) as response,
        ):
            if response.status == 503:
                return None
            response.raise_for_status()
            return response.headers["server-timing"]

    timing = asyncio.run(ask())
    if timing is None:
        return None
    found = re.search(r"total;dur=([\d.]+)", timing)
    if found is None:
        raise RuntimeError(f"Server-Timing has no total: {timing}")
    return float(found[1])


# An MCP client ---------------------------------------------------------------------------------------------------


def _mcp(home: Path) -> dict[str, Any]:
    """The start of `fusion mcp` by the clock and in CPU, and the size of what a model is shown of a block."""
    blocks = asyncio.run(_shown(home))
    return {
        "mcp_ready_s": round(_median(_mcp_start(home) for _ in range(STARTS)), 3),
        "mcp_ready_cpu_s": round(_median(_mcp_cpu(home) for _ in range(STARTS)), 3),
        "mcp_block_chars": round(_median(len(block) for block, _ in blocks)),
        "mcp_shown_over_block": round(max(shown / len(block) for block, shown in blocks), 3),
    }


async def _shown(home: Path) -> list[tuple[str, int]]:
    """The block of some `memory_fuse`, and the characters that a host shows of each: the structured content in place of
    the text if there is any, as Claude Code and Codex do, or the text, as Gemini CLI does; the longer of the two."""
    draw = Random(6)
    command = StdioServerParameters(command=sys.executable, args=[*_MCP, "--home", str(home), "--user", USERS[0]])
    found = []
    async with McpClient(stdio_client(command)) as client:
        for _ in range(STARTS):
            result = await client.call_tool("memory_fuse", {"query": question(draw)})
            text = "".join(part.text for part in result.content if part.type == "text")
            structured = 0 if result.structured_content is None else len(json.dumps(result.structured_content))
            if text.startswith("<"):
                block = text[: text.rindex(">") + 1]
                found.append((block, max(len(text), structured)))
    return found


def _mcp_cpu(home: Path) -> float:
    """Seconds of CPU of a `fusion mcp` that answers the handshake and lists its tools, in its whole life."""
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = "".join(json.dumps(message) + "\n" for message in messages)
    before = _children_cpu_s()
    command = [sys.executable, *_MCP, "--home", str(home)]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=True, env=_compiled(home))
    used = _children_cpu_s() - before
    if len(done.stdout.splitlines()) != 2:
        raise RuntimeError(f"fusion mcp did not answer: {done.stderr}")
    return used


def _compiled(home: Path) -> dict[str, str]:
    """The environment of a process that keeps and finds its compiled modules, as those of an installed package are."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(home.parent / "compiled")}


def _children_cpu_s() -> float:
    """Seconds of CPU that the ended children of this process have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _mcp_start(home: Path) -> float:
    """Seconds from the start of `fusion mcp` until the official client has initialised it and has its tools."""

    async def start() -> float:
        command = StdioServerParameters(command=sys.executable, args=[*_MCP, "--home", str(home)])
        started = time.perf_counter()
        async with McpClient(stdio_client(command)) as client:
            tools = await client.list_tools()
            took = time.perf_counter() - started
        if not tools.tools:
            raise RuntimeError("fusion mcp has no tools")
        return took

    return asyncio.run(start())


# Load ------------------------------------------------------------------------------------------------------------


def _load(door: Address, concurrent: int) -> dict[str, Any]:
    """``concurrent`` questions in the same moment, each over a connection of its own."""
    replies = _ask(door, _questions(concurrent, seed=4), concurrent, "at once")
    statuses = Counter(status for status, _, _ in replies)
    admitted = [took for status, took, _ in replies if status == 200]
    return {
        f"load_{concurrent}_5xx_other_than_503": sum(n for s, n in statuses.items() if s >= 500 and s != 503),
        f"load_{concurrent}_200": statuses[200],
        f"load_{concurrent}_503": statuses[503],
        f"load_{concurrent}_503_overloaded": sum(fault == "Overloaded" for _, _, fault in replies),
        f"load_{concurrent}_degraded": sum(fault == "degraded" for _, _, fault in replies),
        f"load_{concurrent}_p50_ms": round(percentile(0.5, admitted) or 0.0),
        f"load_{concurrent}_p99_ms": round(percentile(0.99, admitted) or 0.0),
    }


def _endurance(server: Child, door: Address, requests: int) -> dict[str, Any]:
    """Growth of the server's resident memory over ``requests`` questions."""
    before = server.memory_mb()
    replies = _ask(door, _questions(requests, seed=5), AT_ONCE, "in a row")
    if any(status != 200 for status, _, _ in replies):
        raise RuntimeError(f"not every question was answered: {Counter(fault for _, _, fault in replies)}")
    name = f"{requests // 1000}k" if requests >= 1000 else str(requests)
    return {
        f"rss_growth_mb_after_{name}_requests": round(server.memory_mb() - before, 1),
        "rss_mb": round(server.memory_mb()),
        "in_a_row_p50_ms": round(percentile(0.5, (took for _, took, _ in replies)) or 0.0, 1),
    }


def _questions(number: int, *, seed: int) -> list[dict[str, str]]:
    draw = Random(seed)
    return [{"query": question(draw), "user_id": USERS[n % len(USERS)]} for n in range(number)]


def _ask(door: Address, questions: Sequence[dict[str, str]], at_once: int, title: str) -> list[tuple[int, float, str]]:
    """Status, milliseconds and error of each question, with at most ``at_once`` of them in flight."""

    async def ask() -> list[tuple[int, float, str]]:
        replies: list[tuple[int, float, str]] = []
        left = iter(questions)
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=SETTLE_S)
        async with aiohttp.ClientSession(headers=door.headers, connector=connector, timeout=timeout) as session:

            async def one_after_the_other() -> None:
                for body in left:
                    started = time.perf_counter()
                    async with session.post(f"{door.url}/fuse", json=body) as response:
                        reply = await response.json(content_type=None)
                    took_ms = (time.perf_counter() - started) * 1000
                    refused = response.status != 200
                    fault = reply["type"].rpartition(":")[2] if refused else "degraded" if reply["degraded"] else ""
                    replies.append((response.status, took_ms, fault))
                    advance(1)

            with bar(title, len(questions)) as advance:
                await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        return replies

    return asyncio.run(ask())


def _idle_files(server: Child, enough: int = 0) -> int:
    """Descriptors of a server of which nobody asks anything: the fewest in some seconds, or until there are ``enough``.

    A connection that its client has closed stays open for a moment, on a busy machine for some of them; a question in
    order to look would be one more.
    """
    fewest, deadline = server.files(), time.monotonic() + QUIET_S
    while fewest > enough and time.monotonic() < deadline:
        time.sleep(0.1)
        fewest = min(fewest, server.files())
    return fewest


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(hard, wanted), hard)
        )


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
