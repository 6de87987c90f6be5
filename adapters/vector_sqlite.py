"""Stores all memories in one small SQLite file, ranked 70 % by vector and 30 % by words (seed 003, stage 5).

    [backends.vector_sqlite]
    adapter = "adapters.vector_sqlite:VectorSqlite"
    fallback_for = ["mem0", "cognee"]   # asked when none of these answers; left out, it is asked every time
    vector_weight = 0.7
    text_weight = 0.3

It needs only SQLite and the configured embedder (the seed's is OpenAI's text-embedding-3-small, with 1,536
dimensions), so it still answers when servers and indexes fail. Vectors are compared one by one, exactly: right
for some ten thousand passages (1,536 dimensions take 6 kB each, in the file and in memory), slow beyond; the other
backends are for more.

Words are searchable at once; vectors follow in the background. Vectors of another model are recomputed, never compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json import dumps
from typing import TYPE_CHECKING, Self

from adapters.index.backfill import Backfill
from adapters.index.encode import BestEffortEmbedding
from adapters.index.merge import text_score
from adapters.options import EMBEDDED_FEATURES, number, read, verified
from fusion.contract import Description, Embedder, Event, Extracted, Forgotten, Hit, Opening, Query
from fusion.errors import SettingsError
from fusion.lib.passages import SAID_CHARS, spoken_passages
from fusion.lib.words import spoken, stems
from fusion.store.database import VALUES
from fusion.store.rows import EVENT_COLUMNS, INSERT_EVENT, event_row, hit_of, visible
from fusion.store.sqlite import Connection, Database, Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SCHEMA = f"""
create table memory (id integer primary key, {EVENT_COLUMNS});
create index memory_successor on memory(supersedes) where supersedes is not null;
create virtual table words using fts5(stems, tokenize = 'unicode61 remove_diacritics 0');
create table vector (
    memory integer primary key references memory on delete cascade, model text not null, vector blob not null
);
"""
PASSAGES = f"""
alter table vector rename to whole;
create table vector (
    memory integer not null references memory on delete cascade, part integer not null, model text not null,
    vector blob not null, primary key (memory, part)
);
insert into vector select w.memory, 0, w.model, w.vector from whole w join memory m on m.id = w.memory
    where length(m.text) <= {SAID_CHARS};
drop table whole;
"""
"""a long text has a vector for each passage: ``part`` counts them; those of a text have one model"""
FILL = 64
"""texts embedded in one call"""
CANDIDATES = 4
"""factor on the limit in the searches by words and by vectors that are merged (seed 001's candidateMultiplier)"""


@dataclass(frozen=True, slots=True)
class Options:
    """The weights of vectors and words; only their ratio matters."""

    vector_weight: float = number(0.7, 0, 1)
    text_weight: float = number(0.3, 0, 1)

    def __post_init__(self) -> None:
        if not self.vector_weight + self.text_weight:
            raise SettingsError("vector_weight and text_weight are both 0")


def merged(
    by_vector: Mapping[int, float], by_words: Mapping[int, float], options: Options, *, has_vectors: bool
) -> dict[int, float]:
    """The union of both, each memory with its weighted score; without vectors words have all the weight."""
    total = options.vector_weight + options.text_weight
    vector, text = (options.vector_weight / total, options.text_weight / total) if has_vectors else (0.0, 1.0)
    return {
        memory: vector * by_vector.get(memory, 0.0) + text * by_words.get(memory, 0.0)
        for memory in by_vector.keys() | by_words.keys()
    }


@dataclass(frozen=True, slots=True)
class Matrix:
    """Unit vectors with their memories, row by row; a long memory has several. A change makes a new matrix, as a search
    may be running."""

    ids: NDArray[np.int64]
    rows: Floats

    @classmethod
    def of(cls, found: Sequence[tuple[int, bytes]], dimensions: int) -> Matrix:
        import numpy as np

        rows = np.frombuffer(b"".join(vector for _, vector in found), np.float32).reshape(-1, dimensions)
        return cls(np.fromiter((memory for memory, _ in found), np.int64, len(found)), rows)

    def with_more(self, other: Matrix) -> Matrix:
        import numpy as np

        return Matrix(np.concatenate([self.ids, other.ids]), np.concatenate([self.rows, other.rows]))

    def without(self, memories: Sequence[int]) -> Matrix:
        import numpy as np

        kept = ~np.isin(self.ids, memories)
        return Matrix(self.ids[kept], self.rows[kept])

    def nearest(self, query: Floats, limit: int) -> list[tuple[int, float]]:
        """The ``limit`` rows with the highest cosines, best first, by memory; equals by id."""
        import numpy as np

        cosines = np.round(self.rows @ query, 5)
        best = np.lexsort((self.ids, -cosines))[:limit]
        return [(int(self.ids[row]), float(cosines[row])) for row in best]


@dataclass(frozen=True, slots=True)
class Near:
    """The vector of a query, and the vectors to compare it with."""

    matrix: Matrix
    asked: Floats


@dataclass(eq=False)
class VectorSqlite:
    """Native ids are event ids."""

    features = EMBEDDED_FEATURES

    options: Options
    database: Database
    embedder: Embedder | None
    matrix: Matrix | None = None
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _embedding: BestEffortEmbedding = field(default_factory=lambda: BestEffortEmbedding("vector_sqlite"))
    _backfill: Backfill = field(init=False)

    def __post_init__(self) -> None:
        self._backfill = Backfill("vector_sqlite", self._fill_some)

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        """Its options are right."""
        verified(Options, options)

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
        options = read(Options, opening)
        database = await Database.open(opening.folder / "vectors.sqlite", (SCHEMA, PASSAGES), events="memory")
        store = cls(options, database, opening.embedder)
        if store.embedder is not None:
            store.matrix = Matrix.of(await store._known_vectors(store.embedder), store.embedder.dimensions)
            store._backfill.start()
        return store

    # Reading

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit < 1 or not query.text.strip():
            return []
        terms = list(dict.fromkeys(stems(query.text)))
        near = await self._near(query.text)
        return await self.database.read(lambda db: self._found(db, query, terms, near))

    async def _near(self, text: str) -> Near | None:
        """The stored vectors and the query's; None if there are none, or the model fails."""
        matrix = self.matrix
        if matrix is None or not len(matrix.ids):
            return None
        vector = await self._embedding.query_vector(self.embedder, text)
        return None if vector is None else Near(matrix, vector)

    def _found(self, db: Connection, query: Query, terms: Sequence[str], near: Near | None) -> list[Hit]:
        width = query.limit * CANDIDATES
        by_words = _matching(db, query, terms, width)
        by_vector = _nearest(db, query, near, width) if near else {}
        scores = merged(by_vector, by_words, self.options, has_vectors=near is not None)
        best = sorted(scores, key=lambda memory: (-scores[memory], memory))[: query.limit]
        rows = _rows(db, best)
        return [hit_of(rows[memory], round(scores[memory], 6)) for memory in best]

    async def describe(self) -> Description:
        items, model = await self.count(), self.embedder.identity if self.embedder else ""
        count = "select count(*) from vector where model = ? and part = 0"
        vectors = await self.database.read(lambda db: int(db.execute(count, (model,)).fetchone()[0]))
        if self.embedder is None:
            return Description(items, notes=("found by words only: no embedding model is set up ([embedder])",))
        error = self._backfill.error
        notes = (f"vectors are not filled in: {error}",) if error else ()
        return Description(items, vectors, items - vectors, notes, bool(notes))

    async def count(self) -> int:
        return await self.database.read(lambda db: int(db.execute("select count(*) from memory").fetchone()[0]))

    async def check(self) -> str | None:
        """Raises StoreDamaged with the fix; nothing here can be rebuilt, because all data is in one file."""
        await self.database.check()
        return None

    # Writing

    def accepts(self, event: Event) -> bool:
        return True

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        events = {extracted.event.event_id: extracted.event for extracted in reversed(batch)}

        def store(db: Connection) -> None:
            known = db.execute(f"select event_id from memory where event_id in {VALUES}", (dumps(list(events)),))
            there = {row["event_id"] for row in known}
            for event in reversed(events.values()):
                if event.event_id not in there:
                    memory = db.execute(INSERT_EVENT, event_row(event)).lastrowid
                    text = " ".join(stems(spoken(event.text, event.speaker)))
                    db.execute("insert into words(rowid, stems) values (?, ?)", (memory, text))

        if batch:
            await self.database.write(store)
            if self.embedder is not None:
                self._backfill.start(retry=False)
        return [(extracted.event.event_id,) for extracted in batch]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        def delete(db: Connection) -> list[int]:
            found = [row["id"] for row in db.execute("select id from memory where event_id = ?", (event_id,))]
            for memory in found:
                db.execute("delete from words where rowid = ?", (memory,))
                db.execute("delete from memory where id = ?", (memory,))
            if found:
                # FTS5 only marks deleted rows; a merge drops their words, and SQLite overwrites their pages.
                db.execute("insert into words(words) values ('optimize')")
            return found

        async with self._changing:  # a vector that is being computed must not be stored after it
            gone = await self.database.write(delete)
            if gone and self.matrix is not None:
                self.matrix = self.matrix.without(gone)
        await self.database.checkpoint()
        return "deleted" if gone else "absent"

    async def settle(self) -> None:
        """Wait until every memory has its vector, or the model has failed again."""
        if self.embedder is not None:
            await self._backfill.settle()

    async def close(self) -> None:
        await self._backfill.close()
        await self.database.close()

    # Filling in vectors

    async def _fill_some(self) -> bool:
        """Compute some of the missing vectors. Returns whether more may be missing."""
        embedder = self.embedder
        if embedder is None:
            return False

        def missing(db: Connection) -> list[Row]:
            return db.execute(
                "select m.id, m.text, m.speaker from memory m left join vector v "
                "on v.memory = m.id and v.part = 0 and v.model = ? where v.memory is null order by m.id limit ?",
                (embedder.identity, FILL),
            ).fetchall()

        rows = await self.database.read(missing)
        if not rows:
            return False
        parts = [(row["id"], *part) for row in rows for part in enumerate(spoken_passages(row["text"], row["speaker"]))]
        vectors = await embedder.embed([text for _, _, text in parts])
        made = [
            (memory, part, vector.astype("float32").tobytes())
            for (memory, part, _), vector in zip(parts, vectors, strict=True)
        ]

        def store(db: Connection) -> list[tuple[int, bytes]]:
            """Store the vectors whose memory still exists."""
            return [
                (memory, vector)
                for memory, part, vector in made
                if db.execute(
                    "insert or replace into vector select id, ?, ?, ? from memory where id = ?",
                    (part, embedder.identity, vector, memory),
                ).rowcount
            ]

        async with self._changing:
            kept = await self.database.write(store)
            more = Matrix.of(kept, embedder.dimensions)
            self.matrix = more if self.matrix is None else self.matrix.with_more(more)
        return len(rows) == FILL

    async def _known_vectors(self, embedder: Embedder) -> list[tuple[int, bytes]]:
        def load(db: Connection) -> list[tuple[int, bytes]]:
            rows = db.execute("select memory, vector from vector where model = ? order by memory", (embedder.identity,))
            return [(row["memory"], row["vector"]) for row in rows]

        return await self.database.read(load)


def _matching(db: Connection, query: Query, terms: Sequence[str], width: int) -> dict[int, float]:
    """The ``width`` best visible memories that have one of the terms, with their scores."""
    if not terms:
        return {}
    seen, values = visible(query)
    match = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    rows = db.execute(
        "select m.id, bm25(words) as rank from words join memory m on m.id = words.rowid "
        f"where words match :match and {seen} order by rank, m.id limit :width",
        {**values, "match": match, "width": width},
    )
    return {row["id"]: text_score(row["rank"]) for row in rows}


def _nearest(db: Connection, query: Query, near: Near, width: int) -> dict[int, float]:
    """The ``width`` nearest visible memories with their cosines, by the best passage; a negative one counts as 0."""
    seen, values = visible(query)
    step = width
    while True:
        nearest = near.matrix.nearest(near.asked, step)
        ids = dumps([memory for memory, _ in nearest])
        rows = db.execute(
            f"select m.id from memory m join json_each(:ids) j on j.value = m.id where {seen}", {**values, "ids": ids}
        )
        allowed = {row["id"] for row in rows}
        found: dict[int, float] = {}
        for memory, cosine in nearest:
            if memory in allowed:
                found.setdefault(memory, max(0.0, cosine))  # of a long text the best passage
        if len(found) >= width or len(nearest) < step:
            return dict(list(found.items())[:width])
        step *= 8  # most of the nearest belong to other scopes or times: look further


def _rows(db: Connection, memories: Sequence[int]) -> dict[int, Row]:
    rows = db.execute("select m.* from memory m join json_each(?) j on j.value = m.id", (dumps(list(memories)),))
    return {row["id"]: row for row in rows}
