"""A server of its own for the tests of the frameworks, and no network but loopback.

The tests run in the environment of the frameworks, and the server in that of memory-fusion, which FUSION_PYTHON names.
Without that variable nothing here is collected: `make test` needs no framework.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fusion.client import Client
from fusion.errors import FusionError
from tests.network_guard import GUARD

PYTHON = os.environ.get("FUSION_PYTHON", "")
REPOSITORY = Path(__file__).parents[2]
START_S = 120
SETTINGS = """
[embedder]
adapter = ""

[backends.one]
adapter = "adapters.inmemory:InMemory"
"""


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a part of a namespace
        return False


FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "agno": "agno",
    "autogen": "autogen_agentchat",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "hermes": "hermes_constants",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
"""by test module, the package without which it is not collected: each environment has some of the frameworks"""

collect_ignore = [f"test_{name}.py" for name, package in FRAMEWORKS.items() if not PYTHON or not _is_installed(package)]
if PYTHON:
    sys.addaudithook(GUARD)
    # No framework may report what it does, or look for a key.
    os.environ |= {
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "AGNO_TELEMETRY": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "LANGSMITH_TRACING": "false",
    }


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose server runs."""
    folder = tmp_path_factory.mktemp("fusion") / "home"
    folder.mkdir(mode=0o700)
    (folder / "fusion.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "fusion.toml").chmod(0o600)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "PYTHONPATH": str(REPOSITORY)}
    command = [PYTHON, "-m", "fusion", "serve", "--home", str(folder), "--port", "0"]
    with (folder.parent / "log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_for(folder, server)
        yield folder
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(folder: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with Client.of_home(folder, start=False) as client:
                client.ready()
            return
        except (FusionError, OSError):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder.parent / "log").read_text(encoding="utf-8")) from None
            time.sleep(0.1)


@pytest.fixture
def client(home: Path) -> Iterator[Client]:
    with Client.of_home(home, start=False) as opened:
        yield opened


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return f"user-{secrets.token_hex(4)}"
