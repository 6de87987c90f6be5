"""`fusion man` prints a manual page that has every command and option, as roff that a formatter accepts."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fusion import __version__
from fusion.doors.cli import app, manual
from fusion.doors.cli.adapter_commands import BackendCommands

MANDOC = shutil.which("mandoc")


@pytest.fixture(scope="module")
def page() -> str:
    done = CliRunner().invoke(app, ["man"])
    assert done.exit_code == 0, done.output
    return done.stdout


def commands(group: Any, path: str = "fusion") -> Iterator[tuple[str, Any]]:
    """The path of each command of the command line, and the command."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")


def plain(roff: str) -> str:
    """What a reader sees of a line."""
    for escape, shown in ((r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\&", ""), (r"\e", "\\")):
        roff = roff.replace(escape, shown)
    return re.sub(r"\\f[BIR]", "", roff)


@pytest.mark.feature("`fusion man` prints a manual page with every command and option, made from their own help")
def test_man_has_every_command_and_option(page: str) -> None:
    sections = {
        title.split(" [")[0]: text
        for title, text in re.findall(r"^\.SS (.*)\n((?:(?!\.S[SH]).*\n)*)", page, re.MULTILINE)
    }
    common = plain(page.partition(".SH COMMON OPTIONS")[2].partition(".SH ")[0])
    found = [(path, one) for path, one in commands(typer.main.get_command(app)) if not isinstance(one, BackendCommands)]
    assert len(found) > 60
    for path, command in found:
        (shown,) = [text for title, text in sections.items() if re.fullmatch(rf"{path}( [A-Z\[].*)?", plain(title))]
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                assert option.opts[0] in plain(shown) or option.opts[0] in common, (path, option.opts)
                assert " ".join((option.help or "").replace("`", "").split()) in plain(shown) + common, (
                    path,
                    option.opts,
                )
    assert f'"memory-fusion {__version__}"' in page.splitlines()[0]


@pytest.mark.skipif(MANDOC is None, reason="mandoc is not installed")
def test_man_is_roff_that_a_formatter_accepts(page: str) -> None:
    assert MANDOC is not None
    done = subprocess.run(
        [MANDOC, "-T", "lint", "-W", "error"], input=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".so /etc/passwd", r"\&.so /etc/passwd"),
        ("'br it's", r"\(aqbr it\(aqs"),
        (r"a\fBb", r"a\efBb"),
        ("run `fusion init` --yes", r"run \fBfusion init\fR \-\-yes"),
    ],
)
def test_man_shows_texts_as_they_are(text: str, roff: str) -> None:
    """No text of a help is read as a request of roff."""
    assert manual._text(text) == roff
