"""An append-only log of lines in segments: files of bounded size, of which all but the last are compressed.

A pointer, such as ``000003#17``, names a line by its segment and its number there, from 1 on. It stays valid when the
segment is compressed, and when other lines are blanked: a blanked line keeps its place. What `append` returns is on
the disk.

Files: ``segment-000001.jsonl.zst``, …, ``segment-000003.jsonl`` (the open one), and ``index.json``, which lists them
and can be made again from them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import orjson
import zstandard

from fusion.errors import NotFound, StoreDamaged, StoreFull
from fusion.store.private_files import APPEND_FLAGS, sync, write_atomically

SEGMENT_BYTES = 4_000_000
"""size from which a segment is closed and compressed"""
MAX_SEGMENT_BYTES = 64_000_000
"""maximum size of an unpacked segment, against a file that unpacks to more than any segment has"""
LEVEL = 3
"""of Zstandard: text of tools takes a sixth to a tenth of its size"""
INDEX = "index.json"
LOST = b'{"lost":true}'
"""what is in the place of a line that could not be read when its segment was rewritten"""

_NAME = re.compile(r"segment-(\d{6})\.jsonl(\.zst)?")
_POINTER = re.compile(r"(\d{6})#([1-9]\d{0,8})")


class Place(NamedTuple):
    """The place of a line: the number of its segment, and its own number there, both from 1 on."""

    segment: int
    line: int

    @property
    def pointer(self) -> str:
        return f"{self.segment:06}#{self.line}"

    @classmethod
    def of(cls, pointer: str) -> Place:
        """The place that a pointer names. Raises NotFound for another text."""
        found = cls.parse(pointer)
        if found is None:
            raise NotFound(f"{pointer!r} is no pointer; one is written 000003#17: segment and line")
        return found

    @classmethod
    def parse(cls, pointer: str) -> Place | None:
        """The place that a text is the pointer of, or None."""
        found = _POINTER.fullmatch(pointer)
        return None if found is None else cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as the index lists it. ``sha256`` and ``bytes`` are of the unpacked lines of a packed one."""

    number: int
    lines: int
    bytes: int
    packed: bool = False
    sha256: str = ""


class CutSegment(Exception):
    """A segment that cannot be read to its end; ``line`` is the last one that could."""

    def __init__(self, number: int, line: int, why: str) -> None:
        super().__init__(f"segment {number:06} cannot be read after line {line}: {why}")
        self.number, self.line = number, line


class SegmentLog:
    """The log in one folder, for one process. Its methods block, and may be called from any thread."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._lock = threading.RLock()
        self._packed: dict[int, Segment] = {}
        self._open_number = 0
        self._starts: list[int] = []
        """where each line of the open segment begins, in bytes"""
        self._size = 0

    @classmethod
    def open(cls, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> SegmentLog:
        """Open a log; a folder is made with its first line. Lines that were not acknowledged are cut off."""
        log = cls(folder, segment_bytes)
        if folder.is_dir():
            log._recover()
        return log

    @property
    def end(self) -> Place:
        """The place of the next line."""
        return Place(self._open_number or max(self._packed, default=0) + 1, len(self._starts) + 1)

    def segments(self) -> list[Segment]:
        """All segments, in order."""
        with self._lock:
            opened = Segment(self._open_number, len(self._starts), self._size)
            return [*self._packed.values(), *([opened] if self._open_number else [])]

    def append(self, lines: Sequence[bytes]) -> list[Place]:
        """Append lines, which have no line end in them; on the disk when it returns. Raises StoreFull."""
        with self._lock:
            if not lines:
                return []
            try:
                return self._append(lines)
            except OSError as error:
                self._cut_back()
                raise StoreFull(f"observations cannot be written to {self.folder}: {error.strerror}") from error

    def fill(self, end: Place) -> int:
        """Hold the places of lines that the log had before ``end`` and has no more, so that no other line gets their
        pointers; returns the number of those in the last segment. Raises StoreFull."""
        with self._lock:
            if end.segment > self.end.segment:  # whole segments are missing: the log goes on behind them
                try:
                    if self._open_number:
                        self._pack()
                except OSError as error:
                    raise StoreFull(f"{self.folder} cannot be written to: {error.strerror}") from error
                self._open_number = end.segment
            missing = end.line - self.end.line if end.segment == self.end.segment else 0
            return len(self.append([LOST] * max(0, missing)))

    def _append(self, lines: Sequence[bytes]) -> list[Place]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._open_number and self._size >= self._segment_bytes:
            self._pack()
        if not self._open_number:
            self._open_number = max(self._packed, default=0) + 1
        places: list[Place] = []
        starts: list[int] = []
        size = self._size
        for line in lines:
            places.append(Place(self._open_number, len(self._starts) + len(starts) + 1))
            starts.append(size)
            size += len(line) + 1
        file = self._raw(self._open_number)
        fresh = not file.exists()
        descriptor = os.open(file, APPEND_FLAGS, 0o600)
        try:
            data = b"".join(line + b"\n" for line in lines)
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fresh:
            sync(self.folder)
        self._starts += starts
        self._size = size
        return places

    def _cut_back(self) -> None:
        """Remove what a failed append has left, which nobody was told is kept."""
        with suppress(OSError):
            if self._open_number and self._raw(self._open_number).exists():
                os.truncate(self._raw(self._open_number), self._size)

    def read(self, pointer: str) -> bytes:
        """The line that a pointer names. Raises NotFound, and StoreDamaged for a segment that cannot be read so far."""
        place = Place.of(pointer)
        with self._lock:
            try:
                for found, line in self._lines(place.segment, place.line):
                    if found == place:
                        return line
            except CutSegment as error:
                raise StoreDamaged(f"{error}; restore {self.folder} from a backup") from None
        raise NotFound(f"there is no line {pointer}")

    def lines_from(self, place: Place) -> Iterator[tuple[Place, bytes]]:
        """The lines from a place on, in order. Raises CutSegment at the end of a segment that is cut."""
        for segment in self.segments():
            if segment.number >= place.segment:
                yield from self.lines_of(segment.number, place.line if segment.number == place.segment else 1)

    def lines_of(self, number: int, first: int = 1) -> Iterator[tuple[Place, bytes]]:
        """The lines of one segment, in order. Raises CutSegment at its end if it is cut."""
        with self._lock:
            found = [*self._lines(number, first)] if not self._is_packed(number) else None
        yield from found if found is not None else self._lines(number, first)

    def rewrite(self, lines: Mapping[Place, bytes]) -> int:
        """Put other lines in the place of some; the number of those that there were. All others keep their places.

        What cannot be read of a segment that is cut is blank from then on. Raises StoreFull.
        """
        by_segment: dict[int, dict[int, bytes]] = {}
        for place, line in lines.items():
            by_segment.setdefault(place.segment, {})[place.line] = line
        with self._lock:
            try:
                return sum(self._rewrite(number, wanted) for number, wanted in sorted(by_segment.items()))
            except OSError as error:
                raise StoreFull(f"{self.folder} cannot be written to: {error.strerror}") from error

    def _rewrite(self, number: int, wanted: Mapping[int, bytes]) -> int:
        lines: list[bytes] = []
        try:
            lines.extend(line for _, line in self._lines(number, 1))
        except CutSegment:
            lines += [LOST] * (self._packed[number].lines - len(lines))
        found = [line for line in wanted if line <= len(lines) and lines[line - 1] != wanted[line]]
        for line in found:
            lines[line - 1] = wanted[line]
        content = b"".join(line + b"\n" for line in lines)
        if found and self._is_packed(number):
            self._write_packed(number, content, len(lines))
            self._write_index()
        elif found:
            write_atomically(self._raw(number), content, check=sync)
            sync(self.folder)
            self._count_open(number)
        return len(found)

    # Files

    def _raw(self, number: int) -> Path:
        return self.folder / f"segment-{number:06}.jsonl"

    def _zst(self, number: int) -> Path:
        return self.folder / f"segment-{number:06}.jsonl.zst"

    def _is_packed(self, number: int) -> bool:
        return number in self._packed

    def _lines(self, number: int, first: int) -> Iterator[tuple[Place, bytes]]:
        """The lines of one segment from a number on."""
        if self._is_packed(number):
            content, why = _unpacked(self._zst(number))
            expected = self._packed[number].lines
            every = content.split(b"\n")[:-1]  # a line that was cut has no end
            why = why or ("" if len(every) >= expected else "lines are missing")
            for index, line in enumerate(every[first - 1 :], start=first):
                yield Place(number, index), line
            if why:
                raise CutSegment(number, len(every), why)
        elif number == self._open_number and first <= len(self._starts):
            with self._raw(number).open("rb") as file:
                file.seek(self._starts[first - 1])
                content = file.read(self._size - self._starts[first - 1])
            for index, line in enumerate(content.split(b"\n")[:-1], start=first):
                yield Place(number, index), line

    def _pack(self) -> None:
        """Close the open segment and compress it. The plain file goes once the packed one is on the disk."""
        number = self._open_number
        self._write_packed(number, self._raw(number).read_bytes(), len(self._starts))
        self._raw(number).unlink()
        self._open_number, self._starts, self._size = 0, [], 0
        self._write_index()

    def _write_packed(self, number: int, content: bytes, lines: int) -> None:
        packed = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True, write_checksum=True).compress(content)
        write_atomically(self._zst(number), packed, check=sync)
        sync(self.folder)
        self._packed[number] = Segment(number, lines, len(content), True, sha256(content).hexdigest())

    def _write_index(self) -> None:
        listed = {"segments": [asdict(one) for one in self._packed.values()]}
        write_atomically(self.folder / INDEX, orjson.dumps(listed, option=orjson.OPT_INDENT_2))

    def _recover(self) -> None:
        """Find the segments, cut off a line that was being written, and compress what should have been."""
        indexed = self._index()
        names = (_NAME.fullmatch(file.name) for file in self.folder.iterdir())
        numbers = sorted({int(name[1]) for name in names if name is not None})
        for number in numbers:
            if self._zst(number).exists():
                self._packed[number] = indexed.get(number) or _counted(number, self._zst(number))
                self._raw(number).unlink(missing_ok=True)  # the process ended between the two steps of `_pack`
            else:
                self._count_open(number)
                if number != numbers[-1]:
                    self._pack()
        if self._packed != indexed:
            self._write_index()

    def _index(self) -> Mapping[int, Segment]:
        try:
            listed = orjson.loads((self.folder / INDEX).read_bytes())["segments"]
            return {one["number"]: Segment(**one) for one in listed}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _count_open(self, number: int) -> None:
        content = self._raw(number).read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self._raw(number), whole)
        lines = content[:whole].split(b"\n")[:-1]
        self._open_number, self._starts, at = number, [], 0
        for line in lines:
            self._starts.append(at)
            at += len(line) + 1
        self._size = at


def _unpacked(file: Path) -> tuple[bytes, str]:
    """The content of a packed segment as far as it can be read, and why not to its end."""
    try:
        packed = file.read_bytes()
    except OSError as error:
        return b"", error.strerror or "it cannot be read"
    try:
        size = zstandard.frame_content_size(packed)
        if size > MAX_SEGMENT_BYTES:
            return b"", f"it unpacks to more than {MAX_SEGMENT_BYTES:,} bytes"
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_SEGMENT_BYTES), ""
    except zstandard.ZstdError as error:
        why = str(error)
    content = b""
    with suppress(zstandard.ZstdError), zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        while len(content) < MAX_SEGMENT_BYTES and (more := reader.read(1 << 16)):
            content += more
    return content, why


def _counted(number: int, file: Path) -> Segment:
    """A packed segment that the index does not list."""
    content, _ = _unpacked(file)
    return Segment(number, content.count(b"\n"), len(content), True, sha256(content).hexdigest())
