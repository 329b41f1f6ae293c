"""Items in the tables of an app of the team's own, while nodes are killed and tables migrated."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from psycopg2 import connect

from crawlservice.models import RowDelivery
from tests.conftest import CHECKOUT
from tests.process.conftest import OddWeb
from tests.process.reload_project import Gate, NodeStarter, Project, View

pytestmark = [pytest.mark.process, pytest.mark.postgres]

MODELS = """\
from crawlframe import Upsert
from django.db import models


class House(models.Model):
    url = models.TextField(unique=True)
    code = models.TextField()
{more}
"""
ROOMS = "    rooms = models.IntegerField()\n"
SPIDER = """\
from crawlframe import Request, Spider
from estate.models import House


class Shop(Spider):
    name = "shop"

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        yield House(url=response.url, code="{code}"{values})
        yield from response.follow_all(response.links())
"""

MIGRATION = """\
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("estate", "0001_initial")]
    operations = [
        migrations.AddField(
            "house", "rooms", models.IntegerField(default=0), preserve_default=False
        )
    ]
"""


MAKE = """\
from django.core.management import call_command
call_command("makemigrations", "estate", verbosity=0)
call_command("migrate", "estate", verbosity=0)
"""


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("postgres")


class Team:
    """The team's checkout, with its app and the commands that it types."""

    def __init__(self, project: Project, env: dict[str, str]) -> None:
        self.project = project
        self.env = project.env(env, CRAWLFRAME_APPS="estate")
        project.write("estate/__init__.py", "")
        project.write("estate/migrations/__init__.py", "")

    def change(self, code: str, more: str = "", values: str = "") -> None:
        self.project.write("estate/models.py", MODELS.format(more=more))
        self.project.write("shops/shop.py", SPIDER.format(code=code, values=values))

    def manage(self, *words: str) -> None:
        command = [sys.executable, str(CHECKOUT / "manage.py"), *words]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def rows() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT url, code FROM estate_house")
        return dict(cursor.fetchall())


def test_rows_are_exact_though_workers_die_and_the_table_is_migrated(
    starter: NodeStarter, odd_env: dict[str, str], tmp_path: Path, web: OddWeb
) -> None:
    team = Team(Project.make(tmp_path / "checkout"), odd_env)
    team.change("first")
    team.manage("shell", "--no-imports", "-c", MAKE)
    team.project.commit()
    node = starter.node(team.env)
    node.ready()

    held = [f"/held/{n}" for n in range(20)]
    web.pages["/"] = [*(f"/{n}" for n in range(60)), *held]
    web.delays = gate = Gate()
    pk = node.start(web.url)
    node.until(lambda: len(rows()) == 61)
    _kill_a_worker(node)  # its requests are fetched again

    # The new code needs a column that the table does not have.
    old = node.node.pid
    team.change("second", ROOMS, ", rooms=3")
    node.refused("models of estate have changes without a migration")
    team.project.write("estate/migrations/0002_rooms.py", MIGRATION)
    team.project.commit()
    node.refused("run: python manage.py migrate")
    assert node.node.pid == old

    # From then on the old code cannot insert, and its results wait for the new code.
    team.manage("migrate", "--verbosity", "0")
    gate.open()
    task = node.look.wait(pk)
    assert (task.state, task.na, task.nf, task.ne) == ("finished", 82, 82, 0)
    found = rows()
    assert len(found) == 81
    assert {found[f"{web.url}held/{n}"] for n in range(20)} == {"second"}
    assert node.look.frontier.audit() == []


def _kill_a_worker(node: View) -> None:
    node.children()[-1].send_signal(signal.SIGKILL)


def test_rows_reach_another_database_though_leaders_die(
    starter: NodeStarter,
    odd_env: dict[str, str],
    tmp_path: Path,
    web: OddWeb,
    new_database: Callable[..., str],
) -> None:
    """Killed just before and just after the other database has committed a batch."""
    warehouse = new_database("postgres", empty=True)
    team = Team(Project.make(tmp_path / "checkout"), odd_env)
    team.env |= {
        "CRAWLFRAME_APPS": "estate@warehouse",
        "CRAWLFRAME_DATABASES": f"warehouse={warehouse}",
        "FAULT": "rows.delivery.before:1:kill,rows.delivery.after:1:kill",
        "FAULT_MARKS": str(tmp_path / "marks"),
    }
    (tmp_path / "marks").mkdir()
    team.change("first", more="    upsert = Upsert(on='url')\n")
    team.manage("shell", "--no-imports", "-c", MAKE)
    team.project.commit()
    command = [sys.executable, str(CHECKOUT / "manage.py"), "runcrawler"]
    done = subprocess.run(command, env=team.env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "migrate estate --database warehouse" in done.stderr
    team.manage("migrate", "estate", "--database", "warehouse", "--verbosity", "0")
    node = starter.node(team.env)
    node.ready()

    web.pages["/"] = [f"/{n}" for n in range(60)]
    pk = node.start(web.url)
    task = node.look.wait(pk)
    assert (task.state, task.nf) == ("finished", 62)
    node.until(lambda: not RowDelivery.objects.exists())
    with connect(warehouse) as there, there.cursor() as cursor:
        cursor.execute("SELECT url, code FROM estate_house")
        found = cursor.fetchall()
    assert len(found) == len(dict(found)) == 61
    assert len([*(tmp_path / "marks").iterdir()]) == 2
