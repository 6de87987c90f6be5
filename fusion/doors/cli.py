"""The command line: parse, ask the home's server, print.

Everything heavy is imported when a command needs it, so that `fusion --help` and a hook's call start at once. With
``--json`` a command prints exactly one line of JSON on stdout, and its error as one line of problem details on stderr.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

import fusion as package
from fusion.doors.verbs import Commands
from fusion.errors import BadInput, FusionError, NotFound, ServerUnreachable, SettingsError

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.contract import Scope
    from fusion.settings import Settings

T = TypeVar("T")

RUN_AGAIN = "What it has acknowledged is kept: run this again, and it goes on from there"
BROKEN_PIPE = 141
"""the exit code of a command that nobody reads any more: what a shell shows of SIGPIPE"""

app = typer.Typer(
    cls=Commands,
    help="Ask all of an agent's memories at once; get one block that fits its prompt.\n\n"
    "New here? `fusion init` finds your notes and sessions and answers a first question.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Home = Annotated[
    Path | None,
    typer.Option(help="The home. Else: FUSION_HOME, the nearest .fusion folder, ~/.local/share/memory-fusion."),
]
Config = Annotated[Path | None, typer.Option(help="A configuration file instead of fusion.toml in the home.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON.")]
Direct = Annotated[bool, typer.Option("--direct", help="Open the home in this process instead of asking its server.")]
User = Annotated[str | None, typer.Option("--user", help="Whose memories: user_id.")]
Agent = Annotated[str | None, typer.Option("--agent", help="agent_id.")]
Session = Annotated[str | None, typer.Option("--session", help="session_id.")]


def main() -> None:
    """The console script."""
    app(prog_name="fusion")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memory-fusion {package.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What every command has; the help's own words stand with ``app``."""


# The commands ----------------------------------------------------------------------------------------------------


@app.command()
def init(
    home: Home = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take what is sensible.")] = False,
    scan: Annotated[list[Path] | None, typer.Option(help="Look in this folder, too; may be given again.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look and show; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write fusion.toml anew; the old one is kept.")] = False,
    as_json: Json = False,
) -> None:
    """Find notes, sessions and servers here; set a home up; answer a first question."""
    with friendly(as_json):
        from fusion.doors.init import Asking, Unanswered
        from fusion.doors.init import init as set_up
        from fusion.home import find_home

        asking = Asking(
            home=find_home(home),
            user=Path.home(),
            cwd=Path.cwd(),
            scan=scan or (),
            yes=yes,
            dry_run=dry_run,
            force=force,
            quiet=as_json,
            ask=typed if sys.stdin.isatty() and not as_json else None,
        )
        for folder in asking.scan:
            if not folder.is_dir():
                raise NotFound(f"--scan {folder}: there is no such folder")
        try:
            told = set_up(asking, lambda: gateway(asking.home, None))
        except Unanswered as why:
            fail(SettingsError(str(why)), as_json, code=2)
        if as_json:
            print_json(told)


@app.command()
def serve(
    home: Home = None,
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Other than loopback wants an API key.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one.")] = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, help="Leave after so many seconds without a request.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve a home until told to stop."""
    with friendly(as_json):
        from fusion.doors.serve import serve as run

        settings = settings_of(home, config)
        given = {"host": host, "port": port, "idle_exit_s": idle_exit}
        changes = {name: value for name, value in given.items() if value is not None}
        settings = settings.model_copy(update={"server": settings.server.model_copy(update=changes)})

        def ready(url: str) -> None:
            if as_json:
                print_json({"url": url, "home": str(settings.home)})
            else:
                print(f"memory-fusion serves {settings.home} on {url}", file=sys.stderr, flush=True)

        run(settings, on_ready=ready)


@app.command()
def stop(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """Stop the server of a home, when it has finished what it is doing."""
    with friendly(as_json):
        from fusion.client import stop_server

        folder = home_of(home, config)
        record = stop_server(folder)
        if as_json:
            print_json({"home": str(folder), "stopped": record is not None})
        else:
            print(f"Stopped the server of {folder}." if record else f"No server runs for {folder}.")


@app.command()
def fuse(
    question: Annotated[str, typer.Argument(help="What to recall.")],
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Annotated[str | None, typer.Option(help="Boosts memories of this project.")] = None,
    as_of: Annotated[str | None, typer.Option(help="What was true then: 2026-01-31, or with a time.")] = None,
    budget: Annotated[int | None, typer.Option(help="Characters of the block at most.")] = None,
    max_results: Annotated[int | None, typer.Option(help="Excerpts in the block at most.")] = None,
    backend: Annotated[list[str] | None, typer.Option(help="Ask only this backend; may be given again.")] = None,
    recipe: Annotated[str | None, typer.Option(help="default, hook, deep, seed003, or one of yours.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(help="For everything, end to end.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also what was left out, and why.")] = False,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask all memories; print one block, and why each memory is in it."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            fused = await client.fuse(
                question,
                user_id=user,
                agent_id=agent,
                session_id=session,
                project=project,
                as_of=as_of,
                budget_chars=budget,
                max_results=max_results,
                backends=backend or None,
                recipe=recipe,
                timeout_ms=timeout_ms,
                explain=explain or not as_json,
            )
        if as_json:
            print_json(fused)
        else:
            from fusion.doors import show

            show.fused(fused, left_out=explain)

    run(ask(), as_json)


@app.command()
def compare(
    question: Annotated[str | None, typer.Argument(help="What to recall; or give --queries.")] = None,
    a: Annotated[
        str, typer.Option("--a", metavar="ARM", help="all, default, seed003@markdown+cortex, @markdown, -mem0, …")
    ] = "all",
    b: Annotated[str, typer.Option("--b", metavar="ARM", help="The other arm.")] = "all",
    queries: Annotated[
        Path | None,
        typer.Option(help='A question a line, or JSON lines or a list of {"query", "expected": refs, texts, files}.'),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the interval's resamples.")] = 0,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    as_of: Annotated[str | None, typer.Option(help="What was true then: 2026-01-31, or with a time.")] = None,
    budget: Annotated[int | None, typer.Option(help="Characters of a block at most.")] = None,
    max_results: Annotated[int | None, typer.Option(help="Excerpts in a block at most.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(help="For everything, end to end.")] = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask once, answer by two arms; print what differs, and why.

    An arm is a recipe, the backends it asks, or both: default, seed003@markdown+cortex, @markdown, all, -mem0.
    """
    if (question is None) == (queries is None):
        raise typer.BadParameter("give a question, or --queries FILE")

    async def ask() -> None:
        from fusion.compare.queries import read_queries
        from fusion.doors import show
        from fusion.doors.compare import over_all

        given: dict[str, Any] = {"user_id": user, "agent_id": agent, "session_id": session, "as_of": as_of}
        numbers: dict[str, Any] = {"budget_chars": budget, "max_results": max_results, "timeout_ms": timeout_ms}
        if queries is None:
            async with gateway(home, config, direct=direct) as client:
                compared = await client.compare(question or "", a, b, **numbers, **given)
            print_json(compared) if as_json else show.compared(compared)
            return
        asked = read_queries(queries)
        async with gateway(home, config, direct=direct) as client:
            told = await over_all(client, asked, a, b, {**numbers, **given}, seed=seed, quiet=as_json)
        print_json(told) if as_json else show.verdict(told)

    run(told_as_usage(ask(), as_json), as_json)


@app.command()
def feedback(
    receipt_id: Annotated[str | None, typer.Argument(metavar="RECEIPT", help="As the answer named it.")] = None,
    useful: Annotated[list[str] | None, typer.Option(metavar="REF", help="It helped; may be given again.")] = None,
    useless: Annotated[list[str] | None, typer.Option(metavar="REF", help="It was in the way; again, too.")] = None,
    export: Annotated[Path | None, typer.Option(help="Write all labels to this file, a line of JSON each.")] = None,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Say which memories of an answer were of use, or export what was said as labels for the benchmarks.

    A second feedback on a receipt replaces the first; one with neither takes it back.
    """
    if (receipt_id is None) == (export is None) or (export is not None and (useful or useless)):
        raise typer.BadParameter("give a RECEIPT with --useful and --useless, or --export FILE alone")

    async def tell() -> None:
        from fusion.doors.compare import export_labels

        async with gateway(home, config, direct=direct) as client:
            if export is not None:
                count = await export_labels(client, export)
                print_json({"labels": count, "file": str(export)}) if as_json else print(f"{count} labels in {export}")
                return
            scope = {"user_id": user, "agent_id": agent, "session_id": session}
            kept = await client.feedback(receipt_id or "", useful=useful or (), useless=useless or (), **scope)
        if as_json:
            print_json(kept)
        else:
            print(f"{kept['receipt_id']}: {len(kept['useful'])} useful, {len(kept['useless'])} useless")

    run(told_as_usage(tell(), as_json), as_json)


@app.command()
def tune(
    data: Annotated[Path, typer.Option(help="Your labels: a data set, a folder, or an export of feedback.")],
    form: Annotated[
        str, typer.Option("--format", help="locomo, folder, feedback; or longmemeval, beam, beir, musique.")
    ] = "locomo",
    queries: Annotated[
        Path | None, typer.Option(help="With folder: a JSON list of queries with the files that answer them.")
    ] = None,
    learner: Annotated[bool, typer.Option("--learner", help="Learn trees over the signals, not numbers.")] = False,
    name: Annotated[str | None, typer.Option(help="Of the recipe: tuned, or learned with --learner.")] = None,
    recipe: Annotated[str | None, typer.Option(help="What to begin with; the home's own by default.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Try only numbers with this in their name; again, too.")
    ] = None,
    conversation: Annotated[list[str] | None, typer.Option(help="Use only this one of the data; again, too.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Questions of each conversation.")] = None,
    recordings: Annotated[Path | None, typer.Option(help="Keep recorded answers here; else below the home.")] = None,
    answers: Annotated[Path | None, typer.Option(help="Write the held-out answers here, for a referee.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a recipe of this name.")] = False,
    home: Home = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Choose a recipe's numbers by your own questions, or learn from your labels; say what that is worth."""
    with friendly(as_json):
        from fusion.doors.tune import Wanted
        from fusion.doors.tune import run as run_tuning
        from fusion.settings import recipes

        settings = settings_of(home, config)
        known = recipes(settings)
        try:
            base = recipe or settings.recipe
            if base not in known:
                raise BadInput(f"--recipe {base!r}: there are {', '.join(sorted(known))}")
            wanted = Wanted(
                data=data,
                format=form,
                queries=queries,
                name=name or ("learned" if learner else "tuned"),
                base=known[base],
                folder=settings.home / "recipes",
                recordings=recordings or settings.home / "tuning",
                answers=answers,
                learner=learner,
                force=force,
                limit=limit,
                conversations=tuple(conversation or ()),
                only=tuple(only or ()),
            )
            told = run_tuning(wanted, quiet=as_json)
        except (BadInput, NotFound) as error:
            fail(error, as_json, code=2)
        if as_json:
            print_json(told)


@app.command()
def search(
    backend: Annotated[str, typer.Argument(help="Which backend; `fusion backends` lists them.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask one backend; print its raw hits."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            scope = {"user_id": user, "agent_id": agent, "session_id": session}
            found = await client.search(backend, query, limit=limit, **scope)
        if as_json:
            print_json(found)
        else:
            from fusion.doors import show

            show.found(found)

    run(ask(), as_json)


@app.command()
def remember(
    text: Annotated[str, typer.Argument(help="What to remember.")],
    kind: Annotated[
        str, typer.Option(help="rule, procedure, fact, episode, preference, decision, plan, note, turn.")
    ] = "note",
    speaker: Annotated[str | None, typer.Option(help="Who said it.")] = None,
    at: Annotated[str | None, typer.Option(help="When it happened: 2026-01-31, or with a time.")] = None,
    supersedes: Annotated[str | None, typer.Option(help="The ref of the memory that this one replaces.")] = None,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Remember one thing, in every backend that takes it."""
    given = {"text": text, "kind": kind, "speaker": speaker, "at": at, "supersedes": supersedes}
    given |= {"user_id": user, "agent_id": agent, "session_id": session}

    async def tell() -> None:
        async with gateway(home, config, direct=direct) as client:
            kept = await client.remember({name: value for name, value in given.items() if value is not None})
        if as_json:
            print_json(kept)
        else:
            memory = kept["memories"][0]
            print(f"{memory['ref']}  {memory['status']}{': ' if memory['reason'] else ''}{memory['reason']}")

    run(tell(), as_json)


@app.command()
def memories(
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    document: Annotated[str | None, typer.Option(help="Only those of this conversation or file.")] = None,
    source: Annotated[str | None, typer.Option(help="Only those from there.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many a page.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended, as it says.")] = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """List what is remembered, newest first, a page at a time."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            page = await client.memories(
                limit=limit,
                cursor=cursor,
                document=document,
                source=source,
                user_id=user,
                agent_id=agent,
                session_id=session,
            )
        if as_json:
            print_json(page)
        else:
            from fusion.doors import show

            show.memories(page)

    run(ask(), as_json)


@app.command()
def forget(
    refs: Annotated[
        list[str] | None, typer.Argument(metavar="[REF]...", help="Which memories, as a block cites them: m1z.")
    ] = None,
    query: Annotated[str | None, typer.Option(help="What it is about: the likeliest memories, at most 20.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it came from: a file, or a source as it was sent.")] = None,
    document: Annotated[str | None, typer.Option(help="The conversation or file that it stands in.")] = None,
    after: Annotated[str | None, typer.Option(help="Not before this: 2026-01-31, or with a time.")] = None,
    before: Annotated[str | None, typer.Option(help="Before this.")] = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Times are when it was recorded, not happened.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be forgotten.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Forget memories everywhere, and verify it: by ref, or all that meets what is said. Shows them first, and asks."""

    async def tell() -> None:
        from fusion.doors.forget import Meant
        from fusion.doors.forget import forget as preview_and_forget

        scope = {"user_id": user, "agent_id": agent, "session_id": session}
        said = {"query": query, "source": source, "document": document, "after": after, "before": before}
        meant = Meant(tuple(refs or ()), said | {"time": "recorded" if recorded else None}, scope)
        async with gateway(home, config, direct=direct) as client:
            await preview_and_forget(client, meant, dry_run=dry_run, yes=yes, as_json=as_json)

    run(tell(), as_json)


@app.command()
def forgotten(
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    user: User = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """What was forgotten when, and what became of it in each backend. Refs only: the texts are gone."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            page = await client.forgotten(limit=limit, cursor=cursor, user_id=user)
        if as_json:
            print_json(page)
        else:
            from fusion.doors import show

            show.audit(page)

    run(ask(), as_json)


@app.command()
def backends(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """Every backend: how it is, and what it holds."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.backends()
        if as_json:
            print_json(found)
        else:
            from fusion.doors import show

            show.backends(found)

    run(ask(), as_json)


@app.command()
def doctor(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """What is wrong with a home, and the command that mends it. Changes nothing."""
    with friendly(as_json):
        from fusion.doors.doctor import examine, healthy, report
        from fusion.home import find_home

        # A configuration that cannot be read is a finding, and must not keep the home from being found.
        folder = find_home(home)
        found = examine(folder, config)
        if as_json:
            print_json(report(found, folder))
        else:
            from fusion.doors import show

            show.findings(found)
    if not healthy(found):
        raise typer.Exit(1)


@app.command()
def status(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """The home at a glance: stores, breakers, backlog, sizes."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.status()
        if as_json:
            print_json(found)
        else:
            from fusion.doors import show
            from fusion.home import read_record

            folder = home_of(home, config)
            record = None if direct else read_record(folder)
            show.status(found, folder, record.url if record else None)

    run(ask(), as_json)


@app.command()
def receipt(
    receipt_id: Annotated[str, typer.Argument(help="As the answer named it.")],
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Why each candidate of an answer was in the block, or out of it."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.receipt(receipt_id)
        if as_json:
            print_json(found)
        else:
            from fusion.doors import show

            show.receipt(found)

    run(ask(), as_json)


@app.command()
def ingest(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders or files: Markdown, JSONL, sessions of Claude Code and OpenClaw.")
    ],
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count; store nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Then follow them, until Ctrl-C.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until every backend has it and the vectors are there.")] = True,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Remember what stands in files. Run it again at any time: what is known already is skipped."""
    if watch and dry_run:
        raise typer.BadParameter("--watch stores what it sees; leave out --dry-run")

    async def tell() -> None:
        from fusion.client import AsyncClient
        from fusion.contract import Scope
        from fusion.doors import show
        from fusion.doors.ingest import ingest as read_and_send
        from fusion.ingest.files import NO_SUCH_FILE

        whose = Scope(user_id=user, agent_id=agent, session_id=session)
        if watch:
            await follow(paths, whose, home, config, direct=direct, wait=wait, as_json=as_json)
            return
        there = None if dry_run else gateway(home, config, direct=direct)
        try:
            summary = await read_and_send(
                paths,
                whose,
                there,
                wait=wait,
                quiet=as_json,
                home=None if dry_run else home_of(home, config),
                looking=AsyncClient.of_home(home_of(home, config), config=config, start=False) if dry_run else None,
            )
        except ServerUnreachable as error:
            raise ServerUnreachable(f"{error}. {RUN_AGAIN}") from error
        if as_json:
            print_json(summary)
        else:
            show.ingested(summary)
        if missing := next((s for s in summary["skipped"] if s["reason"] == NO_SUCH_FILE), None):
            raise NotFound(f"{NO_SUCH_FILE}: {missing['first']}")

    run(tell(), as_json)


async def follow(
    paths: list[Path],
    whose: Scope,
    home: Path | None,
    config: Path | None,
    *,
    direct: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Ingests and goes on as files change; a line a round. The first Ctrl-C ends it, the second at once."""
    import asyncio
    import signal

    from fusion.doors import show
    from fusion.doors.watch import watch
    from fusion.ingest.files import NO_SUCH_FILE

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
        whose,
        gateway(home, config, direct=direct),
        stop,
        home=home_of(home, config),
        tell=print_json if as_json else show.ingested,
        complain=lambda error: report(error, as_json),
        wait=wait,
        quiet=as_json,
    )


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def hook(context: typer.Context) -> None:
    """Run a hook of Claude Code: user-prompt-submit, session-start, stop, pre-compact or session-end.

    Reads its JSON on stdin, prints its JSON, and always exits with 0. Options: --home FOLDER, --user USER_ID.
    """
    from fusion.doors.hooks import main

    main(context.args)


@app.command()
def mcp(
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Annotated[str | None, typer.Option(help="Boosts memories of this project.")] = None,
    audience: Annotated[str | None, typer.Option(help="private or group: where the answers will be read.")] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve the memory tools to an MCP client, on stdin and stdout. What is given here the client cannot change."""
    with friendly(as_json=False):
        import asyncio

        from fusion.doors.bodies import Scoped, in_query
        from fusion.doors.mcp import serve_stdio

        given = {"user_id": user, "agent_id": agent, "session_id": session, "project": project, "audience": audience}
        fixed = {name: value for name, value in given.items() if value is not None}
        in_query(Scoped, list(fixed.items()))
        asyncio.run(serve_stdio(home_of(home, config), config, fixed))


# What they share -------------------------------------------------------------------------------------------------


def home_of(home: Path | None, config: Path | None) -> Path:
    """The home that is meant; a configuration file may name it."""
    from fusion.home import find_home

    if home is None and config is not None:
        from fusion.settings import load

        settings = load(config)
        if "home" in settings.model_fields_set:
            return settings.home
    return find_home(home)


def settings_of(home: Path | None, config: Path | None) -> Settings:
    """Settings of the home that is meant. What was said on the command line wins over the environment."""
    from fusion.settings import load

    folder = home_of(home, config)
    return load(config, home=folder).model_copy(update={"home": folder})


@asynccontextmanager
async def gateway(home: Path | None, config: Path | None, *, direct: bool = False) -> AsyncIterator[AsyncClient]:
    """A client of the home's server, which is started if need be; or of the home itself, opened here."""
    from fusion.client import AsyncClient

    if not direct:
        async with AsyncClient.of_home(home_of(home, config), config=config) as client:
            yield client
        return

    import secrets

    import httpx

    from fusion.doors.http import create_app
    from fusion.wiring import Fusion

    os.umask(0o077)  # whatever a backend writes is the owner's alone
    settings = settings_of(home, config)
    key = secrets.token_urlsafe()
    async with Fusion.open(settings) as fusion:
        transport = httpx.ASGITransport(create_app(fusion, settings, local_token=key))
        async with AsyncClient.over(transport, api_key=key) as client:
            yield client


def run(work: Coroutine[Any, Any, T], as_json: bool) -> T:
    """Does a command's work; its errors become a line that says what is wrong and what mends it."""
    import asyncio

    with friendly(as_json):
        return asyncio.run(work)


async def told_as_usage(work: Coroutine[Any, Any, T], as_json: bool) -> T:
    """Does ``work``; an arm, a file or a vote that cannot be ends with exit code 2, as a wrong option does."""
    try:
        return await work
    except (BadInput, NotFound) as error:
        fail(error, as_json, code=2)


@contextmanager
def friendly(as_json: bool) -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except FusionError as error:
        fail(error, as_json)
    except BrokenPipeError:  # who read what we print has seen enough, as `head` has: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except OSError as error:
        fail(SettingsError(f"{error.strerror or error}: {error.filename}" if error.filename else str(error)), as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def typed(question: str) -> str:
    """The line that somebody types in answer."""
    return str(typer.prompt(question, default="", show_default=False))


def fail(error: FusionError, as_json: bool, code: int = 1) -> NoReturn:
    """Tells of an error, on stderr, and ends with an exit code."""
    report(error, as_json)
    raise typer.Exit(code) from None


def report(error: FusionError, as_json: bool) -> None:
    """Tells of an error, on stderr."""
    from fusion.problem import problem_of

    if as_json:
        import orjson

        print(orjson.dumps(problem_of(error), default=str).decode(), file=sys.stderr)
    else:
        print(f"fusion: {error}", file=sys.stderr)


def print_json(content: Mapping[str, object]) -> None:
    """One line."""
    import orjson

    sys.stdout.write(orjson.dumps(content, default=str).decode() + "\n")
    sys.stdout.flush()
