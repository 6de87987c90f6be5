"""Encodes the gateway's values as JSON that every client can parse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import orjson


def encode(content: object) -> bytes:
    """The JSON of dataclasses, dictionaries and times; NaN becomes null, and a lone surrogate U+FFFD."""
    try:
        return orjson.dumps(content, default=_default, option=orjson.OPT_UTC_Z)
    except TypeError:
        return orjson.dumps(_json_safe(content))


def _default(value: object) -> object:
    """The types that orjson does not encode itself."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _json_safe(value: Any) -> Any:
    """A copy of a value that `orjson.dumps` refused: with lone surrogates, integers over 64 bits, or other types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _json_safe(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_json_safe(str(key)): _json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_safe(item) for item in value]
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 64):
        return value
    return _json_safe(value.isoformat() if hasattr(value, "isoformat") else str(value))
