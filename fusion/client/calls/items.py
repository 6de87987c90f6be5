"""Requests about items: values at an address of a namespace and a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusion import wire
from fusion.client.calls.call import Call, not_none, quoted
from fusion.lib.item_address import Address


def put_item(
    namespace: Sequence[str],
    key: str,
    value: Mapping[str, Any],
    *,
    audience: str | None = None,
    origin: str | None = None,
    **scope: str | None,
) -> Call[wire.ItemKept]:
    """Put the value of an item: a memory at a key of a namespace, which is a list of labels.

    Acknowledged is kept, and `item` returns it at once. ``scope`` is its owner, in all its dimensions.
    """
    body = {"value": value, "audience": audience, "origin": origin, **scope}
    return Call("PUT", _item(namespace, key), not_none(body))


def item(namespace: Sequence[str], key: str, **scope: str | None) -> Call[wire.Item]:
    """One item of exactly this owner. Raises NotFound."""
    return Call.get(_item(namespace, key), scope)


def forget_item(namespace: Sequence[str], key: str, **scope: str | None) -> Call[wire.Forgotten]:
    """Forget one item with its earlier values, everywhere. Raises NotFound."""
    return Call("DELETE", _item(namespace, key), parameters=not_none(scope))


def search_items(
    namespace: Sequence[str] = (),
    *,
    query: str | None = None,
    filter: Mapping[str, Any] | None = None,
    limit: int = 10,
    offset: int = 0,
    **scope: str | None,
) -> Call[wire.Items]:
    """A page of the items of a namespace and of those in it, by a filter, and ranked by a query."""
    return Call.post("/v1/items/search", locals())


def item_namespaces(
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
    **scope: str | None,
) -> Call[wire.ItemNamespaces]:
    """A page of the namespaces in which an owner has items; the label ``*`` of a prefix or suffix is any."""
    return Call.post("/v1/items/namespaces", locals())


def _item(namespace: Sequence[str], key: str) -> str:
    address = Address(tuple(namespace), key)
    return f"/v1/items/{quoted(address.path, safe='/')}"
