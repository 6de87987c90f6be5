"""Measures context packs and what they rest on. Each part is a module ``pack_NAME`` here with ``measure(data)``, whose
figures are printed under the part's name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks import figures
from benchmarks.datasets import Corpus, DataError, locomo
from benchmarks.progress import steps
from fusion.errors import BadInput

PREFIX = "pack_"


@dataclass(frozen=True, slots=True)
class Data:
    """What the parts measure with: the conversations of LoCoMo, and the questions of each at most.

    ``home`` keeps the stores between runs; None makes temporary ones.
    """

    corpora: tuple[Corpus, ...] = ()
    limit: int | None = None
    home: Path | None = None


def parts() -> list[str]:
    """The parts that there are, by name."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))


def measure(
    file: Path | None,
    only: Sequence[str] = (),
    limit: int | None = None,
    conversations: Sequence[str] = (),
    home: Path | None = None,
) -> dict[str, Any]:
    """The figures of the parts in ``only``, or of all."""
    known = parts()
    if unknown := sorted({*only} - {*known}):
        raise BadInput(f"--only: pack has no part {', '.join(unknown)}; there are {', '.join(known)}")
    corpora = locomo.load(file) if file is not None else ()
    if missing := {*conversations} - {corpus.id for corpus in corpora}:
        raise DataError(f"{file}: there is no conversation {', '.join(sorted(missing))}")
    chosen = tuple(corpus for corpus in corpora if not conversations or corpus.id in conversations)
    data = Data(chosen, limit, home)
    wanted = [part for part in known if not only or part in only]
    found: dict[str, Any] = {"command": "pack", "commit": figures.commit()}
    with steps(wanted) as done:
        for part in wanted:
            found[part] = import_module(f"benchmarks.{PREFIX}{part}").measure(data)
            done()
    return found


def show(found: Mapping[str, Any]) -> None:
    """Print the figures, a part a paragraph."""
    for part, values in found.items():
        if isinstance(values, Mapping):
            print(part)
            for name, value in values.items():
                print(f"  {name:32} {value}")
