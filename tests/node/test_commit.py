"""The commit thread, on a real Redis and ledger: order of writes, winning runs, waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import RedisError

from crawlframe.base import faults
from crawlframe.base.faults import Faults
from crawlframe.base.limits import ByteBudget
from crawlframe.conf import Settings
from crawlframe.errors import Fenced
from crawlframe.fetch.page_cache import PageCache
from crawlframe.files.saved_file import SavedFile
from crawlframe.frontier import Completion, Frontier, TaskLimits
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.records import NOTHING, REFUSED
from crawlframe.frontier.reservations import Target
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.commit.participants import participants
from crawlframe.node.worker.fetch.replay import CacheReplay
from crawlframe.node.worker.run_request import outcome_of
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.render.knowledge import UNKNOWN, Knowledge, Lesson, URLTemplate
from crawlframe.render.yielded import Attempt
from crawlframe.request.record import Hop, with_hops, with_render
from crawlframe.request.request import Admission, Request, pack_admissions, unpack_admissions
from crawlframe.run.ledger import FilesGone, LedgerRefused, Recorded
from crawlframe.run.link_filters import Sieve
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant, Participants
from crawlframe.run.reasons import CHALLENGED, DUPLICATE
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Event, Item, Page, Task, TaskState
from crawlservice.security.sealing import unseal
from tests.frontier.bench import Bench
from tests.outcomes import set_fields

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]
PAGES = ["/a", "/b", "/c"]


class Ledger(DjangoLedger):
    """A ledger that also records the content of Redis when a batch was written."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.closed = 0
        self.places: list[tuple[int, int, int, int]] = []  # as the bench tells them
        self._bench = bench

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        self.batches.append([outcome.url for outcome in outcomes])
        self.places.append(self._bench.places())
        return super().commit(outcomes)

    def close(self) -> None:
        self.closed += 1  # the connection is the test's too


@dataclass
class Desk:
    """A task of three pages that a node holds, and the commit thread's surroundings."""

    bench: Bench
    settings: Settings = field(default_factory=Settings)
    generation: int = 1
    settled: list[bytes] = field(default_factory=list)
    fenced: int = 0
    more: list[Participant] = field(default_factory=list)  # behind the worker's own

    def __post_init__(self) -> None:
        self.sieve = Sieve()
        self.ledger = Ledger(self.bench)
        seeds = [self.bench.request(page) for page in PAGES]
        # The frontier's task 1 is the database's too.
        self.task = Task.objects.create(
            pk=1, spider="s", arguments={}, seeds=pack_admissions(seeds)
        )
        self.bench.open(*seeds)
        self.held = {self.bench.name_of[one.rid]: one for one in self.bench.claim()}

    def outcome(self, name: str, *links: str, items: int = 0, **fields: Any) -> Outcome:
        one = self.held[name]
        made = outcome_of(one, "")
        made.url = name
        made.results.follow_ups = [self.bench.request(link, "b.example") for link in links]
        made.results.fingerprints = [link.encode() for link in links]
        made.results.items = [b'{"n":%d}' % n for n in range(items)]
        set_fields(made, **fields)
        return made

    def write(self, *outcomes: Outcome) -> Committer:
        """Writes everything, in a thread that ends then."""
        committer = self.committer()
        for outcome in outcomes:
            committer.put(outcome)
        assert committer.held == len(outcomes)
        committer.close()
        committer.run()  # here: the connection to the database is of this thread
        assert committer.held == 0
        assert sorted(self.settled) == sorted(outcome.rid for outcome in outcomes)
        self.settled.clear()
        return committer

    def committer(self, replay: CacheReplay | None = None) -> Committer:
        def on_fenced() -> None:
            self.fenced += 1

        own = participants(self.bench.frontier, self.ledger, self.sieve)
        return Committer(
            *(self.settings, self.generation, self.bench.frontier, self.ledger, self.sieve),
            Participants([*own._all, *self.more], documented=(RedisError,)),
            *(self.settled.extend, on_fenced),
            place=replay.place if replay else None,
        )

    def rows(self) -> dict[str, str]:
        return dict(Page.objects.values_list("url", "state"))

    def known(self, name: str) -> bool:
        return any(name.encode() in some for some in self.sieve.of(1))


SHELF = URLTemplate("parse", "a.example/*")


def attempt(lesson: Lesson | None) -> Attempt:
    return Attempt("s", SHELF, UNKNOWN, lesson=lesson)


@pytest.fixture
def desk(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr("crawlframe.node.worker.commit.committer.RETRY_PAUSES", (0.01,))
    monkeypatch.setattr("os._exit", _fail)
    desk = Desk(make_bench(store=PartitionedStore))
    yield desk
    # Nothing is lost and nothing is stored twice, whatever happened.
    assert Page.objects.count() == len(set(Page.objects.values_list("rid", flat=True)))


def _fail(code: int) -> None:
    raise AssertionError("the commit thread failed")


@pytest.fixture
def break_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``break_at("commit.before:1:error")``: makes that point fail."""

    def switch(text: str) -> None:
        monkeypatch.setattr(faults, "at", Faults(text).at)

    return switch


# -- order ----------------------------------------------------------------------------------------


def test_the_ledger_knows_before_redis_is_told(desk: Desk) -> None:
    desk.write(desk.outcome("/a", "/d", items=2), desk.outcome("/b"))
    assert desk.ledger.batches == [["/a", "/b"]]
    assert desk.ledger.places == [(0, 3, 0, 0)]  # nothing was complete when the rows were written
    assert desk.bench.places() == (1, 1, 0, 0)
    assert desk.rows() == {"/a": "done", "/b": "done"}
    assert Item.objects.count() == 2
    assert desk.ledger.closed == 1
    counts = desk.bench.counts()
    assert (counts.na, counts.nf, counts.ne) == (4, 2, 0)


def test_a_death_between_the_commit_and_the_completion_leaves_the_request_pending(
    desk: Desk, break_at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(_: float) -> None:
        raise Died

    monkeypatch.setattr("time.sleep", die)
    break_at("complete.before:1:error")
    with pytest.raises(Died):
        desk.committer()._write([desk.outcome("/a", "/d")])
    assert desk.rows() == {"/a": "done"}
    assert desk.bench.places() == (0, 3, 0, 0)


def test_cookies_are_there_before_the_follow_ups_that_need_them(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    break_at("cookies.before:1:error")  # then nothing else may have happened
    desk.write(desk.outcome("/a", "/d", cookies={"a|/|k": ""}))
    assert desk.ledger.places == [(0, 3, 0, 0)]
    assert desk.bench.frontier.cookies(1).entries == {"a|/|k": ""}
    assert len(desk.ledger.batches) == 1


def test_cookies_are_in_the_database_first_and_cannot_be_read_there(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    break_at("cookies.before:1:error")
    entries = {f"a.example|/|session{n}": f'["session{n}","secret"]' for n in range(3)}
    with pytest.raises(RedisError):
        desk.committer()._settle([desk.outcome("/a", "/d", cookies=entries)])
    assert desk.bench.frontier.cookies(1).entries == {}
    rows = TaskState.objects.values_list("kind", "sealed")
    assert {kind for kind, _ in rows} == {"cookies"}
    assert len(rows) == 3
    assert not any("session" in sealed or "secret" in sealed for _, sealed in rows)


@pytest.mark.parametrize("verdict", [Verdict.DONE, Verdict.REDIRECT, Verdict.RETRY])
def test_cookies_of_any_answer_are_kept(desk: Desk, verdict: Verdict) -> None:
    more: dict[str, Any] = {"target": "b.example"} if verdict is Verdict.REDIRECT else {}
    for value in ("1", "2", ""):
        one = desk.outcome("/a", cookies={"a|/|k": value}, verdict=verdict, **more)
        desk.committer()._write([one])
        assert orjson.loads(unseal(TaskState.objects.get().sealed)) == ["a|/|k", value]


def test_the_proxy_of_a_session_is_kept_once(desk: Desk) -> None:
    committer = desk.committer()
    proxy = ChosenProxy(7, "http", "p.example", 1)
    with CaptureQueriesContext(connection) as queries:
        for name in PAGES:
            committer._write([desk.outcome(name, route="pool#1.s", via=proxy)])
    assert sum("taskstate" in query["sql"] for query in queries) == 1
    assert orjson.loads(unseal(TaskState.objects.get().sealed)) == ["a.example|pool#1.s", "7"]


# -- whose run counts -----------------------------------------------------------------------------


@pytest.mark.parametrize("failed", [False, True])
def test_the_run_that_was_first_gives_its_follow_ups_and_its_end(desk: Desk, failed: bool) -> None:
    first = desk.outcome("/a", "/theirs", items=2)
    if failed:
        first.end(Verdict.ERROR, "timeout")
    desk.ledger.commit([first])
    desk.bench.frontier.admit(1, [desk.bench.request("/old", "b.example")])
    late = desk.outcome("/a", "/ours", "/old", items=5)
    if not failed:
        late.end(Verdict.ERROR, "timeout")
    desk.write(late, desk.outcome("/b", "/d"))
    counts = desk.bench.counts()
    assert (counts.nf, counts.ne) == (1, 1) if failed else (2, 0)
    named = {"/d", "/old"} if failed else {"/theirs", "/d", "/old"}
    assert {*desk.bench.names(desk.bench.claim_all())} == named
    assert Item.objects.count() == 2 * (not failed)
    assert desk.known("/d")
    assert not desk.known("/ours"), "nobody has recorded it"


def test_what_ended_in_error_is_completed_as_such(desk: Desk) -> None:
    desk.write(desk.outcome("/a").end(Verdict.ERROR, "timeout"), desk.outcome("/b", duplicates=3))
    counts = desk.bench.counts()
    assert (counts.nf, counts.ne, counts.duplicates) == (1, 1, 3)


# -- results known to Redis -----------------------------------------------------------------------


def test_follow_ups_that_were_admitted_are_neither_recorded_nor_sent(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    break_at("commit.before:1:error")  # so it is asked twice
    desk.bench.frontier.admit(1, [desk.bench.request("/old", "b.example")])
    desk.write(desk.outcome("/a", "/new", "/old", duplicates=1), desk.outcome("/b", "/other"))
    row = Page.objects.get(url="/a")
    recorded = unpack_admissions(row.follow_ups or b"")
    assert desk.bench.names(recorded) == ["/new"]
    assert desk.bench.counts().duplicates == 2
    assert all(map(desk.known, ("/old", "/new", "/other")))
    assert {*desk.bench.names(desk.bench.claim_all())} == {"/old", "/new", "/other"}


def test_what_is_admitted_while_a_result_waits_is_not_recorded_either(
    desk: Desk, break_at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.bench.frontier.admit(1, [desk.bench.request("/old", "b.example")])

    def meanwhile(_: float) -> None:
        if desk.ledger.batches:
            desk.bench.frontier.admit(1, [desk.bench.request("/late", "b.example")])

    monkeypatch.setattr("time.sleep", meanwhile)
    break_at("commit.before:1:error")
    desk.write(desk.outcome("/a", "/old", "/late", "/new"))
    recorded = unpack_admissions(Page.objects.get(url="/a").follow_ups or b"")
    assert desk.bench.names(recorded) == ["/new"]
    assert desk.bench.counts().duplicates == 2


# -- requests without an end ----------------------------------------------------------------------


def test_what_is_tried_again_later_parked_or_given_back_has_no_row(desk: Desk) -> None:
    desk.write(
        desk.outcome("/a").end(Verdict.RETRY, "timeout", delay=60_000),
        desk.outcome("/b").end(Verdict.RELEASE),
        desk.outcome("/c").end(Verdict.PARK, "no callback"),
    )
    assert desk.bench.places() == (1, 0, 1, 1)
    assert desk.ledger.batches == []
    assert desk.bench.wait == -1
    [again] = desk.bench.claim()
    assert (desk.bench.name_of[again.rid], again.attempts, again.deliveries) == ("/b", 0, 0)
    assert 50_000 < desk.bench.wait <= 60_000


@pytest.mark.parametrize(
    ("reason", "kind", "refusals"),
    [(CHALLENGED, NOTHING, 1), ("address", NOTHING, 0), ("http_429", REFUSED, 1)],
)
def test_a_challenge_counts_as_a_refusal(desk: Desk, reason: str, kind: int, refusals: int) -> None:
    outcome = desk.outcome("/a", signal=(kind, 0, ""))
    desk.write(outcome.end(Verdict.RELEASE, reason))
    desk.bench.redis.hdel(desk.bench.key("HOST", "a.example"), "r", "p", "x")  # it rests
    desk.bench.redis.zadd(desk.bench.key("HOSTS"), {"a.example": 0})
    [again] = desk.bench.claim()
    assert (again.refusals, again.attempts) == (refusals, 0)


def test_what_was_not_tried_waits_without_an_attempt(desk: Desk) -> None:
    desk.write(
        desk.outcome("/a").end(Verdict.RETRY, "timeout"),
        desk.outcome("/b").end(Verdict.DEFER, "connection_lost"),
        desk.outcome("/c").end(Verdict.DEFER, "connection_lost", delay=60_000),
    )
    assert desk.ledger.batches == []
    again = {desk.bench.name_of[claimed.rid]: claimed.attempts for claimed in desk.bench.claim()}
    assert again == {"/a": 1, "/b": 0}
    assert 50_000 < desk.bench.wait <= 60_000


def test_a_redirect_goes_to_its_host_when_its_cookies_are_shared(desk: Desk) -> None:
    one = desk.held["/a"]
    hops = [Hop(302, "http://b.example/x")]
    outcome = desk.outcome(
        "/a", redirects=hops, target="b.example", cookies={"a.example|/|sid": "entry"}
    )
    outcome.record = with_hops(Request("http://a.example/").encode(), hops)
    desk.write(outcome.end(Verdict.REDIRECT))
    assert desk.ledger.batches == []
    claim = desk.bench.whole_claim()
    [again] = claim.requests
    assert (again.rid, again.host, again.record) == (one.rid, "b.example", outcome.record)
    assert claim.tasks[1].cookies == 1


def test_a_redirect_is_repeated_while_redis_is_away(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    break_at("redirect.after:1:error,redirect.after:2:error,redirect.before:3:error")
    hops = [Hop(302, "http://b.example/x")]
    outcome = desk.outcome("/a", redirects=hops, target="b.example")
    outcome.record = with_hops(Request("http://a.example/").encode(), hops)
    desk.write(outcome.end(Verdict.REDIRECT))
    assert [one.host for one in desk.bench.claim()] == ["b.example"]


@pytest.mark.parametrize("points", ["", "redirect.after:1:error,redirect.before:2:error"])
def test_a_page_that_must_be_rendered_goes_back_once_before_the_others(
    desk: Desk, break_at: Callable[[str], None], points: str
) -> None:
    if points:
        break_at(points)
    desk.bench.release(desk.held["/b"])
    one = desk.held["/a"]
    outcome = desk.outcome("/a", target=one.host, attempt=attempt(Lesson.STATIC))
    outcome.record = with_render(Request("http://a.example/").encode(), ["missing", 1, 0, 1, 0])
    desk.write(outcome.end(Verdict.REDIRECT))
    assert desk.ledger.batches == []
    again, other = desk.bench.claim()
    assert (again.rid, again.host, again.record) == (one.rid, one.host, outcome.record)
    assert (again.attempts, again.deliveries, again.refusals) == (0, 0, 0)
    assert desk.bench.name_of[other.rid] == "/b"
    assert desk.bench.counts().nr == 3
    assert desk.bench.frontier.renders.of("s") == {}


def test_only_pages_that_are_done_teach(desk: Desk) -> None:
    bad = desk.outcome("/b", items=1, attempt=attempt(Lesson.NEEDED))
    bad.results.items = [b"not json"]
    good = desk.outcome("/a", items=1, attempt=attempt(Lesson.STATIC))
    desk.write(good, bad, desk.outcome("/c", attempt=attempt(None)))
    ((template, known),) = desk.bench.frontier.renders.of("s").items()
    assert template == SHELF
    assert known == Knowledge(static=1, items=1, since=known.since, used=known.used)


# -- away -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point", ["commit.before", "commit.after", "known.before", "complete.before", "complete.after"]
)
def test_results_wait_while_one_is_away(
    desk: Desk, break_at: Callable[[str], None], point: str, caplog: pytest.LogCaptureFixture
) -> None:
    break_at(",".join(f"{point}:{n}:error" for n in (1, 2, 3)))
    desk.write(desk.outcome("/a", "/d", items=1), desk.outcome("/b"))
    assert desk.rows() == {"/a": "done", "/b": "done"}
    assert Item.objects.count() == 1
    counts = desk.bench.counts()
    assert (counts.na, counts.nf, counts.duplicates) == (4, 2, 0)
    assert caplog.text.count("2 results wait") == 1


def test_it_tells_for_what_results_wait(
    desk: Desk, break_at: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlframe.node.worker.commit.committer.RETRY_PAUSES", (0.1,))
    break_at(",".join(f"known.before:{n}:error" for n in range(1, 20)))
    committer = desk.committer()
    assert committer.waits == ""
    committer.put(desk.outcome("/a", "/d"))
    committer.start()
    deadline = time.monotonic() + 30
    while "known.before" not in committer.waits:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    committer.close()
    committer.join(30)
    assert (committer.waits, committer.held) == ("", 0)


def test_who_is_dead_writes_no_more(desk: Desk) -> None:
    desk.bench.frontier.eras.begin(5)
    desk.bench.frontier.store.call_log.learn(0, 4)
    desk.write(desk.outcome("/a", "/d"))
    assert desk.fenced == 1
    assert desk.bench.places() == (0, 3, 0, 0)
    desk.bench.frontier.eras.learn()


def test_who_is_dead_gives_back_nothing_more_either(desk: Desk) -> None:
    desk.bench.leases.replay(1)
    desk.write(desk.outcome("/a").end(Verdict.RELEASE))
    assert desk.bench.places() == (3, 0, 0, 0)


def test_redis_is_asked_whether_it_knows_what_it_said(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    committer = desk.committer()
    committer.confirm()
    committer.close()
    committer.run()
    assert desk.fenced == 0
    desk.bench.frontier.eras.begin(5)
    desk.bench.frontier.store.call_log.learn(0, 4)
    committer.confirm()
    committer.close()
    committer.run()
    assert desk.fenced == 1
    break_at("confirm.before:1:error")
    committer.confirm()
    committer.close()
    committer.run()  # it is away: the next time tells
    assert desk.fenced == 1
    desk.bench.frontier.eras.learn()


# -- refused --------------------------------------------------------------------------------------


def test_what_the_database_refuses_ends_in_error_and_keeps_nobody_back(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    bad = desk.outcome("/b", "/d", items=1)
    bad.results.items = [b'"\\u0000"', b"not json"]
    desk.write(desk.outcome("/a", items=1), bad, desk.outcome("/c"))
    assert desk.rows() == {"/a": "done", "/b": "error", "/c": "done"}
    assert Page.objects.get(url="/b").reason == "refused"
    assert "the result of /b" in caplog.text
    assert "the result of /a" not in caplog.text
    assert Item.objects.count() == 1
    task = Task.objects.get()
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 3, 2, 1)


def test_what_has_no_task_any_more_steps_aside(desk: Desk) -> None:
    Event.objects.all().delete()
    Task.objects.all().delete()
    desk.write(desk.outcome("/a", "/d", version="v1"))
    assert desk.bench.places() == (0, 2, 0, 1)
    [reason] = desk.bench.frontier.parked(1).values()
    assert reason.startswith("the database refuses its row: ")
    assert desk.bench.frontier.retake("v2", 10) == 0  # the code is not to blame


# -- batches and the end --------------------------------------------------------------------------


def test_a_batch_has_no_more_than_it_may(desk: Desk) -> None:
    desk.settings = Settings(commit_batch=2)
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert desk.ledger.batches == [["/a", "/b"], ["/c"]]


def test_jobs_run_between_outcomes_in_the_thread(desk: Desk) -> None:
    committer, done = desk.committer(), []
    committer.call(lambda: done.append(desk.rows()))
    committer.put(desk.outcome("/a"))
    committer.call(lambda: done.append(desk.rows()))
    committer.close()
    committer.run()
    assert len(done) == 2
    assert desk.rows() == {"/a": "done"}


def test_the_last_request_ends_its_task(desk: Desk) -> None:
    desk.write(desk.outcome("/a"), desk.outcome("/b").end(Verdict.ERROR, "timeout"))
    assert Task.objects.get().state == "running"
    desk.settled.clear()
    desk.write(desk.outcome("/c"))
    task = Task.objects.get()
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 3, 2, 1)
    assert desk.bench.frontier.open_tasks() == []
    assert Event.objects.count() == 1


def test_a_task_does_not_end_while_the_ledger_lacks_a_row(desk: Desk) -> None:
    desk.bench.complete(desk.held["/c"])
    desk.write(desk.outcome("/a"), desk.outcome("/b"))
    assert Task.objects.get().state == "running"
    assert desk.bench.frontier.open_tasks() == [1]


def test_another_may_have_ended_the_task_just_now(make_bench: Callable[..., Bench]) -> None:
    class Late(Frontier):
        def complete(self, completions: list[Completion]) -> set[int]:
            ended = super().complete(completions)
            for task in ended:
                self.close_tasks([task])
            return ended

    desk = Desk(make_bench(kind=Late, store=PartitionedStore))
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert desk.bench.frontier.open_tasks() == []


def test_over_partitions_stewards_end_tasks(make_bench: Callable[..., Bench]) -> None:
    desk = Desk(make_bench(partitions=3, store=PartitionedStore))
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert desk.bench.counts().nr == 0
    assert Task.objects.get().state == "running"
    assert desk.bench.frontier.open_tasks() == [1]


def test_pages_do_not_wait_for_tasks_that_cannot_be_ended(
    desk: Desk, break_at: Callable[[str], None]
) -> None:
    break_at("finish.before:1:error")
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert desk.rows() == dict.fromkeys(PAGES, "done")
    assert Task.objects.get().state == "running"  # a steward sees to it
    assert desk.bench.frontier.open_tasks() == [1]


def test_who_is_dead_ends_no_task(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tasks: object) -> None:
        raise Fenced("generation 1 was declared dead")

    monkeypatch.setattr(desk.bench.frontier, "close_tasks", refuse)
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert desk.fenced == 1


def test_a_large_task_is_left_to_a_steward(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.node.task_finisher.LARGE_TASK", len(PAGES) - 1)
    desk.write(*(desk.outcome(page) for page in PAGES))
    assert Task.objects.get().state == "running"
    assert desk.bench.frontier.open_tasks() == [1]


class WithAnother(Frontier):
    """Task 2 ends with each batch."""

    def complete(self, completions: list[Completion]) -> set[int]:
        return super().complete(completions) | {2}


@pytest.fixture
def two(make_bench: Callable[..., Bench]) -> Desk:
    """A desk with a second task, which has nothing left; it ends with the first batch, and the
    other one with the second."""
    desk = Desk(make_bench(kind=WithAnother, store=PartitionedStore), Settings(commit_batch=2))
    Task.objects.create(pk=2, spider="s", seeds=b"")
    desk.bench.frontier.open_task(2, TaskLimits(), [])
    return desk


def ended(desk: Desk) -> bool:
    return {task.state for task in Task.objects.all()} == {"finished"}


def test_who_ends_leaves_no_task_behind_that_waits_for_others(
    two: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlframe.node.task_finisher.ROUND_SECONDS", 60.0)
    two.write(*(two.outcome(page) for page in PAGES))
    assert ended(two)


@pytest.mark.parametrize("every", [0.05, 0.0])
def test_tasks_are_ended_while_nothing_else_happens(
    two: Desk, monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    monkeypatch.setattr("crawlframe.node.task_finisher.ROUND_SECONDS", every)
    committer, seen = two.committer(), []
    for page in PAGES:
        committer.put(two.outcome(page))

    def watch() -> None:
        seen.append(until(lambda: two.bench.frontier.open_tasks() == []))
        committer.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    committer.run()
    watcher.join()
    assert seen == [True]
    assert ended(two)


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not (answer := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return answer


# -- statistics of hosts ---------------------------------------------------------------------------


def test_statistics_of_hosts_are_written_with_the_last_outcomes(desk: Desk) -> None:
    from crawlservice.models import Host

    failed = desk.outcome("/b", verdict=Verdict.ERROR, reason="http_404", status=404)
    desk.write(desk.outcome("/a", status=200, size=10, fetch_ms=5), failed)
    host = Host.objects.get()
    assert (host.pages, host.errors, host.statuses) == (2, 1, {"200": 1, "404": 1})


def test_statistics_that_cannot_be_written_hold_up_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawlframe.run.ledger import LedgerAway
    from crawlservice.models import Host

    def away(hosts: Any) -> None:
        raise LedgerAway("the table is locked")

    monkeypatch.setattr(desk.ledger.activity, "add_host_stats", away)
    desk.write(desk.outcome("/a", status=200))
    assert desk.rows() == {"/a": "done"}
    assert not Host.objects.exists()


def test_statistics_are_written_while_nothing_arrives(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawlframe.node.worker.commit import host_counters

    monkeypatch.setattr(host_counters, "WRITE_SECONDS", 0.01)
    added = threading.Event()
    monkeypatch.setattr(desk.ledger.activity, "add_host_stats", lambda hosts: added.set())
    monkeypatch.setattr(desk.ledger, "commit", lambda outcomes: {})
    committer = desk.committer()
    committer.start()
    committer.put(desk.outcome("/a", status=200))
    assert added.wait(10)
    committer.close()
    committer.join()


# -- tasks that end or move -----------------------------------------------------------------------


def field_of_task(desk: Desk, name: str) -> bytes | None:
    value: bytes | None = desk.bench.redis.hget(desk.bench.key("TASK", 1), name)
    return value


def test_the_frontier_learns_that_a_spider_closed_its_task(desk: Desk) -> None:
    desk.write(desk.outcome("/a"))
    assert field_of_task(desk, "state") == b"running"
    desk.write(desk.outcome("/b", closing="enough"))
    assert field_of_task(desk, "state") == b"cancelling"


def test_a_worker_learns_what_all_have_spent_on_a_host(desk: Desk) -> None:
    mine, others = ByteBudget(0, 1000), ByteBudget(0, 1000)
    desk.write(desk.outcome("/a", budget=others, size=300))
    desk.write(desk.outcome("/b", budget=mine, size=400), desk.outcome("/c"))
    assert (mine.spent, others.spent) == ({"a.example": 700}, {"a.example": 300})


def test_a_node_without_its_code_no_longer_serves_a_task_of_one_worker(desk: Desk) -> None:
    desk.bench.redis.hset(desk.bench.key("TASK", 1), "pin", "1")
    desk.write(desk.outcome("/a").end(Verdict.PARK, "unknown spider"))
    assert field_of_task(desk, "pin") == b"1"  # it holds two more
    desk.write(*(desk.outcome(page).end(Verdict.PARK, "unknown spider") for page in PAGES[1:]))
    assert field_of_task(desk, "pin") == b"0"


def test_the_row_of_a_budget_may_be_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        raise LedgerRefused("no such task")

    monkeypatch.setattr(desk.ledger, "commit", refuse)
    desk.write(desk.outcome("/a", budget=ByteBudget(0, 1000), size=300))
    assert desk.bench.places() == (0, 2, 0, 1)


class Kept(CacheReplay):
    """A development cache that has every page."""

    def place(self, admissions: list[Admission]) -> list[Admission]:
        return [one._replace(host="kept.example") for one in admissions]


def test_pages_of_the_development_cache_do_not_wait_for_their_host(
    desk: Desk, tmp_path: Path
) -> None:
    committer = desk.committer(Kept(lambda: PageCache(tmp_path / "pages"), places=True))
    committer.put(desk.outcome("/a", "/d"))
    committer.close()
    committer.run()
    assert [one.host for one in desk.bench.claim()] == ["kept.example"]


def test_a_page_whose_file_was_pruned_is_fetched_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SavedFile("http://a/", "sha256/00/00/00", "0" * 64, 5, "image/png")
    real = desk.ledger.commit

    def commit(outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        if any(outcome.results.files for outcome in outcomes):
            raise FilesGone("its file was pruned")
        return real(outcomes)

    monkeypatch.setattr(desk.ledger, "commit", commit)
    desk.write(desk.outcome("/a", files=[file], items=1), desk.outcome("/b"))
    assert desk.rows() == {"/b": "done"}
    counts = desk.bench.frontier.counts(1)
    assert counts is not None
    assert (counts.delayed, counts.ne) == (1, 0)


# -- targets of redirects -------------------------------------------------------------------------


def follow(desk: Desk, by: str, name: str) -> int:
    """The answer to a request that is redirected to this page."""
    target = desk.bench.request(name).rid
    asked = Target(1, desk.held[by].rid, target, "http://b.example/", 60_000)
    [answer] = desk.bench.frontier.reservations.follow([asked])
    return int(answer)


def landed(desk: Desk, name: str, page: str, **fields: Any) -> Outcome:
    landing = desk.bench.request(page).rid, "http://b.example/"
    return desk.outcome(name, landing=landing, **fields)


def test_a_page_counts_as_admitted_with_the_row_of_its_redirect(desk: Desk) -> None:
    assert follow(desk, "/a", "/t") == 0
    assert follow(desk, "/b", "/t") > 0
    desk.write(landed(desk, "/a", "/t", items=1))
    assert follow(desk, "/b", "/t") == -1
    desk.write(desk.outcome("/b", "/t", "/u"))
    assert desk.bench.names(desk.bench.claim()) == ["/u"]
    assert desk.bench.counts().duplicates == 1
    assert desk.bench.frontier.audit() == []


def test_a_failed_one_leaves_the_page_to_others(desk: Desk) -> None:
    follow(desk, "/a", "/t")
    desk.write(landed(desk, "/a", "/t", verdict=Verdict.ERROR, reason="timeout"))
    assert Page.objects.get().landing is None
    assert follow(desk, "/b", "/t") == 0
    desk.write(desk.outcome("/c", "/t"))
    assert desk.bench.counts().na == 4


def test_a_link_that_was_found_meanwhile_ends_as_a_duplicate(desk: Desk) -> None:
    follow(desk, "/a", "/t")
    desk.write(desk.outcome("/b", "/t"))
    assert desk.bench.places() == (0, 2, 1, 0)
    committer = desk.committer()
    committer._write([landed(desk, "/a", "/t", items=1)])
    assert desk.bench.places() == (0, 1, 0, 0)
    counts = desk.bench.counts()
    assert (counts.na, counts.nf, counts.items, counts.duplicates) == (4, 3, 1, 1)
    row = Page.objects.get(url="http://b.example/")
    assert (row.state, row.reason, row.items) == ("done", DUPLICATE, 0)


def test_the_run_that_loses_marks_nothing(desk: Desk) -> None:
    """Its page has not come, as the ledger knows."""
    desk.ledger.commit([desk.outcome("/a")])  # by another worker
    follow(desk, "/a", "/t")
    desk.write(landed(desk, "/a", "/t"))
    assert follow(desk, "/b", "/t") == 0


def test_the_run_that_loses_marks_what_the_winner_has(desk: Desk) -> None:
    desk.ledger.commit([landed(desk, "/a", "/t")])
    desk.write(desk.outcome("/a"))
    assert follow(desk, "/b", "/t") == -1


# -- participants ---------------------------------------------------------------------------------


class Defective(Participant):
    """Raises in one of its calls for results of one page."""

    def __init__(self, call: str, error: Exception, times: int) -> None:
        self.call, self.error, self.times = call, error, times

    takes = ("url",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.url == "/b"]

    def prepare(self, outcomes: list[Outcome]) -> None:
        self._fail("prepare")

    def after(
        self, outcomes: list[Outcome], recorded: Mapping[bytes, Recorded]
    ) -> Collection[Outcome]:
        self._fail("after")
        return ()

    def _fail(self, call: str) -> None:
        if call == self.call and self.times > 0:
            self.times -= 1
            raise self.error


@pytest.mark.parametrize(
    ("call", "error", "state"),
    [
        ("prepare", RedisError("away"), "done"),
        ("prepare", KeyError("defect"), "error"),
        ("after", RedisError("away"), "done"),
        ("after", KeyError("defect"), "done"),
    ],
)
def test_a_participant_that_raises_keeps_no_other_result_back(
    desk: Desk, call: str, error: Exception, state: str
) -> None:
    times = 2 if isinstance(error, RedisError) else 99
    desk.more = [Defective(call, error, times)]
    desk.write(*(desk.outcome(page, items=1) for page in PAGES))
    assert desk.rows() == {"/a": "done", "/b": state, "/c": "done"}
    assert Item.objects.count() == (2 if state == "error" else 3)
    task = Task.objects.get()
    assert (task.state, task.na, task.ne) == ("finished", 3, int(state == "error"))
    if state == "error":
        assert Page.objects.get(url="/b").detail == "Defective.prepare: KeyError: 'defect'"
