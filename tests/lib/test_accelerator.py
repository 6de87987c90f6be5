"""An accelerator is optional, also where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
from fusion.contract import TokenVectors
from fusion.lib.accelerator import numkong
from fusion.recall.maxsim import best_matches

unit = TokenVectors(np.array([[2, 0]], np.int8), 0.5)
print(best_matches(unit, [unit, unit]).tolist(), numkong())
"""


@pytest.mark.feature(
    "… an accelerator that does not load costs only its speed", of="the index: vectors are in a memory-mapped"
)
@pytest.mark.parametrize(
    "fault",
    [
        "ImportError('libc.so: version not found')",
        "OSError('cannot map it')",
        "ValueError('numpy.dtype size changed')",
    ],
)
def test_a_broken_accelerator_costs_only_its_speed(tmp_path: Path, fault: str) -> None:
    """Built for another libc, disk or numpy: everything is reckoned without it, and one warning says why."""
    (tmp_path / "numkong.py").write_text(f"raise {fault}\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[[1.0], [1.0]] None"), done.stderr
    assert done.stderr.count("numkong does not load") == 1
    assert fault.partition("(")[0] in done.stderr
