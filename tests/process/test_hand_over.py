"""A change of the framework hands the node over to a new master, during a crawl."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from crawlframe.conf import Settings
from crawlservice.models import Event, Generation
from crawlservice.monitoring import lives
from crawlservice.steward.steward import Steward
from tests.conftest import CHECKOUT
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, STOCK, OddWeb, wait_for
from tests.process.reload_project import Gate, NodeStarter, Project, View, is_gone, shop

pytestmark = pytest.mark.process

HAND_OVERS = int(os.environ.get("HAND_OVERS", "3"))  # `make soak` makes 20
PARTS = ("crawlframe", "crawlservice", "manage.py", "requirements.txt", ".gitignore")


@pytest.fixture
def database(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(getattr(request, "param", "sqlite"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A checkout that contains the framework too."""
    project = Project.make(tmp_path / "checkout")
    for name in PARTS:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, project.root / name)  # with the bytecode
        else:
            shutil.copy(source, project.root / name)
    project.commit()
    return project


@pytest.fixture
def node(odd_env: dict[str, str], starter: NodeStarter, project: Project) -> View:
    """A node of that checkout, ready."""
    odd_env["CRAWLFRAME_GRACE"] = "20"
    node = starter.node(project.env(odd_env), manage=project.root / "manage.py")
    node.ready()
    return node


def test_a_new_master_takes_over(
    node: View, starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    before, old_master = node.code.version, psutil.Process(node.node.pid)
    web.delays = gate = Gate()
    web.pages["/"] = [f"/held/{n}" for n in range(5)]
    web.pages.update({f"/held/{n}": [f"/late/{n}"] for n in range(5)})
    pk = node.start(web.url)
    node.until(lambda: web.hits.total() == 6)

    _append(project, "crawlframe/node/worker/worker.py", "# changed\n")
    source = shop("second").replace("url: str", "url: str, more: int = 0")
    project.write("shops/shop.py", source)
    after = project.commit()
    node.until(lambda: node.node.generation == 2 and node.code.seconds)
    assert node.crawl(f"{web.url}other") == "second"
    node.until(lambda: [life.leaving for life in node.nodes] == [True, False])
    assert {life.node for life in node.nodes} == {"one"}
    assert node.code.version == after
    gate.open()
    task = node.look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 12, 12, 0)
    assert max(web.hits.values()) == 1
    assert node.look.finishes(pk) == 1
    codes, versions = node.items(pk, 11), node.versions(pk)
    for n in range(5):
        assert (codes[f"/held/{n}"], versions[f"/held/{n}"]) == ("first", before)
        assert (codes[f"/late/{n}"], versions[f"/late/{n}"]) == ("second", after)
    node.until(lambda: is_gone(old_master))
    # The published spiders are the new master's; the old one publishes nothing at its end.
    assert "more" in node.look.frontier.spiders.all()["shop"].arguments["properties"]

    # The supervisor runs the new framework too, in the same process, and still watches.
    node.running.wait_for("the supervisor was re-executed")
    assert node.running.process.poll() is None
    assert psutil.Process(node.node.pid).ppid() == node.running.process.pid
    node.until(lambda: len(node.nodes) == 1)
    project.write("shops/shop.py", shop("third"))
    node.renewed(1)
    assert node.crawl(web.url + "other") == "third"
    assert node.node.generation == 2

    # Asked to stop during the start of a new master, all end.
    project.write("crawlservice/urls.py", "urlpatterns = []\n")
    node.until(lambda: node.running.output.count("a new master is started next to") == 2)
    node.until(lambda: len(_masters(node)) == 2)
    assert node.running.stop() == 0
    node.until(lambda: not starter.processes())
    assert node.look.frontier.audit() == []


@pytest.mark.long
@pytest.mark.timeout(3 * LONGEST_WAIT + 15 * HAND_OVERS)
def test_every_change_of_the_framework_goes_live(node: View, project: Project, web: OddWeb) -> None:
    """On a stock Redis, which causes warnings at each start of a master."""
    node.running.wait_for("keeps no append-only file" if STOCK else "generation 1")
    masters = {node.node.pid}
    for n in range(HAND_OVERS):
        _append(project, "crawlframe/node/worker/worker.py", f"# change {n}\n")
        node.until(lambda: node.node.pid not in masters and node.code.seconds)
        masters.add(node.node.pid)
        assert node.code.state == "live"
        assert node.crawl(f"{web.url}{n}") == "first"
    assert "is refused" not in node.running.output


MIGRATION = """from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("crawlservice", "{}")]
    operations = []
"""


@pytest.mark.postgres
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_framework_that_does_not_work_is_refused(
    node: View, starter: NodeStarter, project: Project, web: OddWeb, redis_url: str
) -> None:
    good = node.code.version
    master = node.node.pid
    for name, text, error in (
        ("crawlservice/settings.py", "nobody_knows_this\n", "NameError"),
        # Only the supervisor imports it.
        ("crawlframe/node/supervisor/watcher.py", "1 / 0\n", "ZeroDivisionError"),
    ):
        _append(project, name, text)
        code = node.refused(error)
        assert Path(name).name in code.problem
        assert "Traceback" in code.problem
        assert code.candidate.startswith(f"{good}+")
        assert (code.version, node.node.pid) == (good, master)
        assert node.crawl(web.url) == "first"
        # Back to the running code: no new master is needed.
        project.git("checkout", "--quiet", "--", ".")
        node.until(lambda: node.code.state == "live" and not node.code.problem)
        assert node.node.pid == master

    # Broken, then as before, but with another list of requirements: that goes live.
    _append(project, "crawlframe/node/worker/worker.py", "def (\n")
    assert "worker.py" in node.refused("SyntaxError").problem
    project.git("checkout", "--quiet", "--", ".")
    _append(project, "requirements.txt", "# another\n")
    node.until(lambda: node.node.pid != master and node.code.seconds)
    assert node.crawl(web.url) == "first"
    node.running.wait_for("the supervisor was re-executed")

    # A supervisor that would not work is found out before this one restarts as it.
    master = node.node.pid
    path = project.root / "crawlframe/node/supervisor/supervisor.py"
    sound = path.read_text()
    path.write_text(sound.replace("        self._code = code\n", "        1 / 0\n"))
    assert path.read_text() != sound
    node.until(lambda: node.node.pid != master and node.code.seconds)
    node.running.wait_for("the supervisor goes on as it is, the new one does not work")
    assert node.running.process.poll() is None
    assert node.crawl(web.url) == "first"
    path.write_text(sound)
    node.until(lambda: node.running.output.count("the supervisor was re-executed") == 2)

    # One that lacks tables comes when they do.
    master = node.node.pid
    place = project.root / "crawlservice/migrations"
    last = max(path.stem for path in place.glob("0*.py"))
    project.write("crawlservice/migrations/9999_more.py", MIGRATION.format(last))
    node.refused("run: python manage.py migrate")
    assert node.node.pid == master
    # As the command does with a migration that changes nothing.
    MigrationRecorder(connection).record_applied("crawlservice", "9999_more")
    node.until(lambda: node.node.pid != master and node.code.seconds)
    assert not node.code.problem
    assert node.crawl(web.url) == "first"

    # A node that is killed after a refused hand-over is missed.
    def fates() -> list[str]:
        return [*Generation.objects.order_by("pk").values_list("fate", flat=True)]

    master, before = node.node.pid, len(fates())
    project.write("shops/shop.py", "def (\n")
    _append(project, "crawlframe/node/worker/worker.py", "# changed\n")
    node.until(lambda: len(fates()) > before and fates()[-1] == "left")
    assert fates()[-2:] == ["", "left"], "the old master goes on"
    assert node.node.pid == master
    starter.end()
    steward = Steward(Settings(lease=3), node.look.frontier)

    def missed() -> bool:
        steward.tick()
        return bool(lives.offline())

    with redis_at(redis_url):
        wait_for(missed)
    (life,) = lives.offline()
    assert (life.node, life.pid) == ("one", master)
    assert [*Event.objects.filter(kind="node_offline").values_list("node", flat=True)] == ["one"]


def _append(project: Project, name: str, text: str) -> None:
    path = project.root / name
    path.write_text(path.read_text() + text)


def _masters(node: View) -> list[psutil.Process]:
    masters = []
    for child in psutil.Process(node.running.process.pid).children():
        try:
            if "--supervised" in child.cmdline():
                masters.append(child)
        except psutil.NoSuchProcess:  # a git that has answered
            continue
    return masters
