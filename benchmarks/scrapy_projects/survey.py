"""``python -m benchmarks.scrapy_projects.survey DIRECTORY [EVERY]``: what Scrapy and what
Crawlframe make of the spiders of one project: which load, and which start. Prints a Survey as
JSON. Both run in the project's directory, as ``scrapy list`` does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Iterable
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scrapy.exceptions import NotConfigured
from scrapy.spiderloader import SpiderLoader

from crawlframe.code.registry import Registry
from crawlframe.request import Request
from crawlframe.scrapy.crawler import PortedCrawler
from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.spider import PortedSpider
from crawlframe.spider import build
from crawlframe.task_life import TaskInfo

START_TIMEOUT = 30.0  # seconds for the start of one spider
FIRST = 20  # requests that a start is run for


@dataclass
class Survey:
    """Names of spiders, with the reason where there is one."""

    by_scrapy: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)  # modules
    not_started: dict[str, str] = field(default_factory=dict)
    not_by_scrapy: dict[str, str] = field(default_factory=dict)  # of those
    tried: int = 0
    but: dict[str, list[str]] = field(default_factory=dict)
    cannot: dict[str, list[str]] = field(default_factory=dict)


def survey(root: Path, every: int) -> Survey:
    """``every``: each how manieth spider is started."""
    result = Survey()
    registry = spiders_of(root)
    spiders: dict[str, Any] = {
        name: kind
        for name, kind in sorted(registry.spiders.items())
        if issubclass(kind, PortedSpider)
    }
    result.found = [*spiders]
    result.broken = {name: text.partition("\n")[0] for name, text in registry.broken.items()}
    for name, kind in spiders.items():
        verdict = verdict_on(kind)
        if verdict.cannot:
            result.cannot[name] = verdict.cannot
        elif verdict.but:
            result.but[name] = verdict.but
    result.by_scrapy = _by_scrapy(spiders)
    tried = [*spiders][::every]
    result.tried = len(tried)
    result.not_started = asyncio.run(_not_started(registry, tried))
    for name in result.not_started:
        if problem := asyncio.run(_start_by_scrapy(spiders[name])):
            result.not_by_scrapy[name] = problem
    return result


def _by_scrapy(spiders: dict[str, Any]) -> list[str]:
    """The names that Scrapy's own loader finds; none if a module fails otherwise than by an
    ImportError, for then it fails as a whole."""
    for kind in spiders.values():
        settings = kind.scrapy_settings.copy()
        settings.set("SPIDER_LOADER_WARN_ONLY", True, "cmdline")
        try:
            return sorted(SpiderLoader.from_settings(settings).list())
        except Exception:
            break
    return []


async def _not_started(registry: Registry, names: Iterable[str]) -> dict[str, str]:
    """Why the spiders do not start: each is made and opened as in a worker, and its first requests
    are encoded for the queue."""
    problems: dict[str, str] = {}
    for name in names:
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await _start(registry, name)
        except Exception as error:
            problems[name] = f"{type(error).__name__}: {error}"[:500]
    return problems


async def _start(registry: Registry, name: str) -> None:
    spider, _ = build(registry.get(name), {})
    assert isinstance(spider, PortedSpider)
    await spider.opened(TaskInfo(1, name, {}, 0))
    try:
        async for number, thing in _numbered(spider._begin()):
            if isinstance(thing, Request):
                thing.encode()
            if number == FIRST:
                break
    finally:
        await spider._release()


async def _numbered(things: Any) -> AsyncIterator[tuple[int, Any]]:
    number = 0
    if hasattr(things, "__aiter__"):
        async for thing in things:
            yield (number := number + 1), thing
    else:
        for number, thing in enumerate(things, 1):
            yield number, thing


async def _start_by_scrapy(kind: type[PortedSpider]) -> str:
    """Why the same start fails with Scrapy's own objects alone; "" if it does not."""
    try:
        crawler = PortedCrawler(kind.scrapy_class, kind.scrapy_settings)
        spider = crawler._create_spider()
        old = getattr(spider, "start_requests", None)
        if old is not None:
            for number, _ in enumerate(old()):
                if number == FIRST:
                    break
            return ""
        number = 0
        async for _ in spider.start():
            if (number := number + 1) == FIRST:
                break
    except (Exception, NotConfigured) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(root: str, every: str = "1") -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    place = Path(root).resolve()
    os.chdir(place)
    with redirect_stdout(sys.stderr):
        result = survey(place, int(every))
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
