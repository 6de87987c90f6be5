"""Opens the ``anthropic`` SDK safely: no retries, no time-out of its own, no log lines with texts and keys in them.

Its time-out bounds each read, not the call, and retries add to it: the caller sets an outer deadline.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

API = "https://api.anthropic.com"
VARIABLE = "ANTHROPIC_API_KEY"
INSTALL = "pip install '/path/to/checkout[anthropic]'"


def installed() -> bool:
    return find_spec("anthropic") is not None


def connect(key: str, base_url: str) -> Future[AsyncAnthropic]:
    """A client, made on a thread of its own: importing the SDK takes a second of CPU."""
    worker = ThreadPoolExecutor(1, "anthropic")
    client = worker.submit(_client, key, base_url)
    worker.shutdown(wait=False)
    return client


def _client(key: str, base_url: str) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    # Their debug lines have the request in them: the texts, and the headers with the key.
    for chatty in ("anthropic", "httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=None, open_telemetry=False)


def asked_to_wait_s(error: Exception) -> float | None:
    """The Retry-After of a refusal, in seconds; None without a valid one. Dates are not read."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
