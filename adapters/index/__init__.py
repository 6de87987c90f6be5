"""Search over texts for backends of our own: lexical and by vectors, fused; derived data in one folder."""

from adapters.index.backfill import Backfill, Waiting
from adapters.index.hybrid import Entry, Index, each_vector_of, vectors_of
from adapters.index.merge import Found

__all__ = ["Backfill", "Entry", "Found", "Index", "Waiting", "each_vector_of", "vectors_of"]
