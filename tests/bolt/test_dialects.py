"""Names that may stand in a query, words that may be searched for, and where a database is: pure functions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.bolt.dialects import DIALECTS, Schema, TextIndex, VectorIndex, allowed, indexable, searchable
from adapters.bolt.options import Server
from fusion.errors import BadInput, SettingsError

EVIL = (
    "Memory`) DETACH DELETE n //",
    "Memory {id: 1}",
    "Mem-ory",
    "",
    "1st",
    "a b",
    "x" * 10_000,
    "Memory\n",
    "Ме́mory",
)


@pytest.mark.feature("Bolt: labels and types come from an allow-list")
def test_a_label_must_be_allowed() -> None:
    """A label is one of those that the program knows; the error shows no more than the start of another."""
    assert allowed("Memory", {"Memory", "Entity"}) == "Memory"
    for evil in EVIL:
        with pytest.raises(BadInput, match="Entity, Memory") as caught:
            allowed(evil, {"Memory", "Entity"})
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: ascii(evil[:12]))
def test_a_schema_takes_only_plain_names(evil: str) -> None:
    """Labels, properties and names of indexes are never quoted, so nothing can break out of a quote."""
    for make in (
        lambda: VectorIndex(evil, "Memory", "embedding", 2),
        lambda: VectorIndex("v", evil, "embedding", 2),
        lambda: TextIndex("t", "Memory", evil),
        lambda: Schema(unique=[(evil, "id")]),
        lambda: Schema(indexed=[("Memory", evil)]),
        lambda: Schema(related=[(evil, "memory")]),
    ):
        with pytest.raises(BadInput, match="is no name"):
            make()


@pytest.mark.parametrize("dimensions", [0, -1, 4097])
def test_a_vector_has_a_size(dimensions: int) -> None:
    """Both databases take 1 to 4096 dimensions."""
    with pytest.raises(BadInput, match="1 to 4096"):
        VectorIndex("v", "Memory", "embedding", dimensions)


def test_words_of_a_question() -> None:
    """Each once, in lower case: capitals are operators of the search engines."""
    assert searchable('Alpha AND "beta" OR -alpha~2 (col:ümläut*) 東京') == "alpha and beta or 2 col ümläut 東京"
    assert searchable("?! -- ()") == ""
    assert len(searchable(" ".join(map(str, range(500)))).split()) == 64


@given(st.text())
def test_no_operator_survives(text: str) -> None:
    """Only letters, digits, _ and blanks are left of any text."""
    assert re.fullmatch(r"[\w ]*", searchable(text))


@given(st.text(max_size=40), st.integers(0, 200))
def test_what_is_indexed_is_short_and_unique(start: str, more: int) -> None:
    """At most 1,000 bytes; texts that differ only at their ends are told apart; short ones stay themselves."""
    text = start + "é" * more * 20
    name = indexable(text)
    assert len(name.encode("utf-8", "surrogatepass")) <= 1000
    assert (name == text) == (len(text.encode("utf-8", "surrogatepass")) <= 1000)
    assert indexable(text + "x") != name


def test_every_dialect_is_found_by_its_name() -> None:
    """What stands in a configuration."""
    assert {name: dialect.name for name, dialect in DIALECTS.items()} == {"memgraph": "memgraph", "neo4j": "neo4j"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "url is missing; write the database's, bolt://host:7687"),
        ({"url": "http://127.0.0.1:7474"}, "must start with one of bolt://"),
        ({"url": "bolt://"}, "name a host"),
        ({"url": "bolt://h:99999"}, "not an address"),
        ({"url": "bolt://ada:secret@h:7687"}, "name user, password_env and database apart"),
        ({"url": "bolt://h/neo4j"}, "scheme, host and port only"),
        ({"url": 7687}, "url = 7687 must be a text"),
        ({"url": "bolt://h", "database": ""}, "database must be the name of one"),
        ({"url": "bolt://h", "connect_ms": 0}, "from 1 to 60000"),
        ({"url": "bolt://h", "connect_ms": True}, "from 1 to 60000"),
        ({"url": "bolt://h", "password_env": "P"}, "a password is named, but no user"),
        ({"url": "bolt://h", "user": "u", "password_env": "P", "password_file": "/p"}, "not both"),
    ],
)  # fmt: skip
def test_wrong_options_name_the_fix(options: dict[str, object], words: str) -> None:
    """Which table it is, what is wrong, what may stand there; and no password."""
    with pytest.raises(SettingsError, match=words) as caught:
        Server.of(options, "backends.cortex")
    assert str(caught.value).startswith("[backends.cortex] ")
    assert "secret" not in str(caught.value)


def test_an_address_as_it_is_shown() -> None:
    """With its port, whether it was written or not."""
    assert Server("neo4j+s://example.test").shown == "neo4j+s://example.test:7687"
    assert Server("bolt://[::1]:7688/").shown == "bolt://[::1]:7688"
