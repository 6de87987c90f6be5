"""Read a caller's input for the cortex's verbs and routes, and find the memories that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from adapters.cortex.openclaw_fields import kind_of
from fusion.contract import Event, Query, Scope
from fusion.errors import BadInput, NotFound
from fusion.extension import Call
from fusion.lib.stated_fields import to_stated

if TYPE_CHECKING:
    from adapters.cortex.cortex import Cortex
    from adapters.cortex.port import Memory
    from adapters.cortex.rank import Ranked

MAX_PAGE = 500
"""maximum memories in one reply, and candidates of one recall"""

MAX_MESSAGE_CHARS = 4_000
"""characters of a message that are searched for; the rest is cut off"""

RECALL_DEADLINE_S = 10.0
"""seconds of a recall or search that a user waits for; the gateway's own queries carry their own deadline"""

MIN_ID_CHARS = 8
"""minimum characters of the beginning or end of an id that may replace it: as many as the CLI prints"""

MAX_IDS_SHOWN = 5
"""maximum ids in the error for an ambiguous one"""

Kinds = Mapping[str, type | tuple[type, ...]]

_EXPECTED: Mapping[object, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "an object",
    (int, float): "a number",
}


# Memories that a caller names


async def own_memory(cortex: Cortex, call: Call, id: str) -> Memory:
    """The caller's memory with this id, see `resolve_id`.

    Raises the same ``NotFound`` for another user's memory, a forgotten one, one that never existed, and a quarantined
    one but for an operator.
    """
    memory = await stored_memory(cortex, call, await resolve_id(cortex, call, id))
    if not await readable(call, [memory]):
        raise NotFound(f"there is no memory {id!r} here")
    return memory


async def resolve_id(cortex: Cortex, call: Call, given: str) -> str:
    """The full id for an id, for at least eight of its first or last characters, or for the ref in a block.

    Returns ``given`` itself where it matches nothing of the caller's. Raises ``BadInput`` where it matches several.
    """
    if await cortex.graph.get([given]):
        return given
    if len(given) >= MIN_ID_CHARS:
        found = await readable(call, await cortex.graph.named(given, call.scope, MAX_PAGE))
        if len(found) > 1:
            several = ", ".join(memory.id for memory in found[:MAX_IDS_SHOWN])
            more = ", …" if len(found) > MAX_IDS_SHOWN else ""
            raise BadInput(f"id: {given!r} matches {len(found)} memories, give more characters: {several}{more}")
        if found:
            return found[0].id
    try:
        ids = await call.gateway.ids(given)
    except NotFound:
        return given
    return ids[0] if ids else given


async def stored_memory(cortex: Cortex, call: Call, id: str) -> Memory:
    """The caller's memory with exactly this id, even if it was forgotten. Raises ``NotFound``."""
    memory = (await cortex.graph.get([id])).get(id)
    if memory is None or not call.scope.admits(memory.event.scope):
        raise NotFound(f"there is no memory {id!r} here")
    return memory


async def readable(call: Call, memories: Sequence[Memory]) -> list[Memory]:
    """Those that the caller may read, as `ScopedGateway.withheld` says.

    A store that was down, or filled by an import, may have forgotten ones.
    """
    gone = await call.gateway.withheld({memory.id: memory.event.trust for memory in memories})
    return [memory for memory in memories if memory.id not in gone]


async def recall_unforgotten(cortex: Cortex, call: Call, query: Query, *, history: bool) -> list[Ranked]:
    found = await cortex.recall(query, history=history)
    if history or query.as_of:
        left = {memory.id for memory in await readable(call, [one.memory for one in found])}
        return [one for one in found if one.memory.id in left]
    gone = await call.gateway.hidden([one.memory.id for one in found])
    return [one for one in found if one.memory.id not in gone]


def newest_version(named: Memory, versions: Sequence[Memory]) -> Memory:
    """The last version of ``named``. A memory that contradicts it supersedes it too, but is not a version of it."""
    newest, line = named, {named.id}
    for one in versions:
        before = one.event.supersedes
        if before in line and one.state.contradicts != before:
            newest = one
            line.add(one.id)
    return newest


# Input


def query_of(message: str, call: Call, project: str | None, *, as_of: str | None = None) -> Query:
    """The query of a recall or search. Raises ``BadInput``."""
    if not message.strip():
        raise BadInput("message: say what to recall")
    scope = replace(call.scope, project=project or call.scope.project)
    text = message[:MAX_MESSAGE_CHARS]
    until = f"{as_of}T23:59:59.999999" if as_of and len(as_of) == len("2026-01-31") else as_of
    return Query(text, scope, call.now, MAX_PAGE, RECALL_DEADLINE_S, parse_time("as_of", until))


def draft_of(sent: Mapping[str, object], call: Call) -> Event:
    """The event to remember from the JSON of an openclaw-cortex client. Raises ``BadInput``, which names the field."""
    numbers = dict.fromkeys(("confidence", "ttl_seconds"), (int, float))
    strings = dict.fromkeys(("content", "type", "scope", "project", "visibility"), str)
    check_fields(sent, {**strings, **numbers, "tags": list, "metadata": dict})
    values: Any = sent
    text, kind = required_content(values.get("content") or ""), kind_of(values.get("type"))
    tags = texts("tags", values.get("tags") or ())
    more = {name: values.get(name) for name in ("ttl_seconds", "metadata")}
    stated = to_stated(values.get("scope"), values.get("confidence"), tags, lifetime_field="scope", **more)
    visibility = values.get("visibility") or "shared"
    if visibility not in ("private", "shared", "sensitive"):
        raise BadInput("visibility: give private, shared or sensitive")
    # There is no narrower audience than private, so it is that of what is sensitive, too.
    scope = Scope(audience="group" if visibility == "shared" else "private", project=values.get("project"))
    return Event("", text, call.now, scope=scope, kind=kind, stated=stated)


def draft_of_line(number: int, line: str, call: Call) -> Event:
    """`draft_of` for one line of JSON. Raises ``BadInput``, which names the line."""
    try:
        sent = json.loads(line)
    except ValueError as error:
        raise BadInput(f"line {number} is not JSON: {error}") from None
    if not isinstance(sent, dict):
        raise BadInput(f"line {number} is not a JSON object")
    try:
        return draft_of(sent, call)
    except BadInput as error:
        raise BadInput(f"line {number}: {error}") from None


def check_fields(sent: Mapping[str, object], kinds: Kinds) -> None:
    """Raises ``BadInput`` for a field that is not in ``kinds`` or has another type."""
    for name, value in sent.items():
        if name not in kinds:
            raise BadInput(f"there is no field {name!r}, only: {', '.join(kinds)}")
        wanted = kinds[name]
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool)):
            raise BadInput(f"{name}: give {_EXPECTED[kinds[name]]}")


def texts(name: str, values: Sequence[object]) -> tuple[str, ...]:
    """``values`` as texts. Raises ``BadInput`` if one is not a text."""
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise BadInput(f"{name}: give a list of texts")
    return found


def required_content(text: str) -> str:
    if not text.strip():
        raise BadInput("content: say what to remember")
    return text


def parse_time(name: str, text: str | None) -> datetime | None:
    """An ISO 8601 date or time; without a zone it is UTC. Raises ``BadInput``."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f'{name}: write ISO 8601, "2026-01-31" or "2026-01-31T09:30:00Z"') from None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def store_result(kept: Any) -> Mapping[str, object]:
    """The reply for one stored draft, in openclaw-cortex's fields."""
    ((event_id, status),) = kept
    return {"id": event_id, "stored": status in ("stored", "superseded", "duplicate"), "status": status}
