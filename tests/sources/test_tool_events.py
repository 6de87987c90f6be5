"""Calls and results of tools in transcripts become observations, and never turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from fusion.contract import Scope
from fusion.ingest.intake import NewMemory
from fusion.lib.observation import NewObservation
from fusion.sources.readers import read

NADIA = Scope(user_id="nadia", audience="private")
SESSION = "0b7c7f8e-1111-4222-8333-444455556666"


def read_with_tools(file: Path) -> tuple[list[str], list[NewObservation]]:
    seen: list[NewObservation] = []
    turns = [one.text for one in read([file], NADIA, observe=seen.append) if isinstance(one, NewMemory)]
    return turns, seen


def written(file: Path, *entries: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(orjson.dumps(entry) + b"\n" for entry in entries))
    return file


def text(said: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": said}]


def claude(kind: str, content: object, **more: object) -> dict[str, Any]:
    entry = {"type": kind, "sessionId": SESSION, "cwd": "/srv/hjul", "timestamp": "2026-05-01T10:00:00Z"}
    return {**entry, "message": {"role": kind, "content": content}, "uuid": f"u{more}", **more}


@pytest.mark.row("A123", "calls and results of tools in a transcript of Claude Code are observations, and no turns")
def test_tools_of_claude_code_are_observed(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
    own = {"type": "tool_use", "id": "t2", "name": "mcp__memory-fusion__memory_fuse", "input": {"query": "tests"}}
    file = written(
        tmp_path / f"{SESSION}.jsonl",
        claude("user", "run the tests"),
        claude("assistant", [{"type": "text", "text": "I run them."}, use, own]),
        claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": text("3 passed")}]),
        claude("user", [{"type": "tool_result", "tool_use_id": "t2", "content": "recalled: the tests are slow"}]),
        claude("user", [{"type": "tool_result", "tool_use_id": "t3", "content": "gone", "is_error": True}]),
        claude("assistant", [{**use, "id": "t9"}], isSidechain=True),
    )
    turns, seen = read_with_tools(file)
    assert turns == ["run the tests", "I run them."]
    assert [(one.type, one.event_id, one.tool, one.payload) for one in seen] == [
        ("tool.call", "call:t1", "Bash", {"command": "pytest -q"}),
        ("tool.result", "result:t1", "Bash", "3 passed"),
        ("tool.result", "result:t3", None, {"error": "gone"}),
    ]
    assert {(one.scope.user_id, one.scope.session_id, one.scope.project) for one in seen} == {
        ("nadia", SESSION, "hjul")
    }


@pytest.mark.row("A123", "calls and results of tools in a session of OpenClaw are observations, and no turns")
def test_tools_of_openclaw_are_observed(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {"command": "ls"}}
    result = {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "exec",
        "content": [{"type": "text", "text": "a b"}],
    }
    at = "2026-05-01T10:00:00Z"
    file = written(
        tmp_path / "agents" / "main" / "sessions" / "s1.jsonl",
        {"type": "session", "id": "s1", "timestamp": at},
        {"type": "message", "id": "1", "timestamp": at, "message": {"role": "user", "content": "list it"}},
        {"type": "message", "id": "2", "timestamp": at, "message": {"role": "assistant", "content": [call]}},
        {"type": "message", "id": "3", "timestamp": at, "message": result},
    )
    turns, seen = read_with_tools(file)
    assert turns == ["list it"]
    assert [(one.type, one.tool, one.payload, one.scope.agent_id) for one in seen] == [
        ("tool.call", "exec", {"command": "ls"}, "main"),
        ("tool.result", "exec", "a b", "main"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use"},
        {"type": "tool_use", "id": 7, "name": "Bash"},
        {"type": "tool_use", "id": "a\nb", "name": "Bash"},
        {"type": "tool_result", "content": "x"},
        {"type": "tool_result", "tool_use_id": ["t1"], "content": 7},
        "tool_use",
        None,
    ],
)
def test_a_block_of_another_form_is_left_out(tmp_path: Path, block: object) -> None:
    turns, seen = read_with_tools(
        written(tmp_path / f"{SESSION}.jsonl", claude("user", "hello there"), claude("user", [block]))
    )
    assert turns == ["hello there"]
    assert seen == []


def test_a_huge_result_is_handed_on_in_part(tmp_path: Path) -> None:
    huge = {"type": "tool_result", "tool_use_id": "t1", "content": "x" * 3_000_000}
    _, (one,) = read_with_tools(
        written(tmp_path / f"{SESSION}.jsonl", claude("user", "hello there"), claude("user", [huge]))
    )
    assert len(one.payload) == 20_000
