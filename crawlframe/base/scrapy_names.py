"""Scrapy's spellings that have no meaning here, and their replacements.

A spider ported from Scrapy would load and run with them, and not do as its author meant: a proxy
that is not used exposes the crawler's address. So each is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlframe.errors import BadRequest, did_you_mean


def _setting(example: str) -> str:
    return f"write settings = {{{example}}} in the spider; it holds for all of its requests"


_PROXY = (
    "write proxy='pool', or the URL of a proxy, in the request or in the settings of the spider"
)
NO_PROXY = (
    "a Scrapy project has no proxies here, and the request would show the address of this machine; "
    "a spider of crawlframe has them: proxy='pool', or the URL of a proxy"
)
NO_BROWSER = (
    "pages of a Scrapy project are not rendered here; a spider of crawlframe has them rendered: "
    "downloader='browser'"
)
NO_IMPERSONATION = (
    "a Scrapy project has no downloader that imitates a browser here; a spider of crawlframe has "
    "one: downloader='...', the name of a plug-in (docs/howto/downloaders.md)"
)
_SESSION = "write session='...' in the request, the name of a cookie jar of its own"
_BROWSER = "write downloader='browser' in the request"
_ACTIONS = (
    "write actions=[...] in the request, which renders it; docs/howto/render-pages.md lists them"
)
_PAGE = "write actions=[KeepPage()] in the request, and await response.page() in its callback"
_CONTEXT = f"{_BROWSER}; requests with session='...' have cookies of their own"
_IMPERSONATION = (
    "write downloader='...', the name of a plug-in that imitates a browser; "
    "docs/howto/downloaders.md"
)
_LOGIN = (
    "write headers={'Authorization': ...} in the request, or store it for the host with "
    "`credential set`"
)
_OUTPUT = "Scrapy sets it itself; leave it out"
_REDIRECTED = "response.redirects has the URLs that were passed"
_STATUSES = _setting('"handle_statuses": (404, ...)')
_TIMEOUT = _setting('"timeout": 30')
_DELAY = _setting('"delay": 1.0')
_MAX_BODY = _setting('"max_body": 33554432')
_REDIRECTS = "write redirects=0 in the request; its callback gets the answer that redirects"
_RETRIES = "write retries=2 in the request"
_HANDLE = "write handle=[404, ...] in the request"
_NO_RULES = "inherit from CrawlSpider, or yield from response.follow_all(...) in parse"
_NO_SITEMAP = "inherit from SitemapSpider"

META = {
    "proxy": _PROXY,
    "dont_redirect": _REDIRECTS,
    "redirect_times": _OUTPUT,
    "redirect_ttl": _OUTPUT,
    "redirect_urls": _REDIRECTED,
    "redirect_reasons": _REDIRECTED,
    "dont_retry": "write retries=0 in the request",
    "max_retry_times": _RETRIES,
    "retry_times": _OUTPUT,
    "priority_adjust": "write priority=... in the request",
    "handle_httpstatus_list": _HANDLE,
    "handle_httpstatus_all": "write handle=range(100, 600) in the request",
    "download_timeout": "write timeout=30 in the request",
    "download_maxsize": "write max_body=33554432 in the request",
    "download_warnsize": "there is no size warning; write max_body=... in the request",
    "download_delay": _DELAY,
    "download_slot": "all requests to one host share its delay and concurrency; leave it out",
    "download_latency": _OUTPUT,
    "download_fail_on_dataloss": "a body that breaks off is tried again; leave it out",
    "autothrottle_dont_adjust_delay": "the pace of a host is decided for all its requests; leave "
    "it out",
    "cookiejar": _SESSION,
    "dont_merge_cookies": f'{_SESSION}, or settings = {{"cookies": False}} in the spider',
    "dont_cache": "the cache of `crawl --cache` has all pages of a crawl or none; leave it out",
    "dont_obey_robotstxt": "robots.txt is obeyed by all requests of a spider or by none: write "
    '"robots": False in its settings',
    "allow_offsite": "write dont_filter=True in the request",
    "bindaddress": "the address to send from cannot be chosen; leave it out",
    "referrer_policy": "write headers={'Referer': ...} in the request; there is no other Referer",
    "verbatim_url": "URLs are always normalised; leave it out",
    "is_start_request": _OUTPUT,
    "impersonate": _IMPERSONATION,
    "impersonate_args": _IMPERSONATION,
    "splash": _BROWSER,
    "selenium": _BROWSER,
    "playwright": _BROWSER,
    "playwright_context": _CONTEXT,
    "playwright_context_kwargs": _CONTEXT,
    "playwright_include_page": _PAGE,
    "playwright_page": _PAGE,
    "playwright_page_event_handlers": _PAGE,
    "playwright_page_goto_kwargs": _BROWSER,
    "playwright_page_init_callback": _ACTIONS,
    "playwright_page_methods": _ACTIONS,
    "zyte_api": _BROWSER,
    "zyte_api_automap": _BROWSER,
    "zyte_api_provider": _BROWSER,
}

# Arguments of Scrapy's Request, FormRequest and JsonRequest, and of other HTTP clients.
KEYWORDS = {
    "formdata": "write form={...}",
    "data": "write json={...} for JSON, form={...} for a form, or body=...",
    "params": "write them into the URL",
    "flags": "write meta={'flags': [...]}; nothing else reads them",
    "encoding": "URLs and text bodies are sent as UTF-8; encode the body yourself, as bytes",
    "cookiejar": _SESSION,
    "proxies": _PROXY,
    "download_timeout": "write timeout=30",
    "max_retry_times": "write retries=2",
    "handle_httpstatus_list": "write handle=[404, ...]",
    "allow_redirects": _REDIRECTS,
    "auth": "write headers={'Authorization': ...}",
    "impersonate": _IMPERSONATION,
}

ATTRIBUTES = {
    "custom_settings": "call it settings; `config show SPIDER` lists its keys",
    "download_delay": _DELAY,
    "download_timeout": _TIMEOUT,
    "download_maxsize": _MAX_BODY,
    "download_warnsize": _MAX_BODY,
    "max_concurrent_requests": _setting('"concurrency": 8'),
    "user_agent": _setting('"user_agent": "..."'),
    "handle_httpstatus_list": _STATUSES,
    "handle_httpstatus_all": _STATUSES,
    "http_user": _LOGIN,
    "http_pass": _LOGIN,
    "http_auth_domain": _LOGIN,
    "rules": _NO_RULES,
    "sitemap_urls": _NO_SITEMAP,
    "sitemap_rules": _NO_SITEMAP,
    "sitemap_follow": _NO_SITEMAP,
    "itertag": "inherit from XMLFeedSpider",
    "redis_key": "all tasks are queued in Redis; yield the first requests in start",
}

# Refused only where they can be called: an argument may have such a name.
METHODS = {
    "start_requests": "call it start",
    "spider_closed": "call it closed(self, summary)",
    "spider_opened": "call it opened(self, task)",
    "spider_idle": "a task ends when nothing is left of it; leave it out",
    "from_crawler": "spiders are made without a crawler; arguments are parameters of start or "
    "annotated class attributes; opened(self, task) and closed(self, summary) are called at its "
    "beginning and end",
    "update_settings": "write settings = {...}",
    "make_requests_from_url": "yield Request(url) in start",
    "parse_start_url": "inherit from CrawlSpider, or write start, with a callback for its requests",
}

SETTINGS = {
    "DOWNLOAD_DELAY": "delay",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "concurrency",
    "CONCURRENT_REQUESTS": "concurrency",
    "DEPTH_LIMIT": "depth_limit",
    "CLOSESPIDER_PAGECOUNT": "page_limit",
    "CLOSESPIDER_TIMEOUT": "time_limit",
    "URLLENGTH_LIMIT": "url_length",
    "DOWNLOAD_TIMEOUT": "timeout",
    "DOWNLOAD_MAXSIZE": "max_body",
    "RETRY_TIMES": "retries",
    "RETRY_HTTP_CODES": "retry_statuses",
    "HTTPERROR_ALLOWED_CODES": "handle_statuses",
    "DEFAULT_REQUEST_HEADERS": "headers",
    "USER_AGENT": "user_agent",
    "REDIRECT_MAX_TIMES": "max_redirects",
    "COOKIES_ENABLED": "cookies",
    "ROBOTSTXT_OBEY": "robots",
}
OTHER_SETTINGS = {
    "CONCURRENT_REQUESTS_PER_IP": 'write "ip": {"concurrency": 8}',
    "RETRY_ENABLED": "write retries: 0 for no further tries",
    "HTTPCACHE_ENABLED": "leave it out, and run `crawl --cache`",
    "ITEM_PIPELINES": "write pipelines = [...] in the spider, next to settings",
    "DOWNLOADER_MIDDLEWARES": "list middlewares for the fetch in the attribute middlewares",
    "SPIDER_MIDDLEWARES": "write a method follow for the requests that go out of callbacks",
    "EXTENSIONS": "write opened(self, task) and closed(self, summary) in the spider",
    "FEEDS": "items are stored; `task export` writes them to a file",
    "LOG_LEVEL": "it is a setting of the node: CRAWLFRAME_LOG_LEVEL",
    "AUTOTHROTTLE_ENABLED": 'leave it out: "delay": "auto" is the default',
    "AUTOTHROTTLE_MAX_DELAY": 'leave it out: "delay": "auto" is the default',
    "AUTOTHROTTLE_START_DELAY": 'leave it out: "delay": "auto" is the default',
    "AUTOTHROTTLE_TARGET_CONCURRENCY": 'leave it out: "delay": "auto" is the default',
    "DOWNLOAD_HANDLERS": "write downloader, the name of a plug-in; docs/howto/downloaders.md",
    "DOWNLOAD_VERIFY_CERTIFICATES": 'write "tls": {"*": {"verify": False}}',
    "DOWNLOAD_FAIL_ON_DATALOSS": META["download_fail_on_dataloss"],
    "DOWNLOAD_BIND_ADDRESS": META["bindaddress"],
    "DOWNLOAD_WARNSIZE": 'there is no size warning; write "max_body"',
    "HTTPERROR_ALLOW_ALL": 'write "handle_statuses", with the statuses that callbacks get',
    "JOBDIR": "leave it out: all tasks survive a restart",
    "LOG_FILE": "leave it out: the node writes the log",
    "MEMUSAGE_LIMIT_MB": "it is a setting of the node: CRAWLFRAME_MAX_MEMORY",
    "RANDOMIZE_DOWNLOAD_DELAY": "delays are kept as they are; leave it out",
    "REDIRECT_ENABLED": _REDIRECTS,
}

_META = frozenset(META)


def check_meta(url: str, meta: Mapping[Any, Any]) -> None:
    """Raises BadRequest for a key that Scrapy would act on and this engine would not."""
    if not _META.isdisjoint(meta):
        key = next(key for key in meta if key in META)
        raise BadRequest(f"request {url}: meta[{key!r}] is Scrapy's, not known here: {META[key]}")


def refuse_keywords(url: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises BadRequest for the first keyword argument of Request that does not exist."""
    name = next(iter(given))
    hint = f": {KEYWORDS[name]}" if name in KEYWORDS else did_you_mean(name, known)
    raise BadRequest(f"request {url}: there is no argument {name!r}{hint}")


def is_scrapy_spider(kind: type) -> bool:
    """Whether a class inherits from a spider of Scrapy; by name, because Scrapy may not be
    loaded."""
    return any(
        base.__name__ == "Spider" and base.__module__.split(".")[:2] == ["scrapy", "spiders"]
        for base in kind.__mro__
    )


INHERITS = (
    "it inherits from a spider of Scrapy, which does nothing here; inherit from crawlframe's "
    "Spider, or let CRAWLFRAME_SCRAPY name the Scrapy project that it belongs to"
)


def misuse_of(spider: type) -> str:
    """Scrapy's names that a spider class has kept, with their replacements; "" if none."""
    if is_scrapy_spider(spider):
        return INHERITS
    ours = [kind for kind in spider.__mro__ if kind.__module__.startswith("crawlframe.")]
    known = {name for kind in ours for name in vars(kind)}
    for name in sorted({name for kind in spider.__mro__ for name in vars(kind)} - known):
        if name in ATTRIBUTES:
            return f"{name}: that is Scrapy's name; {ATTRIBUTES[name]}"
        if name in METHODS and callable(getattr(spider, name)):
            return f"{name}: that is Scrapy's name; {METHODS[name]}"
    return ""


def misuse_in_settings(settings: Mapping[str, Any], known: Iterable[str]) -> str:
    """The first mistake in the names of a spider's settings, with the fix; "" if none."""
    known = [*known]
    for name in settings:
        if name not in known:
            return _misuse(str(name), known)
    return ""


def _misuse(name: str, known: list[str]) -> str:
    if name in SETTINGS:
        return f"{name} is Scrapy's name; write {SETTINGS[name]!r}"
    if name in OTHER_SETTINGS:
        return f"{name} is Scrapy's: {OTHER_SETTINGS[name]}"
    table, _, part = name.partition(".")
    if table in known:
        how = f'"{table}": {{"{part}": ...}}, or -s {table}.{part}=... for a task'
        return f"{name} is part of a table; write {how}"
    if parts := [one for one in known if one.startswith(f"{name}.")]:
        return f"{name} is a table; write {', '.join(f'{part}=...' for part in parts)}"
    lower = name.lower()
    near = f" (did you mean {lower!r}?)" if lower in known else did_you_mean(name, known)
    return f"there is no setting {name!r}{near}; `config show SPIDER` lists them"
