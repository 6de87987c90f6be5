"""Routes of the items: put, read, forget and list memories by namespace and key."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router, while_connected

Namespace = Annotated[
    str, Path(description="its labels joined by dots; in a label ~0 stands for ~, ~1 for / and ~2 for .")
]
Key = Annotated[str, Path(description="the key in the namespace, written like a label; a dot may stand as it is")]


@router.put(
    "/v1/items/{namespace}/{key:path}",
    response_model=wire.ItemKept,
    response_description="It has a new value, or had this one",
    responses={201: {"description": "Stored", "model": wire.ItemKept}, **problems(404, 507)},
)
async def put_item(context: Context, namespace: Namespace, key: Key, body: schemas.ItemBody) -> Response:
    """Put one item: a memory with a namespace and a key, whose content is a JSON object

    Acknowledged is kept, and a GET returns it at once. The same value again changes nothing; another one replaces it,
    and the earlier version stays in its history. Secrets in the value are masked.
    """
    address = schemas.address_of(namespace, key)
    kept = await context.gateway.put_item(
        body.item(address), body.scope(context.tenant), may_raise_trust=context.is_owner
    )
    return reply(kept, HTTPStatus.CREATED if kept["status"] == "stored" else HTTPStatus.OK)


@router.get("/v1/items/{namespace}/{key:path}", response_model=wire.Item, responses=problems(404))
async def item(context: Context, namespace: Namespace, key: Key, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Read one item, as it was put last"""
    address = schemas.address_of(namespace, key)
    return reply(await context.gateway.item(address, query.scope(context.tenant)))


@router.delete("/v1/items/{namespace}/{key:path}", response_model=wire.Forgotten, responses=problems(404, 507))
async def forget_item(
    context: Context, namespace: Namespace, key: Key, query: Annotated[schemas.Scoped, InQuery]
) -> Response:
    """Forget one item with its earlier values, in every backend"""
    address = schemas.address_of(namespace, key)
    return reply(await context.gateway.forget_item(address, query.scope(context.tenant)))


@router.post("/v1/items/search", response_model=wire.Items)
async def search_items(request: Request, context: Context, body: schemas.ItemSearchBody) -> Response:
    """List the items of a namespace and of those in it, by a filter, and ranked by a query"""
    return reply(await while_connected(request, context.gateway.search_items(body.request(context.tenant))))


@router.post("/v1/items/namespaces", response_model=wire.ItemNamespaces)
async def item_namespaces(context: Context, body: schemas.ItemNamespacesBody) -> Response:
    """List the namespaces in which an owner has items"""
    return reply(await context.gateway.item_namespaces(body.request(context.tenant)))
