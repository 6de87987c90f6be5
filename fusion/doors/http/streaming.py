"""Streams a reply as lines of JSON. Those of a verb have one member each: ``progress``, ``line``, or last ``result``.

A failure before the first line is an HTTP error; a later failure is the last line, ``problem``.
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
from fusion.upkeep.job import Progress

log = logging.getLogger(__name__)

NDJSON = "application/x-ndjson"
MAX_BUFFERED_LINES = 256
"""maximum lines that wait for a slow reader; then the verb waits"""

Line = Callable[[str], Awaitable[None]]
Work = Callable[[Line, Progress], Awaitable[object]]
Part = dict[str, object]
Parts = asyncio.Queue[Part]


async def no_lines(line: str) -> None:
    """The ``line`` callback for a reply that is one JSON document. Raises BadInput."""
    raise BadInput(f"That answers line by line: ask for it with Accept: {NDJSON}.")


async def streamed(work: Work) -> Response:
    """A streamed reply of a verb: its lines and its progress, and last its result. Raises early errors."""

    async def run(parts: Parts) -> Part:
        async def line(text: str) -> None:
            await parts.put({"line": text})

        def progress(done: int, total: int | None, note: str = "") -> None:
            offer(parts, {"progress": {"done": done, "total": total} | ({"note": note} if note else {})})

        return {"result": await work(line, progress)}

    return await streamed_parts(run)


def offer(parts: Parts, part: Part) -> None:
    """Send a part unless the reader is far behind: a later part replaces it."""
    if not parts.full():
        parts.put_nowait(part)


async def streamed_parts(work: Callable[[Parts], Awaitable[Part]]) -> Response:
    """A streamed reply of the parts that ``work`` puts and of the last one, which it returns. Raises early errors.

    It is cancelled when the client hangs up.
    """
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


async def _parts(work: Callable[[Parts], Awaitable[Part]]) -> AsyncGenerator[Part | Exception]:
    """The parts of ``work`` in order, then the last one or its exception."""
    queue: Parts = asyncio.Queue(MAX_BUFFERED_LINES)
    task = asyncio.ensure_future(work(queue))
    try:
        while not (task.done() and queue.empty()):
            receiving = asyncio.ensure_future(queue.get())
            await asyncio.wait((task, receiving), return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                yield receiving.result()
            else:
                receiving.cancel()
        error = task.exception()
        yield error if isinstance(error, Exception) else task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _line(part: Part | Exception) -> bytes:
    if isinstance(part, FusionError):
        part = {"problem": problem_of(part)}
    elif isinstance(part, Exception):
        log.error("a verb failed", exc_info=part)
        part = {"problem": http_problem(500, "The gateway made a mistake. Its log says more.")}
    return encode(part) + b"\n"
