"""A project of spiders that changes while nodes run it: a git checkout with a second clone, where
the author works, and a view of the node from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from crawlframe.code.checkout import DIGITS
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.request.request import ROOT_URL, pack_admissions, root_admission, unpack_admissions
from crawlservice.models import Item, Page, Task
from crawlservice.tasks.stored_limits import limits_of
from tests.conftest import CHECKOUT, Running
from tests.process.conftest import LONGEST_WAIT, Look

AUTHOR = ("-c", "user.name=author", "-c", "user.email=author@example.invalid", "-c", "gc.auto=0")

SHOP = """\
from crawlframe import Request, Spider

CODE = "{code}"


class Shop(Spider):
    name = "{name}"
    settings = {{"concurrency": 32, "delay": 0, "timeout": 600}}

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        yield {{"url": response.url, "code": CODE}}
        for link in response.links():
            yield response.follow(link)
"""


WORDS = "def code():\n    return 'right'\n"
OF_WORDS = """\
import os
from crawlframe import Request, Spider
from shops.words import code


class One(Spider):
    name = "{name}"
    settings = {{"concurrency": 32, "delay": 0, "robots": False, {setting}}}

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        {line}
        yield {{"url": response.url, "code": code()}}
"""


def of_words(name: str, setting: str, line: str = "pass") -> str:
    """The source of a spider whose items come from a module of their own, ``shops/words.py``."""
    return OF_WORDS.format(name=name, setting=setting, line=line)


def shop(code: object, name: str = "shop") -> str:
    """The source of a spider that follows all links; its items tell which code made them."""
    return SHOP.format(code=code, name=name)


class Gate(dict[str, float]):
    """A gate for ``web.delays``: pages below ``/held/`` are not answered before ``open``."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def get(self, path: str, default: Any = None) -> Any:
        if path.startswith("/held/"):
            self._opened.wait()
        return default

    def open(self) -> None:
        self._opened.set()


class Project:
    """``root`` is the checkout of the nodes; ``package`` in it holds the spiders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "shops"

    @classmethod
    def make(cls, root: Path, *, git: bool = True) -> Project:
        """Makes a project with a single spider, ``shop``."""
        project = cls(root)
        project.write("shops/__init__.py", "")
        project.write("shops/shop.py", shop("first"))
        if git:
            project.git("init", "--quiet", "--initial-branch=main")
            project.commit()
        return project

    def env(self, env: dict[str, str], **more: str) -> dict[str, str]:
        """The environment of a manage.py of this project."""
        spiders = {"CRAWLFRAME_SPIDERS": self.package.name, "PYTHONPATH": str(self.root)}
        return {**env, **spiders, **more}

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *words: str) -> str:
        command = ["git", *AUTHOR, *words]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, *options: str) -> str:
        """Commits everything; returns the revision as nodes show it."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change", *options)
        return self.git("rev-parse", "HEAD")[:DIGITS]

    def clone(self, name: str) -> Project:
        """Makes a further checkout next to this one."""
        clone = Project(self.root.with_name(name))
        self.git("clone", "--quiet", str(self.root), str(clone.root))
        return clone

    def pull(self, author: Project) -> subprocess.Popen[bytes]:
        """Starts a pull of the author's commits, in a process group of its own."""
        words = ("pull", "--quiet", "--ff-only", str(author.root), "main")
        return subprocess.Popen(["git", *AUTHOR, *words], cwd=self.root, start_new_session=True)


class View:
    """A node seen from outside: its reports about its code, and the results of its crawls."""

    def __init__(self, look: Look, running: Running, name: str) -> None:
        self.look = look
        self.running = running
        self._name = name

    @property
    def nodes(self) -> list[NodeInfo]:
        """The living masters of the node, oldest first."""
        nodes = self.look.frontier.leases.nodes()
        return [node for node in nodes if node.node == self._name and node.lease_left > 0]

    @property
    def node(self) -> NodeInfo:
        """The newest master that is not leaving."""
        return self.until(lambda: [node for node in self.nodes if not node.leaving])[-1]

    @property
    def code(self) -> CodeState:
        return self.node.code

    def until(self, true: Callable[[], Any], timeout: float = LONGEST_WAIT) -> Any:
        """Waits for a condition and returns it."""
        deadline = time.monotonic() + timeout
        while not (answer := true()):
            if time.monotonic() > deadline:
                state = [(node.generation, node.leaving, node.code) for node in self.nodes]
                raise AssertionError(f"{state}\n{self.running.output}")
            time.sleep(0.05)
        return answer

    def ready(self) -> CodeState:
        """Waits for the first worker of the newest master."""
        self.until(lambda: self.code.seconds)
        return self.code

    def renewed(self, reloads: int) -> CodeState:
        """Waits until the newest master has done ``reloads`` reloads."""
        self.until(lambda: self.code.reloads >= reloads)
        assert self.code.reloads == reloads, self.running.output
        assert self.code.state == "live"
        return self.code

    def refused(self, text: str) -> CodeState:
        """Waits until a version is refused for a reason that contains ``text``."""
        self.until(lambda: self.code.state == "refused" and text in self.code.problem)
        return self.code

    def children(self) -> list[psutil.Process]:
        """The newest master's children, oldest first: its steward, its template, its workers."""
        children = psutil.Process(self.node.pid).children()
        return sorted(children, key=lambda child: (child.create_time(), child.pid))

    # -- crawls -----------------------------------------------------------------------------------

    def start(self, url: str, spider: str = "shop") -> int:
        """Starts a task; returns its number."""
        settings = {"delay": 0, "concurrency": 32, "page_limit": 0}
        task = Task(spider=spider, arguments={"url": url}, settings=settings, seeds=b"")
        task.save()
        task.seeds = pack_admissions([root_admission(task.pk, 0)])
        task.save()
        self.look.frontier.open_task(task.pk, limits_of(task), unpack_admissions(task.seeds))
        return task.pk

    def items(self, pk: int, count: int = 1) -> dict[str, str]:
        """The items of a task once it has ``count``: path -> code that made it. Checks that rows
        and items name the same version."""
        self.until(lambda: Item.objects.filter(task_id=pk).count() >= count)
        items = list(Item.objects.filter(task_id=pk))
        assert len(items) == count
        versions = dict(Page.objects.filter(task_id=pk).values_list("rid", "version"))
        assert all(item.version == versions[item.rid] for item in items)
        return {_path(item.data["url"]): item.data["code"] for item in items}

    def versions(self, pk: int) -> dict[str, str]:
        """Path of each page of a task -> code version on its row."""
        pages = Page.objects.filter(task_id=pk).exclude(url=ROOT_URL)
        return {_path(page.url): page.version for page in pages}

    def parked(self, pk: int, count: int) -> set[str]:
        """Waits until ``count`` requests of a task are parked; returns why."""
        self.until(lambda: self.look.counts(pk).parked == count)
        return set(self.look.frontier.parked(pk).values())

    def crawl(self, url: str, spider: str = "shop") -> str:
        """Crawls a site of one page; returns the code that made its item."""
        (code,) = self.items(self.start(url, spider)).values()
        return code


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended: a process whose parent died may remain until init notices."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class NodeStarter:
    """Starts nodes, which ``start`` ends after the test."""

    def __init__(self, look: Look, start: Callable[..., Running]) -> None:
        self._look = look
        self._start = start
        self._marks: set[str] = set()

    def node(
        self,
        env: dict[str, str],
        *options: object,
        name: str = "one",
        manage: Path = CHECKOUT / "manage.py",
        look: Look | None = None,
    ) -> View:
        """Starts ``runcrawler --reload`` with one worker."""
        words = (manage, "runcrawler", "--reload", "--workers", 1, "--node", name, *options)
        self._marks.add(env["CRAWLFRAME_VAR_DIR"])
        running = self._start(*words, program=Path(sys.executable), env=env, cwd=manage.parent)
        return View(look or self._look, running, name)

    def processes(self) -> list[psutil.Process]:
        """All living processes, including those whose parents died."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            mark = process.environ().get("CRAWLFRAME_VAR_DIR")
            return mark in self._marks and process.pid != os.getpid()
        except psutil.Error:
            return False

    def end(self) -> None:
        """Kills everything that is left of the nodes."""
        while left := self.processes():
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
