"""The command `python -m benchmarks markdown`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_markdown_names_data_that_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is built."""
    assert main(["markdown", "--json", "--data", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
