"""Pictures and recordings in the user's folders, found by what a multimodal model sees in them (seed 001, A086)."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.embedders.gemini import GEMINI
from adapters.embedders.http_embedder import HttpEmbedder
from adapters.embedders.options import Options
from adapters.embedders.providers import Composed
from adapters.index.merge import SearchResult, weighted
from adapters.markdown import Markdown
from adapters.markdown.media import MIMES, is_handle
from adapters.markdown.ranking import Ranking
from fusion.contract import Hit, Opening, Query, Scope
from fusion.errors import ModelMissing, SettingsError
from tests.backend_contract import NOW
from tests.chaos import Call, Chaos
from tests.fakes import FakeEmbedder, word_vector
from tests.patience import PATIENT_MS
from tests.test_settings import environment

KEY = "AIza-canary"
MIB = 1 << 20


async def seeing(call: Call) -> None:
    """Gemini's form. A file's bytes are the word that it shows; one that shows nothing is refused."""
    embeddings = []
    for request in call.json["requests"]:
        (part,) = request["content"]["parts"]
        text = part.get("text") or b64decode(part["inlineData"]["data"]).decode()
        if text == "nothing":
            await call.reply(b'{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}', 400)
            return
        embeddings.append({"values": word_vector(text.split()[-1][:20], 16).tolist()})
    await call.reply(json.dumps({"embeddings": embeddings}).encode())


@asynccontextmanager
async def opened(tmp_path: Path, server: Chaos, **options: Any) -> AsyncIterator[Markdown]:
    """Over the folder ``vault``; the model is Gemini Embedding 2 on loopback."""
    patient = {"connect_ms": PATIENT_MS, "query_timeout_ms": PATIENT_MS}
    given = Options(
        "gemini", model="gemini-embedding-2", url=server.url, dimensions=16, api_key_env="MEDIA_TEST_KEY", **patient
    )
    with environment(MEDIA_TEST_KEY=KEY):
        dense = await HttpEmbedder.open(GEMINI, tmp_path / "embeddings", given)
        embedder = Composed(dense, None)
        chosen = {"paths": [str(tmp_path / "vault")], "media": True, "watch": False, "scan_interval_s": 0, **options}
        store = await Markdown.open(Opening("markdown", tmp_path / "store", chosen, embedder))
        try:
            yield store
        finally:
            await store.close()
            await embedder.close()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A note, a picture of a heron, and a recording of an owl."""
    folder = tmp_path / "vault"
    (folder / "pictures").mkdir(parents=True)
    (folder / "note.md").write_text("# Birds\n\nThe kingfisher is blue.\n")
    (folder / "pictures" / "2026-03-04.jpg").write_bytes(b"heron")
    (folder / "night.mp3").write_bytes(b"owl")
    return folder


async def found(store: Markdown, text: str, limit: int = 1) -> Sequence[Hit]:
    return await store.search(Query(text, Scope(audience="private"), NOW, limit))


def media_of(server: Chaos) -> list[dict[str, Any]]:
    """The requests that carried a file."""
    requests = [request for call in server.calls for request in call.json["requests"]]
    return [request for request in requests if "inlineData" in request["content"]["parts"][0]]


@pytest.mark.row("A086", "media: pictures and recordings in the user's folders are found by their content")
async def test_a_picture_is_found_by_what_it_shows(vault: Path, tmp_path: Path) -> None:
    """By a question in words; what is shown is where it lies and what it is, with the day of its name."""
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        await store.settle()
        (heron,) = await found(store, "a heron")
        (owl,) = await found(store, "an owl")
    assert heron.native_id == "vault/pictures/2026-03-04.jpg#media"
    assert heron.text == "Picture: vault/pictures/2026-03-04.jpg (image/jpeg, 1 kB)"
    assert heron.at is not None
    assert heron.at.utc.date().isoformat() == "2026-03-04"
    assert owl.text == "Recording: vault/night.mp3 (audio/mpeg, 1 kB)"


@pytest.mark.row(
    "A086", "media: files are sent inline to Gemini Embedding 2 in the documented form, a question as text"
)
async def test_a_file_is_sent_in_the_documented_form(vault: Path, tmp_path: Path) -> None:
    """Inline, with its MIME type; a question with the prompt that Gemini Embedding 2 wants before one."""
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        await store.settle()
        await found(store, "a heron")
    assert {
        "model": "models/gemini-embedding-2",
        "content": {"parts": [{"inlineData": {"mimeType": "image/jpeg", "data": "aGVyb24="}}]},
        "outputDimensionality": 16,
    } in media_of(server)
    last = server.calls[-1]
    assert last.path == "/models/gemini-embedding-2:batchEmbedContents"
    assert last.headers["x-goog-api-key"] == KEY
    assert last.json["requests"][0]["content"] == {"parts": [{"text": "task: search result | query: a heron"}]}


@pytest.mark.row("A086", "media: no word of a file's name or type counts")
async def test_its_words_do_not_count(vault: Path, tmp_path: Path) -> None:
    """Neither its name nor its type nor anything of the handle is a word of the index."""
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        await store.settle()
        for word in ("media", "image", "jpeg", "pictures", "2026-03-04", "night", "owl"):
            assert not await store.index.lexical(word, Scope(audience="private"), 10)
        assert await store.index.lexical("kingfisher", Scope(audience="private"), 10)


@pytest.mark.row("A086", "media: a picture's cosine is its whole score")
async def test_a_picture_is_judged_by_its_vector_alone(vault: Path, tmp_path: Path) -> None:
    """Weighed as the seed does, a text that is near but lacks the words has .7 of its cosine; a picture has all of it:
    the cosine of a vector with itself is 1, but for the rounding to int8."""
    ranking = Ranking(merge="weighted")
    query = Query("the heron", Scope(audience="private"), NOW, 10)
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        await store.settle()
        scores = {item.hit.native_id: item.hit.score for item in await store.find(query, ranking)}
    assert scores["vault/pictures/2026-03-04.jpg#media"] == pytest.approx(1, abs=0.02)
    assert weighted((), [("text", 1.0), ("picture", 1.0)], wordless=lambda key: key == "picture") == [
        SearchResult("picture", 1.0, None, 1.0),
        SearchResult("text", 0.7, None, 1.0),
    ]


@pytest.mark.row("A086", "media: only if configured, and only with a multimodal model")
async def test_media_are_left_alone_unless_asked_for(vault: Path, tmp_path: Path) -> None:
    """The default: no file but Markdown is opened, and nothing of them is sent."""
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server, media=False) as store:
        await store.settle()
        assert [hit.native_id.split("#")[0] for hit in await found(store, "a heron", 10)] == ["vault/note.md"]
        assert not media_of(server)


@pytest.mark.row("A086", "media: only if configured, and only with a multimodal model")
async def test_a_model_of_texts_is_refused(vault: Path, tmp_path: Path) -> None:
    """With what to write instead; Gemini's older model is one, and so is the local one."""
    chosen = {"paths": [str(vault)], "media": True}
    with pytest.raises(SettingsError, match=r'takes texts only.*"gemini-embedding-2"'):
        await Markdown.open(Opening("markdown", tmp_path / "store", chosen, FakeEmbedder()))
    async with Chaos(behaviour=seeing) as server:
        older = await HttpEmbedder.open(GEMINI, tmp_path, Options("gemini", "gemini-embedding-001", server.url))
        assert not older.sees
        with pytest.raises(ModelMissing, match="texts only"):
            await older.embed_media([])
        await older.close()


@pytest.mark.row("A086", "A078", "media: a file is sent once")
async def test_a_file_is_sent_once(vault: Path, tmp_path: Path) -> None:
    """Not again after a restart, nor when the index is lost; a change is sent, and what it showed is not found."""
    async with Chaos(behaviour=seeing) as server:
        async with opened(tmp_path, server) as store:
            await store.settle()
        assert len(media_of(server)) == 2
        for file in (tmp_path / "store" / "index").glob("vectors*"):
            file.unlink()
        async with opened(tmp_path, server) as store:
            await store.settle()
            assert len(media_of(server)) == 2
            (vault / "night.mp3").write_bytes(b"nightingale")
            await store.settle()
            assert len(media_of(server)) == 3
            assert (await found(store, "a nightingale"))[0].native_id == "vault/night.mp3#media"
            (vault / "night.mp3").unlink()
            await store.settle()
            assert "vault/night.mp3#media" not in [h.native_id for h in await found(store, "a nightingale", 10)]


@pytest.mark.row(
    "A086", "… files that are too large, empty or refused are skipped alone", of="media: a file is sent once"
)
async def test_too_large_and_empty_files_are_named(vault: Path, tmp_path: Path) -> None:
    """The limit is the pictures' own; the limit of texts stays theirs. More than a request can have is refused."""
    (vault / "large.png").write_bytes(b"x" * (2 * MIB))
    (vault / "fits.png").write_bytes(b"y" * (MIB // 2))
    (vault / "empty.wav").write_bytes(b"")
    options = {"media_max_mb": 1.0, "max_file_mb": 0.25}
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server, **options) as store:
        await store.settle()
        notes = (await store.describe()).notes
        assert any("vault/large.png: skipped: larger than 1 MB" in note and "media_max_mb" in note for note in notes)
        assert any("vault/empty.wav: skipped: it is empty" in note for note in notes)
        assert len(media_of(server)) == 3
    with pytest.raises(SettingsError, match=r"from 0\.001 to 14"):
        await Markdown.open(Opening("markdown", tmp_path / "store", {"media": True, "media_max_mb": 15}))


@pytest.mark.row(
    "A086", "… files that are too large, empty or refused are skipped alone", of="media: a file is sent once"
)
async def test_a_file_that_the_model_does_not_take_costs_itself_only(vault: Path, tmp_path: Path) -> None:
    """A 400 for one of them: the others and the texts have their vectors, and that one is near to nothing."""
    (vault / "a.gif").write_bytes(b"nothing")
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        await store.settle()
        described = await store.describe()
        assert (described.vectors, described.vectors_pending) == (4, 0)
        cosines = dict(await store.index.similar("nothing", Scope(audience="private"), 10))
        assert [round(cosine, 3) for key, cosine in cosines.items() if "a.gif" in key] == [0]
        assert (await found(store, "a heron"))[0].text.startswith("Picture")


async def test_a_picture_has_no_page_to_read(vault: Path, tmp_path: Path) -> None:
    """Its bytes are no text for a reader."""
    async with Chaos(behaviour=seeing) as server, opened(tmp_path, server) as store:
        assert await store.read("vault/night.mp3") is None
        assert await store.read("vault/note.md") is not None


@pytest.mark.row("A086", "media: the seed's thirteen formats are supported")
def test_the_seeds_formats_are_known() -> None:
    """The thirteen of A086, each with a type that a server understands; a text's handle is no text."""
    seeds = ".jpg .png .webp .gif .heic .heif .mp3 .wav .ogg .opus .m4a .aac .flac".split()
    assert list(MIMES) == seeds
    assert {mime.split("/")[0] for mime in MIMES.values()} == {"image", "audio"}
    assert not is_handle("media image/png")
