"""Affinity: three nodes, each with hosts of its own; one node is killed."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from crawlframe.frontier.cluster.affinity import SLOTS, Affinity, Table
from crawlservice.ledger.audit import audit
from crawlservice.monitoring.nodes import read
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Answer, Look, SmallSite, Submit, early, wait_for
from tests.process.spiders.whose import DELAY

pytestmark = [
    pytest.mark.process,
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
]

PAGES = 40  # of each host
HOSTS = 24
NAMES = ("one", "two", "three")


class ManyHosts(SmallSite):
    """A server at many addresses of this machine. ``times``: host -> times of its requests."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        super().__init__("0.0.0.0")
        self.hosts = [f"127.0.19.{n}:{self.port}" for n in range(1, HOSTS + 1)]

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        self.times[asked.headers["Host"]].append(time.monotonic())
        return 200, {}, b"ok"


@pytest.fixture
def many() -> Iterator[ManyHosts]:
    web = ManyHosts()
    yield web
    web.close()


def table(look: Look) -> Table:
    found = Affinity(look.frontier.store).read()
    assert found is not None
    return found


def whose(look: Look, pk: int) -> dict[str, Counter[int]]:
    """The number of pages of each host that each node has fetched, by the pid of its master."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for item in look.items(pk):
        found[item["url"].split("/")[2]][item["master"]] += 1
    return found


def begin(
    odd_env: dict[str, str], start_manage: Callable[..., Running], look: Look, affinity: str
) -> dict[str, Running]:
    odd_env["CRAWLFRAME_AFFINITY"] = affinity
    nodes = {
        name: start_manage("runcrawler", "--node", name, "--workers", 1, "--concurrency", 16)
        for name in NAMES
    }
    kept = Affinity(look.frontier.store)
    wait_for(lambda: (found := kept.read()) is not None and {*found.nodes} == {*NAMES})
    wait_for(lambda: sum(bool(one.spiders) for one in look.frontier.leases.nodes()) == len(NAMES))
    return nodes


def test_each_node_fetches_its_hosts_and_those_of_a_killed_one_move(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    redis_url: str,
    many: ManyHosts,
) -> None:
    nodes = begin(odd_env, start_manage, look, "host")
    before = table(look)
    with redis_at(redis_url):
        assert [one.share for one in read()] == pytest.approx([1 / 3] * 3, rel=0.1)
    pk = submit("whose", hosts=json.dumps(many.hosts), pages=PAGES)
    wait_for(lambda: look.counts(pk).nf > HOSTS * PAGES / 2)
    settled = whose(look, pk)
    most = sum(counts.most_common(1)[0][1] for counts in settled.values())
    # Without affinity it is less than half; on a busy machine others help.
    assert most > 0.5 * sum(counts.total() for counts in settled.values())
    assert len({counts.most_common(1)[0][0] for counts in settled.values()}) == len(NAMES)

    killed = nodes.pop("two")
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait()
    task = look.wait(pk)
    assert (task.state, task.na, task.ne) == ("finished", HOSTS * PAGES + 1, 0)
    assert audit(task) == []
    assert {host: len(times) >= PAGES for host, times in many.times.items()} == dict.fromkeys(
        many.hosts, True
    )
    for times in many.times.values():
        assert early(times, DELAY) == []
    wait_for(lambda: {*table(look).nodes} == {"one", "three"})
    after = table(look)
    moved = sum(
        before.nodes[old] != after.nodes[new]
        for old, new in zip(before.slots, after.slots, strict=True)
    )
    assert moved < SLOTS / 3 + 200  # its own, and a few for load
    for node in nodes.values():
        assert node.stop() == 0
