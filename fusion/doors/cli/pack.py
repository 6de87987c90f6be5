"""Ask all memories; get a context pack."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from io import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import require_words, say_if_empty, say_if_expanded
from fusion.doors.cli.options import AllUsers, AskerAgent, AskerSession, AsOf, Project, TimeoutMs, Timezone, WhereOption
from fusion.doors.cli.where import where_of
from fusion.doors.terminal import json_line
from fusion.errors import BadInput
from fusion.lib.moment import local_zone

if TYPE_CHECKING:
    from fusion import wire

TAIL_BYTES = 64_000
"""bytes of a file with turns that are read: its end"""


@command()
async def pack(
    *,
    question: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION...", help="The question; quotes are not needed.")
    ] = None,
    query: Annotated[str | None, typer.Option(help="The question, as an option.")] = None,
    owner: Owner,
    all_users: AllUsers = False,
    project: Project = None,
    budget_tokens: Annotated[int, typer.Option(min=1, help="The most estimated tokens in the pack.")] = 1200,
    max_items: Annotated[int, typer.Option(min=1, max=100, help="The most lines in the pack.")] = 12,
    layer: Annotated[
        Literal["L0", "L1", "L2"] | None,
        typer.Option(help="Show long memories as L0 one line, L1 a few sentences, or L2 in detail."),
    ] = None,
    max_l2: Annotated[int, typer.Option(min=0, max=100, help="The most long memories in detail.")] = 2,
    tail_text: Annotated[
        str, typer.Option(help="The last turns of the conversation, one a line; they come first.")
    ] = "",
    tail_file: Annotated[Path | None, typer.Option(help="A file with these turns; - reads standard input.")] = None,
    tail_max_items: Annotated[int, typer.Option(min=0, max=100, help="The most of these turns.")] = 4,
    tail_budget_tokens: Annotated[
        int | None, typer.Option(min=1, help="The most tokens of these turns: 240, in a small pack half of it.")
    ] = None,
    graph: Annotated[
        Literal["off", "auto", "on"], typer.Option(help="Facts and paths of the graph first, where it has some.")
    ] = "off",
    lane: Annotated[
        list[str] | None,
        typer.Option(help="Also search hot, what the session did lately, or cold, its episodes. Repeatable."),
    ] = None,
    include_archived: Annotated[
        bool, typer.Option("--include-archived", help="Also show memories that were archived.")
    ] = False,
    as_of: AsOf = None,
    timezone: Timezone = None,
    where: WhereOption = None,
    backend: Annotated[list[str] | None, typer.Option(help="Ask only this backend. Repeatable.")] = None,
    recipe: Annotated[str | None, typer.Option(help="A recipe, as of `fusion fuse`.")] = None,
    timeout_ms: TimeoutMs = None,
    asker_agent: AskerAgent = None,
    asker_session: AskerSession = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Also why each candidate is in or not: in the JSON, else on stderr.")
    ] = False,
    target: Target,
) -> None:
    """Ask all memories; print a few cited lines for a prompt.

    They are a context pack: --json prints openclaw-mem.context-pack.v1.
    """
    words = [*([query] if query is not None else ()), *(question or ())]
    require_words(words, "fusion pack what did we decide about the database")
    asker = {"agent_id": asker_agent, "session_id": asker_session}
    async with target.client() as client:
        made = await client.pack(
            " ".join(words),
            **owner.ids(),
            all_users=all_users or None,
            project=project,
            budget_tokens=budget_tokens,
            max_items=max_items,
            layer=layer,
            max_l2=max_l2,
            tail_text=tail_of(tail_file, tail_text),
            tail_max_items=tail_max_items,
            tail_budget_tokens=tail_budget_tokens,
            graph=graph,
            graph_soft_ms=None,
            graph_hard_ms=None,
            lanes=lane or None,
            include_archived=include_archived or None,
            as_of=as_of,
            timezone=timezone or local_zone(),
            where=where_of(where),
            backends=backend or None,
            recipe=recipe,
            timeout_ms=timeout_ms,
            asker=asker if any(asker.values()) else None,
            trace=trace or None,
        )
        target.show(made, lambda answer: _print(answer, trace=trace))
        if made["receipt"]["abstained"] and not target.as_json:
            await say_if_empty(client, target.folder())
            say_if_expanded(question or ())


def nothing_recalled(made: Mapping[str, Any]) -> str:
    """Why no memory is in a pack, which may have episodes or facts instead."""
    others = any(not item["recordRef"].startswith("tail:") for item in made["items"])
    said = "no memory was recalled" if others else "nothing was recalled"
    return f"{said}: {made['receipt']['abstained']}"


def _print(made: wire.PackReply, *, trace: bool) -> None:
    """Print the bundle alone; why it is empty and the trace go to stderr."""
    receipt = made["receipt"]
    if made["bundle_text"]:
        print(made["bundle_text"])
    if receipt["abstained"]:
        print(f"fusion: {nothing_recalled(made)}", file=sys.stderr)
    if trace:
        sys.stderr.write(json_line(made["trace"] or {}))


def tail_of(file: Path | None, text: str) -> str:
    """The tail: a text, or the end of a file with turns. Raises BadInput for both."""
    if file is None:
        return text
    if text:
        raise BadInput("--tail-text and --tail-file: give one of the two")
    if str(file) == "-":
        return sys.stdin.read()[-TAIL_BYTES:]
    if not file.is_file():
        raise BadInput(f"--tail-file: there is no file {file}")
    with file.open("rb") as opened:
        size = opened.seek(0, SEEK_END)
        opened.seek(max(0, size - TAIL_BYTES))
        return opened.read().decode("utf-8", "replace")
