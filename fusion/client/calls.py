"""One function for each request to the server; it returns a `Call`, which a client sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import orjson

from fusion import problem, wire
from fusion.errors import ServerUnreachable
from fusion.lib.item_address import Address
from fusion.trust.token import READER_HEADER

if TYPE_CHECKING:
    from datetime import datetime

T = TypeVar("T")

NDJSON = "application/x-ndjson"
FORGET_S = 300.0
"""seconds to delete 500 memories in every backend and to verify it"""
EXTRACT_S = 300.0
"""seconds to extract statements, which may ask a language model several times"""
VERB_S = 3600.0
"""seconds for a verb, which may read a whole store"""
SETTLE_EXTRA_S = 30.0
"""seconds that a client waits for `settle` longer than the server"""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request that has not been sent yet; T is the type of its reply. ``timeout_s`` overrides the client's."""

    method: str
    path: str
    body: object = None
    parameters: Mapping[str, object] | None = None
    headers: Mapping[str, str] | None = None
    timeout_s: float | None = None
    pieces: Callable[[], Iterable[bytes]] | None = None
    """returns the pieces of a large body instead of ``body``"""

    @classmethod
    def post(cls, path: str, arguments: Mapping[str, Any], **options: Any) -> Call[Any]:
        """A POST of the arguments of a function below; ``options`` are fields of this class."""
        return Call("POST", path, _flat(arguments), **options)

    @classmethod
    def get(cls, path: str, arguments: Mapping[str, Any] | None = None) -> Call[Any]:
        """A GET with the arguments of a function below in its query string."""
        return Call("GET", path, parameters=_flat(arguments or {}))

    def target(self, base: str) -> str:
        """The URL of the request on a server with this base URL."""
        return base.rstrip("/") + self.path + (f"?{urlencode(self.parameters)}" if self.parameters else "")

    def content(self) -> bytes | None:
        """The body as JSON."""
        return None if self.body is None else orjson.dumps(self.body, default=_container, option=orjson.OPT_UTC_Z)

    def all_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        """The request's headers and ``more``; the request's own win."""
        content_type = {} if self.body is None else {"content-type": "application/json"}
        if self.pieces is not None:
            content_type = {"content-type": NDJSON}
        return {**content_type, **more, **(self.headers or {})}


def parse_reply(url: str, status: int, body: bytes) -> Any:
    """The JSON of a reply. Raises the server's error, or ServerUnreachable if another program answered."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if 200 <= status < 300 and isinstance(content, dict):
        return content
    if isinstance(content, dict):
        raise problem.error_of(content, status)
    raise ServerUnreachable(f"{url} answers {status}, but not as a memory-fusion server does.")


def fuse(
    query: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    session_id: str | None = None,
    project: str | None = None,
    audience: str | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    budget_chars: int | None = None,
    budget_tokens: int | None = None,
    max_results: int | None = None,
    max_items: int | None = None,
    format: str | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    explain: bool | None = None,
    fill: bool | None = None,
    gate: bool | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
) -> Call[wire.FuseReply]:
    """Ask all memories; the reply has one block. What is None is left to the server's recipe.

    ``asker`` has the agent_id, session_id and channel of who asks: no filter, unlike those of the scope. Raises
    NobodyNamed for a question without user and agent where several have memories, unless ``all_users``. An empty
    ``user_id`` asks for the memories without a user. ``timezone`` is the asker's (an IANA name), by which the days that
    the question names count, and ``now`` when it is asked. ``where`` has the fields of `schemas.WhereBody`: only
    memories like that are shown.
    """
    return Call.post("/v1/fuse", locals())


def pack(
    query: str,
    *,
    budget_tokens: int | None = None,
    max_items: int | None = None,
    layer: Literal["L0", "L1", "L2"] | None = None,
    max_l2: int | None = None,
    tail_text: str | None = None,
    tail_max_items: int | None = None,
    tail_budget_tokens: int | None = None,
    graph: Literal["off", "auto", "on"] | None = None,
    graph_soft_ms: int | None = None,
    graph_hard_ms: int | None = None,
    trace: bool | None = None,
    lanes: Sequence[str] | None = None,
    include_archived: bool | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.PackReply]:
    """Ask all memories; the reply is a context pack of 1,200 tokens and 12 items at most, unless they are given.

    ``tail_text`` has the last turns of the conversation, one a line; they have a place in the pack first. ``trace``
    asks for the reason of each candidate. ``lanes`` adds what the session did lately (hot) and episodes (cold). The
    other parameters are those of `fuse`.
    """
    return Call.post("/v1/pack", locals())


def index(
    query: str,
    *,
    limit: int | None = None,
    budget_tokens: int | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.IndexReply]:
    """Ask all memories; the reply lists the hits, one line each, with the tokens of each and of the next step."""
    return Call.post("/v1/index", locals())


def timeline(
    refs: Sequence[str],
    *,
    before: int | None = None,
    after: int | None = None,
    budget_tokens: int | None = None,
    **scope: str | None,
) -> Call[wire.TimelineReply]:
    """What stands around memories, one line each: in their document or session, else in time."""
    return Call.post("/v1/timeline", locals())


def records(refs: Sequence[str], *, budget_tokens: int | None = None, **scope: str | None) -> Call[wire.RecordsReply]:
    """Memories in full, within a budget of tokens; the reply says what did not fit."""
    return Call.post("/v1/records", locals())


def why(ref: str, *, limit: int = 20, **scope: str | None) -> Call[wire.Why]:
    """Where a memory is from, what was decided on it, and the latest blocks and packs with it, each with the reason."""
    return Call.get(f"/v1/why/{quote(ref, safe='')}", {"limit": limit, **scope})


def compare(
    query: str,
    a: str,
    b: str,
    *,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    budget_chars: int | None = None,
    budget_tokens: int | None = None,
    max_results: int | None = None,
    max_items: int | None = None,
    format: str | None = None,
    timeout_ms: int | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.CompareReply]:
    """Answer a question by two arms. An arm is a recipe, @backends or both: seed003, default@markdown+cortex, -mem0."""
    return Call.post("/v1/compare", locals())


def feedback(
    receipt_id: str, *, useful: Sequence[str] = (), useless: Sequence[str] = (), **scope: str | None
) -> Call[wire.Feedback]:
    """Say which memories of an answer were useful, by ref; replaces earlier feedback on it."""
    return Call.post("/v1/feedback", locals())


def labels(*, limit: int = 100, cursor: str | None = None) -> Call[wire.Labels]:
    """A page of the memories that have feedback, oldest first, each with the signals that ranked it."""
    return Call.get("/v1/feedback", locals())


def search(
    backend: str,
    query: str,
    *,
    where: Mapping[str, Any] | None = None,
    limit: int = 10,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.SearchReply]:
    """The raw hits of one backend."""
    return Call.post("/v1/search", locals())


def remember(
    memories: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    idempotency_key: str | None = None,
    batch: str | None = None,
    reader: str | None = None,
) -> Call[wire.RememberReply]:
    """Keep one memory or up to 100. Acknowledged is kept, also if the server is killed next.

    They reach the backends in the background, usually within 100 ms: a question asked right after this may not find
    them yet. `settle` waits until they are delivered.

    ``batch`` names a run that `undo` can take back. ``reader`` is the key in ``home/reader.key``: without it, a source
    of a kind that only readers of files and sessions name is kept as a claim.
    """
    headers = {"idempotency-key": idempotency_key, "ingest-batch": batch, READER_HEADER: reader}
    return Call("POST", "/v1/memories", memories, headers=_not_none(headers))


def update(
    ref: str,
    text: str | None = None,
    *,
    kind: str | None = None,
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    origin: str | None = None,
    idempotency_key: str | None = None,
    **scope: str | None,
) -> Call[wire.UpdateReply]:
    """Replace a memory by a new version; what is None stays as it is. `undo` with the reply's ``batch`` takes it back.

    Raises AlreadyReplaced for a memory that was replaced since.
    """
    said = {"text": text, "kind": kind, "valid_from": valid_from, "valid_to": valid_to, "origin": origin, **scope}
    headers = _not_none({"idempotency-key": idempotency_key})
    return Call("PATCH", f"/v1/memories/{quote(ref, safe='')}", _not_none(said), headers=headers)


def put_item(
    namespace: Sequence[str],
    key: str,
    value: Mapping[str, Any],
    *,
    audience: str | None = None,
    origin: str | None = None,
    **scope: str | None,
) -> Call[wire.ItemKept]:
    """Put the value of an item: a memory at a key of a namespace, which is a list of labels.

    Acknowledged is kept, and `item` returns it at once. ``scope`` is its owner, in all its dimensions.
    """
    body = {"value": value, "audience": audience, "origin": origin, **scope}
    return Call("PUT", _item(namespace, key), _not_none(body))


def item(namespace: Sequence[str], key: str, **scope: str | None) -> Call[wire.Item]:
    """One item of exactly this owner. Raises NotFound."""
    return Call.get(_item(namespace, key), scope)


def forget_item(namespace: Sequence[str], key: str, **scope: str | None) -> Call[wire.Forgotten]:
    """Forget one item with its earlier values, everywhere. Raises NotFound."""
    return Call("DELETE", _item(namespace, key), parameters=_not_none(scope))


def search_items(
    namespace: Sequence[str] = (),
    *,
    query: str | None = None,
    filter: Mapping[str, Any] | None = None,
    limit: int = 10,
    offset: int = 0,
    **scope: str | None,
) -> Call[wire.Items]:
    """A page of the items of a namespace and of those in it, by a filter, and ranked by a query."""
    return Call.post("/v1/items/search", locals())


def item_namespaces(
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
    **scope: str | None,
) -> Call[wire.ItemNamespaces]:
    """A page of the namespaces in which an owner has items; the label ``*`` of a prefix or suffix is any."""
    return Call.post("/v1/items/namespaces", locals())


def _item(namespace: Sequence[str], key: str) -> str:
    address = Address(tuple(namespace), key)
    return f"/v1/items/{quote(address.path)}"


def undo(
    batch: str | None = None, *, limit: int = 1000, dry_run: bool = False, **scope: str | None
) -> Call[wire.Undone]:
    """Take back what an ingest added, by default the last one. Call again while ``left`` is not 0."""
    return Call.post("/v1/undo", locals(), timeout_s=FORGET_S)


def set_state(
    ref: str,
    *,
    archived: bool | None = None,
    trust: str | None = None,
    lifetime: str | None = None,
    confidence: float | None = None,
    importance: float | str | None = None,
    provenance: str | Mapping[str, str] | None = None,
    priority: str | None = None,
    due: str | None = None,
    for_project: str | None = None,
    tags: Sequence[str] | None = None,
    why: str = "",
    **scope: str | None,
) -> Call[wire.StateReply]:
    """Archive or restore a memory, or change its trust, lifetime and so on; what is None stays."""
    return Call.post("/v1/state", locals())


def trust(ref: str, **scope: str | None) -> Call[wire.TrustReport]:
    """The trust of a memory: where it comes from, each change of it, and its use."""
    return Call.get(f"/v1/trust/{quote(ref, safe='')}", _not_none(scope))


def plans(*, everything: bool = False, limit: int = 20, **scope: str | None) -> Call[wire.Plans]:
    """The plans that are due or overdue, the earliest first; with ``everything`` the others as well."""
    asked = {"everything": "true" if everything else None, "limit": limit, **scope}
    return Call.get("/v1/plans", _not_none(asked))


def decisions(
    *, ref: str | None = None, limit: int = 20, cursor: str | None = None, **scope: str | None
) -> Call[wire.Decisions]:
    """A page of the decisions on memories, or on the memory ``ref``, newest first."""
    return Call.get("/v1/decisions", locals())


def undo_decision(
    decision: str | None = None, *, run: str | None = None, dry_run: bool = False, **scope: str | None
) -> Call[wire.DecisionUndone]:
    """Take one decision back by its id, or all decisions, or changes of files, of the ``run`` of a job."""
    return Call.post("/v1/decisions/undo", locals())


def assert_fact(
    subject: str,
    predicate: str,
    object: str,
    *,
    sources: Sequence[str],
    object_type: str = "literal",
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    supersedes: Sequence[str] = (),
    confidence_tier: str | None = None,
    asserted_by: str = "agent",
    **scope: str | None,
) -> Call[wire.FactWritten]:
    """Assert a fact about a subject; ``sources`` are refs of memories that say so."""
    return Call.post("/v1/facts", locals())


def retract_fact(
    fact: str,
    *,
    how: str = "invalidated",
    at: datetime | str | None = None,
    sources: Sequence[str] = (),
    asserted_by: str = "agent",
    **scope: str | None,
) -> Call[wire.FactWritten]:
    """Say that a fact does not hold any more, or with ``how`` retracted that it never held."""
    return Call.post("/v1/facts/retract", locals())


def current_facts(
    subject: str,
    *,
    predicate: str | None = None,
    at: datetime | str | None = None,
    include_stale: bool = False,
    **scope: str | None,
) -> Call[wire.CurrentFacts]:
    """The facts about a subject that hold now, or held ``at`` a time, and why others do not."""
    return Call.get("/v1/facts/current", {**locals(), "include_stale": "true" if include_stale else None})


def fact_timeline(subject: str, *, predicate: str | None = None, **scope: str | None) -> Call[wire.FactTimeline]:
    """All facts about a subject, those that ended too, oldest first."""
    return Call.get("/v1/facts/timeline", locals())


def lint_facts(**scope: str | None) -> Call[wire.FactLint]:
    """What is wrong with the facts: sources that are gone, contradictions, unknown entities, cycles."""
    return Call.get("/v1/facts/lint", scope)


def fact_pack(
    subject: str,
    *,
    budget_tokens: int = 1200,
    max_items: int = 12,
    include_stale: bool = False,
    **scope: str | None,
) -> Call[wire.FactPackReply]:
    """The current facts about a subject as a context pack."""
    return Call.post("/v1/facts/pack", locals())


def rebuild_facts() -> Call[wire.FactsRebuilt]:
    """Delete the table of facts and derive it again from the memories."""
    return Call.post("/v1/facts/rebuild", {})


def propose(
    proposals: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[wire.ProposeReply]:
    """Propose one memory or several, each with the fields of `schemas.ProposalBody`; nothing is stored until somebody
    approves it."""
    headers = _not_none({"Idempotency-Key": idempotency_key})
    body = proposals if isinstance(proposals, Mapping) else list(proposals)
    return Call("POST", "/v1/store/propose", body, headers=headers)


def proposals(
    *, state: str = "open", limit: int = 20, cursor: str | None = None, **scope: str | None
) -> Call[wire.Proposals]:
    """A page of proposals in a state (``any``: in all), newest first."""
    return Call.get("/v1/proposals", locals())


def proposal(name: str, **scope: str | None) -> Call[wire.Proposal]:
    """One proposal by its name: p12."""
    return Call.get(_proposal(name), scope)


def approve(
    name: str,
    *,
    text: str | None = None,
    kind: str | None = None,
    importance: float | None = None,
    trust: str | None = None,
    why: str = "",
    **scope: str | None,
) -> Call[wire.ProposalDecided]:
    """Store the memory that a proposal asks for, with these changes."""
    changes = {"text": text, "kind": kind, "importance": importance, "trust": trust, "why": why}
    return Call.post(f"{_proposal(name)}/approve", {**changes, **scope})


def reject(name: str, *, why: str = "", **scope: str | None) -> Call[wire.ProposalDecided]:
    """Reject a proposal."""
    return Call.post(f"{_proposal(name)}/reject", {"why": why, **scope})


def extract(
    text: str | None = None,
    *,
    speaker: str | None = None,
    refs: Sequence[str] | None = None,
    document: str | None = None,
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    limit: int | None = None,
    by: str | None = None,
    propose: bool | None = None,
    **scope: str | None,
) -> Call[wire.Extracted]:
    """Candidates for memories in a text, in memories by ref, or in a scope's memories of a document or a time.

    No memory is stored; with ``propose`` the candidates are queued as proposals.
    """
    return Call.post("/v1/store/extract", locals(), timeout_s=EXTRACT_S)


def triage(*, limit: int = 20, **scope: str | None) -> Call[wire.Triage]:
    """What needs a person, the most urgent first, each item with its choices."""
    return Call.get("/v1/triage", locals())


def decide_triage(item: str, choice: str, *, why: str = "", **scope: str | None) -> Call[wire.TriageDecided]:
    """Decide one item of `triage` by one of its choices."""
    return Call.post("/v1/triage", locals())


def _proposal(name: str) -> str:
    return f"/v1/proposals/{quote(name, safe='')}"


def graph_neighbors(
    entity: str, *, depth: int = 1, limit: int = 20, all_users: bool = False, **scope: str | None
) -> Call[wire.GraphNeighbours]:
    """The entities around one, nearest first, each with the path that justifies it."""
    return Call.post("/v1/graph/neighbors", locals())


def graph_impact(
    entity: str, *, depth: int = 1, limit: int = 20, all_users: bool = False, **scope: str | None
) -> Call[wire.GraphNeighbours]:
    """What uses an entity or is blocked by it, directly or over others."""
    return Call.post("/v1/graph/impact", locals())


def graph_path(entity: str, to: str, *, all_users: bool = False, **scope: str | None) -> Call[wire.GraphPath]:
    """The shortest way from one entity to another."""
    return Call.post("/v1/graph/path", locals())


def graph_match(idea: str, *, limit: int = 5, all_users: bool = False, **scope: str | None) -> Call[wire.GraphMatches]:
    """The projects that an idea fits, each with the path that leads to it."""
    return Call.post("/v1/graph/match", locals())


def graph_pages(**scope: str | None) -> Call[wire.GraphPages]:
    """The facts as pages of Markdown by file name."""
    return Call.get("/v1/graph/pages", scope)


def card(subject: str, **scope: str | None) -> Call[wire.SynthesisCard]:
    """The synthesis card of a subject, and whether it is fresh."""
    return Call.get("/v1/cards", locals())


def refresh_card(subject: str, **scope: str | None) -> Call[wire.SynthesisCard]:
    """Compile the synthesis card of a subject from what holds now."""
    return Call.post("/v1/cards/refresh", locals())


def lint_cards(**scope: str | None) -> Call[wire.CardLint]:
    """The synthesis cards that are stale, each with the reasons."""
    return Call.get("/v1/cards/lint", scope)


def batches(*, limit: int = 20, **scope: str | None) -> Call[wire.Batches]:
    """The ingests that can be undone, latest first."""
    return Call.get("/v1/batches", locals())


def memory(ref: str, **scope: str | None) -> Call[wire.StoredMemory]:
    """One memory by its ref."""
    return Call.get(f"/v1/memories/{quote(ref, safe='')}", scope)


def prefix(*, all_users: bool | None = None, **scope: str | None) -> Call[wire.Prefix]:
    """The stable prefix of what an agent or session said: compressed observations, and the last turns word for word.

    ``text`` goes into the prompt before what changes with every turn. Raises NobodyNamed as `fuse`.
    """
    return Call.post("/v1/prefix", locals())


def memories(
    *,
    limit: int = 20,
    cursor: str | None = None,
    document: str | None = None,
    source: str | None = None,
    **scope: str | None,
) -> Call[wire.Memories]:
    """A page of what is remembered, newest first; ``next_cursor`` of one page is ``cursor`` of the next."""
    return Call.get("/v1/memories", locals())


def document(
    path: str,
    *,
    start: int = 1,
    lines: int | None = None,
    summaries: Literal["rules", "model"] | None = None,
    **scope: str | None,
) -> Call[wire.Document]:
    """A page of a document that a hit named, from line or turn ``start``; with ``summaries`` of its sections."""
    asked = {"path": path, "from": start, "lines": lines, "summaries": summaries}
    return Call.get("/v1/documents", {**asked, **scope})


def forget(ref: str, **scope: str | None) -> Call[wire.Forgotten]:
    """Forget one memory everywhere; the reply says what each backend did."""
    return Call("DELETE", f"/v1/memories/{quote(ref, safe='')}", parameters=_not_none(scope))


def forget_many(
    *,
    refs: Sequence[str] | None = None,
    query: str | None = None,
    source: str | None = None,
    document: str | None = None,
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    time: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    dry_run: bool = False,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.ForgetReply]:
    """Forget by refs, or everything that matches all criteria, at most ``limit`` at once; ``dry_run`` only shows it.

    Call again while ``more`` is true.
    """
    return Call.post("/v1/forget", locals(), timeout_s=FORGET_S)


def forgotten(*, limit: int = 20, cursor: str | None = None, **scope: str | None) -> Call[wire.ForgottenPage]:
    """A page of the audit of forgotten memories, newest first: when, and what each backend did."""
    return Call.get("/v1/forgotten", locals())


def sources(
    *, prefix: str | None = None, after: str | None = None, limit: int = 100, **scope: str | None
) -> Call[wire.Sources]:
    """The sources of memories, by name, from the one after ``after``."""
    return Call.get("/v1/sources", locals())


def retire(
    files: Sequence[Mapping[str, Any]], *, dry_run: bool = False, reader: str | None = None, **scope: str | None
) -> Call[wire.Retired]:
    """Retire what came from files and is no longer in them; ``files`` are {source, keep: revisions} of whole files.

    ``reader`` is the key in ``home/reader.key``; only a dry run works without it.
    """
    headers = _not_none({READER_HEADER: reader})
    return Call.post("/v1/retire", {"files": files, "dry_run": dry_run, **scope}, headers=headers)


def memory_search(
    query: str, *, max_results: int = 6, min_score: float = 0.0, **more: Any
) -> Call[wire.ToolSearchReply]:
    """Single memories in the shape of an agent's tool; ``more`` is scope, citations, backends, as_of, timezone,
    where, timeout_ms, all_users."""
    body = {"query": query, "maxResults": max_results, "minScore": min_score, **more}
    return Call.post("/v1/tools/memory_search", body)


def memory_get(path: str, *, start: int = 1, lines: int | None = None, **scope: str | None) -> Call[wire.ToolReadReply]:
    """A page of a document that a result names, or a memory; the text is empty for everything else."""
    return Call.post("/v1/tools/memory_get", {"path": path, "from": start, "lines": lines, **scope})


def memory_append(text: str, **scope: str | None) -> Call[wire.Appended]:
    """Append lines to today's log, without secrets."""
    return Call.post("/v1/tools/memory_append", locals())


def ingest_history(
    messages: Sequence[Mapping[str, Any]],
    session_id: str,
    *,
    channel: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    project: str | None = None,
    audience: str | None = None,
    debounce: bool = True,
) -> Call[wire.HistoryKept]:
    """Keep the whole history of a session, after each of its turns; what is new or changed is taken in later."""
    return Call.post("/ingest", locals())


def session_state(
    session_id: str, *, user_id: str | None = None, agent_id: str | None = None
) -> Call[wire.SessionState]:
    """What is kept of a session: when it was taken in and asked, and what waits for its next question."""
    return Call.get("/v1/session", locals())


def hybrid_search(
    query: str, *, limit: int = 10, all_users: bool = False, **scope: str | None
) -> Call[wire.CortexResults]:
    """The best memories of all backends by words and vectors, with the scores of seed 002's Memory Cortex."""
    return Call.post("/hybrid-search", locals())


def recall(query: str, *, all_users: bool = False, **scope: str | None) -> Call[wire.CortexRecall]:
    """An answer in a few sentences from all memories, each with its refs; by the language model or by rules."""
    return Call.post("/recall", locals())


def daily_logs(
    *, zone: str | None = None, budget_chars: int | None = None, all_users: bool = False, **scope: str | None
) -> Call[wire.DailyLogs]:
    """Today's and yesterday's logs as a block for the start of a session."""
    return Call.post("/v1/tools/daily_logs", locals())


def flush_plan(context_window: int, **session: Any) -> Call[wire.FlushPlan]:
    """Whether a session should save now what it knows, and how. ``session`` has the fields of `schemas.FlushBody`."""
    return Call.post("/v1/flush/plan", {"context_window": context_window, **session})


def do(
    backend: str, verb: str, arguments: Mapping[str, Any] | None = None, **scope: str | None
) -> Call[dict[str, Any]]:
    """Run one of a backend's verbs; the reply is its result. `AsyncClient.stream` also yields its progress.

    A verb may go through a whole store, so the timeout is an hour.
    """
    path = f"/v1/backends/{quote(backend, safe='')}/{quote(verb, safe='')}"
    return Call("POST", path, {**(arguments or {}), **_not_none(scope)}, timeout_s=VERB_S)


def lifecycle(
    *,
    dry_run: bool = False,
    ttl_hours: float | None = None,
    idle_hours: float | None = None,
    delete_expired: bool | None = None,
    archive_unused: bool | None = None,
    **scope: str | None,
) -> Call[wire.LifecycleReport]:
    """Expire, decay, retire and merge memories, and resolve conflicts; None: as the settings say.

    `AsyncClient.stream` also yields its progress.
    """
    more: dict[str, Any] = {"ttl_hours": ttl_hours, "idle_hours": idle_hours, "delete_expired": delete_expired}
    more |= {"archive_unused": archive_unused, **scope}
    return Call("POST", "/v1/lifecycle", {"dry_run": dry_run, **_not_none(more)}, timeout_s=VERB_S)


def grade(*, dry_run: bool = False, scorer: str | None = None, **scope: str | None) -> Call[wire.GradeReport]:
    """Give memories without an importance one by rules. The scorer "off" only counts; None: as the settings say."""
    return Call("POST", "/v1/grade", {"dry_run": dry_run, **_not_none({"scorer": scorer, **scope})}, timeout_s=VERB_S)


def jobs() -> Call[wire.Jobs]:
    """The jobs of the home: their schedules, their next and last runs, and how far those under way are."""
    return Call.get("/v1/jobs")


def run_job(name: str, *, dry_run: bool = False, due: bool = False) -> Call[wire.JobRan]:
    """Run a job now, with ``due`` only if its schedule says so. `AsyncClient.stream` also yields its progress.

    Raises JobRunning while a run of it is under way. The run goes on if the client hangs up.
    """
    return Call("POST", f"{_job(name)}/run", {"dry_run": dry_run, "due": due}, timeout_s=VERB_S)


def pause_job(name: str) -> Call[wire.Job]:
    """Stop running a job by its schedule. It still runs on request."""
    return Call("POST", f"{_job(name)}/pause", {})


def resume_job(name: str) -> Call[wire.Job]:
    """Run a paused job by its schedule again."""
    return Call("POST", f"{_job(name)}/resume", {})


def job_log(job: str | None = None, *, limit: int = 20, cursor: str | None = None) -> Call[wire.JobLog]:
    """A page of the runs of one job or of all, the latest first, each with its receipt."""
    return Call.get("/v1/jobs/log", locals())


def _job(name: str) -> str:
    return f"/v1/jobs/{quote(name, safe='')}"


def export(*, tenant: str | None = None, user_id: str | None = None) -> Call[bytes]:
    """Memories with what was forgotten as hashes: the pieces of a file for `import_export`.

    The token of a home's owner exports every tenant. A client's method returns an iterator.
    """
    arguments = _not_none({"tenant": tenant, "user_id": user_id})
    return Call("GET", "/v1/export", parameters=arguments, timeout_s=VERB_S)


def import_export(
    pieces: Callable[[], Iterable[bytes]],
    *,
    dry_run: bool = False,
    trust: Literal["auto", "keep", "unknown", "untrusted"] = "auto",
    partial: bool = False,
    refs: bool = False,
    tenant: str | None = None,
) -> Call[wire.ImportReport]:
    """Import an export, or only count what that would do; ``pieces`` returns an iterator over the bytes of the file.

    Imported twice it is imported once: call again after an interruption. ``trust="keep"`` is for exports of your own.
    """
    chosen = {"dry_run": dry_run, "trust": trust, "partial": partial, "refs": refs, "tenant": tenant}
    parameters = {name: str(value).lower() if isinstance(value, bool) else value for name, value in chosen.items()}
    return Call("POST", "/v1/import", parameters=_not_none(parameters), timeout_s=VERB_S, pieces=pieces)


def backends() -> Call[wire.Backends]:
    """The state of every backend, and what it holds."""
    return Call.get("/v1/backends")


def status(**scope: str | None) -> Call[wire.Status]:
    """The state of the home: backends, breakers, backlog, sizes, requests in flight.

    With a scope, ``memories`` counts those of that scope alone.
    """
    return Call.get("/v1/status", locals())


def receipt(receipt_id: str, *, user_id: str | None = None) -> Call[dict[str, Any]]:
    """Why each candidate of one answer is in the block or not. Raises NotFound if the answer was another user's."""
    return Call.get(f"/v1/receipts/{quote(receipt_id, safe='')}", {"user_id": user_id})


def ready() -> Call[dict[str, Any]]:
    """Readiness of the server. Raises Overloaded while it starts or stops."""
    return Call.get("/readyz")


def health() -> Call[wire.Health]:
    """Liveness of the server, with its process id."""
    return Call.get("/healthz")


def settle(wait_s: float = 30.0) -> Call[wire.Settled]:
    """Wait until everything remembered is delivered and has its vectors; ``settled`` says whether it was in time."""
    return Call("POST", "/v1/settle", {"timeout_s": wait_s}, timeout_s=wait_s + SETTLE_EXTRA_S)


def append_episodes(
    episodes: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[wire.EpisodesKept]:
    """Keep one observation or up to 100 as evidence, which no answer of `fuse` has. Acknowledged is kept."""
    headers = {"idempotency-key": idempotency_key}
    return Call("POST", "/v1/episodes/append", episodes, headers=_not_none(headers))


def query_episodes(
    *,
    types: Sequence[str] = (),
    lanes: Sequence[str] = (),
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    include_payload: bool = False,
    limit: int = 50,
    newest_first: bool = False,
    cursor: str | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.EpisodePage]:
    """A page of episodes in the order of their times. ``scope`` names a user, an agent, a session or a project."""
    return Call.post("/v1/episodes/query", locals())


def episode(ref: str, **scope: str | None) -> Call[wire.Episode]:
    """One episode by its ref, as ep:7, with its payload."""
    return Call.get(f"/v1/episodes/{quote(ref, safe='')}", scope)


def grade_episode(ref: str, importance: float | str, *, why: str = "", **scope: str | None) -> Call[wire.Episode]:
    """Set the importance of one episode by hand: 0 to 1, or must_remember, nice_to_have, ignore or unknown."""
    body = {"importance": importance, "why": why, **scope}
    return Call("PATCH", f"/v1/episodes/{quote(ref, safe='')}", _not_none(body))


def working_set(*, limit: int = 12, **scope: str | None) -> Call[wire.WorkingSet]:
    """The latest episodes of the session that ``scope`` names, oldest first."""
    return Call.get("/v1/episodes/working-set", locals())


def search_episodes(
    query: str,
    *,
    mode: str = "lexical",
    lanes: Sequence[str] = ("episodes",),
    types: Sequence[str] = (),
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    include_payload: bool = False,
    limit: int = 20,
    trace: bool = False,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.EpisodeSearchReply]:
    """The episodes that fit a query, best first: by words (lexical), by meaning (vector), or both (hybrid)."""
    return Call.post("/v1/episodes/search", locals())


def embed_episodes(
    *, lanes: Sequence[str] = (), limit: int = 200, all_users: bool | None = None, **scope: str | None
) -> Call[wire.EpisodesEmbedded]:
    """Make the vectors of up to ``limit`` episodes that have none, for searches by meaning."""
    return Call.post("/v1/episodes/embed", locals(), timeout_s=VERB_S)


def redact_episodes(
    *, refs: Sequence[str] = (), dry_run: bool = False, **scope: str | None
) -> Call[wire.EpisodesRedacted]:
    """Replace all that was said in episodes, by ref or of a session; they stay in their places."""
    return Call.post("/v1/episodes/redact", locals())


def _flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not None; those in ``scope`` are among them."""
    return _not_none({**arguments, **arguments.get("scope", {}), "scope": None})


def _container(value: Any) -> dict[str, Any] | list[Any]:
    """A mapping or sequence as the type that orjson encodes."""
    return dict(value) if isinstance(value, Mapping) else list(value)


def _not_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
