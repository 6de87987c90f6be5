"""A backend whose folder exports verbs and drop-in routes: the reference backend, and what one can do with it."""

from adapters.inmemory import InMemory


class Verbed(InMemory):
    """A backend without abilities; its package exports verbs and routes."""
