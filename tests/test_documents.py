"""A document by the name that a hit shows, over a whole home: from its file, or from the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Place, Scope, StoredDocument
from fusion.errors import BackendUnreachable, BadInput, NobodyAnswered, NotFound
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.sources.readers import read
from tests.patience import load

ADA, BERIT = Scope(user_id="ada", audience="private"), Scope(user_id="berit", audience="private")
ANYONE = Scope(audience="private")


class Silent(InMemory):
    """A backend whose documents cannot be had at the moment."""

    async def read(self, name: str) -> StoredDocument | None:
        raise BackendUnreachable("refused")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "garage"
    folder.mkdir()
    (folder / "chains.md").write_text("# Chains\n\nThe chains come from Kedjan.\n\n# Locks\n\nLocks are Swedish.\n")
    (folder / "MEMORY.md").write_text("Berit is allergic to nuts.\n")
    return folder


@asynccontextmanager
async def opened(home: Path, *paths: Path, **markdown: object) -> AsyncIterator[Gateway]:
    """A home without a model: the user's folders, and a backend in memory."""
    tables = {
        "memory": {"adapter": "adapters.inmemory:InMemory"},
        "markdown": {
            "adapter": "adapters.markdown:Markdown",
            "paths": [str(p) for p in paths],
            "scan_interval_s": 0,
            **markdown,
        },
    }
    async with Gateway.open(load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)) as gateway:
        yield gateway


async def ingested(gateway: Gateway, *paths: Path) -> list[str]:
    kept = await gateway.remember([item for item in read(paths) if isinstance(item, NewMemory)])
    await gateway.settle()
    return [one.ref for one in kept]


@pytest.mark.feature("a document is read by the name that a hit shows, from its file or from the journal")
async def test_what_a_hit_names_can_be_read(home: Path, notes: Path) -> None:
    """The document of every member of an answer leads to its file, or to where the journal has it."""
    talk = notes.parent / "talk.jsonl"
    talk.write_text('{"text": "The chains came late", "speaker": "Mara", "document": "standup", "position": 3}\n')
    async with opened(home, notes) as gateway:
        await ingested(gateway, talk)
        fused = await gateway.fuse("where do the chains come from?", scope=ANYONE, fill=True)
        places = {member.place for memory in fused.memories for member in memory.members if member.place}
        assert {place.document for place in places} == {"garage/chains.md", "standup"}
        for place in places:
            page = await gateway.document(place.document, ANYONE, start=place.start, lines=place.end - place.start + 1)
            assert (page["unit"], page["from"]) == (place.unit, place.start)
            member = next(m for memory in fused.memories for m in memory.members if m.place == place)
            assert member.text in page["text"]


async def test_a_document_that_was_only_told_is_read_from_the_journal(home: Path, notes: Path) -> None:
    """An ingested file whose folder is not the Markdown backend's: its lines are where they stood, gone file or not."""
    async with opened(home) as gateway:
        await ingested(gateway, notes)
        whole = (notes / "chains.md").read_text()
        (notes / "chains.md").unlink()
        page = await gateway.document("garage/chains.md", ANYONE)
        assert page["text"] == whole.rstrip("\n")
        assert (page["from"], page["lines"], page["truncated"]) == (1, 7, False)
        assert (await gateway.document("garage/chains.md", ANYONE, start=99))["text"] == ""


async def test_turns_are_read_in_their_order(home: Path) -> None:
    """A page of a conversation says who said what."""
    async with opened(home) as gateway:
        said = [NewMemory(f"number {n}", place=Place("standup", n, n), speaker="Mara") for n in (2, 0, 1)]
        await gateway.remember(said)
        page = await gateway.document("standup", ANYONE, lines=2)
        assert page["text"] == "Mara: number 1\nMara: number 2"
        assert (page["unit"], page["from"], page["next_from"]) == ("turn", 1, None)


@pytest.mark.row("A165", "… without what was forgotten", of="a document is read by the name")
async def test_what_was_forgotten_does_not_come_back(home: Path, notes: Path) -> None:
    """A forgotten section of a user's own file, and of the journal's copy of it, is blank."""
    async with opened(home, notes) as gateway:
        refs = await ingested(gateway, notes)
        for ref in refs:
            if "Kedjan" in (await gateway.memory(ref, ANYONE))["text"]:
                await gateway.forget(ref, ANYONE)
        text = (await gateway.document("garage/chains.md", ANYONE))["text"]
        assert "Kedjan" not in text
        assert "Swedish" in text
        (notes / "chains.md").unlink()
        again = (await gateway.document("garage/chains.md", ANYONE))["text"]
        assert "Kedjan" not in again
        assert "Swedish" in again


async def test_a_private_document_is_not_there_for_a_group(home: Path, notes: Path) -> None:
    """MEMORY.md, from its file and from the journal."""
    async with opened(home, notes) as gateway:
        await ingested(gateway, notes)
        assert "nuts" in (await gateway.document("garage/MEMORY.md", ANYONE))["text"]
        with pytest.raises(NotFound):
            await gateway.document("garage/MEMORY.md", Scope(audience="group"))


@pytest.mark.feature(
    "… only within the caller's user, tenant and audience; everything else is the same 404",
    of="a document is read by the name",
)
async def test_documents_are_their_users_and_tenants(home: Path, notes: Path) -> None:
    """A folder bound to Ada, and her session: Berit and another tenant find neither, all in the same words."""
    async with opened(home, notes, bind={"user_id": "ada"}) as gateway:
        await gateway.remember([NewMemory("Ada's day", scope=Scope(user_id="ada"), place=Place("diary", 1, 1))])
        for path in ("garage/chains.md", "diary"):
            assert (await gateway.document(path, ADA))["lines"] >= 1
        said = set()
        for scope in (BERIT, Scope(tenant="other", audience="private"), Scope(user_id="ada", agent_id="another")):
            for path in ("garage/chains.md", "diary", "../journal.sqlite", "~/x", "/etc/passwd", "a\0b", "\udce9", ""):
                with pytest.raises(NotFound) as caught:
                    await gateway.document(path, scope)
                said.add(str(caught.value))
        assert len(said) == 1


async def test_two_users_documents_are_never_mixed(home: Path) -> None:
    """Both have a session 1: a request without a user must say whose it is."""
    async with opened(home) as gateway:
        for user in ("ada", "berit"):
            await gateway.remember([NewMemory(f"{user}'s", scope=Scope(user_id=user), place=Place("session 1", 1, 1))])
        assert (await gateway.document("session 1", ADA))["text"] == "ada's"
        with pytest.raises(BadInput, match="user_id"):
            await gateway.document("session 1", ANYONE)


@pytest.mark.feature(
    "… and it has what one source says, a file or a session first, never a claim or output of a tool",
    of="a document is read by the name",
)
async def test_a_page_has_the_turns_of_one_source(home: Path) -> None:
    """Of a session whatever came before it; else of what began first and is not in doubt."""
    place = Place("talk", 1, 1)
    said = [
        NewMemory("by a tool", ADA, place=place, source="web:1", origin="tool"),
        NewMemory("by a claim", ADA, place=place, source="claimed:web:2"),
        NewMemory("by a program", ADA, place=place, source="web:3"),
        NewMemory("by another", ADA, place=place, source="mail:1"),
        NewMemory("by an agent", Scope(user_id="ada", agent_id="x"), place=place, source="web:3"),
    ]
    async with opened(home) as gateway:
        for item, text in zip(said, ("by a tool", "by a tool", *["by a program"] * 3), strict=True):
            await gateway.remember([item])
            assert (await gateway.document("talk", ADA))["text"] == text
        assert (await gateway.document("talk", Scope(user_id="ada", agent_id="x")))["text"] == "by an agent"
        await gateway.remember([NewMemory("by a session", ADA, place=place, source="claude-code:s1")])
        assert (await gateway.document("talk", ADA))["text"] == "by a session"


async def test_a_backend_that_cannot_look_costs_its_own_documents(home: Path) -> None:
    """What the journal has is read all the same; what nobody else has is not "not found" but "could not look"."""
    tables = {"silent": {"adapter": "tests.test_documents:Silent"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory("hello there", place=Place("standup", 1, 1))])
        assert (await gateway.document("standup", ANYONE))["text"] == "hello there"
        with pytest.raises(NobodyAnswered, match="silent"):
            await gateway.document("another", ANYONE)
