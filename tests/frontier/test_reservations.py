"""Reservations of pages that several tasks want."""

from __future__ import annotations

import time

from crawlframe.frontier.reservations import PageReservation

KEY, OTHER = b"k" * 16, b"l" * 16
MINE, YOURS = b"m" * 16, b"y" * 16
LONG = 60_000


def take(bench, key=KEY, rid=MINE, lasts=LONG):
    return bench.frontier.reservations.take([PageReservation(key, "a.example", rid, lasts)])


def test_one_request_has_a_page(bench):
    assert take(bench) == {MINE: 0}
    assert take(bench) == {MINE: 0}  # again, after a death
    time.sleep(0.02)
    assert take(bench, rid=YOURS)[YOURS] >= 20
    assert take(bench, OTHER, YOURS) == {YOURS: 0}


def test_a_holder_releases_its_reservation(bench):
    take(bench)
    take(bench, rid=YOURS, lasts=0)  # a request without it cannot
    assert take(bench, rid=YOURS)[YOURS] > 0
    assert take(bench, lasts=0) == {MINE: 0}
    assert take(bench, rid=YOURS) == {YOURS: 0}


def test_a_reservation_lapses(bench):
    take(bench, lasts=20)
    time.sleep(0.1)
    assert take(bench, rid=YOURS) == {YOURS: 0}


def test_many_at_once_in_several_partitions(make_bench):
    bench = make_bench(partitions=3)
    wanted = [
        PageReservation(b"%016d" % n, f"{n}.example", b"%016d" % (n % 700), LONG)
        for n in range(1400)
    ]
    assert bench.frontier.reservations.take(wanted) == dict.fromkeys((one.rid for one in wanted), 0)
    others = [one._replace(rid=YOURS) for one in wanted]
    assert bench.frontier.reservations.take(others)[YOURS] > 0
