"""The report about state that spiders and their parts keep in memory."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.spider import PortedSpider
from tests.scrapy_projects.ported_spiders import write_project

_number = itertools.count()
Project = Callable[..., type[PortedSpider]]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The spider "one" of a project with these modules."""

    def make(spider: str, config: str = "", **modules: str) -> type[PortedSpider]:
        name = f"stateful{next(_number)}"
        head = f"SPIDER_MODULES = ['{name}.spider']\nROBOTSTXT_OBEY = True\n"
        texts = {"settings": head + config, "spider": "import scrapy\n" + spider, **modules}
        for module, text in texts.items():
            texts[module] = textwrap.dedent(text).replace("PROJECT", name)
        write_project(tmp_path, name, **texts)
        registry = spiders_of(tmp_path)
        assert registry.broken == {}
        found = registry.get("one")
        assert issubclass(found, PortedSpider)
        return found

    return make


SPIDER = """
class One(scrapy.Spider):
    name = "one"
    start_urls = ["http://a.example/"]
    {}
    def parse(self, response):
        {}
        yield {{"url": response.url}}
"""


def one(parse: str = "pass", members: str = "", head: str = "") -> str:
    indented = textwrap.indent(textwrap.dedent(members), "    ").strip()
    body = textwrap.indent(textwrap.dedent(parse), "        ").strip()
    return f"{head}\n{SPIDER.format(indented, body)}"


KEPT = {  # name of the find -> spider
    "module set": ("SEEN", one("SEEN.add(response.url)", head="SEEN = set()")),
    "module dict": ("COUNT", one("COUNT['n'] += 1", head="COUNT = {'n': 0}")),
    "global": ("N", one("global N; N += 1", head="N = 0")),
    "list": ("ROWS", one("ROWS.insert(0, 1)", head="ROWS = []")),
    "nested": ("STATE", one("STATE['seen'].add(1)", head="STATE = {'seen': set()}")),
    "element of a loop": ("row", one("for row in ROWS: row['n'] = 1", head="ROWS = [{}]")),
    "other name": ("SEEN", one("seen = SEEN; seen.add(1)", head="SEEN = set()")),
    "passed on": ("SEEN", one("remember(SEEN)", head="SEEN = set()\ndef remember(s): s.add(1)")),
    "function": ("SEEN", one("new(1)", head="SEEN = set()\ndef new(x): SEEN.add(x)")),
    "lambda": ("SEEN", one("new(1)", head="SEEN = set()\nnew = lambda x: SEEN.add(x)")),
    "decorated": (
        "CALLS",
        one(
            "new(1)",
            head="CALLS = []\ndef twice(f): return f\n@twice\ndef new(x): CALLS.append(x)",
        ),
    ),
    "of a rule": (
        "SEEN",
        one(
            members="rules = [scrapy.spiders.Rule(LE(process_value=new))]",
            head="from scrapy.linkextractors import LinkExtractor as LE\nSEEN = set()\n"
            "def new(x): SEEN.add(x); return x",
        ),
    ),
    "odd object": (
        "something (TypeError(\"unhashable type: 'Odd'\"))",
        one(
            "ODD(1)",
            head="class Odd:\n    __hash__ = None\n    def __call__(self, x): pass\nODD = Odd()",
        ),
    ),
    "iterator": ("N", one("next(N)", head="import itertools\nN = itertools.count()")),
    "generator": ("N", one("next(N)", head="N = iter([1, 2])")),
    "cache": (
        "rate",
        one("rate()", head="import functools\n@functools.lru_cache\ndef rate(): return 1"),
    ),
    "cached method": (
        "self.rate",
        one("self.rate()", "import functools\n@functools.cache\ndef rate(self): return 1"),
    ),
    "closure": (
        "count",
        one(
            "count()",
            head="def make():\n    n = 0\n    def count():\n        nonlocal n\n        n += 1\n"
            "    return count\ncount = make()",
        ),
    ),
    "object": ("STORE", one("STORE.see(1)", head="class Store:\n    pass\nSTORE = Store()")),
    "object's attribute": ("C.n", one("C.n += 1", head="class C: n = 0")),
    "function's attribute": ("f.n", one("f.n += 1", head="def f(): pass\nf.n = 0")),
    "setattr": ("setattr(C, 'n', 1)", one("setattr(C, 'n', 1)", head="class C: n = 0")),
    "globals": ("globals()", one("globals()['N'] = 1", head="N = 0")),
    "environment": ("os.environ", one("os.environ['A'] = 'b'", head="import os")),
    "class attribute": ("self.seen", one("self.seen.add(1)", "seen = set()")),
    "class attribute in place": ("self.seen", one("self.seen |= {1}", "seen = set()")),
    "class counter": ("One.n", one("One.n += 1", "n = 0")),
    "type": ("type(self).n", one("type(self).n += 1", "n = 0")),
    "__class__": ("self.__class__.n", one("self.__class__.n += 1", "n = 0")),
    "class method": (
        "cls.n",
        one("self.count()", "n = 0\n@classmethod\ndef count(cls): cls.n += 1"),
    ),
    "start_urls": (
        "self.start_urls",
        one(members="def __init__(self):\n    super().__init__()\n    self.start_urls.append('x')"),
    ),
    "payload": ("self.payload", one("p = self.payload; p['page'] = 2", "payload = {'page': 1}")),
    "default": ("seen", one("self.new(1)", "def new(self, x, seen=[]): seen.append(x)")),
    "self": ("self.n", one("self.n += 1", "n = 0")),
    "self on one line": ("self.n", one("self.n = self.n + 1; yield {'n': self.n}", "n = 0")),
    "self after use": ("self.last", one("old = self.last; self.last = 1", "last = None")),
    "self in a branch": ("self.t", one("if not self.t: self.t = 1", "t = None")),
    "self of self": ("self.box", one("self.box.seen.add(1)", "def __init__(self): self.box = B()",
                                     head="class B:\n    def __init__(self): self.seen = set()")),
    "object on self": (
        "self.seen",
        one(
            "self.store.see(1)",
            "def __init__(self): self.store = Store()",
            head="class Store:\n    def __init__(self): self.seen = set()\n"
            "    def see(self, x): self.seen.add(x)",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEPT)
def test_state_is_found_and_its_tasks_have_one_process(project: Project, kind: str) -> None:
    name, source = KEPT[kind]
    spider = project(source)
    assert any(f": {name} " in line for line in spider.scrapy_state), spider.scrapy_state
    assert (spider.workers, spider._own_process) == (1, True)
    said = str(verdict_on(spider))
    assert "each task runs in a process of its own (workers = 1), for it keeps state" in said


CLEAN = {
    "nothing": one(),
    "constants": one(
        """
        if response.status in STATUSES and response.url not in SKIP and LOCK and RE.match("a"):
            yield {"to": NAMES["a"], "at": WHEN.year, "all": [*ROWS], "len": len(ROWS), **EXTRA}
        for name in ROWS:
            yield scrapy.Request(PREFIX + name, headers=HEADERS, meta={"n": NAMES.get(name)})
        for city in CITIES:
            yield response.follow(city["url"], cb_kwargs={"name": city["name"]})
        log.info("%s", Colour.RED)
        """,
        head="""
import datetime, enum, logging, re, threading
log = logging.getLogger(__name__)
class Colour(enum.Enum):
    RED = 1
STATUSES, SKIP, RE, LOCK = (200, 404), frozenset({"a"}), re.compile("a"), threading.Lock()
NAMES, EXTRA, HEADERS, ROWS = {"a": "b"}, {"x": 1}, {"Accept": "*/*"}, ["a", "b"]
CITIES = [{"name": "a", "url": "/a"}, {"name": "b", "url": "/b"}]
WHEN, PREFIX = datetime.date(2026, 1, 1), "http://a.example/"
""",
    ),
    "functions": one(
        "yield {'p': price('1')}",
        head="def price(text):\n    rows = []\n    rows.append(text)\n    return rows",
    ),
    "class attributes": one(
        "for url in self.start_urls: yield scrapy.Request(url, headers=self.headers)",
        "custom_settings = {'DOWNLOAD_DELAY': 1}\nheaders = {'A': 'b'}\nprefix = 'a'",
    ),
    "attributes of __init__": one(
        "self.logger.info(self.seen); self.crawler.stats.inc_value('a')",
        "seen = []\ndef __init__(self, city=''):\n    super().__init__()\n"
        "    self.seen = [city]\n    self.seen.append('b')",
    ),
    "set before use": one("self.here = response.url\nyield {'u': self.here}"),
    "opened": one(
        "yield {'t': self.token}",
        """
        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.log_in, signal=scrapy.signals.spider_opened)
            return spider
        def log_in(self):
            self.token = "t"
        """,
    ),
    "start": one(
        members="async def start(self):\n    self.n = 0\n    self.n += 1\n"
        "    yield scrapy.Request('http://a.example/')"
    ),
    "another spider": one() + "SEEN = set()\nclass Two(scrapy.Spider):\n    name = 'two'\n"
    "    def parse(self, response): SEEN.add(1)\n",
    "import": one(head="SEEN = set()\nSEEN.add(1)"),
}


@pytest.mark.parametrize("kind", CLEAN)
def test_a_spider_without_state_has_no_limits(project: Project, kind: str) -> None:
    spider = project(CLEAN[kind])
    assert spider.scrapy_state == []
    assert (spider.workers, spider._own_process) == (None, False)


DUPLICATES = """
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

class DuplicatesPipeline:
    def __init__(self):
        self.ids_seen = set()
    def process_item(self, item):
        adapter = ItemAdapter(item)
        if adapter["id"] in self.ids_seen:
            raise DropItem(f"Item ID already seen: {adapter['id']}")
        self.ids_seen.add(adapter["id"])
        return item
"""
JSON_WRITER = """
import json
from itemadapter import ItemAdapter

class JsonWriterPipeline:
    def open_spider(self):
        self.file = open("items.jsonl", "w")
    def close_spider(self):
        self.file.close()
    def process_item(self, item):
        line = json.dumps(ItemAdapter(item).asdict()) + "\\n"
        self.file.write(line)
        return item
"""
MONGO = """
from itemadapter import ItemAdapter

class MongoPipeline:
    collection_name = "scrapy_items"
    def __init__(self, mongo_uri, mongo_db):
        self.mongo_uri = mongo_uri
        self.mongo_db = mongo_db
    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings.get("MONGO_URI"), crawler.settings.get("MONGO_DATABASE"))
    def open_spider(self):
        self.client = dict(uri=self.mongo_uri)
        self.db = self.client[self.mongo_db]
    def close_spider(self):
        self.client.close()
    def process_item(self, item):
        self.db[self.collection_name].insert_one(ItemAdapter(item).asdict())
        return item
"""
# As `scrapy startproject` writes them.
TEMPLATES = """
from scrapy import signals

class TutorialSpiderMiddleware:
    @classmethod
    def from_crawler(cls, crawler):
        s = cls()
        crawler.signals.connect(s.spider_opened, signal=signals.spider_opened)
        return s
    def process_spider_input(self, response):
        return None
    def process_spider_output(self, response, result):
        yield from result
    def spider_opened(self, spider):
        spider.logger.info("Spider opened: %s" % spider.name)
"""
EXTENSION = """
from scrapy import signals

class SpiderOpenCloseLogging:
    def __init__(self, item_count):
        self.item_count = item_count
        self.items_scraped = 0
    @classmethod
    def from_crawler(cls, crawler):
        ext = cls(crawler.settings.getint("MYEXT_ITEMCOUNT", 1000))
        crawler.signals.connect(ext.item_scraped, signal=signals.item_scraped)
        return ext
    def item_scraped(self, item, spider):
        self.items_scraped += 1
        if self.items_scraped % self.item_count == 0:
            spider.logger.info("scraped %d items", self.items_scraped)
"""
ROTATE = """
AGENTS = ["a", "b"]
class Rotate:
    def process_request(self, request):
        agent = AGENTS.pop(0)
        AGENTS.append(agent)
        request.headers["User-Agent"] = agent
"""
REMEMBERED = """
from PROJECT import state
class Remember:
    def process_item(self, item, spider):
        state.SEEN.add(item["id"])
        return item
"""
COUNTS_ON_THE_SPIDER = """
class Count:
    def process_item(self, item, spider):
        spider.seen += 1
        return item
"""


@pytest.mark.parametrize(
    ("config", "text", "found"),
    [
        ("ITEM_PIPELINES = {'%s.DuplicatesPipeline': 1}", DUPLICATES, "self.ids_seen"),
        ("ITEM_PIPELINES = {'%s.JsonWriterPipeline': 1}", JSON_WRITER, "self.file"),
        ("ITEM_PIPELINES = {'%s.Remember': 1}", REMEMBERED, "state.SEEN"),
        ("ITEM_PIPELINES = {'%s.Count': 1}", COUNTS_ON_THE_SPIDER, "self.seen"),
        ("EXTENSIONS = {'%s.SpiderOpenCloseLogging': 1}", EXTENSION, "self.items_scraped"),
        ("DOWNLOADER_MIDDLEWARES = {'%s.Rotate': 1}", ROTATE, "AGENTS"),
        ("ITEM_PIPELINES = {'%s.MongoPipeline': 1}", MONGO, ""),
        ("SPIDER_MIDDLEWARES = {'%s.TutorialSpiderMiddleware': 1}", TEMPLATES, ""),
        ("ITEM_PIPELINES = {}", DUPLICATES, ""),
    ],
)
def test_components_are_looked_at(project: Project, config: str, text: str, found: str) -> None:
    parts = config % "PROJECT.parts" if "%" in config else config
    spider = project(one(), parts, parts=text, state="SEEN = set()\n")
    assert len(spider.scrapy_state) == bool(found), spider.scrapy_state
    assert spider.workers == (1 if found else None)
    if found:
        (line,) = spider.scrapy_state
        assert f"parts.py:{line.split(':')[1]}: {found} is changed in " in line


@pytest.mark.parametrize(("chosen", "workers"), [(0, None), (1, 1)])
def test_the_project_may_choose(project: Project, chosen: int, workers: int | None) -> None:
    spider = project(one("SEEN.add(1)", head="SEEN = set()"), f"CRAWLFRAME_WORKERS = {chosen}")
    assert spider.workers == workers
    assert ("CRAWLFRAME_WORKERS = 0" in str(verdict_on(spider))) == (not chosen)
