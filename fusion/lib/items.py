"""Items: memories with an exact address, a namespace and a key, whose content is a JSON object.

An item is a pair of `Event.stated`: its text is made of its value, for the search, and the pair has the value as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion.errors import BadInput
from fusion.lib.item_address import Address, escaped
from fusion.lib.redact import redact

STATED = "item"
"""the name of the pair of `Event.stated` that has an item"""
TAG = "item"
"""the first part of the tag that an item has for each namespace that it is in: item/users/42"""
MAX_VALUE_CHARS = 64_000
"""characters of the largest value as JSON"""
MAX_DEPTH = 32
"""levels of objects and lists in a value"""


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is stored: its address, and its value as JSON."""

    address: Address
    json: str

    @property
    def value(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.json)
        return found

    @property
    def stated(self) -> tuple[tuple[str, str], ...]:
        """The pairs of `Event.stated` of the item, and the tag of its namespace."""
        where = json.dumps([list(self.address.namespace), self.address.key], ensure_ascii=False)
        return (STATED, f"{where}\n{self.json}"), ("tag", tag_of(self.address.namespace))


def item_in(stated: Iterable[tuple[str, str]]) -> Item | None:
    """The item among the pairs of `Event.stated`; None without one, or if it is not as `Item.stated` writes it."""
    for name, written in stated:
        if name == STATED:
            where, _, value = written.partition("\n")
            try:
                labels, key = json.loads(where)
                address = Address(tuple(map(_text, labels)), _text(key))
                return Item(address, value) if isinstance(json.loads(value), dict) else None
            except (ValueError, TypeError, RecursionError):
                return None
    return None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("no label")
    return value


def tag_of(namespace: Sequence[str]) -> str:
    """The tag of the items of a namespace; those of the namespaces in it have tags that are nested in it."""
    return "/".join((TAG, *map(escaped, namespace)))


def written(value: Mapping[str, Any]) -> tuple[str, int]:
    """A value as JSON with its secrets masked, and their number. Raises BadInput for one that is too large or deep."""
    masked, count = _masked(value, "", 0)
    text = json.dumps(masked, ensure_ascii=False, separators=(",", ":"))
    if len(text) > MAX_VALUE_CHARS:
        raise BadInput(
            f"value: it has {len(text):,} characters as JSON, at most {MAX_VALUE_CHARS:,} are one item. Divide it "
            "among several keys, or keep a long text as a file and ingest that"
        )
    if redact(text)[1]:
        raise BadInput("value: a secret in it cannot be masked alone, as in the name of a field; take it out")
    return text, count


def _masked(value: Any, name: str, depth: int) -> tuple[Any, int]:
    """A value with the secrets in its texts masked, and their number; ``name`` is that of its field."""
    if depth > MAX_DEPTH:
        raise BadInput(f"value: it has more than {MAX_DEPTH} levels of objects and lists")
    if isinstance(value, str):
        return _masked_text(value, name)
    if isinstance(value, Mapping):
        parts = {key: _masked(part, key, depth + 1) for key, part in value.items()}
        return {key: part for key, (part, _) in parts.items()}, sum(count for _, count in parts.values())
    if isinstance(value, list):
        listed = [_masked(part, name, depth + 1) for part in value]
        return [part for part, _ in listed], sum(count for _, count in listed)
    return value, 0


def _masked_text(text: str, name: str) -> tuple[str, int]:
    """A text with its secrets masked; the name of its field may be what shows that it is one."""
    masked, found = redact(text)
    beginning = f"{name}: "
    in_field, more = redact(f"{beginning}{masked}")
    if more and in_field.startswith(beginning):
        masked = in_field.removeprefix(beginning)
    return masked, sum(found.values()) + sum(more.values())


def text_of(value: Mapping[str, Any], key: str) -> str:
    """What is searched of a value, a line for each of its fields; the field of a value with one text is left out.

    A value without a text, a number or a truth value is searched by its key.
    """
    lines = list(_lines(value, ""))
    if not lines:
        return key
    if len(lines) == 1:
        return lines[0][1]
    return "\n".join(f"{name}: {text}" for name, text in lines)


def _lines(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """The name and the text of each field in a value that has one."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _lines(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for part in value:
            yield from _lines(part, name)
    elif isinstance(value, str):
        if value.strip():
            yield name, value
    elif value is not None:
        yield name, json.dumps(value)


_ORDERS = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}
OPERATORS = ("$eq", "$ne", *_ORDERS)


def fits(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a value has what is wanted of its fields: that value, or one in that order (`OPERATORS`) to it.

    An object that is wanted, and has no operators, must be in the field with all its own fields.
    """
    return all(_fits(value.get(name), want) for name, want in wanted.items())


def _fits(found: Any, want: Any) -> bool:
    if not isinstance(want, Mapping):
        return _same(found, want)
    if any(str(name).startswith("$") for name in want):
        return all(_compare(found, operator, other) for operator, other in want.items())
    return isinstance(found, Mapping) and fits(found, want)


def _compare(found: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return _same(found, other) == (operator == "$eq")
    if operator not in _ORDERS:
        raise BadInput(f"filter: there is no operator {operator[:32]!r}; there are {', '.join(OPERATORS)}")
    comparable = all(isinstance(one, int | float) for one in (found, other)) or isinstance(found, str)
    return (
        comparable
        and isinstance(other, type(found) if isinstance(found, str) else int | float)
        and bool(_ORDERS[operator](found, other))
    )


def _same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: true is not 1."""
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def same_value(a: str, b: str) -> bool:
    """Whether two values as JSON are equal, whatever the order of their fields."""
    return json.dumps(json.loads(a), sort_keys=True) == json.dumps(json.loads(b), sort_keys=True)
