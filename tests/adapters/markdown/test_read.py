"""A file can be read by name if a scan would read it, whatever its name looks like and whatever is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adapters.markdown import Markdown
from adapters.markdown.files import Root, Unreadable, read
from fusion.contract import ReadsDocuments, Scope
from fusion.lib.walk import open_parent
from tests.adapters.markdown.test_backend import opened
from tests.backend_contract import make_event, make_extracted

SECRET = "the secret beside the memories"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A user's folder `memories`, with a sibling whose name begins like it and a secret outside of both."""
    folder = tmp_path / "memories"
    (folder / "projects").mkdir(parents=True)
    (folder / "projects" / "chains.md").write_text("# Chains\n\nChains come from Kedjan.\n")
    (folder / "MEMORY.md").write_text("Berit's number is in here.\n")
    for name in ("memories-x", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret.md").write_text(SECRET)
    (tmp_path / "secret.md").write_text(SECRET)
    return folder


async def test_a_file_is_read_as_it_is_now(tmp_path: Path, notes: Path) -> None:
    """By the name that its hits have as their document; an edit is seen, and a byte order mark is none of the text."""
    async with opened(tmp_path / "home", notes) as backend:
        assert isinstance(backend, ReadsDocuments)
        found = await backend.read("memories/projects/chains.md")
        assert found is not None
        assert (found.name, found.text) == ("memories/projects/chains.md", "# Chains\n\nChains come from Kedjan.\n")
        (notes / "projects" / "chains.md").write_bytes(b"\xef\xbb\xbfChains come from Hjulhuset.\n")
        again = await backend.read("memories/projects/chains.md")
        assert again is not None
        assert again.text == "Chains come from Hjulhuset.\n"


async def test_whose_a_file_is_comes_with_it(tmp_path: Path, notes: Path) -> None:
    """Files belong to whom they are bound to; MEMORY.md is private."""
    async with opened(tmp_path / "home", notes, bind={"user_id": "ada"}) as backend:
        plain, private = [await backend.read(f"memories/{name}") for name in ("projects/chains.md", "MEMORY.md")]
        assert plain is not None
        assert private is not None
        assert (plain.scope, private.scope) == (Scope(user_id="ada"), Scope(user_id="ada", audience="private"))


async def test_entries_of_our_own_are_not_shown_by_their_file(tmp_path: Path, notes: Path) -> None:
    """A file of ours has many owners' entries: only what somebody wrote between them is read by its name."""
    home = tmp_path / "home"
    async with opened(home, notes) as backend:
        event = make_event(1, "Ada's diary", Scope(user_id="ada"))
        await backend.remember([make_extracted(event)])
        [file] = (home / "notes").glob("*.md")
        assert await backend.read(f"notes/{file.name}") is None
        lines = file.read_text().count("\n")
        with file.open("a") as handle:
            handle.write("Written by hand.\n")
        found = await backend.read(f"notes/{file.name}")
        assert found is not None
        assert found.text.split("\n")[lines] == "Written by hand."
        assert "diary" not in found.text


ATTACKS = {
    "up": "memories/../secret.md",
    "up and up": "../secret.md",
    "up within": "memories/projects/../MEMORY.md",
    "absolute": "{tmp}/secret.md",
    "absolute in the root": "{tmp}/memories/MEMORY.md",
    "absolute below the name": "memories/{tmp}/secret.md",
    "home": "~/secret.md",
    "home of root": "memories/~root/.bashrc",
    "encoded": "memories/%2e%2e/secret.md",
    "encoded slash": "memories%2fMEMORY.md",
    "encoded twice": "memories/%252e%252e/secret.md",
    "NUL": "memories/MEMORY.md\0",
    "NUL in the middle": "memories/MEM\0ORY.md",
    "backslash": "memories\\..\\secret.md",
    "backslash below": "memories/..\\secret.md",
    "sibling prefix": "memories-x/secret.md",
    "sibling prefix without a slash": "memories-x",
    "root itself": "memories/",
    "root without its slash": "memories",
    "empty": "",
    "dot": "memories/./MEMORY.md",
    "double slash": "memories//MEMORY.md",
    "trailing slash": "memories/MEMORY.md/",
    "folder": "memories/projects",
    "lone surrogate": "memories/\udce9.md",
    "wide slash": "memories/..\uff0fsecret.md",
    "not Markdown": "memories/keys.txt",
    "hidden": "memories/.env.md",
    "ignored folder": "memories/node_modules/readme.md",
    "link out": "memories/link.md",
    "link within": "memories/inner.md",
    "folder that is a link": "memories/linked/secret.md",
    "device": "memories/device.md",
    "FIFO": "memories/pipe.md",
    "socket of a process": "memories/gone.md",
    "too large": "memories/large.md",
    "binary": "memories/binary.md",
    "our own folder by another way": "memories/home/notes/2026-01-01.md",
    "the journal": "notes/../../journal.sqlite",
    "the lock of our folder": "notes/.lock",
}


@pytest.mark.row(
    "A069",
    "Markdown: no path leads outside its folders: `..`, absolute, `~`, encoded, NUL, sibling, links, devices, pipes",
)
@pytest.mark.row(
    "A069",
    "`memory_get` with `../`, absolute, `~`, `%2e%2e`, NUL, backslash, a sibling prefix, links, devices, pipes: "
    "the same nothing",
    part="faults/clients",
)
@pytest.mark.parametrize("name", ATTACKS.values(), ids=ATTACKS.keys())
async def test_no_name_leads_elsewhere(tmp_path: Path, notes: Path, name: str) -> None:
    """Every name but a document's own reads nothing, and nothing hangs."""
    (notes / "keys.txt").write_text(SECRET)
    (notes / ".env.md").write_text(SECRET)
    (notes / "node_modules").mkdir()
    (notes / "node_modules" / "readme.md").write_text(SECRET)
    (notes / "link.md").symlink_to(tmp_path / "secret.md")
    (notes / "inner.md").symlink_to(notes / "MEMORY.md")
    (notes / "linked").symlink_to(tmp_path / "outside")
    (notes / "device.md").symlink_to("/dev/zero")
    os.mkfifo(notes / "pipe.md")
    (notes / "large.md").write_text("long\n" * 10_000)
    (notes / "binary.md").write_bytes(b"\0" * 10)
    async with opened(tmp_path / "home", notes, max_file_mb=0.01) as backend:
        assert await backend.read(name.format(tmp=tmp_path)) is None


async def test_a_link_put_there_after_the_look_leads_nowhere(tmp_path: Path, notes: Path) -> None:
    """The name is known, the file behind it became a link, or its folder did: it is not followed."""
    async with opened(tmp_path / "home", notes, scan_interval_s=1e9) as backend:
        chains = notes / "projects" / "chains.md"
        chains.unlink()
        chains.symlink_to(tmp_path / "secret.md")
        assert await backend.read("memories/projects/chains.md") is None
        chains.unlink()
        (notes / "projects").rmdir()
        (tmp_path / "outside" / "chains.md").write_text(SECRET)
        (notes / "projects").symlink_to(tmp_path / "outside")
        assert await backend.read("memories/projects/chains.md") is None


async def test_a_device_or_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, notes: Path) -> None:
    """Only regular files are read; a pipe that nobody writes to holds up nothing."""
    async with opened(tmp_path / "home", notes, scan_interval_s=1e9) as backend:
        (notes / "MEMORY.md").unlink()
        os.mkfifo(notes / "MEMORY.md")
        assert await backend.read("memories/MEMORY.md") is None


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[None]:
    """While the block runs, ``path`` is in turn a file of its own and a link to ``target``."""
    stop = threading.Event()

    def swap() -> None:
        spare = path.with_name("spare")
        while not stop.is_set():
            spare.symlink_to(target)
            spare.rename(path)
            spare.write_text("its own text")
            spare.rename(path)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.feature("Markdown: a link that is put in place after the check is not followed")
@pytest.mark.row("A069", "… a link that replaces a file between the check and the read", of="`memory_get` with `../`")
def test_a_link_that_comes_and_goes_is_never_followed(tmp_path: Path, notes: Path) -> None:
    """2,000 reads while the file is a link half of the time: its own text or nothing, never what the link leads to."""
    root = Root("memories", notes)
    seen = set()
    with swapping(notes / "MEMORY.md", tmp_path / "secret.md"):
        for _ in range(2000):
            try:
                seen.add(read(root, "MEMORY.md", 10_000).data.decode())
            except Unreadable:
                seen.add("")
    assert seen <= {"", "its own text", "Berit's number is in here.\n"}
    assert "its own text" in seen


@pytest.mark.parametrize("path", ["../secret.md", "projects/../../secret.md", "/etc/passwd", "", ".", "projects//x"])
def test_below_a_folder_means_below_it(notes: Path, path: str) -> None:
    """The opening itself refuses a way out, without the list of names before it."""
    with pytest.raises(FileNotFoundError), open_parent(notes, path):
        pass


async def test_a_file_that_went_away_is_not_there(tmp_path: Path, notes: Path) -> None:
    """The scan still knows it; the reader finds it gone."""
    async with opened(tmp_path / "home", notes, scan_interval_s=1e9) as backend:
        (notes / "MEMORY.md").unlink()
        assert await backend.read("memories/MEMORY.md") is None
        assert isinstance(backend, Markdown)
