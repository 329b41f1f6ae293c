"""Hot reload of spiders on running nodes: no page is fetched twice or lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import psutil
import pytest

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlservice.models import KeptPage
from tests.conftest import django_on
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb
from tests.process.reload_project import Gate, NodeStarter, Project, View, is_gone, shop

pytestmark = pytest.mark.process


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


@pytest.fixture
def env(odd_env: dict[str, str], project: Project) -> dict[str, str]:
    odd_env["CRAWLFRAME_GRACE"] = str(LONGEST_WAIT)  # a busy machine starts a node in half a minute
    return project.env(odd_env)


# -- changes that go live -------------------------------------------------------------------------


def test_every_kind_of_change_goes_live(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    """Packages with other names, edits with old times, and links that lead elsewhere are seen by
    tests/node/test_watcher.py, and loaded by tests/test_registry.py."""
    reads = (
        "from pathlib import Path\nfrom outside import OUTSIDE\n"
        "from shops.tools.words import INSIDE\n"
        "HERE = Path(__file__).parent\nDATA = (HERE / 'prices.txt').read_text()\n"
        "RATES = (HERE.parent / 'rates.csv').read_text()\n"
        "TABLE = (HERE.parent / 'tables' / 'one.csv').read_text()\n"
    )
    files = '    files = ["../rates.csv", "../tables"]\n    settings'
    source = reads + shop("x").replace("    settings", files)
    module = "from crawlframe import Request, Spider\n"
    assert module in source
    told = "f'{CODE} {INSIDE} {OUTSIDE} {DATA} {RATES} {TABLE}'"
    source = source.replace('"code": CODE', f'"code": {told}')
    project.write("shops/shop.py", source)
    project.write("shops/tools/__init__.py", "")
    project.write("shops/tools/words.py", "INSIDE = 'inside'\n")
    project.write("outside.py", "OUTSIDE = 'outside'\n")
    project.write("shops/prices.txt", "data")
    project.write("rates.csv", "rates")
    project.write("tables/one.csv", "table")
    first = project.commit()
    node = starter.node(env)
    assert node.ready().version == first
    assert node.crawl(web.url) == "x inside outside data rates table"
    reloads = 0

    def live(expected: str) -> str:
        """The change is live after one more reload; returns its version."""
        nonlocal reloads
        reloads += 1
        version = node.renewed(reloads).version
        pk = node.start(web.url)
        assert node.items(pk) == {"/": expected}
        assert node.versions(pk)["/"] == version
        return version

    # One after another, each only after the previous one is live.
    project.write("shops/shop.py", source.replace('CODE = "x"', 'CODE = "y"'))
    assert live("y inside outside data rates table").startswith(f"{first}+")
    project.write("shops/shop.py", source)
    assert live("x inside outside data rates table") == first
    project.write("shops/tools/words.py", "INSIDE = 'INSIDE'\n")
    live("x INSIDE outside data rates table")
    project.write("outside.py", "OUTSIDE = 'OUTSIDE'\n")
    live("x INSIDE OUTSIDE data rates table")
    project.write("shops/prices.txt", "DATA")
    live("x INSIDE OUTSIDE DATA rates table")
    project.write("rates.csv", "RATES")
    live("x INSIDE OUTSIDE DATA RATES table")
    time.sleep(0.5)  # the paths watched from the start, beyond the files seen at loading
    project.write("tables/one.csv", "TABLE")
    live("x INSIDE OUTSIDE DATA RATES TABLE")
    words = "x INSIDE OUTSIDE DATA RATES TABLE"

    # Who owns the spiders is a part of the code, which need not have been there.
    project.write("OWNERS", "sho? @anna\n")
    live(words)
    assert node.look.frontier.spiders.all()["shop"].owners == ("anna",)
    assert KeptPage.objects.filter(reason="", sample="parse").exists()  # by default

    # A commit changes nothing but the label.
    second = project.commit()
    assert live(words) == second != first

    # A new file, with a new spider; and without it.
    project.write("shops/second.py", shop("second", name="second"))
    live(words)
    assert list(node.node.spiders) == ["second", "shop"]
    assert node.crawl(web.url, "second") == "second"
    (project.package / "second.py").unlink()
    live(words)
    assert list(node.node.spiders) == ["shop"]

    # The same again is no change.
    for path in project.package.rglob("*.py"):
        path.touch()
    time.sleep(0.6)
    project.write("shops/shop.py", source.replace('CODE = "x"', 'CODE = "z"'))
    live(words.replace("x", "z", 1))
    # Nothing is left of all those versions but the steward, a template and a worker.
    node.until(lambda: len(node.children()) == 3, timeout=10)
    _changed_middleware(node, project, web)
    assert node.look.frontier.audit() == []
    assert node.running.stop() == 0


def test_a_tree_without_git_behind_a_link(
    env: dict[str, str], starter: NodeStarter, tmp_path: Path, web: OddWeb
) -> None:
    for number in (1, 2):
        Project.make(tmp_path / f"release{number}", git=False)
    project = Project.make(tmp_path / "live", git=False)
    for path in [*project.package.iterdir()]:
        path.unlink()
    project.package.rmdir()
    project.package.symlink_to("../release1/shops")
    (tmp_path / "release2/shops/shop.py").write_text(shop("release 2"))
    node = starter.node(project.env(env))
    first = node.ready().version
    assert first.startswith("+")
    assert node.crawl(web.url) == "first"
    fresh = tmp_path / "fresh"
    fresh.symlink_to("../release2/shops")
    fresh.replace(project.package)
    version = node.renewed(1).version
    assert version.startswith("+")
    assert version != first
    assert node.crawl(web.url) == "release 2"
    (tmp_path / "release2/shops/shop.py").write_text(shop("release 2, mended"))
    node.renewed(2)
    assert node.crawl(web.url) == "release 2, mended"


MIDDLEWARE = """
from crawlframe import Response, Spider

class Stamp:
    async def fetch(self, request, call_next):
        response = await call_next(request)
        return Response(response.url, 200, {"Stamp": "first"}, response.body, request)

class Team(Spider):
    middlewares = [Stamp]
"""


def _changed_middleware(node: View, project: Project, web: OddWeb) -> None:
    """In the base class of a spider."""
    source = shop("x").replace("Shop(Spider)", "Shop(Team)")
    source = source.replace('"code": CODE', '"code": response.headers["Stamp"]')
    project.write("shops/team.py", MIDDLEWARE)
    project.write("shops/shop.py", f"from shops.team import Team\n{source}")
    node.until(lambda: node.crawl(web.url) == "first")
    project.write("shops/team.py", MIDDLEWARE.replace("first", "second"))
    node.until(lambda: node.crawl(web.url) == "second")
    project.write("shops/team.py", MIDDLEWARE.replace("[Stamp]", "['Stamp']"))
    node.refused("'Stamp' is text")
    assert node.crawl(web.url) == "second"


# -- nothing lost, nothing twice, and whole versions only -----------------------------------------


def test_renewal_and_git(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    node = starter.node(env)
    before = node.ready().version
    _pages_in_flight(node, project, web)
    after = node.code.version
    assert after != before

    # Git is at work: wait.
    lock = project.root / ".git" / "index.lock"
    lock.touch()
    project.write("shops/shop.py", shop("locked"))
    time.sleep(0.7)
    assert node.crawl(web.url) == "new"
    assert node.code.version == after
    lock.unlink()
    node.renewed(2)
    assert node.crawl(web.url) == "locked"

    _frozen_pull(node, project, web)

    # Twenty commits in a row.
    reloads, written = node.code.reloads, []
    for number in range(20):
        project.write("shops/shop.py", shop(f"storm {number}"))
        revision = project.commit()
        written.append(time.monotonic())
    windows = sum(b - a > 0.1 for a, b in pairwise(written))
    node.until(lambda: node.code.version == revision and node.code.state == "live")
    assert node.crawl(web.url) == "storm 19"
    assert node.code.reloads - reloads <= windows + 1
    assert _depth(node, project, web, "one") == _depth(node, project, web, "two")
    assert node.look.frontier.audit() == []


def _depth(node: View, project: Project, web: OddWeb, label: str) -> str:
    """The frames below the import of a renewed module: templates are forked from each other."""
    source = shop(label).replace('"code": CODE', '"code": f"{CODE} {DEPTH}"')
    project.write("shops/shop.py", f"import inspect\nDEPTH = len(inspect.stack(0))\n{source}")
    node.until(lambda: node.crawl(web.url).startswith(label))
    return node.crawl(web.url).removeprefix(label)


def _pages_in_flight(node: View, project: Project, web: OddWeb) -> None:
    before = node.code.version
    gate = Gate()
    web.delays = gate
    web.pages["/"] = [f"/held/{n}" for n in range(4)]
    for n in range(4):
        web.pages[f"/held/{n}"] = [f"/late/{n}"]
    pk = node.start(web.url)
    node.until(lambda: web.hits.total() == 5)
    project.write("shops/shop.py", shop("new"))
    after = node.renewed(1).version
    assert node.crawl(f"{web.url}other") == "new"  # while the old pages are in flight
    assert list(node.items(pk)) == ["/"]
    gate.open()
    task = node.look.wait(pk)
    assert (task.na, task.nf, task.ne) == (10, 10, 0)
    assert max(web.hits.values()) == 1
    codes = node.items(pk, 9)
    versions = node.versions(pk)
    for n in range(4):
        assert (codes[f"/held/{n}"], versions[f"/held/{n}"]) == ("first", before)
        assert codes[f"/late/{n}"] == "new"
        assert versions[f"/late/{n}"] != before
    assert after != before
    web.pages.clear()


def _frozen_pull(node: View, project: Project, web: OddWeb) -> None:
    """Git stops in the middle of writing files: the first is new, the last is old."""
    source = shop("both").replace('"code": CODE', '"code": f"{A} {Z}"')
    lines = "from shops.a_first import A\nfrom shops.z_last import Z\n"
    project.write("shops/shop.py", lines + source)
    project.write("shops/a_first.py", "A = 'old'\n")
    project.write("shops/m_slow.txt", "old")
    project.write("shops/z_last.py", "Z = 'old'\n")
    old = project.commit()
    node.until(lambda: node.code.version == old)
    # Its first worker is ready, so no reload is still to be counted.
    node.until(lambda: node.crawl(web.url) == "old old")
    author = project.clone("author")
    author.write("shops/a_first.py", "A = 'new'\n")
    author.write("shops/m_slow.txt", "new")
    author.write("shops/z_last.py", "Z = 'new'\n")
    author.write(".gitattributes", "m_slow.txt filter=slow\n")
    new = author.commit()
    reached = project.root.with_name("reached")
    # The filter that writes that file reports the start and takes its time.
    project.git("config", "filter.slow.smudge", f"touch {reached}; sleep 0.3; cat")
    reloads = node.code.reloads
    pull = project.pull(author)
    try:
        node.until(reached.exists)
        os.killpg(pull.pid, signal.SIGSTOP)
        assert (project.package / "a_first.py").read_text() == "A = 'new'\n"
        assert (project.package / "z_last.py").read_text() == "Z = 'old'\n"
        time.sleep(0.7)
        assert (node.code.version, node.code.reloads) == (old, reloads)
        node.children()[-1].kill()
        assert node.crawl(web.url) == "old old"
    finally:
        os.killpg(pull.pid, signal.SIGCONT)
    assert pull.wait(LONGEST_WAIT) == 0
    node.until(lambda: node.code.version == new)
    assert node.crawl(web.url) == "new new"
    assert "old new" not in (codes := _all_codes(node))
    assert "new old" not in codes


def _all_codes(node: View) -> set[str]:
    return {item["code"] for pk in range(1, 100) for item in node.look.items(pk)}


# -- refusals -------------------------------------------------------------------------------------

# File, its source, the node's message, the place it names, and whether there is a traceback.
# More are in tests/test_registry.py.
BROKEN = [
    ("shop", "import crawlframe\n\n\n1 / 0\n", "ZeroDivisionError: ", "shop.py:4", True),
    ("fresh", "raise ValueError('\\udcff')\n", "ValueError: ", "fresh.py:1", True),
    ("fresh", "import os\nos._exit(3)\n", "died (exit code 3)", "shops.fresh", False),
    ("fresh", "import time\nwhile True:\n    time.sleep(0.01)\n", "longer than 1 s", "fresh", True),
    ("shop", shop("x").replace("32", "-1"), "more than 0", "shop.py:6", False),
]
SWALLOWS = """\
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


RESTLESS = """
import pathlib, time
pathlib.Path(__file__).with_name("now.txt").write_text(str(time.time_ns()))
"""


def test_broken_versions_are_refused(
    env: dict[str, str],
    starter: NodeStarter,
    project: Project,
    web: OddWeb,
    new_database: Callable[[str], str],
) -> None:
    env["CRAWLFRAME_LOAD_TIMEOUT"] = "1"
    # A node of another cluster gets the slowest refusals. It has a database of its own: in a common
    # one, the stewards of the two would start eras against each other without an end.
    stubborn_project = Project.make(project.root.with_name("stubborn"))
    elsewhere = new_database("sqlite")
    stubborn_env = stubborn_project.env(env, CRAWLFRAME_KEY_PREFIX="other", DATABASE_URL=elsewhere)
    other = Look.__new__(Look)
    other.frontier = Frontier.connect(env["REDIS_URL"], Settings(key_prefix="other"), follows=True)
    stubborn = starter.node(stubborn_env, name="other", look=other)
    node = starter.node(env)
    good = node.ready().version
    stubborn.ready()
    stubborn_project.write("shops/swallows.py", SWALLOWS)

    for module, source, problem, place, has_traceback in BROKEN:
        path = project.write(f"shops/{module}.py", source)
        code = node.refused(problem)
        first, _, rest = code.problem.partition("\n")
        assert place in first
        assert problem in first
        assert ("Traceback" in rest) == has_traceback
        assert code.version == good
        assert code.candidate.startswith(f"{good}+")
        assert code.candidate in node.running.output
        assert node.crawl(web.url) == "first"
        path.unlink()
        project.git("checkout", "--quiet", "--", "shops")

    # Code that changes itself is never whole.
    path = project.write("shops/restless.py", RESTLESS)
    code = node.refused("changed while the code was loaded, 5 times in a row")
    assert code.version == good
    assert node.crawl(web.url) == "first"
    path.unlink()
    project.git("checkout", "--quiet", "--", "shops")
    project.git("clean", "--quiet", "--force", "shops")
    # Its version may have been live for a moment, after it was gone.
    node.until(lambda: (node.code.state, node.code.version) == ("live", good))

    # A dead worker is replaced by one of the live version, not of the version on the disk.
    project.write("shops/shop.py", "1 / 0\n")
    refused = node.refused("ZeroDivisionError")
    worker = node.children()[-1]
    worker.kill()
    node.until(lambda: is_gone(worker))
    pk = node.start(web.url)
    assert node.items(pk) == {"/": "first"}
    assert node.versions(pk) == {"/": good}
    # A late notification that the file was written may cause one more attempt, in vain.
    assert msgspec.structs.replace(node.code, changed_at=refused.changed_at) == refused

    # The next good version goes live by itself.
    project.write("shops/shop.py", shop("mended"))
    node.until(lambda: node.crawl(web.url) == "mended")
    assert (node.code.problem, node.code.candidate) == ("", "")

    assert "shops.swallows" in stubborn.refused("was silent for 3 s and was killed").problem
    with django_on(elsewhere):
        assert stubborn.crawl(web.url) == "first"
    (stubborn_project.package / "swallows.py").unlink()
    stubborn_project.write("shops/shop.py", shop("mended"))
    stubborn.renewed(1)
    with django_on(elsewhere):
        assert stubborn.crawl(web.url) == "mended"


def test_a_cold_start_with_broken_code(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    project.write("shops/torn.py", "def (\n")
    project.write("shops/deadly.py", "import os\nos._exit(3)\n")
    project.commit()
    node = starter.node(env)
    code = node.ready()
    assert code.state == "live"
    assert "torn.py:1: SyntaxError" in code.problem
    assert "shops.deadly: the process that imports it died (exit code 3)" in code.problem
    assert list(node.node.spiders) == ["shop"]
    assert node.crawl(web.url) == "first"
    tasks = [node.start(f"{web.url}{name}", name) for name in ("torn", "deadly")]
    for pk, name in zip(tasks, ("torn", "deadly"), strict=True):
        (reason,) = node.parked(pk, 1)
        assert f"there is no spider '{name}'" in reason

    # Code that was broken before blocks nothing else.
    project.write("shops/shop.py", shop("second"))
    node.renewed(1)
    assert node.crawl(web.url) == "second"
    assert "torn.py:1" in node.code.problem
    assert "shops.deadly" in node.code.problem

    project.write("shops/torn.py", shop("mended", name="torn"))
    project.write("shops/deadly.py", shop("mended", name="deadly"))
    for pk, name in zip(tasks, ("torn", "deadly"), strict=True):
        assert node.items(pk) == {f"/{name}": "mended"}
        assert node.look.wait(pk).state == "finished"
    assert node.code.problem == ""


# -- requests whose code is gone ------------------------------------------------------------------

DETAILS = """\
from crawlframe import Request, Spider

CODE = "{code}"


class Shop(Spider):
    name = "shop"
    settings = {{"concurrency": 32, "delay": 0}}

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        yield {{"url": response.url, "code": CODE}}
        for link in response.links():
            yield response.follow(link, "parse_list")

    def parse_list(self, response):
        yield {{"url": response.url, "code": CODE}}
        for link in response.links():
            yield response.follow(link, "{calls}", cb_kwargs={{"rank": 1}})

    def {method}(self, response{keywords}):
        yield {{"url": response.url, "code": CODE}}
"""


def details(code: str, method: str = "detail", keywords: str = ", rank", calls: str = "") -> str:
    return DETAILS.format(code=code, method=method, keywords=keywords, calls=calls or "detail")


def test_requests_whose_code_is_gone_come_back_with_it(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    good = details("good")
    project.write("shops/another.py", shop("another", name="another"))
    project.write("shops/shop.py", good)
    project.commit()
    node = starter.node(env)
    node.ready()
    web.pages["/"] = ["/held/list"]
    web.pages["/held/list"] = [f"/detail/{n}" for n in range(5)]
    changes = [
        (details("gone", method="other"), "spider 'shop' has no method 'detail'"),
        (details("misfit", keywords=""), "detail of spider 'shop' does not fit the request"),
        (None, "there is no spider 'shop'"),
    ]
    for text, reason in changes:
        web.delays = gate = Gate()
        web.hits.clear()
        pk = node.start(web.url)
        node.until(lambda: web.hits["/held/list"])
        reloads = node.code.reloads
        if text is None:
            (project.package / "shop.py").unlink()
        else:
            project.write("shops/shop.py", text)
        node.renewed(reloads + 1)
        gate.open()
        (parked,) = node.parked(pk, 5)
        assert reason in parked
        assert node.look.task(pk).state == "running"
        project.write("shops/shop.py", good)
        task = node.look.wait(pk)
        assert (task.state, task.na, task.nf, task.ne) == ("finished", 8, 8, 0)
        assert set(node.items(pk, 7).values()) == {"good"}
        assert max(web.hits.values()) == 1


def test_a_node_takes_what_another_of_older_code_parked(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    """Both run code that lacks a callback; then one of them gets it."""
    project.write("shops/shop.py", details("old", method="other"))
    old = project.commit()
    clone = project.clone("clone")
    author = project.clone("author")
    author.write("shops/shop.py", details("new"))
    new = author.commit()
    left = starter.node(env, name="left")
    right = starter.node(clone.env(env), name="right")
    left.ready()
    right.ready()
    web.pages["/"] = ["/list"]
    web.pages["/list"] = [f"/detail/{n}" for n in range(40)]
    pk = left.start(web.url)
    left.parked(pk, 40)
    assert clone.pull(author).wait(LONGEST_WAIT) == 0
    task = left.look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 43, 43, 0)
    assert (left.code.version, right.code.version) == (old, new)
    assert max(web.hits.values()) == 1
    codes, versions = left.items(pk, 42), left.versions(pk)
    for n in range(40):
        assert (codes[f"/detail/{n}"], versions[f"/detail/{n}"]) == ("new", new)


# -- kill -9 --------------------------------------------------------------------------------------


def test_kills_around_reloads(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    node = starter.node(env)
    node.ready()
    node.until(lambda: len(node.children()) == 3)  # one that loaded ahead for nothing is gone
    steward, template, worker = node.children()
    template.kill()
    node.running.wait_for("the template of version")
    node.running.wait_for("is already live")
    # The others stay; later forks come from the new one.
    assert {steward, worker} < set(node.children())
    node.until(lambda: (node.code.state, node.code.reloads) == ("live", 0))
    worker.kill()
    node.until(lambda: is_gone(worker))
    assert node.crawl(web.url) == "first"

    # The master dies while its template loads; pages are in flight.
    web.delays = gate = Gate()
    web.pages["/"] = [f"/held/{n}" for n in range(20)]
    pk = node.start(web.url)
    node.until(lambda: web.hits.total() > 20)
    master, orphans = psutil.Process(node.node.pid), node.children()
    project.write("shops/slow.py", "import time\ntime.sleep(1.5)\n")
    node.until(lambda: node.code.state == "checking")
    orphans = node.children()
    master.kill()
    node.running.wait_for("replayed 20 requests of generation 1")
    node.until(lambda: all(map(is_gone, orphans)))
    project.write("shops/shop.py", shop("second"))
    node.until(lambda: node.code.seconds and node.node.generation == 2)
    gate.open()
    task = node.look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 22, 22, 0)
    assert len(node.items(pk, 21)) == 21
    assert node.look.finishes(pk) == 1
    assert node.look.frontier.audit() == []
    assert node.running.process.poll() is None
    _supervisor_dies(node, env, starter, web)


def _libraries(process: psutil.Process) -> set[str]:
    """The names of the libraries that a process has loaded."""
    return {Path(found.path).name.partition(".")[0] for found in process.memory_maps()}


def _supervisor_dies(node: View, env: dict[str, str], starter: NodeStarter, web: OddWeb) -> None:
    """Its master finishes its fetches, and another node of that name starts beside it."""
    supervisor = psutil.Process(psutil.Process(node.node.pid).ppid())
    assert _libraries(supervisor).isdisjoint({"_pycurl", "_sqlite3", "etree", "hiredis"})
    assert {"_pydantic_core", "_pycurl"} & _libraries(node.children()[-1]) == {"_pycurl"}
    web.delays = gate = Gate()
    web.hits.clear()
    web.pages["/"] = [f"/held/{n}" for n in range(5)]
    pk = node.start(web.url)
    node.until(lambda: web.hits.total() == 6)
    node.running.stop(signal.SIGKILL)
    old = starter.processes()
    assert old
    again = starter.node(env)
    again.until(lambda: again.node.generation == 3 and again.code.seconds)
    assert again.crawl(f"{web.url}other") == "second"
    assert [life.leaving for life in again.nodes] == [True, False]
    gate.open()
    task = node.look.wait(pk)
    assert (task.na, task.nf, task.ne) == (7, 7, 0)
    assert max(web.hits.values()) == 1
    again.until(lambda: all(map(is_gone, old)))
    assert again.running.stop() == 0
    assert starter.processes() == []


HELPER = """import subprocess

subprocess.Popen(["sleep", "{}"], start_new_session=True)
"""


def test_what_a_module_starts_at_import_ends_with_its_version(
    env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    """Also when the whole node is killed; and not at any time before that. How an import ends that
    dies: tests/node/test_offspring.py."""
    words = ["sleep", str(10_000 + os.getpid())]
    project.write("shops/helper.py", HELPER.format(words[1]))
    node = starter.node(env)
    node.ready()
    assert "processes that the import of the spiders started: 1;" in node.running.output

    def helpers() -> set[psutil.Process]:
        return {one for one in starter.processes() if _words(one) == words}

    node.until(lambda: len(helpers()) == 1)  # a start may load twice
    (first,) = helpers()
    project.write("shops/shop.py", shop("second"))
    node.renewed(1)
    node.until(lambda: len(helpers()) == 1 and first not in helpers())
    (second,) = helpers()
    assert node.crawl(web.url) == "second"
    assert helpers() == {second}
    os.kill(node.node.pid, signal.SIGKILL)
    node.until(lambda: len(helpers()) == 1 and second not in helpers())
    assert node.running.stop() == 0
    node.until(lambda: not helpers())
    node.until(lambda: not starter.processes())


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
