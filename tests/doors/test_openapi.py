"""The OpenAPI document is true: what it says is taken is taken, and what is answered is as it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from pydantic import BaseModel

from fusion.client import ensure_server, stop_server
from fusion.doors import bodies
from fusion.doors.openapi import document
from fusion.home import ServerRecord
from fusion.settings import ServerSettings, Settings
from tests.doors.fakes import SMALL, FakeFusion, app_over

HOST = "testserver"  # what schemathesis calls an application in this process
APP = app_over(FakeFusion(), Settings(server=ServerSettings(allowed_hosts=(HOST,))))
NOT_OURS = [
    schemathesis.checks.positive_data_acceptance,  # a blank query fits the schema, and still asks nothing
    schemathesis.checks.unsupported_method,  # a POST without JSON is refused before it is routed: 415, not 405
]
CHECKS: dict[str, Any] = {"negative_data_rejection": {"expected-statuses": [404, 413, 415, 422]}}
CONFIG = schemathesis.config.SchemathesisConfig.from_dict({"checks": CHECKS})
schema = schemathesis.openapi.from_asgi("/openapi.json", APP, config=CONFIG)


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_schemathesis_finds_no_5xx_and_no_lie(case: schemathesis.Case[Any]) -> None:
    """Generated requests, sane and not: never a 5xx, and every reply has a status, type and shape as documented."""
    case.call_and_validate(excluded_checks=NOT_OURS)


# Asked to answer within a millisecond, a real server may honestly say that nobody did.
IN_TIME_OR_NOT = {"not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 503]}}
REAL = schemathesis.config.SchemathesisConfig.from_dict({"checks": CHECKS | IN_TIME_OR_NOT})
real = schemathesis.openapi.from_dict(document(), config=REAL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRecord]:
    """A server with an engine, a journal and a backend behind it."""
    home = tmp_path_factory.mktemp("openapi") / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    yield ensure_server(home)
    stop_server(home)


@pytest.mark.feature("schemathesis finds no 5xx in the whole server")
@pytest.mark.feature("NUL, surrogates, NaN, 1e400, deep JSON: 4xx, never 5xx", part="faults/clients")
@real.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_schemathesis_finds_nothing_in_the_whole_server(case: schemathesis.Case[Any], served: ServerRecord) -> None:
    """The same over a real connection, down to the stores: what gets through the door breaks nothing behind it."""
    headers = {"authorization": f"Bearer {served.token}"}
    case.call_and_validate(base_url=served.url, headers=headers, excluded_checks=NOT_OURS)


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [(m, path, operation) for path, item in document()["paths"].items() for m, operation in item.items()]


@pytest.mark.parametrize(("method", "path", "operation"), operations())
def test_every_operation_shows_examples(method: str, path: str, operation: dict[str, Any]) -> None:
    """A reader sees what to send and what comes back."""
    replies = operation["responses"]
    assert replies["200"]["content"]["application/json"]["example"]
    if method == "post":
        content = operation["requestBody"]["content"]["application/json"]
        assert "example" in content or "examples" in content
    assert "application/problem+json" in replies["422"]["content"]


def test_the_examples_are_valid() -> None:
    """What the document shows is taken by the models that check requests."""
    models: dict[str, type[BaseModel]] = {
        "/fuse": bodies.FuseBody,
        "/v1/compare": bodies.CompareBody,
        "/v1/feedback": bodies.FeedbackBody,
        "/v1/search": bodies.SearchBody,
        "/v1/settle": bodies.SettleBody,
    }
    for path, model in models.items():
        example = document()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        model.model_validate(example)
    content = document()["paths"]["/v1/memories"]["post"]["requestBody"]["content"]["application/json"]
    bodies.MemoryBody.model_validate(content["examples"]["one"]["value"])


def test_a_server_with_keys_says_so() -> None:
    """Every route but the probes wants a Bearer key."""
    assert document(needs_key=True)["security"] == [{"key": []}]
    assert document()["security"] == []
    assert document(needs_key=True)["paths"]["/healthz"]["get"]["security"] == []
