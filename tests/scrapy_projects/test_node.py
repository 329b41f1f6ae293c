"""A Scrapy project on a real node: crawled by the command, and reloaded when a file changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from redis import Redis

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.spider.spider import SpiderInfo
from tests.conftest import django_on
from tests.crawlservice.conftest import redis_at
from tests.scrapy_projects.site import Site

pytestmark = pytest.mark.process
HERE = Path(__file__).parent
Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        yield site


def imported() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "shop"]


@pytest.fixture
def project(
    manage_env: dict[str, str],
    tmp_path: Path,
    new_database: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A copy of the project, which this process imports as if no other test had a package shop."""
    for name in imported():
        monkeypatch.delitem(sys.modules, name)
    manage_env["DATABASE_URL"] = new_database("sqlite")
    manage_env["CRAWLFRAME_SCRAPY"] = str(tmp_path / "shop")
    manage_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8"
    shutil.copytree(HERE / "shop", tmp_path / "shop")
    yield tmp_path / "shop"
    for name in imported():
        del sys.modules[name]


def test_the_command_crawls_it(
    manage: Manage, manage_env: dict[str, str], project: Path, site: Site, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    done = manage("crawl", "pipes", "-a", f"site={site.url}", "--workers", 2, "-o", out)
    assert done.returncode == 0, done.stdout + done.stderr
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(item["price"] for item in items) == [0.5, 1.5, 2.5, 3.5, 4.5]
    told = StringIO()
    with django_on(manage_env["DATABASE_URL"]), redis_at(manage_env["REDIS_URL"]):
        call_command("task", "show", "1", stdout=told)
    assert "my/scraped" in told.getvalue()
    assert "Cheap" in told.getvalue()


def test_the_report_is_the_same_in_both_commands(manage: Manage, project: Path) -> None:
    (project / "shop/spiders/more.py").write_text(
        "import scrapy\n\n"
        "class Counts(scrapy.Spider):\n"
        "    name = 'counts'\n"
        "    custom_settings = {'FEEDS': {'a.csv': {}}}\n"
        "    n = 0\n"
        "    def parse(self, response):\n"
        "        self.n += 1\n"
        "        yield scrapy.Request('http://a.example/', meta={'proxy': 'http://p'})\n"
        "    def second(self, response):\n"
        "        yield {'n': self.n}\n"
    )
    (project / "shop/spiders/broken.py").write_text("import nothing_of_this_name\n")
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("check", "--scrapy", project / "shop" / "..", stdout=out)
    told = out.getvalue()
    line = next(line for line in told.splitlines() if line.startswith("counts: "))
    assert line.startswith(
        f"counts: cannot, because {project}/shop/spiders/more.py:9: meta['proxy']"
    )
    assert "FEEDS is ignored: items are stored" in line
    assert (
        f"{project}/shop/spiders/more.py:8: self.n is changed in parse and read in second" in line
    )
    assert "shop.spiders.broken does not load" in told
    assert "spiders: DOWNLOAD_VERIFY_CERTIFICATES is not set" in told.splitlines()[0]
    assert "\ncss: runs\n" in told
    assert line in manage("check").stdout.splitlines()


def test_a_running_node_takes_up_a_change_of_the_project(
    manage: Manage,
    start_manage: Callable[..., object],
    project: Path,
    redis_client: Redis,
) -> None:
    """A module that the spiders import changes, and a new spider comes."""
    frontier = Frontier(PartitionedStore(redis_client))

    def wait_for(what: Callable[[dict[str, SpiderInfo]], bool]) -> None:
        deadline = time.monotonic() + 60
        while not what(frontier.spiders.all()):
            assert time.monotonic() < deadline, sorted(frontier.spiders.all())
            time.sleep(0.1)

    start_manage("runcrawler", "--reload", "--workers", 1)
    wait_for(lambda known: "css" in known)
    (project / "shop/spiders/added.py").write_text(
        "import scrapy\n\nclass Added(scrapy.Spider):\n    name = 'added'\n"
    )
    wait_for(lambda known: "added" in known)
    settings = project / "shop/settings.py"
    settings.write_text(settings.read_text().replace("RETRY_TIMES = 1", "RETRY_TIMES = 9"))
    wait_for(lambda known: known["added"].settings.retries == 9)
