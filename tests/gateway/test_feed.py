"""The job `feed`: the memory files of a workspace in a Cognee that its owner runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.upkeep.feed import BATCH
from tests import chaos
from tests.chaos import Chaos
from tests.cognee.server import Served
from tests.gateway.workspaces import Agent, run_job
from tests.patience import PATIENT_MS

NADIA = Scope(user_id="nadia", audience="private")
MEMORY = """\
# Memory

## Health
- Mia is allergic to peanuts.

## Work
- julien -> corrected_by -> bug gateway
"""


@dataclass
class Home:
    """A home whose agent has a workspace, with a Cognee."""

    agent: Agent
    served: Served
    server: Chaos

    @property
    def texts(self) -> list[str]:
        """What Cognee has, without the lines that the adapter adds."""
        return sorted(one.text.rpartition("\n\n[file ")[0] for one in self.served.datasets.get("memory", {}).values())

    @property
    def adds(self) -> int:
        return sum(call.path == "/api/v1/add" for call in self.server.calls)

    @asynccontextmanager
    async def opened(self, *, workspace: bool = True, write: bool = False) -> AsyncIterator[Gateway]:
        cognee = {
            "adapter": "adapters.cognee:Cognee",
            "url": self.server.url,
            "connect_ms": PATIENT_MS,
            "dataset": "memory",
            "workspace": workspace,
            "bound": {"user_id": "nadia"},
        }
        backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}, "cognee": cognee}
        folder = {"write": write, "root_folder": str(self.agent.workspace)}
        async with self.agent.opened(backends=backends, workspace=folder) as gateway:
            yield gateway


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    served = Served(apart=False)
    agent = Agent(tmp_path.resolve())
    agent.memory.write_text(MEMORY)
    async with Chaos(behaviour=served) as server:
        yield Home(agent, served, server)


async def fed(gateway: Gateway, *, dry_run: bool = False) -> dict[str, Any]:
    """The result of a run of the job, which ends well, once Cognee has built its graph."""
    run = await run_job(gateway, "feed", dry_run=dry_run)
    assert run.status == "done", run.receipt
    await gateway.settle()
    result: dict[str, Any] = dict(run.receipt["result"])
    return result


@pytest.mark.row("A114", "Cognee is fed from MEMORY.md and the notes of the workspace, by the job `feed`")
async def test_memory_files_are_sent_by_section_and_found(home: Home) -> None:
    """Each section under its headings; and what is found of them is private to the owner."""
    (home.agent.workspace / "memory").mkdir()
    (home.agent.workspace / "memory" / "2026-11-20.md").write_text("The harbour office opens at nine.\n")
    async with home.opened() as gateway:
        result = await fed(gateway)
        assert (result["sections_sent"], result["sections_deleted"]) == (3, 0)
        assert result["files"] == {"cognee": ["MEMORY.md", "memory/2026-11-20.md"]}
        assert home.texts == [
            "MEMORY.md › Memory › Health\n\n# Memory\n\n## Health\n- Mia is allergic to peanuts.",
            "MEMORY.md › Memory › Work\n\n## Work\n- julien -> corrected_by -> bug gateway",
            "memory/2026-11-20.md\n\nThe harbour office opens at nine.",
        ]
        hits = (await gateway.search("cognee", "bug gateway", NADIA, 10)).hits
        assert any(hit.path == ("- julien", "corrected_by", "bug gateway") for hit in hits)
        assert {hit.scope.audience for hit in hits} == {"private"}
        assert not (await gateway.search("cognee", "bug gateway", Scope(user_id="nadia"), 10)).hits, "a group asks"


@pytest.mark.feature("a second run of `feed` sends nothing; it follows edits and deletions of files")
async def test_edits_and_deletions_are_followed(home: Home) -> None:
    async with home.opened() as gateway:
        await fed(gateway)
        adds = home.adds
        assert (await fed(gateway))["sections_to_send"] == 0
        assert home.adds == adds
        home.agent.memory.write_text(MEMORY.replace("peanuts", "peanuts and cashews"))
        result = await fed(gateway)
        assert (result["sections_sent"], result["sections_deleted"]) == (1, 1)
        assert "cashews" in home.texts[0]
        assert len(home.texts) == 2
        (home.agent.workspace / "SOUL.md").write_text("You are calm.\n")
        home.agent.memory.unlink()
        assert (await fed(gateway))["sections_deleted"] == 2
        assert home.texts == []


@pytest.mark.feature("`feed` deletes nothing while a file or the workspace cannot be read")
async def test_what_cannot_be_read_now_stays(home: Home) -> None:
    """The file is binary for once; then the disk is not mounted, so the folder is missing, or empty."""
    note = home.agent.workspace / "memory" / "note.md"
    note.parent.mkdir()
    note.write_text("The boat is red.\n")
    async with home.opened() as gateway:
        await fed(gateway)
        before = home.texts
        note.write_bytes(b"\xff\xfe")
        result = await fed(gateway)
        assert result["left"] == ["memory/note.md is no text in UTF-8, so it is not sent"]
        away = home.agent.workspace.rename(home.agent.folder / "away")
        for said in ("cannot be listed", "is empty"):
            run = await run_job(gateway, "feed")
            assert run.status == "failed"
            assert said in run.receipt["faults"]["cognee"]
            home.agent.workspace.mkdir(exist_ok=True)
        assert home.texts == before
        home.agent.workspace.rmdir()
        away.rename(home.agent.workspace)
        note.write_text("The boat is blue.\n")
        assert (await fed(gateway))["sections_deleted"] == 1
    assert len(home.texts) == len(before)


@pytest.mark.feature("a dry run of `feed` says which files would be sent, and sends nothing")
async def test_a_dry_run_sends_nothing(home: Home) -> None:
    async with home.opened() as gateway:
        result = await fed(gateway, dry_run=True)
        assert (result["sections_to_send"], result["files"]) == (2, {"cognee": ["MEMORY.md"]})
        assert result["characters"] > 50
    assert home.adds == 0


@pytest.mark.feature("`feed` sends nothing without `workspace = true`, and takes back what was sent before")
async def test_nothing_is_sent_without_the_setting(home: Home) -> None:
    async with home.opened() as gateway:
        await fed(gateway)
        assert next(view for view in await gateway.jobs().views() if view.name == "feed").schedule == "30 6,18 * * *"
    async with home.opened(workspace=False) as gateway:
        assert next(view for view in await gateway.jobs().views() if view.name == "feed").schedule == "off"
        assert (await fed(gateway))["sections_deleted"] == 2
    assert home.texts == []


async def test_a_home_without_such_a_backend_is_told_what_to_set(home: Home) -> None:
    async with home.agent.opened(backends={"memory": {"adapter": "adapters.inmemory:InMemory"}}) as gateway:
        run = await run_job(gateway, "feed")
        assert (run.status, run.receipt["result"]["backends"].partition(";")[0]) == (
            "done",
            "no backend can be sent files",
        )


@pytest.mark.feature("`feed` leaves out secrets, private parts, reflections, hidden files and links")
async def test_what_is_not_sent(home: Home, tmp_path: Path) -> None:
    folder = home.agent.workspace / "memory"
    (folder / "reflect").mkdir(parents=True)
    (folder / "reflect" / "2026-11-22.md").write_text("---\nmemory-fusion: reflection\n---\n\nI was slow.\n")
    (home.agent.workspace / ".daily-raw").mkdir()
    (home.agent.workspace / ".daily-raw" / "2026-11-22.md").write_text("Raw words.\n")
    (home.agent.workspace / "SOUL.md").write_text("You are calm.\n")
    (folder / "diary.md").write_text("---\ntags: [private]\n---\n\nDear diary.\n")
    (folder / "a.md").write_text("## One\n\nIt is my secret crush #private\n\n## Two\n\nThe boat is red.\n")
    (folder / "b.md").write_text("Before. <private>Nobody reads this.</private> After.\n")
    (folder / "c.md").write_text("The key is sk-ant-api03-" + "x7Qk" * 20 + "\n")
    (folder / "d.md").write_bytes(b"\xff\xfe\x00binary")
    (tmp_path / "outside.md").write_text("Outside of the workspace.\n")
    (folder / "e.md").symlink_to(tmp_path / "outside.md")
    async with home.opened() as gateway:
        result = await fed(gateway)
    sent = "\n".join(home.texts)
    assert "The boat is red." in sent
    assert "Before." in sent
    for word in ("slow", "Raw", "calm", "diary", "crush", "Nobody", "x7Qkx7Qk", "binary", "Outside"):
        assert word not in sent
    assert [line.partition(" ")[0] for line in result["left"]] == ["memory/d.md", "memory/e.md"]


@pytest.mark.feature("`feed` goes on where a run was cut short: what was sent is not sent again")
async def test_a_run_that_was_cut_short_is_continued(home: Home) -> None:
    """The server fails at the second batch; the next run sends the rest."""
    sections = [f"## Part {number}\n\nFact {number} of the harbour.\n" for number in range(BATCH + 5)]
    home.agent.memory.write_text("\n".join(sections))
    async with home.opened() as gateway:
        added = 0

        async def failing(call: chaos.Call) -> None:
            nonlocal added
            added += call.path == "/api/v1/add"
            await (chaos.status(500)(call) if added == 2 else home.served(call))

        home.server.behaviour = failing
        run = await run_job(gateway, "feed")
        assert run.status == "failed"
        assert run.receipt["result"]["sections_sent"] == BATCH
        home.server.behaviour = home.served
        result = await fed(gateway)
    assert result["sections_sent"] == 5
    assert len(home.texts) == BATCH + 5


async def test_a_server_that_is_down_fails_the_run_and_harms_nothing(home: Home) -> None:
    async with home.opened() as gateway:
        await fed(gateway)
        before = home.texts
        home.agent.memory.write_text("# New\n\nAll is new.\n")
        home.server.behaviour = chaos.status(503)
        run = await run_job(gateway, "feed")
        assert run.status == "failed"
        assert "503" in run.receipt["faults"]["cognee"]
    assert home.texts == before


async def test_two_homes_on_one_dataset_leave_each_other_alone(home: Home) -> None:
    """The same file is sent by each under its own names; what one deletes stays for the other."""
    async with home.opened() as gateway:
        await fed(gateway)
    other = Home(Agent(home.agent.folder / "other"), home.served, home.server)
    other.agent.memory.write_text(MEMORY)
    async with other.opened() as gateway:
        assert (await fed(gateway))["sections_sent"] == 2
        (other.agent.workspace / "SOUL.md").write_text("You are calm.\n")
        other.agent.memory.unlink()
        assert (await fed(gateway))["sections_deleted"] == 2
    assert len(home.texts) == 2


@pytest.mark.feature("`feed` runs twice a day, after `distill`")
async def test_the_schedule_follows_distill(home: Home) -> None:
    async with home.opened(write=True) as gateway:
        views = {view.name: view for view in await gateway.jobs().views()}
        feed, distill = views["feed"].next, views["distill"].next
    assert feed is not None
    assert distill is not None
    assert feed - distill == timedelta(minutes=15)
