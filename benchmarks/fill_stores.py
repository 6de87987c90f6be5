"""Fills stores with memories: through the gateway, a home for each corpus; or directly, scattered, as external ones."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import orjson

from benchmarks.datasets import Corpus, DataError, Item, read_json
from benchmarks.progress import Advance
from benchmarks.scatter import Copy, scatter
from fusion import Gateway
from fusion.contract import Event, Extracted, Moment, Place, Remembers, Scope
from fusion.errors import BadInput
from fusion.gateway.interpreter import settled_heap
from fusion.ingest.extract import extract
from fusion.ingest.intake import Intake, NewMemory
from fusion.lib.ids import external_ref
from fusion.local_models.registry import named
from fusion.settings import load as load_settings
from fusion.sources.split import is_too_long, split
from fusion.trust.homes import make_home

BACKENDS = ("markdown", "cortex", "mem0", "triples")
BATCH = 100
"""memories a `remember`: what one POST may carry"""
FILLED_BY_FILE = "filled.json"
"""in a home that is kept: what it was filled with"""
POLL_S = 1.0
"""between two looks at the progress of the stores"""
MAX_NAME_CHARS = 64
"""characters of a file's name, which are up to four bytes each; file systems take 255"""
TIMEOUT_MS = 60_000
"""long, because figures must not depend on how busy the machine is; latency is a figure of its own"""
Table = Mapping[str, object]
"""the settings of a backend"""
NO_OTHERS: Mapping[str, Table] = {}


@dataclass(frozen=True, slots=True)
class Stored:
    """The item of each stored memory, by ref. ``took`` is None where the home had them already."""

    items: Mapping[str, Item]
    took: Took | None
    copies: int


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds by the clock, and of this process's CPU, all threads."""

    seconds: float
    cpu_s: float

    @classmethod
    def since(cls, began: Took) -> Took:
        now = cls.now()
        return cls(now.seconds - began.seconds, now.cpu_s - began.cpu_s)

    @classmethod
    def now(cls) -> Took:
        return cls(time.perf_counter(), time.process_time())


def content_digest(corpus: Corpus) -> str:
    """A digest of a corpus's memories."""
    return blake2b(orjson.dumps([asdict(item) for item in corpus.memories]), digest_size=12).hexdigest()


@contextmanager
def corpus_home(folder: Path | None, name: str, filled: Mapping[str, str]) -> Iterator[Path]:
    """The home of a corpus: below ``folder`` to be kept, or temporary. A kept one records what it was ``filled`` with.

    Raises DataError where it was filled with something else, which would be measured too.
    """
    if folder is not None:
        home = folder / file_name(name)
        _claim(home, filled)
        yield home
        return
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as temporary:
        yield Path(temporary) / "home"


def _claim(home: Path, filled: Mapping[str, str]) -> None:
    said = home / FILLED_BY_FILE
    if said.exists():
        had = read_json(said)
        differs = [key for key in filled if not isinstance(had, dict) or had.get(key) != filled[key]]
        if differs:
            raise DataError(f"{home} was filled otherwise ({', '.join(differs)} differ); move it away to store again")
    elif home.is_dir() and any(home.iterdir()):
        raise DataError(f"{home} does not say by what it was filled; move it away to store again")
    else:
        make_home(home)
        said.write_text(json.dumps(filled), encoding="utf-8")


def file_name(name: str) -> str:
    """A corpus's id as a file name; a very long one is cut and gets a digest."""
    safe = re.sub(r"[^\w.-]", "_", name)
    return (
        safe
        if len(safe) <= MAX_NAME_CHARS
        else f"{safe[:MAX_NAME_CHARS]}-{blake2b(name.encode(), digest_size=6).hexdigest()}"
    )


@asynccontextmanager
async def open_home(
    home: Path, backends: Sequence[str], recipe: str = "default", others: Mapping[str, Table] = NO_OTHERS
) -> AsyncIterator[Gateway]:
    """Opens a home of the embedded backends with their defaults, except that Markdown keeps turns too.

    ``others`` are the tables of further backends that ``backends`` names.
    """
    tables: dict[str, dict[str, object]] = {name: {"enabled": name in backends} for name in BACKENDS}
    tables |= {name: {**table, "enabled": name in backends} for name, table in others.items()}
    tables["markdown"]["remember_turns"] = True
    for table in tables.values():
        table["deadline_ms"] = TIMEOUT_MS
    settings = load_settings(home=home, recipe=recipe, backends=tables)
    async with Gateway.open(settings) as fusion:
        with settled_heap():  # as `fusion serve` has it, whose time is measured
            yield fusion


def encoders() -> str:
    """The identities of the encoders that the environment chooses for these homes: recordings depend on them."""
    chosen = load_settings(home=Path("/nonexistent")).embedder
    model = str(chosen.options.get("model", ""))
    own = named(model).identity if chosen.provider == "local" else f"{chosen.provider} {model}"
    first = "none" if chosen.none else own
    return f"{first} and {named(chosen.second).identity}" if chosen.second else first


def no_progress(steps: int) -> None:
    """Ignores progress."""


async def wait_until_stored(
    fusion: Gateway, memories: int = 0, advance: Advance = no_progress, poll_s: float = POLL_S
) -> None:
    """Waits until every backend has every memory with its vector, and advances as the slowest one does.

    Raises RuntimeError where a backend lacks something: the figures would mean nothing.
    """
    reported = 0

    def missing_of(state: Mapping[str, Any]) -> int:
        """Memories that wait to be stored, or for vectors if there is a model that makes them."""
        return int(state["backlog"]) + (int(state["vectors_pending"]) if fusion.live.embedder is not None else 0)

    settling = asyncio.ensure_future(fusion.settle())
    while memories and not settling.done():
        await asyncio.wait({settling}, timeout=poll_s)
        missing = max(map(missing_of, await fusion.backends()), default=0)
        there = max(reported, memories - missing)
        advance(there - reported)
        reported = there
    await settling
    advance(memories - reported)
    for state in await fusion.backends():
        if state["status"] != "disabled" and (missing_of(state) or state["status"] != "ready"):
            raise RuntimeError(f"not everything is stored: {state}")


async def store_corpus(
    fusion: Gateway, corpus: Corpus, *, captions: bool = False, advance: Advance = no_progress
) -> Stored:
    """Stores every memory through the gateway, and waits for the last vector. Stored ones are acknowledged again."""
    began = Took.now()
    stored: dict[str, Item] = {}
    fresh = True
    every = [(item, part) for item in corpus.memories for part in split(_memory(item, corpus.id, captions))]
    for start in range(0, len(every), BATCH):
        batch = every[start : start + BATCH]
        kept = await fusion.remember([part for _, part in batch])
        for (item, _), acknowledged in zip(batch, kept, strict=True):
            fresh = fresh and acknowledged.status != "duplicate"
            stored.setdefault(acknowledged.ref, item)
    await wait_until_stored(fusion, len(corpus.memories), advance)
    return Stored(stored, Took.since(began) if fresh else None, len(corpus.memories))


def count_split(corpora: Iterable[Corpus], captions: bool) -> dict[str, int]:
    """Counts messages that are too long for one memory, and their pieces; empty without any.

    Raises DataError for a message that cannot be stored, before anything is stored.
    """
    messages = pieces = 0
    for corpus in corpora:
        for item in corpus.memories:
            memory = _memory(item, corpus.id, captions)
            parts = list(split(memory)) if is_too_long(memory.text) else [memory]
            for part in parts:
                try:
                    Intake.check(part, f"{corpus.id}, message {item.id}")
                except BadInput as error:
                    raise DataError(str(error)) from None
            if len(parts) > 1:
                messages, pieces = messages + 1, pieces + len(parts)
    return {"messages": messages, "pieces": pieces} if messages else {}


def _memory(item: Item, user_id: str, captions: bool) -> NewMemory:
    caption = f" [shares a photo: {item.caption}]" if captions and item.caption else ""
    return NewMemory(
        text=item.text + caption,
        scope=Scope(user_id=user_id),
        kind=item.kind,
        speaker=item.speaker,
        at=Moment(item.at) if item.at else None,
        place=_place(item, item.document),
        source=f"benchmark:{item.id}",
    )


def _place(item: Item, document: str) -> Place | None:
    return Place(document, item.position, item.end or item.position, item.unit) if document else None


def scattered_copies(corpus: Corpus, backends: Sequence[str], seed: int) -> tuple[Copy, ...]:
    """Which store has which memory of a corpus, the same for the same seed."""
    return scatter(corpus.memories, backends, f"{seed}/{corpus.id}")


async def store_copies(
    fusion: Gateway, corpus: Corpus, copies: Sequence[Copy], ledger: Path, *, advance: Advance = no_progress
) -> Stored:
    """Stores each copy in its own store as an external memory, past the journal; gives the items by external ref."""
    by_id = {item.id: item for item in corpus.memories}
    if ledger.exists():
        advance(len(corpus.memories))
        kept = json.loads(ledger.read_text(encoding="utf-8"))
        return Stored({ref: by_id[item] for ref, item in kept.items()}, None, len(copies))
    began = Took.now()
    now = datetime.now(UTC)
    draw = Random(corpus.id)
    stored: dict[str, Item] = {}
    for guarded in fusion.guarded.values():
        if guarded.disabled is not None or not isinstance(guarded.backend, Remembers):
            continue
        mine = [(copy, part) for copy in copies if copy.store == guarded.name for part in _parts(copy, corpus.id)]
        events = [
            Event(
                event_id=_event_id(draw),
                text=part.text,
                recorded_at=now,
                scope=Scope(user_id=corpus.id),
                kind=copy.turn.kind,
                speaker=copy.turn.speaker,
                at=Moment(copy.turn.at) if copy.turn.at else None,
                place=part.place,
            )
            for copy, part in mine
        ]
        batch = [Extracted(event, extract(event)) for event in events]
        for (copy, _), natives in zip(mine, await guarded.backend.remember(batch), strict=True):
            stored |= {external_ref(guarded.name, native): copy.turn for native in natives}
    await wait_until_stored(fusion, len(corpus.memories), advance)
    ledger.write_text(json.dumps({ref: item.id for ref, item in stored.items()}), encoding="utf-8")
    return Stored(stored, Took.since(began), len(copies))


def _parts(copy: Copy, user_id: str) -> Iterator[NewMemory]:
    """A copy as memories: one, or the pieces of a text that is too long for one."""
    memory = _memory(copy.turn, user_id, captions=False)
    return split(replace(memory, text=copy.text, place=_place(copy.turn, copy.document)))


def _event_id(draw: Random) -> str:
    """A UUIDv7 that is the same in every run, because ties in a ranking are broken by ref, and a ref contains it."""
    milliseconds, first, second = draw.getrandbits(48), draw.getrandbits(12), draw.getrandbits(62)
    return str(UUID(int=milliseconds << 80 | 7 << 76 | first << 64 | 2 << 62 | second))
