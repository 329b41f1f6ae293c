"""Learning: rules from kept pages, recorded and verified."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.conf import settings

from crawlframe.aliases.learn import LearnedRule, learn
from crawlframe.aliases.rule import origin_of
from crawlframe.aliases.verify import PAIRS, AliasVerdict, verify
from crawlframe.base.urls import host_of
from crawlframe.frontier.permits import Permits
from crawlframe.identity.identity import Identity
from crawlservice.aliases import rules
from crawlservice.aliases.evidence import Where, samples
from crawlservice.aliases.fetching import DELAY, PoliteFetch, ordered_for
from crawlservice.models import AliasRule

AT_ONCE = 16  # hosts whose rules are verified at a time
LOOK_SECONDS = 5.0  # seconds after which what operators have ordered is read again


@dataclass
class Learned:
    """``pages`` were read. ``waiting`` are to be verified. ``others``: rules that are verified
    already. ``refused``: how many are revoked or refuted, and were not proposed."""

    pages: int = 0
    waiting: list[tuple[AliasRule, LearnedRule]] = field(default_factory=list)
    others: int = 0
    refused: int = 0


def propose(where: Where) -> Learned:
    """Learns from kept pages, and records what was found. Raises ArgumentError."""
    found_pages = [*samples(where)]
    origins = {origin_of(sample.url) for sample in found_pages}
    states = rules.State
    refuted, revoked = (rules.known(origins, (one,)) for one in (states.REFUTED, states.REVOKED))
    verified = rules.known(origins, (states.VERIFIED,))
    learned = Learned(len(found_pages), refused=len(refuted) + len(revoked))
    for found in learn(found_pages, verified, refuted, revoked):
        row = rules.note(found)
        if row is None:
            learned.others += 1
        else:
            learned.waiting.append((row, found))
    return learned


def check(
    learned: Learned,
    permits: Permits,
    identity: Identity | None = None,
    *,
    pairs: int = PAIRS,
    delay: float = DELAY,
) -> Iterator[AliasRule]:
    """Verifies what waits, the rules of one host one after the other and up to ``AT_ONCE`` hosts at
    a time, with up to ``pairs`` pairs of URLs each. Yields each rule as it is then, unless it was
    forgotten. Raises RedisError."""
    hosts = [host_of(found.rule.origin + "/") for _, found in learned.waiting]
    with asyncio.Runner() as runner:
        fetch = PoliteFetch(settings.CRAWLFRAME, permits, identity, delay)
        turns = {host: asyncio.Lock() for host in hosts}
        slots = asyncio.Semaphore(AT_ONCE)

        async def verified(host: str, found: LearnedRule) -> AliasVerdict:
            async with turns[host], slots:
                return await verify(found, fetch.fetch, pairs)

        try:
            fetch.ordered = ordered_for(turns)
            loop = runner.get_loop()
            running = {
                loop.create_task(verified(host, found)): row
                for host, (row, found) in zip(hosts, learned.waiting, strict=True)
            }
            while running:
                done, _ = runner.run(
                    asyncio.wait(running, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                )
                decided = (rules.decide(running.pop(task), task.result()) for task in done)
                yield from (rule for rule in decided if rule is not None)
                fetch.ordered = ordered_for(turns)
        finally:
            runner.run(fetch.close())
