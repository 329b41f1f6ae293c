"""Arguments that name files, or have a login in a URL: permitted users and ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from crawlframe import FilePath, Revisit, Spider
from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlframe.spider.spider import describe
from crawlservice.accounts import tokens
from crawlservice.models import Schedule, Task, Watch
from crawlservice.proxies.sources import BadSource, sealed_place
from crawlservice.scheduling import schedules
from crawlservice.settings import ARGUMENT_FILES
from crawlservice.tasks.arguments.spider_arguments import check
from spiders.broad import BroadSpider


class Lists(Spider):
    name = "lists"
    revisit = Revisit(budget=10)

    def start(self, seeds: FilePath, more: list[FilePath] = [], spare: FilePath | None = None,  # noqa: B006
              url: str = "", deep: dict[str, str] = {}) -> Any: ...  # fmt: skip  # noqa: B006

    def parse(self, response: Any) -> Any: ...


INFO = describe(Lists)
OUTSIDE = [
    "/etc/passwd", "/data/../etc/passwd", "/data2/x", "/data", "x", "../x", "", "//data/x", "~/x",
    "/data/x/../../etc/passwd", "/proc/self/root/data/x", "file:///data/x",
]  # fmt: skip


def test_files_lie_below_the_directory(settings_with: Callable[..., None]) -> None:
    settings_with(ARGUMENT_FILES=Path("/data"))
    for path in ("/data/x", "/data/a/b", "/data//a/./b", "/data/a/../b"):
        check(INFO, {"seeds": path, "more": [path], "spare": path}, from_text=False)
    for path in [one for one in OUTSIDE if one != "/data"]:
        for given in ({"seeds": path}, {"seeds": "/data/x", "more": ["/data/y", path]},
                      {"seeds": "/data/x", "spare": path}):  # fmt: skip
            with pytest.raises(ArgumentError, match="CRAWLFRAME_ARGUMENT_FILES"):
                check(INFO, given, from_text=False)
            check(INFO, given, from_text=False, any_file=True)


def test_by_default_there_are_none(settings_with: Callable[..., None]) -> None:
    settings_with(ARGUMENT_FILES=ARGUMENT_FILES)
    for path in [*OUTSIDE, "/data/x", str(ARGUMENT_FILES.parent), "/"]:
        with pytest.raises(ArgumentError, match="CRAWLFRAME_ARGUMENT_FILES"):
            check(INFO, {"seeds": path}, from_text=False)


@pytest.mark.parametrize("role", ["superuser", "administrator", "operator", "submitter"])
def test_people_name_no_file_of_a_node(
    service: Frontier, as_role: Callable[[str], Client], role: str
) -> None:
    service.spiders.publish([INFO, describe(BroadSpider)])
    client = as_role(role)
    me = User.objects.get()
    scope = "submit" if role == "submitter" else "operate"
    _, token = tokens.make(me, "t", scope, 1)
    given = {"seeds": "/etc/passwd"}
    sent = {"spider": "lists", "arguments": given}

    def api(path: str, body: Any, status: int = 422) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        url = f"/api/v1/{path}"
        reply = client.post(url, body, content_type="application/json", headers=headers)
        assert reply.status_code == status, reply.content
        assert "CRAWLFRAME_ARGUMENT_FILES" in reply.content.decode() or status == 403

    api("tasks", sent)
    api("tasks", [sent])
    api("new_task", {"spider": "lists", **given})
    api("tasks", {"spider": "broad", "arguments": given})
    api("watches", sent)
    timing = {"name": "n", "cron": "0 6 * * *"}
    api("schedules", sent | timing, 403 if role == "submitter" else 422)
    form = {"argument-seeds": "/etc/passwd", "priority": "0", "argument-text": "none"}
    for spider in ("lists", "broad"):
        page = client.post(f"{reverse('admin:submit')}?spider={spider}", form).content.decode()
        assert "CRAWLFRAME_ARGUMENT_FILES" in page
    assert not Task.objects.exists()
    assert not Watch.objects.exists()
    assert not Schedule.objects.exists()
    with pytest.raises(BadSource, match="CRAWLFRAME_ARGUMENT_FILES"):
        sealed_place('{"seeds": "/etc/passwd"}', "lists", 60)
    # One that was stored earlier does not start; a command may name any file.
    old = Schedule.objects.create(name="o", spider="lists", cron="0 6 * * *", arguments=given)
    with pytest.raises(ArgumentError, match="CRAWLFRAME_ARGUMENT_FILES"):
        schedules.run_now(old, me)
    call_command("submit", "lists", arguments=["seeds=/etc/passwd"])
    assert Task.objects.get().arguments == given


@pytest.mark.parametrize(
    "given",
    [
        {"url": "https://ann:pw@shop.example/"}, {"url": "at https://token@shop.example:81/x now"},
        {"deep": {"a": "socks5://u:p@h"}},
    ],
)  # fmt: skip
def test_a_login_in_a_url_is_not_stored(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="user and password of a URL") as refused:
        check(INFO, {"seeds": "/x", **given}, from_text=False, any_file=True)
    assert "pw" not in str(refused.value)
    for fine in ("https://shop.example/@ann", "ann@shop.example", "https://h/?m=a@b"):
        check(INFO, {"seeds": "/x", "url": fine}, from_text=False, any_file=True)
