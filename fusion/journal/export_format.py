"""The format of an export: JSON Lines with a header, the tables of each tenant, and a footer with a checksum.

The types below are the specification of format 2, which has more types of lines than format 1. `ExportFile` reads an
export that may come from anywhere: it checks the size, the type and the order of every line, and the checksum, before
anything is used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any, BinaryIO, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.types import AwareDatetime

from fusion.contract import Audience, Event, Kind, Origin, Precision, Role, Scope, State, Trust, Unit
from fusion.errors import BadInput
from fusion.journal.rows import RETIRED
from fusion.lib.ids import EPISODE, parse_short_ref
from fusion.lib.observation import EpisodeType, Lane
from fusion.store.rows import EVENT_NAMES, event_of, microseconds

FORMAT, VERSION = "memory-fusion.export", 2
MAX_LINE_BYTES = 4_000_000
"""a text of 100,000 characters, each escaped, with everything else of its line"""
MAX_EXPORTED_CHARS = 400_000
"""of one text: masked secrets may be longer than what they replace"""
SHOWN_FAULTS = 10
"""broken lines that a report names"""

Text = Annotated[str, Field(max_length=MAX_EXPORTED_CHARS)]
Id = Annotated[str, Field(max_length=4096)]
Tenant = Annotated[str, Field(min_length=1, max_length=4096)]
Ref = Annotated[str, Field(pattern=r"^m[0-9a-hjkmnp-tv-z]{1,13}$")]
Number = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
Position = Annotated[int, Field(ge=-(1 << 53), le=1 << 53)]


STATE_FIELDS = frozenset(field.name for field in fields(State))
_STATE: TypeAdapter[State] = TypeAdapter(State)


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JournalPart(_Line):
    """What the header says of one tenant's journal: its id, its watermark, and how many lines of each type follow."""

    tenant: Tenant
    journal: Id
    commits: Number
    events: Number
    seq: Number
    counts: dict[str, Number]


class Header(_Line):
    """The first line. With ``user_id`` the export has this user's memories alone."""

    type: Literal["header"]
    format: Literal["memory-fusion.export"]
    version: Literal[1, 2]
    program: Id
    created_at: AwareDatetime
    user_id: Id | None = None
    journals: Annotated[list[JournalPart], Field(max_length=100_000)]


class TenantLine(_Line):
    """The lines that follow are of this tenant."""

    type: Literal["tenant"]
    tenant: Tenant


class TombstoneLine(_Line):
    """The hash of something that was forgotten, and when, if that is known."""

    type: Literal["tombstone"]
    key: Id
    event_id: Id
    words: Id | None = None
    at: AwareDatetime | None = None


class HiddenLine(_Line):
    """The hash of a statement that was forgotten in a file."""

    type: Literal["hidden"]
    document: Id
    line: Id
    words: Id


class ForgottenObservationLine(_Line):
    """The hash of an observation that was forgotten."""

    type: Literal["forgotten_observation"]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _Owned(_Line):
    """Whose something is."""

    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    session_id: Id | None = None
    project: Id | None = None
    audience: Audience

    def scope(self, tenant: str) -> Scope:
        """The scope, in this tenant."""
        named = {name: getattr(self, name) for name in ("agent_id", "run_id", "session_id", "project", "audience")}
        return Scope(tenant, self.user_id or None, **named)


class ObservationLine(_Owned):
    """One observation. ``by_hand`` has the fields that a person set."""

    type: Literal["observation"]
    ref: Annotated[str, Field(pattern=r"^ep:[1-9][0-9]{0,17}$")]
    event_id: Annotated[str, Field(min_length=1, max_length=512)]
    episode: EpisodeType
    lane: Lane
    ts: AwareDatetime
    recorded_at: AwareDatetime
    summary: Annotated[str, Field(min_length=1, max_length=4096)]
    tool: Id | None = None
    payload: Any = None
    refs: Annotated[dict[str, Any], Field(max_length=64)] | None = None
    source: Id | None = None
    kind: Id | None = None
    truncated: bool = False
    redacted: Number = 0
    importance: Annotated[dict[str, Any], Field(max_length=64)] | None = None
    by_hand: Annotated[dict[str, Any], Field(max_length=64)] | None = None

    @property
    def seq(self) -> int:
        return int(self.ref.removeprefix(EPISODE))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not isinstance((self.by_hand or {}).get("importance", {}), dict):
            raise ValueError("by_hand.importance is an object")
        return self


class EventLine(_Line):
    """One memory with everything that the journal has of it; a forgotten one has no text.

    ``natural`` is only there if the natural key is not the one that follows from the other fields: empty for an earlier
    version that gave its key up, and that of the whole piece for one without its forgotten statements.
    """

    type: Literal["event"]
    ref: Ref
    event_id: Annotated[str, Field(min_length=1, max_length=512)]
    text: Text = ""
    recorded_at: AwareDatetime
    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    session_id: Id | None = None
    project: Id | None = None
    audience: Audience
    kind: Kind
    raw_kind: Id | None = None
    speaker: Id | None = None
    at: AwareDatetime | None = None
    at_precision: Precision | None = None
    at_zone: Id | None = None
    at_until: AwareDatetime | None = None
    document: Id | None = None
    place_start: Position | None = None
    place_end: Position | None = None
    place_unit: Unit | None = None
    source: Id | None = None
    revision: Id = ""
    trust: Trust
    origin: Origin
    valid_from: AwareDatetime | None = None
    valid_to: AwareDatetime | None = None
    supersedes: Id | None = None
    derived_from: Annotated[list[Id], Field(max_length=10_000)] = []
    stated: Annotated[list[tuple[Id, Text]], Field(max_length=1000)] = []
    file: Id | None = None
    natural: Annotated[str, Field(max_length=40_000)] | None = None
    superseded_by: Id | None = None
    forgotten: bool = False
    forgotten_at: AwareDatetime | None = None
    said: Number = 1
    said_at: AwareDatetime | None = None
    batch: Id | None = None
    state: State | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.at is None) != (self.at_precision is None):
            raise ValueError("at and at_precision go together")
        if self.at_until is not None and (self.at is None or self.at_until < self.at):
            raise ValueError("at_until needs an at, and is not before it")
        place = (self.document, self.place_start, self.place_end, self.place_unit)
        if any(value is None for value in place) != all(value is None for value in place):
            raise ValueError("document, place_start, place_end and place_unit go together")
        if bool(self.text) == self.forgotten:
            raise ValueError("a memory has a text, and a forgotten one has none")
        if self.superseded_by in (self.event_id, ""):
            raise ValueError("superseded_by names another memory")
        return self

    @property
    def seq(self) -> int:
        seq = parse_short_ref(self.ref)
        assert seq is not None  # noqa: S101 — the pattern of a ref
        return seq

    @property
    def current(self) -> bool:
        """Whether it was neither forgotten, nor superseded, nor retired."""
        return not self.forgotten and self.superseded_by is None

    @property
    def retired(self) -> bool:
        return self.superseded_by == RETIRED

    def event(self, tenant: str) -> Event:
        """The event, in this tenant."""
        values: dict[str, Any] = {name: getattr(self, name, None) for name in EVENT_NAMES}
        values |= {name: stored_time(values[name]) for name in EVENT_TIMES}
        values |= {"tenant": tenant, "derived_from": json.dumps(self.derived_from)}
        return replace(event_of(values), stated=tuple(self.stated), file=self.file)


EVENT_TIMES = ("recorded_at", "at", "at_until", "valid_from", "valid_to")
"""the columns of an event that are times, which an export writes as ISO 8601"""


class ExtractionLine(_Line):
    """What a language model extracted from a memory."""

    type: Literal["extraction"]
    event_id: Id
    extraction: Annotated[dict[str, Any], Field(max_length=64)]


class DistilLine(_Line):
    """A turn that the language model still has to read."""

    type: Literal["distil"]
    event_id: Id


class ExternalStateLine(_Line):
    """The state of an item of a backend alone."""

    type: Literal["external_state"]
    ref: Id
    state: State


class ChangeLine(_Line):
    """What a decision changed of one memory: the fields before and after."""

    item: Id
    before: dict[str, Any]
    after: dict[str, Any]

    @field_validator("before", "after")
    @classmethod
    def _check(cls, change: dict[str, Any]) -> dict[str, Any]:
        _STATE.validate_python({**change, "tags": tuple(change.get("tags", ()))}, strict=False)
        if unknown := change.keys() - STATE_FIELDS:
            raise ValueError(f"a state has no {min(unknown)}")
        return change


class ProposalLine(_Owned):
    """A proposal; ``id`` is a number of this export alone. ``event_id`` is the memory that an approval stored."""

    type: Literal["proposal"]
    id: Number
    at: AwareDatetime
    state: Literal["open", "approved", "rejected", "expired"]
    draft: Annotated[dict[str, Any], Field(max_length=64)]
    reason: Text
    proposed_by: Id
    role: Role
    source: Id | None = None
    evidence: Annotated[list[Id], Field(max_length=1000)] = []
    decided_at: AwareDatetime | None = None
    decided_by: Id | None = None
    why: Text = ""
    event_id: Id | None = None


class OfProposal(_Line):
    """What a decision made of a proposal: its states before and after, and the memory that was stored for it."""

    id: Number
    before: Literal["open", "approved", "rejected", "expired"]
    after: Literal["open", "approved", "rejected", "expired"]
    event_id: Id | None = None


class DecisionLine(_Line):
    """An entry of the log of states; ``id``, ``undoes`` and ``undone_by`` are numbers of this export alone."""

    type: Literal["decision"]
    id: Number
    at: AwareDatetime
    user_id: Id | None = None
    who: Id
    why: Text
    run: Id | None = None
    undoes: Number | None = None
    undone_by: Number | None = None
    changes: Annotated[list[ChangeLine], Field(max_length=100_000)]
    proposal: OfProposal | None = None


class AuditLine(_Line):
    """An entry of the audit of deletions."""

    type: Literal["audit"]
    event_id: Id
    ref: Id
    at: AwareDatetime
    user_id: Id | None = None
    by: Id


class LabelLine(_Line):
    """A vote on a memory of an answer; ``event_id`` is missing for a memory of a backend alone."""

    type: Literal["label"]
    receipt_id: Id
    ref: Id
    event_id: Id | None = None
    useful: bool
    at: AwareDatetime
    scope: Annotated[dict[str, Any], Field(max_length=64)]
    body: Annotated[dict[str, Any], Field(max_length=64)]


class UseLine(_Line):
    """How often a memory was in a block and was retrieved, and when last."""

    type: Literal["use"]
    item: Id
    included: Number = 0
    last_included_at: AwareDatetime | None = None
    retrieved: Number = 0
    last_retrieved_at: AwareDatetime | None = None


class InclusionLine(_Line):
    """One block or pack that a memory was in."""

    type: Literal["inclusion"]
    item: Id
    receipt: Id
    at: AwareDatetime
    kind: Literal["block", "pack"]
    user_id: Id | None = None
    place: Number
    score: Annotated[float, Field(allow_inf_nan=False)]
    probability: Annotated[float, Field(allow_inf_nan=False)] | None = None
    found_by: Annotated[list[Id], Field(max_length=1000)]


class Footer(_Line):
    """The last line: how many lines are before it, and the SHA-256 of them with their line ends."""

    type: Literal["footer"]
    lines: Number
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


Row = (
    TombstoneLine
    | HiddenLine
    | ForgottenObservationLine
    | ObservationLine
    | EventLine
    | ExtractionLine
    | DistilLine
    | ExternalStateLine
    | ProposalLine
    | DecisionLine
    | AuditLine
    | LabelLine
    | UseLine
    | InclusionLine
)
ORDER = tuple(get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(Row))
"""the types of rows, in the order in which each tenant has them: tombstones first, so that they apply to the rest"""
_LINE: TypeAdapter[Row | TenantLine | Footer] = TypeAdapter(
    Annotated[Row | TenantLine | Footer, Field(discriminator="type")]
)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A row of an export with its tenant and the number of its line, from 1."""

    number: int
    tenant: str
    row: Row


@dataclass(slots=True)
class Checked:
    """What the check of an export found. ``missing`` says what a partial one lacks, ``broken`` which lines."""

    header: Header
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    """by tenant and type, the number of valid lines"""
    sha256: str = ""
    missing: list[str] = field(default_factory=list)
    broken: int = 0
    faults: list[str] = field(default_factory=list)
    """the first of the broken lines, each with its number"""

    @property
    def rows(self) -> int:
        return sum(counts.total() for counts in self.counts.values())


class ExportFile:
    """An export in a seekable file. ``partial`` accepts one that is cut off or has broken lines, which are left out."""

    def __init__(self, file: BinaryIO, *, partial: bool = False) -> None:
        self._file = file
        self._partial = partial

    def check(self) -> Checked:
        """Read the whole export. Raises BadInput, which names the line and the fix, if it is not one or is damaged."""
        lines = self._lines()
        first = next(lines, b"")
        checked = Checked(header_of(first))
        digest, footer, last = hashlib.sha256(first), None, 1
        for number, line, found in self._parsed(lines):
            last = number
            if footer is not None:
                raise BadInput(f"line {number}: nothing may follow the footer: two exports are two files")
            if isinstance(found, Footer):
                footer = found
                continue
            digest.update(line)
            if isinstance(found, str):
                checked.broken += 1
                if not self._partial:
                    raise BadInput(
                        f"line {number}: {found}. Nothing was imported. Get the export again, or import the other "
                        "lines of this one: --partial"
                    )
                if len(checked.faults) < SHOWN_FAULTS:
                    checked.faults.append(f"line {number}: {found}")
            elif isinstance(found, Numbered):
                checked.counts.setdefault(found.tenant, Counter())[found.row.type] += 1
        checked.sha256 = digest.hexdigest()
        self._compare(checked, footer, last)
        return checked

    def rows(self) -> Iterator[Numbered]:
        """The valid rows, in their order; `check` first. Several iterations may be under way at once."""
        lines = self._lines()
        next(lines, b"")
        for _, _, found in self._parsed(lines):
            if isinstance(found, Numbered):
                yield found

    def _lines(self) -> Iterator[bytes]:
        """The lines of the file; one that is too long in pieces."""
        offset = 0
        while True:
            if self._file.tell() != offset:  # another iteration reads the same file
                self._file.seek(offset)
            if not (line := self._file.readline(MAX_LINE_BYTES + 1)):
                return
            offset += len(line)
            yield line

    def _parsed(self, lines: Iterator[bytes]) -> Iterator[tuple[int, bytes, Numbered | TenantLine | Footer | str]]:
        """Every line after the header: its number, its bytes, and what it is, or in words why it is broken."""
        tenant, position = None, 0
        for number, line in enumerate(lines, start=2):
            found: Row | TenantLine | Footer | str = _parsed(line)
            if isinstance(found, TenantLine):
                tenant, position = found.tenant, 0
                yield number, line, found
            elif isinstance(found, Footer | str):
                yield number, line, found
            elif tenant is None:
                yield number, line, "it is of no tenant: a line of type tenant comes first"
            elif (at := ORDER.index(found.type)) < position:
                yield number, line, f"it is out of order: {found.type} comes before {ORDER[position]}"
            else:
                position = at
                yield number, line, Numbered(number, tenant, found)
            rest = line
            while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
                rest = next(lines, b"")

    def _compare(self, checked: Checked, footer: Footer | None, lines: int) -> None:
        """Compare an export with its header and footer. Raises BadInput for a difference, unless it may be partial."""
        for part in checked.header.journals:
            here = checked.counts.get(part.tenant, Counter())
            checked.missing += [
                f"{count - here[kind]} of {count} {kind} lines of {part.tenant}"
                for kind, count in part.counts.items()
                if here[kind] < count
            ]
        announced = {part.tenant for part in checked.header.journals}
        if unknown := checked.counts.keys() - announced:
            raise BadInput(f"its header does not name the tenant {min(unknown)!r} of its lines: it was changed")
        if footer is None:
            checked.missing.insert(0, f"the footer: it ends after line {lines}")
        elif footer.sha256 != checked.sha256:
            checked.missing.insert(0, "a matching checksum: lines were changed or removed after it was written")
        if checked.missing and not self._partial:
            raise BadInput(
                f"the export is not complete, it lacks {'; '.join(checked.missing)}. Nothing was imported. Get the "
                "export again, or import what is here: --partial"
            )


def _parsed(line: bytes) -> Row | TenantLine | Footer | str:
    if len(line) > MAX_LINE_BYTES:
        return f"it has more than {MAX_LINE_BYTES:,} bytes"
    if not line.endswith(b"\n"):
        return "it is cut off"
    try:
        return _LINE.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where + ': ' if where else ''}{first['msg'].lower()}"


def header_of(line: bytes) -> Header:
    """The header in the first line of an export. Raises BadInput, which says what another file is and what reads it."""
    found = _json_of(line)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadInput(f"this is not an export of memory-fusion. {_described(line, found)}")
    version, program = found.get("version"), str(found.get("program", "?"))[:64]
    if not isinstance(version, int) or version < 1:
        raise BadInput("line 1: the header names no version of the format: get the export again")
    if version > VERSION:
        raise BadInput(
            f"the export has format {version}, and this version reads format {VERSION}: import it with memory-fusion "
            f"{program}, which wrote it, or a later one"
        )
    try:
        return Header.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"line 1: {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None


def _json_of(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


_MAGIC: Mapping[bytes, str] = {
    b"SQLite format 3\0": "It is a database: name the folder of its home instead, fusion import FOLDER.",
    b"\x1f\x8b": "It is compressed by gzip: unpack it first, gunzip FILE.",
    b"\x28\xb5\x2f\xfd": "It is compressed by Zstandard: unpack it first, zstd -d FILE.",
    b"PK\x03\x04": "It is a zip archive: unpack it first.",
}
_INGEST = "Bring memories of other systems in as text: fusion ingest FILE reads notes, conversations and JSON Lines."


def _described(line: bytes, found: Any) -> str:
    """What a file that is not an export may be by its first line, and the command that reads it."""
    for magic, advice in _MAGIC.items():
        if line.startswith(magic):
            return advice
    if not line:
        return "It is empty: get the export again."
    if isinstance(found, dict):
        if isinstance(found.get("event"), dict) and "event_id" in found["event"]:
            return "It is an export of one store: fusion cortex import FILE reads it."
        if {"results", "memories"} & found.keys() or "memory" in found:
            return f"It looks like an export of Mem0. {_INGEST}"
        if {"scope", "content"} <= found.keys() or {"visibility", "content"} <= found.keys():
            return f"It looks like an export of openclaw-cortex. {_INGEST}"
        if found.get("type") in (*ORDER, "tenant", "footer"):
            return "Its first line, the header, is missing: get the export again."
    return _INGEST


def stored_time(time: datetime | None) -> int | None:
    """A time as the journal stores it."""
    return None if time is None else microseconds(time)
