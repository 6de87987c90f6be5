"""The event log: durable, first, once; and what of it was delivered where, under which native id."""

from fusion.journal.journal import Journal

__all__ = ["Journal"]
