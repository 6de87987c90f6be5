"""What `fusion audit` prints."""

from __future__ import annotations

import pytest

from fusion import wire
from fusion.doors.cli import render


def access(**more: object) -> wire.Access:
    one = {
        "at": "2026-03-14T09:30:00.123+00:00",
        "action": "read",
        "call": "memory",
        "outcome": "ok",
        "key": "phone",
        "key_id": "9f86d081",
        "role": "reader",
        "door": "http",
        "user_id": "ana",
        "agent_id": None,
        "session_id": None,
        "refs": ["m1"],
        "count": 1,
        "receipt_id": None,
        "decision": None,
        "request_id": "q1",
    }
    return {**one, **more}  # type: ignore[typeddict-item]


def page(*entries: wire.Access, **more: object) -> wire.Audit:
    about = {"next_cursor": None, "keep_days": 90.0, "waiting": 0, "fault": ""}
    return {"accesses": list(entries), **about, **more}  # type: ignore[typeddict-item]


def test_a_table_has_what_each_access_was_to(capsys: pytest.CaptureFixture[str]) -> None:
    many = access(refs=["m1", "m2", "m3", "m4"], count=40, action="list")
    asked = access(refs=[], count=0, action="ask", call="fuse", receipt_id="r7")
    failed = access(outcome="NotFound", user_id=None)
    lost = access(action="gap", call="gap", refs=[], count=1200, key="")
    state = access(action="state", refs=[], decision="d4")
    render.accesses(page(many, asked, failed, lost, state, next_cursor="c9"))
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("m1, m2, m3 and 37 more", "r7", "read: NotFound", "1,200 lost entries", "d4", "--cursor c9"):
        assert text in shown, text


def test_nothing_and_a_fault_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    render.accesses(page(fault="accesses cannot be written to access.sqlite: disk is full", waiting=3))
    assert capsys.readouterr().out == (
        "No accesses are known here.\n"
        "accesses cannot be written to access.sqlite: disk is full. Waiting in memory: 3 entries.\n"
    )


def test_a_terminal_obeys_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Were one in the file, the terminal would get none of it."""
    render.accesses(page(access(key="a\x1b[31m\n2026 owner", user_id="\u202eana", refs=["m1\x07"])))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\n2026 owner" not in shown
