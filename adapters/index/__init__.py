"""A search index over texts, lexical and by vectors, for embedded backends; derived data in one folder."""

from adapters.index.backfill import Backfill, Waiting
from adapters.index.encode import each_vector_of, vectors_of
from adapters.index.files import Entry
from adapters.index.hybrid import Index
from adapters.index.merge import SearchResult

__all__ = ["Backfill", "Entry", "Index", "SearchResult", "Waiting", "each_vector_of", "vectors_of"]
