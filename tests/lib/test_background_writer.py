"""What is noted is written in the background, that of many in one write, and nothing is lost at the end."""

from __future__ import annotations

import asyncio

from fusion.lib.background_writer import BackgroundWriter


class Notes(BackgroundWriter):
    """Notes that are written once the ``gate`` is open."""

    LINGER_S = 3600.0

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[str] = []
        self.writes: list[list[str]] = []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def note(self, text: str) -> None:
        self.waiting.append(text)
        self._write_soon()

    async def _write_waiting(self) -> None:
        some, self.waiting = self.waiting, []
        self.begun.set()
        await self.gate.wait()
        self.writes.append(some)


class PromptNotes(Notes):
    """Notes that are written at once."""

    LINGER_S = 0.0


async def test_background_writer_writes_what_was_noted_in_one_write() -> None:
    notes = PromptNotes()
    notes.note("one")
    notes.note("two")
    await notes.begun.wait()
    await notes.flush()
    assert notes.writes[0] == ["one", "two"]


async def test_closing_a_background_writer_writes_what_waits() -> None:
    notes = Notes()
    notes.note("one")
    await notes.close()
    assert notes.writes == [["one"]]


async def test_background_writer_writes_one_after_the_other() -> None:
    """What is noted during a write waits for the next one."""
    notes = Notes()
    notes.gate.clear()
    notes.note("one")
    first = asyncio.create_task(notes.flush())
    await notes.begun.wait()
    notes.note("two")
    second = asyncio.create_task(notes.flush())
    assert notes.waiting == ["two"]
    notes.gate.set()
    await asyncio.gather(first, second)
    await notes.close()
    assert notes.writes == [["one"], ["two"], []]
