"""Agents' sessions become memories: what was said, turn by turn, each once wherever it is found again."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from fusion.contract import Moment, Place, Scope
from fusion.ingest.intake import NewMemory
from fusion.lib.envelope import ANSWER_TO_MARKED, MARKED, UNATTENDED
from fusion.sources import files as opening
from fusion.sources import openclaw_database
from fusion.sources.bookmarks import FILE, Bookmarks
from fusion.sources.files import Skip
from fusion.sources.openclaw_database import UNKNOWN_COLD
from fusion.sources.readers import read, read_session
from fusion.sources.sessions import session_of
from fusion.sources.turns import Transcript

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
ADA = Scope(user_id="ada")


def claude(number: int, speaker: str, content: Any, **fields: Any) -> dict[str, Any]:
    """One line of a Claude Code transcript."""
    return {
        "parentUuid": None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ada/bikeshop",
        "sessionId": ID,
        "type": speaker,
        "message": {"role": speaker, "content": content},
        "uuid": f"u{number}",
        "timestamp": f"2026-03-04T09:30:{number:02}.500Z",
        **fields,
    }


def claw(number: int, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    """One entry of an OpenClaw transcript."""
    return {
        "type": "message",
        "id": f"e{number}",
        "parentId": None,
        "timestamp": f"2026-03-04T09:30:{number:02}.500Z",
        "message": {"role": role, "content": content, **fields},
    }


HEADER = {"type": "session", "id": ID, "cwd": "/home/ada/.openclaw/workspace", "timestamp": "2026-03-04T09:30:00Z"}
TALK = [
    HEADER,
    claw(1, "user", "Where do the chains come from?"),
    claw(2, "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "From Kedjan."}]),
    claw(3, "toolResult", [{"type": "text", "text": "a list"}]),
    {"type": "compaction", "id": "c1", "summary": "chains", "firstKeptEntryId": "e2", "tokensBefore": 9},
    {"type": "custom_message", "id": "c2", "content": "shown"},
    claw(4, "user", [{"type": "text", "text": "Thanks"}]),
]


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def put(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jsonl(rows))
    return path


def memories(*paths: Path, scope: Scope = ADA, **options: Any) -> list[NewMemory]:
    return [item for item in read(paths, scope, **options) if isinstance(item, NewMemory)]


def texts(*paths: Path, **options: Any) -> list[str]:
    return [item.text for item in memories(*paths, **options)]


def reasons(*paths: Path) -> list[str]:
    return [item.reason for item in read(paths, ADA) if isinstance(item, Skip)]


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    return tmp_path / ".claude" / "projects" / "-home-ada-bikeshop"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return tmp_path / ".openclaw" / "agents" / "max"


# Claude Code


@pytest.mark.row("A083", "sessions of Claude Code become memories, turn by turn")
def test_a_claude_code_session_is_its_turns(projects: Path):
    """User and assistant text with time, place, speaker, project and key; private, and found without naming it."""
    file = put(projects / f"{ID}.jsonl", [claude(1, "user", "Fix the brake."), claude(2, "assistant", "Done.")])
    first, second = memories(file)
    whose = Scope(user_id="ada", session_id=ID, project="bikeshop", audience="private")
    assert first == NewMemory(
        text="Fix the brake.",
        scope=whose,
        kind="turn",
        speaker="user",
        at=Moment(datetime(2026, 3, 4, 9, 30, 1, 500_000, tzinfo=UTC)),
        place=Place(f"claude-code/{ID}", 0, 0),
        source=f"claude-code:{ID}",
        revision="u1",
        origin="owner",
    )
    assert (second.text, second.speaker, second.origin, second.place) == (
        *("Done.", "assistant", "agent"),
        Place(f"claude-code/{ID}", 1, 1),
    )
    assert Scope(user_id="ada", audience="private").admits(whose)
    assert Scope(user_id="ada", session_id=ID, audience="private").admits(whose)
    assert not Scope(user_id="ada", session_id=OTHER, audience="private").admits(whose)
    assert not Scope(user_id="ada").admits(whose)


@pytest.mark.row(
    "A083",
    "… only what was said: no tools, thoughts, side chains, summaries, local commands",
    of="sessions of Claude Code become memories",
)
def test_a_claude_code_session_keeps_only_spoken_turns(projects: Path):
    """No tool calls, results or thoughts; no side chains, meta lines, summaries, snapshots, errors, local commands."""
    rows = [
        {"type": "summary", "summary": "Brakes", "leafUuid": "u9"},
        {"type": "file-history-snapshot", "messageId": "u0", "snapshot": {}},
        claude(1, "user", "one"),
        claude(2, "user", "a caveat", isMeta=True),
        claude(3, "assistant", "of a subagent", isSidechain=True),
        claude(4, "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "two"}]),
        claude(5, "assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]),
        claude(6, "user", [{"type": "tool_result", "tool_use_id": "t", "content": "a file"}]),
        claude(7, "assistant", "API Error: 529", isApiErrorMessage=True),
        claude(8, "user", "This session is being continued from a previous one", isCompactSummary=True),
        claude(9, "user", "<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        claude(10, "user", "<local-command-stdout>cleared</local-command-stdout>"),
        claude(11, "user", "three\n<system-reminder>Be brief.</system-reminder>"),
        {"type": "queue-operation", "operation": "enqueue", "sessionId": ID, "content": "three"},
    ]
    file = put(projects / f"{ID}.jsonl", rows)
    found = memories(file)
    assert [(item.text, item.place.start if item.place else None) for item in found] == [
        ("one", 0),
        ("two", 1),
        ("three", 4),  # the two local commands are turns that are not kept
    ]
    assert reasons(file) == []


def test_private_turns_are_reported_and_not_kept(projects: Path):
    """By place and reason, never by its words; the answer to a marked prompt is not kept either."""
    rows = [claude(1, "user", "The code is 4711 [NOMEM]"), claude(2, "assistant", "4711, noted.")]
    rows += [claude(3, "user", "Thanks."), claude(4, "assistant", "Any time.")]
    file = put(projects / f"{ID}.jsonl", rows)
    assert next(read([file], ADA)) == Skip(f"{file}:1", MARKED)
    assert texts(file) == ["Thanks.", "Any time."]


def test_a_folder_of_projects_is_read_by_what_the_files_say(tmp_path: Path, projects: Path):
    """Sessions, plain JSONL and an agent's Markdown notes side by side; a name says nothing about a session."""
    put(projects / f"{ID}.jsonl", [claude(1, "user", "of a session")])
    put(projects / "copy.jsonl", [claude(1, "user", "of a copy", sessionId="s-1")])
    put(projects / "plain.jsonl", [{"text": "of a line"}])
    (projects / "memory").mkdir()
    (projects / "memory" / "MEMORY.md").write_text("of a note")
    found = memories(tmp_path / ".claude" / "projects")
    assert sorted((item.text, item.place.document if item.place else None) for item in found) == [
        ("of a copy", "claude-code/s-1"),
        ("of a line", None),
        ("of a note", "projects/-home-ada-bikeshop/memory/MEMORY.md"),
        ("of a session", f"claude-code/{ID}"),
    ]


def test_a_fork_is_another_document_though_it_repeats_the_ids(projects: Path):
    """A file is named after its session; were the lines believed, two forks would take each other's places."""
    put(projects / f"{ID}.jsonl", [claude(1, "user", "begin"), claude(2, "user", "left")])
    put(projects / f"{OTHER}.jsonl", [claude(1, "user", "begin"), claude(3, "user", "right")])
    documents = {(item.place.document, item.text) for item in memories(projects) if item.place}
    assert documents == {
        (f"claude-code/{s}", t) for s, t in [(ID, "begin"), (ID, "left"), (OTHER, "begin"), (OTHER, "right")]
    }


# OpenClaw


@pytest.mark.row("A083", "sessions of OpenClaw become memories of the agent that their folder names")
def test_an_openclaw_session_is_its_turns(agent: Path):
    """The agent is who the folder says; tools, custom entries and compaction are left out."""
    first, second, third = memories(put(agent / "sessions" / f"{ID}.jsonl", TALK))
    assert [item.text for item in (first, second, third)] == [
        "Where do the chains come from?",
        "From Kedjan.",
        "Thanks",
    ]
    assert first.scope == Scope(user_id="ada", agent_id="max", session_id=ID, audience="private")
    assert (first.source, first.place) == (f"openclaw:max:{ID}", Place(f"openclaw/max/{ID}", 0, 0))
    assert (third.revision, third.place) == ("e4", Place(f"openclaw/max/{ID}", 2, 2))


@pytest.mark.row("A158", "heartbeats and scheduled runs are left out, with their answers")
def test_heartbeats_and_scheduled_runs_go_with_their_answers(agent: Path):
    """Until a person says something again."""
    rows = [
        HEADER,
        claw(1, "user", "[OpenClaw heartbeat poll]"),
        claw(2, "assistant", "HEARTBEAT_OK"),
        claw(3, "user", "[cron:5f1 Report] Sum up the day."),
        claw(4, "assistant", "The day in short: three bicycles."),
        claw(5, "user", "And tomorrow?"),
        claw(6, "assistant", "Two."),
        claw(7, "assistant", "NO_REPLY"),
        claw(8, "user", "From another session", provenance={"kind": "inter_session"}),
        claw(9, "assistant", "Done, other session."),
    ]
    file = put(agent / "sessions" / f"{ID}.jsonl", rows)
    assert texts(file) == ["And tomorrow?", "Two."]
    assert reasons(file) == [UNATTENDED] * 7


@pytest.mark.feature("neither a prompt that is marked `[NOMEM]` nor the answer to it is kept, by any door")
@pytest.mark.parametrize("mark", ["[NOMEM] My PIN is 4711.", "<private>My PIN is 4711.</private>"])
def test_marked_prompt_goes_with_its_answer(home: Path, agent: Path, mark: str) -> None:
    """Also if the answer is read later; until a person says something again."""
    file = put(agent / "sessions" / f"{ID}.jsonl", [HEADER, claw(1, "user", mark)])
    assert reasons(file) == [MARKED]
    run(home, file)
    later = [claw(2, "assistant", "4711, noted."), claw(3, "user", "And tomorrow?"), claw(4, "assistant", "Two.")]
    append(file, jsonl(later))
    assert run(home, file)[0] == ["And tomorrow?", "Two."]
    assert reasons(file) == [MARKED, ANSWER_TO_MARKED]


@pytest.mark.feature("OpenClaw's archives yield the same memories as the original sessions")
@pytest.mark.parametrize("name", [f"{ID}.jsonl.deleted.2026-03-05T10-00-00.000Z.zst", f"{ID}.jsonl.reset.2026.zst"])
def test_an_archive_has_the_same_memories_as_the_session_it_was(agent: Path, name: str):
    """Compressed or renamed, every turn keeps its natural key."""
    live = memories(put(agent / "sessions" / f"{ID}.jsonl", TALK))
    (agent / "sessions" / f"{ID}.jsonl").unlink()
    (agent / "sessions" / name).write_bytes(zstandard.compress(jsonl(TALK)))
    assert memories(agent.parent) == live
    (agent / "sessions" / name).rename(agent / "sessions" / f"{ID}.jsonl.reset.2026-03-05T10-00-00.000Z")
    assert memories(agent.parent) == live


def test_checkpoints_and_traces_are_left_out_of_a_folder(agent: Path):
    """They repeat a session."""
    put(agent / "sessions" / f"{ID}.jsonl", TALK)
    put(agent / "sessions" / f"{ID}.checkpoint.{OTHER}.jsonl", TALK)
    put(agent / "sessions" / f"{ID}.trajectory.jsonl", [{"type": "session.started", "sessionId": ID}])
    assert len(memories(agent)) == 3
    assert reasons(agent) == []


@pytest.mark.feature("a decompression bomb is refused")
def test_a_decompression_bomb_is_refused(agent: Path, tmp_path: Path):
    """Half a gigabyte of nothing in a few kilobytes: refused at the bound, in bounded memory; the others are read."""
    put(agent / "sessions" / f"{OTHER}.jsonl", TALK)
    bomb = agent / "sessions" / f"{ID}.jsonl.deleted.2026.zst"
    packer = zstandard.ZstdCompressor().compressobj()
    nothing = (b" " * ((1 << 20) - 1) + b"\n") * 4
    with bomb.open("wb") as file:
        file.write(packer.compress(jsonl(TALK)))
        for _ in range(opening.MAX_UNPACKED_BYTES // len(nothing) + 1):
            file.write(packer.compress(nothing))
        file.write(packer.flush())
    assert bomb.stat().st_size < 200_000
    assert reasons(agent) == ["more than 512 MB when it is unpacked"]
    assert {item.scope.session_id for item in memories(agent)} == {ID, OTHER}


def test_a_damaged_archive_is_reported(agent: Path):
    """What could be read of it is kept."""
    path = agent / "sessions" / f"{ID}.jsonl.deleted.2026.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.compress(jsonl(TALK))[:4] + b"\xff" * 40)
    assert reasons(path) in (["an archive, but not of a known agent's session"], ["damaged: it cannot be unpacked"])


# OpenClaw's database

SCHEMA = """
create table session_windows(session_id text not null primary key, session_key text not null, chat_type text) strict;
create table transcript_events(
    session_id text not null, seq integer not null, event_json text not null, created_at integer not null,
    primary key(session_id, seq)
) strict;
"""


def database(path: Path, *sessions: tuple[str, str, str | None, list[dict[str, Any]]]) -> sqlite3.Connection:
    """A database as OpenClaw has it: the entries of its transcripts, in their order, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.executescript(SCHEMA)
    for session, key, chat_type, rows in sessions:
        db.execute("insert into session_windows values(?, ?, ?)", (session, key, chat_type))
        add(db, session, rows)
    return db


def add(db: sqlite3.Connection, session: str, rows: list[dict[str, Any]]) -> None:
    (last,) = db.execute("select coalesce(max(seq), -1) from transcript_events").fetchone()
    db.executemany(
        "insert into transcript_events values(?, ?, ?, 0)",
        [(session, last + 1 + n, orjson.dumps(row).decode()) for n, row in enumerate(rows)],
    )


NEWER = """
create table session_windows(session_id text not null primary key, session_key text not null, chat_type text) strict;
create table transcript_events(
    session_id text not null, seq integer not null, event_json text, created_at integer not null,
    event_zstd blob, event_utf8_bytes integer, primary key(session_id, seq)
) strict;
create table session_transcript_archives(
    session_id text not null, generation text not null, session_key text not null, reason text not null,
    encoding text not null, archive_blob blob not null, archive_sha256 text not null, archive_name text not null unique,
    created_at integer not null, published_at integer, primary key(session_id, generation)
) strict;
create table session_transcript_cold_archives(
    session_id text not null primary key, generation text not null, archive_name text not null unique,
    archive_sha256 text not null, event_count integer not null, raw_bytes integer not null,
    archive_bytes integer not null, last_seq integer not null, archived_at integer not null,
    storage text not null, archive_blob blob
) strict;
"""
"""as OpenClaw has had its tables since it packs events (schema 23)"""


def newer(agent: Path) -> sqlite3.Connection:
    path = agent / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(NEWER)
    db.execute("insert into session_windows values(?, 'agent:max:main', 'direct')", (ID,))
    return db


def pack(db: sqlite3.Connection, session: str, seq: int, row: Mapping[str, Any]) -> None:
    text = orjson.dumps(row)
    packed = zstandard.compress(text)
    db.execute("insert into transcript_events values(?, ?, null, 0, ?, ?)", (session, seq, packed, len(text)))


def freeze(
    db: sqlite3.Connection, agent: Path, session: str, rows: list[dict[str, Any]], *, inside: bool, sha256: str = ""
) -> Path:
    """Puts a whole session into a cold archive, as OpenClaw does with one that rested."""
    events = [
        {"kind": "event", "row": {"seq": n, "event_json": orjson.dumps(row).decode(), "created_at": 0}}
        for n, row in enumerate(rows)
    ]
    raw = jsonl([{"version": 1, "sessionId": session, "generation": "g1"}, {"kind": "meta"}, *events])
    packed = zstandard.compress(raw)
    digest = hashlib.sha256(packed).hexdigest()
    file = agent / "sessions" / "cold" / f"{digest}.jsonl.zst"
    if not inside:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(packed)
    db.execute("delete from transcript_events where session_id = ?", (session,))
    db.execute(
        "insert into session_transcript_cold_archives values(?, 'g1', ?, ?, ?, ?, ?, ?, 0, ?, ?)",
        (
            *(session, file.name, sha256 or digest, len(rows), len(raw), len(packed), len(rows) - 1),
            *(("sqlite", packed) if inside else ("file", None)),
        ),
    )
    return file


@pytest.mark.row("A083", "… with packed events", of="OpenClaw's database yields the")
def test_packed_events_are_the_same_memories(agent: Path, tmp_path: Path):
    """Some rows are packed, some not; a damaged one is reported and the others are stored."""
    live = memories(put(tmp_path / "agents" / "max" / "sessions" / f"{ID}.jsonl", TALK))
    db = newer(agent)
    for seq, row in enumerate(TALK):
        if seq % 2:
            pack(db, ID, seq, row)
        else:
            db.execute(
                "insert into transcript_events values(?, ?, ?, 0, null, null)", (ID, seq, orjson.dumps(row).decode())
            )
    assert memories(agent) == live
    db.execute("update transcript_events set event_zstd = x'28b52ffd00' where seq = 1")
    assert [item.text for item in memories(agent)] == ["From Kedjan.", "Thanks"]
    assert reasons(agent) == ["an event that is not a JSON object"]
    db.close()


@pytest.mark.row(
    "A083",
    "… with archived sessions, in the database or in a file next to it",
    of="OpenClaw's database yields the",
)
@pytest.mark.parametrize("inside", [True, False], ids=["in the database", "in a file beside it"])
def test_a_session_that_went_cold_has_the_same_memories(agent: Path, tmp_path: Path, inside: bool):
    """What is said in it later follows in its order; the archive's file is not read twice."""
    later = claw(9, "user", "And the tyres?")
    live = memories(put(tmp_path / "agents" / "max" / "sessions" / f"{ID}.jsonl", [*TALK, later]))
    db = newer(agent)
    freeze(db, agent, ID, TALK, inside=inside)
    assert memories(agent) == live[:-1]
    pack(db, ID, len(TALK), later)
    db.close()
    assert memories(agent) == live
    assert reasons(agent) == []


def test_bookmarks_hold_when_a_session_goes_cold(agent: Path, home: Path):
    """All of it read before: nothing again. Some of it: the whole again, by the same keys. Then what is new."""
    db = newer(agent)
    for seq, row in enumerate(TALK):
        pack(db, ID, seq, row)
    marks = Bookmarks(home, ADA)
    first = memories(agent, bookmarks=marks)
    marks.commit()
    freeze(db, agent, ID, TALK, inside=True)
    marks = Bookmarks(home, ADA)
    assert (memories(agent, bookmarks=marks), marks.known) == ([], 3)
    pack(db, ID, len(TALK), claw(9, "user", "And the tyres?"))
    db.execute("delete from session_transcript_cold_archives")
    freeze_rows = [*TALK, claw(9, "user", "And the tyres?")]
    freeze(db, agent, ID, freeze_rows, inside=True)
    again = memories(agent, bookmarks=Bookmarks(home, ADA))
    assert again[:3] == first
    assert [item.text for item in again[3:]] == ["And the tyres?"]
    db.close()


@pytest.mark.parametrize("fault", ["gone", "another", "a link", "a way out", "cut short", "another's"])
def test_a_cold_archive_that_does_not_match_is_reported(agent: Path, tmp_path: Path, fault: str):
    """By session and reason; the other sessions are read."""
    db = newer(agent)
    db.execute("insert into session_windows values(?, 'agent:max:main', 'direct')", (OTHER,))
    for seq, row in enumerate(TALK):
        pack(db, OTHER, seq, row)
    file = freeze(db, agent, ID, TALK, inside=False, sha256="0" * 64 if fault == "another" else "")
    if fault == "gone":
        file.unlink()
    elif fault == "a link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif fault == "a way out":
        db.execute("update session_transcript_cold_archives set archive_name = ?", (f"../cold/{file.name}",))
    elif fault == "cut short":
        db.execute("update session_transcript_cold_archives set last_seq = last_seq + 1")
    elif fault == "another's":
        db.execute("update session_transcript_cold_archives set session_id = 'somebody'")
    db.close()
    (reason,) = reasons(agent / "agent" / "openclaw-agent.sqlite")
    assert reason in ("gone before it could be read", UNKNOWN_COLD, "too many levels of symbolic links")
    read_all = {item.scope.session_id for item in memories(agent / "agent" / "openclaw-agent.sqlite")}
    assert read_all == ({ID, OTHER} if fault == "cut short" else {OTHER})  # the readable part, and the rest is reported


@pytest.mark.row(
    "A083",
    "… with sessions that were deleted or reset before they had a file",
    of="OpenClaw's database yields the",
)
@pytest.mark.parametrize("encoding", ["identity", "zstd"])
def test_sessions_that_were_deleted_or_reset_inside_the_database(
    agent: Path, tmp_path: Path, home: Path, encoding: str
):
    """The same memories as from the file that OpenClaw makes of them; scheduled ones are left out; read once."""
    live = memories(put(tmp_path / "agents" / "max" / "sessions" / f"{ID}.jsonl", TALK))
    db = newer(agent)
    blob = zstandard.compress(jsonl(TALK)) if encoding == "zstd" else jsonl(TALK)
    for session, key in ((ID, "agent:max:main"), (OTHER, "agent:max:cron:5f1")):
        db.execute(
            "insert into session_transcript_archives values(?, 'g0', ?, 'deleted', ?, ?, ?, ?, 0, null)",
            (session, key, encoding, blob, hashlib.sha256(blob).hexdigest(), f"{session}.jsonl.deleted.x"),
        )
    marks = Bookmarks(home, ADA)
    assert memories(agent, bookmarks=marks) == live
    marks.commit()
    marks = Bookmarks(home, ADA)
    assert (memories(agent, bookmarks=marks), marks.known) == ([], 3)
    assert reasons(agent) == [UNATTENDED]
    db.execute("update session_transcript_archives set archive_sha256 = ?", ("0" * 64,))
    db.close()
    assert reasons(agent) == [UNKNOWN_COLD, UNATTENDED]


def test_openclaws_database_has_the_same_memories_as_its_files(agent: Path, tmp_path: Path):
    """Moved from JSONL into SQLite by OpenClaw, every turn keeps its natural key."""
    live = memories(put(tmp_path / "agents" / "max" / "sessions" / f"{ID}.jsonl", TALK))
    database(agent / "agent" / "openclaw-agent.sqlite", (ID, "agent:max:main", "direct", TALK)).close()
    assert memories(agent) == live
    assert len(live) == 3


@pytest.mark.row("A083", "OpenClaw's database yields the same memories as its files, and is never written")
def test_a_database_in_use_is_read_and_left_as_it_is(agent: Path):
    """During another writer's transaction; and if nobody has it open, no file is created next to it."""
    path = agent / "agent" / "openclaw-agent.sqlite"
    db = database(path, (ID, "agent:max:main", None, TALK))
    db.execute("begin immediate")
    add(db, ID, [claw(5, "user", "not yet")])
    assert len(memories(path)) == 3
    db.execute("commit")
    assert texts(path)[-1] == "not yet"
    db.close()
    before = sorted((p.name, p.stat().st_mtime_ns) for p in path.parent.iterdir())
    assert len(memories(path)) == 4
    assert sorted((p.name, p.stat().st_mtime_ns) for p in path.parent.iterdir()) == before


@pytest.mark.row(
    "A090",
    "the origins owner, agent, tool, import and system and four levels of trust represent OpenClaw's "
    "origin classes: in a group no statement counts as the owner's",
)
def test_sessions_of_groups_and_of_machines_in_a_database(agent: Path):
    """A group's session is for its audience and its user turns not the owner's; a scheduled one is left out."""
    database(
        agent / "agent" / "openclaw-agent.sqlite",
        (ID, "agent:max:telegram:group:7", "group", TALK),
        (OTHER, "agent:max:cron:5f1", None, TALK),
    ).close()
    found = memories(agent)
    assert {(item.scope.session_id, item.scope.audience) for item in found} == {(ID, "group")}
    assert [item.origin for item in found] == ["import", "agent", "import"]
    assert reasons(agent) == [UNATTENDED]


@pytest.mark.feature("a database of an unknown version is skipped with its reason")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("create table messages(id integer)", "its tables are not known of OpenClaw"),
        ("create table transcript_events(seq integer, payload text)", "its tables are not known of OpenClaw"),
        (None, "not an SQLite database"),
    ],
)
def test_another_database_is_skipped_with_its_reason(agent: Path, schema: str | None, reason: str):
    """A version of OpenClaw that is not known yet, or no database at all."""
    path = agent / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    if schema is None:
        path.write_bytes(b"x" * 5000)
    else:
        db = sqlite3.connect(path)
        db.execute(schema)
        db.close()
    [told] = reasons(agent)
    assert told.startswith(reason)


class Swap:
    """Connects to a database while its folder is replaced by a link to another folder."""

    def __init__(self, folder: Path, other: Path) -> None:
        self.folder, self.other = folder, other

    def __call__(self, *args: Any, **options: Any) -> sqlite3.Connection:
        aside = self.folder.with_name("aside")
        self.folder.rename(aside)
        self.folder.symlink_to(self.other)
        db = sqlite3.connect(*args, **options)
        db.execute("select count(*) from sqlite_master").fetchone()  # it opens its files now
        self.folder.unlink()
        aside.rename(self.folder)
        return db


@pytest.mark.feature("a database of sessions is not read through a link that stands for its folder for a moment")
@pytest.mark.parametrize("part", ["database", "log"])
def test_a_database_is_not_read_through_a_link_that_replaces_its_folder(agent: Path, tmp_path: Path, part: str):
    """Neither the database of the other folder, nor only its log: the database itself may be a hard link there."""
    path, other = agent / "agent" / "openclaw-agent.sqlite", tmp_path / "other" / "openclaw-agent.sqlite"
    live, secret = tmp_path / "live.sqlite", [claw(1, "user", "The code of the safe is 4711.")]
    for target, rows in ((path, TALK), (other, secret)):
        live.unlink(missing_ok=True)
        writer = database(live, (ID, "agent:max:main", None, rows))
        target.parent.mkdir(parents=True)
        for suffix in ("", "-wal") if part == "log" else ("",):
            if not suffix and part == "database":
                writer.execute("pragma wal_checkpoint(truncate)")
            Path(f"{target}{suffix}").write_bytes(Path(f"{live}{suffix}").read_bytes())
        writer.close()
    if part == "log":
        other.unlink()
        other.hardlink_to(path)
    found = list(openclaw_database.database(path, ADA, connect=Swap(path.parent, other.parent)))
    assert found == [Skip(str(path), "changed while it was read; run it again")]
    assert texts(path) == [item.text for item in memories(path)]
    assert len(memories(path)) == 3


# From where it was left


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a journal."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "journal.sqlite").write_bytes(b"j" * 100)
    return home


def run(home: Path, *paths: Path, scope: Scope = ADA) -> tuple[list[str], int]:
    """One run that is acknowledged to its end: what it handed on, and what it knew from earlier ones."""
    marks = Bookmarks(home, scope)
    found = texts(*paths, scope=scope, bookmarks=marks)
    marks.commit()
    return found, marks.known


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.feature("a session is read on from its bookmark")
def test_a_session_is_read_on_from_where_it_was_left(home: Path, projects: Path):
    """Its new turns go on counting; an unchanged file hands on nothing; another user's memories are other memories."""
    file = put(projects / f"{ID}.jsonl", [claude(n, "user", f"turn {n}") for n in range(1300)])
    assert run(home, projects) == ([f"turn {n}" for n in range(1300)], 0)
    assert run(home, projects) == ([], 1300)
    append(file, jsonl([claude(1300, "user", "one more")]))
    marks = Bookmarks(home, ADA)
    [more] = memories(projects, bookmarks=marks)
    assert (more.text, more.place) == ("one more", Place(f"claude-code/{ID}", 1300, 1300))
    assert len(run(home, projects, scope=Scope(user_id="tom"))[0]) == 1301


def test_a_secret_in_a_sessions_path_is_not_in_its_bookmark(home: Path, projects: Path):
    """It has a bookmark all the same."""
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    put(projects / secret / f"{ID}.jsonl", [claude(1, "user", "once")])
    assert run(home, projects) == (["once"], 0)
    assert run(home, projects) == ([], 1)
    assert secret not in (home / FILE).read_text()


def test_turns_that_were_not_acknowledged_are_read_again(home: Path, projects: Path):
    """A run that broke off before its first commit leaves no bookmark."""
    put(projects / f"{ID}.jsonl", [claude(1, "user", "once")])
    assert texts(projects, bookmarks=Bookmarks(home, ADA)) == ["once"]
    assert run(home, projects) == (["once"], 0)


@pytest.mark.feature("an incomplete line is left for the next run")
def test_half_a_line_is_left_for_the_next_run(home: Path, projects: Path):
    """It is being written: no error, and read once it is whole; a whole one that only lacks its end is read at once."""
    file = put(projects / f"{ID}.jsonl", [claude(1, "user", "one")])
    line = jsonl([claude(2, "user", "two")])
    append(file, line[:40])
    assert reasons(file) == []
    assert run(home, file) == (["one"], 0)
    append(file, line[40:-1])
    assert run(home, file) == (["two"], 1)
    append(file, b"\n" + jsonl([claude(3, "user", "three")]))
    assert [(m.text, m.place.start) for m in memories(file, bookmarks=Bookmarks(home, ADA)) if m.place] == [
        ("two", 1),  # again, with the same key: nothing is believed of a line before its end is there
        ("three", 2),
    ]


def test_a_heartbeat_is_remembered_across_runs(home: Path, agent: Path):
    """Its answer, written after the bookmark, is still an answer to it."""
    file = put(agent / "sessions" / f"{ID}.jsonl", [HEADER, claw(1, "user", "[OpenClaw heartbeat poll]")])
    run(home, file)
    append(file, jsonl([claw(2, "assistant", "The mail has come."), claw(3, "user", "Good")]))
    assert run(home, file)[0] == ["Good"]


@pytest.mark.feature("a bookmark is used only while it matches the file")
@pytest.mark.parametrize(
    "how", ["truncated", "rewritten", "replaced", "other journal", "new journal", "grown journal", "no cache"]
)
def test_a_bookmark_is_believed_only_where_it_still_holds(home: Path, projects: Path, how: str):
    """A file that was cut, rewritten or replaced is read anew; so is everything when the home has another journal."""
    file = put(projects / f"{ID}.jsonl", [claude(n, "user", f"turn {n}") for n in range(3)])
    run(home, file)
    everything = [f"turn {n}" for n in range(3)]
    if how == "truncated":
        put(file, [claude(0, "user", "turn 0")])
        everything = everything[:1]
    elif how == "rewritten":
        put(file, [claude(n, "user", f"changed {n}") for n in range(3)])
        everything = [f"changed {n}" for n in range(3)]
    elif how == "replaced":
        data = file.read_bytes()
        (projects / "new").write_bytes(data)
        (projects / "new").rename(file)
    elif how == "other journal":
        (home / "journal.sqlite").rename(home / "aside")
        (home / "journal.sqlite").write_bytes(b"j" * 100)
    elif how == "new journal":  # in the same inode, as a file system may give it out again
        (home / "journal.sqlite").write_bytes(b"j" * 50)
    elif how == "grown journal":
        append(home / "journal.sqlite", b"more")
        everything = []
    else:
        (home / "ingest.json").write_bytes(b"nonsense")
    assert run(home, file)[0] == everything


def test_plain_lines_are_read_again_as_soon_as_anybody_touched_them(home: Path, tmp_path: Path):
    """They may be edited anywhere; an unchanged file is known as a whole. An invalid line is reported each time."""
    file = put(tmp_path / "a.jsonl", [{"text": "one"}, {"text": "two"}])
    assert run(home, file) == (["one", "two"], 0)
    assert run(home, file) == ([], 2)
    assert run(home, file, scope=Scope(user_id="ada", session_id="s"))[0] == ["one", "two"]
    append(file, b'{"text": "three"}\n{no json}\n')
    assert run(home, file) == (["one", "two", "three"], 0)
    assert run(home, file) == (["one", "two", "three"], 0)


def test_an_archive_and_a_database_are_read_on_too(home: Path, agent: Path):
    """An archive whole, a database by its rows; a rewritten transcript anew."""
    path = agent / "sessions" / f"{OTHER}.jsonl.deleted.2026.zst"
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.compress(jsonl(TALK)))
    db = database(agent / "agent" / "openclaw-agent.sqlite", (ID, "agent:max:main", None, TALK))
    assert len(run(home, agent)[0]) == 6
    assert run(home, agent) == ([], 6)
    add(db, ID, [claw(5, "user", "one more")])
    assert run(home, agent) == (["one more"], 6)
    db.execute("update transcript_events set event_json = replace(event_json, 'more', 'less')")
    assert run(home, agent) == (
        ["Where do the chains come from?", "From Kedjan.", "Thanks", "one less"],
        3,
    )
    db.close()


def test_bookmarks_are_their_owners_alone(home: Path, projects: Path):
    """They say what somebody works on."""
    run(home, put(projects / f"{ID}.jsonl", [claude(1, "user", "one")]))
    assert (home / "ingest.json").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in home.iterdir()) == ["ingest.json", "journal.sqlite"]


# One transcript, entry by entry


def test_a_hook_reads_one_transcript_as_a_folder_is_read(home: Path, projects: Path):
    """`read_session` and `Transcript` give the same memories, with the same keys."""
    rows = [claude(1, "user", "one"), claude(2, "assistant", "two")]
    file = put(projects / f"{ID}.jsonl", rows)
    session = session_of(file, ADA)
    assert session is not None
    reader = Transcript(session)
    assert [reader.take(row) for row in rows] == list(read_session(file, ADA)) == memories(file)
    assert [m.text for m in map(Transcript(session, turns=1).take, rows[1:]) if isinstance(m, NewMemory)] == ["two"]
    assert list(read_session(put(projects / "x.jsonl", [{"text": "x"}]), ADA)) == [
        Skip(str(projects / "x.jsonl"), "not a transcript of a known agent")
    ]
