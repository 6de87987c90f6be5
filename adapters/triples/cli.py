"""What `triples` can be told to do: ``fusion triples …``."""

from adapters.reindex import Reindex

VERBS = {"reindex": Reindex}
