"""Scrapy features without a meaning here are refused by name, with the replacement."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from crawlframe.base import scrapy_names
from crawlframe.code.registry import Registry
from crawlframe.errors import BadRequest, SpiderError
from crawlframe.request.request import Request
from crawlframe.spider.spider import Spider, describe

URL = "http://example.com/"


@pytest.mark.parametrize("key", sorted(scrapy_names.META))
def test_every_meta_key_of_scrapy_is_refused(key: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, meta={"mine": 1, key: "x"})
    assert f"meta['{key}']" in str(caught.value)
    assert scrapy_names.META[key] in str(caught.value)


def test_meta_that_is_changed_after_the_request_was_made_is_refused_too() -> None:
    request = Request(URL, meta={"page": 1})
    request.meta["proxy"] = "http://proxy.example:3128"
    with pytest.raises(BadRequest, match=r"meta\['proxy'\]"):
        request.encode()
    plain = Request.plain(URL)
    plain.meta["dont_redirect"] = True
    with pytest.raises(BadRequest, match="dont_redirect"):
        plain.encode()


def test_meta_of_the_authors_own_passes() -> None:
    assert Request(URL, meta={"depth": 2, "state": "CA"}).meta == {"depth": 2, "state": "CA"}


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        ("formdata", "write form={...}"),
        ("flags", "nothing else reads them"),
        ("encoding", "UTF-8"),
        ("data", "write json={...}"),
        ("download_timeout", "write timeout=30"),
        ("allow_redirects", "redirects=0"),
        ("cookiejar", "session='...'"),
        ("proxies", "proxy='pool'"),
        ("headres", "did you mean 'headers'?"),
    ],
)
def test_unknown_arguments_of_a_request_are_named(keyword: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, **{keyword: "x"})  # type: ignore[arg-type]
    assert f"there is no argument {keyword!r}" in str(caught.value)
    assert words in str(caught.value)


def test_cookies_in_scrapys_second_form() -> None:
    cookies = [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    assert Request(URL, cookies=cookies).cookies == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("cookies", "words"),
    [
        ([{"name": "a", "value": "1", "domain": ".example.com"}], "'domain' of cookie 'a'"),
        ([{"name": "a", "value": "1", "path": "/x"}], "'path' of cookie 'a'"),
        ([{"name": "a"}], "a list of {'name': ..., 'value': ...}"),
        ([{"a": "1"}], "a list of {'name': ..., 'value': ...}"),
        ("a=1", "a list of {'name': ..., 'value': ...}"),
        ([{"name": "a", "value": 1}], "cookies['a'] must be text"),
    ],
)
def test_other_forms_of_cookies_are_refused(cookies: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, cookies=cookies)
    assert words in str(caught.value)


def method(*_: Any) -> None: ...


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, 1) for name in sorted(scrapy_names.ATTRIBUTES)]
    + [(name, method) for name in sorted(scrapy_names.METHODS)]
    + [("from_crawler", classmethod(method)), ("spider_closed", staticmethod(method))],
)
def test_attributes_of_a_spider_are_refused(name: str, value: Any) -> None:
    wrong = type("Wrong", (Spider,), {"name": "wrong", name: value})
    with pytest.raises(SpiderError) as caught:
        describe(wrong)
    mend = {**scrapy_names.ATTRIBUTES, **scrapy_names.METHODS}[name]
    assert str(caught.value) == f"spider 'wrong': {name}: that is Scrapy's name; {mend}"


def test_they_are_found_in_base_classes_too() -> None:
    base = type("Base", (Spider,), {"download_delay": 2})
    with pytest.raises(SpiderError, match="download_delay"):
        describe(type("Wrong", (base,), {"name": "wrong"}))


def test_an_argument_may_be_called_closed() -> None:
    parts = {"name": "fine", "closed": False, "__annotations__": {"closed": bool}}
    assert "closed" in describe(type("Fine", (Spider,), parts)).arguments["properties"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DOWNLOAD_DELAY", "DOWNLOAD_DELAY is Scrapy's name; write 'delay'"),
        ("RETRY_TIMES", "write 'retries'"),
        ("ROBOTSTXT_OBEY", "write 'robots'"),
        ("ITEM_PIPELINES", "write pipelines = [...] in the spider"),
        ("DELAY", "there is no setting 'DELAY' (did you mean 'delay'?)"),
        ("time_out", "there is no setting 'time_out' (did you mean 'timeout'?)"),
    ],
)
def test_names_of_settings(name: str, words: str) -> None:
    with pytest.raises(SpiderError) as caught:
        describe(type("Wrong", (Spider,), {"name": "wrong", "settings": {name: 1}}))
    assert words in str(caught.value)


SCRAPY = """
class Spider: pass
class CrawlSpider(Spider): pass
"""


def test_a_class_that_is_still_scrapys_breaks_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scrapy").mkdir()
    (tmp_path / "scrapy/__init__.py").touch()
    (tmp_path / "scrapy/spiders.py").write_text(SCRAPY)
    package = tmp_path / "ported_spiders"
    package.mkdir()
    (package / "old.py").write_text(
        "from scrapy.spiders import CrawlSpider\n\n\nclass Old(CrawlSpider):\n    name = 'old'\n"
    )
    (package / "mixed.py").write_text(
        "from scrapy.spiders import Spider\nimport crawlframe\n\n\n"
        "class Mixed(crawlframe.Spider, Spider):\n    name = 'mixed'\n"
    )
    (package / "fine.py").write_text(
        "from scrapy.spiders import Spider as Theirs\nfrom crawlframe import Spider\n\n\n"
        "class Fine(Spider):\n    name = 'fine'\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    loaded = dict(sys.modules)  # another test may have loaded the real one
    try:
        registry = Registry.load(package)
    finally:
        for name in sys.modules.keys() - loaded:
            if name.split(".")[0] in ("scrapy", package.name):
                del sys.modules[name]
    assert {*registry.spiders} == {"fine"}
    assert {*registry.broken} == {"ported_spiders.old", "ported_spiders.mixed"}
    assert (
        f"{package}/old.py:4: Old: {scrapy_names.INHERITS}" in registry.broken["ported_spiders.old"]
    )
    assert scrapy_names.INHERITS in registry.broken["ported_spiders.mixed"]
