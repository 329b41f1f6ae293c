"""TaskCrawl: one task in a worker, and whether a request matches the code of its spider."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from crawlframe.actions import keeps_page
from crawlframe.base.limits import ByteBudget
from crawlframe.base.secret import Secret
from crawlframe.base.signatures import is_async, misfit
from crawlframe.base.urls import hostname_of, is_within
from crawlframe.errors import BadRequest, FetchError, SpiderError, UnknownCallback
from crawlframe.fetch.journey.cookies import TaskCookies
from crawlframe.fetch.middlewares import Middlewares
from crawlframe.items.pipelines import Pipelines
from crawlframe.node.worker.crawl.traps import TrapWatch
from crawlframe.noise.followed_once import FollowedOnce
from crawlframe.proxies.place import route_of
from crawlframe.proxies.selector import DIRECT
from crawlframe.request.downloader_names import BROWSER
from crawlframe.request.options import NO_OPTIONS
from crawlframe.request.request import END_CALLBACK, ROOT_CALLBACK, Request, make_rid
from crawlframe.response.response import Response
from crawlframe.robots.usage import FOLLOW, INDEX
from crawlframe.run.collector import Collector
from crawlframe.run.ledger import TaskSpec
from crawlframe.run.link_filters import (
    DomainFilter,
    Ended,
    Follow,
    KnownByRules,
    KnownFilter,
    LinkFilter,
    LinkLimits,
    LinkPage,
    PageLimits,
    RenderedFragments,
    Repeated,
    Sieve,
    SpiderFollow,
    TemplateOnce,
)
from crawlframe.run.outcome import Outcome
from crawlframe.run.revisit_notes import Watching
from crawlframe.spider.settings import STORE_MISFIT, SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.spider.task_info import Summary
from crawlframe.spider.task_settings import overridden

if TYPE_CHECKING:
    from crawlframe.spider.page_objects import PageObjects


@dataclass
class TaskCrawl:
    """One task in this worker, with its spider object, which is made once."""

    spec: TaskSpec
    spider: Spider
    start_arguments: dict[str, Any]
    settings: SpiderSettings
    cookies: TaskCookies = field(default_factory=TaskCookies)
    cookie_version: int = 0
    domains: tuple[str, ...] = ()
    middlewares: Middlewares | None = None
    pipelines: Pipelines = field(default_factory=Pipelines)
    budget: ByteBudget | None = None
    traps: TrapWatch | None = None
    pages: PageObjects | None = None
    watching: Watching | None = None
    aliases: KnownByRules | None = None
    required: tuple[str, ...] | None = None  # fields of items; None: not read yet
    used: float = 0.0  # time.monotonic() when a request asked for it last
    misfits: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)  # callbacks that got a page
    filters: list[LinkFilter] = field(default_factory=list)  # of links, in their order
    stages: dict[Hashable, Any] = field(default_factory=dict)  # of its fetches, by kind of claim

    @classmethod
    def of(
        cls,
        spec: TaskSpec,
        spider: Spider,
        start_arguments: dict[str, Any],
        middlewares: Middlewares | None,
        pipelines: Pipelines,
    ) -> TaskCrawl:
        """Returns the task with this spider object and its settings. Raises SpiderError,
        ArgumentError for settings of the task that do not fit, and errors of the author's
        properties."""
        if "middlewares" in vars(spider):
            raise SpiderError("middlewares belong to the class, not to self")
        settings = overridden(read_settings(type(spider)), spec.settings)
        if settings.uses_store and middlewares is not None:
            raise SpiderError(STORE_MISFIT)
        if spec.reparse is not None:
            settings = replace(settings, fetch_only=None)
        if settings.fetch_only == "links" and not spider.allowed_domains:
            raise SpiderError(
                f'spider {spec.spider!r}: fetch_only = "links" needs allowed_domains, or it would '
                "fetch every page that others link to"
            )
        limited = settings.byte_limit or settings.host_byte_limit
        budget = ByteBudget(settings.byte_limit, settings.host_byte_limit) if limited else None
        stops = settings.traps == "stop"
        traps = None if settings.traps == "off" else TrapWatch(spec.task, stops=stops)
        crawl = cls(
            spec,
            spider,
            start_arguments,
            settings,
            domains=tuple(domain.lower() for domain in spider.allowed_domains),
            middlewares=middlewares,
            pipelines=pipelines,
            budget=budget,
            traps=traps,
            pages=_page_objects_of(spider),
            watching=Watching.of(spec.watch, spider) if spec.watch else None,
            # Not by the setting: the code may have changed since the task was submitted.
            aliases=KnownByRules(spec.aliases, spider.log.info) if spec.aliases else None,
        )
        crawl.filters += crawl._filters()
        return crawl

    def _filters(self) -> Iterator[LinkFilter]:
        own = self.settings
        if self.follow is not None:
            yield SpiderFollow(self.follow)
        if own.reuse.skip_unchanged:
            yield Repeated()
        yield Ended()
        if self.domains:
            yield DomainFilter(self.allows_url)
        if own.depth_limit or own.layers or own.obey_nofollow:
            yield PageLimits(own.depth_limit, own.layers)
        if own.denoise:
            yield TemplateOnce(FollowedOnce(self.spider.log.info))
        if own.downloader == BROWSER:
            yield RenderedFragments()
        if self.aliases is not None:
            yield self.aliases
        yield KnownFilter()
        limits = LinkLimits(own, self.budget, self.traps)
        if limits.limits:
            yield limits
        if self.watching is not None:
            yield self.watching

    def collector(
        self, outcome: Outcome, request: Request, got: Any, response: Response | None, sieve: Sieve
    ) -> Collector:
        """Returns a collector for ``got``, which is None for ``start``. Results that are taken over
        have passed through everything before."""
        new, own = outcome.results.earlier is None, self.settings
        usage = None if response is None else response.usage
        page = LinkPage(
            outcome,
            depth=0 if got is None else request.depth + 1,
            priority=self.spec.priority,
            response=response,
            known=sieve.of(outcome.task),
            ends=isinstance(got, Summary),
            again=not new,
            failed=isinstance(got, FetchError),
            nofollow=own.obey_nofollow and usage is not None and usage.denies(FOLLOW),
            route=self.route,
        )
        return Collector(
            page,
            self.filters,
            pipelines=self.pipelines if new else None,
            noindex=own.obey_noindex and usage is not None and usage.denies(INDEX),
            keeps=self.keeps_parts,
        )

    def allows(self, hostname: str) -> bool:
        """Whether the host is one of allowed_domains, or below one."""
        return not self.domains or is_within(hostname, self.domains)

    def allows_url(self, url: str) -> bool:
        return self.allows(hostname_of(url))

    @cached_property
    def owner(self) -> str:
        """Names its spider with its arguments."""
        given = msgspec.json.encode(self.spec.arguments, enc_hook=_revealed, order="deterministic")
        return f"{self.spec.spider}\0{hashlib.blake2b(given, digest_size=16).hexdigest()}"

    @property
    def follow(self) -> Follow | None:
        """The spider's own follow method, or None."""
        follow = self.spider.follow
        return None if getattr(follow, "__func__", None) is Spider.follow else follow

    def route(self, request: Request) -> str:
        """Through which proxies a request goes; "" for none. Raises BadRequest."""
        options, settings = request.options, self.settings
        choice = options.proxy or settings.proxy
        if choice is None or choice == DIRECT:
            return ""
        if settings.ip.limited:
            raise BadRequest(
                f"request {request.url}: its spider has limits of IP addresses (ip), which do not "
                "fit with a proxy"
            )
        session = "" if options.session is None else f"{self.spec.task}.{options.session}"
        return route_of(choice, shared=settings.proxy_limits == "all", session=session)

    @property
    def parent(self) -> int:
        """The task whose pages it parses, and whose requests it does not make; 0: there is none."""
        return self.spec.reparse.task if self.spec.reparse else 0

    @cached_property
    def keeps_parts(self) -> bool:
        """Whether the results of a callback that raises are kept. A visit is a whole."""
        return self.settings.keep_partial and self.watching is None

    @cached_property
    def judges_blocks(self) -> bool:
        """Whether the spider has an ``is_blocked`` of its own."""
        return getattr(self.spider.is_blocked, "__func__", None) is not Spider.is_blocked

    def rid_of(self, request: Request) -> bytes:
        """The rid that a link to it has in this task."""
        alias = None if self.aliases is None else self.aliases.find(request)
        return make_rid(self.spec.task, request.fingerprint(None if alias is None else alias.key))

    def retries(self, request: Request) -> int:
        """Further attempts after a failed one."""
        own = request.options.retries
        return self.settings.retries if own is None else own

    def handles(self, request: Request, status: int) -> bool:
        """Whether the callback is called for this status."""
        if 200 <= status < 300:
            return True
        own = request.options.handles(status)
        return status in self.settings.handle_statuses if own is None else own


def _page_objects_of(spider: Spider) -> PageObjects | None:
    if "web_poet" not in sys.modules:  # nothing can be a page object
        return None
    from crawlframe.spider.page_objects import PageObjects

    return PageObjects(spider)


class Park(Exception):
    """The request cannot run now. ``lack_of_code``: it may run with another version."""

    lack_of_code = True


def method(crawl: TaskCrawl, name: str) -> Callable[..., Any]:
    """The spider's method with this name. Raises Park."""
    function = getattr(crawl.spider, name, None)
    if not callable(function) or getattr(function, "__func__", None) is Spider.parse:
        raise Park(str(UnknownCallback(f"spider {crawl.spec.spider!r} has no method {name!r}")))
    return function  # type: ignore[no-any-return]


def check_fit(crawl: TaskCrawl, request: Request) -> None:
    """Raises Park when the callback does not exist, does not accept the request's cb_kwargs, or
    cannot use the page that it keeps: a queued request may be older or newer than the code."""
    name = request.callback or "parse"
    asked = (name, frozenset(request.cb_kwargs))
    if asked not in crawl.misfits:
        function = method(crawl, name)
        made = crawl.pages.parameters(function) if crawl.pages else ()
        crawl.misfits[asked] = misfit(function, None, keywords=asked[1].union(made))
    problem = crawl.misfits[asked]
    kept = request.options is not NO_OPTIONS and keeps_page(request.options.actions)
    if not problem and kept and not is_async(inspect.unwrap(method(crawl, name))):
        problem = (
            f"KeepPage is for callbacks that await response.page(); make it `async def {name}`"
        )
    if problem:
        raise Park(f"{name} of spider {crawl.spec.spider!r} does not fit the request: {problem}")


def called(
    crawl: TaskCrawl,
    request: Request,
    got: Response | FetchError | Summary | None,
    *,
    again: bool = False,
) -> tuple[str, Callable[[], Any], Response | None]:
    """The method that gets this (None: ``start``), by name, its call, and the page. ``again``: a
    kept page is parsed, also if the task only fetches. Raises Park."""
    if got is None:
        run = partial(method(crawl, ROOT_CALLBACK), **crawl.start_arguments)
        return ROOT_CALLBACK, run, None
    if isinstance(got, FetchError | Summary):
        name = END_CALLBACK if isinstance(got, Summary) else request.errback or ""
        response = got.response if isinstance(got, FetchError) else None
        return name, partial(method(crawl, name), got), response
    name = request.callback or "parse"
    if crawl.settings.fetch_only and not again and not finds_pages(method(crawl, name)):
        return name, partial(links_of, got, crawl.settings.fetch_only), got
    return name, call_of(crawl, name, got, request.cb_kwargs), got


def finds_pages(function: Callable[..., Any]) -> bool:
    """Whether a callback only reads a list of pages, as the sitemap callback does."""
    return getattr(function, "finds_pages", False) is True


def links_of(response: Response, what: str) -> Iterator[Request]:
    """Yields the links of a page, for a task that only fetches."""
    if what == "links":
        for url in response.links():
            yield Request.plain(url)


def call_of(
    crawl: TaskCrawl, name: str, response: Response, cb_kwargs: dict[str, Any]
) -> Callable[[], Any]:
    """The call of a callback, with the page objects that it asks for. Raises Park."""
    function = method(crawl, name)
    if crawl.pages is None:
        return partial(function, response, **cb_kwargs)
    return crawl.pages.bind(function, response, cb_kwargs)


def _revealed(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else repr(value)
