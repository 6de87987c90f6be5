"""Measure: compare two arms, keep feedback on answers, learn a recipe from it."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.options import (
    AllUsers,
    AsOf,
    Budget,
    BudgetTokens,
    Cursor,
    Format,
    MaxItems,
    MaxResults,
    TimeoutMs,
    Timezone,
    WhereOption,
)
from fusion.doors.cli.plural import counted
from fusion.doors.cli.where import where_of
from fusion.errors import BadInput
from fusion.lib.moment import local_zone


@command()
async def compare(
    *,
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="The question, without quotes; or give --queries."),
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
    list_: Annotated[
        bool, typer.Option("--list", help="Show the comparisons with --queries so far, newest first.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="With --list, the number of comparisons on a page.")] = 20,
    cursor: Cursor = None,
    owner: Owner,
    all_users: AllUsers = False,
    as_of: AsOf = None,
    timezone: Timezone = None,
    where: WhereOption = None,
    budget: Budget = None,
    budget_tokens: BudgetTokens = None,
    max_results: MaxResults = None,
    max_items: MaxItems = None,
    block_format: Format = None,
    timeout_ms: TimeoutMs = None,
    target: Target,
) -> None:
    """Compare the answers of two recipes or sets of backends.

    Each question is asked once and answered by two arms; what differs is shown, with the reason.
    An arm is a recipe, the backends it asks, or both: default, seed003@markdown+cortex, @markdown, all, -mem0.
    The figures of a comparison with --queries are stored, without the questions.
    """
    if bool(question) + (queries is not None) + list_ != 1:
        raise typer.BadParameter("give a question, --queries FILE, or --list")

    from fusion.compare.queries import read_queries
    from fusion.doors.cli import render
    from fusion.doors.cli.compare import keep, over_all

    if list_:
        async with target.client() as client:
            target.show(await client.comparisons(limit=limit, cursor=cursor), render.stored_comparisons)
        return

    given: dict[str, Any] = {**owner.ids(), "all_users": all_users or None, "as_of": as_of}
    given |= {"timezone": timezone or local_zone(), "where": where_of(where)}
    given |= {"budget_chars": budget, "budget_tokens": budget_tokens, "timeout_ms": timeout_ms}
    given |= {"max_results": max_results, "max_items": max_items, "format": block_format}
    if queries is None:
        async with target.client() as client:
            compared = await client.compare(" ".join(question or ()), a, b, **given)
        target.show(compared, render.compared)
        return
    asked = read_queries(queries)
    async with target.client() as client:
        report = await over_all(client, asked, a, b, given, seed=seed, quiet=target.as_json)
        report |= await keep(client, report)
    target.show(report, render.verdict)


@command()
async def feedback(
    *,
    receipt_id: Annotated[
        str | None, typer.Argument(metavar="RECEIPT", help="The receipt that an answer named.")
    ] = None,
    useful: Annotated[list[str] | None, typer.Option(metavar="REF", help="A memory that helped. Repeatable.")] = None,
    useless: Annotated[
        list[str] | None, typer.Option(metavar="REF", help="A memory that did not help. Repeatable.")
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Keep earlier feedback on the answer's other memories.")
    ] = False,
    export: Annotated[Path | None, typer.Option(help="Write all feedback to this file, one line of JSON each.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Say which memories of an answer helped, or export all feedback.

    New feedback on a receipt replaces the old; feedback without refs removes it.
    `fusion tune --learner` learns from the export.
    """
    if (receipt_id is None) == (export is None) or (export is not None and (useful or useless or merge)):
        raise typer.BadParameter("give a RECEIPT with --useful and --useless, or --export FILE alone")

    from fusion.doors.cli.compare import export_labels

    async with target.client() as client:
        if export is not None:
            labels = await export_labels(client, export)
            target.show({"labels": labels, "file": str(export)}, f"{counted(labels, 'label')} in {export}")
            return
        kept = await client.feedback(
            receipt_id or "", useful=useful or (), useless=useless or (), merge=merge or None, **owner.ids()
        )
    target.show(kept, f"{kept['receipt_id']}: {len(kept['useful'])} useful, {len(kept['useless'])} useless")


Moved = typer.Option(hidden=True)
"""an option that `fusion tune` had: read so that the reply names `python -m benchmarks tune`, which has it"""


@command()
def tune(
    *,
    data: Annotated[
        Path,
        typer.Option(help="What `fusion feedback --export` wrote; with --calibrate, or questions as for compare."),
    ],
    form: Annotated[str, typer.Option("--format", help="Only feedback.")] = "feedback",
    learner: Annotated[
        bool, typer.Option("--learner", help="Learn trees over the signals; needed for feedback.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit the probability that a memory helps, for the recipe and the model.")
    ] = False,
    held_out: Annotated[
        Path | None,
        typer.Option(help="With --calibrate: data of the same form to report on, instead of cross-validation."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --calibrate: show what it is worth, write nothing.")
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
    target: Target,
) -> Coroutine[Any, Any, None] | None:
    """Learn a recipe, or fit its probabilities, and report its worth.

    --calibrate takes feedback, or questions with expected memories, texts or files, which are asked. It writes a file
    for each model into `recipes` of the home. `python -m benchmarks tune` in a checkout of the sources learns from
    questions.
    """
    if calibrate:
        if learner or name:
            raise BadInput("--calibrate fits probabilities, and learns no recipe: leave out --learner and --name")
        return _calibrate(target, data=data, recipe=recipe, held_out=held_out, dry_run=dry_run, force=force)
    if held_out is not None or dry_run:
        raise BadInput("--held-out and --dry-run are options of --calibrate")

    from fusion.doors.cli.tune import from_feedback, job_of, show
    from fusion.trust import changing

    if form != "feedback" or any((queries, only, conversation, limit, recordings, answers)):
        raise BadInput(
            "fusion tune learns from feedback. To learn from questions of a data set or a folder of notes, run this in "
            "a checkout of the sources, with the same options: python -m benchmarks tune"
        )
    settings = target.settings()
    job = job_of(settings, data, recipe=recipe, name=name or "learned", learner=learner, force=force)
    with changing(settings.home):
        report = from_feedback(job)
    target.show(report, show)
    return None


async def _calibrate(target: Target, **given: Any) -> None:
    from fusion.doors.cli.calibrate import Options, calibrate, show

    target.show(await calibrate(target, Options(**given)), show)
