"""Messages to targets: each service by its documented format, mail by a real SMTP server, webhooks
signed; private addresses, and secrets in addresses."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from aiosmtpd.smtp import AuthResult
from django.conf import settings

from crawlframe.base.secret import MASK
from crawlframe.fetch.requests.checked_adapter import CheckedAdapter
from crawlservice.alerts import channels, services
from crawlservice.alerts.channels import address_of, set_address
from crawlservice.alerts.outbox import test as send_test
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.models import AlertMessage, AlertTarget, Severity, Webhook
from crawlservice.security.masking import scrubbed
from crawlservice.webhooks.deliveries import give_secret
from tests.crawlservice.receiver import Receiver, verify

NODE = settings.CRAWLFRAME
LOOPBACK = replace(NODE, webhook_private=(ip_network("127.0.0.0/8"),))
TITLE, TEXT = "[Crawlframe] severe: shop #7 failed", "• shop #7 failed: <b>\n  http://x/admin/"


@pytest.fixture
def internet(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Leads all services to the receiver, by their own paths; returns the requested URLs."""
    asked: list[str] = []
    usual = CheckedAdapter.send

    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(request.url)
        request.url = receiver.url.rstrip("/") + urlsplit(request.url).path
        return usual(self, request, *args, **kwargs)

    monkeypatch.setattr(CheckedAdapter, "send", send)
    return asked


def send(address: str, node: Any = LOOPBACK) -> tuple[str, str]:
    return services.send(node, address, TITLE, TEXT, Severity.SEVERE)


def texts_in(content: Any) -> Iterator[str]:
    match content:
        case str():
            yield content
        case dict():
            for value in content.values():
                yield from texts_in(value)
        case list():
            for value in content:
                yield from texts_in(value)


SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"
TEAMS = (
    "workflows://prod-1.westus.logic.azure.com/643e69f83c8944/"
    "KQqD00Hv_BYjkmkGNIdA4_DwYIZyvDbRSHENqdcHxYA"
)
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/12315544"
DINGTALK = "dingtalk://5ab20a1b2c3d4e5f6a7b8c9d0e1f2a3b"
FEISHU = "feishu://b7f6c1d8e9a04b5c8d7e6f5a4b3c2d1e"
WECOM = "wecombot://693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa"


@pytest.mark.parametrize(
    ("address", "url", "needs", "answer"),
    [
        (
            SLACK,
            "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
            {"attachments"},
            b"ok",
        ),
        (
            "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
            "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
            {"attachments"},
            b"ok",
        ),
        (
            DISCORD,
            "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
            {"content"},
            b"",
        ),
        (
            TEAMS,
            "https://prod-1.westus.logic.azure.com/workflows/643e69f83c8944/triggers/manual/"
            "paths/invoke",
            {"type", "attachments"},
            b"",
        ),
        (
            TELEGRAM,
            "https://api.telegram.org/bot123456789:abcdefg_hijklmnop/sendMessage",
            {"chat_id", "text"},
            b'{"ok":true}',
        ),
        (
            DINGTALK,
            "https://oapi.dingtalk.com/robot/send?access_token=5ab20a1b2c3d4e5f6a7b8c9d0e1f2a3b",
            {"msgtype"},
            b'{"errcode":0,"errmsg":"ok"}',
        ),
        (
            "https://oapi.dingtalk.com/robot/send?access_token=5ab20a1b2c3d4e5f6a7b8c9d0e1f2a3b",
            "https://oapi.dingtalk.com/robot/send?access_token=5ab20a1b2c3d4e5f6a7b8c9d0e1f2a3b",
            {"msgtype"},
            b'{"errcode":0,"errmsg":"ok"}',
        ),
        (
            FEISHU,
            "https://open.feishu.cn/open-apis/bot/v2/hook/b7f6c1d8e9a04b5c8d7e6f5a4b3c2d1e/",
            {"msg_type", "content"},
            b'{"code":0,"msg":"success"}',
        ),
        (
            "https://open.feishu.cn/open-apis/bot/v2/hook/b7f6c1d8e9a04b5c8d7e6f5a4b3c2d1e",
            "https://open.feishu.cn/open-apis/bot/v2/hook/b7f6c1d8e9a04b5c8d7e6f5a4b3c2d1e/",
            {"msg_type", "content"},
            b'{"code":0,"msg":"success"}',
        ),
        (
            WECOM,
            "https://qyapi.weixin.qq.com/cgi-bin/webhook/send"
            "?key=693axxx6-7aoc-4bc4-97a0-0ec2sifa5aaa",
            {"msgtype", "text"},
            b'{"errcode":0,"errmsg":"ok"}',
        ),
    ],
)
def test_services_get_what_they_document(
    internet: list[str],
    receiver: Receiver,
    address: str,
    url: str,
    needs: set[str],
    answer: bytes,
) -> None:
    receiver.texts[urlsplit(url).path] = answer
    from crawlservice.alerts.channels import native

    problem, reply = send(native(address))
    assert problem == ""
    assert reply.startswith("it answered 200")
    assert internet == [url] or [internet[0].partition("?")[0]] == [url]
    (told,) = receiver.told
    assert needs <= told.content.keys()
    said = "\n".join(texts_in(told.content))
    assert "shop #7 failed" in said
    assert "/admin/" in said


@pytest.mark.parametrize(
    ("address", "path", "status", "text", "says"),
    [
        (SLACK, "/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", 404, b"no_service",
         "it answered 404: no_service"),
        (DINGTALK, "/robot/send", 200, b'{"errcode":310000,"errmsg":"keywords not in content"}',
         "keywords not in content"),
        (WECOM, "/cgi-bin/webhook/send", 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}',
         "invalid webhook url"),
        (FEISHU, "/open-apis/bot/v2/hook/b7f6c1d8e9a04b5c8d7e6f5a4b3c2d1e/", 200,
         b'{"code":19024,"msg":"Key Words Not Found"}', "Key Words Not Found"),
    ],
)  # fmt: skip
def test_what_a_service_refuses_has_failed(
    internet: list[str],
    receiver: Receiver,
    address: str,
    path: str,
    status: int,
    text: bytes,
    says: str,
) -> None:
    receiver.answers[path], receiver.texts[path] = status, text
    problem, _ = send(address)
    assert says in problem


def test_an_answer_that_repeats_the_token_is_masked(
    internet: list[str], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    receiver.answers[path] = 403
    receiver.texts[path] = b"token TIiajkdnlazkcOXrIdevi7FQ of T1JJ3T3L2 is bad"
    caplog.set_level(logging.DEBUG)
    problem, reply = send(SLACK)
    assert problem == f"it answered 403: token {MASK} of {MASK} is bad"
    for said in (problem, reply, caplog.text):
        assert "TIiajkdnlazkcOXrIdevi7FQ" not in said


def test_services_with_a_host_reach_only_public_addresses(receiver: Receiver) -> None:
    address = receiver.url.replace("http://", "json://")
    problem, _ = send(address, NODE)
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" in problem
    assert receiver.told == []
    problem, reply = send(address)
    assert (problem, reply) == ("", "it answered 200: <b>sorry</b>")
    (told,) = receiver.told
    assert told.content["title"] == TITLE
    assert told.content["type"] == "failure"


def test_redirects_are_not_followed(receiver: Receiver) -> None:
    receiver.location, receiver.answers["/"] = "/elsewhere", 302
    problem, _ = send(receiver.url.replace("http://", "json://"))
    assert "302" in problem
    assert [told.path for told in receiver.told] == ["/"]


def test_other_sessions_of_this_process_are_as_before(receiver: Receiver) -> None:
    import requests

    send(receiver.url.replace("http://", "json://"), NODE)
    assert requests.post(receiver.url, json={}, timeout=30).status_code == 200


def test_nothing_listens(receiver: Receiver) -> None:
    receiver.close()
    problem, reply = send(receiver.url.replace("http://", "json://"))
    assert problem == "ConnectionError: it did not answer"
    assert reply == ""


@pytest.mark.parametrize(
    ("kind", "address", "field"),
    [
        ("service", "syslog://", "address"),
        ("service", "nonsense", "address"),
        ("service", "https://example.com/hook", "address"),
        ("service", "mailto://user:pass@example.com", "address"),
        ("service", "dbus://", "address"),
        ("service", f"{TEAMS}?template=/etc/passwd", "address"),
        ("service", f"{TEAMS}?x=1;Template+=/etc/passwd", "address"),
        ("service", "fcm://project/token?keyfile=/etc/key.json", "address"),
        ("mail", "", "address"),
        ("mail", "nobody", "address"),
        ("mail", "a@example.com, b", "address"),
        ("webhook", "", "webhook"),
        ("pigeon", "x", "kind"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused(kind: str, address: str, field: str) -> None:
    with pytest.raises(BadRule) as caught:
        set_address(AlertTarget(name="x"), kind, address, None)
    assert caught.value.field == field
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "address", "shown"),
    [
        ("service", SLACK, f"slack://{MASK}"),
        ("service", TELEGRAM, f"tgram://{MASK}"),
        ("service", "https://discord.com/api/webhooks/4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
         f"https://discord.com/{MASK}"),
        ("mail", "ops@example.com;  on-call@example.com", "ops@example.com, on-call@example.com"),
    ],
)  # fmt: skip
def test_addresses_are_sealed_and_shown_masked(kind: str, address: str, shown: str) -> None:
    target = AlertTarget(name="x")
    set_address(target, kind, address, None)
    assert target.shown == shown
    assert address not in target.sealed_address
    assert address_of(target) in (address, shown)


def test_parts_of_an_address_are_scrubbed() -> None:
    text = "https://api.telegram.org/bot123456789:abcdefg_hijklmnop/sendMessage said no to 12315544"
    said = scrubbed(text, TELEGRAM)
    assert said == f"https://api.telegram.org/bot{MASK}:{MASK}/sendMessage said no to {MASK}"
    assert scrubbed("it answered 404", TELEGRAM) == "it answered 404"


# -- mail ------------------------------------------------------------------------------------------


class Mailbox(Message):
    """Keeps messages; refuses recipients whose names start with ``no``."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[EmailMessage] = []

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address.startswith("no"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    def prepare_message(self, session: Any, envelope: Any) -> Any:
        return message_from_bytes(envelope.content, policy=policy.default)

    def handle_message(self, message: Any) -> None:
        self.got.append(message)


@pytest.fixture
def mailbox(settings_with: Any) -> Iterator[Mailbox]:
    box = Mailbox()

    def login(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=data.password == b"geheim", handled=False)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Controller(
        box, hostname="127.0.0.1", port=port, authenticator=login, auth_require_tls=False
    )
    server.start()
    settings_with(
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=port,
        EMAIL_USE_TLS=False,
        DEFAULT_FROM_EMAIL="Crawls <crawls@example.com>",
    )
    yield box
    server.stop()


def mail(to: str, **fields: Any) -> tuple[str, str]:
    usual = {"key": "1f2e", "title": TITLE, "text": TEXT, "content": {}}
    message = channels.Outgoing("mail", to, None, severity=Severity.SEVERE, **(usual | fields))
    return channels.send(NODE, message)


def test_mail_arrives(mailbox: Mailbox, settings_with: Any) -> None:
    settings_with(EMAIL_HOST_USER="crawls", EMAIL_HOST_PASSWORD="geheim")
    assert mail("ops@example.com, boss@example.com") == ("", "127.0.0.1 accepted it")
    (got,) = mailbox.got
    assert got["Subject"] == TITLE
    assert got["To"] == "ops@example.com, boss@example.com"
    assert got["From"] == "Crawls <crawls@example.com>"
    assert got["Message-ID"] == "<1f2e@example.com>"
    assert got["Auto-Submitted"] == "auto-generated"
    assert got.get_content().replace("\r\n", "\n").strip() == TEXT


def test_a_title_with_line_breaks_makes_no_headers(mailbox: Mailbox) -> None:
    assert mail("ops@example.com", title="shop\nBcc: all@example.com")[0] == ""
    assert mailbox.got[0]["Subject"] == "shop Bcc: all@example.com"
    assert mailbox.got[0]["Bcc"] is None


def test_what_the_mail_server_refuses_has_failed(mailbox: Mailbox, settings_with: Any) -> None:
    problem, reply = mail("ops@example.com, nobody@example.com")
    assert problem == ""
    assert reply == "127.0.0.1 accepted it, but refused nobody@example.com: 550 no such user"
    mailbox.got.clear()
    problem, _ = mail("nobody@example.com")
    assert problem == "the mail server refused nobody@example.com: 550 no such user"
    settings_with(EMAIL_HOST_USER="crawls", EMAIL_HOST_PASSWORD="wrong-5511")
    problem, _ = mail("ops@example.com")
    assert problem.startswith("the mail server answered 535")
    assert "wrong-5511" not in problem
    assert mailbox.got == []


def test_without_a_mail_server_it_says_which_setting() -> None:
    assert "CRAWLFRAME_SMTP_HOST" in mail("ops@example.com")[0]


def test_a_mail_server_that_is_down(settings_with: Any) -> None:
    settings_with(
        EMAIL_HOST="127.0.0.1", EMAIL_PORT=1, DEFAULT_FROM_EMAIL="a@example.com",
    )  # fmt: skip
    assert mail("ops@example.com")[0].startswith("the mail server 127.0.0.1:1: ConnectionRefused")


# -- webhooks and tests of targets -----------------------------------------------------------------


def test_a_webhook_gets_it_signed(orm: str, receiver: Receiver, settings_with: Any) -> None:
    settings_with(CRAWLFRAME=LOOPBACK)
    webhook = Webhook(name="pager", url=f"{receiver.url}hook")
    secret = give_secret(webhook)
    webhook.save()
    target = AlertTarget(name="pager")
    set_address(target, "webhook", "", webhook)
    target.save()
    assert send_test(target) == ("", "it accepted it")
    (told,) = receiver.told
    assert verify(told, secret)
    assert told.content["kind"] == "alert"
    assert told.content["alert"]["condition"] == "test"
    assert told.content["title"] == "[Crawlframe] test"
    row = AlertMessage.objects.get()
    assert told.content["id"] == f"alert_{row.key}"
    assert row.sent_at is not None
    assert row.next_at is None

    Webhook.objects.update(enabled=False)
    target = AlertTarget.objects.get()
    problem, _ = send_test(target)
    assert problem == "its webhook is disabled; enable it under Webhooks"
    assert AlertMessage.objects.first().problem == problem  # type: ignore[union-attr]
    Webhook.objects.all()._raw_delete("default")  # as an older process does
    assert send_test(AlertTarget.objects.get())[0] == "its webhook was deleted; choose another"


def test_without_apprise_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "apprise", None)
    problem, _ = send(SLACK)
    assert "pip install 'crawlframe[alerts]'" in problem
