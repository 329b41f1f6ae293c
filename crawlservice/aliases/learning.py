"""Learning: rules from kept pages, recorded and verified."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.conf import settings

from crawlframe.aliases.learn import Found, learn
from crawlframe.aliases.rule import origin_of
from crawlframe.aliases.verify import PAIRS, verify
from crawlframe.identity.identity import Identity
from crawlframe.links import host_of
from crawlservice.aliases import rules
from crawlservice.aliases.evidence import Where, samples
from crawlservice.aliases.fetching import DELAY, PoliteFetch, ordered_for
from crawlservice.models import AliasRule


@dataclass
class Learned:
    """``pages`` were read. ``waiting`` are to be verified. ``others``: rules that are verified
    already. ``refused``: how many are revoked or refuted, and were not proposed."""

    pages: int = 0
    waiting: list[tuple[AliasRule, Found]] = field(default_factory=list)
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
    identity: Identity | None = None,
    *,
    pairs: int = PAIRS,
    delay: float = DELAY,
) -> Iterator[AliasRule]:
    """Verifies what waits, one rule after the other, with up to ``pairs`` pairs of URLs each.
    Yields each rule as it is then, unless it was forgotten."""
    with asyncio.Runner() as runner:
        fetch = PoliteFetch(settings.CRAWLFRAME, identity, delay)
        try:
            for row, found in learned.waiting:
                fetch.ordered = ordered_for([host_of(found.rule.origin + "/")])
                now = rules.decide(row, runner.run(verify(found, fetch.fetch, pairs)))
                if now is not None:
                    yield now
        finally:
            runner.run(fetch.close())
