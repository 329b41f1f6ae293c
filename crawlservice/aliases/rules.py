"""Rules: the known alias rules, and their states."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
from django.conf import settings
from django.db import transaction

from crawlframe.aliases.learn import EXAMPLES, LearnedRule, learn
from crawlframe.aliases.rule import AliasRule as Rule
from crawlframe.aliases.rule import origin_of
from crawlframe.aliases.verify import PAIRS, AliasVerdict, verify
from crawlframe.base.urls import host_of
from crawlframe.frontier.permits import Permits
from crawlframe.identity.identity import Identity
from crawlservice.aliases.fetching import DELAY, PoliteFetch, Where, ordered_for, samples
from crawlservice.connections import clock
from crawlservice.connections.lookup import find
from crawlservice.models import AliasRule

AT_ONCE = 16  # hosts whose rules are verified at a time
LOOK_SECONDS = 5.0  # seconds after which the orders of operators are read again
State = AliasRule.State


def get(number: int) -> AliasRule:
    """Raises NotFound."""
    return find(AliasRule.objects.all(), "rule", number, listed="alias list")


def rule_of(row: AliasRule) -> Rule:
    """The rule of a row, as it is applied."""
    return msgspec.convert(row.rule, Rule)


def key_of(rule: Rule) -> str:
    return blake2b("\0".join(rule.identity).encode(), digest_size=16).hexdigest()


def known(origins: Collection[str], states: Collection[str]) -> list[Rule]:
    """The rules of these origins that are in these states."""
    rows = AliasRule.objects.filter(origin__in=origins, state__in=states).order_by("pk")
    return [rule_of(row) for row in rows]


@transaction.atomic
def note(found: LearnedRule) -> AliasRule | None:
    """Records a rule that was learned, or new evidence about a known rule. Pages that speak
    against a verified rule make it a proposal again. Returns the row if the rule is to be
    verified; None if it is verified or was refused before."""
    _, new = AliasRule.objects.get_or_create(
        key=key_of(found.rule),
        defaults={
            "origin": found.rule.origin, "kind": found.rule.kind, "rule": _stored(found.rule)
        },
    )  # fmt: skip
    # Locked, because an operator may revoke or forget it just now.
    row = AliasRule.objects.select_for_update().filter(key=key_of(found.rule)).first()
    if row is None or row.state in (State.REFUTED, State.REVOKED):
        return None
    doubted = row.state == State.VERIFIED and found.contradictions
    row.support, row.contradictions = found.support, found.contradictions
    row.examples, row.counterexamples = found.pairs[:EXAMPLES], found.against[:EXAMPLES]
    if not new:
        row.rule = _stored(_joined(rule_of(row), found.rule))
    if doubted:
        row.state, row.problem = State.PROPOSED, "pages that were kept later speak against it"
    row.save()
    return row if row.state == State.PROPOSED else None


def decide(row: AliasRule, verdict: AliasVerdict) -> AliasRule | None:
    """Records the result of a verification, unless the rule was revoked meanwhile. Returns the
    changed row; None if it was forgotten."""
    with transaction.atomic():
        locked = AliasRule.objects.select_for_update().filter(pk=row.pk).first()
        if locked is None or locked.state != State.PROPOSED:
            return locked
        locked.rule = _stored(_joined(rule_of(locked), verdict.rule))
        locked.state, locked.problem = State(verdict.state), verdict.problem
        locked.compared = len(verdict.equal) + len(verdict.different)
        locked.fetches += verdict.fetches
        if verdict.different:
            old = [pair for pair in locked.counterexamples if pair not in verdict.different]
            locked.counterexamples = [*verdict.different, *old][:EXAMPLES]
        if verdict.state != "proposed":
            locked.decided_at = clock.now()
        locked.save()
    return locked


def revoke(rows: Iterable[AliasRule]) -> int:
    """Tasks that are submitted from now on do not use these rules, and they are not learned again.
    Returns how many there were that were not revoked before."""
    numbers = [row.pk for row in rows]
    some = AliasRule.objects.filter(pk__in=numbers).exclude(state=State.REVOKED)
    return some.update(state=State.REVOKED, decided_at=clock.now())


def forget(row: AliasRule) -> None:
    """Deletes a rule, so that it may be learned again."""
    row.delete()


def _stored(rule: Rule) -> dict[str, object]:
    stored: dict[str, object] = msgspec.to_builtins(rule)
    return stored | {"places": sorted(rule.places)}


def _joined(old: Rule, new: Rule) -> Rule:
    return msgspec.structs.replace(new, places=old.places | new.places)


@dataclass
class Learned:
    """``pages`` were read. ``waiting`` are to be verified. ``others``: rules that are verified
    already. ``refused``: how many are revoked or refuted, and were not proposed."""

    pages: int = 0
    waiting: list[tuple[AliasRule, LearnedRule]] = field(default_factory=list)
    others: int = 0
    refused: int = 0


def propose(where: Where) -> Learned:
    """Learns rules from kept pages, and records them. Raises ArgumentError."""
    found_pages = [*samples(where)]
    origins = {origin_of(sample.url) for sample in found_pages}
    states = State
    refuted, revoked = (known(origins, (one,)) for one in (states.REFUTED, states.REVOKED))
    verified = known(origins, (states.VERIFIED,))
    learned = Learned(len(found_pages), refused=len(refuted) + len(revoked))
    for found in learn(found_pages, verified, refuted, revoked):
        row = note(found)
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
    """Verifies the waiting rules, one rule of a host after the other and up to ``AT_ONCE`` hosts at
    a time, with up to ``pairs`` pairs of URLs each. Yields each changed rule, unless it was
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
                decided = (decide(running.pop(task), task.result()) for task in done)
                yield from (rule for rule in decided if rule is not None)
                fetch.ordered = ordered_for(turns)
        finally:
            runner.run(fetch.close())
