"""Login sessions end after idle time; polling by pages does not keep them alive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from crawlservice.accounts import sessions
from crawlservice.models import Action, Task
from tests.crawlservice.web import login

PAGE = "/admin/crawlservice/task/"
HOUR = 3600


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sessions, "time", clock)
    return clock


@pytest.fixture
def browser(ended_task: Task, clock: Clock, settings_with: Callable[..., None]) -> Client:
    settings_with(SESSION_IDLE=8 * HOUR)
    return login(is_superuser=True)


def is_in(browser: Client, place: str = PAGE) -> bool:
    return browser.get(place).status_code == 200


def test_a_session_lives_while_something_is_done(browser: Client, clock: Clock) -> None:
    for _ in range(5):
        assert is_in(browser)
        clock.now += 7 * HOUR
    assert is_in(browser)
    clock.now += 8 * HOUR + 61
    assert not is_in(browser)
    assert not is_in(browser)
    assert Action.objects.latest("pk").verb == "logout"
    assert not Session.objects.exists()


def test_live_parts_of_pages_keep_no_session_alive(
    browser: Client, clock: Clock, ended_task: Task
) -> None:
    assert is_in(browser)
    parts = ("/admin/overview/", "/admin/overview/hosts/", "/admin/overview/chart/")
    task = f"/admin/crawlservice/task/{ended_task.pk}"
    for _ in range(8):
        for place in (*parts, f"{task}/now/", f"{task}/change/now/", f"{task}/chart/"):
            assert browser.get(place).status_code in (200, 286)
        clock.now += HOUR
    clock.now += 61
    gone = browser.get(parts[0])
    assert (gone.status_code, gone["HX-Refresh"]) == (403, "true")


@pytest.mark.parametrize("place", ["/healthz", "/readyz"])
def test_to_watch_the_service_is_no_activity(browser: Client, clock: Clock, place: str) -> None:
    assert is_in(browser)
    for _ in range(2):
        clock.now += 5 * HOUR
        browser.get(place)
    assert not is_in(browser)


def test_a_session_that_only_polls_ends_too(browser: Client, clock: Clock) -> None:
    assert is_in(browser, "/admin/overview/")
    clock.now += 8 * HOUR + 61
    assert not is_in(browser, "/admin/overview/")


def test_no_session_lives_for_ever(
    browser: Client, clock: Clock, settings_with: Callable[..., None]
) -> None:
    settings_with(SESSION_COOKIE_AGE=20 * HOUR)
    for _ in range(4):
        assert is_in(browser)
        clock.now += 6 * HOUR
    assert not is_in(browser)


def test_without_a_limit_idle_sessions_stay(
    browser: Client, clock: Clock, settings_with: Callable[..., None]
) -> None:
    settings_with(SESSION_IDLE=0)
    assert is_in(browser)
    clock.now += 100 * HOUR
    assert is_in(browser)
    assert User.objects.count() == 1
