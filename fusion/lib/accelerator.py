"""Loads numkong, an optional library for int8 products with SIMD instructions (`memory-fusion[fast]`)."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def numkong() -> ModuleType | None:
    """The module, or None if it is not installed or cannot be loaded; the latter is logged once."""
    if find_spec("numkong") is None:
        return None
    try:
        return import_module("numkong")
    except Exception as error:  # noqa: BLE001 — for another ABI or processor it may raise anything, and numpy suffices
        log.warning("numkong does not load, so vectors are multiplied without it: %s: %s", type(error).__name__, error)
        return None
