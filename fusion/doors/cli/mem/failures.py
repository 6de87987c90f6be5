"""Errors of `fusion mem` with ``--json``, as openclaw-mem's commands print them: an object on stdout."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fusion.doors import terminal
from fusion.errors import BadInput, FusionError, NotFound

FACTS = "graph fact"
KINDS: Mapping[str, str] = {FACTS: "openclaw-mem.graph.fact.error.v0", "episodes": "openclaw-mem.episodes.{}.v0"}
"""the kind of an error by the first words of its command; the others have none"""


def print_failure(error: FusionError, command: Sequence[str]) -> None:
    """Print an error as ``{"ok": false, "error", "hint"}``, with the members that the error itself has."""
    sys.stdout.write(terminal.json_line(failure(error, command)))
    sys.stdout.flush()


def failure(error: FusionError, command: Sequence[str]) -> dict[str, Any]:
    """The object of an error; ``command`` are the words after `fusion mem`, without options."""
    named = " ".join(command)
    kind = next((made.format(*command[1:2] or [""]) for words, made in KINDS.items() if named.startswith(words)), None)
    details: Mapping[str, Any] = getattr(error, "details", {})
    wrong = isinstance(error, BadInput | NotFound)
    hint = f"fusion mem {named} --help" if wrong else "fusion doctor says what is wrong with a home"
    said = {"ok": False, "error": str(error), "hint": " ".join(hint.split())}
    return {**details, **({} if kind is None else {"kind": kind}), **said}
