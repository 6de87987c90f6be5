"""What `fusion mcp` answers without the MCP SDK, compared with what the SDK's own server answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

import anyio
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from fusion.doors.mcp import ToolSet
from fusion.doors.mcp.server import server_of
from fusion.doors.mcp.tools import Caller
from fusion.doors.mcp_stdio.listing import file_of, listing_of
from fusion.doors.mcp_stdio.protocol import HANDSHAKES, MODERN, Cancelled, Protocol, ToolCall
from fusion.errors import ServerUnreachable
from tests.doors.mcp_listing import listed, text_of

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def modern(method: str, number: Any = 1, **params: Any) -> dict[str, Any]:
    """A request with the envelope of the version without a handshake."""
    return request(method, number, **params, _meta=ENVELOPE)


def hello(version: str) -> dict[str, Any]:
    about = {"name": "test", "version": "1"}
    return request("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=about)


def ours(messages: Sequence[Any], tools: ToolSet = "fusion") -> list[Any]:
    """Our answers that are replies."""
    protocol = Protocol(listing_of(tools))
    return [reply for one in messages if isinstance(reply := protocol.answer(one), dict)]


async def sdks(messages: Sequence[Any], tools: ToolSet = "fusion") -> list[Any]:
    """The replies of the SDK's server."""

    async def caller_of(context: Any) -> Caller:
        raise ServerUnreachable("There is no server.")

    server = server_of(tools, caller_of)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](100)
    replies: list[Any] = []
    async with anyio.create_task_group() as group, to_server, from_server:
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        for one in messages:
            message = mcp_types.jsonrpc_message_adapter.validate_python(one, by_name=False)
            await to_server.send(SessionMessage(message))
            if "id" in one:
                reply = (await from_server.receive()).message
                replies.append(json.loads(reply.model_dump_json(by_alias=True, exclude_unset=True)))
        to_server.close()
    return replies


CONVERSATIONS: dict[str, list[Any]] = {
    "no handshake": [
        modern("server/discover"),
        modern("tools/list", 2),
        modern("ping", 3),
        modern("nope", 4),
        modern("resources/list", 5),
        modern("tools/list", "six", cursor="x"),
    ],
    "a later version": [request("server/discover", _meta={**ENVELOPE, next(iter(ENVELOPE)): "2027-01-01"})],
    "discovery without an envelope": [request("server/discover")],
    **{
        version: [hello(version), READY, request("tools/list", 2), request("ping", 3), request("nope", 4)]
        for version in (*HANDSHAKES, "2099-01-01", "1.0")
    },
    "wrong parameters": [
        request("initialize", 1),
        request("initialize", 2, protocolVersion=3, capabilities={}, clientInfo={"name": "x", "version": "1"}),
        hello("2025-06-18"),
        READY,
        request("tools/call", 3),
        request("tools/call", 4, name=3),
        request("tools/call", 5, name="memory_fuse", arguments="x"),
        request("tools/list", 6, cursor=7),
    ],
    "two handshakes": [hello("2025-06-18"), READY, hello("2025-03-26"), request("ping", 5)],
}


@pytest.mark.feature("`fusion mcp` answers the handshake and the list of tools itself, as the MCP SDK does")
@pytest.mark.parametrize("tools", get_args(ToolSet))
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_mcp_replies_are_the_sdks(messages: list[Any], tools: ToolSet) -> None:
    assert ours(messages, tools) == await sdks(messages, tools)


@pytest.mark.parametrize("tools", get_args(ToolSet))
async def test_listing_is_made_of_the_tools(tools: ToolSet) -> None:
    """To make it again: python -m tests.doors.mcp_listing --write."""
    assert file_of(tools).read_text(encoding="utf-8") == text_of(await listed(tools))


def test_mcp_versions_are_the_sdks() -> None:
    assert (HANDSHAKES, (MODERN,)) == (HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS)


def test_mcp_serves_both_generations_on_one_connection() -> None:
    """Claude Code sends a handshake when its discovery is answered late: both are answered."""
    found, agreed, listed_tools = ours([modern("server/discover"), hello("2025-06-18"), request("tools/list", 2)])
    assert found["result"]["supportedVersions"] == [MODERN]
    assert agreed["result"]["protocolVersion"] == "2025-06-18"
    assert listed_tools["result"]["tools"]


def test_mcp_passes_calls_on_and_takes_cancellations() -> None:
    protocol = Protocol(listing_of("fusion"))
    protocol.answer(hello("2025-03-26"))
    call = request("tools/call", 7, name="memory_fuse", arguments={"query": "x"})
    assert protocol.answer(call) == ToolCall(7, "memory_fuse", {"query": "x"}, "2025-03-26")
    assert protocol.answer(modern("tools/call", 8, name="memory_fuse")) == ToolCall(8, "memory_fuse", {}, MODERN)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert protocol.answer(cancelled) == Cancelled(7)
    assert protocol.answer({"jsonrpc": "2.0", "method": "notifications/cancelled"}) is None
    assert protocol.answer({"jsonrpc": "2.0", "id": 1, "result": {}}) is None
    assert protocol.answer(READY) is None


@pytest.mark.parametrize(
    ("message", "number", "code"),
    [
        (3, None, -32600),
        ({"jsonrpc": "2.0"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 9}, 9, -32600),
        ({"jsonrpc": "1.0", "id": 9, "method": "ping"}, 9, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, 1, -32602),
        (request("tools/list", 1, _meta={"io.modelcontextprotocol/protocolVersion": MODERN}), 1, -32602),
        (request("tools/list", 1, _meta={**ENVELOPE, next(iter(ENVELOPE)): 3}), 1, -32602),
    ],
)
def test_mcp_refuses_what_is_no_request(message: Any, number: Any, code: int) -> None:
    [reply] = ours([message])
    assert (reply["id"], reply["error"]["code"]) == (number, code)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from(["initialize", "server/discover", "tools/list", "tools/call", "ping", "x"]) | JSON
PARAMS = JSON | st.fixed_dictionaries({}, optional={"_meta": JSON, "name": JSON, "arguments": JSON, "cursor": JSON})


@given(st.fixed_dictionaries({}, optional={"jsonrpc": st.just("2.0"), "id": JSON, "method": METHODS, "params": PARAMS}))
def test_mcp_answers_each_request_once(message: dict[str, Any]) -> None:
    """Whatever it is: a request gets one reply with its id or is passed on, and nothing raises."""
    answer = Protocol(listing_of("fusion")).answer(message)
    number = message.get("id")
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        assert isinstance(answer, dict)
        assert answer["error"]["code"] == -32600
    elif "id" not in message:
        assert answer is None
    elif isinstance(answer, ToolCall):
        assert answer.id == number
    else:
        assert isinstance(answer, dict)
        assert answer["id"] in (number, None)
        assert ("result" in answer) is not ("error" in answer)


def test_result_without_server_says_why() -> None:
    """Also within a text that is JSON; a tool without such a result fails."""
    why = 'The server "x" \\ did not start'
    ours_, cortex = listing_of("fusion"), listing_of("cortex")
    assert ours_.without_server("memory_fuse", why)["content"][0]["text"].endswith(why)
    assert json.loads(cortex.without_server("recall", why)["content"][0]["text"])["notice"].endswith(why)
    failed = {"content": [{"type": "text", "text": why}], "isError": True}
    assert ours_.without_server("memory_store", why) == ours_.without_server("nope", why) == failed
