"""One index: words at once, vectors as they come, both fused.

The folder is derived data. Whoever opens it says what must be in it, and whatever differs is repaired, so it may be
deleted, cut off or damaged at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from adapters.index.backfill import Backfill, Waiting
from adapters.index.lexical import Lexical, analysis, erase
from adapters.index.merge import Found, Scored, rrf
from adapters.index.migrate import Moving
from adapters.index.vectors import Known, Vectors
from fusion.contract import Embedder, Scope
from fusion.errors import InvalidAnswer, StoreBusy, StoreDamaged
from fusion.lib.words import content_hash

if TYPE_CHECKING:
    from fusion.contract import Floats

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
Pick = Callable[[Sequence[str]], Iterable["Entry"]]
Through = Callable[[Embedder], Embedder]
Asked = tuple["Floats", str]
"""the vector of a question, and the identity of the model that it is of"""

_COMMIT_ENTRIES = 2_000
_FILL_ENTRIES = 128
_FRESH_ENTRIES = 64
# Changes of so many at most get their vectors before what waits for them already: somebody has just said these.
# As many as the embedder can sort by length, and as few as may be lost when the process dies: it caches them itself.
_SHARE_OF_VECTORS = 0.8


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to be found. ``text`` is what is searched: a spoken form, a heading path with its chunk.

    One that begins with a NUL has no words: it is found by its vector alone.
    """

    key: str
    scope: Scope
    text: str


class Index:
    """Built by ``open``. Every method may be called from many tasks of one event loop at once.

    Errors of the disk are ``StoreFull`` and ``StoreDamaged``; a damaged index is fixed by ``rebuild``, and when it is
    opened again.
    """

    small: ClassVar[int] = 20_000
    """entries of an index that one thread searches: its halves take half a millisecond each, and to hand one of them to
    a second thread took a third of one, by the clock too"""

    @classmethod
    async def open(
        cls,
        folder: Path,
        embedder: Embedder | None,
        truth: Iterable[Entry] = (),
        *,
        pick: Pick | None = None,
        stamp: str = "",
        through: Through | None = None,
    ) -> Self:
        """Opens the index in ``folder`` and makes it hold ``truth``: no entry less, and none more.

        What is missing or has changed can be found by its words when this returns, by its vector some time later
        (``settle``). Where files are damaged, or were written in another way or under another embedder, what they
        held is written again.

        With ``pick``, which gives the entries of keys, no text waits in memory for its vector; and an index that still
        has the ``stamp`` that its caller kept beside the truth is taken to hold it, so that ``truth`` is not looked at.
        ``through`` makes of an embedder the one that the index asks, now and after a move.
        """
        index = cls(folder, embedder, pick, through)
        try:
            await index._in_thread(index._open_files)
            if pick is not None and stamp and stamp == index.stamp and not index._lexical_is_lost:
                await index._resume()
            else:
                await index._repair(truth)
        except BaseException:
            await index.close()
            raise
        return index

    def __init__(
        self, folder: Path, embedder: Embedder | None, pick: Pick | None = None, through: Through | None = None
    ) -> None:
        self._folder = folder
        self._through = through or (lambda embedder: embedder)
        self._embedder = None if embedder is None else self._through(embedder)
        self._moved_to: Embedder | None = None
        self._pick = pick
        self._threads = ThreadPoolExecutor(3, f"index-{folder.name}")
        # One writes, so two are left to search.
        self._files_open = False
        self._lexical_is_lost = False
        self._changes: list[tuple[Mapping[str, Entry | None], asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._waiting: Waiting[tuple[str, str | None]] = Waiting()
        # Hash and text by key; no text where it can be picked: what is put now may not be there yet.
        self._mending = False
        self._backfill = Backfill(f"index in {folder}", self._fill_some, self._waiting.try_refused)
        self._faults: dict[str, str] = {}
        self._closed = False
        self._rebuilding: str | None = None

    @property
    def size(self) -> int:
        """How many entries there are."""
        return self._vectors.size

    @property
    def vectors(self) -> int:
        """How many of them have a vector."""
        return self._vectors.count

    @property
    def embedder(self) -> Embedder | None:
        """Whose vectors are here: the one it was opened with, until it has moved to another one."""
        moved = self._moved_to
        return moved if moved is not None and moved.identity == self._vectors.identity else self._embedder

    @property
    def pending(self) -> int:
        """How many of them are waiting for one."""
        return len(self._waiting)

    @property
    def stamp(self) -> str:
        """Names what the index holds: another one after each change of it, empty in the middle of one."""
        return self._vectors.stamp

    @property
    def notes(self) -> tuple[str, ...]:
        """What does not work at the moment, in words."""
        if self.embedder is None:
            return ("no embedding model: search goes by words alone", *self.faults)
        return self.faults

    @property
    def faults(self) -> tuple[str, ...]:
        """What fails that should work."""
        fault = self._backfill.error or self._waiting.why
        return (*self._faults.values(), *([f"vectors are not filled in: {fault}"] if fault else ()))

    async def put(self, entries: Sequence[Entry]) -> None:
        """Adds entries, replacing those of the same key. Found by their words when this returns."""
        if entries:
            await self._submit({entry.key: entry for entry in entries})

    async def drop(self, keys: Sequence[str]) -> None:
        """Removes entries; keys that are not there are no error."""
        if keys:
            await self._submit(dict.fromkeys(keys))

    async def search(self, text: str, scope: Scope, limit: int) -> Sequence[Found]:
        """The best ``limit`` that ``scope`` admits: those by words and those by vectors, fused by rank."""
        return rrf(*await self.halves(text, scope, limit))[:limit]

    async def halves(
        self,
        text: str,
        scope: Scope,
        limit: int,
        vector: Floats | None = None,
        deadline_s: float | None = None,
    ) -> tuple[Scored, Scored]:
        """The best ``limit`` by words and the best by vectors, of what ``scope`` admits: keys with BM25, with cosine.

        ``vector`` is the text's, where it is known already. Either half stands in for the other, and is empty, while
        it does not work; ``notes`` says so then. Vectors are given up after four fifths of ``deadline_s``, so that
        words answer in time whoever embeds the question. Raises ``StoreDamaged`` where neither half works.
        """
        self._check_open()
        if self.size > self.small:
            return await self._in_two_threads(text, scope, limit, vector, deadline_s)
        return await self._in_one_thread(text, scope, limit, vector, deadline_s, lambda *halves: halves)

    async def made_of(
        self,
        text: str,
        scope: Scope,
        limit: int,
        make: Callable[[Scored, Scored], Result],
        vector: Floats | None = None,
        deadline_s: float | None = None,
    ) -> Result:
        """What ``make`` makes of the ``halves``, in a thread: it may read files."""
        self._check_open()
        if self.size > self.small:
            by_words, by_vectors = await self._in_two_threads(text, scope, limit, vector, deadline_s)
            return await self._in_thread(lambda: make(by_words, by_vectors))
        return await self._in_one_thread(text, scope, limit, vector, deadline_s, make)

    async def _in_two_threads(
        self, text: str, scope: Scope, limit: int, vector: Floats | None, deadline_s: float | None
    ) -> tuple[Scored, Scored]:
        by_words, by_vectors = await asyncio.gather(
            self.lexical(text, scope, limit),
            _within(deadline_s, self.similar(text, scope, limit, vector)),
            return_exceptions=True,
        )
        found = _standing(by_words, by_vectors)
        self._note_what_failed(by_words, by_vectors)
        return found

    async def _in_one_thread(
        self,
        text: str,
        scope: Scope,
        limit: int,
        vector: Floats | None,
        deadline_s: float | None,
        make: Callable[[Scored, Scored], Result],
    ) -> Result:
        """For an index that is searched in less time than it takes to hand the halves to two threads."""
        asked: Asked | Exception | None
        try:
            asked = await _within(deadline_s, self._asked(text, scope, vector))
        except Exception as error:  # noqa: BLE001 - whatever keeps a vector from coming, words are searched
            asked = error

        def look() -> tuple[Scored | Exception, Scored | Exception, Result] | None:
            words = _tried(lambda: self._by_words(text, scope, limit))
            vectors: Scored | Exception | None
            if asked is None or isinstance(asked, Exception):
                vectors = asked or ()
            else:
                vectors = _tried(lambda: self._by_vectors(asked, scope, limit))
            return None if vectors is None else (words, vectors, make(*_standing(words, vectors)))

        found = await self._in_thread(look)
        if found is None:  # the index moved to another model meanwhile
            by_words, by_vectors = await self._in_two_threads(text, scope, limit, None, deadline_s)
            return await self._in_thread(lambda: make(by_words, by_vectors))
        words, vectors, made = found
        if not isinstance(words, Exception):
            self._faults.pop("lexical", None)
        if asked is not None and not isinstance(vectors, Exception):
            self._faults.pop("similar", None)
        self._note_what_failed(words, vectors)
        return made

    def _note_what_failed(self, by_words: Scored | BaseException, by_vectors: Scored | BaseException) -> None:
        if isinstance(by_words, BaseException):
            self._note("lexical", f"search by words does not work: {by_words}")
        if isinstance(by_vectors, BaseException):
            self._note("similar", f"search by vectors does not work: {by_vectors}")

    async def lexical(self, text: str, scope: Scope, limit: int) -> Sequence[tuple[str, float]]:
        """The best ``limit`` keys by BM25, best first; nothing where the query has no words that count."""
        self._check_open()
        found = await self._in_thread(lambda: self._by_words(text, scope, limit))
        self._faults.pop("lexical", None)
        return found

    async def similar(
        self, text: str, scope: Scope, limit: int, vector: Floats | None = None
    ) -> Sequence[tuple[str, float]]:
        """The best ``limit`` keys by cosine, best first, of those that have a vector; nothing without an embedder.

        ``vector`` is the text's, where it is known already.
        """
        self._check_open()
        found: Scored | None = None
        while found is None:  # once more where the index moved to another model between the two steps
            asked = await self._asked(text, scope, vector)
            if asked is None:
                return []
            vector = None
            found = await self._in_thread(partial(self._by_vectors, asked, scope, limit))
        self._faults.pop("similar", None)
        return found

    async def _asked(self, text: str, scope: Scope, vector: Floats | None) -> Asked | None:
        """A question's vector and the model that made it; ``None`` where there is nothing to compare it with."""
        embedder = self.embedder
        if embedder is None or not self.vectors or self._vectors.tags(scope) == []:
            return None
        query = vector if vector is not None else (await vectors_of(embedder, [text], keep=False))[0]
        return query, embedder.identity

    def _by_words(self, text: str, scope: Scope, limit: int) -> Scored:
        tags = self._vectors.tags(scope)
        if tags == []:
            return []
        if self._rebuilding is not None:
            raise StoreDamaged(f"it is being written again, for {self._rebuilding}")
        return self._lexical.search(text, tags, limit)

    def _by_vectors(self, asked: Asked, scope: Scope, limit: int) -> Scored | None:
        """``None``: the model that the question's vector is of is not that of the entries' any more."""
        query, identity = asked
        return self._vectors.search(query, self._vectors.tags(scope), limit, identity)

    async def cosines(self, vector: Floats, keys: Sequence[str]) -> dict[str, float]:
        """The cosine of a vector of unit length with those of these keys that have one."""
        return await self._in_thread(lambda: self.compared(vector, keys))

    def compared(self, vector: Floats, keys: Sequence[str]) -> dict[str, float]:
        """As ``cosines``, in the thread of whoever calls, which may wait."""
        self._check_open()
        return self._vectors.cosines(vector, keys)

    async def damage(self) -> str | None:
        """What is wrong with the files, if anything is. Whoever calls holds back what would write to them."""
        fault = await self._in_thread(self._damage)
        # What tantivy merges behind may look like damage for a moment; twice it is damage.
        return None if fault is None else await self._in_thread(self._damage)

    async def rebuild(self, truth: Iterable[Entry], fault: str) -> None:
        """Writes what is damaged again from ``truth``; ``fault`` says why. Whoever calls holds back other changes until
        this returns.

        Where the words are lost, vectors alone are searched meanwhile; where the record or vectors are, words are.
        """
        self._check_open()
        _log.warning("the index in %s is written again: %s", self._folder, fault)
        entries = list(truth) if iter(truth) is truth else truth
        try:
            await self._in_thread(lambda: self._begin_anew(fault))
            await self._repair(entries)
            if await self._in_thread(lambda: self._difference(self._lexical)):
                # The record was lost, and with it which words are nobody's any more.
                await self._in_thread(lambda: self._lose_words(fault))
                await self._repair(entries)
        finally:
            self._rebuilding = None
        self._faults.pop("lexical", None)

    @property
    def moves(self) -> bool:
        """Whether it knows the texts of its entries, and so can move to another model."""
        return self._pick is not None

    async def to_build(self, embedder: Embedder) -> tuple[int, int]:
        """How many texts, and how many characters of them, a move to this model still has to encode."""
        texts = characters = 0
        async with self._moving(self._through(embedder)) as moving:
            while some := await self._in_thread(moving.portion):
                rows = await self._rows(some)
                texts, characters = texts + len(rows), characters + sum(len(text) for _, _, text in rows)
        return texts, characters

    async def build(
        self, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]:
        """Builds every entry's vector of another model beside those that answer. ``turn`` lets these answer then.

        Returns, by key, which of them the model makes no vector of, and why. Raises what ``embedder`` raises, and
        InvalidAnswer where it makes none at all. Then, and after a kill, the same call goes on where this one stopped.
        """
        embedder = self._through(embedder)
        refused: dict[str, InvalidAnswer] = {}
        async with self._moving(embedder) as moving:
            while some := await self._in_thread(moving.portion):
                rows = await self._rows(some)
                keys = {slot: key for slot, key, _ in some}
                added: list[tuple[int, str, Floats]] = []
                for (slot, digest, _), made in zip(
                    rows, await each_vector_of(embedder, [text for *_, text in rows]) if rows else (), strict=True
                ):
                    refused.pop(keys[slot], None)
                    if isinstance(made, InvalidAnswer):
                        refused[keys[slot]] = made
                    else:
                        added.append((slot, digest, made))
                if added:
                    await self._in_thread(partial(moving.add, added))
                done, total = await self._in_thread(moving.counts)
                if refused and not done:
                    raise next(iter(refused.values()))
                progress(done, total)
                self._check_open()
        return refused

    async def turn(self, embedder: Embedder) -> None:
        """Lets the vectors that were built for this model answer from now on, in one step.

        What changed since they were built waits for its vector, as after any change.
        """
        self._check_open()
        self._moved_to = embedder = self._through(embedder)
        await self._in_thread(lambda: self._vectors.turn(embedder.identity, embedder.dimensions))
        self._embedder = embedder
        self._waiting.clear()
        await self._resume()

    @asynccontextmanager
    async def _moving(self, embedder: Embedder) -> AsyncIterator[Moving]:
        self._check_open()
        path = self._folder / "vectors.sqlite"
        moving = await self._in_thread(lambda: Moving(path, embedder.identity, embedder.dimensions))
        try:
            yield moving
        finally:
            await asyncio.shield(self._in_thread(moving.close))

    async def _rows(self, some: Sequence[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
        """Slot, hash and text of a portion, but for what is changing just now."""
        if self._pick is None:
            raise TypeError("an index that was opened without pick does not know its texts")
        picked = {e.key: e.text for e in await self._in_thread(partial(self._pick, [key for _, key, _ in some]))}
        return [(slot, d, picked[k]) for slot, k, d in some if k in picked and content_hash(picked[k]) == d]

    async def settle(self) -> None:
        """Returns when every entry has its vector, or when the embedder has failed once more (see ``notes``)."""
        if self._waiting:
            await self._backfill.settle()
        if not self._closed:
            await self._in_thread(self._lexical.settle)

    async def close(self) -> None:
        """Finishes what is being written and leaves the missing vectors to the next ``open``. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await self._backfill.close()
        if self._writing is not None:
            await self._writing

        def end() -> None:
            self._threads.shutdown()
            if self._files_open:
                self._vectors.close()
                self._lexical.close()

        await asyncio.to_thread(end)

    # Opening

    def _open_files(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._vectors = self._open_vectors()
        except StoreDamaged as error:
            _log.warning("the index in %s is written again: %s", self._folder, error)
            self._vectors = self._new_vectors()
        try:
            self._lexical = self._open_lexical(self._folder / "lexical")
        except BaseException:
            self._vectors.close()
            raise
        self._files_open = True

    def _damage(self) -> str | None:
        try:
            self._vectors.check()
            self._lexical.check()
        except StoreDamaged as error:
            return str(error)
        if rows := self._vectors.damaged_rows():
            return f"{rows} vectors are not what was written"
        return self._difference(self._lexical)

    def _begin_anew(self, fault: str) -> None:
        """Of record, vectors and words, what is damaged begins anew; what is whole stays and is searched."""
        try:
            self._vectors.check()
            self._vectors.drop_damaged()
        except StoreDamaged:
            scopes = self._vectors.scopes
            self._vectors.close()
            self._vectors = self._new_vectors(scopes)
            with suppress(StoreDamaged):
                self._lexical.check()
                return
        else:
            with suppress(StoreDamaged):
                self._lexical.check()
                if self._difference(self._lexical) is None:
                    return
        self._lose_words(fault)

    def _lose_words(self, fault: str) -> None:
        self._rebuilding = fault
        with suppress(StoreDamaged):
            self._lexical.close()
        folder = self._folder / "lexical"
        erase(folder)
        self._lexical = Lexical(folder)
        self._lexical_is_lost = True

    def _open_lexical(self, folder: Path) -> Lexical:
        try:
            lexical = Lexical(folder)
            fault = self._difference(lexical)
        except StoreDamaged as error:
            fault = str(error)
        else:
            if fault is None:
                return lexical
        _log.warning("the lexical index in %s is written again: %s", self._folder, fault)
        erase(folder)
        self._lexical_is_lost = True
        return Lexical(folder)

    def _open_vectors(self, scopes: Sequence[tuple[int, Scope]] = ()) -> Vectors:
        identity, dimensions = (
            (None, 0) if self._embedder is None else (self._embedder.identity, self._embedder.dimensions)
        )
        return Vectors(self._folder / "vectors.sqlite", analysis(), identity, dimensions, scopes)

    def _new_vectors(self, scopes: Sequence[tuple[int, Scope]] = ()) -> Vectors:
        """An empty record. ``scopes`` are those that the words go by."""
        for path in self._folder.glob("vectors*"):
            path.unlink()
        return self._open_vectors(scopes)

    def _difference(self, lexical: Lexical) -> str | None:
        """Why the lexical index cannot be what the record says, if so. An index without its meta.json opens empty."""
        if not self._vectors.same_analysis:
            return "texts are cut into words in another way now"
        if lexical.size != self._vectors.size:
            return f"it has {lexical.size} entries, not {self._vectors.size}"
        return None

    async def _repair(self, truth: Iterable[Entry]) -> None:
        self._mending = True
        try:
            await self._put_truth(truth)
        finally:
            self._mending = False

    async def _put_truth(self, truth: Iterable[Entry]) -> None:
        surplus = await self._in_thread(self._vectors.keys)
        rest = iter(truth)
        while entries := await self._in_thread(lambda: list(islice(rest, _COMMIT_ENTRIES))):
            await self._submit({entry.key: entry for entry in entries})
            surplus.difference_update(entry.key for entry in entries)
        for keys in _portions(surplus, _COMMIT_ENTRIES):
            await self._submit(dict.fromkeys(keys))
        await self._in_thread(lambda: self._vectors.analysed(analysis()))
        self._lexical_is_lost = False

    async def _resume(self) -> None:
        """The index is what it was: only the vectors that are missing are still to come."""
        if self._embedder is not None:
            bare = await self._in_thread(self._vectors.bare)
            self._waiting.add({key: (digest, None) for key, digest in bare}, fresh=False)
            self._fill()

    # Writing: what comes while a commit is under way goes into the next one together

    async def _submit(self, changes: Mapping[str, Entry | None]) -> None:
        self._check_open()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.append((changes, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await asyncio.shield(done)

    async def _write(self) -> None:
        while self._changes:
            group, self._changes = self._changes, []
            try:
                await self._apply({key: entry for changes, _ in group for key, entry in changes.items()})
            except Exception:  # noqa: BLE001 - one by one, so that each caller hears of his own fault only
                for changes, done in group:
                    await self._apply_one(changes, done)
            for _, done in group:
                if not done.done():
                    done.set_result(None)

    async def _apply_one(self, changes: Mapping[str, Entry | None], done: asyncio.Future[None]) -> None:
        try:
            await self._apply(changes)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            if not done.done():
                done.set_exception(error)
                done.exception()  # looked at, so that nobody complains when the caller has left

    async def _apply(self, changes: Mapping[str, Entry | None]) -> None:
        wanting = await self._in_thread(lambda: self._write_files(changes))
        self._waiting.drop(changes)
        self._waiting.add(wanting, fresh=len(wanting) <= _FRESH_ENTRIES and not self._mending)
        self._fill()

    def _fill(self) -> None:
        if self.embedder is not None and self._waiting:
            # What came now does not wait for what is refused.
            self._backfill.start(retry=self._waiting.why is not None)

    def _write_files(self, changes: Mapping[str, Entry | None]) -> dict[str, tuple[str, str | None]]:
        """Words first, then the record of them. Returns hash and text, by key, of the entries that have no vector.

        Should the process die in between, an entry that was to change is on record as changing, and one that was to be
        added is not on record at all, so that the counts differ: either shows at the next open.
        """
        known = self._vectors.known_of(list(changes))
        put = {key: entry for key, entry in changes.items() if entry is not None}
        new = {key: Known(self._vectors.tag(entry.scope), content_hash(entry.text)) for key, entry in put.items()}
        changed = {key: state for key, state in new.items() if self._lexical_is_lost or known.get(key) != state}
        gone = [key for key, entry in changes.items() if entry is None]
        if changed or gone:
            self._vectors.changing([key for key in (*changed, *gone) if key in known])
            self._lexical.change(((key, state.tag, _words(put[key].text)) for key, state in changed.items()), gone)
            try:
                self._vectors.change(changed, gone)
            except BaseException:
                self._lexical.change((), [key for key in changed if key not in known])
                raise
        if self._embedder is None:
            return {}
        have = self._vectors.with_vector(put)
        keep = self._pick is None or not self._mending
        return {key: (new[key].hash, entry.text if keep else None) for key, entry in put.items() if key not in have}

    # Filling in vectors

    async def _fill_some(self) -> bool:
        """Raises InvalidAnswer where the embedder makes a vector of none of them."""
        waiting, embedder = self._waiting, self.embedder
        some = waiting.some(_FILL_ENTRIES)
        if embedder is None or not some:
            return False
        texts = {key: text for key, (_, text) in some.items() if text is not None}
        pick, bare = self._pick, [key for key in some if key not in texts]
        if pick is not None and bare:
            texts |= {entry.key: entry.text for entry in await self._in_thread(lambda: pick(bare))}
        made = dict(zip(texts, await each_vector_of(embedder, list(texts.values())), strict=True))
        rows = [(key, some[key][0], vector) for key, vector in made.items() if not isinstance(vector, InvalidAnswer)]
        if await self._in_thread(lambda: self._vectors.add(rows, embedder.identity)):
            waiting.done(some, {key: vector for key, vector in made.items() if isinstance(vector, InvalidAnswer)})
        # Else the index has moved to another model meanwhile: these are still wanted, of that one.
        return bool(self._waiting)

    def _note(self, what: str, fault: str) -> None:
        if self._faults.get(what) != fault:
            _log.warning("index in %s: %s", self._folder, fault)
        self._faults[what] = fault

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreBusy(f"the index in {self._folder} is closed")


def _words(text: str) -> str:
    return "" if text.startswith("\0") else text


def _standing(by_words: Scored | BaseException, by_vectors: Scored | BaseException) -> tuple[Scored, Scored]:
    """Each half or, where it failed, nothing, if the other one can stand in for it; raises what failed if not."""
    if isinstance(by_words, BaseException):
        if not isinstance(by_words, StoreDamaged) or isinstance(by_vectors, BaseException) or not by_vectors:
            raise by_words
        by_words = ()
    if isinstance(by_vectors, BaseException):
        if not isinstance(by_vectors, Exception):
            raise by_vectors
        by_vectors = ()
    return by_words, by_vectors


def _tried(work: Callable[[], Result]) -> Result | Exception:
    """What came of it, or what it raised."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - given to whoever asked
        return error


async def _within(deadline_s: float | None, search: Awaitable[Result]) -> Result:
    """The end of a search, or TimeoutError after the share of the deadline that vectors have."""
    try:
        async with asyncio.timeout(None if deadline_s is None else deadline_s * _SHARE_OF_VECTORS):
            return await search
    except TimeoutError as error:
        raise TimeoutError("the question had no vector in time") from error


async def vectors_of(embedder: Embedder, texts: Sequence[str], *, keep: bool = True) -> Floats:
    """``texts`` encoded, a vector each. Raises InvalidAnswer where what came back cannot be their vectors."""
    vectors = await embedder.embed(texts, keep=keep)
    if vectors.shape != (len(texts), embedder.dimensions):
        raise InvalidAnswer(
            f"{embedder.identity} gave vectors of shape {vectors.shape} for {len(texts)} texts, and says that it has "
            f"{embedder.dimensions} dimensions"
        )
    if not isfinite(vectors.sum()):  # NaN and infinity stay so in a sum
        raise InvalidAnswer(f"{embedder.identity} gave vectors with NaN or infinity in them")
    return vectors


async def each_vector_of(embedder: Embedder, texts: Sequence[str]) -> list[Floats | InvalidAnswer]:
    """A vector each, or why there is none: asked for by ever smaller halves, so that no text costs another its own."""
    try:
        return list(await vectors_of(embedder, texts))
    except InvalidAnswer as error:
        if len(texts) == 1:
            return [error]
    half = len(texts) // 2
    return [*await each_vector_of(embedder, texts[:half]), *await each_vector_of(embedder, texts[half:])]


Item = TypeVar("Item")


def _portions(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion
