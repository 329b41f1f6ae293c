"""DemoServer: the demo site in a process of its own, for tests and for the crawl of the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from examples.demo_site.errors import DemoSiteError
from examples.demo_site.server import STATS
from examples.demo_site.site import Site

ROOT = Path(__file__).resolve().parents[2]


class DemoServer:
    """``with DemoServer(listings=500, error_rate=0.1) as demo: crawl(demo.url)``

    Serves on a free loopback port unless ``port`` says otherwise. ``site`` has the expected items.
    The process ends with the block, and when this process dies, however that happens. Entering
    raises DemoSiteError when it cannot serve, the constructor ValueError on wrong parameters of the
    site."""

    def __init__(
        self,
        listings: int = 5000,
        city: str = "berlin",
        page_size: int = 20,
        size: int = 30,
        seed: int = 1,
        *,
        port: int = 0,
        latency: float = 0,
        jitter: float = 0.25,
        error_rate: float = 0,
    ) -> None:
        self.site = Site(listings, city, page_size=page_size, size=size, seed=seed)
        self.url = ""
        given = {
            "port": port, "listings": listings, "city": city, "page-size": page_size,
            "size": size, "seed": seed, "latency": latency, "jitter": jitter,
            "error-rate": error_rate,
        }  # fmt: skip
        self._options = [f"--{name}={value}" for name, value in given.items()]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Returns when pages are served and ``url`` is known."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo_site", "--stop-with-stdin", *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            # Ctrl-C in a terminal goes to its whole foreground group, but a crawl that drains
            # still needs the site.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, problem = self._process.communicate()
            self._process = None
            raise DemoSiteError(problem.strip().removeprefix("demosite: ") or "demo site: no start")
        self.url = line.split()[3]

    def stop(self) -> None:
        """Ends the process; it may be called twice."""
        if self._process is not None:
            self._process.communicate()  # closes stdin, which ends the child
            self._process = None

    def stats(self) -> dict[str, Any]:
        """The counters of ``/_stats``: ``requests``, ``statuses``, ``in_flight_max``, and in
        ``paths`` how often each path and query was requested."""
        with urllib.request.urlopen(self.url + STATS, timeout=10) as answer:
            stats: dict[str, Any] = json.load(answer)
        return stats

    def __enter__(self) -> DemoServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
