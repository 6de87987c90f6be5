"""Search over texts for backends of our own: lexical and by vectors, fused; derived data in one folder."""

from adapters.index.hybrid import Entry, Found, Index, vectors_of

__all__ = ["Entry", "Found", "Index", "vectors_of"]
