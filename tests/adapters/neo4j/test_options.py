"""The options of a graph, checked before any of its names is used in a query."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from adapters.bolt.options import NAMES as SERVER_OPTIONS
from adapters.neo4j import Neo4j, Options
from adapters.options import build
from fusion.errors import (
    SettingsError,
)

EVIL = ("Person`) DETACH DELETE n //", "Per son", "Person:Admin", "Pers\\u0060on", "", "1st", "x" * 65, "Ме́mory", "a|b")


PLACES = ("entities", "passages", "names", "texts", "aliases", "relationships", "facts", "name_index", "text_index",
          "vector_index", "vector_property", "id", "at", "valid_from", "valid_to", "scope")  # fmt: skip


@pytest.mark.feature("neo4j: names that could inject Cypher", part="faults/adapters")
@pytest.mark.feature(
    "… labels, types, properties and indexes that could break out of a query are refused (CVE-2026-32247)",
    of="neo4j: any graph in Neo4j or",
)
@pytest.mark.parametrize("key", PLACES)
@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: ascii(evil[:14]))
def test_a_name_that_could_break_out_is_refused(key: str, evil: str) -> None:
    """Every name that stands in a query is letters, digits and _: CVE-2026-32247 was a label that was not."""
    default = getattr(Options(entities=("A",), passages=("B",)), key)
    value: object = {"user_id": evil} if key == "scope" else [evil] if isinstance(default, tuple) else evil
    if not evil and isinstance(default, str) and key != "vector_property":
        return  # an empty text leaves it out
    with pytest.raises(SettingsError, match=rf"^\[backends.x\] {key}"):
        build(Options, {"entities": ["A"], "passages": ["B"], key: value}, "[backends.x]")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "name the labels"),
        ({"entities": ["A"], "labels": ["A"]}, "has no option 'labels', only: url"),
        ({"entities": "A"}, "entities = 'A' must be a list of texts"),
        ({"entities": ["A"], "hops": 3}, "hops = 3 must be a whole number from 1 to 2"),
        ({"entities": ["A"], "hops": True}, "hops = True must be a whole number"),
        ({"entities": ["A"], "degree": 0}, "degree = 0 must be a whole number from 1 to 1000"),
        ({"entities": ["A"], "dialect": "kuzu"}, "must be one of"),
        (
            {"entities": ["A"], "scope": {"colour": "c"}},
            "must be a table of texts, for some of tenant",
        ),
        ({"entities": ["A"], "scope": {"user_id": "u"}, "bound": {"user_id": "ada"}}, "bound gives texts"),
        ({"entities": ["A"], "audience": "all"}, "audience = 'all' must be one of private, group"),
        ({"entities": ["A"], "text_index": "t"}, "text_index finds passages"),
        ({"passages": ["A"], "name_index": "t"}, "name_index finds entities"),
        ({"entities": ["A"], "names": []}, "names: at least one"),
        ({"entities": [f"L{n}" for n in range(33)]}, "entities: at most 32"),
    ],
)
def test_a_wrong_option_is_named(table: Mapping[str, object], said: str) -> None:
    """The error has the table, the key, and what may stand there."""
    with pytest.raises(SettingsError, match=r"^\[backends.x\] ") as caught:
        build(Options, table, "[backends.x]", SERVER_OPTIONS)
    assert said in str(caught.value)


def test_verified_without_a_server() -> None:
    """`fusion doctor` reads the table where no server runs: it is told what is configured, or what is wrong."""
    told = Neo4j.verify({"url": "bolt://127.0.0.1:7687", "entities": ["A"]})
    assert told == "adapters.neo4j:Neo4j, neo4j at bolt://127.0.0.1:7687"
    with pytest.raises(SettingsError, match="name the labels"):
        Neo4j.verify({"url": "bolt://127.0.0.1:7687"})
    with pytest.raises(SettingsError, match="url is missing"):
        Neo4j.verify({"entities": ["A"]})
