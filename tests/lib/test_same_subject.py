"""The guards that keep statements apart that are not about one thing."""

from __future__ import annotations

import pytest

from fusion.lib.same_subject import kept_apart_by


@pytest.mark.parametrize(
    ("question", "earlier", "later", "why"),
    [
        ("How many boats does Omar have?", "We have one boat.", "My brother has three boats.", "owner"),
        ("When is Omar's brother's trip?", "My brother goes in May.", "My brother goes in June.", None),
        ("What does Omar do on Monday?", "On Monday I sail.", "On Friday I row.", "sibling"),
        ("May we land at night?", "Landing at night is forbidden.", "Except in a storm you may land.", "exception"),
        ("What do we drink?", "We drink tea.", "We drink juice, too.", "addition"),
        ("What about the barn?", "The barn will be torn down.", "The barn has been torn down.", "fulfilled"),
        ("What about the barn?", "The barn will be torn down.", "The barn will not be torn down.", None),
        ("Which port is it?", "The proxy listens on port 80.", "The proxy listens on port 90.", None),
    ],
)
def test_reasons_to_keep_statements_apart(question: str, earlier: str, later: str, why: str | None) -> None:
    assert kept_apart_by(question, earlier, later) == why
