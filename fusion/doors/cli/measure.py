"""Measuring: two ways to answer compared, feedback kept, a recipe tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fusion.doors.cli.connect import friendly, gateway, print_json, run, settings_of
from fusion.doors.cli.options import (
    Agent,
    AsOf,
    Budget,
    Config,
    Direct,
    Home,
    Json,
    MaxResults,
    Session,
    TimeoutMs,
    User,
)
from fusion.doors.cli.plural import counted
from fusion.errors import BadInput


def compare(
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUESTION]...", help="What to recall, its words without quotes; or give --queries."),
    ] = None,
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
    as_of: AsOf = None,
    budget: Budget = None,
    max_results: MaxResults = None,
    timeout_ms: TimeoutMs = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask once, answer by two arms; print what differs, and why.

    An arm is a recipe, the backends it asks, or both: default, seed003@markdown+cortex, @markdown, all, -mem0.
    """
    if (not question) == (queries is None):
        raise typer.BadParameter("give a question, or --queries FILE")

    async def ask() -> None:
        from fusion.compare.queries import read_queries
        from fusion.doors.cli import render
        from fusion.doors.cli.compare import over_all

        given: dict[str, Any] = {"user_id": user, "agent_id": agent, "session_id": session, "as_of": as_of}
        numbers: dict[str, Any] = {"budget_chars": budget, "max_results": max_results, "timeout_ms": timeout_ms}
        if queries is None:
            async with gateway(home, config, direct=direct) as client:
                compared = await client.compare(" ".join(question or ()), a, b, **numbers, **given)
            print_json(compared) if as_json else render.compared(compared)
            return
        asked = read_queries(queries)
        async with gateway(home, config, direct=direct) as client:
            told = await over_all(client, asked, a, b, {**numbers, **given}, seed=seed, quiet=as_json)
        print_json(told) if as_json else render.verdict(told)

    run(ask(), as_json)


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
    """Say which memories of an answer were of use, or export what was said as labels for `fusion tune --learner`.

    A second feedback on a receipt replaces the first; one with neither takes it back.
    """
    if (receipt_id is None) == (export is None) or (export is not None and (useful or useless)):
        raise typer.BadParameter("give a RECEIPT with --useful and --useless, or --export FILE alone")

    async def tell() -> None:
        from fusion.doors.cli.compare import export_labels

        async with gateway(home, config, direct=direct) as client:
            if export is not None:
                labels = await export_labels(client, export)
                print_json({"labels": labels, "file": str(export)}) if as_json else print(
                    f"{counted(labels, 'label')} in {export}"
                )
                return
            scope = {"user_id": user, "agent_id": agent, "session_id": session}
            kept = await client.feedback(receipt_id or "", useful=useful or (), useless=useless or (), **scope)
        if as_json:
            print_json(kept)
        else:
            print(f"{kept['receipt_id']}: {len(kept['useful'])} useful, {len(kept['useless'])} useless")

    run(tell(), as_json)


Moved = typer.Option(hidden=True)
"""an option that `fusion tune` had: read so that the reply names `python -m benchmarks tune`, which has it"""


def tune(
    data: Annotated[Path, typer.Option(help="Your labels: what `fusion feedback --export` wrote.")],
    form: Annotated[str, typer.Option("--format", help="feedback.")] = "feedback",
    learner: Annotated[
        bool, typer.Option("--learner", help="Learn trees over the signals; feedback needs it.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Of the recipe: learned by default.")] = None,
    recipe: Annotated[str | None, typer.Option(help="What to begin with; the home's own by default.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a recipe of this name; write it even if it is not better.")
    ] = False,
    queries: Annotated[Path | None, Moved] = None,
    only: Annotated[list[str] | None, Moved] = None,
    conversation: Annotated[list[str] | None, Moved] = None,
    limit: Annotated[int | None, Moved] = None,
    recordings: Annotated[Path | None, Moved] = None,
    answers: Annotated[Path | None, Moved] = None,
    home: Home = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Learn a recipe from your feedback, and say what it is worth. By questions: `python -m benchmarks tune`."""
    with friendly(as_json):
        from fusion.doors.cli.tune import from_feedback, job_of, show
        from fusion.trust import changing

        if form != "feedback" or any((queries, only, conversation, limit, recordings, answers)):
            raise BadInput(
                "fusion tune learns from feedback. Questions of a data set or of a folder of notes are asked by the "
                "benchmarks, in a checkout of the sources: python -m benchmarks tune, with the same options"
            )
        settings = settings_of(home, config)
        job = job_of(settings, data, recipe=recipe, name=name or "learned", learner=learner, force=force)
        with changing(settings.home):
            report = from_feedback(job)
        print_json(report) if as_json else show(report)
