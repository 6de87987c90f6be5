"""A home with the sample's memories in the four embedded systems, as `make fuse` makes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from fusion.home import config_root

ASKED = "why did we leave SQLite?"
VIEWS = ("ask", "live", "memories", "graph", "timeline", "upkeep", "health")


def sample_home(folder: Path) -> Path:
    """The home in a new folder; no job runs by itself there."""
    sample = folder / "config" / "sample"
    shutil.copytree(config_root() / "sample", sample)
    home = folder / ".fusion"
    home.mkdir(mode=0o700)
    settings = (sample / "fusion.toml").read_text(encoding="utf-8")
    (home / "fusion.toml").write_text(f"{settings}\n[jobs]\nstart_after_s = 3600\n", encoding="utf-8")
    files = [sample / name for name in ("workspace", "sessions.jsonl", "facts.jsonl")]
    command = [sys.executable, "-m", "fusion", "ingest", "--home", str(home), *map(str, files)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=300)
    return home
