"""`fusion jobs install`: shows the files of timers, asks before it replaces one, and writes or removes them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusion.doors.cli import timers
from fusion.doors.cli.confirm import confirm, require_answer
from fusion.doors.cli.connect import print_json
from fusion.doors.cli.plural import counted
from fusion.errors import BadInput, SettingsError

if TYPE_CHECKING:
    from fusion import wire
    from fusion.doors.cli.command import Target

CRONTAB = "your crontab"


@dataclass(frozen=True, slots=True)
class Change:
    """One file, as it is and as it will be; None: it is not there."""

    name: str
    before: str | None
    after: str | None
    apply: Callable[[], None]

    @property
    def state(self) -> str:
        """What happens to the file: new, same, replaced or removed."""
        if self.before == self.after:
            return "same"
        return "removed" if self.after is None else "new" if self.before is None else "replaced"


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one command, and the commands that the user runs next."""

    changes: Sequence[Change]
    after: Sequence[str] = ()


def plan(
    kind: timers.Kind,
    jobs: Sequence[wire.Job] | None,
    target: Target,
    *,
    folder: Path | None = None,
    crontab: Sequence[str] = timers.CRONTAB,
    dry_run: bool = False,
) -> Plan:
    """What to write for the jobs of a home, or to remove if ``jobs`` is None. Raises BadInput and SettingsError.

    ``folder`` and ``crontab`` replace the places where the system looks. With ``dry_run`` a machine without the command
    crontab has an empty one.
    """
    settings = target.settings()
    caller = timers.Caller(
        settings.home, (sys.executable, "-m", "fusion"), target.config, zone=settings.jobs.zone if jobs else ""
    )
    if any(not word.isprintable() for word in caller.words("")):
        raise BadInput("the home's path has characters that a timer cannot have")
    found = []
    for job in jobs or ():
        catch_up = settings.jobs.of(job["name"]).catch_up
        if (one := timers.wanted(job["name"], job["schedule"], caller.zone, catch_up=catch_up)) is not None:
            found.append(one)
    programs = [] if jobs is None else timers.programs(settings.jobs.servers)
    if kind == "cron":
        shown_only = dry_run and shutil.which(crontab[0]) is None
        before = "" if shown_only else timers.read_crontab(crontab)
        after = timers.cron(found, caller, before, programs)
        return Plan([Change(CRONTAB, before, after, lambda: timers.write_crontab(after, crontab))])
    if kind == "compose":
        wanted = timers.compose(folder or Path.cwd())
        if jobs is None:
            wanted = timers.Timers({}, (), [file for file in wanted.files if file.exists()])
    elif kind == "systemd":
        wanted = timers.systemd(found, caller, folder or timers.systemd_folder(), programs)
    else:
        wanted = timers.launchd(found, caller, folder or timers.launchd_folder(), programs)
    return Plan(
        [*map(_written, wanted.files.items()), *map(_removed, wanted.remove)], _next(kind, wanted, jobs is None)
    )


def _next(kind: timers.Kind, wanted: timers.Timers, uninstall: bool) -> Sequence[str]:
    """The commands that make the system notice the changes."""
    gone = [file.name for file in wanted.remove]
    if kind == "systemd" and (stopped := [name for name in gone if name.endswith(".timer")]):
        return [f"systemctl --user stop {' '.join(stopped)}", *wanted.after]
    if kind == "launchd":  # what is loaded has to go before its new file is loaded
        loaded = [*gone, *(file.name for file in wanted.files if file.exists())]
        stop = [f"launchctl bootout gui/{os.getuid()}/{name.removesuffix('.plist')}" for name in loaded]
        return [*stop, *wanted.after]
    return ["docker compose -f compose/gateway.yaml up -d --remove-orphans"] if uninstall and gone else wanted.after


def _written(item: tuple[Path, str]) -> Change:
    path, text = item
    return Change(str(path), _text_of(path), text, lambda: _write(path, text))


def _removed(path: Path) -> Change:
    return Change(str(path), _text_of(path), None, lambda: _remove(path))


def _text_of(path: Path) -> str | None:
    """The text of a file, or None. Raises SettingsError for what is no plain file: it is not ours."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise SettingsError(f"{path} is no plain file; nothing is written")
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(path: Path, text: str) -> None:
    """Write a file whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remove(path: Path) -> None:
    """Remove a file, and the link by which systemd enabled it."""
    (path.parent / "timers.target.wants" / path.name).unlink(missing_ok=True)
    path.unlink()


def carry_out(plan: Plan, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Show the changes, ask before a file is replaced or removed, and make them."""
    changes = [change for change in plan.changes if change.state != "same"]
    asks = any(change.before for change in changes) and not dry_run
    if asks:
        require_answer(yes=yes, as_json=as_json)
    if not as_json:
        for change in plan.changes:
            _show(change)
    if asks and not yes:
        confirm(f"Change {counted(len(changes), 'file')}?")
    if not dry_run:
        for change in changes:
            change.apply()
    if as_json:
        print_json(_report(plan, dry_run))
        return
    if not changes:
        print("Nothing to change.")
    for command in () if dry_run or not changes else plan.after:
        print(f"Next: {command}")


def _show(change: Change) -> None:
    print(f"# {change.name}: {change.state}")
    if change.state in ("new", "replaced"):
        print(change.after)


def _report(plan: Plan, dry_run: bool) -> Mapping[str, Any]:
    files = [{"path": one.name, "state": one.state, "text": one.after} for one in plan.changes]
    return {"dry_run": dry_run, "files": files, "next": list(plan.after)}
