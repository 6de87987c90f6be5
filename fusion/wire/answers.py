"""The replies to questions: blocks, comparisons, receipts and feedback, raw hits, and problem details."""

from __future__ import annotations

from typing import (
    Any,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


class Coverage(TypedDict):
    """How many of the backends that were asked have answered; ``ratio`` leaves out skipped ones."""

    total: int
    ok: int
    failed: int
    skipped: int
    ratio: float
    vectors_pending: NotRequired[int]
    """memories without vectors yet, which are found by their words only"""


class BackendAnswer(TypedDict):
    """The answer of one backend to one request, without its hits."""

    name: str
    status: str
    """as `fusion.recall.gather.Status` lists them: ok, empty, skipped, timeout, …"""
    took_ms: float
    count: int
    error_code: str | None
    detail: NotRequired[str]
    dropped: NotRequired[dict[str, int]]
    refused: NotRequired[dict[str, int]]


class Moment(TypedDict):
    utc: str
    precision: str
    zone: str | None


class Place(TypedDict):
    document: str
    start: int
    end: int
    unit: str


class Member(TypedDict):
    """One memory inside an excerpt."""

    ref: str
    text: str
    speaker: str | None
    at: str | None
    kind: str
    trust: str
    backends: list[str]
    score: float
    place: Place | None
    path: list[str]
    passages: list[list[int]]
    """of a long memory the parts in ``text``: begin and end, in characters of the whole text"""
    probability: float | None
    """that it helps to answer the question; None where the scores are not calibrated (``rerank.uncalibrated``)"""


class Excerpt(TypedDict):
    """One excerpt of a document; ``ref`` and ``score`` are its best member's."""

    ref: str
    document: str | None
    at: str | None
    score: float
    members: list[Member]


class Dispute(TypedDict):
    """Two memories of a block that share most words and cannot both be true.

    ``kind`` says in what they differ: word, name, number, negation or order; or version or value, if two stores have
    another version of one memory, or another value of one attribute: then ``newer`` takes the place of the other.
    ``newer`` is the ref of the later one, null where that is not known, and ``at`` its day; ``sources`` say where each
    of ``refs`` comes from.
    """

    refs: list[str]
    kind: str
    newer: str | None
    at: str | None
    sources: list[str]


class RecipeName(TypedDict):
    name: str
    hash: str


class _Answer(TypedDict):
    """What an answer to a question and the answer of one arm have in common."""

    block: str
    memories: list[Excerpt]
    coverage: Coverage
    degraded: bool
    backends: list[BackendAnswer]
    rerank: dict[str, Any]
    recipe: RecipeName
    receipt_id: str
    took_ms: float
    abstained: str | None


class FuseReply(_Answer):
    """The answer to a question; ``block`` goes into the prompt as it is."""

    query_truncated: bool
    explain: dict[str, Any] | None
    notes: list[str]
    """what is degraded for the whole home, each with its fix"""
    disputed: list[Dispute]
    prepared: bool
    """whether it was prepared after the session's last turn"""


class SourceHitOfCandidate(TypedDict):
    backend: str
    ref: str
    native_id: str
    rank: int
    reason: str
    score: NotRequired[float | None]
    """not in receipts of earlier versions"""


class AskedCandidate(TypedDict):
    """A candidate of an answer as its receipt has it, and the beginning of its text.

    ``text`` is null where it is not known any more, and for what was left out as private.
    """

    ref: str
    decision: str
    reason: str
    local: float
    probability: float | None
    sort: str
    judge: float | None
    rrf: float
    neighbour_of: str | None
    rivals: list[list[Any]]
    source_hits: list[SourceHitOfCandidate]
    signals: dict[str, float]
    text: str | None


class Asked(TypedDict):
    """An answer with its candidates; ``recording`` is the id to replay it by, null if it was not recorded."""

    answer: FuseReply
    candidates: list[AskedCandidate]
    recording: str | None


class RecipeValues(TypedDict):
    """A recipe of the home: its values by part and name, as in its file."""

    name: str
    hash: str
    fields: dict[str, dict[str, Any]]


class Recipes(TypedDict):
    """The recipes of the home; ``ranges`` has the JSON schema of each value by part and name: range, choices, default.

    ``signals`` are the names that weights, penalties and factors may have, and ``default`` is the home's own recipe.
    """

    default: str
    recipes: list[RecipeValues]
    ranges: dict[str, dict[str, dict[str, Any]]]
    signals: list[str]


class ComparedArm(_Answer):
    """The answer of one arm of a comparison; ``arm`` is the text of the request.

    ``waited_ms`` is the time of the slowest of its backends, ``took_ms`` that of its ranking and packing alone.
    """

    arm: str
    characters: int
    waited_ms: float
    tuned_on: bool
    """whether the arm's recipe was tuned on this very question: then its answer is no evidence for it"""


class ReceiptEntry(TypedDict):
    """The entry of one memory in an arm's receipt. Without a ``ref`` it was no candidate; ``decision`` is an enum, and
    ``reason`` explains it in words.

    ``found_by`` has the rank in each backend's own answer; a memory that joined as a neighbour has none.
    """

    ref: str | None
    decision: str
    reason: str
    local: float | None
    probability: float | None
    judge: float | None
    rrf: float | None
    neighbour_of: str | None
    signals: dict[str, float]
    found_by: dict[str, int]


class ComparedMemory(TypedDict):
    ref: str
    a: ReceiptEntry
    b: ReceiptEntry


class CompareReply(TypedDict):
    """Two answers from one gather; refs are those of a's block, and b's for memories only in b's block."""

    a: ComparedArm
    b: ComparedArm
    only_a: list[str]
    only_b: list[str]
    both: list[str]
    why: list[ComparedMemory]
    took_ms: float
    query_truncated: bool
    notes: list[str]


class Feedback(TypedDict):
    """The feedback on an answer as it is now."""

    receipt_id: str
    useful: list[str]
    useless: list[str]


class Label(TypedDict):
    """The feedback on one memory of one answer, with the answer's recipe and the memory's values at ranking time.

    ``position`` counts from 1 in the order of the answer, including left out memories; ``found_by`` has the rank in
    each backend's own answer. Never a text, and no query.
    """

    receipt_id: str
    ref: str
    useful: bool
    at: str
    scope: dict[str, str]
    recipe: RecipeName
    position: int
    decision: str
    local: float
    judge: float | None
    rrf: float
    signals: dict[str, float]
    found_by: dict[str, int]
    sort: NotRequired[str | None]
    """turn, long_turn or note: what a calibration is fitted for; this and the next three are not in earlier labels"""
    best: NotRequired[list[float]]
    """the best and the second best score of the answer"""
    encoders: NotRequired[list[str]]
    """the identities of the embedder and of the second encoder, empty where there was none"""
    weights_hash: NotRequired[str]
    """of the recipe's weights (`fusion.calibration.weights_hash`)"""


class Labels(TypedDict):
    """A page of labels, oldest first; ``next_cursor`` asks for the next one, and is null on the last."""

    labels: list[Label]
    next_cursor: str | None


class Triple(TypedDict):
    """A fact as a graph stores it."""

    subject: str
    predicate: str
    object: str


class Hit(TypedDict):
    """One raw hit of a backend; the fields are those of `fusion.contract.Hit`, with ``linked`` for its graph score."""

    ref: str
    native_id: str
    text: str
    scope: dict[str, str | None]
    event_id: str | None
    score: float | None
    kind: str
    raw_kind: str | None
    speaker: str | None
    at: Moment | None
    recorded_at: str | None
    valid_from: str | None
    valid_to: str | None
    place: Place | None
    trust: str
    origin: str
    derived_from: list[str]
    path: list[str]
    linked: float | None
    fact: Triple | None
    """the triple as which the backend stores it"""
    version_of: str | None
    """the id of the event of which the backend has another text, that was changed there"""
    stated_by: str | None
    """the source of the place: a file that was read ("file:…"), or only this backend ("backend:…")"""


class SearchReply(TypedDict):
    """The raw hits of one backend."""

    backend: BackendAnswer
    hits: list[Hit]


class Problem(TypedDict):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    retry_after_s: NotRequired[float]
    coverage: NotRequired[Coverage]
    backends: NotRequired[list[BackendAnswer]]
    current: NotRequired[str]
    """the ref of the newest version of a memory that was replaced"""
    users: NotRequired[list[str]]
    """of a question that names nobody: the first ten users that have memories, by name"""
    agents: NotRequired[list[str]]
    """the same, where several agents of one user have memories"""
