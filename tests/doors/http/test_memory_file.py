"""MEMORY.md in the inspector: who may see, promote and restore it, and what of it can be undone."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.doors.http.memory_file import PATH
from fusion.journal.access_log import AccessFilter, AccessLog
from fusion.settings import KeySettings, ServerSettings, Settings, WorkspaceSettings
from tests.doors.fakes import FakeFusion, app_over
from tests.upkeep.test_shepherd import BASELINE

TOKEN, OF_OPERATOR = "the home's token", "an operator's key"
TWISTED = BASELINE.replace("Never deploy", "Deploy")


class HomeOverFakes(FakeFusion):
    """A home whose shepherd compares by words."""

    embedder = None

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.access_log = AccessLog(folder / "access.sqlite", 90, 1000)


class Door:
    """The server of a home with a workspace, and its clients."""

    def __init__(self, folder: Path, *, write: bool = True) -> None:
        self.file = folder.resolve() / "agent" / "MEMORY.md"
        self.file.parent.mkdir()
        self.file.write_text(BASELINE)
        key = KeySettings(name="eva", sha256=sha256(OF_OPERATOR.encode()).hexdigest(), role="operator", all_users=True)
        settings = Settings(
            home=folder / "home",
            server=ServerSettings(keys=(key,)),
            workspace=WorkspaceSettings(write=write, root_folder=str(self.file.parent)),
        )
        self.gateway = HomeOverFakes(folder)
        self._transport = httpx.ASGITransport(
            app_over(self.gateway, settings, local_token=TOKEN), raise_app_exceptions=False
        )

    def client(self, token: str = "") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=self._transport, base_url="http://localhost:8765", headers=headers)

    async def page(self, token: str = TOKEN) -> httpx.AsyncClient:
        """A page that a link of this key has signed in."""
        async with self.client(token) as http:
            path = (await http.post("/v1/inspector/links", json={})).json()["path"]
        async with self.client() as browser:
            reply = await browser.post("/v1/inspector/sessions", json={"code": path.partition("=")[2]})
        return self.client(str(reply.json()["token"]))


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


async def shown(page: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await page.get(PATH)).json()
    return found


async def decided(page: httpx.AsyncClient, decision: str, sha256: str) -> httpx.Response:
    return await page.post(f"{PATH}/{decision}", json={"sha256": sha256})


@pytest.mark.feature(
    "the inspector shows MEMORY.md against its baseline, promotes and restores it, and both can be undone"
)
async def test_person_promotes_restores_and_goes_back(door: Door) -> None:
    async with await door.page() as page:
        first = await shown(page)
        assert (first["state"], "+- Never deploy on a Friday." in first["diff"]) == ("no_baseline", True)
        assert (await decided(page, "promote", first["sha256"])).status_code == 200
        assert (await shown(page))["state"] == "same"

        door.file.write_text(TWISTED)
        drifted = await shown(page)
        assert (drifted["state"], drifted["earlier"]) == ("differs", None)
        assert "-- Never deploy on a Friday." in drifted["diff"]
        assert "+- Never deploy on a Friday." in drifted["restore"]
        assert drifted["drift"]["protected"] == ["Memory of Max › Rules"]
        assert (await decided(page, "promote", drifted["sha256"])).status_code == 200
        promoted = await shown(page)
        assert (promoted["state"], promoted["earlier"] is not None) == ("same", True)

        back = await decided(page, "undo-promotion", promoted["baseline"]["sha256"])
        assert back.json()["sha256"] == first["sha256"]
        assert (await shown(page))["state"] == "differs"
        assert (await decided(page, "undo-promotion", first["sha256"])).status_code == 422
        done = await decided(page, "restore", drifted["sha256"])
        assert done.json()["change"] == "w1"
        assert door.file.read_text() == BASELINE


@pytest.mark.feature(
    "no API key, tool or call of a client promotes the baseline of MEMORY.md: a person at the page does"
)
async def test_only_a_page_of_the_owner_is_let_in(door: Door) -> None:
    seen = sha256(BASELINE.encode()).hexdigest()
    async with door.client(TOKEN) as token, door.client(OF_OPERATOR) as key, await door.page(OF_OPERATOR) as of_key:
        for client in (token, key, of_key):
            assert (await client.get(PATH)).status_code == 403
            for decision in ("promote", "undo-promotion", "restore"):
                refused = await decided(client, decision, seen)
                assert (refused.status_code, "fusion open" in refused.json()["detail"]) == (403, True)


async def test_file_that_was_changed_since_it_was_shown_is_left_alone(door: Door) -> None:
    async with await door.page() as page:
        first = await shown(page)
        door.file.write_text(TWISTED)
        assert "look at it again" in (await decided(page, "promote", first["sha256"])).json()["detail"]
        now = await shown(page)
        await decided(page, "promote", now["sha256"])
        door.file.write_text(BASELINE)
        assert "look at it again" in (await decided(page, "restore", now["sha256"])).json()["detail"]
        assert door.file.read_text() == BASELINE
        for wrong in ({}, {"sha256": "x"}, {"sha256": now["sha256"], "more": 1}, []):
            assert (await page.post(f"{PATH}/promote", json=wrong)).status_code == 422


async def test_home_without_a_writable_workspace_says_so(tmp_path: Path) -> None:
    async with await Door(tmp_path, write=False).page() as page:
        found = await shown(page)
    assert (found["state"], "[workspace] write = true" in found["why"]) == ("off", True)


async def test_damaged_baseline_is_said(door: Door, tmp_path: Path) -> None:
    async with await door.page() as page:
        await decided(page, "promote", (await shown(page))["sha256"])
        (tmp_path / "home" / "shepherd" / "baseline.md").write_text("another program was here")
        found = await shown(page)
    assert (found["state"], "not what was promoted" in found["why"]) == ("unreadable", True)


async def test_each_look_and_decision_is_in_the_access_log(door: Door) -> None:
    """Who promoted what is protected from then on is a question of an audit."""
    async with await door.page() as page:
        shown = (await page.get(PATH)).json()["sha256"]
        assert (await page.post(f"{PATH}/promote", json={"sha256": shown})).status_code == 200
        assert (await page.post(f"{PATH}/restore", json={"sha256": "0" * 64})).status_code != 200
    async with door.client() as stranger:
        assert (await stranger.get(PATH)).status_code == 401
    log = door.gateway.access_log
    found = [(one.action, one.call, one.outcome == "ok") for _, one in await log.listed(AccessFilter(), 9)]
    await log.close()
    assert found == [
        ("edit", "restore_memory_file", False),
        ("edit", "promote_memory_file", True),
        ("read", "memory_file", True),
    ]
