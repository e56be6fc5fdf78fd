"""What a lesson's page costs a reader: bytes of its first view, what moves, Python's cold start, a warm check, a large pool.

    python benchmarks/page.py [FOLDER_OF_PAGES]

It measures the built book (`make book`) in a real Chromium on this machine, with the median of RUNS. Bytes are what a
server that compresses would send. Times depend on the machine and on what else it does; bytes do not.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5
COMPRESSED = {".html", ".css", ".js", ".mjs", ".json", ".svg", ".wasm", ".txt"}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def sent(folder: Path, urls: list[str]) -> tuple[int, int]:
    """(bytes as they are, bytes gzipped where a server would) of the files behind these addresses."""
    paths = {folder / url.split("?")[0].split("#")[0].split("/", 3)[3] for url in urls if url.startswith("http")}
    plain = zipped = 0
    for path in paths:
        data = path.read_bytes()
        plain += len(data)
        zipped += len(gzip.compress(data, 6, mtime=0)) if path.suffix in COMPRESSED else len(data)
    return plain, zipped


# Adds up what moves without the reader's doing: the browser's own measure of layout shift.
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value; })
  .observe({ type: "layout-shift", buffered: true });
"""
# A press on the pool, and the time until the second frame after it has been drawn: milliseconds.
PRESSES = """async (presses) => {
  const times = [];
  for (let n = 0; n < presses; n++) {
    const lab = [...document.querySelectorAll(".kv-lab-pool")].findLast((one) => one.checkVisibility());
    const control = [...lab.querySelectorAll("button")].find((button) => button.textContent.startsWith(n % 3 ? "append" : "allocate"));
    const begun = performance.now();
    control.click();
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    times.push(performance.now() - begun);
  }
  return times;
}"""


def opened(browser: Browser, address: str) -> tuple[Page, list[str], float]:
    """A lesson in a browser that has seen nothing: the page, what it asked for, seconds until its cells can be used."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(SHIFTS)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    begun = time.perf_counter()
    page.goto(address)
    page.locator(".kv-bar").last.wait_for()
    return page, asked, time.perf_counter() - begun


def run(page: Page, cell: str) -> float:
    """Seconds from the press until the cell has its result."""
    begun = time.perf_counter()
    page.locator(f'[id="cell-{cell}"] .kv-run').click()
    page.locator(f'[id="cell-{cell}"].kv-busy').wait_for(state="detached", timeout=120_000)
    return time.perf_counter() - begun


def measure(browser: Browser, folder: Path, base: str, lesson: str) -> dict[str, float]:
    """One lesson's figures. The check is the lesson's first; its exercise is as released."""
    address = f"{base}/notebooks/{lesson}/{lesson}.html"
    usable, cold, warm, first, shifted = [], [], [], [], []
    for _ in range(RUNS):
        page, asked, seconds = opened(browser, address)
        page.wait_for_load_state("networkidle")
        page.mouse.wheel(0, 100_000)    # what is mounted only when it comes into view is mounted now
        page.wait_for_timeout(500)
        first = list(asked)
        shifted.append(page.evaluate("window.shifted"))
        check = page.locator("div.cell.kv-check").first.get_attribute("id").removeprefix("cell-")
        usable.append(seconds)
        cold.append(run(page, check))
        warm += [run(page, check) for _ in range(3)]
        python = [url for url in asked if url not in first]
        page.context.close()
    return {
        "first view, kB": sent(folder, first)[0] / 1000, "gzipped, kB": sent(folder, first)[1] / 1000, "files": len(set(first)), "layout shift": max(shifted),
        "cells usable, s": statistics.median(usable), "cold check, s": statistics.median(cold), "warm check, ms": 1000 * statistics.median(warm),
        "Python, gzipped kB": sent(folder, python)[1] / 1000,
    }  # fmt: skip


def large_pool(browser: Browser, base: str, lesson: str) -> list[float]:
    """Milliseconds from a press to its picture, for 30 presses on a pool of 1,000 blocks; two frames are 33 ms."""
    page, _, _ = opened(browser, f"{base}/notebooks/{lesson}/{lesson}.html")
    while (waiting := page.get_by_role("button", name="Go on without predicting")).count():    # what a prediction holds back
        waiting.first.click()
    pool = page.locator(".kv-lab-pool").filter(visible=True).last
    pool.scroll_into_view_if_needed()
    pool.get_by_text("Another pool").click()
    pool.get_by_label("blocks", exact=True).fill("1000")
    pool.get_by_role("button", name="new pool").click()
    pool.get_by_label("tokens").fill("800")
    page.wait_for_timeout(300)
    times = page.evaluate(PRESSES, 30)
    page.context.close()
    return times


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "html"
    lessons = sorted(path.parent.name for path in folder.glob("notebooks/*/*.html"))
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not lessons or program is None:
        print("There is no built book: `make book` first." if not lessons else "There is no Chromium: `apt-get install chromium` (as root).", file=sys.stderr)
        return 1
    with serving(folder) as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        rows = {lesson: measure(browser, folder, base, lesson) for lesson in lessons}
        presses = large_pool(browser, base, next(lesson for lesson in lessons if lesson.startswith("03")))
    columns = list(next(iter(rows.values())))
    print(f"{'lesson':26}" + "".join(f"{name:>20}" for name in columns))
    for lesson, row in rows.items():
        print(f"{lesson:26}" + "".join(f"{row[name]:20,.{3 if name == 'layout shift' else 1}f}" for name in columns))
    print(f"a pool of 1,000 blocks, from a press to its picture: median {statistics.median(presses):.0f} ms, slowest {max(presses):.0f} ms of {len(presses)} presses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
