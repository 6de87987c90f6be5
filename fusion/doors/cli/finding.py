"""The result of one check of `fusion doctor`, and the commands that it names."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its result. ``fix`` is a command or an instruction; empty if nothing has to be fixed."""

    check: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""


def ok(check: str, detail: str) -> Finding:
    """A finding without a fault."""
    return Finding(check, "ok", detail)


def command(home: Path, verb: str) -> str:
    """A command of `fusion` for this home, for a fix."""
    return f"fusion {verb} --home {shlex.quote(str(home))}"
