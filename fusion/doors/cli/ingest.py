"""`fusion ingest`: sends the memories of files to the gateway in batches, with a bar. Idempotent.

Each memory has a natural key (its source, place and revision), so an interrupted run goes on when it is run again.
Bookmarks in the home record how far growing files were read, so that nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from fusion.doors.cli.ingest_retire import WholeFiles
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bars, on_stderr, spoken_in_lines
from fusion.doors.memory_batches import batches, check_version, wire_form
from fusion.errors import BadInput, NotFound, Overloaded, ServerUnreachable, StoreBusy
from fusion.lib.clean import clean
from fusion.sources.bookmarks import Bookmarks
from fusion.sources.files import DEFAULT_LIMITS, File, Limits, Skip
from fusion.sources.ingest_lock import lock_for_command
from fusion.sources.readers import read, size
from fusion.trust import make_home
from fusion.trust.token import reader_key

if TYPE_CHECKING:
    from rich.progress import Progress

    from fusion.client import AsyncClient
    from fusion.contract import Scope
    from fusion.ingest.intake import NewMemory

LOOK_S = 2.0
"""seconds between two questions about the progress of the backends"""
SAY_S = 5.0
"""seconds between two lines of progress where there is no terminal"""
FIRST_S = 2.0
"""seconds before the first line of progress"""
ATTEMPTS = 8
"""attempts to send one batch to a busy server"""


ADDED = ("stored", "superseded")


def new_batch() -> str:
    """An id for one run: the time of its start and four random digits."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class Skipped(TypedDict):
    """Memories that were not stored, or are kept apart, for one reason; ``first`` is the place of the first."""

    reason: str
    count: int
    first: str


class Summary(TypedDict):
    """The outcome of an ingest; ``settled`` is None if it did not wait for the backends.

    ``read`` and ``duplicates`` include memories that, by a bookmark, an earlier run sent.
    """

    read: int
    stored: int
    superseded: int
    duplicates: int
    redacted: int
    skipped: list[Skipped]
    rejected: int
    """lines of JSONL that are no memory, and memories that the gateway refused: all in ``skipped``, too"""
    retired: int | None
    """memories that files no longer have; None if no server ran to count them for a dry run"""
    settled: bool | None
    dry_run: bool
    changed: int
    """memories whose text was changed: something was masked, replaced or left out"""
    split: int
    """texts that were too long for one memory and are stored in pieces"""
    apart: list[Skipped]
    """new memories that are kept apart from the conversation or file that they name"""
    not_read: dict[str, int]
    """files in these folders that are not read, by extension"""
    batch: str | None
    """the id for `fusion undo`; None if nothing was added"""


class Tally:
    """Counts the outcomes of the memories of one ingest, and the first place for each reason."""

    def __init__(self) -> None:
        self.batch = new_batch()
        self.not_read: Counter[str] = Counter()
        self.changed = 0
        self.split = 0
        self.rejected = 0
        self.last = ""
        """place of the last memory that was sent"""
        self.read = 0
        self.known = 0
        self.retired: int | None = None
        self.became: Counter[str] = Counter()
        self._skipped: dict[str, Skipped] = {}
        self._apart: dict[str, Skipped] = {}

    def split_up(self, memory: NewMemory) -> None:
        """Counts a text that was too long for one memory."""
        self.split += 1

    def skip(self, where: str, reason: str) -> None:
        _count(self._skipped, where, reason)

    def take(self, memory: NewMemory, row: Mapping[str, Any]) -> None:
        """Counts the gateway's answer for one memory."""
        self.became[row["status"]] += 1
        self.became["redacted"] += row["redacted"]
        self.last = place_of(memory)
        if row["status"] in ADDED and row.get("claimed"):
            _count(self._apart, place_of(memory), row["reason"])
        elif row["status"] in ADDED:
            self.changed += bool(row.get("reason"))
        if row["status"] == "blocked":
            self.skip(place_of(memory), "forgotten before; `fusion remember` brings it back")
        elif row["status"] in ("skipped", "refused"):
            self.rejected += row["status"] == "refused"
            self.skip(place_of(memory), row["reason"])

    def summary(self, *, dry_run: bool, settled: bool | None) -> Summary:
        return {
            "read": self.read + self.known,
            "stored": self.became["stored"],
            "superseded": self.became["superseded"],
            "duplicates": self.became["duplicate"] + self.known,
            "redacted": self.became["redacted"],
            "skipped": _most_first(self._skipped),
            "rejected": self.rejected,
            "retired": self.retired,
            "settled": settled,
            "dry_run": dry_run,
            "changed": self.changed,
            "split": self.split,
            "apart": _most_first(self._apart),
            "not_read": dict(self.not_read.most_common()),
            "batch": self.batch if self.added else None,
        }

    @property
    def added(self) -> int:
        """How many memories are new."""
        return sum(self.became[status] for status in ADDED)


def _count(rows: dict[str, Skipped], where: str, reason: str) -> None:
    rows.setdefault(reason, {"reason": reason, "count": 0, "first": where})["count"] += 1


def _most_first(rows: Mapping[str, Skipped]) -> list[Skipped]:
    return sorted(rows.values(), key=lambda row: -row["count"])


async def ingest(
    paths: Sequence[Path],
    scope: Scope,
    gateway: AbstractAsyncContextManager[AsyncClient] | None,
    *,
    wait: bool = True,
    patience_s: float = math.inf,
    quiet: bool = False,
    home: Path | None = None,
    looking: AbstractAsyncContextManager[AsyncClient] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    interrupted: Callable[[Tally], None] = lambda tally: None,
) -> Summary:
    """Stores the memories of ``paths``; without a ``gateway`` it only reads and counts. Bookmarks are in ``home``.

    Sections that Markdown files no longer have are retired; for a dry run, ``looking`` counts them if it answers.

    With ``wait`` it returns when the backends have everything, or after ``patience_s`` more seconds; delivery goes on.
    If it is cancelled, it reports its progress to ``interrupted``.
    """
    if gateway is not None:
        # Before the server starts: it must not be the first to read what it follows.
        async with reading_into(home) as done, gateway as client:
            tally = Tally()
            try:
                return await send(
                    client,
                    paths,
                    scope,
                    wait=wait,
                    patience_s=patience_s,
                    quiet=quiet,
                    home=home,
                    done=done,
                    limits=limits,
                    tally=tally,
                )
            except asyncio.CancelledError:
                interrupted(tally)
                raise
    tally, whole = Tally(), WholeFiles()
    with bars(quiet) as shown:
        progress = await _reading(shown, paths, lambda: 0)
        for _ in _memories(paths, scope, progress, whole, tally, limits=limits):
            pass
    if looking is not None:
        with suppress(ServerUnreachable):
            async with looking as client:
                tally.retired = await whole.retire(client, paths, scope, dry_run=True)
    return tally.summary(dry_run=True, settled=None)


async def send(
    client: AsyncClient,
    paths: Sequence[Path],
    scope: Scope,
    *,
    wait: bool = True,
    patience_s: float = math.inf,
    quiet: bool = False,
    home: Path | None = None,
    only: Collection[Path] | None = None,
    done: Callable[[], None] = lambda: None,
    limits: Limits = DEFAULT_LIMITS,
    tally: Tally | None = None,
) -> Summary:
    """One round: stores what is new in ``paths``, or in ``only`` some of their files.

    ``done`` is called when everything was read and acknowledged, before the wait for the backends.
    """
    tally = tally or Tally()
    settled: bool | None = None
    bookmarks = Bookmarks(home, scope) if home is not None else None
    reader = reader_key(home) if home is not None else None
    whole = WholeFiles()
    refused = False
    with bars(quiet) as shown:
        progress = await _reading(shown, paths, lambda: tally.added)
        memories = _memories(paths, scope, progress, whole, tally, limits=limits, bookmarks=bookmarks, only=only)
        for batch in batches(memories):
            for memory, row in zip(batch, await _send(client, batch, tally.batch, reader), strict=True):
                tally.take(memory, row)
                refused = refused or row["status"] == "refused"
            progress.say(tally.read, tally.last)
            if bookmarks is not None and not refused:  # what is refused now may be accepted later
                bookmarks.commit()
        if bookmarks is not None:
            tally.known = bookmarks.known
            if not refused:
                bookmarks.commit()
        tally.retired = await whole.retire(client, paths, scope, reader=reader)
        if bookmarks is not None and not refused:
            whole.mark(bookmarks)
            bookmarks.commit()
        done()
        if wait:
            settled = await _settle(client, shown, patience_s)
    return tally.summary(dry_run=False, settled=settled)


@asynccontextmanager
async def reading_into(home: Path | None) -> AsyncIterator[Callable[[], None]]:
    """Makes a home that does not exist yet, and takes its lock (`lock_for_command`).

    Otherwise the server would make it at the first request, which needs the key of the home's readers: without that
    key all that is read would be stored as claims.
    """
    if home is not None and not home.is_dir():
        make_home(home)
    async with lock_for_command(home) as done:
        yield done


class Reading:
    """Progress of reading: a bar on a terminal, elsewhere a line every few seconds. Call it with the bytes read."""

    def __init__(
        self,
        shown: Progress,
        total: int,
        added: Callable[[], int],
        *,
        say: Callable[[str], None] = on_stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shown, self._total, self._added = shown, total, added
        self._say, self._clock = say, clock
        self._bar = shown.add_task("reading", total=total)
        self._bytes = 0
        self._began = clock()
        self._next = self._began + FIRST_S

    def __call__(self, count: int) -> None:
        self._bytes += count
        self._shown.advance(self._bar, count)

    def say(self, read: int, where: str) -> None:
        """Prints a line, where there is no bar and the last line is some seconds old."""
        if (now := self._due()) is None:
            return
        share = f"{min(100, 100 * self._bytes // self._total)} % of {self._total / 1e6:,.1f} MB" if self._total else ""
        rate = read / max(now - self._began, 0.001)
        line = (
            f"ingest: {counted(read, 'memory')} read, {self._added():,} new, {rate:,.0f} a second, {share}, at {where}"
        )
        self._say(clean(line)[0])

    def cutting(self, file: File, share: float) -> None:
        """Prints the progress of cutting a large note, which can be sent only after that."""
        if spoken_in_lines(self._shown) and self._due() is not None:
            self._say(clean(f"ingest: cutting {file.document}, {share:.0%} of its {file.bytes / 1e6:,.1f} MB")[0])

    def _due(self) -> float | None:
        """The time, if a line is due: there is no bar, and the last line is some seconds old; else None."""
        now = self._clock()
        if not spoken_in_lines(self._shown) or now < self._next:
            return None
        self._next = now + SAY_S
        return now


async def _reading(shown: Progress, paths: Sequence[Path], added: Callable[[], int]) -> Reading:
    return Reading(shown, await asyncio.to_thread(size, paths), added)


def _memories(
    paths: Sequence[Path], scope: Scope, progress: Reading, whole: WholeFiles, tally: Tally, **options: Any
) -> Iterator[NewMemory]:
    """The memories of the files. Shows progress, and counts everything that is not read."""
    counters: dict[str, Any] = {"passed": tally.not_read, "split_up": tally.split_up, "on_complete": whole}
    for item in read(paths, scope, progress=progress, cutting=progress.cutting, **counters, **options):
        if isinstance(item, Skip):
            tally.skip(item.where, item.reason)
            tally.rejected += item.rejected
        else:
            tally.read += 1
            yield item


async def _send(
    client: AsyncClient, batch: Sequence[NewMemory], run: str, reader: str | None
) -> list[Mapping[str, Any]]:
    """The gateway's answer for each memory of a batch; ``reader`` is the key of the home's readers.

    A busy server gets the batch again when it asks for that, which is safe because keys are natural. A refused batch is
    halved until the refused memory is alone, which is then skipped.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            sent = [wire_form(memory) for memory in batch]
            return list((await client.remember(sent, batch=run, reader=reader))["memories"])
        except (Overloaded, StoreBusy) as busy:
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(busy.retry_after_s)
        except (BadInput, NotFound) as error:  # not found: what it supersedes
            check_version(error)
            if len(batch) == 1:
                refused: dict[str, Any] = {"status": "refused", "redacted": 0, "reason": f"refused: {error}"}
                return [refused]
            half = len(batch) // 2
            first = await _send(client, batch[:half], run, reader)
            return first + await _send(client, batch[half:], run, reader)
    raise AssertionError("the last attempt returns or raises")


async def _settle(client: AsyncClient, bars: Progress, patience_s: float) -> bool:
    """Waits until every backend has everything and all vectors, or for ``patience_s``; the bar shows what is left."""
    until = time.monotonic() + patience_s
    bar = bars.add_task("delivering, filling vectors", total=None)
    most = 0
    said = time.monotonic()
    while True:
        reply = await client.settle(LOOK_S)
        left = sum(state["backlog"] + state["vectors_pending"] for state in reply["backends"])
        most = max(most, left)
        bars.update(bar, total=max(most, 1), completed=max(most, 1) - left)
        if spoken_in_lines(bars) and time.monotonic() - said >= SAY_S:
            said = time.monotonic()
            on_stderr(f"ingest: all is stored; {left:,} deliveries and vectors are left")
        if reply["settled"]:
            bars.update(bar, completed=max(most, 1))
            return True
        if time.monotonic() > until:
            return False


def place_of(memory: NewMemory) -> str:
    """The place or source of a memory, for a report."""
    return f"{memory.place.document}:{memory.place.start}" if memory.place else memory.source or "(no source)"
