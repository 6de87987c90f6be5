"""openclaw-cortex's hooks `pre` and `post` as its clients run them: JSON on stdin, JSON on stdout, exit code 0."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fusion.client import Client
from fusion.contract import Asker
from fusion.lib.budget import estimate_tokens
from tests.doors.claude_hooks import hook, real
from tests.doors.fakes import FakeFusion, serving_home

__all__ = ["real"]  # the fixture of a real home

TURN = {
    "session_id": "s1",
    "user_message": "Where do our chains come from, by the way?",
    "assistant_message": "The chains come from Kedjan in Gothenburg.",
    "project": "hjul",
}
NOTHING = {"context": "", "memory_count": 0, "tokens_used": 0}


@pytest.mark.row("A051", "openclaw-cortex's hooks answer in its shapes: `fusion hook pre`, `fusion hook post`")
class TestShapes:
    @pytest.mark.parametrize("field", ["message", "prompt"])
    async def test_pre_has_context_count_and_tokens(self, home: Path, field: str) -> None:
        """{context, memory_count, tokens_used} of all memories, within the caller's budget, in its format."""
        fusion = FakeFusion()
        sent = {field: "where do chains come from?", "session_id": "s1", "project": "hjul", "token_budget": 500}
        async with serving_home(home, fusion):
            printed, notice = await asyncio.to_thread(hook, "pre", sent, "--home", home)
        block = f"<memory>[m1z] {fusion.text}</memory>"
        assert printed == {"context": block, "memory_count": 1, "tokens_used": estimate_tokens(block)}
        assert notice == ""
        [asked] = fusion.requests
        assert (asked.budget_tokens, asked.format, asked.scope.project) == (500, "cortex", "hjul")
        assert (asked.asker, asked.scope.named()) == (Asker(session_id="s1"), {})

    @pytest.mark.parametrize(
        ("given", "tokens"), [(None, 2000), (1, 60), (10**9, 60_000), ("many", 2000), (True, 2000)]
    )
    async def test_pre_has_a_budget_in_bounds(self, home: Path, given: object, tokens: int) -> None:
        """2,000 tokens unless the caller names others; what no block can have is the nearest that one can."""
        fusion = FakeFusion()
        async with serving_home(home, fusion):
            await asyncio.to_thread(
                hook, "pre", {"message": "where do chains come from?", "token_budget": given}, "--home", home
            )
        assert fusion.requests[0].budget_tokens == tokens

    def test_post_keeps_both_sides_once(self, real: Path) -> None:
        """{stored}; sent again, nothing is added, and another session's `pre` recalls it."""
        for _ in range(2):
            assert hook("post", TURN, "--home", real) == ({"stored": True}, "")
        with Client.of_home(real) as memory:
            assert memory.settle(60)["settled"]
            kept = memory.memories()["memories"]
        assert sorted((one["speaker"], one["text"]) for one in kept) == [
            ("assistant", TURN["assistant_message"]),
            ("user", TURN["user_message"]),
        ]
        printed, _ = hook("pre", {"message": "where do chains come from?", "session_id": "s2"}, "--home", real)
        assert printed["context"].startswith("--- Relevant Memories ---")
        assert "Kedjan" in printed["context"]
        assert printed["memory_count"] >= 1

    def test_post_takes_the_reply_alone(self, real: Path) -> None:
        """last_assistant_message is another name of the reply; a side of fewer than 20 characters is left out."""
        sent = {"session_id": "s1", "user_message": "ok", "last_assistant_message": TURN["assistant_message"]}
        assert hook("post", sent, "--home", real)[0] == {"stored": True}
        assert hook("post", {"session_id": "s1", "user_message": "ok"}, "--home", real)[0] == {"stored": False}
        marked = {**sent, "user_message": "[NOMEM] my PIN is 4711, and it is nobody's business"}
        assert hook("post", marked, "--home", real)[0] == {"stored": False}
        with Client.of_home(real) as memory:
            assert [one["speaker"] for one in memory.memories()["memories"]] == ["assistant"]


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", {"message": "where do chains come from?"}])
@pytest.mark.parametrize(("event", "nothing"), [("pre", NOTHING), ("post", {"stored": False})])
def test_a_hook_that_fails_prints_its_shape(
    tmp_path: Path, event: str, nothing: dict[str, Any], payload: object
) -> None:
    """Without a home, and with nonsense on stdin: exit code 0, and what failed in one line on stderr."""
    printed, notice = hook(event, payload, "--home", tmp_path / "gone")
    assert printed == nothing
    assert notice.startswith("fusion hook: ")
    assert notice.count("\n") == 1
