"""Learned rendering: the pages of a spider that need the browser, by what nodes found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from redis import RedisError

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.render.knowledge import Knowledge, URLTemplate
from crawlservice.accounts.journal import record
from crawlservice.connections import clock
from crawlservice.connections.frontier import frontier


class TemplateNow(NamedTuple):
    """One template of a callback."""

    template: URLTemplate
    known: Knowledge

    @property
    def key(self) -> str:
        """Names it in forms."""
        return " ".join(self.template)

    @property
    def pages(self) -> int:
        return self.known.static + self.known.browser

    @property
    def share(self) -> int:
        """Per cent of its pages that were rendered."""
        return round(100 * self.known.browser / max(1, self.pages))

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self.known.since / 1000, UTC)


def templates(spider: str) -> list[TemplateNow] | None:
    """The templates of a spider, by number of pages, the most first; None: Redis does not
    answer."""
    now = round(1000 * clock.now().timestamp())
    try:
        found = frontier().renders.of(spider)
    except (RedisError, CrawlframeError):
        return None
    known = [TemplateNow(template, one) for template, one in found.items() if one.at(now) == one]
    return sorted(known, key=lambda one: (-one.pages, one.template))


def forget(spider: str, key: str, who: dict[str, Any]) -> None:
    """Forgets a template, or all without a key, so that its next pages are fetched plainly first.
    ``who``: as for ``journal.record``. Raises CrawlframeError."""
    callback, _, form = key.partition(" ")
    if key and not form:
        raise ArgumentError(f"{key!r:.100} is not a template; it is a callback and a form of URLs")
    try:
        frontier().renders.forget(spider, URLTemplate(callback, form) if key else None)
    except RedisError as error:
        raise CrawlframeError(f"Redis does not answer: {error}") from None
    record("forget rendering", **who, spider=spider, template=key)
