"""OpenClaw's index as SQL: its tables and columns, its own queries over them, and what must not be in it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.markdown.openclaw_index import OpenclawIndex
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import FuseRequest
from tests.fakes import FakeEmbedder
from tests.patience import load

ADA = Scope(user_id="ada", audience="private")
COLUMNS = {
    "meta": "key value",
    "files": "path source hash mtime size",
    "chunks": "id path source start_line end_line hash model text embedding updated_at",
    "embedding_cache": "provider model provider_key hash embedding dims updated_at",
    "chunks_fts": "text id path source model start_line end_line",
    "chunks_vec": "id embedding",
}
BY_WORDS = """SELECT id, path, source, start_line, end_line, text,
       bm25(chunks_fts) AS rank
  FROM chunks_fts
 WHERE chunks_fts MATCH ? AND model = ?
 ORDER BY rank ASC
 LIMIT ?"""
BY_VECTORS = """SELECT id, path, start_line, end_line, text, embedding, source
  FROM chunks
 WHERE model = ?"""
NEAREST = """SELECT c.id, c.path, c.start_line, c.end_line, c.text, c.source,
       vec_distance_cosine(v.embedding, ?) AS dist
  FROM chunks_vec v
  JOIN chunks c ON c.id = v.id
 WHERE c.model = ?
 ORDER BY dist ASC
 LIMIT ?"""


class Opened:
    """An embedder adapter: `[embedder] adapter`."""

    @classmethod
    async def open(cls, folder: Path, options: object) -> FakeEmbedder:
        return FakeEmbedder()


def settings_of(home: Path, *paths: Path, embedder: str = f"{__name__}:Opened") -> Any:
    table = {"adapter": "adapters.markdown:Markdown", "paths": [*map(str, paths)], "bind": {"user_id": "ada"}}
    return load(home=home, backends_only=True, embedder={"adapter": embedder}, backends={"markdown": table})


@asynccontextmanager
async def opened(home: Path, *paths: Path, embedder: str = f"{__name__}:Opened") -> AsyncIterator[Gateway]:
    async with Gateway.open(settings_of(home, *paths, embedder=embedder)) as gateway:
        await gateway.settle()
        yield gateway


async def exported(gateway: Gateway, scope: Scope = ADA, **options: bool) -> tuple[list[str], dict[str, Any]]:
    """The lines of SQL, and the result."""
    lines: list[str] = []

    async def line(text: str) -> None:
        lines.append(text)

    result: Any = await gateway.do("markdown", OpenclawIndex(**options), scope, line, lambda *_: None)
    return lines, result


def database_of(lines: Sequence[str]) -> sqlite3.Connection:
    """The database that sqlite3 makes of the script, with sqlite-vec's function."""
    database = sqlite3.connect(":memory:")
    database.executescript("\n".join(lines))
    database.create_function("vec_distance_cosine", 2, lambda a, b: 1 - float(floats(a) @ floats(b)))
    return database


def floats(blob: bytes) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.frombuffer(blob, "<f4")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Facts\n\nAda's boat is called Kestrel; it's red.\n")
    (folder / "memory" / "2026-03-04.md").write_text("# Log\n\n- Ordered chains from Kedjan.\n- Rain.\n")
    return folder


@pytest.mark.row("A075", "the index as OpenClaw's SQLite file: its six tables, read by OpenClaw's own queries")
async def test_openclaws_queries_read_the_index(home: Path, workspace: Path) -> None:
    """Tables, columns, hashes and vectors; the words and the vectors find the same chunk."""
    async with opened(home, workspace) as gateway:
        lines, result = await exported(gateway)
    assert {name: result[name] for name in ("files", "chunks", "vectors")} == {"files": 2, "chunks": 2, "vectors": 2}
    database = database_of(lines)
    for table, columns in COLUMNS.items():
        assert [row[1] for row in database.execute(f"PRAGMA table_info({table})")] == columns.split()
    meta = json.loads(database.execute("SELECT value FROM meta WHERE key = 'memory_index_meta_v1'").fetchone()[0])
    assert (meta["chunkTokens"], meta["chunkOverlap"], meta["vectorDims"]) == (400, 80, 32)
    log = (workspace / "memory" / "2026-03-04.md").read_text()
    [(path, source, digest, mtime, size)] = database.execute("SELECT * FROM files WHERE path LIKE 'memory/%'")
    assert (path, source, size) == ("memory/2026-03-04.md", "memory", len(log))
    assert digest == sha256(log.encode()).hexdigest()
    assert mtime == (workspace / path).stat().st_mtime_ns // 1_000_000
    [(name, path, _, start, end, text, rank)] = database.execute(BY_WORDS, ('"chains" OR "whales"', meta["model"], 6))
    assert (path, start, end) == ("memory/2026-03-04.md", 1, 4)
    assert "Kedjan" in text
    assert rank < 0
    rows = {row[0]: np.array(json.loads(row[5])) for row in database.execute(BY_VECTORS, (meta["model"],))}
    assert all(len(vector) == 32 and abs(np.linalg.norm(vector) - 1) < 1e-3 for vector in rows.values())
    asked = np.float32(rows[name]).tobytes()
    nearest = database.execute(NEAREST, (asked, meta["model"], 6)).fetchall()
    assert nearest[0][0] == name
    cached = database.execute("SELECT provider, model, hash, dims FROM embedding_cache").fetchall()
    assert {(*row,) for row in cached} == {
        (meta["provider"], meta["model"], digest, 32) for (digest,) in database.execute("SELECT hash FROM chunks")
    }


@pytest.mark.feature("… `--dry-run` only counts", of="the index as OpenClaw's SQLite file")
async def test_a_dry_run_writes_nothing(home: Path, workspace: Path) -> None:
    async with opened(home, workspace) as gateway:
        lines, result = await exported(gateway, dry_run=True)
        _, whole = await exported(gateway)
    assert lines == []
    assert result == whole
    assert OpenclawIndex(dry_run=True).render(result).endswith("would be written.")


async def test_without_a_model_there_are_words(home: Path, workspace: Path) -> None:
    """As in OpenClaw: its model is called fts-only, and an embedding is an empty list."""
    async with opened(home, workspace, embedder="") as gateway:
        lines, _ = await exported(gateway)
    database = database_of(lines)
    assert len(database.execute(BY_WORDS, ('"Kestrel"', "fts-only", 6)).fetchall()) == 1
    assert {row[5] for row in database.execute(BY_VECTORS, ("fts-only",))} == {"[]"}
    assert database.execute("SELECT count(*) FROM chunks_vec").fetchone() == (0,)


@pytest.mark.feature("… without secrets, forgotten text and others' files", of="the index as OpenClaw's SQLite file")
async def test_hidden_text_is_not_exported(home: Path, workspace: Path) -> None:
    """And no vector of it. A file that another user owns is not there at all."""
    (workspace / "keys.md").write_text("The cellar is open.\n\npassword=hunter2secret\n")
    (workspace / "code.md").write_text("The door code of the harbour is 4711.\n")
    async with opened(home, workspace) as gateway:
        fused = await gateway.fuse(FuseRequest("what is the door code of the harbour?", ADA, timeout_ms=60_000))
        [member] = [member for memory in fused.memories for member in memory.members if "4711" in member.text]
        await gateway.forget(member.ref, ADA)
        lines, result = await exported(gateway)
        script = "\n".join(lines)
        assert "hunter2" not in script
        assert "4711" not in script
        assert result["vectors"] == 2
        _, others = await exported(gateway, Scope(user_id="ben", audience="private"))
        assert others["files"] == 0


async def test_any_text_survives_the_script(home: Path, workspace: Path) -> None:
    """Quotes, statements and commands of sqlite3 are text; a long line is several chunks of one line."""
    hostile = "it's'); DROP TABLE chunks; --\n.quit\n\\' \" ; 東京 🦦\n"
    (workspace / "hostile.md").write_text(hostile)
    (workspace / "long.md").write_text(" ".join(f"word{n}" for n in range(3000)))
    other = workspace.parent / "other"
    other.mkdir()
    (other / "note.md").write_text("Elsewhere.\n")
    async with opened(home, workspace, other) as gateway:
        lines, result = await exported(gateway)
    database = database_of(lines)
    [(text,)] = database.execute("SELECT text FROM chunks WHERE path = 'hostile.md'")
    assert text == hostile.strip("\n")
    assert database.execute("SELECT count(*) FROM chunks").fetchone() == (result["chunks"],)
    assert database.execute("SELECT count(*) FROM chunks WHERE path = 'long.md'").fetchone()[0] > 5
    paths = {path for (path,) in database.execute("SELECT path FROM files")}
    assert any(path.startswith("other") and path.endswith("/note.md") for path in paths)
    assert "MEMORY.md" in paths


async def test_chunks_vec_can_be_a_table_of_sqlite_vec(home: Path, workspace: Path) -> None:
    """Only on request: sqlite3 without the extension could not read the script."""
    async with opened(home, workspace) as gateway:
        lines, _ = await exported(gateway, sqlite_vec=True)
    assert "CREATE VIRTUAL TABLE chunks_vec USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[32]);" in lines
