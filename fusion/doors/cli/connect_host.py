"""`fusion connect`: names the MCP server in the configuration file of an agent's host, and takes that back."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.host_files import HOSTS, Host, read_text, real_file
from fusion.errors import BadInput, NotFound, ServerUnreachable, SettingsError
from fusion.lib.did_you_mean import hint
from fusion.store.private_files import read_regular, write_atomically
from fusion.version import VERSION

FOLDER = "connected"
"""the folder in the home that keeps each changed file as it was"""
MAX_KEPT_BYTES = 32 << 20
CHECK_S = 90.0
"""seconds for the call that checks a connection, in which the home's server may have to start"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A host's file before and after a connection; None: it was not there. ``folders`` were made for it."""

    file: Path
    before: str | None
    after: str
    folders: tuple[str, ...] = ()


@command(without=["direct"])
def connect(
    *,
    host: Annotated[str, typer.Argument(help=f"The host: {', '.join(HOSTS)}. Without one, all are listed.")] = "",
    user: Annotated[str | None, typer.Option("--user", help="Whose memories it reads and writes (user_id).")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the connection back: the file becomes as it was.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change; write nothing.")] = False,
    target: Target,
) -> None:
    """Add the memory to an agent's host, and check it by a call.

    Everything else in the host's file stays as it is, comments too. The file is kept as it was, for --undo.
    """
    if not host:
        listed = {name: _state(one) for name, one in HOSTS.items()}
        target.show({"hosts": listed}, "\n".join(f"{name:<12} {state}" for name, state in listed.items()))
        return
    if host not in HOSTS:
        raise BadInput(f"there is no host {host!r}: there are {', '.join(HOSTS)}{hint(host, HOSTS)}")
    home = target.folder()
    if not home.is_dir():
        raise NotFound(f"There is no home {home}. To make one: fusion init")
    about, record = HOSTS[host], home / FOLDER / f"{host}.json"
    file = about.file(Path.home())
    before = read_text(file)
    words = None if undo else server_words(home, user)
    kept = _kept(record, file)
    original = _original(about, before, kept)
    if undo and original == before:
        raise NotFound(f"{about.title} is not connected: {file} does not name {about.adds}")
    after = original if undo else about.changed(before or "", words)
    changed = after != before
    if changed and not dry_run:
        made = _missing(file.parent)
        replace_text(file, before, after)
        folders = kept.folders if kept else ()
        if undo:
            _remove_empty(folders)
            record.unlink(missing_ok=True)
        else:
            _keep(record, Kept(file, original, after or "", (*folders, *made)))
    checked = None if dry_run or words is None else check(words)
    report = {"host": host, "file": str(file), "changed": changed, "dry_run": dry_run, "undo": undo, "checked": checked}
    target.show(report, "\n".join(_told(about, report, before, after)))


def server_words(home: Path, user: str | None = None) -> list[str]:
    """The command of the MCP server of a home, with full paths: hosts have another PATH and folder."""
    beside = Path(sys.executable).with_name("fusion")
    found = str(beside) if beside.exists() else shutil.which("fusion")
    own = [found] if found else [sys.executable, "-m", "fusion"]
    return [*own, "mcp", "--home", str(home), *(["--user", user] if user else [])]


def check(words: list[str]) -> str:
    """What a server that is started by a command says of itself after a call of a tool. Raises ServerUnreachable."""
    client = {"name": "fusion connect", "version": VERSION}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    call = {"name": "memory_search", "arguments": {"query": "what is remembered?"}}
    sent: list[Mapping[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call},
    ]
    try:
        replies = _replies(words, sent, 3)
        tools, result = replies[2]["result"]["tools"], replies[3]["result"]
        said = str(result["content"][0]["text"])
    except (OSError, ValueError, KeyError, LookupError, subprocess.SubprocessError) as error:
        raise ServerUnreachable(f"{' '.join(words)} does not answer ({type(error).__name__}: {error})") from None
    if result.get("isError") or "Memory is unavailable" in said:
        raise ServerUnreachable(f"The server was added, and its tools do not work yet: {said}")
    return f"{len(tools)} tools, and a search was answered"


def _replies(words: list[str], sent: list[Mapping[str, Any]], awaited: int) -> dict[int, dict[str, Any]]:
    """The replies of a server by their ids, until the one that is awaited."""
    found: dict[int, dict[str, Any]] = {}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        killer = _after(CHECK_S, server.kill)
        try:
            assert server.stdin is not None and server.stdout is not None  # noqa: S101, PT018 - both are pipes
            server.stdin.writelines(json.dumps(one) + "\n" for one in sent)
            server.stdin.flush()
            while awaited not in found and (line := server.stdout.readline()):
                reply = json.loads(line)
                found[reply["id"]] = reply
        finally:
            killer.cancel()
            server.kill()
    return found


def _after(seconds: float, do: Callable[[], None]) -> Timer:
    """A timer that does something unless it is cancelled before."""
    timer = Timer(seconds, do)
    timer.daemon = True
    timer.start()
    return timer


def _state(host: Host) -> str:
    """Whether a host has the server."""
    file = host.file(Path.home())
    try:
        words = host.words_in(read_text(file) or "")
    except (ValueError, SettingsError):
        return f"its file {file} is damaged, or a link out of your folder"
    if words:
        return f"connected: {' '.join(words)}"
    return "not connected" if file.parent.is_dir() else "not found on this computer"


def _original(host: Host, before: str | None, kept: Kept | None) -> str | None:
    """The host's file as it was before the connection; if it was changed since, without what the connection added.

    A file without a connection is its own original. Raises BadInput for a damaged file.
    """
    if kept is not None and kept.after == before and host.entry_in(kept.before or "") is None:
        return kept.before
    if before is None:
        return None
    rest = host.changed(before, None)
    if host.entry_in(before) is None:
        return before
    if kept is None or host.names_servers(kept.before or ""):
        return rest
    rest = host.without_empty_servers(rest)
    return None if kept.before is None and not host.parsed(rest) else rest


def _kept(record: Path, file: Path) -> Kept | None:
    """What is known of the last connection, unless it was one of another file."""
    try:
        found = json.loads(read_regular(record, MAX_KEPT_BYTES, ours=True))
        kept = Kept(Path(found["file"]), found["before"], found["after"], tuple(found.get("folders", ())))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kept if kept.file == file else None


def _keep(record: Path, kept: Kept) -> None:
    record.parent.mkdir(mode=0o700, exist_ok=True)
    content = {"file": str(kept.file), "before": kept.before, "after": kept.after, "folders": kept.folders}
    write_atomically(record, json.dumps(content).encode())


def replace_text(file: Path, before: str | None, text: str | None) -> None:
    """Write a host's file whole, with the mode that it has; for None, remove it.

    Raises SettingsError, with nothing written, if its text is not ``before`` any more: the host writes it as well.
    """

    def unchanged(_: object = None) -> None:
        if read_text(file) != before:
            raise SettingsError(f"{file} was changed by another program just now; nothing is written. Try again.")

    real = real_file(file)
    if text is None:
        unchanged()
        real.unlink(missing_ok=True)
        return
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    write_atomically(real, text.encode(), check=unchanged)
    real.chmod(mode)


def _missing(folder: Path) -> tuple[str, ...]:
    """The folders that have to be made for one, the outermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    return tuple(str(one) for one in reversed(missing))


def _remove_empty(folders: Sequence[str]) -> None:
    """Remove the folders that a connection made, unless something else is in them by now."""
    for folder in reversed(folders):
        try:
            Path(folder).rmdir()
        except OSError:
            return


def _told(host: Host, report: Mapping[str, Any], before: str | None, after: str | None) -> list[str]:
    """The report for people: the change as a diff, and what comes next."""
    lines = list(
        difflib.unified_diff(
            (before or "").splitlines(), (after or "").splitlines(), report["file"], report["file"], lineterm="", n=1
        )
    )
    if not report["changed"]:
        lines.append(f"{host.title} has {host.adds} already; nothing is changed.")
    elif not report["dry_run"]:
        lines.append(f"Taken back from {report['file']}." if report["undo"] else f"Added to {report['file']}.")
        lines.append(f"Restart {host.title} to let it read the file.")
    if report["checked"]:
        lines.append(f"Checked: {report['checked']}.")
    return lines
