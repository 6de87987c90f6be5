"""The TypeScript client in Node, Deno and Bun, and before the compiler, all as npm has them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from fusion.client import ensure_server
from fusion.home import HomeLock, ServerRecord, write_record
from fusion.trust import allow
from fusion.trust.token import home_token
from tests import typescript
from tests.doors.fakes import SMALL, server_stopped
from tests.integrations.typescript_client import NODE, NPM, PACKAGE, Driver, Installed, Listener

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(NODE is None or NPM is None, reason="Node and npm are not installed"),
    pytest.mark.timeout(600),
]
RUNTIMES = {"node": (), "deno": ("run", "--allow-net", "--allow-read", "--allow-env", "--allow-sys"), "bun": ()}
PATIENT = {"timeoutMs": 60_000}
MILL, ASKED = "The mill at the harbour is closed in March.", "When is the mill at the harbour closed?"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed.into(tmp_path_factory.mktemp("installed"))


@pytest.fixture(params=RUNTIMES, scope="module")
def runtime(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The command of a runtime, up to the file that it runs."""
    program = NODE if request.param == "node" else str(typescript.tools() / request.param)
    assert program is not None
    return (program, *RUNTIMES[request.param])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home without a model, whose server runs."""
    home = tmp_path_factory.mktemp("hosts") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        ensure_server(home)
        yield home


@pytest.mark.feature("TypeScript: the client runs in Node, Deno and Bun")
@pytest.mark.parametrize("by", ["url", "home"])
def test_typescript_client_runs_in_each_runtime(
    installed: Installed, runtime: tuple[str, ...], home: Path, by: str
) -> None:
    by_url = {"url": ensure_server(home).url, "options": {"apiKey": home_token(home), **PATIENT}}
    config = by_url if by == "url" else {"home": str(home), "options": PATIENT}
    scope = {"user_id": f"{Path(runtime[0]).name}-{by}"}
    with Driver(installed.folder, config, runtime) as driver:
        ref = driver.call("remember", {"text": MILL, **scope})["memories"][0]["ref"]
        assert driver.call("settle", 60_000)["settled"]
        assert MILL in driver.call("recall", ASKED, {**scope, "timeout_ms": 60_000}, PATIENT)["block"]
        assert driver.call("forget", ref, scope)["ref"] == ref
        assert driver.error("get", ref, scope)["kind"] == "NotFound"


def test_typescript_client_sends_a_token_to_its_server_alone(
    installed: Installed, runtime: tuple[str, ...], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    allow(home)
    token = home_token(home)
    with HomeLock.take(home, "fusion serve"), Listener() as thief:
        write_record(home, ServerRecord(1, f"http://127.0.0.1:{thief.port}", "now"))
        with Driver(installed.folder, {"home": str(home), "options": {}}, runtime) as driver:
            assert "does not know the home's token" in driver.error("fuse", ASKED)["message"]
    assert b"x-fusion-challenge" in thief.received
    assert token.encode() not in thief.received


def test_typescript_client_follows_no_redirect_in_any_runtime(
    installed: Installed, runtime: tuple[str, ...], httpserver: HTTPServer
) -> None:
    with Listener() as elsewhere:
        there = f"http://localhost:{elsewhere.port}/v1/fuse"
        httpserver.expect_request("/v1/fuse").respond_with_response(Response("", 307, {"location": there}))
        config = {"url": httpserver.url_for(""), "options": {"apiKey": "k", **PATIENT}}
        with Driver(installed.folder, config, runtime) as driver:
            error = driver.error("fuse", ASKED)
    assert (error["kind"], error["status"]) == ("ServerUnreachable", 307)
    assert elsewhere.received == b""


@pytest.mark.feature(
    "TypeScript: tsc accepts the client as strict JavaScript, and its declarations are what tsc writes"
)
def test_typescript_declarations_are_those_of_the_code() -> None:
    """After a change of the code: python -m tests.typescript --declarations."""
    written = typescript.declarations()
    assert {f"{file.stem}.d.ts" for file in PACKAGE.glob("*.js")} == written.keys()
    assert {name: (PACKAGE / name).read_text() for name in written} == written


PROGRAM = """\
import { Client, FusionError, type Recalled } from "memory-fusion-client";
import { homeClient } from "memory-fusion-client/home";

const memory: Client = process.argv[2] ? new Client(process.argv[2], { apiKey: "k" }) : homeClient();
const recalled: Recalled = await memory.recall("q", { user_id: "ana", asker: { session_id: "s1" } });
if (recalled.reason === null) recalled.block.trim();
const { block, memories } = await memory.fuse("q", { budget_tokens: 500 }, { timeoutMs: 100 });
const refs: string[] = [block, ...memories.map((one) => one.ref)];
const why = await memory.request("GET", "/v1/why/{ref}", { path: { ref: refs[0] ?? "" }, query: { limit: 3 } });
const status: string = why.status;
await memory.request("GET", "/v1/jobs");
const kind = (error: unknown): string => (error instanceof FusionError ? error.kind : status);
kind(undefined);
// @ts-expect-error -- there is no such route
await memory.request("GET", "/v1/nothing");
// @ts-expect-error -- there is no such route with this method
await memory.request("DELETE", "/v1/fuse");
// @ts-expect-error -- the path needs a ref
await memory.request("GET", "/v1/why/{ref}");
// @ts-expect-error -- the body needs a query
await memory.request("POST", "/v1/fuse", { body: {} });
// @ts-expect-error -- there is no such audience
await memory.fuse("q", { audience: "everyone" });
// @ts-expect-error -- there is no such field
await memory.remember({ text: "x", colour: "red" });
"""


@pytest.mark.feature("TypeScript: the compiler knows the path, query, body and reply of every route")
@pytest.mark.parametrize("resolution", ["nodenext", "bundler"])
def test_typescript_programs_are_checked_against_the_api(installed: Installed, resolution: str) -> None:
    tsc = typescript.tools() / "tsc"
    program = installed.folder / "program.ts"
    program.write_text(PROGRAM)
    module = "nodenext" if resolution == "nodenext" else "esnext"
    options = ["--strict", "--noEmit", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", module]
    options += ["--moduleResolution", resolution, "--types", "node", "--lib", "es2022,dom"]
    options += ["--typeRoots", str(typescript.TOOLS / "node_modules" / "@types")]
    done = subprocess.run([tsc, *options, program], check=False, cwd=installed.folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
