"""CrawlSpider: follows the links of pages by rules, and calls a callback for their pages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from crawlframe.errors import SpiderError
from crawlframe.markup.links import Link
from crawlframe.request.request import Request
from crawlframe.response.link_extractor import LinkExtractor
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider
from crawlframe.spiders.results import stream

FOLLOWING = "_and_follow"  # after the name of a callback: the page is followed by the rules, too

Method = Callable[..., Any] | str


class Extractor(Protocol):
    """An object that finds the links of a page, such as a LinkExtractor."""

    def extract_links(self, response: Response) -> Iterable[Link]: ...


class Rule:
    """A rule: the links of a page to follow, and the callback for the pages they lead to.

    ``link_extractor`` finds the links: a LinkExtractor, or any object with ``extract_links``; by
    default all links. ``callback`` and ``errback`` are methods of the spider, or their names;
    ``cb_kwargs`` are passed to the callback. ``follow``: whether the rules are applied to those
    pages, too; by default if there is no callback. ``process_links`` is called with the links of a
    page, and returns those to follow; ``process_request`` with each Request and the Response it was
    found in, and returns it, another Request, or None to drop it. Both are functions, or names of
    methods of the spider."""

    def __init__(
        self,
        link_extractor: Extractor | None = None,
        callback: Method | None = None,
        *,
        cb_kwargs: Mapping[str, Any] | None = None,
        follow: bool | None = None,
        process_links: Method | None = None,
        process_request: Method | None = None,
        errback: Method | None = None,
    ) -> None:
        self.link_extractor = LinkExtractor() if link_extractor is None else link_extractor
        self.callback, self.errback = callback, errback
        self.cb_kwargs = dict(cb_kwargs or {})
        self.follow = callback is None if follow is None else follow
        self.process_links, self.process_request = process_links, process_request


class CrawlSpider(Spider):
    """Follows the links of pages by its ``rules``.

    Each page of ``start_urls`` goes to ``parse_start_url``; its links, and links of pages that a
    rule follows, are compared with the rules in order, and the first rule that matches a link
    decides. ``parse`` applies the rules, and belongs to this class.

    Raises SpiderError when a class with wrong rules is defined."""

    rules: ClassVar[Any] = ()  # a list of Rule, or a property that returns one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.name:
            return
        if cls.parse is not CrawlSpider.parse:
            raise SpiderError(
                f"spider {cls.name!r}: parse applies the rules; write parse_start_url for the "
                "pages of start_urls, and give callbacks of rules another name"
            )
        if not isinstance(cls.rules, property | cached_property):
            bind(cls, cls.rules)

    def parse(self, response: Response) -> Any:
        """Calls ``parse_start_url``, and follows the links by the rules."""
        return self._call_and_follow(self.parse_start_url, response)

    def parse_start_url(self, response: Response) -> Any:
        """Called with each page of ``start_urls``; yields items and Requests. By default none."""
        return ()

    def follow_rules(self, response: Response) -> Iterator[Request]:
        """Yield a Request for each link of the page that matches a rule."""
        seen: set[str] = set()
        for rule in self._rules:
            links = [
                link for link in rule.extract_links(response)
                if link.url not in seen
            ]  # fmt: skip
            seen.update(link.url for link in links)
            for link in links if rule.process_links is None else rule.process_links(links):
                request = Request(
                    link.url, rule.callback, cb_kwargs=rule.cb_kwargs, errback=rule.errback
                )
                changed: Request | None = request
                if rule.process_request is not None:
                    changed = rule.process_request(request, response)
                if changed is not None:
                    yield changed

    @cached_property
    def _rules(self) -> list[BoundRule]:
        return bind(self, self.rules)

    def _call_and_follow(
        self, callback: Callable[..., Any], response: Response, **arguments: Any
    ) -> Any:
        def results() -> Iterator[Any]:
            yield callback(response, **arguments)
            yield from self.follow_rules(response)

        return stream(results(), callback)

    if not TYPE_CHECKING:  # for a type checker, every attribute would exist

        def __getattr__(self, name: str) -> Any:
            """``parse_item_and_follow`` is ``parse_item``, and then the rules. So a queued request
            names the author's method, and waits if a new version of the code no longer has it."""
            own = name.removesuffix(FOLLOWING)
            callback = getattr(self, own, None) if own and own != name else None
            if not callable(callback):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

            @functools.wraps(callback)
            def call_and_follow(response: Response, **arguments: Any) -> Any:
                return self._call_and_follow(callback, response, **arguments)

            return call_and_follow


class BoundRule(NamedTuple):
    """A rule of one spider: the names of its methods, and its functions."""

    extract_links: Callable[[Response], Iterable[Link]]
    callback: str
    errback: str | None
    cb_kwargs: dict[str, Any]
    process_links: Callable[[list[Link]], Iterable[Link]] | None
    process_request: Callable[[Request, Response], Request | None] | None


def bind(spider: CrawlSpider | type[CrawlSpider], rules: Any) -> list[BoundRule]:
    """Return the rules with the methods of a spider. Raises SpiderError naming the rule."""
    if isinstance(rules, Rule) or not isinstance(rules, Iterable):
        raise SpiderError(f"spider {spider.name!r}: rules must be a list of Rule, not {rules!r}")
    return [_bind(spider, rule, number) for number, rule in enumerate(rules, 1)]


def _bind(spider: CrawlSpider | type[CrawlSpider], rule: Any, number: int) -> BoundRule:
    where = f"spider {spider.name!r}: rule {number}"
    if not isinstance(rule, Rule):
        raise SpiderError(f"{where} is {rule!r}, of {type(rule).__module__}; write crawlframe.Rule")
    if not callable(getattr(rule.link_extractor, "extract_links", None)):
        raise SpiderError(f"{where}: {rule.link_extractor!r} is no LinkExtractor")
    callback = _name(spider, rule.callback, f"{where}: callback")
    if callback == "parse":
        raise SpiderError(f"{where}: parse applies the rules; give the callback another name")
    if callback is None:
        callback = "follow_rules" if rule.follow else None
    elif rule.follow:
        callback += FOLLOWING
    if callback is None:
        raise SpiderError(f"{where} has no callback and does not follow: its pages are for nothing")
    return BoundRule(
        rule.link_extractor.extract_links,
        callback,
        _name(spider, rule.errback, f"{where}: errback"),
        rule.cb_kwargs,
        _function(spider, rule.process_links, f"{where}: process_links"),
        _function(spider, rule.process_request, f"{where}: process_request"),
    )


def _name(spider: Any, method: Method | None, what: str) -> str | None:
    """The name of a method of the spider, given by its name or as a function of the class."""
    name = method if method is None or isinstance(method, str) else getattr(method, "__name__", "")
    if name is not None and not callable(getattr(spider, name or " ", None)):
        raise SpiderError(f"{what}: the spider has no method {name or method!r}")
    return name


def _function(spider: Any, function: Method | None, what: str) -> Any:
    if function is None or not isinstance(function, str):
        if function is not None and not callable(function):
            raise SpiderError(f"{what}: {function!r} is neither a function nor a method's name")
        return function
    _name(spider, function, what)
    return getattr(spider, function)
