"""Puts the plugin where Hermes looks for it, and takes it away.

    python -m fusion.integrations.hermes install
    python -m fusion.integrations.hermes uninstall

The folder of Hermes is HERMES_HOME, else ``~/.hermes``. Only `plugins/memory-fusion` and `memory-fusion.json` in it are
ours; which provider is active stands in Hermes' own settings, and `hermes config set memory.provider ""` ends it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from fusion.integrations.hermes.settings import FILE
from fusion.version import VERSION

FOLDER = "memory-fusion"
MODULE = '''"""The memory provider memory-fusion. To remove it: python -m fusion.integrations.hermes uninstall"""

from fusion.integrations.hermes import register as register_memory_provider

register = register_memory_provider
'''
"""Hermes takes a folder for a memory provider if its module has the words register_memory_provider"""
MANIFEST = f"""name: {FOLDER}
version: {VERSION}
description: "One block of memories from all your memory systems, with other Hermes providers behind it."
"""


def install(folder: Path) -> Path:
    """Write the plugin into a folder of Hermes, over an earlier one; returns its folder."""
    plugin = folder / "plugins" / FOLDER
    plugin.mkdir(parents=True, exist_ok=True)
    (plugin / "__init__.py").write_text(MODULE, encoding="utf-8")
    (plugin / "plugin.yaml").write_text(MANIFEST, encoding="utf-8")
    return plugin


def uninstall(folder: Path) -> list[Path]:
    """Remove the plugin and its settings; returns what was there."""
    plugin, settings = folder / "plugins" / FOLDER, folder / FILE
    found = [path for path in (plugin, settings) if path.exists() or path.is_symlink()]
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fusion.integrations.hermes", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("action", choices=["install", "uninstall"])
    action = parser.parse_args(arguments).action
    folder = Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    if not folder.is_dir():
        print(f"There is no {folder}: run hermes once, or name its folder by HERMES_HOME.", file=sys.stderr)
        return 1
    if action == "install":
        print(f"{install(folder)} is installed. Now: hermes config set memory.provider {FOLDER}")
        return 0
    removed = uninstall(folder)
    print(f"Removed {', '.join(map(str, removed))}." if removed else f"Nothing of memory-fusion is in {folder}.")
    print("If it was the active provider: hermes memory off")
    return 0


if __name__ == "__main__":
    sys.exit(main())
