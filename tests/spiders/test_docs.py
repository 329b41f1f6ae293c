"""Examples of the docs run as they stand there, against a real server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import uvloop

from crawlframe import Request, Spider
from crawlframe.fetch.downloader import Downloader
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import read_settings
from tests.fetch.conftest import Exchange, Site, _server, site
from tests.howto import spider_of
from tests.node.runner import HERE, Tasks

__all__ = ("_server", "site")


def crawl(spider: type[Spider], arguments: dict[str, Any], at_once: bool = False) -> list[Outcome]:
    """The outcomes of a task of this spider, the first of each request. ``at_once``: requests of a
    page run at the same time."""

    async def main() -> list[Outcome]:
        client = Downloader(HERE)
        tasks = Tasks(spider, client, arguments)
        try:
            outcomes = [await tasks.start()]
            for outcome in outcomes:  # which grows
                requests = [Request.decode(one.record) for one in outcome.results.follow_ups]
                if at_once:
                    outcomes += await asyncio.gather(*map(tasks.run, requests))
                else:
                    outcomes += [await tasks.run(request) for request in requests]
            return outcomes
        finally:
            await client.close()

    outcomes: list[Outcome] = uvloop.run(main())
    return outcomes


def items(outcomes: list[Outcome]) -> list[str]:
    return [item.decode() for outcome in outcomes for item in outcome.results.items]


async def send_json(exchange: Exchange, data: object, status: int = 200) -> bool:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
    await exchange.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return True


def html(site: Site, path: str, body: str) -> None:
    site.answer(path, body.encode(), headers={"Content-Type": "text/html"})


def test_options(site: Site) -> None:
    @site.on("/login")
    async def login(exchange: Exchange) -> bool:
        name = exchange.target.partition("=")[2]
        head = f"HTTP/1.1 200 OK\r\nSet-Cookie: id={name}; Path=/\r\nContent-Length: 0\r\n\r\n"
        await exchange.send(head.encode())
        return True

    @site.on("/results")
    async def results(exchange: Exchange) -> bool:
        body = (exchange.header("Cookie") or "").encode()
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    site.answer("/old", status=301, headers={"Location": "/new"})
    assert items(crawl(spider_of("reference/spiders.md", "search"), {"site": site.url})) == [
        '{"status":301,"to":"/new"}',
        '{"customer":"anna","results":"id=anna"}',
        '{"customer":"ben","results":"id=ben"}',
    ]


def test_what_all_spiders_of_a_project_have(site: Site) -> None:
    novels = spider_of("guide/spider.md", "novels")
    settings = read_settings(novels)
    assert (settings.delay, settings.headers) == (2, {"Accept-Language": "de"})
    html(site, "/", "<b>Emma</b>")
    novels.start_urls = (f"{site.url}/",)
    (item,) = items(crawl(novels, {}))
    assert item.startswith('{"title":"Emma","collected_at":"2')


def test_a_signature_is_of_one_url(site: Site) -> None:
    html(site, "/new", "<h1>Teapots</h1>")
    site.answer("/", status=302, headers={"Location": "/new"})
    spider = spider_of("howto/middlewares.md", "signed_shop")
    assert items(crawl(spider, {"url": f"{site.url}/"})) == ['{"title":"Teapots"}']
    one, other = [exchange.header("X-Signature") for exchange in site.seen]
    assert one != other


def test_middlewares_that_sign_and_have_patience(site: Site) -> None:
    html(site, "/", "<h1>Teapots</h1>")
    spider = spider_of("howto/middlewares.md", "signed_shop")
    assert items(crawl(spider, {"url": f"{site.url}/"})) == ['{"title":"Teapots"}']
    assert len(site.seen[0].header("X-Signature") or "") == 64
    html(site, "/", "<h1>Too many searches</h1>")
    outcome = crawl(spider, {"url": f"{site.url}/"})[-1]
    assert (outcome.verdict, outcome.reason, outcome.delay) == (
        "retry", "too many searches", 600_000,
    )  # fmt: skip


def test_a_cache(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWS_CACHE", str(tmp_path / "pages"))
    html(site, "/", "<h1>News</h1>")
    for _ in range(2):
        spider = spider_of("howto/middlewares.md", "news")
        assert items(crawl(spider, {"url": f"{site.url}/"})) == ['{"title":"News"}']
    assert len(site.seen) == 1


def test_follow(site: Site) -> None:
    links = ("/print/1", "/product/1", "/about")
    html(site, "/", "".join(f'<a href="{link}">' for link in links))
    for link in links:
        html(site, link, "<p>")
    outcomes = crawl(spider_of("howto/middlewares.md", "products"), {"url": f"{site.url}/"})
    assert [exchange.target for exchange in site.seen] == ["/", "/product/1", "/about"]
    followed = [Request.decode(link.record) for link in outcomes[1].results.follow_ups]
    assert [request.options.timeout for request in followed] == [120, None]
