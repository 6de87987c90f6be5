"""The client: asks as the server answers, raises what the server raised."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.bad_servers import WAYS, Way, bad_server
from fusion import errors, problem
from fusion.client import LOG, AsyncClient, Client, ensure_server, stop_server
from fusion.contract import Asker
from fusion.errors import (
    BadInput,
    FusionError,
    HomeLocked,
    NobodyAnswered,
    NotFound,
    Overloaded,
    ServerUnreachable,
    SettingsError,
)
from fusion.home import HomeLock, ServerRecord, write_record
from fusion.local_server import running_server
from fusion.settings import KeySettings, ServerSettings, Settings
from fusion.trust import allow, make_home
from fusion.trust.token import home_token
from tests.doors.contract import Checked
from tests.doors.fakes import COVERAGE, FakeFusion, app_over, serving, serving_home


def over(fusion: FakeFusion, settings: Settings | None = None, **options: Any) -> AsyncClient:
    return AsyncClient.over(Checked(app_over(fusion, settings)), **options)


class TestBothClients:
    async def test_async_client_methods_call_their_routes(self) -> None:
        """The asynchronous client, over each route."""
        fusion = FakeFusion()
        async with over(fusion) as client:
            budget = {"budget_tokens": 300, "max_items": 5, "format": "cortex", "asker": {"session_id": "s1"}}
            assert (await client.fuse("q", user_id="u", max_results=3, **budget))["receipt_id"] == "r1"
            assert (await client.search("markdown", "q", user_id="u"))["hits"][0]["native_id"] == "n1"
            assert (await client.remember({"text": "a"}, idempotency_key="k"))["memories"][0]["status"] == "stored"
            assert len((await client.remember([{"text": "b"}, {"text": "c"}]))["memories"]) == 2
            assert (await client.memory("m1z", user_id="u"))["ref"] == "m1z"
            page = await client.memories(limit=1, user_id="u", document="d")
            assert (page["memories"][0]["ref"], page["next_cursor"]) == ("m1z", "c1")
            assert (await client.memories(cursor="c1"))["next_cursor"] is None
            assert (await client.forget("m1z"))["ref"] == "m1z"
            assert (await client.backends())["backends"][0]["name"] == "markdown"
            assert (await client.receipt("r1"))["receipt_id"] == "r1"
            assert (await client.receipts(user_id="u", limit=1))["receipts"][0]["refs"] == ["m1z"]
            assert (await client.settle(60))["settled"] is True
            assert (await client.ready())["ready"] is True
            assert (await client.health())["pid"] == os.getpid()
        assert fusion.requests[0].scope.user_id == "u"
        asked = fusion.requests[0]
        assert (asked.max_results, asked.budget_tokens, asked.max_items, asked.format) == (3, 300, 5, "cortex")
        assert asked.asker == Asker(session_id="s1")

    async def test_sync_client_returns_the_same_replies(self) -> None:
        """Same questions, same answers, over a real connection."""
        async with serving(FakeFusion()) as url:

            def ask() -> tuple[str, str, str]:
                with Client(url) as client:
                    fused = client.fuse("q", user_id="u")
                    kept = client.remember({"text": "a"})
                    with pytest.raises(NotFound, match="no such memory"):
                        client.forget("m9")
                    return fused["block"], kept["memories"][0]["ref"], client.health()["status"]

            assert await asyncio.to_thread(ask) == ("<memory>[m1z] We move to Postgres in April.</memory>", "m0", "ok")

    def test_clients_have_the_same_methods(self) -> None:
        """Nothing can be asked by one that the other cannot ask; how a verb goes on is told to who has a loop."""

        def public(kind: type) -> set[str]:
            return {name for name in vars(kind) if not name.startswith("_")} - {"over", "stream"}

        assert public(Client) == public(AsyncClient)


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            BadInput("wrong"),
            errors.KeyReused("again"),
            errors.KeyInUse("wait", retry_after_s=2),
            NotFound("gone"),
            Overloaded("busy", retry_after_s=2),
            NobodyAnswered("nobody", {"coverage": COVERAGE}, retry_after_s=7),
            errors.StoreFull("full"),
            errors.StoreBusy("busy", retry_after_s=3),
            errors.StoreDamaged("torn"),
            errors.RateLimited("slowly", retry_after_s=9),
            errors.HttpStatus("teapot", 418),
        ],
    )
    async def test_client_raises_the_servers_error(self, error: FusionError) -> None:
        """Same class, same words, same numbers."""
        async with over(FakeFusion(error=error)) as client:
            with pytest.raises(FusionError) as caught:
                await client.fuse("q")
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert problem.retry_after_s(caught.value) == problem.retry_after_s(error)
        if isinstance(caught.value, NobodyAnswered):
            assert caught.value.details == {"coverage": COVERAGE}

    @pytest.mark.feature("the Python client raises what the server raised")
    def test_every_error_survives_problem_json(self) -> None:
        """Also those that no route raises today; unknown ones fall back on their status."""
        assert isinstance(problem.error_of({"type": "about:blank", "detail": "d"}, 503), Overloaded)
        assert isinstance(problem.error_of({"type": "urn:memory-fusion:error:FromTheFuture"}, 404), NotFound)
        assert isinstance(problem.error_of({}, 400), BadInput)
        assert type(problem.error_of({}, 500)) is FusionError

    @pytest.mark.feature("text that is not Unicode is refused before it is sent, with a clear error")
    @pytest.mark.parametrize("method", ["fuse", "remember", "memory", "why", "forget"])
    def test_text_that_is_not_unicode_is_refused(self, method: str) -> None:
        """A shell passes on the byte ff as it is: in a body, in a path and in a query string."""
        build = getattr(Client, method)

        def request() -> None:
            call = build(ref="m\udcff") if method == "forget" else build("heron \udcff")
            call.content()
            call.target("http://127.0.0.1")

        with pytest.raises(BadInput, match="is not Unicode"):
            request()

    async def test_client_without_key_names_the_fix(self) -> None:
        """401 is a matter of settings here."""
        settings = Settings(server=ServerSettings(keys=(KeySettings(name="a", sha256="0" * 64),)))
        async with over(FakeFusion(), settings) as client:
            with pytest.raises(SettingsError, match="FUSION_API_KEY"):
                await client.fuse("q")

    @pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'"x"'])
    async def test_client_refuses_the_reply_of_another_program(self, body: bytes) -> None:
        """Whatever it says, it is not ours."""
        transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
        async with AsyncClient.over(transport) as client:
            with pytest.raises(ServerUnreachable, match="not as a memory-fusion server does"):
                await client.backends()

    async def test_client_without_server_raises_unreachable(self) -> None:
        """Says where it looked, and what starts a server."""

        def refuse(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused")

        async with AsyncClient.over(httpx.MockTransport(refuse)) as client:
            with pytest.raises(ServerUnreachable, match=r"localhost.*refused.*fusion serve"):
                await client.backends()

    async def test_client_timeout_raises_unreachable(self) -> None:
        """A server that never answers costs the client's time, and no more."""
        async with serving(FakeFusion(hold=asyncio.Event())) as url, AsyncClient(url, timeout_s=0.05) as client:
            with pytest.raises(ServerUnreachable, match="not answer in time"):
                await client.fuse("q")

    async def test_client_timeout_bounds_a_trickling_reply(self) -> None:
        """Each byte comes in time, all together too late: the deadline is for the whole."""
        stop, ended = asyncio.Event(), asyncio.Event()

        async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not stop.is_set():
                writer.write(b" ")
                await asyncio.sleep(0.005)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            ended.set()

        server = await asyncio.start_server(trickle, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        def ask() -> None:
            with Client(url, timeout_s=0.1) as client:
                client.backends()

        try:
            with pytest.raises(ServerUnreachable, match="not answer in time"):
                await asyncio.to_thread(ask)
        finally:
            stop.set()
            await ended.wait()
            server.close()
            await server.wait_closed()

    async def test_client_refuses_a_truncated_reply(self) -> None:
        """Half of a JSON text may be JSON itself: {"status": "ok"} of 15 bytes, when 100 were announced."""

        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"status":"ok"}')
            writer.close()

        server = await asyncio.start_server(cut, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        def ask() -> None:
            with Client(url) as client:
                client.health()

        async with server:
            with pytest.raises(ServerUnreachable, match="does not answer"):
                await asyncio.to_thread(ask)
            async with AsyncClient(url) as client:
                with pytest.raises(ServerUnreachable, match="does not answer"):
                    await client.health()


@pytest.mark.feature("the client imports neither httpx nor asyncio")
def test_client_import_is_light() -> None:
    """Every command starts with it: without httpx and asyncio, which take three times as long as the rest."""
    code = (
        "import sys, fusion.client; print([m for m in ('httpx', 'asyncio', 'pydantic', 'typer') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


class TestFindingTheServer:
    async def test_client_finds_the_homes_server_by_record(self, home: Path) -> None:
        """server.json says where, /healthz that it is still that process."""
        async with serving_home(home, FakeFusion()), AsyncClient.of_home(home, start=False) as client:
            assert (await client.fuse("q"))["receipt_id"] == "r1"

    async def test_client_refuses_another_process_on_the_port(self, home: Path) -> None:
        """A stale record whose port was taken over by another home's server."""
        make_home(home)
        async with serving(FakeFusion()) as url:
            write_record(home, ServerRecord(os.getpid() + 1, url, "long ago"))
            assert await asyncio.to_thread(running_server, home) is None

    def test_client_ignores_a_stale_record(self, home: Path) -> None:
        """Nobody listens there any more."""
        make_home(home)
        write_record(home, ServerRecord(os.getpid(), "http://127.0.0.1:9", "long ago"))
        assert running_server(home) is None
        assert stop_server(home) is None
        with pytest.raises(ServerUnreachable, match="fusion serve --home"), Client.of_home(home, start=False) as client:
            client.backends()

    def test_ensure_server_raises_when_home_is_open_elsewhere(self, home: Path) -> None:
        """`fusion ingest --direct` will not answer: the error names it at once."""
        with HomeLock.take(home, "fusion ingest --direct"), pytest.raises(HomeLocked, match="fusion ingest --direct"):
            ensure_server(home)

    def test_ensure_server_reports_why_the_start_failed(self, home: Path) -> None:
        """The last words of its log are in the error."""
        home.mkdir()
        (home / "fusion.toml").write_text("[server]\nprot = 1\n")
        allow(home)
        with pytest.raises(ServerUnreachable, match="prot"):
            ensure_server(home)

    @pytest.mark.feature("a server that did not start is reported with the last lines of its log")
    def test_ensure_server_reports_the_log_of_this_start_only(self, home: Path) -> None:
        """All servers of a home write into one log; what an earlier one said explains nothing."""
        home.mkdir()
        (home / LOG).write_text("an earlier server: the disk is on fire\n")
        (home / "fusion.toml").write_text("[server]\nprot = 1\n")
        allow(home)
        with pytest.raises(ServerUnreachable, match="prot") as caught:
            ensure_server(home)
        assert "fire" not in str(caught.value)

    @pytest.mark.feature("a server that never gets ready costs only its caller's time")
    def test_ensure_server_gives_up_after_timeout(self, home: Path) -> None:
        """Its owner says that it serves, and nobody answers: after 0.1 s there is an error, and no second server."""
        with HomeLock.take(home, "fusion serve"), pytest.raises(ServerUnreachable, match=r"after 0\.1 s"):
            ensure_server(home, timeout_s=0.1)
        assert not (home / LOG).exists()

    @pytest.mark.feature("`remember` during a server's start waits for it")
    async def test_ensure_server_waits_for_a_starting_server(self, home: Path) -> None:
        """Its process has the home and has not said yet where it answers: what was to be remembered is, once it has."""
        make_home(home)
        fusion = FakeFusion()
        with HomeLock.take(home, "fusion serve"):
            waiting = asyncio.create_task(asyncio.to_thread(ensure_server, home, timeout_s=0.05, starting_s=30.0))
            await asyncio.wait({waiting}, timeout=0.3)
            assert not waiting.done()
            async with serving(fusion, app=app_over(fusion, local_token=home_token(home))) as url:
                write_record(home, ServerRecord(os.getpid(), url, "now"))
                assert (await waiting).url == url
                async with AsyncClient.of_home(home) as client:
                    assert (await client.remember({"text": "a"}))["memories"][0]["status"] == "stored"

    def test_stop_server_raises_when_server_hangs(self, home: Path) -> None:
        """It has the home, so there is one: who it is, and what ends it."""
        with HomeLock.take(home, "fusion serve"), pytest.raises(ServerUnreachable, match=f"kill -9 {os.getpid()}"):
            stop_server(home, timeout_s=0.1)


class TestAutoRecall:
    @pytest.mark.row("A096", "both clients have a recall for prompts: a block in 200 ms or nothing, and no error")
    async def test_auto_recall_returns_the_block_of_seed002(self, home: Path) -> None:
        """The server has three quarters of the time, a minute at most; other fields go before the defaults."""
        fusion = FakeFusion()
        async with serving_home(home, fusion), AsyncClient.of_home(home, start=False) as client:
            block = await client.auto_recall("where do chains come from?", timeout_s=60, user_id="ada")
            with Client.of_home(home, start=False) as blocking:
                same = await asyncio.to_thread(blocking.auto_recall, "x" * 50_000, timeout_s=600, recipe="hook")
        assert block == same == "<memory>[m1z] We move to Postgres in April.</memory>"
        first, second = fusion.requests
        assert (first.recipe, first.timeout_ms, first.scope.user_id) == ("seed002", 45_000, "ada")
        assert (second.recipe, second.timeout_ms, len(second.query)) == ("hook", 60_000, 32_000)

    @pytest.mark.parametrize("way", [way for way in WAYS if way != "dead"])
    async def test_auto_recall_goes_on_without_a_bad_server(
        self, home: Path, way: Way, caplog: pytest.LogCaptureFixture
    ) -> None:
        """On real sockets: both wait no longer than they have, where their requests would wait half a minute."""
        with bad_server(home, way):
            async with AsyncClient.of_home(home, start=False) as client:
                assert await client.auto_recall("where do chains come from?", timeout_s=0.05) == ""
            with Client.of_home(home, start=False) as blocking:
                assert await asyncio.to_thread(blocking.auto_recall, "where is it?", timeout_s=0.05) == ""
        assert caplog.text.count("the prompt goes on without memories") >= 2

    async def test_auto_recall_raises_nothing(self, home: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Neither for a server's error, nor without any server, nor for a wrong field."""
        async with serving_home(home, FakeFusion(error=BadInput("no"))):
            async with AsyncClient.of_home(home, start=False) as client:
                assert await client.auto_recall("where is it?", timeout_s=60) == ""
                assert await client.auto_recall("where is it?", timeout_s=60, no_such_field=1) == ""
            with Client.of_home(home, start=False) as blocking:
                assert await asyncio.to_thread(blocking.auto_recall, "where is it?", timeout_s=60) == ""
        with Client.of_home(home, start=False) as blocking:
            assert blocking.auto_recall("where is it?", timeout_s=60) == ""
            assert blocking.auto_recall("where is it?", timeout_s=60, no_such_field=1) == ""
        assert "BadInput" in caplog.text
