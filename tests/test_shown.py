"""What the pages show is what today's commands print."""

from __future__ import annotations

import pytest

from tests.shown import PAGES, ROOT, blocks, check, comparable, matches


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(page: str) -> None:
    """Each console block is run as it stands; `python -m tests.shown --write` writes it anew."""
    for _, command, shown, printed, same in check((ROOT / page).read_text(encoding="utf-8")):
        assert same, "\n".join((f"$ {command}", "shown:", *shown, "printed:", *printed))


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_of_a_page_is_run(page: str) -> None:
    """A block without a place would be believed unseen."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count("```console\n") == len(list(blocks(text)))


def test_what_is_left_out_is_any_lines_or_the_rest_of_one() -> None:
    """And nothing else may differ but nonces, ids, times and widths."""
    assert matches(["a", "…", "z"], ["a", "b", "c", "z"])
    assert matches(["from /home …"], ["from /home and on"])
    assert not matches(["a", "z"], ["a", "b", "z"])
    assert not matches(["a", "…", "y"], ["a", "b", "z"])
    shown = [comparable('<memories nonce="78de2cc21522">'), comparable("a  b ───")]
    assert shown == [comparable('<memories nonce="0123456789ab">'), comparable("a    b ──────")]
    assert comparable("12 of 13", numbers_vary=True) == comparable("9 of 400", numbers_vary=True)
