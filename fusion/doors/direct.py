"""Opens a home in this process, with a client that calls it as it would call the home's server."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fusion.home import owner
from fusion.store.writable import unwritable

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.settings import Settings


def is_unwritable(home: Path) -> bool:
    """Whether a home without a server is on a full or read-only disk, where no server can start."""
    return owner(home) is None and bool(unwritable(home))


@asynccontextmanager
async def opened_here(settings: Settings) -> AsyncIterator[AsyncClient]:
    """A client of a home that this process opens. Raises the errors of `Gateway.open`."""
    import httpx

    from fusion.client import AsyncClient
    from fusion.doors.http.app import create_app
    from fusion.gateway.gateway import Gateway

    os.umask(0o077)  # only the owner may read the files that a backend writes
    key = secrets.token_urlsafe()
    async with Gateway.open(settings) as gateway:
        transport = httpx.ASGITransport(create_app(gateway, settings, local_token=key))
        async with AsyncClient.over(transport, api_key=key) as client:
            yield client
