"""Reads the earlier versions of a file from the git repository that its folder is, as Letta's MemFS keeps its memory.

A repository is hostile until shown otherwise: its own settings name programs to run. So git is only asked to list
commits and to read blobs, which needs none of them, and every setting that would run a program or reach another machine
is overridden. Nothing is written. ``.git`` must be a folder of the notes without links in it, and its objects are its
own, so it leads to no other repository. Any failure costs the history alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from subprocess import DEVNULL, PIPE
from threading import Timer
from typing import IO, cast

from fusion.contract import DocumentVersion

FIELD_CHARS = 200
"""of an author's name and of a commit's subject"""
_OVERRIDDEN = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.askPass": "false",
    "core.sshCommand": "false",
    "core.attributesFile": os.devnull,
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "log.mailmap": "false",
    "log.follow": "false",
    "safe.directory": "*",  # the folder is one of the user's settings; ownership says nothing more about it
}
_SHARED = ("commondir", "objects/info/alternates", "objects/info/http-alternates")
"""what names another repository whose commits are read as well"""
_OPTIONS = ("--no-pager", "--literal-pathspecs", "--no-replace-objects", "--no-optional-locks")
_FORMAT = "%x00".join(("%H", "%at", f"%<({FIELD_CHARS},trunc)%an", f"%<({FIELD_CHARS},trunc)%s"))


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each of git's commands may take, and how much is read of the list of commits and of all versions."""

    seconds: float = 5.0
    log_bytes: int = 1024 * 1024
    total_bytes: int = 4 * 1024 * 1024


class NoHistory(Exception):
    """There is no history to read; ``str`` is the reason."""


@dataclass(frozen=True, slots=True)
class _Commit:
    id_: str
    at: datetime
    author: str
    subject: str


def versions_of(
    root: Path,
    path: str,
    now: bytes,
    limit: int,
    max_bytes: int,
    limits: Limits = Limits(),  # frozen
) -> list[DocumentVersion]:
    """At most ``limit`` versions of a file before ``now``, its present content, newest first.

    ``path`` is relative to ``root``. A version that is larger than ``max_bytes`` is left out. Raises NoHistory.
    """
    folder = _repository_of(root, path)
    if folder is None:
        return []
    repository = _Repository(folder, limits)
    inside = str(PurePosixPath(path).relative_to(folder.relative_to(root).as_posix()))
    commits = repository.commits(inside, limit + 1)
    found: list[DocumentVersion] = []
    later = now
    for commit, content in zip(commits, repository.contents(inside, commits, max_bytes), strict=True):
        if content is not None and content != later:
            text = content.decode("utf-8-sig", "replace")
            found.append(DocumentVersion(commit.at, commit.author, commit.subject, text))
            later = content
    return found[:limit]


def _repository_of(root: Path, path: str) -> Path | None:
    """The folder of the repository that has a file: the nearest with a folder ``.git``, at or below ``root``."""
    if "\n" in path or "\0" in path:
        raise NoHistory("its name has a line break")
    for folder in (root / path).parents:
        git = folder / ".git"
        if git.is_dir() and not git.is_symlink():
            _refuse_elsewhere(git)
            return folder
        if folder == root:
            break
    return None


def _refuse_elsewhere(git: Path) -> None:
    """Raise NoHistory if a repository has commits or files that are outside its folder."""
    try:
        if any((git / name).exists() for name in _SHARED):
            raise NoHistory("its repository is part of another one")
        if any(path.is_symlink() for path in _read_by_git(git)):
            raise NoHistory("its repository has links, which lead elsewhere")
    except OSError as error:
        raise NoHistory("its repository cannot be read") from error


def _read_by_git(git: Path) -> Iterator[Path]:
    """The entries of a repository's folder; after them all that is below its objects and refs, following no link."""
    yield from git.iterdir()
    for name in ("objects", "refs"):
        for folder, folders, files in os.walk(git / name):
            yield from (Path(folder, one) for one in (*folders, *files))


@dataclass(frozen=True, slots=True)
class _Repository:
    """The questions to git about one repository."""

    folder: Path
    limits: Limits

    def commits(self, path: str, limit: int) -> list[_Commit]:
        """The latest commits that changed a file, newest first, without those whose date is in no calendar."""
        words = ["log", f"--max-count={limit}", f"--format={_FORMAT}", "--no-show-signature", "--no-patch", "-z"]
        listed = self._git([*words, "--", path], b"", self.limits.log_bytes)
        rows = zip(*[iter(listed.decode("utf-8", "replace").split("\0"))] * 4, strict=False)
        found = (_commit(*row) for row in rows)
        return [commit for commit in found if commit is not None]

    def contents(self, path: str, commits: Sequence[_Commit], max_bytes: int) -> Iterator[bytes | None]:
        """The content of a file after each of these commits; None where it was deleted, is no file, or is too large."""
        names = [f"{commit.id_}:{path}" for commit in commits]
        chosen: list[tuple[str, int]] = []
        room = self.limits.total_bytes
        for name, size in zip(names, self._sizes(names), strict=True):
            if size is not None and size <= min(max_bytes, room):
                chosen.append((name, size))
                room -= size
        said = self._objects("--batch=", [name for name, _ in chosen], 2 * self.limits.total_bytes)
        read: dict[str, bytes] = {}
        for name, size in chosen:  # each object follows an empty line, and a line break follows it
            read[name], said = said[1 : size + 1], said[size + 2 :]
        return map(read.get, names)

    def _sizes(self, names: Sequence[str]) -> list[int | None]:
        """The bytes of each file; None for what is none."""
        said = self._objects("--batch-check=%(objecttype) %(objectsize)", names, self.limits.log_bytes)
        lines = said.decode("utf-8", "replace").split("\n")[:-1]
        if len(lines) != len(names):
            raise NoHistory("git did not answer as expected")
        return [_size(line) for line in lines]

    def _objects(self, batch: str, names: Sequence[str], most: int) -> bytes:
        """What `git cat-file` prints of objects by name."""
        sent = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        return self._git(["cat-file", batch], sent, most) if names else b""

    def _git(self, words: Sequence[str], sent: bytes, most: int) -> bytes:
        """What git prints, at most ``most`` bytes. Raises NoHistory if it fails, takes too long, or prints more."""
        command = shutil.which("git")
        if command is None:
            raise NoHistory("there is no command git here")
        settings = [word for name, value in _OVERRIDDEN.items() for word in ("-c", f"{name}={value}")]
        options = [f"--git-dir={self.folder / '.git'}", f"--work-tree={self.folder}", *_OPTIONS]
        with subprocess.Popen(
            [command, *settings, *options, *words],
            cwd=self.folder,
            env=_environment(),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        ) as process:
            timer = Timer(self.limits.seconds, process.kill)
            timer.start()
            said = b""
            try:
                said = _talk(process, sent, most)
            finally:
                timer.cancel()
                if len(said) > most:
                    process.kill()
        if len(said) > most:
            raise NoHistory("its history is too long")
        if process.returncode:
            raise NoHistory("git cannot read its repository, or took too long")
        return said


def _talk(process: subprocess.Popen[bytes], sent: bytes, most: int) -> bytes:
    """Send all of ``sent``, which fits into a pipe, and read one byte more than ``most``, or to the end."""
    stdin, stdout = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)
    with suppress(BrokenPipeError):
        stdin.write(sent)
        stdin.close()
    return stdout.read(most + 1)


def _commit(id_: str, at: str, author: str, subject: str) -> _Commit | None:
    """A commit as `git log` lists it; None without a date that a calendar has."""
    try:
        return _Commit(id_, datetime.fromtimestamp(int(at), UTC), author.strip(), subject.strip())
    except (ValueError, OverflowError, OSError):
        return None


def _size(line: str) -> int | None:
    """The bytes of a file from a line of `git cat-file`; None for what is none."""
    kind, _, size = line.partition(" ")
    return int(size) if kind == "blob" and size.isdecimal() else None


def _environment() -> dict[str, str]:
    """The variables of git: no settings but the repository's, which are overridden, no question, no other machine."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PAGER": "cat",
    }
