"""The crawl command from end to end: a real node, a real site, and its messages when things
fail."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from rich.console import Console

from crawlframe.code.version import code_version
from crawlframe.frontier import Frontier
from crawlframe.spider.spider import SpiderInfo
from crawlservice.cli.crawl import Crawl, CrawlFailed
from crawlservice.models import Task
from examples.demo_site import DemoServer
from examples.demo_site.command import Command as DemoCommand
from tests.crawlservice.test_commands import run

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("database")]

Manage = Callable[..., subprocess.CompletedProcess[str]]
CHECKOUT = Path(__file__).resolve().parents[2]
DEMO_CRAWL = ("-m", "examples.demo_site.crawl")
NODE = re.compile(r"/(\d+) crawlframe\.node\.master\.generation: node .* generation")


@pytest.fixture
def demo_crawl(manage_env: dict[str, str]) -> Manage:
    """Crawls the demo site with these options."""

    def run(*options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *DEMO_CRAWL, *map(str, options)],
            cwd=CHECKOUT, env=manage_env, capture_output=True, text=True, timeout=90,
        )  # fmt: skip

    return run


def test_the_demo_refuses_bad_input(service: Frontier) -> None:
    for options, words in (
        (["-a", "site=http://x.example/"], "leave out -a site"),
        (["--listings", "-1"], "listings is -1"),
        (["-a", "ciity=x"], "did you mean 'city'"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command(DemoCommand(), "listings", *options)
        assert not Task.objects.exists()


def items_of(path: Path) -> list[dict[str, Any]]:
    return sorted(map(json.loads, path.read_text().splitlines()), key=lambda item: item["id"])


def test_the_demo_crawl_stores_what_the_site_made_and_says_so(
    service: Frontier, demo_crawl: Manage, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    done = demo_crawl("--listings", 60, "--workers", 2, "-o", out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 of 60 listings, all as generated" in done.stdout
    assert f"60 items to {out}" in done.stdout
    with DemoServer(listings=60) as same:
        assert items_of(out) == [*same.site.expected_items()]
    assert service.open_tasks() == []
    log = (tmp_path / "var" / "log" / "crawl-1.log").read_text()
    assert "no remaining task can make progress" in log
    assert "all holds" in run("store", "audit")


def test_settings_of_the_task_a_csv_and_plain_progress_lines(
    manage: Manage, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    with DemoServer(listings=60) as demo:
        limit = demo.site.crawl_pages() - 5
        given = ["-a", f"site={demo.url}", "-s", f"page_limit={limit}", "-s", "delay=0"]
        done = manage("crawl", "listings", *given, "--workers", 1, "-o", out)
        asked = demo.stats()["requests"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"settings +page_limit={limit}  delay=0", done.stdout)
    assert re.search(rf"requests +{limit + 1}\b", done.stdout)  # with the request of start
    assert asked <= limit  # robots.txt is not counted
    items = re.search(r"(\d+) items to ", done.stdout)
    assert items is not None
    assert len(out.read_text().splitlines()) == 1 + int(items[1]) > 2
    assert re.search(r"pages/s  requests \d+  done \d+  errors 0  left \d+  items \d+", done.stdout)
    assert "\x1b" not in done.stdout


def test_pages_are_fetched_once_with_the_cache(
    service: Frontier, manage: Manage, manage_env: dict[str, str], tmp_path: Path,
    settings_with: Callable[..., None],
) -> None:  # fmt: skip
    """One page waits a second for its host; the second run needs no minute for sixty."""
    out = tmp_path / "out.jsonl"
    with DemoServer(listings=60) as demo:
        given = ["-a", f"site={demo.url}", "--workers", 1, "--cache"]
        limits = ("-s", "page_limit=5000", "-s", "delay=0")
        first = manage("crawl", "listings", *given, *limits)
        asked = demo.stats()["requests"]
    assert first.returncode == 0, first.stdout + first.stderr
    assert asked > 60
    assert " ".join(limits) in first.stdout  # in the command to repeat it
    before = stored(manage_env)
    second = manage("crawl", "listings", *given, "-s", "delay=5", "-o", out)  # the site is gone
    assert second.returncode == 0, second.stdout + second.stderr
    assert items_of(out) == before
    assert "all holds" in run("store", "audit")
    settings_with(VAR_DIR=tmp_path / "var")
    assert re.match(r"kept: \d+ pages", run("store", "cache"))
    assert re.search(r"would delete \d+ pages", run("store", "clear-cache", "--dry-run"))
    assert re.match(r"deleted: \d+ pages", run("store", "clear-cache"))
    assert run("store", "cache").startswith("kept: 0 pages")


def test_a_site_that_is_down_is_an_error_with_its_reason(manage: Manage) -> None:
    done = manage("crawl", "site", "--url", "http://127.0.0.1:1/", "-s", "retries=0")
    assert done.returncode == 1
    assert "connect" in done.stdout
    assert "http://127.0.0.1:1/" in done.stdout
    assert "task 1 has failed: 1 of 1 pages ended in error, all connect" in done.stderr


def test_nodes_that_die_or_are_stopped_are_reported_and_another_goes_on(
    service: Frontier, manage: Manage, start_manage: Callable[..., Any],
    manage_env: dict[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    def crawled(task: int, pages: int) -> tuple[Any, int]:
        """A crawl that has fetched so many pages, and its node."""
        crawl = start_manage(
            *("crawl", "listings", "-a", f"site={demo.url}", "--workers", 1, "--concurrency", 4)
        )
        wait_for_pages(demo, crawl, pages)
        node = NODE.search((tmp_path / "var" / "log" / f"crawl-{task}.log").read_text())
        assert node is not None
        return crawl, int(node[1])

    with DemoServer(listings=60, latency=100) as demo:
        crawl, node = crawled(1, 30)
        os.kill(node, signal.SIGKILL)
        assert crawl.process.wait(30) == 1
        assert "the node was killed by signal 9 while task 1 is running" in crawl.output
        assert "crawlframe.node." in crawl.output
        assert "Traceback" not in crawl.output
        assert "python manage.py task resume 1" in crawl.output
        crawl, node = crawled(2, demo.stats()["requests"] + 30)
        assert crawl.stop(signal.SIGINT) == 130
        assert "nothing is lost" in crawl.output
        assert (
            "python manage.py task resume 2 && python manage.py runcrawler --once" in crawl.output
        )
        assert "Traceback" not in crawl.output
        assert not alive(node)
        assert run("task", "list").count("paused") == 2
        run("task", "resume", 1)
        run("task", "resume", 2)
        rest = manage("runcrawler", "--once", "--workers", 1)
        assert rest.returncode == 0, rest.stderr
    assert run("task", "list").count("finished") == 2
    assert stored(manage_env) == sorted(2 * [*demo.site.expected_items()], key=lambda i: i["id"])
    assert "all holds" in run("store", "audit")


def test_the_demo_is_cancelled_with_its_site(
    demo_crawl: Manage, start_manage: Callable[..., Any]
) -> None:
    crawl = start_manage(
        *DEMO_CRAWL, "--listings", 500, "--latency", 100, program=Path(sys.executable), cwd=CHECKOUT
    )
    crawl.wait_for("done ")
    assert crawl.stop(signal.SIGINT) == 130
    assert "Task 1 is cancelled" in crawl.output
    again = demo_crawl("--listings", 30, "--workers", 1)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "note: task 1 is unfinished and runs at the same time" in again.stdout
    assert "30 of 30 listings, all as generated" in again.stdout


def test_a_node_that_would_spoil_the_crawl_is_named(
    service: Frontier, demo_crawl: Manage, start_manage: Callable[..., Any],
    manage_env: dict[str, str],
) -> None:  # fmt: skip
    closed = {k: v for k, v in manage_env.items() if k != "CRAWLFRAME_ALLOW_PRIVATE"}
    node = start_manage("runcrawler", "--node", "closed", "--workers", 1, env=closed)
    node.wait_for("generation")
    refused = demo_crawl("--listings", 30)
    assert refused.returncode == 1
    assert "node closed (process" in refused.stderr
    assert "start it with CRAWLFRAME_ALLOW_PRIVATE=127.0.0.1/32" in refused.stderr
    assert "no tasks" in run("task", "list")
    (shown,) = json.loads(run("node", "list", "--json"))["nodes"]
    assert (shown["node"], shown["pid"], shown["workers"]) == ("closed", node.process.pid, 1)
    assert node.stop() == 0


@pytest.fixture
def look_around(join: Callable[..., int], shop: SpiderInfo) -> Callable[[], str]:
    """The output of a crawl of ``shop`` before it starts; nodes are added with ``join``."""

    def look() -> str:
        out = io.StringIO()
        Crawl("shop", {}, Console(file=out, width=4096))._check_nodes(shop)
        return out.getvalue()

    return look


def test_nodes_that_take_part_are_named_with_their_code(
    look_around: Callable[[], str], join: Callable[..., int]
) -> None:
    assert look_around() == ""
    here = code_version(CHECKOUT / "spiders", engine=engine_of(CHECKOUT))
    join("alpha", spiders=("shop",), version=here)
    join("beta", spiders=("shop",), version="1f00c0ffee00")
    join("gamma")  # loads
    join("delta", spiders=("site",), leaving=True)
    join("omega", spiders=("site",), lease=-1)
    alpha, beta, gamma = look_around().splitlines()
    assert alpha.endswith(f"on alpha.example) takes part, with code {here}")
    assert beta.endswith(f"takes part, with code 1f00c0ffee00; here it is {here}")
    assert "node gamma" in gamma
    assert gamma.endswith(f"takes part, with code of its own; here it is {here}")


@pytest.mark.parametrize("fields", [{"spiders": ("site",)}, {"version": "1f00c0ffee00"}])
def test_a_node_without_the_spider_is_named(
    look_around: Callable[[], str], join: Callable[..., int], fields: dict[str, Any]
) -> None:
    join("alpha", **fields)
    with pytest.raises(CrawlFailed, match=r"node alpha .* has no spider 'shop' in its code") as why:
        look_around()
    assert fields.get("version", "code of its own") in str(why.value)


def test_a_spider_that_cannot_be_made_ends_the_waiting(
    manage_env: dict[str, str], tmp_path: Path
) -> None:
    checkout = Path(__file__).resolve().parents[2]
    (tmp_path / "manage.py").write_text((checkout / "manage.py").read_text())
    (tmp_path / "spiders").mkdir()
    (tmp_path / "spiders" / "__init__.py").touch()
    source = "from crawlframe import Spider\nclass Sad(Spider):\n    name = 'sad'\n"
    source += "    def __init__(self):\n        raise OSError('no key file')\n"
    (tmp_path / "spiders" / "sad.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "manage.py", "crawl", "sad", "--workers", "1"],
        cwd=tmp_path,
        env={**manage_env, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "all 1 requests left of task 1 wait" in done.stderr
    assert "no key file" in done.stderr
    assert "python manage.py task resume 1" in done.stderr


def engine_of(checkout: Path) -> list[Path]:
    return [checkout / name for name in ("crawlframe", "crawlservice", "manage.py")]


def wait_for_pages(demo: DemoServer, crawl: Any, count: int) -> None:
    while demo.stats()["requests"] < count:
        assert crawl.process.poll() is None, crawl.output
        time.sleep(0.02)


def stored(env: dict[str, str]) -> list[dict[str, Any]]:
    import sqlite3

    with sqlite3.connect(env["DATABASE_URL"].removeprefix("sqlite:///")) as database:
        rows = database.execute("SELECT data FROM crawlservice_item").fetchall()
    database.close()
    return sorted((json.loads(data) for (data,) in rows), key=lambda item: item["id"])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
