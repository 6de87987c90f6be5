"""The job `shepherd` over a workspace: baseline, restores, edits by hand, incidents, and what goes wrong."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.errors import BadInput, StoreFull
from fusion.store.workspace import Change, Snapshot, Workspace
from fusion.upkeep import drift, shepherd
from fusion.upkeep.drift import Passage
from fusion.upkeep.job import JobContext
from fusion.upkeep.scratch import Scratch
from fusion.upkeep.shepherd import Incident, Limits, Shepherd

NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
BASELINE = """\
# Memory of Max

## Rules
- Never deploy on a Friday.
- Ask before you delete anything.

## Projects
- Borealis stores its bookings in Postgres.
- The importer reads CSV files from the harbour office.
- Nadia reviews every change to the schema.
- Ada leads the team, and works from Lisbon.
"""
LIMITS = Limits(lines=0.25, meaning=0.3, protected=["rules", "identity"])


class Home:
    """A workspace with a MEMORY.md, and its shepherd; ``rewrite`` writes as a job does, ``edit`` as a person."""

    def __init__(self, folder: Path, limits: Limits = LIMITS, *, name: str = "home") -> None:
        self.file = folder / "MEMORY.md"
        self.workspace = Workspace(folder, folder.parent / name / "workspace")
        self.shepherd = Shepherd(folder.parent / name / "shepherd", self.workspace, limits)
        self.now = NOW

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def edit(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def rewrite(self, text: str) -> Change:
        read = self.workspace.read("MEMORY.md")
        return self.workspace.write(read, text.encode(), by="distill", now=self.now, max_loss=1)

    def promote(self) -> None:
        self.shepherd.promote(self.now, self.workspace.read("MEMORY.md").hash)

    def replace(self, *pairs: tuple[str, str]) -> str:
        text = self.text
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        return text

    async def run(self, *, dry_run: bool = False) -> JobContext:
        self.now += timedelta(hours=3)
        context = JobContext(self.now, dry_run, 60.0)
        await shepherd.step(self.shepherd, _by_words, Scratch())(context, "memory")
        return context

    async def incident(self) -> Incident | None:
        """The incident that a run adds."""
        before = len(self.shepherd.incidents())
        await self.run()
        found = self.shepherd.incidents()
        return found[-1] if len(found) > before else None

    async def outcome(self) -> str | None:
        """The outcome of the incident that a run adds."""
        found = await self.incident()
        return None if found is None else found.outcome


async def _by_words(passages: Sequence[Passage]) -> list[float]:
    return [drift.by_words(one) for one in passages]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "agent").mkdir()
    found = Home((tmp_path / "agent").resolve())
    found.edit(BASELINE)
    return found


@pytest.fixture
def promoted(home: Home) -> Home:
    home.promote()
    return home


async def test_without_a_baseline_the_job_says_so_and_does_nothing(home: Home) -> None:
    context = await home.run()
    assert "fusion shepherd promote" in context.result["baseline"]
    assert home.text == BASELINE
    assert not home.workspace.changes()


async def test_without_a_writable_workspace_the_job_says_so() -> None:
    context = JobContext(NOW, False, 60.0)
    await shepherd.step(None, _by_words, Scratch())(context, "memory")
    assert "[workspace] write = true" in context.result["baseline"]


@pytest.mark.row("A107", "a drift of MEMORY.md beyond a threshold is archived, restored and recorded as an incident")
async def test_a_rule_that_a_job_twists_is_restored_at_once(promoted: Home) -> None:
    twisted = promoted.replace(("Never deploy", "Deploy"))
    promoted.rewrite(twisted)
    incident = await promoted.incident()
    assert incident is not None
    assert (incident.outcome, incident.drift["protected"]) == ("restored", ["Memory of Max › Rules"])
    assert promoted.text == BASELINE
    assert Path(incident.archived).read_text(encoding="utf-8") == twisted


async def test_a_restore_keeps_what_jobs_added(promoted: Home) -> None:
    text = promoted.replace(
        ("- Nadia reviews every change to the schema.\n", "- Jonas writes the release notes.\n"),
        ("bookings in Postgres", "bookings in MySQL"),
        ("- Ada leads the team, and works from Lisbon.\n", ""),
    )
    promoted.rewrite(text)
    incident = await promoted.incident()
    assert incident is not None
    assert incident.outcome == "restored"
    for line in BASELINE.splitlines():
        assert line in promoted.text
    assert "Jonas writes the release notes." in promoted.text
    assert "MySQL" not in promoted.text


async def test_growth_and_small_losses_are_left_alone(promoted: Home) -> None:
    promoted.rewrite(promoted.replace(("- Nadia reviews every change to the schema.\n", "")) + "- Jonas joined.\n")
    written = promoted.text
    assert await promoted.incident() is None
    assert promoted.text == written


async def test_losses_add_up_over_rewrites_until_they_are_restored(promoted: Home) -> None:
    for line in ("- Nadia reviews every change to the schema.\n", "- Ada leads the team, and works from Lisbon.\n"):
        assert await promoted.incident() is None
        promoted.rewrite(promoted.replace((line, "")))
    assert await promoted.outcome() == "restored"
    assert promoted.text == BASELINE


async def test_a_dry_run_says_what_would_happen_and_changes_nothing(promoted: Home) -> None:
    twisted = promoted.replace(("Never deploy", "Deploy"))
    promoted.rewrite(twisted)
    context = await promoted.run(dry_run=True)
    assert "would be restored" in context.result["would_be_restored"]
    assert {"-- Deploy on a Friday.", "+- Never deploy on a Friday."} <= {*context.result["diff"]}
    assert promoted.text == twisted
    assert not promoted.shepherd.incidents()
    assert await promoted.outcome() == "restored"


async def test_undo_of_a_restore_is_not_restored_again(promoted: Home) -> None:
    twisted = promoted.replace(("Never deploy", "Deploy"))
    promoted.rewrite(twisted)
    incident = await promoted.incident()
    assert incident is not None
    promoted.workspace.undo(incident.change)
    assert await promoted.outcome() == "reported"
    assert promoted.text == twisted
    assert await promoted.incident() is None


# Edits by hand ---------------------------------------------------------------------------------------------------


@pytest.mark.feature("what a person changed in MEMORY.md is reported, and never undone silently")
async def test_an_edit_by_hand_is_reported_once_and_left_alone(promoted: Home) -> None:
    edited = promoted.replace(("Never deploy", "Deploy"))
    promoted.edit(edited)
    incident = await promoted.incident()
    assert incident is not None
    assert incident.outcome == "reported"
    assert promoted.text == edited
    assert await promoted.incident() is None


async def test_an_edit_by_hand_stays_when_a_later_rewrite_is_restored(promoted: Home) -> None:
    promoted.edit(promoted.replace(("- Nadia reviews every change to the schema.\n", ""), ("a Friday", "a Sunday")))
    promoted.rewrite(promoted.replace(("Ask before you delete", "Delete"), ("Borealis stores", "Borealis loses")))
    incident = await promoted.incident()
    assert incident is not None
    assert incident.outcome == "restored"
    assert "- Never deploy on a Sunday.\n- Ask before you delete anything." in promoted.text
    assert "Nadia" not in promoted.text
    assert "Borealis stores" in promoted.text


async def test_what_is_added_by_hand_does_not_hide_what_jobs_lose(promoted: Home) -> None:
    promoted.edit(promoted.text + "- Jonas joined.\n")
    promoted.rewrite(promoted.replace(("- Never deploy on a Friday.\n", "")))
    promoted.edit(promoted.text + "- Ines joined, too.\n")
    assert await promoted.outcome() == "restored"
    assert promoted.text == BASELINE + "- Jonas joined.\n- Ines joined, too.\n"


async def test_settings_let_the_shepherd_restore_protected_sections_that_were_edited_by_hand(home: Home) -> None:
    home.shepherd.limits = Limits(0.25, 0.3, ["rules"], "protected")
    home.promote()
    home.edit(home.replace(("Never deploy", "Deploy"), ("- Nadia reviews every change to the schema.\n", "")))
    assert await home.outcome() == "restored"
    assert "- Never deploy" in home.text
    assert "Nadia" not in home.text


async def test_settings_let_the_shepherd_restore_every_edit(home: Home) -> None:
    home.shepherd.limits = Limits(0.25, 0.3, ["rules"], "always")
    home.promote()
    home.edit("# Memory of Eve\n")
    assert await home.outcome() == "restored"
    assert home.text == BASELINE


async def test_a_promotion_accepts_the_file_and_ends_incidents(promoted: Home) -> None:
    promoted.edit(promoted.replace(("Never deploy", "Deploy")))
    await promoted.run()
    assert promoted.shepherd.open_incidents(promoted.now)
    promoted.now += timedelta(hours=1)
    promoted.promote()
    assert await promoted.incident() is None
    assert not promoted.shepherd.open_incidents(promoted.now)


async def test_an_incident_is_over_when_the_file_drifts_no_more(promoted: Home) -> None:
    promoted.edit(promoted.replace(("Never deploy", "Deploy")))
    await promoted.run()
    promoted.edit(BASELINE)
    await promoted.run()
    assert [one.outcome for one in promoted.shepherd.incidents()] == ["over"]


async def test_a_restore_is_shown_for_a_week(promoted: Home) -> None:
    promoted.rewrite(promoted.replace(("Never deploy", "Deploy")))
    await promoted.run()
    assert promoted.shepherd.open_incidents(promoted.now + timedelta(days=6))
    assert not promoted.shepherd.open_incidents(promoted.now + timedelta(days=8))


# Bad input and failure -------------------------------------------------------------------------------------------


async def test_a_missing_file_counts_as_an_edit_by_hand(promoted: Home) -> None:
    promoted.file.unlink()
    assert await promoted.outcome() == "reported"
    assert not promoted.file.exists()


@pytest.mark.parametrize("data", [b"\xff\xfe\x00broken", b"a\0b", b"- x\n" * 60_000], ids=["binary", "nul", "huge"])
async def test_a_file_that_cannot_be_compared_is_reported_once(promoted: Home, data: bytes) -> None:
    promoted.file.write_bytes(data)
    incident = await promoted.incident()
    assert incident is not None
    assert incident.outcome == "reported"
    assert promoted.file.read_bytes() == data
    assert await promoted.incident() is None
    promoted.edit(BASELINE)
    assert await promoted.incident() is None
    assert [one.outcome for one in promoted.shepherd.incidents()] == ["over"]


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff", b"- x\n" * 60_000], ids=["empty", "blank", "binary", "huge"])
def test_what_cannot_be_a_baseline_is_not_promoted(home: Home, data: bytes) -> None:
    home.file.write_bytes(data)
    with pytest.raises(BadInput):
        home.promote()
    assert home.shepherd.baseline() is None


async def test_a_link_is_neither_promoted_nor_restored_through(promoted: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("mine", encoding="utf-8")
    promoted.file.unlink()
    promoted.file.symlink_to(elsewhere)
    with pytest.raises(BadInput):
        await promoted.run()
    with pytest.raises(BadInput):
        promoted.promote()
    assert elsewhere.read_text(encoding="utf-8") == "mine"


def test_a_file_that_changed_since_it_was_shown_is_not_promoted(home: Home) -> None:
    shown = home.workspace.read("MEMORY.md").hash
    home.edit(home.replace(("Never deploy", "Deploy")))
    with pytest.raises(BadInput, match="changed since it was shown"):
        home.shepherd.promote(NOW, shown)


async def test_a_baseline_that_was_changed_is_not_used(promoted: Home) -> None:
    (promoted.shepherd.folder / "baseline.md").write_text("# Obey\n", encoding="utf-8")
    with pytest.raises(BadInput, match="not what was promoted"):
        await promoted.run()
    assert promoted.text == BASELINE


class EditedByHand(Workspace):
    """A workspace in which a person saves the file just before it is replaced."""

    edit: bytes | None = None

    def write(self, read: Snapshot, *args: object, **options: object) -> Change:
        if self.edit is not None:
            (self.root / read.path).write_bytes(self.edit)
        return super().write(read, *args, **options)  # type: ignore[arg-type]


async def test_an_edit_while_the_shepherd_runs_wins(promoted: Home) -> None:
    promoted.rewrite(promoted.replace(("Never deploy", "Deploy")))
    workspace = EditedByHand(promoted.workspace.root, promoted.workspace.records)
    workspace.edit = b"# Mine\n"
    promoted.shepherd.workspace = workspace
    context = await promoted.run()
    assert "edited at the same time" in context.result["edited"]
    assert promoted.text == "# Mine\n"
    assert not promoted.shepherd.incidents()


class Full(Workspace):
    """A workspace on a full disk."""

    def write(self, read: Snapshot, *args: object, **options: object) -> Change:
        raise StoreFull("no space left")


async def test_a_full_disk_leaves_the_file_and_no_incident_and_the_next_run_restores(promoted: Home) -> None:
    twisted = promoted.replace(("Never deploy", "Deploy"))
    promoted.rewrite(twisted)
    promoted.shepherd.workspace = Full(promoted.workspace.root, promoted.workspace.records)
    with pytest.raises(StoreFull):
        await promoted.run()
    assert promoted.text == twisted
    assert not promoted.shepherd.incidents()
    promoted.shepherd.workspace = promoted.workspace
    assert await promoted.outcome() == "restored"


class Killed(BaseException):
    """The end of the process."""


class Dies(Workspace):
    """A workspace whose process is killed before a change, or ``late``, after it."""

    late = False

    def write(self, read: Snapshot, *args: object, **options: object) -> Change:
        if self.late:
            super().write(read, *args, **options)  # type: ignore[arg-type]
        raise Killed


class DyingShepherd(Shepherd):
    """A shepherd whose process is killed with the change, and so cleans nothing up."""

    def _drop(self, incident: Incident) -> None:
        if incident.outcome == "restoring" and isinstance(self.workspace, Dies):
            return
        super()._drop(incident)


@pytest.mark.parametrize("late", [False, True], ids=["before the restore", "after it"])
async def test_killed_between_archive_and_restore_the_next_run_ends_it(promoted: Home, late: bool) -> None:
    twisted = promoted.replace(("Never deploy", "Deploy"))
    promoted.rewrite(twisted)
    dying = Dies(promoted.workspace.root, promoted.workspace.records)
    dying.late = late
    whole = promoted.shepherd
    promoted.shepherd = DyingShepherd(whole.folder, dying, LIMITS)
    with pytest.raises(Killed):
        await promoted.run()
    promoted.shepherd = whole
    await promoted.run()
    assert promoted.text == BASELINE
    (incident,) = whole.incidents()
    assert incident.outcome == "restored"
    assert Path(incident.archived).read_text(encoding="utf-8") == twisted
    assert len([*(whole.folder / "archive").iterdir()]) == 1
    promoted.workspace.undo(incident.change)
    assert promoted.text == twisted


async def test_two_hosts_each_take_the_writes_of_the_other_for_edits_by_hand(promoted: Home) -> None:
    other = Home(promoted.workspace.root, name="other")
    other.promote()
    other.rewrite(other.replace(("Never deploy", "Deploy")))
    assert await promoted.outcome() == "reported"
    assert "- Deploy" in promoted.text
    assert await other.outcome() == "restored"
    assert await promoted.incident() is None
    assert promoted.text == BASELINE


async def test_a_history_too_old_to_be_known_counts_as_edited_by_hand(promoted: Home) -> None:
    promoted.rewrite(promoted.replace(("Never deploy", "Deploy")))
    for copy in promoted.workspace.records.glob("*.after"):
        copy.unlink()
    assert await promoted.outcome() == "reported"


async def test_no_protected_line_is_lost_over_many_rewrites(home: Home) -> None:
    """A scripted model loses or twists six in a hundred lines each time."""
    facts = "".join(f"- Fact {n}: the {n}th pier is closed in winter, said Ada.\n" for n in range(100))
    rules = "".join(f"- Rule {n}: never open gate {n} without asking.\n" for n in range(20))
    home.edit(f"# Memory\n\n## Rules\n{rules}\n## Facts\n{facts}")
    baseline = home.text
    home.promote()
    chance = random.Random(7)
    for cycle in range(30):
        lines = [line for line in home.text.splitlines() if not line or chance.random() > 0.03]
        lines = [line.replace("never", "always") if chance.random() < 0.03 else line for line in lines]
        home.rewrite("\n".join([*lines, f"- New in cycle {cycle}.", ""]))
        await home.run()
    found = drift.compare(baseline, home.text, drift.protects(["rules"]))
    assert not found.protected
    assert found.lines <= 0.25


async def test_scratch_notes_that_nobody_changed_are_archived(promoted: Home) -> None:
    note = promoted.file.parent / "scratch" / "idea.md"
    note.parent.mkdir()
    note.write_text("an idea\n", encoding="utf-8")
    at = (NOW - timedelta(days=8)).timestamp()
    os.utime(note, (at, at))
    step = shepherd.step(promoted.shepherd, _by_words, Scratch(["scratch/"]))
    for dry_run in (True, False):
        assert note.exists()
        context = JobContext(NOW, dry_run, 60.0)
        await step(context, "scratch")
        assert context.result == {"scratch_notes_archived": 1}
    assert (promoted.file.parent / ".archive" / "scratch" / "idea.md").read_text(encoding="utf-8") == "an idea\n"
    assert not note.exists()


def test_promotion_is_undone_once(promoted: Home) -> None:
    """The earlier baseline holds again, with what was known of edits by hand then."""
    first = promoted.shepherd.baseline()
    assert first is not None
    with pytest.raises(BadInput, match="no earlier one"):
        promoted.shepherd.undo_promotion(first.hash)
    seen = (promoted.shepherd.folder / "seen.json").read_bytes()
    promoted.edit(BASELINE.replace("Never deploy", "Deploy"))
    promoted.promote()
    second = promoted.shepherd.baseline()
    assert second is not None
    assert second.hash != first.hash
    with pytest.raises(BadInput, match="no earlier one"):
        promoted.shepherd.undo_promotion(first.hash)
    assert promoted.shepherd.undo_promotion(second.hash) == first == promoted.shepherd.baseline()
    assert (promoted.shepherd.folder / "seen.json").read_bytes() == seen
    assert promoted.shepherd.earlier() is None
    with pytest.raises(BadInput, match="no earlier one"):
        promoted.shepherd.undo_promotion(first.hash)


def test_damaged_copy_of_the_earlier_baseline_is_not_brought_back(promoted: Home) -> None:
    promoted.edit(BASELINE + "- Jonas joined.\n")
    promoted.promote()
    for file in (promoted.shepherd.folder / "archive").iterdir():
        file.write_text("another program was here")
    now = promoted.shepherd.baseline()
    assert now is not None
    with pytest.raises(BadInput, match="changed or deleted in the archive"):
        promoted.shepherd.undo_promotion(now.hash)
    assert promoted.shepherd.baseline() == now
