"""What is known of memories besides their texts: `fusion mem trust` and `fusion mem plans`."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion import wire
from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import refs_of
from fusion.doors.cli.options import PageSize
from fusion.doors.cli.plural import counted


@command()
async def trust(
    *,
    ref: Annotated[str, typer.Argument(help="The ref of a memory: m1z, or obs:m1z.")],
    owner: Owner,
    target: Target,
) -> None:
    """Explain the trust of a memory.

    Where it comes from, each change, and how the memory was used. Use never raises trust.
    """
    async with target.client() as client:
        report = await client.trust("".join(refs_of([ref.removeprefix("obs:")])), **owner.ids())
    target.show(report, _trust(report))


@command()
async def plans(
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are not due yet.")] = False,
    limit: PageSize = 20,
    owner: Owner,
    target: Target,
) -> None:
    """List plans that are due or overdue.

    `fusion state REF --archive` says that one is done.
    """
    async with target.client() as client:
        page = await client.plans(everything=everything, limit=limit, **owner.ids())
    target.show(page, _plans(page))


def _trust(report: wire.TrustReport) -> str:
    provenance = report["provenance"]
    lines = [
        f"{report['ref']}  {report['trust']}; {report['stated_trust']} when it came",
        f"from      {provenance['kind']} {provenance['ref']}".rstrip(),
        f"origin    {report['origin']}",
        f"used      in {counted(report['included'], 'block')}, found {counted(report['retrieved'], 'time')}",
    ]
    for made in report["changes"]:
        values = ", ".join(f"{one['before']['trust']} -> {one['after']['trust']}" for one in made["changes"])
        reason = " ".join(made["why"].split())
        lines.append(f"{made['id']:<8}  {made['at'][:19].replace('T', ' ')} {made['who']}: {values}; {reason}")
    if report["quarantined"]:
        lines.append("It is quarantined: no answer, pack or tool shows it.")
    return "\n".join([*lines, report["rule"]])


def _plans(page: wire.Plans) -> str:
    if not page["plans"]:
        return "Nothing is due. `--all` also lists what is to come."
    lines = [
        f"{one['ref']:<8}  {one['status']:<8}  {(one['due'] or '-')[:10]}  {' '.join(one['text'].split())[:100]}"
        for one in page["plans"]
    ]
    return "\n".join([*lines, *(["There are more: --limit"] if page["more"] else [])])
