"""Results of ``start``, recorded in parts: nothing is lost or done twice, whatever dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe import CloseTask, Response
from crawlframe.fetch.page_cache import PageCache
from crawlframe.frontier.client.records import Claimed
from crawlframe.node.worker.fetch.replay import KEPT_HOST, CacheReplay
from crawlframe.node.worker.start import start_run
from crawlframe.node.worker.start.start_parts import StartEnded, StartParts, StartRoom
from crawlframe.node.worker.start.start_run import PART, StartRuns
from crawlframe.request.request import Admission, Request, make_rid, root_admission
from crawlframe.revisit import Revisit
from crawlframe.revisit.visit import Visit
from crawlframe.run.ledger import StartPart
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import CANCELLED
from crawlframe.spider.spider import Spider
from tests.node.runner import Ready, Tasks

MANY = 2 * PART + 100


def url(n: int) -> str:
    return f"http://h{n % 3}.example/{n}"


class Feed(Spider):
    """``things``: yielded by start; None waits for a moment."""

    name = "feed"
    things: Callable[[], Any]

    def start(self) -> Any:
        return type(self).things()


def feed(things: Callable[[], Any]) -> type[Feed]:
    return type("Feed", (Feed,), {"things": staticmethod(things)})


def requests(n: int = MANY) -> Iterator[Request]:
    return (Request(url(k)) for k in range(n))


class Kept(StartParts):
    """The database and Redis; they outlive runs. ``dies_at``: the number of a part after whose
    commit the worker dies."""

    def __init__(self) -> None:
        self.parts: list[StartPart] = []
        self.known: set[bytes] = set()
        self.rooms: list[StartRoom] = []
        self.pages: list[str] = []  # that were found
        self.asked = 0
        self.dies_at = -1

    async def last(self, task: int) -> StartPart | None:
        return self.parts[-1] if self.parts else None

    async def record(self, host: str, part: StartPart, fingerprints: list[bytes]) -> StartPart:
        assert len(fingerprints) == len(part.follow_ups) <= PART
        new = [one for one in part.follow_ups if one.rid not in self.known]
        dropped = len(part.follow_ups) - len(new)
        part = part._replace(follow_ups=new, duplicates=part.duplicates + dropped)
        if new:
            if part.number != len(self.parts):
                raise StartEnded(Verdict.RELEASE)
            self.parts.append(part)
            self.known |= {one.rid for one in new}
        if new and part.number == self.dies_at:
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)
        return part

    async def found(self, task: int, visit: Visit) -> None:
        self.pages += [page.url for page in visit.found]

    async def room(self, task: int) -> StartRoom:
        self.asked += 1
        return self.rooms.pop(0) if self.rooms else StartRoom.GO

    @property
    def urls(self) -> list[str]:
        return [Request.decode(one.record).url for part in self.parts for one in part.follow_ups]


class Worker(Tasks):
    def __init__(self, spider: type[Spider], parts: StartParts) -> None:
        self.starts = StartRuns(parts)
        super().__init__(spider, Ready(), starts=self.starts)


def run(things: Callable[[], Any], parts: Kept) -> Outcome:
    async def main() -> Outcome:
        return await Worker(feed(things), parts).start()

    return asyncio.run(main())


def urls(outcome: Outcome) -> list[str]:
    return [Request.decode(one.record).url for one in outcome.results.follow_ups]


def all_urls(n: int = MANY) -> list[str]:
    return [url(k) for k in range(n)]


async def _later() -> AsyncIterator[Request]:
    for request in requests():
        yield request


async def _list() -> list[Request]:
    return [*requests()]


def test_few_requests_are_in_the_row_of_the_root_request() -> None:
    parts = Kept()
    outcome = run(lambda: requests(PART - 1), parts)
    assert urls(outcome) == all_urls(PART - 1)
    assert not parts.parts


@pytest.mark.parametrize("things", [requests, lambda: [*requests()], _later, _list])
def test_many_requests_are_recorded_in_parts(things: Callable[[], Any]) -> None:
    parts = Kept()
    outcome = run(things, parts)
    assert outcome.verdict is Verdict.DONE, outcome.detail
    assert not outcome.results.follow_ups
    assert parts.urls == all_urls()
    assert [part.position for part in parts.parts] == [PART, 2 * PART, MANY]


def test_a_killed_run_is_continued_behind_what_was_recorded() -> None:
    parts = Kept()
    for parts.dies_at in (0, 1):
        with pytest.raises(asyncio.CancelledError):
            run(requests, parts)
    parts.dies_at = -1
    made = 0

    def counted() -> Iterator[Request]:
        nonlocal made
        for request in requests():
            made += 1
            yield request

    assert run(counted, parts).verdict is Verdict.DONE
    assert parts.urls == all_urls()
    assert made == MANY  # the generator is run from its beginning


def test_a_run_killed_after_its_last_part_records_nothing_twice() -> None:
    parts = Kept()
    parts.dies_at = 2
    with pytest.raises(asyncio.CancelledError):
        run(requests, parts)
    parts.dies_at = -1
    outcome = run(requests, parts)
    assert not outcome.results.follow_ups
    assert parts.urls == all_urls()


def test_items_and_stats_are_those_of_one_run() -> None:
    def mixed() -> Iterator[Any]:
        for n, request in enumerate(requests()):
            if n % 100 == 0:
                yield {"n": n}
            yield request

    parts = Kept()
    parts.dies_at = 1
    with pytest.raises(asyncio.CancelledError):
        run(mixed, parts)
    parts.dies_at = -1
    outcome = run(mixed, parts)
    assert len(outcome.results.items) == MANY // 100
    assert parts.urls == all_urls()


@pytest.mark.parametrize("change", ["shorter", "shifted", "shuffled"])
def test_another_order_begins_again_and_loses_nothing(change: str) -> None:
    parts = Kept()
    parts.dies_at = 1
    with pytest.raises(asyncio.CancelledError):
        run(requests, parts)
    parts.dies_at = -1
    others = {
        "shorter": all_urls(PART + 10),
        "shifted": ["http://new.example/", *all_urls()],
        "shuffled": [url(k) for k in sorted(range(MANY), key=lambda k: k * 7919 % MANY)],
    }[change]
    outcome = run(lambda: map(Request, others), parts)
    assert outcome.verdict is Verdict.DONE
    assert sorted(parts.urls) == sorted({*all_urls(2 * PART), *others})
    assert len({*parts.urls}) == len(parts.urls)


def test_requests_that_are_not_filtered_keep_their_identity() -> None:
    def polls() -> Iterator[Request]:
        return (Request("http://a.example/", dont_filter=True) for _ in range(MANY))

    parts = Kept()
    parts.dies_at = 0
    with pytest.raises(asyncio.CancelledError):
        run(polls, parts)
    parts.dies_at = -1
    run(polls, parts)
    assert len(parts.known) == MANY


def test_duplicates_are_counted_once() -> None:
    def twice() -> Iterator[Request]:
        yield from requests()
        yield from requests()

    parts = Kept()
    parts.dies_at = 2
    with pytest.raises(asyncio.CancelledError):
        run(twice, parts)
    parts.dies_at = -1
    outcome = run(twice, parts)
    assert parts.urls == all_urls()
    assert outcome.results.duplicates == MANY


def test_an_error_keeps_what_was_recorded() -> None:
    def broken() -> Iterator[Request]:
        yield from requests(PART + 10)
        raise ValueError("the file is damaged")

    parts = Kept()
    outcome = run(broken, parts)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert "the file is damaged" in outcome.detail
    assert parts.urls == all_urls(PART)
    outcome = run(requests, parts)  # it was retried
    assert parts.urls == all_urls()


def test_a_start_that_closes_its_task_ends() -> None:
    def closing() -> Iterator[Request]:
        yield from requests(PART + 10)
        raise CloseTask("enough")

    parts = Kept()
    outcome = run(closing, parts)
    assert outcome.results.closing == "enough"
    assert parts.urls == all_urls(PART + 10)


def test_another_run_that_went_on_ends_this_one() -> None:
    class Overtaken(Kept):
        async def record(self, host: str, part: StartPart, fingerprints: list[bytes]) -> StartPart:
            if part.number == 1 and len(self.parts) == 1:
                self.parts.append(part._replace(follow_ups=[]))
            return await super().record(host, part, fingerprints)

    outcome = run(requests, Overtaken())
    assert outcome.verdict is Verdict.RELEASE
    assert not outcome.results.follow_ups


def test_a_start_waits_while_enough_of_its_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_run, "POLL", 0.001)
    parts = Kept()
    parts.rooms = [StartRoom.WAIT, StartRoom.WAIT, StartRoom.GO]
    assert run(requests, parts).verdict is Verdict.DONE
    assert parts.asked == 4  # after each part but the last
    assert parts.urls == all_urls()


def test_a_cancelled_start_ends() -> None:
    parts = Kept()
    parts.rooms = [StartRoom.CANCELLED]
    outcome = run(requests, parts)
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, CANCELLED)
    assert parts.urls == all_urls(PART)


@pytest.mark.parametrize("waits", [False, True])
def test_a_worker_that_ends_gives_the_start_back(waits: bool) -> None:
    parts = Kept()
    closed: list[bool] = []

    async def main() -> Outcome:
        def things() -> Iterator[Request]:
            try:
                for n, request in enumerate(requests()):
                    if n == PART:
                        worker.starts.leave()
                    yield request
            finally:
                closed.append(True)

        worker = Worker(feed(things), parts)
        if waits:
            parts.rooms = [StartRoom.WAIT] * 1000
            asyncio.get_running_loop().call_later(0.05, worker.starts.leave)
        return await worker.start()

    outcome = asyncio.run(main())
    assert outcome.verdict is Verdict.RELEASE
    assert closed
    parts.rooms.clear()
    assert run(requests, parts).verdict is Verdict.DONE
    assert parts.urls == all_urls()


def test_a_start_blamed_for_a_death_runs_alone_until_its_first_part() -> None:
    parts = Kept()

    async def main() -> Outcome:
        worker = Worker(feed(requests), parts)
        rid, _, host, _, record = root_admission(1)
        return await worker.take(start_claim(rid, host, record))

    assert asyncio.run(main()).verdict is Verdict.RELEASE
    assert parts.urls == all_urls(PART)


def start_claim(rid: bytes, host: str, record: bytes) -> Claimed:
    return Claimed(rid, 1, host, 0, 1, record, kills=1)


def test_a_slow_start_is_recorded_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_run, "PART_EVERY", 0.02)
    monkeypatch.setattr(start_run, "STEP", 0.001)

    async def slow() -> AsyncIterator[Request]:
        for request in requests(10):
            yield request
            await asyncio.sleep(0.01)

    parts = Kept()
    run(slow, parts)
    assert len(parts.parts) > 1
    assert parts.urls == all_urls(10)


def test_large_records_make_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_run, "PART_BYTES", 10_000)
    parts = Kept()
    run(lambda: (Request(url(n), body=b"x" * 1000) for n in range(100)), parts)
    assert max(len(part.follow_ups) for part in parts.parts) <= 10
    assert parts.urls == all_urls(100)


def test_what_was_dropped_is_forgotten() -> None:
    """Otherwise a start that yields the same again and again fills the memory."""
    parts = Kept()
    parts.known = set()
    outcome = run(lambda: (Request(url(n % 10)) for n in range(45 * PART)), parts)
    assert outcome.results.duplicates == 45 * PART - 10
    assert parts.urls == all_urls(10)


class Watched(Feed):
    """Finds pages, and asks for others that belong to the visit."""

    revisit = Revisit(every="1d")


def watched(things: Callable[[], Any], parts: Kept) -> Outcome:
    kind = type("Watched", (Watched,), {"things": staticmethod(things)})

    async def main() -> Outcome:
        worker = Worker(kind, parts)
        assert worker.spec is not None
        worker.spec = worker.spec._replace(watch=3)
        return await worker.start()

    return asyncio.run(main())


def found(outcome: Outcome) -> list[str]:
    assert outcome.results.visit is not None
    return [page.url for page in outcome.results.visit.found]


def test_pages_that_are_found_are_recorded_as_it_goes() -> None:
    parts = Kept()
    outcome = watched(lambda: requests(MANY), parts)
    assert outcome.verdict is Verdict.DONE, outcome.detail
    assert len(parts.pages) >= 2 * PART
    assert len(found(outcome)) < PART  # it is not all in memory
    assert [*parts.pages, *found(outcome)] == all_urls()


def test_pages_found_before_a_part_are_not_lost_with_the_worker() -> None:
    def mixed() -> Iterator[Request]:
        for n in range(MANY):
            yield Request(url(n))
            yield Request(url(n), method="POST", body=b"x")

    parts = Kept()
    parts.dies_at = 1
    with pytest.raises(asyncio.CancelledError):
        watched(mixed, parts)
    parts.dies_at = -1
    outcome = watched(mixed, parts)
    assert outcome.verdict is Verdict.DONE, outcome.detail
    assert {*parts.pages, *found(outcome)} == {*all_urls()}
    assert sorted(parts.urls) == sorted(all_urls())


URL = "http://shop.example/a"


def test_pages_of_the_cache_do_not_wait_for_their_hosts(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "pages.sqlite3")
    request = Request(URL)
    cache.keep(request, Response(URL, 200, {}, b"", request))
    one = Admission(make_rid(1, request.fingerprint()), 5, request.host, 0, request.encode())
    part = StartPart(1, b"r" * 16, 0, 1, b"", 0, [one])
    pushed: list[Any] = []

    def push(*given: Any) -> bool:
        pushed.append(given)
        return True

    starts = SimpleNamespace(push=push)
    stores: Any = SimpleNamespace(
        ask=None, frontier=SimpleNamespace(starts=starts), ledger=SimpleNamespace(starts=None)
    )
    sieve: Any = None
    made = StartParts(stores, sieve, 1, CacheReplay(lambda: cache, places=True))
    assert made._push("start", part)
    assert [one.host for one in pushed[0][-1]] == [KEPT_HOST + one.rid.hex()]
    assert part.follow_ups == [one]  # the ledger has its real host
