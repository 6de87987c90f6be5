"""Shared by the commands: finds the home, connects to its server, prints results and errors."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from fusion.doors import terminal
from fusion.doors.cli.usage import USAGE, Failed
from fusion.errors import BadInput, FusionError, NotFound, SettingsError
from fusion.home import Located, locate_home, missing_home
from fusion.trust import require

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.settings import Settings

VARIABLES = ("FUSION_HOME", "FUSION_API_KEY", "FUSION_RECIPE", "FUSION_LOG_LEVEL")
"""variables that people set by hand and that belong to no table of the settings"""

BROKEN_PIPE = 141
"""exit code after the reader of stdout has gone, as shells show SIGPIPE"""


def home_of(home: Path | None, config: Path | None) -> Path:
    """The home of this command; a settings file may name it.

    Raises SettingsError for a file in its place, and HomeNotAllowed before anything is opened.
    """
    located = located_home(home, config)
    folder = located.path
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is a file, and a home is a folder{_named_by(home)}")
    require(folder, named=located.named, config=config)
    return folder


def located_home(home: Path | None, config: Path | None) -> Located:
    """The home of this command, allowed or not."""
    if config is not None and not config.is_file():
        wrong = "is a folder, not a configuration file" if config.is_dir() else "is not there"
        raise SettingsError(f"there is no configuration file {config}: it {wrong}{_near(config, Path.is_file)}")
    if home is None and config is not None:
        from fusion.settings import load

        named_by_file = load(config).home
        if named_by_file != locate_home().path:
            return Located(named_by_file, named=True)
    return locate_home(home)


def existing(home: Path | None, config: Path | None) -> Path:
    """The home of this command. Raises SettingsError, with the nearest name, for a named home that does not exist.

    Otherwise a typo would make a new home, in which questions find nothing and memories get lost.
    """
    folder = home_of(home, config)
    if is_named(home) and not folder.is_dir():
        raise missing_home(folder if home is None else home, f"{_named_by(home)}{near_home(folder) or '.'}")
    return folder


def is_named(home: Path | None) -> bool:
    """Whether an option or a variable names the home, so that a home that does not exist is a mistake."""
    return home is not None or bool(os.environ.get("FUSION_HOME"))


def _named_by(home: Path | None) -> str:
    """That a variable, which is easily forgotten, names the home."""
    return " (FUSION_HOME names it)" if home is None and os.environ.get("FUSION_HOME") else ""


def say_if_new(folder: Path, home: Path | None) -> None:
    """Says that a new home is made, where its name is nearly that of an existing one."""
    if not folder.exists() and (near := near_home(folder)):
        say(f"{folder} is a new home{_named_by(home)}{near}")


def near_home(folder: Path) -> str:
    """'; did you mean FOLDER?' for a missing home whose name is nearly that of an existing one, else empty."""
    return _near(folder, lambda near: any((near / name).exists() for name in ("fusion.toml", "journal.sqlite")))


def _near(path: Path, fits: Callable[[Path], bool]) -> str:
    """'; did you mean PATH?' for a fitting path that differs from a missing one in the spelling of one part, or ''."""
    path = path.expanduser().absolute()
    there = next(folder for folder in path.parents if folder.is_dir())
    wrong, *rest = path.relative_to(there).parts
    with suppress(OSError):
        for name in get_close_matches(wrong, [one.name for one in there.iterdir()]):
            if fits(near := there.joinpath(name, *rest)):
                return f"; did you mean {near}?"
    return ""


def settings_of(home: Path | None, config: Path | None) -> Settings:
    """The settings of the home of this command. Options win over the environment."""
    from fusion.settings import load

    folder = home_of(home, config)
    return load(config, home=folder).model_copy(update={"home": folder})


@asynccontextmanager
async def gateway(
    home: Path | None, config: Path | None, *, direct: bool = False, new: bool = False
) -> AsyncIterator[AsyncClient]:
    """A client of the home's server, which is started if necessary, or of the home opened in this process.

    Raises SettingsError for a named home that does not exist, unless it may be ``new``.
    """
    from fusion.client import AsyncClient

    _point_out_variables()
    folder = home_of(home, config) if new else existing(home, config)
    if new:
        say_if_new(folder, home)
    from fusion.doors.direct import is_unwritable, opened_here

    if direct or is_unwritable(folder):
        async with opened_here(settings_of(home, config)) as client:
            yield client
        return
    async with AsyncClient.of_home(folder, config=config) as client:
        yield client


async def say_if_empty(client: AsyncClient, home: Path) -> None:
    """Says that a home has no memories, which explains an empty answer."""
    status = await client.status()
    if not status["memories"]["current"] and not any(row["items"] for row in status["backends"]):
        say(f"{home} has no memories: fusion init finds your notes, fusion ingest FOLDER adds a folder")


def require_words(words: Sequence[str], example: str) -> None:
    """Raises a usage error for a question or text without words, such as an empty variable of a script."""
    if not " ".join(words).strip():
        raise typer.BadParameter(f"there are no words in it; for example: {example}")


def say_if_expanded(words: Sequence[str]) -> None:
    """Says, where the last word is the name of a file here, that the shell may have expanded ? or * in it."""
    if len(words) > 1 and Path(words[-1]).exists():
        say(f"{words[-1]!r} is a file here. If your shell expanded ? or * to its name, quote the question")


@contextmanager
def friendly(as_json: bool) -> Iterator[None]:
    """Turns errors into `Failed`, with their exit codes."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except (BadInput, NotFound) as error:
        fail(error, as_json, code=USAGE)
    except FusionError as error:
        fail(error, as_json)
    except BrokenPipeError:  # the reader has seen enough, as `head` has: no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except PermissionError as error:
        where = error.filename or "a file"
        look = f"to see its owner: ls -ld {shlex.quote(str(where))}"
        fail(SettingsError(f"no permission for {where}; {look}; --home FOLDER names another home"), as_json)
    except OSError as error:
        fail(SettingsError(f"{error.strerror or error}: {error.filename}" if error.filename else str(error)), as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def refs_of(words: Sequence[str]) -> list[str]:
    """Refs as people copy or type them: also in brackets, in capitals, with commas."""
    return [ref.lower() for word in words for ref in word.replace(",", " ").replace("[", " ").replace("]", " ").split()]


def _point_out_variables() -> None:
    """Says for each FUSION_ variable that looks misspelt that nothing reads it."""
    for name in os.environ:
        near = get_close_matches(name, VARIABLES, 1, 0.8) if name.startswith("FUSION_") else []
        if near and near != [name]:
            say(f"nothing reads the variable {name}; did you mean {near[0]}?")


def note(line: str) -> None:
    """Prints on stderr what may come next, without the name of the program, which errors and remarks begin with."""
    print(line, file=sys.stderr)


def say(line: str) -> None:
    """Prints a remark on stderr; stdout has the answer alone."""
    print(f"fusion: {line}", file=sys.stderr)


def typed(question: str) -> str:
    """Asks a question on the terminal; returns the line that was typed."""
    return str(typer.prompt(question, default="", show_default=False))


def fail(error: FusionError, as_json: bool, code: int = 1) -> NoReturn:
    """Ends the command with an error, which its group reports, and an exit code."""
    raise Failed(error, as_json, code) from None


def print_json(content: Mapping[str, object]) -> None:
    """Prints one line of JSON, with control characters escaped."""
    sys.stdout.write(terminal.json_line(content))
    sys.stdout.flush()
