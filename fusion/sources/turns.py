"""The turns of agents' sessions: which conversation a transcript is, and what a person or an assistant said in it.

An entry of Claude Code or OpenClaw becomes a memory of kind ``turn``, or nothing: what programs, tools and a model's
thoughts wrote is left out. A session is a document, and its turns are counted from 0 in the order of the file, whether
they are kept or not, so that a turn keeps its place as the file grows. Source, place and the entry's own id are the
natural key: the same turn from a file, its archive, a database or a hook is one memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from fusion.contract import Moment, Origin, Place, Scope
from fusion.ingest.intake import NewMemory, not_one_line
from fusion.lib.envelope import ANSWER_TO_MARKED, MARKED, UNATTENDED, Speaker, said
from fusion.lib.moment import moment
from fusion.lib.observation import NewObservation
from fusion.sources.tool_events import ToolEvents

Agent = Literal["claude-code", "openclaw"]
Observe = Callable[[NewObservation], None]

MAX_ID_CHARS = 256
GROUP_KEY = r":(?:group|channel|room)(?::|$)"
"""in the keys of groups' sessions; that of OpenClaw's plugin is the same"""


def is_group_key(session_key: str) -> bool:
    """Whether a session was held in a group, by its key as OpenClaw writes it: ``agent:main:telegram:group:7``."""
    return re.search(GROUP_KEY, session_key) is not None


@dataclass(frozen=True, slots=True)
class Session:
    """The conversation of a transcript: the agent's program, the session's id, and the owner of its turns."""

    agent: Agent
    id: str
    scope: Scope
    observe: Observe | None = None
    """called with each call and each result of a tool, in order; None: they are left out"""

    @property
    def source(self) -> str:
        return ":".join(filter(None, [self.agent, self._agent_id, self.id]))

    @property
    def document(self) -> str:
        return "/".join(filter(None, [self.agent, self._agent_id, self.id]))

    @property
    def _agent_id(self) -> str | None:
        return self.scope.agent_id if self.agent == "openclaw" else None


class Transcript:
    """Makes memories of a session's entries, which are given one by one in their order.

    ``turns`` counts those so far; ``unattended`` says that no person wrote the last prompt, or that its author wants
    nothing of it kept: then its answer is not kept either. Pass both to continue where an earlier reading stopped.
    """

    def __init__(self, session: Session, *, turns: int = 0, unattended: bool = False) -> None:
        self.session = session
        self.turns = turns
        self.unattended = unattended
        self._why_no_answer = UNATTENDED
        self._tools = ToolEvents(session.scope, session.source)

    def take(self, entry: Mapping[str, Any]) -> NewMemory | str | None:
        """The memory of an entry, or why its turn is not kept; None for an entry that is not a turn, or is empty."""
        if self.session.observe is not None:
            self._observe(entry, self.session.observe)
        turn = _claude_code(entry) if self.session.agent == "claude-code" else _openclaw(entry)
        if turn is None:
            return None
        position = self.turns
        self.turns += 1
        found = said(turn.text.replace("\0", ""), turn.speaker)
        if turn.speaker == "user":
            self.unattended = found.whole_exchange or turn.unattended
            self._why_no_answer = ANSWER_TO_MARKED if found.reason == MARKED else UNATTENDED
            if self.unattended:
                return found.reason or UNATTENDED
        if self.unattended:
            return self._why_no_answer
        if not found.text:
            return found.reason or None
        return NewMemory(
            text=found.text,
            scope=self.session.scope,
            kind="turn",
            speaker=turn.speaker,
            at=turn.at,
            place=Place(self.session.document, position, position),
            source=self.session.source,
            revision=turn.id,
            origin=self._origin(turn.speaker),
        )

    def _observe(self, entry: Mapping[str, Any], observe: Observe) -> None:
        """Hand on the calls and results of tools in an entry; those that nobody asked for are left out."""
        if self.unattended or any(map(entry.get, _HIDDEN)):
            return
        at = _when(entry.get("timestamp"))
        for event in self._tools.take(entry, at.utc if at is not None else None):
            observe(event)

    def _origin(self, speaker: Speaker) -> Origin:
        if speaker == "assistant":
            return "agent"
        return "owner" if self.session.scope.audience == "private" else "import"  # anybody may speak in a group


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as its transcript has it, before text that programs added is removed."""

    id: str
    speaker: Speaker
    text: str
    at: Moment | None
    unattended: bool = False
    name: str = ""
    """the participant's name, as OpenAI's messages may have one; "" if it is not given"""


_HIDDEN = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def _claude_code(entry: Mapping[str, Any]) -> Turn | None:
    message = entry.get("message")
    speaker = entry.get("type")
    if not isinstance(message, dict) or speaker not in ("user", "assistant") or any(map(entry.get, _HIDDEN)):
        return None
    if message.get("model") == "<synthetic>":  # "No response requested.", limits, errors
        return None
    text = _text(message.get("content"))
    return Turn(valid_id(entry.get("uuid")), speaker, text, _when(entry.get("timestamp"))) if text.strip() else None


_PROGRAM_KINDS = ("inter_session", "internal_system")
_DELIVERY_MODELS = ("delivery-mirror", "gateway-injected")
"""the model names under which OpenClaw writes delivered messages a second time"""


def _openclaw(entry: Mapping[str, Any]) -> Turn | None:
    return message_turn(entry.get("message"), entry) if entry.get("type") == "message" else None


def message_turn(message: object, entry: Mapping[str, Any]) -> Turn | None:
    """The turn of a message to or from a model; its entry has the id and the time. None for any other message."""
    if not isinstance(message, dict):
        return None
    speaker = message.get("role")
    if (
        speaker not in ("user", "assistant")
        or message.get("model") in _DELIVERY_MODELS
        or message.get("stopReason") == "error"
    ):
        return None
    text = _text(message.get("content"))
    if not text.strip():
        return None
    at = _when(entry.get("timestamp")) or _when(message.get("timestamp"))
    provenance = message.get("provenance")
    from_program = isinstance(provenance, dict) and provenance.get("kind") in _PROGRAM_KINDS
    return Turn(valid_id(entry.get("id")), speaker, text, at, from_program, valid_id(message.get("name")).strip())


def _text(content: object) -> str:
    """The text blocks of a message, without calls and results of tools and without a model's thoughts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def valid_id(value: object) -> str:
    """An id that can be cited: one line of at most `MAX_ID_CHARS` characters; empty for anything else."""
    return value if isinstance(value, str) and len(value) <= MAX_ID_CHARS and not not_one_line(value) else ""


_MILLISECONDS = 1e11
"""the least number that is a time in milliseconds: in seconds it would be in the year 5138"""


def _when(value: object) -> Moment | None:
    """A time of a transcript, in ISO 8601 or milliseconds or seconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            return moment(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value >= _MILLISECONDS else value
            return Moment(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None
