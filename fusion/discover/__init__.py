"""Finds what could become memory on this computer: folders of notes, agents' sessions, memory servers on loopback.

It reads names, sizes and the beginnings of files, follows no link, and asks servers who they are. It writes nothing.
`fusion init` shows the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusion.discover.files import SECONDS, Find, Group, find
from fusion.discover.memory_cortex import CortexBlock, cortex_block
from fusion.discover.servers import PORTS, Server, servers
from fusion.discover.topics import Topic, foreign, topics


@dataclass(frozen=True, slots=True)
class Discovery:
    """Everything that was found; ``complete`` says that there was time to look everywhere."""

    finds: tuple[Find, ...]
    servers: tuple[Server, ...]
    complete: bool = True
    cortex: CortexBlock | None = None
    """the settings of Memory Cortex in those of OpenClaw"""


async def discover(
    user: Path,
    cwd: Path,
    scan: Sequence[Path] = (),
    *,
    never: Sequence[Path] = (),
    ports: Mapping[str, Sequence[int]] = PORTS,
    seconds: float = SECONDS,
) -> Discovery:
    """Finds notes, sessions and servers below ``user`` (a home folder), in ``cwd`` and ``scan``, but not in ``never``.

    Takes about ``seconds`` at most.
    """
    found, answering, cortex = await asyncio.gather(
        asyncio.to_thread(find, user, cwd, scan, never=never, seconds=seconds),
        servers(ports),
        asyncio.to_thread(cortex_block, user),
    )
    return Discovery(found.finds, answering, found.complete, cortex)


__all__ = ["PORTS", "CortexBlock", "Discovery", "Find", "Group", "Server", "Topic", "discover", "foreign", "topics"]
