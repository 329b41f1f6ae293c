"""Rollout on real nodes: two clones of one remote, each followed by a node of its own."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from crawlframe.frontier import NodeInfo
from crawlservice.models import Page
from tests.conftest import CHECKOUT, Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, Submit
from tests.repository import Repository

pytestmark = pytest.mark.process

PARTS = ("crawlframe", "crawlservice", "manage.py", "requirements.txt", ".gitignore")
SPIDER = '''
from crawlframe import Request, Spider


class Shop(Spider):
    """Fetches as many pages as ``many`` says."""

    name = "shop"
    settings = {"concurrency": 4, "delay": 0}

    def start(self, url: str, many: int):
        for number in range(many):
            yield Request(f"{url}page/{number}")

    def parse(self, response):
        return {"url": response.url, "code": 1}
'''
GOOD = SPIDER.replace('"code": 1', '"code": 2')
BROKEN = SPIDER.replace("return {", "return {{{")
RAISES = SPIDER.replace("return {", 'raise KeyError("price")\n        return {')

RollOut = Callable[..., tuple[str, str]]
Start = Callable[..., Running]


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    """The results here are the same on both databases."""
    return new_database("sqlite")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A bare repository of this project with one spider."""
    top = tmp_path_factory.mktemp("rollout")
    remote = Repository.bare(top / "remote.git")
    first = remote.clone(top / "first")
    for part in PARTS:
        source, target = CHECKOUT / part, first.path / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    first.write({"spiders/__init__.py": "", "spiders/shop.py": SPIDER})
    first.git("add", "--all")
    first.commit({})
    return remote


@pytest.fixture
def author(remote: Repository, tmp_path: Path) -> Repository:
    """The repository of one test's revisions, on a branch that starts anew."""
    clone = remote.clone(tmp_path / "author")
    clone.git("reset", "--quiet", "--hard", clone.git("rev-list", "--max-parents=0", "main"))
    clone.git("push", "--quiet", "--force", "origin", "main")
    return clone


@pytest.fixture
def alpha(author: Repository, remote: Repository, tmp_path: Path) -> Repository:
    return _clone_of_node(remote, tmp_path / "alpha")


@pytest.fixture
def beta(author: Repository, remote: Repository, tmp_path: Path) -> Repository:
    return _clone_of_node(remote, tmp_path / "beta")


def _clone_of_node(remote: Repository, path: Path) -> Repository:
    """A clone with the bytecode of this checkout: compiling takes a node seconds."""
    clone = remote.clone(path)
    for part in PARTS[:2]:
        shutil.copytree(CHECKOUT / part, path / part, dirs_exist_ok=True)
    return clone


@pytest.fixture
def start_node(odd_env: dict[str, str], start_manage: Start) -> Start:
    """Starts the node of a clone, with the code of that clone."""
    odd_env["CRAWLFRAME_SPIDERS"] = "spiders"

    def start(name: str, clone: Repository, *more: str) -> Running:
        words = ("runcrawler", "--reload", "--follow", "main", "--follow-every", 0, "--node", name)
        return start_manage(
            *(clone.path / "manage.py", *words, "--workers", 1, *more),
            program=Path(sys.executable),
            cwd=clone.path,
        )

    return start


@pytest.fixture
def nodes(start_node: Start, alpha: Repository, beta: Repository, look: Look) -> list[Running]:
    """Both nodes, live with the first revision."""
    running = [start_node("alpha", alpha), start_node("beta", beta)]
    deadline = time.monotonic() + LONGEST_WAIT
    while [version_of(look, name) for name in ("alpha", "beta")] != [alpha.head[:12]] * 2:
        assert time.monotonic() < deadline, "\n".join(node.output for node in running)
        time.sleep(0.05)
    return running


@pytest.fixture
def roll_out(look: Look, redis_url: str) -> Iterator[RollOut]:
    """Runs the command; returns its output, and the problem that it reports, or ""."""

    def run(*words: str) -> tuple[str, str]:
        told = StringIO()
        try:
            call_command("node", "rollout", *words, "--timeout", "60", stdout=told, stderr=told)
        except CommandError as error:
            return told.getvalue(), str(error)
        return told.getvalue(), ""

    with redis_at(redis_url):
        yield run


def version_of(look: Look, name: str) -> str:
    node = life(look, name)
    return node.code.version if node else ""


def life(look: Look, name: str) -> NodeInfo | None:
    found = [node for node in look.frontier.leases.nodes() if node.node == name]
    return found[-1] if found else None


def crawl(submit: Submit, web: OddWeb) -> int:
    """A task that gives the nodes some work for as long as a test takes."""
    web.latency = 0.3
    return submit("shop", url=web.url, many=10_000)


def test_a_bad_revision_goes_back_and_a_good_one_goes_live_everywhere(
    nodes: list[Running],
    author: Repository,
    alpha: Repository,
    beta: Repository,
    roll_out: RollOut,
    submit: Submit,
    look: Look,
    web: OddWeb,
) -> None:
    old = alpha.head
    task = crawl(submit, web)

    # A broken version is refused, and the old version stays.
    new = author.commit({"spiders/shop.py": BROKEN})
    told, problem = roll_out(new)
    assert "alpha refused: " in problem
    assert "shop.py:" in problem
    assert "beta refused: " in problem
    assert (version_of(look, "alpha"), version_of(look, "beta")) == (old[:12], old[:12])
    seen = look.counts(task).nf
    look.wait(task, lambda _: look.counts(task).nf > seen)
    # All go back, and everything is as before.
    _, problem = roll_out(old, "--back")
    assert not problem, problem + nodes[0].output
    assert (alpha.head, beta.head) == (old, old)

    # A canary with a new kind of error goes back alone.
    log = beta.git("reflog", "--format=%H").split()
    new = author.commit({"spiders/shop.py": RAISES})
    told, problem = roll_out(new, "--canary", "alpha")
    assert "callback (KeyError) in shop.parse, for instance http://127.0.0.1" in problem
    assert f"It is back on {old[:12]}, and no other node was affected" in problem
    assert "beta: not told" in told
    assert (alpha.head, beta.head) == (old, old)
    assert version_of(look, "alpha") == old[:12]
    assert beta.git("reflog", "--format=%H").split() == log

    # A good one goes live everywhere.
    new = author.commit({"spiders/shop.py": GOOD})
    told, problem = roll_out(new)
    assert not problem, problem + nodes[0].output
    assert f"every living node that follows main runs {new[:12]}" in told
    assert "alpha: live" in told
    assert (alpha.head, beta.head) == (new, new)
    look.wait(task, lambda _: Page.objects.filter(version=new[:12]).exists())
    assert {item["code"] for item in look.items(task)} == {1, 2}
    assert {old[:12], new[:12]} <= {*Page.objects.values_list("version", flat=True)}


@pytest.mark.long
def test_a_canary_that_proves_it_is_followed_by_the_others(
    nodes: list[Running],
    author: Repository,
    beta: Repository,
    roll_out: RollOut,
    submit: Submit,
    web: OddWeb,
) -> None:
    crawl(submit, web)
    new = author.commit({"spiders/shop.py": GOOD})
    told, problem = roll_out(new, "--canary", "alpha", "--pages", "20")
    assert not problem, problem + nodes[0].output
    before, _, after = told.partition("alpha: live")
    assert set(re.findall("^beta: .*", before, re.MULTILINE)) == {"beta: not told"}
    assert "beta: live" in after
    assert beta.head == new


@pytest.mark.long
def test_a_node_that_starts_later_catches_up(
    nodes: list[Running],
    author: Repository,
    beta: Repository,
    start_node: Start,
    roll_out: RollOut,
    look: Look,
) -> None:
    assert nodes[1].stop() == 0
    new = author.commit({"spiders/shop.py": GOOD})
    _, problem = roll_out(new)
    assert not problem, problem + nodes[0].output
    assert beta.head != new
    again = start_node("beta", beta)
    deadline = time.monotonic() + LONGEST_WAIT
    while version_of(look, "beta") != new[:12]:
        assert time.monotonic() < deadline, again.output
        time.sleep(0.05)
    assert beta.head == new


def test_a_node_pulls_the_newest_revision_by_itself(
    start_node: Start, author: Repository, alpha: Repository, look: Look
) -> None:
    """Also while it starts: the first pulls end before its master knows anything."""
    running = start_node("alpha", alpha, "--follow-every", "0.2")
    deadline = time.monotonic() + LONGEST_WAIT
    changes: list[dict[str, str | None]] = [{}, {"spiders/new.py": "x = 1\n"}]
    for change in changes:
        revision = author.commit(change)
        while version_of(look, "alpha") != revision[:12]:
            assert time.monotonic() < deadline, running.output
            time.sleep(0.05)
    assert "starting another" not in running.output
