"""The verbs of `markdown`: ``fusion markdown …``."""

from adapters.markdown.openclaw_index import OpenclawIndex
from adapters.reindex import Reindex

VERBS = {"reindex": Reindex, "openclaw-index": OpenclawIndex}
