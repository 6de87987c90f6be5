"""A file that leads a browser to an address which no other user of the computer may see."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

FILE = "open-inspector.html"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>memory-fusion</title>
<p>Opening <a href="{url}">the inspector</a> …
"""


def write_redirect(home: Path, url: str) -> Path:
    """The file in the home, which only its owner can read. The next one replaces it; its code works once."""
    path = home / FILE
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(url=escape(url)))
    return path.resolve()
