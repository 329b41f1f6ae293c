"""Requests of a Scrapy spider: their translation, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import scrapy
from scrapy.http import FormRequest, JsonRequest

from crawlframe.errors import BadRequest
from crawlframe.request.request import Request
from crawlframe.scrapy.requests import KEY, session_of
from crawlframe.testing import make_response, run
from tests.scrapy_projects.ported_spiders import URL, Plain, of, translator
from tests.scrapy_projects.shop.shop import items


@pytest.mark.parametrize("kind", ["plain", "form", "json"])
def test_a_request_survives_the_queue(kind: str) -> None:
    there, spider = translator()
    product = items.Product(name="a")
    more: dict[str, Any] = {
        "callback": spider.parse_other,
        "errback": spider.failed,
        "meta": {"x": product, "cookiejar": 1},
        "cb_kwargs": {"offer": items.Offer("b", 1.5)},
        "headers": {"X-A": ["1", "2"]},
        "cookies": [{"name": "c", "value": "d", "domain": "example.com"}],
        "priority": 7,
        "flags": ["f"],
    }
    request = {
        "plain": lambda: scrapy.Request(f"{URL}?b=1&a=%C3%A9#x", **more),
        "form": lambda: FormRequest(URL, formdata={"a": "b"}, **more),
        "json": lambda: JsonRequest(URL, data={"a": 1}, dont_filter=True, **more),
    }[kind]()
    # Queued requests name classes of modules that are imported under that name.
    back = there.theirs(Request.decode(there.ours(request).encode()))
    assert type(back) is type(request)
    expected, found = request.to_dict(spider=spider), back.to_dict(spider=spider)
    assert found["meta"].pop("depth") == 0
    assert found.pop("headers").keys() == expected.pop("headers").keys()
    assert found == expected
    assert back.callback == spider.parse_other


@pytest.mark.parametrize(
    ("meta", "options"),
    [
        ({"download_timeout": 5}, {"timeout": 5.0}),
        ({"download_maxsize": 9}, {"max_body": 9}),
        ({"dont_redirect": True}, {"redirects": 0}),
        ({"dont_retry": True}, {"retries": 0}),
        ({"max_retry_times": 4}, {"retries": 4}),
        ({"handle_httpstatus_list": [404]}, {"handle": (range(404, 405),)}),
        ({"handle_httpstatus_list": [301]}, {"handle": (range(301, 302),), "redirects": 0}),
        ({"cookiejar": "a b"}, {"session": session_of("a b")}),
        ({"cookiejar": 1}, {"session": "jar.1"}),
    ],
)
def test_keys_of_meta_become_options(meta: dict[str, Any], options: dict[str, Any]) -> None:
    made = translator()[0].ours(scrapy.Request(URL, meta=meta))
    given = {name: value for name, value in made.options._asdict().items() if value is not None}
    assert given == options
    assert made.meta[KEY]["meta"] == meta


def test_a_proxy_is_refused_and_not_ignored() -> None:
    with pytest.raises(BadRequest, match="a Scrapy project has no proxies here"):
        translator()[0].ours(scrapy.Request(URL, meta={"proxy": "http://p.example"}))


def test_a_callback_that_is_no_method_is_refused() -> None:
    with pytest.raises(BadRequest, match="callbacks must be methods of the spider"):
        translator()[0].ours(scrapy.Request(URL, callback=print))


def test_callbacks_may_have_names_of_our_spider() -> None:
    there, spider = translator()
    made = there.ours(scrapy.Request(URL, callback=spider.follow))
    assert made.callback == "scrapy.follow"
    assert there.theirs(made).callback == spider.follow
    assert run(of(Plain), make_response(URL, html=""), made.callback).items == [{"follow": True}]
