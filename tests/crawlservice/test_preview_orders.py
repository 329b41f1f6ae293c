"""A user orders a preview; the page and the API show its report, also while it grows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from crawlframe.errors import FieldError
from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.trials import ORDERS, PREVIEW, TrialOrder
from crawlservice.models import Action, PreviewReport
from crawlservice.preview import ordered, orders
from crawlservice.preview.ordered import run_order
from crawlservice.preview.orders import carry_out, order, settle
from tests.crawlservice.programs import person, program
from tests.crawlservice.test_preview import Project, project

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]
PLACE = "/admin/crawlservice/previewreport/"
__all__ = ("project",)


@pytest.fixture
def nodes(join: Callable[..., int]) -> None:
    """A node with a git checkout, and one without."""
    join("alpha", version="1f00", follows="origin/main")
    join("beta", version="+2a00")


def waiting(service: Frontier) -> list[TrialOrder]:
    return [*service.trials.take(lambda what: True, 9).values()]


def test_an_order_waits_for_a_node(nodes: None, service: Frontier) -> None:
    row = order("new-prices", spiders=["shop*"], pages=7, node="alpha", by="ann")
    assert waiting(service) == [TrialOrder("", PREVIEW, row.pk, "alpha")]
    assert (row.version, row.state, row.user) == ("new-prices", "waiting", "ann")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"revision": "--upload-pack=x"}, "revision"),
        ({"revision": "main", "against": "-x"}, "against"),
        ({"revision": "main", "node": "beta"}, "node"),  # without git
        ({"revision": "main", "node": "gamma"}, "node"),
        ({"revision": "main", "spiders": ["a"] * 21}, "spiders"),
    ],
)
def test_a_wrong_order_names_its_field(nodes: None, given: Any, field: str) -> None:
    with pytest.raises(FieldError) as caught:
        order(**given)
    assert caught.value.field == field
    assert not PreviewReport.objects.exists()


def test_without_a_node_nothing_is_ordered(service: Frontier) -> None:
    with pytest.raises(FieldError, match="No running node has a git checkout"):
        order("main")


def test_an_order_that_redis_does_not_take_leaves_no_report(nodes: None, service: Frontier) -> None:
    for number in range(ORDERS):
        service.trials.ask(f"{number:032x}", TrialOrder("", "shop"))
    with pytest.raises(Exception, match="wait for a node"):
        order("main")
    assert not PreviewReport.objects.exists()


def test_an_order_that_nobody_carries_out_has_failed(nodes: None) -> None:
    row = order("main")
    settle(row)
    assert row.state == "waiting"
    row.created_at -= orders.TAKEN_WITHIN + timedelta(seconds=1)
    settle(row)
    assert (row.state, row.problem) == ("failed", "No running node took it.")
    row.state, row.changed_at = "running", timezone.now()
    settle(row)
    assert row.state == "running"
    row.changed_at -= orders.SILENCE + timedelta(seconds=1)
    settle(row)
    assert (row.state, row.problem) == ("failed", "Its node was stopped or died.")


@pytest.mark.forks
def test_the_report_grows_and_is_kept(
    project: Project, nodes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = project.branch({**project.spider("alpha", ".price", ".prize")})
    row = order(branch, against="main", by="ann")
    grown: list[int] = []
    write = ordered._write

    def seen(*args: Any, **fields: Any) -> None:
        write(*args, **fields)
        grown.append(PreviewReport.objects.get(pk=row.pk).pages)

    monkeypatch.setattr(ordered, "_write", seen)
    monkeypatch.setattr(ordered, "WRITE_EVERY", 0.0)
    run_order(row.pk, project.path, settings.CRAWLFRAME)
    assert grown == sorted(grown)
    assert {1, 6} <= {*grown}
    row.refresh_from_db()
    assert (row.state, row.problem, row.errors) == ("done", "", 1)
    assert row.version == project.git("rev-parse", "change").strip()[:12]
    (part,) = row.report["rows"]
    assert (part["spider"], part["part"], part["lost"], part["fails"]) == (
        "alpha",
        "price",
        6,
        True,
    )


def test_what_cannot_be_run_says_why(project: Project, nodes: None) -> None:
    row = order("no-such-branch", against="main")
    run_order(row.pk, project.path, settings.CRAWLFRAME)
    row.refresh_from_db()
    assert row.state == "failed"
    assert "'no-such-branch' is no branch, tag or commit" in row.problem


def test_a_process_that_dies_is_reported(nodes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        words.append(command)
        return subprocess.CompletedProcess(command, -9, "", "line\nlast words\n")

    monkeypatch.setattr("crawlservice.preview.orders.subprocess.run", run)
    row = order("main")
    carry_out(row.pk, "alpha")
    row.refresh_from_db()
    assert words[0][-3:] == ["preview", "--order", str(row.pk)]
    assert (row.state, row.node) == ("failed", "alpha")
    assert row.problem == "it ended with exit code -9: last words"
    carry_out(row.pk + 1, "alpha")  # its row is gone: nothing is run
    assert len(words) == 1


def test_the_page_to_order(
    nodes: None, service: Frontier, as_role: Callable[[str], Client]
) -> None:
    client = as_role("operator")
    page = client.get(f"{PLACE}add/").content.decode()
    for offered in ("1f00", "origin/main"):
        assert f'<option value="{offered}">' in page
    given = {"revision": "new-prices", "against": "live", "spiders": "shop* news", "pages": "7"}
    answer = client.post(f"{PLACE}add/", given)
    row = PreviewReport.objects.get()
    assert answer.headers["Location"] == f"{PLACE}{row.pk}/change/"
    assert row.given == {
        "revision": "new-prices", "against": "live", "spiders": ["shop*", "news"], "pages": 7,
    }  # fmt: skip
    assert row.user == "operator"
    assert Action.objects.get(verb="preview").detail["revision"] == "new-prices"
    page = client.get(f"{PLACE}{row.pk}/change/").content.decode()
    assert "It waits for a node" in page
    now = f"{PLACE}{row.pk}/now/"
    assert client.get(now).status_code == 200
    PreviewReport.objects.update(state="done")
    assert client.get(now).status_code == 286  # is polled no more
    wrong = client.post(f"{PLACE}add/", {**given, "revision": "-x"}).content.decode()
    assert "Name a branch, a tag or a commit." in wrong


def test_who_may_only_look_orders_nothing(nodes: None, as_role: Callable[[str], Client]) -> None:
    client = as_role("submitter")
    assert client.get(f"{PLACE}add/").status_code == 403
    assert client.post(f"{PLACE}add/", {"revision": "main"}).status_code == 403
    assert client.get(PLACE).status_code == 200
    assert not PreviewReport.objects.exists()


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("submitter", "operate", 403), ("operator", "read", 403), ("operator", "operate", 201)],
)
def test_the_api(nodes: None, service: Frontier, role: str, scope: str, status: int) -> None:
    caller = program(person(role), scope)
    answer = caller.post("previews", {"revision": "main", "spiders": ["shop*"]})
    assert answer.status_code == status
    assert len(waiting(service)) == (status == 201)
    if status == 201:
        made = answer.json()
        assert (made["state"], made["report"]) == ("waiting", {})
        assert caller.get(f"previews/{made['id']}").json() == made
        wrong = caller.post("previews", {"revision": "main", "node": "gamma"})
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "node")
        assert caller.post("previews", {"revision": "main", "pages": 0}).status_code == 422
