"""A hardware monitor: what it says of the GPU's load, and that distillation waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fusion.errors import RateLimited
from fusion.gateway.hw_monitor import RETRY_S, load_at, load_of, while_gpu_is_free
from fusion.settings import MemoryCortexSettings
from tests.fakes import FakeModel


@asynccontextmanager
async def answering(body: bytes, status: bytes = b"200 OK") -> AsyncIterator[str]:
    """A monitor that sends this to every request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body))
        writer.write(head + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(
    ("reply", "load"),
    [
        ({"gpu": {"utilization": 93, "memory_utilization": 20, "temperature": 71}}, 93),
        ({"gpus": [{"load": 0.25}, {"load": 0.5}]}, 50),
        ({"gpu_busy_percent": 17}, 17),
        ({"card0": {"GPU use (%)": "3", "GPU busy": True}}, 100),
        ({"busy": False}, 0),
        ({"cpu": {"load": 99}, "memory": {"percent": 80}}, None),
        ({}, None),
        ([1, 2], None),
        ("busy", None),
    ],
)
def test_load_is_the_highest_of_a_gpu(reply: object, load: float | None) -> None:
    assert load_of(reply) == load


@pytest.mark.row("A101", "an optional hardware monitor: conversations wait for the model while the GPU is busy")
async def test_model_waits_while_the_gpu_is_busy() -> None:
    model = FakeModel("an answer")
    async with answering(b'{"gpu": {"utilization": 93}}') as url:
        waiting = while_gpu_is_free(model, MemoryCortexSettings(hw_monitor_url=url))
        with pytest.raises(RateLimited, match="93 %") as caught:
            await waiting.complete("", "", 1)
        assert (caught.value.retry_after_s, model.asked) == (RETRY_S, [])
        free = while_gpu_is_free(model, MemoryCortexSettings(hw_monitor_url=url, hw_monitor_busy_percent=95))
        assert await free.complete("", "", 1) == "an answer"


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", b"200 OK"), (b'{"gpu_load": 99}', b"500 Oops"), (b"[" + b"9," * 200_000 + b"9]", b"200 OK")],
    ids=["no JSON", "an error", "too long"],
)
async def test_monitor_that_says_nothing_holds_nothing_up(body: bytes, status: bytes) -> None:
    async with answering(body, status) as url:
        assert await load_at(url) is None
    assert await load_at(url) is None  # nobody listens any more
    assert await load_at("no address") is None


def test_model_without_a_monitor_is_the_model() -> None:
    model = FakeModel("")
    assert while_gpu_is_free(model, MemoryCortexSettings()) is model
