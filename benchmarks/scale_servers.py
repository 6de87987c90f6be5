"""A small cluster for `scale`: one PostgreSQL with the journals and the memories, and gateways that share it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.server_processes import Child, allow
from fusion.doors.http.serve import listen
from tests.postgres.servers import PostgreSQL

TENANTS = ("acme", "bolt")
URL = "BENCHMARK_DATABASE"
"""the variable with the URL of the store's database"""
SETTINGS = f"""
backends_only = true
log_level = "warning"
[embedder]
adapter = "benchmarks.scale_growth:MadeVectors"
[server]
max_in_flight = 64
[backends.postgres]
adapter = "adapters.postgres:Postgres"
url_env = "{URL}"
deadline_ms = 5000
"""
"""the gateways' only store is the database that has their journals"""
SHARED_BUFFERS = "512MB"
"""that of `compose/cluster.yaml`. The tests' server has 32 MB, less than the vectors' index at 32,000 memories: a
question then takes twice the CPU of PostgreSQL, which copies blocks from the system's cache"""


@dataclass
class Gateway:
    """One `fusion serve` on a port of its own, which may be killed and started again."""

    home: Path
    port: int
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    cpu_s_before: float = 0.0
    """seconds of CPU of its processes that have ended"""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it serves. Raises RuntimeError."""
        log = self.home.parent / f"{self.home.name}.log"
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fusion", "serve", "--home", str(self.home), "--port", str(self.port), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.environment},
            )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise RuntimeError(f"a gateway did not start: {log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """End it as a power failure does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def cpu_s(self) -> float:
        """Seconds of CPU so far, of all its processes."""
        return self.cpu_s_before + (Child(self.process.pid, {}).cpu_s() if self.process else 0.0)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.cpu_s_before = self.cpu_s()
        self.process.send_signal(how)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


@dataclass
class Cluster:
    """A PostgreSQL server, the gateways in front of it, and the key of each tenant."""

    postgres: PostgreSQL
    gateways: list[Gateway]
    keys: Mapping[str, str]
    database: str
    """the URL of the database, for its owner"""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def headers(self, tenant: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[tenant]}"}

    def postgres_cpu_s(self) -> float:
        """Seconds of CPU of the server's processes so far, those that have ended included."""
        (pid,) = self.postgres_pids()
        while True:
            try:
                return _cpu_s(pid) + sum(Child(child, {}).cpu_s() for child in _children(pid))
            except FileNotFoundError:  # one ended meanwhile: its time is now its parent's
                continue

    def postgres_pids(self) -> list[int]:
        """The main process of the server."""
        import psycopg

        with psycopg.connect(self.database) as connection:
            (pid,) = connection.execute("select pg_backend_pid()").fetchone() or (0,)
            return [_parent(pid)]


@contextmanager
def cluster(folder: Path, count: int, *, shared: bool = True) -> Iterator[Cluster]:
    """A running cluster of ``count`` gateways, in ``folder``; their journals are in SQLite unless ``shared``."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {tenant: f"key-of-{tenant}-{os.urandom(8).hex()}" for tenant in TENANTS}
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgreSQL(folder / "postgres"))
        postgres.execute(f"ALTER SYSTEM SET shared_buffers = '{SHARED_BUFFERS}'")
        postgres.command("stop")
        postgres.command("start")
        database = stack.enter_context(postgres.database())
        secrets = {URL: database.url, **({"FUSION_DATABASE__URL": database.url} if shared else {})}
        gateways = [_gateway(folder / f"gateway{n}", keys, secrets) for n in range(count)]
        for one in gateways:
            stack.callback(one.stop)
            one.start()
        yield Cluster(postgres, gateways, keys, database.url)


def _gateway(home: Path, keys: Mapping[str, str], secrets: Mapping[str, str]) -> Gateway:
    home.mkdir(mode=0o700)
    tables = "".join(
        f'[[server.keys]]\nname = "{tenant}"\ntenant = "{tenant}"\nsha256 = "{_digest(key)}"\n'
        for tenant, key in keys.items()
    )
    (home / "fusion.toml").write_text(SETTINGS + tables, encoding="utf-8")
    environment = {**secrets, **allow(home, home.with_name(f"{home.name}-state"), [URL])}
    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
    return Gateway(home, port, environment)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _cpu_s(pid: int) -> float:
    """Seconds of CPU of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text(encoding="ascii").split()]
