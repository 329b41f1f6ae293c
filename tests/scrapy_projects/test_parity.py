"""Partials, headers and signals, by Scrapy and by our engine: the same items and stats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.spider import PortedSpider
from tests.scrapy_projects.ours import crawl
from tests.scrapy_projects.site import Site

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning"),
]
HERE = Path(__file__).parent
SETTINGS = """
SPIDER_MODULES = ["parity.spiders"]
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
RETRY_ENABLED = False
TELNETCONSOLE_ENABLED = False
USER_AGENT = "parity/1"
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html", "x-shop": "s"}
"""
SPIDERS = """
import functools
from functools import partial
import scrapy
from scrapy import signals

class Partials(scrapy.Spider):
    name = "partials"
    async def start(self):
        yield scrapy.Request(f"{self.site}/list", callback=partial(self.listed, kind="a"))
    def listed(self, response, kind, more=1):
        yield {"kind": kind, "more": more}
        one = functools.partial(functools.partial(self.listed_too, a=1), b=2)
        yield response.follow("/item/1", one, cb_kwargs={"b": 3}, meta={"m": 1})
        yield scrapy.FormRequest(f"{self.site}/echo", formdata={"a": "b"},
                                 callback=partial(self.listed_too, a=4, b=5))
    def listed_too(self, response, a, b):
        yield {"url": response.url[-6:], "a": a, "b": b, "m": response.meta.get("m")}

class Headers(scrapy.Spider):
    name = "headers"
    custom_settings = {"SPIDER_MIDDLEWARES": {}}
    async def start(self):
        for n, given in enumerate([{}, {"X-Shop": "own"}, {"user-agent": "me"}]):
            yield scrapy.Request(f"{self.site}/echo/{n}", headers=given)
    def parse(self, response):
        names = ("Accept", "X-Shop", "User-Agent")
        heads = response.request.headers
        sent = {one: response.json()["h"].get(one.lower()) for one in names[1:]}
        found = {one: heads.get(one).decode() for one in names}
        yield {"n": response.url[-1], "all": [len(heads.getlist(one)) for one in names],
               "found": found, "sent": sent}

class Layered(Headers):
    name = "layered"
    class Look:
        def process_request(self, request):
            request.meta["seen"] = request.headers.get("User-Agent").decode()
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Look: 950}}
    def parse(self, response):
        for one in super().parse(response):
            yield {**one, "seen": response.meta["seen"]}

SENT = ["engine_started", "spider_opened", "request_scheduled", "request_reached_downloader",
        "headers_received", "bytes_received", "request_left_downloader", "response_downloaded",
        "response_received", "item_scraped", "spider_error", "spider_closed"]
class Signals(scrapy.Spider):
    name = "signals"
    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.heard = {}
        spider.handlers = []
        for name in SENT:
            def hear(_name=name, **told):
                spider.heard[_name] = spider.heard.get(_name, 0) + 1
            spider.handlers.append(hear)
            crawler.signals.connect(hear, signal=getattr(signals, name))
        return spider
    async def start(self):
        yield scrapy.Request(f"{self.site}/item/1")
        yield scrapy.Request(f"{self.site}/gone", errback=self.gone)
    def parse(self, response):
        yield {"n": 1}
        raise ValueError("late")
    def gone(self, failure):
        yield {"n": 2}
    def closed(self, reason):
        with open(self.out, "w") as file:
            file.write(repr(sorted(self.heard.items())))
    out = ""
"""
NAMES = ["partials", "headers", "layered"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parity")
    (root / "parity").mkdir()
    (root / "scrapy.cfg").write_text("[settings]\ndefault = parity.settings\n")
    for name, text in {"__init__": "", "settings": SETTINGS, "spiders": SPIDERS}.items():
        (root / "parity" / f"{name}.py").write_text(text)
    return root


def test_items_are_those_of_scrapy(project: Path, tmp_path: Path) -> None:
    registry = spiders_of(project)
    assert registry.broken == {}
    with Site() as site:
        real = [sys.executable, HERE / "real.py", site.url, tmp_path, *NAMES]
        subprocess.run([*map(str, real)], cwd=project, check=True)
        for name in NAMES:
            lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
            ours = crawl(registry, name, site=site.url)
            found = sorted(json.dumps(item, sort_keys=True) for item in ours.items)
            assert found == sorted(json.dumps(json.loads(one), sort_keys=True) for one in lines)
            assert found, ours.ended


def test_signals_are_those_of_scrapy(project: Path, tmp_path: Path) -> None:
    registry = spiders_of(project)
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    with Site() as site:
        given = ["-a", f"site={site.url}", "-a", f"out={theirs}"]
        real = [sys.executable, "-m", "scrapy", "crawl", "signals", *given, "--nolog"]
        subprocess.run(real, cwd=project, check=True)
        ours = crawl(registry, "signals", site=site.url, out=str(mine))
    assert mine.read_text() == theirs.read_text(), ours.ended


def test_what_cannot_travel_or_is_late_is_said(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = told.settings\n")
    (tmp_path / "told/settings.py").write_text("SPIDER_MODULES = ['told.spiders']\n")
    (tmp_path / "told/spiders.py").write_text(
        "import scrapy\n"
        "from functools import partial\n"
        "from scrapy.signals import spider_idle\n"
        "class Told(scrapy.Spider):\n"
        "    name = 'told'\n"
        "    def parse(self, response):\n"
        "        yield scrapy.Request('http://a.example/', partial(self.parse, n=1))\n"
        "        yield scrapy.Request('http://a.example/', callback=partial(self.parse, 1))\n"
        "        yield scrapy.Request('http://a.example/', errback=partial(self.parse, n=1))\n"
        "        yield response.follow('/', lambda response: None)\n"
        "        self.crawler.signals.connect(self.parse, spider_idle)\n"
        "        self.crawler.signals.connect(self.parse, scrapy.signals.bytes_received)\n"
        "    def rows(self, response):\n"
        "        yield {}\n"
        "        return [{}]\n"
        "    def plain(self, response):\n"
        "        def inner():\n"
        "            yield 1\n"
        "        return [*inner()]\n"
    )
    registry = spiders_of(tmp_path)
    told = registry.get("told")
    assert issubclass(told, PortedSpider)
    verdict = verdict_on(told)
    assert sorted(one.split(":")[1] for one in verdict.cannot) == ["10", "8", "9"]
    lines = {one.split(":")[1]: one for one in verdict.but if "spiders.py" in one}
    assert {*lines} == {"11", "12", "13"}
    assert "rows yields: its return value is lost, as in Scrapy" in lines["13"]
    assert "spider_idle is never sent" in lines["11"]
    assert "bytes_received is sent when the response is complete" in lines["12"]
