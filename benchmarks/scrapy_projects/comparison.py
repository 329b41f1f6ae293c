"""Comparison: what Scrapy and Crawlframe make of the same crawl."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.scrapy_projects.projects import Crawl
from benchmarks.scrapy_projects.site import Site

ROOT = Path(__file__).parents[2]
LINE_TIMEOUT = 600.0  # seconds for a line of a runner; loading 5,000 spiders takes minutes


@dataclass
class Compared:
    """``items`` of Scrapy, and what either has more of, as JSON. ``problem``: why there is nothing
    to compare."""

    crawl: Crawl
    items: int = 0
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def equal(self) -> bool:
        return not (self.problem or self.missing or self.extra)


class Runner:
    """A process that runs crawls of one project: ``module`` says by which engine."""

    def __init__(self, module: str, python: str, place: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [python, "-P", "-m", f"benchmarks.scrapy_projects.{module}"],
            cwd=place,
            env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, crawl: Crawl) -> dict[str, Any]:
        """Raises RuntimeError if the process ends or takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"spider": crawl.spider, "arguments": crawl.arguments}
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError("the process has ended") from None
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            if not ready.select(LINE_TIMEOUT):
                self._process.kill()  # a late line would be taken for the next crawl's
                raise RuntimeError(f"nothing came within {LINE_TIMEOUT:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process has ended")
        result: dict[str, Any] = json.loads(line)
        return result

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Runners:
    """Both engines for one project. ``with Runners(...) as both: both.compare(crawl, site)``"""

    def __init__(
        self, python: str, place: Path, environment: Callable[[str], dict[str, str]]
    ) -> None:
        """``environment`` of each, by its name: the second must not find the files of the first."""
        self._ends = ExitStack()
        self._runners = []
        for module in ("by_scrapy", "by_crawlframe"):
            runner = Runner(module, python, place, environment(module))
            self._ends.callback(runner.close)
            self._runners.append(runner)

    def __enter__(self) -> Runners:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.close()

    def compare(self, crawl: Crawl, site: Site) -> Compared:
        result = Compared(crawl)
        try:
            theirs, ours = (runner.run(crawl) for runner in self._runners)
        except RuntimeError as error:
            result.problem = str(error)
            return result
        expected, found = (_as_set(made["items"], crawl.volatile) for made in (theirs, ours))
        result.items = len(expected)
        result.missing, result.extra = sorted(expected - found), sorted(found - expected)
        result.failed = ours.get("failed", {})
        if not expected:
            pages = [f"{method} {url}: {status}" for method, url, status in site.asked]
            result.problem = f"Scrapy found no items {theirs.get('error', '')} {pages[:6]}"
        elif "error" in ours:
            result.problem = ours["error"]
        return result


def _as_set(items: list[Any], volatile: tuple[str, ...]) -> set[str]:
    return {json.dumps(_without(item, volatile), sort_keys=True) for item in items}


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, keys) for k, v in value.items() if k not in keys}
    return [_without(one, keys) for one in value] if isinstance(value, list) else value
