"""Errands: a robots.txt that redirects is read by the request that needs it, which goes to the host
of each redirect for that, and then home."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from crawlframe.errors import ConnectError, PrivateAddress
from crawlframe.frontier.client.records import (
    ANSWERED,
    NO_SIGNAL,
    NOTHING,
    REFUSED,
    UNREACHABLE,
    Claimed,
    Signal,
    TaskView,
)
from crawlframe.node.worker.robots.guard import RobotsCheck
from crawlframe.node.worker.robots.site_files import ERRAND, LEASE, Wait
from crawlframe.request.record import errand_of
from crawlframe.request.request import Request, make_rid
from crawlframe.robots.state import Status
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.spider.settings import SpiderSettings
from tests.node.runner import Tasks
from tests.node.test_inline import Recorded
from tests.node.test_robots import ORIGIN, ROBOTS, RULES, URL, Cluster, Polite, Rude, Worker

ELSEWHERE = "http://b.example/robots.txt"
TDMREP = f"{ORIGIN}/.well-known/tdmrep.json"


class Buyer(Polite):
    name = "buyer"
    settings: ClassVar[dict[str, Any]] = {"purpose": "ai-train"}


def to(url: str) -> tuple[int, dict[str, str]]:
    return 301, {"Location": url}


class Trip:
    """One request in a worker. ``step`` runs it as it is claimed next, where it went last."""

    def __init__(self, worker: Worker, url: str = URL) -> None:
        self.worker = worker
        request = Request(url)
        self.rid = make_rid(1, request.fingerprint())
        self.home, self.first = request.host, request.encode()
        self.host, self.record = self.home, self.first

    async def step(self, state: str = "running", *, homeless: bool = False) -> Outcome:
        more = {"homeless": homeless}
        claimed = Claimed(self.rid, 1, self.host, 0, 0, self.record, **more)
        outcome = await self.worker.task.take(claimed, TaskView(state, 0))
        if outcome.verdict is Verdict.REDIRECT:
            self.host, self.record = outcome.target, outcome.record
        return outcome

    async def home_again(self) -> list[str]:
        """The hosts it goes to until it is at home without an errand."""
        hosts = []
        for _ in range(9):
            await self.step()
            hosts.append(self.host)
            if self.record == self.first:
                return hosts
        raise AssertionError(hosts)


def run(job: Callable[[Worker, Trip], Any], **pages: Any) -> None:
    async def trip() -> None:
        worker = Worker(Cluster(), moves=lambda host, target: True)
        worker.web.pages |= pages
        await job(worker, Trip(worker))

    asyncio.run(trip())


def test_each_redirect_is_a_claim_of_the_host_it_leads_to() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        away = await trip.step()
        assert (away.verdict, away.target) == (Verdict.REDIRECT, "b.example")
        assert (worker.web.urls, worker.freed) == ([ROBOTS], [])
        assert cluster.held == [("a.example", ERRAND)], "the others of its host wait"
        assert cluster.leases == {ORIGIN: cluster.now + ERRAND}

        there = await trip.step()
        assert (there.verdict, there.host, there.target) == (
            *(Verdict.REDIRECT, "b.example", "a.example"),
        )
        assert worker.web.urls == [ROBOTS, ELSEWHERE]
        assert worker.freed == [trip.rid], "the slot of the other host"
        assert (there.fetch.status, there.fetch.signal[0]) == (200, ANSWERED)
        assert (trip.host, trip.record) == (trip.home, trip.first)
        assert cluster.states[ORIGIN].text == RULES.strip()
        assert cluster.held[-1] == ("a.example", 0), "they wait no longer"
        assert not cluster.leases

        assert (await trip.step()).verdict is Verdict.DONE
        assert worker.web.urls == [ROBOTS, ELSEWHERE, URL]

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_five_redirects_are_followed_and_no_more() -> None:
    hosts = [f"h{n}.example" for n in range(7)]
    urls = [ROBOTS, *(f"http://{host}/{n}" for n, host in enumerate(hosts))]
    pages = {url: to(onward) for url, onward in pairwise(urls)}

    async def good(worker: Worker, trip: Trip) -> None:
        worker.web.pages[urls[5]] = RULES
        assert await trip.home_again() == [*hosts[:5], "a.example"]
        assert worker.guard.store.states[ORIGIN].status is Status.RULES  # type: ignore[attr-defined]

    async def long(worker: Worker, trip: Trip) -> None:
        assert await trip.home_again() == [*hosts[:5], "a.example"]
        state = worker.guard.store.states[ORIGIN]  # type: ignore[attr-defined]
        assert (state.status, state.note) == (
            *(Status.NO_RULES, f"more than 5 redirects, at {urls[5]}"),
        )

    run(good, **pages)
    run(long, **pages)


def test_a_redirect_on_the_same_host_waits_its_delay_too() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        assert await trip.home_again() == ["a.example", "a.example"]
        assert cluster.held == [("a.example", 0)] * 2, "or it would stand in its own way"
        assert (await trip.step()).verdict is Verdict.DONE

    run(job, **{ROBOTS: to("https://a.example/robots.txt"), "https://a.example/robots.txt": RULES})


@pytest.mark.parametrize(
    ("page", "signal", "status"),
    [
        ((503, {"Retry-After": "7"}), Signal(REFUSED, 7000), Status.UNREACHABLE),
        ((429, {}), Signal(REFUSED, -1), Status.UNREACHABLE),
        (ConnectError("no"), Signal(UNREACHABLE), Status.UNREACHABLE),
        (PrivateAddress("10.0.0.1"), NO_SIGNAL, Status.NO_RULES),
        ((404, {}), Signal(ANSWERED, 0), Status.NO_RULES),
    ],
)
def test_what_the_other_host_answers_counts_for_it(page: Any, signal: Signal, status: str) -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        await trip.step()
        assert (await trip.step()).fetch.signal == signal
        assert trip.record == trip.first
        assert cluster.states[ORIGIN].status == status
        expected = {
            Status.NO_RULES: Verdict.DONE,
            Status.UNREACHABLE: Verdict.RETRY if signal.kind == UNREACHABLE else Verdict.RELEASE,
        }
        assert (await trip.step()).verdict is expected[Status(status)]

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: page})


def test_an_errand_that_another_request_has_done_goes_home() -> None:
    """As one does whose host was busy for longer than its turn lasts, or that runs again."""

    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        await trip.step()
        cluster.now += ERRAND
        second = Trip(worker, f"{URL}/2")
        assert await second.home_again() == ["b.example", "a.example"]
        asked = len(worker.web.urls)
        late = await trip.step()
        assert (late.verdict, late.target, late.record) == (
            *(Verdict.REDIRECT, "a.example", trip.first),
        )
        assert (late.fetch.signal, late.fetch.fetch_ms, len(worker.web.urls)) == (
            NO_SIGNAL,
            0,
            asked,
        )

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_the_others_in_the_worker_have_no_errand() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        others = [Trip(worker, f"{URL}/{n}") for n in range(3)]
        worker.web.gate.clear()
        steps = [asyncio.create_task(one.step()) for one in (trip, *others)]
        await asyncio.sleep(0.01)
        worker.web.gate.set()
        verdicts = [(await step).verdict for step in steps]
        assert verdicts == [Verdict.REDIRECT, *[Verdict.RELEASE] * 3]

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_a_host_whose_requests_may_not_leave_their_partition() -> None:
    async def job() -> None:
        worker = Worker(Cluster())
        worker.web.pages |= {ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES}
        permits = Recorded()
        worker.task = Tasks(Polite, worker.web, robots=worker.guard, permits=permits)
        assert (await worker.run()).verdict is Verdict.RELEASE
        assert worker.web.urls == [ROBOTS, ELSEWHERE]
        assert permits.taken == [("b.example", False, NOTHING)]
        assert (await worker.run()).verdict is Verdict.DONE

    asyncio.run(job())


def test_from_another_partition_it_comes_home() -> None:
    async def job() -> None:
        worker = Worker(Cluster(), moves=lambda host, target: "c" not in target)
        onward = "http://c.b/robots.txt"
        worker.web.pages |= {ROBOTS: to("http://d.b/"), "http://d.b/": to(onward), onward: RULES}
        trip = Trip(worker, "http://a.example/page".replace("example", "b"))
        worker.web.pages["http://a.b/robots.txt"] = to("http://d.b/")
        assert await trip.home_again() == ["d.b", "a.b"]
        assert worker.web.urls[-1] == onward

    asyncio.run(job())


def test_a_cancelled_task_and_one_that_ignores_robots_now() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        await trip.step()
        assert errand_of(trip.record) is not None
        cancelled = await trip.step("cancelling")
        assert (cancelled.verdict, cancelled.cancelled) == (Verdict.ERROR, True)
        rude = Trip(Worker(Cluster(), Rude, lambda host, target: True))
        rude.host, rude.record = trip.host, trip.record
        await rude.step()
        assert (rude.host, rude.record, rude.worker.web.urls) == (trip.home, trip.first, [])

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_its_address_is_asked_for_where_it_is() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        async def address_of(url: str) -> str:
            return {ELSEWHERE: "192.0.2.7"}[url]

        worker.web.address_of = address_of  # type: ignore[method-assign]
        await trip.step()
        told = await trip.step(homeless=True)
        assert (told.verdict, told.fetch.signal) == (Verdict.RELEASE, Signal(address="192.0.2.7"))
        assert worker.web.urls == [ROBOTS]

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_a_fetch_inside_of_a_callback_follows_at_once() -> None:
    """It has no claim that could go anywhere."""

    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        reader = worker.guard.reader_of(Request(URL), SpiderSettings())
        turns: list[tuple[str, int]] = []

        @contextlib.asynccontextmanager
        async def turn_at(url: str) -> AsyncIterator[None]:
            turns.append((url, len(worker.web.urls)))
            yield

        check = RobotsCheck(worker.guard, reader._replace(turn_at=turn_at))
        with pytest.raises(Wait):
            await check(URL)
        assert worker.web.urls == [ROBOTS, ELSEWHERE]
        assert turns == [(ELSEWHERE, 1)], "it pays for the other host"
        assert (cluster.held, cluster.states[ORIGIN].status) == ([], Status.RULES)

    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})


def test_tdmrep_json_is_read_in_the_same_way() -> None:
    async def job() -> None:
        cluster = Cluster()
        worker = Worker(cluster, Buyer, lambda host, target: True)
        worker.web.pages |= {TDMREP: to(ELSEWHERE), ELSEWHERE: "[]"}
        trip = Trip(worker)
        assert (await trip.step()).verdict is Verdict.RELEASE  # the robots.txt
        assert await trip.home_again() == ["b.example", "a.example"]
        assert cluster.states[TDMREP].is_known(cluster.now)
        assert (await trip.step()).verdict is Verdict.DONE

    asyncio.run(job())


def test_a_worker_that_dies_on_an_errand_is_followed_by_one_that_does_it() -> None:
    async def job(worker: Worker, trip: Trip) -> None:
        cluster: Any = worker.guard.store
        await trip.step()
        other = Trip(Worker(cluster, moves=lambda host, target: True))
        other.worker.web.pages |= worker.web.pages
        other.host, other.record = trip.host, trip.record
        await other.step()
        assert (other.worker.web.urls, other.record) == ([ELSEWHERE], trip.first)

    assert LEASE < ERRAND
    run(job, **{ROBOTS: to(ELSEWHERE), ELSEWHERE: RULES})
