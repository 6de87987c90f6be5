"""Harvests files of JSONL with observations that other programs write, such as openclaw-mem and its plugin.

A file that grows is read on from where the last harvest ended; that place is stored in the transaction that stores the
observations before it. A file that was replaced is read anew, which changes nothing, since observations have keys. The
files themselves are never written.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

import orjson

from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.ingest.harvest import BATCH, Batch, Harvested
from fusion.ingest.intake import name_of_file
from fusion.ingest.observe import ObservationIntake, check, is_scoped
from fusion.journal import Journal, observations
from fusion.lib.clock import Clock
from fusion.lib.observation import Observation, observed
from fusion.lib.observation_lines import BadRecord, foreign_observation
from fusion.sources.bookmarks import Bookmark, at_end, at_offset, is_untouched, still_begins
from fusion.sources.files import MAX_UNPACKED_BYTES, File, Lines, Unreadable, files, is_packed, opened, unpacked

MAX_LINE_BYTES = 1 << 20
"""maximum bytes of a line; a longer one is refused"""
GLOBAL = "global"
"""the project of a record that says nothing of whose it is, as openclaw-mem calls its scope"""
BEGINNING = Bookmark(0, 0, "")


class ObservationFiles:
    """Harvests the files below ``paths``, whose observations belong to ``owner``."""

    def __init__(
        self, paths: Sequence[Path], owner: Scope, intake: ObservationIntake, journal: Journal, clock: Clock
    ) -> None:
        self._paths = [path.expanduser() for path in paths]
        self._owner, self._intake, self._journal, self._clock = owner, intake, journal, clock

    async def harvest(self) -> Harvested:
        """Take in what the files have since the last harvest. A file that cannot be read is counted as rejected."""
        found = await asyncio.to_thread(lambda: list(files(self._paths)))
        done = Harvested()
        for file in found:
            if isinstance(file, File) and file.form == "lines":
                done += await self._harvest(file.path)
        return done

    async def _harvest(self, path: Path) -> Harvested:
        source = f"file:{name_of_file(str(path))}"
        mark = _mark_of(await self._journal.read(observations.bookmark_of, source))
        done = Harvested()
        while True:
            batch, following = await asyncio.to_thread(self._read, path, mark)
            if not batch.read:
                return done
            more, _ = await self._intake.enter(batch, source, orjson.dumps(astuple(following)).decode())
            done += more
            if following == mark:
                return done
            mark = following

    def _read(self, path: Path, mark: Bookmark) -> tuple[Batch, Bookmark]:
        """The next lines of a file, and the place after them."""
        batch = self._intake.batch()
        try:
            with opened(path) as file:
                return batch, self._read_open(path, file, mark, batch)
        except Unreadable as reason:
            batch.refuse(path.name, str(reason))
            return batch, mark

    def _read_open(self, path: Path, file: BinaryIO, mark: Bookmark, batch: Batch) -> Bookmark:
        parse = partial(self._parse, file=path.name, now=self._clock())
        if is_packed(file):
            about = os.fstat(file.fileno())
            if is_untouched(mark, about):
                return mark
            lines = Lines(unpacked(file), MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES)
            with suppress(Unreadable):
                for line in lines:
                    _take(batch, f"{path.name}:{lines.number}", line, parse)
            return at_end(about, 0)
        start = mark if still_begins(mark, file.fileno()) else BEGINNING
        file.seek(start.offset)
        lines = Lines(file, MAX_LINE_BYTES, offset=start.offset, number=start.lines)
        for line in _whole(lines):
            _take(batch, f"{path.name}:{lines.number}", line, parse)
            if batch.read == BATCH:
                break
        return replace(at_offset(file.fileno(), lines.offset), lines=lines.number)

    def _parse(self, line: bytes, *, file: str, now: datetime) -> Observation | None:
        new = foreign_observation(line, self._owner, file)
        if not is_scoped(new.scope):
            new = replace(new, scope=replace(new.scope, project=GLOBAL))
        try:
            check(new, "record")
        except BadInput as error:
            raise BadRecord(str(error)) from None
        return observed(new, now, lambda: "").observation


def _whole(lines: Lines) -> Iterator[bytes | None]:
    """The lines that were written to their end; the last one may be under way."""
    for line in lines:
        if line is None or line.endswith(b"\n"):
            yield line


def _take(batch: Batch, where: str, line: bytes | None, parse: partial[Observation | None]) -> None:
    if line is None:
        batch.refuse(where, f"it is longer than {MAX_LINE_BYTES >> 20} MB")
    elif line.strip():
        batch.take(f"file:{where}", line.rstrip(b"\n"), parse)


def _mark_of(place: str | None) -> Bookmark:
    if place is None:
        return BEGINNING
    try:
        return Bookmark(*orjson.loads(place))
    except (ValueError, TypeError):  # written by another version
        return BEGINNING
