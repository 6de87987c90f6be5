"""`secrets_masked`: the share of kinds of secrets of which no example is left, and false masks in ordinary lines."""

from __future__ import annotations

import time
from typing import Any

from fusion.lib.redact import redact
from tests.fire import secrets


def measure(full: bool) -> dict[str, Any]:
    """A kind counts as masked if no more than six and four characters are left of each of its examples."""
    seeds = range(1, 11 if full else 2)
    examples = [example for seed in seeds for example in secrets.examples(seed, each=3 if full else 1)]
    missed = {example.kind for example in examples if secrets.shows(example, redact(example.line)[0])}
    lines = secrets.ordinary(many=20_000 if full else 3_000)
    false = sum(redact(line) != (line, {}) for line in lines)
    text = "\n".join(lines)[: 2_000_000 if full else 200_000]
    began = time.thread_time()
    redact(text)
    took_s = time.thread_time() - began
    return {
        "secrets_masked": round(1 - len(missed) / len(secrets.KINDS), 4),
        "kinds": len(secrets.KINDS),
        "examples": len(examples),
        "missed": sorted(missed),
        "ordinary_lines": len(lines),
        "false_masks": false,
        "false_masks_per_1000_lines": round(1000 * false / len(lines), 3),
        "us_per_1000_characters": round(took_s * 1e9 / len(text), 1),
    }
