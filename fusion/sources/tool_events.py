"""Calls and results of tools in the transcripts of agents' sessions, as observations.

They are evidence, never memories: `fusion.sources.turns` leaves them out of the turns. What the tools of a memory
returned is left out here, too, so that nothing recalled is captured again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from fusion.contract import Scope
from fusion.lib.observation import EpisodeType, NewObservation

MAX_CHARS = 20_000
"""characters of a call or a result that are handed on; the ledger keeps less of them"""
MAX_CALLS = 1_000
"""open calls whose tools are remembered until their results come"""

_MEMORY_TOOL = re.compile(
    r"(?:^|__)(?:memory_(?:fuse|search|get|store|update|append|forget)|mem_[a-z_]+|hybrid_search)$", re.IGNORECASE
)


def is_memory_tool(tool: str | None) -> bool:
    """Whether a tool is one of a memory, by its name."""
    return tool is not None and _MEMORY_TOOL.search(tool) is not None


class ToolEvents:
    """Makes observations of a session's entries, which are given one by one in their order."""

    def __init__(self, scope: Scope, source: str) -> None:
        self._scope, self._source = scope, source
        self._tools: dict[str, str] = {}
        """the tool of each call, by the call's id, until there are too many"""

    def take(self, entry: Mapping[str, Any], at: datetime | None) -> Iterator[NewObservation]:
        """The calls and results in one entry of Claude Code or OpenClaw, which happened at ``at``."""
        message = entry.get("message")
        if not isinstance(message, dict):
            return
        if message.get("role") == "toolResult":
            yield from self._result(message.get("toolCallId"), message.get("toolName"), message, at)
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            match block.get("type"):
                case "tool_use":
                    yield from self.called(block.get("id"), block.get("name"), block.get("input"), at)
                case "toolCall":
                    yield from self.called(block.get("id"), block.get("name"), block.get("arguments"), at)
                case "tool_result":
                    yield from self._result(block.get("tool_use_id"), None, block, at)

    def called(self, call: object, tool: object, arguments: object, at: datetime | None) -> Iterator[NewObservation]:
        """The call of a tool; nothing without an id and a name."""
        if not _is_id(call) or not _is_id(tool):
            return
        if len(self._tools) >= MAX_CALLS:
            del self._tools[next(iter(self._tools))]
        self._tools[str(call)] = str(tool)
        if not is_memory_tool(str(tool)):
            yield self._made("tool.call", str(call), str(tool), arguments, at)

    def returned(self, call: object, tool: object, result: object, at: datetime | None) -> Iterator[NewObservation]:
        """The result of a tool; nothing without the id of its call."""
        if _is_id(call):
            name = str(tool) if _is_id(tool) else self._tools.get(str(call))
            if not is_memory_tool(name):
                yield self._made("tool.result", str(call), name, result, at)

    def _result(
        self, call: object, tool: object, said: Mapping[str, Any], at: datetime | None
    ) -> Iterator[NewObservation]:
        failed = said.get("is_error") is True or said.get("isError") is True
        text = _text(said.get("content"))
        yield from self.returned(call, tool, {"error": text} if failed else text, at)

    def _made(
        self, kind: EpisodeType, call: str, tool: str | None, payload: object, at: datetime | None
    ) -> NewObservation:
        name = kind.removeprefix("tool.")
        return NewObservation(
            kind,
            self._scope,
            payload=_bounded(payload),
            refs={"tool_call_id": call},
            ts=at,
            event_id=f"{name}:{call}",
            tool=tool,
            source=self._source,
        )


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


def _text(content: object) -> str:
    """The text of a result, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content[:MAX_CHARS]
    texts = (block.get("text") for block in content if isinstance(block, dict)) if isinstance(content, list) else ()
    return "\n".join(text[:MAX_CHARS] for text in texts if isinstance(text, str))[:MAX_CHARS]


def _bounded(payload: object) -> object:
    """A payload as it is, or its beginning as a text if it is long."""
    if isinstance(payload, str):
        return payload[:MAX_CHARS]
    written = orjson.dumps(payload, default=str)
    return payload if len(written) <= MAX_CHARS else written.decode()[:MAX_CHARS]
