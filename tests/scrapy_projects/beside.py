"""Spiders of a project, run by Scrapy in one process, and by our engine, on the same site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crawlframe.code.registry import Registry
from crawlframe.scrapy.project import spiders_of
from tests.scrapy_projects.ours import Crawled, crawl
from tests.scrapy_projects.site import Site


class Beside(NamedTuple):
    """``out``: the directory of Scrapy's results."""

    site: Site
    registry: Registry
    out: Path

    def ours(self, name: str, **arguments: Any) -> Crawled:
        return crawl(self.registry, name, site=self.site.url, **arguments)

    def theirs(self, name: str) -> list[Any]:
        """The items."""
        return [json.loads(line) for line in (self.out / f"{name}.jsonl").read_text().splitlines()]

    def stats(self, name: str) -> dict[str, Any]:
        """Scrapy's."""
        return dict(json.loads((self.out / f"{name}.stats").read_text()))


@contextmanager
def beside_scrapy(project: Path, out: Path, names: Iterable[str], **env: str) -> Iterator[Beside]:
    registry = spiders_of(project)
    assert registry.broken == {}
    with Site() as site:
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("real.py"), site.url, out, *names],
            cwd=project,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        yield Beside(site, registry, out)


def as_set(items: list[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)
