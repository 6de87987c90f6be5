"""Secrets that must not leave, and requests that must not be accepted: keys, addresses, bombs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import chaos
from tests.chaos import Chaos
from tests.faults.home import door, logged, remote, settings_of

CANARY = "sk-canary-4f1d9a7c2be84d5f93a1"
"""a key of the gateway, which is only in the environment"""
PASTED = "AKIAQCANARY7EXAMPLE4"
"""a key that a user pasted into a memory"""


@pytest.mark.feature("a key in a log, an error, a receipt or a file (S14)")
@pytest.mark.parametrize("behaviour", [chaos.healthy, chaos.status(401), chaos.status(500), chaos.html, chaos.reset])
async def test_canaries_are_in_no_log_error_receipt_or_file(home: Path, behaviour: chaos.Behaviour) -> None:
    """S14: the API key, a backend's key and a pasted one, whatever the backend does; at the level `debug`."""
    os.environ |= {"THERE_KEY": f"{CANARY}-there", "FUSION_API_KEY": f"{CANARY}-door"}
    try:
        async with Chaos([{"native_id": "1", "text": "the harbour is in Lyon"}], behaviour) as server:
            there = remote(server.url, api_key_env="THERE_KEY")
            settings = settings_of(home, there=there, cortex="adapters.cortex:Cortex")
            settings = settings.model_copy(update={"log_level": "debug"})
            with logged() as lines:
                async with door(settings) as (gateway, client):
                    assert (await client.get("/v1/backends")).status_code == 401
                    said = [await client.post("/fuse", json={"query": "x"}, headers={"authorization": "Bearer wrong"})]
                    client.headers["authorization"] = f"Bearer {CANARY}-door"
                    memory = {"text": f"the key to the harbour is {PASTED}", "source": "chat"}
                    said.append(await client.post("/v1/memories", json=memory))
                    assert said[-1].status_code == 201
                    await gateway.settle()
                    fused = await client.post("/fuse", json={"query": "harbour key", "explain": True})
                    assert fused.status_code == 200
                    said += [fused, await client.get(f"/v1/receipts/{fused.json()['receipt_id']}")]
                    said.append(await client.post("/v1/search", json={"backend": "there", "query": "harbour"}))
                    said.append(await client.post("/v1/memories", json={"txet": PASTED}))
                    said += [await client.get(path) for path in ("/v1/backends", "/v1/status", "/readyz", "/nowhere")]
            assert server.calls[-1].headers["authorization"] == f"Bearer {CANARY}-there"
    finally:
        del os.environ["THERE_KEY"], os.environ["FUSION_API_KEY"]
    # Our own client's log has what it sends; it is not the server's.
    server_lines = [line for line in lines if not line.split(" ", 1)[1].startswith(("httpx", "httpcore"))]
    outcome = "\n".join([*server_lines, *(reply.text for reply in said), repr(settings)])
    assert CANARY not in outcome
    assert PASTED not in outcome
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if any(s.encode() in path.read_bytes() for s in (CANARY, PASTED))] == []


@pytest.mark.feature("a request that names an address to ask (S15)")
@pytest.mark.parametrize("field", ["url", "base_url", "endpoint", "callback", "webhook"])
async def test_no_request_names_an_address(home: Path, field: str) -> None:
    """S15: a backend's address comes from the configuration; no body, header or parameter brings another."""
    async with Chaos([{"native_id": "1", "text": "stolen"}]) as elsewhere:
        settings = settings_of(home, here="adapters.inmemory:InMemory")
        async with door(settings) as (_, client):
            body = {"query": "harbour", field: elsewhere.url}
            for path in ("/fuse", "/v1/search"):
                asked = {**body, "backend": "here"} if path == "/v1/search" else body
                refused = await client.post(path, json=asked)
                assert refused.status_code == 422
                assert field in refused.json()["detail"]
            named = {"query": "harbour", "backends": [elsewhere.url]}
            assert (await client.post("/fuse", json=named)).status_code == 422
            headers = {
                "forwarded": f"host={elsewhere.url}",
                "x-forwarded-host": elsewhere.url,
                "referer": elsewhere.url,
            }
            reply = await client.post(f"/fuse?{field}={elsewhere.url}", json={"query": "harbour"}, headers=headers)
            assert reply.status_code in (200, 422)
        assert elsewhere.calls == []


@pytest.mark.feature("a redirect that is followed (S15)")
async def test_redirects_lead_nowhere(home: Path) -> None:
    """S15: a backend that answers with a redirect is not followed, not even to this machine's own services."""
    async with Chaos([{"native_id": "1", "text": "stolen"}]) as inner:
        redirect = chaos.status(307, Location=f"{inner.url}/v1/search")
        async with Chaos(behaviour=redirect) as outer:
            settings = settings_of(home, there=remote(outer.url))
            async with door(settings) as (_, client):
                reply = await client.post("/fuse", json={"query": "harbour"})
        assert reply.json()["backends"][0]["error_code"] == "http_307"
        assert inner.calls == []


BOMBS = {
    "nested arrays": b"[" * 200_000,
    "nested objects": b'{"query":' * 20_000 + b"1" + b"}" * 20_000,
    "nested in a field": b'{"query": "x", "backends": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a number of many digits": b'{"query": "x", "timeout_ms": ' + b"9" * 100_000 + b"}",
    "1e400": b'{"query": "x", "timeout_ms": 1e400}',
    "NaN": b'{"query": "x", "timeout_ms": NaN}',
    "many fields": b'{"query": "x"' + b"".join(b', "f%d": 1' % n for n in range(15_000)) + b"}",
    "a key twice": b'{"query": "x", "query": ""}',
}


@pytest.mark.feature("NUL, surrogates, NaN, 1e400, deep JSON: 4xx, never 5xx", part="faults/clients")
@pytest.mark.feature("a JSON bomb that gets further than a 4xx (S19)")
@pytest.mark.parametrize("bomb", BOMBS)
async def test_json_limits(home: Path, bomb: str) -> None:
    """S19: depth, digits, numbers that are none, fields without number: a 4xx that says why, in few words."""
    settings = settings_of(home, here="adapters.inmemory:InMemory")
    async with door(settings) as (_, client):
        headers = {"content-type": "application/json"}
        for path in ("/fuse", "/v1/memories", "/v1/search"):
            reply = await client.post(path, content=BOMBS[bomb], headers=headers)
            assert 400 <= reply.status_code < 500, (path, reply.text)
            assert len(reply.content) < 10_000


@pytest.mark.feature("a request that is decompressed (S19)")
async def test_decompression_limits(home: Path) -> None:
    """S19: compressed requests are refused unread, whatever they are compressed with."""
    settings = settings_of(home, here="adapters.inmemory:InMemory")
    async with door(settings) as (_, client):
        for coding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
            headers = {"content-type": "application/json", "content-encoding": coding}
            reply = await client.post("/fuse", content=b"\x1f\x8b" + b"\0" * 100, headers=headers)
            assert reply.status_code == 415
