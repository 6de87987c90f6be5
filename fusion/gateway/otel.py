"""Gives spans to OpenTelemetry, which samples them and sends them as its own variables say (`OTEL_…`).

Needs the extra `otel`, imported only if `[telemetry] traces` is on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fusion.errors import SettingsError
from fusion.lib import trace
from fusion.settings import Settings
from fusion.version import VERSION


@contextmanager
def tracing(settings: Settings) -> Iterator[None]:
    """Trace this process until the end of the block, if the settings say so. Raises SettingsError without the extra."""
    if not settings.telemetry.traces or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from fusion.gateway.otel_spans import OtelTracer
    except ImportError:
        raise SettingsError(
            "[telemetry] traces needs OpenTelemetry: pip install 'memory-fusion[otel]', or set traces = false"
        ) from None
    name = os.environ.get("OTEL_SERVICE_NAME", "memory-fusion")
    resource = Resource.create({"service.name": name, "service.version": VERSION})
    sampler = TracerProvider(resource=resource, shutdown_on_exit=False).sampler  # that of OTEL_TRACES_SAMPLER
    processor = BatchSpanProcessor(OTLPSpanExporter())
    try:
        with trace.installed(OtelTracer(processor, sampler, resource)):
            yield
    finally:
        processor.shutdown()  # type: ignore[no-untyped-call]
