"""Traces: spans of a request, its stages, backends and models, by OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, DEFAULT_ON, ParentBased, Sampler
from opentelemetry.trace import SpanKind, StatusCode
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from adapters.http.exchange import Http
from fusion.doors.http.app import create_app
from fusion.errors import InvalidAnswer
from fusion.gateway.gateway import Gateway
from fusion.gateway.llm_budget import BudgetedModel
from fusion.gateway.otel import tracing
from fusion.gateway.otel_spans import OtelTracer
from fusion.ingest.intake import NewMemory
from fusion.lib import trace
from fusion.settings import Settings, TelemetrySettings
from fusion.upkeep.job import JobContext
from tests.patience import load
from tests.upkeep.helpers import Clock, Recorded, in_virtual_time, runner

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "The mill at the harbour is closed in March."
BAD = f"{__name__}:Failing"


class Failing:
    """A backend that quotes what it was asked when it fails."""

    @classmethod
    async def open(cls, opening: Any) -> Failing:
        return cls()

    def __init__(self) -> None:
        from fusion.contract import Features

        self.features = Features(tenants=True, filters=frozenset({"user_id"}))

    async def search(self, query: Any) -> list[Any]:
        raise RuntimeError(f"cannot find {query.text}")

    async def close(self) -> None: ...


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What was traced; the tracer is installed until the end of the test."""
    exporter = InMemorySpanExporter()
    with trace.installed(tracer_of(exporter)):
        yield exporter


def tracer_of(exporter: InMemorySpanExporter, sampler: Sampler = DEFAULT_ON) -> OtelTracer:
    return OtelTracer(SimpleSpanProcessor(exporter), sampler, Resource.create({"service.name": "memory-fusion"}))


def encoded(spans: InMemorySpanExporter) -> bytes:
    """What a collector is sent of them."""
    return encode_spans(spans.get_finished_spans()).SerializeToString()


@pytest.fixture
async def client(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a home with a memory, a backend that answers, and one that fails."""
    tables = {"good": {"adapter": "adapters.inmemory:InMemory"}, "bad": {"adapter": BAD}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory(SECRET)])
        await gateway.settle()
        transport = httpx.ASGITransport(app=create_app(gateway, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as one:
            yield one


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return int(context.span_id)


@pytest.mark.feature("OpenTelemetry (extra `otel`): a span a request, stage, backend and model; `traceparent` is taken")
async def test_a_question_has_a_span_for_each_stage_and_backend(
    client: httpx.AsyncClient, spans: InMemorySpanExporter
) -> None:
    parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    await client.post("/v1/fuse", json={"query": "when is the mill closed?"}, headers=parent)
    found = by_name(spans)
    request = found["POST /v1/fuse"]
    assert request.kind is SpanKind.SERVER
    assert f"{parent_of(request):016x}" == PARENT
    assert {f"{span.get_span_context().trace_id:032x}" for span in found.values()} == {TRACE}
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/fuse",
        "http.response.status_code": 200,
    }
    stages = [f"fuse {name}" for name in ("gather", "merge", "expand", "compare", "rank", "judge", "pack")]
    assert {"search good", "search bad", *stages} <= found.keys()
    assert {parent_of(found[name]) for name in ("search good", "search bad", *stages)} == {id_of(request)}
    for name in stages:
        span = found[name]
        assert (request.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (request.end_time or 0)
    assert (found["search good"].attributes or {})["fusion.hits"] == 1
    assert found["search bad"].status.status_code is StatusCode.ERROR
    assert found["search bad"].status.description == "RuntimeError"


@pytest.mark.feature("… no text of a memory or a question is in a span", of="OpenTelemetry (extra `otel`)")
async def test_spans_have_no_text(client: httpx.AsyncClient, spans: InMemorySpanExporter) -> None:
    """Also not that of an error, which quotes the question, nor the ref in an address."""
    await client.post("/v1/fuse", json={"query": "when is the mill closed?", "user_id": "ana"})
    await client.post("/v1/fuse", json={"query": "when is the mill closed?"})
    await client.get("/v1/memories/m1mill", headers={"traceparent": "mill"})
    sent = encoded(spans)
    assert b"GET /v1/memories/{ref}" in sent
    for text in (b"mill", b"closed", b"ana"):
        assert text not in sent, text


@pytest.mark.feature("… and passed on to backends over HTTP", of="OpenTelemetry (extra `otel`)")
async def test_traceparent_is_passed_on_to_a_server(httpserver: HTTPServer, spans: InMemorySpanExporter) -> None:
    got: list[str] = []

    def answer(request: Request) -> Response:
        got.append(request.headers.get("traceparent", ""))
        return Response("{}", content_type="application/json")

    httpserver.expect_request("/search").respond_with_handler(answer)
    server = Http(httpserver.url_for(""), connect_s=5.0)
    with trace.span("search there", "client"):
        await server.get("/search", 5.0)
    await server.close()
    (span,) = spans.get_finished_spans()
    context = span.get_span_context()
    assert context is not None
    assert [one[:-2] for one in got] == [f"00-{context.trace_id:032x}-{context.span_id:016x}-"]


class Talking:
    """A language model that repeats one word, or fails with the question in its error."""

    name = "talker"

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        if "refuse" in user:
            raise InvalidAnswer(f"not understood: {user}")
        return "word " * 40

    async def close(self) -> None: ...


async def test_model_calls_have_the_names_of_the_genai_conventions(spans: InMemorySpanExporter) -> None:
    model = BudgetedModel(Talking(), calls_per_minute=9, tokens_per_minute=99_999)
    await model.complete("system", "say a word", 100)
    with pytest.raises(InvalidAnswer):
        await model.complete("system", "refuse", 100)
    good, bad = spans.get_finished_spans()
    attributes = dict(good.attributes or {})
    assert (good.name, good.kind) == ("chat talker", SpanKind.CLIENT)
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "talker"
    assert attributes["gen_ai.request.max_tokens"] == 100
    assert int(str(attributes["gen_ai.usage.output_tokens"])) > 20
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "InvalidAnswer")
    assert b"refuse" not in encoded(spans)


class Writing(Recorded):
    """A job whose steps ask a model."""

    async def step(self, context: JobContext, name: str) -> None:
        with trace.span("chat talker", "client"):
            await super().step(context, name)


@pytest.mark.feature("… a span a run of a job, with its outcome", of="OpenTelemetry (extra `otel`)")
def test_run_of_a_job_has_a_span_with_its_outcome(spans: InMemorySpanExporter) -> None:
    """Without the names of its steps, which may be paths, and without the messages of its faults."""

    async def runs() -> None:
        await runner(Writing(("a", "b")).job()).run("tidy")
        failing = Recorded(("a", "/home/ana/mill.md"), fail=frozenset({"/home/ana/mill.md"}))
        await runner(failing.job()).run("tidy", dry_run=True)
        clock = Clock()
        planned = runner(Recorded(takes_s=100).job("0 3 * * *"), clock=clock)
        await planned.run_due()
        clock.ahead = timedelta(days=1)
        stopping = asyncio.create_task(planned.run_due())
        await asyncio.sleep(1)
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        await planned.close()

    in_virtual_time(runs())
    *chats, good, bad, stopped = spans.get_finished_spans()
    assert {span.name for span in (good, bad, stopped)} == {"job tidy"}
    assert [parent_of(chat) for chat in chats] == [id_of(good)] * 2
    assert dict(good.attributes or {}) == {
        "fusion.job": "tidy",
        "fusion.job.started_by": "request",
        "fusion.job.dry_run": False,
        "fusion.job.steps": 2,
        "fusion.status": "done",
    }
    assert (bad.attributes or {})["fusion.status"] == "failed"
    assert (bad.attributes or {})["fusion.job.failed_steps"] == 1
    assert (bad.attributes or {})["fusion.job.dry_run"] is True
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "ValueError")
    assert (stopped.attributes or {})["fusion.job.started_by"] == "schedule"
    assert stopped.status.description == "CancelledError"
    for text in (b"mill", b"broken"):
        assert text not in encoded(spans), text


def in_one_trace() -> None:
    with trace.span("request", "server"), trace.span("search there", "client"):
        trace.record("fuse rank", 1.0, 2.0)


@pytest.mark.feature("… sampled as OpenTelemetry's variables say", of="OpenTelemetry (extra `otel`)")
@pytest.mark.parametrize(("sampler", "spans"), [(ALWAYS_ON, 3), (ALWAYS_OFF, 0), (DEFAULT_ON, 3)])
def test_the_sampler_decides_for_a_whole_trace(sampler: Sampler, spans: int) -> None:
    exporter = InMemorySpanExporter()
    with trace.installed(tracer_of(exporter, sampler)):
        in_one_trace()
    assert len(exporter.get_finished_spans()) == spans


@pytest.mark.parametrize(("flags", "spans"), [("01", 2), ("00", 0)])
def test_the_decision_of_the_callers_trace_is_followed_and_passed_on(flags: str, spans: int) -> None:
    """Both ways, against what the sampler says of traces that begin here."""
    exporter = InMemorySpanExporter()
    root = ALWAYS_OFF if flags == "01" else ALWAYS_ON
    with (
        trace.installed(tracer_of(exporter, ParentBased(root))),
        trace.span("request", "server", parent=f"00-{TRACE}-{PARENT}-{flags}"),
        trace.span("search there", "client"),
    ):
        version, trace_id, span_id, passed_on = trace.carried()["traceparent"].split("-")
        assert (version, trace_id, passed_on) == ("00", TRACE, flags)
        assert len(span_id) == 16
        assert span_id != PARENT
    assert len(exporter.get_finished_spans()) == spans


@pytest.mark.parametrize(
    "sent", ["mill", "00-0-0-01", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "\n" * 600]
)
def test_a_traceparent_that_is_not_well_formed_begins_a_new_trace(sent: str, spans: InMemorySpanExporter) -> None:
    with trace.span("request", "server", parent=sent):
        assert TRACE not in trace.carried()["traceparent"]
    (request,) = spans.get_finished_spans()
    assert request.parent is None


async def test_concurrent_requests_have_their_own_spans(spans: InMemorySpanExporter) -> None:
    """Each inner span is below its own request, as they overlap in one thread."""
    began = asyncio.Barrier(5)

    async def one(number: int) -> None:
        with trace.span(f"request {number}", "server"):
            await began.wait()
            with trace.span(f"search {number}", "client"):
                await began.wait()

    await asyncio.gather(*(one(number) for number in range(5)))
    found = by_name(spans)
    for number in range(5):
        assert parent_of(found[f"search {number}"]) == id_of(found[f"request {number}"])
    assert len({span.get_span_context().trace_id for span in found.values()}) == 5


def test_the_sampler_of_the_settings_is_that_of_the_variables(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", httpserver.url_for("").rstrip("/"))
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.0")
    with tracing(Settings(telemetry=TelemetrySettings(traces=True))):
        in_one_trace()
    assert not httpserver.log
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with tracing(Settings(telemetry=TelemetrySettings(traces=True))):
        assert trace.carried() == {}
        with trace.span("request"):
            assert trace.carried() == {}


def test_nothing_is_traced_without_the_setting() -> None:
    with tracing(Settings()):
        assert trace.carried() == {}
        with trace.span("search") as span:
            span.set_attribute("fusion.hits", 1)


@pytest.mark.feature("… sent by OTLP to the collector that its variables name", of="OpenTelemetry (extra `otel`)")
def test_traces_are_sent_to_a_collector(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    httpserver.expect_request("/v1/traces").respond_with_data("", content_type="application/x-protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", httpserver.url_for("").rstrip("/"))
    with tracing(Settings(telemetry=TelemetrySettings(traces=True))), trace.span("search there", "client"):
        assert trace.carried().keys() == {"traceparent"}
    assert trace.carried() == {}
    sent = [request.get_data() for request, _ in httpserver.log]
    assert any(b"search there" in body and b"memory-fusion" in body for body in sent)
