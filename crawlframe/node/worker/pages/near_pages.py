"""NearPages: compares the texts of pages with earlier ones, as their spiders want it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from crawlframe.fetch.middlewares import is_cancelled
from crawlframe.frontier.near import Like, NearPage
from crawlframe.near.fingerprint import (
    PREFIX,
    ComparedPage,
    Fingerprint,
    NearStore,
    bits_of,
    fingerprint_of,
    head_of,
    likeness,
    words_of,
)
from crawlframe.node.worker.commit.stores import Batches, Stores
from crawlframe.node.worker.crawl.callbacks import Call, Callbacks
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.node.worker.verdict.failures import callback_traceback
from crawlframe.pages.copy import Results
from crawlframe.response.response import Response
from crawlframe.response.stored_page import NearDuplicate
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.setting_tables import WITHIN

ASKING = "near_text"
# Counters of a task: pages that were compared, pages that were too short for that, and pages nearly
# the same as others: noted only, or not parsed.
COMPARED, SHORT = "near/compared", "near/too_short"
MARKED, DROPPED = "near/marked", "near/dropped"
MAX_DETAIL = 1000  # characters of a URL in the row of a page


class NearQuestion(NamedTuple):
    store: NearStore
    page: NearPage


class NearSource:
    """Pages that were compared, in Redis and the database."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._asking = Batches(stores, self._ask)

    async def like(self, question: NearQuestion) -> Like | None:
        """Returns the page that this one is nearly the same as, with its URL, "" if that is not
        known; None if there is none."""
        return await self._asking.ask(question)

    def _ask(self, asked: list[NearQuestion]) -> list[Like | None]:
        answers: dict[int, Like | None] = {}
        places: dict[NearStore, list[int]] = defaultdict(list)
        for place, question in enumerate(asked):
            places[question.store].append(place)
        for store, mine in places.items():
            found = self._stores.frontier.near.ask(store, [asked[place].page for place in mine])
            # One that has a row is not known to Redis by its URL any more.
            rows = {like.head[:PREFIX] for like in found if like is not None and not like.url}
            urls = self._stores.ledger.urls_of(rows, store.task) if rows else {}
            for place, like in zip(mine, found, strict=True):
                if like is not None and not like.url:
                    like = like._replace(url=urls.get(like.head[:PREFIX], ""))
                answers[place] = like
        return [answers[place] for place in range(len(asked))]


class NearPages:
    """Compares the pages of one worker. ``failed`` is called with errors of authors' code."""

    def __init__(
        self,
        callbacks: Callbacks,
        source: NearSource,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._callbacks = callbacks
        self._source = source
        self._failed = failed

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage. It names the page in the outcome before: however its request ends, the store
        gets to know."""
        head = head_of(fetch.rid, fetch.request.fingerprint())
        fetch.outcome.fetch.near = ComparedPage(store_of(fetch.crawl), head)
        response = await call_next(fetch)
        await self._compare(fetch.outcome, fetch.crawl, response)
        return response

    async def _compare(self, outcome: Outcome, crawl: TaskCrawl, response: Response) -> None:
        """Notes in outcome and response which page this one is nearly the same as. The outcome has
        ended if the spider's own ``near_text`` raised something."""
        if outcome.fetch.near is None or response.file is not None:
            return
        prints: list[Fingerprint | None] = []
        run = partial(_fingerprint, crawl, response)
        try:
            await self._callbacks.run(Call(outcome.task, ASKING, outcome.rid, run, prints.append))
        except BaseException as error:  # authors' code may raise anything, SystemExit included
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            self._failed(error)
            outcome.end(Verdict.ERROR, "callback", callback_traceback(error))
            return
        found = prints[0] if prints else None
        if found is None:
            outcome.count(SHORT)
            return
        outcome.count(COMPARED)
        page = NearPage(outcome.fetch.near.head, found, outcome.url)
        like = await self._source.like(NearQuestion(outcome.fetch.near.store, page))
        if like is None:
            return
        response.near_duplicate = NearDuplicate(like.url, likeness(like.bits))
        outcome.detail = str(response.near_duplicate._replace(url=like.url[:MAX_DETAIL]))
        if crawl.settings.near_duplicates.action == "mark":
            outcome.count(MARKED)
        else:
            outcome.count(DROPPED)
            outcome.results.earlier, outcome.results.signature = Results([], []), b""


def store_of(crawl: TaskCrawl) -> NearStore:
    """The store of a task's pages."""
    near, spec = crawl.settings.near_duplicates, crawl.spec
    limit, most = near.limit, bits_of(near.likeness)
    if near.within == WITHIN:
        return NearStore(spec.task, "", limit, most)
    if near.within == "spider":
        return NearStore(0, f"spider:{spec.spider}", limit, most)
    return NearStore(0, f"name:{near.within}", limit, most)


def _fingerprint(crawl: TaskCrawl, response: Response) -> tuple[Fingerprint | None]:
    return (fingerprint_of(words_of(crawl.spider.near_text(response))),)
