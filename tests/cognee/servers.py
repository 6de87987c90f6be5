"""A real Cognee for tests, in a process of its own environment, which `make test-cognee` installs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bolt.servers import Process

PYTHON = os.environ.get("COGNEE_PYTHON", "")
START = Path(__file__).parent / "start.py"
START_S = 240
"""it imports itself for a quarter of a minute, on a busy machine for several"""


def start_cognee(folder: Path, graph: Sequence[tuple[str, str, str]] = (), **environment: str) -> Process:
    """One whose graph has these triplets; skips the test where there is no Cognee."""
    if not PYTHON:
        pytest.skip("no Cognee is installed: make test-cognee")
    command = [PYTHON, str(START), str(folder / "store"), *([json.dumps(graph)] if graph else [])]
    return Process(command, folder, {"PATH": os.environ["PATH"]} | environment, START_S)
