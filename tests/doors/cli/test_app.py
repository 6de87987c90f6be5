"""The command line without a server: quick to start, and friendly when something is wrong."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner, Result

from fusion import __version__
from fusion.doors.cli import app, render
from fusion.doors.cli.app import GROUPS, made
from fusion.home import HomeLock
from tests.doors.fakes import SMALL

HEAVY = (
    "aiohttp anthropic fastapi httpx mcp mem0 numpy onnxruntime pydantic pydantic_settings qdrant_client sqlite3 "
    "starlette structlog tantivy uvicorn"
).split()


def fusion(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def problem(result: Result) -> dict[str, Any]:
    """The one line of problem details on stderr."""
    [line] = result.stderr.splitlines()
    assert result.stdout == ""
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.feature("`fusion --help` imports nothing heavy")
def test_help_imports_nothing_heavy() -> None:
    """`fusion --help` starts at once: none of the packages that take their time is imported for it."""
    code = "import sys; sys.argv = ['fusion', '--help']\nfrom fusion.doors.cli import main\ntry:\n    main()\n"
    code += f"except SystemExit:\n    pass\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ingest" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.feature("`fusion --help` groups the commands by what people do, with one line each")
def test_help_groups_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command is in one group, and its first line fits a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = fusion("--help").stdout
    groups = [line.split()[1] for line in shown.splitlines() if line.startswith("╭─")]
    assert groups[:8] == ["Options", "Ask", "Remember", "Review", "Look", "Tend", "Measure", "Serve"]
    described = {
        command.__name__.rstrip("_").replace("_", "-"): (command.__doc__ or "").strip().splitlines()[0]
        for commands in GROUPS.values()
        for command in commands
    }
    width = max(map(len, described))
    for name, line in described.items():
        assert f"│ {name:<{width}}  {line}" in shown


def test_help_shows_the_tables_of_settings_that_it_names() -> None:
    """Rich reads ``[model]`` as markup and prints nothing for it, unless it is escaped."""
    root: Any = typer.main.get_command(app)
    with root.make_context("fusion", ["help"], resilient_parsing=True) as context:
        for name, text in help_texts(context, root):
            shown = Text.from_markup(text).plain
            assert [table for table in re.findall(r"\[[a-z_.]+\]", text) if table not in shown] == [], name


def help_texts(context: Any, command: Any) -> Iterator[tuple[str, str]]:
    """What the help of a command and of those below it says: its own text, and that of its options."""
    for text in (command.help, *(getattr(one, "help", None) for one in command.params)):
        yield command.name, text or ""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from help_texts(context, command.get_command(context, name))


@pytest.mark.feature("`fusion COMMAND` makes the options of that command alone")
@pytest.mark.parametrize("name", ["forget", "mem", "jobs"])
def test_command_is_made_alone(name: str) -> None:
    """It is the same command as among all of them."""
    alone: Any = typer.main.get_command(made(name))
    assert list(alone.commands) == [name]
    helps = [CliRunner().invoke(one, [name, "--help"]).stdout for one in (made(name), app)]
    assert helps[0] == helps[1] != ""


@pytest.mark.parametrize("name", ["", "--version", "help", "man", "forgt", "markdown"])
def test_other_words_are_looked_for_among_all_commands(name: str) -> None:
    """An option, a wrong name, a backend, and `man`, which shows every command."""
    every: Any = typer.main.get_command(made(name))
    assert set(every.commands) == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def test_the_package_imports_nothing_heavy() -> None:
    """`import fusion` alone, too."""
    code = f"import sys, fusion; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_the_version_is_told() -> None:
    """Before anything is looked for, as the first line of a bug report."""
    told = fusion("--version")
    assert (told.exit_code, told.stdout) == (0, f"memory-fusion {__version__}\n")


def test_a_ref_is_printed_in_one_piece(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A ref is there to be copied: next to a long text, in a narrow terminal, it is the text that is clipped."""
    monkeypatch.setenv("COLUMNS", "60")
    ref, text = "01a1fd23-b811-76ac-8272-2a5ebd5dfdcd", "The falafel place has closed. " * 5
    hits: Any = [{"ref": ref, "score": 0.5, "text": text}]
    backend: Any = {"name": "one", "status": "ok"}
    render.found({"backend": backend, "hits": hits})
    printed = capsys.readouterr().out
    assert ref in printed
    assert len([line for line in printed.splitlines() if "The fala" in line]) == 1
    assert printed.count("falafel") < 5


def test_wrong_usage_is_exit_code_2() -> None:
    """A missing argument, an unknown option, a number out of range."""
    for arguments in (["fuse"], ["fuse", "q", "--nope"], ["search", "markdown", "q", "--limit", "0"], ["nope"]):
        assert fusion(*arguments).exit_code == 2


@pytest.mark.feature(
    "naming something that does not exist ends with exit code 2, like wrong usage; 1 is for what failed"
)
@pytest.mark.parametrize(
    "command",
    [
        ["receipt", "r0"],
        ["feedback", "r0", "--useful", "m1"],
        ["forget", "m9z", "--yes"],
        ["get", "m9z"],
        ["fuse", "q", "--recipe", "nope"],
        ["fuse", "q", "--backends", "nope"],
        ["compare", "q", "--a", "nope", "--b", "default"],
        ["search", "nope", "q"],
        ["ingest", "nope.md"],
        ["remember", ""],
        ["memory", "nope"],
    ],
)
def test_what_names_something_that_is_not_there_is_exit_code_2(home: Path, command: list[str]) -> None:
    """As wrong usage is, whichever command it is said to; exit code 1 is for what failed."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    result = fusion(*command, "--home", home, "--direct")
    assert (result.exit_code, bool(result.stderr)) == (2, True), result.output


def test_a_home_open_elsewhere_is_told_in_one_sentence(home: Path) -> None:
    """Exit code 1, who owns it and what to do, on stderr; no traceback."""
    with HomeLock.take(home, "fusion ingest notes --direct"):
        result = fusion("fuse", "q", "--home", home)
    assert result.exit_code == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith(f"fusion: The home {home} is in use by this process")
    assert f"kill {os.getpid()}" in line


@pytest.mark.feature(
    "`fusion serve` of a home that has a server names the home and how to stop that server, not the port"
)
def test_serving_a_home_twice_names_the_home_not_the_port(home: Path) -> None:
    """The first server has both: another port would not help."""
    with HomeLock.take(home, f"fusion serve --home {home}"), socket.create_server(("127.0.0.1", 0)) as door:
        result = fusion("serve", "--home", home, "--port", door.getsockname()[1])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"fusion: The home {home} is in use by this process")
    assert f"fusion stop --home {home}" in result.stderr


def test_with_json_the_error_is_one_line_of_problem_details(home: Path) -> None:
    """A program reads the same from stderr as it would from the server."""
    with HomeLock.take(home, "fusion ingest notes --direct"):
        result = fusion("backends", "--home", home, "--json")
    assert result.exit_code == 1
    assert problem(result)["type"].endswith("HomeLocked")


def test_a_wrong_setting_is_named(home: Path) -> None:
    """The file, the key and the reason."""
    home.mkdir()
    (home / "fusion.toml").write_text("[server]\nport = 99999\n")
    result = fusion("serve", "--home", home, "--json")
    assert result.exit_code == 1
    assert "server.port" in problem(result)["detail"]
    assert str(home / "fusion.toml") in problem(result)["detail"]


def test_a_configuration_that_is_not_there(home: Path) -> None:
    """Said before anything is started."""
    result = fusion("serve", "--config", home / "nope.toml")
    assert result.exit_code == 1
    assert "nope.toml" in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5"])
def test_no_open_door_without_a_key(home: Path, host: str) -> None:
    """`--host` is checked like the setting."""
    result = fusion("serve", "--home", home, "--host", host, "--port", 0)
    assert result.exit_code == 1
    assert "FUSION_API_KEY" in result.stderr


@pytest.mark.feature(
    "a command that reads does not create a named home that does not exist; an answer of a home "
    "without memories says so, with its name"
)
@pytest.mark.parametrize(
    "command", [["fuse", "q"], ["search", "markdown", "q"], ["memories"], ["status"], ["backends"]]
)
def test_a_home_that_is_not_there_is_not_made_to_be_asked(home: Path, command: list[str]) -> None:
    """A misspelt --home: exit code 1, what makes one, and nothing was made."""
    for more in ([], ["--direct"]):
        result = fusion(*command, "--home", home, *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"fusion: there is no home {home}. To make one: fusion init --home {home}\n"
    assert not home.exists()


def test_an_answer_of_a_home_without_memories_says_so(home: Path) -> None:
    """With the home's name; not where there is a memory that the question does not find."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    said = f"{home} has no memories: fusion init finds your notes, fusion ingest FOLDER adds a folder"
    for command in (["fuse", "chains"], ["search", "memory", "chains"]):
        result = fusion(*command, "--home", home, "--direct")
        assert (result.stdout, result.stderr.splitlines()[-1]) == ("", f"fusion: {said}")
    programs = ["fuse", "chains", "--home", home, "--direct", "--json"]
    assert json.loads(fusion(*programs).stdout)["abstained"] == "no memory is here yet"
    fusion("remember", "The bookings moved.", "--home", home, "--direct")
    for command in (["fuse", "chains"], ["search", "memory", "chains"]):
        result = fusion(*command, "--home", home, "--direct")
        assert (result.exit_code, said in result.output) == (0, False)
    assert json.loads(fusion(*programs).stdout)["abstained"] != "no memory is here yet"


@pytest.mark.feature(
    "`fusion ingest` of a file that does not exist, or is of an unsupported kind, fails and reports it once"
)
@pytest.mark.parametrize(
    ("name", "said"),
    [("notes.txt", "neither Markdown (.md) nor JSONL (.jsonl)"), ("nope.md", "there is no such file or folder")],
)
def test_a_file_that_is_named_and_not_read_is_an_error(home: Path, tmp_path: Path, name: str, said: str) -> None:
    """Exit code 2 and one message; the other inputs are remembered."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    (tmp_path / "notes.txt").write_text("no Markdown")
    (tmp_path / "a.md").write_text("# A note\n\nThe bookings moved.\n")
    result = fusion("ingest", tmp_path / "a.md", tmp_path / name, "--home", home, "--direct")
    assert result.exit_code == 2
    assert result.stdout.startswith("1 remembered, 0 known already.")
    assert result.stderr.splitlines()[-1] == f"fusion: {said}: {tmp_path / name}"
    assert (result.stdout + result.stderr).count(name) == 1


def test_a_folder_in_which_nothing_is_read_is_named(home: Path, tmp_path: Path) -> None:
    """No error: nothing may be there yet."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("no Markdown")
    result = fusion("ingest", folder, "--home", home, "--direct")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"No Markdown or JSONL with a memory in it: {folder}"


@pytest.mark.feature("one memory is shown in full by its ref, with its place and the backends that keep it")
def test_one_memory_is_shown_whole(home: Path) -> None:
    """All of its text, where a table cuts it, and what is known of it; a new one names what it replaces."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    text = "# The bookings\n\nThey moved to Postgres.\n" + "So it is written, " * 40 + "and so it is."
    first = fusion("remember", text, "--kind", "decision", "--home", home, "--direct").stdout.split()[0]
    second = fusion("remember", "They stay.", "--supersedes", first, "--home", home, "--direct").stdout.split()[0]
    fusion("remember", text, "--speaker", "Ada", "--at", "2026-01-31", "--user", "ada", "--home", home, "--direct")
    shown = fusion("get", "m3", "--user", "ada", "--home", home, "--direct").stdout
    assert shown.startswith(f"{text}\n\nref       m3\nkind      note\nspeaker   Ada\nhappened  2026-01-31")
    assert "\nof        user_id ada\n" in shown
    told = json.loads(fusion("get", second, "--home", home, "--direct", "--json").stdout)
    old = json.loads(fusion("get", told["supersedes"], "--home", home, "--direct", "--json").stdout)
    assert (old["ref"], old["text"], old["kind"]) == (first, text, "decision")
    assert (told["current"], old["current"]) == (True, False)
    assert (
        "\ncurrent   no: it was replaced, or is no longer in its file\n"
        in fusion("get", first, "--home", home, "--direct").stdout
    )


def test_question_that_names_nobody_lists_whom_to_name(home: Path) -> None:
    """Where two users have memories; --user, also an empty one, and --all-users answer it."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL.replace("adapters.inmemory:InMemory", "adapters.markdown:Markdown"))
    at = ("--home", home, "--direct")
    for user in ("ada", "ben", ""):
        said = home.parent / f"said by {user}.jsonl"
        said.write_text(json.dumps({"text": f"The bicycle of {user or 'nobody'} is red.", "user_id": user or None}))
        done = fusion("ingest", said, *at)
        assert done.exit_code == 0, done.stderr
    refused = fusion("fuse", "bicycle", *at)
    assert refused.exit_code == 2
    assert "Several users have memories here: ada, ben. Say whose to ask for" in refused.stderr
    assert "Several users" in fusion("search", "memory", "bicycle", *at).stderr
    assert "Several users" in fusion("forget", "--query", "bicycle", "--dry-run", *at).stderr
    assert json.loads(fusion("fuse", "bicycle", "--json", *at).stderr)["users"] == ["ada", "ben"]
    assert "of nobody" in (alone := fusion("fuse", "bicycle", "--user", "", *at).stdout)
    assert "of ada" not in alone
    assert all(f"of {user}" in fusion("fuse", "bicycle", "--all-users", *at).stdout for user in ("ada", "ben"))
    assert "of ada" in fusion("search", "memory", "bicycle", "--all-users", *at).stdout
    assert fusion("memories", *at).exit_code == 0


@pytest.mark.feature("… and `fusion update` says how it is undone", of="`fusion update` replaces a memory")
def test_update_names_both_versions_and_its_undo(home: Path) -> None:
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    at = ("--home", home, "--direct")
    fusion("remember", "Staging listens on port 5433.", *at)
    done = fusion("update", "m1", "Staging listens", "on port 6543.", *at)
    assert done.stdout.splitlines() == [
        "m2  superseded: it replaces m1",
        f"To take this back: fusion undo update-m2 --home {home}",
    ]
    assert fusion("get", "m2", *at).stdout.startswith("Staging listens on port 6543.\n")
    assert "m1 was replaced by m2 since" in fusion("update", "m1", "Staging is gone.", *at).stderr
    assert "nothing is to change; give text" in fusion("update", "m2", *at).stderr
    assert "update-m2" in fusion("undo", *at).stdout
    undone = fusion("undo", "update-m2", "--yes", *at).stdout
    assert "1 memory of update-m2 taken back" in undone
    assert undone.splitlines()[-1] == "Current again: m1."
    ended = json.loads(fusion("update", "m1", "--kind", "fact", "--valid-to", "2030-01-01", "--json", *at).stdout)
    assert (ended["status"], ended["supersedes"], ended["batch"]) == ("superseded", "m1", "update-m3")


def test_stopping_where_nothing_runs(home: Path) -> None:
    """Is no error, and makes no home."""
    result = fusion("stop", "--home", home, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"home": str(home), "stopped": False}
    assert not home.exists()
