"""Wake-ups between gateways, on a real server: woken at once, after a cut too, and not needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

from tests.postgres.relay import Relay
from tests.postgres.servers import Database

psycopg = pytest.importorskip("psycopg")

from psycopg.conninfo import conninfo_to_dict  # noqa: E402

from fusion.store import notifications as module  # noqa: E402 – imported late, as its package is optional
from fusion.store.postgres import Server  # noqa: E402


class Woken:
    """Counts wakes."""

    def __init__(self) -> None:
        self.times, self._event = 0, asyncio.Event()

    def __call__(self) -> None:
        self.times += 1
        self._event.set()

    async def once_more(self) -> None:
        await self._event.wait()
        self._event.clear()


class Tried(module.Notifications):
    """Sets ``often`` at the fifth try to listen."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.tries, self.often = 0, asyncio.Event()

    async def _follow(self) -> NoReturn:
        self.tries += 1
        if self.tries == 5:
            self.often.set()
        await super()._follow()


@asynccontextmanager
async def listening(url: str, **woken: Woken) -> AsyncIterator[Server]:
    """A server that listens; ``woken`` by schema are subscribed before it does, so that they are woken when it does."""
    server = Server(url)
    await asyncio.to_thread(server.open)
    for schema, one in woken.items():
        server.notifications.subscribe(schema, one)
    task = asyncio.create_task(server.notifications.listen())
    try:
        yield server
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(server.close)


async def test_a_change_wakes_the_other_gateways_subscribers_of_that_schema(postgres_database: Database) -> None:
    mine, other, elsewhere = Woken(), Woken(), Woken()
    async with (
        listening(postgres_database.url, fusion_a=mine) as one,
        listening(postgres_database.url, fusion_a=other, fusion_b=elsewhere) as two,
    ):
        for woken in (mine, other, elsewhere):
            await woken.once_more()  # once they listen
        for _ in range(3):
            one.notifications.announce("fusion_a")
            await other.once_more()
        two.notifications.announce("fusion_a")  # its own is not for it, and comes after all others
        await mine.once_more()
        assert (mine.times, elsewhere.times) == (2, 1)


async def test_a_gateway_whose_connection_is_cut_listens_again(
    postgres_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """It wakes everybody when it listens again, for what was announced meanwhile."""
    async with listening(postgres_database.url) as one, listening(postgres_database.url) as two:
        woken = Woken()
        two.notifications.subscribe("fusion_a", woken)
        await woken.once_more()
        async with await psycopg.AsyncConnection.connect(postgres_database.admin_url, autocommit=True) as admin:
            await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%'")
        await woken.once_more()
        one.notifications.announce("fusion_a")
        await woken.once_more()
        assert woken.times == 3
    assert caplog.text.count("sends no notifications now") == 2  # one line of each gateway


@pytest.mark.parametrize(
    "replaced", [(b"listen fusion", b"lissen fusion"), (b"listen fusion", b"listen fusio_")], ids=["refused", "lost"]
)
async def test_without_notifications_one_line_of_the_log_says_so(
    postgres_database: Database,
    replaced: tuple[bytes, bytes],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pooler that shares connections refuses to listen, or loses what is sent; it is tried again in silence."""
    monkeypatch.setattr(module, "PROBE_S", 0.05)
    monkeypatch.setattr(module, "FIRST_RETRY_S", 0.001)
    caplog.set_level(logging.INFO)
    async with Relay(postgres_database.url, replaced) as url:
        server = Server(url)
        await asyncio.to_thread(server.open)
        tried = Tried(conninfo_to_dict(url), server.place, server.ask)
        task = asyncio.create_task(tried.listen())
        await tried.often.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(tried.close)
        await asyncio.to_thread(server.close)
    assert caplog.text.count("sends no notifications now") == 1
    assert str(urlsplit(url).password) not in caplog.text


@pytest.mark.parametrize(
    "payload",
    ["", " ", "x" * 7999, "fusion_a", "probe", "fusion_a'; drop table event; --", "\u202efusion_a \n", "fusion_b z"],
)
async def test_a_made_up_notification_does_no_harm(postgres_database: Database, payload: str) -> None:
    """Anybody with a login may send one. It wakes a gateway at most, which finds nothing, and goes on listening."""
    async with listening(postgres_database.url) as one, listening(postgres_database.url) as two:
        woken = Woken()
        two.notifications.subscribe("fusion_a", woken)
        await woken.once_more()
        async with await psycopg.AsyncConnection.connect(postgres_database.url, autocommit=True) as stranger:
            await stranger.execute("select pg_notify(%s, %s)", (module.CHANNEL, payload))
        one.notifications.announce("fusion_a")
        await woken.once_more()
        assert woken.times <= 3
