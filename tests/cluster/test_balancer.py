"""A real Caddy with compose/cluster's Caddyfile, in front of real gateways with its settings and environment.

Caddy is Debian's, which `make cluster` installs. PostgreSQL is real, Qdrant is the stand-in of `tests.qdrant_server`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]

from fusion.doors.http.serve import listen
from tests.postgres.servers import Database
from tests.qdrant_server import Qdrant

COMPOSE = Path(__file__).parents[2] / "compose"
CLUSTER = yaml.safe_load((COMPOSE / "cluster.yaml").read_text(encoding="utf-8"))
CADDY = shutil.which("caddy")
KEY = "0123456789abcdef0123456789abcdef"
PATIENT_S = 120
CLIENTS = 3
REQUESTS = 25
"""of each client, between two changes"""
ANA = {"user_id": "ana"}
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.model,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CADDY, reason="Caddy is not installed; `make cluster` tries to"),
]


def free_port() -> int:
    with closing(listen("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
        return port


def environment_of(service: str, database: Database, folder: Path, **keys: str) -> dict[str, str]:
    """The environment of a service of cluster.yaml, with these secrets, this database and a home in ``folder``."""
    given = {
        name: re.sub(r"\$\{(\w+):[^}]*\}", lambda found: keys[found[1]], str(value))
        for name, value in CLUSTER["services"][service]["environment"].items()
    }
    given["FUSION_DATABASE__URL"] = database.url + "?" + given["FUSION_DATABASE__URL"].rpartition("?")[2]
    data = folder / "data"
    data.mkdir(exist_ok=True)
    homes = {"FUSION_HOME": str(data / "memory-fusion"), "XDG_DATA_HOME": str(data)}
    return {**os.environ, **given, **homes, "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}


class Program:
    """A program in a child process, which says on its standard output that it is ready, or is asked."""

    def __init__(self, process: asyncio.subprocess.Process, first_line: bytes) -> None:
        self.process = process
        self.first_line = first_line

    @classmethod
    @asynccontextmanager
    async def running(
        cls, *command: str, environment: dict[str, str], log: Path, wait_for_line: bool = True
    ) -> AsyncIterator[Program]:
        with log.open("ab") as errors:
            out = asyncio.subprocess.PIPE if wait_for_line else errors
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=out, stderr=errors)
            try:
                line = await process.stdout.readline() if process.stdout else b""
                assert line or not wait_for_line, log.read_text(errors="replace")
                yield cls(process, line)
            finally:
                if process.returncode is None:
                    process.terminate()
                await process.wait()


class Cluster:
    """What cluster.yaml starts, but for the replica: each gateway on a port that it keeps."""

    def __init__(self, folder: Path, database: Database, settings: Path, secrets: dict[str, str]) -> None:
        self._folder, self._database, self._settings, self._secrets = folder, database, settings, secrets
        self.ports = [free_port() for _ in range(3)]
        self._stacks = [AsyncExitStack() for _ in range(3)]
        self.programs: list[Program | None] = [None] * 3

    async def start(self, number: int) -> None:
        folder = self._folder / f"gateway-{number + 1}"
        folder.mkdir(exist_ok=True)
        arguments = [str(self._settings) if one == "/etc/fusion.toml" else one for one in self.arguments(number)]
        environment = environment_of(f"gateway-{number + 1}", self._database, folder, **self._secrets)
        command = [sys.executable, "-m", "fusion", *arguments, "--port", str(self.ports[number]), "--json"]
        running = Program.running(*command, environment=environment, log=folder / "log")
        self.programs[number] = await self._stacks[number].enter_async_context(running)

    def arguments(self, number: int) -> list[str]:
        found: list[str] = CLUSTER["services"][f"gateway-{number + 1}"]["command"]
        return found

    async def stop(self, number: int) -> None:
        """As Docker does: by a signal, then wait until it has ended."""
        await self._stacks[number].aclose()

    async def kill(self, number: int) -> None:
        program = self.programs[number]
        assert program is not None
        program.process.kill()
        await self._stacks[number].aclose()

    async def close(self) -> None:
        await asyncio.gather(*(stack.aclose() for stack in self._stacks))


@asynccontextmanager
async def balanced(cluster: Cluster, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Caddy in front of the gateways, with our own file but for the addresses; it has found all of them ready."""
    port = free_port()
    text = (COMPOSE / "cluster" / "Caddyfile").read_text(encoding="utf-8")
    text = text.replace(":8080", f"http://127.0.0.1:{port}")
    for number, one in enumerate(cluster.ports, 1):
        text = text.replace(f"gateway-{number}:8765", f"127.0.0.1:{one}")
    assert "8765" not in text
    file = folder / "Caddyfile"
    file.write_text("{\n\tadmin off\n}\n" + text, encoding="utf-8")
    command = [str(CADDY), "run", "--config", str(file), "--adapter", "caddyfile"]
    environment = {**os.environ, "HOME": str(folder)}
    async with (
        Program.running(*command, environment=environment, log=folder / "caddy.log", wait_for_line=False),
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {KEY}"}, timeout=PATIENT_S
        ) as client,
    ):
        await ready(client)
        yield client


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until the server of ``client`` says so."""
    async with asyncio.timeout(PATIENT_S):
        while True:
            try:
                if (await client.get("/readyz")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)


@pytest.fixture
async def cluster(tmp_path: Path, postgres_database: Database) -> AsyncIterator[Cluster]:
    secrets = {"FUSION_API_KEY": KEY, "FUSION_PASSWORD": "", "FUSION_EMBED_KEY": KEY[::-1], "QDRANT_API_KEY": "q" * 32}
    embed = CLUSTER["services"]["embed"]
    arguments = [
        one if one not in ("0.0.0.0", "8766") else {"0.0.0.0": "127.0.0.1"}.get(one, "0") for one in embed["command"]
    ]
    async with AsyncExitStack() as stack:
        qdrant = await stack.enter_async_context(Qdrant(secrets["QDRANT_API_KEY"]))
        running = Program.running(
            sys.executable, "-m", "fusion", *arguments, "--json",
            environment={**os.environ, "FUSION_EMBED_KEY": secrets["FUSION_EMBED_KEY"]}, log=tmp_path / "embed.log",
        )  # fmt: skip
        model = await stack.enter_async_context(running)
        text = (COMPOSE / "cluster" / "fusion.toml").read_text(encoding="utf-8")
        text = text.replace("http://embed:8766", json.loads(model.first_line)["url"])
        text = text.replace("http://qdrant-1:6333", qdrant.url)
        settings = tmp_path / "fusion.toml"
        settings.write_text(text, encoding="utf-8")
        made = Cluster(tmp_path, postgres_database, settings, secrets)
        stack.push_async_callback(made.close)
        for number in range(3):
            await made.start(number)
        yield made


async def load(client: httpx.AsyncClient, statuses: Counter[int | str], numbers: range) -> None:
    """Write and ask in turns; a request that fails is repeated with its key."""
    for number in numbers:
        body, key = {"text": f"The note of step {number}", **ANA}, {"Idempotency-Key": f"k{number}"}
        while True:
            try:
                reply = await client.post("/v1/memories", json=body, headers=key)
            except httpx.TransportError as error:
                statuses[type(error).__name__] += 1
                continue
            statuses[reply.status_code] += 1
            if reply.is_success:
                break
        reply = await client.post("/v1/fuse", json={"query": f"step {number}", **ANA})
        statuses[reply.status_code] += 1


def texts(database: Database) -> Counter[str]:
    """What the journal has, each text with how often."""
    with psycopg.connect(database.admin_url) as db:
        (schema,) = db.execute("select schema from fusion.tenant").fetchone() or ("",)
        return Counter(text for (text,) in db.execute(f"select text from {schema}.event"))


@pytest.mark.feature("compose/cluster.yaml: gateways are replaced one by one behind Caddy, and no request fails")
async def test_a_rolling_update_fails_no_request(cluster: Cluster, tmp_path: Path, postgres_database: Database) -> None:
    """Each is stopped and started again under load: it leaves the balancer before it closes its door."""
    statuses: Counter[int | str] = Counter()
    async with balanced(cluster, tmp_path) as client:
        done = asyncio.Event()
        written = [0] * CLIENTS

        async def write(one: int) -> None:
            while not done.is_set():
                first = one * 100_000 + written[one]
                await load(client, statuses, range(first, first + 1))
                written[one] += 1

        writers = [asyncio.ensure_future(write(one)) for one in range(CLIENTS)]
        for number in range(3):
            await cluster.stop(number)
            await cluster.start(number)
            await ready(client)
        done.set()
        await asyncio.gather(*writers)
        assert (await client.post("/v1/settle", json={})).is_success
        status: dict[str, Any] = (await client.get("/v1/status")).json()
    assert set(statuses) <= {200, 201}, statuses
    wanted = {f"The note of step {one * 100_000 + n}": 1 for one in range(CLIENTS) for n in range(written[one])}
    assert texts(postgres_database) == Counter(wanted)
    assert all(not backend["backlog"] for backend in status["backends"]), status["backends"]


@pytest.mark.feature("… one that is killed costs no acknowledged memory", of="compose/cluster.yaml: gateways are")
async def test_a_killed_gateway_loses_nothing(cluster: Cluster, tmp_path: Path, postgres_database: Database) -> None:
    """What was sent to it fails and is repeated with its key; the others take over at once."""
    statuses: Counter[int | str] = Counter()
    async with balanced(cluster, tmp_path) as client:
        first = [load(client, statuses, range(n * 1000, n * 1000 + REQUESTS)) for n in range(CLIENTS)]
        await asyncio.gather(*first, cluster.kill(1))
        await load(client, statuses, range(9000, 9000 + REQUESTS))
    assert set(statuses) <= {200, 201, 409, 502, 503}, statuses
    wanted = [n * 1000 + i for n in (*range(CLIENTS), 9) for i in range(REQUESTS)]
    assert texts(postgres_database) == Counter({f"The note of step {n}": 1 for n in wanted})


async def test_each_gateway_answers_through_its_name(cluster: Cluster) -> None:
    """The balancer's checks have the gateway's name in them, which the settings therefore allow."""
    for number, port in enumerate(cluster.ports, 1):
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            named = await client.get("/readyz", headers={"Host": f"gateway-{number}:8765"})
            other = await client.get("/readyz", headers={"Host": "gateway-9:8765"})
        assert (named.status_code, other.status_code) == (200, 421), urlsplit(str(named.url))
