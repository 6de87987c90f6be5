"""`fusion items`: put, read, list and forget JSON objects by namespace and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fusion.doors.cli.app import app


def items(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["items", *arguments, "--home", str(home), "--direct"])


@pytest.fixture
def small(home: Path) -> Path:
    """A home that opens at once."""
    home.mkdir(mode=0o700)
    settings = '[embedder]\nadapter = ""\n[backends.one]\nadapter = "adapters.inmemory:InMemory"\n'
    (home / "fusion.toml").write_text(settings, encoding="utf-8")
    return home


@pytest.mark.feature("`fusion items` puts, gets, lists and forgets items", part="doors")
def test_an_item_is_put_read_listed_and_forgotten(small: Path) -> None:
    put = items(small, "put", "users.ada/theme", '{"colour": "dark", "px": 15}', "--user", "ada")
    assert put.stdout == "m1  stored\n", put.stderr
    assert items(small, "get", "users.ada/theme", "--user", "ada").stdout == '{"colour": "dark", "px": 15}\n'
    assert items(small, "put", "users.ada/theme", '{"colour": "pink"}', "--user", "ada").stdout == "m2  superseded\n"
    listed = items(small, "list", "users", "--user", "ada", "--query", "colour")
    assert listed.stdout == 'm2  users.ada/theme  {"colour": "pink"}\n'
    assert items(small, "namespaces", "--user", "ada").stdout == "users.ada\n"
    assert items(small, "list", "--user", "omar").stdout == "\n"
    assert items(small, "forget", "users.ada/theme", "--user", "ada").stdout.startswith("m2  cortex deleted")
    gone = items(small, "get", "users.ada/theme", "--user", "ada")
    assert (gone.exit_code, gone.stdout) == (2, "")
    assert "there is no item 'users.ada/theme' here" in gone.stderr


def test_a_value_goes_to_a_terminal_without_escapes(small: Path) -> None:
    items(small, "put", "a~2b/k~1", json.dumps({"text": "red \x1b[31m"}))
    assert "\x1b" not in items(small, "list").stdout
    found = json.loads(items(small, "get", "a~2b/k~1", "--json").stdout)
    assert (found["namespace"], found["key"], found["value"]) == (["a.b"], "k/", {"text": "red \x1b[31m"})


@pytest.mark.parametrize("arguments", [("put", "a/k", "[]"), ("put", "a/k", "{"), ("put", "a", "{}"), ("get", "/k")])
def test_wrong_usage_is_named(small: Path, arguments: tuple[str, ...]) -> None:
    refused = items(small, *arguments)
    assert refused.exit_code == 2
    assert "write" in refused.stderr or "JSON" in refused.stderr
