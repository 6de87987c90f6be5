"""The folder of added models: what is installed is whole and the pinned file, and nothing goes through a link."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusion.errors import ModelMissing
from fusion.local_models import files
from fusion.local_models.registry import LocalModel
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = encoder_onnx(8)
MODEL = small_model(CONTENT)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "memory-fusion-models"


def test_models_are_kept_outside_of_every_home(data: Path) -> None:
    """Next to the user's own home, not in it: a home that is copied or deleted has no models in it."""
    assert files.folder() == data
    assert files.own_path(MODEL) == data / f"small-int8-{MODEL.sha256[:8]}.onnx"


@pytest.mark.feature("an added model is installed whole or not at all, and checked by its pinned hash")
def test_install_keeps_the_pinned_file_alone(data: Path) -> None:
    """Every byte is reported; the file is the user's alone, and nothing else stays in the folder."""
    copied: list[int] = []
    path = files.install(MODEL, io.BytesIO(CONTENT), copied.append)
    assert (path.read_bytes(), sum(copied), [*data.iterdir()]) == (CONTENT, len(CONTENT), [path])
    assert path.stat().st_mode & 0o777 == 0o600
    assert files.verify(MODEL) == path == files.find(MODEL)
    assert files.remove(MODEL)
    assert not files.remove(MODEL)
    assert not files.is_installed(MODEL)
    with pytest.raises(ModelMissing, match="the model small is not installed: fusion models add small"):
        files.find(MODEL)


DAMAGED = {
    "cut": (CONTENT[:-1], f"is cut or another one: it has {len(CONTENT) - 1:,} bytes, and the model has"),
    "empty": (b"", "is cut or another one: it has 0 bytes"),
    "longer": (CONTENT + b"!", "another sha256"),
    "one byte changed": (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), "another sha256"),
}


@pytest.mark.feature("a model file that is cut, or of another hash, is refused with the command that fixes it")
@pytest.mark.parametrize("case", DAMAGED)
def test_install_refuses_another_file(case: str, data: Path) -> None:
    """What was installed before stays, and no temporary file is left."""
    content, why = DAMAGED[case]
    with pytest.raises(ModelMissing, match=why):
        files.install(MODEL, io.BytesIO(content))
    assert [*data.iterdir()] == []
    path = files.install(MODEL, io.BytesIO(CONTENT))
    with pytest.raises(ModelMissing, match=why):
        files.install(MODEL, io.BytesIO(content))
    assert ([*data.iterdir()], path.read_bytes()) == ([path], CONTENT)


@pytest.mark.parametrize("case", DAMAGED)
def test_verify_refuses_a_file_that_was_changed_later(case: str) -> None:
    content, why = DAMAGED[case]
    written(files.own_path(MODEL), content)
    with pytest.raises(ModelMissing, match=rf"(?s){why}.*: fusion models add small$"):
        files.verify(MODEL)


class Interrupted(io.BytesIO):
    """A file whose reading ends with Ctrl-C after its first bytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise KeyboardInterrupt
        return super().read(10)


def test_an_interrupted_install_leaves_nothing(data: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        files.install(MODEL, Interrupted(CONTENT))
    assert [*data.iterdir()] == []


@contextmanager
def linked(target: Path, at: Path) -> Iterator[None]:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(target)
    yield


@pytest.mark.feature("no model is written or read through a link")
def test_what_a_killed_install_left_is_deleted_by_the_next_one(data: Path) -> None:
    """After an hour without a byte; what another process is writing now stays."""
    data.mkdir(parents=True)
    left, under_way = data / ".adding-killed.onnx", data / ".adding-now.onnx"
    for file in (left, under_way):
        file.write_bytes(CONTENT[:5])
    os.utime(left, (0, 0))
    path = files.install(MODEL, io.BytesIO(CONTENT))
    assert {*data.iterdir()} == {path, under_way}


def test_no_model_goes_through_a_link(tmp_path: Path) -> None:
    """A link at the model's place is replaced, not followed; it is not read either, even where its file is right."""
    elsewhere = written(tmp_path / "elsewhere.onnx", CONTENT)
    with linked(elsewhere, files.own_path(MODEL)):
        with pytest.raises(ModelMissing, match=r"cannot be read.*fusion models add small"):
            files.verify(MODEL)
        elsewhere.write_bytes(b"mine")
        path = files.install(MODEL, io.BytesIO(CONTENT))
    assert (elsewhere.read_bytes(), path.is_symlink()) == (b"mine", False)


def test_no_model_is_kept_behind_a_linked_folder(data: Path, tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    behind.mkdir()
    with linked(behind, data), pytest.raises(ModelMissing, match="is a link"):
        files.install(MODEL, io.BytesIO(CONTENT))
    assert [*behind.iterdir()] == []


def test_a_fifo_in_a_models_place_is_refused() -> None:
    """It would block for ever."""
    path = files.own_path(MODEL)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(ModelMissing, match="no regular file"):
        files.verify(MODEL)


def test_a_model_of_a_package_that_is_missing_names_pip() -> None:
    model = LocalModel(
        **{name: getattr(MODEL, name) for name in ("name", "title", "kind", "licence", "languages", "sha256", "bytes")},
        sources=type(MODEL.sources)(wheel="no-such-package==1", wheel_package="no_such_package", wheel_file="m.onnx"),
    )
    with pytest.raises(ModelMissing, match="pip install no-such-package==1"):
        files.find(model)
