"""`fusion migrate`: what is typed, printed and refused; `tests/gateway/test_migrate.py` has the moves themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL
from tests.postgres.servers import Database

psycopg = pytest.importorskip("psycopg")

from fusion.store.postgres import schema_of  # noqa: E402 – imported late, as its package is optional

TEXT = "The bookings database moves to Postgres in March"


def run(*arguments: str, answer: str = "", **environ: str) -> Result:
    return CliRunner().invoke(app, [*arguments], input=answer, env=environ)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(f"# mine\n{SMALL}")
    assert run("remember", TEXT, "--home", str(home), "--direct").exit_code == 0
    return home


def texts(home: Path, **environ: str) -> list[str]:
    listed = run("memories", "--home", str(home), "--direct", "--json", **environ)
    assert listed.exit_code == 0, listed.stderr
    return [memory["text"] for memory in json.loads(listed.stdout)["memories"]]


@pytest.mark.feature("… with a dry run, a question, and every table's rows and checksum", of="`fusion migrate` moves")
def test_a_home_is_moved_after_a_question_and_back(home: Path, postgres_database: Database) -> None:
    """The password is in no file and in nothing that is printed: the settings name the variable that has the URL."""
    url, password = postgres_database.url, postgres_database.url.split(":")[2].split("@")[0]
    environ = {"FUSION_DATABASE_URL": url}
    there = ["migrate", "--home", str(home), "--to", url]
    counted = run(*there, "--dry-run")
    assert "would move" in counted.stdout
    assert "1 tenant" in counted.stdout
    assert texts(home) == [TEXT]
    assert run(*there, answer="n\n").exit_code == 1
    assert texts(home) == [TEXT]
    moved = run(*there, answer="y\n")
    assert moved.exit_code == 0, moved.stderr
    assert "Every table is equal on both sides." in moved.stdout
    assert "nothing could be written for" in moved.stdout
    assert "set FUSION_DATABASE_URL to it in the environment of every gateway" in moved.stdout
    for shown in (counted.stdout, moved.stdout, moved.stderr, (home / "fusion.toml").read_text()):
        assert password not in shown
    assert (home / "fusion.toml").read_text().startswith("# mine\n")
    assert texts(home, **environ) == [TEXT]
    refused = run("memories", "--home", str(home), "--direct")
    assert "url_env names FUSION_DATABASE_URL, which the environment does not have" in refused.stderr
    again = run(*there, "--yes")
    assert (again.exit_code, "its memories are in a database already" in again.stderr) == (2, True)
    back = run("migrate", "--home", str(home), "--to", "sqlite", "--yes", "--json", **environ)
    assert back.exit_code == 0, back.stderr
    done = json.loads(back.stdout)
    assert (done["target"], done["dry_run"], [one["tenant"] for one in done["tenants"]]) == (
        "SQLite",
        False,
        ["default"],
    )
    tables = {one["table"]: one for one in done["tenants"][0]["tables"]}
    assert tables["event"]["rows"] == 1
    assert len(tables["event"]["checksum"]) == 16
    assert done["fence_s"] < done["took_s"]
    assert texts(home) == [TEXT]


def test_the_url_may_be_in_a_variable_with_any_name(home: Path, postgres_database: Database) -> None:
    """Its name is written, and is allowed with the home."""
    there = ["migrate", "--home", str(home), "--to", "postgresql", "--url-env", "TEAM_DATABASE", "--yes", "--json"]
    missing = run(*there)
    assert (missing.exit_code, "the environment has no TEAM_DATABASE" in missing.stderr) == (2, True)
    environ = {"TEAM_DATABASE": postgres_database.url}
    done = run(*there, **environ)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["setting"] == 'url_env = "TEAM_DATABASE"'
    assert tomllib.loads((home / "fusion.toml").read_text())["database"] == {"url_env": "TEAM_DATABASE"}
    assert texts(home, **environ) == [TEXT]


def test_a_url_without_a_password_takes_it_from_pgpassword(home: Path, postgres_database: Database) -> None:
    name = postgres_database.url.split(":")[2].split("@")[0]
    url, environ = postgres_database.url.replace(f":{name}@", "@"), {"PGPASSWORD": name}
    refused = run("migrate", "--home", str(home), "--to", url, "--yes", PGPASSWORD="wrong")
    assert refused.exit_code == 1
    assert "refuses the user or the password" in refused.stderr
    assert run("migrate", "--home", str(home), "--to", url, "--yes", **environ).exit_code == 0
    assert tomllib.loads((home / "fusion.toml").read_text())["database"] == {"url": url}
    assert texts(home, **environ) == [TEXT]


def test_a_home_that_hides_its_memories_names_this_command(home: Path, postgres_database: Database) -> None:
    """The setting was switched by hand: the same settings move what is still in the home."""
    environ = {"FUSION_DATABASE__URL": postgres_database.url}
    refused = run("memories", "--home", str(home), "--direct", **environ)
    assert f"fusion migrate --to postgresql --home {home}" in " ".join(refused.stderr.split())
    assert run("migrate", "--to", "postgresql", "--home", str(home), "--yes", **environ).exit_code == 0
    assert texts(home, **environ) == [TEXT]
    assert tomllib.loads((home / "fusion.toml").read_text())["database"] == {"url_env": "FUSION_DATABASE__URL"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "mysql://ana:wr0ng-secret@x/y"], 2, "write postgresql://user@host:5432/name, or sqlite"),
        (["--to", "postgresql://ana@127.0.0.1:1/x", "--url-env", "A"], 2, "write --to postgresql"),
        (["--to", "postgresql"], 2, "which database?"),
        (["--to", "sqlite"], 2, "are in SQLite already"),
        (["--to", "postgresql://ana:wr0ng-secret@127.0.0.1:1/x"], 1, "does not answer (connection refused): start it"),
        (["--to", "postgresql://ana:wr0ng-secret@127.0.0.1:1/x?bad=1"], 1, "is no URL of PostgreSQL"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(home: Path, words: list[str], code: int, said: str) -> None:
    done = run("migrate", "--home", str(home), *words, "--yes")
    assert (done.exit_code, said in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert "wr0ng-secret" not in done.stdout + done.stderr
    assert texts(home) == [TEXT]


def test_json_does_not_ask(home: Path) -> None:
    done = run("migrate", "--home", str(home), "--to", "postgresql://ana@127.0.0.1:1/x", "--json")
    assert (done.exit_code, "add --yes" in json.loads(done.stderr)["detail"]) == (2, True)


@contextmanager
def served(home: Path, environment: dict[str, str]) -> Iterator[httpx.Client]:
    """A gateway in a process of its own, and a client of it."""
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        token = json.loads((home / "server.json").read_text())["token"]
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


def test_a_served_home_is_moved_and_its_next_gateway_has_what_was_acknowledged(
    home: Path, postgres_database: Database
) -> None:
    """The server is stopped by the command itself; a client that wrote until then finds all of it afterwards."""
    (home / "fusion.toml").write_text(
        'backends_only = true\n[embedder]\nadapter = ""\n'
        '[backends.postgres]\nadapter = "adapters.postgres:Postgres"\nurl_env = "FUSION_STORE"\n'
    )
    assert run("allow", "--home", str(home), "--yes").exit_code == 0
    environment = {**os.environ, "FUSION_STORE": postgres_database.url, "FUSION_DATABASE_URL": postgres_database.url}
    with served(home, environment) as client:
        assert client.post("/v1/memories", json={"text": "The heron is on the roof", "user_id": "ana"}).is_success
        assert client.post("/v1/settle", json={}).is_success
        asked = client.post("/v1/fuse", json={"query": "where is the heron?", "user_id": "ana"}).json()
        command = [sys.executable, "-m", "fusion", "migrate", "--home", str(home), "--to", "postgresql", "--yes"]
        done = subprocess.run(
            [*command, "--url-env", "FUSION_DATABASE_URL", "--json"],
            env=environment, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")
    with served(home, environment) as client:
        again = client.post("/v1/fuse", json={"query": "where is the heron?", "user_id": "ana"}).json()
        assert [one["ref"] for one in again["memories"]] == [one["ref"] for one in asked["memories"]]
        assert "The heron is on the roof" in again["block"]
        assert client.get(f"/v1/receipts/{asked['receipt_id']}").is_success


def test_the_tables_of_a_home_are_updated_after_a_question(home: Path, postgres_database: Database) -> None:
    """`--schema` moves nothing: a trial, its report, a question. A home in SQLite is updated when it is opened."""
    refused = run("migrate", "--home", str(home), "--schema", "--dry-run")
    assert (refused.exit_code, "in SQLite: each gets what this version adds when it is opened" in refused.stderr) == (
        2,
        True,
    )
    for wrong in ((), ("--schema", "--to", "sqlite")):
        assert "or --schema, to move nothing" in run("migrate", "--home", str(home), *wrong, "--yes").stderr
    environ = {"FUSION_DATABASE_URL": postgres_database.url}
    assert run("migrate", "--home", str(home), "--to", postgres_database.url, "--yes").exit_code == 0
    update = ["migrate", "--home", str(home), "--schema"]
    trial = run(*update, "--dry-run", "--json", **environ)
    assert [(one["tenant"], one["due"]) for one in json.loads(trial.stdout)["schemas"]] == [("default", False)]
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
        db.execute(f"alter table {schema_of('default')}.event drop column raw_kind")
    declined = run(*update, answer="n\n", **environ)
    assert "default: version" in declined.stdout
    assert "would be migrated, with 1 new column" in declined.stdout
    assert "1 would be migrated" in run(*update, "--dry-run", **environ).stdout
    done = run(*update, answer="y\n", **environ)
    assert "1 migrated to version" in done.stdout, done.stderr
    assert "nothing to do" in run(*update, "--yes", **environ).stdout
    assert texts(home, **environ) == [TEXT]
