"""Accidents that can happen to a home while a server has it open, and damages of a journal that nobody has open."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fusion.journal import Journal
from tests.ingest.helpers import event


@dataclass(frozen=True, slots=True)
class Accident:
    """Something that takes the home or its journal away; ``named`` is in the message of the server that notices."""

    happen: Callable[[Path], object]
    named: str


def _replace_home(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))
    home.mkdir(mode=0o700)


def _replace_home_by_its_copy(home: Path) -> None:
    shutil.copytree(home, home.with_name("copy"))
    home.rename(home.with_name("elsewhere"))
    home.with_name("copy").rename(home)


def _empty(home: Path) -> None:
    """What ``git clean -fdx`` does within a folder that it keeps."""
    for path in home.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _replace_journal(home: Path) -> None:
    file = home / "journal.sqlite"
    shutil.copy(file, home / "backup")
    (home / "backup").replace(file)


def _cut(path: Path, size: int = 0) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _overwrite_journal(home: Path) -> None:
    """An empty database, written over the journal's bytes."""
    file = home / "journal.sqlite"
    size = file.stat().st_size
    with file.open("r+b") as there:
        there.write(bytes(size))


def _cut_log_in_the_middle(home: Path) -> None:
    log = home / "journal.sqlite-wal"
    _cut(log, log.stat().st_size // 2)


ACCIDENTS = {
    "home deleted": Accident(shutil.rmtree, "was deleted or moved away"),
    "home moved": Accident(lambda home: home.rename(home.with_name("elsewhere")), "was deleted or moved away"),
    "home replaced": Accident(_replace_home, "was replaced by another folder"),
    "home replaced by its copy": Accident(_replace_home_by_its_copy, "was replaced by another folder"),
    "home emptied": Accident(_empty, "journal.sqlite was deleted"),
    "journal deleted": Accident(lambda home: (home / "journal.sqlite").unlink(), "journal.sqlite was deleted"),
    "journal replaced": Accident(_replace_journal, "journal.sqlite was replaced by another file"),
    "journal truncated": Accident(lambda home: _cut(home / "journal.sqlite"), "was written to by another process"),
    "journal overwritten": Accident(_overwrite_journal, "was written to by another process"),
    "log deleted": Accident(lambda home: (home / "journal.sqlite-wal").unlink(), "journal.sqlite-wal was deleted"),
    "log truncated": Accident(lambda home: _cut(home / "journal.sqlite-wal"), "was written to by another process"),
    "log cut": Accident(_cut_log_in_the_middle, "was written to by another process"),
    "shared memory deleted": Accident(
        lambda home: (home / "journal.sqlite-shm").unlink(), "journal.sqlite-shm was deleted"
    ),
}


@dataclass(frozen=True, slots=True)
class Damage:
    """What happens to a journal that nobody has open. ``older`` is a copy of it from before its last memories."""

    happen: Callable[[Path, Path], object]


def _empty_journal(home: Path, older: Path) -> None:
    """The file is gone; the next server would make an empty one."""
    for side in ("", "-wal", "-shm"):
        (home / f"journal.sqlite{side}").unlink(missing_ok=True)


def _restore(home: Path, older: Path) -> None:
    _empty_journal(home, older)
    for side in ("", "-wal"):
        if (copy := older / f"journal.sqlite{side}").exists():
            shutil.copy(copy, home)


def _zero_pages(home: Path, older: Path, first: float = 0.2, last: float = 0.6) -> None:
    file = home / "journal.sqlite"
    size = file.stat().st_size // 4096
    with file.open("r+b") as there:
        there.seek(int(size * first) * 4096)
        there.write(bytes((int(size * last) - int(size * first)) * 4096))


def _truncate(home: Path, older: Path, share: float = 0.5) -> None:
    file = home / "journal.sqlite"
    _cut(file, int(file.stat().st_size * share) // 4096 * 4096)


def _cut_log(home: Path, older: Path, share: float = 0.0) -> None:
    log = home / "journal.sqlite-wal"
    if log.exists():
        _cut(log, int(log.stat().st_size * share))


DAMAGES: dict[str, Damage] = {
    "deleted": Damage(_empty_journal),
    "emptied": Damage(lambda home, older: (_empty_journal(home, older), (home / "journal.sqlite").touch())),
    "restored from an older copy": Damage(_restore),
    "log cut to nothing": Damage(_cut_log),
    "log deleted": Damage(lambda home, older: (home / "journal.sqlite-wal").unlink(missing_ok=True)),
    "truncated to half": Damage(_truncate),
    "truncated to a tenth": Damage(lambda home, older: _truncate(home, older, 0.1)),
    "pages zeroed": Damage(_zero_pages),
    "first pages zeroed, log deleted": Damage(
        lambda home, older: (_zero_pages(home, older, 0.0, 0.1), (home / "journal.sqlite-wal").unlink(missing_ok=True))
    ),
    "rubbish": Damage(lambda home, older: (home / "journal.sqlite").write_bytes(b"rubbish " * 4096)),
}
"""what happens once a server was killed, so that its log is still there"""


async def cut_power(folder: Path, seed: int) -> tuple[Path, list[str]]:
    """A journal as a power cut leaves it, with the texts that were acknowledged by then.

    At an acknowledgement everything up to the end of the log was synced: the connection commits with synchronous =
    FULL. What came later may be gone or torn, so of the log the bytes from before that acknowledgement are kept and
    those behind it are dropped, zeroed or replaced by random ones. The main file is that of the last checkpoint, which
    SQLite syncs before it uses the log again. That the disk obeys a sync is not examined.
    """
    draw = random.Random(seed)
    folder.mkdir()
    file, log = folder / "journal.sqlite", folder / "journal.sqlite-wal"
    journal = await Journal.open(file)
    kept: list[str] = []
    states: list[tuple[int, bytes, bytes]] = []
    for number in range(draw.randint(20, 60)):
        batch = [event(f"turn {number} {n}", 100 * number + n) for n in range(draw.randint(1, 6))]
        await journal.append(batch)
        kept += [one.text for one in batch]
        states.append((len(kept), file.read_bytes(), log.read_bytes()))
    await asyncio.gather(*(journal.append([event(f"late {n}", 10_000 + n)]) for n in range(20)))
    late = log.read_bytes()
    await journal.close()
    acknowledged, main, synced = draw.choice(states)
    tail = late[len(synced) :]
    torn = draw.choice(("", "zeros", "noise", "part"))
    tail = {"": b"", "zeros": bytes(len(tail)), "noise": draw.randbytes(len(tail)), "part": tail[: len(tail) // 3]}[
        torn
    ]
    for path in folder.iterdir():
        path.unlink()
    file.write_bytes(main)
    log.write_bytes(synced + tail)
    return file, kept[:acknowledged]
