"""`fusion items`: JSON objects under a namespace and a key, as programs keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.plural import counted
from fusion.doors.terminal import plain
from fusion.errors import BadInput
from fusion.lib.item_address import Address, split, unescaped

if TYPE_CHECKING:
    from fusion import wire

app = typer.Typer(
    help="Keep JSON objects under a namespace and a key, and read them back exactly.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Place = Annotated[
    str, typer.Argument(help="Its namespace and key: users.berit/theme; ~0 is ~, ~1 is / and ~2 is a dot.")
]
Value = Annotated[str, typer.Argument(help='The value, a JSON object: \'{"colour": "dark"}\'.')]
Namespace = Annotated[str, typer.Argument(help="A namespace, with those in it: users.berit; without one, all items.")]


@command()
async def put(place: Place, value: Value, *, owner: Owner, target: Target) -> None:
    """Put an item; another value replaces the one before."""
    address = _address(place)
    async with target.client() as client:
        kept = await client.put_item(address.namespace, address.key, _object(value), origin="owner", **owner.ids())
    masked = f", {counted(kept['redacted'], 'secret')} masked" if kept["redacted"] else ""
    target.show(kept, f"{kept['ref']}  {kept['status']}{masked}")


@command()
async def get(place: Place, *, owner: Owner, target: Target) -> None:
    """Print the value of an item."""
    address = _address(place)
    async with target.client() as client:
        found = await client.item(address.namespace, address.key, **owner.ids())
    target.show(found, _json(found["value"]))


@command()
async def forget(place: Place, *, owner: Owner, target: Target) -> None:
    """Forget an item with its earlier values, in every backend."""
    address = _address(place)
    async with target.client() as client:
        receipt = await client.forget_item(address.namespace, address.key, **owner.ids())
    outcomes = ", ".join(f"{name} {outcome}" for name, outcome in receipt["backends"].items())
    target.show(receipt, f"{receipt['ref']}  {outcomes or 'no backend had it'}")


@command()
async def list_(
    namespace: Namespace = "",
    *,
    query: Annotated[str | None, typer.Option(help="What ranks the items; it leaves none out.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most items to list.")] = 20,
    owner: Owner,
    target: Target,
) -> None:
    """List items, the latest put first, or those first that fit a query."""
    asked: dict[str, Any] = {"query": query, "limit": limit, **owner.ids()}
    async with target.client() as client:
        found = await client.search_items(split(namespace), **asked)
    target.show(found, "\n".join([*map(_line, found["items"]), *(["…"] if found["more"] else [])]))


@command()
async def namespaces(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The most namespaces to list.")] = 100,
    owner: Owner,
    target: Target,
) -> None:
    """List the namespaces that have items."""
    asked: dict[str, Any] = {"limit": limit, **owner.ids()}
    async with target.client() as client:
        found = await client.item_namespaces(**asked)
    paths = [Address(tuple(one), "").path.removesuffix("/") for one in found["namespaces"]]
    target.show(found, "\n".join([*map(plain, paths), *(["…"] if found["more"] else [])]))


def _address(place: str) -> Address:
    namespace, slash, key = place.partition("/")
    if not (namespace and slash and key):
        raise BadInput("write a namespace and a key: users.berit/theme")
    return Address(split(namespace), unescaped(key))


def _object(value: str) -> Mapping[str, Any]:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the value is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadInput('the value is no JSON object: write {"name": …}')
    return found


def _line(item: wire.FoundItem) -> str:
    address = Address(tuple(item["namespace"]), item["key"])
    return f"{item['ref']}  {plain(address.path)}  {_json(item['value'])}"


def _json(value: Mapping[str, Any]) -> str:
    """A value for a terminal, in one line."""
    return plain(json.dumps(value, ensure_ascii=False))


for one in (put, get, list_, namespaces, forget):
    app.command(one.__name__.rstrip("_"))(one)
