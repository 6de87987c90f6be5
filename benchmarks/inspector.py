"""The inspector in a real Chromium: its weight and first paint, a long list, a slider, a live tail, a large graph.

CPU of the page is Chromium's own count of its main thread's tasks; CPU of the server comes from /proc.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from benchmarks.figures import commit
from benchmarks.metrics import percentile
from benchmarks.progress import bar
from benchmarks.server_processes import Address, Child, allow, serving
from benchmarks.synthetic_text import question, sentence
from fusion.errors import SettingsError

if TYPE_CHECKING:
    from tests.browser import Browser, CDPSession, Page

PARTS = ("paint", "list", "slider", "tail", "graph")
BATCH = 100
SETTLE_S = 600.0
LOADS = 5
FILTERS = 12
SCROLLS = 60
SLIDES = 20
ABSENT = "zwx"
"""begins a word that no memory has: every text is looked at"""
PATIENT_MS = 60_000
TAIL_RATE = 50
"""answers a second that the live view follows"""
ENTITIES = 10_000
LINKS = 2
"""relations that each new entity of the graph has to earlier ones"""
TOGETHER = 20
"""relations that one memory of the graph states"""
MOVES = 240
"""steps of the mouse while the picture is moved, and of the wheel while it is scaled"""
SMALL = """
backends_only = true
log_level = "warning"
[embedder]
adapter = ""
[backends.memory]
adapter = "adapters.inmemory:InMemory"
"""
"""a home whose questions cost little, for lists and tails"""
GRAPH = """
backends_only = true
log_level = "warning"
[embedder]
adapter = ""
[backends.triples]
adapter = "adapters.triples:Triples"
"""
"""a home that is a graph alone"""


def run(memories: int, tail_s: float, parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """The figures of ``parts``: a list of ``memories``, and a tail that is followed for ``tail_s`` seconds."""
    figures: dict[str, Any] = {"commit": commit(), "date": datetime.now(UTC).date().isoformat()}
    with _chromium() as browser:
        if {"paint", "slider"} & set(parts):
            with _served("", 400) as server:
                figures |= _paint(browser, server) if "paint" in parts else {}
                figures |= _slider(browser, server) if "slider" in parts else {}
        if "list" in parts:
            with _served(SMALL, memories) as server:
                figures |= {"memories": memories, **_list(browser, server)}
        if "tail" in parts:
            with _served(SMALL, 50) as server:
                figures |= _tail(browser, server, tail_s)
        if "graph" in parts:
            with _served(GRAPH, 0) as server:
                figures |= _graph(browser, server)
    return figures


@contextmanager
def _chromium() -> Iterator[Browser]:
    """The browser of the tests. Raises SettingsError without one."""
    from tests.browser import CHROMIUM, chromium

    if CHROMIUM is None:
        raise SettingsError("This needs Chromium: `make browser` installs Debian's.")
    with chromium() as browser:
        yield browser


@contextmanager
def _served(settings: str, memories: int) -> Iterator[Child]:
    """A server of a new home with so many made memories."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "fusion.toml").write_text(settings or 'log_level = "warning"\n', encoding="utf-8")
        environment = allow(home, Path(folder) / "state")
        command = ["-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json"]
        with serving(command, environment) as server:
            _fill(server.address, memories)
            yield server


def _fill(door: Address, memories: int) -> None:
    draw = Random(0)
    kinds = ("note", "fact", "decision", "preference", "turn")
    with door.client(SETTLE_S) as client, bar("memories", memories) as advance:
        for start in range(0, memories, BATCH):
            texts = [sentence(draw, draw.randrange(40, 240)) for _ in range(min(BATCH, memories - start))]
            items = [{"text": text, "kind": kinds[n % 5], "source": f"made:{n % 20}"} for n, text in enumerate(texts)]
            client.remember(items)
            advance(len(items))
        client.settle(SETTLE_S)


@contextmanager
def _signed_in(browser: Browser, door: Address) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1380, "height": 900})
    context.set_default_timeout(PATIENT_MS)
    page = context.new_page()
    with door.client() as client:
        page.goto(door.url + client.inspector_link()["path"])
    page.locator("main h1").wait_for()
    try:
        yield page
    finally:
        context.close()


def _show(page: Page, door: Address, view: str, **parameters: str) -> None:
    page.goto(f"{door.url}/inspector/#/{view}?{urlencode(parameters)}")


def _paint(browser: Browser, server: Child) -> dict[str, Any]:
    """The CPU of the page until its first view stands, and the bytes of all files as they are sent."""
    from fusion.doors.inspector.files import page_files

    door, cpu, paints = server.address, [], []
    for _ in range(LOADS):
        with _signed_in(browser, door) as page:
            cdp = page.context.new_cdp_session(page)
            cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.reload()
            page.locator("main h1").wait_for()
            page.locator(".side .foot").get_by_text("owner").wait_for()
            cpu.append(_metric(cdp, "TaskDuration") * 1000)
            paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(page.evaluate(paint))
    files = {name: file for name, file in page_files().items() if name}
    return {
        "paint_cpu_ms": round(percentile(0.5, cpu) or 0, 1),
        "first_paint_ms": round(percentile(0.5, paints) or 0, 1),
        "files": len(files),
        "compressed_kb": round(sum(len(file.compressed) for file in files.values()) / 1000, 1),
    }


def _metric(cdp: CDPSession, name: str) -> float:
    found = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    return float(found[name])


def _list(browser: Browser, server: Child) -> dict[str, Any]:
    """The server's CPU from a filter to its first rows, and the longest pause of the page while it scrolls."""
    door, draw = server.address, Random(7)
    cpu: list[float] = []
    with _signed_in(browser, door) as page:
        _show(page, door, "memories")
        page.locator(".rows .item").first.wait_for()
        for n in range(FILTERS):
            kind = ("note", "fact", "decision")[n % 3]
            word = question(draw).split()[-1].strip("?")
            filters = ({"q": word}, {"kind": kind}, {"q": f"{word} {ABSENT}{n}"})[n % 3]
            before = server.cpu_s()
            with page.expect_response(lambda reply: "/v1/memories?" in reply.url) as reply:
                _show(page, door, "memories", **filters)
            if not reply.value.ok:
                raise RuntimeError(f"the list answered {reply.value.status} for {filters}")
            cpu.append((server.cpu_s() - before) * 1000)
        _show(page, door, "memories")
        page.locator(".rows .item").first.wait_for()
        longest = page.evaluate(_SCROLL, SCROLLS)
    return {
        "filter_cpu_ms": round(sum(cpu) / len(cpu), 1),
        "filter_cpu_most_ms": round(max(cpu), 1),
        "scroll_longest_pause_ms": round(longest, 1),
    }


_SCROLL = """async (times) => {
  const rows = document.querySelector(".rows");
  let [longest, last] = [0, performance.now()];
  for (let n = 0; n < times * 10; n += 1) {
    rows.scrollTop += 400;
    await new Promise(requestAnimationFrame);
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }
  return longest;
}"""


def _slider(browser: Browser, server: Child) -> dict[str, Any]:
    """The server's CPU and the time from a move of a slider until the block has changed."""
    door, cpu, took = server.address, [], []
    with _signed_in(browser, door) as page:
        _show(page, door, "ask", q=question(Random(3)))
        page.locator("pre.block").first.wait_for()
        page.get_by_text("What if?").click()
        slider = page.get_by_label("Characters of the block")
        for n in range(SLIDES):
            before = server.cpu_s()
            started = time.perf_counter()
            with page.expect_response(lambda reply: reply.url.endswith("/v1/replay")):
                slider.fill(str(600 + 100 * (n % 10)))
            took.append((time.perf_counter() - started) * 1000)
            cpu.append((server.cpu_s() - before) * 1000)
    return {"slider_cpu_ms": round(sum(cpu) / len(cpu), 1), "slider_p50_ms": round(percentile(0.5, took) or 0, 1)}


def _tail(browser: Browser, server: Child, seconds: float) -> dict[str, Any]:
    """The growth of the page's heap while it follows `TAIL_RATE` answers a second."""
    door = server.address
    stop = threading.Event()
    asked = [0]

    def ask() -> None:
        draw = Random(5)
        with door.client() as client:
            next_at = time.monotonic()
            while not stop.is_set():
                client.fuse(question(draw))
                asked[0] += 1
                next_at += 1 / TAIL_RATE
                stop.wait(max(0.0, next_at - time.monotonic()))

    with _signed_in(browser, door) as page:
        _show(page, door, "live")
        cdp = page.context.new_cdp_session(page)
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            page.wait_for_timeout(min(20.0, seconds / 5) * 1000)  # the list is full then
            before = _heap_mb(cdp)
            page.wait_for_timeout(seconds * 1000)
            after = _heap_mb(cdp)
        finally:
            stop.set()
            thread.join()
    return {"tail_s": seconds, "tail_answers": asked[0], "tail_heap_growth_mb": round(after - before, 2)}


def _heap_mb(cdp: CDPSession) -> float:
    """The page's heap after a garbage collection."""
    cdp.send("HeapProfiler.collectGarbage")
    cdp.send("Performance.enable")
    return _metric(cdp, "JSHeapUsedSize") / 1e6


def _graph(browser: Browser, server: Child) -> dict[str, Any]:
    """The page's main thread while a picture of `ENTITIES` is placed, and while somebody moves and scales it.

    ``pause`` is the longest task of that thread, ``frames`` those of a second, ``cpu`` its share of a core.
    """
    door = server.address
    relations = _connect(door)
    with _signed_in(browser, door) as page:
        cdp = page.context.new_cdp_session(page)
        cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.evaluate(_WATCH)
        server_s, started = server.cpu_s(), time.perf_counter()
        with _watched(page, cdp) as placing:
            _show(page, door, "graph")
            page.locator(".canvas canvas[data-drawn]").wait_for()
            first_s = time.perf_counter() - started
            page.locator(".canvas[aria-busy=false]").wait_for()
        settled_s = time.perf_counter() - started
        server_s = server.cpu_s() - server_s
        middle = page.locator(".canvas").evaluate("(box) => { const b = box.getBoundingClientRect(); "
                                                  "return [b.x + b.width / 2, b.y + b.height / 2]; }")  # fmt: skip
        with _watched(page, cdp) as moving:
            page.mouse.move(*middle)
            page.mouse.down()
            for n in range(MOVES):
                page.mouse.move(middle[0] + 150 * math.sin(n / 12), middle[1] + 90 * math.cos(n / 9))
            page.mouse.up()
        with _watched(page, cdp) as scaling:
            for n in range(MOVES):
                page.mouse.wheel(0, -60 if n % 120 < 60 else 60)
    return {
        "entities": ENTITIES,
        "relations": relations,
        "graph_server_cpu_ms": round(server_s * 1000),
        "graph_first_s": round(first_s, 2),
        "graph_settled_s": round(settled_s, 2),
        **{f"placing_{name}": value for name, value in placing.items()},
        **{f"moving_{name}": value for name, value in moving.items()},
        **{f"scaling_{name}": value for name, value in scaling.items()},
    }


def _connect(door: Address) -> int:
    """Make a graph that grows as real ones do: a new entity relates to those that have many relations already."""
    draw, ends, lines = Random(11), [0], list[str]()
    for new in range(1, ENTITIES):
        for old in {draw.choice(ends) for _ in range(LINKS)} - {new}:
            lines.append(f"Part{new} -> {draw.choice(('uses', 'owns', 'replaces'))} -> Part{old}")
            ends += [new, old]
    texts = ["\n".join(lines[start : start + TOGETHER]) for start in range(0, len(lines), TOGETHER)]
    with door.client(SETTLE_S) as client, bar("relations", len(texts)) as advance:
        for start in range(0, len(texts), BATCH):
            client.remember([{"text": text} for text in texts[start : start + BATCH]])
            advance(min(BATCH, len(texts) - start))
        client.settle(SETTLE_S)
    return len(lines)


_WATCH = """() => {
  const seen = (globalThis.seen = { longest: 0, gaps: [], last: 0 });
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) seen.longest = Math.max(seen.longest, task.duration);
  }).observe({ entryTypes: ["longtask"] });
  const frame = (now) => {
    if (seen.last) seen.gaps.push(now - seen.last);
    seen.last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


@contextmanager
def _watched(page: Page, cdp: CDPSession) -> Iterator[dict[str, float]]:
    """Figures of the page's main thread during the block, once it has ended."""
    figures: dict[str, float] = {}
    page.evaluate("() => Object.assign(globalThis.seen, { longest: 0, gaps: [], last: 0 })")
    cpu, started = _metric(cdp, "TaskDuration"), time.perf_counter()
    yield figures
    took_s, cpu = time.perf_counter() - started, _metric(cdp, "TaskDuration") - cpu
    seen = page.evaluate("globalThis.seen")
    figures |= {
        "pause_ms": round(seen["longest"], 1),
        "gap_p95_ms": round(percentile(0.95, seen["gaps"]) or 0, 1),
        "frames_per_s": round(len(seen["gaps"]) / took_s, 1),
        "cpu_share": round(cpu / took_s, 2),
    }
