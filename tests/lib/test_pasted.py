"""What was typed in a prompt, and what was pasted into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.pasted import Prompt, prompt_parts

ASKED = "Why does the importer fail again?"
TRACEBACK = 'Traceback (most recent call last):\n  File "app.py", line 17, in rows\n    return [int(x) for x in line]'
LOG = "2026-11-21 10:00:01 INFO started\n2026-11-21 10:00:02 ERROR no rows"
FENCED = "```js\nconst a = 1\nreturn a\n```"
REPEATED = "worker 1 is done\nworker 2 is done\nworker 3 is done"
DIFF = "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n--- a/x\n+++ b/x"


@pytest.mark.parametrize("pasted", [TRACEBACK, LOG, FENCED, REPEATED, DIFF])
@pytest.mark.parametrize("form", ["{asked}\n\n{pasted}", "{pasted}\n{asked}", "Good morning.\n{pasted}\n\n{asked}"])
def test_pasted_lines_are_told_from_typed_ones(pasted: str, form: str) -> None:
    """Before, after and between: fenced code, tracebacks, logs, repeated lines and diffs."""
    found = prompt_parts(form.format(asked=ASKED, pasted=pasted))
    assert ASKED in found.typed
    assert found.pasted == pasted


@pytest.mark.parametrize(
    "prompt",
    [
        ASKED,
        "",
        f"fix this:\n{TRACEBACK}",
        TRACEBACK,
        "Two questions:\n- who pays Bo (and when)?\n- what is the plan?\n    - for May (a draft)\n    1. of Ada;",
        "First line of a letter\nSecond line of it\nAnd a third one",
    ],
)
def test_prompt_without_pasted_or_typed_lines_is_whole(prompt: str) -> None:
    """One line, lists and prose; and one that says nothing without what was pasted."""
    assert prompt_parts(prompt) == Prompt(prompt)


def test_cut_keeps_what_was_typed_and_the_last_pasted_lines() -> None:
    """Of fenced code it keeps a fence, so that it is seen as code again."""
    lines = "\n".join(f"value_{n} = {n}" for n in range(500))
    found = prompt_parts(f"```python\n{lines}\n```\n{ASKED}")
    cut = found.cut(400)
    assert len(cut) <= 400
    assert cut.startswith(f"{ASKED}\n```\n")
    assert cut.endswith("value_499 = 499\n```")
    assert prompt_parts(cut).typed == ASKED
    assert found.cut(10_000) == f"{ASKED}\n{found.pasted}"
    assert found.cut(20) == ASKED


@given(st.text(st.sampled_from("a b\n`-{};\t1"), max_size=200), st.integers(0, 120))
def test_no_line_is_lost_and_none_is_made_up(text: str, chars: int) -> None:
    found = prompt_parts(text)
    assert sorted("".join(found).split()) == sorted(text.split()) or found == Prompt(text)
    assert len(found.cut(chars)) <= max(chars, len(found.typed))
