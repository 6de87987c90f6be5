"""`fusion export` and `fusion import`: the memories of a home as one file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import home_of
from fusion.doors.cli.options import User
from fusion.errors import BadInput, NotFound

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

BLOCK_BYTES = 1 << 18
TrustChoice = Literal["auto", "keep", "unknown", "untrusted"]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant. Default: all.")]


@command()
async def export(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="A new file; compressed if it ends with .gz. Default: stdout.")
    ] = None,
    tenant: Tenant = None,
    user: User = None,
    target: Target,
) -> None:
    """Write all memories of a home to one file.

    With earlier versions, decisions and feedback. What was forgotten is in it as hashes only.
    The home may be served meanwhile.
    """
    to_stdout = file is None or str(file) == "-"
    if to_stdout and (target.as_json or sys.stdout.isatty()):
        raise BadInput("name a file: fusion export memories.jsonl.gz; or pipe the lines into another program")
    async with target.client() as client:
        if to_stdout:
            await _export(client, sys.stdout.buffer, tenant, user, quiet=True)
            return
        assert file is not None  # noqa: S101 — it would go to stdout
        with _new_file(file) as opened:
            lines = await _export(client, opened, tenant, user, quiet=target.as_json)
    size = file.stat().st_size
    result = {"file": str(file), "lines": lines, "bytes": size}
    target.show(result, f"{lines:,} lines in {file}, {size / 1e6:.1f} MB. To read it in: fusion import {file}")


async def _export(client: AsyncClient, file: BinaryIO, tenant: str | None, user: str | None, *, quiet: bool) -> int:
    """Write an export; returns the number of its lines."""
    from fusion.doors.cli.progress import bars

    lines = 0
    with bars(quiet) as shown:
        bar = shown.add_task("exporting", total=None)
        async for piece in client.export(tenant=tenant, user_id=user):
            file.write(piece)
            lines += piece.count(b"\n")
            shown.update(bar, completed=lines)
    file.flush()
    return lines


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A private file that gets its name when it is complete. Raises BadInput if there is one of that name."""
    import gzip
    import tempfile

    if path.suffix == ".zst":
        raise BadInput(f"{path}: this writes .gz: fusion export {path.with_suffix('.gz')}")
    if path.exists():
        raise BadInput(f"{path} is there already: name a new file, or remove it")
    if not path.absolute().parent.is_dir():
        raise NotFound(f"there is no folder {path.absolute().parent}")
    descriptor, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name[:40]}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as plain:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield plain
            plain.flush()
            os.fsync(plain.fileno())
        os.link(temporary, path)
    except FileExistsError:
        raise BadInput(f"{path} is there already: name a new file, or remove it") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


@command()
async def import_(
    *,
    source: Annotated[
        Path, typer.Argument(help="An export, also compressed; - is stdin; or the folder of another home.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what it would do; change nothing.")] = False,
    trust: Annotated[
        TrustChoice,
        typer.Option(help="keep: it is your own, with its trust and sources. auto: keep if it came from this home."),
    ] = "auto",
    partial: Annotated[bool, typer.Option("--partial", help="Also what is left of a damaged export.")] = False,
    tenant: Tenant = None,
    refs: Annotated[Path | None, typer.Option(help="Write the refs that change to this new file.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    target: Target,
) -> None:
    """Read an export in, or merge another home into this one.

    Shows what it would do, and asks. What either home forgot stays forgotten.
    Importing twice is the same as once: run it again after an interruption.
    """
    from fusion.doors.cli import render
    from fusion.doors.cli.confirm import confirm, require_answer

    if not dry_run:
        require_answer(yes=yes, as_json=target.as_json)
    if refs is not None and refs.exists():
        raise BadInput(f"{refs} is there already: name a new file, or remove it")
    chosen: dict[str, Any] = {"trust": trust, "partial": partial, "tenant": tenant}
    with _opened(source, target) as file:
        async with target.client() as client:
            if dry_run or not yes:
                found, _ = await _import(client, file, quiet=target.as_json, dry_run=True, **chosen)
                if dry_run:
                    target.show(cast(dict[str, Any], found), lambda _: render.imported(found))
                    return
                render.imported(found)
                confirm("Import it like this?")
            done, moved = await _import(client, file, quiet=target.as_json, refs=refs is not None, **chosen)
    if refs is not None:
        with _new_file(refs) as opened:
            opened.write("".join(f"{line}\n" for line in moved).encode())
    target.show(cast(dict[str, Any], done), lambda _: render.imported(done))


async def _import(
    client: AsyncClient, file: BinaryIO, *, quiet: bool, **chosen: Any
) -> tuple[wire.ImportReport, list[str]]:
    """Send an export; returns the report, and a line of JSON for each memory with another ref."""
    from fusion.client import calls
    from fusion.doors.cli.progress import bars

    moved: list[str] = []
    report: Any = None
    with bars(quiet) as shown:
        bar = shown.add_task("checking" if chosen.get("dry_run") else "importing", total=None)
        async for part in client.stream(cast(Any, calls.import_export(_pieces_of(file), **chosen))):
            if "line" in part:
                moved.append(part["line"])
            elif "progress" in part:
                shown.update(bar, completed=part["progress"]["done"], total=part["progress"]["total"])
            else:
                report = part["result"]
    return report, moved


def _pieces_of(file: BinaryIO) -> Callable[[], Iterable[bytes]]:
    def pieces() -> Iterator[bytes]:
        file.seek(0)
        while piece := file.read(BLOCK_BYTES):
            yield piece

    return pieces


@contextmanager
def _opened(source: Path, target: Target) -> Iterator[BinaryIO]:
    """The lines of an export, unpacked, in a file that can be read twice. Raises NotFound and BadInput."""
    import tempfile

    if str(source) != "-" and not source.exists():
        raise NotFound(f"there is no file or home {source}")
    if source.is_file() and not _is_packed(source):
        with source.open("rb") as plain:
            _refuse_others(plain)
            yield plain
        return
    with tempfile.TemporaryFile(prefix="memory-fusion-") as file:
        if source.is_dir():
            _export_home(source, target, file)
        else:
            with sys.stdin.buffer if str(source) == "-" else source.open("rb") as packed:
                _unpack(packed, file)
        _refuse_others(file)
        yield file


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP


_GZIP = b"\x1f\x8b"


def _unpack(packed: BinaryIO, file: BinaryIO) -> None:
    """Copy an export that may be compressed."""
    import gzip
    import tempfile

    first = packed.read(BLOCK_BYTES)
    if first.startswith(_GZIP):
        with tempfile.TemporaryFile(prefix="memory-fusion-") as copy:
            _copy(packed, copy, first)
            copy.seek(0)
            try:
                with gzip.GzipFile(fileobj=copy) as unpacked:
                    _copy(cast(BinaryIO, unpacked), file)
            except (OSError, EOFError) as error:
                raise BadInput(f"it cannot be unpacked ({error}): get the export again") from None
    else:
        _copy(packed, file, first)


def _copy(source: BinaryIO, file: BinaryIO, first: bytes = b"") -> None:
    file.write(first)
    while block := source.read(BLOCK_BYTES):
        file.write(block)


def _refuse_others(file: BinaryIO) -> None:
    """Raises BadInput for a file that is not an export, before it is sent."""
    from fusion.journal.export_format import MAX_LINE_BYTES, header_of

    file.seek(0)
    header_of(file.readline(MAX_LINE_BYTES))


def _export_home(home: Path, target: Target, file: BinaryIO) -> None:
    """Write the export of another home. It needs no `fusion allow`: only its journals are read, as any export.

    Raises HomeNotAllowed for links in it, NotFound, StoreDamaged, and BadInput for this home.
    """
    from fusion.gateway.transfer import export_closed_home
    from fusion.home import refuse_links

    folder = home.resolve()
    if folder == home_of(target.home, target.config).resolve():
        raise BadInput(f"{home} is the home to import into: name another with --home, or another to import")
    refuse_links(folder)
    export_closed_home(folder, file)
