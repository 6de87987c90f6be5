"""Pack: `fusion mem pack`, with openclaw-mem's options; `fusion pack` has more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import require_words, say
from fusion.doors.cli.mem.rows import ledger_of
from fusion.doors.cli.options import AllUsers, Project, TimeoutMs
from fusion.doors.cli.pack import nothing_recalled, tail_of
from fusion.doors.terminal import json_line
from fusion.lib.moment import local_zone


@command()
async def pack(
    *,
    question: Annotated[list[str] | None, typer.Argument(metavar="QUESTION...", help="The question.")] = None,
    query: Annotated[str | None, typer.Option(help="The question, as an option.")] = None,
    query_en: Annotated[str | None, typer.Option(help="The same question in English.")] = None,
    limit: Annotated[int, typer.Option("--limit", "--max-items", min=1, max=100, help="The most lines.")] = 12,
    budget_tokens: Annotated[int, typer.Option(min=1, help="The most estimated tokens in the pack.")] = 1200,
    tail_text: Annotated[
        list[str] | None, typer.Option(help="A turn of the conversation, which comes first. Repeatable.")
    ] = None,
    tail_file: Annotated[Path | None, typer.Option(help="A file with these turns; - reads standard input.")] = None,
    tail_max_items: Annotated[int, typer.Option(min=0, max=100, help="The most of these turns.")] = 4,
    tail_budget_tokens: Annotated[
        int | None, typer.Option(min=0, help="The most tokens of these turns: 240, in a small pack half of it.")
    ] = None,
    use_graph: Annotated[
        Literal["off", "auto", "on"], typer.Option(help="Facts and paths of the graph first, where it has some.")
    ] = "off",
    graph_latency_soft_ms: Annotated[int, typer.Option(min=0, help="After which paths are left out.")] = 50,
    graph_latency_hard_ms: Annotated[int, typer.Option(min=0, help="After which the graph is left out.")] = 500,
    graph_scope: Annotated[str | None, typer.Option(help="Rank memories of this project higher.")] = None,
    trust_policy: Annotated[
        Literal["off", "exclude_quarantined_fail_open"],
        typer.Option("--pack-trust-policy", help="As openclaw-mem has it; quarantined memories never get in."),
    ] = "off",
    graph_aware: Annotated[bool, typer.Option("--graph-aware", help="As --use-graph on, with what it gave.")] = False,
    pack_artifacts: Annotated[
        Literal["off", "on"], typer.Option(help="on: long memories in one line; `fusion mem get` has the whole text.")
    ] = "off",
    timeout_ms: TimeoutMs = None,
    trace: Annotated[bool, typer.Option("--trace", help="Also why each candidate is in or not.")] = False,
    project: Project = None,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Answer a question with a context pack: a few cited lines for a prompt.

    It is printed in JSON as openclaw-mem prints it; with --no-json, the bundle alone.
    """
    from fusion.doors.compat.openclaw_mem import packs

    words = [*([query] if query is not None else ()), *(question or ()), *([query_en] if query_en else ())]
    require_words(words, "fusion mem pack --query 'what did we decide about the database?'")
    more: dict[str, Any] = {
        "project": project or graph_scope,
        "tail_text": tail_of(tail_file, "\n".join(tail_text or ())),
        "tail_max_items": tail_max_items,
        "tail_budget_tokens": tail_budget_tokens or None,
        "graph": "on" if graph_aware else use_graph,
        "layer": "L0" if pack_artifacts == "on" else None,
        "graph_soft_ms": graph_latency_soft_ms,
        "graph_hard_ms": graph_latency_hard_ms,
        "timezone": local_zone(),
        "timeout_ms": timeout_ms,
        "trace": trace or None,
    }
    async with target.client() as client:
        ledger = ledger_of(client, owner.ids(), all_users=all_users)
        made = await ledger.pack(" ".join(words), limit, budget_tokens, **more)
    made |= packs.graph_aware(made) if graph_aware else {}
    made |= packs.shortened(made) if pack_artifacts == "on" else {}
    if target.as_json:
        target.show(made, "")
        return
    if made["bundle_text"]:
        print(made["bundle_text"])
    if made["receipt"]["abstained"]:
        say(nothing_recalled(made))
    if trace:
        sys.stderr.write(json_line(made["trace"]))
