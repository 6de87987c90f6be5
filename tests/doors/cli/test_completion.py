"""Completion of the command line in real shells: `fusion --install-completion`, and what it installs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.fakes import SMALL

SHELLS = ("bash", "zsh", "fish")
COMPLETE = {
    "bash": r"""source "$HOME/.bash_completions/fusion.sh"
COMP_WORDS=(@WORDS@) COMP_CWORD=@LAST@
_fusion_completion fusion
printf '%s\n' "${COMPREPLY[@]}"
""",
    "zsh": r"""compdef() { }
_arguments() { print -r -- "$@"; local -a each; local last=${1#*: :\(\(}; eval "each=( ${last%\)\)} )" }
words=(@WORDS@) CURRENT=@LAST@+1
source "$HOME/.zfunc/_fusion"
_fusion_completion
""",
    "fish": r"""source "$HOME/.config/fish/completions/fusion.fish"
complete --do-complete "@WORDS@"
""",
}
"""programs that load what was installed, and print the completions of a line"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a user with nothing but a command `fusion`."""
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "fusion"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fusion "$@"\n')
    command.chmod(0o700)
    root = str(Path(__file__).parents[3])
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(tmp_path), "PATH": path, "PYTHONPATH": root, "PYTHONSAFEPATH": "1", "LANG": "C.UTF-8"}


def run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=environment["HOME"]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(environment: dict[str, str], shell: str, words: str) -> str:
    """What a shell offers at the end of a line, once completion was installed from within it."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    run(environment, found, "-c", "fusion --install-completion; true")
    program = COMPLETE[shell].replace("@WORDS@", words).replace("@LAST@", str(len(words.split()) - 1))
    return run(environment, found, "-c", program)


@pytest.mark.feature("`fusion --install-completion` completes commands and options in bash, zsh and fish")
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_offers_commands_and_options(environment: dict[str, str], shell: str) -> None:
    offered = completed(environment, shell, "fusion rem")
    assert "remember" in offered
    assert "forget" not in offered
    assert "--budget-tokens" in completed(environment, shell, "fusion fuse --budg")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_runs_nothing_that_a_home_names(environment: dict[str, str], shell: str, tmp_path: Path) -> None:
    """zsh evaluates completions: a backend whose name is a command is not offered."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    names = ("plain", "p\\$(touch hacked)", "p`touch hacked`", "p'; touch hacked; '")
    tables = "".join(f'[backends.{json.dumps(name)}]\nadapter = "adapters.cortex:Cortex"\n' for name in names)
    (home / "fusion.toml").write_text(SMALL + tables)
    environment["FUSION_HOME"] = str(home)
    run(environment, "fusion", "allow", "--yes")
    offered = completed(environment, shell, "fusion p")
    assert "plain" in offered
    assert "hacked" not in offered
    assert not [*tmp_path.rglob("hacked")]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_can_be_shown_instead(environment: dict[str, str], shell: str) -> None:
    """For a package that installs it in the system's folders."""
    shown = run(
        {**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}, "fusion", "--show-completion", shell
    )
    assert f"_FUSION_COMPLETE=complete_{shell}" in shown
    assert not [*Path(environment["HOME"]).glob(".*")]
