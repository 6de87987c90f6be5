"""What lies on a computer is found by names and heads, within bounds, and without leaving its folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from fusion.discover import discover
from fusion.discover.files import HEAD_BYTES, LARGE_FILES, Find, find

CLAUDE = {"type": "user", "sessionId": "s1", "message": {"role": "user", "content": "hello"}}
OPENCLAW = {"type": "session", "id": "s1", "timestamp": "2026-03-01T09:00:00Z"}


def write(path: Path, content: str = "# A note\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def rows(path: Path, *lines: object) -> Path:
    return write(path, "".join(json.dumps(line) + "\n" for line in lines))


def shown(finds: tuple[Find, ...], user: Path) -> list[tuple[str, str, int]]:
    return [(one.kind, str(one.where.relative_to(user)), one.files) for one in finds]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "ada"
    folder.mkdir()
    return folder


@pytest.mark.row("A054", "notes, vaults and sessions are found by file names and first lines, within bounds")
def test_the_places_that_agents_and_people_use(user: Path) -> None:
    """OpenClaw, clawd, Claude Code, Obsidian's list, vaults in Documents, notes: each once, with what it holds."""
    write(user / ".openclaw/workspace/MEMORY.md")
    write(user / ".openclaw/workspace/memory/2026-03-01.md")
    write(user / ".openclaw/workspace-max/MEMORY.md")
    rows(user / ".openclaw/agents/main/sessions/a.jsonl", OPENCLAW)
    (user / ".openclaw/agents/max/agent").mkdir(parents=True)
    (user / ".openclaw/agents/max/agent/openclaw-agent.sqlite").write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    (user / ".openclaw/agents/max/agent/other.sqlite").write_bytes(b"no database")
    write(user / "clawd/SOUL.md")
    rows(user / ".claude/projects/-home-ada/s1.jsonl", {"type": "summary", "leafUuid": "x"}, CLAUDE)
    rows(user / ".claude/projects/-home-ada/s2.jsonl", CLAUDE)
    vault = write(user.parent / "disk/vault/idea.md").parent
    (vault / ".obsidian").mkdir()
    listed = {"vaults": {"1": {"path": str(vault)}, "2": {"path": str(user / "gone")}, "3": {"path": "relative"}}}
    write(user / ".config/obsidian/obsidian.json", json.dumps(listed))
    write(user / "Documents/Second/note.md")
    (user / "Documents/Second/.obsidian").mkdir()
    write(user / "Documents/Journal/2026/march.md")
    write(user / "Documents/loose.md")
    write(user / "Documents/code/README.md")
    (user / "Documents/code/.git").mkdir()
    write(user / "Notes/todo.markdown")
    write(user / "Pictures/readme.txt")
    found = find(user, user)
    assert found.complete
    assert [(one.kind, one.where.name, one.files) for one in found.finds] == [
        ("workspace", "workspace", 2),
        ("workspace", "workspace-max", 1),
        ("workspace", "clawd", 1),
        ("openclaw", "agents", 2),
        ("claude-code", "projects", 2),
        ("vault", "vault", 1),
        ("vault", "Second", 1),
        ("notes", "Notes", 1),
        ("notes", "Documents", 1),
        ("notes", "Journal", 1),
    ]
    talks = found.finds[3]
    assert [path.name for path in talks.paths] == ["sessions", "openclaw-agent.sqlite"]
    assert [one.group for one in found.finds] == ["notes"] * 3 + ["sessions"] * 2 + ["notes"] * 5
    assert found.finds[8].paths == (user / "Documents/loose.md",)


def test_the_folder_one_works_in(user: Path) -> None:
    """Of a checkout its memory, notes and docs folders; of a workspace everything; of a folder of notes its parts."""
    code, workspace, plain = user / "code", user / "agent", user / "plain"
    for name in ("memory/a.md", "docs/b.md", "src/README.md", "README.md"):
        write(code / name)
    (code / ".git").mkdir()
    write(workspace / "MEMORY.md")
    write(workspace / "memory/a.md")
    write(plain / "one.md")
    write(plain / "more/two.md")
    assert shown(find(user, code).finds, user) == [("notes", "code/docs", 1), ("notes", "code/memory", 1)]
    assert shown(find(user, workspace).finds, user) == [("workspace", "agent", 2)]
    assert shown(find(user, plain).finds, user) == [("notes", "plain", 1), ("notes", "plain/more", 1)]
    assert find(user, user).finds == ()
    assert find(user, user.parent).finds == ()


def test_a_folder_that_is_named_is_searched(user: Path) -> None:
    """Its workspace, its sessions by their heads wherever they lie, its JSONL of memories; what is neither is not."""
    there = user / "backup"
    write(there / "workspace/MEMORY.md")
    write(there / "workspace/memory/a.md")
    rows(there / "workspace/extra.jsonl", {"text": "read with the workspace"})
    rows(there / "talks/claude.jsonl", CLAUDE)
    rows(there / "talks/openclaw.jsonl", OPENCLAW)
    rows(there / "facts.jsonl", {"text": "We deploy on Tuesdays."})
    rows(there / "table.jsonl", {"rows": 3})
    write(there / "broken.jsonl", "{nonsense")
    assert shown(find(user, user, [there]).finds, user) == [
        ("workspace", "backup/workspace", 2),
        ("memories", "backup/facts.jsonl", 1),
        ("claude-code", "backup/talks/claude.jsonl", 1),
        ("openclaw", "backup/talks/openclaw.jsonl", 1),
    ]


@pytest.mark.feature("… a named folder with loose notes is followed as a whole", of="notes, vaults and sessions are")
def test_a_folder_that_is_named_and_has_loose_notes_is_followed_as_a_whole(user: Path) -> None:
    """So that the next note in it is found as well; in one with folders of notes each can be chosen on its own, and
    nobody's home is taken whole for a note that lies in it."""
    there, mixed = user / "diary", user / "mixed"
    write(there / "one.md")
    write(mixed / "one.md")
    write(mixed / "more/two.md")
    write(user / "loose.md")
    (found,) = find(user, user, [there]).finds
    assert (found.kind, found.where, found.paths, found.files) == ("notes", there, (there,), 1)
    assert [one.paths for one in find(user, user, [mixed]).finds] == [(mixed / "one.md",), (mixed / "more",)]
    shutil.rmtree(there)
    shutil.rmtree(mixed)
    assert [one.paths for one in find(user, user, [user]).finds] == [(user / "loose.md",)]


@pytest.mark.feature("… no link is followed", of="notes, vaults and sessions are")
def test_links_lead_nowhere(user: Path) -> None:
    """A link to a folder, to a file, to a vault and to itself: nothing behind them is read or counted."""
    outside = user.parent / "outside"
    write(outside / "secret.md")
    (outside / ".obsidian").mkdir()
    notes = write(user / "notes/mine.md").parent
    (notes / "out").symlink_to(outside)
    (notes / "secret.md").symlink_to(outside / "secret.md")
    (notes / "round").symlink_to(notes)
    (user / "vault").symlink_to(outside)
    (user / "Documents").symlink_to(outside)
    (user / "clawd").symlink_to(outside)
    assert shown(find(user, user).finds, user) == [("notes", "notes", 1)]


def test_hidden_and_machine_made_folders_are_not_entered(user: Path) -> None:
    """As the Markdown backend and ingest do it, so that the count is what will be read."""
    write(user / "notes/a.md")
    write(user / "notes/.trash/b.md")
    write(user / "notes/node_modules/c.md")
    write(user / "notes/.hidden.md")
    assert shown(find(user, user).finds, user) == [("notes", "notes", 1)]


def test_our_own_home_is_never_found(user: Path) -> None:
    """The notes that the gateway keeps are no discovery, wherever its home lies."""
    write(user / "Documents/fusion-home/backends/markdown/notes/a.md")
    assert find(user, user, never=[user / "Documents/fusion-home"]).finds == ()


def test_a_place_is_found_once(user: Path) -> None:
    """A folder in a folder that was found is read with it; one that is named twice is one."""
    write(user / "notes/a.md")
    write(user / "notes/office/b.md")
    rows(user / "notes/c.jsonl", {"text": "x"})
    assert shown(find(user, user / "notes/office", [user / "notes", user / "notes/office"]).finds, user) == [
        ("notes", "notes", 2)
    ]


def test_the_limits_of_a_search_are_kept_and_reported(user: Path) -> None:
    """With 50 names to look at, of 200 notes some are counted, and the find and the whole say that they are not all."""
    for number in range(200):
        write(user / f"notes/{number // 20}/{number}.md")
    found = find(user, user, entries=50)
    assert not found.complete
    assert all(not one.complete and one.large and one.files < 200 for one in found.finds)
    assert find(user, user, seconds=-1).finds == ()
    assert not find(user, user, seconds=-1).complete


def test_a_great_many_notes_are_large(user: Path) -> None:
    """One more than the limit: it is found, and said to be large."""
    small, large = (Find("notes", user, (user,), LARGE_FILES + more, 0) for more in (0, 1))
    assert (small.large, large.large) == (False, True)


def test_only_heads_are_read(user: Path) -> None:
    """Memories whose first line is longer than a head are none to us; a pipe is not waited for."""
    rows(user / "there/a.jsonl", {"blob": "x" * HEAD_BYTES, "text": "x"})
    os.mkfifo(user / "there/b.jsonl")
    assert find(user, user, [user / "there"]).finds == ()


def test_names_that_cannot_be_printed_are_left_out(user: Path) -> None:
    """Bytes that are no UTF-8, a line break: they could not be written into a configuration."""
    (user / "notes").mkdir()
    for name in (b"\xff.md", b"a\nb.md"):
        Path(os.fsdecode(os.fsencode(user) + b"/notes/" + name)).write_text("x")
    assert find(user, user).finds == ()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"vaults": 5}', '{"vaults": {"a": {"path": 7}}}', "{nonsense"])
def test_a_strange_list_of_vaults_is_none(user: Path, content: str) -> None:
    """Whatever Obsidian's file has become."""
    write(user / ".config/obsidian/obsidian.json", content)
    assert find(user, user).finds == ()


async def test_files_and_servers_together(user: Path) -> None:
    """One call; with no ports to ask, no servers."""
    write(user / "notes/a.md")
    found = await discover(user, user, ports={})
    assert (len(found.finds), found.servers, found.complete) == (1, (), True)
