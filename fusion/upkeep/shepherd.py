"""The job `shepherd` keeps MEMORY.md from drifting away from a baseline that only a person promotes.

If jobs changed the file too much, it is archived, lost and changed lines are restored, and new lines are kept. Edits by
hand are reported and, unless the settings say otherwise, left as they are. An edit by hand is a change that is not in
the workspace's log of changes, through which all jobs write. An agent that writes to the file with its own tools
therefore counts as a person, and so does another gateway.

The shepherd keeps its files in one folder of the home: the baseline, the baseline without what was removed by hand
(``expected``), the last read text of the file, the incidents, and an archive that nothing deletes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from fusion.errors import BadInput
from fusion.store.private_files import sync, write_atomically
from fusion.store.workspace import Change, EditedMeanwhile, Snapshot, Workspace, hash_of
from fusion.upkeep import drift
from fusion.upkeep.drift import Comparison, Drift, Passage
from fusion.upkeep.extract import report_diff
from fusion.upkeep.job import JobContext
from fusion.upkeep.scratch import Scratch, archive, old_notes

log = logging.getLogger(__name__)

NAME = "shepherd"
DOES = "Compare MEMORY.md with its approved baseline, bring back what jobs lost of it; archive old scratch notes."
FILE = "MEMORY.md"
MAX_CHARS = 200_000
"""maximum characters of a file that is compared; jobs write 25,000 at most"""
KEPT_INCIDENTS = 1000
SHOWN_FOR = timedelta(days=7)
"""how long `fusion status` shows a restore, unless a person promotes a new baseline"""

RestoresEdits = Literal["never", "protected", "always"]
Outcome = Literal["restoring", "restored", "reported", "over"]
Cosines = Callable[[Sequence[Passage]], Awaitable[Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the file may drift, and which sections must not change at all."""

    lines: float
    meaning: float
    protected: Sequence[str]
    restore_edits: RestoresEdits = "never"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The approved version of the file."""

    text: str
    at: datetime
    hash: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A drift over the thresholds. ``reported``: an edit by hand, left as it is. ``over``: the drift has ended."""

    number: int
    at: str
    outcome: Outcome
    why: list[str]
    drift: dict[str, Any]
    before: str
    """SHA-256 of the file that drifted"""
    baseline: str
    """SHA-256 of the baseline"""
    archived: str = ""
    """the copy of the file that drifted"""
    after: str = ""
    """SHA-256 of the restored file"""
    change: str = ""
    """the change that `fusion undo` takes"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The text of the file at the last comparison, the number of the last change then, and the expected text."""

    text: str
    change: int
    expected: str


@dataclass(frozen=True, slots=True)
class Look:
    """A comparison of the file: ``ours`` with the expected text (changes by jobs), ``total`` with the baseline."""

    baseline: Baseline
    text: str
    data: bytes | None
    expected: str
    ours: Comparison
    total: Comparison
    unreadable: str = ""
    """why the file cannot be compared; empty if it can"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision after a comparison."""

    ours: Drift
    total: Drift
    restore: list[str]
    """why the file is restored; empty if it is not"""
    report: list[str]
    """why it is only reported"""


class Shepherd:
    """Compares and restores the file `FILE` of a workspace; ``folder`` in the home has its records."""

    def __init__(self, folder: Path, workspace: Workspace, limits: Limits) -> None:
        self.folder, self.workspace, self.limits = folder, workspace, limits
        self._protects = drift.protects(limits.protected)

    # Baseline and incidents ---------------------------------------------------------------------------------------

    def baseline(self, *, damaged: bool = False) -> Baseline | None:
        """The baseline; None before the first promotion, and with ``damaged`` if its file was changed since.

        Raises BadInput for such a file without ``damaged``.
        """
        about = self._json("baseline.json")
        if about is None:
            return None
        try:
            data = (self.folder / "baseline.md").read_bytes()
        except FileNotFoundError:
            data = b""
        if hash_of(data) != about["sha256"]:
            if damaged:
                return None
            raise BadInput(
                f"{self.folder / 'baseline.md'} is not what was promoted: nothing is compared or restored until a "
                "person promotes again: fusion shepherd promote"
            )
        return Baseline(data.decode("utf-8"), datetime.fromisoformat(about["at"]), about["sha256"])

    def incidents(self) -> list[Incident]:
        """All incidents that are kept, the oldest first."""
        found = [Incident(**one) for one in self._json("incidents.json") or ()]
        # The home may have been moved, or restored elsewhere, since they were recorded.
        archive = self.folder / "archive"
        return [replace(one, archived=one.archived and str(archive / Path(one.archived).name)) for one in found]

    def open_incidents(self, now: datetime) -> list[Incident]:
        """The incidents that a person should look at, the oldest first."""
        return open_incidents(self.incidents(), self._promoted_at(), now)

    def promote(self, now: datetime, expected: str) -> Baseline:
        """Make the file the baseline, if it still has the SHA-256 ``expected``. Raises BadInput."""
        with locked(self.folder):
            read = self.workspace.read(FILE)
            if read.hash != expected:
                raise BadInput(f"{FILE} was changed since it was shown: look at it again")
            text = readable(read.data)
            if not text.strip():
                raise BadInput(f"{self.workspace.root / FILE} is empty or missing: there is nothing to promote")
            data = read.data or b""
            self._keep_earlier(now)
            self._write("baseline.md", data)
            self._write_json("baseline.json", {"at": now.isoformat(), "sha256": hash_of(data)})
            self._store(Seen(text, _last(self.workspace.changes(FILE)), text))
            return Baseline(text, now, hash_of(data))

    def earlier(self) -> datetime | None:
        """When the baseline before this one was promoted; None if there was none, or it holds again."""
        about = self._json("earlier.json")
        return None if about is None else datetime.fromisoformat(about["at"])

    def undo_promotion(self, expected: str) -> Baseline:
        """Make the earlier baseline the baseline again, if the present one has the SHA-256 ``expected``.

        Raises BadInput, also where there was no earlier one. It can be done once after each promotion.
        """
        with locked(self.folder):
            about, earlier = self._json("baseline.json"), self._json("earlier.json")
            if about is None or earlier is None or about["sha256"] != expected:
                raise BadInput("this baseline has no earlier one to go back to: look at it again")
            try:
                data = (self.folder / "archive" / earlier["archived"]).read_bytes()
            except FileNotFoundError:
                data = b""
            if hash_of(data) != earlier["sha256"]:
                raise BadInput(f"the earlier baseline, {earlier['archived']}, was changed or deleted in the archive")
            self._write("baseline.md", data)
            self._write_json("baseline.json", {"at": earlier["at"], "sha256": earlier["sha256"]})
            self._write_json("seen.json", earlier["seen"])
            (self.folder / "earlier.json").unlink()
            sync(self.folder)
            return Baseline(data.decode("utf-8"), datetime.fromisoformat(earlier["at"]), earlier["sha256"])

    def _keep_earlier(self, now: datetime) -> None:
        """Archive the baseline that is about to be replaced, so that a promotion can be undone."""
        before = self.baseline(damaged=True)
        if before is None:
            return
        archived = Path(self._archive((self.folder / "baseline.md").read_bytes(), now)).name
        seen = asdict(self._seen(before))
        kept = {"at": before.at.isoformat(), "sha256": before.hash, "archived": archived, "seen": seen}
        self._write_json("earlier.json", kept)

    # Comparison and decision --------------------------------------------------------------------------------------

    def look(self, *, keep: bool = True) -> Look | None:
        """Read the file and compare it; None without a baseline. ``keep`` records the text that was read."""
        with locked(self.folder):
            baseline = self.baseline()
            if baseline is None:
                return None
            if keep:
                self._finish_interrupted()
            read = self.workspace.read(FILE)
            nothing = drift.compare("", "", self._protects)
            try:
                text = readable(read.data)
            except BadInput as why:
                seen = self._seen(baseline)
                return Look(baseline, "", read.data, seen.expected, nothing, nothing, str(why))
            seen = self._followed(self._seen(baseline), text)
            if keep:
                self._store(seen)
            ours = drift.compare(seen.expected, text, self._protects)
            total = drift.compare(baseline.text, text, self._protects)
            return Look(baseline, text, read.data, seen.expected, ours, total)

    def judge(self, look: Look, ours: Sequence[float], total: Sequence[float]) -> Verdict:
        """Decide whether to restore or report; ``ours`` and ``total`` are the cosines of the look's passages."""
        by_jobs, by_all = drift.drift(look.ours, ours), drift.drift(look.total, total)
        if look.unreadable:
            return Verdict(by_jobs, by_all, [], [look.unreadable])
        restore = by_jobs.over(self.limits.lines, self.limits.meaning)
        report = by_all.over(self.limits.lines, self.limits.meaning)
        return Verdict(by_jobs, by_all, restore, [] if restore else report)

    def restored(self, look: Look, *, by_hand_too: bool = False) -> str:
        """The file with the lines that jobs lost; with ``by_hand_too``, with all lines of the baseline."""
        return drift.restored(look.baseline.text if by_hand_too else look.expected, look.text, self._protects)

    def act(self, look: Look, verdict: Verdict, now: datetime, run: str = "") -> Incident | None:
        """Restore or report a drift; None if nothing is new. Raises EditedMeanwhile, StoreFull."""
        if verdict.restore:
            return self.restore(look, verdict.restore, verdict.ours, now, run=run)
        with locked(self.folder):
            before = self.incidents()
            last = before[-1] if before else None
            if not verdict.report:
                self._end_reported()
                return None
            new = Incident(
                number=_next(before),
                at=now.isoformat(),
                outcome="reported",
                why=verdict.report,
                drift=asdict(verdict.total),
                before=hash_of(look.data),
                baseline=look.baseline.hash,
            )
            if last is not None and _same(last, new):
                return None
            self._end_reported()
            self._record(new)
            return new

    def restore(
        self, look: Look, why: Sequence[str], found: Drift, now: datetime, *, by_hand_too: bool = False, run: str = ""
    ) -> Incident:
        """Archive the file, restore it, and record the incident. Raises EditedMeanwhile, StoreFull and BadInput.

        The incident is recorded before the file is written, so a process that is killed between the two leaves a trace.
        """
        text = self.restored(look, by_hand_too=by_hand_too)
        new = text.encode()
        with locked(self.folder):
            read = self.workspace.read(FILE)
            if read.data != look.data:
                raise EditedMeanwhile(f"{FILE} was edited while it was compared; nothing was written")
            incident = Incident(
                number=_next(self.incidents()),
                at=now.isoformat(),
                outcome="restoring",
                why=list(why),
                drift=asdict(found),
                before=read.hash,
                baseline=look.baseline.hash,
                archived=self._archive(read.data or b"", now),
                after=hash_of(new),
            )
            self._record(incident)
            try:
                change = self.workspace.write(read, new, by=NAME, now=now, max_loss=1, run=run)
            except BaseException:
                self._drop(incident)
                raise
            self._end_reported()
            done = replace(incident, outcome="restored", change=change.name)
            self._record(done)
            self._store(Seen(text, change.number, look.baseline.text if by_hand_too else look.expected))
            return done

    def restore_by_hand(self, look: Look, now: datetime) -> Incident:
        """Restore all that the file lacks of the baseline, since a person asked for it. Raises as `restore`."""
        cosines = [drift.by_words(one) for one in look.total.passages]
        found = self.judge(look, [], cosines).total
        return self.restore(look, ["a person asked for it"], found, now, by_hand_too=True)

    # Changes since the last comparison ----------------------------------------------------------------------------

    def _followed(self, seen: Seen, text: str) -> Seen:
        """``seen``, brought up to the present text: edits by hand change the expected text."""
        expected, was = seen.expected, seen.text
        changes = self.workspace.changes(FILE)
        try:
            for change in self._happened([one for one in changes if one.number > seen.change], text):
                expected = self._after_edit(expected, was, _text(self.workspace.before(change)))
                was = _text(self.workspace.after(change))
        except BadInput as gone:  # the copies are too old and deleted, so a change may be a person's: leave it
            log.info("what was changed since the last look counts as changed by hand: %s", gone)
            expected, was = seen.expected, seen.text
        return Seen(text, _last(changes), self._after_edit(expected, was, text))

    def _happened(self, changes: Sequence[Change], text: str) -> list[Change]:
        """The changes that took place and were not undone; ``text`` is the present text of the file."""
        following = [one.before for one in changes[1:]] + [hash_of(text.encode())]
        return [
            change
            for change, then in zip(changes, following, strict=False)
            if change.state == "done" or (change.state == "planned" and then == change.after)
        ]

    def _after_edit(self, expected: str, before: str, after: str) -> str:
        """The expected text after an edit by hand."""
        if before == after or self.limits.restore_edits == "always":
            return expected
        everywhere = self.limits.restore_edits == "never"
        return drift.edited(expected, before, after, self._protects, everywhere=everywhere)

    def _finish_interrupted(self) -> None:
        """Complete an incident whose process was killed: mark it as restored if the file is, else drop it."""
        last = next(reversed(self.incidents()), None)
        if last is None or last.outcome != "restoring":
            return
        change = next((one for one in self.workspace.changes(FILE)[::-1] if one.after == last.after), None)
        if change is not None and self.workspace.read(FILE).hash == last.after:
            self._record(replace(last, outcome="restored", change=change.name))
        else:
            self._drop(last)

    # Its files ----------------------------------------------------------------------------------------------------

    def _promoted_at(self) -> datetime | None:
        about = self._json("baseline.json")
        return None if about is None else datetime.fromisoformat(about["at"])

    def _seen(self, baseline: Baseline) -> Seen:
        stored = self._json("seen.json")
        return Seen(baseline.text, 0, baseline.text) if stored is None else Seen(**stored)

    def _store(self, seen: Seen) -> None:
        self._write_json("seen.json", asdict(seen))

    def _record(self, incident: Incident) -> None:
        others = [one for one in self.incidents() if one.number != incident.number]
        kept = sorted([*others, incident], key=lambda one: one.number)[-KEPT_INCIDENTS:]
        self._write_json("incidents.json", [asdict(one) for one in kept])

    def _end_reported(self) -> None:
        """Mark all reported incidents as over."""
        for one in self.incidents():
            if one.outcome == "reported":
                self._record(replace(one, outcome="over"))

    def _drop(self, incident: Incident) -> None:
        kept = [asdict(one) for one in self.incidents() if one.number != incident.number]
        self._write_json("incidents.json", kept)

    def _archive(self, data: bytes, now: datetime) -> str:
        """Copy a file's content into the archive, once for each content; returns the path."""
        folder = self.folder / "archive"
        folder.mkdir(mode=0o700, exist_ok=True)
        known = next(folder.glob(f"*-{hash_of(data)[:12]}.md"), None)
        file = known or folder / f"{now:%Y%m%dT%H%M%SZ}-{hash_of(data)[:12]}.md"
        if known is None:
            write_atomically(file, data)
            sync(file)
            sync(folder)
        return str(file)

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def _write_json(self, name: str, value: object) -> None:
        self._write(name, json.dumps(value, ensure_ascii=False).encode())

    def _write(self, name: str, data: bytes) -> None:
        write_atomically(self.folder / name, data)
        sync(self.folder / name)
        sync(self.folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The shepherd's folder, for one process at a time."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def readable(data: bytes | None) -> str:
    """The text of the file. Raises BadInput for one that is binary or too large to compare."""
    try:
        text = (data or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{FILE} is no text in UTF-8, so it cannot be compared") from None
    if "\0" in text:
        raise BadInput(f"{FILE} is no text, so it cannot be compared")
    if len(text) > MAX_CHARS:
        raise BadInput(f"{FILE} has more than {MAX_CHARS:,} characters, so it is not compared")
    return text


def open_incidents(incidents: Sequence[Incident], promoted: datetime | None, now: datetime) -> list[Incident]:
    """The incidents that a person should look at: reported ones and recent restores, since the last promotion."""

    def is_open(one: Incident) -> bool:
        at = datetime.fromisoformat(one.at)
        if promoted is not None and at <= promoted:
            return False
        return one.outcome == "reported" or (one.outcome in ("restored", "restoring") and now - at < SHOWN_FOR)

    return [one for one in incidents if is_open(one)]


def described(one: Incident) -> str:
    """An incident in one line."""
    what = {
        "restored": "was restored",
        "restoring": "is being restored",
        "reported": "was changed by hand and is left as it is",
        "over": "drifts no more",
    }
    return f"{FILE} {what[one.outcome]} ({one.at[:16].replace('T', ' ')} UTC): {'; '.join(one.why)}"


STEPS = ("memory", "scratch")


def step(shepherd: Shepherd | None, cosines: Cosines, scratch: Scratch) -> Callable[[JobContext, str], Awaitable[None]]:
    """The steps of `STEPS` over one workspace; ``shepherd`` is None where no workspace may be written to."""

    async def run(context: JobContext, name: str) -> None:
        if shepherd is None:
            context.result["baseline"] = "no workspace may be written to: [workspace] write = true allows it"
        elif name == "scratch":
            await asyncio.to_thread(_archive_notes, shepherd.workspace, scratch, context)
        else:
            await _watch(shepherd, cosines, context)

    return run


async def _watch(shepherd: Shepherd, cosines: Cosines, context: JobContext) -> None:
    """Compare the file, and restore or report it."""
    look = await asyncio.to_thread(shepherd.look, keep=not context.dry_run)
    if look is None:
        context.result["baseline"] = "there is no baseline: a person makes one by fusion shepherd promote"
        return
    verdict = shepherd.judge(look, await cosines(look.ours.passages), await cosines(look.total.passages))
    context.result["drift"] = in_words(verdict.total)
    if context.dry_run:
        for name, why in (("would be restored", verdict.restore), ("would be reported", verdict.report)):
            if why:
                context.result[name.replace(" ", "_")] = f"{name}: {'; '.join(why)}"
        if verdict.restore:
            report_diff(context, Snapshot(FILE, look.data), shepherd.restored(look).encode())
        return
    try:
        incident = await asyncio.to_thread(shepherd.act, look, verdict, context.now, context.run)
    except EditedMeanwhile:
        context.result["edited"] = f"{FILE} was edited at the same time; the next run compares it again"
        return
    if incident is not None:
        context.result["incident"] = described(incident)
        log.warning("%s", described(incident))


def _archive_notes(workspace: Workspace, scratch: Scratch, context: JobContext) -> None:
    """Move old scratch notes into the archive."""
    for path in old_notes(workspace.root, scratch, context.now):
        if not context.dry_run:
            archive(workspace, path, context.now, context.run)
        context.add({"scratch_notes_archived": 1})


def in_words(found: Drift) -> str:
    """A drift as the log of jobs shows it."""
    sections = f", protected: {', '.join(found.protected)}" if found.protected else ""
    return f"drift by lines {found.lines:.2f}, by meaning {found.meaning:.2f}{sections}"


def _same(a: Incident, b: Incident) -> bool:
    return (a.outcome, a.before, a.baseline) == (b.outcome, b.before, b.baseline)


def _last(changes: Sequence[Change]) -> int:
    """The number of the last change; 0 if there is none."""
    return changes[-1].number if changes else 0


def _next(before: Sequence[Incident]) -> int:
    return before[-1].number + 1 if before else 1


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
