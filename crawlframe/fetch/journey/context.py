"""FetchContext: the parts of a fetch that belong neither to its request nor to its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crawlframe.fetch.body.memory import Account
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.journey.send_time import SendTime
from crawlframe.fetch.journey.trail import Check, Trail
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.spider.spider import Spider


@dataclass(slots=True, eq=False)
class FetchContext:
    """``spider`` may have a method ``requests_session`` for the requests downloader. ``jar``: the
    task's cookies; without the setting ``cookies``, only a request with a session uses them.
    ``allowed`` decides about the host names of redirects. ``account`` counts the body of the
    response until its owner closes it; without one it counts until the fetch is over. ``check`` is
    awaited with each URL before it is sent, also of redirects. ``trail``: the request is for the
    target of its last redirect. ``send_time``: of the transfers. ``rid``: leads the next attempt to
    the saved part of a file. ``proxy``: of the transfers."""

    spider: Spider | None = None
    jar: TaskCookies | None = None
    allowed: Callable[[str], bool] | None = None
    account: Account | None = None
    check: Check | None = None
    trail: Trail | None = None
    send_time: SendTime | None = None
    rid: bytes = b""
    proxy: ChosenProxy | None = None

    def counted_by(self, account: Account) -> FetchContext:
        """A copy with this account; dataclasses.replace takes six times as long."""
        return FetchContext(
            *(self.spider, self.jar, self.allowed, account, self.check, self.trail),
            *(self.send_time, self.rid, self.proxy),
        )


NO_CONTEXT = FetchContext()
