"""What Grafana's schema does not know of a dashboard, a path a line: ``python dashboard.py FILE``.

It runs in the environment of Grafana's SDK, which `make observe` makes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(given: object, read: object, path: str = "") -> Iterator[str]:
    """The paths of what is not as it was after Grafana's classes have read and written it."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            yield from lost(value, read.get(name), f"{path}.{name}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for at, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{path}[{at}]")
    elif given != read:
        yield path


if __name__ == "__main__":
    register_default_plugins()  # else queries and options of panels are kept as they are
    dashboard = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    written = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard)))
    sys.stdout.writelines(f"{path}\n" for path in lost(dashboard, written))
