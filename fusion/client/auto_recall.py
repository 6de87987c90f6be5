"""The request of both clients for the memories of a prompt, within the prompt's time limit."""

from __future__ import annotations

import logging
from typing import Any

RECALL_S = 0.2
"""maximum seconds that a prompt waits for its memories (seed 002)"""
SERVERS_SHARE = 0.75
"""share of that time that the server has for its answer"""
RECIPE = "seed002"
"""the recipe of auto-recall: at most 15 facts in 500 tokens below ``## Long-Term Memories``"""
MAX_PROMPT_CHARS = 32_000
"""characters of the longest query that the server accepts"""
MAX_TIMEOUT_MS = 60_000
"""the longest deadline that the server accepts"""

log = logging.getLogger(__name__)


def question(prompt: str, timeout_s: float, fields: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Client.fuse` for a prompt; ``fields`` override the defaults."""
    if len(prompt) > MAX_PROMPT_CHARS:
        half = MAX_PROMPT_CHARS // 2
        prompt = prompt[:half] + prompt[-half:]
    timeout_ms = min(max(1, int(timeout_s * 1000 * SERVERS_SHARE)), MAX_TIMEOUT_MS)
    return {"query": prompt, "recipe": RECIPE, "timeout_ms": timeout_ms, **fields}


def skipped(why: BaseException | str) -> str:
    """Log why there is no block, and return ""."""
    log.warning("the prompt goes on without memories: %s", why if isinstance(why, str) else type(why).__name__)
    return ""
