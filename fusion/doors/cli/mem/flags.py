"""The flags that openclaw-mem takes before a command as well as after it: ``--json`` moves to its place.

``--db`` names a database file there. A home is not one, so the flag is refused with what to write instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusion.doors.cli.usage import OneLine
from fusion.errors import BadInput

JSON = "--json"
FILES = ("--db", "--harness-home")
"""flags that name files of openclaw-mem"""


class LedgerGroup(OneLine):
    """The group `fusion mem`, which takes openclaw-mem's flags in their places."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group. Raises BadInput for a flag that names a file of openclaw-mem."""
        return super().parse_args(ctx, in_place(args))


def in_place(args: Sequence[str]) -> list[str]:
    """The arguments with a ``--json`` from before the command at their end, which no other command needs twice."""
    options, rest = _split(args)
    for flag in FILES:
        if any(one == flag or one.startswith(f"{flag}=") for one in options):
            raise BadInput(
                f"{flag} names a file of openclaw-mem, and `fusion mem` works on a home: leave it out, or name a home "
                "with --home FOLDER or FUSION_HOME"
            )
    leading = 0
    while leading < len(options) and options[leading] == JSON:
        leading += 1
    moved = options[leading:]
    return [*moved, *([JSON] if leading and JSON not in moved else []), *rest]


def _split(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before ``--``, and that with what follows it, which are no flags."""
    end = args.index("--") if "--" in args else len(args)
    return list(args[:end]), list(args[end:])
