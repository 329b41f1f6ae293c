"""``denoise = "template"``: links of most pages of a host are followed once, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

from crawlframe.base.limits import TEMPLATE, UNFOLLOWED
from crawlframe.noise import template
from crawlframe.noise.followed_once import FollowedOnce
from crawlframe.noise.template import PAGES
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import Spider
from tests.node.runner import HTML, Ready, Tasks

HOME = "http://shop.example/home"


def page(number: int) -> Response:
    body = f"<nav><a href=/home>x</a></nav><p>See <a href=/{number + 1}>the next</a>.</p>"
    url = f"http://shop.example/{number}"
    return Response(url, 200, {"Content-Type": "text/html"}, body.encode(), Request(url))


def test_a_link_is_refused_once_it_is_known_and_was_followed() -> None:
    said: list[str] = []
    once = FollowedOnce(said.append)
    assert [once.page(page(number)) for number in range(PAGES - 1)] == [None] * (PAGES - 1)
    assert said == []
    first = once.page(page(PAGES))
    assert first is not None
    assert not first.refuses(HOME)
    first.take(HOME)
    beside = once.page(page(PAGES + 1))  # before the first one is done
    assert beside is not None
    assert not beside.refuses(HOME)
    first.done()
    last = once.page(page(PAGES + 2))
    assert last is not None
    assert last.refuses(HOME)
    assert not last.refuses(f"http://shop.example/{PAGES + 3}")
    assert said == [
        f"links that most pages of shop.example have are followed once, as is known after {PAGES} "
        f"pages: {HOME}"
    ]


def test_a_link_that_a_limit_refused_was_not_followed() -> None:
    once = FollowedOnce(lambda text: None)
    for number in range(PAGES + 1):
        seen = once.page(page(number))
    assert seen is not None
    seen.refuses(HOME)
    seen.done()
    again = once.page(page(PAGES + 1))
    assert again is not None
    assert not again.refuses(HOME)


def test_what_is_no_html_has_no_template() -> None:
    url = "http://shop.example/a.json"
    response = Response(url, 200, {"Content-Type": "application/json"}, b"{}", Request(url))
    assert FollowedOnce(print).page(response) is None


def test_the_hosts_that_are_remembered_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr("crawlframe.noise.followed_once.HOSTS", 2)
    once = FollowedOnce(lambda text: None)
    for host in "abc":
        for number in range(template.PAGES + 1):
            url = f"http://{host}.example/{number}"
            body = b"<nav><a href=/home>x</a></nav>"
            html = {"Content-Type": "text/html"}
            once.page(Response(url, 200, html, body, Request(url)))
    assert [*once._followed] == ["b.example", "c.example"]


# -- in a worker ----------------------------------------------------------------------------------


class Walker(Spider):
    name = "walker"
    settings: ClassVar[dict[str, Any]] = {"denoise": "template"}

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(response.links())
        if response.url.endswith("/13"):
            raise ValueError("this page fails")


class Pages(Ready):
    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        self._body = page(int(request.url.rpartition("/")[2])).body
        return await super().fetch(request, *others, **more)


def test_a_task_follows_a_template_once_and_counts_the_rest() -> None:
    async def job() -> list[Outcome]:
        tasks = Tasks(Walker, Pages(200, headers=HTML))
        requests = [Request(f"http://shop.example/{number}") for number in range(16)]
        return [await tasks.run(request) for request in requests]

    outcomes = asyncio.run(job())
    counted = [
        0
        if one.results.stats is None
        else int(one.results.stats.counters.get(UNFOLLOWED + TEMPLATE, 0))
        for one in outcomes
    ]
    followed = [
        any(Request.decode(admission.record).url == HOME for admission in one.results.follow_ups)
        for one in outcomes
    ]
    assert counted == [*[0] * PAGES, 1, 1, 1, 0, 1, 1]  # a page that failed counts nothing
    assert followed == [True] * PAGES + [False] * 6
    assert outcomes[13].verdict is Verdict.ERROR
    assert all(len(one.results.follow_ups) >= 1 for one in outcomes if one.verdict is Verdict.DONE)
