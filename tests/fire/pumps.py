"""Hostile texts for regular expressions and text functions: strings that repeat what a pattern looks for.

`patterns` lists every regular expression of the packages, `hostile` builds the texts for one of them, and
`super_linear` measures whether time grows faster than the text.
"""

from __future__ import annotations

import ast
import gc
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from fusion.lib.lazy_pattern import LazyPattern

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fusion", "adapters")
SHORT = 4_096
LONG = 16_384
FLOOR_S = 0.004
"""CPU seconds for 16 KB below which growth is not looked at: 250 ns a character"""
LIMIT_S = 1.5
"""CPU seconds after which a call is stopped: it is super-linear, or as bad"""
MOST_TEXTS = 120
GROWTH = 8.0
"""times the CPU that four times the text may take: linear is 4, quadratic 16"""

_IMPORTS = re.compile(r"\b(?:import re|lazy_pattern)\b")
_SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
_CALLS = {*_SEARCHING, "match", "fullmatch", "compile"}
_COMMON = (
    *" \n\t\ra A1`[(<-_.:/#*>\"'\\@{=,;|~\u00e9\u4e00\u3042\uac00",
    *("a ", "A ", "A a ", "Ab ", "1 ", "[[", "- ", "> ", "x\n", "\n\n", "A.", "a.", " ."),
    *("](", "```\n", "<!--", "--", "\r\n"),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A regular expression of the source, and the methods it is used with."""

    module: str
    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


@dataclass(frozen=True)
class Dynamic:
    """A regular expression whose text is built at run time, so that it cannot be read from the source."""

    name: str


def modules() -> list[str]:
    """The modules whose source has the words of an import of patterns."""
    return [_name(path) for path in _sources() if _IMPORTS.search(path.read_text(encoding="utf-8"))]


@cache
def patterns() -> tuple[list[Found], list[Dynamic]]:
    """Every regular expression that the packages compile, and the places where one is built at run time."""
    found: list[Found] = []
    dynamic: list[Dynamic] = []
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in _sources()}
    everywhere = _uses(trees.values())
    for path, tree in trees.items():
        if not any(_imports_patterns(node) for node in ast.walk(tree)):
            continue
        module_name = _name(path)
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:  # an adapter of a framework that is not installed here
            if (error.name or "").partition(".")[0] in PACKAGES:
                raise
            continue
        inside: set[int] = set()
        used = {**everywhere, **{name: how for name, how in _uses([tree]).items() if name.startswith("_")}}
        for name, value in _globals_of(module):
            if (node := _assignment(tree, name)) is not None:
                inside.update(id(child) for child in ast.walk(node))
                found += [
                    Found(module_name, f"{module_name}.{name}", each, used.get(name, frozenset({"search"})))
                    for each in value
                ]
        for node in ast.walk(tree):
            if id(node) not in inside and (method := _re_call(node)) is not None:
                assert isinstance(node, ast.Call)
                where = f"{module_name}:{ast.unparse(node.args[0])}"
                if (written := _constant(node, module)) is None:
                    dynamic.append(Dynamic(where))
                else:
                    found.append(
                        Found(module_name, where, written, frozenset({"search" if method == "compile" else method}))
                    )
    return found, dynamic


def unreliable(pattern: str | bytes, flags: int = 0) -> bool:
    """Whether a group that is repeated possessively looks round, gives back, or has a number.

    Others may differ, too: one whose alternatives, or whose possessive part, do not come first in it.
    """
    doubtful = {"ASSERT", "ASSERT_NOT", "MAX_REPEAT", "MIN_REPEAT", "SUBPATTERN", "GROUPREF"}
    parsed = re._parser.parse(pattern, flags)  # type: ignore[attr-defined]
    repeated = [argument for name, argument in _operations(parsed) if name == "POSSESSIVE_REPEAT"]
    return any(name in doubtful for argument in repeated for name, _ in _operations(argument))


def _operations(parsed: Any) -> Iterator[tuple[str, Any]]:
    """The names and arguments of all operations in a parsed pattern or in an argument, however deep."""
    if isinstance(parsed, re._parser.SubPattern):  # type: ignore[attr-defined]
        for operation, argument in parsed:
            yield str(operation), argument
            yield from _operations(argument)
    elif isinstance(parsed, (tuple, list)):
        for each in parsed:
            yield from _operations(each)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports_patterns(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) and any(a.name in ("re", "lazy_pattern") for a in node.names)


def _sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def _globals_of(module: ModuleType) -> Iterator[tuple[str, list[re.Pattern[Any]]]]:
    for name, value in vars(module).items():
        if held := list(_held(value)):
            yield name, held


def _held(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    """The patterns in a value: itself, its items, or the pattern whose method it is."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, LazyPattern):
        yield value.compiled()
    elif isinstance(owner := getattr(value, "__self__", None), re.Pattern):
        yield owner
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from _held(each, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _held(each, depth - 1)


def _assignment(tree: ast.Module, name: str) -> ast.stmt | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(e, ast.Name) and e.id == name for target in targets for e in ast.walk(target)):
                return node
    return None


def _uses(trees: Any) -> dict[str, frozenset[str]]:
    """With which methods each name is called, anywhere."""
    used: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in _CALLS:
                owner = node.value
                name = (
                    owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
                )
                if name and name != "re":
                    used.setdefault(name, set()).add(node.attr)
    return {name: frozenset(methods) for name, methods in used.items()}


def _re_call(node: ast.AST) -> str | None:
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr in _CALLS and ast.unparse(called.value) == "re":
        return called.attr
    return None


def _constant(node: ast.Call, module: ModuleType) -> re.Pattern[Any] | None:
    """The pattern of a call whose text is a constant of the module."""
    space = {**vars(module), "re": re}
    flags = next((k.value for k in node.keywords if k.arg == "flags"), None)
    if flags is None and len(node.args) > 1 and "re." in ast.unparse(node.args[-1]):
        flags = node.args[-1]
    try:
        written = eval(ast.unparse(node.args[0]), space)  # noqa: S307 - our own source
        return re.compile(written, eval(ast.unparse(flags), space) if flags else 0)  # noqa: S307
    except NameError:
        return None


# ---- the texts


def hostile(pattern: re.Pattern[Any], most_atoms: int = 6) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Texts for a pattern, some `MOST_TEXTS`: each has a name, and is made for a number of characters."""
    made = list(_hostile(pattern, most_atoms))
    yield from made[:: len(made) // MOST_TEXTS + 1]


def _hostile(pattern: re.Pattern[Any], most_atoms: int) -> Iterator[tuple[str, Callable[[int], str]]]:
    written = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = re._parser.parse(written, pattern.flags & ~re.DEBUG)  # type: ignore[attr-defined]
    heads: dict[tuple[str, str], None] = {}
    atoms: dict[str, None] = {}
    _collect(list(parsed), "", heads, atoms)
    whole = "".join(_sample(item) for item in parsed)
    repeated = dict.fromkeys([whole, *(head for head, _ in heads), *(h + p for h, p in heads), *atoms, *_COMMON])
    for unit in repeated:
        if unit:
            yield f"{unit!r} repeated", lambda n, unit=unit: (unit * (n // len(unit) + 1))[:n]  # type: ignore[misc]
    for head, pump in heads:
        for end in ("", "\0", "\n", "!", "x", whole):
            yield (
                f"{head!r} + {pump!r} repeated + {end!r}",
                lambda n, head=head, pump=pump, end=end: head + pump * ((n - len(head)) // len(pump)) + end,  # type: ignore[misc]
            )
    few = list(atoms)[:most_atoms]
    for one, two in product(few, few):
        if one != two:
            yield f"{one + two!r} repeated", lambda n, unit=one + two: unit * (n // len(unit))  # type: ignore[misc]
            yield f"{one!r}, then {two!r}", lambda n, a=one, b=two: a * (n // 2 // len(a)) + b * (n // 2 // len(b))  # type: ignore[misc]


def _collect(items: list[Any], head: str, heads: dict[tuple[str, str], None], atoms: dict[str, None]) -> str:
    """Fills each repetition of a pattern with its repeated part; returns a text that matches the pattern."""
    for op, arg in items:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = arg
            body = list(body)
            if most > 8:
                for pump in _pumps(body):
                    heads[head, pump] = None
            _collect(body, head, heads, atoms)
            head += "".join(_sample(each) for each in body) * min(least, 8)
        elif name == "SUBPATTERN":
            head = _collect(list(arg[-1]), head, heads, atoms)
        elif name == "ATOMIC_GROUP":
            head = _collect(list(arg), head, heads, atoms)
        elif name == "BRANCH":
            ends = [_collect(list(branch), head, heads, atoms) for branch in arg[1][:40]]
            head = ends[0]
        elif name in ("ASSERT", "ASSERT_NOT"):
            _collect(list(arg[1]), head, heads, atoms)
        else:
            if text := _sample((op, arg)):
                atoms[text] = None
            head += text
    return head


def _pumps(body: list[Any]) -> list[str]:
    """A few texts that the body of a repetition matches."""
    found = {"".join(_sample(each) for each in body): None}
    if len(body) == 1 and str(body[0][0]) in ("IN", "ANY", "NOT_LITERAL", "BRANCH", "SUBPATTERN"):
        found.update(dict.fromkeys(_samples(body[0])[:5]))
    return [each for each in found if each]


_CLASSES = {
    "CATEGORY_DIGIT": "1",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_WORD": "-",
}
_TRIED = "a1 -A_.\n:/\"'`[](){}<>#*\u00e9\u4e00"


def _sample(item: Any) -> str:
    return (_samples(item) or [""])[0]


def _samples(item: Any) -> list[str]:
    """Texts that one item of a parsed pattern matches."""
    op, arg = item
    name = str(op)
    if name == "LITERAL":
        return [chr(arg)]
    if name == "NOT_LITERAL":
        return [each for each in _TRIED if ord(each) != arg]
    if name == "ANY":
        return list("a1 -A")
    if name == "IN":
        return _members(arg)
    if name == "SUBPATTERN":
        return _products(list(arg[-1]))
    if name == "ATOMIC_GROUP":
        return _products(list(arg))
    if name == "BRANCH":
        return ["".join(_sample(each) for each in branch) for branch in arg[1]]
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, body = arg
        return [text * max(1, min(least, 40)) if least else "" for text in _products(list(body))]
    return [""]


def _products(items: list[Any]) -> list[str]:
    if len(items) == 1:
        return _samples(items[0])
    return ["".join(_sample(each) for each in items)]


def _members(items: Any) -> list[str]:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    if negated:
        probe = re.compile(_class_text(items))
        return [each for each in _TRIED if probe.fullmatch(each)]
    found = []
    for op, arg in items:
        if str(op) == "LITERAL":
            found.append(chr(arg))
        elif str(op) == "RANGE":
            found.append(chr(arg[0]))
        elif str(op) == "CATEGORY":
            found.append(_CLASSES.get(str(arg), "a"))
    return found


def _class_text(items: Any) -> str:
    written = "["
    for op, arg in items:
        if str(op) == "NEGATE":
            written += "^"
        elif str(op) == "LITERAL":
            written += f"\\U{arg:08x}"
        elif str(op) == "RANGE":
            written += f"\\U{arg[0]:08x}-\\U{arg[1]:08x}"
        elif str(op) == "CATEGORY":
            written += {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w"}.get(
                str(arg).removeprefix("CATEGORY_"), r"\W"
            )
    return written + "]"


# ---- the measure


def driver(found: Found) -> list[tuple[str, Callable[[Any], object]]]:
    """How a pattern is used, as calls on a text: searching goes to the end of the text."""
    drives: list[tuple[str, Callable[[Any], object]]] = []
    if found.methods & _SEARCHING or not found.methods & {"match", "fullmatch"}:
        drives.append(("search", lambda text: sum(1 for _ in found.pattern.finditer(text))))
    drives += [(how, getattr(found.pattern, how)) for how in ("match", "fullmatch") if how in found.methods]
    return drives


def super_linear(
    call: Callable[[Any], object],
    text: Callable[[int], Any],
    *,
    short: int = SHORT,
    long: int = LONG,
    floor_s: float = FLOOR_S,
    growth: float = GROWTH,
) -> str:
    """What shows that time grows faster than a text, or "": CPU time, the least of several runs.

    ``long`` is four times ``short``, and may take ``growth`` times as long.
    """
    return _grows(call, text(short), text(long), floor_s, growth)


def _grows(call: Callable[[Any], object], short: Any, long: Any, floor_s: float, growth: float = GROWTH) -> str:
    spent = cpu(call, long)
    if spent < floor_s:
        return ""
    if spent >= LIMIT_S:
        return f"more than {LIMIT_S} s for {len(long):,} characters"
    before = after = 0.0
    for again in range(4):  # a busy machine makes one measurement wrong, not all of them
        before = max(before, cpu(call, short))
        after = min(after, cpu(call, long)) if again else spent
        if after < floor_s or after < growth * before:
            return ""
    return f"{before * 1000:.1f} ms for {len(short):,} characters, {after * 1000:.1f} ms for {len(long):,}"


class _TooLongError(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooLongError


def cpu(call: Callable[[Any], object], text: Any) -> float:
    """CPU seconds of a call, which ends after LIMIT_S: the engine of `re` looks for signals."""
    previous = signal.signal(signal.SIGVTALRM, _stop)
    began = time.thread_time()
    gc.disable()  # its time grows with all that is alive, whichever text is read
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        call(text)
    except _TooLongError:
        return LIMIT_S
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
        gc.enable()
    return time.thread_time() - began
