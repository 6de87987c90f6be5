"""The lines of `fusion mcp`: read, answered by threads, and written, with a stand-in for the home's server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.doors.mcp_stdio.listing import listing_of
from fusion.doors.mcp_stdio.protocol import Protocol, RpcError, ToolCall
from fusion.doors.mcp_stdio.pump import MAX_LINE_BYTES, WORKERS, Pump, TooLong, lines
from fusion.errors import BadInput, ServerUnreachable
from tests.doors.mcp_stdio.test_protocol import hello, modern, request

DONE = {"content": [{"type": "text", "text": "done"}], "isError": False}
REPORTS = (
    "import sys; from fusion.__main__ import main; "
    "sys.argv = ['fusion', 'mcp', '--home', sys.argv[1]]; import os; os._exit = lambda code: None; main(); "
    "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
)


def done(call: ToolCall) -> dict[str, Any]:
    return DONE


@dataclass
class Server:
    """Stands in for the home's server: carries calls out by a function, and keeps them."""

    carry_out: Callable[[ToolCall], dict[str, Any]] = done
    calls: list[ToolCall] = field(default_factory=list)

    def call(self, call: ToolCall) -> dict[str, Any]:
        self.calls.append(call)
        return self.carry_out(call)


def pumped(server: Server, messages: Iterable[Any], end: Callable[[], None] = lambda: None) -> list[Any]:
    """What is written for lines, which are messages or bytes; ``end`` runs before the input ends."""
    sent = [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in messages]
    written: list[bytes] = []

    def read(size: int) -> bytes:
        if sent:
            return sent.pop(0)
        end()
        return b""

    Pump(Protocol(listing_of("fusion")), server, written.append).run(read)
    return [json.loads(line) for line in written]


def call(number: int, name: str = "memory_fuse") -> dict[str, Any]:
    return request("tools/call", number, name=name, arguments={"query": "x"})


def test_pump_passes_calls_on_in_both_generations() -> None:
    """A result of the version without a handshake names its type and the server."""
    server = Server()
    replies = {reply["id"]: reply["result"] for reply in pumped(server, [call(1), modern("tools/call", 2, name="y")])}
    assert replies[1] == DONE
    assert replies[2].items() >= {**DONE, "resultType": "complete"}.items()
    assert [one.name for one in sorted(server.calls)] == ["memory_fuse", "y"]


@pytest.mark.feature("`fusion mcp`: an unreadable, oversized or broken line costs that line only")
def test_pump_survives_garbage() -> None:
    long = b'"' + b"x" * MAX_LINE_BYTES + b'"\n'
    deep = b"[" * 100_000 + b"\n"
    replies = pumped(
        Server(), [b"garbage\n", b"\n", b"\xff\xfe\n", long, deep, request("ping", 1), b'{"jsonrpc": "2.0']
    )
    codes = [reply.get("error", {}).get("code") for reply in replies]
    assert codes == [-32700, -32700, -32600, -32700, None]
    assert replies[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_pump_does_not_reply_to_cancelled_calls() -> None:
    """The call under way ends, and nobody reads of it. Two calls with one id are not under way at once."""
    started, released = Event(), Event()

    def wait(call: ToolCall) -> dict[str, Any]:
        started.set()
        released.wait(60)
        return DONE

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    replies = pumped(Server(wait), [call(1), call(1), cancelled, request("ping", 2)], released.set)
    assert started.is_set()
    assert [(reply["id"], "error" in reply) for reply in replies] == [(1, True), (2, False)]
    assert "runs" in replies[0]["error"]["message"]


def test_pump_answers_while_calls_are_under_way() -> None:
    """A ping waits for no call, and no more calls than `WORKERS` are passed on at once."""
    released = Event()

    def wait(call: ToolCall) -> dict[str, Any]:
        released.wait(60)
        return DONE

    server = Server(wait)
    replies = pumped(server, [*(call(n) for n in range(WORKERS + 4)), request("ping", "p")], released.set)
    assert replies[0]["id"] == "p"
    assert {reply["id"] for reply in replies[1:]} == {*range(WORKERS + 4)}


def test_pump_answers_batches_of_the_versions_that_have_them() -> None:
    """One list of replies, without those to notifications; today's versions have one message a line."""
    batch = [request("ping", 1), call(2), {"jsonrpc": "2.0", "method": "notifications/x"}, 3]
    assert [reply["error"]["code"] for reply in pumped(Server(), [hello("2025-11-25"), batch])[1:]] == [-32600]
    _, replies = pumped(Server(), [hello("2025-03-26"), batch])
    assert [reply["id"] for reply in replies] == [1, 2, None]
    assert replies[1]["result"] == DONE
    assert pumped(Server(), [hello("2025-03-26"), []])[1]["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("error", "name", "says"),
    [
        (ServerUnreachable("It did\nnot start"), "memory_fuse", (False, "so nothing was recalled: It did not start")),
        (ServerUnreachable("It did not start"), "memory_store", (True, "It did not start")),
        (BadInput("query: is empty"), "memory_fuse", (True, "query: is empty")),
    ],
)
def test_pump_fails_as_the_tool_does(error: Exception, name: str, says: tuple[bool, str]) -> None:
    """Recall fails open, a write is an error; a mistake is one in both."""

    def fail(call: ToolCall) -> dict[str, Any]:
        raise error

    [reply] = pumped(Server(fail), [call(1, name)])
    [content] = reply["result"]["content"]
    assert (reply["result"]["isError"], content["text"].endswith(says[1])) == (says[0], True)


@pytest.mark.parametrize("error", [RpcError(-32602, "Invalid request parameters"), ZeroDivisionError()])
def test_pump_reports_faults_as_errors(error: Exception) -> None:
    """Of the server, or of ours: it costs one call."""

    def fail(call: ToolCall) -> dict[str, Any]:
        raise error

    first, second = pumped(Server(fail), [call(1), request("ping", 2)])
    assert {first["id"], second["id"]} == {1, 2}
    failed = first if first["id"] == 1 else second
    assert failed["error"]["code"] in (-32602, -32603)


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_those_that_were_sent(sent: list[bytes], data: st.DataObject) -> None:
    """However a stream is cut; what follows the last end of a line is no line."""
    stream = b"".join(line + b"\n" for line in sent) + data.draw(st.sampled_from([b"", b"rest"]))
    chunks: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:size])
        stream = stream[size:]
    assert list(lines(lambda size: chunks.pop(0) if chunks else b"")) == sent


def test_lines_drop_what_is_too_long() -> None:
    """Once for each, however long it is."""
    chunks = [
        b"a\n",
        b"x" * (MAX_LINE_BYTES + 1),
        b"x" * MAX_LINE_BYTES,
        b"x\nb\n",
        b"y" * (MAX_LINE_BYTES + 1) + b"\nc\n",
    ]
    found = list(lines(lambda size: chunks.pop(0) if chunks else b""))
    assert [TooLong if isinstance(one, TooLong) else one for one in found] == [b"a", TooLong, b"b", TooLong, b"c"]


def test_mcp_command_imports_nothing_heavy(tmp_path: Path) -> None:
    """Neither the MCP SDK nor pydantic, asyncio or an HTTP library, until a server has to start."""
    said = subprocess.run(
        [sys.executable, "-c", REPORTS, str(tmp_path / "none")],
        input=json.dumps(modern("server/discover")) + "\n" + json.dumps(modern("tools/list", 2)) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert len(said.stdout.splitlines()) == 2
    assert {"mcp", "pydantic", "asyncio", "http", "httpx", "typer", "logging", "dataclasses"}.isdisjoint(
        said.stderr.split()
    )
