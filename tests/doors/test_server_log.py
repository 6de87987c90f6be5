"""The log of a server: its two formats, ids of requests, and `fusion logs`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.server_log import JsonLines, TextLines, entries, is_wanted, since_of
from fusion.errors import BadInput
from fusion.gateway.otel_spans import OtelTracer
from fusion.lib import trace
from fusion.lib.request_id import REQUEST_ID
from fusion.trust import allow
from tests.doors.fakes import SMALL, FakeFusion, app_over

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
TRACE = "0af7651916cd43dd8448eb211c80319c"
EVIL = "\x1b[2J\u202e"


@contextmanager
def logged(formatter: logging.Formatter, level: int = logging.DEBUG) -> Iterator[StringIO]:
    """What the package logs in this block, in this format."""
    stream = StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("fusion")
    handler.setFormatter(formatter)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@pytest.mark.feature("the log has a line or a JSON object for each record, with the id of its request")
@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
def test_log_is_read_as_it_was_written(formatter: logging.Formatter) -> None:
    log = logging.getLogger("fusion.example")
    with logged(formatter) as stream:
        log.warning("the store %s is slow", "good")
        token = REQUEST_ID.set("r-1")
        try:
            raise ValueError("no")
        except ValueError:
            log.exception("it failed")
        finally:
            REQUEST_ID.reset(token)
        log.info("later")
    first, second, third = entries(stream.getvalue().splitlines(keepends=True))
    assert (first["level"], first["logger"]) == ("warning", "fusion.example")
    assert first["message"] == "the store good is slow"
    assert "request" not in first
    assert abs(datetime.fromisoformat(first["at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    assert (second["level"], second["message"].partition("\n")[0]) == ("error", "it failed")
    assert "ValueError: no" in second["trace"]
    assert (third["message"], "request" in third) == ("later", False)


def test_record_of_a_request_has_its_id() -> None:
    token = REQUEST_ID.set("r-1")
    try:
        for formatter in (TextLines(), JsonLines()):
            with logged(formatter) as stream:
                logging.getLogger("fusion.example").warning("slow")
            (entry,) = entries(stream.getvalue().splitlines())
            assert (entry["message"], entry["request"]) == ("slow", "r-1")
    finally:
        REQUEST_ID.reset(token)


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()], ids=["text", "json"])
@pytest.mark.parametrize("request_id", ["r-1", ""])
def test_record_in_a_trace_has_its_id(formatter: logging.Formatter, request_id: str) -> None:
    """Also without a request, as in a job; the last line is of a span that is over."""
    spans = InMemorySpanExporter()
    tracer = OtelTracer(SimpleSpanProcessor(spans), DEFAULT_ON, Resource.create({}))
    log = logging.getLogger("fusion.example")
    token = REQUEST_ID.set(request_id)
    try:
        with trace.installed(tracer), logged(formatter) as stream:
            with trace.span("work", parent=f"00-{TRACE}-b7ad6b7169203331-01"):
                log.warning("slow [request of a kind]")
            log.warning("over", extra={"trace_id": TRACE})
            log.warning("apart")
    finally:
        REQUEST_ID.reset(token)
    found = list(entries(stream.getvalue().splitlines()))
    assert [one["message"] for one in found] == ["slow [request of a kind]", "over", "apart"]
    assert [one.get("trace_id") for one in found] == [TRACE, TRACE, None]
    assert [one.get("request") for one in found] == [request_id or None] * 3


@pytest.mark.feature("with tracing on, a line of the log names its trace; `fusion logs --trace` finds it by that")
async def test_a_traced_request_is_logged_with_its_trace(home: Path) -> None:
    """Refused by a route, refused by the gate before there is a span, and failed by a fault of ours."""
    gate = app_over(FakeFusion())
    transport = httpx.ASGITransport(app=gate)
    tracer = OtelTracer(SimpleSpanProcessor(InMemorySpanExporter()), DEFAULT_ON, Resource.create({}))
    head = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "x-request-id": "mine-1"}
    with trace.installed(tracer), logged(JsonLines(), logging.INFO) as stream:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/secret/path", headers=head)
            await client.get("/healthz", headers={**head, "host": "evil.example"})
            await client.get("/secret/path")
    first, second, third = entries(stream.getvalue().splitlines())
    assert (first["trace_id"], first["request"]) == (TRACE, "mine-1")
    assert "trace_id" not in second
    assert len(third["trace_id"]) == 32
    assert third["trace_id"] != TRACE
    assert is_wanted(first, "info", None, None, TRACE)
    assert not is_wanted(third, "info", None, None, TRACE)
    assert "secret" not in stream.getvalue()


@pytest.mark.feature("requests are logged by their route and id: refused and failed ones, and all others for debugging")
async def test_requests_are_logged_by_route(home: Path) -> None:
    gate = app_over(FakeFusion())
    transport = httpx.ASGITransport(app=gate)
    with logged(JsonLines(), logging.INFO) as stream:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/healthz")
            refused = await client.get("/secret/path", headers={"x-request-id": "mine-1"})
            odd = await client.get("/healthz", headers={"host": "evil.example", "x-request-id": "a b"})
    found = list(entries(stream.getvalue().splitlines()))
    assert [one["message"].partition(" in ")[0] for one in found] == ["GET other: 404", "GET other: 421"]
    assert [one["request"] for one in found] == [refused.headers["x-request-id"], odd.headers["x-request-id"]]
    assert found[0]["request"] == "mine-1"
    assert "secret" not in stream.getvalue()
    assert REQUEST_ID.get() == ""


def test_entries_keep_lines_of_no_format() -> None:
    """What a library prints, a trace, a line that was cut, and an object of somebody else."""
    lines = ["Killed\n", '{"at": 1}\n', "2026-03-14 09:30:00,123 INFO fusion.serve: ready\n", "  File x\n", "{broken\n"]
    first, second = entries(lines)
    assert (first["message"], first["trace"]) == ("Killed", '{"at": 1}')
    assert (second["message"], second["trace"]) == ("ready", "  File x\n{broken")


def test_entries_are_chosen_by_level_time_and_request() -> None:
    entry = {"at": "2026-03-14T09:00:00+00:00", "level": "warning", "logger": "x", "message": "m", "request": "r1"}
    assert is_wanted(entry, "info", NOW - timedelta(hours=1), "r1")
    assert not is_wanted(entry, "error", None, None)
    assert not is_wanted(entry, "info", NOW, None)
    assert not is_wanted(entry, "info", None, "r2")
    assert is_wanted({**entry, "at": None, "level": "odd"}, "info", NOW, None)


def test_since_is_a_span_or_a_time() -> None:
    assert since_of("30m", NOW) == NOW - timedelta(minutes=30)
    assert since_of("1d", NOW) == NOW - timedelta(days=1)
    assert since_of("2026-03-14T08:00:00+00:00", NOW) == NOW - timedelta(minutes=90)
    for bad in ("", "m", "yesterday", "1w", "9999999m"):
        with pytest.raises(BadInput, match="Write 30m"):
            since_of(bad, NOW)


@pytest.fixture
def kept(home: Path) -> Path:
    """A home with a log, and the one before it."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    (home / "server.log.1").write_text("2026-03-14 09:30:00,000 INFO fusion.serve: first\n")
    (home / "server.log").write_text(
        '{"at": "2026-03-14T10:00:00.000+00:00", "level": "warning", "logger": "fusion.a", "message": "second", '
        f'"request": "r1"}}\n2026-03-14 10:30:00,000 ERROR fusion.b: third {EVIL} [trace {TRACE}]\n'
    )
    return home


@pytest.mark.feature("`fusion logs`: by level, time and request, as JSON; control characters do not reach the terminal")
def test_logs_shows_what_was_logged(kept: Path) -> None:
    def shown(*options: str) -> str:
        done = CliRunner().invoke(app, ["logs", "--home", str(kept), *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert [line.split(": ")[1].split(" ")[0] for line in shown().splitlines()] == ["first", "second", "third"]
    assert "WARNING fusion.a: second [request r1]" in shown("--level", "warning")
    assert "first" not in shown("--level", "warning")
    assert shown("--request", "r1").count("\n") == 1
    for one in (TRACE, TRACE.upper(), f"00-{TRACE}-b7ad6b7169203331-01"):
        assert shown("--trace", one).count("\n") == 1
    assert shown("--trace", "a" * 32) == ""
    wrong = CliRunner().invoke(app, ["logs", "--home", str(kept), "--trace", "a1"])
    assert (wrong.exit_code, "32 hexadecimal digits" in " ".join(wrong.output.split())) == (2, True)
    assert shown("--since", "1s") == ""
    entry = json.loads(shown("--json", "--level", "error"))
    assert (entry["logger"], entry["level"]) == ("fusion.b", "error")
    command = [sys.executable, "-m", "fusion", "logs", "--home", str(kept)]
    assert "\x1b" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_logs_of_a_home_without_a_log_says_so(home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    done = CliRunner().invoke(app, ["logs", "--home", str(home)])
    assert done.exit_code == 2
    assert "no command has started a server of this home yet" in done.stderr


@pytest.mark.feature("… `--follow` goes on with what is logged, also when the log begins anew", of="`fusion logs`")
def test_logs_follows_the_log(kept: Path) -> None:
    command = [sys.executable, "-m", "fusion", "logs", "--home", str(kept), "--follow", "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stdout is not None
            for word in ("first", "second", "third"):
                assert json.loads(running.stdout.readline())["message"].startswith(word)
            with (kept / "server.log").open("a") as opened:
                opened.write("2026-03-14 11:00:00,000 INFO fusion.c: fourth\n")
            assert json.loads(running.stdout.readline())["message"] == "fourth"
            (kept / "server.log").write_text("2026-03-14 12:00:00,000 INFO fusion.c: anew\n")
            assert json.loads(running.stdout.readline())["message"] == "anew"
        finally:
            running.kill()
