"""The workspace of the home's owner, as jobs and undo use it: the user's folder that the gateway may write to."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from fusion import wire
from fusion.errors import BadInput
from fusion.settings import Settings
from fusion.store.workspace import Workspace

_CHANGE = re.compile(r"w[1-9]\d{0,8}")
_RUN = re.compile(r"j[1-9]\d{0,8}")


def records_of(home: Path) -> Path:
    """The folder of a home for the copies and the log of changes to the workspace."""
    return home / "workspace"


def workspace_of(settings: Settings) -> Workspace | None:
    """The workspace that may be written to; None unless [workspace] write = true."""
    root = settings.workspace.writable
    return None if root is None else Workspace(root, records_of(settings.home))


def readable_workspace(settings: Settings) -> Workspace | None:
    """The workspace whose files may be read, also where none may be written; None if the settings name none."""
    root = settings.workspace.folder
    return None if root is None else Workspace(root, records_of(settings.home))


def required(settings: Settings) -> Workspace:
    """As `workspace_of`; raises BadInput where nothing may be written."""
    found = workspace_of(settings)
    if found is None:
        raise BadInput(
            "no workspace may be written to. To allow it, write in fusion.toml: [workspace] write = true, and "
            "root_folder, the folder of MEMORY.md"
        )
    return found


def require_workspace_owner(*, is_owner: bool) -> None:
    """Raises BadInput unless the owner of the home asks to take a change of the workspace back."""
    if not is_owner:
        raise BadInput("only the owner of the home may take back a change of the workspace")


async def undo_run(settings: Settings, run: str, *, dry_run: bool) -> wire.DecisionUndone:
    """Take back what a run of a job changed in the workspace. Raises as `Workspace.undo_run`."""
    undone = await asyncio.to_thread(required(settings).undo_run, run, dry_run=dry_run)
    return {"decision": None, "undone": len(undone), "files": [f"{one.name} {one.path}" for one in undone]}


def is_run(name: str) -> bool:
    """Whether a name is that of a run of a job, as `j12`. The runs of the lifecycle have other names."""
    return _RUN.fullmatch(name) is not None


def is_change(name: str) -> bool:
    """Whether a name is that of a change of the workspace, as `w12`."""
    return _CHANGE.fullmatch(name) is not None
