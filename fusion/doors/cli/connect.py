"""What commands share: they find the home, ask its server, and tell what came of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from fusion.doors import terminal
from fusion.doors.cli.usage import USAGE, report
from fusion.errors import BadInput, FusionError, NotFound, SettingsError
from fusion.home import Located, locate_home, missing_home
from fusion.trust import require

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.settings import Settings

T = TypeVar("T")

VARIABLES = ("FUSION_HOME", "FUSION_API_KEY", "FUSION_RECIPE", "FUSION_LOG_LEVEL")
"""those without a table that people set by hand"""

BROKEN_PIPE = 141
"""the exit code of a command that nobody reads any more: what a shell shows of SIGPIPE"""


def home_of(home: Path | None, config: Path | None) -> Path:
    """The home of this command; a configuration file may name it. Raises SettingsError for a file in its place, and
    HomeNotAllowed before anything is opened."""
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
    """The home of this command, which has to exist if somebody named it. Raises SettingsError with the nearest name.

    In a home that a typo makes, a question finds nothing, and a memory is never found again.
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
    """That a home is not there yet and is made now, where it has nearly the name of one that is."""
    if not folder.exists() and (near := near_home(folder)):
        say(f"{folder} is a new home{_named_by(home)}{near}")


def near_home(folder: Path) -> str:
    """'; did you mean FOLDER?' where the home that is not there is like one that is."""
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
    """Settings of the home that is meant. What was said on the command line wins over the environment."""
    from fusion.settings import load

    folder = home_of(home, config)
    return load(config, home=folder).model_copy(update={"home": folder})


@asynccontextmanager
async def gateway(
    home: Path | None, config: Path | None, *, direct: bool = False, new: bool = False
) -> AsyncIterator[AsyncClient]:
    """A client of the home's server, which is started if need be; or of the home itself, opened here.

    Raises SettingsError for a home that is named and not there, where it may not be a ``new`` one.
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


async def say_if_empty(client: AsyncClient, home: Path | None, config: Path | None) -> None:
    """Why nothing can be found, where no memory was ever brought here: the wrong home, or one that is new."""
    status = await client.status()
    if not status["memories"]["current"] and not any(row["items"] for row in status["backends"]):
        where = home_of(home, config)
        say(f"{where} has no memories: fusion init finds what is yours, fusion ingest FOLDER adds it")


def require_words(words: Sequence[str], example: str) -> None:
    """Ends with a usage error where a question or a text has no words: an empty variable in a script, say."""
    if not " ".join(words).strip():
        raise typer.BadParameter(f"there are no words in it; for example: {example}")


def say_if_expanded(words: Sequence[str]) -> None:
    """That a shell may have put the name of a file in the place of a word with ? or *, where the last word is one."""
    if len(words) > 1 and Path(words[-1]).exists():
        say(f"{words[-1]!r} is a file here: where your shell took ? or * for its name, put the question in quotes")


def run(work: Coroutine[Any, Any, T], as_json: bool) -> T:
    """Does a command's work; its errors become a line that says what is wrong and how to fix it."""
    import asyncio

    with friendly(as_json):
        return asyncio.run(work)


@contextmanager
def friendly(as_json: bool) -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except (BadInput, NotFound) as error:
        fail(error, as_json, code=USAGE)
    except FusionError as error:
        fail(error, as_json)
    except BrokenPipeError:  # who read what we print has seen enough, as `head` has: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except PermissionError as error:
        where = error.filename or "a file"
        look = f"see whose it is: ls -ld {shlex.quote(str(where))}"
        fail(SettingsError(f"no permission for {where}; {look}; --home FOLDER names another home"), as_json)
    except OSError as error:
        fail(SettingsError(f"{error.strerror or error}: {error.filename}" if error.filename else str(error)), as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def refs_of(words: Sequence[str]) -> list[str]:
    """Refs as people copy them out of a block or type them: in brackets, in capitals, with commas between."""
    return [ref.lower() for word in words for ref in word.replace(",", " ").replace("[", " ").replace("]", " ").split()]


def _point_out_variables() -> None:
    """A remark on each variable that is probably one of ours, misspelt: nothing reads it."""
    for name in os.environ:
        near = get_close_matches(name, VARIABLES, 1, 0.8) if name.startswith("FUSION_") else []
        if near and near != [name]:
            say(f"nothing reads the variable {name}; did you mean {near[0]}?")


def say(line: str) -> None:
    """Prints a remark on stderr: what is on stdout is the answer alone."""
    print(f"fusion: {line}", file=sys.stderr)


def typed(question: str) -> str:
    """The line that somebody types in answer."""
    return str(typer.prompt(question, default="", show_default=False))


def fail(error: FusionError, as_json: bool, code: int = 1) -> NoReturn:
    """Tells of an error, on stderr, and ends with an exit code."""
    report(error, as_json)
    raise typer.Exit(code) from None


def print_json(content: Mapping[str, object]) -> None:
    """One line, in which what a terminal could obey is escaped as JSON does."""
    sys.stdout.write(terminal.json_line(content))
    sys.stdout.flush()
