"""A crawl of the growing spider: nodes with a clone each, tasks, and the invariants at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from crawlframe.frontier.client.records import Counts
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.request.request import ROOT_URL
from crawlservice.ledger.audit import audit
from crawlservice.models import Item, Page, Task
from crawlservice.tasks.submit import submit
from examples.demo_site import DemoServer
from tests.conftest import Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import Look
from tests.process.growing_spider import (
    PACKAGE,
    SPIDER,
    Author,
    callbacks,
    fields,
    listing_of,
)
from tests.repository import Repository

POLL_EVERY = 0.05  # seconds between two looks
PROGRESS_TIMEOUT = 60.0  # seconds within which something must progress


class GrowingCrawl:
    """``nodes``: name -> its supervisor. ``tasks``: numbers of the tasks, which are all alike.
    ``most_parked``: most requests seen parked at one time. At the end of the ``with`` block nothing
    of the nodes is left."""

    def __init__(
        self,
        demo: DemoServer,
        look: Look,
        start_manage: Callable[..., Running],
        env: dict[str, str],
        directory: Path,
    ) -> None:
        self.author = Author(directory)
        self.demo = demo
        self.nodes: dict[str, Running] = {}
        self.clones: dict[str, Repository] = {}
        self.tasks: list[int] = []
        self.most_parked = 0
        self._look = look
        self._start_manage = start_manage
        self._env = env
        self._directory = directory

    def __enter__(self) -> GrowingCrawl:
        return self

    def __exit__(self, *error: object) -> None:
        while left := self.left():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)

    # -- events -----------------------------------------------------------------------------------

    def start(self, name: str, *options: str) -> None:
        """Starts or restarts a node in its clone, which is made if it is missing."""
        if name not in self.clones:
            self.clones[name] = self.author.clone(self._directory / name)
        here = str(self.clones[name].path)
        env = {**self._env, "CRAWLFRAME_SPIDERS": PACKAGE, "PYTHONPATH": here}
        self.nodes[name] = self._start_manage(
            "runcrawler", "--node", name, "--workers", 2, *options, env=env
        )

    def submit(self, redis_url: str, tasks: int = 1) -> None:
        """Submits equal tasks when a node has published the spider."""
        self._until(
            lambda: SPIDER in self._look.frontier.spiders.all(), "no node published the spider"
        )
        with redis_at(redis_url):
            for _ in range(tasks):
                self.tasks.append(submit(SPIDER, {"site": self.demo.url}).pk)

    def pull(self, name: str) -> None:
        self.clones[name].git("pull", "--quiet", "--ff-only")

    def code(self, name: str) -> CodeState:
        """The state of the youngest life of a node."""
        lives = [n for n in self._look.frontier.leases.nodes() if n.node == name and not n.leaving]
        return lives[-1].code if lives else CodeState()

    def judged(self, name: str, label: str, before: float = 1.0) -> str:
        """Waits until a node has taken a version live or refused it; returns which. Meanwhile the
        site stops answering once more than the share ``before`` of all pages has ended, so that a
        machine of any speed crawls during all reloads."""

        def told() -> str:
            if self._advanced() > before:
                self._site.suspend()
            code = self.code(name)
            if code.state == "live" and code.version == label:
                return "live"
            return "refused" if (code.state, code.candidate) == ("refused", label) else ""

        try:
            self._until(lambda: bool(told()), f"node {name} does not judge {label}")
            return told()
        finally:
            self._site.resume()

    def advance(self, share: float) -> None:
        """Waits until that share of all pages has ended, or nothing is left that can run now."""

        def there() -> bool:
            return self._advanced() >= share or all(c.nr == c.parked for c in self._counts())

        self._until(there, f"the crawl stands still before {share:.0%}")

    def _advanced(self) -> float:
        """The share of all pages that has ended."""
        ended = sum(c.nf + c.ne for c in self._counts())
        return ended / (len(self.tasks) * (self.demo.site.crawl_pages() + 1))

    @property
    def _site(self) -> psutil.Process:
        """The process that serves the demo site."""
        mine = psutil.Process().children()
        (site,) = (child for child in mine if "examples.demo_site" in child.cmdline())
        return site

    def finish(self) -> None:
        """Waits until all tasks have ended."""
        active = Task.objects.filter(pk__in=self.tasks, state__in=Task.ACTIVE)
        self._until(lambda: not active.exists(), "tasks do not end")

    def _counts(self) -> list[Counts]:
        return [self._look.counts(task) for task in self.tasks]

    def _until(self, ready: Callable[[], bool], problem: str) -> None:
        """Checks at every poll that counters and queues agree. There is no limit while something
        moves."""
        before, deadline = self._counts(), time.monotonic() + PROGRESS_TIMEOUT
        while not ready():
            problems = self._look.frontier.audit()
            assert not problems, problems
            now = self._counts()
            self.most_parked = max(self.most_parked, sum(c.parked for c in now))
            if now != before:
                before, deadline = now, time.monotonic() + PROGRESS_TIMEOUT
            assert time.monotonic() < deadline, f"{problem}: {now}\n{self._words()}"
            time.sleep(POLL_EVERY)

    def _words(self) -> str:
        """The last output of the nodes."""
        return "\n".join(node.output[-3000:] for node in self.nodes.values())

    # -- invariants -------------------------------------------------------------------------------

    def end(self) -> None:
        """Brings a last version to all nodes. Checks the stored crawl, and that the nodes stop."""
        last = self.author.commit("last")
        for name in self.nodes:
            self.pull(name)
        self.finish()
        for name in self.nodes:
            assert self.judged(name, last) == "live"
        self.check()
        for node in self.nodes.values():
            assert node.stop() == 0
        assert self.left() == []

    def check(self) -> None:
        """Each task ended once, with exactly the generator's listings, by the version of its
        label."""
        expected = {house["id"]: house for house in self.demo.site.expected_items()}
        for pk in self.tasks:
            task = self._look.task(pk)
            assert (task.state, task.ne) == ("finished", 0), self._errors(pk)
            assert self._look.finishes(pk) == 1, f"task {pk} has not one finish event"
            pages = {page.rid: page for page in self._look.pages(pk).values()}
            numbers = [len(pages), task.na, task.nf, self.demo.site.crawl_pages() + 1]
            assert len(set(numbers)) == 1, f"rows, admitted, finished, pages: {numbers}"
            problems = audit(task)
            assert not problems, problems
            items = list(Item.objects.filter(task_id=pk))
            numbers = [len(items), task.items, len(expected)]
            assert len(set(numbers)) == 1, f"items, counted, listings: {numbers}"
            found = {item.data["id"]: listing_of(item.data) for item in items}
            wrong = [id for id, house in expected.items() if found.get(id) != house]
            assert not wrong, f"listings that are not as they should be: {wrong[:10]}"
            for item in items:
                assert item.version == pages[item.rid].version, item.rid
                number = self.author.numbers[item.version]
                made_by = (item.data["seen_by"], item.data["shaped_by"])
                assert made_by == (number, number), f"{made_by} made an item of version {number}"
                assert set(item.data) == fields(number), f"version {number} made {item.data}"
            for page in pages.values():
                number = self.author.numbers[page.version]
                if page.callback.startswith("parse_extra"):
                    has = callbacks(number, last=page.version == self.author.last)
                    assert page.callback in has, f"version {number} has no {page.callback}"

    def _errors(self, pk: int) -> list[tuple[str, str, str]]:
        rows = Page.objects.filter(task_id=pk, state="error")
        return list(rows.values_list("url", "reason", "detail")[:5])

    def versions(self) -> Counter[str]:
        """Label -> how many rows it made."""
        return Counter(
            Page.objects.filter(task_id__in=self.tasks).values_list("version", flat=True)
        )

    def old_after_new(self) -> int:
        """Rows of the first version that are newer than some row of another."""
        rows = Page.objects.filter(task_id__in=self.tasks)
        first = next(iter(self.author.numbers))
        change = rows.exclude(version=first).order_by("pk")[0]
        return rows.filter(version=first, pk__gt=change.pk).count()

    def handed_over(self) -> int:
        """Rows of callbacks that the first version does not have."""
        rows = Page.objects.filter(task_id__in=self.tasks, callback__startswith="parse_extra")
        return rows.count()

    def mixed(self) -> int:
        """Items whose two pages were the work of different versions."""
        data = Item.objects.filter(task_id__in=self.tasks).values_list("data", flat=True)
        return sum(item["found_by"] != item["seen_by"] for item in data)

    def fetched_again(self) -> int:
        """Fetches beyond one per task and page."""
        pages = Page.objects.filter(task_id__in=self.tasks).exclude(url=ROOT_URL)
        fetches: int = self.demo.stats()["requests"]
        return fetches - pages.count()

    # -- processes --------------------------------------------------------------------------------

    def masters(self, name: str) -> list[psutil.Process]:
        """The masters of a node: usually one."""
        return self._children(self.nodes[name].process.pid)

    def children(self, name: str) -> list[psutil.Process]:
        """Workers, templates and steward of a node."""
        return [c for master in self.masters(name) for c in self._children(master.pid)]

    def _children(self, pid: int) -> list[psutil.Process]:
        try:
            return [child for child in psutil.Process(pid).children() if _is_ours(child)]
        except psutil.NoSuchProcess:
            return []

    def left(self) -> list[psutil.Process]:
        """All living processes of the nodes, whoever their parents are."""
        var_dir = self._env["CRAWLFRAME_VAR_DIR"]
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("CRAWLFRAME_VAR_DIR") == var_dir:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def _is_ours(process: psutil.Process) -> bool:
    """A master, or forked from one; not git, which is asked things."""
    try:
        return "--supervised" in process.cmdline()
    except psutil.Error:
        return False
