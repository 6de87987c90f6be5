"""The keys of `[embedder]`, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fusion.errors import SettingsError, Unauthorized


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a provider. Empty texts and zeros mean the provider's own default.

    ``dimensions``: numbers in a vector. ``timeout_s``, ``query_timeout_ms``: for one request while storing, and for a
    question. ``requests_per_minute``, ``tokens_per_minute``: 0 is no bound. ``dense_cache_mb``, ``dense_store_mb``: of
    vectors in memory and on disk.
    """

    provider: str = "local"
    model: str = ""
    url: str = ""
    dimensions: int = 0
    api_key_env: str = ""
    api_key_file: str = ""
    timeout_s: float = 30.0
    query_timeout_ms: int = 800
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    dense_cache_mb: int = 16
    dense_store_mb: int = 1024

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """Read the options in ``given``; other keys are ignored. Raises SettingsError for an invalid value."""
        options = cls(
            provider=_text(given, "provider", "local"),
            model=_text(given, "model", ""),
            url=_text(given, "url", ""),
            dimensions=int(_number(given, "dimensions", 0, 0)),
            api_key_env=_text(given, "api_key_env", ""),
            api_key_file=_text(given, "api_key_file", ""),
            timeout_s=_number(given, "timeout_s", 30.0, 0.001),
            query_timeout_ms=int(_number(given, "query_timeout_ms", 800, 1)),
            requests_per_minute=int(_number(given, "requests_per_minute", 0, 0)),
            tokens_per_minute=int(_number(given, "tokens_per_minute", 0, 0)),
            dense_cache_mb=int(_number(given, "dense_cache_mb", 16, 1)),
            dense_store_mb=int(_number(given, "dense_store_mb", 1024, 1)),
        )
        if options.api_key_env and options.api_key_file:
            raise SettingsError("[embedder] api_key_env or api_key_file, not both")
        return options

    def key(self) -> str:
        """The current key, or "" if none is configured. Raises Unauthorized if it cannot be read."""
        if self.api_key_file:
            try:
                key = Path(self.api_key_file).expanduser().read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Unauthorized(f"[embedder] api_key_file cannot be read: {type(error).__name__}") from None
        elif self.api_key_env:
            key = os.environ.get(self.api_key_env, "").strip()
        else:
            return ""
        where = "api_key_file" if self.api_key_file else self.api_key_env
        if not key or not key.isascii() or not key.isprintable():
            raise Unauthorized(f"there is no key in {where}" if not key else f"the content of {where} is no key")
        return key


def _text(given: Mapping[str, object], name: str, default: str) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise SettingsError(f"[embedder] {name} is a text, not {value!r}")
    return value.strip()


def _number(given: Mapping[str, object], name: str, default: float, least: float) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
        raise SettingsError(f"[embedder] {name} is a number of at least {least:g}, not {value!r}")
    return value
