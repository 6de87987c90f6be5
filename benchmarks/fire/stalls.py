"""`loop_stall_ms`: for how long one hostile caller, model or backend keeps a server's event loop from everybody else.

A real server runs in a process of its own, with a task on its loop that wakes every 5 ms. A stall is how much later it
wakes, without the time that its thread waited for a processor (Linux counts it), which says something of the machine.
Run as a program, with the settings of a home, it is that server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.server_processes import Address, allow, serving
from fusion.errors import FusionError
from tests.fire import stalls

TICK_S = 0.005
LEAST_MS = 10.0
"""stalls below it are not written down"""
RUNS = 3
AGAIN_MS = 100.0
"""A case above it runs again, and the smallest stall counts: a busy machine stalls once, a slow parser each time."""
KEY = "FUSION_BENCHMARK_KEY"
SETTINGS = """
[server]
port = 0
[embedder]
adapter = ""
[backends.memory]
adapter = "adapters.inmemory:InMemory"
[backends.hostile]
adapter = "adapters.http:HttpMemory"
url = "{url}"
bound = {{ user_id = "*" }}
[judge]
adapter = "adapters.judges.haiku:Haiku"
base_url = "{url}"
api_key_env = "ANTHROPIC_API_KEY"
calls_per_minute = 100000
tokens_per_minute = 100000000
[model]
adapter = "adapters.models.gateway:Gateway"
model = "hostile"
base_url = "{url}/v1"
calls_per_minute = 100000
tokens_per_minute = 100000000
quiet_s = 0.05
"""


class Hostile:
    """A loopback server that acts as judge, model and backend, and gives prepared answers."""

    def __init__(self) -> None:
        self.answer = "{}"
        self.reply = json.dumps({"results": [{"id": "a", "text": "the cache is Redis", "score": 1}]}).encode()
        self.calls = {"judge": 0, "model": 0, "backend": 0}

    def of(self, path: str) -> bytes:
        """The body for a request by its path."""
        if path.endswith("/messages"):
            self.calls["judge"] += 1
            content = [{"type": "text", "text": self.answer}]
            usage = {"input_tokens": 1, "output_tokens": 1}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
            return json.dumps({**message, "content": content, "usage": usage}).encode()
        if path.endswith("/completions"):
            self.calls["model"] += 1
            choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": self.answer}}
            return json.dumps({"choices": [choice]}).encode()
        self.calls["backend"] += 1
        return self.reply


@contextmanager
def hostile() -> Iterator[tuple[Hostile, str]]:
    """Runs the hostile server; yields it and its URL."""
    server = Hostile()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            body = server.of(self.path)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    door = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{door.server_port}"
    finally:
        door.shutdown()
        door.server_close()


def measure(full: bool) -> dict[str, Any]:
    """Runs each case; the short run takes every sixth of a model's and of a backend's, and all floods."""
    worst: dict[str, float] = {}
    cpu: dict[str, float] = {}
    step = 1 if full else 6
    with tempfile.TemporaryDirectory() as folder, hostile() as (server, url):
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text(SETTINGS.format(url=url), encoding="utf-8")
        environment = {**allow(home, Path(folder) / "state"), "ANTHROPIC_API_KEY": KEY}
        log = Path(folder) / "stalls"
        with serving(["-m", "benchmarks.fire.stalls", str(home), str(log)], environment) as child:
            ask = _asking(child.address)
            ask("warm")  # what is imported with the first call is not measured

            def case(name: str, work: Callable[[], object]) -> None:
                worst[name] = cpu[name] = math.inf
                for _ in range(RUNS):
                    began = time.monotonic()
                    work()
                    time.sleep(0.1)
                    seen = [stall for stall in _stalls(log) if stall[0] >= began]
                    worst[name] = min(worst[name], max((ms for _, ms, _ in seen), default=0.0))
                    cpu[name] = min(cpu[name], max((cpu_ms for _, _, cpu_ms in seen), default=0.0))
                    if worst[name] < AGAIN_MS:
                        break

            plain_answer, plain_reply = server.answer, server.reply
            for name, answer in list(stalls.answers().items())[::step]:
                server.answer = answer
                case(f"answer of a model: {name}", lambda name=name: ask(name))  # type: ignore[misc]
            server.answer = plain_answer
            for name, reply in list(stalls.replies().items())[::step]:
                server.reply = reply
                case(f"reply of a backend: {name}", lambda name=name: ask(name))  # type: ignore[misc]
            server.reply = plain_reply
            for name, flood in stalls.floods().items():
                case(f"connection: {name}", lambda flood=flood: _send(child.address.url, *flood))  # type: ignore[misc]
            case("200 connections with half a header", lambda: _trickle(child.address.url))
        calls = dict(server.calls)
    name = max(worst, key=lambda each: worst[each])
    return {
        "loop_stall_ms": round(worst[name], 1),
        "worst_case": name,
        "cases": len(worst),
        "calls": calls,
        "loop_cpu_ms": round(max(cpu.values()), 1),
        "highest": {each: round(worst[each], 1) for each in sorted(worst, key=lambda each: -worst[each])[:8]},
    }


def _asking(address: Address) -> Callable[[str], None]:
    """Two turns that a model distils, and a question that a backend answers and a judge scores."""
    client = address.client(20.0)

    def ask(name: str) -> None:
        said = (("Ann", f"Which cache did we choose ({name})?"), ("assistant", f"Redis, {name}."))
        turns = [{"text": text, "kind": "turn", "speaker": speaker, "session_id": name} for speaker, text in said]
        with contextlib.suppress(FusionError):
            client.remember(turns)
        with contextlib.suppress(FusionError):
            client.fuse(f"which cache did we choose: {name}?", recipe="deep")
        with contextlib.suppress(FusionError):
            client.settle(0.3)

    return ask


def _stalls(log: Path) -> Iterator[tuple[float, float, float]]:
    """When each ended, its milliseconds, and the CPU milliseconds of the loop's thread in it."""
    for line in log.read_text(encoding="ascii").splitlines():
        at, ms, cpu_ms = line.split()
        yield float(at), float(ms), float(cpu_ms)


def _send(url: str, begin: bytes, piece: bytes, times: int) -> None:
    """Sends a flood until it is over, or the server closes."""
    place = urlsplit(url)
    with contextlib.suppress(OSError), socket.create_connection((place.hostname, place.port), 5) as connection:
        connection.settimeout(5)
        reading = threading.Thread(target=_read, args=(connection,), daemon=True)
        reading.start()
        connection.sendall(begin)
        for _ in range(times):
            connection.sendall(piece)


def _read(connection: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        while connection.recv(65_536):
            pass


def _trickle(url: str) -> None:
    place = urlsplit(url)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(200):
            one = stack.enter_context(socket.create_connection((place.hostname, place.port), 5))
            one.sendall(stalls.HEAD + b"X-Long: ")
            connections.append(one)
        for _ in range(40):
            for one in connections:
                with contextlib.suppress(OSError):
                    one.sendall(b"a" * 700)


# The server


def main(home: Path, log: Path) -> None:
    """Serves a home, and logs each stall of its loop: when it ended, its milliseconds and its thread's CPU."""
    from fusion.doors.http.serve import serve
    from fusion.settings import load

    ticking: set[asyncio.Task[None]] = set()

    def ready(url: str) -> None:
        ticking.add(asyncio.get_running_loop().create_task(_tick(log)))
        print(json.dumps({"url": url, "home": str(home)}), flush=True)

    log.touch()
    serve(load(home=home), on_ready=ready)


async def _tick(log: Path) -> None:
    with log.open("a", encoding="ascii", buffering=1) as out:
        while True:
            began, waited_s, cpu_s = time.monotonic(), _waited_s(), time.thread_time()
            await asyncio.sleep(TICK_S)
            cpu_ms = (time.thread_time() - cpu_s) * 1000
            late_ms = (time.monotonic() - began - TICK_S - (_waited_s() - waited_s)) * 1000
            if max(late_ms, cpu_ms) >= LEAST_MS:
                out.write(f"{time.monotonic()} {late_ms:.1f} {cpu_ms:.1f}\n")


def _waited_s() -> float:
    """Seconds for which this thread was ready to run and had no processor."""
    try:
        counts = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    return int(counts[1]) / 1e9


if __name__ == "__main__":
    os.umask(0o077)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
