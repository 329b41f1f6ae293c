"""The services that Django provides to the engine: the numbers of its lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from redis.exceptions import ConnectionError as RedisAway

from crawlframe.base import processes
from crawlframe.conf import Settings
from crawlframe.errors import EraChanged
from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.frontier.cluster.leases import Leases
from crawlframe.node.code import Code
from crawlframe.node.master.generation import begin
from crawlservice.ledger.recovery import renew
from crawlservice.models import Event, Generation
from crawlservice.monitoring import lives
from crawlservice.services import DjangoServices

ME = NodeInfo(0, "one", "one.example", "place", 4711, 0.0, 2, 15)


def test_a_number_that_the_database_gives_again_is_not_taken(
    service: Frontier, redis_url: str
) -> None:
    """The database lost the rows of two lives: one still runs, and one was declared dead."""
    renew(service)
    service.leases.renew(1, 15)
    service.leases.replay(2)
    services = DjangoServices(Settings(), redis_url, Code(Path("spiders"), Path("manage.py")))
    assert begin(ME, services, service).generation == 3
    assert service.leases.left().keys() == {1, 3}
    assert [life.pk for life in Generation.objects.all()] == [3, 2, 1]
    service.eras.doubt()
    with pytest.raises(EraChanged):
        begin(ME, services, service)


@pytest.mark.parametrize(("known", "fate"), [(True, ""), (False, "replaced")])
def test_the_life_of_a_master_that_is_known_to_live_beside_goes_on(
    service: Frontier, redis_url: str, known: bool, fate: str
) -> None:
    """Such as the life of a master that hands over; one that was killed is replaced."""
    renew(service)
    services = DjangoServices(Settings(), redis_url, Code(Path("spiders"), Path("manage.py")))
    pid = os.getppid() if known else 2**22 + 1
    here = replace(ME, place=processes.place())
    other = replace(here, pid=pid, born=processes.born(os.getppid()))
    old = begin(other, services, service).generation
    assert begin(here, services, service, [pid] if known else []).generation == old + 1
    fates = [*Generation.objects.order_by("pk").values_list("fate", flat=True)]
    assert fates == [fate, ""]


@pytest.mark.parametrize("verb", ["left", "renew", "announce"])
@pytest.mark.parametrize("error", [RedisAway("gone"), EraChanged("LOST")], ids=["redis", "era"])
def test_a_life_that_redis_did_not_take_is_not_missed(
    service: Frontier, redis_url: str, monkeypatch: pytest.MonkeyPatch, verb: str, error: Exception
) -> None:
    """The process may be stopped before it tries again."""
    renew(service)
    services = DjangoServices(Settings(), redis_url, Code(Path("spiders"), Path("manage.py")))
    real = getattr(Leases, verb)

    def fail(leases: Leases, *args: object) -> object:
        if Generation.objects.exists():
            raise error
        return real(leases, *args)

    with monkeypatch.context() as broken:
        broken.setattr(Leases, verb, fail)
        with pytest.raises(type(error)):
            begin(ME, services, service)
    life = Generation.objects.get()
    assert (life.fate, life.ended_at is None) == ("left", False)
    assert not lives.die(life.pk, 0)
    assert not Event.objects.exists()
    assert begin(ME, services, service).generation == life.pk + 1


SUPERVISOR = "import sys, crawlservice.cli.supervise"
# Modules that workers, too, have imported when they are forked.
MASTER = """import sys, threading, django; django.setup()
import crawlframe.node.master.master, crawlservice.management.commands.runcrawler
from crawlservice.connections.watch import watch
with watch(60.0): assert threading.active_count() == 1"""
SPIDER = """import sys; from crawlframe import Spider
from crawlframe.node.worker import run_request
from crawlframe.spider.spider import describe
from crawlframe.testing import make_response, run
class Plain(Spider):
    name = "plain"
    def parse(self, response):
        yield {"a": 1}
describe(Plain)
response = make_response(html="<p>")
assert run(Plain, response).items == [{"a": 1}] and response.article and response.tree"""
COMMAND = """import sys, django; django.setup()
from crawlservice.cli.task.table import ListTasks"""
UNUSED = """attr django.contrib.admin django.contrib.sessions itemadapter jsonschema ninja pandas
psycopg2 pydantic regex rich scrapy tomllib twisted unfold"""


@pytest.mark.parametrize(
    ("program", "unused"),
    [
        (
            SUPERVISOR,
            f"{UNUSED} cryptography django.db crawlservice.models lxml pycurl redis "
            "crawlframe.spider crawlframe.response email importlib.metadata",
        ),
        (MASTER, f"{UNUSED} crawlservice.steward crawlframe.scrapy boto3 playwright"),
        (
            COMMAND,
            f"{UNUSED.replace('rich', '')} cryptography redis lxml pycurl crawlframe.response "
            "crawlframe.spider.spider crawlservice.migrations.0001_initial",
        ),
        (
            SPIDER,
            f"{UNUSED} django requests web_poet andi itemloaders trafilatura resiliparse "
            "crawlframe.spider.page_objects "
            "crawlframe.response.forms crawlframe.items.item_type crawlframe.markup.microdata",
        ),
        (f"{MASTER}\nimport crawlservice.steward.steward; watch(1)", "psycopg2 rich pydantic"),
    ],
    ids=["supervisor", "master", "command", "spider", "steward"],
)
def test_what_is_not_used_is_not_imported(tmp_path: Path, program: str, unused: str) -> None:
    """Nor is there a thread for the watch of SQLite, before a fork."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "crawlservice.node_settings",
        "DATABASE_URL": f"sqlite:///{tmp_path}/db.sqlite3",
    }
    code = f"{program}\nprint(*sys.modules.keys() & {{*{unused.split()}}})"
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split() == []
