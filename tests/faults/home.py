"""A whole home for the fault matrix: real servers as its backends, a real server in front of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import httpx

from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.doors.fakes import FakeFusion, serving
from tests.patience import PATIENT_MS, load

HOUR_MS = 3_600_000
"""a deadline that no test reaches: what comes sooner did not wait for it"""


def remote(url: str, **options: object) -> dict[str, object]:
    """A backend's table: another server at ``url``."""
    return {
        "adapter": "adapters.remote:Remote",
        "url": url,
        "connect_ms": PATIENT_MS,
        "deadline_ms": HOUR_MS,
        **options,
    }


def settings_of(home: Path, embedder: str = "", **backends: str | Mapping[str, object]) -> Settings:
    """A home with just these backends and no model, or with ``embedder``; a string names an adapter."""
    tables = {name: {"adapter": one} if isinstance(one, str) else dict(one) for name, one in backends.items()}
    return load(home=home, backends_only=True, embedder={"adapter": embedder}, backends=tables)


@asynccontextmanager
async def door(settings: Settings) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """An open home, and a client of the server before it."""
    async with (
        Gateway.open(settings) as gateway,
        serving(cast(FakeFusion, gateway), settings) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield gateway, client


class Lines(logging.Handler):
    """Every line that is logged, at any level, by any module, as it would be printed with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def logged() -> Iterator[list[str]]:
    """What is logged while this is open."""
    root, handler = logging.getLogger(), Lines()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def statuses(reply: Mapping[str, Any]) -> dict[str, str]:
    """By backend, how it did."""
    return {row["name"]: row["status"] for row in reply["backends"]}
