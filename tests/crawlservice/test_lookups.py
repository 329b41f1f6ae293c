"""Look-ups of the admin's lists: only declared filters are allowed, and no value makes an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import SuspiciousOperation
from django.db.models import Field
from django.http import HttpRequest
from django.test import Client, RequestFactory

from crawlservice.admin.parts.lookups import DeclaredList, DeclaredLookups
from crawlservice.models import Task, Webhook
from tests.crawlservice.web import login

ODD = (
    "(", "\0", "x\0y", "1,2", "", "-1", "1e999", "nan", "9" * 40, "１", "[", "*", "\\", "%", "null",
    "0001-01-01", "9999-12-31T23:59:59", "2026-13-45", "'\"<b>", "\ud7ff\uffff", "x" * 5000,
)  # fmt: skip
ROLES = ("viewer", "submitter", "operator", "administrator")
# Parameters that Django itself accepts besides filters.
CONTROLS = ("q", "o", "p", "all", "e", "_facets", "_popup", "_to_field", "_changelist_filters",
            "before", "after")  # fmt: skip
REGISTRY = list(admin.site._registry.values())
STEP = 11  # of the look-ups, one in so many is tried in each list


def lookups(model: Any, deep: bool = True) -> Iterator[str]:
    """Every look-up on every field, and every seventh on fields of rows that these refer to."""
    for field in model._meta.get_fields():
        yield field.name
        if isinstance(field, Field):
            yield from (f"{field.name}__{name}" for name in field.get_lookups())
        if deep and field.related_model is not None and field.related_model is not model:
            some = islice(lookups(field.related_model, False), 0, None, 7)
            yield from (f"{field.name}__{inner}" for inner in some)


def declared(site: Any) -> set[str]:
    """The parameters of a list's filters."""
    request = RequestFactory().get("/")
    request.user = User.objects.get(is_superuser=True)
    changes = site.get_changelist_instance(request)
    specs = changes.get_filters(request)[0]
    shown = {name for spec in specs for name in spec.expected_parameters() if name}
    # Filters that have nothing to offer are not shown.
    return shown | {getattr(one, "parameter_name", "") for one in site.list_filter} - {""}


def instance(site: Any, query: dict[str, str], user: Any) -> ChangeList:
    request = RequestFactory().get("/", query)
    request.user = user
    request._messages = CookieStorage(request)  # type: ignore[attr-defined]
    found: ChangeList = site.get_changelist_instance(request)
    return found


def request_of(browser: Client) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = User.objects.get(pk=browser.session["_auth_user_id"])
    return request


@pytest.fixture
def rows(ended_task: Task) -> Task:
    """Fills every list, so that filters by webhook and schedule are shown."""
    from crawlservice.models import (
        AlertMessage,
        AlertTarget,
        Delivery,
        Event,
        ProxySource,
        Run,
        Schedule,
    )

    schedules = [Schedule.objects.create(name=f"s{n}", spider="shop", every=60) for n in (1, 2)]
    hooks = [
        Webhook.objects.create(name=f"w{n}", url="http://x.example/", sealed_secret="sealed")
        for n in (1, 2)
    ]
    for n in (1, 2):
        ProxySource.objects.create(name=f"p{n}", sealed_place="sealed")
        target = AlertTarget.objects.create(name=f"t{n}", kind="mail")
        AlertMessage.objects.create(target=target, kind="test", severity=1, title="t", text="t")
    for schedule, hook in zip(schedules, hooks, strict=True):
        Run.objects.create(schedule=schedule, due_at=ended_task.created_at, outcome="submitted")
        Delivery.objects.create(webhook=hook, event=Event.objects.get())
    return ended_task


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)  # no row is asked for
def test_every_list_takes_declared_look_ups_only(rows: Task) -> None:
    root = User.objects.create(username="root", is_superuser=True, is_staff=True)
    for turn, site in enumerate(REGISTRY):
        assert isinstance(site, DeclaredLookups)
        assert issubclass(site.get_changelist(RequestFactory().get("/")), DeclaredList)
        known = declared(site)
        # All lists refuse them by the same code: each tries others.
        for number, name in enumerate(islice(lookups(site.model), turn % STEP, None, STEP)):
            if name in known or name in CONTROLS:
                continue
            # In turn, a value that fits most columns, and values that do not.
            value = "1" if number % 2 else ODD[number // 2 % len(ODD)]
            with pytest.raises((IncorrectLookupParameters, SuspiciousOperation)):
                instance(site, {name: value}, root)


def test_every_value_is_understood_or_refused(rows: Task) -> None:
    root = User.objects.create(username="root", is_superuser=True, is_staff=True)
    for turn, site in enumerate(REGISTRY):
        ours = [
            (name, value)
            for number, name in enumerate(sorted(declared(site)))
            for value in ODD[(number + turn) % 2 :: 2]
        ]
        # Parameters of Django itself are the same in every list: each value is tried in some.
        djangos = [
            (name, ODD[(len(CONTROLS) * turn + number) % len(ODD)])
            for number, name in enumerate(CONTROLS)
        ]
        for name, value in (*ours, *djangos):
            try:
                instance(site, {name: value}, root)
            except (IncorrectLookupParameters, SuspiciousOperation):
                pass


def test_no_value_makes_an_error(rows: Task, as_role: Callable[[str], Client]) -> None:
    """In each list, as one of the roles that may see it."""
    login(is_superuser=True)
    browsers = [as_role(role) for role in ROLES]
    values = cycle(ODD)
    for number, site in enumerate(REGISTRY):
        place = f"/admin/{site.opts.app_label}/{site.opts.model_name}/"
        seen = [one for one in browsers if site.has_view_permission(request_of(one))]
        if not seen:
            continue
        browser = seen[number % len(seen)]
        browser.raise_request_exception = False
        own = [*declared(site), "q"]
        for name in ("q", "id__regex", own[number % len(own)]):
            query = urlencode({name: next(values)})
            answer = browser.get(f"{place}?{query}")
            assert answer.status_code in (200, 302), f"{place}?{query}"
            if answer.status_code == 302:
                assert answer["Location"] == f"{place}?e=1"
        for value in (next(values), "9" * 40):
            answer = browser.get(f"{place}{quote(value or 'x', safe='')}/change/")
            assert answer.status_code in (200, 302, 403, 404), f"{place}{value}/change/"


def test_a_wrong_look_up_leads_to_the_list_with_a_message(rows: Task) -> None:
    browser = login(is_superuser=True)
    place = "/admin/crawlservice/webhook/"
    for query in (
        "sealed_secret__startswith=s", "e=1&sealed_secret__regex=(", "%00=1", "name=w1",
    ):  # fmt: skip
        answer = browser.get(f"{place}?{query}", follow=True)
        assert answer.redirect_chain == [(f"{place}?e=1", 302)]
        assert "This list has no such filter" in answer.content.decode()
    assert browser.get(f"{place}?deliveries__problem__startswith=x").status_code == 400


def test_wrong_rows_of_an_action_make_no_error(
    rows: Task, as_role: Callable[[str], Client]
) -> None:
    browser = as_role("administrator")
    browser.raise_request_exception = False
    actions = {
        "task": "pause", "page": "retry", "token": "revoke", "delivery": "send_again",
        "webhook": "delete_selected", "schedule": "run",
    }  # fmt: skip
    for name, action in actions.items():
        place = f"/admin/crawlservice/{name}/"
        for value in ("x", "9" * 40, "\0", "-1", ""):
            form = {"action": action, "_selected_action": value, "index": "0"}
            assert browser.post(place, form).status_code in (200, 302), (place, form)


def test_other_addresses_make_no_error(rows: Task, as_role: Callable[[str], Client]) -> None:
    browser = as_role("administrator")
    browser.raise_request_exception = False
    places = {
        "autocomplete/?app_label=crawlservice&model_name=task&field_name=user&term=": {404},
        "search/?extended=1&s=": {200},
        "overview/chart/?span=": {200},
        "crawlservice/schedule/times/?cron=x&timezone=UTC&every=": {200},
        "crawlservice/schedule/add/?spider=": {200, 302},
        "crawlservice/task/submit/shop/?clone=": {200, 302, 404},
    }
    for place, statuses in places.items():
        for value in ODD:
            answer = browser.get(f"/admin/{place}{quote(value)}")
            assert answer.status_code in statuses, f"{place}{value}: {answer.status_code}"
