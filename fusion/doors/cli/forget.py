"""`fusion forget`: show what is meant, ask, forget it in pages with a bar, and say what became of it.

What was shown is what is forgotten: the refs of the preview are sent, not its question again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fusion.doors import terminal
from fusion.doors.cli import render
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput, NotFound

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

PAGE = 100
SHOWN = 20
"""memories in a preview on the screen"""
AT_ONCE = 100
"""forgotten by one request, so that the bar moves"""


@dataclass(frozen=True, slots=True)
class Meant:
    """What somebody wants to have forgotten: refs, or what meets all that is ``said``; within a scope."""

    refs: tuple[str, ...]
    said: Mapping[str, str | None]
    scope: Mapping[str, Any]

    def asked(self) -> dict[str, Any]:
        """As the client takes it; a file that is there is the source that its memories name."""
        said = {name: value for name, value in self.said.items() if value is not None}
        source = said.get("source")
        if source is not None and not source.startswith("file:") and (path := Path(source).expanduser()).is_file():
            said["source"] = f"file:{path.resolve()}"
        return {**said, **({"refs": self.refs} if self.refs else {}), **self.scope}


async def forget(client: AsyncClient, meant: Meant, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Forgets what is meant, when whoever sees it agrees; with ``dry_run`` only shows it.

    Raises NotFound where that is nothing, BadInput where it would be everything.
    """
    found, missing, more = await _found(client, meant)
    if not found and not dry_run:
        before = "; what was forgotten before, `fusion forgotten` lists"
        raise NotFound("there is nothing like that here" + (f": {', '.join(missing)}{before}" if missing else ""))
    if dry_run:
        if as_json:
            _print(_reply(found, [], missing, more=more, dry_run=True))
        else:
            _show(found)
            _say(f"{len(found)} would be forgotten.", missing, more)
        return
    if not yes and not meant.refs and as_json:
        raise BadInput("with --json nobody is asked: look with --dry-run first, then add --yes")
    if not yes and not as_json:
        _show(found)
        if not typer.confirm(f"Forget {len(found)} everywhere? It cannot be undone."):
            raise typer.Exit(1)
    named = [one["ref"] for one in found if not one.get("same_as")]  # the copies go with them
    receipts = await _forgotten(client, named, meant.scope, quiet=as_json)
    if as_json:
        _print(_reply([{**one, "text": ""} for one in found], receipts, missing, more=more, dry_run=False))
    else:
        render.forgettings(receipts, missing)


async def _found(client: AsyncClient, meant: Meant) -> tuple[list[wire.FoundToForget], list[str], bool]:
    """What is meant, each once; the refs of nothing here; and whether a question finds more than that."""
    asked = meant.asked()
    found: dict[str, wire.FoundToForget] = {}
    missing: list[str] = []

    def find(reply: wire.Forgetting) -> None:
        for one in reply["found"]:  # a copy may be named itself on a later page
            found.setdefault(one["ref"], one)

    if meant.refs:
        for first in range(0, len(meant.refs), PAGE):
            reply = await client.forget_many(**{**asked, "refs": meant.refs[first : first + PAGE]}, dry_run=True)
            find(reply)
            missing.extend(reply["missing"])
        return list(found.values()), missing, False
    reply = await client.forget_many(**asked, dry_run=True)
    find(reply)
    while reply["next_cursor"] is not None:
        reply = await client.forget_many(**asked, dry_run=True, cursor=reply["next_cursor"])
        find(reply)
    return list(found.values()), missing, reply["more"]


async def _forgotten(
    client: AsyncClient, refs: Sequence[str], scope: Mapping[str, Any], *, quiet: bool
) -> list[wire.Forgotten]:
    receipts: list[wire.Forgotten] = []
    with bar("forgetting", len(refs), quiet=quiet or len(refs) <= AT_ONCE, transient=True) as advance:
        for first in range(0, len(refs), AT_ONCE):
            some = refs[first : first + AT_ONCE]
            receipts.extend((await client.forget_many(refs=some, **scope))["receipts"])
            advance(len(some))
    return receipts


def _reply(
    found: Sequence[wire.FoundToForget],
    receipts: Sequence[wire.Forgotten],
    missing: Sequence[str],
    *,
    more: bool,
    dry_run: bool,
) -> wire.Forgetting:
    """All pages as the one reply that they are."""
    pending = sum(not {"pending", "still_there"}.isdisjoint(one["backends"].values()) for one in receipts)
    return {
        "dry_run": dry_run,
        "found": list(found),
        "receipts": list(receipts),
        "missing": list(missing),
        "done": not pending,
        "pending": pending,
        "more": more,
        "next_cursor": None,
    }


def _show(found: Sequence[wire.FoundToForget]) -> None:
    if found:
        render.to_forget(found[:SHOWN])
    if len(found) > SHOWN:
        _say(f"…and {len(found) - SHOWN} more.")


def _say(line: str, missing: Sequence[str] = (), more: bool = False) -> None:
    if more:
        line += " There are more that are less like it; a narrower question finds them."
    if missing:
        line += f" Not here, or forgotten before: {', '.join(missing)}"
    sys.stdout.write(line + "\n")


def _print(content: Mapping[str, object]) -> None:
    sys.stdout.write(terminal.json_line(content))
