"""Permits: fetches outside of the queue, within the limits of their host."""

from __future__ import annotations

import time

import pytest

from crawlframe.errors import Fenced
from crawlframe.frontier import TaskLimits
from crawlframe.frontier.client.records import NEVER_SENT, NO_SIGNAL, NOTHING, REFUSED, Signal
from crawlframe.frontier.hosts import HostOrder
from crawlframe.frontier.permits import Permit
from tests.frontier.bench import NODE, Bench
from tests.frontier.test_signals import next_in

HOST = "a.example"
LASTS, LONGEST_WAIT = 60_000, 30_000


def ask(
    bench: Bench,
    token: str = "t",
    *,
    host: str = HOST,
    lender: bytes = b"",
    patience: int = LONGEST_WAIT,
    lasts: int = LASTS,
    address: str = "",
) -> Permit:
    where = NODE, 1, host, token.encode()
    permit: Permit = bench.frontier.permits.ask(
        *where, lasts, patience, lender=lender, address=address
    )
    return permit


def end(
    bench: Bench,
    token: str = "t",
    signal: Signal = NO_SIGNAL,
    *,
    host: str = HOST,
    ago: float = 0.0,
) -> None:
    bench.frontier.permits.end(NODE, 1, host, token.encode(), signal, ago)


def note_sent(bench: Bench, token: str = "t", *, host: str = HOST, ago: float = 0.0) -> None:
    bench.frontier.permits.note_sent(host, token.encode(), ago, NODE)


def test_a_permit_takes_a_slot_of_its_host(bench: Bench) -> None:
    bench.open(*bench.requests(3), concurrency=2)
    assert ask(bench) == Permit(True, 0)
    assert len(bench.claim_all()) == 1
    end(bench)
    assert len(bench.claim_all()) == 1, "the slot is free again"


def test_a_full_host_keeps_the_next_slot_for_the_one_that_waits(bench: Bench) -> None:
    bench.open(*bench.requests(3), concurrency=1)
    (held,) = bench.claim_all()
    assert not ask(bench).given
    assert bench.claim(fetched=[held]) == [], "the queue does not take the slot that was freed"
    assert ask(bench) == Permit(True, 0)
    end(bench)
    assert len(bench.claim_all()) == 1


def test_of_two_that_wait_one_gets_the_slot(bench: Bench) -> None:
    bench.open(*bench.requests(1), concurrency=1)
    (held,) = bench.claim_all()
    assert not ask(bench, "t").given
    assert not ask(bench, "u").given
    bench.claim(fetched=[held])
    assert ask(bench, "u").given
    assert not ask(bench, "t").given
    end(bench, "u")
    assert ask(bench, "t").given


def test_the_slot_of_a_request_is_lent_to_its_own_fetches(bench: Bench) -> None:
    """With another slot, both would wait for ever."""
    bench.open(*bench.requests(2), concurrency=1)
    (held,) = bench.claim_all()
    assert ask(bench, lender=held.rid) == Permit(True, 0)
    end(bench)
    assert bench.claim_all() == [], "it was not freed with that"
    assert len(bench.claim_all() + bench.claim(fetched=[held])) == 1


def test_the_delay_counts_for_permits_and_claims_alike(bench: Bench) -> None:
    bench.open(*bench.requests(2), delay=10_000)
    assert ask(bench, "t") == Permit(True, 0, spaced=True)
    note_sent(bench, "t")
    second = ask(bench, "u")
    assert second.given
    assert 9_000 < second.wait <= 10_001
    assert bench.claim_all() == []
    assert 19_000 < bench.wait <= 20_000
    assert ask(bench, "u").wait <= second.wait, "the same, asked again"
    note_sent(bench, "u")
    assert ask(bench, "v", patience=5_000).given is False, "it would be later than that"
    assert ask(bench, "own", lender=b"lender").wait > 9_000


def test_a_request_that_is_not_sent_yet_is_waited_for(bench: Bench) -> None:
    """The delay counts from there."""
    bench.open(*bench.requests(1), delay=10_000)
    (unsent,) = bench.claim_unsent()
    permit = ask(bench)
    assert not permit.given
    assert permit.wait < 100
    bench.report_sent(unsent)
    assert 9_000 < ask(bench).wait <= 10_001


def test_the_delay_counts_from_when_a_fetch_is_sent(bench: Bench) -> None:
    bench.open(*bench.requests(2), delay=100)
    assert ask(bench) == ask(bench) == Permit(True, 0, spaced=True)
    time.sleep(0.11)
    assert bench.claim() == [], "it is not sent yet"
    other = ask(bench, "u")
    assert not other.given
    assert other.wait < 100
    end(bench, "u")
    now = bench.now()
    note_sent(bench, ago=20)
    assert next_in(bench, now) >= 80
    assert ask(bench).spaced is False, "that is known"


def test_a_fetch_that_ends_without_a_report_says_when_it_was_sent(bench: Bench) -> None:
    bench.open(*bench.requests(2), delay=400)
    ask(bench)
    time.sleep(0.1)
    now = bench.now()
    end(bench, ago=50)
    assert next_in(bench, now) >= 350


def test_a_fetch_that_is_not_sent_spends_no_time_of_its_host(bench: Bench) -> None:
    bench.open(*bench.requests(2), delay=10_000)
    ask(bench)
    note_sent(bench)
    assert ask(bench, "u").wait > 9_000
    end(bench, "u", ago=NEVER_SENT)
    assert 9_000 < ask(bench, "v").wait <= 10_001, "the delay after the first holds"
    end(bench, "v", ago=NEVER_SENT)
    assert bench.claim() == []
    assert 9_000 < bench.wait <= 10_000


def test_a_fetch_that_waits_for_its_time_is_not_overtaken_by_the_queue(bench: Bench) -> None:
    """Its host would be claimed again in the moment in which the request before is sent."""
    bench.open(*bench.requests(3), delay=40, concurrency=4)
    (unsent,) = bench.claim_unsent()
    for lender in (b"", b"of a callback"):
        assert not ask(bench, lender=lender).given
        bench.report_sent(unsent)
        assert bench.claim_unsent() == []
        assert 0 < bench.wait <= 3_000
        assert ask(bench, lender=lender).given
        note_sent(bench)
        end(bench)
        bench.after(int(next_in(bench, 0)))
        (unsent,) = bench.claim_unsent()


def test_a_request_that_is_not_sent_is_not_waited_for_by_its_own_fetches(bench: Bench) -> None:
    bench.open(*bench.requests(1), delay=10_000)
    (held,) = bench.claim_unsent()
    assert not ask(bench, "u", lender=b"another").given
    assert ask(bench, lender=held.rid).given


def test_a_fetch_whose_worker_died_lapses_unsent(bench: Bench) -> None:
    bench.open(*bench.requests(1), delay=100)
    assert ask(bench, lasts=1_000).given
    time.sleep(0.1)
    assert bench.claim() == []
    assert 0 < bench.wait <= 900
    time.sleep(0.91)
    assert len(bench.claim()) == 1


@pytest.mark.parametrize("paused", [True, False])
def test_a_host_that_rests_gives_none(bench: Bench, paused: bool) -> None:
    bench.open(*bench.requests(1))
    if paused:
        bench.frontier.hosts.order(HOST, HostOrder(paused=True, until=time.time() + 3_600))
    else:
        ask(bench, "first")
        end(bench, "first", Signal(REFUSED, 3_600_000))
    permit = ask(bench)
    assert not permit.given
    assert permit.wait > 2_900_000
    assert bench.claim_all() == []


def test_an_order_counts_instead_of_the_limits_of_the_task(bench: Bench) -> None:
    bench.open(*bench.requests(1), delay=10_000)
    bench.frontier.hosts.order(HOST, HostOrder(delay=0.0, concurrency=1))
    assert ask(bench, "t") == Permit(True, 0)
    assert not ask(bench, "u").given


def test_robots_count_for_tasks_that_obey_them(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(0, 0, 8, robots=True), [])
    assert ask(bench, "t").given
    assert not ask(bench, "u").given, "the first one brings the robots.txt"
    end(bench, "t")
    bench.frontier.hosts.robots(HOST, time.time() + 3_600, delay=5.0)
    assert ask(bench, "u").given
    note_sent(bench, "u")
    assert 4_000 < ask(bench, "v").wait <= 5_001
    note_sent(bench, "v")
    bench.frontier.hosts.robots(HOST, time.time() + 3_600, wait=60.0)
    assert not ask(bench, "w").given


def test_what_a_dead_worker_held_lapses(bench: Bench) -> None:
    bench.open(*bench.requests(1), concurrency=1)
    assert ask(bench, lasts=50).given
    time.sleep(0.06)
    assert ask(bench, "next", lasts=300).given
    assert bench.claim_all() == []
    assert 0 < bench.wait <= 300, "claims look again when it lapses"
    bench.redis.delete(bench.key("PERMITS", HOST))
    bench.redis.zadd(bench.key("HOSTS"), {HOST: 1})
    assert len(bench.claim_all()) == 1


def test_the_adaptive_rate_counts(bench: Bench) -> None:
    bench.frontier.open_task(1, TaskLimits(0, 0, 8, adaptive=True), [])
    assert ask(bench, "t") == Permit(True, 0)
    assert 900 < ask(bench, "u").wait <= 1_000


def test_nothing_is_left_of_a_host_without_requests(bench: Bench) -> None:
    bench.open(bench.request("elsewhere", "b.example"))
    assert ask(bench, host="c.example").given
    assert bench.redis.pttl(bench.key("HOST", "c.example")) > 0
    assert bench.redis.pttl(bench.key("PERMITS", "c.example")) > 0
    end(bench, host="c.example")
    assert not bench.redis.exists(bench.key("HOST", "c.example"))
    assert not bench.redis.exists(bench.key("PERMITS", "c.example"))


def test_a_task_that_is_cancelled_gets_none(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    bench.begin_cancel(1)
    assert ask(bench) == Permit(False, 0, ended=True)


def test_a_dead_generation_gets_none(bench: Bench) -> None:
    bench.open(*bench.requests(1))
    bench.redis.sadd(bench.key("FENCED"), str(NODE))
    with pytest.raises(Fenced):
        ask(bench)


# -- limits of an IP address ----------------------------------------------------------------------


ADDRESS = "192.0.2.1"
OTHER = "other.example"


def place(bench: Bench, *hosts: str, each: int = 3, concurrency: int = 0, delay: int = 0) -> None:
    """A task with requests of these hosts, which are known to be at one address."""
    limits = TaskLimits(0, 0, 1000, ip_concurrency=concurrency, ip_delay=delay)
    bench.frontier.open_task(
        1, limits, [one for host in hosts for one in bench.requests(each, host)]
    )
    lost = [one.given_back(0, Signal(NOTHING, 0, ADDRESS)) for one in bench.claim()]
    bench.frontier.release(NODE, lost)


def test_a_permit_takes_a_slot_of_the_address(bench: Bench) -> None:
    place(bench, HOST, concurrency=2)
    assert ask(bench, host=OTHER, address=ADDRESS) == Permit(True, 0)
    assert len(bench.claim()) == 1
    assert not ask(bench, "u", host=OTHER).given
    end(bench, "u", host=OTHER)
    assert bench.claim() == []
    assert bench.wait == -1, "until one of them ends, nothing is looked at"
    end(bench, host=OTHER)
    assert len(bench.claim()) == 1
    assert bench.frontier.audit() == []


def test_a_full_address_keeps_the_next_slot_for_the_one_that_waits(bench: Bench) -> None:
    place(bench, HOST, concurrency=1)
    (held,) = bench.claim()
    assert not ask(bench, host=OTHER, address=ADDRESS).given
    assert bench.claim(fetched=[held]) == []
    assert ask(bench, host=OTHER) == Permit(True, 0)
    assert bench.claim() == []
    end(bench, host=OTHER)
    assert len(bench.claim()) == 1


def test_what_a_dead_worker_held_of_an_address_lapses(bench: Bench) -> None:
    place(bench, HOST, concurrency=1)
    assert ask(bench, host=OTHER, address=ADDRESS, lasts=300).given
    assert bench.claim() == []
    assert 0 < bench.wait <= 300
    time.sleep(0.31)
    assert len(bench.claim()) == 1
    assert bench.frontier.audit() == []


def test_the_delay_of_an_address_counts_for_permits_and_claims_alike(bench: Bench) -> None:
    place(bench, HOST, delay=400)
    assert ask(bench, "t", host=OTHER, address=ADDRESS) == Permit(True, 0, spaced=True)
    assert not ask(bench, "u", host=OTHER).given, "it is not sent yet"
    note_sent(bench, "t", host=OTHER)
    permit = ask(bench, "u", host=OTHER)
    assert permit.given
    assert 300 < permit.wait <= 401
    assert bench.claim() == []
    time.sleep(permit.wait / 1000)
    now = bench.now()
    note_sent(bench, "u", host=OTHER)
    due = float(bench.redis.hget(bench.key("ADDRESS", ADDRESS), "n"))
    assert due >= now + 400
    bench.after(int(due))
    (one,) = bench.claim_unsent()
    assert not ask(bench, "v", host=OTHER).given, "it is not sent yet"
    bench.report_sent(one)
    later = ask(bench, "v", host=OTHER)
    assert later.given
    assert 300 < later.wait <= 450  # it was claimed ahead


def test_the_limits_of_an_address_are_those_of_tasks_that_have_some(bench: Bench) -> None:
    bench.open(*bench.requests(2))
    assert ask(bench, host=OTHER, address=ADDRESS).given
    assert not bench.redis.exists(bench.key("ADDRESS", ADDRESS))


def test_nothing_is_left_of_an_address_whose_permit_is_over(bench: Bench) -> None:
    place(bench, HOST, each=1, concurrency=2)
    assert ask(bench, host=OTHER, address=ADDRESS).given
    bench.complete_all(bench.claim())
    assert bench.redis.pttl(bench.key("ADDRESS", ADDRESS)) > 0
    end(bench, host=OTHER)
    assert not bench.redis.exists(bench.key("PERMITS", f"@{ADDRESS}"))
    assert not bench.redis.hexists(bench.key("ADDRESS", ADDRESS), "v")


# -- fetches that belong to no task ----------------------------------------------------------------


def ask_apart(bench: Bench, token: str, delay: int = 0, concurrency: int = 2) -> Permit:
    permit: Permit = bench.frontier.permits.ask_apart(
        HOST, token.encode(), LASTS, LONGEST_WAIT, delay, concurrency
    )
    return permit


def test_fetches_of_commands_keep_their_delay_between_them(bench: Bench) -> None:
    assert ask_apart(bench, "one", 5000) == Permit(True, 0, spaced=True)
    bench.frontier.permits.note_sent(HOST, b"one")
    other = ask_apart(bench, "two", 5000)
    assert other.given
    assert 4000 < other.wait <= 5001


def test_fetches_of_commands_and_claims_share_a_host(bench: Bench) -> None:
    bench.open(*bench.requests(3), concurrency=1)
    assert ask_apart(bench, "one", 5000) == Permit(True, 0, spaced=True)
    bench.frontier.permits.end_apart(HOST, b"one")
    assert bench.claim_all() == [], "the host rests for the delay of the command"


def test_a_command_waits_for_a_slot(bench: Bench) -> None:
    bench.open(*bench.requests(3), concurrency=2)
    (*_, held) = bench.claim_all()
    assert not ask_apart(bench, "one").given
    bench.claim(fetched=[held])
    assert ask_apart(bench, "one").given
    bench.frontier.permits.end_apart(HOST, b"one")
    assert not bench.redis.keys("*permits*")


def test_a_command_asks_no_host_that_is_paused(bench: Bench) -> None:
    bench.frontier.hosts.order(HOST, HostOrder(paused=True))
    assert not ask_apart(bench, "one").given
