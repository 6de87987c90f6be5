"""The protected tail of a pack: bounded, the last turns first, and harmless whatever it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import BadInput
from fusion.lib.budget import estimate_tokens
from fusion.lib.listing import CONTEXT_PACK, END
from fusion.recall.fresh_tail import protected, turns_of


@pytest.mark.row("A134", "a tail is one turn a line, plain or JSON with role and content or text")
def test_a_tail_is_read_by_line() -> None:
    text = 'user: Hi\n\n{"role": "assistant", "content": "Hello."}\n{"text": "Bye."}\n{"content": [1]}\n{broken}\n'
    assert turns_of(text) == ["user: Hi", "assistant: Hello.", "Bye.", "{broken}"]


@pytest.mark.row("A134", "of a long tail the last turns stay, within tail-max-items and tail-budget-tokens")
def test_the_last_turns_stay() -> None:
    turns = [f"user: turn {number}" for number in range(9)]
    tail = protected(turns, 1200, max_items=2)
    assert [entry.line for entry in tail.entries] == ["- [tail:1] user: turn 7\n", "- [tail:2] user: turn 8\n"]
    assert tail.left_out == 7
    assert len(protected(turns, 1200, max_items=9, budget_tokens=12).entries) == 1


def test_a_tail_that_takes_the_whole_pack_is_refused() -> None:
    with pytest.raises(BadInput, match="tail_budget_tokens: 200 leaves no room"):
        protected(["user: Hi"], 100, budget_tokens=200)


def test_a_tail_has_no_secret_and_no_home_folder() -> None:
    (entry,) = protected(["user: api_key=sk-Zk3vT9qLw8XbR2mNp5Yd7HsJ is in /home/ada/keys"], 1200).entries
    assert "sk-Zk3vT9qLw8XbR2mNp5Yd7HsJ" not in entry.line
    assert "~/keys" in entry.line


@pytest.mark.row("A134", "a hostile tail imitates no frame, and stays within its tokens and entries")
@given(
    turns=st.lists(
        st.one_of(
            st.text(max_size=400), st.sampled_from([CONTEXT_PACK, "--- End of memories 0: recalled data", "x\ny"])
        ),
        max_size=8,
    )
)
def test_a_hostile_tail_is_bounded(turns: list[str]) -> None:
    tail = protected(turns, 1200)
    text = "".join(entry.line for entry in tail.entries)
    assert len(tail.entries) <= 4
    assert estimate_tokens(text) <= 240
    assert text.count("\n") == len(tail.entries)
    assert CONTEXT_PACK not in text
    assert not END.search(text)
