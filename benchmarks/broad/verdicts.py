"""Verdicts: what a crawl got of the simulated hosts, and how it treated them, from their log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.broad.hosts import CALENDAR, PRIVATE, SESSION, Host, asks, page_number, wanted
from benchmarks.politeness.manners import JITTER
from benchmarks.politeness.world import ROBOTS, Entry, ordered

OK = 200


class Terms(NamedTuple):
    """What was agreed with every crawler."""

    seconds: float  # from the first request on; what arrives later does not count
    delay: float  # seconds between two requests to a host
    per_host: int  # requests in flight


class Findings(NamedTuple):
    """Numbers of pages and requests. robots.txt is neither."""

    pages: int  # different ones of the hosts, without traps
    ideal: int  # as many as the hosts have, and the delays allow
    too_early: int  # sooner after the previous request of the host than the delay
    crawl_delay: int  # sooner than its robots.txt asks for, where that is longer
    crowded: int  # while as many as allowed were in flight at the host
    forbidden: int  # by robots.txt
    duplicates: int  # URLs that were answered once before
    traps: int  # days of calendars, and pages that differ in the session id only

    @property
    def share(self) -> float:
        return self.pages / self.ideal if self.ideal else 0.0


def judge(hosts: Sequence[Host], entries: Iterable[Entry], terms: Terms) -> Findings:
    """``entries``: the log of one crawl."""
    log = within(entries, terms.seconds)
    by_name = {host.address: host for host in hosts}
    logs = defaultdict(list)
    for one in log:
        logs[one.host].append(one)
    answered = [one for one in log if one.status == OK]
    pages = {(one.host, page_number(bare(one.path))) for one in answered if is_page(one)}
    calendars = sum(one.path.startswith(CALENDAR) for one in answered)
    sessions = {one.host for one in answered if SESSION in one.path}
    again = [one for one in answered if is_page(one) and one.host in sessions]
    forms = len({(one.host, bare(one.path)) for one in again})
    urls = Counter((one.host, one.path) for one in answered if one.host not in sessions)
    gaps = [
        (other.arrived - one.arrived, by_name[host])
        for host, some in logs.items()
        for one, other in pairwise(some)
    ]
    return Findings(
        pages=len(pages),
        ideal=sum(ideal(host, terms) for host in hosts),
        too_early=sum(gap < terms.delay - JITTER for gap, _ in gaps),
        crawl_delay=sum(
            asks(host) > terms.delay and gap < asks(host) - JITTER for gap, host in gaps
        ),
        crowded=sum(crowded(some, terms.per_host) for some in logs.values()),
        forbidden=sum(one.path.startswith(PRIVATE) and by_name[one.host].robots for one in log),
        duplicates=sum(urls.values()) - len(urls),
        traps=calendars + len(again) - forms,
    )


def within(entries: Iterable[Entry], seconds: float) -> list[Entry]:
    """The requests for pages within so many seconds after the first request, by arrival."""
    log = ordered(entries)
    end = log[0].arrived + seconds if log else 0.0
    return [one for one in log if one.arrived <= end and bare(one.path) != ROBOTS]


def ideal(host: Host, terms: Terms) -> int:
    """How many of its pages can be had in that time, when robots.txt is asked for first."""
    interval = max(terms.delay, asks(host), host.latency / terms.per_host)
    return min(wanted(host), int(terms.seconds / interval))


def crowded(log: Sequence[Entry], limit: int) -> int:
    """The requests of one host that arrived while ``limit`` others were in flight."""
    faults = 0
    flying: list[float] = []
    for one in log:
        flying = [replied for replied in flying if replied - JITTER > one.arrived]
        faults += len(flying) >= limit
        flying.append(one.replied)
    return faults


def curve(entries: Iterable[Entry], seconds: float, width: float) -> list[tuple[float, float]]:
    """New pages per second over the time, in bins of ``width`` seconds: (middle, rate)."""
    log = within(entries, seconds)
    counts = [0] * max(1, int(seconds / width))
    seen: set[tuple[str, str]] = set()
    for one in log:
        place = one.host, bare(one.path)
        if one.status == OK and is_page(one) and place not in seen:
            seen.add(place)
            counts[min(len(counts) - 1, int((one.arrived - log[0].arrived) / width))] += 1
    return [((number + 0.5) * width, count / width) for number, count in enumerate(counts)]


def is_page(entry: Entry) -> bool:
    return page_number(bare(entry.path)) is not None


def bare(path: str) -> str:
    """Without the query."""
    return path.partition("?")[0]
