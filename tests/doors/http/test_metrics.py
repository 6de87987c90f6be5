"""`GET /metrics` over a real home, and the dashboard and alerts that ship with it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from adapters.inmemory import InMemory
from fusion.contract import Hit, Opening, Query
from fusion.doors.http.app import create_app
from fusion.doors.http.request_counts import RequestCounts, door_of
from fusion.errors import InvalidAnswer
from fusion.gateway.gateway import Gateway
from fusion.lib.histogram import Histogram
from fusion.settings import KeySettings, ServerSettings
from tests.patience import load

OBSERVE = Path(__file__).parents[3] / "compose" / "observe"
KEYS = {"owner": ("default", "operator"), "reader": ("default", "reader"), "acme": ("acme", "operator")}
SECRET = "the mill is closed in March"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Failing(InMemory):
    """Fails when it is asked."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return await super().open(opening)

    async def search(self, query: Query) -> list[Hit]:
        raise InvalidAnswer("cannot read this")


@asynccontextmanager
async def served(home: Path, **more: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Gateway]]:
    """A client of a home with one backend that answers, and one that fails."""
    tables = {"good": {"adapter": "adapters.inmemory:InMemory"}, "bad": {"adapter": f"{__name__}:Failing"}}
    keys = tuple(
        KeySettings.model_validate({"name": n, "sha256": sha256(n.encode()).hexdigest(), "tenant": t, "role": r})
        for n, (t, r) in KEYS.items()
    )
    server = ServerSettings(keys=keys)
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables, server=server, **more)
    async with Gateway.open(settings) as gateway:
        transport = httpx.ASGITransport(app=create_app(gateway, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=key("owner")) as client:
            yield client, gateway


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


async def read(client: httpx.AsyncClient) -> Samples:
    """The samples of `/metrics`, by name and labels."""
    reply = await client.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


@pytest.mark.feature(
    "`GET /metrics` for Prometheus: requests by route, time by door and stage, answers by backend, breakers, backlog"
)
async def test_metrics_count_questions_stages_and_answers(home: Path) -> None:
    async with served(home) as (client, gateway):
        await client.post("/v1/memories", json={"text": SECRET, "user_id": "ana"})
        await gateway.settle()
        for _ in range(2):
            await client.post("/v1/fuse", json={"query": "when is the mill closed?", "user_id": "ana"})
        await client.get("/v1/memories/m1", params={"user_id": "ana"})
        await client.get("/v1/memories/m1zzz", params={"user_id": "ana"})
        await client.get("/nowhere/m1")
        found = await read(client)
    assert value(found, "fusion_requests_total", method="POST", route="/v1/fuse", status="200") == 2
    assert value(found, "fusion_requests_total", method="GET", route="/v1/memories/{ref}", status="404") == 1
    assert value(found, "fusion_requests_total", method="GET", route="other", status="404") == 1
    assert value(found, "fusion_questions_total", outcome="answered") == 2
    assert value(found, "fusion_backend_answers_total", backend="good", status="ok") == 2
    assert value(found, "fusion_backend_answers_total", backend="bad", status="invalid") == 2
    for stage in ("gather", "merge", "expand", "compare", "rank", "judge", "pack"):
        assert value(found, "fusion_stage_seconds_count", stage=stage) == 2, stage
    assert value(found, "fusion_request_seconds_count", door="http") == 6
    assert value(found, "fusion_request_seconds_bucket", door="http", le="+Inf") == 6
    assert value(found, "fusion_breaker_state", backend="good", state="closed") == 1
    assert value(found, "fusion_breaker_state", backend="good", state="open") == 0
    assert value(found, "fusion_outbox_backlog", backend="good") == 0
    assert value(found, "fusion_requests_in_flight") == 0


async def test_metrics_count_a_question_that_no_backend_answered(home: Path) -> None:
    async with served(home) as (client, _):
        asked = {"query": "when is the mill closed?", "user_id": "ana", "backends": ["bad"]}
        assert (await client.post("/v1/fuse", json=asked)).status_code == 503
        found = await read(client)
    assert value(found, "fusion_questions_total", outcome="failed") == 1
    assert value(found, "fusion_backend_answers_total", backend="bad", status="invalid") == 1


@pytest.mark.feature("… and decisions, jobs with their failures, calls, tokens and cost of models", of="`GET /metrics`")
async def test_metrics_count_decisions_and_jobs(home: Path) -> None:
    async with served(home) as (client, _):
        ref = (await client.post("/v1/memories", json={"text": SECRET})).json()["memories"][0]["ref"]
        await client.post("/v1/state", json={"ref": ref, "archived": True})
        await client.post("/v1/jobs/checks/run", json={})
        await client.post("/v1/jobs/checks/pause", json={})
        found = await read(client)
    assert value(found, "fusion_decisions_total", by="caller", action="decide") == 1
    assert value(found, "fusion_job_last_run_failed", job="checks") == 0
    assert value(found, "fusion_job_paused", job="checks") == 1
    assert (value(found, "fusion_job_last_run_timestamp_seconds", job="checks") or 0) > 0


class Talking:
    """A language model that repeats one word, or refuses."""

    name = "talker"

    @classmethod
    def open(cls, options: Mapping[str, object]) -> Self:
        return cls()

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        if "refuse" in user:
            raise InvalidAnswer("no")
        return "word " * 40

    async def close(self) -> None: ...


TALKING = {
    "telemetry": {"prices": {"talker": [1_000_000.0, 0.0]}},
    "model": {"adapter": f"{__name__}:Talking"},
}


async def test_metrics_count_tokens_and_cost_of_a_model(home: Path) -> None:
    async with served(home, **TALKING) as (client, gateway):
        model = gateway.model
        assert model is not None
        await model.complete("system", "say a word", 100)
        with pytest.raises(InvalidAnswer):
            await model.complete("system", "refuse", 100)
        found = await read(client)
    read_tokens = value(found, "fusion_model_tokens_total", model="talker", use="model", direction="read")
    assert value(found, "fusion_model_calls_total", model="talker", use="model", status="ok") == 1
    assert value(found, "fusion_model_calls_total", model="talker", use="model", status="failed") == 1
    assert (value(found, "fusion_model_tokens_total", model="talker", use="model", direction="written") or 0) > 20
    assert read_tokens
    assert value(found, "fusion_model_cost_total", model="talker", use="model") == read_tokens


@pytest.mark.feature("`/v1/status` shows each tenant its own use of models; only the home's operator sees that of all")
async def test_status_shows_a_tenant_its_own_use_of_models_alone(home: Path) -> None:
    """Two calls by the home's owner, one by acme; a reader of the owner's tenant sees no call of acme's."""
    async with served(home, **TALKING) as (client, gateway):
        assert gateway.tenants is not None
        async with gateway.tenants.at("acme") as of_acme:
            for one, times in ((gateway, 2), (of_acme, 1)):
                for _ in range(times):
                    assert one.model is not None
                    await one.model.complete("system", "say a word", 100)
        shown = {name: (await client.get("/v1/status", headers=key(name))).json()["models"] for name in KEYS}
        scoped = (await client.get("/v1/status", params={"user_id": "ana"})).json()
    used = {name: rows[0] for name, rows in shown.items()}
    assert {name: row["calls"] for name, row in used.items()} == {
        "owner": {"ok": 3},
        "reader": {"ok": 2},
        "acme": {"ok": 1},
    }
    assert used["owner"]["cost"] == pytest.approx(used["reader"]["cost"] + used["acme"]["cost"])
    assert used["reader"]["tokens_written"] == 2 * used["acme"]["tokens_written"]
    assert "models" not in scoped


async def test_calls_of_the_judge_are_counted_once_and_by_tenant(home: Path) -> None:
    """The judge asks the model of [model]: its tokens are the judge's, and none is in the row of the model."""
    asks = {"model": {"adapter": f"{__name__}:Talking"}, "judge": {"provider": "model"}, "recipe": "deep"}
    async with served(home, **asks) as (client, gateway):
        for name in ("owner", "acme"):
            for text in (SECRET, "the mill opens in April", "the mill is for sale"):
                await client.post("/v1/memories", json={"text": text}, headers=key(name))
        await gateway.settle()
        await gateway.settle("acme")
        asked = {"query": "when is the mill closed?"}
        for name in ("owner", "owner", "acme"):
            assert (await client.post("/v1/fuse", json=asked, headers=key(name))).status_code == 200
        shown = {name: (await client.get("/v1/status", headers=key(name))).json()["models"] for name in KEYS}
    calls = {name: {row["use"]: sum(row["calls"].values()) for row in rows} for name, rows in shown.items()}
    assert calls == {
        "owner": {"judge": 3, "model": 0},
        "reader": {"judge": 2, "model": 0},
        "acme": {"judge": 1, "model": 0},
    }


@pytest.mark.feature("`/metrics` is for the operator of the home: no tenant and no lower role reads it")
async def test_metrics_are_for_the_homes_operator(home: Path) -> None:
    async with served(home) as (client, _):
        assert (await client.get("/metrics", headers=key("reader"))).status_code == 403
        assert (await client.get("/metrics", headers=key("acme"))).status_code == 422
        assert (await client.get("/metrics", headers=key("nobody"))).status_code == 401


@pytest.mark.feature("`/metrics` has no text, user, ref or unknown path, however many are asked for")
async def test_metrics_have_bounded_labels_without_text(home: Path) -> None:
    async with served(home) as (client, gateway):
        await client.post("/v1/memories", json={"text": SECRET, "user_id": "ana"})
        await gateway.settle()
        numbers = []
        for number in range(6):
            asked: dict[str, Any] = {"query": f"mill {number}", "user_id": f"user{number}", "session_id": f"s{number}"}
            asked["backends"] = ["good"]  # the breaker of the other one would open, which is one label more
            await client.post("/v1/fuse", json=asked)
            await client.get(f"/v1/why/m{number}")
            await client.get(f"/elsewhere/{number}")
            await client.request(f"ODD{number}", "/v1/fuse")
            numbers.append(len(await read(client)))
        text = (await client.get("/metrics")).text
    for secret in ("mill", "ana", "user1", "elsewhere", "ODD", "m1z"):
        assert not re.search(rf'"[^"]*{secret}[^"]*"', text), secret
    assert len(set(numbers[1:])) == 1


def test_requests_are_counted_by_door() -> None:
    assert [door_of(route) for route in ("/v1/fuse", "/mcp/cortex", "/qmd/search", "other")] == [
        "http",
        "mcp",
        "qmd",
        "http",
    ]
    counts = RequestCounts()
    counts.note({"method": "GET", "path": "/docs", "endpoint": object()}, 200, 0.004)
    assert counts.total == {("GET", "/docs", 200): 1}


def test_histogram_is_cumulative() -> None:
    found = Histogram()
    for seconds in (0.0005, 0.001, 0.3, 99.0):
        found.observe(seconds)
    assert found.cumulative()[0] == ("0.001", 2)
    assert found.cumulative()[-2:] == [("10.0", 3), ("+Inf", 4)]


# What ships with it ---------------------------------------------------------------------------------------------------


def expressions() -> Iterator[str]:
    """Every expression of the dashboard and the alerts."""
    for panel in json.loads((OBSERVE / "dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in yaml.safe_load((OBSERVE / "alerts.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


@pytest.mark.feature("compose/observe.yaml: Prometheus, Grafana, a dashboard and alerts, of metrics that exist")
async def test_dashboard_and_alerts_name_metrics_that_exist(home: Path) -> None:
    async with served(home) as (client, _):
        text = (await client.get("/metrics")).text
    families = {family.name: family.type for family in text_string_to_metric_families(text)}
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    exist = {name + suffix for name, kind in families.items() for suffix in suffixes.get(kind, ("",))}
    named = {name for one in expressions() for name in re.findall(r"\b(?:fusion|process)_[a-z_]+\b", one)}
    assert len(named) > 15
    assert named <= exist, named - exist
    assert {name for name in families if name.startswith("fusion_")} <= {
        re.sub(r"_(total|bucket)$", "", name) for name in named
    } | {"fusion_uptime_seconds"}


def test_dashboard_fits_its_files() -> None:
    """The data source that panels name is the one that is provisioned, and no two panels share a place."""
    dashboard = json.loads((OBSERVE / "dashboard.json").read_text())
    (source,) = yaml.safe_load((OBSERVE / "datasource.yaml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {source["uid"]}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
