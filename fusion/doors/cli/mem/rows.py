"""What the commands of `fusion mem` print with ``--json``: the rows and receipts of openclaw-mem."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusion.doors import terminal

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient
    from fusion.doors.cli.command import Owner
    from fusion.doors.compat.openclaw_mem.ledger import Ledger


def ledger_of(client: AsyncClient, scope: Mapping[str, Any], *, all_users: bool = False) -> Ledger:
    """The memory as openclaw-mem's clients see it, in the scope of a command."""
    from fusion.doors.compat.openclaw_mem.ledger import Ledger

    return Ledger(client, {name: value for name, value in scope.items() if value is not None}, all_users)


def appended(
    kept: wire.EpisodeKept,
    owner: Owner,
    scope: str | None,
    kind: str,
    summary: str,
    payload: object,
    refs: object,
) -> dict[str, Any]:
    """What became of an observation, in our fields and in those of openclaw-mem."""
    from datetime import UTC, datetime

    from fusion.doors.compat.openclaw_mem.episodes import GLOBAL, NewEpisode
    from fusion.doors.compat.openclaw_mem.ledger import envelope

    episode = NewEpisode(
        scope or GLOBAL, owner.session or "", owner.agent or "", kind, summary, payload, refs, kept["event_id"]
    )
    return {**kept, **envelope("episodes.append", "v0", **episode.receipt(kept, datetime.now(UTC)))}


def listed(
    page: wire.EpisodePage, scope: str | None, session: str | None, types: Sequence[str], limit: int, *, payload: bool
) -> dict[str, Any]:
    """A page of episodes, in our fields and in those of openclaw-mem."""
    from fusion.doors.compat.openclaw_mem import episodes
    from fusion.doors.compat.openclaw_mem.ledger import envelope

    items = episodes.page(page["episodes"], include_payload=payload)
    return {
        **page,
        **envelope(
            "episodes.query",
            "v0",
            ok=True,
            scope=scope or episodes.GLOBAL,
            filters=episodes.filters(session, types, limit, include_payload=payload),
            count=len(items),
            items=items,
        ),
    }


def without_payloads(episodes: Sequence[wire.Episode]) -> list[wire.Episode]:
    """Episodes without what was said, called or returned; their refs stay, which openclaw-mem always prints."""
    return [{name: value for name, value in one.items() if name != "payload"} for one in episodes]  # type: ignore[misc]


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as one line of JSON: an array, as openclaw-mem prints it."""
    sys.stdout.write(terminal.json_line(list(rows)))
    sys.stdout.flush()
