"""The providers behind ours: each fails alone, in time, and writes go to those whom the policy names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fusion.integrations.hermes.call_queue import MAX_WAITING
from fusion.integrations.hermes.others import Other, Others, accepted
from fusion.integrations.hermes.settings import Rule

PATIENT_S = 60.0
SHORT_S = 0.05


class Provider:
    """A provider that notes what it is told, and fails where it is told to."""

    def __init__(self, *fails: str, available: bool = True) -> None:
        self.fails, self.available = fails, available
        self.told: list[str] = []

    def is_available(self) -> bool:
        return self.available

    def do(self, what: str) -> str:
        if what in self.fails:
            raise RuntimeError(f"cannot {what}")
        self.told.append(what)
        return f"did {what}"


class Hanging(Provider):
    """A provider that answers nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def do(self, what: str) -> str:
        if what != "start":
            self.go.wait(PATIENT_S)
        return super().do(what)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    provider = Hanging()
    yield provider
    provider.go.set()


def started(limit_s: float = PATIENT_S, **providers: Provider) -> Others:
    others = Others([Other(name, one) for name, one in providers.items()], limit_s)
    others.start(lambda provider: provider.do("start"))
    return others


def ask(others: Others, what: str) -> dict[str, Any]:
    return others.ask(what, lambda provider: provider.do(what))()


def write(others: Others, what: str, rule: Rule = "all") -> None:
    others.write(what, lambda provider: provider.do(what), rule)
    assert others.flush(PATIENT_S)


def test_all_are_asked_and_one_that_fails_is_left_out() -> None:
    others = started(a=Provider(), b=Provider("recall"), c=Provider("start"))
    assert ask(others, "recall") == {"a": "did recall"}


def test_one_that_hangs_is_left_out_and_not_asked_again_until_it_returns(hanging: Hanging) -> None:
    others = started(SHORT_S, a=hanging)
    assert ask(others, "first") == {}
    assert ask(others, "second") == {}
    hanging.go.set()
    [asked] = [one._asked.last for one in others.members]
    assert asked is not None
    assert asked.result(PATIENT_S) == "did first"
    assert hanging.told == ["start", "first"]


@pytest.mark.feature("Hermes: what is written goes to all memory providers, the first that takes it, or by kind")
@pytest.mark.parametrize(
    ("rule", "told"), [("all", "ac"), ("first", "a"), ("none", ""), (["c", "unknown"], "c"), (["b"], "")]
)
def test_a_rule_names_who_gets_what_is_written(rule: Rule, told: str) -> None:
    providers = {"a": Provider(), "b": Provider("turn"), "c": Provider()}
    write(started(**providers), "turn", rule)
    assert [name for name, one in providers.items() if "turn" in one.told] == list(told)


@pytest.mark.parametrize("broken", [Provider("turn"), Provider("start")])
def test_first_is_the_first_that_succeeds(broken: Provider) -> None:
    providers = {"a": broken, "b": Provider("turn"), "c": Provider(), "d": Provider()}
    write(started(**providers), "turn", "first")
    assert [name for name, one in providers.items() if "turn" in one.told] == ["c"]


def test_one_that_hangs_does_not_hold_up_the_writes_of_others(hanging: Hanging) -> None:
    other = Provider()
    others = started(a=hanging, b=other)
    for number in range(MAX_WAITING + 10):
        others.write("turn", lambda provider, number=number: provider.do(str(number)), ["a"])  # type: ignore[misc]
    others.write("turn", lambda provider: provider.do("last"))
    last = others.members[1].last_write
    assert last is not None
    last.result(PATIENT_S)
    assert other.told == ["start", "last"]
    assert not others.flush(SHORT_S)
    hanging.go.set()
    assert others.flush(PATIENT_S)
    assert MAX_WAITING <= len(hanging.told) - 1 <= MAX_WAITING + 1, "further ones were refused"


def test_first_passes_on_what_too_many_calls_keep_from_the_first(hanging: Hanging) -> None:
    other = Provider()
    others = started(a=hanging, b=other)
    for number in range(MAX_WAITING + 10):
        others.write("turn", lambda provider, number=number: provider.do(str(number)), "first")  # type: ignore[misc]
    hanging.go.set()
    assert others.flush(PATIENT_S)
    assert sorted(map(int, [*hanging.told[1:], *other.told[1:]])) == list(range(MAX_WAITING + 10))


def test_writes_keep_their_order() -> None:
    provider = Provider()
    others = started(a=provider)
    for number in range(50):
        others.write("turn", lambda one, number=number: one.do(str(number)))  # type: ignore[misc]
    assert others.flush(PATIENT_S)
    assert provider.told == ["start", *map(str, range(50))]


def test_only_available_providers_are_loaded_once_and_never_ours(caplog: pytest.LogCaptureFixture) -> None:
    known = {"a": Provider(), "off": Provider(available=False)}

    def load(name: str) -> Provider | None:
        if name == "broken":
            raise ImportError("no such module")
        return known.get(name)

    names = ["a", "unknown", "off", "broken", "memory-fusion", "a"]
    others = Others.load(names, "memory-fusion", load, SHORT_S)
    assert [one.name for one in others.members] == ["a"]
    for said in ("no memory provider 'unknown'", "off is not available", "broken was not loaded", "behind itself"):
        assert said in caplog.text


def test_a_method_gets_the_arguments_that_it_takes() -> None:
    def old(action: str) -> None: ...
    def new(action: str, metadata: object = None) -> None: ...
    def any_of_them(**named: object) -> None: ...

    assert accepted(old, metadata=1) == {}
    assert accepted(new, metadata=1, other=2) == {"metadata": 1}
    assert accepted(any_of_them, metadata=1) == {"metadata": 1}
