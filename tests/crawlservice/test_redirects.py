"""The redirects of a page: in its row, in the API and in the admin. In Redis they are with the
request; whatever is rebuilt from the database starts over."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from redis import Redis

from crawlframe.base.stats import PageStats
from crawlframe.conf import Settings
from crawlframe.frontier import Claimed, Completion, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.request.record import Hop, hops_of, with_hops
from crawlframe.request.request import Admission, Request, make_rid
from crawlframe.run.ledger import Recorded
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.ledger.audit import audit
from crawlservice.ledger.recovery import renew
from crawlservice.ledger.rows import MAX_REDIRECTS, MAX_TARGET
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page, Task
from crawlservice.steward.steward import Steward
from crawlservice.tasks.retry import retry
from crawlservice.tasks.submit import submit
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import login

pytestmark = pytest.mark.databases("sqlite", "postgres")

FIRST = Request("http://a.example/")
HOPS = [Hop(301, "http://b.example/"), Hop(302, "http://c.example/x")]


def outcome(task: Task, name: str, hops: list[Hop] | None = None) -> Outcome:
    record = with_hops(FIRST.encode(), hops) if hops else FIRST.encode()
    rid = make_rid(task.pk, name.encode())
    made = Outcome(rid, task.pk, "h", record, 0, 0, url=f"http://h/{name}")
    made.fetch.redirects = hops or []
    return made


def page_of(one: Outcome) -> Page:
    return Page.objects.get(rid=UUID(bytes=one.rid))


@pytest.mark.usefixtures("orm")
def test_rows_have_the_redirects_of_their_pages() -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    moved, plain, counted = (
        outcome(task, "moved", HOPS),
        outcome(task, "plain"),
        outcome(task, "counted", HOPS[:1]),
    )
    counted.results.stats = PageStats({"n": 1}, {})
    for batch in ([moved, plain], [counted, outcome(task, "both")], [outcome(task, "none")]):
        recorded = DjangoLedger().commit(batch)
        assert recorded[batch[0].rid] == Recorded(False, [], 0, new=True)
        again = {rid: row._replace(new=False) for rid, row in recorded.items()}
        assert DjangoLedger().commit(batch) == again
    assert page_of(moved).redirects == [[301, "http://b.example/"], [302, "http://c.example/x"]]
    assert page_of(counted).redirects == [[301, "http://b.example/"]]
    assert page_of(counted).stats == {"counters": {"n": 1}, "maxima": {}}
    assert Page.objects.filter(redirects__isnull=True).count() == 3


@pytest.mark.usefixtures("orm")
def test_long_chains_are_cut() -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    one = outcome(task, "a", [Hop(302, f"http://{'x' * 3000}\0/")] * 30)
    DjangoLedger().commit([one])
    redirects = page_of(one).redirects
    assert redirects is not None
    assert len(redirects) == MAX_REDIRECTS
    assert {len(url) for _, url in redirects} == {MAX_TARGET}
    assert "\0" not in redirects[0][1]


@pytest.mark.usefixtures("orm")
def test_the_record_of_a_failed_request_is_that_of_its_beginning() -> None:
    task = Task.objects.create(spider="s", seeds=b"")
    failed = outcome(task, "a", HOPS).end(Verdict.ERROR, "timeout")
    DjangoLedger().commit([failed])
    page = page_of(failed)
    kept = bytes(page.request or b"")
    assert hops_of(kept) == []
    assert Request.decode(kept) == FIRST
    assert page.redirects is not None


@pytest.mark.usefixtures("service")
def test_the_api_lists_redirects(ended_task: Task, add_page: Callable[..., Page]) -> None:
    add_page(ended_task, b"moved", redirects=[[301, "http://b.example/"]])
    api = program(person("viewer"), "read")
    rows = api.get(f"tasks/{ended_task.pk}/pages").json()["pages"]
    assert [row["redirects"] for row in rows[-2:]] == [None, [[301, "http://b.example/"]]]


def test_the_admin_shows_them_as_text(ended_task: Task, add_page: Callable[..., Page]) -> None:
    admin = login(is_superuser=True)
    evil = "http://b.example/<script>alert(1)</script>"
    moved = add_page(ended_task, b"moved", redirects=[[301, evil], [302, "javascript:alert(1)"]])
    shown = admin.get(f"/admin/crawlservice/page/{moved.pk}/change/").content.decode()
    assert "301 → " in shown
    assert "http://b.example/&lt;script&gt;" in shown
    assert "<script>alert" not in shown
    assert 'href="javascript:' not in shown
    plain = Page.objects.filter(redirects__isnull=True)[0]
    shown = admin.get(f"/admin/crawlservice/page/{plain.pk}/change/").content.decode()
    assert "→ <a" not in shown


# -- fresh starts ----------------------------------------------------------------------------------


class Chain:
    """A task whose only page redirects to b.example."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.sequence = 0
        self.task = submit("shop", {"city": "Ulm"})
        root = self.claim()
        self.page = Admission(
            make_rid(self.task.pk, FIRST.fingerprint()), 5, FIRST.host, 0, FIRST.encode()
        )
        self.end(root, [self.page])

    def claim(self, generation: int = 1) -> Claimed:
        while True:  # the spider has a delay
            self.sequence += 1
            if requests := self.frontier.claim(generation, self.sequence, 9).requests:
                [one] = requests
                return one

    def end(
        self, claimed: Claimed, links: list[Admission], verdict: Verdict = Verdict.DONE
    ) -> None:
        rid, task, host, attempts, deliveries, record, *_ = claimed
        one = Outcome(rid, task, host, record, attempts, deliveries, url=record[3:20].hex())
        one.fetch.redirects = hops_of(record)
        one.end(verdict, "" if verdict is Verdict.DONE else "http_404")
        one.results.follow_ups = links
        row = DjangoLedger().commit([one])[rid]
        ended = self.frontier.complete([Completion(rid, task, host, row.failed, row.follow_ups)])
        DjangoLedger().tasks.finish({pk: self.frontier.counts(pk) for pk in ended})  # type: ignore[misc]

    def hop(self) -> Claimed:
        """The claim of its redirect's target."""
        claimed = self.claim()
        record = with_hops(claimed.record, HOPS[:1])
        moved = [claimed.given_back(("b.example", record))]
        assert self.frontier.redirect(1, moved) == 1
        hop = self.claim()
        assert (hop.host, hops_of(hop.record)) == ("b.example", HOPS[:1])
        return hop

    def starts_over(self, claimed: Claimed) -> bool:
        return (claimed.host, claimed.record) == (FIRST.host, FIRST.encode())


@pytest.fixture
def chain(published: Frontier, redis_client: Redis) -> Chain:
    frontier = Frontier(PartitionedStore(redis_client, follows=True))
    renew(frontier)
    return Chain(frontier)


def test_a_hop_that_redis_lost(chain: Chain, redis_client: Redis) -> None:
    hop = chain.hop()
    redis_client.flushall()
    renew(chain.frontier)
    again = chain.claim(2)
    assert again.rid == hop.rid
    assert chain.starts_over(again)
    chain.end(again, [])
    task = Task.objects.get()
    assert (task.state, task.nf, task.ne) == ("finished", 2, 0)
    assert chain.frontier.audit() == audit(task) == []


def test_an_operators_retry(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    hop = chain.hop()
    chain.end(hop, [], Verdict.ERROR)
    page = Page.objects.get(state="error")
    assert page.redirects == [[301, "http://b.example/"]]
    monkeypatch.setattr("crawlservice.tasks.retry.frontier", lambda: chain.frontier)
    assert retry(chain.task.pk) == 1
    Steward(Settings(), chain.frontier).tick()
    assert chain.starts_over(chain.claim())


def test_a_hop_of_a_dead_node_goes_on_at_its_target(chain: Chain) -> None:
    hop = chain.hop()
    chain.frontier.leases.replay(1)
    again = chain.claim(2)
    assert (again.host, again.record, again.deliveries) == (hop.host, hop.record, 1)
    chain.end(again, [])
    assert Page.objects.get(rid=UUID(bytes=hop.rid)).redirects == [[301, "http://b.example/"]]
    assert chain.frontier.audit() == audit(Task.objects.get()) == []
