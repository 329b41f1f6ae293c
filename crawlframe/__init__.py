"""Crawlframe: the names a spider author needs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawlframe.base.expect import Expect
    from crawlframe.base.file_path import FilePath
    from crawlframe.base.secret import Secret
    from crawlframe.errors import CloseTask, DropItem, FetchError, Retry
    from crawlframe.items.upsert import Upsert
    from crawlframe.markup.element_link import Link
    from crawlframe.proxies.listed import Proxy
    from crawlframe.proxies.selector import ProxyPool
    from crawlframe.request.request import Request
    from crawlframe.response.link_extractor import LinkExtractor
    from crawlframe.response.response import Response
    from crawlframe.revisit import Revisit
    from crawlframe.spider.middleware import CallNext, Middleware, SyncCallNext, SyncMiddleware
    from crawlframe.spider.spider import Spider
    from crawlframe.spider.task_info import Summary, TaskInfo
    from crawlframe.spiders.crawl import CrawlSpider, Rule
    from crawlframe.spiders.feeds import CSVFeedSpider, XMLFeedSpider
    from crawlframe.spiders.graphql import GraphQLSpider
    from crawlframe.spiders.json_api import JSONSpider
    from crawlframe.spiders.next_page import Cursor, LinkHeader, NextURL, Offset, PageNumber
    from crawlframe.spiders.sitemap import SitemapSpider

__all__ = [
    "CSVFeedSpider",
    "CallNext",
    "CloseTask",
    "CrawlSpider",
    "Cursor",
    "DropItem",
    "Expect",
    "FetchError",
    "FilePath",
    "GraphQLSpider",
    "JSONSpider",
    "Link",
    "LinkExtractor",
    "LinkHeader",
    "Middleware",
    "NextURL",
    "Offset",
    "PageNumber",
    "Proxy",
    "ProxyPool",
    "Request",
    "Response",
    "Retry",
    "Revisit",
    "Rule",
    "Secret",
    "SitemapSpider",
    "Spider",
    "Summary",
    "SyncCallNext",
    "SyncMiddleware",
    "TaskInfo",
    "Upsert",
    "XMLFeedSpider",
]
__version__ = "0.2.0"

# Imported on first use: a supervisor, and most commands, need none of them.
_LATER = {
    "CSVFeedSpider": "crawlframe.spiders.feeds",
    "CallNext": "crawlframe.spider.middleware",
    "CloseTask": "crawlframe.errors",
    "CrawlSpider": "crawlframe.spiders.crawl",
    "Cursor": "crawlframe.spiders.next_page",
    "DropItem": "crawlframe.errors",
    "Expect": "crawlframe.base.expect",
    "FetchError": "crawlframe.errors",
    "FilePath": "crawlframe.base.file_path",
    "GraphQLSpider": "crawlframe.spiders.graphql",
    "JSONSpider": "crawlframe.spiders.json_api",
    "Link": "crawlframe.markup.element_link",
    "LinkExtractor": "crawlframe.response.link_extractor",
    "LinkHeader": "crawlframe.spiders.next_page",
    "Middleware": "crawlframe.spider.middleware",
    "NextURL": "crawlframe.spiders.next_page",
    "Offset": "crawlframe.spiders.next_page",
    "PageNumber": "crawlframe.spiders.next_page",
    "Proxy": "crawlframe.proxies.listed",
    "ProxyPool": "crawlframe.proxies.selector",
    "Request": "crawlframe.request.request",
    "Response": "crawlframe.response.response",
    "Retry": "crawlframe.errors",
    "Revisit": "crawlframe.revisit",
    "Rule": "crawlframe.spiders.crawl",
    "Secret": "crawlframe.base.secret",
    "SitemapSpider": "crawlframe.spiders.sitemap",
    "Spider": "crawlframe.spider.spider",
    "Summary": "crawlframe.spider.task_info",
    "SyncCallNext": "crawlframe.spider.middleware",
    "SyncMiddleware": "crawlframe.spider.middleware",
    "TaskInfo": "crawlframe.spider.task_info",
    "Upsert": "crawlframe.items.upsert",
    "XMLFeedSpider": "crawlframe.spiders.feeds",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value
