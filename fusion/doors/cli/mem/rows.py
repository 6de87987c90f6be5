"""What the commands of `fusion mem` print with ``--json``: the rows and receipts of openclaw-mem."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusion.doors import terminal

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.doors.compat.openclaw_mem.ledger import Ledger


def ledger_of(client: AsyncClient, scope: Mapping[str, Any], *, all_users: bool = False) -> Ledger:
    """The memory as openclaw-mem's clients see it, in the scope of a command."""
    from fusion.doors.compat.openclaw_mem.ledger import Ledger

    return Ledger(client, {name: value for name, value in scope.items() if value is not None}, all_users)


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as one line of JSON: an array, as openclaw-mem prints it."""
    sys.stdout.write(terminal.json_line(list(rows)))
    sys.stdout.flush()
