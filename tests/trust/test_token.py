"""The token of a home, and the permissions of its files."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from fusion.doors.cli.app import app
from fusion.doors.http.middleware import Rules
from fusion.doors.http.serve import refuse_open_door, token_of
from fusion.errors import SettingsError
from fusion.settings import MemoryCortexSettings, ServerSettings, Settings, load
from fusion.trust import allow
from fusion.trust.token import TOKEN, home_token, make_private, proof, read_token
from tests.doors.fakes import FakeFusion, app_over

PUBLIC = ("/healthz", "/readyz", "/openapi.json", "/docs")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def http(**options: object) -> httpx.AsyncClient:
    """A client of a gateway whose token is "t0ken"."""
    settings = Settings(server=ServerSettings(**options))  # type: ignore[arg-type]
    there = httpx.ASGITransport(app_over(FakeFusion(), settings, local_token="t0ken"))
    return httpx.AsyncClient(transport=there, base_url="http://localhost")


MAPPED = ("::ffff:127.0.0.1", 8765, 0, 0)
"""an IPv4 address as a socket for IPv6 names it"""


class TestToken:
    @pytest.mark.feature("the token is created once, is private, and never changes by itself")
    def test_a_token_has_256_bits_is_private_and_stays(self, home: Path) -> None:
        """43 characters of base64; whatever the umask."""
        mask = os.umask(0)
        try:
            token = home_token(home)
        finally:
            os.umask(mask)
        assert len(token) == 43
        assert mode(home / TOKEN) == 0o600
        assert home_token(home) == read_token(home) == token
        assert [path.name for path in home.iterdir()] == [TOKEN]

    def test_a_token_is_made_once_by_many_at_once(self, home: Path) -> None:
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(home_token, [home] * 32))) == 1

    def test_no_token_is_none(self, home: Path) -> None:
        assert read_token(home) is None

    @pytest.mark.parametrize("loose", [0o640, 0o604, 0o620, 0o602])
    def test_a_token_that_others_can_read_or_change_is_refused(self, home: Path, loose: int) -> None:
        home_token(home)
        (home / TOKEN).chmod(loose)
        with pytest.raises(SettingsError, match=r"Other users can read or change .*rm "):
            home_token(home)

    def test_a_link_is_refused_and_not_written_through(self, home: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        (home / TOKEN).symlink_to(elsewhere)
        with pytest.raises(SettingsError, match=r"cannot be opened.*rm "):
            home_token(home)
        assert not elsewhere.exists()

    def test_a_folder_a_pipe_and_an_empty_file_are_refused(self, home: Path) -> None:
        """A pipe must not keep the reader waiting either."""
        path = home / TOKEN
        path.mkdir(mode=0o700)
        with pytest.raises(SettingsError, match="not a regular file"):
            home_token(home)
        path.rmdir()
        os.mkfifo(path, 0o600)
        with pytest.raises(SettingsError, match="not a regular file"):
            home_token(home)
        path.unlink()
        path.touch(0o600)
        with pytest.raises(SettingsError, match="does not hold a token"):
            home_token(home)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_token_of_another_user_is_refused(self, home: Path) -> None:
        home_token(home)
        os.chown(home / TOKEN, 65534, 65534)
        with pytest.raises(SettingsError, match="belongs to another user"):
            home_token(home)

    @pytest.mark.feature("… also if the disk has no space for a token", of="serving without a token")
    def test_a_home_that_takes_no_token_is_not_open_for_that(self, tmp_path: Path) -> None:
        """A read-only or full disk: the server has a token that nobody knows, and API keys open it."""
        gone = tmp_path / "gone"
        assert len({token_of(gone), token_of(gone)}) == 2
        assert not gone.exists()

    @pytest.mark.feature("`fusion token` prints it")
    def test_fusion_token_prints_it_for_scripts(self, home: Path) -> None:
        """The same as the server reads; a home that is not there is named and not made."""
        result = CliRunner().invoke(app, ["token", "--home", str(home)])
        assert result.output == f"{read_token(home)}\n"
        missing = CliRunner().invoke(app, ["token", "--home", str(home / "none")])
        assert missing.exit_code == 2
        assert not (home / "none").exists()

    @pytest.mark.feature("`fusion token --new-key NAME` makes an API key and its table, and refuses a reserved name")
    def test_new_key_opens_the_server_once_its_table_is_in_the_settings(self, home: Path) -> None:
        made = CliRunner().invoke(app, ["token", "--home", str(home), "--new-key", 'Eva\'s "laptop"', "--json"])
        found = json.loads(made.output)
        [key] = tomllib.loads(found["table"])["server"]["keys"]
        assert key == {
            "name": 'Eva\'s "laptop"',
            "sha256": hashlib.sha256(found["key"].encode()).hexdigest(),
            "tenant": "default",
            "role": "writer",
        }
        (home / "fusion.toml").write_text(found["table"])
        allow(home)
        assert Rules.of(load(home=home)).names == {key["sha256"]: key["name"]}
        again = CliRunner().invoke(app, ["token", "--home", str(home), "--new-key", 'Eva\'s "laptop"'])
        assert (again.exit_code, "already" in again.output) == (2, True)

    @pytest.mark.parametrize("name", ["owner", "OWNER", " anyone", "\uff4fwner", "", "a\nb", "x" * 65])
    def test_new_key_refuses_a_reserved_or_unprintable_name(self, home: Path, name: str) -> None:
        result = CliRunner().invoke(app, ["token", "--home", str(home), "--new-key", name])
        assert result.exit_code == 2
        assert "[[server.keys]]" not in result.output
        said = " ".join(result.output.split())
        assert "Choose another name" in said or "1 to 64 characters" in said


class TestPermissions:
    @pytest.mark.feature("a home that others could read becomes private")
    def test_a_loose_home_is_made_private(self, home: Path, tmp_path: Path) -> None:
        """Files 0600, folders 0700, what is executable for its owner stays so; a link's target keeps its own."""
        outside = tmp_path / "outside"
        outside.write_text("mine")
        outside.chmod(0o644)
        (home / "backends").mkdir()
        for name, bits in (("journal.sqlite", 0o644), ("backends/a.sqlite", 0o666), ("run", 0o755)):
            (home / name).write_text("x")
            (home / name).chmod(bits)
        (home / "link").symlink_to(outside)
        home_token(home)
        (home / TOKEN).chmod(0o644)
        (home / "backends").chmod(0o755)
        home.chmod(0o755)
        assert make_private(home) == 5
        assert [mode(home / p) for p in (".", "backends", "journal.sqlite", "backends/a.sqlite", "run")] == [
            0o700,
            0o700,
            0o600,
            0o600,
            0o700,
        ]
        assert (mode(outside), mode(home / TOKEN)) == (0o644, 0o644)
        assert make_private(home) == 0


class TestGate:
    @pytest.mark.feature("every route but the probes needs the home's token or an API key")
    @pytest.mark.parametrize("path", ["/fuse", "/v1/backends", "/v1/memories/1", "/mcp", "/compat/x/healthz", "/nope"])
    async def test_every_route_wants_the_token(self, path: str) -> None:
        """401, which says how to get it; no key has to be configured for that."""
        async with http() as client:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic t0ken"}):
                response = await client.post(path, json={}, headers=headers)
                assert response.status_code == 401
                assert "fusion token" in response.json()["detail"]
                assert response.headers["www-authenticate"].startswith("Bearer")
            assert (await client.post(path, json={}, headers={"authorization": "Bearer t0ken"})).status_code != 401

    @pytest.mark.parametrize("headers", [{"authorization": "Token t0ken"}, {"x-api-key": "t0ken"}])
    async def test_other_systems_headers_open_their_routes_alone(self, headers: dict[str, str]) -> None:
        """mem0's clients send these; our own routes have one way."""
        async with http() as client:
            assert (await client.get("/compat/mem0/v1/memories", headers=headers)).status_code == 404
            assert (await client.get("/v1/backends", headers=headers)).status_code == 401

    async def test_probes_say_nothing_of_the_home_without_the_token(self) -> None:
        """/readyz has two words; with the token the state of the backends as well."""
        async with http() as client:
            for path in PUBLIC:
                assert (await client.get(path)).status_code == 200
            assert (await client.get("/readyz")).json() == {"ready": True}
            known = await client.get("/readyz", headers={"authorization": "Bearer t0ken"})
            assert known.json()["backends"] == {"memory": "ready"}

    @pytest.mark.feature("a server proves to a client that it knows the token")
    async def test_a_challenge_is_answered_with_a_proof(self) -> None:
        """HMAC-SHA256 of the nonce and the server's address under the token, in hex; what is no nonce gets none."""
        async with http() as client:
            for nonce in ("n", "a" * 64):
                response = await client.get("/healthz", headers={"x-fusion-challenge": nonce})
                expected = hmac.new(b"t0ken", f"{nonce} 127.0.0.1 8765".encode(), hashlib.sha256).hexdigest()
                assert expected == proof("t0ken", nonce, ("127.0.0.1", 8765)) == proof("t0ken", nonce, MAPPED)
                assert response.headers["x-fusion-proof"] == proof("t0ken", nonce, ("localhost", None))
            for nonce in (b"", b"a" * 65, b"a b", "é".encode()):
                response = await client.get("/healthz", headers={"x-fusion-challenge": nonce})
                assert response.status_code == 200
                assert "x-fusion-proof" not in response.headers

    async def test_an_open_server_wants_none_and_proves_itself_all_the_same(self) -> None:
        async with http(open_to_local_users=True) as client:
            assert (await client.get("/v1/backends")).status_code == 200
            assert "x-fusion-proof" in (await client.get("/healthz", headers={"x-fusion-challenge": "n"})).headers


CORTEX = 8300
CALLS: dict[str, dict[str, Any]] = {
    "/ingest": {"messages": [{"role": "user", "content": "Hi"}], "session_id": "s"},
    "/hybrid-search": {"query": "q"},
    "/recall": {"query": "q"},
}


def at_cortex(port: int = CORTEX, **options: object) -> httpx.AsyncClient:
    """A client that sends no token, at a port of a gateway whose routes of Memory Cortex may be open."""
    cortex = MemoryCortexSettings(**{"port": CORTEX, "open_to_local_users": True, **options})  # type: ignore[arg-type]
    app = app_over(FakeFusion(), Settings(memory_cortex=cortex), local_token="t0ken")
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://localhost:{port}")


class TestOpenPortOfMemoryCortex:
    """`[memory_cortex] open_to_local_users`: clients that were written for the seed send no token."""

    @pytest.mark.feature("Memory Cortex's three routes need no token on its port, if a setting says so")
    @pytest.mark.parametrize("path", CALLS)
    async def test_the_three_routes_need_no_token_there(self, path: str) -> None:
        async with at_cortex() as client:
            assert (await client.post(path, json=CALLS[path])).status_code in (200, 202)
        for closed in (at_cortex(open_to_local_users=False), at_cortex(8765), at_cortex(enabled=False)):
            async with closed as client:
                assert (await client.post(path, json=CALLS[path])).status_code == 401

    @pytest.mark.parametrize("path", ["/fuse", "/v1/memories", "/v1/forget", "/v1/settle", "/mcp", "/ingest/", "/nope"])
    async def test_all_other_routes_need_it_there_too(self, path: str) -> None:
        async with at_cortex() as client:
            assert (await client.post(path, json={})).status_code == 401
            assert (await client.get("/v1/session?session_id=s")).status_code == 401
            assert (await client.get("/ingest")).status_code == 401
            assert (await client.get("/readyz")).json() == {"ready": True}

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": ""}, 401),
            ({"host": "evil.example:8300"}, 421),
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"content-type": "text/plain"}, 415),
            ({"content-type": ""}, 415),
            ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ],
    )
    @pytest.mark.parametrize("path", CALLS)
    async def test_pages_of_other_sites_and_wrong_tokens_are_refused(
        self, path: str, headers: dict[str, str], status: int
    ) -> None:
        """What a page can send without a preflight is no JSON by its media type; the preflight itself gets 401."""
        async with at_cortex() as client:
            sent = {"content-type": "application/json", **headers}
            assert (await client.post(path, content=orjson.dumps(CALLS[path]), headers=sent)).status_code == status
            assert (await client.options(path, headers={"origin": "http://localhost:8300"})).status_code == 401

    async def test_memories_of_all_users_need_the_token(self) -> None:
        async with at_cortex() as client:
            for path in ("/hybrid-search", "/recall"):
                asked = {**CALLS[path], "all_users": True}
                assert (await client.post(path, json=asked)).status_code == 422
                key = {"authorization": "Bearer t0ken"}
                assert (await client.post(path, json=asked, headers=key)).status_code == 200

    def test_it_is_refused_beyond_loopback_with_keys_and_without_a_port(self) -> None:
        settings: list[dict[str, Any]] = [
            {"memory_cortex": {"open_to_local_users": True}},
            {"memory_cortex": {"open_to_local_users": True, "port": CORTEX}, "api_key": "k"},
            {"memory_cortex": {"open_to_local_users": True, "port": CORTEX}, "server": {"host": "0.0.0.0"}},
        ]
        for refused in settings:
            with pytest.raises(SettingsError, match=r"memory_cortex\.open_to_local_users|0\.0\.0\.0"):
                load(**refused)
        cortex = MemoryCortexSettings(port=CORTEX, open_to_local_users=True)
        outside = Settings(memory_cortex=cortex).model_copy(update={"server": ServerSettings(host="0.0.0.0")})
        assert Rules.of(outside, local_token="t0ken").open_port == 0


class TestNoToken:
    @pytest.mark.feature("serving without a token is refused beyond loopback")
    def test_an_open_server_is_refused_beyond_loopback_and_with_keys(self) -> None:
        outside = Settings(server=ServerSettings(open_to_local_users=True))
        outside = outside.model_copy(update={"server": ServerSettings(host="0.0.0.0", open_to_local_users=True)})
        with pytest.raises(SettingsError, match="without a token"):
            refuse_open_door(outside)
        with pytest.raises(SettingsError, match="open_to_local_users"):
            load(server={"open_to_local_users": True}, api_key="k")
