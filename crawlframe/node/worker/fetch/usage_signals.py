"""UsageSignals: the statements of a page about its use, recorded for the ledger, and obeyed."""

from __future__ import annotations

from functools import partial

from crawlframe.base.limits import NOFOLLOW
from crawlframe.errors import UsageDenied
from crawlframe.markup.links import Nofollow
from crawlframe.node.worker.crawl.stage import ClaimedFetch, Next
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.robots.rules import product_token, user_agent_of
from crawlframe.robots.usage import read_usage
from crawlframe.run.outcome import Outcome
from crawlframe.spider.settings import SpiderSettings


class UsageSignals:
    """Reads the pages of one worker. ``user_agent``: of requests whose spider names none."""

    def __init__(self, user_agent: str) -> None:
        self._user_agent = user_agent

    async def fetch(self, fetch: ClaimedFetch, call_next: Next[ClaimedFetch]) -> Response:
        """A stage. Raises UsageDenied."""
        response = await call_next(fetch)
        self.read(response, fetch.asked, fetch.outcome, fetch.crawl.settings)
        return response

    def read(
        self, response: Response, sent: Request, outcome: Outcome, settings: SpiderSettings
    ) -> None:
        """Sets ``usage`` of a response and of its outcome, which of its links are refused, and how
        it is parsed.
        ``sent``: the request as it was sent. Raises UsageDenied if the page denies the spider's
        purpose."""
        response.max_parse, response.selector_tree = settings.max_parse, settings.selector_tree
        if settings.obey_nofollow:
            response.nofollow = Nofollow(partial(outcome.refuse_link, NOFOLLOW))
        agent = settings.user_agent or self._user_agent
        if sent.headers or settings.headers:
            agent = user_agent_of(sent.headers, settings.headers) or agent
        token = product_token(agent)
        robots = response.robots
        usage = read_usage(
            *(response.headers, response.body, token, robots.signals(response.url)),
            response.reservation,
            licenses=robots.licenses,
        )
        if usage is not None:
            response.usage = usage
            outcome.fetch.usage = usage.as_json()
            if settings.purpose and usage.denies(settings.purpose):
                said = "; ".join(f"{source}: {text}" for source, text in usage.said)
                raise UsageDenied(f"{response.url} denies {settings.purpose} ({said})")
