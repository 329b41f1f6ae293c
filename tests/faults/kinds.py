"""The kinds of faults: the effect on a cluster and the frequency of each."""

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


def kill_supervisor(cluster: Cluster) -> None:
    _kill(cluster, cluster.heads())


def kill_everything(cluster: Cluster) -> None:
    for process in [*cluster.heads(), *cluster.masters(), *cluster.children()]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    cluster.restart_postgres()
    cluster.restart_redis()


def stop_master(cluster: Cluster) -> None:
    """Stops it for longer than its lease, then continues it."""
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


def fail_over_redis(cluster: Cluster) -> None:
    cluster.fail_over_redis()


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


def change_code(cluster: Cluster) -> None:
    """Sometimes to broken code, and to working code after it."""
    if cluster.chance.random() < 0.25:
        cluster.change_code(broken=True)
        time.sleep(cluster.chance.uniform(0, 1))
    cluster.change_code()


def _kill(cluster: Cluster, processes: list[psutil.Process]) -> None:
    if processes:
        with suppress(psutil.NoSuchProcess):
            cluster.chance.choice(processes).kill()


# How often each occurs in a whole campaign.
KINDS: dict[Fault, int] = {
    kill_worker: 200,
    kill_master: 50,
    kill_supervisor: 20,
    kill_everything: 20,
    stop_master: 20,
    change_code: 40,
    restart_redis: 30,
    cut_redis: 100,
    empty_redis: 10,
    fail_over_redis: 30,
    restart_postgres: 30,
    lose_redis_answers: 500,
    lose_commit_answers: 100,
    part_from_redis: 40,
    part_from_postgres: 20,
    break_connections: 40,
}
