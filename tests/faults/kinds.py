"""The kinds of faults: what each does to a cluster, and how often it comes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.faults.cluster import LEASE, Cluster

Fault = Callable[[Cluster], None]


def kill_worker(cluster: Cluster) -> None:
    _kill(cluster, cluster.children())


def kill_master(cluster: Cluster) -> None:
    _kill(cluster, cluster.masters())


def kill_everything(cluster: Cluster) -> None:
    for process in [*cluster.masters(), *cluster.children()]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    cluster.restart_postgres()
    cluster.restart_redis()


def stop_master(cluster: Cluster) -> None:
    """For longer than its lease; then it goes on."""
    if masters := cluster.masters():
        master = cluster.chance.choice(masters)
        with suppress(psutil.NoSuchProcess):
            master.send_signal(signal.SIGSTOP)
            time.sleep(LEASE + 1.5)
            master.send_signal(signal.SIGCONT)


def restart_redis(cluster: Cluster) -> None:
    cluster.restart_redis()


def cut_redis(cluster: Cluster) -> None:
    cluster.restart_redis(tail=cluster.chance.choice([60, 300, 1_000, 5_000, 50_000]))


def empty_redis(cluster: Cluster) -> None:
    cluster.restart_redis(tail=1 << 40)


def restart_postgres(cluster: Cluster) -> None:
    cluster.restart_postgres()


def lose_redis_answers(cluster: Cluster) -> None:
    cluster.redis_proxy.lose_answers(cluster.chance.randint(1, 5))


def lose_commit_answers(cluster: Cluster) -> None:
    cluster.postgres_proxy.lose_answers(cluster.chance.randint(1, 3))


def part_from_redis(cluster: Cluster) -> None:
    cluster.redis_proxy.hold(cluster.chance.uniform(0.3, 2))


def part_from_postgres(cluster: Cluster) -> None:
    cluster.postgres_proxy.hold(cluster.chance.uniform(0.3, 2))


def break_connections(cluster: Cluster) -> None:
    cluster.redis_proxy.cut()
    cluster.postgres_proxy.cut()


def _kill(cluster: Cluster, processes: list[psutil.Process]) -> None:
    if processes:
        with suppress(psutil.NoSuchProcess):
            cluster.chance.choice(processes).kill()


# How often each comes, compared with the others.
KINDS: dict[Fault, int] = {
    kill_worker: 20,
    kill_master: 5,
    kill_everything: 2,
    stop_master: 2,
    restart_redis: 3,
    cut_redis: 10,
    empty_redis: 1,
    restart_postgres: 3,
    lose_redis_answers: 20,
    lose_commit_answers: 10,
    part_from_redis: 4,
    part_from_postgres: 2,
    break_connections: 10,
}
