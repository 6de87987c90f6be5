"""A simulated week: an agent's turns go in, jobs keep its workspace, and Monday is known on Friday."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import living_week

PAGE = (Path(living_week.__file__).parent.parent / "docs" / "living.md").read_text(encoding="utf-8")


def _facts(text: str) -> set[str]:
    """The lines of a list without their refs, which depend on what else was stored meanwhile."""
    return {line.rpartition(" [")[0] for line in text.splitlines() if line.startswith("- user: ")}


@pytest.mark.feature("a week of an agent: every turn is stored and recalled, and jobs alone maintain its workspace")
@pytest.mark.row(
    "A105", "A106", "A107", "A109", "a week produces interactions, facts, reflections, an incident and its restore"
)
def test_week_of_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    """In a fresh home that `fusion init` made."""
    found = living_week.play()
    assert all(found["answers"].values()), found["answers"]
    assert found["rule_is_whole"]
    [incident] = found["incidents"]
    assert "MEMORY.md was restored" in incident
    assert {"MEMORY.md", "memory/interactions.md", "memory/reflect/2026-11-18.md"} <= found["files"].keys()
    assert [day["prompts_with_memories"] for day in found["days"].values()] == [5, 4, 4, 3, 2, 0, 0]
    shown = PAGE.partition("```markdown\n")[2].partition("```")[0]
    assert _facts(shown) <= _facts(found["memory"])
    living_week.show(found)
    assert "answered in the block: 4 of 4" in capsys.readouterr().out
