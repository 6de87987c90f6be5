"""Sessions as memory while the server runs: when a transcript is due, and that each turn is remembered once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, StoreBusy
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.sources.session_watcher import Delta, SessionWatcher
from tests.patience import load
from tests.sources.test_sessions import HEADER, ID, OTHER, TALK, claw, database, jsonl, put

NOW = 2_000_000_000.0


class FakeGateway:
    """An intake for turns with scripted refusals and failures."""

    def __init__(self) -> None:
        self.turns: list[NewMemory] = []
        self.refuses: str | None = None
        self.busy = False

    async def remember(self, turns: Sequence[NewMemory]) -> None:
        if self.busy:
            raise StoreBusy("in a moment")
        if any(turn.text == self.refuses for turn in turns):
            raise BadInput("session_id has a secret in it")
        self.turns += turns

    @property
    def texts(self) -> list[str]:
        return [turn.text for turn in self.turns]


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    return tmp_path / ".openclaw" / "agents"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a journal, by which bookmarks are believed."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "journal.sqlite").write_bytes(b"j" * 100)
    return tmp_path / "home"


def follower(agents: Path, home: Path, gateway: FakeGateway, **options: object) -> SessionWatcher:
    return SessionWatcher([agents], Scope(user_id="ada"), home, gateway.remember, now=lambda: NOW, **options)  # type: ignore[arg-type]


def touch(path: Path, rested_s: float = 0.0) -> Path:
    """Somebody wrote to it so long ago."""
    os.utime(path, (NOW - rested_s, NOW - rested_s))
    return path


def say(path: Path, *numbers: int, rested_s: float = 0.0) -> None:
    with path.open("ab") as file:
        file.write(jsonl([claw(n % 60, "user", f"turn {n}") | {"id": f"e{n}"} for n in numbers]))
    touch(path, rested_s)


def test_a_transcript_is_due_at_100_kb_or_50_lines_or_when_it_rests() -> None:
    """The seed's numbers, each by itself; with nothing new it never is."""
    delta = Delta()
    assert (delta.bytes, delta.lines) == (100_000, 50)
    assert [delta.is_due(n, 0, 0) for n in (99_999, 100_000)] == [False, True]
    assert [delta.is_due(1, n, 0) for n in (49, 50)] == [False, True]
    assert [delta.is_due(1, 0, n) for n in (599.9, 600)] == [False, True]
    assert not delta.is_due(0, 0, 10**9)


@pytest.mark.row(
    "A082",
    "`[sessions]`: the server follows the configured transcripts, at 100 KB or 50 lines of growth, or when they rest",
)
async def test_it_is_read_on_after_50_lines_and_each_turn_once(agents: Path, home: Path) -> None:
    """49 lines wait; the 50th brings all; then the next 49 wait again, until the session rests."""
    gateway = FakeGateway()
    follow = follower(agents, home, gateway)
    path = put(agents / "max" / "sessions" / f"{ID}.jsonl", [HEADER])
    say(path, *range(1, 49))
    assert (await follow.round(), gateway.turns) == (0, [])
    say(path, 49)
    assert await follow.round() == 49
    assert gateway.texts == [f"turn {n}" for n in range(1, 50)]
    say(path, *range(50, 99))
    assert await follow.round() == 0
    touch(path, rested_s=600)
    assert await follow.round() == 49
    assert gateway.texts == [f"turn {n}" for n in range(1, 99)]
    assert await follow.round() == 0
    assert {turn.scope.agent_id for turn in gateway.turns} == {"max"}


@pytest.mark.row(
    "A082",
    "`[sessions]`: the server follows the configured transcripts, at 100 KB or 50 lines of growth, or when they rest",
)
async def test_100_kb_are_due_however_few_the_lines(agents: Path, home: Path) -> None:
    """One long turn."""
    gateway = FakeGateway()
    path = put(agents / "max" / "sessions" / f"{ID}.jsonl", [HEADER, claw(1, "user", "x" * 100_000)])
    touch(path)
    assert await follower(agents, home, gateway).round() == 1


async def test_a_database_and_archives_are_followed_too(agents: Path, home: Path) -> None:
    """Due by their size, or when they rest; another server's start remembers nothing again."""
    gateway = FakeGateway()
    db = agents / "max" / "agent" / "openclaw-agent.sqlite"
    database(db, (ID, "agent:max:main", "direct", TALK)).close()
    touch(db, rested_s=10)
    follow = follower(agents, home, gateway)
    assert await follow.round() == 0
    touch(db, rested_s=600)
    assert [await follow.round(), await follow.round()] == [3, 0]
    assert await follower(agents, home, gateway).round() == 0
    assert len(gateway.turns) == 3


async def test_session_watcher_reads_only_sessions(agents: Path, home: Path) -> None:
    """Notes and plain lines in the folder of the transcripts are read only by `fusion ingest`."""
    gateway = FakeGateway()
    touch(put(agents / "plain.jsonl", [{"text": "a line"}]), rested_s=10**6)
    (agents / "note.md").write_text("a note")
    touch(agents / "note.md", rested_s=10**6)
    assert (await follower(agents, home, gateway).round(), gateway.turns) == (0, [])


async def test_a_gateway_that_is_busy_is_asked_again(agents: Path, home: Path) -> None:
    """Nothing counts as read that was not acknowledged."""
    gateway = FakeGateway()
    touch(put(agents / "max" / "sessions" / f"{ID}.jsonl", TALK), rested_s=600)
    follow = follower(agents, home, gateway)
    gateway.busy = True
    with pytest.raises(StoreBusy):
        await follow.round()
    gateway.busy = False
    assert await follow.round() == 3


async def test_a_turn_that_is_refused_is_left_out_alone(agents: Path, home: Path) -> None:
    """The others of its batch are kept."""
    gateway = FakeGateway()
    gateway.refuses = "From Kedjan."
    touch(put(agents / "max" / "sessions" / f"{ID}.jsonl", TALK), rested_s=600)
    await follower(agents, home, gateway).round()
    assert gateway.texts == ["Where do the chains come from?", "Thanks"]


@pytest.mark.row(
    "A082",
    "… opt-in, separate for each agent, private, redacted",
    of="`[sessions]`: the server follows",
)
async def test_sessions_are_followed_only_if_their_paths_are_set(agents: Path, tmp_path: Path) -> None:
    """Opt-in: without paths nothing is read. With them another agent's sessions stay its own; secrets are masked."""
    for agent, session in (("max", ID), ("eva", OTHER)):
        rows = [HEADER | {"id": session}, claw(1, "user", f"{agent} keeps password=hunter2secret in the vault")]
        put(agents / agent / "sessions" / f"{session}.jsonl", rows)
    plain = {"backends_only": True, "embedder": {"adapter": ""}}
    plain["backends"] = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    sessions = {"paths": [str(agents)], "idle_s": 0, "user_id": "ada"}
    for told, found in (({}, 0), (sessions, 1)):
        async with Gateway.open(load(home=tmp_path / "home", sessions=told, **plain)) as fusion:
            if fusion.session_watcher is not None:
                await fusion.session_watcher.round()
            await fusion.settle()
            whose = Scope(user_id="ada", agent_id="max", audience="private")
            kept = (await fusion.memories(whose))["memories"]
            assert [memory["text"].split()[0] for memory in kept] == ["max"] * found
            assert "hunter2" not in str(kept)
            assert (await fusion.memories(Scope(user_id="ben", audience="private")))["memories"] == []
            assert (await fusion.memories(Scope(user_id="ada", audience="group")))["memories"] == []


async def test_the_settings_say_when_a_transcript_is_due(agents: Path, tmp_path: Path) -> None:
    chosen = {"paths": [str(agents)], "delta_bytes": 7, "delta_lines": 8, "idle_s": 9}
    plain = {"backends_only": True, "embedder": {"adapter": ""}}
    plain["backends"] = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    async with Gateway.open(load(home=tmp_path / "home", sessions=chosen, **plain)) as gateway:
        assert gateway.session_watcher.delta == Delta(7, 8, 9)
