"""Stand-ins for what is behind the doors, and a server in a thread."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import orjson

from fusion.client import stop_server
from fusion.contract import EVERYTHING, Asker, Hit, Scope, Where
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import Gate
from fusion.doors.http.openapi import examples
from fusion.doors.http.protocol import LimitedProtocol
from fusion.doors.http.serve import Server, listen, url_of
from fusion.errors import BadInput, HomeGone, NotFound
from fusion.extension import Call, Route, Verb
from fusion.gateway.audit import AuditRequest
from fusion.gateway.decisions import StateRequest, StatesRequest
from fusion.gateway.episodes import EpisodeQuery, EpisodeSearch
from fusion.gateway.extracting import ExtractRequest
from fusion.gateway.graph import GraphRequest, MatchRequest, PathRequest
from fusion.gateway.graph_overview import OverviewRequest
from fusion.gateway.items import ItemSearch, NamespaceSearch
from fusion.gateway.measures import Measures
from fusion.gateway.packing import ContextPack, PackReceipt, PackRequest
from fusion.gateway.progressive import IndexRequest, RecordsRequest, TimelineRequest
from fusion.gateway.readings import Readings
from fusion.gateway.receipts import ReceiptsRequest
from fusion.gateway.replaying import ReplayRequest
from fusion.gateway.temporal_facts import EndRequest, FactPackRequest, FactRequest
from fusion.gateway.transfer import Export, ImportOptions, ImportReport
from fusion.home import HomeLock, ServerRecord, owner, write_record
from fusion.ingest.forget import ForgetReceipt, ForgetRequest, ForgetResult, Preview
from fusion.ingest.intake import Acknowledged
from fusion.ingest.items import NewItem
from fusion.ingest.observe import KeptObservation
from fusion.ingest.proposals import Edit, Proposed
from fusion.ingest.update import Change
from fusion.journal import Journal
from fusion.journal.export_format import ExportFile
from fusion.journal.proposals import Decider
from fusion.journal.retire import CompleteFile
from fusion.lib.ids import external_ref
from fusion.lib.item_address import Address
from fusion.lib.observation import NewObservation
from fusion.lib.request_rate import RequestRates
from fusion.recall.context_pack import SCHEMA, Citation, PackItem, PackMeta, PackNotes
from fusion.recall.engine import Fused, FuseRequest
from fusion.recall.gather import Answer, Answered
from fusion.recall.pack import Excerpt, Member
from fusion.settings import Settings
from fusion.trust.token import home_token
from fusion.upkeep.grade import GradeRequest
from fusion.upkeep.lifecycle import LifecycleRequest
from fusion.upkeep.runner import Runner
from tests.doors.verbed.cli import VERBS
from tests.upkeep.helpers import MemoryJournal, Recorded

SMALL = """
backends_only = true
[embedder]
adapter = ""
[backends.memory]
adapter = "adapters.inmemory:InMemory"
deadline_ms = 60000
"""
"""the configuration of a home that opens at once: one backend, no model"""
COVERAGE = {"total": 1, "ok": 1, "failed": 0, "skipped": 0, "ratio": 1.0}


@contextmanager
def server_stopped(home: Path) -> Iterator[None]:
    """Stop the server that a home has at the end of the block; kill it if it does not stop."""
    yield
    holder = owner(home)
    try:
        stop_server(home)
    finally:
        if holder is not None and owner(home) == holder and holder.pid not in (0, os.getpid()):
            os.kill(holder.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Kept:
    ref: str
    event_id: str
    status: str
    redacted: int = 0
    reason: str = ""
    supersedes: str | None = None
    said: int = 1


class FakeFusion:
    """A gateway for tests of the doors: it records calls in lists, and answers with fixed replies.

    ``hold`` makes every question wait until the event is set; ``asked`` and ``cancelled`` are set when one begins and
    when one is cancelled.
    """

    def __init__(self, *, error: Exception | None = None, hold: asyncio.Event | None = None) -> None:
        self.error = error
        self.hold = hold
        self.rates: RequestRates | None = None
        self.requests: list[FuseRequest] = []
        self.packs: list[PackRequest] = []
        self.kept: list[tuple[Any, str | None, str]] = []
        self.listed: list[tuple[Scope, int, str | None, str | None, str | None]] = []
        self.filters: list[dict[str, Any]] = []
        """what else each list of memories was asked for by"""
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.busy: list[Exception] = []
        """raised once each, before anything is done"""
        self.refuses: str | None = None
        self.imports: list[tuple[str, ImportOptions]] = []
        self.changes: list[tuple[Change, Scope]] = []
        self.forgettings: list[ForgetRequest] = []
        self.logs = ""
        self.logs_asked: list[tuple[Scope, dict[str, Any]]] = []
        self.appended: list[tuple[str, Scope]] = []
        self.kept_sources: set[str] = set()
        self.batches_kept: list[str] = []
        """the Ingest-Batch of each request that had one"""
        self.retired: list[tuple[CompleteFile, bool]] = []
        self.gone: HomeGone | None = None
        self.tidy = Recorded(takes_s=0)
        self.runner = Runner((self.tidy.job("0 0 29 2 *"),), cast("Journal", MemoryJournal()), "fake")
        self.text = "We move to Postgres in April."

    async def readings(self) -> Readings:
        return Readings(Measures(), {}, {"markdown": "closed"}, {"markdown": 0}, {"markdown": 0}, {}, 1.0)

    def require_home(self) -> None:
        if self.gone is not None:
            raise self.gone

    async def look_at_home(self) -> None:
        self.require_home()

    async def fuse(self, request: str | FuseRequest, **fields: Any) -> Fused:
        assert isinstance(request, FuseRequest)
        self.requests.append(request)
        await self._work()
        member = Member("m1z", self.text, "Nadia", None, "decision", "unknown", ("markdown",), 0.8)
        return Fused(
            block=f"<memory>[m1z] {self.text}</memory>",
            memories=(Excerpt("m1z", "standup", None, 0.8, (member,)),),
            coverage=COVERAGE,
            degraded=False,
            backends=({"name": "markdown", "status": "ok", "took_ms": 1.0, "count": 1, "error_code": None},),
            rerank={"status": "off"},
            recipe={"name": "default", "hash": "abc"},
            receipt_id="r1",
            took_ms=1.5,
            query_truncated=len(request.query) > 4000,
        )

    async def pack(self, request: PackRequest) -> ContextPack:
        self.packs.append(request)
        await self._work()
        receipt = PackReceipt(
            receipt_id="r1",
            tokens=40,
            took_ms=1.5,
            abstained=None,
            degraded=False,
            backends=({"name": "markdown", "status": "ok", "took_ms": 1.0, "count": 1, "error_code": None},),
            coverage=COVERAGE,
            disputed=(),
            tail_left_out=0,
            notes=(),
        )
        item = PackItem("obs:m1z", "L1", "decision", "unknown", "unknown", self.text, Citation(None, "obs:m1z"))
        meta = PackMeta("2026-01-31T09:30:00+00:00", request.query, None, request.budget_tokens, request.max_items)
        return ContextPack(SCHEMA, meta, f"- [obs:m1z] {self.text}", (item,), PackNotes(), receipt)

    async def index(self, request: IndexRequest) -> dict[str, Any]:
        await self._work()
        return examples()["index"]["reply"]

    async def timeline(self, request: TimelineRequest) -> dict[str, Any]:
        await self._work()
        return examples()["timeline"]["reply"]

    async def records(self, request: RecordsRequest) -> dict[str, Any]:
        await self._work()
        return examples()["records"]["reply"]

    async def why(self, ref: str, scope: Scope, limit: int) -> dict[str, Any]:
        if ref != "m1z":
            raise NotFound(f"there is no memory {ref!r} here, and none was forgotten")
        return examples()["why"]["reply"]

    async def export(self, caller: str, **chosen: Any) -> Export:
        self.require_home()
        part = {"tenant": caller, "journal": "0", "commits": 0, "events": 0, "seq": 0, "counts": {}}
        rows = BytesIO(orjson.dumps({"type": "tenant", "tenant": caller}) + b"\n")
        return Export(rows, chosen["user_id"], [part])

    def spool(self) -> BytesIO:
        return BytesIO()

    async def import_export(self, caller: str, file: BytesIO, options: ImportOptions, *told: Any) -> ImportReport:
        checked = ExportFile(file, partial=options.partial).check()
        self.imports.append((caller, options))
        return ImportReport(options.dry_run, checked.header.created_at, checked.header.program)

    async def compare(self, request: FuseRequest, a: str, b: str) -> dict[str, Any]:
        self.requests.append(request)
        await self._work()
        return {
            **examples()["compare"]["reply"],
            "a": {**examples()["compare"]["reply"]["a"], "arm": a},
            "b": {**examples()["compare"]["reply"]["a"], "arm": b},
        }

    async def feedback(
        self,
        receipt_id: str,
        scope: Scope,
        *,
        useful: Sequence[str] = (),
        useless: Sequence[str] = (),
        merge: bool = False,
    ) -> dict[str, Any]:
        if receipt_id != "r1":
            raise NotFound("There is no such receipt here.")
        return {"receipt_id": receipt_id, "useful": useful, "useless": useless}

    async def labels(self, tenant: str, limit: int, *, cursor: str | None = None) -> dict[str, Any]:
        if cursor not in (None, "c1"):
            raise BadInput("cursor: it is invalid")
        return {"labels": [examples()["labels"]["reply"]["labels"][0]], "next_cursor": None}

    async def comparisons(self, tenant: str, limit: int, *, cursor: str | None = None) -> dict[str, Any]:
        if cursor not in (None, "c1"):
            raise BadInput("cursor: it is invalid")
        return examples()["comparisons"]["reply"]

    async def keep_comparison(self, body: Mapping[str, Any], who: str, *, tenant: str) -> dict[str, Any]:
        return {**examples()["keep_comparison"]["reply"], "by": who}

    async def search(
        self,
        backend: str,
        query: str,
        scope: Scope,
        limit: int = 10,
        *,
        all_users: bool = False,
        where: Where = EVERYTHING,
    ) -> Answer:
        await self._work()
        if backend != "markdown":
            raise BadInput(f"there is no backend {backend!r}; there is markdown")
        return Answer(backend, "ok", (Hit("n1", self.text, scope, score=float("nan")),)[:limit], 1.0)

    async def refs(self, answer: Answer, tenant: str) -> list[str]:
        return [external_ref(answer.backend, hit.native_id) for hit in answer.hits]

    async def worth_asking_s(self, names: Sequence[str] | None, tenant: str) -> float:
        return 7.0

    async def remember(
        self,
        items: Sequence[Any],
        *,
        idempotency_key: str | None = None,
        tenant: str = "default",
        batch: str | None = None,
    ) -> Sequence[Kept]:
        await self._work()
        self.batches_kept.extend([batch] if batch else [])
        if any(item.text == self.refuses for item in items):
            raise BadInput(f"there is a {self.refuses!r} in it")
        known = {item.text for item, _, _ in self.kept}
        replies = []
        for number, item in enumerate(items):
            replies.append(Kept(f"m{number}", f"e{number}", "duplicate" if item.text in known else "stored"))
            self.kept.append((item, idempotency_key, tenant))
        return replies

    async def update(
        self, ref: str, change: Change, scope: Scope, *, idempotency_key: str | None, may_raise_trust: bool
    ) -> list[Acknowledged]:
        if ref != "m1z":
            raise NotFound("There is no such memory here.")
        self.changes.append((change, scope))
        return [Acknowledged("m20", "e20", "superseded", supersedes=ref)]

    async def memory(self, ref: str, scope: Scope) -> dict[str, Any]:
        if ref != "m1z":
            raise NotFound("There is no such memory here.")
        return {**examples()["memories"]["reply"]["memories"][0], "ref": ref, "text": self.text}

    async def memories(
        self, scope: Scope, *, limit: int, cursor: str | None, document: str | None, source: str | None, **filters: Any
    ) -> dict[str, Any]:
        self.filters.append(filters)
        if cursor not in (None, "c1"):
            raise BadInput("cursor: it is invalid")
        self.listed.append((scope, limit, cursor, document, source))
        return {"memories": [examples()["memories"]["reply"]["memories"][0]], "next_cursor": None if cursor else "c1"}

    async def document(
        self,
        path: str,
        scope: Scope,
        *,
        start: int = 1,
        lines: int = 200,
        summaries: str | None = None,
        versions: int = 0,
    ) -> dict[str, Any]:
        if path != "notes/database.md":
            raise NotFound("There is no such document here.")
        earlier = {"at": "2026-11-20T10:02:00+00:00", "by": "Ada", "why": "Decide", "text": "We stay with SQLite.\n"}
        more = {"versions": [earlier][:versions]} if versions else {}
        return {**examples()["document"]["reply"], "path": path, "from": start, **more}

    embedding_model: str | None = "all-MiniLM-L6-v2-int8@8199be6f"

    async def append_to_log(self, text: str, scope: Scope) -> dict[str, Any]:
        await self._work()
        self.appended.append((text, scope))
        return {"path": "m1z", "ref": "m1z", "status": "stored", "redacted": 0, "reason": ""}

    async def ingest_history(self, scope: Scope, body: bytes, *, channel: str, debounce: bool) -> dict[str, Any]:
        await self._work()
        return {**examples()["ingest"]["reply"], "session_id": scope.session_id}

    async def hybrid_search(self, query: str, scope: Scope, limit: int, *, all_users: bool) -> dict[str, Any]:
        await self._work()
        return examples()["hybrid_search"]["reply"]

    async def session_state(self, scope: Scope, asker: Asker) -> dict[str, Any]:
        await self._work()
        return {**examples()["session_state"]["reply"], "session_id": asker.session_id}

    async def synthesis(self, query: str, scope: Scope, *, all_users: bool) -> dict[str, Any]:
        await self._work()
        return examples()["recall"]["reply"]

    async def daily_logs(self, scope: Scope, **options: Any) -> dict[str, Any]:
        self.logs_asked.append((scope, options))
        return {"block": self.logs, "logs": []}

    async def forget(self, ref: str, scope: Scope) -> dict[str, Any]:
        if ref != "m1z":
            raise NotFound("There is no such memory here.")
        return {"ref": ref, "event_id": "e1", "backends": {"markdown": "hidden"}}

    async def forget_many(self, request: ForgetRequest) -> ForgetResult:
        request.names()
        self.forgettings.append(request)
        found = Preview("m1z", "" if not request.dry_run else self.text, ("markdown",))
        receipt = ForgetReceipt("m1z", "e1", {"markdown": "deleted"})
        return ForgetResult(request.dry_run, (found,), () if request.dry_run else (receipt,))

    async def undo(self, scope: Scope, batch: str | None, *, limit: int, dry_run: bool) -> dict[str, Any]:
        if batch not in (None, "b1"):
            raise NotFound(f"there is no ingest {batch!r} to undo")
        return {
            "batch": "b1",
            "dry_run": dry_run,
            "found": [],
            "undone": 0 if dry_run else 2,
            "left": 2 * dry_run,
            "restored": [],
        }

    async def batches(self, scope: Scope, limit: int) -> list[dict[str, Any]]:
        return [examples()["batches"]["reply"]["batches"][0]]

    async def append_episodes(self, items: Sequence[NewObservation], **options: Any) -> Sequence[Any]:
        return [KeptObservation("ep:7", "call_81", "stored", "000001#7")] * len(items)

    async def query_episodes(self, request: EpisodeQuery) -> dict[str, Any]:
        return examples()["query_episodes"]["reply"]

    async def put_item(self, item: NewItem, scope: Scope, *, may_raise_trust: bool = True) -> dict[str, Any]:
        return examples()["put_item"]["reply"]

    async def item(self, address: Address, scope: Scope) -> dict[str, Any]:
        if address.key != "theme":
            raise NotFound(f"there is no item {address.path!r} here")
        return examples()["item"]["reply"]

    async def forget_item(self, address: Address, scope: Scope) -> dict[str, Any]:
        await self.item(address, scope)
        return examples()["forget_item"]["reply"]

    async def search_items(self, request: ItemSearch) -> dict[str, Any]:
        return examples()["search_items"]["reply"]

    async def item_namespaces(self, request: NamespaceSearch) -> dict[str, Any]:
        return examples()["item_namespaces"]["reply"]

    async def working_set(self, scope: Scope, limit: int) -> Sequence[Any]:
        if scope.session_id is None:
            raise BadInput("a working set is that of a session: name its session_id")
        return examples()["working_set"]["reply"]["episodes"][:limit]

    async def grade_episode(self, ref: str, scope: Scope, importance: Any, by: Decider, why: str) -> dict[str, Any]:
        if ref != "ep:7":
            raise NotFound(f"there is no episode {ref!r} here")
        return examples()["grade_episode"]["reply"]

    async def episode(self, ref: str, scope: Scope) -> dict[str, Any]:
        if ref != "ep:7":
            raise NotFound(f"there is no episode {ref!r} here")
        return examples()["episode"]["reply"]

    async def search_episodes(self, request: EpisodeSearch) -> dict[str, Any]:
        return examples()["search_episodes"]["reply"]

    async def embed_episodes(self, scope: Scope, limit: int, **options: Any) -> dict[str, Any]:
        return examples()["embed_episodes"]["reply"]

    async def redact_episodes(self, scope: Scope, refs: Sequence[str] = (), *, dry_run: bool = False) -> int:
        return len(refs)

    async def set_states(self, request: StatesRequest, *, may_raise_trust: bool = True, who: str = "owner") -> object:
        return examples()["set_states"]["reply"]

    async def set_state(self, request: StateRequest, *, may_raise_trust: bool = True, who: str = "") -> dict[str, Any]:
        if request.ref != "m1z":
            raise NotFound(f"there is no memory {request.ref!r} here")
        return examples()["set_state"]["reply"]

    async def prefix(self, scope: Scope, *, all_users: bool = False) -> dict[str, Any]:
        return examples()["prefix"]["reply"]

    async def decisions(
        self, scope: Scope, limit: int, *, ref: str | None = None, cursor: str | None = None
    ) -> dict[str, Any]:
        return {"decisions": [examples()["set_state"]["reply"]["decision"]], "next_cursor": None}

    async def assert_fact(self, request: FactRequest, *, is_owner: bool = True) -> dict[str, Any]:
        if not request.sources:
            raise BadInput("sources: give 1 to 32 memories that say so")
        return examples()["assert_fact"]["reply"]

    async def retract_fact(self, request: EndRequest, *, is_owner: bool = True) -> dict[str, Any]:
        if not request.fact.startswith("fact:"):
            raise NotFound(f"there is no fact {request.fact!r} here")
        return examples()["retract_fact"]["reply"]

    async def current_facts(self, scope: Scope, subject: str, **options: Any) -> dict[str, Any]:
        return examples()["current_facts"]["reply"]

    async def fact_timeline(
        self, scope: Scope, subject: str | None = None, *, fact: str | None = None, predicate: str | None = None
    ) -> dict[str, Any]:
        return examples()["fact_timeline"]["reply"]

    async def lint_facts(self, scope: Scope) -> dict[str, Any]:
        return examples()["lint_facts"]["reply"]

    async def fact_pack(self, request: FactPackRequest) -> dict[str, Any]:
        return examples()["fact_pack"]["reply"]

    async def rebuild_facts(self, tenant: str) -> dict[str, Any]:
        return examples()["rebuild_facts"]["reply"]

    async def propose(
        self, given: Sequence[Proposed], by: Decider, *, tenant: str = "default", idempotency_key: str | None = None
    ) -> dict[str, Any]:
        return examples()["propose"]["reply"]

    async def proposals(
        self, scope: Scope, state: str | None, limit: int, *, cursor: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        return examples()["proposals"]["reply"]

    async def proposal(self, name: str, scope: Scope, *, by: str | None = None) -> dict[str, Any]:
        if name != "p12":
            raise NotFound(f"there is no proposal {name!r} here")
        return examples()["proposal"]["reply"]

    async def approve(
        self, name: str, scope: Scope, by: Decider, edit: Edit, why: str, *, may_raise_trust: bool
    ) -> dict[str, Any]:
        await self.proposal(name, scope)
        return examples()["approve"]["reply"]

    async def extract(self, request: ExtractRequest, by: Decider) -> dict[str, Any]:
        return examples()["extract"]["reply"]

    async def triage(self, scope: Scope, limit: int) -> dict[str, Any]:
        return examples()["triage"]["reply"]

    async def decide_triage(
        self, item: str, choice: str, scope: Scope, by: Decider, why: str, *, may_raise_trust: bool
    ) -> dict[str, Any]:
        if item != "p12":
            raise NotFound(f"there is no {item!r} here")
        return examples()["decide_triage"]["reply"]

    async def reject(self, name: str, scope: Scope, by: Decider, why: str) -> dict[str, Any]:
        await self.proposal(name, scope)
        return examples()["reject"]["reply"]

    async def graph_neighbors(self, request: GraphRequest) -> dict[str, Any]:
        return examples()["graph_neighbors"]["reply"]

    async def graph_impact(self, request: GraphRequest) -> dict[str, Any]:
        return examples()["graph_impact"]["reply"]

    async def graph_path(self, request: PathRequest) -> dict[str, Any]:
        return examples()["graph_path"]["reply"]

    async def graph_overview(self, request: OverviewRequest) -> object:
        return examples()["graph_overview"]["reply"]

    async def graph_match(self, request: MatchRequest) -> dict[str, Any]:
        return examples()["graph_match"]["reply"]

    async def export_graph(self, scope: Scope) -> dict[str, Any]:
        return examples()["graph_pages"]["reply"]

    async def card(self, scope: Scope, subject: str) -> dict[str, Any]:
        return examples()["card"]["reply"]

    async def refresh_card(self, scope: Scope, subject: str) -> dict[str, Any]:
        return examples()["refresh_card"]["reply"]

    async def lint_cards(self, scope: Scope) -> dict[str, Any]:
        return examples()["lint_cards"]["reply"]

    async def undo_decision(
        self, name: str, scope: Scope, *, may_raise_trust: bool = True, who: str = ""
    ) -> dict[str, Any]:
        if name != "d12":
            raise NotFound(f"there is no decision {name!r} here")
        return examples()["undo_decision"]["reply"]

    async def undo_run(
        self, run: str, scope: Scope, *, may_raise_trust: bool = True, dry_run: bool = False, who: str = ""
    ) -> dict[str, Any]:
        if run != "r1":
            raise NotFound(f"no run {run!r} decided anything here")
        return {"decision": None, "undone": 3}

    async def forgotten(self, scope: Scope, limit: int, *, cursor: str | None = None) -> dict[str, Any]:
        return {"forgotten": [examples()["forgotten"]["reply"]["forgotten"][0]], "next_cursor": None}

    async def accesses(self, request: AuditRequest) -> dict[str, Any]:
        return examples()["audit"]["reply"]

    async def origins(self, scope: Scope, prefix: str, after: str, limit: int) -> list[dict[str, Any]]:
        return [{"source": source, "memories": 1} for source in sorted(self.kept_sources) if source.startswith(prefix)]

    async def retire(self, scope: Scope, files: Sequence[CompleteFile], *, dry_run: bool) -> dict[str, int]:
        self.retired.extend((file, dry_run) for file in files)
        return {file.source: 1 for file in files if file.source in self.kept_sources}

    def verb(self, backend: str, name: str) -> type[Verb]:
        if backend != "markdown" or name not in VERBS:
            raise NotFound(f"there is no verb {name!r} of {backend!r}")
        return VERBS[name]

    def routes(self) -> dict[str, Sequence[Route]]:
        return {}

    async def do(
        self, backend: str, verb: Verb, scope: Scope, line: Any, progress: Any, *, all_users: bool = False
    ) -> object:
        await self._work()
        return await verb(self, Call(scope, datetime(2026, 3, 14, tzinfo=UTC), None, line, progress))  # type: ignore[arg-type]

    async def backends(self, tenant: str) -> list[dict[str, Any]]:
        return [examples()["backends"]["reply"]["backends"][0]]

    async def status(self, tenant: str, scope: Scope | None = None, *, operates: bool = True) -> dict[str, Any]:
        return {name: value for name, value in examples()["status"]["reply"].items() if name != "requests"}

    async def receipt(self, receipt_id: str, tenant: str, *, user_id: str | None = None) -> dict[str, Any]:
        if receipt_id != "r1":
            raise NotFound("There is no such receipt here.")
        return {"receipt_id": receipt_id, "tenant": tenant}

    async def ask(self, request: FuseRequest, answered: Answered) -> dict[str, Any]:
        fused = await self.fuse(request)
        answered(Answer("markdown", "ok", (), 3.1))
        return {"answer": fused, "candidates": [], "recording": fused.receipt_id if request.record else None}

    async def replay(self, request: ReplayRequest, tenant: str) -> object:
        if request.recording != "r1":
            raise NotFound(f"there is no recording of {request.recording}")
        return examples()["replay"]["reply"]

    async def recipes_of_home(self, tenant: str) -> object:
        return examples()["recipes"]["reply"]

    async def activity(self, scope: Scope, days: int) -> object:
        return examples()["activity"]["reply"]

    async def backend_history(self, scope: Scope, answers: int, *, all_users: bool) -> object:
        return examples()["backend_history"]["reply"]

    async def receipts_page(self, request: ReceiptsRequest) -> object:
        if request.after == "r2":
            raise NotFound("There is no such receipt here.")
        return examples()["receipts"]["reply"]

    async def run_lifecycle(self, request: LifecycleRequest, progress: Any) -> object:
        progress(1, 1)
        return {**examples()["lifecycle"]["reply"], "dry_run": request.dry_run}

    async def inspect_trust(self, ref: str, scope: Scope) -> object:
        return examples()["trust"]["reply"]

    async def plans(self, scope: Scope, limit: int, *, everything: bool = False) -> object:
        return examples()["plans"]["reply"]

    async def grade(self, request: GradeRequest) -> object:
        return {**examples()["grade"]["reply"], "dry_run": request.dry_run}

    async def settle(self, tenant: str) -> None:
        await self._work()

    def jobs(self, tenant: str = "default") -> Runner:
        if tenant != "default":
            raise BadInput("jobs need a key of the tenant default")
        return self.runner

    async def ready(self, tenant: str) -> dict[str, Any]:
        return {"ready": True, "backends": {"memory": "ready"}, "notes": []}

    async def _work(self) -> None:
        self.asked.set()
        if self.busy:
            raise self.busy.pop()
        if self.error is not None:
            raise self.error
        if self.hold is not None:
            try:
                await self.hold.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise


def app_over(fusion: FakeFusion, settings: Settings | None = None, *, local_token: str | None = None) -> Gate:
    """The HTTP application over a fake."""
    return create_app(fusion, settings or Settings(), local_token=local_token)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(
    fusion: FakeFusion,
    settings: Settings | None = None,
    *,
    protocol: type[LimitedProtocol] = LimitedProtocol,
    app: Gate | None = None,
) -> AsyncIterator[str]:
    """A real server over a fake, on a free port of loopback; yields its URL. ``app`` replaces the application."""
    settings = settings or Settings()
    door = listen("127.0.0.1", 0)
    server = Server(app or app_over(fusion, settings), settings, protocol=protocol)
    url = url_of(door)
    task = asyncio.create_task(server.serve(sockets=[door]))
    try:
        yield url
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serving_home(home: Path, fusion: FakeFusion) -> AsyncIterator[str]:
    """The server of a home, in this process: it holds the lock, knows the token and is recorded. Yields its URL."""
    with HomeLock.take(home, "fusion serve"):
        async with serving(fusion, app=app_over(fusion, local_token=home_token(home))) as url:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            yield url


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until ``condition`` holds; the test's own timeout bounds it."""
    while not condition():  # noqa: ASYNC110 — the object has no event
        await asyncio.sleep(0)
