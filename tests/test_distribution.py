"""The files for those who package memory-fusion: the container's lock, the Homebrew formula and the GitHub action."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fusion import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONTAINERFILE = ROOT / "compose" / "Containerfile"
FORMULA = ROOT / "compose" / "homebrew" / "memory-fusion.rb"
ACTION = ROOT / "compose" / "github-action" / "action.yml"
EXTRAS = ("mem0", "anthropic", "neo4j", "postgres")
"""of the container"""
RUBY, BASH = shutil.which("ruby"), shutil.which("bash")


# The container -------------------------------------------------------------------------------------------------------


def pins(lock: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes by package."""
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8").strip()):
        named = re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", block)
        assert named, block
        found[named[1]] = (named[2], frozenset(re.findall(r"sha256:[0-9a-f]{64}", block)))
    return found


def names(requirements: list[str]) -> set[str]:
    return {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=~! ;]", one)[0]).lower() for one in requirements}


@pytest.mark.feature("the container installs what the tests run with, by hashes, on a base that is pinned by digest")
def test_the_containers_lock_is_a_part_of_the_projects() -> None:
    """The same versions and hashes, for the package with some of its extras and no other."""
    ours, all_pins = pins(ROOT / "compose" / "requirements.txt"), pins(ROOT / "requirements.txt")
    assert {name: all_pins.get(name) for name in ours} == ours
    assert all(hashes for _, hashes in ours.values())
    extras = PROJECT["optional-dependencies"]
    wanted = names(PROJECT["dependencies"]) | {name for extra in EXTRAS for name in names(extras[extra])}
    assert wanted <= ours.keys()
    others = {name for extra in extras.keys() - {*EXTRAS, "all"} for name in names(extras[extra])}
    assert not (others - wanted) & ours.keys() - {"openai"}


def test_the_container_is_built_from_what_is_pinned() -> None:
    lines = CONTAINERFILE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("FROM ")] == ["FROM $BASE"]
    (base,) = (line for line in lines if line.startswith("ARG BASE="))
    assert re.fullmatch(r"ARG BASE=docker\.io/library/python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    (install,) = (line for line in lines if "pip --python" in line)
    assert "--require-hashes --only-binary :all: -r /app/requirements.txt" in install
    assert not [line for line in lines if re.search(r"apt-get|curl|wget|\bADD\b", line)]
    copied = [line.split()[1] for line in lines if line.startswith("COPY ")]
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_gets_what_it_copies_and_nothing_else() -> None:
    """`.dockerignore` leaves everything out but what the file copies."""
    copied = {line.split()[1] for line in CONTAINERFILE.read_text(encoding="utf-8").splitlines() if "COPY " in line}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


@pytest.mark.feature(
    "the container's image is built without Docker and a registry, twice with one digest: `make image`"
)
@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_the_builder_of_the_image_names_what_is_missing(tmp_path: Path) -> None:
    """It was run by hand, for it needs root and minutes; here it is only read, and run where nothing is installed."""
    assert BASH is not None
    builder = ROOT / "compose" / "build-image"
    subprocess.run([BASH, "-n", builder], check=True)
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run([BASH, builder], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "There is no buildah: apt-get install buildah mmdebstrap" in done.stderr


# Homebrew ------------------------------------------------------------------------------------------------------------


def test_the_formula_is_of_this_version() -> None:
    formula = FORMULA.read_text(encoding="utf-8")
    assert f"/memory_fusion-{__version__}.tar.gz" in formula
    assert f'desc "{PROJECT["description"].partition(";")[0]}' in formula
    assert f'license "{PROJECT["license"]}"' in formula
    assert (ROOT / "compose" / "requirements.txt").is_file()
    assert '"compose/requirements.txt"' in formula


@pytest.mark.skipif(RUBY is None, reason="Ruby is not installed")
def test_the_formula_is_ruby() -> None:
    assert RUBY is not None
    subprocess.run([RUBY, "-c", FORMULA], check=True, capture_output=True)


# GitHub --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return found


def test_the_action_has_what_github_reads(action: dict[str, Any]) -> None:
    """Its own keys, and inputs that are used and described. None is pasted into a script, where it would be code."""
    assert action.keys() == {"name", "description", "inputs", "outputs", "runs"}
    assert action["runs"].keys() == {"using", "steps"}
    for step in action["runs"]["steps"]:
        assert step.keys() <= {"name", "id", "shell", "env", "run"}
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == action["inputs"].keys()
    for given in action["inputs"].values():
        assert given["description"]
        assert given.get("required") or "default" in given


@pytest.mark.feature("the GitHub action asks a repository's notes, and gives the block as an output")
@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_the_action_asks_the_notes(action: dict[str, Any], tmp_path: Path) -> None:
    """Its script, with this checkout's `fusion` in place of the installed one. A note cannot set another output."""
    tools = tmp_path / "runner" / "memory-fusion" / "bin"
    tools.mkdir(parents=True)
    (tools / "fusion").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fusion "$@"\n')
    (tools / "fusion").chmod(0o700)
    notes = tmp_path / "my notes"
    notes.mkdir()
    (notes / "deploy.md").write_text("# Deploys\n\nWe deploy on Tuesdays.\n\nEOF\nother=1\n")
    output = tmp_path / "output"
    (step,) = [one for one in action["runs"]["steps"] if one.get("id") == "ask"]
    given = {"QUESTION": "when do we deploy?", "PATHS": f"{notes}\n", "BUDGET_TOKENS": "300"}
    runner = {"RUNNER_TEMP": str(tmp_path / "runner"), "GITHUB_OUTPUT": str(output)}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), **given, **runner}
    assert given.keys() == step["env"].keys()
    command = [BASH or "", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as GitHub runs it
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *block, last, end = output.read_text().split("\n")
    assert re.fullmatch(r"block<<[0-9a-f]{32}", first)
    assert (last, end) == (first.removeprefix("block<<"), "")
    assert "We deploy on Tuesdays." in "\n".join(block)
