"""The hybrid index: texts are searched by words at once, by vectors once these are filled in, and both are fused.

Its folder is derived data: the caller passes the truth when it opens the index, and every difference is repaired. So
the folder may be deleted, truncated or damaged at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from adapters.index.backfill import Backfill, Waiting
from adapters.index.encode import each_vector_of, vectors_of
from adapters.index.files import Encoded, Entry, IndexFiles
from adapters.index.lexical import analysis
from adapters.index.merge import Scored, SearchResult, rrf
from adapters.index.migrate import Moving, Row
from fusion.contract import Embedder, Scope
from fusion.errors import InvalidAnswer, StoreBusy, StoreDamaged

if TYPE_CHECKING:
    from fusion.contract import Floats

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
Pick = Callable[[Sequence[str]], Iterable["Entry"]]
Through = Callable[[Embedder], Embedder]

_COMMIT_ENTRIES = 2_000
"""entries that are added or removed in one commit when the index is compared with the store"""
_FILL_ENTRIES = 128
"""entries embedded at once: enough to sort by length, few enough to lose when the process dies (the embedder caches)"""
_FRESH_ENTRIES = 64
"""maximum entries of a change that is embedded before those that wait already: a user just made it"""
_SHARE_OF_VECTORS = 0.8
"""share of a query's deadline in which its vectors must be found; after it the words alone answer"""


@dataclass(frozen=True, slots=True)
class _Question:
    """A text to search for; the fields are the arguments of `Index.made_of`."""

    text: str
    scope: Scope
    limit: int
    vector: Floats | None
    deadline_s: float | None


class Index:
    """An index in one folder, built by ``open``. Every method may be called from many tasks of one event loop at once.

    Disk errors are ``StoreFull`` and ``StoreDamaged``; ``rebuild``, or opening it again, repairs a damaged index.
    """

    small: ClassVar[int] = 20_000
    """entries up to which one thread runs both searches: each takes half a millisecond, and a second thread costs a
    third of one"""

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
        """Open the index in ``folder`` and make its entries equal to ``truth``.

        New and changed entries can be found by their words when this returns, by their vectors later (``settle``).
        Files that are damaged, or have another layout or embedder, are rebuilt.

        ``pick`` returns the entries of keys; with it, no text waits in memory for its vector. If ``stamp``, which the
        caller stored with the truth, is still the index's, ``truth`` is not read. ``through`` wraps each embedder that
        the index uses, now and after a move.
        """
        index = cls(folder, embedder, pick, through)
        try:
            await index._in_thread(index._files.open)
            if pick is not None and stamp and stamp == index.stamp and not index._files.lexical_is_lost:
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
        # One thread writes, two search.
        self._files = IndexFiles(folder, self._embedder)
        self._changes: list[tuple[Mapping[str, Entry | None], asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._waiting: Waiting[tuple[str, Sequence[str] | None]] = Waiting()
        # By key the hash and the texts to embed; these are None if ``pick`` can read them.
        self._repairing = False
        self._backfill = Backfill(f"index in {folder}", self._fill_some, self._waiting.try_refused)
        self._faults: dict[str, str] = {}
        self._closed = False

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._files.vectors.size

    @property
    def vectors(self) -> int:
        """Number of entries with their vectors."""
        return 0 if self._closed else self._files.vectors.count

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that made the vectors."""
        moved = self._moved_to
        return moved if moved is not None and moved.identity == self._files.vectors.identity else self._embedder

    @property
    def pending(self) -> int:
        """Number of entries that wait for a vector."""
        return len(self._waiting)

    @property
    def stamp(self) -> str:
        """A token that changes with each change of the entries; empty while one is under way."""
        return self._files.vectors.stamp

    @property
    def faults(self) -> tuple[str, ...]:
        """Searches and embedding that fail at the moment."""
        fault = self._backfill.error or self._waiting.why
        return (*self._faults.values(), *([f"vectors are not filled in: {fault}"] if fault else ()))

    async def put(self, entries: Sequence[Entry]) -> None:
        """Add entries or replace those with the same key. They are found by their words when this returns."""
        if entries:
            await self._submit({entry.key: entry for entry in entries})

    async def drop(self, keys: Sequence[str]) -> None:
        """Remove entries; unknown keys are ignored."""
        if keys:
            await self._submit(dict.fromkeys(keys))

    async def search(self, text: str, scope: Scope, limit: int) -> Sequence[SearchResult]:
        """The best ``limit`` entries that ``scope`` admits, by words and by vectors, fused by rank."""
        return await self.made_of(text, scope, limit, lambda *halves: rrf(*halves)[:limit])

    async def made_of(
        self,
        text: str,
        scope: Scope,
        limit: int,
        make: Callable[[Scored, Scored], Result],
        vector: Floats | None = None,
        deadline_s: float | None = None,
    ) -> Result:
        """``make`` applied to the best ``limit`` keys by words, with BM25, and by vectors, with cosine.

        It runs in a thread, so it may read files. ``vector`` is the text's, if known. A half that fails is empty and
        reported in ``faults``; if both fail, raises ``StoreDamaged``. The vector search is given up after four fifths
        of ``deadline_s``, so that words answer in time however slow the embedder is.
        """
        self._check_open()
        question = _Question(text, scope, limit, vector, deadline_s)
        return await (self._in_two_threads if self.size > self.small else self._in_one_thread)(question, make)

    async def _in_two_threads(self, question: _Question, make: Callable[[Scored, Scored], Result]) -> Result:
        asked = question.text, question.scope, question.limit
        by_words, by_vectors = await asyncio.gather(
            self.lexical(*asked),
            _within(question.deadline_s, self.similar(*asked, question.vector)),
            return_exceptions=True,
        )
        found = _usable(by_words, by_vectors)
        self._note_what_failed(by_words, by_vectors)
        return await self._in_thread(lambda: make(*found))

    async def _in_one_thread(self, question: _Question, make: Callable[[Scored, Scored], Result]) -> Result:
        """Run both searches in one thread: faster for a small index."""
        text, scope, limit = question.text, question.scope, question.limit
        asked: Encoded | Exception | None
        try:
            asked = await _within(question.deadline_s, self._asked(text, scope, question.vector))
        except Exception as error:  # noqa: BLE001 - words are searched without a vector
            asked = error

        def look() -> tuple[Scored | Exception, Scored | Exception, Result] | None:
            words = _tried(lambda: self._files.by_words(text, scope, limit))
            vectors: Scored | Exception | None
            if asked is None or isinstance(asked, Exception):
                vectors = asked or ()
            else:
                vectors = _tried(lambda: self._files.by_vectors(asked, scope, limit))
            return None if vectors is None else (words, vectors, make(*_usable(words, vectors)))

        found = await self._in_thread(look)
        if found is None:  # the index has moved to another model
            return await self._in_two_threads(replace(question, vector=None), make)
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
        """The best ``limit`` keys by BM25, best first; empty if the query has only stop words."""
        self._check_open()
        found = await self._in_thread(lambda: self._files.by_words(text, scope, limit))
        self._faults.pop("lexical", None)
        return found

    async def similar(
        self, text: str, scope: Scope, limit: int, vector: Floats | None = None
    ) -> Sequence[tuple[str, float]]:
        """The best ``limit`` keys by cosine, of a long text that of its best passage; none without an embedder.

        ``vector`` is the text's, if it is known.
        """
        self._check_open()
        found: Scored | None = None
        while found is None:  # once more where the index moved to another model between the two steps
            asked = await self._asked(text, scope, vector)
            if asked is None:
                return []
            vector = None
            found = await self._in_thread(partial(self._files.by_vectors, asked, scope, limit))
        self._faults.pop("similar", None)
        return found

    async def _asked(self, text: str, scope: Scope, vector: Floats | None) -> Encoded | None:
        """The query's vector and its model; ``None`` if there are no vectors to compare it with."""
        embedder = self.embedder
        if embedder is None or not self._files.vectors.has_rows or self._files.vectors.tags(scope) == []:
            return None
        query = vector if vector is not None else (await vectors_of(embedder, [text], keep=False))[0]
        return query, embedder.identity

    async def cosines(self, vector: Floats, keys: Sequence[str]) -> dict[str, float]:
        """Cosines of a unit vector with the vectors of these keys; keys without a vector are left out."""
        return await self._in_thread(lambda: self.compared(vector, keys))

    def compared(self, vector: Floats, keys: Sequence[str]) -> dict[str, float]:
        """Like ``cosines``, in the caller's thread, which it may block."""
        self._check_open()
        return self._files.vectors.cosines(vector, keys)

    async def vectors_of(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors of these keys at unit length, as the index has them: rounded to 8 bits a number."""
        return await self._in_thread(lambda: self._files.vectors.vectors_of(keys))

    async def damage(self) -> str | None:
        """The damage of the files, or None. The caller must hold back writes."""
        fault = await self._in_thread(self._files.damage)
        # A background merge of tantivy may look like damage for a moment, so check twice.
        return None if fault is None else await self._in_thread(self._files.damage)

    async def rebuild(self, truth: Iterable[Entry], fault: str) -> None:
        """Rebuild damaged files from ``truth``; ``fault`` says why. The caller must hold back other writes.

        Meanwhile the undamaged half is searched alone.
        """
        self._check_open()
        _log.warning("rebuilding the index in %s: %s", self._folder, fault)
        entries = list(truth) if iter(truth) is truth else truth
        try:
            await self._in_thread(lambda: self._files.begin_anew(fault))
            await self._repair(entries)
            if await self._in_thread(self._files.difference):
                # The record was lost, and with it the knowledge which words are stale.
                await self._in_thread(lambda: self._files.lose_words(fault))
                await self._repair(entries)
        finally:
            self._files.rebuilding = None
        self._faults.pop("lexical", None)

    @property
    def moves(self) -> bool:
        """Whether the index can read its texts, and so can move to another model."""
        return self._pick is not None

    async def count_missing(self, embedder: Embedder) -> tuple[int, int]:
        """The number of texts, and of their characters, that a move to this model still has to embed."""
        texts = characters = 0
        async with self._moving(self._through(embedder)) as moving:
            while some := await self._in_thread(moving.portion):
                rows = await self._rows(some)
                texts, characters = texts + len(rows), characters + sum(map(len, rows.values()))
        return texts, characters

    async def build(
        self, embedder: Embedder, progress: Callable[[int, int | None], None]
    ) -> Mapping[str, InvalidAnswer]:
        """Build every entry's vector of another model, next to those in use; ``switch_to`` switches to them.

        Returns the keys that the model refused, with the reason. Raises the errors of ``embedder``, and InvalidAnswer
        if it refuses all. After an error or a kill, the same call continues.
        """
        embedder = self._through(embedder)
        refused: dict[tuple[str, int], InvalidAnswer] = {}
        async with self._moving(embedder) as moving:
            while some := await self._in_thread(moving.portion):
                rows = await self._rows(some)
                added: list[tuple[Row, Floats]] = []
                for row, made in zip(
                    rows, await each_vector_of(embedder, list(rows.values())) if rows else (), strict=True
                ):
                    refused.pop((row.key, row.part), None)
                    if isinstance(made, InvalidAnswer):
                        refused[row.key, row.part] = made
                    else:
                        added.append((row, made))
                if added:
                    await self._in_thread(partial(moving.add, added))
                done, total = await self._in_thread(moving.counts)
                if refused and not done:
                    raise next(iter(refused.values()))
                progress(done, total)
                self._check_open()
        return {key: why for (key, _), why in refused.items()}

    async def switch_to(self, embedder: Embedder) -> None:
        """Switch to the vectors that were built for this model, in one step.

        Entries that changed since wait for their vectors, as after any change.
        """
        self._check_open()
        self._moved_to = embedder = self._through(embedder)
        await self._in_thread(lambda: self._files.switch_to(embedder))
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

    async def _rows(self, some: Sequence[Row]) -> dict[Row, str]:
        """The rows of a portion with their texts, without entries that are changing right now."""
        if self._pick is None:
            raise TypeError("an index that was opened without pick does not know its texts")
        keys = list(dict.fromkeys(row.key for row in some))
        picked = {entry.key: entry for entry in await self._in_thread(partial(self._pick, keys))}
        return {
            row: entry.embedded[row.part]
            for row in some
            if (entry := picked.get(row.key)) is not None and entry.hash == row.hash
        }

    async def settle(self) -> None:
        """Wait until every entry has its vector, or the embedder has failed again (see ``faults``)."""
        if self._waiting:
            await self._backfill.settle()
        if not self._closed:
            await self._in_thread(self._files.lexical.settle)

    async def close(self) -> None:
        """Finish the current write; the next ``open`` fills in missing vectors. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await self._backfill.close()
        if self._writing is not None:
            await self._writing

        def end() -> None:
            self._threads.shutdown()
            self._files.close()

        await asyncio.to_thread(end)

    # Opening

    async def _repair(self, truth: Iterable[Entry]) -> None:
        self._repairing = True
        try:
            await self._put_truth(truth)
        finally:
            self._repairing = False

    async def _put_truth(self, truth: Iterable[Entry]) -> None:
        surplus = await self._in_thread(self._files.vectors.keys)
        rest = iter(truth)
        while entries := await self._in_thread(lambda: list(islice(rest, _COMMIT_ENTRIES))):
            await self._submit({entry.key: entry for entry in entries})
            surplus.difference_update(entry.key for entry in entries)
        for keys in _portions(surplus, _COMMIT_ENTRIES):
            await self._submit(dict.fromkeys(keys))
        await self._in_thread(lambda: self._files.vectors.analysed(analysis()))
        self._files.lexical_is_lost = False

    async def _resume(self) -> None:
        """Continue with an index whose entries are right: queue those without a vector."""
        if self._embedder is not None:
            bare = await self._in_thread(self._files.vectors.bare)
            self._waiting.add({key: (digest, None) for key, digest in bare}, fresh=False)
            self._fill()

    # Writing: changes that arrive during a commit go into the next one together

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
            except Exception:  # noqa: BLE001 - one by one, so that each caller gets only its own error
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
                done.exception()  # retrieved, so that asyncio does not warn if the caller has left

    async def _apply(self, changes: Mapping[str, Entry | None]) -> None:
        bare = await self._in_thread(lambda: self._files.write(changes))
        keep = self._pick is None or not self._repairing
        texts = {key: entry.embedded for key, entry in changes.items() if entry is not None and keep}
        wanting = {key: (digest, texts.get(key)) for key, digest in bare.items()}
        self._waiting.drop(changes)
        self._waiting.add(wanting, fresh=len(wanting) <= _FRESH_ENTRIES and not self._repairing)
        self._fill()

    def _fill(self) -> None:
        if self.embedder is not None and self._waiting:
            # New entries do not wait for refused ones.
            self._backfill.start(retry=self._waiting.why is not None)

    # Filling in vectors

    async def _fill_some(self) -> bool:
        """Embed the next batch; whether more wait. Raises InvalidAnswer if the embedder refuses the whole batch."""
        waiting, embedder = self._waiting, self.embedder
        some = waiting.some(_FILL_ENTRIES)
        if embedder is None or not some:
            return False
        texts = {key: embedded for key, (_, embedded) in some.items() if embedded is not None}
        pick, bare = self._pick, [key for key in some if key not in texts]
        if pick is not None and bare:
            found = await self._in_thread(lambda: pick(bare))
            texts |= {entry.key: entry.embedded for entry in found if entry.hash == some[entry.key][0]}
        every = iter(await each_vector_of(embedder, [text for embedded in texts.values() for text in embedded]))
        made: list[tuple[str, str, Sequence[Floats]]] = []
        refused: dict[str, InvalidAnswer] = {}
        for key, embedded in texts.items():
            vectors: list[Floats] = []
            for vector in islice(every, len(embedded)):
                if isinstance(vector, InvalidAnswer):
                    refused[key] = vector
                else:
                    vectors.append(vector)
            if key not in refused:
                made.append((key, some[key][0], vectors))
        if await self._in_thread(lambda: self._files.vectors.add(made, embedder.identity)):
            waiting.done(some, refused)
        # Else the index has moved to another model, and these wait for that model's vectors.
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


def _usable(by_words: Scored | BaseException, by_vectors: Scored | BaseException) -> tuple[Scored, Scored]:
    """Both halves, with a failed one empty; raises its error if the other half cannot replace it."""
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
    """The result, or the exception."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - returned to the caller
        return error


async def _within(deadline_s: float | None, search: Awaitable[Result]) -> Result:
    """The result of the vector search, or TimeoutError after its share of the deadline."""
    try:
        async with asyncio.timeout(None if deadline_s is None else deadline_s * _SHARE_OF_VECTORS):
            return await search
    except TimeoutError as error:
        raise TimeoutError("the question had no vector in time") from error


Item = TypeVar("Item")


def _portions(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion
