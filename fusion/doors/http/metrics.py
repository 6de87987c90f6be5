"""`GET /metrics`: the readings of a server in the text format of Prometheus, by its client library.

The library is imported on the first request: what is counted is counted without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.doors.http.request_counts import RequestCounts
from fusion.gateway.readings import Readings
from fusion.lib.histogram import Histogram
from fusion.upkeep.runner import JobView

if TYPE_CHECKING:
    from prometheus_client import Metric

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BREAKER_STATES = ("closed", "half_open", "open", "disabled")

Sample = tuple[Sequence[str], float]
"""the values of the labels, and the value"""


@dataclass(frozen=True, slots=True, eq=False)
class Exposed:
    """All that is exposed, as it is now."""

    requests: RequestCounts
    in_flight: int
    queued: int
    readings: Readings
    jobs: Sequence[JobView]
    prices: Mapping[str, tuple[float, float]]
    """by model, what a million tokens cost that it reads and writes"""

    def collect(self) -> Iterator[Metric]:
        """The families of metrics; each is there also without a sample, so that a dashboard finds it."""
        yield from self._requests()
        yield from self._questions()
        yield from self._backends()
        yield from self._models()
        yield from self._upkeep()

    def _requests(self) -> Iterator[Metric]:
        total = (((method, route, str(status)), n) for (method, route, status), n in self.requests.total.items())
        yield counter("requests", "Requests, by route as it is declared", ("method", "route", "status"), total)
        yield histogram("request_seconds", "Time until the end of a reply", "door", self.requests.seconds)
        yield gauge("requests_in_flight", "Requests that are being worked on", (), [((), self.in_flight)])
        yield gauge("requests_queued", "Requests that wait for a place", (), [((), self.queued)])
        yield gauge("uptime_seconds", "Time since the home was opened", (), [((), self.readings.uptime_s)])

    def _questions(self) -> Iterator[Metric]:
        measures = self.readings.measures
        asked = (((outcome,), n) for outcome, n in measures.questions.items())
        yield counter(
            "questions", "Questions: answered, empty, or failed since no backend answered", ("outcome",), asked
        )
        yield histogram("stage_seconds", "Time of each stage of a question", "stage", measures.stages)
        yield counter(
            "backend_answers", "Answers of backends, by status", ("backend", "status"), measures.answers.items()
        )
        yield histogram("backend_seconds", "Time until a backend's answer", "backend", measures.backends)

    def _backends(self) -> Iterator[Metric]:
        found = self.readings
        states = (
            ((name, state), float(state == now)) for name, now in found.breakers.items() for state in BREAKER_STATES
        )
        yield gauge("breaker_state", "1 for the state that a backend's breaker is in", ("backend", "state"), states)
        backlog = (((name,), n) for name, n in found.backlog.items())
        yield gauge("outbox_backlog", "Deliveries that a backend has not acknowledged", ("backend",), backlog)
        given_up = (((name,), n) for name, n in found.given_up.items())
        yield gauge("outbox_given_up", "Deliveries that were given up", ("backend",), given_up)

    def _models(self) -> Iterator[Metric]:
        models = self.readings.models
        calls = (((*key, status), n) for key, use in models.items() for status, n in use.calls.items())
        yield counter("model_calls", "Calls of models, by what became of them", ("model", "use", "status"), calls)
        tokens = (
            ((*key, direction), n)
            for key, use in models.items()
            for direction, n in (("read", use.read), ("written", use.written))
        )
        yield counter(
            "model_tokens", "Tokens of models; estimated for those of [model]", ("model", "use", "direction"), tokens
        )
        costs = ((key, use.cost(self.prices[key[0]])) for key, use in models.items() if key[0] in self.prices)
        yield counter("model_cost", "What models cost, by the prices of [telemetry.prices]", ("model", "use"), costs)

    def _upkeep(self) -> Iterator[Metric]:
        runs = [(job.name, job.last) for job in self.jobs if job.last is not None]
        began = (((name,), run.began.timestamp()) for name, run in runs)
        yield gauge("job_last_run_timestamp_seconds", "When a job's latest run began", ("job",), began)
        failed = (((name,), float(run.status in ("failed", "lost"))) for name, run in runs)
        yield gauge("job_last_run_failed", "1 if a job's latest run failed or was lost", ("job",), failed)
        paused = (((job.name,), float(job.paused)) for job in self.jobs)
        yield gauge("job_paused", "1 for a job that is paused", ("job",), paused)
        decided = self.readings.decisions.items()
        yield counter("decisions", "Decisions on the state of memories in the log", ("by", "action"), decided)


def load_library() -> None:
    """Import the client library, which takes some 40 ms, once."""
    import prometheus_client  # noqa: F401


def exposition(exposed: Exposed) -> bytes:
    """The text that Prometheus reads, with the memory and the processor time of this process."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(exposed)
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def counter(name: str, help_text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """A number that only grows; Prometheus adds `_total` to its name."""
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"fusion_{name}", help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def gauge(name: str, help_text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """A number that grows and falls."""
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"fusion_{name}", help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def histogram(name: str, help_text: str, label: str, found: Mapping[str, Histogram]) -> Metric:
    """Times, by one label."""
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(f"fusion_{name}", help_text, labels=[label])
    for value, one in found.items():
        family.add_metric([value], buckets=one.cumulative(), sum_value=one.sum_s)
    return family
