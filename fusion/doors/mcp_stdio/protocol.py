"""The Model Context Protocol of a server of tools: what each message of a client gets.

Both generations are served, by each request: one with the envelope of 2026-07-28 in its `_meta` is complete in itself,
the others belong to a handshake by `initialize`. A client may change its mind, as Claude Code does when its
`server/discover` is answered late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fusion.doors.mcp_stdio.listing import Listing

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""the versions that a handshake can agree on; the last is offered for one that is not known"""
MODERN = "2026-07-28"
"""the version without a handshake"""
BATCHES = frozenset(HANDSHAKES[:2])
"""the versions in which a message may be a list of messages"""
MAX_BATCH = 100

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

RequestId = str | int
Reply = dict[str, Any]


class RpcError(Exception):
    """An error reply of JSON-RPC."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message, **({} if data is None else {"data": data})}


class ToolCall(NamedTuple):
    """A call of a tool, which the home's server answers; ``version`` is the protocol's."""

    id: RequestId
    name: str
    arguments: Mapping[str, Any]
    version: str


class Cancelled(NamedTuple):
    """The client no longer wants the reply to a request."""

    id: RequestId


def error_reply(number: RequestId | None, error: RpcError) -> Reply:
    return {"jsonrpc": "2.0", "id": number, "error": error.error}


def result_reply(number: RequestId, result: Mapping[str, Any]) -> Reply:
    return {"jsonrpc": "2.0", "id": number, "result": result}


class Protocol:
    """The server's side of one connection. It keeps the version that the last handshake agreed on."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.version = HANDSHAKES[-1]

    def answer(self, message: object) -> Reply | ToolCall | Cancelled | None:
        """The reply to one message; a call of a tool, for the home's server; None for what gets no reply."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return error_reply(_id_in(message), RpcError(INVALID_REQUEST, "Invalid request: no JSON-RPC 2.0"))
        method = message.get("method")
        if "method" not in message and ("result" in message or "error" in message):
            return None  # a reply, and this server asks nothing
        if not isinstance(method, str):
            return error_reply(_id_in(message), RpcError(INVALID_REQUEST, "Invalid request: it has no method"))
        if "id" not in message:
            return _notified(method, message.get("params"))
        number = _id_in(message)
        if number is None:
            return error_reply(None, RpcError(INVALID_REQUEST, "Invalid request: its id is no text or whole number"))
        try:
            answer = self._request(number, method, message.get("params"))
        except RpcError as error:
            return error_reply(number, error)
        return answer if isinstance(answer, ToolCall) else result_reply(number, answer)

    def completed(self, call: ToolCall, result: Mapping[str, Any]) -> Reply:
        """The reply to a call with the result of its tool."""
        return result_reply(call.id, self._stamped(result) if call.version == MODERN else result)

    def _request(self, number: RequestId, method: str, params: object) -> dict[str, Any] | ToolCall:
        if params is not None and not isinstance(params, dict):
            raise _wrong_params()
        given: dict[str, Any] = params or {}
        if method == "initialize":
            return self._initialize(given)
        modern = _has_envelope(given)
        if modern:
            _check_envelope(given["_meta"])
            if method == "server/discover":
                return self._stamped(self._discovery())
        if method == "tools/list":
            if not isinstance(given.get("cursor", ""), str | None):
                raise _wrong_params()
            tools = {"tools": self.listing.tools}
            return self._stamped({"ttlMs": 0, "cacheScope": "private", **tools}) if modern else tools
        if method == "tools/call":
            return _tool_call(number, given, MODERN if modern else self.version)
        if method == "ping" and not modern:
            return {}
        raise RpcError(METHOD_NOT_FOUND, "Method not found", method)

    def _initialize(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a handshake, also to another one on the same connection."""
        about, version = given.get("clientInfo"), given.get("protocolVersion")
        named = isinstance(about, dict) and all(isinstance(about.get(name), str) for name in ("name", "version"))
        if not named or not isinstance(version, str) or not isinstance(given.get("capabilities"), dict):
            raise _wrong_params()
        self.version = version if version in HANDSHAKES else HANDSHAKES[-1]
        return {"protocolVersion": self.version, "serverInfo": self.listing.server, **self._abilities()}

    def _discovery(self) -> dict[str, Any]:
        return {"supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private", **self._abilities()}

    def _abilities(self) -> dict[str, Any]:
        return {"capabilities": {"tools": {"listChanged": False}}, "instructions": self.listing.instructions}

    def _stamped(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result of the version without a handshake: it names its type and the server."""
        meta = {**(result.get("_meta") or {}), SERVER_KEY: self.listing.server}
        return {"resultType": "complete", **result, "_meta": meta}


def _id_in(message: object) -> RequestId | None:
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def _notified(method: str, params: object) -> Cancelled | None:
    if method != "notifications/cancelled":
        return None
    number = params.get("requestId") if isinstance(params, dict) else None
    return Cancelled(number) if isinstance(number, str | int) and not isinstance(number, bool) else None


def _wrong_params() -> RpcError:
    return RpcError(INVALID_PARAMS, "Invalid request parameters", "")


def _has_envelope(given: Mapping[str, Any]) -> bool:
    meta = given.get("_meta")
    return isinstance(meta, dict) and VERSION_KEY in meta


def _check_envelope(meta: Mapping[str, Any]) -> None:
    version = meta[VERSION_KEY]
    if CAPABILITIES_KEY not in meta:
        raise RpcError(INVALID_PARAMS, f"params._meta is missing {CAPABILITIES_KEY}")
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta: {VERSION_KEY} must be a string")
    if version != MODERN:
        raise RpcError(
            UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": [MODERN], "requested": version}
        )


def _tool_call(number: RequestId, given: Mapping[str, Any], version: str) -> ToolCall:
    name, arguments = given.get("name"), given.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict | None):
        raise _wrong_params()
    return ToolCall(number, name, arguments or {}, version)
