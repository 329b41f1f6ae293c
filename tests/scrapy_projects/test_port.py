"""The parts of a Scrapy spider's life that need no server."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import scrapy
from scrapy.exceptions import CloseSpider
from scrapy.http import FormRequest, JsonRequest
from scrapy.settings import Settings
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet.error import DNSLookupError

from crawlframe.code.source import SourceFinder
from crawlframe.errors import ArgumentError, BadRequest, DnsError, SpiderError
from crawlframe.items import encode_item
from crawlframe.outcome import Verdict
from crawlframe.overrides import overridden
from crawlframe.request import Request
from crawlframe.scrapy.items import with_text
from crawlframe.scrapy.project import spiders_of
from crawlframe.scrapy.report import verdict_on
from crawlframe.scrapy.requests import KEY, Translator, session_of
from crawlframe.scrapy.settings import mapped
from crawlframe.scrapy.spider import PortedSpider, ported
from crawlframe.spider import build, describe, read_settings
from crawlframe.testing import make_response, run
from tests.node.runner import Ready, Tasks
from tests.scrapy_projects.shop.shop import items

URL = "https://www.example.com/"


def settings(**values: Any) -> Settings:
    made = Settings()
    made.setdict({"ROBOTSTXT_OBEY": True, **values}, priority="project")
    return made


class Plain(scrapy.Spider):
    """A plain one."""

    name = "plain"
    start_urls = [URL]

    def parse(self, response: Any, **more: Any) -> Any:
        yield {"url": response.url, "kind": type(response).__name__, **more}

    def parse_other(self, response: Any) -> Any:
        yield {"meta": response.meta["x"]}

    def follow(self, response: Any) -> Any:
        yield {"follow": True}

    def failed(self, failure: Any) -> Any:
        http = failure.check(HttpError)
        yield {"http": bool(http), "dns": bool(failure.check(DNSLookupError))}


def of(kind: type[scrapy.Spider], **values: Any) -> type[PortedSpider]:
    return ported(kind, settings(**values))


def written(tmp_path: Path, source: str, config: str = "") -> type[PortedSpider]:
    """The spider of a module in a project of its own."""
    package = tmp_path / f"project_{abs(hash(tmp_path))}"
    package.mkdir()
    (tmp_path / "scrapy.cfg").write_text(f"[settings]\ndefault = {package.name}.settings\n")
    (package / "__init__.py").touch()
    text = f"SPIDER_MODULES = ['{package.name}.one']\nROBOTSTXT_OBEY = True\n{config}"
    (package / "settings.py").write_text(text)
    (package / "one.py").write_text("import scrapy\n" + textwrap.dedent(source))
    registry = spiders_of(tmp_path)
    assert registry.broken == {}
    (spider,) = registry.spiders.values()
    assert issubclass(spider, PortedSpider)
    return spider


# -- requests -------------------------------------------------------------------------------------


def translator(kind: type[scrapy.Spider] = Plain, **values: Any) -> tuple[Translator, Any]:
    spider = kind()
    return Translator(spider, settings(**values), frozenset(dir(PortedSpider)) - {"parse"}), spider


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
    with pytest.raises(BadRequest, match="proxies are not supported yet"):
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


# -- callbacks ------------------------------------------------------------------------------------


def test_a_page_is_a_response_of_scrapy() -> None:
    page = make_response(URL, html="<p>a")
    assert run(of(Plain), page).items == [{"url": URL, "kind": "HtmlResponse"}]
    xml = make_response(URL, body=b"<a/>", headers={"Content-Type": "text/xml"})
    assert run(of(Plain), xml).items[0]["kind"] == "XmlResponse"


def test_an_errback_gets_a_failure() -> None:
    request = Request(URL, errback="failed")
    error = DnsError("no address")
    error.request = request
    found = run(of(Plain), error)
    assert found.items == [{"http": False, "dns": True}]
    gone = run(of(Plain), request, download=lambda asked: make_response(URL, status=404))
    assert gone.items == [{"http": True, "dns": False}]


class Closing(Plain):
    name = "closing"

    def parse(self, response: Any, **more: Any) -> Any:
        yield {"a": 1}
        raise CloseSpider("enough")


def test_close_spider_closes_the_task() -> None:
    found = run(of(Closing), make_response(URL, html=""))
    assert (found.items, found.closing) == ([{"a": 1}], "enough")


class Bytes(Plain):
    name = "bytes"

    def parse(self, response: Any, **more: Any) -> Any:
        yield items.Product(name=response.body)


def test_fields_of_bytes_are_stored_as_text() -> None:
    found = run(of(Bytes), make_response(URL, body="é".encode()))
    assert found.items == [{"name": "é"}]
    picture = {"picture": b"\xff"}
    with pytest.raises(SpiderError, match="decode it to text first"):
        encode_item(with_text(picture))


class Steers(Plain):
    """Uses crawler.engine and reads the stats that Scrapy's own parts count."""

    name = "steers"

    def parse(self, response: Any, **more: Any) -> Any:
        engine: Any = self.crawler.engine
        engine.crawl(scrapy.Request(f"{URL}asked"))
        yield scrapy.Request(f"{URL}yielded")
        engine.close_spider(self, "enough")
        stats: Any = self.crawler.stats
        names = ("scheduler/enqueued", "response_received_count", "item_scraped_count")
        yield {name: stats.get_value(name) for name in names}
        yield {"late": stats.get_value("item_scraped_count")}


def test_the_engine_queues_requests_and_ends_the_task_after_the_callback() -> None:
    found = run(of(Steers), make_response(URL, html=""))
    assert [request.url for request in found.requests] == [f"{URL}yielded", f"{URL}asked"]
    first = {"scheduler/enqueued": 1, "response_received_count": 1, "item_scraped_count": None}
    assert found.items == [first, {"late": 1}]
    assert found.closing == "enough"


def test_an_engine_that_is_closing_runs_no_further_callback() -> None:
    made = of(Steers)._make({})
    assert isinstance(made, PortedSpider)
    asyncio.run(made._opened_port().crawler.engine.close_spider_async(reason="sample"))
    assert run(made, make_response(URL, html="")).closing == "sample"


def test_the_engine_queues_nothing_outside_of_a_callback() -> None:
    made = of(Plain)._make({})
    assert isinstance(made, PortedSpider)
    with pytest.raises(RuntimeError, match="only while a callback runs"):
        made._opened_port().crawler.engine.crawl(scrapy.Request(URL))


def test_a_reactor_that_the_project_has_imported_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "twisted.internet.reactor", ModuleType("reactor"))
    assert run(of(Plain), make_response(URL, html="")).items


class Old(Plain):
    """Of Scrapy before 2.13."""

    name = "old"

    def start_requests(self) -> Any:
        yield scrapy.Request(f"{URL}old")


def test_start_requests_is_called_if_it_is_what_the_spider_has() -> None:
    (request,) = run(of(Old)).requests
    assert request.url == f"{URL}old"


def test_a_page_that_would_hold_up_the_worker_is_not_parsed() -> None:
    class Reads(Plain):
        name = "reads"

        def parse(self, response: Any, **more: Any) -> Any:
            yield {"found": response.css("b").get()}

    deep = make_response(URL, html="<div>" * 100_000)
    with pytest.raises(Exception, match="inside each other"):
        run(of(Reads), deep)


class Stamps:
    def process_request(self, request: Any) -> None:
        request.headers["X-Stamp"] = "1"


def test_middlewares_run_in_a_task_and_say_so() -> None:
    made = of(Plain, DOWNLOADER_MIDDLEWARES={Stamps: 1})
    seen: list[str] = []

    def download(asked: Request) -> Any:
        seen.append(asked.headers["X-Stamp"])
        return make_response(URL, html="", request=asked)

    assert run(made, Request(URL), download=download).items
    assert seen == ["1"]
    (middleware,) = made.middlewares
    with pytest.raises(SpiderError, match="run only in a task"):
        asyncio.run(middleware.fetch(Request(URL), None))  # type: ignore[arg-type, call-arg]


# -- the life of a task ---------------------------------------------------------------------------

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
        ("DOWNLOAD_HANDLERS", {"https": "a.Handler"}, "cannot"),
    ],
)
def test_a_setting_without_effect_is_named(name: str, value: Any, where: str) -> None:
    result = mapped(settings(**{name: value}), Plain)
    assert [sentence for sentence in getattr(result, where) if sentence.startswith(name)]
    assert not any(sentence.startswith(name) for sentence in mapped(settings(), Plain).ignored)


# -- what the source says -------------------------------------------------------------------------


def test_arguments_are_the_parameters_and_what_is_read(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        class One(scrapy.Spider):
            name = "one"
            known = 1
            def __init__(self, city, days=3, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.city = city
                self.colour = kwargs.get("colour")
            def parse(self, response):
                self.logger.info(self.known, self.crawler, self.settings, self.region)
                return getattr(self, "limit", None)
        """,
    )
    arguments = describe(spider).arguments
    assert [*arguments["properties"]] == ["city", "days", "colour", "limit", "region"]
    assert arguments["required"] == ["city"]
    made = spider._make({"city": "a", "limit": "5"})
    assert isinstance(made, PortedSpider)
    inside = made._opened_port().spider
    assert (inside.city, inside.limit) == ("a", "5")


def test_state_on_self_is_found_with_its_line(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        class One(scrapy.Spider):
            name = "one"
            def __init__(self):
                self.prepare()
            def prepare(self):
                self.made = []
            def parse(self, response):
                self.made.append(1)
                self.local = response.url
                yield {"l": self.local, "m": self.made}
                self.total = 5
            def parse_more(self, response):
                yield {"t": self.total}
            def closed(self, reason):
                self.reason = reason
        """,
    )
    found = [(one.name, one.line, one.writer, one.reader) for one in spider.scrapy_source.state]
    assert found == [("made", 10, "parse", "parse"), ("total", 13, "parse", "parse_more")]
    file = spider.scrapy_source.state[0].file
    assert f"{file}:10: self.made is changed in parse" in str(verdict_on(spider))


def test_what_cannot_work_is_said_with_its_line(tmp_path: Path) -> None:
    spider = written(
        tmp_path,
        """
        from scrapy import signals
        class One(scrapy.Spider):
            name = "one"
            @classmethod
            def from_crawler(cls, crawler, *args, **kwargs):
                spider = super().from_crawler(crawler, *args, **kwargs)
                crawler.signals.connect(spider.idle, signal=signals.spider_idle)
                return spider
            def idle(self):
                self.crawler.engine.schedule(scrapy.Request("http://a.example/"), self)
            def parse(self, response):
                yield scrapy.Request("http://b.example/", callback=lambda r: None)
                yield scrapy.Request("http://c.example/", meta={"playwright": True})
        """,
    )
    said = str(verdict_on(spider))
    assert said.startswith("one: cannot, because ")
    for line, words in (
        (12, "there is no crawler.engine.schedule"),
        (14, "a callback must be a method"),
        (15, "meta['playwright']"),
        (9, "spider_idle is never sent"),
    ):
        assert f"one.py:{line}: {words}" in said


class Slots:
    """A pipeline that looks into Scrapy's engine."""

    def process_item(self, item: Any, spider: Any) -> Any:
        spider.crawler.engine.slot.scheduler.flush()
        return item


def test_what_components_need_is_said_too() -> None:
    made = of(Plain, ITEM_PIPELINES={Slots: 1})
    (reason,) = verdict_on(made).cannot
    assert reason.startswith(f"{__file__}:")
    assert reason.endswith("there is no crawler.engine.slot")


class Renders:
    """An add-on, which changes settings when a crawler is made."""

    def update_settings(self, settings: Any) -> None:
        settings.set("DOWNLOAD_HANDLERS", {"https": "a.Handler"}, "addon")
        settings.set("DOWNLOAD_DELAY", 4, "addon")


def test_what_add_ons_set_is_seen() -> None:
    made = of(Plain, ADDONS={Renders: 1})
    (reason,) = verdict_on(made).cannot
    assert reason.startswith("DOWNLOAD_HANDLERS['https']")
    assert read_settings(made).delay == 4.0


def test_a_directory_without_a_project_says_what_to_do(tmp_path: Path) -> None:
    (problem,) = spiders_of(tmp_path).broken.values()
    assert "CRAWLFRAME_SCRAPY names the directory of a Scrapy project" in problem


def test_the_modules_of_a_project_are_compiled_from_source(tmp_path: Path) -> None:
    spider = written(tmp_path, "class One(scrapy.Spider):\n    name = 'one'\n")
    loaded = SourceFinder.install().loaded
    (file,) = (path for path in loaded if path.name == "one.py" and tmp_path in path.parents)
    assert file == Path(spider.scrapy_source.nodes[0][0])


def test_nothing_installs_a_reactor() -> None:
    assert isinstance(sys.modules["scrapy"], ModuleType)
    assert "twisted.internet.reactor" not in sys.modules


# -- settings of one task -------------------------------------------------------------------------


class Attributes(Plain):
    """Its attributes give way to what was chosen for a task."""

    name = "attributes"
    download_delay = 7
    download_timeout = 8
    download_maxsize = 9
    user_agent = "ours"
    max_concurrent_requests = 3
    handle_httpstatus_list = [404]
    custom_settings = {"RETRY_TIMES": 6, "DEPTH_LIMIT": 2}


CHOSEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "delay": (2.5, {"DOWNLOAD_DELAY": 2.5, "AUTOTHROTTLE_ENABLED": False}),
    "concurrency": (2, {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "CONCURRENT_REQUESTS": 2}),
    "ip_concurrency": (4, {"CONCURRENT_REQUESTS_PER_IP": 4}),
    "timeout": (11.0, {"DOWNLOAD_TIMEOUT": 11.0}),
    "max_body": (1000, {"DOWNLOAD_MAXSIZE": 1000}),
    "retries": (0, {"RETRY_ENABLED": False, "RETRY_TIMES": 0}),
    "retry_statuses": ([500], {"RETRY_HTTP_CODES": [500]}),
    "handle_statuses": ([410], {"HTTPERROR_ALLOWED_CODES": [410]}),
    "robots": (False, {"ROBOTSTXT_OBEY": False}),
    "depth_limit": (5, {"DEPTH_LIMIT": 5}),
    "page_limit": (50, {"CLOSESPIDER_PAGECOUNT": 50}),
    "time_limit": (60.0, {"CLOSESPIDER_TIMEOUT": 60.0}),
    "max_redirects": (3, {"REDIRECT_MAX_TIMES": 3}),
    "cookies": (False, {"COOKIES_ENABLED": False}),
    "user_agent": ("theirs", {"USER_AGENT": "theirs"}),
    "url_length": (500, {"URLLENGTH_LIMIT": 500}),
}


@pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
@pytest.mark.parametrize("kind", [Plain, Attributes])
def test_settings_of_a_task_reach_the_crawler(kind: type[scrapy.Spider]) -> None:
    """Mapped back, they are the settings that the engine works with."""
    spider = of(kind, AUTOTHROTTLE_ENABLED=True, DOWNLOAD_DELAY=1)
    given = {name: value for name, (value, _) in CHOSEN.items()}
    made, _ = build(spider, {}, given)
    assert isinstance(made, PortedSpider)
    assert made._port is not None
    crawler = made._port.crawler
    for name, (_, expected) in CHOSEN.items():
        found = {key: crawler.settings.get(key) for key in expected}
        assert {k: [*v] if isinstance(v, tuple) else v for k, v in found.items()} == expected, name
        assert {crawler.settings.getpriority(key) for key in expected} == {40}, name
    settings = overridden(read_settings(spider), given)
    back = mapped(crawler.settings, kind).settings
    assert {name: back[name] for name in CHOSEN} == {n: getattr(settings, n) for n in CHOSEN}
    other, _ = build(spider, {})
    assert isinstance(other, PortedSpider)
    assert other._port is not None
    delay = other._port.crawler.settings.getfloat("DOWNLOAD_DELAY")
    assert delay == (7 if kind is Attributes else 1), "the next task has its own"


def test_a_rate_that_is_found_has_the_least_delay_of_the_task() -> None:
    made, _ = build(of(Plain, DOWNLOAD_DELAY=3), {}, {"delay": "auto", "min_delay": 0.5})
    settings = made._port.crawler.settings  # type: ignore[attr-defined]
    assert settings.getbool("AUTOTHROTTLE_ENABLED")
    assert settings.getfloat("DOWNLOAD_DELAY") == 0.5


def test_a_setting_that_does_not_fit_is_named() -> None:
    with pytest.raises(ArgumentError, match="delay must not be negative"):
        build(of(Plain), {}, {"delay": -1})


# -- add-ons --------------------------------------------------------------------------------------

ADDON = '''
from scrapy.exceptions import NotConfigured


class Stamp:
    def process_item(self, item):
        return {**item, "stamped": True}


class Header:
    async def process_request(self, request):
        request.headers["X-Addon"] = "yes"


class Polite:
    """Changes settings, and adds components."""

    @classmethod
    def from_crawler(cls, crawler):
        return cls()

    @classmethod
    def update_pre_crawler_settings(cls, settings):
        settings.set("SPIDER_MODULES", [__name__.rpartition(".")[0] + ".one"], "addon")

    def update_settings(self, settings):
        settings.set("DOWNLOAD_DELAY", 4, "addon")
        settings.set("RETRY_TIMES", 9, "addon")
        settings["ITEM_PIPELINES"].set(Stamp, 1, "addon")
        settings["DOWNLOADER_MIDDLEWARES"].set(Header, 1, "addon")


class Off:
    def __init__(self):
        raise NotConfigured("it has no key")
'''


def test_add_ons_change_settings_and_add_components(tmp_path: Path) -> None:
    """Also those by which spiders are found; what the project sets itself goes first."""
    package = tmp_path / f"project_{abs(hash(tmp_path))}"
    package.mkdir()
    (tmp_path / "scrapy.cfg").write_text(f"[settings]\ndefault = {package.name}.settings\n")
    for name, text in {
        "__init__": "",
        "addon": ADDON,
        "settings": "RETRY_TIMES = 3\nROBOTSTXT_OBEY = True\n"
        f"ADDONS = {{'{package.name}.addon.Polite': 1, '{package.name}.addon.Off': 2}}\n",
        "one": "import scrapy\n\nclass One(scrapy.Spider):\n    name = 'one'\n"
        "    def parse(self, response):\n"
        "        yield {'sent': response.request.headers['X-Addon'].decode()}\n",
    }.items():
        (package / f"{name}.py").write_text(text)
    registry = spiders_of(tmp_path)
    assert registry.broken == {}
    spider = registry.spiders["one"]
    found = read_settings(spider)
    assert (found.delay, found.retries) == (4.0, 3)
    assert any(path.name == "addon.py" for path in registry.files), registry.files
    made, _ = build(spider, {})
    assert isinstance(made, PortedSpider)
    port = made._port
    assert port is not None
    assert port.crawler.settings.getfloat("DOWNLOAD_DELAY") == 4
    assert [type(one).__name__ for one in port.items.components] == ["Stamp"]
    assert len(port.downloads._requests) == 1


def test_a_spider_that_was_let_go_is_made_again_for_its_next_request() -> None:
    """Its pipelines are closed meanwhile, and its cookies and settings are those of the task."""
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
