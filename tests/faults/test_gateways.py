"""Three gateways as real processes on one PostgreSQL: one is killed, and the server crashes, while clients write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.postgres.servers import Database, PostgreSQL

WRITES = 90
TRIES = 200
PAUSE_S = 0.1
"""between two tries of a client, as Retry-After asks"""
ANA = {"user_id": "ana"}


class GatewayProcess:
    """`fusion serve` on a home of its own."""

    def __init__(self, home: Path, database: Database) -> None:
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text(
            'backends_only = true\n[embedder]\nadapter = ""\n'
            '[backends.postgres]\nadapter = "adapters.postgres:Postgres"\nurl_env = "FUSION_STORE"\n'
        )
        environment = {
            **os.environ,
            "FUSION_DATABASE__URL": database.url,
            "FUSION_STORE": database.url,
            "XDG_STATE_HOME": str(home.parent / "state"),
        }
        fusion = [sys.executable, "-m", "fusion"]
        subprocess.run(
            [*fusion, "allow", "--home", str(home), "--yes"], env=environment, check=True, capture_output=True
        )
        command = [*fusion, "serve", "--home", str(home), "--port", "0", "--json"]
        self._log = (home.parent / f"{home.name}.log").open("wb")
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self._log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (home.parent / f"{home.name}.log").read_text()
        token = json.loads((home / "server.json").read_text())["token"]
        self.client = httpx.Client(
            base_url=json.loads(line)["url"], headers={"Authorization": f"Bearer {token}"}, timeout=30
        )

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


@contextmanager
def gateways(folder: Path, database: Database) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        opened = []
        for name in "abc":
            one = GatewayProcess(folder / name, database)
            stack.callback(one.close)
            opened.append(one)
        yield opened


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_acknowledged_is_lost_or_stored_twice(tmp_path: Path) -> None:
    """Each client repeats a request at another gateway, with its key, until one has acknowledged it."""
    statuses: Counter[int] = Counter()
    with PostgreSQL(tmp_path / "postgres") as postgres, postgres.database() as database:
        with gateways(tmp_path, database) as opened, ThreadPoolExecutor(3) as clients:

            def write(number: int) -> None:
                body, key = {"text": f"The note of step {number}", **ANA}, {"Idempotency-Key": f"k{number}"}
                for attempt in range(TRIES):
                    gateway = opened[(number + attempt) % len(opened)]
                    try:
                        reply = gateway.client.post("/v1/memories", json=body, headers=key)
                    except httpx.TransportError:
                        time.sleep(PAUSE_S)
                        continue
                    statuses[reply.status_code] += 1
                    if reply.is_success:
                        return
                    time.sleep(PAUSE_S)
                raise AssertionError(f"write {number} was never acknowledged")

            def run(numbers: range) -> None:
                list(clients.map(write, numbers))

            run(range(WRITES // 3))
            opened[1].process.kill()
            run(range(WRITES // 3, WRITES // 2))
            writing = clients.submit(write, WRITES - 1)
            postgres.command("crash")
            postgres.command("start")
            writing.result()
            run(range(WRITES // 2, WRITES - 1))
            question = {"query": f"The note of step {WRITES - 1}", **ANA}
            assert opened[0].client.post("/v1/settle", json={}).is_success
            for one in (opened[0], opened[2]):
                assert question["query"] in one.client.post("/v1/fuse", json=question).text
        import psycopg

        with psycopg.connect(database.admin_url) as db:
            (schema,) = db.execute("select schema from fusion.tenant").fetchone() or ("",)
            texts = Counter(text for (text,) in db.execute(f"select text from {schema}.event"))
    assert texts == Counter({f"The note of step {number}": 1 for number in range(WRITES)})
    assert set(statuses) <= {200, 201, 409, 503}
