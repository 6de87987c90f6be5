"""Any HTTP memory by configuration alone: it keeps the suite's promises, and knows the systems that presets name."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import orjson
import pytest

from adapters.http import HttpMemory
from adapters.http.memory import Options, presets
from adapters.inmemory import InMemory
from fusion.contract import Backend, Describes, Extracted, Fact, Hit, Opening, PartialHits, Query, Scope
from fusion.errors import HttpStatus, InvalidAnswer, SettingsError
from fusion.gateway.gateway import Gateway
from tests import chaos
from tests.backend_contract import NOW, RemoteBackendContract, make_query
from tests.chaos import Call, Chaos
from tests.patience import PATIENT_MS, load, opening_at

WHOSE = ("user_id", "agent_id", "run_id", "session_id", "audience")
KNOWN = (
    *("event_id", "score", "kind", "raw_kind", "speaker", "at", "precision", "zone", "recorded_at", "trust", "origin"),
    *("document", "start", "end", "unit", *WHOSE),
)


def _theirs(hit: Hit) -> dict[str, Any]:
    """A hit as that server tells it."""
    flat: dict[str, Any] = orjson.loads(orjson.dumps(hit))
    known = {**flat, **(flat["at"] or {}), **(flat["place"] or {}), **flat["scope"]}
    known["at"] = known.get("utc")
    return {"key": hit.native_id, "said": [hit.text], "known": {name: known.get(name) for name in KNOWN}}


@pytest.mark.feature("Any HTTP memory with a search route is a backend by configuration alone")
class TestHttpMemory(RemoteBackendContract):
    """In front of a server that has words of its own for everything."""

    durable = False  # the server's memory is not ours
    options: ClassVar[dict[str, object]] = {
        "path": "/find",
        "body": {"ask": {"words": "{query}", "most": "{limit}"}, "whose": {name: f"{{{name}}}" for name in WHOSE}},
        "items": ["data.found"],
        "fields": {"native_id": "key", "text": "said.0", **{name: f"known.{name}" for name in KNOWN}},
        "filters": ["user_id", "agent_id", "run_id", "session_id"],
    }

    @pytest.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[Chaos]:
        self.store = await InMemory.open(Opening("store", tmp_path / "store"))

        async def find(call: Call) -> None:
            asked = call.json
            query = Query(asked["ask"]["words"], Scope(**asked["whose"]), NOW, asked["ask"]["most"])
            found = [_theirs(hit) for hit in await self.store.search(query)]
            await call.reply(json.dumps({"data": {"found": found}}).encode())

        async with Chaos() as server:
            server.behaviour = find
            self.url = server.url
            yield server

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await HttpMemory.open(opening_at(url, "notes", folder, **self.options))

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        await self.store.remember(batch)

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """No search route says how much there is: nothing is claimed."""
        assert isinstance(backend, Describes)
        assert (await backend.describe()).items == 0


RECORDED: dict[str, tuple[object, dict[str, object]]] = {
    "memory-cortex": (
        {
            "results": [
                {
                    "id": 41, "user_id": "ada", "topic": "work", "fact": "Ada keeps bees.", "importance": 7,
                    "created_at": "2026-02-03T09:00:00Z", "score": 0.81, "source": "fts5+vector",
                }
            ],
            "count": 1,
        },
        {"query": "bees?", "user_id": "ada", "limit": 5},
    ),
    "openclaw-mem": (
        {"ok": True, "receipt": [{"id": 7, "ts": "2026-02-03T09:00Z", "kind": "fact", "summary": "Ada keeps bees."}]},
        {"query": "bees?", "limit": 5},
    ),
    "zep": (
        {
            "edges": [
                {
                    "uuid": "e-1", "name": "KEEPS", "fact": "Ada keeps bees.", "score": 0.7,
                    "created_at": "2026-02-04T00:00:00Z", "valid_at": "2026-02-03T09:00:00Z", "invalid_at": None,
                    "source_node_uuid": "n-1", "target_node_uuid": "n-2", "episodes": [],
                }
            ],
            "nodes": [],
        },
        {"query": "bees?", "user_id": "ada", "limit": 5, "scope": "edges"},
    ),
    "hindsight": (
        {
            "results": [
                {
                    "id": "0daa649c-68d9-46c4-ac4c-0d15c6ee3acd", "text": "Ada keeps bees.", "type": "world",
                    "entities": None, "context": "", "occurred_start": None, "occurred_end": None,
                    "mentioned_at": "2026-02-03T09:00:00+00:00", "document_id": "d1", "metadata": {},
                    "chunk_id": "ada_d1_0", "tags": [], "source_fact_ids": None, "attachments": None,
                    "scores": {"final": 0.936, "reranker": None, "semantic": 0.335, "keyword": 0.2},
                }
            ],
            "trace": None, "entities": None, "chunks": None, "source_facts": None, "source_facts_truncated": None,
        },
        {"query": "bees?"},
    ),
    "graphiti": (
        {
            "facts": [
                {
                    "uuid": "e-1", "name": "KEEPS", "fact": "Ada keeps bees.", "valid_at": "2026-02-03T09:00:00+00:00",
                    "invalid_at": None, "created_at": "2026-02-04T00:00:00+00:00", "expired_at": None,
                }
            ]
        },
        {"query": "bees?", "group_ids": ["ada"], "max_facts": 5},
    ),
}  # fmt: skip
"""by preset: a reply of the system (Hindsight 1.1.0) or in the form that it documents, and the body of the request"""

NEEDS: dict[str, dict[str, object]] = {"hindsight": {"values": {"bank": "ada/1"}, "bound": {"user_id": "ada"}}}


@pytest.mark.feature(
    "… Memory Cortex, openclaw-mem, Zep, Hindsight and graphiti have presets with their own requests",
    of="Any HTTP memory with a search route",
)
@pytest.mark.parametrize("preset", sorted(RECORDED))
async def test_known_systems_are_a_preset(preset: str) -> None:
    """A preset and an address ask the system in its words: the fact comes back with its id and its day."""
    reply, body = RECORDED[preset]
    async with Chaos(behaviour=chaos.body(json.dumps(reply).encode())) as server:
        backend = await notes(server.url, preset=preset, **NEEDS.get(preset, {}))
        (hit,) = await backend.search(make_query("bees?", Scope(user_id="ada"), limit=5))
        await backend.close()
    assert (hit.text, hit.scope.user_id) == ("Ada keeps bees.", "ada")
    assert hit.fact == (Fact("n-1", "KEEPS", "n-2") if preset == "zep" else None)
    when = hit.at.utc if hit.at else hit.recorded_at
    assert when is not None
    assert f"{when:%Y-%m-%d}" == "2026-02-03"
    assert server.calls[0].json == body
    if preset == "hindsight":
        assert server.calls[0].path == "/v1/default/banks/ada%2F1/memories/recall"


def test_every_preset_is_shown_at_work() -> None:
    """None is shipped that no test asks."""
    assert set(presets()) == set(RECORDED)


class Hindsight:
    """Behaves as Hindsight 1.1.0 does without a model, as 0.9.2 if ``old``; both were run to record their replies."""

    def __init__(self, *, old: bool = False) -> None:
        self.old = old
        self.banks: dict[str, list[str]] = {}

    async def __call__(self, call: Call) -> None:
        if call.path == "/health":
            return await call.reply(b'{"status":"healthy","database":"connected"}')
        bank = unquote(call.path.removeprefix("/v1/default/banks/").removesuffix("/memories/recall"))
        if "/" in bank:
            return await call.reply(b'{"detail":"Not Found"}', 404)
        if bank not in self.banks and not self.old:
            return await call.reply(orjson.dumps({"detail": f"Bank '{bank}' not found"}), 404)
        results = [self.result(number, text) for number, text in enumerate(self.banks.get(bank, []))]
        return await call.reply(orjson.dumps({"results": results, "trace": None}))

    def result(self, number: int, text: str) -> dict[str, Any]:
        dated = {"occurred_start": None, "occurred_end": None, "mentioned_at": "2026-02-03T09:00:00+00:00"}
        scores = {"final": 0.9 - number / 10, "semantic": 0.3, "keyword": 0.2}
        found = {"id": f"f-{number}", "text": text, "type": "world", "entities": None, **dated, "metadata": {}}
        if self.old:
            return {name: value for name, value in found.items() if value is not None} | {"scores": scores}
        return {**found, "scores": {**scores, "reranker": None}, "attachments": None}


async def hindsight(url: str, bank: str = "ada") -> HttpMemory:
    return await notes(url, preset="hindsight", values={"bank": bank}, bound={"user_id": "ada"})


@pytest.mark.feature("… Hindsight 1.1 and 0.9 have one preset", of="Any HTTP memory with a search route")
@pytest.mark.parametrize("old", [False, True])
async def test_hindsight_is_read_in_both_versions(old: bool) -> None:
    """A fact is dated by its event, else by the time that its caller gave; 0.9 leaves out what 1.1 says is null."""
    server_of_both = Hindsight(old=old)
    server_of_both.banks["ada"] = ["Ada keeps bees.", "The harbour opens at six."]
    async with Chaos(behaviour=server_of_both) as server:
        backend = await hindsight(server.url)
        hits = await backend.search(make_query("bees?", Scope(user_id="ada")))
        told = await backend.describe()
        await backend.close()
    assert [hit.text for hit in hits] == server_of_both.banks["ada"]
    assert [hit.at and f"{hit.at.utc:%Y-%m-%d}" for hit in hits] == ["2026-02-03"] * 2
    assert [hit.score for hit in hits] == [0.9, 0.8]
    assert (told.degraded, told.notes) == (False, ())


@pytest.mark.feature("… a bank that Hindsight does not know is empty", of="Any HTTP memory with a search route")
async def test_a_bank_that_hindsight_does_not_know_is_empty() -> None:
    """Noted until it has a fact, and no fault; a 404 of any other kind still is one."""
    theirs = Hindsight()
    async with Chaos(behaviour=theirs) as server:
        backend = await hindsight(server.url, 'ada "å"')
        assert await backend.search(make_query("bees?", Scope(user_id="ada"))) == []
        empty = await backend.describe()
        theirs.banks['ada "å"'] = ["Ada keeps bees."]
        full = await backend.describe()
        await backend.close()
        elsewhere = await notes(f"{server.url}/api", preset="hindsight", **NEEDS["hindsight"])
        wrong = await elsewhere.describe()
        await elsewhere.close()
        server.behaviour = chaos.status(404)
        no_json = await hindsight(server.url)
        with pytest.raises(HttpStatus, match="answered 404"):
            await no_json.search(make_query("bees?", Scope(user_id="ada")))
        await no_json.close()
    assert (empty.degraded, full.notes) == (False, ())
    assert "Bank 'ada \"å\"' not found. It is empty until something is stored there. Fix: if" in empty.notes[0]
    assert wrong.degraded
    assert "correct url" in wrong.notes[0]


class Graphiti:
    """Behaves as graphiti's own server (`server/graph_service`, core 0.31) over some facts, each of a group."""

    def __init__(self, *facts: tuple[str, str, str | None, str | None]) -> None:
        self.facts = facts

    async def __call__(self, call: Call) -> None:
        if call.path == "/healthcheck":
            return await call.reply(b'{"status":"healthy"}')
        asked = call.json
        found = [fact for fact in self.facts if asked["group_ids"] is None or fact[0] in asked["group_ids"]]
        facts = [
            {
                "uuid": f"e-{number}", "name": "STATED", "fact": fact, "valid_at": "2025-02-03T09:00:00+00:00",
                "invalid_at": invalid_at, "created_at": "2025-02-04T00:00:00+00:00", "expired_at": expired_at,
            }
            for number, (_, fact, invalid_at, expired_at) in enumerate(found[: asked["max_facts"]])
        ]  # fmt: skip
        return await call.reply(orjson.dumps({"facts": facts}))


@pytest.mark.feature(
    "… graphiti's facts that hold no more are not shown as current, and those of another user not at all",
    of="Any HTTP memory with a search route",
)
async def test_a_fact_of_graphiti_is_shown_while_it_holds(tmp_path: Path) -> None:
    """One that has ended by now, or was replaced, is left out, and one that ends later is shown."""
    theirs = Graphiti(
        ("ada", "Ada keeps bees in Lund.", "2025-06-01T00:00:00+00:00", "2025-06-02T00:00:00+00:00"),
        ("ada", "Ada also keeps bees in Ystad.", None, "2025-06-02T00:00:00+00:00"),
        ("ada", "Ada keeps bees in Malmö.", None, None),
        ("ada", "Ada rents the bees' roof.", "2999-01-01T00:00:00+00:00", None),
        ("berit", "Berit keeps bees in Oslo.", None, None),
    )
    async with Chaos(behaviour=theirs) as server:
        one = {"adapter": "adapters.http:HttpMemory", "preset": "graphiti", "url": server.url, "connect_ms": PATIENT_MS}
        settings = load(home=tmp_path, backends_only=True, embedder={"adapter": ""}, backends={"graphiti": one})
        async with Gateway.open(settings) as gateway:
            now = await gateway.fuse("Where are Ada's bees?", scope=Scope(user_id="ada"))
            [state] = await gateway.backends()
    assert "Malmö" in now.block
    assert "roof" in now.block
    assert not {"Lund", "Ystad", "Oslo"} & set(re.findall(r"\w+", now.block))
    assert (state["status"], state["notes"]) == ("ready", [])


async def notes(url: str, **options: object) -> HttpMemory:
    return await HttpMemory.open(opening_at(url, "notes", **options))


async def test_get_puts_the_question_into_the_address(tmp_path: Path) -> None:
    """By GET the body is the query string, and the key goes as the header that the server wants."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    async with Chaos(behaviour=chaos.body(b'[{"id": 1, "text": "tea"}]')) as server:
        backend = await notes(
            server.url, method="GET", items=["."], header="X-Key", authorization="{key}", api_key_file=str(key)
        )
        (hit,) = await backend.search(make_query("tea & bread", limit=3))
        await backend.close()
    assert hit.native_id == "1"
    assert server.calls[0].path == "/search?query=tea+%26+bread&limit=3"
    assert server.calls[0].headers["x-key"] == "secret"


async def test_a_time_that_is_none_costs_only_itself() -> None:
    """Seconds, milliseconds and ISO are read: 1767225600 s is 2026-01-01; "soon" leaves a memory without a time."""
    when: list[object] = [1767225600, 1767225600000, "2026-01-01T00:00:00Z", "soon", {"no": 1}]
    found = [{"id": n, "text": f"tea {n}", "at": at} for n, at in enumerate(when)]
    async with Chaos(behaviour=chaos.body(json.dumps({"results": found}).encode())) as server:
        backend = await notes(server.url, fields={"native_id": "id", "text": "text", "at": "at"})
        hits = await backend.search(make_query("tea"))
        await backend.close()
    assert [hit.at and hit.at.utc.isoformat() for hit in hits] == ["2026-01-01T00:00:00+00:00"] * 3 + [None] * 2


@pytest.mark.feature("… a field may name alternatives", of="Any HTTP memory with a search route")
async def test_first_alternative_that_is_not_null_has_the_value() -> None:
    """One that is missing or null is passed over; 0 and "" are values."""
    found: list[object] = [
        {"id": 1, "text": "tea", "start": None, "seen": "2026-01-02", "scores": {"final": 0}, "score": 3},
        {"id": 2, "body": {"text": "tea"}, "start": "2026-01-01", "seen": "2026-01-02", "score": 3},
        {"id": 3, "text": "", "body": {"text": "tea"}, "start": "", "seen": "2026-01-02"},
    ]
    fields = {"native_id": "id", "text": "text|body.text", "score": "scores.final | score", "at": "start | seen"}
    async with Chaos(behaviour=chaos.body(json.dumps({"results": found}).encode())) as server:
        backend = await notes(server.url, fields=fields)
        hits = await backend.search(make_query("tea"))
        await backend.close()
    days = [hit.at and hit.at.utc.day for hit in hits]
    assert ([hit.text for hit in hits], days) == (["tea", "tea", ""], [2, 1, None])
    assert [hit.score for hit in hits] == [0, 3, None]


async def test_items_that_are_none_are_counted() -> None:
    """The good ones stay; where no path has a list, the answer is wrong as a whole."""
    async with Chaos(behaviour=chaos.body(b'{"results": [5, {"id": 1}, {"id": 2, "text": "tea"}]}')) as server:
        backend = await notes(server.url)
        hits = await backend.search(make_query("tea"))
        assert isinstance(hits, PartialHits)
        assert ([hit.native_id for hit in hits], hits.dropped) == (["2"], 2)
        server.behaviour = chaos.body(b'{"results": {"upgraded": true}}')
        with pytest.raises(InvalidAnswer, match="no list of hits"):
            await backend.search(make_query("tea"))
        await backend.close()


@pytest.mark.feature(
    "… a mistake in its table is reported at the start: preset, path, value or header",
    of="Any HTTP memory with a search route",
)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": ""}, "url is missing"),
        ({"preset": "nobody"}, "no preset 'nobody', only: memory-cortex"),
        ({"fields": {"text": "t"}}, "where native_id and text are"),
        (
            {"fields": {"native_id": "i", "text": "t", "colour": "c"}},
            "'colour': 'c'} must be a table of texts, for some of agent_id",
        ),
        ({"body": {"q": "{words}"}}, "{words} has no value"),
        ({"path": "/of/{user_id}"}, "{user_id} is used in path; fix it in bound or values"),
        ({"filters": ["user_id"]}, "neither path nor body passes on"),
        ({"filters": ["colour"]}, "must be a list of user_id"),
        ({"method": "PUT"}, "method = 'PUT' must be one of GET, POST"),
        ({"preset": ["zep"]}, "no preset ['zep'], only: memory-cortex"),
        ({"url": "file:///tmp"}, "url must start with http"),
        ({"fields": {"native_id": "i", "text": 3}}, "must be a table of texts"),
        ({"values": {"bank": 3}}, "values = {'bank': 3} must be a table of texts"),
        ({"values": {"query": "tea"}}, "values cannot say what query is"),
        ({"items": []}, "items names at least one path"),
        ({"fields": {"native_id": "id", "text": "a |"}}, "fields.text = 'a |' has no path, or an empty one; write"),
        ({"fields": {"native_id": "", "text": "a"}}, "fields.native_id = '' has no path, or an empty one; write"),
        ({"absent": "no {bank}"}, "{bank} has no value"),
        ({"absent": "no {user_id}"}, "{user_id} is used in absent; fix it in bound or values"),
        ({"header": "X\nY"}, "header is the name of an HTTP header"),
        ({"header": ""}, "header is the name of an HTTP header"),
        ({"authorization": "Bearer {key}\r\nX: 1"}, "in one line"),
        ({"api_key_env": "A", "api_key_file": "b"}, "not both"),
    ],
)
async def test_a_wrong_table_says_what_is_wrong(options: dict[str, object], said: str) -> None:
    """Each mistake is told at start, with the table's name, before anything is asked."""
    with pytest.raises(SettingsError, match=r"\[backends.notes\]") as error:
        await HttpMemory.open(Opening("notes", Path("unused"), {"url": "http://127.0.0.1:1", **options}))
    assert said in str(error.value)


async def test_health_is_looked_at_where_there_is_a_route() -> None:
    """A server that is up says nothing; one that is not is degraded, in words, though its search just answered."""
    async with Chaos(behaviour=chaos.body(b'{"results": []}')) as server:
        backend = await notes(server.url, health="/health")
        assert not (await backend.describe()).degraded
        assert [call.path for call in server.calls] == ["/health", "/search"]
        await backend.search(make_query("tea"))
        server.behaviour = chaos.status(500)
        ill = await backend.describe()
    gone = await backend.describe()
    await backend.close()
    assert (ill.degraded, gone.degraded) == (True, True)
    assert "Fix: look at its log" in ill.notes[0]
    assert gone.notes[0].endswith("Fix: start it, or correct url")


@pytest.mark.feature(
    "… doctor asks it for one hit as users do, even if it has a health route: unreachable, key, form "
    "of the reply, each with its fix",
    of="Any HTTP memory with a search route",
)
@pytest.mark.parametrize("preset", sorted(RECORDED))
async def test_a_preset_whose_server_is_down_is_reported(preset: str) -> None:
    """No preset is well without an answer: nobody listening is degraded and says how to fix it."""
    with chaos.refusing() as url:
        backend = await notes(url, preset=preset, **NEEDS.get(preset, {}))
        told = await backend.describe()
        await backend.close()
    assert told.degraded
    assert told.notes[0].endswith("Fix: start it, or correct url")


@pytest.mark.feature(
    "… doctor asks it for one hit as users do, even if it has a health route: unreachable, key, form "
    "of the reply, each with its fix",
    of="Any HTTP memory with a search route",
)
@pytest.mark.parametrize("preset", sorted(RECORDED))
async def test_a_look_asks_for_one_hit_of_nobody(preset: str) -> None:
    """In the words in which it is searched; nobody, where it wants to be asked for somebody."""
    reply, body = RECORDED[preset]
    async with Chaos(behaviour=chaos.body(json.dumps(reply).encode())) as server:
        backend = await notes(server.url, preset=preset, **NEEDS.get(preset, {}))
        told = await backend.describe()
        await backend.close()
    assert not told.degraded
    asked = {"query": "memory", "limit": 1, "user_id": "_nobody", "group_ids": ["_nobody"], "max_facts": 1}
    assert server.calls[-1].json == {**body, **{key: asked[key] for key in asked.keys() & body.keys()}}


@pytest.mark.feature(
    "… doctor asks it for one hit as users do, even if it has a health route: unreachable, key, form "
    "of the reply, each with its fix",
    of="Any HTTP memory with a search route",
)
@pytest.mark.parametrize(
    ("behaviour", "fix"),
    [
        (chaos.status(401), "give it the key of the server"),
        (chaos.body(b'{"memories": {"1": "tea"}}'), "look at its log"),
        (chaos.body(b'{"results": [{"id": 1}]}'), "look at its log"),
    ],
)
async def test_describe_checks_the_key_and_the_form_of_the_reply(behaviour: chaos.Behaviour, fix: str) -> None:
    """A key that is not accepted, a reply without a list, an item without a text: its health route knows of none."""
    well = chaos.body(b"{}")

    async def behave(call: Call) -> None:
        await (well if call.path == "/health" else behaviour)(call)

    async with Chaos(behaviour=behave) as server:
        backend = await notes(server.url, health="/health")
        told = await backend.describe()
        await backend.close()
    assert told.degraded
    assert f"Fix: {fix}" in told.notes[0]


@pytest.mark.feature(
    "… a 404 that may only mean an unknown user is noted, and degrades no answer; it is not asked "
    "again right after an answer",
    of="Any HTTP memory with a search route",
)
async def test_a_look_for_nobody_that_is_not_found_is_only_noted() -> None:
    """404 may be the route or the user that nobody knows: told, but no answer counts as degraded for it. Where the
    question names no invented user, it is the route."""
    async with Chaos(behaviour=chaos.status(404)) as server:
        keeps_apart = await notes(server.url, preset="zep")
        unsure = await keeps_apart.describe()
        await keeps_apart.close()
        bound = await notes(server.url, bound={"user_id": "ada"})
        sure = await bound.describe()
        await bound.close()
    assert not unsure.degraded
    assert "answered 404, which may only mean that it knows no user _nobody. Fix: correct url" in unsure.notes[0]
    assert sure.degraded
    assert "may only" not in sure.notes[0]


@pytest.mark.feature(
    "… a 404 that may only mean an unknown user is noted, and degrades no answer; it is not asked "
    "again right after an answer",
    of="Any HTTP memory with a search route",
)
async def test_an_answer_stands_for_a_look_for_ten_seconds() -> None:
    """A question that was answered is not paid for twice; one that failed says nothing, and is asked again."""
    now = [100.0]
    async with Chaos(behaviour=chaos.body(b'{"results": []}')) as server:
        options = Options(url=server.url, connect_ms=PATIENT_MS)
        backend = HttpMemory(options.http(), options, lambda: now[0])
        asked = []
        for now[0] in (100.0, 110.0, 110.1):  # searched at 100: 10 s are as long as it stands
            if now[0] == 100.0:
                await backend.search(make_query("tea"))
            assert not (await backend.describe()).degraded
            asked.append(len(server.calls))
        await backend.search(make_query("tea"))
        server.behaviour = chaos.status(503)
        with pytest.raises(HttpStatus):
            await backend.search(make_query("tea"))
        failed = await backend.describe()
        await backend.close()
    assert asked == [1, 1, 2]
    assert failed.degraded


async def test_verify_reports_a_missing_key() -> None:
    """The variable is named in the configuration, and the environment has none of that name."""
    backend = await notes("http://127.0.0.1:9", api_key_env="NOBODYS_KEY")
    told = await backend.describe()
    await backend.close()
    assert told.degraded
    assert "NOBODYS_KEY" in told.notes[0]
    assert "Fix: give it the key" in told.notes[0]
