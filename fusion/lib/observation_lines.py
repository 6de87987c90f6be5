"""Lines of JSON with observations: our own, and those that openclaw-mem and its plugin write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, cast

import orjson

from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.lib.clean import clean
from fusion.lib.importance import parse_importance
from fusion.lib.moment import moment
from fusion.lib.observation import LANES, SCHEMA, TYPES, EpisodeType, Lane, NewObservation, Observation

MAX_ID_CHARS = 256
BLANK = orjson.dumps({"schema": SCHEMA, "blank": True})
"""a line whose observation was forgotten or is past its time; the lines after it keep their numbers"""

_OF_KIND: Mapping[str, EpisodeType] = {
    "decision": "ops.decision",
    "alert": "ops.alert",
    "error": "ops.alert",
    "user": "conversation.user",
    "assistant": "conversation.assistant",
    "tool": "tool.result",
    "tool_result": "tool.result",
    "tool_call": "tool.call",
}
"""the type of a record that has only the kind or the role of another system"""


class BadRecord(ValueError):
    """A line that is no observation; ``str`` says why."""


def own_observation(line: bytes, tenant: str) -> Observation | None:
    """The observation of one of our own lines, as it was stored; None for a blank one. Raises BadRecord."""
    record = _record(line)
    if record.get("blank") is True or record.get("lost") is True:
        return None
    if record.get("schema") != SCHEMA:
        raise BadRecord(f"its schema is {str(record.get('schema'))[:64]!r}, and this version reads {SCHEMA}")
    try:
        named = record["scope"]
        scope = Scope(tenant, **{name: named.get(name) for name in _IDS}, audience=named["audience"])
        return Observation(
            event_id=record["id"],
            type=_one_of(TYPES, record["type"]),
            lane=_one_of(LANES, record["lane"]),
            ts=datetime.fromisoformat(record["ts"]),
            scope=scope,
            summary=record["summary"],
            tool=record.get("tool"),
            payload=_dumped(record.get("payload")),
            refs=_dumped(record.get("refs")),
            source=record.get("source"),
            raw_kind=record.get("kind"),
            truncated=record["truncated"],
            redacted=record["redacted"],
            importance=record.get("importance"),
            by_hand=_dumped(_set_by_hand(record)),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadRecord(f"a field is missing or wrong: {error}") from None


_IDS = ("user_id", "agent_id", "run_id", "session_id", "project")


def foreign_observation(line: bytes, owner: Scope, file: str) -> NewObservation:
    """What a line of openclaw-mem states: an observation of its ledger, or an event of its episodes.

    Whose it is, ``owner`` says; a record names its session, its scope (our project), and its agent where the owner
    names none. A record without an id gets that of its words, so that reading it again changes nothing. Raises
    BadRecord.
    """
    record = _record(line)
    detail = _mapping(record, "detail", "detail_json")
    tool = _word(record, "tool_name", "tool")
    scope = replace(
        owner,
        agent_id=owner.agent_id or _word(record, "agent_id", "agent"),
        session_id=owner.session_id or _word(record, "session_id", "session"),
        project=owner.project or _word(record, "scope", "project"),
    )
    digest = blake2b(line, digest_size=16).hexdigest()
    payload = next((record[name] for name in ("payload", "payload_json") if record.get(name) is not None), None)
    return NewObservation(
        _type_of(record, tool),
        scope,
        summary=_text(record, "summary", "text", "content"),
        payload=_parsed(payload) if payload is not None else ({k: v for k, v in detail.items() if k != "importance"}),
        refs=_mapping(record, "refs", "refs_json") or None,
        ts=_time(record),
        event_id=_word(record, "event_id", "observationId", "id") or f"{file}:{digest}",
        tool=tool,
        lane=cast("Lane", record["lane"]) if record.get("lane") in LANES else None,
        source=f"file:{file}",
        raw_kind=_word(record, "kind"),
        importance=_importance(detail.get("importance", record.get("importance"))),
    )


def _record(line: bytes) -> Mapping[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadRecord(f"it is no JSON: {error.msg}") from None
    if not isinstance(record, dict):
        raise BadRecord("it is JSON, but no object")
    return record


def _set_by_hand(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The fields that a person set. Raises ValueError if they are no object, or their importance is none."""
    given = record.get("by_hand")
    if given is None:
        return None
    if not isinstance(given, dict) or not isinstance(given.get("importance", {}), dict):
        raise ValueError("by_hand is no object of fields")
    return given


def _one_of(values: Any, value: object) -> Any:
    if value not in values:
        raise ValueError(f"{str(value)[:64]!r} is none of {', '.join(values)}")
    return value


def _dumped(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _type_of(record: Mapping[str, Any], tool: str | None) -> EpisodeType:
    """The type of a record; what says neither that nor a known kind is something that was observed."""
    named = [word for name in ("type", "kind", "role") if (word := _word(record, name))]
    for word in named:
        if word in TYPES:
            return word
    return next((_OF_KIND[w.casefold()] for w in named if w.casefold() in _OF_KIND), None) or (
        "tool.result" if tool else "ops.observation"
    )


def _word(record: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that can be an id: one line of visible characters. Raises BadRecord for another one."""
    for name in names:
        value = record.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > MAX_ID_CHARS or "\n" in value or "\t" in value or clean(value)[1]:
            raise BadRecord(f"{name} is no id: it needs to be one line of at most {MAX_ID_CHARS} characters")
        return value
    return None


def _text(record: Mapping[str, Any], *names: str) -> str:
    value = next((record[name] for name in names if record.get(name)), "")
    if not isinstance(value, str):
        raise BadRecord(f"{names[0]} is no text")
    return value


def _parsed(value: object) -> object:
    """A value that may be JSON in a text, as ``payload_json`` of openclaw-mem is."""
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _mapping(record: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    value = _parsed(next((record[name] for name in names if record.get(name)), None))
    return value if isinstance(value, dict) else {}


_MILLISECONDS = 1e11
"""the least number that is a time in milliseconds: in seconds it would be in the year 5138"""


def _time(record: Mapping[str, Any]) -> datetime | None:
    value = next((record[name] for name in ("ts", "ts_ms", "timestamp", "created_at") if record.get(name)), None)
    try:
        if isinstance(value, str):
            return moment(value).utc
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value >= _MILLISECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        raise BadRecord("ts is no time; write ISO 8601, or seconds or milliseconds since 1970") from None
    if value is not None:
        raise BadRecord("ts is no time; write ISO 8601, or seconds or milliseconds since 1970")
    return None


def _importance(value: object) -> float | None:
    """A grade that came with a record; one that cannot be read is no reason to drop the record."""
    try:
        return parse_importance(value)
    except BadInput:
        return None
