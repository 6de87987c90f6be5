"""`benchmarks quiet`: its data is whole, and its figures count what they say."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.quiet import Answered, figures
from benchmarks.quiet_homes import HOMES, NOTHING, Home, Prompt, file_of, opened, prompts, write
from fusion.contract import Scope
from fusion.recall.engine import Fused, FuseRequest
from fusion.recall.pack import Excerpt, Member


def fused(*texts: str) -> Fused:
    """An answer with an excerpt for each text; an empty block without any."""
    members = [Member("m1", text, None, None, "note", "unknown", ("markdown",), 0.5) for text in texts]
    excerpts = tuple(Excerpt("m1", "vault/a.md", None, 0.5, (member,)) for member in members)
    return Fused("\n".join(texts), excerpts, {}, False, (), {}, {}, "r1", 1.0)


@pytest.mark.parametrize("home", HOMES)
def test_every_answer_is_in_its_file(home: Home, tmp_path: Path) -> None:
    """A question whose answer is nowhere would measure nothing."""
    written = {
        path.name: path.read_text(encoding="utf-8") for folder in write(home, tmp_path) for path in folder.rglob("*.*")
    }
    for prompt in prompts(home):
        if prompt.kind == "question":
            assert prompt.answer in written[Path(file_of(prompt.file)).name], prompt.text


def test_prompts_are_of_five_languages_and_no_home_shares_one() -> None:
    """Some four hundred in all, of which each home has its own."""
    each = {home: prompts(home) for home in HOMES}
    assert not {prompt.text for prompt in each["a"]} & {prompt.text for prompt in each["b"]}
    assert sum(map(len, each.values())) >= 400
    for found in each.values():
        assert {prompt.language for prompt in found} == {"en", "de", "fr", "es", "it"}
        assert Counter(prompt.kind for prompt in found)["question"] >= 60
        assert NOTHING not in {prompt.file for prompt in found if prompt.kind == "question"}


def test_figures_count_silence_loss_and_noise() -> None:
    """One of two commands is silent; one of two answers is lost by the gate; of three excerpts two are noise."""
    question = Prompt("who has the key?", "question", "en", "a.md", "spare key")
    command = Prompt("commit", "command", "en")
    found = figures(
        [
            Answered(command, fused(), fused("noise")),
            Answered(command, fused("noise"), fused("noise")),
            Answered(question, fused(), fused("the spare key")),
            Answered(question, fused("the spare key", "noise", "more"), fused("the spare key", "noise", "more")),
            Answered(Prompt("who?", "unanswerable", "en"), fused(), fused("noise")),
        ]
    )
    assert (found["silent"], found["silent_without_gate"]) == (0.5, 0.0)
    assert (found["lost_by_gate"], found["found"], found["answer_first"]) == (0.5, 0.5, 0.5)
    assert (found["noise"], found["unanswerable_empty"]) == (0.6667, 1.0)


def test_figures_of_default_are_beside_those_of_a_filled_block() -> None:
    """Of two excerpts one is noise; filled, three of four are; said to help with .5 each, one of four does."""
    question = Prompt("who has the key?", "question", "en", "a.md", "spare key")
    filled = fused("the spare key", "noise", "more", "other")
    for excerpt in filled.memories:
        excerpt.members[0].probability = 0.5
    asked = Answered(question, None, None, fused("the spare key", "noise"), filled)
    nothing = Answered(Prompt("who?", "unanswerable", "en"), None, None, fused(), fused("noise"))
    found = figures([asked, nothing])["default"]
    assert (found["found"], found["noise"], found["noise_filled"]) == (1.0, 0.5, 0.75)
    assert (found["unanswerable_empty"], found["brier"], found["ece"]) == (1.0, 0.25, 0.25)


def test_command_prints_the_figures_of_both_homes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quiet", "--limit", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {home: (found[home]["prompts"], found[home]["fitted_on"]) for home in HOMES} == {
        "a": (2, True),
        "b": (2, False),
    }


def test_figures_count_the_time_of_the_gate_where_it_was_asked() -> None:
    """It is not asked about a day's log, nor after the search for a sum."""
    reports: list[dict[str, object]] = [{}, {"gate": {"silent": "silent: arithmetic"}}, {"gate": {"cpu_ms": 0.5}}]
    prompt = Prompt("what did I do yesterday?", "question", "en")
    found = figures([Answered(prompt, replace(fused("a"), explain=report), None) for report in reports])
    assert (found["gate_cpu_ms_p50"], found["gate_cpu_ms_p95"]) == (0.5, 0.5)


async def test_home_answers_a_question_and_leaves_a_command_without_a_block(tmp_path: Path) -> None:
    """Through the recipe of the hooks, over the whole home ``b``; the status counts the silence."""
    async with opened("b", tmp_path) as gateway:
        asked = FuseRequest("", Scope(audience="private"), recipe="hook", timeout_ms=60_000, explain=True)
        found = await gateway.fuse(asked, query="which bucket has the backups?")
        assert "kelp-vault-7" in found.block
        silent = await gateway.fuse(asked, query="make the button blue")
        assert (silent.block, silent.abstained) == ("", "silent: nothing specific")
        assert silent.explain is not None
        assert silent.explain["gate"]["silent"] == silent.abstained
        assert (
            await gateway.fuse(asked, query="thanks a lot, continue")
        ).abstained == "silent: the prompt names no subject"
        assert (await gateway.fuse(asked, query="make the button blue", recipe="default")).abstained != silent.abstained
        assert (await gateway.fuse(asked, query="make the button blue", gate=False)).abstained != silent.abstained
        assert sum((await gateway.status())["silent"].values()) == 2
