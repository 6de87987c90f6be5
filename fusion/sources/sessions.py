"""Transcripts of agents' sessions as memories: files of Claude Code and OpenClaw, packed or not.

Claude Code writes ``~/.claude/projects/<slug>/<session>.jsonl``. OpenClaw writes below ``~/.openclaw/agents/<id>``:
``sessions/*.jsonl`` with archives, and the database ``agent/openclaw-agent.sqlite`` (`openclaw_database`). Sessions are
private, except those that a database says were held in a group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from fusion.contract import Scope
from fusion.ingest.intake import NewMemory
from fusion.sources.bookmarks import Bookmark, Bookmarks, at_end, at_offset, is_untouched, still_begins
from fusion.sources.files import (
    MAX_UNPACKED_BYTES,
    Lines,
    Progress,
    Skip,
    Unreadable,
    is_json,
    is_packed,
    opened,
    unpacked,
)
from fusion.sources.turns import Session, Transcript, valid_id

MAX_LINE_BYTES = 16 << 20
"""maximum bytes of a line of a transcript: a turn may have pictures; a longer line is skipped"""
HEAD_LINES = 50
"""leading lines in which a transcript shows its session"""
HEAD_BYTES = 1 << 20
BOOKMARK_TURNS = 500
"""turns between two bookmarks"""
BEGINNING = Bookmark(0, 0, "")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT = re.compile(r"/agents/([^/]+)/(?:sessions|agent)/[^/]+$")


def session_of(path: Path, owner: Scope) -> Session | None:
    """The session of a transcript, by its first lines; None where no known agent wrote it, or it cannot be read."""
    try:
        with opened(path) as file:
            stream = unpacked(file) if is_packed(file) else file
            head = list(islice(_objects(Lines(stream, HEAD_BYTES, most=HEAD_BYTES)), HEAD_LINES))
    except Unreadable:
        return None  # reading it reports why
    return _recognise(head, path, owner)


def _objects(lines: Lines) -> Iterator[Mapping[str, Any]]:
    """The JSON objects among lines, up to the limit of ``lines``."""
    try:
        for line in lines:
            try:
                found = orjson.loads(line or b"null")
            except orjson.JSONDecodeError:
                found = None
            if isinstance(found, dict):
                yield found
    except Unreadable:
        return


def _recognise(head: Iterable[Mapping[str, Any]], path: Path, owner: Scope) -> Session | None:
    """The session that the first entries of a transcript belong to."""
    head = list(head)
    for entry in head:
        kind = entry.get("type")
        if kind == "session" and isinstance(entry.get("id"), str):
            return openclaw_session(_name(path, entry["id"]), path, owner)
        if kind == "message" and isinstance(entry.get("message"), dict) and "role" in entry["message"]:
            return openclaw_session(_name(path, None), path, owner)
        if (
            (kind in ("user", "assistant") and isinstance(entry.get("message"), dict) and "sessionId" in entry)
            or (kind == "summary" and "leafUuid" in entry)
            or (kind == "file-history-snapshot" and "messageId" in entry)
        ):
            named = next((e["sessionId"] for e in head if isinstance(e.get("sessionId"), str)), None)
            folder = next((e["cwd"] for e in head if isinstance(e.get("cwd"), str)), None)
            session = _name(path, named)
            return Session(
                "claude-code",
                session,
                replace(owner, session_id=session, project=project_of(folder) or owner.project, audience="private"),
            )
    return None


def openclaw_session(session: str, path: Path, owner: Scope) -> Session:
    """A private session of OpenClaw; its agent is named by the path, or by the owner's scope."""
    agent = _AGENT.search(path.as_posix())
    agent_id = (valid_id(agent[1]) if agent else "") or owner.agent_id
    return Session("openclaw", session, replace(owner, agent_id=agent_id, session_id=session, audience="private"))


def _name(path: Path, named: str | None) -> str:
    """A session's id: the file's name if it has a UUID, because a fork begins with another session's lines and ids."""
    stem = path.name.partition(".jsonl")[0]
    return stem if _UUID.search(stem) else valid_id(named) or stem


def project_of(folder: str | None) -> str | None:
    """The project of a working directory: its name."""
    name = Path(folder).name if folder else ""
    return valid_id(name) or None


def transcript(
    path: Path, session: Session, bookmarks: Bookmarks | None, progress: Progress
) -> Iterator[NewMemory | Skip]:
    """The turns of a transcript or a packed archive since its bookmark. Lines written during the read are left."""
    try:
        with opened(path) as file:
            mark = bookmarks.find(str(path)) if bookmarks is not None else None
            if is_packed(file):
                yield from _archive(path, file, session, bookmarks, mark)
                progress(path.stat().st_size)
                return
            if bookmarks is None or mark is None or not still_begins(mark, file.fileno()):
                mark = BEGINNING
            else:
                bookmarks.resume(mark)
            progress(file.seek(mark.offset))
            lines = Lines(file, MAX_LINE_BYTES, progress, offset=mark.offset, number=mark.lines)
            for item, before in turns_of(path, lines, session, mark):
                if bookmarks is not None and before is not None:
                    found = at_offset(file.fileno(), before.offset)
                    bookmarks.set(str(path), replace(before, inode=found.inode, digest=found.digest))
                if item is not None:
                    yield item
    except Unreadable as reason:
        yield Skip(str(path), str(reason))


def _archive(
    path: Path, file: BinaryIO, session: Session, bookmarks: Bookmarks | None, mark: Bookmark | None
) -> Iterator[NewMemory | Skip]:
    """The turns of a packed archive, unless nobody changed it since its bookmark."""
    if bookmarks is not None and mark is not None and is_untouched(mark, os.fstat(file.fileno())):
        bookmarks.resume(mark)
        return
    memories = 0
    for item, before in turns_of(
        path, Lines(unpacked(file), MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES), session, BEGINNING
    ):
        memories = before.memories if before is not None else memories
        if item is not None:
            yield item
    if bookmarks is not None:
        bookmarks.set(str(path), at_end(os.fstat(file.fileno()), memories))


def turns_of(
    path: Path, lines: Lines, session: Session, start: Bookmark
) -> Iterator[tuple[NewMemory | Skip | None, Bookmark | None]]:
    """The turns of lines. Every `BOOKMARK_TURNS` turns, and at the end, a bookmark of the place before the item."""
    reader = Transcript(session, turns=start.turns, unattended=start.unattended)
    memories = start.memories
    marked = start.turns
    here = start
    for line in lines:
        if line is None:
            yield Skip(f"{path}:{lines.number}", f"longer than {MAX_LINE_BYTES >> 20} MB"), None
            continue
        whole_line = line.endswith(b"\n")
        if not line.strip() or (not whole_line and not is_json(line)):  # it is being written
            continue
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield Skip(f"{path}:{lines.number}", "not a line of JSON"), None
            continue
        taken = reader.take(entry) if isinstance(entry, dict) else None
        item = Skip(f"{path}:{lines.number + (not whole_line)}", taken) if isinstance(taken, str) else taken
        due = reader.turns >= marked + BOOKMARK_TURNS
        if item is not None:
            yield item, here if due else None
        if due:
            marked = reader.turns
        if whole_line:
            memories += isinstance(item, NewMemory)
            here = replace(
                start,
                offset=lines.offset,
                lines=lines.number,
                turns=reader.turns,
                unattended=reader.unattended,
                memories=memories,
            )
    yield None, here
