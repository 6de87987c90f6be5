"""What metrics and traces cost a question: CPU of one `/v1/fuse`, with none of them, with metrics, and with both.

One process, one home with the four embedded backends and without a model, where a question costs least and they weigh
most. The sides take turns, so that a busy machine slows all alike. Traces are measured as every question is sampled,
OpenTelemetry's default, and as one in ten is. Spans are encoded as they are sent to a collector, and dropped there.

The noise of whole questions is larger than what is to be measured on a busy machine, so the spans of one question are
also made and encoded alone, many times: ``spans_us``, and its share of a question ``spans_cost``. So is the entry of
the access log: ``access_us``. Of these, and of the question that they are compared with, the least round counts.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any, Self

import orjson
from starlette.types import ASGIApp, Message

from benchmarks.figures import commit
from benchmarks.progress import bar
from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.gateway.accesses import noted
from fusion.gateway.gateway import Gateway
from fusion.gateway.measures import Measures
from fusion.gateway.otel_spans import OtelTracer
from fusion.ingest.intake import NewMemory
from fusion.journal.access_log import NAME, AccessLog
from fusion.lib import trace
from fusion.lib.caller import CALLER, Caller
from fusion.recall.engine import FuseRequest, Outcome
from fusion.settings import load
from fusion.trust import allow

MEMORIES = 300
WARM_UP = 30
QUESTIONS_ALONE = 150
"""questions whose spans are made at once; they fit the queue of the processor"""
ROUNDS_ALONE = 15
ENTRIES_A_WRITE = 25
"""entries of the access log in one write, as at 100 questions a second"""


class CountsNothing(Measures):
    """The side without metrics."""

    def answered(self, outcome: Outcome, tenant: str) -> None: ...


def run(requests: int, rounds: int) -> dict[str, Any]:
    """Figures of ``rounds`` rounds of ``requests`` on each side."""
    return asyncio.run(_run(requests, rounds))


async def _run(requests: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="telemetry-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text("")
        allow(home)
        settings = load(home=home, embedder={"adapter": ""})
        async with Gateway.open(settings) as gateway:
            await gateway.remember([NewMemory(text) for text in _texts()])
            await gateway.settle()
            ask = _asker(create_app(gateway, settings))
            every, tenth = _tracer(1.0), _tracer(0.1)
            sides: dict[str, tuple[Measures, Callable[[], AbstractContextManager[None]]]] = {
                "off": (CountsNothing(), nullcontext),
                "metrics": (gateway.measures, nullcontext),
                "metrics_and_traces": (gateway.measures, lambda: trace.installed(every)),
                "metrics_and_a_tenth_of_traces": (gateway.measures, lambda: trace.installed(tenth)),
            }
            await ask(WARM_UP)
            spans = SpansOfAQuestion()
            with trace.installed(spans):
                await ask(1)
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
    spans_us = spans.cpu_us(every)
    unsampled_us = round(spans.cpu_us(_tracer(0.0)), 1)
    alone = {"spans": len(spans.made), "spans_us": round(spans_us, 1), "unsampled_spans_us": unsampled_us}
    least_ms = min(cpu_ms["off"])
    access_us = await _access_us()
    share = {
        "off_least_cpu_ms": round(least_ms, 3),
        "spans_cost": round(spans_us / 1000 / least_ms, 4),
        "access_us": round(access_us, 1),
        "access_cost": round(access_us / 1000 / least_ms, 4),
    }
    return {"requests": requests * rounds, **found, **costs, **alone, **share, "commit": commit()}


async def _access_us() -> float:
    """CPU of the entry of one question in the access log, with its share of a write of `ENTRIES_A_WRITE`."""

    class Answer:
        receipt_id = f"r{'0' * 24}"

    rounds = []
    with tempfile.TemporaryDirectory(prefix="access-") as folder:
        log = AccessLog(Path(folder) / NAME, keep_days=90, max_entries=200_000)
        token = CALLER.set(Caller("laptop", "9f86d081", "reader", "http", "0" * 32))
        for _ in range(ROUNDS_ALONE * 3):
            before = time.process_time()
            for _ in range(ENTRIES_A_WRITE):
                with noted(log, "fuse", {"request": FuseRequest("q", Scope(user_id="ana"))}) as one:
                    one.result = Answer()
            await log.flush()
            rounds.append((time.process_time() - before) / ENTRIES_A_WRITE)
        CALLER.reset(token)
        await log.close()
    return min(rounds) * 1e6


def _texts() -> Iterator[str]:
    """Texts that share a topic and little else: to compare similar ones would cost more than all the rest."""
    chance = random.Random(4)
    words = ["".join(chance.choices("bdfgklmnprstv" + "aeiou" * 2, k=chance.randint(4, 9))) for _ in range(2_000)]
    for day in range(MEMORIES):
        yield f"On day {day} the {chance.choice(words)} mill: {' '.join(chance.sample(words, 14))}."


class SpansOfAQuestion(trace.Tracer):
    """A tracer that notes each span, to make the same again."""

    def __init__(self) -> None:
        self.made: list[Noted] = []

    def span(self, name: str, kind: trace.Kind, attributes: Mapping[str, trace.Value], parent: str = "") -> Noted:
        self.made.append(Noted(name, kind, dict(attributes)))
        return self.made[-1]

    def record(self, name: str, began_s: float, ended_s: float) -> None:
        self.made.append(Noted(name, "internal", {}, recorded=True))

    def carried(self) -> Mapping[str, str]:
        return {}

    def cpu_us(self, tracer: OtelTracer) -> float:
        """CPU of these spans in microseconds, with their encoding: the least of some rounds, the least disturbed."""
        rounds = []
        for _ in range(ROUNDS_ALONE):
            tracer.processor.force_flush()
            before = time.process_time()
            for _ in range(QUESTIONS_ALONE):
                self._again(tracer)
            tracer.processor.force_flush()
            rounds.append((time.process_time() - before) / QUESTIONS_ALONE)
        return min(rounds) * 1e6

    def _again(self, tracer: OtelTracer) -> None:
        """Make the spans of the question once more: the first is that of its request, around all others."""
        request, *inner = self.made
        with tracer.span(request.began_as, request.kind, {}) as around:
            for one in inner:
                if one.recorded:
                    tracer.record(one.name, 1.0, 2.0)
                else:
                    with tracer.span(one.name, one.kind, one.began_with) as span:
                        for name in one.attributes.keys() - one.began_with.keys():
                            span.set_attribute(name, one.attributes[name])
            around.update_name(request.name)
            for name, value in request.attributes.items():
                around.set_attribute(name, value)


class Noted:
    """A span of a question, with all that was said of it."""

    def __init__(
        self, name: str, kind: trace.Kind, attributes: dict[str, trace.Value], *, recorded: bool = False
    ) -> None:
        self.began_as = self.name = name
        self.kind, self.began_with, self.attributes, self.recorded = kind, attributes, {**attributes}, recorded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def set_attribute(self, key: str, value: trace.Value) -> None:
        self.attributes[key] = value

    def update_name(self, name: str) -> None:
        self.name = name

    def fail(self, kind: str) -> None: ...


def _tracer(share: float) -> OtelTracer:
    """A tracer of a share of all questions, whose spans are encoded and dropped."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Drops(SpanExporter):
        """Encodes what it gets, and sends nothing."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            encode_spans(spans).SerializePartialToString()
            return SpanExportResult.SUCCESS

    return OtelTracer(BatchSpanProcessor(Drops()), ParentBasedTraceIdRatio(share), Resource.create({}))


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
            body = orjson.dumps({"query": f"what was at the mill on day {asked % MEMORIES}?", "timeout_ms": 30_000})
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
