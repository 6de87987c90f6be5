"""The result of one check of `fusion doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and its result. ``fix`` is a command or an instruction; empty if nothing has to be fixed."""

    check: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""
