"""Every regular expression that sees text from outside takes time that grows with the text, not faster."""

from __future__ import annotations

import re

import pytest

from adapters.judges import reply
from fusion.lib.ignore import _translated
from tests.fire import pumps
from tests.fire.functions import FUNCTIONS, texts

BUILT = {
    "fusion.ingest.extract": "a keyword of ours between two word boundaries",
    "fusion.doors.cli.timers": "two marks of ours around the lines in the user's own crontab",
    "fusion.lib.ignore": "the user's own patterns for files",
    "fusion.lib.redact": "each kind is checked in tests/fire/test_secrets.py",
    "fusion.lib.heuristic_v1": "checked as `importance` by the tests of text functions",
    "fusion.lib.same_subject": "checked as `same subject` by the tests of text functions",
    "fusion.lib.toml_table": "the header of one table in a file of the user's own",
    "fusion.lib.words": "checked as `fusion.lib.words.words` by the tests of text functions",
    "adapters.qdrant.memories": "the name of a collection in the settings, and one class",
    "fusion.lib.lazy_pattern": "compiles the patterns of other modules, which are tried under their names",
}
"""modules with a pattern that is built at run time, and why it is safe"""
FAST_S = 0.002
"""CPU seconds for 16 KB below which a function is also given 64 KB, because growth would hide in so little"""
OF_FAST = 12.0
"""times the CPU of 16 KB that 64 KB may take such a function. They no longer fit into the processor's first cache, so
a character takes twice as long from there on"""
HELD_BACK = {
    "fusion.lib.ignore._PIECE": "sees a text only up to its last closing bracket",
    "fusion.lib.word_forms._SENTENCE_ENDS": "sees eight characters",
}
"""patterns that are super-linear on texts that their callers never give them; the callers have tests below"""


def found_in(module: str) -> list[pumps.Found]:
    """The patterns of a module, without those that are held back."""
    found, _ = pumps.patterns()
    return [each for each in found if each.module == module and each.name not in HELD_BACK]


@pytest.mark.feature("every regular expression takes linear time on hostile text")
@pytest.mark.parametrize("module", pumps.modules())
def test_a_pattern_takes_linear_time_on_hostile_text(module: str) -> None:
    """Repetitions of all that the pattern looks for, alone, in pairs, and behind what comes first in the pattern."""
    for found in found_in(module):
        binary = isinstance(found.pattern.pattern, bytes)
        for how, call in pumps.driver(found):
            for name, text in pumps.hostile(found.pattern):
                made = (lambda n, text=text: text(n).encode("latin-1", "replace")) if binary else text
                assert not (why := pumps.super_linear(call, made)), f"{found.name}: {how} on {name}: {why}"


@pytest.mark.feature("every regular expression matches the same with each Python 3.11")
def test_a_pattern_matches_the_same_with_each_python() -> None:
    """Up to Python 3.11.4 a group that is repeated possessively may go on behind what it did not match, if it looks
    round or gives back: with Debian's 3.11.2 the end of a private key was not masked (gh-106052 of CPython)."""
    found = [each for module in pumps.modules() for each in found_in(module)]
    assert len(found) > 500
    assert [each.name for each in found if pumps.unreliable(each.pattern.pattern, each.pattern.flags)] == []


def test_each_pattern_is_in_a_module_that_is_tried() -> None:
    """The modules are known before the tests run, by the words of their source; the patterns by its syntax."""
    found, _ = pumps.patterns()
    assert {each.module for each in found} <= set(pumps.modules())


def test_a_pattern_that_depends_on_the_python_is_found() -> None:
    """The check of the check: two that masked less, and two that never differed."""
    assert pumps.unreliable(r"a(?:[^-]|-(?!----))*+b")
    assert pumps.unreliable(r"(?:[a-z]{1,20}[ ])?+b")
    assert not pumps.unreliable(r"(?:[^-]++|-x)*+b")
    assert not pumps.unreliable(r"(?>(?:[a-z]{1,20}[ ])?)b")


def test_patterns_that_are_built_at_run_time_are_named_here() -> None:
    """A new one needs a reason why it is linear, or a text function's test."""
    _, built = pumps.patterns()
    assert {found.name.partition(":")[0] for found in built} == set(BUILT)


def test_a_pattern_of_files_with_open_brackets_is_read_in_linear_time() -> None:
    """Each "[" once looked for its "]" to the end of the pattern."""
    assert not pumps.super_linear(_translated, lambda n: "[" * n)
    assert not pumps.super_linear(_translated, lambda n: "[a]" * (n // 6) + "[a" * (n // 4))


def test_the_measure_finds_what_is_quadratic() -> None:
    """The check of the check: the pattern that once read code fences is caught by its own pumps."""
    once = pumps.Found(
        "fence", "fence", re.compile(r"```\s*(?:json)?\s*(.*?)\s*```", re.DOTALL), frozenset({"fullmatch"})
    )
    [(_, call)] = pumps.driver(once)
    assert any(pumps.super_linear(call, text) for _, text in pumps.hostile(once.pattern))


@pytest.mark.feature("every function that reads text from outside takes linear time")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_linear_time_on_hostile_text(name: str) -> None:
    """What memories, notes, answers of models and replies of backends go through, up to 64 KB of each shape."""
    for shape, text in texts().items():
        why = pumps.super_linear(FUNCTIONS[name], text)
        if not why and pumps.cpu(FUNCTIONS[name], text(pumps.LONG)) < FAST_S:
            why = pumps.super_linear(FUNCTIONS[name], text, short=pumps.LONG, long=4 * pumps.LONG, growth=OF_FAST)
        assert not why, f"{shape}: {why}"


def test_the_worst_answer_of_a_judge_is_read_in_a_moment() -> None:
    """Shapes that the repair of JSON takes quadratic time for are not repaired when they are long or deep."""
    for unit in ("{", "[", "(", '"a" b ', '{"a":"b" "', "[{"):
        for size in (1_024, 2_000, 65_000):
            answer = '{"scores":[' + unit * (size // len(unit))
            assert pumps.cpu(reply.entries, answer) < 1.0, unit
