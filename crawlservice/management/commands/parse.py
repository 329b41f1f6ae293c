"""parse: fetches one page as a node would, and shows what a callback makes of it."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from crawlframe.base.urls import normalise
from crawlframe.code.registry import Registry
from crawlframe.errors import ArgumentError
from crawlframe.load_spiders import load_spiders
from crawlframe.request.downloader_names import known
from crawlframe.request.request import Request
from crawlframe.shell.shell import allow_here
from crawlframe.testing import Result
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.named_spider import NamedSpider, NamedSpiders
from crawlservice.cli.parse_page import KEEP_PAGE, NotParsed, PageParser, spider_for
from crawlservice.cli.terminal import plain
from crawlservice.identity.papers import identity_here
from crawlservice.proxies.local_pool import pool_here
from crawlservice.tasks.arguments.spider_arguments import parse_pairs


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
        parser.add_argument(
            "-a", dest="arguments", action="append", default=[], metavar="NAME=VALUE",
            help="an argument of the spider; may be repeated",
        )  # fmt: skip
        parser.add_argument("--cb-kwargs", metavar="JSON", help="arguments of the callback")
        parser.add_argument("--meta", metavar="JSON", help="meta of the request")
        parser.add_argument("--downloader", choices=known())
        parser.add_argument(
            "--actions", metavar="JSON",
            help="what the browser does on the page, a list such as "
            f"""'{KEEP_PAGE}' for callbacks that use response.page()""",
        )  # fmt: skip
        parser.add_argument("--robots", action="store_true", help="ask robots.txt first")
        parser.add_argument("--no-middlewares", action="store_true", help="fetch without them")
        parser.add_argument("--no-pipelines", action="store_true", help="items as yielded")

    def handle(self, *args: Any, **options: Any) -> None:
        request = Request(
            options["url"],
            options["callback"],
            cb_kwargs=json_object("--cb-kwargs", options["cb_kwargs"]),
            meta=json_object("--meta", options["meta"]),
            downloader=options["downloader"],
            actions=json_actions("--actions", options["actions"]),
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


def json_actions(option: str, text: str | None) -> list[dict[str, Any]] | None:
    """Raises ArgumentError."""
    value = _from_json(option, text)
    if value is not None and not (
        isinstance(value, list) and all(isinstance(one, dict) for one in value)
    ):
        raise ArgumentError(f"{option} must be a JSON list of objects, such as {KEEP_PAGE}")
    return value


def json_object(option: str, text: str | None) -> dict[str, Any] | None:
    """Raises ArgumentError."""
    value = _from_json(option, text)
    if value is not None and not isinstance(value, dict):
        raise ArgumentError(f'{option} must be a JSON object, such as {{"page": 2}}')
    return value


def _from_json(option: str, text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"{option} is not JSON: {error}") from None
