"""CrawlSpider: links by rules, callbacks of every form, and rules that are wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe import CrawlSpider, Link, LinkExtractor, Request, Response, Rule
from crawlframe.code.registry import Registry
from crawlframe.errors import SpiderError
from crawlframe.spider.spider import describe
from crawlframe.testing import make_response, run

HTML = """<a href="/page/2">Next</a><a href="/item/1" rel=nofollow>One</a><a href="/item/2">Two</a>
<a href="/login">Log in</a><a href="https://other.example/item/9">Nine</a><a href="/item/2">Two</a>
"""
URL = "https://shop.example/"
WRONG: Any = 3


class Shop(CrawlSpider):
    name = "shop"
    start_urls = (URL,)
    allowed_domains = ("shop.example",)
    rules = (
        Rule(LinkExtractor(r"/page/")),
        Rule(LinkExtractor(r"/item/"), "parse_item", cb_kwargs={"shelf": "tea"}),
        Rule(LinkExtractor(r"/item/|/login"), "never", errback="failed"),
    )

    def parse_start_url(self, response: Response) -> Any:
        return {"start": response.url}

    def parse_item(self, response: Response, shelf: str = "") -> Iterator[Any]:
        yield {"item": response.url, "shelf": shelf}

    def never(self, response: Response) -> None: ...

    def failed(self, error: Any) -> None: ...


def page(request: Request | None = None) -> Response:
    return make_response(URL, html=HTML, request=request)


def with_rules(*rules: Any, **more: Any) -> type[Shop]:
    """A subclass of Shop with these rules."""
    return type("Other", (Shop,), {"name": "other", "rules": rules, **more})


def test_the_first_rule_that_matches_a_link_decides() -> None:
    result = run(Shop, page())
    assert result.items == [{"start": URL}]
    assert result.requests == [
        Request(f"{URL}page/2", "follow_rules"),
        Request(f"{URL}item/1", "parse_item", cb_kwargs={"shelf": "tea"}),
        Request(f"{URL}item/2", "parse_item", cb_kwargs={"shelf": "tea"}),
        Request(f"{URL}login", "never", errback="failed"),
    ]


def test_start_asks_for_the_start_urls() -> None:
    assert run(Shop).requests == [Request(URL)]


def test_pages_that_are_only_followed() -> None:
    result = run(Shop, page(), "follow_rules")
    assert (result.items, len(result.requests)) == ([], 4)


def test_pages_of_a_callback_are_not_followed_unless_the_rule_says_so() -> None:
    assert run(Shop, page(), "parse_item").requests == []
    spider = with_rules(
        Rule(LinkExtractor("/item/"), "parse_item", follow=True, cb_kwargs={"shelf": "x"})
    )
    request = run(spider, page()).requests[0]
    assert (request.callback, request.cb_kwargs) == ("parse_item_and_follow", {"shelf": "x"})
    result = run(spider, page(request))
    assert result.items == [{"item": URL, "shelf": "x"}]
    assert [link.url for link in result.requests] == [f"{URL}item/1", f"{URL}item/2"]


def test_a_queued_request_waits_for_a_callback_that_is_gone_or_does_not_fit() -> None:
    for request in (
        Request(URL, "parse_offer_and_follow"),
        Request(URL, "parse_item_and_follow", cb_kwargs={"colour": "red"}),
        Request(URL, "_and_follow"),
    ):
        with pytest.raises(SpiderError, match=r"no method|does not fit"):
            run(Shop, page(request))


@pytest.mark.parametrize("form", ["coroutine", "async generator", "list", "nothing"])
def test_callbacks_of_every_form_are_followed_too(form: str) -> None:
    async def coroutine(self: Any, response: Response) -> list[Any]:
        return [{"form": form}]

    async def generator(self: Any, response: Response) -> AsyncIterator[Any]:
        yield {"form": form}

    forms = {
        "coroutine": coroutine,
        "async generator": generator,
        "list": lambda self, response: [{"form": form}],
        "nothing": lambda self, response: None,
    }
    spider = with_rules(Rule(LinkExtractor("/page/")), parse_start_url=forms[form])
    result = run(spider, page())
    assert result.items == ([] if form == "nothing" else [{"form": form}])
    assert [request.url for request in result.requests] == [f"{URL}page/2"]


def test_links_and_requests_are_processed() -> None:
    def backwards(links: list[Link]) -> Iterable[Link]:
        return reversed(links)

    def first(self: Any, request: Request, response: Response) -> Request | None:
        return None if request.url.endswith("/2") else request.replace(priority=5)

    rule = Rule(LinkExtractor("/item/"), "parse_item", process_links=backwards)
    found = run(with_rules(rule), page()).requests
    assert [request.url[-1] for request in found] == ["2", "1"]
    rule = Rule(LinkExtractor("/item/"), "parse_item", process_request="first")
    (request,) = run(with_rules(rule, first=first), page()).requests
    assert (request.url[-1], request.priority) == ("1", 5)


def test_rules_may_depend_on_the_arguments_of_a_task() -> None:
    class Section(CrawlSpider):
        name = "section"
        section: str = "item"

        @property
        def rules(self) -> Any:
            return [Rule(LinkExtractor(f"/{self.section}/"))]

    assert len(run(Section, page(), "parse").requests) == 3
    assert len(run(Section, page(), "parse", arguments={"section": "page"}).requests) == 1


def test_a_page_that_is_no_html_has_no_links() -> None:
    assert run(Shop, make_response(URL, json=[]), "follow_rules").requests == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (Rule(), "rules must be a list of Rule"),
        ([LinkExtractor("a")], "rule 1 is "),
        (
            [Rule(), Rule(callback="parse_itm")],
            "rule 2: callback: the spider has no method",
        ),
        ([Rule(callback=lambda self, response: None)], "rule 1: callback: the spider has no"),
        ([Rule(errback="oops")], "rule 1: errback: the spider has no method 'oops'"),
        ([Rule(callback="parse")], "rule 1: parse applies the rules"),
        ([Rule(follow=False)], "rule 1 has no callback and does not follow"),
        ([Rule(process_links="tidy")], "rule 1: process_links: the spider has no method 'tidy'"),
        ([Rule(process_request=WRONG)], "rule 1: process_request: 3 is neither a function"),
        ([Rule(WRONG)], "rule 1: 3 is no LinkExtractor"),
    ],
)
def test_wrong_rules_are_named_when_the_class_is_defined(rules: Any, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        type("Other", (Shop,), {"name": "other", "rules": rules})
    assert str(caught.value).startswith("spider 'other': ")
    assert words in str(caught.value)


def test_parse_is_not_overridden_by_mistake() -> None:
    with pytest.raises(SpiderError, match="write parse_start_url"):
        type("Other", (Shop,), {"name": "other", "parse": lambda self, response: None})


def test_a_base_class_without_a_name_is_checked_in_its_spiders() -> None:
    base = type("Base", (CrawlSpider,), {"rules": [Rule(callback="parse_item")]})
    with pytest.raises(SpiderError, match="no method 'parse_item'"):
        type("Other", (base,), {"name": "other"})
    describe(type("Fine", (base,), {"name": "fine", "parse_item": Shop.parse_item}))


def test_the_loader_says_where_a_wrong_rule_is(tmp_path: Path) -> None:
    package = tmp_path / "ruled_spiders"
    package.mkdir()
    (package / "a.py").write_text(
        "from crawlframe import CrawlSpider, Rule\n\n\nclass A(CrawlSpider):\n"
        "    name = 'a'\n    rules = [Rule(callback='b')]\n"
    )
    text = Registry.load(package).broken["ruled_spiders.a"]
    assert text.startswith(f"{package}/a.py:4: SpiderError: spider 'a': rule 1: callback: ")
