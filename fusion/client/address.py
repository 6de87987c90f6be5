"""How a client finds its server: by URL, or by the home whose server it is."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from fusion.client.methods import Methods
from fusion.client.server_process import START_TIMEOUT_S, ensure_connection
from fusion.errors import ServerUnreachable
from fusion.home import Located, ServerRecord, locate_home, missing_home, read_record
from fusion.local_server import CONNECT_S, LOG, Proven, connect
from fusion.trust import require

DEFAULT_URL = "http://127.0.0.1:8765"
TIMEOUT_S = 30.0
"""seconds for a whole request, until the last byte of its reply"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The base URL of a server, and the headers to send.

    With the ``token`` of a home, the server first proves on each connection that it knows the token: another program
    may have taken the port of a server that has stopped.
    """

    url: str
    headers: Mapping[str, str]
    token: str | None = field(default=None, repr=False)
    record: ServerRecord | None = None
    """the record of the home's server"""


def endpoint_of(record: ServerRecord, token: str) -> Endpoint:
    return Endpoint(record.url, _authorization(token), token, record)


def _authorization(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


@dataclass(frozen=True, slots=True)
class Address:
    """How to find a server: by its URL, or by its ``home``, where it is started if ``start``."""

    url: str | None = None
    api_key: str | None = None
    home: Path | None = None
    config: Path | None = None
    start: bool = False
    start_timeout_s: float = START_TIMEOUT_S
    named: bool = True
    """whether the user named the home; see `fusion.trust.require`"""
    create: bool = True
    """whether a home that does not exist is created"""

    def resolve(self) -> Endpoint:
        """The endpoint of the server. Raises ServerUnreachable, HomeLocked when another process has the home open, and
        HomeNotAllowed before anything of a home is read that the user has not allowed."""
        endpoint, proven = self.connect()
        if proven is not None:
            proven.close()
        return endpoint

    def connect(self) -> tuple[Endpoint, Proven | None]:
        """As `resolve`, with the connection on which the home's server has just proved itself: use it or close it."""
        if self.url is not None or self.home is None:
            key = self.api_key or os.environ.get("FUSION_API_KEY")
            return Endpoint(self.url or DEFAULT_URL, _authorization(key)), None
        if not self.create and not self.home.is_dir():
            raise missing_home(self.home)
        home = require(self.home, named=self.named, config=self.config)
        proven = self._server(home)
        return endpoint_of(proven.record, proven.token), proven

    def _server(self, home: Path) -> Proven:
        if self.start:
            return ensure_connection(home, self.config, timeout_s=self.start_timeout_s)
        proven = connect(home, CONNECT_S)
        if proven is None:
            raise ServerUnreachable(f"No server runs for the home {home}. Start it: fusion serve --home {home}")
        return proven

    def wait_for_another(self, timeout_s: float = CONNECT_S) -> bool:
        """Wait until the server of a deleted or replaced home has stopped; returns whether it has."""
        if self.home is None:
            return False
        deadline = time.monotonic() + timeout_s
        record = read_record(self.home)
        while record is not None and record == read_record(self.home):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def give_up_or_retry(self, error: Exception, *, unsent: bool, last: bool) -> None:
        """Return if a retry makes sense: the home's server had stopped before it received anything. Raise otherwise."""
        if unsent and self.home is not None and not last:
            return
        late = isinstance(error, TimeoutError)
        what = "did not answer in time" if late else f"does not answer ({str(error) or type(error).__name__})"
        where = f"of {self.home}" if self.home else self.url or DEFAULT_URL
        fix = f"See {self.home / LOG}" if self.home else "Is it running? fusion serve starts it"
        raise ServerUnreachable(f"The server {where} {what}. {fix}") from error


class BaseClient(Methods):
    """The address, the timeout and the methods, which both clients share."""

    def __init__(self, url: str | None = None, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``url`` defaults to http://127.0.0.1:8765, and ``api_key`` to FUSION_API_KEY."""
        self._address = Address(url, api_key)
        self._timeout_s = timeout_s

    @classmethod
    def of_home(
        cls,
        home: Path | Located | None = None,
        *,
        config: Path | None = None,
        start: bool = True,
        start_timeout_s: float = START_TIMEOUT_S,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        create: bool = True,
    ) -> Self:
        """A client of the server of a home, by default the one that `find_home` finds; it is started if ``start``.

        A home that does not exist is created; without ``create`` every call raises SettingsError instead.
        """
        client = cls(api_key=api_key, timeout_s=timeout_s)
        located = home if isinstance(home, Located) else locate_home(home)
        client._address = Address(None, api_key, located.path, config, start, start_timeout_s, located.named, create)
        return client
