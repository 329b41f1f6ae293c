"""Pages that tell of an error: ours, in the reader's language, and without what the theme needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.utils import translation

from crawlservice.admin import dashboard


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
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
        ("/nowhere", "localhost", 404, "Nothing is here", "这里什么也没有"),
        ("/admin/crawlservice/task/9/change/", "localhost", 404, "Nothing is", "这里什么也没有"),
        ("/admin/auth/user/add/", "localhost", 403, "This is not for you", "你没有权限"),
        ("/", "elsewhere.example", 400, "cannot be read", "无法读取此请求"),
        ("/admin/", "localhost", 500, "Something broke", "出错了"),
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
    monkeypatch.setattr(dashboard, "page", broken)
    for language, words in (("en", english), ("zh-hans", chinese)):
        answer = operator.get(place, headers={"host": host, "accept-language": language})
        page = answer.content.decode()
        assert answer.status_code == status
        assert words in page
        assert f'<html lang="{language}">' in page
        assert "secret" not in page
        assert not re.search(r"<script|<style|style=|Traceback", page)
        assert "Content-Security-Policy" in answer.headers


def test_a_form_without_its_token_is_told_why(operator: Client) -> None:
    strict = Client(enforce_csrf_checks=True, SERVER_NAME="localhost")
    strict.cookies = operator.cookies
    answer = strict.post("/admin/crawlservice/task/1/pause/")
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()
