"""What an extension asks for stays within its caller's scope."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.gateway.gateway import Gateway
from fusion.gateway.scoped import CallerGateway
from fusion.ingest.intake import NewMemory
from tests.gateway.helpers import small

ASKED = "who grows tomatoes on the balcony?"
PRIVATE = NewMemory("Ada grows tomatoes on the balcony.", scope=Scope(user_id="ada", audience="private"))
SHARED = NewMemory("Ada grows basil on the balcony.", scope=Scope(user_id="ada"))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        await gateway.remember([PRIVATE, SHARED])
        await gateway.settle()
        yield gateway


@pytest.mark.feature("an extension widens neither the user nor the audience of its caller")
async def test_caller_in_a_group_gets_no_private_memory(gateway: Gateway) -> None:
    caller = CallerGateway(gateway, gateway, "one", Scope(user_id="ada"))
    for wider in ({"audience": "private"}, {"user_id": "bob"}, {"user_id": ""}):
        with pytest.raises(BadInput, match="the caller asks for"):
            await caller.fuse(ASKED, **wider)  # type: ignore[arg-type]  # one of the keys each
        with pytest.raises(BadInput, match="the caller asks for"):
            await caller.search(ASKED, **wider)  # type: ignore[arg-type]
    assert PRIVATE.text not in (await caller.fuse(ASKED, user_id=None, project="garden"))["block"]
    assert [hit["text"] for hit in (await caller.search(ASKED))["hits"]] == [SHARED.text]


async def test_private_caller_may_ask_for_what_a_group_may_read(gateway: Gateway) -> None:
    caller = CallerGateway(gateway, gateway, "one", Scope(audience="private"))
    block = (await caller.fuse(ASKED, user_id="ada"))["block"]
    assert PRIVATE.text in block
    assert PRIVATE.text not in (await caller.fuse(ASKED, user_id="ada", audience="group"))["block"]
    found = await caller.search(ASKED, backend="two", user_id="ada", limit=1)
    assert (found["backend"]["name"], len(found["hits"])) == ("two", 1)
    with pytest.raises(BadInput, match="limit: choose a number from 1 to 100"):
        await caller.search(ASKED, limit=0)
