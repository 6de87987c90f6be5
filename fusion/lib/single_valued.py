"""Which attributes have one value at a time, by the predicates that state them, and whether two values are the same.

Of such an attribute ("lives in", "status"), a newer value takes the place of the older one. Most predicates ("likes",
"uses") are none: several values may hold at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from fusion.lib.temporal_facts import RULES
from fusion.lib.text_cache import text_cache
from fusion.lib.words import normalise

_NAMES: Mapping[str, str] = {
    "place": "lives in|lives at|moved to|resides in|residence|home town|hometown",
    "employer": "works at|works for|employer|employed by|employed at",
    "status": "status|has status|state",
    "job": "job title|has job title",
    "birth": "birthday|date of birth|born on",
    "birthplace": "birthplace|place of birth|born in",
    "time zone": "time zone|timezone|has time zone",
    "phone": "phone number|has phone number",
}
"""the predicates of each attribute"""
_ARTICLE = re.compile(r"^(?:a|an|the|my|our|his|her|their)\s+")
_WORD = re.compile(r"[^\W_]+[+#]*")


def plain(text: str) -> str:
    """The words of a name or value alone, without the article before them: "postgres 16" of "The Postgres 16"."""
    return " ".join(_WORD.findall(_ARTICLE.sub("", normalise(text).strip())))


ATTRIBUTES: Mapping[str, str] = {
    name: attribute for attribute, names in _NAMES.items() for name in names.split("|")
} | {
    plain(name): "status" if predicate == "status" else plain(predicate)
    for predicate, rule in RULES.items()
    if rule.single
    for name in (predicate, *rule.aliases)
}
"""the attributes with one value at a time, by the predicates that state them"""


@text_cache(4096)
def attribute_of(predicate: str) -> str | None:
    """The attribute with one value at a time that a predicate states ("LIVES_IN": place); None for another one."""
    return ATTRIBUTES.get(plain(predicate))


def attribute_among(predicate: str, more: Collection[str]) -> str | None:
    """As `attribute_of`; the predicates in ``more`` are each an attribute of their own."""
    known = attribute_of(predicate)
    return known if known is not None or not more else (key if (key := plain(predicate)) in more else None)


def same_value(one: str, other: str) -> bool:
    """Whether two values may be one at different precision: "Berlin" and "Berlin Mitte"."""
    a, b = set(plain(one).split()), set(plain(other).split())
    return a <= b or b <= a
