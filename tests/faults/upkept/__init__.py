"""A backend with a lifecycle that waits until it may go on: a job that can be killed in the middle."""

from adapters.inmemory import InMemory


class Upkept(InMemory):
    """The reference backend; its package exports the verb."""
