"""Kept pages in the admin: rights to see them, and harmless display of their contents."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.trials import ORDERS, TrialOrder
from crawlframe.pages.copy import HeldBytes, PageCopy
from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.accounts import tokens
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, KeptPage, Page, Task
from crawlservice.pages import page_trial
from crawlservice.pages.page_viewer import MAX_RENDERED, POLICY, SOURCE, harmless
from tests.crawlservice.web import log_in_as

pytestmark = pytest.mark.usefixtures("orm")
PLACE = "/admin/crawlservice/keptpage/"


@pytest.fixture
def client_of(published: Frontier) -> Callable[[str], Client]:
    """A browser of a user with a role."""
    return log_in_as


def keep(
    body: bytes = b"<h1>Hello</h1>", kind: str = "text/html", url: str = "http://shop.example/a",
    status: int = 200, reason: str = "callback", spider: str = "shop",
) -> KeptPage:  # fmt: skip
    task = Task.objects.create(spider=spider, arguments={"city": "Ulm"}, seeds=b"")
    request = Request(url)
    rid = make_rid(task.pk, request.fingerprint())
    outcome = Outcome(rid, task.pk, request.host, request.encode(), 1, 1)
    outcome.url = url
    headers = {"sent": [["Accept", "*/*"]], "received": [["Content-Type", kind], ["X-A", "<b>"]]}
    page = PageCopy(url, request.host, "GET", status, headers, body, request.encode(), HeldBytes())
    page.reason, page.size = reason, len(body)
    outcome.results.page = page
    if reason:
        outcome.end(Verdict.ERROR, reason, "KeyError: 'price'")
    DjangoLedger().commit([outcome])
    return KeptPage.objects.order_by("-pk")[0]


def shown(client: Client, row: KeptPage, part: str = "change/") -> str:
    answer = client.get(f"{PLACE}{row.pk}/{part}")
    assert answer.status_code == 200, answer
    return answer.content.decode()


def test_the_list_has_its_filters(client_of: Callable[[str], Client]) -> None:
    client = client_of("viewer")
    keep()
    keep(url="http://news.example/b", status=404, reason="http_404", spider="news")
    done = keep(url="http://shop.example/c?x", reason="")

    def urls(query: str = "") -> list[str]:
        text = client.get(f"{PLACE}{query}").content.decode()
        names = ("shop.example/a", "news.example/b", "shop.example/c?x")
        return [name for name in names if f"http://{name}</" in text]

    assert len(urls()) == 3
    assert urls("?host=news.example") == ["news.example/b"]
    assert urls("?reason=callback") == ["shop.example/a"]
    assert urls("?status=404") == ["news.example/b"]
    assert urls("?status=x") == []
    assert urls("?spider=news") == ["news.example/b"]
    assert urls(f"?task={done.task_id}") == ["shop.example/c?x"]
    assert urls("?q=c%3Fx") == ["shop.example/c?x"]


def test_contents_are_for_operators(client_of: Callable[[str], Client]) -> None:
    row = keep()
    viewer, operator = client_of("viewer"), client_of("operator")
    text = shown(viewer, row)
    assert "your role does not show it" in text
    assert "Hello" not in text
    for part in ("frame/", "body/"):
        assert viewer.get(f"{PLACE}{row.pk}/{part}").status_code == 403
    assert viewer.post(f"{PLACE}{row.pk}/today/").status_code == 403
    assert not Action.objects.filter(verb="view_page").exists()
    text = shown(operator, row)
    assert "&lt;h1&gt;Hello&lt;/h1&gt;" in text
    assert "X-A" in text
    assert "<iframe" in text
    seen = Action.objects.get(verb="view_page")
    assert (seen.name, seen.task_id, seen.detail) == (
        "operator",
        row.task_id,
        {"rid": str(row.rid)},
    )


def test_the_frame_has_its_policy(client_of: Callable[[str], Client]) -> None:
    client = client_of("operator")
    row = keep(
        b'<link rel=preconnect href="//a.example"><script>1</script><p>\xe4',
        "text/html; charset=latin-1",
    )
    answer = client.get(f"{PLACE}{row.pk}/frame/")
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.content.decode() == (
        '<x-link rel=preconnect x-href="//a.example"><script>1</script><p>ä'
    )
    alone = client.get(f"{PLACE}{row.pk}/frame/", headers={"Sec-Fetch-Dest": "document"})
    assert alone.headers["Location"] == f"{PLACE}{row.pk}/change/"
    seen = Action.objects.filter(verb="view_page")
    assert seen.count() == 1  # by itself, which only a script does
    client.get(f"{PLACE}{row.pk}/frame/", headers={"Sec-Fetch-Dest": "iframe"})
    assert seen.count() == 1
    for part in ("change/", "frame/"):
        assert "a.example" not in str(client.get(f"{PLACE}{row.pk}/{part}").headers)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<a class='x'HREF =y>", "<a class='x'x-HREF =y>"),
        ("<a/href=y data-href=z>", "<a/x-href=y data-href=z>"),
        ("<use xlink:href=y>", "<use xlink:x-href=y>"),
        ("<form action=x><button formaction=y>", "<form x-action=x><button x-formaction=y>"),
        ("<LINK/rel=x>", "<x-LINK/rel=x>"),
        ("<meta\thttp-equiv=refresh>", "<x-meta\thttp-equiv=refresh>"),
        ("<noscript><base href=x></noscript>", "<noscript><x-base x-href=x></noscript>"),
        ("<li\0nk><linked><metal><basement>", "<li\0nk><linked><metal><basement>"),
        ("a < link", "a < link"),
        ("<svg><a><set attributeName=href to=x>", "<svg><a><x-set attributeName=href to=x>"),
        ("<animateTransform/x>", "<x-animateTransform/x>"),
        ("<settings><setup>", "<settings><setup>"),
        ("<link", "<x-link"),
    ],
)
def test_elements_that_no_policy_stops_are_renamed(html: str, text: str) -> None:
    assert harmless(html) == text


def test_a_body_is_downloaded_as_a_file(client_of: Callable[[str], Client]) -> None:
    client = client_of("operator")
    row = keep(b"<h1>Hello</h1>", url='http://shop.example/a"b.html')
    answer = client.get(f"{PLACE}{row.pk}/body/")
    assert answer.content == b"<h1>Hello</h1>"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    assert '"b' not in answer.headers["Content-Disposition"][22:-1]
    assert Action.objects.filter(verb="download_page").count() == 1


def test_other_contents(client_of: Callable[[str], Client]) -> None:
    client = client_of("operator")
    text = shown(client, keep(b"\x89PNG\r\n", "image/png", "http://shop.example/1"))
    assert "It is no text" in text
    assert "<iframe" not in text
    assert "The body is empty" in shown(client, keep(b"", "text/html", "http://shop.example/2"))
    long = keep(b"x" * (SOURCE + 5), "text/plain", "http://shop.example/3")
    assert "This is its beginning" in shown(client, long)


def test_of_an_enormous_page_only_the_beginning_is_rendered(
    client_of: Callable[[str], Client],
) -> None:
    row = keep(b"<p>" + b"x" * (MAX_RENDERED + 5))
    answer = client_of("operator").get(f"{PLACE}{row.pk}/frame/")
    assert len(answer.content) == MAX_RENDERED


def test_the_request_leads_to_its_page(client_of: Callable[[str], Client]) -> None:
    row = keep()
    page = Page.objects.get(rid=row.rid)
    answer = client_of("viewer").get(f"/admin/crawlservice/page/{page.pk}/change/")
    assert f"{PLACE}{row.pk}/change/" in answer.content.decode()


def test_a_node_is_asked_what_the_callback_would_yield(
    client_of: Callable[[str], Client], published: Frontier
) -> None:
    client, row = client_of("operator"), keep()
    asked = client.post(f"{PLACE}{row.pk}/today/")
    order = asked.headers["Location"].partition("order=")[2].partition("#")[0]
    assert "A node is running it" in shown(client, row, f"today/{order}/")
    assert Action.objects.filter(verb="try_page").count() == 1
    [(name, what)] = published.trials.take(lambda one: one.spider == "shop", 5).items()
    assert (name, what.rid) == (order, row.rid.hex)
    assert published.trials.take(lambda one: True, 5) == {}
    assert published.trials.read(order) == what
    found = page_trial.Answer(
        version="1f", node="alpha", end="done", items=[{"a": "<b>"}], differences=["items[0].a: 1"]
    )
    published.trials.answer(order, orjson.dumps(found.as_data()))
    text = shown(client, row, f"today/{order}/")
    assert "Code 1f on node alpha: done" in text
    assert "items[0].a: 1" in text
    assert "&lt;b&gt;" in text
    assert "hx-get" not in text
    assert client.get(f"{PLACE}{row.pk}/today/{order}/?format=json").json()["node"] == "alpha"
    assert "Nothing is known of this order" in shown(client, row, "today/abc/")


def test_a_trial_that_cannot_be(
    client_of: Callable[[str], Client], published: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, row = client_of("operator"), keep()
    text = shown(client, row, "change/?order=%2F..%2F")
    assert "A node runs the code of today" in text
    for n in range(ORDERS):
        published.trials.ask(f"{n:032x}", TrialOrder(row.rid.hex, "nobody"))
    asked = client.post(f"{PLACE}{row.pk}/today/", follow=True).content.decode()
    assert "trials of kept pages wait for a node" in asked
    keys = published.trials._store.keys[0]
    published.trials._store.redis.delete(keys("TRIAL", f"{0:032x}"))  # its time is over
    assert "order=" in client.post(f"{PLACE}{row.pk}/today/").headers["Location"]

    def away(*given: object) -> None:
        raise RedisConnectionError("away")

    monkeypatch.setattr(page_trial, "frontier", away)
    asked = client.post(f"{PLACE}{row.pk}/today/", follow=True).content.decode()
    assert "away" in asked
    assert "away" in shown(client, row, f"today/{1:032x}/")


def test_an_answer_is_not_larger_than_can_be_shown() -> None:
    answer = page_trial.Answer(
        items=["x" * page_trial.MAX_ANSWER], requests=["a"], raised="y" * 20_000
    )
    assert len(answer.encode()) < page_trial.MAX_ANSWER
    assert "too much to be shown" in answer.problem
    small = page_trial.Answer(items=[1])
    assert orjson.loads(small.encode())["items"] == [1]


def test_nobody_takes_an_order(
    client_of: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, row = client_of("operator"), keep()
    order = page_trial.ask(row)
    monkeypatch.setattr(page_trial, "TAKE_SECONDS", -1.0)
    assert "No running node has this spider" in shown(client, row, f"today/{order}/")


def test_the_api_lists_and_fetches_them(published: Frontier) -> None:
    def api(role: str, place: str) -> Any:
        user, _ = User.objects.get_or_create(username=f"api-{role}", is_staff=True)
        user.groups.add(Group.objects.get(name=role))
        _, secret = tokens.make(user, "t", "read")
        headers = {"Authorization": f"Bearer {secret}"}
        return Client(SERVER_NAME="localhost").get(f"/api/v1/kept-pages{place}", headers=headers)

    row = keep()
    keep(url="http://news.example/b", status=404, reason="http_404", spider="news")
    listed = api("viewer", "?host=shop.example").json()
    assert [one["url"] for one in listed["pages"]] == ["http://shop.example/a"]
    assert listed["pages"][0]["reason"] == "callback"
    assert len(api("viewer", "").json()["pages"]) == 2
    assert api("viewer", "?spider=news&status=404").json()["pages"][0]["status"] == 404
    shown = api("viewer", f"/{row.rid}").json()
    assert shown["headers"]["sent"] == [["Accept", "*/*"]]
    assert api("viewer", f"/{row.rid}/body").status_code == 403
    answer = api("operator", f"/{row.rid}/body")
    assert answer.content == b"<h1>Hello</h1>"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert api("viewer", f"/{row.task_id:032}").status_code == 404
    assert Action.objects.get(verb="download_page").name == "api-operator"


def test_the_command_shows_them(published: Frontier) -> None:
    row = keep()
    for name in (str(row.rid), row.url):
        out, err = StringIO(), StringIO()
        call_command("page", "show", name, stdout=out, stderr=err)
        assert out.getvalue().strip() == "<h1>Hello</h1>"
        assert f"200 {row.url}" in err.getvalue()
        assert "received: X-A: <b>" in err.getvalue()
        assert "kept because of callback" in err.getvalue()
    out = StringIO()
    call_command("page", "show", row.url, "--headers", stdout=out, stderr=StringIO())
    assert out.getvalue() == ""
    with pytest.raises(CommandError, match=r"no page of http://x\.example/ is kept"):
        call_command("page", "show", "http://x.example/")
    assert Action.objects.filter(verb="download_page").count() == 2
