"""Scrapy projects that keep state in modules, classes and pipelines: each task has a process that
has run none of the others, as with ``scrapy crawl``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawlservice.models import LogLine
from tests.conftest import Running
from tests.process.conftest import Look, OddWeb, Submit, wait_for

pytestmark = pytest.mark.process

PAGES, UNIQUE = 50, 45
SPIDER = """
import os, time
import scrapy
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

SEEN = set()

class Remembers(scrapy.Spider):
    name = "remembers"
    n = 0
    prefix, out = "a", ""

    async def start(self):
        yield scrapy.Request(self.url)

    def parse(self, response):
        if response.url in SEEN:
            return
        SEEN.add(response.url)
        count = type(self).n
        if count % 10 == 1:
            time.sleep(0.11)  # slow: others run in threads from then on
        type(self).n = count + 1
        page = int(response.url.rpartition("/")[2] or 0)
        yield {"id": page % 45, "n": self.n, "pid": os.getpid(), "prefix": self.prefix}
        yield from response.follow_all(css="a")

class Duplicates:
    def __init__(self):
        self.ids_seen = set()
    def process_item(self, item):
        adapter = ItemAdapter(item)
        if adapter["id"] in self.ids_seen:
            raise DropItem(f"Item ID already seen: {adapter['id']}")
        self.ids_seen.add(adapter["id"])
        return item

class Lines:
    def open_spider(self, spider):
        self.file = open(spider.out, "w")
    def close_spider(self, spider):
        self.file.close()
    def process_item(self, item):
        self.file.write(f"{item['id']}\\n")
        return item
"""
SETTINGS = """
SPIDER_MODULES = ["keeping.spiders"]
ITEM_PIPELINES = {"keeping.spiders.Duplicates": 1, "keeping.spiders.Lines": 2}
ROBOTSTXT_OBEY = False
DOWNLOAD_DELAY = 0
TELNETCONSOLE_ENABLED = False
"""


@pytest.fixture
def project(odd_env: dict[str, str], web: OddWeb, tmp_path: Path) -> Path:
    links = [f"/{n}" for n in range(1, PAGES)]
    web.pages = {"/": links[:20], "/1": links[20:40], "/2": links[40:]}
    root = tmp_path / "keeping"
    (root / "keeping").mkdir(parents=True)
    (root / "scrapy.cfg").write_text("[settings]\ndefault = keeping.settings\n")
    for name, text in {"__init__": "", "settings": SETTINGS, "spiders": SPIDER}.items():
        (root / "keeping" / f"{name}.py").write_text(text)
    odd_env["CRAWLFRAME_SCRAPY"] = str(root)
    odd_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8"
    return root


def facts(items: list[Any]) -> tuple[list[int], bool, set[str], int]:
    """The ids, whether the counts are of one run, the prefixes, and the number of processes."""
    ids = sorted(item["id"] for item in items)
    counts = {item["n"] for item in items}
    alone = len(counts) == len(items) and max(counts) <= PAGES
    return ids, alone, {one["prefix"] for one in items}, len({one["pid"] for one in items})


def by_scrapy(project: Path, web: OddWeb, **arguments: object) -> list[Any]:
    out = project / "scrapy.jsonl"
    given = [f"-a{name}={value}" for name, value in arguments.items()]
    command = ["scrapy", "crawl", "remembers", *given, "-O", str(out), "--nolog"]
    subprocess.run([sys.executable, "-m", *command], cwd=project, check=True)
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_each_task_begins_with_nothing(
    project: Path,
    web: OddWeb,
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
) -> None:
    def begin(name: str) -> int:
        return submit("remembers", url=web.url, out=project / name, prefix=name)

    def check(pk: int, name: str) -> None:
        task = look.wait(pk)
        assert (task.state, task.ne, task.settings["workers"]) == ("finished", 0, 1)
        assert facts(look.items(pk)) == (*facts(theirs)[:2], {name}, 1)

    theirs = by_scrapy(project, web, url=web.url, out=project / "scrapy")
    assert facts(theirs) == ([*range(UNIQUE)], True, {"a"}, 1)
    node = start_manage("runcrawler", "--reload", "--workers", 2, "--concurrency", 8)
    check(begin("one"), "one")
    web.latency = 0.05
    tasks = {name: begin(name) for name in "abcdef"}  # more than have a process at a time
    for name, pk in tasks.items():
        check(pk, name)
    pids = [look.items(pk)[0]["pid"] for pk in tasks.values()]
    assert len({*pids}) == len(tasks)
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))  # and closes files of the pipelines
    for name in ("one", *tasks):
        assert len((project / name).read_text().splitlines()) == UNIQUE

    web.latency = 0.3
    pk = begin("killed")
    wait_for(lambda: len(look.items(pk)) > 5)
    psutil.Process(look.items(pk)[0]["pid"]).kill()
    assert look.wait(pk).nf == PAGES + 2
    pk_of_changed = begin("changed")
    wait_for(lambda: len(look.items(pk_of_changed)) > 5)
    spiders = project / "keeping" / "spiders.py"
    spiders.write_text(spiders.read_text() + "# changed\n")
    assert look.wait(pk_of_changed).nf == PAGES + 2
    for each in (pk, pk_of_changed):
        assert facts(look.items(each))[3] == 2
        said = LogLine.objects.filter(task=each).values_list("text", flat=True)
        assert sum("what its code kept in memory begins anew" in line for line in said) == 1
    assert node.stop() == 0
