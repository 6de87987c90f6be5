"""Prints who read, changed and forgot memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.tables import say, table
from fusion.lib.clean import clean

if TYPE_CHECKING:
    from fusion import wire

MAX_REFS = 3
"""refs of an access that a table shows"""


def accesses(page: wire.Audit) -> None:
    """Prints a page of the access log."""
    if not page["accesses"]:
        say("No accesses are known here.")
    else:
        rows = (
            _cleaned(
                one["at"][:19].replace("T", " "),
                one["action"] if one["outcome"] == "ok" else f"{one['action']}: {one['outcome']}",
                one["key"],
                one["door"],
                one["user_id"] or "",
                _what(one),
            )
            for one in page["accesses"]
        )
        table(("when (UTC)", "did", "key", "door", "user", "what"), rows)
    if page["fault"]:
        say(f"{page['fault']}. Waiting in memory: {counted(page['waiting'], 'entry')}.")
    if page["next_cursor"]:
        say(f"More: --cursor {page['next_cursor']}")


def _cleaned(*cells: str) -> tuple[str, ...]:
    """Cells without controls, which a terminal would obey."""
    return tuple(" ".join(clean(cell)[0].split()) for cell in cells)


def _what(one: wire.Access) -> str:
    """The memories of an access, else its answer, else its call."""
    if one["refs"]:
        more = one["count"] - MAX_REFS
        return ", ".join(one["refs"][:MAX_REFS]) + (f" and {more} more" if more > 0 else "")
    if one["action"] == "gap":
        return counted(one["count"], "lost entry")
    return one["decision"] or one["receipt_id"] or one["call"]
