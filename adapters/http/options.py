"""The options that every backend over HTTP has: the address of its server, its key, and the time for a new connection.

url = "http://127.0.0.1:9000"
connect_ms = 250                    # milliseconds for a new connection, name resolution included: 1 to 60000
tenant = "default"                  # the owner of its memories
api_key_env = "NOTES_KEY"           # the environment variable with the key; or, for one that is renewed:
api_key_file = "/run/keys/notes"    # the file with it, read for each request
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from adapters.http.exchange import Credential, Http, checked
from adapters.options import number


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """A backend's options inherit from this class, and call its ``__post_init__`` if they have their own.

    ``url`` is empty where the backend needs no server, or requires the address from the user.
    """

    url: str = ""
    connect_ms: int = number(250, 1, 60_000)
    tenant: str = "default"

    def __post_init__(self) -> None:
        if self.url:
            checked(self.url)

    @property
    def connect_s(self) -> float:
        return self.connect_ms / 1000

    @property
    def describe_s(self) -> float:
        """Seconds for each request of a health check: a new connection, and 0.75 s for the reply."""
        return self.connect_s + 0.75

    def http(self, headers: Callable[[], Mapping[str, str]] = dict) -> Http:
        """A client of the server. Raises SettingsError if the address is missing or invalid."""
        return Http(self.url, headers, connect_s=self.connect_s)


@dataclass(frozen=True, slots=True)
class KeyedOptions(HttpOptions):
    """The options of a server that may want a key."""

    api_key_env: str = ""
    api_key_file: str = ""

    def __post_init__(self) -> None:
        HttpOptions.__post_init__(self)  # `super()` does not work in a dataclass with slots
        _ = self.key

    @property
    def key(self) -> Credential:
        """The source of the key. Raises SettingsError if two are named."""
        return Credential(self.api_key_env, self.api_key_file)

    def key_header(self, name: str, form: str = "{key}") -> Mapping[str, str]:
        """The header of a request that carries the key, read now; none where no key is configured."""
        return {name: form.replace("{key}", value)} if (value := self.key.value()) else {}
