"""The verbs of `markdown`: ``fusion markdown …``."""

from adapters.reindex import Reindex

VERBS = {"reindex": Reindex}
