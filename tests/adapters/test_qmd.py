"""QMD's daemon as a backend: what it is sent, what its replies mean, and how it fails; our index stands in for it.

The server is one of our own on loopback that behaves as QMD's documentation and replies say.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from adapters.inmemory import InMemory
from adapters.qmd import Options, Qmd, request_of
from fusion.contract import Backend, Description, Extracted, Hit, Moment, Opening, PartialHits, Place, Query, Scope
from fusion.errors import BackendError, InvalidAnswer, SettingsError, Unauthorized
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests import chaos
from tests.backend_contract import NOW, RemoteBackendContract, make_event, make_query
from tests.chaos import Call, Chaos
from tests.patience import PATIENT_MS, load, opening_at

RECORDED = {
    "results": [
        {
            "docid": "#a1b2c3",
            "file": "qmd://workspace/memory/2026-03-04.md",
            "title": "2026-03-04",
            "score": 0.87,
            "context": None,
            "line": 12,
            "snippet": "12: @@ -11,3 @@ (10 before, 4 after)\n13: ## Database\n14: \n15: We move to Postgres in April.",
        },
        {
            "docid": "#d4e5f6",
            "file": "workspace/MEMORY.md",
            "title": "Memory",
            "score": 0.5,
            "context": "long-term",
            "snippet": "7: Nadia prefers tea.",
        },
    ]
}
"""as the daemon answers POST /query; the second as its older versions do, without scheme and line"""


NEGATION = re.compile(r'-[\w"]')


class Daemon:
    """Behaves as QMD's HTTP daemon over some documents, each one memory."""

    def __init__(self) -> None:
        self.store = InMemory()
        self.files: dict[str, str] = {}
        self.collections = ["workspace"]
        self.says_status = True

    async def put(self, extracted: Extracted) -> None:
        event = extracted.event
        name = "MEMORY.md" if event.scope.audience == "private" else "notes.md"
        self.files[event.event_id] = f"qmd://workspace/{event.event_id}/{name}"
        plain = replace(event, scope=Scope(), speaker=None)
        await self.store.remember([Extracted(plain)])

    async def __call__(self, call: Call) -> None:
        if call.path == "/health":
            return await call.reply(b'{"status":"ok","uptime":42}')
        if call.headers["host"].partition(":")[0] not in ("localhost", "127.0.0.1"):
            refused = {"jsonrpc": "2.0", "error": {"code": -32003, "message": "Forbidden"}, "id": None}
            return await call.reply(orjson.dumps(refused), 403)
        if call.path == "/mcp":
            return await self.mcp(call)
        asked = call.json
        searches = asked.get("searches")
        if not isinstance(searches, list) or not searches:
            return await call.reply(b'{"error":"Missing required field: searches (array)"}', 400)
        for search in searches:
            wrong = "\n" in search["query"] or (search["type"] == "vec" and NEGATION.search(search["query"]))
            if set(search) != {"type", "query"} or search["type"] not in ("lex", "vec", "hyde") or wrong:
                return await call.reply(b'{"error":"bad search"}', 400)
        if not set(self.collections) & set(asked.get("collections", self.collections)):
            return await call.reply(b'{"results":[]}')
        text = " ".join(search["query"] for search in searches)
        hits = await self.store.search(Query(text, Scope(audience="private"), NOW, asked["limit"]))
        results = [self.result(number, hit) for number, hit in enumerate(hits)]
        return await call.reply(orjson.dumps({"results": results}))

    async def mcp(self, call: Call) -> None:
        """Its tool `status`, as version 2.8.3 replies; older ones refuse a request without a session."""
        params = call.json["params"]
        modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"] == call.headers["mcp-protocol-version"]
        named = (call.headers["mcp-method"], call.headers["mcp-name"]) == (call.json["method"], params["name"])
        if not (self.says_status and modern and named and params["name"] == "status"):
            refused = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "Missing session ID"}, "id": None}
            return await call.reply(orjson.dumps(refused), 400)
        rows = [
            {"name": name, "path": f"/home/ada/{name}", "pattern": "**/*.md", "documents": len(self.files)}
            for name in self.collections
        ]
        status = {"totalDocuments": len(self.files), "needsEmbedding": 0, "hasVectorIndex": False, "collections": rows}
        result = {"content": [{"type": "text", "text": "QMD Index Status:"}], "structuredContent": status}
        return await call.reply(orjson.dumps({"result": result, "jsonrpc": "2.0", "id": call.json["id"]}))

    def result(self, rank: int, hit: Hit) -> dict[str, Any]:
        lines = hit.text.split("\n")
        shown = [f"@@ -1,{len(lines)} @@ (0 before, 0 after)", *lines]
        return {
            "docid": f"#{hit.native_id[-6:]}",
            "file": self.files[hit.native_id],
            "title": "notes",
            "score": round(1 / (1 + rank), 2),
            "context": None,
            "line": 1,
            "snippet": "\n".join(f"{number}: {line}" for number, line in enumerate(shown, start=1)),
        }


class Echoing(Qmd):
    """QMD knows no events; here a document's folder is named after the one that it says."""

    async def search(self, query: Query) -> Sequence[Hit]:
        found = await super().search(query)
        return [replace(hit, event_id=hit.native_id.removeprefix("qmd://workspace/").split("/")[0]) for hit in found]


class TestQmd(RemoteBackendContract):
    """In front of a daemon that finds with the reference backend."""

    durable = False  # the documents are QMD's
    echoed = ("text",)  # a snippet says nothing else of what it is part of

    @pytest.fixture(autouse=True)
    async def server(self) -> AsyncIterator[Chaos]:
        self.daemon = Daemon()
        async with Chaos(behaviour=self.daemon) as server:
            self.url = server.url
            yield server

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await Echoing.open(opening_at(url, "qmd", folder))

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        for extracted in batch:
            await self.daemon.put(extracted)


async def qmd(url: str, **options: object) -> Qmd:
    return await Qmd.open(opening_at(url, "qmd", **options))


async def recorded(call: Call) -> None:
    await call.reply(orjson.dumps(RECORDED))


# What it is sent


@pytest.mark.row("A085", "A111", "QMD's daemon is asked by words and by vectors, and reranks only if configured")
@pytest.mark.row(
    "A111",
    "… its reranker is used with `rerank = true`; its HTTP routes offer no query expansion, so the "
    "words and the whole question are sent",
    of="QMD's daemon is asked by words",
)
async def test_a_question_is_sent_as_words_and_as_a_whole() -> None:
    """Without stop words to the full-text search; not reranked, and within its own bounds unless set otherwise."""
    async with Chaos(behaviour=recorded) as server:
        backend = await qmd(server.url)
        await backend.search(make_query("When do we move to Postgres?", limit=100))
        await backend.close()
        backend = await qmd(server.url, collections=["workspace"], rerank=True, limit=5, min_score=0.2)
        await backend.search(make_query("Postgres", limit=100))
        await backend.close()
    first, second = (call.json for call in server.calls)
    assert server.calls[0].path == "/query"
    assert first == {
        "searches": [
            {"type": "lex", "query": "move postgres"},
            {"type": "lex", "query": "move"},
            {"type": "lex", "query": "postgres"},
            {"type": "vec", "query": "When do we move to Postgres?"},
        ],
        "limit": 30,
        "minScore": 0.0,
        "rerank": False,
    }
    assert (second["collections"], second["rerank"], second["limit"], second["minScore"]) == (
        *(["workspace"], True),
        *(5, 0.2),
    )


@pytest.mark.parametrize(
    ("asked", "lex", "vec"),
    [
        ('"exact words" -not', "exact words", '"exact words" not'),  # "not" is a stop word
        ("a\nb\tc\0d", "b c", "a b c d"),
        ("co-op --force -x", "co op force x", "co op force x"),
        ("the of and", None, "the of and"),
        ("???", None, "???"),
    ],
)
def test_its_own_query_language_is_just_text(asked: str, lex: str | None, vec: str) -> None:
    """Quotes, negations and line ends: nothing of a question excludes anything, or is an error of QMD's."""
    searches = request_of(asked, 10, Options())["searches"]
    by_type = {search["type"]: search["query"] for search in reversed(searches)}
    assert (by_type.get("lex"), by_type["vec"]) == (lex, vec)


def test_each_of_eight_words_is_a_search_of_its_own() -> None:
    """QMD's full-text search wants every word of one, so a question in words of everyday finds nothing as a whole."""
    asked = "alpha bravo charlie delta echo foxtrot golf hotel india juliett"
    words = [search["query"] for search in request_of(asked, 10, Options())["searches"] if search["type"] == "lex"]
    assert words == [asked, *"alpha bravo charlie delta foxtrot hotel india juliett".split()]
    assert len(request_of("harbour", 10, Options())["searches"]) == 2


# What its replies mean


@pytest.mark.row(
    "A057",
    "A085",
    "… its replies are lines of documents; MEMORY.md is left out for groups",
    of="QMD's daemon is asked by words",
)
async def test_a_recorded_reply_is_its_hits() -> None:
    """Bare lines with their numbers, the day of a daily log, and MEMORY.md for no group."""
    async with Chaos(behaviour=recorded) as server:
        backend = await qmd(server.url)
        log, memory = await backend.search(make_query("Postgres?", Scope(audience="private")))
        in_group = await backend.search(make_query("Postgres?", Scope(audience="group")))
        await backend.close()
    path = "qmd://workspace/memory/2026-03-04.md"
    assert log == Hit(
        native_id=path,
        text="## Database\n\nWe move to Postgres in April.",
        score=0.87,
        at=Moment(datetime(2026, 3, 4, tzinfo=UTC), "day"),
        place=Place(path, 11, 13, "line"),
    )
    assert (memory.native_id, memory.text, memory.place, memory.scope.audience) == (
        *("qmd://workspace/MEMORY.md", "Nadia prefers tea."),
        *(Place("qmd://workspace/MEMORY.md", 7, 7, "line"), "private"),
    )
    assert list(in_group) == [log]


async def test_items_that_make_no_sense_are_counted_and_the_others_kept() -> None:
    """A reply of nothing else is invalid as a whole."""
    items: list[object] = [*RECORDED["results"], {"file": "x.md"}, {"file": 1, "snippet": "1: x"}, 7, None]

    async def mixed(call: Call) -> None:
        await call.reply(json.dumps({"results": items}).encode())

    async with Chaos(behaviour=mixed) as server:
        backend = await qmd(server.url)
        found = await backend.search(make_query("tea", Scope(audience="private")))
        assert isinstance(found, PartialHits)
        assert (len(found), found.dropped) == (2, 4)
        del items[:2]
        with pytest.raises(InvalidAnswer, match="none of 4 items"):
            await backend.search(make_query("tea"))
        await backend.close()


async def test_a_daemon_that_wants_another_name_says_so() -> None:
    """403 is no matter of a key, and the error has the fix."""

    async def forbidden(call: Call) -> None:
        await call.reply(b'{"jsonrpc":"2.0","error":{"code":-32003}}', 403)

    async with Chaos(behaviour=forbidden) as server:
        backend = await qmd(server.url)
        with pytest.raises(Unauthorized, match="localhost"):
            await backend.search(make_query("tea"))
        await backend.close()


@pytest.mark.feature("… its health is described", of="QMD's daemon is asked by words")
async def test_its_health_is_described() -> None:
    """Well, down with the command that starts it, or somebody else's port."""
    async with Chaos(behaviour=Daemon()) as server:
        backend = await qmd(server.url)
        assert not (await backend.describe()).degraded
        server.behaviour = recorded
        assert "not as QMD does" in (await backend.describe()).notes[0]
    down = await backend.describe()
    await backend.close()
    assert down.degraded
    assert "qmd mcp --http --daemon" in down.notes[0]


@pytest.mark.feature("… a collection that QMD does not have is named", of="QMD's daemon is asked by words")
async def test_a_collection_that_is_missing_is_named() -> None:
    """QMD finds nothing in it and says nothing: an empty answer fails, any other is degraded, both with the fix."""
    daemon = Daemon()
    await daemon.put(Extracted(make_event(1, "We move to Postgres in April.")))
    wrong = "QMD has no collection 'workspce', only: workspace; did you mean workspace? Fix: correct collections, or "
    async with Chaos(behaviour=daemon) as server:
        right, none, some = [
            await qmd(server.url, collections=names)
            for names in (["workspace"], ["workspce"], ["workspace", "workspce"])
        ]
        assert await right.search(make_query("harbour?")) == []
        with pytest.raises(BackendError, match=re.escape(wrong + "qmd collection add FOLDER --name workspce")):
            await none.search(make_query("Postgres?"))
        assert len(await some.search(make_query("Postgres?"))) == 1
        described = [await backend.describe() for backend in (right, none, some)]
        daemon.collections.clear()
        with pytest.raises(BackendError, match="QMD has no collection 'workspace', and no other"):
            await right.search(make_query("Postgres?"))
        for backend in (right, none, some):
            await backend.close()
    assert [(one.degraded, one.items) for one in described] == [(False, 1), (True, 0), (True, 1)]
    assert all(wrong in one.notes[0] for one in described[1:])


async def test_a_version_that_does_not_name_its_collections_is_believed() -> None:
    """An older QMD wants a session for its tools: nothing is known, so nothing is claimed."""
    daemon = Daemon()
    daemon.says_status = False
    async with Chaos(behaviour=daemon) as server:
        backend = await qmd(server.url, collections=["workspce"])
        assert await backend.search(make_query("Postgres?")) == []
        assert await backend.describe() == Description()
        server.behaviour = chaos.body(
            b'{"status":"ok","results":[],"result":{"structuredContent":{"collections":[7]}}}'
        )
        with pytest.raises(BackendError, match="and no other"):
            await backend.search(make_query("Postgres?"))
        await backend.close()


@pytest.mark.feature("… and the answer is degraded with that reason", of="QMD's daemon is asked by words")
async def test_an_answer_without_a_missing_collection_is_degraded(tmp_path: Path) -> None:
    """The receipt has the reason and the fix; the other memories count."""
    adapters: dict[str, dict[str, object]] = {"qmd": {"adapter": "adapters.qmd:Qmd", "collections": ["notes"]}}
    adapters["other"] = {"adapter": "adapters.inmemory:InMemory"}
    async with Chaos(behaviour=Daemon()) as server:
        adapters["qmd"] |= {"url": server.url, "connect_ms": PATIENT_MS}
        settings = load(home=tmp_path, backends_only=True, embedder={"adapter": ""}, backends=adapters)
        async with Gateway.open(settings) as gateway:
            await gateway.remember([NewMemory("We move to Postgres in April.")])
            await gateway.settle()
            fused = await gateway.fuse("When do we move to Postgres?")
            receipt = await gateway.receipt(fused.receipt_id)
    [row] = [row for row in receipt["backends"] if row["name"] == "qmd"]
    assert fused.degraded
    assert "April" in fused.block
    assert row["status"] == "invalid"
    assert "no collection 'notes', only: workspace. Fix: correct collections" in row["detail"]
    assert row["detail"] in fused.notes[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"urls": "x"},
        {"url": 1},
        {"rerank": "yes"},
        {"rerank": 1},
        {"limit": True},
        {"limit": 0},
        {"limit": 2.5},
        {"min_score": 2},
        {"collections": "workspace"},
        {"bound": {"project": "x"}},
        {"url": "ftp://x"},
    ],
)
async def test_an_option_that_makes_no_sense_is_named(options: dict[str, object]) -> None:
    """At the start, not at the first question."""
    with pytest.raises(SettingsError, match=next(iter(options))):
        await Qmd.open(Opening("qmd", Path("unused"), options))


# Our own index in its stead


@pytest.mark.row(
    "A085", "… the gateway's index of the same folder answers if it fails", of="QMD's daemon is asked by words"
)
async def test_our_index_answers_when_qmd_fails(tmp_path: Path) -> None:
    """The same folder behind both: QMD while it answers, ours when it does not, and the receipt names which."""
    vault = tmp_path / "workspace"
    vault.mkdir()
    (vault / "database.md").write_text("# Database\n\nWe move to Postgres in April.\n", encoding="utf-8")
    daemon = Daemon()
    await daemon.put(Extracted(make_event(1, "We move to Postgres in April.")))
    async with Chaos(behaviour=daemon) as server:
        settings = load(
            home=tmp_path / "home",
            backends_only=True,
            embedder={"adapter": ""},
            backends={
                "qmd": {"adapter": "adapters.qmd:Qmd", "url": server.url, "connect_ms": PATIENT_MS},
                "markdown": {
                    "adapter": "adapters.markdown:Markdown",
                    "paths": [str(vault)],
                    "fallback_for": "qmd",
                },
            },
        )
        async with Gateway.open(settings) as gateway:

            async def asked() -> tuple[dict[str, str], set[str]]:
                fused = await gateway.fuse("When do we move to Postgres?", timeout_ms=60_000)
                backends = {name for memory in fused.memories for one in memory.members for name in one.backends}
                return {row["name"]: row["status"] for row in fused.backends}, backends

            assert await asked() == ({"qmd": "ok", "markdown": "skipped"}, {"qmd"})
            faults = (
                (chaos.body(b"<html>"), "invalid"),
                (chaos.status(500), "http_error"),
                (chaos.reset_at_once, "unreachable"),
            )
            for fault, status in faults:
                server.behaviour = fault
                assert await asked() == ({"qmd": status, "markdown": "ok"}, {"markdown"})


def command(folder: Path, script: str) -> Path:
    """A command ``qmd`` in a folder of its own."""
    folder.mkdir()
    file = folder / "qmd"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return folder


@pytest.mark.feature("… and QMD indexes them if its command is installed", of="the job `extract` writes sessions")
async def test_reindex_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = await Qmd.open(opening_at("http://localhost:8181"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert await backend.reindex() == "not indexed: there is no command qmd here"
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{command(tmp_path / 'good', f'echo $1 >> {log}')}:/bin:/usr/bin")
    assert await backend.reindex() == "indexed"
    assert log.read_text().split() == ["update", "embed"]
    monkeypatch.setenv("PATH", f"{command(tmp_path / 'bad', 'echo no such collection >&2; exit 3')}:/bin:/usr/bin")
    with pytest.raises(BackendError, match=r"qmd update failed \(3\): no such collection"):
        await backend.reindex()
    await backend.close()
