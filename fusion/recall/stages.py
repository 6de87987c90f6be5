"""Measures the stages of one question, from the end of one to the end of the next."""

from __future__ import annotations

import time
from typing import NamedTuple


class Stage(NamedTuple):
    """A stage of a question, by `time.perf_counter`."""

    name: str
    began_s: float
    ended_s: float


class Stages:
    """The stages so far. Call it with the name of a stage when that stage ends."""

    __slots__ = ("_last_s", "ended")

    def __init__(self, started_s: float) -> None:
        self._last_s = started_s
        self.ended: list[Stage] = []

    def __call__(self, name: str) -> None:
        now_s = time.perf_counter()
        self.ended.append(Stage(name, self._last_s, now_s))
        self._last_s = now_s
