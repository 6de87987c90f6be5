"""Hermes' own memory providers behind ours: each fails alone, and holds up nobody.

What asks a provider waits for a limited time; one that still works on its last question is not asked again. What writes
goes to each in the order of the conversation, in a thread of its own, which the program does not wait for at its end.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from queue import Full
from typing import Any, Protocol

from fusion.integrations.hermes.call_queue import CallQueue
from fusion.integrations.hermes.settings import Rule

START_S = 2.0
"""seconds that a session waits for its providers to be ready; after that they start in the background"""
END_S = 8.0
"""seconds that the end of a session waits for what is still written"""

log = logging.getLogger(__name__)

Load = Callable[[str], Any]
"""a new provider by its name; None if Hermes has none of that name"""


class Call(Protocol):
    """What is done with a provider of Hermes."""

    def __call__(self, provider: Any, /) -> Any: ...


class Other:
    """One provider of Hermes."""

    def __init__(self, name: str, provider: Any) -> None:
        self.name = name
        self.provider = provider
        self._asked = CallQueue(f"memory-{name}-ask")
        self._written = CallQueue(f"memory-{name}-write")
        self._ready = threading.Event()

    def start(self, call: Call) -> Future[Any]:
        """Have the provider begin a session; it is neither asked nor written to unless that succeeds."""

        def begin() -> None:
            call(self.provider)
            self._ready.set()

        return self._noted("initialize", self._written.run(begin))

    def ask(self, what: str, call: Call) -> Future[Any] | None:
        """The future of an answer; None if the provider is not ready, or still works on the last question."""
        if not self._ready.is_set() or self._asked.is_busy:
            return None
        return self._noted(what, self._asked.run(lambda: call(self.provider)))

    def write(self, what: str, call: Call, otherwise: Callable[[], None] = lambda: None) -> None:
        """Do something after all that was written before; if it fails, do what is to be done ``otherwise``."""

        def act() -> None:
            if not self._ready.is_set():  # which was logged
                otherwise()
                return
            try:
                call(self.provider)
            except Exception:
                otherwise()
                raise

        try:
            self._noted(what, self._written.run(act))
        except Full:
            log.warning("the memory provider %s is too slow: it does not get a %s", self.name, what)
            otherwise()

    @property
    def last_write(self) -> Future[Any] | None:
        return self._written.last

    def _noted(self, what: str, future: Future[Any]) -> Future[Any]:
        def note(done: Future[Any]) -> None:
            if error := done.exception():
                log.warning(
                    "the memory provider %s failed in %s: %s", self.name, what, str(error) or type(error).__name__
                )

        future.add_done_callback(note)
        return future


class Others:
    """All providers behind ours, in the order of the settings."""

    def __init__(self, members: Sequence[Other] = (), limit_s: float = START_S) -> None:
        self.members = tuple(members)
        self._limit_s = limit_s

    @classmethod
    def load(cls, names: Iterable[str], own: str, load: Load, limit_s: float) -> Others:
        """The providers of these names that are available. Each other one is named in the log."""
        found: list[Other] = []
        for name in dict.fromkeys(names):
            if name == own:
                log.warning("%s is not put behind itself: take it out of `providers` in memory-fusion.json", own)
                continue
            try:
                provider = load(name)
                if provider is None:
                    log.warning("Hermes has no memory provider %r: hermes memory setup lists them", name)
                elif not provider.is_available():
                    log.warning("the memory provider %s is not available: hermes memory setup %s", name, name)
                else:
                    found.append(Other(name, provider))
            except Exception as error:  # noqa: BLE001 - each fails alone
                log.warning("the memory provider %s was not loaded: %s", name, str(error) or type(error).__name__)
        return cls(found, limit_s)

    def start(self, call: Call) -> None:
        """Have all begin a session, at once."""
        wait([one.start(call) for one in self.members], self._limit_s)

    def ask(self, what: str, call: Call) -> Callable[[], dict[str, Any]]:
        """Ask all at once; the result waits for the answers that come in time, and returns them by name."""
        deadline = time.monotonic() + self._limit_s
        asked = {one.name: future for one in self.members if (future := one.ask(what, call))}

        def answers() -> dict[str, Any]:
            wait(asked.values(), max(0.0, deadline - time.monotonic()))
            late = [name for name, future in asked.items() if not future.done()]
            if late:
                log.warning("%s took too long in %s; the prompt goes on without", ", ".join(late), what)
            return {name: one.result() for name, one in asked.items() if one.done() and one.exception() is None}

        return answers

    def texts(self, what: str, call: Call) -> Callable[[], dict[str, str]]:
        """As `ask`, for answers that are texts; empty ones are left out."""
        answers = self.ask(what, call)
        return lambda: {name: one for name, one in answers().items() if isinstance(one, str) and one.strip()}

    def write(self, what: str, call: Call, rule: Rule = "all") -> None:
        """Have those do something whom the rule names."""
        if rule == "first":
            self._to_first(what, call, self.members)
            return
        for one in self.members:
            if rule == "all" or (isinstance(rule, list) and one.name in rule):
                one.write(what, call)

    def _to_first(self, what: str, call: Call, members: Sequence[Other]) -> None:
        """Have the first provider do something, and if it fails the next one."""
        if not members:
            return
        first, *rest = members
        first.write(what, call, lambda: self._to_first(what, call, rest))

    def flush(self, timeout_s: float = END_S) -> bool:
        """Wait until all is written; whether it was in time."""
        deadline = time.monotonic() + timeout_s
        while waiting := [last for one in self.members if (last := one.last_write) and not last.done()]:
            if wait(waiting, max(0.0, deadline - time.monotonic())).not_done:
                return False
        return True


def accepted(method: Callable[..., Any], **named: Any) -> Mapping[str, Any]:
    """Those arguments that a method takes: providers of earlier versions of Hermes take fewer."""
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return named
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return named
    return {name: value for name, value in named.items() if name in parameters}
