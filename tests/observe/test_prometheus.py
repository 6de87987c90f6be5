"""A real Prometheus with our settings and alerts reads a real gateway, and Grafana's schema reads our dashboard.

`make test-observe` installs both.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml  # type: ignore[import-untyped]

from fusion.client import Client, ensure_server
from fusion.doors.http.serve import listen
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.doors.fakes import SMALL, server_stopped

HERE = Path(__file__).parent
OBSERVE = HERE.parents[1] / "compose" / "observe"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
GRAFANA_PYTHON = os.environ.get("GRAFANA_PYTHON", "")
needs_prometheus = pytest.mark.skipif(
    not (PROMETHEUS and PROMTOOL), reason="Prometheus is not installed; `make observe` tries to"
)
needs_grafana = pytest.mark.skipif(not GRAFANA_PYTHON, reason="no SDK of Grafana is installed: make test-observe")
pytestmark = [pytest.mark.observe, pytest.mark.timeout(300)]
PATIENT_S = 120


class Prometheus:
    """A Prometheus that runs, asked over its own API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        return httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=PATIENT_S).raise_for_status().json()["data"]

    def value(self, expression: str) -> float | None:
        """The value of the first series of an expression; None without one."""
        found = self.get("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until it has read what makes this so."""
        limit = time.monotonic() + PATIENT_S
        while not true():
            assert time.monotonic() < limit, self.get("targets")["activeTargets"]
            time.sleep(0.1)


def settings_for(gateway: str, token: str, folder: Path) -> Path:
    """Our settings of Prometheus for this gateway, in a folder with our alerts; all else is as we ship it."""
    settings = yaml.safe_load((OBSERVE / "prometheus.yaml").read_text(encoding="utf-8"))
    settings["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    (job,) = settings["scrape_configs"]
    job["static_configs"] = [{"targets": [urlsplit(gateway).netloc]}]
    job["authorization"]["credentials_file"] = str(folder / "key")
    (folder / "key").write_text(token, encoding="utf-8")
    shutil.copy(OBSERVE / "alerts.yaml", folder)
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


@contextmanager
def reading(settings: Path) -> Iterator[Prometheus]:
    with closing(listen("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    command = [
        str(PROMETHEUS),
        f"--config.file={settings}",
        f"--storage.tsdb.path={settings.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("Server is ready" in line for line in process.stderr)
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.stderr.read()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL, encoding="utf-8")
    allow(home)
    with server_stopped(home):
        yield home


def expressions() -> Iterator[str]:
    """Every expression of the dashboard and the alerts, as Prometheus is asked for it."""
    for panel in json.loads((OBSERVE / "dashboard.json").read_text(encoding="utf-8"))["panels"]:
        yield from (re.sub(r"\$__\w*interval|\$__range", "1m", target["expr"]) for target in panel["targets"])
    for group in yaml.safe_load((OBSERVE / "alerts.yaml").read_text(encoding="utf-8"))["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


@pytest.mark.feature("a real Prometheus with the settings and alerts of compose/observe reads a real gateway")
@needs_prometheus
def test_prometheus_reads_a_gateway_and_hears_when_it_is_down(home: Path, tmp_path: Path) -> None:
    url = ensure_server(home).url
    settings = settings_for(url, home_token(home), tmp_path)
    subprocess.run([str(PROMTOOL), "check", "config", str(settings)], check=True, capture_output=True)
    with reading(settings) as prometheus, Client.of_home(home) as memory:
        memory.remember([{"text": "The mill is closed in March."}])
        memory.settle()
        for _ in range(3):
            memory.fuse("when is the mill closed?")
        prometheus.until(lambda: prometheus.value('sum(fusion_questions_total{outcome="answered"})') == 3)
        assert prometheus.value('up{job="memory-fusion"}') == 1
        for expression in expressions():
            assert prometheus.get("query", query=expression)["resultType"] == "vector", expression
        for expression in ("sum(fusion_request_seconds_count)", 'fusion_breaker_state{state="closed"}'):
            assert prometheus.value(expression), expression
        prometheus.until(lambda: {one["health"] for one in rules_of(prometheus)} == {"ok"})
        assert {one["state"] for one in rules_of(prometheus)} == {"inactive"}
        with server_stopped(home):
            pass
        prometheus.until(lambda: {"FusionDown"} == {r["name"] for r in rules_of(prometheus) if r["state"] == "pending"})


def rules_of(prometheus: Prometheus) -> list[dict[str, Any]]:
    (group,) = prometheus.get("rules")["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.mark.feature("each alert fires when it should, and not before")
@needs_prometheus
def test_each_alert_is_heard_of_when_it_should_be() -> None:
    ran = subprocess.run(
        [str(PROMTOOL), "test", "rules", "alerts_test.yaml"], cwd=HERE, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cases = yaml.safe_load((HERE / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    (group,) = yaml.safe_load((OBSERVE / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    heard = {one["alertname"] for case in cases for one in case["alert_rule_test"] if one.get("exp_alerts")}
    assert heard == {rule["alert"] for rule in group["rules"]}


@pytest.mark.feature("Grafana's schema knows every part of the dashboard")
@needs_grafana
def test_schema_of_grafana_knows_every_part_of_the_dashboard() -> None:
    checked = subprocess.run(
        [GRAFANA_PYTHON, str(HERE / "dashboard.py"), str(OBSERVE / "dashboard.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert checked.stdout.splitlines() == []
