"""What is left out, in the patterns of .gitignore."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.lib.ignore import ALWAYS, matcher


def left_out(path: str, patterns: list[str]) -> bool:
    """As in a walk: files in an ignored folder are never reached."""
    ignored = matcher(patterns)
    *folders, _ = path.split("/")
    way = ["/".join(folders[: n + 1]) for n in range(len(folders))]
    return any(ignored(folder, True) for folder in way) or ignored(path, False)


@pytest.mark.parametrize(
    ("pattern", "out", "kept"),
    [
        ("draft.md", ["draft.md", "a/draft.md"], ["draft2.md"]),
        ("/draft.md", ["draft.md"], ["a/draft.md"]),
        ("draft*", ["drafts.md", "a/draft/x.md"], ["my-draft.md"]),
        ("private/", ["private/x.md", "a/private/x.md"], ["private"]),
        ("a/*.md", ["a/x.md"], ["b/a/x.md", "a/b/x.md"]),
        ("a/**", ["a/x.md", "a/b/x.md"], ["b/a"]),
        ("**/tmp", ["tmp/x.md", "a/b/tmp/x.md"], ["tmpx.md"]),
        ("a/**/x.md", ["a/x.md", "a/b/c/x.md"], ["b/x.md"]),
        ("no[0-9].md", ["no1.md"], ["nox.md"]),
        ("no[!0-9].md", ["nox.md"], ["no1.md"]),
        ("?.md", ["a.md"], ["ab.md"]),
        ("\\#x.md", ["#x.md"], ["x.md"]),
        ("# a comment", [], ["# a comment"]),
        ("café.md", ["café.md"], ["cafe.md"]),
    ],
)
def test_patterns(pattern: str, out: list[str], kept: list[str]) -> None:
    """A name anywhere, a path from the top, folders alone, stars that stop at a slash and stars that do not."""
    assert [path for path in out if not left_out(path, [pattern])] == []
    assert [path for path in kept if left_out(path, [pattern])] == []


def test_the_last_pattern_that_fits_decides() -> None:
    """`!` takes back; but nobody looks into a folder that is left out."""
    assert not left_out("drafts/keep.md", ["drafts/*", "!keep.md"])
    assert left_out("drafts/keep.md", ["drafts/", "!keep.md"])
    assert left_out("keep.md", ["!keep.md", "*.md"])


@pytest.mark.parametrize("path", [".obsidian/x.md", "a/.trash/x.md", ".git/x.md", "node_modules/a/README.md", ".x.md"])
def test_what_holds_anyway(path: str) -> None:
    """Obsidian's folder, trash, hidden files and dependencies, in addition to the user's patterns."""
    assert left_out(path, [*ALWAYS, "drafts/"])


def test_what_holds_anyway_can_be_taken_back() -> None:
    """`!.github` after them."""
    assert not left_out(".github/NOTES.md", [*ALWAYS, "!.github"])


NAMES = st.sampled_from(["a", "b", "ab", "a.md", "b.md", ".x", "x y"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERNS = st.sampled_from(
    "a b/ *.md /a a/b !a/b !b **/b a/** a/**/b !a !*.md a* ? [ab] [!a] [^a] /b/ !b/ .* #c \\!a a/* ** a**b".split()
)


@pytest.mark.feature("Markdown: `ignore` matches like .gitignore, checked against git itself; .obsidian is never read")
@pytest.mark.skipif(shutil.which("git") is None, reason="git, which is the judge here, is not installed")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=4), paths=st.sets(PATHS, min_size=1, max_size=12))
def test_git_judges_alike(tmp_path_factory: pytest.TempPathFactory, patterns: list[str], paths: set[str]) -> None:
    """Whatever patterns and paths: what git would leave untracked is what is found."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / ".git" / "info" / "exclude").write_text("\n".join(patterns) + "\n")
    files = {path for path in paths if _written(folder / path)}
    command = ["git", "-c", "core.excludesFile=", "-C", str(folder), "ls-files", "-z", "--others", "--exclude-standard"]
    seen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    assert {path for path in files if not left_out(path, patterns)} == {path for path in seen if path}


def _written(path: Path) -> bool:
    """Not if a file has the name of a folder, or a folder that of a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except (FileExistsError, NotADirectoryError):
        return False
    return path.is_file()
