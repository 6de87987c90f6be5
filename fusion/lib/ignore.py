"""Which files are left out: the patterns of .gitignore, as one regular expression each way.

A pattern without a slash is a name anywhere, with one it is a path from the folder's top; a slash at its end means
folders alone. `*` and `?` stop at a slash, `**` does not. `!` takes back, and the last pattern that fits decides; what
lies in a folder that is left out cannot be taken back, for nobody looks into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

ALWAYS = (".*", "node_modules", "__pycache__")
"""hidden files and folders, `.obsidian`, `.git` and `.trash` among them, and what programs pile up"""

Ignored = Callable[[str, bool], bool]
"""Whether a path below a root (with `/`) is left out; the second says that it is a folder."""


def matcher(patterns: Sequence[str]) -> Ignored:
    """What ``patterns`` leave out, of one path; whoever walks does not enter a folder that is."""
    return _matcher(tuple(patterns))


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> Ignored:
    rules = [(not pattern.startswith("!"), _regex(pattern.removeprefix("!"))) for pattern in patterns if _says(pattern)]
    # Runs of rules that say the same are one expression; from the last to the first, the first that fits decides.
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
# Whatever has no slash; but a name has at least one character, so that `a/*` is not the folder `a/` itself.


def _translated(pattern: str) -> str:
    closed = pattern.rfind("]") + 1  # no class can begin behind it: looking for one at each "[" would be quadratic
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
