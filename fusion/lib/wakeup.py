"""Waiting for a wake-up or the end of a pause, whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def wait_for_news(news: asyncio.Event, pause_s: float | None, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Wait for the event ``news``, at most ``pause_s`` seconds; without limit if that is None."""
    waits: list[asyncio.Future[object]] = [asyncio.ensure_future(news.wait())]
    if pause_s is not None:
        waits.append(asyncio.ensure_future(sleep(pause_s)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
