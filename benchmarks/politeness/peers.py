"""Peers: Scrapy with AutoThrottle and Crawlee with its throttle, one process for each scene."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.lab import venv
from benchmarks.lab.meter import Metered
from benchmarks.politeness.scenes import Scene
from benchmarks.politeness.world import World

HERE = Path(__file__).parent
PEERS = {"scrapy": "Scrapy, AutoThrottle", "crawlee": "Crawlee, throttle"}  # name -> label
OWN = ("PYTHON", "SCRAPY_", "CRAWLEE_", "APIFY_")  # variables of the caller's shell
LOOK_EVERY = 0.5  # seconds


def crawl(
    peer: str, scenes: Sequence[Scene], world: World, work: Path, timeout: float
) -> dict[str, bool]:
    """Runs the peer on all scenes at the same time, until each has ended or ``timeout`` seconds are
    over; returns whether it ended, by the scene's name.

    Raises RuntimeError when one ends with an error or cannot be installed."""
    python = installed(peer)
    env = {key: value for key, value in os.environ.items() if not key.startswith(OWN)}
    env["PYTHONUNBUFFERED"] = "1"
    with ExitStack() as stack:
        runs = {}
        for scene in scenes:
            place = work / scene.name
            place.mkdir(parents=True)
            urls = place / "urls"
            urls.write_text("\n".join(world.url(scene.host.name, path) for path in scene.paths))
            command = [python, HERE / "contenders" / f"with_{peer}.py", urls]
            runs[scene.name] = stack.enter_context(
                Metered(command, place / "log", cwd=place, env=env)
            )
        deadline = time.monotonic() + timeout
        endless = {scene.name for scene in scenes if scene.endless}
        while time.monotonic() < deadline:
            if not any(run.lives() for name, run in runs.items() if name not in endless):
                break
            time.sleep(LOOK_EVERY)
        ended = {name: not run.lives() for name, run in runs.items()}
        for name, run in runs.items():
            if ended[name] and (code := run.wait(1).code):
                raise run.problem(f"ended with status {code}")
    return ended


def installed(name: str) -> Path:
    """The Python of the peer's environment, the same as that of the standard job."""
    folder = HERE.parent / "standard" / "contenders" / name
    return venv.environment(name, folder / "requirements.txt")
