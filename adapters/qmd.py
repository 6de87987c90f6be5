"""QMD, the Markdown search engine, by its HTTP daemon (`qmd mcp --http --daemon`): ``POST /query``. Read only.

    [backends.qmd]
    adapter = "adapters.qmd:Qmd"
    deadline_ms = 1000                  # its own; with rerank on a CPU QMD takes minutes
    url = "http://localhost:8181"       # QMD refuses requests to any other name
    api_key_env = "FUSION_API_KEY"      # for a server that wants a key, as QMD's own does not; or api_key_file
    collections = ["workspace"]         # of QMD's; left out, those that it searches by default
    rerank = false                      # its language model orders what was found
    connect_ms = 250                    # milliseconds for a new connection
    limit = 30                          # documents at most
    min_score = 0.0
    private = ["MEMORY.md", "memory.md"]  # names of files that are never shown to a group
    bound = { user_id = "ada" }         # the owner of the collections, if the gateway serves several
    tenant = "default"

    [backends.markdown]
    fallback_for = "qmd"                # our own index of the same folders answers when QMD does not

A collection that QMD does not have finds nothing, without an error. So an empty answer fails if one that is configured
is missing, and `fusion doctor` names it; QMD says so from 2.8 on.

QMD gives at most one snippet of a document, with its lines. A question's words go to the full-text search, which wants
every word of a search: so stop words are left out, and each of up to eight words is also a search of its own. The whole
question goes to the vector search.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import PurePosixPath
from signal import SIGKILL
from typing import Any, Self

import orjson

from adapters.hits import admitted, read_each
from adapters.http import Http, KeyedOptions, Request, checked
from adapters.options import features_of, number, owner, read, verified
from fusion.contract import Description, Hit, Opening, Place, Query, Scope
from fusion.errors import BackendError, BackendTimeout, HttpStatus, InvalidAnswer, Unauthorized
from fusion.lib.clean import clean
from fusion.lib.did_you_mean import hint
from fusion.lib.moment import day_of
from fusion.lib.words import STOP_WORDS, word_list

START = "Fix: qmd mcp --http --daemon"
MAX_WORDS = 8
"""words of a question that are searched one by one; QMD's MCP server takes ten searches in all"""
NAME_CHARS = 100
"""characters of a collection's name that are shown"""
MCP_REVISION = "2026-07-28"
STATUS = Request(
    "POST",
    "/mcp",
    orjson.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "status",
                "arguments": {},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MCP_REVISION,
                    "io.modelcontextprotocol/clientInfo": {"name": "memory-fusion", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
    ),
    headers={"Mcp-Method": "tools/call", "Mcp-Name": "status", "Mcp-Protocol-Version": MCP_REVISION},
)
"""a call of QMD's MCP tool `status`, complete in itself as the revision allows"""
REINDEX_S = 300.0
"""seconds for each of QMD's commands; on a CPU its vectors take minutes"""


@dataclass(frozen=True, slots=True)
class Options(KeyedOptions):
    """The keys of the backend's table, as the module explains them."""

    url: str = "http://localhost:8181"
    collections: tuple[str, ...] = ()
    rerank: bool = False
    limit: int = number(30, 1, 1000)
    min_score: float = number(0.0, 0, 1)
    private: tuple[str, ...] = ("MEMORY.md", "memory.md")
    bound: Mapping[str, str] = owner()

    def headers(self) -> Mapping[str, str]:
        """The header with the key, read for each request."""
        return self.key_header("authorization", "Bearer {key}")


class Qmd:
    """Asks a QMD daemon. Native ids are the documents' addresses, ``qmd://collection/path``."""

    def __init__(self, http: Http, options: Options) -> None:
        self.features = features_of((), options.bound, options.tenant)
        self._http, self._options = http, options

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """Its options are right."""
        return checked(verified(Options, options).url)

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a daemon that is down now may be up at the first question."""
        options = read(Options, opening)
        return cls(options.http(options.headers), options)

    async def search(self, query: Query) -> Sequence[Hit]:
        limit = min(query.limit, self._options.limit)
        body = request_of(query.text, limit, self._options)
        if limit < 1 or not body["searches"]:
            return []
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            reply = await self._http.post("/query", body, query.deadline_s)
        except Unauthorized as error:  # it has no keys: it guards itself against web pages
            raise Unauthorized(f"{error}; QMD itself has none, but wants to be called localhost in url") from None
        items = reply.get("results") if isinstance(reply, dict) else None
        if not isinstance(items, list):
            raise InvalidAnswer(f"{self._http.server}: the reply has no list of results")
        whose = replace(query.scope, tenant=self.features.tenant, project=None)
        fault = f"{self._http.server}: none of {{}} items is a result"
        hits, dropped = read_each(items[:limit], lambda item: hit_of(item, whose, self._options), fault)
        if not items and self._options.collections:
            await self._check_collections(query.deadline_s - (loop.time() - began))
        return admitted(hits, query.scope, dropped)

    async def describe(self) -> Description:
        """Check that it runs and has the collections; its items are the documents of those that are searched."""
        deadline_s = self._options.describe_s
        try:
            health = await self._http.get("/health", deadline_s)
            if not isinstance(health, dict) or health.get("status") != "ok":
                return Description(
                    notes=(f"{self._http.server} answers, but not as QMD does. Fix: url = that of QMD's daemon",),
                    degraded=True,
                )
            documents = await self._documents(deadline_s)
        except BackendError as error:
            return Description(notes=(f"{error}. {START}",), degraded=True)
        searched = self._options.collections or tuple(documents or ())
        missing = self._missing(documents)
        return Description(
            items=sum(documents.get(name, 0) for name in searched) if documents else 0,
            notes=(missing,) if missing else (),
            degraded=bool(missing),
        )

    async def _check_collections(self, deadline_s: float) -> None:
        """Raise BackendError if a configured collection is missing. That QMD does not say in time changes nothing."""
        try:
            documents = await self._documents(max(deadline_s, 0.001))
        except BackendError:
            return
        if missing := self._missing(documents):
            raise BackendError(missing)

    def _missing(self, documents: Mapping[str, int] | None) -> str:
        """What is wrong with the configured collections, with the fix; "" if nothing is, or if QMD does not say."""
        missing = [name for name in self._options.collections if documents is not None and name not in documents]
        if not missing or documents is None:
            return ""
        there = f"only: {', '.join(documents)}" if documents else "and no other"
        said = f"QMD has no collection {', '.join(map(repr, missing))}, {there}{hint(missing[0], documents) or '.'}"
        fix = f"Fix: correct collections, or qmd collection add FOLDER --name {shlex.quote(missing[0])}"
        return f"{self._http.server}: {said} {fix}"

    async def _documents(self, deadline_s: float) -> Mapping[str, int] | None:
        """The number of documents by collection, or None from a version of QMD that does not say.

        Only QMD's MCP server says it. It keeps no sessions, so its tool is one request.
        """
        try:
            _, reply = await self._http.exchange(STATUS, deadline_s)
        except (HttpStatus, InvalidAnswer):
            return None
        rows = _value(reply, "result", "structuredContent", "collections")
        return dict(filter(None, map(_counted, rows))) if isinstance(rows, list) else None

    async def reindex(self) -> str:
        """Run `qmd update` and `qmd embed`, if the command is on this machine: QMD's server has no call for that."""
        command = shutil.which("qmd")
        if command is None:
            return "not indexed: there is no command qmd here"
        for verb in ("update", "embed"):
            await _run(command, verb)
        return "indexed"

    async def close(self) -> None:
        await self._http.close()


def _value(reply: Any, *names: str) -> Any:
    """A value in nested objects, or None."""
    for name in names:
        reply = reply.get(name) if isinstance(reply, dict) else None
    return reply


def _counted(row: Any) -> tuple[str, int] | None:
    """The name of a collection and its number of documents, from a row of QMD's status; None for anything else."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    number = row.get("documents")
    return clean(row["name"])[0][:NAME_CHARS], number if type(number) is int and number > 0 else 0


async def _run(command: str, verb: str) -> None:
    """Run one verb of QMD's command. Raises BackendError if it fails or takes too long."""
    process = await asyncio.create_subprocess_exec(
        command, verb, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(REINDEX_S):
            _, said = await process.communicate()
    except TimeoutError:
        raise BackendTimeout(f"qmd {verb} was stopped after {REINDEX_S:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            await process.wait()
    if process.returncode:
        raise BackendError(
            f"qmd {verb} failed ({process.returncode}): {said.decode('utf-8', 'replace').strip()[-200:]}"
        )


_NEGATION = re.compile(r'(?<!-)-++(?=[\w"])')
"""what its vector search refuses; some versions also within a word"""
_NUMBERED = re.compile(r"\s*(\d+): ?")
_HUNK = re.compile(r"@@ -(\d+),\d+ @@")


def request_of(text: str, limit: int, options: Options) -> dict[str, Any]:
    """The body of a question. QMD has a language of its own (quotes, ``-word``); a query is sent as plain words."""
    words = [word for word in dict.fromkeys(word_list(text)) if word not in STOP_WORDS]
    whole = " ".join(_NEGATION.sub(" ", text.replace("\0", " ")).split())
    asked = [("lex", " ".join(words)), *(("lex", word) for word in telling(words)), ("vec", whole)]
    searches = [{"type": kind, "query": said} for kind, said in asked if said]
    return {
        "searches": searches,
        "limit": limit,
        "minScore": options.min_score,
        "rerank": options.rerank,
        **({"collections": list(options.collections)} if options.collections else {}),
    }


def telling(words: Sequence[str]) -> list[str]:
    """The words of a question that are searched one by one: the longest `MAX_WORDS`, in their order.

    There are none where the question has one word, which is searched already.
    """
    if len(words) < 2:
        return []
    longest = sorted(words, key=len, reverse=True)[:MAX_WORDS]
    return [word for word in words if word in longest]


def hit_of(item: Any, whose: Scope, options: Options) -> Hit:
    """One result of a reply as a hit. Raises KeyError, TypeError or ValueError for an invalid one."""
    file, snippet = item["file"], item["snippet"]
    if not isinstance(file, str) or not isinstance(snippet, str) or not file:
        raise TypeError("a result has a file and a snippet")
    document = file if file.startswith("qmd://") else f"qmd://{file}"
    start, text = _lines(snippet, item.get("line"))
    if not text.strip():
        raise ValueError("a result says something")
    name = PurePosixPath(document).name
    private = any(fnmatch(name, pattern) for pattern in options.private)
    return Hit(
        native_id=document,
        text=text,
        scope=replace(whose, audience="private" if private else "group"),
        score=item.get("score"),
        at=day_of(name),
        place=Place(document, start, start + text.count("\n"), "line") if start else None,
    )


def _lines(snippet: str, line: object) -> tuple[int, str]:
    """The first line number of a snippet (0: unknown), and its lines without QMD's numbers and diff-like header."""
    lines = snippet.split("\n")
    numbers = [_NUMBERED.match(one) for one in lines]
    start = line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else 0
    if all(numbers):
        start = start or int(numbers[0][1])  # type: ignore[index]  # none of them is None
        lines = [one[number.end() :] for one, number in zip(lines, numbers, strict=True) if number]
    if hunk := _HUNK.match(lines[0]):
        start, lines = int(hunk[1]), lines[1:]
    return start, "\n".join(lines)
