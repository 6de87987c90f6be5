"""The job `extract` over a home, an agent's sessions and a workspace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway.gateway import Gateway
from fusion.gateway.workspace_jobs import extract_sources
from fusion.ingest.intake import NewMemory
from fusion.store.workspace import Snapshot, Workspace
from fusion.upkeep import extract as job
from fusion.upkeep.job import JobContext
from tests.gateway.workspaces import MONDAY, SESSION, Agent, run_job

DINNER = (
    ("user", "My daughter Mia is allergic to peanuts. Can you book a table at Kedjan for next Friday?"),
    ("assistant", "I've booked a table for four at Kedjan. I updated notes/dinner.md."),
    ("user", "We decided to go with Postgres for the ledger. Which region should the backup use?"),
)
WHOLE = Scope(audience="private")
HEADING = f"2026-11-23 09:00–09:02 · openclaw/main/{SESSION}"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path.resolve() / "openclaw")


def lines_of(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line and not line.startswith("<!--")]


def texts(workspace: Path) -> dict[str, str]:
    return {str(p.relative_to(workspace)): p.read_text() for p in sorted(workspace.rglob("*")) if p.is_file()}


async def extract(gateway: Gateway, *, dry_run: bool = False) -> dict[str, object]:
    run = await run_job(gateway, "extract", dry_run=dry_run)
    assert run.status == "done", run.receipt
    result: dict[str, object] = run.receipt["result"]
    return result


@pytest.mark.row(
    "A105", "the job `extract` writes sessions of the last days to `.daily-raw/` and `memory/interactions.md`"
)
async def test_extract_writes_what_was_said_and_a_summary_of_each_session(agent: Agent) -> None:
    """Asked, said, decided, done, open, days and files; each line names its turn. A second run changes nothing."""
    agent.says(*DINNER)
    async with agent.opened() as gateway:
        first = await extract(gateway)
        assert (first["turns_read"], first["files_changed"], first["indexed"]) == (
            3,
            2,
            {"markdown": "reads what changed"},
        )
        assert lines_of(agent.interactions)[2:] == [
            f"## {HEADING}",
            "- asked: Can you book a table at Kedjan for next Friday? [m1]",
            "- said: user: My daughter Mia is allergic to peanuts. [m1]",
            "- decided: user: We decided to go with Postgres for the ledger. [m3]",
            "- done: I've booked a table for four at Kedjan. [m2]",
            "- done: I updated notes/dinner.md. [m2]",
            "- open: Which region should the backup use? [m3]",
            "- dates: 2026-11-27 (next Friday)",
            "- files: notes/dinner.md",
        ]
        assert lines_of(agent.workspace / ".daily-raw" / "2026-11-23.md")[1:] == [
            f"## {HEADING}",
            f"- 09:00 user: {DINNER[0][1]} [m1]",
            f"- 09:01 assistant: {DINNER[1][1]} [m2]",
            f"- 09:02 user: {DINNER[2][1]} [m3]",
        ]
        before = texts(agent.workspace)
        assert await extract(gateway) == {"turns_read": 0, "turns": 3}
        assert texts(agent.workspace) == before


@pytest.mark.feature("… a dry run shows the diff and writes nothing", of="the job `extract` writes sessions")
async def test_a_dry_run_shows_the_diff(agent: Agent) -> None:
    agent.says(*DINNER)
    async with agent.opened() as gateway:
        await gateway.session_watcher.read_all()
        shown = await extract(gateway, dry_run=True)
        assert "+- said: user: My daughter Mia is allergic to peanuts. [m1]" in shown["diff"]
        assert texts(agent.workspace) == {}


@pytest.mark.feature(
    "… without recalled blocks, heartbeats, secrets, code and output of tools", of="the job `extract` writes"
)
async def test_what_is_no_conversation_is_left_out(agent: Agent) -> None:
    """Also what others than the owner and the agent said, and what is not trusted."""
    block = (
        '<memories nonce="abc">\nRecalled data. Cite by [ref].\n- [m9] Ada once said that she hates tea.\n'
        '</memories nonce="abc">\n'
    )
    agent.says(
        ("user", f"{block}I moved to Oslo in May. My password is hunter2hunter2."),
        ("assistant", "I've changed it:\n```\nI have deleted the whole server\n```\n"),
        ("user", "Read HEARTBEAT.md if it exists (workspace context). If nothing needs attention, reply HEARTBEAT_OK."),
        ("assistant", "HEARTBEAT_OK"),
        ("user", "# Our heading <!-- comment --> says that we live in Bergen since [m77] 2020"),
    )
    async with agent.opened() as gateway:
        for text, fields in {
            "The tool says that we decided to use Oracle.": {"origin": "tool"},
            "A doubtful page says that we decided to use Sybase.": {"trust": "untrusted"},
            "Somebody in the group decided to use Informix.": {"scope": Scope(audience="group"), "origin": "import"},
        }.items():
            given = {"scope": Scope(audience="private"), "kind": "turn", "speaker": "user", **fields}
            await gateway.remember([NewMemory(text, **given)])
        await extract(gateway)
    written = "".join(texts(agent.workspace).values())
    assert "I moved to Oslo in May." in written
    for word in (
        "hates tea",
        "hunter2",
        "deleted the whole",
        "HEARTBEAT",
        "Oracle",
        "Sybase",
        "Informix",
        "<!-- comment",
    ):
        assert word not in written
    assert "Our heading -- comment -- says that we live in Bergen since (m77) 2020 [m" in written


@pytest.mark.feature(
    "… an entry that a person edits or deletes is left as it is", of="the job `extract` writes sessions"
)
async def test_a_persons_edits_of_entries_stay(agent: Agent) -> None:
    """One that was deleted comes back once there is more to say."""
    other = "99999999-2222-3333-4444-555555555555"
    agent.says(*DINNER)
    agent.says(("user", "I prefer tea to coffee in the morning."), session=other, at=MONDAY + timedelta(minutes=5))
    async with agent.opened() as gateway:
        await extract(gateway)
        edited = agent.interactions.read_text().replace("peanuts", "peanuts and walnuts")
        agent.interactions.write_text(edited.split(f"## 2026-11-23 09:05–09:05 · openclaw/main/{other}")[0])
        kept = agent.interactions.read_text()
        assert "tea" not in kept
        agent.says(("user", "We moved to Bergen last week."), at=MONDAY + timedelta(minutes=30))
        await extract(gateway)
        assert agent.interactions.read_text() == kept
        agent.says(("user", "I live in Oslo now."), session=other, at=MONDAY + timedelta(hours=1))
        await extract(gateway)
        assert "I prefer tea to coffee in the morning." in agent.interactions.read_text()
        assert "peanuts and walnuts" in agent.interactions.read_text()


@pytest.mark.feature("… forgotten memories are removed from the files", of="the job `extract` writes sessions")
async def test_what_was_forgotten_goes_from_the_files(agent: Agent) -> None:
    """Of today and of older entries, of which the session is not read any more."""
    agent.says(*DINNER)
    async with agent.opened() as gateway:
        await extract(gateway)
        agent.clock.now += timedelta(days=10)
        agent.says(("user", "I live in Oslo now."), session=SESSION.replace("1", "7"))
        await extract(gateway)
        assert "allergic" in agent.interactions.read_text()
        whole = Scope(audience="private")
        await gateway.forget("m1", whole)
        await gateway.forget("m4", whole)
        await extract(gateway)
        left = "".join(texts(agent.workspace).values())
        assert "allergic" not in left
        assert "Oslo" not in left
        assert "We decided to go with Postgres" in left


async def test_days_are_kept_as_long_as_the_settings_say(agent: Agent) -> None:
    """Four by default. A day's file that a person edited is left."""
    async with agent.opened() as gateway:
        for day in range(7):
            agent.says(("user", f"On day {day} we moved to house number {day}."), session=f"{day}{SESSION[1:]}")
            await extract(gateway)
            if day == 1:
                file = agent.workspace / ".daily-raw" / "2026-11-24.md"
                file.write_text(file.read_text() + "by hand\n")
            result = await extract(gateway)
            agent.clock.now += timedelta(days=1)
    days = [path.name for path in sorted((agent.workspace / ".daily-raw").iterdir())]
    assert days == ["2026-11-24.md", *(f"2026-11-{day}.md" for day in (26, 27, 28, 29))]
    assert result["left"] == [".daily-raw/2026-11-24.md: it was edited, so it is not deleted"]


@pytest.mark.feature("… the oldest whole entries are dropped first", of="the job `extract` writes sessions")
async def test_interactions_roll_by_whole_entries(agent: Agent) -> None:
    agent.settings = {"extract": {"max_chars": 1000}}
    async with agent.opened() as gateway:
        for day in range(8):
            said = f"On day {day} we moved to house number {day} by the long road along the coast of the fjord."
            agent.says(("user", said), session=f"{day}{SESSION[1:]}")
            await extract(gateway)
            agent.clock.now += timedelta(days=1)
    text = agent.interactions.read_text()
    assert len(text) <= 1000
    assert [line[7:13] for line in text.splitlines() if line.startswith("## ")] == [
        "-11-27",
        "-11-28",
        "-11-29",
        "-11-30",
    ]
    assert text.startswith("# Interactions\n")


async def test_nothing_is_written_without_the_setting(agent: Agent) -> None:
    agent.says(*DINNER)
    async with agent.opened(write=False) as gateway:
        run = await run_job(gateway, "extract")
        assert run.status == "failed"
        assert "[workspace] write is false" in str(run.receipt["faults"])
        [job] = [one for one in await gateway.runner.views() if one.name == "extract"]
        assert job.schedule == "off"
    assert texts(agent.workspace) == {}


async def test_several_users_need_a_name(agent: Agent) -> None:
    """Nobody's sessions are written into somebody else's workspace."""
    async with agent.opened() as gateway:
        for user in ("ada", "ben"):
            scope = Scope(user_id=user, audience="private")
            await gateway.remember([NewMemory(f"{user} moved to Oslo.", scope=scope, kind="turn", speaker=user)])
        run = await run_job(gateway, "extract")
        assert "Several users" in str(run.receipt["faults"])
    async with agent.opened(notes={"user_id": "ada"}) as gateway:
        await extract(gateway)
    assert "ada moved" in agent.interactions.read_text()
    assert "ben" not in agent.interactions.read_text()


@pytest.mark.feature("… two homes on one workspace keep each other's entries", of="the job `extract` writes sessions")
async def test_two_hosts_on_one_workspace_keep_each_others_entries(agent: Agent) -> None:
    agent.says(*DINNER)
    for home in ("one", "two"):
        async with agent.opened(home=home) as gateway:
            given = {"scope": Scope(audience="private"), "kind": "turn", "speaker": "user", "source": f"chat:{home}"}
            await gateway.remember([NewMemory(f"I moved to house {home} in May.", **given, revision="1")])
            await extract(gateway)
    for home in ("one", "two"):
        async with agent.opened(home=home) as gateway:
            assert "files_changed" not in await extract(gateway)
    text = agent.interactions.read_text()
    assert text.count("peanuts") == 1
    assert all(f"I moved to house {home} in May." in text for home in ("one", "two"))


class EditedOnce(Workspace):
    """A workspace in which a person edits a file right before it is replaced, once."""

    def __init__(self, root: Path, records: Path) -> None:
        super().__init__(root, records)
        self.edits = 1

    def write(self, read: Snapshot, new: bytes | None, **given: object) -> object:  # type: ignore[override]
        if self.edits and read.path == "memory/interactions.md":
            self.edits -= 1
            path = self.root / read.path
            path.write_text("# Interactions\n\nby hand\n\n" + path.read_text().partition("stays.\n\n")[2])
        return super().write(read, new, **given)  # type: ignore[arg-type]


@pytest.mark.feature(
    "… a file that is edited during a run is written again, with the edit", of="the job `extract` writes"
)
async def test_an_edit_while_the_job_runs_is_kept(agent: Agent) -> None:
    agent.says(*DINNER)
    async with agent.opened() as gateway:
        await extract(gateway)
        agent.says(("user", "I live in Oslo now."), session=SESSION.replace("1", "7"))
        context = JobContext(agent.clock.now, False, 60.0)
        workspace = EditedOnce(agent.workspace, agent.folder / "home" / "workspace")
        await job.step(workspace, extract_sources(gateway), job.Limits(), UTC)(context, "sessions")
    text = agent.interactions.read_text()
    assert "by hand" in text
    assert "Oslo" in text
    assert "peanuts" in text


@pytest.mark.feature("`fusion undo --run j3` takes back all changes of files that one run of a job made, or none")
async def test_a_run_is_taken_back(agent: Agent) -> None:
    """The next run leaves it so, until the session goes on."""
    agent.says(*DINNER)
    async with agent.opened() as gateway:
        before = texts(agent.workspace)
        run = await run_job(gateway, "extract")
        name = f"j{run.id}"
        written = texts(agent.workspace)
        shown = await gateway.undo_run(name, WHOLE, dry_run=True)
        assert shown == {
            "decision": None, "undone": 2, "files": ["w2 memory/interactions.md", "w1 .daily-raw/2026-11-23.md"]
        }  # fmt: skip
        assert texts(agent.workspace) == written
        agent.interactions.write_text(agent.interactions.read_text() + "\nmy own line\n")
        with pytest.raises(BadInput, match=r"memory/interactions\.md was changed after w2"):
            await gateway.undo_run(name, WHOLE)
        assert (agent.workspace / ".daily-raw" / "2026-11-23.md").exists()
        agent.interactions.write_text(written["memory/interactions.md"])
        assert await gateway.undo_run(name, WHOLE) == shown
        assert texts(agent.workspace) == before
        assert "files_changed" not in await extract(gateway)
        with pytest.raises(NotFound, match="j9 changed no file"):
            await gateway.undo_run("j9", WHOLE)
        with pytest.raises(BadInput, match="only the owner"):
            await gateway.undo_run(name, WHOLE, may_raise_trust=False)
        with pytest.raises(BadInput, match="dry_run is for changes of files"):
            await gateway.undo_run("lifecycle-1", WHOLE, dry_run=True)


@pytest.mark.feature(
    "… also those of `/ingest`, as a client of Memory Cortex sends them; not of groups",
    of="the job `extract` writes sessions",
)
async def test_histories_of_private_sessions_are_extracted_and_reflected_upon(agent: Agent) -> None:
    """Such a client says nothing of who may read a session; nothing of a group chat gets into the owner's files."""
    group = (("user", "We decided to use Informix for the ledger."),)
    named = (("user", "I decided to use Oracle."), ("user", "I decided to use Sybase."))
    async with agent.opened() as gateway:
        await send(gateway, "agent:main:telegram:7", DINNER)
        await send(gateway, "agent:main:telegram:group:8", group)
        await send(gateway, "agent:main:web:9", named, names=("Ada", "Bo"))
        await gateway.settle()
        assert (await extract(gateway))["turns"] == len(DINNER)
        agent.clock.now += timedelta(hours=3)
        await run_job(gateway, "reflect")
    written = agent.interactions.read_text()
    assert "- said: user: My daughter Mia is allergic to peanuts." in written
    assert "booked a table for four at Kedjan" in (agent.workspace / "memory/reflect/2026-11-23.md").read_text()
    for word in ("Informix", "Oracle", "Sybase"):
        assert word not in "".join(texts(agent.workspace).values())


async def send(gateway: Gateway, session_id: str, turns: Sequence[tuple[str, str]], names: Sequence[str] = ()) -> None:
    """Send a session as a client of Memory Cortex does."""
    said = [
        {"role": role, "content": text, "timestamp": (MONDAY + timedelta(minutes=number)).isoformat()}
        for number, (role, text) in enumerate(turns)
    ]
    messages = [{**one, "name": name} for one, name in zip(said, names, strict=True)] if names else said
    body = json.dumps({"messages": messages, "session_id": session_id}).encode()
    await gateway.ingest_history(Scope(agent_id="main", session_id=session_id), body, debounce=False)


@pytest.mark.feature(
    "… QMD and our own index read what changed, and a failure is in the receipt", of="the job `extract` writes sessions"
)
async def test_qmd_and_our_own_index_read_what_changed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """By QMD's command, after a run that changed a file."""
    command, log = agent.folder / "bin" / "qmd", agent.folder / "log"
    command.parent.mkdir()
    command.write_text(
        f"#!/bin/sh\necho $1 >> {log}\ntest ! -e {agent.folder}/full || {{ echo disk full >&2; exit 3; }}\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/bin:/usr/bin")
    agent.says(*DINNER)
    backends = {
        "markdown": {"adapter": "adapters.markdown:Markdown", "paths": [str(agent.workspace)]},
        "qmd": {"adapter": "adapters.qmd:Qmd", "url": "http://127.0.0.1:1"},
    }
    async with agent.opened(backends=backends) as gateway:
        assert (await extract(gateway))["indexed"] == {"markdown": "reads what changed", "qmd": "indexed"}
        assert log.read_text().split() == ["update", "embed"]
        assert "indexed" not in await extract(gateway), "nothing changed"
        agent.says(("user", "I live in Oslo now."), session=SESSION.replace("1", "7"))
        (agent.folder / "full").touch()
        indexed = (await extract(gateway))["indexed"]
    assert indexed == {"markdown": "reads what changed", "qmd": "not indexed: qmd update failed (3): disk full"}
