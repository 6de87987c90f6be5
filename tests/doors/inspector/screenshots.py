"""Takes the pictures of docs/inspector.md, of all or some: `python -m tests.doors.inspector.screenshots [NAME…]`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from fusion.client import Client, ensure_server
from tests.browser import chromium
from tests.doors.fakes import server_stopped
from tests.doors.inspector.sample import ASKED, sample_home

FOLDER = Path(__file__).parents[3] / "docs" / "inspector"
SIZE = {"width": 1240, "height": 800}
ADDRESSES = {
    "ask": f"ask?q={ASKED}",
    "why-not": f"ask?q={ASKED}&show=out",
    "live": "live",
    "session": "live?session=bookings",
    "memories": "memories/m4c?kind=preference",
    "graph": "graph?entity=Postgres",
    "upkeep": "upkeep",
    "health": "health",
}
"""the address of each picture below the inspector"""
EARLIER = ("what did we decide about the database?", "who runs the workshop in Mölndal?", "when is a slot given back?")
"""questions of agents, for the live view"""


def pictures(browser: Browser, home: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the JPEG of each picture; the last is dark."""
    url = ensure_server(home).url
    with Client.of_home(home) as memory:
        for question in EARLIER:
            memory.fuse(question, asker={"session_id": "bookings", "agent_id": "claude"})
        for scheme, names in (("light", [*ADDRESSES]), ("dark", ["ask"])):
            with browser.new_context(viewport=SIZE, color_scheme=scheme) as context:
                page = context.new_page()
                page.goto(url + memory.inspector_link()["path"])
                page.locator("main h1").wait_for()
                for name in names:
                    page.goto(f"{url}/inspector/#/{ADDRESSES[name]}")
                    _drawn(page, name)
                    yield f"{name}-dark" if scheme == "dark" else name, page.screenshot(type="jpeg", quality=80)


def _drawn(page: Page, name: str) -> None:
    """Wait until a view stands still."""
    page.locator("main h1").wait_for()
    if name in ("ask", "why-not"):
        page.locator("pre.block").first.wait_for()
        page.locator(".candidate").first.wait_for()
    if name == "graph":
        page.locator('.canvas[aria-busy="false"] canvas[data-drawn="whole"]').wait_for()  # all have their place
    expect(page.locator(".waiting")).to_have_count(0, timeout=30_000)
    page.wait_for_load_state("networkidle")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = sample_home(Path(folder))
        with server_stopped(home):
            for name, picture in pictures(browser, home):
                if wanted and name not in wanted:
                    continue
                (FOLDER / f"{name}.jpg").write_bytes(picture)
                sys.stdout.write(f"docs/inspector/{name}.jpg: {len(picture) / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
