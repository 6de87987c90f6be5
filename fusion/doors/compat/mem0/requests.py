"""The requests of mem0's clients: whose memories they mean, and the messages that they add.

Owners stand next to the other fields, or in ``filters``; both are read. A filter that cannot be applied is refused,
because an answer without it would say more than was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fusion.doors.schemas.base import since
from fusion.errors import BadInput

Body = Mapping[str, Any]

OWNERS = ("user_id", "agent_id", "run_id")
"""the dimensions by which mem0 separates memories, under our names"""
ANY = "*"
"""the value of an owner that stands for every one"""
ORIGINS = {"user": "owner", "assistant": "agent", "tool": "tool"}
"""who wrote a message, by its role; the message of any other role comes from an agent"""
MAX_BATCH = 1000
"""memories of a batch, as at mem0's service"""
USEFUL = "POSITIVE"
VERDICTS = (USEFUL, "NEGATIVE", "VERY_NEGATIVE")
"""what feedback says of a memory; both negative ones say that it was not useful"""
NOT_KEPT = "system"
"""the role whose messages are instructions and no memories"""
ONLY_EQUAL = (
    "Memories are filtered by user_id, agent_id, run_id and metadata, each equal to one value, alone or in a list "
    "under AND; '*' stands for every user"
)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which memories are meant: those of these owners, with these values in their metadata.

    ``any_owner`` says that an owner was named as `ANY`, which asks for the memories of all users.
    """

    owners: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    any_owner: bool = False

    def fits(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the metadata of a memory has all values that are asked for."""
        return all(metadata.get(name) == value for name, value in self.metadata.items())


def filter_of(given: Body) -> Filter:
    """The filter of a request. Raises BadInput for one that cannot be applied."""
    owners: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    any_owner = False
    sent = [(name, given[name]) for name in (*OWNERS, "app_id") if given.get(name) is not None]
    for name, value in (*sent, *_conditions(given.get("filters"))):
        if name == "app_id":
            raise BadInput(f"app_id does not separate memories here. {ONLY_EQUAL}")
        if name == "metadata" and isinstance(value, Mapping):
            metadata |= value
        elif isinstance(value, Mapping | list):
            raise BadInput(f"{name}: this filter has no equal here. {ONLY_EQUAL}")
        elif name not in OWNERS:
            metadata[name] = value
        elif not str(value).strip():
            raise BadInput(f"{name} is empty: give a name, or leave it out")
        elif value == ANY:
            any_owner = True
        elif owners.setdefault(name, str(value)) != str(value):
            raise BadInput(f"{name} is given twice, with two values")
    return Filter(owners, metadata, any_owner)


def _conditions(filters: object) -> Iterator[tuple[str, Any]]:
    """The conditions of ``filters`` that must all hold. Raises BadInput for alternatives and what is no filter."""
    if filters is None:
        return
    if not isinstance(filters, Mapping):
        raise BadInput("filters must be an object")
    for name, value in filters.items():
        if name in ("OR", "NOT"):
            raise BadInput(f"{name} is no filter here. {ONLY_EQUAL}")
        if name != "AND":
            yield str(name), value
            continue
        if not isinstance(value, list):
            raise BadInput("AND must have a list of filters")
        for one in value:
            if isinstance(one, Mapping) and "AND" in one:
                raise BadInput("AND has its filters in one list, and no AND in it")
            yield from _conditions(one)


def owner_of(kind: str) -> str:
    """The dimension of an entity's type: user, agent or run. Raises BadInput."""
    if f"{kind}_id" not in OWNERS:
        raise BadInput(f"{kind}: an entity here is a user, an agent or a run; app_id does not separate memories")
    return f"{kind}_id"


def changes_of(given: Body) -> dict[str, Any]:
    """What a request changes of one memory. Raises BadInput for what cannot be changed, and if it changes nothing."""
    if refused := sorted({"metadata", "timestamp"} & {name for name, value in given.items() if value is not None}):
        raise BadInput(f"{', '.join(refused)} cannot be changed here; delete the memory and add it again")
    new_text = optional_text(given, "text") or optional_text(given, "data")
    changes = {"text": new_text, "valid_to": _date(given, "expiration_date")}
    found = {name: value for name, value in changes.items() if value is not None}
    if not found:
        raise BadInput("Say what to change: text, or expiration_date")
    return found


def batch_of(given: Body) -> list[Body]:
    """The entries of a batch, each with a ``memory_id``. Raises BadInput, also for an id that is there twice."""
    entries = given.get("memories")
    if not isinstance(entries, list) or not entries or len(entries) > MAX_BATCH:
        raise BadInput(f"memories must be a list of 1 to {MAX_BATCH} objects with memory_id")
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise BadInput("memories: each must be an object with memory_id")
    ids = [text(entry, "memory_id") for entry in entries]
    if len(set(ids)) < len(ids):
        raise BadInput("memories: the same memory_id is there twice")
    return entries


def verdict_of(given: Body) -> str:
    """The verdict of feedback on a memory. Raises BadInput, also for one that takes feedback back."""
    verdict = optional_text(given, "feedback")
    if verdict not in VERDICTS:
        raise BadInput(f"feedback must be one of {', '.join(VERDICTS)}; it is not taken back here, but may be changed")
    return verdict


def drafts_of(given: Body) -> list[dict[str, Any]]:
    """The memories to remember from a request to add messages. Raises BadInput.

    With ``infer``, as mem0 has it by default, the messages are turns, from which the gateway's jobs extract facts; with
    ``infer`` false each is a note, as it is.
    """
    whose = filter_of(given)
    if whose.any_owner:
        raise BadInput("A memory has one owner: '*' names none")
    if not whose.owners:
        raise BadInput("Say whose memory it is: user_id, agent_id or run_id")
    metadata = {**_object(given, "metadata"), **whose.metadata}
    shared: dict[str, Any] = {
        **whose.owners,
        "kind": "note" if given.get("infer") is False else "turn",
        **({"metadata": metadata} if metadata else {}),
        **({"at": when} if (when := _time(given, "timestamp")) else {}),
        **({"valid_to": ends} if (ends := optional_text(given, "expiration_date")) else {}),
    }
    return [{**shared, **said} for said in _said(given.get("messages"))]


def _said(messages: object) -> Iterator[dict[str, Any]]:
    """The text, the speaker and the origin of each message. Raises BadInput for what is no message."""
    if not messages or not isinstance(messages, str | Mapping | list):
        raise BadInput("messages: there is nothing to add; give a text, or a list of messages with role and content")
    for message in messages if isinstance(messages, list) else [messages]:
        said = {"role": "user", "content": message} if isinstance(message, str) else message
        if not isinstance(said, Mapping):
            raise BadInput("messages: each is a text, or an object with role and content")
        role = str(said.get("role") or "user")
        if role != NOT_KEPT:
            speaker = str(said.get("name") or role)
            yield {"text": _content(said.get("content")), "speaker": speaker, "origin": ORIGINS.get(role, "agent")}


def _content(content: object) -> str:
    """The text of a message; of one in parts, the texts among them. Raises BadInput for one without text."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    text = "\n".join(one for one in texts if isinstance(one, str) and one.strip())
    if not text:
        raise BadInput("messages: a message has no text; pictures and files are not kept here")
    return text


def text(given: Body, name: str) -> str:
    """A field that must say something. Raises BadInput."""
    found = optional_text(given, name)
    if found is None:
        raise BadInput(f"{name} is missing")
    return found


def optional_text(given: Body, name: str) -> str | None:
    """A text that may be left out. Raises BadInput for what is no text."""
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{name} must be a text")
    return value or None


def integer(given: Body, name: str, default: int, most: int) -> int:
    """A whole number from 1 to ``most``; a larger one is ``most``. Raises BadInput for what is no number."""
    value = given.get(name)
    if value is None:
        return default
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} must be a whole number") from None
    if isinstance(value, bool) or found < 1:
        raise BadInput(f"{name} must be 1 or more")
    return min(found, most)


def share(given: Body, name: str) -> float:
    """A number from 0 to 1; 0 if it is left out. Raises BadInput."""
    value = given.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput(f"{name} must be a number from 0 to 1")
    return float(value)


def _object(given: Body, name: str) -> Mapping[str, Any]:
    value = given.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise BadInput(f"{name} must be an object")
    return value or {}


def _date(given: Body, name: str) -> str | None:
    """A time in ISO 8601 that may be left out. Raises BadInput for what is no time."""
    value = optional_text(given, name)
    try:
        since(value)
    except ValueError as error:
        raise BadInput(f"{name} {error}") from None
    return value


def _time(given: Body, name: str) -> str | None:
    """A time in seconds since 1970, or in ISO 8601, as ISO 8601. Raises BadInput."""
    value = given.get(name)
    if value is None or isinstance(value, str):
        return value
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        raise BadInput(f"{name} must be a time: seconds since 1970, or ISO 8601") from None
