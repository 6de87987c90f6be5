"""`fusion forget`: shows what it would forget, asks, forgets it in pages with a bar, and reports what became of it.

What was shown is what is forgotten: the refs of the preview are sent, and the question is not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusion.doors.cli import render
from fusion.doors.cli.confirm import confirm, preview, require_answer
from fusion.doors.cli.connect import print_json
from fusion.doors.cli.progress import bar
from fusion.errors import NotFound

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

PAGE = 500
"""maximum refs in one request; between two requests the bar moves"""
MAX_SHOWN = 20
"""maximum memories in a preview on the screen"""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to forget, within a scope: the memories with these refs, or those that match all ``criteria``.

    With ``all_users`` a query that names nobody searches the memories of all users.
    """

    refs: tuple[str, ...]
    criteria: Mapping[str, str | None]
    scope: Mapping[str, Any]
    all_users: bool = False

    def arguments(self) -> dict[str, Any]:
        """The arguments of the client's call. A source that is a file here becomes the source of its memories."""
        given = {name: value for name, value in self.criteria.items() if value is not None}
        source = given.get("source")
        if source is not None and not source.startswith("file:") and (path := Path(source).expanduser()).is_file():
            given["source"] = f"file:{path.resolve()}"
        refs = {"refs": self.refs} if self.refs else {}
        return {**given, **refs, "all_users": self.all_users or None, **self.scope}


async def forget(client: AsyncClient, selection: Selection, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Forgets the selection once the user agrees; with ``dry_run`` only shows it.

    Raises NotFound for a selection of nothing, BadInput for one of everything.
    """
    looked = await _find(client, selection)
    found, missing = looked["found"], looked["missing"]
    if not found and not dry_run:
        hint = "; `fusion forgotten` lists what was forgotten before"
        raise NotFound("there is nothing like that here" + (f": {', '.join(missing)}{hint}" if missing else ""))
    if dry_run:
        if as_json:
            print_json(looked)
            return
        preview(found[:MAX_SHOWN], len(found))
        line = f"{len(found)} would be forgotten."
        line += " More memories match less well; a narrower question finds them." if looked["more"] else ""
        print(line + (f" Not here, or forgotten before: {', '.join(missing)}" if missing else ""))
        render.released(looked["released"], dry_run=True)
        return
    if not selection.refs:
        require_answer(yes=yes, as_json=as_json)
    if not yes and not as_json:
        preview(found[:MAX_SHOWN], len(found))
        render.released(looked["released"], dry_run=True)
        confirm(f"Forget {len(found)} everywhere? It cannot be undone.")
    refs = [one["ref"] for one in found if not one.get("same_as")]  # copies are forgotten with the memory
    receipts = await _forget_pages(client, refs, selection.scope, quiet=as_json)
    if as_json:
        shown: list[wire.FoundToForget] = [{**one, "text": ""} for one in found]
        print_json(_reply(shown, receipts, missing, _released(receipts), more=looked["more"], dry_run=False))
    else:
        render.forgettings(receipts, missing)
        render.released(_released(receipts), dry_run=False)


async def _find(client: AsyncClient, selection: Selection) -> wire.ForgetReply:
    """What would be forgotten, each memory once; ``more`` says whether more memories match less well."""
    arguments = selection.arguments()
    found: dict[str, wire.FoundToForget] = {}
    missing: list[str] = []
    released: list[str] = []
    refs, more = selection.refs, False
    pages: list[dict[str, Any]] = [{"refs": refs[first : first + PAGE]} for first in range(0, len(refs), PAGE)] or [{}]
    cursor: str | None = None
    while pages:
        reply = await client.forget_many(**{**arguments, **pages.pop(0)}, dry_run=True, cursor=cursor)
        for one in reply["found"]:  # a later page may name a copy itself
            found.setdefault(one["ref"], one)
        missing.extend(reply["missing"])
        released.extend(reply["released"])
        more = reply["more"] and not refs
        cursor = None if refs else reply["next_cursor"]
        if cursor is not None:
            pages.append({})
    free = [ref for ref in dict.fromkeys(released) if ref not in found]  # another page may forget it
    return _reply(list(found.values()), [], missing, free, more=more, dry_run=True)


async def _forget_pages(
    client: AsyncClient, refs: Sequence[str], scope: Mapping[str, Any], *, quiet: bool
) -> list[wire.Forgotten]:
    receipts: list[wire.Forgotten] = []
    with bar("forgetting", len(refs), quiet=quiet or len(refs) <= PAGE, transient=True) as advance:
        for first in range(0, len(refs), PAGE):
            page = refs[first : first + PAGE]
            receipts.extend((await client.forget_many(refs=page, **scope))["receipts"])
            advance(len(page))
    return receipts


def _released(receipts: Sequence[wire.Forgotten]) -> list[str]:
    """The refs of memories that are answered again, without those that a later page forgot."""
    gone = {ref for one in receipts for ref in (one["ref"], *one.get("also", ()))}
    return [ref for one in receipts for ref in one.get("released", ()) if ref not in gone]


def _reply(
    found: Sequence[wire.FoundToForget],
    receipts: Sequence[wire.Forgotten],
    missing: Sequence[str],
    released: Sequence[str],
    *,
    more: bool,
    dry_run: bool,
) -> wire.ForgetReply:
    """All pages as one reply."""
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
        "released": list(released),
    }
