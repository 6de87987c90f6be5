"""The observations and proposals of an export, checked as if their caller sent them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import orjson
from pydantic import ValidationError

from fusion.errors import BadInput
from fusion.ingest import proposals
from fusion.ingest.intake import not_one_line
from fusion.ingest.observe import check
from fusion.journal.export_format import ObservationLine, ProposalLine
from fusion.journal.observations import Graded, Restored
from fusion.journal.rows import words_key
from fusion.lib.observation import NewObservation, Observation, observed
from fusion.lib.redact import redact

MAX_REDACTED = 1_000_000
"""masked secrets that are counted at most"""
_BY_HAND = frozenset({"importance", "summary", "payload", "refs"})
"""the fields of an observation that a person can set"""


def restored(line: ObservationLine, tenant: str, now: datetime, *, owns: bool) -> Restored:
    """The observation of a line as this home may store it. Raises BadInput.

    What a person set, and its grade, are those of an own export alone.
    """
    new = NewObservation(
        line.episode,
        line.scope(tenant),
        line.summary,
        line.payload,
        line.refs,
        line.ts,
        line.event_id,
        line.tool,
        line.lane,
        line.source,
        line.kind,
    )
    check(new, line.ref)
    for name, value in (*new.scope.named().items(), ("project", new.scope.project), ("event_id", new.event_id)):
        if value and (wrong := "has a NUL character" if "\0" in value else not_one_line(value)):
            raise BadInput(f"{line.ref}.{name} {wrong}")
    made = observed(new, now, lambda: line.event_id)
    if made.observation is None:
        raise BadInput(f"{line.ref}: {made.reason}")
    kept = made.observation
    by_hand = {name: value for name, value in (line.by_hand or {}).items() if name in _BY_HAND} if owns else {}
    kept = replace(
        kept,
        truncated=kept.truncated or line.truncated,
        redacted=min(kept.redacted + line.redacted, MAX_REDACTED),
        importance=_score(line) if owns else None,
        by_hand=_masked(by_hand) if by_hand else None,
    )
    importance = _masked(line.importance) if owns and line.importance is not None else None
    return Restored(Graded(kept, "", importance), line.seq, min(line.recorded_at, now))


def key_of(line: ObservationLine, tenant: str) -> bytes:
    """What makes the observation of a line the same as another one."""
    return Observation(line.event_id, line.episode, line.lane, line.ts, line.scope(tenant), line.summary).key


def words_of(line: ProposalLine, tenant: str) -> str:
    """The key of the words of a proposal. Raises BadInput for a draft that is no memory's."""
    try:
        memory = proposals.memory_from(line.draft)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"the draft of the proposal p{line.id} is no memory: {where}: {first['msg'].lower()}") from None
    _dumped(line.draft)
    if redact(memory.text)[1]:
        raise BadInput(f"the proposal p{line.id} has a secret in its text")
    if memory.scope != line.scope(tenant):
        raise BadInput(f"the draft of the proposal p{line.id} is another owner's")
    return words_key(memory.text, memory.speaker, memory.scope)


def _score(line: ObservationLine) -> float | None:
    """The score of a grade that came with an observation. Raises BadInput for one that is none, also by hand."""
    for graded in (line.importance, (line.by_hand or {}).get("importance")):
        found = (graded or {}).get("score")
        number = isinstance(found, int | float) and not isinstance(found, bool)
        if found is not None and not (number and 0 <= found <= 1):
            raise BadInput(f"{line.ref}: the score of an importance is a number from 0 to 1")
    found = (line.importance or {}).get("score")
    return None if found is None else float(found)


def _masked(fields: dict[str, object]) -> str:
    """Fields as JSON without secrets."""
    written = _dumped(fields)
    masked, found = redact(written)
    if not found:
        return written
    try:
        orjson.loads(masked)
    except orjson.JSONDecodeError:
        raise BadInput("a field that a person set has a secret in it") from None
    return masked


def _dumped(fields: dict[str, object]) -> str:
    """Fields as JSON. Raises BadInput for what is nested too deep, and for integers that JSON is not written with."""
    try:
        return orjson.dumps(fields).decode()
    except orjson.JSONEncodeError as error:
        raise BadInput(f"a field cannot be stored: {error}") from None
