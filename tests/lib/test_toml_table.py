"""One table of a TOML text is replaced, and the rest stays."""

from __future__ import annotations

import tomllib

import pytest

from fusion.lib.toml_table import with_table

TEXT = """\
# mine
model = "x" # this one

[mcp_servers.other]
command = "y"

[mcp_servers.memory-fusion]  # old
command = "old"
[mcp_servers.memory-fusion.env]
A = "b"

# about projects
[projects."/a"]
trust = true
"""
NEW = {"command": 'a "b" ü', "args": ["mcp", "--home", "/x"]}


def test_table_is_replaced_with_what_is_below_it() -> None:
    after = with_table(TEXT, "mcp_servers", "memory-fusion", NEW)
    found = tomllib.loads(after)
    assert found["mcp_servers"] == {"other": {"command": "y"}, "memory-fusion": NEW}
    assert "# mine" in after
    assert '[projects."/a"]\ntrust = true\n' in after
    assert with_table(after, "mcp_servers", "memory-fusion", NEW) == after


@pytest.mark.parametrize("text", ["", "a = 1", "a = 1\n", "[x]\ny = 2\n"])
def test_table_is_added_at_the_end_and_removed(text: str) -> None:
    after = with_table(text, "mcp_servers", "memory-fusion", NEW)
    assert tomllib.loads(after) == {**tomllib.loads(text), "mcp_servers": {"memory-fusion": NEW}}
    assert tomllib.loads(with_table(after, "mcp_servers", "memory-fusion", None)) == tomllib.loads(text)
    assert with_table(text, "mcp_servers", "memory-fusion", None) == text


@pytest.mark.parametrize("text", ["a = ", "[mcp_servers]\nmemory-fusion = {command = 'x'}\n"])
def test_what_cannot_be_replaced_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        with_table(text, "mcp_servers", "memory-fusion", NEW)
