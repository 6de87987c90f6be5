"""The project as a whole: what the wheel has, what the lock says, what the feature list promises."""

from __future__ import annotations

import ast
import json
import posixpath
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import features

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.txt", "requirements-dev.txt")
INTEGRATIONS = ROOT / "fusion" / "integrations"
PLUGINS = ROOT / "integrations"
FRAMEWORKS = sorted(
    file.stem.replace("_", "-") for file in INTEGRATIONS.glob("*.py") if file.stem not in ("__init__", "agent_memory")
)
"""the names of frameworks, each of which has a module"""
WITHOUT_EXTRA = {"crewai": "crewai", "strands": "strands-agents"}
"""frameworks that need an older mcp than memory-fusion: the client is installed beside them without dependencies"""


def normalised(requirement: str) -> str:
    """A requirement's name as PEP 503 compares it."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def pinned(lock: str) -> set[str]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return {normalised(line) for line in lines if re.match(r"[A-Za-z0-9]", line)}


@pytest.mark.feature("the wheel has both packages and the configuration")
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
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        modules = {name: packed.read(name).decode() for name in names if re.match(r"fusion/plugins/.*\.js$", name)}
    plugins = {str(file.relative_to(PLUGINS)) for file in (PLUGINS / "openclaw").rglob("*.js")}
    assert {f"fusion/plugins/{name}" for name in plugins} <= modules.keys()
    for name, text in modules.items():
        imported = re.findall(r'^(?:import|export) .*from "(\.[^"]+)";$', text, re.MULTILINE)
        assert {posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in imported} <= names
    expected = {
        "fusion/contract/backends.py",
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
    """Core, every extra but the frameworks, and the tools: `make` installs the locks and nothing else."""
    project = PROJECT["project"]
    declared = set(map(normalised, project["dependencies"]))
    for extra, requirements in project["optional-dependencies"].items():
        if extra != "all" and extra not in FRAMEWORKS:
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
            if INTEGRATIONS in file.parents:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                imported |= {name.partition(".")[0] for name in names}
    others = imported - sys.stdlib_module_names - {"fusion", "adapters", "benchmarks", "tests"}  # tests: the attacks
    distributions = packages_distributions()
    # What an extra brings need not be installed here; its distribution then is taken to have the module's name.
    strays = {name for name in others if not declared & {normalised(d) for d in distributions.get(name, (name,))}}
    assert strays == set()


def modules() -> dict[str, Path]:
    """Every module of the checkout, by its dotted name."""
    files = [
        file for package in ("fusion", "adapters", "benchmarks", "tests") for file in (ROOT / package).rglob("*.py")
    ]
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return dict(zip(names, files, strict=True))


def imports_of(source: str, known: Collection[str]) -> set[str]:
    """The known modules that a source imports by name anywhere: in functions and under TYPE_CHECKING, too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in known else node.module or "" for name in full}
    return found & set(known)


@pytest.mark.feature("no module imports itself through others")
def test_imports_have_no_cycle() -> None:
    """No two modules import each other, neither directly nor through others: not in a function, not for types alone."""
    files = modules()
    imports = {name: imports_of(file.read_text(encoding="utf-8"), files) - {name} for name, file in files.items()}
    assert cycle(imports) == []


def cycle(imports: Mapping[str, Collection[str]]) -> list[str]:
    """The modules of one cycle of imports, in its order; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_cycle_finds_modules_that_import_each_other() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": []}) == []
    assert set(cycle({"a": ["b"], "b": ["c"], "c": ["a"]})) == {"a", "b", "c"}


def test_imports_of_finds_every_kind_of_import() -> None:
    """Modules and names of modules, at the top, for types and in functions."""
    source = """
import a.b
from a import c, something
if TYPE_CHECKING:
    from a.d import Type
def f():
    from e import Value
"""
    assert imports_of(source, ["a", "a.b", "a.c", "a.d", "e", "f"]) == {"a", "a.b", "a.c", "a.d", "e"}


def test_the_extra_all_names_every_other_extra() -> None:
    """`memory-fusion[all]` leaves none out but the frameworks, which do not all fit together."""
    extras = PROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == f"memory-fusion[{','.join(name for name in extras if name not in ('all', *FRAMEWORKS))}]"


def test_each_framework_has_a_pinned_version_tests_and_an_extra_if_that_resolves() -> None:
    """`pip install "memory-fusion[langchain]"` brings what `fusion.integrations.langchain` imports."""
    locks = (ROOT / "tests" / "frameworks").glob("requirements*.txt")
    pins = [line for lock in locks for line in re.findall(r"^\S+==\S+", lock.read_text("utf-8"), re.MULTILINE)]
    assert not PROJECT["project"]["optional-dependencies"].keys() & WITHOUT_EXTRA.keys()
    for name in FRAMEWORKS:
        module = name.replace("-", "_")
        assert (ROOT / "tests" / "frameworks" / f"test_{module}.py").is_file()
        (requirement, *_) = PROJECT["project"]["optional-dependencies"].get(name) or [WITHOUT_EXTRA[name]]
        assert any(line.startswith(f"{normalised(requirement)}==") for line in pins), requirement


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


@pytest.mark.feature("the feature list is generated from markers on the tests, and lists the rows that no test shows")
def test_the_feature_list_is_what_the_markers_say() -> None:
    """Otherwise write it anew: `make features`."""
    assert features.PAGE.read_text(encoding="utf-8") == features.page(), "tests/FEATURES.md is old: make features"


def test_markers_name_rows_of_the_inventory() -> None:
    """Each of A001 to A167 has a line in tests/rows.toml, and nothing else has one."""
    inventory = tomllib.loads(features.ROWS.read_text(encoding="utf-8"))
    assert list(inventory["asks"]) == [f"A{number:03}" for number in range(1, 168)]
    shown = {row for marker in features.markers() for row in marker.rows}
    assert shown - inventory["asks"].keys() == set()
    assert inventory["why"].keys() - inventory["asks"].keys() == set()
    assert inventory["without"].keys() - shown == set(), (
        "what is left out of a row that no test shows is the row itself"
    )


def test_markers_stand_on_what_pytest_runs() -> None:
    """On a test, on a class of tests, or on a class that tests inherit; not on a helper that nothing collects."""
    sources = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    names = {marker.test.rpartition("::")[2] for marker in features.markers()}
    helpers = {name for name in names if not name.lower().startswith("test")}
    assert [name for name in helpers if not re.search(rf"\b{name}\.TestCase|class \w+\(.*\b{name}\b", sources)] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('@pytest.mark.row("A001")', "write row"),
        ('@pytest.mark.row("B1", "x")', "write row"),
        ('@pytest.mark.feature("A001", "x")', "write row"),
        ('@pytest.mark.feature(f"{x}")', "plain strings"),
        ('@pytest.mark.feature("x", seed="y")', "plain strings"),
        ('@pytest.mark.feature("x", part="y")', "none of doors"),
        ('@pytest.mark.feature("… x")', "of="),
        ('@pytest.mark.feature("… x", of="y")', "begins 0 features"),
    ],
)
def test_a_wrong_marker_is_named_with_its_fix(tmp_path: Path, source: str, said: str) -> None:
    """The error says which test it is on."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(f"{source}\ndef test_a(): ...\n", encoding="utf-8")
    with pytest.raises(features.BadMarker, match=rf"tests/test_it\.py::test_a: .*{re.escape(said)}"):
        features.by_part(features.features(features.markers(tmp_path)))


def test_features_are_grouped_by_path_with_details_below(tmp_path: Path) -> None:
    """Two tests of one sentence are one line; a detail follows its feature from another folder."""
    for path, source in {
        "tests/recall/test_b.py": '@pytest.mark.row("A002", "b | c")\ndef test_b(): ...\n',
        "tests/doors/http/test_a.py": (
            'class TestA:\n    @pytest.mark.row("A001", "A003", "… more", of="b |")\n    def test_a(self): ...\n'
            '\n    @pytest.mark.feature("a")\n    async def test_c(self): ...\n'
        ),
        "tests/doors/test_d.py": '@pytest.mark.feature("a")\ndef test_d(): ...\n',
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source, encoding="utf-8")
    parts = features.by_part(features.features(features.markers(tmp_path)))
    assert {key: [str(line) for line in lines] for key, lines in parts.items() if lines} == {
        "doors": ["| a |  | `tests/doors/http/test_a.py::TestA::test_c`, `tests/doors/test_d.py::test_d` |"],
        "recall": [
            "| b \\| c | A002 | `tests/recall/test_b.py::test_b` |",
            "| … more | A001, A003 | `tests/doors/http/test_a.py::TestA::test_a` |",
        ],
    }
