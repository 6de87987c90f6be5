"""What on this computer could become memory: folders of notes, agents' sessions, memory servers on loopback.

It looks, it decides nothing, and it leaves no trace: names, sizes and small heads of files are read, links are not
followed, servers are asked who they are. It stands beside the doors and not in one, for it is no command: `fusion init`
shows what it finds, and other doors may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusion.discover.files import SECONDS, Find, Group, find
from fusion.discover.servers import PORTS, Server, servers
from fusion.discover.topics import Topic, topics


@dataclass(frozen=True, slots=True)
class Discovery:
    """``complete``: there was time to look everywhere."""

    finds: tuple[Find, ...]
    servers: tuple[Server, ...]
    complete: bool = True


async def discover(
    user: Path,
    cwd: Path,
    scan: Sequence[Path] = (),
    *,
    never: Sequence[Path] = (),
    ports: Mapping[str, Sequence[int]] = PORTS,
    seconds: float = SECONDS,
) -> Discovery:
    """Looks in the places where agents and people keep such things: below ``user`` (a home folder), in ``cwd``, and in
    ``scan``; not in the folders ``never``. Takes ``seconds`` at most, plus a moment."""
    found, answering = await asyncio.gather(
        asyncio.to_thread(find, user, cwd, scan, never=never, seconds=seconds), servers(ports)
    )
    return Discovery(found.finds, answering, found.complete)


__all__ = ["PORTS", "Discovery", "Find", "Group", "Server", "Topic", "discover", "topics"]
