"""The inspector's routes: its files, their policy, and the session of a browser."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from fusion.doors.inspector.files import POLICY, page_files
from fusion.settings import KeySettings, ServerSettings, Settings
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over

TOKEN = "the home's token"
OF_READER = "a reader's key"
SETTINGS = Settings(
    server=ServerSettings(keys=(KeySettings(name="eva", sha256=sha256(OF_READER.encode()).hexdigest(), role="reader"),))
)


class Door:
    """One server, and its clients."""

    def __init__(self, home: Path, settings: Settings = SETTINGS) -> None:
        at = settings.model_copy(update={"home": home})
        self._transport = Checked(app_over(FakeFusion(), at, local_token=TOKEN), raise_app_exceptions=False)

    def client(self, token: str = "") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=self._transport, base_url="http://localhost:8765", headers=headers)

    async def session_of(self, token: str) -> str:
        """A session for the key, by a link."""
        return str((await self.signed_in(token))["token"])

    async def signed_in(self, token: str) -> dict[str, str]:
        """The whole session for the key, by a link."""
        async with self.client(token) as http:
            path = (await http.post("/v1/inspector/links", json={})).json()["path"]
        async with self.client() as browser:
            reply = await browser.post("/v1/inspector/sessions", json={"code": path.partition("=")[2]})
        session: dict[str, str] = reply.json()
        return session

    async def renewed(self, session: Mapping[str, str]) -> int:
        """The status of a renewal, by a page that knows the session's renewal key."""
        async with self.client() as page:
            asked = {"renewal_id": session["renewal_id"], "nonce": "n"}
            first = await page.post("/v1/inspector/renewals", json=asked)
            if first.status_code != 200:
                return first.status_code
            challenge = first.json()["challenge"]
            text = f"page 8765 {challenge}"
            proof = hmac.new(session["renewal_key"].encode(), text.encode(), sha256).hexdigest()
            answer = {"challenge": challenge, "proof": proof}
            return (await page.post("/v1/inspector/sessions", json=answer)).status_code


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


@pytest.mark.feature("`fusion serve` has the inspector at /inspector: static files, no script but its own")
async def test_page_needs_no_key_and_allows_only_its_own_files(door: Door) -> None:
    async with door.client() as browser:
        assert (await browser.get("/")).headers["location"] == "/inspector/"
        assert (await browser.get("/inspector")).headers["location"] == "/inspector/"
        page = await browser.get("/inspector/")
    assert (page.status_code, page.headers["content-security-policy"]) == (200, POLICY)
    assert "<script>" not in page.text
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-cache"


async def test_every_file_is_served_with_its_type(door: Door) -> None:
    async with door.client() as browser:
        for name, file in page_files().items():
            reply = await browser.get(f"/inspector/{name}")
            assert (reply.content, reply.headers["content-type"]) == (file.body, file.media_type), name


async def test_file_that_the_browser_has_is_not_sent_again(door: Door) -> None:
    async with door.client() as browser:
        first = await browser.get("/inspector/app.js")
        again = await browser.get("/inspector/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["nothing.js", "../app.py", "..%2f..%2ffiles.py", "vendor", "%00", "files.py"])
async def test_nothing_but_the_files_of_the_page_is_served(door: Door, path: str) -> None:
    async with door.client() as browser:
        assert (await browser.get(f"/inspector/{path}")).status_code in (401, 404)


async def test_session_has_the_rights_of_the_key_that_made_its_link(door: Door) -> None:
    async with door.client(await door.session_of(OF_READER)) as eva:
        caller = (await eva.get("/v1/status")).json()["caller"]
        assert caller == {"name": "eva", "role": "reader", "tenant": "default", "decides_on_proposals": False}
        refused = await eva.post("/v1/memories", json={"memories": [{"text": "x"}]})
    assert refused.status_code == 403
    async with door.client(await door.session_of(TOKEN)) as owner:
        assert (await owner.get("/v1/status")).json()["caller"]["role"] == "operator"


async def test_link_needs_a_key_and_a_session_needs_a_code(door: Door) -> None:
    async with door.client() as browser:
        assert (await browser.post("/v1/inspector/links", json={})).status_code == 401
        refused = await browser.post("/v1/inspector/sessions", json={"code": "guessed"})
        assert (refused.status_code, "fusion open" in refused.json()["detail"]) == (401, True)
        assert (await browser.post("/v1/inspector/sessions", json={"code": 1})).status_code == 422
        assert (await browser.post("/v1/inspector/sessions", json=[])).status_code == 422
        assert (await browser.post("/v1/inspector/renewals", json={"renewal_id": "x", "nonce": "y"})).status_code == 401


async def test_who_signs_out_ends_the_session_on_the_server(door: Door) -> None:
    async with door.client(await door.session_of(TOKEN)) as page, door.client(TOKEN) as owner:
        assert (await page.delete("/v1/inspector/sessions")).json() == {"ended": True}
        assert (await page.get("/v1/status")).status_code == 401
        assert (await owner.delete("/v1/inspector/sessions")).json() == {"ended": False}
        assert (await owner.get("/v1/status")).status_code == 200
    async with door.client() as nobody:
        assert (await nobody.delete("/v1/inspector/sessions")).json() == {"ended": False}


async def test_who_signs_out_ends_the_renewals_at_each_server(door: Door, tmp_path: Path) -> None:
    first, second = await door.signed_in(TOKEN), await door.signed_in(TOKEN)
    assert await door.renewed(first) == 200
    async with door.client(first["token"]) as page:
        await page.delete("/v1/inspector/sessions")
    for server in (door, Door(tmp_path)):
        assert (await server.renewed(first), await server.renewed(second)) == (401, 200)


async def test_session_of_a_revoked_key_is_not_renewed(door: Door, tmp_path: Path) -> None:
    """The key of the reader is taken out of the settings, and the server is started again."""
    of_reader, of_owner = await door.signed_in(OF_READER), await door.signed_in(TOKEN)
    without = Door(tmp_path, Settings())
    assert (await without.renewed(of_reader), await without.renewed(of_owner)) == (401, 200)
    async with without.client(of_reader["token"]) as page:
        assert (await page.get("/v1/status")).status_code == 401
    assert await door.renewed(of_reader) == 200


async def test_session_cannot_prolong_itself_by_a_link(door: Door) -> None:
    async with door.client(await door.session_of(TOKEN)) as page:
        refused = await page.post("/v1/inspector/links", json={})
    assert (refused.status_code, "code=" in refused.text) == (403, False)


@pytest.mark.parametrize("path", ["/v1/inspector/sessions", "/v1/inspector/links", "/inspector/", "/v1/status"])
async def test_page_of_another_origin_is_refused(door: Door, path: str) -> None:
    token = await door.session_of(TOKEN)
    async with door.client(token) as http:
        for origin in ("https://evil.example", "http://localhost:9999", "null"):
            reply = await http.request(
                "GET" if path == "/inspector/" else "POST", path, headers={"origin": origin}, json={}
            )
            assert reply.status_code == 403, (path, origin)
        assert (await http.get("/v1/status", headers={"host": "evil.example"})).status_code == 421
