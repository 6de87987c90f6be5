"""Observations: what an agent's session left behind as evidence, bounded and redacted for the ledger (seed 004).

An observation is a message, a call or a result of a tool, or a decision or an alert of operations. It is no memory:
nothing delivers it to a backend, and nothing makes a fact of it. `observed` takes what a caller or a file sends and
returns what may be stored: without recalled memories, without text that its author marked as private, without secrets,
and no longer than its type allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, get_args

import orjson

from fusion.contract import Origin, Scope, Trust
from fusion.lib.clean import clean
from fusion.lib.envelope import MARKED, is_marked, said, without_own_block, without_private
from fusion.lib.listing import one_line
from fusion.lib.redact import redact

EpisodeType = Literal[
    "conversation.user",
    "conversation.assistant",
    "tool.call",
    "tool.result",
    "ops.decision",
    "ops.alert",
    "ops.observation",
]
Lane = Literal["episodes", "documents", "resources", "skills"]
SearchMode = Literal["lexical", "hybrid", "vector"]
TYPES: tuple[EpisodeType, ...] = get_args(EpisodeType)
LANES: tuple[Lane, ...] = get_args(Lane)

SCHEMA = "memory-fusion.observation.v1"
"""names the form of a stored line; a reader accepts every version up to its own"""
SUMMARY_CHARS = 220
REFS_BYTES = 1_024
SEARCHED_CHARS = 10_000
"""leading characters of an observation that a search reads"""
MAX_DEPTH = 32
"""levels of a payload that are read; what is nested deeper is left out"""
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
"""the integers that JSON is written with; others become texts"""
MAX_PARTS = 2_000
"""texts and numbers of a payload that are read"""

PAYLOAD_BYTES: Mapping[EpisodeType, int] = {
    "conversation.user": 4_096,
    "conversation.assistant": 4_096,
    "tool.call": 2_048,
    "tool.result": 2_048,
    "ops.decision": 8_192,
    "ops.alert": 8_192,
    "ops.observation": 8_192,
}
"""maximum bytes of a payload in JSON; a longer one is cut, and marked as truncated"""
_LANE_OF_TOOL: Mapping[str, Lane] = {
    **dict.fromkeys(("read", "notebookread", "grep", "glob", "ls"), "documents"),
    **dict.fromkeys(("webfetch", "websearch", "web_fetch", "web_search", "browser"), "resources"),
    **dict.fromkeys(("skill", "slashcommand"), "skills"),
}
_NO_TEXT = "it has neither a summary nor a payload"

Json = Any
"""a value of JSON"""


@dataclass(frozen=True, slots=True)
class NewObservation:
    """An observation as its caller sends it. The same ``event_id`` of one user and agent is stored once.

    ``payload`` is any value of JSON; ``refs`` names what it belongs to, such as the id of a tool's call. A ``lane``
    that is not given comes from the tool. ``importance`` is the grade that came with it.
    """

    type: EpisodeType
    scope: Scope
    summary: str = ""
    payload: Json = None
    refs: Mapping[str, Json] | None = None
    ts: datetime | None = None
    event_id: str | None = None
    tool: str | None = None
    lane: Lane | None = None
    source: str | None = None
    raw_kind: str | None = None
    importance: float | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation that may be stored. ``payload`` and ``refs`` are JSON; ``redacted`` counts its masked secrets.

    ``by_hand`` is JSON, too: the fields that a person set.
    """

    event_id: str
    type: EpisodeType
    lane: Lane
    ts: datetime
    scope: Scope
    summary: str
    tool: str | None = None
    payload: str | None = None
    refs: str | None = None
    source: str | None = None
    raw_kind: str | None = None
    truncated: bool = False
    redacted: int = 0
    importance: float | None = None
    by_hand: str | None = None

    @property
    def key(self) -> bytes:
        """What makes it the same observation: its id, of its user and agent."""
        named = (self.scope.tenant, self.scope.user_id or "", self.scope.agent_id or "", self.event_id)
        return blake2b("\0".join(named).encode("utf-8", "replace"), digest_size=16).digest()

    @property
    def origin(self) -> Origin:
        return origin_of(self.type, self.scope)

    @property
    def trust(self) -> Trust:
        return trust_of(self.type)

    @property
    def searched(self) -> str:
        """The text that a search reads; it is redacted and bounded."""
        return searched_text(self.summary, self.tool, self.payload)


class Observed(NamedTuple):
    """An observation that may be stored; None with the ``reason`` if nothing of it may."""

    observation: Observation | None
    reason: str = ""


def origin_of(type: EpisodeType, scope: Scope) -> Origin:
    """Who wrote an observation of this type; in a group, anybody may speak as the user."""
    match type:
        case "conversation.user":
            return "owner" if scope.audience == "private" else "import"
        case "conversation.assistant":
            return "agent"
        case "tool.call" | "tool.result":
            return "tool"
    return "system"


def trust_of(type: EpisodeType) -> Trust:
    """The trust of an observation: of a tool's never more than untrusted, of others unknown; nobody can raise it."""
    return "untrusted" if type.startswith("tool.") else "unknown"


def lane_of(type: EpisodeType, tool: str | None) -> Lane:
    """The lane of an observation whose caller names none: what tools read has lanes of its own."""
    if not type.startswith("tool.") or tool is None:
        return "episodes"
    return _LANE_OF_TOOL.get(tool.casefold(), "episodes")


def observed(new: NewObservation, now: datetime, new_id: Callable[[], str]) -> Observed:
    """The observation of what was sent, redacted and bounded.

    Text marked as private is left out, and an observation with one of the marks [NOEXPORT], [PRIVATE] or [NOMEM] as a
    whole. Its time is at most ``now``, so that no time in the future keeps it for ever.
    """
    reader = _Reader(new.type)
    payload = reader.value(new.payload)
    summary = one_line(reader.text(new.summary))
    if reader.marked:
        return Observed(None, MARKED)
    written, cut = _bounded(payload, PAYLOAD_BYTES[new.type], reader)
    if not summary:
        summary = one_line(flat_text(written)) if written is not None else ""
    summary = reader.redacted(summary)
    if not summary:
        return Observed(None, reader.reason or _NO_TEXT)
    refs, refs_cut = _bounded(reader.value(new.refs), REFS_BYTES, reader)
    kept_refs = None if refs_cut else refs
    made = Observation(
        event_id=new.event_id or new_id(),
        type=new.type,
        lane=new.lane or lane_of(new.type, new.tool),
        ts=min(new.ts or now, now),
        scope=new.scope,
        summary=shortened(summary),
        tool=new.tool,
        payload=written,
        refs=kept_refs,
        source=new.source,
        raw_kind=new.raw_kind,
        truncated=cut or refs_cut or reader.cut,
        redacted=reader.secrets,
        importance=new.importance,
    )
    return Observed(made)


def redacted_copy(observation: Observation, text: str) -> Observation:
    """The observation with ``text`` in place of all that was said in it."""
    return replace(observation, summary=text, payload=None, refs=None, truncated=False)


def shortened(summary: str) -> str:
    """A summary of at most `SUMMARY_CHARS` characters."""
    return summary if len(summary) <= SUMMARY_CHARS else summary[: SUMMARY_CHARS - 1] + "…"


class _Reader:
    """Reads the texts of one observation: without invisible characters, recalled memories and private parts."""

    def __init__(self, type: EpisodeType) -> None:
        self._type = type
        self.marked = False
        """whether its author wants nothing of it kept"""
        self.cut = False
        """whether something was nested too deep, or there was too much of it"""
        self.secrets = 0
        self.reason = ""
        self._parts = 0

    def text(self, text: str) -> str:
        text = clean(text)[0].replace("\0", "")
        self.marked = self.marked or is_marked(text)
        if self._type == "conversation.user" or self._type == "conversation.assistant":
            kept = said(text, "user" if self._type == "conversation.user" else "assistant")
            self.reason = self.reason or kept.reason
            return kept.text
        return without_private(without_own_block(text)).strip()

    def value(self, value: Json, depth: int = 0) -> Json:
        """A value of JSON with each of its texts read as `text` does; what is too deep or too much is left out."""
        self._parts += 1
        if depth > MAX_DEPTH or self._parts > MAX_PARTS:
            self.cut = True
            return None
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name))[:256]: self.value(one, depth + 1) for name, one in self._some(value.items())}
        if isinstance(value, list | tuple):
            return [self.value(one, depth + 1) for one in self._some(value)]
        if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
            return str(value)
        return value if isinstance(value, bool | int | float) or value is None else str(value)

    def _some(self, items: Any) -> Iterator[Any]:
        for item in items:
            if self._parts > MAX_PARTS:
                self.cut = True
                return
            yield item

    def redacted(self, text: str) -> str:
        masked, found = redact(text)
        self.secrets += sum(found.values())
        return masked


def _bounded(value: Json, max_bytes: int, reader: _Reader) -> tuple[str | None, bool]:
    """A value as redacted JSON of at most so many bytes, and whether it was cut: what is left is then a text."""
    if value is None or value == "" or value == {} or value == []:
        return None, False
    if isinstance(value, str):
        text = reader.redacted(value[: max_bytes * 2])
        return _fitting_text(text, max_bytes, cut=len(value) > max_bytes * 2)
    written = orjson.dumps(value).decode()
    masked = reader.redacted(written[: max_bytes * 4])
    whole = len(masked.encode()) <= max_bytes and len(written) <= max_bytes * 4 and _is_json(masked)
    return (masked, False) if whole else _fitting_text(masked, max_bytes, cut=True)


def _fitting_text(text: str, max_bytes: int, *, cut: bool) -> tuple[str, bool]:
    """A text as JSON of at most so many bytes, and whether it was cut."""
    kept = text
    while (over := len(written := orjson.dumps(kept)) - max_bytes) > 0:
        kept, cut = kept[: len(kept) - max(1, over // 4)], True
    return written.decode(), cut


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


# What a search reads -------------------------------------------------------------------------------------------------


def searched_text(summary: str, tool: str | None, payload: str | None) -> str:
    """The text of an observation that a search reads: its tool, its summary, and the texts of its payload."""
    said_twice = flat_text(payload) if payload is not None else ""
    rest = "" if said_twice.startswith(summary.removesuffix("…")) and summary else summary
    return "\n".join(filter(None, (tool, rest, said_twice)))[:SEARCHED_CHARS]


def flat_text(payload: str) -> str:
    """The texts, numbers and names of a payload in JSON, one a line."""
    return "\n".join(_texts(orjson.loads(payload)))


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            inside = [*_texts(one)]
            yield f"{name}: {inside[0]}" if len(inside) == 1 else str(name)
            yield from inside[1:] if len(inside) == 1 else inside
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif value is not None:
        yield str(value)


# Lines ---------------------------------------------------------------------------------------------------------------


def line_of(observation: Observation) -> bytes:
    """The observation as a line of JSON, without its line end."""
    scope = observation.scope
    named = {
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "session_id": scope.session_id,
        "project": scope.project,
    }
    fields: dict[str, Json] = {
        "schema": SCHEMA,
        "id": observation.event_id,
        "type": observation.type,
        "lane": observation.lane,
        "ts": observation.ts.isoformat(),
        "scope": {name: value for name, value in named.items() if value is not None} | {"audience": scope.audience},
        "tool": observation.tool,
        "summary": observation.summary,
        "payload": None if observation.payload is None else orjson.Fragment(observation.payload),
        "refs": None if observation.refs is None else orjson.Fragment(observation.refs),
        "origin": observation.origin,
        "source": observation.source,
        "kind": observation.raw_kind,
        "truncated": observation.truncated,
        "redacted": observation.redacted,
        "importance": observation.importance,
        "by_hand": None if observation.by_hand is None else orjson.Fragment(observation.by_hand),
    }
    return orjson.dumps({name: value for name, value in fields.items() if value is not None})
