"""Crawlframe: the names a spider author needs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crawlframe.base.expect import Expect
from crawlframe.base.secret import Secret
from crawlframe.errors import CloseTask, DropItem, FetchError, Retry
from crawlframe.items.upsert import Upsert
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.revisit import Revisit
from crawlframe.spider.middleware import CallNext, Middleware, SyncCallNext, SyncMiddleware
from crawlframe.spider.spider import Spider
from crawlframe.spider.task_info import Summary, TaskInfo

if TYPE_CHECKING:
    from crawlframe.base.file_path import FilePath
    from crawlframe.markup.element_link import Link
    from crawlframe.proxies.listed import Proxy
    from crawlframe.proxies.selector import ProxyPool
    from crawlframe.response.link_extractor import LinkExtractor
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

# Names that only some spiders need are imported on first use.
_LATER = {
    "CSVFeedSpider": "crawlframe.spiders.feeds",
    "CrawlSpider": "crawlframe.spiders.crawl",
    "Cursor": "crawlframe.spiders.next_page",
    "FilePath": "crawlframe.base.file_path",
    "GraphQLSpider": "crawlframe.spiders.graphql",
    "JSONSpider": "crawlframe.spiders.json_api",
    "Link": "crawlframe.markup.element_link",
    "LinkExtractor": "crawlframe.response.link_extractor",
    "LinkHeader": "crawlframe.spiders.next_page",
    "NextURL": "crawlframe.spiders.next_page",
    "Offset": "crawlframe.spiders.next_page",
    "PageNumber": "crawlframe.spiders.next_page",
    "Proxy": "crawlframe.proxies.listed",
    "ProxyPool": "crawlframe.proxies.selector",
    "Rule": "crawlframe.spiders.crawl",
    "SitemapSpider": "crawlframe.spiders.sitemap",
    "XMLFeedSpider": "crawlframe.spiders.feeds",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
