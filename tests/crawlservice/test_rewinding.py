"""Redis goes back to any earlier copy at any step of a recovery, again and again: afterwards the
cluster claims work, the crawl ends with the exact set, and the era has advanced."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from redis import Redis
from redis.exceptions import ConnectionError

from crawlframe.conf import Settings
from crawlframe.errors import EraChanged
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.eras import CLOSED, OPEN, EraState
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlservice.ledger import reconcile
from crawlservice.ledger.audit import audit
from crawlservice.ledger.recovery import is_whole, newest
from crawlservice.models import Era, Task
from crawlservice.steward.nodes import RedisCheck
from crawlservice.steward.steward import Steward
from tests.crawlservice.chores import work_of
from tests.crawlservice.graph import GraphCrawl
from tests.frontier.snapshot import Snapshot

pytestmark = pytest.mark.usefixtures("few_chores")

ROUNDS = 6  # of work and faults
ENOUGH = 4  # rounds within which a steward must have recovered


class World:
    """A Redis with copies taken at random. ``fault``: runs before a script due in some steps."""

    def __init__(self, redis: Redis, partitions: int, seed: int) -> None:
        self.redis, self.partitions, self.chance = redis, partitions, random.Random(seed)
        self.copies: list[tuple[Snapshot, set[EraState]]] = []
        self.beyond = 0  # the number that the last era must exceed
        self.steps_left = -1
        self.stewards: list[Steward] = []
        self.watched = True

    def frontier(self, *, follows: bool) -> Frontier:
        store = Rewinding(self.redis, partitions=self.partitions, follows=follows)
        store.world = self
        frontier = Frontier(store)
        frontier.eras.learn()
        return frontier

    def step(self, frontier: Frontier) -> None:
        """Before each script."""
        if not self.watched:
            return
        self.watched = False  # the code below runs scripts, too
        try:
            if self.chance.random() < 0.1:
                self.copies.append((Snapshot(self.redis), {*frontier.eras.read()}))
            self.steps_left -= 1
            if self.steps_left == 0:
                self.fault(frontier)
        finally:
            self.watched = True

    def fault(self, frontier: Frontier) -> None:
        last = newest()
        match self.chance.choice(("back", "back", "back", "empty", "doubt", "death")):
            case "back" if self.copies:
                copy, eras = self.chance.choice(self.copies)
                copy.back()
                opened = Era.objects.filter(pk=last, opened_at__isnull=False).exists()
                if eras != {EraState(last, OPEN)} and (opened or eras != {EraState(last, CLOSED)}):
                    self.beyond = max(self.beyond, last)
            case "empty":
                self.redis.flushall()
                self.beyond = max(self.beyond, last)
            case "doubt":
                frontier.eras.doubt()
            case "death":
                raise ConnectionError("the steward dies")
        self.redis.delete("cf:steward")  # locks of a real copy have expired
        for steward in self.stewards:
            work_of(steward, "Redis", RedisCheck)._run = "that of the server before"


class Rewinding(PartitionedStore):
    world: World

    def apart(self) -> PartitionedStore:
        other = Rewinding(self.redis, self.keys[0].prefix, self.partitions)
        other.world = self.world
        return other

    def _run(self, verb: str, partition: int, *args: object) -> object:
        self.world.step(Frontier(PartitionedStore(self.redis, partitions=self.partitions)))
        return super()._run(verb, partition, *args)


@pytest.mark.parametrize(("partitions", "seed"), [(1, 0), (3, 1), (3, 2)])
def test_any_earlier_copy_at_any_step(
    redis_client: Redis, monkeypatch: pytest.MonkeyPatch, partitions: int, seed: int
) -> None:
    monkeypatch.setattr(reconcile, "REQUESTS_PER_STEP", 7)
    world = World(redis_client, partitions, seed)
    stewards = [Steward(Settings(), world.frontier(follows=True)) for _ in range(2)]
    world.stewards += stewards
    stewards[0].tick()
    crawl = GraphCrawl(world.frontier(follows=True), pages=40)
    node, generation = world.frontier(follows=False), 1
    for _ in range(ROUNDS):
        world.steps_left = world.chance.randrange(1, 60)
        for steward in world.chance.choices(stewards, k=3):
            with suppress(EraChanged, ConnectionError):
                crawl.work(node, 2, generation)
                node.eras.confirm()
            if is_whole(node):  # as masters do after an era has changed
                node, generation = world.frontier(follows=False), generation + 1
            steward.tick()
            steward.resign()
    world.watched = False
    for _ in range(ENOUGH):
        with suppress(EraChanged):  # the next heartbeat
            node.eras.confirm()
        stewards[0].tick()
    assert is_whole(node)
    assert newest() > world.beyond
    node = world.frontier(follows=False)
    for held in range(1, generation + 1):  # their leases have expired
        stewards[0]._frontier.leases.replay(held)
    while crawl.work(node, 90, generation + 1):
        pass
    for _ in range(2):  # with several partitions, lost requests are found at the end
        stewards[0].tick()
        with suppress(EraChanged):
            while crawl.work(node, 90, generation + 1):
                pass
    assert Task.objects.get().state == Task.State.FINISHED
    assert audit(Task.objects.get()) == []
    assert node.audit() == []
    assert node.open_tasks() == []


def test_an_older_copy_that_was_doubted_comes_back_while_a_later_era_is_known(
    service: Frontier,
) -> None:
    """Redis is killed, and killed again; it comes back with the copy from before both."""
    steward = Steward(Settings(), service)
    steward.tick()
    crawl = GraphCrawl(service)
    service.eras.doubt()
    doubted = Snapshot(service.store.redis)
    steward.tick()
    assert newest() == 2
    service.store.redis.hset(service.store.keys[0]("REQ"), "junk", "junk")  # an audit finds it
    doubted.back()
    service.store.redis.hset(service.store.keys[0]("REQ"), "junk", "junk")
    service.store.redis.delete("cf:steward")
    work_of(steward, "Redis", RedisCheck)._run = "that of the server before"
    steward.tick()
    assert is_whole(service)
    assert newest() == 3
    while crawl.work(service, 90):
        pass
    crawl.check_end(service)
