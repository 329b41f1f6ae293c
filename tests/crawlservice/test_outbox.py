"""The outbox, as all that leave the service use it: claims, leases, results and pauses."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, DataError, OperationalError
from django.utils import timezone

from crawlframe.errors import CrawlframeError
from crawlservice.chores.threads import ChoreThread, Work
from crawlservice.connections.contained import failures
from crawlservice.models import Delivery, Event, Webhook
from crawlservice.outbox.outbox import JITTER, LEASE, MAX_PROBLEM, Backoff, Claim, Outbox
from crawlservice.outbox.sender import OutboxThread, Sender
from tests.crawlservice.chores import at_once

pytestmark = pytest.mark.usefixtures("orm")

RECEIVERS = 3


@pytest.fixture
def outbox(orm: str) -> Outbox[int]:
    """An outbox with two messages for each of three receivers, the older ones first."""
    for number in range(RECEIVERS):
        webhook = Webhook.objects.create(name=str(number), url="http://x/", sealed_secret="")
        for _ in range(2):
            event = Event.objects.create(kind="node_back", node="n")
            Delivery.objects.create(webhook=webhook, event=event)
    return Outbox(Delivery.objects.all(), "webhook", "delivered_at", lambda row: int(row.pk))


def end_leases() -> None:
    Delivery.objects.filter(next_at__isnull=False).update(
        next_at=timezone.now() - timedelta(seconds=1)
    )


def row(claim: Claim) -> Delivery:
    return Delivery.objects.get(pk=claim.row)


def test_of_senders_that_compete_each_message_has_one(outbox: Outbox[int]) -> None:
    found = at_once(*[lambda: [message for _, message in outbox.claim([], 9)]] * 4)
    claimed = [message for some in found for message in some]
    assert len(claimed) == len(set(claimed)) >= RECEIVERS


def test_a_lease_ends_and_the_message_is_claimed_again(outbox: Outbox[int]) -> None:
    first, *_ = [claim for claim, _ in outbox.claim([], 9)]
    lease = row(first).next_at
    assert lease is not None
    assert timezone.now() < lease <= timezone.now() + LEASE
    end_leases()
    again = next(claim for claim, _ in outbox.claim([], 9) if claim.row == first.row)
    assert again == first._replace(attempt=2)


def test_a_failure_counts_only_while_its_claim_holds(outbox: Outbox[int]) -> None:
    """Else a delayed sender would put off, or give up, another sender's entry."""
    late, *_ = [claim for claim, _ in outbox.claim([], 9)]
    end_leases()
    mine = next(claim for claim, _ in outbox.claim([], 9) if claim.row == late.row)
    outbox.settle(late._replace(attempt=1), "too slow")
    assert (row(mine).problem, outbox.state(row(mine))) == ("", "waiting")
    outbox.settle(late, "")  # but if it has arrived, it has
    assert outbox.state(row(mine)) == "sent"
    outbox.settle(mine, "the receiver knows it already")
    assert outbox.state(row(mine)) == "sent"


def test_what_is_sent_again_is_sent_although_the_last_attempt_ends_meanwhile(
    outbox: Outbox[int],
) -> None:
    claim, _ = next(iter(outbox.claim([], 1)))
    outbox.send_again(row(claim))
    outbox.settle(claim, "")
    assert (row(claim).attempts, outbox.state(row(claim))) == (0, "waiting")


def test_states_partition_the_rows(outbox: Outbox[int]) -> None:
    claims = [claim for claim, _ in outbox.claim([], 9)]
    for claim, problem in zip(claims, ("", "it answered 500"), strict=False):
        outbox.settle(claim, problem)
    Delivery.objects.filter(pk=claims[2].row).update(next_at=None, problem="gone")
    found = {name: {*Delivery.objects.filter(rows)} for name, rows in outbox.states.items()}
    assert {name: len(rows) for name, rows in found.items()} == {
        "sent": 1, "retrying": 1, "failed": 1, "waiting": 3,
    }  # fmt: skip
    assert all(outbox.state(one) == name for name, rows in found.items() for one in rows)


def test_what_cannot_be_composed_is_the_problem_of_its_message(outbox: Outbox[int]) -> None:
    bad = Delivery.objects.order_by("pk")[0].pk

    def compose(one: Delivery) -> int:
        if one.pk == bad:
            raise CrawlframeError("no key" * MAX_PROBLEM)
        return int(one.pk)

    outbox._compose = compose
    assert len([*outbox.claim([], 9)]) == RECEIVERS - 1
    assert len(Delivery.objects.get(pk=bad).problem) == MAX_PROBLEM


def test_pauses_have_jitter_and_an_end() -> None:
    twice = Backoff((10, 100))
    ending = Backoff((10, 100), gives_up=True)
    for failures_, usual in ((1, 10), (2, 100), (3, 100), (99, 100)):
        pauses = {twice.pause(failures_) for _ in range(50)}
        assert len(pauses) > 1
        assert all(usual <= pause <= usual * (1 + JITTER) for pause in pauses if pause)
    assert ending.pause(2) is not None
    assert ending.pause(3) is None


# -- senders --------------------------------------------------------------------------------------


class Slow(Sender[int]):
    at_a_time = 2

    def __init__(self, outbox: Outbox[int]) -> None:
        super().__init__(outbox)
        self.go = asyncio.Event()
        self.begun: list[int] = []

    async def send(self, message: int) -> tuple[str, dict[str, Any]]:
        self.begun.append(message)
        if len(self.begun) == 2:
            raise RuntimeError("http://ann:secret@x/")
        await self.go.wait()
        return "", {}


def test_a_sender_that_stops_settles_what_it_has_begun(
    outbox: Outbox[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Slow(outbox)
    sender.step()
    assert len(sender.begun) == 2
    failed = Delivery.objects.get(pk=sender.begun[1])
    assert failed.problem == "RuntimeError: see the log of the node"
    sender.go.set()
    sender.close()
    assert outbox.state(Delivery.objects.get(pk=sender.begun[0])) == "sent"


class Fails(OutboxThread):
    name = "the stream"

    def __init__(self, error: Exception) -> None:
        self.error, self.closed = error, 0

    def send_next(self) -> float | None:
        raise self.error

    def settle_failure(self, error: Exception) -> tuple[str, float]:
        return str(error), 7.0

    def close(self) -> None:
        self.closed += 1


def test_a_stream_records_failures_of_its_target_and_raises_those_of_the_service() -> None:
    away = Fails(OSError("no route"))
    assert (away.step(), away.closed) == (7.0, 1)
    ours = Fails(DatabaseError("gone"))
    with pytest.raises(DatabaseError):
        ours.step()
    assert ours.closed == 1


# -- threads --------------------------------------------------------------------------------------


def test_a_thread_goes_on_without_its_database_and_comes_back_after_a_defect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ends(Work):
        """Lacks the service's database, is refused, has a defect, then has nothing more to do."""

        def step(self) -> float | None:
            steps.append(0)
            if len(steps) <= len(errors):
                raise errors[len(steps) - 1]
            return None

    steps: list[int] = []
    errors = [OperationalError("away"), DataError("refused"), TypeError("a defect")]
    monkeypatch.setattr("crawlservice.chores.threads.RETRY", 0.01)
    thread = ChoreThread("ends", Ends)
    before = failures.lately()
    for expected in (3, 4):
        thread.ensure_running()
        assert thread._thread is not None
        thread._thread.join(60)
        assert (len(steps), failures.lately() - before) == (expected, 2)
    assert not thread.is_alive


def test_a_thread_that_waits_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(Work):
        def step(self) -> float:
            return 3600.0

    thread = ChoreThread("waits", Waits)
    thread.ensure_running()
    thread.stop()
    assert thread._thread is not None
    thread._thread.join(60)
    assert not thread.is_alive
