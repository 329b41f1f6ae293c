"""Windows: a setting of spiders, and an order for a host, wherever a wait is shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from crawlframe.frontier import Completion, Frontier, TaskLimits
from crawlframe.request.request import Admission, make_rid
from crawlframe.spider.politeness_bounds import Bound, rougher
from crawlframe.spider.settings import SpiderSettings
from crawlservice.hosts import orders
from crawlservice.hosts.orders import BadOrder
from crawlservice.ledger.recovery import renew
from crawlservice.models import Host, Task
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.stored_limits import limits_as_written, limits_of, stored_limits
from crawlservice.tasks.submit import submit
from tests.crawlservice import test_api_hosts
from tests.crawlservice.programs import Program
from tests.crawlservice.test_api_hosts import run
from tests.crawlservice.test_hosts import NAME, WHO, now_of, told

caller = test_api_hosts.caller  # a fixture


def closed() -> str:
    """A window that opens in two hours, and closes after one."""
    opens = int(time.time()) // 60 % 1440 + 120
    return "-".join(f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in (opens, opens + 60))


def test_the_setting_reaches_the_frontier_and_is_shown(published: Frontier) -> None:
    window = "22:00-06:00 Europe/Berlin"
    kept = stored_limits(SpiderSettings(window=window))
    row = Task(settings=kept)
    assert limits_of(row).gates == {"window": window}
    assert limits_as_written(row)["window"] == window
    assert "window" not in stored_limits(SpiderSettings())


def test_a_task_may_not_leave_the_window_of_its_spider() -> None:
    own = SpiderSettings(window="22:00-06:00")
    bound = {"window": Bound("fixed", "22:00-06:00")}
    assert (
        rougher(own, SpiderSettings()) == rougher(own, SpiderSettings(window="1:00-9:00")) == bound
    )
    assert rougher(SpiderSettings(), own) == {}


def test_a_task_of_which_all_is_closed_says_so_everywhere(
    caller: Program, published: Frontier, as_role: Callable[[str], Client]
) -> None:
    task = submit("shop", {"city": "Ulm"})
    (root,) = published.claim(1, 1, 10).requests
    page = Admission(make_rid(task.pk, b"x"), 0, NAME, 0, b"x")
    published.complete([Completion(root.rid, task.pk, root.host, False, [page])])
    assert read([task])[0].wait is None
    orders.order(NAME, WHO, rules={"window": closed()})
    wait = read([task])[0].wait
    assert wait is not None
    assert (wait.why, wait.host) == ("window", NAME)
    assert "shop.example: outside of its window, until " in run("show", str(task.pk), noun="task")
    shown = caller.get(f"tasks/{task.pk}").json()["wait"]
    assert (shown["why"], shown["host"]) == ("window", NAME)
    assert caller.get(f"hosts/{NAME}").json()["why"] == "window"
    assert published.standstill() == (None, {task.pk: wait})
    browser = as_role("viewer")
    for name in ("index", "crawlservice_task_changelist", "crawlservice_task_change"):
        place = reverse(f"admin:{name}", args=[task.pk] if name.endswith("_change") else [])
        text = browser.get(place, follow=True).content.decode()
        assert "shop.example: outside of its window, until " in text, name


def test_an_order_holds_and_survives_an_era(service: Frontier) -> None:
    window = closed()
    service.open_task(5, TaskLimits(), [Admission(make_rid(5, b"x"), 0, NAME, 0, b"x")])
    orders.order(NAME, WHO, rules={"window": window})
    assert service.claim(1, 1, 10).requests == []
    assert told() == [("order host", {"host": NAME, "window": window} | WHO)]
    assert Host.objects.get().gates == {"window": window}
    now = now_of()
    assert (now.condition, now.state.why) == ("waiting", "window")
    assert 3_500 < now.closed < 2 * 3600
    text = run("show", NAME)
    assert "outside of its window, until " in text
    assert f"window {window}" in text
    kept = service.store.redis.hget(service.store.keys[0]("HOST", NAME), "og")
    service.store.redis.flushall()
    renew(service, lambda: None, "a test")
    assert service.store.redis.hget(service.store.keys[0]("HOST", NAME), "og") == kept
    orders.resume(NAME, WHO)
    assert now_of().host.gates == {"window": window}, "a resume ends pauses and rests only"
    orders.clear(NAME, WHO)
    assert (Host.objects.get().gates, now_of().state.order) == ({}, None)


def test_the_command_orders_a_window(service: Frontier) -> None:
    assert "window 22:00-06:00" in run("set", NAME, "--window", "22:00-06:00")
    assert json.loads(run("show", NAME, "--json"))["rules"] == {"window": "22:00-06:00"}
    with pytest.raises(Exception, match="no time zone 'Berlin' here"):
        run("set", NAME, "--window", "22:00-06:00 Berlin")


@pytest.mark.parametrize(
    ("rules", "field", "words"),
    [
        ({"window": "night"}, "window", "write it as in"),
        ({"moon": "full"}, "rules", "moon is no rule that can be ordered; there are: window"),
        ({"window": ""}, "delay", "give a delay, a concurrency or a window; or clear the order"),
    ],
)
def test_bad_rules_are_refused(
    service: Frontier, rules: dict[str, str], field: str, words: str
) -> None:
    with pytest.raises(BadOrder, match=words) as caught:
        orders.order(NAME, WHO, rules=rules)
    assert caught.value.field == field
