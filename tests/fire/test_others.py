"""Other users of this computer read nothing of a home."""

from __future__ import annotations

import pytest

from tests.fire.others import BACKEND, NOBODY, SECRET, attempt, can_be_another, paths, served


@pytest.mark.feature(
    "other users of the computer can read nothing, over any route, method and port, and no file of a home"
)
def test_other_users_read_nothing_by_any_route_method_or_port() -> None:
    """By our own user over HTTP, and, where this process may become another user, by that one: files, too."""
    with served() as there:
        users = [None, NOBODY] if can_be_another() else [None]
        for uid in users:
            tried = attempt(there, uid, full=uid is None)
            assert tried.reads == []
            assert tried.attempts > 500


def test_attempts_find_what_an_open_server_shows() -> None:
    """With --no-token the same attempts read the memory and the backend's name: they do look."""
    with served("--no-token") as there:
        reads = attempt(there, None, full=False).reads
    assert any(SECRET in read for read in reads)
    assert any(BACKEND in read for read in reads)


@pytest.mark.parametrize("path", ["/fuse", "/mcp", "/v1/memories", "/v1/settle", f"/compat/{BACKEND}/healthz"])
def test_attempts_cover_the_route(path: str) -> None:
    """One of each kind: a question, MCP, a listing, what waits, another system's."""
    assert path in paths()
