"""Spans of what a request does, for a tracer that may be installed; without one a span costs a comparison.

A span has names of backends, models and stages, numbers and statuses. Never give it a text of a memory or a question,
nor the message of an exception, which may quote one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, Self

Kind = Literal["internal", "client", "server"]
Value = str | int | float | bool


class Span(Protocol):
    """A span that has begun, with the method names of OpenTelemetry's."""

    def set_attribute(self, key: str, value: Value) -> None: ...
    def update_name(self, name: str) -> None: ...

    def fail(self, kind: str) -> None:
        """Mark the span as failed, by the name of an error's class."""
        ...


class Tracer(Protocol):
    """What makes spans; each becomes the parent of those that begin inside it."""

    def span(
        self, name: str, kind: Kind, attributes: Mapping[str, Value], parent: str = ""
    ) -> AbstractContextManager[Span]:
        """A span around a block; ``parent`` is the `traceparent` of another program."""
        ...

    def record(self, name: str, began_s: float, ended_s: float) -> None:
        """Add a span that is over, by `time.perf_counter`."""
        ...

    def carried(self) -> Mapping[str, str]:
        """The headers by which another program continues the trace."""
        ...


class _NoSpan:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...
    def set_attribute(self, key: str, value: Value) -> None: ...
    def update_name(self, name: str) -> None: ...
    def fail(self, kind: str) -> None: ...


_NO_SPAN = _NoSpan()
_NOTHING: Mapping[str, str] = {}
_tracer: Tracer | None = None


@contextmanager
def installed(tracer: Tracer) -> Iterator[None]:
    """Give all spans of this process to a tracer until the end of the block."""
    global _tracer  # noqa: PLW0603 - one process is traced or not; OpenTelemetry's own provider is as global
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before


def span(
    name: str, kind: Kind = "internal", attributes: Mapping[str, Value] | None = None, parent: str = ""
) -> AbstractContextManager[Span]:
    """A span around a block."""
    return _NO_SPAN if _tracer is None else _tracer.span(name, kind, attributes or {}, parent)


def record(name: str, began_s: float, ended_s: float) -> None:
    """Add a span that is over, by `time.perf_counter`."""
    if _tracer is not None:
        _tracer.record(name, began_s, ended_s)


def carried() -> Mapping[str, str]:
    """The headers by which another program continues the trace; none without a tracer."""
    return _NOTHING if _tracer is None else _tracer.carried()


def trace_id() -> str:
    """The id of the trace that is under way, 32 hexadecimal digits; empty without one."""
    parts = carried().get("traceparent", "").split("-")
    return parts[1] if len(parts) == 4 else ""
