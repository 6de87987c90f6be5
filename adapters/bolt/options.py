"""The options that every backend over Bolt has: the address of a database and the credentials.

url = "bolt://127.0.0.1:7687"       # bolt:// for one server, neo4j:// for a cluster; with +s for TLS
database = "neo4j"                  # leave out for the server's own
user = "neo4j"                      # leave out for a server without users, as Memgraph is at first
password_env = "NEO4J_PASSWORD"     # the environment variable with the password; or, for one that is renewed:
password_file = "/run/keys/neo4j"   # the file with it, read again when the server refuses the one it knew
connect_ms = 1000                   # milliseconds for a new connection, log-on included
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from adapters.options import build, number
from fusion.errors import SettingsError, Unauthorized

SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
NAMES = ("url", "database", "user", "password_env", "password_file", "connect_ms")


@dataclass(frozen=True, slots=True)
class Server:
    """The address and the login. ``connect_ms`` covers TCP, TLS, handshake and login: five round trips."""

    url: str = ""
    database: str | None = None
    user: str = ""
    password_env: str = ""
    password_file: str = ""
    connect_ms: int = number(1000, 1, 60_000)

    def __post_init__(self) -> None:
        if self.database is not None and (not self.database or type(self.database) is not str):
            raise SettingsError("database must be the name of one; leave it out for the server's own")
        if self.password_env and self.password_file:
            raise SettingsError("password_env or password_file, not both")
        if (self.password_env or self.password_file) and not self.user:
            raise SettingsError('a password is named, but no user; write user = "…"')
        _ = self.shown

    @classmethod
    def of(cls, options: Mapping[str, object], where: str) -> Self:
        """The options of ``NAMES`` among ``options``. Raises ``SettingsError`` that names ``where`` and the fix."""
        chosen = {name: options[name] for name in NAMES if name in options}
        if "url" not in chosen:
            raise SettingsError(f"[{where}] url is missing; write the database's, bolt://host:7687")
        return build(cls, chosen, f"[{where}]")

    @property
    def shown(self) -> str:
        """``scheme://host:port``, as errors name it. Raises ``SettingsError`` where ``url`` is no such address."""
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError:
            raise SettingsError("url is not an address; write it as bolt://host:7687") from None
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise SettingsError(f"url must start with one of {', '.join(f'{s}://' for s in SCHEMES)} and name a host")
        if parts.username or parts.password or parts.query or parts.fragment or parts.path not in ("", "/"):
            # An address is shown and logged; a credential in it would be too.
            raise SettingsError("url must be scheme, host and port only; name user, password_env and database apart")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return f"{parts.scheme}://{host}:{port or 7687}"

    @property
    def describe_s(self) -> float:
        """Seconds for a whole health check: 0.8 by default, so that its error precedes a backend's deadline."""
        return max(0.8, self.connect_ms / 1000 - 0.2)

    @property
    def clustered(self) -> bool:
        """Whether the server is asked for a routing table, and may be several."""
        return self.url.startswith("neo4j")

    def credentials(self) -> tuple[str, str]:
        """User and password, read now; two empty texts for a database without login, as older Memgraphs refuse none at
        all. Raises ``Unauthorized`` if the password cannot be read."""
        if self.password_env:
            password = os.environ.get(self.password_env, "")
            if not password:
                raise Unauthorized(f"{self.shown}: the environment has no {self.password_env}")
            return self.user, password
        if self.password_file:
            try:
                return self.user, Path(self.password_file).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError):
                raise Unauthorized(f"{self.shown}: cannot read password_file {self.password_file}") from None
        return self.user, ""

    @staticmethod
    def verify() -> None:
        """Raises ``SettingsError`` where the driver is not installed."""
        if find_spec("neo4j") is None:
            raise SettingsError("a database over Bolt needs its driver: pip install '/path/to/checkout[neo4j]'")
