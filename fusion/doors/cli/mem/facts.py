"""Temporal facts: the commands of `fusion mem graph fact`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fusion.doors.cli.command import Owner, Target, command

if TYPE_CHECKING:
    from fusion import wire

app = typer.Typer(
    help="What was explicitly asserted about a subject, what of it holds now, and which memories say so; in JSON, or "
    "with --no-json in lines.",
    no_args_is_help=True,
    add_completion=False,
)

Subject = Annotated[str, typer.Option("--subject", help="What the facts are about: api-gateway.")]
Predicate = Annotated[str | None, typer.Option("--predicate", help="Only facts with this predicate.")]
Sources = Annotated[
    list[str] | None, typer.Option("--source", "--source-ref", help="A memory that says so: obs:m1z. Repeatable.")
]
By = Annotated[str, typer.Option("--asserted-by", help="operator, agent, tool or import.")]
Stale = Annotated[bool, typer.Option("--include-stale", help="Also facts that are no current truth, marked so.")]


@command()
async def assert_(
    *,
    subject: Subject,
    predicate: Annotated[
        str,
        typer.Option(
            help="owns, uses, depends_on, replaces, status, configured_as, decision, source_of_truth or retired_by."
        ),
    ],
    object_: Annotated[str, typer.Option("--object", help="A text, or another subject: entity:postgres-16.")],
    source: Annotated[
        list[str], typer.Option("--source", "--source-ref", help="What says so: obs:m1z, ep:12. Repeatable.")
    ],
    object_type: Annotated[str, typer.Option(help="literal, entity_ref or json.")] = "literal",
    valid_from: Annotated[str | None, typer.Option(help="From when on it holds; now by default.")] = None,
    valid_to: Annotated[str | None, typer.Option(help="Until when it holds; open by default.")] = None,
    supersedes: Annotated[
        list[str] | None, typer.Option(help="The id of a fact whose place it takes. Repeatable.")
    ] = None,
    confidence_tier: Annotated[str | None, typer.Option(help="At most what its sources allow, the default.")] = None,
    asserted_by: By = "operator",
    owner: Owner,
    target: Target,
) -> None:
    """Assert a fact, with the memories that say so.

    A new status, configuration, source of truth or retirement supersedes the earlier one. `fusion forget REF` of the
    printed memory takes it back.
    """
    from fusion.doors.compat.openclaw_mem import facts, ids

    async with target.client() as client:
        written = await client.assert_fact(
            subject,
            predicate,
            object_,
            object_type=object_type,
            sources=[ids.ref_of(one) for one in source],
            valid_from=valid_from,
            valid_to=valid_to,
            supersedes=supersedes or [],
            confidence_tier=confidence_tier,
            asserted_by=asserted_by,
            **owner.ids(),
        )
    target.show(facts.asserted(written), written_lines(written))


@command()
async def retract(
    *,
    fact: Annotated[str, typer.Argument(help="The id of the fact: fact:0123456789abcdef.")],
    how: Annotated[str, typer.Option(help="invalidated: it ended; retracted: it never held.")] = "invalidated",
    at: Annotated[str | None, typer.Option(help="When it ended; now by default.")] = None,
    source: Sources = None,
    asserted_by: By = "operator",
    owner: Owner,
    target: Target,
) -> None:
    """Say that a fact does not hold any more, or never held."""
    async with target.client() as client:
        written = await client.retract_fact(
            fact, how=how, at=at, sources=source or [], asserted_by=asserted_by, **owner.ids()
        )
    target.show(written, written_lines(written))


@command()
async def current(
    *,
    subject: Subject,
    predicate: Predicate = None,
    at: Annotated[str | None, typer.Option(help="What held at this time: 2026-01-31.")] = None,
    include_stale: Stale = False,
    owner: Owner,
    target: Target,
) -> None:
    """Show what holds about a subject, and why other facts do not."""
    from fusion.doors.compat.openclaw_mem import facts

    async with target.client() as client:
        found = await client.current_facts(
            subject, predicate=predicate, at=at, include_stale=include_stale, **owner.ids()
        )
    left_out = [f"not told: {one['id']}  {one['reason']}" for one in found["excluded"]]
    lines = [line_of(fact) for fact in found["facts"]]
    shown = facts.current(found, include_stale=include_stale)
    target.show(shown, "\n".join([*(lines or [f"no fact about {found['subject']} holds"]), *left_out]))


@command()
async def timeline(
    *,
    subject: Annotated[str | None, typer.Option("--subject", help="What the facts are about: api-gateway.")] = None,
    fact: Annotated[str | None, typer.Option("--fact", help="A fact instead: how it came about.")] = None,
    predicate: Predicate = None,
    owner: Owner,
    target: Target,
) -> None:
    """Show all facts about a subject, oldest first; or how one fact came about."""
    from fusion.doors.compat.openclaw_mem import facts

    async with target.client() as client:
        found = await client.fact_timeline(subject, fact=fact, predicate=predicate, **owner.ids())
    lines = [line_of(fact) for fact in found["facts"]]
    shown = facts.timeline(found, predicate)
    target.show(shown, "\n".join(lines or [f"nothing was asserted about {found['subject']}"]))


@command()
async def lint(*, owner: Owner, target: Target) -> None:
    """Check all facts: sources that are gone, contradictions, unknown entities, cycles. Exit code 1 with errors."""
    from fusion.doors.compat.openclaw_mem import facts

    async with target.client() as client:
        found = await client.lint_facts(**owner.ids())
    counts = found["counts"]
    head = f"{counts['facts']:,} facts: {counts['errors']:,} errors, {counts['warnings']:,} warnings"
    lines = [f"{one['severity']}  {one['fact']}  {one['code']}: {one['message']}" for one in found["issues"]]
    target.show(facts.lint(found), "\n".join([head, *lines]))
    if not found["ok"]:
        raise typer.Exit(1)


@command()
async def pack(
    *,
    subject: Subject,
    budget_tokens: Annotated[int, typer.Option(help="The most estimated tokens of the pack.")] = 1200,
    max_items: Annotated[int, typer.Option("--max-items", "--limit", help="The most facts in the pack.")] = 12,
    include_stale: Stale = False,
    owner: Owner,
    target: Target,
) -> None:
    """Print the current facts about a subject as a context pack."""
    from fusion.doors.compat.openclaw_mem import facts

    async with target.client() as client:
        found = await client.fact_pack(
            subject, budget_tokens=budget_tokens, max_items=max_items, include_stale=include_stale, **owner.ids()
        )
        known = await client.current_facts(subject, include_stale=include_stale, **owner.ids())
    shown = facts.pack(found, known["facts"], include_stale=include_stale)
    target.show(shown, found["context_pack"]["bundle_text"] or f"no fact about {found['trace']['subject']} holds")


@command()
async def rebuild(*, target: Target) -> None:
    """Delete the table of facts and derive it again from the memories."""
    async with target.client() as client:
        done = await client.rebuild_facts()
    target.show(done, f"{done['facts']:,} assertions, {done['before']:,} before")


def line_of(fact: wire.TemporalFact) -> str:
    """One fact as people read it."""
    until = f" until {fact['valid_to'][:10]}" if fact["valid_to"] else ""
    sources = ", ".join(
        one["ref"] if one["status"] == "ok" else f"{one['ref']} ({one['status']})" for one in fact["source_refs"]
    )
    why = f"  {'; '.join(fact['reasons'])}" if fact["reasons"] else ""
    said = f"{fact['subject']['label']} {fact['predicate']} {fact['object']['value']}"
    return (
        f"{fact['id']}  {fact['status']}  {said}  since {fact['valid_from'][:10]}{until}  "
        f"{fact['confidence_tier']}, from {sources or 'nothing'}{why}"
    )


def in_full(fact: wire.TemporalFact, timeline: Sequence[wire.TemporalFact]) -> str:
    """One fact as people read it, with the memory that asserts it, and the others about the same, oldest first."""
    asserted = fact["assertion_ref"]
    others = [f"other  {line_of(one)}" for one in timeline if one["id"] != fact["id"]]
    said = f"asserted in {asserted['ref']} on {fact['created_at'][:10]} by {fact['asserted_by']}"
    return "\n".join([line_of(fact), said, *others])


def written_lines(written: wire.FactWritten) -> str:
    """What was written, and what it superseded."""
    more = [f"supersedes {one}" for one in written["superseded"]]
    return "\n".join([line_of(written["fact"]), f"kept as {written['memory']}", *more])


for name, function in (
    ("assert", assert_),
    ("retract", retract),
    ("current", current),
    ("timeline", timeline),
    ("lint", lint),
    ("pack", pack),
    ("rebuild", rebuild),
):
    app.command(name)(function)
