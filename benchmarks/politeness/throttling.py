"""Throttling: every scene, judged from the servers' log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.lab import results
from benchmarks.lab.node import migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer
from benchmarks.politeness import verdicts
from benchmarks.politeness.cluster import Cluster
from benchmarks.politeness.scenes import HOUR, Scene
from benchmarks.politeness.verdicts import Findings
from benchmarks.politeness.world import World

RELOAD, LOSS = 0.3, 0.5  # parts of the longest scene after which the nodes reload, and one is lost
SLOWER = 2.0  # times the least duration that the crawl may take
MORE = 60.0  # seconds beyond that


class Run(NamedTuple):
    """The crawl of one server."""

    scene: str
    found: Findings
    problems: list[str]


def throttling(scenes: Sequence[Scene], work: Path) -> list[Run]:
    """Runs all scenes at the same time. Raises RuntimeError."""
    longest = max(scene.seconds for scene in scenes)
    timeout = SLOWER * longest + MORE
    place = work / "throttling"
    place.mkdir()
    with World([scene.host for scene in scenes], place / "log") as world:
        ended, restless = _crawl(scenes, world, place, longest, timeout)
        log = world.entries()
    results.PLACE.mkdir(parents=True, exist_ok=True)
    shutil.copy(world.log, results.PLACE / "politeness.log")
    runs = []
    for scene in scenes:
        found = verdicts.judge(scene, log, ended[scene.name])
        problems = verdicts.failures(scene, found, ended[scene.name])
        if scene.name in restless:
            problems.append("the host does not rest, although it named an hour")
        runs.append(Run(scene.name, found, problems))
    return runs


def _crawl(
    scenes: Sequence[Scene], world: World, work: Path, longest: float, timeout: float
) -> tuple[dict[str, bool], set[str]]:
    """A task for each scene, while the code is changed and a node is lost. Returns which ended, and
    where the host does not rest although it named an hour."""
    restless = set()
    with RedisServer(work / "redis") as redis, Postgres() as postgres:
        dsn = migrated(postgres, work / "tables")
        with Cluster(work / "nodes", dsn, redis.url) as cluster:
            with ThreadPoolExecutor() as pool:  # at the same time, since a command takes seconds
                urls = [
                    [world.url(scene.host.name, path) for path in scene.paths] for scene in scenes
                ]
                names = [scene.name for scene in scenes]
                tasks = dict(zip(names, pool.map(cluster.submit, urls), strict=True))
            started = time.monotonic()
            for part, disturb in ((RELOAD, cluster.reload), (LOSS, cluster.lose)):
                time.sleep(max(0.0, started + part * longest - time.monotonic()))
                disturb()
            finite = [scene for scene in scenes if not scene.endless]
            for scene in finite:
                cluster.wait(tasks[scene.name], started + timeout - time.monotonic())
            for scene in scenes:
                name = f"{scene.host.name}:{world.port}"
                if scene.endless and cluster.resting(name) < HOUR / 2:
                    restless.add(scene.name)
            return {scene: cluster.ended(task) for scene, task in tasks.items()}, restless
