"""The job `feed` sends the memory files of the workspace to backends that accept them, such as a local Cognee.

A file is sent by section. The name of a section is made of the home, the path and the hash of the text, so the names
that a backend has show which sections it lacks. A run sends the new sections, then deletes those that are no longer in
a file. The job keeps no list of its own, an interrupted run is continued by the next one, and an unchanged section is
sent once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fusion.contract import REFLECTION, TakesFiles
from fusion.errors import BadInput
from fusion.lib.chunk import chunks
from fusion.lib.clean import clean
from fusion.lib.envelope import is_marked, without_private
from fusion.lib.front_matter import front_matter
from fusion.lib.ignore import ALWAYS, matcher
from fusion.lib.redact import redact
from fusion.lib.walk import Unlisted, walk
from fusion.store.workspace import Workspace
from fusion.upkeep.job import JobContext

NAME = "feed"
NOBODY = "-"
"""the step of a home without a backend that can be sent files"""
DOES = "Send MEMORY.md and the notes of your workspace to Cognee, if its settings say workspace = true."
SECTION_TOKENS = 1000
BATCH = 20
"""sections in one batch; a run may end between two batches"""
MAX_FILE_BYTES = 4 << 20
MAX_LISTED = 100
"""maximum paths in a receipt"""
_PRIVATE = re.compile(r"(?<![\w#])#private\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a file: the name under which it is sent, its path, and its text."""

    name: str
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The backends that accept files, by name, and the short id of the home."""

    backends: Mapping[str, TakesFiles]
    home: Callable[[], Awaitable[str]]
    files: Sequence[str]
    """patterns of .gitignore that say which files are sent"""

    async def steps(self) -> Sequence[str]:
        """One step for each backend."""
        return sorted(self.backends) or [NOBODY]


def step(workspace: Workspace | None, sources: Sources) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one backend: send what it lacks, and delete what is no longer in a file."""

    async def run(context: JobContext, name: str) -> None:
        if name == NOBODY:
            context.result["backends"] = "no backend can be sent files; Cognee can: [backends.cognee] workspace = true"
            return
        backend = sources.backends[name]
        wanted: Sequence[Section] = ()
        unread: Mapping[str, str] = {}
        if backend.takes_files:
            if workspace is None:
                raise BadInput("no workspace is known: [workspace] root_folder names the folder of MEMORY.md")
            wanted, unread = await asyncio.to_thread(sections, workspace, sources.files, await sources.home())
            if unread:
                context.result.setdefault("left", []).extend(unread.values())
        home = await sources.home()
        there = set(await backend.sections(prefix_of(home)))
        new = [one for one in wanted if one.name not in there]
        stays = tuple(prefix_of(home, path) for path in unread)
        gone = sorted(name for name in there - {one.name for one in wanted} if not name.startswith(stays))
        context.add({"sections": len(wanted), "sections_to_send": len(new), "sections_to_delete": len(gone)})
        if new:
            paths = dict.fromkeys(one.path for one in new)
            context.result.setdefault("files", {})[name] = [*paths][:MAX_LISTED]
        context.add({"characters": sum(len(one.text) for one in new)})
        if not context.dry_run:
            await _bring_up_to_date(context, backend, new, gone)

    return run


async def _bring_up_to_date(
    context: JobContext, backend: TakesFiles, new: Sequence[Section], gone: Sequence[str]
) -> None:
    """Send and delete, in batches. The new text comes first, so that a file is never missing there."""
    context.add({"sections_sent": 0, "sections_deleted": 0})
    for start in range(0, len(new), BATCH):
        if start and not context.left_s:
            context.result["stopped"] = "the time of the run is over; the next run goes on"
            return
        batch = new[start : start + BATCH]
        await backend.add_sections({one.name: one.text for one in batch})
        context.add({"sections_sent": len(batch)})
        context.report(start + len(batch), len(new))
    await backend.delete_sections(gone)
    context.add({"sections_deleted": len(gone)})


def sections(workspace: Workspace, patterns: Sequence[str], home: str) -> tuple[list[Section], dict[str, str]]:
    """The sections of the workspace's files, and by path why a file could not be read: what was sent of it stays.

    Reflections are the agent's own words, of which no fact may be made, so they are left out without a reason. Raises
    BadInput for a folder that cannot be listed or is empty: its disk may not be mounted.
    """
    found: dict[str, Section] = {}
    unread = {}
    for path in paths(workspace, patterns):
        try:
            text = _text(workspace.read(path).data or b"", path)
        except BadInput as error:
            unread[path] = str(error)
            continue
        found |= {one.name: one for one in _sections(text, path, home)}
    return list(found.values()), unread


def paths(workspace: Workspace, patterns: Sequence[str]) -> list[str]:
    """The files of the workspace that the patterns name; hidden ones never. Raises BadInput as `sections` does."""
    fits, hidden = matcher(patterns), matcher(ALWAYS)
    found = list(walk(workspace.root, hidden))
    for one in found:
        if isinstance(one, Unlisted):
            raise BadInput(f"{workspace.root / one.path} cannot be listed: {one.error.strerror}; nothing was changed")
    if not found:
        raise BadInput(f"{workspace.root} is empty: its disk may not be mounted; nothing was changed")
    return [one.path for one in found if one.path.endswith(".md") and fits(one.path, False)]


def _text(data: bytes, path: str) -> str:
    """The text of a file. Raises BadInput."""
    if len(data) > MAX_FILE_BYTES:
        raise BadInput(f"{path} has more than {MAX_FILE_BYTES:,} bytes, so it is not sent")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is no text in UTF-8, so it is not sent") from None
    if "\0" in text:
        raise BadInput(f"{path} is no text, so it is not sent")
    return text


def _sections(text: str, path: str, home: str) -> Iterator[Section]:
    """The sections of a file that may be sent, without secrets and private parts."""
    matter = front_matter(text)
    if matter.get("memory-fusion") == REFLECTION or "private" in re.split(r"[,\s]+", matter.get("tags", "").lower()):
        return
    for chunk in chunks(without_private(text), SECTION_TOKENS, 0):
        if not chunk.text.strip() or _PRIVATE.search(chunk.text) or is_marked(chunk.text):
            continue
        said = redact(clean(chunk.text)[0])[0].strip()
        whole = f"{' › '.join([path, *chunk.headings])}\n\n{said}"
        yield Section(f"{prefix_of(home, path)}{_digest(whole, 8)}", path, whole)


def prefix_of(home: str, path: str = "") -> str:
    """The prefix of the names of a home's sections, or of those of one of its files."""
    return f"memory-fusion-{home}-" + (f"{_digest(path, 4)}-" if path else "")


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()
