"""Measure: compare two arms, keep feedback on answers, learn a recipe from it."""

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
        typer.Argument(metavar="[QUESTION]...", help="The question, without quotes; or give --queries."),
    ] = None,
    a: Annotated[
        str, typer.Option("--a", metavar="ARM", help="all, default, seed003@markdown+cortex, @markdown, -mem0, …")
    ] = "all",
    b: Annotated[str, typer.Option("--b", metavar="ARM", help="The other arm.")] = "all",
    queries: Annotated[
        Path | None,
        typer.Option(help='A question a line, or JSON lines or a list of {"query", "expected": refs, texts, files}.'),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for the confidence interval.")] = 0,
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
    """Compare the answers of two recipes or sets of backends.

    Each question is asked once and answered by two arms; what differs is shown, with the reason.
    An arm is a recipe, the backends it asks, or both: default, seed003@markdown+cortex, @markdown, all, -mem0.
    """
    if (not question) == (queries is None):
        raise typer.BadParameter("give a question, or --queries FILE")

    async def work() -> None:
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

    run(work(), as_json)


def feedback(
    receipt_id: Annotated[
        str | None, typer.Argument(metavar="RECEIPT", help="The receipt that an answer named.")
    ] = None,
    useful: Annotated[list[str] | None, typer.Option(metavar="REF", help="A memory that helped. Repeatable.")] = None,
    useless: Annotated[
        list[str] | None, typer.Option(metavar="REF", help="A memory that did not help. Repeatable.")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write all feedback to this file, one line of JSON each.")] = None,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Say which memories of an answer helped, or export that.

    New feedback on a receipt replaces the old; feedback without refs removes it.
    `fusion tune --learner` learns from the export.
    """
    if (receipt_id is None) == (export is None) or (export is not None and (useful or useless)):
        raise typer.BadParameter("give a RECEIPT with --useful and --useless, or --export FILE alone")

    async def work() -> None:
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

    run(work(), as_json)


Moved = typer.Option(hidden=True)
"""an option that `fusion tune` had: read so that the reply names `python -m benchmarks tune`, which has it"""


def tune(
    data: Annotated[Path, typer.Option(help="The file that `fusion feedback --export` wrote.")],
    form: Annotated[str, typer.Option("--format", help="Only feedback.")] = "feedback",
    learner: Annotated[
        bool, typer.Option("--learner", help="Learn trees over the signals; needed for feedback.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the new recipe: learned by default.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="The recipe to begin with; by default the one of the home.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a recipe with this name; write one that is not better."),
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
    """Learn a recipe from your feedback, and report its worth.

    `python -m benchmarks tune` in a checkout of the sources learns from questions.
    """
    with friendly(as_json):
        from fusion.doors.cli.tune import from_feedback, job_of, show
        from fusion.trust import changing

        if form != "feedback" or any((queries, only, conversation, limit, recordings, answers)):
            raise BadInput(
                "fusion tune learns from feedback. To learn from questions of a data set or a folder of notes, run "
                "this in a checkout of the sources, with the same options: python -m benchmarks tune"
            )
        settings = settings_of(home, config)
        job = job_of(settings, data, recipe=recipe, name=name or "learned", learner=learner, force=force)
        with changing(settings.home):
            report = from_feedback(job)
        print_json(report) if as_json else show(report)
