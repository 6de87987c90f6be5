"""Delays distillation by the language model while a hardware monitor reports a busy GPU (seed 002).

The seed names a monitor on port 8085 but not the format of its reply. Any JSON is accepted in which the name of a
number or boolean says that it is the load of a GPU. A monitor that does not answer, or reports no such value, delays
nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import httpx
import orjson

from fusion.contract import LanguageModel
from fusion.errors import RateLimited
from fusion.settings import MemoryCortexSettings

log = logging.getLogger(__name__)

ASK_S = 2.0
"""maximum seconds for an answer of the monitor"""
RETRY_S = 30.0
"""seconds until the monitor is asked again while the GPU is busy"""
MAX_ANSWER_BYTES = 262_144

_GPU = re.compile(r"gpu|cuda|rocm|radeon|vram|device|card", re.IGNORECASE)
_LOAD = re.compile(r"util|load|usage|busy|percent", re.IGNORECASE)
_OTHER = re.compile(r"mem|vram|temp|fan|power|cpu|disk|ram", re.IGNORECASE)


class WhileGpuIsFree:
    """A language model that raises RateLimited while a monitor says that the GPU is busy."""

    def __init__(self, model: LanguageModel, url: str, busy_percent: float) -> None:
        self.name = model.name
        self._model = model
        self._url = url
        self._busy_percent = busy_percent

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        load = await load_at(self._url)
        if load is not None and load >= self._busy_percent:
            raise RateLimited(f"the GPU is busy ({load:.0f} %)", RETRY_S)
        return await self._model.complete(system, user, max_tokens)

    async def close(self) -> None:
        """Do nothing: the opener of the model closes it."""


def while_gpu_is_free(model: LanguageModel, settings: MemoryCortexSettings) -> LanguageModel:
    """The model; if the settings name a monitor, one that raises RateLimited while the GPU is busy."""
    if not settings.hw_monitor_url:
        return model
    return WhileGpuIsFree(model, settings.hw_monitor_url, settings.hw_monitor_busy_percent)


async def load_at(url: str) -> float | None:
    """The load of the GPU in per cent, from a monitor; None if the monitor does not report it."""
    try:
        async with httpx.AsyncClient(timeout=ASK_S, trust_env=False) as http, http.stream("GET", url) as reply:
            reply.raise_for_status()
            body = b""
            async for piece in reply.aiter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError("the answer is too long")
        return load_of(orjson.loads(body))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        log.warning("the hardware monitor did not say how busy the GPU is: %s", type(error).__name__)
        return None


def load_of(reply: object) -> float | None:
    """The highest load of a GPU in a monitor's reply, in per cent."""
    return max(_loads(reply, of_gpu=False), default=None)


def _loads(value: object, *, of_gpu: bool, named: str = "") -> Iterator[float]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _loads(one, of_gpu=of_gpu or bool(_GPU.search(str(name))), named=str(name))
    elif isinstance(value, list):
        for one in value:
            yield from _loads(one, of_gpu=of_gpu, named=named)
    elif _LOAD.search(named) and not _OTHER.search(named) and (of_gpu or named.casefold() == "busy"):
        if isinstance(value, bool):
            yield 100.0 if value else 0.0
        elif isinstance(value, int | float):
            yield float(value) * (100 if isinstance(value, float) and value <= 1 else 1)
