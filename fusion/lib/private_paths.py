"""Shortens paths so that they do not say where somebody's files are: no home folder, no user name, no ``file://``."""

from __future__ import annotations

import re

_FILE_URL = re.compile(r"file:/{1,3}(?=[A-Za-z]:|[\w.~%-])", re.IGNORECASE)
_HOME = re.compile(
    r"(?<![\w.~-])"
    r"(?:/(?:home|Users|var/home|export/home|mnt/[a-z]/Users)/[^\s/\\:\"'<>|]{1,64}"
    r"|/root(?![\w.-])"
    r"|[A-Za-z]:[\\/]{1,2}(?:Users|Documents and Settings)[\\/]{1,2}[^\\/:\"'<>|\n]{1,64})"
)
_OF_SYSTEM = frozenset({"shared", "public"})


def without_private_paths(text: str) -> str:
    """The text with every home folder in a path as ``~``, and paths instead of ``file://`` URLs."""
    if "/" not in text and "\\" not in text:
        return text
    return _HOME.sub(_shortened, _FILE_URL.sub(_root, text))


def _root(found: re.Match[str]) -> str:
    """The beginning of the path in a ``file:`` URL."""
    after = found.string[found.end() : found.end() + 2]
    return "" if after[1:] == ":" else "/"


def _shortened(found: re.Match[str]) -> str:
    name = re.split(r"[\\/]", found[0])[-1]
    return found[0] if name.lower() in _OF_SYSTEM else "~"


def public_path(document: str) -> str:
    """The name of a document without the folders of the machine: of an absolute path its last two parts."""
    shortened = without_private_paths(document).replace("\\", "/")
    if not shortened.startswith(("/", "~")) and ":/" not in shortened[:3]:
        return shortened
    return "/".join([part for part in shortened.split("/") if part not in ("", "~")][-2:])
