"""Markdown memory: the files are the truth, the index is derived from them and may be deleted at any time."""

from adapters.markdown.backend import Markdown
from adapters.markdown.sync import Timing

__all__ = ["Markdown", "Timing"]
