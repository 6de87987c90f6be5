"""Decides which files to ignore, by patterns as in .gitignore, compiled to a few regular expressions.

A pattern without a slash matches a name at any depth; one with a slash matches a path from the root; a slash at the end
restricts it to folders. `*` and `?` do not match a slash, `**` does. `!` negates a pattern, and the last matching
pattern decides; files in an ignored folder cannot be included again, since the folder is not entered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

ALWAYS = (".*", "node_modules", "__pycache__")
"""hidden files and folders (`.obsidian`, `.git`, `.trash`), and folders that programs fill"""

Ignored = Callable[[str, bool], bool]
"""whether to ignore a path relative to the root (with `/`); the second argument says whether it is a folder"""


def matcher(patterns: Sequence[str]) -> Ignored:
    """A function that says whether ``patterns`` ignore a path; the caller must not enter an ignored folder."""
    return _matcher(tuple(patterns))


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Ignored:
    rules = [(not pattern.startswith("!"), _regex(pattern.removeprefix("!"))) for pattern in patterns if _says(pattern)]
    # Consecutive rules with the same verdict are one expression; the list is reversed, so the first match decides.
    runs: list[tuple[bool, list[str]]] = []
    for verdict, regex in reversed(rules):
        if runs and runs[-1][0] == verdict:
            runs[-1][1].append(regex)
        else:
            runs.append((verdict, [regex]))
    compiled = [(verdict, re.compile("|".join(parts), re.DOTALL).fullmatch) for verdict, parts in runs]

    def ignored(path: str, folder: bool) -> bool:
        subject = f"{path}/" if folder else path
        return next((verdict for verdict, matches in compiled if matches(subject)), False)

    return ignored


def _says(pattern: str) -> bool:
    return bool(pattern.strip()) and not pattern.startswith("#")


def _regex(pattern: str) -> str:
    pattern = pattern.rstrip() if not pattern.endswith("\\ ") else pattern
    folders_only = pattern.endswith("/")
    body = pattern.removesuffix("/")
    anchored = "/" in body
    way = "" if anchored else "(?:.*/)?"
    return way + _translated(body.removeprefix("/")) + ("/" if folders_only else "/?")


_PLAIN_PIECE = r"(?:^|(?<=/))\*\*/|/\*\*$|\*+|\?|\\.|."
_PIECE = re.compile(rf"\[!?\]?[^]]*\]|{_PLAIN_PIECE}", re.DOTALL)
_PIECE_AFTER_CLASSES = re.compile(_PLAIN_PIECE, re.DOTALL)
_STAR = r"(?!(?<![^/])(?:/|$))[^/]*"
# Anything without a slash, but at least one character, so that `a/*` does not match the folder `a/` itself.


def _translated(pattern: str) -> str:
    closed = pattern.rfind("]") + 1  # no class can begin after it; searching from each "[" would take quadratic time
    before, after = _PIECE.finditer(pattern, 0, closed), _PIECE_AFTER_CLASSES.finditer(pattern, closed)
    return "".join(_piece(match[0]) for match in (*before, *after))


def _piece(piece: str) -> str:
    if piece == "**/":
        return "(?:.*/)?"
    if piece == "/**":
        return "/.+"
    if piece.startswith("*"):
        return _STAR
    if piece == "?":
        return "[^/]"
    if piece.startswith("[") and len(piece) > 2:
        inner = piece[1:-1].replace("\\", "\\\\")
        return f"(?!/)[^{inner[1:]}]" if inner.startswith(("!", "^")) else f"(?!/)[{inner}]"
    return re.escape(piece[-1] if piece.startswith("\\") else piece)
