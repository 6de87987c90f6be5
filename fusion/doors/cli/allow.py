"""`fusion allow`: shows what a home would load, reach, read and follow, and records that it is allowed.

Everything is read as data: no adapter is imported, no store opened, no link followed, no server asked. Texts from the
home are shown without control characters, so that they cannot change what the user sees and agrees to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusion.doors.cli.plural import counted
from fusion.errors import BadInput, HomeNotAllowed
from fusion.lib.clean import clean
from fusion.trust.fingerprint import read_settings
from fusion.trust.homes import allow, resolved, settings_file, take_snapshot, unapproved_names, why_refused
from fusion.trust.reach import NamedSetting, Reach, host_of, is_loopback, reach_of
from fusion.trust.survey import Survey, survey

MAX_SHOWN = 12
"""maximum lines shown of one kind; the settings file has the rest"""
MAX_CHARS = 300
HERE = "this computer"


@dataclass(frozen=True, slots=True)
class View:
    """What the user decides about."""

    home: Path
    config: Path
    reach: Reach
    content: bytes | None
    """the settings that are shown; these are recorded, even if the file has changed since"""
    holds: Survey
    variables: Sequence[str]
    """environment variables for keys that are not the gateway's own and not allowed by name yet"""
    key_files: Sequence[str]
    """files for keys that are outside of the home and not allowed by name yet"""
    why: str
    """why the home is not opened now; empty for an allowed home"""

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "home": str(self.home),
            "settings": str(self.config),
            "allowed": not self.why,
            "why": self.why,
            **{name: value for name, value in asdict(self.reach).items() if name not in ("harmless", "home")},
            "holds": asdict(self.holds),
            "not_allowed_by_name": {"variables": list(self.variables), "files": list(self.key_files)},
        }


def view(home: Path, config: Path | None = None, *, named: bool = True) -> View:
    """Looks at a home. Raises HomeNotAllowed where its settings file is a link or no file."""
    folder = resolved(home)
    file = settings_file(folder, config)
    content = read_settings(file)
    reach = reach_of(content, file.parent, file.parent)
    why = why_refused(home, named=named, config=config)
    return View(folder, file, reach, content, survey(folder), *unapproved_names(folder, reach), why)


def agree(
    found: View,
    *,
    variables: Sequence[str] = (),
    files: Sequence[str] = (),
    ask: Callable[[str], str] | None = None,
) -> bool:
    """Records the home, after a question where ``ask`` is given. Returns whether it is allowed now.

    Raises HomeNotAllowed for a home with links in it, BadInput for a key that was not allowed by its name.
    """
    if found.holds.traps:
        names = ", ".join(shown(name) for name in found.holds.traps[:MAX_SHOWN])
        raise HomeNotAllowed(f"{found.home} has links or special files in it ({names}): put the files themselves there")
    given = {str(resolved(Path(file))) for file in files}
    wanted = [("--variable", name) for name in found.variables if name not in variables]
    wanted += [("--file", name) for name in found.key_files if name not in given]
    if ask is None and wanted:
        options = " ".join(f"{option} {shown(name)}" for option, name in wanted)
        raise BadInput(f"the settings name keys that are not the gateway's own. To allow these, too: {options}")
    if ask is not None:
        if not _yes(ask("Allow this home? Type yes to open it from now on")):
            return False
        for _, name in wanted:
            if not _yes(ask(f"Its settings send the key in {shown(name)}. Type yes to allow that")):
                return False
    allow(
        found.home,
        config=found.config,
        variables=[*variables, *found.variables],
        files=[*given, *found.key_files],
        # Only now: what the settings name outside of the home is not read before the user has agreed.
        seen=take_snapshot(found.home, found.config, found.content),
    )
    return True


def _yes(typed: str) -> bool:
    return typed.strip().lower() in ("yes", "y")


def lines(found: View) -> Iterator[str]:
    """The lines that are shown on a terminal."""
    reach, holds = found.reach, found.holds
    yield f"Home      {shown(found.home)}"
    yield f"Settings  {shown(found.config)}{'' if found.config.is_file() else ' (none)'}"
    if reach.unreadable:
        yield f"          is not TOML: {shown(reach.unreadable)}"
    if holds.repository:
        yield f"          is under version control in {shown(holds.repository)}; a pull that changes it asks again"
    yield from _listed("Loads", reach.loads, "code that does not ship with memory-fusion")
    # Other computers first: a dozen addresses of this one must not push them out of what is shown.
    yield from _listed("Reaches", sorted(reach.reaches, key=lambda item: _where(item) == HERE), "", _where)
    yield from _listed("Keys", (*reach.variables, *reach.key_files), "")
    yield from _listed("Follows", reach.folders, "")
    yield from _listed("Writes", reach.writes, "")
    yield from _listed("Sends", reach.sends, "MEMORY.md and the notes of the workspace")
    yield from _listed("Runs", reach.runs, "by the timers of fusion jobs install")
    yield from _listed("Listens", reach.listens, "")
    yield from _listed("Says", reach.says, "text that your agent reads")
    if holds.files:
        more = "" if holds.complete else " or more"
        size = f"{counted(holds.files, 'file')}, {holds.bytes / 1e6:.1f} MB{more}"
        yield f"Holds     {size}: {_some(holds.stores) or 'no store'}"
    if holds.pickles:
        yield f"          pickles, which can run code when they are read: {_some(holds.pickles)}"
    if holds.traps:
        yield f"Links     {_some(holds.traps)}: remove them first, nothing is opened through a link"
    if len(reach.reaches) > MAX_SHOWN or len(reach.loads) > MAX_SHOWN:
        others = sum(_where(item) != HERE for item in reach.reaches)
        yield f"In all    {len(reach.loads)} modules of code; {len(reach.reaches)} servers, {others} elsewhere"
    if not (reach.loads or reach.reaches or reach.variables or reach.key_files or holds.files):
        yield "          Nothing in it loads code, reaches a server or names a key."


def _listed(
    title: str, items: Sequence[NamedSetting], remark: str, more: Callable[[NamedSetting], str] = lambda item: ""
) -> Iterator[str]:
    for number, item in enumerate(items[:MAX_SHOWN]):
        head = f"{title:<10}" if number == 0 else " " * 10
        note = remark or more(item)
        yield f"{head}{shown(item.key)} = {shown(item.value)}{f'  ({note})' if note else ''}"
    if len(items) > MAX_SHOWN:
        yield f"{' ' * 10}… and {len(items) - MAX_SHOWN} more; --json lists all"


def _where(item: NamedSetting) -> str:
    if item.key == "embedder.provider" or "://" not in item.value:
        return "sends memories to it, unless it is on this computer"
    return HERE if is_loopback(host_of(item.value)) else "another computer"


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(shown(name) for name in names[:MAX_SHOWN])
    return listed + (f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else "")


def shown(text: object) -> str:
    """A text of the home on one line, without control characters, clipped to `MAX_CHARS`."""
    flat = " ".join(clean(str(text))[0].split())
    return flat if len(flat) <= MAX_CHARS else f"{flat[:MAX_CHARS]}…"
