"""What the adapter of every agent framework has to do; the test class of an adapter inherits it.

    class TestLangChain(AgentContract):
        def host(self, memory: AgentMemory) -> Host:
            return LangChainHost(memory)

A host runs an agent of the framework, with its own scripted model, against a real server.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from socket import socket
from typing import Any, ClassVar

import pytest

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory

FACT = "Staging moved to port 4410 on Friday"
ASKED = "which port is staging on since Friday?"
REPLY = "I will look at staging and tell you."
OPENING = '<memories nonce="'
PATIENT_S = 60.0
"""so no test depends on how fast the machine is"""
LIMIT_S = 0.3
"""seconds that a dead server may cost an agent"""


class Host(ABC):
    """An agent of one framework, for the user and session of a memory.

    ``shown`` has what each call of its model was shown.
    """

    def __init__(self, memory: AgentMemory) -> None:
        self.memory = memory
        self.shown: list[str] = []

    @abstractmethod
    async def asay(self, prompt: str) -> str:
        """The agent's answer to a prompt, in the conversation so far."""

    def say(self, prompt: str) -> str:
        """As `asay`, by the framework's blocking way."""
        raise NotImplementedError


Say = Callable[[Host, str], str]


class AgentContract(ABC):
    """The tests that every framework with an agent passes."""

    ways: ClassVar[tuple[str, ...]] = ("sync", "async")
    """how the framework runs an agent"""
    opening: ClassVar[str] = OPENING
    """how the recalled memories begin in what the model is shown"""

    @abstractmethod
    def host(self, memory: AgentMemory) -> Host:
        """An agent with this memory."""

    @pytest.fixture(params=["sync", "async"])
    def say(self, request: pytest.FixtureRequest) -> Iterator[Say]:
        """Has a host say something one way or the other, and waits until the turn is kept."""
        if request.param not in self.ways:
            pytest.skip(f"the framework runs its agents {' and '.join(self.ways)} only")
        with asyncio.Runner() as loop:

            def say(host: Host, prompt: str) -> str:
                answer = loop.run(host.asay(prompt)) if request.param == "async" else host.say(prompt)
                assert host.memory.flush()
                return answer

            yield say

    @pytest.fixture
    def memory(self, client: Client, user: str) -> Iterator[AgentMemory]:
        opened = AgentMemory(client, user_id=user, session_id="s1", recall_s=PATIENT_S)
        yield opened
        assert opened.flush()

    @pytest.mark.feature("in each framework of agents the model sees the recalled block once, and no history has it")
    def test_the_model_sees_the_block_once(self, memory: AgentMemory, say: Say) -> None:
        tell(memory.client, memory.user_id, FACT)
        host = self.host(memory)
        assert say(host, ASKED) == REPLY
        assert host.shown
        for shown in host.shown:
            assert shown.count(self.opening) == 1, shown
            assert FACT in shown
            assert shown.count(ASKED) == 1

    @pytest.mark.feature("in each framework of agents a turn is kept once")
    def test_a_turn_is_kept_once(self, memory: AgentMemory, say: Say) -> None:
        host = self.host(memory)
        prompts = [ASKED, "and which port has production today?"]
        for prompt in prompts:
            say(host, prompt)
        assert turns_of(memory) == [(who, text) for prompt in prompts for who, text in spoken(prompt)]

    def test_the_block_is_never_kept(self, memory: AgentMemory, say: Say) -> None:
        tell(memory.client, memory.user_id, FACT)
        host = self.host(memory)
        for prompt in (ASKED, "is it still 4410 for staging, since Friday?"):
            say(host, prompt)
        assert host.shown[-1].count(self.opening) == 1, "the block of the first turn is not in the second one's history"
        kept = [text for _, text in turns_of(memory)]
        assert len(kept) == 4
        assert not any("memories nonce" in text or FACT in text for text in kept)

    @pytest.mark.feature("in each framework of agents the memories of two users are apart")
    def test_two_users_are_apart(self, memory: AgentMemory, say: Say) -> None:
        other = f"{memory.user_id}-other"
        tell(memory.client, other, FACT)
        host = self.host(memory)
        say(host, ASKED)
        assert self.opening not in host.shown[-1]
        assert turns_of(memory) == spoken(ASKED)
        assert turns_of(memory.bound(user_id=other)) == []

    @pytest.mark.feature("in each framework of agents a dead server costs 300 ms at most")
    def test_a_dead_server_costs_little(self, user: str, say: Say) -> None:
        """The fastest of three runs counts: the machine may be busy."""
        memory = AgentMemory(Client(f"http://127.0.0.1:{closed_port()}"), user_id=user, session_id="s1")
        host, took = self.host(memory), []
        for number in range(4):
            began = time.monotonic()
            assert say(host, f"{ASKED} {number}") == REPLY
            took.append(time.monotonic() - began)
            assert self.opening not in host.shown[-1]
        assert min(took[1:]) < LIMIT_S


def closed_port() -> int:
    """A port of this machine on which nothing listens."""
    with closing(socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def tell(client: Client, user: str | None, text: str) -> None:
    """Remember something, so that it is found from now on."""
    client.remember({"text": text, "user_id": user})
    client.settle()


def spoken(prompt: str) -> list[tuple[str, str]]:
    """The turns of one exchange."""
    return [("user", prompt), ("assistant", REPLY)]


def turns_of(memory: AgentMemory) -> list[tuple[Any, str]]:
    """Who said what among the turns of a user, oldest first."""
    found = memory.client.memories(user_id=memory.user_id, limit=100)["memories"]
    return [(one["speaker"], one["text"]) for one in reversed(found) if one["kind"] == "turn"]
