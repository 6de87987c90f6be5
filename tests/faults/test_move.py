"""`fusion migrate` to a PostgreSQL that cannot take the journals: the home stays whole, and a later run moves it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fusion.errors import BackendUnreachable, StoreFull
from tests.faults.test_database_server import SMALL_DISK, fill, small_disk
from tests.faults.test_stores import NAMESPACE
from tests.gateway.test_migrate import all_of, fill_home, in_database, opened, to_server
from tests.postgres.serve import unprivileged
from tests.postgres.servers import PostgreSQL

psycopg = pytest.importorskip("psycopg")

__all__ = ["small_disk"]


@pytest.mark.feature("… to a replica it is refused with the fix, and the home stays whole", of="`fusion migrate` moves")
async def test_a_move_to_a_replica_is_refused_with_the_fix(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await fill_home(home)
    before = all_of(home)
    with PostgreSQL(tmp_path / "primary") as primary, primary.database() as database:
        with PostgreSQL(tmp_path / "standby", primary) as standby:
            url = standby.url(database.name, database.role, str(urlsplit(database.url).password))
            said = pytest.raises(BackendUnreachable, match=r"accepts no writes.*name the primary")
            with closing(opened(replace(database, url=url))) as server, said:
                to_server(home, server)
        assert all_of(home) == before
        with closing(opened(database)) as server:
            to_server(home, server)
            assert in_database(server) == before


@pytest.mark.feature(
    "… a disk that fills up on the way is named, and a later run moves it", of="`fusion migrate` moves"
)
@pytest.mark.skipif("-m" not in NAMESPACE, reason="only root mounts a tmpfs for another user's server")
async def test_a_disk_that_fills_up_during_a_move_leaves_the_home_whole(tmp_path: Path, small_disk: Path) -> None:
    """It fills up after the first tenant's memories were copied. Nothing is switched over, and the source is as it
    was."""
    home = tmp_path / "home"
    await fill_home(home)
    before = all_of(home)
    inside = [*NAMESPACE, "sh", "-c", SMALL_DISK, "sh", str(small_disk), str(unprivileged().get("user", 0))]
    with PostgreSQL(tmp_path / "postgres", inside=inside) as postgres:
        postgres.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        database = postgres.new_database(more="TABLESPACE small")
        filled = []

        def fill_once(step: str, rows: int) -> None:
            if step == "default: event" and not filled:
                fill(database)
                filled.append(step)

        with closing(opened(database)) as server, pytest.raises(StoreFull, match="no space left"):
            to_server(home, server, report=fill_once)
        assert filled
        assert all_of(home) == before
        with psycopg.connect(database.url, autocommit=True) as db:
            db.execute("drop table ballast")
        with closing(opened(database)) as server:
            to_server(home, server)
            assert in_database(server) == before
