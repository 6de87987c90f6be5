"""What a key sees of a quarantined memory.

A key with the role operator, as the home's token, reads its text, to decide on it. Any other key sees that it is
there: its ref, state and scope with the reason, and nothing that its author wrote. Answers, packs and the tools of
agents have nothing of it at all, whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fusion.contract import Role
from fusion.doors.roles import OPERATOR, allows
from fusion.ingest.forget import ForgetResult, UndoResult

Result = TypeVar("Result", ForgetResult, UndoResult)

WITHHELD = "it is quarantined: only a key with the role operator reads its text, and may release it"
"""why a memory is shown without its text"""
_WRITTEN = ("entities", "metadata", "provenance", "grade", "tags")
"""fields that its author wrote, or that quote them, and that not every memory has"""
_WRITTEN_STATE = ("tags", "provenance", "grade", "project")


def reads_quarantined(role: Role) -> bool:
    """Whether a key of a role reads what is quarantined."""
    return allows(role, OPERATOR)


def is_quarantined(memory: Mapping[str, Any]) -> bool:
    """Whether a memory, as doors show it, is quarantined."""
    return bool(memory.get("trust") == "quarantined")


def shown_to(memory: Mapping[str, Any], role: Role) -> Mapping[str, Any]:
    """A memory as a key of a role sees it: with ``withheld`` instead of its text, if it may not read that."""
    if reads_quarantined(role) or not is_quarantined(memory):
        return memory
    left = {name: value for name, value in memory.items() if name not in _WRITTEN}
    if "state" in left:
        left["state"] = {name: value for name, value in left["state"].items() if name not in _WRITTEN_STATE}
    return {**left, "text": "", "speaker": None, "withheld": WITHHELD}


def previewed_to(found: Result, role: Role) -> Result:
    """What a request to forget or an undo found, as a key of a role sees it: what is quarantined has no text."""
    if reads_quarantined(role):
        return found
    shown = tuple(replace(one, text="") if one.quarantined else one for one in found.found)
    return replace(found, found=shown)


def explained_to(found: Mapping[str, Any], role: Role) -> Mapping[str, Any]:
    """What `fusion why` says of a memory, as a key of a role sees it: without who spoke and what it refers to."""
    origin = found["provenance"]
    if reads_quarantined(role) or origin is None or not is_quarantined(origin):
        return found
    state = {name: value for name, value in found["state"].items() if name not in _WRITTEN_STATE}
    return {**found, "provenance": {**origin, "speaker": None, "kind": "none", "ref": ""}, "state": state}
