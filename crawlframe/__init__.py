"""Crawlframe: the names a spider author needs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crawlframe.base.expect import Expect as Expect
    from crawlframe.base.file_path import FilePath as FilePath
    from crawlframe.base.secret import Secret as Secret
    from crawlframe.errors import CloseTask as CloseTask
    from crawlframe.errors import DropItem as DropItem
    from crawlframe.errors import FetchError as FetchError
    from crawlframe.errors import Retry as Retry
    from crawlframe.items.upsert import Upsert as Upsert
    from crawlframe.markup.links import Link as Link
    from crawlframe.proxies.proxy import Proxy as Proxy
    from crawlframe.proxies.selector import ProxyPool as ProxyPool
    from crawlframe.request.request import Request as Request
    from crawlframe.response.link_extractor import LinkExtractor as LinkExtractor
    from crawlframe.response.response import Response as Response
    from crawlframe.revisit import Revisit as Revisit
    from crawlframe.spider.middleware import CallNext as CallNext
    from crawlframe.spider.middleware import Middleware as Middleware
    from crawlframe.spider.middleware import SyncCallNext as SyncCallNext
    from crawlframe.spider.middleware import SyncMiddleware as SyncMiddleware
    from crawlframe.spider.spider import Spider as Spider
    from crawlframe.spider.task_info import Summary as Summary
    from crawlframe.spider.task_info import TaskInfo as TaskInfo
    from crawlframe.spiders.crawl import CrawlSpider as CrawlSpider
    from crawlframe.spiders.crawl import Rule as Rule
    from crawlframe.spiders.feeds import CSVFeedSpider as CSVFeedSpider
    from crawlframe.spiders.feeds import XMLFeedSpider as XMLFeedSpider
    from crawlframe.spiders.graphql import GraphQLSpider as GraphQLSpider
    from crawlframe.spiders.json_api import JSONSpider as JSONSpider
    from crawlframe.spiders.next_page import Cursor as Cursor
    from crawlframe.spiders.next_page import LinkHeader as LinkHeader
    from crawlframe.spiders.next_page import NextURL as NextURL
    from crawlframe.spiders.next_page import Offset as Offset
    from crawlframe.spiders.next_page import PageNumber as PageNumber
    from crawlframe.spiders.sitemap import SitemapSpider as SitemapSpider

__version__ = "0.2.0"

# Imported on first use: a supervisor, and most commands, need none of them.
_NAMES = {
    "crawlframe.base.expect": ("Expect",),
    "crawlframe.base.file_path": ("FilePath",),
    "crawlframe.base.secret": ("Secret",),
    "crawlframe.errors": ("CloseTask", "DropItem", "FetchError", "Retry"),
    "crawlframe.items.upsert": ("Upsert",),
    "crawlframe.markup.links": ("Link",),
    "crawlframe.proxies.proxy": ("Proxy",),
    "crawlframe.proxies.selector": ("ProxyPool",),
    "crawlframe.request.request": ("Request",),
    "crawlframe.response.link_extractor": ("LinkExtractor",),
    "crawlframe.response.response": ("Response",),
    "crawlframe.revisit": ("Revisit",),
    "crawlframe.spider.middleware": ("CallNext", "Middleware", "SyncCallNext", "SyncMiddleware"),
    "crawlframe.spider.spider": ("Spider",),
    "crawlframe.spider.task_info": ("Summary", "TaskInfo"),
    "crawlframe.spiders.crawl": ("CrawlSpider", "Rule"),
    "crawlframe.spiders.feeds": ("CSVFeedSpider", "XMLFeedSpider"),
    "crawlframe.spiders.graphql": ("GraphQLSpider",),
    "crawlframe.spiders.json_api": ("JSONSpider",),
    "crawlframe.spiders.next_page": ("Cursor", "LinkHeader", "NextURL", "Offset", "PageNumber"),
    "crawlframe.spiders.sitemap": ("SitemapSpider",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value
