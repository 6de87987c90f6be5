"""Search over texts for backends of our own: lexical and by vectors, fused; derived data in one folder."""

from adapters.index.hybrid import Entry, Index, each_vector_of, vectors_of
from adapters.index.merge import Found

__all__ = ["Entry", "Found", "Index", "each_vector_of", "vectors_of"]
