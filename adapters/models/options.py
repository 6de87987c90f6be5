"""The options of every language model: the table `[model]` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from adapters.http import checked
from adapters.options import build_known, number
from fusion.errors import ModelMissing, SettingsError


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of the table. ``timeout_ms`` is for one whole call, ``connect_ms`` for a new connection."""

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    timeout_ms: int = number(60_000, 1)
    connect_ms: int = number(5000, 1)

    def __post_init__(self) -> None:
        if not self.model:
            raise SettingsError("model: write the model's name, as its server knows it")
        try:
            checked(self.base_url)
        except SettingsError as error:
            raise SettingsError(f"base_url: {error}") from None

    @property
    def url(self) -> str:
        """The server's address, without a slash at its end."""
        return self.base_url.rstrip("/")

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000


def read_with_key(
    options: Mapping[str, object], environ: Mapping[str, str], *, api: str, variable: str
) -> tuple[Options, str | None]:
    """The options, and the key that they name.

    ``api`` is the provider's own address, the default, and ``variable`` the one that usually has its key. That variable
    is read for the provider's own address only: a key goes to another server only if ``api_key_env`` says so. Raises
    SettingsError for a wrong option, and ModelMissing for a key that is wanted and not there.
    """
    chosen = build_known(Options, {**options, "base_url": options.get("base_url") or api}, "[model]")
    wanted = chosen.api_key_env or (variable if chosen.base_url == api else "")
    key = environ.get(wanted) if wanted else None
    if wanted and not key:
        raise ModelMissing(f"{wanted} is not set, so the model is never asked: export {wanted}=…")
    return chosen, key
