"""Each example in integrations/frameworks runs, and prints what it recalls."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.frameworks

REPOSITORY = Path(__file__).parents[2]
PRINTED = {"langgraph_store": "visit 1: windows on the north side"}
"""what an example prints, if not the port of staging"""


def packages(example: Path) -> set[str]:
    """The packages that an example imports."""
    found = set()
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {".".join(name.split(".")[: 2 if name.startswith("google.") else 1]) for name in names}
    return found


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a part of a namespace
        return False


EXAMPLES = [
    example
    for example in sorted((REPOSITORY / "integrations" / "frameworks").glob("*.py"))
    if all(map(is_installed, packages(example)))
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_prints_what_it_recalls(example: Path, home: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "FUSION_HOME", "PYTHONPATH")}
    environment = {**kept, "HOME": str(home.parent), "FUSION_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(example)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert PRINTED.get(example.stem, "Staging moved to port 4410 on Friday") in done.stdout, done.stderr
