"""The options of a filter on the command line."""

from __future__ import annotations

import pytest

from fusion.doors.cli.where import where_of
from fusion.errors import BadInput


@pytest.mark.feature(
    "… on the command line with `--where NAME=VALUE`, repeatable", of="a question may be asked of a part"
)
def test_options_are_the_fields_of_the_filter() -> None:
    options = [
        "tag=vip",
        "tag=reefer",
        "property.type=customer",
        "property.type=lead",
        "after=2026-01-01",
        "folder=a=b",
    ]
    assert where_of(options) == {
        "tag": ["vip", "reefer"],
        "property": {"type": ["customer", "lead"]},
        "after": "2026-01-01",
        "folder": ["a=b"],
    }
    assert where_of([]) is None
    assert where_of(None) is None


@pytest.mark.parametrize("option", ["vip", "=vip", "tag=", ""])
def test_option_without_a_name_or_a_value_is_refused(option: str) -> None:
    with pytest.raises(BadInput, match="NAME=VALUE"):
        where_of([option])
