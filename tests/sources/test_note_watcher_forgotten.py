"""A followed note of which something was forgotten: that stays away, and everything else in the note is known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fusion.contract import Hit, Place, Scope
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Intake
from fusion.journal import Journal
from fusion.lib.chunk import chunks
from fusion.lib.words import word_list
from fusion.recall.document import lines_of_file
from fusion.sources.note_watcher import NoteWatcher

ADA = Scope(user_id="ada", audience="private")
SAID = [
    "The rake hangs behind the shed",
    "The spade was lent to Berit",
    "- the cellar code is 4711",
    "- PIN 4711",
    "- yes",
    "* plant garlic in October",
    "> the pump wants new seals",
    "Water costs 3 kronor a cubic metre",
    "The well was dug in 1911",
    "Rhubarb is never moved",
]
HEADINGS = ["# Tools", "# Codes", "# Later"]


def key(line: str) -> str:
    return " ".join(word_list(line))


@pytest.mark.feature("in a followed note, forgotten text stays away and all other text is stored, through any edits")
class Note(RuleBasedStateMachine):
    """Edits and forgets, in any order, with restarts between. The model knows which words were forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.home, self.note = Path(self.folder.name) / "home", Path(self.folder.name) / "notes" / "garden.md"
        self.home.mkdir()
        self.note.parent.mkdir()
        self.lines: list[str] = ["# Tools", SAID[0], SAID[1]]
        self.gone: set[str] = set()
        self.open()
        self.follow()

    def open(self) -> None:
        self.journal = self.runner.run(Journal.open(self.home / "journal.sqlite"))
        deliverer = Deliverer(self.journal, {})
        self.follower = NoteWatcher(
            [self.note.parent], Scope(user_id="ada"), self.home, Intake(self.journal, deliverer)
        )
        self.forgetter = Forgetter(self.journal, deliverer)

    def follow(self) -> None:
        """Everything is looked at, as now and then by itself."""
        self.note.write_text("\n".join(self.lines))
        self.follower._add_changes(None)
        self.runner.run(self.follower.round())

    @rule(where=st.integers(0, 20), line=st.sampled_from(SAID))
    def insert(self, where: int, line: str) -> None:
        if line not in self.lines:
            self.lines[where % (len(self.lines) + 1) : 0] = [line]
            self.follow()

    @rule(where=st.integers(0, 20), heading=st.sampled_from(HEADINGS))
    def begin_a_section(self, where: int, heading: str) -> None:
        if heading not in self.lines:
            self.lines[where % (len(self.lines) + 1) : 0] = [heading]
            self.follow()

    @precondition(lambda self: self.lines)
    @rule(which=st.integers(0, 20), line=st.sampled_from(SAID))
    def replace(self, which: int, line: str) -> None:
        if line not in self.lines:
            self.lines[which % len(self.lines)] = line
            self.follow()

    @precondition(lambda self: self.lines)
    @rule(which=st.integers(0, 20))
    def delete(self, which: int) -> None:
        del self.lines[which % len(self.lines)]
        self.follow()

    @precondition(lambda self: self.lines)
    @rule(which=st.integers(0, 20), to=st.integers(0, 20))
    def move(self, which: int, to: int) -> None:
        line = self.lines.pop(which % len(self.lines))
        self.lines[to % (len(self.lines) + 1) : 0] = [line]
        self.follow()

    @rule(which=st.integers(0, 20), by_reading=st.booleans())
    def forget(self, which: int, by_reading: bool) -> None:
        """One memory, as an answer cites it; the note is read again at once, or with its next change."""
        records = self.current()
        if records:
            record = records[which % len(records)]
            self.gone |= {key(line) for line in record.event.text.split("\n") if not line.startswith("#")}
            self.runner.run(self.forgetter.forget(record.ref, ADA))
            if by_reading:
                self.follow()

    @rule()
    def restart(self) -> None:
        self.runner.run(self.journal.close())
        self.open()
        self.follow()

    def current(self) -> list:
        return list(self.runner.run(self.journal.page(ADA, 1000)).records)

    def wanted(self) -> set[str]:
        """The lines that are to be found: those of the note that were not forgotten."""
        return {line for line in self.lines if not line.startswith("#") and key(line) not in self.gone}

    def shown(self, texts: list[str]) -> set[str]:
        return {line for text in texts for line in text.split("\n") if line.strip() and not line.startswith("#")}

    @invariant()
    def what_is_kept_is_what_the_note_says_and_was_not_forgotten(self) -> None:
        assert self.shown([record.event.text for record in self.current()]) == self.wanted()

    @invariant()
    def a_backend_that_reads_the_note_itself_shows_no_more(self) -> None:
        whose = Scope(user_id="ada")
        hits = [
            Hit(f"#{c.start}", c.text, whose, place=Place("notes/garden.md", c.start, c.end, "line"))
            for c in chunks("\n".join(self.lines))
        ]
        assert self.shown([hit.text for hit in self.journal.without_forgotten("markdown", hits)]) == self.wanted()

    @invariant()
    def the_page_of_the_file_shows_no_more(self) -> None:
        text = "\n".join(self.lines)
        lines = lines_of_file(text, lambda found: self.journal.visible_lines(ADA, "notes/garden.md", found))
        assert self.shown(list(lines.values())) == self.wanted()

    def teardown(self) -> None:
        self.runner.run(self.journal.close())
        self.runner.close()
        self.folder.cleanup()


Note.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_of_a_followed_note_what_was_forgotten_stays_away_and_the_rest_is_known = Note.TestCase
