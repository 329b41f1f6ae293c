"""Report: how a spider of Scrapy fares here, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from scrapy.utils.misc import is_generator_with_return_value, load_object
from scrapy.utils.python import global_object_name

from crawlframe.base.scrapy_names import NO_BROWSER, NO_IMPERSONATION, NO_PROXY
from crawlframe.scrapy import components
from crawlframe.scrapy.reading import ClassSource, Need
from crawlframe.scrapy.settings import merged
from crawlframe.scrapy.shared import methods_of
from crawlframe.scrapy.spider import PortedSpider

# Beginnings of keys of meta, and parts of the names of components.
MISSING = {
    "impersonate": NO_IMPERSONATION,
    **dict.fromkeys(("playwright", "splash", "selenium", "zyte_api"), NO_BROWSER),
}
IGNORED = {
    "autothrottle_dont_adjust_delay": "the pace of a host is decided for all its requests",
    "bindaddress": "the address to send from cannot be chosen",
    "dont_cache": "the cache of `crawl --cache` has all pages of a crawl or none",
    "dont_obey_robotstxt": "ROBOTSTXT_OBEY holds for all requests of a spider",
    "download_delay": "DOWNLOAD_DELAY holds for all requests of a spider",
    "download_fail_on_dataloss": "a body that breaks off is tried again",
    "download_slot": "requests of one host share its delay and concurrency",
    "download_warnsize": "there is no warning; download_maxsize limits it",
    "priority_adjust": "a retry keeps its priority",
    "verbatim_url": "URLs are always normalised",
}
NEVER_SENT = {
    "spider_idle": "a task ends when nothing is left of it",
    "scheduler_empty": "a task ends when nothing is left of it",
    "request_dropped": "duplicates are dropped when they are committed",
    "robots_parsed": "robots.txt is read once for the cluster",
    "memusage_warning_reached": "CRAWLFRAME_MAX_MEMORY limits the memory of a worker",
    "feed_slot_closed": "items are stored; `task export` writes files",
    "feed_exporter_closed": "items are stored; `task export` writes files",
}
_ENGINE = frozenset(
    {
        "close_spider", "close_spider_async", "crawl", "download", "download_async", "downloader",
        "paused", "running", "settings", "signals", "spider",
    }
)  # fmt: skip
OTHERS = {
    "scrapy_redis": "requests of scrapy-redis come from a Redis of its own",
    "scrapy_poet": "its page objects are not passed to callbacks; native spiders have page objects",
    "rotating_proxies": NO_PROXY,
    "rotating_free_proxies": NO_PROXY,
}


@dataclass
class SpiderReport:
    """A report on a spider. ``cannot``: reasons that keep it from working, ``but``: differences."""

    name: str
    cannot: list[str] = field(default_factory=list)
    but: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.cannot:
            return f"{self.name}: cannot, because " + "; ".join(self.cannot + self.but)
        return f"{self.name}: runs" + (f", but {'; '.join(self.but)}" if self.but else "")


def shared_by(verdicts: list[SpiderReport]) -> list[str]:
    """Differences that several spiders all have. They are taken out of the reports."""
    first = verdicts[0].but if len(verdicts) > 1 else []
    shared = [one for one in first if all(one in other.but for other in verdicts)]
    for verdict in verdicts:
        verdict.but = [one for one in verdict.but if one not in shared]
    return shared


def verdict_on(spider: type[PortedSpider]) -> SpiderReport:
    """Returns a report on a spider, without running it."""
    verdict = SpiderReport(spider.name)
    kind, source, mapped = spider.scrapy_class, spider.scrapy_source, spider.scrapy_mapped
    verdict.cannot += mapped.cannot
    verdict.but += mapped.ignored
    for base in kind.__mro__:
        if why := OTHERS.get(base.__module__.partition(".")[0]):
            verdict.cannot.append(f"{base.__name__}: {why}")
            break
    settings = merged(kind, spider.scrapy_settings)
    for setting in (components.DOWNLOADER, components.SPIDER, components.PIPELINES, "EXTENSIONS"):
        if settings.getdict(setting):
            for one in components.named(settings, setting):
                _judge_component(one, setting, verdict)
    for key, (file, line) in source.meta_keys.items():
        place = f"{file}:{line}: meta[{key!r}]"
        missing = [why for begin, why in MISSING.items() if key.startswith(begin)]
        if key == "proxy" or missing:
            verdict.cannot.append(f"{place}: {missing[0] if missing else NO_PROXY}")
        elif key in IGNORED:
            verdict.but.append(f"{place} is ignored: {IGNORED[key]}")
    _judge_needs(source.needs, verdict)
    for function, _ in methods_of(kind):
        if is_generator_with_return_value(function):
            place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            verdict.but.append(
                f"{place}: {function.__name__} yields: its return value is lost, as in Scrapy"
            )
    if state := spider.scrapy_state:
        how = (
            "each task runs in a process of its own (workers = 1)"
            if spider.workers
            else "CRAWLFRAME_WORKERS = 0 runs a task in many processes, each of which"
        )
        verdict.but.append(f"{how}, for it keeps state: {'; '.join(state)}")
    return verdict


def _judge_component(one: Any, setting: str, verdict: SpiderReport) -> None:
    """Adds the problem of a component that a setting lists, a class or its path."""
    name = one if isinstance(one, str) else global_object_name(one)
    if why := OTHERS.get(name.partition(".")[0]):
        verdict.cannot.append(f"{setting}: {name}: {why}")
        return
    for word, why in MISSING.items():
        if word in name.lower():
            verdict.cannot.append(f"{setting}: {name}: {why}")
            return
    kind = load_object(one)
    if isinstance(kind, type):
        _judge_needs(_needs_of(kind), verdict)


@lru_cache(maxsize=1024)
def _needs_of(component: type) -> list[Need]:
    return ClassSource(component).needs


def _judge_needs(needs: list[Need], verdict: SpiderReport) -> None:
    for need in needs:
        place = f"{need.file}:{need.line}"
        if need.kind == "lambda":
            verdict.cannot.append(
                f"{place}: a callback must be a method of the spider, or a partial of one with "
                "named arguments"
            )
        elif need.kind == "engine" and need.name not in _ENGINE:
            verdict.cannot.append(f"{place}: there is no crawler.engine.{need.name}")
        elif need.kind == "engine" and need.name == "downloader":
            verdict.but.append(
                f"{place}: crawler.engine.downloader.slots is empty: "
                "the delay of a host is kept for the whole cluster"
            )
        elif need.kind == "signal" and need.name in NEVER_SENT:
            verdict.but.append(f"{place}: {need.name} is never sent: {NEVER_SENT[need.name]}")
        elif need.kind == "signal" and need.name in ("headers_received", "bytes_received"):
            verdict.but.append(f"{place}: {need.name} is sent when the response is complete")
