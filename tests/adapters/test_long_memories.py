"""Every embedded backend finds a long memory by the passage that answers, and forgets all passages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from adapters.cortex import Cortex
from adapters.index.matrix import quantised
from adapters.markdown import Markdown
from adapters.triples import Triples
from adapters.vector_sqlite import VectorSqlite
from fusion.contract import Event, Opening
from fusion.lib.passages import spoken_passages
from tests.backend_contract import event_id, make_event, make_extracted, make_query
from tests.fakes import FakeEmbedder

if TYPE_CHECKING:
    from fusion.contract import Floats

READ_WORDS = 100


class Nearsighted(FakeEmbedder):
    """A model that reads the beginning of a text only, as the local one does; tea is a synonym of brew."""

    def __init__(self) -> None:
        super().__init__(synonyms={"brew": "tea"})

    def _dense(self, text: str) -> Floats:
        return super()._dense(" ".join(text.split()[:READ_WORDS]))


PARAGRAPHS = [f"Paragraph{n} tells of " + f"subject{n} " * 60 for n in range(5)]
LONG = "\n\n".join([*PARAGRAPHS, "At last she asks for tea."])

Kind = type[Cortex] | type[Markdown] | type[Triples] | type[VectorSqlite]
each_backend = pytest.mark.parametrize("kind", [Cortex, Markdown, Triples, VectorSqlite])


@asynccontextmanager
async def opened(
    kind: Kind, folder: Path, embedder: FakeEmbedder, **options: object
) -> AsyncIterator[Cortex | Markdown | Triples | VectorSqlite]:
    folder.mkdir(exist_ok=True)
    backend = await kind.open(Opening("store", folder, options, embedder))
    try:
        yield backend
    finally:
        await backend.close()


def memories() -> list[Event]:
    others = [make_event(n, f"Somebody walks along road{n}.") for n in range(2, 12)]
    return [make_event(1, LONG, speaker="Ada"), *others]


@pytest.mark.feature("every embedded backend finds a long memory by the vector of the passage that answers")
@each_backend
async def test_a_long_memory_is_found_by_its_last_paragraph(tmp_path: Path, kind: Kind) -> None:
    """By a word that it does not have; also after a restart, which encodes nothing again."""
    async with opened(kind, tmp_path / "store", embedder := Nearsighted()) as backend:
        await backend.remember([make_extracted(event) for event in memories()])
        await backend.settle()
        hits = await backend.search(make_query("brew", limit=3))
        assert hits[0].event_id == event_id(1)
        assert hits[0].text == LONG
        described = await backend.describe()
        assert (described.items, described.vectors, described.vectors_pending) == (11, 11, 0)
        assert set(spoken_passages(LONG, "Ada")) <= set(embedder.encoded)
        assert f"Ada: {LONG}" not in embedder.encoded
    async with opened(kind, tmp_path / "store", again := Nearsighted()) as backend:
        await backend.settle()
        assert not again.encoded
        assert (await backend.search(make_query("brew", limit=3)))[0].event_id == event_id(1)


@each_backend
async def test_forgetting_a_long_memory_leaves_no_vector_of_a_passage(tmp_path: Path, kind: Kind) -> None:
    """In no file of the store: the vectors of the others alone are left."""
    embedder = Nearsighted()
    async with opened(kind, tmp_path / "store", embedder) as backend:
        await backend.remember([make_extracted(event) for event in memories()])
        await backend.settle()
        native_ids = [hit.native_id for hit in await backend.search(make_query("brew", limit=1))]
        assert await backend.forget(event_id(1), native_ids) == "deleted"
        assert event_id(1) not in [hit.event_id for hit in await backend.search(make_query("brew", limit=20))]
    content = b"".join(file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())
    gone = embedder._dense(spoken_passages(LONG, "Ada")[-1])
    kept = embedder._dense("Somebody walks along road5.")
    assert not any(form in content for form in stored_forms(gone))
    assert any(form in content for form in stored_forms(kept))


@pytest.mark.feature("a long section of a user's note is found by the vector of the passage that answers")
async def test_a_long_section_is_found_by_its_last_paragraph(tmp_path: Path) -> None:
    """A section of 1,500 characters; its heading is found by words, and a short section's by vectors too."""
    vault = tmp_path / "vault"
    vault.mkdir()
    section = "\n\n".join([*(paragraph[:400] for paragraph in PARAGRAPHS[:3]), "At last she asks for tea."])
    (vault / "note.md").write_text(f"# Visit\n\n{section}\n\n# Brew\n\nA short section.\n")
    for n in range(10):
        (vault / f"other{n}.md").write_text(f"Somebody walks along road{n}.\n")
    async with opened(Markdown, tmp_path / "store", embedder := Nearsighted(), paths=[str(vault)]) as backend:
        await backend.settle()
        first, second, *_ = [hit.text for hit in await backend.search(make_query("brew", limit=3))]
        assert {first, second} == {f"# Visit\n\n{section}", "# Brew\n\nA short section."}
        assert [hit.text for hit in await backend.search(make_query("visit", limit=1))] == [f"# Visit\n\n{section}"]
        described = await backend.describe()
        assert (described.items, described.vectors, described.vectors_pending) == (12, 12, 0)
        assert set(spoken_passages(f"# Visit\n\n{section}", None)) <= set(embedder.encoded)
    async with opened(Markdown, tmp_path / "store", again := Nearsighted(), paths=[str(vault)]) as backend:
        await backend.settle()
        assert not again.encoded
        assert [hit.text for hit in await backend.search(make_query("she asks for tea", limit=1))] == [
            f"# Visit\n\n{section}"
        ]


def stored_forms(vector: Floats) -> Sequence[bytes]:
    """A vector as the stores write it: in full, and rounded to int8 as in `adapters.index.matrix`."""
    return vector.astype(np.float32).tobytes(), quantised(vector).tobytes()
