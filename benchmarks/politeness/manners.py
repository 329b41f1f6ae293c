"""Manners: evidence of a log about delays, robots.txt, redirects and shared addresses. Each
function returns the faults, one line each; an empty list is a pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from benchmarks.politeness.limits import MOVED, OK
from benchmarks.politeness.world import ROBOTS, Entry, Host, ordered

JITTER = 0.05  # seconds by which requests sent in time may arrive closer to each other


def too_close(
    entries: Iterable[Entry], delays: Mapping[str, float], jitter: float = JITTER
) -> list[str]:
    """Requests that came sooner after the previous one of their host than ``delays`` (host ->
    seconds) allows. robots.txt counts as a request."""
    faults = []
    for host, log in by_host(entries).items():
        for one, other in pairwise(log):
            gap = other.arrived - one.arrived
            if gap < delays.get(host, 0.0) - jitter:
                faults.append(
                    f"{host}{other.path} came {gap:.3f} s after {one.path}, not {delays[host]:g} s"
                )
    return faults


def robots_faults(
    entries: Iterable[Entry], hosts: Iterable[Host], forbidden: Iterable[str]
) -> list[str]:
    """Hosts whose robots.txt was not asked for exactly once, pages that came before it was sent,
    and pages whose paths start with one of ``forbidden``."""
    faults, logs = [], by_host(entries)
    banned = tuple(forbidden)
    for host in hosts:
        log = logs.get(host.name, [])
        asked = [one for one in log if one.path == ROBOTS]
        if len(asked) != 1:
            faults.append(f"{host.name} was asked for robots.txt {len(asked)} times")
        known = min((one.replied for one in asked if one.status == OK), default=float("inf"))
        for one in log:
            if one.path != ROBOTS and one.arrived < known:
                faults.append(f"{host.name}{one.path} came before robots.txt was known")
            if one.path.startswith(banned):
                faults.append(f"{host.name}{one.path} is forbidden")
    return faults


def unanswered(entries: Iterable[Entry], wanted: Iterable[tuple[str, str]]) -> list[str]:
    """The pages, as (host, path), that were never answered with 200."""
    got = {(one.host, one.path) for one in entries if one.status == OK}
    return [f"{host}{path} was never answered" for host, path in wanted if (host, path) not in got]


def broken_chains(entries: Iterable[Entry], chains: Iterable[list[tuple[str, str]]]) -> list[str]:
    """Redirect chains, each a list of (host, path), whose hops did not come once each, in their
    order, the last with 200."""
    faults = []
    log = ordered(entries)
    for chain in chains:
        hops = {*chain}
        came = [(one.host, one.path) for one in log if (one.host, one.path) in hops]
        ends = [one.status for one in log if (one.host, one.path) == chain[-1]]
        if came != chain or ends != [OK]:
            faults.append(f"{chain[0][0]}{chain[0][1]}: {len(came)} of {len(chain)} hops in order")
        if any(one.status != MOVED for one in log if (one.host, one.path) in hops - {chain[-1]}):
            faults.append(f"{chain[0][0]}{chain[0][1]}: a hop was not a redirect")
    return faults


def crowded(entries: Iterable[Entry], hosts: Iterable[Host], limit: int) -> list[str]:
    """Addresses that had more than ``limit`` requests at a time, over all their names."""
    faults = []
    for address, log in by_address(entries, hosts).items():
        steps = sorted([(one.arrived, 1) for one in log] + [(one.replied, -1) for one in log])
        now = most = 0
        for _, step in steps:
            now += step
            most = max(most, now)
        if most > limit:
            faults.append(f"{address} had {most} requests at a time, not {limit}")
    return faults


def too_slow(
    entries: Iterable[Entry], hosts: Iterable[Host], delay: float, share: float
) -> list[str]:
    """Addresses that got less than ``share`` of the requests that a delay of ``delay`` seconds
    allows, without the first and the last tenth of their requests."""
    faults = []
    for address, log in by_address(entries, hosts).items():
        some = log[len(log) // 10 : len(log) - len(log) // 10]
        seconds = some[-1].arrived - some[0].arrived
        reached = (len(some) - 1) * delay / seconds if seconds else 0.0
        if reached < share:
            faults.append(f"{address} got {reached:.2f} of what the delay allows")
    return faults


def by_address(entries: Iterable[Entry], hosts: Iterable[Host]) -> dict[str, list[Entry]]:
    """The log of each address, by arrival, with the address in place of the name."""
    address = {host.name: host.address or host.name for host in hosts}
    return by_host(one._replace(host=address[one.host]) for one in entries)


def by_host(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The log of each host, by arrival."""
    logs = defaultdict(list)
    for one in ordered(entries):
        logs[one.host].append(one)
    return dict(logs)
