"""Hosts in the admin: the list, the page of one, the confirmations, and the limits of a task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from crawlframe.frontier import Frontier
from crawlframe.frontier.hosts import HostOrder, HostState
from crawlservice.accounts.roles import ROLES
from crawlservice.admin.hosts.hosts import DECISIONS
from crawlservice.alerts import dashboard_summary
from crawlservice.alerts.chores import AlertMonitor
from crawlservice.connections import clock
from crawlservice.hosts.chores import look_after
from crawlservice.hosts.host_labels import pace, speed, why
from crawlservice.hosts.states import HostNow, read
from crawlservice.models import Action, Host, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.test_api_hosts import NAME, busy
from tests.crawlservice.test_hosts import hold
from tests.crawlservice.web import cells, login, login_as, look, texts, tiles

LIST = "/admin/crawlservice/host/"


@pytest.fixture
def admin(published: Frontier) -> Client:
    return login(is_superuser=True)


def place(host: Host, part: str = "change") -> str:
    return f"{LIST}{host.pk}/{part}/"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (HostState(), ""),
        (HostState(delay=0), "No task"),
        (HostState(delay=1.5), "The tasks decide: 1.5 s"),
        (HostState(delay=0.1, gap=0.4), "The adaptive rate decides: 0.4 s"),
        (HostState(delay=10, robots_delay=10), "Its robots.txt decides: it asks for 10 s"),
        (HostState(delay=10, gap=10, robots_delay=10), "Its robots.txt decides"),
        (HostState(delay=0, order=HostOrder(delay=0)), "An operator's order decides: 0 s"),
        (HostState(delay=7, order=HostOrder(delay=7)), "An operator's order decides: 7 s"),
        (HostState(delay=9, robots_delay=9, order=HostOrder(delay=7)), "Its robots.txt"),
        (HostState(delay=3, order=HostOrder(concurrency=2)), "The tasks decide: 3 s"),
    ],
)
def test_the_page_says_what_decides_the_rate(state: HostState, words: str) -> None:
    told = pace(HostNow(Host(), state, True, 0.0))
    assert told.startswith(words)
    assert bool(told) == bool(words)


# -- the list --------------------------------------------------------------------------------------


def test_states_are_told_in_plain_words(admin: Client, published: Frontier) -> None:
    names = ["a", "b", "c", "d", "e", "f", NAME]
    Host.objects.bulk_create(Host(name=name) for name in names)
    soon = timezone.now().timestamp() + 600
    hold(published, "a", "refused", soon)
    hold(published, "b", "blocked")
    hold(published, "c", "asked", soon + 90_000)
    hold(published, "d", "unreachable", soon)
    published.hosts.order("e", HostOrder(paused=True))
    published.hosts.robots("f", wait=600)
    busy(published)
    page = look(admin, LIST)
    found = dict(zip(cells(page, "name"), cells(page, "condition"), strict=True))
    words = {
        "a": "restingafter a refusal (429 or 503), until ",
        "b": "heldit blocks, until an operator resumes it",
        "c": "heldit asked for a long wait, until 20",
        "d": "restingafter time-outs or refused connections, until ",
        "e": "pauseduntil an operator resumes it",
        "f": "robots.txtits robots.txt cannot be read, until ",
        NAME: "waitingfor its delay, ",
    }
    for name, text in words.items():
        assert found[name].startswith(text), name
    assert cells(page, "robots")[names[::-1].index("f")] == "unreachable"
    rates = dict(zip(cells(page, "name"), cells(page, "allowed"), strict=True))
    assert (rates[NAME], rates["a"]) == ("0.667/s", "-")
    queues = dict(zip(cells(page, "name"), cells(page, "queued"), strict=True))
    assert queues[NAME] == "3"


def test_without_redis_the_list_shows_what_is_recorded(admin: Client) -> None:
    Host.objects.create(name=NAME, pages=1234, errors=5, last_status=200, latency_ms=17.4)
    with redis_at("redis://127.0.0.1:1/0"):
        page = look(admin, LIST)
        single = look(admin, place(Host.objects.get()))
    assert cells(page, "shown_pages") == ["1,234"]
    assert cells(page, "latency") == ["17 ms"]
    assert "Redis does not answer" in cells(page, "condition")[0]
    assert "Redis does not answer" in single


def test_the_list_is_searched_filtered_and_paged(admin: Client) -> None:
    Host.objects.bulk_create(Host(name=f"h{n:03}.example", errors=n // 59) for n in range(60))
    Host.objects.filter(name="h007.example").update(held_why="asked")
    Host.objects.filter(name="h008.example").update(paused=True, ordered_at=timezone.now())

    def names(query: str) -> list[str]:
        return [name[:4] for name in cells(look(admin, LIST + query), "name")]

    assert names("")[:2] == ["h059", "h058"]
    assert len(names("")) == 50
    last = Host.objects.get(name="h010.example").pk
    assert names(f"?before={last}") == [f"h{n:03}" for n in range(9, -1, -1)]
    assert names("?q=H00")[0] == "h009"
    assert names("?q=.example") == []
    for which, found in (
        ("held", ["h007"]), ("paused", ["h008"]), ("ordered", ["h008"]), ("errors", ["h059"]),
    ):  # fmt: skip
        assert names(f"?which={which}") == found
    assert names("?which=odd") == []


def test_the_number_of_queries_does_not_grow(admin: Client, published: Frontier) -> None:
    def count() -> tuple[int, int]:
        before = published.store.redis.info("stats")["total_commands_processed"]
        with CaptureQueriesContext(connection) as queries:
            look(admin, LIST)
        after = published.store.redis.info("stats")["total_commands_processed"]
        return len(queries), after - before

    Host.objects.create(name="first.example")
    look(admin, LIST)
    few = count()
    Host.objects.bulk_create(Host(name=f"h{n}.example") for n in range(200))
    many = count()
    assert few[0] == many[0]
    assert many[1] - few[1] < 150, "two reads within one script for each of 50 rows, one call"


def test_several_hosts_at_once(admin: Client, published: Frontier) -> None:
    hosts = [Host.objects.create(name=f"{name}.example") for name in "ab"]
    for action, paused in (("pause", True), ("resume", False)):
        data = {"action": action, "_selected_action": [host.pk for host in hosts]}
        page = admin.post(LIST, data, follow=True).content.decode()
        assert f"Hosts {action}d: 2" in page
        assert {*Host.objects.values_list("paused", flat=True)} == {paused}
    admin.post(LIST, {"action": "clear", "_selected_action": [hosts[0].pk]})
    verbs = [*Action.objects.order_by("pk").values_list("verb", flat=True)]
    assert verbs[-5:] == ["pause host"] * 2 + ["resume host"] * 2 + ["clear host"]


# -- the page of one -------------------------------------------------------------------------------


def test_the_page_has_everything(admin: Client, published: Frontier) -> None:
    task = busy(published)
    statuses = {"200": 90, "429": 9, "0": 1}
    host = Host.objects.create(
        name=NAME, pages=95, errors=5, statuses=statuses, last_status=429, last_reason="http_429",
        bytes=2048, latency_ms=31.0,
    )  # fmt: skip
    page = look(admin, place(host))
    found = tiles(page)
    assert (found["Queue"], found["Pages"], found["Errors"]) == ("3", "95", "5")
    assert (found["Allowed"], found["Latency"]) == ("0.667/s", "31 ms")
    assert "1.5 s between two requests" in page
    assert "http_429" in page
    assert texts(page, ".cf-table td:first-child")[:3] == ["● 200", "● 429", "● no answer"]
    assert str(task) in page
    part = look(admin, place(host, "now"))
    assert tiles(part) == found
    assert "<html" not in part
    assert look(admin, f"{LIST}999/change/", 404)


def test_who_sees_and_who_decides(published: Frontier, as_role: Callable[[str], Client]) -> None:
    host = Host.objects.create(name=NAME)
    for role in ROLES:
        browser = as_role(role)
        may = role in ("operator", "administrator")
        page = look(browser, place(host))
        assert bool(texts(page, ".cf-buttons a")) == may, role
        for verb in DECISIONS:
            assert browser.get(place(host, verb)).status_code == (200 if may else 403)
            if not may:
                assert browser.post(place(host, verb), {"delay": 1}).status_code == 403
        choices = texts(look(browser, LIST), "select[name=action] option")
        assert any("Pause" in choice for choice in choices) == may, role
    assert not Action.objects.filter(verb__endswith="host").exists()


def test_decisions_are_confirmed_and_take_effect(published: Frontier) -> None:
    browser, user = login_as("operator")
    host = Host.objects.create(name=NAME)
    end = timezone.now() + timedelta(hours=3)
    data = {"delay": "2.5", "concurrency": "", "until": f"{end:%Y-%m-%dT%H:%M}", "note": "night"}
    assert "in place of the limits of all tasks" in look(browser, place(host, "order"))
    assert not Host.objects.get().ordered_at
    page = browser.post(place(host, "order"), data, follow=True).content.decode()
    assert f"“Set limits” took effect for {NAME} on all nodes" in page
    order = published.hosts.states([NAME])[NAME].order
    assert order is not None
    assert (order.delay, order.concurrency) == (2.5, None)
    host.refresh_from_db()
    assert host.ordered_by == user
    assert f'value="{end:%Y-%m-%dT%H:%M}"' in look(browser, place(host, "order"))
    for verb, paused in (("pause", True), ("resume", False), ("clear", False)):
        browser.post(place(host, verb), {"note": "x"} if verb == "pause" else {})
        assert Host.objects.get().paused is paused
    browser.post(place(host, "forget-robots"))
    page = look(browser, place(host))
    shown = [row for row in texts(page, ".cf-table td.cf-time") if "host" in row or "robots" in row]
    assert len(shown) == 5
    assert "delay 2.5" in page


def test_wrong_values_come_back_with_a_message(admin: Client) -> None:
    host = Host.objects.create(name=NAME)
    past = {"delay": "1", "until": "2020-01-01T00:00"}
    for data, words in (
        ({}, "give a delay"),
        ({"delay": "-1"}, "greater than or equal to 0"),
        ({"delay": "x"}, "Enter a number"),
        (past, "has passed"),
    ):
        page = admin.post(place(host, "order"), data)
        assert page.status_code == 200
        assert words in page.content.decode()
    assert Host.objects.get().ordered_at is None


def test_a_decision_while_redis_is_away_says_so(admin: Client) -> None:
    host = Host.objects.create(name=NAME)
    with redis_at("redis://127.0.0.1:1/0"):
        page = admin.post(place(host, "pause"), {}, follow=True).content.decode()
    assert "is in the database, but not in Redis" in page
    assert "not in Redis yet" in page


# -- elsewhere -------------------------------------------------------------------------------------


def test_the_dashboard_names_held_hosts(admin: Client, published: Frontier) -> None:
    monitor = AlertMonitor(published)
    assert "blocks" not in look(admin, "/admin/")
    hold(published, NAME, "blocked")
    look_after(published)
    monitor.look(clock.now(), {})
    dashboard_summary.snapshot.clear()
    page = look(admin, "/admin/")
    assert f"{NAME} blocks: nothing of it is fetched." in page
    assert place(Host.objects.get()) in page


def test_the_metric_counts_held_hosts(admin: Client, published: Frontier) -> None:
    hold(published, NAME, "blocked")
    look_after(published)
    assert "crawlframe_hosts_held 1.0" in look(admin, "/metrics")


def test_limits_of_a_task_are_changed_on_its_page(published: Frontier) -> None:
    browser, _ = login_as("operator")
    task = submit("shop", {"city": "Ulm"})
    limits = f"/admin/crawlservice/task/{task.pk}/limits/"
    assert limits in look(browser, f"/admin/crawlservice/task/{task.pk}/settings/")
    assert 'value="1.5"' in look(browser, limits)
    data = {"delay": "0.5", "concurrency": "3", "page_limit": "100"}
    page = browser.post(limits, data, follow=True).content.decode()
    assert "The limits are in force on all nodes" in page
    assert Action.objects.get(verb="change limits").detail == {"delay": 0.5}
    browser.post(limits, data | {"delay": "auto"})
    assert Task.objects.get().settings["adaptive"]
    assert 'value="auto"' in look(browser, limits)
    for delay in ("soon", "-1", "nan"):
        page = browser.post(limits, data | {"delay": delay}).content.decode()
        assert "delay is" in page or "Enter a number of seconds, or auto." in page
    Task.objects.update(state="finished")
    page = browser.post(limits, data).content.decode()
    assert "only limits of tasks that are running or paused" in page
    assert limits not in look(browser, f"/admin/crawlservice/task/{task.pk}/settings/")


def test_limits_of_others_are_not_changed_by_submitters(published: Frontier) -> None:
    browser, user = login_as("submitter")
    own, other = submit("shop", {"city": "Ulm"}, user=user), submit("shop", {"city": "Ulm"})
    assert browser.get(f"/admin/crawlservice/task/{own.pk}/limits/").status_code == 200
    assert browser.get(f"/admin/crawlservice/task/{other.pk}/limits/").status_code == 403


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, "-"), (0.0, "-"), (12.34, "12.3/s"), (0.4, "24/min"), (1 / 600, "6/h")],
)
def test_speeds_are_told_in_the_unit_that_reads_best(per_second: float | None, text: str) -> None:
    assert speed(per_second) == text


def test_the_words_are_translated_lazily(service: Frontier) -> None:
    Host.objects.create(name=NAME)
    hold(service, NAME, "blocked")
    now = read(Host.objects.all())[0]
    with translation.override("en"):
        assert why(now) == "it blocks, until an operator resumes it"
