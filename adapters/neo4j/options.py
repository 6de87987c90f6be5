"""The table of a graph in fusion.toml, validated before any of its names is used in a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from adapters.bolt.dialects import DIALECTS, named
from adapters.bolt.options import Server
from adapters.options import choice, features_of, number, owner, table
from fusion.contract import DIMENSIONS, Audience, Dimension, Features, Opening
from fusion.errors import BadInput, SettingsError

OWNERS = ("tenant", *DIMENSIONS, "audience")
"""the dimensions of an owner that a property may give"""

LABELS = 32
"""maximum labels of each kind: each is an arm of the query that looks names up"""


@dataclass(frozen=True, slots=True)
class Options:
    """The keys as the package explains them, without those of `adapters.bolt.options`."""

    dialect: str = choice("neo4j", DIALECTS)
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
    hops: int = number(2, 1, 2)
    degree: int = number(64, 1, 1000)
    limit: int = number(50, 1, 1000)
    id: str = ""
    at: str = ""
    valid_from: str = ""
    valid_to: str = ""
    scope: Mapping[str, str] = table(OWNERS)
    bound: Mapping[str, str] = owner()
    tenant: str = "default"
    audience: Audience = choice("group", get_args(Audience))  # noqa: RUF009  # it makes a field

    def __post_init__(self) -> None:
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
        if set(self.bound) & set(self.scope):
            raise SettingsError(f"bound gives texts to those of {', '.join(DIMENSIONS)} that scope has no property for")
        if self.name_index and not self.entities:
            raise SettingsError("name_index finds entities: name their labels as well")
        if self.text_index and not self.passages:
            raise SettingsError("text_index finds passages: name their labels as well")

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
        as_of = bool(self.valid_from or self.valid_to)
        return features_of(self.filtered, self.bound, self.tenant, tenants="tenant" in self.scope, as_of=as_of)


def server_of(opening: Opening) -> Server:
    """The server of the database. Raises ``SettingsError``, also where its driver is not installed."""
    Server.verify()
    return Server.of(opening.options, f"backends.{opening.name}")
