"""Spans for OpenTelemetry's processors and exporters that cost little while a question is answered.

The SDK's own spans take locks, copy and check attributes, and have room for events and links: made and encoded, the
twelve spans of a question take .4 ms. These are what its exporters read, and nothing else. The sampler, the resource,
the batches and the exporter are the SDK's. Import this late: OpenTelemetry is an extra.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from random import getrandbits
from typing import Self, cast

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fusion.lib.trace import Kind, Value
from fusion.version import VERSION

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT, "server": SpanKind.SERVER}
_SAMPLED, _DROPPED = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)
_SCOPE = InstrumentationScope("memory-fusion", VERSION)
_traceparent = TraceContextTextMapPropagator()
_current: ContextVar[SpanContext | None] = ContextVar("span", default=None)
"""the span around the code that runs"""


class SharedResource(Resource):
    """A resource with its hash computed once: the exporter takes it for every span, and the SDK makes JSON for it."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(dict(resource.attributes), resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


class OtelTracer:
    """A `fusion.lib.trace.Tracer` that gives every span, once it is over, to a processor of OpenTelemetry's SDK.

    The sampler decides once for a trace, at its first span here; those below follow.
    """

    def __init__(self, processor: SpanProcessor, sampler: Sampler, resource: Resource) -> None:
        self.processor, self.resource = processor, SharedResource(resource)
        self._sampler = sampler

    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value], parent: str = "") -> OtelSpan:
        above = _remote(parent) if parent else _current.get()
        return OtelSpan(self, name, _KINDS[kind], {**attributes}, self._context(name, kind, above), above)

    def record(self, name: str, began_s: float, ended_s: float) -> None:
        above = _current.get()
        context = self._context(name, "internal", above)
        if context.trace_flags is _SAMPLED:
            shift_ns = time.time_ns() - time.perf_counter_ns()
            one = OtelSpan(self, name, SpanKind.INTERNAL, {}, context, above, int(began_s * 1e9) + shift_ns)
            one.end(int(ended_s * 1e9) + shift_ns)

    def carried(self) -> Mapping[str, str]:
        if (one := _current.get()) is None:
            return {}
        return {"traceparent": f"00-{one.trace_id:032x}-{one.span_id:016x}-{one.trace_flags:02x}"}

    def _context(self, name: str, kind: Kind, above: SpanContext | None) -> SpanContext:
        """The ids of a new span, and whether it is sampled."""
        span_id = getrandbits(64) or 1
        if above is not None and not above.is_remote:
            return SpanContext(above.trace_id, span_id, False, above.trace_flags, above.trace_state)
        trace_id = above.trace_id if above is not None else getrandbits(128) or 1
        around = Context() if above is None else set_span_in_context(NonRecordingSpan(above), Context())
        verdict = self._sampler.should_sample(around, trace_id, name, _KINDS[kind])
        flags = _SAMPLED if verdict.decision is Decision.RECORD_AND_SAMPLE else _DROPPED
        return SpanContext(trace_id, span_id, False, flags, verdict.trace_state)


class OtelSpan:
    """What the SDK's exporter reads of a `ReadableSpan`, and a context manager.

    It is none, since the properties of that class copy each value that is read.
    """

    __slots__ = (
        "_outer",
        "_tracer",
        "attributes",
        "context",
        "end_time",
        "kind",
        "name",
        "parent",
        "resource",
        "start_time",
        "status",
    )
    events = links = ()
    dropped_attributes = dropped_events = dropped_links = 0
    instrumentation_scope = _SCOPE

    def __init__(
        self,
        tracer: OtelTracer,
        name: str,
        kind: SpanKind,
        attributes: dict[str, Value],
        context: SpanContext,
        parent: SpanContext | None,
        began_ns: int = 0,
    ) -> None:
        """``began_ns`` is now if it is 0."""
        self._tracer = tracer
        self.name, self.kind, self.attributes, self.context, self.parent = name, kind, attributes, context, parent
        self.resource, self.start_time = tracer.resource, began_ns or time.time_ns()
        self.status: Status | None = None
        """of a failure alone: nothing else sets one, and OTLP leaves out a status that is not set"""

    def get_span_context(self) -> SpanContext:
        return self.context

    def set_attribute(self, key: str, value: Value) -> None:
        self.attributes[key] = value

    def update_name(self, name: str) -> None:
        self.name = name

    def fail(self, kind: str) -> None:
        self.status = Status(StatusCode.ERROR, kind)

    def __enter__(self) -> Self:
        self._outer = _current.set(self.context)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _current.reset(self._outer)
        if kind is not None:  # an error's message and its frames may quote a memory
            self.fail(kind.__name__)
        self.end(time.time_ns())

    def end(self, at_ns: int) -> None:
        """Give the span to the processor, if its trace is sampled."""
        self.end_time = at_ns
        if self.context.trace_flags is _SAMPLED:
            self._tracer.processor.on_end(cast(ReadableSpan, self))


def _remote(traceparent: str) -> SpanContext | None:
    """What the `traceparent` of another program names; None if it is not well formed."""
    found = get_current_span(_traceparent.extract({"traceparent": traceparent}, Context())).get_span_context()
    return found if found.is_valid else None
