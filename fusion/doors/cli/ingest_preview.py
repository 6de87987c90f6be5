"""What `fusion ingest` is about to take in, before it does: so many files, megabytes and sections that are new.

Nothing is parsed: a section is reckoned by its heading, or by its size where there are fewer headings than that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fusion.contract import Scope
from fusion.doors.cli.confirm import confirm
from fusion.doors.cli.plural import counted
from fusion.errors import BadInput
from fusion.settings import IngestSettings
from fusion.sources.files import File, Limits, Unreadable, files, opened
from fusion.sources.offsets import ReadOffsets, is_untouched

SECTION_BYTES = 1_600
"""of a section at most, as `fusion.lib.chunk` cuts"""
LINE_BYTES = 1_000
"""of a line of JSONL or a transcript, about"""
COUNTED_BYTES = 64_000_000
"""of one file that is looked through for headings; the rest is reckoned by its size"""


@dataclass(frozen=True, slots=True)
class Bulk:
    """What is new in some paths: files, their bytes, and about how many sections or lines they have."""

    files: int = 0
    bytes: int = 0
    sections: int = 0

    def spelt(self) -> str:
        sections = counted(self.sections, "section")
        return f"{counted(self.files, 'new file')} with {self.bytes / 1e6:,.1f} MB, about {sections}"

    def is_more_than(self, bounds: IngestSettings) -> bool:
        return self.sections > bounds.ask_sections or self.bytes > bounds.ask_mb * 1e6


def bulk_of(paths: Sequence[Path], scope: Scope, home: Path | None, limits: Limits) -> Bulk:
    """What is new in these paths; a file that nobody touched since it was read counts nothing."""
    marks = ReadOffsets(home, scope) if home is not None and home.is_dir() else None
    count = total = sections = 0
    for file in files(paths):
        if not isinstance(file, File) or limits.too_large(file) or _is_known(file, marks):
            continue
        count, total, sections = count + 1, total + file.bytes, sections + _sections(file)
    return Bulk(count, total, sections)


def ask(bulk: Bulk, bounds: IngestSettings, *, yes: bool, as_json: bool) -> None:
    """Goes on where that is little, or somebody agrees. Raises BadInput where nobody can be asked, Exit after a no."""
    if yes or not bulk.is_more_than(bounds):
        return
    minutes = "the backends need minutes for so much, and questions are answered meanwhile"
    if as_json or not sys.stdin.isatty():
        raise BadInput(
            f"{bulk.spelt()}: more than [ingest] ask_sections = {bounds.ask_sections:,} or ask_mb = {bounds.ask_mb:g}. "
            "Add --yes to take them in; --dry-run reads and counts them"
        )
    confirm(f"{bulk.spelt()}: {minutes}. Take them in?")


def _is_known(file: File, marks: ReadOffsets | None) -> bool:
    mark = marks.find(str(file.path)) if marks is not None else None
    try:
        return mark is not None and is_untouched(mark, file.path.lstat())
    except OSError:
        return False


def _sections(file: File) -> int:
    """About how many memories a file becomes."""
    if file.form != "markdown":
        return -(-file.bytes // LINE_BYTES)
    headings = 0
    try:
        with opened(file.path) as stream:
            headings = sum(line.startswith(b"#") for line in stream.read(COUNTED_BYTES).splitlines())
    except Unreadable:
        return 0
    return max(headings, -(-file.bytes // SECTION_BYTES))
