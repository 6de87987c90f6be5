"""Writes the text of a new `fusion.toml`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
