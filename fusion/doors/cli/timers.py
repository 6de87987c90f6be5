"""The files of timers that call `fusion jobs run JOB --due`: systemd, launchd, cron and compose.

A timer only wakes the job up; whether it is due is decided by the server. So a timer that comes too often does nothing,
and a job without one is run by a server that happens to be up.
"""

from __future__ import annotations

import hashlib
import os
import plistlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, Literal

from fusion.errors import BadInput, SettingsError
from fusion.upkeep.schedule import Cron, Every, parse, zone_of
from fusion.version import VERSION

Kind = Literal["systemd", "launchd", "cron", "compose"]
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
MOST_TIMES = 200
"""maximum times in a launchd file; a job with more is started every quarter of an hour"""
QUARTER_S = 900
CRONTAB = ("crontab",)
SERVER = "server-"
"""prefix of a program's name in file names; no job's name begins so"""
COMPOSE = "compose.jobs.yaml"
SYSTEMD_RUNS = Path("/run/systemd/system")
"""the folder that a running systemd has"""


def likely_kind(platform: str = sys.platform, systemd_runs: Path = SYSTEMD_RUNS) -> Kind:
    """The kind of timers that a computer most likely has."""
    if platform == "darwin":
        return "launchd"
    return "systemd" if systemd_runs.is_dir() else "cron"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job that a timer wakes up."""

    name: str
    schedule: Cron | Every
    catch_up: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    """A server of another program that is kept running, such as Cognee's."""

    name: str
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Caller:
    """The home whose jobs are called: ``command`` is how this user runs `fusion`, ``zone`` is that of the schedules."""

    home: Path
    command: Sequence[str]
    config: Path | None = None
    zone: str = ""

    def words(self, job: str) -> list[str]:
        """The command line of a timer."""
        config = [] if self.config is None else ["--config", str(self.config.absolute())]
        return [*self.command, "jobs", "run", job, "--due", "--home", str(self.home), *config]

    @property
    def id(self) -> str:
        """The part of file names that distinguishes the timers of one home from those of another."""
        return hashlib.sha256(str(self.home).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Timers:
    """Files by path, and the commands that the user runs next."""

    files: Mapping[Path, str]
    after: Sequence[str] = ()
    remove: Sequence[Path] = field(default=())
    """files of earlier timers of this home that are not needed any more"""


def wanted(name: str, schedule: str, zone: str, *, catch_up: bool = True) -> Wanted | None:
    """A job as the server lists it; None for one that is off."""
    found = parse(schedule, zone_of(zone))
    return None if found is None else Wanted(name, found, catch_up)


# systemd


def programs(servers: Mapping[str, str]) -> list[Program]:
    """The programs of ``[jobs] servers``. Raises SettingsError for a command that cannot be read."""
    found = []
    for name, command in servers.items():
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise SettingsError(f"[jobs] servers: the command of {name} cannot be read: {error}") from None
        if (
            not words
            or not all(word.isprintable() for word in words)
            or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name)
        ):
            raise SettingsError(f"[jobs] servers: {name!r} needs a name of letters, digits and hyphens, and a command")
        found.append(Program(name, words))
    return found


def systemd_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where systemd looks for the units of this user."""
    base = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "systemd" / "user"


def systemd(jobs: Sequence[Wanted], caller: Caller, folder: Path, programs: Sequence[Program] = ()) -> Timers:
    """A service and a timer for each job, and a service for each program."""
    files: dict[Path, str] = {}
    for program in programs:
        about = f"memory-fusion: {program.name} for {caller.home}".replace("%", "%%")
        words = " ".join(map(_systemd_quoted, program.words))
        files[folder / f"memory-fusion-{caller.id}-{SERVER}{program.name}.service"] = (
            f"[Unit]\nDescription={about}\n\n[Service]\nExecStart={words}\nRestart=always\nRestartSec=10\n\n"
            "[Install]\nWantedBy=default.target\n"
        )
    started = [file.name for file in files]
    for job in jobs:
        name = f"memory-fusion-{caller.id}-{job.name}"
        about = f"memory-fusion: {job.name} of {caller.home}".replace("%", "%%")
        words = " ".join(map(_systemd_quoted, caller.words(job.name)))
        # KillMode: the server that the command may have to start goes on after it.
        files[folder / f"{name}.service"] = (
            f"[Unit]\nDescription={about}\n\n[Service]\nType=oneshot\nExecStart={words}\nKillMode=process\nNice=10\n"
        )
        when = "\n".join(_systemd_times(job, caller.zone))
        files[folder / f"{name}.timer"] = (
            f"[Unit]\nDescription={about}\n\n[Timer]\n{when}\n\n[Install]\nWantedBy=timers.target\n"
        )
    timers = [*started, *(file.name for file in files if file.suffix == ".timer")]
    old = _others(folder.glob(f"memory-fusion-{caller.id}-*.*"), files)
    # restart, because a timer that runs already keeps its old times
    enable = [f"systemctl --user {verb} {' '.join(timers)}" for verb in ("enable", "restart") if timers]
    linger = ["loginctl enable-linger  # so that they also run while you are logged out"] if timers else []
    return Timers(files, ("systemctl --user daemon-reload", *enable, *linger), old)


def _systemd_quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return escaped if re.fullmatch(r"[\w@%+=:,./-]+", escaped) else f'"{escaped}"'


def _systemd_times(job: Wanted, zone: str) -> list[str]:
    if isinstance(job.schedule, Every):
        seconds = max(60, int(job.schedule.period.total_seconds()))
        return ["OnActiveSec=1min", f"OnUnitActiveSec={seconds}s"]
    lines = []
    for one in _fields(job.schedule):
        days = "" if one["Weekday"] is None else ",".join(DAYS[day] for day in one["Weekday"]) + " "
        month, day, hour, minute = (_listed(one[name]) for name in ("Month", "Day", "Hour", "Minute"))
        lines.append(f"OnCalendar={days}*-{month}-{day} {hour}:{minute}:00" + (f" {zone}" if zone else ""))
    return [*lines, f"Persistent={'true' if job.catch_up else 'false'}"]


def _listed(values: Sequence[int] | None) -> str:
    return "*" if values is None else ",".join(f"{value:02}" for value in values)


# launchd


def launchd_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where launchd looks for the agents of this user."""
    return Path(environ.get("HOME", "~")).expanduser() / "Library" / "LaunchAgents"


def launchd(jobs: Sequence[Wanted], caller: Caller, folder: Path, programs: Sequence[Program] = ()) -> Timers:
    """An agent for each job and program. launchd itself makes up for what a sleeping machine missed."""
    _require_local_zone(caller.zone, "launchd")
    files = {}
    for program in programs:
        label = f"memory-fusion.{caller.id}.{SERVER}{program.name}"
        kept = {"Label": label, "ProgramArguments": [*program.words], "RunAtLoad": True, "KeepAlive": True}
        files[folder / f"{label}.plist"] = plistlib.dumps(kept).decode()
    for job in jobs:
        label = f"memory-fusion.{caller.id}.{job.name}"
        # AbandonProcessGroup: the server that the command may have to start goes on after it.
        agent = {"Label": label, "ProgramArguments": caller.words(job.name), "AbandonProcessGroup": True}
        files[folder / f"{label}.plist"] = plistlib.dumps(agent | _launchd_times(job)).decode()
    old = _others(folder.glob(f"memory-fusion.{caller.id}.*.plist"), files)
    return Timers(files, [f"launchctl bootstrap gui/{os.getuid()} {shlex.quote(str(file))}" for file in files], old)


def _launchd_times(job: Wanted) -> dict[str, Any]:
    if isinstance(job.schedule, Every):
        return {"StartInterval": max(60, int(job.schedule.period.total_seconds()))}
    times = []
    for one in _fields(job.schedule):
        named = {name: values for name, values in one.items() if values is not None}
        times += [dict(zip(named, values, strict=True)) for values in product(*named.values())]
    return {"StartCalendarInterval": times} if len(times) <= MOST_TIMES else {"StartInterval": QUARTER_S}


# cron


def cron(jobs: Sequence[Wanted], caller: Caller, crontab: str, programs: Sequence[Program] = ()) -> str:
    """This user's crontab with the lines for this home's jobs, between two markers; without jobs, without them.

    A program is started when the machine starts; cron does not start it again if it ends.
    """
    _require_local_zone(caller.zone, "cron")
    begin, end = (f"# memory-fusion {caller.id}: {mark}" for mark in ("begin", "end"))
    lines = [f"{_cron_times(job.schedule)} {_cron_quoted(caller.words(job.name))} >/dev/null" for job in jobs]
    lines += [f"@reboot {_cron_quoted(program.words)} >/dev/null 2>&1" for program in programs]
    block = "\n".join((f"{begin}, the jobs of {caller.home}", *lines, end, "")) if lines else ""
    old = re.compile(rf"^{re.escape(begin)}.*?^{re.escape(end)}\n?", re.MULTILINE | re.DOTALL)
    if found := old.search(crontab):
        return crontab[: found.start()] + block + crontab[found.end() :]
    return crontab + ("\n" if crontab and not crontab.endswith("\n") else "") + block


def _cron_quoted(words: Sequence[str]) -> str:
    return shlex.join(words).replace("%", "\\%")


def _cron_times(schedule: Cron | Every) -> str:
    """A schedule as a cron expression, which may start a job more often than it is due."""
    if isinstance(schedule, Cron):
        _fields(schedule)  # raises for what only our own library knows
        return schedule.expression
    minutes = max(1, int(schedule.period / timedelta(minutes=1)))
    if minutes < 60:
        return f"*/{_divisor(60, minutes)} * * * *"
    if minutes < 24 * 60:
        return f"0 */{_divisor(24, minutes // 60)} * * *"
    return "0 0 * * *"


def _divisor(whole: int, most: int) -> int:
    return next(number for number in range(most, 0, -1) if whole % number == 0)


def read_crontab(command: Sequence[str] = CRONTAB) -> str:
    """This user's crontab, empty if there is none. Raises SettingsError without cron."""
    try:
        done = subprocess.run([*command, "-l"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SettingsError(f"there is no command {command[0]!r} here: install cron, or use --systemd") from None
    if done.returncode and "no crontab" not in done.stderr:
        raise SettingsError(f"the crontab cannot be read: {done.stderr.strip()}")
    return "" if done.returncode else done.stdout


def write_crontab(text: str, command: Sequence[str] = CRONTAB) -> None:
    """Replace this user's crontab. Raises SettingsError."""
    done = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SettingsError(f"the crontab cannot be written: {done.stderr.strip()}")


# compose

_COMPOSE = """\
# Wakes up the jobs of the gateway in compose/gateway.yaml: docker compose -f compose/gateway.yaml -f {file} up
name: memory-fusion

services:
  jobs:
    image: memory-fusion:{version}
    network_mode: "service:gateway"
    depends_on:
      gateway:
        condition: service_healthy
        restart: true
    environment:
      FUSION_API_KEY: ${{FUSION_API_KEY:?set FUSION_API_KEY to the key of the gateway}}
    entrypoint: ["python", "-c"]
    command:
      - |
{program}
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
"""
PROGRAM = """\
import os, time
from fusion.client import Client
while True:
    with Client("http://127.0.0.1:8765", api_key=os.environ["FUSION_API_KEY"]) as gateway:
        for job in gateway.jobs()["jobs"]:
            gateway.run_job(job["name"], due=True)
    time.sleep(300)
"""


def compose(folder: Path) -> Timers:
    """A service next to the gateway of compose/gateway.yaml; it asks every five minutes for what is due."""
    program = "".join(f"        {line}\n" for line in PROGRAM.splitlines()).rstrip("\n")
    file = folder / COMPOSE
    start = f"docker compose -f compose/gateway.yaml -f {shlex.quote(str(file))} up -d"
    return Timers({file: _COMPOSE.format(file=COMPOSE, version=VERSION, program=program)}, (start,))


# What all of them need


def _fields(schedule: Cron) -> list[dict[str, tuple[int, ...] | None]]:
    """The fields of a cron expression as numbers; None for every value. Two if either kind of day may fit.

    Raises BadInput for the days that only our own library knows, such as the last of a month.
    """
    from cronsim import CronSim

    found = CronSim(schedule.expression, datetime.now(UTC))
    if not all(isinstance(day, int) and day >= 0 for day in (*found.days, *found.weekdays)):
        raise BadInput(f"{schedule.expression!r} names days that this system cannot; write their numbers")
    weekdays = {day % 7 for day in found.weekdays if isinstance(day, int)}
    fields = {
        "Month": _unless_all(found.months, 12),
        "Day": _unless_all(found.days, 31),
        "Weekday": _unless_all(weekdays, 7),
        "Hour": _unless_all(found.hours, 24),
        "Minute": _unless_all(found.minutes, 60),
    }
    # As in Debian's cron: where both are named, either kind of day is enough.
    return [fields] if found.day_and else [fields | {"Weekday": None}, fields | {"Day": None}]


def _unless_all(values: Iterable[int], count: int) -> tuple[int, ...] | None:
    numbers = tuple(sorted(values))
    return None if len(numbers) == count else numbers


def _require_local_zone(zone: str, system: str) -> None:
    """Raises BadInput if the schedules are in another time zone than this machine, which is the only one there."""
    year = datetime.now(UTC).year
    days = [datetime(year, month, 15, 12, tzinfo=UTC) for month in range(1, 13)]
    here, there = zone_of(""), zone_of(zone)
    if zone and any(day.astimezone(here).utcoffset() != day.astimezone(there).utcoffset() for day in days):
        raise BadInput(f"{system} knows this machine's time zone only, and [jobs] zone is {zone}; use --systemd")


def _others(found: Iterable[Path], files: Mapping[Path, str]) -> list[Path]:
    return sorted(path for path in found if path not in files)
