"""``fusion <backend> <verb> …``: commands from the verbs that an adapter's folder exports.

`fusion --help` lists the backends that have some without importing one; their verbs are read when the name is called.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup

from fusion.doors.cli.command import Owner, Target, as_command
from fusion.doors.cli.connect import print_json, settings_of
from fusion.doors.cli.options import AllUsers
from fusion.doors.cli.usage import OneLine
from fusion.doors.memory_batches import BATCH_BYTES
from fusion.errors import BadInput, FusionError, NotFound
from fusion.extension import Lines, RendersResult, Verb
from fusion.gateway.extensions import has_verbs, verbs_of
from fusion.home import config_root, locate_home
from fusion.lib.batched import batched
from fusion.lib.did_you_mean import nearest
from fusion.trust import require

if TYPE_CHECKING:
    from fusion.client import AsyncClient

PANEL = "Backends"
PLAIN = re.compile(r"[\w.-]+")
"""the names of backends that are commands"""
BATCH_LINES = 500


class Commands(OneLine):
    """The commands of `fusion`, and a group for each backend with verbs; for equal names, the command wins."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads `fusion help forget` as `fusion forget --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands, *(name for name in self._backends() if name not in self.commands)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands.get(cmd_name) or self._backends().get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Finds a command; also a backend in the settings that --home or --config on the line name."""
        name, *rest = args
        if self.get_command(ctx, name) is None and (chosen := _configured(rest).get(name)) and has_verbs(chosen):
            return name, BackendCommands(name, chosen), rest
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(self._unknown(ctx, args))
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: Any, args: Sequence[str]) -> str:
        """The error for an unknown command: with a similar name, or the command for a question."""
        if near := nearest(args[0], self.list_commands(ctx)):
            return f"No such command {args[0]!r}. Did you mean {near}?"
        if len(args) > 2 or " " in args[0]:
            return f"No such command {args[0]!r}. To ask: fusion fuse {shlex.join(args)}"
        return f"No such command {args[0]!r}."

    def _backends(self) -> Mapping[str, BackendCommands]:
        """Backends with verbs, by plain names: Rich writes a name to a terminal as it is, and zsh evaluates those that
        complete a word."""
        named = {name: adapter for name, adapter in backends().items() if PLAIN.fullmatch(name)}
        return {name: BackendCommands(name, adapter) for name, adapter in named.items() if has_verbs(adapter)}


class BackendCommands(TyperGroup):
    """The verbs of one backend; its adapter is imported when they are used."""

    def __init__(self, name: str, adapter: str) -> None:
        super().__init__(name=name, help=f"Commands of {name}.", rich_help_panel=PANEL, no_args_is_help=True)
        self.adapter = adapter

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._loaded())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._loaded().get(cmd_name)

    def _loaded(self) -> Mapping[str, Any]:
        if not self.commands:
            app = typer.Typer(add_completion=False)
            for name, kind in verbs_of(self.adapter).items():
                app.command(name, help=inspect.getdoc(kind))(command(str(self.name), name, kind))
            self.commands = typer.main.get_group(app).commands
        return self.commands


def backends(home: Path | None = None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Adapters by backend as the shipped settings, the home's file and the environment name them.

    Read lightly, for a list in a help text: settings would be checked, and pydantic imported. What cannot be read or
    is not allowed is left out; every command that opens a home says what is wrong with it.
    """
    found: dict[str, str] = {}
    located = locate_home(home)
    files = [config_root() / "fusion.toml"]
    with suppress(FusionError, OSError):
        files.append(require(located.path, named=located.named) / "fusion.toml")
    for file in files:
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if table.get("backends_only") is True:
            found.clear()
        chosen = table.get("backends")
        for name, options in chosen.items() if isinstance(chosen, dict) else ():
            if isinstance(options, dict) and isinstance(options.get("adapter"), str):
                found[name] = options["adapter"]
    for variable, value in environ.items():
        if named := _VARIABLE.fullmatch(variable.upper()):
            found[named[1].lower()] = value
    return found


_VARIABLE = re.compile(r"FUSION_BACKENDS__(\w+)__ADAPTER")


def _configured(rest: Sequence[str]) -> dict[str, str]:
    """Adapters by backend in the settings that --home or --config name; empty without these options."""
    named = {option: _option(rest, option) for option in ("--home", "--config")}
    if not any(named.values()):
        return {}
    settings = settings_of(*(Path(value) if value else None for value in named.values()))
    return {name: chosen.adapter for name, chosen in settings.backends.items()}


def _option(words: Sequence[str], option: str) -> str | None:
    for word, after in pairwise([*words, None]):
        if word == option:
            return after
        if word is not None and word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


_ALL_USERS = inspect.Parameter("all_users", inspect.Parameter.KEYWORD_ONLY, annotation=AllUsers, default=False)
"""the option of a verb that asks"""


def command(backend: str, name: str, kind: type[Verb]) -> Callable[..., None]:
    """A verb as a function for typer: its fields as arguments and options, then the common options."""
    hints = get_type_hints(kind, include_extras=True)
    own = [_parameter(field, hints[field.name]) for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    files = next((field.name for field in fields(kind) if _plain(hints[field.name]) is Lines), None)  # type: ignore[arg-type]
    settings_only: Mapping[str, str] = getattr(kind, "in_settings", {})
    asking = [_ALL_USERS] if getattr(kind, "asks", False) else []

    async def run(owner: Owner, target: Target, **given: Any) -> None:
        all_users = {"all_users": True} if given.pop(_ALL_USERS.name, False) else {}
        moved = {name: given.pop(name) for name in settings_only}
        for option in (name for name, value in moved.items() if value is not None):
            flag = option.replace("_", "-")
            raise BadInput(f"--{flag} is a setting now. Write in fusion.toml: {settings_only[option]}")
        arguments = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
        calls = _in_batches(arguments | all_users, files)
        async with target.client() as client:
            result, lines = await _do(client, backend, name, calls, owner.ids(), quiet=target.as_json)
        if target.as_json and not lines:
            print_json(result)
        elif text := _described(kind, arguments, result):
            # Lines on stdout are for a file, and nothing else belongs in it.
            print(text, file=sys.stderr if lines else sys.stdout)

    return as_command(run, [*own, *map(_hidden, settings_only), Owner, *asking, Target])


def _hidden(name: str) -> inspect.Parameter:
    """An option of earlier versions, which names the setting that replaced it."""
    info = typer.Option(None, f"--{name.replace('_', '-')}", hidden=True)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str | None, default=info)


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    """A field as a parameter for typer: an argument for a field without a default and for a file of lines."""
    words = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, str)]
    text, kind = (words or [""])[0], _plain(hint)
    needed = field.default is MISSING and field.default_factory is MISSING
    if kind is Lines:
        kind = Path
        info: Any = typer.Argument(..., help=f"{text} - is stdin.".lstrip(), metavar="FILE")
    elif needed:
        info = typer.Argument(..., help=text)
    else:
        flag = (f"--{field.name.replace('_', '-')}",) if kind is bool and not field.default else ()
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        info = typer.Option(default, *flag, help=text)
    if get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]]  # type: ignore[misc]  # known at run time alone
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=info)


def _plain(hint: Any) -> Any:
    """A type without its annotations."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _in_batches(arguments: Mapping[str, Any], files: str | None) -> Iterator[dict[str, Any]]:
    """The arguments of each call: one, or several for a file of lines. Raises NotFound for a missing file."""
    given = {name: value for name, value in arguments.items() if value is not None and name != files}
    if files is None:
        yield given
        return
    path: Path = arguments[files]
    if str(path) != "-" and not path.is_file():
        raise NotFound(f"There is no file {path}.")
    with sys.stdin if str(path) == "-" else path.open(encoding="utf-8") as file:
        lines = (line.rstrip("\n") for line in file if line.strip())
        # 16 bytes: the quotes and escapes around a line
        for batch in batched(lines, lambda line: len(line.encode()) + 16, most=BATCH_LINES, most_bytes=BATCH_BYTES):
            yield {**given, files: batch}


async def _do(
    client: AsyncClient,
    backend: str,
    verb: str,
    calls: Iterator[dict[str, Any]],
    scope: Mapping[str, str | None],
    *,
    quiet: bool,
) -> tuple[dict[str, Any], bool]:
    """Makes the calls and prints their lines on stdout. Returns the result, and whether there were lines."""
    from fusion.client import calls as requests
    from fusion.doors.cli.progress import bars

    total: dict[str, Any] = {}
    lines = False
    with bars(quiet) as shown:
        bar = shown.add_task(f"{backend} {verb}", total=None)
        for arguments in calls:
            async for part in client.stream(requests.do(backend, verb, arguments, **scope)):
                if "line" in part:
                    lines = True
                    sys.stdout.write(part["line"] + "\n")
                elif "progress" in part:
                    shown.update(bar, completed=part["progress"]["done"], total=part["progress"]["total"])
                else:
                    total = _added(total, part["result"])
    return total, lines


def _added(total: dict[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """The results of two batches as one: numbers added, lists joined, otherwise the later value."""

    def both(old: Any, new: Any) -> Any:
        adds = isinstance(new, int | float | list) and not isinstance(new, bool) and isinstance(old, type(new))
        return old + new if adds else new

    return {**total, **{name: both(total.get(name), value) for name, value in result.items()}}


def _described(kind: type[Verb], arguments: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """A result for people: in the words of the verb, or a line for each field."""
    verb = kind(**{name: value for name, value in arguments.items() if value is not None})
    if isinstance(verb, RendersResult):
        return verb.render(result)
    width = max(map(len, result), default=0)
    return "\n".join(f"{name:<{width}}  {_worded(value)}" for name, value in result.items())


def _worded(value: object) -> str:
    """A JSON value on one line, as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(one)}" for name, one in value.items()) or "-"
    if isinstance(value, list):
        between = "; " if any(isinstance(one, dict | list) for one in value) else ", "
        return between.join(map(_worded, value)) or "-"
    return "-" if value is None else str(value)
