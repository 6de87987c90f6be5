"""Your own memory: a folder of Markdown, and a JSON list of queries with the files that should answer them.

    [{"query": "why did we leave MongoDB?", "files": ["decisions/database.md"]},
     {"query": "who watered the moon?", "files": []}]

A query without files has no answer. ``category`` is optional. Files are named as they stand in the folder.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.datasets import UNANSWERABLE, Corpus, DataError, Item, Question, field, nonempty_text, read_json
from fusion.sources import readers
from fusion.sources.readers import Skip


def load(path: Path, queries: Path) -> tuple[Corpus, ...]:
    """One corpus, cut as `fusion ingest` cuts. Raises DataError, also for a file that is named but not there."""
    if not path.is_dir():
        raise DataError(f"{path} is no folder")
    memories: list[Item] = []
    seen: Counter[str] = Counter()
    root = path.resolve()
    for found in readers.read([root], only={p for p in root.rglob("*") if p.suffix.lower() in (".md", ".markdown")}):
        if isinstance(found, Skip) or found.place is None or found.source is None:
            continue
        document = Path(found.source.removeprefix("file:")).relative_to(root).as_posix()
        name = f"{document}#{found.place.start}"
        seen[name] += 1
        memories.append(
            Item(
                id=name if seen[name] == 1 else f"{name}.{seen[name]}",  # a line that was too long is several
                text=found.text,
                document=document,
                position=found.place.start,
                end=found.place.end,
                at=found.at.utc if found.at else None,
                kind="note",
                unit="line",
            )
        )
    if not memories:
        raise DataError(f"{path} has no Markdown to remember")
    entries = read_json(queries)
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{queries}: a list of queries is expected")
    known = {item.document for item in memories}
    asked = tuple(_question(i, entry, known, f"{queries}, query {i}", path) for i, entry in enumerate(entries))
    return (Corpus(root.name, tuple(memories), asked, match="document"),)


def _question(index: int, entry: Any, known: set[str], where: str, folder: Path) -> Question:
    text = nonempty_text(entry, "query", where)
    gold = field(entry, "files", list, where)
    for name in gold:
        if not isinstance(name, str) or name not in known:
            raise DataError(f"{where}: {folder} has no memory in a file {name!r}")
    category = entry.get("category", "answerable") if gold else UNANSWERABLE
    return Question(index, text, str(category), tuple(dict.fromkeys(gold)))
