"""Measured: figures that depend on the machine, some from the last run of the tests."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.lab.counted import CountedSite
from benchmarks.lab.names import FIRST, Names
from benchmarks.lab.node import Node, environment, manage
from benchmarks.lab.redis import RedisServer
from benchmarks.standard.entries import OURS, chosen
from benchmarks.standard.runs import Bench
from benchmarks.weight.source import CHECKOUT

ROUNDS = 3
SETTLE = 15.0  # seconds after which a node is idle
PAGES = 2_000  # of the standard job
SUITE = CHECKOUT / "build" / "junit.xml"
IMPORT = "import time; start = time.perf_counter(); import crawlframe; "
IMPORT += "print(time.perf_counter() - start)"


def measured(work: Path) -> Iterator[tuple[str, float]]:
    """The figures by the names of the limits. ``work`` is an empty directory. Raises RuntimeError,
    and the errors of servers that cannot be started."""
    yield "import_seconds", min(_import_seconds() for _ in range(ROUNDS))
    yield from _commands(work)
    yield from _idle_node(work / "node")
    yield "page_cpu", _page_cpu(work / "standard")
    if SUITE.exists():
        suites = ElementTree.parse(SUITE).getroot().iter("testsuite")
        yield "suite_minutes", sum(float(suite.attrib["time"]) for suite in suites) / 60


def _import_seconds() -> float:
    command = [sys.executable, "-c", IMPORT]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _commands(work: Path) -> Iterator[tuple[str, float]]:
    """Seconds of commands as a user runs them, without any setting; the least of some rounds."""
    (work / "site").mkdir()
    (work / "site" / "index.html").write_text("<title>A page</title><p>Its text.</p>")
    times: dict[str, list[float]] = {}
    with CountedSite(work / "site") as site:
        commands = {
            "migrate_seconds": ("migrate", "--verbosity=0"),
            "tasks_seconds": ("task", "list"),
            "crawl_seconds": ("crawl", "site", "--url", f"{site.url}index.html"),
        }
        for number in range(ROUNDS):
            env = environment(work / f"var{number}", "", "")
            env = {name: value for name, value in env.items() if not name.endswith("_URL")}
            for name, words in commands.items():
                started = time.monotonic()
                done = manage(env, *words)
                if done.returncode:
                    raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
                times.setdefault(name, []).append(time.monotonic() - started)
        if site.take().pages != ROUNDS:
            raise RuntimeError("a crawl has not fetched its page")
    for name, some in times.items():
        yield name, min(some)


def _idle_node(work: Path) -> Iterator[tuple[str, float]]:
    """MiB (PSS) of a node of two workers that reloads, and of each process. The tables are there
    before: a process that has migrated them is larger."""
    work.mkdir()
    var, database = work / "var", f"sqlite:///{work / 'db.sqlite3'}"
    with RedisServer(work / "redis") as redis:
        manage(environment(var, database, redis.url), "migrate", "--verbosity=0")
        with Node(var, database, redis.url, workers=2, options=("--reload",)) as node:
            node.wait_until_known("site")
            time.sleep(SETTLE)
            named = Names(node.run.processes, ("supervisor", *FIRST)).of_all()
            sizes = {name: process.memory_full_info().pss / 2**20 for process, name in named}
    yield "node_mib", sum(sizes.values())
    for name in ("supervisor", *FIRST):
        yield f"{name}_mib", sizes[name]


def _page_cpu(work: Path) -> float:
    """CPU time of a page of the standard job, without the start of the node, in thousandths of that
    of ``fixed_work``: the median of some rounds."""
    work.mkdir()
    (entry,) = chosen([OURS], [1])
    ratios = []
    with Bench(PAGES, work) as bench:
        bench.run(entry, bench.warm_site)
        for _ in range(ROUNDS):
            before = _cpu_seconds(fixed_work)
            result = bench.run(entry, bench.site)
            fixed = (before + _cpu_seconds(fixed_work)) / 2
            ratios.append(1000 * (result.cpu - (result.start_cpu or 0.0)) / PAGES / fixed)
    return statistics.median(ratios)


def fixed_work() -> None:
    """A fixed piece of Python, the measure of the speed of machines."""
    for _ in range(20):
        rows = [{"id": n, "name": f"item {n}", "price": n * 1.5} for n in range(5_000)]
        text = json.dumps(rows)
        words = {word: len(word) for word in re.findall(r'"name": "([^"]+)"', text)}
        assert len(sorted(words.items(), key=lambda pair: pair[1])) == len(json.loads(text))


def _cpu_seconds(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
