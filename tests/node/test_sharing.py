"""Requests without a fetch or a parse, because the store of pages has the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from crawlframe import Request, Secret, Spider
from crawlframe.errors import SpiderError
from crawlframe.frontier.client.records import UNSENT, Claimed, Signal
from crawlframe.node.worker.pages.page_source import Asked, KeptCopy, PageSource
from crawlframe.node.worker.verdict.signals import NEVER
from crawlframe.pages.copy import Results
from crawlframe.pages.stored import digest_of, response_of, tags_of
from crawlframe.request.request import make_rid
from crawlframe.response.response import Response
from crawlframe.response.stored_page import StoredPage
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.spider import describe
from tests.node.runner import URL, Ready, Tasks, items

BODY = b"<a href=/b>b</a>"


class Plain(Spider):
    name = "shop"
    settings: ClassVar[dict[str, Any]] = {"keep": "all"}

    def parse(self, response: Response) -> Any:
        yield {"url": response.url, "stored": response.stored is not None}
        yield from response.follow_all(css="a")


class Shop(Plain):
    settings: ClassVar[dict[str, Any]] = {"reuse": 60.0}


class Asking(Plain):
    settings: ClassVar[dict[str, Any]] = {"reuse": {"conditional": True}}


class Skipping(Plain):
    settings: ClassVar[dict[str, Any]] = {"reuse": {"conditional": True, "skip_unchanged": True}}
    pipelines = (lambda item, response: {**item, "piped": True},)


class Store(PageSource):
    """``page`` and ``body``: the stored page; ``other``: another request fetches the page."""

    def __init__(self, page: StoredPage | None = None, body: bytes | None = BODY) -> None:
        self.page, self._body = page, body
        self.other = False
        self.earlier: Results | None = None
        self.asked: list[Asked] = []

    async def find(self, asked: Asked) -> KeptCopy:
        self.asked.append(asked)
        fresh = asked.is_fresh(self.page)
        wanted = fresh or asked.conditional
        body = self._body if wanted and self.page is not None else None
        waits = 700 if not fresh and self.other and asked.lasts else 0
        return KeptCopy(
            self.page, fresh, body, waits, bool(asked.lasts) and not fresh and not waits
        )

    async def results(self, page: StoredPage) -> Results | None:
        return self.earlier


class Site(Ready):
    """Says 304 to whoever has its tag."""

    def __init__(self, tag: str = '"1"', body: bytes = BODY, modified: str = "") -> None:
        super().__init__(body=body, headers={"ETag": tag, "Content-Type": "text/html"})
        self._tag, self._modified = tag, modified

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        response = await super().fetch(request, *others, **more)
        tags = request.headers.get("If-None-Match", "").split(", ")
        since = request.headers.get("If-Modified-Since", "")
        if self._tag in tags or (self._modified and since == self._modified):
            headers = {"ETag": self._tag, "X-New": "1"}
            response = Response(request.url, 304, headers, b"", request, address="192.0.2.1")
        response.sent = ("GET", request.url, [*request.headers.items()])
        return response


def kept(age: float = 10.0, body: bytes = BODY, **more: Any) -> StoredPage:
    headers = {
        "received": [["Content-Type", "text/html"], ["X-Token", "********"]],
        "manners": {"robots": True, "purpose": None},
    } | more.pop("headers", {})
    given: dict[str, Any] = {"etag": "", "modified": "", "url": URL, "status": 200} | more
    return StoredPage(
        1, b"r" * 16, given.pop("url"), given.pop("status"), headers, "192.0.2.9",
        given.pop("etag"), given.pop("modified"), 1e9, age, 7, digest_of(body), len(body), **given,
    )  # fmt: skip


def run(
    spider: type[Spider],
    store: Store,
    site: Ready | None = None,
    request: Request | None = None,
    *,
    host: str | None = None,
) -> Outcome:
    async def one() -> Outcome:
        tasks, asked = Tasks(spider, site or Site(), pages=store), request or Request(URL)
        rid = make_rid(1, asked.fingerprint())
        return await tasks.take(Claimed(rid, 1, host or asked.host, 9, 0, asked.encode()))

    return asyncio.run(one())


def counted(outcome: Outcome) -> list[str]:
    return sorted(outcome.results.stats.counters) if outcome.results.stats else []


# -- pages that any task has fetched --------------------------------------------------------------


def test_a_fresh_page_is_not_fetched() -> None:
    site, store = Site(), Store(kept(age=60))
    outcome = run(Shop, store, site)
    assert not site.asked
    assert items(outcome) == [{"url": URL, "stored": True}]
    assert (outcome.verdict, outcome.fetch.status, counted(outcome)) == (
        Verdict.DONE, 200, ["store/stored"],
    )  # fmt: skip
    assert outcome.results.page is not None
    assert outcome.results.page.fetched_at == 1e9  # it becomes no younger by that
    assert outcome.results.page.key == store.asked[0].key
    assert not outcome.fetch.reserved


def test_a_page_that_is_too_old_is_fetched_and_reserved() -> None:
    site = Site()
    outcome = run(Shop, Store(kept(age=61)), site)
    assert len(site.asked) == 1
    assert (items(outcome), outcome.fetch.reserved) == ([{"url": URL, "stored": False}], True)
    assert outcome.results.page is not None
    assert outcome.results.page.fetched_at is None


def test_a_page_that_another_request_fetches_is_waited_for() -> None:
    site, store = Site(), Store(kept(age=61))
    store.other = True
    outcome = run(Shop, store, site)
    assert (outcome.verdict, outcome.reason, outcome.delay) == (Verdict.DEFER, "shared", 700)
    assert not site.asked


def test_a_host_is_free_at_once_if_its_request_is_not_sent() -> None:
    told: list[float] = []

    async def one(store: Store, due: float | None) -> Outcome:
        tasks = Tasks(Shop, Site(), pages=store, sent=lambda claimed, ago: told.append(ago))
        record, rid = Request(URL).encode(), b"x" * 16
        claimed = Claimed(rid, 1, "shop.example", 9, 0, record, due=due)
        return await tasks.take(claimed)

    waiting = Store()
    waiting.other = True
    for store in (Store(kept()), waiting):
        # Its end says so too, as it may overtake that report; also without a delay, for its rate.
        for due in (time.monotonic(), None):
            assert asyncio.run(one(store, due)).fetch.signal == Signal(UNSENT)
    assert told == [NEVER, NEVER]


def test_a_page_whose_body_is_gone_is_fetched() -> None:
    site = Site()
    run(Shop, Store(kept(), body=None), site)
    assert len(site.asked) == 1


def test_a_missing_page_is_missing_for_all_tasks() -> None:
    site = Site()
    outcome = run(Shop, Store(kept(status=404)), site)
    assert (outcome.verdict, outcome.reason, site.asked) == (Verdict.ERROR, "http_404", [])


@pytest.mark.parametrize(
    "other",
    [
        {"headers": {"received": [["Set-Cookie", "sid=********"]]}},
        {"headers": {"manners": {"robots": False, "purpose": None}}},
        {"headers": {}, "rid": "own"},
        {"status": 503},
        {"url": "http://elsewhere.example/"},
        {"body": b"x" * 200},
    ],
)
def test_a_page_that_may_not_take_the_place_of_a_fetch(other: dict[str, Any]) -> None:
    narrow: dict[str, Any] = {
        "allowed_domains": ["shop.example"], "settings": {"max_body": 150},
    }  # fmt: skip
    own = other.pop("rid", "")
    page = kept(**other)
    if own:
        page = page._replace(rid=make_rid(1, Request(URL).fingerprint()))
    site = Site()
    run(type("Narrow", (Shop,), narrow), Store(page), site)
    assert len(site.asked) == 1
    run(type("Narrow", (Shop,), narrow), Store(kept()), site)
    assert len(site.asked) == 1


def test_pages_for_a_purpose_are_those_that_were_fetched_for_it() -> None:
    training = type("Training", (Shop,), {"settings": {"purpose": "ai-train"}})
    site = Site()
    run(training, Store(kept()), site)
    assert len(site.asked) == 1
    manners = {"manners": {"robots": True, "purpose": "ai-train"}}
    run(training, Store(kept(headers=manners)), site)
    assert len(site.asked) == 1


def test_a_masked_header_is_left_out() -> None:
    response = response_of(kept(), Request(URL), BODY)
    assert [*response.headers.items()] == [("Content-Type", "text/html")]


def test_a_file_is_not_looked_for() -> None:
    store = Store(kept())
    run(Shop, store, request=Request(URL, save=True))
    assert not store.asked


class Answering(Site):
    """Sends these headers, and seems to have been sent those."""

    def __init__(self, received: dict[str, str], sent: dict[str, str]) -> None:
        super().__init__()
        self._fields |= received
        self._sent = sent

    async def fetch(self, request: Request, *others: Any, **more: Any) -> Response:
        response = await super().fetch(request, *others, **more)
        response.sent = ("GET", request.url, [*self._sent.items()])
        return response


def key_and_own(
    spider: type[Spider] = Shop,
    received: dict[str, str] | None = None,
    sent: dict[str, str] | None = None,
    request: Request | None = None,
) -> tuple[bytes | None, Asked | None]:
    """The key of the kept page, and the request for it."""
    store = Store()
    outcome = run(spider, store, Answering(received or {}, sent or {}), request)
    assert outcome.results.page is not None
    return outcome.results.page.key, store.asked[0] if store.asked else None


class Doubting(Shop):
    def is_blocked(self, response: Response) -> bool:
        return False


@pytest.mark.parametrize(
    "case",
    [
        {"sent": {"Cookie": "sid=1"}},
        {"sent": {"Authorization": "Basic x"}},
        {"received": {"Set-Cookie": "sid=1"}},
        {"received": {"Cache-Control": "max-age=0, private"}},
        {"received": {"Cache-Control": "no-store"}},
        {"request": Request(URL, session="one")},
        {"spider": Doubting},
    ],
)
def test_a_page_that_may_be_somebodys_is_that_of_its_spider(case: dict[str, Any]) -> None:
    key, asked = key_and_own(**case)
    assert asked is not None
    assert key == asked.own != asked.key


def test_pages_without_a_login_are_shared_by_all() -> None:
    key, asked = key_and_own()
    assert asked is not None
    assert key == asked.key != asked.own


@pytest.mark.parametrize(
    "request_",
    [
        Request(URL, method="POST", body=b"name=me"),
        Request(URL, method="HEAD"),
        Request(URL, headers={"Range": "bytes=0-9"}),
        Request(URL, headers={"If-None-Match": '"1"'}),
    ],
)
def test_the_store_is_for_whole_pages(request_: Request) -> None:
    assert key_and_own(request=request_) == (None, None)


def test_arguments_and_their_secrets_tell_owners_apart() -> None:
    def own(**arguments: Any) -> bytes:
        store = Store()

        async def one() -> None:
            await Tasks(Argued, Site(), arguments, pages=store).run(Request(URL))

        asyncio.run(one())
        return store.asked[0].own

    assert own(user="a") == own(user="a") != own(user="b")
    assert own(token=Secret("one")) != own(token=Secret("two"))


class Argued(Shop):
    name = "argued"
    user: str = ""
    token: Secret = Secret("")


class Layer:
    async def fetch(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        return Response(response.url, 200, response.headers, b"<changed>", request)


def test_middlewares_do_not_fit() -> None:
    with pytest.raises(SpiderError, match="not fit with middlewares"):
        describe(type("Layered", (Shop,), {"middlewares": (Layer,)}))


def test_the_received_body_is_kept_not_a_middlewares() -> None:
    layered = type("Layered", (Plain,), {"middlewares": (Layer,)})
    page = run(layered, Store()).results.page
    assert page is not None
    assert page.body == BODY


# -- pages that may have changed ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "has", "modified"),
    [
        ('"1"', '"1"', ""), ('W/"1"', 'W/"1"', ""), ('"1"', '"1-gzip"', ""),
        ('"1"', '"1;br"', ""), ("unquoted", "unquoted", ""), ('"9"', "", "then"),
    ],
)  # fmt: skip
def test_a_304_brings_the_page_of_the_store(tag: str, has: str, modified: str) -> None:
    site = Site(tag, b"other", modified)
    outcome = run(Asking, Store(kept(etag=has, modified=modified)), site)
    assert (outcome.verdict, outcome.fetch.status, outcome.fetch.size) == (Verdict.DONE, 304, 0)
    assert items(outcome) == [{"url": URL, "stored": False}]
    assert counted(outcome) == ["store/not_modified"]
    page = outcome.results.page
    assert page is not None
    assert (page.status, page.body, page.etag, page.fetched_at) == (200, BODY, tag, None)
    received = page.headers["received"]
    assert ["X-New", "1"] in received
    assert ["Content-Type", "text/html"] in received


def test_a_page_that_has_changed_is_new() -> None:
    outcome = run(Asking, Store(kept(etag='"0"')), Site(body=b"new"))
    assert (outcome.fetch.status, outcome.fetch.size, counted(outcome)) == (200, 3, [])


def test_a_server_that_always_says_200_with_the_same_bytes() -> None:
    outcome = run(Asking, Store(kept(etag='"0"')), Site())
    assert (outcome.fetch.status, counted(outcome)) == (200, ["store/same_bytes"])


def test_a_page_that_was_reached_by_a_redirect_is_asked_for_as_a_whole() -> None:
    site = Site()
    run(Asking, Store(kept(etag='"1"', url="http://shop.example/elsewhere")), site)
    assert "If-None-Match" not in site.asked[0].headers


def test_a_304_that_nobody_asked_for_is_an_error() -> None:
    site = Ready(304)
    for store in (Store(), Store(kept()), Store(kept(etag='"1"'), body=None)):
        outcome = run(Asking, store, site)
        assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "http_304")
    assert all("If-None-Match" not in request.headers for request in site.asked)


def test_tags_of_servers_that_compress() -> None:
    assert tags_of('"a-gzip"') == '"a-gzip", "a"'
    assert tags_of('W/"a--gzip"') == 'W/"a--gzip", W/"a"'
    assert tags_of('"a"') == '"a"'
    assert tags_of("a-gzip") == "a-gzip"


# -- callbacks that need not run ------------------------------------------------------------------


def test_results_of_an_unchanged_page_are_taken_over() -> None:
    first = run(Skipping, Store()).results.page
    assert first is not None
    assert first.signature
    assert [Request.decode(one).url for one in first.requests or ()] == ["http://shop.example/b"]
    store = Store(kept(etag='"1"', signature=first.signature))
    store.earlier = Results([b'{"old":1}'], first.requests or [])
    outcome = run(Skipping, store)
    assert items(outcome) == [{"old": 1}]  # through no pipeline again
    assert [Request.decode(one.record).url for one in outcome.results.follow_ups] == [
        "http://shop.example/b"
    ]
    assert counted(outcome) == ["store/not_modified", "store/taken_over"]
    assert outcome.results.page is not None
    assert (outcome.results.page.signature, outcome.results.page.requests) == (
        first.signature,
        first.requests,
    )


@pytest.mark.parametrize("case", ["other code", "changed", "gone"])
def test_callbacks_run_where_it_may_matter(case: str) -> None:
    first = run(Skipping, Store()).results.page
    assert first is not None
    signature = b"x" * 16 if case == "other code" else first.signature
    store = Store(kept(etag='"1"', signature=signature))
    store.earlier = None if case == "gone" else Results([b'{"old":1}'], [])
    site = Site('"2"', b"new") if case == "changed" else Site()
    outcome = run(Skipping, store, site)
    assert items(outcome)[0]["url"] == URL
    assert "store/taken_over" not in counted(outcome)


def test_the_signature_depends_on_the_data_of_the_request() -> None:
    def signature(request: Request) -> bytes:
        page = run(Skipping, Store(), request=request).results.page
        assert page is not None
        return page.signature

    assert signature(Request(URL)) == signature(Request(URL, depth=3, priority=7))
    assert signature(Request(URL)) != signature(Request(URL, meta={"a": 1}))


def test_links_beyond_the_depth_limit_are_remembered() -> None:
    shallow = type("Shallow", (Skipping,), {"settings": {"depth_limit": 1}})
    page = run(shallow, Store(), request=Request(URL, depth=1)).results.page
    assert page is not None
    assert len(page.requests or ()) == 1


class Busy(Skipping):
    def parse(self, response: Response) -> Any:
        self.stats.inc("own")
        yield {"a": 1}


class Late(Skipping):
    def parse(self, response: Response) -> Any:
        yield Request("http://shop.example/b", delay=60)


@pytest.mark.parametrize("spider", [Busy, Late])
def test_what_cannot_be_repeated_is_not_taken_over(spider: type[Spider]) -> None:
    page = run(spider, Store()).results.page
    assert page is not None
    assert page.signature == b""


def test_without_such_settings_the_store_is_not_asked() -> None:
    store = Store(kept())
    outcome = run(Plain, store)
    assert not store.asked
    assert outcome.results.page is not None
    assert (outcome.results.page.signature, outcome.results.page.requests) == (b"", None)
