"""The entries of Hermes' own MEMORY.md and USER.md as items, so that other agents of the user recall them, too.

Hermes says which entry it added, replaced or removed; an entry that it replaces or removes is named by a part of its
text. So each entry is an item, whose key is the hash of its text, in a namespace of the profile and the file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from fusion.client import Client
from fusion.errors import FusionError, NotFound
from fusion.lib.envelope import said

MAX_ENTRIES = 100
"""entries of one file that are searched for the one that changes; Hermes' files have 2,200 characters"""
FIELDS = {"user": "about the user"}
"""by file, what its entries are; else a note"""
NOTE = "note"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The two files of one profile of one owner."""

    client: Client
    profile: str
    scope: Mapping[str, str]
    """the user, if there is one"""
    audience: str

    def apply(self, action: str, file: str, content: str, old_text: str) -> None:
        """Do what Hermes did with an entry of a file (``memory`` or ``user``): add, replace or remove it.

        A failure is logged: Hermes has the entry anyway.
        """
        try:
            self._apply(action, file, content, old_text)
        except (FusionError, OSError, ValueError) as error:
            log.warning("an entry of Hermes' %s file was not kept: %s", file, error)

    def _apply(self, action: str, file: str, content: str, old_text: str) -> None:
        namespace = ("hermes", self.profile, file)
        if action in ("replace", "remove") and (old := (old_text or content).strip()):
            self._forget(namespace, file, old)
        text = said(content, "assistant").text.strip()
        if action in ("add", "replace") and text:
            value = {FIELDS.get(file, NOTE): text}
            self.client.put_item(namespace, _key(text), value, audience=self.audience, origin="agent", **self.scope)

    def _forget(self, namespace: tuple[str, ...], file: str, old: str) -> None:
        """Forget the one entry that has a text in it. Of several Hermes changed none, and asked its model again."""
        field = FIELDS.get(file, NOTE)
        scope: dict[str, Any] = {**self.scope, "audience": self.audience}
        items = self.client.search_items(namespace, limit=MAX_ENTRIES, **scope)["items"]
        found = [one for one in items if old in str(_value(one).get(field, ""))]
        for one in found if len(found) == 1 else [one for one in found if _value(one).get(field) == old]:
            try:
                self.client.forget_item(namespace, one["key"], **self.scope)
            except NotFound:  # somebody else forgot it
                continue


def _value(item: Mapping[str, Any]) -> Mapping[str, Any]:
    value: Mapping[str, Any] = item["value"]
    return value


def _key(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
