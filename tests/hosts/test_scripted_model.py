"""The scripted model server, asked by the clients of OpenAI and Anthropic, and by requests in Gemini's shape."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from anthropic import Anthropic
from openai import OpenAI

from tests.hosts.scripted_model import Part, ScriptedModel, ToolCall, in_order

ASK = {"name": "mcp__memory__memory_fuse", "description": "", "input_schema": {"type": "object"}}
CHAT_ASK = {"type": "function", "function": {"name": "memory_fuse", "parameters": {"type": "object"}}}
CALLED = ToolCall("memory_fuse", {"query": "which port?"})


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(in_order(CALLED, "Port 4410.")) as served:
        yield served


def test_scripted_model_speaks_anthropic(model: ScriptedModel) -> None:
    """A request without tools uses up no reply; a tool is called by the name that the host offers."""
    with Anthropic(base_url=model.url, api_key="any") as client:
        asked = {
            "model": "m",
            "max_tokens": 9,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "Which port?"}],
        }
        title = client.messages.create(**asked)
        assert title.content[0].text == "ok"
        with client.messages.stream(**asked, tools=[ASK]) as stream:
            call = stream.get_final_message()
        assert (call.stop_reason, call.content[0].name, call.content[0].input) == (
            "tool_use",
            ASK["name"],
            CALLED.arguments,
        )
        result = {
            "type": "tool_result",
            "tool_use_id": call.content[0].id,
            "content": [{"type": "text", "text": "4410"}],
        }
        asked["messages"] += [{"role": "assistant", "content": call.content}, {"role": "user", "content": [result]}]
        with client.messages.stream(**asked, tools=[ASK]) as stream:
            assert stream.get_final_text() == "Port 4410."
        assert client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x"}]).input_tokens > 0
    assert len(model.main) == 2
    assert model.shown[-1].parts == (
        Part("system", "Be brief."),
        Part("user", "Which port?"),
        Part("assistant", json.dumps({"query": "which port?"})),
        Part("tool", "4410"),
    )


def test_scripted_model_speaks_chat_completions(model: ScriptedModel) -> None:
    with OpenAI(base_url=f"{model.url}/v1", api_key="any") as client:
        messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Which port?"}]
        call = (
            client.chat.completions.create(model="m", messages=messages, tools=[CHAT_ASK])
            .choices[0]
            .message.tool_calls[0]
        )
        assert json.loads(call.function.arguments) == CALLED.arguments
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "4410"})
        streamed = client.chat.completions.create(model="m", messages=messages, tools=[CHAT_ASK], stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed if chunk.choices) == "Port 4410."
        assert [one.id for one in client.models.list()] == ["scripted"]
    assert model.shown[-1].parts == (Part("system", "Be brief."), Part("user", "Which port?"), Part("tool", "4410"))


def test_scripted_model_speaks_responses(model: ScriptedModel) -> None:
    """Also with tools in a namespace, which Codex sends."""
    space = {
        "type": "namespace",
        "name": "mcp__memory__",
        "description": "",
        "tools": [CHAT_ASK["function"] | {"type": "function"}],
    }
    with OpenAI(base_url=f"{model.url}/v1", api_key="any") as client:
        asked = {"model": "m", "instructions": "Be brief.", "tools": [space]}
        call = client.responses.create(**asked, input="Which port?").output[0]
        assert (call.name, json.loads(call.arguments), call.namespace) == (
            "memory_fuse",
            CALLED.arguments,
            space["name"],
        )
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "4410"}
        streamed = client.responses.create(
            **asked, input=[{"role": "user", "content": "Which port?"}, output], stream=True
        )
        events = list(streamed)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Port 4410."
    assert events[-1].response.output_text == "Port 4410."
    assert model.shown[-1].parts == (Part("system", "Be brief."), Part("user", "Which port?"), Part("tool", "4410"))


def test_scripted_model_speaks_gemini(model: ScriptedModel) -> None:
    asked = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Which port?"}]}],
        "tools": [{"functionDeclarations": [{"name": "mcp_memory_memory_fuse"}]}],
    }
    with httpx.Client(base_url=f"{model.url}/v1beta/models/gemini-x") as client:
        whole = httpx.post(f"{model.url}/v1beta/models/gemini-x:generateContent", json=asked).json()
        call = whole["candidates"][0]["content"]["parts"][0]["functionCall"]
        assert (call["name"], call["args"]) == ("mcp_memory_memory_fuse", CALLED.arguments)
        response = {"functionResponse": {"name": call["name"], "response": {"output": "4410"}}}
        asked["contents"].append({"role": "user", "parts": [response]})
        streamed = client.post(f"{model.url}/v1beta/models/gemini-x:streamGenerateContent?alt=sse", json=asked).text
        vector = client.post(
            f"{model.url}/v1beta/models/e:embedContent", json={"content": {"parts": [{"text": "a b"}]}}
        ).json()
    assert json.loads(streamed.removeprefix("data: "))["candidates"][0]["content"]["parts"] == [{"text": "Port 4410."}]
    assert model.shown[-1].parts == (Part("system", "Be brief."), Part("user", "Which port?"), Part("tool", "4410"))
    assert len(vector["embedding"]["values"]) > 2


def test_scripted_model_embeds_words(model: ScriptedModel) -> None:
    """Texts that share words are nearer to each other than others; a client may ask for base64 or for numbers."""
    with OpenAI(base_url=f"{model.url}/v1", api_key="any") as client:
        texts = ["The mill is closed.", "When is the mill closed?", "Teo likes figs."]
        coded = [one.embedding for one in client.embeddings.create(model="e", input=texts).data]
        plain = [
            one.embedding for one in client.embeddings.create(model="e", input=texts, encoding_format="float").data
        ]
    assert coded == [pytest.approx(vector, abs=1e-6) for vector in plain]
    near, far = (sum(a * b for a, b in zip(plain[0], other, strict=True)) for other in plain[1:])
    assert near > 0.5 > far
    assert model.embedded == [*texts, *texts]


def test_scripted_model_names_routes_that_it_lacks(model: ScriptedModel) -> None:
    assert httpx.get(f"{model.url}/v2/else").status_code == 404
    assert model.unknown == ["GET /v2/else"]
