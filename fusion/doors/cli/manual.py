"""The manual page, in roff, from the help of the commands themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import typer

import fusion as package
from fusion.doors.cli.adapter_commands import BackendCommands

COMMON_SHARE = 0.5
"""an option that at least this share of the commands have, with the same help, is described only once"""
ENVIRONMENT = {
    "FUSION_HOME": "the home of commands that name none",
    "FUSION_API_KEY": "an API key of the server, instead of the home's token",
    "FUSION_RECIPE": "the recipe of questions that name none",
    "FUSION_LOG_LEVEL": "what the server logs: DEBUG, INFO, WARNING or ERROR",
}
FILES = {
    "~/.local/share/memory-fusion": "the home of a user, with the settings fusion.toml",
    ".fusion": "the home of a folder, once `fusion allow` allows it",
}
STATUS = {"0": "done", "1": "failed", "2": "wrong usage, or a name of something that does not exist"}


def man(context: typer.Context) -> None:
    """Print the manual page.

    To read it: fusion man | man -l - (on macOS: fusion man | mandoc -a).
    To install it: fusion man > ~/.local/share/man/man1/fusion.1
    """
    print("\n".join(page(context.find_root())))


def page(root: Any) -> Iterator[str]:
    """The lines of the page; ``root`` is the context of `fusion` itself."""
    commands = [(path, one) for path, one in _commands(root) if not isinstance(one.command, BackendCommands)]
    common = _common([one for _, one in commands])
    summary, _, more = (root.command.help or "").partition("\n\n")
    yield f'.TH FUSION 1 "" "memory-fusion {package.__version__}" "User Commands"'
    yield from [".SH NAME", f"fusion \\- {_text(_first_lower(summary).rstrip('.'))}"]
    yield from [".SH SYNOPSIS", r"\fBfusion\fR \fICOMMAND\fR [\fIARGUMENT\fR]... [\fIOPTION\fR]..."]
    yield from [".SH DESCRIPTION", *_paragraphs(more)]
    yield from [".SH OPTIONS", *_options(root, ())]
    yield from [".SH COMMON OPTIONS", _text("Many commands have these; `fusion COMMAND --help` lists those of one.")]
    yield from _entries(common, commands[0][1])
    yield ".SH COMMANDS"
    for path, one in commands:
        yield from _command(path, one, common)
    yield from [".SH COMMANDS OF BACKENDS", _text("A backend may have commands of its own: `fusion BACKEND --help`.")]
    for title, described in (("EXIT STATUS", STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        yield f".SH {title}"
        for name, meaning in described.items():
            yield from [".TP", rf"\fB{_text(name)}\fR", _text(f"{meaning}.")]


def _commands(context: Any) -> Iterator[tuple[str, Any]]:
    """The path and context of each command below a group, each group before its own."""
    group = context.command
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        one = type(context)(command, parent=context, info_name=name)
        yield one.command_path.removeprefix(f"{context.find_root().command_path} "), one
        if hasattr(command, "commands") and not isinstance(command, BackendCommands):
            yield from _commands(one)


def _common(contexts: Sequence[Any]) -> tuple[Any, ...]:
    """The options that most commands have with the same help, as one of these commands has them."""
    found = [option for one in contexts for option in one.command.params if option.param_type_name == "option"]
    counted = Counter(map(_key, found))
    by_key = {_key(option): option for option in found}
    return tuple(by_key[key] for key, count in counted.items() if count >= COMMON_SHARE * len(contexts))


def _key(option: Any) -> tuple[tuple[str, ...], str | None]:
    return tuple(option.opts), getattr(option, "help", None)


def _command(path: str, context: Any, common: Sequence[Any]) -> Iterator[str]:
    arguments = [one for one in context.command.params if one.param_type_name == "argument"]
    yield f".SS fusion {_text(' '.join([path, *map(_placeholder, arguments)]))}"
    yield from _paragraphs(context.command.help or "")
    yield from _entries([one for one in arguments if getattr(one, "help", None)], context)
    yield from _options(context, common)


def _placeholder(argument: Any) -> str:
    """An argument as a synopsis shows it: REF, or [QUESTION...] where it may be left out."""
    name = argument.metavar or f"{argument.name.upper()}{'...' if argument.nargs != 1 else ''}"
    return name if argument.required else f"[{name}]"


def _options(context: Any, common: Sequence[Any]) -> Iterator[str]:
    """The options of a command, without those that are common, and `--help`."""
    known = set(map(_key, common))
    params = [one for one in context.command.params if one.param_type_name == "option" and _key(one) not in known]
    yield from _entries(params, context)


def _entries(params: Sequence[Any], context: Any) -> Iterator[str]:
    """What the help says of each parameter: its names with the type of its value, and its meaning."""
    for one in params:
        if (record := one.get_help_record(context)) is not None:
            names, meaning = record
            yield from [".TP", rf"\fB{_text(names)}\fR", _text(meaning)]


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text; each line of the text begins a line of its own."""
    for number, paragraph in enumerate(filter(None, text.split("\n\n"))):
        if number:
            yield ".PP"
        for line, words in enumerate(paragraph.splitlines()):
            yield from [".br", _text(words)] if line else [_text(words)]


def _text(text: str) -> str:
    """Words as roff shows them: nothing in them is a command, and what is in backticks is bold."""
    escaped = (
        " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace('"', r"\(dq")
    )
    bold = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", escaped)
    return rf"\&{bold}" if bold.startswith(".") else bold


def _first_lower(text: str) -> str:
    return text[:1].lower() + text[1:]
