"""Another server as a backend: it keeps the suite's promises, and names what is wrong with a reply."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from adapters.http import Http
from adapters.inmemory import InMemory
from adapters.remote import Remote, hit_of
from fusion.contract import Backend, Extracted, Fact, Features, Moment, Opening, PartialHits, Place, Query, Scope
from fusion.errors import HttpStatus, InvalidAnswer, RateLimited, SettingsError, Unauthorized
from tests import chaos
from tests.backend_contract import NOW, RemoteBackendContract, make_query
from tests.chaos import Chaos
from tests.patience import opening_at

ONE = {"native_id": "1", "text": "Ada likes tea."}


class TestRemote(RemoteBackendContract):
    """In front of a server that answers from the reference backend with its hits as our own JSON."""

    durable = False  # the server's memory is not ours

    @pytest.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[Chaos]:
        self.store = await InMemory.open(Opening("store", tmp_path / "store"))

        async def answer(asked: dict[str, Any]) -> Sequence[object]:
            text, limit = asked.pop("query"), asked.pop("limit")
            hits = await self.store.search(Query(text, Scope(**asked), NOW, limit))
            return [orjson.loads(orjson.dumps(hit)) for hit in hits]

        async with Chaos(answer=answer) as server:
            self.url = server.url
            yield server

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await Remote.open(opening_at(url, "remote", folder))

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        await self.store.remember(batch)

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """See test_describe_returns_the_counts_of_the_remote_server."""
        pytest.skip("the stand-in of this suite knows the search alone")


async def remote(url: str, **options: object) -> Remote:
    return await Remote.open(opening_at(url, "remote", **options))


async def test_asks_for_the_scope_that_it_was_asked_for() -> None:
    """Scope, limit and the server's name of the backend go along; the key is a bearer token."""
    os.environ["REMOTE_TEST_KEY"] = "first"
    try:
        async with Chaos([ONE]) as server:
            backend = await remote(server.url, backend="notes", api_key_env="REMOTE_TEST_KEY")
            scope = Scope(user_id="ada", session_id="s1", project="p", audience="private")
            hits = await backend.search(make_query("tea?", scope, limit=7))
            os.environ["REMOTE_TEST_KEY"] = "renewed"
            await backend.search(make_query("tea?"))
            await backend.close()
            assert server.calls[0].path == "/v1/search"
            assert server.calls[0].json == {
                "query": "tea?",
                "limit": 7,
                "audience": "private",
                "user_id": "ada",
                "session_id": "s1",
                "project": "p",
                "backend": "notes",
            }
            assert [call.headers["authorization"] for call in server.calls] == ["Bearer first", "Bearer renewed"]
            assert hits[0].scope == Scope(user_id="ada", session_id="s1", audience="private")
    finally:
        del os.environ["REMOTE_TEST_KEY"]


async def test_valid_items_are_kept() -> None:
    """Items are validated one by one: the good ones stay in their order, the others are counted."""
    bad: list[object] = [5, None, "x", [], {}, {"text": "no id"}, {"native_id": "2"}, {"native_id": "3", "text": 7}]
    bad += [{**ONE, "at": "yesterday"}, {**ONE, "scope": {"user_id": 5}}, {**ONE, "native_id": True}]
    async with Chaos([*bad, ONE, {"id": 9, "text": "by another name"}]) as server:
        backend = await remote(server.url)
        hits = await backend.search(make_query("tea"))
        await backend.close()
    assert [hit.native_id for hit in hits] == ["1", "9"]
    assert isinstance(hits, PartialHits)
    assert hits.dropped == len(bad)


async def test_no_valid_item_is_an_invalid_answer() -> None:
    """When nothing validates the whole answer is wrong."""
    async with Chaos([{"title": "?"}]) as server:
        backend = await remote(server.url)
        with pytest.raises(InvalidAnswer, match="none of 1 items"):
            await backend.search(make_query("tea"))
        await backend.close()


async def test_limit_holds_whatever_the_server_sends() -> None:
    """Ten thousand items are cut before any is looked at."""
    async with Chaos([{"native_id": str(n), "text": "flood"} for n in range(10_000)]) as server:
        backend = await remote(server.url)
        assert len(await backend.search(make_query("flood", limit=5))) == 5
        await backend.close()


@pytest.mark.parametrize("header", ["120", "Wed, 21 Oct 2099 07:28:00 GMT", "soon", ""])
async def test_statuses_have_their_errors(header: str) -> None:
    """401 and 403, 429 and 5xx are distinguished; Retry-After is a number or a date; a redirect is not followed."""
    async with Chaos([ONE]) as server:
        backend = await remote(server.url)
        server.schedule.extend(
            [
                chaos.status(401),
                chaos.status(403),
                chaos.status(429, Retry_After=header),
                chaos.status(503, Retry_After=header),
                chaos.status(302, Location=server.url),
            ]
        )
        for _ in range(2):
            with pytest.raises(Unauthorized):
                await backend.search(make_query("tea"))
        with pytest.raises(RateLimited) as limited:
            await backend.search(make_query("tea"))
        with pytest.raises(HttpStatus) as down:
            await backend.search(make_query("tea"))
        with pytest.raises(HttpStatus, match="redirects"):
            await backend.search(make_query("tea"))
        await backend.close()
    assert down.value.status == 503
    if header == "120":
        assert limited.value.retry_after_s == down.value.retry_after_s == 120
    elif header.startswith("Wed"):
        assert limited.value.retry_after_s is not None
        assert limited.value.retry_after_s > 300
    else:
        assert limited.value.retry_after_s is down.value.retry_after_s is None


async def test_compressed_replies_are_read() -> None:
    """A server that compresses unasked is understood, a damaged or unknown compression is not."""
    async with Chaos([ONE]) as server:
        server.schedule.extend(
            [chaos.zipped, chaos.body(b"nonsense", Content_Encoding="gzip"), chaos.body(b"{}", Content_Encoding="br")]
        )
        backend = await remote(server.url)
        assert len(await backend.search(make_query("tea"))) == 1
        for _ in range(2):
            with pytest.raises(InvalidAnswer, match="compress"):
                await backend.search(make_query("tea"))
        await backend.close()


@pytest.mark.parametrize("behaviour", [chaos.healthy, chaos.unannounced, chaos.zipped])
async def test_reply_may_be_just_as_long_as_allowed(behaviour: chaos.Behaviour) -> None:
    """The last allowed byte is read and one more is not, whether announced, unannounced or compressed."""
    hit = {**ONE, "text": "tea " * 1000}
    length = len(json.dumps({"hits": [hit]}))
    async with Chaos([hit], behaviour) as server:
        just, short = (Http(server.url, connect_s=60.0, reply_bytes=limit) for limit in (length, length - 1))
        assert await just.post("/v1/search", {}, 30) == {"hits": [hit]}
        with pytest.raises(InvalidAnswer, match="longer than"):
            await short.post("/v1/search", {}, 30)
        await just.close()
        await short.close()


async def test_errors_hold_no_secret() -> None:
    """Neither key nor query nor path is quoted by an error or by what caused it."""
    os.environ["REMOTE_TEST_KEY"] = "sk-canary-1234"
    try:
        async with Chaos([ONE]) as server:
            backend = await remote(server.url, api_key_env="REMOTE_TEST_KEY")
            for fault in (chaos.status(401), chaos.status(500), chaos.html, chaos.reset, chaos.reset_at_once):
                server.behaviour = fault
                with pytest.raises(Exception) as caught:  # noqa: PT011  # each fault has its own
                    await backend.search(make_query("canary question"))
                assert "canary" not in f"{caught.value!r} {caught.value.__cause__!r}"
            await backend.close()
    finally:
        del os.environ["REMOTE_TEST_KEY"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"url": ""},
        {"url": "ftp://host"},
        {"url": "//host"},
        {"url": "http://user:secret@host"},
        {"url": "http://host?key=secret"},
        {"url": "http://host:99999"},
        {"url": "http://host", "colour": "blue"},
        {"url": "http://host", "filters": ["planet"]},
        {"url": "http://host", "bound": "ada"},
        {"url": 5},
    ],
)
async def test_wrong_settings_are_refused(options: dict[str, object]) -> None:
    """What is configured wrongly is said at the start, without quoting a secret."""
    with pytest.raises(SettingsError) as caught:
        await Remote.open(Opening("remote", Path("unused"), options))
    assert "secret" not in str(caught.value)


def test_flat_and_nested_items_are_the_same() -> None:
    """Time, place and scope may be in the item or in nested objects, as in the gateway's own JSON."""
    flat = hit_of(
        {
            **ONE,
            "at": "2025-05-08T13:56:00+02:00",
            "precision": "minute",
            "document": "d",
            "start": 3,
            "end": 4,
            "user_id": "ada",
            "subject": "Ada",
            "predicate": "lives in",
            "object": "Paris",
        }
    )
    assert flat.fact == Fact("Ada", "lives in", "Paris")
    assert flat.at == Moment(datetime(2025, 5, 8, 11, 56, tzinfo=UTC), "minute")
    assert flat.place == Place("d", 3, 4)
    assert flat.scope == Scope(user_id="ada")
    assert hit_of(orjson.loads(orjson.dumps(asdict(flat)))) == flat
    assert hit_of({**ONE, "kind": "gossip"}).raw_kind == "gossip"


async def test_another_scope_is_not_papered_over() -> None:
    """An item keeps its stated owner, so that the gateway can drop it: an item of ben's stays ben's."""
    async with Chaos([{**ONE, "user_id": "ben"}, {**ONE, "native_id": "2", "tenant": "red"}]) as server:
        backend = await remote(server.url)
        scope = Scope(user_id="ada")
        hits = await backend.search(make_query("tea", scope))
        await backend.close()
    assert [scope.admits(hit.scope) for hit in hits] == [False, False]


async def test_closed_is_closed() -> None:
    """After ``close`` nothing is opened again behind one's back; the features are what the settings say."""
    backend = await remote("http://127.0.0.1:9", filters=["user_id"], bound={"agent_id": "a"}, tenant="t")
    assert backend.features == Features(frozenset({"user_id"}), {"agent_id": "a"}, tenant="t")
    await backend.close()
    with pytest.raises(Exception, match="closed"):
        await backend.search(make_query("tea"))


async def test_a_key_in_a_file_is_read_for_each_question(tmp_path: Path) -> None:
    """A renewed key is used without a restart; a file that cannot be read is an unauthorized question, not a crash."""
    file = tmp_path / "key"
    async with Chaos([ONE]) as server:
        backend = await remote(server.url, api_key_file=str(file))
        with pytest.raises(Unauthorized, match="api_key_file cannot be read: FileNotFoundError"):
            await backend.search(make_query("gate"))
        for key in ("old\n", "new\n"):
            file.write_text(key, encoding="utf-8")
            await backend.search(make_query("gate"))
        await backend.close()
    assert [call.headers["authorization"] for call in server.calls] == ["Bearer old", "Bearer new"]
    with pytest.raises(SettingsError, match="api_key_env or api_key_file, not both"):
        await remote(server.url, api_key_file=str(file), api_key_env="REMOTE_TEST_KEY")


ROWS = [
    {"name": "markdown", "status": "ready", "items": 7, "vectors": 5},
    {"name": "cortex", "status": "unauthorized", "items": 2, "vectors": 2},
]


@pytest.mark.feature("another gateway reports what its backend holds, and its faults")
@pytest.mark.parametrize(
    ("rows", "options", "items", "said"),
    [
        (ROWS[:1], {}, 7, None),
        (ROWS, {"backend": "markdown"}, 7, None),
        (ROWS, {"backend": "cortex"}, 2, "there it is unauthorized. Fix: fusion doctor over there"),
        (ROWS, {"backend": "qmd"}, 0, "it has no backend 'qmd'. Fix: backend = one of cortex, markdown"),
        (ROWS, {}, 0, "it has several backends. Fix: backend = one of cortex, markdown"),
        ([5, {"name": 3}], {}, 0, "Fix: backend = one of none"),
    ],
)
async def test_describe_returns_the_counts_of_the_remote_server(
    rows: list[object], options: dict[str, object], items: int, said: str | None
) -> None:
    """Counts of the backend that is asked there; what keeps it from answering, with how to fix it."""
    async with Chaos(behaviour=chaos.body(orjson.dumps({"backends": rows}))) as server:
        backend = await remote(server.url, **options)
        told = await backend.describe()
        await backend.close()
    assert (told.items, told.degraded) == (items, said is not None)
    assert said is None or said in told.notes[0]


async def test_describe_reports_the_faults_of_the_remote_server_with_the_fix() -> None:
    """Nobody there, a key that is refused, something else that answers. A server without that route is well."""
    found = {}
    async with Chaos() as server:
        backend = await remote(server.url)
        for name, behaviour in {"key": chaos.status(401), "html": chaos.html, "plain": chaos.status(404)}.items():
            server.behaviour = behaviour
            found[name] = (await backend.describe()).notes
    found["gone"] = (await backend.describe()).notes
    await backend.close()
    assert {name: notes[0].partition("Fix: ")[2].partition(",")[0] for name, notes in found.items() if notes} == {
        "key": "give it the key of the server",
        "html": "look at its log; what answers at url may be something else",
        "gone": "start it",
    }
    assert found["plain"] == ()
