"""What an adapter's folder exports, mounted: verbs as commands and as a route, drop-in routes below /compat."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

import adapters
from fusion.client import AsyncClient
from fusion.client.calls import do
from fusion.doors.cli import app
from fusion.doors.cli.adapter_commands import BATCH_LINES, _worded, backends
from fusion.doors.http.app import create_app
from fusion.doors.http.serve import listen, serve, serve_on, url_of
from fusion.errors import BadInput, NotFound, SettingsError, StoreFull
from fusion.gateway.extensions import verbs_of
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.doors.contract import Checked
from tests.doors.fakes import SMALL, FakeFusion, app_over, serving
from tests.doors.verbed.cli import Endless
from tests.patience import load

NDJSON = {"accept": "application/x-ndjson"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one backend, whose folder exports verbs and routes."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL.replace("adapters.inmemory:InMemory", "tests.doors.verbed:Verbed"))
    allow(home)
    return home


@pytest.fixture
async def client(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The whole gateway over that home, in this process."""
    settings = load(home=home)
    async with Gateway.open(settings) as fusion:
        transport = Checked(create_app(fusion, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def fusion(home: Path, *arguments: object, stdin: str | None = None) -> Result:
    said = [*map(str, arguments), "--home", str(home), "--direct"]
    return CliRunner().invoke(app, said, input=stdin)


async def post(client: httpx.AsyncClient, verb: str, **body: Any) -> httpx.Response:
    return await client.post(f"/v1/backends/memory/{verb}", json=body)


class TestOverHttp:
    @pytest.mark.feature(
        "an adapter's verbs are commands, `fusion <backend> <verb>`, and POST routes whose reply is the result"
    )
    async def test_the_result_is_the_reply(self, client: httpx.AsyncClient) -> None:
        """Without further ado a verb is a POST whose reply is its result."""
        reply = await post(client, "look", query="tea")
        assert (reply.status_code, reply.json()) == (200, {"found": [], "kinds": []})

    @pytest.mark.feature(
        "… what a verb stores is an event of its caller, in every backend", of="an adapter's verbs are commands"
    )
    async def test_what_a_verb_keeps_is_an_event_of_its_callers(self, client: httpx.AsyncClient) -> None:
        """It goes through the journal to every backend, belongs to who called, and is forgotten everywhere."""
        (kept,) = (await post(client, "keep", lines=["Nadia drinks tea."], user_id="nadia")).json()["kept"]
        for who, found in (("nadia", ["Nadia drinks tea."]), ("omar", []), (None, ["Nadia drinks tea."])):
            scope = {} if who is None else {"user_id": who}
            assert (await post(client, "look", query="tea", **scope)).json()["found"] == found
        journalled = (await client.get(f"/v1/memories/{kept}", params={"user_id": "nadia"})).json()
        assert journalled["text"] == "Nadia drinks tea."
        assert (await post(client, "drop", ref=kept, user_id="omar")).status_code == 404
        assert (await post(client, "drop", ref=kept, user_id="nadia")).json() == {"memory": "deleted"}
        assert (await post(client, "look", query="tea")).json()["found"] == []

    @pytest.mark.parametrize(
        ("verb", "body", "status", "said"),
        [
            ("nope", {}, 404, "memory has no verb 'nope': there are count, keep, look, drop, sweep, wait, consult"),
            ("count", {}, 422, "to: is missing"),
            ("count", {"to": "3"}, 422, "to: "),
            ("count", {"to": 3, "three": 3}, 422, "three: there is no such field"),
            ("count", {"to": -1}, 422, "to: count to 0 or more"),
            ("count", {"to": 3}, 422, "line by line"),
            ("keep", {"lines": [1]}, 422, "lines"),
        ],
    )
    async def test_wrong_calls_are_told(
        self, client: httpx.AsyncClient, verb: str, body: dict[str, Any], status: int, said: str
    ) -> None:
        """A verb that is not there names those that are; an argument is named with what is wrong with it."""
        reply = await post(client, verb, **body)
        assert reply.status_code == status
        assert said in reply.json()["detail"]

    async def test_a_backend_that_is_not_there(self, client: httpx.AsyncClient) -> None:
        """Names those that are."""
        reply = await client.post("/v1/backends/nope/count", json={})
        assert reply.status_code == 404
        assert "there are memory" in reply.json()["detail"]

    async def test_one_that_could_not_be_opened(self, home: Path) -> None:
        """Says why, as every other answer of it does."""
        settings = load(home=home, backends={"memory": {"enabled": False}})
        async with Gateway.open(settings) as fusion:
            transport = Checked(create_app(fusion, settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                reply = await post(client, "look", query="tea")
        assert reply.status_code == 503
        assert "disabled in the configuration" in reply.json()["detail"]

    @pytest.mark.feature(
        "… progress and lines are sent while it runs, the result last", of="an adapter's verbs are commands"
    )
    async def test_lines_come_as_they_are_made_and_the_result_last(self, client: httpx.AsyncClient) -> None:
        """Asked for as NDJSON: progress and lines in their order, then the result."""
        reply = await client.post("/v1/backends/memory/count", json={"to": 2}, headers=NDJSON)
        assert reply.headers["content-type"] == "application/x-ndjson"
        assert [json.loads(line) for line in reply.text.splitlines()] == [
            {"progress": {"done": 0, "total": 2}},
            {"line": "0 é"},
            {"progress": {"done": 1, "total": 2}},
            {"line": "1 é"},
            {"result": {"counted": 2}},
        ]

    async def test_what_fails_at_once_has_a_status_and_what_fails_later_a_last_line(
        self, client: httpx.AsyncClient
    ) -> None:
        """507 where nothing was sent yet … and after two numbers the same problem as the stream's end."""
        late = await client.post("/v1/backends/memory/count", json={"to": 9, "fail_at": 2}, headers=NDJSON)
        assert late.status_code == 200
        last = json.loads(late.text.splitlines()[-1])
        assert last["problem"]["type"].endswith("StoreFull")
        early = await client.post("/v1/backends/memory/count", json={"to": 9, "fail_at": 0}, headers=NDJSON)
        assert (early.status_code, early.json()["type"]) == (507, last["problem"]["type"])

    async def test_a_reader_who_leaves_ends_the_work(self) -> None:
        """No work continues without a caller."""
        async with serving(FakeFusion()) as url, AsyncClient(url) as client:
            parts = client.stream(do("markdown", "wait"))
            assert "progress" in await anext(parts)
            await Endless.begun.wait()
            await parts.aclose()  # type: ignore[attr-defined]  # a generator
            await client.close()
            await Endless.cancelled.wait()


class TestClient:
    async def test_the_end_or_the_way(self) -> None:
        """`do` gives what came of it, `stream` all of it; both raise what the server raised."""
        async with serving(FakeFusion()) as url, AsyncClient(url) as client:
            assert await client.do("markdown", "sweep") == {"swept": True}
            told = [part async for part in client.stream(do("markdown", "count", {"to": 3, "twice": True}))]
            assert [part["line"] for part in told if "line" in part] == ["0 é", "0 é", "1 é", "1 é", "2 é", "2 é"]
            assert told[-1] == {"result": {"counted": 3}}
            with pytest.raises(NotFound, match="nope"):
                await client.do("markdown", "nope")
            with pytest.raises(BadInput, match="count to 0 or more"):
                [part async for part in client.stream(do("markdown", "count", {"to": -1}))]
            with pytest.raises(StoreFull):
                [part async for part in client.stream(do("markdown", "count", {"to": 3, "fail_at": 1}))]


class TestCommands:
    @pytest.mark.feature(
        "… `fusion --help` lists the backends that have verbs, and imports none", of="an adapter's verbs are commands"
    )
    def test_the_help_lists_backends_that_can_do_something(self, home: Path) -> None:
        """From the home's file, without importing an adapter: the one that exports verbs, not the one that does not."""
        with (home / "fusion.toml").open("a") as file:
            file.write('[backends.plain]\nadapter = "adapters.inmemory:InMemory"\n')
        allow(home)
        code = (
            f"import os, sys; os.environ['FUSION_HOME'] = {str(home)!r}; sys.argv = ['fusion', '--help']\n"
            "from fusion.doors.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
            "print([m for m in sys.modules if m.startswith(('adapters.', 'tests.doors.verbed', 'pydantic'))])"
        )
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "Commands of memory." in told
        assert "plain" not in told
        assert told.splitlines()[-1] == "[]"

    def test_which_backends_there_are(self, home: Path) -> None:
        """The shipped four, then the file's, then the environment's; ``backends_only`` and a broken file are heeded."""
        assert backends(home, {}) == {"memory": "tests.doors.verbed:Verbed"}
        assert backends(home, {"FUSION_BACKENDS__X__ADAPTER": "a:B"})["x"] == "a:B"
        (home / "fusion.toml").write_text("[backends.mine]\nadapter = 'a:B'\n")
        assert "mine" not in backends(home, {})  # it changed, and was not allowed again
        allow(home)
        assert list(backends(home, {})) == ["markdown", "cortex", "mem0", "triples", "mine"]
        (home / "fusion.toml").write_text("[[[")
        assert list(backends(home, {})) == ["markdown", "cortex", "mem0", "triples"]

    @pytest.mark.row(
        "A052",
        "… every verb is a command with a help; health, index, serve, mcp and hook are the gateway's "
        "own commands (`doctor`, `ingest`, …), and there is no reset: delete the folder for an empty "
        "home",
        of="`fusion cortex`: what it stores",
    )
    def test_every_verb_that_ships_is_a_command(self, tmp_path: Path) -> None:
        """Of every adapter's folder, with a help: no argument has the name of an option that all commands have."""
        folders = [file.parent.name for file in sorted(Path(adapters.__file__ or "").parent.glob("*/cli.py"))]
        assert "cortex" in folders
        for name in folders:
            (tmp_path / "fusion.toml").write_text(f'[backends.b]\nadapter = "adapters.{name}:Any"\n')
            allow(tmp_path)
            for verb in verbs_of(f"adapters.{name}"):
                told = CliRunner().invoke(app, ["b", verb, "--home", str(tmp_path), "--help"])
                assert (told.exit_code, "--user" in told.stdout) == (0, True), (name, verb, told.output)

    def test_help_of_a_verb(self, home: Path) -> None:
        """Its docstring, its arguments with what they mean, and the options that all commands have."""
        told = fusion(home, "memory", "count", "--help").stdout
        for words in ("Count to a number", "How far", "Say everything twice", "--user", "--json", "--direct"):
            assert words in told

    def test_lines_go_to_stdout_alone(self, home: Path) -> None:
        """The file gets exactly the lines; the result is printed on stderr."""
        told = fusion(home, "memory", "count", 2, "--twice")
        assert (told.exit_code, told.stdout) == (0, "0 é\n0 é\n1 é\n1 é\n")
        assert "counted  2" in told.stderr

    def test_a_result_is_one_line_of_json_or_the_verbs_own_words(self, home: Path) -> None:
        """As for every command."""
        assert json.loads(fusion(home, "memory", "look", "tea", "--json").stdout) == {"found": [], "kinds": []}
        assert fusion(home, "memory", "look", "tea").stdout == "nothing\n"
        several = fusion(home, "memory", "look", "tea", "--kinds", "a", "--kinds", "b", "--json")
        assert json.loads(several.stdout)["kinds"] == ["a", "b"]

    @pytest.mark.feature("`fusion help COMMAND` is `fusion COMMAND --help`", part="faults/cortex")
    def test_help_is_a_word_too(self) -> None:
        """`fusion help`, `fusion help forget`, `fusion help cortex store`: as --help behind the rest."""
        for words in ([], ["forget"], ["cortex", "store"]):
            helped, asked = (CliRunner().invoke(app, line) for line in (["help", *words], [*words, "--help"]))
            assert (helped.exit_code, helped.stdout) == (0, asked.stdout)
        assert CliRunner().invoke(app, ["help", "nope"]).exit_code == 2

    @pytest.mark.feature("the results of verbs are shown in words", part="faults/cortex")
    def test_a_result_is_told_in_words(self, home: Path, tmp_path: Path) -> None:
        """A line a field: lists, tables and switches as people write them."""
        file = tmp_path / "one"
        file.write_text("One\nTwo\n")
        first, second = fusion(home, "memory", "keep", file).stdout.splitlines()
        assert first == "calls  1"
        assert re.fullmatch(r"kept   [0-9a-f-]{36}, [0-9a-f-]{36}", second)

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            (True, "yes"),
            (False, "no"),
            (None, "-"),
            ([], "-"),
            ({}, "-"),
            (["a", "b"], "a, b"),
            ({"decision": 2, "fact": 1}, "decision 2, fact 1"),
            ([{"name": "Marta", "of": ["x", "y"]}, {"name": "Bo", "of": []}], "name Marta, of x, y; name Bo, of -"),
        ],
    )
    def test_a_value_in_words(self, value: object, told: str) -> None:
        """Nothing that is Python's."""
        assert _worded(value) == told

    def test_a_file_is_sent_in_batches_and_the_results_are_added_up(self, home: Path, tmp_path: Path) -> None:
        """BATCH_LINES + 1 lines are two calls, whose ids come back as one list; - is stdin; a file must be there."""
        file = tmp_path / "many"
        file.write_text("".join(f"Thing {n}\n\n" for n in range(BATCH_LINES + 1)))
        kept = json.loads(fusion(home, "memory", "keep", file, "--json").stdout)
        assert (kept["calls"], len(set(kept["kept"]))) == (2, BATCH_LINES + 1)
        again = json.loads(fusion(home, "memory", "keep", "-", "--json", stdin="One\nTwo").stdout)
        assert (again["calls"], len(again["kept"])) == (1, 2)
        missing = fusion(home, "memory", "keep", tmp_path / "nope")
        assert (missing.exit_code, "There is no file" in missing.stderr) == (2, True)

    def test_the_scope_is_kept(self, home: Path) -> None:
        """--user is whose memories the verb is about."""
        settings = load(home=home)
        told = asyncio.run(_kept_and_looked(settings))
        assert told == [["Omar drinks tea."], []]

    def test_what_is_wrong_is_told(self, home: Path) -> None:
        """A verb that is not there and a wrong argument are wrong usage; a failure is not."""
        for arguments, code in ((["nope"], 2), (["count"], 2), (["count", "3", "--fail-at", "1"], 1)):
            assert fusion(home, "memory", *arguments).exit_code == code
        assert CliRunner().invoke(app, ["memory", "count", "1"]).exit_code == 2  # no home that has such a backend


async def _kept_and_looked(settings: Settings) -> list[list[str]]:
    async with Gateway.open(settings) as fusion:
        transport = Checked(create_app(fusion, settings))
        async with AsyncClient.over(transport) as client:
            await client.do("memory", "keep", {"lines": ["Omar drinks tea."]}, user_id="omar")
            looked = [await client.do("memory", "look", {"query": "tea"}, user_id=who) for who in ("omar", "nadia")]
    return [look["found"] for look in looked]


@pytest.fixture
def consulted(home: Path) -> Path:
    """That home with a second backend and a language model."""
    with (home / "fusion.toml").open("a") as file:
        file.write('[backends.other]\nadapter = "adapters.inmemory:InMemory"\ndeadline_ms = 60000\n')
        file.write('[model]\nadapter = "tests.doors.verbed.model:Counting"\nquiet_s = 3600\n')
    allow(home)
    return home


TEA, COFFEE = "Nadia drinks green tea every morning.", "Omar drinks black coffee every morning."


class TestWholeMemory:
    """A verb and a route ask all memories, one backend and the language model, for their caller."""

    @pytest.mark.feature(
        "… a verb and a route fuse all memories, search one backend and ask the model, for their caller alone",
        of="an adapter's verbs are commands",
    )
    async def test_verb_and_route_consult_everything_for_their_caller(self, consulted: Path) -> None:
        """The block is the one of `/v1/fuse`, with its receipt; another user's memories are in neither."""
        settings = load(home=consulted)
        async with Gateway.open(settings) as gateway:
            transport = Checked(create_app(gateway, settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                await post(client, "keep", lines=[TEA], user_id="nadia")
                await post(client, "keep", lines=[COFFEE], user_id="omar")
                asked = {"query": "who drinks what every morning?"}
                by_verb = (await post(client, "consult", **asked, user_id="nadia")).json()
                path = "/compat/memory/v1/consult"
                by_route = (await client.post(path, json=asked, params={"user_id": "nadia"})).json()
                narrowed = (
                    await client.post(path, json={**asked, "whom": "omar"}, params={"all_users": "true"})
                ).json()
                receipt = await client.get(f"/v1/receipts/{by_verb['receipt_id']}", params={"user_id": "nadia"})
        for reply in (by_verb, by_route):
            assert (reply["members"], reply["found"]) == ([TEA], [TEA])
            assert (reply["backends"], reply["asked"]) == (["memory", "other"], "memory")
            assert reply["said"] == f"{len(reply['block'])} characters"
        assert (narrowed["members"], narrowed["found"]) == ([COFFEE], [COFFEE])
        assert receipt.status_code == 200

    async def test_caller_that_names_a_user_gets_no_other(self, consulted: Path) -> None:
        """What an extension asks for cannot leave its caller's scope, and a question names somebody as at any door."""
        settings = load(home=consulted)
        async with Gateway.open(settings) as gateway:
            transport = Checked(create_app(gateway, settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                for text, user in ((TEA, "nadia"), (COFFEE, "omar")):
                    await post(client, "keep", lines=[text], user_id=user)
                other = await post(client, "consult", query="coffee", whom="omar", user_id="nadia")
                nobody = await post(client, "consult", query="coffee")
                guest = await client.post("/compat/memory/v1/consult", json={"query": "coffee"})
                many = await post(client, "consult", query="coffee", most=101, user_id="nadia")
                blank = await post(client, "consult", query=" ", user_id="nadia")
        assert (other.status_code, other.json()["detail"]) == (422, "user_id: the caller asks for 'nadia' alone")
        for reply in (nobody, guest):
            assert (reply.status_code, reply.json()["users"]) == (422, ["nadia", "omar"])
        assert (many.status_code, many.json()["detail"]) == (422, "max_results: choose a number from 1 to 100")
        assert (blank.status_code, blank.json()["detail"]) == (422, "query: say what to recall")

    def test_command_consults_everything(self, consulted: Path, tmp_path: Path) -> None:
        """The same verb on the command line; the second backend, which keeps memories on disk, finds it."""
        settings = (consulted / "fusion.toml").read_text()
        on_disk = settings.replace('"adapters.inmemory:InMemory"', '"adapters.markdown:Markdown"')
        (consulted / "fusion.toml").write_text(on_disk)
        allow(consulted)
        file = tmp_path / "lines"
        file.write_text(TEA)
        assert fusion(consulted, "memory", "keep", file, "--user", "nadia").exit_code == 0
        said = fusion(consulted, "memory", "consult", "who drinks green tea?", "--user", "nadia", "--json")
        assert (said.exit_code, json.loads(said.stdout)["members"]) == (0, [TEA])

    async def test_without_a_model_the_call_says_where_to_name_one(self, client: httpx.AsyncClient) -> None:
        """503, and the memories are not to blame."""
        reply = await post(client, "consult", query="tea")
        assert (reply.status_code, "[model] of fusion.toml" in reply.json()["detail"]) == (503, True)


class TestDropInRoutes:
    @pytest.mark.feature("routes of another system are served below `/compat/<backend>`")
    async def test_path_query_and_body_reach_the_handler(self, client: httpx.AsyncClient) -> None:
        """Below /compat/<backend>; of two with one name the path's wins."""
        await post(client, "keep", lines=["Nadia drinks tea."])
        reply = await client.get("/compat/memory/v1/things/tea", params={"a": "1", "id": "coffee"})
        assert reply.json() == {"found": ["Nadia drinks tea."], "asked": {"a": "1", "id": "tea"}}
        reply = await client.post("/compat/memory/v1/things/tea", json={"b": [2]})
        assert reply.json()["asked"] == {"b": [2], "id": "tea"}

    async def test_a_body_that_is_no_object(self, client: httpx.AsyncClient) -> None:
        """Refused before the handler."""
        assert (await client.post("/compat/memory/v1/things/tea", json=[1])).status_code == 422

    async def test_a_probe_wants_a_key_as_every_route_of_a_backend_does(self, home: Path) -> None:
        """Without one nobody learns which backends there are."""
        settings = load(home=home, api_key="k")
        async with Gateway.open(settings) as fusion:
            transport = Checked(create_app(fusion, settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                for path in ("/compat/memory/healthz", "/compat/memory/v1/things/tea", "/compat/none"):
                    assert (await client.get(path)).status_code == 401
                client.headers["authorization"] = "Bearer k"
                assert (await client.get("/compat/memory/healthz")).json() == {"status": "fine"}

    @pytest.mark.feature(
        "… or, with one setting, at the root of a port of their own", of="routes of another system are"
    )
    async def test_at_the_root_of_a_port_of_their_own(self, home: Path) -> None:
        """With one setting: there / is /compat/<backend>, and nothing else; the main port is as ever."""
        settings = load(home=home)
        door, own = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
        ready = asyncio.Event()
        async with Gateway.open(settings) as fusion:
            drop_ins = {own: "/compat/memory"}
            serving = asyncio.create_task(serve_on(door, fusion, settings, lambda url: ready.set(), drop_ins))
            await ready.wait()
            headers = {"authorization": f"Bearer {home_token(home)}"}
            async with httpx.AsyncClient(trust_env=False, headers=headers) as client:

                async def status(url: str, path: str) -> int:
                    return (await client.get(url + path)).status_code

                root, main = url_of(own), url_of(door)
                assert await status(root, "/v1/things/tea") == await status(main, "/compat/memory/v1/things/tea") == 200
                assert (await client.get(f"{root}/healthz")).json() == {"status": "fine"}
                assert await status(root, "/v1/backends") == await status(main, "/v1/things/tea") == 404
                assert (await client.get(f"{main}/healthz")).json()["status"] == "ok"
            os.kill(os.getpid(), signal.SIGTERM)  # which the server takes for itself, while it runs
            await serving

    def test_a_port_that_is_taken_is_named_with_its_setting(self, home: Path) -> None:
        """Before the home is opened: nothing is half served."""
        with closing(listen("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            settings = load(home=home, server={"port": 0}, backends={"memory": {"compat_port": port}})
            with pytest.raises(SettingsError, match=f"port {port}.*backends.memory.compat_port"):
                serve(settings)

    def test_a_fake_has_none(self) -> None:
        """A gateway whose backends export no routes mounts none."""
        paths = [getattr(route, "path", "") for route in app_over(FakeFusion())._app.routes]  # type: ignore[attr-defined]
        assert not [path for path in paths if path.startswith("/compat")]
