"""The keys of `[embedder]`, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from adapters.options import build_known, number
from fusion.errors import SettingsError, Unauthorized


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a provider. Empty texts and zeros mean the provider's own default.

    ``dimensions``: numbers in a vector. ``connect_ms``: for a new connection, name resolution and the TLS handshake
    included. ``timeout_s``, ``query_timeout_ms``: for one request while storing, and for a
    question. ``requests_per_minute``, ``tokens_per_minute``: 0 is no bound. ``dense_cache_mb``, ``dense_store_mb``: of
    vectors in memory and on disk.
    """

    provider: str = "local"
    model: str = ""
    url: str = ""
    dimensions: int = number(0, 0)
    api_key_env: str = ""
    api_key_file: str = ""
    connect_ms: int = number(3000, 1, 60_000)
    timeout_s: float = number(30.0, 0.001)
    query_timeout_ms: int = number(800, 1)
    requests_per_minute: int = number(0, 0)
    tokens_per_minute: int = number(0, 0)
    dense_cache_mb: int = number(16, 1)
    dense_store_mb: int = number(1024, 1)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Options:
        """Read the options in ``given``; other keys are ignored. Raises SettingsError for an invalid value."""
        texts = {name: value.strip() for name, value in given.items() if isinstance(value, str)}
        return build_known(cls, {**given, **texts}, "[embedder]")

    def __post_init__(self) -> None:
        if self.api_key_env and self.api_key_file:
            raise SettingsError("api_key_env or api_key_file, not both")

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
