"""Write tests/FEATURES.md from the markers on the tests.

    python -m tests.features            # writes the page
    python -m tests.features --check    # says whether it is as it would be written

A test that shows a feature says so with a marker, in one sentence:

    @pytest.mark.feature("receipts are deleted oldest first once they exceed their bytes")
    @pytest.mark.row("A034", "a duplicate raises the confidence of the memory by 0.05")

``row`` is for a row of the inventory in ``rows.toml``, and takes several ids before its sentence. A detail of another
feature begins with "… " and names that feature by the beginning of its sentence, ``of="receipts are deleted"``: it is
listed below it. Several tests with the same marker share one line. ``part="recall"`` overrides the path.

The page is read from the source, so nothing is imported and a moved test needs no work.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "FEATURES.md"
ROWS = ROOT / "tests" / "rows.toml"

PARTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "doors": (
        "Doors",
        (
            "tests/doors",
            "tests/discover",
            "tests/frameworks",
            "tests/integrations",
            "tests/test_client.py",
            "tests/trust/test_token.py",
            "tests/test_documents.py",
        ),
    ),
    "gateway": (
        "The gateway and its homes",
        ("tests/gateway", "tests/trust", "tests/upkeep", "tests/test_home.py"),
    ),
    "ingest": ("The write path", ("tests/ingest", "tests/journal", "tests/sources", "tests/store")),
    "backends": ("Backends", ("tests/adapters", "tests/bolt", "tests/cognee", "tests/backend_contract.py")),
    "recall": ("The read path", ("tests/recall",)),
    "compare": ("Comparing and benchmarks", ("tests/compare", "tests/benchmarks")),
    "faults": ("Faults", ("tests/faults",)),
    "faults/backends": ("Faults: backends", ("tests/faults/test_backends.py",)),
    "faults/adapters": ("Faults: each adapter", ("tests/faults/test_http_backends.py",)),
    "faults/stores": ("Faults: stores and ingest", ("tests/faults/test_stores.py", "tests/faults/test_kill.py")),
    "faults/cortex": ("Faults: the cortex", ("tests/faults/test_kill_cortex.py",)),
    "faults/judge": ("Faults: the judge", ()),
    "faults/clients": ("Faults: clients", ("tests/faults/test_clients.py",)),
    "secrets": ("Secrets and limits", ("tests/faults/test_secrets.py", "tests/fire")),
    "whole": ("The whole", ("tests",)),
}
"""Each part of the page: its title, and the paths of its tests. The longest path that fits decides."""

HEAD = """\
# Features

What memory-fusion does, the row of the seeds' inventory that asks for it, and the test that shows it. The seeds are the
five designs that the project grew from; `tests/rows.toml` says in a line what each of their rows asks for.

This page is generated: do not edit it; after a change or a merge conflict write it anew with `make features`. Each line
is a marker on its test, `@pytest.mark.feature("…")` or `@pytest.mark.row("A034", "…")`; `tests/features.py` says how to
write one.
"""


@dataclass(frozen=True)
class Marker:
    """One marker on one test."""

    test: str
    """as pytest names it, without parameters"""
    line: int
    sentence: str
    rows: tuple[str, ...] = ()
    of: str = ""
    part: str = ""


@dataclass(frozen=True)
class Feature:
    """One line of the page: a sentence, the rows it belongs to, and every test that shows it."""

    sentence: str
    markers: tuple[Marker, ...]

    @property
    def rows(self) -> list[str]:
        return sorted({row for marker in self.markers for row in marker.rows})

    @property
    def part(self) -> str:
        return next((marker.part for marker in self.markers if marker.part), part_of(self.markers[0].test))

    @property
    def of(self) -> str:
        return self.markers[0].of

    def __str__(self) -> str:
        tests = ", ".join(f"`{test}`" for test in dict.fromkeys(marker.test for marker in self.markers))
        return f"| {cell(self.sentence)} | {', '.join(self.rows)} | {tests} |"


class BadMarker(ValueError):
    """A marker that cannot be written on the page; its message names the test and the fix."""


def cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def part_of(test: str) -> str:
    """The part of a test by its path."""
    path = test.partition("::")[0]
    fitting = [(len(p), key) for key, (_, paths) in PARTS.items() for p in paths if f"{path}/".startswith(f"{p}/")]
    return max(fitting)[1]


@cache
def markers(root: Path = ROOT) -> tuple[Marker, ...]:
    """Every marker in the source of the tests, by file and line."""
    found: list[Marker] = []
    for file in sorted((root / "tests").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "pytest.mark.row(" in source or "pytest.mark.feature(" in source:
            found += _within(ast.parse(source), file.relative_to(root).as_posix())
    return tuple(found)


def _within(node: ast.Module | ast.ClassDef, name: str) -> Iterator[Marker]:
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            test = f"{name}::{child.name}"
            for decorator in child.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.feature":
                    yield _marker(decorator, test, rows=False)
                elif isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.row":
                    yield _marker(decorator, test, rows=True)
            if isinstance(child, ast.ClassDef):
                yield from _within(child, test)


def _marker(call: ast.Call, test: str, *, rows: bool) -> Marker:
    try:
        *ids, sentence = (str(ast.literal_eval(argument)) for argument in call.args)
        options = {str(keyword.arg): str(ast.literal_eval(keyword.value)) for keyword in call.keywords}
        marker = Marker(test, call.lineno, sentence, tuple(ids), **options)
    except (ValueError, TypeError) as error:
        raise BadMarker(f"{test}: a marker takes plain strings (rows, one sentence, of=, part=): {error}") from error
    if rows != bool(ids) or not all(re.fullmatch(r"A\d{3}", row) for row in ids):
        raise BadMarker(f'{test}: write row("A034", "sentence") or feature("sentence")')
    if marker.part and marker.part not in PARTS:
        raise BadMarker(f"{test}: part={marker.part!r} is none of {', '.join(PARTS)}")
    if bool(marker.of) != sentence.startswith("… "):
        raise BadMarker(f'{test}: a sentence that begins with "… " names its feature with of=, and no other does')
    return marker


def features(found: Sequence[Marker]) -> list[Feature]:
    """The lines of the page: markers with the same sentence are one."""
    together: dict[tuple[str, str, str], list[Marker]] = {}
    for marker in found:
        together.setdefault((marker.sentence, marker.of, marker.part), []).append(marker)
    return [Feature(sentence, tuple(group)) for (sentence, _, _), group in together.items()]


def by_part(lines: Sequence[Feature]) -> dict[str, list[Feature]]:
    """Each part's lines in the order of the tests, every detail below the feature that it belongs to."""
    heads = [line for line in lines if not line.of]
    details: dict[str, list[Feature]] = {}
    for line in lines:
        if line.of:
            fitting = [head for head in heads if head.sentence.startswith(line.of)]
            if len(fitting) != 1:
                raise BadMarker(f"{line.markers[0].test}: of={line.of!r} begins {len(fitting)} features, not one")
            details.setdefault(fitting[0].sentence, []).append(line)
    parts: dict[str, list[Feature]] = {key: [] for key in PARTS}
    for head in heads:
        parts[head.part] += [head, *details.pop(head.sentence, ())]
    return parts


def page(root: Path = ROOT) -> str:
    """The whole of tests/FEATURES.md."""
    inventory = tomllib.loads((root / "tests" / "rows.toml").read_text(encoding="utf-8"))
    lines = features(markers(root))
    text = [HEAD]
    for key, part in by_part(lines).items():
        if part:
            text += [f"## {PARTS[key][0]}\n", "| feature | row | test |", "|---|---|---|", *map(str, part), ""]
    shown = {row for line in lines for row in line.rows}
    text += [*_table("Not there yet", "No test shows these rows.", inventory["asks"], inventory["why"], skip=shown)]
    text += [
        *_table("Left out of a row", "A test shows the rest of these rows.", inventory["without"], inventory["why"])
    ]
    return "\n".join(text)


def _table(
    title: str, intro: str, asks: Mapping[str, str], why: Mapping[str, str], skip: set[str] | None = None
) -> Iterator[str]:
    yield from (
        f"## {title}\n",
        f"{intro}\n",
        "| row | what the seed asks for | why it is not there |",
        "|---|---|---|",
    )
    for row in sorted(asks.keys() - (skip or set())):
        yield f"| {row} | {cell(asks[row])} | {cell(why.get(row, ''))} |"
    yield ""


def main(arguments: Sequence[str]) -> int:
    text = page()
    if "--check" in arguments:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write("tests/FEATURES.md is not what the markers say; write it anew: make features\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
