"""The verbs of `triples`: ``fusion triples …``."""

from adapters.reindex import Reindex

VERBS = {"reindex": Reindex}
