"""The command line and its server as a user has them: real processes on a real home."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from adapters.http import HttpMemory
from fusion.client import Client, ensure_server, stop_server
from fusion.contract import Query, Scope
from fusion.doors.cli import app
from fusion.home import ServerRecord, owner, read_record
from fusion.local_server import running_server
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.doors.fakes import SMALL, server_stopped
from tests.patience import opening_at


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with one small backend and no model; whatever server it has at the end of the test is stopped."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    with server_stopped(home):
        yield home


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose server answers several tests, each with a user of its own; one that has ended is started again."""
    home = tmp_path_factory.mktemp("running") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        ensure_server(home)
        yield home


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fusion", *(str(a) for a in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def invoke(*arguments: object) -> Result:
    """A command in this process, where what a process of its own does is not what is shown."""
    return CliRunner().invoke(app, [str(a) for a in arguments])


def fusion(*arguments: object) -> str:
    """What a command prints on stdout."""
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def fusion_process(*arguments: object) -> str:
    """What a command prints on stdout, as a process of its own."""
    with start(*arguments) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def fusion_json(*arguments: object) -> dict[str, Any]:
    """The one line of JSON that a command printed."""
    [line] = fusion(*arguments, "--json").splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_command_ends_quietly_on_a_closed_pipe(running: Path) -> None:
    """`fusion … | head -1`: the rest is not printed, and nothing is said of it on stderr."""
    fusion("remember", "The bookings move to Postgres", "--home", running, "--user", "olga")
    with start("fuse", "where do bookings live?", "--home", running, "--user", "olga") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        assert (process.communicate(timeout=60)[1], process.returncode) == ("", 141)


@pytest.mark.feature("a history is taken in although kill -9 ended the server within the debounce")
def test_ingest_survives_kill_9_within_the_debounce(home: Path) -> None:
    """The next server has it waiting, and takes it in when it is stopped."""
    (home / "fusion.toml").write_text(f"{SMALL}[memory_cortex]\ndebounce_s = 3000\n")
    allow(home)
    said = [{"role": "user", "content": "The mill at the harbour is closed in March."}]
    pid = ensure_server(home).pid
    with Client.of_home(home, start=False) as client:
        assert client.ingest_history(said, "s1", user_id="ana")["status"] == "accepted"
    os.kill(pid, signal.SIGKILL)
    ensure_server(home)
    with Client.of_home(home, start=False) as client:
        assert client.memories(user_id="ana")["memories"] == []
        assert client.status()["histories"] == {"waiting": 1, "fault": ""}
    assert "1 waits to be taken in" in fusion("status", "--home", home)
    stop_server(home)
    ensure_server(home)
    with Client.of_home(home, start=False) as client:
        assert [one["text"] for one in client.memories(user_id="ana")["memories"]] == [said[0]["content"]]


def test_client_without_token_works_on_the_open_port_of_memory_cortex_alone(home: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    (home / "fusion.toml").write_text(f"{SMALL}[memory_cortex]\nport = {port}\nopen_to_local_users = true\n")
    allow(home)
    server = ensure_server(home)
    call = {"messages": [{"role": "user", "content": "Prefers Rust"}], "session_id": "s1"}
    for url, status in ((f"http://127.0.0.1:{port}", 202), (server.url, 401)):
        assert httpx.post(f"{url}/ingest", json=call, timeout=60).status_code == status
        assert httpx.get(f"{url}/v1/status", timeout=60).status_code == 401
    assert "needs no token" in fusion("doctor", "--home", home)


@pytest.mark.feature("a client that was written for Memory Cortex works with the token, on the port that it knows")
def test_client_of_memory_cortex_works_on_a_port_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of seed 002, and the preset of our own `http` backend, which reads a Memory Cortex server."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    (home / "fusion.toml").write_text(f"{SMALL}[memory_cortex]\nport = {port}\n")
    allow(home)
    server = ensure_server(home)
    url, key = f"http://127.0.0.1:{port}", {"authorization": f"Bearer {server.token}"}
    said = [{"role": "user", "content": "Prefers Rust for systems programming"}]
    call = {"messages": said, "session_id": "s1", "channel": "telegram", "user_id": "oogley", "debounce": False}
    asked = {"query": "who prefers Rust?", "user_id": "oogley", "limit": 10}
    with httpx.Client(base_url=url, headers=key, timeout=60) as client:
        assert client.post("/ingest", json=call).status_code == 202
        client.post("/v1/settle", json={"timeout_s": 60})
        found = client.post("/hybrid-search", json=asked).json()
        assert (found["count"], found["results"][0]["fact"]) == (1, said[0]["content"])
        recalled = client.post("/recall", json={"query": asked["query"], "user_id": "oogley"}).json()
        assert (recalled["memories_used"], said[0]["content"] in recalled["response"]) == (1, True)
        assert httpx.post(f"{url}/hybrid-search", json=asked, timeout=60).status_code == 401
    monkeypatch.setenv("FUSION_SEED_KEY", server.token)

    async def by_preset() -> list[str]:
        options = {"preset": "memory-cortex", "api_key_env": "FUSION_SEED_KEY"}
        backend = await HttpMemory.open(opening_at(url, "seed", home / "seed", **options))
        try:
            query = Query("who prefers Rust?", Scope(user_id="oogley"), datetime.now(UTC), deadline_s=60.0)
            return [hit.text for hit in await backend.search(query)]
        finally:
            await backend.close()

    assert asyncio.run(by_preset()) == [said[0]["content"]]


@pytest.mark.row("A039", "an episode is stated with `fusion remember --from --to --with`, and shown by `fusion get`")
def test_remember_an_episode_and_ask_for_its_time(running: Path) -> None:
    """From 28 February to 3 March is in March, and no word of it is in the question."""
    period = ("--kind", "episode", "--from", "2026-02-28", "--to", "2026-03-03", "--with", "Ana", "--with", "Bob")
    kept = fusion_json("remember", "A trip to Lisbon", *period, "--home", running, "--user", "eva")["memories"][0]
    with Client.of_home(running, start=False) as client:
        assert client.settle(60)["settled"]
    fused = fusion_json("fuse", "What happened in March 2026?", "--home", running, "--user", "eva")
    assert [m["ref"] for m in fused["memories"]] == [kept["ref"]]
    shown = fusion("get", kept["ref"], "--home", running, "--user", "eva")
    assert "happened  2026-02-28T00:00:00Z to 2026-03-04T00:00:00Z\n" in shown
    assert "with      Ana, Bob\n" in shown
    refused = invoke("remember", "x", "--from", "2026-03-02", "--to", "2026-03-01", "--home", running, "--user", "eva")
    assert "until is before at" in refused.stderr


def test_command_writes_no_progress_without_terminal(running: Path, tmp_path: Path) -> None:
    """No bar is shown, and a line only on a machine that is busy for seconds. The result, with how to undo it, is on
    stdout."""
    (tmp_path / "note.md").write_text("# Staging\n\nIt listens on 4409.\n")
    with start("ingest", tmp_path / "note.md", "--home", running, "--user", "pia") as process:
        out, err = process.communicate(timeout=60)
    assert not [line for line in err.splitlines() if not line.startswith("ingest: ")]
    assert [line.partition(" fusion ")[0] for line in out.splitlines()] == [
        "1 remembered, 0 known already.",
        "To take this back:",
    ]


@pytest.mark.feature(
    "a stranger's `fusion.py` in the working folder is not run by a server that is started there",
    part="faults/clients",
)
def test_a_server_takes_nothing_from_the_folder_it_was_started_in(home: Path, tmp_path: Path) -> None:
    """Somebody works in a folder with a fusion.py of its own, which may be a stranger's: it is not run."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "fusion.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    command = [sys.executable, "-P", "-m", "fusion", "remember", "Tea at four", "--home", str(home), "--json"]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()
    assert running_server(home) is not None


@pytest.mark.feature("`python -m fusion` imports nothing from the working folder")
def test_a_command_by_python_m_imports_nothing_from_the_working_folder(home: Path, tmp_path: Path) -> None:
    """Python itself puts that folder first; adapters of one's own are named by PYTHONPATH, as for `fusion`."""
    names = ("orjson.py", "typer.py", "rich.py", "adapters/__init__.py")
    for name in names:
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text("import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()\n")
    command = [sys.executable, "-m", "fusion", "remember", "Tea at four", "--home", str(home), "--json", "--direct"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, check=False, cwd=tmp_path / "work", env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.ran")) == []


@pytest.mark.row(
    "A051", "A052", "the command line remembers, asks, explains, searches, forgets, stops; `--json` is one line"
)
def test_remember_ask_read_forget(home: Path) -> None:
    """The first command starts the server, the others use it; what was forgotten is gone."""
    [line] = fusion_process(
        "remember", "The bookings move to Postgres", "--home", home, "--user", "nadia", "--json"
    ).splitlines()
    kept = json.loads(line)["memories"][0]
    assert kept["status"] == "stored"
    with Client.of_home(home, start=False) as client:
        assert client.settle(60)["settled"]
    asks = ("fuse", "where do bookings live?", "--home", home, "--user", "nadia", "--json")
    fused = json.loads(fusion_process(*asks))
    assert [m["ref"] for m in fused["memories"]] == [kept["ref"]]
    assert fusion_json("receipt", fused["receipt_id"], "--home", home)["receipt_id"] == fused["receipt_id"]
    assert len(fusion_json("search", "memory", "bookings", "--home", home, "--user", "nadia")["hits"]) == 1
    assert fusion_json("fuse", "where do bookings live?", "--home", home, "--user", "somebody")["memories"] == []
    page = fusion_json("memories", "--home", home, "--user", "nadia", "--limit", 1)
    assert ([m["ref"] for m in page["memories"]], page["next_cursor"]) == ([kept["ref"]], None)
    assert fusion("memories", "--home", home, "--user", "somebody") == "No memories here.\n"
    assert "The bookings move to Postgres" in fusion("memories", "--home", home)
    gone = fusion_json("forget", kept["ref"], "--home", home, "--user", "nadia")
    assert ([r["backends"] for r in gone["receipts"]], gone["done"]) == ([{"memory": "deleted"}], True)
    assert [one["ref"] for one in fusion_json("forgotten", "--home", home)["forgotten"]] == [kept["ref"]]
    assert fusion_json("fuse", "where do bookings live?", "--home", home, "--user", "nadia")["memories"] == []
    assert json.loads(fusion_process("stop", "--home", home, "--json"))["stopped"] is True
    assert owner(home) is None


def test_fuse_and_receipt_for_people(running: Path) -> None:
    """The block as it is, then who answered and why each memory is in."""
    fusion("remember", "The bookings move to [bold]Postgres[/bold]", "--home", running, "--user", "rita")
    with Client.of_home(running, start=False) as client:
        client.settle(60)
    out = fusion("fuse", "where do bookings live?", "--home", running, "--user", "rita", "-v")
    assert "The bookings move to [bold]Postgres[/bold]" in out
    assert "memory" in out
    assert "receipt r" in out
    assert "memory" in fusion("backends", "--home", running)


@pytest.mark.feature("one process owns a home; many commands at once end up with one server")
def test_concurrent_commands_start_one_server(home: Path) -> None:
    """Four commands in the same second on a home without a server: one server, four answers."""
    processes = [start("backends", "--home", home, "--json") for _ in range(4)]
    for process in processes:
        with process:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
            assert json.loads(out)["backends"][0]["name"] == "memory"
    record = running_server(home)
    assert record is not None
    holder = owner(home)
    assert holder is not None
    assert holder.pid == record.pid
    assert holder.serves


@pytest.mark.row("A044", "a killed server is replaced, and nothing stored is lost")
def test_killed_server_is_replaced(running: Path) -> None:
    """kill -9 leaves a record and a lock file behind; neither is taken for a server, and nothing kept is lost."""
    kept = fusion_json("remember", "The bookings move to Postgres", "--home", running, "--user", "karl")["memories"][0]
    record = read_record(running)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    with Client.of_home(running) as client:
        assert client.memory(kept["ref"], user_id="karl")["text"] == "The bookings move to Postgres"
        assert client.health()["pid"] != record.pid


def test_client_finds_the_next_server(running: Path) -> None:
    """A server that left between two questions costs the second one nothing but its start."""
    with Client.of_home(running) as client:
        first = client.health()["pid"]
        stop_server(running)
        assert client.health()["pid"] != first


def test_direct_locks_the_home(home: Path) -> None:
    """`--direct` works without a server, and is refused while one runs."""
    kept = fusion_json("remember", "a note about chains", "--home", home, "--direct")["memories"][0]
    assert kept["status"] == "stored"
    assert running_server(home) is None
    record = ensure_server(home)
    process = start("fuse", "chains", "--home", home, "--direct", "--json")
    with process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    [line] = err.splitlines()
    problem = json.loads(line)
    assert problem["type"].endswith("HomeLocked")
    assert f"process {record.pid} (fusion serve" in problem["detail"]


OPEN = "every user and every program of this computer"
"""what the log says of a server that needs no token"""


@pytest.mark.feature("SIGTERM finishes running requests")
def test_sigterm_finishes_requests_and_cleans_up(home: Path) -> None:
    """The record goes first, the process leaves with 0, the home is free. Without a token 401 says how to get it."""
    with start("serve", "--home", home, "--port", 0, "--json") as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        record = read_record(home)
        assert record is not None
        assert record == ServerRecord(process.pid, ready["url"], record.started, home_token(home))
        assert httpx.get(ready["url"] + "/readyz").json() == {"ready": True}
        refused = httpx.get(f"{ready['url']}/v1/backends")
        assert (refused.status_code, "fusion token" in refused.text) == (401, True)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert OPEN not in log
    assert process.returncode == 0
    assert read_record(home) is None
    assert owner(home) is None


@pytest.mark.feature("… and must be requested by name; the log says what it means", of="serving without a token")
def test_serve_without_token_warns(home: Path) -> None:
    """Then every local user is let in; a line of the log says so."""
    with start("serve", "--home", home, "--port", 0, "--json", "--no-token") as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        reply = httpx.get(f"{url}/v1/backends")
        assert (reply.status_code, "fusion token" in reply.text) == (200, False)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    assert OPEN in log


def test_idle_server_stops(home: Path) -> None:
    """With --idle-exit it stops by itself, and frees the home."""
    with start("serve", "--home", home, "--port", 0, "--idle-exit", 0.1) as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert owner(home) is None


def test_server_with_keys_accepts_local_clients(home: Path) -> None:
    """By the token in server.json, which only the home's owner can read; without it the door is shut."""
    (home / "fusion.toml").write_text(SMALL + f'[[server.keys]]\nname = "a"\nsha256 = "{"0" * 64}"\n')
    allow(home)
    record = ensure_server(home)
    assert httpx.get(record.url + "/v1/backends").status_code == 401
    assert fusion_json("backends", "--home", home)["backends"]


@pytest.mark.feature("a file that others can read (S13)", part="secrets")
def test_files_of_a_home_are_private(running: Path) -> None:
    """Folders 0700, files 0600, whatever the umask says."""
    fusion("remember", "a secret", "--home", running, "--user", "petra")
    loose = [p for p in running.rglob("*") if p.name != "fusion.toml" and p.stat().st_mode & 0o077]
    assert loose == []


def test_ingest_and_ask(running: Path, tmp_path: Path) -> None:
    """Files are ingested and answer a question; a second run is a no-op, with one line of output."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "chains.md").write_text("# Chains\n\nChains come from Kedjan.\n\n# Locks\n\nLocks come from Hjulhuset.\n")
    (notes / "talk.jsonl").write_text('{"text": "Berit phones before nine", "speaker": "Mara"}\n')
    summary = fusion_json("ingest", notes, "--home", running, "--user", "ines")
    assert (summary["read"], summary["stored"], summary["settled"]) == (3, 3, True)
    assert "0 remembered, 3 known already." in fusion("ingest", notes, "--home", running, "--user", "ines")
    assert "3 memories would be sent." in fusion("ingest", notes, "--home", running, "--user", "ines", "--dry-run")
    fused = fusion_json("fuse", "where do the chains come from?", "--home", running, "--user", "ines")
    assert "Kedjan" in fused["block"]


def test_the_first_command_of_all_can_be_an_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the user's home, in which an edited note takes the place of its earlier text."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    note = tmp_path / "keys.md"
    try:
        for run, safe in ((fusion_process, "blue"), (fusion, "blue"), (fusion, "red")):
            note.write_text(f"# Keys\n\nThe key lives in the {safe} safe.\n")
            assert "apart" not in run("ingest", note, "--no-wait")
        kept = fusion_json("memories")["memories"]
        assert [memory["source"] for memory in kept] == [f"file:{note}"]
        assert "red" in kept[0]["text"]
    finally:
        fusion("stop")


SESSION = "11111111-2222-4333-8444-555555555555"


def session_lines(first: int, last: int) -> str:
    """Lines of a Claude Code transcript: turns that say "turn 7 of the workshop"."""
    rows = (
        {
            "type": ("user", "assistant")[n % 2],
            "sessionId": SESSION,
            "uuid": f"u{n}",
            "timestamp": "2026-03-04T09:30:00Z",
            "message": {"role": ("user", "assistant")[n % 2], "content": f"turn {n} of the workshop"},
        }
        for n in range(first, last)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def in_the_journal(home: Path) -> list[str]:
    """The texts of all events, in their order, as another process reads them."""
    with closing(sqlite3.connect(f"file:{home / 'journal.sqlite'}?mode=ro", uri=True, timeout=60)) as db:
        return [text for (text,) in db.execute("select text from event order by seq")]


@pytest.mark.row(
    "A044", "after `kill -9` of server or client during an ingest of 5,000 lines, each line is stored once"
)
@pytest.mark.parametrize("killed", ["server", "client"])
def test_kill_9_in_the_middle_of_ingesting_5000_lines(home: Path, tmp_path: Path, killed: str) -> None:
    """Whichever process dies, running it again brings in every line, exactly once, in its order."""
    projects = tmp_path / ".claude" / "projects"
    projects.mkdir(parents=True)
    (projects / f"{SESSION}.jsonl").write_text(session_lines(0, 5000))
    record = ensure_server(home)
    with start("ingest", projects, "--home", home, "--json") as process, Client.of_home(home, start=False) as client:
        while client.backends()["backends"][0]["items"] < 1000:
            assert process.poll() is None
        os.kill(record.pid if killed == "server" else process.pid, signal.SIGKILL)
        _, err = process.communicate(timeout=100)
    if process.returncode == 1:  # the server may also die between two requests: then another one took the rest
        assert "again" in err
    if killed == "client":
        assert process.returncode == -signal.SIGKILL
        assert 1000 <= len(in_the_journal(home)) < 5000
    summary = fusion_json("ingest", projects, "--home", home, "--no-wait")
    assert (summary["read"], summary["skipped"]) == (5000, [])
    assert in_the_journal(home) == [f"turn {n} of the workshop" for n in range(5000)]
    again = fusion_json("ingest", projects, "--home", home, "--no-wait")
    assert (again["stored"], again["duplicates"]) == (0, 5000)


@pytest.mark.feature("… it ends with Ctrl-C, which is no failure", of="`fusion ingest --watch` stores")
def test_ingest_watch_remembers_changes_until_ctrl_c(home: Path, tmp_path: Path) -> None:
    """One line of JSON a round; Ctrl-C is no failure."""
    session = tmp_path / f"{SESSION}.jsonl"
    session.write_text(session_lines(0, 2))
    with start("ingest", "--watch", "--json", "--home", home, session) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["stored"] == 2
        with session.open("a") as file:
            file.write(session_lines(2, 3))
        assert json.loads(process.stdout.readline())["stored"] == 1
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert in_the_journal(home) == [f"turn {n} of the workshop" for n in range(3)]


@pytest.mark.feature(
    "`[notes]`: every backend answers with the current state of a followed folder, also after a kill",
)
def test_server_answers_from_a_followed_folder(home: Path, tmp_path: Path) -> None:
    """Edited and deleted while a server runs, and while none does; one that was killed in between is made up for."""
    folder = tmp_path / "notes"
    folder.mkdir()
    bike, shed = folder / "bike.md", folder / "shed.md"
    bike.write_text("The bike is blue.")
    shed.write_text("The shed is dry.")
    (home / "fusion.toml").write_text(f"{SMALL}\n[notes]\npaths = [{str(folder)!r}]\n")
    assert fusion_json("ingest", folder, "--home", home)["stored"] == 2

    def found(client: Client) -> set[str]:
        return {hit["text"] for word in ("bike", "shed") for hit in client.search("memory", word)["hits"]}

    with Client.of_home(home) as client:
        bike.write_text("The bike is green.")
        while found(client) != {"The bike is green.", "The shed is dry."}:
            pass
        shed.unlink()
        while found(client) != {"The bike is green."}:
            pass
    holder = owner(home)
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    bike.write_text("The bike is red.")
    shed.write_text("The shed is dry.")
    with Client.of_home(home) as client:
        assert "The bike is red." in client.fuse("which colour has the bike?")["block"]
        while found(client) != {"The bike is red.", "The shed is dry."}:
            pass
        assert client.status()["notes"] == [
            "no embedding model is configured: everything is found by its words only",
        ]
    assert fusion_json("ingest", folder, "--home", home)["duplicates"] == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--watch",)])
def test_ingest_of_missing_file_fails(running: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Exit code 2 and the path, however it is asked for."""
    done = invoke("ingest", tmp_path / "nonexistent", "--home", running, *options)
    assert done.exit_code == 2
    assert f"there is no such file or folder: {tmp_path / 'nonexistent'}" in done.stderr


def test_ingest_dry_run_refuses_watch(home: Path, tmp_path: Path) -> None:
    """The two together are wrong usage: exit code 2, and the error says what to leave out."""
    done = invoke("ingest", tmp_path, "--watch", "--dry-run", "--home", home)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "leave out --dry-run" in done.stderr
