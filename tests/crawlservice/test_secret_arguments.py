"""Secret arguments: sealed where they are stored, masked where they are shown, kept when a task or
a schedule is copied; and no trace of the text anywhere."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from redis import Redis

from crawlframe import Secret, Spider
from crawlframe.base.secret import MASK, SEALED
from crawlframe.errors import ArgumentError
from crawlframe.frontier import Counts, Frontier
from crawlframe.spider.spider import SpiderInfo, build, describe
from crawlservice.accounts import tokens
from crawlservice.ledger.ending import end, summary_of
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, Event, Run, Schedule, Submission, Task, Webhook
from crawlservice.scheduling import schedules
from crawlservice.security.sealing import SealError
from crawlservice.tasks.arguments.secrets import revealed, sealed
from crawlservice.tasks.arguments.spider_arguments import accepted, check, signature
from crawlservice.tasks.submit import submit
from crawlservice.webhooks.deliveries import body

from .forms import fields, filled_in, problems

TOKEN = "MARKED-b7e19c4d2f"  # a text that must not be found
NESTED = "MARKED-nested-55"


class Orders(Spider):
    """The orders of an account."""

    name = "orders"
    token: Secret

    def start(self, city: str, logins: dict[str, Secret] = {}, spare: Secret | None = None) -> Any:  # noqa: B006
        ...

    def parse(self, response: Any) -> Any: ...


GIVEN = {"city": "Ulm", "token": TOKEN, "logins": {"ann": NESTED}}
SHOWN = {"city": "Ulm", "token": MASK, "logins": {"ann": MASK}}


@pytest.fixture
def orders(service: Frontier) -> SpiderInfo:
    info = describe(Orders)
    service.spiders.publish([info])
    return info


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def everything_stored(redis: Redis) -> str:
    """All rows of all tables, and all of Redis, as text."""
    found = []
    with connection.cursor() as cursor:
        for model in apps.get_models(include_auto_created=True):
            cursor.execute(f'SELECT * FROM "{model._meta.db_table}"')
            for row in cursor.fetchall():
                found += [bytes(one) if isinstance(one, memoryview) else one for one in row]
    for key in redis.scan_iter():
        found += [key, redis.dump(key)]
    return repr(found)


def as_arguments(sent: dict[str, str]) -> dict[str, str]:
    """The arguments as the form of a task is sent."""
    own = ("priority", "csrfmiddlewaretoken")
    return {name if name in own else f"argument-{name}": text for name, text in sent.items()}


def assert_no_trace(*texts: str) -> None:
    for text in texts:
        assert TOKEN not in text
        assert NESTED not in text


def test_the_worker_gets_what_was_submitted_and_nothing_else_does(orders: SpiderInfo) -> None:
    task = submit("orders", GIVEN)
    row = Task.objects.get(pk=task.pk)
    assert row.arguments["city"] == "Ulm"
    assert row.arguments["token"].keys() == row.arguments["logins"]["ann"].keys() == {SEALED}
    assert row.shown_arguments == SHOWN
    spec = DjangoLedger().tasks.spec(task.pk)
    assert spec is not None
    assert_no_trace(repr(row.arguments), repr(spec))
    spider, start = build(Orders, spec.arguments)
    assert isinstance(spider, Orders)
    assert spider.token.reveal() == TOKEN
    assert start["logins"]["ann"].reveal() == NESTED
    summary = summary_of(task.pk, Counts("running", 1, 0, 0, *[0] * 5))
    assert summary is not None
    assert summary.arguments["token"] == Secret(TOKEN)


def test_no_trace_is_left_anywhere(
    orders: SpiderInfo,
    redis_client: Redis,
    as_role: Callable[[str], Client],
    watched: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Submitted in every way there is; then every row, page, answer, log and output is searched."""
    seen: list[str] = []
    Webhook.objects.create(name="w", url="https://hooks.example/", sealed_secret="")
    boss = as_role("superuser")
    _, token = tokens.make(User.objects.get(username="superuser"), "t", "operate", 1)
    headers = {"Authorization": f"Bearer {token}"}

    def api(method: str, path: str, data: Any = None, **more: str) -> Any:
        call = getattr(boss, method)
        extra = {"content_type": "application/json"} if data is not None else {}
        reply = call(f"/api/v1{path}", data, headers={**headers, **more}, **extra)
        seen.append(reply.content.decode())
        return reply.json()

    # The API: one, many, with a key, the older address, and refusals.
    keyed, whole = {"Idempotency-Key": "k"}, {"spider": "orders", "arguments": GIVEN}
    one = api("post", "/tasks", whole, **keyed)
    assert one["arguments"] == SHOWN
    assert api("post", "/tasks", whole, **keyed)["id"] == one["id"]
    api("post", "/tasks", [whole])
    api("post", "/new_task", {"spider": "orders", **GIVEN})
    wrong = [
        {**GIVEN, "token": [TOKEN]}, {**GIVEN, "token": {SEALED: TOKEN}},
        {**GIVEN, "token": f"{TOKEN}\0"}, {**GIVEN, "logins": TOKEN}, {**GIVEN, "tokn": TOKEN},
        {**GIVEN, "city": 5}, {**GIVEN, "logins": {"ann": [NESTED]}},
    ]  # fmt: skip
    for arguments in wrong:
        answer = api("post", "/tasks", {"spider": "orders", "arguments": arguments})
        assert answer["error"]["code"] == "argument"
    # The admin: submit, refuse, clone; and a schedule that is saved, started and changed.
    typed = {"argument-city": "Ulm", "argument-token": TOKEN, "priority": "0",
             "argument-logins": json.dumps({"ann": NESTED})}  # fmt: skip
    page = reverse("admin:submit") + "?spider=orders"
    for sent in (typed, {**typed, "argument-city": ""}, {**typed, "priority": "x"}):
        seen.append(boss.post(page, sent, follow=True).content.decode())
    clone = f"{page}&clone={one['id']}"
    seen.append(boss.get(clone).content.decode())
    form = {"name": "daily", "spider": "orders", "cron": "0 6 * * *", "timezone": "UTC",
            "overlap": "allow", "missed": "once", "enabled": "on", **typed}  # fmt: skip
    add = reverse("admin:crawlservice_schedule_add") + "?spider=orders"
    seen.append(boss.post(add, {**form, "cron": "x"}).content.decode())
    seen.append(boss.post(add, form, follow=True).content.decode())
    schedule = Schedule.objects.get()
    run = schedules.run_now(schedule)
    assert run.task is not None
    # The command line.
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
    call_command("submit", "orders", arguments=["city=Ulm", "token=-"])
    with pytest.raises(ArgumentError) as refused:
        submit("orders", {"city": "Ulm", "token": TOKEN, "logins": "x"}, from_text=True)
    seen.append(str(refused.value))
    # The task continues: it ends, events are made, the journal is written.
    task = Task.objects.get(pk=one["id"])
    with transaction.atomic():
        end({task.pk: Counts("finished", 0, 0, 0, *[0] * 5)}, 0)
    Event.objects.create(
        kind=Event.Kind.SCHEDULE_FAILED, schedule=schedule, detail={"problem": "p"}
    )
    seen += [body(event).decode() for event in Event.objects.all()]
    assert MASK in seen[-1]
    for noun in ("task", "schedule"):
        call_command(noun, "list")
    call_command("task", "show", str(task.pk))
    call_command("dumpdata", "crawlservice")
    for path in ("/tasks", f"/tasks/{task.pk}", "/schedules", f"/schedules/{schedule.pk}",
                 "/spiders", "/spiders/orders", f"/tasks/{task.pk}/items"):  # fmt: skip
        api("get", path)
    for model in apps.get_app_config("crawlservice").get_models():
        name = f"admin:crawlservice_{model._meta.model_name}"
        rows = model._default_manager.all()[:20]
        try:
            pages = [reverse(f"{name}_change", args=[row.pk]) for row in rows]
            pages.append(reverse(f"{name}_changelist"))
        except NoReverseMatch:
            continue  # it has no page
        seen += [boss.get(page).content.decode() for page in pages]
    for name in ("index", "submit"):
        seen.append(boss.get(reverse(f"admin:{name}")).content.decode())
    for suffix in ("jsonl", "csv"):
        seen.append(repr(boss.get(f"/api/v1/tasks/{task.pk}/export.{suffix}", headers=headers)))
    assert Task.objects.count() >= 6
    assert Submission.objects.exists()
    assert Action.objects.filter(verb="submit").exists()
    assert all("gAAAAA" not in text for text in seen)  # nor the sealed value
    assert_no_trace(everything_stored(redis_client), watched.text, *capsys.readouterr(), *seen)


def test_a_clone_keeps_the_secret_without_showing_it(
    orders: SpiderInfo, as_role: Callable[[str], Client]
) -> None:
    boss = as_role("operator")
    original = submit("orders", GIVEN, user=User.objects.get(username="operator"))
    page = reverse("admin:submit") + f"?spider=orders&clone={original.pk}"
    shown = boss.get(page).content.decode()
    assert fields(shown)["token"].attributes["type"] == "password"
    assert_no_trace(shown)
    sent = filled_in(shown) | {"city": "Bonn"}
    assert (sent["token"], sent["logins"]) == ("", "")
    boss.post(page, as_arguments(sent))
    copy = Task.objects.latest("pk")
    assert copy.pk != original.pk
    assert revealed(copy.arguments) == {
        "city": "Bonn", "token": Secret(TOKEN), "logins": {"ann": Secret(NESTED)}
    }  # fmt: skip
    boss.post(page, as_arguments(sent | {"token": "another"}))
    assert revealed(Task.objects.latest("pk").arguments)["token"] == Secret("another")


@pytest.mark.parametrize("role", ["superuser", "submitter"])
def test_a_secret_that_another_user_entered_is_not_cloned(
    orders: SpiderInfo, as_role: Callable[[str], Client], role: str
) -> None:
    """With another address among the arguments, the spider would send it there."""
    client = as_role(role)
    me, other = User.objects.get(username=role), User.objects.create_user("other")
    schedule = Schedule.objects.create(
        name="daily", spider="orders", cron="0 6 * * *", user=other,
        arguments=sealed(check(orders, GIVEN, from_text=False)),
    )  # fmt: skip
    run = schedules.run_now(schedule, me).task
    schedule.delete()  # the source of the task is no longer known
    again = submit("orders", GIVEN, user=me)
    Task.objects.filter(pk=again.pk).update(reparse={"task": 1})
    assert run is not None
    theirs = [submit("orders", GIVEN), submit("orders", GIVEN, user=other), run, again]
    page = reverse("admin:submit") + "?spider=orders&clone={}"
    sent = {"argument-city": "Bonn", "argument-token": "", "argument-logins": "", "priority": "0"}
    before = Task.objects.count()
    for task in theirs:
        refused = client.post(page.format(task.pk), sent)
        assert "token" in problems(refused.content.decode())
    assert Task.objects.count() == before
    own = submit("orders", GIVEN, user=me)
    client.post(page.format(own.pk), sent)
    assert revealed(Task.objects.latest("pk").arguments)["token"] == Secret(TOKEN)


AGAIN = "enter it again: another user entered it"
UNCHANGED = {
    "name": "nightly", "spider": "orders", "cron": "0 2 * * *", "timezone": "UTC",
    "overlap": "skip", "missed": "once", "priority": "0", "argument-city": "Ulm",
    "argument-token": "", "argument-logins": "", "argument-spare": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "way"),
    [("superuser", "form"), ("operator", "form"), ("operator", "json"), ("operator", "api")],
)
def test_a_secret_of_a_schedule_goes_only_where_it_was_entered_for(
    orders: SpiderInfo, service: Frontier, as_role: Callable[[str], Client], role: str, way: str
) -> None:
    """Other users may change settings that do not affect its destination, and nothing else."""
    client, other = as_role(role), User.objects.create_user("other")
    me = User.objects.get(username=role)
    schedule = Schedule.objects.create(
        name="daily", spider="orders", cron="0 6 * * *", user=other,
        arguments=sealed(check(orders, GIVEN, from_text=False)),
    )  # fmt: skip
    page = reverse("admin:crawlservice_schedule_change", args=[schedule.pk])

    def change(arguments: dict[str, Any] = SHOWN, **settings: Any) -> str:
        if way == "api":
            body = {"name": "nightly", "cron": "0 2 * * *", "arguments": arguments}
            url = f"/api/v1/schedules/{schedule.pk}"
            json_ = "application/json"
            _, token = tokens.make(me, "t", "operate", 1)
            answer = client.patch(
                url,
                body | {"settings": settings},
                json_,
                headers={"Authorization": f"Bearer {token}"},
            )
        elif way == "json":
            written = {"arguments": json.dumps(arguments), "overrides": json.dumps(settings)}
            plain = {n: v for n, v in UNCHANGED.items() if not n.startswith("argument-")}
            answer = client.post(page, plain | written)
        else:
            texts = {f"argument-{n}": "" if v in (MASK, {"ann": MASK}) else v if isinstance(v, str)
                     else json.dumps(v) for n, v in arguments.items()}  # fmt: skip
            chosen = {f"setting-{name}": str(value) for name, value in settings.items()}
            answer = client.post(page, UNCHANGED | texts | chosen)
        schedule.refresh_from_db()
        return answer.content.decode()

    change(delay=3)
    assert (schedule.name, schedule.overrides) == ("nightly", {"delay": 3})
    assert revealed(schedule.arguments)["token"] == Secret(TOKEN)
    assert schedule.user == other
    kept = schedule.arguments
    for arguments, settings in (
        ({**SHOWN, "city": "Bonn"}, {}),
        ({**SHOWN, "logins": {"eve": "x"}}, {}),
        ({"city": "Ulm", "token": MASK}, {}),  # one that is left out is a change, too
        ({**SHOWN, "token": "mine"}, {}),  # the logins would go with it
        (SHOWN, {"proxy": "http://192.0.2.1:3128"}),
    ):
        if way == "form" and "logins" not in arguments:
            continue  # an empty field keeps the stored value
        assert AGAIN in change(arguments, **settings)
        assert (schedule.arguments, schedule.user) == (kept, other)
    entered = {"city": "Bonn", "token": "mine", "logins": {"eve": "mine too"}}
    change(entered)
    assert schedule.user == me
    change({"city": "Köln", "token": MASK, "logins": {"eve": MASK}} if way != "form" else
           {"city": "Köln", "token": MASK, "logins": {"ann": MASK}})  # fmt: skip
    assert revealed(schedule.arguments)["token"] == Secret("mine")
    assert schedule.arguments["city"] == "Köln"


def test_a_schedule_of_a_spider_that_no_node_has(
    service: Frontier, as_role: Callable[[str], Client]
) -> None:
    """Its arguments are JSON: known secrets are masked, and kept."""
    info = describe(Orders)
    boss = as_role("operator")
    schedule = Schedule.objects.create(
        name="daily", spider="orders", cron="0 6 * * *", user=User.objects.get(),
        arguments=sealed(check(info, GIVEN, from_text=False)),
    )  # fmt: skip
    page = reverse("admin:crawlservice_schedule_change", args=[schedule.pk])
    shown = boss.get(page).content.decode()
    assert_no_trace(shown)
    assert json.loads(filled_in(shown)["arguments"]) == SHOWN
    written = {**SHOWN, "city": "Bonn"}
    sent = {"name": "daily", "spider": "orders", "cron": "0 6 * * *", "timezone": "UTC",
            "overlap": "skip", "missed": "once", "priority": "0",
            "arguments": json.dumps(written)}  # fmt: skip
    boss.post(page, sent)
    schedule.refresh_from_db()
    assert revealed(schedule.arguments)["token"] == Secret(TOKEN)
    assert schedule.arguments["city"] == "Bonn"
    Schedule.objects.update(user=None)
    sent["arguments"] = json.dumps({**SHOWN, "city": "Köln"})
    assert AGAIN in boss.post(page, sent).content.decode()
    # A value typed before it was known as a secret is sealed at the first start.
    Schedule.objects.filter(pk=schedule.pk).update(arguments=GIVEN)
    service.spiders.publish([info])
    schedules.run_now(Schedule.objects.get())
    assert_no_trace(repr(Schedule.objects.get().arguments))
    assert revealed(Schedule.objects.get().arguments)["logins"] == {"ann": Secret(NESTED)}


def test_runs_with_other_secrets_count_as_the_same(orders: SpiderInfo) -> None:
    """A hash of the secret itself would let a short one be guessed."""
    first, second = submit("orders", GIVEN), submit("orders", {**GIVEN, "token": "rotated"})
    assert first.arguments_hash == second.arguments_hash
    assert first.arguments["token"] != second.arguments["token"]


def test_wrong_secrets_are_refused(orders: SpiderInfo) -> None:
    for given, message in (
        ({"token": MASK}, "the mask of a secret"),
        ({"token": "x", "logins": {"ann": MASK}}, "the mask of a secret"),
        ({"token": "x", "city": {SEALED: "x"}}, "not accepted"),
        ({"token": 5}, "a secret text"),
        ({}, "needs the argument 'token': a secret text"),
    ):
        with pytest.raises(ArgumentError, match=message):
            check(orders, {"city": "Ulm", **given}, from_text=False)


def test_a_secret_is_not_stored_where_the_spider_takes_plain_text(orders: SpiderInfo) -> None:
    class Changed(Spider):
        name = "orders"

        def start(self, city: str, token: str) -> Any: ...

    with pytest.raises(ArgumentError, match=r"'token' is stored as a secret.*give it again"):
        check(describe(Changed), {"city": "Ulm", "token": Secret(TOKEN)}, from_text=False)


def test_how_a_secret_is_described(orders: SpiderInfo) -> None:
    properties = orders.arguments["properties"]
    assert accepted(properties["token"], orders.arguments) == "a secret text"
    assert signature(orders)[0] == "token: a secret text (required)"


def test_an_object_of_that_form_is_not_taken_for_a_stored_secret(published: Frontier) -> None:
    class Free(Spider):
        name = "free"

        def start(self, anything: dict[str, Any]) -> Any: ...

    for value in ({SEALED: "x"}, {"deep": [{SEALED: "x"}]}):
        with pytest.raises(ArgumentError, match=r"only key '\$secret'"):
            check(describe(Free), {"anything": value}, from_text=False)
    fine = {"anything": {SEALED: "x", "other": 1}}
    assert check(describe(Free), fine, from_text=False) == fine


def test_with_another_key_nothing_starts(
    orders: SpiderInfo, settings_with: Callable[..., None]
) -> None:
    settings_with(SECRET_KEY="a" * 50)
    task = submit("orders", GIVEN)
    schedule = Schedule.objects.create(
        name="daily", spider="orders", cron="0 6 * * *", arguments=task.arguments, enabled=True
    )
    settings_with(SECRET_KEY="b" * 50)
    with pytest.raises(SealError, match="CRAWLFRAME_SECRET_KEY"):
        DjangoLedger().tasks.spec(task.pk)
    Schedule.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    schedules.start_due()
    assert Run.objects.get().outcome == Run.Outcome.FAILED
    assert "CRAWLFRAME_SECRET_KEY" in Run.objects.get().problem
    assert schedule.name == "daily"


def test_reseal_encrypts_arguments_with_the_new_key(
    orders: SpiderInfo, settings_with: Callable[..., None]
) -> None:
    settings_with(SECRET_KEY="a" * 50)
    task = submit("orders", GIVEN)
    submit("orders", {"city": "Ulm", "token": ""})
    Schedule.objects.create(name="daily", spider="orders", arguments=task.arguments)
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=["a" * 50])
    call_command("store", "reseal")
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=[])
    for row in (Task.objects.get(pk=task.pk), Schedule.objects.get()):
        assert revealed(row.arguments)["logins"]["ann"] == Secret(NESTED)
    assert orjson.dumps(Task.objects.latest("pk").shown_arguments)
