"""`fusion doctor`: what is wrong with a home, and the command that fixes it.

It changes nothing. It asks a running server, reads databases without writing while others have them open, and looks at
the lock of the home without taking it. It opens no backend, because a server may have it open.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import fusion as package
from fusion.client import LOG, Client
from fusion.contract import NAME_PLACEHOLDER, JudgesWithModel, VerifiesOptions
from fusion.doors.cli.doctor_hosts import hosts
from fusion.doors.cli.doctor_stores import (
    ask_journal,
    backlog,
    database_server,
    databases,
    documents_held_back,
    failed_jobs,
    journal_lost,
    late_deliveries,
    links_not_read,
)
from fusion.doors.cli.finding import Finding, command, ok
from fusion.doors.cli.plural import counted
from fusion.errors import FusionError, HomeNotAllowed, PackageMissing, SettingsError
from fusion.gateway.bootstrap import checked
from fusion.gateway.embedders import RECORD
from fusion.gateway.import_class import resolve
from fusion.gateway.open_backends import NOT_OPENED
from fusion.gateway.open_models import SECOND, require_model
from fusion.gateway.shepherding import open_incidents
from fusion.home import explain_lock, owner, read_record
from fusion.lib.caller import RENAME, is_reserved, reserved_note
from fusion.local_server import failed_start, running_server
from fusion.recipe_files import recipes
from fusion.settings import LOOPBACK, Settings, load
from fusion.store.rows import time_of
from fusion.trust import require
from fusion.trust.fingerprint import printable
from fusion.trust.survey import find_links, repository_of
from fusion.trust.token import READER, TOKEN, read_reader_key, read_token

if TYPE_CHECKING:
    from fusion import wire

ASK_S = 10.0
FULL_BYTES, SCARCE_BYTES = 100_000_000, 1_000_000_000
"""free bytes on the disk of the home below which the check fails, and warns"""
BUILT = datetime(2026, 1, 1, tzinfo=UTC)
"""the earliest plausible time; a clock before it was never set"""


def examine(
    home: Path, config: Path | None = None, *, now: datetime | None = None, named: bool = True
) -> list[Finding]:
    """All findings, in the order in which to fix them; for a home that may not be opened, the reason alone."""
    now = now or datetime.now(UTC)
    try:
        require(home, named=named, config=config)
    except HomeNotAllowed as error:
        return [*_machine(), Finding("home", "fail", str(error), command(home, "allow"))]
    if links := find_links(home):
        names = ", ".join(map(printable, links))
        detail = f"links or special files are in it, and nothing is opened through these: {names}"
        return [*_machine(), Finding("home", "fail", detail[:500], "put the files themselves there")]
    found = [*_machine(), *_folder(home), *_secrets(home), *_clock(home, now)]
    settings: Settings | None = None
    try:
        settings = load(config, home=home).model_copy(update={"home": home})
        names = ", ".join(sorted(checked(recipes(settings))))
        found.append(ok("configuration", f"{_file(home, config)}; recipes: {names}"))
        if repository := repository_of((config or home / "fusion.toml").absolute()):
            detail = f"{_file(home, config)} is under version control in {repository}: a pull can change it"
            found.append(
                Finding("version control", "warn", detail, "keep it out of the repository; a change asks again")
            )
        found += _keys(settings)
    except (FusionError, OSError) as error:
        fix = f"correct it in {_file(home, config)}, or in the variable that is named"
        found.append(Finding("configuration", "fail", str(error), fix))
    status: wire.Status | None = None
    for finding, answer in _server(home):
        found.append(finding)
        status = answer or status
    if settings is not None and owner(home) is None:
        found += _ports(settings, _file(home, config))
    found += databases(home, owned=owner(home) is not None)
    if settings is not None and settings.database.in_use:
        found += database_server(settings)
    else:
        found += journal_lost(home)
    if settings is not None:
        found += _configured(settings, _file(home, config))
        found += _drifts(settings, home, now)
    found += _backends(status) if status is not None else backlog(home)
    found += failed_jobs(home, status)
    found += documents_held_back(home, status)
    found += links_not_read(status)
    found += hosts(home)
    return found


def report(findings: list[Finding], home: Path) -> dict[str, Any]:
    """What ``--json`` prints. ``mend`` is the former name of ``fix``, for scripts that read it."""
    every = [{**asdict(one), "mend": one.fix} for one in findings]
    return {"home": str(home), "ok": healthy(findings), "findings": every}


def healthy(findings: list[Finding]) -> bool:
    """Whether nothing failed; a warning is no failure."""
    return all(one.status != "fail" for one in findings)


# The machine and the folder --------------------------------------------------------------------------------------


def _machine() -> Iterator[Finding]:
    """The versions that a bug report should name."""
    python = f"Python {platform.python_version()} on {platform.system()}"
    yield ok("version", f"memory-fusion {package.__version__}, {python}, SQLite {sqlite3.sqlite_version}")


def _folder(home: Path) -> Iterator[Finding]:
    """Checks that the home belongs to this user alone, and that its disk has room."""
    if home.exists() and not home.is_dir():
        yield Finding("home", "fail", f"{home} is a file, and a home is a folder", "--home FOLDER, or FUSION_HOME")
        return
    if not home.is_dir():
        yield Finding("home", "warn", f"{home} is not there yet", command(home, "init"))
        return
    about = home.stat()
    if about.st_uid != os.geteuid():
        fix = f"sudo chown -R {os.geteuid()} {shlex.quote(str(home))}"
        yield Finding("home", "fail", f"{home} belongs to user {about.st_uid}, and this is {os.geteuid()}", fix)
    elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("home", "fail", f"{home} cannot be written to", f"chmod u+rwx {shlex.quote(str(home))}")
    elif about.st_mode & 0o077:
        fix = f"chmod go-rwx {shlex.quote(str(home))}"
        yield Finding("home", "warn", f"{home} can be read by other users of this computer", fix)
    else:
        yield ok("home", f"{home}, yours alone")
    free = shutil.disk_usage(home).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < SCARCE_BYTES:
        status: Literal["warn", "fail"] = "fail" if free < FULL_BYTES else "warn"
        yield Finding("disk", status, f"only {detail} where {home} is", f"make room; du -sh {shlex.quote(str(home))}/*")
    else:
        yield ok("disk", detail)


def _secrets(home: Path) -> Iterator[Finding]:
    """Secrets of the home that others can read or change: no server starts with such a token, and no ingest with such
    a key of the readers."""
    for name, file, read in (("token", TOKEN, read_token), ("reader key", READER, read_reader_key)):
        try:
            read(home)
        except SettingsError as error:
            yield Finding(name, "fail", str(error), f"rm {shlex.quote(str(home / file))}")


def _clock(home: Path, now: datetime) -> Iterator[Finding]:
    """Checks that the clock is neither before the date of this program nor long before the newest memory."""
    newest = ask_journal(home, "select max(recorded_at) from event")
    latest = time_of(newest) if isinstance(newest, int) else None
    fix = "set the clock: timedatectl set-ntp true"
    if now < BUILT:
        yield Finding("clock", "fail", f"it says {now:%Y-%m-%d %H:%M} UTC", fix)
    elif latest is not None and latest > now + timedelta(hours=1):
        detail = f"it says {now:%Y-%m-%d %H:%M} UTC, and a memory was recorded at {latest:%Y-%m-%d %H:%M}"
        yield Finding("clock", "warn", detail, fix)
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def _keys(settings: Settings) -> Iterator[Finding]:
    """Names who can reach the server. Loading settings refuses those that open it to others without a key."""
    keys = len(settings.keys)
    reach = "this computer only" if settings.server.host in LOOPBACK else f"{settings.server.host}"
    yield ok("access", f"{reach}, {f'{keys} API keys' if keys else 'no API key'}")
    for key in settings.keys:
        if is_reserved(key.name):
            yield Finding("key names", "warn", printable(reserved_note(key.name, key.sha256)), RENAME)
    operators = [key.name for key in settings.keys if key.role == "operator"]
    if len(operators) > 1:
        detail = f"each of the keys {', '.join(map(printable, operators))} may decide, run jobs and export everything"
        fix = 'give an agent role = "writer" in [[server.keys]], or "proposer" if a person decides what is remembered'
        yield Finding("roles", "warn", detail, fix)
    if settings.memory_cortex.open_to_local_users:
        detail = (
            f"port {settings.memory_cortex.port} needs no token: every user and program of this computer can add "
            "histories, and read memories by /hybrid-search and /recall"
        )
        fix = "let the clients send the token, and leave out open_to_local_users in [memory_cortex]"
        yield Finding("access", "warn", detail, fix)


# The server ------------------------------------------------------------------------------------------------------


def _server(home: Path) -> Iterator[tuple[Finding, wire.Status | None]]:
    """Checks which process has the home open, and what its server reports."""
    holder, record = owner(home) if home.is_dir() else None, read_record(home)
    if holder is None:
        if record is None:
            yield _last_start(home), None
        else:
            detail = f"{home / 'server.json'} names process {record.pid}, which is gone"
            yield Finding("server", "warn", detail, f"rm {shlex.quote(str(home / 'server.json'))}"), None
        return
    if not holder.serves:
        yield Finding("server", "warn", explain_lock(home, holder), f"kill {holder.pid}"), None
        return
    if record is None or running_server(home) is None:
        detail = f"process {holder.pid} ({holder.what}) has the home open and does not answer"
        yield Finding("server", "fail", detail, f"kill {holder.pid}; if it stays: kill -9 {holder.pid}"), None
        return
    try:
        with Client.of_home(home, start=False, timeout_s=ASK_S) as client:
            status = client.status()
    except FusionError as error:
        yield Finding("server", "fail", f"{record.url}: {error}", command(home, "stop")), None
        return
    if status["version"] != package.__version__:
        detail = f"{record.url} runs version {status['version']}, and this is {package.__version__}"
        yield Finding("server", "warn", detail, f"{command(home, 'stop')}; the next command starts this one"), status
    else:
        yield ok("server", f"{record.url}, process {record.pid}, version {status['version']}"), status


def _ports(settings: Settings, file: str) -> Iterator[Finding]:
    """Checks that the ports of the settings are free, all at once as the server binds them.

    A server that a command starts takes a free port, except for the compatible ports of backends.
    """
    from fusion.doors.http.serve import listen, own_ports

    own = "other commands take a free one; for `fusion serve`: --port 0, or another [server] port in"
    wanted: list[tuple[str, int, Literal["warn", "fail"], str]] = [("server.port", settings.server.port, "warn", own)]
    wanted += ((key, port, "fail", f"choose another {key} in") for key, port, _ in own_ports(settings))
    with ExitStack() as doors:
        for check, port, status, fix in wanted:
            try:
                doors.enter_context(closing(listen(settings.server.host, port)))
            except SettingsError as error:
                yield Finding(check, status, str(error).partition(". ")[0], f"{fix} {file}")
            else:
                yield ok(check, f"{settings.server.host}:{port} is free" if port else "any that is free")


def _last_start(home: Path) -> Finding:
    """Reports that no server runs, and why the last one did not start, if its log ends with that."""
    why = failed_start(home)
    if why is None:
        return ok("server", "none runs; the next command starts one")
    at = datetime.fromtimestamp((home / LOG).stat().st_mtime, UTC)
    detail = f"none runs; the last one did not start ({at:%Y-%m-%d %H:%M} UTC): {why}"
    return Finding("server", "warn", detail, "fix that; the next command starts one")


# What is configured ----------------------------------------------------------------------------------------------


def _configured(settings: Settings, file: str) -> Iterator[Finding]:
    """Checks each adapter of the settings: its code, its packages and its options."""
    wanted: dict[str, tuple[str, Mapping[str, object]]] = {}
    if not settings.embedder.none:
        wanted["embedder"] = (settings.embedder.adapter, settings.embedder.options)
    else:
        detail = "no embedding model is configured: everything is found by its words only"
        yield Finding(
            "embedder",
            "warn",
            detail,
            "[embedder] adapter and provider in fusion.toml; without them the default is used",
        )
    if second := settings.embedder.second:
        wanted["embedder.second"] = (SECOND, {**settings.embedder.options, "model": second})
    if settings.judge.judged_by:
        wanted["judge"] = (settings.judge.judged_by, settings.judge.options)
    if settings.model.adapter:
        wanted["model"] = (settings.model.adapter, settings.model.model_dump(exclude={"adapter"}))
    for name, backend in settings.backends.items():
        if backend.enabled:
            wanted[f"backends.{name}"] = (backend.adapter, backend.options)
        else:
            yield ok(f"backends.{name}", "disabled in the configuration")
    for key, (path, options) in wanted.items():
        found = path
        try:
            kind = resolve(path, f"{key}.adapter")
            if isinstance(kind, VerifiesOptions):
                found = kind.verify(options) or path
            if isinstance(kind, JudgesWithModel):
                require_model(settings)
        except FusionError as error:
            text = str(error).replace(f"[backends.{NAME_PLACEHOLDER}]", f"[{key}]")
            detail, command = _split_command(text)
            optional = isinstance(error, PackageMissing) and key.removeprefix("backends.") not in settings.asked_for
            status: Literal["warn", "fail"] = "warn" if optional and key.startswith("backends.") else "fail"
            yield Finding(key, status, detail, command or f"correct [{key}] in {file}")
        else:
            yield ok(key, found)
    for name in settings.backends:
        if (record := settings.home / "backends" / name / RECORD).is_file():
            yield ok(f"backends.{name}", f"was moved to an embedder of its own, which {record} names")
    if not settings.backends:
        yield Finding("backends", "fail", "no backend is configured", "add a [backends.NAME] table to fusion.toml")


def _drifts(settings: Settings, home: Path, now: datetime) -> Iterator[Finding]:
    """Reports drifts of MEMORY.md from its baseline."""
    for incident in open_incidents(settings, now):
        yield Finding("shepherd", "warn", incident, command(home, "shepherd diff"))


def _backends(status: wire.Status) -> Iterator[Finding]:
    """Reports each backend as the server, which has just asked it, describes it."""
    for row in status["backends"]:
        name = f"backend {row['name']}"
        detail = f"{counted(row['items'], 'memory')}, {counted(row['vectors'], 'vector')}"
        if row["status"] == "disabled" and row["detail"] == "disabled in the configuration":
            yield ok(name, row["detail"])
        elif row["status"] == "disabled":
            failed = row["detail"].startswith(NOT_OPENED)
            yield Finding(name, "fail" if failed else "warn", row["detail"], _fix_of(row["detail"]))
        elif row["breaker"] != "closed":
            wait = f"asked again in {row['wait_s']:.0f} s" if row["wait_s"] else "being asked again now"
            detail, fix = _split_fix(row["detail"] or "no reason known")
            yield Finding(name, "warn", f"left alone after failures: {detail}; {wait}", fix or "wait")
        elif row["detail"] and not row["reason"]:  # otherwise it is reported below, with its backlog
            yield Finding(name, "warn", *_split_fix(row["detail"]))
        elif not row["degraded"]:
            yield ok(name, detail)
        yield from late_deliveries(name, row["backlog"], row)
        if row["vectors_pending"]:
            detail = f"{counted(row['vectors_pending'], 'vector is')} still to come; words are found meanwhile"
            yield Finding(name, "warn", detail, "wait; fusion status shows its progress")
        for note in row["notes"]:
            yield Finding(name, "warn", *_split_fix(note))
    for note in status["notes"]:
        yield Finding("server", "warn", note, _fix_of(note))


def _split_fix(note: str) -> tuple[str, str]:
    """A note of a backend, and its fix, which follows "Fix:" at the end."""
    detail, _, fix = note.partition("Fix: ")
    return detail.rstrip(" .;"), fix.rstrip(".")


FIXES = ("pip install ", "fusion models add ")
"""how the commands begin that end some of our messages"""


def _split_command(text: str) -> tuple[str, str]:
    """An error's text without the command at its end, and that command; "" if there is none."""
    for begins in FIXES:
        detail, _, rest = text.partition(f": {begins}")
        if rest:
            return detail, begins + rest
    return text, ""


def _fix_of(detail: str) -> str:
    """The command in a message of ours."""
    found = [begins + detail.rpartition(begins)[2] for begins in FIXES if begins in detail]
    return found[0] if found else "see the detail"


def _file(home: Path, config: Path | None) -> str:
    file = config or home / "fusion.toml"
    return str(file) if file.is_file() else "defaults only"
