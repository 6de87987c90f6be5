"""The files of an index: the lexical index, and the record of its entries with their vectors.

Both have the same entries. `IndexFiles` opens them, writes them in step, detects damage and replaces damaged files.
Every method blocks; `adapters.index.hybrid` calls them in threads.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from adapters.index.lexical import Lexical, analysis, erase
from adapters.index.merge import Scored
from adapters.index.vectors import Record, Vectors
from fusion.contract import Scope
from fusion.errors import StoreDamaged
from fusion.lib.passages import spoken_passages
from fusion.lib.words import content_hash, spoken

if TYPE_CHECKING:
    from fusion.contract import Embedder, Floats

_log = logging.getLogger(__name__)

Encoded = tuple["Floats", str]
"""the vector of a query, and the identity of its model"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A text of the index with its key and scope. A text that begins with NUL is found by its vector alone.

    ``passages`` are the parts of a long text that have a vector each; without them the text has one vector.
    """

    key: str
    scope: Scope
    text: str
    passages: tuple[str, ...] = ()

    @classmethod
    def of_memory(cls, key: str, scope: Scope, text: str, speaker: str | None) -> Self:
        """The entry of a memory: the words of all of it, and a vector of each passage."""
        said, parts = spoken(text, speaker), spoken_passages(text, speaker)
        return cls(key, scope, said, () if parts == (said,) else parts)

    @property
    def embedded(self) -> tuple[str, ...]:
        """The texts that its vectors are of."""
        return self.passages or (self.text,)

    @property
    def hash(self) -> str:
        """A hash of the text and of what its vectors are of."""
        return content_hash("\0".join((self.text, *self.passages)))


class IndexFiles:
    """The files in one folder. ``vectors`` and ``lexical`` exist once ``open`` has returned.

    ``lexical_is_lost`` says that the words of all entries must be written again, ``rebuilding`` why, while that goes
    on. Without an ``embedder`` there are no vectors to search, and those on disk stay.
    """

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        self._folder = folder
        self._model = None if embedder is None else (embedder.identity, embedder.dimensions)
        self._is_open = False
        self.vectors: Vectors
        self.lexical: Lexical
        self.lexical_is_lost = False
        self.rebuilding: str | None = None

    def switch_to(self, embedder: Embedder) -> None:
        """Switch to the vectors that were built for this model."""
        self.vectors.switch_to(embedder.identity, embedder.dimensions)
        self._model = embedder.identity, embedder.dimensions

    def close(self) -> None:
        if self._is_open:
            self.vectors.close()
            self.lexical.close()

    def open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self.vectors = self._open_vectors()
        except StoreDamaged as error:
            _log.warning("rebuilding the index in %s: %s", self._folder, error)
            self.vectors = self._new_vectors()
        try:
            self.lexical = self._open_lexical(self._folder / "lexical")
        except BaseException:
            self.vectors.close()
            raise
        self._is_open = True

    def damage(self) -> str | None:
        try:
            self.vectors.check()
            self.lexical.check()
        except StoreDamaged as error:
            return str(error)
        if rows := self.vectors.damaged_rows():
            return f"{rows} vectors are not what was written"
        return self.difference()

    def begin_anew(self, fault: str) -> None:
        """Replace damaged files (record, vectors or words) by empty ones; the others are still searched."""
        try:
            self.vectors.check()
            self.vectors.drop_damaged()
        except StoreDamaged:
            scopes = self.vectors.scopes
            self.vectors.close()
            self.vectors = self._new_vectors(scopes)
            with suppress(StoreDamaged):
                self.lexical.check()
                return
        else:
            with suppress(StoreDamaged):
                self.lexical.check()
                if self.difference() is None:
                    return
        self.lose_words(fault)

    def lose_words(self, fault: str) -> None:
        self.rebuilding = fault
        with suppress(StoreDamaged):
            self.lexical.close()
        folder = self._folder / "lexical"
        erase(folder)
        self.lexical = Lexical(folder)
        self.lexical_is_lost = True

    def _open_lexical(self, folder: Path) -> Lexical:
        try:
            lexical = Lexical(folder)
            fault = self.difference(lexical)
        except StoreDamaged as error:
            fault = str(error)
        else:
            if fault is None:
                return lexical
        _log.warning("rebuilding the lexical index in %s: %s", self._folder, fault)
        erase(folder)
        self.lexical_is_lost = True
        return Lexical(folder)

    def _open_vectors(self, scopes: Sequence[tuple[int, Scope]] = ()) -> Vectors:
        identity, dimensions = self._model or (None, 0)
        return Vectors(self._folder / "vectors.sqlite", analysis(), identity, dimensions, scopes)

    def _new_vectors(self, scopes: Sequence[tuple[int, Scope]] = ()) -> Vectors:
        """An empty record with these ``scopes``, to which the tags of the lexical index refer."""
        for path in self._folder.glob("vectors*"):
            path.unlink()
        return self._open_vectors(scopes)

    def difference(self, lexical: Lexical | None = None) -> str | None:
        """Why the lexical index differs from the record, None if it does not. Without its meta.json it opens empty."""
        lexical = lexical or self.lexical
        if not self.vectors.same_analysis:
            return "texts are cut into words in another way now"
        if lexical.size != self.vectors.size:
            return f"it has {lexical.size} entries, not {self.vectors.size}"
        return None

    def write(self, changes: Mapping[str, Entry | None]) -> dict[str, str]:
        """Write entries (None drops one), words before the record. Returns by key the hash of those without a vector.

        If the process dies in between, a changed entry is marked as changing, and an added one is not recorded, so that
        the counts differ: the next open detects both.
        """
        known = self.vectors.known_of(list(changes))
        put = {key: entry for key, entry in changes.items() if entry is not None}
        new = {
            key: Record(self.vectors.tag(entry.scope), entry.hash, len(entry.embedded)) for key, entry in put.items()
        }
        changed = {key: state for key, state in new.items() if self.lexical_is_lost or known.get(key) != state}
        gone = [key for key, entry in changes.items() if entry is None]
        if changed or gone:
            self.vectors.mark_dirty([key for key in (*changed, *gone) if key in known])
            self.lexical.change(((key, state.tag, _words(put[key].text)) for key, state in changed.items()), gone)
            try:
                self.vectors.change(changed, gone)
            except BaseException:
                self.lexical.change((), [key for key in changed if key not in known])
                raise
        if self._model is None:
            return {}
        have = self.vectors.with_vector(put)
        return {key: new[key].hash for key in put if key not in have}

    def by_words(self, text: str, scope: Scope, limit: int) -> Scored:
        tags = self.vectors.tags(scope)
        if tags == []:
            return []
        if self.rebuilding is not None:
            raise StoreDamaged(f"it is being rebuilt: {self.rebuilding}")
        return self.lexical.search(text, tags, limit)

    def by_vectors(self, query: Encoded, scope: Scope, limit: int) -> Scored | None:
        """Keys with cosines; ``None`` if the entries have vectors of another model than the query's by now."""
        vector, identity = query
        return self.vectors.search(vector, self.vectors.tags(scope), limit, identity)


def _words(text: str) -> str:
    return "" if text.startswith("\0") else text
