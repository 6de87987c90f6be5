"""The scripts of compose/cluster on a real server: what the primary runs once, and how the replica begins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgres.serve import installed
from tests.postgres.servers import PostgreSQL

SCRIPTS = Path(__file__).parents[2] / "compose" / "cluster"
IMAGE_ACCESS = "local all all scram-sha-256\nhost all all all scram-sha-256\n"
"""who may connect, as the image leaves it: nobody for replication"""

pytestmark = pytest.mark.skipif(not shutil.which("sh"), reason="this machine has no sh")


def run(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with the server's programs on the path."""
    path = f"{installed() / 'pginstall18' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(SCRIPTS / script), *arguments],
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.feature(
    "compose/cluster.yaml: the primary makes the gateways' role and database, and the replica copies it"
)
def test_the_primary_prepares_what_the_replica_copies(tmp_path: Path) -> None:
    """The role is no superuser and owns its database; a copy that was interrupted is begun again; a whole one stays."""
    with PostgreSQL(tmp_path / "primary") as primary:
        where = urlsplit(primary.admin_url)
        with psycopg.connect(primary.admin_url) as db:
            (data,) = db.execute("show data_directory").fetchone() or ("",)
        (Path(data) / "pg_hba.conf").write_text(IMAGE_ACCESS)
        made = run(
            "primary.sh",
            PGHOST=str(where.hostname),
            PGPORT=str(where.port),
            PGPASSWORD=str(where.password),
            POSTGRES_USER="postgres",
            PGDATA=data,
            FUSION_PASSWORD="it's one",
            REPLICATION_PASSWORD="another",
        )
        assert made.returncode == 0, made.stderr
        primary.execute("select pg_reload_conf()")
        with psycopg.connect(
            host=where.hostname, port=where.port, user="fusion", password="it's one", dbname="memories"
        ) as db:
            role = db.execute("select rolsuper, rolbypassrls from pg_roles where rolname = current_user").fetchone()
            assert role == (False, False)
            assert db.execute("select '[1,2]'::vector(2) <-> '[1,2]'").fetchone() == (0.0,)
            db.execute("create table kept(text text)")

        copy = tmp_path / "replica"
        (tmp_path / "replica.new").mkdir()
        (tmp_path / "replica.new" / "PG_VERSION").write_text("half a copy")
        given = {
            "PGDATA": str(copy),
            "PRIMARY": str(where.hostname),
            "PRIMARY_PORT": str(where.port),
            "REPLICATION_PASSWORD": "another",
            "TRIES": "1",
        }
        begun = run("replica.sh", "echo", "started", **given)
        assert (begun.returncode, begun.stdout) == (0, "started\n"), begun.stderr
        assert (copy / "standby.signal").exists()
        settings = (copy / "postgresql.auto.conf").read_text()
        assert "user=replicator" in settings
        assert "primary_slot_name = 'replica'" in settings

        elsewhere = {**given, "PRIMARY_PORT": "1"}
        again = run("replica.sh", "echo", "started", **elsewhere)
        assert (again.returncode, again.stdout) == (0, "started\n"), "a whole copy needs no primary to begin"
        none = run("replica.sh", "echo", "started", **{**elsewhere, "PGDATA": str(tmp_path / "other")})
        assert (none.returncode, none.stdout) == (1, "")
        assert "the primary at 127.0.0.1 gave no copy in 1 tries" in none.stderr
