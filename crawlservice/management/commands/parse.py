"""parse: fetches one page as a node would, and shows the results of a callback."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.conf import settings
from msgspec.structs import replace

import crawlframe
import crawlservice
from crawlframe.base.program import command
from crawlframe.base.urls import hostname_of, is_within, normalise
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError, CrawlframeError, PageClosed
from crawlframe.fetch.downloader import Downloader
from crawlframe.fetch.journey.context import NO_CONTEXT, FetchContext
from crawlframe.identity.identity import Identity
from crawlframe.load_spiders import load_spiders
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.downloader_names import known
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.shell.shell import allow_here
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider, read_settings
from crawlframe.testing import Result
from crawlframe.testing.trial import Trial
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.listing import plain
from crawlservice.cli.named_spider import NamedSpider, NamedSpiders
from crawlservice.cli.secret_input import with_secrets
from crawlservice.cli.terminal import add_arguments
from crawlservice.identity.page_robots import PageRobots
from crawlservice.identity.papers import identity_here
from crawlservice.proxies.pool import pool_here
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.spider_arguments import parse_pairs

KEEP_PAGE = '[{"do": "keep_page"}]'  # as --actions
ACTIONS = f"list of objects, such as {KEEP_PAGE}"
OBJECT = 'object, such as {"page": 2}'
# Frames between the command and the author's code.
OURS = tuple(one.__path__[0] + os.sep for one in (asyncio, crawlframe, crawlservice))


class Command(ServiceCommand):
    help = (
        "Fetches one URL with a spider's settings and runs its callback. Items go to standard "
        "output as JSON, requests and numbers to standard error. Nothing is stored; neither Redis "
        "nor a database is needed. Exits with 1 when the fetch or the callback fails."
    )
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("url")
        parser.add_argument(
            "--spider", help="its name; by default the one whose allowed_domains has the host"
        )
        parser.add_argument("--callback", help="a method of the spider; parse by default")
        add_arguments(parser)
        parser.add_argument("--cb-kwargs", metavar="JSON", help="arguments of the callback")
        parser.add_argument("--meta", metavar="JSON", help="meta of the request")
        parser.add_argument("--downloader", choices=known())
        parser.add_argument(
            "--actions", metavar="JSON",
            help="the browser's actions on the page, a list such as "
            f"""'{KEEP_PAGE}' for callbacks that use response.page()""",
        )  # fmt: skip
        parser.add_argument("--robots", action="store_true", help="ask robots.txt first")
        parser.add_argument("--no-middlewares", action="store_true", help="fetch without them")
        parser.add_argument("--no-pipelines", action="store_true", help="items as yielded")

    def handle(self, *args: Any, **options: Any) -> None:
        request = Request(
            options["url"],
            options["callback"],
            cb_kwargs=from_json("--cb-kwargs", options["cb_kwargs"], dict, OBJECT),
            meta=from_json("--meta", options["meta"], dict, OBJECT),
            downloader=options["downloader"],
            actions=from_json("--actions", options["actions"], list, ACTIONS),
        )
        registry = load_spiders(settings.CRAWLFRAME)
        named = _spider(registry, options["spider"], options["url"])
        if named.note:
            self.stderr.write(f"note: {named.note}")
        identity, lacks = identity_here()
        if lacks:
            self.stderr.write(f"note: {lacks}")
        if sys.stdin.isatty():
            allow_here()
        parser = PageParser(
            settings.CRAWLFRAME,
            named,
            parse_pairs(options["arguments"]),
            middlewares=not options["no_middlewares"],
            pipelines=not options["no_pipelines"],
            robots=options["robots"],
            identity=identity,
            pick=pool_here(),
        )
        for problem in registry.broken.values():
            self.stderr.write(f"warning: not loaded: {problem.partition(chr(10))[0]}")
        try:
            result = parser.parse(request)
        except NotParsed as error:
            if error.trace:
                self.stderr.write(plain(error.trace))
            raise
        if parser.response is not None:
            page = parser.response
            self._say(f"{page.status} {page.url} ({len(page.body):,} bytes)")
        self._show(result)

    def _show(self, result: Result) -> None:
        out = self.stdout
        for proxy in result.proxies:
            self._say(f"for the pool: {proxy}")
        for item in result.items:
            if out.isatty():
                out.write(plain(json.dumps(item, ensure_ascii=False, indent=2)))
            else:
                out.write(json.dumps(item, ensure_ascii=False))
        out.flush()
        for request in result.requests:
            self._say(repr(request))
        self._say(f"items: {len(result.items):,}, requests: {len(result.requests):,}")
        for title, numbers in (
            ("dropped", result.dropped), ("not followed", result.unfollowed),
            ("counted", result.stats), ("largest", result.maxima),
        ):  # fmt: skip
            if numbers:
                self._say(f"{title}: {', '.join(f'{k} {v:,}' for k, v in numbers.items())}")
        if result.closing:
            self._say(f"closes the task: {result.closing}")

    def _say(self, text: str) -> None:
        self.stderr.write(plain(text), str)  # not in the colour of errors


def _spider(registry: Registry, name: str | None, url: str) -> NamedSpider:
    """Raises UnknownSpider, ArgumentError and BadRequest."""
    spiders = NamedSpiders(registry)
    return spiders.get(name or spider_for(registry, normalise(url)).name)


def from_json(option: str, text: str | None, kind: type, form: str) -> Any:
    """The value of an option; None if it was not given. Raises ArgumentError if it is not JSON, or
    of another ``kind``."""
    try:
        value = None if text is None else json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"{option} is not JSON: {error}") from None
    entries = value if isinstance(value, list) else ()
    if not isinstance(value, kind | None) or not all(isinstance(one, dict) for one in entries):
        raise ArgumentError(f"{option} must be a JSON {form}")
    return value


class NotParsed(CrawlframeError):
    """The page was not fetched, or its callback raised. ``trace`` is the author's traceback, ""
    when none of their code is in it."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


@dataclass
class PageParser:
    """``arguments`` are text, as typed; arguments that the callback does not use may be missing."""

    settings: Settings
    named: NamedSpider
    arguments: dict[str, str] = field(default_factory=dict)
    middlewares: bool = True
    pipelines: bool = True
    robots: bool = False  # ask robots.txt
    identity: Identity | None = None
    pick: Callable[[str], ChosenProxy | None] = lambda choice: None
    response: Response | None = None  # the latest download

    def parse(self, request: Request) -> Result:
        """Returns the result of one try of a request. Raises NotParsed, ArgumentError, and
        SpiderError if the request does not fit the spider."""
        kind = self.named.kind
        if request.callback is None and kind.parse is Spider.parse:
            some = ", ".join(_callbacks(kind)) or "none"
            raise ArgumentError(
                f"spider {kind.name!r} has no method 'parse'; add --callback, its callbacks: {some}"
            )
        trial = Trial(
            kind,
            _Remembering(self),
            self._checked_arguments(),
            middlewares=self.middlewares,
            pipelines=self.pipelines,
            settings=self.settings,
        )
        try:
            result = trial.run(request)
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            # From the first frame on that is not ours.
            frames = traceback.extract_tb(error.__traceback__)
            first = next(
                (n for n, one in enumerate(frames) if not one.filename.startswith(OURS)), None
            )
            trace = "" if first is None else "".join(traceback.format_list(frames[first:]))
            if isinstance(error, CrawlframeError) and not trace:
                raise
            what = "".join(traceback.format_exception_only(error)).strip()
            if isinstance(error, PageClosed):
                what += f"; here: add --actions '{KEEP_PAGE}'"
            raise NotParsed(f"the spider raised {what}", trace) from None
        if result.end != "done":
            more = "; a node would try again" if result.end == "retry" else ""
            raise NotParsed(f"{result.reason}: {result.detail}{more}")
        return result

    def _checked_arguments(self) -> dict[str, Any]:
        info = self.named.info
        lenient = replace(info, arguments={**info.arguments, "required": []})
        given = with_secrets(info, self.arguments)
        return spider_arguments.check(lenient, given, from_text=True, any_file=True)


class _Remembering(Downloader):
    """Keeps the response for its owner."""

    def __init__(self, owner: PageParser) -> None:
        super().__init__(owner.settings, owner.identity, pick=owner.pick)
        self._owner = owner

    async def fetch(
        self, request: Request, settings: SpiderSettings, context: FetchContext = NO_CONTEXT
    ) -> Response:
        via = self.proxy_for(request, settings)
        context = dataclasses.replace(context, proxy=via)
        if not self._owner.robots:
            response = await super().fetch(request, settings, context)
        else:
            own = read_settings(self._owner.named.kind).user_agent or ""
            through = partial(super().fetch, context=FetchContext(proxy=via))
            check = PageRobots(self._owner.settings, through, own)
            response = await super().fetch(
                request, settings, dataclasses.replace(context, check=check)
            )
            response.robots = check.rules
        self._owner.response = response
        return response


def spider_for(registry: Registry, url: str) -> type[Spider]:
    """Returns the only spider, or the only one that has the host of ``url`` in ``allowed_domains``.
    Raises ArgumentError if there is none, or more than one."""
    host = hostname_of(url)
    spiders = registry.spiders
    found = [name for name, spider in spiders.items() if _names(spider, host)]
    if len(found) == 1 or len(spiders) == 1:
        return registry.get((found or [*spiders])[0])
    if not spiders:
        raise ArgumentError(f"no spider is loaded; {command('check')} says why")
    some = f"{' and '.join(found)} have" if found else "no spider has"
    raise ArgumentError(
        f"{some} {host} in allowed_domains; add --spider NAME, one of {', '.join(spiders)}"
    )


def _callbacks(spider: type[Spider]) -> list[str]:
    """The methods of the author that take a response."""
    own = [vars(kind) for kind in spider.__mro__ if not kind.__module__.startswith("crawlframe.")]
    return [
        name
        for name in dict.fromkeys(name for names in own for name in names)
        if not name.startswith("_")
        and inspect.isfunction(function := getattr(spider, name, None))
        and "response" in inspect.signature(function).parameters
    ]


def _names(spider: type[Spider], host: str) -> bool:
    return is_within(host, map(str.lower, spider.allowed_domains))
