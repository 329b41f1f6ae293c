"""Two nodes at servers with limits, while code changes and one is lost. The simulation judges the
delays and slots of hosts in the suite; this one has real servers that refuse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from benchmarks.politeness import trials, verdicts
from benchmarks.politeness.cluster import Cluster
from benchmarks.politeness.limits import Bucket, Limit, Outage, Quota
from benchmarks.politeness.scenes import HOUR, Goals, Scene
from benchmarks.politeness.world import Host, World
from crawlservice.tasks.submit import submit
from tests.conftest import NewDatabase, django_on
from tests.crawlservice.conftest import redis_at

pytestmark = [pytest.mark.process, pytest.mark.postgres, pytest.mark.long]

LEASE = {"CRAWLFRAME_LEASE": "3", "CRAWLFRAME_BEAT": "0.5"}
TIMEOUT = 90.0  # seconds
JITTER = 0.4  # seconds: a busy machine may send one request that late, and the next in time


class OurCluster(Cluster):
    """Tasks are submitted by this process: another process would add nothing."""

    def _submit(self, spider: str, file: Path) -> int:
        return submit(spider, {"file": str(file)}).pk


@pytest.fixture
def cluster(
    new_database: NewDatabase, redis_client: Redis, redis_url: str, tmp_path: Path
) -> Iterator[Cluster]:
    database = new_database("postgres")
    with (
        OurCluster(tmp_path / "nodes", database, redis_url, LEASE) as cluster,
        django_on(database),
        redis_at(redis_url),
    ):
        yield cluster


def scene(name: str, address: str, limit: Limit, pages: int, *, endless: bool = False) -> Scene:
    """A scene without goals for rates, which depend on the machine."""
    goals = Goals(refused=None, reached=None, latency=None)
    return Scene(name, name, Host(address, limit=limit), pages, 0.0, 0.0, goals, endless)


def test_no_url_is_lost_and_no_request_comes_early(cluster: Cluster, tmp_path: Path) -> None:
    """Where servers refuse, and by delays, robots.txt and redirects of many hosts."""
    scenes = [
        scene("bucket", "127.0.6.1", Bucket([(0.0, 5.0)]), 12),
        scene("seconds", "127.0.6.2", Bucket([(0.0, 5.0)], rest=2.0), 10),
        scene("outage", "127.0.6.3", Outage(20.0, 1.0, 4.0), 15),
        scene("hour", "127.0.6.4", Quota(3, HOUR), 20, endless=True),
    ]
    some = [
        trials.crawl_delays(6, 5.0, 1.0, 1.5, JITTER),
        trials.robots(8, 2),
        trials.redirects(4, 3, 4, jitter=JITTER),
        trials.shared_addresses(12, 2, 4.0, jitter=JITTER, share=0.0),
    ]
    servers = [one.host for one in scenes] + [host for trial in some for host in trial.hosts]
    with World(servers, tmp_path / "log") as world:
        tasks = {
            one.name: cluster.submit(world.url(one.host.name, path) for path in one.paths)
            for one in scenes
        }
        cluster.lose()
        disturbances = [(1.0, cluster.reload), (2.5, cluster.lose)]
        faults = trials.undergo(some, world, cluster, TIMEOUT, disturbances)
        deadline = time.monotonic() + TIMEOUT
        ended = {
            name: name != "hour" and cluster.wait(task, deadline - time.monotonic())
            for name, task in tasks.items()
        }
        assert cluster.resting(f"127.0.6.4:{world.port}") > HOUR - 2 * TIMEOUT
        assert not cluster.ended(tasks["hour"])
        log = world.entries()
    assert faults == {trial.name: [] for trial in some}
    for one in scenes:
        found = verdicts.judge(one, log, ended[one.name])
        assert verdicts.failures(one, found, ended[one.name]) == []
    refused = {one.host for one in log if one.status in verdicts.REFUSED}
    assert {"127.0.6.3", "127.0.6.4"} <= refused
