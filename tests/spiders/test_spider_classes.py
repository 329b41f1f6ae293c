"""The examples in docs/howto/spider-classes.md crawl a real server as they stand there."""

from __future__ import annotations

import json
from typing import Any

from tests.fetch.conftest import Exchange, Site, _server, site
from tests.howto import spider_of
from tests.spiders.test_docs import crawl, html, items, send_json

__all__ = ("_server", "site")


def found(name: str, site: Site, **arguments: Any) -> list[Any]:
    """The items of a crawl."""
    spider = spider_of("howto/spider-classes.md", name, site.url)
    spider.settings = {**spider.settings, "delay": 0, "robots": False}
    return [json.loads(item) for item in items(crawl(spider, arguments))]


def xml(site: Site, path: str, body: str) -> None:
    site.answer(path, body.encode(), headers={"Content-Type": "text/xml"})


def test_links(site: Site) -> None:
    html(site, "/teapots", "<main><a href=/product/1>1</a><a href=/product/1?sort=a></a></main>"
                           "<a href=/product/2>2</a>")  # fmt: skip
    html(site, "/product/1", "<h1>Teapot</h1>")
    assert found("teapots", site) == [{"url": f"{site.url}/product/1", "name": "Teapot"}]


def test_rules(site: Site) -> None:
    html(site, "/", "<a href=/rooms/1>room</a><a href=/shop>shop</a>")
    html(site, "/rooms/1", "<a href=/exhibit/7>x</a><a href=/news/1>n</a>")
    html(site, "/exhibit/7", "<h1>Vase</h1><a href=/exhibit/8>not followed</a>")
    html(site, "/news/1", "<title>Found</title><a href=/exhibit/9>9</a>")
    html(site, "/exhibit/9", "<h1>Bowl</h1>")
    expected = [{"exhibit": "Vase"}, {"article": "Found"}, {"exhibit": "Bowl"}]
    assert sorted(map(str, found("museum", site))) == sorted(map(str, expected))


def test_sitemaps(site: Site) -> None:
    site.answer("/robots.txt", f"Sitemap: {site.url}/index.xml\n".encode())
    xml(site, "/index.xml", f"<sitemapindex><sitemap><loc>{site.url}/a.xml</loc></sitemap>"
                            "</sitemapindex>")  # fmt: skip
    pages = [("product/1", "2026-11-01"), ("product/2", "2001-01-01"), ("help", "2026-11-01")]
    rows = [
        f"<url><loc>{site.url}/{path}</loc><lastmod>{day}</lastmod></url>" for path, day in pages
    ]
    xml(site, "/a.xml", f"<urlset>{''.join(rows)}</urlset>")
    html(site, "/product/1", "<h1>Chair</h1>")
    html(site, "/product/2", "<h1>Old chair</h1>")
    assert found("furniture", site, since="2020-01-01") == [{"product": "Chair"}]
    assert len(found("furniture", site)) == 2


def test_feeds(site: Site) -> None:
    xml(site, "/products.rss", '<rss xmlns:g="http://base.google.com/ns/1.0"><channel><item>'
                               "<title>Pot</title><link>/pot</link><g:price>9</g:price></item>"
                               "</channel></rss>")  # fmt: skip
    html(site, "/pot", "<p class=review>fine")
    assert found("offers", site) == [
        {"title": "Pot", "price": "9"}, {"url": f"{site.url}/pot", "reviews": 1}
    ]  # fmt: skip
    site.answer("/stations.csv", b"id;name\n1; Ulm \n", headers={"Content-Type": "text/csv"})
    assert found("stations", site) == [{"id": 1, "name": "Ulm"}]


def test_json(site: Site) -> None:
    @site.on("/api/reviews")
    async def reviews(exchange: Exchange) -> bool:
        page = int(exchange.target.partition("&page=")[2] or 1)
        data = {"data": {"reviews": [{"stars": page, "text": "good"}]}, "meta": {"pages": 2}}
        return await send_json(exchange, data)

    assert [item["stars"] for item in found("reviews", site)] == [1, 2]


def test_a_graphql_api(site: Site) -> None:
    @site.on("/graphql")
    async def orders(exchange: Exchange) -> bool:
        variables = json.loads(exchange.body)["variables"]
        assert variables["first"] == 50
        after = variables.get("after")
        info = {"endCursor": "c1", "hasNextPage": after is None}
        page = {"orders": {"nodes": [{"after": after}], "pageInfo": info}}
        return await send_json(exchange, {"data": page})

    assert found("orders", site) == [{"after": None}, {"after": "c1"}]


def test_an_api_that_gives_out_its_token(site: Site) -> None:
    @site.on("/api/token")
    async def token(exchange: Exchange) -> bool:
        assert exchange.body == b"key=k1"
        return await send_json(exchange, {"access_token": "t0p"})

    @site.on("/api/tickets")
    async def tickets(exchange: Exchange) -> bool:
        assert exchange.header("Authorization") == "Bearer t0p"
        if exchange.target.endswith("?page=2"):
            return await send_json(exchange, {"tickets": [{"id": 2}], "next": None})
        return await send_json(exchange, {"tickets": [{"id": 1}], "next": "/api/tickets?page=2"})

    assert found("tickets", site, key="k1") == [{"id": 1}, {"id": 2}]
