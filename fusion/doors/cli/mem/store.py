"""Store: `fusion mem store` keeps one memory; `fusion mem export` and `fusion mem capsule` write records to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import fail
from fusion.doors.cli.mem.rows import ledger_of
from fusion.doors.cli.options import Project
from fusion.errors import BadInput

Category = Literal["fact", "preference", "decision", "entity", "task", "other"]


@command()
async def store(
    *,
    text: Annotated[str, typer.Argument(help="What to remember: a sentence that can be understood alone.")],
    category: Annotated[Category, typer.Option(help="What sort of thing it is.")] = "fact",
    importance: Annotated[float, typer.Option(min=0, max=1, help="How important it is.")] = 0.7,
    text_en: Annotated[str | None, typer.Option(help="The same in English; kept and shown, not searched.")] = None,
    lang: Annotated[str | None, typer.Option(help="The language of the text: ko, ja, es.")] = None,
    no_file_write: Annotated[
        bool, typer.Option("--no-file-write", help="As openclaw-mem has it; no file is written in any case.")
    ] = False,
    project: Project = None,
    owner: Owner,
    target: Target,
) -> None:
    """Keep one memory."""
    from fusion.doors.compat.openclaw_mem.ledger import Stored

    if not text.strip():
        fail(BadInput("text: it is empty; say what to remember"), target.as_json)  # 1, as openclaw-mem ends
    memory = Stored(text, category, importance, text_en, lang)
    async with target.client() as client:
        kept = await ledger_of(client, {**owner.ids(), "project": project}).store(memory)
    target.show(kept, f"{kept['recordRef']} {kept['status']}" if kept["ok"] else f"not kept: {kept['reason']}")


@command()
async def export(
    *,
    to: Annotated[Path, typer.Option(help="The Markdown file to write.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The most records, the latest first.")] = 50,
    include_detail: Annotated[bool, typer.Option("--include-detail", help="With what else is known of each.")] = False,
    ids: Annotated[list[str] | None, typer.Option(help="Only these records: 63, m1z. Several may follow.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Replace a file that is there.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Write the latest records to a Markdown file, one line each."""
    if to.exists() and not yes:
        raise BadInput(f"{to} is there already; --yes replaces it")
    async with target.client() as client:
        ledger = ledger_of(client, owner.ids())
        rows = (await ledger.get(ids))[:limit] if ids else await ledger.newest(limit)
    lines = [_line(row["recordRef"], row["ts"], row["kind"], row["summary"]) for row in rows]
    details = [f"  - `{row['detail_json']}`" if include_detail else "" for row in rows]
    text = "".join(f"{one}\n{more}\n" if more else f"{one}\n" for one, more in zip(lines, details, strict=True))
    try:
        to.write_text(f"# Memories\n\n{text}", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--to: {to} cannot be written: {error.strerror}") from None
    found = {"ok": True, "exported": len(rows), "to": str(to), "include_detail": include_detail}
    target.show(found, f"{len(rows)} records in {to}")


capsule = typer.Typer(help="Canonical exports of openclaw-mem.", no_args_is_help=True)


@capsule.command("export-canonical")
@command()
async def export_canonical(
    *,
    to: Annotated[Path, typer.Option(help="The folder to write into.")] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the manifest.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Write the current records, an index and a manifest with their hashes into a new folder."""
    async with target.client() as client:
        ledger = ledger_of(client, owner.ids())
        found = await (ledger.plan_export() if dry_run else ledger.export(to))
    count = found["manifest"]["source"]["observations_count"]
    target.show(found, f"{count} records {'would be' if dry_run else 'are'} in {to / found['planned_output']}")


def _line(ref: str, at: str | None, kind: str, text: str) -> str:
    return f"- [{ref}] {(at or '')[:10]} {kind}: {' '.join(text.split())}"
