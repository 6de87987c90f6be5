"""Any memory system with a search route that speaks JSON, by configuration alone. Read only.

    [backends.notes]
    adapter = "adapters.http:HttpMemory"
    url = "http://127.0.0.1:9000"
    connect_ms = 250                    # milliseconds for a new connection; more for a distant server
    path = "/api/search"                # asked by POST with `body`, or by GET with `body` as the query string
    body = { q = "{query}", n = "{limit}", who = "{user_id}" }
    items = ["data.results"]            # where in the reply the items are: the first of these paths that has a list
    fields = { native_id = "id", text = "memory.content", score = "score", at = "created" }
    api_key_env = "NOTES_KEY"           # or api_key_file; sent as
    authorization = "Bearer {key}"      # the value of
    header = "Authorization"            # this header
    filters = ["user_id"]               # what its search filters by: only what `body` or `path` passes on
    bound = { agent_id = "librarian" }  # what it holds the memories of, where it cannot filter
    values = { bank = "ada" }           # further placeholders, for `path` and `body`
    limit = 100                         # hits at most, where the server allows fewer than are asked for
    health = "/health"                  # a route that answers 2xx while all is well
    absent = "no bank {bank}"           # a 404 whose JSON has this text: the server has no such memory yet, so no hits

``preset`` takes the options that a known system needs (`presets.toml` in this folder); the table's other options win.
A placeholder ({query}, {limit}, {user_id} and the other dimensions, {project}, {audience}, those of ``values``)
that has no value takes its key of the body with it. In ``fields``, left is a field of `Hit` or of its
`Scope`, ``document``, ``start`` or ``end``; right is the path to it in an item, with dots, numbers counting in lists.
Several paths with `` | `` between them are alternatives: the first that is there and not null has the value.
"""

from __future__ import annotations

import asyncio
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

import orjson

from adapters.hits import hit_of, hits_of, time_or_none
from adapters.http.exchange import Http, Request, checked, with_fix
from adapters.http.options import KeyedOptions
from adapters.options import choice, features_of, number, owner, read, table, verified
from fusion.contract import DIMENSIONS, NAME_PLACEHOLDER, Description, Hit, Opening, Query, Scope
from fusion.errors import BackendError, HttpStatus, SettingsError

FRESH_S = 10.0
"""seconds for which an answered query counts as a health check: some servers charge for each search"""
NOBODY = "_nobody"
"""the user that a health check asks for, if the server requires one"""
NOT_FOUND = 404
ABSENT = object()
"""the reply of a server that has no such memory yet; a reply of ``null`` is another"""
"""the status that `Options.absent` may explain"""
ABSENT = "It is empty until something is stored there. Fix: if that should be so already, correct values"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
TOKEN = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
"""the name of a header (RFC 9110, 5.6.2)"""
FIELDS = sorted(
    "native_id event_id text score kind raw_kind speaker at precision zone recorded_at valid_from valid_to trust "
    "origin document start end unit tenant user_id agent_id run_id session_id project audience subject predicate "
    "object".split()
)
OURS = frozenset({"query", "limit", "audience", *DIMENSIONS, "project"})
TIMES = ("at", "recorded_at", "valid_from", "valid_to")


@dataclass(frozen=True, slots=True)
class Options(KeyedOptions):
    """The keys of the backend's table, as the module explains them."""

    preset: str = ""
    method: str = choice("POST", ("GET", "POST"))
    path: str = "/search"
    body: Mapping[str, Any] = field(default_factory=lambda: {"query": "{query}", "limit": "{limit}"})
    items: tuple[str, ...] = ("results",)
    fields: Mapping[str, str] = table(FIELDS, {"native_id": "id", "text": "text", "score": "score"})
    header: str = "Authorization"
    authorization: str = "Bearer {key}"
    filters: tuple[str, ...] = choice((), DIMENSIONS)
    bound: Mapping[str, str] = owner()
    values: Mapping[str, str] = table(())
    limit: int = number(100, 1)
    health: str = ""
    absent: str = ""

    def __post_init__(self) -> None:
        KeyedOptions.__post_init__(self)
        if not self.url:
            raise SettingsError("url is missing; write the server's, http://host:port")
        if not self.path.startswith("/"):
            raise SettingsError("path begins with /")
        if not TOKEN.fullmatch(self.header) or not self.authorization.isprintable():
            raise SettingsError("header is the name of an HTTP header, authorization its value in one line")
        if not self.items:
            raise SettingsError("items names at least one path; '.' is the reply itself")
        if ours := sorted(self.values.keys() & OURS):
            raise SettingsError(f"values cannot say what {ours[0]} is: that comes with each question")
        if not {"native_id", "text"} <= set(self.fields):
            raise SettingsError("fields must say where native_id and text are")
        if unclear := sorted(name for name, path in self.fields.items() if not all(alternatives(path))):
            raise SettingsError(
                f"fields.{unclear[0]} = {self.fields[unclear[0]]!r} has no path, or an empty one; "
                "write alternatives as 'one.path | another.path'"
            )
        known = OURS | set(self.values)
        asked = _placeholders(self.path) | _placeholders(self.body)
        if unknown := (asked | _placeholders(self.absent)) - known:
            raise SettingsError(f"{{{min(unknown)}}} has no value; give it one in values")
        fixed = set(self.values) | set(self.bound)
        for option, text, also in (("path", self.path, {"query", "limit"}), ("absent", self.absent, set())):
            if unfixed := _placeholders(text) - fixed - also:
                raise SettingsError(f"{{{min(unfixed)}}} is used in {option}; fix it in bound or values")
        if unsent := [d for d in self.filters if d not in asked]:
            raise SettingsError(f"filters names {unsent[0]}, which neither path nor body passes on")


class HttpMemory:
    """Sends queries in the form of one server, and reads its items as hits."""

    def __init__(self, http: Http, options: Options, clock: Callable[[], float] | None = None) -> None:
        """``clock`` counts seconds; the running loop's where none is given."""
        self.features = features_of(options.filters, options.bound, options.tenant)
        self._http, self._options = http, options
        self._absent = _filled(options.absent, {**options.values, **options.bound})
        self._fields = {name: alternatives(path) for name, path in options.fields.items()}
        self._clock = clock or asyncio.get_running_loop().time
        self._answered_at = -math.inf

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """Its options are right, with those of its preset."""
        return checked(verified(Options, _with_preset(Opening(NAME_PLACEHOLDER, Path(), options))).url)

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = read(Options, replace(opening, options=_with_preset(opening)))
        return cls(options.http(lambda: options.key_header(options.header, options.authorization)), options)

    async def search(self, query: Query) -> Sequence[Hit]:
        self._answered_at = -math.inf  # until it does
        hits = await self._ask(query)
        if hits is None:
            return []
        self._answered_at = self._clock()
        return hits

    async def describe(self) -> Description:
        """Check the key, the health route and the search, each if it is configured; the search must answer a query for
        one hit in the expected form. No such route reports a count.

        If a query was answered within ``FRESH_S``, no search is sent.
        """
        options = self._options
        nobody = dict.fromkeys(options.filters, NOBODY) | dict(options.bound)
        whose = Scope(options.tenant, **nobody, audience="private")
        probe = Query("memory", whose, datetime.now(UTC), 1, options.describe_s)
        whom = ""
        try:
            options.key.value()
            if options.health:
                await self._http.get(options.health, options.describe_s)
            if self._clock() - self._answered_at > FRESH_S:
                whom = NOBODY if NOBODY in nobody.values() else ""
                if await self._ask(probe) is None:
                    return Description(notes=(f"{self._http.server}: {self._absent}. {ABSENT}",))
        except BackendError as error:
            # Some servers answer 404 for an unknown user, as this one is: the server may be healthy.
            unsure = bool(whom) and isinstance(error, HttpStatus) and error.status == 404
            if unsure:
                error = HttpStatus(f"{error}, which may only mean that it knows no user {whom}", 404)
            return Description(notes=(with_fix(error),), degraded=not unsure)
        return Description()

    async def _ask(self, query: Query) -> Sequence[Hit] | None:
        """The hits of a query, or None if the server has no such memory yet (``absent``)."""
        options = self._options
        limit = min(query.limit, options.limit)
        if limit < 1:
            return []
        values: dict[str, object] = {**options.values, **options.bound}
        values |= query.scope.named() | {"query": query.text, "limit": limit, "audience": query.scope.audience}
        if query.scope.project is not None:
            values["project"] = query.scope.project
        path = PLACEHOLDER.sub(lambda found: quote(str(values[found[1]]), safe=""), options.path)
        body = _filled(options.body, values)
        reply = await self._reply(path, body, query.deadline_s)
        if reply is ABSENT:
            return None
        found = (_at(reply, where) for where in options.items)
        items = next((items for items in found if isinstance(items, list)), None)
        # It was asked for this scope only; what an item says of itself wins, and is filtered by the gateway again.
        assumed = Scope(self.features.tenant, **query.scope.named(), audience=query.scope.audience)
        return hits_of(items, limit, lambda item: hit_of(_ours(item, self._fields), assumed), self._http.server)

    async def _reply(self, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
        """The JSON of the reply, or `ABSENT` for a 404 that says that there is no such memory. Raises BackendError."""
        if self._options.method == "GET":
            request = Request("GET", f"{path}?{urlencode(body)}" if body else path)
        else:
            request = Request("POST", path, orjson.dumps(body))
        accept = (NOT_FOUND,) if self._absent else ()
        status, said = await self._http.fetch(replace(request, accept=accept), deadline_s)
        if status != NOT_FOUND:
            return self._http.parsed(said)
        if orjson.dumps(self._absent)[1:-1] in said:
            return ABSENT
        raise HttpStatus(f"{self._http.server} answered {NOT_FOUND}", NOT_FOUND)

    async def close(self) -> None:
        await self._http.close()


def presets() -> Mapping[str, Mapping[str, Any]]:
    """The options of each known system, by its name."""
    return tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))


def _with_preset(opening: Opening) -> Mapping[str, object]:
    name = opening.options.get("preset")
    if not name:
        return opening.options
    known = presets()
    if not isinstance(name, str) or name not in known:
        raise SettingsError(f"[backends.{opening.name}] there is no preset {name!r}, only: {', '.join(known)}")
    return {**known[name], **opening.options}


def _placeholders(value: object) -> set[str]:
    if isinstance(value, str):
        return set(PLACEHOLDER.findall(value))
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return set().union(*map(_placeholders, inner))


def _filled(value: Any, values: Mapping[str, object]) -> Any:
    """A template with its placeholders filled in; a key that lacks one of its values is left out."""
    if isinstance(value, str):
        whole = PLACEHOLDER.fullmatch(value)
        return values[whole[1]] if whole else PLACEHOLDER.sub(lambda found: str(values[found[1]]), value)
    if isinstance(value, Mapping):
        return {
            key: _filled(inner, values)
            for key, inner in value.items()
            if isinstance(inner, Mapping) or _placeholders(inner) <= values.keys()
        }
    return [_filled(inner, values) for inner in value] if isinstance(value, list) else value


def _at(value: Any, path: str) -> Any:
    """The value at a path of a JSON value, or None. A dot alone is the value itself."""
    for step in filter(None, path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def alternatives(path: str) -> tuple[str, ...]:
    """The paths of a field: one, or several with a bar between them. One of them is empty where a path is missing."""
    return tuple(one.strip() for one in path.split("|"))


def _first(item: Any, paths: Sequence[str]) -> Any:
    """The first value at one of these paths that is not None."""
    return next((value for path in paths if (value := _at(item, path)) is not None), None)


def _ours(item: Any, fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """An item in the fields of `hit_of`. An invalid time is left out: the memory itself is still valid."""
    if not isinstance(item, Mapping):
        raise TypeError("an item is an object")
    ours = {name: value for name, paths in fields.items() if (value := _first(item, paths)) is not None}
    times = {name: time for name in TIMES if name in ours and (time := time_or_none(ours[name])) is not None}
    return {name: value for name, value in ours.items() if name not in TIMES} | times
