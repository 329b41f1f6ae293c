"""Fixtures of the service: Django on a fresh database, its frontier on an empty Redis.

Models are imported inside, because pytest may read this file before Django is set up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from msgspec.structs import replace
from redis import Redis

from crawlframe.frontier import Frontier, NodeInfo
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.request.request import Admission, make_rid, pack_admissions
from crawlframe.spider.spider import Spider, SpiderInfo, describe

if TYPE_CHECKING:
    from django.test import Client

    from crawlservice.models import Page, Task


class Shop(Spider):
    """A spider that is published but never run here."""

    name = "shop"
    settings = {"delay": 1.5, "concurrency": 3, "page_limit": 100}

    def start(self, city: str, pages: int = 1) -> Any: ...


@contextmanager
def redis_at(url: str) -> Iterator[None]:
    """Makes ``frontier()`` of this process use this server."""
    from django.test import override_settings

    from crawlservice.connections import frontier

    frontier._frontiers.clear()
    with override_settings(REDIS_URL=url):
        yield
    frontier._frontiers.clear()


@pytest.fixture
def receiver(settings_with: Callable[..., None]) -> Iterator[Any]:
    """A receiver of messages on this machine, to which the service may send."""
    from django.conf import settings

    from tests.crawlservice.receiver import Receiver

    loopback = (ip_network("127.0.0.0/8"),)
    settings_with(CRAWLFRAME=dataclasses.replace(settings.CRAWLFRAME, webhook_private=loopback))
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def shop() -> SpiderInfo:
    return describe(Shop)


@pytest.fixture(autouse=True)
def forgetful() -> None:
    """Clears the caches of earlier tests."""
    from crawlservice.alerts import dashboard_summary
    from crawlservice.connections.contained import failures
    from crawlservice.monitoring import charts, overview, owners

    for cached in (
        dashboard_summary.snapshot,
        overview.snapshot,
        overview.hosts,
        charts.of_cluster,
        owners.owners,
    ):
        cached.clear()
    failures._rows.clear()
    owners._last.clear()


@pytest.fixture
def service(orm: str, redis_client: Redis, redis_url: str) -> Iterator[Frontier]:
    """Empty servers for the models and ``frontier()`` of this process; returns the frontier."""
    from crawlservice.connections.frontier import frontier

    with redis_at(redis_url):
        yield frontier()


@pytest.fixture
def few_chores(service: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stewards look after nodes, tasks and hosts only: other chores take most of a round."""
    from crawlservice.chores import chore

    monkeypatch.setattr(chore, "FEATURES", ("steward", "tasks", "hosts", "ledger"))


@pytest.fixture
def published(service: Frontier, shop: SpiderInfo) -> Frontier:
    """The frontier after a node published the spider ``shop``."""
    service.spiders.publish([shop])
    return service


@pytest.fixture
def join(service: Frontier) -> Callable[..., int]:
    """Makes a node join the cluster: ``join("alpha", version="1f00", workers=3, ...)`` ->
    generation. Keywords are fields of CodeState and NodeInfo; ``lease`` is in seconds."""
    from crawlservice.models import Generation

    def add(name: str, lease: float = 15, **fields: Any) -> int:
        code = {key: fields.pop(key) for key in CodeState.__struct_fields__ if key in fields}
        life = Generation.objects.create(node=name, machine=f"{name}.example", pid=4711)
        info = NodeInfo(life.pk, name, life.machine, "place", 4711, 0.0, 2, lease)
        if lease > 0:
            service.leases.renew(life.pk, lease)
        service.leases.announce(replace(info, code=CodeState(**code), **fields))
        return life.pk

    return add


@pytest.fixture
def as_role(service: Frontier) -> Callable[[str], Client]:
    """A browser in which a user of this role is logged in; the user is named after the role."""
    from django.contrib.auth.models import User
    from django.test import Client

    from crawlservice.accounts.roles import give_role

    def enter(role: str) -> Client:
        user = User.objects.create_user(role)
        give_role(user, role)
        client = Client(SERVER_NAME="localhost")
        client.force_login(user)
        return client

    return enter


@pytest.fixture
def dead_redis(service: Frontier) -> Iterator[None]:
    """Replaces Redis by an address where nothing answers."""
    with redis_at("redis://127.0.0.1:1/0"):
        yield


@pytest.fixture
def add_page() -> Callable[..., Page]:
    """Adds a ledger row with its items: ``add_page(task, fingerprint, items=[...], ...)``."""
    from crawlservice.models import Item, Page

    def add(
        task: Task,
        fingerprint: bytes,
        items: Sequence[Any] = (),
        follow_ups: Sequence[bytes] = (),
        **fields: Any,
    ) -> Page:
        rid = UUID(bytes=make_rid(task.pk, fingerprint))
        admissions = [Admission(make_rid(task.pk, name), 0, "h", 0, b"") for name in follow_ups]
        row = {
            "url": f"http://shop.example/{fingerprint.decode()}",
            "callback": "parse",
            "state": Page.State.DONE,
            "depth": 0,
            "attempts": 0,
            "deliveries": 0,
            "size": 100,
            "fetch_ms": 1,
            "items": len(items),
            "follow_ups": pack_admissions(admissions) if admissions else None,
        }
        page = Page.objects.create(task=task, rid=rid, **row | fields)
        Item.objects.bulk_create(
            Item(task=task, rid=rid, ordinal=n, data=data) for n, data in enumerate(items)
        )
        return page

    return add


@pytest.fixture
def ended_task(published: Frontier, add_page: Callable[..., Page]) -> Task:
    """A finished task in good order: start -> a, b; two items of a, an error of b."""
    from django.utils import timezone

    from crawlservice.models import Event, Page, Task
    from crawlservice.tasks.submit import submit

    task = submit("shop", {"city": "Ulm"})
    add_page(task, b"start", follow_ups=[b"a", b"b"], url="start:", callback="start")
    add_page(task, b"a", items=[{"n": 1}, {"n": 2}])
    add_page(task, b"b", state=Page.State.ERROR, reason="http_404", detail="answered 404")
    task.state, task.finished_at = Task.State.FINISHED, timezone.now()
    task.na, task.nf, task.ne, task.items = 3, 2, 1, 2
    task.outcome = Task.Outcome.FINISHED_WITH_ERRORS
    task.reason = "1 of 2 pages ended in error, all http_404"
    task.save()
    told = {"outcome": task.outcome, "reason": task.reason}
    Event.objects.create(task=task, kind=task.state, **told)
    return task
