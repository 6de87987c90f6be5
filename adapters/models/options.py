"""The options of every language model: the table `[model]` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from adapters.http import checked
from fusion.errors import ModelMissing, SettingsError


@dataclass(frozen=True, slots=True)
class Options:
    """``name`` is the model's; ``url`` has no slash at its end; ``timeout_s`` is for one whole call, ``connect_s`` for
    a new connection."""

    name: str
    url: str
    key: str | None
    timeout_s: float
    connect_s: float

    @classmethod
    def of(cls, options: Mapping[str, object], environ: Mapping[str, str], *, api: str, variable: str) -> Self:
        """``api`` is the provider's own address and ``variable`` the one that usually has its key.

        That variable is read for the provider's own address only: a key goes to another server only if ``api_key_env``
        says so. Raises SettingsError for a wrong option, and ModelMissing for a key that
        is wanted and not there.
        """
        url = _text(options, "base_url") or api
        try:
            checked(url)
        except SettingsError as error:
            raise SettingsError(f"[model] base_url: {error}") from None
        name = _text(options, "model")
        if not name:
            raise SettingsError("[model] model: write the model's name, as its server knows it")
        timeout_s, connect_s = _seconds(options, "timeout_ms", 60_000), _seconds(options, "connect_ms", 5000)
        wanted = _text(options, "api_key_env") or (variable if url == api else "")
        key = environ.get(wanted) if wanted else None
        if wanted and not key:
            raise ModelMissing(f"{wanted} is not set, so the model is never asked: export {wanted}=…")
        return cls(name, url.rstrip("/"), key, timeout_s, connect_s)


def _seconds(options: Mapping[str, object], name: str, default: int) -> float:
    value = options.get(name, default)
    if type(value) is not int or value <= 0:
        raise SettingsError(f"[model] {name} is a number of milliseconds above 0, not {value!r}")
    return value / 1000


def _text(options: Mapping[str, object], name: str) -> str:
    value = options.get(name, "")
    if not isinstance(value, str):
        raise SettingsError(f"[model] {name} is a text, not {value!r}")
    return value
