"""A request that has not been sent yet, and what a reply to it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import orjson

from fusion import problem
from fusion.errors import BadInput, ServerUnreachable

T = TypeVar("T")
NDJSON = "application/x-ndjson"
_NO_TEXT = "a text or a name in this request is not Unicode (UTF-8): convert it, or leave the wrong bytes out"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request that has not been sent yet; T is the type of its reply. ``timeout_s`` overrides the client's."""

    method: str
    path: str
    body: object = None
    parameters: Mapping[str, object] | None = None
    headers: Mapping[str, str] | None = None
    timeout_s: float | None = None
    pieces: Callable[[], Iterable[bytes]] | None = None
    """returns the pieces of a large body instead of ``body``"""

    @classmethod
    def post(cls, path: str, arguments: Mapping[str, Any], **options: Any) -> Call[Any]:
        """A POST of the arguments of a function of this package; ``options`` are fields of this class."""
        return Call("POST", path, _flat(arguments), **options)

    @classmethod
    def get(cls, path: str, arguments: Mapping[str, Any] | None = None) -> Call[Any]:
        """A GET with the arguments of a function of this package in its query string."""
        return Call("GET", path, parameters=_flat(arguments or {}))

    def target(self, base: str) -> str:
        """The URL of the request on a server with this base URL. Raises BadInput for text that is not Unicode."""
        try:
            query = f"?{urlencode(self.parameters)}" if self.parameters else ""
        except UnicodeEncodeError:
            raise BadInput(_NO_TEXT) from None
        return base.rstrip("/") + self.path + query

    def content(self) -> bytes | None:
        """The body as JSON. Raises BadInput for text that is not Unicode."""
        if self.body is None:
            return None
        try:
            return orjson.dumps(self.body, default=_container, option=orjson.OPT_UTC_Z)
        except orjson.JSONEncodeError as error:
            if "UTF-8" not in str(error):
                raise
            raise BadInput(_NO_TEXT) from None

    def all_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        """The request's headers and ``more``; the request's own win."""
        content_type = {} if self.body is None else {"content-type": "application/json"}
        if self.pieces is not None:
            content_type = {"content-type": NDJSON}
        return {**content_type, **more, **(self.headers or {})}


def quoted(text: str, safe: str = "") -> str:
    """A part of a path. Raises BadInput for text that is not Unicode."""
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError:
        raise BadInput(_NO_TEXT) from None


def parse_reply(url: str, status: int, body: bytes) -> Any:
    """The JSON of a reply. Raises the server's error, or ServerUnreachable if another program answered."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if 200 <= status < 300 and isinstance(content, dict):
        return content
    if isinstance(content, dict):
        raise problem.error_of(content, status)
    raise ServerUnreachable(f"{url} answers {status}, but not as a memory-fusion server does.")


def _flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not None; those in ``scope`` are among them."""
    return not_none({**arguments, **arguments.get("scope", {}), "scope": None})


def _container(value: Any) -> dict[str, Any] | list[Any]:
    """A mapping or sequence as the type that orjson encodes."""
    return dict(value) if isinstance(value, Mapping) else list(value)


def not_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that are None."""
    return {name: value for name, value in values.items() if value is not None}
