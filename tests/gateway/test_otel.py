"""Traces: spans of a request, its stages, backends and models, by OpenTelemetry's own SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from adapters.http.exchange import Http
from fusion.doors.http.app import create_app
from fusion.errors import InvalidAnswer
from fusion.gateway.gateway import Gateway
from fusion.gateway.llm_budget import BudgetedModel
from fusion.gateway.otel import OtelTracer, tracing
from fusion.ingest.intake import NewMemory
from fusion.lib import trace
from fusion.settings import Settings, TelemetrySettings
from tests.patience import load

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
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with trace.installed(OtelTracer(provider)):
        yield exporter
    provider.shutdown()


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
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "GET /v1/memories/{ref}" in told
    for text in ("mill", "closed", "ana"):
        assert text not in told, text


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
    assert "refuse" not in bad.to_json()


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
