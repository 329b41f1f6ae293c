"""Webhooks in the admin: the secret is shown once, a test is sent, failed deliveries are
visible."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from crawlservice.models import Action, Delivery, Event, Task, Webhook
from crawlservice.security.sealing import seal, unseal
from crawlservice.webhooks.deliveries import create_deliveries
from tests.crawlservice.receiver import Receiver
from tests.crawlservice.web import act, counted, log_in_as, texts

LIST = "/admin/crawlservice/webhook/"
DELIVERIES = "/admin/crawlservice/delivery/"


@pytest.fixture
def log_in(ended_task: Task) -> Callable[[str], Client]:
    create_deliveries()  # earlier events are not sent

    return log_in_as


@pytest.fixture
def administrator(log_in: Callable[[str], Client]) -> Client:
    return log_in("administrator")


def post(client: Client, place: str, **fields: Any) -> str:
    form = {"name": "ours", "url": "https://example.com/in", "spider": "", "enabled": "on"}
    answer = client.post(LIST + place, {**form, **fields}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def secret_of(webhook: Webhook) -> str:
    return unseal(webhook.sealed_secret)


def secret_in(page: str) -> str:
    found = re.search(r'id="secret">([^<]+)<', page)
    return found[1] if found else ""


def test_the_secret_is_shown_once(administrator: Client) -> None:
    page = post(administrator, "add/", kinds=["failed"])
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.kinds, webhook.enabled) == (
        "https://example.com/in", ["failed"], True,
    )  # fmt: skip
    secret = secret_of(webhook)
    assert secret_in(page) == secret
    assert len(secret) > 40
    assert secret not in str(list(Webhook.objects.values()))
    place = f"{LIST}{webhook.pk}/change/"
    for later in (LIST, place):
        assert secret not in administrator.get(later).content.decode()
    post(administrator, f"{webhook.pk}/change/", secret="mine", name="renamed")
    assert secret_of(Webhook.objects.get()) == secret
    assert secret not in str(list(Action.objects.values()))


def test_a_new_secret(administrator: Client) -> None:
    post(administrator, "add/")
    first = Webhook.objects.get()
    page = act(administrator, LIST, "renew_secret", first)
    assert secret_in(page) == secret_of(Webhook.objects.get()) != secret_of(first)
    post(administrator, "add/", name="other")
    before = set(Webhook.objects.values_list("sealed_secret", flat=True))
    assert "Select exactly one" in act(administrator, LIST, "renew_secret", *Webhook.objects.all())
    assert set(Webhook.objects.values_list("sealed_secret", flat=True)) == before


def test_only_web_addresses_are_taken(administrator: Client) -> None:
    for url in (
        "ftp://example.com/",
        "javascript:alert(1)",
        "nonsense",
        "",
    ):
        post(administrator, "add/", url=url)
        assert not Webhook.objects.exists()


def test_a_test_is_sent(administrator: Client, receiver: Receiver) -> None:
    post(administrator, "add/", url=receiver.url + "in")
    webhook = Webhook.objects.get()
    assert "ours accepted the test" in act(administrator, LIST, "send_test", webhook)
    receiver.answers["/in"] = 500
    page = act(administrator, LIST, "send_test", webhook)
    assert "it answered 500: &lt;b&gt;sorry&lt;/b&gt;" in page
    receiver.answers.clear()
    button = {"crawlservice_webhook_save_and_test": "1", "url": receiver.url + "other"}
    assert "ours accepted the test" in post(administrator, f"{webhook.pk}/change/", **button)
    assert [told.path for told in receiver.told] == ["/in", "/in", "/other"]
    verbs = list(Action.objects.exclude(verb="login").order_by("pk").values_list("verb", flat=True))
    assert verbs.count("test webhook") == 3


def deliver(problem: str = "", **fields: Any) -> Delivery:
    event = Event.objects.create(task=Task.objects.get(), kind="finished")
    create_deliveries()
    delivery = Delivery.objects.get(event=event)
    Delivery.objects.filter(pk=delivery.pk).update(problem=problem, **fields)
    return delivery


def test_deliveries_and_their_problems_are_seen_and_sent_again(administrator: Client) -> None:
    def look(query: str = "") -> str:
        return administrator.get(DELIVERIES + query).content.decode()

    post(administrator, "add/")
    gone = deliver("it answered 500: <script>", next_at=None, attempts=8)
    deliver(delivered_at=timezone.now(), next_at=None)
    deliver("it answered 503", attempts=1)
    page = look()
    assert "it answered 500: &lt;script&gt;" in page
    assert "<script>it" not in page
    for state, count in {"failed": 1, "sent": 1, "retrying": 1, "waiting": 0, "": 3}.items():
        assert len(set(re.findall(r"evt_\d+", look(f"?state={state}")))) == count
    assert f"evt_{gone.event_id}:" in look("?state=failed")
    act(administrator, DELIVERIES, "send_again", gone)
    gone.refresh_from_db()
    assert (gone.attempts, gone.delivered_at, gone.problem) == (0, None, "")
    assert gone.next_at is not None
    assert Action.objects.latest("pk").verb == "send again"
    assert administrator.get(f"{DELIVERIES}{gone.pk}/change/").status_code == 200


def test_lists_have_a_fixed_cost(administrator: Client) -> None:
    post(administrator, "add/")
    deliver("x")
    before = [counted(administrator, place)[1] for place in (LIST, DELIVERIES)]
    for n in range(4):
        post(administrator, "add/", name=f"{n}", kinds=["cancelled"])
        deliver("x")
    assert [counted(administrator, place)[1] for place in (LIST, DELIVERIES)] == before


@pytest.mark.parametrize("role", ["viewer", "submitter", "operator"])
def test_only_administrators_change_webhooks(
    log_in: Callable[[str], Client], receiver: Receiver, role: str
) -> None:
    webhook = Webhook.objects.create(
        name="x", url=receiver.url, sealed_secret=seal("whsec_c2VjcmV0")
    )
    delivery = deliver("x", next_at=None, attempts=8)
    client = log_in(role)
    may_look = 200 if role == "operator" else 403
    for place in (LIST, f"{LIST}{webhook.pk}/change/", DELIVERIES):
        answer = client.get(place)
        assert answer.status_code == may_look
        assert "whsec_c2VjcmV0" not in answer.content.decode()
    for place in ("add/", f"{webhook.pk}/change/", f"{webhook.pk}/delete/"):
        form = {"name": "y", "url": "https://example.com/", "post": "yes"}
        assert client.post(LIST + place, form).status_code == 403
    for action in ("send_test", "renew_secret", "delete_selected"):
        act(client, LIST, action, webhook)
    act(client, DELIVERIES, "send_again", delivery)
    assert secret_of(Webhook.objects.get()) == "whsec_c2VjcmV0"
    assert Delivery.objects.get().attempts == 8
    assert receiver.told == []
    assert not Action.objects.exclude(verb="login").exists()


def test_a_webhook_is_deleted_with_its_deliveries(administrator: Client) -> None:
    post(administrator, "add/")
    webhook = deliver("connection refused").webhook
    page = administrator.get(f"{LIST}{webhook.pk}/delete/").content.decode()
    assert "permission" not in page
    assert texts(page, "ul li")[-3:-1] == ["Webhooks: 1", "Deliveries: 1"]
    administrator.post(f"{LIST}{webhook.pk}/delete/", {"post": "yes"})
    assert not Webhook.objects.exists()
    assert not Delivery.objects.exists()
    assert Event.objects.exists()
    assert Action.objects.filter(verb="delete webhook").count() == 1


# -- user and password of an address --------------------------------------------------------------


def login_of(webhook: Webhook) -> str:
    return unseal(webhook.sealed_login)


def test_user_and_password_of_an_address_are_sent_and_shown_to_nobody(
    administrator: Client, receiver: Receiver
) -> None:
    address = receiver.url.replace("//", "//{}@") + "in"
    post(administrator, "add/", url=address.format("wjxwjxwjx:kfx%40zqzqzqzq"))
    webhook = Webhook.objects.get()
    assert webhook.url == address.format("***")
    assert login_of(webhook) == "wjxwjxwjx:kfx%40zqzqzqzq"
    assert "ours accepted the test" in act(administrator, LIST, "send_test", webhook)
    assert receiver.told[0].headers["Authorization"] == "Basic d2p4d2p4d2p4OmtmeEB6cXpxenF6cQ=="
    deliver("it answered 500")
    shown = [administrator.get(f"{LIST}{webhook.pk}/change/"), administrator.get(LIST)]
    shown.append(administrator.get(DELIVERIES))
    everything = "".join(page.content.decode() for page in shown)
    rows = str([*Webhook.objects.values(), *Action.objects.values(), *Delivery.objects.values()])
    for text in (everything, rows):
        assert "zqzqzqzq" not in text
        assert "wjxwjxwjx" not in text


def test_the_query_of_an_address_is_sent_and_shown_to_nobody(
    administrator: Client, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    path = f"{urlsplit(receiver.url).path}?token=wqzwqzwqz"
    receiver.texts[path], receiver.answers[path] = b"no such token: wqzwqzwqz", 403
    post(administrator, "add/", url=f"{receiver.url}?token=wqzwqzwqz")
    webhook = Webhook.objects.get()
    assert webhook.url == f"{receiver.url}?***"
    post(administrator, f"{webhook.pk}/change/", name="renamed", url=webhook.url)
    webhook = Webhook.objects.get()
    assert (webhook.name, login_of(webhook)) == ("renamed", "?token=wqzwqzwqz")
    assert "it answered 403: no such" in act(administrator, LIST, "send_test", webhook)
    assert receiver.told[0].path == path
    shown = [administrator.get(f"{LIST}{webhook.pk}/change/"), administrator.get(LIST)]
    everything = "".join(page.content.decode() for page in shown)
    rows = str([*Webhook.objects.values(), *Action.objects.values()])
    for text in (everything, rows, caplog.text):
        assert "wqzwqzwqz" not in text
    place = f"{webhook.pk}/change/"
    assert "enter user, password and query again" in post(
        administrator, place, url="https://evil.example/?***"
    )
    assert "enter user, password and query again" in post(
        administrator, place, url=receiver.url.replace("//", "//***@")
    )
    post(administrator, place, url=receiver.url)
    assert login_of(Webhook.objects.get()) == ""


def test_an_encoded_query_in_an_error_is_masked(administrator: Client) -> None:
    post(administrator, "add/", url="http://127.0.0.1:9/in?key=wäqzwqzöxq")
    webhook = Webhook.objects.get()
    shown = act(administrator, LIST, "send_test", webhook)
    assert "127.0.0.1:9/in" in shown
    for part in ("qzwqz", "C3%B6"):
        assert part not in shown


def test_a_masked_address_keeps_the_password_for_the_same_host_only(
    administrator: Client,
) -> None:
    post(administrator, "add/", url="https://ann:secret@example.com/in")
    place = f"{Webhook.objects.get().pk}/change/"
    post(administrator, place, url="https://***@example.com/other")
    webhook = Webhook.objects.get()
    assert (webhook.url, login_of(webhook)) == ("https://***@example.com/other", "ann:secret")
    for elsewhere in ("https://***@evil.example/", "http://***@example.com/in"):
        assert "enter user, password and query again" in post(administrator, place, url=elsewhere)
        assert Webhook.objects.get().url == "https://***@example.com/other"
    post(administrator, place, url="https://example.com/other")
    assert login_of(Webhook.objects.get()) == ""
    assert "enter user, password and query again" in post(
        administrator, "add/", name="new", url="https://***@example.com/"
    )
