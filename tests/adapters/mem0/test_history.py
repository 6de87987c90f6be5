"""`fusion mem0 history`: what became of a memory, by the library and by mem0's server, for who may see it alone."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

if find_spec("mem0") is None:  # imported here, it would have its telemetry on
    pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from qdrant_client import models

from adapters.mem0 import Mem0Server
from adapters.mem0.cli import History
from fusion.contract import Scope
from fusion.errors import InvalidAnswer, NotFound
from fusion.extension import Call
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests import chaos
from tests.adapters.mem0.test_server import Mem0Behind, made, on_qdrant
from tests.backend_contract import event_id, make_event, make_extracted
from tests.chaos import Chaos
from tests.fakes import FakeEmbedder
from tests.patience import load, opening_at
from tests.qdrant_server import Qdrant

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
NOW = datetime(2026, 3, 14, tzinfo=UTC)


def kept_in(home: Path) -> Any:
    """A home with mem0's library alone, and no model."""
    tables = {"mem0": {"adapter": "adapters.mem0:Mem0"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)


async def line(_: str) -> None:
    """Nothing is sent line by line."""


async def history(gateway: Gateway, ref: str, scope: Scope) -> list[tuple[str, str, str | None]]:
    """The changes of a memory: mem0's word, what it says since, what it said before."""
    found = cast("Any", await gateway.do("mem0", History(ref), scope, line, lambda *_: None))
    return [(change["event"], change["memory"], change["was"]) for change in found["changes"]]


@pytest.mark.feature(
    "Mem0: `fusion mem0 history REF` shows a memory's changes, from the library or its server, to its owner only"
)
async def test_versions_by_the_ref_that_a_block_cites(tmp_path: Path) -> None:
    """Replaced twice, all three stand in the history of each that knows them: of the last, all; of the first, itself.
    Another user gets nothing, as if there were none; and what is forgotten is told no more."""
    async with Gateway.open(kept_in(tmp_path)) as gateway:
        refs: list[str] = []
        for text in ("Tea at four", "Tea at five", "Tea at six"):
            [kept] = await gateway.remember([NewMemory(text, scope=ADA, supersedes=refs[-1] if refs else None)])
            refs.append(kept.ref)
        await gateway.settle()
        assert await history(gateway, refs[2], ADA) == [
            ("ADD", "Tea at four", None),
            ("UPDATE", "Tea at five", "Tea at four"),
            ("UPDATE", "Tea at six", "Tea at five"),
        ]
        assert await history(gateway, refs[0], ADA) == [("ADD", "Tea at four", None)]
        for ref, scope in ((refs[2], BEN), ("m999", ADA), ("../etc", ADA), ("x" * 11, ADA)):
            with pytest.raises(NotFound):
                await history(gateway, ref, scope)
        await gateway.forget(refs[2], ADA)
        await gateway.settle()
        with pytest.raises(NotFound):
            await history(gateway, refs[2], ADA)


class FakeGateway:
    """Knows the memories that mem0's server was told of, as the journal does."""

    def __init__(self, known: dict[str, tuple[str, ...]]) -> None:
        self.known = known

    async def ids(self, ref: str) -> tuple[str, ...]:
        if ref not in self.known:
            raise NotFound(f"there is no memory {ref!r} here")
        return self.known[ref]


def call_of(scope: Scope, **known: tuple[str, ...]) -> Call:
    return Call(scope, NOW, cast("Any", FakeGateway(known)), line, lambda *_: None)


@pytest.mark.feature(
    "… also what another program changed on mem0's server or on Qdrant", of="Mem0: `fusion mem0 history REF`"
)
async def test_what_others_changed_on_the_server(tmp_path: Path) -> None:
    """By the ref or by the server's own id: what was added, and what another program made of it. Not for ben."""
    async with Mem0Behind(tmp_path / "library", "2") as served:
        backend = await Mem0Server.open(opening_at(served.url, "mem0", tmp_path))
        [(native_id,)] = await backend.remember([make_extracted(make_event(1, "Tea at four", ADA))])
        served.memory.db.add_history(
            *(native_id, "Tea at four", "Tea at five", "UPDATE"),
            created_at="2999-03-01T00:00:00+00:00",
            updated_at="2999-03-02T00:00:00+00:00",
        )
        for ref in ("m1", native_id):
            found = cast("Any", await History(ref)(backend, call_of(ADA, m1=(native_id,))))
            assert [(one["event"], one["memory"], one["was"]) for one in found["changes"]] == [
                ("ADD", "Tea at four", None),
                ("UPDATE", "Tea at five", "Tea at four"),
            ]
            shown = History(ref).render(found).splitlines()
            assert shown[1] == "2999-03-02T00:00:00+00:00  UPDATE  Tea at five   (was: Tea at four)"
        for ref, scope in (("m1", BEN), (native_id, BEN), (event_id(99), ADA), ("../search", ADA)):
            with pytest.raises(NotFound):
                await History(ref)(backend, call_of(scope, m1=(native_id,)))
        await backend.close()


async def test_what_others_stored_on_qdrant(tmp_path: Path) -> None:
    """The library knows what itself changed while it runs; of another's memory what stands in it: since when, not what
    it said before. It is of the backend's tenant, and of its user alone."""
    async with Qdrant() as server:
        made(server)
        vector = (await FakeEmbedder().embed(["Tea at five"]))[0].tolist()
        payload = {"data": "Tea at five", "user_id": "ada", "created_at": "2026-01-01", "updated_at": "2026-02-01"}
        server.client.upsert("facts", [models.PointStruct(id=event_id(7), vector=vector, payload=payload)])
        backend = await on_qdrant(server.url, tmp_path, tenant="blue")
        found = cast("Any", await History(event_id(7))(backend, call_of(Scope("blue", "ada"))))
        assert [(one["event"], one["at"], one["memory"]) for one in found["changes"]] == [
            ("ADD", "2026-01-01", None),
            ("UPDATE", "2026-02-01", "Tea at five"),
        ]
        for ref, scope in ((event_id(7), Scope("blue", "ben")), (event_id(7), ADA), ("7", Scope("blue"))):
            with pytest.raises(NotFound):
                await History(ref)(backend, call_of(scope))
        await backend.close()


async def test_a_history_in_another_shape_is_named(tmp_path: Path) -> None:
    """A server of another version: an invalid answer, and no crash."""
    memory = orjson.dumps({"id": "1", "memory": "Tea", "user_id": "ada"})

    async def behave(call: chaos.Call) -> None:
        await call.reply(b'[{"action": 1}]' if call.path.endswith("/history") else memory)

    async with Chaos(behaviour=behave) as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0", tmp_path))
        with pytest.raises(InvalidAnswer, match="history in an unknown form"):
            await History("1")(backend, call_of(ADA))
        await backend.close()
