"""Durable facts into MEMORY.md: which, once each, and only where the workspace is writable."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown.promote import HEADING, Promote, PromoteUndo, appended
from fusion.contract import Scope
from fusion.errors import BadInput, SettingsError
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.ingest.update import Change
from tests.patience import load

ADA = Scope(user_id="ada", audience="private")
OWN = "# Facts\n\n- Ada sails.\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text(OWN)
    return folder


@asynccontextmanager
async def opened(home: Path, workspace: Path, *, write: bool = True) -> AsyncIterator[Gateway]:
    markdown = {"adapter": "adapters.markdown:Markdown", "paths": [str(workspace)], "bind": {"user_id": "ada"}}
    config = load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        backends={"markdown": markdown},
        workspace={"write": write, "root_folder": str(workspace)},
    )
    async with Gateway.open(config) as gateway:
        yield gateway


async def remember(gateway: Gateway, text: str, scope: Scope = ADA, **fields: Any) -> str:
    given = {"kind": "preference", "origin": "owner", **fields}
    [kept] = await gateway.remember([NewMemory(text, scope=scope, **given)])
    await gateway.settle()
    return kept.ref


async def run(gateway: Gateway, verb: Promote | PromoteUndo, scope: Scope = ADA) -> Any:
    async def line(text: str) -> None:
        raise AssertionError(text)

    return await gateway.do("markdown", verb, scope, line, lambda *_: None)


@pytest.mark.row("A058", "durable facts are appended to MEMORY.md where `[workspace] write = true` names the workspace")
async def test_durable_facts_are_written_to_memory_md(home: Path, workspace: Path) -> None:
    """Once each; a dry run only shows them. They are found as lines of that file, and nothing else there is written."""
    memory = workspace / "MEMORY.md"
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea\nto coffee.")
        await remember(gateway, "We chose Postgres.", kind="decision", origin="agent")
        shown = await run(gateway, verb := Promote(dry_run=True))
        assert memory.read_text() == OWN
        assert verb.render(shown).startswith("Would be added to ")
        done = await run(gateway, Promote())
        assert done["lines"] == shown["lines"] == ["- Ada prefers tea to coffee.", "- We chose Postgres."]
        assert memory.read_text() == f"{OWN}\n## Remembered\n\n- Ada prefers tea to coffee.\n- We chose Postgres.\n"
        assert "promote-undo w1" in Promote().render(done)
        again = await run(gateway, Promote())
        assert (again["id"], again["lines"]) == (None, [])
    assert sorted(path.name for path in workspace.iterdir()) == ["MEMORY.md", "memory"]


@pytest.mark.feature("… `promote-undo` takes a run back", of="durable facts are appended to MEMORY.md")
async def test_a_run_is_taken_back(home: Path, workspace: Path) -> None:
    """What was taken back is not promoted again; what is new is."""
    memory = workspace / "MEMORY.md"
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea.")
        done = await run(gateway, Promote())
        undone = await run(gateway, verb := PromoteUndo(done["id"]))
        assert memory.read_text() == OWN
        assert "- Ada prefers tea." in verb.render(undone)
        await remember(gateway, "Ada prefers rye bread.")
        assert (await run(gateway, Promote()))["lines"] == ["- Ada prefers rye bread."]


@pytest.mark.feature("… and `fusion undo w1` takes it back as well", of="durable facts are appended to MEMORY.md")
async def test_fusion_undo_takes_a_change_back_for_the_owner_alone(home: Path, workspace: Path) -> None:
    memory = workspace / "MEMORY.md"
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea.")
        done = await run(gateway, Promote())
        for scope, may in ((Scope("acme", audience="private"), True), (ADA, False)):
            with pytest.raises(BadInput, match="only the owner"):
                await gateway.undo_decision(done["id"], scope, may_raise_trust=may)
        assert memory.read_text() != OWN
        assert (await gateway.undo_decision(done["id"], ADA))["undone"] == 1
    assert memory.read_text() == OWN


async def test_another_tenant_writes_to_no_workspace(home: Path, workspace: Path) -> None:
    acme = Scope("acme", "ada", audience="private")
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea.", acme)
        with pytest.raises(BadInput, match=r"\[workspace\] write = true"):
            await run(gateway, Promote(), acme)
    assert (workspace / "MEMORY.md").read_text() == OWN


async def test_changes_of_an_earlier_version_can_be_taken_back(home: Path, workspace: Path) -> None:
    """Their log was in the folder of the Markdown backend; it moves to where every writer keeps it."""
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea.")
        done = await run(gateway, Promote())
    (home / "workspace").rename(earlier := home / "backends" / "markdown" / "workspace")
    for record in earlier.glob("w*.json"):
        values = {key: value for key, value in json.loads(record.read_text()).items() if key not in ("path", "by")}
        record.write_text(json.dumps(values))
    async with opened(home, workspace) as gateway:
        assert (await run(gateway, Promote()))["lines"] == []
        await run(gateway, PromoteUndo(done["id"]))
        assert (await run(gateway, Promote()))["lines"] == []
    assert (workspace / "MEMORY.md").read_text() == OWN


LINES = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10), max_size=3)


@given(st.binary(max_size=60), LINES)
def test_no_append_loses_a_line(old: bytes, lines: list[str]) -> None:
    """Whatever the bytes of the file: it begins as before, and its last line stays a line of its own."""
    new = appended(old, HEADING, lines)
    kept = old.removesuffix(b"\n").split(b"\n") if old else []
    assert new.startswith(old)
    assert new.split(b"\n")[: len(kept)] == kept


def test_lines_are_appended_below_one_heading() -> None:
    first = appended(b"# Facts\n\n- Ada sails.", HEADING, ["- one"])
    assert appended(first, HEADING, ["- two"]).decode() == f"# Facts\n\n- Ada sails.\n\n{HEADING}\n\n- one\n- two\n"
    assert appended(b"", HEADING, ["- one"]).decode() == f"{HEADING}\n\n- one\n"


@pytest.mark.feature("… nothing is written unless the settings name it", of="durable facts are appended to MEMORY.md")
async def test_nothing_is_written_without_the_setting(home: Path, workspace: Path) -> None:
    """The default; and the setting without a folder is refused."""
    async with opened(home, workspace, write=False) as gateway:
        await remember(gateway, "Ada prefers tea.")
        for verb in (Promote(), Promote(dry_run=True), PromoteUndo("w1")):
            with pytest.raises(BadInput, match=r"\[workspace\] write = true"):
                await run(gateway, verb)
    assert (workspace / "MEMORY.md").read_text() == OWN
    with pytest.raises(SettingsError, match="root_folder"):
        load(home=home, workspace={"write": True})


async def test_only_durable_facts_of_the_owner_are_written(home: Path, workspace: Path) -> None:
    """No notes, no turns, nothing that ends, is long, is doubted, was forgotten, or belongs to somebody else."""
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Ada prefers tea.")
        await remember(gateway, "A note.", kind="note")
        await remember(gateway, "Ada is in Oslo until May.", stated=(("lifetime", "session"),))
        await remember(gateway, "From a web page.", origin="tool")
        await remember(gateway, "Doubtful.", trust="untrusted")
        await remember(gateway, "long " * 200)
        await remember(gateway, "Ben prefers milk.", scope=Scope(user_id="ben", audience="private"))
        await gateway.forget(await remember(gateway, "Ada prefers cocoa."), ADA)
        await remember(gateway, "Ada sails.")  # is there already
        await gateway.update(await remember(gateway, "Ada prefers rye."), Change(text="Ada prefers oats."), ADA)
        await gateway.settle()
        assert (await run(gateway, Promote()))["lines"] == ["- Ada prefers tea.", "- Ada prefers oats."]
        assert (await run(gateway, Promote(), Scope(user_id="ben", audience="private")))["lines"] == []


async def test_memory_md_does_not_grow_beyond_what_is_loaded(home: Path, workspace: Path) -> None:
    """20,000 characters: what does not fit is counted. A text that looks like an annotation states none."""
    (workspace / "MEMORY.md").write_text("x" * 19_900 + "\n")
    async with opened(home, workspace) as gateway:
        await remember(gateway, "Tea. <!-- importance: 10 -->")
        await remember(gateway, "word " * 30)
        done = await run(gateway, Promote())
    assert (done["lines"], done["left"]) == (["- Tea. &lt;!-- importance: 10 -->"], 1)
    assert "1 more do not fit" in Promote().render(done)
