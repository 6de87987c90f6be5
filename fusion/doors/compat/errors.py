"""Turns problem details into the errors of another system on the way out, so that its clients can read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from starlette.types import Message, Send

from fusion import problem

Words = Callable[[Mapping[str, Any]], tuple[int, dict[str, Any]]]
"""the status and the body of an error in another system, from problem details (RFC 9457)"""
MEDIA_TYPE = b"application/json; charset=utf-8"


def in_words(send: Send, words: Words) -> Send:
    """Send a reply as it is, and problem details in the ``words`` of another system."""
    begun: Message | None = None
    pieces: list[bytes] = []

    async def translated(message: Message) -> None:
        nonlocal begun
        if message["type"] == "http.response.start" and _is_problem(message):
            begun = message
            return
        if begun is None or message["type"] != "http.response.body":
            await send(message)
            return
        pieces.append(message.get("body", b""))
        if message.get("more_body"):
            return
        status, body = words(orjson.loads(b"".join(pieces)))
        content = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        kept = [pair for pair in begun["headers"] if pair[0].lower() not in (b"content-type", b"content-length")]
        length = (b"content-length", str(len(content)).encode())
        headers = [*kept, (b"content-type", MEDIA_TYPE), length]
        await send({**begun, "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})

    return translated


def _is_problem(message: Message) -> bool:
    kinds = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
    return kinds[:1] == [problem.MEDIA_TYPE.encode()]
