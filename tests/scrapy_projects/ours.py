"""Crawls a task to its end in this process, by the engine of a worker: without queue and
database."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.frontier.client.records import Claimed
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.fetch.permits import LocalPermits
from crawlframe.node.worker.fetch.stages import FetchSources
from crawlframe.node.worker.task.open_task import CrawlMaker
from crawlframe.request.request import Admission
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.task_info import Summary
from crawlframe.testing.trial import OneTask
from tests.node.runner import HERE

TRIES = 5


@dataclass
class Crawled:
    items: list[Any] = field(default_factory=list)
    stats: Counter[str] = field(default_factory=Counter)
    ended: dict[str, str] = field(default_factory=dict)  # url -> verdict and reason
    closing: str = ""
    spiders: list[Any] = field(default_factory=list)


def crawl(registry: Registry, name: str, within: Settings = HERE, /, **arguments: Any) -> Crawled:
    return asyncio.run(_crawl(registry, TaskSpec(1, name, arguments, 0), within))


async def _crawl(registry: Registry, spec: TaskSpec, within: Settings) -> Crawled:
    downloader = Downloader(within)
    maker, result = CrawlMaker(registry, 60), Crawled()

    def make(spec: TaskSpec) -> Any:
        made = maker.make(spec)
        result.spiders.append(made.spider)
        return made

    seen: set[bytes] = set()

    class Seen(LocalPermits):
        async def follow(self, target: Target) -> int:
            return -1 if target.target in seen else 0

    task = OneTask(spec, make, downloader, within, sources=FetchSources(permits=Seen()))
    queue: deque[Admission] = deque()
    began = datetime.now(UTC)

    def take(outcome: Outcome) -> None:
        assert outcome.verdict.final, (outcome.verdict, outcome.reason, outcome.detail)
        result.ended[outcome.url] = f"{outcome.verdict} {outcome.reason} {outcome.detail}".strip()
        if outcome.fetch.landing is not None:
            seen.add(outcome.fetch.landing[0])
        result.items += map(orjson.loads, outcome.results.items)
        result.closing = result.closing or outcome.results.closing
        if outcome.results.stats:
            result.stats.update(outcome.results.stats.counters)
            for key, value in outcome.results.stats.maxima.items():
                result.stats[key] = max(result.stats[key], int(value))
        for admission in outcome.results.follow_ups:
            if admission.rid not in seen:
                seen.add(admission.rid)
                queue.append(admission)

    try:
        take(await task.start())
        while queue and not result.closing:
            one, outcome = queue.popleft(), None
            for attempt in range(TRIES):
                claimed = Claimed(one.rid, 1, one.host, attempt, 0, one.record)
                outcome = await task.take(claimed)
                if outcome.verdict is not Verdict.RETRY:
                    break
            assert outcome is not None
            take(outcome)
        task.summary = Summary(
            1, spec.spider, {}, "finished", result.closing, began, datetime.now(UTC),
            len(seen), len(result.ended), 0, 0, len(result.items), dict(result.stats), {},
        )  # fmt: skip
        take(await task.end())
        await task.runner.crawls.leave()
    finally:
        await downloader.close()
    return result
