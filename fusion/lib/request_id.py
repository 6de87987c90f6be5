"""The id of the request that is being worked on, which every line of the log has."""

from __future__ import annotations

from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""empty outside a request, as in a job"""
