"""What `make` says while it sets up, and at the end of `make fuse`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs make on our Makefile, as if everything were set up."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def step(command: str) -> subprocess.CompletedProcess[str]:
    rule = f"probe: ; @$(STEP); step 2/4 'reads the sample' {command} || exit 3"
    return make("--eval", rule, "probe")


@pytest.mark.feature("`make fuse` reports what it installs and its progress, and ends with what to do next")
def test_a_step_of_make_says_its_number_and_its_seconds() -> None:
    """One line; what the command prints is not shown where it succeeds."""
    done = step("sh -c 'echo noise; echo noise >&2'")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("  2/4  reads the sample ")
    assert line.endswith(" s")


def test_a_step_of_make_that_fails_shows_why() -> None:
    """All that the command printed, and make fails."""
    done = step("sh -c 'echo no such index >&2; exit 1'")
    assert done.returncode != 0
    assert "2/4  reads the sample – failed" in done.stderr
    assert "no such index" in done.stderr


def test_make_fuse_ends_with_four_commands() -> None:
    """Ask, see it, remember, and your own notes; each is a command of ours."""
    plan = make("-n", "fuse").stdout
    _, _, following = plan.partition("What next?")
    for command in ("fuse 'why did we leave SQLite?'", "open", "remember We deploy", "init"):
        assert f"fusion {command}" in following
