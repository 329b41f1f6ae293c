"""Error pages: ours, in the reader's language, and without files of the theme."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.utils import translation

from crawlservice.admin import nodes
from crawlservice.web import refusals

LIST = "/admin/crawlservice/webhook/"


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
    refusals._told.clear()
    yield
    translation.deactivate()


@pytest.fixture
def operator(as_role: Callable[[str], Client]) -> Client:
    client = as_role("operator")
    client.raise_request_exception = False
    return client


def broken(*args: object) -> None:
    raise ZeroDivisionError("<b>secret</b>")


@pytest.mark.parametrize(
    ("place", "host", "status", "english", "chinese"),
    [
        ("/nowhere", "localhost", 404, "Page not found", "页面不存在"),
        ("/admin/crawlservice/task/9/change/", "localhost", 404, "Page not found", "页面不存在"),
        ("/admin/auth/user/add/", "localhost", 403, "You do not have permission", "你没有权限"),
        (f"{LIST}?deliveries__problem=x", "localhost", 400, "cannot be read", "无法读取此请求"),
        ("/admin/", "localhost", 500, "Something went wrong", "出错了"),
    ],
)
def test_each_error_has_a_page(
    operator: Client,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    host: str,
    status: int,
    english: str,
    chinese: str,
) -> None:
    monkeypatch.setattr(nodes, "dashboard", broken)
    for language, words in (("en", english), ("zh-hans", chinese)):
        answer = operator.get(place, headers={"host": host, "accept-language": language})
        page = answer.content.decode()
        assert answer.status_code == status
        assert words in page
        assert f'<html lang="{language}">' in page
        assert "secret" not in page
        assert not re.search(r"<script|<style|style=|Traceback", page)
        assert "Content-Security-Policy" in answer.headers


def test_a_form_without_its_token_is_refused_with_the_reason(operator: Client) -> None:
    strict = Client(enforce_csrf_checks=True, SERVER_NAME="localhost")
    strict.cookies = operator.cookies
    answer = strict.post("/admin/crawlservice/task/1/pause/")
    assert answer.status_code == 403
    assert "This form has expired" in answer.content.decode()


def test_a_host_that_is_not_known_names_the_setting_and_is_logged_once(
    operator: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        answer = operator.get("/admin/", headers={"host": "crawl.example:8000"})
        page = answer.content.decode()
        assert answer.status_code == 400
        assert "CRAWLFRAME_ALLOWED_HOSTS" in page
        assert "“crawl.example”" in page
    (line,) = [record for record in caplog.records if record.name == "crawlservice.web.refusals"]
    assert line.levelname == "WARNING"
    assert "'crawl.example'" in line.message
    assert "CRAWLFRAME_ALLOWED_HOSTS" in line.message
    for n in range(100):  # whoever asks for many names fills no log
        operator.get("/", headers={"host": f"h{n}.example"})
    lines = [record for record in caplog.records if record.name == "crawlservice.web.refusals"]
    assert len(lines) == refusals.MAX_NAMES
    page = operator.get("/", headers={"host": "<b>"}).content.decode()
    assert "<b>" not in page


def test_a_host_that_is_no_address_has_the_page_too(operator: Client) -> None:
    for host in (
        "a]",
        "[a",
        "[::1",
        "][",
    ):
        answer = operator.get("/admin/", headers={"host": host})
        assert answer.status_code == 400
        assert f"“{host}”" in answer.content.decode()


def test_an_unknown_host_is_an_error_in_the_form_of_the_api(operator: Client) -> None:
    answer = operator.get("/api/v1/tasks", headers={"host": "crawl.example"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unknown_host"
    assert "CRAWLFRAME_ALLOWED_HOSTS" in answer.json()["error"]["message"]


def test_a_form_from_another_origin_names_the_setting(
    operator: Client, caplog: pytest.LogCaptureFixture
) -> None:
    strict = Client(enforce_csrf_checks=True, SERVER_NAME="localhost")
    strict.cookies = operator.cookies
    for _ in range(2):
        answer = strict.post(
            "/admin/crawlservice/task/1/pause/", headers={"origin": "https://crawl.example"}
        )
        page = answer.content.decode()
        assert answer.status_code == 403
        assert "CRAWLFRAME_CSRF_TRUSTED_ORIGINS" in page
        assert "https://crawl.example" in page
        assert "http://localhost" in page
    lines = [record for record in caplog.records if record.name == "crawlservice.web.refusals"]
    assert len(lines) == 1
