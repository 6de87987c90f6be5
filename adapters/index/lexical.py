"""Lexical search: BM25 over stemmed words, in a tantivy index on disk.

S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. Only
`fusion.lib.words` splits texts into words; tantivy gets terms, never text, and its query parser is never used: it reads
`*` as everything and `tag:3 OR x` as another user's memories.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar
from unicodedata import normalize

import tantivy
from tantivy import Document, Occur, Query, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

from adapters.index.expansion import keywords
from fusion.errors import StoreBusy, StoreDamaged, StoreFull
from fusion.lib.text_cache import text_cache
from fusion.lib.words import STOP_WORDS, content_hash, stems
from fusion.store.read_ahead import read_files_ahead
from fusion.store.seal import Seal

Result = TypeVar("Result")
_WRITER_BYTES = 15_000_000
# Little: more would only mean fewer, larger segments while a store is first filled, and four backends hold one each.
_LONGEST_TERM = 128
# Characters: a sha256 and most addresses are found whole; longer strings are no words that users type.
_META = "meta.json"
_SPARE = 32
_MOST_TIES = 1024
# Documents that are read to choose among equal scores: fifty thousand edges of one hub must not cost 50 ms.
_REMEMBERED_KEYS = 8192
# Of documents that were found, until something is written: about 200 bytes each.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
# The scripts that `stems` cuts into pairs. Documents have their single characters too, in a field of their own, so that
# a query of one character finds what pairs cannot.
_CAMEL = re.compile(r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*|[A-Z]{2,}[a-z]{2}[A-Za-z0-9]*)")
# Looked for at the beginning of a word only: a hash of 60,000 letters would else be read again from each of them.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FUZZY_FROM = 6
# Letters of a term that may be misspelt: of fewer, too many are one letter away ("Marta" is from "Maria").
_PROBE = "Foxes jumped over naïve user_ids, getUserById: 東京タワー, 한국어, สวัสดี, हिन्दी, الكِتاب, 🚀, 3.14"


def terms(text: str) -> list[str]:
    """The terms of a text, with repeats. Parts of ``snake_case`` and ``camelCase`` names are words, and so is a
    name in ``camelCase`` as a whole."""
    plain = (text if text.isascii() else normalize("NFKC", text)).replace("_", " ")
    humps = [part for name in _CAMEL.findall(plain) for part in _HUMP.split(name)]
    return [term for term in stems(" ".join([plain, *humps])) if len(term) <= _LONGEST_TERM]


def analysis() -> str:
    """A hash of the analysis of texts into terms; an index with another one must be written again."""
    return content_hash(" ".join([*sorted(STOP_WORDS), *terms(_PROBE)]))


@text_cache(64)
def query_terms(text: str) -> tuple[str, ...]:
    """The terms of a query: those of its keywords, and the names whose camelCase parts keywords do not have.

    Cached, because several indexes get the same query at once.
    """
    return tuple(terms(" ".join([*keywords(text), *_CAMEL.findall(text.replace("_", " "))])))


def characters(text: str) -> list[str]:
    """The characters of scripts without spaces, each by itself: a question of one character finds no pair."""
    return [] if text.isascii() else _UNSPACED.findall(text)


class Lexical:
    """One tantivy index. Raises ``StoreDamaged`` if a file differs from what was written.

    ``search`` may be called from several threads at once, ``change`` from one at a time.
    """

    common: ClassVar[int] = 20_000
    """documents above which a term is common: it only scores what other terms find, and is searched alone only if
    these find nothing. Else it would add thousands of documents of nearly the same score. This is Lucene's
    CommonTermsQuery."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seal = Seal(folder.with_name(f"{folder.name}.seal"))
        self._writer: Any = None
        self._writing = Lock()
        _guarded(self._open)

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(self._folder)
        if not self._seal.take(_segment_files(self._folder)):
            _check_files(self._folder)
        read_files_ahead(_segment_files(self._folder))
        self._index = tantivy.Index(_schema(), path=str(self._folder), reuse=True)
        self._index.register_tokenizer("terms", TextAnalyzerBuilder(Tokenizer.whitespace()).build())
        self._index.config_reader("manual")
        self._look_again()

    def _look_again(self) -> None:
        """Make the committed documents visible to searches."""
        self._index.reload()
        self._seen: tuple[Any, dict[tuple[int, int], str]] = self._index.searcher(), {}

    @property
    def size(self) -> int:
        """The number of documents that a search sees."""
        return int(_guarded(lambda: self._index.searcher().num_docs))

    def check(self) -> None:
        """Raises ``StoreDamaged`` if a file differs from what was written. Nothing may be written during the check."""

        def look() -> None:
            if not (self._folder / "meta.json").exists():
                raise StoreDamaged(f"{self._folder} has no meta.json")
            _check_files(self._folder)
            # Opened again: a process that has a deleted file open still reads it.
            if tantivy.Index(_schema(), path=str(self._folder), reuse=True).searcher().num_docs != self.size:
                raise StoreDamaged(f"{self._folder} is not what was written")

        _guarded(look)

    def change(self, put: Iterable[tuple[str, int, str]], drop: Iterable[str]) -> None:
        """Put (key, tag, text), replacing the key's former text, and drop keys; durable and searchable when it returns.

        All or nothing: after an error the index is unchanged.
        """

        def write() -> None:
            if self._writer is None:
                self._writer = self._index.writer(heap_size=_WRITER_BYTES, num_threads=1)
            for key in drop:
                self._writer.delete_documents_by_term("key", key)
            for key, tag, text in put:
                self._writer.delete_documents_by_term("key", key)
                self._writer.add_document(_document(key, tag, text))
            self._writer.commit()
            self._look_again()

        with self._writing:
            try:
                _guarded(write)
            except BaseException:
                if self._writer is not None:
                    _guarded(self._writer.rollback)
                raise

    def settle(self) -> None:
        """Wait until tantivy's background merges are done: until then scores still count some deleted texts, so they
        depend on the time of the query."""
        with self._writing:
            if self._writer is not None:
                self._finish()
                _guarded(self._look_again)

    def search(self, text: str, tags: Sequence[int] | None, limit: int) -> list[tuple[str, float]]:
        """The best ``limit`` keys with their BM25 scores, among these tags (``None``: all). Equal scores: by key."""

        def look() -> list[tuple[str, float]]:
            found = (self._search(query, limit) for query in self._queries(text, tags)) if limit > 0 else ()
            return next((some for some in found if some), [])

        return _guarded(look)

    def _search(self, query: Query, limit: int) -> list[tuple[str, float]]:
        searcher, keys = self._seen
        if len(keys) > _REMEMBERED_KEYS:
            keys.clear()

        def key_of(address: Any) -> str:
            place = address.segment_ord, address.doc
            if (key := keys.get(place)) is None:
                key = keys[place] = str(searcher.doc(address).get_first("key"))
            return key

        want = limit + _SPARE
        while True:
            hits = searcher.search(query, want, count=False).hits
            # tantivy breaks ties by the position of documents, so all equals at the edge must be read to choose by key.
            if len(hits) < want or _rounded(hits[-1][0]) < _rounded(hits[limit - 1][0]) or want >= _MOST_TIES:
                break
            want = max(want, _MOST_TIES)
        # Documents are read from disk one by one: none of those that are below the edge.
        edge = _rounded(hits[:limit][-1][0]) if hits else 0.0
        scored = [(_rounded(score), address) for score, address in hits]
        found = [(key_of(address), score) for score, address in scored if score >= edge]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _queries(self, text: str, tags: Sequence[int] | None) -> Iterator[Query]:
        """The query, and the fallback query for when it finds nothing."""
        words = dict.fromkeys(query_terms(text))
        searcher, _ = self._seen
        rare: list[Query] = []
        common: list[Query] = []
        for word in words:
            field = "characters" if _UNSPACED.fullmatch(word) else "terms"
            having = searcher.doc_freq(field, word)
            (common if having > self.common else rare).append(self._term(field, word, having))
        if rare and common:
            found = (Occur.Must, _any_of(rare))
            yield self._within(Query.boolean_query([found, *((Occur.Should, term) for term in common)]), tags)
        if words:
            yield self._within(_any_of([*rare, *common]), tags)

    def _within(self, matches: Query, tags: Sequence[int] | None) -> Query:
        if tags is None:
            return matches
        within = Query.term_set_query(self._index.schema, "tag", [str(tag) for tag in tags])
        return Query.boolean_query([(Occur.Must, matches), (Occur.Must, Query.const_score_query(within, 0.0))])

    def _term(self, field: str, word: str, having: int) -> Query:
        """The query of a term; for a term that no text has, all terms within an edit distance of 1."""
        if not having and len(word) >= _FUZZY_FROM and word.isalpha():
            return Query.fuzzy_term_query(self._index.schema, field, word)
        return Query.term_query(self._index.schema, field, word)

    def close(self) -> None:
        """Wait for merges, and seal the files."""
        self._finish()
        self._seal.put(_segment_files(self._folder))

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            _guarded(writer.wait_merging_threads)


def _any_of(terms: Sequence[Query]) -> Query:
    return Query.boolean_query([(Occur.Should, term) for term in terms])


def erase(folder: Path) -> None:
    """Deletes an index, so that the next ``Lexical`` there begins empty."""
    shutil.rmtree(folder, ignore_errors=True)


def _schema() -> tantivy.Schema:
    builder = SchemaBuilder()
    builder.add_text_field("key", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("tag", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("terms", tokenizer_name="terms", index_option="freq")
    builder.add_text_field("characters", tokenizer_name="terms", index_option="freq")
    return builder.build()


def _document(key: str, tag: int, text: str) -> Document:
    fields = {"key": key, "tag": str(tag), "terms": " ".join(terms(text))}
    if single := characters(text):
        fields["characters"] = " ".join(single)
    return Document(**fields)


def _rounded(score: float) -> float:
    """Round, so that equal scores are equal numbers in every order of summation."""
    return round(score, 5)


def _sweep(folder: Path) -> None:
    """Removes lists of deleted documents that no commit names: a process was killed before its commit.

    tantivy leaves them, and fails with FileAlreadyExists when, days later, a commit wants the same name.
    """
    meta = folder / "meta.json"
    if not meta.exists():
        return
    named = {
        f"{entry['segment_id'].replace('-', '')}.{(entry['deletes'] or {}).get('opstamp')}.del"
        for entry in json.loads(meta.read_bytes())["segments"]
    }
    for path in folder.glob("*.del"):
        if path.name not in named:
            path.unlink()


def _segment_files(folder: Path) -> list[Path]:
    """The files of the index's segments, and its list of these."""
    meta = folder / _META
    if not meta.exists():
        return []
    segments = {entry["segment_id"].replace("-", "") for entry in json.loads(meta.read_bytes())["segments"]}
    return [meta, *sorted(path for path in folder.iterdir() if path.name.split(".")[0] in segments)]


def _check_files(folder: Path) -> None:
    """Compares each segment file with the checksum in its footer, which tantivy writes but does not read on opening.

    A footer ends in its own length and 1337, both 32-bit little-endian. A file without one is left to tantivy.
    """
    for path in _segment_files(folder):
        if path.name == _META:
            continue
        content = path.read_bytes()
        if len(content) < 8:
            raise StoreDamaged(f"{path} is cut off")
        length, magic = struct.unpack("<II", content[-8:])
        if magic == 1337 and zlib.crc32(content[: -8 - length]) != json.loads(content[-8 - length : -8])["crc"]:
            raise StoreDamaged(f"{path} is not what was written")


def _guarded(work: Callable[[], Result]) -> Result:
    """Translate tantivy's errors into `fusion.errors`; a panic in its Rust code is not an ``Exception``."""
    try:
        return work()
    except (StoreDamaged, UnicodeError):
        raise
    except (ValueError, KeyError, TypeError, OSError, struct.error) as error:
        if "LockBusy" in str(error):
            raise StoreBusy("another process writes to this lexical index") from error
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            raise StoreFull(f"no space left for the lexical index: {error}") from error
        raise StoreDamaged(f"the lexical index does not work: {error}") from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise StoreDamaged(f"the lexical index does not work: {error}") from error
        raise
