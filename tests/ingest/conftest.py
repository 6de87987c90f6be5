"""Fixtures for tests of the write path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fusion.journal import Journal


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """An open, empty journal."""
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()
