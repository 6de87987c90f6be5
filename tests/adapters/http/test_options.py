"""The option `connect_ms` of every backend over HTTP: the time for a new connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.bolt.options import Server
from adapters.cognee import Cognee
from adapters.http import HttpMemory, HttpOptions
from adapters.mem0 import Mem0Server
from adapters.mem0.options import Options as Mem0Options
from adapters.qdrant import Collection, Qdrant
from adapters.qmd import Qmd
from adapters.remote import Remote
from fusion.contract import Opening
from fusion.errors import BackendUnreachable, SettingsError
from tests import chaos
from tests.backend_contract import make_query

# An adapter over HTTP, and what it needs besides the address.
ADAPTERS: tuple[tuple[Any, dict[str, object]], ...] = (
    (Cognee, {}),
    (Collection, {"collection": "facts", "sparse": "words"}),
    (HttpMemory, {}),
    (Mem0Server, {}),
    (Qdrant, {}),
    (Qmd, {}),
    (Remote, {}),
)


@pytest.mark.feature("connect_ms of every backend over HTTP: the time for a new connection, 250 ms unless set")
@pytest.mark.parametrize(("adapter", "options"), ADAPTERS)
async def test_connect_ms_bounds_a_new_connection(adapter: Any, options: dict[str, object]) -> None:
    """A server that accepts no connection is unreachable after `connect_ms`, long before the question's deadline."""
    with chaos.blackhole() as url:
        backend = await adapter.open(Opening("there", Path("unused"), {"url": url, "connect_ms": 40, **options}))
        with pytest.raises(BackendUnreachable, match="no connection within 40 ms"):
            await backend.search(make_query("tea", deadline_s=3600.0))
        await backend.close()


@pytest.mark.parametrize(("adapter", "options"), ADAPTERS)
@pytest.mark.parametrize("connect_ms", [0, 60_001])
def test_connect_ms_out_of_range_is_refused(adapter: Any, options: dict[str, object], connect_ms: int) -> None:
    given = {"url": "http://127.0.0.1:1", "connect_ms": connect_ms, **options}
    with pytest.raises(SettingsError, match=f"connect_ms = {connect_ms} must be a whole number from 1 to 60000"):
        adapter.verify(given)


def test_connect_ms_is_250_by_default_and_1000_over_bolt() -> None:
    assert (HttpOptions().connect_s, Server("bolt://127.0.0.1").connect_ms) == (0.25, 1000)
    assert Mem0Options().connect_s == 0.25


def test_health_check_has_the_time_of_a_connection_and_of_a_reply() -> None:
    """One second with the default; a distant server's connection does not use up the time of its reply."""
    assert [HttpOptions(connect_ms=connect_ms).describe_s for connect_ms in (250, 3000)] == [1.0, 3.75]
    assert [Server("bolt://127.0.0.1", connect_ms=connect_ms).describe_s for connect_ms in (1000, 3000)] == [0.8, 2.8]
