"""The temporal facts as pages of Markdown: one for each subject, with wiki links between them, and an index."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from fusion.lib.listing import one_line
from fusion.lib.private_paths import without_private_paths
from fusion.lib.temporal_facts import ENTITY

INDEX = "index.md"
MAX_STEM_CHARS = 80


@dataclass(frozen=True, slots=True)
class PageFact:
    """A fact as a page shows it; the times are days."""

    subject: str
    label: str
    predicate: str
    object: str
    since: str
    until: str | None
    status: str
    sources: tuple[str, ...]
    current: bool


def pages_of(facts: Sequence[PageFact]) -> dict[str, str]:
    """The pages by file name, sorted; the same facts give the same pages, in whatever order they come."""
    by_subject: dict[str, list[PageFact]] = {}
    for fact in facts:
        by_subject.setdefault(fact.subject, []).append(fact)
    stems = {subject: stem_of(subject) for subject in sorted(by_subject)}
    pages = {f"{stems[subject]}.md": _page(by_subject[subject], stems) for subject in stems}
    current = {subject: sum(one.current for one in by_subject[subject]) for subject in stems}
    links = [f"- [[{stem}]]: {current[subject]} current" for subject, stem in stems.items()]
    pages[INDEX] = "\n".join(["# Index", "", *links, ""])
    return dict(sorted(pages.items()))


def stem_of(subject: str) -> str:
    """The name of a subject's file without its ending: readable, safe in a path, and of this subject alone."""
    name = subject.removeprefix(ENTITY)
    plain = re.sub(r"[^\w.-]", "-", name)[:MAX_STEM_CHARS].strip(".-")
    if plain == name and plain.lower() not in ("", "index"):
        return plain
    return f"{plain or 'entity'}-{blake2b(subject.encode(), digest_size=4).hexdigest()}"


def _page(facts: Sequence[PageFact], stems: Mapping[str, str]) -> str:
    order = sorted(facts, key=lambda one: (one.predicate, one.since, one.object, one.status))
    parts = [f"# {_plain(order[0].label)}", ""]
    for title, current in (("Holds now", True), ("Earlier, ended or uncertain", False)):
        chosen = [_line(one, stems) for one in order if one.current is current]
        parts += [f"## {title}", "", *chosen, ""] if chosen else []
    return "\n".join(parts)


def _line(fact: PageFact, stems: Mapping[str, str]) -> str:
    known = stems.get(fact.object)
    object_ = _plain(fact.object) if known is None else f"[[{known}]]"
    until = "" if fact.until is None else f" until {fact.until}"
    status = "" if fact.current else f"; {fact.status}"
    sources = ", ".join(fact.sources) or "no source"
    return f"- **{fact.predicate}**: {object_} (since {fact.since}{until}{status}; {sources})"


def _plain(text: str) -> str:
    """A text on one line that is no Markdown: no heading, link or code, and no folder of the machine."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", without_private_paths(one_line(text)))
