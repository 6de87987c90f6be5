"""The PostgreSQL of the tests: what a test gets, and that it ends with the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.postgres.servers import ROOT, Database, PostgreSQL

psycopg = pytest.importorskip("psycopg")


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def test_a_database_has_pgvector_and_an_owner_who_is_no_superuser(postgres_database: Database) -> None:
    for url in (postgres_database.url, postgres_database.socket_url):
        assert one(url, "SELECT '[1,2]'::vector <-> '[1,4]'::vector") == 2.0
        assert one(url, "SELECT current_setting('server_version_num')::int / 10000") == 18
        assert one(url, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user") is False
        assert one(url, "SELECT has_schema_privilege('public', 'CREATE')") is True
    assert one(postgres_database.admin_url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is True


def test_databases_are_separate_and_gone_after_their_test(postgres: PostgreSQL) -> None:
    with postgres.database() as first, postgres.database(template="template0") as second:
        assert first.name != second.name
        with psycopg.connect(first.url) as still_open:
            still_open.execute("CREATE TABLE made (a int)")
        assert one(second.url, "SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 0
    for gone in (first, second):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(gone.url)


def test_a_wrong_password_is_refused(postgres_database: Database) -> None:
    parts = urlsplit(postgres_database.url)
    wrong = postgres_database.url.replace(f":{parts.password}@", ":wrong@")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_server_of_ones_own_is_stopped_crashed_and_followed_by_a_standby(tmp_path: Path) -> None:
    with PostgreSQL(tmp_path / "primary") as server, server.database() as database:
        with psycopg.connect(database.url) as connection:
            connection.execute("CREATE TABLE made AS SELECT 7 AS a")
        for end in ("stop", "crash"):
            server.command(end)
            with pytest.raises(psycopg.OperationalError, match="refused"):
                psycopg.connect(database.url)
            server.command("start")
            assert one(database.url, "SELECT a FROM made") == 7
        with PostgreSQL(tmp_path / "standby", primary=server) as standby:
            url = database.url.replace(f":{urlsplit(database.url).port}/", f":{urlsplit(standby.admin_url).port}/")
            assert one(url, "SELECT a FROM made") == 7
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                one(url, "INSERT INTO made VALUES (8) RETURNING a")


def test_the_server_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    """A process that started one is killed: nothing can clean up but the server's own process."""
    code = (
        "from tests.postgres.servers import PostgreSQL; import sys; from pathlib import Path\n"
        "server = PostgreSQL(Path(sys.argv[1])); print(server.admin_url, flush=True); sys.stdin.read()"
    )
    tests = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert tests.stdin is not None
    assert tests.stdout is not None
    with tests.stdin, tests.stdout:
        url = tests.stdout.readline().strip()
        assert one(url, "SELECT 1") == 1
        tests.kill()
        tests.wait()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return
        time.sleep(0.05)
    pytest.fail("the server outlived the tests")


def test_a_run_without_postgres_imports_nothing_of_it() -> None:
    code = (
        "import sys, tests.conftest\nsys.exit(any(name.startswith(('psycopg', 'pixeltable')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
