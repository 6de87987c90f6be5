"""Every command, flag, MCP tool and route of openclaw-mem 2.0.0: it works, has no effect, or is refused with a reason.

What is refused is listed in `fusion.doors.cli.mem.refused` and in docs/ledger.md.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.mem import app as mem_app
from fusion.doors.cli.mem.flags import FILES, JSON, LEFT_OUT, NO_JSON, RENAMED, WORDS
from fusion.doors.cli.mem.refused import COMMANDS, FLAGS, why_refused
from fusion.doors.http.openclaw_mem import ROUTES
from fusion.doors.mcp.openclaw_mem_tools import ALL_TOOLS

openclaw_mem = pytest.importorskip(
    "openclaw_mem.cli", reason="make setup installs openclaw-context-pack, which is openclaw-mem"
)
openclaw_gateway = pytest.importorskip("openclaw_mem.gateway")
openclaw_mcp = pytest.importorskip("openclaw_mem.mcp_server")
PAGE = Path("docs/ledger.md")


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, frozenset[str]]]:
    """Its commands with their flags."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield " ".join(path), frozenset(flag for action in parser._actions for flag in action.option_strings)
    for group in groups:
        for name, below in group.choices.items():
            yield from commands(below, (*path, name))


THEIRS: Mapping[str, frozenset[str]] = dict(commands(openclaw_mem.build_parser()))


def ours(name: str) -> Any:
    """Our command of this name; None if there is none."""
    command: Any = typer.main.get_command(mem_app)
    for word in name.split():
        command = getattr(command, "commands", {}).get(word)
    return command


def taken(name: str) -> set[str]:
    """The flags that our command takes, also those that are renamed or have no effect."""
    flags = {flag for one in ours(name).params for flag in (*one.opts, *one.secondary_opts)}
    named = [*RENAMED.items(), *LEFT_OUT.items()]
    also = {flag for words, table in named if name.startswith(words) for flag in table}
    return flags | also | {"-h", "--help", JSON, NO_JSON, *FILES, *WORDS}


def test_the_tree_is_walked() -> None:
    assert len(THEIRS) > 150
    assert {"search", "graph fact route", "episodes gc"} <= THEIRS.keys()


@pytest.mark.feature("every command and flag of openclaw-mem works with `fusion mem`, or is refused with a reason")
@pytest.mark.parametrize("name", THEIRS)
def test_every_command_and_flag(name: str) -> None:
    if ours(name) is None:
        assert why_refused(name.split()), f"{name} is neither here nor refused with a reason"
    else:
        assert THEIRS[name] - taken(name) - FLAGS.get(name, {}).keys() == set()


INSTEAD = sorted(
    {
        command
        for reason in (*COMMANDS.values(), *(one for flags in FLAGS.values() for one in flags.values()))
        for command in re.findall(r"`fusion ([^`]+)`", reason)
    }
)
"""the commands of ours that a refusal names"""


@pytest.mark.parametrize("named", INSTEAD)
def test_a_refusal_names_commands_and_flags_that_exist(named: str) -> None:
    words = named.split()
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert len(words) < len(named.split())
    flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= flags


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_refused_is_theirs_and_not_ours(name: str) -> None:
    assert any(f"{one} ".startswith(f"{name} ") for one in THEIRS)
    assert ours(name) is None


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_are_refused_are_theirs_and_not_ours(name: str) -> None:
    assert FLAGS[name].keys() <= THEIRS[name]
    assert FLAGS[name].keys().isdisjoint(taken(name))


@pytest.mark.feature("the documentation lists every command and flag of openclaw-mem that is refused")
def test_the_documentation_lists_what_is_refused() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    named = {*COMMANDS, *(flag for flags in FLAGS.values() for flag in flags)}
    assert [one for one in sorted(named) if f"`{one}`" not in page] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("dream-lite apply plan", "upkeep here are `fusion jobs`"),
        ("graph query upstream x", "`fusion mem graph neighbors`"),
        ("pack --query x --graph-aware-path g.json", "--graph-aware-path of openclaw-mem is not here"),
        ("search x --include-archived", "archived memories are in no answer"),
    ],
)
def test_a_refusal_says_what_to_use_instead(line: str, said: str) -> None:
    done = CliRunner().invoke(app, ["mem", *line.split()])
    assert done.exit_code == 2
    assert said in done.output


def test_every_mcp_tool_is_here() -> None:
    theirs = {tool.name: tool for tool in openclaw_mcp.TOOLS}
    assert ALL_TOOLS.keys() == theirs.keys()
    for name, tool in theirs.items():
        assert tool.input_schema.get("properties", {}).keys() <= ALL_TOOLS[name].arguments.keys()


def test_every_route_of_its_gateway_is_here() -> None:
    """Its paths are compared in its code, where each is a string."""
    source = Path(openclaw_gateway.__file__).read_text(encoding="utf-8")
    theirs = set(re.findall(r'path == "(/[^"]+)"', source))
    assert len(theirs) > 8
    assert theirs <= {*ROUTES, "/health", "/v1/status"}
