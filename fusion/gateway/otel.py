"""Gives spans to OpenTelemetry, which sends them where its own variables (`OTEL_EXPORTER_OTLP_…`) say.

Needs the extra `otel`, imported only if `[telemetry] traces` is on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fusion.errors import SettingsError
from fusion.lib import trace
from fusion.lib.trace import Kind, Span, Value
from fusion.settings import Settings
from fusion.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


class OtelTracer:
    """A `fusion.lib.trace.Tracer` over a provider of OpenTelemetry's SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("memory-fusion", VERSION)
        self._propagator = TraceContextTextMapPropagator()
        self._kinds = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}
        self._status, self._error = Status, StatusCode.ERROR

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value], parent: str = "") -> Iterator[Span]:
        context = self._propagator.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(
            name,
            context,
            self._kinds[kind],
            attributes,
            record_exception=False,  # its message and its frames may quote a memory
            set_status_on_exception=False,
        ) as one:
            try:
                yield one
            except BaseException as error:
                one.set_status(self._status(self._error, type(error).__name__))
                raise

    def record(self, name: str, began_s: float, ended_s: float) -> None:
        shift_ns = time.time_ns() - time.perf_counter_ns()
        one = self._tracer.start_span(name, start_time=int(began_s * 1e9) + shift_ns)
        one.end(int(ended_s * 1e9) + shift_ns)

    def carried(self) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers


@contextmanager
def tracing(settings: Settings) -> Iterator[None]:
    """Trace this process until the end of the block, if the settings say so. Raises SettingsError without the extra."""
    if not settings.telemetry.traces:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise SettingsError(
            "[telemetry] traces needs OpenTelemetry: pip install 'memory-fusion[otel]', or set traces = false"
        ) from None
    name = os.environ.get("OTEL_SERVICE_NAME", "memory-fusion")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": VERSION}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        with trace.installed(OtelTracer(provider)):
            yield
    finally:
        provider.shutdown()
