"""What QMD does, over the fused memory: it finds documents, reads them, and says how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from fusion import wire
from fusion.client import AsyncClient
from fusion.doors.compat.qmd.addresses import (
    COLLECTION,
    SCHEME,
    Address,
    address_of,
    collection_of,
    docid_of,
    uri_of,
)
from fusion.doors.compat.qmd.questions import MAX_RESULTS, Question
from fusion.doors.quarantine import is_quarantined
from fusion.errors import NobodyAnswered, NotFound
from fusion.lib.budget import clip
from fusion.recall.document import MAX_LINES

SNIPPET_CHARS = 300
TITLE_CHARS = 80
PAGE = 100
"""memories that are listed at once"""
PAGES = 10
"""pages of memories that are looked through for the documents of a pattern"""
MAX_DOCUMENTS = 20
"""documents of one pattern"""
GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Document:
    """A document, or some of its lines from ``start`` on. ``more`` is the next line, None at its end."""

    uri: str
    text: str
    start: int = 1
    more: int | None = None

    @property
    def name(self) -> str:
        """Its path with the collection, as QMD displays it."""
        return self.uri.removeprefix(SCHEME)

    def numbered(self) -> str:
        """Its lines with their numbers."""
        return numbered(self.text, self.start)


@dataclass(frozen=True, slots=True)
class Library:
    """The memory as QMD's clients see it, through a client of the gateway. It only reads.

    ``scope`` has the fields that the door fixes, such as ``user_id``; ``all_users`` asks for everybody's memories.
    """

    client: AsyncClient
    scope: Mapping[str, Any]
    all_users: bool = False

    async def query(self, question: Question) -> list[dict[str, Any]]:
        """The best documents for a question, best first, each once. Raises NobodyAnswered."""
        if not question.text:
            return []
        found = await self.client.memory_search(
            question.text,
            max_results=MAX_RESULTS,
            min_score=question.min_score,
            all_users=self.all_users or None,
            **self.scope,
        )
        if "error" in found:
            raise NobodyAnswered(found["error"], {})
        results: dict[str, dict[str, Any]] = {}
        for item in found["results"]:
            uri = uri_of(item["path"])
            if uri not in results and question.admits(item["snippet"], collection_of(uri)):
                results[uri] = _result(uri, item)
        return [*results.values()][: question.limit]

    async def get(self, address: Address) -> Document:
        """The lines of a document, or a memory. Raises NotFound."""
        path = await self._path_of_ref(address.path) if address.is_ref else address.path
        page = await self.client.memory_get(
            path, start=address.start, lines=min(address.lines or MAX_LINES, MAX_LINES), **self.scope
        )
        if not page["text"]:
            raise NotFound(f"Document not found: {address.path}")
        return Document(uri_of(path), page["text"], page.get("from", 1), page.get("nextFrom"))

    async def get_many(self, pattern: str, max_lines: int | None) -> tuple[list[Document], list[str]]:
        """The documents of a pattern or of a list of addresses with commas between them, and what was not found."""
        names = await self._matching(pattern) if GLOB & set(pattern) else pattern.split(",")
        found: list[Document] = []
        errors: list[str] = []
        for name in [one for one in names if one.strip()][:MAX_DOCUMENTS]:
            try:
                address = address_of(name)
                found.append(await self.get(address if max_lines is None else replace(address, lines=max_lines)))
            except NotFound:
                errors.append(f"Document not found: {name.strip()}")
        return found, errors

    async def status(self) -> dict[str, Any]:
        """How many memories there are, in QMD's fields: each counts as a document."""
        status = await self.client.status(**self.scope)
        count = status["memories"]["current"]
        latest = await self.client.memories(limit=1, **self.scope)
        updated = latest["memories"][0]["recorded_at"] if latest["memories"] else None
        one = {"name": COLLECTION, "path": None, "pattern": None, "documents": count, "lastUpdated": updated}
        return {
            "totalDocuments": count,
            "needsEmbedding": 0,
            "hasVectorIndex": bool(status["embedder"]),
            "collections": [one],
        }

    async def _path_of_ref(self, ref: str) -> str:
        """The document of a memory; its ref if it is in none. Raises NotFound, also for what is quarantined."""
        memory = await self.client.memory(ref, **self.scope)
        if is_quarantined(memory):
            raise NotFound(f"Document not found: {ref}")
        return memory["document"] or ref

    async def _matching(self, pattern: str) -> list[str]:
        """The addresses of documents whose path fits a pattern, among those of the latest memories."""
        wanted = pattern.strip().removeprefix(SCHEME).removeprefix(f"{COLLECTION}/")
        names: dict[str, None] = {}
        cursor = None
        for _ in range(PAGES):
            page = await self.client.memories(limit=PAGE, cursor=cursor, **self.scope)
            for memory in page["memories"]:
                document = memory["document"]
                if document and not is_quarantined(memory) and fnmatchcase(document, wanted):
                    names[uri_of(document)] = None
            cursor = page["next_cursor"]
            if cursor is None or len(names) >= MAX_DOCUMENTS:
                break
        return [*names]


def numbered(text: str, start: int) -> str:
    """The lines of a text, each after its number."""
    return "\n".join(f"{number}: {line}" for number, line in enumerate(text.split("\n"), start))


def _result(uri: str, item: wire.ToolSearchItem) -> dict[str, Any]:
    snippet = clip(item["snippet"], SNIPPET_CHARS)
    has_document = item["path"] != item["ref"]
    return {
        "docid": docid_of(item["ref"]),
        "file": uri,
        "title": PurePosixPath(item["path"]).name if has_document else clip(snippet.split("\n")[0], TITLE_CHARS),
        "score": round(min(max(item["score"], 0.0), 1.0), 2),
        "context": None,
        "line": item["startLine"],
        "snippet": numbered(snippet, item["startLine"]),
    }
