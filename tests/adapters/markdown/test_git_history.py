"""Notes in a git repository, as Letta's MemFS keeps them: the files are memories, their history is earlier versions."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.markdown.git_history import Limits, NoHistory, versions_of
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from tests.patience import load

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

HUMAN = "system/human.md"
BLOCK = "---\ndescription: What I know of the person that I work for.\nlimit: 20000\n---\n\n{}\n"
FIRST, SECOND, THIRD = (
    BLOCK.format(f"Ada lives in {place} and keeps bees there.") for place in ("Lund", "Malmö", "Ystad")
)
MANY = 10


class MemFS:
    """A folder as Letta keeps an agent's memory: Markdown blocks with front matter below ``system``, in git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "system").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> None:
        """Run git as the agent does, at a time of its own for each commit."""
        names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY.items()}
        environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "-C", self.folder, *words], check=True, env=environment, capture_output=True)

    def write(self, text: str, path: str = HUMAN) -> None:
        (self.folder / path).write_text(text, encoding="utf-8")

    def commit(self, text: str, why: str, path: str = HUMAN) -> None:
        self.write(text, path)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", why)

    def date(self, author: str) -> None:
        """Give the last commit this line of its author and date, which git itself would not write."""
        tree, parent, _, end = self._said("cat-file", "commit", "HEAD").decode().splitlines()[:4]
        made = f"{tree}\n{parent}\n{author}\n{end}\n\nOf no date\n".encode()
        hashed = self._said("hash-object", "-t", "commit", "-w", "--literally", "--stdin", sent=made)
        self.git("update-ref", "HEAD", hashed.decode().strip())

    def _said(self, *words: str, sent: bytes = b"") -> bytes:
        return subprocess.check_output(["git", "-C", self.folder, *words], input=sent)

    def versions(self, path: str = HUMAN, limit: int = MANY, max_bytes: int = 100_000) -> list[tuple[str, str]]:
        """The reason and the text of each earlier version."""
        now = (self.folder / path).read_bytes()
        return [(one.why, one.text) for one in versions_of(self.folder, path, now, limit, max_bytes)]


SIGNER = """#!/bin/sh
cat > /dev/null
echo "[GNUPG:] SIG_CREATED " >&2
printf -- "-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n"
"""
IDENTITY = {"NAME": "Letta Agent", "EMAIL": "agent@example.org", "DATE": "2026-11-20T10:02:00+00:00"}


@pytest.fixture
def memfs(tmp_path: Path) -> MemFS:
    made = MemFS(tmp_path / "memory")
    made.commit(FIRST, "Remember where Ada lives")
    made.commit(SECOND, "Ada has moved")
    return made


def test_earlier_commits_are_versions(memfs: MemFS) -> None:
    """The present text is none of them, be it committed or not; a commit of other files is none either."""
    memfs.commit("# Bees\n", "Another block", "bees.md")
    assert memfs.versions() == [("Remember where Ada lives", FIRST)]
    memfs.write(THIRD)
    assert memfs.versions() == [("Ada has moved", SECOND), ("Remember where Ada lives", FIRST)]
    assert memfs.versions(limit=1) == [("Ada has moved", SECOND)]
    [newest, _] = versions_of(memfs.folder, HUMAN, THIRD.encode(), MANY, 100_000)
    assert (newest.at, newest.by) == (datetime(2026, 11, 20, 10, 2, tzinfo=UTC), "Letta Agent")


def test_deleted_and_large_versions_are_left_out(memfs: MemFS) -> None:
    memfs.commit("x" * 5000, "Too much")
    memfs.git("rm", "--quiet", HUMAN)
    memfs.git("commit", "--quiet", "--message", "Forget it")
    memfs.write("", "keep.md")
    (memfs.folder / "system").mkdir(exist_ok=True)
    memfs.commit(THIRD, "Again")
    found = memfs.versions(max_bytes=1000)
    assert [why for why, _ in found] == ["Ada has moved", "Remember where Ada lives"]


@pytest.mark.parametrize("date", ["", "soon", "-1 +0000", "99999999999999 +0000", "9" * 18 + " +0000", "9" * 30])
def test_commits_without_a_date_are_left_out(memfs: MemFS, date: str) -> None:
    """Without a date, or with one that no calendar has; the others are versions as ever."""
    memfs.commit(THIRD, "Ada has moved again")
    memfs.date(f"author Bot <b@example.org> {date}")
    memfs.commit("Nothing.\n", "Nothing is known")
    assert [why for why, _ in memfs.versions()] == ["Ada has moved", "Remember where Ada lives"]


def test_repository_below_the_folder_has_the_history(memfs: MemFS) -> None:
    """A folder with the memories of several agents, each a repository."""
    found = versions_of(memfs.folder.parent, f"memory/{HUMAN}", SECOND.encode(), MANY, 100_000)
    assert [one.text for one in found] == [FIRST]


@pytest.mark.feature(
    "… a repository that would run programs or lead elsewhere runs none", of="Notes in a git repository"
)
def test_settings_of_the_repository_run_nothing(memfs: MemFS, tmp_path: Path) -> None:
    """Hooks, monitors, pagers, filters, text conversion, signatures, credentials, external transports."""
    trap = tmp_path / "trap.sh"
    sprung = tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {sprung}\ncat\n")
    trap.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(trap, hooks / name)
    signer = tmp_path / "signer.sh"
    signer.write_text(SIGNER)
    signer.chmod(0o755)
    memfs.commit("*.md diff=trap filter=trap\n", "Attributes", ".gitattributes")
    memfs.write(THIRD)
    memfs.git("-c", f"gpg.program={signer}", "commit", "--all", "--gpg-sign=key", "--message", "Signed")
    memfs.git("rm", "--quiet", "--cached", ".gitattributes")
    settings = {
        "core.hooksPath": hooks, "core.fsmonitor": trap, "core.pager": trap, "core.sshCommand": trap,
        "core.askPass": trap, "core.editor": trap, "core.alternateRefsCommand": trap, "diff.external": trap,
        "diff.trap.textconv": trap, "diff.trap.command": trap, "filter.trap.smudge": trap, "filter.trap.clean": trap,
        "filter.trap.process": trap, "gpg.program": trap, "gpg.ssh.program": trap, "credential.helper": trap,
        "log.showSignature": "true", "pager.log": trap, "pager.cat-file": trap, "alias.log": f"!{trap}",
        "alias.cat-file": f"!{trap}", "remote.origin.url": f"ext::{trap}", "remote.origin.promisor": "true",
        "remote.origin.uploadpack": trap, "protocol.ext.allow": "always", "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1", "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    }  # fmt: skip
    for name, value in settings.items():
        memfs.git("config", name, str(value))
    blob = subprocess.check_output(
        ["git", "-C", memfs.folder, "hash-object", "--stdin"], input=FIRST.encode(), text=False
    )
    name = blob.decode().strip()
    (memfs.folder / ".git" / "objects" / name[:2] / name[2:]).unlink()  # git would fetch it from its remote
    sprung.unlink(missing_ok=True)
    assert memfs.versions() == [("Ada has moved", SECOND)]
    assert not sprung.exists(), sprung.read_text()


def test_repository_that_leads_elsewhere_has_no_history(memfs: MemFS, tmp_path: Path) -> None:
    """A `.git` that is a file or a link, and a repository that shares another one's commits."""
    for number, kind in enumerate(("file", "link", "shared")):
        other = tmp_path / str(number)
        (other / "system").mkdir(parents=True)
        (other / HUMAN).write_text(THIRD)
        git = memfs.folder / ".git"
        if kind == "file":
            (other / ".git").write_text(f"gitdir: {git}\n")
        elif kind == "link":
            (other / ".git").symlink_to(git)
        else:
            (other / ".git").mkdir()
            (other / ".git" / "commondir").write_text(str(git))
        if kind == "shared":
            with pytest.raises(NoHistory, match="part of another"):
                versions_of(other, HUMAN, THIRD.encode(), MANY, 100_000)
        else:
            assert versions_of(other, HUMAN, THIRD.encode(), MANY, 100_000) == []


@pytest.mark.parametrize(
    "at", ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/heads/main", "HEAD"]
)
def test_links_in_a_repository_lead_nowhere(memfs: MemFS, tmp_path: Path, at: str) -> None:
    """Each of them would show another repository's texts."""
    elsewhere = tmp_path / "elsewhere"
    (memfs.folder / ".git" / at).rename(elsewhere)
    (memfs.folder / ".git" / at).symlink_to(elsewhere)
    with pytest.raises(NoHistory, match="has links"):
        memfs.versions()


def test_objects_of_another_repository_are_not_read(memfs: MemFS, tmp_path: Path) -> None:
    """As after `git clone --shared`."""
    other = tmp_path / "other"
    memfs.git("clone", "--quiet", "--shared", str(memfs.folder), str(other))
    assert (other / ".git" / "objects" / "info" / "alternates").exists()
    with pytest.raises(NoHistory, match="part of another"):
        versions_of(other, HUMAN, THIRD.encode(), MANY, 100_000)


def test_broken_repository_and_missing_git_are_named(memfs: MemFS, monkeypatch: pytest.MonkeyPatch) -> None:
    (memfs.folder / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(NoHistory, match="cannot read its repository"):
        memfs.versions()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoHistory, match="no command git"):
        memfs.versions()


def test_git_that_hangs_or_says_too_much_is_ended(
    memfs: MemFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of bytes and time, which are small here."""
    with pytest.raises(NoHistory, match="too long"):
        versions_of(memfs.folder, HUMAN, THIRD.encode(), MANY, 100_000, Limits(log_bytes=10))
    of_one = Limits(total_bytes=len(SECOND.encode()))
    [only] = versions_of(memfs.folder, HUMAN, THIRD.encode(), MANY, 100_000, of_one)
    assert only.text == SECOND
    hanging = tmp_path / "bin"
    hanging.mkdir()
    (hanging / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (hanging / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{hanging}:{os.environ['PATH']}")
    with pytest.raises(NoHistory, match="took too long"):
        versions_of(memfs.folder, HUMAN, THIRD.encode(), MANY, 100_000, Limits(seconds=0.2))


@pytest.fixture
async def gateway(memfs: MemFS, tmp_path: Path) -> AsyncIterator[Gateway]:
    one = {"adapter": "adapters.markdown:Markdown", "paths": [str(memfs.folder)]}
    settings = load(home=tmp_path / "home", backends_only=True, embedder={"adapter": ""}, backends={"markdown": one})
    async with Gateway.open(settings) as opened:
        yield opened


PRIVATE = Scope(audience="private")


@pytest.mark.feature("Notes in a git repository (Letta's MemFS) are memories, and their history is earlier versions")
async def test_memories_of_memfs_have_versions(gateway: Gateway, memfs: MemFS) -> None:
    """A block has the present text alone; its versions are shown to its owner, and to no group."""
    fused = await gateway.fuse("Where does Ada live?", scope=PRIVATE)
    assert "Malmö" in fused.block
    assert "Lund" not in fused.block
    [memory] = fused.memories
    found = await gateway.memory(memory.members[0].ref, PRIVATE)
    assert found["document"] == f"memory/{HUMAN}"
    page = await gateway.document(found["document"], PRIVATE, versions=MANY)
    assert "Malmö" in page["text"]
    assert page["versions"] == [
        {"at": "2026-11-20T10:02:00+00:00", "by": "Letta Agent", "why": "Remember where Ada lives", "text": FIRST}
    ]
    group = await gateway.document(found["document"], replace(PRIVATE, audience="group"), versions=MANY)
    assert group["versions"] == []
    assert "versions" not in await gateway.document(found["document"], PRIVATE)


@pytest.mark.feature("… without what was forgotten and secrets", of="Notes in a git repository")
async def test_versions_leave_out_what_was_forgotten(gateway: Gateway, memfs: MemFS) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    memfs.commit(f"{SECOND}\nThe key is {secret}\n", f"Keep {secret}")
    memfs.commit(f"{SECOND}\nAda has a boat.\n", "A boat instead")
    await gateway.guarded["markdown"].backend.refresh()  # type: ignore[attr-defined]
    [memory] = (await gateway.fuse("Where does Ada live?", scope=PRIVATE)).memories
    await gateway.forget(memory.members[0].ref, PRIVATE)
    page = await gateway.document(f"memory/{HUMAN}", PRIVATE, versions=MANY)
    said = str(page["versions"])
    assert len(page["versions"]) == 3
    assert secret not in said
    assert "Malmö" not in said
    assert "Malmö" not in page["text"]


async def test_files_without_a_repository_have_no_versions(gateway: Gateway, memfs: MemFS) -> None:
    shutil.rmtree(memfs.folder / ".git")
    page = await gateway.document(f"memory/{HUMAN}", PRIVATE, versions=MANY)
    assert "Malmö" in page["text"]
    assert page["versions"] == []
