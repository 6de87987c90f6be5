"""MEMORY.md and its baseline, as a person looks at them and decides in the inspector."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fusion.contract import Embedder
from fusion.errors import BadInput
from fusion.gateway.shepherding import cosines_by, required_shepherd
from fusion.lib.clock import Clock, utc_now
from fusion.lib.diff import diff_of
from fusion.settings import Settings
from fusion.store.workspace import EditedMeanwhile, Snapshot
from fusion.upkeep.shepherd import FILE, Baseline, Look, Shepherd, described

State = Literal["off", "no_baseline", "unreadable", "same", "differs"]
"""off: no workspace may be written to; no_baseline: nothing was promoted yet"""
SHOWN_INCIDENTS = 20


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """MEMORY.md of a home, for its owner."""

    settings: Settings
    embedder: Embedder | None = None
    clock: Clock = utc_now

    async def look(self) -> Mapping[str, Any]:
        """The file against its baseline, what a restore would change, and what drifted before. Nothing is recorded."""
        try:
            shepherd = required_shepherd(self.settings)
        except BadInput as why:
            return _shown("off", str(why))
        path = str(shepherd.workspace.root / FILE)
        try:
            read, look = await asyncio.to_thread(_read, shepherd)
        except (BadInput, OSError) as why:  # such as a baseline that another program has changed
            return _shown("unreadable", str(why), path=path)
        if look is None:
            return _shown("no_baseline", "", path=path, sha256=read.hash, diff=diff_of("", read.text, "baseline", FILE))
        if look.unreadable:
            return _shown("unreadable", look.unreadable, path=path, sha256=read.hash, baseline=_about(look.baseline))
        cosines = await cosines_by(self.embedder)(look.total.passages)
        total = shepherd.judge(look, [], cosines).total
        shown = await asyncio.to_thread(_compared, shepherd, look)  # a long file takes its time
        return _shown(
            "differs" if shown["diff"] else "same", "", path=path, sha256=read.hash, drift=asdict(total), **shown
        )

    async def promote(self, sha256: str) -> Mapping[str, Any]:
        """Make the file the baseline, if it is what was shown."""
        shepherd = required_shepherd(self.settings)
        return _about(await asyncio.to_thread(shepherd.promote, self.clock(), sha256))

    async def undo_promotion(self, sha256: str) -> Mapping[str, Any]:
        """Make the earlier baseline the baseline again, if the present one is what was shown."""
        shepherd = required_shepherd(self.settings)
        return _about(await asyncio.to_thread(shepherd.undo_promotion, sha256))

    async def restore(self, sha256: str) -> Mapping[str, Any]:
        """Bring back what the file lacks of its baseline, if it is what was shown; its `change` can be undone."""
        shepherd = required_shepherd(self.settings)
        return {"change": await asyncio.to_thread(self._restore, shepherd, sha256)}

    def _restore(self, shepherd: Shepherd, sha256: str) -> str:
        read, look = _read(shepherd)
        if look is None or look.unreadable:
            raise BadInput(look.unreadable if look else "there is no baseline yet: promote one first")
        if read.hash != sha256:
            raise EditedMeanwhile(f"{FILE} was changed since it was shown: look at it again")
        return shepherd.restore_by_hand(look, self.clock()).change


def _read(shepherd: Shepherd) -> tuple[Snapshot, Look | None]:
    """The file as it is, and its comparison with the baseline, which records nothing."""
    return shepherd.workspace.read(FILE), shepherd.look(keep=False)


def _compared(shepherd: Shepherd, look: Look) -> dict[str, Any]:
    """What differs, what a restore would change, and what happened before."""
    before = shepherd.earlier()
    return {
        "baseline": _about(look.baseline),
        "earlier": None if before is None else before.isoformat(),
        "diff": diff_of(look.baseline.text, look.text, "baseline", FILE),
        "restore": diff_of(look.text, shepherd.restored(look, by_hand_too=True), FILE, "restored"),
        "incidents": [
            {"number": one.number, "at": one.at, "text": described(one), "change": one.change}
            for one in shepherd.incidents()[::-1][:SHOWN_INCIDENTS]
        ],
    }


def _about(baseline: Baseline) -> dict[str, str]:
    return {"at": baseline.at.isoformat(), "sha256": baseline.hash}


def _shown(state: State, why: str, **more: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"path": None, "sha256": "", "baseline": None, "earlier": None, "diff": [], "restore": []}
    return {"state": state, "why": why, **nothing, "drift": None, "incidents": [], **more}
