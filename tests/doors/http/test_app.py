"""The HTTP door: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx
import pytest

from fusion.client import AsyncClient
from fusion.contract import Asker, Moment, Place, Scope, Where
from fusion.errors import (
    AlreadyReplaced,
    FusionError,
    KeyInUse,
    KeyReused,
    NobodyAnswered,
    Overloaded,
    StoreBusy,
    StoreDamaged,
    StoreFull,
)
from fusion.ingest.intake import Acknowledged, Replayed
from fusion.journal.listing import Criteria
from fusion.journal.retire import CompleteFile
from fusion.lib.ids import external_ref
from fusion.lib.request_rate import RequestCounts, RequestRates
from fusion.problem import error_of
from fusion.recall.gather import Answer
from fusion.settings import FlushSettings, KeySettings, ServerSettings, Settings
from tests.doors.contract import Checked
from tests.doors.fakes import COVERAGE, FakeFusion, app_over, until

PROBLEM = "application/problem+json"


def http(fusion: FakeFusion, settings: Settings | None = None, **options: Any) -> httpx.AsyncClient:
    transport = Checked(app_over(fusion, settings), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", **options)


def server(**values: Any) -> Settings:
    return Settings(server=ServerSettings(**values))


@pytest.fixture
def fusion() -> FakeFusion:
    return FakeFusion()


@pytest.fixture
async def client(fusion: FakeFusion) -> AsyncIterator[httpx.AsyncClient]:
    async with http(fusion) as client:
        yield client


def assert_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """Assert that a reply has this status and problem details; returns these."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


class TestFuse:
    @pytest.mark.feature("`/fuse` and `/v1/fuse` answer with one block, its memories, coverage and receipt")
    async def test_fuse_routes_return_the_block(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """`/fuse` and `/v1/fuse` are one route: the block, its memories, and how every backend did."""
        for path in ("/fuse", "/v1/fuse"):
            response = await client.post(path, json={"query": "database?"})
            assert response.status_code == 200
            body = response.json()
            assert body["block"] == "<memory>[m1z] We move to Postgres in April.</memory>"
            assert body["memories"][0]["members"][0]["ref"] == "m1z"
            assert body["coverage"] == COVERAGE
            assert body["receipt_id"] == "r1"
        assert len(fusion.requests) == 2

    async def test_fuse_passes_every_field_to_the_engine(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """What the body names is what the engine is asked; a date alone means until the end of that day."""
        body = {
            "query": "q",
            "user_id": "u",
            "agent_id": "a",
            "run_id": "r",
            "session_id": "s",
            "project": "p",
            "audience": "group",
            "as_of": "2026-03-14",
            "known_at": "2026-03-14T12:00:00+02:00",
            "timezone": "Europe/Berlin",
            "now": "2026-03-13T23:30:00Z",
            "where": {"tag": ["vip"], "property": {"type": "customer"}, "kind": "note", "before": "2026-03-14"},
            "budget_chars": 900,
            "budget_tokens": 250,
            "max_results": 3,
            "max_items": 5,
            "format": "long-term",
            "backends": ["markdown"],
            "recipe": "hook",
            "timeout_ms": 250,
            "explain": True,
            "asker": {"agent_id": "claude-code", "session_id": "s9", "channel": "telegram", "new_context": True},
        }
        assert (await client.post("/fuse", json=body)).status_code == 200
        [asked] = fusion.requests
        assert asked.scope.named() == {"user_id": "u", "agent_id": "a", "run_id": "r", "session_id": "s"}
        assert (asked.scope.project, asked.scope.audience) == ("p", "group")
        assert asked.as_of is not None
        assert asked.as_of.isoformat() == "2026-03-14T23:59:59.999999+00:00"
        assert asked.known_at is not None
        assert asked.known_at.isoformat() == "2026-03-14T10:00:00+00:00"
        assert (asked.timezone, asked.now) == ("Europe/Berlin", datetime(2026, 3, 13, 23, 30, tzinfo=UTC))
        end = datetime(2026, 3, 14, 23, 59, 59, 999999, tzinfo=UTC)
        assert asked.where == Where(tag=("vip",), property=(("type", "customer"),), kind=("note",), before=end)
        assert (asked.budget_chars, asked.budget_tokens) == (900, 250)
        assert (asked.max_results, asked.max_items, asked.format) == (3, 5, "long-term")
        assert asked.backends == ("markdown",)
        assert (asked.recipe, asked.timeout_ms, asked.explain) == ("hook", 250, True)
        assert asked.asker == Asker("claude-code", "s9", "telegram", new_context=True)

    async def test_fuse_refuses_a_time_zone_that_does_not_exist(self, client: httpx.AsyncClient) -> None:
        """In another zone the question would be about another day."""
        for name in ("Europe/Berlinn", "", "../etc/passwd"):
            problem = assert_problem(await client.post("/fuse", json={"query": "q", "timezone": name}), 422)
            assert "timezone" in problem["detail"]

    @pytest.mark.feature("who asks is named next to the scope, and filters nothing")
    async def test_asker_is_no_scope(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """A session that asks searches all memories; a misspelt field of it is refused with its name."""
        await client.post("/fuse", json={"query": "q", "asker": {"session_id": "s9"}})
        [asked] = fusion.requests
        assert asked.scope.named() == {}
        assert asked.asker == Asker(session_id="s9")
        problem = assert_problem(await client.post("/fuse", json={"query": "q", "asker": {"sesion_id": "s9"}}), 422)
        assert "asker.sesion_id" in problem["detail"]

    @pytest.mark.feature("the recipe decides what a request leaves out: the caller chooses a profile")
    async def test_fuse_leaves_defaults_to_the_recipe(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """A question alone is private and has no numbers of its own."""
        await client.post("/fuse", json={"query": "q"})
        [asked] = fusion.requests
        assert (asked.budget_chars, asked.max_results, asked.timeout_ms, asked.recipe) == (None, None, None, None)
        assert (asked.budget_tokens, asked.max_items, asked.format) == (None, None, None)
        assert (asked.scope.tenant, asked.scope.audience) == ("default", "private")

    async def test_fuse_replaces_a_lone_surrogate(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """What no JSON can carry becomes U+FFFD, instead of a 500."""
        fusion.text = "half a smile \ud83d"
        response = await client.post("/fuse", json={"query": "q"})
        assert response.status_code == 200
        assert response.json()["memories"][0]["members"][0]["text"] == "half a smile \ufffd" or "?" in response.text


class TestBadBodies:
    """Client row "NUL, surrogates, NaN, 1e400, deep JSON", and the limits on a query."""

    @pytest.mark.feature("an invalid request is a 422 problem that says what to change, never a 5xx")
    @pytest.mark.feature("a body that names a field twice is refused: parsers differ in which one they take")
    @pytest.mark.feature("NUL, surrogates, NaN, 1e400, deep JSON: 4xx, never 5xx", part="faults/clients")
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b'"query"',
            b"NaN",
            b'{"query": NaN}',
            b'{"query": "q", "budget_chars": 1e400}',
            b'{"query": "q", "budget_chars": 123456789012345678901234567890}',
            b'{"query": "\\ud800"}',
            b'{"query": "a\\u0000b"}',
            b'{"query": "q", "user_id": "a\\u0000b"}',
            b'{"query": "q", "\\u0000": 1}',
            b'{"query": "\xff\xfe"}',
            b"[" * 100_000,
            b'{"query":' * 20_000,
            b'{"query": 7}',
            b'{"query": "q", "explain": "yes"}',
            b'{"query": "q", "budget_chars": "6000"}',
            b'{"query": "q", "budget_chars": 0}',
            b'{"query": "q", "timeout_ms": -1}',
            b'{"query": "q", "as_of": "yesterday"}',
            b'{"query": "q", "as_of": "0001-01-01T00:00:00+14:00"}',
            b'{"query": "q", "now": "9999-12-31T23:59:59.999999Z"}',
            b'{"query": "q", "backends": []}',
            b'{"query": "q", "agent_id": ""}',
            b'{"query": ' + b"[" * 1000 + b"]" * 1000 + b"}",
            b'{"query": "q", "query": "r"}',
            b'{"query": "q", "qu\\u0065ry": "r"}',
            b'[{"text": "q"}, {"text": "q", "timeout_s": 1, "timeout_s": 1}]',
        ],
    )
    @pytest.mark.parametrize("path", ["/fuse", "/v1/search", "/v1/memories", "/v1/settle"])
    async def test_wrong_field_is_422_with_the_fix(
        self, client: httpx.AsyncClient, fusion: FakeFusion, path: str, body: bytes
    ) -> None:
        """Never a 5xx, and nothing gets behind the door."""
        response = await client.post(path, content=body, headers={"content-type": "application/json"})
        problem = assert_problem(response, 422)
        assert problem["type"] == "urn:memory-fusion:error:BadInput"
        assert not fusion.requests
        assert not fusion.kept

    @pytest.mark.parametrize("document", ["doc\n# x", "a\tb", "a\u200bb", "a\u202eb", "a\u2028b"])
    @pytest.mark.parametrize("field", ["document", "source", "user_id", "speaker"])
    async def test_ids_that_recall_cannot_cite_are_422(
        self, client: httpx.AsyncClient, fusion: FakeFusion, field: str, document: str
    ) -> None:
        """An id or a reference is one plain line: acknowledged otherwise, it would never be found again."""
        body = {"text": "t", "document": "d", "position": 1, field: document}
        problem = assert_problem(await client.post("/v1/memories", json=body), 422)
        assert problem["detail"].startswith(f"{field}: has a line break")
        assert not fusion.kept

    async def test_unknown_field_is_named(self, client: httpx.AsyncClient) -> None:
        """A misspelt field is an error, not a default taken in silence."""
        problem = assert_problem(await client.post("/fuse", json={"query": "q", "budget": 6000}), 422)
        assert problem["detail"] == "budget: there is no such field"

    async def test_errors_do_not_repeat_values(self, client: httpx.AsyncClient) -> None:
        """A message names the field and the rule; a secret in a wrong field does not come back in it."""
        response = await client.post("/fuse", json={"query": "q", "timeout_ms": "sk-secret"})
        assert assert_problem(response, 422)
        assert "sk-secret" not in response.text

    @pytest.mark.feature("an empty query is 422")
    @pytest.mark.feature("an empty query is 422; one of stop words asks no backend", part="faults/clients")
    @pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
    async def test_empty_query_is_422(self, client: httpx.AsyncClient, fusion: FakeFusion, blank: str) -> None:
        """Nothing asked: never a scan of everything. Nothing told: never an empty memory. Each says what to say."""
        problem = assert_problem(await client.post("/fuse", json={"query": blank}), 422)
        assert problem["detail"] == "query: is empty; say what to recall"
        problem = assert_problem(await client.post("/v1/search", json={"backend": "markdown", "query": blank}), 422)
        assert problem["detail"] == "query: is empty; say what to recall"
        problem = assert_problem(await client.post("/v1/memories", json={"text": blank}), 422)
        assert problem["detail"] == "text: is empty; say what to remember"
        assert not fusion.requests
        assert not fusion.kept

    @pytest.mark.feature(
        "a query of more than 4,000 characters is searched by its ends; above 32,000 it is a 413", part="faults/clients"
    )
    async def test_query_over_the_limit_is_413(self, client: httpx.AsyncClient) -> None:
        """4,001 characters reach the engine, which says that it took both ends; 32,001 are too many."""
        response = await client.post("/fuse", json={"query": "x" * 4001})
        assert response.json()["query_truncated"] is True
        response = await client.post("/v1/search", json={"backend": "markdown", "query": "x" * 32_001})
        assert assert_problem(response, 413)["type"].endswith("TooLarge")

    @pytest.mark.feature("SQL, Cypher, full-text and filter syntax are just text")
    @pytest.mark.feature("SQL, Cypher, full-text and filter syntax", part="faults/clients")
    @pytest.mark.parametrize(
        "query",
        [
            "'; DROP TABLE event; --",
            "MATCH (n) DETACH DELETE n",
            'text:* OR "a" NEAR/2 "b" NOT',
            '{"must": [{"key": "tenant", "match": {"value": "other"}}]}',
        ],
    )
    async def test_query_languages_are_just_text(
        self, client: httpx.AsyncClient, fusion: FakeFusion, query: str
    ) -> None:
        """SQL, Cypher, FTS and filter syntax reach the engine as the words they are."""
        assert (await client.post("/fuse", json={"query": query})).status_code == 200
        assert fusion.requests[0].query == query

    @pytest.mark.parametrize(
        "body", [b'{"query": "a: \\"b\\": {c: \\\\"}', b'{"query": ":", "user_id": "::"}', b' { "query" : "\\u003a" } ']
    )
    async def test_duplicate_field_check_ignores_colons_in_strings(
        self, client: httpx.AsyncClient, body: bytes
    ) -> None:
        """Only a duplicate name is refused, however odd the text is."""
        response = await client.post("/fuse", content=body, headers={"content-type": "application/json"})
        assert response.status_code == 200


class TestMemories:
    async def test_remember_takes_one_memory_or_many(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """201 with a ref for each when something was new, 200 when all was known; the key goes along."""
        response = await client.post("/v1/memories", json={"text": "a"}, headers={"Idempotency-Key": "k1"})
        assert response.status_code == 201
        kept = {"ref": "m0", "event_id": "e0", "status": "stored", "redacted": 0, "reason": ""}
        assert response.json()["memories"] == [{**kept, "supersedes": None, "said": 1}]
        response = await client.post("/v1/memories", json=[{"text": "a"}, {"text": "b"}])
        assert response.status_code == 201
        assert [m["status"] for m in response.json()["memories"]] == ["duplicate", "stored"]
        assert (await client.post("/v1/memories", json={"text": "b"})).status_code == 200
        assert [key for _, key, _ in fusion.kept] == ["k1", None, None, None]

    @pytest.mark.row("A152", "a replayed reply has its first status and says `Idempotent-Replayed`")
    async def test_remember_replay_repeats_the_first_reply(self) -> None:
        """The stored reply with its status, and a header for who wants to know; a first reply has none."""

        class Replaying(FakeFusion):
            async def remember(self, items: Any, **options: Any) -> Any:
                return Replayed([Acknowledged("m1", "e1", "stored")])

        async with http(Replaying()) as client:
            again = await client.post("/v1/memories", json={"text": "a"}, headers={"Idempotency-Key": "k1"})
        assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
        assert again.json()["memories"][0]["ref"] == "m1"
        async with http(FakeFusion()) as client:
            first = await client.post("/v1/memories", json={"text": "a"}, headers={"Idempotency-Key": "k1"})
        assert "idempotent-replayed" not in first.headers

    @pytest.mark.feature("… and `PATCH /v1/memories/{ref}`", of="`fusion update` replaces a memory")
    async def test_patch_sends_what_changes(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """The reply has both refs and the id that undoes it; what is not JSON is refused, as in a POST."""
        reply = await client.patch("/v1/memories/m1z", json={"text": "a", "user_id": "u", "valid_to": "2026-02-01"})
        assert (reply.status_code, reply.json()["ref"], reply.json()["supersedes"]) == (200, "m20", "m1z")
        assert reply.json()["batch"] == "update-m20"
        [(change, scope)] = fusion.changes
        assert (change.text, change.valid_to, scope.user_id) == ("a", datetime(2026, 2, 1, tzinfo=UTC), "u")
        assert assert_problem(await client.patch("/v1/memories/m2z", json={"text": "a"}), 404)
        assert assert_problem(await client.patch("/v1/memories/m1z", json={"user_id": "u"}), 422)
        assert assert_problem(await client.patch("/v1/memories/m1z", content=b"text=a"), 415)

    async def test_patch_of_a_replaced_memory_names_the_newest(self) -> None:
        """For the client, the error has it as well."""

        class Replaced(FakeFusion):
            async def update(self, *given: Any, **options: Any) -> Any:
                raise AlreadyReplaced("m1 was replaced by m2 since", "m2")

        async with http(Replaced()) as client:
            reply = await client.patch("/v1/memories/m1", json={"text": "a"})
        assert assert_problem(reply, 409)["current"] == "m2"
        error = error_of(reply.json(), 409)
        assert isinstance(error, AlreadyReplaced)
        assert error.details == {"current": "m2"}

    @pytest.mark.feature(
        "`GET /v1/memories` and `fusion memories` list the stored memories, newest first, page by page"
    )
    async def test_memories_are_listed_by_page(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """The query string says whose, which and how many; what it leaves out does not filter."""
        asked = {"user_id": "u", "document": "d", "source": "s", "limit": "7", "cursor": "c1"}
        page = (await client.get("/v1/memories", params=asked)).json()
        assert page["next_cursor"] is None
        assert (await client.get("/v1/memories")).json()["next_cursor"] == "c1"
        mine, all_of_it = fusion.listed
        assert mine == (Scope(user_id="u", audience="private"), 7, "c1", "d", "s")
        assert all_of_it == (Scope(audience="private"), 20, None, None, None)

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ({"limit": "0"}, "limit: "),
            ({"limit": "101"}, "limit: "),
            ({"limit": "1e2"}, "limit: "),
            ({"limit": "٣"}, "limit: "),
            ({"cursor": "nonsense"}, "cursor: it is invalid"),
            ({"cursor": ""}, "cursor: is empty"),
            ({"offset": "20"}, "offset: there is no such field"),
            ([("limit", "1"), ("limit", "2")], "A parameter is given twice."),
        ],
    )
    async def test_memories_with_unknown_cursor_is_422(self, client: httpx.AsyncClient, asked: Any, says: str) -> None:
        """A limit that is none, a cursor of nobody's, a misspelt parameter."""
        assert assert_problem(await client.get("/v1/memories", params=asked), 422)["detail"].startswith(says)

    async def test_remember_keeps_none_when_one_is_invalid(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """Never half a batch; the message says which."""
        problem = assert_problem(await client.post("/v1/memories", json=[{"text": "a"}, {"text": ""}]), 422)
        assert problem["detail"].startswith("[1].text:")
        assert not fusion.kept

    async def test_remember_requires_position_with_document(self, client: httpx.AsyncClient) -> None:
        """Without one, all memories of a document would be one memory."""
        for body in ({"document": "d"}, {"position": 1}, {"document": "d", "position": 4, "end": 3}):
            assert assert_problem(await client.post("/v1/memories", json={"text": "a", **body}), 422)

    async def test_remember_passes_every_field_to_intake(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """Place, time and scope as they were written; a memory is for a group unless it says otherwise."""
        body = {
            "text": "a",
            "user_id": "u",
            "kind": "decision",
            "speaker": "Nadia",
            "at": "2026-03",
            "document": "d",
            "position": 4,
            "end": 6,
            "unit": "line",
            "source": "s",
            "revision": "r",
            "origin": "agent",
            "valid_from": "2026-03-01",
            "supersedes": "m1",
        }
        assert (await client.post("/v1/memories", json=body)).status_code == 201
        [(item, _, _)] = fusion.kept
        assert item.at == Moment(datetime(2026, 3, 1, tzinfo=UTC), "month")
        assert item.place == Place("d", 4, 6, "line")
        assert item.valid_from == datetime(2026, 3, 1, tzinfo=UTC)
        assert (item.scope.user_id, item.scope.audience) == ("u", "group")
        assert (item.kind, item.speaker, item.source, item.revision) == ("decision", "Nadia", "s", "r")
        assert (item.origin, item.trust, item.supersedes) == ("agent", "unknown", "m1")

    async def test_remember_takes_at_most_100(self, client: httpx.AsyncClient) -> None:
        """101 are refused with the number that would do."""
        problem = assert_problem(await client.post("/v1/memories", json=[{"text": "a"}] * 101), 422)
        assert "100" in problem["detail"]

    @pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
    async def test_remember_refuses_a_bad_idempotency_key(self, client: httpx.AsyncClient, key: str) -> None:
        """1 to 255 printable ASCII characters."""
        headers = {"Idempotency-Key": key.encode("latin-1")}
        response = await client.post("/v1/memories", json={"text": "a"}, headers=headers)  # type: ignore[arg-type]
        assert "Idempotency-Key" in assert_problem(response, 422)["detail"]

    @pytest.mark.row("A125", "a memory is read and forgotten by the ref that the block cites")
    async def test_memory_is_read_and_forgotten_by_ref(self, client: httpx.AsyncClient) -> None:
        """By ref; the scope is in the query string, and a misspelt part of it is an error."""
        assert (await client.get("/v1/memories/m1z", params={"user_id": "u"})).json()["ref"] == "m1z"
        assert (await client.delete("/v1/memories/m1z")).json()["backends"] == {"markdown": "hidden"}
        problem = assert_problem(await client.delete("/v1/memories/m1z", params={"user": "u"}), 422)
        assert problem["detail"] == "user: there is no such field"

    @pytest.mark.feature("any ref of another owner, paths included, is the same 404")
    @pytest.mark.parametrize(
        "ref",
        ["m9", "../../etc/passwd", "%2e%2e%2fetc%2fpasswd", "%2Fetc%2Fpasswd", "~", "a%00b", "a%5Cb", "x" * 600, ""],
    )
    async def test_unknown_ref_is_404(self, client: httpx.AsyncClient, ref: str) -> None:
        """Traversal, NUL, backslash and nonsense all get the answer of a memory that does not exist."""
        for method in ("GET", "DELETE"):
            problem = assert_problem(await client.request(method, f"/v1/memories/{ref}"), 404)
            assert set(problem) == {"type", "title", "status", "detail"}


class TestOtherRoutes:
    @pytest.mark.row("A125", "`/v1/search` asks one backend and shows its raw hits")
    async def test_search_gives_raw_hits(self, client: httpx.AsyncClient) -> None:
        """One backend's hits as it found them; a score that is no number is null."""
        body = (await client.post("/v1/search", json={"backend": "markdown", "query": "q", "limit": 5})).json()
        assert body["backend"]["status"] == "ok"
        assert body["hits"][0]["score"] is None
        assert body["hits"][0]["ref"] == external_ref("markdown", "n1")
        assert_problem(await client.post("/v1/search", json={"backend": "nope", "query": "q"}), 422)

    async def test_failed_search_has_retry_after(self) -> None:
        """503 with the backend's own word and the time until its breaker lets one through."""

        class Down(FakeFusion):
            async def search(self, backend: str, query: str, scope: Scope, **options: Any) -> Answer:
                return Answer(backend, "open", detail="it is left alone for another 7 s")

        async with http(Down()) as client:
            response = await client.post("/v1/search", json={"backend": "markdown", "query": "q"})
        problem = assert_problem(response, 503)
        assert problem["detail"] == "markdown did not answer (open): it is left alone for another 7 s"
        assert problem["backends"][0]["status"] == "open"
        assert response.headers["retry-after"] == "7"

    async def test_a_flush_is_planned_by_the_settings_and_what_the_caller_knows(self, fusion: FakeFusion) -> None:
        """The file's numbers and zone, each replaced by the request's; a threshold of nothing is a 422."""
        session = {"context_window": 100_000, "total_tokens": 75_000, "message": "x" * 4_000}
        chosen = Settings(flush=FlushSettings(zone="Asia/Tokyo", prompt="Save."))
        async with http(fusion, chosen) as client:
            plan = (await client.post("/v1/flush/plan", json=session)).json()
            assert (plan["flush"], plan["reason"], plan["expected_tokens"]) == (True, "tokens", 76_000)
            assert (plan["zone"], plan["prompt"].splitlines()[0]) == ("Asia/Tokyo", "Save.")
            assert plan["rules"]["force_transcript_bytes"] == 0
            given = {"soft_threshold_tokens": 3_000, "zone": "UTC", "force_transcript_bytes": 5}
            plan = (await client.post("/v1/flush/plan", json={**session, **given})).json()
            assert (plan["reason"], plan["threshold_tokens"], plan["zone"]) == ("not_yet", 77_000, "UTC")
            plan = (await client.post("/v1/flush/plan", json={**session, **given, "transcript_bytes": 5})).json()
            assert plan["reason"] == "transcript"
            for wrong in ({"context_window": 24_000}, {"context_window": 10**6, "zone": "Mars"}, {"total_tokens": 1}):
                assert_problem(await client.post("/v1/flush/plan", json=wrong), 422)
        async with AsyncClient.over(Checked(app_over(fusion))) as memory:
            assert (await memory.flush_plan(200_000, total_tokens=176_000))["flush"]

    @pytest.mark.feature("`/v1/backends`, `/v1/receipts/{id}`, `/healthz` and `/readyz` answer as documented")
    async def test_backends_receipts_and_probes(self, client: httpx.AsyncClient) -> None:
        """The small routes."""
        assert (await client.get("/v1/backends")).json()["backends"][0]["name"] == "markdown"
        status = (await client.get("/v1/status")).json()
        assert status["backends"][0]["breaker"] == "closed"
        assert status["requests"] == {"in_flight": 0, "queued": 0}
        assert (await client.get("/v1/receipts/r1")).json()["tenant"] == "default"
        assert_problem(await client.get("/v1/receipts/r2"), 404)
        assert (await client.get("/healthz")).json()["status"] == "ok"
        assert (await client.get("/readyz")).json() == {"ready": True, "backends": {"memory": "ready"}, "notes": []}

    async def test_settle_reports_whether_it_was_in_time(self) -> None:
        """Bounded by the caller's patience."""
        hold = asyncio.Event()
        async with http(FakeFusion(hold=hold)) as client:
            assert (await client.post("/v1/settle", json={"timeout_s": 0.01})).json()["settled"] is False
            hold.set()
            assert (await client.post("/v1/settle", json={"timeout_s": 60})).json()["settled"] is True

    @pytest.mark.feature("a waiting request (`/v1/settle`) uses no slot of the requests in flight")
    async def test_settle_holds_no_place_in_flight(self) -> None:
        """A settle that waits leaves the one place to who works; as many as there are places may wait, one more not."""
        hold = asyncio.Event()
        fusion = FakeFusion()
        app = app_over(fusion, server(max_in_flight=1, max_queued=0))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            fusion.hold = hold
            settling = asyncio.create_task(client.post("/v1/settle", json={"timeout_s": 60}))
            await until(lambda: app.waiting == 1)
            assert app.idle_s() == 0
            fusion.hold = None
            assert (await client.post("/fuse", json={"query": "q"})).status_code == 200
            problem = await client.post("/v1/settle", json={"timeout_s": 60})
            assert assert_problem(problem, 503)["type"].endswith("Overloaded")
            assert problem.headers["retry-after"] == "1"
            hold.set()
            assert (await settling).json()["settled"] is True
        assert app.waiting == 0

    async def test_drain_ends_waiting_requests(self) -> None:
        """A settle ends at once, unsettled, whether it came before or after."""
        app = app_over(fusion := FakeFusion(hold=asyncio.Event()))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            settling = asyncio.create_task(client.post("/v1/settle", json={"timeout_s": 600}))
            await fusion.asked.wait()
            app.drain()
            assert (await settling).json()["settled"] is False
            assert (await client.post("/v1/settle", json={"timeout_s": 600})).json()["settled"] is False

    async def test_draining_server_is_not_ready_and_still_answers(self, fusion: FakeFusion) -> None:
        """Told to stop: 503 for the balancer, answers for who is on the way."""
        app = app_over(fusion)
        app.draining = True
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            ready = await client.get("/readyz")
            assert ready.status_code == 503
            assert (ready.json()["ready"], ready.json()["reason"]) == (False, "the server is stopping")
            assert ready.headers["retry-after"] == "1"
            answered = await client.post("/fuse", json={"query": "q"})
            assert (answered.status_code, answered.headers["connection"]) == (200, "close")

    async def test_unknown_route_is_404_and_wrong_method_405(self, client: httpx.AsyncClient) -> None:
        """HTTP's own errors are problem details too, and 405 keeps its Allow."""
        assert assert_problem(await client.get("/nope"), 404)["type"] == "about:blank"
        response = await client.get("/fuse")
        assert_problem(response, 405)
        assert response.headers["allow"] == "POST"
        assert (await client.put("/v1/memories")).headers["allow"] == "GET, POST"


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (NobodyAnswered("no backend answered", {"coverage": COVERAGE}, retry_after_s=5), 503),
            (Overloaded("busy"), 503),
            (StoreBusy("locked", retry_after_s=0.2), 503),
            (StoreFull("no space left"), 507),
            (StoreDamaged("broken"), 500),
            (KeyReused("another body"), 422),
            (KeyInUse("still under way"), 409),
        ],
    )
    async def test_each_error_has_its_status(self, error: FusionError, status: int) -> None:
        """The statuses of the error tree; Retry-After is in whole seconds, at least one."""
        async with http(FakeFusion(error=error)) as client:
            response = await client.post("/fuse", json={"query": "q"})
        problem = assert_problem(response, status)
        assert problem["type"].endswith(type(error).__name__)
        if hasattr(error, "retry_after_s"):
            assert int(response.headers["retry-after"]) >= 1
        if isinstance(error, NobodyAnswered):
            assert problem["coverage"] == COVERAGE

    async def test_internal_error_is_500_without_its_text(self) -> None:
        """A bug tells the caller where the log speaks of it, and nothing else."""
        async with http(FakeFusion(error=ZeroDivisionError("secret"))) as client:
            response = await client.post("/fuse", json={"query": "q"}, headers={"X-Request-ID": "abc"})
        problem = assert_problem(response, 500)
        assert "abc" in problem["detail"]
        assert "secret" not in response.text
        assert response.headers["x-request-id"] == "abc"


class TestGate:
    @pytest.mark.feature("every reply has X-Request-ID, Server-Timing and security headers")
    async def test_every_reply_has_id_timing_and_security_headers(self, client: httpx.AsyncClient) -> None:
        """Answers and refusals alike; a sane request id is kept, another replaced."""
        for path in ("/healthz", "/nope"):
            headers = (await client.get(path, headers={"X-Request-ID": "a.b-C_1"})).headers
            assert headers["x-request-id"] == "a.b-C_1"
            assert headers["server-timing"].startswith("total;dur=")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["cache-control"] == "no-store"
        insane = (await client.get("/healthz", headers={"X-Request-ID": "a b<script>"})).headers["x-request-id"]
        assert insane != "a b<script>"
        assert len(insane) == 32

    async def test_server_timing_has_the_engines_share(self, client: httpx.AsyncClient) -> None:
        """`fuse` and `total` in one header."""
        [timing] = (await client.post("/fuse", json={"query": "q"})).headers.get_list("server-timing")
        assert [t.split(";")[0] for t in timing.split(", ")] == ["fuse", "total"]

    @pytest.mark.feature("Host allow-list: a rebound DNS name is refused")
    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/v1/backends", "/v1/status", "/nope"])
    async def test_unknown_host_is_421_on_every_route(self, client: httpx.AsyncClient, path: str) -> None:
        """DNS rebinding: a page that made its name point here gets nothing."""
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8765", ""):
            assert_problem(await client.get(path, headers={"Host": host}), 421)

    @pytest.mark.feature("a `Host` with anything but a port after its name is refused")
    @pytest.mark.parametrize("host", ["127.0.0.1:1@evil.example", "localhost:8765/evil", "[::1]:x", "localhost:1:2"])
    async def test_a_host_with_anything_but_a_port_after_its_name_is_421(
        self, client: httpx.AsyncClient, host: str
    ) -> None:
        """A URL parser reads the part before an @ as the user, and the rest as the host."""
        assert_problem(await client.get("/healthz", headers={"Host": host}), 421)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8765", "127.0.0.1:1", "[::1]:8765", "memory.lan"])
    async def test_allowed_hosts_are_accepted(self, fusion: FakeFusion, host: str) -> None:
        """Loopback in each spelling, and what the settings add."""
        async with http(fusion, server(allowed_hosts=("memory.lan",))) as client:
            assert (await client.get("/healthz", headers={"Host": host})).status_code == 200

    @pytest.mark.feature("Origin allow-list: a web page is refused")
    async def test_unknown_origin_is_403_on_every_route(self, fusion: FakeFusion) -> None:
        """A page of another site may not call us; one of ours, or one on the list, may."""
        async with http(fusion, server(allowed_origins=("https://notes.example",))) as client:
            for path in ("/healthz", "/v1/backends", "/nope"):
                for origin in ("https://evil.example", "null", "http://localhost:3000", "https://notes.example.evil"):
                    assert_problem(await client.get(path, headers={"Origin": origin}), 403)
            for origin in ("http://localhost", "https://notes.example"):
                assert (await client.get("/v1/backends", headers={"Origin": origin})).status_code == 200

    @pytest.mark.feature("CORS: a page of an allowed origin asks with its key; its preflight needs none")
    async def test_page_of_an_allowed_origin_may_ask_and_read(self, fusion: FakeFusion) -> None:
        """A browser asks first whether it may send the key; a refusal is readable as well."""
        settings = server(
            allowed_origins=("https://notes.example/",),
            keys=(KeySettings(name="notes", sha256=sha256(b"k-notes").hexdigest()),),
        )
        page = {"Origin": "https://notes.example"}
        wanted = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
        }
        async with http(fusion, settings) as client:
            before = await client.options("/v1/fuse", headers={**page, **wanted})
            answered = await client.post(
                "/fuse", json={"query": "q"}, headers={**page, "Authorization": "Bearer k-notes"}
            )
            refused = await client.post("/fuse", json={"query": "q"}, headers=page)
        assert [before.status_code, answered.status_code, refused.status_code] == [200, 200, 401]
        for reply in (before, answered, refused):
            assert reply.headers["access-control-allow-origin"] == "https://notes.example"
            assert "origin" in reply.headers["vary"].lower()
            assert "access-control-allow-credentials" not in reply.headers
        assert "Authorization" in before.headers["access-control-allow-headers"]
        assert "Retry-After" in answered.headers["access-control-expose-headers"]
        assert len(fusion.requests) == 1

    @pytest.mark.feature("CORS: preflights from other origins, rebound names and pages without an origin are refused")
    async def test_preflight_of_another_origin_or_host_is_refused(self, fusion: FakeFusion) -> None:
        wanted = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        async with http(fusion, server(allowed_origins=("https://notes.example",))) as client:
            for origin in ("https://evil.example", "null", "http://notes.example", "https://notes.example:8443", "*"):
                reply = await client.options("/v1/fuse", headers={"Origin": origin, **wanted})
                assert_problem(reply, 403)
                assert "access-control-allow-origin" not in reply.headers
            rebound = {"Origin": "https://notes.example", "Host": "evil.example"}
            assert_problem(await client.options("/v1/fuse", headers={**rebound, **wanted}), 421)
            odd = {**wanted, "Origin": "https://notes.example", "access-control-request-headers": "x-fusion-reader"}
            assert (await client.options("/v1/fuse", headers=odd)).status_code == 400

    async def test_page_of_the_servers_own_origin_gets_no_cors(self, fusion: FakeFusion) -> None:
        async with http(fusion, server(allowed_origins=("https://notes.example",))) as client:
            reply = await client.get("/healthz", headers={"Origin": "http://localhost"})
        assert reply.status_code == 200
        assert "access-control-allow-origin" not in reply.headers

    async def test_replies_have_no_cors_headers(self, client: httpx.AsyncClient) -> None:
        """No reply invites another origin."""
        response = await client.get("/healthz", headers={"Origin": "http://localhost"})
        assert not [name for name in response.headers if name.startswith("access-control-")]

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
    async def test_body_must_be_json(self, client: httpx.AsyncClient, kind: str) -> None:
        """A form that a foreign page can post without asking is 415."""
        assert_problem(await client.post("/fuse", content=b'{"query": "q"}', headers={"content-type": kind}), 415)

    async def test_json_with_a_charset_is_json(self, client: httpx.AsyncClient) -> None:
        """Parameters of the media type do not matter."""
        headers = {"content-type": "Application/JSON; charset=utf-8"}
        assert (await client.post("/fuse", content=b'{"query": "q"}', headers=headers)).status_code == 200

    async def test_compressed_bodies_are_refused(self, client: httpx.AsyncClient) -> None:
        """No decompression, so no bomb."""
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        assert_problem(await client.post("/fuse", content=b"x", headers=headers), 415)

    @pytest.mark.feature("an API key gives access and names its tenant")
    async def test_api_key_names_the_tenant(self, fusion: FakeFusion) -> None:
        """Without or with a wrong key 401 and how to do it; with one, the tenant is the key's."""
        digest = sha256(b"k-acme").hexdigest()
        settings = server(keys=(KeySettings(name="acme", sha256=digest, tenant="acme"),))
        async with http(fusion, settings) as client:
            for value in (None, "Bearer wrong", "Basic k-acme", "Bearer", "k-acme"):
                headers = {} if value is None else {"Authorization": value}
                response = await client.post("/fuse", json={"query": "q"}, headers=headers)
                assert_problem(response, 401)
                assert response.headers["www-authenticate"].startswith("Bearer")
            response = await client.post("/fuse", json={"query": "q"}, headers={"Authorization": "Bearer k-acme"})
            assert response.status_code == 200
            assert (await client.get("/healthz")).status_code == 200
        assert [request.scope.tenant for request in fusion.requests] == ["acme"]

    async def test_the_home_token_opens_the_tenant_default_next_to_keys(self, fusion: FakeFusion) -> None:
        """This machine's clients get in by the token of server.json."""
        settings = server(keys=(KeySettings(name="acme", sha256="0" * 64, tenant="acme"),))
        app = app_over(fusion, settings, local_token="t0ken")
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            headers = {"Authorization": "Bearer t0ken"}
            assert (await client.post("/fuse", json={"query": "q"}, headers=headers)).status_code == 200
        assert fusion.requests[0].scope.tenant == "default"

    @pytest.mark.feature("too many requests at once get 503 with Retry-After")
    async def test_too_many_at_once_is_503_with_retry_after(self) -> None:
        """Two in flight and one in the queue; the fourth is sent away at once, the others are answered."""
        hold = asyncio.Event()
        fusion = FakeFusion(hold=hold)
        app = app_over(fusion, server(max_in_flight=2, max_queued=1))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            first = [asyncio.create_task(client.post("/fuse", json={"query": "q"})) for _ in range(3)]
            await until(lambda: (app.in_flight, app.queued) == (2, 1))
            response = await client.post("/fuse", json={"query": "q"})
            assert assert_problem(response, 503)["type"].endswith("Overloaded")
            assert response.headers["retry-after"] == "1"
            assert (await client.get("/healthz")).status_code == 200
            hold.set()
            assert [r.status_code for r in await asyncio.gather(*first)] == [200, 200, 200]
        assert (app.in_flight, app.queued) == (0, 0)

    async def test_a_tenant_that_fills_the_queue_leaves_room_for_others(self) -> None:
        """Its newest request is refused for that, and the next place is the other tenant's."""
        keys = tuple(KeySettings(name=n, sha256=sha256(n.encode()).hexdigest(), tenant=n) for n in ("acme", "globex"))
        hold = asyncio.Event()
        fusion = FakeFusion(hold=hold)
        app = app_over(fusion, server(keys=keys, max_in_flight=1, max_queued=2))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:

            def ask(tenant: str) -> asyncio.Task[httpx.Response]:
                key = {"Authorization": f"Bearer {tenant}"}
                return asyncio.create_task(client.post("/fuse", json={"query": tenant}, headers=key))

            flood = [ask("acme") for _ in range(3)]
            await until(lambda: (app.in_flight, app.queued) == (1, 2))
            quiet = ask("globex")
            last = await flood[2]
            assert assert_problem(last, 503)["type"].endswith("Overloaded")
            assert (app.in_flight, app.queued) == (1, 2)
            hold.set()
            assert [one.status_code for one in await asyncio.gather(*flood[:2], quiet)] == [200, 200, 200]
        assert [request.query for request in fusion.requests] == ["acme", "globex", "acme"]
        assert (app.in_flight, app.queued) == (0, 0)

    @pytest.mark.feature(
        "`[server] requests_per_minute` limits the requests of each tenant, over all gateways of a database: any more "
        "get 429 with Retry-After"
    )
    async def test_a_tenant_that_used_its_minute_up_is_sent_away(self) -> None:
        """Two a minute: the third waits for the end of this minute, and until one of them has left. Another tenant is
        answered, so are probes, and a request with a wrong key counts for nobody."""
        keys = tuple(KeySettings(name=n, sha256=sha256(n.encode()).hexdigest(), tenant=n) for n in ("acme", "globex"))
        fusion = FakeFusion()
        fusion.rates = RequestRates(2, RequestCounts().exchange)
        app = app_over(fusion, server(keys=keys))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:

            async def ask(key: str) -> httpx.Response:
                return await client.post("/fuse", json={"query": "q"}, headers={"Authorization": f"Bearer {key}"})

            assert [(await ask(key)).status_code for key in ("wrong", "acme", "acme")] == [401, 200, 200]
            refused = await ask("acme")
            assert assert_problem(refused, 429)["type"].endswith("TooManyRequests")
            assert 30 <= int(refused.headers["retry-after"]) <= 90
            assert (await ask("globex")).status_code == 200
            assert (await client.get("/healthz")).status_code == 200
        assert len(fusion.requests) == 3

    @pytest.mark.feature(
        "… `/v1/status` counts the requests of the caller's tenant alone", of="each tenant has its own journal"
    )
    async def test_status_counts_the_requests_of_the_callers_tenant_alone(self) -> None:
        """While globex has one question under way, acme sees none; the owner sees how busy the machine is."""
        names = ("acme", "globex", "default")
        keys = tuple(KeySettings(name=n, sha256=sha256(n.encode()).hexdigest(), tenant=n) for n in names)
        hold = asyncio.Event()
        app = app_over(FakeFusion(hold=hold), server(keys=keys))
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            key = {name: {"Authorization": f"Bearer {name}"} for name in names}
            asked = asyncio.create_task(client.post("/fuse", json={"query": "q"}, headers=key["globex"]))
            await until(lambda: app.in_flight == 1)
            seen = {n: (await client.get("/v1/status", headers=key[n])).json()["requests"] for n in ("acme", "default")}
            assert seen == {"acme": {"in_flight": 0, "queued": 0}, "default": {"in_flight": 1, "queued": 0}}
            hold.set()
            assert (await asked).status_code == 200

    @pytest.mark.feature(
        "… also a request that gets no slot in time, or no turn to compute",
        of="too many requests at once get",
    )
    async def test_queued_request_is_503_after_its_wait(self) -> None:
        """503 with Retry-After, and its room in the queue is free again; who has the place is answered."""
        hold = asyncio.Event()
        app = app_over(FakeFusion(hold=hold), server(max_in_flight=1, max_queued=1))
        app.rules = replace(app.rules, queued_s=0.0)
        async with httpx.AsyncClient(transport=Checked(app), base_url="http://localhost") as client:
            first = asyncio.create_task(client.post("/fuse", json={"query": "q"}))
            await until(lambda: app.in_flight == 1)
            response = await client.post("/fuse", json={"query": "q"})
            assert assert_problem(response, 503)["detail"].startswith("No place was free within 0 s")
            assert response.headers["retry-after"] == "1"
            assert app.queued == 0
            hold.set()
            assert (await first).status_code == 200
        assert app.in_flight == 0


class TestForgetting:
    async def test_forget_passes_criteria_to_the_gateway(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """A date is its beginning; what is not said does not narrow; a preview forgets nothing."""
        body = {"source": "mail", "after": "2026-03", "before": "2026-04-01", "time": "recorded", "dry_run": True}
        reply = await client.post("/v1/forget", json={**body, "user_id": "nadia", "limit": 7})
        assert reply.status_code == 200
        assert reply.json() == {
            "dry_run": True,
            "found": [
                {
                    "ref": "m1z",
                    "text": fusion.text,
                    "backends": ["markdown"],
                    "at": None,
                    "source": None,
                    "same_as": None,
                    "quarantined": False,
                }
            ],
            "receipts": [],
            "missing": [],
            "done": True,
            "pending": 0,
            "more": False,
            "next_cursor": None,
            "released": [],
        }
        [asked] = fusion.forgettings
        march, april = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 4))
        assert asked.criteria == Criteria("mail", None, march, april, recorded=True)
        assert (asked.scope.user_id, asked.limit, asked.dry_run) == ("nadia", 7, True)

    @pytest.mark.feature("… an omitted field never forgets everything", of="forgetting by a question skips")
    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ({"user_id": "nadia"}, "Say what to forget"),
            ({"refs": ["m1"], "source": "mail"}, "refs cannot be combined"),
            ({"refs": []}, "refs"),
            ({"refs": ["m1"] * 101}, "refs"),
            ({"query": " "}, "query"),
            ({"source": ""}, "source"),
            ({"before": "soon"}, "before: is no time"),
            ({"before": "2026", "time": "someday"}, "time"),
            ({"source": "mail", "limit": 101}, "limit"),
            ({"everything": True}, "everything: there is no such field"),
        ],
    )
    async def test_forget_without_or_with_mixed_criteria_is_422(
        self, client: httpx.AsyncClient, fusion: FakeFusion, body: dict[str, object], why: str
    ) -> None:
        """A user alone is all that they have: that is not forgotten by leaving something out."""
        reply = await client.post("/v1/forget", json=body)
        assert reply.status_code == 422
        assert why in reply.json()["detail"]
        assert fusion.forgettings == []

    async def test_forgotten_sources_and_retire_routes(self, client: httpx.AsyncClient, fusion: FakeFusion) -> None:
        """Each is one call; a file's current sections are stated by its revisions."""
        fusion.kept_sources = {"file:/a.md", "mail"}
        assert (await client.get("/v1/forgotten?user_id=nadia")).json()["forgotten"][0]["ref"] == "m1z"
        assert (await client.get("/v1/sources?prefix=file:/")).json() == {
            "sources": [{"source": "file:/a.md", "memories": 1}]
        }
        body = {"files": [{"source": "file:/a.md", "keep": ["r1"]}], "dry_run": True}
        reply = await client.post("/v1/retire", json=body)
        assert reply.json() == {"retired": 1, "sources": {"file:/a.md": 1}, "dry_run": True}
        assert fusion.retired == [(CompleteFile("file:/a.md", ("r1",)), True)]
        assert (await client.post("/v1/retire", json={"files": []})).status_code == 422
