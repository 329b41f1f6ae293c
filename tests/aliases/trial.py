"""Crawls of a site by a worker's engine, without queue and database: to learn, and with rules."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import ClassVar
from urllib.parse import urlsplit

from crawlframe.aliases.learn import LearnedRule, Sample, learn
from crawlframe.aliases.rule import AliasRule
from crawlframe.aliases.verify import AliasPage, AliasVerdict, content_of, verify
from crawlframe.base.limits import ALIAS, UNFOLLOWED
from crawlframe.conf import Settings
from crawlframe.fetch.downloader import Downloader
from crawlframe.items.pipelines import Pipelines
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.request.request import Request, make_rid
from crawlframe.response.response import Response
from crawlframe.run.ledger import TaskSpec
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, build
from crawlframe.testing.trial import OneTask
from tests.aliases.site import Page, Site, served

HERE = Settings(allow_private=(ip_network("127.0.0.0/8"),))


class Follower(Spider):
    """Follows all links. ``pages``: those fetched."""

    name = "follower"
    pages: ClassVar[list[Response]] = []

    def parse(self, response: Response) -> object:
        self.pages.append(response)
        yield from response.follow_all(response.links())


@dataclass
class Crawl:
    """``targets`` were fetched, ``found`` were linked; ``aliases``: links that were not followed by
    rules."""

    targets: list[str] = field(default_factory=list)
    found: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    aliases: int = 0
    said: list[str] = field(default_factory=list)

    def pages(self, site: Site) -> set[Page]:
        return {page for target in self.targets if (page := site.page_of(target)) is not None}


@dataclass
class Score:
    """``dropped``: URLs that were found and not fetched; ``wrong``: URLs of pages that were not
    fetched at all; ``aliases``: URLs that were found beyond one of each page."""

    dropped: int
    wrong: int
    aliases: int
    lost: int
    saved: int
    spent: int

    @property
    def precision(self) -> float:
        return 1 - self.wrong / self.dropped if self.dropped else 1.0

    @property
    def recall(self) -> float:
        return (self.dropped - self.wrong) / self.aliases if self.aliases else 1.0


def target_of(url: str) -> str:
    split = urlsplit(url)
    return split.path + (f"?{split.query}" if split.query else "")


async def crawl(origin: str, rules: tuple[AliasRule, ...] = ()) -> Crawl:
    """Crawls breadth first from the root."""
    done = Crawl()
    spider, arguments = build(Follower, {}, {})
    assert isinstance(spider, Follower)
    spider.pages.clear()
    spec = TaskSpec(1, "follower", {}, 0, aliases=rules)
    made = TaskCrawl.of(spec, spider, arguments, None, Pipelines(()))
    if made.aliases is not None:
        made.aliases._say = done.said.append
    downloader = Downloader(HERE)
    task = OneTask(spec, lambda _: made, downloader, HERE)
    waiting = deque([Request(f"{origin}/")])
    known = {make_rid(1, waiting[0].fingerprint())}
    counts: Counter[str] = Counter()
    try:
        while waiting:
            request = waiting.popleft()
            done.targets.append(target_of(request.url))
            outcome = await task.run(request)
            outcome.count_known(link for link in outcome.results.follow_ups if link.rid in known)
            for name, value in (
                outcome.results.stats.counters if outcome.results.stats else {}
            ).items():
                counts[name] += int(value)
            for link in outcome.results.follow_ups:
                if link.rid not in known:
                    known.add(link.rid)
                    waiting.append(Request.decode(link.record))
            for page in spider.pages:
                done.found.update(map(target_of, page.links()))
                exact, unordered, proves = content_of(page)
                if proves:
                    done.samples.append(Sample(request.url, page.url, exact, unordered))
            spider.pages.clear()
    finally:
        await downloader.close()
    done.aliases = counts[UNFOLLOWED + ALIAS]
    return done


async def check(found: list[LearnedRule]) -> list[AliasVerdict]:
    """Fetches the pages that verification asks for, without a delay."""
    downloader = Downloader(HERE)

    async def fetch(url: str) -> AliasPage:
        response = await downloader.fetch(Request(url), SpiderSettings())
        return AliasPage(response.url, response.status, content_of(response))

    try:
        return [await verify(one, fetch) for one in found]
    finally:
        await downloader.close()


def trial(site: Site, share: float = 1.0) -> tuple[Score, tuple[AliasRule, ...], Crawl]:
    """Crawls a site without rules, learns from the first ``share`` of it, and crawls it again."""
    with served(site) as origin:
        before = asyncio.run(crawl(origin))
        samples = before.samples[: round(share * len(before.samples))]
        verdicts = asyncio.run(check(learn(samples)))
        rules = tuple(one.rule for one in verdicts if one.state == "verified")
        after = asyncio.run(crawl(origin, rules))
    pages = before.pages(site)
    fetched = after.pages(site)
    dropped = after.found - {*after.targets}
    wrong = sum(site.page_of(target) not in fetched for target in dropped)
    found_pages = {site.page_of(target) for target in after.found}
    aliases = len(after.found | {"/"}) - len(found_pages | {site.page_of("/")})
    saved = len(before.targets) - len(after.targets)
    lost = len(pages - fetched)
    spent = sum(one.fetches for one in verdicts)
    return Score(len(dropped), wrong, aliases, lost, saved, spent), rules, after
