"""Regular expressions that are compiled when they are first used.

A hook runs before each prompt in a process of its own. It imports dozens of patterns for texts that are rare, and to
compile them all takes longer than to ask the server.
"""

from __future__ import annotations

import re
from typing import Any, cast


class LazyPattern:
    """Stands in for a compiled pattern: it has the same attributes and methods."""

    def __init__(self, source: str, flags: int) -> None:
        self.source, self.options = source, flags

    def compiled(self) -> re.Pattern[str]:
        """The pattern itself; `re` keeps it for the next time."""
        return re.compile(self.source, self.options)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.compiled(), name)
        self.__dict__[name] = value
        return value


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern as `re.compile` makes it, compiled on first use. A wrong one raises then."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
