"""Fixtures for tests of the journal, which run on both databases."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusion.journal import Journal

if TYPE_CHECKING:
    from fusion.store.postgres import Server


class Journals:
    """Opens journals in the files of a folder, or in the schemas of a server; those of one name have one content."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        self._folder = folder
        self._server = server
        self._unique = secrets.token_hex(6)
        self._opened: list[Journal] = []

    async def open(self, name: str = "journal") -> Journal:
        if self._server is None:
            opened = await Journal.open(self._folder / f"{name}.sqlite")
        else:
            opened = await Journal.open_shared(self._server, f"{name} {self._unique}")
        self._opened.append(opened)
        return opened

    async def close(self) -> None:
        for journal in self._opened:
            await journal.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def journals(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journals]:
    """Opens journals in files, and in PostgreSQL."""
    server = None if request.param == "sqlite" else request.getfixturevalue("journal_server")
    opened = Journals(tmp_path, server)
    yield opened
    await opened.close()


@pytest.fixture
async def journal(journals: Journals) -> Journal:
    """An open, empty journal, in a file and in PostgreSQL."""
    return await journals.open()


@pytest.fixture
async def file_journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """An open, empty journal in a file, for what SQLite alone has."""
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()
