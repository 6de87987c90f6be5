"""What metrics and traces cost a question: CPU of one `/v1/fuse`, with none of them, with metrics, and with both.

One process, one home with the four embedded backends, in turns, so that a busy machine slows all alike. Spans are
encoded as they are sent to a collector, and dropped there.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from starlette.types import ASGIApp, Message

from benchmarks.figures import commit
from benchmarks.progress import bar
from fusion.doors.http.app import create_app
from fusion.gateway.gateway import Gateway
from fusion.gateway.measures import Measures
from fusion.gateway.otel import OtelTracer
from fusion.ingest.intake import NewMemory
from fusion.lib import trace
from fusion.recall.engine import Outcome
from fusion.settings import load
from fusion.trust import allow

MEMORIES = 300
WARM_UP = 30


class CountsNothing(Measures):
    """The side without metrics."""

    def answered(self, outcome: Outcome) -> None: ...


def run(requests: int, rounds: int) -> dict[str, Any]:
    """Figures of ``rounds`` rounds of ``requests`` on each side."""
    return asyncio.run(_run(requests, rounds))


async def _run(requests: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="telemetry-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text("")
        allow(home)
        settings = load(home=home)
        async with Gateway.open(settings) as gateway:
            texts = (f"On day {n} the mill {n % 7} at harbour {n % 11} was closed." for n in range(MEMORIES))
            await gateway.remember([NewMemory(text) for text in texts])
            await gateway.settle()
            ask = _asker(create_app(gateway, settings))
            tracer = _tracer()
            sides: dict[str, tuple[Measures, Callable[[], AbstractContextManager[None]]]] = {
                "off": (CountsNothing(), nullcontext),
                "metrics": (gateway.measures, nullcontext),
                "metrics_and_traces": (gateway.measures, lambda: trace.installed(tracer)),
            }
            await ask(WARM_UP)
            cpu_ms: dict[str, list[float]] = {name: [] for name in sides}
            with bar("questions", requests * rounds * len(sides)) as advance:
                for turn in range(rounds):
                    for name in _rotated([*sides], turn):
                        measures, traced = sides[name]
                        object.__setattr__(gateway, "measures", measures)
                        cpu_ms[name].append(await _cpu_ms(ask, requests, traced))
                        advance(requests)
    found = {f"{name}_cpu_ms": round(median(times), 3) for name, times in cpu_ms.items()}
    pairs = {name: zip(cpu_ms["off"], cpu_ms[name], strict=True) for name in sides if name != "off"}
    costs = {f"{name}_cost": round(median(b / a for a, b in two) - 1, 4) for name, two in pairs.items()}
    return {"requests": requests * rounds, **found, **costs, "commit": commit()}


def _tracer() -> OtelTracer:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Drops(SpanExporter):
        """Encodes what it gets, and sends nothing."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Drops()))
    return OtelTracer(provider)


def _rotated(names: list[str], turn: int) -> list[str]:
    """The names in another order at each turn, so that none is always first."""
    first = turn % len(names)
    return names[first:] + names[:first]


async def _cpu_ms(ask: Any, requests: int, traced: Callable[[], AbstractContextManager[None]]) -> float:
    with traced():
        before = time.process_time()
        await ask(requests)
        return (time.process_time() - before) * 1000 / requests


def _asker(app: ASGIApp) -> Any:
    """A function that asks so many questions, without a client's or a socket's own cost."""
    asked = 0

    async def ask(times: int) -> None:
        nonlocal asked
        for _ in range(times):
            asked += 1
            body = orjson.dumps({"query": f"which mill was closed on day {asked % MEMORIES}?", "timeout_ms": 30_000})
            await _post(app, body)

    return ask


async def _post(app: ASGIApp, body: bytes) -> None:
    sent: list[Message] = []
    head = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    head.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/fuse",
        "raw_path": b"/v1/fuse",
        "query_string": b"",
        "root_path": "",
        "headers": head,
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 1),
    }

    unread = [body]

    async def receive() -> Message:
        if not unread:
            await asyncio.Event().wait()  # this client never hangs up
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if sent[0]["status"] != 200:
        raise RuntimeError(f"status {sent[0]['status']}")
