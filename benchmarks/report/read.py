"""Rows and contributions from files, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from benchmarks.datasets import DataError
from benchmarks.scored_rows import Row

_ROW = TypeAdapter(Row)
_Shares = dict[str, Annotated[float, Field(allow_inf_nan=False)]]


@with_config(ConfigDict(extra="ignore"))
@dataclass(frozen=True, slots=True)
class Contribution:
    """What `python -m benchmarks contribution` printed: shares of 1, and milliseconds, by backend."""

    dataset: str
    n: int
    eib_frac: float
    shapley: _Shares
    alone: _Shares
    leave_one_out: _Shares
    saves_ms: dict[str, float | None]
    verdicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A rows file, and the name of its run, where several runs are compared."""

    file: Path
    run: str = ""


def source(text: str) -> Source:
    """FILE, or RUN=FILE where no file is called all of that."""
    run, equals, file = text.partition("=")
    return Source(Path(file), run) if equals and run and not Path(text).exists() else Source(Path(text))


_CONTRIBUTION = TypeAdapter(Contribution)


def rows(sources: Sequence[Source]) -> list[Row]:
    """The rows of all files, in their order; the name of a run is appended to its arms.

    Raises DataError, naming file and line, for a line that is no row and for one that says again what an earlier line
    said of the same question, arm and budget; for one whose question, or its evidence, is not what an earlier line
    said of it, because the two cannot be compared; and for files without any row.
    """
    found: dict[tuple[str, str, int, str, int], Row] = {}
    said: dict[tuple[str, str, int, str, int], str] = {}
    asked: dict[tuple[str, str, int], tuple[str, tuple[str, ...], str]] = {}
    for one in sources:
        # Not str.splitlines: it also splits at U+2028 and U+0085, which JSON strings may hold.
        for number, line in enumerate(_bytes(one.file).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            if not line.strip():
                continue
            where = f"{one.file}, line {number}"
            row = _row(line, where)
            if one.run:
                row = replace(row, arm=f"{row.arm} ({one.run})")
            key = (row.dataset, row.corpus, row.question, row.arm, row.budget)
            if key in found:
                raise DataError(
                    f"{where}: {said[key]} has a row of the same question, arm ({row.arm}) and budget ({row.budget}); "
                    "give runs names to compare them: before=FILE after=FILE"
                )
            query, gold, first = asked.setdefault(key[:3], (row.query, row.gold, where))
            if (query, gold) != (row.query, row.gold):
                what = "asks something else" if query != row.query else "looks for other evidence"
                raise DataError(
                    f"{where}: question {row.question} of {row.corpus} {what} than in {first}; what was asked "
                    "otherwise is reported by itself"
                )
            found[key], said[key] = row, where
    if not found:
        raise DataError(f"no rows in {', '.join(str(one.file) for one in sources)}")
    return list(found.values())


def contribution(file: Path) -> Contribution:
    """The last line of what `contribution` printed. Raises DataError."""
    lines = _bytes(file).strip().split(b"\n")
    try:
        figures = _CONTRIBUTION.validate_json(lines[-1])
    except ValidationError as error:
        raise DataError(f"{file}: not what `python -m benchmarks contribution --json` prints: {_why(error)}") from None
    names = figures.shapley.keys()
    for by_backend in (figures.alone, figures.leave_one_out, figures.saves_ms):
        if by_backend.keys() != names or not names:
            raise DataError(f"{file}: its figures are not of the same backends")
    return figures


def _row(line: bytes, where: str) -> Row:
    try:
        orjson.loads(line)  # it refuses NaN and lone surrogates, which no page could show
        row = _ROW.validate_json(line, strict=True)
    except orjson.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
    except ValidationError as error:
        raise DataError(f"{where}: {_why(error)}") from None
    if row.budget < 1:
        raise DataError(f"{where}: 'budget' must be 1 or more characters")
    for name, amount in (("took_ms", row.took_ms), ("cpu_ms", row.cpu_ms)):
        if not (isfinite(amount) and amount >= 0):
            raise DataError(f"{where}: {name!r} must be 0 or more milliseconds")
    if row.eib is not None and not 0 <= row.eib <= 1:
        raise DataError(f"{where}: 'eib' must be a share of 0 to 1, or null")
    if row.eib is not None and len(row.found) != len(row.gold):
        raise DataError(f"{where}: 'found' has {len(row.found)} entries for {len(row.gold)} in 'gold'")
    return row


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place!r}: {first['msg']}" if place else first["msg"]
