"""The results of the MCP tools: text for the model, and members for programs.

Hosts show the model the structured content of a result in place of its text (Claude Code, Codex, OpenClaw), or the text
alone (Gemini CLI). So a result whose text is all that a model needs has no structured content: its other members are in
`_meta`, which no host shows. The others are small either way.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field

from fusion import wire
from fusion.lib.escape import escape
from fusion.lib.fence import cited, fenced
from fusion.recall.context_pack import SCHEMA


class Result(BaseModel):
    """The result of one tool call. Members that are None are left out of what is sent."""

    shown: ClassVar[str | None] = None
    """the member that the text has in full; a result with one has no structured content"""

    @abstractmethod
    def as_text(self) -> str:
        """The result as text for a model."""


class Citation(BaseModel):
    """The place of a memory in its document; memory_get takes `path` and `from`."""

    ref: str
    path: str | None = Field(default=None, description="the document that contains it")
    start: int | None = Field(default=None, alias="from", description="its first line or turn there")
    to: int | None = Field(default=None, description="its last line or turn there")
    at: str | None = Field(default=None, description="when it happened")
    score: float
    probability: float | None = Field(default=None, description="that it helps to answer the question")

    @classmethod
    def of(cls, member: wire.Member, **more: Any) -> Self:
        place = member["place"]
        where = {"path": place["document"], "from": place["start"], "to": place["end"]} if place else {}
        numbers = {"score": member["score"], "probability": member["probability"]}
        return cls(**{**where, **numbers, **more}, ref=member["ref"], at=member["at"])


class RecallResult(Result):
    """The block of memory_fuse, with the citations of what is in it."""

    shown = "block"

    block: str = Field(description="the fenced block for the prompt; empty when nothing was recalled")
    memories: list[Citation] = Field(description="what is in the block")
    degraded: bool = Field(description="some memory system did not answer, or answered less than it could")
    notice: str | None = Field(default=None, description="what went wrong, in one line")
    receipt_id: str | None = Field(default=None, description="`fusion receipt ID` says why each memory is in or out")

    def as_text(self) -> str:
        return "\n".join(filter(None, [self.block, self.notice])) or "Nothing was recalled."


class PackedFrom(BaseModel):
    """Where a line of a pack comes from."""

    url: str | None = Field(default=None, description="a web address, or the path of a note")
    recordRef: str  # noqa: N815 - the name in the schema


class PackedLine(BaseModel):
    """One line of a pack."""

    recordRef: str  # noqa: N815 - the name in the schema
    layer: str
    type: str
    importance: str
    trust: str
    text: str
    citations: PackedFrom


class PackResult(Result):
    """A context pack in the fields of openclaw-mem.context-pack.v1."""

    shown = "bundle_text"

    schema_: str = Field(default=SCHEMA, alias="schema")
    bundle_text: str = Field(description="the lines for the prompt; empty when nothing was recalled")
    items: list[PackedLine] = Field(description="the same lines one by one")
    degraded: bool = Field(description="some memory system did not answer, or answered less than it could")
    notice: str | None = Field(default=None, description="what went wrong, in one line")
    receipt_id: str | None = Field(default=None, description="`fusion receipt ID` says why each memory is in or out")
    trace: dict[str, Any] | None = Field(default=None, description="openclaw-mem.pack.trace.v1, if it was asked for")

    def as_text(self) -> str:
        return "\n".join(filter(None, [self.bundle_text, self.notice])) or "Nothing was recalled."


class SearchHit(BaseModel):
    """One memory that a search found."""

    ref: str
    path: str | None = Field(default=None, description="the document that contains it")
    startLine: int | None = None  # noqa: N815 - OpenClaw's name
    endLine: int | None = None  # noqa: N815 - OpenClaw's name
    speaker: str | None = None
    at: str | None = Field(default=None, description="when it happened")
    score: float
    snippet: str

    @classmethod
    def of(cls, item: wire.ToolSearchItem) -> Self:
        """The hit for an item of the gateway, whose path is its ref where it is in no document."""
        hit = cls(ref=item["ref"], score=round(item["score"], 3), snippet=item["snippet"])
        hit.speaker, hit.at = item.get("speaker"), item.get("at")
        if item.get("citation") and item["path"] != item["ref"]:
            hit.path, hit.startLine, hit.endLine = item["path"], item["startLine"], item["endLine"]
        return hit

    def as_line(self) -> str:
        place = "" if self.path is None else f"{self.path}:{self.startLine}-{self.endLine} "
        return cited(self.ref, place + (f"{self.speaker}: " if self.speaker else "") + self.snippet)


class SearchResult(Result):
    """The memories that a search found, best first."""

    results: list[SearchHit]
    degraded: bool | None = Field(default=None, description="some memory system did not answer")
    notice: str | None = Field(default=None, description="what went wrong, in one line")

    @classmethod
    def of(cls, reply: wire.ToolSearchReply) -> Self:
        hits = [SearchHit.of(item) for item in reply["results"]]
        if reply.get("unavailable"):
            return cls(results=hits, degraded=True, notice=reply.get("warning"))
        return cls(results=hits, degraded=reply.get("degraded"), notice=reply.get("notice"))

    def as_text(self) -> str:
        lines = "\n".join(hit.as_line() for hit in self.results)
        return "\n".join(filter(None, [fenced(lines), self.notice])) or "Nothing was found."


class ReadResult(Result):
    """A memory, or a page of a document."""

    shown = "text"

    text: str = Field(description="the memory's text, or the page of the document; empty: there is no such thing")
    path: str | None = Field(default=None, description="the document")
    ref: str | None = None
    start: int | None = Field(default=None, alias="from")
    lines: int | None = None
    truncated: bool | None = Field(default=None, description="there is more than this")
    next_from: int | None = Field(default=None, alias="nextFrom", description="`from` of the next page")
    speaker: str | None = None
    at: str | None = Field(default=None, description="when it happened")
    until: str | None = Field(default=None, description="when an episode ended, excluded")
    entities: list[str] | None = Field(default=None, description="who and what an episode involves")
    kind: str | None = None
    trust: str | None = None

    def as_text(self) -> str:
        more = f"The next page begins at from={self.next_from}." if self.next_from is not None else ""
        text = "\n".join(filter(None, [self._heading(), self.text])) if self.text else ""
        return "\n".join(filter(None, [fenced(escape(text)), more])) or "There is nothing at that place."

    def _heading(self) -> str:
        """One line about a memory that was read by its ref: its kind, its time, who said it, who is involved."""
        when = " to ".join(filter(None, [self.at, self.until]))
        who = f"with {', '.join(self.entities)}" if self.entities else ""
        about = ", ".join(filter(None, [self.kind, when, self.speaker, who]))
        return f"[{self.ref}] {about}" if self.ref and about else ""


class StoreResult(Result):
    """What became of the memory that was sent."""

    ref: str = Field(description="cites the memory from now on; empty when nothing was kept")
    status: Literal["stored", "superseded", "duplicate", "blocked", "skipped"]
    redacted: int = Field(description="secrets that were masked before it was kept")
    reason: str = Field(description="why nothing was kept, or how what is kept differs from what was sent")
    supersedes: str | None = Field(default=None, description="ref of the memory that it replaces")
    said: int = Field(default=1, description="how often it was remembered, this time included")

    def as_text(self) -> str:
        outcome = f"{self.ref} {self.status}".strip() + (f" (replaces {self.supersedes})" if self.supersedes else "")
        return f"{outcome}: {self.reason}" if self.reason else f"{outcome}."


class ProposeResult(Result):
    """What became of the proposal that was sent."""

    id: str = Field(description="names the proposal; empty when nothing was proposed")
    state: Literal["open", "approved", "rejected", "expired"] | None = None
    status: Literal["proposed", "duplicate", "skipped"]
    ref: str | None = Field(default=None, description="cites the memory, if it was approved at once")
    redacted: int = Field(description="secrets that were masked")
    reason: str = Field(description="how what is proposed differs from what was sent, or why it was skipped")
    writes_performed: bool = Field(description="whether a memory was stored; false while it waits for a decision")

    def as_text(self) -> str:
        outcome = f"{self.id} {self.status}, {self.state or 'nothing is proposed'}".strip()
        stored = f"; it is remembered as {self.ref}" if self.writes_performed else "; nothing is remembered yet"
        return f"{outcome}{stored}" + (f": {self.reason}" if self.reason else ".")


class UpdateResult(StoreResult):
    """What became of the update of a memory."""

    batch: str | None = Field(default=None, description="names the update for an undo; none if nothing was changed")


class ForgottenMemory(BaseModel):
    """One memory that was forgotten, or would be."""

    ref: str
    snippet: str | None = Field(default=None, description="the beginning of its text, while it is there")
    at: str | None = Field(default=None, description="when it happened")
    backends: dict[str, str] | None = Field(
        default=None,
        description="once it is forgotten, by memory system: deleted, absent, hidden (a user's own file, which is "
        "never edited), pending or still_there (both asked until they have forgotten)",
    )
    also: list[str] | None = Field(
        default=None,
        description="refs of what went with it: the same words kept again, earlier versions, what only follows from it",
    )

    @classmethod
    def of(cls, receipt: wire.Forgotten) -> Self:
        return cls(ref=receipt["ref"], backends=receipt["backends"], also=receipt.get("also") or None)


class ForgetResult(Result):
    """The memories that were forgotten, or with ``dry_run`` would be."""

    dry_run: bool = Field(description="nothing was forgotten: these would be")
    memories: list[ForgottenMemory]
    more: bool = Field(default=False, description="more memories match the query")
    released: list[str] | None = Field(
        default=None,
        description="refs of memories that say nearly the same: they were merged into these, and are answered again",
    )

    def as_text(self) -> str:
        if not self.memories:
            return "Nothing like that is remembered; nothing was forgotten."
        released = ", ".join(self.released or ())
        hint = f"These say nearly the same and are answered again, unless you forget them too: {released}."
        again = [hint] if released else []
        if self.dry_run:
            snippets = "\n".join(cited(memory.ref, memory.snippet or "") for memory in self.memories)
            more = ", and there is more like it" if self.more else ""
            ask = (
                f"{fenced(snippets)}\nNothing is forgotten yet{more}. Show this to the user; "
                "then forget by ref, or all of them by the same query with dry_run false."
            )
            return "\n".join([ask, *again])
        lines = [
            f"{memory.ref} is forgotten"
            + (f", and with it {', '.join(memory.also)}: " if memory.also else ": ")
            + (
                ", ".join(f"{name} {outcome}" for name, outcome in (memory.backends or {}).items())
                or "no memory system had it"
            )
            for memory in self.memories
        ]
        return "\n".join([f"{line}." for line in lines] + ["There is more like it."] * self.more + again)
