"""Errors in the shape of QMD's HTTP server: ``{"error": …}``."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any


def refused(said: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error from its problem details; input that is wrong is 400 there."""
    status = int(said["status"])
    wrong = status == HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.BAD_REQUEST if wrong else status, {"error": str(said.get("detail") or said["title"])}
