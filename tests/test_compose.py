"""Each file in compose/ brings up something that stays on this machine, stays the same, and stays."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from benchmarks.scale_servers import SHARED_BUFFERS
from fusion.settings import load

COMPOSE = Path(__file__).parent.parent / "compose"
FILES = sorted(COMPOSE.glob("*.yaml"))


def services(file: Path) -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = document["services"]
    assert found
    return found


def test_a_file_a_service() -> None:
    """What the README and adapters/README.md say that compose/ starts is there."""
    assert {file.stem for file in FILES} >= {
        "gateway",
        "cluster",
        "memgraph",
        "neo4j",
        "qdrant",
        "qdrant-cluster",
        "postgres",
        "cognee",
        "mem0",
        "hindsight",
        "ollama",
        "observe",
    }


@pytest.mark.feature(
    "… Mem0's own server has the version whose library is tested", of="compose/: all ports are on loopback"
)
def test_mem0s_server_is_of_the_library_that_is_tested() -> None:
    """Another version's server may speak other shapes: it goes up with the lock, and this file with it."""
    lock = (COMPOSE.parent / "requirements.txt").read_text(encoding="utf-8")
    tested = re.search(r"^mem0ai==([\d.]+)", lock, re.MULTILINE)
    assert tested
    mem0 = services(COMPOSE / "mem0.yaml")["mem0"]
    assert mem0["image"] == f"memory-fusion-mem0:{tested[1]}"
    assert mem0["build"]["context"] == f"https://github.com/mem0ai/mem0.git#v{tested[1]}:server"
    assert f"mem0ai=={tested[1]} " in mem0["build"]["dockerfile_inline"]


@pytest.mark.feature(
    "… both PostgreSQL servers of the cluster have the memory with which it is measured",
    of="compose/: all ports are on loopback",
)
def test_the_cluster_has_the_memory_with_which_it_is_measured() -> None:
    cluster = services(COMPOSE / "cluster.yaml")
    given = f"shared_buffers=${{SHARED_BUFFERS:-{SHARED_BUFFERS}}}"
    assert cluster["postgres"]["command"][-2:] == ["-c", given]
    assert cluster["replica"]["entrypoint"][-2:] == ["-c", given]


@pytest.mark.feature(
    "… the settings of the clusters' gateways are valid, and their secrets are asked for",
    of="compose/: all ports are on loopback",
)
@pytest.mark.parametrize("folder", ["cluster", "kubernetes"])
def test_the_settings_of_clusters_are_valid(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable that they name is in the environment which the same folder gives to a gateway."""
    monkeypatch.setenv("FUSION_DATABASE__URL", "postgresql://fusion@postgres/memories")
    monkeypatch.setenv("FUSION_API_KEY", "0" * 32)
    file = COMPOSE / folder / "fusion.toml"
    settings = load(home=tmp_path, config=file)
    assert settings.backends_only
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    named = {table["embedder"]["api_key_env"]}
    named |= {v for one in table["backends"].values() for k, v in one.items() if k.endswith("_env")}
    if folder == "cluster":
        given = set(services(COMPOSE / "cluster.yaml")["gateway-1"]["environment"])
        examples = (COMPOSE / "cluster" / "example.env").read_text(encoding="utf-8")
        asked = set(re.findall(r"\$\{(\w+):\?", (COMPOSE / "cluster.yaml").read_text(encoding="utf-8")))
        assert set(re.findall(r"^(\w+)=$", examples, re.MULTILINE)) == asked
    else:
        secret = (COMPOSE / "kubernetes" / "kustomization.yaml").read_text(encoding="utf-8")
        given = set(re.findall(r"--from-literal=(\w+)=", secret))
    assert named <= given


KEYS = frozenset(
    "build cap_add cap_drop command depends_on entrypoint environment healthcheck image mem_limit ports read_only "
    "restart secrets security_opt stop_grace_period tmpfs user volumes".split()
)
"""of a service, as the Compose specification spells them; the ones that these files use"""
KEEPS_NOTHING = frozenset({"embed"})
"""the services that have nothing to keep"""
CHECK_KEYS = frozenset({"test", "interval", "timeout", "retries", "start_period"})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
class TestEach:
    @pytest.mark.feature(
        "… the files follow the Compose specification; they were never started with Docker",
        of="compose/: all ports are on loopback",
    )
    def test_it_is_what_compose_reads(self, file: Path) -> None:
        """No key is misspelt, what it names is there: Docker, which would say so, is not where the tests run."""
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        keys = {key for key in document if not key.startswith("x-")}
        assert {"name", "services", "volumes"} <= keys <= {"name", "services", "volumes", "secrets"}
        volumes = set()
        for name, service in document["services"].items():
            assert service.keys() <= KEYS, name
            check = service.get("healthcheck", {})
            assert check.keys() <= CHECK_KEYS, name
            durations = [service.get("stop_grace_period", "1s")]
            durations += [check.get(key, "1s") for key in ("interval", "timeout", "start_period")]
            assert all(re.fullmatch(r"(\d+(us|ms|s|m|h))+", duration) for duration in durations), name
            assert not check or check["test"][0] in ("CMD", "CMD-SHELL"), name
            assert set(service.get("depends_on", ())) <= document["services"].keys(), name
            mounted = {str(volume).partition(":")[0] for volume in service.get("volumes", ())}
            files = {source for source in mounted if source.startswith("./")}
            assert all((COMPOSE / source).is_file() for source in files), name
            volumes |= mounted - files
            assert set(service.get("secrets", ())) <= document.get("secrets", {}).keys(), name
            assert re.fullmatch(r"\d+[bkmg]", service["mem_limit"]), name
        assert volumes == document["volumes"].keys()

    @pytest.mark.feature("compose/: all ports are on loopback")
    def test_ports_are_on_loopback_only(self, file: Path) -> None:
        """Docker publishes on every address unless one is given, past most firewalls."""
        ports = [str(port) for service in services(file).values() for port in service.get("ports", [])]
        assert ports
        assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)

    @pytest.mark.feature("… images and build sources are pinned", of="compose/: all ports are on loopback")
    def test_images_are_pinned(self, file: Path) -> None:
        """By a version with a number, or a digest: what comes up tomorrow is what came up today. So is what is fetched
        to be built, and what it is built on."""
        images = [service["image"] for service in services(file).values()]
        assert all(re.search(r":[^/]*\d|@sha256:[0-9a-f]{64}$", image) and "latest" not in image for image in images)
        built = [service["build"] for service in services(file).values() if "build" in service]
        fetched = [build["context"] for build in built if "://" in build["context"]]
        assert all(re.search(r"#(v\d+\.\d+\.\d+|[0-9a-f]{40})(:|$)", context) for context in fetched)
        bases = [re.match(r"FROM (\S+)", build.get("dockerfile_inline", "FROM :0")) for build in built]
        assert all(base and re.search(r":[^/]*\d", base[1]) for base in bases)

    @pytest.mark.feature("… every service has a health check", of="compose/: all ports are on loopback")
    def test_health_is_looked_at(self, file: Path) -> None:
        """By the file itself, or by the container's own file where it is built here."""
        for name, service in services(file).items():
            ours = (service.get("build") or {}).get("dockerfile") == "compose/Containerfile"
            gateway = ours and service.get("command", ["serve"])[0] == "serve"
            built = gateway and "HEALTHCHECK" in (COMPOSE / "Containerfile").read_text(encoding="utf-8")
            assert built or service["healthcheck"]["test"], name

    @pytest.mark.feature("… every service has a volume", of="compose/: all ports are on loopback")
    def test_what_is_kept_is_in_a_volume(self, file: Path) -> None:
        """A named one of this file, so that memories outlive the container."""
        named = yaml.safe_load(file.read_text(encoding="utf-8"))["volumes"]
        for name, service in services(file).items():
            if name not in KEEPS_NOTHING:
                assert {str(volume).partition(":")[0] for volume in service["volumes"]} & set(named), name

    @pytest.mark.feature(
        "… Docker restarts each after a crash and after a restart of the machine",
        of="compose/: all ports are on loopback",
    )
    def test_it_is_kept_running(self, file: Path) -> None:
        """After a crash and after a restart of the machine, until somebody stops it."""
        assert {service["restart"] for service in services(file).values()} == {"unless-stopped"}

    @pytest.mark.feature("… no secret has a default", of="compose/: all ports are on loopback")
    def test_no_secret_has_a_default(self, file: Path) -> None:
        """Passwords and keys come from the environment; a service that wants one does not start without it."""
        for name, service in services(file).items():
            for variable, value in (service.get("environment") or {}).items():
                if re.search(r"PASSWORD|SECRET|API_KEY|NEO4J_AUTH", variable):
                    assert re.search(r"\$\{\w+:[?-][^}]*\}", str(value)), f"{name}: {variable}"
                    assert not re.search(r"\$\{\w+:-.", str(value).replace(":-}", "")), f"{name}: {variable}"
