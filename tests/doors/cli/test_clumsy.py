"""What people mistype, one case each: one line on stderr that has the right hint, an exit code, and no traceback."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app, render
from fusion.home import HomeLock, ServerRecord, write_record
from fusion.trust import allow
from tests.doors.fakes import SMALL

KEPT = SMALL.replace("adapters.inmemory:InMemory", "adapters.cortex:Cortex")
"""the same with a store that lasts from one command to the next"""
NOBODY = 65_534
"""the uid of a user without any rights"""


def fusion(*words: object, environ: Mapping[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env=dict(environ or {}))


@dataclass(frozen=True)
class Case:
    """A command line that is wrong. ``@`` in words, hints and variables stands for the home's path."""

    words: str
    hints: Sequence[str]
    code: int = 2
    settings: str = SMALL
    environ: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], Any] = lambda home: None

    def __str__(self) -> str:
        return f"{self.words} {self.hints[0]}"


def points(adapter: str) -> str:
    """Settings with one more backend."""
    return f'{SMALL}[backends.points]\nadapter = "{adapter}"\n'


def put_a_file_there(home: Path) -> None:
    (home.parent / "file").write_text("no folder")


ASK = "fuse q --home @ --direct"
CASES = [
    # A home that is not there, or is no home.
    Case("memories", ["FUSION_HOME names it", "did you mean @?"], 1, environ={"FUSION_HOME": "@e"}),
    Case("fuse when do we deploy", ["there is no home", "fusion init --home"], 1, environ={"FUSION_HOME": "@e"}),
    Case("status --home @e", ["there is no home @e; did you mean @?"], 1),
    Case("get m1 --home @e --direct", ["did you mean @?"], 1),
    Case("fuse q", ["is a file, and a home is a folder", "FUSION_HOME"], 1, environ={"FUSION_HOME": "@/../file"}),
    Case("remember it --home @/../file", ["is a file, and a home is a folder"], 1),
    Case("serve --home @/../file", ["is a file, and a home is a folder"], 1),
    Case("stop --home @/../file", ["is a file, and a home is a folder"], 1),
    Case("init --yes --home @/../file", ["is not a folder"], 1),
    # Settings.
    Case(ASK, ["@/fusion.toml: server.prot", "did you mean port?"], 1, "[server]\nprot=1"),
    Case("fuse q --home @", ["did not start: @/fusion.toml: server.prot"], 1, "[server]\nprot = 1"),
    Case("serve --home @", ["srever: there is no such setting; did you mean server?"], 1, "[srever]\nport = 1"),
    Case("serve --home @", ["port: there is no such setting; it belongs in [server]"], 1, "port = 1"),
    Case("serve --home @", ["server.port: Input should be a valid integer"], 1, '[server]\nport = "a"'),
    Case("serve --home @", ["@/fusion.toml is not TOML", "at line 2, column"], 1, "[server]\nport = \n"),
    Case("serve --home @", ["recipe = 'depe'", "did you mean deep?"], 1, f'recipe = "depe"\n{SMALL}'),
    Case("backends --home @ --direct", ["did you mean markdown?"], 1, "[backends.markdwon]\npaths = []"),
    Case("backends --home @ --direct", ["'pahts'", "did you mean paths?"], 1, "[backends.markdown]\npahts = []"),
    Case(ASK, ["FUSION_SREVER__PORT", "did you mean server?"], 1, SMALL, {"FUSION_SREVER__PORT": "1"}),
    Case(ASK, ["FUSION_SERVER__PORT: Input should"], 1, SMALL, {"FUSION_SERVER__PORT": "a"}),
    Case("fuse q --config @/fusoin.toml", ["there is no configuration file", "did you mean @/fusion.toml?"], 1),
    Case("fuse q --config @", ["is a folder, not a configuration file"], 1),
    Case("fues --home @", ["is not TOML"], 1, "[server"),
    # Adapters.
    Case(ASK, ["no module adapters.qdrnt; did you mean adapters.qdrant?"], 1, points("adapters.qdrnt:Qdrant")),
    Case(ASK, ["write package.module:Class; did you mean Qdrant?"], 1, points("adapters.qdrant:Qdrnat")),
    Case(ASK, ["[backends.points] url is missing"], 1, points("adapters.remote:Remote")),
    Case(ASK, ["'colection'", "did you mean collection?"], 1, points("adapters.qdrant:Qdrant") + 'colection = "a"'),
    # Names.
    Case("fues q", ["no such command 'fues'. Did you mean fuse?"]),
    Case("cortxe recall", ["Did you mean cortex?"]),
    Case("why did we leave SQLite", ["To ask: fusion fuse why did we leave SQLite"]),
    Case("fuse q --budgt-tokens 3", ["Did you mean --budget or --budget-tokens?", "fusion fuse --help"]),
    Case("fuse q --budget many", ["--budget", "valid integer"]),
    Case("fuse q --home @ --direct --recipe depe", ["recipe 'depe'", "did you mean deep?"]),
    Case("fuse q --home @ --direct --backend memry", ["backend 'memry'", "did you mean memory?"]),
    Case("search memry q --home @ --direct", ["backend 'memry'", "did you mean memory?"]),
    Case("fuse", ["missing argument", "quote it where your shell takes ? and * for file names"]),
    Case("remember", ["missing argument", "quote it"]),
    Case("ingest", ["missing argument 'paths'. Name folders or files: fusion ingest ~/notes"]),
    Case("get", ["missing argument 'ref'", "fusion memories"]),
    Case("--home @ fuse q", ["no such option: --home. Put options after the command"]),
    Case("fuse q --budget 0 --home @ --direct", ["--budget: Input should be greater than or equal to 1"]),
    Case("fuse q --agent= --home @ --direct", ["--agent: is empty"]),
    Case("remember it --kind nte --home @ --direct", ["--kind: Input should be 'rule'"]),
    Case("remember it --at tomorrow --home @ --direct", ["--at: is no time", "2026-01-31"]),
    Case("get m9z --home @ --direct", ["m9z"]),
    Case("fuse q --as-of 2026-13-45 --home @ --direct", ["2026-01-31"]),
    Case("ingest nope.md --home @ --direct", ["nope.md"]),
]  # fmt: skip


@pytest.fixture
def hands(home: Path) -> Path:
    """A home whose name can be misspelt, next to a file."""
    home.mkdir(mode=0o700)
    put_a_file_there(home)
    return home


@pytest.mark.feature("a typing error gets one line with the nearest name or the fix, and no traceback")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_gets_one_line_with_the_hint(hands: Path, case: Case) -> None:
    """Nothing on stdout, one line on stderr, the exit code, and neither a traceback nor a new folder."""
    (hands / "fusion.toml").write_text(case.settings)
    allow(hands)
    before = sorted(hands.parent.iterdir())

    def placed(text: str) -> str:
        return text.replace("@", str(hands))

    variables = {name: placed(value) for name, value in case.environ.items()}
    result = fusion(*map(placed, case.words.split()), environ=variables)
    assert isinstance(result.exception, SystemExit), result.exception
    [line] = [line for line in result.stderr.splitlines() if not line.startswith("skipped:")]
    assert line.startswith("fusion: ")
    for one in case.hints:
        assert placed(one) in line
    assert result.exit_code == case.code
    assert case.words.startswith("ingest") or result.stdout == ""
    assert sorted(hands.parent.iterdir()) == before


@pytest.mark.feature("a second `fusion serve` is given the address of the first")
def test_a_second_server_is_given_the_address_of_the_first(hands: Path) -> None:
    """It needs no second one, and how to stop the first one is said."""
    (hands / "fusion.toml").write_text(SMALL)
    allow(hands)
    with HomeLock.take(hands, f"fusion serve --home {hands}"):
        write_record(hands, ServerRecord(os.getpid(), "http://127.0.0.1:9", "2026-01-31T00:00:00Z"))
        result = fusion("serve", "--home", hands)
    [line] = result.stderr.splitlines()
    assert result.exit_code == 1
    assert "It answers on http://127.0.0.1:9, so nothing needs to be started" in line
    assert f"fusion stop --home {hands}" in line


@contextmanager
def without_rights() -> Iterator[None]:
    """Runs as nobody; root may read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.feature("a home without read permission is reported, with the command that shows its owner")
@pytest.mark.parametrize("words", ["fuse q --direct", "memories", "remember it --direct", "serve", "status"])
def test_a_home_without_permission_is_named(hands: Path, words: str) -> None:
    """With the command that shows whose it is."""
    (hands / "fusion.toml").write_text(SMALL)
    hands.chmod(0)
    try:
        with without_rights():
            result = fusion(*words.split(), "--home", hands)
    finally:
        hands.chmod(0o700)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert f"no permission for {hands}" in line
    assert "ls -ld" in line


def test_wrong_usage_is_problem_details_for_programs(hands: Path) -> None:
    """With --json, as every other error."""
    result = fusion("fuse", "q", "--budgt", "3", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    problem = orjson.loads(result.stderr)
    assert (problem["status"], "--budget" in problem["detail"]) == (422, True)


@pytest.mark.feature("a named home that does not exist takes no memory: a typo does not swallow one")
@pytest.mark.parametrize("command", [["remember", "it"], ["ingest", "notes"], ["mem0", "history", "m1"]])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_home_that_is_not_there_takes_no_memory(
    hands: Path, command: list[str], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the nearest home and what makes one; nothing is made."""
    (hands / "fusion.toml").write_text(SMALL)
    (hands / "notes").mkdir()
    missing = f"{hands}s"
    monkeypatch.chdir(hands)
    if by == "variable":
        monkeypatch.setenv("FUSION_HOME", missing)
    result = fusion(*command, *(["--home", missing] if by == "option" else []))
    assert result.exit_code == 1
    assert f"there is no home {missing}" in result.stderr
    assert f"did you mean {hands}?" in result.stderr
    assert f"fusion init --home {missing}" in result.stderr
    assert not Path(missing).exists()


def test_serving_a_new_home_with_nearly_the_name_of_another_points_that_out(hands: Path) -> None:
    """`fusion serve` makes a home; the address of another one is refused before anything listens."""
    (hands / "fusion.toml").write_text(SMALL)
    result = fusion("serve", "--home", f"{hands}s", "--host", "192.0.2.1")
    assert f"{hands}s is a new home; did you mean {hands}?" in result.stderr
    assert result.exit_code != 0


def test_a_misspelt_variable_is_pointed_out(hands: Path) -> None:
    """Nothing reads it, so nothing else would say so."""
    (hands / "fusion.toml").write_text(SMALL)
    result = fusion("memories", "--home", hands, "--direct", environ={"FUSION_HOEM": "x"})
    assert result.exit_code == 0
    assert "nothing reads the variable FUSION_HOEM; did you mean FUSION_HOME?" in result.stderr


# Words without quotes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one memory, for all tests that only ask for it."""
    home = tmp_path_factory.mktemp("small") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(KEPT)
    ingest(home, "We deploy on Tuesdays.")
    return home


@pytest.fixture
def lost(hands: Path) -> Path:
    """A home with the same memory, for a test that forgets it."""
    (hands / "fusion.toml").write_text(KEPT)
    ingest(hands, "We deploy on Tuesdays.")
    return hands


def ingest(home: Path, *texts: str) -> None:
    """Remembers texts and waits until the backend has them."""
    file = home.parent / "said.jsonl"
    file.write_text(
        "".join(orjson.dumps({"text": text, "position": n}).decode() + "\n" for n, text in enumerate(texts))
    )
    assert fusion("ingest", file, "--home", home, "--direct").exit_code == 0


def test_what_is_remembered_needs_no_quotes(hands: Path) -> None:
    """Options may be before and after."""
    (hands / "fusion.toml").write_text(KEPT)
    words = "remember --kind decision We deploy --speaker Ada on Tuesdays."
    assert fusion(*words.split(), "--home", hands, "--direct").exit_code == 0
    kept = fusion("get", "m1", "--home", hands, "--direct").stdout
    assert kept.startswith("We deploy on Tuesdays.\n")
    assert "decision" in kept
    assert "Ada" in kept


@pytest.mark.feature("questions and texts need no quotes, and options may be anywhere")
@pytest.mark.parametrize(
    "words",
    [
        "fuse when do we deploy",
        "fuse --budget 500 when do we deploy",
        "fuse when do --budget 500 we deploy?",
        "search memory when do we deploy",
        "search --limit 3 memory when do we deploy?",
    ],
)
def test_a_question_needs_no_quotes(small: Path, words: str) -> None:
    """Its words are joined, wherever the options are."""
    result = fusion(*words.split(), "--home", small, "--direct")
    assert (result.exit_code, "We deploy on Tuesdays." in result.stdout) == (0, True), result.output


def test_two_arms_are_compared_without_quotes(small: Path) -> None:
    """As a question is asked."""
    result = fusion("compare", "when", "do", "we", "deploy", "--b", "deep", "--home", small, "--direct")
    assert (result.exit_code, "1 in both" in result.stdout) == (0, True), result.output


def test_a_word_that_is_a_file_may_have_been_a_question_mark(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that takes `deploy?` for `deploys` asks for something else: said where nothing was found."""
    monkeypatch.chdir(small.parent)
    (small.parent / "kiwis").touch()
    result = fusion("fuse", "where", "are", "the", "kiwis", "--home", small, "--direct")
    assert "'kiwis' is a file here" in result.stderr
    assert "quote the question" in result.stderr


@pytest.mark.feature("a ref is accepted as it was copied: in brackets, in capitals, with commas")
@pytest.mark.parametrize("ref", ["[m1]", "M1", "m1,", "[m1],"])
def test_a_ref_is_taken_as_it_was_copied(small: Path, ref: str) -> None:
    """With the brackets of the block, in capitals, with a comma."""
    kept = orjson.loads(fusion("memories", "--home", small, "--direct", "--json").stdout)["memories"][0]["ref"]
    typed = ref.replace("m1", kept).replace("M1", kept.upper())
    assert fusion("get", typed, "--home", small, "--direct").stdout.startswith("We deploy on Tuesdays.")
    previewed = fusion("forget", f"{typed},{kept}", "--dry-run", "--home", small, "--direct")
    assert previewed.stdout.splitlines()[-1] == "1 would be forgotten."


# What is printed --------------------------------------------------------------------------------------------------


def test_fuse_prints_the_block_alone(small: Path) -> None:
    """On stdout what an agent gets, character by character; nothing on stderr where it is no terminal."""
    result = fusion("fuse", "when do we deploy?", "--home", small, "--direct")
    block = orjson.loads(fusion("fuse", "when do we deploy?", "--home", small, "--direct", "--json").stdout)["block"]
    fence = block.split('"')[1]
    assert result.stdout.replace(result.stdout.split('"')[1], fence) == f"{block}\n"
    assert result.stderr == ""


@pytest.mark.feature(
    "`fusion fuse` prints the block alone; `-v` adds backends and reasons, `--explain` what was left out"
)
def test_the_tables_stand_behind_v_and_explain(small: Path) -> None:
    """-v: backends and memories; --explain: also what was left out."""
    asked = ("fuse", "when do we deploy?", "--home", small, "--direct")
    plain, verbose, explained = (fusion(*asked, *more).stdout for more in ([], ["-v"], ["--explain"]))
    titles = ("backend ", "found by", "left out")
    tables = [[title in printed for title in titles] for printed in (plain, verbose, explained)]
    assert tables == [[False] * 3, [True, True, False], [True] * 3]
    assert "recipe default" in verbose
    assert "recipe default" not in plain


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def answered(small: Path) -> Any:
    return orjson.loads(fusion("fuse", "when do we deploy?", "--home", small, "--direct", "--json").stdout)


@pytest.mark.feature(
    "… on a terminal, one line on stderr has milliseconds, recipe and receipt",
    of="`fusion fuse` prints the block alone",
)
def test_on_a_terminal_one_quiet_line_follows_the_block(small: Path) -> None:
    """Milliseconds, recipe and receipt, on stderr."""
    answer = {**answered(small), "degraded": False}
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(Terminal()) as err:
        render.fused(answer)
    assert out.getvalue() == answer["block"] + "\n"
    [line] = err.getvalue().splitlines()
    assert f"recipe default · receipt {answer['receipt_id']}" in line


@pytest.mark.feature("… and one line on stderr names a backend that failed", of="`fusion fuse` prints the block alone")
def test_what_failed_is_one_line_on_stderr(small: Path) -> None:
    """The backend, its status and why; not a table."""
    down = {
        "name": "points",
        "status": "unreachable",
        "took_ms": 1.0,
        "count": 0,
        "error_code": None,
        "detail": "refused",
    }
    answer = {**answered(small), "degraded": True, "notes": []}
    answer["backends"] = [*answer["backends"], down]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        render.fused(answer)
    assert out.getvalue() == answer["block"] + "\n"
    assert err.getvalue() == "fusion: degraded: points unreachable (refused) (fusion status shows more)\n"


def test_nothing_found_leaves_stdout_empty(small: Path) -> None:
    """An agent that pipes the answer gets no remark for a memory."""
    result = fusion("fuse", "zebra", "--home", small, "--direct")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing found" in result.stderr


LONG = "The falafel place behind the station has closed for good. " * 8


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two backends and three long memories."""
    home = tmp_path_factory.mktemp("station") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(KEPT + '[backends.other]\nadapter = "adapters.inmemory:InMemory"\n')
    ingest(home, *(f"{name} said: {LONG}\n\nsecond line" for name in ("Mara", "Nadia", "Berit")))
    return home


@pytest.mark.feature("lists have one line for each memory, as wide as the terminal, with refs that `get` accepts")
@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize(
    "words", ["memories", "search memory falafel", "forget --query falafel --dry-run", "compare falafel --b -memory"]
)
def test_a_list_has_one_line_for_each_memory(
    station: Path, words: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clipped where the terminal ends, and under refs that `get` takes."""
    monkeypatch.setenv("COLUMNS", str(width))
    printed = fusion(*words.split(), "--home", station, "--direct").stdout.splitlines()
    rows = [line for line in printed if "said:" in line]
    assert len(rows) == 3 or words.startswith("compare"), printed
    assert all(len(line) <= width for line in printed if "said:" in line)
    assert not [line for line in printed if ("station" in line or "second" in line) and "said:" not in line]
    for row in rows:
        ref = next(cell for cell in row.split() if cell[0] == "m")
        assert fusion("get", ref, "--home", station, "--direct").exit_code == 0


@pytest.mark.feature("a table in a very narrow terminal keeps its words whole")
def test_a_table_in_a_very_narrow_terminal_keeps_its_words_whole(hands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal wraps the lines; no date becomes a column of single characters."""
    monkeypatch.setenv("COLUMNS", "20")
    (hands / "fusion.toml").write_text(KEPT)
    ingest(hands, f"Mara said: {LONG}")
    printed = fusion("memories", "--home", hands, "--direct").stdout.splitlines()
    assert len([line for line in printed if re.match(r"m1 +\d{4}-\d{2}-\d{2} +note +Mara said", line)]) == 1, printed


def test_a_home_that_is_like_another_is_corrected_in_plain_sentences(hands: Path) -> None:
    """The name that is there, then what makes a new one."""
    (hands / "fusion.toml").write_text(KEPT)
    said = fusion("status", "--home", hands.with_name("hoem")).stderr
    assert f"did you mean {hands}? To make one: fusion init" in said


@pytest.mark.feature("`fusion search` shows refs; `-v` and JSON have a backend's own ids")
def test_search_shows_refs_and_its_own_ids_only_on_demand(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ref that `get` and `forget` take; the native id with -v and in JSON."""
    monkeypatch.setenv("COLUMNS", "150")
    asked = ("search", "memory", "when do we deploy?", "--home", lost, "--direct")
    [hit] = orjson.loads(fusion(*asked, "--json").stdout)["hits"]
    plain, verbose = fusion(*asked).stdout, fusion(*asked, "-v").stdout
    assert hit["ref"] in plain.split()
    assert hit["native_id"] not in plain
    assert hit["native_id"] in verbose
    assert fusion("get", hit["ref"], "--home", lost, "--direct").stdout.startswith("We deploy on Tuesdays.")
    assert fusion("forget", hit["ref"], "--yes", "--home", lost, "--direct").exit_code == 0


@pytest.mark.feature("a memory that was deleted everywhere is reported in two lines; a table lists the rest")
def test_a_memory_that_is_gone_everywhere_is_two_lines(lost: Path) -> None:
    """The table of backends is for what is not gone."""
    [line, where] = fusion("forget", "m1", "--yes", "--home", lost, "--direct").stdout.splitlines()
    assert line == "1 memory forgotten."
    assert where == "Deleted in memory; each was asked again and does not return it."
    with redirect_stdout(io.StringIO()) as out:
        render.forgettings([{"ref": "m1", "event_id": "e", "backends": {"memory": "pending"}}], [])
    assert "backend   pending" in out.getvalue()
