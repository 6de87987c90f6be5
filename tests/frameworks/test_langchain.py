"""The middleware and the retriever in LangChain's own agent, with its own scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from fusion.client import Client
from fusion.integrations.agent_memory import AgentMemory
from fusion.integrations.langchain import FusionMiddleware, FusionRetriever
from tests.frameworks.contract import ASKED, FACT, OPENING, PATIENT_S, REPLY, AgentContract, Host, tell, turns_of

pytestmark = pytest.mark.frameworks


class Scripted(GenericFakeChatModel):
    """LangChain's fake model, which also notes what it is shown."""

    shown: list[str]

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        self.shown.append("\n".join(str(one.text) for one in messages))
        return super()._generate(messages, *args, **options)

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def replies(*first: AIMessage) -> Iterator[AIMessage]:
    yield from first
    while True:
        yield AIMessage(REPLY)


@tool
def clock() -> str:
    """The time of day."""
    return "noon"


class LangChainHost(Host):
    def __init__(self, memory: AgentMemory, *first: AIMessage, **options: Any) -> None:
        super().__init__(memory)
        model = Scripted(messages=replies(*first), shown=[])
        self.shown = model.shown  # pydantic copies a list
        middleware = [FusionMiddleware(memory)]
        self.agent = create_agent(
            model, [clock], system_prompt="Help.", middleware=middleware, checkpointer=InMemorySaver(), **options
        )
        self.configuration: Any = {"configurable": {"thread_id": "thread-1"}}

    def say(self, prompt: str) -> str:
        said = {"messages": [{"role": "user", "content": prompt}]}
        return str(self.agent.invoke(said, self.configuration)["messages"][-1].text)

    async def asay(self, prompt: str) -> str:
        said = {"messages": [{"role": "user", "content": prompt}]}
        return str((await self.agent.ainvoke(said, self.configuration))["messages"][-1].text)


class TestLangChain(AgentContract):
    def host(self, memory: AgentMemory) -> Host:
        return LangChainHost(memory)

    def test_each_model_call_of_a_run_has_the_same_block(self, memory: AgentMemory) -> None:
        tell(memory.client, memory.user_id, FACT)
        call = AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": "c1"}])
        host = LangChainHost(memory, call)
        host.say(ASKED)
        first, second = host.shown
        assert first.count(OPENING) == second.count(OPENING) == 1
        assert second.startswith(first)
        assert memory.flush()
        assert [text for _, text in turns_of(memory)] == [ASKED, REPLY]

    def test_the_run_names_the_user_and_the_thread(self, client: Client, user: str) -> None:
        memory = AgentMemory(client, recall_s=PATIENT_S)
        host = LangChainHost(memory)
        host.configuration = {"configurable": {"thread_id": "thread-7", "user_id": user}}
        host.say(ASKED)
        assert memory.flush()
        kept = client.memories(user_id=user)["memories"]
        assert {one["scope"]["session_id"] for one in kept} == {"thread-7"}
        assert {one["source"] for one in kept} == {"langchain:thread-7"}


async def test_the_retriever_returns_documents(client: Client, user: str) -> None:
    tell(client, user, FACT)
    tell(client, f"{user}-other", "Staging has another port for others")
    retriever = FusionRetriever(memory=AgentMemory(client, user_id=user, recall_s=PATIENT_S), k=3)
    for found in (retriever.invoke(ASKED), await retriever.ainvoke(ASKED)):
        assert [one.page_content for one in found] == [FACT]
        assert found[0].id == found[0].metadata["ref"]
    dead = AgentMemory(Client("http://127.0.0.1:9"), user_id=user)
    assert FusionRetriever(memory=dead).invoke(ASKED) == []
