"""Notes that name each other: what the best hits lead to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown.mentions import HEAD, NAMES, Note, led_to, names


def led(question: str, *notes: tuple[str, str]) -> dict[str, float]:
    """``notes``: names of files and what they say, best first, all of a score of .8."""
    return led_to(
        question,
        [(name, 0.8) for name, _ in notes],
        {name: Note(f"vault/{name}.md", text) for name, text in notes},
    )


def test_a_note_that_has_a_name_of_the_best_hit() -> None:
    """One has it, so it is as sure as the hit: .8. What neither names nor is named leads nowhere."""
    found = led(
        "who built it?", ("mill", "It belongs to Ada Brook."), ("rain", "It rains."), ("x", "Ada Brook is born")
    )
    assert found == {"x": pytest.approx(0.8), "mill": pytest.approx(0.8)}


def test_what_many_have_says_little_of_each() -> None:
    """Two have it: .8/2 each. From "rain" nothing leads on; back to the mill lead two names of .8/2: 1 - .6² = .64."""
    found = led("who?", ("mill", "Ada Brook"), ("a", "by Ada Brook"), ("b", "Ada Brook"), ("rain", "It rains."))
    assert found["a"] == pytest.approx(1 - (1 - 0.4) * (1 - 0.4))
    assert "rain" not in found


@pytest.mark.feature(
    "… a title in the text is an unlinked mention; a single word or a part of one is not; the "
    "question's own names count once",
    of="Markdown: a note that the best",
)
@pytest.mark.feature(
    "… a name does not continue on the next line; a link leads to its file in any case, with or "
    "without the file ending",
    of="Markdown: a note that the best",
)
@pytest.mark.parametrize(
    ("title", "text", "leads"),
    [
        ("Water pump", "see the Water pump", True),
        ("water pump", "the water pump leaks", True),
        ("water", "the water is cold", False),  # a word, not a name
        ("water", "see [[water]]", True),
        ("water", "see [[house/water|the other]]", True),
        ("water", "see [[Water]]", True),
        ("Water", "see [[water]]", True),
        ("water", "see [[water.md]]", True),
        ("water", "see [[house/Water.MD#cold|the other]]", True),
        ("Section 2.1", "see [[section 2.1]]", True),  # what follows that point is no ending
        ("Postgres", "# History\n[[Postgres]]", True),
        ("Water", "Waters are cold", False),  # a part of another word
        ("ISO 4217", "by ISO 4217, money", True),
        ("2026-03-05", "as noted on 2026-03-05", True),
        ("Bo", "Bo was here", False),  # too short to be told from a word
        ("東京の家", "昨日、東京の家に行った", True),  # no spaces around it
        ("Дом у реки", "Она купила Дом у реки", True),
    ],
)
def test_a_title_in_the_best_hit(title: str, text: str, leads: bool) -> None:
    """Obsidian's unlinked mentions, and its links; nothing else of the file has a name in common."""
    assert (title in led("where?", ("first", text), (title, "nothing of it"))) is leads


def test_what_the_question_names_has_counted_already() -> None:
    """However it is written there."""
    assert led("where is ada brook?", ("mill", "Ada Brook was here"), ("x", "Ada Brook is born")) == {}


def test_every_folder_has_its_readme() -> None:
    """Files of one name do not lead to each other by it, nor do two chunks of one file."""
    notes = {"a": Note("v/one/README.md", "Ada Brook"), "b": Note("v/two/README.md", "Ada Brook")}
    assert led_to("what?", [("a", 0.9), ("b", 0.5)], notes) == {}


def test_a_name_is_a_run_of_capitalised_words() -> None:
    """Over the end of a line, with small words between, without a first word that is capital only for its place."""
    said = "The Lord of the Rings was here. In Berlin he met Émile\nZola and saw [[harbour|it]]."
    assert names(Note("v/n.md", said)) == ["harbour", "Lord of the Rings", "Berlin", "Émile", "Zola", "Émile Zola"]


@pytest.mark.feature(
    "… a name does not continue on the next line; a link leads to its file in any case, with or "
    "without the file ending",
    of="Markdown: a note that the best",
)
def test_a_lines_end_parts_names() -> None:
    """A heading, the text below it and a sentence that begins a line: each leads to the notes with that name."""
    said = "# Alder Weir\nBerit said that they moved to Postgres\nNadia wrote it."
    assert names(Note("v/n.md", said))[:4] == ["Alder Weir", "Berit", "Postgres", "Nadia"]
    found = led("who?", ("mill", said), ("one", "at Alder Weir"), ("two", "to Postgres"), ("three", "It rains."))
    assert found.keys() == {"mill", "one", "two"}


def test_a_list_of_names_is_followed_from_its_beginning() -> None:
    """Three hundred names in a hit cost no more than forty; its title is the first of them."""
    crowd = Note("v/Crowd.md", ", ".join(f"Person{n}" for n in range(300)))
    assert names(crowd) == ["Crowd", *(f"Person{n}" for n in range(NAMES - 1))]


def test_one_step_and_no_further() -> None:
    """The first leads to the second, the second to nothing that only it names, but for the head of the list."""
    chain = [(f"n{i}", f"Ada{i} and Ada{i + 1}") for i in range(HEAD + 4)]
    found = led("what?", *((name, text.replace("and", "beside")) for name, text in chain))
    assert f"n{HEAD}" in found
    assert f"n{HEAD + 1}" not in found


TEXTS = st.lists(
    st.sampled_from(["Ada Brook", "Mill", "at Alder Weir", "[[a]]", "rain", "東京", "\n"]), max_size=6
).map(" ".join)


@given(st.dictionaries(st.sampled_from("abcdefgh"), TEXTS), st.floats(0, 1))
def test_whatever_is_said_it_is_a_chance(said: dict[str, str], score: float) -> None:
    """Above 0 to 1, or not there; never of what is not a file's."""
    notes = {key: Note(f"{key}{key}{key}.md", text) for key, text in said.items()}
    found = led_to("what?", [(key, score) for key in "abcdefghi"], notes)
    assert found.keys() <= notes.keys()
    assert all(0 <= chance <= 1 for chance in found.values())
