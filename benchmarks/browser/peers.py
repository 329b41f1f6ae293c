"""Peers: the same pages by other programs, each in an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from benchmarks.browser.run import ENDS, Crawl, Watch
from benchmarks.browser.site import CARDS, EVILS, Site
from benchmarks.lab.meter import Metered, left
from benchmarks.lab.venv import environment
from crawlframe.fetch.browser.settings import HostSettings, is_root

HERE = Path(__file__).parent / "contenders"
NAMES = {
    "bare": "Chromium by a bare client (floor)",
    "scrapy": "Scrapy, scrapy-playwright",
    "crawlee": "Crawlee, PlaywrightCrawler",
}
LOOK_EVERY = 0.2  # seconds
STILL = 120.0  # seconds without a further page, after which it counts as hanging


def crawl(name: str, work: Path, pages: int, *, evil: bool, timeout: float) -> Crawl:
    """The crawl of a contender. It is ended when it hangs, or after ``timeout`` seconds; then,
    ``hung`` is true. Raises RuntimeError when its packages cannot be installed, or it does
    not begin."""
    work.mkdir(parents=True, exist_ok=True)
    requirements = HERE / name / "requirements.txt"
    python = str(environment(f"browser-{name}", requirements)) if requirements.exists() else ""
    rows = work / "rows"
    rows.touch()
    watches: list[Watch] = []
    with Site(lambda path: watches[0].strike(path)) as site:
        words = {
            "site": site.url, "pages": pages, "evil": list(EVILS) if evil else [],
            "rows": str(rows), "program": HostSettings().find(), "at_once": HostSettings().pages,
            "root": is_root(),
        }  # fmt: skip
        command: list[str | Path] = [
            python or sys.executable,
            HERE / name / "run.py",
            json.dumps(words),
        ]
        env = {**os.environ, "TMPDIR": str(work)}
        with Metered(command, work / "log", env=env) as run:
            watches.append(watch := Watch(run))
            began = time.monotonic()
            hung = _wait(run, watch, rows, timeout)
            seconds = time.monotonic() - began
            watch.close()
            alive = left(watch.seen, 0 if hung else ENDS)
            if not hung and not rows.stat().st_size:
                raise run.problem("has rendered no page")
            cpu = run.cpu_seconds() if run.lives() else run.wait(ENDS).cpu
    return _counted(rows, pages, seconds, cpu, watch, 0 if hung else len(alive), hung)


def _wait(run: Metered, watch: Watch, rows: Path, timeout: float) -> bool:
    """Until the program ends. Returns whether it hangs."""
    began = moved = time.monotonic()
    main: psutil.Process | None = None
    while run.lives():
        with contextlib.suppress(psutil.Error):
            if main is None and (found := run.processes()):
                main = found[0]
            if main is not None and not main.is_running():
                return False
        ended = rows.read_bytes().count(b"\n")
        now = time.monotonic()
        if ended > watch.ended:
            watch.ended, moved = ended, now
        if now - moved > STILL or now - began > timeout:
            return True
        time.sleep(LOOK_EVERY)
    return False


def _counted(
    rows: Path, pages: int, seconds: float, cpu: float, watch: Watch, orphans: int, hung: bool
) -> Crawl:
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    reasons: Counter[str] = Counter()
    for url, _, why in lines:
        reasons[f"{url.split('/')[3]}: {why or 'done'}"] += 1
    urls = len({url for url, _, _ in lines})
    whole = len({url for url, cards, _ in lines if cards == CARDS})
    return Crawl(
        pages,
        seconds,
        cpu,
        watch.cpu,
        watch.memory,
        len(lines),
        urls,
        whole,
        reasons,
        orphans,
        hung,
    )
