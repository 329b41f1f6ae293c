"""Settings of Scrapy as settings of ours, and settings that cannot be mapped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scrapy import Spider
from scrapy.addons import AddonManager
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, Settings
from scrapy.settings import default_settings as defaults

from crawlframe.base.scrapy_names import NO_BROWSER
from crawlframe.identity.tls import ALL
from crawlframe.scrapy.crawler import PortedCrawler
from crawlframe.spider.settings import SpiderSettings

EVERY_STATUS = (*range(100, 200), *range(300, 600))

# Scrapy's name -> ours, for values that mean the same.
_PLAIN: dict[str, tuple[str, str]] = {
    "DOWNLOAD_TIMEOUT": ("timeout", "getfloat"),
    "DOWNLOAD_MAXSIZE": ("max_body", "getint"),
    "DEPTH_LIMIT": ("depth_limit", "getint"),
    "CLOSESPIDER_PAGECOUNT": ("page_limit", "getint"),
    "CLOSESPIDER_TIMEOUT": ("time_limit", "getfloat"),
    "REDIRECT_MAX_TIMES": ("max_redirects", "getint"),
    "COOKIES_ENABLED": ("cookies", "getbool"),
    "USER_AGENT": ("user_agent", "get"),
    "URLLENGTH_LIMIT": ("url_length", "getint"),
}
_EXPORT = "items are stored in the database; `task export` writes them to files"
_CACHE = "pages are cached by `crawl --cache`"
_PRIORITY = "a request that is sent again keeps its priority"
# Settings that have another way here.
ELSEWHERE = {
    "FEEDS": _EXPORT,
    "FEED_URI": _EXPORT,
    "HTTPCACHE_ENABLED": _CACHE,
    "JOBDIR": "all tasks survive a restart",
    "SCHEDULER": "requests are queued by Crawlframe",
    "DUPEFILTER_CLASS": "requests are compared by method, canonical URL and body",
    "REQUEST_FINGERPRINTER_CLASS": "requests are compared by method, canonical URL and body",
    "STATS_CLASS": "stats are those of the task",
    "ITEM_PROCESSOR": "items go through ITEM_PIPELINES",
    "DEPTH_PRIORITY": "lower depth goes first among equal priorities",
    "DOWNLOAD_SLOTS": "requests of one host share its delay and concurrency",
    "DNS_RESOLVER": "names are resolved by Crawlframe; see CRAWLFRAME_RESOLVER",
    "CLOSESPIDER_ITEMCOUNT": "no limit of Crawlframe counts items; set CLOSESPIDER_PAGECOUNT",
    "CLOSESPIDER_ERRORCOUNT": "no limit of Crawlframe counts errors",
    "CLOSESPIDER_PAGECOUNT_NO_ITEM": "no limit of Crawlframe counts pages without items",
    "CLOSESPIDER_TIMEOUT_NO_ITEM": "no limit of Crawlframe counts pages without items",
    "MEMUSAGE_LIMIT_MB": "CRAWLFRAME_MAX_MEMORY limits the memory of a worker",
    "LOG_FILE": "the node writes the log",
    "LOG_LEVEL": "CRAWLFRAME_LOG_LEVEL is the level of a node",
    "SPIDER_LOADER_CLASS": "spiders are found in SPIDER_MODULES",
    "COMPRESSION_ENABLED": "bodies are always asked for compressed",
    "DOWNLOAD_DELAY_JITTER": "delays are kept as they are",
    "DOWNLOAD_FAIL_ON_DATALOSS": "a body that breaks off is tried again",
    "DOWNLOAD_WARNSIZE": "there is no warning; DOWNLOAD_MAXSIZE limits it",
    "HTTPPROXY_ENABLED": "the proxies of the environment are not used",
    "REDIRECT_PRIORITY_ADJUST": _PRIORITY,
    "RETRY_PRIORITY_ADJUST": _PRIORITY,
    "RETRY_EXCEPTIONS": "fetches that failed for a temporary reason are tried again",
    "ROBOTSTXT_PARSER": "robots.txt is read by Crawlframe",
    "ROBOTSTXT_USER_AGENT": "robots.txt is read for the name in USER_AGENT",
}
# Prefixes of names without effect, unless the whole name is known.
FAMILIES = {
    "AUTOTHROTTLE_": "Crawlframe finds the pace of a host itself",
    "DNS": "names are resolved by Crawlframe; see CRAWLFRAME_RESOLVER",
    "DOWNLOADER_CLIENT": "TLS connections are made by Crawlframe",
    "DOWNLOAD_TLS_": "TLS connections are made by Crawlframe",
    "FEED_": _EXPORT,
    "HTTPCACHE_": _CACHE,
    "LOG_": "the node writes the log",
    "MEMUSAGE_": "CRAWLFRAME_MAX_MEMORY limits the memory of a worker",
    "REMOTE_CONTROL_": "a node is controlled by the admin, the API and the commands",
    "SCHEDULER_": "requests are queued by Crawlframe",
    "TELNETCONSOLE_": "a node is controlled by the admin, the API and the commands",
}
_KNOWN = ("AUTOTHROTTLE_ENABLED", "FEED_EXPORT_ENCODING")  # of families; exports are UTF-8, too
# Settings that change the fetch in a way that ours does not offer.
CANNOT = {
    "DOWNLOAD_BIND_ADDRESS": "the address to send from cannot be chosen",
}
_RENDERING = ("playwright", "splash", "selenium", "zyte")
HANDLERS = (
    "Crawlframe fetches the pages of a Scrapy project itself; a spider of crawlframe can use a "
    "plug-in: downloader='...' (docs/howto/downloaders.md)"
)


@dataclass
class Mapped:
    """``settings`` are ours. ``ignored`` and ``cannot`` are sentences that name a setting."""

    settings: dict[str, Any] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)


def merged(kind: Any, project: Settings) -> Settings:
    """The settings of a project, merged with a spider class and add-ons; the same object if there
    are none, for a copy takes 10 ms. Raises errors of add-ons."""
    inherited: Any = Spider.update_settings
    own = getattr(kind.update_settings, "__func__", None) is not inherited.__func__
    if not own and not kind.custom_settings and not project.getdict("ADDONS"):
        return project
    settings = project.copy()
    kind.update_settings(settings)
    if settings.getdict("ADDONS"):
        AddonManager(PortedCrawler(kind, project)).load_settings(settings)
    return settings


def mapped(settings: BaseSettings, spider: type) -> Mapped:
    """The settings of one spider class, merged over its project's."""
    result = Mapped()
    ours = result.settings
    for name, (key, read) in _PLAIN.items():
        if _is_set(settings, name) and settings.get(name) is not None:
            ours[key] = getattr(settings, read)(name)
    _map_pace(settings, spider, result)
    _map_answers(settings, spider, ours)
    timeout, size = getattr(spider, "download_timeout", None), _own(spider, "download_maxsize")
    if timeout and not _is_chosen(settings, "DOWNLOAD_TIMEOUT"):
        ours["timeout"] = float(timeout)
    if size and not _is_chosen(settings, "DOWNLOAD_MAXSIZE"):
        ours["max_body"] = int(size)
    if (agent := _own(spider, "user_agent")) and not _is_chosen(settings, "USER_AGENT"):
        ours["user_agent"] = str(agent)
    headers = settings.getdict("DEFAULT_REQUEST_HEADERS")
    if _is_set(settings, "DEFAULT_REQUEST_HEADERS"):
        ours["headers"] = {str(k): str(v) for k, v in headers.items() if v is not None}
    if _is_set(settings, "ROBOTSTXT_OBEY"):
        ours["robots"] = settings.getbool("ROBOTSTXT_OBEY")
    else:
        result.ignored.append(
            "ROBOTSTXT_OBEY is not set, and robots.txt is obeyed; set it to False if you may"
        )
    ours["keep_partial"] = True
    if not _is_set(settings, "DOWNLOAD_VERIFY_CERTIFICATES"):
        result.ignored.append(
            "DOWNLOAD_VERIFY_CERTIFICATES is not set, and certificates are verified, which Scrapy "
            "does not do; set it to False if any certificate will do"
        )
    elif not settings.getbool("DOWNLOAD_VERIFY_CERTIFICATES"):
        ours["tls"] = {ALL: {"verify": False}}
    ours["repeated_segments"] = 0  # Scrapy follows links that our budgets would drop
    for name in settings:
        why = ignored(name)
        usual = getattr(defaults, name, None) or None
        if why and _is_set(settings, name) and (settings.get(name) or None) != usual:
            result.ignored.append(f"{name} is ignored: {why}")
    for name, why in CANNOT.items():
        if settings.get(name):
            result.cannot.append(f"{name}: {why}")
    for scheme, handler in settings.getdict("DOWNLOAD_HANDLERS").items():
        if scheme in ("http", "https") and handler:
            rendering = any(word in str(handler).lower() for word in _RENDERING)
            why = NO_BROWSER if rendering else HANDLERS
            result.cannot.append(f"DOWNLOAD_HANDLERS[{scheme!r}]: {why}")
    return result


def ignored(name: str) -> str:
    """Why a setting of Scrapy has no effect; "" if it has one, or is not known."""
    if why := ELSEWHERE.get(name):
        return why
    families = (why for begin, why in FAMILIES.items() if name.startswith(begin))
    return "" if name in _KNOWN else next(families, "")


def theirs(settings: SpiderSettings, names: Iterable[str]) -> dict[str, Any]:
    """Settings of Scrapy for ours; ``names`` were chosen for one task. Settings that Scrapy lacks
    are left out. ``mapped`` reads the same values from them."""
    found: dict[str, Any] = {}
    back = {ours: name for name, (ours, _) in _PLAIN.items()}
    for name in names:
        value = getattr(settings, name)
        if name in back:
            found[back[name]] = value
        elif name in ("delay", "min_delay"):
            auto = settings.delay == "auto"
            found["AUTOTHROTTLE_ENABLED"] = auto
            found["DOWNLOAD_DELAY"] = settings.min_delay if auto else settings.delay
        elif name == "concurrency":
            found["CONCURRENT_REQUESTS"] = found["CONCURRENT_REQUESTS_PER_DOMAIN"] = value
        elif name == "ip":
            found["CONCURRENT_REQUESTS_PER_IP"] = value.concurrency
        elif name == "retries":
            found["RETRY_ENABLED"], found["RETRY_TIMES"] = value > 0, value
        elif name == "retry_statuses":
            found["RETRY_HTTP_CODES"] = [*value]
        elif name == "handle_statuses":
            found["HTTPERROR_ALLOW_ALL"], found["HTTPERROR_ALLOWED_CODES"] = False, [*value]
        elif name == "robots":
            found["ROBOTSTXT_OBEY"] = value
    return found


def _map_pace(settings: BaseSettings, spider: type, result: Mapped) -> None:
    ours = result.settings
    own = getattr(spider, "download_delay", None)
    known = own is not None or _is_set(settings, "DOWNLOAD_DELAY")
    delay = settings.getfloat("DOWNLOAD_DELAY")
    if own is not None and not _is_set(settings, "DOWNLOAD_DELAY", "spider"):
        delay = float(own)
    if settings.getbool("AUTOTHROTTLE_ENABLED"):
        ours["delay"], ours["min_delay"] = "auto", delay
    elif known:
        ours["delay"] = delay
    if _is_set(settings, "CONCURRENT_REQUESTS_PER_DOMAIN"):
        ours["concurrency"] = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
    if _is_set(settings, "CONCURRENT_REQUESTS"):
        most = settings.getint("CONCURRENT_REQUESTS")
        ours["concurrency"] = min(ours.get("concurrency", 8), most)
    own = getattr(spider, "max_concurrent_requests", None)
    if own and not _is_chosen(settings, "CONCURRENT_REQUESTS_PER_DOMAIN"):
        ours["concurrency"] = int(own)
    if per_ip := settings.getint("CONCURRENT_REQUESTS_PER_IP"):
        ours["ip"] = {"concurrency": per_ip}


def _map_answers(settings: BaseSettings, spider: type, ours: dict[str, Any]) -> None:
    if not settings.getbool("RETRY_ENABLED"):
        ours["retries"] = 0
    elif _is_set(settings, "RETRY_TIMES"):
        ours["retries"] = settings.getint("RETRY_TIMES")
    if _is_set(settings, "RETRY_HTTP_CODES"):
        ours["retry_statuses"] = _statuses(settings.getlist("RETRY_HTTP_CODES"))
    handled = getattr(spider, "handle_httpstatus_list", None)
    if handled is None or _is_chosen(settings, "HTTPERROR_ALLOWED_CODES"):
        handled = settings.getlist("HTTPERROR_ALLOWED_CODES")
    if settings.getbool("HTTPERROR_ALLOW_ALL"):
        handled = EVERY_STATUS
    if handled:
        ours["handle_statuses"] = _statuses(handled)


def _statuses(given: Any) -> tuple[int, ...]:
    return tuple(int(status) for status in given)


def _is_set(settings: BaseSettings, name: str, least: str = "addon") -> bool:
    """Whether the project or the spider sets it, at this priority or above."""
    return (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES[least]


def _is_chosen(settings: BaseSettings, name: str) -> bool:
    """Whether it was chosen for one task, so that attributes of the spider do not replace it."""
    return _is_set(settings, name, "cmdline")


def _own(spider: type, name: str) -> Any:
    value = getattr(spider, name, None)
    return value if isinstance(value, str | int) else None
