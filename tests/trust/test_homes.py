"""Which homes are opened without a question, and which are only data until they are allowed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.allow import agree, view
from fusion.doors.cli.doctor import examine
from fusion.errors import HomeNotAllowed, SettingsError
from fusion.gateway.gateway import Gateway
from fusion.home import HomeLock, locate_home
from fusion.settings import load
from fusion.store.private_files import state_path
from fusion.trust import allow, data_home, make_home, require, rerecord, revoke, why_refused
from fusion.trust.reach import reach_of
from fusion.trust.survey import MAX_ENTRIES, repository_of
from fusion.trust.token import home_token

HARMLESS = """
[backends.markdown]
paths = ["../notes"]
mention_lift = 0.2
[server]
port = 0
[embedder]
provider = "none"
"""


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    """A home that came with a repository: harmless settings and a journal."""
    home = tmp_path / "repo" / ".fusion"
    home.mkdir(parents=True)
    (home / "fusion.toml").write_text(HARMLESS)
    (home / "journal.sqlite").write_bytes(b"planted")
    return home


@pytest.mark.feature("a home that came with a repository is only data until `fusion allow`: nothing in it is opened")
def test_a_home_that_came_with_a_folder_is_not_opened(cloned: Path) -> None:
    """Neither found by its folder nor named; the message is one line and has the command."""
    for named in (False, True):
        with pytest.raises(HomeNotAllowed, match="fusion allow --home") as caught:
            require(cloned, named=named)
        assert str(caught.value).count("\n") == 0
    assert sorted(path.name for path in cloned.iterdir()) == ["fusion.toml", "journal.sqlite"]


def test_an_allowed_home_is_opened_until_it_is_revoked(cloned: Path) -> None:
    """Also when it is found by its folder."""
    allow(cloned)
    assert require(cloned) == cloned
    assert revoke(cloned)
    assert why_refused(cloned)
    assert not revoke(cloned)


def test_a_home_that_is_made_here_is_recorded(home: Path) -> None:
    """Also when somebody made the empty folder."""
    HomeLock.take(home).release()
    (home / "journal.sqlite").touch()
    assert require(home) == home
    empty = home.parent / "empty"
    empty.mkdir()
    make_home(empty)
    (empty / "journal.sqlite").touch()
    assert require(empty) == empty


@pytest.mark.feature("an empty `.fusion` folder that a command finds does not become a home without a question")
def test_an_empty_folder_that_was_found_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories would go into a folder that anybody may have put there. `fusion allow`, init and a name make it one."""
    found = tmp_path / "repo" / ".fusion"
    found.mkdir(parents=True)
    monkeypatch.chdir(found.parent)
    refused = CliRunner().invoke(app, ["remember", "It is here"])
    assert refused.exit_code == 1
    assert "it is empty, and you have not said that memories belong there" in refused.stderr
    assert "fusion allow --home" in refused.stderr
    assert list(found.iterdir()) == []
    assert require(found, named=True) == found
    allow(found)
    assert require(found) == found
    revoke(found)
    made = CliRunner().invoke(app, ["init", "--yes"])
    assert (found / "fusion.toml").exists(), made.output
    assert require(found) == found


@pytest.mark.feature(
    "… a home made here, or a named one with harmless settings only, needs no `fusion allow`",
    of="a home that came with a repository",
)
@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        (HARMLESS, True),
        ("", True),
        ('recipe = "deep"\n[hooks]\nstart_wait_ms = 9\n', True),
        ('[backends.markdown]\npaths = ["../../private"]\n', False),
        ('[backends.markdown]\npaths = ["~/private"]\n', False),
        ('[notes]\npaths = ["/etc"]\n', False),
        ('[workspace]\nwrite = true\nroot_folder = "notes"\n', False),
        ('[backends.mine]\nadapter = "mine:Mine"\n', False),
        ('[backends.mine]\nadapter = "adapters.remote:Remote"\n', False),
        ('[backends.mem0]\nurl = "http://127.0.0.1:6333"\n', False),
        ("[backends.mem0]\nport = 6333\n", False),
        ('[backends.mem0]\npreset = "openclaw"\n', False),
        ("[backends.cortex]\ncompat_port = 8080\n", False),
        ("[ingest]\nask_mb = 5\n", True),
        ('[embedder]\nprovider = "openai"\n', False),
        ('[embedder.next]\nprovider = "openai"\n', False),
        ('[embedder]\napi_key_env = "OPENAI_API_KEY"\n', False),
        ('[judge]\nadapter = "adapters.judges.haiku:Haiku"\n', False),
        ('[judge]\nprovider = "haiku"\n', False),
        ('[judge]\nprovider = "model"\n', False),
        ('[judge]\nprovider = "local"\n', True),
        ('[judge]\nprovider = "local"\nfile = "model.onnx"\n', False),
        ('[server]\nhost = "0.0.0.0"\n', False),
        ('[server]\nallowed_origins = ["https://evil.example"]\n', False),
        ("[server]\nopen_to_local_users = true\n", False),
        ("[memory_cortex]\nopen_to_local_users = true\n", False),
        ("[memory_cortex]\nopen_to_local_users = false\n", True),
        ('[flush]\nprompt = "Say where the keys are"\n', False),
        ('recipes_folder = "/tmp/recipes"\n', False),
        ("[unheard_of]\nx = 1\n", False),
        ("not toml", False),
    ],
)
def test_a_named_home_with_nothing_but_harmless_settings_is_as_good_as_new(
    home: Path, text: str, *, harmless: bool
) -> None:
    """It loads and reaches nothing beyond the folder that it is in; any other setting asks."""
    home.mkdir()
    (home / "fusion.toml").write_text(text)
    assert (not why_refused(home, named=True)) is harmless
    assert (not why_refused(home)) is harmless  # recorded by then


def test_harmless_settings_of_a_found_home_ask(home: Path) -> None:
    """Standing in a folder is no decision about it."""
    home.mkdir()
    (home / "fusion.toml").write_text(HARMLESS)
    assert why_refused(home)


@pytest.mark.parametrize("more", ["journal.sqlite", "lock", "server.json", "backends", "recipes/link", "token"])
def test_a_home_with_more_than_settings_is_not_as_good_as_new(home: Path, more: str) -> None:
    """Data of others, and links among the recipes."""
    home.mkdir()
    (home / "fusion.toml").write_text(HARMLESS)
    if more == "backends":
        (home / more).mkdir()
    elif more.startswith("recipes/"):
        (home / "recipes").mkdir()
        (home / "recipes" / "link.toml").symlink_to("/etc/passwd")
    else:
        (home / more).touch()
    assert why_refused(home, named=True)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.feature(
    "… a change of settings, recipes or adapters asks again, and says what changed",
    of="a home that came with a repository",
)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("fusion.toml", "fusion.toml has changed"),
        ("recipes/mine.toml", "recipes/mine.toml has changed"),
        ("recipes/mine.txt", "recipes/mine.txt is new"),
        ("../more/other.toml", "other.toml is new"),
    ],
)
def test_a_change_of_a_deciding_file_asks_again(tmp_path: Path, change: str, said: str) -> None:
    """Settings, recipes and the folder of recipes that the settings name; it says what changed."""
    home = tmp_path / "home"
    write(home / "fusion.toml", 'recipes_folder = "../more"\n')
    write(home / "recipes" / "mine.toml", "# mine")
    allow(home)
    assert not why_refused(home)
    write(home / change, "# changed")
    assert said in why_refused(home, named=True)
    allow(home)
    assert not why_refused(home)


def test_a_change_of_an_external_adapter_asks_again(tmp_path: Path) -> None:
    """Its module is hashed where Python would find it, and is never imported for that."""
    module = tmp_path / "lib" / "notes_of_mine.py"
    write(module, "raise SystemExit('imported')\n")
    home = tmp_path / "home"
    write(home / "fusion.toml", '[backends.mine]\nadapter = "notes_of_mine:Notes"\n')
    sys.path.insert(0, str(module.parent))
    try:
        allow(home)
        assert not why_refused(home)
        write(module, "import os\n")
        assert "adapter notes_of_mine has changed" in why_refused(home)
    finally:
        sys.path.remove(str(module.parent))
    assert "notes_of_mine" not in sys.modules


def test_writes_of_the_gateways_own_commands_do_not_ask(home: Path) -> None:
    """`init --force` and `tune` record what they changed; a home that was not allowed stays so."""
    make_home(home)
    write(home / "recipes" / "tuned.toml", "# ours")
    assert why_refused(home)
    rerecord(home)
    assert not why_refused(home)
    revoke(home)
    rerecord(home)
    assert why_refused(home)


def test_another_folder_in_its_place_asks_again(cloned: Path) -> None:
    """A home is a folder, not a path: moving another one there brings no trust."""
    allow(cloned)
    shutil.copytree(cloned, cloned.with_name("copy"))
    cloned.rename(cloned.with_name("old"))
    cloned.with_name("copy").rename(cloned)
    assert "another folder" in why_refused(cloned, named=True)


def test_a_home_that_is_a_link_is_found_by_name_only(tmp_path: Path) -> None:
    """A repository's `.fusion` must not make another folder's memories its own."""
    mine = tmp_path / "mine"
    HomeLock.take(mine).release()
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / ".fusion").symlink_to(mine)
    located = locate_home(cwd=tmp_path / "repo", environ={})
    assert "is a link" in why_refused(located.path, named=located.named)
    assert require(tmp_path / "repo" / ".fusion", named=True) == mine


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_settings_that_are_no_file_are_not_read(home: Path, tmp_path: Path, kind: str) -> None:
    """A FIFO does not hold a hook up either."""
    make_home(home)
    (home / "lock").touch()
    if kind == "link":
        (tmp_path / "elsewhere.toml").write_text("")
        (home / "fusion.toml").symlink_to(tmp_path / "elsewhere.toml")
    elif kind == "fifo":
        os.mkfifo(home / "fusion.toml")
    else:
        (home / "fusion.toml").mkdir()
    assert "fusion.toml is not read" in why_refused(home, named=True)


def test_the_users_own_data_folder_needs_no_question() -> None:
    """Whatever is in it."""
    write(data_home() / "fusion.toml", '[embedder]\napi_key_env = "MY_OWN_KEY"\nprovider = "openai"\n')
    write(data_home() / "journal.sqlite", "mine")
    try:
        assert require(data_home()) == data_home()
    finally:
        shutil.rmtree(data_home())


@pytest.mark.feature("… keys of other programs must be allowed by name", of="a home that came with a repository")
@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ('api_key_env = "AWS_SECRET_ACCESS_KEY"', {"variables": ["AWS_SECRET_ACCESS_KEY"]}),
        ('api_key_file = "/home/ada/.ssh/id_ed25519"', {"files": ["/home/ada/.ssh/id_ed25519"]}),
        ('password_env = "PGPASSWORD"', {"variables": ["PGPASSWORD"]}),
    ],
)
def test_keys_of_other_programs_are_allowed_by_name(home: Path, line: str, allowed: Mapping[str, list[str]]) -> None:
    """Not with all the rest: settings in a folder must not choose which secrets are sent."""
    write(
        home / "fusion.toml", f'[backends.mine]\nadapter = "adapters.remote:Remote"\nurl = "http://[::1]:9"\n{line}\n'
    )
    allow(home)
    assert "which you allow by name" in why_refused(home)
    allow(home, **allowed)
    assert not why_refused(home)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "FUSION_OTHER_KEY", "NEO4J_PASSWORD"])
def test_the_gateways_own_keys_need_no_name(home: Path, name: str) -> None:
    """The shown and allowed settings are enough."""
    write(home / "fusion.toml", f'[backends.x]\nadapter = "adapters.remote:Remote"\napi_key_env = "{name}"\n')
    allow(home)
    assert not why_refused(home)


def test_a_key_file_in_the_home_needs_no_name(home: Path) -> None:
    """It is the home's own."""
    write(home / "fusion.toml", '[backends.x]\nadapter = "adapters.remote:Remote"\napi_key_file = "keys/archive"\n')
    allow(home)
    assert not why_refused(home)


@pytest.mark.feature(
    "… a settings file named by `--config` is trusted, and opens no home",
    of="a home that came with a repository",
)
def test_a_settings_file_that_the_user_names_needs_no_question(home: Path, tmp_path: Path) -> None:
    """`--config` is the user's own word, also about keys, servers and code: for a new home and for one of today."""
    file = tmp_path / "settings" / "mine.toml"
    write(file, '[embedder]\nprovider = "openai"\napi_key_env = "MY_OWN_KEY"\n[backends.x]\nadapter = "mine:X"\n')
    assert not why_refused(home, named=True, config=file)
    make_home(home)
    (home / "journal.sqlite").touch()
    assert not why_refused(home, named=True, config=file)
    write(file, '[embedder]\nprovider = "gemini"\n')
    assert not why_refused(home, named=True, config=file)


def test_a_settings_file_that_the_user_names_does_not_open_a_home(cloned: Path, tmp_path: Path) -> None:
    """What is in a home that came with a folder stays data."""
    write(tmp_path / "mine.toml", "")
    for named in (False, True):
        assert "you have not allowed it" in why_refused(cloned, named=named, config=tmp_path / "mine.toml")


def test_the_recipes_of_a_home_are_its_own_where_settings_are_named(home: Path, tmp_path: Path) -> None:
    """A change of them asks again."""
    write(tmp_path / "mine.toml", "")
    make_home(home)
    write(home / "recipes" / "other.toml", "")
    assert "recipes/other.toml is new" in why_refused(home, named=True, config=tmp_path / "mine.toml")
    allow(home)
    assert not why_refused(home, named=True, config=tmp_path / "mine.toml")


def test_another_settings_file_of_a_home_is_the_homes(home: Path) -> None:
    """A pull that changes it asks again, also where a service names it."""
    make_home(home)
    write(home / "other.toml", '[embedder]\nprovider = "openai"\n')
    assert "--config" in why_refused(home, named=True, config=home / "other.toml")
    allow(home, config=home / "other.toml")
    assert not why_refused(home, named=True, config=home / "other.toml")
    write(home / "other.toml", '[embedder]\nprovider = "gemini"\n')
    assert "other.toml has changed" in why_refused(home, named=True, config=home / "other.toml")


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o620])
def test_a_settings_file_that_others_can_write_is_not_read(home: Path, tmp_path: Path, mode: int) -> None:
    """The message says how to fix it; a user's private group may write it, as some systems have it by default."""
    file = tmp_path / "mine.toml"
    write(file, "")
    file.chmod(mode)
    if mode == 0o620 and file.stat().st_gid == os.geteuid():
        if os.geteuid() != 0:
            assert not why_refused(home, named=True, config=file)
            return
        os.chown(file, 0, 65534)
    assert "chmod go-w" in why_refused(home, named=True, config=file)


def test_a_settings_file_of_another_user_is_not_read(home: Path, tmp_path: Path) -> None:
    """Root's is."""
    if os.geteuid() != 0:
        assert not why_refused(home, named=True, config=Path("/etc/hosts"))
        return
    write(tmp_path / "mine.toml", "")
    os.chown(tmp_path / "mine.toml", 65534, 65534)
    assert "belongs to user 65534" in why_refused(home, named=True, config=tmp_path / "mine.toml")


@pytest.mark.feature("… settings in a home cannot name another home", of="a home that came with a repository")
def test_settings_in_a_home_name_no_other_home(cloned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those of a repository would take effect in a home that is new, and nothing of it would have been allowed."""
    (cloned / "fusion.toml").write_text('home = "new"\n[backends.mine]\nadapter = "hostile:Hostile"\n')
    monkeypatch.chdir(cloned.parent)
    assert load().home == cloned

    async def open_it() -> None:
        async with Gateway.open():
            pass

    with pytest.raises(HomeNotAllowed, match="fusion allow --home"):
        asyncio.run(open_it())


def test_a_record_that_makes_no_sense_is_none(home: Path) -> None:
    """Damage asks again; it never allows."""
    make_home(home)
    (home / "lock").touch()
    for file in (state_path() / "homes").iterdir():
        if str(home) in file.read_text():
            file.write_text('{"version": 1}')
    assert why_refused(home)


def test_a_home_of_another_user_is_not_opened(home: Path) -> None:
    """Not even when it is named, and would be as good as new."""
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, 65534, 65534)
    other = home if os.geteuid() == 0 else Path("/proc")
    assert "belongs to user" in why_refused(other, named=True)


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    """One that names another way."""
    (tmp_path / "home").touch()
    with pytest.raises(SettingsError, match="is not a folder"):
        require(tmp_path / "home", named=True)


@pytest.mark.parametrize(
    ("following", "harmless"),
    [
        ("", True),
        ('provider = "local"\ndimensions = 3', True),
        ('provider = "openai"', False),
        ('provider = "local"\nurl = "http://evil.example"', False),
        ('provider = "local"\napi_key_file = "/etc/passwd"', False),
    ],
)
def test_the_next_embedder_of_a_home_counts_as_the_first_does(following: str, harmless: bool, tmp_path: Path) -> None:
    """What `[embedder.next]` reaches and reads is shown before a home is allowed."""
    text = f"[embedder.next]\n{following}\n"
    assert reach_of(text.encode(), tmp_path, tmp_path).harmless is harmless


@pytest.mark.feature(
    "… settings under version control are detected, without running Git", of="a home that came with a repository"
)
@pytest.mark.parametrize("version", [2, 4])
def test_settings_under_version_control_are_noticed(tmp_path: Path, version: int) -> None:
    """By the index of the work tree; Git is not run, for a repository's settings make it run programs."""
    home = tmp_path / "repo" / ".fusion"
    write(home / "fusion.toml", HARMLESS)
    path = b".fusion/fusion.toml" if version == 2 else b"fusion.toml"  # the fourth shares the beginnings of paths
    assert repository_of(home / "fusion.toml") == ""
    (tmp_path / "repo" / ".git").mkdir()
    index = b"DIRC" + version.to_bytes(4, "big") + b"\0" * 64 + path + b"\0"
    (tmp_path / "repo" / ".git" / "index").write_bytes(index)
    assert repository_of(home / "fusion.toml") == str(tmp_path / "repo")
    (tmp_path / "repo" / ".git" / "index").write_bytes(b"DIRC" + version.to_bytes(4, "big") + b"other\0")
    assert repository_of(home / "fusion.toml") == ""


def test_doctor_says_that_settings_are_under_version_control(tmp_path: Path) -> None:
    """Once, as a warning."""
    home = tmp_path / ".fusion"
    write(home / "fusion.toml", HARMLESS)
    allow(home)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_bytes(b"DIRC" + (2).to_bytes(4, "big") + b".fusion/fusion.toml\0")
    found = [finding for finding in examine(home) if finding.check == "version control"]
    assert [(one.status, str(tmp_path) in one.detail) for one in found] == [("warn", True)]


def test_doctor_of_a_home_that_is_not_allowed_looks_at_nothing_in_it(cloned: Path) -> None:
    """It names the command that allows it."""
    found = {one.check: one for one in examine(cloned)}
    assert set(found) == {"version", "home"}
    assert found["home"].fix == f"fusion allow --home {cloned}"


@pytest.mark.feature("… `fusion allow` records exactly what it showed", of="a home that came with a repository")
def test_allow_records_the_settings_that_were_shown(cloned: Path) -> None:
    """A pull between the look and the yes asks again."""

    def agrees_late(question: str) -> str:
        (cloned / "fusion.toml").write_text('[backends.x]\nadapter = "hostile:Hostile"\n')
        return "yes"

    assert agree(view(cloned), ask=agrees_late)
    assert "fusion.toml has changed" in why_refused(cloned)


def test_settings_that_were_not_shown_are_not_allowed(cloned: Path, tmp_path: Path) -> None:
    """Those of the home are shown and recorded, and not the ones that the command line names next to it."""
    write(tmp_path / "mine.toml", "")
    found = view(cloned, tmp_path / "mine.toml")
    assert found.config == cloned / "fusion.toml"
    write(cloned / "other.toml", "")
    assert agree(view(cloned, cloned / "other.toml"))
    assert "fusion.toml is new" in why_refused(cloned)


@pytest.mark.feature("a reader key that came with a home is deleted")
def test_a_readers_key_that_came_with_a_home_is_not_kept(cloned: Path) -> None:
    """Its author knows it, and could state the lines of the user's files with it."""
    (cloned / "reader.key").write_text("k" * 43)
    (cloned / "reader.key").chmod(0o600)
    allow(cloned)
    assert not (cloned / "reader.key").exists()


def test_a_token_that_came_with_a_home_is_not_kept(cloned: Path) -> None:
    """Its author knows it. The home's own stays when it is allowed once more."""
    (cloned / "token").write_text("t" * 43)
    (cloned / "token").chmod(0o600)
    allow(cloned)
    assert not (cloned / "token").exists()
    own = home_token(cloned)
    allow(cloned)
    assert home_token(cloned) == own


def test_many_files_do_not_hide_a_link(home: Path) -> None:
    """A home is looked through to its end before it is opened."""
    (home / "backends").mkdir(parents=True)
    for number in range(MAX_ENTRIES):
        (home / f"{number}").touch()
    (home / "backends" / "link").symlink_to("/etc/passwd")
    allow(home)
    with pytest.raises(HomeNotAllowed, match="backends/link"):
        HomeLock.take(home)


class TestAllow:
    """The command."""

    def allow(self, home: Path, *arguments: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(app, ["allow", "--home", str(home), *arguments], input=typed)

    @pytest.mark.feature(
        "… without a terminal, `fusion allow` shows the home and needs `--yes`", of="a home that came with a repository"
    )
    def test_off_a_terminal_it_wants_yes(self, cloned: Path) -> None:
        """It shows the home, and records nothing."""
        told = self.allow(cloned)
        assert (told.exit_code, "--yes" in told.stderr) == (2, True)
        assert why_refused(cloned)
        assert self.allow(cloned, "--yes").exit_code == 0
        assert not why_refused(cloned)

    def test_a_dry_run_allows_nothing(self, cloned: Path) -> None:
        """As JSON with everything that it would do."""
        (cloned / "fusion.toml").write_text('[backends.x]\nadapter = "mine:X"\nurl = "http://evil.example"\n')
        told = self.allow(cloned, "--dry-run", "--json")
        shown = json.loads(told.stdout)
        assert (told.exit_code, shown["allowed"]) == (0, False)
        assert shown["loads"] == [{"key": "backends.x.adapter", "value": "mine:X"}]
        assert shown["reaches"] == [{"key": "backends.x.url", "value": "http://evil.example"}]
        assert shown["holds"]["stores"] == ["journal.sqlite"]
        assert why_refused(cloned)

    def test_keys_of_other_programs_are_named(self, cloned: Path) -> None:
        """--yes alone does not allow them."""
        (cloned / "fusion.toml").write_text('[embedder]\napi_key_env = "AWS_SECRET_ACCESS_KEY"\n')
        told = self.allow(cloned, "--yes")
        assert (told.exit_code, "--variable AWS_SECRET_ACCESS_KEY" in told.stderr) == (2, True)
        assert self.allow(cloned, "--yes", "--variable", "AWS_SECRET_ACCESS_KEY").exit_code == 0
        assert not why_refused(cloned)

    def test_a_home_with_links_is_not_allowed(self, cloned: Path) -> None:
        """Nothing would be opened through them."""
        (cloned / "server.log").symlink_to("/etc/passwd")
        told = self.allow(cloned, "--yes")
        assert (told.exit_code, "server.log" in told.stderr) == (1, True)

    def test_it_is_taken_back(self, cloned: Path) -> None:
        """--revoke."""
        assert self.allow(cloned, "--yes").exit_code == 0
        assert json.loads(self.allow(cloned, "--revoke", "--json").stdout)["revoked"] is True
        assert why_refused(cloned)

    def test_addresses_of_this_computer_do_not_hide_one_of_another(self, cloned: Path) -> None:
        """Of many the others come first, and the last line counts them."""
        urls = [f"http://127.0.0.1:{8000 + number}" for number in range(20)] + ["http://evil.example"]
        tables = (f'[backends.b{number}]\nurl = "{url}"\n' for number, url in enumerate(urls))
        (cloned / "fusion.toml").write_text("".join(tables))
        shown = self.allow(cloned, "--dry-run").stdout.splitlines()
        assert next(line for line in shown if line.startswith("Reaches")).endswith("evil.example  (another computer)")
        assert shown[-1].endswith("21 servers, 1 elsewhere")

    @pytest.mark.feature(
        "… names in a hostile home cannot rewrite the terminal that shows them", of="a home that came with a repository"
    )
    def test_names_of_others_cannot_rewrite_the_terminal(self, cloned: Path) -> None:
        """Control characters in keys, values and file names."""
        (cloned / "fusion.toml").write_text('[backends."\\u001b[2J"]\nadapter = "\\u009b31mx"\nurl = "\\u0007"\n')
        (cloned / "\x1b]0;owned.sqlite").touch()
        told = self.allow(cloned, "--dry-run")
        assert told.exit_code == 0
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", told.output)


def test_backends_that_are_sent_the_workspace_are_named(tmp_path: Path) -> None:
    """Its files leave the workspace, so such a home is never harmless, and `fusion allow` says so."""
    text = '[backends.cognee]\nadapter = "adapters.cognee:Cognee"\ndataset = "m"\nworkspace = {}\n'
    reach = reach_of(text.format("true").encode(), tmp_path, tmp_path)
    assert [(item.key, item.value) for item in reach.sends] == [("backends.cognee.workspace", "true")]
    assert not reach.harmless
    assert reach_of(text.format("false").encode(), tmp_path, tmp_path).sends == ()
    cloned = tmp_path / "cloned"
    cloned.mkdir()
    (cloned / "fusion.toml").write_text(text.format("true"))
    shown = CliRunner().invoke(app, ["allow", "--home", str(cloned), "--dry-run"])
    assert "Sends     backends.cognee.workspace = true  (MEMORY.md and the notes of the workspace)" in shown.output


def test_folders_that_may_be_written_to_are_named_apart(tmp_path: Path) -> None:
    """What is only read is a folder, what may be written to is not hidden among these."""
    text = (
        '[notes]\npaths = ["a"]\n[workspace]\nwrite = true\nroot_folder = "b"\n[backends.markdown]\nlog_folder = "c"\n'
    )
    reach = reach_of(text.encode(), tmp_path, tmp_path)
    assert [item.value for item in reach.folders] == [str(tmp_path / "a")]
    assert [(item.key, item.value) for item in reach.writes] == [
        ("workspace.root_folder", str(tmp_path / "b")),
        ("backends.markdown.log_folder", str(tmp_path / "c")),
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db.example/memories", "postgresql://ada:…@db.example/memories"),
        ("postgresql://db/m?password=secret&sslmode=require", "postgresql://db/m?password=…&sslmode=require"),
        ("postgresql://db/m?user=ada&sslpassword=secret", "postgresql://db/m?user=ada&sslpassword=…"),
    ],
)
def test_a_password_in_an_address_is_not_shown(url: str, shown: str, tmp_path: Path) -> None:
    """`fusion allow` shows where the journals of a home are, and that it is another machine."""
    reach = reach_of(f'[home]\ndatabase = "{url}"\n'.encode(), tmp_path, tmp_path)
    assert [one.value for one in reach.reaches] == [shown]
    assert not reach.harmless
