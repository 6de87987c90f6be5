"""Wrong usage as one line: what is wrong, what was probably wanted, and where the help is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from fusion.doors import terminal
from fusion.errors import BadInput, FusionError

USAGE = 2
"""exit code for wrong usage: a wrong option, or a name of something that does not exist"""
STOPPED = 1
"""exit code after a question that was left without an answer"""
_QUOTE = "Write it after the command; quote it where your shell takes ? and * for file names"
MISSING = {
    "question": f"{_QUOTE}: fusion fuse 'why?'",
    "query": _QUOTE,
    "text": _QUOTE,
    "backend": "`fusion backends` lists them",
    "paths": "Name folders or files: fusion ingest ~/notes",
    "ref": "It is what a block cites, [m1z], and what `fusion memories` lists",
    "receipt_id": "`fusion fuse` prints it with -v",
}
"""hints for arguments that are missing, by name"""
OPTIONS = {
    "query": "the question",
    "budget_chars": "--budget",
    "budget_tokens": "--budget-tokens",
    "max_results": "--max-results",
    "max_items": "--max-items",
    "timeout_ms": "--timeout-ms",
    "as_of": "--as-of",
    "timezone": "--timezone",
    "at": "--at",
    "until": "--to",
    "entities": "--with",
    "kind": "--kind",
    "user_id": "--user",
    "agent_id": "--agent",
    "session_id": "--session",
    "cursor": "--cursor",
}
"""the option for a field of a request that an error names"""


class Failed(Exception):
    """A command failed: the error to report, whether as JSON, and the exit code."""

    def __init__(self, error: FusionError, as_json: bool, code: int) -> None:
        super().__init__(str(error))
        self.error, self.as_json, self.code = error, as_json, code


class OneLine(TyperGroup):
    """A group of commands that reports errors in one line on stderr, or as JSON where ``--json`` is given."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        given = (words, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return super().main(*given, **extra)
        try:
            code = super().main(*given, **extra)
        except Failed as failed:
            report(failed.error, failed.as_json)
            sys.exit(failed.code)
        except TyperException as error:
            if (wrong := wrong_usage(error)) is not None:
                report(wrong, as_json="--json" in words)
            sys.exit(error.exit_code)
        except FusionError as error:  # from the settings, whose backends are commands
            report(error, as_json="--json" in words)
            sys.exit(1)
        except typer.Abort:
            sys.stderr.write("fusion: stopped; nothing was changed\n")
            sys.exit(STOPPED)
        sys.exit(code if isinstance(code, int) else 0)


def report(error: FusionError, as_json: bool) -> None:
    """Prints an error on stderr: one line, or problem details."""
    if as_json:
        from fusion.problem import problem_of

        sys.stderr.write(terminal.json_line(problem_of(error)))
    else:
        field, _, rest = str(error).partition(": ")
        said = f"{OPTIONS[field]}: {rest}" if isinstance(error, BadInput) and field in OPTIONS and rest else str(error)
        sys.stderr.write(f"fusion: {said}\n")


def wrong_usage(error: Any) -> BadInput | None:
    """Wrong usage as an error in one line; None for no arguments at all, for which the help was printed."""
    message = " ".join(_worded(error).split())
    return BadInput(message) if message else None


def _worded(error: Any) -> str:
    """The fault, the nearest name or a hint, and the command that prints the help."""
    said: str = error.message if (near := getattr(error, "possibilities", None)) else error.format_message()
    if not said.strip():
        return ""
    context = getattr(error, "ctx", None)
    hint = MISSING.get(getattr(getattr(error, "param", None), "name", None) or "", "")
    if context is not None and context.parent is None and hasattr(error, "possibilities"):
        hint = "Put options after the command: fusion fuse … --home FOLDER"
    elif near:
        hint = f"Did you mean {' or '.join(sorted(near)[:3])}?"
    whole = f"{said[0].lower()}{said[1:].rstrip()}"
    whole += ("" if whole.endswith((".", "?")) else ".") + (f" {hint}" if hint else "")
    whole += "" if whole.endswith((".", "?")) else "."
    _, *path = context.command_path.split() if context else [""]
    return f"{whole} See: {' '.join(['fusion', *path])} --help"
