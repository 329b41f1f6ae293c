"""SpiderSettings: the keys that ``settings`` of a spider may have."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from crawlframe import gates
from crawlframe.base.limits import Budgets, NotNegative
from crawlframe.base.ranks import Everyday, Tuning
from crawlframe.identity.tls import Tls, check_tls
from crawlframe.proxies.selector import DIRECT, parse_selector
from crawlframe.request.checks import wrong_in_head
from crawlframe.spider.setting_tables import (
    AddressSettings,
    BrowserSettings,
    NearSettings,
    ReuseSettings,
    by_part,
)

T = TypeVar("T")
MAX_LAYERS = 1000  # the frontier distinguishes 4095 depths
STORE_MISFIT = (
    "reuse does not fit with middlewares, which may change what is sent and received; leave one of "
    "the two out"
)
Positive = Annotated[T, msgspec.Meta(gt=0)]
Kept = Literal["sample", "errors", "all", "none"]  # pages
NO_REUSE = ReuseSettings()


class SpiderSettings(Budgets, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The keys of a spider's ``settings``. Defaults are not published: older nodes refuse unknown
    settings."""

    delay: Everyday[float | Literal["auto"]] = "auto"  # seconds between requests to a host
    min_delay: NotNegative[float] = 0.0  # seconds: the least that "auto" chooses
    concurrency: Everyday[Positive[int]] = 8  # requests in flight per host, over all nodes
    ip: AddressSettings = AddressSettings()
    proxy: Everyday[str | None] = None  # "pool", "pool:<tags>" or a URL; None = no proxy
    # Delay, concurrency and rate of a host hold for each proxy of the pool or for all together.
    proxy_limits: Literal["each", "all"] = "each"
    window: str = ""  # requests go at this time of day only: "22:00-06:00 Europe/Berlin"
    depth_limit: Everyday[NotNegative[int]] = 0  # links followed from a start page; 0 = no limit
    page_limit: Everyday[NotNegative[int]] = 0  # requests admitted per task; 0 = no limit
    # Links followed from a start page, all pages of one depth before the next; 0 = as they are
    # found.
    layers: Annotated[int, msgspec.Meta(ge=0, le=MAX_LAYERS)] = 0
    pause_layers: bool = False  # the task is paused when a layer is done, until it is resumed
    timeout: Everyday[Positive[float]] = 30.0  # seconds for one fetch; a redirect is another one
    retries: Everyday[NotNegative[int]] = 2  # further attempts after a failed one
    retry_statuses: tuple[int, ...] = (408, 429, 500, 502, 503, 504, 522, 524)
    handle_statuses: tuple[int, ...] = ()  # statuses besides 2xx for which callbacks are called
    headers: Everyday[dict[str, str]] = {}
    user_agent: Everyday[str | None] = None
    tls: dict[str, Tls] = {}  # by host, "*.domain" or "*": own issuers, certificate, verify = False
    downloader: Everyday[str] = "curl"  # or "requests", "browser", or the name of a plug-in
    # "auto": by the downloader first, and again by the browser if the page is incomplete.
    render: Literal["auto"] | None = None
    browser: BrowserSettings = BrowserSettings()
    max_body: Positive[int] = 32 << 20  # bytes, also after decompression
    max_parse: Tuning[Positive[float]] = 0.5  # seconds of CPU for a parser to read a page
    # The tree for css and xpath: Scrapy's, or the browsers', which takes longer.
    selector_tree: Literal["libxml2", "browser"] = "libxml2"
    max_redirects: NotNegative[int] = 10
    max_file: Positive[int] = 1 << 30  # bytes of a saved file, as sent and after decompression
    file_timeout: Positive[float] = 3600.0  # seconds for one fetch whose body is saved
    cookies: Everyday[bool] = True
    robots: Everyday[bool] = True  # obey the robots.txt of each host
    # The use of the pages: pages that deny it end before the callback.
    purpose: Literal["search", "ai-input", "ai-train"] | None = None
    obey_nofollow: bool = False  # do not follow links that a page marks as nofollow
    obey_noindex: bool = False  # do not store items of pages that say noindex
    # "template": links of most pages of a host, such as its navigation, are followed once.
    denoise: Literal["template"] | None = None
    # Of the URLs that learned rules say are one page, the first one that is found is fetched.
    aliases: bool = False
    # "recorded": a new version of its code is refused if its recorded pages fail.
    check: Literal["recorded"] | None = None
    # Of the pages that were fetched. "sample", "errors": all, if reuse or fetch_only needs them.
    keep: Everyday[Kept] = "sample"
    # If a callback raises, its earlier results are kept; if one of its results is refused, the rest
    # is.
    keep_partial: bool = False
    # Callbacks are not run: kept pages are parsed later. "start": the pages that start and sitemaps
    # name; "links": also pages that they link to within allowed_domains.
    fetch_only: Literal["start", "links"] | None = None
    reuse: Everyday[ReuseSettings] = NO_REUSE
    near_duplicates: NearSettings = NearSettings(action="off")
    failed_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = (
        0.5  # part of the pages above which errors make a task failed
    )

    def by_part(self) -> dict[str, Any]:
        """All values as JSON has them, tables by their parts."""
        names = by_part(self.__struct_fields__)
        return {name: msgspec.to_builtins(attrgetter(name)(self)) for name in names}

    @property
    def unverified(self) -> list[str]:
        """The hosts whose certificates are not verified."""
        return [host for host, tls in self.tls.items() if not tls.verify]

    @property
    def uses_store(self) -> bool:
        """Whether pages that were kept spare fetches or callbacks."""
        return self.reuse != NO_REUSE

    @property
    def kept(self) -> Kept:
        """Which pages are kept."""
        needed = self.keep != "none" and (self.uses_store or self.fetch_only)
        return "all" if needed else self.keep

    def __post_init__(self) -> None:
        if self.proxy is not None:
            try:
                msgspec.structs.force_setattr(self, "proxy", parse_selector(self.proxy))
            except ValueError as error:
                raise ValueError(f"proxy {error}") from None
        agent = {"User-Agent": self.user_agent} if self.user_agent else {}
        check_tls(self.tls)
        if problem := wrong_in_head(agent | self.headers, {}):
            raise ValueError(problem)
        if self.delay != "auto":
            if self.delay < 0:
                raise ValueError("delay must not be negative")
            if self.min_delay:
                raise ValueError('min_delay belongs to delay = "auto"; leave one of the two out')
        for name in gates.names():
            if value := getattr(self, name):
                gates.check(name, value)
        if self.pause_layers and not self.layers:
            raise ValueError("pause_layers needs layers: say how many, such as 3")
        for name, needed in (("fetch_only", self.fetch_only), ("reuse", self.uses_store)):
            if needed and self.keep == "none":
                raise ValueError(f"{name} needs pages that are kept; leave keep out")
        if self.fetch_only and self.reuse.skip_unchanged:
            raise ValueError(
                "reuse.skip_unchanged needs what callbacks yield, and fetch_only runs none"
            )
        if self.fetch_only and self.render:
            raise ValueError('render = "auto" needs the items of a page, which fetch_only leaves')
        if self.purpose and not self.robots:
            raise ValueError("purpose needs robots, because robots.txt says what pages are for")
        if self.uses_store and self.render:
            raise ValueError('reuse does not fit with render = "auto"; leave one of them out')
        if self.ip.limited and self.proxy not in (None, DIRECT):
            raise ValueError("ip does not fit with a proxy, which makes the connections")
        if self.near_duplicates.action != "off" and self.render:
            raise ValueError(
                'near_duplicates does not fit with render = "auto", because it is not known yet '
                "whether a page is complete when it is compared; leave one of them out"
            )
