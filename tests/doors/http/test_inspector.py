"""The inspector's routes: its files, their policy, and the session of a browser."""

from __future__ import annotations

from hashlib import sha256

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

    def __init__(self) -> None:
        self._transport = Checked(app_over(FakeFusion(), SETTINGS, local_token=TOKEN), raise_app_exceptions=False)

    def client(self, token: str = "") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=self._transport, base_url="http://localhost:8765", headers=headers)

    async def session_of(self, token: str) -> str:
        """A session for the key, by a link."""
        async with self.client(token) as http:
            path = (await http.post("/v1/inspector/links", json={})).json()["path"]
        async with self.client() as browser:
            reply = await browser.post("/v1/inspector/sessions", json={"code": path.partition("=")[2]})
        return str(reply.json()["token"])


@pytest.fixture
def door() -> Door:
    return Door()


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
        assert (await eva.get("/v1/status")).json()["caller"] == {"name": "eva", "role": "reader", "tenant": "default"}
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
