"""Suggests questions that the user's notes can answer, from the headings of their most informative sections."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from fusion.discover.files import HEAD_BYTES, Find, head, markdown_files
from fusion.lib.chunk import chunks
from fusion.lib.languages import is_foreign
from fusion.lib.words import STOP_WORDS, word_list

FILES = 120
"""maximum number of files whose beginnings are read: the latest and the longest"""
SECONDS = 2.0
"""seconds for reading them"""
READ_BYTES = HEAD_BYTES // 4
LANGUAGE_FILES, LANGUAGE_BYTES = 40, 4096
"""maximum number of files, and bytes of each, whose language is looked at"""
TITLE_CHARS = 80
TITLE_WORDS = 12
LONG_WORDS = 120
"""words of a section that add to its weight; further ones do not"""
TEMPLATE_FILES = 3
"""number of files from which a heading in all of them is part of a template, not a topic"""
BOILERPLATE = frozenset(
    "about agenda appendix archive attendees bookmarks changelog contents contributing daily diary done getting inbox "
    "index install installation introduction journal license links log memory misc moc next note notes overview readme "
    "references related resources see started summary table tags task tasks template templates todo todos toc untitled "
    "usage work".split()
)
"""words of headings and file names that are too common to name a topic"""
DECIDED = re.compile(
    r"\b(?:decid\w+|decision\w*|agreed|chose|chosen|moved? from|replaced|entschied\w*|entscheidung|décid\w+|décision|"
    r"decidi\w+|decisión|beslut\w*|besloten|decis\w+)\b",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]|\]\([^()\n]+\)|https?://\S+")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}\. ?\w+ \d{4}\b|\b(?:19|20)\d\d\b|\d年")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z]\w+")
_DAY = re.compile(r"\d{4}[-_. ]?\d\d[-_. ]?\d\d|\d{4}[-_ ]?[wW]?\d\d|\d\d[-_.]\d\d[-_.]\d{4}")


@dataclass(frozen=True, slots=True)
class Topic:
    """The heading of a section, or a file's name; ``decided``: it records a decision. A higher ``weight`` says more."""

    title: str
    decided: bool
    weight: float
    file: Path

    @property
    def question(self) -> str:
        """The question to ask. A question, a single word and a title beyond ASCII are asked unchanged."""
        plain = self.title.isascii() and " " in self.title
        if not plain or self.title.endswith("?"):
            return self.title
        return f'what {"was decided about" if self.decided else "do my notes say about"} "{self.title}"?'


def topics(finds: Sequence[Find], clock: Callable[[], float] = time.monotonic) -> list[Topic]:
    """The topics of notes by weight, first one of each file, then the second ones, and so on."""
    until = clock() + SECONDS
    found: list[Topic] = []
    for file in _worth_reading(path for one in finds if one.group == "notes" for path in one.paths):
        if clock() > until:
            break
        found += _topics(file)
    shared = Counter(title for title, _ in {(topic.title.casefold(), topic.file) for topic in found})
    good = [topic for topic in found if shared[topic.title.casefold()] < TEMPLATE_FILES]
    best = sorted(good, key=lambda topic: -topic.weight)
    counts: Counter[Path] = Counter()
    order: list[tuple[int, Topic]] = []
    for topic in best:
        order.append((counts[topic.file], topic))
        counts[topic.file] += 1
    unique: dict[str, Topic] = {}
    for _, topic in sorted(order, key=lambda ranked: ranked[0]):
        unique.setdefault(topic.title.casefold(), topic)
    return list(unique.values())


def foreign(finds: Sequence[Find]) -> bool:
    """Whether these notes, taken together, are in another language than English."""
    files = _worth_reading(path for one in finds if one.group == "notes" for path in one.paths)
    texts = (head(file, LANGUAGE_BYTES).decode("utf-8", "ignore") for file in islice(files, LANGUAGE_FILES))
    return is_foreign("\n".join(texts))


def _worth_reading(paths: Iterable[Path]) -> Iterator[Path]:
    """The files to read: half of them the latest, half the longest; those with a boilerplate name last."""
    files = [(file, *_mtime_and_size(file)) for path in paths for file in markdown_files(path)]
    latest = sorted(files, key=lambda one: -one[1])[: FILES // 2]
    rest = sorted(set(files) - set(latest), key=lambda one: -min(one[2], READ_BYTES))[: FILES - len(latest)]
    for file, _, _ in sorted([*latest, *rest], key=lambda one: _is_boilerplate(one[0].stem)):
        yield file


def _mtime_and_size(file: Path) -> tuple[float, int]:
    """The mtime and size of a file; zeros for one that is gone."""
    try:
        about = file.lstat()
    except OSError:  # it went away since it was listed
        return 0.0, 0
    return about.st_mtime, about.st_size


def _topics(file: Path) -> list[Topic]:
    """The topics of a file's beginning; without a good section, its first heading or its name."""
    text = head(file, READ_BYTES).decode("utf-8", "ignore")
    found: list[Topic] = []
    for headings, section in groupby(chunks(text), key=lambda chunk: chunk.headings):
        body = "\n".join(chunk.text for chunk in section)
        if title := _section_title(headings):
            found.append(Topic(title, DECIDED.search(body) is not None, _weight(title, body, file), file))
    if good := [topic for topic in found if topic.weight > 0]:
        return good
    name = _title(" ".join(re.split(r"[-_\s]+", file.stem)))
    return found[:1] or ([Topic(name, False, _weight(name, text, file) / 2, file)] if name and text.strip() else [])


def _section_title(headings: Sequence[str]) -> str:
    """The title of a section: its heading, preceded by the heading above where it is a single word."""
    title = _title(headings[-1]) if headings else ""
    above = _title(headings[-2]) if title and len(headings) > 1 and len(word_list(title)) == 1 else ""
    return f"{above}: {title}" if above and title.casefold() not in above.casefold() else title


def _title(heading: str) -> str:
    """A heading without markup; empty for one that names no topic: a date, a number, an emoji, "Notes"."""
    plain = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|\[([^\[\]]*)\]\([^()]*\)", r"\1\2", heading)
    title = re.sub(r"^[^\w(\"'¿]+|[^\w)\"'?!.]+$", "", plain.replace("`", "").replace("**", "")).strip().strip("#*_: ")
    found = word_list(title)
    letters = sum(character.isalpha() for character in title)
    if letters < 2 or not title.isprintable() or len(found) > TITLE_WORDS or len(title) > TITLE_CHARS:
        return ""
    if _DAY.match(title) or _is_boilerplate(title) or all(word in STOP_WORDS for word in found):
        return ""
    return title


def _is_boilerplate(name: str) -> bool:
    """Whether a heading or a file's name has only boilerplate words or digits."""
    found = word_list(name.replace("_", " ").replace("-", " "))
    return all(word in BOILERPLATE or word in STOP_WORDS or word.isdigit() for word in found)


def _weight(title: str, body: str, file: Path) -> float:
    """The weight of a section by its words, decisions, dates, names and links; 0 for a list of links."""
    about = set(word_list(title))
    own = [word for word in word_list(body) if word not in about]
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
    listed = sum(len(word_list(_LINK.sub("", line))) < 2 for line in lines)
    if len(own) < 3 or listed > len(lines) / 2:
        return 0.0
    length = min(len(own), LONG_WORDS) / LONG_WORDS
    evidence = (
        2.0 * (DECIDED.search(body) is not None)
        + 0.5 * min(len(_DATE.findall(body)), 3)
        + 0.3 * min(len(set(_NAME.findall(body))), 5)
        + 0.2 * min(len(_LINK.findall(body)), 3)
    )
    many_words = 2.0 if len(about) > 1 or not title.isascii() else 1.0
    place = "/".join(file.parts[-3:]).lower()
    usual = 0.1 if "template" in place else 0.3 if _is_boilerplate(file.stem) else 1.0
    return (length + evidence) * many_words * usual + 0.01
