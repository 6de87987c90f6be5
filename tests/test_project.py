"""The project as a whole: what the wheel has, what the lock says, what the feature list promises."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.txt", "requirements-dev.txt")


def normalised(requirement: str) -> str:
    """A requirement's name as PEP 503 compares it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def pinned(lock: str) -> set[str]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return {normalised(line) for line in lines if re.match(r"[A-Za-z0-9]", line)}


@pytest.mark.slow
def test_the_wheel_has_both_packages_and_the_configuration(tmp_path: Path) -> None:
    """Installed alone, the wheel brings fusion, adapters beside it, and config inside fusion; nothing else."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("memory_fusion-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        "fusion/contract.py",
        "fusion/config/sample/fusion.toml",
        "fusion/config/sample/workspace/MEMORY.md",
        "adapters/inmemory.py",
    }
    recipes = {f"fusion/config/recipes/{file.name}" for file in (ROOT / "config/recipes").glob("*.toml")}
    data = {str(file.relative_to(ROOT)) for file in (ROOT / "adapters").rglob("*.txt")}
    assert (expected | recipes | data) - names == set()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"fusion", "adapters"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_adapters_lies_beside_fusion() -> None:
    """Both names exist on public indexes; the two that are imported here are ours, side by side."""
    import adapters
    import fusion

    assert fusion.__file__ is not None
    assert adapters.__file__ is not None
    assert Path(fusion.__file__).parent.parent == Path(adapters.__file__).parent.parent == ROOT


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_index_and_pins_everything_by_hash(lock: str) -> None:
    """A lock installs from whichever index a machine has, and from each only what was locked."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    options = [line for line in text.splitlines() if re.match(r"\s*-", line)]
    assert [line for line in options if not re.match(r"    --hash=sha256:[0-9a-f]{64}", line)] == []
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert [block.splitlines()[0] for block in blocks if "==" not in block or "--hash=sha256:" not in block] == []


def test_every_dependency_is_in_the_lock() -> None:
    """Core, every extra and the development tools: `make` installs the locks and nothing else."""
    project = PROJECT["project"]
    declared = set(map(normalised, project["dependencies"]))
    for extra, requirements in project["optional-dependencies"].items():
        if extra != "all":
            declared |= set(map(normalised, requirements))
    assert declared - pinned("requirements.txt") == set()
    assert set(map(normalised, PROJECT["dependency-groups"]["dev"])) - pinned("requirements-dev.txt") == set()


def test_every_import_is_a_declared_dependency() -> None:
    """Nothing is imported that only happens to be installed because something else needs it."""
    project = PROJECT["project"]
    declared = {
        normalised(r) for rs in (project["dependencies"], *project["optional-dependencies"].values()) for r in rs
    }
    imported = set()
    for package in ("fusion", "adapters", "benchmarks"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                imported |= {name.partition(".")[0] for name in names}
    others = imported - sys.stdlib_module_names - {"fusion", "adapters", "benchmarks", "tests"}  # tests: the attacks
    distributions = packages_distributions()
    # What an extra brings need not be installed here; its distribution then is taken to have the module's name.
    strays = {name for name in others if not declared & {normalised(d) for d in distributions.get(name, (name,))}}
    assert strays == set()


def test_the_extra_all_names_every_other_extra() -> None:
    """`memory-fusion[all]` leaves none out."""
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"memory-fusion[{','.join(name for name in extras if name != 'all')}]"


def test_both_locks_agree_on_versions() -> None:
    """What the tests run with is what users get: a package in both locks has one version in them."""

    def versions(lock: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, version in re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(name, set()).add(version)
        return found

    users, developers = map(versions, LOCKS)
    shared = users.keys() & developers.keys()
    assert shared
    assert [name for name in shared if users[name] != developers[name]] == []


def test_every_dependency_says_why_and_under_which_licence() -> None:
    """A reason and a licence stand beside each dependency in pyproject.toml."""
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    requirement = re.compile(r'^\s+"[A-Za-z0-9_.\[\]-]+(?:[<>=!~]=?[^"]*)?",\s*(?:#\s*(?P<why>.*))?$')
    start = lines.index("dependencies = [")
    end = next(i for i, line in enumerate(lines) if line.startswith("all = "))
    silent = [m.string for line in lines[start:end] if (m := requirement.match(line)) and not m["why"]]
    assert silent == []


def test_the_sample_has_contradictions_and_duplicates() -> None:
    """The sample shows what fusion is for: the old and the new decision, and one fact in three places."""
    sample = ROOT / "config" / "sample"
    turns = [json.loads(line) for line in (sample / "sessions.jsonl").read_text(encoding="utf-8").splitlines()]
    facts = [json.loads(line) for line in (sample / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    notes = "\n".join(file.read_text(encoding="utf-8") for file in sample.rglob("*.md"))
    assert len(turns) >= 80
    assert len({turn["session_id"] for turn in turns}) == 6
    assert len(facts) >= 25
    assert {fact["kind"] for fact in facts} == {"fact", "preference", "decision", "rule"}
    database = [fact["text"] for fact in facts if fact["kind"] == "decision" and "database" in fact["text"]]
    assert len(database) == 2
    for place in (notes, " ".join(t["text"] for t in turns), " ".join(f["text"] for f in facts)):
        assert "190 kr a month" in place
    places = {(turn["document"], turn["position"]) for turn in turns}
    assert len(places) == len(turns)


def test_the_feature_list_names_tests_that_exist() -> None:
    """Every line of tests/FEATURES.md that names a test names one that is there."""
    page = ROOT / "tests" / "FEATURES.md"
    if not page.is_file():
        pytest.skip("there is no tests/FEATURES.md yet")
    inherited = (ROOT / "tests" / "backend_contract.py").read_text(encoding="utf-8")
    named = re.findall(r"(tests/[\w/]+\.py)((?:::\w+)*)", page.read_text(encoding="utf-8"))
    assert named
    missing = []
    for file, path in named:
        source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        name = path.rpartition("::")[2]
        if not source or (name and not re.search(rf"(?:def|class) {name}\b", source + inherited)):
            missing.append(file + path)
    assert missing == []


def test_every_row_of_the_cortexs_seed_stands_in_the_feature_list() -> None:
    """A001 to A052, each in the column of the seed: in a line with its test, or with the reason why not."""
    page = ROOT / "tests" / "FEATURES.md"
    if not page.is_file():
        pytest.skip("there is no tests/FEATURES.md yet")
    lines = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    told = {row for cells in lines if len(cells) == 3 and len(cells[2]) > 10 for row in re.findall(r"A\d{3}", cells[1])}
    assert {f"A{n:03}" for n in range(1, 53)} - told == set()


@pytest.mark.parametrize("row", [*range(53, 91), *range(110, 122)])
def test_each_row_of_markdown_and_of_other_peoples_memories_stands_in_the_feature_list(row: int) -> None:
    """A053 to A090 and A110 to A121 of the seeds, done or with the reason why not: each on a line that names a test."""
    page = (ROOT / "tests" / "FEATURES.md").read_text(encoding="utf-8")
    lines = [line.split(" | ") for line in page.splitlines()]
    assert any(f"A{row:03}" in cells[-2] and "`tests/" in cells[-1] for cells in lines if len(cells) >= 3)
