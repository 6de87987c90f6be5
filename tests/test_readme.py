"""What the README and the pages that it leads to show works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import FuseRequest
from tests.patience import load
from tests.shown import places

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ADAPTERS = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "adapters/README.md",
    "adapters/cortex/README.md",
    "benchmarks/README.md",
    "benchmarks/results.md",
    "config/README.md",
    "docs/adapters.md",
    "docs/concepts.md",
    "docs/distribution.md",
    "docs/evaluation.md",
    "docs/forgetting.md",
    "docs/getting-started.md",
    "docs/glossary.md",
    "docs/integrations/mem0.md",
    "docs/integrations/qmd.md",
    "docs/integrations/typescript.md",
    "docs/jobs.md",
    "docs/ledger.md",
    "docs/limits.md",
    "docs/living.md",
    "docs/middleware.md",
    "docs/models.md",
    "docs/security.md",
    "docs/transfer.md",
    "docs/upkeep.md",
    "integrations/README.md",
    "integrations/claude-code/README.md",
    "integrations/openclaw/README.md",
    "integrations/typescript/README.md",
]


def block(language: str, having: str) -> str:
    """The code block of the page on adapters in that language that has these words."""
    found = [b for b in re.findall(rf"```{language}\n(.*?)```", ADAPTERS, re.DOTALL) if having in b]
    assert len(found) == 1, f"docs/adapters.md has {len(found)} {language} blocks with {having!r}"
    return str(found[0])


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("We deploy on Tuesdays.\nBerit likes cinnamon cake.\n", encoding="utf-8")
    return file


async def test_the_readmes_backend_is_complete(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied into a file and configured as shown, it answers, and is skipped with a reason for a user's question."""
    (tmp_path / "my_memories.py").write_text(block("python", "class Lines:"), encoding="utf-8")
    settings = block("toml", "my_memories:Lines").replace("/home/ada/lines.txt", str(lines))
    config = tmp_path / "fusion.toml"
    config.write_text(f'backends_only = true\n[embedder]\nadapter = ""\n{settings}', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        async with Gateway.open(load(config, home=tmp_path / "home")) as fusion:
            answer = await fusion.fuse("when do we deploy?")
            assert "] We deploy on Tuesdays.\n" in answer.block
            assert "cinnamon" not in answer.block
            asked = FuseRequest("when do we deploy?", Scope(user_id="ada"))
            (state,) = (await fusion.fuse(asked)).backends
            assert (state["status"], "user_id" in state["detail"]) == ("skipped", True)
            lines.unlink()
            assert (await fusion.search("lines", "deploy", Scope())).status == "unreachable"
    finally:
        sys.modules.pop("my_memories", None)


@pytest.mark.feature(
    "… and a backend of your own: the documentation's example runs as it is printed, and passes",
    of="the contract suite: what was",
)
def test_the_readmes_backend_keeps_the_promises_of_all(tmp_path: Path) -> None:
    """Its test, copied into a file beside it, passes: nothing fails, and what is skipped is an optional port."""
    (tmp_path / "my_memories.py").write_text(block("python", "class Lines:"), encoding="utf-8")
    (tmp_path / "test_my_memories.py").write_text(block("python", "class TestLines"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    told = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path / "test_my_memories.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    assert re.search(r"[3-9]\d passed", told.stdout), told.stdout[-500:]


def test_every_command_of_the_readme_exists() -> None:
    """Each `fusion VERB` that it or another page shows is one of the command's own, or a backend that has verbs."""
    from fusion.doors.cli import app
    from fusion.doors.cli.adapter_commands import backends
    from fusion.gateway.extensions import has_verbs

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    known |= {name for name, adapter in backends().items() if has_verbs(adapter)}
    text = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    code = "\n".join(found for page in text for found in re.findall(r"```.*?```|`[^`\n]+`", page, re.DOTALL))
    shown = set(re.findall(r"^(?:[`$ ].*?)?fusion ([a-z]+(?:-[a-z]+)*)\b", code, re.MULTILINE)) - {"import"}
    assert shown <= known
    assert {"serve", "fuse", "ingest", "search", "backends", "receipt", "tune", "hook", "mcp", "cortex"} <= shown


@pytest.mark.parametrize("page", PAGES)
def test_its_links_lead_somewhere(page: str) -> None:
    """Every relative link is a file or folder of the project."""
    file = ROOT / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", file.read_text(encoding="utf-8")):
        assert (file.parent / link).exists(), link


def links(page: str) -> set[str]:
    """The pages of the project that a page links to; a folder stands for its README."""
    file = ROOT / page
    found = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", file.read_text(encoding="utf-8"))
    targets = [(file.parent / link).resolve() for link in found]
    pages = (target / "README.md" if target.is_dir() else target for target in targets)
    return {str(page.relative_to(ROOT)) for page in pages if page.exists()}


def test_every_page_can_be_reached_from_the_readme() -> None:
    """A page that nothing links to is not read."""
    reached, todo = {"README.md"}, ["README.md"]
    while todo:
        new = {page for page in links(todo.pop()) if page.endswith(".md")} - reached
        reached |= new
        todo += new
    assert set(PAGES) <= reached


def test_the_readme_is_short() -> None:
    """What is longer belongs on a page of its own."""
    assert len(README.splitlines()) <= 150


@pytest.mark.model
def test_the_python_example_of_the_readme_works() -> None:
    """Copied into a file and run, it prints a block with the memory that it stored."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    with places() as made:
        place = made["empty"]
        (place.folder / "example.py").write_text(example, encoding="utf-8")
        place.run("fusion remember We deploy on Tuesdays. && fusion stop")  # it ends when every backend has it
        printed = place.run("python example.py")
    assert any(line.endswith("] We deploy on Tuesdays.") for line in printed), printed
