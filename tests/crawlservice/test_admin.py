"""The web: admin lists, actions and escaping; rights to control tasks; health."""

from __future__ import annotations

import html
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from redis import Redis

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.nodes import NodeHealth
from crawlservice.accounts.roles import ROLES, SUPERUSER, give_role
from crawlservice.admin.tasks import tasks as admin_tasks
from crawlservice.models import Era, Event, Generation, Item, Page, Task
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.web import cells, counted, login, texts

# Lists by the first role that sees them, and by the first that adds rows.
SEEN_BY = {
    "viewer": "alert aliasrule case era event generation host item keptpage page "
    "previewreport recipe robotsfile run schedule task watch",
    "submitter": "token",
    "operator": "action alertmessage alertrule alerttarget delivery export proxy proxysource "
    "rowdelivery webhook",
    "administrator": "group user",
    "superuser": "hostcredential",
}
ADDED_BY = {
    "submitter": "token watch",
    "operator": "alertrule previewreport recipe schedule",
    "administrator": "alerttarget export proxy proxysource user webhook",
    "superuser": "group hostcredential",
}
LISTS = ("task", "page", "item", "generation", "event", "era")


@pytest.fixture
def admin(ended_task: Task) -> Client:
    Generation.objects.create(node="n1", machine="m", pid=1)
    Era.objects.create(number=1, reason="the first")
    return login(is_superuser=True)


def test_without_login_there_is_only_the_login(service: Frontier) -> None:
    client = Client(SERVER_NAME="localhost")
    assert client.get("/")["Location"] == "/admin/"
    for name in LISTS:
        answer = client.get(f"/admin/crawlservice/{name}/")
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")


def test_who_sees_each_list_and_adds_rows(service: Frontier) -> None:
    seen, added = set[str](), set[str]()
    for role in (*ROLES, SUPERUSER):
        seen |= {*SEEN_BY.get(role, "").split()}
        added |= {*ADDED_BY.get(role, "").split()}
        request = RequestFactory().get("/")
        request.user = User.objects.create(username=role, is_staff=True)
        give_role(request.user, role)
        sites = [*site._registry.values()]
        assert {one.opts.model_name for one in sites if one.has_view_permission(request)} == seen
        assert {one.opts.model_name for one in sites if one.has_add_permission(request)} == added
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.get(username="operator"))
    for place in ("auth/user/", "auth/user/add/", "crawlservice/hostcredential/"):
        assert client.get(f"/admin/{place}").status_code == 403
    assert "hostcredential" not in client.get("/admin/").content.decode()


def test_every_list_and_every_row_can_be_looked_at(admin: Client) -> None:
    for name in LISTS:
        listing = admin.get(f"/admin/crawlservice/{name}/")
        assert listing.status_code == 200
        for row in apps.get_model("crawlservice", name)._default_manager.all():
            assert admin.get(f"/admin/crawlservice/{name}/{row.pk}/change/").status_code == 200


def test_nothing_can_be_added_edited_or_deleted(admin: Client) -> None:
    for name in LISTS:
        assert admin.get(f"/admin/crawlservice/{name}/add/").status_code == 403
        row = f"/admin/crawlservice/{name}/1"
        assert admin.post(f"{row}/change/", {"state": "x"}).status_code == 403
        if name != "task":  # see test_removal.py
            assert admin.post(f"{row}/delete/", {"post": "yes"}).status_code == 403


def test_the_task_list_shows_live_numbers_at_a_fixed_cost(
    admin: Client, published: Frontier
) -> None:
    place = "/admin/crawlservice/task/"
    submit("shop", {"city": "Ulm"})
    admin.get(place)  # which remembers the owners of spiders
    page, before = counted(admin, place)
    assert cells(page, "done") == ["0 of 1", "2 of 3"]
    assert cells(page, "left") == ["1", "0"]
    for _ in range(5):
        submit("shop", {"city": "Ulm"})
    assert counted(admin, place)[1] == before


def test_the_task_list_works_without_redis(admin: Client) -> None:
    submit("shop", {"city": "Ulm"})
    with redis_at("redis://127.0.0.1:1/0"):
        assert admin.get("/admin/crawlservice/task/").status_code == 200


def steer(client: Client, action: str, *tasks: int) -> str:
    form = {"action": action, "_selected_action": [str(task) for task in tasks]}
    answer = client.post("/admin/crawlservice/task/", form, follow=True)
    return str(answer.content.decode())


def test_actions_steer_tasks_and_say_what_they_could_not(
    admin: Client, ended_task: Task, published: Frontier
) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    assert "Tasks paused: 1" in steer(admin, "pause", task)
    counts = published.counts(task)
    assert counts is not None
    assert counts.state == "paused"
    assert "Tasks resumed: 1" in steer(admin, "resume", task)
    page = steer(admin, "cancel", task, ended_task.pk)
    assert "Tasks cancelled: 1" in page
    assert f"ask {ended_task.pk} is finished and cannot be cancelled" in page
    assert Task.objects.get(pk=task).state == "cancelling"


def test_failed_requests_of_selected_tasks_are_retried(
    admin: Client, ended_task: Task, published: Frontier
) -> None:
    page = Page.objects.filter(task=ended_task).first()
    assert page is not None
    Page.objects.filter(pk=page.pk).update(state="error", reason="dns")
    published.store.redis.flushdb()  # it has ended only in the database
    assert "Tasks that run again: 1" in steer(admin, "retry", ended_task.pk)
    assert Task.objects.get(pk=ended_task.pk).state == "running"


def test_events_show_their_kind(admin: Client, ended_task: Task) -> None:
    """The outcome of the task is shown only where the event is its end."""
    Event.objects.create(task=ended_task, kind="quality_failed", outcome="failed")
    Event.objects.create(task=ended_task, kind="finished", outcome="finished_with_errors")
    page = admin.get("/admin/crawlservice/event/").content.decode()
    kinds = texts(page, ".field-shown_kind")
    assert {"quality failed", "finished with errors"} <= {*kinds}
    assert "failed" not in kinds


def test_tasks_that_are_cancelled_together_share_the_seconds(
    admin: Client, published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelling many large tasks does not take as many times as long."""
    now, given = [100.0], list[float]()

    def cancel(frontier: Frontier, task: int, seconds: float) -> bool:
        given.append(seconds)
        now[0] += 1.5
        return False

    tasks = [submit("shop", {"city": "Ulm"}).pk for _ in range(3)]
    monkeypatch.setattr(Frontier, "cancel", cancel)
    monkeypatch.setattr(admin_tasks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert "Tasks cancelled: 3" in steer(admin, "cancel", *tasks)
    assert given == [2.0, 0.5, 0.0]


def test_who_may_only_look_cannot_steer(ended_task: Task, published: Frontier) -> None:
    client = login()
    user = User.objects.get()
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    task = submit("shop", {"city": "Ulm"}).pk
    assert client.get("/admin/crawlservice/task/").status_code == 200
    assert "Tasks paused: " not in steer(client, "pause", task)
    assert Task.objects.get(pk=task).state == "running"
    user.user_permissions.add(Permission.objects.get(codename="submit_task"))
    page = steer(client, "pause", task)
    assert "Tasks paused: " not in page
    assert "You may only control your own tasks." in page
    Task.objects.update(user=user)
    assert "Tasks paused: 1" in steer(client, "pause", task)
    Task.objects.update(user=None)
    user.user_permissions.add(Permission.objects.get(codename="steer_task"))
    assert "Tasks resumed: 1" in steer(client, "resume", task)


def test_scraped_data_is_escaped(admin: Client, ended_task: Task) -> None:
    evil = "<script>alert(1)</script>"
    Item.objects.update(data={evil: [evil]})
    Page.objects.update(url=f"http://x/{evil}", reason=evil[:60], detail=evil)
    Task.objects.update(arguments={"city": evil})
    addresses = ["item/", "page/", "task/", f"task/{ended_task.pk}/change/"]
    addresses += [f"item/{Item.objects.all()[0].pk}/change/"]
    addresses += [f"page/{Page.objects.all()[0].pk}/change/"]
    for address in addresses:
        page = admin.get(f"/admin/crawlservice/{address}").content.decode()
        assert evil not in page
    page = admin.get(f"/admin/crawlservice/{addresses[4]}").content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_pages_are_filtered_by_task_state_and_reason_and_searched(
    admin: Client, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    add_page(other, b"elsewhere", state=Page.State.ERROR, reason="dns")

    def rows(query: str) -> int:
        page = admin.get(f"/admin/crawlservice/page/?{query}", follow=True).content.decode()
        return len(cells(page, "short_url"))

    assert rows("") == 4
    assert rows(f"task={ended_task.pk}") == 3
    assert rows("state__exact=error") == 2
    assert rows("reason=dns") == 1
    assert rows("q=elsewhere") == 1
    assert rows("task=0") == rows("task=x") == 0
    listing = admin.get("/admin/crawlservice/page/").content.decode()
    assert "?reason=dns" in listing
    assert "?reason=http_404" in listing


def test_page_and_item_lists_cost_the_same_however_long(
    admin: Client, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    places = [f"/admin/crawlservice/{name}/" for name in ("page", "item")]
    before = [counted(admin, place)[1] for place in places]
    for n in range(5):
        add_page(ended_task, b"more%d" % n, items=[{"n": n}])
    assert [counted(admin, place)[1] for place in places] == before


def test_rows_show_their_version_and_are_filtered_by_it(
    admin: Client, ended_task: Task, add_page: Callable[..., Page]
) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    page = add_page(other, b"new", items=[{}], version="2f00c0ffee00")
    Item.objects.filter(task=other).update(version="2f00c0ffee00")
    for name, row in (("page", page), ("item", Item.objects.get(task=other))):
        listing = admin.get(f"/admin/crawlservice/{name}/").content.decode()
        assert "2f00c0ffee00" in cells(listing, "version")
        assert len(cells(listing, "version")) == type(row).objects.count() > 1
        assert "?version=2f00c0ffee00" in listing
        some = admin.get(f"/admin/crawlservice/{name}/?version=2f00c0ffee00").content.decode()
        assert cells(some, "version") == ["2f00c0ffee00"]
        detail = admin.get(f"/admin/crawlservice/{name}/{row.pk}/change/").content.decode()
        assert "2f00c0ffee00" in detail
    task = admin.get(f"/admin/crawlservice/task/{other.pk}/pages/").content.decode()
    assert "2f00c0ffee00 (1)" in task
    none = admin.get(f"/admin/crawlservice/task/{ended_task.pk}/pages/").content.decode()
    assert "2f00c0ffee00" not in none


def test_the_node_list_shows_what_the_cluster_tells(
    admin: Client, join: Callable[..., int], redis_client: Redis
) -> None:
    def look(query: str = "") -> tuple[str, int, int]:
        asked = redis_client.info("stats")["total_commands_processed"]
        with CaptureQueriesContext(connection) as queries:
            answer = admin.get(f"/admin/crawlservice/generation/?{query}")
        now = redis_client.info("stats")["total_commands_processed"]
        return answer.content.decode(), len(queries), now - asked

    problem = "/srv/spiders/shop.py:3: SyntaxError: invalid syntax\nTraceback"
    refused = {"version": "1f00c0ffee00", "state": "refused", "candidate": "2f00c0ffee00"}
    join("alpha", **refused, problem=problem, seconds=0.254, reloads=7)
    join("beta", version="1f00c0ffee00", state="live")
    page, queries, questions = look()
    assert cells(page, "state") == ["live", "refused"]
    assert cells(page, "condition") == ["idle", "abnormal"]
    assert cells(page, "candidate") == ["-", "2f00c0ffee00"]
    assert cells(page, "headline")[1] == "/srv/spiders/shop.py:3: SyntaxError: invalid syntax"
    assert cells(page, "took")[1] == "0.25 s"
    assert cells(page, "node") == ["beta", "alpha"]  # n1 ended
    assert "versions run" not in page
    join("gamma", version="3f00c0ffee00", state="live")
    page, *cost = look()
    assert cost == [queries, questions + 1]  # how much it holds, in the same round trip
    assert "2 versions run: 1f00c0ffee00 (alpha, beta), 3f00c0ffee00 (gamma)" in page
    assert [code for code in cells(page, "code") if "differs" in code] == ["3f00c0ffee00 differs"]
    everyone, *_ = look("lives=all")
    states = dict(zip(cells(everyone, "node"), cells(everyone, "state"), strict=True))
    assert states["n1"] == "ended"


def test_pages_tell_why_a_node_is_abnormal(admin: Client, join: Callable[..., int]) -> None:
    health = NodeHealth(missing=1, waits="<b>no</b> database")
    life = join("alpha", version="1f00c0ffee00", state="live", health=health)
    join("beta", version="1f00c0ffee00", state="live")
    listing = admin.get("/admin/crawlservice/generation/").content.decode()
    assert cells(listing, "condition") == ["idle", "abnormal"]
    assert cells(listing, "headline")[1] == "Its results or chores are waiting: <b>no</b> database"
    detail = admin.get(f"/admin/crawlservice/generation/{life}/change/").content.decode()
    dashboard = admin.get("/admin/").content.decode()
    for page in (detail, dashboard):
        assert "are waiting: &lt;b&gt;no&lt;/b&gt; database" in page
        assert "1 of its 2 workers is missing" in page
    told = [text for text in texts(detail, "div") if text.startswith("abnormal")]
    assert told[0].startswith(
        "abnormal Its results or chores are waiting: <b>no</b> database; 1 of its"
    )
    assert "alpha is abnormal" in dashboard


def test_the_node_page_shows_the_problem_as_text(admin: Client, join: Callable[..., int]) -> None:
    problem = "/srv/spiders/shop.py:3: KeyError: '<script>'\n  File <b>\n    x"
    life = join(
        "alpha", version="1f00c0ffee00", state="refused", candidate="2f00c0ffee00", problem=problem,
        changed_at=1e9, follows="origin/main", pulled="2f00c0ffee00", pull_problem="<i>\nno",
    )  # fmt: skip
    page = admin.get(f"/admin/crawlservice/generation/{life}/change/").content.decode()
    assert f'cf-text">{html.escape(problem)}</pre>' in page
    assert 'cf-text">&lt;i&gt;\nno</pre>' in page
    assert "2001-09-09 01:46:40" in page
    assert "<script>'" not in admin.get("/admin/crawlservice/generation/").content.decode()
    for text in ("1f00c0ffee00", "2f00c0ffee00", "origin/main"):
        assert text in page


def test_nodes_are_listed_without_redis(admin: Client, join: Callable[..., int]) -> None:
    life = join("alpha", version="1f00c0ffee00", state="live")
    with redis_at("redis://127.0.0.1:1/0"):
        page = admin.get("/admin/crawlservice/generation/").content.decode()
        one = admin.get(f"/admin/crawlservice/generation/{life}/change/").content.decode()
    assert "Redis does not answer: the state of the nodes is unknown" in page
    assert cells(page, "state") == ["unknown", "unknown"]
    assert "unknown" in one
    assert "1f00c0ffee00" not in page + one


def test_health_names_what_is_away(service: Frontier) -> None:
    client = Client(SERVER_NAME="localhost")
    answer = client.get("/healthz")
    well = {"database": True, "redis": True, "installation": True}
    assert (answer.status_code, answer.json()) == (200, well)
    with redis_at("redis://127.0.0.1:1/0"):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (503, {**well, "redis": False})


@pytest.mark.process
def test_only_the_web_loads_the_admin(manage: Callable[..., Any]) -> None:
    code = "import sys; print('crawlservice.admin' in sys.modules)"
    code += "; import crawlservice.urls; print('crawlservice.admin' in sys.modules)"
    done = manage("shell", "--no-imports", "-c", code)
    assert done.stdout.split() == ["False", "True"], done.stderr
