"""Look: what is remembered, what was forgotten, and how the backends are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import refs_of
from fusion.doors.cli.options import Cursor, PageSize, User
from fusion.lib.ids import EPISODE
from fusion.lib.temporal_facts import FACT

if TYPE_CHECKING:
    from fusion import wire


@command()
async def memories(
    *,
    owner: Owner,
    document: Annotated[str | None, typer.Option(help="Only memories of this conversation or file.")] = None,
    source: Annotated[str | None, typer.Option(help="Only memories with this source.")] = None,
    find: Annotated[str | None, typer.Option(help="Only memories with all of these words or parts of words.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="rule, procedure, fact, episode, preference, decision, plan, note, turn.")
    ] = None,
    trust: Annotated[str | None, typer.Option(help="trusted, unknown, untrusted, quarantined.")] = None,
    origin: Annotated[str | None, typer.Option(help="owner, agent, tool, import, system.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="current, archived, superseded, retired, expired, decayed, lost, merged, quarantined, all; "
            "by default what nothing replaced."
        ),
    ] = None,
    in_project: Annotated[str | None, typer.Option(help="Only memories of this project.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only memories with this tag.")] = None,
    after: Annotated[str | None, typer.Option(help="Happened, else recorded, not before this: 2026-01-31.")] = None,
    before: Annotated[str | None, typer.Option(help="… before this: 2026-01-31; a date is its beginning, UTC.")] = None,
    min_importance: Annotated[
        float | None, typer.Option(min=0, max=1, help="Only memories with this importance at least.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="Only memories that this backend has.")] = None,
    order: Annotated[
        Literal["recorded", "newest", "oldest", "importance"],
        typer.Option(help="The latest recorded first; newest and oldest go by the time at which they happened."),
    ] = "recorded",
    limit: PageSize = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """List memories, newest first.

    Every filter that is given must fit.
    """
    chosen: dict[str, Any] = {
        **owner.ids(),
        "document": document,
        "source": source,
        "q": find,
        "kind": kind,
        "trust": trust,
    }
    chosen |= {"origin": origin, "state": state, "in_project": in_project, "tag": tag, "after": after}
    chosen |= {"before": before, "min_importance": min_importance, "backend": backend, "order": order}
    async with target.client() as client:
        page = await client.memories(limit=limit, cursor=cursor, **chosen)
    from fusion.doors.cli import render

    target.show(page, render.memories)


@command()
async def get(
    *,
    ref: Annotated[
        str,
        typer.Argument(
            help="The ref of a memory, as a block cites it: m1z; of an episode: ep:3; of a fact: fact:0f3a."
        ),
    ],
    versions: Annotated[int, typer.Option(min=0, help="Also so many earlier versions of its file, from git.")] = 0,
    owner: Owner,
    target: Target,
) -> None:
    """Show one memory, episode or fact in full.

    Its text, its place in a file or conversation, its owner, and the backends that hold it. Of a fact what holds of it,
    the memory that asserts it, and how it came about.
    """
    from fusion.doors.cli import render

    one = "".join(refs_of([ref]))
    async with target.client() as client:
        if one.startswith(EPISODE):
            target.show(await client.episode(one, **owner.ids()), render.episode)
        elif one.startswith(FACT):
            from fusion.doors.cli.mem.facts import in_full

            timeline = await client.fact_timeline(fact=one, **owner.ids())
            fact = next(fact for fact in timeline["facts"] if fact["id"] == one)
            target.show(fact, in_full(fact, timeline["facts"]))
        elif not versions:
            target.show(await client.memory(one, **owner.ids()), render.memory)
        else:
            found = await client.memory(one, **owner.ids())
            earlier: Sequence[wire.DocumentVersion] = ()
            if name := found["document"]:
                asked = client.document(name, start=1, lines=1, summaries=None, versions=versions, **owner.ids())
                earlier = (await asked).get("versions", ())
            target.show({**found, "versions": earlier}, render.with_versions)


@command()
async def decisions(
    *,
    ref: Annotated[str | None, typer.Argument(help="Only decisions on this memory: m1z.")] = None,
    owner: Owner,
    limit: PageSize = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """List what was decided about memories, and why.

    What was merged, ended, archived or changed by hand. `fusion undo ID` takes a decision back.
    """
    one = None if ref is None else "".join(refs_of([ref]))
    async with target.client() as client:
        page = await client.decisions(ref=one, limit=limit, cursor=cursor, **owner.ids())
    from fusion.doors.cli import render

    target.show(page, render.decisions)


@command()
async def forgotten(*, limit: PageSize = 20, cursor: Cursor = None, user: User = None, target: Target) -> None:
    """List what was forgotten, and whether each backend deleted it.

    Shows refs only: the texts are gone.
    """
    async with target.client() as client:
        page = await client.forgotten(limit=limit, cursor=cursor, user_id=user)
    from fusion.doors.cli import render

    target.show(page, render.audit)


@command()
async def status(
    *,
    layers: Annotated[
        bool, typer.Option("--layers", help="Show the layers of memory instead, for each agent, with their last runs.")
    ] = False,
    growth: Annotated[
        int | None, typer.Option(min=1, max=400, metavar="DAYS", help="Show how it grew on the last days instead.")
    ] = None,
    user: User = None,
    target: Target,
) -> None:
    """Show the state of a home: backends, queues, sizes.

    --growth shows what came in on each day, and the bytes of the stores on the days on which the home was open.
    """
    if growth is not None:
        if layers:
            raise typer.BadParameter("give --growth or --layers, not both")
        from fusion.doors.cli import render

        async with target.client() as client:
            target.show(await client.activity(days=growth, user_id=user), render.growth)
        return
    async with target.client() as client:
        found = await client.status(user_id=user)
        jobs = (await client.jobs())["jobs"] if layers else []
    from fusion.doors.cli import render

    if layers:
        import socket

        from fusion.doors.cli.layers import Known, agents_with_sessions, board

        chosen = target.settings()
        folder = chosen.workspace.folder
        with_sessions = agents_with_sessions(chosen.sessions.paths)
        known = Known(chosen.workspace.agent_id, "" if folder is None else str(folder), with_sessions)
        target.show(board(found, jobs, socket.gethostname(), known), render.layers)
        return
    from fusion.home import read_record
    from fusion.trust.survey import repository_of

    folder = target.folder()
    record = None if target.direct else read_record(folder)
    target.show(found, lambda answer: render.status(answer, folder, record.url if record else None))
    if not target.as_json and (repository := repository_of(folder / "fusion.toml")):
        print(f"\nIts fusion.toml is under version control in {repository}: a pull that changes it asks again.")


@command()
async def backends(*, target: Target) -> None:
    """Show whether each backend works, and how much it holds."""
    async with target.client() as client:
        found = await client.backends()
    from fusion.doors.cli import render

    target.show(found, render.backends)
