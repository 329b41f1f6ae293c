"""A Redis that lost writes is noticed by every client whose calls it had confirmed, however few;
then nothing is claimed, and no earlier call accepted, until a new era is open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from crawlframe.errors import EraChanged
from crawlframe.frontier import Claimed, Frontier, TaskLimits
from crawlframe.frontier.client.call_log import FRESH_SECONDS
from crawlframe.frontier.client.eras import ERA_MS
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.client.scripts import UNGUARDED, verbs
from tests.frontier.bench import Bench, dump
from tests.frontier.snapshot import Snapshot


@pytest.fixture
def client(redis_client: Redis) -> Callable[..., Frontier]:
    """Makes separate frontiers, as processes have, that know the present era."""

    def make(**options: Any) -> Frontier:
        frontier = Frontier(PartitionedStore(redis_client, **options))
        frontier.eras.learn()
        return frontier

    return make


def lose(redis: Any, call: Callable[[], object]) -> None:
    """Makes Redis forget one call."""
    before = Snapshot(redis)
    call()
    before.back()


def without_answer(bench: Bench, call: Callable[[], object]) -> None:
    """Makes a call that Redis executes, and whose answer the client does not get."""
    answered = dict(bench.store.call_log._answered)
    call()
    bench.store.call_log._answered = answered


def fall_silent(bench: Bench) -> None:
    """Waits until Redis may have forgotten the client."""
    answered = bench.store.call_log.answered(0)
    bench.store.call_log._answered[0] = (answered, time.monotonic() - FRESH_SECONDS - 1)


def test_data_without_an_era_is_of_era_0(client: Callable[..., Frontier]) -> None:
    frontier = client()
    assert frontier.eras.read() == [(0, "open")]
    assert frontier.eras.settled() == 0


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_era_begins_closed_and_is_opened(
    client: Callable[..., Frontier], partitions: int
) -> None:
    founder = client(partitions=partitions)
    founder.eras.begin(1)
    assert founder.eras.read() == [(1, "closed")] * partitions
    assert founder.eras.settled() == 0
    founder.eras.open()
    assert founder.eras.settled() == 1


def test_an_era_never_goes_back(client: Callable[..., Frontier]) -> None:
    one, two = client(), client()
    two.eras.begin(7)
    two.eras.open()
    with pytest.raises(EraChanged, match="ERA is now 7, not 6"):
        one.eras.begin(6)
    one.eras.begin(8)
    with pytest.raises(EraChanged, match="ERA is now 8, not 7"):
        two.eras.open()
    assert one.eras.read() == [(8, "closed")]


@pytest.mark.parametrize("verb", sorted(set(verbs()) - UNGUARDED))
def test_every_verb_that_writes_refuses_an_earlier_era(
    client: Callable[..., Frontier], redis_client: Redis, verb: str
) -> None:
    old = client()
    old.open_task(1, TaskLimits(), [])
    new = client()
    new.eras.begin(1)
    before = dump(redis_client)
    with pytest.raises(EraChanged, match="ERA is now 1, not 0"):
        old.store.run(verb, 0, *["1"] * 6)
    assert dump(redis_client) == before


def test_who_follows_goes_on_in_the_next_era(client: Callable[..., Frontier]) -> None:
    service = client(follows=True)
    service.open_task(1, TaskLimits(), [])
    founder = client()
    founder.eras.begin(1)
    service.open_task(2, TaskLimits(), [])  # while it is filled again, too
    founder.eras.open()
    service.pause(2)
    assert service.open_tasks() == [1, 2]


def test_while_an_era_is_closed_nothing_is_claimed_and_no_life_begins(
    client: Callable[..., Frontier],
) -> None:
    client().eras.begin(1)
    node = client()
    with pytest.raises(EraChanged, match="ERA 1 is closed"):
        node.claim(1, 1, 10)
    with pytest.raises(EraChanged, match="ERA 1 is closed"):
        node.leases.renew(1, 15)


def test_damage_found_while_an_era_is_closed_leaves_it_closed(
    client: Callable[..., Frontier], redis_client: Redis
) -> None:
    founder = client()
    founder.eras.begin(1)
    redis_client.hset(founder.store.keys[0]("REQ"), "rid", "junk")
    assert founder.store.run("quarantine", 0, "req", "rid", "junk", 1) == 1
    assert founder.eras.read() == [(1, "closed")]


def test_an_unreadable_era_is_doubted_and_replaced_by_the_next(
    client: Callable[..., Frontier], redis_client: Redis
) -> None:
    frontier = client()
    redis_client.set(frontier.store.keys[0]("ERA"), "junk")
    with pytest.raises(EraChanged, match="ERA 0 is doubted"):
        frontier.claim(1, 1, 10)
    frontier.eras.begin(1)
    frontier.eras.open()
    assert frontier.eras.settled() == 1


LOST: dict[str, Callable[[Bench], object]] = {
    "claim": lambda bench: bench.claim(1),
    "a fetch that is over": lambda bench: bench.claim(0, fetched=[bench.held]),
    "complete": lambda bench: bench.complete(bench.held),
    "retry": lambda bench: bench.retry(bench.held, 1000),
    "release": lambda bench: bench.release(bench.held),
    "park": lambda bench: bench.park(bench.held),
    "admit": lambda bench: bench.frontier.admit(1, [bench.request("new")]),
    "pause": lambda bench: bench.frontier.pause(1),
    "lease": lambda bench: bench.leases.renew(1, 15),
    "replay": lambda bench: bench.leases.replay(9),
    "cookies": lambda bench: bench.frontier.share_cookies(1, {"a": "b"}),
}


@pytest.fixture
def plain(make_bench: Callable[..., Bench]) -> Bench:
    """A bench that sends each script once, with ``held``: a request that it holds."""
    bench = make_bench(store=PartitionedStore)
    bench.open(*bench.requests(5))
    (bench.held,) = bench.claim(1)
    return bench


def test_partitions_of_two_eras_are_not_settled(client: Callable[..., Frontier]) -> None:
    founder = client(partitions=2)
    founder.eras.begin(1)
    founder.eras.open()
    for state in ("closed", "open"):
        founder.store.run("era", 1, 2, state)
    assert founder.eras.read() == [(1, "open"), (2, "open")]
    assert founder.eras.settled() == 0


def test_what_is_doubted_already_or_being_filled_may_be_doubted_again(
    client: Callable[..., Frontier],
) -> None:
    founder = client()
    founder.eras.doubt()
    founder.eras.doubt()
    assert founder.eras.read() == [(0, "doubted")]
    founder.eras.begin(1)
    founder.eras.doubt()
    assert founder.eras.read() == [(1, "closed")]


def test_only_what_was_filled_without_a_loss_is_opened(
    client: Callable[..., Frontier], redis_client: Redis
) -> None:
    founder = client()
    founder.eras.begin(7)
    begun = Snapshot(redis_client)
    founder.open_task(1, TaskLimits(), [])
    begun.back()
    with pytest.raises(EraChanged, match="LOST"):
        founder.eras.open()
    assert founder.eras.read() == [(7, "closed")]
    founder.eras.begin(7)
    founder.eras.open()
    founder.eras.open()
    founder.eras.doubt()
    with pytest.raises(EraChanged, match="ERA 7 is doubted"):
        founder.eras.open()
    redis_client.flushall()
    with pytest.raises(EraChanged, match="ERA is now 0, not 7"):
        founder.eras.open()
    assert founder.eras.read() == [(0, "open")]


def test_the_data_there_is_doubted_whichever_era_the_client_knows(
    client: Callable[..., Frontier],
) -> None:
    late = client()
    late.store.call_log.learn(0, 7)
    late.eras.doubt()
    assert late.eras.read() == [(0, "doubted")]


@pytest.mark.parametrize("what", LOST)
def test_the_loss_of_a_single_call_is_noticed(plain: Bench, what: str) -> None:
    plain.frontier.eras.confirm()
    lose(plain.redis, lambda: LOST[what](plain))
    with pytest.raises(EraChanged, match=r"LOST calls of \w+ that were answered"):
        plain.frontier.eras.confirm()
    assert plain.frontier.eras.read() == [(0, "doubted")]


def test_the_loss_of_the_very_first_call_is_noticed(
    plain: Bench, client: Callable[..., Frontier]
) -> None:
    """Redis then knows nothing of the client."""
    late = client()
    lose(plain.redis, lambda: late.admit(1, [plain.request("new")]))
    with pytest.raises(EraChanged, match="LOST"):
        late.eras.confirm()


def test_a_loss_that_one_noticed_stops_the_claims_of_all(
    plain: Bench, client: Callable[..., Frontier]
) -> None:
    other = client()
    lose(plain.redis, lambda: plain.claim(1))
    other.claim(2, 1, 1)
    with pytest.raises(EraChanged, match="LOST"):
        plain.claim(1)
    with pytest.raises(EraChanged, match="ERA 0 is doubted"):
        other.claim(2, 2, 1)
    assert other.admit(1, [plain.request("others")]) == 1


def test_an_emptied_redis_is_noticed(client: Callable[..., Frontier], redis_client: Redis) -> None:
    founder = client()
    founder.eras.begin(1)
    founder.eras.open()
    node = client()
    redis_client.flushall()
    with pytest.raises(EraChanged, match="ERA is now 0, not 1"):
        node.claim(1, 1, 10)


def test_an_answer_that_was_lost_is_no_loss(plain: Bench) -> None:
    """The call was made, and its client does not know."""
    without_answer(plain, lambda: plain.release(plain.held))
    assert plain.release(plain.held) == 0
    plain.frontier.eras.confirm()


def test_an_answer_that_was_lost_hides_no_loss(plain: Bench) -> None:
    """Redis goes back to a state that has the call without an answer, but not the next one."""
    without_answer(plain, lambda: plain.release(plain.held))
    lose(plain.redis, lambda: plain.claim(1))
    with pytest.raises(EraChanged, match="LOST"):
        plain.frontier.eras.confirm()


def test_what_a_client_did_in_its_life_before_hides_no_loss(plain: Bench) -> None:
    """A fenced master, or one of an earlier era, starts over in the same process."""
    plain.frontier.eras.learn()
    lose(plain.redis, lambda: plain.claim(1))
    with pytest.raises(EraChanged, match="LOST"):
        plain.frontier.eras.confirm()


def test_what_a_client_did_before_a_long_silence_hides_no_loss(plain: Bench) -> None:
    fall_silent(plain)
    lose(plain.redis, lambda: plain.claim(1))
    with pytest.raises(EraChanged, match="LOST"):
        plain.frontier.eras.confirm()


def test_an_answer_that_was_lost_is_no_loss_when_it_comes_late(plain: Bench) -> None:
    """Between the claim and its repetition another call of the same client was answered."""
    lost: list[Claimed] = []
    without_answer(plain, lambda: lost.extend(plain.frontier.claim(1, 7, 2).requests))
    plain.leases.renew(1, 15)
    assert plain.frontier.claim(1, 7, 2).requests == lost
    plain.frontier.eras.confirm()


def test_a_call_that_arrives_late_is_no_loss(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client has given it up, and has been answered since."""
    words = plain.store.call_log.words(0)
    plain.release(plain.held)
    with monkeypatch.context() as late:
        late.setattr(plain.store.call_log, "words", lambda partition: words)
        plain.leases.renew(1, 15)
    plain.frontier.eras.confirm()


def test_what_others_write_hides_no_loss(plain: Bench, client: Callable[..., Frontier]) -> None:
    other = client()
    lose(plain.redis, lambda: plain.release(plain.held))
    for n in range(20):
        other.admit(1, [plain.request(f"others/{n}")])
    with pytest.raises(EraChanged, match="LOST"):
        plain.frontier.eras.confirm()


def test_a_loss_in_one_partition_is_noticed(
    make_bench: Callable[..., Bench], client: Callable[..., Frontier]
) -> None:
    bench = make_bench(store=PartitionedStore, partitions=3)
    bench.open(*(bench.request(f"{n}", f"{n}.example") for n in range(30)))
    lose(bench.redis, lambda: bench.complete(bench.claim(1)[0]))
    with pytest.raises(EraChanged, match="LOST"):
        bench.frontier.eras.confirm()
    assert sorted(state for _, state in bench.frontier.eras.read()) == ["doubted", "open", "open"]
    assert bench.frontier.eras.settled() == 0


def test_an_idle_node_writes_nothing(plain: Bench) -> None:
    plain.complete_all([plain.held, *plain.claim()])
    assert plain.claim() == []  # it is no longer known to be starved
    changes = plain.redis.info("persistence")["rdb_changes_since_last_save"]
    assert plain.claim() == []
    assert plain.redis.info("persistence")["rdb_changes_since_last_save"] == changes


def test_silent_clients_are_forgotten_without_a_false_alarm(plain: Bench) -> None:
    key = plain.key("CALL_LOG", plain.store.call_log.client)
    assert 2 * FRESH_SECONDS - 5 < plain.redis.ttl(key) <= 2 * FRESH_SECONDS
    fall_silent(plain)
    plain.redis.delete(key)
    plain.frontier.eras.confirm()
    plain.release(plain.held)
    plain.frontier.eras.confirm()
    assert int(plain.redis.get(key)) == plain.store.call_log.answered(0) > 0


# -- whose data it is ------------------------------------------------------------------------------


def test_data_belongs_to_the_first_installation_that_says_so(
    client: Callable[..., Frontier],
) -> None:
    eras = client().eras
    assert eras.installation() == ""
    assert eras.belong_to("first") == "first"
    assert eras.belong_to("second") == "first"
    assert eras.belong_to("second", instead=True) == "second"
    assert client().eras.installation() == "second"


def test_what_is_rebuilt_is_dropped_and_the_rest_kept(bench: Bench) -> None:
    bench.open(bench.request("one"))
    bench.frontier.eras.belong_to("first")
    bench.redis.set("of another program", "x")
    bench.frontier.eras.wipe()
    assert bench.claim() == []
    assert bench.frontier.eras.installation() == "first"
    assert bench.redis.get("of another program") == b"x"


HOUR = 3_600_000  # ms


@pytest.mark.parametrize(
    ("kept", "lasts"),
    [
        ({}, 0),
        ({"r": HOUR}, HOUR),
        ({"r": -HOUR}, 0),
        ({"r": HOUR, "ou": 2 * HOUR, "op": 1}, 2 * HOUR),
        ({"r": 2 * HOUR, "ou": HOUR, "od": 5}, 2 * HOUR),
        ({"r": "?", "ou": HOUR, "oc": 5}, HOUR),
        ({"r": HOUR, "od": 5}, None),
        ({"r": HOUR, "oc": 5}, None),
        ({"r": HOUR, "op": 1}, None),
    ],
)
def test_what_a_wipe_leaves_of_a_host(
    redis_client: Redis, kept: dict[str, Any], lasts: int | None
) -> None:
    """The lessons about it, for a day after its rest and its orders end. Negative: ms ago."""
    bench = Bench(redis_client)
    now = bench.now()
    known = {
        name: now + value if name in ("r", "ou") and value != "?" else value
        for name, value in kept.items()
    }
    requests = dict.fromkeys(("a", "t", "w", "ip", "d"), 1)
    key = bench.key("HOST", "a.example")
    bench.redis.hset(key, mapping={"g": 7, **known, **requests})
    bench.frontier.eras.wipe()
    left = {name.decode(): value.decode() for name, value in bench.redis.hgetall(key).items()}
    assert left == {"g": "7", **{name: str(value) for name, value in known.items()}}
    left_ms = bench.redis.pttl(key)
    if lasts is None:
        assert left_ms == -1
    else:
        over = bench.now() - now + 1000  # it was slow, or counted in another clock
        assert lasts + ERA_MS - over <= left_ms <= lasts + ERA_MS + over


def test_every_partition_is_dropped(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(store=PartitionedStore, partitions=3)
    bench.open(*(bench.request(f"{n}", f"{n}.example") for n in range(20)))
    bench.frontier.eras.begin(7)
    bench.frontier.eras.wipe(keep={"ERA"})
    assert {key.rpartition(b":")[2] for key in bench.redis.scan_iter()} == {b"era"}
