"""Crawl: one crawl from start to end on this machine, as the `crawl` command runs it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from rich.console import Console

from crawlframe.base.program import command
from crawlframe.code.package import find_package
from crawlframe.code.version import code_version
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.load_spiders import load_spiders
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.journal import change, record
from crawlservice.cli.local_node import LocalNode, NodeEnded
from crawlservice.cli.named_spider import NamedSpiders
from crawlservice.cli.prompt import PromptServer, wants_prompts
from crawlservice.cli.secret_input import ASKED, with_secrets
from crawlservice.cli.task.report import report
from crawlservice.cli.terminal import watch
from crawlservice.connections.frontier import frontier
from crawlservice.models import Task
from crawlservice.tasks import overrides
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import has_secrets
from crawlservice.tasks.overrides import detail
from crawlservice.tasks.progress import outcomes
from crawlservice.tasks.progress.progress import Progress
from crawlservice.tasks.results.export import check_target, export, place_of
from crawlservice.tasks.submit import pause, submit


class CrawlFailed(CrawlframeError):
    """The crawl ended, but not as it should have."""


@dataclass
class Crawl:
    """The task to crawl and its node. ``arguments`` are text, as typed; ``environment`` is added to
    the node's."""

    spider: str
    arguments: dict[str, str]
    console: Console
    priority: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # of the task, over the spider's
    labels: dict[str, str] = field(default_factory=dict)
    workers: int | None = None
    concurrency: int | None = None
    output: Path | None = None
    format: str | None = None
    cache: str = ""  # as the setting of a node
    environment: dict[str, str] = field(default_factory=dict)
    _prompts: bool = field(default=False, init=False)  # callbacks may stop at a prompt
    _node_gone: bool = field(default=False, init=False)
    _shown: dict[str, str] = field(default_factory=dict, init=False)  # arguments to be typed again

    def run(self) -> None:
        """Returns when the task has ended and everything is shown.

        Raises CrawlframeError: before anything was done for bad input, NodeEnded when the crawling
        process died, CrawlFailed when no request of the task can run, Unsuccessful when the task
        has failed or was cancelled; and KeyboardInterrupt after the node was stopped."""
        Settings.from_env(workers=self.workers, concurrency=self.concurrency)
        if self.output is not None:
            check_target(self.output, self.format)
        with LocalNode() as node:
            last = self._crawl(self._submit(), node)
        self._sum_up(last)

    def _submit(self) -> Task:
        registry = load_spiders(settings.CRAWLFRAME)
        named = NamedSpiders(registry).get(self.spider)
        info = named.info
        if named.note:
            self._print(f"note: {named.note}")
        for problem in registry.broken.values():
            self._print(f"warning: not loaded: {problem.partition(chr(10))[0]}")
        typed, self.arguments = self.arguments, with_secrets(info, self.arguments)
        checked = spider_arguments.check(info, self.arguments, from_text=True, any_file=True)
        self._shown = {n: ASKED if has_secrets(checked[n]) else text for n, text in typed.items()}
        overrides.check(info, self.settings)
        self._prompts = (
            self.console.is_terminal
            and sys.stdin.isatty()
            and sys.stdout.isatty()
            and wants_prompts(registry, settings.CRAWLFRAME.spiders)
        )
        if self._prompts:
            self._print("note: spiders may call inspect, so one page is crawled at a time")
        self._check_nodes(info, is_recipe=bool(named.recipe))
        if not named.recipe:
            frontier().spiders.publish([info])
        with transaction.atomic():  # both, even if Redis could not be updated
            task = submit(
                *(self.spider, self.arguments),
                priority=self.priority,
                from_text=True,
                info=info,
                settings=self.settings,
                labels=self.labels,
            )
            record("submit", task=task, command=True, **detail(task))
        return task

    def _check_nodes(self, info: SpiderInfo, *, is_recipe: bool = False) -> None:
        """Refuses nodes that would run the task wrongly: any node may take its requests."""
        nodes = [n for n in frontier().leases.nodes() if n.lease_left > 0 and not n.leaving]
        here = _code_here() if nodes else ""
        for node in nodes:
            who = f"node {node.node} (process {node.pid} on {node.machine})"
            if self.cache:
                raise CrawlFailed(
                    f"{who} would take part, and does not use the cache of this command; stop it "
                    "first"
                )
            code = f"code {node.code.version}" if node.code.version else "code of its own"
            loaded = bool(node.spiders or node.code.version) and not is_recipe
            if loaded and info.name not in node.spiders:
                raise CrawlFailed(
                    f"{who} has no spider {info.name!r} in its {code}, and would take part; "
                    "update or stop it first"
                )
            other = f"; here it is {here}" if here and here != node.code.version else ""
            self._print(f"note: {who} takes part, with {code}{other}")
        for task in frontier().open_tasks():
            self._print(f"note: task {task} is unfinished and runs at the same time")

    def _crawl(self, task: Task, node: LocalNode) -> Progress:
        env = {**self.environment, **({"CRAWLFRAME_CACHE": self.cache} if self.cache else {})}
        workers, concurrency, prompts = self.workers, self.concurrency, None
        if self._prompts:
            prompts = PromptServer()
            env |= prompts.environment
            workers, concurrency = workers or 1, concurrency or 1
        name = f"{settings.CRAWLFRAME.node}.crawl{os.getpid()}"
        run = node.run(f"crawl-{task.pk}", name, workers=workers, concurrency=concurrency, env=env)
        try:
            with prompts or nullcontext(), run:
                self._print(f"task {task.pk}: {task.spider}, log {node.log}")
                last = watch(
                    *(task.pk, self.console, lambda progress: self._check(node, progress)),
                    lambda: prompts.serve if prompts is not None and prompts.waits else None,
                )
                node.settle()
                return last
        except BrokenPipeError:  # the output is no longer read
            self._put_aside(task)
            raise
        except KeyboardInterrupt:
            self._print(f"stopped; nothing is lost. {self._put_aside(task)}")
            raise
        except NodeEnded as error:
            raise NodeEnded(f"{error}\n{self._put_aside(task)}") from None

    def _check(self, node: LocalNode, progress: Progress) -> None:
        """Raises if waiting is useless. A node that has just ended may have finished the task after
        these numbers were read, so only the second check counts."""
        if progress.ended:
            return
        task = progress.task
        held = progress.nr == progress.parked + 1 and frontier().holds_last(task.pk)
        if progress.parked and progress.nr - held == progress.parked:
            reasons = "; ".join(set(frontier().parked(task.pk).values()))
            raise CrawlFailed(
                f"all {progress.nr:,} requests left of task {task.pk} wait: {reasons}\n"
                f"Fix that, then: {command(f'task resume {task.pk}')}, and "
                f"{command('runcrawler --once')}"
            )
        if self._node_gone:
            raise node.ended_early(f"task {task.pk} is {task.state}")
        self._node_gone = node.exit_code() is not None

    def _put_aside(self, task: Task) -> str:
        try:
            return self.put_aside(task)
        except CrawlframeError as error:
            return str(error)

    def put_aside(self, task: Task) -> str:
        """Pauses a task that this command does not end. Returns a sentence about it. Raises
        CrawlframeError."""
        change("pause", pause, task.pk, command=True)
        return (
            f"Task {task.pk} is paused.\n"
            f"Continue: {command(f'task resume {task.pk}')} && {command('runcrawler --once')}\n"
            f"Cancel: {command(f'task cancel {task.pk}')}"
        )

    def verdicts(self, task: Task) -> Iterable[tuple[str, str]]:
        """Rows of the summary about the items of a task: a word and a sentence each."""
        return ()

    def _sum_up(self, last: Progress) -> None:
        task, more = last.task, [*self.verdicts(last.task)]
        if self.output is not None:
            written = export(task, self.output, self.format)
            more.append(("written", f"{written:,} items to {place_of(self.output)}"))
        more += [("next" if n == 0 else "", line) for n, line in enumerate(self._next())]
        self.console.print()
        self.console.print(report(task, more))
        outcomes.check(task)

    def _next(self) -> list[str]:
        lines = [f"{command('task list')}   (all tasks)"]
        if self.output is None:
            lines.append(f"{self.again()}   (to a file)")
        return [*lines, f"{command('up')}   (web admin and a node that keeps running)"]

    def again(self) -> str:
        """The command line that writes the items of such a crawl to a file."""
        how = "".join(f" -a {shlex.quote(f'{k}={v}')}" for k, v in self._shown.items())
        how += f" --cache={self.cache}" if self.cache else ""
        how += "".join(f" -s {shlex.quote(one)}" for one in overrides.as_pairs(self.settings))
        how += "".join(
            f" --label {shlex.quote(f'{name}={value}')}" for name, value in self.labels.items()
        )
        return command(f"crawl {self.spider}{how} -o items.csv")

    def _print(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


def _code_here() -> str:
    """The code version of this checkout, as its nodes report it; "" where there are no spiders."""
    spiders = find_package(settings.CRAWLFRAME.spiders)
    parts = (settings.BASE_DIR / name for name in ("crawlframe", "crawlservice", "manage.py"))
    return code_version(spiders, engine=[p for p in parts if p.exists()]) if spiders else ""
