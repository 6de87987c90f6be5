"""Lists of memories by what is written, stated and decided: filters, orders, pages, and what nobody may search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from fusion.contract import Moment, Scope
from fusion.errors import BadInput
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal.browsing import Standing
from fusion.lib.stated_fields import to_stated
from fusion.recall.engine import FuseRequest
from tests.patience import load

ADA = Scope(user_id="ada")
BACKENDS = {"memory": {"adapter": "adapters.inmemory:InMemory", "deadline_ms": 60_000}}


@dataclass
class Kept:
    """An open home, and the refs of its memories by a name for each."""

    gateway: Gateway
    refs: dict[str, str]

    async def page(self, scope: Scope = ADA, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        return list((await self.gateway.memories(scope, limit, **filters))["memories"])

    async def names(self, **filters: Any) -> set[str]:
        by_ref = {ref: name for name, ref in self.refs.items()}
        return {by_ref[one["ref"]] for one in await self.page(**filters)}

    async def decide(self, name: str, **change: Any) -> None:
        record = await self.gateway.journal.find(self.refs[name], ADA)
        await self.gateway.journal.decide({record.event.event_id: change}, "ada", "a test")  # type: ignore[dict-item]


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def drafts() -> Iterator[tuple[str, NewMemory]]:
    def draft(
        name: str, text: str, *, scope: Scope = ADA, stated: tuple[Any, ...] = (), **more: Any
    ) -> tuple[str, Any]:
        return name, NewMemory(text, scope, stated=stated, **more)

    yield draft("boat", "Ada bought a blue boat", at=Moment(day(1)), kind="fact", stated=to_stated(importance=0.9))
    yield draft("tea", "100% of the tea is gone_already", at=Moment(day(3)), stated=to_stated(importance=0.2))
    yield draft("cafe", "Das CAFÉ am Hafen, sagt Müller", at=Moment(day(2)), source="mail", origin="import")
    yield draft("tagged", "A tagged note on the boat", stated=to_stated(tags=("red", 'a "quote"')))
    yield draft("project", "A plan of the project", scope=replace(ADA, project="apollo"))
    yield draft("session", "Said in a session", kind="turn", scope=replace(ADA, session_id="s1"))
    yield draft("ended", "It was valid until lately", valid_to=datetime.now(UTC) - timedelta(days=1))
    for name in ("archived", "decayed", "lost", "over", "hidden", "merged"):
        yield draft(name, f"The {name} one")


@asynccontextmanager
async def kept(home: Path) -> AsyncIterator[Kept]:
    settings = load(home=home, backends_only=True, backends=BACKENDS, embedder={"adapter": ""})
    async with Gateway.open(settings) as gateway:
        named = dict(drafts())
        stored = await gateway.remember(list(named.values()))
        found = Kept(gateway, {name: one.ref for name, one in zip(named, stored, strict=True)})
        now = datetime.now(UTC)
        for name, ended in (("archived", "archived"), ("decayed", "decayed"), ("lost", "lost"), ("over", "expired")):
            await found.decide(name, ended=ended, ended_at=now)
        await found.decide("hidden", trust="quarantined", tags=("red",))
        boat = await gateway.journal.find(found.refs["boat"], ADA)
        await found.decide("merged", merged_into=boat.event.event_id)
        (newer,) = await gateway.remember([NewMemory("Ada bought a green boat", ADA, supersedes=found.refs["tea"])])
        found.refs["newer"] = newer.ref
        await gateway.settle()
        yield found


@pytest.mark.feature("`GET /v1/memories` filters by kind, trust, state, tag, project, time, importance, backend, words")
async def test_memories_are_listed_by_what_they_are(home: Path) -> None:
    async with kept(home) as found:
        current = await found.names()
        assert await found.names(kind="fact") == {"boat"}
        assert await found.names(scope=replace(ADA, session_id="s1")) == {"session"}
        assert await found.names(source="mail") == await found.names(origin="import") == {"cafe"}
        assert await found.names(tag="red", reads_quarantined=True) == {"tagged", "hidden"}
        assert await found.names(tag='a "quote"') == {"tagged"}
        assert await found.names(tag="re") == set()
        assert await found.names(in_project="apollo") == {"project"}
        assert await found.names(min_importance=0.5) == {"boat"}
        assert await found.names(after=day(2), before=day(3)) == {"cafe"}
        assert await found.names(trust="quarantined") == {"hidden"}
        assert await found.names(trust="unknown") == current - {"hidden"}
        assert await found.names(backend="memory") >= {"boat", "cafe"}
        assert await found.names(backend="none") == set()
        assert current == set(found.refs) - {"tea"}
        assert await found.names(state="all") == set(found.refs)


@pytest.mark.parametrize(
    ("q", "names"),
    [
        ("BOAT", {"boat", "tagged", "newer"}),
        ("boat blue", {"boat"}),
        ("café müller", {"cafe"}),
        ("100%", {"tea"}),
        ("gone_already", {"tea"}),
        ("gone%already", set()),
        ("1_0%", set()),
        ("' or 1=1 --", set()),
        ("boat\\", set()),
    ],
)
async def test_memories_are_listed_by_their_words(home: Path, q: str, names: set[str]) -> None:
    """They match literally, without regard to case; no character in them is a pattern."""
    async with kept(home) as found:
        assert await found.names(q=q, state="all") == names


@pytest.mark.feature("… and each row says in one word what holds of the memory", of="`GET /v1/memories` filters")
async def test_each_state_lists_the_memories_that_say_so(home: Path) -> None:
    """What the query decides is what a row says."""
    async with kept(home) as found:
        every = await found.page(state="all")
        by_state = {name: {one["ref"] for one in every if one["status"] == name} for name in get_args(Standing)}
        for name, refs in by_state.items():
            assert {one["ref"] for one in await found.page(state=name)} == refs, name
        assert {name for name, refs in by_state.items() if not refs} == {"retired"}
        expired = {found.refs["ended"], found.refs["over"]}
        assert by_state["expired"] == expired
        rows = {one["ref"]: one for one in every}
        assert rows[found.refs["boat"]]["importance"] == 0.9
        assert rows[found.refs["tagged"]]["tags"] == ["red", 'a "quote"']


@pytest.mark.parametrize("order", ["recorded", "newest", "oldest", "importance"])
async def test_pages_of_an_order_have_each_memory_once(home: Path, order: str) -> None:
    async with kept(home) as found:
        whole = [one["ref"] for one in await found.page(order=order)]
        pages: list[str] = []
        cursor = None
        while True:
            page = await found.gateway.memories(ADA, 3, order=order, cursor=cursor)
            pages += [one["ref"] for one in page["memories"]]
            if (cursor := page["next_cursor"]) is None:
                break
        assert pages == whole
        assert len(set(whole)) == len(whole) == len(found.refs) - 1
        for wrong in ("nonsense", "c", "r1", "n1_x", f"{order[0]}nan_1", f"{order[0]}1_2" + "0" * 30):
            with pytest.raises(BadInput, match="cursor"):
                await found.gateway.memories(ADA, 3, order=order, cursor=wrong)


async def test_orders_go_by_time_and_importance(home: Path) -> None:
    async with kept(home) as found:
        dated = {found.refs[name]: name for name in ("boat", "cafe", "tea")}
        at = {"after": day(1), "before": day(4), "state": "all"}
        for order, names in (("newest", ["tea", "cafe", "boat"]), ("oldest", ["boat", "cafe", "tea"])):
            assert [dated[one["ref"]] for one in await found.page(order=order, **at)] == names
        ranked = [one["importance"] for one in await found.page(order="importance", state="all")]
        assert ranked[:2] == [0.9, 0.2]
        assert not any(ranked[2:])


@pytest.mark.feature("… what is quarantined is found by no word, tag or project", of="`GET /v1/memories` filters")
async def test_nothing_quarantined_is_searched_for_other_keys(home: Path) -> None:
    """Else who may not read it could guess it word by word."""
    async with kept(home) as found:
        assert "hidden" in await found.names(q="hidden", reads_quarantined=True)
        assert await found.names(q="hidden") == set()
        assert await found.names(tag="red") == {"tagged"}
        assert "hidden" in await found.names()


async def test_lists_of_users_and_tenants_are_apart(home: Path) -> None:
    async with kept(home) as found:
        assert await found.page(Scope(user_id="bob"), q="boat") == []
        assert await found.page(Scope("acme"), q="boat") == []
        await found.gateway.forget(found.refs["boat"], ADA)
        assert "boat" not in await found.names(state="all", q="boat")
        assert await found.gateway.fuse(FuseRequest("boat", ADA))
