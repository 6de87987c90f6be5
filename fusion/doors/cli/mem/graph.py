"""The graph: the commands of `fusion mem graph`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.mem import fact_review
from fusion.doors.cli.mem.facts import app as facts
from fusion.doors.cli.options import AllUsers

if TYPE_CHECKING:
    from fusion import wire

app = typer.Typer(
    help="Facts with their validity, and the graph of memories.", no_args_is_help=True, add_completion=False
)
for name, reviewing in fact_review.COMMANDS.items():
    facts.command(name)(reviewing)
app.add_typer(facts, name="fact")
cards = typer.Typer(
    help="Compiled, cited summaries of subjects, which packs show first.", no_args_is_help=True, add_completion=False
)
app.add_typer(cards, name="card")

Subject = Annotated[str, typer.Argument(help="What the card is about: api-gateway.")]

Entity = Annotated[str, typer.Argument(help="The name of an entity: 'Postgres 16'.")]
Depth = Annotated[int, typer.Option(help="Edges from the entity at most, 1 to 3.")]


@command()
async def neighbors(
    *,
    entity: Entity,
    depth: Depth = 1,
    limit: Annotated[int, typer.Option(help="The most entities.")] = 20,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """List the entities around one, each with its path."""
    async with target.client() as client:
        found = await client.graph_neighbors(entity, depth=depth, limit=limit, all_users=all_users, **owner.ids())
    target.show(found, _lines(found["found"], f"the graph has no edge at {entity!r}"))


@command()
async def impact(
    *,
    entity: Entity,
    depth: Depth = 1,
    limit: Annotated[int, typer.Option(help="The most entities.")] = 20,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """List what uses an entity or is blocked by it, directly or over others."""
    from fusion.doors.compat.openclaw_mem import graph

    async with target.client() as client:
        found = await client.graph_impact(entity, depth=depth, limit=limit, all_users=all_users, **owner.ids())
    shown = {**found, **graph.impact(entity, found["found"])}
    target.show(shown, _lines(found["found"], f"nothing is known to depend on {entity!r}"))


@command()
async def path(
    *,
    entity: Annotated[str, typer.Argument(help="Where the path begins.")],
    to: Annotated[str, typer.Argument(help="Where it ends.")],
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Show the shortest way from one entity to another."""
    async with target.client() as client:
        found = await client.graph_path(entity, to, all_users=all_users, **owner.ids())
    way = found["way"]
    target.show(found, _lines([way] if way else [], f"no path leads from {entity!r} to {to!r}"))


@command()
async def match(
    *,
    idea: Annotated[str, typer.Argument(help="What you think of doing.")],
    limit: Annotated[int, typer.Option(help="The most projects.")] = 5,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Recommend the projects that an idea fits, each with the path that leads to it."""
    async with target.client() as client:
        found = await client.graph_match(idea, limit=limit, all_users=all_users, **owner.ids())
    named = ", ".join(found["entities"]) or "nothing that the graph knows"
    target.show(found, _lines(found["projects"], f"no project; the idea names {named}"))


@command()
async def show(*, subject: Subject, owner: Owner, target: Target) -> None:
    """Show the card of a subject; a stale one only with the reasons."""
    async with target.client() as client:
        found = await client.card(subject, **owner.ids())
    target.show(found, _card(found))


@command()
async def refresh(*, subject: Subject, owner: Owner, target: Target) -> None:
    """Compile the card of a subject from what holds now."""
    async with target.client() as client:
        found = await client.refresh_card(subject, **owner.ids())
    target.show(found, _card(found))


@command()
async def lint(*, owner: Owner, target: Target) -> None:
    """List stale cards with the reasons. Exit code 1 if there are some."""
    async with target.client() as client:
        found = await client.lint_cards(**owner.ids())
    rows = [f"stale  {one['subject']}  {'; '.join(one['reasons'])}" for one in found["stale"]]
    target.show(found, "\n".join([f"{found['cards']:,} cards, {len(rows):,} stale", *rows]))
    if not found["ok"]:
        raise typer.Exit(1)


@command()
async def export(
    *,
    folder: Annotated[Path, typer.Argument(help="Where the pages go: a new folder, or one of an earlier export.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only name the pages.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Write the facts as pages of Markdown, one for each subject, with an index.

    Pages of an earlier export that are not needed any more are deleted; a folder with anything else is refused.
    """
    from fusion.doors.cli.mem.graph_folder import write_pages

    async with target.client() as client:
        pages = (await client.graph_pages(**owner.ids()))["pages"]
    report = write_pages(folder, pages, dry_run=dry_run)
    verb = "would be written" if dry_run else "written"
    gone = "".join(f"\ndeleted: {name}" for name in report["deleted"])
    target.show(report, f"{len(report['written']):,} pages {verb} to {report['folder']}{gone}")


def _card(found: wire.SynthesisCard) -> str:
    made = f"made {found['made_at'][:10]} by {found['method']}"
    head = f"{found['subject']}  {'fresh' if found['fresh'] else 'stale'}  {made}"
    lines = [f"- {one['text']} [{', '.join(one['refs'])}]" for one in found["lines"]]
    return "\n".join([head, *lines, *found["reasons"]])


def _lines(found: Sequence[wire.GraphEntity], otherwise: str) -> str:
    rows = [
        f"{one['score']:.2f}  {one['kind']}  {one['name']}  {one['path']}  [{', '.join(one['refs'])}]" for one in found
    ]
    return "\n".join(rows or [otherwise])


for function in (neighbors, impact, path, match, export):
    app.command(function.__name__)(function)
for function in (show, refresh, lint):
    cards.command(function.__name__)(function)
