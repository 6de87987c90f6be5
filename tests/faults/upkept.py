"""A backend whose vectors wait until they may be computed: a job that can be killed in the middle."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from adapters.inmemory import InMemory
from fusion.contract import Description


class Upkept(InMemory):
    """The reference backend; a vector is pending while there is the file that UPKEPT_HOLD names."""

    async def describe(self) -> Description:
        return Description(vectors_pending=int(_held()))

    async def settle(self) -> None:
        while _held():  # noqa: ASYNC110 — another process removes it
            await asyncio.sleep(0.01)


def _held() -> bool:
    return Path(os.environ["UPKEPT_HOLD"]).exists()
