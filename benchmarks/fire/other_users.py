"""`other_uid_reads`: what can be read of a home, over HTTP or from its files, without its token."""

from __future__ import annotations

from typing import Any

from tests.fire.others import NOBODY, attempt, can_be_another, served


def measure(full: bool) -> dict[str, Any]:
    """Tries every route by every method on every port, and every file: as another user, and without the token."""
    users = (None, NOBODY) if can_be_another() else (None,)
    with served() as there:
        tried = [attempt(there, uid, full=full) for uid in users]
    return {
        "other_uid_reads": sum(len(one.reads) for one in tried),
        "attempts": sum(one.attempts for one in tried),
        "as_another_user": len(users) > 1,
        "reads": [read for one in tried for read in one.reads][:20],
    }
