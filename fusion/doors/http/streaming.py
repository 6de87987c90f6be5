"""A verb's reply as it comes: lines of JSON, each with one member, ``progress`` or ``line``, and last the ``result``.

What fails before the first of them is an HTTP error like any other; what fails later is the last line, ``problem``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from starlette.responses import Response, StreamingResponse

from fusion.doors.http.encode import encode
from fusion.errors import BadInput, FusionError
from fusion.problem import http_problem, problem_of

log = logging.getLogger(__name__)

NDJSON = "application/x-ndjson"
AHEAD = 256
"""lines that wait for a slow reader before whoever makes them waits"""

Line = Callable[[str], Awaitable[None]]
Progress = Callable[[int, int | None], None]
Work = Callable[[Line, Progress], Awaitable[object]]


async def no_lines(line: str) -> None:
    """For a reply that is one JSON document."""
    raise BadInput(f"That answers line by line: ask for it with Accept: {NDJSON}.")


def no_progress(done: int, total: int | None) -> None:
    """Nobody looks."""


async def streamed(work: Work) -> Response:
    """The reply of ``work``, which is cancelled when nobody reads it any more. Raises what fails before it begins."""
    parts = _parts(work)
    first = await anext(parts)
    if isinstance(first, Exception):
        raise first

    async def lines() -> AsyncIterator[bytes]:
        async with aclosing(parts):
            yield _line(first)
            async for part in parts:
                yield _line(part)

    return StreamingResponse(lines(), media_type=NDJSON)


async def _parts(work: Work) -> AsyncGenerator[dict[str, object] | Exception]:
    """What work says, in its order; the last is its result, or what it raised."""
    said: asyncio.Queue[dict[str, object]] = asyncio.Queue(AHEAD)

    async def line(text: str) -> None:
        await said.put({"line": text})

    def progress(done: int, total: int | None) -> None:
        if not said.full():  # a later one says as much
            said.put_nowait({"progress": {"done": done, "total": total}})

    task = asyncio.ensure_future(work(line, progress))
    try:
        while not (task.done() and said.empty()):
            saying = asyncio.ensure_future(said.get())
            await asyncio.wait((task, saying), return_when=asyncio.FIRST_COMPLETED)
            if saying.done():
                yield saying.result()
            else:
                saying.cancel()
        error = task.exception()
        if isinstance(error, Exception):
            yield error
        else:
            yield {"result": task.result()}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _line(part: dict[str, object] | Exception) -> bytes:
    if isinstance(part, FusionError):
        part = {"problem": problem_of(part)}
    elif isinstance(part, Exception):
        log.error("a verb failed", exc_info=part)
        part = {"problem": http_problem(500, "The gateway made a mistake. Its log says more.")}
    return encode(part) + b"\n"
