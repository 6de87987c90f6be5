"""Numbers with their nouns, and what a command says of a question without words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors import cli
from fusion.doors.cli import app
from fusion.doors.cli.ingest_preview import Bulk
from fusion.doors.cli.plural import counted, plural

NOUNS = "memories|files|answers|questions|sections|labels|vectors|documents|secrets|votes|folds|requests"


@pytest.mark.feature("the command line says `1 memory` in the singular")
def test_numbers_have_the_noun_that_they_want() -> None:
    """Of several words the last one changes."""
    assert [counted(n, "forgotten memory") for n in (0, 1, 2, 1200)] == [
        "0 forgotten memories",
        "1 forgotten memory",
        "2 forgotten memories",
        "1,200 forgotten memories",
    ]
    assert (counted(1, "memory was"), counted(3, "new file is")) == ("1 memory was", "3 new files are")
    assert (plural(1, "is"), plural(3, "is"), plural(2, "new file")) == ("is", "are", "new files")
    assert Bulk(1, 2_000_000, 1).spelt() == "1 new file with 2.0 MB, about 1 section"


def test_no_line_of_the_command_line_has_a_plural_after_a_number() -> None:
    """In the source: a number in braces with a noun in the plural right behind it says `1 memories`."""
    doors = Path(cli.__file__).parent.parent
    found = [
        f"{file.name}: {line.strip()}"
        for file in (*doors.glob("*.py"), *doors.glob("cli/*.py"))
        for line in file.read_text().splitlines()
        if re.search(rf"\}} (?:\w+ )?(?:{NOUNS})\b", line) and not line.lstrip().startswith("#")
    ]
    assert [line for line in found if "has no memories" not in line] == []


@pytest.mark.feature("a question without words is refused with an example")
@pytest.mark.parametrize("command", [["fuse"], ["search", "markdown"], ["remember"]])
@pytest.mark.parametrize("words", [[""], ["  \n"], ["", " "]])
def test_without_words_a_command_says_how_to_call_it(command: list[str], words: list[str], tmp_path: Path) -> None:
    """Before anything is opened: no home is made, no server started."""
    done = CliRunner().invoke(app, [*command, *words, "--home", str(tmp_path / "home")])
    assert done.exit_code == 2
    assert f"there are no words in it; for example: fusion {command[0]} " in " ".join(done.stderr.split())
    assert not (tmp_path / "home").exists()
