"""Secrets of a hundred kinds are masked, and ordinary lines stay as they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.lib.redact import _made, redact, redact_lines
from fusion.lib.secret_kinds import MADE
from tests.fire import pumps, secrets

ORDINARY = secrets.ordinary()


@pytest.mark.feature("secrets of 105 kinds are masked")
@pytest.mark.parametrize("kind", secrets.KINDS)
def test_a_secret_is_masked(kind: str) -> None:
    """In three lines as in transcripts, with three secrets each."""
    for example in secrets.examples(seed=7, each=3):
        if example.kind == kind:
            redacted, found = redact(example.line)
            assert not secrets.shows(example, redacted), redacted
            assert found


@pytest.mark.feature("… at most one ordinary line in a thousand loses anything", of="secrets of 105 kinds")
def test_ordinary_lines_stay() -> None:
    """Hashes, ids, paths, code, prose about passwords, our own source: at most one false mask in a thousand lines."""
    changed = [line for line in ORDINARY if redact(line) != (line, {})]
    assert len(ORDINARY) > 5_000
    assert len(changed) * 1_000 <= len(ORDINARY), changed[:10]


def test_a_secret_in_the_middle_of_ordinary_text_is_masked() -> None:
    """The lines before and after a secret do not hide it, and are not changed."""
    for number, example in enumerate(secrets.examples(seed=3)):
        before, after = ORDINARY[number * 5], ORDINARY[number * 5 + 1]
        redacted = redact(f"{before}\n{example.line}\n{after}")[0]
        assert not secrets.shows(example, redacted), example.kind
        assert redacted.startswith(f"{before}\n")
        if "private key without its end" not in example.kind:  # which hides all that could still be part of it
            assert redacted.endswith(f"\n{after}")


PIECES = st.one_of(
    st.sampled_from([example.line for example in secrets.examples(seed=11)]),
    st.sampled_from(ORDINARY[:3_000]),
    st.sampled_from(["password", "is", ": ", "=", '"', "\\n", "***", "abcdef…wxyz", "Cookie: ", "--token ", " "]),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(PIECES, max_size=6), st.sampled_from(["", " ", "\n", '"', "="]))
def test_redacting_twice_changes_nothing(pieces: list[str], between: str) -> None:
    """A text that is stored, shown and sent again keeps its masks as they are."""
    once, _ = redact(between.join(pieces))
    assert redact(once) == (once, {})


KEY_LINES = "\n".join(["aezHBUEYL4VVYAVcxcTMnwTR01lpu2fa79JYDs6pCqyCIxuDLwWbm4/1L9RKJaxE"] * 3)


@pytest.mark.feature("… a private key is masked line by line, so that line numbers stay", of="secrets of 105 kinds")
@pytest.mark.parametrize(
    "key",
    [
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}",
        f"{KEY_LINES}\n-----END RSA PRIVATE KEY-----",
        f"Private-Lines: 3\n{KEY_LINES}\nPrivate-MAC: 00",
        f"Private-Lines: 3\n{KEY_LINES}",
    ],
)
def test_a_key_of_several_lines_is_masked_line_by_line(key: str) -> None:
    """Whole, cut at its end or at its beginning, and as PuTTY writes it: nothing of it stays but the line numbers."""
    lines = redact_lines(f"before\n{key}")
    assert len(lines) == len(f"before\n{key}".split("\n"))
    assert lines[0] == "before"
    assert KEY_LINES[:20] not in "".join(lines)


@given(st.lists(PIECES, max_size=6).map("\n".join))
@settings(deadline=None, max_examples=100)
def test_lines_keep_their_numbers(text: str) -> None:
    """As many lines as before, also where several are one secret."""
    assert len(redact_lines(text)) == len(text.split("\n"))


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.kind)
def test_a_kind_is_found_in_linear_time(made: object) -> None:
    """The expression of a kind, driven with repetitions of all that it looks for."""
    pattern = _made((made.kind,))  # type: ignore[attr-defined]
    for _, call in pumps.driver(pumps.Found("secrets", pattern.pattern, pattern, frozenset({"sub"}))):
        for name, text in pumps.hostile(pattern):
            assert not (why := pumps.super_linear(call, text)), f"{name}: {why}"


def test_a_text_with_hints_of_all_kinds_takes_linear_time() -> None:
    """64 KB with each hint of each kind, each name of a secret, and no secret."""
    hints = " ".join(f"{hint}{'a' * 90}." for made in MADE for hint in made.hints) + " password token= secret: -- "

    def text(size: int) -> str:
        return (hints * (size // len(hints) + 1))[:size]

    assert not pumps.super_linear(redact, text, short=pumps.LONG, long=4 * pumps.LONG)


def test_each_hint_is_in_each_example_of_its_kind() -> None:
    """An expression whose hints leave out what it would match never runs."""
    for made in MADE:
        for example in secrets.examples(seed=5):
            pattern = re.compile(rf"(?<![\w-])(?:{made.expression})")
            if (match := pattern.search(example.line)) is not None:
                assert any(hint in match.group().lower() for hint in made.hints), made.kind
                assert len(match.group()) >= made.least, made.kind
