"""Installations: a Redis is only used with one database."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from redis import Redis

from crawlframe.base import processes
from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.node.code import Code
from crawlframe.node.master.generation import begin
from crawlframe.request.request import pack_admissions, root_admission
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections import frontier as module
from crawlservice.connections import installation
from crawlservice.connections.installation import OtherInstallation, check, of_database
from crawlservice.ledger.recovery import is_whole, renew
from crawlservice.models import Action, Era, Generation, Installation, Task
from crawlservice.services import DjangoServices
from crawlservice.steward.steward import Steward
from crawlservice.tasks.submit import submit
from tests.conftest import CHECKOUT, NewDatabase, django_on
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import texts

ME = NodeInfo(0, "one", "one.example", "place", 4711, 0.0, 2, 15)
THEIRS = str(uuid4())


@pytest.fixture
def foreign(published: Frontier) -> Frontier:
    """Redis belongs to the database of another installation, which has used it."""
    renew(published)
    published.eras.belong_to(THEIRS, instead=True)
    module._next_check.clear()
    return published


def run(verb: str = "show", *options: str) -> str:
    out = StringIO()
    call_command("store", verb, *options, stdout=out)
    return out.getvalue()


def services(redis_url: str) -> DjangoServices:
    return DjangoServices(Settings(), redis_url, Code(CHECKOUT / "spiders", CHECKOUT / "manage.py"))


def test_a_redis_belongs_to_the_first_database_that_uses_it(service: Frontier) -> None:
    mine = of_database()
    assert service.eras.installation() == mine == check(service)
    service.store.redis.flushall()
    assert check(service, mine) == mine == service.eras.installation()
    assert service.eras.belong_to(THEIRS) == mine, "the first one stays"
    renew(service, mistrust="all of it is dropped")
    assert service.eras.installation() == mine


def test_a_database_without_an_id_gets_one_outside_of_transactions(service: Frontier) -> None:
    Installation.objects.all().delete()
    service.store.redis.flushall()
    with transaction.atomic():
        assert check(service) == ""
    assert service.eras.installation() == ""
    assert check(service) == of_database() == service.eras.installation() != ""


def test_the_refusal_names_both_and_what_to_do(foreign: Frontier) -> None:
    with pytest.raises(OtherInstallation) as refused:
        check(foreign)
    for words in (THEIRS, of_database(), "'cf'", "CRAWLFRAME_KEY_PREFIX", "store take-over"):
        assert words in str(refused.value)


def test_no_life_begins_there(foreign: Frontier, redis_url: str) -> None:
    with pytest.raises(FrontierError, match=THEIRS):
        begin(ME, services(redis_url), foreign)
    assert not Generation.objects.exists()
    assert foreign.leases.left() == {}


def test_a_steward_takes_no_part_there(foreign: Frontier) -> None:
    task = Task.objects.create(spider="shop", seeds=b"\x90")
    steward = Steward(Settings(), foreign)
    steward.tick()
    assert THEIRS in steward._trouble
    assert not foreign.store.redis.exists("cf:steward"), "it would keep theirs from leading"
    assert not foreign.is_open(task.pk)


def test_nothing_is_submitted_there(foreign: Frontier, shop: SpiderInfo) -> None:
    with pytest.raises(OtherInstallation, match="Nothing was submitted"):
        submit("shop", {"city": "Ulm"})
    answer = program(person("submitter")).post(
        "tasks", {"spider": "shop", "arguments": {"city": "Ulm"}}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "other_installation")
    assert THEIRS in answer.json()["error"]["message"]
    assert not Task.objects.exists()
    assert foreign.open_tasks() == []


def test_the_web_shows_a_foreign_redis(foreign: Frontier, as_role: Callable[[str], Client]) -> None:
    client = as_role("operator")
    assert client.get("/healthz").json() == {
        "database": True, "redis": True, "installation": False,
    }  # fmt: skip
    assert client.get("/readyz").status_code == 503
    page = client.get("/admin/").content.decode()
    (note,) = texts(page, ".cf-note")
    assert THEIRS in note
    assert THEIRS in client.get("/admin/crawlservice/generation/").content.decode()
    with pytest.raises(CommandError, match=THEIRS):
        call_command("node", "list")


def test_a_thread_that_used_it_before_notices(
    published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK", 0.0)
    module._next_check.clear()
    module.frontier()
    published.eras.belong_to(THEIRS, instead=True)
    with pytest.raises(OtherInstallation):
        module.frontier()


def test_taking_over_drops_what_was_there_and_fills_it_again(
    foreign: Frontier, redis_client: Redis
) -> None:
    seeds = pack_admissions([root_admission(1, 0)])
    task = Task.objects.create(spider="shop", seeds=seeds, settings={})
    foreign.leases.replay(1)  # numbers of theirs that are fenced are ours to give
    with pytest.raises(CommandError, match="they differ"):
        run()
    assert of_database() in run("take-over")
    assert foreign.eras.installation() == of_database()
    assert (foreign.spiders.all(), redis_client.exists("cf:{0}:fenced")) == ({}, 0)
    assert not is_whole(foreign)
    assert [action.verb for action in Action.objects.all()] == ["take over redis"]
    with pytest.raises(FrontierError, match="ERA"):
        Frontier(PartitionedStore(redis_client)).leases.renew(7, 10)  # of the foreign era
    Steward(Settings(), foreign).tick()
    assert is_whole(foreign)
    assert foreign.is_open(task.pk)
    assert THEIRS in Era.objects.get(number=2).reason
    run("take-over")  # it is ours: nothing happens
    assert Action.objects.count() == 1


def test_a_redis_without_an_id_is_taken_over_from_an_unknown_installation(
    service: Frontier, redis_client: Redis
) -> None:
    redis_client.flushall()
    run("take-over")
    (era,) = Era.objects.all()
    assert era.reason == "Redis was taken over from installation unknown"


def test_it_is_not_taken_from_nodes_that_live(foreign: Frontier) -> None:
    foreign.leases.renew(1, 60)
    foreign.leases.announce(NodeInfo(1, "alpha", "m", "elsewhere", 1, 0.0, 2, 60))
    with pytest.raises(CommandError, match="alpha"):
        run("take-over")
    assert foreign.eras.installation() == THEIRS
    assert foreign.spiders.all()


def test_a_copy_of_a_database_gets_an_id_of_its_own(service: Frontier) -> None:
    before = of_database()
    assert "would give this database a new id" in run("new-id", "--dry-run")
    assert of_database() == before
    assert "they differ" in run("new-id"), "what was asked for is done"
    assert of_database() not in (before, "")
    assert service.eras.installation() == before
    detail = Action.objects.get(verb="renew installation").detail
    assert detail == {"command": True, "before": before, "after": of_database()}


def test_no_new_id_while_nodes_live_with_the_present_one(service: Frontier) -> None:
    """Production would stop; a copy has to leave production's Redis first."""
    before = of_database()
    service.leases.renew(1, 60)
    service.leases.announce(NodeInfo(1, "alpha", "m", "elsewhere", 1, 0.0, 2, 60))
    with pytest.raises(CommandError, match=r"alpha.*nothing was changed.*REDIS_URL"):
        run("new-id", "--dry-run")
    with pytest.raises(CommandError, match="alpha"):
        run("new-id")
    assert of_database() == before
    assert not Action.objects.exists()
    service.eras.belong_to(THEIRS, instead=True)  # nodes of others
    run("new-id")
    assert of_database() != before


def test_a_private_redis_follows_its_database(
    foreign: Frontier, settings_with: Callable[..., None]
) -> None:
    """As in a checkout whose database file was deleted by hand; a node that was killed with it
    still has a lease."""
    settings_with(REDIS_URL="")
    foreign.leases.renew(1, 60)
    foreign.leases.announce(NodeInfo(1, "alpha", "m", processes.place(), 2**22 + 1, 1.0, 2, 60))
    assert check(foreign) == of_database() == foreign.eras.installation()
    assert foreign.spiders.all() == {}


def test_a_private_redis_on_which_others_live_is_refused(
    foreign: Frontier, settings_with: Callable[..., None]
) -> None:
    settings_with(REDIS_URL="")
    foreign.leases.renew(1, 60)
    with pytest.raises(OtherInstallation):
        check(foreign)


def test_to_look_makes_no_database(
    redis_url: str, redis_client: Redis, new_database: NewDatabase
) -> None:
    url = new_database("sqlite", empty=True)
    with django_on(url), redis_at(redis_url):
        assert module.frontier().eras.installation() == ""
        assert installation.of_database() == ""
