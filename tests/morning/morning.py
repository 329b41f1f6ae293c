"""Morning: a service with two nodes on servers of its own, some good nights, and one night when
sites change, a server hangs, a host refuses, a node dies, and a schedule cannot start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice.cli.process_group import die_with_parent
from crawlservice.connections import clock
from crawlservice.models import Schedule, Task
from crawlservice.tasks.submit import submit
from tests.conftest import CHECKOUT, django_on
from tests.crawlservice.conftest import redis_at
from tests.morning import spiders
from tests.morning.inbox import Arrival, Inbox
from tests.morning.shops import FEED, REVIEWS, SHOPS, Shops
from tests.servers import PostgresServer, RedisServer, free_port, served

USER, PASSWORD = "ada", "correct horse 9"
CHANGED = ("shop-03", "shop-08", "shop-14")  # the shops whose pages change
BROKEN = "shop-20 at night"  # the schedule
PATIENCE = 240  # seconds; only a morning that fails waits for so long
LEADER, DOOMED = "alpha", "beta"  # nodes


class Size(NamedTuple):
    """``nights``: good ones before. ``pages``: of a shop. ``lease``: seconds after which a silent
    node is dead. ``silent``: minutes after which a task is. ``latency``: seconds for a page."""

    shops: int = 20
    nights: int = 3
    pages: int = 30
    lease: float = 15.0
    silent: float = 1.0
    latency: float = 0.02


class Trouble(NamedTuple):
    """One thing that went wrong. ``sign``: words of its alert. ``since``: the Unix time at which it
    became true. ``task``: the number of the task that it is about, or 0."""

    name: str
    sign: str
    since: float
    task: int = 0


class Morning:
    """``with Morning(directory, size) as morning: morning.good_nights(); morning.bad_night()``.
    ``troubles`` are then known, and ``alerted`` waits for the messages about them."""

    def __init__(
        self, directory: Path, size: Size, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self.size, self.tell = size, tell
        self.troubles: list[Trouble] = []
        self._directory = directory
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._feed = 0

    def __enter__(self) -> Morning:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        redis, postgres = RedisServer(self._directory / "redis"), PostgresServer()
        stack.callback(postgres.stop)
        postgres.start()
        redis.start()
        stack.callback(redis.kill)
        self.inbox = stack.enter_context(Inbox())
        self.shops = stack.enter_context(Shops(self.size.pages, self.size.latency))
        stack.enter_context(django_on(postgres.url))
        stack.enter_context(redis_at(redis.url))
        call_command("migrate", interactive=False, verbosity=0)
        User.objects.create_superuser(USER, password=PASSWORD)
        self.inbox.subscribe(self.size.silent)
        spiders.write(self._directory)
        port = free_port()
        env = os.environ | self.inbox.settings | {
            "CRAWLFRAME_BIND": f"127.0.0.1:{port}",
            "CRAWLFRAME_VAR_DIR": str(self._directory / "var"),
            "CRAWLFRAME_SECRET_KEY": settings.SECRET_KEY,  # which seals the addresses of targets
            "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8",
            "CRAWLFRAME_SPIDERS": "market",
            "CRAWLFRAME_LEASE": str(self.size.lease),
            "CRAWLFRAME_BEAT": str(self.size.lease / 5),
            "CRAWLFRAME_GRACE": "2",
            "PYTHONPATH": str(self._directory),
            "DATABASE_URL": postgres.url,
            "REDIS_URL": redis.url,
        }  # fmt: skip
        self._env = env
        self._frontier = Frontier.connect(redis.url, Settings(), follows=True)
        self.address, _ = stack.enter_context(served(env))
        self._env = env | {"CRAWLFRAME_PUBLIC_URL": self.address.rstrip("/")}
        stack.callback(self._stop_nodes)
        self._start_node(LEADER, "--reload")
        self._until(self._is_published, "no node published the spiders")
        self._start_node(DOOMED)
        self._until(lambda: len(self._frontier.leases.nodes()) == 2, "the second node is missing")

    # -- nodes ------------------------------------------------------------------------------------

    def _start_node(self, name: str, *options: str) -> None:
        words = ("runcrawler", "--node", name, "--workers", "1", *options)
        with (self._directory / f"{name}.log").open("wb") as log:
            self._nodes[name] = subprocess.Popen(
                [sys.executable, str(CHECKOUT / "manage.py"), *words],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )

    def _stop_nodes(self) -> None:
        self.shops.release()
        for node in self._nodes.values():
            if node.poll() is None:
                node.terminate()
        for node in self._nodes.values():
            try:
                node.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(node.pid, signal.SIGKILL)

    def _is_published(self) -> bool:
        return {"shop", "feed", "reviews"} <= self._frontier.spiders.all().keys()

    def _until(self, ready: Callable[[], object], problem: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > deadline:
                logs = "".join(path.read_text()[-2000:] for path in self._directory.glob("*.log"))
                came = "\n".join(one.text for one in self.inbox.arrivals)
                raise RuntimeError(f"{problem}\n{logs}\n{came}")
            time.sleep(0.1)

    # -- nights -----------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [f"shop-{number:02}" for number in range(1, self.size.shops + 1)]

    def good_nights(self) -> None:
        """Runs all shops some times; all runs are good. The feed, which hangs, started before."""
        self._feed = submit("feed", {"site": self.shops.url(FEED)}).pk
        submit("reviews", {"site": self.shops.url(REVIEWS)})
        for night in range(self.size.nights):
            tasks = self._all_shops()
            self._until(partial(self._ended, tasks), "a good night does not end")
            bad = Task.objects.filter(pk__in=tasks).exclude(outcome=Task.Outcome.FINISHED)
            assert not bad.exists(), [f"{task}: {task.reason}" for task in bad]
            self.tell(f"good night {night + 1}: {len(tasks)} runs of shop")

    def bad_night(self) -> None:
        """Makes everything go wrong."""
        self.shops.changed, self.shops.strict = {*CHANGED}, True
        due = clock.now()
        Schedule.objects.create(
            name=BROKEN, spider="shop", every=86_400, next_at=due,
            arguments={"url": self.shops.url(SHOPS, "shop-20/")},  # its name was changed to site
        )  # fmt: skip
        tasks = dict(zip(self.names, self._all_shops(), strict=True))
        submit("reviews", {"site": self.shops.url(REVIEWS, "new/"), "count": 5})
        doomed = self._nodes[DOOMED]
        os.killpg(doomed.pid, signal.SIGKILL)
        killed = time.time()
        doomed.wait()
        self._until(lambda: self._ended([*tasks.values()]), "the bad night does not end")
        bad = self.shops.bad
        silent = bad["feed"] + 60 * self.size.silent
        self.troubles = [
            *(
                Trouble(f"{name} changed", f"shop #{tasks[name]}: its items", bad[name],
                        tasks[name])
                for name in CHANGED
            ),
            Trouble("a task is silent", f"feed #{self._feed} has requests", silent, self._feed),
            Trouble("a host refuses", "has asked for a long wait", bad["reviews"]),
            Trouble("a node is gone", f"Node {DOOMED} died", killed),
            Trouble("a schedule cannot start", f"Schedule {BROKEN} cannot start",
                    due.timestamp()),
        ]  # fmt: skip

    def fix(self) -> None:
        """The team's fix goes live by reload, and the host accepts requests again."""
        before = {info.code.version for info in self._frontier.leases.nodes()}
        spiders.write(self._directory, fixed=True)
        self.shops.strict = False
        self._until(
            lambda: any(
                info.node == LEADER and info.code.version not in before
                for info in self._frontier.leases.nodes()
            ),
            "the fix does not go live",
        )

    def alerted(self, trouble: Trouble, by: str) -> Arrival:
        """The first message about it, once there is one."""
        self._until(lambda: self.inbox.first(by, trouble.sign), f"no {by} says {trouble.sign!r}")
        found = self.inbox.first(by, trouble.sign)
        assert found is not None
        return found

    def outcome(self, task: int) -> str:
        return Task.objects.get(pk=task).outcome

    def _all_shops(self) -> list[int]:
        return [submit("shop", {"site": self.shops.url(SHOPS, f"{n}/")}).pk for n in self.names]

    def _ended(self, tasks: list[int]) -> bool:
        return not Task.objects.filter(pk__in=tasks, state__in=Task.ACTIVE).exists()
