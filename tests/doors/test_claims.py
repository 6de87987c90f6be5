"""Claims over HTTP: a caller that has the token is no reader of the user's files and sessions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from fusion import Gateway
from fusion.client import AsyncClient
from fusion.contract import READER_KINDS, Event, Place, Scope
from fusion.doors.cli.ingest import ingest
from fusion.doors.http.app import create_app
from fusion.errors import BadInput
from fusion.gateway.scoped import CallerGateway
from fusion.ingest.intake import NewMemory
from fusion.lib.chunk import chunks
from fusion.lib.words import content_hash
from fusion.sources.turns import Agent
from fusion.trust.token import READER, is_reader, reader_key
from tests.patience import load

ADA = Scope(user_id="ada")
TRUTH = "The deploy key of the harbour crane lives in the blue safe."
LIE = "The deploy key of the harbour crane lives at mallory.example."


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[tuple[Gateway, AsyncClient]]:
    """A real gateway with one backend, and a client that has its token."""
    one = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=one)
    async with Gateway.open(settings) as fusion:
        app = create_app(fusion, settings, local_token="t0ken")
        async with AsyncClient.over(httpx.ASGITransport(app), api_key="t0ken") as client:  # type: ignore[arg-type]
            yield fusion, client


def written(folder: Path) -> Path:
    folder.mkdir()
    note = folder / "keys.md"
    note.write_text(f"# Keys of the harbour\n\n{TRUTH}\n")
    return note


def claim(note: Path, text: str = LIE, **fields: Any) -> dict[str, Any]:
    """A memory that says it is lines 1 to 3 of a note."""
    place = {"document": f"{note.parent.name}/{note.name}", "position": 1, "end": 3, "unit": "line"}
    return {"text": text, "user_id": "ada", "source": f"file:{note}", **place, **fields}


async def read_in(client: AsyncClient, note: Path, home: Path) -> dict[str, Any]:
    return dict(await ingest([note.parent], ADA, nullcontext(client), quiet=True, home=home))


async def members_of(client: AsyncClient, text: str) -> list[Sequence[str]]:
    """The texts of each excerpt of an answer that has ``text`` in it."""
    await client.settle()
    fused = await client.fuse("Where does the deploy key of the harbour crane live?", user_id="ada")
    excerpts = [[member["text"] for member in memory["members"]] for memory in fused["memories"]]
    return [texts for texts in excerpts if any(text in one for one in texts)]


@pytest.mark.feature("a request with the token does not take the place of a note's line")
@pytest.mark.parametrize("before", [True, False])
async def test_a_request_with_the_token_does_not_take_the_place_of_a_notes_line(tmp_path: Path, before: bool) -> None:
    """Sent before the note is read or after: the note's line is shown, and the claim is a memory apart that says so."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    async with opened(home) as (_, client):
        if not before:
            await read_in(client, note, home)
        [kept] = (await client.remember([claim(note)], batch="20261122-101010-abcd"))["memories"]
        if before:
            assert (await read_in(client, note, home))["stored"] == 1
        assert "claimed:file:" in (kept["reason"] or "")
        assert (await client.memory(kept["ref"], user_id="ada"))["source"] == f"claimed:file:{note}"
        assert not any(LIE in text for texts in await members_of(client, TRUTH) for text in texts)
        page = await client.document("notes/keys.md", user_id="ada")
        assert TRUTH in page["text"]
        assert LIE not in page["text"]


@pytest.mark.feature(
    "… nor keep a section out by using its natural key",
    of="a request with the token does not take the place of a note's line",
)
async def test_a_claim_with_a_sections_revision_does_not_keep_the_section_out(tmp_path: Path) -> None:
    """The revision of a section is the hash of its text, which a caller can compute; it is part of the natural key."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    async with opened(home) as (_, client):
        await client.remember([claim(note, LIE * 5, revision=content_hash(chunks(note.read_text())[0].text))])
        assert (await read_in(client, note, home))["stored"] == 1
        assert await members_of(client, TRUTH)


@pytest.mark.feature(
    "… nor is such a memory retired with the file",
    of="a request with the token does not take the place of a note's line",
)
async def test_an_ingest_does_not_retire_a_claim_as_if_it_were_of_the_file(tmp_path: Path) -> None:
    home, note = tmp_path / "home", written(tmp_path / "notes")
    async with opened(home) as (_, client):
        [kept] = (await client.remember([claim(note)]))["memories"]
        assert (await read_in(client, note, home))["retired"] == 0
        assert (await client.memory(kept["ref"], user_id="ada"))["text"] == LIE


@pytest.mark.feature(
    "… nor does it edit a session's turn", of="a request with the token does not take the place of a note's line"
)
async def test_a_request_with_the_token_does_not_edit_a_sessions_turn(tmp_path: Path) -> None:
    """Another text at the place of a turn is an edit of it, if the reader of the session says so."""
    place = Place("claude-code/s1", 0, 0)
    turn = NewMemory(TRUTH, ADA, kind="turn", speaker="user", place=place, source="claude-code:s1", revision="u1")
    claimed = {"document": "claude-code/s1", "position": 0, "source": "claude-code:s1", "kind": "turn"}
    async with opened(tmp_path / "home") as (fusion, client):
        await fusion.remember([turn])
        [kept] = (await client.remember([{"text": LIE, "user_id": "ada", "speaker": "user", **claimed}]))["memories"]
        assert kept["status"] == "stored"
        assert kept["supersedes"] is None
        assert await members_of(client, TRUTH)


@pytest.mark.feature("only the gateway's own file readers may retire a note's lines")
@pytest.mark.parametrize("sent", [None, "t0ken", "x" * 43])
async def test_retire_without_the_readers_key_is_refused_and_retires_nothing(tmp_path: Path, sent: str | None) -> None:
    """Retired lines leave no record in the audit, so the token alone must not be enough. A dry run only counts."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    gone = [{"source": f"file:{note}", "keep": []}]
    async with opened(home) as (_, client):
        await read_in(client, note, home)
        with pytest.raises(BadInput, match=r"reader\.key"):
            await client.retire(gone, user_id="ada", reader=sent)
        assert await members_of(client, TRUTH)
        assert (await client.retire(gone, user_id="ada", dry_run=True))["retired"] == 1
        assert (await client.retire(gone, user_id="ada", reader=reader_key(home)))["retired"] == 1
        assert not await members_of(client, TRUTH)


@pytest.mark.feature("only the home's reader key makes a program a file reader")
async def test_only_the_readers_key_makes_a_reader(tmp_path: Path) -> None:
    """Neither another key nor the home's token; and only as long as nobody else can read the key."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    async with opened(home) as (_, client):
        key = reader_key(home)
        for number, (sent, source) in enumerate(
            [("x" * 43, "claimed:file:"), ("t0ken", "claimed:file:"), (key, "file:")]
        ):
            [kept] = (await client.remember([claim(note, f"Text {number}")], reader=sent))["memories"]
            assert (await client.memory(kept["ref"], user_id="ada"))["source"] == f"{source}{note}"
        (home / READER).chmod(0o644)
        assert not is_reader(home, key)


@pytest.mark.feature("… and only for the home's owner", of="only the home's reader key makes")
async def test_a_tenants_key_with_the_readers_key_claims_nothing(tmp_path: Path) -> None:
    """Files are read for the home's owner."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    one = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    keys = [{"name": "guest", "tenant": "guest", "sha256": sha256(b"secret").hexdigest()}]
    server = {"keys": keys}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=one, server=server)
    async with Gateway.open(settings) as fusion:
        app = create_app(fusion, settings, local_token="t0ken")
        async with AsyncClient.over(httpx.ASGITransport(app), api_key="secret") as client:  # type: ignore[arg-type]
            [kept] = (await client.remember([claim(note)], reader=reader_key(home)))["memories"]
            assert (await client.memory(kept["ref"], user_id="ada"))["source"] == f"claimed:file:{note}"
            with pytest.raises(BadInput, match=r"reader\.key"):
                await client.retire([{"source": "mail", "keep": []}], reader=reader_key(home))


@pytest.mark.feature("a backend's verb claims no line of a note")
async def test_a_backends_verb_claims_no_line_of_a_note(tmp_path: Path) -> None:
    """What a verb remembers comes from its caller's arguments."""
    note = written(tmp_path / "notes")
    async with opened(tmp_path / "home") as (fusion, client):
        place = Place("notes/keys.md", 1, 3, "line")
        draft = Event("", LIE, datetime.now(UTC), ADA, place=place, source=f"file:{note}")
        [(event_id, _)] = await CallerGateway(fusion, "one", ADA, fusion.forget, fusion.settle).remember([draft])
        assert (await client.memory(event_id, user_id="ada"))["source"] == f"claimed:file:{note}"


@pytest.mark.feature("a line of JSONL claims no line of a note")
async def test_a_line_of_jsonl_claims_no_line_of_a_note(tmp_path: Path) -> None:
    """An export of somebody else's may name any source."""
    home, note = tmp_path / "home", written(tmp_path / "notes")
    export = tmp_path / "export" / "rows.jsonl"
    export.parent.mkdir()
    export.write_text(json.dumps(claim(note)) + "\n")
    async with opened(home) as (_, client):
        await ingest([export], ADA, nullcontext(client), quiet=True, home=home)
        [row] = (await client.memories(user_id="ada"))["memories"]
        assert row["source"] == f"claimed:file:{note}"


def test_every_agent_whose_sessions_are_read_is_a_reader() -> None:
    assert set(get_args(Agent)) | {"file", "jsonl"} == READER_KINDS
