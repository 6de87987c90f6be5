"""Looking after temporal facts: `fusion mem graph fact registry | stale | invalidate | propose | route`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import require_words
from fusion.doors.cli.mem.facts import written_lines
from fusion.errors import BadInput
from fusion.lib.ids import EPISODE

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.lib.temporal_facts import Assertion

Reference = Annotated[list[str], typer.Option("--source", "--source-ref", help="What says so: obs:m1z. Repeatable.")]


@command()
def registry(*, target: Target) -> None:
    """List the predicates: their aliases, what they take, and which have one object at a time."""
    from fusion.doors.compat.openclaw_mem import facts

    found = facts.registry()
    lines = [
        f"{name:<16}  {one['cardinality']:<7}  {' or '.join(one['object_types'])}  (also {', '.join(one['aliases'])})"
        for name, one in found["predicates"].items()
    ]
    target.show(found, "\n".join(lines))


@command()
async def stale(
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="As openclaw-mem has it; facts are judged when they are read.")
    ] = False,
    owner: Owner,
    target: Target,
) -> None:
    """List facts that are no current truth any more, with the reasons."""
    from fusion.doors.compat.openclaw_mem import facts

    async with target.client() as client:
        found = facts.stale(await client.lint_facts(**owner.ids()))
    lines = [
        f"{one['fact_id']}  {one['subject']} {one['predicate']}  {'; '.join(one['reasons'])}" for one in found["facts"]
    ]
    target.show(found, "\n".join(lines) or "no fact is stale")


@command()
async def invalidate(
    *,
    fact_id: Annotated[str, typer.Option(help="The id of the fact, as `current` and `timeline` print it.")],
    source: Reference,
    invalidated_at: Annotated[str | None, typer.Option(help="When it ended; now by default.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Say that a fact ended, with the memories that say so; `retract` also says that one never held."""
    from fusion.doors.compat.openclaw_mem import facts, ids

    async with target.client() as client:
        written = await client.retract_fact(
            fact_id,
            how="invalidated",
            at=invalidated_at,
            sources=[ids.ref_of(one) for one in source],
            asserted_by="operator",
            **owner.ids(),
        )
    target.show(facts.invalidated(written), written_lines(written))


@command()
async def propose(
    *,
    source: Reference,
    text: Annotated[str | None, typer.Option(help="The text to read.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file to read instead.")] = None,
    max_proposals: Annotated[int, typer.Option(min=1, max=200, help="The most candidates.")] = 20,
    owner: Owner,
    target: Target,
) -> None:
    """Show which facts a text might assert, each as a command for review; store nothing.

    Lines `fact: …`, lines that begin with `entity:`, and English sentences are read.
    """
    from fusion.doors.compat.openclaw_mem import facts, ids
    from fusion.ingest.fact_candidates import candidates

    said = _text(text, file)
    async with target.client() as client:
        refs = [await _seen(client, ids.ref_of(one), owner.ids()) for one in source]
    found = candidates(said, max_proposals)
    lines = [_assert_command(one, refs) for one in found]
    target.show(facts.proposals(found, refs), "\n".join(lines) or "the text asserts nothing that the rules know")


@command()
async def route(
    *,
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="The question.")],
    subject: Annotated[str | None, typer.Option(help="What it is about; by default an entity that it names.")] = None,
    budget_tokens: Annotated[int, typer.Option(help="The most estimated tokens of the pack.")] = 1200,
    max_items: Annotated[int, typer.Option(help="The most facts in the pack.")] = 20,
    owner: Owner,
    target: Target,
) -> None:
    """Answer a question from the current facts about its subject, if there are some.

    The subject is named by --subject, by `entity:x` in the question, or by the name of an entity of the graph.
    """
    from fusion.doors.compat.openclaw_mem import facts

    require_words(query, "fusion mem graph fact route 'which database does api-gateway use?'")
    question = " ".join(query)
    scope: dict[str, Any] = owner.ids()
    async with target.client() as client:
        named = [subject] if subject else await _subjects(client, question, scope)
        for one in named:
            known = await client.current_facts(one, **scope)
            if known["facts"]:
                packed = await client.fact_pack(one, budget_tokens=budget_tokens, max_items=max_items, **scope)
                shown = facts.pack(packed, known["facts"], include_stale=False)
                target.show(facts.routed(question, known["subject"], shown), shown["bundle_text"])
                return
    lacking = facts.not_routed(question, named[0] if named else None)
    target.show(lacking, f"no current fact about {named[0] if named else 'what it names'}; ask: fusion mem pack")


async def _subjects(client: AsyncClient, question: str, scope: dict[str, Any]) -> list[str]:
    """What a question may be about: the refs of entities in it, else the entities of the graph that it names."""
    return re.findall(r"\bentity:[\w.:/-]*\w", question) or (await client.graph_match(question, **scope))["entities"]


async def _seen(client: AsyncClient, ref: str, scope: dict[str, Any]) -> str:
    """The ref of a source as facts show it. Raises NotFound for one that the caller may not see."""
    from fusion.lib.listing import record_ref

    if ref.startswith(EPISODE):
        return (await client.episode(ref, **scope))["ref"]
    return record_ref((await client.memory(ref, **scope))["ref"])


def _text(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        raise BadInput("--text or --file: give one of the two")
    try:
        return text if text is not None else Path(str(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--file: {file} cannot be read as text: {error}") from None


def _assert_command(one: Assertion, sources: list[str]) -> str:
    """The command that asserts a candidate."""
    words = ["--subject", one.subject, "--predicate", one.predicate, "--object", one.object.text]
    words += [word for ref in sources for word in ("--source", ref)]
    return f"fusion mem graph fact assert {shlex.join(words)}"


COMMANDS: Mapping[str, Callable[..., None]] = {
    "registry": registry,
    "stale": stale,
    "invalidate": invalidate,
    "propose": propose,
    "route": route,
}
