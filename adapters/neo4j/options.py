"""The table of a graph in fusion.toml, validated before any of its names is used in a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

from adapters.bolt.dialects import DIALECTS, named
from adapters.bolt.options import NAMES, Server
from fusion.contract import DIMENSIONS, Audience, Dimension, Features
from fusion.errors import BadInput, SettingsError
from fusion.lib.did_you_mean import hint

OWNERS = ("tenant", *DIMENSIONS, "audience")
"""the dimensions of an owner that a property may give"""

LABELS = 32
"""of each kind: each is an arm of the query that looks names up"""


@dataclass(frozen=True, slots=True)
class Options:
    """The keys as the package explains them, without those of `adapters.bolt.options`."""

    dialect: Literal["neo4j", "memgraph"] = "neo4j"
    entities: tuple[str, ...] = ()
    names: tuple[str, ...] = ("name",)
    aliases: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    texts: tuple[str, ...] = ("text",)
    relationships: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    name_index: str = ""
    text_index: str = ""
    vector_index: str = ""
    vector_property: str = "embedding"
    hops: int = 2
    degree: int = 64
    limit: int = 50
    id: str = ""
    at: str = ""
    valid_from: str = ""
    valid_to: str = ""
    scope: Mapping[str, str] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)
    tenant: str = "default"
    audience: Audience = "group"

    def __post_init__(self) -> None:
        self._check_kinds()
        if not (self.entities or self.passages):
            raise SettingsError("name the labels of the graph: entities, passages, or both")
        for key in ("names", "texts", "vector_property"):
            if not getattr(self, key):
                raise SettingsError(f"{key}: at least one")
        for key in ("entities", "passages", "names", "texts"):
            if len(getattr(self, key)) > LABELS:
                raise SettingsError(f"{key}: at most {LABELS}")
        for key, names in self.in_queries().items():
            for name in names:
                try:
                    named(name)
                except BadInput as error:
                    raise SettingsError(f"{key}: {error}") from None
        if self.dialect not in DIALECTS:
            raise SettingsError(f"dialect = {self.dialect!r} must be one of {', '.join(DIALECTS)}")
        for key, (least, most) in {"hops": (1, 2), "degree": (1, 1000), "limit": (1, 1000)}.items():
            if not least <= getattr(self, key) <= most:
                raise SettingsError(f"{key} must be from {least} to {most}")
        if strange := sorted(set(self.scope) - set(OWNERS)):
            raise SettingsError(f"scope has no {strange[0]!r}, only: {', '.join(OWNERS)}")
        if strange := sorted((set(self.bound) - set(DIMENSIONS)) | (set(self.bound) & set(self.scope))):
            raise SettingsError(f"bound gives texts to those of {', '.join(DIMENSIONS)} that scope has no property for")
        if self.audience not in get_args(Audience):
            raise SettingsError(f"audience must be one of {', '.join(get_args(Audience))}")
        if self.name_index and not self.entities:
            raise SettingsError("name_index finds entities: name their labels as well")
        if self.text_index and not self.passages:
            raise SettingsError("text_index finds passages: name their labels as well")

    def _check_kinds(self) -> None:
        for one in fields(self):
            value, wanted = getattr(self, one.name), _WANTED.get(one.name, "text")
            if not _FITS[wanted](value):
                raise SettingsError(f"{one.name} must be a {wanted}")

    @classmethod
    def of(cls, options: Mapping[str, object], where: str) -> Self:
        """Raises ``SettingsError``, which names ``where``, the key and its valid values."""
        given: dict[str, Any] = {key: value for key, value in options.items() if key not in NAMES}
        known = [one.name for one in fields(cls)]
        for key, value in given.items():
            if key not in known:
                only = f"only: {', '.join((*NAMES, *known))}{hint(key, (*NAMES, *known))}"
                raise SettingsError(f"[{where}] has no option {key!r}, {only}")
            if isinstance(value, list):
                given[key] = tuple(value)
        try:
            return cls(**given)
        except SettingsError as error:
            raise SettingsError(f"[{where}] {error}") from None

    def in_queries(self) -> Mapping[str, tuple[str, ...]]:
        """Every name that is used in a query, by the key that gives it."""
        lists = ("entities", "names", "aliases", "passages", "texts", "relationships", "facts")
        single = ("name_index", "text_index", "vector_index", "vector_property", "id", "at", "valid_from", "valid_to")
        return {
            **{key: getattr(self, key) for key in lists},
            **{key: (getattr(self, key),) for key in single if getattr(self, key)},
            "scope": tuple(self.scope.values()),
        }

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.entities, *self.passages)))

    @property
    def indexes(self) -> Mapping[str, str]:
        """The indexes that are asked, by the key that names them."""
        return {key: getattr(self, key) for key in ("name_index", "text_index", "vector_index") if getattr(self, key)}

    @property
    def filtered(self) -> tuple[Dimension, ...]:
        return tuple(dimension for dimension in DIMENSIONS if dimension in self.scope)

    def features(self) -> Features:
        return Features(
            filters=frozenset(self.filtered),
            bound={dimension: self.bound[dimension] for dimension in DIMENSIONS if dimension in self.bound},
            tenants="tenant" in self.scope,
            tenant=self.tenant,
            as_of=bool(self.valid_from or self.valid_to),
        )


def server_of(options: Mapping[str, object], where: str) -> Server:
    """The server of the database. Raises ``SettingsError``, also where its driver is not installed."""
    Server.verify()
    return Server.of(options, where)


_WANTED = {
    **dict.fromkeys(("entities", "names", "aliases", "passages", "texts", "relationships", "facts"), "list of texts"),
    **dict.fromkeys(("hops", "degree", "limit"), "whole number"),
    **dict.fromkeys(("scope", "bound"), "table of texts"),
}
_FITS = {
    "text": lambda value: isinstance(value, str),
    "whole number": lambda value: type(value) is int,
    "list of texts": lambda value: isinstance(value, tuple) and all(isinstance(one, str) and one for one in value),
    "table of texts": lambda value: (
        isinstance(value, Mapping) and all(isinstance(one, str) and one for pair in value.items() for one in pair)
    ),
}
