"""What `markdown` can be told to do: ``fusion markdown …``."""

from adapters.reindex import Reindex

VERBS = {"reindex": Reindex}
