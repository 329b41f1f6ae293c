"""The life of a Scrapy spider in one task: components, logins, settings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import scrapy

from crawlframe.request.request import Request
from crawlframe.run.outcome import Verdict
from crawlframe.scrapy.settings import mapped
from crawlframe.scrapy.spider import PortedSpider
from crawlframe.spider.spider import read_settings
from tests.node.runner import Ready, Tasks
from tests.scrapy_projects.ported_spiders import URL, Plain, of, settings, translator

TOLD: list[str] = []


class Keeps:
    def open_spider(self, spider: Any) -> None:
        TOLD.append(f"open {spider.name}")

    async def close_spider(self, spider: Any) -> None:
        TOLD.append("close")

    def process_item(self, item: Any, spider: Any) -> Any:
        return item


def test_pipelines_are_opened_and_closed_in_a_worker() -> None:
    TOLD.clear()
    made = of(Plain, ITEM_PIPELINES={Keeps: 1})._make({})
    assert isinstance(made, PortedSpider)

    async def live() -> None:
        await made._opened_port().open()
        await made._release()
        await made._release()

    asyncio.run(live())
    assert TOLD == ["open plain", "close"]


@pytest.mark.parametrize(
    ("values", "url", "sent"),
    [
        ({"HTTPAUTH_DOMAIN": "example.com"}, URL, "Basic YW5uOnNlY3JldA=="),
        ({"HTTPAUTH_DOMAIN": "example.com"}, "https://other.example/", None),
        ({"HTTPAUTH_DOMAIN": None}, "https://other.example/", "Basic YW5uOnNlY3JldA=="),
    ],
)
def test_a_login_of_the_settings_goes_to_its_domain(
    values: dict[str, Any], url: str, sent: str | None
) -> None:
    kind = of(Plain, HTTPAUTH_USER="ann", HTTPAUTH_PASS="secret", **values)
    assert kind.middlewares
    made = kind._make({})
    assert isinstance(made, PortedSpider)
    port, request = made._opened_port(), Request(url)
    found = port.downloads._sent(port.translator.theirs(request), request).headers
    assert found.get("Authorization") == sent


def test_a_login_without_a_domain_is_refused_as_by_scrapy() -> None:
    with pytest.raises(ValueError, match="HTTPAUTH_DOMAIN must be set"):
        of(Plain, HTTPAUTH_USER="ann")._make({})


def test_a_request_has_a_login_of_its_own() -> None:
    there, _ = translator()
    meta = {"http_user": "ann", "http_pass": "secret"}
    made = there.ours(scrapy.Request(URL, meta=meta))
    assert made.headers["Authorization"] == "Basic YW5uOnNlY3JldA=="
    elsewhere = there.ours(scrapy.Request(URL, meta={**meta, "http_auth_domain": "a.example"}))
    assert "Authorization" not in elsewhere.headers


def test_a_project_and_its_spider_have_settings_of_their_own() -> None:
    class Own(Plain):
        name = "own"
        custom_settings = {"DOWNLOAD_DELAY": 3, "RETRY_ENABLED": False, "DEPTH_LIMIT": 2}

    made = of(Own, DOWNLOAD_DELAY=1, DOWNLOAD_TIMEOUT=7, CONCURRENT_REQUESTS=4)
    read = read_settings(made)
    assert (read.delay, read.retries, read.depth_limit) == (3.0, 0, 2)
    assert (read.timeout, read.concurrency, read.robots) == (7.0, 4, True)
    assert read_settings(of(Plain)).delay == "auto"
    throttled = read_settings(of(Plain, AUTOTHROTTLE_ENABLED=True, DOWNLOAD_DELAY=2))
    assert (throttled.delay, throttled.min_delay) == ("auto", 2.0)


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("FEEDS", {"a.csv": {"format": "csv"}}, "ignored"),
        ("HTTPCACHE_ENABLED", True, "ignored"),
        ("CLOSESPIDER_ITEMCOUNT", 5, "ignored"),
        ("COMPRESSION_ENABLED", False, "ignored"),
        ("AUTOTHROTTLE_MAX_DELAY", 5, "ignored"),
        ("FEED_EXPORT_FIELDS", ["a"], "ignored"),
        ("HTTPCACHE_DIR", "cache", "ignored"),
        ("DOWNLOAD_HANDLERS", {"https": "a.Handler"}, "cannot"),
    ],
)
def test_a_setting_without_effect_is_named(name: str, value: Any, where: str) -> None:
    result = mapped(settings(**{name: value}), Plain)
    assert [sentence for sentence in getattr(result, where) if sentence.startswith(name)]
    assert not any(sentence.startswith(name) for sentence in mapped(settings(), Plain).ignored)


def test_the_choice_about_certificates_is_named() -> None:
    name = "DOWNLOAD_VERIFY_CERTIFICATES"
    (sentence,) = (one for one in mapped(settings(), Plain).ignored if one.startswith(name))
    assert "set it to False if any certificate will do" in sentence
    for verify in (True, False):
        result = mapped(settings(**{name: verify}), Plain)
        assert not any(one.startswith(name) for one in result.ignored)
        assert result.settings.get("tls") == (None if verify else {"*": {"verify": False}})
    read = read_settings(of(Plain, **{name: False}))
    assert read.unverified == ["*"]


def test_a_spider_that_was_let_go_is_made_again_for_its_next_request() -> None:
    """Its pipelines are closed meanwhile, and it has the task's cookies and settings."""
    told: list[str] = []

    class Files:
        def open_spider(self) -> None:
            told.append("open")

        def process_item(self, item: Any) -> Any:
            told.append("item")
            return item

        def close_spider(self) -> None:
            told.append("close")

    async def job() -> None:
        tasks = Tasks(of(Plain, ITEM_PIPELINES={Files: 1}), Ready())
        for _ in range(2):
            outcome = await tasks.run(Request(URL))
            assert outcome.verdict is Verdict.DONE, outcome.detail
            tasks.runner.crawls.let_go(busy={1})
            await tasks.runner.crawls.leave()

    asyncio.run(job())
    assert told == ["open", "item", "close"] * 2
