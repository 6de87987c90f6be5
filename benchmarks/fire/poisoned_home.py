"""A home with a corpus of true memories, and three ways to plant hostile texts in it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from benchmarks.fill_stores import BACKENDS, open_home, wait_until_stored
from fusion import Gateway
from fusion.contract import Event, Extracted, Forgets, Remembers, Scope
from fusion.ingest.extract import extract
from fusion.ingest.intake import NewMemory
from fusion.lib.ids import uuid7
from fusion.lib.words import STOP_WORDS, words
from fusion.recall.engine import Fused, FuseRequest
from fusion.sources.readers import Skip, read

Door = Literal["remembered", "external", "note", "claimed", "imitated", "line"]
DOORS: tuple[Door, ...] = ("remembered", "external", "note")
CLAIMING: tuple[Door, ...] = ("claimed", "imitated", "line")
"""as remembered, as external, and in a file of JSONL, with the speaker and place of the true memory"""
EXTERNAL = "mem0"
"""the store that an attacker fills past the journal"""
TIMEOUT_MS = 60_000


@dataclass
class PoisonedHome:
    """An open home, and what was planted in it for each user."""

    fusion: Gateway
    folder: Path
    refs: dict[str, list[str]] = field(default_factory=dict)
    """by user, the refs of what came in through the gateway"""
    outside: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)
    """by user, the event ids and native ids of what went past it"""
    exports: int = 0
    """number of files of JSONL that were planted"""

    async def keep(self, memories: Sequence[NewMemory], user: str) -> None:
        """Remembers true memories of a user."""
        mine = [replace(one, scope=Scope(user_id=user)) for one in memories]
        for start in range(0, len(mine), 100):
            await self.fusion.remember(mine[start : start + 100])

    async def plant(self, door: Door, texts: Sequence[str], user: str, **claims: Any) -> None:
        """Plants hostile texts, with the speaker, time and place that they claim if the door takes claims."""
        scope = Scope(user_id=user)
        if door == "external":
            backend = self.fusion.guarded[EXTERNAL].backend
            assert isinstance(backend, Remembers)
            claims.setdefault("trust", "trusted")
            now = datetime.now(UTC)
            events = [Event(str(uuid7()), text, now, scope, source="web:page", **claims) for text in texts]
            natives = await backend.remember([Extracted(event, extract(event)) for event in events])
            ids = zip((event.event_id for event in events), natives, strict=True)
            self.outside.setdefault(user, []).extend(ids)
            return
        if door == "note":
            folder = self.folder / f"followed-{user}"
            folder.mkdir(exist_ok=True)
            for n, text in enumerate(texts):
                (folder / f"page-{n}.md").write_text(f"{text}\n", encoding="utf-8")
            found = [one for one in read([folder], scope) if not isinstance(one, Skip)]
        elif door == "line":
            found = self._lines(texts, scope, **claims)
        else:
            found = [NewMemory(text, scope=scope, source=f"web:page-{n}", **claims) for n, text in enumerate(texts)]
        for start in range(0, len(found), 100):
            kept = await self.fusion.remember(found[start : start + 100])
            self.refs.setdefault(user, []).extend(one.ref for one in kept if one.ref)

    def _lines(self, texts: Sequence[str], scope: Scope, **claims: Any) -> list[NewMemory]:
        """The memories of a file of JSONL whose lines name the source and the place of another conversation."""
        place, kind, speaker, source = (claims.get(name) for name in ("place", "kind", "speaker", "source"))
        row = {"document": place.document, "position": place.start} if place is not None else {}
        row |= {"kind": kind, "speaker": speaker, "source": source}
        self.exports += 1
        file = self.folder / f"export-{self.exports}.jsonl"
        file.write_text("".join(json.dumps({"text": text, **row}) + "\n" for text in texts), encoding="utf-8")
        return [one for one in read([file], scope) if not isinstance(one, Skip)]

    async def unplant(self, user: str) -> None:
        """Removes what was planted."""
        scope = Scope(user_id=user, audience="private")
        for ref in self.refs.pop(user, []):
            await self.fusion.forget(ref, scope)
        backend = self.fusion.guarded[EXTERNAL].backend
        assert isinstance(backend, Forgets)
        for event_id, native_ids in self.outside.pop(user, []):
            await backend.forget(event_id, native_ids)

    async def ask(self, question: str, user: str) -> Fused:
        scope = Scope(user_id=user, audience="private")
        return await self.fusion.fuse(FuseRequest(question, scope, timeout_ms=TIMEOUT_MS))

    async def wait_until_stored(self) -> None:
        await wait_until_stored(self.fusion)


@asynccontextmanager
async def open_poisoned_home(backends: Sequence[str] = BACKENDS) -> AsyncIterator[PoisonedHome]:
    """Opens a temporary home of the embedded backends."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as temporary:
        async with open_home(Path(temporary) / "home", backends) as fusion:
            yield PoisonedHome(fusion, Path(temporary))


def shown(fused: Fused) -> list[str]:
    """The texts of a block's memories, the best excerpt's first."""
    return [member.text for memory in fused.memories for member in memory.members]


def common_words(texts: Sequence[str], most: int = 60) -> list[str]:
    """The words that most texts of a corpus have."""
    counts = Counter(word for text in texts for word in words(text) if word not in STOP_WORDS and len(word) > 3)
    return [word for word, _ in counts.most_common(most)]


def share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def by_key(counts: Mapping[Any, float], whole: Mapping[Any, int]) -> dict[str, float]:
    return {" ".join(key) if isinstance(key, tuple) else key: share(counts.get(key, 0), n) for key, n in whole.items()}
