"""The options of a PostgreSQL database: its address, the credentials, and how many connections it gets.

url = "postgresql://fusion@127.0.0.1:5432/memories"  # and libpq's parameters: ?sslmode=verify-full&sslrootcert=/…
url_env = "DATABASE_URL"            # the environment variable with the URL, instead; it may have the password in it
password_env = "POSTGRES_PASSWORD"  # the environment variable with the password; or, for one that is renewed:
password_file = "/run/keys/postgres"  # the file with it, read for each new connection
schema = "memory_fusion"            # of the tables; every tenant but the default one has a schema of its own
connections = 8                     # connections that a gateway opens at most, for each tenant that is in use
connect_ms = 1000                   # milliseconds for a new connection to a host, log-on included
ef_search = 300                     # how far the vector index looks: more finds more of the nearest, and takes longer

Several hosts in the URL are tried in turn: `postgresql://fusion@a,b/memories?target_session_attrs=read-write` finds the
primary after a failover. Between the gateway and PostgreSQL a pooler must keep a session's settings (in PgBouncer,
`pool_mode = session`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adapters.options import number
from fusion.contract import Scope
from fusion.errors import SettingsError, Unauthorized
from fusion.lib.words import content_hash

_SCHEMA_CHARS = 40
"""of a schema's name, so that the name of a tenant's is no longer than the 63 that PostgreSQL keeps"""

_SHARED_SCHEMAS = ("public", "extensions", "information_schema", "fusion")
"""others may create in the first two, where pgvector is; gateways have the last one"""


@dataclass(frozen=True)
class Options:
    """Which database, and how to log on to it. No error and no text has a password."""

    url: str = ""
    url_env: str = ""
    password_env: str = ""
    password_file: str = ""
    schema: str = "memory_fusion"
    connections: int = number(8, 1, 100)
    connect_ms: int = number(1000, 1, 60_000)
    ef_search: int = number(300, 10, 1000)

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            raise SettingsError('needs url or url_env: write url = "postgresql://user@host:5432/database"')
        if self.password_env and self.password_file:
            raise SettingsError("takes password_env or password_file, not both")
        if not re.fullmatch(rf"[a-z_][a-z0-9_]{{0,{_SCHEMA_CHARS - 1}}}", self.schema):
            raise SettingsError(f"schema is a name of up to {_SCHEMA_CHARS} small letters, digits and _")
        if self.schema in _SHARED_SCHEMAS or self.schema.startswith("pg_"):
            raise SettingsError(f'schema = "{self.schema}" is of all tenants: name one of your own')
        if find_spec("psycopg") is None:
            raise SettingsError("needs PostgreSQL's driver: pip install '/path/to/checkout[postgres]'")
        if self.url and "password" in parsed(self.url, "url"):
            raise SettingsError("url must have no password: name password_env, password_file or url_env instead")

    def of_tenant(self, tenant: str) -> Options:
        """The options for a tenant, whose memories are in a schema of their own."""
        if tenant == Scope().tenant:
            return self
        return replace(self, schema=f"{self.schema}_t{content_hash(tenant)[:16]}")

    def parameters(self) -> dict[str, Any]:
        """The parameters of a connection, with the password as it is now. Raises Unauthorized if it cannot be read."""
        found = self._address()
        if self.password_env:
            found["password"] = os.environ.get(self.password_env, "")
            if not found["password"]:
                raise Unauthorized(f"{self.shown}: the environment has no {self.password_env}")
        if self.password_file:
            try:
                found["password"] = Path(self.password_file).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError):
                raise Unauthorized(f"{self.shown}: cannot read password_file {self.password_file}") from None
        return found

    @cached_property
    def shown(self) -> str:
        """``host:port/database``, as errors name it."""
        found = {} if self.url_env and not os.environ.get(self.url_env) else self._address()
        hosts, ports = (str(found.get(name) or "").split(",") for name in ("host", "port"))
        ports = ports * len(hosts) if len(ports) == 1 else ports
        where = ",".join(f"{host or 'localhost'}:{port or 5432}" for host, port in zip(hosts, ports, strict=False))
        return f"{where}/{found.get('dbname') or found.get('user') or ''}"

    @property
    def hosts(self) -> int:
        """The number of hosts that may have to be tried."""
        return str(self._address().get("host") or "").count(",") + 1

    @property
    def describe_s(self) -> float:
        """Seconds for a whole health check: 0.8 by default, so that its error precedes a backend's deadline."""
        return max(0.8, self.connect_ms / 1000 - 0.2)

    def reached(self) -> str:
        """The address and whether a password is sent. Raises Unauthorized if the password cannot be read."""
        return f"{self.shown}, {'with' if self.parameters().get('password') else 'without'} a password"

    def _address(self) -> dict[str, Any]:
        if not self.url_env:
            return parsed(self.url, "url")
        if not (url := os.environ.get(self.url_env, "")):
            raise Unauthorized(f"the environment has no {self.url_env}, which url_env names")
        return parsed(url, f"the value of {self.url_env}")


def parsed(url: str, what: str) -> dict[str, Any]:
    """The parameters in a URL. Raises SettingsError, which does not repeat the URL: there may be a password in it."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    if url.startswith(("postgresql://", "postgres://")):
        try:
            return dict(conninfo_to_dict(url))
        except (ProgrammingError, ValueError):
            pass
    raise SettingsError(f"{what} is no address of PostgreSQL: write it as postgresql://user@host:5432/database")
