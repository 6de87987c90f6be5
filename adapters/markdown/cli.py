"""The verbs of `markdown`: ``fusion markdown …``."""

from adapters.markdown.openclaw_index import OpenclawIndex
from adapters.markdown.promote import Promote, PromoteUndo
from adapters.reindex import Reindex

VERBS = {
    "reindex": Reindex,
    "openclaw-index": OpenclawIndex,
    "promote": Promote,
    "promote-undo": PromoteUndo,
}
