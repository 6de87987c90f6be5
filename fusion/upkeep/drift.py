"""Measures how far a Markdown file has drifted from its approved version, and restores what it lost.

Added lines are no drift. Drift is measured by lines (the share of the approved lines that the file lacks), by meaning
(the distance between an approved passage and the text in its place), and by protected sections, in which every change
counts, additions included. All functions are pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fusion.lib.words import stems, word_list, words

PASSAGE_CHARS = 1_000
"""characters of a passage that is compared by meaning; short sections are compared together with the next ones"""
COUNTERPART = 1 / 3
"""least Jaccard similarity of the words of a lost line and a new line that counts as its changed version"""

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MARKER = re.compile(r"^[-*+]\s+")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading's line and the lines below it; ``path`` has its heading and those around it, outermost first.

    The text before the first heading has an empty path and no heading.
    """

    path: Path
    heading: str
    lines: tuple[str, ...]

    @property
    def keys(self) -> list[str]:
        """The lines as they are compared, without the blank ones."""
        return [key for line in self.lines if (key := _key(line))]


@dataclass(frozen=True, slots=True)
class Passage:
    """Approved text, and what the file has in its place; ``name`` is the heading of its first section."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between a file and its approved version."""

    approved: int
    """number of lines of the approved version"""
    lost: tuple[str, ...]
    counterparts: frozenset[str]
    """lines of the file that are changed versions of lost ones"""
    protected: tuple[str, ...]
    """names of the protected sections that differ"""
    passages: tuple[Passage, ...]
    """the passages that lost a line"""

    @property
    def lines(self) -> float:
        """The share of the approved lines that the file lacks."""
        return len(self.lost) / self.approved if self.approved else 0.0


@dataclass(frozen=True, slots=True)
class Drift:
    """How far a file has drifted, each from 0 to 1, and which protected sections differ."""

    lines: float
    meaning: float
    protected: tuple[str, ...]

    def over(self, max_lines: float, max_meaning: float) -> list[str]:
        """The reasons why the drift is too far, in words; empty if it is not."""
        found = [f"the protected section {name!r} differs" for name in self.protected]
        if self.lines > max_lines:
            found.append(f"{self.lines:.0%} of the approved lines are gone (more than {max_lines:.0%})")
        if self.meaning > max_meaning:
            found.append(f"a passage means something else: {self.meaning:.2f} (more than {max_meaning:.2f})")
        return found


def sections(text: str) -> list[Section]:
    """The sections of a Markdown text in order; every line is in exactly one."""
    found: list[Section] = []
    open_headings: list[tuple[int, str]] = []
    heading, lines, fence = "", list[str](), ""

    def end() -> None:
        if heading or lines:
            found.append(Section(tuple(name for _, name in open_headings), heading, tuple(lines)))

    for line in text.splitlines():
        fence = _fence_after(line, fence)
        level = None if fence else _HEADING.match(line)
        if level is None:
            lines.append(line)
            continue
        end()
        depth = len(level[1])
        name = " ".join(line[level.end() :].strip().rstrip("#").split())
        open_headings = [*(one for one in open_headings if one[0] < depth), (depth, name)]
        heading, lines = line, []
    end()
    return found


def _fence_after(line: str, fence: str) -> str:
    """The fence of the code block that is open after a line; "" if none is."""
    mark = _FENCE.match(line)
    if not fence:
        return mark[1] if mark else ""
    closes = mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not line[mark.end() :].strip()
    return "" if closes else fence


def protects(names: Sequence[str]) -> Callable[[Path], bool]:
    """Whether a section is protected: one of ``names`` is in its heading or in one around it, as whole words."""
    phrases = [f" {' '.join(found)} " for name in names if (found := word_list(name))]
    return lambda path: any(phrase in f" {' '.join(word_list(name))} " for name in path for phrase in phrases)


def compare(approved: str, current: str, protected: Callable[[Path], bool]) -> Comparison:
    """Compare a file with its approved version. The order of lines matters in protected sections only."""
    before, after = sections(approved), sections(current)
    open_before = [one for one in before if not protected(one.path)]
    old, new = _keys(before, protected), _keys(after, protected)
    lost, added = old - new, new - old
    counterparts = _counterparts(lost, added)
    changed = _changed_paths(before, after, protected)
    lost_protected = _lines_below(before, changed) - _lines_below(after, changed)
    return Comparison(
        approved=sum(len(one.keys) for one in before),
        lost=(*lost.elements(), *lost_protected.elements()),
        counterparts=frozenset(counterparts.values()),
        protected=tuple(" › ".join(path) for path in changed),
        passages=tuple(_passages(open_before, lost, counterparts)),
    )


def by_words(passage: Passage) -> float:
    """The cosine of the two texts' word counts: the measure of meaning without an embedder."""
    a, b = Counter(stems(passage.before)), Counter(stems(passage.after))
    product = sum(count * b[word] for word, count in a.items())
    norms = math.sqrt(sum(n * n for n in a.values()) * sum(n * n for n in b.values()))
    return product / norms if norms else float(a == b)


def drift(compared: Comparison, cosines: Sequence[float]) -> Drift:
    """The drift of a compared file; ``cosines`` has one value for each of its passages."""
    return Drift(round(compared.lines, 4), round(max(0.0, 1 - min(cosines, default=1.0)), 4), compared.protected)


def edited(approved: str, before: str, after: str, protected: Callable[[Path], bool], *, everywhere: bool) -> str:
    """The approved version without the lines that the edit from ``before`` to ``after`` removed.

    With ``everywhere`` it also has the protected sections as the edit left them. Other added lines are not approved.
    """
    old, new = sections(before), sections(after)
    lost = _keys(old, protected) - _keys(new, protected)
    changed = set(_changed_paths(old, new, protected)) if everywhere else set()
    result: list[Section] = []
    for section in sections(approved):
        if section.path in changed:
            continue
        if protected(section.path):
            result.append(section)
        else:
            result.append(Section(section.path, section.heading, tuple(_without(section.lines, lost))))
    for section in new:
        if section.path in changed:
            result.insert(_place(result, section.path[:-1]), section)
    return _joined(result)


def restored(approved: str, current: str, protected: Callable[[Path], bool]) -> str:
    """The approved version with the lines that were added to the file.

    Changed versions of lost lines are left out, and so are additions to protected sections.
    """
    compared = compare(approved, current, protected)
    result = _joined(_with_additions(sections(approved), sections(current), compared, protected))
    again = compare(approved, result, protected)
    whole = not again.lost and not again.protected
    return result if whole and result != _joined(sections(approved)) else approved


# The parts of a comparison ---------------------------------------------------------------------------------------


def _key(line: str) -> str:
    """A line as it is compared: without its list marker and without extra spaces."""
    return _MARKER.sub("", " ".join(line.split()))


def _counterparts(lost: Counter[str], added: Counter[str]) -> dict[str, str]:
    """The most similar added line of each lost line; each added line is used once."""
    of_word: dict[str, list[str]] = defaultdict(list)
    terms = {line: words(line) for line in (*lost, *added)}
    for line in added:
        for word in terms[line]:
            of_word[word].append(line)
    likely = []
    for line in lost:
        common = Counter(other for word in terms[line] for other in of_word[word])
        for other, count in common.items():
            share = count / (len(terms[line]) + len(terms[other]) - count)
            if share >= COUNTERPART:
                likely.append((-share, line, other))
    found: dict[str, str] = {}
    taken: set[str] = set()
    for _, line, other in sorted(likely):
        if line not in found and other not in taken:
            found[line] = other
            taken.add(other)
    return found


def _keys(found: Iterable[Section], protected: Callable[[Path], bool]) -> Counter[str]:
    """The lines of the sections that are not protected."""
    return Counter(key for one in found if not protected(one.path) for key in one.keys)


def _without(lines: Iterable[str], lost: Counter[str]) -> Iterator[str]:
    """The lines that are not in ``lost``; those that are, are removed from ``lost``."""
    for line in lines:
        key = _key(line)
        if lost[key] > 0:
            lost[key] -= 1
        else:
            yield line


def _changed_paths(
    before: Sequence[Section], after: Sequence[Section], protected: Callable[[Path], bool]
) -> list[Path]:
    """The protected sections that differ: in a line, in the order of their lines, or because one lacks them."""
    old, new = (_by_path(one for one in each if protected(one.path)) for each in (before, after))
    return [path for path in {**old, **new} if old.get(path) != new.get(path)]


def _lines_below(found: Iterable[Section], paths: Iterable[Path]) -> Counter[str]:
    wanted = set(paths)
    return Counter(key for one in found if one.path in wanted for key in one.keys)


def _by_path(found: Iterable[Section]) -> dict[Path, list[str]]:
    lines: dict[Path, list[str]] = {}
    for one in found:
        lines.setdefault(one.path, []).extend(one.keys)
    return lines


def _passages(approved: Sequence[Section], lost: Counter[str], counterparts: dict[str, str]) -> Iterator[Passage]:
    """The passages of the approved version that lost a line, each with the text in its place."""
    left = Counter(lost)
    for name, keys in _windows(approved):
        after, changed = [], False
        for key in keys:
            if left[key] > 0:
                left[key] -= 1
                changed = True
                after += [counterparts[key]] if key in counterparts else []
            else:
                after.append(key)
        if changed:
            yield Passage(name, "\n".join(keys), "\n".join(after))


def _windows(approved: Sequence[Section]) -> Iterator[tuple[str, list[str]]]:
    """The approved lines in passages of about `PASSAGE_CHARS` characters, each with a name."""
    keys, name, length = list[str](), "", 0
    for section in approved:
        for key in section.keys:
            if not keys:
                name = section.path[-1] if section.path else ""
            keys.append(key)
            length += len(key)
            if length >= PASSAGE_CHARS:
                yield name, keys
                keys, length = [], 0
    if keys:
        yield name, keys


# The restored text -----------------------------------------------------------------------------------------------


def _with_additions(
    approved: Sequence[Section], current: Sequence[Section], compared: Comparison, protected: Callable[[Path], bool]
) -> list[Section]:
    """The approved sections with the lines that were added to unprotected ones, and with new unprotected sections."""
    known = Counter(key for section in approved for key in section.keys)
    headings = {section.path: section.heading for section in current}
    result = list(approved)
    for section in current:
        new = [line for line in _without(section.lines, known) if _key(line) not in compared.counterparts]
        if protected(section.path) or not any(map(_key, new)):
            continue
        for depth in range(1, len(section.path) + 1):
            path = section.path[:depth]
            if path in headings and all(one.path != path for one in result):
                result.insert(_place(result, path[:-1]), Section(path, headings[path], ()))
        if all(one.path != section.path for one in result):  # text before the first heading
            result.insert(0, Section((), "", ()))
        at = max(i for i, one in enumerate(result) if one.path == section.path)
        heading = result[at].heading
        result[at] = Section(section.path, heading, _below(heading, result[at].lines, new))
    return result


def _below(heading: str, lines: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """The lines of a section with new ones at its end, before the empty lines there.

    Of empty lines that follow each other one is kept, and none at the beginning of a section without a heading.
    """
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    first = "" if end else heading
    said = [line for line, before in zip(new, (first, *new), strict=False) if line.strip() or before.strip()]
    while said and not said[-1].strip():
        said.pop()
    return (*lines[:end], *said, *lines[end:])


def _place(result: Sequence[Section], parent: Path) -> int:
    """The index for a new section: after the last one below the same parent, so that no other section changes."""
    inside = [i for i, one in enumerate(result) if one.path[: len(parent)] == parent]
    return inside[-1] + 1 if inside else len(result)


def _joined(found: Sequence[Section]) -> str:
    lines: list[str] = []
    for section in found:
        if section.heading and lines and lines[-1].strip():
            lines.append("")
        lines += [section.heading] if section.heading else []
        lines += section.lines
    return "\n".join((*lines, ""))
