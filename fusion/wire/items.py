"""The replies about items: memories with a namespace and a key, whose content is a JSON object."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict


class Item(TypedDict):
    """One item. ``ref`` is that of its memory, which changes with each new value."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    ref: str
    created_at: str
    """when it was first put"""
    updated_at: str
    """when it got this value"""


class ItemKept(Item):
    """The item after a put. stored: it is new. superseded: it has a new value. duplicate: nothing changed."""

    status: Literal["stored", "superseded", "duplicate"]
    redacted: int
    """secrets that were masked in the value"""


class FoundItem(Item):
    """An item of a search; ``score`` is null without a query, and for one that recall did not rank."""

    score: float | None


class Items(TypedDict):
    """A page of items; ``more``: there are others beyond it."""

    items: list[FoundItem]
    more: bool


class ItemNamespaces(TypedDict):
    """A page of namespaces, each with its labels."""

    namespaces: list[list[str]]
    more: bool
