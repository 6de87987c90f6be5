"""`fusion migrate`: the journals of a home move between SQLite and PostgreSQL, or their schemas to this version's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import existing
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion.gateway.migrate import Migrated, Move, Report
    from fusion.settings import Settings
    from fusion.store.postgres import Server

VARIABLE = "FUSION_DATABASE_URL"
"""the variable that the settings name for a URL with a password, unless another one is named"""
GIVEN = "FUSION_DATABASE__URL"
"""the variable that is the setting itself"""
POSTGRESQL = ("postgresql", "postgres")


@command(without=["direct"])
def migrate(
    *,
    to: Annotated[
        str, typer.Option(help="postgresql://user@host:5432/name, or sqlite.", metavar="DATABASE", show_default=False)
    ] = "",
    schema: Annotated[
        bool, typer.Option("--schema", help="Bring all tenants' tables in PostgreSQL to this version's.")
    ] = False,
    url_env: Annotated[
        str | None, typer.Option("--url-env", help="The environment variable that has the URL.", metavar="NAME")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check both sides and count; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    target: Target,
) -> None:
    """Move a home's journals to PostgreSQL, or back to SQLite.

    All tenants, with their receipts. The home may be served while the tables are copied; for the last step its server
    is stopped. Every table's checksum is compared before the setting is switched.
    Run it again after an interruption.

    With --schema nothing moves: the tables of a home in PostgreSQL get what this version adds. A gateway does so too
    when it opens a tenant. Requests of a tenant wait while its steps are made, also when they are only tried.
    """
    from fusion.client import stop_server
    from fusion.doors.cli import render
    from fusion.doors.cli.confirm import confirm, require_answer
    from fusion.gateway.migrate import Move, as_json
    from fusion.settings import load

    if bool(to) == schema:
        raise BadInput("where to? --to postgresql://user@host:5432/name, or --to sqlite; or --schema, to move nothing")
    if not dry_run:
        require_answer(yes=yes, as_json=target.as_json)
    home = existing(target.home, target.config)
    settings = load(target.config, home=home).model_copy(update={"home": home})
    if schema:
        _update_schemas(settings, target, dry_run=dry_run, yes=yes)
        return
    url, setting, notes = _chosen(to, url_env, settings)
    file = target.config or home / "fusion.toml"
    move = Move(settings, file, setting, stop=lambda: stop_server(home), notes=notes)
    with _server(url) as server:
        if dry_run or not yes:
            planned = _run(to, move, server, dry_run=True)
            if dry_run:
                target.show(as_json(planned), lambda _: render.migrated(planned))
                return
            render.migrated(planned)
            confirm("Move them? The server of this home is stopped for the last step.")
            total = planned.rows
        else:
            total = 0
        with _progress(total, quiet=target.as_json) as report:
            done = _run(to, move.with_report(report), server, dry_run=False)
    target.show(as_json(done), lambda _: render.migrated(done))


def _update_schemas(settings: Settings, target: Target, *, dry_run: bool, yes: bool) -> None:
    """Migrate the schemas of a home's database, after a trial and a question."""
    from fusion.doors.cli import render
    from fusion.doors.cli.confirm import confirm
    from fusion.gateway.schema_update import as_json, update_schemas

    if not settings.database.in_use:
        raise BadInput(
            "the journals of this home are in SQLite: each gets what this version adds when it is opened. A backup "
            "before that: fusion backup"
        )
    with _server(settings.database.resolved()) as server:
        done = asyncio.run(update_schemas(server, dry_run=dry_run or not yes))
        if done.dry_run and not dry_run and done.due:
            render.schemas(done)
            confirm("Migrate them? Requests of a tenant wait while its tables are changed.")
            done = asyncio.run(update_schemas(server, dry_run=False))
    done = replace(done, dry_run=dry_run)
    target.show(as_json(done), lambda _: render.schemas(done))
    if done.failed:
        raise typer.Exit(1)


def _chosen(to: str, url_env: str | None, settings: Settings) -> tuple[str, Mapping[str, str], tuple[str, ...]]:
    """The URL of the database, the setting that a move ends with, and what its owner has to know of it."""
    from fusion.trust.reach import without_password

    known = settings.database
    if to == "sqlite":
        if not known.in_use:
            raise BadInput("the journals of this home are in SQLite already: its settings have no [database] url")
        notes = (f"Take {GIVEN} out of the environment.",) if GIVEN in os.environ else ()
        return known.resolved(), {"url": "", "url_env": ""}, notes
    if to.partition("://")[0] not in POSTGRESQL:
        raise BadInput(f"--to {without_password(to)}: write postgresql://user@host:5432/name, or sqlite")
    if url_env is not None:
        if "://" in to:
            raise BadInput("--url-env names the variable that has the URL: with it, write --to postgresql")
        if not (url := os.environ.get(url_env, "")):
            raise BadInput(f"the environment has no {url_env}, which --url-env names")
        return url, {"url": "", "url_env": url_env}, (f"Every gateway needs {url_env} in its environment.",)
    if "://" not in to:
        if not known.in_use:
            raise BadInput("which database? --to postgresql://user@host:5432/name, or --url-env NAME")
        setting = {"url": "", "url_env": GIVEN} if GIVEN in os.environ else {}
        return known.resolved(), setting, ()
    if without_password(to) == to:
        return to, {"url": to, "url_env": ""}, ()
    note = f"The URL has a password, so no file has it: set {VARIABLE} to it in the environment of every gateway."
    return to, {"url": "", "url_env": VARIABLE}, (note,)


@contextmanager
def _server(url: str) -> Iterator[Server]:
    """The database. Raises PackageMissing, SettingsError, Unauthorized and BackendUnreachable."""
    from fusion.gateway.open_journal import connected

    server = connected(url)
    try:
        yield server
    finally:
        server.close()


def _run(to: str, move: Move, server: Server, *, dry_run: bool) -> Migrated:
    from fusion.gateway.migrate import to_postgresql, to_sqlite

    return (to_sqlite if to == "sqlite" else to_postgresql)(move, server, dry_run=dry_run)


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Report]:
    """Shows how many rows were copied; the number to come is not known without a preview."""
    from fusion.doors.cli.progress import bar

    with bar("copying rows", total, quiet=quiet or not total, transient=True) as advance:
        yield lambda step, rows: advance(rows)
