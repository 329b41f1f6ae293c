"""Crawl: one crawl from start to end on this machine, as the `crawl` command runs it."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from rich.console import Console

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.registry import Registry
from crawlservice.democheck import compare
from crawlservice.demosite import DemoServer, DemoSiteError
from crawlservice.export import check_target, export
from crawlservice.localnode import LocalNode
from crawlservice.models import Task
from crawlservice.progress import Progress
from crawlservice.redis import frontier
from crawlservice.report import report
from crawlservice.submit import submit
from crawlservice.terminal import watch

LOOPBACK = "127.0.0.1/32"


class CrawlFailed(CrawlframeError):
    """The crawl ended, but not as it should have."""


@dataclass
class Demo:
    """The demo site to crawl; None takes what the site offers by itself."""

    listings: int | None = None
    latency: float | None = None

    def server(self, city: str | None) -> DemoServer:
        given = {"listings": self.listings, "latency": self.latency, "city": city}
        try:
            return DemoServer(**{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
        except ValueError as error:
            raise ArgumentError(f"demo site: {error}") from None


@dataclass
class Crawl:
    """What to crawl and how. ``arguments`` are text, as typed."""

    spider: str
    arguments: dict[str, str]
    console: Console
    priority: int = 0
    workers: int | None = None
    concurrency: int | None = None
    output: Path | None = None
    demo: Demo | None = None
    _node_gone: bool = field(default=False, init=False)

    def run(self) -> None:
        """Returns when the task has ended and everything is shown.

        Raises CrawlframeError: before anything was done for bad input, NodeEnded when the crawling
        process died, CrawlFailed when nothing was fetched or the demo's items are not right; and
        KeyboardInterrupt after the node was stopped."""
        if self.output is not None:
            check_target(self.output)
        registry = Registry.load("spiders")
        info = registry.info(self.spider)
        for problem in registry.broken.values():
            self._say(f"warning: not loaded: {problem.partition(chr(10))[0]}")
        server = self._demo_server()
        try:
            with server or nullcontext():
                if server is not None:
                    self._say(f"demo site with {server.site.listings:,} listings on {server.url}")
                    self.arguments["site"] = server.url
                task = submit(
                    self.spider, self.arguments, priority=self.priority, from_text=True, info=info
                )
                frontier().publish_spiders([info])
                last = self._crawl(task, server)
                self._sum_up(last, server)
        except DemoSiteError as error:
            raise CrawlFailed(f"demo site: {error}") from None

    def _demo_server(self) -> DemoServer | None:
        if self.demo is None:
            return None
        if "site" in self.arguments:
            raise ArgumentError("--demo brings its own site; leave out -a site=…")
        return self.demo.server(self.arguments.get("city"))

    def _crawl(self, task: Task, server: DemoServer | None) -> Progress:
        env = {}
        if server is not None:
            allowed = [os.environ.get("CRAWLFRAME_ALLOW_PRIVATE", ""), LOOPBACK]
            env["CRAWLFRAME_ALLOW_PRIVATE"] = " ".join(filter(None, allowed))
        node = LocalNode(
            f"crawl-{task.pk}",
            f"{settings.CRAWLFRAME.node}.crawl{os.getpid()}",
            workers=self.workers,
            concurrency=self.concurrency,
            env=env,
        )
        try:
            with node:
                self._say(f"task {task.pk}: {task.spider}, log {node.log}")
                return watch(task.pk, self.console, lambda progress: self._check(node, progress))
        except KeyboardInterrupt:
            self._say(f"stopped; nothing is lost. {self._how_to_go_on(task, server)}")
            raise

    def _check(self, node: LocalNode, progress: Progress) -> None:
        """Raises what makes waiting useless. A node that has just ended may have finished the task
        after these numbers were read, so only the second look counts."""
        if progress.ended:
            return
        task = progress.task
        if progress.nr and progress.nr == progress.parked:
            reasons = "; ".join(set(frontier().parked(task.pk).values()))
            raise CrawlFailed(
                f"all {progress.nr:,} requests left of task {task.pk} wait: {reasons}\n"
                f"Mend that, then: python manage.py resume {task.pk}, and "
                "python manage.py runcrawler --once"
            )
        if self._node_gone:
            raise node.ended_early(f"task {task.pk} is {task.state}")
        self._node_gone = node.exit_code() is not None

    def _how_to_go_on(self, task: Task, server: DemoServer | None) -> str:
        go_on = "python manage.py runcrawler --once"
        if server is not None:
            port = server.url.rpartition(":")[2]
            go_on = (
                f"python manage.py demosite --port {port} --listings {server.site.listings} in "
                f"another terminal, then CRAWLFRAME_ALLOW_PRIVATE={LOOPBACK} {go_on}"
            )
        return f"Go on: {go_on}. Or end it: python manage.py cancel {task.pk}"

    def _sum_up(self, last: Progress, server: DemoServer | None) -> None:
        task, more = last.task, []
        right = True
        if server is not None:
            right, verdict = compare(task, server.site)
            more.append(("demo site", verdict))
        if self.output is not None:
            more.append(("written", f"{export(task, self.output):,} items to {self.output}"))
        more.append(("next", "python manage.py tasks   (all tasks)"))
        more.append(("", f"python manage.py crawl {task.spider} -o items.csv   (again, to a file)"))
        more.append(("", "python manage.py up   (web admin and a node that keeps running)"))
        self.console.print()
        self.console.print(report(task, more))
        if not right:
            raise CrawlFailed(f"task {task.pk}: not the items of the demo site: {verdict}")
        if task.state == Task.State.FINISHED and last.nf == 0:
            raise CrawlFailed(f"task {task.pk}: no request succeeded; the errors are above")

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)
