"""Counts what `fusion ingest` would read in: new files, megabytes and sections.

Nothing is parsed: sections are estimated by headings, or by size where that gives more.
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
from fusion.sources.bookmarks import Bookmarks, is_untouched
from fusion.sources.files import File, Limits, Unreadable, files, opened

SECTION_BYTES = 1_600
"""maximum bytes of a section, as `fusion.lib.chunk` cuts"""
LINE_BYTES = 1_000
"""bytes of a typical line of JSONL or a transcript"""
COUNTED_BYTES = 64_000_000
"""bytes of one file that are searched for headings; the rest is estimated by its size"""


@dataclass(frozen=True, slots=True)
class Bulk:
    """What is new in some paths: files, bytes, and an estimate of sections or lines."""

    files: int = 0
    bytes: int = 0
    sections: int = 0

    def spelt(self) -> str:
        sections = counted(self.sections, "section")
        return f"{counted(self.files, 'new file')} with {self.bytes / 1e6:,.1f} MB, about {sections}"

    def is_more_than(self, bounds: IngestSettings) -> bool:
        return self.sections > bounds.ask_sections or self.bytes > bounds.ask_mb * 1e6


def bulk_of(paths: Sequence[Path], scope: Scope, home: Path | None, limits: Limits) -> Bulk:
    """What is new in these paths, without files that did not change since they were read."""
    marks = Bookmarks(home, scope) if home is not None and home.is_dir() else None
    count = total = sections = 0
    for file in files(paths):
        if not isinstance(file, File) or limits.too_large(file) or _is_known(file, marks):
            continue
        count, total, sections = count + 1, total + file.bytes, sections + _sections(file)
    return Bulk(count, total, sections)


def ask(bulk: Bulk, bounds: IngestSettings, *, yes: bool, as_json: bool) -> None:
    """Asks before a large ingest. Raises BadInput where it cannot ask, Exit after a no."""
    if yes or not bulk.is_more_than(bounds):
        return
    minutes = "the backends need minutes for this, and answer questions meanwhile"
    if as_json or not sys.stdin.isatty():
        raise BadInput(
            f"{bulk.spelt()}: more than [ingest] ask_sections = {bounds.ask_sections:,} or ask_mb = {bounds.ask_mb:g}. "
            "Add --yes to read them in; --dry-run only counts them"
        )
    confirm(f"{bulk.spelt()}: {minutes}. Read them in?")


def _is_known(file: File, marks: Bookmarks | None) -> bool:
    mark = marks.find(str(file.path)) if marks is not None else None
    try:
        return mark is not None and is_untouched(mark, file.path.lstat())
    except OSError:
        return False


def _sections(file: File) -> int:
    """An estimate of the memories in a file."""
    if file.form != "markdown":
        return -(-file.bytes // LINE_BYTES)
    headings = 0
    try:
        with opened(file.path) as stream:
            headings = sum(line.startswith(b"#") for line in stream.read(COUNTED_BYTES).splitlines())
    except Unreadable:
        return 0
    return max(headings, -(-file.bytes // SECTION_BYTES))
