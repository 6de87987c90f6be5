"""numkong, which multiplies int8 on the processor's own instructions for it: optional (`memory-fusion[fast]`)."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def numkong() -> ModuleType | None:
    """The module, if it is installed and can be loaded; where it cannot, one warning says why."""
    if find_spec("numkong") is None:
        return None
    try:
        return import_module("numkong")
    except Exception as error:  # noqa: BLE001 — of another ABI or processor it raises what it likes, and numpy does
        log.warning("numkong does not load, so vectors are multiplied without it: %s: %s", type(error).__name__, error)
        return None
