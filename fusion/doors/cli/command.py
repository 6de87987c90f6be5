"""What every command does the same way: it takes the shared options, runs, and prints its result or its error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from fusion.doors.cli.connect import friendly, gateway, home_of, print_json, settings_of
from fusion.doors.cli.options import Agent, Config, Direct, Home, Json, Session, User

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.settings import Settings

T = TypeVar("T", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Owner:
    """The options that say whose memories are read or written."""

    user: User = None
    agent: Agent = None
    session: Session = None

    def ids(self) -> dict[str, str | None]:
        """The fields of a request."""
        return {"user_id": self.user, "agent_id": self.agent, "session_id": self.session}


@dataclass(frozen=True)
class Target:
    """The options that say which home a command works on, and how it prints its result."""

    home: Home = None
    config: Config = None
    direct: Direct = False
    as_json: Json = False

    def client(self) -> AbstractAsyncContextManager[AsyncClient]:
        """A client of the home's server, or of the home itself."""
        return gateway(self.home, self.config, direct=self.direct)

    def folder(self) -> Path:
        """The home's folder."""
        return home_of(self.home, self.config)

    def settings(self) -> Settings:
        """The home's settings."""
        return settings_of(self.home, self.config)

    def show(self, result: T, view: Callable[[T], object] | str) -> None:
        """Print a result: as JSON, or for people what ``view`` prints of it, or is."""
        if self.as_json:
            print_json(result)
        elif isinstance(view, str):
            print(view)
        else:
            view(result)


Group = type[Owner | Target]


def _options_in(group: Group) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name], default=one.default)
        for one in fields(group)
    ]


GROUPS: Mapping[Group, list[inspect.Parameter]] = {group: _options_in(group) for group in (Owner, Target)}
"""the options of each group, as parameters for typer"""
Function = Callable[..., Coroutine[Any, Any, None] | None]


def command(*, without: Collection[str] = ()) -> Callable[[Function], Callable[..., None]]:
    """A decorator that makes a command of a function. Options in ``without`` are left out."""

    def decorate(function: Function) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        parameters = [
            hints[one.name] if hints[one.name] in (Owner, Target) else one.replace(annotation=hints[one.name])
            for one in inspect.signature(function).parameters.values()
        ]
        return as_command(function, parameters, without=without)

    return decorate


def as_command(
    function: Function, parameters: Iterable[inspect.Parameter | Group], *, without: Collection[str] = ()
) -> Callable[..., None]:
    """A command for typer of a function, which may be asynchronous.

    A group among the ``parameters`` becomes its options, and the function gets them as one object, under the group's
    name in lower case. Errors become one line.
    """
    parameters = list(parameters)
    options = {group: [one for one in every if one.name not in without] for group, every in GROUPS.items()}
    flat = [one for each in parameters for one in (options[each] if isinstance(each, type) else [each])]

    def run(**given: Any) -> None:
        as_json = given.get("as_json", False)
        for group in parameters:
            if isinstance(group, type):
                given[group.__name__.lower()] = group(**{one.name: given.pop(one.name) for one in options[group]})
        with friendly(as_json):
            work = function(**given)
            if work is not None:
                import asyncio

                asyncio.run(work)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in flat}
    return run
