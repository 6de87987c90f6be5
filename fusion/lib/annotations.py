"""The annotations of OpenClaw's memory files: when an entry is relevant, how important it is, and of which project.

They are comments behind an entry, on its line::

    - Keep the gateway on loopback. <!-- trigger: gateway setup, network safety --> <!-- importance: 9 -->
    - Use the release helper. <!-- project: github.com/openclaw/openclaw -->

Triggers are separated by commas or semicolons, projects by semicolons. Importance is an integer from 1 to 10. What does
not fit counts as not annotated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANNOTATION = re.compile(r"<!--\s*(trigger|importance|project)\s*:((?:(?!<!--)[^\n])*?)-->", re.IGNORECASE)
_KEY = re.compile(r"[^\r\n<>]+")
CURATED = frozenset({"memory.md", "user.md"})
"""the files, in any case, whose triggers and importance count; a project counts in every file"""


@dataclass(frozen=True, slots=True)
class Annotations:
    """The annotations of the entries of a text: the highest importance, and all triggers and projects."""

    importance: int | None = None
    triggers: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    @property
    def project(self) -> str | None:
        """The name of the only project: the last part of its key, as a folder is called. None for several."""
        return self.projects[0].rstrip("/").rpartition("/")[2] or None if len(self.projects) == 1 else None


NONE = Annotations()


def annotations_of(text: str, *, curated: bool) -> Annotations:
    """The annotations of a text. Those of a file that is not ``curated`` are its projects alone."""
    if "<!--" not in text:
        return NONE
    importance: int | None = None
    triggers: dict[str, None] = {}
    projects: dict[str, None] = {}
    for kind, value in _found(text):
        if kind == "project":
            keys = [key.strip() for key in value.split(";")]
            projects.update((key, None) for key in keys if _KEY.fullmatch(key))
        elif not curated:
            continue
        elif kind == "trigger":
            triggers.update((phrase.strip(), None) for phrase in re.split("[,;]", value) if phrase.strip())
        elif re.fullmatch("[0-9]{1,2}", value) and 1 <= int(value) <= 10:
            importance = max(importance or 0, int(value))
    return Annotations(importance, tuple(triggers), tuple(projects))


def _found(text: str) -> Iterator[tuple[str, str]]:
    """Kind and value of each annotation on a line that ends with a comment."""
    for line in text.splitlines():
        if line.rstrip().endswith("-->"):
            yield from ((kind.lower(), value.strip()) for kind, value in _ANNOTATION.findall(line))
