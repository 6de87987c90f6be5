"""numkong, which multiplies int8 on the processor's own instructions for it: optional (`memory-fusion[fast]`)."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


@lru_cache(maxsize=1)
def numkong() -> ModuleType | None:
    """The module, if it is installed."""
    return import_module("numkong") if find_spec("numkong") else None
