"""The requests about items: memories with a namespace and a key, whose content is a JSON object."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue
from pydantic.functional_validators import AfterValidator

from fusion.contract import Audience, Origin
from fusion.doors.schemas.base import Id, QueryText, Scoped, one_line
from fusion.errors import BadInput
from fusion.gateway.items import ItemSearch, NamespaceSearch
from fusion.ingest.intake import not_one_line
from fusion.ingest.items import NewItem
from fusion.lib.item_address import MAX_KEY_CHARS, MAX_LABEL_CHARS, MAX_LABELS, Address, split, unescaped

MAX_LISTED = 1000
"""items or namespaces of one page"""
MAX_OFFSET = 1_000_000
NamespaceLabel = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS), AfterValidator(one_line)]
NamespaceLabels = Annotated[tuple[NamespaceLabel, ...], Field(max_length=MAX_LABELS, strict=False)]
_Limit = Annotated[int, Field(ge=1, le=MAX_LISTED)]
_Offset = Annotated[int, Field(ge=0, le=MAX_OFFSET)]


class ItemBody(Scoped):
    """The value of an item. Its owner is the scope in all its dimensions: in another scope the key is another item."""

    value: dict[str, JsonValue] = Field(description="a JSON object of at most 64,000 characters")
    audience: Audience = Field(default="group", description="the widest audience that may read it")
    origin: Origin = "agent"

    def item(self, address: Address) -> NewItem:
        return self._as(NewItem, address=address, scope=self.scope("default"))


class ItemSearchBody(Scoped):
    """Which items to list: of a namespace and of those in it."""

    namespace: NamespaceLabels = Field(
        default=(), description="the labels of the namespace; none: all items of the owner"
    )
    query: QueryText | None = Field(default=None, description="ranks the items; it leaves none out")
    filter: dict[Id, JsonValue] = Field(
        default={}, description="fields of the value with the value that is wanted, or {$eq, $ne, $gt, $gte, $lt, $lte}"
    )
    limit: _Limit = 10
    offset: _Offset = 0

    def request(self, tenant: str) -> ItemSearch:
        return self._as(ItemSearch, scope=self.scope(tenant))


class ItemNamespacesBody(Scoped):
    """Which namespaces to list: those that begin and end with these labels, of which ``*`` is any."""

    prefix: NamespaceLabels = ()
    suffix: NamespaceLabels = ()
    max_depth: Annotated[int, Field(ge=1, le=MAX_LABELS)] | None = Field(
        default=None, description="of deeper namespaces only the first so many labels are shown"
    )
    limit: _Limit = 100
    offset: _Offset = 0

    def request(self, tenant: str) -> NamespaceSearch:
        return self._as(NamespaceSearch, scope=self.scope(tenant))


def address_of(namespace: str, key: str) -> Address:
    """The address that a path names. Raises BadInput."""
    labels = split(namespace)
    if not 1 <= len(labels) <= MAX_LABELS:
        raise BadInput(f"namespace: give 1 to {MAX_LABELS} labels, joined by dots: users.42")
    for name, text, most in (
        *(("namespace", one, MAX_LABEL_CHARS) for one in labels),
        ("key", unescaped(key), MAX_KEY_CHARS),
    ):
        if not 1 <= len(text) <= most:
            raise BadInput(f"{name}: a label has 1 to {MAX_LABEL_CHARS} characters, a key 1 to {MAX_KEY_CHARS}")
        if wrong := not_one_line(text):
            raise BadInput(f"{name} {wrong}")
    return Address(labels, unescaped(key))
