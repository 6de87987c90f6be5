"""Writes the text of a new `fusion.toml`, and changes single settings of one that is there."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusion.errors import SettingsError
from fusion.home import config_root


@dataclass(frozen=True, slots=True)
class Chosen:
    """A setting of a new file: ``table`` is "" for the top level, ``toml`` the value as TOML, ``reason`` one line."""

    table: str
    name: str
    toml: str
    reason: str


def new_file(chosen: Sequence[Chosen], opening: str) -> str:
    """The text of a new `fusion.toml`: the shipped file with every default as a comment, and the ``chosen`` settings.

    It is made from `config/fusion.toml`, so it explains every setting. ``opening`` is its first comment.
    """
    shipped = (config_root() / "fusion.toml").read_text(encoding="utf-8").split("\n\n", 1)[1]
    wanted = {(one.table, one.name): one for one in chosen}
    lines = [*(f"# {line}".rstrip() for line in opening.splitlines()), ""]
    table = ""
    for line in shipped.splitlines():
        if header := re.fullmatch(r"\[([\w.]+)\]", line):
            table = header[1]
        name = line.partition(" = ")[0]
        if one := wanted.pop((table, name), None):
            lines += [f"# Chosen: {one.reason}", f"{name} = {one.toml}"]
        else:
            lines.append(f"# {line}" if _SETTING.match(line) else line)
    if wanted:
        raise SettingsError(f"there is no setting {', '.join('.'.join(key).lstrip('.') for key in wanted)}")
    return "\n".join(lines) + "\n"


_SETTING = re.compile(r"\w+ = ")


def toml_text(text: str) -> str:
    """A text as a TOML string; JSON's form is valid TOML except for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def with_settings(text: str, table: str, values: Mapping[str, str]) -> str:
    """The text of a `fusion.toml` with other texts in a table; an empty one is made a comment. All else stays.

    Raises SettingsError for a file that has the settings in another form than lines below the table's header.
    """
    before = tomllib.loads(text)
    lines = text.splitlines()
    header = next((n for n, line in enumerate(lines) if _header(line) == table), None)
    if header is None:
        lines += [*([""] if lines else []), f"[{table}]"]
        header = len(lines) - 1
    for name, value in values.items():
        end = next((n for n in range(header + 1, len(lines)) if _header(lines[n]) is not None), len(lines))
        within = range(header + 1, end)
        there = [n for n in within if _name(lines[n]) == name]
        line = f"{name} = {toml_text(value)}"
        if not value:
            for n in there:
                lines[n] = f"# {lines[n]}"
        elif there:
            lines[there[0]] = line
        else:
            example = [n for n in within if lines[n].startswith("#") and _name(lines[n][1:]) == name]
            lines.insert((example[0] if example else header) + 1, line)
    changed = "\n".join(lines) + "\n"
    there_before = before.get(table, {})
    after = _parsed(changed)
    if after is not None and isinstance(there_before, dict):
        kept = {name: value for name, value in there_before.items() if name not in values}
        wanted = {**kept, **{name: value for name, value in values.items() if value}}
        if {**after, table: after.get(table, {})} == {**before, table: wanted}:
            return changed
    raise SettingsError(f"the settings of [{table}] are written in a form that no program changes")


def _name(line: str) -> str | None:
    """The setting of a line; None for a line that sets nothing."""
    name, equals, _ = line.partition("=")
    return name.strip() if equals else None


def _header(line: str) -> str | None:
    """The table that a line begins; None for any other line."""
    line = line.strip()
    if not line.startswith("[") or "]" not in line:
        return None
    return line.lstrip("[").partition("]")[0].strip() or None


def _parsed(text: str) -> Mapping[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
