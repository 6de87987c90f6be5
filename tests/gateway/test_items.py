"""Items over an open home: put, read, searched and forgotten by namespace and key."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.items import ItemSearch, NamespaceSearch
from fusion.ingest.items import MAX_TRIES, NewItem
from fusion.ingest.update import Change
from fusion.journal import items
from fusion.lib.item_address import Address
from tests.gateway.helpers import NADIA, OMAR, remember, small
from tests.gateway.test_transfer import export_of, import_into

USERS = ("users", "nadia")
THEME = Address(USERS, "theme")


async def put(gateway: Gateway, address: Address, scope: Scope = NADIA, **value: Any) -> Any:
    return await gateway.put_item(NewItem(address, value, scope), scope)


async def value_at(gateway: Gateway, address: Address, scope: Scope = NADIA) -> Any:
    try:
        return (await gateway.item(address, scope))["value"]
    except NotFound:
        return None


async def keys(gateway: Gateway, *namespace: str, scope: Scope = NADIA, **more: Any) -> list[str]:
    found = await gateway.search_items(ItemSearch(scope, namespace, **more))
    return [one["key"] for one in found["items"]]


@pytest.mark.feature("items: memories with an exact namespace and key, there at once after a put", part="gateway")
async def test_a_put_is_read_exactly_and_at_once(home: Path) -> None:
    value = {"b": [1, 2.5, None, True], "a": {"ü\u2028": "zero\u200bwidth"}, "empty": {}}
    async with Gateway.open(small(home)) as gateway:
        kept = await put(gateway, THEME, **value)
        assert (kept["status"], kept["redacted"], kept["created_at"]) == ("stored", 0, kept["updated_at"])
        found = await gateway.item(THEME, NADIA)
        assert (found["value"], list(found["value"])) == (value, list(value))
        assert (found["namespace"], found["key"], found["ref"]) == (list(USERS), "theme", kept["ref"])
    async with Gateway.open(small(home)) as gateway:
        assert await value_at(gateway, THEME) == value


async def test_a_second_put_replaces_and_the_same_one_changes_nothing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        first = await put(gateway, THEME, colour="light", px=15)
        same = await put(gateway, THEME, px=15, colour="light")
        assert (same["status"], same["ref"]) == ("duplicate", first["ref"])
        second = await put(gateway, THEME, colour="dark", px=15)
        assert (second["status"], second["created_at"]) == ("superseded", first["created_at"])
        assert await value_at(gateway, THEME) == {"colour": "dark", "px": 15}
        assert (await put(gateway, THEME, colour="dark", px=True))["status"] == "superseded", "true is not 1"
        page = await gateway.memories(NADIA, 10)
        assert [one["ref"] for one in page["memories"]] == [(await gateway.item(THEME, NADIA))["ref"]]


async def test_an_undo_brings_the_earlier_value_back(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await put(gateway, THEME, colour="light")
        await put(gateway, THEME, colour="dark")
        await gateway.undo(NADIA)
        assert await value_at(gateway, THEME) == {"colour": "light"}
        await put(gateway, THEME, colour="dark")
        assert await value_at(gateway, THEME) == {"colour": "dark"}


async def test_items_of_another_owner_do_not_exist(home: Path) -> None:
    """All dimensions of a scope name the owner, and no user is an owner, too."""
    nobody, of_an_agent = Scope(audience="private"), replace(NADIA, agent_id="coder")
    async with Gateway.open(small(home)) as gateway:
        await put(gateway, THEME, colour="dark")
        for other in (OMAR, nobody, of_an_agent):
            assert await value_at(gateway, THEME, other) is None
            assert await keys(gateway, scope=other) == []
            assert (await gateway.item_namespaces(NamespaceSearch(other)))["namespaces"] == []
            with pytest.raises(NotFound):
                await gateway.forget_item(THEME, other)
            assert (await put(gateway, THEME, other, colour="pink"))["status"] == "stored"
        assert await value_at(gateway, THEME) == {"colour": "dark"}
        await gateway.forget_item(THEME, OMAR)
        assert await value_at(gateway, THEME, OMAR) is None
        assert await value_at(gateway, THEME, nobody) == {"colour": "pink"}


async def test_a_private_item_is_not_read_in_a_group(home: Path) -> None:
    in_group = replace(NADIA, audience="group")
    async with Gateway.open(small(home)) as gateway:
        await put(gateway, THEME, colour="dark")
        assert await value_at(gateway, THEME, in_group) is None
        assert await keys(gateway, scope=in_group) == []
        assert (await put(gateway, THEME, in_group, colour="dark"))["status"] == "superseded"
        assert await value_at(gateway, THEME, in_group) == {"colour": "dark"}


@pytest.mark.feature("a forgotten item is gone with its earlier values, and can be put again", part="gateway")
async def test_a_forgotten_item_is_gone_and_can_be_put_again(home: Path) -> None:
    """Another item in the same words stays: a key is what was named."""
    said = {"text": "Nadia likes her terminal in very dark colours"}
    async with Gateway.open(small(home)) as gateway:
        await put(gateway, THEME, text="Nadia used to like bright colours in the office")
        await put(gateway, THEME, **said)
        await put(gateway, Address(USERS, "copy"), **said)
        await gateway.settle()
        receipt = await gateway.forget_item(THEME, NADIA)
        assert len(receipt.also) == 1, "the earlier version"
        assert await value_at(gateway, THEME) is None
        assert await value_at(gateway, Address(USERS, "copy")) == said
        assert await gateway.journal.read(lambda db: db.execute("select count(*) from item").fetchone()[0]) == 1
        assert (await put(gateway, THEME, **said))["status"] == "stored"
        assert await value_at(gateway, THEME) == said
        for ref in [one["ref"] for one in (await gateway.memories(NADIA, 10))["memories"]]:
            with_words = await gateway.forget(ref, NADIA)
            assert len(with_words.same) == 1, "a person who forgets the words forgets both"
            break
        assert await keys(gateway) == []


async def test_concurrent_puts_of_one_key_leave_one_item(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        kept = await asyncio.gather(*(put(gateway, THEME, n=n) for n in range(MAX_TRIES // 2)))
        assert sorted(one["status"] for one in kept).count("stored") == 1
        assert len(await gateway.journal.read(items.refs_at, NADIA, THEME)) == 1
        assert (await value_at(gateway, THEME))["n"] in range(MAX_TRIES // 2)
        assert await keys(gateway) == ["theme"]


async def test_a_search_lists_a_namespace_and_those_in_it(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        for labels, key in (
            (USERS, "a"),
            ((*USERS, "work"), "b"),
            (("users", "nadia2"), "c"),
            (("Users", "nadia"), "d"),
        ):
            await put(gateway, Address(labels, key), n=ord(key) - 96, word="boat")
        assert await keys(gateway, *USERS) == ["b", "a"]
        assert await keys(gateway, "users") == ["c", "b", "a"]
        assert await keys(gateway) == ["d", "c", "b", "a"]
        assert await keys(gateway, limit=2, offset=1) == ["c", "b"]
        assert await keys(gateway, *USERS, query="boat") == ["b", "a"], "not of the namespace Users"
        assert await keys(gateway, filter={"n": {"$gt": 1, "$lte": 3}}) == ["c", "b"]
        assert await keys(gateway, filter={"n": 4, "word": {"$ne": "ship"}}) == ["d"]
        with pytest.raises(BadInput, match=r"no operator '\$in'"):
            await keys(gateway, filter={"n": {"$in": [1]}})


async def test_a_query_ranks_and_leaves_nothing_out(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await put(gateway, Address(USERS, "food"), text="Nadia eats no fish")
        await put(gateway, Address(USERS, "boat"), text="the boathouse key hangs behind the door")
        await put(gateway, Address(USERS, "car"), text="the car is at the garage")
        await remember(gateway, "the boathouse was sold")
        await gateway.settle()
        found = await gateway.search_items(ItemSearch(NADIA, USERS, "where is the key of the boathouse?"))
        assert found["items"][0]["key"] == "boat"
        assert {one["key"] for one in found["items"]} == {"food", "boat", "car"}
        assert found["items"][0]["score"] is not None
        assert "the boathouse key hangs behind the door" in (await gateway.fuse("boathouse key?", scope=NADIA)).block


async def test_namespaces_are_listed_by_their_labels(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        for labels in (("users", "a", "v1"), ("users", "b", "v2"), ("teams", "a/.~", "v1")):
            await put(gateway, Address(labels, "k"), n=1)

        async def listed(**wanted: Any) -> list[list[str]]:
            return (await gateway.item_namespaces(NamespaceSearch(NADIA, **wanted)))["namespaces"]

        assert await listed() == [["teams", "a/.~", "v1"], ["users", "a", "v1"], ["users", "b", "v2"]]
        assert await listed(prefix=("users", "*"), suffix=("v1",)) == [["users", "a", "v1"]]
        assert await listed(max_depth=1) == [["teams"], ["users"]]
        assert await listed(limit=1, offset=1) == [["users", "a", "v1"]]
        assert await listed(prefix=("users", "a", "v1", "*")) == []


async def test_secrets_are_masked_in_values_and_refused_in_addresses(home: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with Gateway.open(small(home)) as gateway:
        kept = await put(gateway, THEME, note=f"use {secret}", deep=[{"password": "Xk9!vQ2#pL7z"}])
        assert kept["redacted"] == 2
        assert "a1B2a1B2" not in str(kept["value"])
        assert "Xk9!" not in str(kept["value"])
        assert (await put(gateway, THEME, **kept["value"]))["status"] == "duplicate"
        with pytest.raises(BadInput, match="secret"):
            await put(gateway, Address(USERS, secret), n=1)
        with pytest.raises(BadInput, match="secret"):
            await put(gateway, THEME, **{secret: 1})
        assert await keys(gateway) == ["theme"]


@pytest.mark.parametrize("value", [{}, {"t": "HEARTBEAT_OK"}, {"t": " "}, {"t": None}])
async def test_a_value_without_words_is_an_item_too(home: Path, value: dict[str, Any]) -> None:
    async with Gateway.open(small(home)) as gateway:
        assert (await put(gateway, THEME, **value))["value"] == value
        assert await value_at(gateway, THEME) == value


async def test_a_value_has_a_size_and_a_depth(home: Path) -> None:
    deep: Any = "x"
    for _ in range(40):
        deep = [deep]
    async with Gateway.open(small(home)) as gateway:
        with pytest.raises(BadInput, match="64,000"):
            await put(gateway, THEME, text="x" * 64_000)
        with pytest.raises(BadInput, match="levels"):
            await put(gateway, THEME, deep=deep)
        assert await value_at(gateway, THEME) is None


async def test_an_item_is_changed_by_a_put_alone(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        kept = await put(gateway, THEME, colour="dark")
        with pytest.raises(BadInput, match=r"the item users\.nadia/theme"):
            await gateway.update(kept["ref"], Change("pink"), NADIA)
        await gateway.set_state(StateRequest(kept["ref"], NADIA, trust="trusted"))
        with pytest.raises(BadInput, match="only the owner"):
            await put(gateway, THEME, colour="pink")
        await gateway.set_state(StateRequest(kept["ref"], NADIA, trust="quarantined"))
        assert await value_at(gateway, THEME) is None
        assert await keys(gateway) == []
        await put(gateway, THEME, colour="pink")
        assert await value_at(gateway, THEME) is None, "a new value does not lift what a person decided"


async def test_an_export_takes_items_along(tmp_path: Path) -> None:
    async with Gateway.open(small(tmp_path / "one")) as gateway:
        await put(gateway, THEME, colour="light")
        await put(gateway, THEME, colour="dark")
        export = await export_of(gateway)
    async with Gateway.open(small(tmp_path / "two")) as gateway:
        await put(gateway, THEME, colour="pink")
        await import_into(gateway, export, moved={})
        assert await value_at(gateway, THEME) == {"colour": "dark"}
        assert await keys(gateway) == ["theme"]
        await gateway.forget_item(THEME, NADIA)
        assert await value_at(gateway, THEME) is None, "neither of the two is left"
