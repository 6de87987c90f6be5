"""`fusion jobs install`: the files of each system, what is shown and asked, and that what they call works."""

from __future__ import annotations

import asyncio
import json
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from typer.testing import CliRunner, Result

from fusion.client import stop_server
from fusion.doors.cli import app, install, timers
from fusion.doors.cli.command import Target
from fusion.errors import BadInput, SettingsError
from fusion.trust import allow
from tests.doors.fakes import SMALL, FakeFusion, serving

PYTHON = (sys.executable, "-m", "fusion")
NIGHTLY: dict[str, Any] = {"name": "receipts", "schedule": "30 3 * * *"}
CHECKS: dict[str, Any] = {"name": "checks", "schedule": "every 6 hours"}
OFF: dict[str, Any] = {"name": "lifecycle", "schedule": "off"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "my home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    return home


def caller(home: Path = Path("/home/ada/my 100% home"), zone: str = "") -> timers.Caller:
    return timers.Caller(home, ("/usr/bin/python3", "-m", "fusion"), zone=zone)


def wanted(schedule: str, zone: str = "", *, catch_up: bool = True) -> list[timers.Wanted]:
    found = timers.wanted("receipts", schedule, zone, catch_up=catch_up)
    return [] if found is None else [found]


def timer_of(schedule: str, zone: str = "", *, catch_up: bool = True) -> list[str]:
    made = timers.systemd(wanted(schedule, zone, catch_up=catch_up), caller(zone=zone), Path("/nowhere"))
    (text,) = [text for path, text in made.files.items() if path.suffix == ".timer"]
    return text.partition("[Timer]\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    ("schedule", "lines"),
    [
        ("30 3 * * *", ["OnCalendar=*-*-* 03:30:00"]),
        ("*/20 8-10 * * 1-5", ["OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 08,09,10:00,20,40:00"]),
        ("0 3 1 * SUN", ["OnCalendar=*-*-01 03:00:00", "OnCalendar=Sun *-*-* 03:00:00"]),
        ("0 3 * 1 7", ["OnCalendar=Sun *-01-* 03:00:00"]),
    ],
)
def test_systemd_timer_says_when(schedule: str, lines: list[str]) -> None:
    assert timer_of(schedule) == [*lines, "Persistent=true"]
    assert timer_of(schedule, catch_up=False) == [*lines, "Persistent=false"]


def test_systemd_timer_names_the_zone_and_takes_intervals() -> None:
    assert timer_of("30 3 * * *", "Asia/Tokyo")[0] == "OnCalendar=*-*-* 03:30:00 Asia/Tokyo"
    assert timer_of("every 6 hours") == ["OnActiveSec=1min", "OnUnitActiveSec=21600s"]


def test_systemd_service_quotes_and_leaves_the_server_alone() -> None:
    """KillMode: a server that the command starts is not ended with it."""
    made = timers.systemd(wanted("30 3 * * *"), caller(), Path("/nowhere"))
    (service,) = [text for path, text in made.files.items() if path.suffix == ".service"]
    line = 'ExecStart=/usr/bin/python3 -m fusion jobs run receipts --due --home "/home/ada/my 100%% home"'
    assert line in service.splitlines()
    assert "KillMode=process" in service


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    jobs = [
        one
        for name, schedule in {"a": "30 3 * * *", "b": "0 3 1 * SUN", "c": "every 6 hours"}.items()
        if (one := timers.wanted(name, schedule, "Europe/Berlin")) is not None
    ]
    made = timers.systemd(jobs, timers.Caller(tmp_path / "my 100% home", PYTHON, zone="Europe/Berlin"), tmp_path)
    for path, text in made.files.items():
        path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", *map(str, made.files)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "memory-fusion" in line] == []


COGNEE = timers.Program("cognee", ("/opt/cognee/bin/python", "-m", "uvicorn", "cognee.api.client:app"))


@pytest.mark.row(
    "A121", "`fusion jobs install` writes the schedules of all jobs, and keeps the servers of other programs running"
)
def test_a_server_of_another_program_is_kept_running() -> None:
    made = timers.systemd(wanted("30 3 * * *"), caller(), Path("/nowhere"), [COGNEE])
    (service,) = [text for path, text in made.files.items() if path.name.endswith("server-cognee.service")]
    assert "ExecStart=/opt/cognee/bin/python -m uvicorn cognee.api.client:app\nRestart=always\n" in service
    assert "WantedBy=default.target" in service
    assert any(one.startswith("systemctl --user enable") and "server-cognee.service" in one for one in made.after)
    agents = timers.launchd([], caller(), Path("/nowhere"), [COGNEE])
    (agent,) = [plistlib.loads(text.encode()) for text in agents.files.values()]
    assert (agent["KeepAlive"], agent["RunAtLoad"], agent["ProgramArguments"][0]) == (True, True, COGNEE.words[0])
    crontab = timers.cron([], caller(), "", [COGNEE])
    assert "@reboot /opt/cognee/bin/python -m uvicorn cognee.api.client:app >/dev/null 2>&1" in crontab
    assert timers.cron([], caller(), crontab) == ""


@pytest.mark.parametrize("servers", [{"cognee": "'"}, {"cognee": ""}, {"../x": "true"}, {"x": "a\nb\x07"}])
def test_a_server_that_cannot_be_run_is_refused(servers: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="servers"):
        timers.programs(servers)


SEED = {"extract": 3600, "distill": [6, 18], "shepherd": 10_800, "reflect": [11, 23]}
"""the jobs of seed 003: seconds between two runs, or the hours of the day"""


@pytest.fixture
def plan_of(home: Path, tmp_path: Path) -> Callable[[timers.Kind], install.Plan]:
    """What `fusion jobs install` writes for a home with a workspace and a Cognee."""
    agent = (tmp_path / "agent").resolve()
    agent.mkdir()
    workspace = (
        f'[workspace]\nwrite = true\nroot_folder = "{agent}"\n[jobs.servers]\ncognee = "cognee-serve --port 8000"\n'
    )
    (home / "fusion.toml").write_text(SMALL + workspace)
    allow(home)
    jobs = json.loads(CliRunner().invoke(app, ["jobs", "--home", str(home), "--direct", "--json"]).stdout)["jobs"]
    crontab = tmp_path / "crontab"
    crontab.write_text('#!/bin/sh\n[ "$1" = -l ] && exit 0\nexit 1\n')
    crontab.chmod(0o755)
    return lambda kind: install.plan(kind, jobs, Target(home=home), folder=tmp_path, crontab=[str(crontab)])


@pytest.mark.row(
    "A121",
    "… all five of the seed: extract hourly, distill and reflect twice a day, shepherd every 3 h, and Cognee's server",
    of="`fusion jobs install` writes the schedules",
)
def test_systemd_has_all_five_schedules(plan_of: Callable[[timers.Kind], install.Plan]) -> None:
    files = {Path(one.name).name.split("-", 3)[-1]: str(one.after) for one in plan_of("systemd").changes}
    for name, when in SEED.items():
        assert f" jobs run {name} --due --home " in files[f"{name}.service"]
        times = f"OnUnitActiveSec={when}s" if isinstance(when, int) else f" {when[0]:02},{when[1]:02}:"
        assert times in files[f"{name}.timer"]
    assert "ExecStart=cognee-serve --port 8000\nRestart=always\n" in files["server-cognee.service"]


def test_launchd_has_all_five_schedules(plan_of: Callable[[timers.Kind], install.Plan]) -> None:
    files = {one.name.rsplit(".", 2)[-2]: plistlib.loads(str(one.after).encode()) for one in plan_of("launchd").changes}
    for name, when in SEED.items():
        agent = files[name]
        assert agent["ProgramArguments"][3:7] == ["jobs", "run", name, "--due"]
        if isinstance(when, int):
            assert agent["StartInterval"] == when
        else:
            assert [one["Hour"] for one in agent["StartCalendarInterval"]] == when
    cognee = files["server-cognee"]
    assert (cognee["ProgramArguments"], cognee["KeepAlive"]) == (["cognee-serve", "--port", "8000"], True)


def test_cron_has_all_five_schedules(plan_of: Callable[[timers.Kind], install.Plan]) -> None:
    (change,) = plan_of("cron").changes
    lines = str(change.after).splitlines()
    for name, when in SEED.items():
        (line,) = [one for one in lines if f" jobs run {name} --due " in one]
        _, hours = line.split()[:2]
        every = {3600: "*/1", 10_800: "*/3"}
        assert hours == (every[when] if isinstance(when, int) else ",".join(map(str, when)))
    assert "@reboot cognee-serve --port 8000 >/dev/null 2>&1" in lines


def test_compose_wakes_up_all_jobs(plan_of: Callable[[timers.Kind], install.Plan]) -> None:
    """It asks the gateway which jobs there are; compose/cognee.yaml has Cognee's server."""
    (change,) = plan_of("compose").changes
    assert 'for job in gateway.jobs()["jobs"]' in str(change.after)
    cognee = (Path(__file__).resolve().parents[3] / "compose" / "cognee.yaml").read_text(encoding="utf-8")
    assert "restart: unless-stopped" in cognee


def agent_of(schedule: str) -> dict[str, Any]:
    made = timers.launchd(wanted(schedule), caller(), Path("/nowhere"))
    ((path, text),) = made.files.items()
    assert made.after == [f"launchctl bootstrap gui/{os.getuid()} {shlex.quote(str(path))}"]
    return dict(plistlib.loads(text.encode()))


def test_launchd_agent_says_when() -> None:
    agent = agent_of("30 3 * * *")
    assert agent["StartCalendarInterval"] == [{"Hour": 3, "Minute": 30}]
    assert agent["ProgramArguments"][-2:] == ["--home", "/home/ada/my 100% home"]
    assert agent["AbandonProcessGroup"]
    assert agent_of("0 3 1 * SUN")["StartCalendarInterval"] == [
        {"Day": 1, "Hour": 3, "Minute": 0},
        {"Weekday": 0, "Hour": 3, "Minute": 0},
    ]
    assert agent_of("every 6 hours")["StartInterval"] == 21600
    assert agent_of("*/5 8-18 * * 1-5")["StartInterval"] == 900, "too many times to list"


@pytest.mark.skipif(shutil.which("plutil") is None, reason="this is not macOS")
def test_launchd_accepts_the_agent(tmp_path: Path) -> None:
    for path, text in timers.launchd(wanted("30 3 * * *"), caller(), tmp_path).files.items():
        path.write_text(text)
        assert subprocess.run(["plutil", "-lint", str(path)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("30 3 * * MON", "30 3 * * MON"),
        ("every 15 min", "*/15 * * * *"),
        ("every 45 min", "*/30 * * * *"),  # more often than it is due
        ("every 6 hours", "0 */6 * * *"),
        ("every 5 hours", "0 */4 * * *"),
        ("every 2 days", "0 0 * * *"),
        ("every 10 s", "*/1 * * * *"),
    ],
)
def test_cron_line_comes_at_least_as_often_as_the_job_is_due(schedule: str, times: str) -> None:
    line = timers.cron(wanted(schedule), caller(), "").splitlines()[1]
    assert line == (
        f"{times} /usr/bin/python3 -m fusion jobs run receipts --due --home '/home/ada/my 100\\% home' >/dev/null"
    )


def test_crontab_keeps_the_lines_of_others() -> None:
    """Of the user, and of another home; installed twice it is the same, and removed it is as before."""
    other = timers.Caller(Path("/srv/other"), ("/usr/bin/python3", "-m", "fusion"))
    before = timers.cron(wanted("0 1 * * *"), other, "MAILTO=ada\n@daily backup")
    assert before.startswith("MAILTO=ada\n@daily backup\n# memory-fusion ")
    after = timers.cron(wanted("30 3 * * *"), caller(), before)
    assert after.startswith(before)
    assert timers.cron(wanted("30 3 * * *"), caller(), after) == after
    changed = timers.cron(wanted("30 4 * * *"), caller(), after)
    assert changed == after.replace("\n30 3 ", "\n30 4 ")
    assert timers.cron([], caller(), changed) == before


def test_days_and_zones_that_a_system_cannot_say_are_refused() -> None:
    for make in (timers.systemd, timers.launchd):
        with pytest.raises(BadInput, match="names days that this system cannot"):
            make(wanted("0 3 L * *"), caller(), Path("/nowhere"))
    with mock.patch.dict(os.environ, {"TZ": "Europe/Berlin"}):
        with pytest.raises(BadInput, match="cron knows this machine's time zone only"):
            timers.cron(wanted("0 3 * * *", "Asia/Tokyo"), caller(zone="Asia/Tokyo"), "")
        assert timers.cron(wanted("0 3 * * *", "Europe/Paris"), caller(zone="Europe/Paris"), "")


async def test_compose_service_asks_for_what_is_due() -> None:
    """The program in the file, against a server, once."""
    ((_, text),) = timers.compose(Path("/nowhere")).files.items()
    service = yaml.safe_load(text)["services"]["jobs"]
    (program,) = service["command"]
    assert program == timers.PROGRAM
    assert "${FUSION_API_KEY:?" in service["environment"]["FUSION_API_KEY"]
    fusion = FakeFusion()
    async with serving(fusion) as url:
        once = program.replace("http://127.0.0.1:8765", url).replace("time.sleep(300)", "break")
        await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", once],
            env={**os.environ, "FUSION_API_KEY": "sk"},
            check=True,
            timeout=100,
        )
    assert (await fusion.runner.log(None, 10)).runs == ()


# The command


def run(home: Path, *arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["jobs", "install", *arguments, "--home", str(home)], input=answer)


@pytest.mark.feature("`fusion jobs install` writes timers for systemd, launchd, cron or compose, and removes them")
def test_install_shows_asks_writes_and_removes(home: Path) -> None:
    target, units = Target(home=home), home.parent / "units"

    def plan(*jobs: Any) -> install.Plan:
        return install.plan("systemd", jobs, target, folder=units)

    assert [change.state for change in plan(NIGHTLY, CHECKS, OFF).changes] == ["new"] * 4
    install.carry_out(plan(NIGHTLY, CHECKS, OFF), dry_run=True, yes=False, as_json=False)
    assert not units.exists()
    install.carry_out(plan(NIGHTLY, CHECKS, OFF), dry_run=False, yes=False, as_json=False)
    assert len(list(units.iterdir())) == 4
    assert [command.split()[:3] for command in plan(NIGHTLY).after[1:4]] == [
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable"],
        ["systemctl", "--user", "restart"],
    ]
    later = plan({**NIGHTLY, "schedule": "0 5 * * *"})
    assert sorted(change.state for change in later.changes) == ["removed", "removed", "replaced", "same"]
    with pytest.raises(BadInput, match="--json cannot ask"):
        install.carry_out(later, dry_run=False, yes=False, as_json=True)
    install.carry_out(later, dry_run=False, yes=True, as_json=True)
    assert "05:00:00" in "".join(file.read_text() for file in units.glob("*.timer"))
    install.carry_out(install.plan("systemd", None, target, folder=units), dry_run=False, yes=True, as_json=False)
    assert list(units.iterdir()) == []


def test_install_asks_before_it_replaces_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.parent)
    file = home.parent / timers.COMPOSE
    file.write_text("mine\n")
    try:
        assert "compose.jobs.yaml: replaced" in run(home, "--compose", "--dry-run").stdout
        refused = run(home, "--compose", answer="n\n")
        assert (refused.exit_code, file.read_text()) == (1, "mine\n")
        assert "Change 1 file?" in refused.stdout
        done = run(home, "--compose", answer="y\n")
        assert (done.exit_code, file.read_text().startswith("# Wakes up the jobs")) == (0, True)
        assert "Next: docker compose -f compose/gateway.yaml -f" in done.stdout
    finally:
        stop_server(home)


@pytest.mark.parametrize("arguments", [(), ("--cron", "--systemd")])
def test_install_wants_one_system(home: Path, arguments: tuple[str, ...]) -> None:
    result = run(home, *arguments)
    assert result.exit_code == 2
    assert "choose one of --systemd, --launchd, --cron, --compose" in result.stderr


def test_launchd_agent_is_unloaded_before_its_new_file_is_loaded(home: Path, tmp_path: Path) -> None:
    agents = tmp_path / "agents"

    def plan(*jobs: Any) -> install.Plan:
        return install.plan("launchd", jobs or None, Target(home=home), folder=agents)

    first = plan(NIGHTLY, CHECKS)
    assert all(command.startswith("launchctl bootstrap ") for command in first.after)
    install.carry_out(first, dry_run=False, yes=False, as_json=False)
    label = Path(first.changes[0].name).name.removesuffix(".plist")
    assert plan(NIGHTLY, CHECKS).after[0] == f"launchctl bootout gui/{os.getuid()}/{label}"
    assert [command.split()[1] for command in plan().after] == ["bootout", "bootout"]


def test_install_writes_nothing_through_a_link(home: Path, tmp_path: Path) -> None:
    """Somebody else's file could be behind it."""
    units = tmp_path / "units"
    plan = install.plan("systemd", (NIGHTLY,), Target(home=home), folder=units)  # type: ignore[arg-type]
    units.mkdir()
    Path(plan.changes[0].name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="is no plain file"):
        install.plan("systemd", (NIGHTLY,), Target(home=home), folder=units)  # type: ignore[arg-type]


CRONTAB = """#!/bin/sh
if [ "$1" = -l ]; then
    [ -f "$0.tab" ] || { echo "no crontab for ada" >&2; exit 1; }
    exec cat "$0.tab"
fi
cat >"$0.tab"
"""


def test_install_writes_the_crontab(home: Path, tmp_path: Path) -> None:
    """By the system's own command, here a script that keeps it in a file."""
    command = tmp_path / "crontab"
    command.write_text(CRONTAB)
    command.chmod(0o700)

    def plan(jobs: Any) -> install.Plan:
        return install.plan("cron", jobs, Target(home=home), crontab=(str(command),))

    install.carry_out(plan((NIGHTLY, CHECKS, OFF)), dry_run=False, yes=False, as_json=False)
    tab = (tmp_path / "crontab.tab").read_text()
    assert tab.count(" jobs run ") == 2
    assert [change.state for change in plan((NIGHTLY, CHECKS, OFF)).changes] == ["same"]
    install.carry_out(plan(None), dry_run=False, yes=True, as_json=False)
    assert (tmp_path / "crontab.tab").read_text() == ""
    with pytest.raises(SettingsError, match="there is no command"):
        install.plan("cron", (), Target(home=home), crontab=(str(tmp_path / "missing"),))


def test_dry_run_shows_the_cron_lines_without_the_command_crontab(home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    with mock.patch.dict(os.environ, {"PATH": str(empty)}):
        try:
            shown = run(home, "--cron", "--dry-run")
            refused = run(home, "--cron")
        finally:
            stop_server(home)
    assert shown.exit_code == 0, shown.stderr
    assert f"30 3 * * * {sys.executable} -m fusion jobs run " in shown.stdout
    assert refused.exit_code != 0
    assert "there is no command 'crontab' here: install cron, or use --systemd" in refused.stderr


@pytest.mark.feature(
    "… what a timer calls starts the server of the home, and runs what is due", of="`fusion jobs install` writes timers"
)
def test_what_a_timer_calls_works(home: Path) -> None:
    words = timers.Caller(home, PYTHON).words("receipts")
    try:
        done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False, timeout=110)
        assert (done.returncode, json.loads(done.stdout)) == (0, {"runs": []}), done.stderr
    finally:
        stop_server(home)


def test_likely_kind_is_what_the_computer_has(tmp_path: Path) -> None:
    assert timers.likely_kind("darwin", tmp_path) == "launchd"
    assert timers.likely_kind("linux", tmp_path) == "systemd"
    assert timers.likely_kind("linux", tmp_path / "nothing") == "cron"
