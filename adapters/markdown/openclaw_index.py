"""``fusion markdown openclaw-index``: the index in the six tables of OpenClaw's SQLite file, as a script of SQL.

    fusion markdown openclaw-index | sqlite3 main.sqlite

It has the files and chunks of the user's folders, without secrets and forgotten text, so it may differ from the files.
Names, columns and values are those of OpenClaw: hashes are SHA-256, times are in milliseconds, a vector is a list of
JSON in ``chunks`` and ``embedding_cache``, and float32 in ``chunks_vec``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import orjson

from adapters.markdown.catalogue import Item
from fusion.extension import Call

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from adapters.markdown.backend import Markdown

META_KEY = "memory_index_meta_v1"
SOURCE = "memory"
WITHOUT_MODEL = "fts-only"
"""OpenClaw's model of chunks without vectors"""
PROVIDER_KEY = "memory-fusion"
"""instead of OpenClaw's hash of an address and its headers"""

SCHEMA = """\
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
  path TEXT PRIMARY KEY, source TEXT NOT NULL DEFAULT 'memory', hash TEXT NOT NULL, mtime INTEGER NOT NULL,
  size INTEGER NOT NULL
);
CREATE TABLE chunks (
  id TEXT PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'memory', start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL, hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, embedding TEXT NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE INDEX idx_chunks_path ON chunks(path);
CREATE INDEX idx_chunks_source ON chunks(source);
CREATE TABLE embedding_cache (
  provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL, hash TEXT NOT NULL, embedding TEXT NOT NULL,
  dims INTEGER, updated_at INTEGER NOT NULL, PRIMARY KEY (provider, model, provider_key, hash)
);
CREATE INDEX idx_embedding_cache_updated_at ON embedding_cache(updated_at);
CREATE VIRTUAL TABLE chunks_fts USING fts5(
  text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED
);"""


@dataclass(frozen=True)
class OpenclawIndex:
    """Write the index of your folders as SQL for OpenClaw's six tables; pipe it into sqlite3 with a new file.

    OpenClaw uses the vectors if it has the same provider and model; else it embeds the files again.
    """

    sqlite_vec: Annotated[bool, "Make chunks_vec a table of sqlite-vec, which sqlite3 must then have."] = False
    dry_run: Annotated[bool, "Only count files, chunks and vectors."] = False

    async def __call__(self, markdown: Markdown, call: Call) -> Mapping[str, object]:
        provider, model, dimensions = _named(markdown)
        counts = {"files": 0, "chunks": 0, "vectors": 0}
        documents = await markdown.documents()
        if not self.dry_run:
            for line in ("BEGIN;", SCHEMA, self._vector_table(dimensions)):
                await call.line(line)
            await call.line(_insert("meta", META_KEY, _json(_meta(markdown, provider, model, dimensions))))
        for done, (document, path) in enumerate(documents.items(), start=1):
            lines = await call.gateway.lines(document)
            if lines is not None:
                file = _File(path, lines, markdown.modified_ms(document), provider, model)
                chunks = [*dict(file.chunks(await markdown.items(document))).items()]
                vectors = await markdown.index.vectors_of([key for _, key in chunks if key])
                if not self.dry_run:
                    for statement in file.statements(chunks, vectors):
                        await call.line(statement)
                counts["files"] += 1
                counts["chunks"] += len(chunks)
                counts["vectors"] += sum(key in vectors for _, key in chunks)
            call.progress(done, len(documents))
        if not self.dry_run:
            await call.line("COMMIT;")
        return {**counts, "provider": provider, "model": model}

    def render(self, result: Any) -> str:
        counts = f"{result['files']:,} files, {result['chunks']:,} chunks and {result['vectors']:,} vectors"
        return f"{counts} of {result['provider']}/{result['model']}{' would be written' * self.dry_run}."

    def _vector_table(self, dimensions: int) -> str:
        if self.sqlite_vec and dimensions:
            return f"CREATE VIRTUAL TABLE chunks_vec USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[{dimensions}]);"
        return "CREATE TABLE chunks_vec (id TEXT PRIMARY KEY, embedding BLOB NOT NULL);"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some lines of a file; ``start`` and ``end`` are included."""

    start: int
    end: int
    text: str

    @property
    def hash(self) -> str:
        return _hash(self.text)


@dataclass(frozen=True, slots=True)
class _File:
    """A file to export: its path, its visible lines, the time of its last change, and the model of its vectors."""

    path: str
    lines: Mapping[int, str]
    modified_ms: int
    provider: str
    model: str

    def chunks(self, items: Sequence[Item]) -> Iterator[tuple[_Chunk, str]]:
        """The chunks with text to show, each with the key of its vector; "" if the vector is that of a hidden text."""
        for item in items:
            place = item.hit.place
            if place is None:
                continue
            visible = "\n".join(self.lines.get(number, "") for number in range(place.start, place.end + 1))
            if item.hit.text in visible:
                yield _Chunk(place.start, place.end, item.hit.text), item.entries[0].key if item.entries else ""
            elif visible.strip() and place.start < place.end:  # one line may be several chunks: none has it whole
                yield _Chunk(place.start, place.end, visible), ""

    def statements(
        self, chunks: Sequence[tuple[_Chunk, str]], vectors: Mapping[str, NDArray[np.float32]]
    ) -> Iterator[str]:
        text = "\n".join(self.lines.values())
        yield _insert("files", self.path, SOURCE, _hash(text), self.modified_ms, len(text.encode()))
        for chunk, key in chunks:
            name = _hash(f"{SOURCE}:{self.path}:{chunk.start}:{chunk.end}:{chunk.hash}:{self.model}")
            vector = vectors.get(key)
            embedding = "[]" if vector is None else _json([round(float(number), 7) for number in vector])
            row = (name, self.path, SOURCE, chunk.start, chunk.end, chunk.hash, self.model, chunk.text, embedding)
            yield _insert("chunks", *row, self.modified_ms)
            yield _insert("chunks_fts", chunk.text, name, self.path, SOURCE, self.model, chunk.start, chunk.end)
            if vector is not None:
                cached = (self.provider, self.model, PROVIDER_KEY, chunk.hash, embedding, len(vector))
                yield _insert("embedding_cache", *cached, self.modified_ms)
                yield _insert("chunks_vec", name, vector.astype("<f4").tobytes())


def _named(markdown: Markdown) -> tuple[str, str, int]:
    """Provider, model and vector length of the index."""
    embedder = markdown.index.embedder
    if embedder is None:
        return "none", WITHOUT_MODEL, 0
    provider, _, model = embedder.identity.rpartition("/")
    return provider or "local", model.partition("@")[0], embedder.dimensions


def _meta(markdown: Markdown, provider: str, model: str, dimensions: int) -> dict[str, object]:
    tokens, overlap = markdown.chunking
    found = {"model": model, "provider": provider, "providerKey": PROVIDER_KEY, "sources": [SOURCE]}
    return {**found, "chunkTokens": tokens, "chunkOverlap": overlap, "vectorDims": dimensions or None}


def _insert(table: str, *values: str | int | bytes) -> str:
    """A statement that adds a row; equal chunks have one row in the cache and one name."""
    return f"INSERT OR REPLACE INTO {table} VALUES ({', '.join(map(_literal, values))});"


def _literal(value: str | int | bytes) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, int):
        return str(value)
    # A NUL would end the script, and no text of a file has one.
    return "'" + value.replace("\0", "\ufffd").replace("'", "''") + "'"


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
