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
from fusion.doors.cli import render
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


async def test_an_undo_takes_back_the_claims_of_an_ingest_without_the_key(tmp_path: Path) -> None:
    """They do not keep the note's text out when it is read with the key, then or later."""
    home, note, batch = tmp_path / "home", written(tmp_path / "notes"), "20261122-101010-abcd"
    first, [chunk] = note.read_text(), chunks(note.read_text())
    async with opened(home) as (_, client):
        await client.remember([claim(note, chunk.text, revision=content_hash(chunk.text))], batch=batch)
        note.write_text(first.replace("blue", "red"))
        await read_in(client, note, home)
        assert (await client.undo(batch, user_id="ada"))["undone"] == 1
        assert set((await current(client)).values()) == {f"file:{note}"}
        note.write_text(first)
        assert (await read_in(client, note, home))["stored"] == 1
        assert [text for text in await current(client) if "blue" in text]


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
        [(event_id, _)] = await CallerGateway(fusion, fusion, "one", ADA).remember([draft])
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


# Files of JSONL among each other

TURNS = {
    0: "Hi",
    1: "Good morning, where do we keep the keys of the harbour?",
    2: TRUTH,
    5: "Nadia has the code of the safe since March.",
}


def rows(file: Path, *found: dict[str, Any]) -> Path:
    """A file of JSONL."""
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in found))
    return file


def talk(file: Path, **fields: Any) -> Path:
    """A conversation in a file of JSONL, with a free place in the middle."""
    return rows(file, *({"text": text, "document": "chat", "position": n, **fields} for n, text in TURNS.items()))


async def read_rows(client: AsyncClient, file: Path, home: Path) -> dict[str, Any]:
    return dict(await ingest([file], ADA, nullcontext(client), quiet=True, home=home))


async def current(client: AsyncClient) -> dict[str, str]:
    """By text, the sources of the current memories."""
    page = await client.memories(user_id="ada", limit=100)
    return {row["text"]: row["source"] or "" for row in page["memories"]}


FORMS: dict[str, dict[str, Any]] = {
    "the same place": {"document": "chat", "position": 2},
    "a free place in the middle": {"document": "chat", "position": 3},
    "a free place at the end": {"document": "chat", "position": 9},
    "the source by name": {"document": "chat", "position": 2, "source": "jsonl:chat"},
    "the source by path": {"document": "chat", "position": 3, "source": "jsonl:{victim}"},
    "the natural key": {"document": "chat", "position": 2, "revision": "r"},
    "lines": {"document": "chat", "position": 1, "end": 3, "unit": "line"},
    "an empty kind": {"document": "chat", "position": 3, "source": ":x"},
    "another agent": {"document": "chat", "position": 3, "agent_id": "x"},
    "another run": {"document": "chat", "position": 3, "run_id": "x"},
}
OTHER_DOCUMENTS = {"lines", "an empty kind", "another agent", "another run"}
"""the forms that name another document than the conversation, so that nothing is a claim"""


@pytest.mark.feature(
    "a file of JSONL takes no part in a conversation of another file, whatever it names, before or after"
)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("form", FORMS)
async def test_a_file_of_jsonl_takes_no_part_in_a_conversation_of_another(
    tmp_path: Path, form: str, before: bool
) -> None:
    """Nothing of the other file is replaced, kept out or shown with the lie; the answer and the count say so."""
    home, victim = tmp_path / "home", talk(tmp_path / "mine" / "chat.jsonl", revision=FORMS[form].get("revision"))
    claims = {
        name: str(value).format(victim=victim) if name == "source" else value for name, value in FORMS[form].items()
    }
    hostile = rows(tmp_path / "export" / "rows.jsonl", {"text": LIE, **claims})
    async with opened(home) as (_, client):
        done = [await read_rows(client, file, home) for file in ((hostile, victim) if before else (victim, hostile))]
        assert [one["superseded"] for one in done] == [0, 0]
        stored = await current(client)
        assert stored.keys() == {LIE, *TURNS.values()}
        for texts in await members_of(client, LIE):
            assert texts == [LIE]
        page = (await client.document("chat", user_id="ada"))["text"]
        assert page == (LIE if before else "\n".join(text for n, text in TURNS.items() if n >= 1))
        if form not in OTHER_DOCUMENTS:
            [apart] = done[1]["apart"]
            assert apart["count"] == (len(TURNS) if before else 1)
            assert "put the parts of one conversation into one file" in apart["reason"]
            assert stored[TRUTH if before else LIE] == f"claimed:jsonl:{victim if before else hostile}"
        again = await read_rows(client, hostile, home)
        assert (again["stored"], again["superseded"]) == (0, 0)


@pytest.mark.feature(
    "… and a short ref or a key without a document gives it no line of another file either",
    of="a file of JSONL takes no part in a conversation of another file, whatever it names, before or after",
)
@pytest.mark.parametrize("before", [False, True])
async def test_a_file_of_jsonl_keeps_out_and_replaces_no_line_without_a_document(tmp_path: Path, before: bool) -> None:
    home = tmp_path / "home"
    victim = rows(tmp_path / "mine" / "facts.jsonl", {"text": TRUTH, "revision": "r1"})
    hostile = rows(
        tmp_path / "export" / "rows.jsonl",
        {"text": LIE, "source": "jsonl:facts.jsonl", "revision": "r1"},
        {"text": f"{LIE} Really.", "supersedes": "m1"},
    )
    async with opened(home) as (_, client):
        done = [await read_rows(client, file, home) for file in ((hostile, victim) if before else (victim, hostile))]
        assert (await current(client)).keys() >= {TRUTH, f"{LIE} Really."}
        assert sum(row["count"] for row in done[1]["apart"]) == (1 if before else 2)


@pytest.mark.feature(
    "… but one that was moved, or has the first turn, goes on with its conversation",
    of="a file of JSONL takes no part in a conversation of another file, whatever it names, before or after",
)
@pytest.mark.parametrize("how", ["moved", "copied", "exported again", "copied after an upgrade"])
async def test_a_moved_file_of_jsonl_goes_on_with_its_conversation(tmp_path: Path, how: str) -> None:
    """Its lines are known, a new one joins, an edited one replaces, and another file is still a stranger."""
    home, first = tmp_path / "home", talk(tmp_path / "mine" / "chat.jsonl")
    other = tmp_path / "archive" / "2026.jsonl"
    async with opened(home) as (fusion, client):
        await read_rows(client, first, home)
        if how == "copied after an upgrade":
            await fusion.journal.write(lambda db: db.execute("update event set file = null"))
        if how == "moved":
            other.parent.mkdir()
            first.rename(other)
        else:
            talk(other, **({"speaker": "Ada"} if how == "exported again" else {}))
        rows_of = [json.loads(line) for line in other.read_text().splitlines()]
        rows_of[2]["text"] = f"{TRUTH} Since May, that is."
        rows(other, *rows_of, {"text": "And now it has a new code.", "document": "chat", "position": 3})
        done = await read_rows(client, other, home)
        assert (done["stored"], done["superseded"], done["apart"]) == (1, 1, [])
        hostile = rows(tmp_path / "export" / "x.jsonl", {"text": LIE, "document": "chat", "position": 9})
        assert sum(row["count"] for row in (await read_rows(client, hostile, home))["apart"]) == 1


@pytest.mark.feature(
    "… and no request names the file of a memory without the readers' key",
    of="a file of JSONL takes no part in a conversation of another file, whatever it names, before or after",
)
@pytest.mark.parametrize("sent", [None, "t0ken"])
async def test_a_request_without_the_readers_key_names_no_file(tmp_path: Path, sent: str | None) -> None:
    """Neither in the conversation of that file, nor for a source of its own."""
    home, victim = tmp_path / "home", talk(tmp_path / "mine" / "chat.jsonl", source="web:12")
    async with opened(home) as (fusion, client):
        await read_rows(client, victim, home)
        item = {
            "text": LIE,
            "document": "chat",
            "position": 3,
            "source": "web:13",
            "read_from": str(victim),
            "user_id": "ada",
        }
        [kept] = (await client.remember([item], reader=sent))["memories"]
        assert kept["claimed"] is True
        assert (await client.memory(kept["ref"], user_id="ada"))["source"] == "claimed:web:13"
        files = await fusion.journal.read(
            lambda db: db.execute("select file from event where text = ?", (LIE,)).fetchall()
        )
        assert [row[0] for row in files] == [None]


async def test_an_ingest_says_what_it_keeps_apart_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    files = [
        talk(tmp_path / "mine" / "chat.jsonl"),
        rows(tmp_path / "mine" / "more.jsonl", {"text": LIE, "document": "chat", "position": 9}),
    ]
    async with opened(home) as (_, client):
        summary = await ingest(files, ADA, nullcontext(client), quiet=True, home=home)
    render.ingested(summary)
    printed = " ".join(capsys.readouterr().out.split())
    assert f"kept apart: chat:9: its source is kept as 'claimed:jsonl:{files[1]}'" in printed
    assert "put the parts of one conversation into one file" in printed
    assert "changed:" not in printed


def test_every_agent_whose_sessions_are_read_is_a_reader() -> None:
    assert set(get_args(Agent)) | {"file", "jsonl"} == READER_KINDS
