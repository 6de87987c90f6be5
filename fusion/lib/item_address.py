"""The address of an item: the labels of its namespace, as ("users", "42", "profile"), and its key there.

In a path a namespace is one segment, its labels joined by dots. In labels and keys ``~`` is written ``~0``, ``/`` is
``~1`` and ``.`` is ``~2``, so that any label fits into a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_LABELS = 16
MAX_LABEL_CHARS = 128
MAX_KEY_CHARS = 256
_ESCAPES = (("~", "~0"), ("/", "~1"), (".", "~2"))


@dataclass(frozen=True, slots=True)
class Address:
    """Where an item is: the labels of its namespace, and its key there."""

    namespace: tuple[str, ...]
    key: str

    @property
    def path(self) -> str:
        """The address as in a URL: users.42/theme."""
        return f"{joined(self.namespace)}/{escaped(self.key)}"


def escaped(label: str) -> str:
    """A label or a key as it is written in a path."""
    for character, escape in _ESCAPES:
        label = label.replace(character, escape)
    return label


def unescaped(written: str) -> str:
    """The label or key that `escaped` wrote."""
    for character, escape in reversed(_ESCAPES):
        written = written.replace(escape, character)
    return written


def joined(namespace: Sequence[str]) -> str:
    """A namespace as one segment of a path."""
    return ".".join(map(escaped, namespace))


def split(written: str) -> tuple[str, ...]:
    """The namespace that `joined` wrote."""
    return tuple(map(unescaped, written.split("."))) if written else ()
