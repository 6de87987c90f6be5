"""Forgetting over whole homes: real stores, real files, real kills."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Hit, Place, Query, Scope
from fusion.errors import NobodyAnswered, NotFound
from fusion.gateway.gateway import Gateway
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.journal.listing import Criteria
from fusion.settings import Settings
from fusion.sources.readers import read
from tests.faults.home import settings_of
from tests.faults.test_kill import nursery
from tests.patience import load

NADIA = Scope(user_id="nadia", audience="private")
SECRET = "The xylophone treasure lies beneath quagmire lane."
DURABLE = {
    "cortex": "adapters.cortex:Cortex",
    "triples": "adapters.triples:Triples",
    "markdown": "adapters.markdown:Markdown",
    "mem0": "adapters.mem0:Mem0",
}


class Library(InMemory):
    """A store with memories of its own, which never came through the gateway."""

    books: tuple[Hit, ...] = ()
    down = False

    async def search(self, query: Query) -> Sequence[Hit]:
        if Library.down:
            raise ConnectionRefusedError
        found = [hit for hit in self.books if query.scope.admits(hit.scope)]
        return [*await super().search(query), *found][: query.limit]


class Lending(Library):
    """…and lets them be deleted."""

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Any:
        before = len(Library.books)
        Library.books = tuple(hit for hit in Library.books if hit.native_id not in native_ids)
        return "deleted" if len(Library.books) < before else await super().forget(event_id, native_ids)


class Reading:
    """…and can only be read."""

    features = InMemory.features

    def __init__(self) -> None:
        self.library = Library()

    @classmethod
    async def open(cls, opening: Any) -> Reading:
        return cls()

    async def search(self, query: Query) -> Sequence[Hit]:
        return await self.library.search(query)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _shelves() -> None:
    Library.books = (
        Hit("b1", "The harbour master keeps bees behind the office.", Scope(user_id="nadia")),
        Hit("b2", "The harbour closes at nine in the winter months.", Scope(user_id="nadia")),
    )
    Library.down = False


def library(home: Path, adapter: str) -> Settings:
    return settings_of(home, library=f"tests.faults.test_forgetting:{adapter}")


async def cited(gateway: Gateway, text: str, question: str = "harbour") -> str:
    """The ref under which a block cites a text."""
    fused = await gateway.fuse(question, scope=NADIA)
    return next(m.ref for memory in fused.memories for m in memory.members if m.text == text)


def texts_of(home: Path, *words: str) -> list[str]:
    """The files of a home that have one of these words, in any case."""
    found = []
    for file in home.rglob("*"):
        if file.is_file():
            content = file.read_bytes().lower()
            found += [f"{file.relative_to(home)}: {word}" for word in words if word.encode() in content]
    return found


@pytest.mark.feature("a forgotten text is in no file of the whole home")
async def test_a_forgotten_text_is_in_no_file_of_the_home(home: Path) -> None:
    """Not in the stores, their logs and indexes, not in receipts, not behind an Idempotency-Key; and what was learnt
    from it alone is gone with it, while another memory's stays."""
    settings = settings_of(home, **DURABLE)
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory("The harbour office moved to Lund.", scope=NADIA)])
        kept = await gateway.remember([NewMemory(SECRET, scope=NADIA, speaker="Quentin")], idempotency_key="k")
        await gateway.settle()
        assert SECRET in (await gateway.fuse("where is the treasure?", scope=NADIA)).block
        receipt = await gateway.forget(kept[0].ref, NADIA)
        assert receipt.backends == dict.fromkeys(DURABLE, "deleted")
        for name in ("cortex", "triples"):
            log = home / "backends" / name / "graph.sqlite-wal"
            assert not log.exists() or log.stat().st_size == 0
        assert not [line for line in texts_of(home, "xylophon", "quagmir", "quentin") if "sqlite" in line]
        for name in DURABLE:
            found = (await gateway.search(name, "quentin xylophone treasure quagmire lane harbour", NADIA)).hits
            assert all("harbour" in hit.text for hit in found if hit.event_id is not None)
            assert not any(word in hit.text.lower() for hit in found for word in ("xylophone", "quagmire", "quentin"))
    assert texts_of(home, "xylophon", "quagmir", "quentin") == []
    assert texts_of(home, "lund") != []


@pytest.mark.feature("another store's own memory is read and forgotten by its cited ref")
async def test_an_external_item_is_read_and_forgotten_by_its_ref(home: Path) -> None:
    """Shown in a block, read through its own backend, deleted there, and never shown again, restart or not."""
    settings = library(home, "Lending")
    async with Gateway.open(settings) as gateway:
        ref = await cited(gateway, Library.books[0].text)
        assert ref.startswith("x")
        memory = await gateway.memory(ref, NADIA)
        assert (memory["text"], memory["backend"], memory["event_id"]) == (Library.books[0].text, "library", None)
        with pytest.raises(NotFound):
            await gateway.memory(ref, Scope(user_id="eve", audience="private"))
        with pytest.raises(NotFound):
            await gateway.memory(ref, replace(NADIA, tenant="acme"))
    lost = Library.books[0]
    async with Gateway.open(settings) as gateway:
        assert (await gateway.forget(ref, NADIA)).backends == {"library": "deleted"}
        assert [hit.native_id for hit in Library.books] == ["b2"]
        Library.books = (*Library.books, lost, replace(lost, native_id="b9"))
        assert lost.text not in (await gateway.fuse("harbour bees", scope=NADIA)).block
        with pytest.raises(NotFound):
            await gateway.memory(ref, NADIA)
    async with Gateway.open(settings) as gateway:
        answer = await gateway.search("library", "harbour bees", NADIA)
        assert [hit.native_id for hit in answer.hits] == ["b2"]
        assert answer.dropped == {"forgotten": 2}
        # …until its owner says it again.
        await gateway.remember([NewMemory(lost.text, scope=NADIA)])
        answer = await gateway.search("library", "harbour bees", NADIA)
        assert {"b1", "b9"} <= {hit.native_id for hit in answer.hits}


@pytest.mark.feature("… it is hidden if it is read-only", of="another store's own memory is")
async def test_a_read_only_external_item_is_hidden(home: Path) -> None:
    """Where it lives it stays; here it is not shown any more. A backend that is down keeps nobody from forgetting."""
    async with Gateway.open(library(home, "Reading")) as gateway:
        ref = await cited(gateway, Library.books[0].text)
        Library.down = True
        with pytest.raises(NobodyAnswered, match="library"):
            await gateway.memory(ref, NADIA)
        assert (await gateway.forget(ref, NADIA)).backends == {"library": "hidden"}
        Library.down = False
        hits = (await gateway.search("library", "harbour", NADIA)).hits
    assert [hit.native_id for hit in hits] == ["b2"]


async def test_an_external_item_deleted_in_its_backend_is_not_found(home: Path) -> None:
    """A ref to what its own backend has no more."""
    async with Gateway.open(library(home, "Lending")) as gateway:
        ref = await cited(gateway, Library.books[0].text)
        Library.books = ()
        with pytest.raises(NotFound, match="has it no more"):
            await gateway.memory(ref, NADIA)


@pytest.mark.feature("… by a question, with a preview", of="forgetting by a question skips")
async def test_forget_by_query_finds_own_and_external_memories(home: Path) -> None:
    """A look shows refs that can be forgotten one by one; what is forgotten by the query is all of them."""
    async with Gateway.open(library(home, "Lending")) as gateway:
        await gateway.remember([NewMemory("The harbour has a new crane since May.", scope=NADIA)])
        await gateway.settle()
        looked = await gateway.forget_many(ForgetRequest(NADIA, query="harbour", dry_run=True))
        assert sorted(one.ref[0] for one in looked.found) == ["m", "x", "x"]
        assert {one.backends for one in looked.found} == {("library",)}
        first = next(one.ref for one in looked.found if one.ref[0] == "x")
        assert (await gateway.forget(first, NADIA)).done
        done = await gateway.forget_many(ForgetRequest(NADIA, query="harbour"))
        assert len(done.receipts) == 2
        assert done.done
        assert (await gateway.fuse("harbour", scope=NADIA)).memories == ()
    assert Library.books == ()


@pytest.mark.feature("forgetting by a question skips memories without any of its words")
async def test_forget_by_query_ignores_memories_without_its_words(home: Path) -> None:
    """What a backend gives for want of better may be recalled; it is not proposed for forgetting."""
    async with Gateway.open(library(home, "Lending")) as gateway:
        assert (await gateway.fuse("alarm code", scope=NADIA)).memories
        assert (await gateway.forget_many(ForgetRequest(NADIA, query="alarm code", dry_run=True))).found == ()
        assert not (await gateway.forget_many(ForgetRequest(NADIA, query="alarm code"))).receipts
    assert len(Library.books) == 2


async def test_forget_by_query_ignores_neighbours(home: Path) -> None:
    """A fact derived from a matching memory is not listed with it, nor is a memory that matches far less."""
    async with Gateway.open(settings_of(home, triples="adapters.triples:Triples")) as gateway:
        said = ["The alarm code at Hjulhuset is 4711.", "Berit drinks tea at Hjulhuset on Mondays."]
        first, _ = await gateway.remember([NewMemory(text, scope=NADIA) for text in said])
        await gateway.settle()
        found = (await gateway.search("triples", "alarm code at Hjulhuset", NADIA)).hits
        assert any(hit.derived_from == (first.event_id,) for hit in found)
        looked = await gateway.forget_many(ForgetRequest(NADIA, query="the alarm code at Hjulhuset", dry_run=True))
        assert [one.text for one in looked.found] == said[:1]
        assert (await gateway.forget_many(ForgetRequest(NADIA, query="the alarm code at Hjulhuset"))).done
        found = (await gateway.search("triples", "alarm code at Hjulhuset", NADIA)).hits
        assert [hit.text for hit in found if "4711" in hit.text] == []


async def test_forget_leaves_a_users_own_file_and_hides_its_text(home: Path, tmp_path: Path) -> None:
    """By its ref x…: hidden. Other lines of it are still found, and it may be edited without bringing it back."""
    notes = tmp_path / "notes"
    notes.mkdir()
    file = notes / "a.md"
    long = "Nothing here is about that. " * 60
    file.write_text(f"# Plans\n\n{long}\n\n# Keys\n\nThe spare key is under the third flower pot.\n")
    settings = settings_of(home, markdown={"adapter": "adapters.markdown:Markdown", "paths": [str(notes)]})
    async with Gateway.open(settings) as gateway:
        fused = await gateway.fuse("where is the spare key?", scope=Scope(audience="private"))
        ref = next(m.ref for memory in fused.memories for m in memory.members if "flower pot" in m.text)
        before = file.read_bytes()
        receipt = await gateway.forget(ref, Scope(audience="private"))
        assert receipt.backends == {"markdown": "hidden"}
        assert file.read_bytes() == before
        assert "flower pot" not in (await gateway.fuse("where is the spare key?")).block
        file.write_text("# New\n\nA line that came before.\n\n" + file.read_text())
        await gateway.settle()
        assert "flower pot" not in (await gateway.fuse("where is the spare key?")).block
        assert "line that came before" in (await gateway.fuse("line that came before")).block


@pytest.mark.row(
    "A165",
    "… an edit of its file does not bring it back, under any name by which that file is followed",
    of="a tombstone keeps a forgotten",
)
async def test_a_forgotten_watched_file_does_not_return_by_an_edit(home: Path, tmp_path: Path) -> None:
    """Ingest calls it notes/a.md; the backend that follows it, whose own folder has that name, calls it otherwise."""
    file = tmp_path / "notes" / "a.md"
    file.parent.mkdir()
    file.write_text("# Keys\n\nThe spare key is under the third flower pot.\n")
    paths = [str(file.parent)]
    settings = settings_of(
        home, markdown={"adapter": "adapters.markdown:Markdown", "paths": paths}, cortex="adapters.cortex:Cortex"
    )

    async def taken_in(gateway: Gateway) -> list[str]:
        memories = [item for item in read([file.parent]) if isinstance(item, NewMemory)]
        told = await gateway.remember(memories)
        await gateway.settle()
        return [one.ref for one in told]

    async with Gateway.open(settings) as gateway:
        [ref] = await taken_in(gateway)
        [followed] = (await gateway.search("markdown", "spare key flower pot", Scope())).hits
        assert followed.place is not None
        assert followed.place.document != "notes/a.md"
        await gateway.forget(ref, Scope())
        file.write_text(file.read_text().replace("# Keys", "# All keys") + "\nAnd the other one is lost.\n")
        await gateway.guarded["markdown"].backend.refresh()  # type: ignore[attr-defined]
        [rest] = await taken_in(gateway)
        assert (await gateway.memory(rest, Scope()))["text"] == "# All keys\n\n\n\nAnd the other one is lost."
        assert "the other one is lost" in (await gateway.fuse("where is the spare key?")).block
        assert "flower pot" not in (await gateway.fuse("where is the spare key?")).block
        assert "flower pot" not in (await gateway.document(followed.place.document, Scope()))["text"]


@pytest.mark.feature("an emptied store is filled again")
async def test_an_emptied_store_is_filled_again_without_forgotten_memories(home: Path) -> None:
    """Its folder is there and its file is not: it holds nothing, so everything is delivered to it again."""
    settings = settings_of(home, cortex="adapters.cortex:Cortex")
    async with Gateway.open(settings) as gateway:
        said = [NewMemory(text, scope=NADIA) for text in ("gone harbour", "kept harbour")]
        gone, _ = await gateway.remember(said)
        await gateway.settle()
        await gateway.forget(gone.ref, NADIA)
    for file in (home / "backends" / "cortex").glob("graph.sqlite*"):
        file.unlink()
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        assert [hit.text for hit in (await gateway.search("cortex", "harbour", NADIA)).hits] == ["kept harbour"]


@pytest.mark.feature("… also after `kill -9` while forgetting many", of="forgetting that crashed at any")
async def test_kill_9_in_the_middle_of_forgetting_many(home: Path) -> None:
    """40 memories in three real stores; each victim forgets all of them and is killed after some: in the end nothing of
    them is anywhere, each has one line in the audit, and what was not meant is where it was."""
    settings = settings_of(home, **DURABLE)
    place = Place("lighthouse", 1, 1)
    async with Gateway.open(settings) as gateway:
        letters = [NewMemory(f"letter {n} says xylophone {n}", scope=NADIA, source="mail") for n in range(40)]
        await gateway.remember([*letters, NewMemory("The lighthouse is white.", scope=NADIA, place=place)])
        await gateway.settle()
    draw = random.Random(3)
    forgotten = 0
    with nursery() as nurse:
        for _ in range(8):
            said = nurse.kill("forget", home, after=draw.randint(1, 6))
            forgotten += sum(word == "gone" for word, *_ in said)
    assert forgotten
    async with Gateway.open(settings) as gateway:
        criteria = Criteria(source="mail")
        while (await gateway.forget_many(ForgetRequest(NADIA, criteria=criteria))).more:
            pass
        await gateway.settle()
        assert await gateway.deliverer.backlog() == {}
        for name in DURABLE:
            found = (await gateway.search(name, "xylophone letter says lighthouse", NADIA, 100)).hits
            assert not any("xylophone" in hit.text for hit in found)
            assert any("lighthouse is white" in hit.text for hit in found) or name == "markdown"
        entries = (await gateway.forgotten(NADIA, 100))["forgotten"]
        assert len({entry.ref for entry in entries}) == len(entries) == 40
    assert load(home=home).home == home
    assert texts_of(home, "xylophon") == []
