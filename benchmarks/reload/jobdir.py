"""Scrapy, stopped and started again with its JOBDIR: the same spiders on the same site."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.reload.changes import SETTLE, Change, Run
from benchmarks.reload.crawls import LISTINGS, START, WARM_UP, Place
from benchmarks.reload.project import ROOT, edit, write_spiders
from benchmarks.reload.rows import Row
from benchmarks.reload.sources import SCRAPY
from crawlservice.cli.process_group import die_with_parent
from examples.demo_site.child import DemoServer

STEP_TIMEOUT = 60.0  # seconds for an end, or a page by new code
SETTINGS = """
BOT_NAME = "bench"
SPIDER_MODULES = ["spiders"]
ROBOTSTXT_OBEY = False
CONCURRENT_REQUESTS = 64
DOWNLOAD_DELAY = 0
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "WARNING"
JOBDIR = "job"
FEEDS = {"items.jsonl": {"format": "jsonlines", "overwrite": False}}
"""


def install() -> Path:
    """The scrapy of a virtual environment under build/, created if it is missing. Raises OSError
    and RuntimeError when that fails."""
    place = ROOT / "build" / "scrapy"
    program = place / "bin" / "scrapy"
    if not program.exists():
        for command in (
            [sys.executable, "-m", "venv", str(place)],
            [str(place / "bin" / "python"), "-m", "pip", "install", "-q", "scrapy"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                words = done.stderr.strip().splitlines()[-1:]
                raise RuntimeError(f"{' '.join(command)}: {' '.join(words)}")
    return program


def version(program: Path) -> str:
    done = subprocess.run([program, "version"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def scrapy_restarts(place: Place, count: int) -> Run:
    """Raises RuntimeError when Scrapy does not do what it should."""
    run = Run("Scrapy restarted", [])
    crawler = _Crawler(install(), place.directory)
    place.directory.mkdir()
    (place.directory / "scrapy.cfg").write_text("[settings]\ndefault = bench_settings\n")
    (place.directory / "bench_settings.py").write_text(SETTINGS)
    with DemoServer(LISTINGS, latency=place.latency) as demo:
        write_spiders(place.directory, SCRAPY, demo.url, place.modules)
        crawler.start()
        try:
            crawler.wait_for(0)
            time.sleep(WARM_UP)
            for number in range(1, count + 1):
                run.changes.append(Change(number, "restart", edit(place.directory, number)))
                crawler.stop()
                crawler.start()
                crawler.wait_for(number)
                time.sleep(SETTLE)
        finally:
            crawler.stop()
        run.judge(crawler.rows(), demo.stats(), START)
    return run


class _Crawler:
    """The process of Scrapy, in a directory with its project."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self._feed = directory / "items.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        own = ("SCRAPY_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "crawl", "demo"],
                cwd=self._directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )

    def stop(self) -> None:
        """Sends SIGTERM once: what is in flight completes, the rest stays in the JOBDIR."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STEP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise RuntimeError("Scrapy does not end") from None
            self._process = None

    def wait_for(self, change: int) -> None:
        deadline = time.monotonic() + STEP_TIMEOUT
        place = 0
        while True:
            if self._feed.exists():
                with self._feed.open("rb") as feed:
                    feed.seek(place)
                    whole, _, _ = feed.read().rpartition(b"\n")
                place += len(whole)
                if any(json.loads(x)["change"] >= change for x in whole.splitlines() if x.strip()):
                    return
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"Scrapy ended: {self._words()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Scrapy brings no page with change {change}: {self._words()}")
            time.sleep(0.05)

    def rows(self) -> list[Row]:
        with self._feed.open() as lines:
            items = map(json.loads, lines)
            return [Row(item["at"], item["change"], str(item["change"])) for item in items]

    def _words(self) -> str:
        return (self._directory / "log").read_text(errors="replace")[-2000:]
