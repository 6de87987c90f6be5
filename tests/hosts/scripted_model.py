"""A model server for the tests of agents' hosts: it answers by a script, and records what the model was shown.

    with ScriptedModel(in_order(ToolCall("memory_fuse", {"query": "…"}), "Port 4410.")) as model:
        run_the_host(base_url=model.url)
    assert block in model.main[-1].of_role("tool")

It speaks Anthropic's messages, OpenAI's chat completions, responses and embeddings, and Gemini's generateContent, each
streamed or whole. A host is pointed at it by the base URL that it takes from its environment or settings:
`ANTHROPIC_BASE_URL=url`, `OPENAI_BASE_URL=url/v1`, `GOOGLE_GEMINI_BASE_URL=url`, with any key.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from threading import Condition, Event, Lock, Thread
from typing import Any, Literal, Self

from aiohttp import web

Shape = Literal["anthropic", "chat", "responses", "gemini"]
"""the API by which a host asks its model"""

Role = Literal["system", "user", "assistant", "tool"]

MAX_BODY_BYTES = 64 << 20
DIMENSIONS = 256
"""numbers in an embedding, unless the request names another count"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's reply that calls a tool: the one whose name, as the host offers it, is or ends with ``name``."""

    name: str
    arguments: Mapping[str, Any]


Reply = str | ToolCall


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a prompt, with the role in which the model reads it."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What the model was shown in one request: ``tools`` are the names that the host offers, ``body`` is all of it."""

    shape: Shape
    model: str
    parts: tuple[Part, ...]
    tools: tuple[str, ...]
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """All texts of the prompt in order, one after the other."""
        return "\n".join(part.text for part in self.parts)

    def of_role(self, role: Role) -> str:
        """The texts of one role."""
        return "\n".join(part.text for part in self.parts if part.role == role)

    def offered(self, name: str) -> str | None:
        """The full name of the offered tool that is called ``name`` or ends with it."""
        return next((tool for tool in self.tools if tool == name or tool.endswith(name)), None)


Answer = Callable[[Shown], Reply]
"""decides what the model replies to a request"""


def in_order(*replies: Reply, main: Callable[[Shown], bool] = lambda shown: bool(shown.tools)) -> Answer:
    """Replies in their order, and the last one again after that.

    Only requests that ``main`` admits use one up. Hosts also ask for titles and summaries, without tools, and get "ok".
    """
    left = list(replies)
    lock = Lock()

    def answer(shown: Shown) -> Reply:
        if not main(shown):
            return "ok"
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return answer


class ScriptedModel:
    """The server, on a free port of loopback, in a thread of its own, for the length of a `with` block."""

    def __init__(self, answer: Answer | Reply = "ok") -> None:
        self.answer: Answer = answer if callable(answer) else in_order(answer)
        self.shown: list[Shown] = []
        """every request to a model, in the order of their arrival"""
        self.embedded: list[str] = []
        """every text that was embedded"""
        self.unknown: list[str] = []
        """method and path of requests that this server does not know"""
        self._ids = count(1)
        self._arrived = Condition()
        self._ready = Event()
        self._port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._serve, name="scripted-model", daemon=True)
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the scripted model server did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def main(self) -> Sequence[Shown]:
        """The requests that offer tools: those of the host's agent itself."""
        return [shown for shown in self.shown if shown.tools]

    def shown_after(self, before: int, wait_s: float) -> Sequence[Shown]:
        """The requests of the host's agent since a number of requests; waits for the first."""
        with self._arrived:
            self._arrived.wait_for(lambda: any(shown.tools for shown in self.shown[before:]), wait_s)
            return [shown for shown in self.shown[before:] if shown.tools]

    def shown_with(self, text: str, wait_s: float) -> Shown:
        """The first request of the host's agent that shows a text; waits for it. Raises StopIteration if none comes."""
        with self._arrived:
            self._arrived.wait_for(lambda: any(text in shown.text for shown in self.main), wait_s)
            return next(shown for shown in self.main if text in shown.text)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self._app(), access_log=None)
        self._loop.run_until_complete(self._start(runner))
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _start(self, runner: web.AppRunner) -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        for prefix in ("", "/v1"):
            app.router.add_post(f"{prefix}/messages", self._anthropic)
            app.router.add_post(f"{prefix}/messages/count_tokens", _anthropic_tokens)
            app.router.add_post(f"{prefix}/chat/completions", self._chat)
            app.router.add_post(f"{prefix}/responses", self._responses)
            app.router.add_post(f"{prefix}/embeddings", self._embeddings)
            app.router.add_get(f"{prefix}/models", _models)
        app.router.add_post(r"/{version:v1\w*}/models/{model}:{method}", self._gemini)
        app.router.add_route("*", "/{path:.*}", self._not_known)
        return app

    async def _not_known(self, request: web.Request) -> web.Response:
        self.unknown.append(f"{request.method} {request.path}")
        return web.json_response({"error": {"message": "no such route"}}, status=404)

    def _asked(self, shown: Shown) -> tuple[Reply, str]:
        """The reply to a request, and a new id. A tool is called by the name that the host offers."""
        with self._arrived:
            self.shown.append(shown)
            self._arrived.notify_all()
        reply = self.answer(shown)
        if isinstance(reply, ToolCall):
            reply = ToolCall(shown.offered(reply.name) or reply.name, reply.arguments)
        return reply, f"{next(self._ids):04}"

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        reply, number = self._asked(anthropic_shown(body))
        if not body.get("stream"):
            return web.json_response(_anthropic_message(body["model"], reply, number))
        return await _stream(
            request, ((event["type"], event) for event in _anthropic_events(body["model"], reply, number))
        )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        reply, number = self._asked(chat_shown(body))
        if not body.get("stream"):
            return web.json_response(_chat_completion(body["model"], reply, number))
        return await _stream(
            request, ((None, chunk) for chunk in _chat_chunks(body["model"], reply, number)), done=True
        )

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        shown = responses_shown(body)
        reply, number = self._asked(shown)
        item = _response_item(reply, number, _namespaces(body))
        if not body.get("stream"):
            return web.json_response(_response(body["model"], number, [item]))
        return await _stream(
            request, ((event["type"], event) for event in _response_events(body["model"], item, number))
        )

    async def _gemini(self, request: web.Request) -> web.StreamResponse:
        body, model, method = await request.json(), request.match_info["model"], request.match_info["method"]
        if method == "countTokens":
            return web.json_response({"totalTokens": len(json.dumps(body)) // 4})
        if method == "embedContent":
            return web.json_response({"embedding": {"values": self._embed(_gemini_text(body["content"]))}})
        if method == "batchEmbedContents":
            vectors = [self._embed(_gemini_text(one["content"])) for one in body["requests"]]
            return web.json_response({"embeddings": [{"values": vector} for vector in vectors]})
        reply, number = self._asked(gemini_shown(model, body))
        message = _gemini_message(model, reply, number)
        if method != "streamGenerateContent":
            return web.json_response(message)
        if request.query.get("alt") != "sse":
            return web.json_response([message])
        return await _stream(request, [(None, message)])

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else [str(text) for text in body["input"]]
        vectors = [self._embed(text, body.get("dimensions") or DIMENSIONS) for text in texts]
        coded = [_base64(vector) if body.get("encoding_format") == "base64" else vector for vector in vectors]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(coded)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    def _embed(self, text: str, dimensions: int = DIMENSIONS) -> list[float]:
        self.embedded.append(text)
        return embedding(text, dimensions)


def embedding(text: str, dimensions: int) -> list[float]:
    """A vector of length 1 in which texts with the same words are near each other: each word adds to one dimension."""
    vector = [1e-6] * dimensions
    for word in text.casefold().split():
        digest = blake2b(word.strip(".,;:!?\"'()").encode(), digest_size=8).digest()
        vector[int.from_bytes(digest) % dimensions] += 1.0
    length = sum(value * value for value in vector) ** 0.5
    return [value / length for value in vector]


def _base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _stream(
    request: web.Request,
    events: Iterator[tuple[str | None, Any]] | Sequence[tuple[str | None, Any]],
    *,
    done: bool = False,
) -> web.StreamResponse:
    """Server-sent events, each with its name if it has one."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await response.prepare(request)
    for name, data in events:
        head = f"event: {name}\n" if name else ""
        await response.write(f"{head}data: {json.dumps(data)}\n\n".encode())
    if done:
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def _models(request: web.Request) -> web.Response:
    model = {
        "id": "scripted",
        "object": "model",
        "type": "model",
        "display_name": "Scripted",
        "created": 0,
        "owned_by": "tests",
    }
    return web.json_response({"object": "list", "data": [model], "has_more": False})


# Anthropic -----------------------------------------------------------------------------------------------------------


async def _anthropic_tokens(request: web.Request) -> web.Response:
    return web.json_response({"input_tokens": len(await request.text()) // 4})


def anthropic_shown(body: Mapping[str, Any]) -> Shown:
    """What a request to `/v1/messages` shows."""
    parts = [Part("system", text) for text in _texts(body.get("system"))]
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                parts += [Part("tool", text) for text in _texts(block.get("content"))]
            elif block["type"] == "tool_use":
                parts.append(Part("assistant", json.dumps(block["input"])))
            else:
                parts += [Part(message["role"], text) for text in _texts([block])]
    tools = tuple(tool["name"] for tool in body.get("tools") or ())
    return Shown("anthropic", body["model"], tuple(parts), tools, body)


def _texts(content: object) -> list[str]:
    """The texts of a content: of a string, or of a list of blocks with a member `text`."""
    if isinstance(content, str):
        return [content] if content else []
    blocks = content if isinstance(content, list) else []
    return [
        block if isinstance(block, str) else block["text"]
        for block in blocks
        if isinstance(block, str) or "text" in block
    ]


_USAGE = {"input_tokens": 1, "output_tokens": 1}


def _anthropic_block(reply: Reply, number: str) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"type": "text", "text": reply}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": reply.name, "input": dict(reply.arguments)}


def _anthropic_message(model: str, reply: Reply, number: str) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_anthropic_block(reply, number)],
        "stop_reason": "end_turn" if isinstance(reply, str) else "tool_use",
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _anthropic_events(model: str, reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    whole = _anthropic_message(model, reply, number)
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    if isinstance(reply, str):
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}
    else:
        empty = {**_anthropic_block(reply, number), "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(dict(reply.arguments))}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stopped = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": _USAGE}
    yield {"type": "message_stop"}


# OpenAI, chat completions --------------------------------------------------------------------------------------------

_ROLES: Mapping[str, Role] = {
    "developer": "system",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "model": "assistant",
}


def chat_shown(body: Mapping[str, Any]) -> Shown:
    """What a request to `/v1/chat/completions` shows."""
    parts: list[Part] = []
    for message in body["messages"]:
        parts += [Part(_ROLES[message["role"]], text) for text in _texts(message.get("content"))]
        parts += [Part("assistant", call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
    tools = tuple(tool["function"]["name"] for tool in body.get("tools") or () if tool["type"] == "function")
    return Shown("chat", body["model"], tuple(parts), tools, body)


def _chat_message(reply: Reply, number: str) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    function = {"name": reply.name, "arguments": json.dumps(dict(reply.arguments))}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


_CHAT_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _chat_completion(model: str, reply: Reply, number: str) -> dict[str, Any]:
    finish = "stop" if isinstance(reply, str) else "tool_calls"
    choice = {"index": 0, "message": _chat_message(reply, number), "finish_reason": finish}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": model}
    return {**head, "choices": [choice], "usage": _CHAT_USAGE}


def _chat_chunks(model: str, reply: Reply, number: str) -> Iterator[dict[str, Any]]:
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}
    finish = "stop" if isinstance(reply, str) else "tool_calls"
    for delta, reason in ((_chat_message(reply, number), None), ({}, finish)):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    yield {**head, "choices": [], "usage": _CHAT_USAGE}


# OpenAI, responses ---------------------------------------------------------------------------------------------------


def responses_shown(body: Mapping[str, Any]) -> Shown:
    """What a request to `/v1/responses` shows. Codex's tools have a namespace, which comes before their names here."""
    parts = [Part("system", text) for text in _texts(body.get("instructions"))]
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if "role" in item:
            parts += [Part(_ROLES[item["role"]], text) for text in _texts(item["content"])]
        elif item["type"].endswith("_output"):
            parts += [Part("tool", text) for text in _texts(item["output"])]
        elif "arguments" in item:
            parts.append(Part("assistant", str(item["arguments"])))
    return Shown("responses", body["model"], tuple(parts), tuple(_response_tools(body)), body)


def _response_tools(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in body.get("tools") or ():
        if tool["type"] == "namespace":
            yield from (f"{tool['name']}{inner['name']}" for inner in tool["tools"])
        else:
            yield tool.get("name") or tool["type"]


def _namespaces(body: Mapping[str, Any]) -> Mapping[str, tuple[str, str]]:
    """Namespace and own name of the tools of namespaces, by the name that `responses_shown` gives them."""
    spaces = [tool for tool in body.get("tools") or () if tool["type"] == "namespace"]
    return {f"{one['name']}{inner['name']}": (one["name"], inner["name"]) for one in spaces for inner in one["tools"]}


def _response_item(reply: Reply, number: str, namespaces: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    if isinstance(reply, str):
        content = [{"type": "output_text", "text": reply, "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    space, name = namespaces.get(reply.name, (None, reply.name))
    named = {"name": name, "namespace": space} if space else {"name": name}
    arguments = json.dumps(dict(reply.arguments))
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return {**call, **named, "arguments": arguments}


def _response(
    model: str, number: str, output: Sequence[Mapping[str, Any]], status: str = "completed"
) -> dict[str, Any]:
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    head = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model, "status": status}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None}
    return {**head, **rest, "output": list(output), "usage": usage}


def _response_events(model: str, item: Mapping[str, Any], number: str) -> Iterator[dict[str, Any]]:
    numbers = count()

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **fields}

    yield event("response.created", response=_response(model, number, [], "in_progress"))
    yield event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
    place = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "message":
        text = item["content"][0]
        empty = {**text, "text": ""}
        yield event("response.content_part.added", **place, content_index=0, part=empty)
        yield event("response.output_text.delta", **place, content_index=0, delta=text["text"], logprobs=[])
        yield event("response.output_text.done", **place, content_index=0, text=text["text"], logprobs=[])
        yield event("response.content_part.done", **place, content_index=0, part=text)
    else:
        yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield event("response.function_call_arguments.done", **place, arguments=item["arguments"], name=item["name"])
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response=_response(model, number, [item]))


# Gemini --------------------------------------------------------------------------------------------------------------


def gemini_shown(model: str, body: Mapping[str, Any]) -> Shown:
    """What a request to `generateContent` shows. A tool's result is its member `output`, or the whole as JSON."""
    parts = [Part("system", text) for text in _gemini_texts(body.get("systemInstruction"))]
    for content in body["contents"]:
        role = _ROLES[content.get("role", "user")]
        for part in content["parts"]:
            if "functionResponse" in part:
                response = part["functionResponse"]["response"]
                output = response.get("output")
                parts.append(Part("tool", output if isinstance(output, str) else json.dumps(response)))
            elif "functionCall" in part:
                parts.append(Part("assistant", json.dumps(part["functionCall"].get("args", {}))))
            elif "text" in part:
                parts.append(Part(role, part["text"]))
    declared = [tool for one in body.get("tools") or () for tool in one.get("functionDeclarations", ())]
    return Shown("gemini", model, tuple(parts), tuple(tool["name"] for tool in declared), body)


def _gemini_texts(content: Mapping[str, Any] | None) -> list[str]:
    return [part["text"] for part in (content or {}).get("parts", ()) if "text" in part]


def _gemini_text(content: Mapping[str, Any]) -> str:
    return "\n".join(_gemini_texts(content))


def _gemini_message(model: str, reply: Reply, number: str) -> dict[str, Any]:
    call = isinstance(reply, ToolCall)
    part = (
        {"functionCall": {"id": number, "name": reply.name, "args": dict(reply.arguments)}} if call else {"text": reply}
    )
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": number}
