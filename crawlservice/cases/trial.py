"""Trials: the good and the bad version of the code on old pages, in a process of its own, as a
preview runs them. Nothing is fetched, and nothing is stored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from crawlservice import project
from crawlservice.cases.blame import TrialResult

SECONDS = 90.0  # that a trial may take
END_SECONDS = 2.0  # that its end may take
PAGE_SECONDS = 5.0  # that a page may take
MAX_PAGES = 200  # of all spiders of a trial
MAX_ANSWER = 4 << 20  # bytes
PROGRAM = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
django.setup()
from crawlservice.cases.trial import main
main()
"""


class TrialProcess:
    """A trial that runs. ``pages``: by spider, the numbers of kept pages of good runs."""

    def __init__(self, good: str, bad: str, pages: Mapping[str, Iterable[int]]) -> None:
        """Raises OSError if no process can be started."""
        self.versions, self.spiders = (good, bad), [*pages]
        order = {"good": good, "bad": bad, "pages": {name: [*some] for name, some in pages.items()}}
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by ``stop``
        self._until = time.monotonic() + SECONDS
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=self._answer,
            stderr=subprocess.DEVNULL,
            cwd=project.directory(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )

    def results(self) -> dict[str, TrialResult] | None:
        """By spider; None while it runs."""
        if self._process.poll() is None:
            if time.monotonic() < self._until:
                return None
            self.stop()
            return self._all(f"the trial took longer than {SECONDS:.0f} s")
        self._answer.seek(0)
        try:
            told = json.loads(self._answer.read(MAX_ANSWER))
        except ValueError:
            return self._all(f"its process ended with {self._process.returncode}")
        if problem := told.get("problem"):
            return self._all(problem)
        return {name: TrialResult(**one) for name, one in told["spiders"].items()}

    def stop(self) -> None:
        """Ends it and all that it has started; it removes its files first, if it can."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._answer.close()

    def _all(self, problem: str) -> dict[str, TrialResult]:
        return dict.fromkeys(self.spiders, TrialResult(problem=problem))


def main() -> None:
    """The process: reads its order from the arguments, and prints the answer as JSON."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler)
    signal.alarm(round(SECONDS + END_SECONDS))  # if nobody is left to end it
    os.nice(10)
    order = json.loads(sys.argv[1])
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # authors print
        json.dump(_answer(order), answer)


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    from crawlframe.errors import CrawlframeError

    try:
        found = tried(order["good"], order["bad"], order["pages"])
    except (CrawlframeError, OSError) as error:
        return {"problem": str(error)[:300]}
    return {"spiders": {name: one._asdict() for name, one in found.items()}}


def tried(good: str, bad: str, pages: Mapping[str, list[int]]) -> dict[str, TrialResult]:
    """Runs both versions over the pages. Raises CrawlframeError and django.db.Error."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connections

    from crawlframe.preview.comparison import SpiderComparison, Tried
    from crawlframe.preview.run import PreviewRun
    from crawlframe.preview.side import Order, Side, Surroundings
    from crawlframe.preview.tree import exported
    from crawlservice.connections.read_only import read_only
    from crawlservice.tasks.arguments.secrets import revealed

    place: Path = project.directory()
    checkout, commits = _commits(place, good, bad)
    own = {one.name.partition(".")[0] for one in apps.get_app_configs()}
    around = Surroundings(read_only, revealed, own)
    orders = [*_orders(pages)]
    with ExitStack() as stack:
        trees = [stack.enter_context(exported(checkout, one, one[:12])) for one in commits]
        connections.close_all()  # a fork would use them too
        sides = [
            stack.enter_context(Side(tree, place, settings.CRAWLFRAME, around)) for tree in trees
        ]
        for side in sides:
            side.wait()
        before, after = (side.loaded.marks for side in sides)
        same = {name for name in pages if name in before and before[name] == after.get(name)}
        compared = {
            name: SpiderComparison(name) for name in pages if name in before and name not in same
        }

        def take(page: Order, old: Tried, new: Tried, again: Tried | None) -> bool:
            return compared[page.spider].take(page.place, old, new, again)

        some = [order for order in orders if order.spider in compared and order.spider in after]
        PreviewRun(sides[0], sides[1], 1, PAGE_SECONDS, take).run(some)
    return {name: _result(name, same, compared, after) for name in pages}


def _result(
    name: str, same: set[str], compared: Mapping[str, Any], after: Mapping[str, str]
) -> TrialResult:
    if name in same:
        return TrialResult(same_code=True)
    if name not in compared:
        return TrialResult(problem="the good version has no such spider")
    if name not in after:  # its module does not load, or it was removed
        return TrialResult(1, {"errors": 1}, {"errors": 1})
    found = compared[name]
    seen, worse = {"errors": found.pages}, dict[str, int]()
    for part, one in found.parts.items():
        if part != "errors":
            seen[part] = one.unchanged + one.lost + one.changed
        worse[part] = one.gained if part == "errors" else one.lost + one.changed
    left = next(iter(found.left_out), "") if not found.pages else ""
    return TrialResult(found.pages, seen, {p: n for p, n in worse.items() if n}, problem=left)


def _commits(place: Path, *versions: str) -> tuple[Any, list[str]]:
    """The checkout around the project, and the commits of versions. Raises CrawlframeError if one
    of them is not there."""
    from crawlframe.code.checkout import Checkout
    from crawlframe.errors import CrawlframeError

    checkout = Checkout.around(place)
    if checkout is None:
        raise CrawlframeError("the leading node has no git checkout")
    commits = []
    for version in versions:
        commit, _, changed = version.partition("+")
        if changed or not commit:
            raise CrawlframeError(f"version {version} has changes that are in no commit")
        if not (found := checkout.resolve(commit)):
            raise CrawlframeError(f"the checkout of the leading node lacks the commit {commit}")
        commits.append(found)
    return checkout, commits


def _orders(pages: Mapping[str, list[int]]) -> Iterator[Any]:
    from crawlframe.preview.side import TryPage
    from crawlservice.models import Task
    from crawlservice.pages.sources import source_pages

    share = max(1, MAX_PAGES // len(pages))
    spiders = {number: name for name, numbers in pages.items() for number in numbers[:share]}
    left = {*spiders}
    while left:
        found, left = source_pages(left)
        tasks = {page.task for page in found.values()}
        known = dict(Task.objects.filter(pk__in=tasks).values_list("pk", "arguments"))
        for number, page in found.items():
            if not page.problem and page.task in known:
                yield TryPage(0, spiders[number], known[page.task], page)
