"""Cognee as a backend: searches its triplets and passages and, if configured, stores memories in one of its datasets.

    [backends.cognee]
    adapter = "adapters.cognee:Cognee"
    deadline_ms = 2500                  # its own; Cognee's plugins wait as long
    url = "http://127.0.0.1:8000"
    connect_ms = 250                    # milliseconds for a new connection; more for a distant server
    user = "ada@example.com"            # logs in, with
    password_env = "COGNEE_PASSWORD"    # the environment variable, or password_file: the file with the password; or
    api_key_env = "COGNEE_API_KEY"      # a key of Cognee's instead, or api_key_file
    datasets = ["main_dataset"]         # names or ids; left out, all that it may read
    search = ["CHUNKS", "GRAPH_COMPLETION"]   # asked at once; also CHUNKS_LEXICAL and SUMMARIES
    limit = 15                          # of each; Cognee counts its bookkeeping among the triplets
    dataset = "agent_memory"            # the one that remembers, searched as well; left out: read only
    kinds = ["fact", "decision"]        # what it remembers; all but turns unless said otherwise
    workspace = true                    # the job `feed` sends it the memory files of [workspace]: docs/upkeep.md
    bound = { user_id = "ada" }         # the owner of all of it: Cognee cannot filter
    tenant = "default"

Only remembering costs calls of a language model: Cognee builds its graph from added documents in the background, and
a document is found once that is done. The server of one embedded graph must be the only process that has it open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import orjson

from adapters.cognee.api import Api, Login
from adapters.cognee.replies import apart, document, passages, results, section, triplets, woven
from adapters.http import Credential, KeyedOptions, checked, with_fix
from adapters.http.exchange import Request
from adapters.options import choice, features_of, number, owner, read, verified
from adapters.qdrant.payload import is_id
from fusion.contract import (
    KINDS,
    Audience,
    Description,
    Event,
    Extracted,
    Forgotten,
    Hit,
    Opening,
    PartialHits,
    Query,
    Scope,
)
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    SettingsError,
)

T = TypeVar("T")

PASSAGES = ("CHUNKS", "CHUNKS_LEXICAL", "SUMMARIES")
GRAPH = "GRAPH_COMPLETION"
FORMER: Mapping[str, str] = {"INSIGHTS": GRAPH, "TRIPLET_COMPLETION": GRAPH}
"""search types that Cognee no longer has, and their replacements"""
ADD_S, BUILD_S = 60.0, 60.0
"""seconds for adding documents and for building the graph: Cognee's first run after a start takes seconds to answer"""
POLL_S = 1.0
ROUNDS = 3
"""runs after which another one will not help documents that still wait; attempts to reach it in the background"""


@dataclass(frozen=True, slots=True)
class Options(KeyedOptions):
    """The keys of the backend's table, as the module explains them."""

    url: str = "http://127.0.0.1:8000"
    user: str = ""
    password_env: str = ""
    password_file: str = ""
    datasets: tuple[str, ...] = ()
    # Other types ask a language model, or give in one text what these give apart.
    search: tuple[str, ...] = choice(("CHUNKS", GRAPH), (*PASSAGES, GRAPH, *FORMER))
    limit: int = number(15, 1, 100)
    dataset: str = ""
    kinds: tuple[str, ...] = choice(tuple(kind for kind in KINDS if kind != "turn"), KINDS)
    workspace: bool = False
    bound: Mapping[str, str] = owner()

    def __post_init__(self) -> None:
        KeyedOptions.__post_init__(self)
        login = self.login()
        if self.user and (self.api_key_env or self.api_key_file):
            raise SettingsError("user with password_env, or api_key_env, not both")
        if bool(self.user) != bool(login.password.variable or login.password.file):
            raise SettingsError("user and password_env (or password_file) belong together")
        if not self.search:
            raise SettingsError("search names at least one type")
        if 0 < sum(map(is_id, self.datasets)) < len(self.datasets):
            raise SettingsError("datasets are all names or all ids")
        if self.dataset and any(map(is_id, (self.dataset, *self.datasets))):
            raise SettingsError("where dataset remembers, it and datasets are names")
        if self.workspace and not self.dataset:
            raise SettingsError("workspace = true needs dataset, the one that is sent the files")

    def login(self) -> Login:
        return Login(self.key, self.user, Credential(self.password_env, self.password_file, "password"))

    def ways(self) -> tuple[str, ...]:
        """The search types to ask for, as Cognee calls them today."""
        return tuple(dict.fromkeys(FORMER.get(way, way) for way in self.search))


class Cognee:
    """Searches a Cognee server. Native ids are the ids of chunks, and the triplets themselves."""

    def __init__(self, api: Api, options: Options, poll_s: float = POLL_S) -> None:
        features = features_of((), options.bound, options.tenant)
        self.features = replace(features, kinds=frozenset(k for k in KINDS if options.dataset and k in options.kinds))
        self._api, self._options, self._poll_s = api, options, poll_s
        # A triplet does not say what it was made of: where private files are sent, all triplets are private.
        audience: Audience = "private" if options.workspace else "group"
        bound = {str(d): who for d, who in self.features.bound.items()}
        self._whose = Scope(options.tenant, audience=audience, **bound)
        self._added = 0
        self._making: asyncio.Task[None] | None = None
        self._fault = ""
        self._mixed = False

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """Its options are right."""
        return checked(verified(Options, options).url)

    @classmethod
    async def open(cls, opening: Opening, poll_s: float = POLL_S) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = read(Options, opening)
        return cls(Api(options, options.login()), options, poll_s)

    # Searching

    async def search(self, query: Query) -> Sequence[Hit]:
        text = " ".join(query.text.replace("\0", " ").split())
        if query.limit < 1 or not text:
            return []
        limit = min(query.limit, self._options.limit)
        asked = [asyncio.ensure_future(self._asked(way, text, limit, query)) for way in self._options.ways()]
        try:
            found = await asyncio.gather(*asked)
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        hits = [hit for hit in woven([hits for hits, _ in found]) if query.scope.admits(hit.scope)]
        dropped = sum(lost for _, lost in found)
        if dropped and not any(hits for hits, _ in found):
            raise InvalidAnswer(f"{self._api.server}: none of {dropped} results is in a form of Cognee's that is known")
        return PartialHits(hits[: query.limit], dropped) if dropped else hits[: query.limit]

    async def _asked(self, way: str, text: str, limit: int, query: Query) -> tuple[list[Hit], int]:
        """The hits of one search type in all datasets, best first, and the number of invalid items."""
        graph = way == GRAPH
        body = {
            "query": text,
            "searchType": way,
            "topK": limit,
            # With it, a completion is the prompt without the model's answer; the others would be one text with it.
            "onlyContext": graph,
            **self._within(),
        }
        reply = await self._results(body, query.deadline_s)
        if reply and not apart(reply):
            self._mixed = True
        try:
            found = [(triplets if graph else passages)(one, self._whose) for one in results(reply)]
        except TypeError:
            raise InvalidAnswer(f"{self._api.server}: the reply to {way} has no list of results") from None
        lists, dropped = [hits for hits, _ in found], sum(lost for _, lost in found)
        if way == "CHUNKS":
            # Distances of one model's vectors compare across datasets.
            hits = sorted(
                (hit for hits in lists for hit in hits),
                key=lambda hit: float("inf") if hit.score is None else -hit.score,
            )
            return hits, dropped
        return [replace(hit, score=None) for hit in woven(lists)], dropped

    def _within(self) -> dict[str, list[str]]:
        datasets = self._options.datasets
        if not datasets:
            return {}
        if is_id(datasets[0]):
            return {"datasetIds": list(datasets)}
        return {
            "datasets": list(dict.fromkeys((*datasets, self._options.dataset) if self._options.dataset else datasets))
        }

    async def _results(self, body: Mapping[str, Any], deadline_s: float) -> Any:
        """The reply to a search; nothing where Cognee says that it has no data."""
        server = self._api.server
        request = Request("POST", "/api/v1/search", orjson.dumps(body), accept=(400, 404, 422))
        status, reply = await self._api.ask(request, deadline_s)
        if status < 400:
            return reply
        detail = _detail(reply)
        if status != 404:
            raise InvalidAnswer(
                f"{server} answered {status}: it does not know such a search, Cognee 1.x does ({detail})"
            )
        if "NoData" in detail:
            return []
        own = self._options.dataset
        if "DatasetNotFound" in detail and own and f"'{own}'" in detail:
            # It is made when something is remembered; until then only the others are there to be searched.
            others = [name for name in body["datasets"] if name != own]
            return await self._results({**body, "datasets": others}, deadline_s) if others else []
        raise HttpStatus(f"{server} answered 404: {detail}", 404)

    # Remembering

    def accepts(self, event: Event) -> bool:
        """Accept events of its kinds that all its readers may see, because Cognee cannot filter by reader."""
        scope = event.scope
        return (
            event.kind in self.features.kinds
            and scope.tenant == self.features.tenant
            and scope.audience == "group"
            and all(getattr(scope, dimension) == who for dimension, who in self.features.bound.items())
        )

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        """Adds each as a document, which is durable; it is found once Cognee has built its graph in the background.

        The native id is the event's: the document's label, by which it is forgotten.
        """
        if not batch:
            return []
        named = [(one.event.event_id, *document(one)) for one in batch]
        await self._api.add(self._options.dataset, named, ADD_S)
        self._added += 1
        self._make()
        return [(one.event.event_id,) for one in batch]

    async def settle(self) -> None:
        """Wait until Cognee has built its graph of everything. Raises the `BackendError` of a failed build."""
        if self._options.dataset:
            await asyncio.shield(self._make())

    def _make(self) -> asyncio.Task[None]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._made())
            self._making.add_done_callback(self._over)
        return self._making

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            self._fault = str(error) if error else ""

    async def _made(self) -> None:
        """Has Cognee make its graph until no document waits for it, also none that was added during that time."""
        api, name = self._api, self._options.dataset
        dataset = (await self._patiently(lambda: api.datasets(BUILD_S))).get(name)
        if dataset is None:
            return
        least, idle, asked_for = float("inf"), 0, -1
        while True:
            seen = self._added
            state, pending = await self._patiently(lambda: api.building(dataset, BUILD_S))
            if state == "STARTED":
                await asyncio.sleep(self._poll_s)
                continue
            waiting = pending if pending is not None else int(asked_for != seen)
            if not waiting:
                if seen == self._added:
                    return
                continue
            idle = 0 if waiting < least else idle + 1
            least = min(least, waiting)
            if idle >= ROUNDS:
                raise HttpStatus(
                    f"{api.server}: it could not make its graph of {waiting} documents; its log says why", 500
                )
            if idle:
                await asyncio.sleep(self._poll_s)
            await self._patiently(lambda: api.build(name, BUILD_S))
            asked_for = seen

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Its answer, retried while it is unreachable, because no caller waits for this background work."""
        for _ in range(ROUNDS - 1):
            try:
                return await ask()
            except (BackendUnreachable, BackendTimeout):
                await asyncio.sleep(self._poll_s)
        return await ask()

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        """Deletes the document of an event. What others brought to Cognee is theirs: it is only hidden."""
        if await self._delete([event_id]):
            return "deleted"
        return "hidden" if set(native_ids) - {event_id} else "absent"

    # The files of the workspace

    @property
    def takes_files(self) -> bool:
        return self._options.workspace

    async def sections(self, prefix: str) -> Sequence[str]:
        names = {name for named in (await self._documents(await self._dataset())).values() for name in named}
        return sorted(name for name in names if name.startswith(prefix))

    async def add_sections(self, texts: Mapping[str, str]) -> None:
        nothing: Mapping[str, Any] = {}
        documents = [(name, section(name, text), nothing) for name, text in texts.items()]
        await self._api.add(self._options.dataset, documents, ADD_S)
        self._added += 1
        self._make()

    async def delete_sections(self, names: Sequence[str]) -> None:
        await self._delete(names)

    async def _delete(self, names: Collection[str]) -> int:
        """Delete the documents that have one of these names or labels; returns how many there were."""
        dataset = await self._dataset()
        documents = await self._documents(dataset)
        found = [one for one, known_as in documents.items() if not known_as.isdisjoint(names)]
        for one in found:
            await self._api.delete(dataset, one, ADD_S)
        return len(found)

    async def _documents(self, dataset: str) -> Mapping[str, Set[str]]:
        """The documents of a dataset: id to names."""
        return await self._api.documents(dataset, ADD_S) if dataset else {}

    async def _dataset(self) -> str:
        """The id of the dataset that remembers; "" before something was added."""
        name = self._options.dataset
        return (await self._api.datasets(ADD_S)).get(name, "") if name else ""

    # What there is

    async def describe(self) -> Description:
        """Count its documents and report faults: unreachable, no credential, no such dataset."""
        options, notes = self._options, []
        try:
            await self._api.version(options.describe_s)
            datasets = await self._api.datasets(options.describe_s)
            missing = [name for name in options.datasets if name not in datasets and name not in datasets.values()]
            searched = [
                i
                for name, i in datasets.items()
                if not options.datasets or {name, i} & {*options.datasets, options.dataset}
            ]
            counts = await asyncio.gather(*(self._api.count(dataset, options.describe_s) for dataset in searched))
        except BackendError as error:
            key = "correct them" if options.user else "give it user and password_env, or api_key_env, in fusion.toml"
            note = with_fix(error, "start it: docker compose -f compose/cognee.yaml up", key)
            return Description(notes=(note,), degraded=True)
        if missing:
            notes.append(f"it has no dataset {', '.join(missing)}. Fix: correct datasets, or fill it")
        if self._fault:
            notes.append(f"{self._fault}. Fix: see Cognee's log; what is remembered next starts it again")
        degraded = bool(notes)
        if former := [way for way in options.search if way in FORMER]:
            notes.append(f"Cognee no longer has {', '.join(former)}; {GRAPH} is asked instead")
        if self._mixed and options.datasets:
            notes.append("the server keeps no datasets apart (ENABLE_BACKEND_ACCESS_CONTROL=false): all are searched")
        return Description(sum(counts), notes=tuple(notes), degraded=degraded)

    async def close(self) -> None:
        task, self._making = self._making, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._api.close()


def _detail(reply: object) -> str:
    """The reason of a refusal, in one short line; never the query."""
    detail = reply.get("detail", reply.get("error")) if isinstance(reply, dict) else None
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        detail = detail[0].get("msg")
    return " ".join(str(detail or "no reason given").split())[:300]
