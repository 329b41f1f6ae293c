"""Alerts in the admin: "What needs me", decisions, rules, targets and messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from crawlframe.base.secret import MASK
from crawlframe.frontier import Frontier
from crawlservice.accounts.roles import ROLES
from crawlservice.alerts import dashboard_summary, state
from crawlservice.alerts.announcements import announce
from crawlservice.alerts.condition import Alarm
from crawlservice.connections import clock
from crawlservice.models import (
    Action,
    Alert,
    AlertMessage,
    AlertRule,
    AlertTarget,
    Installation,
    Schedule,
    Webhook,
)
from crawlservice.security.sealing import unseal
from tests.crawlservice.forms import filled_in, problems
from tests.crawlservice.receiver import Receiver
from tests.crawlservice.web import act, cells, counted, log_in_as, look, texts

LIST = "/admin/crawlservice/alert/"
RULES = "/admin/crawlservice/alertrule/"
TARGETS = "/admin/crawlservice/alerttarget/"
MESSAGES = "/admin/crawlservice/alertmessage/"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


@pytest.fixture
def admin(service: Frontier) -> Client:
    Installation.objects.get_or_create(pk=1)
    return log_in_as("administrator")


def find(kind: str, *spiders: str, **facts: Any) -> None:
    """A leader looked now, and found this."""
    now = clock.now()
    findings = [
        Alarm(
            kind,
            name,
            now - timedelta(hours=2),
            {"spider": name, "task": 7, "reason": "no pages", "host": name, **facts},
            spider=name,
        )
        for name in spiders
    ]
    state.record({kind: findings}, {}, now)
    state.mark_checked(now)


def actions() -> list[Action]:
    return [*Action.objects.exclude(verb="login").order_by("pk")]


# -- open alerts -----------------------------------------------------------------------------------


def test_the_dashboard_begins_with_what_needs_me(admin: Client) -> None:
    find("host_held", "a.example", why="blocked")
    find("task_failed", "shop", "news <b>")
    page = look(admin)
    assert texts(page, "#content h2, #cf-needs h2")[0] == "What needs me"
    assert texts(page, ".cf-need .cf-badge") == ["task failed · 2", "host held"]
    assert texts(page, ".cf-need-what") == [
        "shop #7 failed: no pages",
        "news <b> #7 failed: no pages",
        "a.example blocks: nothing of it is fetched.",
    ]
    assert 'href="/admin/crawlservice/task/7/change/"' in page
    assert "for 2\xa0hours" in page
    assert texts(look(admin, "/admin/overview/"), ".cf-need-what") == texts(page, ".cf-need-what")


def test_all_is_well_and_when_that_was_checked(admin: Client) -> None:
    assert "Not checked yet: no node has run." in look(admin)
    find("task_failed")
    page = look(admin)
    assert "All is well." in page
    (checked,) = texts(page, "#cf-needs header time")
    assert checked[:4].isdigit()
    state.mark_checked(clock.now() - timedelta(minutes=2))
    page = look(admin)
    assert "No node leads, so this was last checked" in page
    assert "All is well." not in page


def test_the_next_schedules_come_after_it(admin: Client) -> None:
    soon = clock.now() + timedelta(hours=1)
    Schedule.objects.create(name="nightly", spider="shop", every=60, next_at=soon)
    Schedule.objects.create(name="off", spider="shop", every=60, next_at=soon, enabled=False)
    assert [text.split()[0] for text in texts(look(admin), ".cf-next .cf-chip")] == ["nightly"]


def test_one_or_all_of_a_kind_are_acknowledged_from_the_dashboard(admin: Client) -> None:
    find("task_failed", "a", "b", "c")
    first = Alert.objects.get(subject="a")
    form = {"verb": "acknowledge", "from": "dashboard"}
    answer = admin.post(f"{LIST}{first.pk}/decide/", form, follow=True)
    assert answer.redirect_chain == [("/admin/", 302)]
    assert len(texts(answer.content.decode(), ".cf-need-what")) == 2
    assert "1 acknowledged" in answer.content.decode()
    admin.post(f"{LIST}of/task_failed/acknowledge/")
    page = look(admin)
    assert texts(page, ".cf-need-what") == []
    assert "3 acknowledged" in page
    assert "All is well." in page
    told = [row.detail["alert"] for row in actions() if row.verb == "acknowledge alert"]
    assert (told[0], len(told)) == (first.pk, 3)
    first.refresh_from_db()
    assert first.acknowledged_by is not None
    assert first.acknowledged_by.username == "administrator"


def test_what_is_silenced_is_left_out(admin: Client) -> None:
    find("task_failed", "a", "b")
    state.silence([Alert.objects.get(subject="a").pk], 1, clock.now(), {})
    page = look(admin)
    assert texts(page, ".cf-need-what") == ["b #7 failed: no pages"]
    assert "1 silenced" in page


def test_long_lists_are_cut_with_a_link_to_all(admin: Client) -> None:
    find("task_failed", *(f"spider-{n}" for n in range(9)))
    page = look(admin)
    assert len(texts(page, ".cf-need-what")) == dashboard_summary.MAX_ALERTS
    assert "and 4 more" in page
    assert f"{LIST}?kind=task_failed&amp;state=open" in page
    assert len(cells(look(admin, f"{LIST}?kind=task_failed&state=open"), "sentence")) == 9


def test_it_costs_the_same_however_much_is_open(admin: Client) -> None:
    find("task_failed", "a")
    counted(admin)[1]
    before = counted(admin)[1]
    find("task_failed", *map(str, range(200)))
    assert counted(admin)[1] == before


@pytest.mark.parametrize("role", ROLES)
def test_who_sees_it_and_who_decides(service: Frontier, role: str) -> None:
    client = log_in_as(role)
    Installation.objects.get_or_create(pk=1)
    find("task_failed", "a")
    alert = Alert.objects.get()
    may = role in ("operator", "administrator")
    page = look(client)
    assert texts(page, ".cf-need-what") != []
    assert ("Acknowledge" in page) == may
    assert client.get(LIST).status_code == 200
    answer = client.post(f"{LIST}{alert.pk}/decide/", {"verb": "acknowledge"})
    assert answer.status_code == (302 if may else 403)
    assert client.post(f"{LIST}of/task_failed/acknowledge/").status_code == (302 if may else 403)
    assert client.get(RULES).status_code == (200 if may else 403)
    assert client.get(TARGETS).status_code == (200 if may else 403)
    change = client.get(f"{TARGETS}add/").status_code
    assert change == (200 if role == "administrator" else 403)
    assert client.get(f"{LIST}{alert.pk}/decide/").status_code == 405


# -- lists and pages -------------------------------------------------------------------------------


def test_the_list_with_its_states_and_decisions(admin: Client) -> None:
    find("task_failed", "a", "b", "c")
    a, b, _ = Alert.objects.order_by("pk")
    act(admin, LIST, "acknowledge", a)
    act(admin, LIST, "silence_8", b)
    page = look(admin, LIST)
    assert cells(page, "shown_state") == ["open", "silenced", "acknowledged"]
    assert cells(page, "who") == ["-", "-", "administrator"]
    for word, number in (("open", 1), ("silenced", 1), ("acknowledged", 1), ("resolved", 0)):
        assert len(cells(look(admin, f"{LIST}?state={word}"), "sentence")) == number, word
    act(admin, LIST, "reopen", a, b)
    assert cells(look(admin, LIST), "shown_state") == ["open"] * 3
    find("task_failed")
    assert cells(look(admin, LIST), "shown_state") == ["resolved"] * 3
    verbs = [row.verb for row in actions()]
    assert verbs == ["acknowledge alert", "silence alert", "reopen alert", "reopen alert"]


def test_the_page_of_an_alert(admin: Client, receiver: Receiver) -> None:
    find("task_failed", "a")
    alert = Alert.objects.get()
    target = AlertTarget.objects.create(name="chat", kind="mail", shown="a@example.com")
    AlertRule.objects.create(name="all", group_minutes=0).targets.add(target)
    announce(clock.now() + timedelta(minutes=1))
    place = f"{LIST}{alert.pk}/change/"
    page = look(admin, place)
    assert "a #7 failed: no pages" in page
    assert "chat" in texts(page, ".cf-table td")
    admin.post(f"{LIST}{alert.pk}/decide/", {"verb": "silence", "hours": "4"})
    page = look(admin, place)
    assert "Silenced until" in page
    assert "silence alert" in page
    assert admin.post(f"{LIST}{alert.pk}/decide/", {"verb": "silence", "hours": "5000"}
                      ).status_code == 403  # fmt: skip
    assert admin.post(f"{LIST}{alert.pk}/decide/", {"verb": "explode"}).status_code == 403
    assert admin.get(f"{LIST}999/change/").status_code == 404
    assert admin.get(f"{LIST}x/change/").status_code in (403, 404)


# -- rules -----------------------------------------------------------------------------------------


def form(client: Client, place: str, **fields: Any) -> Any:
    page = look(client, place)
    given = {k: v for k, v in filled_in(page).items() if k not in ("targets", "kinds")}
    return client.post(place, {**given, **fields}, follow=True)


def test_a_rule_is_made_and_changed(admin: Client) -> None:
    target = AlertTarget.objects.create(name="chat", kind="mail", shown="a@example.com")
    answer = form(
        admin,
        f"{RULES}add/",
        **{
            "name": "nights", "targets": [target.pk], "kinds": ["silent", "disk"],
            "threshold-disk": "80", "spiders": "shop\nnews\n", "labels": "team=red",
            "quiet_from": "22:00", "quiet_until": "07:00", "timezone": "Asia/Shanghai",
        },
    )  # fmt: skip
    assert problems(answer.content.decode()) == {}
    rule = AlertRule.objects.get()
    assert (rule.kinds, rule.thresholds) == (["silent", "disk"], {"disk": 80.0})
    assert (rule.spiders, rule.labels) == (["shop", "news"], ["team=red"])
    assert [*rule.targets.all()] == [target]
    assert [row.verb for row in actions()] == ["add_alertrule"]
    page = look(admin, RULES)
    assert cells(page, "quiet") == ["22:00–07:00 Asia/Shanghai"]
    assert cells(page, "what") == [
        "silent task, disk nearly full, from warning on (shop, news, team=red)"
    ]
    page = look(admin, f"{RULES}{rule.pk}/change/")
    assert filled_in(page)["threshold-disk"] == "80.0"
    form(admin, f"{RULES}{rule.pk}/change/", **{"threshold-disk": "", "kinds": ["silent"]})
    rule.refresh_from_db()
    assert (rule.thresholds, rule.kinds) == ({}, ["silent"])


def test_a_bad_rule_is_refused_at_its_field(admin: Client) -> None:
    for fields, field in (
        ({"quiet_from": "22:00", "quiet_until": "22:00"}, "quiet_until"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"threshold-disk": "101"}, "threshold-disk"),
        ({"labels": "red"}, "labels"),
        ({"group_minutes": "5000"}, "group_minutes"),
        ({"spiders": "x" * 200}, "spiders"),
    ):
        answer = form(admin, f"{RULES}add/", **({"name": "bad"} | fields))
        assert field in problems(answer.content.decode())
        assert not AlertRule.objects.exists()


def test_the_default_rule_is_one_click(admin: Client) -> None:
    assert "Make a target first" in look(admin, RULES)
    assert "Make a target first" in admin.post(f"{RULES}default/", follow=True).content.decode()
    AlertTarget.objects.create(name="chat", kind="mail")
    AlertTarget.objects.create(name="off", kind="mail", enabled=False)
    assert "Report everything from warnings on" in look(admin, RULES)
    admin.post(f"{RULES}default/")
    admin.post(f"{RULES}default/")
    rule = AlertRule.objects.get()
    assert [target.name for target in rule.targets.all()] == ["chat"]
    assert admin.get(f"{RULES}default/").status_code == 405
    other = log_in_as("viewer")
    assert other.post(f"{RULES}default/").status_code == 403


# -- targets ---------------------------------------------------------------------------------------


def test_the_address_of_a_target_is_never_shown_again(admin: Client) -> None:
    fields = {"name": "chat", "kind": "service", "address": SLACK, "enabled": "on"}
    answer = admin.post(f"{TARGETS}add/", fields, follow=True)
    target = AlertTarget.objects.get()
    assert unseal(target.sealed_address) == SLACK
    journal = "".join(str(row.detail) for row in Action.objects.all())
    pages = [answer.content.decode(), look(admin, TARGETS), look(admin, RULES + "add/")]
    pages += [look(admin, f"{TARGETS}{target.pk}/change/"), journal]
    for page in pages:
        assert "TIiajkdnlazkcOXrIdevi7FQ" not in page
        assert "T1JJ3T3L2" not in page
    assert f"slack://{MASK}" in pages[1]

    change = f"{TARGETS}{target.pk}/change/"
    kept = {"name": "room", "kind": "service", "address": "", "enabled": "on"}
    admin.post(change, kept)
    target.refresh_from_db()
    assert (target.name, unseal(target.sealed_address)) == ("room", SLACK)
    admin.post(change, {**kept, "address": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV"})
    target.refresh_from_db()
    assert target.shown == f"discord://{MASK}"


def test_a_bad_target_is_refused_at_its_field(admin: Client) -> None:
    for fields, field in (
        ({"kind": "service", "address": "nonsense"}, "address"),
        ({"kind": "service", "address": ""}, "address"),
        ({"kind": "service", "address": f"slack://{MASK}"}, "address"),
        ({"kind": "mail", "address": "nobody"}, "address"),
        ({"kind": "webhook"}, "webhook"),
    ):
        answer = admin.post(f"{TARGETS}add/", {"name": "bad", "enabled": "on", **fields})
        assert field in problems(answer.content.decode())
        assert not AlertTarget.objects.exists()


def test_another_kind_needs_another_address(admin: Client) -> None:
    admin.post(f"{TARGETS}add/", {"name": "chat", "kind": "service", "address": SLACK})
    target = AlertTarget.objects.get()
    place = f"{TARGETS}{target.pk}/change/"
    answer = admin.post(place, {"name": "chat", "kind": "mail", "address": ""})
    assert "address" in problems(answer.content.decode())


def test_a_test_shows_what_the_target_answered(admin: Client, receiver: Receiver) -> None:
    address = receiver.url.replace("http", "json")
    fields = {"name": "chat", "kind": "service", "address": address, "enabled": "on"}
    admin.post(f"{TARGETS}add/", fields)
    page = act(admin, TARGETS, "send_test", AlertTarget.objects.get())
    assert "chat accepted the test: it answered 200: &lt;b&gt;sorry&lt;/b&gt;" in page
    receiver.answers["/"] = 500
    page = act(admin, TARGETS, "send_test", AlertTarget.objects.get())
    assert "chat: it answered 500" in page
    assert len(receiver.told) == 2
    assert cells(look(admin, TARGETS), "last_problem")[0].startswith("it answered 500")
    page = look(admin, MESSAGES)
    assert cells(page, "state") == ["given up", "sent"]
    act(admin, MESSAGES, "send_again", AlertMessage.objects.first())
    assert cells(look(admin, MESSAGES), "state") == ["waiting", "sent"]
    assert cells(look(admin, f"{MESSAGES}?state=sent"), "state") == ["sent"]
    assert cells(look(admin, f"{MESSAGES}?state=failed"), "state") == []
    verbs = [row.verb for row in actions()]
    assert verbs[1:] == ["test alert target"] * 2 + ["send again alert message"]
    assert "http" not in "".join(str(row.detail) for row in Action.objects.all())


def test_deleting_a_target_deletes_its_messages(admin: Client) -> None:
    webhook = Webhook.objects.create(name="pager", url="https://pager.example/in")
    admin.post(f"{TARGETS}add/", {"name": "pager", "kind": "webhook", "webhook": webhook.pk})
    target = AlertTarget.objects.get()
    assert target.shown == "pager"
    AlertMessage.objects.create(target=target, kind="test", severity=1, title="t", text="x")
    page = act(admin, TARGETS, "delete_selected", target)
    assert "1" in page
    form = {"action": "delete_selected", "_selected_action": [target.pk], "post": "yes"}
    admin.post(TARGETS, form)
    assert not AlertTarget.objects.exists()
    assert not AlertMessage.objects.exists()
    assert Action.objects.first().verb == "delete_alerttarget"  # type: ignore[union-attr]
