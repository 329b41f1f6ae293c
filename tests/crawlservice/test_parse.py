"""parse: a page fetched for real and its callback's results, without other servers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from crawlframe.fetch.browser.settings import PROGRAMS
from tests.fetch.conftest import LOOPBACK, Site, _server, site

__all__ = ("_server", "site")

SPIDERS = """
from crawlframe import CloseTask, DropItem, Request, Spider

class Signing:
    async def fetch(self, request, call_next):
        request.headers["Token"] = "new"
        return await call_next(request)

def priced(item, response):
    if not item.get("price"):
        raise DropItem("no price")
    return {**item, "priced": True}

class Shop(Spider):
    name = "shop"
    allowed_domains = ("127.0.0.1",)
    settings = {"user_agent": "shop/1", "retries": 1}
    middlewares = [Signing]
    pipelines = [priced]
    limit: int = 9

    def start(self, city: str):
        yield Request("http://127.0.0.1/")

    def parse(self, response):
        for price in response.css("b::text").getall():
            yield {"price": int(price), "näme": response.css("h1::text").get()}
        yield from response.follow_all(css="a", callback=self.page, priority=2)
        self.stats.inc("pages")
        self.stats.max("length", len(response.body))

    async def page(self, response, colour=None):
        yield {"price": self.limit, "colour": colour, "meta": response.meta}
        raise CloseTask("seen it")

    def fails(self, response):
        return self.reads(response)

    def reads(self, response):
        return response.json()

    def leaves(self, response):
        raise SystemExit(3)

    def no_item(self, response):
        yield 5

    async def uses(self, response):
        page = await response.page()
        yield {"price": 1, "text": await page.inner_text("p")}

class Other(Spider):
    name = "other"
    def start(self): ...
    def parse(self, response):
        yield {"agent": response.text}

class Bare(Spider):
    name = "bare"
    def start(self): ...
    def product(self, response): ...
    def price_of(self, text): ...
"""
HTML = {"Content-Type": "text/html"}

Parse = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parse") / "parsed_spiders"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "shop.py").write_text(SPIDERS)
    return folder


@pytest.fixture
def parse(
    package: Path, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Parse:
    """Runs the command and returns its standard output and error."""
    monkeypatch.syspath_prepend(package.parent)
    settings_with(
        CRAWLFRAME=replace(settings.CRAWLFRAME, spiders=package.name, allow_private=LOOPBACK),
        REDIS_URL="redis://127.0.0.1:1",
    )  # fmt: skip

    def run(*arguments: str) -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        try:
            call_command("parse", *arguments, stdout=out, stderr=err)
        except CommandError as error:
            error.args = (*error.args, err.getvalue())
            raise
        return out.getvalue(), err.getvalue()

    return run


def items(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_items_are_json_lines_and_the_rest_is_for_people(site: Site, parse: Parse) -> None:
    page = "<meta charset=utf-8><h1>Lämp</h1><b>12</b><b>0</b><a href=/b>b</a>".encode()
    site.answer("/old", status=302, headers={"Location": "/shop"})
    site.answer("/shop", page, headers=HTML)
    before = len(site.seen)
    out, err = parse(f"{site.url}/old")
    assert items(out) == [{"price": 12, "näme": "Lämp", "priced": True}]
    assert "ä" in out
    lines = err.splitlines()
    assert lines == [
        f"200 {site.url}/shop ({len(page)} bytes)",
        f"Request('{site.url}/b', 'page', priority=2)",
        "items: 1, requests: 1",
        "dropped: no price 1",
        "counted: pages 1",
        f"largest: length {len(page)}",
    ]
    sent = site.seen[before]
    assert (sent.header("Token"), sent.header("User-Agent")) == ("new", "shop/1")


def test_middlewares_and_pipelines_can_be_left_out(site: Site, parse: Parse) -> None:
    site.answer("/shop", b"<b>12</b><b>0</b>", headers=HTML)
    out, _ = parse(f"{site.url}/shop", "--no-middlewares", "--no-pipelines")
    assert [item["price"] for item in items(out)] == [12, 0]
    assert site.seen[-1].header("Token") is None


def test_robots_txt_is_asked_first(site: Site, parse: Parse) -> None:
    site.answer("/robots.txt", b"User-agent: *\nDisallow: /no\n")
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    before = len(site.seen)
    out, _ = parse(f"{site.url}/shop", "--robots")
    assert [item["price"] for item in items(out)] == [12]
    assert [seen.target for seen in site.seen[before:]] == ["/robots.txt", "/shop"]
    with pytest.raises(CommandError, match="forbids"):
        parse(f"{site.url}/no", "--robots")


def test_a_callback_with_its_arguments(site: Site, parse: Parse) -> None:
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    out, err = parse(
        f"{site.url}/shop", "--callback", "page", "-a", "limit=4", "--cb-kwargs",
        '{"colour": "red"}', "--meta", '{"n": [1]}', "--downloader", "requests",
    )  # fmt: skip
    assert items(out) == [{"price": 4, "colour": "red", "meta": {"n": [1]}, "priced": True}]
    assert "closes the task: seen it" in err


def test_the_spider_is_that_of_the_host_or_the_named_one(site: Site, parse: Parse) -> None:
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    assert len(items(parse(f"{site.url}/shop")[0])) == 1
    out, _ = parse(f"{site.url}/shop", "--spider", "other")
    assert items(out) == [{"agent": "<b>12</b>"}]
    with pytest.raises(CommandError, match=r"no spider has else\.example in allowed_domains; add "):
        parse("http://else.example/")


def test_what_cannot_be_is_said_in_a_sentence(site: Site, parse: Parse) -> None:
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    site.answer("/busy", status=503)
    for arguments, words in (
        (["{}/gone"], "http_404: {}/gone answered 404"),
        (["{}/busy"], "http_503: {}/busy answered 503; a node would try again"),
        (["{}/shop", "--spider", "shopp"], "did you mean 'shop'"),
        (["{}/shop", "--callback", "gone"], "spider 'shop' has no method 'gone'"),
        (["{}/shop", "--spider", "bare"], "add --callback, its callbacks: product"),
        (["{}/shop", "--callback", "no_item"], "a callback yielded int '5'; yield items"),
        (["{}/shop", "--cb-kwargs", '{"size": 1}'], "unexpected keyword argument 'size'"),
        (["{}/shop", "--cb-kwargs", "size"], "--cb-kwargs is not JSON: "),
        (["{}/shop", "--meta", "[1]"], '--meta must be a JSON object, such as {"page": 2}'),
        (["{}/shop", "--actions", "{}"], "--actions must be a JSON list of objects, such as ["),
        (["{}/shop", "--actions", '[{"do": "dance"}]'], "{'do': 'dance'}: do must be one of "),
        (["{}/shop", "--callback", "uses"], """add --actions '[{"do": "keep_page"}]'"""),
        (["{}/shop", "-a", "limit=many"], "give a whole number"),
        (["{}/shop", "-a", "limits=1"], "has no argument 'limits' (did you mean 'limit'?)"),
        (["shop"], "not an absolute URL"),
    ):
        url, *others = arguments
        with pytest.raises(CommandError) as caught:
            parse(url.replace("{}", site.url), *others)
        assert words.replace("{}", site.url) in caught.value.args[0]
        assert caught.value.returncode == 1
        assert "Traceback" not in str(caught.value.args)
        assert caught.value.args[1] == "" or "uses" in others


def test_what_the_spider_raises_has_its_own_lines(site: Site, parse: Parse) -> None:
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    with pytest.raises(
        CommandError, match=r"the spider raised crawlframe\.errors\.NotJson: "
    ) as got:
        parse(f"{site.url}/shop", "--callback", "fails")
    trace = got.value.args[1]
    assert [line.split(", ")[-1] for line in trace.splitlines() if "shop.py" in line] == [
        "in fails", "in reads",
    ]  # fmt: skip
    assert "trial.py" not in trace
    with pytest.raises(CommandError, match="the spider raised SystemExit: 3"):
        parse(f"{site.url}/shop", "--callback", "leaves")


@pytest.mark.forks
def test_a_callback_uses_the_page_of_the_browser(site: Site, parse: Parse) -> None:
    pytest.importorskip("playwright.async_api", reason="no playwright here")
    if not any(map(shutil.which, PROGRAMS)):
        pytest.skip("no Chromium here")
    site.answer(
        "/shop", b"<p><script>document.querySelector('p').append('made')</script>", headers=HTML
    )
    out, _ = parse(f"{site.url}/shop", "--callback", "uses", "--actions", '[{"do": "keep_page"}]')
    assert items(out) == [{"price": 1, "text": "made", "priced": True}]


def test_a_module_that_does_not_load_is_named(site: Site, parse: Parse, package: Path) -> None:
    site.answer("/shop", b"<b>12</b>", headers=HTML)
    (package / "broken.py").write_text("import nothing_of_this_name\n")
    try:
        out, err = parse(f"{site.url}/shop")
    finally:
        (package / "broken.py").unlink()
    assert len(items(out)) == 1
    assert "warning: not loaded: " in err
    assert "broken.py:1" in err
