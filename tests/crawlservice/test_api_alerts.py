"""Alerts, rules and targets through the API and on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from crawlframe.base.secret import MASK
from crawlframe.frontier import Frontier
from crawlservice.accounts.roles import ROLES
from crawlservice.alerts import state
from crawlservice.alerts.condition import Alarm
from crawlservice.connections import clock
from crawlservice.management.commands.store import reseal_all
from crawlservice.models import (
    Action,
    Alert,
    AlertMessage,
    AlertRule,
    AlertTarget,
    Installation,
    Webhook,
)
from crawlservice.security.sealing import unseal
from tests.crawlservice.programs import Program, person, program
from tests.crawlservice.receiver import Receiver
from tests.crawlservice.test_api_tasks import error

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"


@pytest.fixture
def caller(service: Frontier) -> Program:
    Installation.objects.get_or_create(pk=1)
    return program(person("administrator"))


def find(*spiders: str) -> None:
    now = clock.now()
    facts = {"task": 7, "reason": "no pages"}
    since = now - timedelta(hours=1)
    findings = [
        Alarm("task_failed", name, since, facts | {"spider": name}, spider=name) for name in spiders
    ]
    state.record({"task_failed": findings}, {}, now)
    state.mark_checked(now)


def good(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.content
    return json.loads(answer.content) if answer.content else None


def test_alerts_are_listed_and_decided(caller: Program) -> None:
    assert good(caller.get("alerts")) == {"alerts": [], "next": None, "checked_at": None}
    find("a", "b")
    found = good(caller.get("alerts"))
    assert found["checked_at"] is not None
    newest, alert = found["alerts"]
    assert alert["text"] == "a #7 failed: no pages"
    assert (alert["condition"], alert["severity"]) == ("task_failed", "severe")
    assert (alert["state"], alert["link"]) == ("open", "/admin/crawlservice/task/7/change/")
    number = alert["id"]
    told = good(caller.post(f"alerts/{number}/acknowledge"))
    assert (told["state"], told["acknowledged_by"]) == ("acknowledged", "administrator")
    told = good(caller.post(f"alerts/{number}/silence", {"hours": 2.5}))
    assert told["state"] == "silenced"
    assert good(caller.post(f"alerts/{number}/reopen"))["state"] == "open"
    find("b")
    assert [one["id"] for one in good(caller.get("alerts"))["alerts"]] == [newest["id"]]
    every = good(caller.get("alerts?resolved=true&condition=task_failed"))["alerts"]
    assert [one["state"] for one in every] == ["open", "resolved"]
    assert good(caller.get(f"alerts/{number}"))["state"] == "resolved"
    error(caller.get("alerts/999"), 404, "unknown_alert")
    error(caller.post("alerts/999/acknowledge"), 404, "unknown_alert")
    error(caller.post(f"alerts/{newest['id']}/silence", {"hours": 0}), 422, "invalid")
    for verb, body in (("acknowledge", None), ("silence", {"hours": 1}), ("reopen", None)):
        told = error(caller.post(f"alerts/{number}/{verb}", body), 409, "wrong_state")
        assert told["message"] == f"alert {number} is resolved"
    verbs = [*Action.objects.order_by("pk").values_list("verb", flat=True)]
    assert verbs == ["acknowledge alert", "silence alert", "reopen alert"]


def test_a_target_and_a_rule(caller: Program) -> None:
    target = good(
        caller.post("alert-targets", {"name": "chat", "kind": "service", "address": SLACK}), 201
    )
    assert target["shown"] == f"slack://{MASK}"
    listed = good(caller.get("alert-targets"))
    assert listed["targets"] == [target]
    assert "T1JJ3T3L2" not in json.dumps(listed) + str([*Action.objects.values("detail")])
    body = {
        "name": "nights", "targets": ["chat"], "conditions": ["silent"],
        "thresholds": {"silent": 30}, "quiet_from": "22:00", "quiet_until": "07:00",
        "timezone": "Asia/Shanghai", "labels": ["team=red"], "least_severity": "severe",
    }  # fmt: skip
    rule = good(caller.post("alert-rules", body), 201)
    assert rule == rule | {**body, "quiet_from": "22:00:00", "quiet_until": "07:00:00"}
    assert good(caller.get("alert-rules"))["rules"] == [rule]
    changed = good(caller.put(f"alert-rules/{rule['id']}", {"name": "all"}))
    assert (changed["name"], changed["conditions"], changed["targets"]) == ("all", [], [])
    good(caller.delete(f"alert-rules/{rule['id']}"), 204)
    good(caller.delete(f"alert-targets/{target['id']}"), 204)
    assert not AlertRule.objects.exists()
    assert not AlertTarget.objects.exists()
    verbs = [*Action.objects.order_by("pk").values_list("verb", flat=True)]
    assert verbs == [
        "add_alerttarget", "add_alertrule", "change_alertrule", "delete_alertrule",
        "delete_alerttarget",
    ]  # fmt: skip


def test_what_cannot_be_is_refused_by_field(caller: Program) -> None:
    AlertRule.objects.create(name="there")
    AlertTarget.objects.create(name="there", kind="mail")
    for path, body, field in (
        ("alert-rules", {"name": "x", "conditions": ["rain"]}, "conditions"),
        ("alert-rules", {"name": "x", "targets": ["nowhere"]}, "targets"),
        ("alert-rules", {"name": "x", "thresholds": {"disk": 500}}, "thresholds"),
        ("alert-rules", {"name": "x", "timezone": "Mars/Base"}, "timezone"),
        ("alert-rules", {"name": "x", "quiet_from": "22:00"}, "quiet_until"),
        ("alert-rules", {"name": "there"}, "name"),
        ("alert-rules", {"name": "x", "surprise": 1}, "surprise"),
        ("alert-targets", {"name": "x", "kind": "service", "address": "nonsense"}, "address"),
        ("alert-targets", {"name": "x", "kind": "webhook", "webhook": "none"}, "webhook"),
        ("alert-targets", {"name": "there", "kind": "mail", "address": "a@example.com"}, "name"),
        ("alert-targets", {"name": "x", "kind": "pigeon"}, "kind"),
    ):
        told = error(caller.post(path, body), 422, "invalid")
        assert told["field"] == field


def test_packages_that_are_missing_are_named(
    caller: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlservice.alerts.services.apprise", None)
    body = {"name": "chat", "kind": "service", "address": SLACK}
    told = error(caller.post("alert-targets", body), 422, "invalid")
    assert told["field"] == "address"
    assert "pip install 'crawlframe[alerts]'" in told["message"]


def test_a_test_and_a_message_again(caller: Program, receiver: Receiver) -> None:
    address = receiver.url.replace("http", "json")
    body = {"name": "chat", "kind": "service", "address": address}
    number = good(caller.post("alert-targets", body), 201)["id"]
    told = good(caller.post(f"alert-targets/{number}/test"))
    assert told == {"ok": True, "problem": "", "reply": "it answered 200: <b>sorry</b>"}
    receiver.answers["/"] = 500
    assert not good(caller.post(f"alert-targets/{number}/test"))["ok"]
    found = good(caller.get("alert-messages"))["messages"]
    assert [one["state"] for one in found] == ["failed", "sent"]
    again = good(caller.post(f"alert-messages/{found[0]['id']}/send-again"))
    assert again["state"] == "waiting"
    error(caller.post("alert-messages/999/send-again"), 404, "unknown_alert")
    error(caller.post("alert-targets/999/test"), 404, "unknown_target")


def test_rights_on_alerts_by_role_and_scope(service: Frontier) -> None:
    Installation.objects.get_or_create(pk=1)
    find("a")
    alert = Alert.objects.get().pk
    for role in (*ROLES, ""):
        user = person(role)
        for scope in ("read", "submit", "operate"):
            caller = program(user, scope)
            operates = scope == "operate" and role in ("operator", "administrator")
            for path, may in (
                ("alerts", bool(role)),
                (f"alerts/{alert}", bool(role)),
                ("alert-rules", role in ("operator", "administrator")),
                ("alert-targets", role in ("operator", "administrator")),
                ("alert-messages", role in ("operator", "administrator")),
            ):
                assert caller.get(path).status_code == (200 if may else 403), (role, scope, path)
            status = caller.post(f"alerts/{alert}/acknowledge").status_code
            assert status == (200 if operates else 403)
            status = caller.post("alert-rules", {"name": f"{role} {scope}"}).status_code
            assert status == (201 if operates else 403)
            body = {"name": f"{role} {scope}", "kind": "mail", "address": "a@example.com"}
            may = operates and role == "administrator"
            assert caller.post("alert-targets", body).status_code == (201 if may else 403)


# -- commands --------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("alert", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_on_the_command_line(
    caller: Program, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("list").startswith("All is well.\nchecked: never")
    find("a")
    alert = Alert.objects.get()
    assert "a #7 failed: no pages" in run("list")
    assert "would acknowledge" in run("ack", str(alert.pk), "--dry-run")
    assert run("ack", str(alert.pk)).startswith("alerts acknowledged: 1\n")
    with pytest.raises(CommandError, match="there is no alert 999"):
        run("ack", "999")
    with pytest.raises(CommandError, match="there is no target; make one"):
        run("default")
    monkeypatch.setattr("sys.stdin", StringIO(f"{SLACK}\n"))
    assert f"chat: slack://{MASK}; to test it:" in run("target", "chat", "--service")
    assert "ops: ops@example.com" in run("target", "ops", "--mail", "ops@example.com")
    Webhook.objects.create(name="pager", url="https://pager.example/in")
    assert "pager: pager" in run("target", "pager", "--webhook", "pager")
    with pytest.raises(CommandError, match="there is no webhook none"):
        run("target", "x", "--webhook", "none")
    with pytest.raises(CommandError, match="there is a target chat already"):
        run("target", "chat", "--mail", "a@example.com")
    assert "the rule 'everything' reports to chat, ops, pager\n" in run("default")
    with pytest.raises(CommandError, match="ops: no mail server is set: CRAWLFRAME_SMTP_HOST"):
        run("test", "ops")
    with pytest.raises(CommandError, match="there is no target nobody"):
        run("test", "nobody")
    assert AlertMessage.objects.count() == 1
    assert all(row.detail["command"] for row in Action.objects.all())
    assert "T1JJ3T3L2" not in str([*Action.objects.values("detail")])


def test_addresses_are_sealed_again_with_a_new_key(
    caller: Program, settings_with: Callable[..., None]
) -> None:
    good(caller.post("alert-targets", {"name": "c", "kind": "service", "address": SLACK}), 201)
    key = settings.SECRET_KEY
    settings_with(SECRET_KEY="new" * 20, SECRET_KEY_FALLBACKS=[key])
    done, failed = reseal_all()
    assert done["alert targets"] == 1
    assert failed == []
    settings_with(SECRET_KEY_FALLBACKS=[])
    assert unseal(AlertTarget.objects.get().sealed_address) == SLACK
