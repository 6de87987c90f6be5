"""The record of an index's entries, in one SQLite file: scope, content hash, and the slots of the vectors.

The vectors are in a `Matrix` file next to it. A short text has one row there, a long one a row for each of its
passages; ``part`` counts them from 0. Either all parts of an entry have their vector, or none has. The record has each
row's checksum, so that an entry with a damaged row is embedded again. A large record that was closed in order and not
touched since is opened without reading all of it (`fusion.store.seal`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from errno import EDQUOT, ENOSPC
from heapq import heapify, heappop, heappush
from pathlib import Path
from secrets import token_hex
from threading import Lock, RLock
from typing import TYPE_CHECKING

import numpy as np

from adapters.index.matrix import MANY, Matrix, mean_direction, quantised
from adapters.index.migrate import ADOPT, rows_file
from adapters.index.migrate import SCHEMA as MOVING
from fusion.contract import Scope
from fusion.errors import StoreDamaged, StoreFull
from fusion.store.database import VALUES, listed
from fusion.store.seal import Seal
from fusion.store.sqlite import WAL_BYTES, transaction

if TYPE_CHECKING:
    from adapters.index.matrix import Floats, Numbers

_VERSION = 4
# Of the layout: a file of another one is derived data that is written again.
_SCHEMA = f"""
create table if not exists meta(name text primary key, value text not null) without rowid;
create table if not exists scope(tag integer primary key, value text not null unique);
create table if not exists entry(
    slot integer primary key,
    key text not null,
    part integer not null,
    tag integer not null,
    hash text not null,
    written integer not null,
    sum integer,
    unique (key, part)
);
create index if not exists entry_bare on entry(slot) where sum is null;
{MOVING}
pragma user_version = {_VERSION};
"""
_KNOWN = "select key, tag, case when written then hash else '' end from entry where part = 0"
_ALL_OR_NONE = "update entry set sum = null where key in (select key from entry where sum is null)"
_PUT = """
insert into entry(slot, key, part, tag, hash, written) values (?, ?, ?, ?, ?, 1)
on conflict(key, part) do update set sum = case when hash = excluded.hash then sum end,
    tag = excluded.tag, hash = excluded.hash, written = 1
returning slot, sum is null
"""
_DROP_PARTS = "delete from entry where key = ? and part >= ? returning slot"
_REMEMBERED_SCOPES = 256
_REMEMBERED_NAMES = 8192
# Of about 200 bytes. Reading a hundred again took half of a vector search.


@dataclass(frozen=True, slots=True)
class Record:
    """An entry on record: the tag of its scope, the hash of its text, and the number of its vectors.

    The hash is empty while the lexical index is being changed, so that an interrupted change matches no text.
    """

    tag: int
    hash: str
    parts: int = 1


class Vectors:
    """The record and its vectors. Thread-safe. Opening it checks the file unless it is sealed; raises ``StoreDamaged``.

    ``identity`` is the model of the vectors; with ``None``, vectors on disk stay as they are. If the file has another
    identity, its vectors are replaced by those that were built for this one, if any. ``analysis`` names how texts
    become terms; ``same_analysis`` says whether the file was written under it, ``analysed`` records that it is now.
    ``scopes`` are the tags of a lost record, to which the lexical index still refers.
    """

    def __init__(
        self,
        path: Path,
        analysis: str,
        identity: str | None,
        dimensions: int,
        scopes: Sequence[tuple[int, Scope]] = (),
    ) -> None:
        self._lock = RLock()
        self._naming = Lock()
        self._named: dict[int, tuple[str, int]] = {}
        """a cache of key and tag by slot; changed entries leave it once the change is on disk"""
        self._scopes: list[tuple[int, Scope]] = []
        self._tags: dict[Scope, int] = {}
        self._admitted: dict[Scope, tuple[int, list[int]]] = {}
        self._matrix: Matrix | None = None
        self._free: list[int] = []
        self._end = 0
        self.size = -1
        self._path = path
        self._seal = Seal(path.with_name("vectors.seal"))
        self._saved = path.with_name("vectors.saved.npz")
        self._is_open = False
        self._sealed = False
        """whether the files are as they were closed"""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sealed = self._seal.take(self._files())
        if not path.exists():
            path.touch(mode=0o600)
        with _named_errors():
            # The second connection reads names during a write.
            self._database, self._names = (
                sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0) for _ in range(2)
            )
            try:
                self._load(analysis, identity, dimensions, scopes)
            except BaseException:
                self.close()
                raise
            self._is_open = True

    def _load(self, analysis: str, identity: str | None, dimensions: int, scopes: Sequence[tuple[int, Scope]]) -> None:
        run = self._database.execute
        for pragma in ("page_size = 16384", "journal_mode = wal", "synchronous = normal", "secure_delete = on"):
            run(f"pragma {pragma}")
        run(f"pragma journal_size_limit = {WAL_BYTES}")
        if not self._sealed:
            self._check()
        (version,) = run("pragma user_version").fetchone()
        if version != _VERSION and run("select count(*) from sqlite_schema").fetchone() != (0,):
            raise StoreDamaged(f"its layout is {version}, ours {_VERSION}")
        self._database.executescript(_SCHEMA)
        for tag, scope in scopes:
            run("insert or ignore into scope values (?, ?)", (tag, _scope_text(scope)))
        for tag, value in run("select tag, value from scope order by tag"):
            self._add_scope(tag, Scope(**json.loads(value)))
        self.same_analysis = self._meta("analysis") in {None, analysis}
        if identity is not None:
            if self._meta("embedder") not in {None, identity}:
                self._adopt(identity)
            self._set_meta("embedder", identity)
            self._matrix = self._restored(identity, dimensions) or self._read_rows(identity, dimensions)
        if self.size < 0:
            self.size = run("select count(*) from entry where part = 0").fetchone()[0]
            self._free, self._end = self._free_slots()
        self._saved.unlink(missing_ok=True)

    def switch_to(self, identity: str, dimensions: int) -> None:
        """Switch to the vectors that `Moving` has built, in one step, also on disk.

        Entries without such a vector wait for one, as after any change.
        """
        with self._lock, _named_errors():
            self._adopt(identity)
            old, self._matrix = self._matrix, self._read_rows(identity, dimensions)
            self._free, self._end = self._free_slots()
        if old is not None:
            old.close()

    def _adopt(self, identity: str) -> None:
        """Record that the vectors are those of another model, or that there are none if none were built."""
        built = self._meta("moving") == identity
        run = self._database.execute
        with transaction(self._database):
            run(ADOPT if built else "update entry set sum = null")
            if built:
                run(_ALL_OR_NONE)
                run("delete from moving")
                run("delete from meta where name = 'moving'")
            self._set_meta("rows", rows_file(identity))
            self._set_meta("embedder", identity)

    def _files(self) -> list[Path]:
        return [self._path, self._saved, *sorted(self._path.parent.glob("vectors*.i8"))]

    def _restored(self, identity: str, dimensions: int) -> Matrix | None:
        """The rows as they were closed, without reading them; None if they are not as they were."""
        if not self._sealed or self._meta("saved") != f"{identity} {self._meta('stamp')}":
            return None
        matrix = Matrix(self._rows_path, dimensions, identity)
        try:
            more = matrix.restore(self._saved)
            self.size, self._end, self._free = int(more["size"][0]), int(more["end"][0]), more["free"].tolist()
        except (OSError, ValueError, LookupError):
            matrix.close()
            return None
        return matrix

    @property
    def _rows_path(self) -> Path:
        return self._path.with_name(self._meta("rows") or "vectors.i8")

    def _read_rows(self, identity: str, dimensions: int) -> Matrix:
        """The rows on disk whose checksum is on record; deletes files of other models."""
        file = self._rows_path
        wanted = {file.name, rows_file(self._meta("moving") or identity)}
        for other in self._path.parent.glob("vectors*.i8"):
            if other.name not in wanted:
                other.unlink()
        matrix = Matrix(file, dimensions, identity)
        slots, sums, tags = self._with_rows("slot, sum, tag")
        self._bare(matrix.load(slots, tags, sums), matrix)
        return matrix

    def _free_slots(self) -> tuple[list[int], int]:
        """The free slots, as a heap, and the first slot that was never used."""
        end, rows = self._database.execute("select coalesce(max(slot), -1) + 1, count(*) from entry").fetchone()
        taken = {slot for (slot,) in self._database.execute("select slot from entry")} if end > rows else set()
        free = [slot for slot in range(end) if slot not in taken] if taken else []
        heapify(free)
        return free, end

    def check(self) -> None:
        """Raises ``StoreDamaged`` if SQLite finds damage."""
        with self._lock, _named_errors():
            self._check()

    def _check(self) -> None:
        self._database.execute("pragma shrink_memory")  # so that the check reads the file, not the page cache
        if [row[0] for row in self._database.execute("pragma quick_check(1)")] != ["ok"]:
            raise StoreDamaged("the vector file fails SQLite's quick_check")

    def damaged_rows(self) -> int:
        """Number of vectors whose checksum is wrong. ``drop_damaged`` drops them."""
        return len(self._damaged())

    def drop_damaged(self) -> None:
        """Drop damaged vectors, so that they are embedded again."""
        if self._matrix is not None and (damaged := self._damaged()):
            with self._lock, _named_errors():
                self._bare(damaged, self._matrix)

    def _damaged(self) -> list[int]:
        if self._matrix is None:
            return []
        with self._lock, _named_errors():
            slots, sums = self._with_rows("slot, sum")
        try:
            return self._matrix.damaged(slots, sums)
        except FileNotFoundError:
            return slots.tolist()  # type: ignore[no-any-return]

    def _with_rows(self, columns: str) -> Numbers:
        """These columns of the rows with a vector, ordered by slot, as one array for each column."""
        rows = self._database.execute(f"select {columns} from entry where sum is not null order by slot").fetchall()
        return np.array(rows, np.int64).reshape(-1, columns.count(",") + 1).T

    @property
    def count(self) -> int:
        """Number of entries with their vectors."""
        if self._matrix is None:
            return 0
        with self._naming, _named_errors():
            bare = "select count(*) from entry where sum is null and part = 0"
            return max(0, self.size - int(self._names.execute(bare).fetchone()[0]))

    @property
    def has_rows(self) -> bool:
        """Whether there is any vector; answers immediately."""
        return self._matrix is not None and self._matrix.count > 0

    @property
    def identity(self) -> str | None:
        """The model of the vectors."""
        return None if self._matrix is None else self._matrix.identity

    @property
    def stamp(self) -> str:
        """A token that changes with every change of the record; empty while one is under way."""
        with self._lock, _named_errors():
            return self._meta("stamp") or ""

    @property
    def scopes(self) -> tuple[tuple[int, Scope], ...]:
        return tuple(self._scopes)

    def keys(self) -> set[str]:
        """The keys of all entries."""
        with self._lock, _named_errors():
            return {key for (key,) in self._database.execute("select key from entry where part = 0")}

    def bare(self) -> list[tuple[str, str]]:
        """Key and hash of the entries without a vector."""
        with self._lock, _named_errors():
            query = "select key, hash from entry where sum is null and part = 0"
            return self._database.execute(query).fetchall()

    def known_of(self, keys: Sequence[str]) -> dict[str, Record]:
        with self._lock, _named_errors():
            rows = self._database.execute(f"{_KNOWN} and key in {VALUES}", listed(keys))
            return {key: Record(tag, digest) for key, tag, digest in rows}

    def with_vector(self, keys: Iterable[str]) -> set[str]:
        """The keys among ``keys`` that have a vector."""
        query = f"select key from entry where sum is not null and part = 0 and key in {VALUES}"
        with self._lock, _named_errors():
            return {key for (key,) in self._database.execute(query, listed(keys))}

    def tag(self, scope: Scope) -> int:
        """The number of exactly this scope."""
        with self._lock, _named_errors():
            if (tag := self._tags.get(scope)) is None:
                tag = len(self._scopes) + 1
                self._database.execute("insert into scope values (?, ?)", (tag, _scope_text(scope)))
                self._add_scope(tag, scope)
            return tag

    def tags(self, scope: Scope) -> list[int] | None:
        """The tags that a query in ``scope`` may see; ``None`` for all."""
        with self._lock:
            if len(self._admitted) > _REMEMBERED_SCOPES:
                self._admitted.clear()
            seen, tags = self._admitted.get(scope, (0, []))
            if seen < len(self._scopes):
                tags = [*tags, *(tag for tag, item in self._scopes[seen:] if scope.admits(item))]
                self._admitted[scope] = (len(self._scopes), tags)
            return None if len(tags) == len(self._scopes) else tags

    def analysed(self, analysis: str) -> None:
        """Record that all terms are from this analysis."""
        with self._lock, _named_errors():
            self._set_meta("analysis", analysis)

    def mark_dirty(self, keys: Sequence[str]) -> None:
        """Mark entries as being written to the lexical index; ``change`` clears the mark."""
        with self._lock, _named_errors(), transaction(self._database):
            self._set_meta("stamp", "")
            self._database.execute(f"update entry set written = 0 where key in {VALUES}", listed(keys))

    def change(self, put: Mapping[str, Record], drop: Sequence[str]) -> None:
        """Record entries and drop others, in one transaction. An entry keeps its vectors if its hash is unchanged."""
        with self._lock, _named_errors():
            if self._matrix is not None:
                for slot in self._matrix.reusable():
                    heappush(self._free, slot)
            free, end = list(self._free), self._end
            gone: list[int] = []
            bare: list[int] = []
            kept: list[tuple[int, int]] = []
            run = self._database.execute
            with transaction(self._database):
                there = f"select count(*) from entry where part = 0 and key in {VALUES}"
                (replaced,) = run(there, listed([*drop, *put])).fetchone()
                for key in drop:
                    gone += [slot for (slot,) in run(_DROP_PARTS, (key, 0))]
                for key, known in put.items():
                    for part in range(known.parts):
                        slot, is_bare = run(
                            _PUT, (free[0] if free else end, key, part, known.tag, known.hash)
                        ).fetchone()
                        if free and slot == free[0]:
                            heappop(free)
                        elif slot == end:
                            end += 1
                        if is_bare:
                            bare.append(slot)
                        else:
                            kept.append((slot, known.tag))
                    gone += [slot for (slot,) in run(_DROP_PARTS, (key, known.parts))]
                self._set_meta("stamp", token_hex(8))
            self.size += len(put) - int(replaced)
            self._free, self._end = free, end
            with self._naming:
                for slot in (*gone, *bare, *(slot for slot, _ in kept)):
                    self._named.pop(slot, None)
            if self._matrix is None:
                for slot in gone:
                    heappush(self._free, slot)
                return
            self._matrix.rest(gone)
            self._matrix.free(bare)
            for slot, tag in kept:
                self._matrix.retag(slot, tag)

    def add(self, vectors: Sequence[tuple[str, str, Sequence[Floats]]], identity: str) -> bool:
        """Store vectors as (key, hash, the vectors of its parts), except for entries that changed since.

        Returns False, and stores none, if ``identity`` is not the model of the record.
        """
        run = self._database.execute
        with self._lock, _named_errors(), transaction(self._database):
            matrix = self._matrix
            if matrix is None or matrix.identity != identity:
                return False
            rows: dict[int, tuple[int, Floats]] = {}
            query = "select slot, tag from entry where key = ? and hash = ? order by part"
            for key, digest, parts in vectors:
                if found := run(query, (key, digest)).fetchall():
                    rows |= {slot: (tag, vector) for (slot, tag), vector in zip(found, parts, strict=True)}
            if not rows:
                return True
            slots = sorted(rows)
            try:
                sums = matrix.write(slots, [rows[s][0] for s in slots], [quantised(rows[s][1]) for s in slots])
                for slot, sum_ in zip(slots, sums, strict=True):
                    run("update entry set sum = ? where slot = ?", (sum_, slot))
            except BaseException:
                matrix.free(slots)
                raise
        return True

    def search(
        self, query: Floats, tags: Sequence[int] | None, limit: int, identity: str | None
    ) -> list[tuple[str, float]] | None:
        """The best ``limit`` keys with their cosines, among these tags (``None``: all); ties by key.

        A long text has the cosine of its best passage.

        Returns ``None`` if ``identity``, the query's model, is not the model of the record.
        """
        matrix = self._matrix
        if matrix is None or matrix.identity != identity:
            return None
        allowed = None if tags is None else frozenset(tags)

        def name(slots: Sequence[int]) -> list[tuple[int, str]]:
            """Slots with their keys, for entries that are still in scope."""
            with self._naming, _named_errors():
                if len(self._named) > _REMEMBERED_NAMES:
                    self._named.clear()
                unknown = listed(slot for slot in slots if slot not in self._named)
                rows = self._names.execute(f"select slot, key, tag from entry where slot in {VALUES}", unknown)
                self._named.update((slot, (key, tag)) for slot, key, tag in rows)
                named = [(slot, self._named.get(slot)) for slot in slots]
            return [(slot, one[0]) for slot, one in named if one and (allowed is None or one[1] in allowed)]

        return matrix.search(query, tags, limit, name)

    def cosines(self, vector: Floats, keys: Sequence[str]) -> dict[str, float]:
        """The cosines of the ``keys`` that have a vector, by key; of a long text the best of its passages."""
        if self._matrix is None:
            return {}
        slots = self._slots(keys)
        best: dict[str, float] = {}
        for key, cosine in zip(slots.values(), self._matrix.cosines(vector, list(slots)), strict=True):
            best[key] = max(cosine, best.get(key, cosine))
        return best

    def vectors_of(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors of the ``keys`` that have one, at unit length, by key; of a long text the mean direction of its
        passages."""
        if self._matrix is None:
            return {}
        slots = self._slots(keys)
        parts: dict[str, list[Floats]] = {}
        for key, vector in zip(slots.values(), self._matrix.vectors(list(slots)), strict=True):
            parts.setdefault(key, []).append(vector)
        return {key: mean_direction(some) for key, some in parts.items()}

    def _slots(self, keys: Sequence[str]) -> dict[int, str]:
        """The ``keys`` that have a vector, by slot."""
        query = f"select slot, key from entry where sum is not null and key in {VALUES}"
        with self._naming, _named_errors():
            return dict(self._names.execute(query, listed(keys)))

    def close(self) -> None:
        with self._lock:
            is_open, self._is_open = self._is_open, False
            matrix = self._matrix
            if is_open and matrix is not None and matrix.count >= MANY:
                with suppress(sqlite3.Error, OSError):
                    self._save(matrix)
            self._database.close()
            with self._naming:
                self._names.close()
            if matrix is not None:
                matrix.close()
            if is_open:
                self._seal.put(self._files())

    def _save(self, matrix: Matrix) -> None:
        """Save what the next opening would else read from all rows."""
        numbers = {"size": [self.size], "end": [self._end], "free": self._free}
        matrix.save(self._saved, {name: np.array(some, np.int64) for name, some in numbers.items()})
        with transaction(self._database):
            self._set_meta("saved", f"{matrix.identity} {self._meta('stamp')}")

    def _bare(self, slots: Sequence[int], matrix: Matrix) -> None:
        """Drop the vectors of the entries in these slots, those of all their parts."""
        if slots:
            of_them = f"key in (select key from entry where slot in {VALUES})"
            run = self._database.execute
            rows = run(f"update entry set sum = null where {of_them} returning slot", listed(slots)).fetchall()
            matrix.free([slot for (slot,) in rows])

    def _add_scope(self, tag: int, scope: Scope) -> None:
        self._scopes.append((tag, scope))
        self._tags[scope] = tag

    def _meta(self, name: str) -> str | None:
        row = self._database.execute("select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_meta(self, name: str, value: str) -> None:
        if self._meta(name) != value:
            self._database.execute("insert or replace into meta values (?, ?)", (name, value))


def _scope_text(scope: Scope) -> str:
    return json.dumps(asdict(scope), sort_keys=True)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise StoreFull(f"no space left for the vectors: {error}") from error
        raise StoreDamaged(f"the vector file does not work: {error}") from error
    except OSError as error:
        if error.errno in (ENOSPC, EDQUOT):
            raise StoreFull(f"no space left for the vectors: {error}") from error
        raise
