"""The dashboard: its numbers are true, at a fixed cost, and only for users who may see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from crawlframe.frontier import Frontier
from crawlframe.frontier.client.rows import Rows
from crawlservice.models import Event, Page, Sample, Task
from crawlservice.monitoring import charts, overview
from crawlservice.tasks.submit import pause, submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.web import counted, login, login_as, look, rows, texts, tiles

WAITING: dict[str, Any] = dict.fromkeys(("ready", "in_progress", "delayed", "parked"), 0)


@pytest.fixture
def admin(ended_task: Task) -> Client:
    return login(is_superuser=True)


def sample(seconds_ago: float, nf: int, ne: int = 0, items: int = 0, **more: Any) -> None:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    Sample.objects.create(at=at, nf=nf, ne=ne, items=items, **{**WAITING, **more})


def test_tasks_queues_and_rates(admin: Client, published: Frontier) -> None:
    paused = submit("shop", {"city": "Ulm"})
    submit("shop", {"city": "Ulm"})
    pause(paused.pk)
    sample(30, nf=100)
    sample(20, nf=150, ne=5, items=200)
    page = look(admin)
    found = tiles(page)
    # The fixture's task was submitted too: Redis has it, but it is not open.
    assert (found["Open tasks"], found["Ready"], found["Parked"]) == ("2", "2", "0")
    assert (found["Pages/s"], found["Items/s"], found["Errors/s"]) == ("5.5", "20.0", "0.5")
    assert "shop #2" in page
    assert ">paused<" in page
    assert tiles(look(admin, "/admin/overview/")) == found


def test_what_ended_last_and_how(admin: Client, published: Frontier) -> None:
    open_ = submit("shop", {"city": "Bonn"})
    failed, again = (submit("shop", {"city": "Bonn"}) for _ in range(2))
    for task, outcome in ((failed, "failed"), (again, "finished"), (failed, "failed")):
        Event.objects.create(task=task, kind=outcome, outcome=outcome)
    Task.objects.filter(pk=failed.pk).update(
        state="finished",
        outcome="failed",
        reason="0 items; task 1 had 2",
        finished_at=timezone.now(),
    )
    found = [row[:3] for row in rows(look(admin), "#cf-ended tbody tr")]
    # A retried task is running, and a task that ended twice is listed once.
    ended = Task.objects.get(outcome="finished_with_errors")
    assert found == [
        [str(failed), "failed", "0 items; task 1 had 2"],
        [str(ended), "finished with errors", ended.reason],
    ]
    assert str(open_) not in [row[0] for row in found]


def test_progress_is_shown_as_far_as_it_is_known(admin: Client, published: Frontier) -> None:
    submit("shop", {"city": "Ulm"})
    submit("shop", {"city": "Bonn"})
    new, like = texts(look(admin), ".cf-progress")
    assert new == "0 done, 1 known to remain"
    assert like == "about 0 % · 0 done of about 3 as last time"


def test_nodes_with_their_state_and_what_they_refused(
    admin: Client, published: Frontier, join: Callable[..., int]
) -> None:
    problem = "/srv/shop.py:3: SyntaxError: <script>\n  Traceback of it"
    join("alpha", version="1f00", state="refused", candidate="2f00", problem=problem)
    join("beta", version="1f00", state="live")
    join("gamma", version="3f00", state="live")
    join("dead", version="1f00", state="live", lease=-1)
    published.claim(2, 1, 5)
    page = look(admin)
    states = {row[0]: row[1] for row in rows(page)}
    assert states["alpha"] == "abnormal"
    assert states["gamma"] == "idle"
    assert states["dead"] == "offline for 0 minutes"
    assert "alpha refused 2f00" in page
    assert texts(page, ".cf-trouble pre")[0].endswith("Traceback of it")
    assert "<script>\n" not in page
    assert "2 versions run: 1f00 (alpha, beta), 3f00 (gamma)" in page
    assert published.leases.held([1, 2, 3]) == {1: 0, 2: 1, 3: 0}
    assert states["beta"] == "busy"


def test_slow_and_failing_hosts(admin: Client, add_page: Callable[..., Page]) -> None:
    task = Task.objects.get()
    for n in range(6):
        add_page(task, b"slow%d" % n, url=f"http://slow.example/{n}", fetch_ms=900)
        add_page(
            task, b"bad%d" % n, url=f"http://bad.example:8080/{n}",
            state="error" if n else "done", reason="http_503" if n > 1 else "dns",
        )  # fmt: skip
    add_page(task, b"once", url="http://once.example/", fetch_ms=5000)
    found = rows(look(admin, "/admin/overview/hosts/"))
    assert found[0] == ["slow.example", "900 ms", "6"]
    assert ["bad.example:8080", "5", "83.3 %", "http_503"] in found
    assert not any(row[0] == "once.example" for row in found)


def test_hosts_are_judged_by_the_latest_pages_only(
    admin: Client, add_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "ROWS", 2)
    task = Task.objects.get()
    for n in range(3):
        add_page(task, b"bad%d" % n, url=f"http://{n}.example/", state="error", reason="dns")
    page = look(admin, "/admin/overview/hosts/")
    assert "of the latest 2 pages" in page
    assert "2.example" in page
    assert "0.example" not in page


def test_the_chart_tells_rates_and_gaps(admin: Client) -> None:
    # Further apart than the parts of the span, each of which keeps its last sample.
    for ago, nf in ((3000, 0), (2987, 65), (39, 65), (26, 78), (13, 70)):
        sample(ago, nf)
    sample(7200, 0)
    sample(5000, 0)
    points = admin.get("/admin/overview/chart/").json()["points"]
    near = partial(pytest.approx, rel=0.1)  # each sample is taken a little later
    assert points["pages"] == [near(5.0), None, near(1.0), 0.0]
    assert points["nf"] == [65, 65, 78, 70]
    day = admin.get("/admin/overview/chart/?span=day").json()["points"]
    assert day["at"][0] < points["at"][0]


def test_a_chart_of_a_whole_day_is_thinned(orm: str) -> None:
    now = timezone.now()
    Sample.objects.bulk_create(
        Sample(at=now - timedelta(seconds=10 * n), nf=86400 - 10 * n, ne=0, items=0, **WAITING)
        for n in range(8600)
    )
    points = charts.of_cluster(timedelta(days=1))
    assert 290 < len(points["at"]) <= charts.POINTS + 2
    assert set(points["pages"]) == {1.0}


def test_it_costs_the_same_however_much_runs(admin: Client, published: Frontier) -> None:
    submit("shop", {"city": "Ulm"})
    before = counted(admin)[1]
    for _ in range(5):
        submit("shop", {"city": "Ulm"})
    assert counted(admin)[1] == before


def test_without_redis_it_says_so(admin: Client) -> None:
    with redis_at("redis://127.0.0.1:1/0"):
        assert "Redis does not answer" in look(admin)


def test_without_redis_from_the_middle_of_a_look_on_it_says_so(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, words in (
        (RedisConnectionError("gone since the nodes were read"), "Redis does not answer. The"),
        (ResponseError("MISCONF No space left on device"), "Redis refuses: MISCONF No space left"),
    ):
        monkeypatch.setattr(Rows, "quarantined", Mock(side_effect=error))
        assert words in look(admin)


def test_who_may_see_nothing_sees_none_of_it(ended_task: Task) -> None:
    client = login()
    assert "Open tasks" not in look(client)
    for part in ("overview/", "overview/hosts/", "overview/chart/"):
        assert client.get(f"/admin/{part}").status_code == 403
    gone = Client(SERVER_NAME="localhost").get("/admin/overview/")
    assert (gone.status_code, gone["HX-Refresh"]) == (403, "true")


def test_a_viewer_sees_it(ended_task: Task) -> None:
    client, _ = login_as("viewer")
    assert "Open tasks" in look(client)
    assert "Submit" not in texts(look(client), "nav a, aside a, #nav-sidebar a")


def test_the_hosts_come_with_a_warning_when_nobody_is_named(
    admin: Client, add_page: Callable[..., Page], settings_with: Callable[..., None]
) -> None:
    task = submit("shop", {"city": "Ulm"})
    add_page(task, b"here", url="http://127.0.0.1/", state=Page.State.ERROR)
    assert "CRAWLFRAME_CONTACT" not in look(admin, "/admin/overview/hosts/")
    overview.hosts.clear()
    add_page(task, b"there", url="http://www.shop.org/", state=Page.State.ERROR)
    assert "CRAWLFRAME_CONTACT" in look(admin, "/admin/overview/hosts/")
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, user_agent="Ours/1"))
    assert "CRAWLFRAME_CONTACT" not in look(admin, "/admin/overview/hosts/")
