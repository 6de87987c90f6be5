"""The workspace of the home's owner, as jobs and undo use it: the user's folder that the gateway may write to."""

from __future__ import annotations

import re
from pathlib import Path

from fusion.errors import BadInput
from fusion.settings import Settings
from fusion.store.workspace import Workspace

_CHANGE = re.compile(r"w[1-9]\d{0,8}")


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


def is_change(name: str) -> bool:
    """Whether a name is that of a change of the workspace, as `w12`."""
    return _CHANGE.fullmatch(name) is not None
