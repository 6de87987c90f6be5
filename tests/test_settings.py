"""Settings: what the file says, what wins, and how a mistake is named."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from pydantic import BaseModel, SecretStr

from adapters.cortex.options import Options as CortexOptions
from adapters.markdown.options import Options as MarkdownOptions
from adapters.markdown.ranking import Ranking
from adapters.mem0.options import Options as Mem0Options
from adapters.triples.options import Options as TriplesOptions
from fusion.errors import SettingsError
from fusion.home import config_root
from fusion.new_settings import Chosen, new_file, toml_text
from fusion.recipe import Recipe
from fusion.settings import BackendSettings, KeySettings, Settings, load
from fusion.settings_table import uses_database

SHIPPED = config_root() / "fusion.toml"
SAMPLE = config_root() / "sample" / "fusion.toml"
NOT_IN_A_FILE = {"home", "recipes_folder", "api_key"}
"""settings without a default that a file could state: they stand in it as a comment"""


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """The environment with ``variables``, and as it was afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "fusion.toml"
    file.write_text(text, encoding="utf-8")
    return file


def plain(value: Any) -> Any:
    """A default as TOML writes it."""
    if isinstance(value, BaseModel):
        return {name: plain(one) for name, one in vars(value).items()} | plain(value.model_extra or {})
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return list(value) if isinstance(value, tuple) else value


def names_of(model: type[BaseModel]) -> Iterator[str]:
    """The settings of a table and of the tables in it."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from names_of(field.annotation)
        else:
            yield name


def test_every_setting_and_key_of_a_recipe_is_read_by_the_program() -> None:
    """As an attribute or, by an adapter, as a key of its options."""
    root = Path(__file__).parent.parent
    source = "\n".join(file.read_text() for room in ("fusion", "adapters") for file in (root / room).rglob("*.py"))
    parts = [get_type_hints(Recipe)[field.name] for field in fields(Recipe)]
    keys = [field.name for part in parts if is_dataclass(part) for field in fields(part)]
    names = {*names_of(Settings), *names_of(BackendSettings), *names_of(KeySettings), *keys}
    assert [name for name in sorted(names) if not re.search(rf"[.\"]{name}\b", source)] == []


class TestTheShippedFile:
    @pytest.mark.feature("`config/fusion.toml` has every setting with its default and reason")
    def test_file_and_code_agree(self) -> None:
        """Every setting with its default stands in config/fusion.toml, and nothing else does."""
        code = {name: value for name, value in plain(Settings()).items() if name not in NOT_IN_A_FILE}
        assert tomllib.loads(SHIPPED.read_text(encoding="utf-8")) == code

    def test_settings_without_a_default_are_mentioned(self) -> None:
        """A setting that is unset by default cannot stand in TOML; a comment shows how it is written."""
        commented = set(re.findall(r"^# (\w+) = ", SHIPPED.read_text(encoding="utf-8"), re.MULTILINE))
        assert commented >= NOT_IN_A_FILE
        assert set(Settings.model_fields) >= NOT_IN_A_FILE

    @pytest.mark.parametrize(
        ("backend", "options"),
        [
            ("markdown", {f.name for f in (*fields(MarkdownOptions), *fields(Ranking))} - {"ranking"}),
            ("cortex", {f.name for f in fields(CortexOptions)} - {"weights"}),
            ("mem0", {f.name for f in fields(Mem0Options)} - {"api_key_file"}),
            ("triples", {f.name for f in fields(TriplesOptions)}),
        ],
    )
    def test_every_option_of_a_built_in_backend_stands_in_its_table(self, backend: str, options: set[str]) -> None:
        """As a setting, or commented out with its default."""
        after = SHIPPED.read_text(encoding="utf-8").partition(f"\n[backends.{backend}]\n")[2]
        table = re.split(r"^\[backends\.", after, maxsplit=1, flags=re.MULTILINE)[0]
        assert options - set(re.findall(r"^(?:# )?(\w+) = ", table, re.MULTILINE)) == set()

    def test_every_setting_has_a_comment_above_it(self) -> None:
        """A comment, or a neighbour's that speaks of both; the settings that all backends have are explained once."""
        silent, explained, table, spoken_for = [], set(), "", False
        for line in SHIPPED.read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                table, spoken_for = line.strip("[]"), False
            elif not line.strip():
                spoken_for = False
            elif line.startswith("#"):
                spoken_for = True
            else:
                key = (table.split(".")[0], line.split(" = ")[0])
                if not spoken_for and key not in explained:
                    silent.append(".".join((table, key[1])))
                explained.add(key)
        assert silent == []

    def test_it_loads_to_the_defaults(self, home: Path) -> None:
        """Whoever copies the whole file changes nothing; but now asks for each of the four, which he sees there."""
        copied, shipped = load(SHIPPED, home=home), load(home=home)
        assert copied.model_dump() == shipped.model_dump()
        assert (copied.asked_for, shipped.asked_for) == ({"markdown", "cortex", "mem0", "triples"}, frozenset())

    def test_the_samples_file_loads(self, home: Path) -> None:
        """`make fuse` copies it into a new home: the sample's workspace is then found beside the checkout's config."""
        settings = load(written(home, SAMPLE.read_text(encoding="utf-8")), home=home)
        workspace = home.parent / "config" / "sample" / "workspace"
        assert settings.backends["markdown"].options["paths"] == [str(workspace)]
        assert set(settings.backends) == {"markdown", "cortex", "mem0", "triples"}


class TestWhoWins:
    @pytest.mark.feature("arguments override the environment, which overrides the file")
    def test_file_then_environment_then_argument(self, home: Path) -> None:
        """The default is 8765; each later source wins, and leaves alone what it does not name."""
        file = written(home, "[server]\nport = 1001\nmax_queued = 7\n")
        assert load(home=home.parent / "empty").server.port == 8765
        assert load(home=home).server.port == load(file, home=home).server.port == 1001
        with environment(FUSION_SERVER__PORT="1002"):
            assert load(home=home).server.port == 1002
            settings = load(home=home, server={"port": 1003})
        assert settings.server.port == 1003
        assert settings.server.max_queued == 7

    def test_the_home_that_is_named_wins(self, tmp_path: Path) -> None:
        """Argument over environment over file."""
        file = written(tmp_path, 'home = "by-file"\n')
        assert load(file).home == tmp_path / "by-file"
        with environment(FUSION_HOME=str(tmp_path / "by-environment")):
            assert load(file).home == tmp_path / "by-environment"
            assert load(file, home=tmp_path / "by-argument").home == tmp_path / "by-argument"

    def test_the_environment_reaches_into_tables_and_lists(self, home: Path) -> None:
        """Two underscores go one table deeper; lists are JSON; a backend of the environment's own may be added."""
        with environment(
            FUSION_BACKENDS__MARKDOWN__PATHS='["/notes"]',
            FUSION_BACKENDS__CORTEX__ENABLED="false",
            FUSION_BACKENDS__EXTRA__ADAPTER="adapters.inmemory:InMemory",
            FUSION_SERVER__ALLOWED_HOSTS='["memory.lan"]',
        ):
            settings = load(home=home)
        assert settings.backends["markdown"].options["paths"] == ["/notes"]
        assert settings.backends["markdown"].options["remember_turns"] is False
        assert not settings.backends["cortex"].enabled
        assert settings.backends["extra"].enabled
        assert set(settings.backends) == {"markdown", "cortex", "mem0", "triples", "extra"}
        assert settings.server.allowed_hosts == ("memory.lan",)

    def test_a_variable_may_have_the_url_of_the_database(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its name says that the journals are in a database: without it, no empty journal is made in the home."""
        file = tmp_path / "fusion.toml"
        file.write_text('[database]\nurl_env = "FUSION_TEAM"\n')
        database = load(home=tmp_path).database
        assert database.in_use
        assert uses_database(tmp_path)
        with pytest.raises(SettingsError, match="url_env names FUSION_TEAM, which the environment does not have"):
            database.resolved()
        monkeypatch.setenv("FUSION_TEAM", "postgresql://fusion@127.0.0.1/memories")
        assert database.resolved() == "postgresql://fusion@127.0.0.1/memories"
        file.write_text("")
        assert (load(home=tmp_path).database.resolved(), load(home=tmp_path).database.in_use) == ("", False)

    def test_the_database_of_a_home_has_a_short_form(self, tmp_path: Path) -> None:
        """`[home] database` is `[database] url`; both at once, and another key of `[home]`, are refused."""
        file = tmp_path / "fusion.toml"
        file.write_text('[home]\ndatabase = "postgresql://fusion@127.0.0.1/memories"\n')
        assert load(home=tmp_path).database.url.get_secret_value() == "postgresql://fusion@127.0.0.1/memories"
        assert uses_database(tmp_path)
        file.write_text('[home]\ndatabase = "postgresql://a/b"\n[database]\nurl = "postgresql://c/d"\n')
        with pytest.raises(SettingsError, match="leave one out"):
            load(home=tmp_path)
        file.write_text('[home]\ndatabse = "postgresql://a/b"\n')
        with pytest.raises(SettingsError, match=r"\[home\] databse: there is no such setting"):
            load(home=tmp_path)

    def test_relative_paths_count_from_their_file(self, tmp_path: Path) -> None:
        """`paths`, `home`, every `…_folder` and `…_file`, in any table; absolute ones stay; ~ is the user's folder."""
        text = 'home = "h"\nrecipes_folder = "mine"\n[embedder]\napi_key_file = "key"\n'
        text += '[backends.markdown]\npaths = ["../notes", "/abs", "~/x"]\n'
        settings = load(written(tmp_path / "etc", text))
        assert settings.home == tmp_path / "etc" / "h"
        assert settings.recipes_folder == tmp_path / "etc" / "mine"
        assert settings.embedder.api_key_file == str(tmp_path / "etc" / "key")
        paths = settings.backends["markdown"].options["paths"]
        assert paths == [str(tmp_path / "notes"), "/abs", str(Path.home().resolve() / "x")]


class TestBackends:
    def test_one_option_keeps_the_others(self, home: Path) -> None:
        """Who sets one option of a backend keeps its other defaults, and the other backends."""
        settings = load(written(home, "[backends.markdown]\ndeadline_ms = 5\n"), home=home)
        default = Settings().backends
        assert settings.backends["markdown"] == default["markdown"].model_copy(update={"deadline_ms": 5})
        assert {n: b for n, b in settings.backends.items() if n != "markdown"} == {
            n: b for n, b in default.items() if n != "markdown"
        }

    def test_backends_only(self, home: Path) -> None:
        """Only those of the file, wherever it is said; none when the file has none."""
        mine = '[backends.mine]\nadapter = "adapters.inmemory:InMemory"\n'
        assert set(load(written(home, "backends_only = true\n" + mine), home=home).backends) == {"mine"}
        assert set(load(written(home, "backends_only = true\n"), home=home).backends) == set()
        with environment(FUSION_BACKENDS_ONLY="true"):
            assert set(load(written(home, mine), home=home).backends) == {"mine"}
        with environment(FUSION_BACKENDS_ONLY="false"):
            assert len(load(written(home, mine), home=home).backends) == 5

    def test_unknown_keys_of_a_backend_go_to_its_adapter(self, home: Path) -> None:
        """Every key of a backend's table that is not one of the four goes to its adapter."""
        settings = load(written(home, '[backends.mem0]\nenabled = true\ncollection = "c"\ndepth = 3\n'), home=home)
        assert settings.backends["mem0"].options == {"collection": "c", "depth": 3}


class TestMistakes:
    @pytest.mark.parametrize(
        ("table", "wrong"),
        [
            ('markdown = {fallback_for = "qmd"}', "backends.markdown.fallback_for = 'qmd': there is no such backend"),
            (
                'markdown = {fallback_for = "markdown"}',
                "backends.markdown.fallback_for: it would be a fallback for itself",
            ),
            (
                'markdown = {fallback_for = "cortex"}\ncortex = {fallback_for = ["mem0", "markdown"]}',
                "backends.markdown.fallback_for: it would be a fallback for itself",
            ),
        ],
    )
    def test_a_fallback_for_a_missing_backend_or_itself_is_refused(
        self, tmp_path: Path, table: str, wrong: str
    ) -> None:
        """Each would never be asked; the second by way of another."""
        with pytest.raises(SettingsError, match=re.escape(wrong)):
            load(written(tmp_path, f"[backends]\n{table}\n"))

    def test_a_pattern_that_makes_no_sense(self, tmp_path: Path) -> None:
        """Said when the file is read, not when the first note is looked at."""
        with pytest.raises(SettingsError, match=r"notes.ignore: a pattern is not valid: bad character range"):
            load(written(tmp_path, '[notes]\nignore = ["[z-a].md"]\n'))

    def test_a_time_zone_that_is_none(self, tmp_path: Path) -> None:
        """Named at the start, and not when the first day is written."""
        with pytest.raises(SettingsError, match=r"flush.zone: there is no such time zone"):
            load(written(tmp_path, '[flush]\nzone = "Mars/Olympus"\n'))

    @pytest.mark.feature("a mistake in the settings is reported with its key and file")
    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("nonsense = 1", "nonsense: there is no such setting"),
            ("[server]\nprot = 1", "server.prot: there is no such setting"),
            ("[judge]\nkey = 'x'", "judge.key: there is no such setting"),
            ("[server]\nport = 'high'", "server.port: "),
            ("[server]\nport = 65536", "server.port: "),
            ("server = 5", "server: "),
            ("backends = 5", "backends: "),
            ("[backends]\nmarkdown = 5", "backends.markdown: "),
            ("[backends.markdwn]\nenabled = true", "backends.markdwn.adapter: did you mean markdown?"),
            (
                "[backends.extra]\nenabled = true",
                "backends.extra.adapter: the built-in backends are markdown, cortex, mem0",
            ),
            ("[backends.extra]\nadapter = 5", "backends.extra.adapter: Input should be a valid string"),
            ("[backends.markdown]\ndeadline_ms = 0", "backends.markdown.deadline_ms: "),
            ("log_level = 'loud'", "log_level: "),
            ("[[server.keys]]\nname = 'a'\nsha256 = 'short'", "server.keys.0.sha256: "),
            ("[server", "is not TOML: "),
            ("port = 1\nport = 2", "is not TOML: "),
        ],
    )
    def test_key_and_file_are_named(self, home: Path, text: str, key: str) -> None:
        """An unknown key, a wrong type, a number out of range, broken TOML."""
        file = written(home, text)
        with pytest.raises(SettingsError) as caught:
            load(home=home)
        assert key in str(caught.value)
        assert str(file) in str(caught.value)

    def test_a_file_that_is_no_text(self, home: Path) -> None:
        """Is named like broken TOML."""
        home.mkdir()
        (home / "fusion.toml").write_bytes(b"\xff\xfe")
        with pytest.raises(SettingsError, match=re.escape(f"{home / 'fusion.toml'} is not TOML")):
            load(home=home)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """Only one that was asked for by name is missed; nor is a folder a file."""
        for missing in (tmp_path / "none.toml", tmp_path):
            with pytest.raises(SettingsError, match=re.escape(f"no configuration file {missing}")):
                load(missing, home=tmp_path)
        assert load(home=tmp_path).home == tmp_path

    def test_a_variable_is_named(self, home: Path) -> None:
        """A mistake in the environment is not blamed on the file."""
        file = written(home, "[server]\nport = 1001\n")
        with environment(FUSION_SERVER__PORT="high"), pytest.raises(SettingsError) as caught:
            load(home=home)
        assert "FUSION_SERVER__PORT: " in str(caught.value)
        assert str(file) not in str(caught.value)
        with (
            environment(FUSION_BACKENDS="nonsense"),
            pytest.raises(SettingsError, match="FUSION_ variable is not JSON"),
        ):
            load(home=home)

    def test_all_mistakes_at_once(self, home: Path) -> None:
        """Two mistakes are told in one run."""
        with pytest.raises(SettingsError, match=r"server\.port.*; .*nonsense"):
            load(written(home, "nonsense = 1\n[server]\nport = -1\n"), home=home)

    def test_secrets_are_not_repeated(self, home: Path) -> None:
        """A key that stands in the wrong place is not printed."""
        with pytest.raises(SettingsError) as caught:
            load(written(home, "[judge]\napi_key = 'sk-ant-secret'\nmax_tokens = 'sk-ant-secret'\n"), home=home)
        assert "sk-ant-secret" not in str(caught.value)


class TestOrigins:
    @pytest.mark.parametrize("origin", ["*", "null", "https://*.notes.example", "notes.example", "https://a.example/x"])
    def test_an_origin_is_exact(self, home: Path, origin: str) -> None:
        """A pattern would let in pages that nobody meant; every sandboxed page has the origin `null`."""
        with pytest.raises(SettingsError, match="write an exact origin"):
            load(written(home, f'[server]\nallowed_origins = ["{origin}"]\n'), home=home)

    @pytest.mark.parametrize("origin", ["HTTPS://Notes.Example/", "http://[::1]:3000", "chrome-extension://abcdef"])
    def test_an_origin_is_read_as_browsers_send_it(self, home: Path, origin: str) -> None:
        settings = load(written(home, f'[server]\nallowed_origins = ["{origin}"]\n'), home=home)
        assert settings.server.allowed_origins == (origin.lower().rstrip("/"),)


class TestKeys:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "memory.lan"])
    def test_another_address_needs_a_key(self, home: Path, host: str) -> None:
        """Memories are private: a reachable address is refused until there is a key, in the file or the environment."""
        text = f'[server]\nhost = "{host}"\n'
        with pytest.raises(SettingsError, match="set FUSION_API_KEY"):
            load(written(home, text), home=home)
        keyed = f'{text}[[server.keys]]\nname = "laptop"\nsha256 = "{"0" * 64}"\n'
        assert load(written(home, keyed), home=home).server.host == host
        with environment(FUSION_API_KEY="secret"):
            assert load(written(home, text), home=home).server.host == host

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
    def test_loopback_needs_none(self, home: Path, host: str) -> None:
        """Each of the three names of this machine."""
        assert load(written(home, f'[server]\nhost = "{host}"\n'), home=home).keys == ()

    def test_the_environments_key_is_kept_as_a_hash(self, home: Path) -> None:
        """It opens the tenant `default`, beside the file's; no representation of the settings shows it."""
        text = f'[[server.keys]]\nname = "laptop"\nsha256 = "{"0" * 64}"\ntenant = "acme"\n'
        with environment(FUSION_API_KEY="sk-secret"):
            settings = load(written(home, text), home=home)
        assert [(key.name, key.tenant) for key in settings.keys] == [("laptop", "acme"), ("environment", "default")]
        assert settings.keys[1].sha256 == sha256(b"sk-secret").hexdigest()
        assert "sk-secret" not in repr(settings) + str(settings.model_dump()) + settings.model_dump_json()


class TestANewFile:
    def test_without_a_choice_it_changes_nothing(self, home: Path) -> None:
        """Every default stands in it as a comment, and none as a setting."""
        text = new_file([], "Mine.")
        assert text.startswith("# Mine.\n\n# The recipe of a request")
        tables = tomllib.loads(text)
        assert set(tables.pop("backends")) == {"markdown", "cortex", "mem0", "triples"}
        assert tables.pop("embedder") == {"next": {}}
        assert tables.pop("trust") == {"sources": {}}
        jobs = {
            "checks",
            "consolidation",
            "distill",
            "episodes",
            "extract",
            "feed",
            "grade",
            "layers",
            "lifecycle",
            "observe",
            "proposals",
            "receipts",
            "reflect",
            "reflect_prefix",
            "shepherd",
            "vectors",
        }
        assert set(tables.pop("jobs")) == jobs
        assert all(table == {} for table in tables.values())
        assert load(written(home, text), home=home) == load(home=home.parent / "empty").model_copy(
            update={"home": home}
        )

    @pytest.mark.feature(
        "… its `fusion.toml` has every setting with its reason, copied from the shipped file",
        of="`fusion init` goes from nothing",
    )
    def test_every_setting_of_the_shipped_file_is_in_it(self) -> None:
        """With each line's # taken away it is the shipped file again, but for its opening: it cannot drift."""
        shipped = SHIPPED.read_text(encoding="utf-8").split("\n\n", 1)[1]
        ours = new_file([], "Mine.").split("\n\n", 1)[1]
        assert re.sub(r"^# (?=\w+ = )", "", ours, flags=re.MULTILINE) == re.sub(
            r"^# (?=\w+ = )", "", shipped, flags=re.MULTILINE
        )

    def test_new_file_has_the_chosen_settings_in_their_place(self, home: Path) -> None:
        """With its reason above it; paths of any name are written so that they are read again."""
        folder = '/home/ada/it\'s "here" \\ ü\x7f'
        chosen = [
            Chosen("backends.markdown", "paths", f"[{toml_text(folder)}]", "found here"),
            Chosen("backends.mem0", "enabled", "false", "not installed"),
            Chosen("", "log_level", '"debug"', "to see more"),
        ]
        text = new_file(chosen, "Mine.")
        settings = load(written(home, text), home=home)
        assert settings.backends["markdown"].options["paths"] == [folder]
        assert (settings.backends["mem0"].enabled, settings.backends["cortex"].enabled) == (False, True)
        assert settings.log_level == "debug"
        assert "# Chosen: not installed\nenabled = false\n" in text

    def test_a_setting_that_is_not_there_is_refused(self) -> None:
        """A misspelt choice would silently do nothing."""
        with pytest.raises(SettingsError, match=r"no setting server\.prot"):
            new_file([Chosen("server", "prot", "1", "")], "Mine.")
