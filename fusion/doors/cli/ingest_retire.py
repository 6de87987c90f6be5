"""Retires sections that Markdown files no longer have, once the files were read as a whole.

A file that could not be read, or was read in part, retires nothing. Neither does a folder without files, because a
disk that is not mounted looks like that.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from fusion.doors.memory_batches import BATCH_BYTES
from fusion.journal.retire import MAX_KEPT
from fusion.lib.batched import batched
from fusion.sources.files import is_there

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.contract import Scope
    from fusion.sources.bookmarks import Bookmark, Bookmarks

PAGE = 1000


class WholeFiles:
    """Files that were read to their end, with the revisions of their sections."""

    def __init__(self) -> None:
        self._kept: dict[str, Sequence[str]] = {}
        self._marks: dict[str, Bookmark] = {}

    def __call__(self, source: str, revisions: Sequence[str], mark: Bookmark | None) -> None:
        self._kept[source] = revisions
        if mark is not None:
            self._marks[source.removeprefix("file:")] = mark

    def mark(self, bookmarks: Bookmarks) -> None:
        """Bookmarks these files, so that a server that follows them does not read them again."""
        for name, mark in self._marks.items():
            bookmarks.set(name, mark)

    async def retire(
        self,
        client: AsyncClient,
        paths: Sequence[Path],
        scope: Scope,
        *,
        dry_run: bool = False,
        reader: str | None = None,
    ) -> int:
        """Retires what these files no longer have, and what files had that are gone from folders in ``paths``.

        Without the key ``reader`` it only does dry runs, because what was sent without the key are claims. Returns the
        number of memories. Call it when all that was read has been sent.
        """
        if reader is None and not dry_run:
            return 0
        owner: Mapping[str, str] = {str(dimension): value for dimension, value in scope.named().items()}
        gone = [source async for source in self._gone(client, paths, owner)]
        retired = 0
        kept = {**self._kept, **dict.fromkeys(gone, ())}
        files = (part for source, revisions in kept.items() for part in _parts(source, sorted(set(revisions))))
        for batch in batched(files, lambda file: len(orjson.dumps(file)) + 1, most=MAX_KEPT, most_bytes=BATCH_BYTES):
            retired += (await client.retire(batch, dry_run=dry_run, reader=reader, **owner))["retired"]
        return retired

    async def _gone(self, client: AsyncClient, paths: Sequence[Path], owner: Mapping[str, str]) -> AsyncIterator[str]:
        """The sources of memories whose files are gone from these folders."""
        for folder in {path.resolve() for path in paths}:
            prefix = f"file:{folder}{os.sep}"
            if not folder.is_dir() or not any(source.startswith(prefix) for source in self._kept):
                continue
            after: str | None = None
            while True:
                page = (await client.sources(prefix=prefix, after=after, limit=PAGE, **owner))["sources"]
                for row in page:
                    if row["source"] not in self._kept and not is_there(Path(row["source"].removeprefix("file:"))):
                        yield row["source"]
                if len(page) < PAGE:
                    break
                after = page[-1]["source"]


def _parts(source: str, revisions: Sequence[str], part: str = "") -> Iterator[dict[str, Any]]:
    """A file in one, or, where it has too many pieces for that, by the first digits of their revisions."""
    if len(revisions) <= MAX_KEPT:
        yield {"source": source, "keep": list(revisions), "part": part}
        return
    for digit in "0123456789abcdef":
        begins = part + digit
        yield from _parts(source, [one for one in revisions if one.startswith(begins)], begins)
