"""The TypeScript client in Node, from the package that `npm pack` makes, against a real server and bad ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from benchmarks.bad_servers import DEAD, WAYS, Way, bad_server
from fusion import __version__
from fusion.client import ensure_server
from fusion.home import HomeLock, ServerRecord, write_record
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.doors.fakes import SMALL, server_stopped
from tests.integrations.typescript_client import NODE, NPM, PACKAGE, Driver, Installed, Listener

ROOT = Path(__file__).parents[2]
KEY = "a-key-that-nobody-else-has"
MILL, ASKED = "The mill at the harbour is closed in March.", "When is the mill at the harbour closed?"
PATIENT_MS = 60_000
ANSWER = {"block": "<memories/>", "abstained": None}
OVERLOADED = {
    "type": "urn:memory-fusion:error:Overloaded",
    "title": "Overloaded",
    "status": 503,
    "detail": "Too many requests at once.",
    "retry_after_s": 0.01,
}

pytestmark = pytest.mark.skipif(NODE is None or NPM is None, reason="Node and npm are not installed")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed.into(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ServerRecord]]:
    """A home without a model, and its server."""
    home = tmp_path_factory.mktemp("typescript") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        yield home, ensure_server(home)


@pytest.fixture
def driver(installed: Installed, server: tuple[Path, ServerRecord]) -> Iterator[Driver]:
    """A client of the real server, by its address and token."""
    home, record = server
    config = {"url": record.url, "options": {"apiKey": home_token(home), "timeoutMs": PATIENT_MS}}
    with Driver(installed.folder, config) as one:
        yield one


@contextmanager
def asking(installed: Installed, url: str, **options: Any) -> Iterator[Driver]:
    """A client of a server that the test plays."""
    config = {"url": url, "options": {"apiKey": KEY, "timeoutMs": PATIENT_MS, **options}}
    with Driver(installed.folder, config) as one:
        yield one


# The package ---------------------------------------------------------------------------------------------------------


@pytest.mark.feature("TypeScript: the client is one package without dependencies, for Node, Deno, Bun and browsers")
def test_typescript_package_has_what_is_needed_and_nothing_else(installed: Installed) -> None:
    """Code, its types and its page; no tests, no settings of a compiler, nothing to build."""
    modules = {file.stem for file in PACKAGE.glob("*.js")}
    types = {file.name for file in PACKAGE.glob("*.d.ts")}
    assert {f"{name}.d.ts" for name in modules} | {"api.d.ts", "types.d.ts"} == types
    assert installed.files == {f"{name}.js" for name in modules} | types | {"package.json", "README.md"}
    described = json.loads((PACKAGE / "package.json").read_text())
    assert not any(name.endswith("ependencies") or name == "scripts" for name in described)
    assert described["version"] == __version__


def test_typescript_client_for_browsers_imports_nothing_of_node() -> None:
    """Only home.js, which has an entry of its own, needs Node."""
    for file in PACKAGE.glob("*.js"):
        if file.stem != "home":
            assert "node:" not in file.read_text(), file.name
            assert "process" not in re.sub(r"//.*|/\*.*?\*/", "", file.read_text(), flags=re.DOTALL), file.name


# A real server -------------------------------------------------------------------------------------------------------


@pytest.mark.feature("TypeScript: fuse, pack, search, get, why, state, remember, update, forget and settle of a server")
def test_typescript_client_asks_and_fills_a_server(driver: Driver) -> None:
    ref = driver.call("remember", {"text": MILL, "user_id": "ana"})["memories"][0]["ref"]
    assert driver.call("settle", PATIENT_MS)["settled"]
    answer = driver.call("fuse", ASKED, {"user_id": "ana", "timeout_ms": PATIENT_MS})
    assert MILL in answer["block"]
    assert MILL in driver.call("pack", ASKED, {"user_id": "ana", "timeout_ms": PATIENT_MS})["bundle_text"]
    assert driver.call("search", "memory", "mill", {"user_id": "ana"})["hits"][0]["text"] == MILL
    assert driver.call("get", ref, {"user_id": "ana"})["text"] == MILL
    assert [one["ref"] for one in driver.call("memories", {"user_id": "ana"})["memories"]] == [ref]
    assert driver.call("why", ref, {"user_id": "ana"})["status"] == "current"
    assert driver.call("feedback", answer["receipt_id"], {"useful": [ref], "user_id": "ana"})["useful"] == [ref]
    assert driver.call("setState", ref, {"archived": True, "user_id": "ana"})["decision"]["id"]
    new = driver.call("update", ref, {"text": "The mill is open again.", "user_id": "ana"})
    assert driver.call("undo", {"batch": new["batch"], "user_id": "ana"})["left"] == 0
    assert driver.call("forgetMany", {"refs": [ref], "dry_run": True, "user_id": "ana"})["dry_run"]
    assert driver.call("forget", ref, {"user_id": "ana"})["ref"] == ref
    gone = driver.error("get", ref, {"user_id": "ana"})
    assert (gone["name"], gone["kind"], gone["status"]) == ("FusionError", "NotFound", 404)
    assert gone["problem"]["detail"] == gone["message"]


@pytest.mark.feature(
    "… and sessions, the state of the home, and every other route by its method and path", of="TypeScript: fuse"
)
def test_typescript_client_has_sessions_and_every_other_route(driver: Driver) -> None:
    turns = [{"role": "user", "content": "We deploy on Tuesdays."}, {"role": "assistant", "content": "Noted."}]
    assert "session_id" in driver.call("ingest", "s1", turns, {"user_id": "bo", "debounce": False})
    assert driver.call("session", "s1", {"user_id": "bo"})["session_id"] == "s1"
    assert driver.call("health")["version"] == __version__
    assert driver.call("status")["backends"]
    plans = driver.call("request", "GET", "/v1/plans", {"query": {"user_id": "bo", "limit": 1, "everything": True}})
    assert plans["plans"] == []
    refused = driver.error("request", "POST", "/v1/index", {"body": {"query": "", "user_id": "bo"}})
    assert (refused["kind"], refused["status"]) == ("BadInput", 422)


@pytest.mark.feature("TypeScript: another user's memories are never in an answer")
def test_typescript_client_keeps_two_users_apart(driver: Driver) -> None:
    ref = driver.call("remember", {"text": "Cleo's locker has the number 71.", "user_id": "cleo"})["memories"][0]["ref"]
    driver.call("settle", PATIENT_MS)
    fields = {"timeout_ms": PATIENT_MS}
    assert (
        "71" in driver.call("recall", "which number has the locker?", {**fields, "user_id": "cleo"}, patient())["block"]
    )
    assert (
        "71"
        not in driver.call("recall", "which number has the locker?", {**fields, "user_id": "dan"}, patient())["block"]
    )
    assert driver.error("get", ref, {"user_id": "dan"})["kind"] == "NotFound"


def patient() -> dict[str, int]:
    return {"timeoutMs": PATIENT_MS}


def test_typescript_client_stores_once_with_one_key(driver: Driver) -> None:
    """The same key gets the first reply again; with another text it is an error of the server."""
    options = {"idempotencyKey": "k1"}
    first = driver.call("remember", {"text": "Only once.", "user_id": "eve"}, options)
    assert driver.call("remember", {"text": "Only once.", "user_id": "eve"}, options) == first
    reused = driver.error("remember", {"text": "Something else.", "user_id": "eve"}, options)
    assert (reused["kind"], reused["status"]) == ("KeyReused", 422)


@pytest.mark.feature("TypeScript: the example on its page runs")
def test_typescript_example_runs(installed: Installed, server: tuple[Path, ServerRecord]) -> None:
    """As the page shows it, for the home and by the address of its server."""
    home, record = server
    example = PACKAGE / "examples" / "turn.js"
    assert example.read_text() in (ROOT / "docs" / "integrations" / "typescript.md").read_text()
    shutil.copy(example, installed.folder)
    for arguments in ((), (record.url,)):
        command = [NODE or "", "turn.js", *arguments]
        environment = {**os.environ, "FUSION_HOME": str(home), "FUSION_API_KEY": home_token(home)}
        done = subprocess.run(
            command, check=False, cwd=installed.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        shown, _, end = done.stdout.strip().rpartition("\n")
        assert "moved to Postgres" in shown or "The prompt goes on without memories: " in shown
        assert re.fullmatch(r"m\w+ was current, and is forgotten\.", end)


# A home --------------------------------------------------------------------------------------------------------------


@pytest.mark.feature(
    "TypeScript: the server of a home gets its token once it has proved to know it, on each connection"
)
def test_typescript_client_of_a_home(installed: Installed, server: tuple[Path, ServerRecord]) -> None:
    home, _ = server
    with Driver(installed.folder, {"home": str(home), "options": patient()}) as driver:
        kept = driver.call("remember", {"text": "Frida's bike is green.", "user_id": "frida"})
        assert driver.call("get", kept["memories"][0]["ref"], {"user_id": "frida"})["text"] == "Frida's bike is green."
        assert driver.error("get", "m999999", {"user_id": "frida"})["kind"] == "NotFound"


@pytest.mark.parametrize("way", {**WAYS, **DEAD})
def test_typescript_recall_of_a_home_does_not_wait_for_a_bad_server(
    installed: Installed, tmp_path: Path, way: Way
) -> None:
    with bad_server(tmp_path / "home", way):
        if way == "dead":
            home_token(tmp_path / "home")
        with Driver(installed.folder, {"home": str(tmp_path / "home"), "options": {}}) as driver:
            recalled = driver.call("recall", ASKED)
            assert recalled["block"] == ""
            assert recalled["reason"]


def test_typescript_client_sends_no_token_to_a_program_that_took_the_port(installed: Installed, tmp_path: Path) -> None:
    """What listens at the address of the record answers like a server, and proves nothing."""
    home = tmp_path / "home"
    allow(home)
    token = home_token(home)
    with HomeLock.take(home, "fusion serve"), Listener() as thief:
        write_record(home, ServerRecord(1, f"http://127.0.0.1:{thief.port}", "now"))
        with Driver(installed.folder, {"home": str(home), "options": {"retries": 0}}) as driver:
            error = driver.error("fuse", ASKED)
    assert "does not know the home's token" in error["message"]
    assert b"x-fusion-challenge" in thief.received
    assert token.encode() not in thief.received


def test_typescript_client_of_a_home_refuses_secrets_of_others(installed: Installed, tmp_path: Path) -> None:
    home = tmp_path / "home"
    allow(home)
    with Driver(installed.folder, {"home": str(home), "options": {"retries": 0}}) as driver:
        assert f"No server of {home} runs" in driver.error("fuse", ASKED)["message"]
        write_record(home, ServerRecord(1, "http://127.0.0.1:1", "now"))
        home_token(home)
        (home / "token").chmod(0o644)
        assert "not a file that only you can read" in driver.error("fuse", ASKED)["message"]
        write_record(home, ServerRecord(1, "http://memory.example:8765", "now"))
        assert "not on this computer" in driver.error("fuse", ASKED)["message"]


# Tries ---------------------------------------------------------------------------------------------------------------


class Script:
    """Answers requests in turn, the last answer again and again, and keeps their headers."""

    def __init__(self, *answers: Response) -> None:
        self._answers = list(answers)
        self.headers: list[Mapping[str, str]] = []

    def __call__(self, request: Request) -> Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def answer(content: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = "application/json" if status < 400 else "application/problem+json"
    return Response(json.dumps(content), status, named, content_type=kind)


@pytest.mark.feature("TypeScript: a request is sent again only where that can do no harm, and when the server says so")
def test_typescript_client_asks_again_when_the_server_says_so(installed: Installed, httpserver: HTTPServer) -> None:
    without_body = {key: value for key, value in OVERLOADED.items() if key != "retry_after_s"}
    script = Script(answer(OVERLOADED, 503), answer(without_body, 429, retry_after="0"), answer(ANSWER))
    httpserver.expect_request("/v1/fuse").respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        assert driver.call("fuse", ASKED) == ANSWER
    assert [one["authorization"] for one in script.headers] == [f"Bearer {KEY}"] * 3


def test_typescript_client_gives_up_when_the_wait_is_longer_than_its_time(
    installed: Installed, httpserver: HTTPServer
) -> None:
    script = Script(answer({**OVERLOADED, "retry_after_s": 3600}, 503))
    httpserver.expect_request("/v1/fuse").respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        error = driver.error("fuse", ASKED)
    assert (error["kind"], error["retryAfterMs"], len(script.headers)) == ("Overloaded", 3_600_000, 1)


def test_typescript_client_does_not_ask_again_without_a_time_to_wait(
    installed: Installed, httpserver: HTTPServer
) -> None:
    script = Script(answer({"type": "about:blank", "title": "Internal Server Error", "status": 500}, 500))
    httpserver.expect_request("/v1/fuse").respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        error = driver.error("fuse", ASKED)
    assert (error["kind"], error["message"], len(script.headers)) == ("HttpError", "Internal Server Error", 1)


def test_typescript_client_remembers_again_with_the_same_key(installed: Installed, httpserver: HTTPServer) -> None:
    """A key is made for each call, so that a try whose reply was lost stores nothing twice."""
    script = Script(answer(OVERLOADED, 503), answer({"memories": []}))
    httpserver.expect_request("/v1/memories").respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        assert driver.call("remember", {"text": MILL}) == {"memories": []}
        assert driver.call("remember", {"text": MILL}) == {"memories": []}
    first, again, other = (one["idempotency-key"] for one in script.headers)
    assert first == again != other


@pytest.mark.parametrize(
    "call",
    [
        ("forget", "m1"),
        ("forgetMany", {"refs": ["m1"]}),
        ("undo",),
        ("setState", "m1", {"archived": True}),
        ("request", "POST", "/v1/facts/rebuild", {"body": {}}),
    ],
    ids=lambda call: call[0],
)
def test_typescript_client_writes_once_without_a_key(
    installed: Installed, httpserver: HTTPServer, call: tuple[Any, ...]
) -> None:
    script = Script(answer(OVERLOADED, 503))
    httpserver.expect_request(re.compile("/v1/.*")).respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        assert driver.error(*call)["kind"] == "Overloaded"
    assert len(script.headers) == 1


# Replies of other programs -------------------------------------------------------------------------------------------

BAD_REPLIES: Mapping[str, Callable[[], Response]] = {
    "HTML": lambda: Response("<html>Log in to the hotel</html>", content_type="text/html"),
    "an error in HTML": lambda: Response("<html>Bad gateway</html>", 502, content_type="text/html"),
    "truncated JSON": lambda: Response('{"block": "<memor', content_type="application/json"),
    "no object": lambda: answer([1, 2]),
    "nothing": lambda: Response(b""),
    "no UTF-8": lambda: Response(b'{"block": "\xff\xfe', content_type="application/json"),
    "deep JSON": lambda: Response("[" * 100_000, content_type="application/json"),
    "huge": lambda: Response('{"block": "' + "x" * 3_000_000 + '"}', content_type="application/json"),
}


@pytest.mark.feature("TypeScript: a reply that is not a server's is a typed error; recall gives an empty block and why")
@pytest.mark.parametrize("name", BAD_REPLIES)
def test_typescript_client_refuses_replies_of_other_programs(
    installed: Installed, httpserver: HTTPServer, name: str
) -> None:
    httpserver.expect_request("/v1/fuse").respond_with_handler(lambda _: BAD_REPLIES[name]())
    with asking(installed, httpserver.url_for(""), maxReplyBytes=1_000_000) as driver:
        error = driver.error("fuse", ASKED)
        assert (error["name"], error["kind"]) == ("UnreachableError", "ServerUnreachable")
        recalled = driver.call("recall", ASKED, {}, patient())
    assert recalled == {"block": "", "reason": error["message"]}
    assert KEY not in error["shown"]


@pytest.mark.feature("TypeScript: a redirect is not followed, so no other host gets the key")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_typescript_client_follows_no_redirect(installed: Installed, httpserver: HTTPServer, status: int) -> None:
    with Listener() as elsewhere:
        there = f"http://localhost:{elsewhere.port}/v1/fuse"
        httpserver.expect_request("/v1/fuse").respond_with_response(Response("", status, {"location": there}))
        with asking(installed, httpserver.url_for("")) as driver:
            error = driver.error("fuse", ASKED)
    assert (error["kind"], error["status"]) == ("ServerUnreachable", status)
    assert elsewhere.received == b""


def test_typescript_errors_survive_hostile_problem_details(installed: Installed, httpserver: HTTPServer) -> None:
    problem = {"type": ["x"], "title": 7, "detail": {"a": 1}, "retry_after_s": "soon", "__proto__": {"status": 1}}
    script = Script(answer(problem, 503, retry_after="yesterday"), answer({"detail": "x" * 1_000_000}, 400))
    httpserver.expect_request("/v1/fuse").respond_with_handler(script)
    with asking(installed, httpserver.url_for("")) as driver:
        error = driver.error("fuse", ASKED)
        assert (error["kind"], error["status"]) == ("HttpError", 503)
        assert "retryAfterMs" not in error
        assert len(driver.error("fuse", ASKED)["message"]) == 2000


# Time ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a program that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.feature("TypeScript: a call ends at its time limit, and with the signal of its caller")
def test_typescript_calls_end_in_time(installed: Installed, silent: str) -> None:
    with asking(installed, silent) as driver:
        late = driver.error("fuse", ASKED, {}, {"timeoutMs": 50})
        assert (late["kind"], late["timedOut"]) == ("ServerUnreachable", True)
        aborted = driver.error("fuse", ASKED, {}, abortAfterMs=50)
        assert (aborted["name"], aborted["ours"]) == ("TimeoutError", False)
        assert "within 200 ms" in driver.call("recall", ASKED)["reason"]


@pytest.mark.feature("TypeScript: recall never rejects")
def test_typescript_recall_never_rejects(installed: Installed, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with asking(installed, f"http://127.0.0.1:{port}") as driver:
        for arguments in ((ASKED,), (None,), (ASKED, {"user_id": 1}), (ASKED, None, None)):
            outcome = driver.send("recall", *arguments)
            assert outcome["result"]["block"] == "", arguments
            assert outcome["result"]["reason"], arguments


# Arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["", ".", "..", None, 7, {}])
def test_typescript_values_of_a_path_stay_in_it(installed: Installed, httpserver: HTTPServer, ref: object) -> None:
    """DELETE /v1/memories/.. would be DELETE /v1/."""
    with asking(installed, httpserver.url_for("")) as driver:
        assert driver.error("forget", ref)["name"] == "TypeError"
    assert httpserver.log == []


def test_typescript_values_are_encoded(installed: Installed, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/v1/memories/a/..?b=c&d", query_string={"user_id": "ü&x=1"}).respond_with_json(
        {"ref": "m1"}
    )
    with asking(installed, httpserver.url_for("/")) as driver:
        assert driver.call("get", "a/..?b=c&d", {"user_id": "ü&x=1", "agent_id": None}) == {"ref": "m1"}


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("ftp://127.0.0.1", KEY),
        ("http://ada:secret@127.0.0.1", KEY),
        ("http://127.0.0.1", f"{KEY}\r\nx: y"),
        ("http://127.0.0.1", ""),
    ],
)
def test_typescript_client_refuses_addresses_and_keys_that_cannot_be(installed: Installed, url: str, key: str) -> None:
    """The error does not show the key."""
    command = [NODE or "", "driver.mjs", json.dumps({"url": url, "options": {"apiKey": key}})]
    done = subprocess.run(
        command, check=False, cwd=installed.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode != 0
    assert "TypeError: " in done.stderr
    assert "secret" not in done.stderr.partition("TypeError: ")[2]
