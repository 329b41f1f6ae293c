"""Kept pages in the database: written with their rows, each body once, and deleted by age, number
and size."""

from __future__ import annotations

import dataclasses
import gzip
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from crawlframe.pages.copy import HeldBytes, PageCopy
from crawlframe.pages.stored import digest_of, response_of
from crawlframe.request.request import Request
from crawlframe.response.coded_body import CodedBody
from crawlframe.run.ledger import LedgerAway, LedgerRefused
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, KeptPage, Page, PageBody, Task
from crawlservice.pages.bodies import read
from crawlservice.pages.retention import PageRetention
from crawlservice.pages.sample import ROW
from crawlservice.tasks.removal import remove
from tests.crawlservice.test_store import outcome

pytestmark = pytest.mark.usefixtures("orm")
BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows

NOW = timedelta()


@pytest.fixture
def task() -> Task:
    return Task.objects.create(spider="s", seeds=b"")


def kept(task: Task, name: str, body: bytes = b"<p>1", reason: str = "", **more: Any) -> Outcome:
    made = outcome(task, name, items=0)
    if reason:
        made.end(Verdict.ERROR, reason)
    headers = {"sent": [["Accept", "*/*"]], "received": [["Server", "nginx"]]}
    made.results.page = PageCopy(
        made.url,
        "h",
        "GET",
        200,
        headers,
        body,
        b"record",
        HeldBytes(),
        reason,
        size=len(body),
        **more,
    )
    return made


def bodies() -> dict[str, bytes]:
    """Bodies by the URL of each page."""
    rows = [*KeptPage.objects.order_by("url")]
    found = read({row.body_id for row in rows})
    return {row.url.removeprefix("http://h/"): found[row.body_id] for row in rows}


@BOTH
def test_a_body_is_stored_as_it_was_sent(task: Task) -> None:
    body = b"<p>hello" * 99
    sent = gzip.compress(body)
    DjangoLedger().commit([kept(task, "a", body, coded=CodedBody("gzip", sent, body))])
    assert bytes(PageBody.objects.get().data or b"") == b"gzip:" + sent
    assert bodies() == {"a": body}


@BOTH
def test_a_page_is_written_with_its_row(task: Task) -> None:
    one = kept(task, "a", b"<p>hello", key=b"k" * 16, etag='"1"', modified="then", address="::1")
    DjangoLedger().commit([one, outcome(task, "b")])
    row = KeptPage.objects.get()
    assert (row.task_id, row.rid, row.url, row.host) == (task.pk, UUID(bytes=one.rid), one.url, "h")
    assert (row.method, row.status, row.reason, row.address) == ("GET", 200, "", "::1")
    assert row.headers == {"sent": [["Accept", "*/*"]], "received": [["Server", "nginx"]]}
    assert (bytes(row.key or b""), row.etag, row.modified) == (b"k" * 16, '"1"', "then")
    assert bytes(row.record) == b"record"
    assert (row.body.size, row.body.stored) == (8, len(row.body.data or b""))
    assert bodies() == {"a": b"<p>hello"}
    assert abs(row.fetched_at - Page.objects.get(rid=row.rid).created_at) < timedelta(minutes=1)


@BOTH
def test_equal_bytes_are_kept_once(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a"), kept(task, "b"), kept(task, "c", b"<p>2")])
    ledger.commit([kept(task, "d"), kept(task, "e", b"")])
    assert PageBody.objects.count() == 3
    assert bodies() == {"a": b"<p>1", "b": b"<p>1", "c": b"<p>2", "d": b"<p>1", "e": b""}


def test_the_page_of_a_run_that_lost_is_not_kept(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a")])
    ledger.commit([kept(task, "a", b"<p>late")])
    assert bodies() == {"a": b"<p>1"}
    assert PageBody.objects.count() == 1


@BOTH
def test_a_retry_replaces_the_page_of_the_first_run(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a", b"<p>broken", "callback")])
    Page.objects.all().delete()  # as a retry does
    ledger.commit([kept(task, "a", b"<p>mended", key=b"k" * 16)])
    row = KeptPage.objects.get()
    assert (row.reason, bytes(row.key or b"")) == ("", b"k" * 16)
    assert bodies() == {"a": b"<p>mended"}


def test_a_copy_for_the_case_of_refusal_is_kept_then_only(task: Task) -> None:
    ledger = DjangoLedger()
    good, refused = kept(task, "a", tentative=True), kept(task, "b", tentative=True)
    refused.end(Verdict.ERROR, "refused", "too long")
    ledger.commit([good, refused])
    assert [(row.url, row.reason) for row in KeptPage.objects.all()] == [("http://h/b", "refused")]


@BOTH
def test_a_sample_says_so_unless_it_was_refused(task: Task) -> None:
    good, refused = kept(task, "a", sample="parse" * 30), kept(task, "b", sample="parse")
    refused.end(Verdict.ERROR, "refused", "too long")
    DjangoLedger().commit([good, refused])
    rows = KeptPage.objects.order_by("url").values_list("reason", "sample")
    assert [*rows] == [("", ("parse" * 30)[:100]), ("refused", None)]
    Page.objects.all().delete()  # as a retry does
    DjangoLedger().commit([kept(task, "a", b"<p>again")])
    assert KeptPage.objects.get(url="http://h/a").sample is None


@BOTH
def test_a_page_is_there_only_with_its_row(task: Task) -> None:
    bad = kept(task, "a")
    bad.results.items = [b'{"a": "\\u0000"}'] if connection.vendor == "postgresql" else [b"{"]
    bad.depth = 1 << 80
    with pytest.raises(LedgerRefused):
        DjangoLedger().commit([bad])
    assert KeptPage.objects.count() == PageBody.objects.count() == Page.objects.count() == 0
    assert bad.results.page is not None
    bad.depth, bad.results.items = 0, []
    DjangoLedger().commit([bad])  # its body is packed and released
    assert bodies() == {"a": b"<p>1"}
    assert bad.results.page.held.given == 4


def test_a_time_that_is_given_is_that_of_the_fetch(task: Task) -> None:
    DjangoLedger().commit([kept(task, "a", fetched_at=1_000_000_000.5)])
    assert KeptPage.objects.get().fetched_at.timestamp() == 1_000_000_000.5


def test_the_database_keeps_a_body_that_a_page_has(task: Task) -> None:
    DjangoLedger().commit([kept(task, "a")])
    with pytest.raises(IntegrityError), transaction.atomic():
        PageBody.objects.all()._raw_delete("default")


@BOTH
def test_many_large_pages_in_one_batch(task: Task) -> None:
    large = [kept(task, f"{n:03}", b"%d" % n * 1000) for n in range(300)]
    DjangoLedger().commit(large)
    assert bodies() == {f"{n:03}": b"%d" % n * 1000 for n in range(300)}


class TestRetention:
    def retention(self) -> PageRetention:
        return PageRetention(unused=NOW)

    def run(self, retention: PageRetention | None = None) -> None:
        retention = retention or self.retention()
        while retention.step():
            pass

    @BOTH
    def test_old_pages_go_with_their_bodies(self, task: Task) -> None:
        old = [kept(task, name, fetched_at=1_000_000_000.0) for name in ("a", "b")]
        DjangoLedger().commit([*old, kept(task, "c", b"new")])
        self.run()
        assert bodies() == {"c": b"new"}
        assert PageBody.objects.count() == 1

    def test_zero_days_are_for_ever(self, task: Task, settings_with: Callable[..., None]) -> None:
        settings_with(KEEP_PAGES=0)
        DjangoLedger().commit([kept(task, "a", fetched_at=1_000_000_000.0)])
        self.run()
        assert len(bodies()) == 1

    def test_the_newest_of_each_reason_stay(
        self, task: Task, settings_with: Callable[..., None]
    ) -> None:
        settings_with(KEEP_ERROR_PAGES=2)
        other = Task.objects.create(spider="s", seeds=b"")
        ledger = DjangoLedger()
        for number in range(5):
            ledger.commit([kept(task, f"a{number}", b"a%d" % number, "http_404")])
            ledger.commit([kept(task, f"b{number}", b"b%d" % number)])
        ledger.commit([kept(task, "c", b"c", "callback"), kept(other, "d", b"d", "http_404")])
        self.run()
        assert sorted(bodies()) == ["a3", "a4", "b0", "b1", "b2", "b3", "b4", "c", "d"]
        assert PageBody.objects.count() == 9

    @BOTH
    def test_the_newest_of_a_sample_stay(
        self, task: Task, settings_with: Callable[..., None]
    ) -> None:
        settings_with(CRAWLFRAME=dataclasses.replace(settings.CRAWLFRAME, keep_sample=2))
        later = Task.objects.create(spider="s", seeds=b"")
        other = Task.objects.create(spider="t", seeds=b"")
        ledger, now = DjangoLedger(), [0.0]
        for number in range(4):
            ledger.commit([kept(task, f"a{number}", b"a%d" % number, sample="parse")])
            ledger.commit([kept(task, f"b{number}", b"b%d" % number, sample="house")])
            ledger.commit([kept(later, f"c{number}", b"c%d" % number, sample="house")])
            ledger.commit([kept(other, f"d{number}", b"d%d" % number, sample="parse")])
            ledger.commit([kept(task, f"e{number}", b"e%d" % number)])  # of an older release
        retention = PageRetention(lambda: now[0], unused=NOW)
        self.run(retention)
        stay = ["a2", "a3", "b3", "c3", "d2", "d3", "e0", "e1", "e2", "e3"]
        assert sorted(bodies()) == stay
        ledger.commit([kept(task, "a4", b"a4", sample="parse")])
        self.run(retention)
        assert "a2" in bodies()
        now[0] += 700
        with CaptureQueriesContext(connection) as queries:
            self.run(retention)
        assert sorted(bodies()) == [*stay[1:2], "a4", *stay[2:]]
        now[0] += 700
        with CaptureQueriesContext(connection) as again:
            self.run(retention)
        assert len(again) < len(queries)  # nothing has come
        assert PageBody.objects.count() == 10

    def test_samples_are_fewer_if_they_take_too_much(
        self, task: Task, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("crawlservice.pages.retention.SAMPLES_PART", 1)
        monkeypatch.setattr("crawlservice.pages.retention.MIB", 2 * ROW + 500)
        settings_with(KEEP_PAGES_SIZE=2)
        for number in range(9):
            DjangoLedger().commit([kept(task, f"{number}", b"%d" % number * 99, sample="parse")])
        self.run()
        assert sorted(bodies()) == ["5", "6", "7", "8"]

    def test_all_stay_of_a_task_that_keeps_all(
        self, task: Task, settings_with: Callable[..., None]
    ) -> None:
        settings_with(KEEP_ERROR_PAGES=2)
        Task.objects.update(settings={"keep": "all"})
        ledger = DjangoLedger()
        for number in range(5):
            ledger.commit([kept(task, f"a{number}", b"a%d" % number, "http_404")])
        self.run()
        assert len(bodies()) == 5

    @BOTH
    def test_the_oldest_go_if_all_take_too_much(
        self, task: Task, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("crawlservice.pages.retention.MIB", 100)
        settings_with(KEEP_PAGES_SIZE=3)
        ledger = DjangoLedger()
        for number in range(30):
            ledger.commit([kept(task, f"{number:02}", b"%d" % number * 40)])
        (each,) = {*PageBody.objects.filter(pk__gt=10).values_list("stored", flat=True)}
        self.run()
        left = sorted(bodies())
        assert left == [f"{n:02}" for n in range(30 - len(left), 30)]
        assert 300 - 2 * each <= len(left) * each <= 300
        assert PageBody.objects.count() == len(left)

    def test_no_query_sums_up_all_bodies(
        self, task: Task, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("crawlservice.pages.retention.MIB", 100)
        monkeypatch.setattr("crawlservice.pages.retention.WINDOW", 4, raising=False)
        settings_with(KEEP_PAGES_SIZE=3)
        ledger = DjangoLedger()
        for number in range(30):
            ledger.commit([kept(task, f"{number:02}", b"%d" % number * 40)])
        with CaptureQueriesContext(connection) as queries:
            self.run()
        sums = [query["sql"] for query in queries if "SUM(" in query["sql"]]
        assert len(sums) > 7
        assert all('"id" <= ' in sql and '"id" > ' in sql for sql in sums)
        assert 0 < sum(PageBody.objects.values_list("stored", flat=True)) <= 300

    def test_no_more_bodies_go_than_the_size_requires(
        self, task: Task, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("crawlservice.pages.retention.MIB", 100)
        settings_with(KEEP_PAGES_SIZE=3)
        now = [0.0]
        retention = PageRetention(lambda: now[0])  # bodies that were used lately stay
        ledger = DjangoLedger()
        for number in range(30):
            ledger.commit([kept(task, f"{number:02}", b"%d" % number * 40)])
        self.run(retention)
        left = len(bodies())
        assert 0 < left < 30
        assert PageBody.objects.count() == 30
        for _ in range(5):
            now[0] += 310
            self.run(retention)
            assert len(bodies()) == left

    def test_pages_go_with_their_task(self, task: Task, published: Any) -> None:
        DjangoLedger().commit([kept(task, "a")])
        Task.objects.update(state="finished", finished_at="2020-01-01T00:00Z")
        assert sum(some.tasks for some in remove(Task.objects.all())) == 1
        assert KeptPage.objects.count() == 0
        self.run()
        assert PageBody.objects.count() == 0

    def test_a_body_that_was_just_used_stays(self, task: Task) -> None:
        DjangoLedger().commit([kept(task, "a")])
        KeptPage.objects.all().delete()
        self.run(PageRetention())
        assert PageBody.objects.count() == 1
        DjangoLedger().commit([kept(task, "b")])
        self.run(PageRetention())
        assert bodies() == {"b": b"<p>1"}


@BOTH
def test_bodies_are_deleted_beside_pages_that_come(task: Task, database: str) -> None:
    """Pages come and go in threads while unused bodies are deleted: no page lacks its body."""
    failures: list[BaseException] = []
    over = threading.Event()

    def comes(thread: int) -> None:
        ledger = DjangoLedger()
        try:
            for number in range(40):
                name = f"{thread}-{number:02}"
                _commit(ledger, kept(task, name, b"%d" % (number % 3)))
                if number % 2:
                    KeptPage.objects.filter(url=f"http://h/{name}").delete()
        except BaseException as error:
            failures.append(error)
        finally:
            ledger.close()

    def goes() -> None:
        retention = PageRetention(clock=lambda: 1e9, unused=timedelta(milliseconds=1))
        try:
            while not over.is_set():
                retention._sweep_at = 0.0
                try:
                    retention.step()
                except IntegrityError:
                    pass  # the steward tries again
        finally:
            connection.close()

    threads = [threading.Thread(target=comes, args=(n,)) for n in range(3)]
    sweeper = threading.Thread(target=goes)
    for thread in (*threads, sweeper):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    sweeper.join()
    assert not failures
    assert len(bodies()) == 60


def _commit(ledger: DjangoLedger, one: Outcome) -> None:
    while True:
        try:
            ledger.commit([one])
            return
        except LedgerAway:  # as SQLite says when another thread writes; the commit thread waits
            pass


# -- pages that are used again --------------------------------------------------------------------

KEY = b"k" * 16


@BOTH
def test_the_page_that_was_kept_last_is_found(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a", b"old", key=KEY), kept(task, "b", b"<p>b", key=b"l" * 16)])
    again = Task.objects.create(spider="s", seeds=b"")
    ledger.commit([kept(again, "c", b"new", key=KEY, etag='"2"', signature=b"s" * 16)])
    found = ledger.pages.latest([KEY, b"l" * 16, b"m" * 16])
    assert sorted(found) == [KEY, b"l" * 16]
    page = found[KEY]
    assert (page.rid, page.url, page.status, page.etag) == (
        b"c".ljust(16, b"."), "http://h/c", 200, '"2"',
    )  # fmt: skip
    assert (page.digest, page.signature) == (digest_of(b"new"), b"s" * 16)
    assert 0 <= page.age < 300
    assert ledger.pages.bodies([found[key].body for key in found] + [999]) == {
        page.body: b"new", found[b"l" * 16].body: b"<p>b",
    }  # fmt: skip
    request = Request("http://h/c")
    response = response_of(page, request, b"new")
    assert (response.url, response.headers["Server"], response.stored) == (
        "http://h/c", "nginx", page,
    )  # fmt: skip


@BOTH
def test_the_page_that_was_fetched_last_is_found_though_an_older_one_is_stored_later(
    task: Task,
) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a", b"new", key=KEY)])
    ledger.commit([kept(task, "b", b"old", key=KEY, fetched_at=time.time() - 900)])
    assert ledger.pages.latest([KEY])[KEY].digest == digest_of(b"new")


def test_the_age_is_by_the_time_of_the_fetch(task: Task) -> None:
    ledger = DjangoLedger()
    hour_ago = time.time() - 3600
    ledger.commit([kept(task, "a", key=KEY, fetched_at=hour_ago)])
    page = ledger.pages.latest([KEY])[KEY]
    assert abs(page.age - 3600) < 300
    assert abs(page.fetched_at - hour_ago) < 0.001


def test_a_damaged_body_is_left_out(task: Task) -> None:
    ledger = DjangoLedger()
    ledger.commit([kept(task, "a", b"one", key=KEY), kept(task, "b", b"two", key=b"l" * 16)])
    PageBody.objects.filter(digest=digest_of(b"one")).update(data=b"damaged")
    found = ledger.pages.latest([KEY, b"l" * 16])
    assert ledger.pages.bodies([page.body for page in found.values()]) == {
        found[b"l" * 16].body: b"two"
    }


def test_results_are_found_as_long_as_all_of_them_are_there(task: Task) -> None:
    ledger = DjangoLedger()
    requests = [Request(f"http://h/{n}").encode() for n in range(3)]
    one = kept(task, "a", key=KEY, signature=b"s" * 16, requests=requests)
    one.results.items = [b'{"n": 1}', msgspec.json.encode({"n": [2, "ü"]})]
    ledger.commit([one, kept(task, "b", key=b"l" * 16)])
    pages = ledger.pages.latest([KEY, b"l" * 16])
    results = ledger.pages.results(pages[KEY])
    assert results is not None
    assert [msgspec.json.decode(item) for item in results.items] == [{"n": 1}, {"n": [2, "ü"]}]
    assert results.requests == requests
    assert ledger.pages.results(pages[b"l" * 16]) is None
    Item.objects.filter(ordinal=1).delete()
    assert ledger.pages.results(pages[KEY]) is None
