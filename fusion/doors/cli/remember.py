"""Remember: memories are stored, read in from files, forgotten and taken back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import existing, print_json, refs_of, require_words, say
from fusion.doors.cli.options import AllUsers
from fusion.doors.cli.plural import counted, plural
from fusion.doors.cli.usage import report
from fusion.errors import NotFound, ServerUnreachable

if TYPE_CHECKING:
    from fusion.contract import Scope
    from fusion.doors.cli.ingest import Tally
    from fusion.sources.files import Limits

RUN_AGAIN = "What was acknowledged is kept. Run the same command again to go on"


@command()
async def remember(
    *,
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="The text to remember; quotes are not needed.")],
    kind: Annotated[
        str, typer.Option(help="rule, procedure, fact, episode, preference, decision, plan, note, turn.")
    ] = "note",
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", "--from", help="When it happened, or began: 2026-01-31, or 2026-01-31T15:00."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="When it ended, that day included.")] = None,
    entities: Annotated[
        list[str] | None, typer.Option("--with", help="Who or what an episode involves. Repeatable.")
    ] = None,
    valid_to: Annotated[str | None, typer.Option(help="It is true until then: 2026-01-31.")] = None,
    lifetime: Annotated[str | None, typer.Option(help="permanent, project, session, ttl.")] = None,
    ttl_seconds: Annotated[float | None, typer.Option(help="It ends that long after now.")] = None,
    confidence: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    importance: Annotated[str | None, typer.Option(help="0 to 1, 86%, must_remember, nice_to_have, ignore.")] = None,
    provenance: Annotated[str | None, typer.Option(help="Where it comes from: https://…, path#L3, path#name.")] = None,
    priority: Annotated[str | None, typer.Option(help="P0 is kept unused, P1 for months, P2 for weeks.")] = None,
    due: Annotated[str | None, typer.Option(help="When a plan is due: 2026-03, 2026-03-31.")] = None,
    trust: Annotated[str | None, typer.Option(help="trusted, unknown, untrusted, quarantined.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that it belongs to.")] = None,
    supersedes: Annotated[str | None, typer.Option(help="Ref of the memory that this one replaces.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Store one memory in all backends."""
    require_words(text, "fusion remember The staging database moved to port 5433.")
    given: dict[str, Any] = {
        "text": " ".join(text),
        "kind": kind,
        "speaker": speaker,
        "at": at,
        "supersedes": supersedes,
        "valid_to": valid_to,
        "lifetime": lifetime,
        "ttl_seconds": ttl_seconds,
        "confidence": confidence,
        "importance": importance,
        "provenance": provenance,
        "priority": priority,
        "due": due,
        "trust": trust,
        "project": project,
    }
    given |= {"until": until, "entities": entities or None, "tags": tag or None} | owner.ids()
    async with target.client() as client:
        kept = await client.remember({name: value for name, value in given.items() if value is not None})
    memory = kept["memories"][0]
    replaced = f"it replaces {memory['supersedes']}" if memory.get("supersedes") else ""
    remarks = "; ".join(filter(None, (replaced, memory["reason"])))
    target.show(kept, f"{memory['ref']}  {memory['status']}{': ' if remarks else ''}{remarks}")


@command()
async def update(
    *,
    ref: Annotated[str, typer.Argument(help="The memory's ref, as a block cites it: m1z.")],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="What it says now; quotes are not needed.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="rule, procedure, fact, episode, preference, decision, plan, note, turn.")
    ] = None,
    valid_from: Annotated[str | None, typer.Option(help="It is true from then on: 2026-01-31.")] = None,
    valid_to: Annotated[str | None, typer.Option(help="It is true until then: 2026-01-31.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Replace a memory by a new version.

    What you do not name stays as it is. The earlier version is kept, and `fusion undo` makes it current again.
    """
    said = {"kind": kind, "valid_from": valid_from, "valid_to": valid_to}
    (name,) = refs_of([ref])
    async with target.client() as client:
        done = await client.update(name, " ".join(text) if text else None, **said, **owner.ids())
    replaced = f"it replaces {done['supersedes']}" if done["supersedes"] else ""
    remarks = "; ".join(filter(None, (replaced, done["reason"])))
    line = f"{done['ref']}  {done['status']}{': ' if remarks else ''}{remarks}".strip()
    if done["batch"] is not None:
        where = f" --home {shlex.quote(str(target.home))}" if target.home is not None else ""
        line += f"\nTo take this back: fusion undo {done['batch']}{where}"
    target.show(done, line)


@command()
async def ingest(
    *,
    paths: Annotated[
        list[Path], typer.Argument(help="Folders or files: Markdown, JSONL, sessions of Claude Code and OpenClaw.")
    ],
    owner: Owner,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count; store nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep following the files until Ctrl-C.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until every backend has all of it, with vectors.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even for a large amount.")] = False,
    target: Target,
) -> None:
    """Read in files and folders: notes, sessions, JSONL.

    Safe to run again: what is already stored is skipped. Exit code 1 if lines were rejected; the others are stored.
    """
    if watch and dry_run:
        raise typer.BadParameter("--watch stores what changes; leave out --dry-run")

    from fusion.client import AsyncClient
    from fusion.contract import Scope
    from fusion.doors.cli import ingest_preview, render
    from fusion.doors.cli.ingest import ingest as read_and_send
    from fusion.sources.files import NO_SUCH_FILE, NOT_TAKEN, Limits

    scope = Scope(user_id=owner.user, agent_id=owner.agent, session_id=owner.session)
    home = existing(target.home, target.config)
    settings = target.settings()
    limits = Limits.of(settings.ingest, settings.sessions)
    if not dry_run:
        found = ingest_preview.bulk_of(paths, scope, home, limits)
        ingest_preview.ask(found, settings.ingest, yes=yes, as_json=target.as_json)
    if watch:
        await follow(paths, scope, target, limits, wait=wait)
        return
    try:
        summary = await read_and_send(
            paths,
            scope,
            None if dry_run else target.client(),
            wait=wait,
            quiet=target.as_json,
            home=None if dry_run else home,
            looking=AsyncClient.of_home(home, config=target.config, start=False) if dry_run else None,
            limits=limits,
            interrupted=say_interrupted,
        )
    except ServerUnreachable as error:
        raise ServerUnreachable(f"{error}. {RUN_AGAIN}") from error
    unread = next((row for row in summary["skipped"] if row["reason"] in (NO_SUCH_FILE, NOT_TAKEN)), None)
    if target.as_json:
        print_json(summary)
    else:  # the error below reports that file
        render.ingested({**summary, "skipped": [row for row in summary["skipped"] if row is not unread]})
    if unread is not None:
        more = f" and {unread['count'] - 1} more" if unread["count"] > 1 else ""
        raise NotFound(f"{unread['reason']}: {unread['first']}{more}")
    if not target.as_json and summary["batch"] is not None:
        where = f" --home {shlex.quote(str(target.home))}" if target.home is not None else ""
        print(f"To take this back: fusion undo {summary['batch']}{where}")
    if not target.as_json and not (summary["read"] or summary["skipped"] or summary["retired"]):
        print(f"No Markdown or JSONL with a memory in it: {', '.join(map(str, paths))}")
    if summary["rejected"]:
        raise typer.Exit(1)


def say_interrupted(tally: Tally) -> None:
    """Says after a Ctrl-C what is kept, and how to go on or to take it back."""
    kept = f"{counted(tally.added, 'memory')} {plural(tally.added, 'is')} new and kept"
    back = f"; this takes them back: fusion undo {tally.batch}" if tally.added else ""
    say(f"Stopped: {kept}. To go on, run the same command again{back}")


async def follow(paths: list[Path], scope: Scope, target: Target, limits: Limits, *, wait: bool) -> None:
    """Ingests, then follows the files, with a line for each round. Ctrl-C ends it, a second one at once."""
    import asyncio
    import signal

    from fusion.doors.cli import render
    from fusion.doors.cli.ingest_watch import watch
    from fusion.sources.files import NO_SUCH_FILE

    if missing := next((path for path in paths if not path.exists()), None):
        raise NotFound(f"{NO_SUCH_FILE}: {missing}")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    await watch(
        paths,
        scope,
        target.client(),
        stop,
        home=target.folder(),
        limits=limits,
        report=lambda summary: target.show(summary, render.ingested),
        complain=lambda error: report(error, target.as_json),
        wait=wait,
        quiet=target.as_json,
    )


@command()
async def forget(
    *,
    refs: Annotated[
        list[str] | None, typer.Argument(metavar="REF", help="Refs of memories, as a block cites them: m1z.")
    ] = None,
    query: Annotated[str | None, typer.Option(help="Forget what this finds: the best 20 memories at most.")] = None,
    source: Annotated[str | None, typer.Option(help="Only from this source: a file, or as it was sent.")] = None,
    document: Annotated[str | None, typer.Option(help="Only in this conversation or file.")] = None,
    after: Annotated[str | None, typer.Option(help="Only from this time on: 2026-01-31, or 2026-01-31T15:00.")] = None,
    before: Annotated[str | None, typer.Option(help="Only before this time.")] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="--after and --before mean the time of recording.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Forget memories in all backends, and verify it.

    Names memories by ref, or by options that all have to match. Shows them first, and asks.
    """
    from fusion.doors.cli.forget import Selection
    from fusion.doors.cli.forget import forget as forget_selection

    criteria = {"query": query, "source": source, "document": document, "after": after, "before": before}
    criteria["time"] = "recorded" if recorded else None
    selection = Selection(tuple(refs_of(refs or ())), criteria, owner.ids(), all_users)
    async with target.client() as client:
        await forget_selection(client, selection, dry_run=dry_run, yes=yes, as_json=target.as_json)


@command()
async def state(
    *,
    ref: Annotated[str, typer.Argument(help="The ref of a memory, as a block cites it: m1z.")],
    archive: Annotated[
        bool | None, typer.Option("--archive/--restore", help="Hide it from now on, or make it current again.")
    ] = None,
    trust: Annotated[str | None, typer.Option(help="trusted, unknown, untrusted, quarantined.")] = None,
    lifetime: Annotated[str | None, typer.Option(help="permanent, project, session, ttl.")] = None,
    confidence: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    importance: Annotated[str | None, typer.Option(help="0 to 1, 86%, must_remember, nice_to_have, ignore.")] = None,
    provenance: Annotated[str | None, typer.Option(help="Where it comes from: https://…, path#L3, path#name.")] = None,
    priority: Annotated[str | None, typer.Option(help="P0 is kept unused, P1 for months, P2 for weeks.")] = None,
    due: Annotated[str | None, typer.Option(help="When a plan is due: 2026-03, 2026-03-31.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that it belongs to.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Its tags, instead of the present ones. Repeatable.")] = None,
    why: Annotated[str, typer.Option(help="The reason, for the log.")] = "",
    owner: Owner,
    target: Target,
) -> None:
    """Archive a memory, or change its trust, lifetime and so on.

    It holds for the answers of every backend. `fusion undo ID` takes it back.
    """
    from fusion.doors.cli import render

    change: dict[str, Any] = {"archived": archive, "trust": trust, "lifetime": lifetime, "confidence": confidence}
    change |= {"importance": importance, "provenance": provenance, "priority": priority, "due": due}
    change |= {"for_project": project, "tags": tag or None, "why": why}
    async with target.client() as client:
        reply = await client.set_state("".join(refs_of([ref])), **{**change, **owner.ids()})
    target.show(reply, render.decision)


@command()
async def undo(
    *,
    batch: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="What `fusion ingest` or `fusion update` printed, a decision: d12, or a change of a file: w3.",
        ),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The last ingest or update.")] = False,
    run: Annotated[
        str | None,
        typer.Option(help="All decisions of this run, as `fusion decisions` names it, or its changes of files: j12."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be taken back; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Take back an ingest, update, decision, file change, or a run.

    Without an ID or --last it lists ingests and updates; `fusion decisions` lists decisions. After an update, the
    earlier version is current again.
    """
    if (batch is not None) + last + (run is not None) > 1:
        raise typer.BadParameter("give an ID, --last or --run, not several of them")

    from fusion.doors.cli import render

    if run is not None or (batch is not None and batch[:1] in "dw" and batch[1:].isdecimal()):
        if dry_run and run is None:
            raise typer.BadParameter("--dry-run is for ingests; `fusion decisions` shows what a decision changed")
        async with target.client() as client:
            taken_back = await client.undo_decision(batch, run=run, dry_run=dry_run, **owner.ids())
        if batch is not None and batch[:1] == "w" and not target.as_json:
            print(f"{batch} is taken back: the file is as it was before.")
        else:
            target.show(taken_back, lambda reply: render.undone(reply, dry_run=dry_run))
        return

    from fusion.doors.cli.undo import undo_batch
    from fusion.journal.versions import is_update
    from fusion.sources.bookmarks import forget_all

    async with target.client() as client:
        if batch is None and not last:
            reply = await client.batches(user_id=owner.user, agent_id=owner.agent, session_id=owner.session)
            target.show(reply, render.batches)
            return
        await undo_batch(client, batch, owner.ids(), dry_run=dry_run, yes=yes, as_json=target.as_json)
    if not dry_run and not is_update(batch or ""):
        forget_all(target.folder())  # otherwise the next ingest skips these files
