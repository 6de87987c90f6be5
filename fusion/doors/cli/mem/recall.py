"""Recall step by step: `fusion mem search`, then `timeline`, then `get`; each says what the next one would cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import note, print_json, refs_of, require_words, say_if_empty, say_if_expanded
from fusion.doors.cli.mem.rows import ledger_of, print_rows
from fusion.doors.cli.options import AllUsers, AskerAgent, AskerSession, AsOf, Project, TimeoutMs, Timezone, WhereOption
from fusion.doors.cli.where import where_of
from fusion.doors.compat.openclaw_mem.ids import ref_of
from fusion.doors.terminal import plain
from fusion.lib.moment import local_zone

if TYPE_CHECKING:
    from fusion import wire

Refs = Annotated[
    list[str], typer.Argument(metavar="REF...", help="Refs as they are cited, or their numbers: obs:m1z, m1z, 63.")
]


@command()
async def search(
    *,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="What to look for; quotes are not needed.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most hits.")] = 20,
    budget_tokens: Annotated[int, typer.Option(min=1, help="The most estimated tokens of all lines.")] = 800,
    graph: Annotated[
        bool, typer.Option("--graph", help="With --json also what the graph has beside the entities that it names.")
    ] = False,
    owner: Owner,
    all_users: AllUsers = False,
    project: Project = None,
    as_of: AsOf = None,
    timezone: Timezone = None,
    where: WhereOption = None,
    timeout_ms: TimeoutMs = None,
    asker_agent: AskerAgent = None,
    asker_session: AskerSession = None,
    target: Target,
) -> None:
    """List what all memories have on a question, one line each.

    The first of three steps: `fusion mem timeline REF` shows what stands around a hit, `fusion mem get REF` all of it.
    """
    require_words(query, "fusion mem search database")
    asker = {"agent_id": asker_agent, "session_id": asker_session}
    async with target.client() as client:
        if target.as_json:
            ledger = ledger_of(client, {**owner.ids(), "project": project}, all_users=all_users)
            more = {"as_of": as_of, "timezone": timezone or local_zone(), "where": where_of(where)}
            if graph:
                print_json(await ledger.hybrid(" ".join(query), limit, timeout_ms=timeout_ms, **more))
                return
            print_rows((await ledger.search(" ".join(query), limit, timeout_ms=timeout_ms, **more)).rows)
            return
        found = await client.index(
            " ".join(query),
            limit=limit,
            budget_tokens=budget_tokens,
            all_users=all_users or None,
            project=project,
            as_of=as_of,
            timezone=timezone or local_zone(),
            where=where_of(where),
            timeout_ms=timeout_ms,
            asker=asker if any(asker.values()) else None,
            **owner.ids(),
        )
        target.show(found, _print_hits)
        if not found["hits"] and not target.as_json:
            await say_if_empty(client, target.folder())
            say_if_expanded(query)


@command()
async def recall(
    *,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="What to look for; quotes are not needed.")],
    mode: Annotated[
        Literal["auto", "lexical", "vector", "hybrid", "graph"],
        typer.Option(help="As openclaw-mem has it; each asks the whole fused memory."),
    ] = "auto",
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most hits.")] = 20,
    scope: Annotated[str | None, typer.Option(help="Rank memories of this project higher.")] = None,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """List what all memories have on a question, as openclaw-mem's `recall` does."""
    require_words(query, "fusion mem recall database")
    async with target.client() as client:
        ledger = ledger_of(client, owner.ids(), all_users=all_users)
        found = await ledger.recall(" ".join(query), limit, mode=mode, project=scope)
    lines = [plain(f"{row['recordRef']}  {row['kind']}  {row['summary']}") for row in found["results"]]
    target.show(found, "\n".join(lines) or "nothing was found")


@command()
async def timeline(
    *,
    ref: Refs,
    window: Annotated[int | None, typer.Option(min=0, max=50, help="The most memories before and after each.")] = None,
    before: Annotated[int, typer.Option(min=0, max=50, help="The most memories before each.")] = 4,
    after: Annotated[int, typer.Option(min=0, max=50, help="The most memories after each.")] = 4,
    budget_tokens: Annotated[int, typer.Option(min=1, help="The most estimated tokens of all lines.")] = 800,
    owner: Owner,
    target: Target,
) -> None:
    """Show what stands around memories, one line each.

    In their document or session, else in time.
    """
    spans = (before, after) if window is None else (window, window)
    async with target.client() as client:
        if target.as_json:
            print_rows(await ledger_of(client, owner.ids()).timeline(refs_of(ref), *spans))
            return
        found = await client.timeline(
            [ref_of(one) for one in refs_of(ref)],
            before=spans[0],
            after=spans[1],
            budget_tokens=budget_tokens,
            **owner.ids(),
        )
    target.show(found, _print_timeline)


@command()
async def get(
    *,
    ref: Refs,
    budget_tokens: Annotated[int, typer.Option(min=1, help="The most estimated tokens of all texts.")] = 2000,
    owner: Owner,
    target: Target,
) -> None:
    """Show memories in full, within a budget of tokens."""
    async with target.client() as client:
        if target.as_json:
            print_rows(await ledger_of(client, owner.ids()).get(refs_of(ref)))
            return
        found = await client.records([ref_of(one) for one in refs_of(ref)], budget_tokens=budget_tokens, **owner.ids())
    target.show(found, _print_records)


def _print_hits(found: wire.IndexReply) -> None:
    for hit in found["hits"]:
        print(_line(hit))
    if found["abstained"]:
        note(f"nothing was found: {found['abstained']}")
    if found["left_out"]:
        note(f"{found['left_out']} more hits: raise --limit or --budget-tokens")
    _say_next(found["next"])


def _print_timeline(found: wire.TimelineReply) -> None:
    for entry in found["entries"]:
        print(f"{'>' if entry['anchor'] else ' '} {_line(entry)}")
    if found["left_out"]:
        note(f"{found['left_out']} more around: raise --budget-tokens")
    _say_missing(found["missing"])
    _say_next(found["next"])


def _print_records(found: wire.RecordsReply) -> None:
    for record in found["records"]:
        day = (record["at"] or record["recorded_at"] or "")[:10]
        print(f"{record['recordRef']} {day} {record['kind']}, trust {record['trust']}\n{record['text']}\n")
    _say_missing(found["missing"])
    if found["next"] is not None:
        _say_next(found["next"], "did not fit as a whole")


def _line(entry: Mapping[str, Any]) -> str:
    day = (entry["ts"] or "")[:10]
    return f"{entry['recordRef']} {day} {entry['kind']}: {entry['line']} ({entry['tokens']} tokens)"


def _say_missing(refs: list[str]) -> None:
    if refs:
        note(f"there is no memory {', '.join(refs)} here")


def _say_next(step: wire.NextStep | None, why: str = "") -> None:
    """Say what the next command would cost."""
    if step is not None:
        named = " ".join(step["refs"][:5]) + (" …" if len(step["refs"]) > 5 else "")
        note(
            f"{f'{named} {why}; ' if why else ''}next: fusion mem {step['step']} {named} costs {step['tokens']} tokens"
        )
