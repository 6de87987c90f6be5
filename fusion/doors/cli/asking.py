"""What commands share: they find the home, ask its server, and tell what came of it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from fusion.errors import BadInput, FusionError, NotFound, SettingsError

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.settings import Settings

T = TypeVar("T")

USAGE = 2
"""the exit code where what was asked cannot be: a wrong option, and what names something that is not there"""
BROKEN_PIPE = 141
"""the exit code of a command that nobody reads any more: what a shell shows of SIGPIPE"""


def home_of(home: Path | None, config: Path | None) -> Path:
    """The home that is meant; a configuration file may name it."""
    from fusion.home import find_home

    if home is None and config is not None:
        from fusion.settings import load

        settings = load(config)
        if "home" in settings.model_fields_set:
            return settings.home
    return find_home(home)


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

    Raises SettingsError for a ``home`` that is named and not there, where it may not be a ``new`` one: who asks a home
    that is made for the question learns only that nothing was found.
    """
    from fusion.client import AsyncClient

    if home is not None and not new and not home.expanduser().is_dir():
        raise SettingsError(f"there is no home {home}. To make one: fusion init --home {shlex.quote(str(home))}")
    if not direct:
        async with AsyncClient.of_home(home_of(home, config), config=config) as client:
            yield client
        return

    import secrets

    import httpx

    from fusion.doors.http import create_app
    from fusion.wiring import Fusion

    os.umask(0o077)  # whatever a backend writes is the owner's alone
    settings = settings_of(home, config)
    key = secrets.token_urlsafe()
    async with Fusion.open(settings) as fusion:
        transport = httpx.ASGITransport(create_app(fusion, settings, local_token=key))
        async with AsyncClient.over(transport, api_key=key) as client:
            yield client


async def say_if_empty(client: AsyncClient, home: Path | None, config: Path | None) -> None:
    """Why nothing can be found, where no memory was ever brought here: the wrong home, or one that is new."""
    status = await client.status()
    if not status["memories"]["current"] and not any(row["items"] for row in status["backends"]):
        print(f"{home_of(home, config)} has no memories: fusion init finds what is yours, fusion ingest FOLDER adds it")


def run(work: Coroutine[Any, Any, T], as_json: bool) -> T:
    """Does a command's work; its errors become a line that says what is wrong and what mends it."""
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
    except OSError as error:
        fail(SettingsError(f"{error.strerror or error}: {error.filename}" if error.filename else str(error)), as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def typed(question: str) -> str:
    """The line that somebody types in answer."""
    return str(typer.prompt(question, default="", show_default=False))


def fail(error: FusionError, as_json: bool, code: int = 1) -> NoReturn:
    """Tells of an error, on stderr, and ends with an exit code."""
    report(error, as_json)
    raise typer.Exit(code) from None


def report(error: FusionError, as_json: bool) -> None:
    """Tells of an error, on stderr."""
    from fusion.problem import problem_of

    if as_json:
        import orjson

        print(orjson.dumps(problem_of(error), default=str).decode(), file=sys.stderr)
    else:
        print(f"fusion: {error}", file=sys.stderr)


def print_json(content: Mapping[str, object]) -> None:
    """One line."""
    import orjson

    sys.stdout.write(orjson.dumps(content, default=str).decode() + "\n")
    sys.stdout.flush()
