"""Questions that name nobody: answered where one user and one agent have memories, else refused with whom to name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from adapters.cortex.cli import List, Recall, Search
from fusion.contract import Place, Scope
from fusion.doors.http.app import create_app
from fusion.doors.http.streaming import no_lines
from fusion.errors import NobodyNamed
from fusion.gateway.gateway import Gateway
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest
from fusion.settings import KeySettings, Settings
from fusion.upkeep.job import no_progress
from tests.gateway.helpers import EMBEDDED, NADIA, OMAR, embedded, remember, small

NOBODY = Scope(audience="private")
NO_USER = Scope(user_id="", audience="private")
ASKED = "where do the bicycles stand?"
TOKEN = "the token of the home"


def bicycles(place: str) -> str:
    return f"The bicycles stand {place}."


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        yield gateway


async def block(gateway: Gateway, scope: Scope = NOBODY, **more: object) -> str:
    return (await gateway.fuse(ASKED, scope=scope, **more)).block


@pytest.mark.row("A156", "a question that names nobody is refused where several users have memories, and names them")
async def test_question_without_a_user_is_refused_once_a_second_user_has_memories(gateway: Gateway) -> None:
    """Notes without a user next to one user's memories are one home: nobody has to name anybody there."""
    await remember(gateway, bicycles("in the yard"), scope=NOBODY)
    await remember(gateway, bicycles("in the shed"))
    both = await block(gateway)
    assert "in the yard" in both
    assert "in the shed" in both
    (omars,) = await remember(gateway, bicycles("at the station"), scope=OMAR)
    with pytest.raises(NobodyNamed, match=r"Several users have memories here: nadia, omar\. .*--user NAME") as refused:
        await block(gateway)
    assert refused.value.details == {"users": ["nadia", "omar"]}
    assert "at the station" in await block(gateway, OMAR)
    everybodys = await block(gateway, all_users=True)
    assert all(place in everybodys for place in ("in the yard", "in the shed", "at the station"))
    await gateway.forget(omars, OMAR)
    assert "in the shed" in await block(gateway)


async def test_question_without_an_agent_is_refused_where_several_have_memories(gateway: Gateway) -> None:
    """Of one user, or of none; naming the user or one of the agents is enough, a session is not."""
    work, home = Scope(agent_id="work", session_id="s1"), Scope(agent_id="home")
    await remember(gateway, bicycles("at the office"), scope=work)
    assert "at the office" in await block(gateway)
    await remember(gateway, bicycles("in the yard"), scope=home)
    for unnamed in (NOBODY, Scope(session_id="s1"), Scope(project="hjul")):
        with pytest.raises(NobodyNamed, match="Several agents have memories here: home, work") as refused:
            await block(gateway, unnamed)
    assert refused.value.details == {"agents": ["home", "work"]}
    assert "at the office" not in await block(gateway, home)
    assert "at the office" in await block(gateway, NO_USER)


async def test_error_names_ten_users_at_most(gateway: Gateway) -> None:
    for n in range(12):
        await gateway.remember([NewMemory(bicycles("here"), Scope(user_id=f"u{n:02}"))])
    with pytest.raises(NobodyNamed, match="u08, u09 and more") as refused:
        await block(gateway)
    assert refused.value.details["users"] == [f"u{n:02}" for n in range(10)]


@pytest.mark.feature("an empty user_id asks for the memories that belong to no user, in every embedded backend")
async def test_question_for_no_user_finds_only_what_has_no_user(tmp_path: Path) -> None:
    """Through every backend alone, and in lists; each user's own question finds that user's."""
    async with Gateway.open(embedded(tmp_path / "home")) as gateway:
        await remember(gateway, bicycles("in the yard"), scope=NOBODY)
        await remember(gateway, bicycles("in the shed"))
        await remember(gateway, bicycles("at the station"), scope=OMAR)
        for name in sorted(EMBEDDED):
            for scope, place in ((NO_USER, "in the yard"), (NADIA, "in the shed"), (OMAR, "at the station")):
                found = await block(gateway, scope, backends=(name,))
                assert [p for p in ("in the yard", "in the shed", "at the station") if p in found] == [place], name
        assert [one["text"] for one in (await gateway.memories(NO_USER))["memories"]] == [bicycles("in the yard")]
        recalled = await gateway.do("cortex", Recall(ASKED), NO_USER, no_lines, no_progress)
        assert "in the yard" in str(recalled)
        assert "in the shed" not in str(recalled)


async def test_every_call_that_asks_is_refused_and_no_other(tmp_path: Path) -> None:
    """What lists or shows memories says whose each one is, so it still serves the home's owner."""
    async with Gateway.open(embedded(tmp_path / "home")) as gateway:
        turn = NewMemory(bicycles("in the shed"), NADIA, kind="turn", place=Place("talk", 1, 1), source="mail")
        ref = (await gateway.remember([turn]))[0].ref
        await remember(gateway, bicycles("at the station"), scope=OMAR)
        compared = FuseRequest(ASKED, NOBODY)
        query = ForgetRequest(NOBODY, query=ASKED, dry_run=True)
        asking = [
            gateway.fuse(ASKED, scope=NOBODY),
            gateway.compare(compared, "@markdown", "@mem0"),
            gateway.search("markdown", ASKED, NOBODY),
            gateway.forget_many(query),
            gateway.do("cortex", Recall(ASKED), NOBODY, no_lines, no_progress),
            gateway.do("cortex", Search(ASKED), NOBODY, no_lines, no_progress),
        ]
        for call in asking:
            with pytest.raises(NobodyNamed):
                await call
        await gateway.do("cortex", Recall(ASKED), NOBODY, no_lines, no_progress, all_users=True)
        await gateway.do("cortex", List(), NOBODY, no_lines, no_progress)
        assert len((await gateway.memories(NOBODY))["memories"]) == 2
        assert (await gateway.memory(ref, NOBODY))["scope"] == {"user_id": "nadia"}
        assert (await gateway.document("talk", NOBODY))["text"]
        shown = await gateway.forget_many(ForgetRequest(NOBODY, refs=(ref,), dry_run=True))
        assert [one.ref for one in shown.found] == [ref]


async def test_memory_for_an_empty_user_belongs_to_no_user(gateway: Gateway) -> None:
    await remember(gateway, bicycles("in the yard"), scope=NO_USER)
    (kept,) = (await gateway.memories(NOBODY))["memories"]
    assert kept["scope"] == {}


def settings_with_keys(home: Path) -> Settings:
    """Two API keys, one of which may ask for all users."""
    keys = tuple(
        KeySettings(name=name, sha256=sha256(name.encode()).hexdigest(), all_users=name == "auditor")
        for name in ("auditor", "program")
    )
    settings = small(home)
    return settings.model_copy(update={"server": settings.server.model_copy(update={"keys": keys})})


@pytest.mark.feature("`all_users` takes the home's token, or an API key that may ask for all users")
async def test_all_users_needs_the_token_or_a_key_that_may(tmp_path: Path) -> None:
    settings = settings_with_keys(tmp_path / "home")
    async with Gateway.open(settings) as gateway:
        await remember(gateway, bicycles("in the shed"))
        await remember(gateway, bicycles("at the station"), scope=OMAR)
        transport = httpx.ASGITransport(create_app(gateway, settings, local_token=TOKEN))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def ask(key: str, **body: object) -> httpx.Response:
                headers = {"authorization": f"Bearer {key}"}
                return await http.post("/v1/fuse", json={"query": ASKED, **body}, headers=headers)

            for key in (TOKEN, "auditor", "program"):
                refused = await ask(key)
                assert (refused.status_code, refused.json()["users"]) == (422, ["nadia", "omar"])
                assert refused.json()["type"].endswith("NobodyNamed")
                assert "in the shed" in (await ask(key, user_id="nadia")).json()["block"]
            for key in (TOKEN, "auditor"):
                everybodys = (await ask(key, all_users=True)).json()["block"]
                assert "in the shed" in everybodys
                assert "at the station" in everybodys
            denied = await ask("program", all_users=True)
            assert denied.status_code == 422
            assert "all_users needs the home's token" in denied.json()["detail"]


async def test_routes_and_verbs_that_ask_are_refused_unless_they_name_somebody(tmp_path: Path) -> None:
    """A drop-in route's body has no user, so its address may name one; the other routes of the backend go on."""
    settings = embedded(tmp_path / "home")
    async with Gateway.open(settings) as gateway:
        await remember(gateway, bicycles("in the shed"))
        await remember(gateway, bicycles("at the station"), scope=OMAR)
        transport = httpx.ASGITransport(create_app(gateway, settings, local_token=TOKEN))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            http.headers["authorization"] = f"Bearer {TOKEN}"

            async def ask(path: str, **body: object) -> httpx.Response:
                return await http.post(path, json={"message": ASKED, **body})

            for path in ("/compat/cortex/v1/recall", "/compat/cortex/v1/search", "/v1/backends/cortex/recall"):
                assert (await ask(path)).json()["users"] == ["nadia", "omar"]
            nadias = (await ask("/compat/cortex/v1/recall?user_id=nadia")).text
            assert ("in the shed" in nadias, "at the station" in nadias) == (True, False)
            for every in (
                await ask("/compat/cortex/v1/recall?all_users=true"),
                await ask("/v1/backends/cortex/recall", all_users=True),
            ):
                assert "in the shed" in every.text
                assert "at the station" in every.text
            assert (await ask("/v1/backends/cortex/recall", user_id="omar")).json()["memory_count"] == 1
            stats = await http.get("/compat/cortex/v1/stats")
            assert stats.status_code == 200
