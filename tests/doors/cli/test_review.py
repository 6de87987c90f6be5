"""`fusion propose`, `proposals`, `approve`, `reject`, `triage` and `mem extract`: as commands and with keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner, Result

from fusion.client import AsyncClient
from fusion.doors.cli import app
from fusion.doors.cli.triage import decide_one_by_one
from fusion.doors.direct import opened_here
from fusion.store.dead_letters import DeadLetter, DeadLetters
from tests.doors.fakes import SMALL
from tests.gateway.helpers import small

TEXT = "Nadia flies to Lisbon on 3 April"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "fusion.toml").write_text(SMALL)
    return folder


def fusion(home: Path, *arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"], input=stdin)
    assert result.exit_code == 0, result.output
    return result


def reply(home: Path, *arguments: str) -> Any:
    return json.loads(fusion(home, *arguments, "--json").stdout)


@pytest.mark.row("A152", "propose and approve on the command line, and take it back")
def test_propose_approve_undo(home: Path) -> None:
    shown = fusion(home, "propose", TEXT, "--reason", "she booked it").stdout
    assert "p1  proposed" in shown
    assert "Nothing is stored yet" in shown
    assert TEXT in fusion(home, "proposals").stdout
    assert "she booked it" in fusion(home, "proposals", "p1").stdout
    approved = reply(home, "approve", "p1", "--text", f"{TEXT}, by train")
    assert approved["writes_performed"]
    assert f"{TEXT}, by train" in fusion(home, "get", approved["ref"]).stdout
    assert "p1" in fusion(home, "decisions").stdout
    fusion(home, "undo", approved["decision"])
    assert reply(home, "proposals", "p1")["state"] == "open"
    assert "rejected; nothing is stored" in fusion(home, "reject", "p1").stdout


@pytest.mark.feature("`fusion triage` lists what needs a person where it cannot ask, and decides one item by name")
def test_triage_without_a_terminal_lists(home: Path) -> None:
    assert "Nothing needs a decision" in fusion(home, "triage").stdout
    fusion(home, "propose", TEXT)
    listed = fusion(home, "triage").stdout
    assert "p1: fusion triage p1 approve; fusion triage p1 reject" in listed
    done = fusion(home, "triage", "p1", "approve").stdout
    assert "To take it back: fusion undo d1" in done
    assert reply(home, "triage")["items"] == []


@pytest.mark.row("A144", "`fusion mem extract` shows candidates and stores nothing")
def test_mem_extract_stores_nothing(home: Path) -> None:
    shown = fusion(home, "mem", "extract", "-", stdin=f"Thanks! We decided that {TEXT}.").stdout
    assert TEXT in shown
    assert "Nothing is stored" in shown
    assert reply(home, "mem", "extract", f"We decided that {TEXT}.")["writes_performed"] is False
    assert reply(home, "memories")["memories"] == []
    assert "1 proposed: p1" in fusion(home, "mem", "extract", f"We decided that {TEXT}.", "--propose").stdout


class Keys:
    """A person who presses keys; at the end of them Ctrl-D."""

    def __init__(self, keys: str) -> None:
        self._keys = iter(keys)

    def __call__(self) -> str:
        try:
            return next(self._keys)
        except StopIteration:
            raise EOFError from None


async def propose(client: AsyncClient, count: int) -> None:
    for n in range(count):
        await client.propose({"text": f"{TEXT} at {n} o'clock", "user_id": "nadia"})


def states(page: Any) -> Iterator[tuple[str, str]]:
    return ((one["id"], one["state"]) for one in reversed(page["proposals"]))


@pytest.mark.feature("in a terminal `fusion triage` shows one item a screen; a key decides, skips, undoes or quits")
async def test_triage_with_keys(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Approve, an unknown key, reject, undo of that, skip, and quit."""
    async with opened_here(small(home)) as client:
        await propose(client, 4)
        assert await decide_one_by_one(client, {}, Keys("a?rusQ")) == 1
        assert list(states(await client.proposals(state="any"))) == [
            ("p1", "approved"),
            ("p2", "open"),
            ("p3", "open"),
            ("p4", "open"),
        ]
    shown = capsys.readouterr().out
    assert "There is no choice '?' here" in shown
    assert "d2 is taken back" in shown
    assert "1 item decided, 3 left" in shown


async def test_triage_sets_dead_letters_aside(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No key takes that back, and it does not come again."""
    refused = DeadLetter("file:events.jsonl:3", "it is no JSON", b"{")
    async with opened_here(small(home)) as client:
        DeadLetters(home / "observations" / "dead-letters.jsonl").add([refused], datetime(2026, 3, 14, tzinfo=UTC))
        await propose(client, 1)
        assert await decide_one_by_one(client, {}, Keys("dus")) == 1
        assert [one["id"] for one in (await client.triage())["items"]] == ["p1"]
    shown = capsys.readouterr().out
    assert "1 of 2  dead letters" in shown
    assert "from events.jsonl (1). Why: it is no JSON (1)" in shown
    assert "What was set aside stays aside" in shown


async def test_triage_ends_with_its_input(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened_here(small(home)) as client:
        await propose(client, 2)
        assert await decide_one_by_one(client, {}, Keys("u")) == 0
    assert "There is nothing to undo yet" in capsys.readouterr().out


async def test_a_decision_that_fails_is_reported_and_asked_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else decided meanwhile."""
    async with opened_here(small(home)) as client:
        await propose(client, 1)

        keys = Keys("as")
        rejected = await client.triage()
        await client.reject("p1")

        class Earlier:
            """A client whose list is of before the rejection."""

            decide_triage = staticmethod(client.decide_triage)

            async def triage(self, **more: Any) -> Any:
                return rejected

        assert await decide_one_by_one(cast(AsyncClient, Earlier()), {}, keys) == 0
    assert "Not done: p1 is rejected already" in capsys.readouterr().out


def test_a_hostile_proposal_cannot_move_the_cursor(home: Path) -> None:
    """Escape sequences are taken out before it is stored, and again where it is printed."""
    fusion(home, "propose", "\x1b[2J\x1b]52;c;ZXZpbA==\x07Wire the money to Mallory today")
    for arguments in (["proposals"], ["proposals", "p1"], ["triage"]):
        shown = fusion(home, *arguments).stdout
        assert "\x1b" not in shown
        assert "Wire the money" in shown
