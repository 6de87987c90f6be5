"""`python -m benchmarks pack`: its parts, chosen by name."""

from __future__ import annotations

import pytest

from benchmarks import pack
from benchmarks.__main__ import main


def test_every_part_is_a_module() -> None:
    assert "eib" in pack.parts()


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", "--only", "nothing", "--json"]) == 2
    assert "pack has no part nothing; there are" in capsys.readouterr().err
